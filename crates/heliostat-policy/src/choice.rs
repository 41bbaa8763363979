//! What several policies do alike when they choose.

use std::cmp::Ordering;

use heliostat_types::{LEGS_MAX, LegId};

use crate::api::{LegView, Piece, Pieces, ReadPlan};

/// How far apart, in bytes, reads lie that ZFS gives to different legs of equal load: 2 MiB, its
/// `vdev_mirror_shift` of 21, so that neighbouring reads stay on one leg and merge.
pub(crate) const STRIPE_BYTES: u64 = 2 << 20;

/// The leg with the lowest key, the first of several.
pub(crate) fn lowest_by_key<K: Ord>(legs: &[LegView], key: impl FnMut(&&LegView) -> K) -> &LegView {
    legs.iter().min_by_key(key).expect("a read has candidates")
}

/// The leg whose turn it is at `number`, counted round and round.
pub(crate) fn at_modulo(legs: &[LegView], number: u64) -> &LegView {
    &legs[modulo(number, legs.len())]
}

/// `number` modulo `count`.
pub(crate) fn modulo(number: u64, count: usize) -> usize {
    let count = u64::try_from(count).expect("a count of legs");
    usize::try_from(number % count).expect("below a count of legs")
}

/// Of the legs with the lowest load, the one whose turn it is at `number`, counted round and round.
pub(crate) fn lowest_in_turn<K: Ord>(
    legs: &[LegView],
    load: impl Fn(&LegView) -> K,
    number: u64,
) -> &LegView {
    let mut lowest: Option<K> = None;
    // The places of the legs that have it.
    let mut places = [0; LEGS_MAX];
    let mut count = 0;
    for (place, view) in legs.iter().enumerate() {
        let load = load(view);
        match lowest.as_ref().map(|lowest| load.cmp(lowest)) {
            Some(Ordering::Greater) => continue,
            Some(Ordering::Equal) => {}
            Some(Ordering::Less) | None => {
                lowest = Some(load);
                count = 0;
            }
        }
        places[count] = place;
        count += 1;
    }
    &legs[places[modulo(number, count)]]
}

/// What pieces are multiples of: the largest block that disks have, so that no piece makes two
/// legs read the same block.
const PIECE_ALIGN_BYTES: u64 = 4096;

/// How long the pieces are of a read of `len_bytes` that is cut into so many, but for the last
/// ones, which may have less, or nothing.
pub(crate) fn piece_bytes(len_bytes: u64, count: usize) -> u64 {
    let count = u64::try_from(count).expect("a count of legs");
    // The length may be anything up to 2^64, where rounding up would overflow.
    len_bytes
        .div_ceil(count)
        .checked_next_multiple_of(PIECE_ALIGN_BYTES)
        .unwrap_or(len_bytes)
}

/// A read of `len_bytes` cut among these legs, of which there is one at least, in their order.
pub(crate) fn in_pieces(len_bytes: u64, legs: impl Iterator<Item = LegId> + Clone) -> ReadPlan {
    let slice = piece_bytes(len_bytes, legs.clone().count());
    let mut pieces = Pieces::new();
    let mut left = len_bytes;
    for leg in legs {
        let len_bytes = left.min(slice);
        if len_bytes > 0 {
            pieces.push(Piece { leg, len_bytes });
            left -= len_bytes;
        }
    }
    match pieces.as_slice() {
        [piece] => ReadPlan::Leg(piece.leg),
        _ => ReadPlan::Split(pieces),
    }
}
