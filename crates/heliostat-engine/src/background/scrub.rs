//! A scrub: the copies of a window are read, compared, and where they differ made equal.
//!
//! What differs is counted in sectors of 512 bytes, each once, however many copies differ in it. A
//! repair decides page by page, so that no page is put together from several versions: what more
//! than half of three or more copies hold is right; without such a majority, and of two copies, it
//! is the first one in role order. Where a write has failed before and reads have gone to one leg
//! ever since, it is that leg.

use heliostat_types::{Extent, LegId, OpKind, SECTOR_BYTES};

use super::window::{Stage, Window};
use super::{BackgroundKind, Comparison, LEAF_BYTES, RepairSource, TOLD_MAX};
use crate::api::{Event, Output};
use crate::buffer::{BufferSlice, BufferStep};
use crate::divergence::DivergencePin;
use crate::engine::{Engine, Turn};

/// What is done to the pages of a window.
#[derive(Debug, Default)]
struct Plan {
    /// Pages, by offset in the window and length, and the copy that is right there.
    right: Vec<(u64, u64, usize)>,
    /// Legs and what of the window they are to be written.
    runs: Vec<(LegId, Extent)>,
    /// Sectors that differ in pages of which neither a majority nor a pin says what is right.
    undecided_sectors: u64,
}

impl Engine {
    /// Reads all copies.
    pub(super) fn read_copies(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window(index);
        let extent = window.extent;
        let places = self.config.map.places(extent.offset());
        let legs = places.iter().map(|place| place.leg);
        let bad = self.bad_legs(extent);
        let here = self.legs.in_sync.difference(bad);
        let legs = legs.filter(|leg| here.contains(*leg));
        let legs: Vec<LegId> = legs.take(window.memory.len()).collect();
        let window = self.background.window_mut(index);
        window.stage = Stage::Reading;
        window.outstanding = u32::try_from(legs.len()).expect("at most 16");
        let reads: Vec<(LegId, BufferSlice)> =
            legs.iter().copied().zip(window.memory.clone()).collect();
        window.readers = legs;
        if reads.is_empty() {
            return self.leave_unreadable(turn, index);
        }
        for (leg, memory) in reads {
            self.send_window_op(turn, index, leg, OpKind::Read, extent, memory);
        }
    }

    /// All that could be read is there: has the first copy compared with all others.
    pub(super) fn copies_read(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window_mut(index);
        let read = window.read.intersection(self.legs.in_sync);
        let readers = window.readers.iter().zip(&window.memory);
        let good = readers.filter(|(leg, _)| read.contains(**leg));
        let (legs, memory): (Vec<LegId>, Vec<BufferSlice>) =
            good.map(|(leg, slice)| (*leg, *slice)).unzip();
        // Buffers of copies that cannot be had go behind those that can.
        let all = window.memory.iter().copied();
        let rest: Vec<BufferSlice> = all.filter(|slice| !memory.contains(slice)).collect();
        window.readers = legs;
        window.memory = memory;
        window.memory.extend(rest);
        match window.readers.len() {
            0 => self.leave_unreadable(turn, index),
            1 => self.mend_bad_blocks(turn, index),
            count => self.compare_copies(index, (1..count).map(|other| (0, other)).collect()),
        }
    }

    fn compare_copies(&mut self, index: u32, pairs: Vec<(usize, usize)>) {
        let window = self.background.window_mut(index);
        window.stage = Stage::Comparing;
        window.outstanding = u32::try_from(pairs.len()).expect("at most 120");
        for (one, other) in pairs {
            let window = self.background.window(index);
            let comparison = Comparison {
                window: index,
                legs: (window.readers[one], window.readers[other]),
                one: window.memory[one],
                other: window.memory[other],
                block_bytes: u32::try_from(SECTOR_BYTES).expect("512"),
            };
            self.outputs.push_back(Output::Compare(comparison));
        }
    }

