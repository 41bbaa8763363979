//! Spares that take the place of a leg that still serves.

use heliostat_format::{DeviceFlags, Superblock};
use heliostat_leg::LegSpec;

use super::returning::{mirror, when_whole};
use crate::rig::Rig;
use crate::scratch::Scratch;
use crate::{ArrayOptions, FlagChange, RateChange, Rates};

fn refusal(rig: &Rig, leg: &str, by: Option<&str>) -> String {
    let error = rig.handle.replace(leg, by, false);
    error.unwrap_err().to_string()
}

fn add(rig: &Rig, spare: &str) {
    let told = rig.handle.add(spare, false, DeviceFlags::default());
    assert!(told.unwrap().contains("is a spare now"));
}

/// Background work goes between these from now on.
fn set_rates(rig: &Rig, rates: Rates) {
    let change = RateChange {
        min_bytes_per_s: Some(rates.min_bytes_per_s),
        max_bytes_per_s: Some(rates.max_bytes_per_s),
    };
    rig.handle.change_rates(change).unwrap();
}

/// So slow that it is under way for as long as a test takes.
const SLOW: Rates = Rates {
    min_bytes_per_s: 0,
    max_bytes_per_s: 1,
};

#[test]
fn a_spare_replaces_a_leg_that_serves() {
    let scratch = Scratch::new();
    let (rig, options, files) = mirror(&scratch, 2);
    let error = refusal(&rig, "0", None);
    assert!(error.contains("has no spare; name the leg"), "{error}");
    add(&rig, &files[2]);
    add(&rig, &files[3]);
    let twice = rig.handle.add(&files[3], true, DeviceFlags::default());
    let error = twice.unwrap_err().to_string();
    assert!(error.contains("is a spare of disk already"), "{error}");
    let error = refusal(&rig, "7", None);
    assert!(error.contains("is none of the legs"), "{error}");
    // The one that is named, and then any.
    set_rates(&rig, SLOW);
    let told = rig.handle.replace("0", Some(&files[3]), false).unwrap();
    assert!(told.contains("leg3 replaces"), "{told}");
    let error = refusal(&rig, "1", None);
    assert!(error.contains("is being replaced already"), "{error}");
    set_rates(&rig, Rates::default());
    let status = when_whole(&rig);
    assert_eq!(
        (&status.legs[0].leg, &status.spares[..]),
        (&files[3], &files[2..3])
    );
    let told = rig.handle.replace("1", None, false).unwrap();
    assert!(told.contains("leg2 replaces"), "{told}");
    let status = when_whole(&rig);
    assert_eq!((&status.legs[1].leg, status.spares.len()), (&files[2], 0));
    assert_eq!(status.legs_in_sync, 2);
    rig.stop();
    let legs = [&files[3], &files[2]].map(|leg| LegSpec::parse(leg).unwrap());
    let legs = legs.to_vec();
    let rig = Rig::start(&ArrayOptions { legs, ..options }).unwrap();
    assert_eq!(rig.handle.status().unwrap().legs_in_sync, 2);
    rig.stop();
}

#[test]
fn a_mirror_grows_in_the_place_of_a_leg_that_was_replaced() {
    let scratch = Scratch::new();
    let (rig, _, files) = mirror(&scratch, 2);
    rig.handle.replace("0", Some(&files[2]), false).unwrap();
    when_whole(&rig);
    // The new leg has the number of the old one, and the free place is behind all of them.
    rig.handle.grow(3, &files[3..4], false).unwrap();
    when_whole(&rig);
    rig.handle.replace("1", Some(&files[4]), false).unwrap();
    let status = when_whole(&rig);
    let legs = status.legs.iter().map(|leg| &leg.leg);
    assert!(legs.eq([&files[2], &files[4], &files[3]]));
    rig.stop();
}

#[test]
fn to_grow_to_as_many_legs_as_there_are_is_nothing_to_do() {
    let scratch = Scratch::new();
    let (rig, _, files) = mirror(&scratch, 2);
    let grow = |legs, new| rig.handle.grow(legs, new, false);
    let told = grow(3, &[]).unwrap();
    assert!(told.contains("1 missing"), "{told}");
    let told = grow(3, &[]).unwrap();
    assert!(told.contains("has 3 legs already"), "{told}");
    let error = grow(4, &[]).unwrap_err().to_string();
    assert!(error.contains("leg 2 is out"), "{error}");
    let error = grow(3, &files[2..3]).unwrap_err().to_string();
    assert!(error.contains("more than 3 in all"), "{error}");
    rig.stop();
}

