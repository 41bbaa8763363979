//! Every decision of a policy as it is made, with what the policy saw: why this leg.

use std::fmt;
use std::ops::ControlFlow;

use heliostat_policy::{
    Belief, Late, LateRead, LegView, Observes, OpView, PolicySpec, Prefetch, ReadPlan, ReadPolicy,
    ReadRequest,
};
use heliostat_types::{Duration, Instant, LegId, Prng};
use serde_json::{Value, json};

/// One decision.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    /// Which one it is, from 0.
    pub number: u64,
    /// When, from the start of the run.
    pub at: Instant,
    /// When measuring begins.
    pub measured_from: Instant,
    /// The read that wanted a leg.
    pub request: &'a ReadRequest,
    /// What the policy saw of each leg that could serve it.
    pub legs: &'a [LegView],
    /// What the policy believed of each, as far as it predicts anything.
    pub beliefs: &'a [Option<Belief>],
    /// What it decided.
    pub plan: &'a ReadPlan,
}

/// A policy that tells `tell` what the one inside decides, and changes nothing.
pub struct Listener<F> {
    inner: Box<dyn ReadPolicy>,
    measured_from: Instant,
    told: u64,
    /// `None` after it said that it has heard enough.
    tell: Option<F>,
}

impl<F> Listener<F>
where
    F: FnMut(Decision<'_>) -> ControlFlow<()>,
{
    /// Listens to `inner`; measuring begins at `measured_from`.
    pub const fn new(inner: Box<dyn ReadPolicy>, measured_from: Instant, tell: F) -> Self {
        Self {
            inner,
            measured_from,
            told: 0,
            tell: Some(tell),
        }
    }
}

impl<F> fmt::Debug for Listener<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.inner).finish()
    }
}

/// Everything is passed on, also what has a default: the one inside may have its own.
impl<F> ReadPolicy for Listener<F>
where
    F: FnMut(Decision<'_>) -> ControlFlow<()> + Send,
{
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn observes(&self) -> Observes {
        self.inner.observes()
    }

    fn plan_read(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        prng: &mut dyn Prng,
    ) -> ReadPlan {
        let plan = self.inner.plan_read(now, request, legs, prng);
        if let Some(tell) = &mut self.tell {
            let beliefs = (0..legs.len()).map(|place| self.inner.belief(place));
            let beliefs: Vec<Option<Belief>> = beliefs.collect();
            let decision = Decision {
                number: self.told,
                at: now,
                measured_from: self.measured_from,
                request,
                legs,
                beliefs: &beliefs,
                plan: &plan,
            };
            self.told += 1;
            if tell(decision).is_break() {
                self.tell = None;
            }
        }
        plan
    }

    fn belief(&self, place: usize) -> Option<Belief> {
        self.inner.belief(place)
    }

    fn late_after(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        leg: &LegView,
    ) -> Option<Duration> {
        self.inner.late_after(now, request, leg)
    }

    fn on_late(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        late: LateRead,
        legs: &[LegView],
    ) -> Late {
        self.inner.on_late(now, request, late, legs)
    }

    fn prefetch(
        &mut self,
        now: Instant,
        request: Option<&ReadRequest>,
        legs: &[LegView],
        room_bytes: u64,
        prefetch: &mut Vec<Prefetch>,
    ) {
        self.inner
            .prefetch(now, request, legs, room_bytes, prefetch);
    }

    fn on_dispatch(&mut self, now: Instant, op: &OpView) {
        self.inner.on_dispatch(now, op);
    }

    fn on_complete(&mut self, now: Instant, op: &OpView, service_time: Duration, ok: bool) {
        self.inner.on_complete(now, op, service_time, ok);
    }

    fn on_leg_state(&mut self, leg: LegId, present: bool) {
        self.inner.on_leg_state(leg, present);
    }

    fn reset(&mut self, leg: Option<LegId>) {
        self.inner.reset(leg);
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.inner.configure(spec);
    }
}

impl Decision<'_> {
    /// Nanoseconds from the start of measuring; negative during the warm-up.
    fn ns(&self) -> i128 {
        i128::from(self.at.as_ns()) - i128::from(self.measured_from.as_ns())
    }

    /// The decision for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let extent = self.request.extent;
        let candidates = self.legs.iter().zip(self.beliefs);
        let candidates: Vec<Value> = candidates
            .map(|(view, belief)| candidate_json(view, *belief))
            .collect();
        let pieces: Vec<Value> = self
            .pieces()
            .map(|(leg, len_bytes)| json!({ "leg": leg.index(), "bytes": len_bytes }))
            .collect();
        json!({
            "decision": self.number,
            "at_ns": i64::try_from(self.ns()).unwrap_or(i64::MAX),
            "client": self.request.client.0,
            "offset": extent.offset(),
            "bytes": extent.len(),
            "pieces": pieces,
            "legs": candidates,
        })
    }

    /// The legs that were chosen, with how many bytes of the read each is to serve.
    fn pieces(&self) -> impl Iterator<Item = (LegId, u64)> {
        let (whole, cut) = match self.plan {
            ReadPlan::Leg(leg) => (Some((*leg, self.request.extent.len())), &[][..]),
            ReadPlan::Split(pieces) => (None, pieces.as_slice()),
        };
        let cut = cut.iter().map(|piece| (piece.leg, piece.len_bytes));
        whole.into_iter().chain(cut)
    }
}

