//! Which device is which leg: a leg that takes another one's place, or its role, is another device
//! from then on, and at a start the legs come in the order of the roles that they say they have.

use heliostat_format::{DeviceFlags, Role, Superblock};
use heliostat_types::{Instant, LegId, LegSet};

use crate::faults::Effect;
use crate::metadata::{EMPTY_LOG, log_address, uuid};
use crate::simulation::Simulation;

use super::Lives;

impl Lives {
    /// The sets of legs that are known.
    fn sets(&mut self) -> [&mut LegSet; 3] {
        [&mut self.current, &mut self.out, &mut self.distrusted]
    }
}

impl Simulation {
    /// Which of the scenario's legs a leg is.
    pub(crate) fn device(&self, leg: LegId) -> usize {
        self.legs[leg.index()].device
    }

    /// Which leg one of the scenario's is now.
    pub(super) fn place(&self, device: usize) -> LegId {
        let mut legs = self.legs.iter();
        let place = legs.position(|leg| leg.device == device);
        LegId::new(place.expect("each device has a place"))
    }

    /// Two legs are each in the place of the other one from now on.
    pub(super) fn exchange(&mut self, one: LegId, other: LegId) {
        if one == other {
            return;
        }
        self.legs.swap(one.index(), other.index());
        let lives = self.lives.as_mut().expect("the array has metadata");
        for set in lives.sets() {
            let has = [set.contains(one), set.contains(other)];
            for (leg, is_in) in [(other, has[0]), (one, has[1])] {
                if is_in {
                    set.insert(leg);
                } else {
                    set.remove(leg);
                }
            }
        }
    }

    /// Puts the legs in the order of their roles, which these have; behind them the one that is to
    /// replace another one. The others come where they were if that is free, and anywhere if not.
    pub(super) fn put_in_order(&mut self, by_role: &[Option<LegId>]) {
        let mut order = by_role.to_vec();
        order.resize(self.legs.len(), None);
        let all = LegSet::first(self.legs.len());
        let had_role = |leg: &LegId| self.engine.map().role_of(*leg);
        for leg in all {
            let role = had_role(&leg).filter(|role| order[*role].is_none());
            if let Some(role) = role
                && !order.contains(&Some(leg))
            {
                order[role] = Some(leg);
            }
        }
        for leg in all {
            if !order.contains(&Some(leg)) {
                let room = order.iter().position(Option::is_none);
                order[room.expect("there are as many places")] = Some(leg);
            }
        }
        let devices: Vec<usize> = order
            .iter()
            .flatten()
            .map(|leg| self.device(*leg))
            .collect();
        for (place, device) in devices.into_iter().enumerate() {
            self.exchange(LegId::new(place), self.place(device));
        }
    }

    /// The legs that are there at this moment.
    pub(crate) fn legs_present(&self) -> LegSet {
        let begins_at = Instant::ZERO + self.scenario.warmup_seconds;
        let dead = self.scenario.faults.iter().filter_map(|fault| {
            let (at, until) = fault.period(begins_at);
            let is_dead = fault.effect == Some(Effect::Dead) && at <= self.now && self.now < until;
            fault
                .leg
                .filter(|_| is_dead)
                .map(|device| self.place(device))
        });
        LegSet::first(self.legs.len()).difference(dead.collect())
    }

    /// The legs that have no role and could be made legs: they are there, and do nothing.
    pub(super) fn legs_to_be_had(&self) -> LegSet {
        let idle = self.legs_present().difference(self.engine.map().all());
        let is_busy = |leg: LegId| {
            self.leg_ops
                .values()
                .any(|in_flight| in_flight.op.leg == leg)
        };
        idle.iter().filter(|leg| !is_busy(*leg)).collect()
    }

    /// Makes a leg a new one in a role, as the daemon does it with a device that it has never seen:
    /// with a number that no leg ever had, and nothing else. What it is to say.
    pub(super) fn make_new(&mut self, leg: LegId, role: usize, like: &Superblock) -> Superblock {
        let numbers = self.operator.spares().map(|device| {
            let made = self.legs[self.place(device).index()].made.as_ref();
            made.expect("the array has metadata").dev_number as usize + 1
        });
        let is_used = |told: &Role| *told != Role::Spare;
        let behind = like
            .roles
            .iter()
            .rposition(is_used)
            .map_or(0, |last| last + 1);
        let behind = numbers.fold(behind.max(like.raid_disks as usize), usize::max);
        let lives = self.lives.as_mut().expect("the array has metadata");
        lives.made_new += 1;
        let uuid = uuid(self.scenario.seed, "new leg uuid", lives.made_new);
        let sim_leg = &mut self.legs[leg.index()];
        let made = sim_leg.made.as_mut().expect("the array has metadata");
        made.dev_number = u32::try_from(behind).expect("there are few legs");
        made.device_uuid = uuid;
        sim_leg.put_raw(log_address(like), &EMPTY_LOG);
        self.put_superblock(leg, None);
        self.fit_in(leg, role);
        self.member(leg, like.clone())
    }

    /// A leg that has no data is to have this role.
    pub(super) fn fit_in(&mut self, leg: LegId, role: usize) {
        let sim_leg = &mut self.legs[leg.index()];
        sim_leg.become_another(LegId::new(role));
        let made = sim_leg.made.as_mut().expect("the array has metadata");
        // As whoever makes arrays has them, so that those that are read last come last.
        made.device_flags = if self.scenario.array.legs[role].write_mostly {
            DeviceFlags::WRITE_MOSTLY
        } else {
            DeviceFlags::default()
        };
    }
}
