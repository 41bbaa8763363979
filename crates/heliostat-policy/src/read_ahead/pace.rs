//! What is known of a leg for streams.

use heliostat_types::{Duration, Extent, Instant};

use super::lags::Took;
use super::spare::Busy;
use super::stream::is_of_late;
use super::{
    ASKED_BYTES, BEST_BYTES, KNOWN_FOR, KNOWN_TIMES, LATE, LATE_FOR_MAX, LATE_IN_A_ROW, LATE_TIMES,
    LEARNED_SHARE, LOADED_BYTES, LONG_BYTES, ONWARD_TIMES_MAX, RATE_FLASH, RATE_TURNING, RUN_BYTES,
    SEQUENTIAL_BYTES, SLOWER_TIMES, WAY_FLASH_NS_MAX, WAY_TURNING_NS_MAX, WAY_TURNING_NS_MIN,
    WRITES_PASS, WRITES_PASS_APART, WRITTEN_SHARE, WRITTEN_SHARE_LEFT, WRITTEN_WEIGHT,
};

/// How fast a leg reads in sequence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// In bytes per ns, the ways between stretches included; 0: not known;
    pub(super) rate: f32,
    /// when that was seen, for how long it is known from then on, in ns,
    known_at: Instant,
    known_ns: f32,
    /// how fast it was before it was seen to be late, and how many answers were of late.
    usual_rate: f32,
    late_in_a_row: u32,
    /// Bytes of reads in flight that may be of streams.
    pub(super) long_bytes: u64,
    /// How fast it has answered reads of all kinds at best while it had some, 0: not known,
    pub(super) best_rate: f32,
    /// of how many ns,
    pub(super) best_of_ns: u64,
    /// and what it has since, in which time of its own.
    bytes: u64,
    busy_ns: u64,
    answered: Instant,
    /// What it takes to get to a stretch, in ns; 0: not known.
    pub(super) way_ns: f32,
    /// What a byte takes right behind another one, in ns; 0: not known,
    onward_ns: f32,
    /// when that was seen last,
    onward_at: Instant,
    /// and how many bytes came at once since.
    onward_bytes: u64,
    /// Bytes of long reads in flight.
    pub(super) in_flight: u64,
    /// Since when it has had much to read, and how much it has read since.
    pub(super) loaded: Option<(Instant, u64)>,
    /// Where the last read that it was handed ends,
    pub(super) sent: u64,
    /// where the last one begins that began elsewhere,
    pub(super) sought: u64,
    /// where the last one ends that it has ended,
    pub(super) end: u64,
    /// and when that was.
    ended: Instant,
    /// Of the operations of late, which share changed something,
    pub(super) writes: f32,
    /// whether that was much, and has not become little since,
    pub(super) is_written: bool,
    /// when it was handed the last of these,
    written: Instant,
    /// and what one takes, in ns; 0: not known.
    pub(super) write_ns: f32,
    /// When it answered something else than a read last, and how long it is busy with a write.
    other_at: Instant,
    pub(super) write_own_ns: f32,
    /// For how long short ones have waited since that was asked, how many,
    short_waited_ns: u64,
    short_writes: u32,
    /// and what one took before that, in ns; 0: not known.
    pub(super) short_ns: f32,
    /// What a long read takes, in ns; 0: not known,
    pub(super) read_ns: f32,
    /// and a short one at least.
    pub(super) least_ns: f32,
    pub(super) busy: Busy,
    pub(super) took: Took,
}

impl Pace {
    pub(super) fn on_dispatch(&mut self, now: Instant, extent: Extent) {
        if self.sent != extent.offset() {
            self.sought = extent.offset();
        }
        self.sent = extent.end();
        self.in_flight = self.in_flight.saturating_add(extent.len());
        if self.in_flight >= LOADED_BYTES.get() && self.loaded.is_none() {
            self.loaded = Some((now, 0));
        }
    }

