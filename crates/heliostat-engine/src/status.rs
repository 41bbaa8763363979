//! Block status: which ranges are holes or read as zeros.
//!
//! All holders in sync are asked, chunk by chunk, and a range is a hole, or zeros, only where all
//! say so. What a lock was held on at any time while they were asked, where legs may differ, or of
//! which nobody has said anything, is data.

use heliostat_types::{ErrorKind, Extent, OpKind, StatusRun};

use crate::api::Answer;
use crate::asked::AskedId;
use crate::change::Asker;
use crate::engine::{Engine, Turn};
use crate::legs::{NewOp, OpOwner};

/// So many changes beside one query are kept apart; beyond that all of it is data.
const TAINTS_MAX: usize = 64;
/// So many chunks are asked for at once; the answer ends where they do, and the client asks again.
const PARTS_MAX: usize = 256;

/// A query in progress.
#[derive(Debug)]
pub(crate) struct Status {
    id: AskedId,
    extent: Extent,
    aligned: Extent,
    outstanding: u32,
    /// By part, what all legs that have answered agree on; together they cover `aligned`.
    runs: Vec<Vec<StatusRun>>,
    /// By part, whether any leg has. All that were asked may be out by the end, where another one
    /// was rebuilt meanwhile.
    are_answered: Vec<bool>,
    /// What changed meanwhile.
    tainted: Vec<Extent>,
}

impl Engine {
    /// Asks all legs.
    pub(crate) fn begin_status(&mut self, turn: &Turn<'_>, asker: Asker, extent: Extent) {
        let parts = self
            .config
            .map
            .parts(extent.aligned_out(self.block_bytes()));
        let parts: Vec<Extent> = parts.take(PARTS_MAX).collect();
        let aligned = Extent::from_range(parts[0].offset(), parts[parts.len() - 1].end());
        let tainted = self.locks.held(aligned).map(|(_, extent)| extent).collect();
        let index = self.statuses.insert(Status {
            id: asker.id,
            extent: extent.intersection(aligned).expect("it is asked for"),
            aligned,
            outstanding: 0,
            runs: parts.iter().copied().map(everything).collect(),
            are_answered: vec![false; parts.len()],
            tainted,
        });
        for (part, extent) in (0..).zip(parts) {
            let holders = self.config.map.holders(extent.offset());
            for leg in self.legs.in_sync.intersection(holders) {
                self.statuses[index].outstanding += 1;
                let new = NewOp {
                    owner: OpOwner::Status {
                        status: index,
                        part,
                    },
                    flow: asker.flow,
                    kind: OpKind::BlockStatus,
                    extent: self.config.map.on_leg(leg, extent),
                    memory: None,
                    fua: false,
                    may_trim: false,
                };
                self.assign(turn, leg, new);
            }
        }
    }

    /// Bytes begin to change.
    pub(crate) fn bytes_change(&mut self, extent: Extent) {
        self.forget_prefetched(extent);
        if self.statuses.is_empty() {
            return;
        }
        for index in self
            .statuses
            .iter()
            .map(|(index, _)| index)
            .collect::<Vec<_>>()
        {
            let status = &mut self.statuses[index];
            if status.aligned.overlaps(extent) {
                status.tainted.push(extent);
                if status.tainted.len() > TAINTS_MAX {
                    status.tainted = vec![status.aligned];
                }
            }
        }
    }

    /// A leg has answered.
    pub(crate) fn status_answered(
        &mut self,
        index: u32,
        part: u32,
        result: Result<Vec<StatusRun>, ErrorKind>,
    ) {
        let status = &mut self.statuses[index];
        status.are_answered[part as usize] = true;
        let runs = &mut status.runs[part as usize];
        *runs = agree(runs, &result.unwrap_or_default());
        self.status_op_ended(index);
    }

