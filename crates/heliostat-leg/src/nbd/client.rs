//! One leg that is an export: its operations, the connections that they go over, and what becomes
//! of both when a connection is lost. See the module above for when that is survived.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use heliostat_nbd::codec::{RequestHeader, command, command_flag, transmission};
use heliostat_nbd::handshake::Negotiated;
use heliostat_nbd::replies::Asked;
use heliostat_types::{ErrorKind, Extent, LegOpId, OpKind, RandomStream, StatusRun};
use rustix::event::{Timespec, epoll};

use super::connection::{Answer, Connection, Loss, Question};
use super::dial::{Dialled, Target};
use super::dialer::{Dialer, News, Task, TaskKind};
use super::witness::Witnesses;
use crate::api::{LegIo, LegOutcome};
use crate::arena::{Arena, LegMemory};

/// The longest piece of an operation that sends no bytes: its length has to fit 32 bits, and all
/// pieces but the last are whole blocks.
const PIECE_BYTES_MAX: u64 = 1 << 30;

/// The largest READ and WRITE where the server does not say, and the largest that we send.
const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// What the dialer's news is watched under; no connection has a number this high.
const DIALER_KEY: u64 = u64::MAX;

/// How many descriptors are looked at once: all connections and the dialer.
const EVENTS_MAX: usize = 32;

/// See the module.
#[derive(Debug)]
pub(crate) struct NbdClient {
    /// What was agreed upon at first, and is to be agreed upon ever after.
    terms: Negotiated,
    block_bytes: u64,
    connections_wanted: usize,
    /// All descriptors behind one, which stays the same whatever connections come and go.
    epoll: OwnedFd,
    /// The keys of what was ready at the last look.
    ready: Vec<u64>,
    dialer: Dialer,
    /// How often all connections were lost. What was asked of the dialer before the last time is
    /// out of date: it may lead to a server that was not asked for what is known since.
    epoch: u64,
    /// Whether anything was answered since all connections were last lost.
    has_answered: bool,
    connections: Vec<Connection>,
    next_connection: u64,
    /// In order of dispatch.
    ops: BTreeMap<u64, Op>,
    next_op: u64,
    unflushed: Unflushed,
    witnesses: Witnesses,
    state: State,
    /// Whether an operation was ended as lost: one is enough.
    is_loss_told: bool,
    answers: Vec<Answer>,
    done: Vec<(LegOpId, LegOutcome)>,
    notes: Vec<String>,
    /// Whether it was told since the last reconnection that one of several connections was lost.
    is_thinning_told: bool,
}

/// Whether there is anybody to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is a connection.
    Connected,
    /// There is none, and one is being made.
    Reconnecting,
    /// What it holds cannot be relied upon any more.
    Lost,
    /// Nobody wants it any more.
    Retired,
}

/// An operation that has not ended.
#[derive(Debug)]
struct Op {
    io: LegIo,
    /// The connection that all its requests went over, where there is one.
    connection: Option<u64>,
    /// How many of its requests are not answered.
    outstanding: usize,
    error: Option<ErrorKind>,
    runs: Vec<StatusRun>,
    /// For a flush: how many changes had been answered when it was handed in.
    covers: u64,
}

/// Changes that were answered and may not be durable.
#[derive(Clone, Copy, Debug, Default)]
struct Unflushed {
    answered: u64,
    flushed: u64,
}

/// What one operation asks of the server.
#[derive(Clone, Copy, Debug)]
struct Plan {
    command: u16,
    flags: u16,
    piece_bytes_max: u64,
}

impl NbdClient {
    /// A leg that is open over a first connection, in blocks of this size.
    pub(super) fn new(
        target: Target,
        first: Dialled,
        block_bytes: u32,
        connections_wanted: usize,
        prng: RandomStream,
    ) -> io::Result<Self> {
        let dialer = Dialer::new(target, prng)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let key = epoll::EventData::new_u64(DIALER_KEY);
        epoll::add(&epoll, dialer.fd(), key, epoll::EventFlags::IN)?;
        let payload_max = payload_bytes_max(&first.negotiated, u64::from(block_bytes));
        let mut client = Self {
            terms: first.negotiated,
            block_bytes: u64::from(block_bytes),
            connections_wanted,
            epoll,
            ready: Vec::with_capacity(EVENTS_MAX),
            dialer,
            epoch: 0,
            has_answered: false,
            connections: Vec::new(),
            next_connection: 0,
            ops: BTreeMap::new(),
            next_op: 0,
            unflushed: Unflushed::default(),
            witnesses: Witnesses::new(payload_max),
            state: State::Connected,
            is_loss_told: false,
            answers: Vec::new(),
            done: Vec::new(),
            notes: Vec::new(),
            is_thinning_told: false,
        };
        client.add_connection(first)?;
        Ok(client)
    }

