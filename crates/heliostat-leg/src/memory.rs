//! A leg in memory: zeros at the start, gone with the process. Every operation is done at once.

use std::io;
use std::ptr;

use heliostat_types::{ErrorKind, Extent, OpKind, StatusRun};
use rustix::mm::{Advice, madvise};

use crate::api::{LegIo, LegOutcome};
use crate::arena::Arena;
use crate::mapping::{Mapping, Pages};

/// From this length on zeroing gives whole pages back to the kernel instead of writing them. A
/// page given back costs a fault when it is next written, about as much as writing zeros to it; a
/// long range would hold up the loop while it is written.
const GIVE_BACK_MIN_BYTES: usize = 128 << 10;

/// The page size that ranges given back are rounded to. A kernel with larger pages refuses, and
/// the bytes are written instead.
const PAGE_BYTES: usize = 4096;

/// The bytes of one leg.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    mapping: Mapping,
}

impl MemoryStore {
    /// `size_bytes` zeros that take memory only once written.
    pub(crate) fn new(size_bytes: u64) -> io::Result<Self> {
        let len_bytes = usize::try_from(size_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            mapping: Mapping::new(len_bytes, Pages::OnDemand)?,
        })
    }

    /// Fills `bytes` from `offset_bytes` on.
    pub(crate) fn read_at(&self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read(self.index(offset_bytes, bytes.len())?, bytes);
        Ok(())
    }

    /// Stores `bytes` from `offset_bytes` on.
    pub(crate) fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(self.index(offset_bytes, bytes.len())?, bytes);
        Ok(())
    }

    fn index(&self, offset_bytes: u64, len_bytes: usize) -> io::Result<usize> {
        u64::try_from(len_bytes)
            .ok()
            .and_then(|len| Extent::checked_new(offset_bytes, len))
            .and_then(|extent| self.place(extent))
            .map(|(offset, _)| offset)
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Carries out an operation.
    pub(crate) fn perform(&self, arena: &Arena, io: &LegIo) -> LegOutcome {
        let Some((offset, len)) = self.place(io.extent) else {
            return LegOutcome::Failed(ErrorKind::InvalidInput);
        };
        match (io.kind, &io.memory) {
            (OpKind::Read | OpKind::Write, Some(memory)) => {
                let mut at = offset;
                for &range in memory.ranges() {
                    if io.kind == OpKind::Read {
                        self.read(at, arena.slice_mut(range));
                    } else {
                        self.write(at, arena.slice(range));
                    }
                    at += range.len_bytes;
                }
            }
            (OpKind::Trim | OpKind::WriteZeroes, _) => self.zero(offset, len),
            (OpKind::Flush, _) => {}
            (OpKind::BlockStatus, _) => {
                return LegOutcome::Status(vec![StatusRun {
                    len_bytes: io.extent.len(),
                    hole: false,
                    zero: false,
                }]);
            }
            (OpKind::Read | OpKind::Write, None) => {
                return LegOutcome::Failed(ErrorKind::InvalidInput);
            }
        }
        LegOutcome::Done
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        let source = self.mapping.address(offset, bytes.len()).as_ptr();
        // SAFETY: the source has that many bytes; a slice elsewhere cannot overlap the mapping, of
        // which no reference is ever made; the store is not `Sync`, so nobody writes meanwhile.
        unsafe { ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len()) };
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        let destination = self.mapping.address(offset, bytes.len()).as_ptr();
        // SAFETY: as in `read`, with the directions changed.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), destination, bytes.len()) };
    }

    /// Makes `len` bytes from `offset` on zero.
    fn zero(&self, offset: usize, len: usize) {
        let first_page = offset.next_multiple_of(PAGE_BYTES);
        let end_page = (offset + len) / PAGE_BYTES * PAGE_BYTES;
        let worth_it = first_page < end_page && end_page - first_page >= GIVE_BACK_MIN_BYTES;
        if worth_it && self.give_back(first_page, end_page - first_page).is_ok() {
            self.fill_zeros(offset, first_page - offset);
            self.fill_zeros(end_page, offset + len - end_page);
        } else {
            self.fill_zeros(offset, len);
        }
    }

    fn fill_zeros(&self, offset: usize, len: usize) {
        let start = self.mapping.address(offset, len).as_ptr();
        // SAFETY: the address is followed by that many bytes, of which no reference is ever made.
        unsafe { ptr::write_bytes(start, 0, len) };
    }

    /// Gives whole pages back to the kernel; they read as zeros afterwards.
    fn give_back(&self, offset: usize, len: usize) -> io::Result<()> {
        let start = self.mapping.address(offset, len).as_ptr();
        // SAFETY: private anonymous pages of our own mapping become zeros, which is what is
        // wanted.
        unsafe { madvise(start.cast(), len, Advice::LinuxDontNeed) }?;
        Ok(())
    }

    /// An extent as a place in memory, where it lies inside.
    fn place(&self, extent: Extent) -> Option<(usize, usize)> {
        let end = usize::try_from(extent.end()).ok()?;
        let offset = usize::try_from(extent.offset()).ok()?;
        (end <= self.mapping.len()).then(|| (offset, end - offset))
    }
}
