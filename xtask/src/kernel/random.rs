//! Arrays and lives drawn by chance: of any shape, made by mdadm or by heliostat, handed to and fro
//! between the kernel and heliostat, stopped, killed and crashed, with legs that fail, are left out
//! and come back.
//!
//! Everything follows from a seed, so that a life can be lived again. What the array has to hold is
//! known at each moment: which tags each block of 4 KiB may have. After each stage both sides must
//! agree on what each leg is, mdadm and `heliostat examine` on every field, and all legs in sync
//! must hold what they may, and the same where the array is not to be resynced.

mod dice;
mod guest;
mod host;
mod life;
mod shape;
mod stages;

use super::case::Case;
pub(super) use stages::TAGS;

/// How many lives are lived where nobody asks for more.
pub(super) const COUNT: u64 = 8;

/// A life: one case.
pub(super) fn case(seed: u64) -> Case {
    life::case(seed)
}
