//! The clients' side: what they ask for, and whether what they are told is true.

use std::collections::BTreeSet;

use heliostat_engine::{Answer, BufferId, BufferSlice, Input, Request, RequestKind};
use heliostat_scheduler::FlowLimits;
use heliostat_types::{
    Duration, ErrorKind, Extent, FlowId, Instant, LegId, LegSet, OpKind, RequestId, SECTOR_BYTES,
    StreamId,
};
use heliostat_workload::{Ask, Step};

use crate::contents::{SECTOR, fill_sector, held_in_sector, sampled_sectors, version_of_sector};
use crate::planted::Planted;
use crate::series::Side;
use crate::shadow::{Moment, Wrong};
use crate::simulation::Simulation;
use crate::tags_2014::Tags;
use crate::trace::{TraceEvent, What};

/// Requests that were asked and not answered, by number.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    slots: Vec<Option<Pending>>,
    free: Vec<u64>,
}

/// A request that was asked and not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// Who asked, by index.
    client: usize,
    ask: Ask,
    /// What the client calls it.
    tag: u64,
    /// From when on the client has waited for it: where requests come by themselves, perhaps from
    /// before it was asked.
    since: Instant,
    pub(crate) arrived_at: Instant,
    /// When it went into the engine, in the order of events; of a write, its version.
    began: Moment,
    /// What a write is.
    change: Change,
}

/// What a client's write is to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Bytes.
    Bytes,
    /// Zeros, without sending them.
    Zeroes,
    /// A trim.
    Trim,
}

impl Requests {
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// How many places there are: as many as were ever in flight at once.
    #[cfg(test)]
    pub(crate) const fn place_count(&self) -> usize {
        self.slots.len()
    }

    fn insert(&mut self, pending: Pending) -> u64 {
        if let Some(number) = self.free.pop() {
            self.slots[index(number)] = Some(pending);
            return number;
        }
        self.slots.push(Some(pending));
        self.slots.len() as u64 - 1
    }

    /// Takes out all, by number.
    pub(crate) fn take_all(&mut self) -> Vec<Pending> {
        self.free.clear();
        self.slots.drain(..).flatten().collect()
    }

    fn pending_mut(&mut self, number: u64) -> &mut Pending {
        let slot = self.slots[index(number)].as_mut();
        slot.expect("it was asked and not answered")
    }

    fn take(&mut self, number: u64) -> Option<Pending> {
        let pending = self.slots.get_mut(index(number))?.take()?;
        self.free.push(number);
        Some(pending)
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("requests fit into memory")
}

impl Simulation {
    /// A client asks, or has been served by its page cache.
    pub(crate) fn take_step(&mut self, step: Step) {
        match step {
            Step::Ask {
                client,
                ask,
                tag,
                since,
            } => match self.clients.client(client).leg {
                Some(leg) => self.ask_leg(leg, client, ask, tag),
                None => self.ask(client, ask, tag, since),
            },
            Step::Served {
                client,
                kind,
                len_bytes,
                response_time,
            } => self.count(client, kind, len_bytes, response_time),
        }
    }

    /// Client number `client` asks.
    fn ask(&mut self, client: usize, ask: Ask, tag: u64, since: Instant) {
        let pending = Pending {
            client,
            ask,
            tag,
            since,
            arrived_at: self.now,
            began: 0,
            change: Change::Bytes,
        };
        self.begin_request(pending);
    }

    /// A client asks once more for what it asked for before a power cut.
    pub(crate) fn ask_again(&mut self, gone: Pending) {
        self.begin_request(Pending {
            arrived_at: self.now,
            began: 0,
            ..gone
        });
    }

    fn begin_request(&mut self, pending: Pending) {
        let number = self.requests.insert(pending);
        self.littles.on_arrival(self.now);
        let id = self.clients.client(pending.client).id;
        self.record(What::Asked { client: id.0 }, pending.ask, number);
        let tags = self.tags.as_mut();
        if tags.is_none_or(|tags| tags.ask(number)) {
            self.let_in(number);
        }
    }

    /// On whose account a client asks.
    fn flow_of(&self, client: usize) -> FlowId {
        let id = self.clients.client(client).id;
        FlowId(u32::try_from(id.0).expect("there are few clients"))
    }

    /// The job that is asked for on this account.
    pub(crate) fn job_of(&self, flow: FlowId) -> Option<usize> {
        let first = self.scenario.first_client;
        let client = u64::from(flow.0).checked_sub(first)?;
        let client = self.clients.iter().nth(usize::try_from(client).ok()?)?;
        Some(client.job)
    }

