//! The file `volume`: the array itself, for whoever can read and write a file but speaks no NBD.
//!
//! The kernel's questions arrive on the thread of the file system ([`Volume`]) and are done by the
//! array's thread ([`VolumeExport`]); a bounded channel lies between them. The reply is sent by
//! whoever has it, which is a write to the kernel's queue and waits for nothing.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use heliostat_runtime::{
    Answer, ClientKey, Context, Export, Interest, Peer, Ready, RequestKind, RuntimeError, Waker,
};
use heliostat_types::{ErrorKind, Extent, Instant, StreamId};

/// How many requests may be on their way to the array's thread. With what the kernel sends at once,
/// they hold 64 MiB at most; whoever comes later waits in the kernel.
const WAITING_MAX: usize = 64;

/// How many client processes are remembered that have nothing in flight.
const CLIENTS_MAX: usize = 64;

/// One request.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The process that asks.
    pub(crate) process: u32,
    /// The open file that it asks through.
    pub(crate) stream: u64,
    pub(crate) what: What,
}

/// For what, and where the answer goes.
#[derive(Debug)]
pub(crate) enum What {
    Read {
        extent: Extent,
        reply: ReplyData,
    },
    Write {
        extent: Extent,
        data: Vec<u8>,
        /// Where the file was opened with O_SYNC or O_DSYNC.
        fua: bool,
        reply: ReplyWrite,
    },
    Zero {
        extent: Extent,
        may_trim: bool,
        reply: ReplyEmpty,
    },
    Flush {
        reply: ReplyEmpty,
    },
}

impl What {
    fn refuse(self, error: Errno) {
        match self {
            Self::Read { reply, .. } => reply.error(error),
            Self::Write { reply, .. } => reply.error(error),
            Self::Zero { reply, .. } | Self::Flush { reply } => reply.error(error),
        }
    }
}

/// The file system's end.
#[derive(Debug)]
pub struct Volume {
    asked: SyncSender<Asked>,
    waker: Arc<Waker>,
    pub(crate) size_bytes: u64,
    pub(crate) is_read_only: bool,
}

/// What a [`Volume`] is made from.
#[derive(Debug)]
pub struct VolumeMaker {
    asked: SyncSender<Asked>,
    waker: Arc<Waker>,
}

impl VolumeMaker {
    /// That of an array of this size.
    #[must_use]
    pub fn of(self, size_bytes: u64, is_read_only: bool) -> Volume {
        Volume {
            asked: self.asked,
            waker: self.waker,
            size_bytes,
            is_read_only,
        }
    }
}

impl Volume {
    pub(crate) fn ask(&self, asked: Asked) {
        match self.asked.send(asked) {
            Ok(()) => self.waker.wake(),
            Err(refused) => refused.0.what.refuse(Errno::ENODEV),
        }
    }
}

/// Where an answer goes.
#[derive(Debug)]
enum Pending {
    Read(ReplyData),
    Write(ReplyWrite, u32),
    Other(ReplyEmpty),
}

impl Pending {
    fn fail(self, error: Errno) {
        match self {
            Self::Read(reply) => reply.error(error),
            Self::Write(reply, _) => reply.error(error),
            Self::Other(reply) => reply.error(error),
        }
    }
}

/// A process that has asked.
#[derive(Debug)]
struct Client {
    peer: Peer,
    in_flight: usize,
    last_asked: Instant,
}

/// The array's end.
#[derive(Debug)]
pub struct VolumeExport {
    incoming: Receiver<Asked>,
    sender: SyncSender<Asked>,
    waker: Arc<Waker>,
    /// What waits for memory, first come, first served.
    parked: VecDeque<Asked>,
    pending: BTreeMap<u64, (Pending, u32)>,
    next_tag: u64,
    clients: BTreeMap<u32, Client>,
    is_stopping: bool,
}

