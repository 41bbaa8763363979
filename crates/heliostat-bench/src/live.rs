//! Real storage measured by fio: what is run, what fio's JSON means, what several runs amount to,
//! and how that is shown.
//!
//! Nothing here starts a process; only reports are written.

mod compare;
mod csv;
mod facts;
mod fio;
mod job_file;
mod page;
mod result;
mod spread;
mod suite;
mod table;

pub use compare::{Compared, Comparison, Side, Verdict, comparison, write_comparison};
pub use csv::csv;
pub use fio::{FioError, Measured, parse_output};
pub use job_file::{JobFile, JobFileError};
pub use page::write_bench_report;
pub use result::{BenchResult, LegCount, Machine, ReadError, Row, Run, TargetNote, Under};
pub use spread::Spread;
pub use suite::{Job, SUITES, jobs};
pub use table::tables;