    /// Tells the engine what clients may have.
    pub(crate) fn tell_limits(&mut self) {
        let limits = self.clients.iter().enumerate().map(|(number, client)| {
            let job = &self.scenario.jobs[client.job];
            let limits = FlowLimits {
                weight: job.weight * FlowLimits::WEIGHT_DEFAULT,
                iops_max: job.iops_max,
                bytes_per_s_max: job.bytes_per_s_max,
            };
            let flow = self.flow_of(number);
            (flow, limits)
        });
        let said = limits.filter(|(_, limits)| *limits != FlowLimits::DEFAULT);
        let inputs = said.map(|(flow, limits)| Input::SetFlow { flow, limits });
        let inputs: Vec<Input> = inputs.collect();
        self.inbox.extend(inputs);
    }

    /// A request goes into the engine as soon as there is memory.
    fn let_in(&mut self, number: u64) {
        let is_first = self.memory_waiters.is_empty() || self.engine.has_memory_shares();
        if !is_first || !self.submit(number) {
            self.memory_waiters.push_back(number);
        }
    }

    /// Memory was freed: those who waited for it try again, oldest first. Who is refused holds up
    /// everybody, or where each has his share, himself.
    pub(crate) fn submit_memory_waiters(&mut self) {
        let mut refused = BTreeSet::new();
        let mut at = 0;
        while let Some(&number) = self.memory_waiters.get(at) {
            let client = self.requests.pending_mut(number).client;
            if !refused.contains(&client) && self.submit(number) {
                self.memory_waiters.remove(at);
                continue;
            }
            if !self.engine.has_memory_shares() {
                return;
            }
            refused.insert(client);
            at += 1;
        }
    }

    /// Gives a request to the engine; `false` where there is no memory for its bytes now.
    fn submit(&mut self, number: u64) -> bool {
        let pending = *self.requests.pending_mut(number);
        let mut began = 0;
        let mut change = Change::Bytes;
        let kind = match pending.ask {
            Ask::Read(extent) => {
                if let Some(shadow) = &mut self.shadow {
                    began = shadow.begin_read();
                }
                RequestKind::Read { extent }
            }
            Ask::Write(extent) if self.next_change() != Change::Bytes => {
                change = self.next_change();
                let shadow = self.shadow.as_mut();
                began = shadow
                    .expect("kept where there are writes")
                    .begin_zeros(extent);
                let fua = self.is_durable_write(began);
                match change {
                    Change::Trim => RequestKind::Trim { extent, fua },
                    Change::Bytes | Change::Zeroes => RequestKind::WriteZeroes {
                        extent,
                        fua,
                        may_trim: began.is_multiple_of(3),
                        fast_only: false,
                    },
                }
            }
            Ask::Write(extent) => {
                let flow = self.flow_of(pending.client);
                let Some(buffer) = self.engine.alloc_write(flow, extent) else {
                    return false;
                };
                let shadow = self.shadow.as_mut();
                began = shadow
                    .expect("kept where there are writes")
                    .begin_write(extent);
                self.fill(extent, buffer.data, began);
                RequestKind::Write {
                    extent,
                    buffer: buffer.buffer,
                    fua: self.is_durable_write(began),
                }
            }
            Ask::Flush => {
                if let Some(shadow) = &mut self.shadow {
                    began = shadow.begin_flush();
                }
                RequestKind::Flush
            }
        };
        let slot = self.requests.pending_mut(number);
        (slot.began, slot.change) = (began, change);
        let client = self.clients.client(pending.client).id;
        self.inbox.push_back(Input::Request(Request {
            id: RequestId(number),
            client,
            flow: self.flow_of(pending.client),
            stream: StreamId(client.0),
            kind,
        }));
        true
    }

    /// The engine answers.
    pub(crate) fn answer(&mut self, id: RequestId, result: Result<Answer, ErrorKind>) {
        let Some(pending) = self.requests.take(id.0) else {
            self.fail(format!(
                "request r{} was answered twice, or never asked",
                id.0
            ));
            return;
        };
        if let Some(next) = self.tags.as_mut().and_then(Tags::give_back) {
            self.let_in(next);
        }
        let response_time = self.now - pending.arrived_at;
        let lost_time = Duration::from_ns(u64::from(self.has(Planted::LostTime)));
        self.littles.on_answer(self.now, response_time + lost_time);
        let client = self.clients.client(pending.client).id.0;
        let error = result.as_ref().err().copied();
        self.record(What::Answered { client, error }, pending.ask, id.0);
        self.check_answer(pending, &result);
        let Pending {
            client, ask, tag, ..
        } = pending;
        let ok = result.is_ok();
        self.clients.on_answer(self.now, client, ask, tag, ok);
        if let Err(kind) = result {
            self.errors += 1;
            self.check_error(ask, kind);
        } else if self.clients.client(client).counts_requests() {
            let response_time = self.now - pending.since;
            self.count(client, ask.kind(), ask.extent().len(), response_time);
        }
    }

