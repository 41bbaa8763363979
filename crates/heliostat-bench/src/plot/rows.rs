//! Plots of one row per name: bars, percentiles, shares, and two values beside each other.

use stdx::histogram::Histogram;

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Hue, Mark, draw};
use super::frame::{Entry, Frame, RIGHT, ROW, WIDTH};
use crate::report::format;

/// Percentiles that a distribution is drawn by, in parts of 10,000, and their marks.
const PERCENTILES: [(&str, u64, Mark, Hue); 4] = [
    ("p50", 5_000, Mark::Circle, Hue::Blue),
    ("p90", 9_000, Mark::Square, Hue::Green),
    ("p99", 9_900, Mark::Triangle, Hue::Orange),
    ("p99.9", 9_990, Mark::Cross, Hue::Red),
];

/// Hues and marks of legs, by role; they begin again at different numbers, so that thirty legs
/// look different from each other.
const LEG_HUES: [Hue; 6] = [
    Hue::Blue,
    Hue::Sky,
    Hue::Orange,
    Hue::Green,
    Hue::Red,
    Hue::Purple,
];
const LEG_MARKS: [Mark; 5] = [
    Mark::Circle,
    Mark::Square,
    Mark::Triangle,
    Mark::Cross,
    Mark::Ring,
];

/// What stands in a row that has nothing to show.
const NOTHING: &str = "none";

/// A bar for each named value, in the order given; `axis_name` says what it is and in what unit.
#[must_use]
pub fn bars(rows: &[(&str, f64)], axis_name: &str) -> String {
    let values: Vec<f64> = rows.iter().map(|&(_, value)| value).collect();
    let axis = Axis::for_bars(&values);
    let frame = Frame::new(rows.iter().map(|&(name, _)| name), Vec::new());
    draw(WIDTH, frame.height(), |canvas| {
        frame.draw(canvas, axis, axis_name);
        for (index, &(_, value)) in rows.iter().enumerate() {
            let middle = frame.row_middle(index);
            let end = frame.x_of(axis, value);
            canvas.bar(frame.left(), end, middle, ROW - 6, Hue::Blue);
            canvas.text(&format::rate(value), end + 6, middle, Anchor::Start);
        }
    })
}

/// Percentiles of each named distribution of nanoseconds, in milliseconds, in the order given.
/// Where a distribution has nothing, the row says so.
#[must_use]
pub fn percentiles(rows: &[(&str, &Histogram)], axis_name: &str) -> String {
    let ms = |times: &Histogram, permyriad: u64| times.quantile(permyriad) as f64 / 1e6;
    let values = rows.iter().flat_map(|(_, times)| {
        PERCENTILES
            .iter()
            .map(|&(_, permyriad, ..)| ms(times, permyriad))
    });
    let axis = Axis::logarithmic(values);
    let legend = PERCENTILES.map(|(name, _, mark, hue)| (name.to_owned(), mark, hue));
    let frame = Frame::new(rows.iter().map(|&(name, _)| name), legend.to_vec());
    draw(WIDTH, frame.height(), |canvas| {
        frame.draw(canvas, axis, axis_name);
        for (index, (_, times)) in rows.iter().enumerate() {
            let middle = frame.row_middle(index);
            if times.count() == 0 {
                canvas.text(NOTHING, frame.left() + 8, middle, Anchor::Start);
                continue;
            }
            let at = PERCENTILES.map(|(_, permyriad, ..)| frame.x_of(axis, ms(times, permyriad)));
            canvas.line((at[0], middle), (at[3], middle), 0.45);
            for (x, (_, _, mark, hue)) in at.into_iter().zip(PERCENTILES) {
                canvas.mark(mark, x, middle, hue);
            }
        }
    })
}

/// A bar for each named row, cut into the parts that the legs, called `legs`, have of it, by role;
/// `axis_name` says of what.
#[must_use]
pub fn shares(rows: &[(String, Vec<u64>)], legs: &[String], axis_name: &str) -> String {
    let axis = Axis::linear(0.0, 100.0);
    let legend = leg_names(legs).zip(0..);
    let legend = legend.map(|(name, leg)| (name, Mark::Square, leg_hue(leg)));
    let frame = Frame::new(rows.iter().map(|(name, _)| name.as_str()), legend.collect());
    draw(WIDTH, frame.height(), |canvas| {
        frame.draw(canvas, axis, axis_name);
        for (index, (_, parts)) in rows.iter().enumerate() {
            draw_shares(canvas, &frame, axis, parts, frame.row_middle(index));
        }
    })
}

