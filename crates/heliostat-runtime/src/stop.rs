//! How far a stop is, and how long its parts may take.

use heliostat_types::{Duration, Instant};

/// How long clients have to take the answers to what was accepted. Together with [`FLUSH_MAX`] it
/// leaves two of the ten seconds that a stop may take in all to threads that have to end.
const DRAIN_MAX: Duration = Duration::from_secs(4);

/// How long legs have to make everything durable.
const FLUSH_MAX: Duration = Duration::from_secs(4);

/// How long legs have when a second signal says that it is urgent.
const FLUSH_URGENT_MAX: Duration = Duration::from_ms(500);

/// Where a stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nobody asked for it, or nothing was done about it yet.
    Serving,
    /// Nothing new is accepted; what was is being answered.
    Draining,
    /// The legs are being flushed, and the record written.
    Flushing,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Stop {
    phase: Phase,
    requests: u32,
    deadline: Option<Instant>,
}

impl Stop {
    /// Not begun.
    pub(crate) const fn new() -> Self {
        Self {
            phase: Phase::Serving,
            requests: 0,
            deadline: None,
        }
    }

    /// Somebody wants it; somebody who says so again wants it now.
    pub(crate) fn request(&mut self, now: Instant) {
        self.requests += 1;
        if self.requests > 1 {
            let urgent = match self.phase {
                Phase::Serving | Phase::Draining => now,
                Phase::Flushing => now + FLUSH_URGENT_MAX,
            };
            self.deadline = self.deadline.map(|deadline| deadline.min(urgent));
        }
    }

    /// Whether anybody wants it.
    pub(crate) const fn is_requested(&self) -> bool {
        self.requests > 0
    }

    /// Where it is.
    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// From serving to draining.
    pub(crate) fn begin_drain(&mut self, now: Instant) {
        self.phase = Phase::Draining;
        let is_urgent = self.requests > 1;
        self.deadline = Some(if is_urgent { now } else { now + DRAIN_MAX });
    }

    /// From draining to flushing.
    pub(crate) fn begin_flush(&mut self, now: Instant) {
        self.phase = Phase::Flushing;
        let is_urgent = self.requests > 1;
        let longest = if is_urgent {
            FLUSH_URGENT_MAX
        } else {
            FLUSH_MAX
        };
        self.deadline = Some(now + longest);
    }

    /// When the present phase ends at the latest.
    pub(crate) const fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether that time has come.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant};

    use super::{Phase, Stop};

    const NOW: Instant = Instant::from_ns(1_000_000_000_000);

    #[test]
    fn a_stop_stays_below_ten_seconds() {
        let mut stop = Stop::new();
        assert!(!stop.is_requested() && stop.next_deadline().is_none());
        stop.request(NOW);
        stop.begin_drain(NOW);
        let drained = stop.next_deadline().unwrap();
        assert!(!stop.is_late(NOW) && stop.is_late(drained));
        stop.begin_flush(drained);
        assert_eq!(stop.phase(), Phase::Flushing);
        assert!(stop.next_deadline().unwrap() - NOW <= Duration::from_secs(8));
    }

    #[test]
    fn a_second_request_is_urgent() {
        let mut stop = Stop::new();
        stop.request(NOW);
        stop.begin_drain(NOW);
        stop.request(NOW);
        assert!(stop.is_late(NOW));
        stop.begin_flush(NOW);
        assert!(stop.next_deadline().unwrap() - NOW <= Duration::from_ms(500));
    }
}