    /// A client was served: what counts of it is counted.
    pub(crate) fn count(
        &mut self,
        client: usize,
        kind: OpKind,
        len_bytes: u64,
        response_time: Duration,
    ) {
        let index = self.clients.client(client).job;
        let job = &mut self.jobs[index];
        let (side, moved) = match kind {
            OpKind::Read => (Side::Read, &mut job.read),
            OpKind::Write => (Side::Write, &mut job.write),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => return,
        };
        if !self.measured.contains(self.now) {
            let since_end = self.now.saturating_since(self.measured.ends_at);
            if self.now >= self.measured.ends_at && response_time > since_end {
                job.unanswered.record(response_time - since_end);
            }
            return;
        }
        moved.record(len_bytes, response_time);
        if self.scenario.jobs[index].counts() {
            self.series
                .on_answer(self.now, side, len_bytes, response_time);
        }
    }

    /// Whether an answer is of the right kind, and the bytes of a read are true.
    fn check_answer(&mut self, pending: Pending, result: &Result<Answer, ErrorKind>) {
        match (pending.ask, result) {
            (Ask::Read(extent), Ok(Answer::Data(slice))) => {
                self.check_bytes(extent, *slice, pending.began);
                self.release(slice.buffer);
            }
            (Ask::Write(_) | Ask::Flush, Ok(Answer::Done)) | (_, Err(_)) => {}
            (ask, Ok(answer)) => self.fail(format!("{ask:?} was answered with {answer:?}")),
        }
        let is_durable = self.is_durable_write(pending.began);
        let Some(shadow) = &mut self.shadow else {
            return;
        };
        match pending.ask {
            Ask::Read(_) => shadow.end_read(pending.began),
            Ask::Write(extent) => {
                let lost_leg = self.engine.in_sync().count() < self.engine.map().legs();
                let (version, ok) = (pending.began, result.is_ok());
                if ok && pending.change == Change::Trim {
                    // It has left zeros, or all as it was: who reads it, knows. Nothing was
                    // promised that a leg could lack.
                    shadow.end_write(extent, version, false, false);
                    return;
                }
                if ok && is_durable {
                    shadow.end_durable_write(extent, version);
                } else {
                    shadow.end_write(extent, version, ok, lost_leg);
                }
                if ok {
                    let now = shadow.now();
                    self.note_write(extent, now);
                    if pending.change == Change::Bytes {
                        self.watch_answer(extent);
                    }
                }
                self.spoil_write(extent.offset() / SECTOR_BYTES);
            }
            Ask::Flush if result.is_ok() => {
                shadow.end_flush(pending.began);
                self.note_flush(pending.began);
            }
            Ask::Flush => {}
        }
    }

    /// What the next write of a client is.
    fn next_change(&self) -> Change {
        let shadow = self.shadow.as_ref().filter(|_| self.scenario.array.trims);
        match shadow.map(|shadow| shadow.now() % 11) {
            Some(3) => Change::Zeroes,
            Some(7) => Change::Trim,
            _ => Change::Bytes,
        }
    }

    /// Whether a write is to be durable when it is answered: each eighth to an array with metadata.
    const fn is_durable_write(&self, version: Moment) -> bool {
        self.lives.is_some() && version.is_multiple_of(8)
    }

