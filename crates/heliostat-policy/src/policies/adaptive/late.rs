//! How much longer a read takes that is late already: the mean residual life, from how many times
//! as long as predicted the reads of this leg took. `hedge` goes by it.
//!
//! Of a leg that is only slow what remains is little however late a read is; of one that pauses now
//! and then it is much as soon as a read is late at all. So one rule holds for both.

use super::leg::Numbers;
use crate::constants::constants;

/// Two to the octave, from as long as predicted up to 2^11 times.
const BINS: usize = 22;
constants! { "late":
    /// Counts are halved after so many reads: pauses come in one read of a thousand or less, and
    /// some of them have to be remembered.
    READS: u32 = count(1 << 15);
    /// What was never seen weighs as much as one read: one that is late takes as long once more.
    PRIOR: f32 = number(1.0);

    /// What was kept over a restart is worth so many reads: pauses that come once in a thousand are
    /// still known.
    RECALLED: f32 = number(8192.0);
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Late {
    counts: [u32; BINS],
    reads: u32,
}

/// Bins are [1, 1.5), [1.5, 2), [2, 3), [3, 4), [4, 6) ...: the exponent of a float and the first
/// bit behind its point.
fn bin_of(ratio: f32) -> usize {
    const ONE: usize = 127 << 1;
    let bits = (ratio.max(1.0).to_bits() >> 22) as usize;
    (bits - ONE).min(BINS - 1)
}

/// Where a bin begins; that behind the last is where it ends.
fn begin_of(bin: usize) -> f32 {
    let octave = (1_u32 << (bin / 2)) as f32;
    if bin.is_multiple_of(2) {
        octave
    } else {
        octave * 1.5
    }
}

impl Late {
    /// What is kept of it over a restart.
    pub(super) fn keep(&self, numbers: &mut Vec<f32>) {
        numbers.extend(self.counts.map(|count| count as f32));
    }

    /// What was kept; `None` where the numbers are none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and thousands at most"
    )]
    pub(super) fn recalled(numbers: &mut Numbers<'_>) -> Option<Self> {
        let counts = numbers.array::<BINS>()?;
        let keep = (RECALLED.get() / counts.iter().sum::<f32>()).min(1.0);
        Some(Self {
            counts: counts.map(|count| (count * keep) as u32),
            reads: 0,
        })
    }

    /// A read took so many times as long as predicted.
    pub(super) fn learn(&mut self, ratio: f32) {
        let count = &mut self.counts[bin_of(ratio)];
        *count = count.saturating_add(1);
        self.reads += 1;
        if self.reads == READS.get() {
            self.reads = 0;
            for count in &mut self.counts {
                *count /= 2;
            }
        }
    }

    /// How many times the prediction a read still takes that has taken `ratio` times it.
    pub(super) fn remaining(&self, ratio: f32) -> f32 {
        let own = bin_of(ratio);
        let mut count = PRIOR.get();
        let mut sum = PRIOR.get() * ratio;
        for bin in own..BINS {
            let end = begin_of(bin + 1);
            let begin = begin_of(bin);
            // Of the bin in which it is, those that took longer.
            let from = begin.max(ratio);
            let share = ((end - from) / (end - begin)).max(0.0);
            let reads = self.counts[bin] as f32 * share;
            count += reads;
            sum += reads * ((from + end) * 0.5 - ratio).max(0.0);
        }
        sum / count
    }
}
