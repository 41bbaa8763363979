//! Where buffers lie in the arena, and who still needs them.
//!
//! The arena is cut into granules of 4 KiB. A buddy allocator hands out runs of them, giving the
//! unused tail of a power of two back at once, so that a request of 32 MiB and two blocks does not
//! take 64 MiB. A few single granules are kept apart unmerged: most requests want just one.
//!
//! A buffer counts its references: one for whoever asked for it, one for each leg operation in
//! flight that reads or writes it. It is free when the last one is gone, and not before: the
//! operation of a leg that has fallen silent may still touch its bytes.
//!
//! Clients' buffers leave a reserve alone, which the engine draws on for what it cannot put off.

use std::ops::Range;

use heliostat_types::{LEGS_MAX, LegId};

use crate::slab::Slab;

/// Every buffer begins at a multiple of this: the page size, and at least every leg's block size.
pub(crate) const GRANULE_BYTES: usize = 4096;
/// Kept back from clients for second reads after a leg fell silent, the edges of 224 writes, and
/// for what is written of the array's metadata.
const RESERVE_GRANULES: usize = 512;
/// Of them, kept back for the metadata, which writes that hold the others may wait for.
const METADATA_GRANULES: usize = 64;
/// Single granules kept apart for the next small request: 1 MiB.
const SINGLES_MAX: usize = 256;
/// No granule: the end of a list.
const NONE: u32 = u32::MAX;
/// Orders of runs: 2^0 to 2^31 granules.
const ORDERS: usize = 32;

/// One buffer of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub(crate) u32);

/// A run of bytes inside one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSlice {
    /// Which buffer.
    pub buffer: BufferId,
    /// From where in it.
    pub offset_bytes: u32,
    /// How many bytes.
    pub len_bytes: u32,
}

impl BufferSlice {
    /// The part of `self` from `from_bytes` on that is `len_bytes` long.
    ///
    /// # Panics
    /// Where it does not lie inside.
    #[must_use]
    pub fn part(self, from_bytes: u64, len_bytes: u64) -> Self {
        assert!(
            from_bytes + len_bytes <= u64::from(self.len_bytes),
            "a part of a slice lies inside it"
        );
        let narrow = |bytes: u64| u32::try_from(bytes).expect("buffers are shorter than 4 GiB");
        Self {
            buffer: self.buffer,
            offset_bytes: self.offset_bytes + narrow(from_bytes),
            len_bytes: narrow(len_bytes),
        }
    }
}

/// What `Engine::alloc_write` hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBuffer {
    /// To be named in the request, or released.
    pub buffer: BufferId,
    /// Where the client's bytes go: exactly as many as the extent has.
    pub data: BufferSlice,
}

/// A step on the arena's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferStep {
    /// Copy bytes; the two never overlap and are equally long.
    Copy {
        /// From here.
        from: BufferSlice,
        /// To here.
        to: BufferSlice,
    },
    /// Make bytes zero.
    Zero {
        /// These.
        at: BufferSlice,
    },
    /// Put bytes there that the engine has made.
    Store {
        /// There; as long as the bytes.
        at: BufferSlice,
        /// The bytes.
        bytes: Box<[u8]>,
    },
}

/// The arena's bytes: a mapping in the runtime, a vector in the simulator. Offsets are from the
/// arena's start.
pub trait Memory {
    /// Copies bytes from `from` on to `to` on; the two ranges never overlap.
    fn copy(&mut self, from: usize, to: usize, len: usize);
    /// Makes bytes zero.
    fn zero(&mut self, at: usize, len: usize);
    /// Puts bytes there.
    fn store(&mut self, at: usize, bytes: &[u8]);
    /// Whether two ranges that do not overlap hold the same bytes.
    fn is_equal(&self, one: usize, other: usize, len: usize) -> bool;
}

/// One buffer: its granules, and how many still need it.
#[derive(Debug)]
struct Entry {
    first: u32,
    count: u32,
    references: u32,
    /// By leg, how many operations on it the device has.
    in_device: [u32; LEGS_MAX],
}