    /// The shell has compared two copies.
    pub(crate) fn window_compared(
        &mut self,
        turn: &mut Turn<'_>,
        comparison: &Comparison,
        differing: Vec<u32>,
    ) {
        let index = comparison.window;
        let window = self.background.window_mut(index);
        let place = |leg| window.readers.iter().position(|reader| *reader == leg);
        let (one, other) = comparison.legs;
        let pair = place(one).zip(place(other));
        let pair = pair.expect("what is compared was read");
        window.differing.push((pair, differing));
        window.outstanding -= 1;
        if window.outstanding > 0 {
            return;
        }
        let is_equal = window.differing.iter().all(|(_, list)| list.is_empty());
        let copies = window.readers.len();
        let repair = window.kind == BackgroundKind::Scrub { repair: true };
        let pairs = copies * (copies - 1) / 2;
        if is_equal {
            return self.mend_bad_blocks(turn, index);
        }
        if repair && window.differing.len() < pairs {
            // Whether there is a majority, the first copy alone cannot say.
            let rest = (1..copies).flat_map(|one| (one + 1..copies).map(move |other| (one, other)));
            return self.compare_copies(index, rest.collect());
        }
        self.copies_differ(turn, index, repair);
    }

    /// Counts what differs, and has it made equal.
    fn copies_differ(&mut self, turn: &mut Turn<'_>, index: u32, repair: bool) {
        let window = self.background.window(index);
        let (kind, extent) = (window.kind, window.extent);
        let differing = window.differing.iter();
        let mut sectors: Vec<u32> = differing.flat_map(|(_, list)| list.clone()).collect();
        sectors.sort_unstable();
        sectors.dedup();
        let pin = match self.divergence_of(extent) {
            DivergencePin::Leg(pin) => Some(pin),
            DivergencePin::None | DivergencePin::Cut(_) => None,
        };
        let window = self.background.window(index);
        let pinned = pin.and_then(|pin| window.readers.iter().position(|leg| *leg == pin));
        // The leg that is right could not be read: it is not known what is.
        let can_repair = repair && pin.is_some() == pinned.is_some();
        let plan = can_repair.then(|| plan_repair(window, &sectors, pinned));
        let source = plan.as_ref().map(|plan| match pin {
            Some(pin) => RepairSource::Pinned(pin),
            None if plan.undecided_sectors == 0 => RepairSource::Majority,
            None => RepairSource::First(window.readers[0]),
        });
        let count = sectors.len() as u64;
        let job = self.background.job_of(kind);
        job.mismatches.sectors += count;
        job.mismatches.runs += runs_of(&sectors);
        job.mismatches.undecided_sectors += plan.as_ref().map_or(0, |plan| plan.undecided_sectors);
        job.mismatches_told += 1;
        if job.mismatches_told <= TOLD_MAX {
            self.outputs.push_back(Output::Event(Event::Mismatch {
                extent,
                sectors: count,
                repair: source,
            }));
        }
        let Some(plan) = plan else {
            return self.close_window(turn, index);
        };
        self.merge_copies(index, &plan);
        self.begin_changing(turn, index);
        let window = self.background.window_mut(index);
        window.changed_bytes = Some(plan.right.iter().map(|(_, len, _)| len).sum());
        window.runs = plan.runs;
        self.write_copies(turn, index);
    }

    /// Nothing differs: a repair has the legs written that do not hold it, and are thought to be
    /// able to by now.
    fn mend_bad_blocks(&mut self, turn: &mut Turn<'_>, index: u32) {
        let window = self.background.window(index);
        let repair = window.kind == BackgroundKind::Scrub { repair: true };
        let extent = window.extent;
        let holders = self.config.map.holders(extent.offset());
        let bad = self.bad_legs(extent).intersection(holders);
        let is_known = match self.divergence_of(extent) {
            DivergencePin::None => true,
            DivergencePin::Leg(pin) => self.background.window(index).readers[0] == pin,
            DivergencePin::Cut(_) => false,
        };
        if !repair || !is_known || bad.intersection(self.legs.in_sync).is_empty() {
            return self.close_window(turn, index);
        }
        self.begin_changing(turn, index);
        self.write_copies(turn, index);
    }

