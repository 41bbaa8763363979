//! What schedulers promise to clients that share an array, over whole scenarios in virtual time:
//! ratios of figures of the same run, or of the same work under another scheduler, and so exact.

#[cfg(test)]
mod tests {
    use heliostat_engine::{Layout, SchedulerPlace};
    use heliostat_model::ModelParams;
    use heliostat_sim::{
        Effect, Fault, Fidelity, Job, JobResult, Moved, RunResult, Rw, Scenario, SimPolicy, run,
    };
    use heliostat_types::Duration;
    use heliostat_workload::FromMeasuring;

    const GIB: u64 = 1 << 30;
    /// What a host waits for before it takes its disk for dead.
    const CLIENT_TIMEOUT_NS: u64 = 10_000_000_000;

    /// A RAID10 of four disks as in the source of 2014, which writes to the platters.
    fn four_disks(seconds: u64) -> Scenario {
        let legs = ["hdd-7200-1tb"; 4];
        let mut scenario = Scenario::new("four disks", &legs, 400 * GIB).expect("they exist");
        scenario.array.layout = Layout::parse("near=2").expect("it is one");
        for leg in &mut scenario.array.legs {
            if let ModelParams::Hdd(disk) = &mut leg.params {
                disk.write_cache = false;
            }
        }
        // All that clients ask for fits in, so that it is the scheduler that they wait for.
        scenario.array.memory_bytes = 1 << 30;
        scenario.seconds = Duration::from_secs(seconds);
        scenario.warmup_seconds = Duration::from_secs(4);
        scenario.fidelity = Fidelity::Stamps;
        scenario
    }

    /// Half of the volumes are written in sequence, 1 MiB at a time, the others as `small` says.
    fn volumes(scenario: &mut Scenario, count: u32, iodepth: u32, small: Job) {
        let size_bytes = 400 * GIB / u64::from(count);
        let each = Job {
            size_bytes,
            offset_increment_bytes: size_bytes,
            numjobs: count / 2,
            ..Job::default()
        };
        scenario.jobs.push(Job {
            rw: Rw::Write,
            bs_bytes: 1 << 20,
            iodepth,
            ..each.clone()
        });
        scenario.jobs.push(Job {
            rw: small.rw,
            iodepth: small.iodepth,
            offset_bytes: 200 * GIB,
            ..each
        });
    }

    fn small_writes(iodepth: u32) -> Job {
        Job {
            rw: Rw::RandWrite,
            iodepth,
            ..Job::default()
        }
    }

    fn play(scenario: &Scenario, scheduler: &str) -> RunResult {
        play_under("md", scenario, scheduler)
    }

