//! The default policy beside others, and beside itself without a part.

mod beside;
mod deep;

use heliostat_engine::Layout;
use heliostat_types::Duration;
use heliostat_workload::{Arrival, Distribution, FromMeasuring, Job, Rw};

use super::{play, scenario};
use crate::faults::{Effect, Fault};
use crate::result::{JobResult, RunResult};
use crate::scenario::Scenario;

/// A scenario over 200 GiB, as large as a small drive is.
fn over_200_gib(legs: &[&str], seconds: u64, job: Job) -> Scenario {
    let mut scenario = scenario(legs, seconds, job);
    scenario.array.size_bytes = 200 << 30;
    scenario
}

/// How many times as many reads two NVMe drives serve, at depth 2, as where a part is off.
fn gain_of(part: &str, job: &Job) -> f64 {
    let mut scenario = scenario(&["nvme-gen3", "nvme-gen3"], 0, job.clone());
    scenario.array.size_bytes = 8 << 30;
    scenario.warmup_seconds = Duration::from_ms(500);
    scenario.seconds = Duration::from_ms(500);
    let [all, without] = ["adaptive".to_owned(), format!("adaptive:{part}=off")]
        .map(|policy| play(&scenario, &policy).read.ios as f64);
    all / without
}

/// One leg always has a read where there is another one, so that legs look unlike.
#[test]
fn two_large_reads_at_a_time_are_cut() {
    let job = Job {
        rw: Rw::RandRead,
        bs_bytes: 256 << 10,
        iodepth: 2,
        ..Job::default()
    };
    let gain = gain_of("split", &job);
    assert!((1.3..1.4).contains(&gain), "{gain}");
}

/// A file is a stream, and the one before takes no part any more.
#[test]
fn files_that_are_read_one_after_the_other_are_read_ahead() {
    for (file_mib, least) in [(16, 1.6), (64, 2.0), (256, 2.1)] {
        let job = Job {
            rw: Rw::Read,
            bs_bytes: 128 << 10,
            iodepth: 2,
            offset_bytes: file_mib << 20,
            size_bytes: file_mib << 20,
            ..Job::default()
        };
        let gain = gain_of("streams", &job);
        assert!(gain > least, "{file_mib} MiB: {gain}");
    }
}

/// What a drive holds it answers at once, and two drives hold twice as much.
#[test]
fn blocks_that_are_read_again_are_read_where_they_were() {
    for (iodepth, least) in [(2, 1.05), (8, 1.02)] {
        let job = Job {
            rw: Rw::RandRead,
            random_distribution: Distribution::Zipf { theta: 1.1 },
            iodepth,
            ..Job::default()
        };
        let gain = gain_of("locality", &job);
        assert!(gain > least, "depth {iodepth}: {gain}");
    }
}

/// One who reads a file as `cat` does.
fn stream() -> Job {
    Job {
        rw: Rw::Read,
        bs_bytes: 128 << 10,
        direct: false,
        readahead_bytes: 128 << 10,
        ..Job::default()
    }
}

/// Who has most of what the first drive can do, for 200 ms of 400.
fn neighbour() -> Job {
    Job {
        rw: Rw::RandRead,
        bs_bytes: 64 << 10,
        leg: Some(0),
        arrival: Arrival::Burst {
            per_s: 7_000.0,
            on: Duration::from_ms(200),
            off: Duration::from_ms(200),
        },
        ..Job::default()
    }
}

#[test]
fn flash_that_a_neighbour_has_left_is_read_as_before() {
    let reader = Job {
        rw: Rw::RandRead,
        iodepth: 16,
        ..Job::default()
    };
    let mut scenario = over_200_gib(&["ssd-sata-256gb"; 2], 2, reader);
    scenario.warmup_seconds = Duration::from_ms(400);
    scenario.jobs.push(neighbour());
    let [adaptive, queue] = ["adaptive", "queue-adaptive"]
        .map(|policy| play(&scenario, policy).jobs[0].read.ios as f64);
    assert!(adaptive >= 0.97 * queue, "{adaptive} {queue}");
}

