//! Listening to a policy: every decision as it is made, with what the policy saw, and what it
//! believes of the legs. `heliostat sim --trace` and `heliostat explain` both go through it.

use std::fmt;

use heliostat_types::{Duration, Extent, Instant, LegId, Prng};

use crate::api::{
    Belief, Checkpoint, Late, LateRead, Layout, LegView, Observes, OpView, Prefetch, ReadPlan,
    ReadPolicy, ReadRequest,
};
use crate::beliefs::{LegBeliefs, StreamBelief, Weight};
use crate::spec::PolicySpec;

/// One decision.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    /// When.
    pub at: Instant,
    /// The read that wanted a leg.
    pub request: &'a ReadRequest,
    /// What the policy saw of each leg that could serve it.
    pub legs: &'a [LegView],
    /// What the policy believed of each, as far as it predicts anything.
    pub beliefs: &'a [Option<Belief>],
    /// What it weighed each at, as far as it goes by that.
    pub weights: &'a [Option<Weight>],
    /// What it decided.
    pub plan: &'a ReadPlan,
    /// Which part of its rule decided, where it has several.
    pub reason: Option<&'static str>,
}

impl Decision<'_> {
    /// The legs that were chosen, with how many bytes of the read each is to serve.
    pub fn pieces(&self) -> impl Iterator<Item = (LegId, u64)> {
        let (whole, cut) = match self.plan {
            ReadPlan::Leg(leg) => (Some((*leg, self.request.extent.len())), &[][..]),
            ReadPlan::Split(pieces) => (None, pieces.as_slice()),
        };
        let cut = cut.iter().map(|piece| (piece.leg, piece.len_bytes));
        whole.into_iter().chain(cut)
    }
}

/// Somebody who listens to a policy.
pub trait Listen: Send {
    /// Whether there is anybody to tell. While there is not, a policy that is listened to costs a
    /// call and a branch more.
    fn is_on(&self) -> bool;

    /// The policy has decided.
    fn on_decision(&mut self, decision: &Decision<'_>);

    /// The policy wants these bytes read ahead.
    fn on_prefetch(&mut self, _now: Instant, _prefetch: &[Prefetch]) {}

    /// The policy wants `leg` asked for a read as well that another one is late with.
    fn on_hedge(&mut self, _now: Instant, _request: &ReadRequest, _late: LateRead, _leg: LegId) {}

    /// The policy was given its tunables, which may be those that it has: a moment to look at it,
    /// also where nobody reads.
    fn on_configured(&mut self, _policy: &dyn ReadPolicy) {}
}

/// A policy to which somebody listens, who changes nothing.
pub struct Listener<L> {
    inner: Box<dyn ReadPolicy>,
    listen: L,
}

impl<L> Listener<L> {
    /// Lets `listen` hear what `inner` decides.
    pub const fn new(inner: Box<dyn ReadPolicy>, listen: L) -> Self {
        Self { inner, listen }
    }
}

impl<L> fmt::Debug for Listener<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.inner).finish()
    }
}

