use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, Prng, RandomStream};

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

/// A drive with so little spare flash that it collects after a second.
fn nearly_used(name: &str) -> crate::Drive {
    let mut drive = *drive(name).unwrap();
    drive.params = drive.params.with_size(4 << 30);
    drive
}

#[test]
fn scattered_writes_slow_down_when_the_spare_flash_is_used() {
    let scattered = Pattern::random_reads().of(OpKind::Write);
    for (name, fresh, worn) in [
        // v = 0.867: 6.5 units of 1,115 us are moved for one of 1,040 us, and 0.03 erases; 32 dies.
        ("ssd-sata-256gb", 80_000.0, 15_200.0),
        // As many of 435 us for one of 380 us, on 64 dies.
        ("nvme-gen3", 500_000.0, 76_900.0),
    ] {
        let small = nearly_used(name).params;
        let iops_of = |params: &crate::ModelParams, secs| {
            let mut model = params.build(&mut RandomStream::new(1, "leg", 0));
            let length = Duration::from_secs(secs);
            run(model.as_mut(), 32, scattered, length).iops()
        };
        let told = iops_of(&drive(name).unwrap().params, 2);
        assert!(within(told, fresh, 0.05), "{name} fresh: {told}");
        let worn_iops =
            |params| (iops_of(params, 16) * 16.0 - iops_of(params, 8) * 8.0) / (16.0 - 8.0);
        let told = worn_iops(&small);
        assert!(within(told, worn, 0.03), "{name} worn: {told}");
        let mut without = small;
        without.set("garbage_collection", "false").unwrap();
        let told = iops_of(&without, 2);
        assert!(within(told, fresh, 0.05), "{name} without: {told}");
        let mut spacious = small;
        spacious.set("spare_permille", "400").unwrap();
        assert!(
            iops_of(&spacious, 16) > 2.0 * worn,
            "{name} with spare flash"
        );
    }
}

#[test]
fn streams_of_writes_leave_nothing_to_move() {
    let told = nearly_used("ssd-sata-256gb").run(8, Pattern::stream().of(OpKind::Write));
    let rate = told.bytes_per_s();
    // An erase per 256 programs of 1 ms is 1.4 %; 8 MB/s are in the buffer at the end.
    assert!((500e6..510e6).contains(&rate), "{rate}");
}

/// Reads at depth 1 beside 16,000 scattered writes per second, for 15 s: how many took longer than
/// `limit`.
fn late_reads(params: &crate::ModelParams, limit: Duration) -> u64 {
    let mut model = params.build(&mut RandomStream::new(1, "leg", 0));
    let mut places = RandomStream::new(1, "job", 0);
    let mut luck = RandomStream::new(1, "luck", 0);
    let blocks = params.size_bytes() / 4096;
    let mut late = 0;
    let mut read_since: Option<Instant> = None;
    for op in 0..240_000u64 {
        let now = Instant::from_ns(op * 62_500);
        let mut ended_at = None;
        while let Some(next) = model.next_event_at().filter(|next| *next <= now) {
            while let Some((ended, _)) = model.poll_completion(next) {
                if ended.0 >= 1 << 40 {
                    ended_at = Some(next);
                }
            }
        }
        if let (Some(since), Some(ended_at)) = (read_since, ended_at) {
            late += u64::from(ended_at - since > limit);
            read_since = None;
        }
        let extent = Extent::new(places.below(blocks) * 4096, 4096);
        model.submit(now, LegOpId(op), OpKind::Write, extent, &mut luck);
        if read_since.is_none() && op % 20 == 0 {
            let extent = Extent::new(places.below(blocks) * 4096, 4096);
            model.submit(
                now,
                LegOpId((1 << 40) + op),
                OpKind::Read,
                extent,
                &mut luck,
            );
            read_since = Some(now);
        }
    }
    late
}

#[test]
fn reads_wait_for_erases_where_these_do_not_make_way() {
    let mut params = nearly_used("ssd-sata-1tb").params;
    let late = late_reads(&params, Duration::from_us(2_300));
    assert!(late >= 3, "behind an erase: {late}");
    params.set("garbage_collection", "false").unwrap();
    assert_eq!(late_reads(&params, Duration::from_us(2_300)), 0);
    params.set("garbage_collection", "true").unwrap();
    params.set("erase_suspend_time", "100us").unwrap();
    let suspended = late_reads(&params, Duration::from_us(2_300));
    assert!(suspended < late, "{suspended} of {late}");
}

#[test]
fn fast_cells_take_the_first_writes_and_are_emptied_in_idle_time() {
    let mut params = drive("nvme-gen4").unwrap().params;
    params.set("slc_cache_bytes", "10GB").unwrap();
    let mut model = params.build(&mut RandomStream::new(1, "leg", 0));
    let mut luck = RandomStream::new(1, "luck", 0);
    let mut offset = 0;
    let mut write = |model: &mut dyn crate::DeviceModel, from: Instant| {
        // 8 GB, eight at a time.
        let (mut now, mut in_flight) = (from, 0);
        for _ in 0..8_000 {
            let extent = Extent::new(offset, 1_000_000 / 4096 * 4096);
            offset = extent.end();
            model.submit(now, LegOpId(offset), OpKind::Write, extent, &mut luck);
            in_flight += 1;
            while in_flight == 8 {
                now = now.max(model.next_event_at().unwrap());
                while model.poll_completion(now).is_some() {
                    in_flight -= 1;
                }
            }
        }
        (8e9 / (now - from).as_secs_f64(), now)
    };
    let (first, now) = write(model.as_mut(), Instant::ZERO);
    assert!(within(first, 5e9, 0.05), "{first}");
    let (second, now) = write(model.as_mut(), now);
    // Room for 2 GB more, then 6 GB at 2 GB/s.
    assert!(
        within(second, 8.0 / (2.0 / 5.0 + 6.0 / 2.0) * 1e9, 0.05),
        "{second}"
    );
    let (third, _) = write(model.as_mut(), now + Duration::from_secs(60));
    assert!(within(third, 5e9, 0.05), "{third}");
}

#[test]
fn what_survives_a_power_cut_needs_no_flush() {
    let mut params = drive("nvme-gen3").unwrap().params;
    assert!(
        params
            .build(&mut RandomStream::new(1, "leg", 0))
            .spec()
            .volatile_cache
    );
    params.set("power_loss_protection", "true").unwrap();
    let mut model = params.build(&mut RandomStream::new(1, "leg", 0));
    assert!(!model.spec().volatile_cache);
    let mut luck = RandomStream::new(1, "luck", 0);
    let extent = Extent::new(0, 4096);
    model.submit(Instant::ZERO, LegOpId(1), OpKind::Write, extent, &mut luck);
    let now = Instant::from_ns(50_000);
    assert!(model.poll_completion(now).is_some());
    model.submit(now, LegOpId(2), OpKind::Flush, Extent::default(), &mut luck);
    assert!(model.poll_completion(now + Duration::from_us(20)).is_some());
}
