//! What a disk keeps.
//!
//! A disk that turns does what suits its arm. As long as it has some of a stream in hand, that is
//! next to where the arm is, and a read somewhere else stays until it is old: its client would have
//! a tenth of the disk or less, whatever his share of it is.

use heliostat_types::{Instant, OpKind};

use super::{Fair, SPARSE_RECENTLY};
use crate::job::{Class, Job};

impl Fair {
    /// Whether a disk keeps what it was to read for others: it is given nothing more that goes on
    /// where its arm is, and nothing to read in the background, until it has done that. What comes
    /// behind it in the order waits as well: the disk is to have little else to do.
    pub(super) fn waits_for_kept(&mut self, now: Instant, job: &Job) -> bool {
        // Of an array, other disks would have to wait as well.
        if !self.device.rotational || self.device.leg_count > 1 {
            return false;
        }
        let goes_on = job.class == Class::Background || self.meter.goes_on(job);
        if !goes_on || job.kind != OpKind::Read {
            return false;
        }
        let until = self.meter.keeps_until(now, job);
        self.waits_until(until)
    }

    /// Whether a job is a write that a disk would take into its cache, and do instead of what it is
    /// late to read for others. While there is that, nobody's writes are alone there.
    pub(super) fn is_beside_reads(&mut self, now: Instant, job: &Job) -> bool {
        let has_cache = self.device.has_hidden_work() && self.device.leg_count <= 1;
        if !has_cache || job.class != Class::Write {
            return false;
        }
        let counts = |reader| reader != job.flow;
        let until = self.meter.late_until(now, counts);
        self.waits_until(until)
    }

    /// Whether a job that goes before the sweep is a read of a stream that has had its part of
    /// rounds of late. Nothing has to leave it room: it is what the sweep is made of, and where
    /// each of several streams had too little in the device the arm would leave it after each read.
    pub(super) fn is_of_a_stream_in_rounds(&self, now: Instant, job: &Job) -> bool {
        let swept_at = self.flows[&job.flow].swept_at;
        let is_recent = |at| now.saturating_since(at) < SPARSE_RECENTLY;
        let goes_on = self.asked[&job.op].work.goes_on();
        goes_on && job.class == Class::Read && swept_at.is_some_and(is_recent)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Extent, FlowId, Instant, OpKind};

    use super::super::meter::{KEPT, KEPT_MAX};
    use crate::costs::Costs;
    use crate::fair::tests::device;
    use crate::fair::{Fair, FairSettings};
    use crate::job::{Class, Device, Job};

    /// A read of 64 KiB, the one of this number in the area of its flow.
    fn read(op: u32, flow: u32, at: u64) -> Job {
        Job {
            op,
            flow: FlowId(flow),
            kind: OpKind::Read,
            class: Class::Read,
            extent: Extent::new((u64::from(flow) << 32) + (at << 16), 1 << 16),
            arrived: Instant::ZERO,
        }
    }

    /// A disk, or an array, that has one read of a flow and two of another one, for which it
    /// has read before.
    fn with_two_streams(leg_count: u32) -> (Fair, Costs, Instant) {
        let device = Device {
            leg_count,
            ..device(true)
        };
        let (mut fair, mut costs) = (Fair::new(FairSettings::DEFAULT, device), Costs::new());
        for job in [read(9, 2, 7), read(0, 1, 0), read(1, 2, 0), read(2, 2, 2)] {
            fair.insert(job, &mut costs);
            assert!(fair.take(Instant::ZERO, &mut costs).is_some());
        }
        fair.completed(Instant::ZERO, &read(9, 2, 7), &mut costs);
        let much_later = Instant::ZERO + KEPT_MAX;
        let until = fair.meter.keeps_until(much_later, &read(3, 2, 3));
        let due = until.expect("it is kept by then");
        (
            fair,
            costs,
            Instant::from_ns(due.as_ns() - KEPT_MAX.as_ns()),
        )
    }

    #[test]
    fn a_stream_waits_for_what_the_disk_keeps_and_what_goes_elsewhere_does_not() {
        let (mut fair, mut costs, due) = with_two_streams(1);
        let mut next = |fair: &mut Fair, job: Job, now| {
            fair.insert(job, &mut costs);
            let next = fair.take(now, &mut costs).map(|job| job.op);
            fair.retain(&|other| other.op != job.op, &mut costs);
            next
        };
        let behind = read(3, 2, 3);
        let background = Job {
            class: Class::Background,
            ..read(4, 3, 0)
        };
        assert_eq!(next(&mut fair, background, due), Some(4), "not for long");
        let late = due + KEPT;
        assert_eq!(next(&mut fair, behind, late), None);
        assert_eq!(next(&mut fair, background, late), None);
        assert_eq!(fair.next_deadline(), Some(due + KEPT_MAX));
        assert_eq!(next(&mut fair, read(5, 2, 99), late), Some(5), "elsewhere");
        assert_eq!(next(&mut fair, read(6, 1, 1), late), Some(6), "who waits");
        // Nobody waits for ever, if the disk does not answer.
        let now = late + KEPT_MAX + KEPT_MAX;
        assert_eq!(next(&mut fair, behind, now), Some(3));
    }

