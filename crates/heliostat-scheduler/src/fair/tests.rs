//! Orders computed by hand, and shares of a device that does one thing after the other.

use heliostat_types::{Duration, Extent, FlowId, Instant, LegId, OpKind};

use super::{Fair, FairSettings};
use crate::costs::{Costs, Work};
use crate::job::{Class, Device, FlowLimits, Job, Side};

mod sweep;
mod together;

pub(super) fn device(rotational: bool) -> Device {
    Device {
        leg: LegId::new(0),
        rotational,
        caches_writes: false,
        queue_depth: 32,
        leg_count: 1,
    }
}

fn write(op: u32, flow: u32, block: u64) -> Job {
    Job {
        op,
        flow: FlowId(flow),
        kind: OpKind::Write,
        class: Class::Write,
        extent: Extent::new(block * 4096, 4096),
        arrived: Instant::ZERO,
    }
}

fn read(op: u32, flow: u32, block: u64) -> Job {
    Job {
        kind: OpKind::Read,
        class: Class::Read,
        ..write(op, flow, block)
    }
}

fn with(jobs: &[Job]) -> (Fair, Costs, Instant) {
    with_on(device(true), jobs)
}

fn with_on(device: Device, jobs: &[Job]) -> (Fair, Costs, Instant) {
    let mut costs = Costs::new();
    let mut fair = Fair::new(FairSettings::DEFAULT, device);
    for job in jobs {
        fair.insert(*job, &mut costs);
    }
    (fair, costs, Instant::ZERO)
}

/// The next ones, each of which the device ends after 5 ms, before it gets another.
fn order((fair, costs, now): &mut (Fair, Costs, Instant), count: usize) -> Vec<u32> {
    let take = || {
        let next = fair.next(*now, costs);
        assert_eq!(next, fair.next(*now, costs), "asking changes nothing");
        let job = fair.take(*now, costs);
        assert_eq!(next, job);
        let job = job?;
        *now += Duration::from_ms(5);
        fair.completed(*now, &job, costs);
        Some(job.op)
    };
    std::iter::from_fn(take).take(count).collect()
}

#[test]
fn sparse_jobs_in_a_row_go_as_one() {
    let mut jobs: Vec<Job> = (0..200)
        .map(|op| write(op, 0, u64::from(op) * 10))
        .collect();
    jobs.extend((0..3).map(|op| write(1000 + op, 1, 9000 + u64::from(op))));
    // Beside it, and not what goes with it: of another client, and read.
    jobs.push(write(1003, 2, 9003));
    jobs.push(read(1004, 1, 8999));
    let mut one = with(&jobs[..200]);
    // What a write takes is known then.
    assert_eq!(order(&mut one, 100).len(), 100);
    let (mut fair, mut costs, now) = one;
    let busy = fair.take(now, &mut costs).unwrap();
    for job in &jobs[200..] {
        fair.insert(*job, &mut costs);
    }
    let waiting = fair.len();
    let first = fair.take(now, &mut costs).unwrap();
    assert_eq!(first.op, 1000);
    let second = fair.take_adjoining(&first, Side::Back, &mut costs).unwrap();
    assert_eq!(fair.adjoining(&second, Side::Back), Some(jobs[202]));
    let third = fair
        .take_adjoining(&second, Side::Back, &mut costs)
        .unwrap();
    assert_eq!((second.op, third.op), (1001, 1002));
    assert_eq!(fair.adjoining(&third, Side::Back), None);
    assert_eq!(fair.adjoining(&first, Side::Front), None);
    assert_eq!(fair.len(), waiting - 3);
    for job in [busy, third, first, second] {
        fair.completed(now, &job, &mut costs);
    }
    // What is left goes by itself.
    assert_eq!(order(&mut (fair, costs, now), 2), [1003, 1004]);
}

