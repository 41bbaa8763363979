//! The write-intent bitmap: where the legs may differ, by chunks of the array.
//!
//! A bit says that its chunk may have been written to since all legs were last known to be equal
//! there. It is set, durably and on every leg, before the first write to the chunk is sent, so that
//! after a crash only chunks with a bit need to be made equal again, and a leg that was away for a
//! while gets what it missed. It is cleared long after the last write, because the next one is
//! likely to come soon: two sweeps later, when every leg has flushed since, and only while no leg
//! is missing.
//!
//! Besides, the chunks that *need* a resync: after a crash those with a bit, or all. Until a
//! resync has been there, reads go to one leg.
//!
//! What is here is memory; [`crate::metadata`] makes it durable. Arrays without a bitmap on disk
//! use the same, so that a resync has something to go by.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use heliostat_format::{BitmapBits, BitmapState, BitmapSuper};
use heliostat_types::{Duration, Extent};

use crate::engine::{Engine, Turn};
use crate::metadata::{Metadata, Unequal};

/// Writes in flight are counted for so many chunks at a time: memory is taken where writes are.
const PAGE_CHUNKS: usize = 1024;

/// What is told apart of an array without a bitmap.
const CHUNK_BYTES_DEFAULT: u64 = 64 << 20;

/// How often a sweep must have found a chunk idle before its bit is cleared.
const IDLE_SWEEPS: u32 = 2;

/// How a bitmap does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapFigures {
    /// What one bit stands for.
    pub chunk_bytes: u64,
    /// How many bits there are.
    pub chunks: u64,
    /// How many are set now.
    pub set: u64,
    /// How many chunks need a resync.
    pub needed: u64,
    /// How many bits were set since the start: each was one that a write waited for.
    pub sets: u64,
    /// How many pages were written since the start, to each leg: with many sets for each, writes
    /// that came together shared them.
    pub pages_written: u64,
}

/// What is known of one chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Changes in progress.
    changes: u32,
    /// Sweeps since the last one ended.
    idle_sweeps: u32,
    /// The number of the last one, of all that ever began.
    last_change: u64,
}

/// A chunk that a sweep has found idle, and what had last changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleChunk {
    pub(crate) chunk: u64,
    last_change: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Intent {
    size_bytes: u64,
    chunk_bytes: u64,
    /// As it is to be on disk; `None` where the array has no bitmap.
    bits: Option<BitmapBits>,
    /// Pages that differ from what was last handed to a commit,
    stale_pages: BTreeSet<usize>,
    /// and the chunks in them whose bit was set since.
    waiting: ChunkSet,
    /// Chunks whose bit is on its way to be durable.
    committing: ChunkSet,
    uses: Vec<Option<Box<[Use; PAGE_CHUNKS]>>>,
    /// How many changes ever began.
    changes: u64,
    needed: ChunkSet,
    /// What was loaded may lack bits, and says so on the legs until all pages are durable.
    is_unproven: bool,
    /// Since when bits are missing, as it is durable on all legs,
    cleared_durable: u64,
    /// and as the commit on its way makes it.
    cleared_committing: Option<u64>,
    /// How many bits were ever set, for statistics.
    bits_set: u64,
}

impl Intent {
    /// The bitmap of an array, as it was loaded; where it has none, chunks of `chunk_bytes`.
    pub(crate) fn new(size_bytes: u64, chunk_bytes: u64, bits: Option<BitmapBits>) -> Self {
        assert!(
            chunk_bytes.is_power_of_two() && chunk_bytes >= 512,
            "a chunk of a bitmap is a power of two, 512 bytes at least"
        );
        let chunks = size_bytes.div_ceil(chunk_bytes);
        let pages = index(chunks).div_ceil(PAGE_CHUNKS);
        let bits = bits.map(|mut bits| {
            assert!(bits.chunks() >= chunks, "a bitmap has a bit for each chunk");
            for beyond in chunks..bits.chunks() {
                bits.clear(beyond);
            }
            bits
        });
        let head = bits.as_ref().map(BitmapBits::super_block);
        let cleared_durable = head.map_or(0, |head| head.events_cleared);
        Self {
            size_bytes,
            chunk_bytes,
            bits,
            stale_pages: BTreeSet::new(),
            waiting: ChunkSet::new(chunks),
            committing: ChunkSet::new(chunks),
            uses: (0..pages).map(|_| None).collect(),
            changes: 0,
            needed: ChunkSet::new(chunks),
            is_unproven: false,
            cleared_durable,
            cleared_committing: None,
            bits_set: 0,
        }
    }

