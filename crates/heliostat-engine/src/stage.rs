//! The stage in front of the whole array: which of the requests that clients have sent goes in
//! next. The same schedulers as in front of a leg, which see the array's addresses here.
//!
//! As a Linux block device with a scheduler has it: of all requests only so many
//! ([`SchedulerSpec::array_requests_max`]) are looked at, those that are being done among them; the
//! rest wait outside in order of arrival. So many are being done at once as the legs take
//! operations: more would only wait again, in front of legs and in order of arrival.
//!
//! Any order is right. A request that waits here has not begun: it holds no lock, no bit is set for
//! it, and a client that has not been answered can rely on no order. Flushes are about what was
//! answered before, and block-status queries about nothing that changes: both go by.
//!
//! Writes that wait here have their bytes in the arena already. So as long as something waits for
//! memory, all that is here goes in: whoever waits for memory has a place, and whoever has memory
//! would wait for a place.

use std::collections::{BTreeMap, VecDeque};

use heliostat_scheduler::{Class, Costs, Device, FlowLimits, Job, Scheduler, SchedulerSpec};
use heliostat_types::{FlowId, Instant, LegId, LegSet, OpKind};

use crate::api::{Config, LegConfig, RequestKind, SchedulerPlace};
use crate::asked::{Admitted, AskedId};
use crate::engine::{Engine, Turn};
use crate::map::Map;
use crate::slab::Slab;

/// See the module.
#[derive(Debug)]
pub(crate) struct Stage {
    queue: Scheduler,
    /// What it knows of the legs.
    device: Device,
    /// What it has learned.
    costs: Costs,
    /// What the scheduler looks at, and nothing where that is being done: its number is another
    /// one's only when it has been answered.
    inside: Slab<Option<Admitted>>,
    /// What it does not look at yet.
    outside: VecDeque<Admitted>,
    begun: BTreeMap<AskedId, Begun>,
    /// Of those, whichever were answered by this input.
    answered: Vec<AskedId>,
    /// How many operations those that are being done are taken for.
    places_taken: u64,
    /// Something was said to it since it was last asked.
    is_due: bool,
}

/// A request that is being done.
#[derive(Clone, Copy, Debug)]
struct Begun {
    job: Job,
    places: u64,
}

impl Stage {
    /// The stage that an array has, where it has one.
    pub(crate) fn of(config: &Config) -> Option<Box<Self>> {
        if config.scheduler_on != SchedulerPlace::Array {
            return None;
        }
        let device = device_of(config.legs.iter());
        Some(Box::new(Self {
            queue: Scheduler::new(&config.scheduler, device),
            device,
            costs: Costs::new(),
            inside: Slab::new(),
            outside: VecDeque::new(),
            begun: BTreeMap::new(),
            answered: Vec::new(),
            places_taken: 0,
            is_due: false,
        }))
    }

    /// Whether nothing is here.
    pub(crate) fn is_empty(&self) -> bool {
        self.inside.is_empty() && self.outside.is_empty()
    }

