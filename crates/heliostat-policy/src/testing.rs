//! A bench for policies: views that a test sets by hand, and picks as plain numbers.

mod beliefs;
mod every_policy;

use heliostat_types::{ClientId, Duration, Extent, Instant, LegId, OpKind, RandomStream, StreamId};

use crate::api::{Layout, LegView, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::spec::{ArrayInfo, PolicySpec};

/// A policy and the legs that it is shown. All legs are idle flash at first.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) policy: Box<dyn ReadPolicy>,
    pub(crate) legs: Vec<LegView>,
    pub(crate) now: Instant,
    /// Whether several legs may serve a read.
    pub(crate) may_split: bool,
    prng: RandomStream,
}

impl Bench {
    /// The policy that `spec` names, over `leg_count` legs, at second 1.
    pub(crate) fn new(spec: &str, leg_count: usize) -> Self {
        let array = ArrayInfo::new(leg_count);
        Self {
            policy: PolicySpec::parse(spec).unwrap().build(&array).unwrap(),
            legs: (0..leg_count).map(idle_view).collect(),
            now: Instant::from_ns(1_000_000_000),
            may_split: true,
            prng: RandomStream::new(1, "policy", 0),
        }
    }

    /// The leg picked for a read of 4 KiB at `offset_bytes`.
    pub(crate) fn pick(&mut self, offset_bytes: u64) -> usize {
        self.pick_of(offset_bytes, 4096)
    }

    /// The leg picked for a read of `len_bytes` at `offset_bytes`.
    pub(crate) fn pick_of(&mut self, offset_bytes: u64, len_bytes: u64) -> usize {
        match self.plan(0, Extent::new(offset_bytes, len_bytes)) {
            ReadPlan::Leg(leg) => leg.index(),
            ReadPlan::Split(pieces) => panic!("the read was split: {:?}", pieces.as_slice()),
        }
    }

    /// The leg picked for a read of `client`.
    pub(crate) fn pick_for_client(&mut self, client: u64) -> usize {
        match self.plan(client, Extent::new(0, 4096)) {
            ReadPlan::Leg(leg) => leg.index(),
            ReadPlan::Split(pieces) => panic!("the read was split: {:?}", pieces.as_slice()),
        }
    }

    /// The pieces of a read of `len_bytes` at `offset_bytes`: legs and lengths.
    pub(crate) fn split(&mut self, offset_bytes: u64, len_bytes: u64) -> Vec<(usize, u64)> {
        let pieces = self.pieces(offset_bytes, len_bytes);
        assert!(pieces.len() > 1, "the read was not split: {pieces:?}");
        pieces
    }

    /// The same, or the one leg that has all of it.
    pub(crate) fn pieces(&mut self, offset_bytes: u64, len_bytes: u64) -> Vec<(usize, u64)> {
        match self.plan(0, Extent::new(offset_bytes, len_bytes)) {
            ReadPlan::Leg(leg) => vec![(leg.index(), len_bytes)],
            ReadPlan::Split(pieces) => pieces
                .as_slice()
                .iter()
                .map(|piece| (piece.leg.index(), piece.len_bytes))
                .collect(),
        }
    }

    fn plan(&mut self, client: u64, extent: Extent) -> ReadPlan {
        for view in &mut self.legs {
            view.address = extent.offset();
        }
        let request = ReadRequest {
            client: ClientId(client),
            stream: StreamId(client),
            extent,
            may_split: self.may_split,
        };
        self.policy
            .plan_read(self.now, &request, &self.legs, &mut self.prng)
    }

    /// Why the last leg was picked.
    pub(crate) fn reason(&self) -> &'static str {
        self.policy.reason().expect("the policy says why")
    }

    /// Takes the candidate at `place` away.
    pub(crate) fn remove(&mut self, place: usize) {
        self.legs.remove(place);
    }

    /// Leg `leg` came back in sync.
    pub(crate) fn come_back(&mut self, leg: usize) {
        self.policy.on_leg_state(LegId::new(leg), true);
    }

    /// Gives the policy the tunables of `spec`.
    pub(crate) fn set(&mut self, spec: &str) {
        self.policy.configure(&PolicySpec::parse(spec).unwrap());
    }

    pub(crate) fn dispatch(&mut self, leg: usize, kind: OpKind, offset_bytes: u64, len_bytes: u64) {
        self.policy
            .on_dispatch(self.now, &op(leg, kind, offset_bytes, len_bytes));
    }

    /// A read of leg `leg` completed after `us` microseconds.
    pub(crate) fn complete_read(&mut self, leg: usize, us: u64) {
        self.complete(&op(leg, OpKind::Read, 0, 4096), us, true);
    }

    /// A read of leg `leg` failed after `us` microseconds.
    pub(crate) fn fail_read(&mut self, leg: usize, us: u64) {
        self.complete(&op(leg, OpKind::Read, 0, 4096), us, false);
    }

    /// A write to leg `leg` completed after `us` microseconds.
    pub(crate) fn complete_write(&mut self, leg: usize, us: u64) {
        self.complete(&op(leg, OpKind::Write, 0, 4096), us, true);
    }

    /// An operation on leg `leg` completed that ends at `end`.
    pub(crate) fn complete_at(&mut self, leg: usize, kind: OpKind, end: u64) {
        self.complete(&op(leg, kind, end - 4096, 4096), 100, true);
    }

    fn complete(&mut self, op: &OpView, us: u64, ok: bool) {
        self.policy
            .on_complete(self.now, op, Duration::from_us(us), ok);
    }
}

/// One operation.
pub(crate) fn op(leg: usize, kind: OpKind, offset_bytes: u64, len_bytes: u64) -> OpView {
    OpView {
        leg: LegId::new(leg),
        kind,
        extent: Extent::new(offset_bytes, len_bytes),
        array_offset: offset_bytes,
    }
}

/// All bytes at the same place of every leg.
#[derive(Debug)]
pub(crate) struct Mirror;

impl Layout for Mirror {
    fn chunk_bytes(&self) -> Option<u64> {
        None
    }

    fn address_on(&self, _: LegId, offset: u64) -> Option<u64> {
        Some(offset)
    }
}

/// A leg without moving parts that has never been used.
pub(crate) fn idle_view(leg: usize) -> LegView {
    LegView {
        leg: LegId::new(leg),
        address: 0,
        reads_in_flight: 0,
        writes_in_flight: 0,
        read_bytes_in_flight: 0,
        write_bytes_in_flight: 0,
        last_sent_end: None,
        rotational: false,
        read_preferred: false,
        queue_depth: 32,
        optimal_io_bytes: 0,
        reads_completed: 0,
        read_wait: Duration::ZERO,
        own_outstanding: None,
    }
}
