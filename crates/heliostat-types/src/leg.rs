//! Which leg: an index, and sets of them.

use std::fmt;

/// The most legs that one array may have.
pub const LEGS_MAX: usize = 16;

/// One leg of an array: its index, from 0 on. (`devid`, as btrfs counts, is this plus one.)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LegId(u8);

impl LegId {
    /// The leg at `index`.
    ///
    /// # Panics
    /// Where `index` is not below [`LEGS_MAX`].
    #[must_use]
    pub fn new(index: usize) -> Self {
        assert!(index < LEGS_MAX, "an array has at most 16 legs");
        Self(u8::try_from(index).expect("an index below 16 fits"))
    }

    /// The index, from 0 on.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number that btrfs's files would call it by, from 1 on.
    #[must_use]
    pub fn devid(self) -> u64 {
        u64::from(self.0) + 1
    }
}

impl fmt::Debug for LegId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leg{}", self.0)
    }
}

impl fmt::Display for LegId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leg {}", self.0)
    }
}

/// A set of legs of one array.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LegSet(u16);

impl LegSet {
    /// The set without any leg.
    pub const EMPTY: Self = Self(0);

    /// The legs 0 to `count` - 1.
    ///
    /// # Panics
    /// Where `count` is above [`LEGS_MAX`].
    #[must_use]
    pub fn first(count: usize) -> Self {
        (0..count).map(LegId::new).collect()
    }

    /// Whether there is no leg in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many legs there are in it.
    #[must_use]
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether `leg` is in it.
    #[must_use]
    pub const fn contains(self, leg: LegId) -> bool {
        self.0 >> leg.0 & 1 == 1
    }

    /// Puts `leg` in.
    pub const fn insert(&mut self, leg: LegId) {
        self.0 |= 1 << leg.0;
    }

    /// Takes `leg` out.
    pub const fn remove(&mut self, leg: LegId) {
        self.0 &= !(1 << leg.0);
    }

    /// The legs in either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The legs in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The legs in `self` that are not in `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The leg with the lowest index in it.
    #[must_use]
    pub fn lowest(self) -> Option<LegId> {
        self.into_iter().next()
    }

    /// The legs, by rising index.
    #[must_use]
    pub const fn iter(self) -> LegSetIter {
        LegSetIter(self.0)
    }
}

/// Goes through a [`LegSet`] by rising index.
#[derive(Clone, Debug)]
pub struct LegSetIter(u16);

impl Iterator for LegSetIter {
    type Item = LegId;

    fn next(&mut self) -> Option<LegId> {
        if self.0 == 0 {
            return None;
        }
        let index = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(LegId(u8::try_from(index).expect("below 16")))
    }
}

impl IntoIterator for LegSet {
    type Item = LegId;
    type IntoIter = LegSetIter;

    fn into_iter(self) -> LegSetIter {
        self.iter()
    }
}

impl FromIterator<LegId> for LegSet {
    fn from_iter<I: IntoIterator<Item = LegId>>(legs: I) -> Self {
        let mut set = Self::EMPTY;
        for leg in legs {
            set.insert(leg);
        }
        set
    }
}

impl fmt::Debug for LegSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(LegId::index))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{LegId, LegSet};

    #[test]
    fn sets_hold_what_was_put_in() {
        let mut set = LegSet::first(3);
        assert_eq!(set.count(), 3);
        set.remove(LegId::new(1));
        assert!(!set.contains(LegId::new(1)));
        set.insert(LegId::new(15));
        assert_eq!(set.iter().map(LegId::index).collect::<Vec<_>>(), [0, 2, 15]);
        assert_eq!(
            set.difference(LegSet::first(1)).lowest(),
            Some(LegId::new(2))
        );
        assert_eq!(LegSet::first(16).count(), 16);
        assert_eq!(LegId::new(0).devid(), 1);
    }
}