#[test]
fn who_was_served_before_the_sweep_has_his_place_in_it() {
    let mut jobs: Vec<Job> = (0..400)
        .map(|op| write(op, 0, u64::from(op) * 10))
        .collect();
    jobs.extend((0..60).map(|op| write(1000 + op, 1, 8000 + u64::from(op) * 10)));
    let mut one = with(&jobs);
    while one.0.flows[&FlowId(1)].here_ns > 0 {
        assert_eq!(order(&mut one, 1).len(), 1);
    }
    // On to a sweep that has not come that far.
    while one.0.round.is_empty() || one.0.round.heads[super::round::WRITES] > 8000 * 4096 {
        assert_eq!(order(&mut one, 1).len(), 1);
    }
    let (mut fair, mut costs, now) = one;
    assert_eq!(fair.flows[&FlowId(1)].rounds(), 1);
    fair.insert(write(2000, 1, 9000), &mut costs);
    let first = fair.take(now, &mut costs).unwrap();
    assert_eq!(first.op, 2000);
    // Beside it, so that it has something outstanding all along.
    fair.insert(write(2001, 1, 9010), &mut costs);
    fair.completed(now, &first, &mut costs);
    for op in 2002..2010 {
        fair.insert(write(op, 1, u64::from(op) * 10), &mut costs);
    }
    let flow = &fair.flows[&FlowId(1)];
    assert!(flow.here_ns > fair.round.quantum / super::SPARSE_PART);
    assert_eq!(flow.later.len(), 0, "they wait for no other sweep");
}

/// What is beside a sweep of writes of one client that has got somewhere, with the device busy.
fn beside_a_sweep() -> (Fair, Costs, Instant) {
    let jobs: Vec<Job> = (0..400)
        .map(|op| write(op, 0, u64::from(op) * 10))
        .collect();
    let mut one = with(&jobs);
    // What a write takes is known then.
    assert_eq!(order(&mut one, 100).len(), 100);
    assert!(!one.0.round.is_empty());
    one
}

#[test]
fn streams_that_take_turns_are_charged_as_streams() {
    // Four of them, the last one downwards, and what can go with none of them.
    let mut jobs: Vec<Job> = (0..40)
        .map(|op| {
            let (stream, at) = (op % 4, op / 4);
            let at = if stream == 3 { 9 - at } else { at };
            write(op, 0, u64::from(stream * 1000 + at))
        })
        .collect();
    jobs.push(write(100, 1, 10));
    jobs.push(read(101, 0, 2010));
    jobs.push(Job {
        kind: OpKind::Trim,
        ..write(102, 0, 10)
    });
    jobs.push(Job {
        class: Class::Urgent,
        ..write(103, 0, 1010)
    });
    let (mut fair, mut costs, now) = with(&jobs);
    let is_stream = |fair: &Fair, job: &Job| fair.asked[&job.op].work == Work::of(job, true);
    let streams = |fair: &Fair| -> Vec<u32> {
        let waiting = jobs.iter().filter(|job| fair.asked.contains_key(&job.op));
        waiting
            .filter(|job| is_stream(fair, job))
            .map(|job| job.op)
            .collect()
    };
    fair.set(FairSettings {
        quantum: Duration::from_secs(100),
        ..FairSettings::DEFAULT
    });
    assert_eq!(streams(&fair), [], "none has its place");
    assert_eq!(fair.next(now, &mut costs), Some(jobs[43]));
    assert_eq!(streams(&fair), (4..40).collect::<Vec<u32>>());
    assert_eq!(order(&mut (fair, costs, now), 100).len(), jobs.len());
}

#[test]
fn what_has_gone_is_nobodys_neighbour() {
    for is_dropped in [false, true] {
        let (mut fair, mut costs, now) = with(&[write(1, 0, 100)]);
        let expected_ns = |fair: &mut Fair, costs: &mut Costs, job: Job| {
            fair.insert(job, costs);
            fair.asked[&job.op].ns
        };
        let random_ns = expected_ns(&mut fair, &mut costs, write(2, 0, 500));
        assert!(expected_ns(&mut fair, &mut costs, write(3, 0, 101)) < random_ns);
        assert_eq!(fair.take(now, &mut costs).map(|job| job.op), Some(1));
        if is_dropped {
            fair.retain(&|job| job.op != 3, &mut costs);
        } else {
            assert!(
                fair.take_adjoining(&write(1, 0, 100), Side::Back, &mut costs)
                    .is_some()
            );
        }
        assert_eq!(
            expected_ns(&mut fair, &mut costs, write(4, 0, 700)),
            random_ns
        );
        assert_eq!(
            expected_ns(&mut fair, &mut costs, write(5, 0, 102)),
            random_ns
        );
    }
}

