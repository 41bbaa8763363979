//! What can go wrong, and the one table from our kinds of error to errno, which is also what NBD
//! sends.

use std::fmt;

use crate::{Extent, LegId, OpKind};

/// Why an operation failed, as far as it matters to who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The device could not do it (EIO), answered short, or was silent for too long.
    Io,
    /// There is no room for the data.
    NoSpace,
    /// The device cannot do this kind of operation, or not fast.
    NotSupported,
    /// The request itself makes no sense: beyond the end, unaligned where that is refused.
    InvalidInput,
    /// The request asks for more at once than is allowed.
    TooLarge,
    /// There is no memory for it, and waiting would not help.
    NoMemory,
    /// The array may not be written.
    ReadOnly,
    /// The array is stopping.
    Shutdown,
}

impl ErrorKind {
    /// All kinds, for tables and tests.
    pub const ALL: [Self; 8] = [
        Self::Io,
        Self::NoSpace,
        Self::NotSupported,
        Self::InvalidInput,
        Self::TooLarge,
        Self::NoMemory,
        Self::ReadOnly,
        Self::Shutdown,
    ];

    /// The errno value of Linux for it. NBD's error values are the same numbers (NBD proto.md,
    /// "Error values").
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::Io => 5,
            Self::NoSpace => 28,
            Self::NotSupported => 95,
            Self::InvalidInput => 22,
            Self::TooLarge => 75,
            Self::NoMemory => 12,
            Self::ReadOnly => 1,
            Self::Shutdown => 108,
        }
    }

    /// The kind that an errno value of Linux means; what is not listed is [`ErrorKind::Io`].
    #[must_use]
    pub const fn from_errno(errno: i32) -> Self {
        match errno {
            // ENOSPC, EDQUOT, EFBIG.
            28 | 122 | 27 => Self::NoSpace,
            // EOPNOTSUPP, ENOSYS, ENOTTY.
            95 | 38 | 25 => Self::NotSupported,
            22 => Self::InvalidInput,
            75 => Self::TooLarge,
            12 => Self::NoMemory,
            // EPERM, EROFS, EBADF: not open for writing.
            1 | 30 | 9 => Self::ReadOnly,
            108 => Self::Shutdown,
            _ => Self::Io,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io => "input/output error",
            Self::NoSpace => "no space left",
            Self::NotSupported => "operation not supported",
            Self::InvalidInput => "invalid request",
            Self::TooLarge => "request too large",
            Self::NoMemory => "out of memory",
            Self::ReadOnly => "read-only",
            Self::Shutdown => "shutting down",
        })
    }
}

/// What went wrong, where, doing what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockError {
    /// Why.
    pub kind: ErrorKind,
    /// On which leg, where it was one leg's doing.
    pub leg: Option<LegId>,
    /// Doing what.
    pub op: OpKind,
    /// To which bytes.
    pub extent: Extent,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.op.name(), self.extent)?;
        if let Some(leg) = self.leg {
            write!(f, " on {leg}")?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl std::error::Error for BlockError {}

#[cfg(test)]
mod tests {
    use super::ErrorKind;

    #[test]
    fn errno_round_trips() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_errno(kind.errno()), kind);
        }
        assert_eq!(ErrorKind::from_errno(110), ErrorKind::Io);
    }
}
