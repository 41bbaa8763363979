//! The lives of an array with metadata: from a start on what lies on its legs to the next power
//! cut, and so on.
//!
//! A leg that is dead is pulled: when the machine starts meanwhile, it is not there, and when it is
//! back, it has what it had. Who starts the array knows which legs held everything when it stopped,
//! and waits for one of them; everything else is read from the legs.

mod check;
mod missed;
mod operator;
mod places;
mod scrub;
mod spoil;
mod start;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use heliostat_engine::{BackgroundEnd, BackgroundKind, Event, Input, LegFlags};
use heliostat_format::DeviceFlags;
use heliostat_types::{Extent, Instant, LegId, LegSet, SECTOR_BYTES};

pub(crate) use self::operator::Operator;
use self::scrub::Difference;
use crate::faults::Effect;
use crate::shadow::Moment;
use crate::simulation::Simulation;

/// What is known of the array besides what lies on its legs.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    /// Legs that held everything when the array was last running.
    pub(crate) current: LegSet,
    /// Legs that are out, whoever knows it.
    out: LegSet,
    /// Legs that were out when a client was answered: nobody may believe them.
    pub(crate) distrusted: LegSet,
    /// Sectors in which legs in sync differed at the last power cut, and what they held: who reads
    /// there may see another of these when the leg that was read first is gone.
    pub(crate) unequal: BTreeMap<u64, Vec<Moment>>,
    /// Those of them that were written since, and when that was answered: until it is flushed, the
    /// next power cut may bring them back.
    rewritten: BTreeMap<u64, Moment>,
    /// Whether a leg has fallen out since the start.
    has_lost_legs: bool,
    /// Whether the last leg of some bytes has failed something since the start, and stayed. What it
    /// has lost, no leg that is made equal to it has, and no flush is answered well any more.
    pub(crate) has_kept_failing: bool,
    /// The legs in sync that the array was started on, while clients are not served yet.
    waits_for: Option<LegSet>,
    /// Whether legs in sync are equal but for what is being written: they were at the start, or the
    /// resync is done.
    pub(crate) is_synced: bool,
    /// What differed when the scrub that is under way began.
    before_scrub: Vec<Difference>,
    /// How many new legs were made.
    made_new: u64,
    /// The numbers of legs that were replaced, as far as a bug on purpose has to know them.
    replaced: BTreeSet<u32>,
    /// What has come about.
    pub(crate) seen: Seen,
    /// Metadata was damaged, or no leg that held everything comes back: nothing more is promised.
    pub(crate) is_over: bool,
}

/// How often devices that were no legs were made legs, and what came of it; and how often something
/// else was said of a leg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// A leg was to be replaced,
    pub(crate) begun: u64,
    /// was when the power failed,
    pub(crate) cut: u64,
    /// still was when the array was started again,
    pub(crate) gone_on: u64,
    /// was replaced.
    pub(crate) replaced: u64,
    /// A spare took a place.
    pub(crate) spares: u64,
    /// A leg was told what is said of it from then on.
    pub(crate) told: u64,
}

impl Lives {
    /// The life of a new array.
    pub(crate) fn new(legs: LegSet) -> Self {
        Self {
            current: legs,
            ..Self::default()
        }
    }
}

impl Simulation {
    /// The power has failed, and the legs are what is left of them: whatever anybody makes of them
    /// now, it must be what was promised.
    pub(crate) fn end_life(&mut self) {
        let in_sync = self.engine.in_sync();
        let is_replacing = self.engine.replacing().is_some();
        let lives = self.lives.as_mut().expect("the array has metadata");
        lives.seen.cut += u64::from(is_replacing);
        lives.current = in_sync;
        if lives.has_lost_legs {
            // What was written since and not flushed is gone again, and so is who was read.
            let unequal: Vec<u64> = lives.unequal.keys().copied().collect();
            self.allow_versions_of(in_sync, &unequal);
        }
        let lives = self.lives.as_mut().expect("the array has metadata");
        lives.out = lives.out.difference(in_sync);
        lives.distrusted = lives.distrusted.difference(in_sync);
        if self.is_metadata_damaged() {
            // Whatever becomes of it, it must come to an end.
            let all = LegSet::first(self.legs.len());
            let _ = (self.assemble_as_md(all), self.assemble(all));
            self.lives_are_over();
            return;
        }
        match self.check_legs(LegSet::first(self.legs.len())) {
            Ok(unequal) => {
                let lives = self.lives.as_mut().expect("the array has metadata");
                lives.unequal = unequal;
                lives.rewritten.clear();
            }
            Err(text) => self.fail(format!("after the power cut, {text}")),
        }
    }

