//! One leg: a device model for its time, a store for its bytes, and what it was seen to do.

use heliostat_engine::LegOp;
use heliostat_format::Superblock;
use heliostat_model::{DeviceModel, DeviceSpec};
use heliostat_types::{
    Duration, ErrorKind, Extent, Instant, LegId, LegOpId, OpKind, RandomStream, SECTOR_BYTES,
};

use crate::arena::Arena;
use crate::contents::SECTOR;
use crate::measure::Period;
use crate::medium::{Fate, Medium};
use crate::result::LegResult;
use crate::store::Store;

/// A leg of the array.
#[derive(Debug)]
pub(crate) struct SimLeg {
    model: Box<dyn DeviceModel>,
    pub(crate) store: Store,
    /// Which of the scenario's legs it is, whatever its number in the array is now.
    pub(crate) device: usize,
    /// What it said of its array when that was made, where legs say anything.
    pub(crate) made: Option<Box<Superblock>>,
    /// What is wrong with the bytes; `None` where nothing will ever be.
    pub(crate) medium: Option<Box<Medium>>,
    /// A bug on purpose: flushes make nothing durable.
    pub(crate) forgets_flushes: bool,
    /// The same, of data alone.
    pub(crate) forgets_data: bool,
    /// Whether what is trimmed reads as zeros; otherwise it stays as it is.
    pub(crate) trims_to_zeros: bool,
    /// Whether other legs lie on the device, so that what they do changes what comes of it.
    pub(crate) is_shared: bool,
    /// The device's luck.
    luck: RandomStream,
    /// Whether reads need the stamps of sampled sectors only: nothing is ever written.
    pub(crate) samples: bool,
    pub(crate) result: LegResult,
    /// What is to be done as one and has not all come: the first of it, and how far it goes.
    joined: Option<(LegOpId, Extent)>,
    /// [`DeviceModel::next_event_at`], which is asked for far more often than it changes.
    next_event_at: Option<Instant>,
    in_flight: u32,
    busy_since: Instant,
    busy: Duration,
    /// When an operation ended last.
    ended_at: Instant,
}

/// An operation in the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LegOpInFlight {
    pub(crate) op: LegOp,
    pub(crate) dispatched_at: Instant,
    /// Where its bytes lie in the arena; empty where it has none.
    pub(crate) memory: (usize, usize),
    fate: Fate,
}

/// Operations in devices, by the low half of their identity: what is unique among those in flight.
#[derive(Debug, Default)]
pub(crate) struct LegOps {
    slots: Vec<Option<LegOpInFlight>>,
    count: usize,
}

impl LegOps {
    /// Adds an operation; `false` where it is there already.
    pub(crate) fn insert(&mut self, in_flight: LegOpInFlight) -> bool {
        let at = slot(in_flight.op.id);
        if at >= self.slots.len() {
            self.slots.resize(at + 1, None);
        }
        let is_new = self.slots[at].is_none();
        self.slots[at] = Some(in_flight);
        self.count += usize::from(is_new);
        is_new
    }

    /// Takes an operation out; `None` where it is not there.
    pub(crate) fn remove(&mut self, id: LegOpId) -> Option<LegOpInFlight> {
        let place = self.slots.get_mut(slot(id))?;
        let ended = place.take_if(|in_flight| in_flight.op.id == id)?;
        self.count -= 1;
        Some(ended)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &LegOpInFlight> {
        self.slots.iter().flatten()
    }

    /// How many places there are: as many as were ever in flight at once.
    #[cfg(test)]
    pub(crate) const fn place_count(&self) -> usize {
        self.slots.len()
    }
}

fn slot(id: LegOpId) -> usize {
    usize::try_from(id.0 & u64::from(u32::MAX)).expect("an index has 32 bits")
}

impl SimLeg {
    pub(crate) fn new(
        model: Box<dyn DeviceModel>,
        store: Store,
        luck: RandomStream,
        name: &str,
    ) -> Self {
        Self {
            model,
            store,
            device: 0,
            made: None,
            medium: None,
            forgets_flushes: false,
            forgets_data: false,
            trims_to_zeros: true,
            is_shared: false,
            luck,
            samples: false,
            joined: None,
            next_event_at: None,
            result: LegResult {
                model: name.to_owned(),
                reads: 0,
                writes: 0,
                read_bytes: 0,
                write_bytes: 0,
                hedge_reads: 0,
                probe_reads: 0,
                merges: 0,
                stream_switches: 0,
                busy_fraction: 0.0,
                service_time_ns: stdx::histogram::Histogram::new(),
                faulted: false,
            },
            in_flight: 0,
            busy_since: Instant::ZERO,
            busy: Duration::ZERO,
            ended_at: Instant::ZERO,
        }
    }

