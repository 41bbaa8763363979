//! Which share of what a leg does are writes.

use heliostat_types::{Duration, Instant};

use super::{Leg, TINY, WRITTEN_LEFT, WRITTEN_OPS, WRITTEN_SHARE};

const SECOND: Duration = Duration::from_secs(1);

/// The share of writes among the operations of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writes {
    share: f32,
    /// Until when it has faded.
    faded_at: Instant,
}

impl Writes {
    /// Whether that is so much that the leg has to write as well.
    pub(super) fn are_many(self) -> bool {
        self.share > WRITTEN_SHARE.get()
    }

    /// An operation is handed to the leg.
    pub(super) fn note(&mut self, is_write: bool) {
        if is_write {
            self.share += 1.0 / WRITTEN_OPS.get();
        }
        self.keep(1.0 - 1.0 / WRITTEN_OPS.get());
    }

    /// The leg has had nothing to do since then.
    pub(super) fn fade(&mut self, now: Instant, idle_since: Instant) {
        if self.share == 0.0 {
            return;
        }
        let idle = now.saturating_since(self.faded_at.max(idle_since));
        let seconds = idle.as_ns() / SECOND.as_ns();
        if seconds > 0 {
            self.keep(WRITTEN_LEFT.get().powi(seconds.min(1_000) as i32));
            self.faded_at = now;
        }
    }

    fn keep(&mut self, part: f32) {
        let share = self.share * part;
        self.share = if share < TINY { 0.0 } else { share };
    }
}

impl Leg {
    /// What the share is for whoever asks now.
    pub(super) fn writes_share(&self, now: Instant) -> f32 {
        let mut writes = self.writes;
        if self.in_flight == 0 {
            writes.fade(now, self.progress_at);
        }
        writes.share
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Extent, Instant};

    use super::{Leg, Writes};

    /// So many writes, each so long after the last one.
    fn written(writes: &mut Writes, now: &mut Instant, count: u64, every: Duration) {
        for _ in 0..count {
            let idle_since = *now;
            *now += every;
            writes.fade(*now, idle_since);
            writes.note(true);
        }
    }

    #[test]
    fn writes_that_were_long_ago_are_none() {
        let (mut writes, mut now) = (Writes::default(), Instant::ZERO);
        written(&mut writes, &mut now, 1_000, Duration::from_ms(1));
        assert!(writes.are_many());
        let idle_since = now;
        // However often it is asked.
        let mut are_many_after = |seconds: u64, often: u64| {
            for _ in 0..seconds * often {
                now += Duration::from_ns(1_000_000_000 / often);
                writes.fade(now, idle_since);
            }
            writes.are_many()
        };
        assert!(are_many_after(15, 1), "a disk may have kept much");
        assert!(!are_many_after(8, 100));
        assert!(writes.share > 0.0);
        writes.fade(now + Duration::from_secs(1 << 40), now);
        assert!(writes.share == 0.0, "{}", writes.share);
    }

    #[test]
    fn what_is_written_back_now_and_then_stays_and_a_block_does_not() {
        for (count, is_written) in [(1, false), (4, false), (12, true), (100, true)] {
            let (mut writes, mut now) = (Writes::default(), Instant::ZERO);
            written(&mut writes, &mut now, 1_000, Duration::from_ms(1));
            for _ in 0..100 {
                written(&mut writes, &mut now, 1, Duration::from_secs(5));
                written(&mut writes, &mut now, count - 1, Duration::from_ms(1));
            }
            let idle_since = now;
            writes.fade(now + Duration::from_ms(4_999), idle_since);
            assert_eq!(writes.are_many(), is_written, "{count} each 5 s");
        }
    }

    #[test]
    fn one_write_to_eight_reads_is_enough() {
        for (reads, is_written) in [(6, true), (9, false)] {
            let mut writes = Writes::default();
            for number in 0..10_000 {
                writes.note(number % (reads + 1) == 0);
            }
            assert_eq!(writes.are_many(), is_written, "{reads}");
        }
    }

    #[test]
    fn whoever_asks_for_an_idle_leg_is_told_what_is_left() {
        let mut leg = Leg::default();
        for _ in 0..1_000 {
            leg.dispatched(Instant::ZERO, Extent::new(0, 4096), false);
        }
        let after =
            |leg: &Leg, seconds| leg.writes_share(Instant::ZERO + Duration::from_secs(seconds));
        assert!(after(&leg, 60) > 0.9, "it is busy with them");
        for _ in 0..1_000 {
            leg.completed(Instant::ZERO, Extent::new(0, 4096));
        }
        assert!(after(&leg, 0) > 0.9);
        assert!(after(&leg, 60) < 0.01, "{}", after(&leg, 60));
    }
}
