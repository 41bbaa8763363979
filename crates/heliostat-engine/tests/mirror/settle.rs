//! How a run ends: everything is answered, every buffer comes back, the legs agree.

use heliostat_engine::{BackgroundEnd, BackgroundKind, Event, Input, LegState};
use heliostat_types::{Duration, ErrorKind, Extent, LegId, OpKind};

use crate::policies::Rotate;
use crate::world::{Outcome, World};

/// Turns without progress after which the engine is stuck: a disk looks 32 times what others do,
/// and what is looked at less and less often comes to the end of time with 55.
const PATIENCE: usize = 70;
/// Turns after which the background must have ended.
const BACKGROUND_PATIENCE: usize = 20_000;

impl World {
    /// Legs that are not silent end all they have, records become durable, clients let go.
    pub(crate) fn pump(&mut self) {
        while self.pump_one() {}
    }

    /// The background goes on until it is done.
    pub(crate) fn finish_background(&mut self) {
        self.input(Input::ResumeBackground);
        for turn in 0..BACKGROUND_PATIENCE {
            self.pump();
            if self.engine.background().is_none() {
                return;
            }
            if turn == BACKGROUND_PATIENCE / 2 {
                // There is always another sweep of the bitmap, and a silent leg that has to stay.
                self.wake();
            }
            let deadline = self.engine.next_deadline();
            if let Some(deadline) = deadline {
                self.now = self.now.max(deadline);
                self.tell_deadline();
            } else {
                // A silent leg that has to stay.
                self.wait_or_wake(PATIENCE / 2);
            }
        }
        let background = self.engine.background();
        self.fail(&format!("the background does not end: {background:?}"));
    }

    /// Legs that are not silent end all they have, and nothing else happens.
    pub(crate) fn pump_operations(&mut self) {
        let ready = |world: &Self| {
            let ready = world.find(|pending| !world.legs[pending.op.leg.index()].silent);
            ready.first().copied()
        };
        while let Some(at) = ready(self) {
            self.complete(at, Outcome::Good);
        }
    }

    pub(crate) fn pump_one(&mut self) -> bool {
        if !self.issued.is_empty() {
            self.deliver(self.issued.len() - 1);
            return true;
        }
        let ready = self.find(|pending| !self.legs[pending.op.leg.index()].silent);
        if let Some(&at) = ready.first() {
            let outcome = if self.meets_bad(at) {
                Outcome::Bad(ErrorKind::Io)
            } else {
                Outcome::Good
            };
            self.complete(at, outcome);
            return true;
        }
        if !self.held.is_empty() {
            self.release(0);
            return true;
        }
        false
    }

    /// Lets everything end, and checks all that must hold then.
    pub(crate) fn settle(&mut self) {
        self.run_down();
        self.finish_background();
        self.judge_rebuilds();
        self.run_down();
        self.reread();
        self.run_down();
        self.judge_clean();
        self.judge_agreement();
        for leg in &mut self.legs {
            leg.silent = false;
        }
        self.judge_buffers_of_ghosts();
        self.pump();
        self.judge_nothing_left();
        self.judge_accounts();
        let hedges = self.engine.hedge_figures();
        assert_eq!(hedges.issued, hedges.won + hedges.wasted, "all have ended");
    }

    /// Until every request is answered, and nothing is outstanding but at faulted legs.
    fn run_down(&mut self) {
        while let Some(allocated) = self.allocated.pop() {
            self.drop_allocated(&allocated);
        }
        let mut stuck = 0;
        loop {
            self.pump();
            if self.asked.is_empty() && self.engine.is_idle() {
                break;
            }
            stuck += 1;
            if self.wait_or_wake(stuck) {
                stuck = 0;
            }
        }
        self.check(!self.refused, || {
            "memory was refused, and is free, but nobody was told".to_owned()
        });
    }

    /// Nothing is left to do now: time must help, or else the silent legs wake up, which is said.
    fn wait_or_wake(&mut self, stuck: usize) -> bool {
        self.check(stuck < PATIENCE, || {
            format!("stuck: {:?} are not answered", self.asked)
        });
        if let Some(deadline) = self.engine.next_deadline()
            && stuck < PATIENCE / 2
        {
            self.now = self.now.max(deadline);
            self.tell_deadline();
            return false;
        }
        let woken = self.wake();
        self.check(woken, || {
            format!("no leg is silent, and {:?} are not answered", self.asked)
        });
        woken
    }

    /// No leg is silent any more: not one that is being rebuilt either, for which nobody waits
    /// until it is out. Whether any was.
    fn wake(&mut self) -> bool {
        let mut woken = false;
        for leg in self.legs.iter_mut().filter(|leg| leg.is_present()) {
            woken |= std::mem::take(&mut leg.silent);
        }
        woken
    }

    /// Reads all of it, several times and each time elsewhere: the checker says whether it is
    /// stable.
    fn reread(&mut self) {
        self.set_policy(Box::new(Rotate::default()));
        for leg in self.in_sync() {
            self.legs[leg].silent = false;
        }
        let chunk_bytes = (self.setup.size_bytes / 2)
            .next_multiple_of(4096)
            .min(8 << 20);
        for _ in 0..3 {
            let mut at = 0;
            while at < self.setup.size_bytes {
                let end = (at + chunk_bytes).min(self.setup.size_bytes);
                self.read(Extent::from_range(at, end));
                self.pump();
                at = end;
            }
        }
    }

