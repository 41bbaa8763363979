//! Flash drives on SATA or NVMe: a serial controller, many dies that each do one thing at a time, a
//! link with a bandwidth, and a write buffer in front of the dies.
//!
//! A read passes the controller, is cut into units that lie on consecutive dies, waits for each die
//! in turn, and sends each unit over the link as its die delivers it. A write passes the controller
//! and the link and is answered from the buffer; in the background whole units are programmed, one
//! at a time per die, and reads that meet a program wait for it. That is where the tail of mixed
//! loads on flash comes from.
//!
//! Where too little flash is erased, dies move what is valid and erase blocks between the programs.
//!
//! Not modelled: wear, heat, reading ahead, and collection and reads that meet while nobody writes.

mod collection;
mod params;

use std::collections::VecDeque;

use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, Prng};

use crate::api::{DeviceModel, DeviceSpec, assert_size};
use crate::timing::{Gate, TimeQueue, earlier, transfer_time};
use collection::{Chore, Collection};
pub use params::FlashParams;

/// Block sizes of drives that people buy.
const LOGICAL_BLOCK_BYTES: u32 = 512;
const PHYSICAL_BLOCK_BYTES: u32 = 4096;

/// A flash drive.
#[derive(Clone, Debug)]
pub struct Flash {
    params: FlashParams,
    spec: DeviceSpec,
    controller_free_at: Instant,
    /// When the link is free, towards the host and away from it; the same one twice on SATA.
    link_free_at: [Instant; 2],
    /// The caps of each direction's own.
    gates: [Gate; 2],
    /// When each die has done what it was asked for.
    die_free_at: Vec<Instant>,
    /// The last thing that each die was asked for, where that is an erase: when it begins.
    erases_from: Vec<Option<Instant>>,
    /// The unit in each die's register.
    held_units: Vec<Option<u64>>,
    /// Dies that are not programming, in the order in which they will be given a unit.
    idle_dies: VecDeque<u32>,
    buffer: WriteBuffer,
    collection: Collection,
    /// When the last unit was programmed.
    programmed_at: Instant,
    events: TimeQueue<Event>,
    /// Reads whose units are being fetched.
    reads: Slots,
    completions: TimeQueue<LegOpId>,
}

/// What happens inside the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A die has fetched a part of a read, which now goes over the link.
    Fetched { slot: u32, len_bytes: u32 },
    /// The controller has passed a write, whose bytes now come over the link.
    WritePassed { op: LegOpId, len_bytes: u64 },
    /// The bytes of a write are in the drive and want room in the buffer.
    WriteReceived { op: LegOpId, len_bytes: u64 },
    /// A flush has passed the controller.
    FlushPassed { op: LegOpId },
    /// A die has programmed bytes from the buffer.
    Programmed { die: u32, len_bytes: u32 },
    /// A die has moved a unit or erased a block.
    Collected { die: u32 },
}

/// Writes between the link and the dies.
#[derive(Clone, Debug, Default)]
struct WriteBuffer {
    /// Bytes let in since the beginning.
    admitted_bytes: u64,
    /// Of these, how many were handed to dies.
    handed_bytes: u64,
    /// Of these, how many are programmed.
    programmed_bytes: u64,
    /// Writes that found no room, oldest first.
    waiting: VecDeque<(LegOpId, u64)>,
    /// Flushes and how many bytes must be programmed before they are done, oldest first.
    flushes: VecDeque<(LegOpId, u64)>,
}

const TO_HOST: usize = 0;
const FROM_HOST: usize = 1;

