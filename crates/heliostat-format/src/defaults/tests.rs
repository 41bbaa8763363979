use super::{NewArray, NewBitmap, NewLeg, Plan};
use crate::{BitmapBits, DeviceFlags, Minor, Refusal, Role, Stamp, Uuid};

/// What mdadm made of legs of many sizes.
const SIZES: &str = include_str!("../../tests/golden/sizes.txt");

fn mirror(bitmap: Option<NewBitmap>) -> NewArray {
    NewArray {
        minor: Minor::Behind4K,
        set_uuid: Uuid(*b"0123456789abcdef"),
        name: "host:name".to_owned(),
        ctime: Stamp::new(1_700_000_000, 0),
        level: 1,
        layout: 0,
        chunk_sectors: 0,
        raid_disks: 2,
        missing: Vec::new(),
        bitmap,
        is_clean: true,
    }
}

fn leg(device_bytes: u64, number: u16) -> NewLeg {
    NewLeg {
        device_bytes,
        device_uuid: Uuid([7; 16]),
        flags: DeviceFlags::WRITE_MOSTLY,
        number,
    }
}

/// A row of the table: what was asked for, and the numbers that came of it.
fn row(line: &str) -> (NewArray, Vec<u64>, u64, Vec<&str>) {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |index: usize| words[index].parse::<u64>().unwrap();
    let leg_sectors = number(0);
    let legs: Vec<u64> = match words[1].strip_prefix('x') {
        Some(count) => vec![leg_sectors; count.parse().unwrap()],
        None => words[1]
            .split(',')
            .map(|leg| leg.parse().unwrap())
            .collect(),
    };
    let bitmap = match words[6] {
        "none" => None,
        "default" => Some(NewBitmap::default()),
        chunk => Some(NewBitmap {
            chunk_bytes: Some(chunk.parse().unwrap()),
            write_behind_max: 0,
        }),
    };
    let array = NewArray {
        minor: match words[2] {
            "1.0" => Minor::End,
            "1.1" => Minor::Start,
            _ => Minor::Behind4K,
        },
        level: words[3].parse().unwrap(),
        layout: u32::from_str_radix(words[4].strip_prefix("0x").unwrap(), 16).unwrap(),
        chunk_sectors: words[5].parse().unwrap(),
        raid_disks: u32::try_from(legs.len()).unwrap(),
        ..mirror(bitmap)
    };
    (array, legs, leg_sectors, words[7..].to_vec())
}

#[test]
fn arrays_are_those_that_mdadm_makes() {
    let mut rows = 0;
    for line in SIZES.lines().filter(|line| !line.starts_with('#')) {
        let (array, legs, leg_sectors, expected) = row(line);
        let legs: Vec<u64> = legs.iter().map(|sectors| sectors * 512).collect();
        let plan = array.plan(&legs).unwrap();
        let superblock = plan.superblock(&leg(leg_sectors * 512, 0)).unwrap();
        let of_bitmap = |number: i64| match plan.bitmap_chunk_bytes {
            Some(_) => number.to_string(),
            None => "-".to_owned(),
        };
        let mut found = vec![
            superblock.data_offset_sectors.to_string(),
            superblock.data_size_sectors.to_string(),
            superblock.size_sectors.to_string(),
            superblock.super_offset_sectors.to_string(),
            of_bitmap(i64::from(superblock.bitmap_offset_sectors)),
            superblock.bad_blocks_offset_sectors.to_string(),
        ];
        if expected[6] != "-" {
            let bitmap = plan.bitmap().unwrap();
            let head = bitmap.super_block();
            found.push(head.chunk_bytes.to_string());
            found.push(head.sync_size_sectors.to_string());
            // It fits where it is put.
            head.check(&superblock).unwrap();
        }
        assert_eq!(found, expected[..found.len()], "{line}");
        rows += 1;
    }
    assert!(rows > 150, "the table has {rows} rows");
}

