use std::path::Path;

use heliostat_engine::{BackgroundEnd, BackgroundKind, BackgroundStatus, Event, Mismatches};
use heliostat_types::{Duration, Instant, LegSet};

use super::{RUNS_MAX, Unfinished, WorkLog};
use crate::scratch::Scratch;

const CHECK: BackgroundKind = BackgroundKind::Scrub { repair: false };
const REPAIR: BackgroundKind = BackgroundKind::Scrub { repair: true };

fn open(path: &Path, uuid: &str) -> WorkLog {
    let (log, note) = WorkLog::open(Some(path.to_owned()), Some(uuid.to_owned())).unwrap();
    assert_eq!(note, None);
    log
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn begin(log: &mut WorkLog, seconds: u64, kind: BackgroundKind) {
    let total_bytes = 1000;
    log.note_event(at(seconds), &Event::BackgroundStarted { kind, total_bytes });
}

fn found(sectors: u64) -> Mismatches {
    Mismatches {
        sectors,
        runs: 1,
        undecided_sectors: 0,
    }
}

fn end(log: &mut WorkLog, seconds: u64, kind: BackgroundKind, sectors: u64) {
    let event = Event::BackgroundEnded {
        kind,
        end: BackgroundEnd::Done,
        copied_bytes: 7,
        done_bytes: 1000,
        mismatches: found(sectors),
    };
    log.note_event(at(seconds), &event);
}

fn status(kind: BackgroundKind, settled_bytes: u64, sectors: u64) -> BackgroundStatus {
    BackgroundStatus {
        kind,
        legs: LegSet::EMPTY,
        is_paused: false,
        position_bytes: settled_bytes,
        done_bytes: settled_bytes,
        total_bytes: 1000,
        bytes_per_s: 0,
        settled_bytes,
        copied_bytes: 3,
        mismatches: found(sectors),
        time_left: None,
    }
}

#[test]
fn what_scrubs_found_is_known_after_a_restart() {
    let scratch = Scratch::new();
    let path = scratch.path().join("disk.scrubs");
    let mut log = open(&path, "one");
    assert_eq!(log.last_ended_run(), None);
    begin(&mut log, 10, REPAIR);
    assert_eq!(log.last_ended_run(), None);
    end(&mut log, 15, REPAIR, 8);
    begin(&mut log, 20, CHECK);
    end(&mut log, 21, CHECK, 0);
    let runs = log.runs();
    drop(log);
    let log = open(&path, "one");
    assert_eq!(log.runs(), runs);
    assert_eq!((runs[0].mismatch_sectors, runs[0].written_bytes), (8, 7));
    assert_eq!(runs[0].took_ns, 5_000_000_000);
    // A clean check is what is known now.
    let last = log.last_ended_run().unwrap();
    assert_eq!((last.kind.as_str(), last.mismatch_sectors), ("check", 0));
    assert_eq!(log.unfinished(), None);
    // Another array of the same name.
    assert!(open(&path, "two").runs().is_empty());
}

#[test]
fn a_scrub_that_was_cut_short_goes_on_with_its_count() {
    let scratch = Scratch::new();
    let path = scratch.path().join("disk.scrubs");
    let mut log = open(&path, "one");
    begin(&mut log, 10, CHECK);
    assert_eq!(log.next_checkpoint(), Some(at(40)));
    log.checkpoint(at(40), Some(status(CHECK, 600, 5)));
    assert_eq!(log.next_checkpoint(), Some(at(70)));
    // It stepped aside for a rebuild.
    log.checkpoint(at(70), Some(status(BackgroundKind::Rebuild, 0, 0)));
    drop(log);
    let mut log = open(&path, "one");
    let unfinished = Unfinished {
        repair: false,
        from_bytes: 600,
    };
    assert_eq!(log.unfinished(), Some(unfinished));
    begin(&mut log, 3, CHECK);
    end(&mut log, 5, CHECK, 2);
    let runs = log.runs();
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].mismatch_sectors, runs[0].mismatch_runs), (7, 2));
    assert_eq!(runs[0].took_ns, 32_000_000_000);
    assert_eq!(runs[0].compared_bytes, 1000);
    assert_eq!(log.next_checkpoint(), None);
}

#[test]
fn another_scrub_takes_the_place_of_one_that_was_cut_short() {
    let scratch = Scratch::new();
    let path = scratch.path().join("disk.scrubs");
    let mut log = open(&path, "one");
    begin(&mut log, 10, CHECK);
    drop(log);
    let mut log = open(&path, "one");
    begin(&mut log, 1, REPAIR);
    end(&mut log, 2, REPAIR, 0);
    let ends: Vec<Option<String>> = log.runs().into_iter().map(|run| run.end).collect();
    assert_eq!(ends, [Some("stopped".to_owned()), Some("done".to_owned())]);
}

#[test]
fn what_is_remembered_is_bounded() {
    let (mut log, _) = WorkLog::open(None, None).unwrap();
    for second in 0..RUNS_MAX as u64 + 3 {
        begin(&mut log, second, CHECK);
        end(&mut log, second, CHECK, second);
    }
    let runs = log.runs();
    assert_eq!((runs.len(), runs[0].mismatch_sectors), (RUNS_MAX, 3));
    let ended = log.ended();
    assert_eq!(ended.len(), 8);
    assert_eq!(ended[7].number, RUNS_MAX as u64 + 3);
    assert!(
        ended[7].text.starts_with("check: done"),
        "{}",
        ended[7].text
    );
}

#[test]
fn a_file_that_makes_no_sense_is_told_of_and_replaced() {
    let scratch = Scratch::new();
    let path = scratch.path().join("disk.scrubs");
    std::fs::write(&path, "{").unwrap();
    let (mut log, note) = WorkLog::open(Some(path.clone()), None).unwrap();
    assert!(note.unwrap().contains("disk.scrubs"));
    begin(&mut log, 1, CHECK);
    drop(log);
    let (log, note) = WorkLog::open(Some(path), None).unwrap();
    assert_eq!((log.runs().len(), note), (1, None));
}
