//! Waiting: one epoll set with nanosecond timeouts.
//!
//! It knows descriptors and the keys they were registered under, and nothing of what they mean.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use heliostat_types::Duration;
use rustix::event::epoll;

use crate::export::{Interest, Ready};

/// How many events one wait takes in. Descriptors beyond that wait for the next turn, which
/// follows at once; with level triggering none is lost.
const EVENTS_MAX: usize = 128;

/// The set of watched descriptors.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    /// The kernel has no `epoll_pwait2` (before 5.11, or a filter refuses it): timeouts are rounded
    /// up to milliseconds.
    is_coarse: bool,
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller")
            .field("is_coarse", &self.is_coarse)
            .finish_non_exhaustive()
    }
}

impl Poller {
    /// An empty set.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS_MAX),
            is_coarse: false,
        })
    }

    /// Watches `fd`, level-triggered, or changes what it is watched for.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, interest.readable);
        flags.set(epoll::EventFlags::OUT, interest.writable);
        let data = epoll::EventData::new_u64(key);
        match epoll::modify(self.epoll.as_fd(), fd, data, flags) {
            Err(rustix::io::Errno::NOENT) => Ok(epoll::add(self.epoll.as_fd(), fd, data, flags)?),
            other => Ok(other?),
        }
    }

    /// Stops watching `fd`; one that is not watched is left alone.
    pub(crate) fn unwatch(&self, fd: BorrowedFd<'_>) {
        // The only errors are "not watched" and "cannot be watched".
        let _ = epoll::delete(self.epoll.as_fd(), fd);
    }

    /// Waits until something is ready or `timeout` has passed (`None`: for ever), and says how many
    /// descriptors are ready. A signal ends the wait with none.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.events.clear();
        let mut told = self.wait_once(timeout);
        if !self.is_coarse
            && told.as_ref().err().and_then(io::Error::raw_os_error) == Some(libc::ENOSYS)
        {
            self.is_coarse = true;
            told = self.wait_once(timeout);
        }
        match told {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            other => other,
        }
    }

    fn wait_once(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let room = i32::try_from(EVENTS_MAX).expect("128 fits");
        let told = if self.is_coarse {
            let ms = timeout.map_or(-1, |timeout| {
                i32::try_from(timeout.as_ns().div_ceil(1_000_000)).unwrap_or(i32::MAX)
            });
            // SAFETY: `events` has room for EVENTS_MAX entries, and the kernel writes no more.
            let told = unsafe {
                libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), room, ms)
            };
            libc::c_long::from(told)
        } else {
            let timespec = timeout.map(|timeout| libc::timespec {
                tv_sec: libc::time_t::try_from(timeout.as_ns() / 1_000_000_000)
                    .expect("584 years of seconds fit"),
                tv_nsec: libc::c_long::try_from(timeout.as_ns() % 1_000_000_000)
                    .expect("a fraction of a second fits"),
            });
            let timespec = timespec.as_ref().map_or(ptr::null(), ptr::from_ref);
            // By number: older C libraries have no wrapper, and would refuse to start us.
            //
            // SAFETY: as above; `timespec` is null or lives until after the call, and the signal
            // mask is null.
            unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    self.epoll.as_raw_fd(),
                    self.events.as_mut_ptr(),
                    room,
                    timespec,
                    ptr::null::<libc::sigset_t>(),
                    0usize,
                )
            }
        };
        let count = usize::try_from(told).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the kernel filled the first `count` entries.
        unsafe { self.events.set_len(count) };
        Ok(count)
    }

    /// The key and state of ready descriptor number `index` of the last wait.
    pub(crate) fn event(&self, index: usize) -> (u64, Ready) {
        let event = self.events[index];
        let flags = event.events;
        let has = |flag: i32| flags & flag.cast_unsigned() != 0;
        let ready = Ready {
            readable: has(libc::EPOLLIN),
            writable: has(libc::EPOLLOUT),
            hangup: has(libc::EPOLLHUP) || has(libc::EPOLLERR),
        };
        (event.u64, ready)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use heliostat_types::Duration;
    use rustix::event::{EventfdFlags, eventfd};

    use super::{Interest, Poller};

    const READABLE: Interest = Interest {
        readable: true,
        writable: false,
    };

    #[test]
    fn descriptors_are_told_by_their_key_until_they_are_unwatched() {
        for is_coarse in [false, true] {
            let mut poller = Poller::new().unwrap();
            poller.is_coarse = is_coarse;
            let quiet = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
            let ready = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
            poller.watch(quiet.as_fd(), 1, READABLE).unwrap();
            poller.watch(ready.as_fd(), 2, READABLE).unwrap();
            // Watched again: the key changes.
            poller.watch(ready.as_fd(), 3, READABLE).unwrap();
            assert_eq!(poller.wait(None).unwrap(), 1);
            let (key, state) = poller.event(0);
            assert!(key == 3 && state.readable && !state.writable && !state.hangup);
            poller.unwatch(ready.as_fd());
            poller.unwatch(ready.as_fd());
            assert_eq!(poller.wait(Some(Duration::from_us(10))).unwrap(), 0);
        }
    }
}
