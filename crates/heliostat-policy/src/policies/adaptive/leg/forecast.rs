//! What would become of a read on a leg.

use heliostat_types::Duration;

use super::super::curve::Point;
use super::{ROOM_GAIN, ROOM_TIMES, SATURATED_GAIN, SATURATED_READS, SATURATED_TIMES};
use crate::api::Belief;

/// What would become of a read. Half of a cache line: all that a choice among legs needs of one.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(in super::super) struct Forecast {
    /// Until it ends, in ns.
    pub(in super::super) cost: f32,
    /// `cost` as far as it is the leg's alone: without what writes and streams lose by it.
    pub(in super::super) own_cost: f32,
    /// What is known of the leg at the load that the read meets.
    pub(super) known: Point,
    /// What the leg has in flight.
    pub(in super::super) in_flight: u32,
    /// Not slow, or it is time to try it.
    pub(in super::super) is_well: bool,
    /// Slow, and it is time to try it.
    pub(in super::super) is_tried: bool,
    /// Nothing is known of the leg, and it is idle.
    pub(in super::super) is_trial: bool,
    /// The leg has an arm.
    pub(in super::super) turns: bool,
    /// It has one that streams do not have for themselves.
    pub(in super::super) is_free_disk: bool,
    /// It has to write as well.
    pub(in super::super) is_written: bool,
    /// It has to write as well, but nothing that it has now is a write.
    pub(in super::super) only_reads: bool,
    /// Writes wait for it; `cost` is more by that.
    pub(in super::super) holds_up: bool,
}

impl Forecast {
    /// What `cost` would be if the leg were idle and well.
    pub(in super::super) const fn idle_cost(&self) -> f32 {
        self.known.idle
    }

    /// What each read takes of the leg with this one, by Little's law.
    pub(in super::super) fn each(&self) -> f32 {
        self.cost / self.in_flight.saturating_add(1) as f32
    }

    /// The leg takes so many times as long.
    pub(in super::super) fn lengthen(&mut self, times: f32) {
        self.cost *= times;
        self.own_cost *= times;
    }

    /// How many times `own_cost` the cost is.
    pub(in super::super) fn loss(&self) -> f32 {
        self.cost / self.own_cost
    }

    /// Which share of a read of this weight is gained, and how many times as long as on the idle
    /// leg one takes, as far as such reads are to blame: those that are short beside others make
    /// these hardly longer, and wait for them.
    fn gain_and_times(&self, weight: f32, idle_ns: f32) -> (f32, f32) {
        let weight = weight.min(1.0);
        let gain = 1.0 - (1.0 - self.known.gain()) * weight;
        let times = 1.0 + (self.known.time / idle_ns - 1.0) * weight;
        (gain, times)
    }

    /// Which share of a further read is gained in throughput.
    pub(in super::super) fn gain(&self) -> f32 {
        self.known.gain().clamp(0.0, 1.0)
    }

    /// Whether a further read of this weight would mostly wait, or may: of a leg that was never
    /// seen idle it is a guess what it takes then, the least that it can be.
    pub(in super::super) fn is_saturated(&self, weight: f32) -> bool {
        self.is_saturated_by(weight, self.known.idle)
    }

    /// Whether it would, where one takes `idle_ns` by itself.
    pub(in super::super) fn is_saturated_by(&self, weight: f32, idle_ns: f32) -> bool {
        let (gain, times) = self.gain_and_times(weight, idle_ns);
        self.in_flight >= SATURATED_READS.get()
            && (gain < SATURATED_GAIN.get() || times > SATURATED_TIMES.get())
    }

    /// Whether it would not.
    pub(in super::super) fn has_room(&self, weight: f32) -> bool {
        let (gain, times) = self.gain_and_times(weight, self.known.idle);
        self.in_flight == 0 || gain > ROOM_GAIN.get() && times < ROOM_TIMES.get()
    }

    /// By how much it adds to the throughput of the leg, in reads per ns, at this load.
    pub(in super::super) fn worth(&self, load: f32) -> f32 {
        let share = match self.in_flight {
            0 => 1.0,
            // There is hardly a third one yet, of which it is hoped that it takes no longer: what
            // it adds is told by the way from an idle leg to this one.
            1 => {
                // A disk that writes when it is idle may do more than twice as much with two reads,
                // and sooner than on average.
                let (time, most) = if self.only_reads {
                    (self.own_cost, f32::INFINITY)
                } else {
                    (self.known.time, 1.0)
                };
                let longer = (time - self.known.idle) / time.max(1.0);
                (1.0 - longer * load / (load - 1.0).max(1.0)).clamp(0.0, most)
            }
            _ => self.known.gain().max(0.0),
        };
        share / self.own_cost
    }

    /// The same for people.
    pub(in super::super) fn belief(&self) -> Belief {
        Belief {
            cost: Duration::from_secs_f64(f64::from(self.cost) / 1e9),
            is_slow: !self.is_well,
            turns: self.turns,
            delays_writes: self.holds_up,
        }
    }
}
