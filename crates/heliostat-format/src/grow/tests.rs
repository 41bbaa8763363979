use super::{Growth, GrowthPlan, GrowthWrite};
use crate::assembly::{Assembly, Candidate, Member, Resync};
use crate::testing::{LEG_BYTES, bitmap_of, mirror_leg, striped_leg};
use crate::{
    BITMAP_PAGE_BYTES, BadBlocks, BitmapBits, BitmapSuper, Features, RESYNC_DONE, Refusal, Role,
    Stamp, Superblock,
};
use heliostat_types::SECTOR_BYTES;

/// How much each leg has room for when it is twice as large.
const ROOM: u64 = (2 * LEG_BYTES) / 512 - 2048;

fn candidate(superblock: Superblock) -> Candidate {
    let head = bitmap_of(&superblock);
    let chunks = head.chunks().unwrap();
    Candidate {
        name: format!("leg-{}", superblock.dev_number),
        superblock,
        bitmap: Some(BitmapBits::new(head, chunks)),
        bad_blocks: BadBlocks::new(8),
    }
}

fn mirror(legs: u16) -> Vec<Candidate> {
    (0..legs)
        .map(|leg| candidate(mirror_leg(leg, legs)))
        .collect()
}

fn plan(legs: &[Candidate], growth: Growth) -> Result<GrowthPlan, Refusal> {
    GrowthPlan::new(legs, &vec![2 * LEG_BYTES; legs.len()], growth, Stamp(5))
}

fn refusal(legs: &[Candidate], growth: Growth) -> String {
    plan(legs, growth).unwrap_err().to_string()
}

const fn legs(count: u32) -> Growth {
    Growth::Legs { count, new: 0 }
}

const MAX: Growth = Growth::Size {
    bytes: None,
    assume_clean: false,
};

fn apply(legs: &mut [Candidate], write: &GrowthWrite) {
    match write {
        GrowthWrite::Superblock { leg, superblock } => {
            // What was written is what is read.
            let bytes = superblock.to_bytes();
            legs[*leg].superblock = Superblock::parse(&bytes).unwrap();
        }
        GrowthWrite::BitmapPage { leg, sector, bytes } => {
            let leg = &mut legs[*leg];
            let at = sector - leg.superblock.bitmap_sector().unwrap();
            let at = usize::try_from(at).unwrap() * 512;
            let mut all = leg.bitmap.as_ref().unwrap().bytes().to_vec();
            all.resize(all.len().max(at + BITMAP_PAGE_BYTES), 0);
            all[at..at + BITMAP_PAGE_BYTES].copy_from_slice(bytes);
            leg.bitmap = Some(BitmapBits::load(&all).unwrap());
        }
    }
}

/// Cuts a growth after each of its writes: all legs are in sync, whoever assembles them, and what
/// is new is resynced. Done again from there it comes to the same end.
fn cut_everywhere(begin: &[Candidate], growth: Growth) -> Vec<Candidate> {
    let whole = plan(begin, growth).unwrap();
    let mut end = begin.to_vec();
    whole.writes.iter().for_each(|write| apply(&mut end, write));
    let sizes = [whole.before.array_sectors(), whole.after.array_sectors()];
    for count in 0..=whole.writes.len() {
        let mut legs = begin.to_vec();
        whole.writes[..count]
            .iter()
            .for_each(|write| apply(&mut legs, write));
        let assembly = Assembly::of(&legs).unwrap();
        assert_eq!(
            assembly.in_sync().count(),
            begin.len(),
            "after {count} writes"
        );
        assert!(assembly.left_out.is_empty());
        let fresh = &legs[assembly.freshest].superblock;
        let sectors = fresh.array_sectors();
        assert!(sizes.contains(&sectors), "{sectors:?}");
        if sectors != sizes[0] && matches!(growth, MAX) {
            assert_eq!(assembly.resync, Resync::Bits);
            let bits = assembly.bitmap.as_ref().unwrap();
            let chunk_sectors = u64::from(bits.super_block().chunk_bytes) / 512;
            let first = sizes[0].unwrap() / chunk_sectors;
            assert!((first..bits.chunks()).all(|chunk| bits.get(chunk)));
        } else {
            assert_eq!(assembly.resync, Resync::Nowhere);
        }
        // What each leg says by itself is in order.
        for leg in &legs {
            leg.superblock.check(2 * LEG_BYTES).unwrap();
            leg.bitmap
                .as_ref()
                .unwrap()
                .super_block()
                .check(&leg.superblock)
                .unwrap();
        }
        let again = plan(&legs, growth).unwrap();
        assert!(count == 0 || count < whole.writes.len() || again.writes.is_empty());
        again
            .writes
            .iter()
            .for_each(|write| apply(&mut legs, write));
        let shape = |leg: &Candidate| {
            let superblock = &leg.superblock;
            (
                superblock.raid_disks,
                superblock.size_sectors,
                superblock.roles.clone(),
            )
        };
        assert!(legs.iter().map(shape).eq(end.iter().map(shape)));
        let events: Vec<u64> = legs.iter().map(|leg| leg.superblock.events).collect();
        assert!(events.iter().all(|&own| own == events[0]), "{events:?}");
    }
    end
}

