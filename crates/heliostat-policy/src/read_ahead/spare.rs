//! Flash that has time left, beside disks.
//!
//! Streams that are as many as legs, or have random reads beside them, have disks to themselves: so
//! all legs have work. But where readers are slower than flash, or come when they like, that would
//! have read at once what a disk is asked for, which takes a hundred times as long where others
//! write to it. Streams that are fewer than legs lose nothing by disks, which read ahead for them.

use heliostat_types::{Duration, Instant};

use crate::api::LegView;
use crate::constants::constants;

use super::ReadAhead;
use super::helper::{Helper, Helpers};

constants! { "spare":
    /// How busy a leg is counts over so long.
    WINDOW: Duration = time(Duration::from_ms(100));
    /// What was before so long without an answer says nothing of who reads now.
    PAUSE: Duration = time(Duration::from_ms(400));
    /// Disks are not needed where flash is idle for three tenths of it,
    ENOUGH: f32 = number(0.3);
    /// until that is half as much: what has come back from disks is a part of what it reads then.
    STAYS: f32 = number(0.15);
}

/// For which part of the time a leg is busy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    /// How many operations it has, as far as it was told of them.
    in_flight: u32,
    /// Until when it is known for how long it was busy, or had nothing to do,
    until: Instant,
    /// how long that was in this window,
    ns: u64,
    /// which began then,
    since: Instant,
    /// and its share of the windows before; `None`: that is not known, and it is busy.
    share: Option<f32>,
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
        if self.in_flight > 0 {
            let busy = now.saturating_since(self.until);
            self.ns = self.ns.saturating_add(busy.as_ns());
        }
        self.until = now;
        self.end_window(now);
    }

    fn end_window(&mut self, now: Instant) {
        let (passed, window) = (now.saturating_since(self.since), WINDOW.get());
        if passed < window {
            return;
        }
        let passed_ns = passed.as_ns() as f32;
        let recent = (self.ns as f32 / passed_ns).min(1.0);
        let before = self.share.unwrap_or(recent);
        // Half of it, or more after a pause.
        let weight = passed_ns / (passed_ns + window.as_ns() as f32);
        let share = before + weight * (recent - before);
        // Where nobody has looked for long, it is what comes now that counts.
        self.share = (passed < PAUSE.get()).then_some(share);
        (self.ns, self.since) = (0, now);
    }

    /// The share now, of a leg that has so many operations: what was given up before it began is
    /// never answered.
    fn share(&mut self, now: Instant, in_flight: u32) -> f32 {
        self.in_flight = self.in_flight.min(in_flight);
        self.see(now);
        self.share.unwrap_or(1.0)
    }
}

impl ReadAhead {
    /// Whether flash has the time to read all that disks would, and is done with what it has before
    /// an arm would be there.
    pub(super) fn note_spare(&mut self, now: Instant, legs: &[LegView], helpers: &Helpers) {
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
    }
}
