//! What people do with an array with metadata while it runs: they take legs out, add them again,
//! and have all legs compared.

use heliostat_engine::{FaultReason, Input, LegConfig, LegState, Missed};
use heliostat_format::assembly::Candidate;
use heliostat_format::{Features, Superblock};
use heliostat_types::{Duration, Instant, LegId};

use crate::faults::Effect;
use crate::metadata::{EMPTY_LOG, SUPERBLOCK_AT, SUPERBLOCK_BYTES, log_address};
use crate::planted::Planted;
use crate::scenario::Scenario;
use crate::simulation::{Simulation, engine_config};

/// How soon somebody tries again what could not be done.
const RETRY: Duration = Duration::from_ms(20);

/// Something that is to be done.
#[derive(Clone, Copy, Debug)]
struct Errand {
    at: Instant,
    /// It is not tried any more from then on.
    until: Instant,
    leg: Option<LegId>,
    effect: Effect,
}

/// What is still to be done.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    /// By time, the last one first.
    errands: Vec<Errand>,
}

impl Operator {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let begins_at = Instant::ZERO + scenario.warmup_seconds;
        let errands = scenario.faults.iter().filter_map(|fault| {
            let effect = fault.effect.filter(|effect| effect.needs_metadata())?;
            let (at, until) = fault.period(begins_at);
            Some(Errand {
                at,
                until,
                leg: fault.leg.map(LegId::new),
                effect,
            })
        });
        let mut operator = Self {
            errands: errands.collect(),
        };
        operator.sort();
        operator
    }

    fn sort(&mut self) {
        self.errands
            .sort_by_key(|errand| std::cmp::Reverse(errand.at));
    }

    /// When something is to be done next.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.errands.last().map(|errand| errand.at)
    }
}

impl Simulation {
    /// Does what is due.
    pub(crate) fn run_errands(&mut self) {
        while self.operator.next_at().is_some_and(|at| at <= self.now) {
            let errand = self.operator.errands.pop().expect("it is due");
            if self.now >= self.measured.ends_at {
                continue;
            }
            let is_done = !self.is_being_taken_up() && self.do_errand(errand);
            let again = Errand {
                at: self.now + RETRY,
                ..errand
            };
            if !is_done && again.at < errand.until {
                self.operator.errands.push(again);
                self.operator.sort();
            }
            self.pump();
        }
    }

    /// Does it; whether it is done.
    fn do_errand(&mut self, errand: Errand) -> bool {
        match (errand.effect, errand.leg) {
            (Effect::Failed, Some(leg)) => {
                let reason = FaultReason::ByHand;
                self.inbox.push_back(Input::FailLeg { leg, reason });
            }
            (Effect::Added { is_new }, Some(leg)) => return self.add_leg(leg, is_new),
            (Effect::Scrub { repair }, _) => self.inbox.push_back(Input::StartScrub { repair }),
            _ => unreachable!("it is none of these"),
        }
        true
    }

    /// Adds a leg as the daemon does it; whether that was possible.
    fn add_leg(&mut self, leg: LegId, is_new: bool) -> bool {
        let can_be_added = self.engine.add_refusal(leg).is_none();
        let like = self.engine.array_superblock();
        let Some(like) = like.filter(|_| can_be_added && self.legs_present().contains(leg)) else {
            return false;
        };
        // It has been without power: what it had not written back is gone.
        self.legs[leg.index()].lose_cache(self.now);
        let Ok(own) = self.candidate(leg) else {
            return true;
        };
        let (missed, superblock, bad_blocks) = match own.filter(|_| !is_new) {
            Some(own) => {
                let Candidate {
                    superblock,
                    bad_blocks,
                    ..
                } = own;
                let missed = self.engine.missed_by(&superblock);
                let incomplete = superblock.incomplete();
                self.put_superblock(leg, Some(&incomplete));
                (missed, incomplete, Some(Box::new(bad_blocks)))
            }
            None => {
                self.put_superblock(leg, None);
                self.legs[leg.index()].put_raw(log_address(&like), &EMPTY_LOG);
                (Missed::From(0), self.member(leg, like).incomplete(), None)
            }
        };
        let missed = if self.has(Planted::NothingCopied) {
            Missed::Extents(Vec::new())
        } else {
            missed
        };
        self.inbox.push_back(Input::AddLeg {
            leg,
            config: self.leg_config(leg, LegState::InSync),
            missed,
            superblock: Some(Box::new(superblock)),
            bad_blocks,
        });
        true
    }

    /// What a leg that is made a new one says: what the others say, in its own place.
    fn member(&self, leg: LegId, like: Superblock) -> Superblock {
        let made = self.legs[leg.index()].made.as_ref();
        let made = made.expect("the array has metadata");
        Superblock {
            dev_number: made.dev_number,
            device_uuid: made.device_uuid,
            device_flags: made.device_flags,
            data_size_sectors: made.data_size_sectors,
            features: like.features.without(Features::BAD_BLOCKS),
            corrected_reads: 0,
            ..like
        }
    }

    /// Makes the superblock of a leg this, durably; or none.
    pub(super) fn put_superblock(&mut self, leg: LegId, superblock: Option<&Superblock>) {
        let mut page = superblock.map_or_else(Vec::new, Superblock::to_bytes);
        page.resize(SUPERBLOCK_BYTES, 0);
        self.legs[leg.index()].put_raw(SUPERBLOCK_AT, &page);
    }

    /// What an engine is told of a leg.
    pub(super) fn leg_config(&self, leg: LegId, state: LegState) -> LegConfig {
        let config = engine_config(&self.scenario, self.engine.map().clone(), &self.legs);
        LegConfig {
            state,
            // Some devices flush instead.
            fua: self.scenario.seed >> leg.index() & 1 == 0,
            ..config.legs[leg.index()]
        }
    }
}
