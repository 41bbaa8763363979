//! What people do with an array with metadata while it runs: they take legs out, add them again,
//! and have all legs compared.

use heliostat_engine::{FaultReason, Input, LegConfig, LegFlags, LegState, Missed, Spare, SpareId};
use heliostat_format::assembly::Candidate;
use heliostat_format::{DeviceFlags, Features, Role, Superblock};
use heliostat_types::{Duration, Instant, LegId, SECTOR_BYTES};

use crate::faults::Effect;
use crate::metadata::{SUPERBLOCK_AT, SUPERBLOCK_BYTES};
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
    /// Which of the scenario's legs it is about.
    device: Option<usize>,
    effect: Effect,
}

/// What is still to be done.
#[derive(Debug, Default)]
pub(crate) struct Operator {
    /// By time, the last one first.
    errands: Vec<Errand>,
    /// The devices that the engine knows as spares.
    spares: Vec<(SpareId, usize)>,
    /// How many there ever were.
    spares_ever: u32,
    /// A spare that the engine wants in the place of a leg.
    called: Option<(SpareId, LegId)>,
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
                device: fault.leg,
                effect,
            })
        });
        let mut operator = Self {
            errands: errands.collect(),
            ..Self::default()
        };
        operator.sort();
        operator
    }

    fn sort(&mut self) {
        self.errands
            .sort_by_key(|errand| std::cmp::Reverse(errand.at));
    }

    /// The engine wants a spare in the place of a leg.
    pub(crate) const fn call(&mut self, spare: SpareId, leg: LegId) {
        self.called = Some((spare, leg));
    }

    /// Nobody knows of spares any more.
    pub(super) fn forget_spares(&mut self) {
        self.spares.clear();
        self.called = None;
    }

    /// The devices that are spares.
    pub(super) fn spares(&self) -> impl Iterator<Item = usize> + '_ {
        self.spares.iter().map(|(_, device)| *device)
    }

    fn offers(&self, device: usize) -> bool {
        self.spares().any(|known| known == device)
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
        match (errand.effect, errand.device) {
            (Effect::Failed, Some(device)) => {
                let (leg, reason) = (self.place(device), FaultReason::ByHand);
                if self.engine.map().all().contains(leg) {
                    self.inbox.push_back(Input::FailLeg { leg, reason });
                }
            }
            (Effect::Added { is_new }, Some(device)) => return self.add_leg(device, is_new),
            (Effect::Replaced, Some(device)) => return self.replace_leg(self.place(device)),
            (Effect::Told(flags), Some(device)) => {
                return self.tell_leg(self.place(device), flags);
            }
            (Effect::Scrub { repair }, _) => self.inbox.push_back(Input::StartScrub { repair }),
            _ => unreachable!("it is none of these"),
        }
        true
    }

    /// Adds a leg as the daemon does it; whether that was possible.
    fn add_leg(&mut self, device: usize, is_new: bool) -> bool {
        let leg = self.place(device);
        let Some(like) = self.engine.array_superblock() else {
            return false;
        };
        let map = self.engine.map();
        let is_idle = self.legs_to_be_had().contains(leg);
        let may_be_added = |leg: &LegId| self.engine.add_refusal(*leg).is_none();
        if !self.legs_present().contains(leg) || !is_idle && !may_be_added(&leg) {
            return false;
        }
        let Ok(own) = self.candidate(leg) else {
            return true;
        };
        let own = own.filter(|own| !is_new && self.is_known(&own.superblock, &like));
        let role = own.as_ref().and_then(|own| own.superblock.role());
        let mut wanted = map.all().iter().filter(may_be_added);
        let place = match role {
            _ if !is_idle => Some(leg),
            Some(Role::Active(role)) => {
                wanted.find(|leg| map.role_of(*leg) == Some(usize::from(role)))
            }
            _ => wanted.next(),
        };
        let is_whole = self.engine.in_sync().count() == map.legs();
        let Some(place) = place else {
            let is_spare = is_whole && own.is_none() && !self.operator.offers(device);
            if is_spare {
                self.make_spare(leg, &like);
            }
            return is_spare;
        };
        let role = map.role_of(place).expect("it can be added");
        self.take_spare_away(device);
        self.exchange(leg, place);
        // It has been without power: what it had not written back is gone.
        self.legs[place.index()].lose_cache(self.now);
        // And what is read of it now may be older.
        let own = own.and_then(|_| self.candidate(place).ok().flatten());
        let (missed, superblock, bad_blocks) = match own {
            Some(own) => {
                let Candidate {
                    superblock,
                    bad_blocks,
                    ..
                } = own;
                self.note_flags(place, superblock.device_flags);
                let missed = self.engine.missed_by(&superblock);
                let incomplete = superblock.incomplete();
                self.put_superblock(place, Some(&incomplete));
                (missed, incomplete, Some(Box::new(bad_blocks)))
            }
            None => {
                let superblock = self.make_new(place, role, &like);
                (Missed::From(0), superblock.incomplete(), None)
            }
        };
        let missed = if self.has(Planted::NothingCopied) {
            Missed::Extents(Vec::new())
        } else {
            missed
        };
        self.inbox.push_back(Input::AddLeg {
            leg: place,
            config: self.leg_config(place, LegState::InSync),
            missed,
            superblock: Some(Box::new(superblock)),
            bad_blocks,
        });
        true
    }

    /// Says this of a leg from now on; whether that was possible. Which legs are read last changes
    /// only where they come last before and after.
    fn tell_leg(&mut self, leg: LegId, flags: LegFlags) -> bool {
        let map = self.engine.map();
        let Some(role) = map.role_of(leg) else {
            return false;
        };
        let legs = &self.scenario.array.legs;
        let is_last = role > 0 && role + 1 == map.legs();
        let comes_last = is_last && !legs[role - 1].write_mostly;
        let write_mostly = if map.is_mirror() && comes_last {
            flags.write_mostly
        } else {
            self.engine.leg_flags(leg).write_mostly
        };
        let flags = LegFlags {
            write_mostly,
            ..flags
        };
        let may = self.engine.flags_refusal(leg, flags).is_none();
        if may {
            self.inbox.push_back(Input::SetFlags { leg, flags });
        }
        may
    }

    /// Whether what a leg says of itself makes it one of this array, and nobody has written to it
    /// alone: as the daemon sees it.
    fn is_known(&self, own: &Superblock, like: &Superblock) -> bool {
        let map = self.engine.map();
        let in_sync = self.engine.in_sync();
        let is_in = |role: u16| !map.legs_of(role.into()).intersection(in_sync).is_empty();
        let has_data = matches!(own.role(), Some(Role::Active(_)));
        // Its number may have been given to another leg.
        let told = like.role_of(own.dev_number);
        let is_its_number = match told {
            Some(Role::Active(_)) => told == own.role(),
            told => told.is_some(),
        };
        let mut known = (0..).zip(&like.roles);
        let has_gone_alone = own.events > like.events
            || known.any(|(number, role)| {
                let counts = matches!(role, Role::Active(role) if is_in(*role));
                counts && own.role_of(number) != Some(*role)
            });
        let is_replacement = own.features.contains(Features::REPLACEMENT);
        has_data && is_its_number && !is_replacement && !has_gone_alone
    }

    /// Has a leg replaced, as the daemon does it, by one that has no role; whether that was begun.
    fn replace_leg(&mut self, leg: LegId) -> bool {
        let map = self.engine.map();
        let is_whole = self.engine.in_sync().count() == map.legs();
        let can_be = map.all().contains(leg) && self.engine.replace_refusal(leg).is_none();
        let (Some(by), Some(like)) = (self.engine.free_leg(), self.engine.array_superblock())
        else {
            return false;
        };
        let others = self.legs_to_be_had();
        let role = map.role_of(leg).filter(|_| can_be && is_whole);
        let lives = self.lives.as_ref().expect("the array has metadata");
        let turn = as_index(lives.seen.begun) % others.count().max(1);
        let (Some(role), Some(new)) = (role, others.iter().nth(turn)) else {
            return false;
        };
        let lives = self.lives.as_mut().expect("the array has metadata");
        lives.seen.begun += 1;
        self.take_spare_away(self.device(new));
        self.exchange(new, by);
        self.legs[by.index()].lose_cache(self.now);
        let superblock = Box::new(self.make_new(by, role, &like).incomplete());
        self.inbox.push_back(Input::ReplaceLeg {
            leg,
            config: self.leg_config(by, LegState::InSync),
            superblock,
        });
        true
    }

    /// A leg without data is there to take the place of one that is out.
    pub(super) fn offer_spare(&mut self, device: usize) {
        self.operator.spares_ever += 1;
        let id = SpareId(self.operator.spares_ever);
        self.operator.spares.push((id, device));
        let leg = self.place(device);
        if let Ok(Some(own)) = self.candidate(leg) {
            // As the daemon does it, so that it is never taken for whole.
            let empty = own.superblock.holding_nothing();
            self.put_superblock(leg, Some(&empty));
        }
        let made = self.legs[leg.index()].made.as_ref();
        let made = made.expect("the array has metadata");
        let room_bytes = made.data_size_sectors * SECTOR_BYTES;
        let spare = Spare { id, room_bytes };
        self.inbox.push_back(Input::AddSpare(spare));
    }

    /// Makes a device a spare, as the daemon does it.
    fn make_spare(&mut self, leg: LegId, like: &Superblock) {
        self.legs[leg.index()].lose_cache(self.now);
        let role = self.legs[leg.index()].store.leg().index();
        let superblock = self.make_new(leg, role, like);
        self.put_superblock(leg, Some(&superblock));
        self.offer_spare(self.device(leg));
    }

    /// A device is no spare any more.
    fn take_spare_away(&mut self, device: usize) {
        let spares = &mut self.operator.spares;
        if let Some(at) = spares.iter().position(|(_, known)| *known == device) {
            let (id, _) = spares.remove(at);
            self.inbox.push_back(Input::RemoveSpare(id));
        }
    }

    /// Puts the spare that was called for in its place, or says that it is gone.
    pub(crate) fn put_spare_in_place(&mut self) {
        let Some((id, place)) = self.operator.called.take() else {
            return;
        };
        let spares = &mut self.operator.spares;
        let Some(at) = spares.iter().position(|(known, _)| *known == id) else {
            // Somebody has just made something else of it.
            return;
        };
        let (_, device) = spares.remove(at);
        let leg = self.place(device);
        let like = self.engine.array_superblock();
        let like = like.filter(|_| self.legs_to_be_had().contains(leg));
        let (Some(like), Some(role)) = (like, self.engine.map().role_of(place)) else {
            self.inbox.push_front(Input::RemoveSpare(id));
            return;
        };
        self.exchange(leg, place);
        let lives = self.lives.as_mut().expect("the array has metadata");
        lives.seen.spares += 1;
        self.fit_in(place, role);
        self.inbox.push_front(Input::AddLeg {
            leg: place,
            config: self.leg_config(place, LegState::InSync),
            missed: if self.has(Planted::SpareNotFilled) {
                Missed::Extents(Vec::new())
            } else {
                Missed::From(0)
            },
            superblock: Some(Box::new(self.member(place, like))),
            bad_blocks: None,
        });
    }

    /// What a leg that is made a new one says: what the others say, in its own place.
    pub(super) fn member(&self, leg: LegId, like: Superblock) -> Superblock {
        let made = self.legs[leg.index()].made.as_ref();
        let made = made.expect("the array has metadata");
        let mut superblock = Superblock {
            dev_number: made.dev_number,
            device_uuid: made.device_uuid,
            device_flags: made.device_flags,
            data_size_sectors: made.data_size_sectors,
            features: like.features.without(Features::BAD_BLOCKS),
            corrected_reads: 0,
            ..like
        };
        let numbers = made.dev_number as usize + 1;
        if superblock.roles.len() < numbers {
            superblock.roles.resize(numbers, Role::Spare);
        }
        superblock
    }

    /// Makes the superblock of a leg this, durably; or none.
    pub(super) fn put_superblock(&mut self, leg: LegId, superblock: Option<&Superblock>) {
        let mut page = superblock.map_or_else(Vec::new, Superblock::to_bytes);
        page.resize(SUPERBLOCK_BYTES, 0);
        self.legs[leg.index()].put_raw(SUPERBLOCK_AT, &page);
    }

    /// A leg says this of itself.
    pub(super) fn note_flags(&mut self, leg: LegId, flags: DeviceFlags) {
        if let Some(made) = &mut self.legs[leg.index()].made {
            made.device_flags = flags;
        }
    }

    /// What an engine is told of a leg.
    pub(super) fn leg_config(&self, leg: LegId, state: LegState) -> LegConfig {
        let config = engine_config(&self.scenario, self.engine.map().clone(), &self.legs);
        let sim_leg = &self.legs[leg.index()];
        let made = sim_leg.made.as_ref();
        let flags = made.expect("the array has metadata").device_flags;
        LegConfig {
            state,
            write_mostly: flags.contains(DeviceFlags::WRITE_MOSTLY)
                != self.has(Planted::BehindOnLeaders),
            failfast: flags.contains(DeviceFlags::FAIL_FAST),
            trim_reads_zeros: sim_leg.trims_to_zeros || self.has(Planted::TrimAnywhere),
            // Some devices flush instead.
            fua: self.scenario.seed >> self.device(leg) & 1 == 0,
            ..config.legs[leg.index()]
        }
    }
}

fn as_index(number: u64) -> usize {
    usize::try_from(number).expect("it is small")
}
