//! Streams with many reads in flight, and streams whose legs stall.

use heliostat_types::Duration;
use heliostat_workload::{Job, Rw};

use super::super::play;
use super::{over_200_gib, stream};
use crate::faults::{Effect, Fault};

/// Who asks for more than is read ahead has the arms go on where they are. They would leave for
/// each read and skip what others have.
#[test]
fn a_deep_stream_has_all_disks() {
    for (drive, depth) in [
        ("hdd-7200-2tb", 6),
        ("hdd-7200-2tb", 8),
        ("hdd-7200-1tb", 4),
    ] {
        let deep = Job {
            rw: Rw::Read,
            bs_bytes: 1 << 20,
            iodepth: depth,
            ..Job::default()
        };
        let mut scenario = over_200_gib(&[drive; 2], 4, deep);
        scenario.warmup_seconds = Duration::from_ms(4_000);
        let both = play(&scenario, "adaptive").read.bytes as f64;
        scenario.array.legs.truncate(1);
        let share = both / play(&scenario, "adaptive").read.bytes as f64;
        assert!(share > 1.75, "{drive}, {depth} at once: {share}");
    }
}

/// An arm would read a little of each in turns.
#[test]
fn several_deep_streams_of_short_reads_are_as_fast_as_shallow_ones() {
    let bandwidth = |depth| {
        let streams = Job {
            rw: Rw::Read,
            bs_bytes: 64 << 10,
            iodepth: depth,
            numjobs: 4,
            offset_increment_bytes: 20 << 30,
            ..Job::default()
        };
        let mut scenario = over_200_gib(&["hdd-7200-2tb"; 2], 3, streams);
        scenario.warmup_seconds = Duration::from_ms(3_000);
        play(&scenario, "adaptive").read.bytes as f64
    };
    let share = bandwidth(32) / bandwidth(4);
    assert!(share > 0.95, "{share}");
}

/// A drive is silent for 200 ms. Nobody waits for that, whether his reads are cut, or one is asked
/// for what was to be read ahead.
#[test]
fn a_stream_does_not_wait_for_flash_that_stalls() {
    for (drives, numjobs) in [(2, 1), (2, 2), (3, 1)] {
        let streams = Job {
            numjobs,
            offset_increment_bytes: 64 << 30,
            ..stream()
        };
        let mut scenario = over_200_gib(&vec!["ssd-sata-256gb"; drives], 2, streams);
        scenario.warmup_seconds = Duration::from_ms(500);
        let healthy = play(&scenario, "adaptive").read.ios as f64;
        let mut stalls = Fault::new(0, Effect::Pause(Duration::from_ms(200)));
        stalls.every = Some(Duration::from_ms(1_000));
        scenario.faults.push(stalls);
        let result = play(&scenario, "adaptive");
        let longest = Duration::from_ns(result.read.response_time_ns().max());
        assert!(
            longest < Duration::from_ms(50),
            "{drives}, {numjobs}: {longest:?}"
        );
        let share = result.read.ios as f64 / healthy;
        assert!(share > 0.7, "{drives}, {numjobs}: {share}");
        assert!(result.hedges.won > 0);
    }
}
