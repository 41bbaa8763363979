//! Prefetch: bytes that the policy expects to be wanted next are read before they are, and a
//! client's read of them is served from memory.
//!
//! What is prefetched is one *run* each, read from one leg and never written to. It is read only
//! where no two legs may differ, and forgotten as soon as an overlapping change is admitted or
//! begins, a resync is asked for, or the leg that is reading it is out; so what it holds is what
//! every leg holds. A read that lies in one run is answered with the run's own memory, and one that
//! lies in several is put together.
//!
//! Memory is a share of the arena, and less than that as soon as anybody waits for memory: then all
//! that nobody reads is given back. What nobody has wanted for a while is given back as well.

use std::collections::BTreeMap;

use heliostat_policy::{Prefetch, ReadRequest};
use heliostat_types::{Duration, ErrorKind, Extent, FlowId, Instant, LegId, LegSet, OpKind};

use crate::api::{Answer, Config, Output};
use crate::asked::Admitted;
use crate::buffer::{BufferId, BufferSlice, BufferStep};
use crate::engine::{Engine, Turn};
use crate::legs::{NewOp, Op, OpOwner};
use crate::read::{LostPiece, Piece, PieceOwner};
use crate::slab::Slab;

/// Of the arena, as one part in so many.
const MEMORY_SHARE: usize = 4;
/// What nobody has wanted for this long is forgotten: its reader has gone, or comes so seldom that
/// a leg may as well be asked then.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// Of what lies behind a run that somebody waits for, what begins within so much is his as well.
const TAKEN_ON_BYTES: u64 = 8 << 20;

/// How much was prefetched, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchFigures {
    /// Read from legs.
    pub read_bytes: u64,
    /// Given to clients.
    pub served_bytes: u64,
}

/// Bytes that were read, or are being read.
#[derive(Debug)]
struct Run {
    extent: Extent,
    leg: LegId,
    sent: Instant,
    /// The operation that reads it, until it is read.
    op: u32,
    memory: BufferSlice,
    is_read: bool,
    /// A second leg was faster with some of it.
    is_passed: bool,
    /// Who waits until it is.
    readers: Vec<Reader>,
    wanted_at: Instant,
}

/// A piece that waits for a run.
#[derive(Clone, Copy, Debug)]
struct Reader {
    piece: u32,
    serial: u64,
    /// Where in the run's memory its bytes will be, where they are to be copied; where not, they
    /// are served where they are.
    copied_from: Option<BufferSlice>,
}

/// All that is prefetched.
#[derive(Debug)]
pub(crate) struct Prefetched {
    runs: Slab<Run>,
    /// By their offset. They never overlap.
    by_offset: BTreeMap<u64, u32>,
    bytes: u64,
    max_bytes: u64,
    /// When to look for what nobody wants.
    sweep_at: Option<Instant>,
    /// What is copied from and to, until that is done: after this input.
    copied: Vec<BufferId>,
    /// Scratch for what a policy plans.
    planned: Vec<Prefetch>,
    figures: PrefetchFigures,
}

impl Prefetched {
    pub(crate) fn new(memory_bytes: usize) -> Self {
        Self {
            runs: Slab::new(),
            by_offset: BTreeMap::new(),
            bytes: 0,
            max_bytes: (memory_bytes / MEMORY_SHARE) as u64,
            sweep_at: None,
            copied: Vec::new(),
            planned: Vec::new(),
            figures: PrefetchFigures::default(),
        }
    }

    pub(crate) const fn sweep_at(&self) -> Option<Instant> {
        self.sweep_at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_offset.is_empty()
    }

    pub(crate) fn reset_figures(&mut self) {
        self.figures = PrefetchFigures::default();
    }

    /// Counts on where another engine ended.
    pub(crate) const fn follow(&mut self, before: &Self) {
        self.figures = before.figures;
    }