impl Entry {
    fn bytes(&self) -> u64 {
        u64::from(self.count) * GRANULE_BYTES as u64
    }
}

/// Which buffers there are and where in the arena each lies. The engine owns it.
#[derive(Debug)]
pub struct BufferTable {
    entries: Slab<Entry>,
    runs: FreeRuns,
    singles: Vec<u32>,
    granules: usize,
    used: usize,
    /// Of them, handed out to the engine for good.
    permanent: usize,
}

impl BufferTable {
    /// A table over an arena of `memory_bytes`, rounded down to granules.
    pub(crate) fn new(memory_bytes: usize) -> Self {
        let granules = memory_bytes / GRANULE_BYTES;
        Self {
            entries: Slab::new(),
            runs: FreeRuns::new(granules),
            singles: Vec::with_capacity(SINGLES_MAX),
            granules,
            used: 0,
            permanent: 0,
        }
    }

    /// A buffer for a client, with one reference; `None` where only the reserve is left.
    pub(crate) fn alloc(&mut self, len_bytes: u64) -> Option<BufferId> {
        let count = granules_of(len_bytes);
        if self.used + count + RESERVE_GRANULES > self.granules {
            return None;
        }
        self.alloc_granules(count)
    }

    /// A buffer that is never released, and does not count as used.
    pub(crate) fn alloc_permanent(&mut self, len_bytes: u64) -> Option<BufferId> {
        let buffer = self.alloc(len_bytes)?;
        self.permanent += granules_of(len_bytes);
        Some(buffer)
    }

    /// A buffer for the engine's own need; what the metadata needs is left.
    pub(crate) fn alloc_reserved(&mut self, len_bytes: u64) -> Option<BufferId> {
        let count = granules_of(len_bytes);
        if self.used + count + METADATA_GRANULES > self.granules {
            return None;
        }
        self.alloc_granules(count)
    }

    /// A buffer for the metadata, which all else may wait for.
    pub(crate) fn alloc_last(&mut self, len_bytes: u64) -> Option<BufferId> {
        self.alloc_granules(granules_of(len_bytes))
    }

    fn alloc_granules(&mut self, count: usize) -> Option<BufferId> {
        let first = self.find(count)?;
        self.used += count;
        Some(BufferId(self.entries.insert(Entry {
            first,
            count: u32::try_from(count).expect("an arena has fewer than 2^32 granules"),
            references: 1,
            in_device: [0; LEGS_MAX],
        })))
    }

    fn find(&mut self, count: usize) -> Option<u32> {
        if count == 1
            && let Some(single) = self.singles.pop()
        {
            return Some(single);
        }
        self.runs.take(count).or_else(|| {
            // What is kept apart may be what is missing in the middle of a longer run.
            for single in self.singles.drain(..) {
                self.runs.give(single, 1);
            }
            self.runs
                .take(count)
                .or_else(|| self.runs.take_anywhere(count))
        })
    }

    /// One more needs it.
    pub(crate) fn retain(&mut self, buffer: BufferId) {
        self.entries[buffer.0].references += 1;
    }

    /// One less needs it. Whether it is free now.
    pub(crate) fn release(&mut self, buffer: BufferId) -> bool {
        let entry = &mut self.entries[buffer.0];
        entry.references -= 1;
        if entry.references > 0 {
            return false;
        }
        let Entry { first, count, .. } = self.entries.remove(buffer.0);
        self.used -= count as usize;
        if count == 1 && self.singles.len() < SINGLES_MAX {
            self.singles.push(first);
        } else {
            self.runs.give(first, count as usize);
        }
        true
    }

    /// How much of the arena a buffer takes.
    pub(crate) fn bytes_of(&self, buffer: BufferId) -> usize {
        self.entries[buffer.0].count as usize * GRANULE_BYTES
    }

    /// How many buffers are handed out, but for good.
    pub(crate) fn count(&self) -> usize {
        self.entries.len() - usize::from(self.permanent > 0)
    }

