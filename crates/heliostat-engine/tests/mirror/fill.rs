//! What writes put into the array: bytes that say which write they are of.

use std::sync::OnceLock;

use heliostat_types::{Prng, RandomStream};

/// A prime, so that no shift by whole blocks looks right.
const TABLE_BYTES: usize = 65_521;

/// A prime as well: two writes have the same bytes only after `TABLE_BYTES` others.
const TABLE_STRIDE: usize = 7_919;

/// The bytes that a write puts there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Zeros,
    /// Bytes that differ from write to write and from place to place, and are never zero.
    Pattern(usize),
}

impl Fill {
    pub(crate) fn write(self, offset: u64, bytes: &mut [u8]) {
        match self {
            Self::Zeros => bytes.fill(0),
            Self::Pattern(write) => {
                let mut rest = bytes;
                let mut place = Self::place(write, offset);
                while !rest.is_empty() {
                    let len = rest.len().min(TABLE_BYTES - place);
                    let (now, later) = rest.split_at_mut(len);
                    now.copy_from_slice(&table()[place..place + len]);
                    rest = later;
                    place = 0;
                }
            }
        }
    }

    pub(crate) fn matches(self, offset: u64, bytes: &[u8]) -> bool {
        match self {
            Self::Zeros => bytes.iter().all(|&byte| byte == 0),
            Self::Pattern(write) => {
                let mut rest = bytes;
                let mut place = Self::place(write, offset);
                while !rest.is_empty() {
                    let len = rest.len().min(TABLE_BYTES - place);
                    if rest[..len] != table()[place..place + len] {
                        return false;
                    }
                    rest = &rest[len..];
                    place = 0;
                }
                true
            }
        }
    }

    fn place(write: usize, offset: u64) -> usize {
        (index(offset) % TABLE_BYTES + write % TABLE_BYTES * TABLE_STRIDE) % TABLE_BYTES
    }
}

fn table() -> &'static [u8] {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut prng = RandomStream::new(0, "pattern", 0);
        let byte = |prng: &mut RandomStream| u8::try_from(1 + prng.below(255)).unwrap();
        (0..TABLE_BYTES).map(|_| byte(&mut prng)).collect()
    })
}

/// An offset as an index into bytes.
pub(crate) fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}