    /// It has answered a read that is long enough to tell, after being silent for so long.
    pub(super) fn on_complete(
        &mut self,
        now: Instant,
        extent: Extent,
        (service_time, silence): (Duration, Duration),
    ) {
        let usual_rate = self.usual_rate;
        self.in_flight = self.in_flight.saturating_sub(extent.len());
        if let Some((since, before)) = self.loaded {
            let bytes = before.saturating_add(extent.len());
            self.loaded = (self.in_flight >= RUN_BYTES.get()).then_some((since, bytes));
            if bytes >= ASKED_BYTES.get() {
                self.note_rate(now, bytes, now.saturating_since(since));
            }
        }
        let own = service_time.min(now.saturating_since(self.ended));
        let own_ns = own.as_ns() as f32;
        if self.end == extent.offset() {
            // What comes at once with others counts with what comes after it.
            self.onward_bytes = self.onward_bytes.saturating_add(extent.len());
            if own_ns > 0.0 {
                let mut ns = own_ns / self.onward_bytes as f32;
                if self.onward_ns > 0.0 {
                    // A pause of the leg is not what it does.
                    ns = ns.min(self.onward_ns * ONWARD_TIMES_MAX.get());
                }
                learn(&mut self.onward_ns, ns, LEARNED_SHARE.get());
                (self.onward_at, self.onward_bytes) = (now, 0);
            }
        } else if self.sought == extent.offset() && self.onward_ns > 0.0 {
            let ns = own_ns - self.onward_ns * extent.len() as f32;
            learn(&mut self.way_ns, ns.max(1.0), LEARNED_SHARE.get());
        }
        self.end = extent.end();
        self.ended = now;
        self.note_silence(now, extent.len(), silence, usual_rate);
    }

    /// It has read so much in so long, while it had much to read.
    fn note_rate(&mut self, now: Instant, bytes: u64, time: Duration) {
        if !self.is_known(now) {
            self.rate = 0.0;
        }
        let ns = time.as_ns().max(1) as f32;
        learn(&mut self.rate, bytes as f32 / ns, LEARNED_SHARE.get());
        self.usual_rate = self.rate;
        self.known_ns = KNOWN_TIMES.get() * ASKED_BYTES.get() as f32 / self.rate;
        self.known_at = now;
        self.loaded = self.loaded.map(|_| (now, 0));
    }

    /// It has read so much of a stream, and answered nothing else for so long, where it was as fast
    /// as `usual_rate` before. Once may be a pause, unless it was slow before.
    fn note_silence(&mut self, now: Instant, bytes: u64, silence: Duration, usual_rate: f32) {
        let is_far = |rate: f32| rate * SLOWER_TIMES.get() < usual_rate;
        let ns = silence.as_ns() as f32;
        let rate = bytes as f32 / ns;
        if silence <= LATE.get() || !is_far(rate) {
            self.late_in_a_row = 0;
            return;
        }
        self.late_in_a_row = self.late_in_a_row.saturating_add(1);
        if self.late_in_a_row >= LATE_IN_A_ROW.get() || self.rate > 0.0 && is_far(self.rate) {
            (self.rate, self.usual_rate) = (rate, usual_rate);
            self.known_ns = (LATE_TIMES.get() * ns).min(LATE_FOR_MAX.get().as_ns() as f32);
            self.known_at = now;
            self.loaded = self.loaded.map(|_| (now, 0));
        }
    }

    /// Whether it was seen of late how fast the leg reads.
    pub(super) fn is_known(&self, now: Instant) -> bool {
        let known_ns = f32::max(self.known_ns, KNOWN_FOR.get().as_ns() as f32);
        self.rate > 0.0 && (now.saturating_since(self.known_at).as_ns() as f32) < known_ns
    }

    /// How fast it was seen to read: of late, or else ever, at least.
    pub(super) fn seen_rate(&self, now: Instant) -> f32 {
        if self.is_known(now) {
            self.rate
        } else {
            self.best_rate
        }
    }

    /// How fast the leg is believed to read, where the fastest is as fast as `best`: what is not
    /// known any more may be as good as it can be, and is seen when it has something to read.
    pub(super) fn believed_rate(&self, now: Instant, turns: bool, best: f32) -> f32 {
        if self.is_known(now) {
            self.rate
        } else if turns {
            // Another one may have been seen to answer from its cache.
            self.rate
                .max(RATE_TURNING.get())
                .max(best / SLOWER_TIMES.get())
        } else if self.onward_ns > 0.0 && now.saturating_since(self.onward_at) < KNOWN_FOR.get() {
            // Of files that are short no leg has much to do at a time. Several answers that come at
            // once look as if the last ones had taken no time. It is a guess that leaves no leg
            // out beside others that are known, or it would not be seen again.
            let most = best.max(self.best_rate).max(RATE_FLASH.get());
            most.min(1.0 / self.onward_ns)
                .max(best / SLOWER_TIMES.get())
        } else {
            best.max(RATE_FLASH.get())
        }
    }

    /// It is handed an operation of any kind.
    pub(super) fn note_kind(&mut self, now: Instant, is_write: bool) {
        let share = f32::from(u8::from(is_write));
        self.writes += WRITTEN_WEIGHT.get() * (share - self.writes);
        let enough = if self.is_written && self.was_written(now) {
            WRITTEN_SHARE_LEFT.get()
        } else {
            WRITTEN_SHARE.get()
        };
        self.is_written = self.writes > enough;
        if is_write {
            self.written = now;
        }
    }

