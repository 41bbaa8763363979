//! How clients' bytes are received: buffers that connections share, and the call.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use heliostat_nbd::input::Input;

use crate::session::INPUT_BYTES_MIN;

/// Room for one call's worth of input: at depth 32, writes of 4 KiB with their payloads come in
/// with a single call, and a second one's worth stays in the processor's cache.
const INPUT_BYTES: usize = 256 << 10;
/// How many empty buffers are kept. Connections hand theirs back whenever all was understood, so
/// one would do but for connections that are in the middle of a message.
const POOL_MAX: usize = 4;

/// Empty buffers, the one used last on top: it is the one in the cache.
#[derive(Debug, Default)]
pub(super) struct InputPool(Vec<Input>);

impl InputPool {
    /// An empty buffer.
    pub(super) fn take(&mut self) -> Input {
        let new = || Input::with_size(INPUT_BYTES);
        self.0.pop().unwrap_or_else(new)
    }

    /// Takes a buffer back; what it holds is forgotten.
    pub(super) fn put(&mut self, mut input: Input) {
        if self.0.len() < POOL_MAX {
            input.clear();
            self.0.push(input);
        }
    }
}

/// Receives once: first into `payload`, then into `input`. Says how many bytes went where; none at
/// all is the end.
///
/// # Panics
/// Where there is a payload to fill and unread bytes that belong into it.
pub(super) fn receive(
    fd: BorrowedFd<'_>,
    payload: &mut [u8],
    input: &mut Input,
) -> io::Result<(usize, usize)> {
    assert!(
        payload.is_empty() || input.held().is_empty(),
        "payload that was received is moved first"
    );
    let payload_len = payload.len();
    let room = IoSliceMut::new(input.room());
    let received = if payload.is_empty() {
        rustix::io::readv(fd, &mut [room])?
    } else {
        rustix::io::readv(fd, &mut [IoSliceMut::new(payload), room])?
    };
    let to_payload = received.min(payload_len);
    input.receive(received - to_payload);
    Ok((to_payload, received - to_payload))
}

const _: () = assert!(
    INPUT_BYTES > 2 * INPUT_BYTES_MIN,
    "a whole message always fits"
);
