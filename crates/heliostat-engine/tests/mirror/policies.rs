//! Small policies for the tests. They check what they are shown, and are no good.

#![expect(
    clippy::disallowed_types,
    reason = "policies can be sent, and the map that they are checked against changes"
)]

use std::sync::{Arc, Mutex};

use heliostat_engine::Map;
use heliostat_policy::{
    Late, LateRead, Layout, LegView, Observes, OpView, PIECES_MAX, Piece, Pieces, Prefetch,
    ReadPlan, ReadPolicy, ReadRequest,
};
use heliostat_types::{Duration, Extent, Instant, LEGS_MAX, LegId, OpKind, Prng};

/// The map of an array, in which legs get other roles while it is used.
#[derive(Clone, Debug)]
pub(crate) struct SharedMap(Arc<Mutex<Map>>);

impl SharedMap {
    pub(crate) fn new(map: Map) -> Self {
        Self(Arc::new(Mutex::new(map)))
    }

    pub(crate) fn set(&self, map: Map) {
        *self.0.lock().unwrap() = map;
    }
}

/// Any policy; what it is shown is compared with the map.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) policy: Box<dyn ReadPolicy>,
    pub(crate) map: SharedMap,
}

impl Checked {
    fn check_views(&self, request: &ReadRequest, legs: &[LegView]) {
        let extent = request.extent;
        assert!(!legs.is_empty(), "a policy is shown a leg");
        assert!(!extent.is_empty(), "a policy is shown bytes");
        assert!(
            legs.windows(2).all(|pair| pair[0].leg < pair[1].leg),
            "legs come by rising index"
        );
        let map = self.map.0.lock().unwrap();
        assert_eq!(map.first_part(extent), extent, "of one chunk");
        let places = map.places(extent.offset());
        for view in legs {
            let mut places = places.iter();
            assert!(
                places.any(|place| (place.leg, place.address) == (view.leg, view.address)),
                "{} at {} does not hold {extent}",
                view.leg,
                view.address
            );
        }
    }
}

impl ReadPolicy for Checked {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn observes(&self) -> Observes {
        self.policy.observes()
    }

    fn plan_read(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        prng: &mut dyn Prng,
    ) -> ReadPlan {
        self.check_views(request, legs);
        self.policy.plan_read(now, request, legs, prng)
    }

    fn late_after(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        leg: &LegView,
        is_part: bool,
    ) -> Option<Duration> {
        self.check_views(request, std::slice::from_ref(leg));
        self.policy.late_after(now, request, leg, is_part)
    }

    fn on_late(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        late: LateRead,
        legs: &[LegView],
    ) -> Late {
        self.check_views(request, legs);
        assert!(late.sent <= now, "it was sent before it was late");
        assert!(
            legs.iter().all(|view| view.leg != late.leg),
            "the late leg is no other one"
        );
        self.policy.on_late(now, request, late, legs)
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
        assert!(prefetch.is_empty(), "what was planned before is done");
        assert!(!legs.is_empty(), "a policy is shown a leg");
        self.policy
            .prefetch(now, request, legs, layout, room_bytes, prefetch);
    }

    fn unwanted(&mut self, now: Instant, asked: Option<Extent>) -> Option<Extent> {
        self.policy.unwanted(now, asked)
    }

    fn on_dispatch(&mut self, now: Instant, op: &OpView) {
        self.policy.on_dispatch(now, op);
    }

    fn on_complete(&mut self, now: Instant, op: &OpView, service_time: Duration, ok: bool) {
        self.policy.on_complete(now, op, service_time, ok);
    }

    fn on_leg_state(&mut self, leg: LegId, present: bool) {
        self.policy.on_leg_state(leg, present);
    }
}

/// The first leg it is shown.
#[derive(Debug)]
pub(crate) struct First;

impl ReadPolicy for First {
    fn name(&self) -> &'static str {
        "first"
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        ReadPlan::Leg(legs[0].leg)
    }
}

/// The last leg it is shown.
#[derive(Debug)]
pub(crate) struct Last;

impl ReadPolicy for Last {
    fn name(&self) -> &'static str {
        "last"
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        ReadPlan::Leg(legs[legs.len() - 1].leg)
    }
}

/// Each in turn.
#[derive(Debug, Default)]
pub(crate) struct Rotate {
    next: usize,
}

