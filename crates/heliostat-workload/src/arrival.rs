//! When requests come that wait for no answer.

use std::fmt;

use heliostat_types::{Duration, Instant, Prng, RandomStream};
use stdx::math::ln;
use stdx::units::exact_time;

/// When a client asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// When it has fewer requests in flight than `iodepth`: a closed loop, as fio.
    Closed,
    /// `fixed:RATE`: so many times a second, in equal steps.
    Fixed {
        /// Requests per second of each clone.
        per_s: f64,
    },
    /// `poisson:RATE`: so many times a second on average, each independent of the others.
    Poisson {
        /// Requests per second of each clone.
        per_s: f64,
    },
    /// `burst:RATE:ON:OFF`: Poisson arrivals for a time, then none for a time.
    Burst {
        /// Requests per second of each clone while it is on.
        per_s: f64,
        /// How long it is on.
        on: Duration,
        /// How long it is off.
        off: Duration,
    },
}

impl Arrival {
    /// Whether the next request waits for an answer; otherwise they come whatever is answered.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *self == Self::Closed
    }

    /// What the key `arrival` says.
    ///
    /// # Errors
    /// Where it says nothing that is known.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let rate = |text: &str| -> Result<f64, String> {
            let rate: Option<f64> = text.trim().parse().ok();
            rate.filter(|rate| (1e-6..=1e9).contains(rate))
                .ok_or_else(|| format!("'{text}' is not a number of requests a second up to 10^9"))
        };
        let time = |text: &str| -> Result<Duration, String> {
            let ns = stdx::units::parse_time_ns(text).map_err(|error| error.to_string())?;
            Ok(Duration::from_ns(ns))
        };
        match parts[..] {
            ["closed"] => Ok(Self::Closed),
            ["fixed", per_s] => Ok(Self::Fixed {
                per_s: rate(per_s)?,
            }),
            ["poisson", per_s] => Ok(Self::Poisson {
                per_s: rate(per_s)?,
            }),
            ["burst", per_s, on, off] => {
                let (per_s, on, off) = (rate(per_s)?, time(on)?, time(off)?);
                if on == Duration::ZERO {
                    return Err(format!("'{text}' is never on"));
                }
                Ok(Self::Burst { per_s, on, off })
            }
            _ => Err(format!(
                "'{text}' is none of closed, fixed:RATE, poisson:RATE, burst:RATE:ON:OFF, as in \
                 poisson:2000 or burst:5000:20ms:80ms"
            )),
        }
    }
}

impl fmt::Display for Arrival {
    /// As a job file says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed"),
            Self::Fixed { per_s } => write!(f, "fixed:{per_s}"),
            Self::Poisson { per_s } => write!(f, "poisson:{per_s}"),
            Self::Burst { per_s, on, off } => {
                let [on, off] = [on, off].map(|time| exact_time(time.as_ns()));
                write!(f, "burst:{per_s}:{on}:{off}")
            }
        }
    }
}

/// The moments of an open arrival process, one after the other.
#[derive(Debug)]
pub(crate) struct Arrivals {
    arrival: Arrival,
    luck: RandomStream,
    began_at: Instant,
    /// How many have been.
    count: u64,
    /// Time since it began that it was on, in ns.
    on_ns: f64,
    next_at: Instant,
}

impl Arrivals {
    /// An open process from `began_at` on; `None` for a closed loop.
    pub(crate) fn new(arrival: Arrival, luck: RandomStream, began_at: Instant) -> Option<Self> {
        if arrival.is_closed() {
            return None;
        }
        let mut arrivals = Self {
            arrival,
            luck,
            began_at,
            count: 0,
            on_ns: 0.0,
            next_at: began_at,
        };
        // The first of a fixed process is at once, as fio's under a rate; those of others come
        // after a time as any other.
        if !matches!(arrival, Arrival::Fixed { .. }) {
            arrivals.advance();
        }
        Some(arrivals)
    }

    /// When the next one comes.
    pub(crate) const fn next_at(&self) -> Instant {
        self.next_at
    }