    #[test]
    fn a_stream_goes_on_when_the_disk_has_done_it() {
        let (mut fair, mut costs, due) = with_two_streams(1);
        let late = due + KEPT;
        fair.insert(read(3, 2, 3), &mut costs);
        assert!(fair.take(late, &mut costs).is_none());
        fair.completed(late, &read(0, 1, 0), &mut costs);
        assert!(fair.take(late, &mut costs).is_some());
        // And when the turn is new, so that each of several streams has one.
        let (mut fair, mut costs, due) = with_two_streams(1);
        let late = due + KEPT;
        for (op, flow) in [(4, 3), (5, 2)] {
            let job = read(op, flow, 9);
            fair.insert(job, &mut costs);
            assert!(fair.take(late, &mut costs).is_some());
            fair.completed(late, &job, &mut costs);
        }
        fair.insert(read(3, 2, 3), &mut costs);
        assert!(fair.take(late, &mut costs).is_some());
        // In front of an array nothing waits.
        let (mut fair, mut costs, due) = with_two_streams(2);
        fair.insert(read(3, 2, 3), &mut costs);
        assert!(fair.take(due + KEPT, &mut costs).is_some());
    }

    fn write(op: u32, flow: u32) -> Job {
        Job {
            kind: OpKind::Write,
            class: Class::Write,
            ..read(op, flow, u64::from(op) * 1000)
        }
    }

    /// A disk with a cache that has one read of the first flow, which it was given at the start,
    /// after long rounds for the third one.
    fn with_a_read(caches_writes: bool, leg_count: u32) -> (Fair, Costs, Instant) {
        let disk = Device {
            caches_writes,
            leg_count,
            ..device(true)
        };
        let (mut fair, mut costs) = (Fair::new(FairSettings::DEFAULT, disk), Costs::new());
        for op in 0..100 {
            fair.insert(write(op, 3), &mut costs);
        }
        let mut now = Instant::ZERO;
        while let Some(job) = fair.take(now, &mut costs) {
            now += Duration::from_ms(4);
            fair.completed(now, &job, &mut costs);
        }
        fair.round.quantum = fair.quantum_max();
        fair.insert(read(1000, 1, 0), &mut costs);
        assert!(fair.take(now, &mut costs).is_some());
        (fair, costs, now)
    }

    /// How many writes of a flow go one after the other, of up to 100.
    fn written((fair, costs, now): &mut (Fair, Costs, Instant), flow: u32) -> u32 {
        let now = *now;
        let goes = |op: &u32| {
            let job = write(*op, flow);
            fair.insert(job, costs);
            let goes = fair.take(now, costs) == Some(job);
            if goes {
                fair.completed(now, &job, costs);
            } else {
                fair.retain(&|other| other.op != job.op, costs);
            }
            goes
        };
        let ops = 2000..2100;
        u32::try_from(ops.take_while(goes).count()).expect("it is small")
    }

    #[test]
    fn a_cache_takes_no_writes_beyond_their_share_while_the_disk_is_late_with_a_read() {
        let late = || {
            let mut disk = with_a_read(true, 1);
            disk.2 += KEPT;
            disk
        };
        assert_eq!(written(&mut with_a_read(true, 1), 2), 100, "it is not late");
        let mut disk = late();
        let at_once = written(&mut disk, 2);
        assert!((1..30).contains(&at_once), "{at_once}");
        assert_eq!(written(&mut disk, 2), 0);
        // It is asked again when it has to wait no longer, although nothing else happens.
        disk.0.insert(write(5000, 2), &mut disk.1);
        assert_eq!(disk.0.take(disk.2, &mut disk.1), None);
        let until = disk.0.next_deadline().expect("it waits");
        assert!(until < disk.2 + KEPT_MAX);
        disk.0.on_deadline();
        assert!(disk.0.take(until, &mut disk.1).is_some());
        // Nor does it where the disk has read, or nobody else waits for that.
        let mut disk = late();
        disk.0.completed(disk.2, &read(1000, 1, 0), &mut disk.1);
        assert_eq!(written(&mut disk, 2), 100);
        assert_eq!(written(&mut late(), 1), 100, "its own");
        for (caches_writes, leg_count) in [(false, 1), (true, 2)] {
            let mut disk = with_a_read(caches_writes, leg_count);
            disk.2 += KEPT;
            assert_eq!(written(&mut disk, 2), 100, "no cache, or an array");
        }
    }
}
