//! `adaptive`: each read to the leg that is predicted to end it first. Ours.
//!
//! What a leg does is learned from its answers alone: how long a read takes by the load that it
//! meets (`curve`), whether that depends on where the arm stands (`arm`), and whether the leg is
//! slower just now than it is known to be (`health`). `choice` is the rule, and `hedge` what is
//! done about reads that are late all the same. docs/policies has both on a page.

mod arm;
mod choice;
mod curve;
mod health;
mod hedge;
mod jumps;
mod late;
mod leg;
mod recent;
mod split;
mod streams;
mod tries;

#[cfg(test)]
mod tests;

use heliostat_types::{Duration, Extent, Instant, LEGS_MAX, LegId, LegSet, OpKind, Prng};

use crate::api::{
    Belief, Late, LateRead, Layout, LegView, Observes, OpView, Prefetch, ReadPlan, ReadPolicy,
    ReadRequest,
};
use crate::beliefs::{LegBeliefs, StreamBelief};
use crate::choice::{in_pieces, piece_bytes};
use crate::constants::ConstantInfo;
use crate::read_ahead::{self, ReadAhead, StreamWay};
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::{Tunable, TunableKind};
use choice::{Choice, Places};
use hedge::Hedges;
use leg::{Forecast, Leg};
use recent::Recent;
use split::Splits;
use streams::{Stream, Streams};

/// Without it a slow leg is left only as fast as its curve is learned.
const HEALTH: Tunable = Tunable {
    name: "health",
    kind: TunableKind::Flag,
    default: 1,
    unit: "",
    description: "whether a leg that turns slow is left at once, and tried again",
};
/// Without it a read waits for its leg whatever that does.
const HEDGE: Tunable = Tunable {
    name: "hedge",
    kind: TunableKind::Flag,
    default: 1,
    unit: "",
    description: "whether a second leg is asked for a read that is late",
};
/// Without it hard disks are chosen among as flash is.
const LOCALITY: Tunable = Tunable {
    name: "locality",
    kind: TunableKind::Flag,
    default: 1,
    unit: "",
    description: "whether it counts what a leg has read last: arms, streams, blocks read again",
};
/// Without it each read is of one leg.
const SPLIT: Tunable = Tunable {
    name: "split",
    kind: TunableKind::Flag,
    default: 1,
    unit: "",
    description: "whether a large read is cut among equal flash where that was seen to be quicker",
};
/// Without it a stream is as fast as one leg.
const STREAMS: Tunable = Tunable {
    name: "streams",
    kind: TunableKind::Flag,
    default: 1,
    unit: "",
    description: "whether few streams are read ahead by several legs, and many have a leg each",
};
/// 8: a network disk (0.6 ms) takes over where an NVMe drive is saturated (0.15 to 0.25 ms), and a
/// hard disk (13 ms) never where a SATA drive is (0.4 ms): one read in a thousand that takes 30
/// times as long is no gain.
const SPILL_TIMES: Tunable = Tunable::number(
    "spill_times",
    8,
    (1, 1_000),
    "times",
    "how much longer a read may take on an idle leg where the best one is saturated",
);

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "adaptive",
    summary: "the leg that is predicted to end the read first, as it has learned from answers",
    bare_value: BareValue::Refused,
    tunables: &[HEALTH, HEDGE, LOCALITY, SPLIT, STREAMS, SPILL_TIMES],
    build: |spec| Box::new(Adaptive::new(Settings::new(spec))),
};

/// What people cannot set, by module.
pub(crate) const ALL_CONSTANTS: [&[ConstantInfo]; 12] = [
    arm::CONSTANTS,
    choice::CONSTANTS,
    curve::CONSTANTS,
    health::CONSTANTS,
    hedge::CONSTANTS,
    jumps::CONSTANTS,
    late::CONSTANTS,
    leg::CONSTANTS,
    recent::CONSTANTS,
    split::CONSTANTS,
    streams::CONSTANTS,
    tries::CONSTANTS,
];

/// What people can set.
#[derive(Clone, Copy, Debug)]
struct Settings {
    health: bool,
    hedge: bool,
    locality: bool,
    split: bool,
    streams: bool,
    spill_times: f32,
}

impl Settings {
    fn new(spec: &PolicySpec) -> Self {
        Self {
            health: spec.value(&HEALTH) == 1,
            hedge: spec.value(&HEDGE) == 1,
            locality: spec.value(&LOCALITY) == 1,
            split: spec.value(&SPLIT) == 1,
            streams: spec.value(&STREAMS) == 1,
            spill_times: spec.value(&SPILL_TIMES) as f32,
        }
    }
}

#[derive(Debug)]
struct Adaptive {
    settings: Settings,
    legs: Vec<Leg>,
    streams: Streams,
    recent: Recent,
    /// Room for what is predicted of a read.
    forecasts: [Forecast; LEGS_MAX],
    ahead: ReadAhead,
    splits: Splits,
    /// The read that was planned last, until it is handed to its leg.
    planned: Option<Planned>,
    /// The same, where it was cut: until the next plan.
    cut: Option<Extent>,
    /// What has decided on that read.
    reason: &'static str,
    hedges: Hedges,
}

