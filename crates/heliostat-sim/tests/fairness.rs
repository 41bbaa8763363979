//! What the scheduler `fair` promises who shares disks, in virtual time on models of drives: the
//! figures of docs/schedulers.md.

#[cfg(test)]
mod tests {
    use heliostat_engine::{CopyOrder, Layout, Raid10, SchedulerPlace};
    use heliostat_scheduler::SchedulerSpec;
    use heliostat_sim::{Fidelity, Job, JobResult, RunResult, Rw, Scenario, SimPolicy, run};
    use heliostat_types::Duration;
    use heliostat_workload::FromMeasuring;

    const GIB: u64 = 1 << 30;

    /// Ten volumes of a RAID10 of four disks that are written in sequence, 1 MiB at a time, and ten
    /// others that do something.
    fn play(scheduler: &str, depth: u32, others: Job) -> RunResult {
        play_on(SchedulerPlace::Legs, false, scheduler, depth, others)
    }

    /// The same with the scheduler there, on disks that answer writes from their cache or do not.
    fn play_on(
        place: SchedulerPlace,
        caches_writes: bool,
        scheduler: &str,
        depth: u32,
        others: Job,
    ) -> RunResult {
        run_under_md(&twenty_volumes(
            place,
            caches_writes,
            scheduler,
            depth,
            others,
        ))
    }

    fn run_under_md(scenario: &Scenario) -> RunResult {
        let policy = SimPolicy::parse("md").expect("it exists");
        run(scenario, &policy, &mut |_| ()).expect("the run is sound")
    }

    fn twenty_volumes(
        place: SchedulerPlace,
        caches_writes: bool,
        scheduler: &str,
        depth: u32,
        others: Job,
    ) -> Scenario {
        let drives = ["hdd-7200-1tb"; 4];
        let mut scenario = Scenario::new("fairness", &drives, 400 * GIB).expect("a drive");
        scenario.seconds = Duration::from_secs(20);
        // A cache takes what comes first at once.
        let warmup = if caches_writes { 10 } else { 0 };
        scenario.warmup_seconds = Duration::from_secs(warmup);
        scenario.fidelity = Fidelity::Stamps;
        scenario.array.layout = Layout::Raid10(Raid10 {
            order: CopyOrder::Near,
            copies: 2,
            chunk_bytes: 512 << 10,
        });
        scenario.array.memory_bytes = 1 << 30;
        scenario.array.scheduler_on = place;
        scenario.array.scheduler = SchedulerSpec::parse(scheduler).expect("it exists");
        for leg in &mut scenario.array.legs {
            let is_on = if caches_writes { "true" } else { "false" };
            leg.set("write_cache", is_on).expect("disks have one");
        }
        let volumes = |job: Job, first_gib: u64| Job {
            numjobs: 10,
            offset_bytes: first_gib * GIB,
            offset_increment_bytes: 20 * GIB,
            size_bytes: 20 * GIB,
            ..job
        };
        let streams = Job {
            rw: Rw::Write,
            bs_bytes: 1 << 20,
            iodepth: depth,
            ..Job::default()
        };
        scenario.jobs = vec![volumes(streams, 0), volumes(others, 200)];
        scenario
    }

    fn small_writes(iodepth: u32) -> Job {
        Job {
            rw: Rw::RandWrite,
            iodepth,
            ..Job::default()
        }
    }

    /// The longest write of the streams and of the others, in ms.
    fn longest(result: &RunResult) -> [u64; 2] {
        [0, 1].map(|job| result.jobs[job].write.response_time_ns().max() / 1_000_000)
    }

    #[test]
    fn no_write_waits_for_much_longer_than_in_order_of_arrival() {
        let small = small_writes(32);
        for caches_writes in [false, true] {
            let play = |one| play_on(SchedulerPlace::Legs, caches_writes, one, 32, small.clone());
            let [none, fair] = ["none", "fair"].map(|one| longest(&play(one)));
            let told = format!("longest in ms, cached: {caches_writes}: {none:?}, fair {fair:?}");
            println!("{told}");
            // In order of arrival a write waits for all that was there before it.
            let queued = none[0].max(none[1]);
            assert!(fair[0] * 100 <= queued * 125, "{told}");
            assert!(fair[1] * 100 <= queued * 80, "{told}");
        }
    }