impl ReadPolicy for Rotate {
    fn name(&self) -> &'static str {
        "rotate"
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        self.next += 1;
        ReadPlan::Leg(legs[self.next % legs.len()].leg)
    }
}

/// Any, and it counts along which reads are in flight.
#[derive(Debug, Default)]
pub(crate) struct Random {
    reads_in_flight: [u32; LEGS_MAX],
    /// Whether it saw all operations since the engine began.
    from_the_start: bool,
}

impl Random {
    pub(crate) fn new(from_the_start: bool) -> Self {
        Self {
            from_the_start,
            ..Self::default()
        }
    }
}

impl ReadPolicy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn observes(&self) -> Observes {
        Observes::ALL
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        prng: &mut dyn Prng,
    ) -> ReadPlan {
        if self.from_the_start {
            // What was abandoned in the queue in front of a leg never completes.
            for view in legs {
                let counted = self.reads_in_flight[view.leg.index()];
                let in_flight = view.reads_in_flight;
                assert!(in_flight <= counted, "{in_flight} reads at {}", view.leg);
            }
        }
        let index = prng.below(legs.len() as u64);
        ReadPlan::Leg(legs[usize::try_from(index).unwrap()].leg)
    }

    fn on_dispatch(&mut self, _now: Instant, op: &OpView) {
        if op.kind == OpKind::Read {
            self.reads_in_flight[op.leg.index()] += 1;
        }
    }

    fn on_complete(&mut self, _now: Instant, op: &OpView, _service_time: Duration, _ok: bool) {
        if op.kind == OpKind::Read {
            let count = &mut self.reads_in_flight[op.leg.index()];
            *count = count.saturating_sub(1);
        }
    }

    fn on_leg_state(&mut self, leg: LegId, _present: bool) {
        self.reads_in_flight[leg.index()] = 0;
    }
}

/// Cuts each read anywhere, and sends each piece anywhere.
#[derive(Debug)]
pub(crate) struct Split;

impl ReadPolicy for Split {
    fn name(&self) -> &'static str {
        "split"
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        prng: &mut dyn Prng,
    ) -> ReadPlan {
        let mut pieces = Pieces::new();
        let mut left = request.extent.len();
        while left > 0 {
            let last = pieces.as_slice().len() + 1 == PIECES_MAX;
            let len_bytes = if last { left } else { 1 + prng.below(left) };
            let index = usize::try_from(prng.below(legs.len() as u64)).unwrap();
            pieces.push(Piece {
                leg: legs[index].leg,
                len_bytes,
            });
            left -= len_bytes;
        }
        ReadPlan::Split(pieces)
    }
}

/// A half of each read to the first leg and to the last one, or all of it to the last one where the
/// engine says that one leg has to serve it.
#[derive(Debug)]
pub(crate) struct Halves;

impl ReadPolicy for Halves {
    fn name(&self) -> &'static str {
        "halves"
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let (first, last) = (legs[0].leg, legs[legs.len() - 1].leg);
        if !request.may_split {
            return ReadPlan::Leg(last);
        }
        let half = request.extent.len() / 2;
        let mut pieces = Pieces::new();
        for (leg, len_bytes) in [(first, half), (last, request.extent.len() - half)] {
            pieces.push(Piece { leg, len_bytes });
        }
        ReadPlan::Split(pieces)
    }
}

/// The first leg, or a half each to the first and the last; and after a while the last of the
/// others as well.
#[derive(Debug)]
pub(crate) struct Hedging {
    pub(crate) after: Duration,
    pub(crate) halves: bool,
}

impl ReadPolicy for Hedging {
    fn name(&self) -> &'static str {
        "hedging"
    }

    fn observes(&self) -> Observes {
        Observes {
            late: true,
            ..Observes::NOTHING
        }
    }

    fn plan_read(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        prng: &mut dyn Prng,
    ) -> ReadPlan {
        if self.halves {
            return Halves.plan_read(now, request, legs, prng);
        }
        ReadPlan::Leg(legs[0].leg)
    }

    fn late_after(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        _leg: &LegView,
        _is_part: bool,
    ) -> Option<Duration> {
        Some(self.after)
    }

    fn on_late(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        _late: LateRead,
        legs: &[LegView],
    ) -> Late {
        Late::Hedge(legs[legs.len() - 1].leg)
    }
}

/// The first leg; and of what was prefetched these bytes are not wanted any more.
#[derive(Debug)]
pub(crate) struct Forgetting(pub(crate) Extent);

