//! What is said on standard error while something is done that takes no time to speak of.

use std::io::{Write as _, stderr};

use heliostat_runtime::Progress;

/// Lines on standard error.
pub(crate) struct Lines;

impl Progress for Lines {
    fn note(&mut self, line: &str) {
        // Whoever closed standard error does not want to know.
        let _ = writeln!(stderr(), "{line}");
    }

    fn copied(&mut self, _done_bytes: u64, _total_bytes: u64) -> bool {
        true
    }
}
