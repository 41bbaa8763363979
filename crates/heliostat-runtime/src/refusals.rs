//! What was written to control files and refused, for the log: whoever writes gets a number and no
//! reason. One line a second at most, whoever writes however fast.

use std::time::{Duration, Instant};

/// How long after a line there is none.
const SILENCE: Duration = Duration::from_secs(1);

/// A line has no more characters of anybody's text.
const CHARS_MAX: usize = 200;

/// When something was told last, and how much was not since.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    told: Option<Instant>,
    untold: u64,
}

impl Refusals {
    /// The line for what was refused `now`, where there is to be one.
    pub(crate) fn line(
        &mut self,
        now: Instant,
        file: &str,
        text: &str,
        why: &str,
    ) -> Option<String> {
        if self.told.is_some_and(|told| now - told < SILENCE) {
            self.untold += 1;
            return None;
        }
        self.told = Some(now);
        let others = match std::mem::take(&mut self.untold) {
            0 => String::new(),
            untold => format!(" ({untold} more were refused before)"),
        };
        let (text, why) = (plain(text.trim_end()), plain(why));
        Some(format!(
            "'{text}' written to {file} was refused: {why}{others}"
        ))
    }
}

/// The beginning of a text, without what a terminal would take for an order.
fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '?' } else { c };
    let mut short: String = text.chars().take(CHARS_MAX).map(plain).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Refusals;

    #[test]
    fn one_line_a_second_says_how_many_there_were() {
        let mut refusals = Refusals::default();
        let began = Instant::now();
        let mut at = |ms, text: &str| {
            refusals.line(began + Duration::from_millis(ms), "read_policy", text, "no")
        };
        let first = "'a?[2J' written to read_policy was refused: no";
        assert_eq!(at(0, "a\u{1b}[2J\n").as_deref(), Some(first));
        assert_eq!(at(1, "b"), None);
        assert_eq!(at(999, "b"), None);
        let next = "'c' written to read_policy was refused: no (2 more were refused before)";
        assert_eq!(at(1000, "c").as_deref(), Some(next));
        let long = at(2000, &"x".repeat(4096)).unwrap();
        assert!(long.len() < 300 && long.contains("xxx...'"), "{long}");
    }
}
