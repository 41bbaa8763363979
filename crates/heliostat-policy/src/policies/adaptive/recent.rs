//! Which leg has read a block of late, and may have it in its cache.

use heliostat_types::{Extent, LegId};

use crate::constants::constants;

constants! { "recent":
    /// What a drive keeps of what it read, in bytes: flash reads pages of 16 KiB.
    BLOCK_BYTES: u64 = bytes(16 << 10);
    /// Where so much of what is read was read just before, that is what the legs do: all of it is
    /// learned from.
    REPEATS: f32 = number(0.875);
    /// Of so many reads.
    REPEATS_READS: f32 = number(64.0);
}

/// The binary logarithm of how many blocks are remembered: some for each die of each leg.
const BLOCKS_LOG: u32 = 10;

/// A number that no block has.
const NONE: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Recent {
    /// Numbers of blocks and who read them; of those that meet in a place the last one.
    blocks: Vec<(u64, LegId)>,
    /// Which share of the reads of late found their block.
    repeats: f32,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self {
            blocks: vec![(NONE, LegId::new(0)); 1 << BLOCKS_LOG],
            repeats: 0.0,
        }
    }

    /// The leg that has read this block last, if that was shortly before, and tells anything.
    pub(super) fn leg_of(&self, extent: Extent) -> Option<LegId> {
        self.leg(extent).filter(|_| self.repeats < REPEATS.get())
    }

    /// The same, whatever else is read.
    fn leg(&self, extent: Extent) -> Option<LegId> {
        let number = extent.offset() / BLOCK_BYTES.get();
        let (known, leg) = self.blocks[place_of(number)];
        (known == number).then_some(leg)
    }

    /// It is read by `leg` now. Whether how long that takes tells nothing of other reads: where it
    /// was read there just before.
    pub(super) fn read(&mut self, extent: Extent, leg: LegId) -> bool {
        let number = extent.offset() / BLOCK_BYTES.get();
        let is_repeat = self.leg(extent) == Some(leg);
        let share = f32::from(u8::from(is_repeat));
        self.repeats += (share - self.repeats) / REPEATS_READS.get();
        self.blocks[place_of(number)] = (number, leg);
        is_repeat && self.repeats < REPEATS.get()
    }
}

fn place_of(number: u64) -> usize {
    // The golden ratio spreads neighbours (Knuth, 6.4).
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BLOCKS_LOG)) as usize
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, LegId};

    use super::{BLOCKS_LOG, Recent};

    fn block(number: u64) -> Extent {
        Extent::new(number << 14, 4096)
    }

    #[test]
    fn who_read_a_block_is_known_until_others_take_its_place() {
        let (one, other) = (LegId::new(0), LegId::new(1));
        let mut recent = Recent::new();
        assert_eq!(recent.leg(block(7)), None);
        assert!(!recent.read(block(7), one));
        assert_eq!(recent.leg(block(7)), Some(one));
        assert!(!recent.read(block(7), other), "the other one had it");
        assert!(recent.read(block(7), other));
        for number in 8..8 + (64 << BLOCKS_LOG) {
            recent.read(block(number), one);
        }
        assert_eq!(recent.leg(block(7)), None);
    }

    #[test]
    fn where_all_is_read_again_that_is_what_is_learned_from() {
        let leg = LegId::new(0);
        let mut recent = Recent::new();
        let again = (0..1_000).filter(|_| recent.read(block(7), leg)).count();
        assert!((50..200).contains(&again), "{again}");
    }
}
