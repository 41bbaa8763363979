//! Whichever scheduler there is, behind one face.

use std::collections::BTreeMap;

use heliostat_types::{Duration, FlowId, Instant};

use crate::costs::Costs;
use crate::deadline::Deadline;
use crate::fair::Fair;
use crate::job::{Device, FlowLimits, Job, Side};
use crate::none::Fifo;
use crate::spec::SchedulerSpec;

/// The stage in front of one leg.
#[derive(Debug)]
pub struct Scheduler {
    spec: SchedulerSpec,
    device: Device,
    /// What flows may have, of those of which anything is said.
    limits: BTreeMap<FlowId, FlowLimits>,
    order: Order,
}

#[derive(Debug)]
enum Order {
    None(Fifo),
    Deadline(Box<Deadline>),
    Fair(Box<Fair>),
}

impl Order {
    fn new(spec: &SchedulerSpec, device: Device) -> Self {
        match spec {
            SchedulerSpec::None => Self::None(Fifo::default()),
            SchedulerSpec::Deadline(settings) => Self::Deadline(Box::new(Deadline::new(*settings))),
            SchedulerSpec::Fair(settings) => Self::Fair(Box::new(Fair::new(*settings, device))),
        }
    }
}

impl Scheduler {
    /// Nothing waits.
    #[must_use]
    pub fn new(spec: &SchedulerSpec, device: Device) -> Self {
        Self {
            spec: *spec,
            device,
            limits: BTreeMap::new(),
            order: Order::new(spec, device),
        }
    }

    /// The same one with the same limits of flows and with nothing that waits, in front of another
    /// device.
    #[must_use]
    pub fn anew(&self, device: Device, costs: &mut Costs) -> Self {
        costs.forget(device.leg);
        let mut anew = Self::new(&self.spec, device);
        for (&flow, &limits) in &self.limits {
            anew.set_flow(flow, limits);
        }
        anew
    }

    /// Which one it is, and how it is tuned.
    #[must_use]
    pub const fn spec(&self) -> &SchedulerSpec {
        &self.spec
    }

    /// Another scheduler goes on with all that waits; or the same one with other tunables, and
    /// with what it has learned.
    pub fn switch(&mut self, now: Instant, spec: &SchedulerSpec, costs: &mut Costs) {
        self.spec = *spec;
        match (&mut self.order, spec) {
            (Order::None(_), SchedulerSpec::None) => {}
            (Order::Deadline(deadline), SchedulerSpec::Deadline(settings)) => {
                deadline.set(*settings);
            }
            (Order::Fair(fair), SchedulerSpec::Fair(settings)) => fair.set(*settings),
            _ => self.begin_anew(now, costs),
        }
    }

    /// The device is another one from now on, with what it has in hand and all that waits: legs
    /// behind it have come or gone.
    pub fn set_device(&mut self, now: Instant, device: Device, costs: &mut Costs) {
        let before = std::mem::replace(&mut self.device, device);
        if let Order::Fair(fair) = &mut self.order {
            if (before.leg, before.rotational) == (device.leg, device.rotational) {
                fair.set_device(device);
            } else {
                self.begin_anew(now, costs);
            }
        }
    }

    /// Another one goes on with all that waits, of this kind and in front of this device.
    fn begin_anew(&mut self, now: Instant, costs: &mut Costs) {
        let jobs = match &mut self.order {
            Order::None(fifo) => fifo.drain(),
            Order::Deadline(deadline) => deadline.drain(),
            Order::Fair(fair) => fair.drain(costs),
        };
        self.order = Order::new(&self.spec, self.device);
        if let Order::Fair(fair) = &mut self.order {
            for (&flow, limits) in &self.limits {
                fair.set_weight(flow, limits.weight);
            }
        }
        for job in jobs {
            self.insert(now, job, costs);
        }
    }

    /// The device is lost: what it has in hand counts no more, and no other one waits for it.
    pub fn lose_device(&mut self, now: Instant, costs: &mut Costs) {
        self.begin_anew(now, costs);
    }

    /// What a flow may have from now on.
    pub fn set_flow(&mut self, flow: FlowId, limits: FlowLimits) {
        if limits == FlowLimits::DEFAULT {
            self.limits.remove(&flow);
        } else {
            self.limits.insert(flow, limits);
        }
        if let Order::Fair(fair) = &mut self.order {
            fair.set_weight(flow, limits.weight);
        }
    }