    /// What is to be on disk.
    pub(crate) const fn bits(&self) -> Option<&BitmapBits> {
        self.bits.as_ref()
    }

    /// What an engine begins with.
    pub(crate) fn of(size_bytes: u64, metadata: Option<&Metadata>) -> Self {
        let bits = metadata.and_then(|metadata| metadata.bitmap.clone());
        let chunk_bytes = bits.as_ref().map_or(CHUNK_BYTES_DEFAULT, |bits| {
            u64::from(bits.super_block().chunk_bytes)
        });
        let mut intent = Self::new(size_bytes, chunk_bytes, bits);
        match metadata.map(|metadata| metadata.unequal) {
            None | Some(Unequal::Nowhere) => {}
            Some(Unequal::Bits) => intent.need_bits(),
            Some(Unequal::From(address)) => intent.need_from(address),
        }
        if let Some(metadata) = metadata {
            intent.is_unproven = metadata.is_unproven();
            if metadata.is_uneven || intent.is_unproven {
                intent.all_pages_are_stale();
            }
        }
        intent
    }

    fn chunks(&self, extent: Extent) -> RangeInclusive<u64> {
        debug_assert!(!extent.is_empty(), "only bytes lie in chunks");
        extent.offset() / self.chunk_bytes..=(extent.end() - 1) / self.chunk_bytes
    }

    fn extent_of(&self, chunk: u64) -> Extent {
        let from = chunk * self.chunk_bytes;
        Extent::from_range(from, (from + self.chunk_bytes).min(self.size_bytes))
    }

    fn use_of(&mut self, chunk: u64) -> &mut Use {
        let chunk = index(chunk);
        let page = chunk / PAGE_CHUNKS;
        let page = self.uses[page].get_or_insert_with(|| Box::new([Use::default(); PAGE_CHUNKS]));
        &mut page[chunk % PAGE_CHUNKS]
    }

    /// A change of `extent` is about to begin: its chunks get their bits. It must not begin before
    /// [`Intent::is_durable`].
    #[inline]
    pub(crate) fn begin(&mut self, extent: Extent) {
        if self.bits.is_some() {
            self.begin_chunks(extent);
        }
    }

    #[inline(never)]
    fn begin_chunks(&mut self, extent: Extent) {
        self.changes += 1;
        let last_change = self.changes;
        for chunk in self.chunks(extent) {
            let used = self.use_of(chunk);
            used.last_change = last_change;
            used.changes += 1;
            used.idle_sweeps = 0;
            let bits = self.bits.as_mut().expect("the array has a bitmap");
            if !bits.get(chunk) {
                bits.set(chunk);
                self.bits_set += 1;
                self.stale_pages.insert(bits.page_of(chunk));
                self.waiting.insert(chunk);
            }
        }
    }

    /// Whether the bits of all chunks of `extent`, which has begun, are durable.
    #[inline]
    pub(crate) fn is_durable(&self, extent: Extent) -> bool {
        self.waiting.is_empty() && self.committing.is_empty() || self.are_durable(extent)
    }

    #[inline(never)]
    fn are_durable(&self, extent: Extent) -> bool {
        let is_durable = |set: &ChunkSet| {
            set.is_empty() || !self.chunks(extent).any(|chunk| set.contains(chunk))
        };
        is_durable(&self.waiting) && is_durable(&self.committing)
    }

    /// A change has ended, however.
    #[inline]
    pub(crate) fn end(&mut self, extent: Extent) {
        if self.bits.is_some() {
            self.end_chunks(extent);
        }
    }

    #[inline(never)]
    fn end_chunks(&mut self, extent: Extent) {
        for chunk in self.chunks(extent) {
            self.use_of(chunk).changes -= 1;
        }
    }

    /// The pages that go into the next commit, at most `max` of them.
    pub(crate) fn take_stale_pages(&mut self, max: usize) -> Vec<usize> {
        debug_assert!(self.committing.is_empty(), "one commit at a time");
        let mut pages = Vec::new();
        while pages.len() < max {
            let Some(page) = self.stale_pages.pop_first() else {
                break;
            };
            if page == 0 {
                let head = self.bits.as_ref().map(BitmapBits::super_block);
                self.cleared_committing = head.map(|head| head.events_cleared);
            }
            self.move_bits(page);
            pages.push(page);
        }
        pages
    }

