//! Anonymous memory from the kernel: zeroed, page aligned, given back when dropped.

use std::io;
use std::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A mapping that this process alone has.
///
/// It hands out addresses, not references: who may touch which bytes when is for its owner to say.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the memory belongs to the process, not to a thread, and the mapping is its only owner.
unsafe impl Send for Mapping {}

/// Whether pages are had at once or when first touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// All at once: nothing waits for memory later.
    AtOnce,
    /// When they are first written; the kernel does not promise that there will be any.
    OnDemand,
}

impl Mapping {
    /// `len_bytes` zeros.
    pub(crate) fn new(len_bytes: usize, pages: Pages) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE
            | match pages {
                Pages::AtOnce => MapFlags::empty(),
                Pages::OnDemand => MapFlags::NORESERVE,
            };
        // SAFETY: with no address asked for, the kernel picks one that nothing else uses.
        let start = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                len_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        }?;
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at zero");
        let mut mapping = Self { start, len_bytes };
        if pages == Pages::AtOnce {
            mapping.populate()?;
        }
        Ok(mapping)
    }

    /// Has the kernel find all pages now; huge ones where it has them, which takes it a fraction of
    /// the time.
    fn populate(&mut self) -> io::Result<()> {
        let start = self.start.as_ptr().cast();
        let len_bytes = self.len_bytes;
        // SAFETY: the range is this mapping, and advice changes no byte of it.
        let advise = |advice| unsafe { madvise(start, len_bytes, advice) };
        // Not every kernel has them; without them it is slower and the same.
        let _ = advise(Advice::LinuxHugepage);
        match advise(Advice::LinuxPopulateWrite) {
            // A kernel before 5.14 does not know this.
            Err(Errno::INVAL) => {
                self.touch();
                Ok(())
            }
            result => Ok(result?),
        }
    }

    /// Writes a zero into every page, before anybody else knows of the mapping.
    fn touch(&mut self) {
        for byte in self.bytes_mut().iter_mut().step_by(4096) {
            *byte = 0;
        }
    }

    /// How many bytes there are.
    pub(crate) const fn len(&self) -> usize {
        self.len_bytes
    }

    /// The address of `len_bytes` bytes from `offset_bytes` on.
    ///
    /// # Panics
    /// Where they do not lie inside the mapping.
    pub(crate) fn address(&self, offset_bytes: usize, len_bytes: usize) -> NonNull<u8> {
        let inside = offset_bytes
            .checked_add(len_bytes)
            .is_some_and(|end| end <= self.len_bytes);
        assert!(
            inside,
            "{len_bytes} bytes at {offset_bytes} lie in a mapping of {}",
            self.len_bytes
        );
        // SAFETY: the offset was just checked to lie inside the mapping, or at its end.
        unsafe { self.start.add(offset_bytes) }
    }

    /// All bytes, for an owner who gave out no address.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has that many bytes, and `self` is borrowed for as long as the slice
        // lives; who was given an address by `address` must not use it meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len_bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is what `new` mapped, and whoever was given an address out of it must
        // keep the mapping alive for as long as it is used.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len_bytes) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::{Mapping, Pages};

    #[test]
    fn pages_can_be_had_by_touching_them() {
        let mut mapping = Mapping::new(5 * 4096, Pages::OnDemand).unwrap();
        mapping.touch();
        assert!(mapping.bytes_mut().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_mapping_is_zeroed_and_aligned() {
        for pages in [Pages::AtOnce, Pages::OnDemand] {
            let mapping = Mapping::new(1 << 16, pages).unwrap();
            assert!(mapping.address(0, 0).as_ptr().addr().is_multiple_of(4096));
            // SAFETY: the bytes lie in a mapping that nothing else uses and that outlives the
            // slice.
            let bytes = unsafe {
                std::slice::from_raw_parts(mapping.address(0, 1 << 16).as_ptr(), 1 << 16)
            };
            assert!(bytes.iter().all(|&byte| byte == 0));
        }
    }
}