    /// The first run that ends behind an offset.
    fn first_behind(&self, offset: u64) -> Option<u32> {
        let before = self.by_offset.range(..=offset).next_back();
        let covers = |&(_, &run): &(&u64, &u32)| self.runs[run].extent.end() > offset;
        let next = || self.by_offset.range(offset..).next();
        before.filter(covers).or_else(next).map(|(_, &run)| run)
    }

    /// The runs that overlap a range.
    fn overlapping(&self, extent: Extent) -> impl Iterator<Item = u32> + '_ {
        let end = extent.end();
        let first = self.first_behind(extent.offset());
        let from = first.map_or(end, |run| self.runs[run].extent.offset());
        let runs = self.by_offset.range(from..end.max(from));
        runs.map(|(_, &run)| run)
    }

    /// The next one of who waits for a run that is there still.
    fn next_reader(&mut self, run: u32) -> Option<Reader> {
        self.runs.get(run)?;
        self.runs[run].readers.pop()
    }

    /// How many bytes from the start of a range on lie in one run, or in none; and in which.
    pub(crate) fn first_part(&self, extent: Extent) -> (u64, Option<u32>) {
        let Some(run) = self.first_behind(extent.offset()) else {
            return (extent.len(), None);
        };
        let known = self.runs[run].extent;
        if known.offset() > extent.offset() {
            let gap = known.offset() - extent.offset();
            return (gap.min(extent.len()), None);
        }
        let len = (known.end() - extent.offset()).min(extent.len());
        (len, Some(run))
    }
}

impl Run {
    /// Where a part of it lies.
    fn memory_of(&self, part: Extent) -> BufferSlice {
        let from = part.offset() - self.extent.offset();
        self.memory.part(from, part.len())
    }
}

impl Engine {
    /// How much was prefetched since the statistics began.
    #[must_use]
    pub const fn prefetch_figures(&self) -> PrefetchFigures {
        self.prefetched.figures
    }

    /// How much memory is taken by what was prefetched and not given back.
    #[must_use]
    pub fn prefetched_bytes(&self) -> usize {
        let runs = self.prefetched.runs.iter();
        let bytes = runs.map(|(_, run)| self.buffers.bytes_of(run.memory.buffer));
        bytes.sum()
    }

    /// Whether somebody waits for memory, in the engine or outside it.
    fn is_memory_wanted(&self) -> bool {
        !self.waiting.is_empty() || self.alloc_refused
    }

    /// A client has asked for something, or a leg has read ahead: what the policy expects next is
    /// read.
    pub(crate) fn prefetch(&mut self, turn: &Turn<'_>, asked: Option<&ReadRequest>) {
        let asked_extent = asked.map(|asked| asked.extent);
        if self.prefetched.bytes > self.prefetched.max_bytes / 2
            && let Some(extent) = self.policy.unwanted(turn.now, asked_extent)
        {
            self.give_unwanted_back(extent);
        }
        let used = self.prefetched.bytes;
        let room_bytes = if self.is_memory_wanted() {
            0
        } else {
            self.prefetched.max_bytes.saturating_sub(used)
        };
        let map = &self.config.map;
        self.candidates.clear();
        for leg in self.legs.readable(map.all(), LegSet::EMPTY) {
            self.candidates.push(self.legs.views[leg.index()]);
        }
        let mut planned = std::mem::take(&mut self.prefetched.planned);
        planned.clear();
        let (policy, views) = (&mut self.policy, &self.candidates);
        policy.prefetch(turn.now, asked, views, map, room_bytes, &mut planned);
        for plan in &planned {
            self.prefetch_all(turn, plan);
        }
        self.prefetched.planned = planned;
    }

    /// Reads what of a plan lies in the array and is not there yet.
    fn prefetch_all(&mut self, turn: &Turn<'_>, plan: &Prefetch) {
        let array = Extent::new(0, self.config.size_bytes);
        let Some(inside) = plan.extent.intersection(array) else {
            return;
        };
        let mut rest = inside.aligned_out(self.block_bytes());
        while !rest.is_empty() {
            let part = self.config.map.first_part(rest);
            // No device is given more at once than clients may ask for.
            let (part, _) = part.split_at(part.len().min(Config::REQUEST_MAX_BYTES));
            let (len, run) = self.prefetched.first_part(part);
            let (part, behind) = rest.split_at(len);
            if run.is_none() && !self.prefetch_part(turn, part, plan.leg) {
                return;
            }
            rest = behind;
        }
    }