/// A stream and a log on two drives, for so long and then 2 s.
fn a_stream_beside_a_log(warmup_seconds: u64) -> Scenario {
    let mut scenario = over_200_gib(&["ssd-sata-256gb"; 2], 2, stream());
    scenario.warmup_seconds = Duration::from_secs(warmup_seconds);
    scenario.jobs.push(Job {
        rw: Rw::Write,
        offset_bytes: 100 << 30,
        ..Job::default()
    });
    scenario
}

/// Each time that he has left the other drive is read as well, and the log waits for less.
#[test]
fn a_log_waits_for_a_stream_on_one_drive_only_while_the_other_one_has_a_neighbour() {
    for seed in [1, 2] {
        let mut scenario = a_stream_beside_a_log(1);
        scenario.seed = seed;
        scenario.jobs.push(neighbour());
        let [adaptive, hst] = ["adaptive", "hst"].map(|policy| play(&scenario, policy));
        let written = |of: &RunResult| of.jobs[1].write.ios as f64;
        let read = |of: &RunResult| of.jobs[0].read.ios as f64;
        let gains = [
            written(&adaptive) / written(&hst),
            read(&adaptive) / read(&hst),
        ];
        assert!(gains[0] > 0.9 && gains[1] > 0.98, "{gains:?}");
    }
}

/// It looked as slow as what adds nothing to a stream, and was left to the log for ever.
#[test]
fn a_drive_that_had_a_neighbour_is_read_again_beside_a_log() {
    let mut had = a_stream_beside_a_log(12);
    had.jobs.push(Job {
        stop: Some(FromMeasuring(-9_000_000_000)),
        ..neighbour()
    });
    let [had, never] = [had, a_stream_beside_a_log(12)]
        .map(|scenario| play(&scenario, "adaptive").jobs[1].write.ios as f64);
    assert!(had > 0.85 * never, "{had} {never}");
}

/// Who loads one of two drives now and then makes that slow, and not the other: there random reads
/// wait for no more of the streams than fill it, and the rest waits for the neighbour.
#[test]
fn streams_wait_where_a_neighbour_is_and_random_reads_elsewhere() {
    let streams = Job {
        numjobs: 8,
        offset_increment_bytes: 20 << 30,
        ..stream()
    };
    let mut scenario = over_200_gib(&["ssd-sata-256gb"; 2], 4, streams);
    scenario.warmup_seconds = Duration::from_ms(400);
    scenario.jobs.push(Job {
        rw: Rw::RandRead,
        iodepth: 4,
        ..Job::default()
    });
    scenario.jobs.push(neighbour());
    let [adaptive, queue] = ["adaptive", "queue"].map(|policy| play(&scenario, policy));
    let random = |of: &RunResult| of.jobs[1].read.ios as f64;
    let gain = random(&adaptive) / random(&queue);
    assert!(gain > 0.9, "{gain}");
}

/// Reads that come whatever is answered, for so many milliseconds of four times as many.
fn bursts(per_s: f64, on_ms: u64) -> Job {
    Job {
        rw: Rw::RandRead,
        arrival: Arrival::Burst {
            per_s,
            on: Duration::from_ms(on_ms),
            off: Duration::from_ms(3 * on_ms),
        },
        ..Job::default()
    }
}

/// The same where a leg is 30 times slower from so many milliseconds on.
fn slow_from(mut scenario: Scenario, leg: usize, at_ms: u64) -> Scenario {
    let slow = Fault::new(leg, Effect::Slow(30_000));
    let slow = slow.between(Duration::from_ms(at_ms), Duration::MAX);
    scenario.faults.push(slow);
    scenario
}

/// How many times as long reads take on average as under another policy.
fn mean_beside(other: &str, scenario: Scenario) -> f64 {
    let [own, other] = ["adaptive", other].map(|policy| {
        let result = play(&scenario, policy);
        result.read.response_time_ns().mean()
    });
    own / other
}

