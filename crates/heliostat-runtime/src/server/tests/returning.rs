//! Legs that come back: which ones, as what, and which ones only by force.

use std::time::{Duration, Instant};

use heliostat_format::{DeviceFlags, NewBitmap};
use heliostat_types::Extent;

use crate::rig::{Job, Notes, Rig, file, file_options, new_array};
use crate::scratch::Scratch;
use crate::{ArrayOptions, ArrayStatus, CreateOptions, RateChange};

/// How long the rebuild of a few MiB may take on a busy machine.
const REBUILD_TIME_MAX: Duration = Duration::from_secs(60);

/// A served mirror of so many legs, and their files.
pub(super) fn mirror(scratch: &Scratch, count: usize) -> (Rig, ArrayOptions, Vec<String>) {
    let options = file_options(scratch, count);
    let array = CreateOptions {
        bitmap: Some(NewBitmap {
            chunk_bytes: Some(4096),
            ..NewBitmap::default()
        }),
        ..new_array(&options)
    };
    crate::create(&array, &mut Notes::default()).unwrap();
    let rig = Rig::start(&options).unwrap();
    let fast = RateChange {
        min_bytes_per_s: Some(1 << 40),
        max_bytes_per_s: Some(1 << 40),
    };
    rig.handle.change_rates(fast).unwrap();
    let files = (0..6).map(|leg| file(scratch, leg)).collect();
    (rig, options, files)
}

fn write(rig: &Rig, byte: u8) {
    let extent = Extent::new(4096 * u64::from(byte), 4096);
    rig.request(Job::Write(extent, byte)).unwrap();
}

/// Fails legs in turn, with a write behind each.
fn fail(rig: &Rig, legs: &[&str]) {
    for (byte, leg) in (1..).zip(legs) {
        rig.handle.fail(leg).unwrap();
        write(rig, byte);
    }
}

/// How the array is when it is so.
pub(super) fn when(rig: &Rig, is_so: impl Fn(&ArrayStatus) -> bool) -> ArrayStatus {
    let start = Instant::now();
    loop {
        let status = rig.handle.status().unwrap();
        if is_so(&status) {
            return status;
        }
        assert!(start.elapsed() < REBUILD_TIME_MAX, "{status:?}");
    }
}

fn when_done(rig: &Rig) -> ArrayStatus {
    when(rig, |status| {
        let mut legs = status.legs.iter();
        status.background.is_none() && legs.all(|leg| leg.state != "rebuilding")
    })
}

/// How the array is when it lacks nothing.
pub(super) fn when_whole(rig: &Rig) -> ArrayStatus {
    when(rig, |status| {
        status.replacement.is_none() && status.legs_in_sync == status.legs_wanted
    })
}

/// Adds a leg, which has to be said in these words, and waits until it is filled.
fn add(rig: &Rig, leg: &str, words: &str) {
    let told = rig.handle.add(leg, false, DeviceFlags::default()).unwrap();
    assert!(told.contains(words), "{told}");
    when_done(rig);
}

fn refusal(rig: &Rig, leg: &str) -> String {
    rig.handle
        .add(leg, false, DeviceFlags::default())
        .unwrap_err()
        .to_string()
}

#[test]
fn legs_that_failed_in_turn_come_back_in_any_order() {
    let scratch = Scratch::new();
    let (rig, options, files) = mirror(&scratch, 3);
    let by_bits = "that it missed are copied";
    for order in [[0, 1], [1, 0]] {
        fail(&rig, &["0", "1"]);
        for leg in order {
            add(&rig, &files[leg], by_bits);
        }
        fail(&rig, &["0", "1"]);
        for leg in order {
            rig.handle.re_add(&files[leg]).unwrap();
            when_done(&rig);
        }
    }
    // Also where nobody saw them leave.
    fail(&rig, &["0", "1"]);
    rig.stop();
    let rig = Rig::start(&options).unwrap();
    add(&rig, &files[0], by_bits);
    rig.stop();
    let rig = Rig::start(&options).unwrap();
    let note = rig.notes.iter().find(|note| note.contains(&files[1]));
    let note = note.expect("leg 1 is out");
    assert!(
        note.contains("brings it back") && !note.contains("--force"),
        "{note}"
    );
    add(&rig, &files[1], by_bits);
    assert_eq!(rig.handle.status().unwrap().legs_in_sync, 3);
    rig.stop();
    let start = 1 << 20;
    let data = |leg: usize| std::fs::read(&files[leg]).unwrap().split_off(start);
    assert!(data(0) == data(2) && data(1) == data(2));
}

