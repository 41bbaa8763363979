//! A file that becomes smaller while it is served is told from one that is well, and never read as
//! zeros or made to grow again.

use std::fs::{self, OpenOptions};
use std::path::Path;

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
        shorten(&path, half);
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
fn setup_takes_nothing_that_is_missing_for_zeros() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", SIZE);
    let leg = open_path(&path);
    leg.write_at(SIZE - 4096, &[7; 4096]).unwrap();
    assert!(leg.is_whole().unwrap());
    let half = SIZE / 2;
    shorten(&path, half);
    assert!(!leg.is_whole().unwrap());

    let across = leg.read_at(half - 4096, &mut [0; 8192]).unwrap_err();
    assert!(across.to_string().starts_with("cannot read "), "{across}");
    let before = leg.read_at(0, &mut [0; 4096]).unwrap_err();
    assert!(before.to_string().ends_with("smaller since it was opened"));
    for at in [0, half, SIZE - 4096] {
        leg.write_at(at, &[7; 4096]).unwrap_err();
        assert_eq!(fs::metadata(&path).unwrap().len(), half, "{at}");
    }
    leg.sync().unwrap_err();

    for at in [0, half, SIZE - 4096] {
        let mut runs = leg.data_runs(at);
        let told = runs.next().unwrap().unwrap_err().to_string();
        assert!(told.starts_with("cannot look for data in "), "{told}");
        assert!(runs.next().is_none());
    }
}

#[test]
fn a_file_that_shrinks_between_two_runs_is_told() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", SIZE);
    let leg = open_path(&path);
    for at in [0, SIZE / 2] {
        leg.write_at(at, &[7; 4096]).unwrap();
    }
    let mut runs = leg.data_runs(0);
    runs.next().unwrap().unwrap();
    shorten(&path, 4096);
    // On a file system that knows no holes the first run was all there is.
    assert!(runs.next().is_none_or(|run| run.is_err()));
    assert!(!leg.is_whole().unwrap());
}

fn shorten(path: &Path, size_bytes: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(size_bytes).unwrap();
}