/// Everything is passed on, also what has a default: the one inside may have its own.
impl<L: Listen> ReadPolicy for Listener<L> {
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
        if self.listen.is_on() {
            return self.plan_and_tell(now, request, legs, prng);
        }
        self.inner.plan_read(now, request, legs, prng)
    }

    fn belief(&self, place: usize) -> Option<Belief> {
        self.inner.belief(place)
    }

    fn weight(&self, view: &LegView) -> Option<Weight> {
        self.inner.weight(view)
    }

    fn reason(&self) -> Option<&'static str> {
        self.inner.reason()
    }

    fn beliefs(&self, now: Instant, leg: LegId) -> LegBeliefs {
        self.inner.beliefs(now, leg)
    }

    fn streams(&self, now: Instant) -> Vec<StreamBelief> {
        self.inner.streams(now)
    }

    fn checkpoint(&self, leg: LegId) -> Option<Checkpoint> {
        self.inner.checkpoint(leg)
    }

    fn learned(&self, leg: LegId) -> Vec<f32> {
        self.inner.learned(leg)
    }

    fn recall(&mut self, leg: LegId, learned: &[f32]) -> bool {
        self.inner.recall(leg, learned)
    }

    fn late_after(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        leg: &LegView,
        is_part: bool,
    ) -> Option<Duration> {
        self.inner.late_after(now, request, leg, is_part)
    }

    fn on_late(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        late: LateRead,
        legs: &[LegView],
    ) -> Late {
        let answer = self.inner.on_late(now, request, late, legs);
        if let Late::Hedge(leg) = answer
            && self.listen.is_on()
        {
            self.listen.on_hedge(now, request, late, leg);
        }
        answer
    }

    fn prefetch(
        &mut self,
        now: Instant,
        request: Option<&ReadRequest>,
        legs: &[LegView],
        layout: &dyn Layout,
        room_bytes: u64,
        prefetch: &mut Vec<Prefetch>,
    ) {
        self.inner
            .prefetch(now, request, legs, layout, room_bytes, prefetch);
        if !prefetch.is_empty() && self.listen.is_on() {
            self.listen.on_prefetch(now, prefetch);
        }
    }

    fn unwanted(&mut self, now: Instant, asked: Option<Extent>) -> Option<Extent> {
        self.inner.unwanted(now, asked)
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

    fn restart_averages(&mut self, leg: Option<LegId>) {
        self.inner.restart_averages(leg);
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.inner.configure(spec);
        self.listen.on_configured(&*self.inner);
    }
}

impl<L: Listen> Listener<L> {
    #[cold]
    fn plan_and_tell(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        prng: &mut dyn Prng,
    ) -> ReadPlan {
        // Before it decides, since that may change what it weighs the next read by.
        let weights = legs.iter().map(|view| self.inner.weight(view));
        let weights: Vec<Option<Weight>> = weights.collect();
        let plan = self.inner.plan_read(now, request, legs, prng);
        let beliefs = (0..legs.len()).map(|place| self.inner.belief(place));
        let beliefs: Vec<Option<Belief>> = beliefs.collect();
        self.listen.on_decision(&Decision {
            at: now,
            request,
            legs,
            beliefs: &beliefs,
            weights: &weights,
            plan: &plan,
            reason: self.inner.reason(),
        });
        plan
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{ClientId, Extent, Instant, RandomStream, StreamId};

    use super::{Decision, Listen, Listener};
    use crate::api::{ReadPlan, ReadPolicy, ReadRequest};
    use crate::beliefs::Weight;
    use crate::spec::{ArrayInfo, PolicySpec};
    use crate::testing::idle_view;

    /// The leg that was chosen, and what all were weighed at.
    type Heard = (ReadPlan, Vec<Option<Weight>>);

    #[derive(Default)]
    struct Hearing(Vec<Heard>);

    impl Listen for Hearing {
        fn is_on(&self) -> bool {
            true
        }

        fn on_decision(&mut self, decision: &Decision<'_>) {
            let heard = (decision.plan.clone(), decision.weights.to_vec());
            self.0.push(heard);
        }
    }

    #[test]
    fn weights_are_those_that_decided_and_not_those_of_the_next_read() {
        let spec = PolicySpec::parse("gmirror-load").unwrap();
        let policy = spec.build(&ArrayInfo::new(2)).unwrap();
        let mut policy = Listener::new(policy, Hearing::default());
        let mut legs = [idle_view(0), idle_view(1)];
        let mut plans = Vec::new();
        for number in 1..=2 {
            let extent = Extent::new(number << 40, 4096);
            let request = ReadRequest {
                client: ClientId(0),
                stream: StreamId(0),
                extent,
                may_split: true,
            };
            legs.iter_mut()
                .for_each(|view| view.address = extent.offset());
            let mut prng = RandomStream::new(1, "policy", 0);
            plans.push(policy.plan_read(Instant::ZERO, &request, &legs, &mut prng));
        }
        let points = |points| Some(Weight::Points(points));
        // The last of equals is chosen, and its average grows by an eighth of 256.
        let weights = [[points(0), points(0)], [points(0), points(32)]];
        let wanted: Vec<Heard> = plans
            .into_iter()
            .zip(weights.map(|weights| weights.to_vec()))
            .collect();
        assert_eq!(policy.listen.0, wanted);
    }
}
