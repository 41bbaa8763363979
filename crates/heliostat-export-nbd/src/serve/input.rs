//! What was received of a connection and not yet understood.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use crate::session::INPUT_BYTES_MIN;

/// Room for one call's worth of input: at depth 32, writes of 4 KiB with their payloads come in
/// with a single call, and a second one's worth stays in the processor's cache.
const INPUT_BYTES: usize = 256 << 10;
/// How many empty buffers are kept. Connections hand theirs back whenever all was understood, so
/// one would do but for connections that are in the middle of a message.
const POOL_MAX: usize = 4;

/// A buffer with unread bytes in its middle.
#[derive(Debug)]
pub(super) struct InputBuffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

/// Empty buffers, the one used last on top: it is the one in the cache.
#[derive(Debug, Default)]
pub(super) struct InputPool(Vec<InputBuffer>);

impl InputPool {
    /// An empty buffer.
    pub(super) fn take(&mut self) -> InputBuffer {
        self.0.pop().unwrap_or_else(|| InputBuffer {
            bytes: vec![0; INPUT_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
        })
    }

    /// Takes a buffer back; what it holds is forgotten.
    pub(super) fn put(&mut self, mut buffer: InputBuffer) {
        if self.0.len() < POOL_MAX {
            (buffer.start, buffer.end) = (0, 0);
            self.0.push(buffer);
        }
    }
}

impl InputBuffer {
    /// What was received and not consumed.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The first `count` bytes were understood.
    pub(super) const fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.end, "only what is there is consumed");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Receives once: first into `payload`, then into the buffer. Says how many bytes went where;
    /// none at all is the end.
    ///
    /// # Panics
    /// Where there is a payload to fill and unread bytes that belong into it.
    pub(super) fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        payload: &mut [u8],
    ) -> io::Result<(usize, usize)> {
        assert!(
            payload.is_empty() || self.start == self.end,
            "payload that was received is moved first"
        );
        if self.start > 0 {
            // At most one message lies here, and mostly none.
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let payload_len = payload.len();
        let room = IoSliceMut::new(&mut self.bytes[self.end..]);
        let received = if payload.is_empty() {
            rustix::io::readv(fd, &mut [room])?
        } else {
            rustix::io::readv(fd, &mut [IoSliceMut::new(payload), room])?
        };
        let to_payload = received.min(payload_len);
        self.end += received - to_payload;
        Ok((to_payload, received - to_payload))
    }
}

const _: () = assert!(
    INPUT_BYTES > 2 * INPUT_BYTES_MIN,
    "a whole message always fits"
);
