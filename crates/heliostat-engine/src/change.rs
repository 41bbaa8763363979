//! What clients ask for that changes bytes: writes, write-zeroes, trims.
//!
//! Here a change gets its memory and is cut at the borders of chunks, because the copies of each
//! chunk lie on other legs. Each part is a write of its own (see [`crate::write`]), with its own
//! lock, edges, targets and verdict; the client is answered when the last part has ended, and with
//! the first error. Of a change of very many parts some are begun at a time: byte by byte any order
//! of changes that are asked for at once is right.
//!
//! All parts of a write share one buffer.

use heliostat_types::{ErrorKind, Extent, FlowId, OpKind};

use crate::api::{Answer, LegConfig};
use crate::asked::{Admitted, AskedId};
use crate::buffer::{BufferId, BufferSlice, GRANULE_BYTES, WriteBuffer};
use crate::engine::{Engine, Turn};
use crate::write::Write;

/// So many parts of one change are on their way at a time: enough for 16 legs with two copies of
/// each chunk and 32 operations each, and a bound on memory for a trim of the whole array.
const PARTS_MAX: usize = 256;

/// A write buffer that is with a client: for one write, or for several that are submitted one after
/// the other.
#[derive(Clone, Debug)]
pub(crate) struct Unsubmitted {
    next: PlannedWrite,
    /// The others, the last one first.
    rest: Vec<PlannedWrite>,
}

/// One write of a buffer.
#[derive(Clone, Copy, Debug)]
struct PlannedWrite {
    extent: Extent,
    /// Its whole blocks.
    data: BufferSlice,
    /// For the blocks at the edges.
    scratch: Option<BufferSlice>,
}

impl Unsubmitted {
    /// The memory for blocks at edges.
    pub(crate) fn scratch(&self) -> impl Iterator<Item = BufferSlice> + '_ {
        let all = self.rest.iter().chain([&self.next]);
        all.filter_map(|write| write.scratch)
    }
}

/// Who asks for something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) id: AskedId,
    pub(crate) flow: FlowId,
}

impl Asker {
    pub(crate) const fn of(request: &Admitted) -> Self {
        Self {
            id: request.id,
            flow: request.flow,
        }
    }
}

/// What kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Write,
    WriteZeroes { may_trim: bool },
    Trim,
}

impl ChangeKind {
    /// How a leg is best told of it, where it can.
    pub(crate) const fn best_way(self) -> OpKind {
        match self {
            Self::Write => OpKind::Write,
            Self::WriteZeroes { .. } => OpKind::WriteZeroes,
            Self::Trim => OpKind::Trim,
        }
    }
}

/// A block at the edge of an unaligned change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) block: Extent,
    /// What the legs hold is read into here,
    pub(crate) scratch: BufferSlice,
    /// and what does not change is copied from there to here.
    pub(crate) data: BufferSlice,
}

/// A change as a client asked for it.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) id: AskedId,
    /// On whose account.
    pub(crate) flow: FlowId,
    pub(crate) kind: ChangeKind,
    pub(crate) fua: bool,
    /// As the client asked.
    pub(crate) extent: Extent,
    /// In whole blocks.
    pub(crate) aligned: Extent,
    /// What the legs are sent, but for what they zero or trim by themselves.
    pub(crate) data: Option<BufferSlice>,
    pub(crate) edges: [Option<Edge>; 2],
    /// Of `aligned`, what was not begun yet.
    rest: Extent,
    /// Parts that were begun and have not ended.
    outstanding: usize,
    result: Result<Answer, ErrorKind>,
}

