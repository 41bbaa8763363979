use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, RandomStream};

use crate::closed_loop::{Pattern, run, within};
use crate::drives::drive;

fn random_iops(name: &str, depth: usize, kind: OpKind) -> f64 {
    drive(name)
        .unwrap()
        .run(depth, Pattern::random_reads().of(kind))
        .iops()
}

#[test]
fn random_reads_are_as_fast_as_measured_on_the_drives() {
    for (name, depth, iops) in [
        ("ssd-sata-256gb", 1, 8_900.0),
        ("ssd-sata-256gb", 32, 90_000.0),
        ("ssd-sata-1tb", 1, 10_000.0),
        ("ssd-sata-1tb", 32, 98_000.0),
        ("nvme-gen3", 1, 14_400.0),
        ("nvme-gen3", 32, 384_000.0),
        ("nvme-gen4", 1, 22_000.0),
        ("nvme-gen4", 256, 1_000_000.0),
    ] {
        let told = random_iops(name, depth, OpKind::Read);
        assert!(within(told, iops, 0.04), "{name} at {depth}: {told}");
    }
}

#[test]
fn streams_fill_the_link() {
    for (name, kind, rate) in [
        ("ssd-sata-256gb", OpKind::Read, 550e6),
        ("ssd-sata-256gb", OpKind::Write, 500e6),
        ("ssd-sata-1tb", OpKind::Read, 550e6),
        ("ssd-sata-1tb", OpKind::Write, 520e6),
        ("nvme-gen3", OpKind::Read, 3.5e9),
        ("nvme-gen3", OpKind::Write, 2.7e9),
        ("nvme-gen4", OpKind::Read, 7e9),
        ("nvme-gen4", OpKind::Write, 5e9),
    ] {
        let told = drive(name)
            .unwrap()
            .run(8, Pattern::stream().of(kind))
            .bytes_per_s();
        // The write buffer takes a little more than the dies do.
        assert!(within(told, rate, 0.05), "{name} {kind:?}: {told}");
    }
}

#[test]
fn random_writes_are_as_fast_as_the_data_sheets_say() {
    for (name, iops) in [("ssd-sata-256gb", 80_000.0), ("nvme-gen3", 500_000.0)] {
        let told = random_iops(name, 32, OpKind::Write);
        assert!(within(told, iops, 0.05), "{name}: {told}");
    }
}

#[test]
fn a_read_that_meets_a_program_waits_for_it() {
    let mut prng = RandomStream::new(1, "luck", 0);
    let mut model = drive("ssd-sata-256gb").unwrap().params.build(&mut prng);
    // A unit for each die, so that all of them are programming 2 ms later.
    let written = Extent::new(0, 32 * 16_384);
    model.submit(Instant::ZERO, LegOpId(0), OpKind::Write, written, &mut prng);
    let asked_at = Instant::from_ns(1_200_000);
    assert!(model.poll_completion(asked_at).is_some());
    model.submit(
        asked_at,
        LegOpId(1),
        OpKind::Read,
        Extent::new(0, 4096),
        &mut prng,
    );
    let mut now = asked_at;
    while model.poll_completion(now).is_none() {
        now = model.next_event_at().unwrap();
    }
    let waited = now - asked_at;
    assert!(
        waited > Duration::from_us(500) && waited < Duration::from_us(1_200),
        "{waited}"
    );
}

#[test]
fn a_flush_waits_for_what_was_written_and_for_nothing_else() {
    let mut prng = RandomStream::new(1, "luck", 0);
    let mut model = drive("nvme-gen3").unwrap().params.build(&mut prng);
    let mut time_of = |now: Instant, op, kind, extent| {
        model.submit(now, LegOpId(op), kind, extent, &mut prng);
        let mut at = now;
        while model.poll_completion(at).is_none() {
            at = model.next_event_at().unwrap();
        }
        at - now
    };
    let second = |n| Instant::ZERO + Duration::from_secs(n);
    let nothing = time_of(second(1), 1, OpKind::Flush, Extent::default());
    assert!(nothing < Duration::from_us(20), "{nothing}");
    let write = time_of(second(2), 2, OpKind::Write, Extent::new(0, 4096));
    assert!(write < Duration::from_us(20), "{write}");
    // A quarter of a unit waits for more, until the flush wants it programmed.
    let flush = time_of(second(3), 3, OpKind::Flush, Extent::default());
    assert!(
        flush > Duration::from_us(380) && flush < Duration::from_us(400),
        "{flush}"
    );
}

#[test]
fn a_write_as_large_as_the_buffer_gets_in_behind_a_part_of_a_unit() {
    let mut prng = RandomStream::new(1, "luck", 0);
    let mut model = drive("ssd-sata-256gb").unwrap().params.build(&mut prng);
    for (op, len_bytes) in [(0, 4096), (1, 16 << 20)] {
        let extent = Extent::new(0, len_bytes);
        model.submit(Instant::ZERO, LegOpId(op), OpKind::Write, extent, &mut prng);
    }
    let mut ended = Vec::new();
    while let Some(now) = model.next_event_at() {
        ended.extend(model.poll_completion(now).map(|(op, _)| op));
    }
    assert_eq!(ended, [LegOpId(0), LegOpId(1)]);
}

#[test]
fn polled_late_it_did_the_same() {
    let drive = drive("ssd-sata-256gb").unwrap();
    let mut prng = RandomStream::new(1, "luck", 0);
    let mut ends = [0u64; 2];
    for (end, step) in ends.iter_mut().zip([1u64, 777_777]) {
        let mut model = drive.params.build(&mut prng);
        for op in 0..64 {
            let extent = Extent::new(op * 4096, 4096);
            model.submit(Instant::ZERO, LegOpId(op), OpKind::Read, extent, &mut prng);
        }
        let mut done = 0;
        let mut now = Instant::ZERO;
        while done < 64 {
            now = (now + Duration::from_ns(step)).max(model.next_event_at().unwrap());
            while model.poll_completion(now).is_some() {
                done += 1;
            }
        }
        *end = now.as_ns();
    }
    assert!(ends[1] - ends[0] <= 777_777, "{ends:?}");
}

#[test]
fn large_reads_use_many_dies_at_once() {
    let mut prng = RandomStream::new(1, "leg", 0);
    let mut model = drive("nvme-gen3").unwrap().params.build(&mut prng);
    let large = Pattern {
        len_bytes: 256 << 10,
        ..Pattern::stream()
    };
    let told = run(model.as_mut(), 1, large, Duration::from_secs(1)).bytes_per_s();
    // 16 units on 16 dies: one read time and the link, 147 us together.
    assert!(within(told, 1.85e9, 0.05), "{told}");
}
