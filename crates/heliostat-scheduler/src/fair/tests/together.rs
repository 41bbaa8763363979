//! What disks of a mirror know of each other's rounds.

use heliostat_types::{Instant, LegId};

use super::{Job, device, read, write};
use crate::costs::Costs;
use crate::fair::FairSettings;
use crate::job::{Class, Device};
use crate::scheduler::Scheduler;
use crate::spec::SchedulerSpec;

/// Two disks, of which the second has a write in hand, and what they know of each other.
fn beside_one_that_stalls() -> ([Scheduler; 2], Costs) {
    beside_one_with(write(1, 0, 9))
}

fn beside_one_with(job: Job) -> ([Scheduler; 2], Costs) {
    let mut costs = Costs::new();
    let spec = SchedulerSpec::Fair(FairSettings::DEFAULT);
    let mut disks = [0, 1].map(|leg| {
        let leg = LegId::new(leg);
        let disk = Device {
            leg,
            ..device(true)
        };
        Scheduler::new(&spec, disk)
    });
    for disk in &mut disks {
        disk.insert(Instant::ZERO, job, &mut costs);
        assert!(disk.take(Instant::ZERO, &mut costs).is_some());
    }
    (disks, costs)
}

fn background(op: u32, block: u64) -> Job {
    Job {
        class: Class::Background,
        ..read(op, 9, block)
    }
}

const fn after(ms: u64) -> Instant {
    Instant::from_ns(ms * 1_000_000)
}

#[test]
fn a_disk_waits_for_others_by_what_its_round_took_and_for_a_second() {
    // And by nothing that came after that, be it that nobody had anything to do,
    for (took_ms, next_ms, wait_ms) in [(40, 40, 10), (30_000, 30_000, 1_000), (40, 30_000, 10)] {
        // or that the disk did something else.
        for did_else in [false, true] {
            let ([mut disk, _], mut costs) = beside_one_that_stalls();
            disk.completed(after(took_ms), &write(1, 0, 9), &mut costs);
            if did_else {
                let scrub = background(3, 50);
                disk.insert(after(took_ms), scrub, &mut costs);
                assert!(disk.take(after(took_ms), &mut costs).is_some());
                disk.completed(after(next_ms), &scrub, &mut costs);
            }
            disk.insert(after(next_ms), write(2, 0, 9), &mut costs);
            assert!(disk.take(after(next_ms), &mut costs).is_none());
            let last = after(next_ms + wait_ms - 1);
            assert!(disk.take(last, &mut costs).is_none());
            assert!(disk.take(after(next_ms + wait_ms), &mut costs).is_some());
        }
    }
}

/// A disk has read in the background while all of its round had gone, or since before that.
#[test]
fn what_is_read_in_the_background_makes_no_round_longer() {
    let ([mut disk, _], mut costs) = beside_one_that_stalls();
    let [first, second] = [3, 4].map(|op| background(op, 50));
    for job in [first, second] {
        disk.insert(after(20), job, &mut costs);
    }
    assert!(disk.take(after(20), &mut costs).is_some());
    disk.completed(after(40), &write(1, 0, 9), &mut costs);
    assert!(disk.take(after(40), &mut costs).is_some());
    for job in [first, second] {
        disk.completed(after(30_000), &job, &mut costs);
    }
    disk.insert(after(30_000), write(2, 0, 9), &mut costs);
    for ms in [30_000, 30_004] {
        assert!(disk.take(after(ms), &mut costs).is_none());
    }
    assert!(disk.take(after(30_005), &mut costs).is_some());

    let ([mut disk, _], mut costs) = beside_one_that_stalls();
    disk.completed(after(4), &write(1, 0, 9), &mut costs);
    disk.insert(after(4), first, &mut costs);
    assert!(disk.take(after(4), &mut costs).is_some());
    disk.insert(after(5), write(2, 0, 9), &mut costs);
    assert!(disk.take(after(5), &mut costs).is_none());
    assert!(disk.take(after(10), &mut costs).is_some(), "in vain");
    disk.completed(after(50), &write(2, 0, 9), &mut costs);
    disk.completed(after(8_000), &first, &mut costs);
    disk.insert(after(8_000), write(5, 0, 9), &mut costs);
    for ms in [8_000, 8_009] {
        assert!(disk.take(after(ms), &mut costs).is_none());
    }
    assert!(disk.take(after(8_010), &mut costs).is_some());
}

#[test]
fn nobody_waits_for_others_after_a_round_of_reads() {
    let fua = Job {
        class: Class::Urgent,
        ..write(1, 0, 9)
    };
    for (job, waits) in [(read(1, 0, 9), false), (fua, true)] {
        let ([mut disk, _], mut costs) = beside_one_with(job);
        disk.completed(after(10), &job, &mut costs);
        disk.insert(after(40), Job { op: 2, ..job }, &mut costs);
        assert_eq!(disk.take(after(40), &mut costs).is_none(), waits);
    }
}

#[test]
fn nobody_waits_for_a_disk_that_is_lost() {
    let ([mut disk, mut lost], mut costs) = beside_one_that_stalls();
    lost.lose_device(after(5), &mut costs);
    disk.completed(after(10), &write(1, 0, 9), &mut costs);
    disk.insert(after(11), write(2, 0, 9), &mut costs);
    assert!(disk.take(after(11), &mut costs).is_some());
    // What it ends yet is nobody's.
    lost.completed(after(12), &write(1, 0, 9), &mut costs);
    disk.completed(after(20), &write(2, 0, 9), &mut costs);
    assert!(costs.is_idle());
}
