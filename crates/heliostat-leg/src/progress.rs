//! How far one operation on a file or block device has come: which call to the kernel is next, and
//! what its result means. Makes no call itself, so that io_uring and threads mean the same.

use heliostat_types::{ErrorKind, Extent, OpKind, SECTOR_BYTES};
use rustix::io::Errno;

use crate::api::{LegIo, LegOutcome};
use crate::arena::LegMemory;

/// How often a call may be made again after an interruption or a partial transfer. Kernels
/// continue by themselves where they can; what is still incomplete after this is broken.
const REPEATS_MAX: u8 = 4;

/// What a file or device can do besides reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Give up storage so that it reads zeros.
    pub(crate) punches_holes: bool,
    /// Write zeros that keep their storage.
    pub(crate) zeroes_ranges: bool,
}

/// One call to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// Fill memory from the leg.
    Read {
        /// From where.
        offset_bytes: u64,
        /// To where.
        memory: &'a LegMemory,
    },
    /// Store memory on the leg.
    Write {
        /// To where.
        offset_bytes: u64,
        /// From where.
        memory: &'a LegMemory,
        /// End only when it is durable.
        durable: bool,
    },
    /// Make everything durable.
    Sync,
    /// Make zeros without sending them.
    Zero {
        /// From where.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
        /// Give up the storage.
        punch: bool,
    },
}

/// How far an operation has come.
#[derive(Debug)]
pub(crate) struct Progress {
    kind: OpKind,
    extent: Extent,
    fua: bool,
    stage: Stage,
    repeats_left: u8,
}

/// What is being done.
#[derive(Debug)]
enum Stage {
    /// Bytes are moved; these are left.
    Transfer { extent: Extent, memory: LegMemory },
    /// Zeros are made.
    Zero { punch: bool },
    /// Everything is made durable.
    Sync,
}

impl Progress {
    /// An operation of which nothing is done yet; an error where the leg cannot do it at all.
    ///
    /// # Panics
    /// For block status, which is no single call: `LegFile::perform` answers that.
    pub(crate) fn new(io: &LegIo, abilities: Abilities) -> Result<Self, ErrorKind> {
        let stage = match io.kind {
            OpKind::Read | OpKind::Write => {
                let memory = io.memory.clone().ok_or(ErrorKind::InvalidInput)?;
                if u64::try_from(memory.len_bytes()) != Ok(io.extent.len()) {
                    return Err(ErrorKind::InvalidInput);
                }
                Stage::Transfer {
                    extent: io.extent,
                    memory,
                }
            }
            OpKind::Flush => Stage::Sync,
            OpKind::Trim if abilities.punches_holes => Stage::Zero { punch: true },
            OpKind::WriteZeroes if io.may_trim && abilities.punches_holes => {
                Stage::Zero { punch: true }
            }
            OpKind::WriteZeroes if abilities.zeroes_ranges => Stage::Zero { punch: false },
            OpKind::Trim | OpKind::WriteZeroes => return Err(ErrorKind::NotSupported),
            OpKind::BlockStatus => unreachable!("block status is answered elsewhere"),
        };
        Ok(Self {
            kind: io.kind,
            extent: io.extent,
            fua: io.fua,
            stage,
            repeats_left: REPEATS_MAX,
        })
    }

