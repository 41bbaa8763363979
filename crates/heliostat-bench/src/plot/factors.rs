//! Many small plots beside each other, all with the same axes: two ratios over the factor by which
//! something was changed.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Hue, Mark, draw};
use super::frame::{WIDTH, shortened};

/// Room at the left, for the numbers of the vertical axis.
const LEFT: i32 = 44;
/// At the right, for half of a number.
const RIGHT: i32 = 8;
const COLUMNS: i32 = 4;
/// Between two plots.
const GAP: i32 = 14;
/// Height of a plot, and of its name above it.
const HEIGHT: i32 = 48;
const NAME: i32 = 24;
/// Room above all of them for a legend, and below for the factors.
const TOP: i32 = 26;
const BOTTOM: i32 = 26;
/// About the width of a letter.
const LETTER: i32 = 7;

/// Ratios that are shown: what is beyond lies on the border.
const RATIO: (f64, f64) = (0.8, 1.1);
/// Those that have a line of their own.
const LINES: [(f64, &str, f64); 3] = [(1.0, "1", 0.45), (0.9, "0.9", 0.18), (0.8, "0.8", 0.18)];

/// Two lines under one name.
#[derive(Clone, Debug)]
pub struct FactorLines<'a> {
    /// The name.
    pub name: &'a str,
    /// Factor, mean ratio and least ratio, by rising factor.
    pub points: Vec<(f64, f64, f64)>,
}

/// A small plot for each of `plots`: over the logarithm of the factor its mean (a line) and its
/// least ratio (a line with squares).
#[must_use]
pub fn factors(plots: &[FactorLines<'_>]) -> String {
    let count = i32::try_from(plots.len()).expect("some dozens of plots");
    let rows = (count + COLUMNS - 1) / COLUMNS;
    let points = plots.iter().flat_map(|plot| &plot.points);
    let spread = points.map(|point| point.0.max(1.0 / point.0));
    let spread = spread.fold(2.0, f64::max).log2();
    let axes = Axes {
        factors: Axis::linear(-spread, spread),
        ratios: Axis::linear(RATIO.0, RATIO.1),
        width: (WIDTH - LEFT - RIGHT - GAP * (COLUMNS - 1)) / COLUMNS,
        count,
    };
    draw(WIDTH, TOP + rows * (NAME + HEIGHT) + BOTTOM, |canvas| {
        canvas.path(&[(LEFT, 10), (LEFT + 20, 10)], Hue::Blue);
        canvas.text("mean", LEFT + 26, 10, Anchor::Start);
        canvas.path(&[(LEFT + 80, 10), (LEFT + 100, 10)], Hue::Red);
        canvas.mark(Mark::Square, LEFT + 90, 10, Hue::Red);
        canvas.text("worst cell", LEFT + 106, 10, Anchor::Start);
        for (index, plot) in plots.iter().enumerate() {
            axes.draw_plot(canvas, index, plot);
        }
    })
}

/// Where things lie in each plot.
struct Axes {
    factors: Axis,
    ratios: Axis,
    width: i32,
    count: i32,
}

fn along(axis: Axis, value: f64, length: i32) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "a fraction of the plot")]
    let offset = (axis.fraction(value) * f64::from(length)).round() as i32;
    offset
}

impl Axes {
    fn draw_plot(&self, canvas: &mut Canvas<'_>, index: usize, plot: &FactorLines<'_>) {
        let index = i32::try_from(index).expect("some dozens of plots");
        let (row, column) = (index / COLUMNS, index % COLUMNS);
        let left = LEFT + column * (self.width + GAP);
        let bottom = TOP + (row + 1) * (NAME + HEIGHT);
        let x = |factor: f64| left + along(self.factors, factor.log2(), self.width);
        let y = |ratio: f64| bottom - along(self.ratios, ratio, HEIGHT);
        let letters = usize::try_from(self.width / LETTER).expect("above zero");
        let name = shortened(plot.name, letters);
        canvas.text(&name, left, bottom - HEIGHT - 9, Anchor::Start);
        for (ratio, text, opacity) in LINES {
            canvas.line((left, y(ratio)), (left + self.width, y(ratio)), opacity);
            if column == 0 {
                canvas.text(text, left - 6, y(ratio), Anchor::End);
            }
        }
        canvas.line((x(1.0), bottom - HEIGHT), (x(1.0), bottom), 0.18);
        // Factors stand below the last plot of each column.
        if index + COLUMNS >= self.count {
            for (factor, text) in [(0.5, "1/2"), (1.0, "1"), (2.0, "2")] {
                canvas.line((x(factor), bottom), (x(factor), bottom + 4), 0.45);
                canvas.text(text, x(factor), bottom + 14, Anchor::Middle);
            }
        }
        let unchanged = [(1.0, 1.0, 1.0)];
        let mut points: Vec<&(f64, f64, f64)> = plot.points.iter().chain(&unchanged).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let worst: Vec<(i32, i32)> = points.iter().map(|at| (x(at.0), y(at.2))).collect();
        let means: Vec<(i32, i32)> = points.iter().map(|at| (x(at.0), y(at.1))).collect();
        canvas.path(&worst, Hue::Red);
        for &(x, y) in &worst {
            canvas.area((x - 2, y - 2), (x + 2, y + 2), Hue::Red);
        }
        canvas.path(&means, Hue::Blue);
    }
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::{FactorLines, factors};

    #[test]
    fn every_name_has_a_plot_with_two_lines_of_its_points() {
        let plot = |name| FactorLines {
            name,
            points: vec![(0.5, 0.99, 0.5), (2.0, 1.0, 0.9)],
        };
        let svg = factors(&[plot("a.ONE"), plot("b.TWO")]);
        for text in ["a.ONE", "b.TWO", "mean", "worst cell", "1/2", "2"] {
            assert!(texts(&svg).contains(&text), "{text}");
        }
        // Two in the legend are lines of two points as well.
        assert_eq!(svg.matches("<polyline").count(), 2 + 4);
        let path = svg.rsplit("<polyline").next().expect("a line");
        let points = path
            .split("points=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let points: Vec<&str> = points.expect("points").split_whitespace().collect();
        assert_eq!(points.len(), 3, "1 lies between: {points:?}");
    }
}