    /// When the scheduler wants to be asked again.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.queue.next_deadline()
    }

    pub(crate) fn switch(&mut self, now: Instant, spec: &SchedulerSpec) {
        self.queue.switch(now, spec, &mut self.costs);
        self.is_due = true;
    }

    pub(crate) fn set_flow(&mut self, flow: FlowId, limits: FlowLimits) {
        self.queue.set_flow(flow, limits);
        self.is_due = true;
    }

    /// The time has come that it told.
    pub(crate) const fn on_deadline(&mut self) {
        self.queue.on_deadline();
        self.is_due = true;
    }

    /// Whether something may go in now; `is_short`: something waits for memory.
    pub(crate) fn is_due(&self, is_short: bool) -> bool {
        self.is_due || is_short && !(self.queue.is_empty() && self.outside.is_empty())
    }

    /// A request was answered; its place is free when this input has been seen to.
    pub(crate) fn on_answer(&mut self, id: AskedId) {
        self.answered.push(id);
        self.is_due = true;
    }

    /// A request comes.
    pub(crate) fn insert(&mut self, now: Instant, request: Admitted) {
        self.outside.push_back(request);
        self.let_in(now);
        self.is_due = true;
    }

    /// The scheduler sees what there is room for.
    fn let_in(&mut self, now: Instant) {
        let requests_max = self.queue.spec().array_requests_max();
        while requests_max.is_none_or(|max| self.inside.len() < max)
            && let Some(request) = self.outside.pop_front()
        {
            let job = Job {
                arrived: now,
                ..job_of(&request)
            };
            let op = self.inside.insert(Some(request));
            self.queue.insert(now, Job { op, ..job }, &mut self.costs);
        }
    }

    /// The legs that are written to now, since one may have come or gone.
    fn look_at_legs<'a>(&mut self, now: Instant, legs: impl Iterator<Item = &'a LegConfig>) {
        let device = device_of(legs);
        if device != self.device {
            self.device = device;
            self.queue.set_device(now, device, &mut self.costs);
        }
    }

    /// Those that were answered are done with.
    fn settle(&mut self, now: Instant) {
        self.is_due = false;
        for id in std::mem::take(&mut self.answered) {
            // Flushes and queries went by.
            if let Some(begun) = self.begun.remove(&id) {
                self.places_taken -= begun.places;
                self.inside.remove(begun.job.op);
                self.queue.completed(now, &begun.job, &mut self.costs);
            }
        }
        self.let_in(now);
    }

    /// The request that is begun now; all are, one after the other, where memory `is_short`.
    fn next(
        &mut self,
        now: Instant,
        is_short: bool,
        places_of: impl Fn(&Admitted) -> u64,
    ) -> Option<Admitted> {
        if is_short && !self.queue.is_empty() {
            let mut inside = self.inside.iter();
            let waiting = inside.find_map(|(op, request)| request.as_ref().map(|_| op));
            let op = waiting.expect("one waits");
            drop(inside);
            let request = self.inside.remove(op);
            self.queue.remove(&[op], &mut self.costs);
            self.let_in(now);
            return request;
        }
        if is_short && let Some(request) = self.outside.pop_front() {
            // All that are looked at have begun, and may be those that wait for memory.
            return Some(request);
        }
        let job = self.queue.next(now, &mut self.costs)?;
        let request = self.inside.get(job.op).and_then(Option::as_ref);
        let places = places_of(request.expect("it waits"));
        let places_max = u64::from(self.device.queue_depth);
        if self.places_taken + places > places_max && self.places_taken > 0 {
            return None;
        }
        self.queue.take(now, &mut self.costs);
        let request = self.inside[job.op].take();
        self.places_taken += places;
        let begun = Begun { job, places };
        let request = request.expect("it waits");
        self.begun.insert(request.id, begun);
        Some(request)
    }
}

/// What a scheduler knows of all legs together.
fn device_of<'a>(legs: impl Iterator<Item = &'a LegConfig>) -> Device {
    let none = Device {
        leg: LegId::new(0),
        rotational: false,
        caches_writes: true,
        queue_depth: 0,
        leg_count: 0,
    };
    legs.fold(none, |all, leg| Device {
        rotational: all.rotational || leg.rotational,
        // Where one does not, answers say what work takes as well.
        caches_writes: all.caches_writes && leg.caches_writes,
        queue_depth: all.queue_depth.saturating_add(leg.queue_depth),
        leg_count: all.leg_count + 1,
        ..all
    })
}

/// What a scheduler sees of a request.
fn job_of(request: &Admitted) -> Job {
    let (kind, extent, fua) = match request.kind {
        RequestKind::Read { extent } => (OpKind::Read, extent, false),
        RequestKind::Write { extent, fua, .. } => (OpKind::Write, extent, fua),
        RequestKind::Trim { extent, fua } => (OpKind::Trim, extent, fua),
        RequestKind::WriteZeroes { extent, fua, .. } => (OpKind::WriteZeroes, extent, fua),
        RequestKind::Flush | RequestKind::BlockStatus { .. } => {
            unreachable!("these go by")
        }
    };
    Job {
        op: 0,
        flow: request.flow,
        kind,
        class: if fua {
            Class::Urgent
        } else if kind == OpKind::Read {
            Class::Read
        } else {
            Class::Write
        },
        extent,
        arrived: Instant::ZERO,
    }
}

/// How many operations a request is taken for: what its first byte takes.
fn places_of(map: &Map, writable: LegSet, request: &Admitted) -> u64 {
    let job = job_of(request);
    if job.kind == OpKind::Read {
        return 1;
    }
    let legs = map.holders(job.extent.offset()).intersection(writable);
    legs.iter().count() as u64
}

impl Engine {
    /// Begins what the stage in front of the array lets in.
    #[inline(never)]
    pub(crate) fn run_stage(&mut self, turn: &mut Turn<'_>) {
        if let Some(stage) = &mut self.stage {
            stage.look_at_legs(turn.now, self.legs.written_to());
        }
        while let Some(stage) = &mut self.stage {
            stage.settle(turn.now);
            let (map, writable) = (&self.config.map, self.legs.writable());
            let is_short = !self.waiting.is_empty();
            let places_of = |request: &Admitted| places_of(map, writable, request);
            let Some(request) = stage.next(turn.now, is_short, places_of) else {
                return;
            };
            self.start(turn, request);
        }
    }
}
