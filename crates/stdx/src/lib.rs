//! Small general helpers that know no word of storage: mathematics with the same bits on every
//! machine, a log-linear histogram, and the units that people write.
#![forbid(unsafe_code)]

pub mod histogram;
pub mod math;
pub mod units;
