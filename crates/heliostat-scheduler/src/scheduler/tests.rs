//! What holds for every scheduler.

use std::collections::BTreeMap;

use heliostat_types::{Duration, Extent, FlowId, Instant, LegId, OpKind, Prng, RandomStream};

use super::Scheduler;
use crate::costs::Costs;
use crate::job::{Class, Device, Job};
use crate::spec::{SCHEDULERS, SchedulerSpec};

fn device(leg: usize) -> Device {
    Device {
        leg: LegId::new(leg),
        rotational: true,
        caches_writes: false,
        queue_depth: 32,
        leg_count: 1,
    }
}

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

/// What the two legs of a mirror have.
struct Leg {
    scheduler: Scheduler,
    waiting: BTreeMap<u32, Job>,
    in_device: Vec<Job>,
}

impl Leg {
    fn new(index: usize, spec: &SchedulerSpec) -> Self {
        Self {
            scheduler: Scheduler::new(spec, device(index)),
            waiting: BTreeMap::new(),
            in_device: Vec::new(),
        }
    }

    fn take(&mut self, now: Instant, costs: &mut Costs) -> bool {
        if self.scheduler.next_deadline().is_some_and(|at| at <= now) {
            self.scheduler.on_deadline();
        }
        let next = self.scheduler.next(now, costs);
        assert_eq!(next, self.scheduler.take(now, costs));
        if let Some(job) = next {
            assert_eq!(self.waiting.remove(&job.op), next, "it waits");
            self.in_device.push(job);
        }
        next.is_some()
    }

    /// A read in the background is a client's from now on.
    fn take_on(&mut self, costs: &mut Costs) {
        let is_ahead = |job: &&mut Job| job.class == Class::Background && job.kind == OpKind::Read;
        if let Some(job) = self.waiting.values_mut().find(is_ahead) {
            (job.class, job.flow) = (Class::Read, FlowId(3));
            self.scheduler.take_on(job, costs);
        }
    }
}

#[test]
fn none_is_lost_or_doubled_whatever_is_switched() {
    for seed in 0..50 {
        let mut luck = RandomStream::new(seed, "scheduler", 0);
        let mut specs = specs();
        specs.push(SchedulerSpec::parse("deadline:nr_requests=3").unwrap());
        let mut legs = [Leg::new(0, &specs[0]), Leg::new(1, &specs[0])];
        let mut costs = Costs::new();
        let mut now = Instant::ZERO;
        for op in 0..4000 {
            now += Duration::from_us(luck.below(3000));
            let index = below(&mut luck, 2);
            let leg = &mut legs[index];
            match luck.below(8) {
                0..=2 => {
                    let job = any_job(&mut luck, op, now);
                    leg.waiting.insert(op, job);
                    leg.scheduler.insert(now, job, &mut costs);
                }
                3..=5 if leg.in_device.len() < 8 => {
                    leg.take(now, &mut costs);
                }
                6 if !leg.in_device.is_empty() => {
                    let at = below(&mut luck, leg.in_device.len());
                    let job = leg.in_device.swap_remove(at);
                    leg.scheduler.completed(now, &job, &mut costs);
                }
                7 if luck.below(8) == 0 => {
                    let gone = leg.waiting.keys().copied().filter(|op| op % 3 == 0);
                    let gone: Vec<u32> = gone.collect();
                    leg.scheduler.remove(&gone, &mut costs);
                    leg.waiting.retain(|op, _| op % 3 != 0);
                }
                7 if luck.below(2) == 0 => {
                    leg.take_on(&mut costs);
                }
                7 if luck.below(4) == 0 => {
                    let device = Device {
                        rotational: luck.below(4) > 0,
                        queue_depth: u32::try_from(luck.below(40)).unwrap(),
                        leg_count: u32::try_from(luck.below(4)).unwrap(),
                        ..device(index)
                    };
                    leg.scheduler.set_device(now, device, &mut costs);
                }
                7 => {
                    let spec = &specs[below(&mut luck, specs.len())];
                    leg.scheduler.switch(now, spec, &mut costs);
                }
                _ => {}
            }
            assert_eq!(leg.scheduler.len(), leg.waiting.len());
        }
        for leg in &mut legs {
            while !leg.waiting.is_empty() || !leg.in_device.is_empty() {
                if leg.take(now, &mut costs) {
                    continue;
                }
                if let Some(job) = leg.in_device.pop() {
                    leg.scheduler.completed(now, &job, &mut costs);
                } else {
                    let at = leg.scheduler.next_deadline();
                    now = at.expect("what is held back says until when").max(now);
                }
            }
            assert!(leg.scheduler.is_empty());
        }
        assert!(costs.is_idle(), "nobody has anything outstanding");
    }
}

#[test]
fn who_takes_over_has_all_in_order_of_arrival() {
    let mut costs = Costs::new();
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
    let mut scheduler = Scheduler::new(&specs[1], device(0));
    for job in [write(1, 30), write(2, 10), write(3, 20)] {
        scheduler.insert(now, job, &mut costs);
    }
    scheduler.switch(now, &specs[0], &mut costs);
    assert_eq!(scheduler.spec().name(), "none");
    let order: Vec<u32> =
        std::iter::from_fn(|| scheduler.take(now, &mut costs).map(|job| job.op)).collect();
    assert_eq!(order, [1, 2, 3]);
}
