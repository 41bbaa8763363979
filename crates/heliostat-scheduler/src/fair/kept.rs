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
        if let Some(until) = until {
            self.ask_again_at(until);
        }
        until.is_some()
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
    use heliostat_types::{Extent, FlowId, Instant, OpKind};

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
}
