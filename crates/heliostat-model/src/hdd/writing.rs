//! What a hard disk does about writes: its volatile cache, and the media cache of a shingled one.

use heliostat_types::{Extent, Instant, LegOpId, OpKind};

use super::{Activity, CLEANING_DELAY, Hdd, Target};

impl Hdd {
    /// A write comes to a disk with a write cache.
    pub(super) fn take_write(&mut self, op: LegOpId, extent: Extent, now: Instant) {
        let ready_at = now + self.params.command_time;
        let let_through_at = self.write_gate.pass(now, extent.len());
        self.write_cache.stall(op, extent);
        // It is the only one without room, or it waits behind others.
        if let Some((op, extent)) = self.write_cache.next_with_room() {
            self.admit(op, extent, ready_at, let_through_at);
        }
        if matches!(self.activity, Activity::Free) {
            self.choose(now);
        }
    }

    /// Whether a target has to wait until the media cache has room.
    pub(super) fn is_blocked(&self, target: &Target) -> bool {
        target.in_log && !self.media_cache.has_room(target.extent)
    }

    /// Where the log goes on: at the outer edge, where a shingled disk has its other tracks.
    pub(super) fn log_byte(&self) -> u64 {
        self.media_cache.head() % self.params.size_bytes
    }

    /// From when on an idle disk cleans its media cache.
    pub(super) fn cleans_from(&self) -> Option<Instant> {
        (!self.media_cache.is_empty()).then(|| self.free_since + CLEANING_DELAY)
    }

    /// Begins to read a band and to write it anew.
    pub(super) fn clean(&mut self, at: Instant) {
        self.served_since_cleaning = 0;
        self.stop_read_ahead(at);
        let band = self.media_cache.oldest_band(self.params.size_bytes);
        let band = band.expect("the media cache holds something when it is full or cleaned");
        let start_ns = self.geometry.spiral_ns(band.offset());
        let end_ns = self.geometry.spiral_ns(band.end());
        let track = start_ns / self.geometry.turn_ns();
        let pass = |kind, from_ns, at| {
            let arrives_at = at + self.way(kind, from_ns, start_ns, track);
            let begins_at = arrives_at + self.turn_until(start_ns, arrives_at);
            begins_at + heliostat_types::Duration::from_ns(end_ns - start_ns)
        };
        let read_at = pass(OpKind::Read, self.head_ns, at);
        let until = pass(OpKind::Write, end_ns, read_at);
        self.head_ns = end_ns;
        self.activity = Activity::Cleaning { until };
    }

    /// A band is clean at `at`; an idle disk goes on with the next one.
    pub(super) fn finish_cleaning(&mut self, at: Instant) {
        self.media_cache.cleaned();
        self.choose(at);
        if matches!(self.activity, Activity::Free) && !self.media_cache.is_empty() {
            self.clean(at);
        }
    }
}
