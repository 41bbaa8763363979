//! Several runs of the same: the one in the middle, and how far apart they are.

/// Median, smallest and largest of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The one in the middle, or the mean of the two there.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of these figures; nothing where there are none.
    #[must_use]
    pub fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (&min, &max) = (figures.first()?, figures.last()?);
        let half = figures.len() / 2;
        let median = if figures.len().is_multiple_of(2) {
            f64::midpoint(figures[half - 1], figures[half])
        } else {
            figures[half]
        };
        Some(Self { median, min, max })
    }

    /// Half of what the largest and the smallest are apart, as a part of the one in the middle.
    #[must_use]
    pub fn relative(&self) -> f64 {
        match self.median > 0.0 {
            true => (self.max - self.min) / 2.0 / self.median,
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_middle_of_even_and_odd() {
        assert_eq!(Spread::of(Vec::new()), None);
        let odd = Spread::of(vec![9.0, 1.0, 4.0]).expect("three");
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 4.0, 9.0));
        assert_eq!(odd.relative(), 1.0);
        assert_eq!(Spread::of(vec![4.0, 1.0]).expect("two").median, 2.5);
    }
}
