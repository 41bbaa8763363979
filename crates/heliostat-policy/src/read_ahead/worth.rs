//! Whether it is worth to read ahead of streams that are as many as the flash they have, or fewer.
//!
//! What they ask for themselves may be enough for all of it. What is read ahead is only more to
//! wait behind then, and the rest of a stretch has to be there before a reader gets on. So it is
//! tried: some of each stream as always, some in the other way, some as always again.

use heliostat_types::{Instant, LegSet};

use crate::constants::constants;

constants! { "worth":
    /// So much of each stream is compared in each way,
    BYTES: u64 = bytes(16 << 20);
    /// after as much that is left out, and all that was read ahead before: whether reads are cut is
    /// tried anew.
    SKIPPED_BYTES: u64 = bytes(32 << 20);
    /// Before the first try there was so much of each, and four times as much
    FIRST_BYTES: u64 = bytes(128 << 20);
    /// lies before the next one each time that nothing changed, from so much on,
    WAIT_BYTES: u64 = bytes(4 << 30);
    WAIT_TIMES: u64 = count(4);
    /// up to so much: in the end one byte of 2,000 is tried.
    WAIT_BYTES_MAX: u64 = bytes(64 << 30);
    /// To read ahead has to be faster by a twentieth, since readers wait longer now and then.
    GAIN: f32 = times(1.05);
}

/// What is done at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// As always, until it is time for a try.
    Settled,
    Before,
    Other,
    After,
}

/// What is known of the streams that there are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    /// Which streams these are, and the legs that they have.
    streams: u64,
    legs: LegSet,
    is_worth: bool,
    phase: Phase,
    /// How much has been read in this phase,
    bytes: u64,
    /// and since when, after what is left out.
    since: Option<Instant>,
    /// How much is to be read of each stream before the next try.
    wait_bytes: u64,
    /// How fast it was before, in bytes per ns, and in the other way.
    rates: [f32; 2],
}

impl Worth {
    pub(super) const fn new() -> Self {
        Self {
            streams: 0,
            legs: LegSet::EMPTY,
            is_worth: false,
            phase: Phase::Settled,
            bytes: 0,
            since: None,
            wait_bytes: 0,
            rates: [0.0; 2],
        }
    }

    /// `count` streams, which are known by `streams`, have read `bytes` more of `legs`; whether
    /// something is to be read ahead of them.
    pub(super) fn update(
        &mut self,
        now: Instant,
        (streams, count): (u64, usize),
        legs: LegSet,
        (bytes, ahead_bytes): (u64, u64),
    ) -> bool {
        if (self.streams, self.legs) != (streams, legs) {
            *self = Self {
                streams,
                legs,
                // With a leg to spare it mostly is.
                is_worth: count < legs.iter().count(),
                wait_bytes: FIRST_BYTES.get(),
                ..Self::new()
            };
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let each = self.bytes / count.max(1) as u64;
        if self.phase == Phase::Settled {
            if each >= self.wait_bytes {
                self.begin(Phase::Before);
            }
        } else if let Some(since) = self.since {
            if each >= BYTES.get() {
                let ns = now.saturating_since(since).as_ns().max(1);
                self.end_phase(self.bytes as f32 / ns as f32);
            }
        } else if each >= SKIPPED_BYTES.get() && (self.reads_ahead() || ahead_bytes == 0) {
            self.since = Some(now);
            self.bytes = 0;
        }
        self.reads_ahead()
    }

    fn reads_ahead(&self) -> bool {
        self.is_worth != (self.phase == Phase::Other)
    }

    const fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        self.bytes = 0;
        self.since = None;
    }

    /// They have read so fast in this phase.
    fn end_phase(&mut self, rate: f32) {
        match self.phase {
            Phase::Settled | Phase::Before => {
                self.rates[0] = rate;
                self.begin(Phase::Other);
            }
            Phase::Other => {
                self.rates[1] = rate;
                self.begin(Phase::After);
            }
            Phase::After => {
                let [before, other] = self.rates;
                // Whatever else there was to do meanwhile.
                let usual = before.max(rate);
                let is_better = if self.is_worth {
                    other * GAIN.get() > usual
                } else {
                    other > usual * GAIN.get()
                };
                self.wait_bytes = if is_better {
                    WAIT_BYTES.get()
                } else {
                    let longer = self.wait_bytes.saturating_mul(WAIT_TIMES.get());
                    longer.clamp(WAIT_BYTES.get(), WAIT_BYTES_MAX.get())
                };
                self.is_worth ^= is_better;
                self.begin(Phase::Settled);
            }
        }
    }
}
