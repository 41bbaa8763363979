use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, Prng, RandomStream};

use super::SeekCurve;
use crate::api::DeviceModel;
use crate::closed_loop::{Pattern, Run, run, within};
use crate::drives::drive;

const DRIVES_7200: [&str; 2] = ["hdd-7200-2tb", "hdd-7200-1tb"];

fn run_on(name: &str, depth: usize, pattern: Pattern) -> Run {
    drive(name).unwrap().run(depth, pattern)
}

#[test]
fn the_seek_curve_meets_its_three_points() {
    let ms = Duration::from_ms;
    let curve = SeekCurve::new(ms(1), Duration::from_us(8_500), ms(17)).unwrap();
    assert_eq!(curve.time(0.0), ms(1));
    assert_eq!(curve.time(1.0), ms(17));
    let mut prng = RandomStream::new(1, "test", 0);
    let total: f64 = (0..200_000)
        .map(|_| {
            let distance = (prng.unit_f64() - prng.unit_f64()).abs();
            curve.time(distance).as_secs_f64()
        })
        .sum();
    assert!(within(total / 200_000.0, 0.0085, 0.005), "{total}");
}

#[test]
fn one_stream_gets_the_media_rate_and_no_more() {
    for (name, rate) in [
        ("hdd-7200-2tb", 228e6),
        ("hdd-7200-1tb", 140e6),
        ("hdd-5400-old", 80e6),
    ] {
        for (depth, len_bytes) in [(1, 64 << 10), (1, 1 << 20), (2, 128 << 10), (16, 1 << 20)] {
            let pattern = Pattern {
                len_bytes,
                ..Pattern::stream()
            };
            let told = run_on(name, depth, pattern).bytes_per_s();
            assert!(
                told <= rate * 1.0001 && told > rate * 0.995,
                "{name} at {depth} of {len_bytes}: {told}"
            );
        }
    }
}

#[test]
fn a_stream_that_begins_again_is_not_in_the_cache() {
    // 200 MiB, of which 16 runs hold a third at most.
    let told = run_on("hdd-7200-2tb", 1, Pattern::stream().repeated_after(200)).bytes_per_s();
    assert!(told < 300e6, "{told}");
}

#[test]
fn streams_of_queued_writes_get_the_media_rate_too() {
    let writes = Pattern::stream().of(OpKind::Write);
    let drive = drive_without_write_cache("hdd-7200-2tb");
    let told = drive.run(16, writes).bytes_per_s();
    assert!(told > 225e6 && told <= 228.1e6, "{told}");
    // One at a time each comes too late for its sector: a turn and 4.6 ms of transfer.
    let alone = drive.run(1, writes).iops();
    assert!(within(alone, 77.3, 0.01), "{alone}");
}

#[test]
fn random_reads_one_at_a_time() {
    for name in DRIVES_7200 {
        for span in [50, 75, 100] {
            let iops = run_on(name, 1, Pattern::random_reads().over(span)).iops();
            assert!(
                (70.0..=100.0).contains(&iops),
                "{name} over {span} %: {iops}"
            );
        }
        let near = run_on(name, 1, Pattern::random_reads().over(2)).iops();
        assert!(within(near, 160.0, 0.06), "{name}: {near}");
    }
    let old = run_on("hdd-5400-old", 1, Pattern::random_reads()).iops();
    assert!((50.0..60.0).contains(&old), "{old}");
}

#[test]
fn a_queue_gains_what_drives_gain_and_starves_nobody() {
    for name in DRIVES_7200 {
        for span in [50, 100] {
            let alone = run_on(name, 1, Pattern::random_reads().over(span)).iops();
            let deep = run_on(name, 32, Pattern::random_reads().over(span));
            let gain = deep.iops() / alone;
            assert!((1.8..=2.6).contains(&gain), "{name} over {span} %: {gain}");
            let longest_s = deep.service_ns.max() as f64 / 1e9;
            assert!(longest_s < 1.0, "{name} over {span} %: {longest_s}");
        }
    }
}