/// A burst is more than the SATA drive ends at once, and the NVMe drive has become slow: what waits
/// there is not served sooner because nobody has seen yet what it takes.
#[test]
fn a_burst_does_not_wait_for_a_leg_that_has_become_slow() {
    let scenario = over_200_gib(&["ssd-sata-256gb", "nvme-gen3"], 1, bursts(200_000.0, 10));
    let times = mean_beside("queue", slow_from(scenario, 1, 200));
    assert!(times < 0.95, "{times}");
}

/// The reads that were in flight when one of two drives became slow took less than any later one.
#[test]
fn a_slow_leg_has_no_more_of_a_burst_than_it_ends_in_time() {
    for (legs, per_s, on_ms) in [
        (["ssd-sata-256gb"; 2], 120_000.0, 20),
        (["nvme-gen3", "ssd-sata-256gb"], 200_000.0, 10),
    ] {
        let scenario = over_200_gib(&legs, 2, bursts(per_s, on_ms));
        let times = mean_beside("hst", slow_from(scenario, 0, 500));
        assert!(times < 1.2, "{legs:?}: {times}");
    }
}

/// A reader is back at the disk's next chunk before the disk has read something of all others: it
/// stays with him then. Sooner, where the chunks between are on flash.
#[test]
fn a_disk_of_many_streams_goes_on_where_a_reader_is() {
    let mixed = [
        "hdd-7200-2tb",
        "hdd-7200-2tb",
        "ssd-sata-1tb",
        "ssd-sata-1tb",
    ];
    for (legs, streams, least) in [(mixed, 8, 3.0), (["hdd-7200-2tb"; 4], 16, 2.0)] {
        let streams = Job {
            numjobs: streams,
            offset_increment_bytes: 11 << 30,
            ..stream()
        };
        let mut scenario = over_200_gib(&legs, 10, streams);
        scenario.array.layout = Layout::parse("near=2").unwrap();
        scenario.warmup_seconds = Duration::from_secs(5);
        let [adaptive, pid] = ["adaptive", "pid"].map(|policy| play(&scenario, policy));
        let gain = adaptive.read.bytes as f64 / pid.read.bytes as f64;
        assert!(gain > least, "{legs:?}: {gain}");
    }
}

/// One of two disks has never read a stream, and is left to random reads all the same: those that
/// went to the other one would cost that a way there and back.
#[test]
fn a_stream_and_random_reads_have_a_disk_each() {
    let mut scenario = scenario(&["hdd-7200-2tb"; 2], 20, stream());
    scenario.array.size_bytes = 1 << 40;
    scenario.warmup_seconds = Duration::from_secs(10);
    scenario.jobs.push(Job {
        rw: Rw::RandRw,
        rwmixread: 70,
        iodepth: 8,
        ..Job::default()
    });
    let [adaptive, pid] = ["adaptive", "pid"].map(|policy| play(&scenario, policy));
    for (adaptive, pid) in adaptive.jobs.iter().zip(&pid.jobs) {
        let share = adaptive.read.ios as f64 / pid.read.ios as f64;
        assert!(share > 0.97, "{share}");
    }
}

/// Every write waits for the SATA drive, which reads a sixth of what the NVMe drive does: streams
/// that wait there hold up those who write, and are slow themselves.
#[test]
fn streams_do_not_wait_where_all_writes_wait() {
    let streams = Job {
        numjobs: 4,
        offset_increment_bytes: 15 << 30,
        ..stream()
    };
    let mut scenario = over_200_gib(&["ssd-sata-256gb", "nvme-gen3"], 1, streams);
    scenario.warmup_seconds = Duration::from_ms(300);
    scenario.jobs.push(Job {
        rw: Rw::RandRw,
        rwmixread: 70,
        iodepth: 16,
        ..Job::default()
    });
    let policies = ["adaptive", "latency-lifetime"];
    let [adaptive, other] = policies.map(|policy| play(&scenario, policy));
    for (adaptive, other) in adaptive.jobs.iter().zip(&other.jobs) {
        let share = adaptive.read.ios as f64 / other.read.ios as f64;
        assert!(share > 0.93, "{share}");
    }
}

