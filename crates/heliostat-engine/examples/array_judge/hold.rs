//! What an array may hold, known from outside, beside what all of its legs in sync hold.

use std::fs;
use std::ops::Range;

use heliostat_engine::Place;
use heliostat_format::assembly::{Assembly, Candidate, Member, Resync};
use heliostat_types::SECTOR_BYTES;

use crate::leg::Leg;
use crate::{BLOCK_BYTES, Legs, REGION_BYTES, Result, pattern, print_runs};

/// An array as the rules of assembly see it: no leg that is not in sync is looked at.
struct Believed {
    legs: Legs,
    assembly: Assembly,
    candidates: Vec<Candidate>,
}

impl Believed {
    fn read(names: &[&str]) -> Result<Self> {
        let mut legs = Vec::new();
        for name in names {
            legs.extend(Leg::read(name)?);
        }
        let candidates: Vec<Candidate> = legs.iter().map(Leg::candidate).collect();
        let assembly = Assembly::of(&candidates)?;
        let map = legs[assembly.freshest].map()?;
        let mut legs: Vec<Option<Leg>> = legs.into_iter().map(Some).collect();
        let members = assembly.members.iter().map(|member| match *member {
            Member::InSync(candidate) => legs[candidate].take(),
            Member::Rebuilding { .. } | Member::Returning { .. } | Member::Missing => None,
        });
        let by_role = members.collect();
        Ok(Self {
            legs: Legs { map, by_role },
            assembly,
            candidates,
        })
    }

    /// Whether copies may differ at an array address: by what all legs together say, or, for
    /// whoever believes a single one, by what each of them says.
    fn may_differ(&self, address: u64, by_each: bool) -> bool {
        match self.assembly.resync {
            Resync::Nowhere => false,
            Resync::From(sector) => address >= sector.saturating_mul(SECTOR_BYTES),
            Resync::Bits if by_each => self.assembly.in_sync().all(|index| {
                let bitmap = self.candidates[index].bitmap.as_ref();
                bitmap.is_some_and(|bits| {
                    bits.get(address / u64::from(bits.super_block().chunk_bytes))
                })
            }),
            Resync::Bits => {
                self.assembly.bitmap.as_ref().is_some_and(|bits| {
                    bits.get(address / u64::from(bits.super_block().chunk_bytes))
                })
            }
        }
    }

    /// The copies of a block that are there, each with its number.
    fn copies(&self, address: u64) -> Result<Vec<(usize, Place, &[u8])>> {
        let mut copies = Vec::new();
        for (copy, place) in self.legs.map.places(address).into_iter().enumerate() {
            if let Some(block) = self.legs.block(place, BLOCK_BYTES)? {
                copies.push((copy, place, block));
            }
        }
        Ok(copies)
    }
}

/// Which tags blocks may have, in the order of their addresses: the KiB from and to which, and the
/// tags with commas between them.
struct Allowed(Vec<(Range<u64>, Vec<String>)>);

impl Allowed {
    fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().map(|line| {
            let (range, tags) = line.split_once(' ').ok_or("no tags")?;
            let (from, to) = range.split_once("..").ok_or("no range")?;
            let tags = tags.split(',').map(str::to_owned).collect();
            Ok((from.parse::<u64>()? << 10..to.parse::<u64>()? << 10, tags))
        });
        Ok(Self(lines.collect::<Result<_>>()?))
    }

    fn at(&self, address: u64) -> Result<&[String]> {
        let index = self.0.partition_point(|(range, _)| range.end <= address);
        let found = self
            .0
            .get(index)
            .filter(|(range, _)| range.contains(&address));
        let (_, tags) = found.ok_or_else(|| format!("nothing is said of {address}"))?;
        Ok(tags)
    }
}

/// All legs in sync hold what they may, and the same where they may not differ. Prints the tags;
/// `?` where copies may differ.
pub(crate) fn check(file: &str, names: &[&str]) -> Result<()> {
    let allowed = Allowed::parse(&fs::read_to_string(file)?)?;
    let believed = Believed::read(names)?;
    let mut seen = Vec::new();
    for address in (0..believed.legs.map.size_bytes()).step_by(BLOCK_BYTES) {
        let copies = believed.copies(address)?;
        let (_, _, first) = *copies.first().ok_or_else(|| {
            let at = address >> 10;
            format!("no leg in sync holds the KiB {at}")
        })?;
        for (_, place, block) in &copies {
            let tag = pattern::tag(block, address);
            let may = allowed.at(address)?;
            if !may.contains(&tag) {
                let (at, leg) = (address >> 10, place.leg.index());
                let text = format!("leg {leg} has {tag} at the KiB {at}, not one of {may:?}");
                return Err(text.into());
            }
            if *block != first && !believed.may_differ(address, false) {
                let (at, leg) = (address >> 10, place.leg.index());
                let first = pattern::tag(first, address);
                let text = format!(
                    "at the KiB {at} leg {leg} has {tag}, another one {first}, and nothing says so"
                );
                return Err(text.into());
            }
        }
        let tag = match believed.may_differ(address, false) {
            true => "?".to_owned(),
            false => pattern::tag(first, address),
        };
        seen.push((address, tag));
    }
    print_runs(seen.into_iter());
    Ok(())
}

/// A file with a whole array holds what it may.
pub(crate) fn check_array(file: &str, array: &str) -> Result<()> {
    let allowed = Allowed::parse(&fs::read_to_string(file)?)?;
    for (address, block) in crate::blocks(&fs::read(array)?) {
        let (tag, may) = (pattern::tag(block, address), allowed.at(address)?);
        if !may.contains(&tag) {
            let at = address >> 10;
            return Err(format!("the array has {tag} at the KiB {at}, not one of {may:?}").into());
        }
    }
    Ok(())
}

/// Makes copies differ in some regions where everybody knows that they may, as writes do that were
/// on their way when the power failed. Prints the regions, with the tags that are there now beside
/// the first copy's.
pub(crate) fn tear(seed: u64, count: usize, names: &[&str]) -> Result<()> {
    let believed = Believed::read(names)?;
    let regions = believed.legs.map.size_bytes() / REGION_BYTES;
    let mut torn: Vec<u64> = (0..regions)
        .filter(|region| {
            let start = region * REGION_BYTES;
            let mut blocks = (start..start + REGION_BYTES).step_by(BLOCK_BYTES);
            blocks.all(|address| believed.may_differ(address, true))
        })
        .collect();
    // Any order will do, as long as it follows from the seed.
    torn.sort_by_key(|region| (region ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    torn.truncate(count);
    torn.sort_unstable();
    for region in torn {
        let start = region * REGION_BYTES;
        let mut tags = Vec::new();
        for address in (start..start + REGION_BYTES).step_by(BLOCK_BYTES) {
            for (copy, place, _) in believed.copies(address)?.into_iter().skip(1) {
                let tag = pattern::FIRST + u8::try_from(copy)?;
                let block = pattern::bytes(tag, address, BLOCK_BYTES as u64);
                let leg = believed.legs.by_role[place.leg.index()].as_ref();
                leg.ok_or("it was just read")?
                    .write_data(place.address, &block)?;
                tags.push(format!("{tag:02x}"));
            }
        }
        tags.sort_unstable();
        tags.dedup();
        if !tags.is_empty() {
            let (from, to) = (start >> 10, (start + REGION_BYTES) >> 10);
            println!("{from}..{to} {}", tags.join(","));
        }
    }
    Ok(())
}
