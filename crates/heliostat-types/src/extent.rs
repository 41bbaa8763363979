//! A run of bytes on a device.

use std::fmt;

/// The unit in which kernels count device sizes, whatever the device's own block size is.
pub const SECTOR_BYTES: u64 = 512;

/// The bytes from `offset_bytes` on, `len_bytes` of them.
///
/// The end never overflows: [`Extent::new`] refuses what would.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    offset_bytes: u64,
    len_bytes: u64,
}

impl Extent {
    /// The `len_bytes` bytes from `offset_bytes` on.
    ///
    /// # Panics
    /// Where the end lies beyond 2^64: check untrusted numbers with [`Extent::checked_new`].
    #[must_use]
    pub const fn new(offset_bytes: u64, len_bytes: u64) -> Self {
        assert!(
            offset_bytes.checked_add(len_bytes).is_some(),
            "an extent ends below 2^64"
        );
        Self {
            offset_bytes,
            len_bytes,
        }
    }

    /// The same, or `None` where the end lies beyond 2^64.
    #[must_use]
    pub const fn checked_new(offset_bytes: u64, len_bytes: u64) -> Option<Self> {
        match offset_bytes.checked_add(len_bytes) {
            Some(_) => Some(Self {
                offset_bytes,
                len_bytes,
            }),
            None => None,
        }
    }

    /// The bytes from `start` up to and without `end`.
    ///
    /// # Panics
    /// Where `end` is below `start`.
    #[must_use]
    pub const fn from_range(start: u64, end: u64) -> Self {
        assert!(start <= end, "an extent does not end before it begins");
        Self {
            offset_bytes: start,
            len_bytes: end - start,
        }
    }

    /// Where the first byte lies.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.offset_bytes
    }

    /// How many bytes there are.
    #[must_use]
    pub const fn len(self) -> u64 {
        self.len_bytes
    }

    /// Where the byte after the last one lies.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.offset_bytes + self.len_bytes
    }

    /// As long, and so much further behind.
    ///
    /// # Panics
    /// Where the end would lie beyond 2^64.
    #[must_use]
    pub const fn moved(self, by_bytes: u64) -> Self {
        Self::new(self.offset_bytes + by_bytes, self.len_bytes)
    }

    /// Whether there is no byte in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len_bytes == 0
    }

    /// Whether some byte lies in both.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.offset_bytes < other.end()
            && other.offset_bytes < self.end()
            && !self.is_empty()
            && !other.is_empty()
    }

    /// Whether every byte of `other` lies in `self`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.offset_bytes <= other.offset_bytes && other.end() <= self.end()
    }

    /// The bytes in both, where there are any.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        let start = self.offset_bytes.max(other.offset_bytes);
        let end = self.end().min(other.end());
        (start < end).then(|| Self::from_range(start, end))
    }

    /// The smallest extent of whole blocks that holds all of it.
    ///
    /// # Panics
    /// Where `block_bytes` is not a power of two, or the rounded end lies beyond 2^64.
    #[must_use]
    pub const fn aligned_out(self, block_bytes: u64) -> Self {
        assert!(
            block_bytes.is_power_of_two(),
            "a block size is a power of two"
        );
        let start = self.offset_bytes & !(block_bytes - 1);
        let Some(end) = self.end().checked_next_multiple_of(block_bytes) else {
            panic!("an extent ends below 2^64 when rounded to blocks");
        };
        Self::from_range(start, end)
    }

    /// The largest extent of whole blocks that lies inside it; empty where there is no whole block.
    ///
    /// # Panics
    /// Where `block_bytes` is not a power of two.
    #[must_use]
    pub const fn aligned_in(self, block_bytes: u64) -> Self {
        assert!(
            block_bytes.is_power_of_two(),
            "a block size is a power of two"
        );
        let end = self.end() & !(block_bytes - 1);
        match self.offset_bytes.checked_next_multiple_of(block_bytes) {
            Some(start) if start < end => Self::from_range(start, end),
            _ => Self {
                offset_bytes: end,
                len_bytes: 0,
            },
        }
    }

    /// Whether it begins and ends at block borders.
    #[must_use]
    pub const fn is_aligned(self, block_bytes: u64) -> bool {
        self.offset_bytes.is_multiple_of(block_bytes) && self.len_bytes.is_multiple_of(block_bytes)
    }

    /// The first `len_bytes` bytes and the rest.
    ///
    /// # Panics
    /// Where there are fewer bytes than that.
    #[must_use]
    pub const fn split_at(self, len_bytes: u64) -> (Self, Self) {
        assert!(
            len_bytes <= self.len_bytes,
            "an extent is split inside itself"
        );
        (
            Self {
                offset_bytes: self.offset_bytes,
                len_bytes,
            },
            Self {
                offset_bytes: self.offset_bytes + len_bytes,
                len_bytes: self.len_bytes - len_bytes,
            },
        )
    }
}

impl fmt::Debug for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.offset_bytes, self.len_bytes)
    }
}

impl fmt::Display for Extent {
    /// `bytes 4096 to 8191`: first and last byte, as in messages for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len_bytes {
            0 => write!(f, "no bytes at {}", self.offset_bytes),
            len => write!(
                f,
                "bytes {} to {}",
                self.offset_bytes,
                self.offset_bytes + (len - 1)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Extent;

    #[test]
    fn alignment_outwards_and_inwards() {
        let extent = Extent::new(1_000, 9_000); // 1000 to 9999.
        assert_eq!(extent.aligned_out(4096), Extent::new(0, 12_288));
        assert_eq!(extent.aligned_in(4096), Extent::new(4096, 4096));
        assert!(Extent::new(1, 100).aligned_in(512).is_empty());
        assert!(Extent::new(0, 512).is_aligned(512));
        assert!(!Extent::new(1, 511).is_aligned(512));
    }

    #[test]
    fn empty_extents_overlap_nothing() {
        assert!(!Extent::new(5, 0).overlaps(Extent::new(0, 10)));
        assert!(!Extent::new(0, 5).overlaps(Extent::new(5, 5)));
        assert!(Extent::new(0, 6).overlaps(Extent::new(5, 5)));
        assert_eq!(
            Extent::new(0, 6).intersection(Extent::new(4, 9)),
            Some(Extent::new(4, 2))
        );
        assert_eq!(Extent::new(0, 4).intersection(Extent::new(4, 9)), None);
    }

    #[test]
    fn ends_beyond_the_address_space_are_refused() {
        assert_eq!(Extent::checked_new(u64::MAX, 1), None);
        assert!(Extent::checked_new(u64::MAX, 0).is_some());
    }
}
