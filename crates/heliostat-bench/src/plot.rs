//! Plots as SVG, for pages and for files of their own.
//!
//! Rows run from top to bottom with their names at the left, because names of policies are long and
//! there are many of them. Ink is `currentColor`, so that a page decides between dark on light and
//! light on dark; colours are those of Okabe and Ito (2008), which people with any common kind of
//! colour blindness can tell apart, and no plot says by colour alone what it does not also say by
//! shape, order or text. Names are escaped on their way into the SVG.

mod axis;
mod canvas;
mod frame;
mod rows;

pub use rows::{LegScale, Pair, bars, pairs, per_leg, percentiles, shares};
