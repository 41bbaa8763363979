//! An open file or block device, and the calls that block: what threads make instead of io_uring,
//! and what is only ever made by threads.

use std::io;
use std::iter;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use heliostat_types::{Extent, OpKind, StatusRun};
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, SeekFrom, StatxFlags, fallocate, fdatasync, open, seek,
    statx,
};
use rustix::io::{
    Errno, IoSlice, IoSliceMut, ReadWriteFlags, pread, preadv, pwrite, pwritev, pwritev2,
    retry_on_intr,
};

use crate::api::{LegIo, LegOutcome};
use crate::arena::Arena;
use crate::mapping::{Mapping, Pages};
use crate::progress::{Abilities, Progress, Step};

/// The most runs that one block-status operation answers with: a fragmented file would hold a
/// thread for long. What lies behind is said to be data, which is never wrong.
const STATUS_RUNS_MAX: usize = 1024;

/// How much is moved at once during setup: enough that a disk streams.
const WINDOW_BYTES: u64 = 1 << 20;

/// What lies behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A regular file.
    File,
    /// A block device.
    BlockDevice,
}

/// An open file or block device.
#[derive(Debug)]
pub(crate) struct LegFile {
    pub(crate) fd: OwnedFd,
    pub(crate) medium: Medium,
    /// How much of it is used: whole blocks.
    pub(crate) size_bytes: u64,
    /// What offsets and lengths are multiples of.
    pub(crate) block_bytes: u32,
    pub(crate) abilities: Abilities,
    /// Whether transfers go past the page cache.
    pub(crate) direct: bool,
    /// The file below a loop device.
    pub(crate) backing: Option<Backing>,
    /// Whether the kernel takes an operation without waiting for those before it. FUSE and network
    /// file systems wait where a server has enough to do, and that would hold up all legs.
    pub(crate) takes_at_once: bool,
}

/// The file below a loop device, watched because the device does not tell when it is cut: it keeps
/// its size, and a write makes the file long again, with zeros where data was.
#[derive(Debug)]
pub(crate) struct Backing {
    fd: OwnedFd,
    size_bytes: u64,
}

impl Backing {
    /// Finds the file; `None` where it cannot be seen from here.
    pub(crate) fn find(path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty()).ok()?;
        let size_bytes = file_size_bytes(&fd, AtFlags::empty()).ok()?;
        Some(Self { fd, size_bytes })
    }

    fn is_whole(&self, freshness: AtFlags) -> Result<bool, Errno> {
        Ok(file_size_bytes(&self.fd, freshness)? >= self.size_bytes)
    }
}

fn file_size_bytes(fd: &OwnedFd, freshness: AtFlags) -> Result<u64, Errno> {
    let flags = AtFlags::EMPTY_PATH | freshness;
    Ok(statx(fd, "", flags, StatxFlags::SIZE)?.stx_size)
}

impl LegFile {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether a write beyond the end would make it longer instead of failing: then its size is
    /// looked at before each batch of changes.
    pub(crate) fn grows_when_written(&self) -> bool {
        self.medium == Medium::File || self.backing.is_some()
    }

    /// Whether it is still as large as it was when it was opened, as the server says where one
    /// holds it. May block.
    ///
    /// # Errors
    /// Where that cannot be told.
    pub(crate) fn is_whole(&self) -> io::Result<bool> {
        Ok(self.is_whole_by(AtFlags::empty())?)
    }

    /// The same, and not whole where it cannot be told. May block.
    fn is_surely_whole(&self) -> bool {
        self.is_whole().is_ok_and(|is_whole| is_whole)
    }

    /// The same without asking a server, for the loop, which may not wait for one: a file on a
    /// network file system that was shortened elsewhere is then seen late, when this machine has
    /// learned its size for another reason. Not whole where it cannot be told.
    pub(crate) fn is_whole_as_known(&self) -> bool {
        self.is_whole_by(AtFlags::STATX_DONT_SYNC)
            .is_ok_and(|is_whole| is_whole)
    }

    fn is_whole_by(&self, freshness: AtFlags) -> Result<bool, Errno> {
        let end_bytes = match self.medium {
            Medium::File => file_size_bytes(&self.fd, freshness)?,
            Medium::BlockDevice => seek(&self.fd, SeekFrom::End(0))?,
        };
        let is_backed = match &self.backing {
            Some(backing) => backing.is_whole(freshness)?,
            None => true,
        };
        Ok(is_backed && end_bytes >= self.size_bytes)
    }