fn candidate_json(view: &LegView, belief: Option<Belief>) -> Value {
    let mut candidate = json!({
        "leg": view.leg.index(),
        "address": view.address,
        "reads_in_flight": view.reads_in_flight,
        "writes_in_flight": view.writes_in_flight,
        "read_bytes_in_flight": view.read_bytes_in_flight,
        "write_bytes_in_flight": view.write_bytes_in_flight,
        "last_sent_end": view.last_sent_end,
        "rotational": view.rotational,
        "read_preferred": view.read_preferred,
        "queue_depth": view.queue_depth,
        "reads_completed": view.reads_completed,
        "read_wait_ns": view.read_wait.as_ns(),
    });
    if let Some(belief) = belief {
        candidate["predicted_ns"] = json!(belief.cost.as_ns());
        candidate["slow"] = json!(belief.is_slow);
        candidate["turns"] = json!(belief.turns);
    }
    candidate
}

impl fmt::Display for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.ns();
        let sign = if ns < 0 { "-" } else { "" };
        let (seconds, rest) = (ns.abs() / 1_000_000_000, ns.abs() % 1_000_000_000);
        let extent = self.request.extent;
        write!(
            f,
            "{sign}{seconds}.{rest:09} r{} client {} read {}+{}:",
            self.number,
            self.request.client.0,
            extent.offset(),
            extent.len()
        )?;
        let is_split = matches!(self.plan, ReadPlan::Split(_));
        for (index, (leg, len_bytes)) in self.pieces().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma} leg {}", leg.index())?;
            if is_split {
                write!(f, " for {len_bytes}")?;
            }
        }
        f.write_str(" of [")?;
        for (index, (view, belief)) in self.legs.iter().zip(self.beliefs).enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{}", ViewText(view))?;
            if let Some(belief) = belief {
                let slow = if belief.is_slow {
                    ", slow just now"
                } else {
                    ""
                };
                let turns = if belief.turns { ", turns" } else { "" };
                write!(f, ", predicted {}{slow}{turns}", belief.cost)?;
            }
        }
        f.write_str("]")
    }
}

/// What is seen of one leg, in a few words.
struct ViewText<'a>(&'a LegView);

impl fmt::Display for ViewText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = self.0;
        let kib = (view.read_bytes_in_flight + view.write_bytes_in_flight) / 1024;
        write!(
            f,
            "{}: {} reads {} writes {kib} KiB",
            view.leg.index(),
            view.reads_in_flight,
            view.writes_in_flight
        )?;
        match view.last_sent_end {
            Some(end) => write!(f, ", last end {end}")?,
            None => f.write_str(", nothing sent yet")?,
        }
        if let Some(mean_ns) = view.read_wait.as_ns().checked_div(view.reads_completed) {
            write!(f, ", mean {}", Duration::from_ns(mean_ns))?;
        }
        if view.rotational {
            f.write_str(", rotational")?;
        }
        if view.read_preferred {
            f.write_str(", preferred")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