    /// Readable when there may be something to reap.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Whether something has ended that was not taken.
    pub(crate) fn has_ready(&self) -> bool {
        !self.done.is_empty()
    }

    /// Things to tell people, since the last call.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Hands in an operation; it leaves with the next [`NbdClient::kick`].
    pub(crate) fn submit(&mut self, io: LegIo) {
        let told = match self.state {
            State::Lost | State::Retired => Err(self.last_outcome()),
            State::Reconnecting if io.failfast => Err(LegOutcome::Failed(ErrorKind::Io)),
            State::Connected | State::Reconnecting => self.plan(&io).map(|_| ()),
        };
        if let Err(outcome) = told {
            self.done.push((io.op, outcome));
            return;
        }
        if io.kind.is_mutating() {
            self.witnesses.forget(io.extent);
        }
        let key = self.next_op;
        self.next_op += 1;
        let op = Op {
            io,
            connection: None,
            outstanding: 0,
            error: None,
            runs: Vec::new(),
            covers: self.unflushed.answered,
        };
        self.ops.insert(key, op);
        if self.state == State::Connected {
            self.dispatch(key);
        }
    }

    /// Sends what is to be sent.
    pub(crate) fn kick(&mut self, arena: &Arena) {
        let mut losses = Vec::new();
        for connection in &mut self.connections {
            if !connection.has_output() {
                continue;
            }
            let sent = connection
                .send(arena)
                .and_then(|()| watch_for_room(&self.epoll, connection));
            if let Err(loss) = sent {
                losses.push((connection.id, loss));
            }
        }
        for (id, loss) in losses {
            self.lose(id, &loss);
        }
    }

    /// Takes in what was answered, and appends what has ended to `done`.
    pub(crate) fn reap(&mut self, arena: &Arena, done: &mut Vec<(LegOpId, LegOutcome)>) {
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        // Interrupted or not: what is ready now is so at the next call.
        if let Ok((events, _)) = epoll::wait(&self.epoll, &mut room, Some(&Timespec::default())) {
            let keys = events.iter().map(|event| event.data.u64());
            self.ready.extend(keys);
        }
        while let Some(key) = self.ready.pop() {
            match key {
                DIALER_KEY => self.on_news(),
                id => self.on_ready(id, arena),
            }
        }
        self.kick(arena);
        done.append(&mut self.done);
    }

    /// Lets go of the server: nothing is sent any more, and what has not ended ends now, failed.
    pub(crate) fn retire(&mut self) {
        if self.state != State::Lost {
            self.state = State::Retired;
        }
        self.drop_connections();
        self.end_all();
    }

    fn drop_connections(&mut self) {
        for connection in self.connections.drain(..) {
            connection.reset();
        }
    }

    fn end_all(&mut self) {
        for op in std::mem::take(&mut self.ops).into_values() {
            let outcome = self.last_outcome();
            self.done.push((op.io.op, outcome));
        }
    }

    /// How operations end when none can be carried out any more.
    fn last_outcome(&mut self) -> LegOutcome {
        if self.state == State::Lost && !self.is_loss_told {
            self.is_loss_told = true;
            LegOutcome::Lost
        } else {
            LegOutcome::Failed(ErrorKind::Io)
        }
    }

    /// Whether the server has this ability.
    const fn can(&self, flags: u16) -> bool {
        self.terms.details.flags & flags == flags
    }

