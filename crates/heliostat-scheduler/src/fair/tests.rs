//! Orders computed by hand, and shares of a device that does one thing after the other.

use heliostat_types::{Duration, Extent, FlowId, Instant, OpKind};

use super::{Fair, FairSettings};
use crate::job::{Class, Device, FlowLimits, Job};

const DISK: Device = Device {
    rotational: true,
    queue_depth: 32,
};

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_ms(ms)
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

fn with(jobs: &[Job]) -> Fair {
    let mut fair = Fair::new(FairSettings::DEFAULT, DISK);
    for job in jobs {
        fair.insert(*job);
    }
    fair
}

fn order(fair: &mut Fair, count: usize) -> Vec<u32> {
    let take = || {
        let next = fair.next();
        assert_eq!(next, fair.next(), "asking changes nothing");
        assert_eq!(next, fair.take(Instant::ZERO));
        next.map(|job| job.op)
    };
    std::iter::from_fn(take).take(count).collect()
}

#[test]
fn a_turn_is_a_sweep_of_the_oldest() {
    // 16 operations of 8 ms each in each queue: a turn is a quarter of that, and a sweep of four.
    // The next one is 28 ms, a sweep of three that leaves something for another one.
    let first = (1..=16).map(|op| write(op, 0, u64::from(100 - op)));
    let second = (21..=36).map(|op| write(op, 1, u64::from(op % 2)));
    let jobs: Vec<Job> = first.chain(second).collect();
    let mut fair = with(&jobs);
    assert_eq!(order(&mut fair, 8), [4, 3, 2, 1, 22, 21, 23, 24]);
    assert_eq!(fair.len(), 24);
}

#[test]
fn reads_interrupt_writes_of_others() {
    let mut fair = with(&[write(1, 0, 1), write(2, 0, 2), write(3, 0, 3)]);
    assert_eq!(order(&mut fair, 1), [1]);
    fair.insert(read(4, 1, 90));
    fair.insert(write(5, 2, 91));
    assert_eq!(
        order(&mut fair, 9),
        [4, 5, 2, 3],
        "then the newcomer's writes"
    );
}

#[test]
fn reads_pass_writes_of_their_own_flow_for_two_turns() {
    let mut jobs = vec![write(100, 0, 1), write(101, 0, 2)];
    jobs.extend((1..=16).map(|op| read(op, 0, u64::from(op) + 10)));
    let mut fair = with(&jobs);
    // A turn of 36 ms has time for four, and begins a fifth one; in the next, of 26 ms and for
    // three, a sixth read is the last that may pass.
    let expected: Vec<u32> = (1..=6).chain([100, 101]).chain(7..=16).collect();
    assert_eq!(order(&mut fair, 20), expected);
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
    assert_eq!(order[16..], [1, 26, 27, 28, 29, 2]);
}

/// A flow that keeps so many jobs waiting, each of which takes the device so long.
#[derive(Clone, Copy)]
struct Load {
    depth: u32,
    cost_ms: u64,
    class: Class,
    /// How many it has done, and the longest that one took, in ms.
    done: u64,
    longest_ms: u64,
}

impl Load {
    const fn new(depth: u32, cost_ms: u64) -> Self {
        Self {
            depth,
            cost_ms,
            class: Class::Write,
            done: 0,
            longest_ms: 0,
        }
    }

    const fn device_ms(&self) -> u64 {
        self.done * self.cost_ms
    }
}

/// Lets flows load a device, which does one thing after the other, for so long.
fn run(loads: &mut [Load], weights: &[u32], seconds: u64) {
    let mut fair = Fair::new(FairSettings::DEFAULT, DISK);
    for (flow, &weight) in (0..).zip(weights) {
        fair.set_weight(FlowId(flow), weight);
    }
    let (mut now, mut ops) = (Instant::ZERO, 0);
    let mut ask = |fair: &mut Fair, flow: u32, class, now| {
        ops += 1;
        fair.insert(Job {
            class,
            arrived: now,
            ..write(ops, flow, u64::from(ops))
        });
    };
    for (flow, load) in (0..).zip(loads.iter()) {
        for _ in 0..load.depth {
            ask(&mut fair, flow, load.class, now);
        }
    }
    while now < at_ms(seconds * 1000) {
        let next = fair.next();
        let job = fair.take(now).expect("all flows have jobs waiting");
        assert_eq!(next, Some(job), "what was said to go next goes");
        let load = &mut loads[usize::try_from(job.flow.0).unwrap()];
        now += Duration::from_ms(load.cost_ms);
        load.done += 1;
        load.longest_ms = load.longest_ms.max((now - job.arrived).as_ms());
        fair.completed(now, &job);
        ask(&mut fair, job.flow.0, load.class, now);
    }
}

