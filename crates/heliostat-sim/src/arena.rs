//! The memory of all requests in flight, and which of it holds what an injected fault has damaged.

use std::collections::BTreeSet;
use std::ops::Range;

use heliostat_engine::Memory;

use crate::contents::SECTOR;

/// Bytes, and the sectors of them (by offset) that came from damaged sectors of a leg. Damage
/// follows the bytes wherever the engine copies them, so that what it spreads in good faith is
/// known to be no fault of its own.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) bytes: Vec<u8>,
    tainted: BTreeSet<usize>,
}

impl Arena {
    pub(crate) fn new(len_bytes: usize) -> Self {
        Self {
            bytes: vec![0; len_bytes],
            tainted: BTreeSet::new(),
        }
    }

    /// Whether nothing in it is damaged.
    pub(crate) fn is_clean(&self) -> bool {
        self.tainted.is_empty()
    }

    /// Whether the sector at `at` is damaged.
    pub(crate) fn is_tainted(&self, at: usize) -> bool {
        self.tainted.contains(&(at / SECTOR))
    }

    /// The sector at `at` came from a damaged one, or not.
    pub(crate) fn set_tainted(&mut self, at: usize, is_tainted: bool) {
        if is_tainted {
            self.tainted.insert(at / SECTOR);
        } else {
            self.tainted.remove(&(at / SECTOR));
        }
    }

    /// New bytes are in `range`, from nowhere.
    pub(crate) fn clear(&mut self, range: Range<usize>) {
        if self.is_clean() {
            return;
        }
        let sectors = range.start / SECTOR..range.end.div_ceil(SECTOR);
        let inside: Vec<usize> = self.tainted.range(sectors).copied().collect();
        for sector in inside {
            self.tainted.remove(&sector);
        }
    }

    /// Nothing in it means anything any more.
    pub(crate) fn forget(&mut self) {
        self.tainted.clear();
    }
}

impl Memory for Arena {
    fn copy(&mut self, from: usize, to: usize, len: usize) {
        self.bytes.copy_within(from..from + len, to);
        if !self.is_clean() {
            for at in (0..len).step_by(SECTOR) {
                self.set_tainted(to + at, self.is_tainted(from + at));
            }
        }
    }

    fn zero(&mut self, at: usize, len: usize) {
        self.bytes[at..at + len].fill(0);
        self.clear(at..at + len);
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.clear(at..at + bytes.len());
    }

    fn is_equal(&self, one: usize, other: usize, len: usize) -> bool {
        let is_damaged_alike = |at| self.is_tainted(one + at) == self.is_tainted(other + at);
        self.bytes[one..one + len] == self.bytes[other..other + len]
            && (self.is_clean() || (0..len).step_by(SECTOR).all(is_damaged_alike))
    }
}

#[cfg(test)]
mod tests {
    use heliostat_engine::Memory;

    use super::Arena;

    #[test]
    fn damage_follows_the_bytes() {
        let mut arena = Arena::new(1 << 16);
        arena.set_tainted(1024, true);
        arena.copy(512, 8192, 1536);
        let tainted = |arena: &Arena, at| arena.is_tainted(at);
        assert!(!tainted(&arena, 8192) && tainted(&arena, 8704) && !tainted(&arena, 9216));
        arena.zero(8192, 1024);
        assert!(!tainted(&arena, 8704) && tainted(&arena, 1024));
        arena.clear(1024..1536);
        assert!(arena.is_clean());
    }
}
