//! For which part of the time legs are busy, and flash that has time left, beside disks.
//!
//! Streams that are as many as legs, or have random reads beside them, have disks to themselves: so
//! all legs have work. But where readers are slower than flash, or come when they like, that would
//! have read at once what a disk is asked for, which takes a hundred times as long where others
//! write to it. Streams that are fewer than legs lose nothing by disks, which read ahead for them.

use heliostat_types::{Duration, Instant};

use crate::api::LegView;
use crate::constants::constants;

use super::ReadAhead;
use super::beliefs::Aside;
use super::helper::{Helper, Helpers};
use super::homes::disks_of;
use super::waited::weight;

constants! { "spare":
    /// How busy a leg is counts over so long: over less it changes by chance.
    TIME: Duration = time(Duration::from_ms(300));
    /// And over so long for those who go by more than what is just now,
    OF_LATE: Duration = time(Duration::from_secs(4));
    /// where so much of it is known.
    KNOWN_NS: f32 = ns(1e9);
    /// A leg that nothing was asked of for so long counts as busy at first: what was before says
    /// nothing of who reads now.
    PAUSE: Duration = time(Duration::from_ms(400));
    /// Disks are not needed where flash is idle for three tenths of the time,
    ENOUGH: f32 = number(0.3);
    /// until that is half as much: what has come back from disks is a part of what it reads then.
    STAYS: f32 = number(0.15);
}

/// For which part of the time a leg is busy, in an array with disks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Busy {
    /// How many operations it has, as far as it was told of them.
    in_flight: u32,
    share: f32,
    /// For how long it was busy of late, and for how long that is known, in ns.
    busy_ns: f32,
    known_ns: f32,
    /// Until when that is known.
    until: Instant,
}

impl Default for Busy {
    fn default() -> Self {
        Self {
            in_flight: 0,
            share: 1.0,
            busy_ns: 0.0,
            known_ns: 0.0,
            until: Instant::ZERO,
        }
    }
}

impl Busy {
    /// The leg is handed anything.
    pub(super) fn handed(&mut self, now: Instant) {
        self.see(now);
        self.in_flight = self.in_flight.saturating_add(1);
    }

    /// The leg has answered anything.
    pub(super) fn answered(&mut self, now: Instant) {
        self.see(now);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    fn see(&mut self, now: Instant) {
        let passed = now.saturating_since(self.until);
        let was_busy = self.in_flight > 0;
        self.until = now;
        let is_so = f32::from(u8::from(was_busy));
        let kept = 1.0 - weight(passed, OF_LATE.get());
        let passed_ns = passed.as_ns() as f32;
        self.busy_ns = self.busy_ns * kept + is_so * passed_ns;
        self.known_ns = self.known_ns * kept + passed_ns;
        if passed >= PAUSE.get() && !was_busy {
            self.share = 1.0;
        } else {
            self.share += weight(passed, TIME.get()) * (is_so - self.share);
        }
    }

    /// The share of late; busy where it is not known for long enough.
    pub(super) fn of_late(&self) -> f32 {
        if self.known_ns < KNOWN_NS.get() {
            1.0
        } else {
            self.busy_ns / self.known_ns
        }
    }

    /// What was until now is not of late.
    pub(super) const fn begin(&mut self) {
        (self.busy_ns, self.known_ns) = (0.0, 0.0);
    }

    /// The share now, of a leg that has so many operations: what was given up before it began is
    /// never answered.
    pub(super) fn share(&mut self, now: Instant, in_flight: u32) -> f32 {
        self.in_flight = self.in_flight.min(in_flight);
        self.see(now);
        self.share
    }
}

impl ReadAhead {
    /// Whether flash has the time to read all that disks would, and is done with what it has before
    /// an arm would be there. There are so many streams.
    pub(super) fn note_spare(
        &mut self,
        now: Instant,
        legs: &[LegView],
        helpers: &mut Helpers,
        count: usize,
    ) {
        let was = std::mem::replace(&mut self.has_spare, false);
        let is_flash = |helper: &&Helper| !helper.turns;
        if helpers.iter().all(|helper| !helper.turns) {
            return;
        }
        let (mut idle, mut all, mut wait_ns) = (0.0, 0.0, f32::INFINITY);
        for helper in helpers.iter().filter(is_flash) {
            let view = legs.iter().find(|view| view.leg == helper.leg);
            let in_flight = view.map_or(0, LegView::in_flight);
            let busy = &mut self.paces[helper.leg.index()].busy;
            idle += (1.0 - busy.share(now, in_flight)) * helper.rate;
            all += helper.rate;
            wait_ns = f32::min(wait_ns, helper.queued_bytes as f32 / helper.rate);
        }
        let ways = helpers.iter().filter(|helper| helper.turns);
        let way_ns = ways.map(|helper| helper.way_ns).fold(0.0, f32::max);
        let enough = if was { STAYS } else { ENOUGH }.get();
        self.has_spare = idle > enough * all && wait_ns < way_ns;
        if self.has_spare && count >= helpers.count() {
            helpers.tell(disks_of(helpers), Aside::Unneeded);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its share after 3 s in which it is handed something each ms, and answers that after so
    /// many us, or never.
    fn share_after_3_s(busy: &mut Busy, now: &mut Instant, answer_us: Option<u64>) -> f32 {
        let mut in_flight = 0;
        for _ in 0..3000 {
            let next = *now + Duration::from_ms(1);
            busy.handed(*now);
            if let Some(answer_us) = answer_us {
                busy.answered(*now + Duration::from_us(answer_us));
            } else {
                in_flight += 1;
            }
            *now = next;
            busy.share(*now, in_flight);
        }
        busy.share(*now, in_flight)
    }

    #[test]
    fn a_leg_is_busy_for_as_long_as_it_has_something() {
        let (mut busy, mut now) = (Busy::default(), Instant::from_ns(1_000_000_000));
        let share = share_after_3_s(&mut busy, &mut now, Some(300));
        assert!((share - 0.3).abs() < 0.01, "{share}");
        let stuck = share_after_3_s(&mut busy, &mut now, None);
        assert!(stuck > 0.99, "{stuck}");
        let given_up = share_after_3_s(&mut busy, &mut now, Some(300));
        assert!((given_up - 0.3).abs() < 0.01, "{given_up}");
    }

    #[test]
    fn what_is_just_now_is_little_of_what_is_of_late() {
        let (mut busy, mut now) = (Busy::default(), Instant::from_ns(1_000_000_000));
        busy.share(now, 0);
        busy.begin();
        share_after_3_s(&mut busy, &mut now, Some(100));
        assert!((busy.of_late() - 0.1).abs() < 0.01, "{}", busy.of_late());
        busy.handed(now);
        now += Duration::from_ms(500);
        let share = busy.share(now, 1);
        assert!(
            share > 0.75 && busy.of_late() < 0.3,
            "{share} {}",
            busy.of_late()
        );
        busy.begin();
        assert!(busy.of_late() > 0.99, "nothing is known of it");
    }

    #[test]
    fn a_leg_that_nobody_asked_is_busy_at_first() {
        let (mut busy, mut now) = (Busy::default(), Instant::from_ns(1_000_000_000));
        share_after_3_s(&mut busy, &mut now, Some(10));
        now += Duration::from_ms(300);
        assert!(busy.share(now, 0) < 0.1);
        now += Duration::from_secs(1);
        assert!(busy.share(now, 0) > 0.99);
    }
}
