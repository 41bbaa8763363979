//! Which operations the rules of a faulty device fail, and what they have used up so far.

use heliostat_types::{ErrorKind, Extent, Instant, OpKind, Prng, RandomStream};

use super::ranges::Ranges;
use super::{ErrorRule, FailedKind, FaultEffect, FaultRule};

/// What the error rules remember, by index of the rule; others remember nothing.
#[derive(Clone, Debug)]
pub(super) struct Errors {
    rules: Vec<Used>,
    /// Bytes that cannot be read until they are written.
    bad: Ranges,
}

#[derive(Clone, Debug)]
struct Used {
    count_left: u64,
    luck: RandomStream,
}

impl Errors {
    pub(super) fn new(rules: &[FaultRule], luck: u64) -> Self {
        let used = |(index, rule): (u64, &FaultRule)| Used {
            count_left: match rule.effect {
                FaultEffect::Error(error) => error.count,
                FaultEffect::SlowPermille(_)
                | FaultEffect::Pause(_)
                | FaultEffect::Stuck
                | FaultEffect::Burst
                | FaultEffect::Dead => 0,
            },
            luck: RandomStream::new(luck, "error", index),
        };
        Self {
            rules: (0..).zip(rules).map(used).collect(),
            bad: Ranges::default(),
        }
    }

    /// It is `at`: ranges that go bad as a whole now do.
    pub(super) fn begin(&mut self, rules: &[FaultRule], at: Instant) {
        for rule in rules.iter().filter(|rule| rule.at == at) {
            if let FaultEffect::Error(error) = rule.effect
                && is_whole_range(&error)
            {
                self.bad.insert(error.range);
            }
        }
    }

    /// How an operation ends that the device has done well.
    pub(super) fn judge(
        &mut self,
        rules: &[FaultRule],
        at: Instant,
        kind: OpKind,
        extent: Extent,
    ) -> Result<(), ErrorKind> {
        let mut fails = kind == OpKind::Read && self.bad.overlaps(extent);
        for (rule, used) in rules.iter().zip(&mut self.rules) {
            let FaultEffect::Error(error) = rule.effect else {
                continue;
            };
            if is_whole_range(&error) || !rule.holds(at) || !used.hits(&error, kind, extent) {
                continue;
            }
            fails = true;
            if error.sticky {
                self.bad.insert(clip(extent, error.range));
            }
        }
        if fails {
            return Err(ErrorKind::Io);
        }
        if matches!(kind, OpKind::Write | OpKind::WriteZeroes | OpKind::Trim) {
            self.bad.remove(extent);
        }
        Ok(())
    }
}

/// Whether a rule makes its whole range bad at once.
const fn is_whole_range(error: &ErrorRule) -> bool {
    error.sticky
        && error.count == u64::MAX
        && error.rate_per_billion == ErrorRule::ALWAYS_PER_BILLION
}

fn clip(extent: Extent, range: Extent) -> Extent {
    extent.intersection(range).unwrap_or_default()
}

impl Used {
    /// Whether a rule that holds fails this operation; counts it if so.
    fn hits(&mut self, error: &ErrorRule, kind: OpKind, extent: Extent) -> bool {
        // A flush has no bytes: only a rule for all of the device fails it.
        let is_inside = if extent.is_empty() {
            error.range == ErrorRule::EVERYWHERE
        } else {
            error.range.overlaps(extent)
        };
        if !is_inside || !error.kind.matches(kind) || self.count_left == 0 {
            return false;
        }
        let drawn = error.rate_per_billion == ErrorRule::ALWAYS_PER_BILLION
            || self.luck.below(ErrorRule::ALWAYS_PER_BILLION) < error.rate_per_billion;
        if drawn && self.count_left < u64::MAX {
            self.count_left -= 1;
        }
        drawn
    }
}

impl FailedKind {
    const fn matches(self, kind: OpKind) -> bool {
        match kind {
            OpKind::Read => matches!(self, Self::Read),
            OpKind::Write | OpKind::Trim | OpKind::WriteZeroes | OpKind::Flush => {
                matches!(self, Self::Write)
            }
            OpKind::BlockStatus => false,
        }
    }
}
