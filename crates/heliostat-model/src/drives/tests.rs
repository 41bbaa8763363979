use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, Prng, RandomStream};

use super::{DRIVES, Drive, drive};
use crate::closed_loop::{Pattern, run};

#[test]
fn every_drive_can_be_built_in_any_size() {
    let mut prng = RandomStream::new(1, "leg", 0);
    for entry in &DRIVES {
        assert_eq!(drive(entry.name), Some(entry));
        let model = entry.params.build(&mut prng);
        assert_eq!(model.spec().size_bytes, entry.params.size_bytes());
        for size_bytes in [1 << 20, 1 << 30, 16 << 40] {
            let model = entry.params.with_size(size_bytes).build(&mut prng);
            assert_eq!(model.spec().size_bytes, size_bytes, "{}", entry.name);
        }
    }
    assert_eq!(drive("floppy"), None);
}

/// Random 4 KiB operations per second, from a minute of a hard disk, half a second of flash and
/// networks, and 20 ms of memory.
fn random_iops(drive: &Drive, kind: OpKind, depth: usize) -> f64 {
    let length = match drive.params.family() {
        "hdd" => Duration::from_secs(60),
        "ram" => Duration::from_ms(20),
        _ => Duration::from_ms(500),
    };
    let mut model = drive.params.build(&mut RandomStream::new(1, "leg", 0));
    let pattern = Pattern::random_reads().of(kind);
    run(model.as_mut(), depth, pattern, length).iops()
}

/// What the models say of themselves, as docs/models/README.md shows it: IOPS of random 4 KiB reads
/// and writes at depths 1, 4 and 32, and MB/s of 1 MiB streams at depth 8.
fn data_sheet(drive: &Drive) -> String {
    let stream = |kind| {
        let run = drive.run(8, Pattern::stream().of(kind));
        format!("{:.0}", run.bytes_per_s() / 1e6)
    };
    let mut cells = vec![format!("`{}`", drive.name)];
    for kind in [OpKind::Read, OpKind::Write] {
        cells.extend([1, 4, 32].map(|depth| format!("{:.0}", random_iops(drive, kind, depth))));
    }
    cells.extend([OpKind::Read, OpKind::Write].map(stream));
    format!("| {} |", cells.join(" | "))
}

/// Each line is in the table of docs/models/README.md, so that the page cannot say anything else.
#[test]
fn the_data_sheets_are_those_of_the_page() {
    let page = include_str!("../../../../docs/models/README.md");
    let missing: Vec<String> = DRIVES
        .iter()
        .map(data_sheet)
        .filter(|line| !page.lines().any(|shown| shown == line))
        .collect();
    assert!(
        missing.is_empty(),
        "not in the page:\n{}",
        missing.join("\n")
    );
}

#[test]
fn size_changes_nothing_but_the_size() {
    for entry in DRIVES.iter().filter(|drive| drive.name != "ram") {
        for depth in [1, 32] {
            let whole = random_iops(entry, OpKind::Read, depth);
            for size_bytes in [8 << 30, 8 << 40] {
                let other = Drive {
                    params: entry.params.with_size(size_bytes),
                    ..*entry
                };
                let told = random_iops(&other, OpKind::Read, depth);
                let ratio = told / whole;
                assert!(
                    (0.97..1.03).contains(&ratio),
                    "{} of {size_bytes} at {depth}: {told} for {whole}",
                    entry.name
                );
            }
        }
    }
}

