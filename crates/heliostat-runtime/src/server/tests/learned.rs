//! What the read policy has learned, over restarts.

use std::fs;

use heliostat_types::Extent;

use crate::ArrayOptions;
use crate::rig::{Job, Rig, file_options};
use crate::scratch::Scratch;

fn adaptive(scratch: &Scratch) -> ArrayOptions {
    ArrayOptions {
        policy: Some("adaptive".to_owned()),
        ..file_options(scratch, 2)
    }
}

fn read(rig: &Rig, count: u64) {
    for index in 0..count {
        let extent = Extent::new(index * 37 % 64 * 4096, 4096);
        rig.request(Job::Read(extent)).unwrap();
    }
}

/// How many reads of each leg the curves of an array are worth that nobody has read yet.
fn known(rig: &Rig) -> Vec<u64> {
    let explanation = rig.handle.explain().unwrap();
    let legs = explanation.legs.iter();
    let weights = legs.map(|leg| leg.curves.iter().map(|curve| curve.weight_reads).sum());
    weights.collect()
}

#[test]
fn what_was_learned_is_back_at_the_next_start() {
    let scratch = Scratch::new();
    let options = adaptive(&scratch);
    let rig = Rig::start(&options).unwrap();
    assert_eq!(known(&rig), [0, 0]);
    read(&rig, 100);
    rig.stop();
    let rig = Rig::start(&options).unwrap();
    let weights = known(&rig);
    assert!(weights.iter().all(|weight| *weight > 0), "{weights:?}");
    // Nobody has read anything: it is as it was.
    rig.stop();
    let rig = Rig::start(&options).unwrap();
    assert_eq!(known(&rig), weights);
    rig.stop();
    let transient = ArrayOptions {
        keeps_settings: false,
        ..options
    };
    let rig = Rig::start(&transient).unwrap();
    assert_eq!(known(&rig), [0, 0]);
    rig.stop();
}

#[test]
fn another_policy_in_between_does_not_make_it_forgotten() {
    let scratch = Scratch::new();
    let options = adaptive(&scratch);
    let rig = Rig::start(&options).unwrap();
    read(&rig, 100);
    rig.handle.set_policy("queue").unwrap();
    read(&rig, 10);
    rig.handle.set_policy("adaptive").unwrap();
    let explanation = rig.handle.explain().unwrap();
    assert!(explanation.legs.iter().all(|leg| !leg.curves.is_empty()));
    rig.handle.set_policy("queue").unwrap();
    rig.stop();
    // The last decision was 'queue'.
    let rig = Rig::start(&options).unwrap();
    assert_eq!(known(&rig), [0, 0]);
    rig.handle.set_policy("adaptive").unwrap();
    assert!(known(&rig).iter().all(|weight| *weight > 0));
    rig.stop();
}

#[test]
fn a_device_that_is_another_one_begins_anew() {
    let scratch = Scratch::new();
    let options = adaptive(&scratch);
    let rig = Rig::start(&options).unwrap();
    read(&rig, 100);
    rig.stop();
    let path = options.places.learned("disk");
    let text = fs::read_to_string(&path).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&text).unwrap();
    let devices = kept["devices"].as_object().unwrap();
    assert_eq!(
        (kept["policy"].as_str(), devices.len()),
        (Some("adaptive"), 2)
    );
    let unknown = text.replace(devices.keys().next().unwrap(), "somewhere else");
    fs::write(&path, unknown).unwrap();
    let rig = Rig::start(&options).unwrap();
    let weights = known(&rig);
    let unknown = weights.iter().filter(|weight| **weight == 0);
    assert_eq!(unknown.count(), 1, "{weights:?}");
    rig.stop();
}

#[test]
fn a_file_that_makes_no_sense_is_of_no_use_and_no_harm() {
    let scratch = Scratch::new();
    let options = adaptive(&scratch);
    let path = options.places.learned("disk");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = |version: u32, numbers: &str| {
        format!(r#"{{"version":{version},"policy":"adaptive","devices":{{"a":{numbers}}}}}"#)
    };
    for text in [
        String::new(),
        "[".to_owned(),
        file(2, "[1]"),
        file(1, "[null]"),
        file(1, "[1e999]"),
    ] {
        fs::write(&path, &text).unwrap();
        let rig = Rig::start(&options).unwrap();
        assert_eq!(known(&rig), [0, 0], "{text}");
        rig.crash();
        fs::remove_file(&path).unwrap();
    }
}