impl ReadPolicy for Forgetting {
    fn name(&self) -> &'static str {
        "forgetting"
    }

    fn observes(&self) -> Observes {
        Observes {
            requests: true,
            ..Observes::NOTHING
        }
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        ReadPlan::Leg(legs[0].leg)
    }

    fn unwanted(&mut self, _now: Instant, _asked: Option<Extent>) -> Option<Extent> {
        Some(self.0)
    }
}

/// The first leg; and what comes behind each read is prefetched, in so many runs from each leg in
/// turn.
#[derive(Debug)]
pub(crate) struct Prefetching {
    pub(crate) runs: u64,
    pub(crate) run_bytes: u64,
}

impl ReadPolicy for Prefetching {
    fn name(&self) -> &'static str {
        "prefetching"
    }

    fn observes(&self) -> Observes {
        Observes {
            requests: true,
            ..Observes::NOTHING
        }
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        ReadPlan::Leg(legs[0].leg)
    }

    fn prefetch(
        &mut self,
        _now: Instant,
        request: Option<&ReadRequest>,
        legs: &[LegView],
        _layout: &dyn Layout,
        _room_bytes: u64,
        prefetch: &mut Vec<Prefetch>,
    ) {
        let Some(request) = request else {
            return;
        };
        for (run, view) in (0..self.runs).zip(legs.iter().cycle()) {
            let from = request.extent.end() + run * self.run_bytes;
            prefetch.push(Prefetch {
                leg: view.leg,
                extent: Extent::new(from, self.run_bytes),
            });
        }
    }
}

/// Any leg, or several; and where it hedges, any other one as well, at any time; and where it
/// prefetches, anything from any leg.
#[derive(Debug)]
pub(crate) struct Eager {
    pub(crate) hedges: bool,
    pub(crate) prefetches: bool,
    pub(crate) drawn: u64,
}

impl ReadPolicy for Eager {
    fn name(&self) -> &'static str {
        "eager"
    }

    fn observes(&self) -> Observes {
        Observes {
            late: self.hedges,
            requests: self.prefetches,
            ..Observes::NOTHING
        }
    }

    fn prefetch(
        &mut self,
        _now: Instant,
        request: Option<&ReadRequest>,
        legs: &[LegView],
        _layout: &dyn Layout,
        _room_bytes: u64,
        prefetch: &mut Vec<Prefetch>,
    ) {
        let asked = request.map_or_else(Extent::default, |request| request.extent);
        for _ in 0..self.any(4) {
            let from = match self.any(3) {
                0 => asked.offset() / 2,
                1 => asked.end() + 512 * self.any(20) as u64,
                _ => asked.end(),
            };
            let len = [512, 700, 4096, 9000, 20_000][self.any(5)];
            prefetch.push(Prefetch {
                leg: legs[self.any(legs.len())].leg,
                extent: Extent::new(from, len),
            });
        }
    }

    fn unwanted(&mut self, _now: Instant, _asked: Option<Extent>) -> Option<Extent> {
        let from = 512 * self.any(400) as u64;
        (self.any(2) == 0).then(|| Extent::new(from, 512 * self.any(100) as u64))
    }

    fn plan_read(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        prng: &mut dyn Prng,
    ) -> ReadPlan {
        self.drawn = prng.next_u64();
        if request.may_split && self.any(2) == 0 {
            return Split.plan_read(now, request, legs, prng);
        }
        ReadPlan::Leg(legs[self.any(legs.len())].leg)
    }

    fn late_after(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        _leg: &LegView,
        _is_part: bool,
    ) -> Option<Duration> {
        let ns = [1, 1, 1, 1, 1, 10_000, 10_000_000];
        Some(Duration::from_ns(*ns.get(self.any(8))?))
    }

    fn on_late(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        _late: LateRead,
        legs: &[LegView],
    ) -> Late {
        match self.any(8) {
            0 => Late::Wait,
            1 => Late::LookAgain(Duration::from_us(200)),
            _ => Late::Hedge(legs[self.any(legs.len())].leg),
        }
    }
}

impl Eager {
    /// One of so many.
    fn any(&mut self, count: usize) -> usize {
        self.drawn = self
            .drawn
            .rotate_left(13)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        usize::try_from(self.drawn >> 33).unwrap() % count
    }
}
