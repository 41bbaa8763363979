//! What is to be sent on a connection: reply heads in one run of bytes, and between them the data
//! of reads, which stays where the engine put it until the socket has taken it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use heliostat_runtime::{BufferSlice, Context};

/// How many pieces go into one call: 64 reads with their heads. The kernel would take 1024, but a
/// socket's buffer holds about that many small ones.
const PIECES_MAX: usize = 128;
/// Sent heads are dropped from the front when this many have gathered.
const SENT_HEADS_MAX: usize = 64 << 10;

/// Data that is sent behind the heads before it.
#[derive(Debug)]
struct Data {
    /// How many bytes of heads, counted from the front of the run, come before it.
    after: usize,
    slice: BufferSlice,
    /// What was charged for it.
    charged_bytes: u64,
    sent: usize,
}

/// How a sending went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// How many bytes the socket took.
    pub(super) bytes: usize,
    /// What was charged for the buffers that were given back to the engine.
    pub(super) released_bytes: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct OutputQueue {
    heads: Vec<u8>,
    heads_sent: usize,
    data: VecDeque<Data>,
    is_blocked: bool,
}

impl OutputQueue {
    /// Where heads are appended; they are sent in the order in which heads and data came.
    pub(super) const fn heads(&mut self) -> &mut Vec<u8> {
        &mut self.heads
    }

    /// How many bytes of heads wait.
    pub(super) const fn heads_waiting(&self) -> usize {
        self.heads.len() - self.heads_sent
    }

    /// Appends data that so much was charged for; its buffer is released when the last byte was
    /// sent.
    pub(super) fn push_data(&mut self, slice: BufferSlice, charged_bytes: u64) {
        self.data.push_back(Data {
            after: self.heads.len(),
            slice,
            charged_bytes,
            sent: 0,
        });
    }

    /// Whether everything was sent.
    pub(super) fn is_empty(&self) -> bool {
        self.heads_sent == self.heads.len() && self.data.is_empty()
    }

    /// Whether the socket took less than it was offered, and has not said since that it is ready.
    pub(super) const fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// The socket said that it is ready.
    pub(super) const fn unblock(&mut self) {
        self.is_blocked = false;
    }

    /// Sends as much as the socket takes.
    pub(super) fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        context: &mut Context<'_>,
    ) -> io::Result<Sent> {
        let mut sent = Sent {
            bytes: 0,
            released_bytes: 0,
        };
        while !self.is_empty() && !self.is_blocked {
            let (offered, taken) = match self.offer(fd, context) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (1, 0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            // A socket that takes less than all is full; asking again would cost a call.
            self.is_blocked = taken < offered;
            sent.bytes += taken;
            sent.released_bytes += self.advance(taken, context);
        }
        Ok(sent)
    }

    /// Forgets all that was not sent, giving the buffers back; says what was charged for them.
    pub(super) fn discard(&mut self, context: &mut Context<'_>) -> u64 {
        let mut released_bytes = 0;
        for data in self.data.drain(..) {
            context.release(data.slice.buffer);
            released_bytes += data.charged_bytes;
        }
        self.heads.clear();
        self.heads_sent = 0;
        released_bytes
    }

    /// One call: how many bytes were offered and how many were taken.
    fn offer(&self, fd: BorrowedFd<'_>, context: &Context<'_>) -> io::Result<(usize, usize)> {
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        let mut heads_at = self.heads_sent;
        let mut offered = 0;
        let mut data_offered = 0;
        let mut push = |piece, count: &mut usize| {
            let piece: &[u8] = piece;
            pieces[*count] = IoSlice::new(piece);
            *count += usize::from(!piece.is_empty());
            offered += piece.len();
        };
        for data in &self.data {
            if count + 2 > PIECES_MAX {
                break;
            }
            push(&self.heads[heads_at..data.after], &mut count);
            push(&context.bytes(data.slice)[data.sent..], &mut count);
            heads_at = data.after;
            data_offered += 1;
        }
        if data_offered == self.data.len() && count < PIECES_MAX {
            push(&self.heads[heads_at..], &mut count);
        }
        let taken = rustix::io::writev(fd, &pieces[..count])?;
        Ok((offered, taken))
    }

    /// The socket took so many bytes: gives back the buffers that were sent whole, and says what
    /// was charged for them.
    fn advance(&mut self, mut taken: usize, context: &mut Context<'_>) -> u64 {
        let mut released_bytes = 0;
        while taken > 0 {
            let heads_end = self
                .data
                .front()
                .map_or(self.heads.len(), |data| data.after);
            let heads = taken.min(heads_end - self.heads_sent);
            self.heads_sent += heads;
            taken -= heads;
            if taken == 0 {
                break;
            }
            let data = self.data.front_mut().expect("what was taken was offered");
            let len = usize::try_from(data.slice.len_bytes).expect("a usize holds 32 bits");
            let bytes = taken.min(len - data.sent);
            data.sent += bytes;
            taken -= bytes;
            if data.sent == len {
                context.release(data.slice.buffer);
                released_bytes += data.charged_bytes;
                self.data.pop_front();
            }
        }
        if self.heads_sent == self.heads.len() && self.data.is_empty() {
            self.heads.clear();
            self.heads_sent = 0;
        } else if self.heads_sent >= SENT_HEADS_MAX {
            self.heads.drain(..self.heads_sent);
            for data in &mut self.data {
                data.after -= self.heads_sent;
            }
            self.heads_sent = 0;
        }
        released_bytes
    }
}
