//! New legs of an array that grows: looked at and emptied as when it is served.

use heliostat_format::Superblock;
use heliostat_leg::OpenedLeg;

use super::{Addition, Wanted};

impl Addition {
    /// Refuses a leg that holds something, unless that may be lost, or is too small.
    ///
    /// # Errors
    /// The reason. Nothing was written to the leg.
    pub(crate) fn expect_usable(&self, wanted: &Wanted) -> Result<(), String> {
        self.refuse_other_data(wanted)?;
        self.new_superblock(&wanted.like, &wanted.spare_numbers)
            .map(drop)
    }

    /// Empties it, and says what its superblock is to be. `like` has its number and role.
    ///
    /// # Errors
    /// Where it cannot be written, or cannot be such a leg.
    pub(crate) fn into_grown(self, like: &Superblock) -> Result<(OpenedLeg, Superblock), String> {
        let own = self.new_superblock(like, &[])?;
        let superblock = Superblock {
            device_uuid: own.device_uuid,
            data_size_sectors: own.data_size_sectors,
            device_flags: own.device_flags,
            ..like.clone()
        };
        let checked = superblock.check(self.leg.info().size_bytes);
        checked.map_err(|refusal| refusal.of(self.leg.name()).to_string())?;
        self.clear(&superblock)?;
        Ok((self.leg, superblock))
    }
}
