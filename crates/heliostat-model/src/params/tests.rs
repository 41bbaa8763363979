use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, Prng, RandomStream};

use super::{FAMILIES, Field, SIZE_MAX};
use crate::api::{DeviceModel, ModelParams};
use crate::closed_loop::{Pattern, within};
use crate::drives::{DRIVES, drive};
use crate::{FlashParams, HddParams};

fn named(name: &str) -> ModelParams {
    drive(name).unwrap().params
}

fn told(result: Result<(), stdx::settings::SettingError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn every_field_is_taken_back_as_it_is_shown() {
    let families = FAMILIES.map(|family| ModelParams::of_family(family).unwrap());
    let all = DRIVES.iter().map(|drive| drive.params).chain(families);
    for params in all {
        params.check().unwrap();
        let mut copy = ModelParams::of_family(params.family()).unwrap();
        for Field { key, value, .. } in params.fields() {
            copy.set(key, &value).unwrap();
        }
        assert_eq!(copy, params);
        let keys: Vec<&str> = params.fields().iter().map(|field| field.key).collect();
        assert!(keys.starts_with(&["size", "queue_depth", "read_bw", "write_bw"]));
    }
    assert_eq!(ModelParams::of_family("tape"), None);
}

#[test]
fn errors_name_the_key_and_the_way_out() {
    let mut hdd = named("hdd-7200-2tb");
    assert_eq!(
        told(hdd.set("seek_meam", "8ms")),
        "there is no key 'seek_meam'; did you mean 'seek_mean'?"
    );
    assert_eq!(
        told(hdd.set("spindle_rpm", "0")),
        "spindle_rpm: '0' is not a whole number from 60 to 60000"
    );
    assert_eq!(
        told(hdd.set("read_bw", "0MB/s")),
        "read_bw: '0B/s' is not from 100kB/s to 1TB/s"
    );
    assert_eq!(
        told(hdd.set("logical_block_bytes", "1000")),
        "logical_block_bytes: '1kB' is no power of two"
    );
    hdd.set("seek_mean", "30ms").unwrap();
    assert!(told(hdd.check()).starts_with("seek_mean: does not lie where"));
    let mut ssd = named("ssd-sata-256gb");
    ssd.set("read_bw", "3GB/s").unwrap();
    assert_eq!(
        told(ssd.check()),
        "read_bw: '3GB/s' is more than link_bytes_per_s = 550MB/s carries: raise that too"
    );
    ssd.set("read_bw", "0B/s").unwrap();
    ssd.set("size", "1000").unwrap();
    assert_eq!(
        told(ssd.check()),
        "size: '1kB' is no whole number of blocks of 512 bytes"
    );
}

#[test]
fn a_rate_of_a_hard_disk_takes_the_inner_one_with_it() {
    let mut params = named("hdd-7200-2tb");
    params.set("read_bw", "114MB/s").unwrap();
    let ModelParams::Hdd(HddParams {
        inner_bytes_per_s, ..
    }) = params
    else {
        panic!("it is a hard disk");
    };
    assert_eq!(inner_bytes_per_s, 55_000_000);
}

#[test]
fn caps_hold_in_their_direction_and_in_no_other() {
    for (name, cap, free) in [
        ("ssd-sata-256gb", 300e6, 0.9),
        ("nvme-gen3", 300e6, 5.0),
        ("net-ssd", 300e6, 3.0),
        ("ram", 300e6, 5.0),
        ("hdd-7200-2tb", 100e6, 2.0),
    ] {
        for (capped, key) in [(OpKind::Read, "read_bw"), (OpKind::Write, "write_bw")] {
            let mut drive = *drive(name).unwrap();
            let text = format!("{}MB/s", cap / 1e6);
            drive.params.set(key, &text).unwrap();
            drive.params.check().unwrap();
            let rate = |kind| drive.run(16, Pattern::stream().of(kind)).bytes_per_s();
            let limited = rate(capped);
            // The buffers of flash take their bytes before the time is measured.
            assert!(within(limited, cap, 0.01), "{name} {key}: {limited}");
            let other = if capped == OpKind::Read {
                OpKind::Write
            } else {
                OpKind::Read
            };
            // A hard disk's media is one for both directions.
            if name != "hdd-7200-2tb" || capped == OpKind::Write {
                let unlimited = rate(other);
                assert!(unlimited > cap * (1.0 + free * 0.5), "{name}: {unlimited}");
            }
        }
    }
}

#[test]
fn the_ssd_of_the_contract_reads_at_its_override() {
    let mut drive = *drive("ssd-sata-256gb").unwrap();
    drive.params.set("read_bw", "500MB/s").unwrap();
    for depth in [1, 8, 32] {
        let rate = drive.run(depth, Pattern::stream()).bytes_per_s();
        assert!(rate <= 500e6 && rate > 300e6, "{depth}: {rate}");
    }
}

/// A text for a field: often at an edge of what can be written, now and then plausible.
fn any_text(prng: &mut dyn Prng, unit: &str) -> String {
    let number = match prng.below(6) {
        0 => prng.below(3),
        1 => u64::MAX >> prng.below(3),
        2 => 512 << prng.below(50),
        _ => prng.next_u64() >> prng.below(64),
    };
    match unit {
        "bytes" => number.to_string(),
        "bytes/s" => format!("{number}B/s"),
        "time" => format!("{number}ns"),
        "count" => number.to_string(),
        _ => (number % 2 == 0).to_string(),
    }
}

/// Operations of every kind at the edges and in the middle, a few at a time.
fn drive_it(model: &mut dyn DeviceModel, prng: &mut dyn Prng) {
    let spec = *model.spec();
    let block = u64::from(spec.logical_block_bytes);
    let blocks = spec.size_bytes / block;
    let kinds = [
        OpKind::Read,
        OpKind::Write,
        OpKind::Flush,
        OpKind::Trim,
        OpKind::WriteZeroes,
        OpKind::BlockStatus,
        OpKind::Read,
        OpKind::Write,
    ];
    let mut in_flight = std::collections::BTreeMap::new();
    let mut now = Instant::ZERO;
    for op in 0..60 {
        let kind = kinds[usize::try_from(prng.below(8)).unwrap()];
        let start = match prng.below(3) {
            0 => 0,
            1 => blocks - 1,
            _ => prng.below(blocks),
        };
        let len = if kind == OpKind::Flush {
            0
        } else {
            1 + prng.below((blocks - start).min((32 << 20) / block))
        };
        let extent = Extent::new(start * block, len * block);
        model.submit(now, LegOpId(op), kind, extent, prng);
        in_flight.insert(LegOpId(op), now);
        let bits = prng.below(34);
        now += Duration::from_ns(prng.below(1 << bits));
        while let Some((op, result)) = model.poll_completion(now) {
            assert_eq!(result, Ok(()));
            assert!(in_flight.remove(&op).unwrap() <= now);
        }
    }
    while let Some(next) = model.next_event_at() {
        assert!(next < Instant::MAX, "it ends");
        now = now.max(next);
        while let Some((op, _)) = model.poll_completion(now) {
            assert!(in_flight.remove(&op).is_some());
        }
        if in_flight.is_empty() {
            return;
        }
    }
    assert!(in_flight.is_empty(), "{in_flight:?} never end");
}

#[test]
fn what_passes_the_check_can_be_built_and_driven() {
    let mut prng = RandomStream::new(7, "test", 0);
    let mut passed = 0;
    for round in 0..4_000usize {
        let mut params = ModelParams::of_family(FAMILIES[round % 4]).unwrap();
        let fields = params.fields();
        let count = u64::try_from(fields.len()).unwrap();
        for _ in 0..=prng.below(6) {
            let field = &fields[usize::try_from(prng.below(count)).unwrap()];
            // A value that is refused leaves the one that was.
            let before = params;
            let text = any_text(&mut prng, field.unit);
            if params.set(field.key, &text).is_err() {
                assert_eq!(params, before);
            }
        }
        if params.check().is_ok() {
            passed += 1;
            let mut model = params.build(&mut prng);
            let mut copy = model.clone_box();
            drive_it(model.as_mut(), &mut prng.clone());
            drive_it(copy.as_mut(), &mut prng.clone());
            assert_eq!(
                format!("{model:?}"),
                format!("{copy:?}"),
                "a copy is the same"
            );
        }
    }
    assert!(passed > 1_000, "{passed}");
}

#[test]
fn what_is_built_without_text_is_checked_too() {
    let params = FlashParams {
        die_count: 0,
        ..FlashParams::NEUTRAL
    };
    let told = told(ModelParams::Flash(params).check());
    assert_eq!(told, "die_count: '0' is not from 1 to 65536");
    let huge = named("net-ssd").with_size(SIZE_MAX + 512);
    assert!(huge.check().is_err());
}
