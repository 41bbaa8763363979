//! A file that becomes smaller while it is served is told from one that is well, and never read as
//! zeros or made to grow again.

use std::fs::{self, OpenOptions};

use heliostat_types::{Extent, OpKind};

use super::bench::{Bench, Scratch, open_path};
use crate::{IoChoice, LegOutcome};

const SIZE: u64 = 1 << 20;

#[test]
fn a_file_that_shrank_answers_short() {
    let scratch = Scratch::new();
    for (name, choice) in [("ring", IoChoice::Auto), ("threads", IoChoice::ThreadPool)] {
        let path = scratch.file(name, SIZE);
        let mut bench = Bench::new(open_path(&path), choice);
        let tail = Extent::new(SIZE - 8192, 8192);
        assert_eq!(bench.run(OpKind::Write, tail), LegOutcome::Done);

        let half = SIZE / 2;
        let shorten = || {
            OpenOptions::new()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(half)
        };
        shorten().unwrap();
        let head = Extent::new(0, 4096);
        assert_eq!(bench.run(OpKind::Read, head), LegOutcome::Done);
        let across = Extent::new(half - 4096, 8192);
        for (kind, extent) in [
            (OpKind::Read, tail),
            (OpKind::Read, across),
            (OpKind::Write, head),
            (OpKind::Write, tail),
            (OpKind::Trim, head),
            (OpKind::WriteZeroes, tail),
            (OpKind::BlockStatus, Extent::new(0, SIZE)),
            (OpKind::Flush, Extent::default()),
        ] {
            assert_eq!(bench.run(kind, extent), LegOutcome::Short, "{kind:?}");
            assert_eq!(fs::metadata(&path).unwrap().len(), half, "{kind:?}");
        }
    }
}

#[test]
fn setup_sees_the_end_too() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", SIZE);
    let leg = open_path(&path);
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(4096)
        .unwrap();
    let told = leg.read_at(0, &mut [0; 8192]).unwrap_err().to_string();
    assert!(told.starts_with("cannot read "), "{told}");
}
