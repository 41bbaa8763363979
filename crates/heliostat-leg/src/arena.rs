//! The memory that all buffers lie in: one mapping, allocated at the start, handed out in ranges
//! by the engine's buffer table.
//!
//! The rule that makes it sound: at any time a range of the arena belongs either to any number of
//! readers (a write's bytes, on their way to several legs) or to exactly one writer (a read's
//! destination, a client's payload, a copy). The engine's buffer table keeps to it: a buffer is
//! referenced by each leg operation that uses it until that operation was reaped, and is handed
//! out anew only when the last reference is gone. The arena itself knows nothing of buffers.

use std::iter;
use std::sync::Arc;

use crate::error::LegError;
use crate::mapping::{Mapping, Pages};

/// A range of the arena: offset and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaRange {
    /// From where.
    pub offset_bytes: usize,
    /// How many.
    pub len_bytes: usize,
}

/// Where in the arena the bytes of an operation lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegMemory {
    /// In a row.
    One(ArenaRange),
    /// In several ranges, one after the other: of operations that are done as one.
    Many(Arc<[ArenaRange]>),
}

impl LegMemory {
    /// The ranges, in order.
    #[must_use]
    pub fn ranges(&self) -> &[ArenaRange] {
        match self {
            Self::One(range) => std::slice::from_ref(range),
            Self::Many(ranges) => ranges,
        }
    }

    /// How many bytes there are.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.ranges().iter().map(|range| range.len_bytes).sum()
    }

    /// As much as lies in a row from byte `from_bytes` on, and `len_bytes` at most.
    pub(crate) fn row(&self, mut from_bytes: usize, len_bytes: usize) -> ArenaRange {
        let mut ranges = self.ranges().iter();
        let range = ranges.find(|range| {
            let is_there = from_bytes < range.len_bytes;
            from_bytes -= if is_there { 0 } else { range.len_bytes };
            is_there
        });
        let range = range.expect("what is asked for lies inside");
        ArenaRange {
            offset_bytes: range.offset_bytes + from_bytes,
            len_bytes: len_bytes.min(range.len_bytes - from_bytes),
        }
    }

    /// The rows of the `len_bytes` from byte `from_bytes` on.
    pub(crate) fn rows(
        &self,
        from_bytes: usize,
        len_bytes: usize,
    ) -> impl Iterator<Item = ArenaRange> {
        let (mut at, end) = (from_bytes, from_bytes + len_bytes);
        iter::from_fn(move || {
            let row = (at < end).then(|| self.row(at, end - at))?;
            at += row.len_bytes;
            Some(row)
        })
    }

    /// The `len_bytes` from byte `from_bytes` on.
    pub(crate) fn part(&self, from_bytes: usize, len_bytes: usize) -> Self {
        let row = self.row(from_bytes, len_bytes);
        if row.len_bytes == len_bytes {
            Self::One(row)
        } else {
            Self::Many(self.rows(from_bytes, len_bytes).collect())
        }
    }
}

impl From<ArenaRange> for LegMemory {
    fn from(range: ArenaRange) -> Self {
        Self::One(range)
    }
}

/// The memory that all buffers lie in.
#[derive(Debug)]
pub struct Arena {
    mapping: Mapping,
}

// SAFETY: threads share the arena under the rule above, which gives each range one writer or many
// readers; everything else in it is never changed.
unsafe impl Sync for Arena {}

impl Arena {
    /// `bytes` zeros, page aligned, all of them backed by memory at once.
    ///
    /// # Errors
    /// Where the kernel has no memory for it.
    pub fn new(bytes: usize) -> Result<Arc<Self>, LegError> {
        let mapping = Mapping::new(bytes, Pages::AtOnce).map_err(|source| LegError::Setup {
            doing: format!("have {bytes} bytes of memory for buffers (see --memory)"),
            source,
        })?;
        Ok(Arc::new(Self { mapping }))
    }

    /// How many bytes there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Whether there is no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a range that has no writer for as long as the reference lives.
    ///
    /// # Panics
    /// Where the range does not lie inside the arena.
    #[must_use]
    pub fn slice(&self, range: ArenaRange) -> &[u8] {
        let start = self.address(range);
        // SAFETY: the address was checked to be followed by that many bytes of the mapping, which
        // lives as long as `self`, and by the module's rule nothing writes to them meanwhile.
        unsafe { std::slice::from_raw_parts(start, range.len_bytes) }
    }

    /// The bytes of a range that belongs to the caller alone for as long as the reference lives.
    ///
    /// # Panics
    /// Where the range does not lie inside the arena.
    #[must_use]
    #[expect(
        clippy::mut_from_ref,
        reason = "ranges have owners, by the module's rule"
    )]
    pub fn slice_mut(&self, range: ArenaRange) -> &mut [u8] {
        let start = self.address(range);
        // SAFETY: the address was checked to be followed by that many bytes of the mapping, which
        // lives as long as `self`, and by the module's rule nothing else touches them meanwhile.
        unsafe { std::slice::from_raw_parts_mut(start, range.len_bytes) }
    }

    /// Copies `len` bytes from `from` on to `to` on. The two must not overlap.
    ///
    /// # Panics
    /// Where they overlap or do not lie inside the arena.
    pub fn copy(&self, from: usize, to: usize, len: usize) {
        assert!(from.abs_diff(to) >= len, "a copy does not overlap itself");
        let range = |offset_bytes| ArenaRange {
            offset_bytes,
            len_bytes: len,
        };
        self.slice_mut(range(to))
            .copy_from_slice(self.slice(range(from)));
    }

    /// Makes `len` bytes from `at` on zero.
    ///
    /// # Panics
    /// Where they do not lie inside the arena.
    pub fn zero(&self, at: usize, len: usize) {
        self.slice_mut(ArenaRange {
            offset_bytes: at,
            len_bytes: len,
        })
        .fill(0);
    }

    /// Puts bytes there.
    ///
    /// # Panics
    /// Where they do not lie inside the arena.
    pub fn store(&self, at: usize, bytes: &[u8]) {
        self.slice_mut(ArenaRange {
            offset_bytes: at,
            len_bytes: bytes.len(),
        })
        .copy_from_slice(bytes);
    }

    /// Where a range begins in memory.
    pub(crate) fn address(&self, range: ArenaRange) -> *mut u8 {
        self.mapping
            .address(range.offset_bytes, range.len_bytes)
            .as_ptr()
    }
}
