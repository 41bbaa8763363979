//! Why a leg cannot be had. Messages say what, where, and what to do about it.

use std::io;

/// Why a leg cannot be opened, read at setup, or served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LegError {
    /// The text names no leg.
    #[error("'{text}' names no leg: {problem}")]
    Spec {
        /// What was written.
        text: String,
        /// What is wrong with it and what is expected instead.
        problem: String,
    },
    /// What the text names exists, or does not, and cannot be a leg as it is.
    #[error("{leg} cannot be a leg: {problem}; {way_out}")]
    Unfit {
        /// The leg as it was written.
        leg: String,
        /// Why not.
        problem: String,
        /// What to do.
        way_out: String,
    },
    /// Somebody else uses it.
    #[error("{leg} is in use: {user}; {way_out}")]
    InUse {
        /// The leg as it was written.
        leg: String,
        /// Who, in a form that can be looked for.
        user: String,
        /// What to do.
        way_out: String,
    },
    /// The kernel refused something on a leg.
    #[error("cannot {doing} {leg}: {source}")]
    Io {
        /// The leg as it was written.
        leg: String,
        /// What was tried, as a verb.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused something that all legs need.
    #[error("cannot {doing}: {source}")]
    Setup {
        /// What was tried, as a verb and its object.
        doing: String,
        /// What the kernel said.
        source: io::Error,
    },
}
