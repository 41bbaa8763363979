//! Where the kernel refuses io_uring, threads do its work, and it is said why.

use std::thread;

use heliostat_types::{Extent, OpKind};

use super::bench::{Bench, Scratch, open_path};
use crate::{IoChoice, LegOutcome};

#[test]
fn a_process_that_may_not_use_io_uring_uses_threads() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    // The filter lasts as long as its thread.
    let backend = thread::spawn(move || {
        forbid_io_uring();
        let mut bench = Bench::new(open_path(&path), IoChoice::Auto);
        let extent = Extent::new(4096, 8192);
        for kind in [OpKind::Write, OpKind::Read] {
            assert_eq!(bench.run(kind, extent), LegOutcome::Done);
        }
        bench.hub.backend().to_owned()
    });
    let backend = backend.join().unwrap();
    assert!(
        backend.starts_with("threads: io_uring is forbidden here"),
        "{backend}"
    );
}

/// Makes `io_uring_setup` fail with EPERM for this thread and those that it begins, as containers
/// do.
fn forbid_io_uring() {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt,
        jf,
        k,
    };
    let setup = u32::try_from(libc::SYS_io_uring_setup).unwrap();
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    let mut steps = [
        // The number of the call is the first word of what a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, setup),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: u16::try_from(steps.len()).unwrap(),
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: takes plain numbers, and only ever takes rights away.
    let bound = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(bound, 0);
    // SAFETY: the filter is a whole program that lives until the call has copied it.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) };
    assert_eq!(set, 0);
}