impl Engine {
    /// The memory that writes of these extents need until their end, in one buffer.
    pub(crate) fn alloc_write_buffers(&mut self, extents: &[Extent]) -> Option<WriteBuffer> {
        self.check_writes(extents);
        let block = self.block_bytes();
        let blocks_bytes = |extent: &Extent| extent.aligned_out(block).len();
        let total_bytes = extents.iter().map(blocks_bytes).sum();
        let buffer = self.buffers.alloc(total_bytes)?;
        let mut end_bytes = total_bytes;
        let mut plan = |extent: &Extent| {
            let len_bytes = blocks_bytes(extent);
            end_bytes -= len_bytes;
            PlannedWrite {
                extent: *extent,
                data: whole(buffer, total_bytes).part(end_bytes, len_bytes),
                scratch: None,
            }
        };
        let (first, others) = extents.split_first().expect("a write lies somewhere");
        let rest = others.iter().rev().map(&mut plan).collect();
        let next = plan(first);
        let mut planned = Unsubmitted { next, rest };
        if !self.alloc_scratch(&mut planned) {
            for scratch in planned.scratch() {
                self.buffers.release(scratch.buffer);
            }
            self.buffers.release(buffer);
            return None;
        }
        let index = buffer.0 as usize;
        if self.unsubmitted.len() <= index {
            self.unsubmitted.resize(index + 1, None);
        }
        self.unsubmitted[index] = Some(planned);
        let lead_bytes = first.offset() % block;
        let len_bytes = extents.iter().map(|extent| extent.len()).sum();
        let data = whole(buffer, total_bytes).part(lead_bytes, len_bytes);
        Some(WriteBuffer { buffer, data })
    }

    fn check_writes(&self, extents: &[Extent]) {
        let block = self.block_bytes();
        for (index, extent) in extents.iter().enumerate() {
            assert!(!extent.is_empty(), "a write has bytes");
            assert!(
                extent.end() <= self.config.size_bytes,
                "a write lies inside the array"
            );
            let is_last = index + 1 == extents.len();
            assert!(
                (index == 0 || extent.offset().is_multiple_of(block))
                    && (is_last || extent.end().is_multiple_of(block)),
                "writes that share a buffer meet at borders of blocks"
            );
        }
    }

    /// Whether there is memory for the edges of all of these writes.
    fn alloc_scratch(&mut self, planned: &mut Unsubmitted) -> bool {
        let block = self.block_bytes();
        let Unsubmitted { next, rest } = planned;
        rest.iter_mut().chain([next]).all(|write| {
            match edge_blocks(write.extent, block).iter().flatten().count() {
                0 => true,
                count => {
                    write.scratch = self.alloc_edges(count);
                    write.scratch.is_some()
                }
            }
        })
    }

    /// Memory for `count` blocks at edges, a granule each.
    fn alloc_edges(&mut self, count: usize) -> Option<BufferSlice> {
        let len_bytes = (count * GRANULE_BYTES) as u64;
        Some(whole(self.buffers.alloc(len_bytes)?, len_bytes))
    }

    /// Begins a write whose bytes are in `buffer`.
    ///
    /// # Panics
    /// Where the buffer was not handed out for this extent.
    pub(crate) fn begin_write(
        &mut self,
        turn: &mut Turn<'_>,
        asker: Asker,
        extent: Extent,
        buffer: BufferId,
        fua: bool,
    ) {
        let PlannedWrite { data, scratch, .. } = self.take_planned(buffer, extent);
        let block = self.block_bytes();
        let aligned = extent.aligned_out(block);
        let mut edges = [None; 2];
        for (at, edge) in edge_blocks(extent, block).into_iter().enumerate() {
            edges[at] = edge.map(|edge| Edge {
                block: edge,
                scratch: edge_slot(scratch, at, block),
                data: data.part(edge.offset() - aligned.offset(), block),
            });
        }
        let change = Change {
            data: Some(data),
            edges,
            ..Change::new(asker, ChangeKind::Write, fua, extent, aligned)
        };
        self.begin_change(turn, change);
    }