    /// Whether something was written to it of late.
    pub(super) fn was_written(&self, now: Instant) -> bool {
        self.writes > 0.0 && is_of_late(now, self.written)
    }

    /// Whether it has to write as well.
    pub(super) fn is_written(&self, now: Instant) -> bool {
        self.is_written && self.was_written(now)
    }

    /// It has answered something that is no read.
    pub(super) const fn note_other(&mut self, now: Instant) {
        self.other_at = now;
    }

    /// It has answered a write of so many bytes; [`Pace::note_other`] follows.
    pub(super) fn note_write_time(&mut self, now: Instant, bytes: u64, service_time: Duration) {
        let own = service_time.min(now.saturating_since(self.other_at));
        let share = (LONG_BYTES.get() as f32 / bytes.max(1) as f32).min(1.0);
        let own_ns = own.as_ns() as f32 * share;
        learn(&mut self.write_own_ns, own_ns, WRITTEN_WEIGHT.get());
        if bytes < SEQUENTIAL_BYTES.get() {
            let waited_ns = self.short_waited_ns;
            self.short_waited_ns = waited_ns.saturating_add(service_time.as_ns());
            self.short_writes = self.short_writes.saturating_add(1);
        }
        let ns = service_time.as_ns() as f32;
        learn(&mut self.write_ns, ns, WRITTEN_WEIGHT.get());
    }

    /// It has answered a read that may be one of a stream.
    pub(super) fn note_read_time(&mut self, service_time: Duration) {
        learn(
            &mut self.read_ns,
            service_time.as_ns() as f32,
            LEARNED_SHARE.get(),
        );
    }

    /// How many short writes it has answered since they were taken last.
    pub(super) const fn short_writes(&self) -> u32 {
        self.short_writes
    }

    /// For how long they have waited, in ns, and how many they are.
    pub(super) fn take_short_writes(&mut self) -> (u64, u32) {
        if self.short_writes > 0 {
            self.short_ns = self.short_waited_ns as f32 / self.short_writes as f32;
        }
        let taken = (self.short_waited_ns, self.short_writes);
        (self.short_waited_ns, self.short_writes) = (0, 0);
        taken
    }

    /// Whether writes wait for what is being read, where a random read takes so long.
    pub(super) fn writes_wait(&self, random_ns: f32, are_apart: bool) -> bool {
        let times = if are_apart {
            WRITES_PASS_APART.get()
        } else {
            WRITES_PASS.get()
        };
        self.write_ns == 0.0 || self.write_ns * times > random_ns
    }

    /// Whether a disk is busy with what is written, and does not take it by the way.
    pub(super) fn is_busy_writing(&self) -> bool {
        self.write_own_ns * WRITES_PASS.get() > self.way_ns(true)
    }

    /// It has answered a read of a stream.
    pub(super) fn note_took(&mut self, now: Instant, bytes: u64, service_time: Duration) {
        let rate = self.best_rate.max(RATE_TURNING.get());
        let read_ns = bytes as f32 / rate;
        self.took.note(now, bytes, read_ns, service_time);
    }

    /// It has answered a read of any kind; for how long it was silent before.
    pub(super) fn note_bytes(
        &mut self,
        now: Instant,
        bytes: u64,
        service_time: Duration,
    ) -> Duration {
        let own = service_time.min(now.saturating_since(self.answered));
        self.answered = now;
        self.busy_ns = self.busy_ns.saturating_add(own.as_ns());
        self.bytes = self.bytes.saturating_add(bytes);
        // A long one is as much of it as is short.
        let share = (LONG_BYTES.get() as f32 / bytes.max(1) as f32).min(1.0);
        let ns = service_time.as_ns() as f32 * share;
        if self.least_ns == 0.0 || ns < self.least_ns {
            self.least_ns = ns;
        }
        if self.bytes >= BEST_BYTES.get() {
            let rate = self.bytes as f32 / self.busy_ns.max(1) as f32;
            self.best_rate = self.best_rate.max(rate);
            self.best_of_ns = self.best_of_ns.saturating_add(self.busy_ns);
            (self.busy_ns, self.bytes) = (0, 0);
        }
        own.min(now.saturating_since(self.other_at))
    }

    /// What it takes to get somewhere.
    pub(super) fn way_ns(&self, turns: bool) -> f32 {
        let (min, max) = if turns {
            (WAY_TURNING_NS_MIN.get(), WAY_TURNING_NS_MAX.get())
        } else {
            (0.0, WAY_FLASH_NS_MAX.get())
        };
        self.way_ns.max(min).min(max)
    }
}

/// A moving mean, of which a sample is such a share; 0: there was none.
fn learn(mean: &mut f32, sample: f32, share: f32) {
    *mean = if *mean == 0.0 {
        sample
    } else {
        *mean + share * (sample - *mean)
    };
}
