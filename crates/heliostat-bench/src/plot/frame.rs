//! What plots of rows stand in: names at the left, a legend above, an axis below.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Hue, Mark};

/// Width of every plot, in user units of the SVG; pages scale it.
pub(super) const WIDTH: i32 = 860;
/// Room at the right for a number behind the longest bar.
pub(super) const RIGHT: i32 = 80;
/// Height of a row.
pub(super) const ROW: i32 = 20;
/// Room for names: at least that of the usual names of policies, at most half of the plot.
const LEFT_MIN: i32 = 200;
const LEFT_MAX: i32 = 430;
/// Room above the rows, for one line of a legend.
const TOP: i32 = 28;
/// Room below the rows, for numbers and the name of the axis.
const BOTTOM: i32 = 44;
/// About the width of a letter.
const LETTER: i32 = 7;
/// From a mark of a legend to its text, and from an entry to the next.
const MARK: i32 = 18;
const GAP: i32 = 16;

/// One entry of a legend.
pub(super) type Entry = (String, Mark, Hue);

/// Where things lie in a plot of rows.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    left: i32,
    rows: i32,
    names: Vec<String>,
    /// Entries and where they begin, line by line.
    legend: Vec<(i32, i32, Entry)>,
    legend_lines: i32,
}

impl Frame {
    /// A frame for rows with these names.
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>, legend: Vec<Entry>) -> Self {
        let letters = usize::try_from((LEFT_MAX - GAP) / LETTER).expect("above zero");
        let names: Vec<String> = names.map(|name| shortened(name, letters)).collect();
        let widest = names.iter().map(|name| width_of(name)).max();
        let left = (widest.unwrap_or(0) + GAP).clamp(LEFT_MIN, LEFT_MAX);
        let (mut x, mut line, mut placed) = (left, 0, Vec::new());
        for entry in legend {
            let width = MARK + width_of(&entry.0);
            if x > left && x + width > WIDTH {
                (x, line) = (left, line + 1);
            }
            placed.push((x, line, entry));
            x += width + GAP;
        }
        Self {
            left,
            rows: i32::try_from(names.len()).expect("a plot has few rows"),
            names,
            legend: placed,
            legend_lines: line + 1,
        }
    }

    /// Height of the whole plot.
    pub(super) const fn height(&self) -> i32 {
        self.row_top(self.rows) + BOTTOM
    }

    /// Where bars begin.
    pub(super) const fn left(&self) -> i32 {
        self.left
    }

    const fn top(&self) -> i32 {
        TOP + ROW * (self.legend_lines - 1)
    }

    const fn row_top(&self, index: i32) -> i32 {
        self.top() + ROW * index
    }

    /// The height at which row `index` has its middle.
    pub(super) fn row_middle(&self, index: usize) -> i32 {
        self.row_top(i32::try_from(index).expect("a plot has few rows")) + ROW / 2
    }

    /// Where `value` lies on `axis`.
    pub(super) fn x_of(&self, axis: Axis, value: f64) -> i32 {
        let span = f64::from(WIDTH - RIGHT - self.left);
        #[expect(clippy::cast_possible_truncation, reason = "a fraction of the width")]
        let offset = (axis.fraction(value) * span).round() as i32;
        self.left + offset
    }

    /// Draws grid lines with their values, the name of the axis with its unit, the names of the
    /// rows and the legend.
    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, axis: Axis, axis_name: &str) {
        let bottom = self.row_top(self.rows);
        for (value, text) in axis.ticks() {
            let x = self.x_of(axis, value);
            canvas.line((x, self.top()), (x, bottom), 0.18);
            canvas.text(&text, x, bottom + 12, Anchor::Middle);
        }
        let scale = if axis.is_logarithmic() {
            " (log scale)"
        } else {
            ""
        };
        let middle = i32::midpoint(self.left, WIDTH - RIGHT);
        let axis_name = format!("{axis_name}{scale}");
        canvas.text(&axis_name, middle, bottom + 32, Anchor::Middle);
        for (index, name) in self.names.iter().enumerate() {
            canvas.text(name, self.left - 8, self.row_middle(index), Anchor::End);
        }
        for (x, line, (name, mark, hue)) in &self.legend {
            let y = TOP / 2 + ROW * line;
            canvas.mark(*mark, x + 6, y, *hue);
            canvas.text(name, x + MARK, y, Anchor::Start);
        }
    }
}

/// About how wide a text is.
pub(super) fn width_of(text: &str) -> i32 {
    LETTER * i32::try_from(text.chars().count()).expect("a name is short")
}

/// `text` in at most `letters` letters, its end left out where it is longer.
pub(super) fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters.saturating_sub(3)).collect();
    format!("{kept}...")
}