/// How many times as many reads of the first job, and writes of the second, as under `hst`.
fn beside_hst(scenario: &Scenario) -> (f64, f64) {
    let [adaptive, hst] = ["adaptive", "hst"].map(|policy| play(scenario, policy));
    let reads = |run: &RunResult| run.jobs[0].read.ios as f64;
    let writes = |run: &RunResult| run.jobs[1].write.ios as f64;
    (
        reads(&adaptive) / reads(&hst),
        writes(&adaptive) / writes(&hst),
    )
}

/// A stream beside another job.
fn beside(legs: &[&str], other: Job) -> Scenario {
    let mut scenario = over_200_gib(legs, 1, stream());
    scenario.warmup_seconds = Duration::from_ms(300);
    scenario.jobs.push(other);
    scenario
}

/// Who writes, or reads and writes, one at a time, would wait behind megabytes that are read ahead,
/// each time: a log is written at a hundredth of its speed then, and a reader is hardly seen.
#[test]
fn who_has_one_operation_at_a_time_does_not_wait_behind_what_is_read_ahead() {
    for (rw, iodepth, thinktime_us) in [
        (Rw::RandWrite, 1, 0),
        (Rw::Write, 1, 0),
        (Rw::Write, 1, 1_000),
        (Rw::RandWrite, 8, 0),
        (Rw::RandRw, 1, 0),
    ] {
        let other = Job {
            rw,
            rwmixread: 70,
            iodepth,
            thinktime: Duration::from_us(thinktime_us),
            offset_bytes: 100 << 30,
            ..Job::default()
        };
        let mirror = beside(&["ssd-sata-256gb", "ssd-sata-256gb"], other.clone());
        let mut raid10 = beside(&["ssd-sata-256gb"; 4], other);
        raid10.array.layout = Layout::parse("near=2").unwrap();
        for scenario in [mirror, raid10] {
            let [adaptive, queue] = ["adaptive", "queue"].map(|policy| play(&scenario, policy));
            for (adaptive, queue) in adaptive.jobs.iter().zip(&queue.jobs) {
                let all = |job: &JobResult| (job.read.ios + job.write.ios) as f64;
                let share = all(adaptive) / all(queue);
                assert!(share > 0.95, "{rw:?} at {iodepth}, {thinktime_us}: {share}");
            }
        }
    }
}

/// Writes wait for the slower drive, which adds a seventh to what is read in sequence.
#[test]
fn streams_leave_the_slower_flash_to_those_who_write() {
    let other = Job {
        rw: Rw::Write,
        offset_bytes: 100 << 30,
        ..Job::default()
    };
    let mut scenario = beside(&["ssd-sata-256gb", "nvme-gen3"], other);
    scenario.jobs[0].readahead_bytes = 2 << 20;
    let (read, written) = beside_hst(&scenario);
    assert!(read > 1.5 && written > 1.8, "{read} {written}");
}