#[test]
fn what_lies_beside_what_waits_for_a_later_round_is_charged_as_random() {
    // Two blocks of each of many files: first all first ones, then all second ones.
    let jobs: Vec<Job> = (0..200)
        .map(|op| write(op, 0, u64::from(op % 100) * 1000 + u64::from(op / 100)))
        .collect();
    let (mut fair, mut costs, mut now) = with(&jobs);
    let (mut charged, mut seeks, mut arm) = (0, 0, None);
    while let Some(job) = fair.take(now, &mut costs) {
        let is_seek = arm != Some(job.extent.offset());
        seeks += u64::from(is_seek);
        now += Duration::from_us(if is_seek { 5000 } else { 50 });
        arm = Some(job.extent.end());
        let asked = fair.meter.jobs().next().unwrap();
        charged += u64::from(asked.work == Work::of(&job, false));
        fair.completed(now, &job, &mut costs);
    }
    assert!(seeks > 110, "{seeks} in rounds that are too short");
    assert_eq!(charged, seeks);
}

#[test]
fn a_random_client_that_goes_on_by_chance_makes_no_short_round() {
    let (mut fair, mut costs, now) = beside_a_sweep();
    // The sort that is new is first in line when the next round begins.
    fair.retain(&|_| false, &mut costs);
    for op in 1000..1200 {
        let block = if op == 1101 { 11_001 } else { op * 10 };
        fair.insert(write(op, 1, u64::from(block)), &mut costs);
    }
    fair.retain(&|job| job.op > 1100, &mut costs);
    assert_eq!(fair.asked[&1101].work, Work::of(&write(0, 1, 0), true));
    assert!(!costs.is_known(true, Work::of(&read(0, 1, 0), true)));
    assert!(fair.take(now, &mut costs).is_some());
    assert_eq!(fair.round.quantum, fair.quantum_max());
}

#[test]
fn what_takes_the_arm_away_from_the_sweep_counts_twice() {
    let (mut fair, mut costs, now) = beside_a_sweep();
    let counts = |fair: &mut Fair, costs: &mut Costs, job: Job| {
        fair.insert(job, costs);
        let ns = fair.asked[&job.op].ns;
        let flow = fair.flows.get_mut(&job.flow).unwrap();
        (flow.begin_sparse(0, 0) - fair.share_ns) / ns
    };
    assert_eq!(counts(&mut fair, &mut costs, write(1000, 1, 9000)), 2);
    assert_eq!(counts(&mut fair, &mut costs, read(1001, 2, 9000)), 1);
    // Where the round has reads, they have to be gone back to.
    for op in 0..100 {
        fair.insert(read(2000 + op, 3, u64::from(op) * 10), &mut costs);
    }
    while fair.round.lines[super::round::READS].is_empty() {
        let job = fair.take(now, &mut costs).expect("jobs wait");
        fair.completed(now, &job, &mut costs);
    }
    assert_eq!(counts(&mut fair, &mut costs, read(1002, 4, 9000)), 2);
}

#[test]
fn what_goes_before_the_sweep_takes_it_nowhere() {
    let mut jobs: Vec<Job> = (0..400)
        .map(|op| write(op, 0, u64::from(op) * 10))
        .collect();
    // One client's low down, and one far up.
    jobs.extend((0..40).map(|op| write(1000 + op, 1, u64::from(op) * 5)));
    jobs.push(write(1040, 1, 9000));
    let mut one = with(&jobs);
    while one.0.flows[&FlowId(1)].here_ns > 10_000_000 {
        assert_eq!(order(&mut one, 1).len(), 1);
    }
    let (mut fair, mut costs, now) = one;
    let head = fair.round.heads[super::round::WRITES];
    let far = fair.round.lines[super::round::WRITES].from(9000 * 4096);
    assert_eq!(far.map(|(_, job)| job.op), Some(1040));
    assert!((1..9000 * 4096).contains(&head));
    // Beside that one.
    fair.insert(write(1041, 1, 9001), &mut costs);
    let first = fair.take(now, &mut costs).unwrap();
    assert_eq!(first.op, 1041);
    let with_it = fair.take_adjoining(&first, Side::Front, &mut costs);
    assert_eq!(with_it.map(|job| job.op), Some(1040));
    assert_eq!(fair.round.heads[super::round::WRITES], head);
}

