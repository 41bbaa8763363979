//! What an export may do while it is called.

use std::borrow::Cow;
use std::io;
use std::os::fd::BorrowedFd;

use heliostat_engine::{BufferId, BufferSlice, RequestKind, WriteBuffer};
use heliostat_types::{Extent, Instant, StreamId};

use crate::core::Core;
use crate::export::{ArrayInfo, ClientKey, Interest, Peer, ReadData};
use crate::source::Source;
use crate::volumes::{Place, VolumeInfo};

/// The loop, as seen from one export during one call.
#[derive(Debug)]
pub struct Context<'a> {
    core: &'a mut Core,
    export: usize,
}

impl<'a> Context<'a> {
    /// The loop around `core` as export number `export` sees it.
    pub(crate) const fn new(core: &'a mut Core, export: usize) -> Self {
        Self { core, export }
    }
}

impl Context<'_> {
    /// The time of this turn.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.core.now()
    }

    /// The array.
    #[must_use]
    pub const fn array(&self) -> &ArrayInfo {
        &self.core.info
    }

    /// Writes a line for people, soon; lines that come too fast are counted and dropped.
    pub fn log(&self, line: String) {
        self.core.log.line(line);
    }

    /// A connection begins: who its client is. The same key is the same client until tens of
    /// thousands of others have come.
    pub fn join(&mut self, key: ClientKey) -> Peer {
        self.core.join(self.export, key)
    }

    /// The volumes that clients can use; `None` where they use the array as a whole.
    #[must_use]
    pub fn volumes(&self) -> Option<Vec<VolumeInfo>> {
        self.core.volumes.infos()
    }

    /// A client has said what it uses, once: the array as a whole or a volume. `false` where that
    /// is not there any more.
    #[must_use]
    pub fn enter(&mut self, peer: &mut Peer, place: Place) -> bool {
        self.core.enter(peer, place)
    }

    /// A connection has ended that [`Context::join`] was called for; nothing of it is in flight.
    pub fn leave(&mut self, peer: Peer) {
        self.core.leave(peer);
    }

    /// Hands a request in, for what the client uses. [`crate::Export::on_complete`] will be called
    /// with `tag`, never from within this call.
    ///
    /// # Panics
    /// Where `tag` is 2^56 or more.
    pub fn submit(&mut self, tag: u64, peer: Peer, stream: StreamId, kind: RequestKind) {
        self.core.submit(self.export, tag, peer, stream, kind);
    }

    /// A buffer for a write of this client, or `None` while memory is short.
    ///
    /// # Panics
    /// Where the write does not lie in what the client uses.
    pub fn alloc_write(&mut self, peer: Peer, extent: Extent) -> Option<WriteBuffer> {
        self.core.alloc_write(peer, extent)
    }

    /// Gives back a buffer: the data of a read when it was sent, or a write never submitted.
    pub fn release(&mut self, buffer: BufferId) {
        self.core.release(buffer);
    }

    /// The bytes of a read's answer.
    #[must_use]
    pub fn bytes(&self, slice: BufferSlice) -> &[u8] {
        self.core.bytes(slice)
    }

    /// All bytes of a read's answer, for an export that wants them in one piece.
    #[must_use]
    pub fn data(&self, data: &ReadData) -> Cow<'_, [u8]> {
        let mut pieces = data.pieces().map(|piece| self.bytes(piece));
        let first = pieces.next().expect("a read has bytes");
        let Some(second) = pieces.next() else {
            return Cow::Borrowed(first);
        };
        let rest: Vec<&[u8]> = pieces.collect();
        Cow::Owned([first, second, &rest.concat()].concat())
    }

    /// Gives back the buffers of a read's answer.
    pub fn release_data(&mut self, data: &ReadData) {
        data.pieces()
            .for_each(|piece| self.core.release(piece.buffer));
    }

    /// The bytes of a write buffer that was not submitted yet.
    pub fn bytes_mut(&mut self, slice: BufferSlice) -> &mut [u8] {
        self.core.bytes_mut(slice)
    }

    /// Watches a descriptor, level-triggered. Watch it again with the same token to change the
    /// interest. A descriptor that is closed and a new one that takes its token in the same turn
    /// may be told of once although nothing is ready.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn watch(&mut self, fd: BorrowedFd<'_>, token: u32, interest: Interest) -> io::Result<()> {
        let key = Source::Export {
            index: self.export,
            token,
        };
        self.core.watch(fd, key.to_key(), interest)
    }

    /// Stops watching; call it before the descriptor is closed.
    pub fn unwatch(&mut self, fd: BorrowedFd<'_>) {
        self.core.poller.unwatch(fd);
    }
}
