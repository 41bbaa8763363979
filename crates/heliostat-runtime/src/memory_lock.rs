//! What a daemon needs when a file system on its own machine lies on what it serves: its memory
//! must not be written out to the very device that it serves, and the kernel must not wait for that
//! device when the daemon asks for memory.

use rustix::mm::{MlockAllFlags, mlockall};

/// From `linux/prctl.h`; known since Linux 5.6.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Tells the kernel that this thread, and those it starts from now on, are part of the I/O path.
/// Needs `CAP_SYS_RESOURCE`. Whether the kernel agreed.
pub(crate) fn join_io_path() -> bool {
    // SAFETY: this option takes numbers alone and changes nothing but a flag of the thread.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0 }
}

/// Keeps in memory what is there, and what will be once it is touched. Needs `CAP_IPC_LOCK`, or a
/// limit on locked memory above all that the daemon has. What came of that and of
/// [`join_io_path`], for people.
pub(crate) fn lock_memory(is_in_io_path: bool) -> &'static str {
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    match (mlockall(flags).is_ok(), is_in_io_path) {
        (true, true) => "memory is locked; the kernel knows of us as part of its I/O path",
        (true, false) => "memory is locked",
        (false, true) => "the kernel knows of us as part of its I/O path",
        (false, false) => {
            "memory is not locked (that needs privileges): no place for a file system of this same \
             machine while its memory is short"
        }
    }
}
