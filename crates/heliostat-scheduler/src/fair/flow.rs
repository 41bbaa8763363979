//! What one flow has in front of one leg, and how much of a round it gets.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use heliostat_types::Instant;

use super::round::Round;
use super::waiting::Waiting;
use crate::job::{FlowLimits, Job};

/// A flow's part of a round may be so many times its share, so that what it has outstanding is a
/// whole number of rounds: where nobody has said what shares are to be, and where somebody has.
const NEAR: [RangeInclusive<f64>; 2] = [0.7..=1.6, 0.9..=1.1];
/// The same of who writes, in the first case, where it is in two rounds already. Where one and a
/// half are outstanding that varies by more than from 1.4 to 1.6, so that the number would be now
/// one and now two, and a write for two rounds would miss one. Reads have no copies that are to be
/// in the same round of all legs.
const NEAR_TWO: f64 = 0.6;
/// A flow that has had about the same outstanding for so many rounds may have far more for one.
const STEADY: u32 = 4;
/// How much a flow may be ahead of its part of a round, in parts, with what is for that round: of
/// what it asked for in the round before, some legs have more and some less.
const DEBT_MAX: f64 = 1.0;
/// Who comes while a round is done has one part in so many of his part at once, one job at least,
/// and the rest in the next one. Several who come with much would make it long, and those wait who
/// lie where the sweep has passed.
const AT_ONCE_PART: f64 = 4.0;

/// Who has so many reads that go on where the last one ended reads in sequence,
const STREAM_READS: u32 = 8;
/// and so many are remembered.
const RUN_MAX: u32 = 16;

/// A job that is for a later round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later {
    /// In order of arrival.
    pub(super) number: u64,
    pub(super) job: Job,
    /// The round in which it came, and the one that it is for; the same where it is for none.
    pub(super) came: u64,
    pub(super) due: u64,
}

impl Later {
    /// Whether it is for a round up to that one.
    pub(super) const fn is_for(&self, round: u64) -> bool {
        self.came < self.due && self.due <= round
    }
}

/// One flow, in ns of device time.
#[derive(Debug)]
pub(super) struct Flow {
    weight: u32,
    /// Where on the device its last job that fetched ended, and its last one that stored.
    tails: [u64; 2],
    /// How many of its reads have gone on where the last one ended; half of that where one has not,
    /// as some of what it reads is read ahead for it.
    run: u32,
    /// Whether the last thing that it asked for is a write.
    writes: bool,
    /// Where its jobs are that wait.
    pub(super) waiting: Waiting,
    /// What is for later rounds, by age.
    pub(super) later: VecDeque<Later>,
    /// What waits here or is in the device.
    pub(super) here_ns: u64,
    /// What of that has its place in a round, or is in the device.
    pub(super) placed_ns: u64,
    /// Whether a round may wait for what of that comes back; not where that was in vain.
    pub(super) is_awaited: bool,
    /// When its last read or write went,
    pub(super) went_at: Option<Instant>,
    /// and its last read of a round.
    pub(super) swept_at: Option<Instant>,
    /// What it may still have of this round.
    credit_ns: i64,
    /// How far that may go below nothing.
    debt_max_ns: i64,
    /// In how many rounds what it has outstanding is parted; 0: it has not been.
    rounds: f64,
    /// For how many rounds that has been about right.
    steady: u32,
    /// The round that gave it that.
    round: u64,
    /// What it is to have in the next round besides, as it came late for this one.
    late_ns: f64,
    /// When its next sparse job may begin, on the scale of what all have had.
    next_at: u64,
}

impl Flow {
    pub(super) fn new(weight: u32) -> Self {
        let mut flow = Self {
            weight: 0,
            tails: [u64::MAX; 2],
            run: 0,
            writes: false,
            waiting: Waiting::default(),
            later: VecDeque::new(),
            here_ns: 0,
            placed_ns: 0,
            is_awaited: true,
            went_at: None,
            swept_at: None,
            credit_ns: 0,
            debt_max_ns: 0,
            rounds: 0.0,
            steady: 0,
            round: 0,
            late_ns: 0.0,
            next_at: 0,
        };
        flow.set_weight(weight);
        flow
    }

    pub(super) const fn set_weight(&mut self, weight: u32) {
        self.weight = match weight {
            0 => 1,
            FlowLimits::WEIGHT_MAX.. => FlowLimits::WEIGHT_MAX,
            _ => weight,
        };
    }

    /// What it weighs beside others: nothing where it has nothing here.
    pub(super) fn active_weight(&self) -> u64 {
        if self.here_ns > 0 {
            u64::from(self.weight)
        } else {
            0
        }
    }

    /// Whether it is as if it had never been there.
    pub(super) const fn is_forgotten(&self, at: u64) -> bool {
        self.here_ns == 0 && self.credit_ns >= 0 && self.next_at <= at
    }

