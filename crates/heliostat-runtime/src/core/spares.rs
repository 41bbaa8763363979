//! Spares: open, held, and put in the place of a leg when the engine says so.

use heliostat_engine::{Input, LegConfig, Missed, Spare, SpareId};
use heliostat_format::Superblock;
use heliostat_leg::OpenedLeg;
use heliostat_types::{LegId, SECTOR_BYTES};

use super::Core;
use crate::add::{NewLeg, is_same_leg};
use crate::server::{leg_config, set_flags};
use crate::source::Source;

/// A leg without data that waits to be needed.
#[derive(Debug)]
pub(crate) struct SpareLeg {
    /// It, open.
    pub(crate) leg: OpenedLeg,
    /// What it says of its array.
    pub(crate) superblock: Superblock,
}

/// The spares that are there.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    all: Vec<(SpareId, SpareLeg)>,
    /// How many there ever were.
    count: u32,
    /// The one that the engine wants in the place of a leg.
    called: Option<(SpareId, LegId)>,
}

impl SpareLeg {
    /// It as a new leg of an array like that.
    pub(crate) fn into_new(self, like: &Superblock) -> NewLeg {
        NewLeg {
            superblock: member_superblock(&self.superblock, like),
            leg: self.leg,
            bad_blocks: None,
            is_new: true,
            was_leg: false,
            is_spare: false,
        }
    }
}

impl Spares {
    pub(super) const fn call(&mut self, spare: SpareId, leg: LegId) {
        self.called = Some((spare, leg));
    }
}

impl Core {
    /// There is another spare.
    pub(crate) fn add_spare(&mut self, spare: SpareLeg) {
        self.spares.count += 1;
        let id = SpareId(self.spares.count);
        let room_bytes = spare
            .superblock
            .data_size_sectors
            .saturating_mul(SECTOR_BYTES);
        self.spares.all.push((id, spare));
        self.input(Input::AddSpare(Spare { id, room_bytes }));
    }

    /// The spares as the user wrote them.
    pub(crate) fn spare_names(&self) -> impl Iterator<Item = &str> {
        self.spares.all.iter().map(|(_, spare)| spare.leg.name())
    }

    /// The places of the spares in the table of roles.
    pub(crate) fn spare_numbers(&self) -> Vec<u32> {
        let all = self.spares.all.iter();
        all.map(|(_, spare)| spare.superblock.dev_number).collect()
    }

    /// Lets go of the spare that is called so. Whether there was one.
    pub(crate) fn remove_spare(&mut self, name: &str) -> bool {
        let is_it = |spare: &SpareLeg| is_same_leg(spare.leg.name(), name);
        self.take_spare(is_it).is_some()
    }

    /// The first spare that is so, which is none any more.
    pub(crate) fn take_spare(&mut self, is_so: impl Fn(&SpareLeg) -> bool) -> Option<SpareLeg> {
        let mut all = self.spares.all.iter();
        let at = all.position(|(_, spare)| is_so(spare))?;
        let (id, spare) = self.spares.all.remove(at);
        self.input(Input::RemoveSpare(id));
        Some(spare)
    }

    /// Puts the spare that was called for in its place.
    pub(super) fn put_in_place(&mut self) {
        let Some((id, leg)) = self.spares.called.take() else {
            return;
        };
        let mut all = self.spares.all.iter();
        let at = all.position(|(known, _)| *known == id);
        let at = at.expect("what the engine knows is here");
        let (_, spare) = self.spares.all.remove(at);
        let new = spare.leg.name().to_owned();
        let old = self.leg_title(leg);
        self.log
            .line(format!("the spare {new} takes the place of {old}"));
        if let Err(error) = self.try_put_in_place(spare, leg) {
            self.log
                .line(format!("the spare {new} cannot be used: {error}"));
            self.input(Input::RemoveSpare(id));
        }
    }

    fn try_put_in_place(&mut self, spare: SpareLeg, leg: LegId) -> Result<(), String> {
        let SpareLeg {
            leg: opened,
            superblock: own,
        } = spare;
        let like = self.engine.array_superblock();
        let like = like.ok_or("the array has no metadata")?;
        let mut config = LegConfig {
            data_offset_bytes: own.data_offset_sectors * SECTOR_BYTES,
            ..leg_config(&opened)
        };
        set_flags(&mut config, own.device_flags);
        self.attach(leg, opened)?;
        let watched = self.watch_legs(Source::Legs.to_key());
        watched.map_err(|error| error.to_string())?;
        self.input(Input::AddLeg {
            leg,
            config,
            missed: Missed::From(0),
            superblock: Some(Box::new(member_superblock(&own, &like))),
            bad_blocks: None,
        });
        Ok(())
    }
}

/// What a spare says as a member: what the others say, in its own places.
fn member_superblock(own: &Superblock, like: &Superblock) -> Superblock {
    Superblock {
        dev_number: own.dev_number,
        device_uuid: own.device_uuid,
        device_flags: own.device_flags,
        features: like
            .features
            .without(heliostat_format::Features::BAD_BLOCKS),
        bitmap_offset_sectors: own.bitmap_offset_sectors,
        data_offset_sectors: own.data_offset_sectors,
        data_size_sectors: own.data_size_sectors,
        super_offset_sectors: own.super_offset_sectors,
        bad_blocks_size_sectors: own.bad_blocks_size_sectors,
        bad_blocks_offset_sectors: own.bad_blocks_offset_sectors,
        bad_blocks_shift: own.bad_blocks_shift,
        corrected_reads: 0,
        ..like.clone()
    }
}