/// A mark for each leg, called `legs`, in each named row. Values that are not above zero have no
/// place on a logarithmic axis, and no mark there.
#[must_use]
pub fn per_leg(
    rows: &[(&str, Vec<f64>)],
    legs: &[String],
    scale: LegScale,
    axis_name: &str,
) -> String {
    let axis = match scale {
        LegScale::Percent => Axis::linear(0.0, 100.0),
        LegScale::Logarithmic => {
            Axis::logarithmic(rows.iter().flat_map(|(_, values)| values.iter().copied()))
        }
    };
    let legend: Vec<Entry> = leg_names(legs)
        .zip(0..)
        .map(|(name, leg)| (name, leg_mark(leg), leg_hue(leg)))
        .collect();
    let frame = Frame::new(rows.iter().map(|&(name, _)| name), legend);
    draw(WIDTH, frame.height(), |canvas| {
        frame.draw(canvas, axis, axis_name);
        for (index, (_, values)) in rows.iter().enumerate() {
            let middle = frame.row_middle(index);
            for (leg, &value) in values.iter().enumerate() {
                if value > 0.0 || scale == LegScale::Percent {
                    let x = frame.x_of(axis, value);
                    let y = middle + apart(leg, values.len());
                    canvas.mark(leg_mark(leg), x, y, leg_hue(leg));
                }
            }
        }
    })
}

/// The scale of a plot with a mark per leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegScale {
    /// From 0 to 100.
    Percent,
    /// From the least to the largest value above zero.
    Logarithmic,
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
    let legend = vec![
        (expected.to_owned(), Mark::Ring, Hue::Orange),
        (found.to_owned(), Mark::Circle, Hue::Blue),
    ];
    let frame = Frame::new(rows.iter().map(|row| row.name.as_str()), legend);
    draw(WIDTH, frame.height(), |canvas| {
        frame.draw(canvas, axis, axis_name);
        for (index, row) in rows.iter().enumerate() {
            let middle = frame.row_middle(index);
            let from = frame.x_of(axis, row.expected);
            let to = frame.x_of(axis, row.found);
            canvas.line((from, middle), (to, middle), 0.45);
            canvas.mark(Mark::Ring, from, middle, Hue::Orange);
            canvas.mark(Mark::Circle, to, middle, Hue::Blue);
            canvas.text(&row.note, WIDTH - RIGHT + 12, middle, Anchor::Start);
        }
    })
}

/// The same as [`pairs`], as two bars in each row: what was expected above what was found.
#[must_use]
pub fn paired_bars(rows: &[Pair], found: &str, expected: &str, axis_name: &str) -> String {
    // Two bars and the room between rows.
    const BAR: i32 = 7;
    let values: Vec<f64> = rows
        .iter()
        .flat_map(|row| [row.found, row.expected])
        .collect();
    let axis = Axis::for_bars(&values);
    let legend = vec![
        (expected.to_owned(), Mark::Square, Hue::Orange),
        (found.to_owned(), Mark::Square, Hue::Blue),
    ];
    let frame = Frame::new(rows.iter().map(|row| row.name.as_str()), legend);
    draw(WIDTH, frame.height(), |canvas| {
        frame.draw(canvas, axis, axis_name);
        for (index, row) in rows.iter().enumerate() {
            let middle = frame.row_middle(index);
            for (value, y, hue) in [
                (row.expected, middle - 4, Hue::Orange),
                (row.found, middle + 4, Hue::Blue),
            ] {
                let end = frame.x_of(axis, value);
                if end > frame.left() {
                    canvas.bar(frame.left(), end, y, BAR, hue);
                }
            }
            canvas.text(&row.note, WIDTH - RIGHT + 12, middle, Anchor::Start);
        }
    })
}

/// The bar of one row, cut into the parts that the legs have.
fn draw_shares(canvas: &mut Canvas<'_>, frame: &Frame, axis: Axis, parts: &[u64], middle: i32) {
    // A number is written into parts that have room for it.
    const ROOM_PERCENT: f64 = 8.0;
    let total: u64 = parts.iter().sum();
    if total == 0 {
        canvas.text(NOTHING, frame.left() + 8, middle, Anchor::Start);
        return;
    }
    let mut done = 0;
    for (leg, &bytes) in parts.iter().enumerate() {
        let percent = |bytes: u64| bytes as f64 * 100.0 / total as f64;
        let from = frame.x_of(axis, percent(done));
        done += bytes;
        let to = frame.x_of(axis, percent(done));
        if to > from {
            canvas.bar(from, to, middle, ROW - 6, leg_hue(leg));
        }
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

/// How far above or below the middle of its row a leg has its mark, so that equal values do not
/// hide each other.
fn apart(leg: usize, legs: usize) -> i32 {
    /// Room for marks to both sides of the middle.
    const ROOM: i32 = 5;
    let place = |index: usize| i32::try_from(index).expect("an array has few legs");
    match legs {
        0 | 1 => 0,
        _ => 2 * ROOM * place(leg) / place(legs - 1) - ROOM,
    }
}

/// How legends call legs.
fn leg_names(legs: &[String]) -> impl Iterator<Item = String> {
    let names = legs.iter().enumerate();
    names.map(|(index, model)| format!("leg {index}: {model}"))
}

fn leg_hue(index: usize) -> Hue {
    LEG_HUES[index % LEG_HUES.len()]
}

fn leg_mark(index: usize) -> Mark {
    LEG_MARKS[index % LEG_MARKS.len()]
}

#[cfg(test)]
mod tests;
