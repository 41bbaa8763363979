//! What an export may do while it is called. Stub of the public surface.

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

use heliostat_engine::{BufferId, BufferSlice, RequestKind, WriteBuffer};
use heliostat_types::{ClientId, Extent, Instant, StreamId};

use crate::export::{ArrayInfo, ClientKey, Interest};

/// The loop, as seen from one export during one call.
#[derive(Debug)]
pub struct Context<'a> {
    marker: PhantomData<&'a mut ()>,
}

impl Context<'_> {
    /// The time of this turn.
    #[must_use]
    pub fn now(&self) -> Instant {
        todo!("runtime")
    }

    /// The array.
    #[must_use]
    pub fn array(&self) -> &ArrayInfo {
        todo!("runtime")
    }

    /// The number of a client; the same key has the same number as long as the daemon runs.
    pub fn client_id(&mut self, _key: ClientKey) -> ClientId {
        todo!("runtime")
    }

    /// Hands a request in. [`crate::Export::on_complete`] will be called with `tag`, never from
    /// within this call.
    pub fn submit(&mut self, _tag: u64, _client: ClientId, _stream: StreamId, _kind: RequestKind) {
        todo!("runtime")
    }

    /// A buffer for a write, or `None` while memory is short.
    pub fn alloc_write(&mut self, _extent: Extent) -> Option<WriteBuffer> {
        todo!("runtime")
    }

    /// Gives back a buffer: the data of a read when it was sent, or a write never submitted.
    pub fn release(&mut self, _buffer: BufferId) {
        todo!("runtime")
    }

    /// The bytes of a read's answer.
    #[must_use]
    pub fn bytes(&self, _slice: BufferSlice) -> &[u8] {
        todo!("runtime")
    }

    /// The bytes of a write buffer that was not submitted yet.
    pub fn bytes_mut(&mut self, _slice: BufferSlice) -> &mut [u8] {
        todo!("runtime")
    }

    /// Watches a descriptor, level-triggered. Watch it again with the same token to change the
    /// interest.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn watch(
        &mut self,
        _fd: BorrowedFd<'_>,
        _token: u32,
        _interest: Interest,
    ) -> io::Result<()> {
        todo!("runtime")
    }

    /// Stops watching; call it before the descriptor is closed.
    pub fn unwatch(&mut self, _fd: BorrowedFd<'_>) {
        todo!("runtime")
    }
}
