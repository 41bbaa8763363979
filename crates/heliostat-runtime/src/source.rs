//! Whom a ready descriptor belongs to, as the 64 bits that the kernel keeps with it.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Legs have completed something.
    Legs,
    /// A record became durable, or could not be written.
    State,
    /// Somebody wants to know or change something.
    Commands,
    /// The daemon is to stop.
    Signals,
    /// A descriptor of an export.
    Export {
        /// Which export.
        index: usize,
        /// What it calls the descriptor.
        token: u32,
    },
}

/// From this number on the high half says which export.
const FIRST_EXPORT: u64 = 4;

impl Source {
    /// As a number.
    pub(crate) const fn to_key(self) -> u64 {
        match self {
            Self::Legs => 0,
            Self::State => 1 << 32,
            Self::Commands => 2 << 32,
            Self::Signals => 3 << 32,
            Self::Export { index, token } => (FIRST_EXPORT + index as u64) << 32 | token as u64,
        }
    }

    /// Back from a number.
    pub(crate) fn from_key(key: u64) -> Self {
        match key >> 32 {
            0 => Self::Legs,
            1 => Self::State,
            2 => Self::Commands,
            3 => Self::Signals,
            high => Self::Export {
                index: usize::try_from(high - FIRST_EXPORT).expect("32 bits"),
                token: u32::try_from(key & u64::from(u32::MAX)).expect("masked"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn keys_round_trip() {
        let export = |index, token| Source::Export { index, token };
        for source in [
            Source::Legs,
            Source::State,
            Source::Commands,
            Source::Signals,
            export(0, 0),
            export(255, u32::MAX),
        ] {
            assert_eq!(Source::from_key(source.to_key()), source);
        }
    }
}
