use std::collections::BTreeSet;
use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use super::{BadBlocks, END, Full};
use crate::FormatError;

/// A log of one sector with these ranges.
fn of(ranges: &[Range<u64>]) -> BadBlocks {
    let mut bad = BadBlocks::new(1);
    for range in ranges {
        bad.insert(range.clone()).unwrap();
    }
    bad
}

/// All ranges as they are written in Rust.
fn ranges(bad: &BadBlocks) -> String {
    let ranges: Vec<String> = bad.ranges().map(|range| format!("{range:?}")).collect();
    ranges.join(" ")
}

/// The bytes of these entries.
fn log(entries: &[u64]) -> Vec<u8> {
    entries
        .iter()
        .flat_map(|entry| entry.to_le_bytes())
        .collect()
}

#[test]
fn ranges_that_touch_become_one() {
    for (added, expected) in [
        (20..30, "0..10 20..30 40..50"),
        (10..20, "0..20 40..50"),
        (5..45, "0..50"),
        (10..40, "0..50"),
        (45..46, "0..10 40..50"),
        (50..60, "0..10 40..60"),
        (30..30, "0..10 40..50"),
    ] {
        let mut bad = of(&[0..10, 40..50]);
        bad.insert(added.clone()).unwrap();
        assert_eq!(ranges(&bad), expected, "{added:?}");
    }
}

#[test]
fn what_was_written_is_good_again() {
    for (removed, expected) in [
        (10..40, "0..10 40..50"),
        (0..10, "40..50"),
        (2..4, "0..2 4..10 40..50"),
        (5..45, "0..5 45..50"),
        (0..100, ""),
        (60..70, "0..10 40..50"),
        (5..5, "0..10 40..50"),
    ] {
        let mut bad = of(&[0..10, 40..50]);
        bad.remove(removed.clone()).unwrap();
        assert_eq!(ranges(&bad), expected, "{removed:?}");
    }
}

#[test]
fn questions_are_about_sectors() {
    let bad = of(&[10..20, 40..50]);
    assert_eq!(bad.first_in(&(0..100)), Some(10..20));
    assert_eq!(bad.first_in(&(20..100)), Some(40..50));
    assert_eq!(bad.first_in(&(19..20)), Some(10..20));
    for range in [0..10, 20..40, 50..60, 15..15] {
        assert!(!bad.overlaps(&range), "{range:?}");
    }
    assert!(bad.overlaps(&(9..11)));
}

#[test]
fn a_full_log_stays_as_it_was() {
    let mut bad = BadBlocks::new(1);
    assert!(bad.is_empty());
    for index in 0..64 {
        bad.insert(index * 10..index * 10 + 3).unwrap();
    }
    let full = Full { entries_max: 64 };
    let before = bad.clone();
    assert_eq!((bad.entries(), bad.entries_max()), (64, 64));
    assert_eq!(bad.insert(1000..1001), Err(full));
    assert_eq!(bad.remove(1..2), Err(full), "it would fall in two");
    assert_eq!(bad, before);
    assert!(!bad.to_bytes().chunks(8).any(|entry| entry == [0xff; 8]));
    assert_eq!(BadBlocks::parse(&bad.to_bytes(), 0).unwrap(), bad);
    // What makes ranges one needs no further entry.
    bad.insert(3..10).unwrap();
    assert_eq!(bad.entries(), 63);
}

#[test]
fn long_ranges_take_several_entries() {
    let mut bad = of(&[]);
    bad.insert(1000..2025).unwrap();
    assert_eq!(bad.entries(), 3);
    let mut expected = log(&[1000 << 10 | 512, 1512 << 10 | 512, 2024 << 10 | 1]);
    expected.resize(512, 0xff);
    assert_eq!(bad.to_bytes(), expected);
    assert_eq!(BadBlocks::parse(&expected, 0).unwrap(), bad);
    // The whole of a leg does not fit.
    let mut bad = BadBlocks::new(8);
    assert!(bad.insert(0..1 << 54).is_err());
    assert!(bad.insert(0..512 * 512).is_ok());
}

