//! Stays: a disk reads in sequence for one flow at a time.
//!
//! Who reads in sequence asks for more when he has been answered. If the disk went to somebody else
//! meanwhile it would be with each for no longer than what one of them has outstanding takes, and
//! be on its way half of the time. Nor may it have some of a stream in hand while it is to read
//! somewhere else: it does what is next to its arm, and keeps the other until that is old. So the
//! sweep stays with a stream until its part of the round is used up, or nothing more comes; and a
//! stream waits for what the disk is to read for others.

use heliostat_types::{Duration, FlowId, Instant, OpKind};

use super::flow::Flow;
use super::meter::KEPT_MAX;
use super::{Choice, Fair};
use crate::job::{Class, FlowLimits, Job};

/// A round gives as much to a stream as if it had so much outstanding: eight times what the way to
/// another one takes.
const STAY: Duration = Duration::from_ms(64);
/// With more flows nobody stays: it would be longer than half a second until each has had his turn.
const FLOWS_MAX: u64 = 8;
/// For so long the disk waits for more of a stream that it has read all of: the way to another one
/// and back takes 16 times as long.
const PAUSE: Duration = Duration::from_ms(1);

/// While there are others a stream waits where the disk has so many bytes in hand: they wait for
/// that as well.
const IN_HAND_BYTES: u64 = 2 << 20;
/// There are where something of theirs has gone within so long.
const RECENTLY: Duration = Duration::from_secs(1);

/// The flow that a disk reads in sequence for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay {
    flow: FlowId,
    /// In which round, and since when.
    round: u64,
    since: Instant,
    /// Others do not wait for longer: what it has may be stalled, or nothing more may come.
    until: Instant,
}

impl Fair {
    /// Whether a disk stays with streams. Of an array, other disks would have to wait as well;
    /// where somebody has set shares rounds are for what all have waiting; and of many flows each
    /// would wait for the stays of all others.
    pub(super) fn has_stays(&self) -> bool {
        let flows = self.active_weight / u64::from(FlowLimits::WEIGHT_DEFAULT);
        let is_disk = self.device.rotational && self.device.leg_count <= 1;
        is_disk && self.weights.is_empty() && flows <= FLOWS_MAX
    }

    /// What a flow counts for in the length of a round, where it has so much outstanding.
    pub(super) fn reach_ns(&self, flow: &Flow, outstanding_ns: u64) -> u64 {
        if self.has_stays() && flow.is_stream() {
            outstanding_ns.max(STAY.as_ns())
        } else {
            outstanding_ns
        }
    }

    /// The sweep goes on with a job.
    pub(super) fn goes_to(&mut self, now: Instant, job: &Job) {
        let is_stream = job.class == Class::Read && self.flows[&job.flow].is_stream();
        let (flow, round) = (job.flow, self.round.number);
        let before = self
            .stay
            .filter(|stay| (stay.flow, stay.round) == (flow, round));
        self.stay = (is_stream && self.has_stays()).then_some(Stay {
            flow,
            round,
            since: before.map_or(now, |stay| stay.since),
            until: now + KEPT_MAX,
        });
    }

    /// A job of a flow has ended.
    pub(super) fn has_done(&mut self, now: Instant, flow: FlowId) {
        let stay = self.stay.as_mut();
        if let Some(stay) = stay.filter(|stay| stay.flow == flow && now < stay.until) {
            let has_more = self.meter.has_reads_of(now, flow);
            stay.until = now + if has_more { KEPT_MAX } else { PAUSE };
        }
    }

    /// Whether the disk stays where it is, and what is for another flow waits.
    pub(super) fn stays(&mut self, now: Instant, next: Option<FlowId>) -> bool {
        let Some(stay) = self.stay.filter(|_| self.has_stays()) else {
            return false;
        };
        // What goes before the sweep is not of its part of the round, and prolongs nothing.
        let longest = Duration::from_ns(self.quantum_max());
        let until = stay.until.min(stay.since + longest);
        let flow = self.flows.get(&stay.flow);
        let goes_on = |flow: &Flow| flow.is_stream() && flow.later.is_empty() && flow.has_credit(2);
        let stays = now < until && next != Some(stay.flow) && flow.is_some_and(goes_on);
        if stays {
            self.ask_again_at(until);
        }
        stays
    }

    /// Something waits for what the disk does, and for no longer than that.
    fn ask_again_at(&mut self, until: Instant) {
        let before = self.kept_until;
        self.kept_until = Some(before.map_or(until, |before| before.min(until)));
    }

    /// Whether there is something to wait for, which is over at that time at the latest.
    pub(super) fn waits_until(&mut self, until: Option<Instant>) -> bool {
        if let Some(until) = until {
            self.ask_again_at(until);
        }
        until.is_some()
    }

    /// Whether a job has to wait for what the disk does.
    pub(super) fn has_to_wait(&mut self, now: Instant, choice: Choice) -> bool {
        let job = self.job_of(choice);
        // Of clients' writes with FUA it is not the place that counts.
        let is_swept = matches!(choice, Choice::InRound(..)) && job.class != Class::Urgent;
        is_swept && self.stays(now, Some(job.flow))
            || self.waits_for_others(now, choice, &job)
            || self.waits_for_kept(now, &job)
    }