    /// A leg has answered, or is out.
    pub(crate) fn status_op_ended(&mut self, index: u32) {
        let status = &mut self.statuses[index];
        status.outstanding -= 1;
        if status.outstanding > 0 {
            return;
        }
        let mut status = self.statuses.remove(index);
        let unanswered = status.runs.iter_mut().zip(&status.are_answered);
        for (runs, _) in unanswered.filter(|(_, is_answered)| !**is_answered) {
            *runs = agree(runs, &[]);
        }
        // Runs that go on beyond a border become one.
        let mut runs = agree(&status.runs.concat(), &everything(status.aligned));
        let divergent = self.divergence.ranges().map(|(extent, _)| extent);
        let needed = self.needed.inside(status.aligned);
        // What a leg says of blocks that it does not hold is worth nothing.
        let bad = self.bad_extents(status.aligned);
        let tainted = status.tainted.into_iter().chain(divergent);
        let tainted = tainted.chain(needed).chain(bad);
        for tainted in tainted {
            let Some(inside) = tainted.intersection(status.aligned) else {
                continue;
            };
            let run = |from, to, empty| StatusRun {
                len_bytes: to - from,
                hole: empty,
                zero: empty,
            };
            let mask = [
                run(status.aligned.offset(), inside.offset(), true),
                run(inside.offset(), inside.end(), false),
                run(inside.end(), status.aligned.end(), true),
            ];
            runs = agree(&runs, &mask);
        }
        let from = status.extent.offset() - status.aligned.offset();
        let runs = clip(&runs, from, status.extent.len());
        self.complete(status.id, Ok(Answer::Status(runs)));
    }
}

/// What is true until somebody says otherwise.
fn everything(extent: Extent) -> Vec<StatusRun> {
    vec![StatusRun {
        len_bytes: extent.len(),
        hole: true,
        zero: true,
    }]
}

/// What two lists of runs agree on, as long as the first; what the second does not cover is data.
fn agree(first: &[StatusRun], second: &[StatusRun]) -> Vec<StatusRun> {
    let mut agreed: Vec<StatusRun> = Vec::with_capacity(first.len() + second.len());
    let mut others = second.iter().filter(|run| run.len_bytes > 0).copied();
    let mut other = others.next();
    for run in first {
        let mut left = run.len_bytes;
        while left > 0 {
            let (len_bytes, hole, zero) = match &mut other {
                None => (left, false, false),
                Some(other) => {
                    let len_bytes = left.min(other.len_bytes);
                    other.len_bytes -= len_bytes;
                    (len_bytes, run.hole && other.hole, run.zero && other.zero)
                }
            };
            if other.is_some_and(|other| other.len_bytes == 0) {
                other = others.next();
            }
            left -= len_bytes;
            match agreed.last_mut() {
                Some(last) if (last.hole, last.zero) == (hole, zero) => {
                    last.len_bytes += len_bytes;
                }
                _ => agreed.push(StatusRun {
                    len_bytes,
                    hole,
                    zero,
                }),
            }
        }
    }
    agreed
}

/// The part from `from` on that is `len_bytes` long.
fn clip(runs: &[StatusRun], mut from: u64, mut len_bytes: u64) -> Vec<StatusRun> {
    let mut clipped = Vec::with_capacity(runs.len());
    for run in runs {
        let skipped = from.min(run.len_bytes);
        from -= skipped;
        let taken = (run.len_bytes - skipped).min(len_bytes);
        len_bytes -= taken;
        if taken > 0 {
            clipped.push(StatusRun {
                len_bytes: taken,
                ..*run
            });
        }
    }
    clipped
}

#[cfg(test)]
mod tests {
    use heliostat_types::StatusRun;

    use super::{agree, clip};

    fn runs(list: &[(u64, bool, bool)]) -> Vec<StatusRun> {
        let run = |&(len_bytes, hole, zero): &(u64, bool, bool)| StatusRun {
            len_bytes,
            hole,
            zero,
        };
        list.iter().map(run).collect()
    }

    #[test]
    fn only_what_all_say_is_said() {
        let first = runs(&[(8, true, true), (8, false, true)]);
        let second = runs(&[(4, true, true), (4, false, false), (4, true, true)]);
        let agreed = [
            (4, true, true),
            (4, false, false),
            (4, false, true),
            (4, false, false),
        ];
        assert_eq!(agree(&first, &second), runs(&agreed));
        assert_eq!(agree(&first, &[]), runs(&[(16, false, false)]));
        assert_eq!(
            clip(&runs(&agreed), 6, 4),
            runs(&[(2, false, false), (2, false, true)])
        );
    }
}
