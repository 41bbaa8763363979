use heliostat_format::DeviceFlags;
use heliostat_types::{ErrorKind, Extent};

use crate::control::PolicyChange;
use crate::rig::{
    Fails, Job, LEG_BYTES, Rig, file, file_options, make_array, memory_options, options, trusting,
};
use crate::scratch::Scratch;
use crate::{ArrayOptions, ArrayStatus, RateChange, Registered, ScrubAction, Trust};

mod learned;
mod read_only;
mod returning;
mod spares;
mod volumes;

const BLOCK: Extent = Extent::new(4096, 4096);

fn refusal(options: &ArrayOptions) -> String {
    Rig::start(options).unwrap_err().to_string()
}

#[test]
fn what_was_written_is_read() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    assert_eq!(
        rig.request(Job::Write(Extent::new(1000, 9000), 7)),
        Ok(vec![])
    );
    assert_eq!(rig.request(Job::Flush), Ok(vec![]));
    let bytes = rig.request(Job::Read(Extent::new(999, 9002))).unwrap();
    assert!(bytes[0] == 0 && bytes[9001] == 0 && bytes[1..9001].iter().all(|&byte| byte == 7));
    let stats = rig.handle.stats().unwrap();
    assert_eq!(stats.size_bytes, LEG_BYTES);
    assert_eq!(
        stats.legs.iter().map(|leg| leg.writes).collect::<Vec<_>>(),
        [1, 1, 1]
    );
    let reads: u64 = stats.legs.iter().map(|leg| leg.reads).sum();
    assert!(reads >= 1 && stats.legs.iter().all(|leg| leg.state == "in-sync"));
    assert!(rig.stop().is_clean);
}

#[test]
fn many_requests_at_once_are_all_answered() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    for index in 0..500 {
        rig.ask(Job::Read(Extent::new(index * 512, 512)));
    }
    for _ in 0..500 {
        assert_eq!(rig.outcome(), Ok(vec![0; 512]));
    }
    assert!(rig.stop().is_clean);
}

#[test]
fn service_times_of_legs_in_memory_are_not_nothing() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    rig.request(Job::Read(Extent::new(0, 1 << 20))).unwrap();
    let stats = rig.handle.stats().unwrap();
    let leg = stats.legs.iter().find(|leg| leg.reads > 0).unwrap();
    assert!(leg.read_service_time_ns.max > 0);
    rig.stop();
}

#[test]
fn statistics_begin_anew_where_there_are_any() {
    let scratch = Scratch::new();
    let options = memory_options(&scratch);
    let rig = Rig::start(&options).unwrap();
    let told = rig.handle.reset_stats(None).unwrap();
    assert_eq!(told, "the statistics of disk begin now");
    rig.stop();
    let uncounted = ArrayOptions {
        accounting: false,
        ..options
    };
    let rig = Rig::start(&uncounted).unwrap();
    for leg in [None, Some("0".to_owned())] {
        let told = rig.handle.reset_stats(leg).unwrap();
        assert!(told.starts_with("nothing is counted of "), "{told}");
    }
    rig.stop();
}

#[test]
fn rates_that_are_set_live_are_back_at_the_next_start() {
    let scratch = Scratch::new();
    let options = ArrayOptions {
        rates: rates(None, Some(50_000_000)),
        ..memory_options(&scratch)
    };
    let rig = Rig::start(&options).unwrap();
    let told = |rig: &Rig| {
        let rates = rig.handle.status().unwrap().background_rates;
        (rates.min_bytes_per_s, rates.max_bytes_per_s)
    };
    assert_eq!(told(&rig), (1_000_000, 50_000_000));
    let error = rig.handle.change_rates(rates(Some(60_000_000), None));
    assert!(error.unwrap_err().to_string().contains("above the ceiling"));
    rig.handle
        .change_rates(rates(Some(2_000_000), Some(3_000_000)))
        .unwrap();
    assert_eq!(told(&rig), (2_000_000, 3_000_000));
    rig.stop();
    let rig = Rig::start(&options).unwrap();
    assert_eq!(told(&rig), (2_000_000, 3_000_000));
    rig.stop();
    // The floor is the one that was set live, and the new ceiling lies below it.
    let lower = ArrayOptions {
        rates: rates(None, Some(1_000_000)),
        ..options.clone()
    };
    let error = refusal(&lower);
    assert!(error.contains("--resync-min"), "{error}");
    let transient = ArrayOptions {
        keeps_settings: false,
        ..options
    };
    let rig = Rig::start(&transient).unwrap();
    rig.handle.change_rates(rates(Some(0), Some(1))).unwrap();
    rig.stop();
    let rig = Rig::start(&transient).unwrap();
    assert_eq!(told(&rig), (2_000_000, 3_000_000));
    rig.stop();
}