    /// Whether a job is one of a stream that waits for what the disk is to read for others, or has
    /// enough in hand while there are others.
    fn waits_for_others(&mut self, now: Instant, choice: Choice, job: &Job) -> bool {
        if !self.has_stays() || job.kind != OpKind::Read {
            return false;
        }
        let flow = match choice {
            Choice::InRound(..) if self.flows[&job.flow].is_stream() => job.flow,
            // It is read ahead for the stream, or would take the arm there as well.
            Choice::Background if self.meter.goes_on(job) => match self.stay {
                Some(stay) if now < stay.until => stay.flow,
                Some(_) | None => return false,
            },
            Choice::Array | Choice::Background | Choice::Sparse(_) | Choice::InRound(..) => {
                return false;
            }
        };
        let others = self.flows.iter().filter(|(id, _)| **id != flow);
        let others = others.filter_map(|(_, flow)| flow.went_at);
        let shared_until = others.max().map(|at| at + RECENTLY);
        let shared_until = shared_until.filter(|until| now < *until);
        if self.meter.bytes() >= IN_HAND_BYTES
            && let Some(until) = shared_until
        {
            self.ask_again_at(until);
            return true;
        }
        // What is read in sequence before the sweep has its turn at the end of the stay, or is
        // there already, as the disk read on when it was there.
        let is_there = self.stay.is_some_and(|stay| stay.flow == flow);
        let flows = &self.flows;
        let is_stream = |reader| flows.get(&reader).is_some_and(Flow::is_stream);
        let counts = |reader| reader != flow && !(is_there && is_stream(reader));
        let until = self.meter.keeps_of_until(now, counts);
        self.waits_until(until)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Extent, FlowId, Instant, OpKind};

    use super::{FLOWS_MAX, IN_HAND_BYTES, PAUSE, RECENTLY};
    use crate::costs::Costs;
    use crate::fair::meter::KEPT_MAX;
    use crate::fair::tests::device;
    use crate::fair::{Fair, FairSettings};
    use crate::job::{Class, Device, FlowLimits, Job};

    /// What a disk takes 10 ms for: too much to go before the sweep.
    const LEN: u64 = 1 << 20;
    const TAKES: Duration = Duration::from_ms(10);

    /// A leg, and what it was asked for.
    struct Disk {
        fair: Fair,
        costs: Costs,
        now: Instant,
        ops: u32,
        /// Where each of two flows goes on.
        at: [u64; 2],
        in_device: Vec<Job>,
    }

    impl Disk {
        /// The first of two flows has read in sequence for a while, the second one at random.
        fn new(leg_count: u32, weight: u32) -> Self {
            let device = Device {
                leg_count,
                ..device(true)
            };
            let mut disk = Self {
                fair: Fair::new(FairSettings::DEFAULT, device),
                costs: Costs::new(),
                now: Instant::ZERO + Duration::from_secs(10),
                ops: 0,
                at: [0, 1 << 40],
                in_device: Vec::new(),
            };
            disk.fair.set_weight(FlowId(1), weight);
            for _ in 0..64 {
                for (flow, behind) in [(0_u8, 0), (1, 1 << 30)] {
                    disk.read(usize::from(flow), behind);
                    assert!(disk.goes(flow.into()));
                    disk.ends(flow.into());
                    disk.now += PAUSE;
                }
            }
            disk
        }

        /// A flow asks for a read, so many bytes behind its last one.
        fn read(&mut self, flow: usize, behind: u64) {
            let job = Job {
                op: self.ops,
                flow: FlowId(u32::try_from(flow).unwrap()),
                kind: OpKind::Read,
                class: Class::Read,
                extent: Extent::new(self.at[flow] + behind, LEN),
                arrived: self.now,
            };
            self.ops += 1;
            self.at[flow] = job.extent.end();
            self.fair.insert(job, &mut self.costs);
        }

        /// Whether what goes next is of that flow; it goes.
        fn goes(&mut self, flow: u32) -> bool {
            let job = self.fair.take(self.now, &mut self.costs);
            self.in_device.extend(job);
            job.is_some_and(|job| job.flow == FlowId(flow))
        }

        /// What the disk has of a flow has been read.
        fn ends(&mut self, flow: u32) {
            let (ended, left) = std::mem::take(&mut self.in_device)
                .into_iter()
                .partition(|job| job.flow == FlowId(flow));
            self.in_device = left;
            let ended: Vec<Job> = ended;
            for job in ended {
                self.now += TAKES;
                self.fair.completed(self.now, &job, &mut self.costs);
            }
        }

        /// Time passes until it is to be asked again.
        fn waits(&mut self) -> Duration {
            assert!(self.fair.take(self.now, &mut self.costs).is_none());
            let until = self.fair.next_deadline().expect("it is asked again");
            let waited = until.saturating_since(self.now);
            self.now = until;
            self.fair.on_deadline();
            waited
        }
    }