    /// Whether flows have shares of the device that somebody has set.
    #[must_use]
    pub fn has_shares(&self) -> bool {
        matches!(&self.order, Order::Fair(fair) if fair.has_weights())
    }

    /// What a flow has outstanding at the device, as time that it is expected to take; nothing
    /// where the scheduler does not look at flows.
    #[must_use]
    pub fn outstanding(&self, flow: FlowId, costs: &Costs) -> Duration {
        Duration::from_ns(costs.outstanding_at_ns(self.device, flow))
    }

    /// A job comes.
    #[inline]
    pub fn insert(&mut self, _now: Instant, job: Job, costs: &mut Costs) {
        match &mut self.order {
            Order::None(fifo) => fifo.insert(job),
            Order::Deadline(deadline) => deadline.insert(job),
            Order::Fair(fair) => fair.insert(job, costs),
        }
    }

    /// The job that goes next; `None` where none waits, or none may go now. It stays the same until
    /// time passes, or something is said to this scheduler.
    #[inline]
    #[must_use]
    pub fn next(&mut self, now: Instant, costs: &mut Costs) -> Option<Job> {
        match &mut self.order {
            Order::None(fifo) => fifo.next(),
            Order::Deadline(deadline) => deadline.next(now),
            Order::Fair(fair) => fair.next(now, costs),
        }
    }

    /// Takes out what [`Scheduler::next`] names: the device gets it.
    #[inline]
    pub fn take(&mut self, now: Instant, costs: &mut Costs) -> Option<Job> {
        match &mut self.order {
            Order::None(fifo) => fifo.take(),
            Order::Deadline(deadline) => deadline.take(now),
            Order::Fair(fair) => fair.take(now, costs),
        }
    }

    /// A job that lies right beside `first`, which waits or waited here, and may be sent with it as
    /// one operation. Under `none` there is never any.
    #[must_use]
    pub fn adjoining(&self, first: &Job, side: Side) -> Option<Job> {
        match &self.order {
            Order::None(_) => None,
            Order::Deadline(deadline) => deadline.adjoining(first, side),
            Order::Fair(fair) => fair.adjoining(first, side),
        }
    }

    /// Takes out what [`Scheduler::adjoining`] names: the device gets it.
    pub fn take_adjoining(&mut self, first: &Job, side: Side, costs: &mut Costs) -> Option<Job> {
        match &mut self.order {
            Order::None(_) => None,
            Order::Deadline(deadline) => deadline.take_adjoining(first, side),
            Order::Fair(fair) => fair.take_adjoining(first, side, costs),
        }
    }

    /// The device has ended a job, well or not.
    #[inline]
    pub fn completed(&mut self, now: Instant, job: &Job, costs: &mut Costs) {
        if let Order::Fair(fair) = &mut self.order {
            fair.completed(now, job, costs);
        }
    }

    /// When to ask again for what goes next, although nothing has come and nothing has ended.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        match &self.order {
            Order::None(_) | Order::Deadline(_) => None,
            Order::Fair(fair) => fair.next_deadline(),
        }
    }

    /// The time of [`Scheduler::next_deadline`] has come: it is asked again now, where there is
    /// room.
    pub const fn on_deadline(&mut self) {
        if let Order::Fair(fair) = &mut self.order {
            fair.on_deadline();
        }
    }

    /// How many jobs wait.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.order {
            Order::None(fifo) => fifo.len(),
            Order::Deadline(deadline) => deadline.len(),
            Order::Fair(fair) => fair.len(),
        }
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A read that waits in the background is a client's from now on, as `job` says. What goes in
    /// order of arrival, or is not looked at yet, keeps its place.
    pub fn take_on(&mut self, job: &Job, costs: &mut Costs) {
        match &mut self.order {
            Order::None(fifo) => fifo.take_on(job),
            Order::Deadline(deadline) => deadline.take_on(job),
            Order::Fair(fair) => fair.take_on(job, costs),
        }
    }

    /// Takes out jobs that nobody needs any more, told by rising `op`.
    pub fn remove(&mut self, ops: &[u32], costs: &mut Costs) {
        let is_kept = |job: &Job| ops.binary_search(&job.op).is_err();
        match &mut self.order {
            Order::None(fifo) => fifo.retain(is_kept),
            Order::Deadline(deadline) => deadline.retain(&is_kept),
            Order::Fair(fair) => fair.retain(&is_kept, costs),
        }
    }
}

#[cfg(test)]
mod tests;