#[test]
fn a_spare_that_stays_one_says_how_many_legs_there_are() {
    let scratch = Scratch::new();
    let (rig, _, files) = mirror(&scratch, 2);
    let said = |leg: &str| {
        let bytes = std::fs::read(leg).unwrap();
        let superblock = Superblock::parse(&bytes[4096..]).unwrap();
        (superblock.raid_disks, superblock.device_flags)
    };
    add(&rig, &files[2]);
    let slow = DeviceFlags::WRITE_MOSTLY;
    rig.handle.add(&files[3], false, slow).unwrap();
    assert_eq!(said(&files[3]), (2, slow));
    rig.handle.grow(3, &[], false).unwrap();
    let status = when_whole(&rig);
    assert_eq!(status.legs_in_sync, 3);
    assert_eq!(status.spares, files[3..4]);
    assert_eq!(said(&files[3]), (3, slow));
    rig.stop();
}

#[test]
fn spares_that_are_added_at_once_are_different_legs() {
    let scratch = Scratch::new();
    let (rig, options, files) = mirror(&scratch, 2);
    let add = |spare: &str| {
        let told = rig.handle.add(spare, true, DeviceFlags::default());
        told.map_err(|error| error.to_string())
    };
    std::thread::scope(|scope| {
        for spare in &files[2..4] {
            scope.spawn(|| {
                while let Err(error) = add(spare) {
                    assert!(error.contains("try again"), "{error}");
                }
            });
        }
    });
    rig.handle.grow(4, &[], false).unwrap();
    assert_eq!(when_whole(&rig).legs_in_sync, 4);
    rig.stop();
    let legs = files[..4].iter().map(|leg| LegSpec::parse(leg).unwrap());
    let legs = legs.collect();
    let rig = Rig::start(&ArrayOptions { legs, ..options }).unwrap();
    assert_eq!(rig.handle.status().unwrap().legs_in_sync, 4);
    rig.stop();
}

#[test]
fn a_spare_that_is_needed_more_or_too_small_replaces_nothing() {
    let scratch = Scratch::new();
    let (rig, _, files) = mirror(&scratch, 3);
    add(&rig, &files[3]);
    set_rates(&rig, SLOW);
    rig.handle.fail("0").unwrap();
    rig.handle.fail("1").unwrap();
    let error = refusal(&rig, "2", None);
    assert!(error.contains("has no spare"), "it took the place: {error}");
    let error = refusal(&rig, "2", Some(&files[4]));
    assert!(error.contains("leg 1 of disk is out"), "{error}");
    assert!(error.contains(" --control-dir /"), "{error}");
    rig.stop();
}

#[test]
fn what_is_said_of_a_leg_is_kept_on_it() {
    let scratch = Scratch::new();
    let (rig, options, files) = mirror(&scratch, 2);
    let change = |write_mostly, failfast| FlagChange {
        write_mostly,
        failfast,
    };
    let told = rig.handle.set_flags("1", change(Some(true), None)).unwrap();
    assert!(told.ends_with("is write-mostly, not failfast"), "{told}");
    let told = rig.handle.set_flags(&files[1], change(None, Some(true)));
    assert!(told.unwrap().ends_with("is write-mostly, failfast"));
    let error = rig.handle.set_flags("2", change(None, Some(true)));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("is none of the legs"), "{error}");
    rig.crash();
    let rig = Rig::start(&options).unwrap();
    let leg = rig.handle.status().unwrap().legs.remove(1);
    assert!(leg.write_mostly && leg.failfast);
    rig.handle
        .set_flags("1", change(Some(false), None))
        .unwrap();
    // A leg that is out cannot be told, and is told when it is added.
    rig.handle.fail("1").unwrap();
    let error = rig.handle.set_flags("1", change(Some(true), None));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("it is out"), "{error}");
    let flags = DeviceFlags::WRITE_MOSTLY;
    rig.handle.add(&files[1], false, flags).unwrap();
    let leg = when_whole(&rig).legs.remove(1);
    assert!(leg.write_mostly && leg.failfast);
    // So is a spare.
    rig.handle.add(&files[2], false, flags).unwrap();
    let error = rig.handle.set_flags(&files[2], change(Some(false), None));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("is a spare"), "{error}");
    rig.handle.fail("0").unwrap();
    let leg = when_whole(&rig).legs.remove(0);
    assert_eq!(
        (&leg.leg, leg.write_mostly, leg.failfast),
        (&files[2], true, false)
    );
    rig.stop();
}
