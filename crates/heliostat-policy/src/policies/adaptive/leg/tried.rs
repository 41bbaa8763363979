//! Legs that are read to see what they do by now.

use heliostat_types::Instant;

use super::super::tries::{self, Busy, Tried};
use super::{Followed, Leg, STALE_READS, Size, ns};

impl Leg {
    /// Whether the leg is slow, or was not long ago.
    pub(in super::super) fn was_slow(&self, now: Instant) -> bool {
        self.health.was_slow(now)
    }

    /// Whether it is time to see what an idle leg does for which `cost` is predicted, where
    /// another one, flash or not, and perhaps busy, is predicted to take `least`.
    pub(in super::super) fn is_due(
        &self,
        now: Instant,
        (cost, least): (f32, f32),
        is_beside_flash: bool,
        busy: impl FnOnce() -> Option<Busy>,
    ) -> bool {
        if self.in_flight > 0 || self.passed_over <= STALE_READS.get() {
            return false;
        }
        if self.is_slow() && !self.health.is_forgiven(now) {
            return false;
        }
        let silence = ns(now.saturating_since(self.last_answer_at));
        if silence <= tries::NS_MIN.get() {
            return false;
        }
        let costs = (cost, least, self.unknown_ns());
        let tried = match (self.turns, is_beside_flash) {
            (true, true) => Tried::DiskBesideFlash,
            (true, false) => Tried::Disk,
            (false, _) => Tried::Flash,
        };
        let passed_over = (silence, self.passed_over);
        self.tries.is_due(passed_over, costs, tried, busy)
    }

    /// Whether it is time to see what a leg does that has more than it had of late. `costs`: what
    /// is predicted for that, and of another one.
    pub(in super::super) fn is_due_deeper(&self, size: Size, costs: (f32, f32)) -> bool {
        let curve = self.curve(size.curve(false));
        self.tries.is_due_deeper(costs) && curve.is_some_and(|curve| curve.is_unmet(self.load()))
    }

    /// It has answered what it was given for that.
    fn deeper_ended(&mut self, followed: &Followed, time_ns: f32) {
        if time_ns < followed.rival_ns.min(followed.predicted_ns) {
            let curve = &mut self.curves[usize::from(followed.curve)];
            curve.stretch_from(followed.load, time_ns / followed.predicted_ns);
            self.tries.is_better_deeper();
        }
    }

    /// A leg has answered. Where others had passed it over for long, what was learned of it is old,
    /// or was never true.
    pub(super) fn try_ended(&mut self, followed: &Followed, time_ns: f32) {
        if followed.is_deeper {
            self.deeper_ended(followed, time_ns);
        }
        if followed.is_deeper || !followed.is_stale {
            return;
        }
        let ordinary_ns = self.unknown_ns();
        let wrong = (followed.predicted_ns > 0.0)
            .then(|| self.tries.note(time_ns, followed.predicted_ns, ordinary_ns))
            .flatten();
        if let Some(times) = wrong {
            let curves = self.curves.iter_mut();
            for curve in curves.filter(|curve| tries::is_odd(curve.idle(), ordinary_ns)) {
                curve.stretch(1.0 / times);
            }
        }
        let curve = &mut self.curves[usize::from(followed.curve)];
        if wrong.is_none() && !self.turns && time_ns < followed.rival_ns.min(followed.predicted_ns)
        {
            // It would have been the right one, and is what it was before a neighbour came. Of
            // other reads that says nothing for sure.
            curve.stretch(time_ns / followed.predicted_ns);
        }
        curve.doubt();
    }
}