    /// Both ask for reads, and the disk has all of the first flow and none of the second one.
    fn with_both(leg_count: u32, weight: u32) -> Disk {
        let mut disk = Disk::new(leg_count, weight);
        for _ in 0..16 {
            disk.read(1, 1 << 30);
        }
        for _ in 0..2 {
            disk.read(0, 0);
        }
        for _ in 0..2 {
            assert!(disk.goes(0), "the sweep begins with it");
        }
        disk
    }

    #[test]
    fn a_disk_stays_with_a_stream_while_more_of_it_comes() {
        let usual = FlowLimits::WEIGHT_DEFAULT;
        let mut disk = with_both(1, usual);
        for _ in 0..3 {
            assert!(!disk.goes(1), "the disk has some of the stream");
            disk.ends(0);
            disk.read(0, 0);
            assert!(disk.goes(0), "it goes on");
        }
        disk.ends(0);
        assert_eq!(disk.waits(), PAUSE);
        assert!(disk.goes(1), "nothing more has come");
        assert!(with_both(2, usual).goes(1), "an array has several arms");
        assert!(with_both(1, 2 * usual).goes(1), "shares are set");
    }

    #[test]
    fn nobody_waits_for_the_stays_of_many() {
        let mut disk = with_both(1, FlowLimits::WEIGHT_DEFAULT);
        assert!(disk.fair.has_stays());
        for flow in 2..=u32::try_from(FLOWS_MAX).unwrap() {
            let job = Job {
                op: 1 << 20 | flow,
                flow: FlowId(flow),
                kind: OpKind::Read,
                class: Class::Read,
                extent: Extent::new(u64::from(flow) << 42, LEN),
                arrived: disk.now,
            };
            disk.fair.insert(job, &mut disk.costs);
        }
        assert!(!disk.fair.has_stays());
        assert!(!disk.goes(0));
        assert!(!disk.in_device.is_empty(), "somebody else");
    }

    #[test]
    fn nobody_waits_for_longer_than_a_round_gives() {
        let quantum = FairSettings::DEFAULT.quantum;
        let mut disk = with_both(1, FlowLimits::WEIGHT_DEFAULT);
        assert_eq!(disk.waits(), quantum, "what it has is stalled");
        assert!(disk.goes(1));
        // Nor where more ends all the time that is not of its part of the round.
        let mut disk = with_both(1, FlowLimits::WEIGHT_DEFAULT);
        let since = disk.now;
        while !disk.goes(1) {
            disk.now += PAUSE;
            assert!(disk.now <= since + quantum);
            disk.fair.has_done(disk.now, FlowId(0));
            disk.fair.on_deadline();
            disk.fair.chosen = None;
        }
    }

    #[test]
    fn what_waits_for_several_is_looked_at_when_the_first_is_over() {
        let mut disk = with_both(1, FlowLimits::WEIGHT_DEFAULT);
        for after in [KEPT_MAX, PAUSE, RECENTLY] {
            disk.fair.ask_again_at(disk.now + after);
        }
        assert_eq!(disk.fair.next_deadline(), Some(disk.now + PAUSE));
    }

    #[test]
    fn a_stream_has_no_more_than_its_part_of_a_round() {
        let mut disk = with_both(1, FlowLimits::WEIGHT_DEFAULT);
        let reads = (0..100).find(|_| {
            let is_others = disk.goes(1);
            disk.ends(0);
            disk.read(0, 0);
            is_others
        });
        let reads = reads.expect("the other one has his turn");
        assert!(
            (4..16).contains(&reads),
            "{reads}: it is worth the way there"
        );
    }

    #[test]
    fn a_stream_waits_for_what_the_disk_reads_for_others() {
        let mut disk = Disk::new(1, FlowLimits::WEIGHT_DEFAULT);
        disk.read(1, 1 << 30);
        assert!(disk.goes(1));
        for _ in 0..4 {
            disk.read(0, 0);
        }
        assert!(!disk.goes(0));
        disk.ends(1);
        assert!(disk.goes(0));
        // But not for ever.
        disk.read(1, 1 << 30);
        let goes = (0..16).any(|_| {
            disk.ends(0);
            disk.now += PAUSE;
            disk.goes(1)
        });
        assert!(goes);
        disk.read(0, 0);
        assert!(disk.waits() >= KEPT_MAX);
        assert!(disk.goes(0));
    }

    #[test]
    fn a_stream_has_little_in_hand_where_others_were_there_of_late() {
        let mut disk = Disk::new(1, FlowLimits::WEIGHT_DEFAULT);
        let in_hand = |disk: &mut Disk| {
            for _ in 0..64 {
                disk.read(0, 0);
            }
            let mut reads = 0;
            while disk.goes(0) {
                reads += 1;
            }
            while !disk.in_device.is_empty() {
                disk.ends(0);
                while disk.goes(0) {}
            }
            reads
        };
        assert_eq!(in_hand(&mut disk), IN_HAND_BYTES / LEN);
        disk.now += RECENTLY;
        assert!(in_hand(&mut disk) > IN_HAND_BYTES / LEN);
    }
}
