//! How far background work is, on one line of a terminal.

use std::io::{self, IsTerminal as _, Write as _};

use stdx::units::format_size;

use crate::status::WorkStatus;

/// The bar between its brackets is at most and at least so long.
const BAR_COLUMNS: (usize, usize) = (30, 6);

/// Where the terminal does not say how wide it is.
const COLUMNS_DEFAULT: usize = 80;

/// A line of standard error that is written anew again and again. Nothing is shown where that is
/// not a terminal.
#[derive(Debug)]
pub struct ProgressLine {
    is_terminal: bool,
    /// What stands there.
    shown: Option<String>,
}

impl Default for ProgressLine {
    fn default() -> Self {
        Self::new()
    }
}

impl ProgressLine {
    /// Nothing is shown yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            shown: None,
        }
    }

    /// Whether somebody may see it.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Shows this instead of what was shown.
    pub fn show(&mut self, name: &str, work: &WorkStatus) {
        if self.is_terminal {
            let text = progress_line(name, work, columns());
            write(&format!("\r\x1b[K{text}"));
            self.shown = Some(text);
        }
    }

    /// Shows nothing any more.
    pub fn clear(&mut self) {
        if self.shown.take().is_some() {
            write("\r\x1b[K");
        }
    }

    /// Writes a line above it.
    pub fn line(&self, text: &str) {
        match &self.shown {
            Some(shown) => write(&format!("\r\x1b[K{text}\n{shown}")),
            None => write(&format!("{text}\n")),
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    // There is nowhere to say that standard error is gone.
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

/// How wide the terminal is.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 {
        COLUMNS_DEFAULT
    } else {
        columns
    }
}

/// How far it is, in less than so many columns.
fn progress_line(name: &str, work: &WorkStatus, columns: usize) -> String {
    let percent = work.percent();
    let mut behind = format!("{percent:3} %, {}/s", format_size(work.bytes_per_s));
    if work.paused {
        behind += ", paused";
    } else if let Some(left) = work.time_left() {
        behind += &format!(", {left} left");
    }
    if work.mismatch_sectors > 0 {
        behind += &format!(", {} sectors differ", work.mismatch_sectors);
    }
    let front = format!("{name}: {}", work.kind);
    // Two blanks and the brackets; the last column stays free, where some terminals begin a line.
    let room = columns.saturating_sub(front.len() + behind.len() + 5);
    let text = if room < BAR_COLUMNS.1 {
        format!("{front} {behind}")
    } else {
        let bar = room.min(BAR_COLUMNS.0);
        let full = bar * usize::try_from(percent).expect("at most 100") / 100;
        let (done, rest) = ("=".repeat(full), " ".repeat(bar - full));
        format!("{front} [{done}{rest}] {behind}")
    };
    text.chars().take(columns.saturating_sub(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::progress_line;
    use crate::status::WorkStatus;

    #[test]
    fn it_fits_in_the_terminal() {
        let mut work = WorkStatus {
            kind: "rebuild".to_owned(),
            paused: false,
            done_bytes: 3 << 30,
            total_bytes: 8 << 30,
            bytes_per_s: 120 << 20,
            mismatch_sectors: 0,
            written_bytes: 0,
            time_left_ns: Some(3_723_000_000_000),
        };
        assert_eq!(
            progress_line("disk", &work, 80),
            "disk: rebuild [===========                   ]  37 %, 120 MiB/s, 01:02:03 left"
        );
        work.paused = true;
        work.mismatch_sectors = 16;
        for columns in 1..100 {
            let line = progress_line("disk", &work, columns);
            assert!(line.len() < columns, "{line}");
        }
        assert_eq!(
            progress_line("disk", &work, 62),
            "disk: rebuild  37 %, 120 MiB/s, paused, 16 sectors differ"
        );
    }
}
