//! Arrays that are only read: their legs stay as they are, whatever there is to say to them.

use heliostat_types::{ErrorKind, Extent};

use super::refusal;
use super::returning::mirror;
use crate::rig::{Job, Rig, file, file_options};
use crate::scratch::Scratch;
use crate::{ArrayOptions, ScrubAction, Trust};

const BLOCK: Extent = Extent::new(8192, 4096);

/// Serves these legs read-only for a while, and expects them to hold a byte and to stay as they
/// are.
fn expect_unchanged(options: ArrayOptions, files: &[&String], byte: u8) {
    let contents = || -> Vec<Vec<u8>> { files.iter().map(|f| std::fs::read(f).unwrap()).collect() };
    let before = contents();
    let options = ArrayOptions {
        read_only: true,
        ..options
    };
    let rig = Rig::start(&options).unwrap();
    assert_eq!(rig.request(Job::Read(BLOCK)), Ok(vec![byte; 4096]));
    assert_eq!(rig.request(Job::Write(BLOCK, 1)), Err(ErrorKind::ReadOnly));
    assert_eq!(rig.request(Job::Flush), Ok(Vec::new()));
    std::thread::sleep(std::time::Duration::from_millis(300));
    // What is said of legs meanwhile is true until the end.
    if files.len() > 1 {
        rig.handle.fail(files[1]).unwrap();
        assert_eq!(rig.handle.status().unwrap().legs_in_sync, 1);
        assert_eq!(rig.request(Job::Read(BLOCK)), Ok(vec![byte; 4096]));
    }
    for error in [
        rig.handle.scrub(ScrubAction::Repair).unwrap_err(),
        rig.handle.re_add(files[0]).unwrap_err(),
        rig.handle.replace("0", None, false).unwrap_err(),
        rig.handle.grow(3, &[], false).unwrap_err(),
    ] {
        assert!(error.to_string().contains("read-only"), "{error}");
    }
    rig.stop();
    assert!(before == contents(), "the legs have changed");
}

#[test]
fn the_legs_of_an_array_that_is_only_read_stay_as_they_are() {
    let scratch = Scratch::new();
    let (rig, options, files) = mirror(&scratch, 2);
    rig.request(Job::Write(BLOCK, 7)).unwrap();
    rig.stop();
    let both = [&files[0], &files[1]];
    expect_unchanged(options.clone(), &both, 7);
    // One that others do not count on: that is said to them when it is first served so.
    let alone = ArrayOptions {
        degraded_ok: true,
        legs: options.legs[..1].to_vec(),
        ..options.clone()
    };
    expect_unchanged(alone, &both[..1], 7);
    // And it is no reason to leave the other one out later.
    let rig = Rig::start(&options).unwrap();
    assert_eq!(rig.handle.status().unwrap().legs_in_sync, 2);
    rig.stop();
}

#[test]
fn what_was_not_ended_is_not_ended_by_reading_either() {
    let scratch = Scratch::new();
    let (rig, _, files) = mirror(&scratch, 2);
    rig.request(Job::Write(BLOCK, 7)).unwrap();
    // As the power would have left them.
    let left = Scratch::new();
    let copies: Vec<String> = (0..2).map(|leg| file(&left, leg)).collect();
    for (from, to) in files.iter().zip(&copies) {
        std::fs::copy(from, to).unwrap();
    }
    rig.stop();
    expect_unchanged(file_options(&left, 2), &[&copies[0], &copies[1]], 7);
}

#[test]
fn of_raw_legs_that_are_only_read_nothing_is_remembered() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    let files = [file(&scratch, 0), file(&scratch, 1)];
    let read_only = ArrayOptions {
        read_only: true,
        ..options.clone()
    };
    let rig = Rig::start(&read_only).unwrap();
    rig.handle.fail(&files[1]).unwrap();
    assert_eq!(rig.request(Job::Read(BLOCK)), Ok(vec![0; 4096]));
    rig.stop();
    let rig = Rig::start(&options).unwrap();
    assert_eq!(rig.handle.status().unwrap().legs_in_sync, 2);
    rig.stop();
}

#[test]
fn legs_without_metadata_are_not_copied_where_they_are_only_read() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    let options = ArrayOptions {
        read_only: true,
        trust: Trust::CopyFrom(file(&scratch, 0)),
        ..options
    };
    let error = refusal(&options);
    assert!(error.contains("--read-only"), "{error}");
}
