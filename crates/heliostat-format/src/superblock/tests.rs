use proptest::collection::vec;
use proptest::prelude::{any, prop_assert_eq, proptest};

use super::{CHECKSUM_AT, Minor, Place, ROLES_MAX, Role, Stamp, Superblock, Uuid};
use crate::{DeviceFlags, Features, FormatError};

/// A superblock in which no two fields have the same bytes.
fn full() -> Superblock {
    Superblock {
        features: Features(0x0102_0304),
        set_uuid: Uuid(*b"0123456789abcdef"),
        set_name: *b"some-host:some-array-of-ours\0\0\0\0",
        ctime: Stamp::new(1_700_000_000, 654_321),
        level: -4,
        layout: 0x1_0201,
        size_sectors: 0x1122_3344_5566,
        chunk_sectors: 1024,
        raid_disks: 5,
        bitmap_offset_sectors: -16,
        new_level: -1,
        reshape_position_sectors: 0x77_8899,
        delta_disks: -2,
        new_layout: 0x1234,
        new_chunk_sectors: 2048,
        new_offset_sectors: -3,
        data_offset_sectors: 264_192,
        data_size_sectors: 0x9988_7766,
        super_offset_sectors: 8,
        recovery_offset_sectors: 0xaabb_ccdd,
        dev_number: 3,
        corrected_reads: 17,
        device_uuid: Uuid(*b"fedcba9876543210"),
        device_flags: DeviceFlags(3),
        bad_blocks_shift: 4,
        bad_blocks_size_sectors: 9,
        bad_blocks_offset_sectors: -24,
        utime: Stamp(0x0123_4567_89ab_cdef),
        events: 0x0f0e_0d0c_0b0a,
        resync_offset_sectors: 0xfedc_ba98,
        logical_block_bytes: 4096,
        roles: vec![Role::Active(0), Role::Faulty, Role::Spare, Role::Journal],
        has_unknown: false,
    }
}

#[test]
fn every_field_comes_back() {
    let superblock = full();
    let bytes = superblock.to_bytes();
    assert_eq!(bytes.len(), 512);
    assert_eq!(Superblock::parse(&bytes).unwrap(), superblock);
}

#[test]
fn fields_lie_where_md_has_them() {
    // Offsets of md_p.h, by the first byte of each field in the order of `full`.
    let bytes = full().to_bytes();
    for (at, expected) in [
        (0, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0][..]),
        (8, &[4, 3, 2, 1, 0, 0, 0, 0]),
        (16, b"0123456789abcdefsome-host:"),
        (64, &1_700_000_000_u32.to_le_bytes()),
        (69, &[0xf1, 0xfb, 0x09]),
        (72, &[0xfc, 0xff, 0xff, 0xff, 1, 2, 1, 0]),
        (80, &[0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0]),
        (88, &[0, 4, 0, 0, 5, 0, 0, 0, 0xf0, 0xff, 0xff, 0xff]),
        (128, &[0, 8, 4, 0, 0, 0, 0, 0]),
        (144, &[8, 0, 0, 0, 0, 0, 0, 0]),
        (160, &[3, 0, 0, 0, 17, 0, 0, 0]),
        (168, b"fedcba9876543210\x03\x04\x09\x00\xe8\xff\xff\xff"),
        (200, &[0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0, 0]),
        (220, &[4, 0, 0, 0, 0, 16, 0, 0]),
        (256, &[0, 0, 0xfe, 0xff, 0xff, 0xff, 0xfd, 0xff, 0, 0]),
    ] {
        let end = at + expected.len();
        assert_eq!(&bytes[at..end], expected, "at {at}");
    }
}

#[test]
fn the_sum_is_folded_once() {
    // By hand: the head's words, the magic and the version, and 0xffff_ffff twice for the resync
    // offset: 0xa92b4efc + 1 + 8 + 2 * 0xffffffff = 0x2_a92b_4f03, folded 0xa92b4f05.
    let mut superblock = Superblock {
        resync_offset_sectors: super::RESYNC_DONE,
        roles: Vec::new(),
        ..Superblock::default()
    };
    let sum = |superblock: &Superblock| {
        let bytes = superblock.to_bytes();
        u32::from_le_bytes(bytes[CHECKSUM_AT..CHECKSUM_AT + 4].try_into().unwrap())
    };
    assert_eq!(sum(&superblock), 0xa92b_4f05);
    // One role is half a word, and one more role in the count.
    superblock.roles = vec![Role::Active(0x0102)];
    assert_eq!(sum(&superblock), 0xa92b_4f05 + 1 + 0x0102);
}

#[test]
fn a_changed_byte_is_seen() {
    let good = full().to_bytes();
    for at in (8..264).filter(|at| !(220..224).contains(at)) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x20;
        let error = Superblock::parse(&bytes).unwrap_err();
        assert!(matches!(error, FormatError::Checksum { .. }), "{at}");
        assert!(Superblock::parse_damaged(&bytes).is_ok());
    }
}

