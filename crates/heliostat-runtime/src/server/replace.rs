//! A leg is replaced by a new one while both serve, and who is a leg of what meanwhile.

use heliostat_engine::{AddRefusal, Input, LegConfig};
use heliostat_format::Role;
use heliostat_types::{LegId, SECTOR_BYTES};

use stdx::units::format_size;

use super::{Server, leg_config, set_flags};
use crate::add::{NewLeg, is_same_leg};
use crate::commands::{NotTaken, Refused};
use crate::core::SpareLeg;
use crate::events;
use crate::source::Source;

impl Server {
    /// The leg that has a role; not the one that is to have it.
    pub(super) fn leg_of(&self, role: usize) -> Option<LegId> {
        let engine = self.core.engine();
        let mut legs = engine.map().legs_of(role);
        if let Some((_, by)) = engine.replacing() {
            legs.remove(by);
        }
        legs.lowest()
    }

    /// The legs of all roles.
    pub(super) fn legs_by_role(&self) -> impl Iterator<Item = LegId> + '_ {
        let roles = 0..self.core.engine().map().legs();
        roles.map(|role| {
            self.leg_of(role)
                .expect("a role has a leg, be it a missing one")
        })
    }

    /// What is held open and has no role any more.
    pub(super) fn former_legs(&self) -> impl Iterator<Item = &str> {
        let map = self.core.engine().map();
        let names = self.core.leg_names().iter().enumerate();
        let former = names.filter(|(leg, _)| map.role_of(LegId::new(*leg)).is_none());
        former
            .map(|(_, name)| name.as_str())
            .filter(|name| !name.is_empty())
    }

    /// Has a leg replaced by the spare that is called so, or by any. Nothing where no spare is
    /// called so, and the leg can be replaced.
    pub(super) fn replace_by_spare(
        &mut self,
        text: &str,
        by: Option<&str>,
    ) -> Result<Option<String>, Refused> {
        let (leg, free) = self.replaceable(text)?;
        let is_meant = |spare: &str| by.is_none_or(|by| is_same_leg(spare, by));
        let (name, option) = (&self.name, &self.option);
        if !self.core.spare_names().any(is_meant) {
            return match by {
                Some(_) => Ok(None),
                None => Err(Refused::from(format!(
                    "{name} has no spare; name the leg that is to replace it ('--with NEW'), or \
                     add a spare first ('heliostat add {name} NEW{option}')"
                ))),
            };
        }
        let engine = self.core.engine();
        let out = engine.map().all().difference(engine.writable()).lowest();
        if let Some(role) = out.and_then(|out| engine.map().role_of(out)) {
            return Err(Refused::from(format!(
                "leg {role} of {name} is out, and a spare is needed more in its place"
            )));
        }
        let like = engine.array_superblock();
        let like = like.expect("spares are of arrays with metadata");
        let needed = engine.map().leg_bytes(leg);
        let has_room = |spare: &SpareLeg| {
            is_meant(spare.leg.name())
                && spare.superblock.data_size_sectors * SECTOR_BYTES >= needed
        };
        let Some(spare) = self.core.take_spare(has_room) else {
            return Err(Refused::from(format!(
                "{} not large enough to replace a leg of {name}, which has {} of data",
                by.map_or_else(|| "the spares are".to_owned(), |by| format!("{by} is")),
                format_size(needed)
            )));
        };
        let begun = self.begin_to_replace(leg, free, spare.into_new(&like));
        Ok(Some(begun?))
    }

    /// The leg that is called so, and where the new one would be.
    fn replaceable(&self, text: &str) -> Result<(LegId, LegId), Refused> {
        let engine = self.core.engine();
        let leg = self.leg_called(text)?;
        let refusal = engine.replace_refusal(leg);
        let by = engine.free_leg().filter(|_| refusal.is_none());
        let by = by.ok_or_else(|| refusal.unwrap_or(AddRefusal::NoRoom));
        by.map(|by| (leg, by)).map_err(|refusal| Refused {
            why: format!(
                "{} cannot be replaced: {}",
                self.core.leg_word(leg),
                events::why_not_added(refusal)
            ),
            passes: events::passes(refusal),
        })
    }

    /// Has a leg replaced.
    pub(super) fn replace(&mut self, text: &str, new: Box<NewLeg>) -> Result<String, NotTaken> {
        match self.replaceable(text) {
            Ok((leg, by)) => {
                let begun = self.begin_to_replace(leg, by, *new);
                begun.map_err(|why| (why, None))
            }
            Err(refused) => Err((refused.why, refused.passes.then_some(new))),
        }
    }

    /// Refuses a new leg whose number was given to another one since it was made ready: two legs
    /// of one number would have one role, and no start would know which of them is meant.
    pub(super) fn expect_own_number(&self, number: u32) -> Result<(), String> {
        let like = self.core.engine().array_superblock();
        let told = like.and_then(|like| like.role_of(number));
        let is_taken = told.is_some_and(|role| role != Role::Spare)
            || self.core.spare_numbers().contains(&number);
        if is_taken {
            return Err("the array has other legs now; try again".to_owned());
        }
        Ok(())
    }

    fn begin_to_replace(&mut self, leg: LegId, by: LegId, new: NewLeg) -> Result<String, String> {
        let NewLeg {
            leg: opened,
            superblock,
            ..
        } = new;
        let name = opened.name().to_owned();
        if opened.info().logical_block_bytes > self.block_bytes {
            return Err(format!(
                "{name} has blocks of {} bytes, and the array is used in blocks of {}",
                opened.info().logical_block_bytes,
                self.block_bytes
            ));
        }
        self.expect_own_number(superblock.dev_number)?;
        let mut config = LegConfig {
            data_offset_bytes: superblock.data_offset_sectors * SECTOR_BYTES,
            ..leg_config(&opened)
        };
        set_flags(&mut config, superblock.device_flags);
        self.core.attach(by, opened)?;
        let watched = self.core.watch_legs(Source::Legs.to_key());
        watched.map_err(|error| format!("cannot watch {name}: {error}"))?;
        let superblock = Box::new(superblock.incomplete());
        self.core.input(Input::ReplaceLeg {
            leg,
            config,
            superblock,
        });
        let old = &self.core.leg_names()[leg.index()];
        Ok(format!(
            "{name} replaces {old} when all of it is copied, and {old} serves until then{}",
            self.how_far()
        ))
    }
}
