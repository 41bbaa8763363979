//! Where buffers lie. Stub of the public surface.

use std::ops::Range;

use heliostat_types::Extent;

/// One buffer of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub(crate) u32);

/// A run of bytes inside one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSlice {
    /// Which buffer.
    pub buffer: BufferId,
    /// From where in it.
    pub offset_bytes: u32,
    /// How many bytes.
    pub len_bytes: u32,
}

/// What `Engine::alloc_write` hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBuffer {
    /// To be named in the request, or released.
    pub buffer: BufferId,
    /// Where the client's bytes go: exactly as many as the extent has.
    pub data: BufferSlice,
}

/// A step on the arena's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferStep {
    /// Copy bytes; the two never overlap and are equally long.
    Copy {
        /// From here.
        from: BufferSlice,
        /// To here.
        to: BufferSlice,
    },
    /// Make bytes zero.
    Zero {
        /// These.
        at: BufferSlice,
    },
}

/// The arena's bytes: a mapping in the runtime, a vector in the simulator. Offsets are from the
/// arena's start.
pub trait Memory {
    /// Copies bytes from `from` on to `to` on; the two ranges never overlap.
    fn copy(&mut self, from: usize, to: usize, len: usize);
    /// Makes bytes zero.
    fn zero(&mut self, at: usize, len: usize);
}

/// Which buffers there are and where in the arena each lies. The engine owns it.
#[derive(Debug)]
pub struct BufferTable {}

impl BufferTable {
    /// Where in the arena a slice lies.
    #[must_use]
    pub fn resolve(&self, _slice: BufferSlice) -> Range<usize> {
        todo!("engine")
    }

    /// Carries out a step.
    pub fn execute(&self, _step: BufferStep, _memory: &mut dyn Memory) {
        todo!("engine")
    }

    /// How many bytes of the arena are handed out.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        todo!("engine")
    }
}

/// What a write of `extent` needs.
pub(crate) fn _plan(_extent: Extent) {}