    /// How to ask for an operation; its outcome where there is nothing to ask.
    fn plan(&self, io: &LegIo) -> Result<Plan, LegOutcome> {
        let invalid = Err(LegOutcome::Failed(ErrorKind::InvalidInput));
        let unsupported = Err(LegOutcome::Failed(ErrorKind::NotSupported));
        let mut plan = Plan {
            command: command::FLUSH,
            flags: 0,
            piece_bytes_max: PIECE_BYTES_MAX,
        };
        if io.fua && io.kind.is_mutating() {
            if !self.can(transmission::SEND_FUA) {
                return unsupported;
            }
            plan.flags = command_flag::FUA;
        }
        match io.kind {
            OpKind::Read | OpKind::Write => {
                let memory = io.memory.as_ref();
                let len = memory.and_then(|memory| u64::try_from(memory.len_bytes()).ok());
                if len != Some(io.extent.len()) || io.extent.is_empty() {
                    return invalid;
                }
                plan.command = if io.kind == OpKind::Read {
                    command::READ
                } else {
                    command::WRITE
                };
                plan.piece_bytes_max = payload_bytes_max(&self.terms, self.block_bytes);
            }
            OpKind::Flush if !self.can(transmission::SEND_FLUSH) => return unsupported,
            OpKind::Flush => {}
            OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus if io.extent.is_empty() => {
                return invalid;
            }
            OpKind::Trim if !trims_to_zeros(&self.terms) => return unsupported,
            // Not the protocol's TRIM, whose result nothing guarantees.
            OpKind::Trim => {
                plan.command = command::WRITE_ZEROES;
                plan.flags |= command_flag::FAST_ZERO;
            }
            OpKind::WriteZeroes if !self.can(transmission::SEND_WRITE_ZEROES) => {
                return unsupported;
            }
            OpKind::WriteZeroes => {
                plan.command = command::WRITE_ZEROES;
                if !io.may_trim {
                    plan.flags |= command_flag::NO_HOLE;
                }
            }
            OpKind::BlockStatus if self.terms.allocation_context.is_none() => {
                return Err(LegOutcome::Status(vec![data_run(io.extent.len())]));
            }
            OpKind::BlockStatus => plan.command = command::BLOCK_STATUS,
        }
        Ok(plan)
    }

    /// Sends an operation over the connection that has the least to do.
    fn dispatch(&mut self, key: u64) {
        let plan = self.plan(&self.ops[&key].io).expect("it was handed in");
        let connection = self.connections.iter_mut();
        let connection = connection
            .min_by_key(|connection| connection.in_flight())
            .expect("there is a connection");
        let op = self.ops.get_mut(&key).expect("it has not ended");
        op.connection = Some(connection.id);
        let io = &op.io;
        let mut rest = io.extent;
        loop {
            let (piece, after) = rest.split_at(rest.len().min(plan.piece_bytes_max));
            op.outstanding += 1;
            connection.ask(Question {
                owner: key,
                header: RequestHeader {
                    flags: plan.flags,
                    command: plan.command,
                    cookie: 0,
                    offset_bytes: piece.offset(),
                    len_bytes: u32::try_from(piece.len()).expect("pieces are short"),
                },
                asked: match io.kind {
                    OpKind::Read => Asked::Read(piece),
                    OpKind::BlockStatus => Asked::Status(piece),
                    OpKind::Write | OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes => {
                        Asked::Done
                    }
                },
                memory: (io.memory.as_ref()).map(|memory| part_of(memory, io.extent, piece)),
            });
            rest = after;
            // A status that leaves something out is allowed to, and a flush has no bytes.
            if rest.is_empty() || io.kind == OpKind::BlockStatus {
                return;
            }
        }
    }

    /// Receives over a connection.
    fn on_ready(&mut self, id: u64, arena: &Arena) {
        let mut connections = self.connections.iter_mut();
        // It may have been dropped together with another one that was ready before it.
        let Some(connection) = connections.find(|connection| connection.id == id) else {
            return;
        };
        let mut answers = std::mem::take(&mut self.answers);
        let received = connection.receive(arena, &mut answers);
        let mut is_shutting_down = false;
        for (key, result) in answers.drain(..) {
            // ESHUTDOWN; the operation is sent again, elsewhere.
            if result == Err(ErrorKind::Shutdown.errno().unsigned_abs()) {
                is_shutting_down = true;
            } else {
                self.on_answer(key, result, arena);
            }
        }
        self.answers = answers;
        match received {
            Err(loss) => self.lose(id, &loss),
            Ok(()) if is_shutting_down => self.lose(id, &Loss::ShuttingDown),
            Ok(()) => {}
        }
    }

    fn on_answer(&mut self, key: u64, result: Result<Vec<StatusRun>, u32>, arena: &Arena) {
        self.has_answered = true;
        let op = self.ops.get_mut(&key).expect("it has not ended");
        op.outstanding -= 1;
        match result {
            Ok(runs) => op.runs.extend(runs),
            Err(number) => {
                let kind = ErrorKind::from_errno(i32::try_from(number).unwrap_or_default());
                op.error.get_or_insert(kind);
            }
        }
        if op.outstanding > 0 {
            return;
        }
        let op = self.ops.remove(&key).expect("it was just there");
        let id = op.io.op;
        if op.io.kind.is_mutating() && !op.io.fua {
            self.unflushed.answered += 1;
        }
        if op.error.is_none() {
            self.remember(&op.io, arena);
        }
        let outcome = match (op.error, op.io.kind) {
            (Some(kind), _) => LegOutcome::Failed(kind),
            (None, OpKind::Flush) => {
                self.unflushed.flushed = self.unflushed.flushed.max(op.covers);
                LegOutcome::Done
            }
            (None, OpKind::BlockStatus) => LegOutcome::Status(op.status()),
            (None, OpKind::Read | OpKind::Write | OpKind::Trim | OpKind::WriteZeroes) => {
                LegOutcome::Done
            }
        };
        self.done.push((id, outcome));
    }

