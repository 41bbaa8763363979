//! What a disk has in hand that it does not say.
//!
//! A disk that turns and answers writes from a cache is at work for what it has answered. While
//! that is much, and more comes, it does what suits its arm, and a read that came alone stays until
//! it is old. So while there are sparse jobs the sweep waits for a read that the disk has kept for
//! long, and gives it no more than it does: what it has in its cache would keep the next read.

use std::collections::BTreeMap;

use heliostat_types::{Duration, Instant, OpKind};

use crate::job::Job;

/// The disk has kept a sparse read for long: it is there before, but for what is large, with what
/// goes by on the way.
const KEPT: Duration = Duration::from_ms(50);
/// But when it has kept it for that long, nothing is gained by waiting.
const KEPT_MAX: Duration = Duration::from_secs(1);
/// So much, in ns, may be in the cache of a disk: what a disk has at once of what is large.
const MAX_NS: f64 = 60e6;
/// The disk is taken to do a little more than it did, so that it is found out where it does.
const MORE: f64 = 1.0 + 1.0 / 64.0;
/// When to look again whether it has done enough, at the soonest.
const LOOK_MIN: Duration = Duration::from_us(100);
/// For so long after its last write, a disk may be at work for what is in its cache.
const RECENTLY: Duration = Duration::from_secs(4);

/// What one disk has.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// What it was given that it is taken not to have done, in ns, and at what time.
    ns: f64,
    at: Instant,
    /// When each sparse read began that it has.
    reads: BTreeMap<u32, Instant>,
    /// When it last ended what it may have taken into its cache.
    wrote_at: Option<Instant>,
    /// Since when the sweep has waited because of what is hidden.
    waits_since: Option<Instant>,
    /// When that is to end.
    look_at: Option<Instant>,
}

impl Hidden {
    /// The disk gets a job, which is expected to take so long.
    pub(super) fn begin(&mut self, now: Instant, job: &Job, is_sparse: bool, expected_ns: u64) {
        self.go_on(now);
        self.ns += expected_ns as f64;
        if is_sparse && job.kind == OpKind::Read {
            self.reads.insert(job.op, now);
        }
    }

    /// The disk has ended a job.
    pub(super) fn end(&mut self, now: Instant, job: &Job) {
        if job.kind != OpKind::Read {
            self.wrote_at = Some(now);
        }
        let begun_at = self.reads.remove(&job.op);
        if begun_at.is_some_and(|at| now.saturating_since(at) >= KEPT) {
            // As much as it may have is in its cache, whatever was expected.
            self.go_on(now);
            self.ns = self.ns.max(MAX_NS);
        }
    }

    fn go_on(&mut self, now: Instant) {
        let passed = now.saturating_since(self.at).as_ns() as f64;
        self.ns = (self.ns - passed * MORE).max(0.0);
        self.at = now;
    }

    /// Whether the sweep waits, where there are sparse jobs.
    pub(super) fn waits(&mut self, now: Instant) -> bool {
        self.look();
        self.go_on(now);
        let mut reads = self.reads.values();
        let is_kept = reads.any(|at| (KEPT..KEPT_MAX).contains(&now.saturating_since(*at)));
        let over = self.ns - MAX_NS;
        let waits = is_kept || over > 0.0;
        if waits {
            self.waits_since.get_or_insert(now);
        }
        if waits && !is_kept {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is less than the time of all that the disk has"
            )]
            let over = Duration::from_ns(over as u64);
            self.look_at = Some(now + over.max(LOOK_MIN));
        }
        waits
    }

    /// When to look again.
    pub(super) const fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// It looks, or has no time for that now.
    pub(super) const fn look(&mut self) {
        self.look_at = None;
    }

    /// Something goes to the disk: how long it has had nothing because the sweep waited, in ns. It
    /// is taken to have been at work.
    pub(super) fn has_waited_ns(&mut self, now: Instant, idle_since: Option<Instant>) -> u64 {
        self.look();
        let waits_since = self.waits_since.take();
        let since = waits_since.zip(idle_since);
        since.map_or(0, |(waits, idle)| {
            now.saturating_since(std::cmp::max(waits, idle)).as_ns()
        })
    }

    /// Whether it may be at work for what is in its cache.
    pub(super) fn may_be_at_work(&self, now: Instant) -> bool {
        let is_recent = |at| now.saturating_since(at) < RECENTLY;
        self.wrote_at.is_some_and(is_recent)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Extent, FlowId, Instant, OpKind};

    use super::{Hidden, KEPT, KEPT_MAX, RECENTLY};
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
        // One of a round is nobody's to wait for.
        hidden.begin(at_ms(0), &job(1, OpKind::Read), false, 0);
        assert!(!hidden.waits(at_ms(KEPT.as_ns() / 1_000_000 - 1)));
        assert!(hidden.waits(at_ms(0) + KEPT));
        assert_eq!(hidden.look_at(), None, "its end is seen");
        assert!(!hidden.waits(at_ms(0) + KEPT_MAX));
        hidden.end(at_ms(200), &read);
        assert!(!hidden.waits(at_ms(200)));
        // As much is hidden as may be: what is given next is too much until that is done.
        hidden.begin(at_ms(200), &job(2, OpKind::Write), false, 10_000_000);
        assert!(hidden.waits(at_ms(200)));
        assert_eq!(hidden.look_at(), Some(at_ms(210)));
        assert!(!hidden.waits(at_ms(210)));
        assert_eq!(hidden.look_at(), None);
    }

    #[test]
    fn what_a_disk_was_given_is_done_as_time_passes() {
        let mut hidden = Hidden::default();
        let write = job(0, OpKind::Write);
        hidden.begin(at_ms(1000), &write, false, 60_000_000);
        assert!(!hidden.waits(at_ms(1000)));
        hidden.begin(at_ms(1000), &write, false, 30_000_000);
        assert!(hidden.waits(at_ms(1000)));
        assert!(hidden.waits(at_ms(1029)));
        assert!(!hidden.waits(at_ms(1030)));
        // A disk that had nothing meanwhile is taken to have been at work since it waited.
        assert_eq!(
            hidden.has_waited_ns(at_ms(1040), Some(at_ms(1010))),
            30_000_000
        );
        assert_eq!(hidden.has_waited_ns(at_ms(1050), Some(at_ms(1010))), 0);
        assert_eq!(hidden.has_waited_ns(at_ms(1060), None), 0);
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
