use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, RandomStream};

use super::{FailedKind, FaultEffect, FaultRule, FaultyDevice};
use crate::api::DeviceModel;
use crate::closed_loop::{Pattern, run, within};
use crate::drives::drive;

fn seconds(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

fn faulty(name: &str, rules: Vec<FaultRule>) -> FaultyDevice {
    let mut prng = RandomStream::new(1, "leg", 0);
    FaultyDevice::new(drive(name).unwrap().params.build(&mut prng), rules)
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
    let failed = FaultEffect::Error(FailedKind::Read);
    let mut device = faulty("ram", vec![rule(1, 2, failed)]);
    assert_eq!(chain(&mut device, Instant::ZERO, 1)[0].1, Ok(()));
    assert_eq!(chain(&mut device, seconds(1), 1)[0].1, Err(ErrorKind::Io));
    assert_eq!(chain(&mut device, seconds(2), 1)[0].1, Ok(()));
    let failed = FaultEffect::Error(FailedKind::Write);
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
