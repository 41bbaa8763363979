//! Plots of one row per name: bars, percentiles, shares, and two values beside each other.

use stdx::histogram::Histogram;

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Hue, Mark, draw};
use crate::report::format;

/// Width of every plot, in user units of the SVG; pages scale it.
const WIDTH: i32 = 860;
/// Where rows begin: room for the longest name of a policy with its parameters.
const LEFT: i32 = 200;
/// Room at the right for a number behind the longest bar.
const RIGHT: i32 = 80;
/// Height of a row.
const ROW: i32 = 20;
/// Room above the rows, for a legend.
const TOP: i32 = 28;
/// Room below the rows, for numbers and the name of the axis.
const BOTTOM: i32 = 44;

/// Percentiles that a distribution is drawn by, in parts of 10,000, and their marks.
const PERCENTILES: [(&str, u64, Mark, Hue); 4] = [
    ("p50", 5_000, Mark::Circle, Hue::Blue),
    ("p90", 9_000, Mark::Square, Hue::Green),
    ("p99", 9_900, Mark::Triangle, Hue::Orange),
    ("p99.9", 9_990, Mark::Cross, Hue::Red),
];

/// Hues of legs, by role, for as many as most mirrors have; more begin again.
const LEG_HUES: [Hue; 4] = [Hue::Blue, Hue::Sky, Hue::Orange, Hue::Green];

/// A bar for each named value, in the order given; `axis_name` says what it is and in what unit.
#[must_use]
pub fn bars(rows: &[(&str, f64)], axis_name: &str) -> String {
    let values: Vec<f64> = rows.iter().map(|&(_, value)| value).collect();
    let axis = Axis::for_bars(&values);
    draw(WIDTH, row_top(rows.len()) + BOTTOM, |canvas| {
        draw_axis(canvas, axis, rows.len(), axis_name);
        for (index, &(name, value)) in rows.iter().enumerate() {
            let middle = row_middle(index);
            let end = x_of(axis, value);
            canvas.text(name, LEFT - 8, middle, Anchor::End);
            canvas.bar(LEFT, end, middle, ROW - 6, Hue::Blue);
            canvas.text(&format::rate(value), end + 6, middle, Anchor::Start);
        }
    })
}

/// Percentiles of each named distribution of nanoseconds, in milliseconds, in the order given.
#[must_use]
pub fn percentiles(rows: &[(&str, &Histogram)]) -> String {
    let ms = |times: &Histogram, permyriad: u64| times.quantile(permyriad) as f64 / 1e6;
    let values = rows.iter().flat_map(|(_, times)| {
        PERCENTILES
            .iter()
            .map(|&(_, permyriad, ..)| ms(times, permyriad))
    });
    let axis = Axis::logarithmic(values);
    draw(WIDTH, row_top(rows.len()) + BOTTOM, |canvas| {
        draw_axis(canvas, axis, rows.len(), "response time in ms");
        let mut legend = LEFT;
        for (name, _, mark, hue) in PERCENTILES {
            legend = draw_legend(canvas, legend, name, mark, hue);
        }
        for (index, (name, times)) in rows.iter().enumerate() {
            let middle = row_middle(index);
            canvas.text(name, LEFT - 8, middle, Anchor::End);
            let at = PERCENTILES.map(|(_, permyriad, ..)| x_of(axis, ms(times, permyriad)));
            canvas.line((at[0], middle), (at[3], middle), 0.45);
            for (x, (_, _, mark, hue)) in at.into_iter().zip(PERCENTILES) {
                canvas.mark(mark, x, middle, hue);
            }
        }
    })
}

/// A bar for each named row, cut into the parts that the legs, called `legs`, read of it: bytes by
/// role.
#[must_use]
pub fn shares(rows: &[(String, Vec<u64>)], legs: &[String]) -> String {
    let axis = Axis::linear(0.0, 100.0);
    draw(WIDTH, row_top(rows.len()) + BOTTOM, |canvas| {
        draw_axis(
            canvas,
            axis,
            rows.len(),
            "share of the bytes read, in percent",
        );
        let mut legend = LEFT;
        for (index, model) in legs.iter().enumerate() {
            let name = format!("leg {index}: {model}");
            legend = draw_legend(canvas, legend, &name, Mark::Square, leg_hue(index));
        }
        for (index, (name, parts)) in rows.iter().enumerate() {
            let middle = row_middle(index);
            canvas.text(name, LEFT - 8, middle, Anchor::End);
            draw_shares(canvas, axis, parts, middle);
        }
    })
}