    /// The call to make now.
    pub(crate) fn step(&self) -> Step<'_> {
        match &self.stage {
            Stage::Sync => Step::Sync,
            Stage::Zero { punch } => Step::Zero {
                offset_bytes: self.extent.offset(),
                len_bytes: self.extent.len(),
                punch: *punch,
            },
            Stage::Transfer { extent, memory } if self.kind == OpKind::Read => Step::Read {
                offset_bytes: extent.offset(),
                memory,
            },
            Stage::Transfer { extent, memory } => Step::Write {
                offset_bytes: extent.offset(),
                memory,
                durable: self.fua,
            },
        }
    }

    /// Takes the result of the call: bytes moved, or an error. The outcome where that was the last
    /// one, `None` where [`Progress::step`] is to be made next. `is_whole` asks whether the leg is
    /// still as large as it was; it is asked only where that matters.
    pub(crate) fn advance(
        &mut self,
        result: Result<usize, Errno>,
        is_whole: impl FnOnce() -> bool,
    ) -> Option<LegOutcome> {
        let moved_bytes = match result {
            Ok(moved_bytes) => moved_bytes,
            Err(Errno::INTR | Errno::AGAIN) if self.repeats_left > 0 => {
                self.repeats_left -= 1;
                return None;
            }
            Err(_) if !is_whole() => return Some(LegOutcome::Short),
            Err(errno) => return Some(self.failed(errno)),
        };
        match &self.stage {
            Stage::Transfer { .. } => self.on_transfer(moved_bytes, is_whole),
            Stage::Zero { .. } if self.fua => {
                self.stage = Stage::Sync;
                None
            }
            Stage::Zero { .. } => Some(LegOutcome::Done),
            Stage::Sync if is_whole() => Some(LegOutcome::Done),
            Stage::Sync => Some(LegOutcome::Short),
        }
    }

    /// What it means that the kernel refuses a call. Zeros that were made and cannot be synced are
    /// not just zeros that failed, to be made in another way: what was answered before them may be
    /// gone, and the kernel says so once.
    fn failed(&self, errno: Errno) -> LegOutcome {
        let kind = ErrorKind::from_errno(errno.raw_os_error());
        let is_sync = matches!(self.stage, Stage::Sync);
        if is_sync && self.kind != OpKind::Flush && kind != ErrorKind::NotSupported {
            return LegOutcome::Lost;
        }
        LegOutcome::Failed(kind)
    }

    fn on_transfer(
        &mut self,
        moved_bytes: usize,
        is_whole: impl FnOnce() -> bool,
    ) -> Option<LegOutcome> {
        let Stage::Transfer { extent, memory } = &mut self.stage else {
            unreachable!("bytes are being moved");
        };
        let len_bytes = memory.len_bytes();
        if moved_bytes >= len_bytes {
            return Some(LegOutcome::Done);
        }
        // Nothing moved is the end of a file; a part that is no whole sector ends where the file
        // does, and could not be continued with direct I/O.
        let moved = u64::try_from(moved_bytes).expect("lengths in memory fit 64 bits");
        let may_continue =
            moved > 0 && moved.is_multiple_of(SECTOR_BYTES) && self.repeats_left > 0 && is_whole();
        if !may_continue {
            return Some(LegOutcome::Short);
        }
        self.repeats_left -= 1;
        *extent = extent.split_at(moved).1;
        *memory = memory.part(moved_bytes, len_bytes - moved_bytes);
        None
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{ErrorKind, Extent, LegOpId, OpKind};
    use rustix::io::Errno;

    use super::{Abilities, Progress, REPEATS_MAX, Step};
    use crate::api::{LegIo, LegOutcome};
    use crate::arena::{ArenaRange, LegMemory};

    const ABLE: Abilities = Abilities {
        punches_holes: true,
        zeroes_ranges: true,
    };

    fn row(offset_bytes: usize, len_bytes: usize) -> LegMemory {
        LegMemory::One(ArenaRange {
            offset_bytes,
            len_bytes,
        })
    }

    fn io(kind: OpKind) -> LegIo {
        LegIo {
            op: LegOpId(1),
            kind,
            extent: Extent::new(8192, 4096),
            memory: Some(row(512, 4096)),
            fua: false,
            may_trim: false,
            failfast: false,
        }
    }

    #[test]
    fn a_partial_transfer_is_continued_where_it_stopped() {
        let mut read = Progress::new(&io(OpKind::Read), ABLE).unwrap();
        assert_eq!(read.advance(Ok(1024), || true), None);
        let rest = Step::Read {
            offset_bytes: 9216,
            memory: &row(1536, 3072),
        };
        assert_eq!(read.step(), rest);
        assert_eq!(
            read.advance(Ok(3072), || unreachable!()),
            Some(LegOutcome::Done)
        );
    }

    #[test]
    fn a_partial_transfer_goes_on_in_the_range_where_it_stopped() {
        let ranges = [row(0, 1024), row(8192, 2048), row(4096, 1024)];
        let rows =
            |rows: &[LegMemory]| LegMemory::Many(rows.iter().map(|row| row.ranges()[0]).collect());
        let write = LegIo {
            memory: Some(rows(&ranges)),
            ..io(OpKind::Write)
        };
        let mut write = Progress::new(&write, ABLE).unwrap();
        for (moved_bytes, left, offset_bytes) in [
            (
                512,
                rows(&[row(512, 512), row(8192, 2048), row(4096, 1024)]),
                8704,
            ),
            (512, rows(&[row(8192, 2048), row(4096, 1024)]), 9216),
            (2560, row(4608, 512), 11776),
        ] {
            assert_eq!(write.advance(Ok(moved_bytes), || true), None);
            let rest = Step::Write {
                offset_bytes,
                memory: &left,
                durable: false,
            };
            assert_eq!(write.step(), rest);
        }
        let ended = write.advance(Ok(512), || unreachable!());
        assert_eq!(ended, Some(LegOutcome::Done));
    }

    #[test]
    fn a_leg_that_ends_early_is_short() {
        for (moved_bytes, whole) in [(0, true), (100, true), (1024, false)] {
            let mut read = Progress::new(&io(OpKind::Read), ABLE).unwrap();
            assert_eq!(
                read.advance(Ok(moved_bytes), || whole),
                Some(LegOutcome::Short)
            );
        }
        let mut flush = Progress::new(&io(OpKind::Flush), ABLE).unwrap();
        assert_eq!(flush.advance(Ok(0), || false), Some(LegOutcome::Short));
        let mut write = Progress::new(&io(OpKind::Write), ABLE).unwrap();
        let full = Err(Errno::NOSPC);
        assert_eq!(write.advance(full, || false), Some(LegOutcome::Short));
    }

    #[test]
    fn interruptions_end_some_time() {
        let mut write = Progress::new(&io(OpKind::Write), ABLE).unwrap();
        for _ in 0..REPEATS_MAX {
            assert_eq!(write.advance(Err(Errno::INTR), || true), None);
        }
        let ended = write.advance(Err(Errno::INTR), || true);
        assert_eq!(ended, Some(LegOutcome::Failed(ErrorKind::Io)));
    }

    #[test]
    fn durable_zeros_are_synced_and_durable_writes_say_so() {
        let fua = LegIo {
            fua: true,
            ..io(OpKind::WriteZeroes)
        };
        let mut zeroes = Progress::new(&fua, ABLE).unwrap();
        assert!(matches!(zeroes.step(), Step::Zero { punch: false, .. }));
        assert_eq!(zeroes.advance(Ok(0), || true), None);
        assert_eq!(zeroes.step(), Step::Sync);
        assert_eq!(zeroes.advance(Ok(0), || true), Some(LegOutcome::Done));

        let write = LegIo {
            fua: true,
            ..io(OpKind::Write)
        };
        let write = Progress::new(&write, ABLE).unwrap();
        assert!(matches!(write.step(), Step::Write { durable: true, .. }));
    }

    #[test]
    fn a_leg_that_cannot_sync_zeros_may_have_lost_more_than_these() {
        let fua = LegIo {
            fua: true,
            ..io(OpKind::WriteZeroes)
        };
        let mut zeroes = Progress::new(&fua, ABLE).unwrap();
        assert_eq!(zeroes.advance(Ok(0), || true), None);
        let ended = zeroes.advance(Err(Errno::IO), || true);
        assert_eq!(ended, Some(LegOutcome::Lost));
        // Whoever asked for a flush knows what it means.
        let mut flush = Progress::new(&io(OpKind::Flush), ABLE).unwrap();
        let ended = flush.advance(Err(Errno::IO), || true);
        assert_eq!(ended, Some(LegOutcome::Failed(ErrorKind::Io)));
        // Zeros that were not made have cost nothing.
        let mut zeroes = Progress::new(&fua, ABLE).unwrap();
        let ended = zeroes.advance(Err(Errno::IO), || true);
        assert_eq!(ended, Some(LegOutcome::Failed(ErrorKind::Io)));
    }

    #[test]
    fn zeros_take_the_form_that_is_allowed_and_there() {
        let form = |kind, may_trim, punches_holes, zeroes_ranges| {
            let abilities = Abilities {
                punches_holes,
                zeroes_ranges,
            };
            let io = LegIo {
                may_trim,
                ..io(kind)
            };
            let progress = Progress::new(&io, abilities)?;
            let Step::Zero { punch, .. } = progress.step() else {
                panic!("zeros are made");
            };
            Ok(punch)
        };
        let punch = |form| form == Ok(true);
        let keep = |form| form == Ok(false);
        assert!(punch(form(OpKind::WriteZeroes, true, true, true)));
        assert!(keep(form(OpKind::WriteZeroes, false, true, true)));
        assert!(keep(form(OpKind::WriteZeroes, true, false, true)));
        assert!(punch(form(OpKind::Trim, false, true, false)));
        for refused in [
            form(OpKind::WriteZeroes, false, true, false),
            form(OpKind::Trim, true, false, true),
        ] {
            assert_eq!(refused, Err(ErrorKind::NotSupported));
        }
    }
}
