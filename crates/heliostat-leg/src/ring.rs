//! Files and block devices through io_uring: one ring for all legs of an array.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use heliostat_types::{LEGS_MAX, LegId, LegOpId, LegSet, OpKind};
use io_uring::{EnterFlags, IoUring, Probe, cqueue, opcode, squeue, types};
use rustix::io::Errno;

use crate::api::{LegDone, LegIo, LegOutcome};
use crate::arena::{Arena, ArenaRange, LegMemory};
use crate::file::{LegFile, zero_flags};
use crate::progress::{Progress, Step};
use crate::workers::WORKERS_PER_LEG_MAX;

/// Entries of the submission queue: what one turn of a busy loop hands in. More than that in one
/// turn costs another call to the kernel.
const SUBMISSION_ENTRIES: u32 = 256;

/// Entries of the completion queue: sixteen legs with 128 operations each, twice, since an
/// overflow makes the kernel allocate.
const COMPLETION_ENTRIES: u32 = 4096;

/// The largest region of memory that the kernel registers as one buffer.
const REGISTERED_BUFFER_MAX_BYTES: usize = 1 << 30;

/// In place of a file that is registered.
const NO_FILE: i32 = -1;

/// Where the arena is registered, where it is.
const ARENA_SLOT: u16 = 0;

/// From this length on a transfer through the page cache is left to a thread of the kernel: it is
/// a copy that would hold up the loop for longer than handing it over costs.
const ASYNC_COPY_MIN_BYTES: usize = 128 << 10;

/// One ring, its files, and what is in flight in it.
pub(crate) struct Ring {
    ring: IoUring,
    /// The kernel could not take what is in the queue.
    stalled: bool,
    arena: Arc<Arena>,
    arena_registered: bool,
    /// By index of the leg; legs that are no file have none.
    files: Vec<Option<RingFile>>,
    flights: Flights,
    /// What the kernel has not been told of.
    pending: Vec<u32>,
    /// Makes it not `Sync`: looking into the queues is for one thread.
    not_shared: PhantomData<Cell<()>>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("files", &self.files)
            .field("flights", &self.flights)
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

/// A file, and where the kernel has it registered.
#[derive(Debug)]
struct RingFile {
    file: Arc<LegFile>,
    slot: types::Fixed,
}

impl RingFile {
    fn new(leg: usize, file: Arc<LegFile>) -> Self {
        let slot = u32::try_from(leg).expect("there are few legs");
        Self {
            file,
            slot: types::Fixed(slot),
        }
    }
}

/// One operation that has not ended.
#[derive(Debug)]
struct Flight {
    leg: LegId,
    op: LegOpId,
    kind: OpKind,
    progress: Progress,
    /// Where the kernel finds the ranges of memory that is not in one row. Only what builds the
    /// entry changes them, and the kernel reads them at the latest when it takes that; still they
    /// stay as long as the operation.
    vectors: Vec<Vector>,
}

/// One range of memory, as the kernel's `struct iovec` has it, but without a pointer that would
/// tie the ring to a thread.
#[derive(Debug)]
#[repr(C)]
struct Vector {
    address: usize,
    len_bytes: usize,
}

const _: () = assert!(
    size_of::<Vector>() == size_of::<libc::iovec>()
        && mem::offset_of!(Vector, address) == mem::offset_of!(libc::iovec, iov_base)
        && mem::offset_of!(Vector, len_bytes) == mem::offset_of!(libc::iovec, iov_len)
);

impl Ring {
    /// A ring for these files, each the leg of its index.
    ///
    /// # Errors
    /// Where the kernel refuses io_uring or lacks an operation that is needed.
    pub(crate) fn new(files: &[Option<Arc<LegFile>>], arena: Arc<Arena>) -> io::Result<Self> {
        let ring = build()?;
        check_operations(&ring)?;
        allow_workers(&ring);
        // A place for each leg there may be: one that comes later takes the place of its index.
        let mut descriptors = [NO_FILE; LEGS_MAX];
        for (place, file) in descriptors.iter_mut().zip(files) {
            *place = file.as_ref().map_or(NO_FILE, |file| file.fd().as_raw_fd());
        }
        ring.submitter().register_files(&descriptors)?;
        let files = (0..LEGS_MAX).map(|index| {
            let file = files.get(index)?.as_ref()?;
            Some(RingFile::new(index, Arc::clone(file)))
        });
        let files = files.collect();
        let arena_registered = register_arena(&ring, &arena);
        Ok(Self {
            ring,
            stalled: false,
            arena,
            arena_registered,
            files,
            flights: Flights::default(),
            pending: Vec::new(),
            not_shared: PhantomData,
        })
    }

