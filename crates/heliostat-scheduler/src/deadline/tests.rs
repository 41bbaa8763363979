//! Orders computed by hand.

use heliostat_types::{Duration, Extent, FlowId, Instant, OpKind};

use super::{Deadline, DeadlineSettings};
use crate::job::{Class, Job, Side};

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_ms(ms)
}

/// A job of 4 KiB at block `block`.
fn job(op: u32, class: Class, kind: OpKind, block: u64, arrived_ms: u64) -> Job {
    Job {
        op,
        flow: FlowId(0),
        kind,
        class,
        extent: Extent::new(block * 4096, 4096),
        arrived: at_ms(arrived_ms),
    }
}

fn read(op: u32, block: u64) -> Job {
    job(op, Class::Read, OpKind::Read, block, 0)
}

fn write(op: u32, block: u64) -> Job {
    job(op, Class::Write, OpKind::Write, block, 0)
}

fn with(settings: DeadlineSettings, jobs: &[Job]) -> Deadline {
    let mut deadline = Deadline::new(settings);
    for job in jobs {
        deadline.insert(*job);
    }
    deadline
}

/// The order in which all that is left goes at one moment.
fn order(deadline: &mut Deadline, ms: u64) -> Vec<u32> {
    let now = at_ms(ms);
    std::iter::from_fn(|| {
        let next = deadline.next(now);
        assert_eq!(next, deadline.next(now), "asking changes nothing");
        let taken = deadline.take(now);
        assert_eq!(next, taken);
        taken.map(|job| job.op)
    })
    .collect()
}

#[test]
fn a_batch_goes_up_and_the_next_one_begins_with_the_oldest() {
    let jobs = [
        read(1, 50),
        read(2, 10),
        read(3, 70),
        read(4, 30),
        read(5, 5),
    ];
    let mut deadline = with(DeadlineSettings::DEFAULT, &jobs[..4]);
    assert_eq!(deadline.take(at_ms(0)).unwrap().op, 2);
    assert_eq!(deadline.take(at_ms(0)).unwrap().op, 4, "upwards");
    deadline.insert(jobs[4]);
    assert_eq!(
        order(&mut deadline, 0),
        [1, 3, 5],
        "behind the last one first"
    );
}

#[test]
fn a_batch_ends_and_goes_on_behind_itself() {
    let settings = DeadlineSettings {
        fifo_batch: 2,
        ..DeadlineSettings::DEFAULT
    };
    // Writes are passed over twice: two batches of reads, then one of writes.
    let jobs = [
        write(1, 1),
        write(2, 2),
        write(3, 3),
        read(4, 40),
        read(5, 50),
        read(6, 60),
        read(7, 70),
        read(8, 80),
    ];
    let mut deadline = with(settings, &jobs);
    assert_eq!(order(&mut deadline, 0), [4, 5, 6, 7, 1, 2, 8, 3]);
}

#[test]
fn what_has_expired_begins_the_next_batch() {
    let settings = DeadlineSettings {
        fifo_batch: 2,
        ..DeadlineSettings::DEFAULT
    };
    let jobs = [
        job(1, Class::Read, OpKind::Read, 90, 0),
        job(2, Class::Read, OpKind::Read, 10, 100),
        job(3, Class::Read, OpKind::Read, 20, 100),
        job(4, Class::Read, OpKind::Read, 30, 100),
    ];
    assert_eq!(order(&mut with(settings, &jobs), 499), [2, 3, 4, 1]);
    // At 500 ms the first one has waited long enough; behind it there is nothing, and the second
    // is the oldest then.
    assert_eq!(order(&mut with(settings, &jobs), 500), [1, 2, 3, 4]);
}

#[test]
fn writes_wait_for_five_seconds_at_most_beside_writes() {
    let jobs = [
        job(1, Class::Write, OpKind::Write, 90, 0),
        job(2, Class::Write, OpKind::Trim, 10, 0),
    ];
    let all = |ms| order(&mut with(DeadlineSettings::DEFAULT, &jobs), ms);
    assert_eq!(all(4999), [2, 1]);
    assert_eq!(all(5000), [1, 2]);
}

