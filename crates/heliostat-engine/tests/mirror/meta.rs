//! Arrays with Linux md metadata: how their legs are formatted, and what their bytes say after a
//! power cut. What must hold of them at every moment is in `judge`.
//!
//! The metadata of a leg is kept behind the array's bytes, so that what legs do to bytes (caches,
//! torn writes, errors) they do to both. Who is believed after a power cut is not the engine's to
//! say: the rules of assembly are asked, with legs in any order and any of them missing.

mod judge;

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use heliostat_engine::{LegOp, LegState, Map, Metadata, Missed, Unequal};
use heliostat_format::assembly::{Assembly, Candidate, Member};
use heliostat_format::{
    BadBlocks, BitmapBits, BitmapState, BitmapSuper, DeviceFlags, Features, RESYNC_DONE, Role,
    Superblock, Uuid,
};
use heliostat_types::{Duration, Extent, LegId, LegSet, OpKind, Prng, SECTOR_BYTES};

use crate::checker::Tick;
use crate::fill::index;
use crate::leg::{Leg, SECTOR};
use crate::world::{Setup, World};

/// Where on a leg the superblock lies.
const SUPER_AT: u64 = 4096;
/// Where on a leg the bitmap begins.
const BITMAP_AT: u64 = 8192;
/// What a log of bad blocks takes of a leg.
const LOG_BYTES: u64 = 4096;
const UUID: Uuid = Uuid([7; 16]);
/// Some day in 2026.
const UNIX_TIME: Duration = Duration::from_secs(1_790_000_000);

/// What the metadata of an array is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    /// What a bit stands for; `None` where there is no bitmap.
    pub(crate) chunk_bytes: Option<u32>,
    pub(crate) daemon_sleep_seconds: u32,
    /// The events of all legs at the start.
    pub(crate) events: u64,
    /// Whether legs have a log of bad blocks.
    pub(crate) has_log: bool,
}

impl Meta {
    /// How much room a leg needs in front of its data, at least.
    pub(crate) fn room_bytes(self, size_bytes: u64) -> u64 {
        let log = if self.has_log { LOG_BYTES } else { 0 };
        self.log_at(size_bytes) + log
    }

    /// Where on a leg the log of bad blocks begins.
    fn log_at(self, size_bytes: u64) -> u64 {
        let bits = self.bits(size_bytes);
        BITMAP_AT + bits.map_or(0, |bits| bits.bytes().len() as u64)
    }

    fn bits(self, size_bytes: u64) -> Option<BitmapBits> {
        let head = BitmapSuper {
            uuid: UUID,
            events: self.events,
            events_cleared: self.events,
            sync_size_sectors: size_bytes / SECTOR_BYTES,
            chunk_bytes: self.chunk_bytes?,
            daemon_sleep_seconds: self.daemon_sleep_seconds,
            ..BitmapSuper::default()
        };
        Some(BitmapBits::new(head, head.chunks().unwrap()))
    }
}

/// What was read of one leg.
type Reading = Option<Rc<Candidate>>;

/// What was last read of each leg, and of which bytes.
#[derive(Debug, Default)]
pub(crate) struct Readings(RefCell<Vec<(Vec<u8>, Reading)>>);

fn read(leg: usize, bytes: &[u8]) -> Reading {
    let superblock = Superblock::parse(bytes).ok()?;
    let from = index(BITMAP_AT - SUPER_AT);
    let bitmap = superblock.bitmap_sector();
    let bitmap = bitmap.and_then(|_| BitmapBits::load(&bytes[from..]).ok());
    Some(Rc::new(Candidate {
        name: format!("leg {leg}"),
        bitmap,
        bad_blocks: read_log(&superblock, bytes),
        superblock,
    }))
}

