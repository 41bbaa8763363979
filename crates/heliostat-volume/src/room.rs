//! Which parts of an array are given to a volume.

use heliostat_types::Extent;

use crate::table::Table;

impl Table {
    /// What no volume has, in the order of the array.
    #[must_use]
    pub fn free(&self) -> Vec<Extent> {
        let room = self.places().room();
        let mut used: Vec<Extent> = self
            .volumes
            .iter()
            .flat_map(|volume| &volume.extents)
            .copied()
            .collect();
        used.sort_unstable();
        let mut free = Vec::new();
        let mut from = room.offset();
        for extent in used {
            if from < extent.offset() {
                free.push(Extent::from_range(from, extent.offset()));
            }
            from = extent.end();
        }
        if from < room.end() {
            free.push(Extent::from_range(from, room.end()));
        }
        free
    }

    /// How much no volume has.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.free().iter().map(|extent| extent.len()).sum()
    }
}

/// `bytes` of what is free, in as few pieces as possible: first what lies right behind `last`, then
/// the smallest piece that holds the rest, or the largest ones where none does. `None` where there
/// is less.
pub(crate) fn take(mut free: Vec<Extent>, last: Option<Extent>, bytes: u64) -> Option<Vec<Extent>> {
    let mut wanted = bytes;
    let mut taken = Vec::new();
    if let Some(end) = last.map(Extent::end)
        && let Some(behind) = free.iter_mut().find(|piece| piece.offset() == end)
    {
        let (first, rest) = behind.split_at(wanted.min(behind.len()));
        wanted -= first.len();
        taken.push(first);
        *behind = rest;
    }
    free.sort_unstable_by_key(|piece| (piece.len(), piece.offset()));
    while wanted > 0 {
        let fitting = free.iter().position(|piece| piece.len() >= wanted);
        let piece = match fitting {
            Some(index) => free.remove(index),
            None => free.pop()?,
        };
        if piece.is_empty() {
            return None;
        }
        let (first, _) = piece.split_at(wanted.min(piece.len()));
        wanted -= first.len();
        taken.push(first);
    }
    Some(taken)
}

/// Appends extents, those that go on where the one before ends as part of it.
pub(crate) fn append(extents: &mut Vec<Extent>, more: Vec<Extent>) {
    for extent in more {
        match extents.last_mut() {
            Some(last) if last.end() == extent.offset() => {
                *last = Extent::from_range(last.offset(), extent.end());
            }
            _ => extents.push(extent),
        }
    }
}

/// Gives up what lies beyond the first `bytes`.
pub(crate) fn cut(extents: &mut Vec<Extent>, bytes: u64) {
    let mut left = bytes;
    extents.retain_mut(|extent| {
        let kept = left.min(extent.len());
        left -= kept;
        *extent = extent.split_at(kept).0;
        kept > 0
    });
}

#[cfg(test)]
mod tests {
    use heliostat_types::Extent;

    use super::{append, cut, take};

    fn extents(pieces: &[(u64, u64)]) -> Vec<Extent> {
        let extent = |&(offset, len): &(u64, u64)| Extent::new(offset, len);
        pieces.iter().map(extent).collect()
    }

    #[test]
    fn the_smallest_piece_that_fits_is_taken_and_else_the_largest() {
        let free = extents(&[(0, 5), (10, 3), (20, 9)]);
        let take = |last, bytes| take(free.clone(), last, bytes);
        assert_eq!(take(None, 3), Some(extents(&[(10, 3)])));
        assert_eq!(take(None, 4), Some(extents(&[(0, 4)])));
        assert_eq!(take(None, 10), Some(extents(&[(20, 9), (10, 1)])));
        assert_eq!(take(None, 17), Some(extents(&[(20, 9), (0, 5), (10, 3)])));
        assert_eq!(take(None, 18), None);
        // What lies right behind comes first, also where it is not enough.
        let last = Some(Extent::new(8, 2));
        assert_eq!(take(last, 2), Some(extents(&[(10, 2)])));
        assert_eq!(take(last, 4), Some(extents(&[(10, 3), (0, 1)])));
    }

    #[test]
    fn extents_grow_at_their_end_and_are_cut_there() {
        let mut have = extents(&[(0, 2)]);
        append(&mut have, extents(&[(2, 3), (9, 1)]));
        assert_eq!(have, extents(&[(0, 5), (9, 1)]));
        cut(&mut have, 4);
        assert_eq!(have, extents(&[(0, 4)]));
    }
}