/// Where each reader has one read at a time no drive ever has much to do, so that nobody can see
/// how much it could. It does what it is seen to do, though, and a disk a thirtieth of that; who is
/// at the disk when that is known leaves it then.
#[test]
fn a_few_short_reads_at_a_time_do_not_make_fast_flash_as_slow_as_a_disk() {
    let readers = Job {
        rw: Rw::Read,
        bs_bytes: 128 << 10,
        numjobs: 4,
        offset_increment_bytes: 15 << 30,
        ..Job::default()
    };
    let legs = ["ssd-sata-1tb", "nvme-gen4", "hdd-7200-1tb"];
    let mut scenario = over_200_gib(&legs, 2, readers);
    let beside = Job {
        rw: Rw::RandRead,
        bs_bytes: 8 << 10,
        iodepth: 2,
        ..Job::default()
    };
    for others in [vec![], vec![beside]] {
        scenario.jobs.truncate(1);
        scenario.jobs.extend(others);
        let policies = ["adaptive", "latency-lifetime"];
        let [adaptive, other] = policies.map(|policy| play(&scenario, policy));
        for (adaptive, other) in adaptive.jobs.iter().zip(&other.jobs) {
            let share = adaptive.read.ios as f64 / other.read.ios as f64;
            assert!(share > 0.97, "{share}");
        }
        let late = |run: &RunResult| run.jobs[0].read.response_time_ns().quantile(9_990);
        assert!(late(&adaptive) < late(&other) * 2);
    }
}

/// Of two reads one goes to the slower disk as well, which would end it later: two at once on the
/// faster one take it nearly twice as long as one.
#[test]
fn two_reads_have_both_of_two_disks_that_differ() {
    let job = Job {
        rw: Rw::RandRead,
        bs_bytes: 32 << 10,
        iodepth: 2,
        random_distribution: Distribution::Zipf { theta: 0.9 },
        ..Job::default()
    };
    let scenario = over_200_gib(&["hdd-7200-1tb", "hdd-5400-old"], 10, job);
    let [adaptive, one] = ["adaptive", "devid:1"].map(|policy| play(&scenario, policy));
    let gain = adaptive.read.ios as f64 / one.read.ios as f64;
    assert!(gain > 1.25, "{gain}");
}

/// A network disk becomes three times as slow behind sixteen reads, and no read meets it idle any
/// more: what it took then does not say that it is saturated now, and disks are little help.
#[test]
fn a_leg_that_is_slower_at_any_depth_is_not_saturated_by_that() {
    let job = Job {
        rw: Rw::RandRead,
        bs_bytes: 32 << 10,
        iodepth: 16,
        ..Job::default()
    };
    let mut scenario = over_200_gib(&["hdd-7200-2tb", "net-ssd", "hdd-7200-2tb"], 6, job);
    scenario.warmup_seconds = Duration::from_secs(1);
    let slow = Fault::new(1, Effect::Slow(3_000));
    scenario
        .faults
        .push(slow.between(Duration::ZERO, Duration::MAX));
    let [adaptive, hst] = ["adaptive", "hst"].map(|policy| play(&scenario, policy));
    let share = adaptive.read.ios as f64 / hst.read.ios as f64;
    assert!(share > 0.97, "{share}");
}

/// Each chunk of three legs is on two of them, and so on one that is no disk: a stream that is read
/// ahead by all three would wait for the disk's part.
#[test]
fn a_stream_of_an_odd_raid10_does_not_wait_for_a_leg_that_it_need_not_have() {
    let mut scenario = over_200_gib(
        &["ssd-sata-256gb", "nvme-gen4", "hdd-7200-1tb"],
        2,
        stream(),
    );
    scenario.array.layout = Layout::parse("near=2").unwrap();
    scenario.warmup_seconds = Duration::from_secs(1);
    let bytes = |policy| play(&scenario, policy).read.bytes as f64;
    let gain = bytes("adaptive") / bytes("latency-lifetime");
    assert!(gain > 1.3, "{gain}");
}

/// With one read at a time, a reader has no other one at the disk when that is answered, and eight
/// of them would cost it a seek after each.
#[test]
fn readers_with_one_read_at_a_time_do_not_send_the_arm_to_and_fro() {
    let reader = |bs_bytes, iodepth| Job {
        rw: Rw::Read,
        bs_bytes,
        iodepth,
        numjobs: 8,
        offset_increment_bytes: 16 << 30,
        ..Job::default()
    };
    let play = |policy, job| {
        let mut scenario = over_200_gib(&["hdd-7200-2tb"; 2], 8, job);
        scenario.warmup_seconds = Duration::from_secs(2);
        play(&scenario, policy).read.bytes as f64
    };
    let best = play("md", reader(512 << 10, 2));
    for bs_bytes in [16 << 10, 128 << 10] {
        let one = play("adaptive", reader(bs_bytes, 1));
        assert!(one > 0.95 * best, "{bs_bytes}: {one} of {best}");
    }
}

