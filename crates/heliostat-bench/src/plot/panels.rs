//! Small plots beside each other, one per name, all with the same axes: values over time.

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Hue, draw};
use super::frame::{WIDTH, shortened};

/// Room at the left, for the numbers of the vertical axis, and at the right.
const LEFT: i32 = 52;
const RIGHT: i32 = 16;
/// Between two plots.
const GAP: i32 = 18;
/// Height of a plot, and of the name above it.
const HEIGHT: i32 = 84;
const NAME: i32 = 22;
/// Room above all of them for the name of the vertical axis, and below for the horizontal one.
const TOP: i32 = 26;
const BOTTOM: i32 = 44;
/// About the width of a letter.
const LETTER: i32 = 7;

/// Values over time under one name.
#[derive(Clone, Debug)]
pub struct Panel<'a> {
    /// The name.
    pub name: &'a str,
    /// Time in seconds and value, by rising time; without a value the line has a gap.
    pub points: Vec<(f64, Option<f64>)>,
}

/// How the values of panels are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelScale {
    /// From zero; logarithmic where the largest values of two panels are far apart.
    Rates,
    /// Logarithmic.
    Times,
}

/// A small plot for each of `panels`, over the same seconds; `spans` of them, which may begin
/// before and end after what is shown, are shaded. `axis_name` says what the values are and in what
/// unit.
#[must_use]
pub fn panels(
    panels: &[Panel<'_>],
    spans: &[(f64, f64)],
    scale: PanelScale,
    axis_name: &str,
) -> String {
    let grid = Grid::new(panels, scale);
    draw(WIDTH, grid.height(), |canvas| {
        let scale = if grid.values.is_logarithmic() {
            " (log scale)"
        } else {
            ""
        };
        canvas.text(&format!("{axis_name}{scale}"), 0, 10, Anchor::Start);
        if !spans.is_empty() {
            canvas.text("shaded: a fault", WIDTH - RIGHT, 10, Anchor::End);
        }
        for (index, panel) in panels.iter().enumerate() {
            grid.draw_panel(canvas, index, panel, spans);
        }
        let bottom = grid.height() - BOTTOM;
        let middle = i32::midpoint(LEFT, WIDTH - RIGHT);
        canvas.text("seconds", middle, bottom + 32, Anchor::Middle);
    })
}

/// Where the panels lie.
struct Grid {
    columns: i32,
    rows: i32,
    count: i32,
    width: i32,
    time: Axis,
    values: Axis,
}

impl Grid {
    fn new(panels: &[Panel<'_>], scale: PanelScale) -> Self {
        let count = i32::try_from(panels.len()).expect("a report has few policies");
        let columns = match count {
            0 | 1 => 1,
            2 | 4 => 2,
            _ => 3,
        };
        let points = panels.iter().flat_map(|panel| &panel.points);
        let end = points.clone().map(|point| point.0).fold(0.0, f64::max);
        let values = points.filter_map(|point| point.1);
        let most = |panel: &Panel<'_>| {
            let values = panel.points.iter().filter_map(|point| point.1);
            values.fold(0.0, f64::max)
        };
        let most: Vec<f64> = panels.iter().map(most).collect();
        let axis = match scale {
            PanelScale::Rates if !Axis::for_bars(&most).is_logarithmic() => Axis::for_bars(&most),
            PanelScale::Rates | PanelScale::Times => Axis::logarithmic(values),
        };
        Self {
            columns,
            rows: (count + columns - 1) / columns,
            count,
            width: (WIDTH - LEFT - RIGHT - GAP * (columns - 1)) / columns,
            time: Axis::linear(0.0, if end > 0.0 { end } else { 1.0 }),
            values: axis,
        }
    }

    const fn height(&self) -> i32 {
        TOP + self.rows * (NAME + HEIGHT) + BOTTOM
    }

    fn draw_panel(
        &self,
        canvas: &mut Canvas<'_>,
        index: usize,
        panel: &Panel<'_>,
        spans: &[(f64, f64)],
    ) {
        let index = i32::try_from(index).expect("a report has few policies");
        let (row, column) = (index / self.columns, index % self.columns);
        let left = LEFT + column * (self.width + GAP);
        let bottom = TOP + (row + 1) * (NAME + HEIGHT);
        let at = |axis: Axis, value: f64, length: i32| {
            #[expect(clippy::cast_possible_truncation, reason = "a fraction of the plot")]
            let offset = (axis.fraction(value) * f64::from(length)).round() as i32;
            offset
        };
        let x = |seconds: f64| left + at(self.time, seconds, self.width);
        let y = |value: f64| bottom - at(self.values, value, HEIGHT);
        for &(from, until) in spans {
            canvas.area((x(from), bottom - HEIGHT), (x(until), bottom), Hue::Orange);
        }
        let letters = usize::try_from(self.width / LETTER).expect("above zero");
        let name = shortened(panel.name, letters);
        canvas.text(&name, left, bottom - HEIGHT - 10, Anchor::Start);
        for (value, text) in self.values.few_ticks(3) {
            canvas.line((left, y(value)), (left + self.width, y(value)), 0.18);
            if column == 0 {
                canvas.text(&text, left - 6, y(value), Anchor::End);
            }
        }
        canvas.line((left, bottom), (left + self.width, bottom), 0.45);
        // Seconds stand below the last panel of each column.
        if index + self.columns >= self.count {
            for (seconds, text) in self.time.time_ticks() {
                canvas.line((x(seconds), bottom), (x(seconds), bottom + 4), 0.45);
                canvas.text(&text, x(seconds), bottom + 14, Anchor::Middle);
            }
        }
        for line in panel.points.split(|point| point.1.is_none()) {
            let points = line
                .iter()
                .filter_map(|&(seconds, value)| Some((x(seconds), y(value?))));
            canvas.path(&points.collect::<Vec<(i32, i32)>>(), Hue::Blue);
        }
    }
}

#[cfg(test)]
mod tests;
