//! What a disk has in hand that it does not say.
//!
//! A disk that turns and answers writes from a cache is at work for what it has answered. While
//! that is much, and more comes, it does what suits its arm, and a read that came alone stays until
//! it is old. So while there are sparse jobs the sweep waits for a read that the disk has kept for
//! long, and then gives it little more than it is expected to do: what it has in its cache would
//! keep the next read.

use std::collections::BTreeMap;

use heliostat_types::{Duration, Instant, OpKind};

use super::meter::{KEPT, KEPT_MAX};
use crate::job::Job;

/// For so long after that it is given no more than that.
const CAREFUL: Duration = Duration::from_secs(4);
/// So much, in ns, may be in its cache then: what a disk has at once of what is large.
const MAX_NS: f64 = 60e6;
/// It is not taken to have more than that, whatever was expected.
const CAP_NS: f64 = 500e6;
/// The disk is taken to do so many times what is expected, so that it is found out where it does.
const MORE: f64 = 1.0 + 1.0 / 64.0;
/// The same where it may be at work for writes: what those take is a guess at first, and given what
/// it is expected to do it would never do more.
const MORE_WITH_WRITES: f64 = 2.0;
/// When to look again whether it has done enough, at the soonest.
const LOOK_MIN: Duration = Duration::from_us(100);
/// For so long after its last write, a disk may be at work for what is in its cache.
const RECENTLY: Duration = Duration::from_secs(4);
/// A disk that has nothing for longer than that is idle: what its clients ask for next is not there
/// as soon as they have an answer.
const GAP_MAX: Duration = Duration::from_ms(5);
/// When a disk has not been idle for so long, its cache takes in no more than it does.
const BUSY: Duration = Duration::from_secs(1);

/// What one disk has.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// What it was given that it is taken not to have done, in ns, and at what time.
    ns: f64,
    at: Instant,
    /// When each sparse read began that it has.
    reads: BTreeMap<u32, Instant>,
    /// When it last ended one that it had kept for long.
    kept_at: Option<Instant>,
    /// When it last ended what it may have taken into its cache.
    wrote_at: Option<Instant>,
    /// Since when it has not been idle.
    busy_since: Instant,
    /// Whether the sweep waits because of what is hidden.
    waits: bool,
    /// When that may end, although nothing else happens.
    look_at: Option<Instant>,
}

impl Hidden {
    /// The disk gets a job, which is expected to take so long.
    pub(super) fn begin(&mut self, now: Instant, job: &Job, is_sparse: bool, expected_ns: u64) {
        self.go_on(now);
        self.ns = (self.ns + expected_ns as f64).min(CAP_NS);
        if is_sparse && job.kind == OpKind::Read {
            self.reads.insert(job.op, now);
        }
    }

    /// The disk has ended a job.
    pub(super) fn end(&mut self, now: Instant, job: &Job) {
        if matches!(job.kind, OpKind::Write | OpKind::WriteZeroes) {
            self.wrote_at = Some(now);
        }
        let begun_at = self.reads.remove(&job.op);
        if begun_at.is_some_and(|at| now.saturating_since(at) >= KEPT) {
            // As much as it may have is in its cache, whatever was expected.
            self.ns = MAX_NS;
            self.at = now;
            self.kept_at = Some(now);
        }
    }

    fn go_on(&mut self, now: Instant) {
        let passed = now.saturating_since(self.at).as_ns() as f64;
        self.ns = (self.ns - passed * self.times(now)).max(0.0);
        self.at = now;
    }

    /// How many times what is expected it is taken to do.
    fn times(&self, now: Instant) -> f64 {
        if self.may_be_at_work(now) {
            MORE_WITH_WRITES
        } else {
            MORE
        }
    }