fn rates(min: Option<u64>, max: Option<u64>) -> RateChange {
    RateChange {
        min_bytes_per_s: min,
        max_bytes_per_s: max,
    }
}

#[test]
fn writes_are_refused_where_nothing_may_be_written() {
    let scratch = Scratch::new();
    let options = ArrayOptions {
        read_only: true,
        ..memory_options(&scratch)
    };
    let rig = Rig::start(&options).unwrap();
    assert_eq!(rig.request(Job::Write(BLOCK, 1)), Err(ErrorKind::ReadOnly));
    assert_eq!(rig.request(Job::Read(BLOCK)), Ok(vec![0; 4096]));
    assert!(rig.stop().is_clean);
}

#[test]
fn an_end_leaves_nothing_behind_but_what_is_remembered() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    let rig = Rig::start(&options).unwrap();
    assert!(options.places.socket("disk").exists());
    // Whoever serves the name is named.
    let others = file_options(&Scratch::new(), 2).legs;
    let same_name = ArrayOptions {
        legs: others,
        ..options.clone()
    };
    let error = refusal(&same_name);
    assert!(error.contains(&std::process::id().to_string()), "{error}");
    rig.request(Job::Write(BLOCK, 1)).unwrap();
    assert!(rig.stop().is_clean);
    let left: Vec<String> = std::fs::read_dir(&options.places.control)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(left.len() == 1 && left[0].ends_with(".state"), "{left:?}");
}

#[test]
fn an_export_that_ends_by_itself_ends_the_array() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    rig.ask(Job::End);
    assert!(rig.end().is_clean);
}

#[test]
fn an_export_that_cannot_start_is_an_error() {
    let scratch = Scratch::new();
    let options = memory_options(&scratch);
    for fails in [Fails::Early, Fails::Late] {
        let error = Rig::start_with(&options, fails).unwrap_err();
        assert!(error.to_string().contains("taken"));
        assert!(!options.places.socket("disk").exists());
    }
    assert!(Rig::start(&options).unwrap().stop().is_clean);
}

#[test]
fn where_an_export_cannot_be_no_leg_hears_of_the_start() {
    let scratch = Scratch::new();
    let mut degraded = file_options(&scratch, 2);
    make_array(&degraded);
    degraded.legs.pop();
    degraded.degraded_ok = true;
    let bytes = || std::fs::read(file(&scratch, 0)).unwrap();
    let before = bytes();
    Rig::start_with(&degraded, Fails::Early).unwrap_err();
    assert!(bytes() == before, "nobody is out yet");
    Rig::start(&degraded).unwrap().stop();
    assert!(bytes() != before, "the other leg is");
}

#[test]
fn a_scrub_is_not_begun_anew_by_asking_twice() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    make_array(&options);
    let rig = Rig::start(&options).unwrap();
    // So slow that it is under way for as long as this takes.
    rig.handle.change_rates(rates(Some(0), Some(1))).unwrap();
    let told = rig.handle.scrub(ScrubAction::Check).unwrap();
    assert!(
        told.contains("'heliostat status disk --control-dir "),
        "{told}"
    );
    let error = rig.handle.scrub(ScrubAction::Check).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("a check is under way already"), "{error}");
    let told = rig.handle.scrub(ScrubAction::Repair).unwrap();
    assert!(told.contains("in the place of the check"), "{told}");
    rig.handle.scrub(ScrubAction::Cancel).unwrap();
    rig.stop();
}

#[test]
fn a_leg_that_was_removed_is_not_looked_for_again() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 3);
    make_array(&options);
    let legs = || {
        let known = Registered::load(&options.places, &options.name);
        known.unwrap().legs
    };
    let rig = Rig::start(&options).unwrap();
    rig.handle.fail("1").unwrap();
    assert_eq!(legs().len(), 3, "it may be asked for again");
    rig.handle.remove("1").unwrap();
    assert_eq!(legs(), [0, 2].map(|leg| file(&scratch, leg)));
    // One that was not removed is looked for, whatever becomes of others.
    rig.handle.fail("2").unwrap();
    rig.handle
        .add(&file(&scratch, 1), true, DeviceFlags::default())
        .unwrap();
    let mut known = legs();
    known.sort();
    assert_eq!(known, [0, 1, 2].map(|leg| file(&scratch, leg)));
    rig.stop();
}

