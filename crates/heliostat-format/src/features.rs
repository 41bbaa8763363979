//! The bits of a superblock: what it uses, and what is said of its leg.

use std::fmt;

/// What a superblock uses (`feature_map`): a reader that does not know one of them must not go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u32);

impl Features {
    /// There is an internal bitmap where `bitmap_offset` says.
    pub const BITMAP: Self = Self(1);
    /// The leg is good only below `recovery_offset`: it was being rebuilt.
    pub const RECOVERY_OFFSET: Self = Self(2);
    /// The array is being given another shape.
    pub const RESHAPE: Self = Self(4);
    /// The bad-block log is not empty.
    pub const BAD_BLOCKS: Self = Self(8);
    /// The leg is being made a replacement of another one, which has the same role.
    pub const REPLACEMENT: Self = Self(16);
    /// The reshape goes from the end to the start.
    pub const RESHAPE_BACKWARDS: Self = Self(32);
    /// The reshape moves where the data begins.
    pub const NEW_OFFSET: Self = Self(64);
    /// The leg is being brought up to date by the bitmap: of what is not below `recovery_offset`,
    /// it lacks only chunks whose bits are set.
    pub const RECOVERY_BITMAP: Self = Self(128);
    /// The array is shared by the nodes of a cluster.
    pub const CLUSTERED: Self = Self(256);
    /// A further device journals writes.
    pub const JOURNAL: Self = Self(512);
    /// There is a partial parity log where the bitmap would be.
    pub const PPL: Self = Self(1024);
    /// There are several partial parity logs.
    pub const MULTIPLE_PPLS: Self = Self(2048);
    /// `layout` says how RAID0 treats zones of unequal size.
    pub const RAID0_LAYOUT: Self = Self(4096);

    /// What is understood here.
    pub const SUPPORTED: Self = Self(
        Self::BITMAP.0
            | Self::RECOVERY_OFFSET.0
            | Self::BAD_BLOCKS.0
            | Self::REPLACEMENT.0
            | Self::RECOVERY_BITMAP.0,
    );

    /// Whether all of `others` are used.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// These, and `others`.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These, but none of `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether none is used.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The words for the bits, lowest first.
    const NAMES: [(Self, &'static str); 13] = [
        (Self::BITMAP, "bitmap"),
        (Self::RECOVERY_OFFSET, "recovery offset"),
        (Self::RESHAPE, "reshape"),
        (Self::BAD_BLOCKS, "bad blocks"),
        (Self::REPLACEMENT, "replacement"),
        (Self::RESHAPE_BACKWARDS, "reshape backwards"),
        (Self::NEW_OFFSET, "new data offset"),
        (Self::RECOVERY_BITMAP, "recovery by bitmap"),
        (Self::CLUSTERED, "clustered"),
        (Self::JOURNAL, "journal"),
        (Self::PPL, "partial parity log"),
        (Self::MULTIPLE_PPLS, "several partial parity logs"),
        (Self::RAID0_LAYOUT, "RAID0 layout"),
    ];
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let mut left = *self;
        let mut separator = "";
        for (feature, name) in Self::NAMES {
            if left.contains(feature) {
                write!(f, "{separator}{name}")?;
                separator = ", ";
                left = left.without(feature);
            }
        }
        if !left.is_empty() {
            write!(f, "{separator}unknown bits {:#x}", left.0)?;
        }
        Ok(())
    }
}

/// What is said of a leg by whoever made the array (`devflags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFlags(pub u8);

impl DeviceFlags {
    /// The leg is read only if nothing else is left.
    pub const WRITE_MOSTLY: Self = Self(1);
    /// The leg should rather fail quickly than try for long.
    pub const FAIL_FAST: Self = Self(2);

    /// Whether all of `others` are said.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// These, and `others`.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These, but none of `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

impl fmt::Display for DeviceFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::WRITE_MOSTLY, "write-mostly"),
            (Self::FAIL_FAST, "failfast"),
        ];
        let mut left = self.0;
        let mut separator = "";
        for (flag, name) in names {
            if self.contains(flag) {
                write!(f, "{separator}{name}")?;
                separator = " ";
                left &= !flag.0;
            }
        }
        match left {
            0 if self.0 == 0 => f.write_str("none"),
            0 => Ok(()),
            _ => write!(f, "{separator}unknown bits {left:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceFlags, Features};

    #[test]
    fn features_are_told_in_words() {
        assert_eq!(Features(0).to_string(), "none");
        assert_eq!(Features(1 | 8).to_string(), "bitmap, bad blocks");
        let strange = Features(512 | 1 << 13 | 1 << 31);
        assert_eq!(strange.to_string(), "journal, unknown bits 0x80002000");
        assert_eq!(Features::SUPPORTED.0, 1 | 2 | 8 | 16 | 128);
        let without = Features(9).without(Features::BITMAP);
        assert_eq!(without, Features::BAD_BLOCKS);
        assert!(!Features(9).contains(Features(3)));
        assert_eq!(Features(1).with(Features(8)), Features(9));
    }

    #[test]
    fn flags_are_told_in_words() {
        assert_eq!(DeviceFlags(0).to_string(), "none");
        assert_eq!(DeviceFlags(3).to_string(), "write-mostly failfast");
        assert_eq!(DeviceFlags(6).to_string(), "failfast unknown bits 0x4");
        let both = DeviceFlags::WRITE_MOSTLY.with(DeviceFlags::FAIL_FAST);
        assert!(both.contains(DeviceFlags::FAIL_FAST));
    }
}