    /// How much of the arena a leg's device holds once it has an operation on a slice, beyond what
    /// it holds already: all of the buffer, or nothing where it has another operation on it.
    pub(crate) fn bytes_to_hold(&self, memory: Option<BufferSlice>, leg: LegId) -> u64 {
        let entry = memory.map(|memory| &self.entries[memory.buffer.0]);
        let entry = entry.filter(|entry| entry.in_device[leg.index()] == 0);
        entry.map_or(0, Entry::bytes)
    }

    /// A leg's device has got an operation on a slice.
    pub(crate) fn begin_in_device(&mut self, memory: Option<BufferSlice>, leg: LegId) {
        if let Some(memory) = memory {
            self.entries[memory.buffer.0].in_device[leg.index()] += 1;
        }
    }

    /// A leg's device has ended an operation on a slice. How much less of the arena it holds.
    pub(crate) fn end_in_device(&mut self, memory: Option<BufferSlice>, leg: LegId) -> u64 {
        let Some(memory) = memory else {
            return 0;
        };
        self.entries[memory.buffer.0].in_device[leg.index()] -= 1;
        self.bytes_to_hold(Some(memory), leg)
    }

    /// Where in the arena a slice lies.
    ///
    /// # Panics
    /// Where the buffer is free, or the slice reaches beyond it.
    #[must_use]
    pub fn resolve(&self, slice: BufferSlice) -> Range<usize> {
        let entry = &self.entries[slice.buffer.0];
        let end = slice.offset_bytes as usize + slice.len_bytes as usize;
        assert!(
            end <= entry.count as usize * GRANULE_BYTES,
            "a slice lies inside its buffer"
        );
        let start = entry.first as usize * GRANULE_BYTES + slice.offset_bytes as usize;
        start..start + slice.len_bytes as usize
    }

    /// Carries out a step.
    pub fn execute(&self, step: BufferStep, memory: &mut dyn Memory) {
        match step {
            BufferStep::Copy { from, to } => {
                assert_eq!(
                    from.len_bytes, to.len_bytes,
                    "a copy is as long as its source"
                );
                let (from, to) = (self.resolve(from), self.resolve(to));
                memory.copy(from.start, to.start, from.len());
            }
            BufferStep::Zero { at } => {
                let at = self.resolve(at);
                memory.zero(at.start, at.len());
            }
            BufferStep::Store { at, bytes } => {
                let at = self.resolve(at);
                assert_eq!(at.len(), bytes.len(), "a slice is as long as its bytes");
                memory.store(at.start, &bytes);
            }
        }
    }

    /// Which blocks of two slices, equally long, differ: their numbers, rising. The last block may
    /// be shorter.
    #[must_use]
    pub fn compare(
        &self,
        one: BufferSlice,
        other: BufferSlice,
        block_bytes: u32,
        memory: &dyn Memory,
    ) -> Vec<u32> {
        assert_eq!(
            one.len_bytes, other.len_bytes,
            "what is compared is equally long"
        );
        let (one, other) = (self.resolve(one), self.resolve(other));
        if memory.is_equal(one.start, other.start, one.len()) {
            return Vec::new();
        }
        let starts = (0..one.len()).step_by(block_bytes as usize);
        let differs = |&(_, at): &(u32, usize)| {
            let len = (one.len() - at).min(block_bytes as usize);
            !memory.is_equal(one.start + at, other.start + at, len)
        };
        let differing = (0u32..).zip(starts).filter(differs);
        differing.map(|(block, _)| block).collect()
    }

    /// How many bytes of the arena there are to hand out.
    pub(crate) const fn total_bytes(&self) -> usize {
        (self.granules - self.permanent) * GRANULE_BYTES
    }

    /// How many bytes of the arena are handed out.
    #[must_use]
    pub const fn used_bytes(&self) -> usize {
        (self.used - self.permanent) * GRANULE_BYTES
    }
}

/// How many granules hold that many bytes; at least one.
fn granules_of(len_bytes: u64) -> usize {
    let granules = len_bytes.div_ceil(GRANULE_BYTES as u64).max(1);
    usize::try_from(granules).expect("an arena is addressable")
}