#[test]
fn a_mirror_gets_more_legs_and_fewer() {
    let end = cut_everywhere(&mirror(2), legs(3));
    assert!(end.iter().all(|leg| leg.superblock.raid_disks == 3));
    let assembly = Assembly::of(&end).unwrap();
    assert_eq!(assembly.members[2], Member::Missing);
    let back = cut_everywhere(&end, legs(2));
    assert!(back.iter().all(|leg| leg.superblock.raid_disks == 2));
    assert_eq!(back[0].superblock.events, 102);
    assert_eq!(plan(&back, legs(2)).unwrap().writes, []);
}

#[test]
fn legs_move_down_where_their_roles_are_no_more() {
    let mut three = mirror(3);
    three.remove(1);
    let end = cut_everywhere(&three, legs(2));
    assert_eq!(end[1].superblock.role(), Some(Role::Active(1)));
    assert_eq!(end[1].superblock.dev_number, 2);
    let words = refusal(&mirror(3), legs(2));
    assert!(
        words.contains("3 legs are there") && words.contains("heliostat fail"),
        "{words}"
    );
}

#[test]
fn new_legs_have_roles_that_nobody_has() {
    let growth = Growth::Legs { count: 4, new: 2 };
    let grown = plan(&mirror(2), growth).unwrap();
    let told: Vec<_> = grown
        .new_legs
        .iter()
        .map(|leg| (leg.dev_number, leg.role(), leg.recovery_offset_sectors))
        .collect();
    let roles = [Role::Active(2), Role::Active(3)];
    assert_eq!(told, [(2, Some(roles[0]), 0), (3, Some(roles[1]), 0)]);
    for leg in &grown.new_legs {
        assert!(leg.features.contains(Features::RECOVERY_OFFSET));
        assert_eq!((leg.events, leg.raid_disks), (101, 4));
    }
    // With them the array is put together, and they are not believed.
    let mut all = mirror(2);
    grown.writes.iter().for_each(|write| apply(&mut all, write));
    all.extend(grown.new_legs.iter().map(|leg| {
        let mut leg = candidate(leg.clone());
        leg.superblock.device_uuid.0[0] = 77;
        leg
    }));
    let assembly = Assembly::of(&all).unwrap();
    assert_eq!(assembly.in_sync().count(), 2);
    assert!(matches!(
        assembly.members[2],
        Member::Rebuilding {
            candidate: 2,
            from_sectors: 0,
            by_bitmap: false
        }
    ));
    // A role that is free already, and a number that nobody ever had.
    let mut degraded = mirror(3);
    degraded.remove(1);
    let growth = Growth::Legs { count: 3, new: 1 };
    let grown = plan(&degraded, growth).unwrap();
    assert_eq!(grown.new_legs[0].dev_number, 3);
    assert_eq!(grown.new_legs[0].role(), Some(Role::Active(1)));
    assert_eq!(grown.after.role_of(1), Some(Role::Spare));
    assert!(refusal(&mirror(2), Growth::Legs { count: 2, new: 1 }).contains("1 are new"));
}

#[test]
fn larger_legs_are_used_and_what_is_new_is_resynced() {
    let end = cut_everywhere(&mirror(3), MAX);
    for leg in &end {
        let superblock = &leg.superblock;
        assert_eq!(
            (superblock.size_sectors, superblock.data_size_sectors),
            (ROOM, ROOM)
        );
        assert_eq!(superblock.resync_offset_sectors, 38_912);
    }
    let growth = Growth::Size {
        bytes: Some(50_000 * SECTOR_BYTES),
        assume_clean: true,
    };
    let end = cut_everywhere(&mirror(2), growth);
    assert_eq!(end[0].superblock.size_sectors, 50_000);
    assert_eq!(end[0].superblock.resync_offset_sectors, RESYNC_DONE);
    assert_eq!(end[0].bitmap.as_ref().unwrap().count_set(), 0);
}