    /// A client must not notice anything while each part of what it asks for has a leg that holds
    /// it and does what it is asked, and no leg that does not must stay for other bytes' sake.
    fn check_error(&mut self, ask: Ask, kind: ErrorKind) {
        let (in_sync, map) = (self.engine.in_sync(), self.engine.map().clone());
        let failing: LegSet = in_sync
            .iter()
            .filter(|leg| {
                let mut faults = self.scenario.faults.iter();
                faults.any(|fault| fault.leg == Some(self.device(*leg)) && fault.fails_operations())
            })
            .collect();
        let must_stay = |leg: LegId| {
            let others = in_sync.difference(LegSet::from_iter([leg]));
            !map.is_covered_by(others)
        };
        let keeps_failing = |legs: LegSet| failing.intersection(legs).iter().any(must_stay);
        // What nobody could read when a leg was filled is bad there.
        let is_bad = |leg: &LegId, part: Extent| {
            let on_leg = map.on_leg(*leg, part);
            let sectors = on_leg.offset() / SECTOR_BYTES..on_leg.end() / SECTOR_BYTES;
            self.engine.bad_blocks(*leg).overlaps(&sectors)
        };
        let has_no_healthy = |part: Extent| {
            let here = map.holders(part.offset()).intersection(in_sync);
            let mut working = here.difference(failing).iter();
            working.all(|leg| is_bad(&leg, part))
        };
        let mut lives = self.lives.iter();
        let mut parts = map.parts(ask.extent());
        let may_fail = match ask {
            Ask::Read(_) => parts.any(has_no_healthy),
            // What must be known of legs before bytes change is kept on all of them.
            Ask::Write(_) if self.lives.is_some() && keeps_failing(in_sync) => true,
            Ask::Write(_) => {
                parts.any(|part| has_no_healthy(part) || keeps_failing(map.holders(part.offset())))
            }
            Ask::Flush => keeps_failing(in_sync) || lives.any(|lives| lives.has_kept_failing),
        };
        if !may_fail {
            let healthy = in_sync.difference(failing);
            self.fail(format!(
                "{ask:?} failed ({kind}) although {healthy:?} are healthy"
            ));
        }
    }

    fn release(&mut self, buffer: BufferId) {
        if self.shows(Planted::LeakedMemory, 20) {
            return;
        }
        self.inbox.push_back(Input::Release { buffer });
    }

    /// Makes the bytes of a write those of its version.
    fn fill(&mut self, extent: Extent, data: BufferSlice, version: Moment) {
        let kept_bytes = self.scenario.fidelity.kept_bytes();
        let memory = self.engine.buffers().resolve(data);
        self.arena.clear(memory.clone());
        let bytes = &mut self.arena.bytes[memory];
        let first = extent.offset() / SECTOR_BYTES;
        for (sector, bytes) in (first..).zip(bytes.chunks_exact_mut(SECTOR)) {
            fill_sector(&mut bytes[..kept_bytes], sector, version);
        }
    }

    /// Checks the bytes of a read against what it may return.
    fn check_bytes(&mut self, extent: Extent, data: BufferSlice, began: Moment) {
        if u64::from(data.len_bytes) != extent.len() {
            self.fail(format!("{} bytes for a read of {extent}", data.len_bytes));
            return;
        }
        let memory = self.engine.buffers().resolve(data);
        let arena = &self.arena;
        let kept_bytes = self.scenario.fidelity.kept_bytes();
        let first = extent.offset() / SECTOR_BYTES;
        let place_of = |sector| memory.start + index(sector - first) * SECTOR;
        let may_be_zeros = self.scenario.array.trims;
        let version_of = |sector| {
            let start = place_of(sector);
            let bytes = &arena.bytes[start..start + kept_bytes];
            if may_be_zeros {
                held_in_sector(bytes, sector)
            } else {
                version_of_sector(bytes, sector)
            }
        };
        let is_damaged = |sector| !arena.is_clean() && arena.is_tainted(place_of(sector));
        let checked = match &mut self.shadow {
            Some(shadow) => shadow.check_read(extent, began, version_of, is_damaged),
            None if self.samples => {
                check_never_written(sampled_sectors(extent), version_of, is_damaged)
            }
            None => {
                let sectors = first..extent.end() / SECTOR_BYTES;
                check_never_written(sectors, version_of, is_damaged)
            }
        };
        if let Ok(1..) = checked {
            self.integrity.damaged_reads += 1;
        }
        if let Err((sector, wrong)) = checked {
            self.fail(format!(
                "a read of {extent} returned {wrong}, in sector {sector}"
            ));
        }
    }

    fn record(&mut self, what: What, ask: Ask, number: u64) {
        self.trace.record(TraceEvent {
            at: self.now,
            what,
            kind: ask.kind(),
            extent: ask.extent(),
            id: number,
        });
    }
}

/// What a read may return where nothing is ever written.
fn check_never_written(
    sectors: impl Iterator<Item = u64>,
    version_of: impl Fn(u64) -> Option<Moment>,
    is_damaged: impl Fn(u64) -> bool,
) -> Result<u64, (u64, Wrong)> {
    let mut damaged_wrong = 0;
    for sector in sectors {
        match version_of(sector) {
            Some(0) => {}
            _ if is_damaged(sector) => damaged_wrong += 1,
            Some(_) => return Err((sector, Wrong::NeverWritten)),
            None => return Err((sector, Wrong::Damaged)),
        }
    }
    Ok(damaged_wrong)
}