    /// The write of this extent that a buffer was handed out for; each has a share in the buffer.
    fn take_planned(&mut self, buffer: BufferId, extent: Extent) -> PlannedWrite {
        let place = self.unsubmitted.get_mut(buffer.0 as usize);
        let unsubmitted = place.and_then(Option::take);
        let Unsubmitted {
            next: mut meant,
            mut rest,
        } = unsubmitted.expect("a write brings a buffer from alloc_write");
        // A scheduler in front of the array may have put another one of them first.
        if let Some(other) = rest.iter_mut().find(|other| other.extent == extent) {
            std::mem::swap(&mut meant, other);
        }
        assert_eq!(
            meant.extent, extent,
            "a write brings the buffer for its extent"
        );
        if let Some(next) = rest.pop() {
            self.buffers.retain(buffer);
            self.unsubmitted[buffer.0 as usize] = Some(Unsubmitted { next, rest });
        }
        meant
    }

    /// Begins a write of zeros; `false` where there is no memory for it.
    pub(crate) fn begin_write_zeroes(
        &mut self,
        turn: &mut Turn<'_>,
        asker: Asker,
        extent: Extent,
        fua: bool,
        may_trim: bool,
        fast_only: bool,
    ) -> bool {
        let is_fast = |leg: &LegConfig| leg.fast_zero;
        if fast_only
            && !self
                .legs
                .all(|leg| is_fast(&leg.config) && !leg.write_zeroes_refused)
        {
            self.complete(asker.id, Err(ErrorKind::NotSupported));
            return true;
        }
        let block = self.block_bytes();
        let blocks = edge_blocks(extent, block);
        let mut memory = None;
        let mut edges = [None; 2];
        let count = blocks.iter().flatten().count();
        if count > 0 {
            let Some(data) = self.alloc_edges(count) else {
                return false;
            };
            let Some(scratch) = self.alloc_edges(count) else {
                self.buffers.release(data.buffer);
                return false;
            };
            memory = Some(data);
            for (at, edge) in blocks.into_iter().enumerate() {
                edges[at] = edge.map(|edge| Edge {
                    block: edge,
                    scratch: edge_slot(Some(scratch), at, block),
                    data: edge_slot(memory, at, block),
                });
            }
        }
        let aligned = extent.aligned_out(block);
        let kind = ChangeKind::WriteZeroes { may_trim };
        let change = Change {
            data: memory,
            edges,
            ..Change::new(asker, kind, fua, extent, aligned)
        };
        self.begin_change(turn, change);
        true
    }

    /// Begins a trim: of the whole blocks inside, and only where all legs read zeros afterwards.
    pub(crate) fn begin_trim(
        &mut self,
        turn: &mut Turn<'_>,
        asker: Asker,
        extent: Extent,
        fua: bool,
    ) {
        let aligned = extent.aligned_in(self.block_bytes());
        let can_trim = self
            .legs
            .all(|leg| leg.config.trim_reads_zeros && !leg.trim_refused);
        if aligned.is_empty() || !can_trim {
            return self.complete(asker.id, Ok(Answer::Done));
        }
        let change = Change::new(asker, ChangeKind::Trim, fua, aligned, aligned);
        self.begin_change(turn, change);
    }

    /// Begins a change: as one write, or as one for each chunk that it touches.
    fn begin_change(&mut self, turn: &mut Turn<'_>, change: Change) {
        let first = self.config.map.first_part(change.aligned);
        if first == change.aligned {
            return self.admit_write(turn, Write::whole(&change));
        }
        let index = self.changes.insert(change);
        for _ in 0..PARTS_MAX {
            self.begin_part(turn, index);
        }
    }

    /// Begins the next part of a change, if there is one.
    fn begin_part(&mut self, turn: &mut Turn<'_>, index: u32) {
        let change = &mut self.changes[index];
        if change.rest.is_empty() {
            return;
        }
        let part = self.config.map.first_part(change.rest);
        change.rest = change.rest.split_at(part.len()).1;
        change.outstanding += 1;
        let write = Write::part(index, change, part);
        // Each part gives back what it uses as if it were alone.
        for buffer in write.buffers().into_iter().flatten() {
            self.buffers.retain(buffer);
        }
        self.admit_write(turn, write);
    }