impl Flash {
    /// A drive with nothing in flight and an empty buffer.
    ///
    /// # Panics
    /// Where the size is no whole number of blocks, or a count, rate or unit is zero.
    #[must_use]
    pub fn new(params: FlashParams) -> Self {
        assert_size(params.size_bytes, LOGICAL_BLOCK_BYTES);
        assert!(
            params.die_count > 0 && params.unit_bytes > 0 && params.link_bytes_per_s > 0,
            "a flash drive has dies and a link"
        );
        Self {
            params,
            spec: DeviceSpec {
                size_bytes: params.size_bytes,
                logical_block_bytes: LOGICAL_BLOCK_BYTES,
                physical_block_bytes: PHYSICAL_BLOCK_BYTES,
                rotational: false,
                queue_depth: params.queue_depth,
                optimal_io_bytes: 0,
                volatile_cache: !params.power_loss_protection,
            },
            controller_free_at: Instant::ZERO,
            link_free_at: [Instant::ZERO; 2],
            gates: [
                Gate::new(params.read_bytes_per_s_max),
                Gate::new(params.write_bytes_per_s_max),
            ],
            die_free_at: vec![Instant::ZERO; params.die_count as usize],
            erases_from: vec![None; params.die_count as usize],
            held_units: vec![None; params.die_count as usize],
            idle_dies: (0..params.die_count).collect(),
            buffer: WriteBuffer::default(),
            collection: Collection::new(&params),
            programmed_at: Instant::ZERO,
            events: TimeQueue::new(),
            reads: Slots::default(),
            completions: TimeQueue::new(),
        }
    }

    /// When the controller has passed an operation that arrives now.
    fn pass_controller(&mut self, now: Instant, command_time: Duration) -> Instant {
        self.controller_free_at = self.controller_free_at.max(now) + command_time;
        self.controller_free_at
    }

    /// When bytes that are ready at `now` are over the link.
    fn cross_link(&mut self, now: Instant, direction: usize, len_bytes: u64) -> Instant {
        let let_through_at = self.gates[direction].pass(now, len_bytes);
        let direction = if self.params.link_full_duplex {
            direction
        } else {
            TO_HOST
        };
        let free_at = &mut self.link_free_at[direction];
        *free_at = (*free_at).max(now) + transfer_time(len_bytes, self.params.link_bytes_per_s);
        let_through_at.max(*free_at)
    }

    /// When a die that is asked at `now` has worked for `length`; what came before goes first.
    fn occupy_die(&mut self, die: u32, now: Instant, length: Duration) -> Instant {
        self.erases_from[die as usize] = None;
        self.held_units[die as usize] = None;
        let free_at = &mut self.die_free_at[die as usize];
        *free_at = (*free_at).max(now) + length;
        *free_at
    }

    /// When a unit that is asked for at `now` is in its die's register. What the die fetched last
    /// is still there.
    fn fetch_unit(&mut self, unit: u64, now: Instant) -> Instant {
        let die = die_of(unit, self.params.die_count);
        if self.held_units[die as usize] == Some(unit) {
            return self.die_free_at[die as usize].max(now);
        }
        let fetched_at = self.fetch_from_die(die, now);
        self.held_units[die as usize] = Some(unit);
        fetched_at
    }

    /// When a die that is asked at `now` has fetched a unit. An erase makes way, where it can, and
    /// ends later by that.
    fn fetch_from_die(&mut self, die: u32, now: Instant) -> Instant {
        let suspend_time = self.params.erase_suspend_time;
        let index = die as usize;
        let free_at = self.die_free_at[index];
        let Some(from) = self.erases_from[index].filter(|_| suspend_time > Duration::ZERO) else {
            return self.occupy_die(die, now, self.params.read_time);
        };
        let begins_at = if now <= from {
            from
        } else {
            (now + suspend_time).min(free_at.max(now))
        };
        let fetched_at = begins_at + self.params.read_time;
        // The erase goes on where it was; another read waits for this one.
        let left = free_at.saturating_since(begins_at);
        self.die_free_at[index] = fetched_at + left;
        self.erases_from[index] = (left > Duration::ZERO).then_some(fetched_at);
        fetched_at
    }

    /// Cuts a read into units and asks their dies.
    fn start_read(&mut self, passed_at: Instant, op: LegOpId, extent: Extent) {
        let unit_bytes = u64::from(self.params.unit_bytes);
        let slot = self.reads.insert(op);
        let mut start = extent.offset();
        while start < extent.end() {
            let unit = start / unit_bytes;
            let end = ((unit + 1) * unit_bytes).min(extent.end());
            let fetched_at = self.fetch_unit(unit, passed_at);
            let len_bytes = u32::try_from(end - start).expect("at most a unit");
            self.reads.add_part(slot);
            self.events
                .push(fetched_at, Event::Fetched { slot, len_bytes });
            start = end;
        }
    }