/// The free runs of granules, by order, merged with their buddies.
#[derive(Debug)]
struct FreeRuns {
    /// First run of each order.
    heads: [u32; ORDERS],
    /// For a granule that begins a free run: its order; [`u8::MAX`] for all others.
    orders: Vec<u8>,
    next: Vec<u32>,
    previous: Vec<u32>,
}

impl FreeRuns {
    fn new(granules: usize) -> Self {
        assert!(granules < NONE as usize, "an arena is smaller than 16 TiB");
        let mut runs = Self {
            heads: [NONE; ORDERS],
            orders: vec![u8::MAX; granules],
            next: vec![NONE; granules],
            previous: vec![NONE; granules],
        };
        runs.give(0, granules);
        runs
    }

    /// Takes `count` granules in a row out, where there are that many.
    fn take(&mut self, count: usize) -> Option<u32> {
        let wanted = count.next_power_of_two().trailing_zeros() as usize;
        let order = (wanted..ORDERS).find(|&order| self.heads[order] != NONE)?;
        let first = self.heads[order];
        self.unlink(first, order);
        let rest = (1usize << order) - count;
        if rest > 0 {
            self.give(
                first + u32::try_from(count).expect("inside the arena"),
                rest,
            );
        }
        Some(first)
    }

    /// Takes the first `count` free granules in a row out, wherever they begin. A search through
    /// all of the arena, for large requests among many small ones.
    fn take_anywhere(&mut self, count: usize) -> Option<u32> {
        let mut at = 0;
        let mut begin = 0;
        while at < self.orders.len() {
            if self.orders[at] == u8::MAX {
                at += 1;
                begin = at;
                continue;
            }
            at += 1 << self.orders[at];
            if at - begin >= count {
                return Some(self.take_range(begin, at, count));
            }
        }
        None
    }

    /// Takes all runs from `begin` to `end` out, and puts back what is beyond `count`.
    fn take_range(&mut self, begin: usize, end: usize, count: usize) -> u32 {
        let narrow = |at: usize| u32::try_from(at).expect("inside the arena");
        let mut at = begin;
        while at < end {
            let order = usize::from(self.orders[at]);
            self.unlink(narrow(at), order);
            at += 1 << order;
        }
        self.give(narrow(begin + count), end - begin - count);
        narrow(begin)
    }

    /// Puts `count` granules from `first` on back, as the largest aligned runs they are made of.
    fn give(&mut self, first: u32, count: usize) {
        let mut at = first as usize;
        let end = at + count;
        while at < end {
            let by_place = if at == 0 {
                ORDERS - 1
            } else {
                at.trailing_zeros() as usize
            };
            let by_length = (end - at).ilog2() as usize;
            let order = by_place.min(by_length);
            self.give_run(at, order);
            at += 1 << order;
        }
    }

    /// Puts one aligned run back and merges it with its buddy for as long as that is free too.
    fn give_run(&mut self, mut at: usize, mut order: usize) {
        loop {
            let buddy = at ^ (1 << order);
            let merges = self
                .orders
                .get(buddy)
                .is_some_and(|&o| usize::from(o) == order);
            if !merges {
                break;
            }
            self.unlink(u32::try_from(buddy).expect("inside the arena"), order);
            at = at.min(buddy);
            order += 1;
        }
        let head = self.heads[order];
        let first = u32::try_from(at).expect("inside the arena");
        self.orders[at] = u8::try_from(order).expect("below 32");
        self.previous[at] = NONE;
        self.next[at] = head;
        if head != NONE {
            self.previous[head as usize] = first;
        }
        self.heads[order] = first;
    }

    fn unlink(&mut self, first: u32, order: usize) {
        let at = first as usize;
        debug_assert_eq!(usize::from(self.orders[at]), order);
        self.orders[at] = u8::MAX;
        let (previous, next) = (self.previous[at], self.next[at]);
        if previous == NONE {
            self.heads[order] = next;
        } else {
            self.next[previous as usize] = next;
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
    }
}

#[cfg(test)]
mod tests;
