//! How long to wait before the next attempt to connect.

use std::time::Duration;

use heliostat_types::{Prng as _, RandomStream};

/// The first pause: a server that was restarted is there again, and what it was sent before has
/// ended.
const FIRST: Duration = Duration::from_millis(100);

/// The longest pause: a server that comes back after a day is found soon.
const LONGEST: Duration = Duration::from_secs(5);

/// Pauses that double, each shortened by up to a quarter at random, so that many clients of a
/// server that comes back do not all come at once.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    prng: RandomStream,
}

impl Backoff {
    pub(super) const fn new(prng: RandomStream) -> Self {
        Self { next: FIRST, prng }
    }

    /// The next pause.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (2 * pause).min(LONGEST);
        let off_permille = u32::try_from(self.prng.below(251)).expect("at most 250");
        pause * (1000 - off_permille) / 1000
    }

    /// Begins anew.
    pub(super) const fn reset(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use heliostat_types::RandomStream;

    use super::Backoff;

    fn pauses(index: u64) -> Vec<Duration> {
        let mut backoff = Backoff::new(RandomStream::new(1, "nbd reconnect", index));
        (0..9).map(|_| backoff.pause()).collect()
    }

    #[test]
    fn pauses_double_up_to_five_seconds() {
        let full = [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000];
        for (pause, full_ms) in pauses(0).into_iter().zip(full) {
            let full = Duration::from_millis(full_ms);
            assert!((full * 3 / 4..=full).contains(&pause), "{pause:?}");
        }
        assert_eq!(pauses(0), pauses(0));
        assert_ne!(pauses(0), pauses(1));
    }

    #[test]
    fn they_can_begin_anew() {
        let mut backoff = Backoff::new(RandomStream::new(1, "nbd reconnect", 0));
        while backoff.pause() < Duration::from_secs(1) {}
        backoff.reset();
        assert!(backoff.pause() <= Duration::from_millis(100));
    }
}