/// The bad blocks of a leg, where its superblock says that there are any.
fn read_log(superblock: &Superblock, bytes: &[u8]) -> BadBlocks {
    let is_told = superblock.features.contains(Features::BAD_BLOCKS);
    let Some(sector) = superblock.bad_blocks_sector().filter(|_| is_told) else {
        return BadBlocks::new(superblock.bad_blocks_size_sectors);
    };
    let from = index(sector * SECTOR_BYTES - SUPER_AT);
    let log = &bytes[from..from + index(LOG_BYTES)];
    BadBlocks::parse(log, 0).expect("a log is what the engine has written")
}

/// Formats a leg.
pub(crate) fn format(setup: &Setup, meta: Meta, number: usize, leg: &mut Leg) {
    let bits = meta.bits(setup.size_bytes);
    let features = match bits {
        Some(_) => Features::BITMAP,
        None => Features::default(),
    };
    // One that is missing may have been the only one to hear of the last event.
    let ahead = u64::from(leg.config.state != LegState::InSync && setup.seed.is_multiple_of(2));
    let roles = setup.map.as_ref().map_or(setup.legs.len(), Map::legs);
    let mut superblock = Superblock {
        features,
        set_uuid: UUID,
        level: 1,
        raid_disks: u32::try_from(roles).unwrap(),
        size_sectors: setup.size_bytes / SECTOR_BYTES,
        bitmap_offset_sectors: if bits.is_some() { 8 } else { 0 },
        data_offset_sectors: setup.legs[number].data_offset_bytes / SECTOR_BYTES,
        data_size_sectors: setup.size_bytes / SECTOR_BYTES,
        dev_number: u32::try_from(number).unwrap(),
        device_uuid: Uuid([u8::try_from(number + 1).unwrap(); 16]),
        events: meta.events + ahead,
        resync_offset_sectors: RESYNC_DONE,
        ..Superblock::default()
    };
    for (flag, is_set) in [
        (DeviceFlags::WRITE_MOSTLY, leg.config.write_mostly),
        (DeviceFlags::FAIL_FAST, leg.config.failfast),
    ] {
        if is_set {
            superblock.device_flags = superblock.device_flags.with(flag);
        }
    }
    if meta.has_log {
        let offset = (meta.log_at(setup.size_bytes) - SUPER_AT) / SECTOR_BYTES;
        superblock.bad_blocks_offset_sectors = i32::try_from(offset).unwrap();
        superblock.bad_blocks_size_sectors = 8;
    }
    for (role, number) in superblock.roles.iter_mut().zip(0..).take(roles) {
        *role = Role::Active(number);
    }
    let area = index(setup.size_bytes);
    let mut put = |at: u64, bytes: &[u8]| {
        let at = area + index(at);
        leg.data[at..at + bytes.len()].copy_from_slice(bytes);
        leg.durable[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put(SUPER_AT, &superblock.to_bytes());
    if let Some(bits) = bits {
        put(BITMAP_AT, bits.bytes());
    }
    if meta.has_log {
        put(meta.log_at(setup.size_bytes), &vec![0xff; index(LOG_BYTES)]);
    }
}

/// An array as some legs describe it, by role.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) trusted: LegSet,
    /// The legs that are given back what they missed.
    pub(crate) returning: Vec<LegId>,
    is_clean: bool,
    events: u64,
    readings: Vec<Reading>,
    /// The legs that have the roles, by role, and the one that is to replace another one last.
    by_role: Vec<Option<LegId>>,
    /// How many roles there are.
    roles: usize,
    metadata: Metadata,
}

impl Found {
    /// What an engine is told.
    pub(crate) fn metadata(self) -> Metadata {
        self.metadata
    }

    /// The legs whose rebuild goes on.
    pub(crate) fn rebuilding(&self) -> LegSet {
        self.lacking().map(|(leg, _)| leg).collect()
    }

    /// These, each with what it lacks.
    fn lacking(&self) -> impl Iterator<Item = (LegId, &Missed)> {
        let lacking = self.metadata.rebuilding.iter();
        lacking.map(|(role, missed)| {
            let leg = self.by_role[role.index()];
            (leg.expect("it is there"), missed)
        })
    }

    /// How many roles there are.
    pub(crate) const fn roles(&self) -> usize {
        self.roles
    }

    /// The leg that is being replaced.
    pub(crate) fn replaced(&self) -> Option<LegId> {
        self.metadata.replaced
    }

    /// Whether a leg is known to lack what the others hold at this address of the
    /// array, which is another one on the leg.
    fn lacks(&self, missed: &Missed, at: u64, on_leg: u64) -> bool {
        let bits = self.metadata.bitmap.as_ref();
        let has_bit = bits.is_some_and(|bits| is_set(bits, at));
        match missed {
            Missed::From(from) => on_leg >= *from,
            Missed::Bits { from, all_from } => {
                has_bit && on_leg >= *from || all_from.is_some_and(|from| on_leg >= from)
            }
            Missed::Extents(_) => false,
        }
    }

    /// In words.
    pub(crate) fn story(&self) -> String {
        let events = self.readings.iter();
        let events: Vec<Option<u64>> = events
            .map(|reading| Some(reading.as_ref()?.superblock.events))
            .collect();
        let bits = self.metadata.bitmap.as_ref().map(BitmapBits::count_set);
        format!(
            "events {events:?} trusted {:?} rebuilding {:?} clean {} {:?} bits {bits:?} uneven {}",
            self.trusted,
            self.metadata.rebuilding,
            self.is_clean,
            self.metadata.unequal,
            self.metadata.is_uneven
        )
    }

    /// Whether some chunk is to be resynced.
    pub(crate) fn needs_resync(&self) -> bool {
        match (self.metadata.unequal, &self.metadata.bitmap) {
            (Unequal::Nowhere, _) => false,
            (Unequal::Bits, Some(bits)) => bits.count_set() > 0,
            (Unequal::Bits | Unequal::From(_), _) => true,
        }
    }

    /// Whether the bit of a chunk is set where an engine is told of it.
    pub(crate) fn may_differ(&self, at: u64) -> bool {
        match (self.metadata.unequal, &self.metadata.bitmap) {
            (Unequal::Nowhere, _) => false,
            (Unequal::From(from), _) => at >= from,
            (Unequal::Bits, Some(bits)) => is_set(bits, at),
            (Unequal::Bits, None) => true,
        }
    }

    /// The bitmap of a trusted leg, where anybody would believe that alone.
    fn bitmap(&self, leg: LegId) -> Option<&BitmapBits> {
        let bits = self.readings[leg.index()].as_ref()?.bitmap.as_ref()?;
        let head = bits.super_block();
        let is_stale = head.state.contains(BitmapState::STALE);
        (head.events >= self.events && !is_stale).then_some(bits)
    }
}

fn is_set(bits: &BitmapBits, at: u64) -> bool {
    bits.get(at / u64::from(bits.super_block().chunk_bytes))
}

impl Readings {
    /// What is durably on each leg.
    fn of(&self, setup: &Setup, legs: &[Leg]) -> Vec<Reading> {
        let meta = setup.meta.expect("the array has metadata");
        let from = index(setup.size_bytes + SUPER_AT);
        let end = index(setup.size_bytes + meta.room_bytes(setup.size_bytes));
        let mut known = self.0.borrow_mut();
        known.resize(legs.len(), (Vec::new(), None));
        for (number, (leg, known)) in legs.iter().zip(known.iter_mut()).enumerate() {
            let bytes = &leg.durable[from..end];
            if known.0 != bytes {
                *known = (bytes.to_vec(), read(number, bytes));
            }
        }
        known.iter().map(|(_, reading)| reading.clone()).collect()
    }
}

impl Found {
    /// The array as these legs describe it, where they come in this order.
    fn of(
        mut readings: Vec<Reading>,
        present: LegSet,
        order: &[usize],
        takes_back: bool,
    ) -> Result<Self, String> {
        for (leg, reading) in readings.iter_mut().enumerate() {
            if !present.contains(LegId::new(leg)) {
                *reading = None;
            }
        }
        let there = order.iter().filter(|leg| readings[**leg].is_some());
        let order: Vec<usize> = there.copied().collect();
        let candidates = order.iter().filter_map(|&leg| readings[leg].as_deref());
        let candidates: Vec<Candidate> = candidates.cloned().collect();
        let mut assembly = Assembly::of(&candidates).map_err(|error| error.to_string())?;
        let returning = if takes_back {
            assembly.take_back(&candidates)
        } else {
            Vec::new()
        };
        let trusted = assembly
            .in_sync()
            .map(|candidate| LegId::new(order[candidate]));
        let fresh = &candidates[assembly.freshest].superblock;
        let leg_of = |candidate: usize| LegId::new(order[candidate]);
        let members = assembly.members.iter().map(|member| match *member {
            Member::InSync(candidate)
            | Member::Rebuilding { candidate, .. }
            | Member::Returning { candidate, .. } => Some(leg_of(candidate)),
            Member::Missing => None,
        });
        let replacement = assembly.replacement.iter();
        let replacement = replacement.map(|known| Some(leg_of(known.candidate)));
        Ok(Self {
            by_role: members.chain(replacement).collect(),
            roles: assembly.members.len(),
            trusted: trusted.collect(),
            returning: returning
                .into_iter()
                .map(|at| LegId::new(order[at]))
                .collect(),
            is_clean: fresh.resync_offset_sectors == RESYNC_DONE,
            events: fresh.events,
            metadata: Metadata::of(&assembly, &candidates, UNIX_TIME),
            readings,
        })
    }
}

/// Legs in an order that begins with `first`.
fn order_of(count: usize, first: usize) -> Vec<usize> {
    (0..count).map(|leg| (first + leg) % count).collect()
}

/// What an engine is told of legs that were just formatted, of which some may be missing.
pub(crate) fn metadata_of(setup: &Setup, legs: &[Leg]) -> Metadata {
    let is_there = |leg: &LegId| setup.legs[leg.index()].state == LegState::InSync;
    let present = LegSet::first(legs.len()).iter().filter(is_there).collect();
    let readings = Readings::default().of(setup, legs);
    let order = order_of(legs.len(), 0);
    let found = Found::of(readings, present, &order, false).expect("they are legs of one array");
    found.metadata
}

/// All pairs of some legs.
pub(crate) fn pairs_of(legs: LegSet) -> impl Iterator<Item = (LegId, LegId)> {
    let ones = legs.iter();
    ones.flat_map(move |one| {
        let others = legs.iter().filter(move |other| other.index() > one.index());
        others.map(move |other| (one, other))
    })
}

impl World {
    /// What is durably in the log of a leg, from the start of its data.
    pub(crate) fn log_on(&self, leg: LegId) -> BadBlocks {
        let reading = self
            .setup
            .meta
            .and_then(|_| self.readings()[leg.index()].clone());
        let of_data = |reading: Rc<Candidate>| {
            let from = reading.superblock.data_offset_sectors;
            reading.bad_blocks.counted_from(from)
        };
        reading.map_or_else(|| BadBlocks::new(0), of_data)
    }

    /// What the log of a leg says when it is read.
    pub(crate) fn log_in_use(&self, leg: LegId) -> Option<BadBlocks> {
        let superblock = self.superblock_on(leg)?;
        let at = index(self.setup.size_bytes + SUPER_AT);
        Some(read_log(&superblock, &self.legs[leg.index()].data[at..]))
    }

    /// Whether these blocks of a leg are those of the sector at this byte of the array.
    pub(crate) fn is_in_log(&self, log: &BadBlocks, leg: LegId, at: u64) -> bool {
        let sector = Extent::new(at / SECTOR_BYTES * SECTOR_BYTES, SECTOR_BYTES);
        let sector = self.map.on_leg(leg, sector).offset() / SECTOR_BYTES;
        !log.is_empty() && log.overlaps(&(sector..sector + 1))
    }

    /// The same, as the engine knows it now.
    pub(crate) fn is_bad(&self, leg: LegId, at: u64) -> bool {
        self.is_in_log(self.engine.bad_blocks(leg), leg, at)
    }

    /// Whether it was so since then, and is no more.
    pub(crate) fn was_bad(&self, leg: LegId, at: u64, since: Tick) -> bool {
        let sector = Extent::new(at / SECTOR_BYTES * SECTOR_BYTES, SECTOR_BYTES);
        let sector = self.map.on_leg(leg, sector);
        let mut healed = self.legs[leg.index()].healed.iter();
        healed.any(|(extent, until)| *until >= since && extent.overlaps(sector))
    }

    /// A leg is out: what it held well, and all that are left do not, is gone with it. A leg that
    /// fails is not kept for single blocks, so that nobody can be held to them any more: their
    /// reads fail.
    pub(crate) fn note_lost_with(&mut self, gone: LegId) {
        if self.legs[gone.index()].is_in_sync() {
            let lost = self.lost_with(gone);
            self.lost_with_legs.extend(lost);
        }
    }

    /// The sectors that are bad on all legs in sync but this one, which holds them.
    fn lost_with(&self, gone: LegId) -> Vec<u64> {
        let left = self.good().difference(LegSet::from_iter([gone]));
        if left
            .iter()
            .all(|leg| self.engine.bad_blocks(leg).is_empty())
        {
            return Vec::new();
        }
        let sectors = (0..self.setup.size_bytes).step_by(SECTOR);
        let lost = sectors.filter(|&at| {
            let holders = self.map.holders(at);
            let mut others = holders.intersection(left).iter();
            let is_held = holders.contains(gone) && !self.is_bad(gone, at);
            is_held && others.all(|leg| self.is_bad(leg, at))
        });
        lost.collect()
    }

    /// A leg that is replaced leaves nothing behind that it could be read of.
    pub(crate) fn judge_replaced(&self, gone: LegId) {
        let was_readable = |at: &u64| {
            let sector = Extent::new(*at, SECTOR_BYTES);
            !self.legs[gone.index()].failed(sector, 0, |kind| kind == OpKind::Read)
        };
        let lost = self.lost_with(gone).into_iter().find(was_readable);
        self.check(lost.is_none(), || {
            format!("{gone} is replaced, and alone had byte {lost:?}")
        });
    }

    /// A leg says that it does not hold these sectors, and nothing else.
    pub(crate) fn put_log(&mut self, leg: LegId, sectors: Range<u64>) {
        let mut superblock = self.superblock_on(leg).expect("it has one");
        superblock.features = superblock.features.with(Features::BAD_BLOCKS);
        let from = superblock.data_offset_sectors;
        let mut log = BadBlocks::new(superblock.bad_blocks_size_sectors);
        let inserted = log.insert(sectors.start + from..sectors.end + from);
        inserted.expect("there is room for one");
        let bytes = log.to_bytes();
        let meta = self.setup.meta.expect("there is metadata");
        let at = index(self.setup.size_bytes + meta.log_at(self.setup.size_bytes));
        let slot = &mut self.legs[leg.index()];
        for on_leg in [&mut slot.data, &mut slot.durable] {
            on_leg[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        self.put_superblock(leg, &superblock);
    }

    /// A leg is in sync: it may hold some of that.
    pub(crate) fn note_found_with(&mut self, leg: LegId) {
        let lost = std::mem::take(&mut self.lost_with_legs);
        let is_found = |at: &u64| self.map.holders(*at).contains(leg) && !self.is_bad(leg, *at);
        self.lost_with_legs = lost.into_iter().filter(|at| !is_found(at)).collect();
    }

    /// The sectors of a part of one chunk that none of these legs durably holds.
    pub(crate) fn held_by_none(&self, legs: &[LegId], part: Extent) -> Vec<Extent> {
        let logs: Vec<(LegId, BadBlocks)> =
            legs.iter().map(|leg| (*leg, self.log_on(*leg))).collect();
        let sectors = (part.offset()..part.end()).step_by(SECTOR);
        let is_bad = |at: &u64| logs.iter().all(|(leg, log)| self.is_in_log(log, *leg, *at));
        let lost = sectors.filter(is_bad);
        lost.map(|at| Extent::new(at, SECTOR_BYTES)).collect()
    }

    /// The parts of `extent` that a leg holds, without what its log says it does not.
    pub(crate) fn held_well(&self, leg: usize, extent: Extent) -> Vec<Extent> {
        let log = self.log_on(LegId::new(leg));
        let parts = self.held(leg, extent).into_iter();
        if log.is_empty() {
            return parts.collect();
        }
        let sectors = parts.flat_map(|part| {
            let at = part.offset() / SECTOR_BYTES * SECTOR_BYTES;
            let sectors = (at..part.end()).step_by(SECTOR);
            sectors.filter_map(move |at| Extent::new(at, SECTOR_BYTES).intersection(part))
        });
        sectors
            .filter(|sector| !self.is_in_log(&log, LegId::new(leg), sector.offset()))
            .collect()
    }

    fn readings(&self) -> Vec<Reading> {
        self.readings.of(&self.setup, &self.legs)
    }

    /// The array as these legs describe it, where they come in an order that begins with `first`.
    pub(crate) fn find_array(&self, present: LegSet, first: usize) -> Result<Found, String> {
        let order = order_of(self.legs.len(), first);
        Found::of(self.readings(), present, &order, false)
    }

    /// The same, where legs that were away are taken back.
    pub(crate) fn find_all(&self, present: LegSet, first: usize) -> Result<Found, String> {
        let order = order_of(self.legs.len(), first);
        Found::of(self.readings(), present, &order, true)
    }

    /// The legs that would be believed if the power failed now and nothing more were kept. Where
    /// people are asked, they name those that the array was last taken up with.
    pub(crate) fn believed(&self) -> LegSet {
        let all = LegSet::first(self.legs.len());
        match self.find_array(all, 0) {
            Ok(found) => found.trusted,
            Err(what) if self.is_split(&what) => self.good(),
            Err(what) => self.fail(&what),
        }
    }

    /// The legs that would be believed, whichever are there besides `current`, in whatever order
    /// they come.
    pub(crate) fn ever_believed(&self, current: LegSet) -> LegSet {
        let count = self.legs.len();
        let subsets = (0..1_usize << count).map(|bits| {
            let is_there = |leg: &LegId| bits >> leg.index() & 1 == 1;
            LegSet::first(count).iter().filter(is_there).collect()
        });
        let subsets = subsets.filter(|&subset: &LegSet| current.difference(subset).is_empty());
        let found = subsets.flat_map(|subset| {
            (0..count).filter_map(move |first| self.find_array(subset, first).ok())
        });
        found.fold(LegSet::EMPTY, |known, found| known.union(found.trusted))
    }

    /// Legs that may be there after a power cut: any, but enough of those that are in sync. Until
    /// these have all heard who is missing, they are: two starts in a row, each without a leg that
    /// the other one had, and neither of which got so far, leave legs that call each other failed.
    /// Enough of those that would be believed if all were there are there, for the same reason.
    pub(crate) fn some_present(&mut self) -> LegSet {
        let good = self.good().intersection(self.believed());
        let mut present = LegSet::first(self.legs.len());
        let keeps_all = self.prng.below(2) == 0;
        for leg in LegSet::first(self.legs.len()) {
            let mut less = present;
            less.remove(leg);
            let is_needed = !self.engine.is_taken_up() && good.contains(leg);
            let is_enough = !is_needed && self.map.is_covered_by(less.intersection(good));
            if is_enough && !keeps_all && self.prng.below(3) == 0 {
                present = less;
            }
        }
        present
    }

    /// What a leg says.
    pub(crate) fn superblock_on(&self, leg: LegId) -> Option<Superblock> {
        self.setup.meta?;
        let at = index(self.setup.size_bytes + SUPER_AT);
        Superblock::parse(&self.legs[leg.index()].data[at..]).ok()
    }

    /// Whether an operation is on the metadata of its leg.
    pub(crate) fn is_metadata(&self, op: &LegOp) -> bool {
        op.kind != OpKind::Flush && op.extent.offset() >= self.setup.size_bytes
    }

    /// Somebody has used the array who knows of no bitmaps: what they say is worth nothing.
    pub(crate) fn make_bitmaps_stale(&mut self) {
        let at = index(self.setup.size_bytes + BITMAP_AT);
        for (leg, reading) in self.readings().iter().enumerate() {
            let bits = reading.as_ref().and_then(|reading| reading.bitmap.clone());
            if let Some(mut bits) = bits {
                bits.clear_all();
                bits.set_super(BitmapSuper {
                    events: 1,
                    ..*bits.super_block()
                });
                let leg = &mut self.legs[leg];
                leg.data[at..][..bits.bytes().len()].copy_from_slice(bits.bytes());
                leg.durable[at..][..bits.bytes().len()].copy_from_slice(bits.bytes());
            }
        }
    }

    /// What an engine is told of the legs at its start.
    pub(crate) fn take_up(&mut self, found: Found) -> Metadata {
        for leg in &found.returning {
            self.mark_incomplete(*leg);
        }
        let rebuilding = found.rebuilding();
        for leg in LegSet::first(self.legs.len()) {
            let superblock = self.superblock_on(leg);
            let config = &mut self.legs[leg.index()].config;
            if let Some(flags) = superblock.map(|superblock| superblock.device_flags) {
                config.write_mostly = flags.contains(DeviceFlags::WRITE_MOSTLY);
                config.failfast = flags.contains(DeviceFlags::FAIL_FAST);
            }
            if found.trusted.contains(leg) {
                config.state = LegState::InSync;
            } else if config.state == LegState::InSync {
                config.state = LegState::Missing;
            }
            self.setup.legs[leg.index()] = *config;
            if rebuilding.contains(leg) {
                self.setup.legs[leg.index()].state = LegState::Rebuilding;
            }
        }
        let mut metadata = found.metadata();
        for leg in rebuilding {
            metadata.superblocks[leg.index()] = self.superblock_on(leg);
        }
        metadata
    }

    /// Puts the legs in the order of the roles that they were found to have: those that have none
    /// come where there is room. What the legs say then, as they said it in this order.
    pub(crate) fn put_in_order(
        &mut self,
        found: &Found,
        (present, first): (LegSet, usize),
        takes_back: bool,
    ) -> Found {
        let count = self.legs.len();
        let mut order = found.by_role.clone();
        order.resize(count, None);
        let is_placed = |order: &[Option<LegId>], leg| order.contains(&Some(leg));
        // A leg that is not there stays where its role is.
        for leg in LegSet::first(count) {
            let role = self.map.role_of(leg).filter(|role| order[*role].is_none());
            if let Some(role) = role
                && !is_placed(&order, leg)
            {
                order[role] = Some(leg);
            }
        }
        for leg in LegSet::first(count) {
            if !is_placed(&order, leg) {
                let room = order.iter().position(Option::is_none);
                order[room.expect("there are as many")] = Some(leg);
            }
        }
        let order: Vec<usize> = order.iter().flatten().map(|leg| leg.index()).collect();
        let legs = std::mem::take(&mut self.legs);
        let mut legs: Vec<_> = legs.into_iter().map(Some).collect();
        let taken = order.iter().map(|&leg| legs[leg].take());
        self.legs = taken.map(|leg| leg.expect("each has one place")).collect();
        self.setup.legs = order.iter().map(|&leg| self.setup.legs[leg]).collect();
        let is_there = |at: &LegId| present.contains(LegId::new(order[at.index()]));
        let last = count - 1;
        // What the last one holds counts where it is not there now and comes back.
        let role = self.map.role_of(LegId::new(order[last]));
        let role = found.replaced().map(LegId::index).or(role);
        self.set_map(self.plain.clone());
        if let Some(role) = role.filter(|_| last >= self.plain.legs()) {
            self.give_role(LegId::new(last), role);
        }
        let present = LegSet::first(count).iter().filter(is_there).collect();
        let place = |old: usize| order.iter().position(|&leg| leg == old);
        let order = order_of(count, first).into_iter().filter_map(place);
        let order: Vec<usize> = order.collect();
        let found = Found::of(self.readings(), present, &order, takes_back);
        found.expect("they say what they said")
    }

    /// What a new leg says that is to replace another one, before it was told so.
    pub(crate) fn format_new(&mut self, leg: LegId) -> Superblock {
        let like = self.engine.array_superblock().expect("there is metadata");
        let own = self.superblock_on(leg).expect("it was formatted");
        // A number that no leg ever had, as the daemon gives it. Here those have one as well that
        // nobody was told of.
        let mut roles = like.roles.clone();
        let others = LegSet::first(self.legs.len()).iter();
        let others = others.filter(|other| *other != leg);
        let numbers = others.filter_map(|other| Some(self.superblock_on(other)?.dev_number));
        let behind = numbers.max().map_or(0, |last| last as usize + 1);
        let is_used = |role: &Role| *role != Role::Spare;
        let number = roles.iter().rposition(is_used).map_or(0, |last| last + 1);
        let number = number.max(behind);
        roles.resize(roles.len().max(number + 1), Role::Spare);
        let superblock = Superblock {
            dev_number: u32::try_from(number).expect("there are few"),
            roles,
            events: 0,
            features: like.features.without(Features::BAD_BLOCKS),
            recovery_offset_sectors: 0,
            ..own
        };
        let size_bytes = index(self.setup.size_bytes);
        let meta = self.setup.meta.expect("there is metadata");
        let log_at = size_bytes + index(meta.log_at(self.setup.size_bytes));
        let slot = &mut self.legs[leg.index()];
        for bytes in [&mut slot.data, &mut slot.durable] {
            bytes[..size_bytes].fill(0x5a);
            if meta.has_log {
                bytes[log_at..log_at + index(LOG_BYTES)].fill(0xff);
            }
        }
        self.put_superblock(leg, &superblock);
        superblock
    }

    /// Whether a leg has a role that it has never been told of: it was added to it by nobody.
    pub(crate) fn is_first(&self, leg: LegId) -> bool {
        let has_role = self.engine.map().role_of(leg).is_some();
        let known = self.engine.array_superblock();
        let role = known.and_then(|like| like.role_of(self.superblock_on(leg)?.dev_number));
        has_role && !matches!(role, Some(Role::Active(_) | Role::Faulty))
    }

    /// Before a leg is added, it says itself that it is incomplete.
    pub(crate) fn mark_incomplete(&mut self, leg: LegId) {
        if let Some(superblock) = self.superblock_on(leg) {
            self.put_superblock(leg, &superblock.incomplete());
        }
    }

    /// A leg is another device, which has no data at all.
    pub(crate) fn mark_empty(&mut self, leg: LegId) {
        if let Some(superblock) = self.superblock_on(leg) {
            let features = superblock.features.without(Features::RECOVERY_BITMAP);
            let empty = Superblock {
                features: features.with(Features::RECOVERY_OFFSET),
                recovery_offset_sectors: 0,
                ..superblock
            };
            self.put_superblock(leg, &empty);
        }
    }

    fn put_superblock(&mut self, leg: LegId, superblock: &Superblock) {
        let bytes = superblock.to_bytes();
        let at = index(self.setup.size_bytes + SUPER_AT);
        let leg = &mut self.legs[leg.index()];
        leg.data[at..at + bytes.len()].copy_from_slice(&bytes);
        leg.durable[at..at + bytes.len()].copy_from_slice(&bytes);
    }
}
