//! The rules one by one, on disks written here.

use heliostat_engine::{CopyOrder, Layout, Map, Raid10};
use heliostat_types::{LegId, Prng, RandomStream};

use super::disk::{Fields, checksum};
use super::map::KernelMap;
use super::{Copy, Disk, KernelArray, Resyncs, Taken, assemble};

/// A disk to be written: 512 KiB of data behind the first 64 KiB.
#[derive(Clone, Debug)]
pub(super) struct Made {
    bytes: Vec<u8>,
}

const DATA_SECTOR: u64 = 128;
pub(super) const SECTORS: u64 = 1024;
/// 4 KiB.
pub(super) const BITMAP_CHUNK_SECTORS: u64 = 8;
const ACTIVE: u64 = 0;
const FAULTY: u16 = 0xfffe;
const SPARE: u16 = 0xffff;

impl Made {
    /// Disk number `number` of a mirror in which disks have these roles: clean, with events 10 and
    /// an empty bitmap.
    pub(super) fn new(number: u32, roles: &[u16]) -> Self {
        let mut made = Self {
            bytes: vec![0; 1 << 16],
        };
        let count = u32::try_from(roles.len()).unwrap();
        made.u32(0, 0xa92b_4efc).u32(4, 1).u32(8, 1).u64(16, 0x1234);
        made.u64(64, 77).u32(72, 1).u64(80, SECTORS);
        made.u32(92, count).u32(96, 8);
        made.u64(128, DATA_SECTOR).u64(136, SECTORS).u64(144, 8);
        made.u32(160, number).u64(200, 10).u64(208, u64::MAX);
        made.u32(220, 128);
        for number in 0..128 {
            made.role(number, roles.get(number).copied().unwrap_or(SPARE));
        }
        let bitmap = 4096;
        made.u32(bitmap, 0x6d74_6962).u32(bitmap + 4, 4);
        made.u64(bitmap + 8, 0x1234).u64(bitmap + 24, 10);
        made.u64(bitmap + 40, SECTORS);
        made.u32(bitmap + 52, 4096).u32(bitmap + 56, 5);
        made
    }

    /// Bytes of the disk.
    pub(super) fn raw(&self, at: usize, len: usize) -> &[u8] {
        &self.bytes[at..at + len]
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        // Behind the superblock's beginning, and its sum behind everything.
        self.bytes[4096 + at..4096 + at + bytes.len()].copy_from_slice(bytes);
        let sum = checksum(&self.bytes[4096..4096 + 256 + 256]);
        self.bytes[4096 + 216..4096 + 220].copy_from_slice(&sum.to_le_bytes());
        self
    }

