//! Signals that end the daemon, as a descriptor that the loop watches.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// SIGTERM, SIGINT and SIGHUP, taken out of their ordinary course.
///
/// SIGHUP stops like the other two, so that closing a terminal is a clean stop; where it was
/// ignored at the start (`nohup`), it stays ignored.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks them in this thread and those it will start. To be called before any other thread is
    /// there: one that does not block them would be ended by them.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn take() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set it is given.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: initialised by the call above.
        let mut set = unsafe { set.assume_init() };
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            if signal == libc::SIGHUP && is_ignored(signal) {
                continue;
            }
            // SAFETY: the set is initialised and the signal number valid.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: the set is initialised; the old mask is not asked for.
        let told =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
        if told != 0 {
            return Err(io::Error::from_raw_os_error(told));
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set is initialised; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// Has signals take their ordinary course in a process that is started while they are taken.
    pub fn leave_to(command: &mut Command) {
        let leave = || {
            let mut none = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: sigemptyset initialises the set it is given.
            unsafe { libc::sigemptyset(none.as_mut_ptr()) };
            // SAFETY: the set was initialised; the old mask is not asked for.
            let told = unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
            };
            match told {
                0 => Ok(()),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        };
        // SAFETY: between fork and exec only what is async-signal-safe is called, which both are.
        unsafe { command.pre_exec(leave) };
    }

    /// Whether one has come.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn have_come(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(self, PollFlags::IN)];
        Ok(poll(&mut fds, Some(&Timespec::default()))? > 0)
    }

    /// How many have come since the last call.
    pub(crate) fn count_new(&self) -> usize {
        let mut count = 0;
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
        let size = size_of::<libc::signalfd_siginfo>();
        loop {
            // SAFETY: the buffer is as large as the kernel is told.
            let told = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), size) };
            if usize::try_from(told) != Ok(size) {
                return count;
            }
            count += 1;
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether whoever started us has this signal ignored.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with no new action it only writes the old one.
    let told = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroes are a valid value of this plain struct, and so is what the call wrote.
    told == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}
