//! The memory of all requests in flight, and which of it holds what an injected fault has damaged.

use std::collections::BTreeSet;
use std::ops::Range;

use heliostat_engine::Memory;

use crate::contents::{Fidelity, SECTOR};

/// Bytes, and the sectors of them (by offset) that came from damaged sectors of a leg. Damage
/// follows the bytes wherever the engine copies them, so that what it spreads in good faith is
/// known to be no fault of its own.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) bytes: Vec<u8>,
    tainted: BTreeSet<usize>,
    /// How many bytes of each sector mean anything.
    kept_bytes: usize,
}

impl Arena {
    pub(crate) fn new(len_bytes: usize, fidelity: Fidelity) -> Self {
        Self {
            bytes: vec![0; len_bytes],
            tainted: BTreeSet::new(),
            kept_bytes: fidelity.kept_bytes(),
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
        let is_alike = |at| {
            let kept = self.kept_bytes.min(len - at);
            let [one, other] = [one, other].map(|first| &self.bytes[first + at..][..kept]);
            one == other
        };
        let mut sectors = (0..len).step_by(SECTOR);
        sectors.all(|at| is_alike(at) && (self.is_clean() || is_damaged_alike(at)))
    }
}

#[cfg(test)]
mod tests {
    use heliostat_engine::Memory;

    use super::Arena;
    use crate::contents::Fidelity;

    #[test]
    fn bytes_that_are_not_kept_are_not_compared() {
        let at = [15, 512 + 16];
        for (fidelity, expected) in [
            (Fidelity::Bytes, [false, false]),
            (Fidelity::Stamps, [false, true]),
        ] {
            let is_equal = at.map(|at| {
                let mut arena = Arena::new(1 << 16, fidelity);
                arena.bytes[4096 + at] = 1;
                arena.is_equal(0, 4096, 1024)
            });
            assert_eq!(is_equal, expected, "{fidelity:?}");
        }
    }

    #[test]
    fn damage_follows_the_bytes() {
        let mut arena = Arena::new(1 << 16, Fidelity::Bytes);
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
