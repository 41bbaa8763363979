//! Tables whose cells are shaded by their value.

use super::canvas::{Anchor, Canvas, Hue, draw};
use super::frame::{WIDTH, shortened, width_of};
use crate::report::format;

/// Height of a cell in a table of counts, and of one in a surface.
const LOW: i32 = 20;
const HIGH: i32 = 30;
/// Room above the cells and below them.
const TOP: i32 = 24;
const BOTTOM: i32 = 44;
/// Room for the names of rows.
const LEFT_MIN: i32 = 90;
const LEFT_MAX: i32 = 380;
/// About the width of a letter, and the room beside a name.
const LETTER: i32 = 7;
const GAP: i32 = 14;

/// How the counts of each named row fall into `columns`, in percent of the row. `axis_name` says
/// what the columns are.
#[must_use]
pub fn distribution(rows: &[(&str, &[u64])], columns: &[&str], axis_name: &str) -> String {
    let names = rows.iter().map(|&(name, _)| name);
    let grid = Grid::new(names, columns.len(), LOW);
    draw(WIDTH, grid.height(rows.len()), |canvas| {
        grid.draw_head(canvas, columns.iter().copied(), axis_name, rows.len());
        for (row, (name, counts)) in rows.iter().enumerate() {
            grid.draw_name(canvas, row, name);
            let total: u64 = counts.iter().sum();
            for (column, &count) in counts.iter().enumerate() {
                if count == 0 {
                    continue;
                }
                let share = count as f64 / total as f64;
                let text = match share * 100.0 {
                    percent if percent < 0.5 => "<1".to_owned(),
                    percent if percent > 99.5 && count < total => ">99".to_owned(),
                    percent => format!("{percent:.0}"),
                };
                // What happens rarely must be seen: the weakest shade differs from none.
                grid.draw_cell(canvas, row, column, 0.08 + 0.8 * share.sqrt(), &text);
            }
        }
    })
}

/// Values over two tunables.
#[derive(Clone, Debug)]
pub struct Surface<'a> {
    /// The tunable that runs along columns, and its values.
    pub columns: (&'a str, Vec<String>),
    /// The one that runs down the rows, and its values.
    pub rows: (&'a str, Vec<String>),
    /// The values, row by row; `None` where nothing was run.
    pub values: Vec<Vec<Option<f64>>>,
    /// Row and column of the best.
    pub best: Option<(usize, usize)>,
    /// What the values are and in what unit.
    pub value_name: &'a str,
}

/// A heat map of `surface`: darker is more, a frame and a star mark the best.
#[must_use]
pub fn surface(surface: &Surface<'_>) -> String {
    let (columns_name, columns) = &surface.columns;
    let (rows_name, rows) = &surface.rows;
    let grid = Grid::new(rows.iter().map(String::as_str), columns.len(), HIGH);
    let all = surface.values.iter().flatten().flatten();
    let most = all.clone().copied().fold(f64::MIN, f64::max);
    let least = all.copied().fold(f64::MAX, f64::min);
    draw(WIDTH, grid.height(rows.len()), |canvas| {
        let columns = columns.iter().map(String::as_str);
        let below = format!("{}; columns: {columns_name}", surface.value_name);
        grid.draw_head(canvas, columns, &below, rows.len());
        canvas.text(rows_name, 0, TOP / 2, Anchor::Start);
        for (row, name) in rows.iter().enumerate() {
            grid.draw_name(canvas, row, name);
            let values = surface.values.get(row).into_iter().flatten();
            for (column, value) in values.enumerate() {
                let Some(value) = value else { continue };
                let height = if most > least {
                    (value - least) / (most - least)
                } else {
                    0.5
                };
                let is_best = surface.best == Some((row, column));
                let star = if is_best { "*" } else { "" };
                let text = format!("{star}{}", format::rate(*value));
                grid.draw_cell(canvas, row, column, 0.06 + 0.8 * height, &text);
                if is_best {
                    let (from, to) = grid.cell(row, column);
                    canvas.frame(from, to, Hue::Orange);
                }
            }
        }
    })
}

/// Where cells lie.
struct Grid {
    left: i32,
    width: i32,
    row: i32,
}

impl Grid {
    fn new<'a>(names: impl Iterator<Item = &'a str>, columns: usize, row: i32) -> Self {
        let left = names.map(width_of).max().unwrap_or(0) + GAP;
        let left = left.clamp(LEFT_MIN, LEFT_MAX);
        let columns = i32::try_from(columns.max(1)).expect("a plot has few columns");
        Self {
            left,
            // Few columns are not as wide as the page.
            width: ((WIDTH - left) / columns).min(140),
            row,
        }
    }

    fn height(&self, rows: usize) -> i32 {
        TOP + self.row * i32::try_from(rows).expect("a plot has few rows") + BOTTOM
    }

    /// The corners of a cell.
    fn cell(&self, row: usize, column: usize) -> ((i32, i32), (i32, i32)) {
        let row = i32::try_from(row).expect("a plot has few rows");
        let column = i32::try_from(column).expect("a plot has few columns");
        let (x, y) = (self.left + column * self.width, TOP + row * self.row);
        ((x + 1, y + 1), (x + self.width - 1, y + self.row - 1))
    }

    fn draw_head<'a>(
        &self,
        canvas: &mut Canvas<'_>,
        columns: impl Iterator<Item = &'a str>,
        axis_name: &str,
        rows: usize,
    ) {
        let letters = usize::try_from(self.width / LETTER).expect("above zero");
        let mut right = self.left;
        for (column, name) in columns.enumerate() {
            let (from, to) = self.cell(0, column);
            let middle = i32::midpoint(from.0, to.0);
            canvas.text(&shortened(name, letters), middle, TOP / 2, Anchor::Middle);
            right = to.0;
        }
        let below = self.height(rows) - BOTTOM / 2;
        let middle = i32::midpoint(self.left, right.max(WIDTH / 2));
        canvas.text(axis_name, middle, below, Anchor::Middle);
    }

    fn draw_name(&self, canvas: &mut Canvas<'_>, row: usize, name: &str) {
        let ((_, top), (_, bottom)) = self.cell(row, 0);
        let letters = usize::try_from((self.left - GAP) / LETTER).expect("above zero");
        let middle = i32::midpoint(top, bottom);
        canvas.text(
            &shortened(name, letters),
            self.left - 8,
            middle,
            Anchor::End,
        );
    }

    fn draw_cell(
        &self,
        canvas: &mut Canvas<'_>,
        row: usize,
        column: usize,
        opacity: f64,
        text: &str,
    ) {
        let (from, to) = self.cell(row, column);
        canvas.shade(from, to, opacity);
        let middle = (i32::midpoint(from.0, to.0), i32::midpoint(from.1, to.1));
        canvas.text_on_shade(text, middle, opacity);
    }
}

#[cfg(test)]
mod tests;