    /// Whether the sweep waits, where there are sparse jobs.
    pub(super) fn waits(&mut self, now: Instant) -> bool {
        self.go_on(now);
        let reads = self.reads.values().copied();
        let is_kept = |at: &Instant| (KEPT..KEPT_MAX).contains(&now.saturating_since(*at));
        let kept_until = reads.filter(is_kept).max().map(|at| at + KEPT_MAX);
        let is_careful = |at| now.saturating_since(at) < CAREFUL;
        let over = (self.ns - MAX_NS) / self.times(now);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is positive, and less than a second"
        )]
        let done_at = (over > 0.0 && self.kept_at.is_some_and(is_careful))
            .then(|| now + Duration::from_ns(over as u64).max(LOOK_MIN));
        self.look_at = kept_until.or(done_at);
        self.waits = self.look_at.is_some();
        self.waits
    }

    /// When to look again.
    pub(super) const fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// It looks, or has no time for that now.
    pub(super) const fn look(&mut self) {
        self.look_at = None;
    }

    /// Something goes to the disk, which has had nothing since then: for how long it is taken to
    /// have been at work nevertheless, in ns.
    pub(super) fn worked_ns(&mut self, now: Instant, idle_since: Option<Instant>) -> u64 {
        self.look();
        let has_waited = std::mem::take(&mut self.waits);
        let idle = idle_since.map_or(Duration::ZERO, |since| now.saturating_since(since));
        if idle > GAP_MAX && !has_waited {
            self.busy_since = now;
            return 0;
        }
        if self.may_be_at_work(now) && self.says_what_it_does(now) {
            idle.as_ns()
        } else {
            0
        }
    }

    /// Whether it may be at work for what is in its cache.
    pub(super) fn may_be_at_work(&self, now: Instant) -> bool {
        let is_recent = |at| now.saturating_since(at) < RECENTLY;
        self.wrote_at.is_some_and(is_recent)
    }

    /// Whether answers come as fast as it works, on the whole.
    pub(super) fn says_what_it_does(&self, now: Instant) -> bool {
        now.saturating_since(self.busy_since) >= BUSY
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Extent, FlowId, Instant, OpKind};

    use super::{CAREFUL, Hidden, KEPT, KEPT_MAX, RECENTLY};
    use crate::job::{Class, Job};

    fn job(op: u32, kind: OpKind) -> Job {
        Job {
            op,
            flow: FlowId(0),
            kind,
            class: if kind == OpKind::Read {
                Class::Read
            } else {
                Class::Write
            },
            extent: Extent::new(u64::from(op) << 20, 4096),
            arrived: Instant::ZERO,
        }
    }

    fn at_ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    #[test]
    fn the_sweep_waits_for_a_read_that_is_kept_and_then_for_what_kept_it() {
        let mut hidden = Hidden::default();
        let read = job(0, OpKind::Read);
        hidden.begin(at_ms(0), &read, true, 0);
        // One of a round is nobody's to wait for, and what was expected of others is no reason.
        hidden.begin(at_ms(0), &job(1, OpKind::Read), false, 3_000_000_000);
        assert!(!hidden.waits(at_ms(KEPT.as_ns() / 1_000_000 - 1)));
        assert!(hidden.waits(at_ms(0) + KEPT));
        let until = at_ms(0) + KEPT_MAX;
        assert_eq!(hidden.look_at(), Some(until));
        assert!(!hidden.waits(until));
        assert_eq!(hidden.look_at(), None);
        hidden.end(at_ms(200), &read);
        assert!(!hidden.waits(at_ms(200)));
        // As much is hidden as may be: what is given next is too much until that is done.
        hidden.begin(at_ms(200), &job(2, OpKind::Write), false, 10_000_000);
        assert!(hidden.waits(at_ms(200)));
        let until = hidden.look_at().expect("it waits");
        assert!((at_ms(209)..at_ms(210)).contains(&until));
        assert!(!hidden.waits(at_ms(210)));
        // But it does not wait for long, whatever is expected.
        hidden.begin(at_ms(210), &job(3, OpKind::Write), false, 100_000_000_000);
        assert!(hidden.waits(at_ms(210)) && !hidden.waits(at_ms(700)));
        hidden.begin(
            at_ms(0) + CAREFUL,
            &job(4, OpKind::Write),
            false,
            300_000_000,
        );
        assert!(!hidden.waits(at_ms(200) + CAREFUL));
    }

    #[test]
    fn what_writes_take_is_found_out_where_it_is_less_than_expected() {
        let kept_for_ms = |writes: bool| {
            let mut hidden = Hidden::default();
            let [read, write] = [job(0, OpKind::Read), job(1, OpKind::Write)];
            hidden.begin(at_ms(0), &read, true, 0);
            if writes {
                hidden.end(at_ms(0), &write);
            }
            hidden.end(at_ms(100), &read);
            hidden.begin(at_ms(100), &write, false, 100_000_000);
            assert!(hidden.waits(at_ms(100)));
            let until = hidden.look_at().expect("it waits");
            until.saturating_since(at_ms(100)).as_ns() / 1_000_000
        };
        assert_eq!([kept_for_ms(false), kept_for_ms(true)], [98, 50]);
    }

    #[test]
    fn who_is_not_idle_for_long_is_at_work_for_what_is_hidden() {
        let mut hidden = Hidden::default();
        hidden.end(at_ms(9_000), &job(0, OpKind::Write));
        let mut worked_ms =
            |ms, idle_since_ms| hidden.worked_ns(at_ms(ms), Some(at_ms(idle_since_ms))) / 1_000_000;
        assert_eq!(worked_ms(10_000, 0), 0, "it was idle");
        assert_eq!(
            worked_ms(10_500, 10_497),
            0,
            "its cache may still take what comes"
        );
        assert_eq!(worked_ms(11_000, 10_997), 3);
        assert_eq!(worked_ms(11_100, 11_000), 0, "it was idle");
        assert_eq!(worked_ms(12_000, 11_997), 0);
        assert_eq!(worked_ms(12_100, 12_097), 3);
        assert_eq!(worked_ms(13_000, 12_997), 0, "all was written long ago");
        // Where the sweep waited it was not.
        let mut hidden = Hidden::default();
        let read = job(0, OpKind::Read);
        hidden.end(at_ms(2000), &job(1, OpKind::Write));
        hidden.begin(at_ms(2000), &read, true, 0);
        assert!(hidden.waits(at_ms(2000) + KEPT));
        hidden.end(at_ms(2100), &read);
        assert_eq!(hidden.worked_ns(at_ms(2120), Some(at_ms(2100))), 20_000_000);
        assert_eq!(hidden.worked_ns(at_ms(2120), None), 0);
    }

    #[test]
    fn only_what_was_written_of_late_is_at_work() {
        let mut hidden = Hidden::default();
        hidden.end(at_ms(5), &job(0, OpKind::Read));
        assert!(!hidden.may_be_at_work(at_ms(5)));
        hidden.end(at_ms(5), &job(0, OpKind::Write));
        assert!(hidden.may_be_at_work(at_ms(5)));
        assert!(!hidden.may_be_at_work(at_ms(5) + RECENTLY));
    }
}
