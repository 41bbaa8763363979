//! Power cuts: the machine is off for a while, and comes back as its operator would bring it back.
//!
//! What the engine knew is gone but for the durable record, what clients waited for is gone, and so
//! is what devices had not made durable. When the power is back, an array whose record says that
//! its legs may differ is not served as it is: the operator copies, as `serve --copy-from` does,
//! the first copy of everything that is on a leg which is not faulted over the others. Then clients
//! ask anew.

use std::collections::{BTreeSet, VecDeque};

use heliostat_engine::{ArrayRecord, Engine, LegState};
use heliostat_policy::{ArrayInfo, PolicySpec};
use heliostat_types::{
    Duration, Extent, Instant, LegSet, OpKind, Prng, RandomStream, SECTOR_BYTES,
};

use crate::faults::Effect;
use crate::leg::LegOps;
use crate::planted::Planted;
use crate::requests::Pending;
use crate::scenario::Scenario;
use crate::simulation::{Simulation, engine_config};
use crate::tags_2014::Tags;
use crate::trace::{TraceEvent, What};

/// How fast the operator's copy goes, in bytes of written pages for each leg that is copied over:
/// a disk that streams.
const COPY_BYTES_PER_S: u64 = 200_000_000;

/// Whether the machine runs, and what comes.
#[derive(Debug)]
pub(crate) struct Power {
    /// When the power fails next, and until when; by time.
    cuts: VecDeque<(Instant, Instant)>,
    /// When the machine serves again; `None` while it does.
    pub(crate) back_at: Option<Instant>,
    /// The record that survives.
    pub(crate) durable: ArrayRecord,
    /// What clients asked for when the power failed.
    gone: Vec<Pending>,
    luck: RandomStream,
    pub(crate) cut_count: u64,
}

impl Power {
    pub(crate) fn new(scenario: &Scenario, durable: ArrayRecord) -> Self {
        let begins_at = Instant::ZERO + scenario.warmup_seconds;
        let faults = scenario.faults.iter();
        let cuts = faults.filter(|fault| fault.effect == Some(Effect::PowerCut));
        let mut cuts: Vec<_> = cuts.map(|cut| cut.period(begins_at)).collect();
        cuts.sort_unstable();
        Self {
            cuts: cuts.into(),
            back_at: None,
            durable,
            gone: Vec::new(),
            luck: RandomStream::new(scenario.seed, "power", 0),
            cut_count: 0,
        }
    }

    /// Whether the machine is off.
    pub(crate) const fn is_off(&self) -> bool {
        self.back_at.is_some()
    }

    /// When the power fails or is back next.
    pub(crate) fn next_event_at(&self) -> Option<Instant> {
        let cut = self.cuts.front().map(|(at, _)| *at);
        cut.into_iter().chain(self.back_at).min()
    }
}

impl Simulation {
    /// Lets the power fail or come back if that is now; whether it did.
    pub(crate) fn switch_power(&mut self) -> bool {
        if let Some(&(at, until)) = self.power.cuts.front()
            && at <= self.now
        {
            self.power.cuts.pop_front();
            self.cut_power(until);
        } else if self.power.back_at.is_some_and(|at| at <= self.now) {
            self.restore_power();
        } else {
            return false;
        }
        true
    }