/// A stream that has left a slow drive tries it with a read now and then.
#[test]
fn a_drive_that_is_well_again_reads_streams_again() {
    let mut scenario = over_200_gib(&["hdd-7200-2tb", "ssd-sata-256gb"], 9, stream());
    let slow = Fault::new(1, Effect::Slow(30_000));
    let (at, until) = (Duration::from_ms(500), Duration::from_ms(5_500));
    scenario.faults.push(slow.between(at, until));
    let slow = play(&scenario, "adaptive");
    scenario.faults.clear();
    let well = play(&scenario, "adaptive");
    // It is well in four of nine seconds, and the disk does something as well.
    let share = slow.read.bytes as f64 / well.read.bytes as f64;
    assert!(share > 0.5, "{share}");
}

/// Eight at once each 2.5 ms: the fast leg ends them all before the slower one has answered one.
#[test]
fn a_slower_leg_has_nothing_of_what_comes_at_once_now_and_then() {
    let readers = Job {
        rw: Rw::RandRead,
        bs_bytes: 256 << 10,
        arrival: Arrival::Fixed { per_s: 400.0 },
        numjobs: 8,
        ..Job::default()
    };
    let scenario = over_200_gib(&["nvme-gen3", "net-ssd"], 2, readers);
    let mean = |policy| play(&scenario, policy).read.response_time_ns().mean();
    let ratio = mean("adaptive") / mean("latency-lifetime");
    assert!(ratio < 1.05, "{ratio}");
}

/// A disk that has what others write in its cache writes whenever nobody reads: between two reads
/// of somebody who has one at a time. Both of them read ahead of him in long stretches, then, and
/// who writes does not wait for that.
#[test]
fn a_reader_beside_a_log_on_disks_does_not_wait_for_two_seeks_each_time() {
    let reader = Job {
        rw: Rw::Read,
        bs_bytes: 128 << 10,
        size_bytes: 60 << 30,
        ..Job::default()
    };
    let log = Job {
        rw: Rw::Write,
        offset_bytes: 100 << 30,
        size_bytes: 40 << 30,
        ..Job::default()
    };
    let legs = ["hdd-7200-2tb"; 4];
    for (legs, layout) in [(&legs[..2], None), (&legs, Some("near=2"))] {
        let mut scenario = over_200_gib(legs, 4, reader.clone());
        scenario.warmup_seconds = Duration::from_ms(3_000);
        scenario.jobs.push(log.clone());
        if let Some(layout) = layout {
            scenario.array.layout = Layout::parse(layout).unwrap();
        }
        let (read, written) = beside_hst(&scenario);
        assert!(
            read > 20.0 && written > 0.99,
            "{layout:?}: {read} {written}"
        );
    }
}

/// A log has the disks to itself between two reads, and would wait for all that is read ahead:
/// 2,400 writes a second instead of 5,900.
#[test]
fn a_log_does_not_wait_for_what_disks_of_many_streams_would_read_ahead() {
    let scenario = readers_beside_a_log("hdd-7200-1tb", 12 << 10);
    let [all, without] = ["adaptive", "adaptive:streams=off"]
        .map(|policy| play(&scenario, policy).jobs[1].write.ios as f64);
    assert!(all >= 0.8 * without, "{all} {without}");
}

