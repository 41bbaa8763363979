//! How a table becomes another one.
//!
//! Nothing here moves a volume: one that grows gets more extents, one that shrinks gives up its
//! last ones, and all others stay where they are.

use crate::error::ChangeError;
use crate::table::{Limits, Table, VOLUMES_MAX, Volume, is_name};
use crate::{GRAIN_BYTES, room};

/// What a volume of so many bytes takes.
fn whole_grains(bytes: u64) -> Result<u64, ChangeError> {
    let rounded = bytes.checked_next_multiple_of(GRAIN_BYTES);
    let rounded = rounded.filter(|&bytes| bytes > 0 && bytes <= i64::MAX.unsigned_abs());
    rounded.ok_or(ChangeError::BadSize)
}

impl Table {
    /// With one more volume, which is to be prepared. Its size is rounded up to whole grains.
    ///
    /// # Errors
    /// Where it cannot be called so, or there is no room for it.
    pub fn with_volume(
        &self,
        name: &str,
        size_bytes: u64,
        limits: Limits,
    ) -> Result<Self, ChangeError> {
        if !is_name(name) {
            return Err(ChangeError::BadName(name.to_owned()));
        }
        if self.volume(name).is_some() {
            return Err(ChangeError::NameTaken(name.to_owned()));
        }
        if !limits.is_sensible() {
            return Err(ChangeError::BadLimits);
        }
        if self.volumes.len() == VOLUMES_MAX {
            return Err(ChangeError::TooMany);
        }
        let mut next = self.next();
        let volume = Volume {
            name: name.to_owned(),
            size_bytes: 0,
            prepared_bytes: 0,
            limits,
            extents: Vec::new(),
        };
        next.volumes.push(volume);
        next.extend(self.volumes.len(), whole_grains(size_bytes)?)?;
        next.if_it_fits()
    }

    /// With a volume of another size, rounded up to whole grains. What is new is to be prepared.
    ///
    /// # Errors
    /// Where there is no such volume or no room, or bytes that clients see would be lost and
    /// `may_shrink` does not say that they may.
    pub fn with_size(
        &self,
        name: &str,
        size_bytes: u64,
        may_shrink: bool,
    ) -> Result<Self, ChangeError> {
        let index = self.index_of(name)?;
        let mut next = self.next();
        let volume = &mut next.volumes[index];
        let wanted = whole_grains(size_bytes)?;
        if wanted < volume.size_bytes && !may_shrink {
            return Err(ChangeError::WouldShrink {
                name: name.to_owned(),
                from_bytes: volume.size_bytes,
                to_bytes: wanted,
            });
        }
        let allocated = volume.allocated_bytes();
        if wanted > allocated {
            next.extend(index, wanted - allocated)?;
        } else {
            room::cut(&mut volume.extents, wanted);
            volume.prepared_bytes = volume.prepared_bytes.min(wanted);
            volume.size_bytes = volume.size_bytes.min(wanted);
            if volume.prepared_bytes == wanted {
                volume.size_bytes = wanted;
            }
        }
        next.if_it_fits()
    }

    /// Without a volume.
    ///
    /// # Errors
    /// Where there is none of that name.
    pub fn without(&self, name: &str) -> Result<Self, ChangeError> {
        let index = self.index_of(name)?;
        let mut next = self.next();
        next.volumes.remove(index);
        Ok(next)
    }

    /// With other limits of a volume.
    ///
    /// # Errors
    /// Where there is no such volume, or the limits are none.
    pub fn with_limits(&self, name: &str, limits: Limits) -> Result<Self, ChangeError> {
        let index = self.index_of(name)?;
        if !limits.is_sensible() {
            return Err(ChangeError::BadLimits);
        }
        let mut next = self.next();
        next.volumes[index].limits = limits;
        Ok(next)
    }

    /// With so much of a volume prepared; when that is all of it, clients see all of it.
    ///
    /// # Errors
    /// Where there is no such volume.
    pub fn with_prepared(&self, name: &str, prepared_bytes: u64) -> Result<Self, ChangeError> {
        let index = self.index_of(name)?;
        let mut next = self.next();
        let volume = &mut next.volumes[index];
        let allocated = volume.allocated_bytes();
        let prepared = prepared_bytes - prepared_bytes % GRAIN_BYTES;
        volume.prepared_bytes = prepared.min(allocated).max(volume.prepared_bytes);
        if volume.prepared_bytes == allocated {
            volume.size_bytes = allocated;
        }
        Ok(next)
    }

    /// Of the array as it is now, after it has grown.
    #[must_use]
    pub fn of_size(&self, array_bytes: u64) -> Self {
        let mut next = self.next();
        next.array_bytes = array_bytes;
        next
    }

    /// Without any volume.
    #[must_use]
    pub fn emptied(&self) -> Self {
        let mut next = self.next();
        next.volumes.clear();
        next
    }

    fn next(&self) -> Self {
        let mut next = self.clone();
        next.generation += 1;
        next
    }

    fn index_of(&self, name: &str) -> Result<usize, ChangeError> {
        let index = self.volumes.iter().position(|volume| volume.name == name);
        index.ok_or_else(|| ChangeError::NoSuchVolume(name.to_owned()))
    }

    fn extend(&mut self, index: usize, bytes: u64) -> Result<(), ChangeError> {
        let free = self.free();
        let last = self.volumes[index].extents.last().copied();
        let taken = room::take(free, last, bytes).ok_or_else(|| ChangeError::NoRoom {
            wanted_bytes: bytes,
            free_bytes: self.free_bytes(),
        })?;
        room::append(&mut self.volumes[index].extents, taken);
        Ok(())
    }

    fn if_it_fits(self) -> Result<Self, ChangeError> {
        if self.fits() {
            Ok(self)
        } else {
            Err(ChangeError::TableFull)
        }
    }
}

#[cfg(test)]
mod tests;