    fn cut_power(&mut self, until: Instant) {
        self.note_power(What::PowerCut);
        self.power.cut_count += 1;
        self.power.back_at = Some(until);
        if let Some((_, record)) = self.persisting.take()
            && self.power.luck.below(2) == 0
        {
            self.power.durable = record;
        }
        for (index, leg) in self.legs.iter_mut().enumerate() {
            let ops = self.leg_ops.values();
            let mine = ops.filter(|in_flight| in_flight.op.leg.index() == index);
            leg.cut_power(self.now, mine, &mut self.arena, &self.measured);
        }
        // Devices end what they had for nobody.
        self.leg_ops = LegOps::default();
        self.inbox.clear();
        self.memory_waiters.clear();
        self.tags = self.tags.take().map(|_| Tags::new(self.scenario.seed));
        self.arena.forget();
        for pending in self.requests.take_all() {
            self.littles
                .on_answer(self.now, self.now - pending.arrived_at);
            self.power.gone.push(pending);
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.cut_power();
        }
        if self.lives.is_some() {
            self.end_life();
            return;
        }
        if self.has(Planted::CleanTooEarly) {
            self.power.durable.dirty = false;
        }
        if let Err(text) = self.check_record() {
            self.fail(text);
        } else if self.power.durable.dirty {
            let copied_bytes = self.copy_from_first_leg();
            let ns = u128::from(copied_bytes) * 1_000_000_000 / u128::from(COPY_BYTES_PER_S);
            let copy_time = Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX));
            self.power.back_at = Some(until + copy_time);
        }
        if let Err(text) = self.check_after_cut() {
            self.fail(text);
        }
    }

    /// The legs that the record does not call faulted.
    fn legs_on_record(&self) -> LegSet {
        LegSet::first(self.legs.len()).difference(self.power.durable.faulted)
    }

    /// A record that says *clean* says that the legs are equal.
    fn check_record(&self) -> Result<(), String> {
        if self.power.durable.dirty {
            return Ok(());
        }
        self.check_equal(self.legs_on_record())
            .map_err(|text| format!("the record says clean, but {text}"))
    }

    /// Copies what was ever written from its first copy on a good leg over the others, with its
    /// damage. How many bytes that takes.
    fn copy_from_first_leg(&mut self) -> u64 {
        let good = self.legs_on_record();
        let map = self.engine.map().clone();
        let written = good.iter().flat_map(|leg| {
            let store = &self.legs[leg.index()].store;
            store.written().collect::<Vec<u64>>()
        });
        let written: BTreeSet<u64> = written.collect();
        let mut copied_bytes = 0;
        for sector in written {
            let places = map.places(sector * SECTOR_BYTES).into_iter();
            let mut places = places.filter(|place| good.contains(place.leg));
            let first = places.next().expect("every byte keeps a good leg");
            let source = &self.legs[first.leg.index()];
            let at = first.address / SECTOR_BYTES;
            let (bytes, is_damaged) = (source.store.sector(at), source.is_damaged(at));
            for place in places {
                let target = &mut self.legs[place.leg.index()];
                target.copy_sector(place.address / SECTOR_BYTES, &bytes, is_damaged);
                copied_bytes += SECTOR_BYTES;
            }
        }
        copied_bytes
    }

    /// What is on the legs now is what clients will read: nothing durable may be missing, and
    /// nothing there that was never written.
    fn check_after_cut(&mut self) -> Result<(), String> {
        let legs = self.legs_on_record();
        self.check_contents(legs)
            .map_err(|text| format!("after the power cut, {text}"))
    }

    fn restore_power(&mut self) {
        self.note_power(What::PowerBack);
        self.power.back_at = None;
        if self.lives.is_some() {
            self.start_life();
            self.pump();
            return;
        }
        let record = ArrayRecord {
            generation: self.power.durable.generation + 1,
            dirty: false,
            faulted: self.power.durable.faulted,
        };
        self.power.durable = record;
        let map = self.engine.map().clone();
        let mut config = engine_config(&self.scenario, map, &self.legs);
        for leg in record.faulted {
            config.legs[leg.index()].state = LegState::Faulted;
        }
        // Any policy: the one that chose before follows.
        let spec = PolicySpec::parse("pid").expect("there is such a policy");
        let picker = spec.build(&ArrayInfo::new(self.legs.len()));
        let picker = picker.expect("it fits every array");
        let engine = Engine::new(config, picker, record);
        let before = std::mem::replace(&mut self.engine, engine);
        self.engine.follow(before);
        self.tell_limits();
        self.ask_on();
        self.pump();
    }

    /// Clients ask anew for what they had not got when the power failed.
    pub(crate) fn ask_on(&mut self) {
        // Clients that have stopped meanwhile do not ask again.
        let asks_on = self.now < self.measured.ends_at;
        for pending in std::mem::take(&mut self.power.gone) {
            if asks_on {
                self.ask_again(pending);
            }
        }
    }

    fn note_power(&mut self, what: What) {
        self.trace.record(TraceEvent {
            at: self.now,
            what,
            kind: OpKind::Flush,
            extent: Extent::default(),
            id: self.power.cut_count,
        });
    }
}