    /// Does all that happens up to `now`.
    fn advance(&mut self, now: Instant) {
        while let Some((at, event)) = self.events.pop_due(now) {
            self.on_event(at, event);
        }
    }

    fn on_event(&mut self, at: Instant, event: Event) {
        match event {
            Event::Fetched { slot, len_bytes } => {
                let sent_at = self.cross_link(at, TO_HOST, len_bytes.into());
                if let Some(op) = self.reads.finish_part(slot) {
                    self.completions.push(sent_at + self.params.fixed_time, op);
                }
            }
            Event::WritePassed { op, len_bytes } => {
                let received_at = self.cross_link(at, FROM_HOST, len_bytes);
                self.events
                    .push(received_at, Event::WriteReceived { op, len_bytes });
            }
            Event::WriteReceived { op, len_bytes } => {
                self.rest_until(at);
                self.buffer.waiting.push_back((op, len_bytes));
                self.fill_buffer(at);
            }
            Event::FlushPassed { op } => {
                // What survives a power cut is durable as it is.
                let wanted = if self.params.power_loss_protection {
                    0
                } else {
                    self.buffer.admitted_bytes
                };
                self.buffer.flushes.push_back((op, wanted));
                self.answer_flushes(at);
                self.start_programs(at);
            }
            Event::Programmed { die, len_bytes } => {
                self.buffer.programmed_bytes += u64::from(len_bytes);
                self.programmed_at = at;
                self.idle_dies.push_back(die);
                self.answer_flushes(at);
                self.fill_buffer(at);
                self.start_programs(at);
            }
            Event::Collected { die } => {
                self.programmed_at = at;
                self.idle_dies.push_back(die);
                self.start_programs(at);
            }
        }
    }

    /// What a drive that has nothing to program does until a write comes.
    fn rest_until(&mut self, at: Instant) {
        if self.buffer.admitted_bytes == self.buffer.programmed_bytes {
            let idle = at.saturating_since(self.programmed_at);
            let copy_time = self.params.read_time + self.params.program_time;
            let (die_count, erase_time) = (self.params.die_count, self.params.erase_time);
            self.collection.rest(idle, die_count, copy_time, erase_time);
            self.programmed_at = at;
        }
    }

    /// Lets waiting writes into the buffer as far as there is room; one that is larger than the
    /// buffer gets in when it is empty.
    fn fill_buffer(&mut self, at: Instant) {
        while let Some(&(op, len_bytes)) = self.buffer.waiting.front() {
            let used = self.buffer.admitted_bytes - self.buffer.programmed_bytes;
            if used > 0 && used + len_bytes > self.params.write_buffer_bytes {
                break;
            }
            self.buffer.waiting.pop_front();
            self.buffer.admitted_bytes += len_bytes;
            self.completions.push(at + self.params.fixed_time, op);
        }
        self.start_programs(at);
    }

    /// Gives whole units, and what is left of one where a flush or the next write waits for it, to
    /// dies that do not program yet.
    fn start_programs(&mut self, at: Instant) {
        let unit_bytes = u64::from(self.params.unit_bytes);
        loop {
            let waiting_bytes = self.buffer.admitted_bytes - self.buffer.handed_bytes;
            let flushing = self
                .buffer
                .flushes
                .back()
                .is_some_and(|&(_, wanted)| wanted > self.buffer.handed_bytes);
            // A write that finds no room beside a part of a unit would wait for ever.
            let blocked = !self.buffer.waiting.is_empty()
                && self.buffer.handed_bytes == self.buffer.programmed_bytes;
            let wants_part = flushing || blocked;
            if waiting_bytes == 0 || (waiting_bytes < unit_bytes && !wants_part) {
                return;
            }
            let Some(die) = self.idle_dies.pop_front() else {
                return;
            };
            if let Some(chore) = self.collection.next_chore() {
                self.start_chore(at, die, chore);
                continue;
            }
            let len_bytes = u32::try_from(waiting_bytes.min(unit_bytes)).expect("at most a unit");
            self.buffer.handed_bytes += u64::from(len_bytes);
            let program_time = if self.collection.take_unit(len_bytes.into()) {
                self.params.slc_program_time
            } else {
                self.params.program_time
            };
            let done_at = self.occupy_die(die, at, program_time);
            self.events
                .push(done_at, Event::Programmed { die, len_bytes });
        }
    }

