//! The one clock of the loop: CLOCK_MONOTONIC, counted from the start of the daemon.
//!
//! The loop reads it when it wakes and again whenever it takes completions in, so that the service
//! time of a leg that is as fast as memory is what passed between the two, and not zero.

use heliostat_types::Instant;

/// Where time comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// A clock that shows zero now.
    pub(crate) fn start() -> Self {
        Self {
            origin: std::time::Instant::now(),
        }
    }

    /// What it shows.
    pub(crate) fn now(&self) -> Instant {
        let passed = self.origin.elapsed().as_nanos();
        Instant::from_ns(u64::try_from(passed).expect("no daemon runs for 584 years"))
    }
}

/// Asks the kernel to wake this thread when it said, and not up to 50 microseconds later together
/// with others: a model of a fast device is late by as much. Where it refuses, timers are coarser.
pub(crate) fn wake_in_time() {
    // SAFETY: this option takes a number of nanoseconds and changes nothing else.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}