#[test]
fn several_streams_share_the_arm_without_a_seek_per_request() {
    let mut prng = RandomStream::new(1, "leg", 0);
    let mut model = drive("hdd-7200-2tb").unwrap().params.build(&mut prng);
    let mut positions: Vec<u64> = (0..8).map(|n| n * (50 << 30)).collect();
    let submit = |model: &mut dyn DeviceModel, now, stream: u64, positions: &mut [u64]| {
        let position = &mut positions[usize::try_from(stream).unwrap()];
        let extent = Extent::new(*position, 128 << 10);
        *position = extent.end();
        let mut prng = RandomStream::new(1, "luck", 0);
        model.submit(now, LegOpId(stream), OpKind::Read, extent, &mut prng);
    };
    for stream in 0..8 {
        submit(model.as_mut(), Instant::ZERO, stream, &mut positions);
    }
    let mut count = 0u64;
    let mut now = Instant::ZERO;
    while now < Instant::ZERO + Duration::from_secs(20) {
        now = now.max(model.next_event_at().unwrap());
        while let Some((op, _)) = model.poll_completion(now) {
            count += 1;
            submit(model.as_mut(), now, op.0, &mut positions);
        }
    }
    let rate = (count * (128 << 10)) as f64 / 20.0;
    assert!((40e6..120e6).contains(&rate), "{rate}");
}

#[test]
fn what_was_read_ahead_comes_at_once() {
    let mut prng = RandomStream::new(1, "leg", 0);
    let mut model = drive("hdd-7200-2tb").unwrap().params.build(&mut prng);
    let mut time_of = |now: Instant, op, kind, extent| {
        model.submit(now, LegOpId(op), kind, extent, &mut prng);
        let mut at = now;
        while model.poll_completion(at).is_none() {
            at = model.next_event_at().unwrap();
        }
        at - now
    };
    let at_ms = |ms| Instant::ZERO + Duration::from_ms(ms);
    let here = Extent::new(1 << 40, 64 << 10);
    let first = time_of(at_ms(100), 1, OpKind::Read, here);
    assert!(first > Duration::from_ms(5), "{first}");
    let next = Extent::new(here.end(), 1 << 20);
    let second = time_of(at_ms(200), 2, OpKind::Read, next);
    assert!(second < Duration::from_ms(2), "{second}");
    // It has stopped after 4 MiB, and must come round before it reads on.
    let far = Extent::new(here.end() + (8 << 20), 4096);
    let third = time_of(at_ms(300), 3, OpKind::Read, far);
    assert!(third > Duration::from_us(100), "{third}");
    // A write makes the drive forget.
    time_of(at_ms(400), 4, OpKind::Write, Extent::new(1 << 40, 4096));
    let again = time_of(at_ms(500), 5, OpKind::Read, here);
    assert!(again > Duration::from_us(500), "{again}");
}

#[test]
fn reads_that_skip_a_little_are_passed_over() {
    // 4 KiB of every 16: the head reads all of it, and the electronics take 0.1 ms for each.
    let mut prng = RandomStream::new(1, "leg", 0);
    let mut model = drive("hdd-7200-2tb").unwrap().params.build(&mut prng);
    let mut now = Instant::ZERO;
    for op in 0..1_000 {
        let extent = Extent::new(op * 16_384, 4096);
        model.submit(now, LegOpId(op), OpKind::Read, extent, &mut prng);
        while model.poll_completion(now).is_none() {
            now = model.next_event_at().unwrap();
        }
    }
    let elapsed = now - Instant::ZERO;
    assert!(elapsed < Duration::from_ms(150), "{elapsed}");
}