    /// From now on this is the file of the leg; it had none, or nothing of it is in flight.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub(crate) fn attach(&mut self, leg: LegId, file: Arc<LegFile>) -> io::Result<()> {
        assert!(
            !self.flights.has(leg),
            "nothing is in flight at a leg that gets another file"
        );
        let place = u32::try_from(leg.index()).expect("there are few legs");
        let descriptor = file.fd().as_raw_fd();
        self.ring
            .submitter()
            .register_files_update(place, &[descriptor])?;
        self.files[leg.index()] = Some(RingFile::new(leg.index(), file));
        Ok(())
    }

    /// From now on the leg is no file, and its file is not held open.
    ///
    /// # Errors
    /// Where the kernel refuses that.
    pub(crate) fn detach(&mut self, leg: LegId) -> io::Result<()> {
        assert!(
            !self.flights.has(leg),
            "nothing is in flight at a leg that goes"
        );
        let place = u32::try_from(leg.index()).expect("there are few legs");
        if self.files[leg.index()].take().is_some() {
            self.ring
                .submitter()
                .register_files_update(place, &[NO_FILE])?;
        }
        Ok(())
    }

    /// Readable while there may be completions.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open for as long as the ring lives, which `self` borrows.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Whether [`Ring::reap`] would find or do something; asks the kernel nothing.
    pub(crate) fn has_ready(&self) -> bool {
        // SAFETY: this is the only submission queue while it lives: a ring is not `Sync`, and all
        // others are made by methods that borrow it mutably.
        let submissions = unsafe { self.ring.submission_shared() };
        // SAFETY: the same, for completion queues.
        let completions = unsafe { self.ring.completion_shared() };
        self.stalled
            || !completions.is_empty()
            || submissions.taskrun()
            || submissions.cq_overflow()
    }

    /// Hands in an operation for the next [`Ring::kick`]; `done` gets it where it fails at once.
    pub(crate) fn submit(&mut self, leg: LegId, io: &LegIo, done: &mut Vec<LegDone>) {
        let file = &self.file(leg).file;
        match Progress::new(io, file.abilities) {
            Ok(progress) => {
                let key = self.flights.insert(Flight {
                    leg,
                    op: io.op,
                    kind: io.kind,
                    progress,
                    vectors: Vec::new(),
                });
                self.pending.push(key);
            }
            Err(kind) => done.push(LegDone {
                leg,
                op: io.op,
                outcome: LegOutcome::Failed(kind),
            }),
        }
    }

    /// Tells the kernel of all that waits, in one call where that fits.
    pub(crate) fn kick(&mut self, done: &mut Vec<LegDone>) {
        if self.pending.is_empty() {
            return;
        }
        let mut sizes = SizesSeen::default();
        let mut begun = 0;
        while let Some(&key) = self.pending.get(begun) {
            if self.has_shrunk(key, &mut sizes) {
                self.end(key, LegOutcome::Short, done);
                begun += 1;
            } else if self.push(key) {
                begun += 1;
            } else if !self.enter() {
                break;
            }
        }
        self.pending.drain(..begun);
        self.enter();
    }

