use std::collections::BTreeSet;

use super::{HOURS, Week};
use crate::contender::Contender;

#[test]
fn every_week_is_a_scenario_and_each_hour_has_jobs_of_its_own() {
    for array in Week::arrays() {
        let week = Week::new(array, 2).unwrap();
        let scenario = week.scenario();
        for hour in week.hours() {
            let jobs = scenario.jobs.iter();
            let jobs = jobs.filter(|job| job.name.starts_with(&hour.prefix()));
            assert!(jobs.count() >= 1, "{array} {}", hour.name());
            assert!(hour.leg < scenario.array.legs.len());
        }
        let troubled = week.hours().filter(|hour| !hour.trouble.text.is_empty());
        assert_eq!(scenario.faults.len(), troubled.count());
    }
}

#[test]
fn each_day_has_all_hours_in_its_own_order() {
    let week = Week::new("2nvme", 7).unwrap();
    let days = (0..7).map(|day| {
        let hours = week.hours().filter(|hour| hour.day == day);
        hours.map(|hour| hour.kind).collect()
    });
    let days: Vec<Vec<usize>> = days.collect();
    let orders: BTreeSet<&Vec<usize>> = days.iter().collect();
    assert_eq!(orders.len(), 7);
    for day in &days {
        let kinds: BTreeSet<usize> = day.iter().copied().collect();
        assert_eq!(kinds.len(), HOURS.len());
    }
}

#[test]
fn what_is_no_week_is_named() {
    let told = |array, days| Week::new(array, days).unwrap_err();
    assert!(told("1hdd", 7).contains("'1hdd'; there are 2hdd, "));
    assert!(told("nonsense", 7).contains("'nonsense'"));
    assert!(told("2nvme", 0).contains("0 days") && told("2nvme", u32::MAX).contains("1 to 31"));
}

/// Who reads the slower leg only does what that does, whatever day it is.
#[test]
fn hours_say_what_a_policy_does() {
    let week = Week::new("hdd+ssd", 1).unwrap();
    let contenders = Contender::parse_list("devid:1,devid:2").unwrap();
    let judged = week
        .run(&contenders, &contenders[0], 1, 2, &|_| {})
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(!judged.is_well());
    let hour = |name: &str| {
        let mut hours = judged.hours.iter();
        hours.find(|hour| hour.hour.name() == name).unwrap()
    };
    // An arm does about a hundred reads a second, a SATA drive ten thousand.
    let random = hour("4k-d1");
    assert!(random.ratio < 0.05, "{}", random.ratio);
    assert_eq!(random.best, "devid:2");
    assert!(hour("1stream").ratio > 0.2);
}