    /// So much device time, as what a flow of the usual weight would have meanwhile.
    pub(super) fn scaled(&self, ns: u64) -> u64 {
        let scaled = u128::from(ns) * u128::from(FlowLimits::WEIGHT_DEFAULT);
        u64::try_from(scaled / u128::from(self.weight)).unwrap_or(u64::MAX)
    }

    /// What has no place yet.
    pub(super) const fn waiting_ns(&self) -> u64 {
        self.here_ns - self.placed_ns
    }

    /// A job comes: whether it goes on where the last one of its direction ended.
    pub(super) fn goes_on(&mut self, job: &Job, is_read: bool) -> bool {
        let tail = &mut self.tails[usize::from(is_read)];
        let goes_on = std::mem::replace(tail, job.extent.end()) == job.extent.offset();
        self.writes = !is_read;
        if is_read {
            self.run = if goes_on {
                std::cmp::min(self.run + 1, RUN_MAX)
            } else {
                self.run / 2
            };
        }
        goes_on
    }

    /// Whether it reads in sequence.
    pub(super) const fn is_stream(&self) -> bool {
        self.run >= STREAM_READS
    }

    /// A sparse job comes at `at` of the scale: when it may begin.
    pub(super) fn begin_sparse(&mut self, at: u64, ns: u64) -> u64 {
        let begin = self.next_at.max(at);
        self.next_at = begin + self.scaled(ns);
        begin
    }

    /// Whether this round has room for a job.
    pub(super) fn has_credit(&self, ns: u64) -> bool {
        self.credit_ns >= signed(ns / 2)
    }

    /// Whether it has room for one that would be late in the next one.
    pub(super) const fn may_owe(&self) -> bool {
        self.credit_ns > -self.debt_max_ns
    }

    /// A job has its place in this round.
    pub(super) fn pay(&mut self, ns: u64) {
        self.credit_ns -= signed(ns);
    }

    /// What it gets of a round that gives a `quantum` to a flow of the usual weight, where it has
    /// so much outstanding at the leg where that is most.
    ///
    /// What is outstanding is parted so that it takes a whole number of rounds: a job that misses a
    /// round waits for all of the next one. The number stays as long as it is not far off, because
    /// what is outstanding varies, and a job that counted on two rounds should not wait for three.
    /// So it does for one round in which it has far more: by chance most may be at one leg.
    pub(super) fn part_ns(&mut self, quantum: u64, outstanding_ns: u64, has_weights: bool) -> f64 {
        let near = &NEAR[usize::from(has_weights)];
        let share = quantum as f64 * f64::from(self.weight) / f64::from(FlowLimits::WEIGHT_DEFAULT);
        let rounds = outstanding_ns as f64 / share.max(1.0);
        let is_near = |whole: f64| {
            let times = rounds / whole;
            let may_stay = whole == 2.0 && self.writes && !has_weights;
            let stays_two = may_stay && (NEAR_TWO..1.0).contains(&times);
            whole > 0.0 && (near.contains(&times) || stays_two)
        };
        if is_near(self.rounds) {
            self.steady = self.steady.saturating_add(1);
        } else {
            let has_more = self.rounds > 0.0 && rounds / self.rounds > *near.end();
            let is_chance = has_more && self.steady >= STEADY;
            self.steady = 0;
            if !is_chance {
                self.rounds = rounds.round();
                if !is_near(self.rounds) {
                    self.rounds = 0.0;
                    return share;
                }
            }
        }
        (outstanding_ns as f64 / self.rounds).min(share * near.end())
    }

