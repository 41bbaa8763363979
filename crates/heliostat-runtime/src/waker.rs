//! How another thread wakes the loop: an eventfd.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// Readable after [`Waker::wake`], until [`Waker::clear`].
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// One that is not readable.
    ///
    /// # Errors
    /// Where the kernel has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Makes it readable.
    pub fn wake(&self) {
        // The only error is a counter that is full, and then it is readable.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it not readable. What it announces is to be looked at after this.
    pub fn clear(&self) {
        // The only error is that it was not readable.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
