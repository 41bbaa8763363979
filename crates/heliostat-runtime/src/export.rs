//! The seam between the loop and the protocols that clients speak.
//!
//! An export lives on the array's thread. The loop tells it when a file descriptor is ready, when a
//! request was answered, and when a turn of the loop ends; it never blocks, and it sees nothing of
//! legs or policies.

use std::fmt::Debug;

use heliostat_engine::BufferSlice;
use heliostat_types::{ClientId, ErrorKind, FlowId, Instant, StatusRun};

use crate::context::Context;
use crate::volumes::Place;

/// What an export waits for on a file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Bytes to read, a connection to accept, or the peer gone.
    pub readable: bool,
    /// Room to write.
    pub writable: bool,
}

impl Interest {
    /// Bytes to read, and nothing else.
    pub const READABLE: Self = Self {
        readable: true,
        writable: false,
    };
}

/// What is so on a file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Reading or accepting will not block.
    pub readable: bool,
    /// Writing will not block.
    pub writable: bool,
    /// The peer hung up or the descriptor has an error; reading tells which.
    pub hangup: bool,
}

/// Who a client is, before the loop gives it a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientKey {
    /// A process of this machine, over a unix socket or inherited descriptors.
    Process(u32),
    /// A peer address, over TCP; its connections share it.
    Address(std::net::IpAddr),
}

/// Who the loop takes a connection's client for.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The client.
    pub client: ClientId,
    /// The account that its requests are done on.
    pub flow: FlowId,
    /// What it uses: [`Context::enter`].
    pub place: Place,
}

/// A successful answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// The bytes of a read.
    Data(ReadData),
    /// The runs, from the start of the extent asked for.
    Status(Vec<StatusRun>),
}

/// Where the bytes of a read lie: mostly in one piece. Give each buffer back with
/// [`Context::release`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadData {
    first: BufferSlice,
    rest: Vec<BufferSlice>,
}

impl ReadData {
    /// These pieces, one behind the other.
    ///
    /// # Panics
    /// Where there is none.
    pub(crate) fn of(pieces: Vec<BufferSlice>) -> Self {
        let mut pieces = pieces.into_iter();
        Self {
            first: pieces.next().expect("a read has bytes"),
            rest: pieces.collect(),
        }
    }

    /// The pieces, in their order.
    pub fn pieces(&self) -> impl Iterator<Item = BufferSlice> + '_ {
        std::iter::once(self.first).chain(self.rest.iter().copied())
    }
}

impl From<heliostat_engine::Answer> for Answer {
    fn from(answer: heliostat_engine::Answer) -> Self {
        match answer {
            heliostat_engine::Answer::Done => Self::Done,
            heliostat_engine::Answer::Data(first) => {
                let rest = Vec::new();
                Self::Data(ReadData { first, rest })
            }
            heliostat_engine::Answer::Status(runs) => Self::Status(runs),
        }
    }
}

/// The array as exports show it.
#[derive(Clone, Debug)]
pub struct ArrayInfo {
    /// Usable size.
    pub size_bytes: u64,
    /// What clients should align to for speed: max(4096, the largest physical block).
    pub block_preferred_bytes: u32,
    /// The largest read or write.
    pub request_max_bytes: u32,
    /// Whether trims do anything.
    pub can_trim: bool,
    /// Whether any request may be refused as not fast.
    pub can_fast_zero: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether all legs turn: where one does not, reads are not those of a disk.
    pub rotational: bool,
}

/// A protocol endpoint, or several of one protocol.
pub trait Export: Debug {
    /// Whether it could be started now. Called before anything is written to a leg.
    ///
    /// # Errors
    /// As [`Export::start`].
    fn check(&self) -> Result<(), crate::RuntimeError>;

    /// Opens what it listens on. Called once, before the first turn.
    ///
    /// # Errors
    /// Where a socket cannot be had; the text names it and says what to do.
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), crate::RuntimeError>;

    /// A watched descriptor is ready. `token` is what [`Context::watch`] was given.
    fn on_ready(&mut self, context: &mut Context<'_>, token: u32, ready: Ready);

    /// A request was answered. `tag` is what [`Context::submit`] was given.
    fn on_complete(
        &mut self,
        context: &mut Context<'_>,
        tag: u64,
        result: Result<Answer, ErrorKind>,
    );

    /// What can be used has changed: look again at [`Context::volumes`].
    fn on_volumes_changed(&mut self, _context: &mut Context<'_>) {}

    /// [`Context::alloc_write`] refused before, and may not refuse now.
    fn on_memory_freed(&mut self, context: &mut Context<'_>);

    /// All that was ready in this turn has been handled: send what is queued, in one go.
    fn on_turn_end(&mut self, context: &mut Context<'_>);

    /// When [`Export::on_deadline`] is due, if at all.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// The time it asked for has come.
    fn on_deadline(&mut self, _context: &mut Context<'_>) {}

    /// Stop listening and reading requests; finish what was accepted.
    fn begin_stop(&mut self, context: &mut Context<'_>);

    /// Whether every accepted request was answered and the answers were sent. For an export that
    /// ends by itself (one client on standard input), also whether it has ended.
    fn is_drained(&self) -> bool;

    /// Whether the daemon should stop because this export has ended by itself.
    fn has_ended(&self) -> bool {
        false
    }

    /// Closes everything at once and removes what it left in the file system.
    fn close(&mut self);

    /// What clients ask for the array as a whole by: no volume should be called so.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// What clients connect to, for the message at the start: `nbd+unix:///disk?socket=...`.
    fn addresses(&self) -> Vec<String>;
}