    /// The machine starts, with the legs that are there.
    pub(crate) fn start_life(&mut self) {
        let present = self.legs_present();
        let lives = self.lives.as_ref().expect("the array has metadata");
        if !self
            .engine
            .map()
            .is_covered_by(present.intersection(lives.current))
        {
            match self.next_return_at() {
                Some(at) => self.power.back_at = Some(at),
                None => self.lives_are_over(),
            }
            return;
        }
        if !lives.current.difference(present).is_empty() {
            // Whoever would be read first may not be there.
            let unequal: Vec<u64> = lives.unequal.keys().copied().collect();
            self.allow_versions_of(present, &unequal);
        }
        let started = self
            .check_legs(present)
            .and_then(|_| self.start_on(present));
        if let Err(text) = started {
            self.fail(format!("at the start, {text}"));
        }
        let in_sync = self.engine.in_sync();
        let all = LegSet::first(self.legs.len());
        let lives = self.lives.as_mut().expect("the array has metadata");
        lives.waits_for = Some(in_sync);
        lives.has_lost_legs = false;
        lives.has_kept_failing = false;
        lives.out = all.difference(in_sync);
    }

    /// Serves clients as soon as the legs know who is in sync; whether it is that moment.
    pub(crate) fn take_up(&mut self) -> bool {
        if self.power.is_off() || !self.engine.is_taken_up() {
            return false;
        }
        let lives = self.lives.as_mut();
        let Some(started) = lives.and_then(|lives| lives.waits_for.take()) else {
            return false;
        };
        // Where one has fallen out meanwhile, that is not durable yet, so that another power cut
        // may bring it back: until then nobody reads where it may differ from the others.
        let are_all_left = started.difference(self.engine.in_sync()).is_empty();
        if are_all_left && let Err(text) = self.read_everything(started) {
            self.fail(format!("at the start, {text}"));
        }
        // As the daemon does it.
        self.inbox
            .push_back(Input::StartResync { everything: false });
        self.ask_on();
        true
    }

    /// Whether clients have to wait because the array was just started.
    pub(crate) fn is_being_taken_up(&self) -> bool {
        let lives = self.lives.as_ref();
        lives.is_some_and(|lives| lives.waits_for.is_some())
    }

    /// Nothing is promised any more: the run ends here.
    fn lives_are_over(&mut self) {
        let lives = self.lives.as_mut().expect("the array has metadata");
        lives.is_over = true;
    }

    /// The array tells of something.
    pub(crate) fn note_event(&mut self, event: &Event) {
        let Some(lives) = &mut self.lives else {
            return;
        };
        if let Event::BackgroundEnded { kind, end, .. } = event {
            let is_resync = *kind == BackgroundKind::Resync && *end == BackgroundEnd::Done;
            lives.is_synced |= is_resync;
        } else if let Event::LastLegKept { .. } = event {
            lives.has_kept_failing = true;
        } else if let Event::FlagsSet { leg, flags } = event {
            lives.seen.told += 1;
            self.note_flags(*leg, device_flags(*flags));
        }
    }

    /// A leg is out. What others hold may be read where it was read until now.
    pub(crate) fn leg_is_out(&mut self, leg: LegId) {
        let Some(lives) = &mut self.lives else {
            return;
        };
        if lives.out.contains(leg) {
            return;
        }
        lives.out.insert(leg);
        lives.has_lost_legs = true;
        let all = Extent::new(0, self.engine.map().size_bytes());
        self.read_elsewhere(leg, all);
    }

