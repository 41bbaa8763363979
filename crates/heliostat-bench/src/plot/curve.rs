//! Values of one tunable along the horizontal axis, a line for each scenario.

use super::axis::Axis;
use super::canvas::{Anchor, Hue, Mark, draw};
use super::frame::{WIDTH, shortened, width_of};

const LEFT: i32 = 60;
const RIGHT: i32 = 30;
const HEIGHT: i32 = 260;
const BOTTOM: i32 = 48;
/// A line of the legend.
const LINE: i32 = 20;
/// Longest name in a legend, in letters.
const NAME_MAX: usize = 50;

/// Marks and hues of lines; they begin again at different numbers.
const MARKS: [Mark; 5] = [
    Mark::Circle,
    Mark::Square,
    Mark::Triangle,
    Mark::Cross,
    Mark::Ring,
];
const HUES: [Hue; 6] = [
    Hue::Blue,
    Hue::Orange,
    Hue::Green,
    Hue::Red,
    Hue::Sky,
    Hue::Purple,
];

/// A line for each named row of values over `x_values` of `x_name`, which stand at equal distance
/// because tunables rarely do. A value that is `None` is a gap. `y_name` says what the values are
/// and in what unit.
#[must_use]
pub fn curve(
    x_name: &str,
    x_values: &[String],
    lines: &[(&str, Vec<Option<f64>>)],
    y_name: &str,
) -> String {
    let values = lines.iter().flat_map(|(_, values)| values.iter().flatten());
    let axis = Axis::around(values.copied());
    let names: Vec<String> = lines
        .iter()
        .map(|(name, _)| shortened(name, NAME_MAX))
        .collect();
    let places = legend_places(&names);
    let top = 30 + LINE * places.last().map_or(0, |place| place.1 + 1);
    let bottom = top + HEIGHT;
    let steps = i32::try_from(x_values.len().saturating_sub(1).max(1)).expect("few values");
    let x = |index: usize| {
        let index = i32::try_from(index).expect("few values");
        LEFT + 20 + (WIDTH - LEFT - RIGHT - 40) * index / steps
    };
    let y = |value: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "a fraction of the height")]
        let offset = (axis.fraction(value) * f64::from(HEIGHT)).round() as i32;
        bottom - offset
    };
    draw(WIDTH, bottom + BOTTOM, |canvas| {
        let scale = if axis.is_logarithmic() {
            " (log scale)"
        } else {
            ""
        };
        canvas.text(&format!("{y_name}{scale}"), 0, 10, Anchor::Start);
        for (value, text) in axis.ticks() {
            canvas.line((LEFT, y(value)), (WIDTH - RIGHT, y(value)), 0.18);
            canvas.text(&text, LEFT - 6, y(value), Anchor::End);
        }
        // Names of values stand as far apart as they are long.
        let widest = x_values.iter().map(|text| width_of(text)).max();
        let apart = (x(1) - x(0)).max(1);
        let every = usize::try_from(widest.unwrap_or(0) / apart).expect("not negative") + 1;
        for (index, text) in x_values.iter().enumerate().step_by(every) {
            canvas.text(text, x(index), bottom + 14, Anchor::Middle);
        }
        let middle = i32::midpoint(LEFT, WIDTH - RIGHT);
        canvas.text(x_name, middle, bottom + 36, Anchor::Middle);
        for (line, (_, values)) in lines.iter().enumerate() {
            let (mark, hue) = (MARKS[line % MARKS.len()], HUES[line % HUES.len()]);
            let (place_x, place_line) = places[line];
            let legend_y = 30 + LINE * place_line;
            canvas.mark(mark, place_x + 6, legend_y, hue);
            canvas.text(&names[line], place_x + 18, legend_y, Anchor::Start);
            let indexed: Vec<(usize, Option<f64>)> = values.iter().copied().enumerate().collect();
            for part in indexed.split(|(_, value)| value.is_none()) {
                let points: Vec<(i32, i32)> = part
                    .iter()
                    .filter_map(|&(index, value)| Some((x(index), y(value?))))
                    .collect();
                canvas.path(&points, hue);
                for &(x, y) in &points {
                    canvas.mark(mark, x, y, hue);
                }
            }
        }
    })
}

/// Where each entry of a legend begins, and on which line.
fn legend_places(names: &[String]) -> Vec<(i32, i32)> {
    let (mut x, mut line) = (LEFT, 0);
    let mut places = Vec::new();
    for name in names {
        let width = 18 + width_of(name);
        if x > LEFT && x + width > WIDTH {
            (x, line) = (LEFT, line + 1);
        }
        places.push((x, line));
        x += width + 16;
    }
    places
}

#[cfg(test)]
mod tests;