/// Two values of one thing: what was found, and what was expected of it.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Of what.
    pub name: String,
    /// What was found.
    pub found: f64,
    /// What was expected.
    pub expected: f64,
    /// What stands at the end of the row: how far they are apart.
    pub note: String,
}

/// What was found (a dot) and what was expected (a ring), row by row; `found` and `expected` are
/// the words for the legend, `axis_name` says what the values are and in what unit.
#[must_use]
pub fn pairs(rows: &[Pair], found: &str, expected: &str, axis_name: &str) -> String {
    let axis = Axis::logarithmic(rows.iter().flat_map(|row| [row.found, row.expected]));
    draw(WIDTH, row_top(rows.len()) + BOTTOM, |canvas| {
        draw_axis(canvas, axis, rows.len(), axis_name);
        let legend = draw_legend(canvas, LEFT, expected, Mark::Ring, Hue::Orange);
        draw_legend(canvas, legend, found, Mark::Circle, Hue::Blue);
        for (index, row) in rows.iter().enumerate() {
            let middle = row_middle(index);
            canvas.text(&row.name, LEFT - 8, middle, Anchor::End);
            let (from, to) = (x_of(axis, row.expected), x_of(axis, row.found));
            canvas.line((from, middle), (to, middle), 0.45);
            canvas.mark(Mark::Ring, from, middle, Hue::Orange);
            canvas.mark(Mark::Circle, to, middle, Hue::Blue);
            canvas.text(&row.note, WIDTH - RIGHT + 12, middle, Anchor::Start);
        }
    })
}

/// The bar of one row, cut into the parts that the legs read.
fn draw_shares(canvas: &mut Canvas<'_>, axis: Axis, parts: &[u64], middle: i32) {
    // A number is written into parts that have room for it.
    const ROOM_PERCENT: f64 = 8.0;
    let total: u64 = parts.iter().sum();
    let mut done = 0;
    for (leg, &bytes) in parts.iter().enumerate() {
        let percent = |bytes: u64| bytes as f64 * 100.0 / total.max(1) as f64;
        let from = x_of(axis, percent(done));
        done += bytes;
        let to = x_of(axis, percent(done));
        canvas.bar(from, to, middle, ROW - 6, leg_hue(leg));
        let part = percent(bytes);
        if part >= ROOM_PERCENT {
            let text = match part {
                part if part > 99.5 && part < 100.0 => ">99".to_owned(),
                part => format!("{part:.0}"),
            };
            canvas.text_on_hue(&text, (from + to) / 2, middle, leg_hue(leg));
        }
    }
}

fn leg_hue(index: usize) -> Hue {
    LEG_HUES[index % LEG_HUES.len()]
}

/// The upper edge of row `index`.
fn row_top(index: usize) -> i32 {
    TOP + ROW * i32::try_from(index).expect("a report has few rows")
}

fn row_middle(index: usize) -> i32 {
    row_top(index) + ROW / 2
}

fn x_of(axis: Axis, value: f64) -> i32 {
    let span = f64::from(WIDTH - RIGHT - LEFT);
    #[expect(clippy::cast_possible_truncation, reason = "a fraction of the width")]
    let offset = (axis.fraction(value) * span).round() as i32;
    LEFT + offset
}

/// Grid lines over all rows, their values, and the name of the axis with its unit.
fn draw_axis(canvas: &mut Canvas<'_>, axis: Axis, rows: usize, name: &str) {
    let bottom = row_top(rows);
    for (value, text) in axis.ticks() {
        let x = x_of(axis, value);
        canvas.line((x, TOP), (x, bottom), 0.18);
        canvas.text(&text, x, bottom + 12, Anchor::Middle);
    }
    let scale = if axis.is_logarithmic() {
        " (log scale)"
    } else {
        ""
    };
    let middle = i32::midpoint(LEFT, WIDTH - RIGHT);
    canvas.text(
        &format!("{name}{scale}"),
        middle,
        bottom + 32,
        Anchor::Middle,
    );
}

/// One entry of a legend from `x` on; answers where the next may begin.
fn draw_legend(canvas: &mut Canvas<'_>, x: i32, name: &str, mark: Mark, hue: Hue) -> i32 {
    // About the width of a letter, and the room between two entries.
    const LETTER: i32 = 7;
    const GAP: i32 = 34;
    canvas.mark(mark, x + 6, TOP / 2, hue);
    canvas.text(name, x + 18, TOP / 2, Anchor::Start);
    x + GAP + LETTER * i32::try_from(name.len()).expect("a legend is short")
}