/// These take a log by the way, into a part of the medium that lies where the arm is.
#[test]
fn where_no_log_waits_for_it_disks_of_many_streams_read_ahead() {
    let scenario = readers_beside_a_log("hdd-7200-2tb", 4 << 10);
    let [all, without] = ["adaptive", "adaptive:streams=off"].map(|policy| play(&scenario, policy));
    let times = |job: usize, of: fn(&JobResult) -> u64| {
        of(&all.jobs[job]) as f64 / of(&without.jobs[job]) as f64
    };
    let (read, written) = (times(0, |job| job.read.ios), times(1, |job| job.write.ios));
    assert!(read > 2.5 && written > 0.98, "{read} {written}");
}

/// Five of them, on three disks.
fn readers_beside_a_log(drive: &str, log_bytes: u64) -> Scenario {
    let readers = Job {
        rw: Rw::Read,
        bs_bytes: 128 << 10,
        numjobs: 5,
        offset_increment_bytes: 7 << 30,
        ..Job::default()
    };
    let log = Job {
        rw: Rw::Write,
        bs_bytes: log_bytes,
        offset_bytes: 60 << 30,
        ..Job::default()
    };
    let mut scenario = over_200_gib(&[drive; 3], 5, readers);
    scenario.warmup_seconds = Duration::from_secs(5);
    scenario.jobs.push(log);
    scenario
}

/// What a disk has in its cache it answers as fast as its link. It is not that much faster than the
/// other one, which is read as well.
#[test]
fn a_disk_that_answers_from_its_cache_is_not_the_only_one_that_reads_ahead() {
    let copy = Job {
        rw: Rw::Rw,
        rwmixread: 30,
        bs_bytes: 128 << 10,
        ..Job::default()
    };
    let mut scenario = over_200_gib(&["hdd-7200-2tb"; 2], 5, copy);
    scenario.seed = 3;
    scenario.warmup_seconds = Duration::from_ms(2_000);
    let [adaptive, hst] = ["adaptive", "hst"].map(|policy| play(&scenario, policy));
    let share = adaptive.read.ios as f64 / hst.read.ios as f64;
    assert!(share > 2.0, "{share}");
    let least = adaptive.legs.iter().map(|leg| leg.reads).min();
    assert!(least > Some(50), "{least:?}");
}

/// A disk that has more random writes than it can do answers a read each second. Who reads in
/// sequence goes on where there is another one, also while nothing can be read ahead of him.
#[test]
fn a_stream_does_not_stay_where_reads_have_no_turn() {
    let reader = Job {
        rw: Rw::Read,
        bs_bytes: 16 << 10,
        size_bytes: 60 << 30,
        ..Job::default()
    };
    let mut scenario = over_200_gib(&["hdd-7200-2tb", "hdd-5400-old"], 4, reader);
    scenario.warmup_seconds = Duration::from_ms(3_000);
    scenario.jobs.push(Job {
        rw: Rw::RandWrite,
        offset_bytes: 100 << 30,
        size_bytes: 40 << 30,
        ..Job::default()
    });
    let (read, written) = beside_hst(&scenario);
    assert!(read > 20.0 && written > 0.97, "{read} {written}");
}

/// The stream waits for what the slow disk was asked for, and for nothing else of it; when it is
/// well again it has its part before long.
#[test]
fn a_stream_is_read_on_by_the_others_where_a_disk_becomes_slow() {
    let mut scenario = over_200_gib(&["hdd-7200-2tb"; 3], 3, stream());
    scenario.warmup_seconds = Duration::from_ms(3_000);
    let healthy = play(&scenario, "adaptive").read.ios as f64;
    let slow = Fault::new(1, Effect::Slow(30_000));
    let fault = slow.between(Duration::ZERO, Duration::from_ms(3_000));
    scenario.faults.push(fault);
    let slow = play(&scenario, "adaptive").read.ios as f64;
    assert!(slow > 0.4 * healthy, "{}", slow / healthy);
    scenario.seconds = Duration::from_ms(8_000);
    let after = play(&scenario, "adaptive").read.ios as f64 - slow;
    let share = after / (5.0 / 3.0 * healthy);
    assert!(share > 0.75, "{share}");
}

