use heliostat_types::{Extent, LEGS_MAX, LegId, LegSet};
use proptest::prelude::*;

use super::{CopyOrder, Layout, LayoutError, Map, Place, Raid10};

const CHUNK: u64 = 4096;

fn raid10(order: CopyOrder, copies: u32) -> Layout {
    Layout::Raid10(Raid10 {
        order,
        copies,
        chunk_bytes: CHUNK,
    })
}

/// What lies where: a line for each row, a column for each leg, the numbers of the chunks.
fn table_of(map: &Map) -> String {
    let rows = map.leg_bytes(LegId::new(0)) / CHUNK;
    let mut text = String::new();
    for row in 0..rows {
        let cells =
            (0..map.legs()).map(
                |leg| match map.array_address(LegId::new(leg), row * CHUNK) {
                    Some(offset) => format!("{:>2}", offset / CHUNK),
                    None => " -".to_owned(),
                },
            );
        text += &cells.collect::<Vec<_>>().join(" ");
        text.push('\n');
    }
    // The same from the other side.
    for offset in (0..map.size_bytes()).step_by(512) {
        for place in map.places(offset) {
            assert_eq!(map.array_address(place.leg, place.address), Some(offset));
        }
    }
    text
}

fn check(layout: Layout, legs: usize, rows: u64, expected: &str) {
    let map = Map::new(layout, legs, rows * CHUNK).unwrap();
    assert_eq!(table_of(&map), expected, "{layout} over {legs}");
}

// The tables are worked by hand: the logical chunk times `near`, divided by the number of disks,
// gives row and first disk; copies go to the next disk, those that wrap to the next row; a far copy
// is `near` disks further and a stride lower.

#[test]
fn near_2_over_3_as_md_has_it() {
    check(
        raid10(CopyOrder::Near, 2),
        3,
        5,
        concat!(
            " 0  0  1\n", //
            " 1  2  2\n", //
            " 3  3  4\n", //
            " 4  5  5\n", //
            " 6  6  -\n",
        ),
    );
}

#[test]
fn near_2_over_4_is_pairs_of_legs() {
    check(
        raid10(CopyOrder::Near, 2),
        4,
        2,
        concat!(" 0  0  1  1\n", " 2  2  3  3\n"),
    );
}

#[test]
fn far_2_over_4_as_md_has_it() {
    check(
        raid10(CopyOrder::Far, 2),
        4,
        7,
        concat!(
            " 0  1  2  3\n",
            " 4  5  6  7\n",
            " 8  9 10 11\n",
            " 3  0  1  2\n",
            " 7  4  5  6\n",
            "11  8  9 10\n",
            " -  -  -  -\n",
        ),
    );
}

#[test]
fn offset_2_over_4_as_md_has_it() {
    check(
        raid10(CopyOrder::Offset, 2),
        4,
        5,
        concat!(
            " 0  1  2  3\n",
            " 3  0  1  2\n",
            " 4  5  6  7\n",
            " 7  4  5  6\n",
            " -  -  -  -\n",
        ),
    );
}

#[test]
fn near_3_over_4_as_md_has_it() {
    check(
        raid10(CopyOrder::Near, 3),
        4,
        4,
        concat!(
            " 0  0  0  1\n",
            " 1  1  2  2\n",
            " 2  3  3  3\n",
            " 4  4  4  -\n",
        ),
    );
}

#[test]
fn copies_are_told_first_copy_first() {
    let places = |layout, legs, rows, chunk: u64| {
        let map = Map::new(layout, legs, rows * CHUNK).unwrap();
        let places = map.places(chunk * CHUNK + 700).into_iter();
        let rows = places.map(|place| {
            assert_eq!(place.address % CHUNK, 700);
            (place.leg.index(), place.address / CHUNK)
        });
        rows.collect::<Vec<_>>()
    };
    assert_eq!(
        places(raid10(CopyOrder::Near, 2), 3, 5, 1),
        [(2, 0), (0, 1)],
        "wrapped into the next row"
    );
    assert_eq!(
        places(raid10(CopyOrder::Far, 3), 4, 9, 7),
        [(3, 1), (0, 4), (1, 7)]
    );
    assert_eq!(
        places(raid10(CopyOrder::Offset, 2), 4, 4, 7),
        [(3, 2), (0, 3)]
    );
}

#[test]
fn legs_may_be_lost_while_every_chunk_keeps_a_copy() {
    let is_covered = |layout, legs, left: &[usize]| {
        let map = Map::new(layout, legs, 60 * CHUNK).unwrap();
        map.is_covered_by(left.iter().map(|&leg| LegId::new(leg)).collect())
    };
    let near = raid10(CopyOrder::Near, 2);
    assert!(is_covered(near, 4, &[1, 3]), "without 0 and 2");
    assert!(!is_covered(near, 4, &[2, 3]), "without 0 and 1");
    assert!(is_covered(near, 3, &[0, 1]));
    assert!(!is_covered(near, 3, &[1]));
    let far = raid10(CopyOrder::Far, 2);
    assert!(is_covered(far, 4, &[1, 3]));
    assert!(!is_covered(far, 4, &[0, 3]), "1 and 2 hold chunk 1 alone");
    assert!(is_covered(Layout::Mirror, 4, &[2]));
    assert!(!is_covered(Layout::Mirror, 4, &[]));
}

