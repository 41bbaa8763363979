//! Workloads: what clients ask for, and when.
//!
//! A [`Job`] says what a group of clients does, in fio's words; [`Clients`] are the clones of all
//! jobs, a state machine that is told of answers and of time and says who asks for what next.
//! [`TraceReader`] reads block traces that clients can play. Nothing here knows who serves it, and
//! nothing opens a file.
#![forbid(unsafe_code)]

mod arrival;
mod buffered;
mod cache;
mod client;
mod clients;
mod defrag;
mod fio;
mod job;
mod ops;
mod replay;
mod sizes;
mod spread;
mod trace;

pub use arrival::Arrival;
pub use client::{Ask, Client, OPEN_IN_FLIGHT_MAX};
pub use clients::{Clients, OpenTrace, Step, Surroundings};
pub use fio::{JobFile, JobFileError, parse_job_file};
pub use job::{FromMeasuring, Job, KEYS, Kind, Rw};
pub use sizes::SizeShare;
pub use spread::Distribution;
pub use trace::{
    TraceError, TraceFormat, TraceOp, TraceOptions, TraceReader, TraceTime, write_iolog,
};

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::{ProptestConfig, any, prop, prop_assert, proptest};

    use crate::{Job, KEYS, TraceOptions, TraceReader, TraceTime, parse_job_file};

    /// A line of a CSV, or of an iolog.
    const LINE: &str = "[0-9,RW]{0,40}|[0-9]{1,20} f (read|sync) [0-9]{1,20} [0-9]{1,9}";

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn no_value_of_a_key_panics(
            key in prop::sample::select(KEYS),
            value in "[-+0-9a-z.,:/%]{0,24}",
            size in any::<u64>(),
        ) {
            let mut job = Job::default();
            if job.set(key, &value).is_ok() && job.check(size).is_ok() {
                prop_assert!(job.granule_bytes(size) >= 512);
            }
        }

        #[test]
        fn no_job_file_panics(
            lines in prop::collection::vec("\\PC{0,30}|[a-z]{2,9}=[0-9a-z%,:]{0,9}|\\[a\\]", 0..8),
        ) {
            let _ = parse_job_file(&lines.join("\n"));
        }

        #[test]
        fn no_trace_panics_and_what_it_asks_is_in_whole_sectors(
            head in prop::sample::select(vec![
                "", "fio version 2 iolog\n", "fio version 3 iolog\n", "1,2,3,0,5\n", "1,R,3,4,5\n",
            ]),
            lines in prop::collection::vec(LINE, 0..6),
        ) {
            let options = TraceOptions {
                format: None,
                speed: 0.5,
                volume: None,
                time: TraceTime::Milliseconds,
            };
            let text = format!("{head}{}", lines.join("\n"));
            let lines = Box::new(Cursor::new(text.into_bytes()));
            let mut reader = TraceReader::new("t", lines, options);
            while let Ok(Some(op)) = reader.next_op() {
                prop_assert!(op.extent.is_aligned(512));
            }
        }
    }
}
