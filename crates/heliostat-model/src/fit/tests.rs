//! Models are measured, fitted, and measured again: with other luck, and at loads that the fit has
//! not seen.

use heliostat_types::{Duration, RandomStream};
use stdx::histogram::Histogram;

use super::{Confidence, Fit, FitError, ProbeKind, Sample, fit, probes, run_probe};
use crate::api::ModelParams;
use crate::closed_loop::{ClosedLoop, Pattern};
use crate::drives::drive;

/// What the program would measure in `seconds`, with another luck than the fit's.
fn measure(params: &ModelParams, seconds: u64) -> Vec<Sample> {
    let all = probes(params.size_bytes());
    all.into_iter()
        .map(|probe| {
            let time = Duration::from_ms(seconds * 10 * probe.time_percent);
            // A look first, so that fast drives are not driven for longer than they would be.
            let look = run_probe(params, probe, Duration::from_ms(time.as_ms() / 50 + 1), 7);
            let needed = probe.reads_max.min(2_000) as f64 / look.rate().max(1.0);
            let length = time.min(Duration::from_secs_f64(needed));
            run_probe(params, probe, length, 7)
        })
        .collect()
}

fn fitted(name: &str) -> (ModelParams, Fit) {
    let params = drive(name).unwrap().params;
    let found = fit(params.size_bytes(), &measure(&params, 10)).unwrap();
    (params, found)
}

/// Operations per second of a load on a model with its own luck.
fn rate(params: &ModelParams, depth: usize, pattern: Pattern) -> f64 {
    let mut model = params.build(&mut RandomStream::new(3, "leg", 0));
    let seconds = match params {
        ModelParams::Hdd(_) => Duration::from_secs(60),
        ModelParams::Flash(_) | ModelParams::Network(_) | ModelParams::Ram(_) => {
            Duration::from_ms(100)
        }
    };
    ClosedLoop::with_seed(model.as_mut(), depth, pattern, 3)
        .run_for(seconds)
        .iops()
}

/// Holds what a fitted drive does to what the drive does: as shares of that.
fn check(name: &str, family: &str, loads: &[(usize, Pattern, f64)]) {
    let (params, found) = fitted(name);
    assert_eq!(found.params.family(), family, "{name}: {found:?}");
    assert!(found.residual < 0.12, "{name}: {found:?}");
    assert_eq!(found.params.check(), Ok(()), "{name}");
    for &(depth, pattern, bound) in loads {
        let (is, said) = (
            rate(&params, depth, pattern),
            rate(&found.params, depth, pattern),
        );
        let off = said / is - 1.0;
        assert!(
            off.abs() < bound,
            "{name}: {pattern:?}, depth {depth}: is {is:.0}, was said to be {said:.0}: {found:?}"
        );
    }
}

const RANDOM: Pattern = Pattern::random_reads();
const STREAM: Pattern = Pattern::stream();

#[test]
fn disks_that_turn_are_found() {
    let loads = [
        (1, RANDOM, 0.07),
        (2, RANDOM, 0.10),
        (8, RANDOM, 0.12),
        (32, RANDOM, 0.10),
        (8, STREAM, 0.05),
    ];
    for name in ["hdd-7200-2tb", "hdd-7200-1tb", "hdd-5400-old"] {
        check(name, "hdd", &loads);
    }
}

#[test]
fn flash_is_found() {
    let loads = [
        (1, RANDOM, 0.05),
        (8, RANDOM, 0.12),
        (32, RANDOM, 0.10),
        (8, STREAM, 0.05),
    ];
    for name in ["ssd-sata-256gb", "ssd-sata-1tb", "nvme-gen3", "nvme-gen4"] {
        check(name, "flash", &loads);
    }
}

#[test]
fn network_disks_are_found() {
    let loads = [
        (1, RANDOM, 0.05),
        (8, RANDOM, 0.10),
        (32, RANDOM, 0.05),
        (8, STREAM, 0.05),
    ];
    check("net-ssd", "network", &loads);
}

#[test]
fn how_fast_a_disk_turns_is_seen() {
    for (name, rpm) in [("hdd-7200-2tb", 7200), ("hdd-5400-old", 5400)] {
        let (_, found) = fitted(name);
        let ModelParams::Hdd(params) = found.params else {
            panic!("{name} is a disk");
        };
        assert_eq!(params.spindle_rpm, rpm, "{name}");
        assert_eq!(found.confidence, Confidence::Sure, "{name}: {found:?}");
    }
}