    /// Hands an operation to the device; `memory` is where its bytes lie in the arena. Of several
    /// that are done as one, the device gets one that is as long as all of them, under the number
    /// of the first one.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        op: LegOp,
        memory: std::ops::Range<usize>,
        arena: &mut Arena,
    ) -> LegOpInFlight {
        self.begin(now);
        let fate = match &mut self.medium {
            Some(medium) => medium.decide(now, &op, &mut self.store),
            None => Fate::Good,
        };
        let in_flight = LegOpInFlight {
            op,
            dispatched_at: now,
            memory: (memory.start, memory.end),
            fate,
        };
        if may_be(op, true) && !self.samples {
            self.move_bytes(&in_flight, arena, |sector| is_early(op, sector));
        }
        let kind = match fate {
            // What any command takes that moves no data and writes nothing back.
            Fate::Lie => OpKind::BlockStatus,
            Fate::Good | Fate::Lost | Fate::Torn { .. } | Fate::Misdirected { .. } => op.kind,
        };
        let (first, whole) = match self.joined.take() {
            Some((first, before)) => {
                let whole = Extent::from_range(before.offset(), op.extent.end());
                (first, whole)
            }
            None => (op.id, op.extent),
        };
        if op.next.is_some() {
            self.joined = Some((first, whole));
        } else {
            self.model.submit(now, first, kind, whole, &mut self.luck);
            self.next_event_at = self.model.next_event_at();
        }
        in_flight
    }

    /// Hands an operation to the device that is not the engine's and moves no bytes.
    pub(crate) fn submit_unseen(
        &mut self,
        now: Instant,
        id: LegOpId,
        kind: OpKind,
        extent: Extent,
    ) {
        self.begin(now);
        self.model.submit(now, id, kind, extent, &mut self.luck);
        self.next_event_at = self.model.next_event_at();
    }

