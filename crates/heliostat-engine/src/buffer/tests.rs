use heliostat_types::{Prng, RandomStream};

use super::{BufferSlice, BufferStep, BufferTable, GRANULE_BYTES, Memory, RESERVE_GRANULES};

const GRANULE: u64 = GRANULE_BYTES as u64;

struct Bytes(Vec<u8>);

impl Memory for Bytes {
    fn copy(&mut self, from: usize, to: usize, len: usize) {
        self.0.copy_within(from..from + len, to);
    }
    fn zero(&mut self, at: usize, len: usize) {
        self.0[at..at + len].fill(0);
    }
    fn store(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn is_equal(&self, one: usize, other: usize, len: usize) -> bool {
        self.0[one..one + len] == self.0[other..other + len]
    }
}

#[test]
fn a_buffer_is_free_when_the_last_reference_is_gone() {
    let mut table = BufferTable::new(4 << 20);
    let buffer = table.alloc(1).unwrap();
    assert_eq!(table.used_bytes(), GRANULE_BYTES);
    table.retain(buffer);
    assert!(!table.release(buffer));
    assert!(table.release(buffer));
    assert_eq!(table.used_bytes(), 0);
}

#[test]
fn the_tail_of_a_power_of_two_is_given_back() {
    let mut table = BufferTable::new(80 << 20);
    let large = 32 * (1 << 20) + 2 * GRANULE;
    let first = table.alloc(large).unwrap();
    assert_eq!(table.used_bytes() as u64, large);
    let second = table.alloc(16 << 20).unwrap();
    let third = table.alloc(16 << 20).unwrap();
    assert!(table.alloc(32 << 20).is_none());
    for buffer in [first, second, third] {
        table.release(buffer);
    }
    assert!(table.alloc(64 << 20).is_some(), "all runs merged again");
}

#[test]
fn clients_leave_the_reserve_alone() {
    let mut table = BufferTable::new(4 << 20);
    let mut count = 0;
    while table.alloc(GRANULE).is_some() {
        count += 1;
    }
    assert_eq!(count, (4 << 20) / GRANULE_BYTES - RESERVE_GRANULES);
    assert!(table.alloc_reserved(GRANULE).is_some());
}

#[test]
fn steps_move_bytes_between_slices() {
    let mut table = BufferTable::new(4 << 20);
    let mut bytes = Bytes((0..4 << 20).map(|n: usize| n.to_le_bytes()[0]).collect());
    let slice = |buffer, offset_bytes| BufferSlice {
        buffer,
        offset_bytes,
        len_bytes: 3,
    };
    let (a, b) = (table.alloc(10).unwrap(), table.alloc(10).unwrap());
    let (from, to) = (slice(a, 5), slice(b, 1));
    table.execute(BufferStep::Copy { from, to }, &mut bytes);
    table.execute(BufferStep::Zero { at: to.part(1, 1) }, &mut bytes);
    let copied = &bytes.0[table.resolve(to)];
    let original = bytes.0[table.resolve(from)].to_vec();
    assert_eq!(copied, [original[0], 0, original[2]]);
}

#[test]
fn random_buffers_never_overlap_and_all_memory_comes_back() {
    let mut prng = RandomStream::new(11, "buffers", 0);
    let granules = 3000u64;
    let mut table = BufferTable::new(usize::try_from(granules * GRANULE).unwrap());
    let mut owner = vec![None; usize::try_from(granules).unwrap()];
    let mut held = Vec::new();
    for step in 0..20_000u64 {
        if held.is_empty() || prng.below(100) < 55 {
            let bound = if prng.below(10) == 0 { 700 } else { 6 };
            let size = 1 + prng.below(bound);
            let Some(buffer) = table.alloc(size * GRANULE) else {
                continue;
            };
            let len_bytes = u32::try_from(size * GRANULE).unwrap();
            let range = table.resolve(BufferSlice {
                buffer,
                offset_bytes: 0,
                len_bytes,
            });
            let range = range.start / GRANULE_BYTES..range.end / GRANULE_BYTES;
            for place in &mut owner[range.clone()] {
                assert_eq!(*place, None);
                *place = Some(step);
            }
            held.push((buffer, range));
        } else {
            let at = usize::try_from(prng.below(held.len() as u64)).unwrap();
            let (buffer, range) = held.swap_remove(at);
            owner[range].fill(None);
            assert!(table.release(buffer));
        }
    }
    for (buffer, _) in held {
        table.release(buffer);
    }
    assert_eq!(table.used_bytes(), 0);
    assert!(table.alloc_reserved(2048 * GRANULE).is_some());
}

#[test]
fn blocks_that_differ_are_named() {
    let mut table = BufferTable::new(4 << 20);
    let (one, other) = (table.alloc(4096).unwrap(), table.alloc(4096).unwrap());
    let slice = |buffer| BufferSlice {
        buffer,
        offset_bytes: 0,
        len_bytes: 1800,
    };
    let mut bytes = Bytes(vec![7; 4 << 20]);
    let compare = |bytes: &Bytes| table.compare(slice(one), slice(other), 512, bytes);
    assert_eq!(compare(&bytes), [0; 0]);
    let at = table.resolve(slice(other)).start;
    bytes.0[at + 1023] = 8;
    bytes.0[at + 1799] = 8;
    bytes.0[at + 1800] = 8;
    assert_eq!(
        compare(&bytes),
        [1, 3],
        "and what lies behind does not count"
    );
}
