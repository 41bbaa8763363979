//! What is to be made large or small.

use std::fmt;
use std::str::FromStr;

use heliostat_sim::{Moved, RunResult};

use crate::live::Measured;
use crate::report::format;

/// A figure of a run, and whether more or less of it is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objective {
    is_write: bool,
    figure: Figure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Iops,
    Bandwidth,
    Mean,
    /// Of 10,000 response times this many are not longer.
    Quantile(u64),
    Max,
}

/// The figures by name.
const FIGURES: [(&str, Figure); 9] = [
    ("iops", Figure::Iops),
    ("bw", Figure::Bandwidth),
    ("mean", Figure::Mean),
    ("p50", Figure::Quantile(5_000)),
    ("p90", Figure::Quantile(9_000)),
    ("p99", Figure::Quantile(9_900)),
    ("p99.9", Figure::Quantile(9_990)),
    ("p99.99", Figure::Quantile(9_999)),
    ("max", Figure::Max),
];

impl Objective {
    /// Whether more is better: rates, but not times.
    #[must_use]
    pub const fn wants_more(self) -> bool {
        matches!(self.figure, Figure::Iops | Figure::Bandwidth)
    }

    /// The figure of `result`: requests per second, bytes per second, or nanoseconds. `None` where
    /// nothing of the kind was asked for or answered.
    #[must_use]
    pub fn value(self, result: &RunResult) -> Option<f64> {
        let moved = if self.is_write {
            &result.write
        } else {
            &result.read
        };
        self.of(moved, result).filter(|_| moved.ios > 0)
    }

    /// The figure of what fio measured of reads. `None` where it keeps none: of writes, and of
    /// percentiles that are not reported.
    #[must_use]
    pub fn measured(self, measured: &Measured) -> Option<f64> {
        let value = match self.figure {
            _ if self.is_write => return None,
            Figure::Iops => measured.read_iops,
            Figure::Bandwidth => measured.bytes_per_s,
            Figure::Mean => measured.mean_ns,
            Figure::Quantile(9_900) => measured.p99_ns as f64,
            Figure::Quantile(9_990) => measured.p99_9_ns as f64,
            Figure::Quantile(9_999) => measured.p99_99_ns as f64,
            Figure::Quantile(_) => return None,
            Figure::Max => measured.max_ns as f64,
        };
        Some(value)
    }

    fn of(self, moved: &Moved, result: &RunResult) -> Option<f64> {
        let times = moved.response_time_ns();
        let value = match self.figure {
            Figure::Iops => moved.iops(result.seconds),
            Figure::Bandwidth => moved.bw_bytes(result.seconds),
            Figure::Mean => times.mean(),
            Figure::Quantile(permyriad) => times.quantile(permyriad) as f64,
            Figure::Max => times.max() as f64,
        };
        (value > 0.0).then_some(value)
    }

    /// In what [`Objective::shown`] shows values.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self.figure {
            Figure::Iops => "IOPS",
            Figure::Bandwidth => "MiB/s",
            Figure::Mean | Figure::Quantile(_) | Figure::Max => "ms",
        }
    }

    /// `value` for people, without its unit.
    #[must_use]
    pub fn shown(self, value: f64) -> String {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a response time in nanoseconds"
        )]
        let milliseconds = || format::milliseconds(value as u64);
        match self.figure {
            Figure::Iops => format::rate(value),
            Figure::Bandwidth => format::rate(value / f64::from(1 << 20)),
            Figure::Mean | Figure::Quantile(_) | Figure::Max => milliseconds(),
        }
    }

    /// What it is, in words: `read IOPS`, `p99 of the response times of writes`.
    #[must_use]
    pub fn title(self) -> String {
        let (side, sides) = if self.is_write {
            ("write", "writes")
        } else {
            ("read", "reads")
        };
        match self.figure {
            Figure::Iops | Figure::Bandwidth => format!("{side} {}", self.unit()),
            Figure::Mean | Figure::Quantile(_) | Figure::Max => {
                format!("{} of the response times of {sides}", self.figure_name())
            }
        }
    }

    /// What is moved: `reads` or `writes`.
    pub(super) const fn side(self) -> &'static str {
        if self.is_write { "writes" } else { "reads" }
    }

    fn figure_name(self) -> &'static str {
        let mut figures = FIGURES.iter();
        let named = figures.find(|(_, figure)| *figure == self.figure);
        named.expect("every figure has a name").0
    }
}

impl FromStr for Objective {
    type Err = String;

    /// Reads `iops`, `p99.9` or `write-bw`; reads are meant where nothing is said.
    fn from_str(text: &str) -> Result<Self, String> {
        let (is_write, name) = match text.split_once('-') {
            Some(("write", name)) => (true, name),
            Some(("read", name)) => (false, name),
            _ => (false, text),
        };
        let figure = FIGURES.iter().find(|(known, _)| *known == name);
        let figure = figure.ok_or_else(|| {
            let names = FIGURES.map(|(name, _)| name);
            let meant = stdx::suggest::closest(name, names).map_or_else(
                || ".".to_owned(),
                |meant| format!("; did you mean '{meant}'?"),
            );
            let names = names.join(", ");
            format!(
                "is no objective{meant} Valid are {names}, of reads, or of writes with 'write-' \
                 before it"
            )
        })?;
        Ok(Self {
            is_write,
            figure: figure.1,
        })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.is_write { "write-" } else { "" };
        write!(f, "{side}{}", self.figure_name())
    }
}

#[cfg(test)]
mod tests {
    use super::{FIGURES, Objective};

    #[test]
    fn names_are_read_and_written() {
        for (name, _) in FIGURES {
            for text in [name.to_owned(), format!("write-{name}")] {
                let objective: Objective = text.parse().unwrap();
                assert_eq!(objective.to_string(), text);
            }
        }
        assert_eq!("read-p99".parse::<Objective>(), "p99".parse());
        let error = "p95".parse::<Objective>().unwrap_err();
        assert!(
            error.contains("'p90'") || error.contains("p99.9"),
            "{error}"
        );
        assert!("write-".parse::<Objective>().is_err());
        assert!("trim-iops".parse::<Objective>().is_err());
    }

    #[test]
    fn values_are_shown_in_their_unit() {
        let shown = |name: &str, value| {
            let objective: Objective = name.parse().unwrap();
            format!("{} {}", objective.shown(value), objective.unit())
        };
        assert_eq!(shown("iops", 1234.0), "1,234 IOPS");
        assert_eq!(shown("bw", 3.0 * 1_048_576.0), "3.0 MiB/s");
        assert_eq!(shown("p99", 2_500_000.0), "2.50 ms");
        let title = |name: &str| name.parse::<Objective>().unwrap().title();
        assert_eq!(title("write-bw"), "write MiB/s");
        assert_eq!(title("mean"), "mean of the response times of reads");
    }
}