    /// A part of a change has ended, and what is known of the legs is durable.
    pub(crate) fn part_ended(
        &mut self,
        turn: &mut Turn<'_>,
        index: u32,
        result: Result<Answer, ErrorKind>,
    ) {
        let change = &mut self.changes[index];
        change.outstanding -= 1;
        if result.is_err() && change.result.is_ok() {
            change.result = result;
            // What was not begun stays as it is.
            change.rest = Extent::new(change.aligned.end(), 0);
        }
        self.begin_part(turn, index);
        if self.changes[index].outstanding > 0 {
            return;
        }
        let change = self.changes.remove(index);
        self.release_shares(change.data, &change.edges);
        // A leg that alone held a block of an earlier part may be out by now.
        let is_lost = change.result.is_ok() && self.is_lost(change.aligned);
        let result = if is_lost {
            Err(ErrorKind::Io)
        } else {
            change.result
        };
        self.complete(change.id, result);
    }

    /// Gives up the shares of a change, or of a part of one, in its buffers.
    pub(crate) fn release_shares(&mut self, data: Option<BufferSlice>, edges: &[Option<Edge>; 2]) {
        if let Some(data) = data {
            self.release_buffer(data.buffer);
        }
        for buffer in scratch_of(edges).into_iter().flatten() {
            self.release_buffer(buffer);
        }
    }
}

impl Change {
    const fn new(
        asker: Asker,
        kind: ChangeKind,
        fua: bool,
        extent: Extent,
        aligned: Extent,
    ) -> Self {
        Self {
            id: asker.id,
            flow: asker.flow,
            kind,
            fua,
            extent,
            aligned,
            data: None,
            edges: [None; 2],
            rest: aligned,
            outstanding: 0,
            result: Ok(Answer::Done),
        }
    }
}

/// The buffers that edges are read into, each once.
pub(crate) fn scratch_of(edges: &[Option<Edge>; 2]) -> [Option<BufferId>; 2] {
    let [first, second] = edges.map(|edge| edge.map(|edge| edge.scratch.buffer));
    [first, second.filter(|buffer| first != Some(*buffer))]
}

/// The blocks at the ends of an extent that it covers in part; the second only where it is another.
fn edge_blocks(extent: Extent, block: u64) -> [Option<Extent>; 2] {
    let aligned = extent.aligned_out(block);
    let first = Extent::new(aligned.offset(), block);
    let last = Extent::new(aligned.end() - block, block);
    let is_edge = |edge: &Extent| !extent.contains(*edge);
    match (Some(first).filter(is_edge), Some(last).filter(is_edge)) {
        (None, last) => [last, None],
        (first, last) => [first, last.filter(|last| Some(*last) != first)],
    }
}

/// The slot of edge number `at` in memory with a granule for each.
fn edge_slot(memory: Option<BufferSlice>, at: usize, block: u64) -> BufferSlice {
    let memory = memory.expect("a change with edges has memory for them");
    memory.part((at * GRANULE_BYTES) as u64, block)
}

/// A buffer from its beginning on.
pub(crate) fn whole(buffer: BufferId, len_bytes: u64) -> BufferSlice {
    BufferSlice {
        buffer,
        offset_bytes: 0,
        len_bytes: u32::try_from(len_bytes).expect("buffers are shorter than 4 GiB"),
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::Extent;

    use super::edge_blocks;

    #[test]
    fn edges_are_the_blocks_covered_in_part() {
        let block = |n: u64| Some(Extent::new(n * 512, 512));
        assert_eq!(edge_blocks(Extent::new(512, 1024), 512), [None, None]);
        assert_eq!(edge_blocks(Extent::new(1, 10), 512), [block(0), None]);
        assert_eq!(edge_blocks(Extent::new(1, 511), 512), [block(0), None]);
        assert_eq!(edge_blocks(Extent::new(1, 1000), 512), [block(0), block(1)]);
        assert_eq!(edge_blocks(Extent::new(512, 600), 512), [block(2), None]);
        assert_eq!(edge_blocks(Extent::new(500, 1036), 512), [block(0), None]);
    }
}