    /// Appends what has ended to `done`.
    pub(crate) fn reap(&mut self, done: &mut Vec<LegDone>) {
        let submissions = self.ring.submission();
        let kernel_waits = submissions.taskrun() || submissions.cq_overflow();
        drop(submissions);
        if kernel_waits || self.stalled {
            self.enter();
        }
        while let Some(completion) = self.next_completion() {
            let key = u32::try_from(completion.user_data()).expect("keys are ours");
            let result = usize::try_from(completion.result())
                .map_err(|_| Errno::from_raw_os_error(-completion.result()));
            let flight = self.flights.flight_mut(key);
            let file = &self.files[flight.leg.index()]
                .as_ref()
                .expect("an operation in flight is on a file")
                .file;
            match flight.progress.advance(result, || file.is_whole_as_known()) {
                Some(outcome) => self.end(key, outcome, done),
                None => self.pending.push(key),
            }
        }
        self.kick(done);
    }

    fn next_completion(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    fn end(&mut self, key: u32, outcome: LegOutcome, done: &mut Vec<LegDone>) {
        let flight = self.flights.remove(key);
        done.push(LegDone {
            leg: flight.leg,
            op: flight.op,
            outcome,
        });
    }

    fn file(&self, leg: LegId) -> &RingFile {
        self.files[leg.index()]
            .as_ref()
            .expect("only operations on files come here")
    }

    /// Whether a change would fall on a file that became smaller: it would grow again, with zeros
    /// where data was. Looked at once per turn and file.
    fn has_shrunk(&self, key: u32, sizes: &mut SizesSeen) -> bool {
        let flight = self.flights.flight(key);
        let file = &self.file(flight.leg).file;
        if !flight.kind.is_mutating() || !file.grows_when_written() {
            return false;
        }
        if !sizes.looked_at.contains(flight.leg) {
            sizes.looked_at.insert(flight.leg);
            if !file.is_whole_as_known() {
                sizes.shrunk.insert(flight.leg);
            }
        }
        sizes.shrunk.contains(flight.leg)
    }

    /// Puts the next call of an operation into the queue; false where that is full.
    fn push(&mut self, key: u32) -> bool {
        self.set_vectors(key);
        let entry = self.entry(key);
        // SAFETY: memory in the entry lies in the arena, which `self` keeps alive and `drop`
        // leaks while anything is in flight; by the arena's rule nobody else touches the ranges
        // before the completion is reaped. A list of ranges stays with its flight. The file is
        // registered, so the kernel holds it by itself.
        unsafe { self.ring.submission().push(&entry) }.is_ok()
    }

    /// Lists the ranges of memory that does not lie in a row.
    fn set_vectors(&mut self, key: u32) {
        let flight = self.flights.flight_mut(key);
        let (Step::Read { memory, .. } | Step::Write { memory, .. }) = flight.progress.step()
        else {
            return;
        };
        if let LegMemory::Many(ranges) = memory {
            let vectors = ranges.iter().map(|&range| Vector {
                address: self.arena.address(range).expose_provenance(),
                len_bytes: range.len_bytes,
            });
            flight.vectors = vectors.collect();
        }
    }

    fn entry(&self, key: u32) -> squeue::Entry {
        let flight = self.flights.flight(key);
        let RingFile { file, slot } = self.file(flight.leg);
        let entry = match flight.progress.step() {
            Step::Read {
                offset_bytes,
                memory,
            } => {
                let entry = self.read_entry(flight, *slot, offset_bytes, memory);
                entry.flags(transfer_flags(file, memory))
            }
            Step::Write {
                offset_bytes,
                memory,
                durable,
            } => {
                let rw_flags = if durable { libc::RWF_DSYNC } else { 0 };
                let entry = self.write_entry(flight, *slot, (offset_bytes, rw_flags), memory);
                entry.flags(transfer_flags(file, memory))
            }
            Step::Sync => opcode::Fsync::new(*slot)
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
            Step::Zero {
                offset_bytes,
                len_bytes,
                punch,
            } => opcode::Fallocate::new(*slot, len_bytes)
                .offset(offset_bytes)
                .mode(zero_flags(punch).bits().cast_signed())
                .build(),
        };
        entry.user_data(u64::from(key))
    }

    fn read_entry(
        &self,
        flight: &Flight,
        slot: types::Fixed,
        offset_bytes: u64,
        memory: &LegMemory,
    ) -> squeue::Entry {
        let LegMemory::One(range) = memory else {
            let (vectors, count) = flight.vectors();
            let read = opcode::Readv::new(slot, vectors, count);
            return read.offset(offset_bytes).build();
        };
        let (address, len) = self.place(*range);
        if self.arena_registered {
            let read = opcode::ReadFixed::new(slot, address, len, ARENA_SLOT);
            read.offset(offset_bytes).build()
        } else {
            let read = opcode::Read::new(slot, address, len);
            read.offset(offset_bytes).build()
        }
    }

    fn write_entry(
        &self,
        flight: &Flight,
        slot: types::Fixed,
        (offset_bytes, rw_flags): (u64, i32),
        memory: &LegMemory,
    ) -> squeue::Entry {
        let LegMemory::One(range) = memory else {
            let (vectors, count) = flight.vectors();
            let write = opcode::Writev::new(slot, vectors, count);
            return write.offset(offset_bytes).rw_flags(rw_flags).build();
        };
        let (address, len) = self.place(*range);
        if self.arena_registered {
            let write = opcode::WriteFixed::new(slot, address, len, ARENA_SLOT);
            write.offset(offset_bytes).rw_flags(rw_flags).build()
        } else {
            let write = opcode::Write::new(slot, address, len);
            write.offset(offset_bytes).rw_flags(rw_flags).build()
        }
    }

    /// Address and length of a range of the arena, as the kernel wants them.
    fn place(&self, memory: ArenaRange) -> (*mut u8, u32) {
        let len = u32::try_from(memory.len_bytes).expect("requests are far below 4 GiB");
        (self.arena.address(memory), len)
    }

    /// Hands the queue to the kernel and lets it post completions; false where it can take nothing
    /// now, and [`Ring::reap`] is to try again.
    fn enter(&mut self) -> bool {
        loop {
            let queued = self.ring.submission().len();
            let queued = u32::try_from(queued).expect("the queue is short");
            let flags = EnterFlags::GETEVENTS.bits();
            let submitter = self.ring.submitter();
            // SAFETY: no argument is passed, and nothing is waited for.
            let entered = unsafe { submitter.enter::<()>(queued, 0, flags, None) };
            match entered.map_err(|error| Errno::from_io_error(&error)) {
                Ok(_) => {
                    self.stalled = !self.ring.submission().is_empty();
                    return !self.stalled;
                }
                Err(Some(Errno::INTR)) => {}
                Err(Some(Errno::AGAIN | Errno::BUSY)) => {
                    self.stalled = true;
                    return false;
                }
                Err(errno) => panic!("io_uring_enter with what was set up: {errno:?}"),
            }
        }
    }
}

impl Flight {
    /// The list of ranges as the kernel wants it.
    fn vectors(&self) -> (*const libc::iovec, u32) {
        let count = u32::try_from(self.vectors.len()).expect("few operations are done as one");
        (self.vectors.as_ptr().cast(), count)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A ring is taken down behind our back some time later, and until then it would hold the
        // files open that whoever comes next wants for itself.
        let _closed_later = self.ring.submitter().unregister_files();
        if !self.flights.is_empty() {
            // The kernel may write to it at any later time: it is never given back.
            mem::forget(Arc::clone(&self.arena));
        }
    }
}

/// Which files' sizes were looked at in this turn, and which of them were too small.
#[derive(Clone, Copy, Debug, Default)]
struct SizesSeen {
    looked_at: LegSet,
    shrunk: LegSet,
}

/// The operations in flight, by the key that the kernel echoes.
#[derive(Debug, Default)]
struct Flights {
    slots: Vec<Option<Flight>>,
    free: Vec<u32>,
}

impl Flights {
    fn insert(&mut self, flight: Flight) -> u32 {
        if let Some(key) = self.free.pop() {
            self.slots[key as usize] = Some(flight);
            return key;
        }
        let key = u32::try_from(self.slots.len()).expect("few operations are in flight");
        self.slots.push(Some(flight));
        key
    }

