//! Time inside a faulty device, in pieces in which it runs evenly.

use heliostat_types::{Duration, Instant, Prng, RandomStream};

use super::{FaultEffect, FaultRule, Pauses};

/// Time between two changes of the rules, in which time inside runs evenly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) begins_at: Instant,
    /// Never where no rule changes any more.
    pub(super) ends_at: Instant,
    /// What time it is inside when the stretch begins.
    inner_begins_at: Instant,
    /// How many thousandths of our time pass per thousandth inside; `None`: it stands still.
    pace_permille: Option<u64>,
    /// What ends is not heard of.
    is_muted: bool,
}

impl Stretch {
    /// The one that begins at `at`, when it is `inner` inside.
    pub(super) fn from_rules(rules: &[FaultRule], luck: u64, at: Instant, inner: Instant) -> Self {
        let mut pace_permille = Some(1000u64);
        let mut is_muted = false;
        let mut ends_at = Instant::MAX;
        for (index, rule) in (0..).zip(rules) {
            for change in [rule.at, rule.until] {
                if change > at {
                    ends_at = ends_at.min(change);
                }
            }
            if !rule.holds(at) {
                continue;
            }
            match rule.effect {
                FaultEffect::SlowPermille(factor) => {
                    let slower = |pace: u64| (pace.saturating_mul(factor) / 1000).max(1);
                    pace_permille = pace_permille.map(slower);
                }
                FaultEffect::Pause(pauses) => {
                    let begins = PauseTimes {
                        pauses,
                        first_at: rule.at,
                        luck: luck.wrapping_add(index),
                    };
                    let (is_paused, change) = begins.look(at);
                    if is_paused {
                        pace_permille = None;
                    }
                    ends_at = ends_at.min(change);
                }
                FaultEffect::Stuck => pace_permille = None,
                FaultEffect::Burst => is_muted = true,
                FaultEffect::Error(_) | FaultEffect::Dead => {}
            }
        }
        Self {
            begins_at: at,
            ends_at,
            inner_begins_at: inner,
            pace_permille,
            is_muted,
        }
    }

    /// Whether nothing that has ended is heard of: what ended before and is held stays held as long
    /// as the device stands still.
    pub(super) const fn is_silent(&self) -> bool {
        self.is_muted || self.pace_permille.is_none()
    }

    /// What time it is inside at `at`, rounded down.
    pub(super) fn inner_at(&self, at: Instant) -> Instant {
        let Some(pace_permille) = self.pace_permille else {
            return self.inner_begins_at;
        };
        let passed = u128::from((at - self.begins_at).as_ns());
        self.inner_begins_at + saturating_ns(passed * 1000 / u128::from(pace_permille))
    }

    /// When it is `inner` inside, rounded up; `None` where that is not in this stretch.
    pub(super) fn outer_at(&self, inner: Instant) -> Option<Instant> {
        let pace_permille = self.pace_permille?;
        let passed = u128::from(inner.saturating_since(self.inner_begins_at).as_ns());
        let outer = saturating_ns((passed * u128::from(pace_permille)).div_ceil(1000));
        Some(self.begins_at + outer).filter(|at| *at < self.ends_at)
    }
}

fn saturating_ns(ns: u128) -> Duration {
    Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// When the pauses of a rule are.
#[derive(Clone, Copy, Debug)]
struct PauseTimes {
    pauses: Pauses,
    first_at: Instant,
    luck: u64,
}

impl PauseTimes {
    /// Whether there is a pause at `at`, which is not before the first, and when that changes.
    fn look(&self, at: Instant) -> (bool, Instant) {
        let number = (at - self.first_at).as_ns() / self.pauses.every.as_ns();
        let begins_at = self.begins_at(number);
        let ends_at = begins_at + self.pauses.length;
        if at < begins_at {
            (false, begins_at)
        } else if at < ends_at {
            (true, ends_at)
        } else {
            (false, self.begins_at(number + 1))
        }
    }

    fn begins_at(&self, number: u64) -> Instant {
        let jitter_ns = self.pauses.jitter.as_ns();
        let late_ns = if jitter_ns == 0 {
            0
        } else {
            RandomStream::new(self.luck, "pause", number).below(jitter_ns)
        };
        self.first_at + self.pauses.every * number + Duration::from_ns(late_ns)
    }
}
