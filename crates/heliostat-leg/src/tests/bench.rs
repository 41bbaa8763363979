//! What the tests stand on: files that go away by themselves, loop devices where there are any,
//! and a hub that is driven to the end of what was submitted.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use heliostat_types::{Extent, Instant, LegId, LegOpId, OpKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    Arena, ArenaRange, IoChoice, LegDone, LegError, LegHub, LegIo, LegOutcome, LegSpec, OpenedLeg,
};

/// How long a test waits for the kernel before it gives up: only ever waited for in full when a
/// test fails.
const PATIENCE: Timespec = Timespec {
    tv_sec: 30,
    tv_nsec: 0,
};

/// A directory of one test.
#[derive(Debug)]
pub(crate) struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// A directory that no other test has, below `parent`.
    pub(crate) fn below(parent: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("heliostat-leg-{}-{number}", process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    pub(crate) fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A sparse file.
    pub(crate) fn file(&self, name: &str, size_bytes: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(size_bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone_already = fs::remove_dir_all(&self.dir);
    }
}

/// A loop device on a file.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
}

impl LoopDevice {
    /// One with blocks of this size, or `None`, said aloud, where this user can have none.
    pub(crate) fn attach(backing: &Path, block_bytes: u32) -> Option<Self> {
        let attached = Command::new("losetup")
            .args(["--find", "--show", "--sector-size"])
            .arg(block_bytes.to_string())
            .arg(backing)
            .output();
        match attached {
            Ok(output) if output.status.success() => Some(Self {
                path: PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()),
            }),
            _ => {
                println!("skipped: no loop device can be had (needs root and losetup)");
                None
            }
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _detached = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

pub(crate) fn open(text: &str) -> OpenedLeg {
    let spec = LegSpec::parse(text).unwrap();
    // What this process had open before is closed by the threads that used it.
    for _ in 0..50 {
        match spec.open() {
            Err(LegError::InUse { .. }) => std::thread::sleep(Duration::from_millis(20)),
            opened => return opened.unwrap(),
        }
    }
    spec.open().unwrap()
}

pub(crate) fn open_path(path: &Path) -> OpenedLeg {
    open(path.to_str().unwrap())
}

/// Legs in a hub.
#[derive(Debug)]
pub(crate) struct Bench {
    /// Where operations go.
    pub(crate) leg: LegId,
    pub(crate) hub: LegHub,
    pub(crate) arena: Arc<Arena>,
    pub(crate) now: Instant,
    next_op: u64,
}

impl Bench {
    pub(crate) fn new(leg: OpenedLeg, choice: IoChoice) -> Self {
        Self::of(vec![leg], choice)
    }

    pub(crate) fn of(legs: Vec<OpenedLeg>, choice: IoChoice) -> Self {
        let arena = Arena::new(ARENA_BYTES).unwrap();
        Self {
            leg: LegId::new(0),
            hub: LegHub::new(legs, Arc::clone(&arena), choice).unwrap(),
            arena,
            now: Instant::from_ns(1_000_000),
            next_op: 0,
        }
    }

    /// Hands an operation in, with memory at `at` where it moves bytes.
    pub(crate) fn submit(&mut self, kind: OpKind, extent: Extent, at: usize) -> LegOpId {
        self.submit_with(kind, extent, at, |_| {})
    }

    pub(crate) fn submit_with(
        &mut self,
        kind: OpKind,
        extent: Extent,
        at: usize,
        change: impl FnOnce(&mut LegIo),
    ) -> LegOpId {
        let mut io = self.io(kind, extent, at);
        change(&mut io);
        let op = io.op;
        self.hub.submit(self.now, self.leg, io);
        op
    }

    /// Hands in what is to be done as one: extents, each with where its memory begins.
    pub(crate) fn submit_joined(
        &mut self,
        kind: OpKind,
        parts: &[(Extent, usize)],
        change: impl Fn(&mut LegIo),
    ) -> Vec<(LegOpId, Extent, usize)> {
        let ios: Vec<LegIo> = parts
            .iter()
            .map(|&(extent, at)| {
                let mut io = self.io(kind, extent, at);
                change(&mut io);
                io
            })
            .collect();
        self.hub.submit_joined(self.now, self.leg, &ios);
        let ops = ios.iter().map(|io| io.op);
        ops.zip(parts)
            .map(|(op, &(extent, at))| (op, extent, at))
            .collect()
    }

    fn io(&mut self, kind: OpKind, extent: Extent, at: usize) -> LegIo {
        let op = LegOpId(self.next_op);
        self.next_op += 1;
        let moves = matches!(kind, OpKind::Read | OpKind::Write);
        LegIo {
            op,
            kind,
            extent,
            memory: moves.then(|| range(at, extent).into()),
            fua: false,
            may_trim: true,
            failfast: false,
        }
    }

    /// Drives the hub until everything submitted has ended.
    pub(crate) fn finish(&mut self) -> Vec<LegDone> {
        let mut done = Vec::new();
        self.hub.kick();
        loop {
            self.hub.reap(self.now, &mut done);
            if self.hub.outstanding() == 0 {
                return done;
            }
            if let Some(at) = self.hub.next_deadline() {
                self.now = self.now.max(at);
            } else if !self.hub.has_ready() {
                self.wait();
            }
        }
    }

    /// Waits until one of the hub's descriptors is readable.
    pub(crate) fn wait(&self) {
        let descriptors = self.hub.fds();
        let mut watched: Vec<_> = descriptors
            .iter()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        let ready = loop {
            match poll(&mut watched, Some(&PATIENCE)) {
                Err(rustix::io::Errno::INTR) => {}
                result => break result.unwrap(),
            }
        };
        assert!(ready > 0, "something ends: {:?}", self.hub);
    }

    /// One operation from beginning to end.
    pub(crate) fn run(&mut self, kind: OpKind, extent: Extent) -> LegOutcome {
        self.submit(kind, extent, 0);
        self.only_outcome()
    }

    pub(crate) fn only_outcome(&mut self) -> LegOutcome {
        let mut done = self.finish();
        assert_eq!(done.len(), 1);
        done.pop().unwrap().outcome
    }
}

pub(crate) const ARENA_BYTES: usize = 16 << 20;

/// As many bytes of the arena as the extent has, from `at` on.
pub(crate) fn range(at: usize, extent: Extent) -> ArenaRange {
    ArenaRange {
        offset_bytes: at,
        len_bytes: usize::try_from(extent.len()).unwrap(),
    }
}