#[test]
fn entries_are_read_up_to_the_end_of_the_list() {
    let parsed = |entries: &[u64], shift| {
        let mut bytes = log(entries);
        bytes.resize(512, 0);
        ranges(&BadBlocks::parse(&bytes, shift).unwrap())
    };
    assert_eq!(parsed(&[END, 5 << 10 | 1], 0), "");
    assert_eq!(parsed(&[5 << 10 | 1, END], 0), "5..6");
    assert_eq!(parsed(&[5 << 10 | 3, END], 3), "40..64", "in units of 8");
    // Nothing of a length of none, and those out of order are put in order.
    let strange = [9 << 10, 7 << 10 | 2, 5 << 10 | 3, END];
    assert_eq!(parsed(&strange, 0), "5..9");
}

#[test]
fn nonsense_is_refused() {
    let refusal = |entry: u64, shift| {
        let mut bytes = log(&[entry]);
        bytes.resize(512, 0xff);
        BadBlocks::parse(&bytes, shift).unwrap_err()
    };
    let last = (1_u64 << 54) - 1;
    let range = |entry, shift| FormatError::BadBlockRange { entry, shift };
    assert_eq!(refusal(last << 10 | 2, 0), range(last << 10 | 2, 0));
    assert_eq!(refusal(last << 10 | 1, 1), range(last << 10 | 1, 1));
    assert_eq!(refusal(1 << 10 | 1, 255), range(1 << 10 | 1, 255));
    // Lengths that Linux has no room for in memory, more than the log has entries.
    let many: Vec<u64> = (0..64).map(|index| (index * 2000) << 10 | 1023).collect();
    let error = BadBlocks::parse(&log(&many), 0).unwrap_err();
    assert_eq!(error, FormatError::BadBlocksFull { entries_max: 64 });
    assert!(BadBlocks::parse(&[], 0).unwrap().is_empty());
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in vec(any::<u8>(), 0..600), shift in any::<u8>()) {
        if let Ok(bad) = BadBlocks::parse(&bytes, shift) {
            let whole = bytes.len() / 8 * 8;
            let written = bad.to_bytes();
            prop_assert_eq!(written.len(), whole);
            prop_assert_eq!(BadBlocks::parse(&written, 0).unwrap(), bad);
        }
    }

    #[test]
    fn ranges_are_a_set_of_sectors(
        steps in vec((any::<bool>(), 0_u64..300, 0_u64..40), 0..200),
        asked in 0_u64..340,
        len in 0_u64..40,
    ) {
        let mut bad = BadBlocks::new(8);
        let mut naive: BTreeSet<u64> = BTreeSet::new();
        for (is_bad, start, len) in steps {
            let range = start..start + len;
            if is_bad {
                bad.insert(range.clone()).unwrap();
                naive.extend(range);
            } else {
                bad.remove(range.clone()).unwrap();
                naive.retain(|sector| !range.contains(sector));
            }
        }
        let sectors: BTreeSet<u64> = bad.ranges().flatten().collect();
        prop_assert_eq!(&sectors, &naive);
        let apart = bad.ranges().zip(bad.ranges().skip(1));
        prop_assert!(apart.into_iter().all(|(low, high)| low.end < high.start));
        let asked = asked..asked + len;
        prop_assert_eq!(bad.overlaps(&asked), naive.range(asked).next().is_some());
        prop_assert_eq!(BadBlocks::parse(&bad.to_bytes(), 0).unwrap(), bad);
    }
}