    pub(super) fn u32(&mut self, at: usize, value: u32) -> &mut Self {
        self.put(at, &value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, at: usize, value: u64) -> &mut Self {
        self.put(at, &value.to_le_bytes())
    }

    pub(super) fn role(&mut self, number: usize, role: u16) -> &mut Self {
        self.put(256 + 2 * number, &role.to_le_bytes())
    }

    /// Events of the superblock and of the bitmap.
    pub(super) fn events(&mut self, events: u64) -> &mut Self {
        self.u64(200, events).u64(4096 + 24, events)
    }

    fn dirty(&mut self) -> &mut Self {
        self.u64(208, ACTIVE)
    }

    pub(super) fn bits(&mut self, first_byte: u8) -> &mut Self {
        self.put(4096 + 256, &[first_byte])
    }
}

/// Makes another disk of one.
type Change = fn(&mut Made) -> &mut Made;

/// Two disks of a mirror.
fn pair() -> [Made; 2] {
    [0, 1].map(|number| Made::new(number, &[0, 1]))
}

pub(super) fn assembled(disks: &[Made]) -> Result<KernelArray, String> {
    let reads: Vec<_> = disks
        .iter()
        .map(|disk| {
            move |at: u64, len: usize| {
                let at = usize::try_from(at).unwrap();
                disk.bytes[at..at + len].to_vec()
            }
        })
        .collect();
    let size_bytes = (DATA_SECTOR + SECTORS) * 512;
    let disks: Vec<_> = reads
        .iter()
        .map(|read| Some(Disk { size_bytes, read }))
        .collect();
    assemble(&disks)
}

fn taken(disks: &[Made]) -> Vec<Taken> {
    let array = assembled(disks).unwrap();
    (0..disks.len())
        .map(|disk| array.taken(disk).clone())
        .collect()
}

fn left_out(text: &str) -> Taken {
    Taken::LeftOut(text.to_owned())
}

/// The disks that may be read at a sector.
fn readers(array: &KernelArray, sector: u64) -> Vec<usize> {
    let readers = array.readers(sector).into_iter();
    readers.map(|copy| copy.disk).collect()
}

const BOTH: [Taken; 2] = [Taken::InSync(0), Taken::InSync(1)];

#[test]
fn a_clean_array_is_read_anywhere() {
    let array = assembled(&pair()).unwrap();
    assert!(array.is_clean());
    assert_eq!(array.resyncs(0), Resyncs::Not);
    let first = Copy {
        disk: 0,
        sector: DATA_SECTOR + 5,
    };
    let second = Copy { disk: 1, ..first };
    assert_eq!(array.readers(5), [first, second]);
    // Bits alone are nothing to resync.
    let mut disks = pair();
    disks[0].bits(1);
    assert_eq!(assembled(&disks).unwrap().resyncs(0), Resyncs::Not);
}

#[test]
fn one_event_behind_is_in_and_two_are_out() {
    let mut disks = pair();
    disks[0].events(11);
    assert_eq!(taken(&disks), BOTH);
    disks[0].events(12);
    assert_eq!(
        taken(&disks)[1],
        left_out("it is more than one event behind")
    );
}

#[test]
fn who_is_behind_has_its_role_from_the_freshest() {
    for (role, becomes) in [
        (FAULTY, left_out("it was failed")),
        (SPARE, Taken::Spare),
        (1, Taken::InSync(1)),
    ] {
        let mut disks = pair();
        disks[0].events(11).role(1, role);
        assert_eq!(taken(&disks), [Taken::InSync(0), becomes]);
    }
    // With as many events, its own word counts.
    let mut disks = pair();
    disks[0].role(1, FAULTY);
    assert_eq!(taken(&disks)[1], Taken::InSync(1));
}

#[test]
fn who_says_that_the_freshest_is_out_is_out() {
    let mut disks = pair();
    disks[0].events(11);
    disks[1].role(0, FAULTY);
    assert_eq!(
        taken(&disks)[1],
        left_out("it says that the freshest one is out")
    );
}

#[test]
fn disks_without_a_role_are_no_measure() {
    for role in [SPARE, FAULTY] {
        let mut disks = [0, 1, 2]
            .map(|number| Made::new(number, &[0, 1, role]))
            .to_vec();
        for disk in &mut disks {
            disk.u32(92, 2);
        }
        disks[2].events(40);
        let becomes = match role {
            SPARE => Taken::Spare,
            _ => left_out("it was failed"),
        };
        assert_eq!(taken(&disks), [BOTH[0].clone(), BOTH[1].clone(), becomes]);
    }
}

#[test]
fn strangers_and_ruins_are_left_out() {
    let cases: [(Change, &str); 6] = [
        (|disk| disk.u32(0, 0), "it has no superblock"),
        (
            |disk| {
                disk.bytes[4096 + 30] ^= 1;
                disk
            },
            "its superblock has a wrong checksum",
        ),
        (
            |disk| disk.u64(16, 9).u64(4096 + 8, 9),
            "it is of another array",
        ),
        (|disk| disk.u32(8, 5), "features 0x5 are not modelled"),
        (
            |disk| disk.u64(144, 0),
            "its superblock is not one of version 1.2",
        ),
        (|disk| disk.u64(80, 5000), "its data ends beyond it"),
    ];
    for (spoil, text) in cases {
        let mut disks = pair();
        spoil(&mut disks[1]);
        assert_eq!(taken(&disks), [Taken::InSync(0), left_out(text)]);
        spoil(&mut disks[0]);
        let is_stranger = text == "it is of another array";
        assert_eq!(assembled(&disks).is_ok(), is_stranger, "{text}");
    }
    let mut disks = [0, 1, 0].map(|number| Made::new(number, &[0, 1]));
    disks[0].events(9);
    assert_eq!(taken(&disks)[0], left_out("disk 2 has its role 0"));
}

#[test]
fn an_unclean_array_is_read_where_its_bits_are_set_from_the_first() {
    let mut disks = pair();
    for disk in &mut disks {
        disk.dirty().bits(0b10);
    }
    let array = assembled(&disks).unwrap();
    assert!(!array.is_clean());
    let of = |chunk: u64| {
        let sector = chunk * BITMAP_CHUNK_SECTORS;
        (array.resyncs(sector), readers(&array, sector))
    };
    assert_eq!(of(0), (Resyncs::Not, vec![0, 1]));
    assert_eq!(of(1), (Resyncs::Surely, vec![0]));
    // What one bitmap says, and the other one does not, may or may not be resynced.
    disks[1].bits(0b110);
    let array = assembled(&disks).unwrap();
    assert_eq!(array.resyncs(16), Resyncs::Perhaps);
    assert_eq!(readers(&array, 16), [0, 1]);
    // Below the place where the resync was, nothing is.
    for disk in &mut disks {
        disk.u64(208, 16);
    }
    let array = assembled(&disks).unwrap();
    assert_eq!(array.resyncs(8), Resyncs::Not);
    assert_eq!(array.resyncs(16), Resyncs::Perhaps);
}

#[test]
fn without_a_bitmap_of_its_time_all_is_resynced() {
    let cases: [Change; 3] = [
        |disk| disk.u32(8, 0),
        |disk| disk.u64(4096 + 24, 9),
        |disk| disk.u32(4096 + 48, 2),
    ];
    for change in cases {
        let mut disks = pair();
        for disk in &mut disks {
            change(disk.dirty());
        }
        let array = assembled(&disks).unwrap();
        assert_eq!(array.resyncs(SECTORS - 1), Resyncs::Surely);
        assert_eq!(readers(&array, SECTORS - 1), [0]);
    }
    // The bitmap of a disk that is behind is older than the array.
    let mut disks = pair();
    disks[0].dirty().events(11);
    disks[1].dirty();
    assert_eq!(assembled(&disks).unwrap().resyncs(0), Resyncs::Perhaps);
    // A bitmap of another array, or none at all, is no array.
    disks[1].u64(4096 + 8, 3);
    assert!(assembled(&disks).is_err());
}

#[test]
fn the_word_of_the_freshest_decides_whether_it_is_clean() {
    let mut disks = pair();
    disks[0].dirty();
    disks[1].events(11);
    assert!(assembled(&disks).unwrap().is_clean());
    disks[0].events(12).role(1, 1);
    assert!(assembled(&disks[..1]).unwrap().is_clean(), "it is alone");
    let mut disks = pair();
    disks[1].dirty().events(11);
    assert!(!assembled(&disks).unwrap().is_clean());
}

#[test]
fn who_recovers_is_read_below_where_it_was() {
    let mut disks = pair();
    disks[0].u32(8, 3).u64(152, 24);
    assert_eq!(taken(&disks)[0], Taken::Recovering(0, 24));
    let array = assembled(&disks).unwrap();
    assert_eq!(readers(&array, 23), [0, 1]);
    assert_eq!(readers(&array, 24), [1]);
    assert_eq!(array.source(0).unwrap().disk, 1);
    assert!(assembled(&disks[..1]).is_err(), "nobody is in sync");
}

#[test]
fn a_resync_reads_write_mostly_disks_last_and_a_client_does_not() {
    let mut disks = pair();
    for disk in &mut disks {
        disk.dirty().bits(0xff);
    }
    disks[0].put(184, &[1]);
    let array = assembled(&disks).unwrap();
    assert_eq!(readers(&array, 0), [0]);
    assert_eq!(array.source(0).unwrap().disk, 1);
    disks[1].put(184, &[1]);
    assert_eq!(assembled(&disks).unwrap().source(0).unwrap().disk, 0);
}

#[test]
fn bad_blocks_are_read_elsewhere() {
    let mut disks = pair();
    for disk in &mut disks {
        disk.dirty().bits(0xff);
    }
    let log = 16 * 512;
    disks[0]
        .u32(8, 9)
        .put(186, &8u16.to_le_bytes())
        .u32(188, 16);
    let entry = (DATA_SECTOR + 9) << 10 | 2;
    disks[0].u64(log, entry).u64(log + 8, u64::MAX);
    let array = assembled(&disks).unwrap();
    let read: Vec<_> = (8..12).map(|sector| readers(&array, sector)).collect();
    assert_eq!(read, [[0], [1], [1], [0]]);
}

fn fields_of(raid10: Raid10, disks: u32, disk_chunks: u64) -> Fields {
    let mut made = Made::new(0, &[0]);
    let copies = raid10.copies;
    let layout = match raid10.order {
        CopyOrder::Near => copies | 0x100,
        CopyOrder::Far => copies << 8 | 1,
        CopyOrder::Offset => copies << 8 | 0x1_0001,
    };
    let chunk_sectors = u32::try_from(raid10.chunk_bytes / 512).unwrap();
    made.u32(72, 10).u32(76, layout).u32(92, disks);
    made.u64(80, disk_chunks * u64::from(chunk_sectors));
    made.u32(88, chunk_sectors);
    let read = |at: u64, len: usize| {
        let at = usize::try_from(at).unwrap();
        made.bytes[at..at + len].to_vec()
    };
    Fields::read(1 << 40, &read).unwrap()
}

/// Both were written from the same description of the layouts, by different hands.
#[test]
fn the_engine_puts_bytes_where_md_does() {
    for order in [CopyOrder::Near, CopyOrder::Far, CopyOrder::Offset] {
        for (copies, disks) in [(2, 2), (2, 3), (2, 4), (2, 5), (3, 3), (3, 4), (4, 7)] {
            let raid10 = Raid10 {
                order,
                copies,
                chunk_bytes: 4096,
            };
            let layout = Layout::Raid10(raid10);
            let engine = Map::for_size(layout, disks, 25 * 4096).unwrap();
            let bytes: Vec<u64> = (0..disks)
                .map(|leg| engine.leg_bytes(LegId::new(leg)))
                .collect();
            let disk_chunks = bytes.iter().max().unwrap() / 4096;
            let disk_count = u32::try_from(disks).unwrap();
            let map = KernelMap::of(&fields_of(raid10, disk_count, disk_chunks)).unwrap();
            for sector in (0..25 * 8).step_by(3) {
                let mine = map.places(sector);
                let theirs = engine.places(sector * 512);
                let theirs: Vec<_> = theirs
                    .iter()
                    .map(|place| (place.leg.index(), place.address / 512))
                    .collect();
                assert_eq!(mine, theirs, "{layout} on {disks} disks, sector {sector}");
            }
            assert!(map.array_sectors() >= 25 * 8);
        }
    }
}

#[test]
fn an_array_needs_a_copy_of_everything() {
    let raid10 = Raid10 {
        order: CopyOrder::Near,
        copies: 2,
        chunk_bytes: 4096,
    };
    let map = KernelMap::of(&fields_of(raid10, 4, 8)).unwrap();
    assert!(map.is_enough(|role| role % 2 == 1));
    assert!(!map.is_enough(|role| role > 1));
}

/// Whatever bytes lie there, the answer is a word and no panic.
#[test]
fn no_bytes_are_too_wild() {
    let mut luck = RandomStream::new(7, "bytes", 0);
    let mut arrays = 0;
    for _ in 0..3_000 {
        let mut disks = pair();
        for _ in 0..1 + luck.below(4) {
            let disk = &mut disks[usize::try_from(luck.below(2)).unwrap()];
            let at = usize::try_from(luck.below(4096 + 320)).unwrap();
            let value = [0, 1, 0x7f, 0x80, 0xff][usize::try_from(luck.below(5)).unwrap()];
            disk.put(at, &[value]);
        }
        if let Ok(array) = assembled(&disks) {
            arrays += 1;
            for sector in [0, 9, SECTORS - 1] {
                assert!(array.readers(sector).len() <= 2);
                let _ = array.source(sector);
            }
        }
    }
    assert!(arrays > 1_000, "{arrays}");
}

/// Two disks of a mirror, and one that is to replace the second and is good below its sector 16.
fn with_replacement() -> [Made; 3] {
    let mut disks = [0, 1, 2].map(|number| Made::new(number, &[0, 1, 1]));
    for disk in &mut disks {
        disk.u32(92, 2);
    }
    // A bitmap, a recovery that has begun, a replacement.
    disks[2].u32(8, 1 | 2 | 16).u64(152, 16);
    disks
}

#[test]
fn who_is_to_replace_a_disk_is_read_where_it_is_filled() {
    let mut disks = with_replacement();
    let array = assembled(&disks).unwrap();
    assert_eq!(array.taken(2), &Taken::Replacing(1, 16));
    assert!(array.in_sync().eq([0, 1]));
    // A mirror reads it last.
    assert_eq!(readers(&array, 15), [0, 1, 2]);
    assert_eq!(readers(&array, 16), [0, 1]);
    // Where disks may differ, nobody counts on it.
    for disk in &mut disks {
        disk.dirty().bits(1);
    }
    assert_eq!(readers(&assembled(&disks).unwrap(), 0), [0]);
    // RAID10 near reads it before the disk that it replaces.
    for disk in &mut disks {
        disk.u64(208, u64::MAX)
            .u32(72, 10)
            .u32(76, 0x102)
            .u32(88, 8);
    }
    assert_eq!(readers(&assembled(&disks).unwrap(), 15), [0, 2, 1]);
}

#[test]
fn who_is_to_replace_nobody_is_a_disk_like_any_other() {
    let [first, _, mut third] = with_replacement();
    assert_eq!(
        taken(&[first.clone(), third.clone()]),
        [Taken::InSync(0), Taken::Recovering(1, 16)]
    );
    third.u32(8, 1 | 16);
    assert_eq!(taken(&[first, third]), BOTH);
}

#[test]
fn a_mirror_is_not_run_where_who_is_replaced_is_not_whole() {
    let mut disks = with_replacement();
    disks[1].u32(8, 1 | 2).u64(152, 32);
    let told = assembled(&disks).unwrap_err();
    assert_eq!(told, "disk 2 replaces disk 1, which is not whole");
}

#[test]
fn who_has_taken_a_role_has_it_as_soon_as_it_says_so() {
    let mut disks = with_replacement();
    disks[2].u32(8, 1).u64(152, 0).role(1, FAULTY).events(11);
    assert_eq!(
        taken(&disks),
        [
            Taken::InSync(0),
            left_out("it was failed"),
            Taken::InSync(1)
        ]
    );
}

/// One that says nothing of what it holds would be taken for whole.
#[test]
fn a_spare_that_has_not_heard_of_its_role_is_believed_about_what_it_holds() {
    let [mut first, _, mut spare] = [0, 1, 2].map(|number| Made::new(number, &[0, 1, SPARE]));
    first.u32(92, 2).events(11).role(1, FAULTY).role(2, 1);
    spare.u32(92, 2);
    assert_eq!(taken(&[first.clone(), spare.clone()]), BOTH);
    spare.u32(8, 1 | 2).u64(152, 0);
    assert_eq!(
        taken(&[first, spare]),
        [Taken::InSync(0), Taken::Recovering(1, 0)]
    );
}