    /// The bits of a page that were waiting are on their way.
    fn move_bits(&mut self, page: usize) {
        let bits = self.bits.as_ref().expect("the array has a bitmap");
        let chunks = bits.chunks_of(page);
        let mut from = chunks.start;
        while let Some(chunk) = self.waiting.next(from).filter(|&chunk| chunk < chunks.end) {
            self.waiting.remove(chunk);
            self.committing.insert(chunk);
            from = chunk + 1;
        }
    }

    /// The commit is durable.
    pub(crate) fn committed(&mut self) {
        self.committing.clear();
        if let Some(events) = self.cleared_committing.take() {
            self.cleared_durable = events;
        }
    }

    /// The commit with these pages has failed: they go into the next one.
    pub(crate) fn commit_failed(&mut self, pages: &[usize]) {
        self.stale_pages.extend(pages);
        self.cleared_committing = None;
        let mut from = 0;
        while let Some(chunk) = self.committing.next(from) {
            self.waiting.insert(chunk);
            from = chunk + 1;
        }
        self.committing.clear();
    }

    /// The newest superblocks have this count of events, and the head of the bitmap has to be as
    /// new as they are.
    pub(crate) fn set_events(&mut self, events: u64) {
        self.change_head(|head| head.events = events);
    }

    /// A leg that missed later events than these can be brought up to date by the bits.
    fn set_events_cleared(&mut self, events: u64) {
        self.change_head(|head| head.events_cleared = events);
    }

    fn change_head(&mut self, change: impl FnOnce(&mut BitmapSuper)) {
        if let Some(bits) = &mut self.bits {
            let mut head = *bits.super_block();
            change(&mut head);
            head.state = if self.is_unproven {
                BitmapState::STALE
            } else {
                BitmapState::default()
            };
            bits.set_super(head);
            self.stale_pages.insert(0);
        }
    }

    /// Whether bits may be missing on the legs, whatever was loaded.
    pub(crate) const fn is_unproven(&self) -> bool {
        self.is_unproven
    }

    /// All pages are durable on all legs: the head may say so.
    pub(crate) fn prove(&mut self) {
        self.is_unproven = false;
        self.change_head(|_| {});
    }

    /// Whether a page waits to be written.
    pub(crate) fn has_stale_pages(&self) -> bool {
        !self.stale_pages.is_empty()
    }

    /// Some leg may have other pages than these, or none: all are to be written, and no bit counts
    /// as durable until they are.
    pub(crate) fn all_pages_are_stale(&mut self) {
        let Some(bits) = &self.bits else {
            return;
        };
        self.stale_pages.extend(0..bits.page_count());
        let mut from = 0;
        while let Some(chunk) = bits.next_set(from) {
            self.waiting.insert(chunk);
            from = chunk + 1;
        }
    }

    /// Looks for chunks that have been idle for long enough. They may be cleared if all legs flush
    /// from now on and they are idle until then.
    pub(crate) fn sweep(&mut self) -> Vec<IdleChunk> {
        let mut idle = Vec::new();
        let mut from = 0;
        while let Some(chunk) = self.next_set(from) {
            from = chunk + 1;
            if self.needed.contains(chunk) || self.waiting.contains(chunk) {
                continue;
            }
            let used = self.use_of(chunk);
            if used.changes > 0 {
                continue;
            }
            used.idle_sweeps = (used.idle_sweeps + 1).min(IDLE_SWEEPS);
            if used.idle_sweeps == IDLE_SWEEPS {
                let last_change = used.last_change;
                idle.push(IdleChunk { chunk, last_change });
            }
        }
        idle
    }

    /// The first bit that is set from `chunk` on.
    fn next_set(&self, chunk: u64) -> Option<u64> {
        self.bits.as_ref()?.next_set(chunk)
    }