impl VolumeExport {
    /// One that nobody asks yet.
    ///
    /// # Errors
    /// Where the kernel has no descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let (sender, incoming) = sync_channel(WAITING_MAX);
        Ok(Self {
            incoming,
            sender,
            waker: Arc::new(Waker::new()?),
            parked: VecDeque::new(),
            pending: BTreeMap::new(),
            next_tag: 0,
            clients: BTreeMap::new(),
            is_stopping: false,
        })
    }

    /// What the other end is made from, when there is an array.
    #[must_use]
    pub fn volume(&self) -> VolumeMaker {
        VolumeMaker {
            asked: self.sender.clone(),
            waker: Arc::clone(&self.waker),
        }
    }

    /// Hands in what was asked, as long as there is memory.
    fn advance(&mut self, context: &mut Context<'_>) {
        loop {
            // The channel is emptied only as fast as there is memory, so that it holds others off.
            let next = self.parked.pop_front();
            let Some(asked) = next.or_else(|| self.incoming.try_recv().ok()) else {
                return;
            };
            if let Some(asked) = self.submit(context, asked) {
                self.parked.push_front(asked);
                return;
            }
        }
    }

    /// Hands a request in; gives it back where there is no memory for it.
    fn submit(&mut self, context: &mut Context<'_>, asked: Asked) -> Option<Asked> {
        if self.is_stopping {
            asked.what.refuse(Errno::ESHUTDOWN);
            return None;
        }
        let Asked {
            process,
            stream,
            what,
        } = asked;
        let peer = self.peer(context, process);
        let (kind, pending) = match what {
            What::Read { extent, reply } => (RequestKind::Read { extent }, Pending::Read(reply)),
            What::Write {
                extent,
                data,
                fua,
                reply,
            } => {
                let Some(buffer) = context.alloc_write(peer, extent) else {
                    let what = What::Write {
                        extent,
                        data,
                        fua,
                        reply,
                    };
                    return Some(Asked {
                        process,
                        stream,
                        what,
                    });
                };
                context.bytes_mut(buffer.data).copy_from_slice(&data);
                let kind = RequestKind::Write {
                    extent,
                    buffer: buffer.buffer,
                    fua,
                };
                let written = u32::try_from(data.len()).expect("the kernel sends less");
                (kind, Pending::Write(reply, written))
            }
            What::Zero {
                extent,
                may_trim,
                reply,
            } => {
                let kind = RequestKind::WriteZeroes {
                    extent,
                    fua: false,
                    may_trim,
                    fast_only: false,
                };
                (kind, Pending::Other(reply))
            }
            What::Flush { reply } => (RequestKind::Flush, Pending::Other(reply)),
        };
        let client = self.clients.get_mut(&process);
        client.expect("it was just looked at").in_flight += 1;
        let tag = self.next_tag;
        // 2^56 requests are more than an array is ever asked.
        self.next_tag += 1;
        self.pending.insert(tag, (pending, process));
        context.submit(tag, peer, StreamId(stream), kind);
        None
    }

    /// Who a process is; those that were silent for longest are forgotten.
    fn peer(&mut self, context: &mut Context<'_>, process: u32) -> Peer {
        let now = context.now();
        if !self.clients.contains_key(&process) && self.clients.len() >= CLIENTS_MAX {
            let idle = self
                .clients
                .iter()
                .filter(|(_, client)| client.in_flight == 0);
            let oldest = idle.min_by_key(|(_, client)| client.last_asked);
            let oldest = oldest.map(|(process, _)| *process);
            if let Some(client) = oldest.and_then(|process| self.clients.remove(&process)) {
                context.leave(client.peer);
            }
        }
        let client = self.clients.entry(process).or_insert_with(|| Client {
            peer: context.join(ClientKey::Process(process)),
            in_flight: 0,
            last_asked: now,
        });
        client.last_asked = now;
        client.peer
    }
}

impl Export for VolumeExport {
    fn check(&self) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn start(&mut self, context: &mut Context<'_>) -> Result<(), RuntimeError> {
        let watched = context.watch(self.waker.as_fd(), 0, Interest::READABLE);
        watched.map_err(|error| RuntimeError(format!("cannot watch the volume's file: {error}")))
    }

    fn on_ready(&mut self, context: &mut Context<'_>, _token: u32, _ready: Ready) {
        self.waker.clear();
        if self.parked.is_empty() {
            self.advance(context);
        }
    }

    fn on_complete(
        &mut self,
        context: &mut Context<'_>,
        tag: u64,
        result: Result<Answer, ErrorKind>,
    ) {
        let pending = self.pending.remove(&tag);
        let (pending, process) = pending.expect("what is answered was asked, once");
        if let Some(client) = self.clients.get_mut(&process) {
            client.in_flight -= 1;
        }
        match (pending, result) {
            (pending, Err(kind)) => pending.fail(Errno::from_i32(kind.errno())),
            (Pending::Read(reply), Ok(Answer::Data(data))) => {
                reply.data(&context.data(&data));
                context.release_data(&data);
            }
            (Pending::Read(reply), Ok(_)) => reply.data(&[]),
            (Pending::Write(reply, written), Ok(_)) => reply.written(written),
            (Pending::Other(reply), Ok(_)) => reply.ok(),
        }
    }

    fn on_memory_freed(&mut self, context: &mut Context<'_>) {
        self.advance(context);
    }

    fn on_turn_end(&mut self, _context: &mut Context<'_>) {}

    fn begin_stop(&mut self, context: &mut Context<'_>) {
        self.is_stopping = true;
        self.advance(context);
    }

    fn is_drained(&self) -> bool {
        self.pending.is_empty()
    }

    fn close(&mut self) {
        for (_, (pending, _)) in std::mem::take(&mut self.pending) {
            pending.fail(Errno::EIO);
        }
        for asked in self.parked.drain(..).chain(self.incoming.try_iter()) {
            asked.what.refuse(Errno::ESHUTDOWN);
        }
    }

    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }
}