#[test]
fn sparse_jobs_are_kept_dropped_and_handed_over() {
    let (mut fair, mut costs, now) = beside_a_sweep();
    let sparse = [write(1000, 1, 9000), write(1001, 1, 9001), read(1002, 2, 5)];
    for job in sparse {
        fair.insert(job, &mut costs);
    }
    let all = fair.len();
    fair.retain(&|job| job.op != 1000, &mut costs);
    assert_eq!(fair.len(), all - 1);
    let first = fair.take(now, &mut costs).unwrap();
    assert_eq!(first, sparse[2]);
    assert_eq!(fair.adjoining(&sparse[1], Side::Front), None);
    let rest = fair.drain(&mut costs);
    assert_eq!(rest.len(), all - 2);
    assert_eq!(rest.last(), Some(&sparse[1]), "in order of arrival");
    assert_eq!((fair.len(), costs.is_idle()), (0, true));
}

#[test]
fn what_the_array_needs_goes_first_but_not_for_ever() {
    let metadata = |op| Job {
        class: Class::Urgent,
        ..write(op, FlowId::ARRAY.0, 0)
    };
    let mut jobs = vec![write(1, 0, 1), write(2, 0, 2)];
    jobs.extend((10..30).map(metadata));
    let order = order(&mut with(&jobs), 30);
    assert_eq!(order[..16], (10..26).collect::<Vec<u32>>());
    assert_eq!(order[16], 1);
    assert_eq!(order.len(), 22);
}

/// A flow that keeps so many jobs waiting, each of which takes the device so long.
#[derive(Clone, Copy)]
struct Load {
    depth: u32,
    cost_us: u64,
    blocks: u64,
    class: Class,
    /// How many it has done, and the longest that one took after a quarter of the time, in us.
    done: u64,
    longest_us: u64,
}

impl Load {
    const fn new(depth: u32, cost_us: u64, blocks: u64) -> Self {
        Self {
            depth,
            cost_us,
            blocks,
            class: Class::Write,
            done: 0,
            longest_us: 0,
        }
    }

    const fn device_us(&self) -> u64 {
        self.done * self.cost_us
    }
}

/// Lets flows load a device, which does one thing after the other, for so many milliseconds.
fn run(rotational: bool, loads: &mut [Load], weights: &[u32], ms: u64) {
    let mut costs = Costs::new();
    let mut fair = Fair::new(FairSettings::DEFAULT, device(rotational));
    for (flow, &weight) in (0..).zip(weights) {
        fair.set_weight(FlowId(flow), weight);
    }
    let (mut now, mut ops) = (Instant::ZERO, 0_u32);
    let mut ask = |fair: &mut Fair, costs: &mut Costs, flow: u32, load: &Load, now| {
        ops += 1;
        let block = (u64::from(flow) << 20) + u64::from(ops.wrapping_mul(40_503) % 9973) * 64;
        let job = Job {
            class: load.class,
            arrived: now,
            extent: Extent::new(block * 4096, load.blocks * 4096),
            ..write(ops, flow, 0)
        };
        fair.insert(job, costs);
    };
    for (flow, load) in (0..).zip(loads.iter()) {
        for _ in 0..load.depth {
            ask(&mut fair, &mut costs, flow, load, now);
        }
    }
    while now < Instant::ZERO + Duration::from_ms(ms) {
        let next = fair.next(now, &mut costs);
        let job = fair
            .take(now, &mut costs)
            .expect("all flows have jobs waiting");
        assert_eq!(next, Some(job), "what was said to go next goes");
        let load = &mut loads[usize::try_from(job.flow.0).unwrap()];
        now += Duration::from_us(load.cost_us);
        load.done += 1;
        if job.arrived >= Instant::ZERO + Duration::from_ms(ms / 4) {
            load.longest_us = load.longest_us.max((now - job.arrived).as_us());
        }
        fair.completed(now, &job, &mut costs);
        ask(&mut fair, &mut costs, job.flow.0, load, now);
    }
}