#[test]
fn legs_are_replaced_in_turn_and_called_by_their_roles() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    make_array(&options);
    let rig = Rig::start(&options).unwrap();
    let [kept, first, second, third] = [0, 1, 2, 3].map(|leg| file(&scratch, leg));
    let names = |status: &ArrayStatus| -> Vec<String> {
        let legs = status.legs.iter().enumerate();
        legs.map(|(role, leg)| {
            assert_eq!(leg.role, role);
            leg.leg.clone()
        })
        .collect()
    };
    assert_eq!(rig.handle.stats().unwrap().legs.len(), 2);
    rig.handle.replace("1", Some(&second), false).unwrap();
    let status = loop {
        let status = rig.handle.status().unwrap();
        if status.replacement.is_none() {
            break status;
        }
    };
    assert_eq!(names(&status), [kept.clone(), second.clone()]);
    assert_eq!(status.former, std::slice::from_ref(&first));
    // So slow that it is under way for as long as this takes, with what was the second number.
    rig.handle.change_rates(rates(Some(0), Some(1))).unwrap();
    rig.handle.replace("1", Some(&third), false).unwrap();
    let status = rig.handle.status().unwrap();
    assert_eq!(names(&status), [kept.clone(), second.clone()]);
    assert_eq!(status.legs[1].replaced_by, Some(third.clone()));
    let replacement = status.replacement.unwrap();
    assert_eq!((replacement.role, &replacement.leg), (1, &third));
    assert_eq!(rig.handle.stats().unwrap().legs.len(), 3);
    let known = Registered::load(&options.places, &options.name).unwrap();
    assert_eq!(known.legs, [&kept, &second, &third].map(String::clone));
    let error = rig.handle.replace("0", Some(&first), true).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("is being replaced already"), "{error}");
    // The one that has the role, and not the one that is to have it, which goes on instead.
    rig.handle.fail("1").unwrap();
    let status = rig.handle.status().unwrap();
    assert_eq!(names(&status), [kept, third]);
    assert_eq!(status.former, [second]);
    assert_eq!(
        (status.legs[1].state.as_str(), status.legs_in_sync),
        ("rebuilding", 1)
    );
    rig.stop();
}

#[test]
fn raw_legs_are_not_replaced() {
    let scratch = Scratch::new();
    let options = trusting(&file_options(&scratch, 2), Trust::AssumeClean);
    let rig = Rig::start(&options).unwrap();
    let error = rig.handle.replace("1", Some(&file(&scratch, 2)), false);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the legs of this array are raw"), "{error}");
    rig.stop();
}

#[test]
fn a_client_that_is_stuck_does_not_hold_up_the_end() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    let rig = Rig::start(&options).unwrap();
    rig.request(Job::Write(BLOCK, 1)).unwrap();
    rig.ask(Job::GetStuck);
    rig.request(Job::Read(BLOCK)).unwrap();
    // Said twice it is urgent; how long once takes at most is tested where that is decided.
    rig.handle.stop();
    // That it comes back is what is tested. Whether the flush was done in the little time that is
    // left when it is urgent depends on the machine.
    rig.stop();
}

#[test]
fn a_crash_after_a_write_is_remembered_and_mended() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    let rig = Rig::start(&options).unwrap();
    rig.request(Job::Write(BLOCK, 1)).unwrap();
    rig.crash();

    let other_name = ArrayOptions {
        name: "other".to_owned(),
        ..options.clone()
    };
    let error = refusal(&other_name);
    for part in [
        "not stopped cleanly",
        "--copy-from",
        "--assume-clean",
        "array 'disk'",
    ] {
        assert!(error.contains(part), "no '{part}' in: {error}");
    }
    // The legs differ now, and the second one is right.
    std::fs::write(
        file(&scratch, 1),
        vec![9; usize::try_from(LEG_BYTES).unwrap()],
    )
    .unwrap();
    let mended = trusting(&options, Trust::CopyFrom(file(&scratch, 1)));
    let rig = Rig::start(&mended).unwrap();
    assert!(
        rig.notes.iter().any(|note| note.contains("copying")),
        "{:?}",
        rig.notes
    );
    assert_eq!(rig.request(Job::Read(BLOCK)), Ok(vec![9; 4096]));
    assert!(rig.stop().is_clean);
    assert_eq!(
        std::fs::read(file(&scratch, 0)).unwrap(),
        std::fs::read(file(&scratch, 1)).unwrap()
    );
    assert!(Rig::start(&options).unwrap().stop().is_clean);
}

#[test]
fn a_crash_without_a_write_is_none() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    let rig = Rig::start(&options).unwrap();
    rig.request(Job::Read(BLOCK)).unwrap();
    rig.crash();
    assert!(Rig::start(&options).unwrap().stop().is_clean);
}

