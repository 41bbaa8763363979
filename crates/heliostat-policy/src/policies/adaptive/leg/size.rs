//! Sizes of reads that have curves of their own.

use super::{PARTS, SIZES, SIZES_BELOW};

/// Which of the sizes that have curves of their own a read has.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Size(usize);

impl Size {
    pub(in super::super) fn of(bytes: u64) -> Self {
        Self(
            SIZES_BELOW
                .iter()
                .filter(|below| bytes > below.get())
                .count(),
        )
    }

    pub(super) const fn curve(self, continues: bool) -> usize {
        self.0 + if continues { SIZES } else { 0 }
    }

    /// Whether it is a block or a few.
    pub(in super::super) const fn is_small(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn part(self) -> usize {
        PARTS + self.0
    }
}