    /// In how many rounds what it has outstanding is parted.
    pub(super) const fn rounds(&self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number that is not negative"
        )]
        let rounds = self.rounds as u64;
        rounds
    }

    /// The round that its next job is for, at the earliest: that many behind the one in which it
    /// came, or fewer where they have become fewer.
    pub(super) fn next_due(&self) -> Option<u64> {
        let later = self.later.front()?;
        Some(later.due.min(later.came + self.rounds()))
    }

    /// A round begins: what is left of the last one is gone, but for what it had too much of that,
    /// or too little for its next job, or all of it where it came late.
    pub(super) fn give(&mut self, round: u64, ns: f64, next_ns: u64) {
        self.round = round;
        if self.late_ns == 0.0 {
            self.credit_ns = self.credit_ns.min(signed(next_ns / 2));
        }
        // It may have been long ago, in longer rounds.
        let ns = ns + std::mem::take(&mut self.late_ns).min(ns);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what is too long for 63 bits is the longest"
        )]
        let ns = ns.ceil() as i64;
        self.credit_ns = self.credit_ns.saturating_add(ns);
        self.debt_max_ns = 0;
    }

    /// It may be ahead of its part of this round.
    pub(super) fn lend(&mut self, part_ns: f64) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what is too long for 63 bits is the longest"
        )]
        let ns = (part_ns * DEBT_MAX) as i64;
        self.debt_max_ns = ns;
    }

    /// Whether a job that comes joins the round that is being done, where the sweep has not passed
    /// it. Who was idle when that began has a part of it as well, once, also if the sweep has
    /// passed; who had none of the one before either has little of it at once. Of a stream that the
    /// disk may stay with, what comes has its place as long as there is some of its part left.
    pub(super) fn joins(&mut self, due: u64, round: &Round, ns: u64, stays: bool) -> bool {
        if stays && self.round == round.number {
            return self.later.is_empty() && self.has_credit(ns);
        }
        if round.is_empty() {
            return false;
        }
        if self.round != round.number {
            let share = u128::from(round.quantum) * u128::from(self.weight);
            let share = (share / u128::from(FlowLimits::WEIGHT_DEFAULT)) as f64;
            let is_new = self.round.saturating_add(1) < round.number;
            let at_once = if is_new {
                (share / AT_ONCE_PART).max(share.min(ns as f64))
            } else {
                share
            };
            self.late_ns = 0.0;
            self.give(round.number, at_once, 0);
            self.late_ns = share - at_once;
        }
        let next = self.later.front();
        let is_next = next.is_none_or(|next| !next.is_for(round.number));
        let has_room = self.has_credit(ns) || self.late_ns == 0.0 && self.may_owe();
        is_next && due <= round.number && has_room
    }

    /// How much more it needs for a job.
    pub(super) fn lacks_ns(&self, ns: u64) -> f64 {
        (signed(ns / 2) - self.credit_ns).max(0) as f64
    }
}

/// A time; what is too long for 63 bits is the longest.
fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, FlowId, Instant, OpKind};

    use super::{Flow, Round};
    use crate::job::{Class, FlowLimits, Job};

    #[test]
    fn who_is_new_to_a_round_has_most_of_his_part_in_the_next_one() {
        let job = Job {
            op: 0,
            flow: FlowId(0),
            kind: OpKind::Write,
            class: Class::Write,
            extent: Extent::new(0, 4096),
            arrived: Instant::ZERO,
        };
        let mut round = Round {
            quantum: 400,
            number: 7,
            ..Round::default()
        };
        round.add(1, job);
        // By how many jobs of 50 have their place at once, and how many with a second round.
        let places = |is_new| {
            let mut flow = Flow::new(FlowLimits::WEIGHT_DEFAULT);
            flow.give(if is_new { 5 } else { 6 }, 0.0, 0);
            let mut at_once = 0;
            while flow.joins(7, &round, 50, false) && flow.has_credit(50) {
                flow.pay(50);
                at_once += 1;
            }
            flow.give(8, 400.0, 0);
            let mut both = at_once;
            while flow.has_credit(50) {
                flow.pay(50);
                both += 1;
            }
            flow.give(9, 0.0, 0);
            assert!(!flow.has_credit(50), "nothing of it is kept for longer");
            (at_once, both)
        };
        assert_eq!(places(true), (2, 16));
        assert_eq!(places(false), (8, 16));
    }

    #[test]
    fn what_is_most_at_one_leg_by_chance_is_no_second_round() {
        let mut flow = Flow::new(FlowLimits::WEIGHT_DEFAULT);
        let mut part = |outstanding_ns| {
            let part_ns = flow.part_ns(100, outstanding_ns, false);
            (flow.rounds(), part_ns)
        };
        assert_eq!(part(110), (1, 110.0));
        assert_eq!(part(190), (2, 95.0), "it is not known for long");
        assert_eq!(part(110), (1, 110.0));
        for _ in 0..4 {
            assert_eq!(part(120), (1, 120.0));
        }
        assert_eq!(part(190), (1, 160.0), "once");
        assert_eq!(part(190), (2, 95.0), "it has more now");
        // What is less is so at once, as nobody waits for it.
        assert_eq!(part(100), (1, 100.0));
        assert_eq!(part(20), (0, 100.0));
    }

    #[test]
    fn writes_of_about_one_and_a_half_rounds_are_for_two() {
        let rounds = |writes, has_weights| {
            let mut flow = Flow::new(FlowLimits::WEIGHT_DEFAULT);
            flow.writes = writes;
            let mut rounds_of = |outstanding_ns| {
                flow.part_ns(100, outstanding_ns, has_weights);
                flow.rounds()
            };
            [130, 162, 145, 158, 130, 120, 119, 130].map(&mut rounds_of)
        };
        assert_eq!(rounds(true, false), [1, 2, 2, 2, 2, 2, 1, 1]);
        assert_eq!(rounds(false, false), [1, 2, 2, 2, 1, 1, 1, 1], "reads");
        // Shares are to be as they were asked for.
        assert_eq!(rounds(true, true), [0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
