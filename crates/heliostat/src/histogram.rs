//! The fifteen buckets of milliseconds, for people.

use std::io::{IsTerminal as _, stdout};

use heliostat_types::Duration;
use ratatui::crossterm::terminal;

/// How long a bar is at most.
const BAR_COLUMNS: u16 = 50;
/// What stands in front of it.
const HEAD_COLUMNS: u16 = 26;
/// Shorter bars say nothing.
const BAR_COLUMNS_MIN: u16 = 8;

/// How long bars may be on standard output: none where that is no terminal, or a narrow one.
pub(crate) fn bar_columns() -> u16 {
    let width = if stdout().is_terminal() {
        terminal::size().map_or(80, |(width, _)| width)
    } else {
        0
    };
    bar_columns_of(width)
}

fn bar_columns_of(width: u16) -> u16 {
    match width.saturating_sub(HEAD_COLUMNS).min(BAR_COLUMNS) {
        ..BAR_COLUMNS_MIN => 0,
        columns => columns,
    }
}

/// What is below which bound, with the exact maximum; with bars of up to so many columns.
pub(crate) fn histogram(
    name: &str,
    buckets: &[u64; 15],
    max: Duration,
    bar_columns: u16,
) -> String {
    let count: u64 = buckets.iter().sum();
    let most = buckets.iter().copied().max().unwrap_or(0);
    let mut text = match count {
        0 => format!("{name}: none\n"),
        _ => format!("{name}: {count}, the longest took {max}\n"),
    };
    for (index, &bucket) in buckets.iter().enumerate() {
        let bound = match index {
            14 => ">=65536 ms".to_owned(),
            _ => format!("<{} ms", 8u64 << index),
        };
        text += &format!("{bound:>11} {bucket:>12}");
        if bar_columns > 0 && bucket > 0 {
            text += &format!("  {}", bar(bucket, most, bar_columns));
        }
        text.push('\n');
    }
    text
}

/// A bar in eighths of a column, so that the smallest bucket that has any is seen.
fn bar(bucket: u64, most: u64, columns: u16) -> String {
    const EIGHTHS: [&str; 8] = [
        "", "\u{258f}", "\u{258e}", "\u{258d}", "\u{258c}", "\u{258b}", "\u{258a}", "\u{2589}",
    ];
    let eighths = u128::from(bucket) * u128::from(columns) * 8 / u128::from(most.max(1));
    let eighths = usize::try_from(eighths.max(1)).expect("a few hundred");
    "\u{2588}".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use heliostat_types::Duration;

    use super::{bar, bar_columns_of, histogram};

    #[test]
    fn buckets_have_their_upper_bounds() {
        let mut buckets = [0; 15];
        (buckets[0], buckets[8], buckets[14]) = (3, 1_000, 1);
        let max = Duration::from_ms(70_000);
        let text = histogram("writes", &buckets, max, 0);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 16);
        assert_eq!(lines[0], format!("writes: 1004, the longest took {max}"));
        assert_eq!(lines[1], "      <8 ms            3");
        assert_eq!(lines[9], "   <2048 ms         1000");
        assert_eq!(lines[15], " >=65536 ms            1");
        let empty = histogram("reads", &[0; 15], Duration::ZERO, 50);
        assert!(empty.starts_with("reads: none\n"), "{empty}");
        assert_eq!(empty.lines().nth(15), Some(" >=65536 ms            0"));
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(10, 10, 50).chars().count(), 50);
        assert_eq!(bar(5, 10, 50).chars().count(), 25);
        assert_eq!(bar(1, 1_000_000, 50).chars().count(), 1);
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        for width in 0..200 {
            let columns = bar_columns_of(width);
            let text = histogram("reads", &[1; 15], Duration::ZERO, columns);
            let bars = text.lines().skip(1).map(|line| line.chars().count());
            let longest = bars.max().unwrap_or(0);
            let head = usize::from(super::HEAD_COLUMNS);
            assert!(
                longest <= usize::from(width).max(head),
                "{longest} of {width}"
            );
            assert_eq!(columns > 0, width >= 34, "{width}");
        }
    }
}