#[test]
fn entries_do_not_move_when_others_come_and_go() {
    let entry = |start: u64, len: u64| start << 10 | len;
    let mut bad = BadBlocks::new(1);
    bad.insert(40..50).unwrap();
    let first = bad.to_bytes();
    bad.insert(0..10).unwrap();
    let second = bad.to_bytes_after(&first).unwrap();
    assert_eq!(second[..24], log(&[entry(40, 10), entry(0, 10), END]));
    bad.insert(10..20).unwrap();
    let third = bad.to_bytes_after(&second).unwrap();
    assert_eq!(third[..24], log(&[entry(40, 10), entry(0, 20), END]));
    bad.remove(40..50).unwrap();
    let fourth = bad.to_bytes_after(&third).unwrap();
    assert_eq!(fourth[..24], log(&[entry(0, 20), entry(0, 20), END]));
    assert_eq!(BadBlocks::parse(&fourth, 0), Ok(bad.clone()));
    bad.remove(5..6).unwrap();
    // What is in two now stays whole until both are there.
    let fifth = bad.to_bytes_after(&fourth).unwrap();
    let (head, tail) = (entry(0, 5), entry(6, 14));
    assert_eq!(fifth[..32], log(&[entry(0, 20), head, tail, END]));
    let sixth = bad.to_bytes_after(&fifth).unwrap();
    assert_eq!(sixth[..32], log(&[tail, head, tail, END]));
    assert_eq!(BadBlocks::parse(&sixth, 0), Ok(bad.clone()));
    bad.remove(0..100).unwrap();
    assert!(
        bad.to_bytes_after(&sixth)
            .unwrap()
            .iter()
            .all(|&b| b == 255)
    );
}

#[test]
fn what_finds_no_place_beside_the_others_is_refused() {
    let mut bad = BadBlocks::new(1);
    for n in 0..64 {
        bad.insert(n * 4..n * 4 + 1).unwrap();
    }
    let full = bad.to_bytes();
    bad.remove(8..9).unwrap();
    bad.insert(1000..1001).unwrap();
    let replaced = bad.to_bytes_after(&full).unwrap();
    assert_eq!(BadBlocks::parse(&replaced, 0), Ok(bad.clone()));
    // Two of one: there is no room for both beside the whole.
    bad.insert(1001..1003).unwrap();
    let whole = bad.to_bytes_after(&replaced).unwrap();
    bad.remove(4..5).unwrap();
    bad.remove(1001..1002).unwrap();
    let entries_max = 64;
    assert_eq!(bad.to_bytes_after(&whole), Err(Full { entries_max }));
}

#[test]
fn what_is_counted_from_elsewhere_is_the_same() {
    let bad = of(&[0..10, 40..50, 1000..3000]);
    assert_eq!(ranges(&bad.moved_up(7)), "7..17 47..57 1007..3007");
    assert_eq!(bad.moved_up(7).counted_from(7), bad);
    assert_eq!(ranges(&bad.counted_from(45)), "0..5 955..2955");
    assert!(bad.counted_from(3000).is_empty());
}

proptest! {
    /// A log of eight sectors in a long life, of which a power cut may leave any sector behind.
    #[test]
    fn a_power_cut_forgets_nothing(
        steps in vec((any::<bool>(), 0_u64..3_000, 1_u64..700, any::<u8>()), 1..120),
    ) {
        let mut bad = BadBlocks::new(8);
        let mut on_leg = bad.to_bytes();
        for (is_bad, start, len, cut) in steps {
            let before = BadBlocks::parse(&on_leg, 0).unwrap();
            let range = start * 3..start * 3 + len;
            if is_bad {
                bad.insert(range).unwrap();
            } else {
                bad.remove(range).unwrap();
            }
            let new = bad.to_bytes_after(&on_leg).unwrap();
            let known = BadBlocks::parse(&new, 0).unwrap();
            for range in bad.ranges() {
                prop_assert_eq!(known.first_in(&range).map(|known| {
                    known.start <= range.start && range.end <= known.end
                }), Some(true));
            }
            let mut torn = new.clone();
            for sector in (0..8).filter(|sector| cut >> sector & 1 == 1) {
                let sector = sector * 512..(sector + 1) * 512;
                torn[sector.clone()].copy_from_slice(&on_leg[sector]);
            }
            let torn = BadBlocks::parse(&torn, 0).unwrap();
            for range in bad.ranges() {
                for sector in range.filter(|at| before.overlaps(&(*at..at + 1))) {
                    prop_assert!(torn.overlaps(&(sector..sector + 1)), "{sector}");
                }
            }
            on_leg = new;
        }
        let mut writes = 0;
        loop {
            let new = bad.to_bytes_after(&on_leg).unwrap();
            if new == on_leg {
                break;
            }
            on_leg = new;
            writes += 1;
            prop_assert!(writes < 10);
        }
        prop_assert_eq!(BadBlocks::parse(&on_leg, 0).unwrap(), bad);
    }
}
