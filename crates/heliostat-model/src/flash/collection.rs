//! Where programmed units come from on a flash drive: erased ones, which garbage collection must
//! make where too few are left, and cells used with one bit as a fast buffer.
//!
//! No page is followed. The drive knows how many units are erased, and what share of a block is
//! still valid when its turn to be erased comes: none where writes were sequential, and where they
//! were scattered the share v that solves u = (v - 1) / ln v, u being the share of the flash that
//! holds data. That is collection in the order of writing under uniform writes (Menon 1995; also
//! Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012).

use heliostat_types::{Duration, Extent};
use stdx::math::ln;

use super::FlashParams;

/// What a die is given to do besides writes of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chore {
    /// To move a valid unit out of a block that will be erased.
    Copy,
    /// To erase a block.
    Erase,
}

/// How many units are erased, and what is to be done about it.
#[derive(Clone, Debug)]
pub(super) struct Collection {
    is_on: bool,
    /// Units that are erased when the drive had time for it.
    rested_units: f64,
    /// Below this it collects.
    threshold_units: f64,
    erased_units: f64,
    unit_bytes: f64,
    block_units: f64,
    /// The share of a block that is valid when it is collected, had all writes been scattered.
    valid_if_scattered: f64,
    /// The share of writes that are, over the last some hundred.
    scattered_share: f64,
    owed_copies: f64,
    owed_erases: f64,
    /// Where streams of writes have come to.
    stream_ends: Vec<u64>,
    /// Room in the fast cells.
    fast_bytes: u64,
    fast_bytes_max: u64,
}

/// A drive collects when less than this share of its spare flash is erased. An assumption.
const THRESHOLD_SHARE: f64 = 0.25;

/// Streams that are told apart. An assumption.
const STREAM_COUNT_MAX: usize = 8;

/// How much one write counts in the share of scattered ones.
const SHARE_WEIGHT: f64 = 1.0 / 256.0;

impl Collection {
    pub(super) fn new(params: &FlashParams) -> Self {
        let unit_bytes = f64::from(params.unit_bytes);
        let size_units = as_f64(params.size_bytes) / unit_bytes;
        let spare_units = size_units * f64::from(params.spare_permille) / 1000.0;
        let data_units = size_units * f64::from(params.filled_percent) / 100.0;
        let rested_units = size_units + spare_units - data_units;
        Self {
            is_on: params.garbage_collection,
            rested_units,
            threshold_units: spare_units * THRESHOLD_SHARE,
            erased_units: rested_units,
            unit_bytes,
            block_units: f64::from(params.block_units),
            valid_if_scattered: valid_share(data_units / (size_units + spare_units)),
            scattered_share: 0.0,
            owed_copies: 0.0,
            owed_erases: 0.0,
            stream_ends: Vec::new(),
            fast_bytes: params.slc_cache_bytes,
            fast_bytes_max: params.slc_cache_bytes,
        }
    }

    /// A write has come: does it go on where another ended?
    pub(super) fn note_write(&mut self, written: Extent) {
        let mut ends = self.stream_ends.iter();
        let scattered = match ends.position(|end| *end == written.offset()) {
            Some(index) => {
                self.stream_ends.remove(index);
                0.0
            }
            None => {
                if self.stream_ends.len() == STREAM_COUNT_MAX {
                    self.stream_ends.remove(0);
                }
                1.0
            }
        };
        self.stream_ends.push(written.end());
        self.scattered_share += (scattered - self.scattered_share) * SHARE_WEIGHT;
    }

    /// A unit of the host's is programmed; whether into fast cells. What has to be collected for
    /// the next one is owed from now on.
    pub(super) fn take_unit(&mut self, len_bytes: u64) -> bool {
        self.erased_units = (self.erased_units - 1.0).max(0.0);
        if self.is_on && self.erased_units < self.threshold_units {
            let valid = self.valid_share();
            self.owed_copies += valid / (1.0 - valid);
            self.owed_erases += 1.0 / ((1.0 - valid) * self.block_units);
        }
        let is_fast = self.fast_bytes >= len_bytes && self.fast_bytes_max > 0;
        if is_fast {
            self.fast_bytes -= len_bytes;
        }
        is_fast
    }

    /// What an idle die must do before it programs another unit.
    pub(super) fn next_chore(&mut self) -> Option<Chore> {
        if self.owed_erases >= 1.0 {
            self.owed_erases -= 1.0;
            let gained = (1.0 - self.valid_share()) * self.block_units;
            self.erased_units = (self.erased_units + gained).min(self.rested_units);
            return Some(Chore::Erase);
        }
        if self.owed_copies >= 1.0 {
            self.owed_copies -= 1.0;
            return Some(Chore::Copy);
        }
        None
    }

    /// Nothing was written for `idle`: the drive has collected and emptied its fast cells
    /// meanwhile, as far as `die_count` dies come that take `copy` to move a unit and `erase` for
    /// a block.
    pub(super) fn rest(&mut self, idle: Duration, die_count: u32, copy: Duration, erase: Duration) {
        let work = idle.as_secs_f64() * f64::from(die_count);
        if self.is_on && self.erased_units < self.rested_units {
            let valid = self.valid_share();
            let moved = valid * self.block_units * copy.as_secs_f64();
            let block = (moved + erase.as_secs_f64()).max(1e-9);
            let gained = work / block * (1.0 - valid) * self.block_units;
            self.erased_units = (self.erased_units + gained).min(self.rested_units);
        }
        let emptied = work / copy.as_secs_f64().max(1e-9) * self.unit_bytes;
        let fast_bytes = self.fast_bytes.saturating_add(as_u64(emptied));
        self.fast_bytes = fast_bytes.min(self.fast_bytes_max);
    }

    fn valid_share(&self) -> f64 {
        self.valid_if_scattered * self.scattered_share
    }
}

/// The share of a block that is valid when its turn comes, where a share `used` of the flash holds
/// data: v with used = (v - 1) / ln v, found by halving.
fn valid_share(used: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if (middle - 1.0) / ln(middle) < used {
            low = middle;
        } else {
            high = middle;
        }
    }
    // A drive without any spare flash would never get anything done.
    low.min(0.999)
}

#[expect(clippy::cast_precision_loss, reason = "sizes are below 2^53")]
const fn as_f64(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float to integer casts saturate, and that is what is wanted"
)]
const fn as_u64(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::valid_share;

    #[test]
    fn fuller_drives_have_fuller_blocks() {
        // u = (v - 1) / ln v of known v.
        for (used, valid) in [(0.7213, 0.5), (0.9491, 0.9), (0.3909, 0.1)] {
            let told = valid_share(used);
            assert!((told - valid).abs() < 1e-3, "{used}: {told}");
        }
        assert!(valid_share(0.0) < 1e-9);
        assert!(valid_share(1.0) < 1.0);
    }
}
