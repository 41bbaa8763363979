//! Where a value lies between the two ends of a plot, and which values are written there.

/// An axis: its ends and its scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
}

/// A ratio between the largest and the smallest value from which a linear scale hides the small.
const LOGARITHMIC_FROM: f64 = 15.0;

impl Axis {
    /// A linear axis.
    pub(super) const fn linear(low: f64, high: f64) -> Self {
        Self {
            low,
            high,
            logarithmic: false,
        }
    }

    /// A logarithmic axis from a tidy value below the least of `values` to one above the largest.
    /// Values that are not above zero do not count.
    pub(super) fn logarithmic(values: impl IntoIterator<Item = f64>) -> Self {
        let positive = values.into_iter().filter(|&value| value > 0.0);
        let ends = positive.fold(None, |ends: Option<(f64, f64)>, value| {
            let (low, high) = ends.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        let (low, high) = ends.unwrap_or((1.0, 10.0));
        Self {
            low: tidy_below(low),
            high: tidy_above(high),
            logarithmic: true,
        }
    }

    /// The axis for bars of these lengths: from zero, or logarithmic where they differ so much that
    /// the short ones would vanish.
    pub(super) fn for_bars(values: &[f64]) -> Self {
        let most = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        if least > 0.0 && most / least >= LOGARITHMIC_FROM {
            // The shortest bar keeps some length.
            return Self::logarithmic([least / 2.0, most]);
        }
        Self::linear(0.0, tidy_above(most))
    }

    /// A linear axis whose ends are tidy and near to the least and the largest of `values`, for
    /// small differences; logarithmic where they are far apart.
    pub(super) fn around(values: impl Iterator<Item = f64> + Clone) -> Self {
        let most = values.clone().fold(f64::MIN, f64::max);
        let least = values.clone().fold(f64::MAX, f64::min);
        if least > most {
            return Self::linear(0.0, 1.0);
        }
        if least > 0.0 && most / least >= LOGARITHMIC_FROM {
            return Self::logarithmic(values);
        }
        // Where all are equal, a twentieth of them to both sides.
        let span = (most - least).max(most.abs() / 20.0);
        let step = tidy_above(span / 4.0);
        let low = (least / step).floor() * step;
        // Five steps from there reach the largest, or the next larger step does.
        let step = if low + 5.0 * step < most {
            tidy_above(step * 1.01)
        } else {
            step
        };
        let low = (least / step).floor() * step;
        Self::linear(low, low + 5.0 * step)
    }

    /// Whether equal distances are equal ratios.
    pub(super) const fn is_logarithmic(self) -> bool {
        self.logarithmic
    }

    /// How far along the axis `value` lies, from 0 to 1.
    pub(super) fn fraction(self, value: f64) -> f64 {
        let scaled = |value: f64| {
            if self.logarithmic {
                value.log10()
            } else {
                value
            }
        };
        let (low, high) = (scaled(self.low), scaled(self.high));
        // Zero, minus infinity on a logarithmic axis, lies at its low end.
        ((scaled(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Values to write on the axis, and how.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        if self.logarithmic {
            return self.logarithmic_ticks();
        }
        let step = (self.high - self.low) / 5.0;
        (0..=5)
            .map(|index| self.low + f64::from(index) * step)
            .map(|value| (value, tick_text(value)))
            .collect()
    }

    /// At most about `count` of the ticks, evenly left out.
    pub(super) fn few_ticks(self, count: usize) -> Vec<(f64, String)> {
        let mut ticks = self.ticks();
        let whole = |value: f64| (value.log10() - value.log10().round()).abs() < 1e-9;
        if self.logarithmic && ticks.iter().filter(|tick| whole(tick.0)).count() > 1 {
            ticks.retain(|tick| whole(tick.0));
        }
        let every = ticks.len().div_ceil(count).max(1);
        ticks.into_iter().step_by(every).collect()
    }

    /// Tidy values from the low end to at most the high end, which need not be tidy: of time.
    pub(super) fn time_ticks(self) -> Vec<(f64, String)> {
        let step = tidy_above((self.high - self.low) / 5.0);
        (0..=5)
            .map(|index| self.low + f64::from(index) * step)
            .filter(|value| *value <= self.high * 1.001)
            .map(|value| (value, tick_text(value)))
            .collect()
    }

    /// Powers of ten; with 2 and 5 between them where there are few.
    fn logarithmic_ticks(self) -> Vec<(f64, String)> {
        let decades = (self.high / self.low).log10();
        let between: &[f64] = match decades {
            decades if decades < 2.0 => &[1.0, 2.0, 5.0],
            decades if decades < 3.5 => &[1.0, 3.0],
            _ => &[1.0],
        };
        // Powers of ten from 1e-9 to 1e12: nanoseconds in seconds to bytes per second.
        let powers = (-9..=12).map(|power| 10f64.powi(power));
        powers
            .flat_map(|power| between.iter().map(move |factor| factor * power))
            .filter(|value| (self.low * 0.999..=self.high * 1.001).contains(value))
            .map(|value| (value, tick_text(value)))
            .collect()
    }
}

/// 1, 2 or 5 times a power of ten, not above `value`.
fn tidy_below(value: f64) -> f64 {
    let power = 10f64.powi(exponent(value));
    let factor = value / power;
    let tidy = [5.0, 2.0].into_iter().find(|&tidy| tidy <= factor);
    tidy.unwrap_or(1.0) * power
}

/// 1, 2 or 5 times a power of ten, not below `value`.
fn tidy_above(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powi(exponent(value));
    let factor = value / power;
    let tidy = [1.0, 2.0, 5.0].into_iter().find(|&tidy| tidy >= factor);
    tidy.unwrap_or(10.0) * power
}

/// The power of ten of the first digit.
fn exponent(value: f64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
    let exponent = value.log10().floor() as i32;
    exponent
}

/// `0.02`, `5`, `200`, `1.5k`, `2M`.
fn tick_text(value: f64) -> String {
    let (value, suffix) = match value {
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    // Ticks have one digit that counts, or are fifths of such: four decimals are always enough.
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::Axis;

    fn texts(axis: Axis) -> String {
        let ticks = axis.ticks().into_iter().map(|(_, text)| text);
        ticks.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn bars_of_like_length_stand_on_zero() {
        let axis = Axis::for_bars(&[120.0, 430.0]);
        assert!(!axis.is_logarithmic());
        assert_eq!(texts(axis), "0 100 200 300 400 500");
        assert_eq!(axis.fraction(250.0), 0.5);
    }

    #[test]
    fn bars_of_unlike_length_are_logarithmic() {
        let axis = Axis::for_bars(&[98.0, 90_000.0]);
        assert!(axis.is_logarithmic());
        assert_eq!(texts(axis), "100 1k 10k 100k");
        assert!(axis.fraction(98.0) > 0.05);
        assert_eq!(axis.fraction(100_000.0), 1.0);
    }

    #[test]
    fn short_times_have_ticks_too() {
        assert_eq!(texts(Axis::logarithmic([0.11, 0.8])), "0.1 0.2 0.5 1");
        assert_eq!(texts(Axis::logarithmic([0.0, -1.0])), "1 2 5 10");
    }

    #[test]
    fn small_differences_are_seen() {
        let axis = Axis::around([980.0, 1_010.0].into_iter());
        assert_eq!(texts(axis), "980 1k 1.02k 1.04k 1.06k 1.08k");
        assert_eq!(
            texts(Axis::around([5.0, 5.0].into_iter())),
            "5 5.1 5.2 5.3 5.4 5.5"
        );
        assert!(Axis::around([1.0, 100.0].into_iter()).is_logarithmic());
        assert_eq!(texts(Axis::around([].into_iter())), "0 0.2 0.4 0.6 0.8 1");
        for (least, most) in [
            (0.0, 3.0),
            (0.97, 1.0),
            (9.0, 11.1),
            (-5.0, 5.0),
            (1e6, 3e6),
        ] {
            let axis = Axis::around([least, most].into_iter());
            assert!(axis.low <= least && axis.high >= most, "{axis:?}");
        }
    }

    #[test]
    fn seconds_end_where_the_run_does() {
        let ticks = |end| {
            let ticks = Axis::linear(0.0, end).time_ticks().into_iter();
            ticks.map(|(_, text)| text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ticks(60.0), "0 20 40 60");
        assert_eq!(ticks(0.1), "0 0.02 0.04 0.06 0.08 0.1");
        assert_eq!(Axis::linear(0.0, 500.0).few_ticks(3).len(), 3);
    }

    #[test]
    fn nothing_at_all_still_has_an_axis() {
        assert_eq!(Axis::for_bars(&[]).fraction(0.0), 0.0);
        assert_eq!(Axis::for_bars(&[0.0]).fraction(0.0), 0.0);
    }
}
