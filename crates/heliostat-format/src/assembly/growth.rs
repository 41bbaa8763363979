//! Legs that disagree because their array was growing.

use crate::{Raid10Word, Role, Superblock};

/// Whether a leg of a mirror had another role before the number of legs was changed, which it does
/// not know yet: that changes nothing in its data.
pub(super) fn was_moved(own: &Superblock, fresh: &Superblock) -> bool {
    fresh.level == 1
        && own.raid_disks != fresh.raid_disks
        && matches!(own.role(), Some(Role::Active(_)))
        && lags_behind_growth(own, fresh)
}

/// Whether a leg was left behind by a growth of the array that was cut short: it is one event
/// behind, and what it says of the number of legs or of what is used of them is what was true until
/// then. Its data is that of the others, since a growth changes none.
pub(super) fn lags_behind_growth(own: &Superblock, fresh: &Superblock) -> bool {
    let is_same_else = own.ctime == fresh.ctime
        && own.level == fresh.level
        && own.layout == fresh.layout
        && own.chunk_sectors == fresh.chunk_sectors;
    // Where far copies lie depends on the size.
    let word = Raid10Word::parse(fresh.layout, fresh.raid_disks);
    let may_grow = match fresh.level {
        1 => true,
        10 => {
            own.raid_disks == fresh.raid_disks
                && word.is_ok_and(|word| word.far == 1 || word.is_offset)
        }
        _ => false,
    };
    let has_room =
        own.size_sectors <= fresh.size_sectors && own.data_size_sectors >= fresh.size_sectors;
    own.events + 1 == fresh.events && is_same_else && may_grow && has_room
}

/// Whether legs of a mirror that are equally fresh disagree on how many there are, and on nothing
/// else: the last ones are missing. One of them has heard of an array that grew while it was
/// served, the others have gone on without that one, and were cut short.
pub(super) fn differs_in_missing_legs(own: &Superblock, fresh: &Superblock) -> bool {
    let common = own.raid_disks.min(fresh.raid_disks);
    let is_beyond = |role: &Role| matches!(role, Role::Active(role) if u32::from(*role) >= common);
    let has_more = |superblock: &Superblock| superblock.roles.iter().any(is_beyond);
    own.level == 1
        && fresh.level == 1
        && own.ctime == fresh.ctime
        && own.layout == fresh.layout
        && own.chunk_sectors == fresh.chunk_sectors
        && own.size_sectors == fresh.size_sectors
        && !has_more(own)
        && !has_more(fresh)
}
