//! What a table says.

use heliostat_types::Extent;

use crate::copies::Places;
use crate::error::TableError;
use crate::{ArrayId, GRAIN_BYTES};

/// How many volumes an array has at most: each has an account of its own, of which there are 256
/// together with those of clients.
pub const VOLUMES_MAX: usize = 120;

/// The longest name of a volume.
pub const VOLUME_NAME_BYTES_MAX: usize = 64;

/// The largest weight: shares that differ by more than this are better said with caps.
const WEIGHT_MAX: u32 = 100;

/// How much of the array a volume may have of the legs' time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Its share beside others; one of weight 2 gets twice what one of weight 1 gets.
    pub weight: u32,
    /// Requests per second; 0: as many as there are.
    pub iops_max: u32,
    /// Bytes per second; 0: as many as there are.
    pub bytes_per_s_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            weight: 1,
            iops_max: 0,
            bytes_per_s_max: 0,
        }
    }
}

impl Limits {
    /// Whether the numbers are among those that mean something.
    #[must_use]
    pub fn is_sensible(&self) -> bool {
        (1..=WEIGHT_MAX).contains(&self.weight)
    }
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// What clients ask for it by; see [`is_name`].
    pub name: String,
    /// What clients see of it. 0 while a new one is prepared, and then nobody sees it.
    pub size_bytes: u64,
    /// How much from its start on holds nothing of former volumes: at least what clients see. What
    /// it has beyond is being zeroed; when that is done, clients see it too.
    pub prepared_bytes: u64,
    /// How much of the array's time it may have.
    pub limits: Limits,
    /// Where it lies in the array, in its order.
    pub extents: Vec<Extent>,
}

impl Volume {
    /// How many bytes of the array are its own.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.len()).sum()
    }

    /// Whether some of it is still to be zeroed, or shown.
    #[must_use]
    pub fn is_preparing(&self) -> bool {
        self.size_bytes < self.allocated_bytes()
    }
}

/// The volumes of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Of which array.
    pub array: ArrayId,
    /// Rises with each change; of two copies the higher one is newer.
    pub generation: u64,
    /// How large the array was when this was written: the second copy lies at its end.
    pub array_bytes: u64,
    /// The volumes, in the order in which they were made.
    pub volumes: Vec<Volume>,
}

impl Table {
    /// A table without volumes, the first one of an array.
    ///
    /// # Errors
    /// Where the array is too small for any.
    pub fn new(array: ArrayId, array_bytes: u64) -> Result<Self, TableError> {
        Places::of(array_bytes).ok_or(TableError::ArrayTooSmall { array_bytes })?;
        Ok(Self {
            array,
            generation: 0,
            array_bytes,
            volumes: Vec::new(),
        })
    }

    /// The volume of this name.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.iter().find(|volume| volume.name == name)
    }

    /// Where its copies lie.
    ///
    /// # Panics
    /// Where the array is too small, which [`Table::check`] finds.
    #[must_use]
    pub fn places(&self) -> Places {
        Places::of(self.array_bytes).expect("a table is of an array that is large enough")
    }

    /// Whether it makes sense: what [`Table`] and [`Volume`] say of their fields holds, and no byte
    /// belongs to two volumes, or to a volume and to a copy of the table.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), TableError> {
        let array_bytes = self.array_bytes;
        let places = Places::of(array_bytes).ok_or(TableError::ArrayTooSmall { array_bytes })?;
        if self.volumes.len() > VOLUMES_MAX {
            let count = self.volumes.len();
            return Err(TableError::TooManyVolumes { count });
        }
        let mut used: Vec<Extent> = Vec::new();
        for (index, volume) in self.volumes.iter().enumerate() {
            let is_taken = |other: &Volume| other.name == volume.name;
            if !is_name(&volume.name) || self.volumes[..index].iter().any(is_taken) {
                return Err(TableError::Name { index });
            }
            if !is_sensible(volume, places) {
                return Err(TableError::Volume { index });
            }
            used.extend(&volume.extents);
        }
        used.sort_unstable();
        match used.windows(2).find(|pair| pair[0].overlaps(pair[1])) {
            Some(pair) => Err(TableError::Overlap {
                at_bytes: pair[1].offset(),
            }),
            None => Ok(()),
        }
    }
}

/// Whether a volume by itself makes sense.
fn is_sensible(volume: &Volume, places: Places) -> bool {
    let room = places.room();
    let is_whole = |bytes: u64| bytes.is_multiple_of(GRAIN_BYTES);
    let fits = |extent: &Extent| {
        !extent.is_empty() && extent.is_aligned(GRAIN_BYTES) && room.contains(*extent)
    };
    // Each lies in the room, so that the sum of up to 4096 of them could overflow: it is counted.
    let allocated = volume
        .extents
        .iter()
        .try_fold(0_u64, |sum, extent| sum.checked_add(extent.len()));
    volume.extents.iter().all(fits)
        && allocated.is_some_and(|allocated| {
            allocated > 0
                && volume.size_bytes <= volume.prepared_bytes
                && volume.prepared_bytes <= allocated
        })
        && is_whole(volume.size_bytes)
        && is_whole(volume.prepared_bytes)
        && volume.limits.is_sensible()
}

/// Whether a volume may be called so: letters, digits, `-`, `_` and `.`, beginning with a letter,
/// a digit or `_`.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=VOLUME_NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with(['-', '.'])
        && name.chars().all(is_allowed)
}