#[test]
fn a_new_leg_says_what_it_is() {
    let plan = mirror(Some(NewBitmap::default()))
        .plan(&[20 << 20; 2])
        .unwrap();
    let superblock = plan.superblock(&leg(20 << 20, 1)).unwrap();
    assert_eq!(superblock.role(), Some(Role::Active(1)));
    assert_eq!(superblock.roles[..3], [0, 1, 0xffff].map(Role::from_number));
    assert_eq!(
        (superblock.name(), superblock.events),
        ("host:name".into(), 0)
    );
    assert_eq!(superblock.device_flags, DeviceFlags::WRITE_MOSTLY);
    assert_eq!(superblock.device_uuid, Uuid([7; 16]));
    let spare = plan.superblock(&leg(20 << 20, 2)).unwrap();
    assert_eq!(spare.role(), Some(Role::Spare));
    let many = plan.superblock(&leg(20 << 20, 300)).unwrap();
    assert_eq!(many.roles.len(), 301);
    let error = plan.superblock(&leg(20 << 20, 1920)).unwrap_err();
    assert!(
        error.to_string().starts_with("dev_number is 1920"),
        "{error}"
    );
    let error = plan.superblock(&leg(19 << 20, 0)).unwrap_err();
    assert!(
        error.to_string().starts_with("data_size is 36864"),
        "{error}"
    );
}

#[test]
fn legs_that_are_missing_leave_their_roles() {
    let array = NewArray {
        missing: vec![0],
        ..mirror(None)
    };
    let plan = array.plan(&[20 << 20]).unwrap();
    let superblock = plan.superblock(&leg(20 << 20, 1)).unwrap();
    assert_eq!(superblock.roles[..2], [Role::Spare, Role::Active(1)]);
}

#[test]
fn bits_are_set_where_legs_may_differ() {
    let bits = |is_clean| {
        let array = NewArray {
            is_clean,
            ..mirror(Some(NewBitmap {
                chunk_bytes: Some(4096),
                write_behind_max: 9,
            }))
        };
        let plan = array.plan(&[20 << 20; 2]).unwrap();
        let resync_offset = plan
            .superblock(&leg(20 << 20, 0))
            .unwrap()
            .resync_offset_sectors;
        let bits = plan.bitmap().unwrap();
        assert_eq!(BitmapBits::load(bits.bytes()).unwrap(), bits);
        assert_eq!(bits.super_block().write_behind_max, 9);
        (bits.count_set(), bits.chunks(), resync_offset)
    };
    assert_eq!(bits(true), (0, 4864, u64::MAX));
    assert_eq!(bits(false), (4864, 4864, 0));
}

#[test]
fn what_cannot_be_made_is_refused() {
    let told = |result: Result<Plan, Refusal>| result.unwrap_err().to_string();
    let plain = mirror(Some(NewBitmap::default()));
    let small = told(plain.plan(&[1 << 20; 2]));
    assert!(
        small.starts_with("the size of a leg is 1 MiB: behind"),
        "{small}"
    );
    // mdadm refuses this one as well: the first leg decides where data begins.
    let second = told(plain.plan(&[300 << 30, 100 << 20]));
    assert!(
        second.starts_with("the size of a leg is 100 MiB"),
        "{second}"
    );
    assert!(told(plain.plan(&[])).starts_with("raid_disks is 0"));
    for (chunk_bytes, expected) in [(4096, "4 KiB"), (3 << 20, "3 MiB"), (512, "512 B")] {
        let bitmap = Some(NewBitmap {
            chunk_bytes: Some(chunk_bytes),
            write_behind_max: 0,
        });
        let error = told(mirror(bitmap).plan(&[1 << 30; 2]));
        let start = format!("the bitmap's chunk is {expected}: it is a power of two, and for");
        assert!(error.starts_with(&start), "{error}");
    }
    let striped = NewArray {
        level: 10,
        layout: 0x102,
        chunk_sectors: 1024,
        raid_disks: 4,
        ..plain.clone()
    };
    assert!(striped.plan(&[16 << 20; 4]).is_ok());
    // mdadm made nothing of so little either.
    assert!(striped.plan(&[1536 << 10; 4]).is_err());
    let five = NewArray {
        level: 5,
        ..striped.clone()
    };
    assert!(told(five.plan(&[1 << 30; 4])).starts_with("level is 5"));
    let huge = told(striped.plan(&[u64::MAX; 4]));
    assert!(huge.starts_with("size is "), "{huge}");
}
