#![no_main]
//! Any bytes where a leg's superblock, bitmap and bad-block log would be.

use heliostat_format::{
    BadBlocks, BitmapBits, BitmapSuper, Minor, Superblock, describe_bitmap, describe_superblock,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    superblock(bytes);
    bitmap(bytes);
    bad_blocks(bytes);
});

fn superblock(bytes: &[u8]) {
    let Ok(superblock) = Superblock::parse_damaged(bytes) else {
        return;
    };
    let sums = Superblock::checksums(bytes).expect("what is parsed has a sum");
    let written = superblock.to_bytes();
    let again = Superblock::parse(&written).expect("what is written is whole");
    if !superblock.has_unknown {
        assert_eq!(again, superblock);
    }
    let bits = BitmapSuper::parse(bytes).ok();
    describe_superblock(&superblock, Minor::Behind4K, sums, bits.as_ref());
    for device_bytes in [0, 1 << 20, 64 << 20, 1 << 40, u64::MAX] {
        if superblock.check(device_bytes).is_ok() {
            let end = superblock.data_offset_sectors + superblock.size_sectors;
            assert!(end <= device_bytes / 512);
            assert!(superblock.array_sectors().is_some());
        }
    }
}

fn bitmap(bytes: &[u8]) {
    let Ok(bits) = BitmapBits::load(bytes) else {
        return;
    };
    assert!(bits.bytes().len() <= bytes.len() + 4096);
    describe_bitmap(bits.super_block(), Some(&bits));
    assert_eq!(bits.iter_set().count() as u64, bits.count_set());
    assert_eq!(BitmapBits::load(bits.bytes()).as_ref(), Ok(&bits));
}

fn bad_blocks(bytes: &[u8]) {
    let (shift, log) = bytes.split_first().unwrap_or((&0, &[]));
    if let Ok(bad) = BadBlocks::parse(log, *shift) {
        assert!(bad.entries() <= bad.entries_max());
        assert_eq!(BadBlocks::parse(&bad.to_bytes(), 0), Ok(bad));
    }
}