#[test]
fn a_map_for_a_size_is_as_small_as_can_be() {
    let legs = |layout, legs, chunks: u64| {
        let map = Map::for_size(layout, legs, chunks * CHUNK - 512).unwrap();
        assert_eq!(map.size_bytes(), chunks * CHUNK);
        map.leg_bytes(LegId::new(0)) / CHUNK
    };
    assert_eq!(legs(raid10(CopyOrder::Near, 2), 3, 7), 5);
    assert_eq!(legs(raid10(CopyOrder::Near, 2), 3, 6), 4);
    assert_eq!(legs(raid10(CopyOrder::Far, 2), 4, 9), 6);
    assert_eq!(legs(raid10(CopyOrder::Offset, 2), 4, 1), 2);
    let mirror = Map::for_size(Layout::Mirror, 3, 1 << 20).unwrap();
    assert_eq!(mirror.leg_bytes(LegId::new(2)), 1 << 20);
    assert_eq!(mirror.chunk_bytes(), 1 << 20);
}

#[test]
fn requests_are_cut_at_chunks() {
    let map = Map::new(raid10(CopyOrder::Near, 2), 4, 1 << 20).unwrap();
    let parts: Vec<Extent> = map.parts(Extent::new(4000, 8192)).collect();
    assert_eq!(
        parts,
        [
            Extent::new(4000, 96),
            Extent::new(4096, 4096),
            Extent::new(8192, 4000)
        ]
    );
    let mirror = Map::mirror(2, 1 << 40);
    let whole = Extent::new(1, 1 << 39);
    assert!(mirror.parts(whole).eq([whole]));
}

#[test]
fn what_cannot_be_is_refused() {
    let near = |copies| raid10(CopyOrder::Near, copies);
    let refused = |layout, legs, bytes| Map::new(layout, legs, bytes).unwrap_err();
    assert_eq!(
        refused(near(3), 2, 1 << 20),
        LayoutError::Copies { copies: 3, legs: 2 }
    );
    assert_eq!(
        refused(near(1), 2, 1 << 20),
        LayoutError::Copies { copies: 1, legs: 2 }
    );
    assert_eq!(refused(near(2), 0, 1 << 20), LayoutError::Legs(0));
    assert_eq!(refused(near(2), 17, 1 << 20), LayoutError::Legs(17));
    assert_eq!(refused(near(2), 2, 4095), LayoutError::LegSize(4095));
    assert_eq!(
        refused(near(2), 16, u64::MAX),
        LayoutError::LegSize(u64::MAX)
    );
    let chunk = Layout::Raid10(Raid10 {
        order: CopyOrder::Near,
        copies: 2,
        chunk_bytes: 6000,
    });
    assert_eq!(refused(chunk, 2, 1 << 20), LayoutError::Chunk(6000));
    let too_large = Map::for_size(near(2), 2, u64::MAX).unwrap_err();
    assert!(matches!(too_large, LayoutError::LegSize(_)), "{too_large}");
}

#[test]
fn a_small_array_needs_the_legs_that_a_large_one_needs() {
    let map = Map::new(raid10(CopyOrder::Near, 3), 4, CHUNK).unwrap();
    assert_eq!(map.size_bytes(), CHUNK, "of chunk 0 alone");
    let covers =
        |legs: &[usize]| map.is_covered_by(legs.iter().map(|&leg| LegId::new(leg)).collect());
    assert!(!covers(&[0]) && !covers(&[1]));
    assert!(covers(&[0, 1]));
}

#[test]
fn a_table_is_checked() {
    let place = |leg, address| Place {
        leg: LegId::new(leg),
        address,
    };
    let table = |places: &[Place]| Map::table(3, CHUNK, 2, places.to_vec());
    let map = table(&[place(2, 0), place(0, 8192), place(0, 0), place(1, 0)]).unwrap();
    assert_eq!(map.size_bytes(), 2 * CHUNK);
    assert_eq!(map.holders(CHUNK), LegSet::first(2));
    assert_eq!(map.leg_bytes(LegId::new(0)), 8192 + CHUNK);
    assert_eq!(map.array_address(LegId::new(0), 8200), Some(8));
    assert_eq!(map.array_address(LegId::new(0), 4096), None, "a hole");
    assert_eq!(
        map.on_leg(LegId::new(0), Extent::new(512, 512)),
        Extent::new(8704, 512)
    );
    assert!(map.is_covered_by(LegSet::first(1)), "leg 0 has all");
    let refused = |places: &[Place]| table(places).unwrap_err();
    let chunk = |chunk| LayoutError::Place { chunk };
    assert_eq!(refused(&[place(0, 0), place(0, 4096)]), chunk(0));
    assert_eq!(
        refused(&[place(0, 0), place(1, 0), place(2, 0), place(1, 0)]),
        chunk(1)
    );
    assert_eq!(refused(&[place(0, 0), place(3, 0)]), chunk(0));
    assert_eq!(refused(&[place(0, 0), place(1, 100)]), chunk(0));
    assert_eq!(
        refused(&[place(0, 0), place(1, 0), place(2, 0)]),
        chunk(1),
        "a copy is missing"
    );
    assert_eq!(refused(&[]), LayoutError::LegSize(0));
}

