//! How copies lie on legs, in the words that people use for it.

use std::fmt;

use heliostat_types::LEGS_MAX;
use stdx::settings::{SettingError, parse_count};

/// How the bytes of an array are spread over its legs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// All of it on every leg, at the same place.
    #[default]
    Mirror,
    /// Striped and mirrored in chunks, as Linux md does it.
    Raid10(Raid10),
}

/// A layout of Linux md's level 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raid10 {
    /// Where the copies of a chunk lie to each other.
    pub order: CopyOrder,
    /// How many copies each chunk has: at least 2, and no more than there are legs.
    pub copies: u32,
    /// The size of a chunk: a power of two, at least [`Raid10::CHUNK_MIN_BYTES`].
    pub chunk_bytes: u64,
}

/// Where the copies of a chunk lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOrder {
    /// Beside each other, at about the same place of neighbouring legs.
    Near,
    /// Each in another part of its leg, so that the first part of all legs is a plain stripe.
    Far,
    /// In neighbouring rows, each row of chunks repeated with the legs rotated by one.
    Offset,
}

/// The names of the orders, as they are written.
const ORDERS: [(&str, CopyOrder); 3] = [
    ("near", CopyOrder::Near),
    ("far", CopyOrder::Far),
    ("offset", CopyOrder::Offset),
];

impl Raid10 {
    /// What md takes unless told otherwise.
    pub const CHUNK_DEFAULT_BYTES: u64 = 512 << 10;
    /// A page: md takes nothing smaller.
    pub const CHUNK_MIN_BYTES: u64 = 4096;
    /// Far above what anybody uses, and far below what numbers hold.
    pub const CHUNK_MAX_BYTES: u64 = 1 << 30;

    /// Chunks of `size_bytes`.
    ///
    /// # Errors
    /// Where md has no such chunks.
    pub fn with_chunk_bytes(mut self, size_bytes: u64) -> Result<Self, LayoutError> {
        let allowed = Self::CHUNK_MIN_BYTES..=Self::CHUNK_MAX_BYTES;
        if !size_bytes.is_power_of_two() || !allowed.contains(&size_bytes) {
            return Err(LayoutError::Chunk(size_bytes));
        }
        self.chunk_bytes = size_bytes;
        Ok(self)
    }
}

impl Layout {
    /// `mirror`, or `near=K`, `far=K`, `offset=K` for K copies in chunks of the default size.
    ///
    /// # Errors
    /// Where it is none of these.
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        if text == "mirror" {
            return Ok(Self::Mirror);
        }
        let (name, copies) = text.split_once('=').unwrap_or((text, ""));
        let known = ORDERS.iter().find(|(known, _)| *known == name);
        let Some(&(_, order)) = known else {
            let text = format_args!("'{text}' is not mirror, near=K, far=K or offset=K");
            return Err(SettingError::value("layout", text));
        };
        let copies = parse_count(name, copies, 2, LEGS_MAX as u64)
            .map_err(|error| SettingError::value("layout", error))?;
        Ok(Self::Raid10(Raid10 {
            order,
            copies: u32::try_from(copies).expect("at most 16"),
            chunk_bytes: Raid10::CHUNK_DEFAULT_BYTES,
        }))
    }
}

impl fmt::Display for Layout {
    /// As [`Layout::parse`] takes it; the size of the chunks is not in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mirror => f.write_str("mirror"),
            Self::Raid10(Raid10 { order, copies, .. }) => {
                let name = match order {
                    CopyOrder::Near => "near",
                    CopyOrder::Far => "far",
                    CopyOrder::Offset => "offset",
                };
                write!(f, "{name}={copies}")
            }
        }
    }
}

/// Why there is no array of such a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// There are none or more than 16.
    Legs(usize),
    /// A chunk of this size is no power of two, or too small or too large.
    Chunk(u64),
    /// More copies than legs, or fewer than two.
    Copies {
        /// So many copies,
        copies: u32,
        /// of which each wants a leg of its own.
        legs: usize,
    },
    /// No chunk fits onto legs of this size, or more than can be counted.
    LegSize(u64),
    /// A table names a place twice, or a leg twice for one chunk, or one that does not exist.
    Place {
        /// The chunk of which one copy cannot be there.
        chunk: u64,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Legs(count) => write!(f, "{count} legs, and it takes 1 to {LEGS_MAX}"),
            Self::Chunk(size_bytes) => write!(
                f,
                "a chunk of {size_bytes} bytes; it must be a power of two from {} to {}",
                Raid10::CHUNK_MIN_BYTES,
                Raid10::CHUNK_MAX_BYTES
            ),
            Self::Copies { copies, legs } => write!(
                f,
                "{copies} copies on {legs} legs; a layout takes 2 copies or more, each on a leg \
                 of its own"
            ),
            Self::LegSize(size_bytes) => {
                write!(
                    f,
                    "legs of {size_bytes} bytes hold no whole chunk, or too many"
                )
            }
            Self::Place { chunk } => write!(f, "the place of chunk {chunk} is not free"),
        }
    }
}

impl std::error::Error for LayoutError {}

#[cfg(test)]
mod tests {
    use super::{CopyOrder, Layout, LayoutError, Raid10};

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["mirror", "near=2", "near=16", "far=3", "offset=2"] {
            assert_eq!(Layout::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Layout::parse("far=2"),
            Ok(Layout::Raid10(Raid10 {
                order: CopyOrder::Far,
                copies: 2,
                chunk_bytes: 524_288,
            }))
        );
        let told = |text| Layout::parse(text).unwrap_err().to_string();
        assert_eq!(
            told("n2"),
            "layout: 'n2' is not mirror, near=K, far=K or offset=K"
        );
        assert_eq!(
            told("near=1"),
            "layout: near: '1' is not a whole number from 2 to 16"
        );
        assert_eq!(
            told("far"),
            "layout: far: '' is not a whole number from 2 to 16"
        );
    }

    #[test]
    fn chunks_are_powers_of_two() {
        let Ok(Layout::Raid10(raid10)) = Layout::parse("near=2") else {
            panic!("near=2 is a layout");
        };
        assert_eq!(raid10.with_chunk_bytes(65_536).unwrap().chunk_bytes, 65_536);
        for wrong in [0, 512, 5000, 96 << 10, 2 << 30] {
            assert_eq!(
                raid10.with_chunk_bytes(wrong),
                Err(LayoutError::Chunk(wrong))
            );
        }
    }
}