    /// Reads a part of one chunk; `false` where there is no room for more.
    fn prefetch_part(&mut self, turn: &Turn<'_>, extent: Extent, leg: LegId) -> bool {
        let has_room = self.prefetched.bytes + extent.len() <= self.prefetched.max_bytes;
        if !has_room || self.is_memory_wanted() {
            return false;
        }
        let holders = self.config.map.holders(extent.offset());
        let candidates = self.legs.readable(holders, LegSet::EMPTY);
        let memory = BufferSlice {
            buffer: self.zeros_reserved.buffer,
            offset_bytes: 0,
            len_bytes: u32::try_from(extent.len()).expect("it fits into the arena"),
        };
        let piece = Piece::new(PieceOwner::Read(u32::MAX), extent, holders, memory);
        if candidates.is_empty() || !self.is_free(&piece) {
            return true;
        }
        let leg = if candidates.contains(leg) {
            leg
        } else {
            candidates.lowest().expect("there is one")
        };
        let Some(buffer) = self.buffers.alloc(extent.len()) else {
            return false;
        };
        let memory = BufferSlice { buffer, ..memory };
        let run = self.prefetched.runs.insert(Run {
            extent,
            leg,
            sent: turn.now,
            op: u32::MAX,
            memory,
            is_read: false,
            is_passed: false,
            readers: Vec::new(),
            wanted_at: turn.now,
        });
        self.prefetched.by_offset.insert(extent.offset(), run);
        self.prefetched.bytes += extent.len();
        self.prefetched.figures.read_bytes += extent.len();
        let sweep_at = &mut self.prefetched.sweep_at;
        *sweep_at = sweep_at.or(Some(turn.now + KEPT_FOR));
        let new = NewOp {
            owner: OpOwner::Prefetch(run),
            flow: FlowId::ARRAY,
            kind: OpKind::Read,
            extent: self.config.map.on_leg(leg, extent),
            memory: Some(memory),
            fua: false,
            may_trim: false,
        };
        self.prefetched.runs[run].op = self.assign(turn, leg, new);
        true
    }

    /// Serves a read that lies in one run, with the memory of the run. Whether it does.
    pub(crate) fn read_prefetched(
        &mut self,
        turn: &Turn<'_>,
        request: &Admitted,
        extent: Extent,
    ) -> bool {
        let aligned = extent.aligned_out(self.block_bytes());
        let (len, Some(index)) = self.prefetched.first_part(aligned) else {
            return false;
        };
        if len < aligned.len() {
            return false;
        }
        self.prefetched.figures.served_bytes += extent.len();
        let run = &mut self.prefetched.runs[index];
        run.wanted_at = turn.now;
        let memory = run.memory_of(aligned);
        self.buffers.retain(memory.buffer);
        if run.is_read {
            let data = run.memory_of(extent);
            let (is_over, run_bytes) = (aligned.end() == run.extent.end(), run.extent.len());
            self.earn_hedges(extent.len(), run_bytes);
            self.complete(request.id, Ok(Answer::Data(data)));
            if is_over {
                self.forget_run(index);
            }
            return true;
        }
        let read = self.insert_read(request, extent, memory);
        self.reads[read].outstanding = 1;
        self.wait_for_run(turn, index, read, aligned, memory, None);
        true
    }

