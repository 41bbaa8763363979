//! The memory that all buffers lie in. Stub of the public surface.

/// A range of the arena: offset and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaRange {
    /// From where.
    pub offset_bytes: usize,
    /// How many.
    pub len_bytes: usize,
}
