//! What heliostat says of arrays that another program made, for the tests that let the Linux kernel
//! judge (`cargo xtask test kernel`).
//!
//! `array_judge map ARRAY SIZE OFFSET LAYOUT CHUNK LEG...`: the array holds the bytes of the file
//! ARRAY. All of them lie on the files LEG where the address map says so, counted from OFFSET; SIZE
//! bytes are used of each leg.

#![expect(clippy::print_stdout, reason = "answers for whoever called it")]

use std::error::Error;
use std::fs;

use heliostat_engine::{Layout, Map};
use stdx::units::parse_size;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["map", array, size, offset, layout, chunk, legs @ ..] => {
            let mut layout = Layout::parse(layout)?;
            if let Layout::Raid10(raid10) = &mut layout {
                *raid10 = raid10.with_chunk_bytes(parse_size(chunk)?)?;
            }
            let map = Map::new(layout, legs.len(), parse_size(size)?)?;
            check_map(&map, &fs::read(array)?, parse_size(offset)?, legs)
        }
        _ => Err("see the beginning of array_judge.rs".into()),
    }
}

/// How finely the map is asked: no chunk is smaller, and none ends elsewhere.
const STEP_BYTES: usize = 4096;

/// Compares each copy of each byte of the array.
fn check_map(map: &Map, array: &[u8], offset: u64, legs: &[&str]) -> Result<()> {
    if array.len() as u64 != map.size_bytes() {
        let (is, should) = (array.len(), map.size_bytes());
        return Err(format!("the array has {is} bytes, and the map {should}").into());
    }
    let legs = legs.iter().map(fs::read);
    let legs: Vec<Vec<u8>> = legs.collect::<std::io::Result<_>>()?;
    let mut copies = 0_u64;
    for (bytes, address) in array.chunks(STEP_BYTES).zip((0..).step_by(STEP_BYTES)) {
        for place in map.places(address) {
            let start = usize::try_from(offset + place.address)?;
            let leg = legs[place.leg.index()].get(start..start + bytes.len());
            if leg != Some(bytes) {
                let text = format!("array address {address} is not at {place:?}");
                return Err(text.into());
            }
            if map.array_address(place.leg, place.address) != Some(address) {
                let text = format!("the map does not lead back from {place:?} to {address}");
                return Err(text.into());
            }
            copies += 1;
        }
    }
    println!("{copies} copies of blocks are where the map says");
    Ok(())
}