/// A few reads near each other may take longer than those that are far apart, by bad luck.
#[test]
fn bad_luck_does_not_make_a_disk_something_else() {
    let disk = drive("hdd-7200-2tb").unwrap().params;
    let mut samples = measure(&disk, 4);
    for sample in &mut samples {
        if sample.probe.kind == ProbeKind::Near {
            let slow = sample.service_ns.count() / 2;
            let mut service_ns = Histogram::new();
            service_ns.record_many(27_000_000, slow);
            sample.service_ns = service_ns;
        }
    }
    let found = fit(disk.size_bytes(), &samples).unwrap();
    assert_eq!(found.params.family(), "hdd", "{found:?}");
}

/// A disk whose reads are partly answered from flash is neither.
/// The same answers, of which some in a hundred are seen late.
fn on_a_busy_machine(sample: &Sample, late_percent: u64) -> Sample {
    let mut busy = sample.clone();
    busy.service_ns = Histogram::new();
    let mut late = 0;
    for (low, width, count) in sample.service_ns.buckets() {
        let (value, delayed) = (low + width / 2, count * late_percent / 100);
        busy.service_ns.record_many(value, count - delayed);
        // By up to 3 ms, as long as others have the processor.
        for part in 0..delayed {
            busy.service_ns.record(value + 3_000_000 * part / delayed);
            late += 3_000_000 * part / delayed;
        }
    }
    busy.elapsed += Duration::from_ns(late / sample.probe.depth as u64);
    busy
}

#[test]
fn flash_on_a_busy_machine_is_flash() {
    for name in ["ssd-sata-256gb", "nvme-gen3"] {
        let params = drive(name).unwrap().params;
        let samples: Vec<Sample> = measure(&params, 5)
            .iter()
            .map(|sample| match sample.probe.depth {
                1 => on_a_busy_machine(sample, 8),
                _ => sample.clone(),
            })
            .collect();
        let fit = fit(params.size_bytes(), &samples).unwrap();
        assert_eq!(fit.params.family(), "flash", "{name}: {fit:?}");
        let alone = rate(&fit.params, 1, Pattern::random_reads());
        let true_rate = rate(&params, 1, Pattern::random_reads());
        assert!(
            (0.85..1.15).contains(&(alone / true_rate)),
            "{alone} of {true_rate}"
        );
    }
}

#[test]
fn what_no_model_fits_is_said() {
    let disk = drive("hdd-7200-2tb").unwrap().params;
    let flash = drive("ssd-sata-256gb").unwrap().params;
    let mut samples = measure(&disk, 10);
    for (mixed, fast) in samples
        .iter_mut()
        .zip(measure(&flash.with_size(disk.size_bytes()), 10))
    {
        if matches!(mixed.probe.kind, ProbeKind::Random(32) | ProbeKind::Near) {
            *mixed = fast;
        }
    }
    let found = fit(disk.size_bytes(), &samples).unwrap();
    assert!(found.residual > 0.5, "{found:?}");
    assert_ne!(found.confidence, Confidence::Sure, "{found:?}");
    let worst = found.misses.iter().map(|miss| miss.share().abs());
    assert!(worst.fold(0.0, f64::max) > 0.5, "{found:?}");
}

#[test]
fn nothing_is_told_from_nothing() {
    let disk = drive("hdd-7200-2tb").unwrap().params;
    let size_bytes = disk.size_bytes();
    let too_little = FitError::TooLittle(ProbeKind::Random(1));
    assert_eq!(fit(size_bytes, &[]).unwrap_err(), too_little);
    let mut samples = measure(&disk, 10);
    let first = &mut samples[0];
    *first = run_probe(&disk, first.probe, Duration::from_ms(40), 7);
    assert_eq!(fit(size_bytes, &samples).unwrap_err(), too_little);
    let mut samples = measure(&disk, 10);
    samples.retain(|sample| sample.probe.kind != ProbeKind::Random(128));
    assert!(fit(size_bytes, &samples).is_ok(), "that one may be missing");
}
