use std::thread;
use std::time::Duration;

use heliostat_types::Extent;

use super::{READS_MAX, WatchEnd};
use crate::rig::{Job, Rig, memory_options};
use crate::scratch::Scratch;
use crate::{ArrayOptions, LegSpec};

const NOBODY_GOES: &dyn Fn() -> bool = &|| false;
const LONG: Duration = Duration::from_secs(60);

/// A drive and a hard disk that are models, under this policy.
fn unequal_options(scratch: &Scratch, policy: &str) -> ArrayOptions {
    let leg = |text: &str| LegSpec::parse(text).unwrap();
    ArrayOptions {
        legs: vec![
            leg("model:ssd-sata-1tb,size=4MiB"),
            leg("model:hdd-7200-2tb,size=4MiB"),
        ],
        policy: Some(policy.to_owned()),
        ..memory_options(scratch)
    }
}

/// Reads here and there, one after the other.
fn read(rig: &Rig, count: u64) {
    for at in 0..count {
        let offset = at * 7919 % 1000 * 4096;
        rig.request(Job::Read(Extent::new(offset, 4096))).unwrap();
    }
}

/// Watches up to so many reads while as many are done.
fn watched(rig: &Rig, count: u64) -> crate::WatchedReads {
    thread::scope(|scope| {
        let handle = rig.handle.clone();
        let reads = usize::try_from(count).unwrap();
        let watching = scope.spawn(move || handle.watch_reads(reads, LONG, NOBODY_GOES));
        while !watching.is_finished() {
            read(rig, 1);
        }
        watching.join().unwrap().unwrap()
    })
}

#[test]
fn what_is_believed_and_why_reads_go_where_they_go() {
    let scratch = Scratch::new();
    let rig = Rig::start(&unequal_options(&scratch, "adaptive")).unwrap();
    let told = rig.handle.explain().unwrap();
    assert_eq!(
        (told.name.as_str(), told.policy.as_str()),
        ("disk", "adaptive")
    );
    assert!(told.predicts && told.legs.iter().all(|leg| leg.curves.is_empty()));
    read(&rig, 50);
    let reads = watched(&rig, 20);
    assert_eq!((reads.end, reads.decisions.len()), (WatchEnd::Full, 20));
    assert!(reads.decisions.is_sorted_by_key(|decision| decision.at_ns));
    for decision in &reads.decisions {
        assert_eq!((decision.bytes, decision.legs.len()), (4096, 2));
        let predicted = |leg: usize| decision.legs[leg].predicted_ns.unwrap();
        let chosen = decision.pieces[0].leg;
        if decision.reason.as_deref() == Some("predicted least") {
            assert!(predicted(chosen) <= predicted(1 - chosen), "{decision}");
        }
        assert!(decision.reason.is_some());
    }
    let told = rig.handle.explain().unwrap();
    assert!(
        told.legs.iter().all(|leg| !leg.curves.is_empty()),
        "{told:?}"
    );
    assert_eq!(told.legs[1].facts["writes_share"], 0.0);
    rig.stop();
}

#[test]
fn a_policy_without_beliefs_is_watched_too() {
    let scratch = Scratch::new();
    let rig = Rig::start(&unequal_options(&scratch, "devid:1")).unwrap();
    let told = rig.handle.explain().unwrap();
    assert!(!told.predicts && told.rule.contains("always the leg"));
    let reads = watched(&rig, 3);
    assert!(reads.decisions.iter().all(|decision| {
        decision.pieces[0].leg == 0 && decision.legs[0].predicted_ns.is_none()
    }));
    rig.stop();
}

#[test]
fn a_look_changes_nothing_of_what_is_known() {
    let scratch = Scratch::new();
    let rig = Rig::start(&unequal_options(&scratch, "adaptive:spill_times=7")).unwrap();
    read(&rig, 50);
    let curves = |told: crate::Explanation| -> Vec<_> {
        told.legs.into_iter().map(|leg| leg.curves).collect()
    };
    let first = rig.handle.explain().unwrap();
    assert!(first.policy.contains("spill_times=7"), "{}", first.policy);
    assert_eq!(curves(first), curves(rig.handle.explain().unwrap()));
    rig.stop();
}

#[test]
fn watching_ends_when_time_is_over_or_nobody_is_there_or_the_policy_is_not() {
    let scratch = Scratch::new();
    let rig = Rig::start(&unequal_options(&scratch, "adaptive")).unwrap();
    let idle = rig
        .handle
        .watch_reads(5, Duration::ZERO, NOBODY_GOES)
        .unwrap();
    assert_eq!((idle.end, idle.decisions.len()), (WatchEnd::Waited, 0));
    let gone = rig.handle.watch_reads(5, LONG, &|| true).unwrap();
    assert_eq!(gone.end, WatchEnd::Waited);
    thread::scope(|scope| {
        let handle = rig.handle.clone();
        let watching = scope.spawn(move || handle.watch_reads(READS_MAX, LONG, NOBODY_GOES));
        while !watching.is_finished() {
            // The same policy with other tunables goes on; another one is another one.
            rig.handle.set_policy("adaptive:hedge=off").unwrap();
            read(&rig, 1);
            rig.handle.set_policy("zfs").unwrap();
        }
        let reads = watching.join().unwrap().unwrap();
        assert_eq!(reads.end, WatchEnd::PolicyReplaced);
    });
    rig.stop();
}

#[test]
fn too_much_is_refused_with_what_is_possible() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    for (reads, time) in [
        (0, LONG),
        (READS_MAX + 1, LONG),
        (usize::MAX, LONG),
        (1, Duration::MAX),
    ] {
        let error = rig
            .handle
            .watch_reads(reads, time, NOBODY_GOES)
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("4000") || text.contains("600 s"), "{text}");
    }
    rig.stop();
}

#[test]
fn as_many_watch_as_leave_room_for_others() {
    let watchers = super::Watchers::default();
    let mut all: Vec<_> = (0..4).map(|_| watchers.enter().unwrap()).collect();
    let error = watchers.enter().unwrap_err().to_string();
    assert!(error.contains("4 are watching"), "{error}");
    all.pop();
    assert!(watchers.enter().is_ok());
}

#[test]
fn whoever_watches_an_array_that_stops_is_told() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    let handle = rig.handle.clone();
    let watching = thread::spawn(move || handle.watch_reads(9, LONG, NOBODY_GOES));
    rig.stop();
    let error = watching.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("stopping"), "{error}");
}
