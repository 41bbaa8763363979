//! What heliostat makes of arrays of Linux md, for the tests that let the kernel judge
//! (`cargo xtask test kernel`). It reads and writes files, one for each leg.
//!
//! * `pattern FILE BYTES TAG...`: writes a file with as many parts as there are tags: the pattern
//!   with each of them.
//! * `piece FILE TAG FROM COUNT`: writes a file with COUNT KiB of the pattern with this tag,
//!   beginning with the KiB FROM.
//! * `write WORD... -- LEG...`: makes an array that is described in words; see `write.rs`.
//! * `differ N,N LEG...`: makes copies differ in these regions of 64 KiB: the first one stays, the
//!   next ones have the tags a6, a7 and so on.
//! * `bytes LEG`: reads the metadata and puts it into bytes again, which must be the same; says
//!   what it read.
//! * `map ARRAY LEG...`: the legs have the bytes of the file ARRAY where the address map says so.
//! * `assembly LEG...`: what each leg is by the rules of assembly, in the words of the kernel, and
//!   where the legs in sync may differ.
//! * `tags FILE`: the tags of a whole array.
//! * `copies LEG...`: the tags of all copies of a whole array, in the order of the copies.
//! * `size LEG...`: how many KiB the array has.
//! * `hold FILE LEG...`: all legs in sync have the tags that the FILE allows, and the same ones
//!   where nothing says that they may differ; `?` stands for these places. The FILE has lines as in
//!   `0..4 a5,b5`.
//! * `hold-array FILE ARRAY`: a whole array has the tags that the FILE allows.
//! * `tear SEED COUNT LEG...`: makes copies differ, as `differ` does, in so many regions where all
//!   legs say that they may.
//!
//! A file without a superblock is a leg that is not there. Where two have the same role, it is the
//! one that heard more of the array.

#![expect(clippy::print_stdout, reason = "answers for whoever called it")]

mod hold;
mod leg;
mod pattern;
mod write;

use std::error::Error;
use std::fs;

use heliostat_engine::{Map, Place};
use heliostat_format::Role;
use heliostat_format::assembly::{Assembly, Candidate, Member, Resync};
use leg::Leg;
use stdx::units::parse_size;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How finely legs are looked at: no chunk is smaller, and none ends elsewhere.
const BLOCK_BYTES: usize = 4096;

/// What `differ` counts in.
const REGION_BYTES: u64 = 64 << 10;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["pattern", file, size, tags @ ..] => {
            let part = parse_size(size)? / tags.len().max(1) as u64;
            let mut parts = Vec::new();
            for tag in tags {
                parts.extend(pattern::bytes(u8::from_str_radix(tag, 16)?, 0, part));
            }
            fs::write(file, parts)?;
        }
        ["piece", file, tag, from, count] => {
            let (from, count): (u64, u64) = (from.parse()?, count.parse()?);
            let tag = u8::from_str_radix(tag, 16)?;
            fs::write(file, pattern::bytes(tag, from << 10, count << 10))?;
        }
        ["write", words @ ..] => {
            let mut parts = words.split(|&word| word == "--");
            let (Some(words), Some(legs)) = (parts.next(), parts.next()) else {
                return Err("write WORD... -- LEG...".into());
            };
            write::Description::parse(words, legs)?.write(legs)?;
        }
        ["differ", regions, legs @ ..] => {
            make_differ(&write::numbers(regions)?, &Legs::read(legs)?)?;
        }
        ["bytes", leg] => match Leg::read(leg)? {
            Some(leg) => leg.check_bytes()?,
            None => println!("no superblock"),
        },
        ["map", array, legs @ ..] => check_map(&fs::read(array)?, &Legs::read(legs)?)?,
        ["assembly", legs @ ..] => print_assembly(legs)?,
        ["tags", file] => {
            let array = fs::read(file)?;
            let tags =
                blocks(&array).map(|(address, block)| (address, pattern::tag(block, address)));
            print_runs(tags);
        }
        ["copies", legs @ ..] => print_copies(&Legs::read(legs)?)?,
        ["size", legs @ ..] => println!("{}", Legs::read(legs)?.map.size_bytes() >> 10),
        ["hold", file, legs @ ..] => hold::check(file, legs)?,
        ["hold-array", file, array] => hold::check_array(file, array)?,
        ["tear", seed, count, legs @ ..] => hold::tear(seed.parse()?, count.parse()?, legs)?,
        _ => return Err("see the beginning of array_judge/main.rs".into()),
    }
    Ok(())
}

/// The legs of an array, by their roles.
struct Legs {
    map: Map,
    by_role: Vec<Option<Leg>>,
}

impl Legs {
    fn read(names: &[&str]) -> Result<Self> {
        let mut legs = Vec::new();
        for name in names {
            legs.extend(Leg::read(name)?);
        }
        legs.sort_by_key(Leg::events);
        let map = legs.last().ok_or("no leg is there")?.map()?;
        let mut by_role: Vec<Option<Leg>> = Vec::new();
        by_role.resize_with(map.legs(), || None);
        for leg in legs {
            if let Some(place) = leg.role().and_then(|role| by_role.get_mut(role)) {
                *place = Some(leg);
            }
        }
        Ok(Self { map, by_role })
    }

