//! The arena of the engine under test: bytes that hold rubbish until somebody writes them.
//!
//! It knows nothing of who owns which range; the world checks that before it comes here.

use std::ops::Range;

use heliostat_engine::Memory;

/// What is filled with rubbish at once.
const GRANULE_BYTES: usize = 4096;

/// What untouched memory holds: no pattern of the checker has a long run of it.
const RUBBISH: u8 = 0xa5;

#[derive(Debug)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    /// Granules already filled with rubbish: the memory of a run that stays small is never
    /// committed by the kernel.
    touched: Vec<bool>,
}

impl Arena {
    pub(crate) fn new(len_bytes: usize) -> Self {
        Self {
            bytes: vec![0; len_bytes],
            touched: vec![false; len_bytes.div_ceil(GRANULE_BYTES)],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn bytes(&mut self, range: Range<usize>) -> &[u8] {
        self.touch(&range);
        &self.bytes[range]
    }

    pub(crate) fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        self.touch(&range);
        &mut self.bytes[range]
    }

    pub(crate) fn is_unchanged(&self, range: Range<usize>, copy: &[u8]) -> bool {
        &self.bytes[range] == copy
    }

    fn touch(&mut self, range: &Range<usize>) {
        for granule in range.start / GRANULE_BYTES..range.end.div_ceil(GRANULE_BYTES) {
            if !self.touched[granule] {
                self.touched[granule] = true;
                let start = granule * GRANULE_BYTES;
                let end = (start + GRANULE_BYTES).min(self.bytes.len());
                self.bytes[start..end].fill(RUBBISH);
            }
        }
    }
}

impl Memory for Arena {
    fn copy(&mut self, from: usize, to: usize, len: usize) {
        assert!(
            from + len <= to || to + len <= from,
            "a copy of {len} bytes from {from} to {to} overlaps itself"
        );
        self.touch(&(from..from + len));
        self.touch(&(to..to + len));
        self.bytes.copy_within(from..from + len, to);
    }

    fn zero(&mut self, at: usize, len: usize) {
        self.bytes_mut(at..at + len).fill(0);
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        self.bytes_mut(at..at + bytes.len()).copy_from_slice(bytes);
    }

    fn is_equal(&self, one: usize, other: usize, len: usize) -> bool {
        self.bytes[one..one + len] == self.bytes[other..other + len]
    }
}