    /// An array that rests becomes clean, where nothing went wrong for good.
    fn judge_clean(&mut self) {
        for _ in 0..PATIENCE {
            let Some(deadline) = self.engine.next_deadline() else {
                break;
            };
            self.now = self.now.max(deadline) + Duration::from_ns(1);
            self.tell_deadline();
            self.pump();
        }
        let kept = |event: &Event| matches!(event, Event::LastLegKept { .. });
        // Of what cannot be read nobody knows whether it is equal.
        let unread = |event: &Event| {
            let is_left = |end| matches!(end, BackgroundEnd::Incomplete(_));
            let is_so = |kind, end| kind == BackgroundKind::Resync && is_left(end);
            matches!(*event, Event::BackgroundEnded { kind, end, .. } if is_so(kind, end))
        };
        let is_excused = self.events.iter().any(|event| kept(event) || unread(event));
        let figures = self.engine.bitmap_figures();
        if figures.is_some_and(|figures| figures.needed == 0) {
            self.needs_resync = false;
            self.checker.resynced();
        }
        let unequal = self.needs_resync || !self.checker.failed_extents().is_empty();
        // A record that was dirty before the first write stays so: it is not the engine's.
        let own = self.setup.meta.is_some() || self.mutated || !self.setup.record.dirty;
        if !unequal && own && !is_excused {
            self.check(!self.engine.record().dirty, || {
                "the array rests and is not clean".to_owned()
            });
        }
        self.check(self.engine.is_idle(), || {
            "it rests and is not idle".to_owned()
        });
        // What a kept leg lost stays lost, also when that leg is replaced.
        let has_kept = self.events.iter().any(kept);
        if self.setup.meta.is_some() && !unequal && !has_kept && self.is_untroubled() {
            self.judge_rest();
        }
    }

    /// Whoever was added is in sync, but for bytes that nobody can read.
    fn judge_rebuilds(&self) {
        let is_incomplete = |event: &Event| {
            let left = |end| matches!(end, BackgroundEnd::Incomplete(_));
            matches!(event, Event::BackgroundEnded { end, .. } if left(*end))
        };
        let excused = self.events.iter().any(is_incomplete);
        let mut rebuilding = self.legs.iter().filter(|leg| leg.rebuilding);
        self.check(excused || rebuilding.next().is_none(), || {
            "a leg was never rebuilt".to_owned()
        });
    }

    fn judge_agreement(&self) {
        let failed = self.checker.failed_extents();
        let counts = |at| {
            let byte = Extent::new(at, 1);
            !failed.iter().any(|failed| failed.contains(byte))
        };
        let differs = self.first_difference(&self.in_sync(), |leg, part| leg.bytes(part), counts);
        self.check(differs.is_none(), || {
            format!("byte and legs that differ: {differs:?}")
        });
    }

    /// Buffers that are still used are those of operations that faulted legs did not end. (Zeros
    /// may come from memory that is never given back, and does not count.)
    fn judge_buffers_of_ghosts(&self) {
        let holds = (self.pending.iter())
            .any(|pending| pending.op.kind == OpKind::Read || pending.stores_bytes());
        let may_hold = self.pending.iter().any(|pending| pending.range.is_some());
        let used_bytes = self.engine.buffers().used_bytes();
        let right = if holds {
            used_bytes > 0
        } else {
            may_hold || used_bytes == 0
        };
        self.check(right, || {
            format!("{used_bytes} bytes are used, with {:?}", self.pending)
        });
    }

    /// Nothing is in flight in the accounts, and the time that anything was is what it took.
    fn judge_accounts(&self) {
        let accounts = self.engine.accounts(self.now);
        let legs = (0..self.legs.len()).map(LegId::new);
        let legs = legs.map(|leg| self.engine.leg_stats(self.now, leg));
        for kind in OpKind::ALL {
            for flow in &accounts.flows {
                let traffic = flow.account.of(kind);
                let times = traffic.times().map_or(0, |times| times.fine_ns().sum());
                let is_right = traffic.in_flight() == 0 && traffic.weighted_ns() == times;
                self.check(is_right && flow.late_in_flight == 0, || {
                    format!("the account of {:?}: {traffic:?}", flow.flow)
                });
            }
            for stats in legs.clone() {
                let traffic = stats.account.of(kind);
                let times = traffic.times().map_or(0, |times| times.fine_ns().sum());
                let is_right = traffic.in_flight() == 0 && traffic.weighted_ns() >= times;
                self.check(is_right, || format!("the account of a leg: {traffic:?}"));
            }
        }
        let has_any = accounts.total().of(OpKind::Read).count() > 0;
        self.check(has_any == self.setup.accounting, || {
            "reads are counted where accounting is on".to_owned()
        });
    }

    fn judge_nothing_left(&mut self) {
        self.check(self.pending.is_empty() && self.asked.is_empty(), || {
            "something is left".to_owned()
        });
        let used_bytes = self.engine.buffers().used_bytes();
        self.check(used_bytes == 0, || {
            format!("{used_bytes} bytes are never released")
        });
        for leg in (0..self.legs.len()).map(LegId::new) {
            let in_flight = self.engine.leg_in_flight(leg);
            self.check(in_flight == (0, 0), || {
                format!("{leg} has {in_flight:?} in flight")
            });
            let faulted = self.engine.leg_state(leg) == LegState::Faulted;
            let configured = self.legs[leg.index()].config.state == LegState::Faulted;
            self.check(
                faulted == (self.legs[leg.index()].faulted || configured),
                || format!("{leg} is {:?}", self.engine.leg_state(leg)),
            );
        }
        let one = Extent::new(0, u64::from(self.setup.block_bytes));
        let whole = self.setup.size_bytes.min(32 << 20);
        for extent in [one, Extent::new(0, whole)] {
            match self.alloc(extent) {
                Some(allocated) => self.drop_allocated(&allocated),
                None => self.fail("all memory is free, but there is none for a write"),
            }
        }
    }
}