/// A random load of reads, writes and flushes: operations in flight, over time, are the sum of
/// their service times; none ends before it came, and each ends once.
#[test]
fn what_goes_in_comes_out_later() {
    for entry in &DRIVES {
        let mut model = entry.params.build(&mut RandomStream::new(1, "leg", 0));
        let mut prng = RandomStream::new(1, "job", 0);
        let mut luck = RandomStream::new(1, "luck", 0);
        let blocks = entry.params.size_bytes() / 4096 - 64;
        let mut since = std::collections::BTreeMap::new();
        let (mut in_flight_ns, mut service_ns) = (0, 0);
        let mut last = Instant::ZERO;
        let mut now = Instant::ZERO;
        let mut next = 0u64;
        while next < 3_000 || !since.is_empty() {
            let has_room = next < 3_000 && since.len() < 40;
            let arrives_at = now + Duration::from_ns(prng.below(1 << 21));
            let ends_at = model.next_event_at();
            now = match ends_at {
                Some(at) if !has_room || at < arrives_at => now.max(at),
                _ => arrives_at,
            };
            in_flight_ns += (now - last).as_ns() * since.len() as u64;
            last = now;
            while let Some((op, result)) = model.poll_completion(now) {
                assert_eq!(result, Ok(()));
                let came_at = since.remove(&op).expect("it is in flight");
                assert!(now > came_at, "{}: {op:?} took no time", entry.name);
                service_ns += (now - came_at).as_ns();
            }
            if has_room && now == arrives_at {
                let kind = match prng.below(10) {
                    0..=4 => OpKind::Read,
                    5..=8 => OpKind::Write,
                    _ => OpKind::Flush,
                };
                let len = if kind == OpKind::Flush {
                    0
                } else {
                    4096 << prng.below(5)
                };
                let extent = Extent::new(prng.below(blocks) * 4096, len);
                model.submit(now, LegOpId(next), kind, extent, &mut luck);
                since.insert(LegOpId(next), now);
                next += 1;
            }
        }
        assert_eq!(in_flight_ns, service_ns, "{}", entry.name);
    }
}

/// Over any stretch of a hard disk no stream is faster than the zone that it lies in.
#[test]
fn no_stream_is_faster_than_its_zone() {
    for name in ["hdd-7200-2tb", "hdd-7200-1tb", "hdd-5400-old"] {
        let crate::ModelParams::Hdd(params) = drive(name).unwrap().params else {
            panic!("{name} is a hard disk");
        };
        for kind in [OpKind::Read, OpKind::Write] {
            for percent in [0, 30, 60, 95] {
                let mut model = drive(name)
                    .unwrap()
                    .params
                    .build(&mut RandomStream::new(1, "leg", 0));
                let mut luck = RandomStream::new(1, "luck", 0);
                let start = params.size_bytes / 100 * percent / 4096 * 4096;
                let (mut now, mut in_flight) = (Instant::ZERO, 0);
                let count = 2_000;
                for block in 0..count {
                    let extent = Extent::new(start + (block << 20), 1 << 20);
                    model.submit(now, LegOpId(block), kind, extent, &mut luck);
                    in_flight += 1;
                    while in_flight == 4 {
                        now = now.max(model.next_event_at().unwrap());
                        while model.poll_completion(now).is_some() {
                            in_flight -= 1;
                        }
                    }
                }
                // The share of the way at these bytes, from rates that fall evenly along it, and
                // the rate of the zone there: 16 of equal width.
                let (outer, inner) = (
                    params.outer_bytes_per_s as f64,
                    params.inner_bytes_per_s as f64,
                );
                let bytes = percent as f64 / 100.0 * (outer + inner) / 2.0;
                let way = (outer - (outer * outer - 2.0 * (outer - inner) * bytes).sqrt())
                    / (outer - inner);
                let zone_rate = outer - (outer - inner) * (way * 16.0).floor() / 15.0;
                let cached = if kind == OpKind::Write {
                    params.write_cache_bytes
                } else {
                    0
                };
                let moved = ((count - in_flight) << 20) - cached;
                let rate = moved as f64 / now.as_ns() as f64 * 1e9 / zone_rate;
                // A zone is 3 % wide.
                assert!(
                    (0.9..1.02).contains(&rate),
                    "{name} {kind:?} at {percent} %: {rate}"
                );
            }
        }
    }
}
