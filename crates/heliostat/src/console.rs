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

/// A word as a shell takes it for one.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn a_shell_reads_one_word() {
        assert_eq!(shell_word("/run/a-b_1.d"), "/run/a-b_1.d");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("two words"), "'two words'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }
}