#[test]
fn the_platter_stands_where_time_says() {
    // The same sector, over and over: whole turns apart.
    let mut prng = RandomStream::new(3, "leg", 0);
    let drive = drive_without_write_cache("hdd-7200-2tb");
    let mut model = drive.params.build(&mut prng);
    let extent = Extent::new(0, 4096);
    let mut ends = Vec::new();
    let mut now = Instant::ZERO;
    for op in 0..10 {
        now += Duration::from_us(123_457);
        model.submit(now, LegOpId(op), OpKind::Write, extent, &mut prng);
        while model.poll_completion(now).is_none() {
            now = model.next_event_at().unwrap();
        }
        ends.push(now.as_ns());
    }
    for pair in ends.windows(2) {
        assert_eq!((pair[1] - pair[0]) % 8_333_333, 0);
    }
}

#[test]
fn polled_late_it_did_the_same() {
    // In real time a drive is asked now and then; its arm does not wait for that.
    let drive = drive("hdd-7200-2tb").unwrap();
    let mut ends = [0u64; 2];
    for (end, step) in ends.iter_mut().zip([1u64, 2_000_000]) {
        let mut prng = RandomStream::new(1, "leg", 0);
        let mut places = RandomStream::new(1, "job", 0);
        let mut model = drive.params.build(&mut prng);
        for op in 0..32 {
            let extent = Extent::new(places.below(400_000_000) * 4096, 4096);
            model.submit(Instant::ZERO, LegOpId(op), OpKind::Read, extent, &mut prng);
        }
        let mut done = 0;
        let mut now = Instant::ZERO;
        while done < 32 {
            now += Duration::from_ns(step);
            now = now.max(model.next_event_at().unwrap());
            while model.poll_completion(now).is_some() {
                done += 1;
            }
        }
        *end = now.as_ns();
    }
    assert!(
        ends[1] >= ends[0] && ends[1] - ends[0] <= 2_000_000,
        "{ends:?}"
    );
}

#[test]
fn a_small_drive_of_the_make_behaves_like_the_large_one() {
    let small = drive("hdd-7200-2tb").unwrap().params.with_size(1 << 30);
    let mut prng = RandomStream::new(1, "leg", 0);
    let mut model = small.build(&mut prng);
    let iops = run(
        model.as_mut(),
        1,
        Pattern::random_reads(),
        Duration::from_secs(60),
    )
    .iops();
    assert!((70.0..=100.0).contains(&iops), "{iops}");
}

/// What an operation takes on an otherwise idle device.
fn time_of(model: &mut dyn DeviceModel, now: Instant, kind: OpKind, extent: Extent) -> Duration {
    let mut prng = RandomStream::new(1, "luck", 0);
    model.submit(now, LegOpId(now.as_ns()), kind, extent, &mut prng);
    let mut at = now;
    while model.poll_completion(at).is_none() {
        at = model.next_event_at().unwrap();
    }
    at - now
}

#[test]
fn writes_are_answered_from_the_cache_and_flushes_wait_for_them() {
    for name in ["hdd-7200-2tb", "hdd-7200-1tb", "hdd-5400-old"] {
        let mut prng = RandomStream::new(1, "leg", 0);
        let mut drive = *drive(name).unwrap();
        drive.params.set("media_cache_bytes", "0").unwrap();
        let mut model = drive.params.build(&mut prng);
        assert!(model.spec().volatile_cache);
        let mut now = Instant::ZERO + Duration::from_secs(1);
        for block in 0..10 {
            let extent = Extent::new(block * 40_000_000_000 / 4096 * 4096, 4096);
            let write = time_of(model.as_mut(), now, OpKind::Write, extent);
            assert!(write < Duration::from_us(300), "{name}: {write}");
            now += write;
            let read = time_of(model.as_mut(), now, OpKind::Read, extent);
            assert!(read < Duration::from_us(300), "{name}: {read}");
            now += read;
        }
        let flush = time_of(model.as_mut(), now, OpKind::Flush, Extent::default());
        let ms = flush.as_ms();
        assert!((40..200).contains(&ms), "{name}: ten writes in {flush}");
        now += flush;
        let again = time_of(model.as_mut(), now, OpKind::Flush, Extent::default());
        assert!(again < Duration::from_us(300), "{name}: {again}");
    }
    let drive = drive_without_write_cache("hdd-7200-2tb");
    let mut model = drive.params.build(&mut RandomStream::new(1, "leg", 0));
    assert!(!model.spec().volatile_cache);
    let write = time_of(
        model.as_mut(),
        Instant::ZERO,
        OpKind::Write,
        Extent::new(1 << 40, 4096),
    );
    assert!(write > Duration::from_ms(5), "{write}");
}

