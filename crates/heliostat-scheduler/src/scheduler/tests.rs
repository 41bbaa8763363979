//! What holds for every scheduler.

use heliostat_types::{Duration, Extent, FlowId, Instant, OpKind, Prng, RandomStream};

use super::Scheduler;
use crate::job::{Class, Device, Job};
use crate::spec::{SCHEDULERS, SchedulerSpec};

const DEVICE: Device = Device {
    rotational: true,
    queue_depth: 32,
};

fn specs() -> Vec<SchedulerSpec> {
    let specs = SCHEDULERS
        .iter()
        .map(|(name, _)| SchedulerSpec::parse(name));
    specs.collect::<Result<_, _>>().unwrap()
}

fn below(luck: &mut RandomStream, count: usize) -> usize {
    usize::try_from(luck.below(count as u64)).unwrap()
}

fn any_job(luck: &mut RandomStream, op: u32, now: Instant) -> Job {
    let kinds = [
        (OpKind::Read, Class::Read),
        (OpKind::Write, Class::Write),
        (OpKind::Write, Class::Urgent),
        (OpKind::Flush, Class::Urgent),
        (OpKind::Trim, Class::Write),
        (OpKind::Read, Class::Background),
        (OpKind::Write, Class::Background),
    ];
    let (kind, class) = kinds[below(luck, kinds.len())];
    let blocks = u64::from(kind != OpKind::Flush);
    Job {
        op,
        flow: FlowId(u32::try_from(luck.below(4)).unwrap()),
        kind,
        class,
        extent: Extent::new(luck.below(64) * 4096, blocks * 4096),
        arrived: now,
    }
}

#[test]
fn none_is_lost_or_doubled_whatever_is_switched() {
    for seed in 0..50 {
        let mut luck = RandomStream::new(seed, "scheduler", 0);
        let specs = specs();
        let mut scheduler = Scheduler::new(&specs[0], DEVICE);
        let mut now = Instant::ZERO;
        let mut waiting = std::collections::BTreeSet::new();
        let mut in_device: Vec<(Job, Instant)> = Vec::new();
        let mut ops = 0;
        for _ in 0..2000 {
            now += Duration::from_us(luck.below(3000));
            match luck.below(8) {
                0..=2 => {
                    ops += 1;
                    let job = any_job(&mut luck, ops, now);
                    waiting.insert(job.op);
                    scheduler.insert(now, job);
                }
                3..=5 if in_device.len() < 8 => {
                    let next = scheduler.next(now);
                    assert_eq!(next, scheduler.take(now));
                    if let Some(job) = next {
                        assert!(waiting.remove(&job.op), "{job:?} waits");
                        in_device.push((job, now));
                    }
                }
                6 if !in_device.is_empty() => {
                    let at = below(&mut luck, in_device.len());
                    let (job, since) = in_device.swap_remove(at);
                    scheduler.completed(now, &job, since);
                }
                7 if luck.below(8) == 0 => {
                    let gone: Vec<u32> = waiting.iter().copied().filter(|op| op % 3 == 0).collect();
                    scheduler.remove(&gone);
                    waiting.retain(|op| op % 3 != 0);
                }
                7 => scheduler.switch(now, &specs[below(&mut luck, specs.len())]),
                _ => {}
            }
            assert_eq!(scheduler.len(), waiting.len());
        }
        for (job, since) in in_device.drain(..) {
            scheduler.completed(now, &job, since);
        }
        while !waiting.is_empty() {
            let Some(job) = scheduler.take(now) else {
                let at = scheduler.next_deadline();
                now = at.expect("what is held back says until when").max(now);
                continue;
            };
            assert!(waiting.remove(&job.op));
            scheduler.completed(now, &job, now);
        }
        assert!(scheduler.is_empty());
    }
}

#[test]
fn who_takes_over_has_all_in_order_of_arrival() {
    let write = |op, block: u64| Job {
        op,
        flow: FlowId(0),
        kind: OpKind::Write,
        class: Class::Write,
        extent: Extent::new(block * 4096, 4096),
        arrived: Instant::ZERO,
    };
    let now = Instant::ZERO;
    let specs = specs();
    let mut scheduler = Scheduler::new(&specs[1], DEVICE);
    for job in [write(1, 30), write(2, 10), write(3, 20)] {
        scheduler.insert(now, job);
    }
    scheduler.switch(now, &specs[0]);
    assert_eq!(scheduler.spec().name(), "none");
    let order: Vec<u32> = std::iter::from_fn(|| scheduler.take(now).map(|job| job.op)).collect();
    assert_eq!(order, [1, 2, 3]);
}
