//! Background work beside the clients of a scenario: what it is, and how far it came.

use heliostat_engine::{BackgroundKind, BackgroundStatus, Event, Input};
use heliostat_types::{Duration, Instant};

/// What the array does in the background, from the beginning of the run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundSpec {
    /// Which work.
    pub work: BackgroundWork,
    /// At least, in bytes per second, whatever clients ask for.
    pub rate_min: u64,
    /// At most.
    pub rate_max: u64,
}

impl BackgroundSpec {
    /// This work at the rates that an array has unless somebody changes them.
    #[must_use]
    pub const fn new(work: BackgroundWork) -> Self {
        Self {
            work,
            rate_min: 1_000_000,
            rate_max: 200_000_000,
        }
    }

    /// What the engine is told when the run begins.
    pub(crate) fn inputs(&self) -> [Input; 2] {
        [
            Input::SetBackgroundRates {
                min_bytes_per_s: self.rate_min,
                max_bytes_per_s: self.rate_max,
            },
            match self.work {
                BackgroundWork::Resync => Input::StartResync { everything: true },
                BackgroundWork::Check => Input::StartScrub { repair: false },
            },
        ]
    }
}

/// Work in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundWork {
    /// All of the array is copied from one leg to the others, as after a crash without a bitmap.
    Resync,
    /// All copies are read and compared.
    Check,
}

impl BackgroundWork {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Resync, Self::Check];

    /// As scenarios and results call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resync => "resync",
            Self::Check => "check",
        }
    }
}

/// How far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundResult {
    /// What it was.
    pub work: BackgroundWork,
    /// Bytes of the array that were done in the measured time.
    pub bytes: u64,
    /// How long that took: the measured time, or until all was done.
    pub time: Duration,
    /// Whether all of the array was done in the end.
    pub done: bool,
    /// Sectors of 512 bytes in which copies differed.
    pub mismatch_sectors: u64,
}

impl BackgroundResult {
    /// Bytes per second.
    #[must_use]
    pub fn bw_bytes(&self) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 {
            self.bytes as f64 / seconds
        } else {
            0.0
        }
    }
}

/// Looks at the work while it goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundWatch {
    work: BackgroundWork,
    size_bytes: u64,
    done_bytes: u64,
    mismatch_sectors: u64,
    /// How much was done when measuring began, and when it was last looked at.
    before: Option<u64>,
    seen_at: Instant,
    /// When it ended by itself.
    ended_at: Option<Instant>,
    is_told_to_end: bool,
}

impl BackgroundWatch {
    pub(crate) const fn new(spec: BackgroundSpec, size_bytes: u64) -> Self {
        Self {
            work: spec.work,
            size_bytes,
            done_bytes: 0,
            mismatch_sectors: 0,
            before: None,
            seen_at: Instant::ZERO,
            ended_at: None,
            is_told_to_end: false,
        }
    }

    /// To be called at every moment. Whether the work has to make an end of it now, once.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        status: Option<BackgroundStatus>,
        measured: (Instant, Instant),
    ) -> bool {
        if now < measured.1 || self.before.is_none() {
            if now >= measured.0 && self.before.is_none() {
                self.before = Some(self.done_bytes);
            }
            if let Some(status) = status {
                self.done_bytes = status.done_bytes;
            }
            self.seen_at = now;
        }
        now >= measured.1 && !std::mem::replace(&mut self.is_told_to_end, true)
    }

    /// It tells of itself.
    pub(crate) fn on_event(&mut self, now: Instant, event: &Event) {
        let Event::BackgroundEnded {
            kind, mismatches, ..
        } = *event
        else {
            return;
        };
        let is_it = match self.work {
            BackgroundWork::Resync => kind == BackgroundKind::Resync,
            BackgroundWork::Check => matches!(kind, BackgroundKind::Scrub { .. }),
        };
        if is_it && self.ended_at.is_none() {
            self.ended_at = Some(now);
            self.done_bytes = self.size_bytes;
            self.mismatch_sectors = mismatches.sectors;
        }
    }

    pub(crate) fn result(&self, begins_at: Instant) -> BackgroundResult {
        let until = self.ended_at.unwrap_or(self.seen_at);
        BackgroundResult {
            work: self.work,
            bytes: self.done_bytes - self.before.unwrap_or(self.done_bytes),
            time: until.saturating_since(begins_at),
            done: self.ended_at.is_some(),
            mismatch_sectors: self.mismatch_sectors,
        }
    }
}
