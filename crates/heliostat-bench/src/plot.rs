//! Plots as SVG, for pages and for files of their own.
//!
//! Rows run from top to bottom with their names at the left, because names of policies are long and
//! there are many of them. Ink is `currentColor`, so that a page decides between dark on light and
//! light on dark; colours are those of Okabe and Ito (2008), which people with any common kind of
//! colour blindness can tell apart, and no plot says by colour alone what it does not also say by
//! shape, order or text. Names are escaped on their way into the SVG.

mod axis;
mod canvas;
mod cells;
mod curve;
mod factors;
mod frame;
mod panels;
mod ratios;
mod rows;

pub use cells::{Surface, distribution, surface};
pub use curve::curve;
pub use factors::{FactorLines, factors};
pub use panels::{Panel, PanelScale, panels};
pub use ratios::{Ratio, ratios};
pub use rows::{LegScale, Pair, bars, paired_bars, pairs, per_leg, percentiles, shares};

#[cfg(test)]
mod texts {
    /// The texts of an SVG, in the order in which they are drawn.
    pub(super) fn texts(svg: &str) -> Vec<&str> {
        let parts = svg.split("</text>").filter_map(|part| {
            let (_, text) = part.rsplit_once("<text")?;
            Some(text.split_once('>')?.1.trim())
        });
        parts.collect()
    }
}