/// Whether `part` is a share of `all`, in percent, give or take 2.
fn is_share(part: u64, all: u64, percent: u64) -> bool {
    (part * 100).abs_diff(all * percent) <= 2 * all
}

#[test]
fn equal_flows_have_equal_times_whatever_they_ask_for() {
    // The backlogs are equal, so that nobody waits for longer than for that.
    let mut loads = [Load::new(8, 20), Load::new(32, 5)];
    run(&mut loads, &[], 200);
    let [large, small] = loads.map(|load| load.device_ms());
    assert!(is_share(large, large + small, 50), "{large} {small}");
}

#[test]
fn weights_are_shares() {
    let mut loads = [Load::new(32, 5); 3];
    run(&mut loads, &[100, 200, 400], 300);
    let times = loads.map(|load| load.device_ms());
    let all = times.iter().sum();
    assert!(is_share(times[0], all, 14), "{times:?}");
    assert!(is_share(times[1], all, 29), "{times:?}");
    assert!(is_share(times[2], all, 57), "{times:?}");
}

#[test]
fn depth_buys_little() {
    let mut loads = [Load::new(1000, 5), Load::new(10, 5)];
    run(&mut loads, &[], 100);
    let [deep, shallow] = loads.map(|load| load.device_ms());
    let share = 100 * shallow / (deep + shallow);
    assert!((38..=51).contains(&share), "{share} %");
    // Ten operations of its own and as many of the other one, and a few turns.
    assert!(loads[1].longest_ms <= 500, "{} ms", loads[1].longest_ms);
}

#[test]
fn nobody_waits_for_much_longer_than_the_backlog() {
    for depth in [16, 32, 64, 256] {
        let mut loads = [Load::new(depth, 10); 20];
        for load in &mut loads[10..] {
            load.cost_ms = 5;
        }
        run(&mut loads, &[], 400 + u64::from(depth) * 10);
        let backlog_ms: u64 = loads
            .iter()
            .map(|load| u64::from(load.depth) * load.cost_ms)
            .sum();
        let longest = loads.iter().map(|load| load.longest_ms).max().unwrap();
        assert!(
            longest * 100 <= backlog_ms * 150,
            "depth {depth}: {longest} of {backlog_ms} ms"
        );
    }
}

#[test]
fn who_was_idle_has_saved_up_nothing() {
    let mut fair = with(&[write(1, 0, 1)]);
    // Flow 0 has had all of the device for a minute.
    let mut now = Instant::ZERO;
    for op in 2..=6001 {
        let job = fair.take(now).unwrap();
        now += Duration::from_ms(10);
        fair.insert(write(op, 0, u64::from(op)));
        fair.completed(now, &job);
    }
    for op in 0..400 {
        fair.insert(write(10_000 + op, 1, u64::from(op)));
        fair.insert(write(20_000 + op, 0, u64::from(op)));
    }
    let mut flows = Vec::new();
    for _ in 0..200 {
        let job = fair.take(now).unwrap();
        now += Duration::from_ms(10);
        fair.completed(now, &job);
        flows.push(job.flow.0);
    }
    assert_eq!(flows[6], 1, "it has a turn soon");
    let had = flows.iter().filter(|flow| **flow == 1).count();
    assert!((90..=110).contains(&had), "{had} of 200");
}

#[test]
fn the_background_has_a_sixteenth_of_a_busy_leg() {
    let mut loads = [Load::new(32, 5), Load::new(4, 5)];
    loads[1].class = Class::Background;
    run(&mut loads, &[], 100);
    let [clients, background] = loads.map(|load| load.device_ms());
    let share = 1000 * background / (clients + background);
    assert!((55..=70).contains(&share), "{share} of 1000");
    let mut alone = [Load::new(4, 5)];
    alone[0].class = Class::Background;
    run(&mut alone, &[], 10);
    assert_eq!(alone[0].device_ms(), 10_000);
}

#[test]
fn the_usual_weight_is_forgotten() {
    let mut fair = with(&[]);
    fair.set_weight(FlowId(3), 7);
    fair.set_weight(FlowId(3), FlowLimits::WEIGHT_DEFAULT);
    assert!(fair.weights.is_empty());
}