    fn play_under(policy: &str, scenario: &Scenario, scheduler: &str) -> RunResult {
        let mut scenario = scenario.clone();
        let is_one = scenario.array.set_scheduler(scheduler);
        is_one.expect("it is one");
        let policy = SimPolicy::parse(policy).expect("it exists");
        match run(&scenario, &policy, &mut |_| ()) {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }

    fn longest_ns(result: &RunResult) -> u64 {
        let all = [&result.read, &result.write];
        let longest = all.map(|moved| moved.response_time_ns().max());
        longest[0].max(longest[1])
    }

    fn mean_ns(moved: &Moved) -> f64 {
        moved.response_time_ns().mean()
    }

    /// Fails with all that was seen.
    #[track_caller]
    fn ensure(holds: bool, what: &str, seen: &[f64]) {
        assert!(holds, "{what}: {seen:.3?}");
    }

    /// That `one` is at most `factor` times `other`.
    #[track_caller]
    fn at_most(what: &str, one: f64, factor: f64, other: f64) {
        ensure(one <= factor * other, what, &[one, other, one / other]);
    }

    #[test]
    fn the_case_of_2014_is_mended() {
        let mut scenario = four_disks(8);
        volumes(&mut scenario, 20, 16, small_writes(16));
        let then = play(&scenario, "none-2014");
        let none = play(&scenario, "none");
        let fair = play(&scenario, "fair");
        scenario.array.scheduler_on = SchedulerPlace::Array;
        let deadline = play(&scenario, "deadline");
        for (name, result) in [("fair", &fair), ("deadline", &deadline)] {
            let worst = longest_ns(result);
            at_most(name, worst as f64, 0.25, longest_ns(&then) as f64);
            assert!(worst < CLIENT_TIMEOUT_NS, "{name}: {worst}");
            at_most(
                name,
                then.write.bytes as f64,
                1.0,
                result.write.bytes as f64,
            );
        }
        // First come, first served: the longest wait is for all that was there before.
        let queued_ns = longest_ns(&none) as f64;
        at_most("a backlog", longest_ns(&fair) as f64, 1.5, queued_ns);
        let small = |result: &RunResult| result.jobs[1].write.clone();
        at_most(
            "small",
            mean_ns(&small(&fair)),
            0.75,
            mean_ns(&small(&none)),
        );
        let longest = |moved: Moved| moved.response_time_ns().max() as f64;
        at_most(
            "the longest of a small one",
            longest(small(&fair)),
            0.8,
            longest(small(&none)),
        );
        at_most(
            "more",
            1.3 * small(&none).ios as f64,
            1.0,
            small(&fair).ios as f64,
        );
    }

    /// Small clients that read or write in sequence have little outstanding for all their depth:
    /// what lies in a row is done as one also where it goes before the sweep.
    #[test]
    fn small_streams_beside_large_ones_wait_for_none_of_them() {
        for rw in [Rw::Write, Rw::Read] {
            let mut scenario = four_disks(8);
            let job = Job {
                rw,
                iodepth: 64,
                ..Job::default()
            };
            volumes(&mut scenario, 20, 64, job);
            scenario.jobs[0].rw = rw;
            let none = play(&scenario, "none");
            let fair = play(&scenario, "fair");
            let of = |result: &RunResult, job: usize| {
                let job = &result.jobs[job];
                if rw == Rw::Write {
                    job.write.clone()
                } else {
                    job.read.clone()
                }
            };
            let longest = |moved: Moved| moved.response_time_ns().max() as f64;
            let more = [1, 0].map(|job| of(&fair, job).ios as f64 / of(&none, job).ios as f64);
            at_most(
                "the longest of a small one",
                longest(of(&fair, 1)),
                0.5,
                longest(of(&none, 1)),
            );
            ensure(more[0] >= 5.0, "small ones", &more);
            ensure(more[1] >= 0.4, "large ones", &more);
            let worst = longest_ns(&fair);
            assert!(worst < CLIENT_TIMEOUT_NS, "{rw:?}: {worst}");
        }
    }

    #[test]
    fn forty_volumes_wait_for_no_longer_than_what_is_queued() {
        let mut scenario = four_disks(6);
        volumes(&mut scenario, 40, 16, small_writes(16));
        let none = longest_ns(&play(&scenario, "none"));
        let fair = longest_ns(&play(&scenario, "fair"));
        at_most("a backlog", fair as f64, 1.5, none as f64);
        assert!(fair < CLIENT_TIMEOUT_NS, "{fair}");
    }

    #[test]
    fn who_reads_one_block_at_a_time_is_out_of_the_crowd() {
        let mut scenario = four_disks(6);
        volumes(&mut scenario, 20, 16, Job::default());
        let small = |scheduler| play(&scenario, scheduler).jobs[1].read.clone();
        let [none, deadline, fair] = ["none", "deadline", "fair"].map(small);
        let p99 = |moved: &Moved| moved.response_time_ns().quantile(9_900) as f64;
        at_most("deadline", p99(&deadline), 0.8, p99(&none));
        at_most("fair", p99(&fair), 0.4, p99(&none));
        at_most("reads", 5.0 * none.ios as f64, 1.0, fair.ios as f64);
    }

    /// Clients of weights 1, 2 and 4, each of the whole array, so that none has the shorter ways.
    fn weighted(blocks: [u64; 3]) -> Scenario {
        let mut scenario = four_disks(20);
        for (weight, bs_bytes) in [1, 2, 4].into_iter().zip(blocks) {
            scenario.jobs.push(Job {
                weight,
                bs_bytes,
                ..small_writes(128)
            });
        }
        scenario
    }

    /// Which part of the time of all legs each job had, beside what is due to it.
    fn ensure_shares(result: &RunResult, due: &[f64]) {
        let time = |job: &JobResult| job.leg_time.as_secs_f64();
        let times: Vec<f64> = result.jobs.iter().map(time).collect();
        let all: f64 = times.iter().sum();
        let busy = all / (result.seconds.as_secs_f64() * result.legs.len() as f64);
        ensure(busy > 0.97, "no leg is idle", &[busy]);
        ensure_are_due(&times, due);
    }

    fn ensure_are_due(had: &[f64], due: &[f64]) {
        let [all, due_all] = [had, due].map(|each| each.iter().sum::<f64>());
        let shares = had.iter().zip(due);
        let of_due: Vec<f64> = shares.map(|(had, due)| had / all * due_all / due).collect();
        let is_right = of_due.iter().all(|share| (0.95..=1.05).contains(share));
        ensure(is_right, "shares of what is due", &of_due);
    }

    #[test]
    fn weights_are_shares_of_the_legs_time() {
        for blocks in [
            [4 << 10; 3],
            [4 << 10, 16 << 10, 64 << 10],
            [64 << 10, 16 << 10, 4 << 10],
        ] {
            ensure_shares(&play(&weighted(blocks), "fair"), &[1.0, 2.0, 4.0]);
        }
        // Who is not looked at has no share.
        let none = play(&weighted([4 << 10; 3]), "none");
        ensure_shares(&none, &[1.0; 3]);
    }

    /// However little is outstanding, and although each client has a part of the disks of its own,
    /// near which one of two arms could stay.
    #[test]
    fn weights_are_shares_of_disks_that_are_chosen() {
        for (rw, iodepth) in [
            (Rw::RandRead, 16),
            (Rw::RandRead, 32),
            (Rw::RandRead, 64),
            (Rw::RandWrite, 16),
        ] {
            let legs = ["hdd-7200-1tb"; 2];
            let mut scenario = Scenario::new("two disks", &legs, 400 * GIB).expect("they exist");
            scenario.seconds = Duration::from_secs(40);
            scenario.warmup_seconds = Duration::from_secs(4);
            scenario.fidelity = Fidelity::Stamps;
            for leg in &mut scenario.array.legs {
                leg.set("write_cache", "false").expect("disks have one");
            }
            for (weight, place) in [(1, 0), (2, 100), (4, 200)] {
                scenario.jobs.push(Job {
                    rw,
                    iodepth,
                    weight,
                    offset_bytes: place * GIB,
                    size_bytes: 20 * GIB,
                    ..Job::default()
                });
            }
            let fair = play_under("adaptive", &scenario, "fair");
            // They ask for the same, and are charged the same for it.
            let answers = |job: &JobResult| (job.read.ios + job.write.ios) as f64;
            let answers: Vec<f64> = fair.jobs.iter().map(answers).collect();
            ensure_are_due(&answers, &[1.0, 2.0, 4.0]);
        }
    }

    /// Who has least weight waits longest, and much of what he waits with was asked for when nobody
    /// knew how little it takes in one sweep with the rest.
    #[test]
    fn weights_are_shares_of_slow_disks_when_they_are_new() {
        let mut scenario = Scenario::new("slow", &["hdd-7200-2tb"; 2], 64 << 20).expect("it is");
        scenario.seconds = Duration::from_secs(8);
        scenario.warmup_seconds = Duration::from_secs(3);
        scenario.fidelity = Fidelity::Stamps;
        for leg in 0..2 {
            let mut slow = Fault::new(leg, Effect::Slow(2_000));
            slow.at_ns = -3_000_000_000;
            scenario.faults.push(slow);
        }
        for (weight, place) in [(1, 0), (2, 1), (4, 2)] {
            scenario.jobs.push(Job {
                weight,
                offset_bytes: place << 24,
                size_bytes: 1 << 24,
                ..small_writes(128)
            });
        }
        let fair = play_under("adaptive", &scenario, "fair");
        let writes: Vec<f64> = fair.jobs.iter().map(|job| job.write.ios as f64).collect();
        ensure_are_due(&writes, &[1.0, 2.0, 4.0]);
    }

    /// Who has much weight and shallow queues goes before all rounds.
    #[test]
    fn no_weight_is_so_large_that_others_have_nothing() {
        let legs = ["nvme-gen3"; 2];
        let mut scenario = Scenario::new("two drives", &legs, 100 * GIB).expect("they exist");
        scenario.seconds = Duration::from_secs(4);
        scenario.fidelity = Fidelity::Stamps;
        for (weight, place) in [(1, 0), (2, 20), (100, 40)] {
            scenario.jobs.push(Job {
                rw: Rw::RandWrite,
                bs_bytes: 16 << 10,
                iodepth: 16,
                weight,
                offset_bytes: place * GIB,
                size_bytes: 20 * GIB,
                ..Job::default()
            });
        }
        let fair = play_under("adaptive", &scenario, "fair:depth=1");
        let answers: Vec<f64> = fair.jobs.iter().map(|job| job.write.ios as f64).collect();
        let all: f64 = answers.iter().sum();
        ensure(answers[2] > 0.95 * all, "what is due to most", &answers);
        ensure(answers[0] > 0.002 * all, "more than nothing", &answers);
        assert!(longest_ns(&fair) < 1_000_000_000);
    }

    #[test]
    fn what_one_does_not_use_the_others_have() {
        let mut scenario = weighted([4 << 10; 3]);
        let second_before = FromMeasuring(-1_000_000_000);
        scenario.jobs[2].stop = Some(second_before);
        scenario.jobs.rotate_right(1);
        let fair = play(&scenario, "fair");
        let idle = fair.jobs[0].leg_time.as_secs_f64();
        // What it had asked for before that is still done.
        ensure(idle < 4.0, "who has stopped", &[idle]);
        let others = RunResult {
            jobs: fair.jobs[1..].to_vec(),
            ..fair
        };
        ensure_shares(&others, &[1.0, 2.0]);
    }

    #[test]
    fn a_cap_holds_under_every_scheduler() {
        let mut scenario = four_disks(10);
        let capped = Job {
            iops_max: 100,
            iodepth: 16,
            ..Job::default()
        };
        let free = Job {
            iops_max: 0,
            ..capped.clone()
        };
        scenario.jobs.extend([capped, free]);
        for scheduler in ["none", "deadline", "fair"] {
            let result = play(&scenario, scheduler);
            let [capped, free] = [0, 1].map(|job: usize| {
                let moved = &result.jobs[job].read;
                moved.iops(result.seconds)
            });
            let holds = (98.0..=102.0).contains(&capped) && free > 5.0 * capped;
            ensure(holds, scheduler, &[capped, free]);
        }
    }

    /// All that both ask for would fit into the drive, which does what came first.
    #[test]
    fn who_has_most_in_flash_has_no_more_of_it() {
        let drives = ["nvme-gen3"; 2];
        let mut scenario = Scenario::new("flash", &drives, 100 * GIB).expect("it is");
        scenario.seconds = Duration::from_ms(500);
        scenario.warmup_seconds = Duration::from_secs(2);
        scenario.fidelity = Fidelity::Stamps;
        let large = Job {
            rw: Rw::RandWrite,
            bs_bytes: 64 << 10,
            iodepth: 128,
            ..Job::default()
        };
        let small = Job {
            iodepth: 16,
            ..large.clone()
        };
        scenario.jobs.extend([small, large]);
        let [none, fair] = ["none", "fair"].map(|scheduler| {
            let result = play(&scenario, scheduler);
            let small = result.jobs[0].write.ios as f64 / result.write.ios as f64;
            (small, result.write.ios as f64)
        });
        ensure(none.0 < 0.15, "as much as it has in the drive", &[none.0]);
        ensure((0.4..=0.65).contains(&fair.0), "its half", &[fair.0]);
        at_most("throughput", 0.97 * none.1, 1.0, fair.1);
    }

    /// One disk with `first`, and a stream of 64 KiB with so many in flight.
    fn beside_a_stream(first: &Job, iodepth: u32) -> Scenario {
        let mut scenario =
            Scenario::new("one disk", &["hdd-7200-1tb"], 400 * GIB).expect("it exists");
        scenario.seconds = Duration::from_secs(5);
        scenario.warmup_seconds = Duration::from_secs(3);
        scenario.array.memory_bytes = 1 << 30;
        scenario.fidelity = Fidelity::Stamps;
        let size_bytes = 20 * GIB;
        let first = Job {
            size_bytes,
            ..first.clone()
        };
        let stream = Job {
            rw: Rw::Read,
            bs_bytes: 64 << 10,
            iodepth,
            offset_bytes: 100 * GIB,
            size_bytes,
            ..Job::default()
        };
        scenario.jobs.extend([first, stream]);
        scenario
    }

    /// A disk goes on where its arm is as long as there is some of a stream with much in flight.
    #[test]
    fn beside_a_stream_with_much_in_flight_others_have_their_part_of_a_disk() {
        let play = |first: &Job| {
            let scenario = beside_a_stream(first, 128);
            ["none", "fair"].map(|scheduler| {
                let result = play_under("adaptive", &scenario, scheduler);
                let reads = |at: usize| result.jobs[at].read.ios as f64;
                (reads(0), reads(0) + reads(1))
            })
        };
        let [none, fair] = play(&Job {
            rw: Rw::Read,
            bs_bytes: 64 << 10,
            iodepth: 16,
            ..Job::default()
        });
        let part = fair.0 / fair.1;
        ensure((0.4..=0.6).contains(&part), "its half", &[part]);
        at_most("of what in order of arrival is", 0.75 * none.1, 1.0, fair.1);
        let [none, fair] = play(&Job {
            rw: Rw::RandRead,
            ..Job::default()
        });
        at_most("four times as many", 4.0 * none.0, 1.0, fair.0);
    }

    /// What is read ahead for a client is in the background, which has little beside a stream with
    /// as much in flight as it likes, and the disk itself prefers that.
    #[test]
    fn who_waits_for_what_is_read_ahead_does_not_wait_as_the_background() {
        let one_by_one = Job {
            rw: Rw::Read,
            bs_bytes: 64 << 10,
            ..Job::default()
        };
        let scenario = beside_a_stream(&one_by_one, 128);
        let [none, deadline, fair] = ["none", "deadline", "fair"].map(|scheduler| {
            let result = play_under("adaptive", &scenario, scheduler);
            let longest = result.jobs[0].read.response_time_ns().max();
            (result.jobs[0].read.ios as f64, longest as f64)
        });
        at_most("a seventh, and more", none.0 / 7.0, 1.0, fair.0);
        at_most("the longest", fair.1, 0.75, none.1);
        at_most("under deadline", 0.9 * none.0, 1.0, deadline.0);
    }

    /// Each has little in flight, so that he would go before the sweep, and so much of each has to
    /// be in the disk that the arm stays with him for a while.
    #[test]
    fn several_streams_lose_little_to_fair() {
        let disks = ["hdd-7200-2tb"; 2];
        let mut scenario = Scenario::new("streams", &disks, 200 * GIB).expect("they exist");
        scenario.seconds = Duration::from_secs(5);
        scenario.warmup_seconds = Duration::from_secs(3);
        scenario.fidelity = Fidelity::Stamps;
        scenario.jobs.push(Job {
            rw: Rw::Read,
            bs_bytes: 128 << 10,
            direct: false,
            readahead_bytes: 128 << 10,
            numjobs: 8,
            size_bytes: 20 * GIB,
            offset_increment_bytes: 20 * GIB,
            ..Job::default()
        });
        for policy in ["adaptive", "md"] {
            let [none, fair] = ["none", "fair"]
                .map(|scheduler| play_under(policy, &scenario, scheduler).read.bytes as f64);
            at_most(policy, 0.85 * none, 1.0, fair);
        }
    }

    /// Disks with a log, on which small writes are made at random.
    fn beside_a_log(legs: usize, iodepth: u32, reads: Job) -> Scenario {
        let disks = vec!["hdd-7200-2tb"; legs];
        let mut scenario = Scenario::new("log", &disks, 200 * GIB).expect("they exist");
        scenario.seconds = Duration::from_secs(10);
        scenario.warmup_seconds = Duration::from_secs(15);
        scenario.fidelity = Fidelity::Stamps;
        let writes = Job {
            rw: Rw::RandWrite,
            iodepth,
            ..Job::default()
        };
        scenario.jobs = vec![reads, writes];
        scenario
    }

    /// A disk with a log does three thousand small writes a second, and keeps what it is to read
    /// for as long as it has some in its cache.
    #[test]
    fn who_writes_to_a_log_leaves_streams_their_part() {
        let streams = Job {
            rw: Rw::Read,
            bs_bytes: 128 << 10,
            direct: false,
            readahead_bytes: 128 << 10,
            numjobs: 4,
            offset_increment_bytes: 20 * GIB,
            ..Job::default()
        };
        for (legs, policy, writes_min) in [(3, "adaptive", 100), (2, "md", 100), (1, "md", 45)] {
            let mut scenario = beside_a_log(legs, 8, streams.clone());
            for seed in [2, 3] {
                scenario.seed = seed;
                let both = play_under(policy, &scenario, "fair");
                let mut alone = scenario.clone();
                alone.jobs.pop();
                let alone = play_under(policy, &alone, "fair").read.ios as f64;
                let part = both.read.ios as f64 / alone;
                let per_s = both.write.ios / 10;
                let longest_ms = both.write.response_time_ns().max() / 1_000_000;
                let told = format!("{legs} disks, {seed}: {part:.2}, {per_s}/s, {longest_ms} ms");
                println!("{told}");
                let is_fair = part > 0.6 && per_s > writes_min;
                assert!(is_fair && (legs > 1 || longest_ms < 600), "{told}");
            }
        }
    }

    #[test]
    fn a_read_at_a_time_is_not_kept_by_a_log() {
        let reads = Job {
            rw: Rw::RandRead,
            ..Job::default()
        };
        let result = play_under("md", &beside_a_log(1, 1, reads), "fair");
        let per_s = [result.read.ios / 10, result.write.ios / 10];
        println!("reads and writes a second: {per_s:?}");
        assert!(per_s[0] >= 8 && per_s[1] >= 1000, "{per_s:?}");
    }

    /// A disk has what goes on where its arm is before all else, as long as there is some.
    #[test]
    fn a_disk_keeps_no_read_for_as_long_as_there_is_a_stream() {
        for iodepth in [32, 128] {
            let at_random = Job {
                rw: Rw::RandRead,
                iodepth,
                ..Job::default()
            };
            let both = beside_a_stream(&at_random, 1);
            let alone = |at: usize| {
                let mut scenario = both.clone();
                scenario.jobs = vec![both.jobs[at].clone()];
                play_under("adaptive", &scenario, "fair").jobs[0].read.ios as f64
            };
            let result = play_under("adaptive", &both, "fair");
            let parts = [0, 1].map(|at| result.jobs[at].read.ios as f64 / alone(at));
            ensure(
                parts[0] > 0.3 && parts[1] > 0.15,
                "of what each does alone",
                &parts,
            );
        }
    }

    #[test]
    fn flash_loses_little_to_fair_and_nothing_to_a_name() {
        for (drive, seconds) in [("ssd-sata-256gb", 2.0), ("nvme-gen3", 0.3)] {
            for rw in [Rw::RandRead, Rw::RandWrite] {
                let mut scenario = Scenario::new("flash", &[drive; 2], 100 * GIB).expect("it is");
                scenario.seconds = Duration::from_secs_f64(seconds);
                scenario.warmup_seconds = scenario.seconds;
                scenario.fidelity = Fidelity::Stamps;
                scenario.jobs.push(Job {
                    rw,
                    iodepth: 128,
                    ..Job::default()
                });
                let ios = |scheduler| {
                    let result = play(&scenario, scheduler);
                    (result.read.ios + result.write.ios) as f64
                };
                let what = format!("{drive} {rw:?}");
                at_most(&what, 0.97 * ios("none"), 1.0, ios("fair"));
            }
        }
    }
}