    /// Another leg has the role of this one now, and all that it held.
    pub(crate) fn leg_is_replaced(&mut self, leg: LegId) {
        if let Some(lives) = &mut self.lives {
            lives.out.insert(leg);
            lives.seen.replaced += 1;
        }
    }

    /// A leg was given all that it had missed, and is read.
    pub(crate) fn leg_is_in(&mut self, leg: LegId) {
        if let Some(lives) = &mut self.lives {
            lives.out.remove(leg);
            lives.distrusted.remove(leg);
        }
    }

    /// A leg is no longer read in `extent`: where legs have differed since the last power cut,
    /// reads may see what another one holds. Once they have, no further power cut may undo that.
    pub(crate) fn read_elsewhere(&mut self, leg: LegId, extent: Extent) {
        let Some(lives) = &mut self.lives else {
            return;
        };
        let sectors = extent.offset() / SECTOR_BYTES..extent.end() / SECTOR_BYTES;
        let moved = lives.unequal.range(sectors).map(|(sector, _)| *sector);
        let moved: Vec<u64> = moved.collect();
        let left = self.engine.in_sync().difference(lives.out);
        let mut others = left;
        others.remove(leg);
        self.allow_versions_of(others, &moved);
    }

    /// In these of the sectors where legs have differed since the last power cut, reads may see
    /// what `legs` hold.
    fn allow_versions_of(&mut self, legs: LegSet, sectors: &[u64]) {
        let (Some(lives), Some(shadow)) = (&self.lives, &mut self.shadow) else {
            return;
        };
        let map = self.engine.map();
        for sector in sectors {
            if lives.rewritten.contains_key(sector) && !self.power.is_off() {
                continue;
            }
            let versions = &lives.unequal[sector];
            for leg in map.holders(sector * SECTOR_BYTES).intersection(legs) {
                let version = self.legs[leg.index()].store.version(*sector);
                if let Some(version) = version.filter(|version| versions.contains(version)) {
                    shadow.allow(*sector, version);
                }
            }
        }
    }

    /// A client was answered well for a write, or a flush.
    pub(crate) fn change_was_answered(&mut self) {
        let Some(lives) = &mut self.lives else {
            return;
        };
        let in_sync = self.engine.in_sync();
        lives.out = lives.out.difference(in_sync);
        lives.distrusted = lives.distrusted.difference(in_sync).union(lives.out);
    }

    /// A write to `extent` was answered well at this moment.
    pub(crate) fn note_write(&mut self, extent: Extent, at: Moment) {
        self.change_was_answered();
        if let Some(lives) = &mut self.lives {
            let sectors = extent.offset() / SECTOR_BYTES..extent.end() / SECTOR_BYTES;
            for (sector, _) in lives.unequal.range(sectors) {
                lives.rewritten.insert(*sector, at);
            }
        }
    }

    /// A flush that began at this moment was answered well.
    pub(crate) fn note_flush(&mut self, began: Moment) {
        self.change_was_answered();
        if let Some(lives) = &mut self.lives {
            let unequal = &mut lives.unequal;
            lives.rewritten.retain(|sector, at| {
                let is_durable = *at <= began;
                if is_durable {
                    unequal.remove(sector);
                }
                !is_durable
            });
        }
    }

    /// When the next leg that is not there comes back.
    pub(crate) fn next_return_at(&self) -> Option<Instant> {
        let begins_at = Instant::ZERO + self.scenario.warmup_seconds;
        let dead = self.scenario.faults.iter();
        dead.filter(|fault| fault.effect == Some(Effect::Dead))
            .map(|fault| fault.period(begins_at).1)
            .filter(|until| *until > self.now && *until < Instant::MAX)
            .min()
    }
}

/// What is said of a leg, as it says that itself.
fn device_flags(flags: LegFlags) -> DeviceFlags {
    let parts = [
        (DeviceFlags::WRITE_MOSTLY, flags.write_mostly),
        (DeviceFlags::FAIL_FAST, flags.failfast),
    ];
    let set = parts.into_iter().filter(|(_, is_set)| *is_set);
    set.fold(DeviceFlags::default(), |all, (flag, _)| all.with(flag))
}
