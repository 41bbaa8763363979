//! Legs that are read to see what they do by now.

use heliostat_types::Instant;

use super::super::tries;
use super::{Followed, Leg, STALE_READS, ns};

impl Leg {
    /// Whether it is time to see what an idle leg does for which `cost` is predicted, where
    /// another one, which is busy or not, is predicted to take `least`.
    pub(in super::super) fn is_due(
        &self,
        now: Instant,
        (cost, least): (f32, f32),
        is_busy: impl FnOnce() -> bool,
    ) -> bool {
        if self.in_flight > 0 || self.passed_over <= STALE_READS.get() {
            return false;
        }
        if self.is_slow() && !self.health.is_forgiven(now) {
            return false;
        }
        let silence = ns(now.saturating_since(self.last_answer_at));
        let costs = (cost, least, self.unknown_ns());
        self.tries
            .is_due((silence, self.passed_over), costs, (self.turns, is_busy()))
    }

    /// A leg has answered that others had passed over for long: what was learned of it is old, or
    /// was never true.
    pub(super) fn try_ended(&mut self, followed: &Followed, time_ns: f32) {
        let ordinary_ns = self.unknown_ns();
        if followed.predicted_ns > 0.0
            && let Some(times) = self.tries.note(time_ns, followed.predicted_ns, ordinary_ns)
        {
            let curves = self.curves.iter_mut();
            for curve in curves.filter(|curve| tries::is_odd(curve.idle(), ordinary_ns)) {
                curve.stretch(1.0 / times);
            }
        }
        if !self.turns && time_ns < followed.rival_ns.min(followed.predicted_ns) {
            // It would have been the right one, and is what it was before a neighbour came.
            for curve in &mut self.curves {
                curve.stretch(time_ns / followed.predicted_ns);
            }
        }
        self.curves[usize::from(followed.curve)].doubt();
    }
}
