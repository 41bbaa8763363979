//! A running average of whole numbers.

/// `average`, moved towards `sample` by one of `parts` parts of the way; rounded down.
pub(crate) fn moved(average: u64, sample: u64, parts: u32) -> u64 {
    let sum = u128::from(average) * u128::from(parts - 1) + u128::from(sample);
    u64::try_from(sum / u128::from(parts)).expect("an average lies between what it is of")
}

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn an_average_moves_by_a_part_of_the_way() {
        assert_eq!(moved(320, 0, 8), 280);
        assert_eq!(moved(100, 900, 8), 200);
        assert_eq!(moved(u64::MAX, u64::MAX, 32), u64::MAX);
    }
}