/// A pause is waited for: to leave the disk for longer than that would cost more.
#[test]
fn a_stream_does_not_leave_a_disk_for_a_pause() {
    let mut scenario = over_200_gib(&["hdd-7200-2tb"; 2], 6, stream());
    scenario.warmup_seconds = Duration::from_ms(3_000);
    let healthy = play(&scenario, "adaptive").read.ios as f64;
    let mut pauses = Fault::new(0, Effect::Pause(Duration::from_ms(200)));
    pauses.every = Some(Duration::from_ms(2_000));
    scenario.faults.push(pauses);
    let share = play(&scenario, "adaptive").read.ios as f64 / healthy;
    assert!(share > 0.85, "{share}");
}

/// Somebody writes, in odd sizes, what is being read ahead by disks, one of which becomes slow and
/// another one dies: each read is what was written last, or the run fails.
#[test]
fn what_disks_read_ahead_beside_writes_is_never_old() {
    let copy = Job {
        rw: Rw::Rw,
        rwmixread: 70,
        bs_bytes: 60 << 10,
        size_bytes: 64 << 20,
        ..Job::default()
    };
    for (legs, layout) in [(3, None), (4, Some("near=2"))] {
        let mut scenario = scenario(&vec!["hdd-7200-2tb"; legs], 4, copy.clone());
        scenario.array.size_bytes = 700 << 20;
        if let Some(layout) = layout {
            scenario.array.layout = Layout::parse(layout).unwrap();
        }
        scenario.jobs.push(Job {
            bs_bytes: 124 << 10,
            ..stream()
        });
        scenario.jobs.push(Job {
            rw: Rw::Write,
            bs_bytes: 12 << 10,
            thinktime: Duration::from_ms(2),
            fsync: 8,
            offset_bytes: 10 << 20,
            size_bytes: 90 << 20,
            ..Job::default()
        });
        let slow = Fault::new(0, Effect::Slow(40_000));
        let dead = Fault::new(2, Effect::Dead);
        scenario.faults = vec![
            slow.between(Duration::from_ms(1_000), Duration::from_ms(2_000)),
            dead.between(Duration::from_ms(2_500), Duration::MAX),
        ];
        let result = play(&scenario, "adaptive");
        assert_eq!(result.errors, 0, "{layout:?}");
        let asked: u64 = result.jobs.iter().map(|job| job.read.bytes).sum();
        let read: u64 = result.legs.iter().map(|leg| leg.read_bytes).sum();
        assert!(read > asked / 2, "legs have read it: {read} {asked}");
    }
}

/// Disks behind a bridge or a network say that they do not turn, and flash of a virtual machine
/// that it does.
#[test]
fn who_says_the_wrong_thing_of_itself_is_read_as_what_it_is() {
    let readers = Job {
        rw: Rw::Read,
        bs_bytes: 64 << 10,
        numjobs: 8,
        offset_increment_bytes: 20 << 30,
        size_bytes: 20 << 30,
        ..Job::default()
    };
    let random = Job {
        rw: Rw::RandRead,
        bs_bytes: 64 << 10,
        iodepth: 4,
        ..Job::default()
    };
    let (disk, drive) = ("hdd-7200-2tb", "ssd-sata-256gb");
    for (legs, job) in [
        ([disk, disk], stream()),
        ([disk, disk], readers),
        ([disk, disk], random.clone()),
        ([drive, drive], random),
        ([disk, drive], stream()),
    ] {
        let mut scenario = over_200_gib(&legs, 4, job);
        scenario.warmup_seconds = Duration::from_secs(4);
        let truth = play(&scenario, "adaptive").read.bytes as f64;
        for (leg, model) in scenario.array.legs.iter_mut().zip(legs) {
            leg.rotational = Some(model == drive);
        }
        let lie = play(&scenario, "adaptive").read.bytes as f64;
        assert!(lie > 0.95 * truth, "{legs:?}: {lie} {truth}");
    }
}
