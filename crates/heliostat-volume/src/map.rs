//! Which bytes of the array a volume's bytes are.

use heliostat_types::Extent;

/// A volume's bytes in the array: extents one behind the other. A run of the volume is one run of
/// the array, or several where it goes over the border of two extents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeMap {
    /// Where in the volume each one begins, and where it lies in the array.
    pieces: Vec<(u64, Extent)>,
    size_bytes: u64,
}

impl VolumeMap {
    /// The first `size_bytes` bytes of these extents.
    ///
    /// # Panics
    /// Where there are fewer.
    #[must_use]
    pub fn new(extents: &[Extent], size_bytes: u64) -> Self {
        let mut pieces = Vec::with_capacity(extents.len());
        let mut at = 0;
        for extent in extents {
            pieces.push((at, *extent));
            at += extent.len();
        }
        assert!(size_bytes <= at, "a volume is no larger than its extents");
        Self { pieces, size_bytes }
    }

    /// How large the volume is.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether all of this lies in the volume.
    #[must_use]
    pub const fn contains(&self, extent: Extent) -> bool {
        extent.end() <= self.size_bytes
    }

    /// Where in the array the beginning of a run lies: as much of it as is one run there.
    ///
    /// # Panics
    /// Where it is empty, or does not lie in the volume.
    #[must_use]
    pub fn first(&self, run: Extent) -> Extent {
        assert!(!run.is_empty(), "no bytes lie nowhere");
        assert!(self.contains(run), "a run lies in its volume");
        let behind = self
            .pieces
            .partition_point(|(start, _)| *start <= run.offset());
        let (start, extent) = self.pieces[behind - 1];
        let skipped = run.offset() - start;
        let len = run.len().min(extent.len() - skipped);
        Extent::new(extent.offset() + skipped, len)
    }

    /// Where in the array a run lies, piece by piece.
    ///
    /// # Panics
    /// Where it does not lie in the volume.
    pub fn all(&self, run: Extent) -> impl Iterator<Item = Extent> + '_ {
        let mut rest = run;
        std::iter::from_fn(move || {
            let first = (!rest.is_empty()).then(|| self.first(rest))?;
            rest = rest.split_at(first.len()).1;
            Some(first)
        })
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::Extent;
    use proptest::prelude::{Strategy, any, prop};
    use proptest::test_runner::TestCaseError;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::VolumeMap;

    #[test]
    fn a_run_over_a_border_is_two_in_the_array() {
        let map = VolumeMap::new(&[Extent::new(100, 10), Extent::new(50, 20)], 30);
        assert_eq!(map.first(Extent::new(0, 10)), Extent::new(100, 10));
        assert_eq!(map.first(Extent::new(8, 9)), Extent::new(108, 2));
        assert_eq!(map.first(Extent::new(10, 1)), Extent::new(50, 1));
        let pieces: Vec<Extent> = map.all(Extent::new(9, 3)).collect();
        assert_eq!(pieces, [Extent::new(109, 1), Extent::new(50, 2)]);
        assert_eq!(map.all(Extent::new(30, 0)).count(), 0);
        assert!(map.contains(Extent::new(0, 30)) && !map.contains(Extent::new(30, 1)));
    }

    /// Lengths of extents, gaps before them, and in which order they are the volume's.
    fn extents() -> impl Strategy<Value = Vec<Extent>> {
        let piece = (1_u64..50, 0_u64..5, any::<u32>());
        prop::collection::vec(piece, 1..12).prop_map(|pieces| {
            let mut at = 0;
            let mut placed: Vec<(u32, Extent)> = Vec::new();
            for (len, gap, order) in pieces {
                placed.push((order, Extent::new(at + gap, len)));
                at += gap + len;
            }
            placed.sort_unstable();
            placed.into_iter().map(|(_, extent)| extent).collect()
        })
    }

    proptest! {
        /// Each byte of a run is the byte that the extents, written out one by one, say it is.
        #[test]
        fn every_byte_lies_where_the_extents_say(
            extents in extents(),
            cut in 0_u64..5,
            from in any::<u64>(),
            len in any::<u64>(),
        ) {
            check(&extents, cut, from, len)?;
        }
    }

    fn check(extents: &[Extent], cut: u64, from: u64, len: u64) -> Result<(), TestCaseError> {
        let naive: Vec<u64> = extents
            .iter()
            .flat_map(|extent| extent.offset()..extent.end())
            .collect();
        let all = naive.len() as u64;
        let map = VolumeMap::new(extents, all - cut.min(all));
        let size = map.size_bytes();
        let from = from % (size + 1);
        let run = Extent::new(from, len % (size - from + 1));
        let pieces: Vec<Extent> = map.all(run).collect();
        prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
        let bytes: Vec<u64> = pieces
            .iter()
            .flat_map(|piece| piece.offset()..piece.end())
            .collect();
        let expected = usize::try_from(run.offset()).unwrap()..usize::try_from(run.end()).unwrap();
        prop_assert_eq!(&bytes[..], &naive[expected]);
        Ok(())
    }
}