    /// Serves a part of a read that lies in a run, into the memory of the read.
    pub(crate) fn copy_prefetched(
        &mut self,
        turn: &Turn<'_>,
        index: u32,
        read: u32,
        part: Extent,
        memory: BufferSlice,
    ) {
        self.prefetched.figures.served_bytes += part.len();
        let run = &mut self.prefetched.runs[index];
        run.wanted_at = turn.now;
        let from = run.memory_of(part);
        if !run.is_read {
            self.reads[read].outstanding += 1;
            return self.wait_for_run(turn, index, read, part, memory, Some(from));
        }
        let (is_over, run_bytes) = (part.end() == run.extent.end(), run.extent.len());
        self.earn_hedges(part.len(), run_bytes);
        self.copy(from, memory);
        if is_over {
            self.forget_run(index);
        }
    }

    /// Copies bytes, of buffers that are kept until it is done.
    pub(crate) fn copy(&mut self, from: BufferSlice, to: BufferSlice) {
        if from.len_bytes == 0 {
            return;
        }
        for buffer in [from.buffer, to.buffer] {
            self.buffers.retain(buffer);
            self.prefetched.copied.push(buffer);
        }
        let step = BufferStep::Copy { from, to };
        self.outputs.push_back(Output::Buffer(step));
    }

    /// What the last input had copied is.
    pub(crate) fn release_copied(&mut self) {
        while let Some(buffer) = self.prefetched.copied.pop() {
            self.release_buffer(buffer);
        }
    }

    /// A piece waits for a run that is being read, which is no more nobody's then.
    fn wait_for_run(
        &mut self,
        turn: &Turn<'_>,
        index: u32,
        read: u32,
        part: Extent,
        memory: BufferSlice,
        copied_from: Option<BufferSlice>,
    ) {
        let (client, stream) = self.reads[read].asked_by();
        let holders = self.config.map.holders(part.offset());
        let piece = self.insert_piece(Piece {
            client,
            stream,
            ..Piece::new(PieceOwner::Read(read), part, holders, memory)
        });
        let serial = self.pieces[piece].serial;
        let run = &mut self.prefetched.runs[index];
        run.readers.push(Reader {
            piece,
            serial,
            copied_from,
        });
        let asked = (run.leg, run.sent, run.extent);
        if self.observes.late {
            self.watch_asked(turn.now, piece, asked, true);
        }
        self.take_runs_on(turn.now, index, self.reads[read].flow);
    }

    /// Somebody waits for a run: that is on his account from now on, and so is what lies behind it,
    /// which the leg reads while he is served with it.
    fn take_runs_on(&mut self, now: Instant, index: u32, flow: FlowId) {
        let run = &self.prefetched.runs[index];
        let (leg, mut at) = (run.leg, run.extent.offset());
        let end = at + TAKEN_ON_BYTES;
        while at < end
            && let Some(&next) = self.prefetched.by_offset.get(&at)
            && let run = &self.prefetched.runs[next]
            && run.leg == leg
            && !run.is_read
        {
            at = run.extent.end();
            self.take_on(now, run.op, flow);
        }
    }

    /// A second leg was faster with a piece than what it may wait for here. Where nobody else does,
    /// and it is the end of that, nobody will.
    pub(crate) fn pass_run(&mut self, index: u32) {
        let piece = &self.pieces[index];
        let (_, Some(at)) = self.prefetched.first_part(piece.extent) else {
            return;
        };
        let run = &mut self.prefetched.runs[at];
        let before = run.readers.len();
        run.readers.retain(|reader| reader.serial != piece.serial);
        if run.readers.len() == before {
            return;
        }
        run.is_passed = true;
        if run.readers.is_empty() && piece.extent.end() == run.extent.end() {
            self.abandon_loser(OpOwner::Prefetch(at));
            self.forget_run(at);
        }
    }