#[test]
fn who_is_behind_goes_on_with_the_round_of_the_one_that_is_furthest() {
    let mut costs = Costs::new();
    let mut disks = [0, 1, 2].map(|leg| {
        let leg = LegId::new(leg);
        let disk = Device {
            leg,
            ..device(true)
        };
        Fair::new(FairSettings::DEFAULT, disk)
    });
    let mut now = Instant::ZERO;
    let mut does = |disk: &mut Fair, costs: &mut Costs| {
        let job = disk.take(now, costs).or_else(|| {
            // It has waited for the others for long enough.
            now += Duration::from_secs(10);
            disk.take(now, costs)
        });
        let job = job.expect("jobs wait");
        now += Duration::from_secs(10);
        disk.completed(now, &job, costs);
        disk.insert(write(job.op, 0, 9), costs);
    };
    for disk in &mut disks {
        disk.insert(write(1, 0, 9), &mut costs);
        disk.insert(write(2, 0, 9), &mut costs);
        does(disk, &mut costs);
    }
    while disks[2].round.number < 10 {
        does(&mut disks[2], &mut costs);
    }
    while disks[0].round.number < 10 {
        let before = disks[0].round.number;
        does(&mut disks[0], &mut costs);
        let after = disks[0].round.number;
        assert!(after == before || after >= 10, "{before} and then {after}");
    }
}

/// Where jobs are short and weights large, each job is a fraction of a nanosecond for each.
#[test]
fn time_goes_on_for_many_large_weights() {
    const FLOWS: u32 = 120;
    let mut costs = Costs::new();
    let mut fair = Fair::new(FairSettings::DEFAULT, device(false));
    for flow in 0..FLOWS {
        fair.set_weight(FlowId(flow), FlowLimits::WEIGHT_MAX);
        fair.insert(read(flow, flow, 7 * u64::from(flow)), &mut costs);
    }
    let mut now = Instant::ZERO;
    let mut before = 0;
    for number in 0..5_000 {
        if number == 4_000 {
            // By now it is known how short they are.
            before = fair.share_ns;
        }
        let job = fair.take(now, &mut costs).expect("jobs wait");
        now += Duration::from_us(2);
        fair.completed(now, &job, &mut costs);
        fair.insert(job, &mut costs);
    }
    assert!(fair.share_ns > before, "nothing was shared out in {now:?}");
}

#[test]
fn a_whole_array_is_given_as_much_as_all_its_legs() {
    let array = |leg_count| Device {
        leg_count,
        queue_depth: 128,
        ..device(true)
    };
    let large = |op| Job {
        extent: Extent::new(u64::from(op) << 30, 1 << 20),
        ..write(op, 0, 0)
    };
    let with_many = |leg_count| {
        let (mut costs, settings) = (Costs::new(), FairSettings::DEFAULT);
        let mut fair = Fair::new(settings, array(leg_count));
        for op in 0..100 {
            fair.insert(large(op), &mut costs);
        }
        (fair, costs)
    };
    // One of 1 MiB after the other, until the device has enough.
    let take = |(fair, costs): &mut (Fair, Costs)| {
        std::iter::from_fn(|| fair.take(Instant::ZERO, costs)).count()
    };
    assert_eq!([1, 4].map(|legs| take(&mut with_many(legs))), [8, 32]);
    // Legs come and go.
    let mut changing = with_many(2);
    assert_eq!(take(&mut changing), 16);
    changing.0.set_device(array(3));
    assert_eq!(take(&mut changing), 8);
    changing.0.set_device(array(1));
    for op in 0..17 {
        assert_eq!(take(&mut changing), 0, "{op} have ended");
        changing
            .0
            .completed(Instant::ZERO, &large(op), &mut changing.1);
    }
    assert_eq!(take(&mut changing), 1);
}

#[test]
fn weights_are_shares() {
    for (rotational, ms) in [(true, 600_000), (false, 60_000)] {
        let mut loads = [Load::new(32, 5000, 1); 3];
        run(rotational, &mut loads, &[100, 200, 400], ms);
        let times = loads.map(|load| load.device_us());
        let all: u64 = times.iter().sum();
        let shares = times.map(|time| time * 1000 / all);
        assert!((136..=150).contains(&shares[0]), "{shares:?}");
        assert!((272..=300).contains(&shares[1]), "{shares:?}");
        assert!((543..=600).contains(&shares[2]), "{shares:?}");
    }
}