#[test]
fn streams_of_writes_fill_the_cache_and_then_get_the_media_rate() {
    for (name, rate, cache_bytes) in [
        ("hdd-7200-2tb", 228e6, 64 << 20),
        ("hdd-7200-1tb", 140e6, 8 << 20),
        ("hdd-5400-old", 80e6, 2 << 20),
    ] {
        for (depth, len_bytes) in [(1, 64 << 10), (1, 1 << 20), (16, 16 << 10)] {
            let pattern = Pattern {
                len_bytes,
                ..Pattern::stream().of(OpKind::Write)
            };
            let told = run_on(name, depth, pattern).bytes_per_s();
            let most = rate * 1.0001 + f64::from(cache_bytes) / 60.0;
            assert!(
                told <= most && told > rate * 0.98,
                "{name} at {depth} of {len_bytes}: {told}"
            );
        }
    }
}

#[test]
fn scattered_writes_run_into_the_platter_when_the_cache_is_full() {
    // The cache takes 128 slots at once, then the arm sorts 32 of them at a time.
    let writes = Pattern::random_reads().of(OpKind::Write);
    for depth in [1, 32] {
        let told = run_on("hdd-7200-1tb", depth, writes).iops();
        assert!((120.0..190.0).contains(&told), "at {depth}: {told}");
    }
}

#[test]
fn reads_go_before_what_waits_in_the_write_cache() {
    let mut model = drive("hdd-7200-1tb")
        .unwrap()
        .params
        .build(&mut RandomStream::new(1, "leg", 0));
    let mut prng = RandomStream::new(1, "job", 0);
    let mut now = Instant::ZERO;
    for _ in 0..60 {
        let extent = Extent::new(prng.below(200_000_000) * 4096, 4096);
        now += time_of(model.as_mut(), now, OpKind::Write, extent);
    }
    // Sixty writes are 0.4 s of work; a read waits for the one that the arm is at.
    let read = time_of(
        model.as_mut(),
        now,
        OpKind::Read,
        Extent::new(900_000_000_000, 4096),
    );
    assert!(read < Duration::from_ms(60), "{read}");
}

#[test]
fn a_shingled_drive_collapses_when_its_media_cache_is_full_and_cleans_it_when_idle() {
    let mut drive = *drive("hdd-7200-2tb").unwrap();
    let writes = Pattern::random_reads().of(OpKind::Write);
    let fresh = drive.run(32, writes).iops();
    assert!(fresh > 1_000.0, "room for all: {fresh}");
    // A tenth of the disk, and a tenth of its media cache: 32,768 slots of 64 KiB.
    drive.params.set("media_cache_bytes", "2GiB").unwrap();
    drive.params.set("write_cache_bytes", "1MiB").unwrap();
    let collapsed = drive.run(32, writes.over(10)).iops() - 32_768.0 / 60.0;
    assert!((10.0..40.0).contains(&collapsed), "{collapsed}");
    drive.params.set("media_cache_bytes", "0").unwrap();
    let plain = drive.run(32, writes).iops();
    assert!((120.0..190.0).contains(&plain), "not shingled: {plain}");

    drive.params.set("media_cache_bytes", "128MiB").unwrap();
    let mut model = drive.params.build(&mut RandomStream::new(1, "leg", 0));
    let mut prng = RandomStream::new(1, "job", 0);
    let mut write = |model: &mut dyn DeviceModel, now| {
        let extent = Extent::new(prng.below(400_000_000) * 4096, 4096);
        time_of(model, now, OpKind::Write, extent)
    };
    let mut now = Instant::ZERO;
    for _ in 0..2_200 {
        now += write(model.as_mut(), now);
    }
    let full = write(model.as_mut(), now);
    assert!(full > Duration::from_ms(20), "{full}");
    now += full + Duration::from_secs(600);
    for _ in 0..1_000 {
        let clean = write(model.as_mut(), now);
        assert!(clean < Duration::from_ms(30), "{clean}");
        now += clean;
    }
}