    /// What a leg has at a place; `None` where it is not there.
    fn block(&self, place: Place, len: usize) -> Result<Option<&[u8]>> {
        let Some(leg) = &self.by_role[place.leg.index()] else {
            return Ok(None);
        };
        let block = leg.data(place.address, len);
        Ok(Some(block.ok_or_else(|| format!("no data at {place:?}"))?))
    }
}

/// The blocks of an array, and where each begins.
fn blocks(array: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let blocks = array.chunks(BLOCK_BYTES);
    (0..).step_by(BLOCK_BYTES).zip(blocks)
}

fn make_differ(regions: &[u64], legs: &Legs) -> Result<()> {
    for region in regions {
        let start = region * REGION_BYTES;
        for address in (start..start + REGION_BYTES).step_by(BLOCK_BYTES) {
            let places = legs.map.places(address).into_iter().enumerate();
            for (copy, place) in places.skip(1) {
                if let Some(leg) = &legs.by_role[place.leg.index()] {
                    let tag = pattern::FIRST + u8::try_from(copy)?;
                    let block = pattern::bytes(tag, address, BLOCK_BYTES as u64);
                    leg.write_data(place.address, &block)?;
                }
            }
        }
    }
    Ok(())
}

/// Compares each copy of each byte of the array.
fn check_map(array: &[u8], legs: &Legs) -> Result<()> {
    let map = &legs.map;
    if array.len() as u64 != map.size_bytes() {
        let (is, should) = (array.len(), map.size_bytes());
        return Err(format!("the array has {is} bytes, and the map {should}").into());
    }
    for (address, block) in blocks(array) {
        for place in map.places(address) {
            if legs
                .block(place, block.len())?
                .is_some_and(|is| is != block)
            {
                let text = format!("array address {address} is not at {place:?}");
                return Err(text.into());
            }
            if map.array_address(place.leg, place.address) != Some(address) {
                let text = format!("the map does not lead back from {place:?} to {address}");
                return Err(text.into());
            }
        }
    }
    Ok(())
}

fn print_copies(legs: &Legs) -> Result<()> {
    let mut copies = Vec::new();
    for address in (0..legs.map.size_bytes()).step_by(BLOCK_BYTES) {
        let mut tags = Vec::new();
        for place in legs.map.places(address) {
            let block = legs.block(place, BLOCK_BYTES)?;
            tags.push(block.map_or_else(|| "--".to_owned(), |block| pattern::tag(block, address)));
        }
        copies.push((address, tags.join(" ")));
    }
    print_runs(copies.into_iter());
    Ok(())
}

fn print_assembly(names: &[&str]) -> Result<()> {
    let mut candidates = Vec::new();
    for name in names {
        candidates.extend(Leg::read(name)?.map(|leg| leg.candidate()));
    }
    let assembly = Assembly::of(&candidates)?;
    for name in names {
        let index = candidates.iter().position(|leg| leg.name == *name);
        let state = index.map(|index| state_of(index, &candidates, &assembly));
        println!("{name} {}", state.unwrap_or_else(|| "out".to_owned()));
    }
    let is_mirror = candidates[assembly.freshest].superblock.level == 1;
    match assembly.resync {
        // The only leg of a mirror is equal to itself, and the kernel says so.
        _ if is_mirror && assembly.in_sync().count() == 1 => println!("resync none"),
        Resync::Nowhere => println!("resync none"),
        Resync::Bits => println!("resync 0"),
        Resync::From(sector) => println!("resync {sector}"),
    }
    Ok(())
}

/// What a candidate is: its role, and its state.
fn state_of(index: usize, candidates: &[Candidate], assembly: &Assembly) -> String {
    for (member, role) in assembly.members.iter().zip(0..) {
        match *member {
            Member::InSync(candidate) if candidate == index => return format!("{role} in_sync"),
            Member::Rebuilding { candidate, .. } if candidate == index => {
                return format!("{role} spare");
            }
            Member::InSync(_)
            | Member::Rebuilding { .. }
            | Member::Returning { .. }
            | Member::Missing => {}
        }
    }
    // One that was not there when the kernel started the array, and missed one event at most: the
    // kernel takes it for a spare. Heliostat does not forget what it holds.
    let own = &candidates[index].superblock;
    let fresh = &candidates[assembly.freshest].superblock;
    let is_forgotten = fresh.role_of(own.dev_number) == Some(Role::Spare)
        && own.events.saturating_add(1) >= fresh.events;
    let is_spare = assembly.spares.contains(&index) || is_forgotten;
    let state = if is_spare { "none spare" } else { "out" };
    state.to_owned()
}

/// Prints what is the same in neighbouring blocks as one line, with the KiB from and to which.
fn print_runs(blocks: impl Iterator<Item = (u64, String)>) {
    let mut runs: Vec<(u64, u64, String)> = Vec::new();
    for (address, text) in blocks {
        let end = address + BLOCK_BYTES as u64;
        match runs.last_mut() {
            Some(last) if last.2 == text => last.1 = end,
            _ => runs.push((address, end, text)),
        }
    }
    for (start, end, text) in runs {
        println!("{}..{} {text}", start >> 10, end >> 10);
    }
}
