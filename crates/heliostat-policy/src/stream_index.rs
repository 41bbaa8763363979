//! Which streams a read may go on with, so that nobody looks at all of them for a read that goes on
//! with none.
//!
//! A stream is entered under a number that says where it goes on, by a hash of that. Whoever asks
//! for a number is told of all streams under it, and now and then of another one whose number has
//! the same hash: it looks at them itself.

/// Few of 64 streams have the same hash.
const PLACES: usize = 256;
/// A stream is a bit.
pub(crate) const INDEXED_MAX: usize = u64::BITS as usize;

/// Streams by the number of their place in a list, in sets.
#[derive(Debug)]
pub(crate) struct StreamIndex {
    sets: [u64; PLACES],
}

/// A place for a number in a table of 256.
pub(crate) fn place_of(number: u64) -> usize {
    // The golden ratio spreads neighbours over all places (Knuth, 6.4).
    usize::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0])
}

impl StreamIndex {
    pub(crate) const fn new() -> Self {
        Self { sets: [0; PLACES] }
    }

    /// The stream at `at` goes on at `number`.
    pub(crate) fn insert(&mut self, number: u64, at: usize) {
        self.sets[place_of(number)] |= 1 << at;
    }

    /// It goes on elsewhere.
    pub(crate) fn remove(&mut self, number: u64, at: usize) {
        self.sets[place_of(number)] &= !(1 << at);
    }

    /// All streams that go on at one of `numbers`, and perhaps others.
    pub(crate) fn find<const N: usize>(&self, numbers: [u64; N]) -> Found {
        let sets = numbers.map(|number| self.sets[place_of(number)]);
        Found(sets.into_iter().fold(0, |all, set| all | set))
    }
}

/// Streams that were found, by rising place.
pub(crate) struct Found(u64);

impl Found {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

impl Iterator for Found {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let first = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        usize::try_from(first).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{INDEXED_MAX, StreamIndex, place_of};

    #[test]
    fn streams_are_found_by_rising_place_until_they_are_removed() {
        let mut index = StreamIndex::new();
        for at in (0..INDEXED_MAX).rev() {
            index.insert(if at % 2 == 0 { 7 } else { 1 << 40 }, at);
        }
        let even: Vec<usize> = (0..INDEXED_MAX).step_by(2).collect();
        assert_eq!(index.find([7]).collect::<Vec<_>>(), even);
        let all: Vec<usize> = (0..INDEXED_MAX).collect();
        assert_eq!(index.find([1 << 40, 7]).collect::<Vec<_>>(), all);
        index.remove(7, 0);
        assert_eq!(index.find([7]).next(), Some(2));
        let elsewhere = (0..).find(|other| place_of(*other) != place_of(7));
        assert_eq!(
            index.find([elsewhere.expect("a hash of 8 bits")]).next(),
            None
        );
    }
}
