use std::convert::Infallible;

use super::{Found, Search};
use crate::golden::{CASES, GoldenLeg, legs};
use crate::testing::{LEG_BYTES, bitmap_of, mirror_leg};
use crate::{BadBlocks, BitmapBits, Features, FormatError, Minor, Stamp, Superblock};

/// A leg in memory, zero but for some bytes.
struct Leg {
    device_bytes: u64,
    parts: Vec<(u64, Vec<u8>)>,
    /// What was read: how many bytes from where.
    reads: Vec<(u64, usize)>,
}

impl Leg {
    fn new(parts: &[(u64, &[u8])]) -> Self {
        Self {
            device_bytes: LEG_BYTES,
            parts: parts
                .iter()
                .map(|(sector, bytes)| (sector * 512, bytes.to_vec()))
                .collect(),
            reads: Vec::new(),
        }
    }

    fn golden(leg: &GoldenLeg) -> Self {
        let parts: Vec<(u64, &[u8])> = leg
            .parts
            .iter()
            .map(|(at, bytes)| (*at, &bytes[..]))
            .collect();
        Self {
            device_bytes: leg.device_bytes,
            ..Self::new(&parts)
        }
    }

    fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        assert!(offset + len as u64 <= self.device_bytes);
        self.reads.push((offset, len));
        (offset..offset + len as u64)
            .map(|at| {
                let part = self
                    .parts
                    .iter()
                    .find(|(start, bytes)| (*start..start + bytes.len() as u64).contains(&at));
                part.map_or(0, |(start, bytes)| {
                    bytes[usize::try_from(at - start).unwrap()]
                })
            })
            .collect()
    }

    fn search(&mut self) -> Search {
        let device_bytes = self.device_bytes;
        let search = Search::run(device_bytes, &mut |offset, len| {
            Ok::<_, Infallible>(self.read(offset, len))
        });
        search.unwrap()
    }

    fn found(&mut self) -> Vec<Found> {
        let search = self.search();
        assert!(search.broken.is_empty());
        search.found
    }
}

#[test]
fn all_of_a_leg_is_found() {
    for (case, text) in CASES {
        for golden in legs(text) {
            let found = Leg::golden(&golden).found();
            assert_eq!(found.len(), 1, "{case}");
            let found = &found[0];
            let is_refused = *case == "raid10-reshaping";
            assert_eq!(found.refusal.is_some(), is_refused, "{case}");
            if is_refused {
                continue;
            }
            let has_bitmap = found.superblock.features.contains(Features::BITMAP);
            assert_eq!(found.bitmap.is_some(), has_bitmap, "{case}");
            assert!(found.bitmap.as_ref().is_none_or(Result::is_ok), "{case}");
            let bad = found.bad_blocks.as_ref().unwrap().as_ref().unwrap();
            assert_eq!(bad.is_empty(), *case != "raid1-bad-blocks", "{case}");
        }
    }
}

#[test]
fn nothing_is_found_where_nothing_is() {
    assert!(Leg::new(&[]).found().is_empty());
    let mut tiny = Leg {
        device_bytes: 100,
        ..Leg::new(&[])
    };
    assert!(tiny.search().is_empty() && tiny.reads.is_empty());
}

#[test]
fn what_begins_as_a_superblock_and_is_none_is_told() {
    let mut bytes = mirror_leg(0, 2).to_bytes();
    bytes[220..224].copy_from_slice(&5000_u32.to_le_bytes());
    let search = Leg::new(&[(8, &bytes)]).search();
    assert!(search.found.is_empty() && !search.is_empty());
    let (place, error) = &search.broken[0];
    assert_eq!((place.sector, error), (8, &FormatError::TooManyRoles(5000)));
}

#[test]
fn the_array_that_was_made_last_comes_first() {
    let old = Superblock {
        ctime: Stamp::new(100, 0),
        ..mirror_leg(0, 2)
    };
    let new = Superblock {
        super_offset_sectors: 40_944,
        ctime: Stamp::new(200, 0),
        ..mirror_leg(0, 2)
    };
    let (old, new) = (old.to_bytes(), new.to_bytes());
    let found = Leg::new(&[(8, &old), (40_944, &new)]).found();
    let minors: Vec<Minor> = found.iter().map(|found| found.place.minor).collect();
    assert_eq!(minors, [Minor::End, Minor::Behind4K]);
    // A superblock that was copied to another place with what lies around it is not one of it.
    let found = Leg::new(&[(0, &old)]).found();
    assert!(found.is_empty());
}

#[test]
fn what_a_superblock_points_to_that_makes_no_sense_is_not_read() {
    let mut bytes = mirror_leg(0, 2).to_bytes();
    bytes[200] ^= 1;
    let mut leg = Leg::new(&[(8, &bytes)]);
    let found = leg.found();
    let told = found[0].refusal.as_ref().unwrap().to_string();
    assert!(told.starts_with("sb_csum is "), "{told}");
    assert_eq!(leg.reads.len(), 3, "the three places");
    let strange = Superblock {
        bitmap_offset_sectors: i32::MAX,
        ..mirror_leg(0, 2)
    };
    let mut leg = Leg::new(&[(8, &strange.to_bytes())]);
    assert_eq!(
        leg.found()[0].refusal.as_ref().unwrap().field,
        "bitmap_offset"
    );
    assert_eq!(leg.reads.len(), 3);
}

#[test]
fn a_bitmap_that_is_none_is_told_of() {
    let superblock = mirror_leg(0, 2);
    let told = |bitmap: &[u8]| {
        let found = Leg::new(&[(8, &superblock.to_bytes()), (16, bitmap)]).found();
        let bitmap = found[0].bitmap.clone().unwrap();
        bitmap.unwrap_err().to_string()
    };
    assert!(told(&[]).starts_with("the bitmap is no bitmap: no md bitmap"));
    let mut head = bitmap_of(&superblock);
    head.version = 6;
    assert!(told(&head.to_bytes()).starts_with("bitmap version is 6 (lockless)"));
    head.version = 4;
    head.chunk_bytes = 512;
    assert!(told(&head.to_bytes()).starts_with("bitmap chunksize is 512 for"));
}

#[test]
fn bits_and_bad_blocks_are_read_as_a_whole() {
    let mut superblock = mirror_leg(0, 2);
    superblock.features = superblock.features.with(Features::BAD_BLOCKS);
    let head = bitmap_of(&superblock);
    let mut bits = BitmapBits::new(head, head.chunks().unwrap());
    bits.set(303);
    let mut bad = BadBlocks::new(8);
    for index in 0..512 {
        bad.insert(index * 4..index * 4 + 1).unwrap();
    }
    let mut leg = Leg::new(&[
        (8, &superblock.to_bytes()),
        (16, bits.bytes()),
        (24, &bad.to_bytes()),
    ]);
    let found = leg.found().remove(0);
    assert_eq!(found.bitmap.unwrap().unwrap(), bits);
    assert_eq!(found.bad_blocks.unwrap().unwrap(), bad);
    let expected = [(4096, 4096), (8192, 256), (8192, 4096), (12_288, 4096)];
    assert!(expected.iter().all(|read| leg.reads.contains(read)));
    // Without the feature nobody has written the log.
    superblock.features = superblock.features.without(Features::BAD_BLOCKS);
    let mut leg = Leg::new(&[
        (8, &superblock.to_bytes()),
        (16, bits.bytes()),
        (24, &bad.to_bytes()),
    ]);
    let found = leg.found().remove(0);
    assert_eq!(found.bad_blocks.unwrap().unwrap(), BadBlocks::new(8));
}