    /// The chunks that `extent` touches.
    pub(crate) fn chunk_extents(&self, extent: Extent) -> impl Iterator<Item = Extent> + '_ {
        self.chunks(extent).map(|chunk| self.extent_of(chunk))
    }

    /// The chunks whose bits are set.
    pub(crate) fn set_extents(&self) -> impl Iterator<Item = Extent> + '_ {
        let bits = self.bits.iter();
        bits.flat_map(BitmapBits::iter_set)
            .map(|chunk| self.extent_of(chunk))
    }

    /// Whether any bit is set.
    pub(crate) fn has_bits(&self) -> bool {
        self.next_set(0).is_some()
    }

    /// Clears those of `idle` that have been so since the sweep that found them: not those that
    /// were changed and are idle again, because no flush may cover that. Whether there were any.
    pub(crate) fn clear(&mut self, idle: &[IdleChunk]) -> bool {
        let mut any = false;
        for &IdleChunk { chunk, last_change } in idle {
            let used = *self.use_of(chunk);
            let is_changed = used.changes > 0 || used.last_change != last_change;
            if is_changed || self.needed.contains(chunk) {
                continue;
            }
            let bits = self.bits.as_mut().expect("the array has a bitmap");
            bits.clear(chunk);
            self.stale_pages.insert(bits.page_of(chunk));
            any = true;
        }
        self.forget_idle_pages(idle);
        any
    }

    /// Gives memory back where nothing is counted any more.
    fn forget_idle_pages(&mut self, idle: &[IdleChunk]) {
        let pages = idle.iter().map(|idle| index(idle.chunk) / PAGE_CHUNKS);
        let pages: BTreeSet<usize> = pages.collect();
        for page in pages {
            let (first, end) = (
                (page * PAGE_CHUNKS) as u64,
                ((page + 1) * PAGE_CHUNKS) as u64,
            );
            if self.next_set(first).is_none_or(|set| set >= end) {
                self.uses[page] = None;
            }
        }
    }

    /// The legs may differ anywhere from this address on.
    fn need_from(&mut self, address: u64) {
        for chunk in address / self.chunk_bytes..self.needed.chunks {
            self.needed.insert(chunk);
            if let Some(bits) = &mut self.bits {
                bits.set(chunk);
            }
        }
        self.all_pages_are_stale();
    }

    /// The legs may differ in every chunk that has a bit.
    fn need_bits(&mut self) {
        let mut from = 0;
        while let Some(chunk) = self.next_set(from) {
            self.needed.insert(chunk);
            from = chunk + 1;
        }
    }

    /// Whether some chunk needs a resync.
    #[cfg(test)]
    pub(crate) const fn is_any_needed(&self) -> bool {
        !self.needed.is_empty()
    }

    /// Whether some byte of `extent` lies in a chunk that needs a resync.
    #[cfg(test)]
    pub(crate) fn is_needed(&self, extent: Extent) -> bool {
        !self.needed.is_empty() && self.chunks(extent).any(|chunk| self.needed.contains(chunk))
    }

    /// The first run of chunks at or behind `from` that need a resync.
    pub(crate) fn next_needed(&self, from: u64) -> Option<Extent> {
        let first = self.needed.next(from / self.chunk_bytes)?;
        let last = self.needed.next_without(first) - 1;
        let end = self.extent_of(last).end();
        Some(Extent::from_range(
            self.extent_of(first).offset().max(from),
            end,
        ))
    }

    /// The figures for people; `None` where the array has no bitmap.
    pub(crate) fn figures(&self, pages_written: u64) -> Option<BitmapFigures> {
        let bits = self.bits.as_ref()?;
        Some(BitmapFigures {
            chunk_bytes: self.chunk_bytes,
            chunks: bits.chunks(),
            set: bits.count_set(),
            needed: self.needed.count,
            sets: self.bits_set,
            pages_written,
        })
    }

    /// All legs are equal now in the chunks that end within `extent`, which began where they begin
    /// or goes on where an earlier one ended.
    pub(crate) fn synced(&mut self, extent: Extent) {
        for chunk in self.chunks(extent) {
            if self.extent_of(chunk).end() <= extent.end() {
                self.needed.remove(chunk);
            }
        }
    }
}

impl Engine {
    /// A change of `extent` begins: it has its lock.
    pub(crate) fn intend(&mut self, turn: &Turn<'_>, extent: Extent) {
        self.intent.begin(extent);
        if let Some(keeper) = &mut self.keeper {
            if self.intent.has_stale_pages() {
                keeper.pages_changed();
            }
            self.sweep_later(turn);
        }
    }

    /// Bits are looked at some time from now on, unless that is to be already.
    pub(crate) fn sweep_later(&mut self, turn: &Turn<'_>) {
        if self.sweep_at.is_none() && self.may_clear() && self.intent.has_bits() {
            let head = self.intent.bits().expect("there are bits").super_block();
            let seconds = u64::from(head.daemon_sleep_seconds.max(1));
            self.sweep_at = Some(turn.now + Duration::from_secs(seconds));
        }
    }

