//! What is done to the legs of an array by hand while it is served, and how it is.

use heliostat_engine::{AddRefusal, FaultReason, Input, LegConfig, LegState, Missed};
use heliostat_format::{Role, Superblock};
use heliostat_leg::OpenedLeg;
use heliostat_types::{LegId, SECTOR_BYTES};
use stdx::units::format_size;

use super::{Server, leg_config, set_flags};
use crate::add::{NewLeg, Wanted, is_same_leg};
use crate::commands::{NotTaken, Refused};
use crate::core::SpareLeg;
use crate::events;
use crate::md::name_of_missing;
use crate::source::Source;
use crate::status::{self, ArrayStatus, BehindStatus, BitmapStatus, LegStatus, WorkStatus};

impl Server {
    /// Which leg is meant: a role, or a leg as it was written.
    pub(super) fn leg_called(&self, text: &str) -> Result<LegId, String> {
        let names = self.core.leg_names();
        let map = self.core.engine().map();
        let role = text.parse().ok();
        let leg = role.and_then(|role| self.leg_of(role));
        let is_it = |name: &String| !name.is_empty() && is_same_leg(name, text);
        let named = || names.iter().position(is_it);
        leg.or_else(|| named().map(LegId::new)).ok_or_else(|| {
            let legs = map.all().iter();
            let legs = legs.filter_map(|leg| {
                let (role, name) = (map.role_of(leg)?, &names[leg.index()]);
                let is_there = *name != name_of_missing(role);
                let name = if is_there { name } else { "(missing)" };
                Some(format!("{role} {name}"))
            });
            let legs: Vec<String> = legs.collect();
            format!("'{text}' is none of the legs: {}", legs.join(", "))
        })
    }

    /// Takes a leg out by hand.
    pub(super) fn fail(&mut self, text: &str) -> Result<String, String> {
        let leg = self.leg_called(text)?;
        let name = self.core.leg_word(leg);
        // A leg that is being rebuilt can be given up as well.
        let is_in = |server: &Self| {
            let state = server.core.engine().leg_state(leg);
            matches!(state, LegState::InSync | LegState::Rebuilding)
        };
        if !is_in(self) {
            let state = status::word_of(self.core.engine().leg_state(leg));
            return Err(format!("{name} is {state} already"));
        }
        let reason = FaultReason::ByHand;
        self.core.input(Input::FailLeg { leg, reason });
        if is_in(self) {
            return Err(format!(
                "{name} stays: some data is on no other leg in sync"
            ));
        }
        Ok(format!("{name} is faulted"))
    }

    /// Lets go of a leg that is out: nothing of it is held open from now on.
    pub(super) fn release(&mut self, text: &str) -> Result<String, Refused> {
        if self.core.remove_spare(text) {
            return Ok(format!(
                "the spare {text} is removed, and can be taken away"
            ));
        }
        let leg = self.leg_called(text)?;
        let name = self.core.leg_names()[leg.index()].clone();
        let role = self.core.engine().map().role_of(leg);
        if let Some(role) = role.filter(|role| name == name_of_missing(*role)) {
            let why = format!("leg {role} is missing: there is nothing to remove");
            return Err(Refused::from(why));
        }
        match self.core.engine().add_refusal(leg) {
            None | Some(AddRefusal::NoRole) => {}
            Some(AddRefusal::Present) => {
                return Err(Refused::from(format!(
                    "{name} is in use; 'heliostat fail {} {name}{}' takes it out first",
                    self.name, self.option
                )));
            }
            Some(refusal) => {
                let why = events::why_not_added(refusal);
                return Err(Refused {
                    why: format!("{name} cannot be removed: {why}"),
                    passes: true,
                });
            }
        }
        let absent = OpenedLeg::absent().map_err(|error| error.to_string())?;
        self.core.attach(leg, absent)?;
        let has_role = self.core.engine().map().role_of(leg).is_some();
        let kept = if has_role {
            name.clone()
        } else {
            String::new()
        };
        self.core.rename(leg, kept);
        Ok(format!("{name} is removed, and can be taken away"))
    }

    /// What a leg that is added has to know.
    pub(super) fn wanted(&self) -> Option<Wanted> {
        let engine = self.core.engine();
        let names = self.core.leg_names();
        let role_of = |leg: LegId| engine.map().role_of(leg);
        let present = engine.writable().iter();
        let present = present.filter_map(|leg| Some((role_of(leg)?, names[leg.index()].clone())));
        let out = engine.map().all().difference(engine.writable());
        Some(Wanted {
            name: self.name.clone(),
            option: self.option.clone(),
            present: present.collect(),
            spares: self.core.spare_names().map(str::to_owned).collect(),
            like: engine.array_superblock()?,
            out: out.iter().filter_map(role_of).map(LegId::new).collect(),
            known_since: engine.known_since(),
            spare_numbers: self.core.spare_numbers(),
            bitmap: engine.bitmap().cloned(),
            lineage: engine.lineage()?,
        })
    }