fn any_layout() -> impl Strategy<Value = (Map, u64)> {
    let orders = [CopyOrder::Near, CopyOrder::Far, CopyOrder::Offset];
    let order = proptest::sample::select(orders.to_vec());
    (order, 2..=LEGS_MAX, 2..=16u32, 1..200u64).prop_map(|(order, legs, copies, rows)| {
        let copies = copies.min(u32::try_from(legs).unwrap());
        let rows = rows.max(u64::from(copies));
        // Not only whole chunks.
        let leg_bytes = rows * CHUNK + rows % 7 * 512;
        let map = Map::new(raid10(order, copies), legs, leg_bytes).unwrap();
        (map, leg_bytes)
    })
}

proptest! {
    /// Every byte of the array has its copies on as many legs, no two bytes share a leg's byte, and
    /// all lie inside the legs.
    #[test]
    fn every_byte_has_places_of_its_own((map, leg_bytes) in any_layout()) {
        let mut taken = std::collections::BTreeSet::new();
        let copies = map.places(0).len();
        for offset in (0..map.size_bytes()).step_by(usize::try_from(CHUNK).unwrap()) {
            let places = map.places(offset);
            let holders: LegSet = places.iter().map(|place| place.leg).collect();
            prop_assert_eq!(holders.count(), copies);
            prop_assert_eq!(map.holders(offset), holders);
            for place in places {
                prop_assert!(place.address + CHUNK <= map.leg_bytes(place.leg));
                prop_assert!(map.leg_bytes(place.leg) <= leg_bytes);
                prop_assert!(taken.insert(place), "{:?} is used twice", place);
                let inside = Extent::new(offset + 512, 1024);
                prop_assert_eq!(
                    map.on_leg(place.leg, inside),
                    Extent::new(place.address + 512, 1024)
                );
                prop_assert_eq!(map.array_address(place.leg, place.address), Some(offset));
            }
        }
        for leg in (0..map.legs()).map(LegId::new) {
            for address in (0..leg_bytes).step_by(usize::try_from(CHUNK).unwrap()) {
                if map.array_address(leg, address).is_some() {
                    let place = Place { leg, address };
                    prop_assert!(taken.remove(&place), "{:?} is nobody's place", place);
                }
            }
        }
        prop_assert!(taken.is_empty(), "no byte is found again at {:?}", taken);
    }

    /// The legs that may be lost are those without which every chunk has a copy left.
    #[test]
    fn covered_is_what_each_chunk_says((map, _) in any_layout(), bits in any::<u16>()) {
        let left: LegSet = (0..map.legs())
            .filter(|leg| bits & 1 << leg != 0)
            .map(LegId::new)
            .collect();
        let mut chunks = (0..map.size_bytes()).step_by(usize::try_from(CHUNK).unwrap());
        let has_all_sets = map.size_bytes() >= CHUNK * map.legs() as u64;
        let each = chunks.all(|offset| !map.holders(offset).intersection(left).is_empty());
        prop_assert!(each || !map.is_covered_by(left));
        prop_assert!(!each || !has_all_sets || map.is_covered_by(left));
    }

    /// A map for a size has room for it, and one row less has not.
    #[test]
    fn no_room_is_wasted((map, _) in any_layout(), chunks in 1..3000u64) {
        let copies = u32::try_from(map.places(0).len()).unwrap();
        for order in [CopyOrder::Near, CopyOrder::Far, CopyOrder::Offset] {
            let layout = raid10(order, copies);
            let sized = Map::for_size(layout, map.legs(), chunks * CHUNK).unwrap();
            prop_assert_eq!(sized.size_bytes(), chunks * CHUNK);
            let leg_bytes = sized.leg_bytes(LegId::new(0));
            let full = Map::new(layout, map.legs(), leg_bytes).unwrap();
            prop_assert!(full.size_bytes() >= chunks * CHUNK);
            let smaller = Map::new(layout, map.legs(), leg_bytes - CHUNK);
            prop_assert!(smaller.is_ok_and(|map| map.size_bytes() < chunks * CHUNK)
                || leg_bytes < CHUNK * (u64::from(copies) + 1));
        }
    }
}
