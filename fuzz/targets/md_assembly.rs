#![no_main]
//! Legs of an array whose superblocks and bitmaps say anything, with a sum that is right.
//!
//! The first byte chooses how many legs there are and how they begin; then each four bytes put a
//! value at a place of a leg. What is found on them is put together as the program does it.

use std::convert::Infallible;

use heliostat_format::assembly::{Assembly, Candidate, Member, Resync};
use heliostat_format::{BadBlocks, DeviceFlags, Minor, NewArray, NewBitmap, NewLeg, Search};
use heliostat_format::{Stamp, Superblock, Uuid};
use libfuzzer_sys::fuzz_target;

/// Small, so that bits and data lie near each other.
const LEG_BYTES: usize = 1100 << 10;

/// Where changes go: superblock, bitmap and bad-block log lie in the first 16 KiB.
const CHANGED_BYTES: usize = 16 << 10;

fuzz_target!(|bytes: &[u8]| {
    let (choice, changes) = bytes.split_first().unwrap_or((&0, &[]));
    let mut legs = legs(*choice);
    for change in changes.chunks_exact(4) {
        let leg = usize::from(change[0]) % legs.len();
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) % CHANGED_BYTES;
        legs[leg][at] = change[3];
    }
    let candidates: Vec<Candidate> = legs
        .iter_mut()
        .enumerate()
        .filter_map(|(index, leg)| candidate(index, leg))
        .collect();
    match Assembly::of(&candidates) {
        Ok(mut assembly) => {
            check(&assembly, &candidates);
            assembly.take_back(&candidates);
            check(&assembly, &candidates);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

/// Legs as they are made.
fn legs(choice: u8) -> Vec<Vec<u8>> {
    let count = 2 + choice % 3;
    let is_striped = choice & 4 != 0 && count == 4;
    let array = NewArray {
        minor: Minor::Behind4K,
        set_uuid: Uuid([7; 16]),
        name: "fuzz".to_owned(),
        ctime: Stamp(1),
        level: if is_striped { 10 } else { 1 },
        layout: if is_striped { 0x102 } else { 0 },
        chunk_sectors: if is_striped { 8 } else { 0 },
        raid_disks: u32::from(count),
        missing: Vec::new(),
        bitmap: (choice & 8 == 0).then_some(NewBitmap {
            chunk_bytes: Some(4096),
            write_behind_max: 0,
        }),
        is_clean: choice & 16 == 0,
    };
    let sizes = vec![LEG_BYTES as u64; usize::from(count)];
    let plan = array.plan(&sizes).expect("there is such an array");
    let leg = |number: u8| {
        let superblock = plan.superblock(&NewLeg {
            device_bytes: LEG_BYTES as u64,
            device_uuid: Uuid([number; 16]),
            flags: DeviceFlags::default(),
            number: u16::from(number),
        });
        let superblock = superblock.expect("the leg is as large as all");
        let mut bytes = vec![0; LEG_BYTES];
        let head = superblock.to_bytes();
        bytes[4096..4096 + head.len()].copy_from_slice(&head);
        if let Some(bits) = plan.bitmap() {
            bytes[8192..8192 + bits.bytes().len()].copy_from_slice(bits.bytes());
        }
        bytes[12_288..16_384].fill(0xff);
        bytes
    };
    (0..count).map(leg).collect()
}

/// What is found on a leg, after its sum was made right.
fn candidate(index: usize, leg: &mut [u8]) -> Option<Candidate> {
    if let Ok((_, sum)) = Superblock::checksums(&leg[4096..8192]) {
        leg[4096 + 216..4096 + 220].copy_from_slice(&sum.to_le_bytes());
    }
    let search = Search::run(leg.len() as u64, &mut |offset, len| {
        let start = usize::try_from(offset).expect("it is on the leg");
        Ok::<_, Infallible>(leg[start..start + len].to_vec())
    });
    let Ok(search) = search;
    let first = search.found.into_iter().next()?;
    if first.refusal.is_some() {
        return None;
    }
    Some(Candidate {
        name: index.to_string(),
        superblock: first.superblock,
        bitmap: first.bitmap.and_then(Result::ok),
        bad_blocks: first.bad_blocks?.unwrap_or_else(|_| BadBlocks::new(8)),
    })
}

/// What everybody below relies on.
fn check(assembly: &Assembly, candidates: &[Candidate]) {
    let fresh = &candidates[assembly.freshest].superblock;
    assert_eq!(assembly.members.len(), fresh.raid_disks as usize);
    assert!(assembly.in_sync().next().is_some());
    let mut seen: Vec<usize> = assembly.spares.clone();
    seen.extend(assembly.left_out.iter().map(|(index, _)| index));
    for member in &assembly.members {
        match *member {
            Member::InSync(candidate) => {
                let superblock = &candidates[candidate].superblock;
                assert!(
                    superblock.events + 1 >= fresh.events,
                    "a stale leg never wins"
                );
                seen.push(candidate);
            }
            Member::Rebuilding { candidate, .. } | Member::Returning { candidate, .. } => {
                seen.push(candidate);
            }
            Member::Missing => {}
        }
    }
    seen.sort_unstable();
    assert!(
        seen.into_iter().eq(0..candidates.len()),
        "each leg has one place"
    );
    let array_sectors = fresh.array_sectors().expect("it was checked");
    if let Some(bits) = &assembly.bitmap {
        let chunk_sectors = u64::from(bits.super_block().chunk_bytes / 512);
        assert_eq!(bits.chunks(), array_sectors.div_ceil(chunk_sectors));
    }
    if let Resync::From(sector) = assembly.resync {
        assert!(sector <= array_sectors);
    }
}