/// The parts that two clients with 64 jobs each have of a disk, in which each move of the arm takes
/// 5 ms and each block 50 us, in thousandths: one asks for what `block` says, one at random.
fn beside_random(block: fn(u32) -> u64) -> u64 {
    let (mut fair, mut costs, mut now) = with(&[]);
    let mut ops = [0, 0];
    let mut ask = |flow: u32| {
        let op = &mut ops[if flow == 0 { 0 } else { 1 }];
        *op += 1;
        match flow {
            0 => write(*op * 2, 0, block(*op)),
            _ => write(
                *op * 2 + 1,
                1,
                (1 << 20) + u64::from(op.wrapping_mul(40_503) % 99_991) * 64,
            ),
        }
    };
    for flow in [0, 1] {
        for _ in 0..64 {
            fair.insert(ask(flow), &mut costs);
        }
    }
    let mut times_us = [0, 0];
    while now < Instant::ZERO + Duration::from_secs(200) {
        let first = fair.take(now, &mut costs).expect("jobs wait");
        let mut row = vec![first];
        while let Some(next) = fair.take_adjoining(&row[row.len() - 1], Side::Back, &mut costs) {
            row.push(next);
        }
        while let Some(next) = fair.take_adjoining(&row[0], Side::Front, &mut costs) {
            row.insert(0, next);
        }
        let took_us = 5000 + 50 * row.len() as u64;
        now += Duration::from_us(took_us);
        times_us[usize::try_from(first.flow.0).unwrap()] += took_us;
        for job in row {
            fair.completed(now, &job, &mut costs);
            fair.insert(ask(job.flow.0), &mut costs);
        }
    }
    1000 * times_us[0] / (times_us[0] + times_us[1])
}

#[test]
fn who_asks_for_streams_in_turn_has_his_share_of_time_and_no_more() {
    let random = |op: u32| u64::from(op.wrapping_mul(65_537) % 9_973) * 64;
    let one = |op| u64::from(op);
    let eight = |op| u64::from(op % 8 * 10_000 + op / 8);
    // Each block beside one that was asked for half a queue before.
    let pairs = |op| u64::from(op / 64 * 64 + op % 32) * 64 + u64::from(op % 64 / 32);
    let shares = [random, one, eight, pairs].map(beside_random);
    let bounds = [490..=510, 240..=510, 400..=510, 490..=510];
    let are_right = shares
        .iter()
        .zip(bounds)
        .all(|(share, bound)| bound.contains(share));
    assert!(are_right, "{shares:?} of 1000");
}

#[test]
fn a_round_is_held_for_who_comes_back_and_not_for_what_has_stalled() {
    let (mut fair, mut costs, now) = with(&[]);
    for (flow, weight) in [(0, 100), (1, 400)] {
        fair.set_weight(FlowId(flow), weight);
    }
    fair.set_weight(FlowId(1), 400);
    for op in 0..16 {
        fair.insert(write(op, 0, u64::from(op) * 10), &mut costs);
        fair.insert(write(100 + op, 1, 1000 + u64::from(op) * 10), &mut costs);
    }
    let take = |fair: &mut Fair, costs: &mut Costs, now| {
        let taken = std::iter::from_fn(|| fair.take(now, costs));
        let taken: Vec<Job> = taken.collect();
        let flow = |flow| taken.iter().filter(|job| job.flow == FlowId(flow)).count();
        ([flow(0), flow(1)], taken)
    };
    let (counts, taken) = take(&mut fair, &mut costs, now);
    // The device would take 32.
    assert!(
        counts[0] * 4 <= counts[1] + 4 && counts[1] < 17,
        "{counts:?}"
    );
    assert!(fair.len() > 0);
    let until = fair.next_deadline().expect("it looks again");
    // One of the small one's comes back; those of the large one do not.
    let own = taken.iter().find(|job| job.flow == FlowId(0)).unwrap();
    fair.completed(now, own, &mut costs);
    assert_eq!(fair.take(now, &mut costs), None);
    assert_eq!(fair.next_deadline(), Some(until));
    fair.on_deadline();
    let (counts, _) = take(&mut fair, &mut costs, until);
    assert!(counts[0] > 0, "{counts:?}");
    // It is not waited for again before something of it has ended.
    let small: Vec<&Job> = taken.iter().filter(|job| job.flow == FlowId(0)).collect();
    fair.completed(until, small[1], &mut costs);
    for op in 200..216 {
        fair.insert(write(op, 0, u64::from(op) * 10), &mut costs);
    }
    assert!(fair.take(until, &mut costs).is_some());
    assert!(!fair.flows[&FlowId(1)].is_awaited);
    let large = taken.iter().find(|job| job.flow == FlowId(1)).unwrap();
    fair.completed(until, large, &mut costs);
    assert!(fair.flows[&FlowId(1)].is_awaited);
}

