use std::collections::BTreeSet;

use proptest::collection::{btree_set, vec};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use super::{BitmapBits, BitmapState, BitmapSuper};
use crate::{FormatError, Uuid};

/// A superblock in which no two fields have the same bytes, for 30721 chunks of 64 KiB.
fn full() -> BitmapSuper {
    BitmapSuper {
        version: 4,
        uuid: Uuid(*b"0123456789abcdef"),
        events: 0x1122_3344_5566,
        events_cleared: 0x2233_4455_6677,
        sync_size_sectors: 30_720 * 128 + 1,
        state: BitmapState::STALE,
        chunk_bytes: 65_536,
        daemon_sleep_seconds: 7,
        write_behind_max: 256,
        sectors_reserved: 88,
        nodes: 3,
        cluster_name: [0x41; 64],
    }
}

/// One of so many chunks of 512 bytes.
fn of_chunks(chunks: u64) -> BitmapSuper {
    BitmapSuper {
        chunk_bytes: 512,
        sync_size_sectors: chunks,
        ..BitmapSuper::default()
    }
}

#[test]
fn every_field_comes_back_from_where_md_has_it() {
    let bytes = full().to_bytes();
    assert_eq!(BitmapSuper::parse(&bytes).unwrap(), full());
    // Offsets of the bitmap's header in Linux.
    for (at, expected) in [
        (0, &b"bitm\x04\0\0\x000123456789abcdef"[..]),
        (24, &[0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0]),
        (32, &[0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0, 0]),
        (40, &[1, 0, 0x3c, 0, 0, 0, 0, 0]),
        (48, &[2, 0, 0, 0, 0, 0, 1, 0, 7, 0, 0, 0, 0, 1, 0, 0]),
        (64, &[88, 0, 0, 0, 3, 0, 0, 0, 0x41]),
        (135, &[0x41, 0]),
    ] {
        assert_eq!(&bytes[at..at + expected.len()], expected, "at {at}");
    }
}

#[test]
fn bits_lie_behind_the_superblock_lowest_first() {
    let mut bits = BitmapBits::new(full(), full().chunks().unwrap());
    assert_eq!((bits.chunks(), bits.page_count()), (30_721, 2));
    for chunk in [0, 3, 8, 30_719, 30_720] {
        assert!(!bits.get(chunk));
        assert!(bits.set(chunk), "it was clear");
        assert!(!bits.set(chunk), "it is set");
        assert!(bits.get(chunk));
    }
    assert_eq!(bits.page_of(30_719), 0);
    assert_eq!(bits.page_of(30_720), 1);
    assert_eq!(bits.page_bytes(0)[..256], full().to_bytes());
    assert_eq!(bits.page_bytes(0)[256..259], [0b1001, 1, 0]);
    assert_eq!(bits.page_bytes(0)[4095], 0x80);
    assert_eq!(bits.page_bytes(1)[..2], [1, 0]);
    assert_eq!(bits.iter_set().last(), Some(30_720));
    assert!(bits.clear(3), "it was set");
    assert!(!bits.clear(3), "it is clear");
    assert_eq!(bits.iter_set().collect::<Vec<_>>(), [0, 8, 30_719, 30_720]);
    assert_eq!(BitmapBits::load(bits.bytes()).unwrap(), bits);
}

#[test]
fn a_new_superblock_leaves_the_bits() {
    let mut bits = BitmapBits::new(of_chunks(10), 10);
    bits.set(0);
    let changed = BitmapSuper {
        events: 99,
        ..of_chunks(10)
    };
    bits.set_super(changed);
    assert_eq!(bits.super_block().events, 99);
    let loaded = BitmapBits::load(bits.bytes()).unwrap();
    assert_eq!(loaded.super_block(), &changed);
    assert!(loaded.get(0));
}

#[test]
fn bits_behind_the_last_chunk_do_not_count_and_stay() {
    let mut bytes = of_chunks(70).to_bytes().to_vec();
    bytes.resize(4096, 0xff);
    let mut bits = BitmapBits::load(&bytes).unwrap();
    assert_eq!(bits.count_set(), 70);
    assert_eq!((bits.next_set(69), bits.next_set(70)), (Some(69), None));
    assert_eq!(bits.bytes(), bytes);
    bits.clear_all();
    assert_eq!((bits.count_set(), bits.next_set(0)), (0, None));
    bits.set_all();
    assert_eq!(bits.iter_set().count(), 70);
}