    /// Writes what the first buffer holds: where copies differ, and to those that have none.
    fn write_copies(&mut self, turn: &mut Turn<'_>, index: u32) {
        let extent = self.background.window(index).extent;
        let mended = self.bad_legs(extent).intersection(self.legs.in_sync);
        let window = self.background.window_mut(index);
        window.mended = mended;
        window.runs.extend(mended.iter().map(|leg| (leg, extent)));
        window.stage = Stage::Holding;
        self.change_if_durable(turn, index);
    }

    /// Puts together in the first buffer what all copies are to be.
    fn merge_copies(&mut self, index: u32, plan: &Plan) {
        let window = self.background.window(index);
        let others = plan.right.iter().filter(|(_, _, copy)| *copy > 0);
        for &(at, len, copy) in others {
            let step = BufferStep::Copy {
                from: window.memory[copy].part(at, len),
                to: window.memory[0].part(at, len),
            };
            self.outputs.push_back(Output::Buffer(step));
        }
    }
}

/// How many runs there are of sectors that follow each other.
fn runs_of(sectors: &[u32]) -> u64 {
    let breaks = sectors.windows(2).filter(|pair| pair[0] + 1 != pair[1]);
    breaks.count() as u64 + u64::from(!sectors.is_empty())
}

/// Decides page by page which copy is right, or takes the pinned one. `differing` are all sectors
/// in which any copies differ, in order.
fn plan_repair(window: &Window, differing: &[u32], pinned: Option<usize>) -> Plan {
    let copies = window.readers.len();
    let mut plan = Plan::default();
    let mut ends: Vec<Option<usize>> = vec![None; copies];
    let mut at = 0;
    while at < window.extent.len() {
        let len = LEAF_BYTES.min(window.extent.len() - at);
        let sectors = at / SECTOR_BYTES..(at + len).div_ceil(SECTOR_BYTES);
        let is_equal = |one: usize, other: usize| {
            let pair = (one.min(other), one.max(other));
            let known = window.differing.iter().find(|(known, _)| *known == pair);
            let list = known.map_or(&[][..], |(_, list)| list);
            let from = list.partition_point(|sector| u64::from(*sector) < sectors.start);
            !list[from..]
                .first()
                .is_some_and(|sector| sectors.contains(&u64::from(*sector)))
        };
        let alike = |copy: usize| {
            let like = (0..copies).filter(|&other| other == copy || is_equal(copy, other));
            like.count()
        };
        if (1..copies).any(|other| !is_equal(0, other)) {
            let majority = (0..copies).find(|&copy| copies > 2 && alike(copy) * 2 > copies);
            if pinned.or(majority).is_none() {
                let inside = |sector: &&u32| sectors.contains(&u64::from(**sector));
                plan.undecided_sectors += differing.iter().filter(inside).count() as u64;
            }
            let right = pinned.or(majority).unwrap_or(0);
            plan.right.push((at, len, right));
            let page = Extent::new(window.extent.offset() + at, len);
            for copy in (0..copies).filter(|&copy| copy != right && !is_equal(copy, right)) {
                add_run(&mut plan.runs, &mut ends[copy], window.readers[copy], page);
            }
        }
        at += len;
    }
    plan
}

/// Adds a page to what a leg is to be written, as part of the run before where they touch.
fn add_run(runs: &mut Vec<(LegId, Extent)>, last: &mut Option<usize>, leg: LegId, page: Extent) {
    if let Some((_, run)) = last.and_then(|at| runs.get_mut(at))
        && run.end() == page.offset()
    {
        *run = Extent::from_range(run.offset(), page.end());
        return;
    }
    *last = Some(runs.len());
    runs.push((leg, page));
}