#[test]
fn nothing_is_awaited_once_a_round_may_begin() {
    let (mut fair, mut costs, now) = with(&[]);
    fair.set_weight(FlowId(1), 400);
    for op in 0..16 {
        fair.insert(write(op, 0, u64::from(op) * 10), &mut costs);
        fair.insert(write(100 + op, 1, 1000 + u64::from(op) * 10), &mut costs);
    }
    let in_device: Vec<Job> = std::iter::from_fn(|| fair.take(now, &mut costs)).collect();
    assert!(fair.next_deadline().is_some());
    for job in in_device.iter().filter(|job| job.flow == FlowId(1)) {
        fair.completed(now, job, &mut costs);
        fair.insert(write(job.op + 100, 1, u64::from(job.op)), &mut costs);
    }
    assert!(fair.take(now, &mut costs).is_some());
    assert_eq!(fair.next_deadline(), None);
}

#[test]
fn depth_buys_twice_at_most() {
    for rotational in [true, false] {
        let mut loads = [Load::new(1000, 5000, 1), Load::new(10, 5000, 1)];
        run(rotational, &mut loads, &[], 200_000);
        let [deep, shallow] = loads.map(|load| load.device_us());
        let share = 1000 * shallow / (deep + shallow);
        assert!((300..=510).contains(&share), "{share} of 1000");
        let longest = loads[1].longest_us;
        assert!(longest <= 1_000_000, "{longest} us");
    }
}

#[test]
fn nobody_waits_for_much_longer_than_the_backlog() {
    for depth in [16, 32, 64] {
        let mut loads = [Load::new(depth, 8000, 256); 20];
        for load in &mut loads[10..] {
            *load = Load::new(depth, 4000, 1);
        }
        run(true, &mut loads, &[], 60_000 + u64::from(depth) * 1000);
        let backlog: u64 = loads
            .iter()
            .map(|load| u64::from(load.depth) * load.cost_us)
            .sum();
        let longest = loads.iter().map(|load| load.longest_us).max().unwrap();
        assert!(
            longest * 100 <= backlog * 150,
            "depth {depth}: {longest} of {backlog} us"
        );
    }
}

#[test]
fn the_background_has_a_sixteenth_of_a_busy_leg() {
    // Also where each comes when the last one has gone.
    for depth in [1, 4] {
        let mut loads = [Load::new(32, 5000, 1), Load::new(depth, 5000, 1)];
        loads[1].class = Class::Background;
        run(true, &mut loads, &[], 100_000);
        let [clients, background] = loads.map(|load| load.device_us());
        let share = 1000 * background / (clients + background);
        assert!((55..=70).contains(&share), "{depth}: {share} of 1000");
    }
}

#[test]
fn the_usual_weight_is_forgotten() {
    let (mut fair, ..) = with(&[]);
    fair.set_weight(FlowId(3), 7);
    fair.set_weight(FlowId(3), FlowLimits::WEIGHT_DEFAULT);
    assert!(fair.weights.is_empty());
}

#[test]
fn a_read_that_a_disk_never_ends_holds_the_sweep_for_a_second() {
    let mut costs = Costs::new();
    let disk = Device {
        caches_writes: true,
        ..device(true)
    };
    let mut fair = Fair::new(FairSettings::DEFAULT, disk);
    for job in [write(0, 0, 0), read(0, 0, 0)] {
        for _ in 0..40 {
            costs.learn(true, Work::of(&job, false), 4e6);
        }
    }
    let at = |ms| Instant::ZERO + Duration::from_ms(ms);
    for op in 0..200 {
        fair.insert(write(op, 0, u64::from(op) * 10), &mut costs);
    }
    let first = fair.take(at(0), &mut costs).expect("one of the sweep");
    fair.insert(read(1000, 1, 90), &mut costs);
    let kept = fair.take(at(1), &mut costs).expect("it is sparse");
    assert_eq!(kept.op, 1000);
    fair.completed(at(60), &first, &mut costs);
    assert_eq!(fair.next(at(60), &mut costs), None, "the read goes first");
    let until = fair.next_deadline().expect("nothing else wakes it");
    assert_eq!(until, at(1001));
    fair.on_deadline();
    assert!(fair.next(until, &mut costs).is_some());
}