#[test]
fn what_is_urgent_goes_first_but_not_for_ever() {
    let settings = DeadlineSettings {
        fifo_batch: 2,
        ..DeadlineSettings::DEFAULT
    };
    let urgent = |op| job(op, Class::Urgent, OpKind::Write, 7, 0);
    let jobs = [
        read(1, 1),
        read(2, 2),
        urgent(3),
        urgent(4),
        urgent(5),
        urgent(6),
    ];
    assert_eq!(order(&mut with(settings, &jobs), 0), [3, 4, 1, 5, 6, 2]);
}

#[test]
fn the_background_waits_for_half_a_second_at_most() {
    let resync = |op, block| job(op, Class::Background, OpKind::Read, block, 0);
    let jobs = [resync(1, 5), resync(2, 1), write(3, 9), read(4, 20)];
    let all = |ms| order(&mut with(DeadlineSettings::DEFAULT, &jobs), ms);
    assert_eq!(all(499), [4, 3, 2, 1]);
    assert_eq!(all(500), [1, 2, 4, 3], "expired: in order of arrival");
}

#[test]
fn beyond_nr_requests_it_is_arrival_that_counts() {
    let settings = DeadlineSettings {
        nr_requests: 2,
        ..DeadlineSettings::DEFAULT
    };
    // Two of them are sorted at a time, and the next one comes in as one goes: the read of 4 is
    // seen when 2 has gone, and 5 when 4 has.
    let jobs = [
        write(1, 30),
        write(2, 10),
        write(3, 20),
        read(4, 1),
        read(5, 2),
    ];
    let mut all = with(settings, &jobs);
    assert_eq!(all.len(), 5);
    assert_eq!(order(&mut all, 0), [2, 3, 1, 4, 5]);

    // What is urgent is seen at once; who leaves makes room, and none is lost by a switch.
    let urgent = job(6, Class::Urgent, OpKind::Write, 7, 0);
    let mut some = with(settings, &jobs);
    some.insert(urgent);
    some.retain(&|job| job.op != 1 && job.op != 2 && job.op != 5);
    assert_eq!(some.len(), 3);
    assert_eq!(order(&mut some, 0), [6, 4, 3]);
    let mut drained = with(settings, &jobs);
    let ops: Vec<u32> = drained.drain().iter().map(|job| job.op).collect();
    assert_eq!((ops, drained.len()), (vec![1, 2, 3, 4, 5], 0));

    // What is outside keeps its place when it is another one.
    let resync = |op| job(op, Class::Background, OpKind::Read, 50, 0);
    let mut changed = with(
        settings,
        &[resync(1), write(2, 10), resync(3), write(4, 20)],
    );
    for op in [1, 3] {
        changed.take_on(&read(op, 50));
    }
    assert_eq!(changed.len(), 4);
    assert_eq!(order(&mut changed, 0), [1, 3, 2, 4]);

    // More are looked at from the moment on that this is set.
    let mut more = with(settings, &jobs);
    more.set(DeadlineSettings::DEFAULT);
    assert_eq!(order(&mut more, 0), [4, 5, 2, 3, 1]);
    let mut fewer = with(DeadlineSettings::DEFAULT, &jobs);
    fewer.set(settings);
    fewer.insert(read(6, 0));
    assert_eq!(order(&mut fewer, 0), [4, 5, 2, 3, 1, 6]);
}

#[test]
fn neighbours_are_found_on_both_sides() {
    let other_flow = Job {
        flow: FlowId(1),
        ..write(4, 12)
    };
    let first = write(1, 10);
    let jobs = [first, write(2, 11), write(3, 9), other_flow, read(5, 12)];
    let mut deadline = with(DeadlineSettings::DEFAULT, &jobs);
    assert_eq!(deadline.adjoining(&first, Side::Back), Some(jobs[1]));
    assert_eq!(deadline.adjoining(&first, Side::Front), Some(jobs[2]));
    assert_eq!(
        deadline.adjoining(&jobs[1], Side::Back),
        None,
        "of another flow"
    );
    assert_eq!(deadline.take_adjoining(&first, Side::Back), Some(jobs[1]));
    assert_eq!(deadline.adjoining(&first, Side::Back), None);
    assert_eq!(deadline.len(), 4);
    // Its neighbours may go on being asked for when it is gone itself.
    deadline.retain(&|job| job.op != 1);
    assert_eq!(deadline.adjoining(&first, Side::Front), Some(jobs[2]));
}
