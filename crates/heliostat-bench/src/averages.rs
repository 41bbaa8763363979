//! Means and medians of ratios.

/// The geometric mean, with the same bits on every machine; of one value, that value.
pub(crate) fn geometric_mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    let mut logarithms = 0.0;
    for value in values {
        if count == 1 {
            return value;
        }
        logarithms += stdx::math::ln(value);
    }
    stdx::math::exp(logarithms / count as f64)
}

/// The value in the middle, or between the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match (values.get(low), values.get(high)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::{geometric_mean, median};

    #[test]
    fn means_and_medians() {
        assert_eq!(geometric_mean([3.0].into_iter()), 3.0);
        assert!((geometric_mean([2.0, 8.0].into_iter()) - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean([0.0, 8.0].into_iter()), 0.0);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    }
}