    /// What each of them has outstanding is about a round and a half.
    #[test]
    fn large_writes_are_for_as_many_rounds_each_time() {
        let small = small_writes(16);
        let play = |one| play_on(SchedulerPlace::Legs, true, one, 16, small.clone());
        let [none, fair] = ["none", "fair"].map(|one| longest(&play(one)));
        let told = format!("longest in ms: {none:?}, fair {fair:?}");
        println!("{told}");
        assert!(fair[0] * 100 <= none[0] * 150, "{told}");
    }

    /// Who come with all that they ask for while a round is done would make that long, and wait for
    /// as long who lie where its sweep has passed.
    #[test]
    fn clients_that_come_one_after_the_other_wait_for_no_time_out() {
        let small = small_writes(64);
        let mut scenario = twenty_volumes(SchedulerPlace::Legs, false, "fair", 64, small);
        scenario.array.memory_bytes = 4 << 30;
        let clones = scenario.jobs.iter().flat_map(|job| {
            (0..job.numjobs).map(|clone| Job {
                numjobs: 1,
                offset_bytes: job.offset_bytes + u64::from(clone) * job.offset_increment_bytes,
                ..job.clone()
            })
        });
        let mut jobs: Vec<Job> = clones.collect();
        let starts_ms = [
            1299, 85, 1219, 811, 927, 1339, 1260, 1331, 322, 1276, 30, 1082, 129, 121, 73, 389,
            495, 1228, 61, 950,
        ];
        for (job, start_ms) in jobs.iter_mut().zip(starts_ms) {
            job.start = Some(FromMeasuring(start_ms * 1_000_000));
        }
        scenario.jobs = jobs;
        let result = run_under_md(&scenario);
        let longest = |job: &JobResult| job.write.response_time_ns().max() / 1_000_000;
        let longest: Vec<u64> = result.jobs.iter().map(longest).collect();
        println!("longest in ms: {longest:?}");
        assert!(longest.iter().all(|ms| *ms < 9_000), "{longest:?}");
    }

    #[test]
    fn who_reads_one_at_a_time_is_out_of_the_crowd() {
        let readers = Job {
            rw: Rw::RandRead,
            iodepth: 1,
            ..Job::default()
        };
        for caches_writes in [false, true] {
            let play = |one| {
                play_on(
                    SchedulerPlace::Legs,
                    caches_writes,
                    one,
                    16,
                    readers.clone(),
                )
            };
            let [none, fair] = ["none", "fair"].map(play);
            let p99 = |result: &RunResult| {
                result.jobs[1].read.response_time_ns().quantile(9_900) / 1_000_000
            };
            let streams = |result: &RunResult| result.jobs[0].write.bytes;
            let told = format!(
                "cached: {caches_writes}: p99 of reads in ms: none {}, fair {}; streams {} and {}",
                p99(&none),
                p99(&fair),
                streams(&none),
                streams(&fair)
            );
            println!("{told}");
            assert!(p99(&fair) * 5 <= p99(&none), "{told}");
            // A half of the disks is for those who write.
            assert!(streams(&fair) * 100 >= streams(&none) * 45, "{told}");
        }
    }

    /// Beside streams of deep queues, small operations one at a time.
    #[track_caller]
    fn ensure_out_of_rounds(rw: Rw) {
        let small = Job {
            rw,
            iodepth: 1,
            ..Job::default()
        };
        let [none, fair] = ["none", "fair"].map(|scheduler| {
            let small = &play(scheduler, 64, small.clone()).jobs[1];
            let both = [&small.read, &small.write].map(|moved| moved.response_time_ns());
            let longest = both.iter().map(|times| times.max()).max().unwrap_or(0);
            let answers: u64 = both.iter().map(|times| times.count()).sum();
            (longest / 1_000_000, answers)
        });
        let told = format!("longest in ms and answers, {rw:?}: none {none:?}, fair {fair:?}");
        println!("{told}");
        assert!(fair.0 * 5 <= none.0, "{told}");
        assert!(fair.1 >= 10 * none.1 && none.1 > 0, "{told}");
    }

    #[test]
    fn one_read_at_a_time_never_waits_for_a_round_of_deep_queues() {
        ensure_out_of_rounds(Rw::RandRead);
    }

    #[test]
    fn one_write_at_a_time_never_waits_for_a_round_of_deep_queues() {
        ensure_out_of_rounds(Rw::RandWrite);
    }

