//! Which copy of a table is to be believed.

use std::fmt;

use heliostat_types::Extent;

use crate::bytes::COPY_BYTES_MAX;
use crate::error::TableError;
use crate::table::Table;
use crate::{ArrayId, GRAIN_BYTES};

/// Where the copies of a table lie in an array: each in a grain of its own that no volume gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Where the last whole grain begins.
    second_bytes: u64,
}

impl Places {
    /// In an array of this size; `None` where it is too small for any volume.
    #[must_use]
    pub const fn of(array_bytes: u64) -> Option<Self> {
        let grains = array_bytes / GRAIN_BYTES;
        if grains < 3 {
            return None;
        }
        Some(Self {
            second_bytes: (grains - 1) * GRAIN_BYTES,
        })
    }

    /// The grains that the copies lie in, the first one first. A copy begins where its grain does.
    #[must_use]
    pub const fn areas(self) -> [Extent; 2] {
        [
            Extent::new(0, GRAIN_BYTES),
            Extent::new(self.second_bytes, GRAIN_BYTES),
        ]
    }

    /// What volumes are made of.
    #[must_use]
    pub const fn room(self) -> Extent {
        Extent::from_range(GRAIN_BYTES, self.second_bytes)
    }
}

/// What lies where a copy of the table would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copy {
    /// A table of this array.
    Valid(Table),
    /// What was one, or was about to become one.
    Damaged(TableError),
    /// Somebody wrote it so, and it is not understood or makes no sense.
    NotUnderstood(TableError),
    /// A table of another array.
    OfAnother,
    /// Nothing but zeros.
    Blank,
    /// Something else.
    Other,
}

impl Copy {
    /// The table that lies there, if one does.
    const fn table(&self) -> Option<&Table> {
        if let Self::Valid(table) = self {
            Some(table)
        } else {
            None
        }
    }
}

/// What the bytes of an area are.
#[must_use]
pub fn look(bytes: &[u8], array: &ArrayId) -> Copy {
    match Table::parse(bytes) {
        Ok(table) if table.array == *array => Copy::Valid(table),
        Ok(_) => Copy::OfAnother,
        Err(TableError::Magic) if bytes.iter().all(|&byte| byte == 0) => Copy::Blank,
        Err(TableError::Magic) => Copy::Other,
        Err(error) if error.is_damage() => Copy::Damaged(error),
        Err(error) => Copy::NotUnderstood(error),
    }
}

/// Where else to look for a second copy, going by the first one: it lies where the array ended
/// before it has grown.
#[must_use]
pub fn former_second(first: &Copy, array_bytes: u64) -> Option<Extent> {
    let former = first.table()?.places();
    let is_elsewhere = Places::of(array_bytes) != Some(former);
    let [_, second] = former.areas();
    (is_elsewhere && second.end() <= array_bytes).then_some(second)
}

/// A table that was found, and what is wrong with its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessed {
    /// What counts.
    pub table: Table,
    /// Which places do not hold it: an older one, one that is damaged, or nothing.
    pub stale: [bool; 2],
    /// Of those, which ones may be written without asking anybody, because they are known to have
    /// held a copy, or hold nothing.
    pub may_write: [bool; 2],
    /// Whether the array ends elsewhere than when the table was written.
    pub has_grown: bool,
}

/// Why an array with a table, or with something like it, is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A copy is not understood.
    NotUnderstood {
        /// Which, from 0.
        place: usize,
        /// Why not.
        error: TableError,
    },
    /// There was a table, and no copy of it is whole.
    Unreadable {
        /// What is wrong with one of them.
        error: TableError,
    },
    /// Two copies of one generation say different things.
    Disagree,
    /// The table is of a larger array.
    TooSmall {
        /// How large that is.
        wanted_bytes: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUnderstood { place, error } => {
                let place = if *place == 0 { "start" } else { "end" };
                write!(
                    f,
                    "the table at the {place} of the array cannot be used: {error}"
                )
            }
            Self::Unreadable { error } => {
                write!(f, "no copy of the table is whole; of one of them: {error}")
            }
            Self::Disagree => f.write_str("its two copies are of one generation, and differ"),
            Self::TooSmall { wanted_bytes } => write!(
                f,
                "the table is of an array of {wanted_bytes} bytes, and this one is smaller"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

/// Which table an array has, going by what lies at both places and, after it has grown, where the
/// second one was before; `None` where it has none.
///
/// # Errors
/// Where it had one, or seems to have one, and that cannot be believed.
pub fn assess(
    array_bytes: u64,
    first: &Copy,
    second: &Copy,
    former: Option<&Copy>,
) -> Result<Option<Assessed>, Refusal> {
    for (place, copy) in [first, second].into_iter().enumerate() {
        if let Copy::NotUnderstood(error) = copy {
            let error = error.clone();
            return Err(Refusal::NotUnderstood { place, error });
        }
    }
    let tables = || {
        let copies = [Some(first), Some(second), former];
        copies.into_iter().flatten().filter_map(Copy::table)
    };
    let Some(newest) = tables().max_by_key(|table| table.generation) else {
        return match (first, second) {
            (Copy::Damaged(error), _) | (_, Copy::Damaged(error)) => {
                let error = error.clone();
                Err(Refusal::Unreadable { error })
            }
            _ => Ok(None),
        };
    };
    let differs = |table: &Table| table.generation == newest.generation && table != newest;
    if tables().any(differs) {
        return Err(Refusal::Disagree);
    }
    let places = Places::of(array_bytes);
    let is_in = |places: Places| places.room().end() >= newest.places().room().end();
    let Some(places) = places.filter(|&places| is_in(places)) else {
        let wanted_bytes = newest.array_bytes;
        return Err(Refusal::TooSmall { wanted_bytes });
    };
    let has_grown = places != newest.places();
    let is_stale =
        |copy: &Copy| has_grown || !matches!(copy, Copy::Valid(table) if table == newest);
    let is_ours = |copy: &Copy| matches!(copy, Copy::Valid(_) | Copy::Damaged(_) | Copy::Blank);
    Ok(Some(Assessed {
        table: newest.clone(),
        stale: [is_stale(first), is_stale(second)],
        // What has become part of the array was nobody's.
        may_write: [is_ours(first), has_grown || is_ours(second)],
        has_grown,
    }))
}

const _: () = assert!(
    COPY_BYTES_MAX as u64 <= GRAIN_BYTES,
    "a copy lies in a grain of its own"
);