    /// A leg has read a run, or has not.
    pub(crate) fn prefetch_answered(
        &mut self,
        turn: &mut Turn<'_>,
        index: u32,
        op: &Op,
        result: Result<(), ErrorKind>,
    ) {
        let run = &mut self.prefetched.runs[index];
        run.is_read = true;
        if result.is_err() {
            // Who waits for it asks for it again, and sees to what is wrong with the leg.
            let is_passed = run.is_passed && run.readers.is_empty();
            self.forget_run(index);
            if is_passed {
                self.loser_answered(turn, op, result);
            }
            return;
        }
        // Taken one by one: what nobody waits for may be given back by a read that ends and finds
        // no memory to be put together in.
        run.readers.reverse();
        let end = run.extent.end();
        let mut is_over = self.is_memory_wanted();
        while let Some(reader) = self.prefetched.next_reader(index) {
            if !self.is_live(reader.piece, reader.serial) {
                continue; // Its read begins anew elsewhere.
            }
            let piece = self.pieces[reader.piece];
            is_over |= piece.extent.end() == end;
            if let Some(from) = reader.copied_from {
                self.copy(from, piece.memory);
            }
            self.hedge_lost_race(reader.piece);
            self.piece_ended(turn, reader.piece, Ok(()));
        }
        if is_over && self.prefetched.runs.get(index).is_some() {
            self.forget_run(index);
        }
        if self.observes.requests {
            self.prefetch(turn, None);
        }
    }

    /// Bytes change, or are about to: what was prefetched of them is void.
    pub(crate) fn forget_prefetched(&mut self, extent: Extent) {
        if self.prefetched.is_empty() {
            return;
        }
        let runs: Vec<u32> = self.prefetched.overlapping(extent).collect();
        for run in runs {
            self.drop_run(run);
        }
    }

    /// Somebody waits for memory: what nobody waits for is given back.
    pub(crate) fn give_prefetched_back(&mut self) {
        let runs = self.prefetched.runs.iter();
        let idle = runs.filter(|(_, run)| run.readers.is_empty());
        let idle: Vec<u32> = idle.map(|(index, _)| index).collect();
        for run in idle {
            self.drop_run(run);
        }
    }

    /// Of these bytes what nobody waits for is given back.
    fn give_unwanted_back(&mut self, extent: Extent) {
        let runs = self.prefetched.overlapping(extent);
        let idle = runs.filter(|&run| self.prefetched.runs[run].readers.is_empty());
        let idle: Vec<u32> = idle.collect();
        for run in idle {
            self.drop_run(run);
        }
    }

    /// Gives back what nobody has wanted for long.
    pub(crate) fn check_prefetched(&mut self, now: Instant) {
        if self.prefetched.sweep_at.is_none_or(|at| at > now) {
            return;
        }
        let runs = self.prefetched.runs.iter();
        let is_old = |run: &Run| run.wanted_at + KEPT_FOR <= now && run.readers.is_empty();
        let old: Vec<u32> = runs
            .filter(|(_, run)| is_old(run))
            .map(|(index, _)| index)
            .collect();
        for run in old {
            self.drop_run(run);
        }
        let next = self.prefetched.runs.iter();
        let next = next.map(|(_, run)| run.wanted_at + KEPT_FOR).min();
        // Not at once for one that is wanted and late.
        self.prefetched.sweep_at = next.map(|at| at.max(now + KEPT_FOR));
    }

    /// Takes its operation from a run that may be on its way, and forgets it.
    fn drop_run(&mut self, index: u32) {
        if !self.prefetched.runs[index].is_read {
            self.abandon_ops_of(OpOwner::Prefetch(index));
        }
        self.forget_run(index);
    }

    /// A run is no more, and no operation is on its way for it. Who waits for it reads elsewhere,
    /// soon.
    pub(crate) fn forget_run(&mut self, index: u32) {
        let run = self.prefetched.runs.remove(index);
        self.prefetched.by_offset.remove(&run.extent.offset());
        self.prefetched.bytes -= run.extent.len();
        for reader in run.readers {
            let lost = LostPiece {
                index: reader.piece,
                serial: reader.serial,
                in_device: reader.copied_from.is_none(),
            };
            self.orphans.add(run.leg, lost);
        }
        self.release_buffer(run.memory.buffer);
        if self.prefetched.is_empty() {
            self.prefetched.sweep_at = None;
        }
    }
}