#[test]
fn what_is_none_is_refused() {
    let refusal = |bytes: &[u8]| BitmapBits::load(bytes).unwrap_err();
    let good = of_chunks(10).to_bytes();
    assert!(matches!(
        refusal(&good[..255]),
        FormatError::Truncated { .. }
    ));
    assert!(refusal(&[0; 512]).to_string().starts_with("no md bitmap"));
    for version in [0, 1, 2, 3, 5, 6, 7] {
        let other = BitmapSuper {
            version,
            ..of_chunks(10)
        };
        let error = refusal(&[&other.to_bytes()[..], &[0; 64]].concat());
        assert_eq!(error, FormatError::BitmapVersion(version));
    }
    for chunk_bytes in [0, 1, 256, 513, 4095, 0x8000_0001, u32::MAX] {
        let other = BitmapSuper {
            chunk_bytes,
            ..of_chunks(10)
        };
        assert_eq!(
            refusal(&other.to_bytes()),
            FormatError::BitmapChunk(chunk_bytes)
        );
    }
    // As many bits as there could be: nothing is taken for what is not there.
    let error = refusal(&of_chunks(u64::MAX).to_bytes());
    let text = "the md bitmap is cut off: it has 2305843009213694208 bytes, and 256 are there";
    assert_eq!(error.to_string(), text);
    assert_eq!(of_chunks(u64::MAX).area_bytes().unwrap() % 4096, 0);
    let largest = BitmapSuper {
        chunk_bytes: 1 << 31,
        ..of_chunks(u64::MAX)
    };
    assert_eq!(largest.chunks(), Ok(1 << 42));
}

#[test]
fn an_area_is_whole_pages() {
    for (chunks, bytes) in [(0, 4096), (1, 4096), (30_720, 4096), (30_721, 8192)] {
        assert_eq!(of_chunks(chunks).area_bytes().unwrap(), bytes);
    }
    // Bits that are there are enough; the rest of the page is zero.
    let short = [&of_chunks(9).to_bytes()[..], &[0xff; 2]].concat();
    let bits = BitmapBits::load(&short).unwrap();
    assert_eq!((bits.count_set(), bits.bytes().len()), (9, 4096));
    assert!(BitmapBits::load(&short[..257]).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_loaded_or_refused(bytes in vec(any::<u8>(), 0..600)) {
        let mut bytes = bytes;
        let _ = BitmapBits::load(&bytes);
        if bytes.len() >= 64 {
            bytes[..8].copy_from_slice(b"bitm\x04\0\0\0");
            bytes[40..48].fill(0);
            let _ = BitmapBits::load(&bytes);
        }
    }

    #[test]
    fn bits_are_a_set(
        chunks in 1_u64..70_000,
        set in btree_set(0_u64..70_000, 0..60),
        others in btree_set(0_u64..70_000, 0..60),
        from in 0_u64..70_000,
    ) {
        let of = |set: &BTreeSet<u64>| {
            let mut bits = BitmapBits::new(of_chunks(chunks), chunks);
            for &chunk in set.range(..chunks) {
                bits.set(chunk);
            }
            bits
        };
        let mut bits = of(&set);
        let mut naive: BTreeSet<u64> = set.range(..chunks).copied().collect();
        prop_assert_eq!(bits.next_set(from), naive.range(from..).next().copied());
        bits.union_with(&of(&others));
        naive.extend(others.range(..chunks));
        prop_assert!(bits.iter_set().eq(naive.iter().copied()));
        prop_assert_eq!(bits.count_set(), naive.len() as u64);
        let loaded = BitmapBits::load(bits.bytes()).unwrap();
        prop_assert_eq!(&loaded, &bits);
        for chunk in naive {
            let page = bits.page_of(chunk);
            let before = bits.page_bytes(page).to_vec();
            prop_assert!(bits.clear(chunk));
            prop_assert!(before != bits.page_bytes(page), "its page changes");
        }
        prop_assert_eq!(bits, BitmapBits::new(of_chunks(chunks), chunks));
    }
}