    /// Makes a leg part of the array. One that was away gets what it missed, as far as the bitmap
    /// knows, and a new one everything.
    pub(super) fn add(&mut self, new: Box<NewLeg>) -> Result<String, NotTaken> {
        let name = new.leg.name();
        let block_bytes = new.leg.info().logical_block_bytes;
        if block_bytes > self.block_bytes {
            return Err((
                format!(
                    "{name} has blocks of {block_bytes} bytes, and the array is used in blocks of \
                     {}",
                    self.block_bytes
                ),
                None,
            ));
        }
        if new.is_new {
            let own_number = self.expect_own_number(new.superblock.dev_number);
            own_number.map_err(|why| (why, None))?;
        }
        if new.is_spare {
            return Ok(self.add_spare(new.leg, new.superblock));
        }
        let engine = self.core.engine();
        let out = |leg: &LegId| !engine.writable().contains(*leg);
        let map = engine.map();
        let own = match new.superblock.role() {
            Some(Role::Active(role)) if !new.is_new => map.legs_of(usize::from(role)).lowest(),
            _ => None,
        };
        let leg = own.or_else(|| map.all().iter().find(out));
        let Some(leg) = leg.filter(out) else {
            let why = format!("{name} is not needed: no leg of the array is missing");
            return Err((why, None));
        };
        if let Some(refusal) = engine.add_refusal(leg) {
            let why = events::why_not_added(refusal);
            let why = format!("{name} cannot be added: {why}");
            return Err((why, events::passes(refusal).then_some(new)));
        }
        self.take_in(leg, *new).map_err(|why| (why, None))
    }

    fn take_in(&mut self, leg: LegId, new: NewLeg) -> Result<String, String> {
        let NewLeg {
            leg: opened,
            superblock,
            bad_blocks,
            is_new,
            was_leg,
            ..
        } = new;
        let name = opened.name().to_owned();
        let missed = if is_new {
            Missed::From(0)
        } else {
            self.core.engine().missed_by(&superblock)
        };
        let is_all = matches!(missed, Missed::From(_));
        let mut config = LegConfig {
            data_offset_bytes: superblock.data_offset_sectors * SECTOR_BYTES,
            ..leg_config(&opened)
        };
        set_flags(&mut config, superblock.device_flags);
        self.core.attach(leg, opened)?;
        let watched = self.core.watch_legs(Source::Legs.to_key());
        watched.map_err(|error| format!("cannot watch {name}: {error}"))?;
        self.core.input(Input::AddLeg {
            leg,
            config,
            missed,
            superblock: Some(Box::new(superblock.incomplete())),
            bad_blocks: bad_blocks.map(Box::new),
        });
        let engine = self.core.engine();
        let role = engine.map().role_of(leg).expect("it was given one");
        let begins = format!("{name} is leg {role} now");
        let (all, ends) = ("and in sync when all of it is copied", self.how_far());
        Ok(match engine.missing_bytes(leg) {
            Some(0) if !is_all => format!("{begins}, and missed nothing"),
            Some(bytes) if !is_all => {
                let size = format_size(bytes);
                format!("{begins}, and in sync when {size} that it missed are copied{ends}")
            }
            _ if !was_leg => format!("{begins}, {all}{ends}"),
            _ if is_new => format!("{begins}, as a new one, {all}{ends}"),
            _ => format!("{begins}, {all}, because what it missed is not known{ends}"),
        })
    }

    /// How to watch a leg that is being filled, behind a sentence that says so.
    pub(super) fn how_far(&self) -> String {
        let (name, option) = (&self.name, &self.option);
        format!("; 'heliostat status {name}{option}' shows how far that is")
    }

    /// A leg that waits to be needed.
    fn add_spare(&mut self, leg: OpenedLeg, superblock: Superblock) -> String {
        let name = leg.name().to_owned();
        self.core.add_spare(SpareLeg { leg, superblock });
        format!("{name} is a spare now: it takes the place of the next leg that is out")
    }

    /// How the array is.
    pub(super) fn status(&self) -> ArrayStatus {
        let engine = self.core.engine();
        let legs = self.legs_by_role().map(|leg| self.leg_status(leg));
        let replacement = engine.replacing().map(|(_, by)| self.leg_status(by));
        let is_active = engine.is_active();
        let state = if is_active { "active" } else { "clean" };
        ArrayStatus {
            name: self.name.clone(),
            uuid: self.uuid.clone(),
            shape: self.shape(),
            size_bytes: self.core.info.size_bytes,
            state: state.to_owned(),
            read_only: self.core.info.read_only,
            legs_in_sync: engine.in_sync().count(),
            legs_wanted: engine.map().legs(),
            scheduler: self.scheduler.to_string(),
            scheduler_on: self.scheduler_on.name().to_owned(),
            exports: self.addresses(),
            legs: legs.collect(),
            replacement,
            former: self.former_legs().map(str::to_owned).collect(),
            spares: self.core.spare_names().map(str::to_owned).collect(),
            bitmap: engine.bitmap_figures().map(BitmapStatus::from),
            write_behind: BehindStatus::of(engine.write_behind()),
            background_rates: self.rates(),
            background: engine.background().map(WorkStatus::from),
            scrub_waiting: engine.waiting_scrub().map(status::scrub_word),
            last_scrub: self.core.work.last_ended_run(),
            ended: self.core.work.ended(),
        }
    }

    /// How a leg is that has a role.
    fn leg_status(&self, leg: LegId) -> LegStatus {
        let engine = self.core.engine();
        let names = self.core.leg_names();
        let bad = engine.bad_blocks(leg).ranges();
        let by = engine.replacing().filter(|(replaced, _)| *replaced == leg);
        LegStatus {
            role: engine.map().role_of(leg).expect("a leg with a role"),
            leg: names[leg.index()].clone(),
            state: status::word_of(engine.leg_state(leg)).to_owned(),
            replaced_by: by.map(|(_, by)| names[by.index()].clone()),
            write_mostly: engine.is_write_mostly(leg),
            failfast: engine.is_failfast(leg),
            leaving: engine.is_leaving(leg),
            bad_sectors: bad.map(|range| range.end - range.start).sum(),
            corrected_sectors: engine.corrected_reads(leg),
            recent_read_errors: engine.recent_read_errors(self.core.now(), leg),
        }
    }
}
