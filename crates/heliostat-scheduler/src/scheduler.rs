//! Whichever scheduler there is, behind one face.

use heliostat_types::{FlowId, Instant};

use crate::deadline::Deadline;
use crate::job::{Device, FlowLimits, Job, Side};
use crate::none::Fifo;
use crate::spec::SchedulerSpec;

/// The stage in front of one leg.
#[derive(Debug)]
pub struct Scheduler {
    spec: SchedulerSpec,
    order: Order,
}

#[derive(Debug)]
enum Order {
    None(Fifo),
    Deadline(Box<Deadline>),
}

impl Order {
    fn new(spec: &SchedulerSpec) -> Self {
        match spec {
            SchedulerSpec::None => Self::None(Fifo::default()),
            SchedulerSpec::Deadline(settings) => Self::Deadline(Box::new(Deadline::new(*settings))),
        }
    }
}

impl Scheduler {
    /// Nothing waits.
    #[must_use]
    pub fn new(spec: &SchedulerSpec, _device: Device) -> Self {
        Self {
            spec: *spec,
            order: Order::new(spec),
        }
    }

    /// The same one with the same limits of flows and with nothing that waits, in front of another
    /// device.
    #[must_use]
    pub fn anew(&self, device: Device) -> Self {
        Self::new(&self.spec, device)
    }

    /// Which one it is, and how it is tuned.
    #[must_use]
    pub const fn spec(&self) -> &SchedulerSpec {
        &self.spec
    }

    /// Another scheduler goes on with all that waits; or the same one with other tunables, and
    /// with what it has learned.
    pub fn switch(&mut self, now: Instant, spec: &SchedulerSpec) {
        self.spec = *spec;
        match (&mut self.order, spec) {
            (Order::None(_), SchedulerSpec::None) => {}
            (Order::Deadline(deadline), SchedulerSpec::Deadline(settings)) => {
                deadline.set(*settings);
            }
            _ => {
                let jobs = match &mut self.order {
                    Order::None(fifo) => fifo.drain(),
                    Order::Deadline(deadline) => deadline.drain(),
                };
                self.order = Order::new(spec);
                for job in jobs {
                    self.insert(now, job);
                }
            }
        }
    }

    /// What a flow may have from now on.
    pub const fn set_flow(&mut self, _flow: FlowId, _limits: FlowLimits) {}

    /// A job comes.
    #[inline]
    pub fn insert(&mut self, _now: Instant, job: Job) {
        match &mut self.order {
            Order::None(fifo) => fifo.insert(job),
            Order::Deadline(deadline) => deadline.insert(job),
        }
    }

    /// The job that goes next; `None` where none waits, or none may go now. It stays the same until
    /// time passes, or something is said to this scheduler.
    #[inline]
    #[must_use]
    pub fn next(&mut self, now: Instant) -> Option<Job> {
        match &mut self.order {
            Order::None(fifo) => fifo.next(),
            Order::Deadline(deadline) => deadline.next(now),
        }
    }

    /// Takes out what [`Scheduler::next`] names: the device gets it.
    #[inline]
    pub fn take(&mut self, now: Instant) -> Option<Job> {
        match &mut self.order {
            Order::None(fifo) => fifo.take(),
            Order::Deadline(deadline) => deadline.take(now),
        }
    }

    /// A job that lies right beside `first`, which waits or waited here, and may be sent with it as
    /// one operation. Under `none` there is never any.
    #[must_use]
    pub fn adjoining(&self, first: &Job, side: Side) -> Option<Job> {
        match &self.order {
            Order::None(_) => None,
            Order::Deadline(deadline) => deadline.adjoining(first, side),
        }
    }

    /// Takes out what [`Scheduler::adjoining`] names: the device gets it.
    pub fn take_adjoining(&mut self, _now: Instant, first: &Job, side: Side) -> Option<Job> {
        match &mut self.order {
            Order::None(_) => None,
            Order::Deadline(deadline) => deadline.take_adjoining(first, side),
        }
    }

    /// The device has ended a job, well or not. It got it at `dispatched`.
    #[inline]
    pub const fn completed(&mut self, _now: Instant, _job: &Job, _dispatched: Instant) {}

    /// When to ask again for what goes next, although nothing has come and nothing has ended.
    #[must_use]
    pub const fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// How many jobs wait.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.order {
            Order::None(fifo) => fifo.len(),
            Order::Deadline(deadline) => deadline.len(),
        }
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out jobs that nobody needs any more, told by rising `op`.
    pub fn remove(&mut self, ops: &[u32]) {
        let is_kept = |job: &Job| ops.binary_search(&job.op).is_err();
        match &mut self.order {
            Order::None(fifo) => fifo.retain(is_kept),
            Order::Deadline(deadline) => deadline.retain(&is_kept),
        }
    }
}

#[cfg(test)]
mod tests;
