//! Small general helpers that know no word of storage: mathematics with the same bits on every
//! machine, a log-linear histogram, the units that people write, settings by name, and the words
//! they mistype.
#![forbid(unsafe_code)]

pub mod histogram;
pub mod math;
pub mod settings;
pub mod suggest;
pub mod units;