#[test]
fn what_is_none_is_refused() {
    let good = full().to_bytes();
    let refusal = |at: usize, value: &[u8], len: usize| {
        let mut bytes = good.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        Superblock::parse(&bytes[..len]).unwrap_err().to_string()
    };
    assert!(refusal(0, &[0], 512).starts_with("no md superblock"));
    assert!(refusal(4, &[2], 512).starts_with("major_version is 2"));
    let roles = refusal(220, &1921_u32.to_le_bytes(), 512);
    assert!(roles.starts_with("max_dev is 1921"), "{roles}");
    let roles = refusal(220, &u32::MAX.to_le_bytes(), 512);
    assert!(roles.starts_with("max_dev is 4294967295"), "{roles}");
    let cut = "the md superblock is cut off: it has 256 bytes, and 255 are there";
    assert_eq!(refusal(0, &[], 255), cut);
    let cut = "the md superblock is cut off: it has 264 bytes, and 263 are there";
    assert_eq!(refusal(0, &[], 263), cut);
}

#[test]
fn as_many_roles_as_fit_are_kept() {
    let roles = (0_u16..1920).map(Role::Active).collect();
    let superblock = Superblock { roles, ..full() };
    let bytes = superblock.to_bytes();
    assert_eq!((bytes.len(), ROLES_MAX), (4096, 1920));
    assert_eq!(Superblock::parse(&bytes).unwrap(), superblock);
    let usual = Superblock::default();
    assert_eq!(usual.to_bytes().len(), 512);
}

#[test]
fn bytes_without_meaning_are_noticed() {
    for at in [12, 15, 228, 255] {
        let mut bytes = full().to_bytes();
        bytes[at] = 1;
        assert!(Superblock::parse_damaged(&bytes).unwrap().has_unknown);
    }
}

#[test]
fn places_are_those_of_md() {
    let sectors = |device_bytes| {
        let places = Superblock::places(device_bytes);
        places
            .map(|Place { minor, sector }| (minor.to_string(), sector))
            .collect::<Vec<_>>()
    };
    let at = |minor: &str, sector| (minor.to_owned(), sector);
    // As `mdadm --examine` shows it for 1.0 on 100 MiB.
    let all = [at("1.2", 8), at("1.1", 0), at("1.0", 204_784)];
    assert_eq!(sectors(100 << 20), all);
    // An end that is no multiple of 4 KiB.
    let odd = Minor::End.place((100 << 20) + 7 * 512).unwrap();
    assert_eq!(odd.sector, 204_784);
    assert_eq!(sectors(8192), [at("1.2", 8), at("1.1", 0), at("1.0", 0)]);
    assert_eq!(sectors(8191), [at("1.1", 0)]);
    assert_eq!(sectors(4095), []);
    assert_eq!(
        Minor::Behind4K.place(u64::MAX).unwrap().offset_bytes(),
        4096
    );
}

#[test]
fn roles_and_offsets_are_looked_up() {
    let superblock = full();
    assert_eq!(superblock.role(), Some(Role::Journal));
    assert_eq!(superblock.role_of(0), Some(Role::Active(0)));
    assert_eq!(superblock.role_of(4), None);
    assert_eq!(superblock.name(), "some-host:some-array-of-ours");
    let mut strange = superblock.clone();
    strange.set_name[..4].copy_from_slice(b"\x1b[7\xff");
    assert!(strange.name().starts_with("\u{fffd}[7\u{fffd}"));
    assert_eq!(superblock.bitmap_sector(), None, "there is no such feature");
    let with_bitmap = |offset, place| Superblock {
        features: Features::BITMAP,
        bitmap_offset_sectors: offset,
        super_offset_sectors: place,
        ..full()
    };
    assert_eq!(with_bitmap(-16, 100).bitmap_sector(), Some(84));
    assert_eq!(with_bitmap(-16, 8).bitmap_sector(), None);
    assert_eq!(with_bitmap(8, u64::MAX).bitmap_sector(), None);
    assert_eq!(with_bitmap(8, 8).bitmap_sector(), Some(16));
    assert_eq!(with_bitmap(8, 100).bad_blocks_sector(), Some(76));
}

#[test]
fn identities_and_roles_are_told_as_mdadm_does() {
    let uuid = Uuid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
    assert_eq!(uuid.to_string(), "00010203:04050607:08090a0b:0c0d0eff");
    for (number, text) in [
        (7, "active 7"),
        (0xffff, "spare"),
        (0xfffe, "faulty"),
        (0xfffd, "journal"),
        (0xfffc, "active 65532"),
    ] {
        let role = Role::from_number(number);
        assert_eq!((role.to_number(), role.to_string()), (number, text.into()));
    }
    assert_eq!(Stamp::new(1_700_000_000, 5).seconds(), 1_700_000_000);
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in vec(any::<u8>(), 0..600)) {
        let _ = Superblock::parse(&bytes);
    }

    #[test]
    fn what_is_parsed_is_written_the_same(
        noise in vec(any::<u8>(), 4096),
        roles in 0_u16..=1920,
    ) {
        let mut bytes = noise;
        bytes[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
        bytes[12..16].fill(0);
        bytes[220..224].copy_from_slice(&u32::from(roles).to_le_bytes());
        bytes[228..256].fill(0);
        let superblock = Superblock::parse_damaged(&bytes).unwrap();
        let written = superblock.to_bytes();
        prop_assert_eq!(&Superblock::parse(&written).unwrap(), &superblock);
        let (_, sum) = Superblock::checksums(&bytes).unwrap();
        bytes[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        let len = 256 + 2 * usize::from(roles);
        prop_assert_eq!(&written[..len], &bytes[..len]);
    }
}
