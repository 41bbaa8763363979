//! The model of the kernel's rules beside heliostat's own assembly, on random metadata.

use heliostat_format::assembly::{Assembly, Candidate, Resync};
use heliostat_format::{BadBlocks, BitmapBits, Superblock};
use heliostat_types::{Prng, RandomStream};

use super::tests::{BITMAP_CHUNK_SECTORS, Made, SECTORS, assembled};
use super::{KernelArray, Resyncs, Taken};

const SPARE: u16 = 0xffff;
const FAULTY: u16 = 0xfffe;

fn number(luck: &mut RandomStream, below: usize) -> usize {
    usize::try_from(luck.below(below as u64)).unwrap()
}

/// What all disks say that were written together: of the others, and whether they are equal.
#[derive(Clone, Debug)]
struct Said {
    roles: Vec<u16>,
    resync_offset: u64,
}

impl Said {
    fn random(luck: &mut RandomStream, count: usize) -> Self {
        let mut roles: Vec<u16> = (0..).take(count).collect();
        for role in &mut roles {
            if luck.below(6) == 0 {
                *role = [SPARE, FAULTY][number(luck, 2)];
            }
        }
        Self {
            roles,
            resync_offset: [u64::MAX, 0, 0, 24][number(luck, 4)],
        }
    }
}

/// Disks of one mirror that have heard of different things.
fn random_disks(luck: &mut RandomStream) -> Vec<Made> {
    let count = 2 + number(luck, 3);
    let said = [(); 3].map(|()| Said::random(luck, count));
    let mut disks = Vec::new();
    for index in 0..count {
        let later = [0, 1, 1, 1, 2][number(luck, 5)];
        let Said {
            roles,
            resync_offset,
        } = &said[later];
        let mut disk = Made::new(u32::try_from(index).unwrap(), roles);
        let events = 10 + later as u64;
        disk.u64(168, 77 + index as u64).events(events);
        if luck.below(4) == 0 {
            disk.u64(4096 + 24, events - 1);
        }
        disk.u64(208, *resync_offset);
        disk.bits([0, 0xff, 0b101][number(luck, 3)]);
        if luck.below(10) == 0 {
            disk.u32(8, 3).u64(152, 16);
        }
        disks.push(disk);
    }
    if luck.below(8) == 0 {
        for disk in &mut disks {
            disk.u32(8, 0).u32(96, 0);
        }
    }
    disks
}

fn candidate(disk: &Made) -> Candidate {
    let superblock = Superblock::parse(disk.raw(4096, 4096)).unwrap();
    let bitmap = superblock.bitmap_sector();
    Candidate {
        name: superblock.dev_number.to_string(),
        bitmap: bitmap.map(|_| BitmapBits::load(disk.raw(8192, 4096)).unwrap()),
        bad_blocks: BadBlocks::new(8),
        superblock,
    }
}

/// What differs where it must not.
fn difference(ours: &Assembly, theirs: &KernelArray, legs: &[Candidate]) -> Option<String> {
    let fresh = &legs[ours.freshest].superblock;
    let in_sync: Vec<usize> = ours.in_sync().collect();
    for (index, leg) in legs.iter().enumerate() {
        let is_ours = in_sync.contains(&index);
        let is_theirs = matches!(theirs.taken(index), Taken::InSync(_));
        // Who has just been given a role has it for md, and has no data yet for us.
        let told = fresh.role_of(leg.superblock.dev_number);
        let is_disputed = leg.superblock.role() != told;
        if is_ours && !is_theirs || is_theirs && !is_ours && !is_disputed {
            return Some(format!(
                "leg {index}: {:?} and {:?}",
                ours.members,
                theirs.taken(index)
            ));
        }
    }
    if !in_sync.iter().copied().eq(theirs.in_sync()) {
        return None;
    }
    for chunk in 0..SECTORS / BITMAP_CHUNK_SECTORS {
        let sector = chunk * BITMAP_CHUNK_SECTORS;
        let may_differ = match (ours.resync, &ours.bitmap) {
            (Resync::Nowhere, _) => false,
            (Resync::Bits, Some(bitmap)) => bitmap.get(chunk),
            (Resync::Bits, None) => true,
            (Resync::From(first), _) => sector >= first,
        };
        let resyncs = theirs.resyncs(sector);
        // md goes on where a resync was, and has nothing to do for one disk alone. A bitmap that
        // is out of date says nothing to us where another one is not.
        let is_excused = in_sync.len() == 1 || sector < fresh.resync_offset_sectors;
        let is_missed = resyncs == Resyncs::Surely && !may_differ;
        let is_needless = may_differ && resyncs == Resyncs::Not && !is_excused;
        if is_missed || is_needless {
            return Some(format!("chunk {chunk}: {:?} {resyncs:?}", ours.resync));
        }
    }
    None
}

#[test]
fn whom_heliostat_believes_md_believes_as_well() {
    let mut luck = RandomStream::new(11, "disks", 0);
    let (mut both, mut neither) = (0, 0);
    for _ in 0..5_000 {
        let disks = random_disks(&mut luck);
        let legs: Vec<Candidate> = disks.iter().map(candidate).collect();
        match (Assembly::of(&legs), assembled(&disks)) {
            (Ok(ours), Ok(theirs)) => {
                both += 1;
                let difference = difference(&ours, &theirs, &legs);
                assert_eq!(difference, None, "{legs:#?}");
            }
            (Err(_), Err(_)) => neither += 1,
            // It needs a leg that nobody disputes.
            (Err(_), Ok(_)) => {}
            (Ok(ours), Err(text)) => panic!("{text}: {:?} {legs:#?}", ours.members),
        }
    }
    assert!(both > 2_500 && neither > 3, "{both}, {neither}");
}
