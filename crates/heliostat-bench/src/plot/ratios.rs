//! Ratios of two things, row by row, each with how far it is sure.

use super::axis::Axis;
use super::canvas::{Anchor, Hue, Mark, draw};
use super::frame::{Frame, RIGHT, WIDTH};

/// From this ratio of the largest to the least on a linear axis hides what lies below 1.
const LOGARITHMIC_FROM: f64 = 3.0;

/// One ratio.
#[derive(Clone, Debug)]
pub struct Ratio {
    /// Of what.
    pub name: String,
    /// The ratio itself.
    pub value: f64,
    /// Between which two it may be.
    pub range: (f64, f64),
    /// Whether it is told from 1.
    pub is_apart: bool,
}

/// A mark for each ratio on the line over which it may be, and a line at 1. What is told from 1 is
/// a dot, what is noise a ring. What is no number has no mark.
#[must_use]
pub fn ratios(rows: &[Ratio], axis_name: &str) -> String {
    let is_shown = |value: &f64| value.is_finite() && *value > 0.0;
    let ends = rows
        .iter()
        .flat_map(|row| [row.range.0, row.value, row.range.1]);
    let ends = ends.filter(is_shown).chain([1.0]);
    let most = ends.clone().fold(1.0, f64::max);
    let least = ends.clone().fold(1.0, f64::min);
    let axis = match most / least >= LOGARITHMIC_FROM {
        true => Axis::logarithmic(ends),
        false => Axis::around(ends),
    };
    let legend = vec![
        ("a difference".to_owned(), Mark::Circle, Hue::Blue),
        ("noise, or unknown".to_owned(), Mark::Ring, Hue::Orange),
    ];
    let frame = Frame::new(rows.iter().map(|row| row.name.as_str()), legend);
    draw(WIDTH, frame.height(), |canvas| {
        frame.draw(canvas, axis, axis_name);
        let one = frame.x_of(axis, 1.0);
        if let Some(last) = rows.len().checked_sub(1) {
            let (top, bottom) = (frame.row_middle(0) - 9, frame.row_middle(last) + 9);
            canvas.line((one, top), (one, bottom), 0.8);
        }
        for (index, row) in rows.iter().enumerate() {
            let middle = frame.row_middle(index);
            if [row.range.0, row.value, row.range.1].iter().all(is_shown) {
                let x = |value| frame.x_of(axis, value);
                canvas.line((x(row.range.0), middle), (x(row.range.1), middle), 0.45);
                let (mark, hue) = match row.is_apart {
                    true => (Mark::Circle, Hue::Blue),
                    false => (Mark::Ring, Hue::Orange),
                };
                canvas.mark(mark, x(row.value), middle, hue);
            }
            let text = format!("{:.2}", row.value);
            canvas.text(&text, WIDTH - RIGHT + 12, middle, Anchor::Start);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::{Ratio, ratios};

    #[test]
    fn every_ratio_has_its_mark_and_what_is_no_number_has_none() {
        let row = |name: &str, value: f64, is_apart| Ratio {
            name: name.to_owned(),
            value,
            range: (value * 0.9, value * 1.1),
            is_apart,
        };
        let rows = [
            row("a", 2.0, true),
            row("b", 1.0, false),
            row("c", f64::INFINITY, true),
        ];
        let svg = ratios(&rows, "B/A");
        // Two in the legend.
        assert_eq!(svg.matches("<circle").count(), 2 + 2);
        for text in ["a", "b", "c", "B/A", "a difference"] {
            assert!(texts(&svg).contains(&text), "{text}");
        }
        assert!(ratios(&[row("x", 9.0, true)], "B/A").contains("(log scale)"));
        assert!(ratios(&[], "B/A").ends_with("</svg>\n"));
    }
}
