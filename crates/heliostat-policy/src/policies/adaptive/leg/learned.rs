//! What is kept of a leg over a restart, as numbers: whether it has an arm, what reads took by
//! load, size and kind, the way of its arm, and how late reads are. What it is just now (slow,
//! silent, written) is not kept: it may be otherwise by then.

use super::super::arm::Arm;
use super::super::curve::Curve;
use super::super::late::Late;
use super::Leg;

/// The first of the numbers. Whoever changes what follows, or what it means, counts on.
const LAYOUT: f32 = 4.0;

/// No number is larger: sums of times of a thousand reads, in ns, are far below.
const MOST: f32 = 1e15;

/// Numbers one after the other, each looked at before it is believed.
pub(in super::super) struct Numbers<'a>(pub(in super::super) &'a [f32]);

impl Numbers<'_> {
    /// The next one; `None` where there is none, or it is nothing that was ever measured.
    pub(in super::super) fn next(&mut self) -> Option<f32> {
        let (first, others) = self.0.split_first()?;
        self.0 = others;
        (*first >= 0.0 && *first <= MOST).then_some(*first)
    }

    /// The next ones.
    pub(in super::super) fn array<const N: usize>(&mut self) -> Option<[f32; N]> {
        let mut array = [0.0; N];
        for place in &mut array {
            *place = self.next()?;
        }
        Some(array)
    }
}

impl Leg {
    /// What is kept; nothing where the leg was never read.
    pub(in super::super) fn learned(&self) -> Vec<f32> {
        if !self.curves.iter().any(Curve::is_known) {
            return Vec::new();
        }
        let mut numbers = vec![LAYOUT];
        numbers.extend([self.says_turning, self.turns].map(|is| f32::from(u8::from(is))));
        for curve in &self.curves {
            curve.keep(&mut numbers);
        }
        self.arm.keep(&mut numbers);
        self.late.keep(&mut numbers);
        numbers
    }

    /// Goes by what was kept, as long as answers do not say otherwise. Whether it makes sense: else
    /// the leg is what it was.
    pub(in super::super) fn recall(&mut self, kept: &[f32]) -> bool {
        let Some(leg) = Self::recalled(kept) else {
            return false;
        };
        *self = leg;
        true
    }

    fn recalled(kept: &[f32]) -> Option<Self> {
        let mut numbers = Numbers(kept);
        if numbers.next()? != LAYOUT {
            return None;
        }
        let mut leg = Self::default();
        // Loads are measured by what it is taken for.
        [leg.says_turning, leg.turns] = numbers.array()?.map(|is: f32| is > 0.0);
        leg.told_turning = Some(leg.turns);
        for curve in &mut leg.curves {
            *curve = Curve::recalled(&mut numbers)?;
        }
        leg.arm = Arm::recalled(&mut numbers)?;
        leg.late = Late::recalled(&mut numbers)?;
        leg.find_like();
        numbers.0.is_empty().then_some(leg)
    }
}