#[test]
fn a_shingled_drive_reads_while_it_cleans() {
    let mut drive = *drive("hdd-7200-2tb").unwrap();
    drive.params.set("media_cache_bytes", "1MiB").unwrap();
    drive.params.set("write_cache_bytes", "1MiB").unwrap();
    let mut model = drive.params.build(&mut RandomStream::new(1, "leg", 0));
    let mut prng = RandomStream::new(1, "job", 0);
    let mut luck = RandomStream::new(1, "luck", 0);
    // A hundred writes hang in the caches for seconds; reads beside them do not.
    for op in 0..100 {
        let extent = Extent::new(prng.below(400_000_000) * 4096, 4096);
        model.submit(Instant::ZERO, LegOpId(op), OpKind::Write, extent, &mut luck);
    }
    let mut now = Instant::ZERO;
    for op in 1_000..1_030 {
        let started_at = now;
        let extent = Extent::new(prng.below(400_000_000) * 4096, 4096);
        model.submit(now, LegOpId(op), OpKind::Read, extent, &mut luck);
        let mut is_done = false;
        while !is_done {
            now = now.max(model.next_event_at().unwrap());
            while let Some((ended, _)) = model.poll_completion(now) {
                is_done |= ended == LegOpId(op);
            }
        }
        let took = now - started_at;
        assert!(took < Duration::from_ms(600), "{op}: {took}");
    }
}

/// Speeding the model up must not change when anything ends.
#[test]
fn every_completion_is_where_it_was() {
    let random = Pattern::random_reads();
    let medium = Pattern {
        len_bytes: 64 << 10,
        ..random
    };
    let stream = Pattern::stream();
    let mut told = Vec::new();
    for name in ["hdd-7200-2tb", "hdd-5400-old"] {
        for (depth, pattern) in [
            (1, random),
            (4, random.over(10)),
            (32, random),
            (32, medium.over(1)),
            (64, medium.repeated_after(500)),
            (2, stream),
            (8, random.of(OpKind::Write)),
            (32, medium.of(OpKind::Write)),
            (4, stream.of(OpKind::Write)),
        ] {
            let drive = drive_without_write_cache(name);
            told.push(drive.run(depth, pattern).fingerprint);
        }
    }
    assert_eq!(told, GOLDEN);
}

fn drive_without_write_cache(name: &str) -> crate::Drive {
    let mut drive = *drive(name).unwrap();
    drive.params.set("write_cache", "false").unwrap();
    drive
        .params
        .set("media_cache_bytes", "0")
        .unwrap_or_default();
    drive
}

const GOLDEN: [u64; 18] = [
    15402484631040469972,
    5602768503503083452,
    1577383462969133989,
    7705489723917806948,
    3740195645792338889,
    16811569494093972549,
    2053794284009247872,
    12934612380205224382,
    16811569494093972549,
    4877467810026216181,
    11606643517041742815,
    1647800194577481055,
    694186445121751893,
    4032702692770857424,
    874029674281757950,
    5665124054855861026,
    7420794423604516601,
    874029674281757950,
];