/// A read between its plan and its dispatch.
#[derive(Clone, Copy, Debug)]
struct Planned {
    leg: LegId,
    address: u64,
    way: Way,
    stream_way: StreamWay,
    /// How long it takes tells nothing of other reads.
    is_repeat: bool,
    /// What the best leg was predicted to take, where this one is tried, and the best of the others
    /// where it is slow.
    rivals_ns: [f32; 2],
}

/// What is known of the way that an arm has to a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It may be any.
    Any,
    /// The read before may still be on its way.
    Unknown,
    /// None: the arm has come there with the reads before.
    None,
}

impl Way {
    fn of(stream: Option<Stream>, leg: LegId, address: u64) -> Self {
        match stream {
            Some(stream) if stream.is_run_on(leg, address) => Self::None,
            Some(stream) if stream.is_at(leg, address) => Self::Unknown,
            _ => Self::Any,
        }
    }
}

impl Adaptive {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            legs: vec![Leg::default(); LEGS_MAX],
            streams: Streams::default(),
            recent: Recent::new(),
            forecasts: [Forecast::default(); LEGS_MAX],
            ahead: ReadAhead::new(),
            splits: Splits::new(),
            planned: None,
            cut: None,
            reason: choice::LEAST,
            hedges: Hedges::default(),
        }
    }
}