#[test]
fn a_user_may_say_that_legs_are_equal() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    let rig = Rig::start(&options).unwrap();
    rig.request(Job::Write(BLOCK, 1)).unwrap();
    rig.crash();
    let rig = Rig::start(&trusting(&options, Trust::AssumeClean)).unwrap();
    // From the start on, not only from a clean end.
    rig.crash();
    assert!(Rig::start(&options).unwrap().stop().is_clean);
}

#[test]
fn a_leg_that_fails_is_remembered() {
    let scratch = Scratch::new();
    let (first, second) = (file(&scratch, 0), file(&scratch, 1));
    let failing = format!("model:ram,file={second},error=write");
    let rig = Rig::start(&options(&scratch, &[&first, &failing])).unwrap();
    assert_eq!(rig.request(Job::Write(BLOCK, 1)), Ok(vec![]));
    let stats = rig.handle.stats().unwrap();
    assert_eq!(stats.legs[1].state, "faulted");
    assert_eq!(rig.request(Job::Read(BLOCK)), Ok(vec![1; 4096]));
    // The legs that are left are equal and durable; what is remembered is that one is out.
    assert!(rig.stop().is_clean);

    let whole = options(&scratch, &[&first, &format!("model:ram,file={second}")]);
    let error = refusal(&whole);
    assert!(
        error.contains("was faulted at") && error.contains("a write failed"),
        "{error}"
    );
    let rig = Rig::start(&trusting(&whole, Trust::CopyFrom(first.clone()))).unwrap();
    assert_eq!(rig.handle.stats().unwrap().legs[1].state, "in-sync");
    assert!(rig.stop().is_clean);
    assert!(Rig::start(&whole).unwrap().stop().is_clean);
}

#[test]
fn the_policy_is_switched_and_kept() {
    let scratch = Scratch::new();
    let start = |policy: Option<&str>, keeps_settings| {
        let options = ArrayOptions {
            policy: policy.map(str::to_owned),
            keeps_settings,
            ..memory_options(&scratch)
        };
        Rig::start(&options).unwrap()
    };
    let rig = start(Some("pid"), true);
    assert!(rig.handle.policy().unwrap().starts_with("[pid] "));
    assert_eq!(
        rig.handle.set_policy("round-robin:65536").unwrap(),
        "round-robin:65536"
    );
    assert!(rig.handle.policy().unwrap().contains("[round-robin:65536]"));
    for wrong in ["no-such", "round-robin:x", "devid:4"] {
        let error = rig.handle.set_policy(wrong).unwrap_err().to_string();
        assert!(error.starts_with("invalid argument: "), "{error}");
    }
    assert_eq!(rig.request(Job::Read(BLOCK)), Ok(vec![0; 4096]));
    rig.crash();

    let rig = start(Some("pid"), false);
    assert_eq!(rig.handle.stats().unwrap().policy, "round-robin:65536");
    rig.handle.set_policy("queue").unwrap();
    rig.stop();
    let rig = start(None, true);
    let for_now = PolicyChange {
        policy: "pid".to_owned(),
        transient: true,
    };
    assert_eq!(rig.handle.change_policy(&for_now).unwrap(), "pid");
    rig.stop();
    let rig = start(None, true);
    assert_eq!(rig.handle.stats().unwrap().policy, "round-robin:65536");
    rig.stop();
    let rig = start(Some("latency"), true);
    assert_eq!(rig.handle.stats().unwrap().policy, "latency");
    rig.stop();
}

#[test]
fn a_kept_policy_that_does_not_fit_is_told_and_not_used() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    rig.handle.set_policy("devid:3").unwrap();
    rig.stop();
    let rig = Rig::start(&options(&scratch, &["mem:4MiB", "mem:4MiB"])).unwrap();
    assert!(rig.notes[0].contains("'devid:3'"), "{:?}", rig.notes);
    assert_eq!(
        rig.handle.stats().unwrap().policy,
        heliostat_policy::DEFAULT_POLICY
    );
    rig.stop();
}

#[test]
fn too_little_memory_is_told_with_numbers() {
    let scratch = Scratch::new();
    let options = ArrayOptions {
        memory_bytes: 1 << 20,
        ..memory_options(&scratch)
    };
    let error = refusal(&options);
    assert!(
        error.contains("1 MiB") && error.contains("80 MiB"),
        "{error}"
    );
}

#[test]
fn too_many_legs_are_told() {
    let scratch = Scratch::new();
    for count in [0, 17] {
        let error = refusal(&options(&scratch, &vec!["mem:1MiB"; count]));
        assert!(
            error.contains(&format!("1 to 16 legs, and {count} were named")),
            "{error}"
        );
    }
}