#[test]
fn the_bitmap_keeps_its_place_and_its_chunks_double() {
    // 38912 sectors in chunks of 8 KiB are 2432 bits: two sectors with the superblock, 6144 bits.
    let small = |mut leg: Candidate| {
        let head = BitmapSuper {
            chunk_bytes: 4096,
            ..bitmap_of(&leg.superblock)
        };
        leg.bitmap = Some(BitmapBits::new(head, head.chunks().unwrap()));
        leg
    };
    let legs: Vec<Candidate> = mirror(2).into_iter().map(small).collect();
    assert_eq!(legs[0].bitmap.as_ref().unwrap().chunks(), 4864);
    let end = cut_everywhere(&legs, MAX);
    let head = end[1].bitmap.as_ref().unwrap().super_block();
    // 79872 sectors are 9984 bits of 4 KiB, and there is room for 6144.
    assert_eq!((head.chunk_bytes, head.sectors_reserved), (8192, 2));
    assert_eq!((head.sync_size_sectors, head.events_cleared), (ROOM, 101));
    // With room written down they stay.
    let roomy = |mut leg: Candidate| {
        let bits = leg.bitmap.as_mut().unwrap();
        bits.set_super(BitmapSuper {
            sectors_reserved: 8,
            ..*bits.super_block()
        });
        leg
    };
    let legs: Vec<Candidate> = legs.into_iter().map(roomy).collect();
    let end = cut_everywhere(&legs, MAX);
    let head = end[1].bitmap.as_ref().unwrap().super_block();
    assert_eq!((head.chunk_bytes, head.sectors_reserved), (4096, 8));
}

#[test]
fn a_raid10_grows_by_whole_chunks_where_copies_stay_in_their_places() {
    let of = |layout: u32| -> Vec<Candidate> {
        (0..3)
            .map(|leg| {
                candidate(Superblock {
                    layout,
                    ..striped_leg(leg, 3)
                })
            })
            .collect()
    };
    let near = cut_everywhere(&of(0x102), MAX);
    // 78 chunks, of which 3 legs hold 117 twice.
    assert_eq!(near[0].superblock.size_sectors, 78 * 1024);
    assert_eq!(near[0].superblock.resync_offset_sectors, 57 * 1024);
    let offset = cut_everywhere(&of(0x1_0201), MAX);
    assert_eq!(offset[0].superblock.size_sectors, 78 * 1024);
    assert!(refusal(&of(0x201), MAX).contains("far"));
    let words = refusal(&of(0x102), legs(4));
    assert!(words.contains("mdadm --grow --raid-devices"), "{words}");
}

#[test]
fn what_cannot_grow_is_told() {
    let size = |sectors: u64| Growth::Size {
        bytes: Some(sectors * SECTOR_BYTES),
        assume_clean: false,
    };
    assert!(refusal(&mirror(2), size(30_000)).contains("would be cut off"));
    let byte = Growth::Size {
        bytes: Some(1),
        assume_clean: false,
    };
    let words = refusal(&mirror(2), byte);
    assert!(words.starts_with("the size of the legs is 1 B:"), "{words}");
    let words = refusal(&mirror(2), size(ROOM + 1));
    assert!(words.contains("leg-0 has room for"), "{words}");
    assert_eq!(plan(&mirror(2), size(38_912)).unwrap().writes, []);
    let mut dirty = mirror(2);
    for leg in &mut dirty {
        leg.superblock.resync_offset_sectors = 0;
    }
    let words = refusal(&dirty, MAX);
    let expected = ["not clean", "a resync has not come to its end"];
    assert!(expected.iter().all(|word| words.contains(word)), "{words}");
    assert!(refusal(&mirror(2)[..1], MAX).contains("leg 1 is not in sync"));
    assert!(refusal(&mirror(2), legs(17)).contains("1 to 16"));
    assert!(refusal(&mirror(2), legs(0)).contains("1 to 16"));
    assert!(refusal(&[], legs(2)).contains("no leg was named"));
    let mut replaced = mirror(3);
    let flags = Features::REPLACEMENT.with(Features::RECOVERY_OFFSET);
    for leg in &mut replaced {
        leg.superblock.raid_disks = 2;
        leg.superblock.roles[2] = Role::Active(1);
    }
    replaced[2].superblock.features = replaced[2].superblock.features.with(flags);
    for growth in [legs(3), MAX] {
        let words = refusal(&replaced, growth);
        assert!(words.contains("leg 1 is being replaced"), "{words}");
    }
    let mut at_end = mirror(2);
    for leg in &mut at_end {
        leg.superblock.super_offset_sectors = 40_944;
        leg.superblock.data_offset_sectors = 0;
    }
    assert!(refusal(&at_end, MAX).contains("behind the data"));
}