    /// Remembers some bytes of an operation that was carried out.
    fn remember(&mut self, io: &LegIo, arena: &Arena) {
        // Of operations that are done as one, the first says enough.
        let memory = io
            .memory
            .as_ref()
            .and_then(|memory| memory.ranges().first());
        let Some(&memory) = memory else { return };
        if !self.witnesses.wants(io.kind) {
            return;
        }
        let mut ops = self.ops.values();
        let changes = ops.any(|op| op.io.kind.is_mutating() && op.io.extent.overlaps(io.extent));
        if !changes {
            self.witnesses.add(io.extent, arena.slice(memory));
        }
    }

    /// A connection is of no use any more.
    fn lose(&mut self, id: u64, loss: &Loss) {
        let at = self.connections.iter().position(|other| other.id == id);
        let Some(at) = at else { return };
        self.connections.swap_remove(at).reset();
        if let Loss::Protocol(_) = loss {
            return self.become_lost(&format!("{loss}; it is not asked again"));
        }
        let unflushed = self.unflushed.count();
        if unflushed > 0 {
            return self.become_lost(&format!(
                "the connection was lost ({loss}) and the server had answered changes that were \
                 not flushed ({unflushed} of them): it may have lost them"
            ));
        }
        let mut orphans = Vec::new();
        for (key, op) in &mut self.ops {
            if op.connection == Some(id) {
                op.begin_anew();
                orphans.push(*key);
            }
        }
        if self.connections.is_empty() {
            let mut ops = self.ops.values();
            if ops.any(|op| op.io.failfast && op.io.kind.is_mutating()) {
                // One that was failed and is done later could overwrite what comes after it.
                return self.become_lost(&format!(
                    "the connection was lost ({loss}) and it is to fail fast: changes that were \
                     under way are not sent again"
                ));
            }
            self.fail_fast();
            self.state = State::Reconnecting;
            self.notes.push(format!(
                "the connection was lost ({loss}); operations that wait for the next one: {}",
                self.ops.len()
            ));
            self.epoch += 1;
            self.dial(TaskKind::Reconnect);
        } else {
            // Once: often the others follow.
            if !std::mem::replace(&mut self.is_thinning_told, true) {
                self.notes.push(format!(
                    "one of its connections was lost ({loss}); the others go on"
                ));
            }
            orphans.into_iter().for_each(|key| self.dispatch(key));
            self.dial(TaskKind::Extra);
        }
    }

    /// Ends the operations that are not to wait for another connection.
    fn fail_fast(&mut self) {
        self.ops.retain(|_, op| {
            if op.io.failfast {
                let outcome = LegOutcome::Failed(ErrorKind::Io);
                self.done.push((op.io.op, outcome));
            }
            !op.io.failfast
        });
    }

    fn dial(&mut self, kind: TaskKind) {
        self.dialer.add(Task {
            epoch: self.epoch,
            kind,
            witnesses: self.witnesses.all(),
            is_server_good: self.has_answered,
        });
        if kind == TaskKind::Reconnect {
            self.has_answered = false;
        }
    }

    fn become_lost(&mut self, why: &str) {
        self.notes.push(why.to_owned());
        self.state = State::Lost;
        self.drop_connections();
        self.end_all();
    }

    fn on_news(&mut self) {
        for (epoch, news) in self.dialer.take_news() {
            if epoch != self.epoch || matches!(self.state, State::Lost | State::Retired) {
                continue;
            }
            match news {
                News::NoExtra => {}
                News::Failed(told) => self.notes.push(format!("not connected yet: {told}")),
                News::Forgot(extent) => {
                    let told = format!("its server came back and has forgotten {extent}");
                    self.become_lost(&told);
                }
                News::Connected(dialled) => self.on_connected(dialled),
            }
        }
    }

