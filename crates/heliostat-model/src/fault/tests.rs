use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, RandomStream};

use super::{ErrorRule, FailedKind, FaultEffect, FaultRule, FaultyDevice, Pauses};
use crate::api::DeviceModel;
use crate::closed_loop::{Pattern, run, within};
use crate::drives::drive;

fn seconds(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

fn faulty(name: &str, rules: Vec<FaultRule>) -> FaultyDevice {
    let mut prng = RandomStream::new(1, "leg", 0);
    FaultyDevice::new(drive(name).unwrap().params.build(&mut prng), rules, 7)
}

fn rule(from: u64, until: u64, effect: FaultEffect) -> FaultRule {
    FaultRule {
        at: seconds(from),
        until: seconds(until),
        effect,
    }
}

/// When each of a chain of reads of 4 KiB from RAM ends (they take 1.41 us), and how.
fn chain(
    device: &mut FaultyDevice,
    start: Instant,
    count: u64,
) -> Vec<(u64, Result<(), ErrorKind>)> {
    let mut prng = RandomStream::new(1, "luck", 0);
    let mut now = start;
    let mut ends = Vec::new();
    for op in 0..count {
        let extent = Extent::new(0, 4096);
        device.submit(now, LegOpId(op), OpKind::Read, extent, &mut prng);
        loop {
            let Some(next) = device.next_event_at() else {
                return ends;
            };
            now = now.max(next);
            if let Some((_, result)) = device.poll_completion(now) {
                ends.push((now.as_ns(), result));
                break;
            }
        }
    }
    ends
}

#[test]
fn without_a_rule_nothing_changes() {
    let mut plain = faulty("hdd-7200-2tb", Vec::new());
    let wrapped = run(
        &mut plain,
        4,
        Pattern::random_reads(),
        Duration::from_secs(20),
    );
    let mut prng = RandomStream::new(1, "leg", 0);
    let mut bare = drive("hdd-7200-2tb").unwrap().params.build(&mut prng);
    let bare = run(
        bare.as_mut(),
        4,
        Pattern::random_reads(),
        Duration::from_secs(20),
    );
    assert_eq!(wrapped.service_ns.sum(), bare.service_ns.sum());
}

#[test]
fn slow_means_every_service_time_times_the_factor() {
    let rules = vec![rule(0, 1000, FaultEffect::SlowPermille(10_000))];
    for (name, depth, length) in [
        ("nvme-gen3", 1, 2),
        ("nvme-gen3", 32, 2),
        ("hdd-7200-2tb", 4, 600),
    ] {
        let mut slow = faulty(name, rules.clone());
        let slow = run(
            &mut slow,
            depth,
            Pattern::random_reads(),
            Duration::from_secs(length),
        );
        let healthy = drive(name).unwrap().run(depth, Pattern::random_reads());
        let ratio = healthy.iops() / slow.iops();
        assert!(within(ratio, 10.0, 0.03), "{name} at {depth}: {ratio}");
    }
}

#[test]
fn a_rule_that_begins_in_the_middle_slows_the_rest() {
    let at = Instant::from_ns(1_000);
    let effect = FaultEffect::SlowPermille(3_000);
    let until = Instant::from_ns(1_300);
    let mut device = faulty("ram", vec![FaultRule { at, until, effect }]);
    // 1410 ns of work: 1000 before, 100 during 300, 310 afterwards.
    assert_eq!(chain(&mut device, Instant::ZERO, 1), [(1_610, Ok(()))]);
}

#[test]
fn stuck_is_silent_and_then_goes_on() {
    let mut device = faulty("ram", vec![rule(0, 5, FaultEffect::Stuck)]);
    let ends = chain(&mut device, Instant::ZERO, 2);
    assert_eq!(ends, [(5_000_001_410, Ok(())), (5_000_002_820, Ok(()))]);
    let forever = FaultRule {
        until: Instant::MAX,
        ..rule(0, 0, FaultEffect::Stuck)
    };
    let mut device = faulty("ram", vec![forever]);
    assert_eq!(chain(&mut device, Instant::ZERO, 1), []);
    assert_eq!(device.poll_completion(seconds(1_000_000)), None);
}

#[test]
fn errors_hit_their_kind_while_they_last() {
    let failed = FaultEffect::Error(ErrorRule::all(FailedKind::Read));
    let mut device = faulty("ram", vec![rule(1, 2, failed)]);
    assert_eq!(chain(&mut device, Instant::ZERO, 1)[0].1, Ok(()));
    assert_eq!(chain(&mut device, seconds(1), 1)[0].1, Err(ErrorKind::Io));
    assert_eq!(chain(&mut device, seconds(2), 1)[0].1, Ok(()));
    let failed = FaultEffect::Error(ErrorRule::all(FailedKind::Write));
    let mut device = faulty("ram", vec![rule(0, 2, failed)]);
    assert_eq!(chain(&mut device, Instant::ZERO, 1)[0].1, Ok(()));
}

#[test]
fn dead_fails_what_is_in_flight_and_what_comes() {
    let mut prng = RandomStream::new(1, "luck", 0);
    let mut device = faulty("hdd-7200-2tb", vec![rule(1, 2, FaultEffect::Dead)]);
    let before = Instant::from_ns(999_999_999);
    let extent = Extent::new(1 << 40, 4096);
    device.submit(before, LegOpId(1), OpKind::Read, extent, &mut prng);
    assert_eq!(device.next_event_at(), Some(seconds(1)));
    let failed = device.poll_completion(seconds(1));
    assert_eq!(failed, Some((LegOpId(1), Err(ErrorKind::Io))));
    device.submit(seconds(1), LegOpId(2), OpKind::Write, extent, &mut prng);
    let at = device.next_event_at().unwrap();
    assert_eq!(at, seconds(1) + Duration::from_us(10));
    let failed = device.poll_completion(at);
    assert_eq!(failed, Some((LegOpId(2), Err(ErrorKind::Io))));
    // The drive inside has long done the first read: that is not told a second time.
    assert_eq!(device.poll_completion(seconds(3)), None);
    device.submit(seconds(3), LegOpId(3), OpKind::Read, extent, &mut prng);
    let at = device.next_event_at().unwrap();
    assert_eq!(device.poll_completion(at), Some((LegOpId(3), Ok(()))));
}

/// When each of `count` reads of 4 KiB, all sent at `start`, ends.
fn together(device: &mut FaultyDevice, start: Instant, count: u64) -> Vec<u64> {
    let mut prng = RandomStream::new(1, "luck", 0);
    for op in 0..count {
        let extent = Extent::new(op * 4096, 4096);
        device.submit(start, LegOpId(op), OpKind::Read, extent, &mut prng);
    }
    let mut ends = Vec::new();
    while let Some(next) = device.next_event_at() {
        if device.poll_completion(next).is_some() {
            ends.push(next.as_ns());
        }
    }
    ends
}

#[test]
fn a_burst_tells_everything_at_its_end() {
    let mut device = faulty("nvme-gen3", vec![rule(0, 5, FaultEffect::Burst)]);
    assert_eq!(together(&mut device, Instant::ZERO, 3), [5_000_000_000; 3]);
    let still = device.poll_completion(seconds(6));
    assert_eq!(still, None);
    // Beside it, a device that only stands still begins anew.
    let mut device = faulty("ram", vec![rule(0, 5, FaultEffect::Stuck)]);
    assert_eq!(together(&mut device, Instant::ZERO, 2), [5_000_001_410; 2]);
}

#[test]
fn a_burst_waits_for_a_device_that_stands_still_and_dies_with_it() {
    let burst = rule(0, 5, FaultEffect::Burst);
    let stuck = rule(4, 7, FaultEffect::Stuck);
    let mut device = faulty("ram", vec![burst, stuck]);
    assert_eq!(together(&mut device, Instant::ZERO, 2), [7_000_000_000; 2]);
    let mut device = faulty("ram", vec![burst, rule(3, 9, FaultEffect::Dead)]);
    let mut prng = RandomStream::new(1, "luck", 0);
    let extent = Extent::new(0, 4096);
    device.submit(Instant::ZERO, LegOpId(1), OpKind::Read, extent, &mut prng);
    assert_eq!(device.poll_completion(seconds(2)), None);
    let failed = device.poll_completion(seconds(3));
    assert_eq!(failed, Some((LegOpId(1), Err(ErrorKind::Io))));
    assert_eq!(device.next_event_at(), None);
}

fn pauses(length_ns: u64, every_ns: u64, jitter_ns: u64) -> FaultEffect {
    FaultEffect::Pause(Pauses {
        length: Duration::from_ns(length_ns),
        every: Duration::from_ns(every_ns),
        jitter: Duration::from_ns(jitter_ns),
    })
}

#[test]
fn pauses_come_back() {
    let rule = FaultRule {
        at: Instant::from_ns(1_000),
        until: Instant::from_ns(10_500),
        effect: pauses(500, 3_000, 0),
    };
    // Paused from 1000, 4000, 7000 and 10,000 for 500 each; every read works for 1410.
    let mut device = faulty("ram", vec![rule]);
    let ends: Vec<u64> = chain(&mut device, Instant::ZERO, 7)
        .into_iter()
        .map(|(at, _)| at)
        .collect();
    let expected = [1_910, 3_320, 5_230, 6_640, 8_550, 9_960, 11_870];
    assert_eq!(ends, expected);
}

#[test]
fn the_jitter_of_pauses_is_the_devices_luck() {
    let rule = FaultRule {
        at: Instant::ZERO,
        until: Instant::MAX,
        effect: pauses(100_000, 1_000_000, 900_000),
    };
    let ends = |luck| {
        let ram = drive("ram").unwrap().params;
        let mut prng = RandomStream::new(1, "leg", 0);
        let mut device = FaultyDevice::new(ram.build(&mut prng), vec![rule], luck);
        chain(&mut device, Instant::ZERO, 7_000)
    };
    let one = ends(1);
    assert_eq!(one, ends(1));
    assert_ne!(one, ends(2));
    // 9.87 ms of work and a tenth of the time paused.
    let (last, _) = one.last().unwrap();
    assert!((10_870_000..11_080_000).contains(last), "{last}");
    let steps = one.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let paused = steps.filter(|step| *step > 1_410).count();
    assert!((10..=11).contains(&paused), "{paused}");
}

fn error(change: impl Fn(&mut ErrorRule)) -> FaultRule {
    let mut error = ErrorRule::all(FailedKind::Read);
    change(&mut error);
    rule(0, 1, FaultEffect::Error(error))
}

/// Whether an operation of one block fails.
fn fails(device: &mut FaultyDevice, at: Instant, kind: OpKind, block: u64) -> bool {
    let mut prng = RandomStream::new(1, "luck", 0);
    let extent = match kind {
        OpKind::Flush => Extent::default(),
        OpKind::Read | OpKind::Write | OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => {
            Extent::new(block * 4096, 4096)
        }
    };
    device.submit(at, LegOpId(0), kind, extent, &mut prng);
    let at = device.next_event_at().unwrap();
    device.poll_completion(at).unwrap().1.is_err()
}

#[test]
fn errors_can_be_counted() {
    let mut device = faulty("ram", vec![error(|error| error.count = 2)]);
    let ends = chain(&mut device, Instant::ZERO, 4);
    let failed: Vec<bool> = ends.iter().map(|(_, result)| result.is_err()).collect();
    assert_eq!(failed, [true, true, false, false]);
}

#[test]
fn errors_can_be_for_a_range() {
    let range = Extent::new(8192, 8192);
    let mut reads = faulty("ram", vec![error(|error| error.range = range)]);
    let mut at = Instant::ZERO;
    let mut next = || {
        at += Duration::from_us(10);
        at
    };
    let failed: Vec<bool> = (0..6)
        .map(|block| fails(&mut reads, next(), OpKind::Read, block))
        .collect();
    assert_eq!(failed, [false, false, true, true, false, false]);
    let writes = |range| {
        error(|error| {
            error.kind = FailedKind::Write;
            error.range = range;
        })
    };
    let mut part = faulty("ram", vec![writes(range)]);
    assert!(fails(&mut part, next(), OpKind::Write, 3));
    assert!(!fails(&mut part, next(), OpKind::Read, 3));
    assert!(
        !fails(&mut part, next(), OpKind::Flush, 0),
        "it has no bytes"
    );
    let mut all = faulty("ram", vec![writes(ErrorRule::EVERYWHERE)]);
    assert!(fails(&mut all, next(), OpKind::Flush, 0));
}

#[test]
fn errors_can_be_left_to_luck() {
    let mut device = faulty(
        "ram",
        vec![error(|error| error.rate_per_billion = 100_000_000)],
    );
    let ends = chain(&mut device, Instant::ZERO, 10_000);
    let failed = ends.iter().filter(|(_, result)| result.is_err()).count();
    assert!((900..1_100).contains(&failed), "{failed}");
}

#[test]
fn what_is_bad_stays_bad_until_it_is_written() {
    let sticky = error(|error| {
        error.range = Extent::new(4096, 8192);
        error.sticky = true;
    });
    let mut device = faulty("ram", vec![sticky]);
    let at = Instant::from_ns;
    assert!(!fails(&mut device, at(10_000), OpKind::Read, 0));
    assert!(fails(&mut device, at(20_000), OpKind::Read, 1));
    assert!(!fails(&mut device, at(30_000), OpKind::Write, 1));
    assert!(!fails(&mut device, at(40_000), OpKind::Read, 1), "mended");
    // Never read before, and long after the rule.
    assert!(fails(&mut device, seconds(5), OpKind::Read, 2));
    assert!(!fails(&mut device, seconds(6), OpKind::Write, 2));
    assert!(!fails(&mut device, seconds(7), OpKind::Read, 2));
}

#[test]
fn a_counted_error_can_stay() {
    let sticky = error(|error| {
        error.count = 1;
        error.sticky = true;
    });
    let mut device = faulty("ram", vec![sticky]);
    let at = Instant::from_ns;
    assert!(fails(&mut device, at(10_000), OpKind::Read, 3));
    assert!(fails(&mut device, at(20_000), OpKind::Read, 3));
    assert!(!fails(&mut device, at(30_000), OpKind::Read, 4));
    assert!(!fails(&mut device, at(40_000), OpKind::Write, 3));
    assert!(!fails(&mut device, at(50_000), OpKind::Read, 3));
}

#[test]
fn a_power_cycle_forgets_what_was_in_flight_and_nothing_else() {
    let ram = || {
        drive("ram")
            .unwrap()
            .params
            .build(&mut RandomStream::new(1, "leg", 0))
    };
    let sticky = error(|error| {
        error.range = Extent::new(4096, 4096);
        error.sticky = true;
    });
    let mut device = FaultyDevice::new(ram(), vec![sticky], 7);
    let mut prng = RandomStream::new(1, "luck", 0);
    let extent = Extent::new(0, 4096);
    device.submit(Instant::ZERO, LegOpId(1), OpKind::Write, extent, &mut prng);
    device.cycle_power(Instant::from_ns(1_000), ram());
    assert_eq!(device.next_event_at(), None);
    assert_eq!(device.poll_completion(seconds(1)), None);
    assert!(fails(&mut device, seconds(2), OpKind::Read, 1));
    assert!(!fails(&mut device, seconds(3), OpKind::Read, 0));
}
