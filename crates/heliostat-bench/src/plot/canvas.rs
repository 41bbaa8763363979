//! The few shapes that the plots are made of, drawn as SVG.

use plotters::prelude::{DrawingBackend as _, IntoFont as _, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, RGBColor, ShapeStyle, TextStyle};

/// Stands for the colour of the text around the plot: [`draw`] puts `currentColor` in its place.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_SVG: &str = "\"#010203\"";

/// Size of all text, in user units.
const TEXT_SIZE: f64 = 13.0;

/// Drawing to a string has no way to fail.
const NEVER_FAILS: &str = "a string takes every shape";

/// A colour of Okabe and Ito's palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hue {
    /// Dark blue.
    Blue,
    /// Light blue.
    Sky,
    /// Bluish green.
    Green,
    /// Orange.
    Orange,
    /// Vermillion.
    Red,
    /// Reddish purple.
    Purple,
}

impl Hue {
    const fn color(self) -> RGBColor {
        match self {
            Self::Blue => RGBColor(0x00, 0x72, 0xB2),
            Self::Sky => RGBColor(0x56, 0xB4, 0xE9),
            Self::Green => RGBColor(0x00, 0x9E, 0x73),
            Self::Orange => RGBColor(0xE6, 0x9F, 0x00),
            Self::Red => RGBColor(0xD5, 0x5E, 0x00),
            Self::Purple => RGBColor(0xCC, 0x79, 0xA7),
        }
    }

    /// The colour of text that is read well on it.
    const fn text_color(self) -> RGBColor {
        match self {
            Self::Blue | Self::Green | Self::Red => RGBColor(0xFF, 0xFF, 0xFF),
            Self::Sky | Self::Orange | Self::Purple => RGBColor(0, 0, 0),
        }
    }
}

/// A shape that marks a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A filled circle.
    Circle,
    /// An empty circle, larger than the filled one.
    Ring,
    /// A filled square.
    Square,
    /// A filled triangle.
    Triangle,
    /// A cross of two strokes.
    Cross,
}

/// Which end of a text lies at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// The text begins there.
    Start,
    /// It stands on both sides of it.
    Middle,
    /// It ends there.
    End,
}

/// An SVG that is being drawn. Places are in user units from the upper left corner.
pub(super) struct Canvas<'a> {
    svg: SVGBackend<'a>,
}

/// The SVG of `width` by `height` that `shapes` draws.
pub(super) fn draw(width: i32, height: i32, shapes: impl FnOnce(&mut Canvas<'_>)) -> String {
    let size = (width.unsigned_abs(), height.unsigned_abs());
    let mut text = String::new();
    let mut canvas = Canvas {
        svg: SVGBackend::with_string(&mut text, size),
    };
    shapes(&mut canvas);
    canvas.svg.present().expect(NEVER_FAILS);
    drop(canvas);
    text.replace(INK_SVG, "\"currentColor\"")
}

impl Canvas<'_> {
    /// A text in ink, its middle at height `y`.
    pub(super) fn text(&mut self, text: &str, x: i32, y: i32, anchor: Anchor) {
        self.draw_text(text, (x, y), anchor, INK);
    }

    /// A text in the middle of a bar of this hue.
    pub(super) fn text_on_hue(&mut self, text: &str, x: i32, y: i32, hue: Hue) {
        self.draw_text(text, (x, y), Anchor::Middle, hue.text_color());
    }

    /// A filled bar from one `x` to another, its middle at height `y`.
    pub(super) fn bar(&mut self, from_x: i32, to_x: i32, y: i32, height: i32, hue: Hue) {
        let style = ShapeStyle::from(&hue.color()).filled();
        let (top, bottom) = (y - height / 2, y + height / 2);
        self.svg
            .draw_rect((from_x, top), (to_x, bottom), &style, true)
            .expect(NEVER_FAILS);
    }

    /// A thin line in ink of this opacity.
    pub(super) fn line(&mut self, from: (i32, i32), to: (i32, i32), opacity: f64) {
        let style = ShapeStyle::from(&INK.mix(opacity));
        self.svg.draw_line(from, to, &style).expect(NEVER_FAILS);
    }

    /// A line through several points; a cross stroke where there is only one.
    pub(super) fn path(&mut self, points: &[(i32, i32)], hue: Hue) {
        let style = ShapeStyle::from(&hue.color()).stroke_width(2);
        match points {
            [] => Ok(()),
            [(x, y)] => self.svg.draw_line((x - 2, *y), (x + 2, *y), &style),
            _ => self.svg.draw_path(points.iter().copied(), &style),
        }
        .expect(NEVER_FAILS);
    }

    /// A light area between two corners, behind what is drawn later.
    pub(super) fn area(&mut self, from: (i32, i32), to: (i32, i32), hue: Hue) {
        let style = ShapeStyle::from(&hue.color().mix(0.25)).filled();
        self.svg
            .draw_rect(from, to, &style, true)
            .expect(NEVER_FAILS);
    }

    /// A cell of a table in blue of this opacity.
    pub(super) fn shade(&mut self, from: (i32, i32), to: (i32, i32), opacity: f64) {
        let style = ShapeStyle::from(&Hue::Blue.color().mix(opacity)).filled();
        self.svg
            .draw_rect(from, to, &style, true)
            .expect(NEVER_FAILS);
    }

    /// The outline of a cell.
    pub(super) fn frame(&mut self, from: (i32, i32), to: (i32, i32), hue: Hue) {
        let style = ShapeStyle::from(&hue.color()).stroke_width(3);
        self.svg
            .draw_rect(from, to, &style, false)
            .expect(NEVER_FAILS);
    }

    /// A text in the middle of a cell with that shade.
    pub(super) fn text_on_shade(&mut self, text: &str, at: (i32, i32), opacity: f64) {
        // Blue of half opacity is dark enough for white on light paper, and not too light on dark.
        let color = if opacity > 0.5 {
            RGBColor(0xFF, 0xFF, 0xFF)
        } else {
            INK
        };
        self.draw_text(text, at, Anchor::Middle, color);
    }

    /// A mark around a place.
    pub(super) fn mark(&mut self, mark: Mark, x: i32, y: i32, hue: Hue) {
        let color = hue.color();
        let filled = ShapeStyle::from(&color).filled();
        let stroked = ShapeStyle::from(&color).stroke_width(2);
        let svg = &mut self.svg;
        match mark {
            Mark::Circle => svg.draw_circle((x, y), 5, &filled, true),
            Mark::Ring => svg.draw_circle((x, y), 7, &stroked, false),
            Mark::Square => svg.draw_rect((x - 4, y - 4), (x + 4, y + 4), &filled, true),
            Mark::Triangle => {
                svg.fill_polygon([(x, y - 6), (x + 6, y + 5), (x - 6, y + 5)], &filled)
            }
            Mark::Cross => svg
                .draw_line((x - 4, y - 4), (x + 4, y + 4), &stroked)
                .and_then(|()| svg.draw_line((x - 4, y + 4), (x + 4, y - 4), &stroked)),
        }
        .expect(NEVER_FAILS);
    }

    fn draw_text(&mut self, text: &str, at: (i32, i32), anchor: Anchor, color: RGBColor) {
        let side = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let style = TextStyle::from(("sans-serif", TEXT_SIZE).into_font())
            .color(&color)
            .pos(Pos::new(side, VPos::Center));
        self.svg.draw_text(text, &style, at).expect(NEVER_FAILS);
    }
}