    fn on_connected(&mut self, dialled: Dialled) {
        let was_connected = self.state == State::Connected;
        if let Some(difference) = self.difference(&dialled.negotiated) {
            // An extra connection that leads elsewhere is not used; what the first one leads to is
            // as it was.
            if !was_connected {
                self.become_lost(&format!("its server came back {difference}"));
            }
            return;
        }
        if self.connections.len() >= self.connections_wanted {
            return;
        }
        if let Err(error) = self.add_connection(dialled) {
            self.notes.push(format!("not connected yet: {error}"));
            if !was_connected {
                self.dial(TaskKind::Reconnect);
            }
            return;
        }
        if !was_connected {
            self.state = State::Connected;
            self.is_thinning_told = false;
            self.notes.push(format!(
                "connected again; operations that are sent anew: {}",
                self.ops.len()
            ));
            let keys: Vec<u64> = self.ops.keys().copied().collect();
            keys.into_iter().for_each(|key| self.dispatch(key));
        }
    }

    /// What is not as it was, in words.
    fn difference(&self, now: &Negotiated) -> Option<String> {
        let was = &self.terms;
        if was.details.size_bytes != now.details.size_bytes {
            let (was, now) = (was.details.size_bytes, now.details.size_bytes);
            return Some(format!("with {now} bytes instead of {was}"));
        }
        if was.details.flags != now.details.flags {
            let (was, now) = (was.details.flags, now.details.flags);
            return Some(format!(
                "with other abilities (flags {now:#x}, not {was:#x})"
            ));
        }
        let is_same = was.details == now.details
            && was.is_structured == now.is_structured
            && was.allocation_context.is_some() == now.allocation_context.is_some();
        (!is_same).then(|| "speaking another dialect of NBD".to_owned())
    }

    fn add_connection(&mut self, dialled: Dialled) -> io::Result<()> {
        let id = self.next_connection;
        self.next_connection += 1;
        let key = epoll::EventData::new_u64(id);
        epoll::add(&self.epoll, &dialled.fd, key, epoll::EventFlags::IN)?;
        let connection = Connection::new(id, dialled.fd, &dialled.negotiated);
        self.connections.push(connection);
        if self.connections.len() < self.connections_wanted {
            self.dial(TaskKind::Extra);
        }
        Ok(())
    }
}

impl Drop for NbdClient {
    fn drop(&mut self) {
        // Nothing in flight is waited for: whoever drops a hub does not want it.
        for connection in self.connections.drain(..) {
            connection.disconnect();
        }
    }
}

impl Unflushed {
    const fn count(self) -> u64 {
        self.answered - self.flushed
    }
}

impl Op {
    /// Forgets what was answered of it: it will be sent again as a whole.
    fn begin_anew(&mut self) {
        self.connection = None;
        self.outstanding = 0;
        self.error = None;
        self.runs.clear();
    }

    /// The runs of a status, with what was not asked called data.
    fn status(mut self) -> Vec<StatusRun> {
        let len = self.runs.iter().map(|run| run.len_bytes).sum::<u64>();
        if len < self.io.extent.len() {
            self.runs.push(data_run(self.io.extent.len() - len));
        }
        self.runs
    }
}

/// Whether there is a trim that leaves zeros behind, and that is refused where it would be slow.
pub(super) const fn trims_to_zeros(terms: &Negotiated) -> bool {
    let needed = transmission::SEND_WRITE_ZEROES | transmission::SEND_FAST_ZERO;
    terms.details.flags & needed == needed
}

/// The largest READ and WRITE in whole blocks; 0 where the server takes none.
pub(super) fn payload_bytes_max(terms: &Negotiated, block_bytes: u64) -> u64 {
    let largest = terms.details.block_sizes.map_or(u32::MAX, |sizes| sizes[2]);
    let largest = u64::from(largest.min(PAYLOAD_BYTES_MAX));
    largest - largest % block_bytes
}

/// Bytes of which nothing is known.
pub(super) const fn data_run(len_bytes: u64) -> StatusRun {
    StatusRun {
        len_bytes,
        hole: false,
        zero: false,
    }
}

/// The memory of a piece of an operation.
fn part_of(memory: &LegMemory, whole: Extent, piece: Extent) -> LegMemory {
    let index = |bytes| usize::try_from(bytes).expect("an operation fits memory");
    memory.part(index(piece.offset() - whole.offset()), index(piece.len()))
}

/// Watches for room to send where something waits for that, and for no longer.
fn watch_for_room(epoll: &OwnedFd, connection: &mut Connection) -> Result<(), Loss> {
    let is_blocked = connection.has_output();
    if is_blocked != connection.is_blocked {
        connection.is_blocked = is_blocked;
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, is_blocked);
        let key = epoll::EventData::new_u64(connection.id);
        epoll::modify(epoll, connection.fd(), key, flags).map_err(Loss::Broken)?;
    }
    Ok(())
}