    fn remove(&mut self, key: u32) -> Flight {
        self.free.push(key);
        self.slots[key as usize]
            .take()
            .expect("an operation ends once")
    }

    fn flight(&self, key: u32) -> &Flight {
        self.slots[key as usize]
            .as_ref()
            .expect("a key lives as long as its operation")
    }

    fn flight_mut(&mut self, key: u32) -> &mut Flight {
        self.slots[key as usize]
            .as_mut()
            .expect("a key lives as long as its operation")
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Whether something is in flight at a leg.
    fn has(&self, leg: LegId) -> bool {
        self.slots.iter().flatten().any(|flight| flight.leg == leg)
    }
}

/// A ring that does not interrupt us to say that something has ended (Linux 5.19), or a plain
/// one.
///
/// Completions that are only posted on demand (DEFER_TASKRUN) are no choice: they do not wake
/// whoever polls the ring's descriptor, as the loop does.
fn build() -> io::Result<IoUring> {
    let cooperative = IoUring::builder()
        .setup_cqsize(COMPLETION_ENTRIES)
        .setup_submit_all()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .build(SUBMISSION_ENTRIES);
    match cooperative {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => IoUring::builder()
            .setup_cqsize(COMPLETION_ENTRIES)
            .build(SUBMISSION_ENTRIES),
        result => result,
    }
}

/// Lets the kernel have as many threads as we would for what it cannot do without waiting. By
/// default it has four for each processor, whom one leg that hangs could keep from all others.
/// Before Linux 5.15 that is how it stays.
fn allow_workers(ring: &IoUring) {
    let bounded = u32::try_from(LEGS_MAX * WORKERS_PER_LEG_MAX).expect("there are few legs");
    // Zero: as it is.
    let _older_kernel = ring
        .submitter()
        .register_iowq_max_workers(&mut [bounded, 0]);
}

/// Refuses a kernel whose io_uring is too old.
fn check_operations(ring: &IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::ReadFixed::CODE,
        opcode::WriteFixed::CODE,
        opcode::Readv::CODE,
        opcode::Writev::CODE,
        opcode::Fsync::CODE,
        opcode::Fallocate::CODE,
    ];
    if needed.into_iter().all(|code| probe.is_supported(code)) {
        Ok(())
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Lets the kernel keep the arena's pages at hand, where it may be locked into memory: saves
/// looking them up for each operation.
fn register_arena(ring: &IoUring, arena: &Arena) -> bool {
    if arena.is_empty() || arena.len() > REGISTERED_BUFFER_MAX_BYTES {
        return false;
    }
    let whole = ArenaRange {
        offset_bytes: 0,
        len_bytes: arena.len(),
    };
    let buffer = libc::iovec {
        iov_base: arena.address(whole).cast(),
        iov_len: arena.len(),
    };
    // SAFETY: the kernel holds the pages by itself, and uses them only for operations that name
    // them, which the ring's rules cover.
    unsafe { ring.submitter().register_buffers(&[buffer]) }.is_ok()
}

/// Who makes a transfer: the caller of the kernel, or a thread of the kernel.
fn transfer_flags(file: &LegFile, memory: &LegMemory) -> squeue::Flags {
    let is_long_copy = !file.direct && memory.len_bytes() >= ASYNC_COPY_MIN_BYTES;
    if is_long_copy || !file.takes_at_once {
        squeue::Flags::ASYNC
    } else {
        squeue::Flags::empty()
    }
}