    /// An operation has ended, whoever's it was.
    pub(crate) fn finish_unseen(&mut self, now: Instant, measured: &Period) {
        self.ended_at = now;
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.busy += measured.overlap(self.busy_since, now);
        }
    }

    fn begin(&mut self, now: Instant) {
        if self.in_flight == 0 {
            self.busy_since = now;
        }
        self.in_flight += 1;
    }

    /// Puts `wrap` of the model and the device's luck in the model's place.
    pub(crate) fn replace_model(
        &mut self,
        wrap: impl FnOnce(Box<dyn DeviceModel>, &RandomStream) -> Box<dyn DeviceModel>,
    ) {
        self.model = wrap(self.model.clone(), &self.luck);
    }

    /// A new device in place of the one that has the operations in flight.
    #[cfg(test)]
    pub(crate) fn forget(&mut self) {
        let ram = heliostat_model::drive("ram").expect("it is a drive");
        self.model = ram.params.build(&mut self.luck);
        self.next_event_at = None;
    }

    pub(crate) fn spec(&self) -> &DeviceSpec {
        self.model.spec()
    }

    pub(crate) fn next_event_at(&self) -> Option<Instant> {
        if self.is_shared {
            return self.model.next_event_at();
        }
        self.next_event_at
    }

    /// The next operation that has ended by `now`.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<(LegOpId, Result<(), ErrorKind>)> {
        if self.next_event_at().is_none_or(|at| at > now) {
            return None;
        }
        let ended = self.model.poll_completion(now);
        self.next_event_at = self.model.next_event_at();
        ended
    }

    /// An operation has ended: its bytes are where they belong from now on. For how long the leg
    /// was busy with it.
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        ended: LegOpInFlight,
        result: Result<(), ErrorKind>,
        arena: &mut Arena,
        measured: &Period,
    ) -> Duration {
        let LegOpInFlight { op, fate, .. } = ended;
        let begun_at = self.ended_at.max(ended.dispatched_at);
        let memory = ended.memory.0..ended.memory.1;
        match result {
            Ok(()) if self.samples && op.kind == OpKind::Read => {
                self.store.read_samples(op.extent, &mut arena.bytes[memory]);
            }
            Ok(()) if may_be(op, false) => {
                self.move_bytes(&ended, arena, |sector| !is_early(op, sector));
            }
            Ok(()) => {}
            // Nobody may look at the bytes of a failed read.
            Err(_) if op.kind == OpKind::Read => {
                arena.bytes[memory.clone()].fill(0xdb);
                arena.clear(memory);
            }
            // A failed write has landed as far as it has landed early.
            Err(_) => {}
        }
        if let Some(medium) = &mut self.medium {
            let is_forgotten = self.forgets_flushes && op.kind == OpKind::Flush;
            if self.forgets_data && op.kind == OpKind::Flush {
                medium.keep_unflushed(self.store.data_sector());
            }
            medium.end(&op, fate, result.is_ok() && !is_forgotten);
        }
        self.finish_unseen(now, measured);
        if result.is_ok() && measured.contains(now) {
            let service_time = now - ended.dispatched_at;
            let counters = &mut self.result;
            counters.merges += u64::from(op.next.is_some());
            match op.kind {
                OpKind::Read => {
                    counters.reads += 1;
                    counters.hedge_reads += u64::from(op.is_hedge);
                    counters.read_bytes += op.extent.len();
                    counters.service_time_ns.record(service_time.as_ns());
                }
                OpKind::Write => {
                    counters.writes += 1;
                    counters.write_bytes += op.extent.len();
                    counters.service_time_ns.record(service_time.as_ns());
                }
                OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => {}
            }
        }
        measured.overlap(begun_at, now)
    }

    /// What it did in the measured time, at the end of it.
    pub(crate) fn into_result(mut self, now: Instant, measured: &Period) -> LegResult {
        if self.in_flight > 0 {
            self.busy += measured.overlap(self.busy_since, now);
        }
        let length = measured.length();
        if length > Duration::ZERO {
            self.result.busy_fraction = self.busy.as_secs_f64() / length.as_secs_f64();
        }
        self.result
    }

    /// The power fails at `now`, with these operations in the device: of their bytes some land, of
    /// what is not durable some is gone.
    pub(crate) fn cut_power<'a>(
        &mut self,
        now: Instant,
        in_flight: impl Iterator<Item = &'a LegOpInFlight>,
        arena: &mut Arena,
        measured: &Period,
    ) {
        for in_flight in in_flight {
            self.in_flight -= 1;
            if self.in_flight == 0 {
                self.busy += measured.overlap(self.busy_since, now);
            }
            let op = in_flight.op;
            if !matches!(op.kind, OpKind::Write | OpKind::WriteZeroes | OpKind::Trim) {
                continue;
            }
            let medium = self.medium.as_mut().expect("the power fails");
            let lands = medium.lands_at_cut(&op);
            self.move_bytes(in_flight, arena, |sector| {
                !is_early(op, sector) && lands(sector)
            });
        }
        let medium = self.medium.as_mut().expect("the power fails");
        medium.cut_power(now, &mut self.store);
    }

    /// It has been without power at `now`, with nothing in the device.
    pub(crate) fn lose_cache(&mut self, now: Instant) {
        if let Some(medium) = &mut self.medium {
            medium.cut_power(now, &mut self.store);
        }
    }

    /// It has other data than any leg from now on, and is to be in the place of leg `leg`.
    pub(crate) fn become_another(&mut self, leg: LegId) {
        for sector in self.store.become_another(leg) {
            if let Some(medium) = &mut self.medium {
                medium.put(sector);
            }
        }
    }

    /// Puts bytes there at once and for good, below the data: whole sectors.
    pub(crate) fn put_raw(&mut self, offset_bytes: u64, bytes: &[u8]) {
        self.store.put_raw(offset_bytes, bytes);
        if let Some(medium) = &mut self.medium {
            let extent = Extent::new(offset_bytes, bytes.len() as u64);
            for sector in extent.offset() / SECTOR_BYTES..extent.end() / SECTOR_BYTES {
                medium.put(sector);
            }
        }
    }

    /// Whether an injected fault has damaged a sector.
    pub(crate) fn is_damaged(&self, sector: u64) -> bool {
        let medium = self.medium.as_ref();
        medium.is_some_and(|medium| medium.is_damaged(sector))
    }

    /// Whether an injected fault has damaged a sector before this one.
    pub(crate) fn is_damaged_below(&self, sector: u64) -> bool {
        let medium = self.medium.as_ref();
        medium.is_some_and(|medium| medium.is_damaged_below(sector))
    }

    /// Makes a sector what it is on another leg, for good.
    pub(crate) fn copy_sector(&mut self, sector: u64, bytes: &[u8], is_damaged: bool) {
        self.store.set_sector(sector, bytes);
        if let Some(medium) = &mut self.medium {
            medium.copied(sector, is_damaged);
        }
    }

    /// Moves the bytes of an operation, in sectors that `moves` says.
    fn move_bytes(
        &mut self,
        in_flight: &LegOpInFlight,
        arena: &mut Arena,
        moves: impl Fn(u64) -> bool,
    ) {
        let op = in_flight.op;
        let memory = in_flight.memory.0..in_flight.memory.1;
        if let Some(medium) = &mut self.medium {
            let first = op.extent.offset() / SECTOR_BYTES;
            for sector in (first..op.extent.end() / SECTOR_BYTES).filter(|sector| moves(*sector)) {
                let at = memory.start + index(sector - first) * SECTOR;
                match op.kind {
                    OpKind::Read => {
                        let kept = self.store.sector(sector);
                        arena.bytes[at..at + kept.len()].copy_from_slice(&kept);
                        arena.set_tainted(at, medium.is_damaged(sector));
                    }
                    OpKind::Write => {
                        let is_tainted = arena.is_tainted(at);
                        // Whole, as it may land where more is kept than in its place.
                        let bytes = &arena.bytes[at..at + SECTOR];
                        let store = &mut self.store;
                        medium.write(&op, in_flight.fate, sector, (bytes, is_tainted), store);
                    }
                    OpKind::Trim if !self.trims_to_zeros => {}
                    OpKind::Trim | OpKind::WriteZeroes => {
                        let zeros = (&[0; SECTOR][..], false);
                        let store = &mut self.store;
                        medium.write(&op, in_flight.fate, sector, zeros, store);
                    }
                    OpKind::Flush | OpKind::BlockStatus => {}
                }
            }
            return;
        }
        let bytes = &mut arena.bytes[memory];
        match op.kind {
            OpKind::Read => self.store.read(op.extent, bytes, moves),
            OpKind::Write => self.store.write(op.extent, bytes, moves),
            OpKind::Trim | OpKind::WriteZeroes => self.store.zero(op.extent, moves),
            OpKind::Flush | OpKind::BlockStatus => {}
        }
    }

    /// Whether `op`'s memory is as long as its extent, as it must be.
    pub(crate) fn is_memory_right(op: &LegOp) -> bool {
        let has_bytes = matches!(op.kind, OpKind::Read | OpKind::Write);
        match op.memory {
            Some(slice) => has_bytes && u64::from(slice.len_bytes) == op.extent.len(),
            None => !has_bytes,
        }
    }

    /// Whether `extent` lies inside the device and is aligned for it.
    pub(crate) fn takes(&self, extent: Extent) -> bool {
        let spec = self.model.spec();
        extent.end() <= spec.size_bytes && extent.is_aligned(u64::from(spec.logical_block_bytes))
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("a request fits into memory")
}

/// Whether the bytes of an operation move at dispatch, and not at completion: a device may do
/// either, and in any order, and nothing may depend on it. A third of the operations is early, a
/// third is late, and of a third each sector is one or the other.
const fn is_early(op: LegOp, sector: u64) -> bool {
    match mix(op.id.0) % 3 {
        ALL_EARLY => true,
        ALL_LATE => false,
        _ => mix(op.id.0 ^ sector.rotate_left(32)) & 1 == 0,
    }
}

const ALL_EARLY: u64 = 0;
const ALL_LATE: u64 = 1;

/// Whether any sector of an operation may be early, or late.
const fn may_be(op: LegOp, early: bool) -> bool {
    mix(op.id.0) % 3 != if early { ALL_LATE } else { ALL_EARLY }
}

/// Bits without a pattern, from numbers that have one.
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value >> 29
}