/// Among which places a read may be cut, and into how many parts, where the one at `place` was
/// chosen for a reason.
fn parts_of(
    choice: &Choice<'_>,
    (place, reason): (usize, &'static str),
    len_bytes: u64,
    stream_way: StreamWay,
) -> Option<(Places, usize)> {
    let is_free = match stream_way {
        StreamWay::None | StreamWay::Any => true,
        // What waits there does so to leave other legs to random reads.
        StreamWay::Aside => reason == choice::ROOM,
        StreamWay::Homes(_) | StreamWay::Planned(_) => false,
    };
    // A try says what a whole read takes.
    if !is_free || choice.rival_ns() > 0.0 || choice.stays(reason) {
        return None;
    }
    let alike = choice.alike(place);
    let parts = split::parts(len_bytes, alike.count());
    let is_seen = read_ahead::is_long(piece_bytes(len_bytes, parts.max(1)));
    (parts > 1 && (is_seen || stream_way != StreamWay::Aside)).then_some((alike, parts))
}

/// Whether an operation is a part of a read that was cut.
fn is_part(op: &OpView, cut: Extent) -> bool {
    let is_within = cut.offset() <= op.array_offset && op.array_offset < cut.end();
    is_within && op.extent.len() < cut.len()
}

impl ReadPolicy for Adaptive {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn observes(&self) -> Observes {
        Observes {
            late: self.settings.hedge,
            requests: self.settings.streams,
            ..Observes::ALL
        }
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.settings = Settings::new(spec);
    }

    fn plan_read(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let extent = request.extent;
        let stream = self.streams.find(extent.offset());
        let stream_way = self.ahead.way(now, extent.offset(), legs);
        let kept = if stream_way == StreamWay::None {
            self.ahead.left(now)
        } else {
            LegSet::EMPTY
        };
        let is_alone = stream.is_none() && stream_way == StreamWay::None;
        let is_block = self.settings.locality && is_alone;
        let recent = if is_block {
            self.recent.leg_of(extent)
        } else {
            None
        };
        let choice = Choice::new(
            now,
            extent,
            stream.as_ref(),
            legs,
            (&mut self.legs, &self.streams),
            (self.settings, kept, recent),
            &mut self.forecasts,
        );
        let place = match stream_way {
            StreamWay::Homes(homes) if !choice.is_elsewhere(homes) => choice.pinned(homes),
            StreamWay::Homes(_) | StreamWay::Aside => choice.place_aside(&self.ahead),
            StreamWay::Planned(leg) => choice.planned(leg),
            StreamWay::None | StreamWay::Any => None,
        };
        let place = place.unwrap_or_else(|| choice.place());
        self.reason = choice.reason(place);
        let rivals_ns = [choice.rival_ns(), choice.others_ns(place)];
        let view = &legs[place];
        let mut plan = ReadPlan::Leg(view.leg);
        self.cut = None;
        let len_bytes = extent.len();
        let is_of_stream = stream.is_some() || stream_way != StreamWay::None;
        let may_be_cut = self.settings.split && request.may_split && split::may_be(len_bytes);
        if may_be_cut
            && let Some((alike, parts)) =
                parts_of(&choice, (place, self.reason), len_bytes, stream_way)
        {
            let in_flight = |at: usize| legs[at].read_bytes_in_flight;
            let in_flight = alike.iter().map(in_flight).fold(0, u64::saturating_add);
            let way = self.splits.way(len_bytes, in_flight, is_of_stream);
            self.splits.sent(now, extent, way);
            if way.is_cut {
                self.reason = choice::CUT;
                // Round and round, so that where there are more legs than parts none has more.
                let places = alike.iter().filter(|at| *at >= place);
                let places = places.chain(alike.iter().filter(|at| *at < place));
                plan = in_pieces(len_bytes, places.map(|at| legs[at].leg).take(parts));
                self.cut = Some(extent);
            }
        }
        let is_known = is_block && self.recent.read(extent, view.leg);
        self.planned = Some(Planned {
            leg: view.leg,
            address: view.address,
            way: Way::of(stream, view.leg, view.address),
            stream_way,
            is_repeat: is_known && self.cut.is_none() && leg::Size::of(len_bytes).is_small(),
            rivals_ns,
        });
        if stream.is_some() {
            self.streams.go_on(now, extent, view.leg, view.address);
        } else {
            self.streams.note_end(extent, view.leg, view.address);
        }
        plan
    }

    fn belief(&self, place: usize) -> Option<Belief> {
        self.forecasts.get(place).map(Forecast::belief)
    }

    fn reason(&self) -> Option<&'static str> {
        Some(self.reason)
    }

    fn beliefs(&self, now: Instant, leg: LegId) -> LegBeliefs {
        let mut beliefs = self.legs[leg.index()].beliefs(now);
        beliefs.facts.extend(self.ahead.facts(now, leg));
        beliefs
    }

    fn streams(&self, now: Instant) -> Vec<StreamBelief> {
        self.ahead.beliefs(now)
    }

    fn learned(&self, leg: LegId) -> Vec<f32> {
        self.legs[leg.index()].learned()
    }

    fn recall(&mut self, leg: LegId, learned: &[f32]) -> bool {
        self.legs[leg.index()].recall(learned)
    }

    fn late_after(
        &mut self,
        _now: Instant,
        request: &ReadRequest,
        view: &LegView,
        is_part: bool,
    ) -> Option<Duration> {
        if !self.settings.streams && !is_part {
            self.hedges.earn();
        }
        let leg = &self.legs[view.leg.index()];
        let offset = request.extent.offset();
        self.hedges.late_after(offset, leg, view.address, is_part)
    }

    fn on_late(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        late: LateRead,
        views: &[LegView],
    ) -> Late {
        for view in views {
            self.legs[view.leg.index()].see(now, view);
        }
        self.hedges
            .on_late(now, request.extent, late, &self.legs, views)
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
        if request.is_some() {
            // Also what was prefetched, of which no leg is asked.
            self.hedges.earn();
        }
        let turn = legs
            .iter()
            .filter(|view| self.legs[view.leg.index()].turns(view));
        self.ahead.set_turning(turn.map(|view| view.leg).collect());
        self.ahead
            .plan(now, request, legs, layout, room_bytes, prefetch);
    }

    fn unwanted(&mut self, now: Instant, asked: Option<Extent>) -> Option<Extent> {
        self.ahead.unwanted(now, asked)
    }

    fn on_dispatch(&mut self, now: Instant, op: &OpView) {
        let planned = self.planned.take();
        let is_planned =
            |planned: &Planned| planned.leg == op.leg && planned.address == op.extent.offset();
        let planned = planned.filter(is_planned);
        if self.settings.streams {
            let way = planned.map(|planned| planned.stream_way);
            self.ahead.on_dispatch(now, op, way);
        }
        let leg = &mut self.legs[op.leg.index()];
        let way = planned.map_or(Way::Any, |planned| leg.way(planned.address, planned.way));
        if op.kind == OpKind::Read {
            let is_part = self.cut.is_some_and(|cut| is_part(op, cut));
            let told = planned.map(|planned| (planned.is_repeat, planned.rivals_ns));
            let told = told.unwrap_or((false, [0.0, f32::INFINITY]));
            leg.read_dispatched(now, op.extent, way, is_part, told);
        }
        leg.dispatched(now, op.extent, op.kind == OpKind::Read);
    }

    fn on_complete(&mut self, now: Instant, op: &OpView, service_time: Duration, ok: bool) {
        if self.settings.streams {
            self.ahead.on_complete(now, op, service_time);
        }
        let leg = &mut self.legs[op.leg.index()];
        if self.settings.streams && op.kind == OpKind::Read && ok {
            let end = op.array_offset.saturating_add(op.extent.len());
            self.ahead.has_read(now, op.leg, end);
        }
        if op.kind == OpKind::Read && leg.read_completed(now, op.extent, ok) {
            self.ahead.doubt(op.leg);
        }
        if ok && matches!(op.kind, OpKind::Read | OpKind::Write) {
            leg.note_gap(now, service_time);
        }
        leg.completed(now, op.extent);
        if op.kind != OpKind::Read {
            leg.note_write(now, op.extent, service_time);
        } else if ok {
            leg.note_jump(now, op.extent, service_time);
            let extent = Extent::new(op.array_offset, op.extent.len());
            self.splits.answered(now, extent);
        }
    }

    fn reset(&mut self, leg: Option<LegId>) {
        match leg {
            Some(leg) => {
                self.legs[leg.index()] = Leg::default();
                self.ahead.forget(leg);
                // Another one may be in its place.
                self.splits = Splits::new();
                self.recent = Recent::new();
            }
            None => *self = Self::new(self.settings),
        }
    }
}
