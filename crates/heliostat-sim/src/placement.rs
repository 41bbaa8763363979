//! Where `copies = K` puts the copies of an array: chunk by chunk, each on the K legs with most
//! free space, as btrfs allocates them.
//!
//! Legs with equally much free space are taken by rising devid, that is, in role order. A leg's
//! space is used from its start on without holes, so that a stream over the array is one over each
//! of its legs. There is no metadata here, and an array smaller than a chunk is one smaller chunk.

use heliostat_engine::{Map, Place};
use heliostat_types::LegId;
use stdx::units::exact_size;

/// The granularity of chunks.
const UNIT_BYTES: u64 = 4096;

/// As many as the largest array has of btrfs's largest chunks.
const CHUNKS_MAX: u64 = 4 << 20;

/// Places an array of `size_bytes` on legs of `leg_bytes`.
///
/// # Errors
/// Where there are too few legs or there is too little space on them, in words.
pub(crate) fn place(
    leg_bytes: &[u64],
    size_bytes: u64,
    copies: usize,
    chunk_bytes: u64,
) -> Result<Map, String> {
    if copies > leg_bytes.len() {
        let legs = leg_bytes.len();
        return Err(format!(
            "copies: {copies} copies of each chunk on {legs} legs; each wants a leg of its own"
        ));
    }
    let chunk_bytes = chunk_bytes.min(size_bytes.next_multiple_of(UNIT_BYTES));
    let chunks = size_bytes.div_ceil(chunk_bytes);
    if chunks > CHUNKS_MAX {
        return Err(format!(
            "copies: {chunks} chunks are too many to place; make them larger"
        ));
    }
    let mut used = vec![0u64; leg_bytes.len()];
    let mut places = Vec::new();
    for chunk in 0..chunks {
        let free = |leg: usize| leg_bytes[leg].saturating_sub(used[leg]);
        let mut legs: Vec<usize> = (0..leg_bytes.len()).collect();
        legs.sort_by_key(|&leg| (std::cmp::Reverse(free(leg)), leg));
        legs.truncate(copies);
        if legs.iter().any(|&leg| free(leg) < chunk_bytes) {
            return Err(format!(
                "size: {copies} copies fit {} times {}, which makes {} and not {}",
                chunk,
                exact_size(chunk_bytes),
                exact_size(chunk * chunk_bytes),
                exact_size(size_bytes)
            ));
        }
        for leg in legs {
            let address = used[leg];
            used[leg] += chunk_bytes;
            let leg = LegId::new(leg);
            places.push(Place { leg, address });
        }
    }
    Map::table(leg_bytes.len(), chunk_bytes, copies, places)
        .map_err(|error| format!("copies: {error}"))
}

#[cfg(test)]
mod tests {
    use heliostat_types::{LegId, LegSet};

    use super::place;

    const GIB: u64 = 1 << 30;

    fn holders(leg_gib: &[u64], size_gib: u64, copies: usize) -> Vec<Vec<usize>> {
        let leg_bytes: Vec<u64> = leg_gib.iter().map(|gib| gib * GIB).collect();
        let map = place(&leg_bytes, size_gib * GIB, copies, GIB).unwrap();
        let chunks = (0..size_gib).map(|chunk| map.places(chunk * GIB));
        let legs = chunks.map(|places| places.iter().map(|place| place.leg.index()).collect());
        legs.collect()
    }

    #[test]
    fn more_chunks_than_any_array_has_are_refused() {
        let told = place(&[1 << 50; 2], 1 << 50, 2, 4096).unwrap_err();
        assert_eq!(
            told,
            "copies: 274877906944 chunks are too many to place; make them larger"
        );
    }

    #[test]
    fn the_legs_with_most_free_space_are_taken_and_of_equal_ones_the_first() {
        assert_eq!(
            holders(&[3, 3, 3], 4, 2),
            [[0, 1], [2, 0], [1, 2], [0, 1]],
            "each choice by what the ones before have left"
        );
        assert_eq!(
            holders(&[4, 2, 2], 4, 2),
            [[0, 1], [0, 2], [0, 1], [0, 2]],
            "the largest one is in all of them"
        );
    }

    #[test]
    fn an_array_may_be_larger_than_a_leg() {
        let map = place(&[4 * GIB; 4], 8 * GIB, 2, GIB).unwrap();
        assert_eq!(map.size_bytes(), 8 * GIB);
        for leg in 0..4 {
            assert_eq!(map.leg_bytes(LegId::new(leg)), 4 * GIB);
        }
        assert_eq!(
            map.holders(7 * GIB).intersection(LegSet::first(4)).count(),
            2
        );
    }

    #[test]
    fn what_does_not_fit_is_said() {
        assert_eq!(
            place(&[4 * GIB, GIB], 3 * GIB, 2, GIB).unwrap_err(),
            "size: 2 copies fit 1 times 1GiB, which makes 1GiB and not 3GiB"
        );
        assert_eq!(
            place(&[GIB], GIB, 2, GIB).unwrap_err(),
            "copies: 2 copies of each chunk on 1 legs; each wants a leg of its own"
        );
        assert!(
            place(&[GIB / 2; 2], GIB / 2, 2, GIB).is_ok(),
            "one smaller chunk"
        );
    }
}