    /// Has a die collect before it programs.
    fn start_chore(&mut self, at: Instant, die: u32, chore: Chore) {
        let done_at = match chore {
            Chore::Copy => {
                let length = self.params.read_time + self.params.program_time;
                self.occupy_die(die, at, length)
            }
            Chore::Erase => {
                let begins_at = self.die_free_at[die as usize].max(at);
                let done_at = self.occupy_die(die, at, self.params.erase_time);
                self.erases_from[die as usize] = Some(begins_at);
                self.held_units[die as usize] = None;
                done_at
            }
        };
        self.events.push(done_at, Event::Collected { die });
    }

    fn answer_flushes(&mut self, at: Instant) {
        while let Some(&(op, wanted)) = self.buffer.flushes.front() {
            if self.buffer.programmed_bytes < wanted {
                return;
            }
            self.buffer.flushes.pop_front();
            self.completions.push(at + self.params.fixed_time, op);
        }
    }
}

/// The die that a unit lies on: consecutive units on consecutive dies, from a die that differs from
/// row to row without a pattern, as drives place what they write. So no stride of a client meets
/// one die alone.
fn die_of(unit: u64, die_count: u32) -> u32 {
    let dies = u64::from(die_count);
    let row = unit / dies;
    let mixed = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let first = (mixed ^ (mixed >> 32)) % dies;
    u32::try_from((unit + first) % dies).expect("below the number of dies")
}

impl DeviceModel for Flash {
    fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    fn submit(
        &mut self,
        now: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
        _prng: &mut dyn Prng,
    ) {
        self.advance(now);
        let command_time = match kind {
            OpKind::Write => self.params.write_command_time,
            OpKind::Read
            | OpKind::Flush
            | OpKind::Trim
            | OpKind::WriteZeroes
            | OpKind::BlockStatus => self.params.read_command_time,
        };
        let passed_at = self.pass_controller(now, command_time);
        match kind {
            OpKind::Read => self.start_read(passed_at, op, extent),
            OpKind::Write => {
                self.collection.note_write(extent);
                let len_bytes = extent.len();
                self.events
                    .push(passed_at, Event::WritePassed { op, len_bytes });
            }
            OpKind::Flush => self.events.push(passed_at, Event::FlushPassed { op }),
            // Only the tables of the drive change.
            OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => {
                self.completions
                    .push(passed_at + self.params.fixed_time, op);
            }
        }
    }

    fn next_event_at(&self) -> Option<Instant> {
        earlier(self.events.next_at(), self.completions.next_at())
    }

    fn poll_completion(&mut self, now: Instant) -> Option<(LegOpId, Result<(), ErrorKind>)> {
        self.advance(now);
        let (_, op) = self.completions.pop_due(now)?;
        Some((op, Ok(())))
    }

    fn clone_box(&self) -> Box<dyn DeviceModel> {
        Box::new(self.clone())
    }
}

/// Reads under way and how many of their parts are still to come; places are used again.
#[derive(Clone, Debug, Default)]
struct Slots {
    slots: Vec<(LegOpId, u32)>,
    free: Vec<u32>,
}

impl Slots {
    fn insert(&mut self, op: LegOpId) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = (op, 0);
                slot
            }
            None => {
                self.slots.push((op, 0));
                u32::try_from(self.slots.len() - 1).expect("memory holds fewer reads than 2^32")
            }
        }
    }

    fn add_part(&mut self, slot: u32) {
        self.slots[slot as usize].1 += 1;
    }

    /// One part less; the read, where that was the last one.
    fn finish_part(&mut self, slot: u32) -> Option<LegOpId> {
        let (op, left) = &mut self.slots[slot as usize];
        *left -= 1;
        if *left > 0 {
            return None;
        }
        let op = *op;
        self.free.push(slot);
        Some(op)
    }
}

#[cfg(test)]
mod tests;