    #[test]
    fn in_front_of_the_array_all_of_its_disks_are_kept_busy() {
        let small = Job {
            rw: Rw::Write,
            iodepth: 16,
            ..Job::default()
        };
        let play = |scheduler| play_on(SchedulerPlace::Array, false, scheduler, 16, small.clone());
        let [none, fair] = ["none", "fair"].map(play);
        let bytes = [&none, &fair].map(|result| result.write.bytes);
        let told = format!("bytes: none {}, fair {}", bytes[0], bytes[1]);
        println!("{told}");
        assert!(bytes[1] * 4 >= bytes[0] * 3 && bytes[0] > 0, "{told}");
    }

    /// A mirror of two drives that say such things of themselves, with their caches on. It is used
    /// for three times as long before it is measured.
    fn play_mirror(
        drive: &str,
        seconds: u64,
        says: &[(&str, &str)],
        scheduler: &str,
        jobs: &[Job],
    ) -> RunResult {
        let mut scenario = Scenario::new("mirror", &[drive; 2], 200 * GIB).expect("a drive");
        scenario.seconds = Duration::from_secs(seconds);
        scenario.warmup_seconds = Duration::from_secs(3 * seconds);
        scenario.fidelity = Fidelity::Stamps;
        scenario.array.memory_bytes = 1 << 30;
        scenario.array.scheduler = SchedulerSpec::parse(scheduler).expect("it exists");
        for leg in &mut scenario.array.legs {
            for (key, value) in says {
                leg.set(key, value).expect("it can be said");
            }
        }
        scenario.jobs = jobs.to_vec();
        let policy = SimPolicy::parse("md").expect("it exists");
        run(&scenario, &policy, &mut |_| ()).expect("the run is sound")
    }

    #[test]
    fn shares_are_the_same_after_hours_in_which_caches_took_all_at_once() {
        let at_start = Some(FromMeasuring(0));
        let before = Job {
            rw: Rw::RandWrite,
            iodepth: 32,
            rate_iops: [0, 60],
            size_bytes: 20 * GIB,
            stop: at_start,
            ..Job::default()
        };
        let streams = Job {
            rw: Rw::Write,
            bs_bytes: 1 << 20,
            iodepth: 16,
            numjobs: 3,
            offset_bytes: 40 * GIB,
            offset_increment_bytes: 10 * GIB,
            size_bytes: 10 * GIB,
            start: at_start,
            ..Job::default()
        };
        let random = Job {
            rw: Rw::RandWrite,
            iodepth: 16,
            numjobs: 3,
            offset_bytes: 100 * GIB,
            size_bytes: 20 * GIB,
            start: at_start,
            ..Job::default()
        };
        let written = |jobs: &[Job]| {
            let result = play_mirror("hdd-7200-1tb", 20, &[], "fair", jobs);
            let moved = &result.jobs[jobs.len() - 2];
            (
                moved.write.bytes,
                moved.write.response_time_ns().max() / 1_000_000,
            )
        };
        let cold = written(&[streams.clone(), random.clone()]);
        let warm = written(&[before, streams, random]);
        let told = format!("bytes of streams and their longest in ms: {cold:?}, later {warm:?}");
        println!("{told}");
        assert!(warm.0 * 100 >= cold.0 * 90, "{told}");
        assert!(warm.1 * 100 <= cold.1 * 120, "{told}");
    }

    #[test]
    fn flash_that_says_it_turns_and_caches_is_not_taken_for_slow() {
        let writers = Job {
            rw: Rw::RandWrite,
            bs_bytes: 16 << 10,
            iodepth: 32,
            numjobs: 2,
            ..Job::default()
        };
        let reader = Job {
            rw: Rw::RandRead,
            iodepth: 1,
            ..Job::default()
        };
        let [none, fair] = ["none", "fair"].map(|scheduler| {
            let jobs = [writers.clone(), reader.clone()];
            let says = [("rotational", "true")];
            play_mirror("ssd-sata-1tb", 2, &says, scheduler, &jobs)
        });
        let bytes = [&none, &fair].map(|result| result.jobs[0].write.bytes);
        assert!(bytes[1] * 100 >= bytes[0] * 90 && bytes[0] > 0, "{bytes:?}");
    }
}