    /// The next one has come.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "53 bits of nanoseconds are 104 days"
    )]
    pub(crate) fn advance(&mut self) {
        self.count += 1;
        let since_ns = match self.arrival {
            Arrival::Closed => unreachable!("a closed loop has no arrivals"),
            Arrival::Fixed { per_s } => (self.count as f64 * 1e9 / per_s) as u64,
            Arrival::Poisson { per_s } => self.draw_ns(per_s) as u64,
            Arrival::Burst { per_s, on, off } => {
                let on_ns = self.draw_ns(per_s) as u64;
                // Only time that is on counts: whole periods before, and the rest.
                let periods = on_ns / on.as_ns();
                on_ns.saturating_add(periods.saturating_mul(off.as_ns()))
            }
        };
        self.next_at = self.began_at + Duration::from_ns(since_ns);
    }

    /// The time that was on until the next arrival.
    fn draw_ns(&mut self, per_s: f64) -> f64 {
        // 1 - u is in (0, 1].
        self.on_ns -= ln(1.0 - self.luck.unit_f64()) * 1e9 / per_s;
        self.on_ns
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Instant, RandomStream};

    use super::{Arrival, Arrivals};

    #[test]
    fn arrivals_are_named() {
        let parse = Arrival::parse;
        assert_eq!(parse("closed"), Ok(Arrival::Closed));
        assert_eq!(parse("fixed:10"), Ok(Arrival::Fixed { per_s: 10.0 }));
        assert_eq!(parse("poisson:0.5"), Ok(Arrival::Poisson { per_s: 0.5 }));
        let burst = Arrival::Burst {
            per_s: 5000.0,
            on: Duration::from_ms(20),
            off: Duration::from_ms(80),
        };
        assert_eq!(parse("burst:5000:20ms:80ms"), Ok(burst));
        let told = |text| parse(text).unwrap_err();
        assert_eq!(
            told("poisson:-1"),
            "'-1' is not a number of requests a second up to 10^9"
        );
        assert_eq!(told("burst:5:0s:1s"), "'burst:5:0s:1s' is never on");
        assert!(told("burst:5:1:1s").starts_with("'1' is not a length of time"));
        assert!(told("open").starts_with("'open' is none of closed, "));
    }

    fn moments(arrival: Arrival, count: usize) -> Vec<u64> {
        let luck = RandomStream::new(1, "test", 0);
        let mut arrivals = Arrivals::new(arrival, luck, Instant::from_ns(5)).unwrap();
        std::iter::repeat_with(|| {
            let at = arrivals.next_at();
            arrivals.advance();
            at.as_ns() - 5
        })
        .take(count)
        .collect()
    }

    #[test]
    fn fixed_steps_are_exact_and_do_not_drift() {
        let at = moments(Arrival::Fixed { per_s: 3.0 }, 3_000_001);
        assert_eq!(at[..3], [0, 333_333_333, 666_666_666]);
        assert_eq!(at[3_000_000], 1_000_000_000_000_000);
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_spread_of_their_law() {
        let at = moments(Arrival::Poisson { per_s: 1e6 }, 100_000);
        let mut gaps: Vec<f64> = at.windows(2).map(|two| (two[1] - two[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1000.0 - 1.0).abs() < 0.013, "{mean}");
        let squares = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        assert!((squares / 2e6 - 1.0).abs() < 0.05, "{squares}");
        gaps.sort_by(f64::total_cmp);
        let median = gaps[gaps.len() / 2];
        assert!((median / 693.1 - 1.0).abs() < 0.02, "{median}");
    }

    #[test]
    fn bursts_are_on_and_off() {
        let burst = Arrival::parse("burst:100000:20ms:80ms").unwrap();
        let at = moments(burst, 100_000);
        assert!(at.iter().all(|at| at % 100_000_000 < 20_000_000));
        // 100,000 arrivals are 1 s on, thus 5 s in all.
        assert!((4_900_000_000..5_100_000_000).contains(&at[99_999]));
    }
}