    /// Whether any bit may be cleared: no leg is missing or being filled, and none has lost
    /// anything.
    fn may_clear(&self) -> bool {
        let is_whole = self.legs.in_sync == self.config.map.all();
        is_whole && !self.record.is_lost()
    }

    /// Looks for bits that can be cleared, where it is time to.
    pub(crate) fn check_sweep(&mut self, turn: &Turn<'_>) {
        if self.sweep_at.is_none_or(|at| at > turn.now) {
            return;
        }
        self.sweep_at = None;
        if self.may_clear() {
            let mut idle = self.intent.sweep();
            idle.retain(|idle| !self.divergence.overlaps(self.intent.extent_of(idle.chunk)));
            if !idle.is_empty() {
                self.begin_clear_flush(turn, idle);
            }
            self.sweep_later(turn);
        }
    }

    /// All legs have flushed since these chunks were found idle.
    pub(crate) fn flushed_chunks(&mut self, chunks: Vec<IdleChunk>) {
        if !self.may_clear() {
            // A leg that was lost meanwhile is behind this count of events: it would get everything
            // when it comes back, though the bits know what it missed. They are swept again then.
            return;
        }
        let keeper = self.keeper.as_ref().expect("only metadata has a bitmap");
        let events = keeper.events();
        if self.intent.cleared_durable == events {
            return self.clear_bits(&chunks);
        }
        // Before the first bit goes, every leg must say since when bits are missing.
        self.intent.set_events_cleared(events);
        self.clear_later(chunks);
    }

    /// Clears the bits of those of `chunks` that have been idle all the time.
    pub(crate) fn clear_bits(&mut self, chunks: &[IdleChunk]) {
        // Until a leg's log says what it does not hold, the bits do. They are swept again.
        if !self.may_clear() || !self.are_faults_durable() {
            return;
        }
        let differs =
            |idle: &&IdleChunk| (self.divergence).overlaps(self.intent.extent_of(idle.chunk));
        let chunks: Vec<IdleChunk> = chunks
            .iter()
            .filter(|idle| !differs(idle))
            .copied()
            .collect();
        if self.intent.clear(&chunks) {
            let keeper = self.keeper.as_mut().expect("only metadata has a bitmap");
            keeper.pages_changed();
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("memory is addressed by 64 bits")
}

/// A set of chunks, a bit for each.
#[derive(Debug)]
struct ChunkSet {
    words: Vec<u64>,
    chunks: u64,
    count: u64,
}

impl ChunkSet {
    fn new(chunks: u64) -> Self {
        Self {
            words: vec![0; index(chunks.div_ceil(64))],
            chunks,
            count: 0,
        }
    }

    const fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn contains(&self, chunk: u64) -> bool {
        let word = self.words.get(index(chunk / 64));
        word.is_some_and(|word| word >> (chunk % 64) & 1 == 1)
    }

    fn insert(&mut self, chunk: u64) {
        if !self.contains(chunk) {
            self.words[index(chunk / 64)] |= 1 << (chunk % 64);
            self.count += 1;
        }
    }

    fn clear(&mut self) {
        if self.count > 0 {
            self.words.fill(0);
            self.count = 0;
        }
    }

    fn remove(&mut self, chunk: u64) {
        if self.contains(chunk) {
            self.words[index(chunk / 64)] &= !(1 << (chunk % 64));
            self.count -= 1;
        }
    }

    /// The first chunk from `chunk` on that is not in it.
    fn next_without(&self, chunk: u64) -> u64 {
        let first = index(chunk / 64);
        let mut mask = u64::MAX << (chunk % 64);
        for (at, word) in self.words.iter().enumerate().skip(first) {
            let left = !word & mask;
            if left != 0 {
                return at as u64 * 64 + u64::from(left.trailing_zeros());
            }
            mask = u64::MAX;
        }
        self.words.len() as u64 * 64
    }

    /// The first one from `chunk` on.
    fn next(&self, chunk: u64) -> Option<u64> {
        let first = index(chunk / 64);
        let mut mask = u64::MAX << (chunk % 64);
        for (at, word) in self.words.iter().enumerate().skip(first) {
            let left = word & mask;
            if left != 0 {
                return Some(at as u64 * 64 + u64::from(left.trailing_zeros()));
            }
            mask = u64::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests;
