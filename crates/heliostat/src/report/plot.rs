//! Plots as SVG: bars, percentiles, shares, and measured beside predicted.
//!
//! Rows run from top to bottom with their names at the left, because names of policies are long and
//! there are many of them. Ink is `currentColor`, so that a page decides between dark on light and
//! light on dark; colours are those of Okabe and Ito (2008), which people with any common kind of
//! colour blindness can tell apart, and no plot says by colour alone what it does not also say by
//! shape, order or text.

mod axis;
mod canvas;

use axis::Axis;
use canvas::{Anchor, Canvas, Hue, Mark, draw};

use super::{LegShare, MeasuredRow, Outcome, RateUnit, Workload, format};

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

/// Hues of legs, by role, for as many as the demo has; more begin again.
const LEG_HUES: [Hue; 4] = [Hue::Blue, Hue::Sky, Hue::Orange, Hue::Green];

/// The rate of every policy under one workload, best first.
pub(super) fn bars(workload: &Workload) -> String {
    let rows = by_rate(workload);
    let rates: Vec<f64> = rows.iter().map(|row| row.rate(workload.unit)).collect();
    let axis = Axis::for_bars(&rates);
    draw(WIDTH, row_top(rows.len()) + BOTTOM, |canvas| {
        draw_axis(canvas, axis, rows.len(), workload.unit.name());
        for (index, (row, rate)) in rows.iter().zip(&rates).enumerate() {
            let middle = row_middle(index);
            let end = x_of(axis, *rate);
            canvas.text(&row.label, LEFT - 8, middle, Anchor::End);
            canvas.bar(LEFT, end, middle, ROW - 6, Hue::Blue);
            canvas.text(&format::rate(*rate), end + 6, middle, Anchor::Start);
        }
    })
}

/// Response times of every policy under one workload, in the order of [`bars`].
pub(super) fn percentiles(workload: &Workload) -> String {
    let rows = by_rate(workload);
    let ms = |row: &Outcome, permyriad: u64| row.response.quantile(permyriad) as f64 / 1e6;
    let values = rows.iter().flat_map(|row| {
        PERCENTILES
            .iter()
            .map(|&(_, permyriad, ..)| ms(row, permyriad))
    });
    let axis = Axis::logarithmic(values);
    draw(WIDTH, row_top(rows.len()) + BOTTOM, |canvas| {
        draw_axis(canvas, axis, rows.len(), "response time in ms");
        let mut legend = LEFT;
        for (name, _, mark, hue) in PERCENTILES {
            legend = draw_legend(canvas, legend, name, mark, hue);
        }
        for (index, row) in rows.iter().enumerate() {
            let middle = row_middle(index);
            canvas.text(&row.label, LEFT - 8, middle, Anchor::End);
            let at = PERCENTILES.map(|(_, permyriad, ..)| x_of(axis, ms(row, permyriad)));
            canvas.line((at[0], middle), (at[3], middle), 0.45);
            for (x, (_, _, mark, hue)) in at.into_iter().zip(PERCENTILES) {
                canvas.mark(mark, x, middle, hue);
            }
        }
    })
}

/// Which part of the reads each leg served, policy by policy, in the order of [`bars`].
pub(super) fn shares(workload: &Workload, legs: &[String]) -> String {
    let rows = by_rate(workload);
    let rows: Vec<(String, Vec<LegShare>)> = rows
        .iter()
        .map(|row| (row.label.clone(), row.legs.clone()))
        .collect();
    shares_of(&rows, legs)
}

/// One bar for each named row, cut into the parts that the legs read.
fn shares_of(rows: &[(String, Vec<LegShare>)], legs: &[String]) -> String {
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
        for (index, (name, shares)) in rows.iter().enumerate() {
            let middle = row_middle(index);
            canvas.text(name, LEFT - 8, middle, Anchor::End);
            draw_shares(canvas, axis, shares, middle);
        }
    })
}

/// The rates of the real part, measured and predicted, one row each.
pub(super) fn versus(rows: &[MeasuredRow]) -> String {
    let rate = |outcome: &Outcome| outcome.rate(RateUnit::Iops);
    let values = rows
        .iter()
        .flat_map(|row| [rate(&row.measured), rate(&row.predicted)]);
    let axis = Axis::logarithmic(values);
    draw(WIDTH, row_top(rows.len()) + BOTTOM, |canvas| {
        draw_axis(canvas, axis, rows.len(), "IOPS");
        let legend = draw_legend(canvas, LEFT, "predicted", Mark::Ring, Hue::Orange);
        draw_legend(canvas, legend, "measured", Mark::Circle, Hue::Blue);
        for (index, row) in rows.iter().enumerate() {
            let middle = row_middle(index);
            let name = format!("{}, depth {}", row.policy, row.iodepth);
            canvas.text(&name, LEFT - 8, middle, Anchor::End);
            let (measured, predicted) = (rate(&row.measured), rate(&row.predicted));
            let (from, to) = (x_of(axis, predicted), x_of(axis, measured));
            canvas.line((from, middle), (to, middle), 0.45);
            canvas.mark(Mark::Ring, from, middle, Hue::Orange);
            canvas.mark(Mark::Circle, to, middle, Hue::Blue);
            let difference = format::percent(row.difference_percent());
            canvas.text(&difference, WIDTH - RIGHT + 12, middle, Anchor::Start);
        }
    })
}

/// Which part of the reads each leg served in the real part, measured above predicted.
pub(super) fn real_shares(rows: &[MeasuredRow], legs: &[String]) -> String {
    let sides = |row: &MeasuredRow| {
        let name = |side| format!("{}, depth {}, {side}", row.policy, row.iodepth);
        [
            (name("measured"), row.measured.legs.clone()),
            (name("predicted"), row.predicted.legs.clone()),
        ]
    };
    let rows: Vec<(String, Vec<LegShare>)> = rows.iter().flat_map(sides).collect();
    shares_of(&rows, legs)
}

/// Rows of a workload, the highest rate first.
fn by_rate(workload: &Workload) -> Vec<&Outcome> {
    let mut rows: Vec<&Outcome> = workload.rows.iter().collect();
    let rate = |row: &Outcome| row.rate(workload.unit);
    rows.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    rows
}

/// The bar of one row, cut into the parts that the legs read.
fn draw_shares(canvas: &mut Canvas<'_>, axis: Axis, legs: &[LegShare], middle: i32) {
    // A number is written into parts that have room for it.
    const ROOM_PERCENT: f64 = 8.0;
    let total: u64 = legs.iter().map(|leg| leg.read_bytes).sum();
    let mut done = 0;
    for (leg, share) in legs.iter().enumerate() {
        let percent = |bytes: u64| bytes as f64 * 100.0 / total.max(1) as f64;
        let from = x_of(axis, percent(done));
        done += share.read_bytes;
        let to = x_of(axis, percent(done));
        canvas.bar(from, to, middle, ROW - 6, leg_hue(leg));
        let part = percent(share.read_bytes);
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

#[cfg(test)]
mod tests;