    /// An error where it has become smaller: setup must neither take what is missing for zeros nor
    /// make it grow again.
    pub(crate) fn expect_whole(&self) -> io::Result<()> {
        if self.is_whole()? {
            return Ok(());
        }
        let told = "it has become smaller since it was opened";
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, told))
    }

    /// Carries out an operation, however long it takes.
    pub(crate) fn perform(&self, arena: &Arena, io: &LegIo) -> LegOutcome {
        if io.kind == OpKind::BlockStatus {
            return self.status(io.extent);
        }
        if io.kind.is_mutating() && self.grows_when_written() && !self.is_surely_whole() {
            return LegOutcome::Short;
        }
        let mut progress = match Progress::new(io, self.abilities) {
            Ok(progress) => progress,
            Err(kind) => return LegOutcome::Failed(kind),
        };
        loop {
            let result = self.call(progress.step(), arena);
            if let Some(outcome) = progress.advance(result, || self.is_surely_whole()) {
                return outcome;
            }
        }
    }

    /// Makes one call to the kernel.
    fn call(&self, step: Step<'_>, arena: &Arena) -> Result<usize, Errno> {
        match step {
            Step::Read {
                offset_bytes,
                memory,
            } => {
                let ranges = memory.ranges().iter();
                let slices = ranges.map(|range| IoSliceMut::new(arena.slice_mut(*range)));
                preadv(&self.fd, &mut slices.collect::<Vec<_>>(), offset_bytes)
            }
            Step::Write {
                offset_bytes,
                memory,
                durable,
            } => {
                let ranges = memory.ranges().iter();
                let slices = ranges.map(|range| IoSlice::new(arena.slice(*range)));
                let slices: Vec<IoSlice<'_>> = slices.collect();
                if durable {
                    pwritev2(&self.fd, &slices, offset_bytes, ReadWriteFlags::DSYNC)
                } else {
                    pwritev(&self.fd, &slices, offset_bytes)
                }
            }
            Step::Sync => fdatasync(&self.fd).map(|()| 0),
            Step::Zero {
                offset_bytes,
                len_bytes,
                punch,
            } => fallocate(&self.fd, zero_flags(punch), offset_bytes, len_bytes).map(|()| 0),
        }
    }

    /// Fills `bytes` from `offset_bytes` on, at any alignment. For setup: it has its own memory,
    /// and fails where the file has become smaller, wherever that is.
    pub(crate) fn read_at(&self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let wanted = self.wanted(offset_bytes, bytes.len())?;
        let mut memory = self.window_memory(wanted)?;
        for window in self.windows(wanted) {
            let blocks = &mut memory.bytes_mut()[..place(window, window).len()];
            self.fill(window.offset(), blocks)?;
            let part = window
                .intersection(wanted)
                .expect("windows hold what is wanted");
            bytes[place(part, wanted)].copy_from_slice(&blocks[place(part, window)]);
        }
        self.expect_whole()
    }

    /// Stores `bytes` from `offset_bytes` on, at any alignment. For setup, as `read_at`; blocks
    /// that are changed in part are read first.
    pub(crate) fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let wanted = self.wanted(offset_bytes, bytes.len())?;
        let mut memory = self.window_memory(wanted)?;
        for window in self.windows(wanted) {
            let blocks = &mut memory.bytes_mut()[..place(window, window).len()];
            let part = window
                .intersection(wanted)
                .expect("windows hold what is wanted");
            if part != window {
                self.fill(window.offset(), blocks)?;
            }
            blocks[place(part, window)].copy_from_slice(&bytes[place(part, wanted)]);
            self.expect_whole()?;
            self.store(window.offset(), blocks)?;
        }
        Ok(())
    }

    fn wanted(&self, offset_bytes: u64, len_bytes: usize) -> io::Result<Extent> {
        u64::try_from(len_bytes)
            .ok()
            .and_then(|len| Extent::checked_new(offset_bytes, len))
            .filter(|extent| extent.end() <= self.size_bytes)
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Whole blocks that together hold `wanted`, none larger than the window.
    fn windows(&self, wanted: Extent) -> impl Iterator<Item = Extent> + use<> {
        let mut rest = wanted.aligned_out(u64::from(self.block_bytes));
        iter::from_fn(move || {
            let (window, after) = rest.split_at(rest.len().min(WINDOW_BYTES));
            rest = after;
            (!window.is_empty()).then_some(window)
        })
    }

    fn window_memory(&self, wanted: Extent) -> io::Result<Mapping> {
        let blocks = wanted.aligned_out(u64::from(self.block_bytes));
        let len = blocks.len().clamp(1, WINDOW_BYTES);
        Mapping::new(
            usize::try_from(len).expect("a window is small"),
            Pages::AtOnce,
        )
    }

    /// Fills `bytes` from `offset_bytes` on, aligned as the file wants it.
    pub(crate) fn fill(&self, mut offset_bytes: u64, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let moved = retry_on_intr(|| pread(&self.fd, &mut *bytes, offset_bytes))?;
            if moved == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            offset_bytes += u64::try_from(moved).expect("64 bits");
            bytes = &mut bytes[moved..];
        }
        Ok(())
    }

    /// Stores `bytes` from `offset_bytes` on, aligned as the file wants it.
    pub(crate) fn store(&self, mut offset_bytes: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let moved = retry_on_intr(|| pwrite(&self.fd, bytes, offset_bytes))?;
            if moved == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            offset_bytes += u64::try_from(moved).expect("64 bits");
            bytes = &bytes[moved..];
        }
        Ok(())
    }

    /// Makes `extent` zero, giving up its storage where `punch` says so.
    pub(crate) fn make_zeros(&self, extent: Extent, punch: bool) -> io::Result<()> {
        let (offset_bytes, len_bytes) = (extent.offset(), extent.len());
        retry_on_intr(|| fallocate(&self.fd, zero_flags(punch), offset_bytes, len_bytes))?;
        Ok(())
    }

    /// Makes everything durable. For setup.
    pub(crate) fn sync(&self) -> io::Result<()> {
        fdatasync(&self.fd)?;
        self.expect_whole()
    }

    /// The first run of data that ends after `at`, as `next_data` says, of a file that is whole.
    /// For setup.
    pub(crate) fn data_run(&self, at: u64, end: u64) -> io::Result<(u64, u64)> {
        let run = self.next_data(at, end);
        // Asked afterwards, so that an end that came nearer meanwhile is not taken for a hole.
        self.expect_whole()?;
        Ok(run)
    }

    /// Which parts of `extent` are holes.
    pub(crate) fn status(&self, extent: Extent) -> LegOutcome {
        let mut runs = Vec::new();
        let mut at = extent.offset();
        while at < extent.end() && runs.len() < STATUS_RUNS_MAX {
            let (data_start, data_end) = self.next_data(at, extent.end());
            push_run(&mut runs, data_start - at, true);
            push_run(&mut runs, data_end - data_start, false);
            at = data_end;
        }
        push_run(&mut runs, extent.end() - at, false);
        // Asked afterwards, so that an end that came nearer meanwhile is not taken for a hole.
        if self.is_surely_whole() {
            LegOutcome::Status(runs)
        } else {
            LegOutcome::Short
        }
    }

    /// The first run of data that ends after `at`, clipped to `end`; empty at `end` where there is
    /// none before it, and all of it where that cannot be told. What it says counts only if the
    /// file is whole afterwards.
    fn next_data(&self, at: u64, end: u64) -> (u64, u64) {
        if self.medium == Medium::BlockDevice {
            return (at, end);
        }
        let start = match seek(&self.fd, SeekFrom::Data(at)) {
            Ok(start) => start.clamp(at, end),
            Err(Errno::NXIO) => return (end, end),
            Err(_) => return (at, end),
        };
        let stop = match seek(&self.fd, SeekFrom::Hole(start)) {
            Ok(stop) if stop > start => stop.min(end),
            Ok(_) | Err(_) => end,
        };
        (start, stop)
    }
}

/// Where `part` lies in `whole`, which begins no later.
fn place(part: Extent, whole: Extent) -> Range<usize> {
    let index = |at: u64| usize::try_from(at - whole.offset()).expect("windows fit memory");
    index(part.offset())..index(part.end())
}

/// How `fallocate` is asked for zeros.
pub(crate) fn zero_flags(punch: bool) -> FallocateFlags {
    FallocateFlags::KEEP_SIZE
        | if punch {
            FallocateFlags::PUNCH_HOLE
        } else {
            FallocateFlags::ZERO_RANGE
        }
}

/// Adds a run, where it has any bytes.
fn push_run(runs: &mut Vec<StatusRun>, len_bytes: u64, hole: bool) {
    if len_bytes == 0 {
        return;
    }
    runs.push(StatusRun {
        len_bytes,
        hole,
        zero: hole,
    });
}