#[test]
fn a_leg_whose_place_was_taken_comes_back_as_a_new_one() {
    let scratch = Scratch::new();
    let (rig, _, files) = mirror(&scratch, 2);
    fail(&rig, &["0"]);
    add(&rig, &files[2], "leg 0 now, and in sync when all");
    fail(&rig, &["1"]);
    let error = rig.handle.re_add(&files[0]).unwrap_err().to_string();
    assert!(
        error.contains("was leg 0, and another leg has its place"),
        "{error}"
    );
    add(
        &rig,
        &files[0],
        "leg 1 now, as a new one, and in sync when all",
    );
    // One whose place was not taken, but that was away for too long.
    fail(&rig, &["0"]);
    add(&rig, &files[1], "leg 0 now, as a new one");
    assert_eq!(when_done(&rig).legs_in_sync, 2);
    // Where nobody is missing it waits for that.
    let told = rig
        .handle
        .add(&files[2], false, DeviceFlags::default())
        .unwrap();
    assert!(told.contains("is a spare now"), "{told}");
    // It has no data of the array any more that could be newer.
    rig.handle.remove(&files[2]).unwrap();
    fail(&rig, &["0"]);
    add(&rig, &files[2], "leg 0 now, and in sync when all");
    // A leg that was replaced, likewise.
    rig.handle.replace("1", Some(&files[3]), false).unwrap();
    when_whole(&rig);
    rig.handle.remove(&files[0]).unwrap();
    let told = rig
        .handle
        .add(&files[0], false, DeviceFlags::default())
        .unwrap();
    assert!(told.contains("is a spare now"), "{told}");
    rig.stop();
}

#[test]
fn a_leg_that_may_know_more_comes_back_by_force_only() {
    let scratch = Scratch::new();
    let (rig, options, files) = mirror(&scratch, 3);
    // A copy of a leg that is there.
    std::fs::copy(&files[2], &files[3]).unwrap();
    let error = refusal(&rig, &files[3]);
    assert!(error.contains("is a copy of leg 2 of disk"), "{error}");
    fail(&rig, &["0", "1"]);
    rig.handle.remove("0").unwrap();
    rig.handle.remove("1").unwrap();
    // Both go on elsewhere.
    let elsewhere = Scratch::new();
    let other = ArrayOptions {
        legs: options.legs[..2].to_vec(),
        degraded_ok: true,
        places: file_options(&elsewhere, 1).places,
        ..options
    };
    let split = Rig::start(&other).unwrap();
    write(&split, 7);
    split.stop();
    add(&rig, &files[0], "that it missed are copied");
    fail(&rig, &["0"]);
    add(&rig, &files[0], "that it missed are copied");
    let error = refusal(&rig, &files[1]);
    assert!(
        error.contains("may hold changes that disk lacks"),
        "{error}"
    );
    let error = rig.handle.re_add(&files[1]).unwrap_err().to_string();
    assert!(error.contains("'heliostat add disk"), "{error}");
    // And for longer than the array.
    let other = ArrayOptions {
        legs: other.legs[1..].to_vec(),
        ..other
    };
    for _ in 0..10 {
        let split = Rig::start(&other).unwrap();
        write(&split, 7);
        split.stop();
    }
    let error = refusal(&rig, &files[1]);
    assert!(error.contains("is newer than disk"), "{error}");
    let told = rig
        .handle
        .add(&files[1], true, DeviceFlags::default())
        .unwrap();
    assert!(told.contains("all of it is copied"), "{told}");
    when_done(&rig);
    rig.stop();
}

#[test]
fn after_a_crash_one_leg_that_is_left_is_not_resynced() {
    let scratch = Scratch::new();
    let (rig, options, files) = mirror(&scratch, 2);
    fail(&rig, &["1"]);
    // What a power cut leaves of it: nobody has said that it is clean.
    let crashed = std::fs::read(&files[0]).unwrap();
    rig.stop();
    std::fs::write(&files[0], crashed).unwrap();
    let alone = ArrayOptions {
        legs: options.legs[..1].to_vec(),
        ..options
    };
    let rig = Rig::start(&alone).unwrap();
    let note = rig.notes.iter().find(|note| note.contains("in order"));
    let note = note.expect("it was not stopped in order");
    assert!(note.ends_with("one leg is there, so that nothing differs"));
    when(&rig, |status| status.state == "clean");
    let stats = rig.handle.stats().unwrap();
    // The table of volumes is looked for in the first MiB and in the last.
    assert!(stats.legs[0].reads <= 2, "{:?}", stats.legs);
    rig.stop();
}

#[test]
fn a_leg_that_is_not_there_is_called_so_in_words() {
    let scratch = Scratch::new();
    let (rig, options, _) = mirror(&scratch, 2);
    rig.stop();
    let alone = ArrayOptions {
        legs: options.legs[..1].to_vec(),
        degraded_ok: true,
        ..options
    };
    let rig = Rig::start(&alone).unwrap();
    let removed = rig.handle.remove("1").unwrap_err().to_string();
    assert_eq!(removed, "leg 1 is missing: there is nothing to remove");
    let failed = rig.handle.fail("1").unwrap_err().to_string();
    assert_eq!(failed, "leg 1 is missing already");
    let reset = rig.handle.reset_stats(Some("1".to_owned())).unwrap();
    assert_eq!(reset, "the statistics of leg 1 begin now");
    let unknown = rig.handle.fail("2").unwrap_err().to_string();
    assert!(unknown.ends_with(", 1 (missing)"), "{unknown}");
    rig.stop();
}
