//! What a leg is taken for: flash, or a disk that has an arm.

use heliostat_types::{Duration, Extent, Instant};

use super::super::curve::Curve;
use super::{CACHED_NS, Followed, Leg, LegView, TURNING_NS_MIN, ns};

impl Leg {
    /// Whether it has an arm, whatever it says.
    #[inline]
    pub(in super::super) fn turns(&mut self, view: &LegView) -> bool {
        if self.says_turning != view.rotational {
            self.says_turning = view.rotational;
            self.told_turning = None;
            self.infer_turning();
        }
        self.turns
    }

    /// A leg that says nothing, or the wrong thing, is known by its answers: one that takes
    /// milliseconds, and longer the further apart they are, has an arm.
    pub(super) fn infer_turning(&mut self) {
        let turns = match self.arm.mean() {
            Some(mean) if mean < TURNING_NS_MIN.get() && !self.jumps.are_some_long() => false,
            Some(_) if self.arm.tells() == Some(true) => true,
            _ => {
                let told = self.jumps.tell();
                told.unwrap_or_else(|| self.is_said_to_turn())
            }
        };
        if std::mem::replace(&mut self.turns, turns) != turns {
            // Loads are measured in another way from now on.
            self.curves.iter_mut().for_each(Curve::keep_idle_only);
            self.followed.fill(Followed::default());
        }
    }

    /// Whether it is said to have an arm: by what answers told before a restart, while they are too
    /// few to tell that again, or by itself.
    fn is_said_to_turn(&self) -> bool {
        let told = self.told_turning.filter(|_| self.jumps.are_few());
        told.unwrap_or(self.says_turning)
    }

    /// Something else than a read has ended, after `service_time`.
    pub(in super::super) fn note_write(
        &mut self,
        now: Instant,
        extent: Extent,
        service_time: Duration,
    ) {
        self.jumps.written(extent.len());
        if ns(service_time) >= CACHED_NS.get() {
            self.at_work.wrote(now);
        }
    }

    /// A read was done.
    pub(in super::super) fn note_jump(
        &mut self,
        now: Instant,
        extent: Extent,
        service_time: Duration,
    ) {
        if self.jumps.answered(now, extent, service_time) {
            self.infer_turning();
        }
    }
}
