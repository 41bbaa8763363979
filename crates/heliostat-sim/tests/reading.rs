//! What `adaptive` promises to who reads, over whole scenarios in virtual time: ratios to another
//! policy with the same work and luck, and so exact.

#[cfg(test)]
mod tests {
    use heliostat_engine::{CopyOrder, Layout, Raid10};
    use heliostat_sim::{Effect, Fault, Fidelity, Job, RunResult, Rw, Scenario, SimPolicy, run};
    use heliostat_types::Duration;
    use heliostat_workload::{Arrival, FromMeasuring};

    fn result(scenario: &Scenario, policy: &str) -> RunResult {
        let policy = SimPolicy::parse(policy).expect("it exists");
        run(scenario, &policy, &mut |_| ()).expect("it is sound")
    }

    /// Bytes per second that all clients read.
    fn read_bytes_per_s(scenario: &Scenario, policy: &str) -> f64 {
        result(scenario, policy).read.bytes as f64 / scenario.seconds.as_secs_f64()
    }

    /// Programs that each read a file, 128 KiB ahead of them.
    fn files(count: u32) -> Job {
        Job {
            name: "streams".to_owned(),
            rw: Rw::Read,
            bs_bytes: 128 << 10,
            direct: false,
            readahead_bytes: 128 << 10,
            numjobs: count,
            offset_increment_bytes: 20 << 30,
            ..Job::default()
        }
    }

    /// An operation each 5 s.
    fn now_and_then(rw: Rw) -> Job {
        Job {
            rw,
            arrival: Arrival::Poisson { per_s: 0.2 },
            ..Job::default()
        }
    }

    fn scenario(legs: &[&str], jobs: Vec<Job>) -> Scenario {
        let mut scenario = Scenario::new("files", legs, 200 << 30).expect("they exist");
        scenario.fidelity = Fidelity::Stamps;
        scenario.warmup_seconds = Duration::from_ms(500);
        scenario.seconds = Duration::from_secs(2);
        scenario.jobs = jobs;
        scenario
    }

    /// Two programs that each read a file, of two drives, one of which somebody else has for 200 ms
    /// of 400. Two drives do twice as much as one in between, and nobody knows it who never tries.
    #[test]
    fn streams_have_the_drive_that_a_neighbour_leaves_them() {
        let neighbour = Job {
            name: "neighbour".to_owned(),
            rw: Rw::RandRead,
            bs_bytes: 64 << 10,
            leg: Some(0),
            background: true,
            arrival: Arrival::Burst {
                per_s: 7000.0,
                on: Duration::from_ms(200),
                off: Duration::from_ms(200),
            },
            ..Job::default()
        };
        let scenario = scenario(&["ssd-sata-256gb"; 2], vec![files(2), neighbour]);
        // To each stream a drive.
        let pid = read_bytes_per_s(&scenario, "pid");
        for policy in ["adaptive", "adaptive:streams=0"] {
            let ratio = read_bytes_per_s(&scenario, policy) / pid;
            assert!(ratio > 0.93, "{policy}: {ratio}");
        }
    }

    /// A network disk beside an NVMe drive was not slow: it is. Whoever reads in sequence waits for
    /// each read that it is handed.
    #[test]
    fn streams_do_not_try_what_is_slower_by_nature() {
        let mut scenario = scenario(&["nvme-gen3", "net-ssd"], vec![files(3)]);
        scenario.seconds = Duration::from_ms(300);
        let all = read_bytes_per_s(&scenario, "adaptive");
        scenario.array.legs.truncate(1);
        let nvme = read_bytes_per_s(&scenario, "pid");
        assert!(all > 0.99 * nvme, "{all} {nvme}");
    }

    fn raid10(legs: &[&str], order: CopyOrder, jobs: Vec<Job>) -> Scenario {
        let mut scenario = scenario(legs, jobs);
        scenario.array.layout = Layout::Raid10(Raid10 {
            copies: 2,
            order,
            chunk_bytes: 512 << 10,
        });
        scenario
    }

    /// In a RAID10 whose copies lie at different places, of unequal flash. Who reads the first
    /// copies alone waits for the slow drive at each second chunk.
    #[test]
    fn a_stream_of_a_raid10_of_unequal_flash_waits_for_no_chunk_of_the_slow_drive() {
        let legs = ["ssd-sata-256gb", "nvme-gen3"];
        let deep = Job {
            bs_bytes: 64 << 10,
            direct: true,
            iodepth: 16,
            ..files(1)
        };
        let mut scenario = raid10(&legs, CopyOrder::Offset, vec![deep]);
        scenario.warmup_seconds = Duration::from_ms(800);
        scenario.seconds = Duration::from_ms(300);
        let queue = read_bytes_per_s(&scenario, "queue");
        let deep = read_bytes_per_s(&scenario, "adaptive");
        assert!(deep > 0.97 * queue, "{deep} {queue}");
        scenario.jobs = vec![files(1)];
        let file = read_bytes_per_s(&scenario, "adaptive");
        assert!(file > 0.9 * queue, "{file} {queue}");
    }

    /// As many files as legs, of a RAID10 of equal flash: each is read ahead where that is faster.
    #[test]
    fn files_of_a_raid10_of_flash_are_read_ahead_where_that_is_faster() {
        let mut scenario = raid10(&["nvme-gen3"; 4], CopyOrder::Near, vec![files(4)]);
        scenario.warmup_seconds = Duration::from_ms(800);
        scenario.seconds = Duration::from_ms(200);
        let pid = read_bytes_per_s(&scenario, "pid");
        let adaptive = read_bytes_per_s(&scenario, "adaptive");
        assert!(adaptive > 1.4 * pid, "{adaptive} {pid}");
    }

    /// Six readers of whole chunks, of two pairs of disks that are never idle.
    #[test]
    fn readers_of_whole_chunks_have_disks_read_on_for_them() {
        let chunks = Job {
            bs_bytes: 512 << 10,
            direct: true,
            ..files(6)
        };
        let mut scenario = raid10(&["hdd-7200-2tb"; 4], CopyOrder::Near, vec![chunks]);
        scenario.warmup_seconds = Duration::from_secs(5);
        scenario.seconds = Duration::from_secs(10);
        let (mut adaptive, mut zfs) = (0.0, 0.0);
        for seed in 1..=3 {
            scenario.seed = seed;
            adaptive += read_bytes_per_s(&scenario, "adaptive");
            zfs += read_bytes_per_s(&scenario, "zfs");
        }
        assert!(adaptive > 1.7 * zfs, "{adaptive} {zfs}");
    }

    /// A disk whose cache answers four reads of five, beside one without: so many wait for the rest
    /// that the other one is worth its time.
    #[test]
    fn a_disk_behind_a_cache_is_known_for_what_its_cache_does_not_have() {
        let random = Job {
            rw: Rw::RandRead,
            iodepth: 16,
            ..Job::default()
        };
        let mut scenario = scenario(&["hdd-7200-1tb"; 2], vec![random]);
        scenario.array.legs[1].cache.hit_permille = 800;
        scenario.warmup_seconds = Duration::from_secs(5);
        scenario.seconds = Duration::from_secs(20);
        let queue = read_bytes_per_s(&scenario, "queue");
        let adaptive = read_bytes_per_s(&scenario, "adaptive");
        assert!(adaptive > 1.02 * queue, "{adaptive} {queue}");
    }

    /// An NVMe drive that has paused is read again at once, however rarely it is read: what it did
    /// meanwhile is not what it does.
    #[test]
    fn a_drive_that_has_paused_is_back_though_it_is_read_rarely() {
        let random = Job {
            rw: Rw::RandRead,
            arrival: Arrival::Poisson { per_s: 50.0 },
            ..Job::default()
        };
        let mut scenario = scenario(&["nvme-gen4", "ssd-sata-256gb"], vec![random]);
        scenario.warmup_seconds = Duration::from_secs(5);
        scenario.seconds = Duration::from_secs(20);
        scenario.faults = vec![Fault {
            leg: Some(0),
            at_ns: -2_000_000_000,
            until_ns: 0,
            effect: Some(Effect::Pause(Duration::from_ms(20))),
            every: Some(Duration::from_ms(200)),
            jitter: Some(Duration::from_ms(20)),
            ..Fault::default()
        }];
        let result = result(&scenario, "adaptive");
        let [nvme, ssd] = [0, 1].map(|leg: usize| result.legs[leg].reads);
        assert!(nvme > 19 * ssd, "{nvme} {ssd}");
    }

    /// Whether it is worth to read ahead in a RAID10 of flash is not tried beside random reads.
    #[test]
    fn a_stream_of_a_raid10_keeps_its_speed_when_random_reads_begin() {
        let deep = Job {
            bs_bytes: 64 << 10,
            direct: true,
            iodepth: 4,
            ..files(1)
        };
        let random = Job {
            rw: Rw::RandRead,
            iodepth: 8,
            start: Some(FromMeasuring(0)),
            ..Job::default()
        };
        let legs = ["ssd-sata-256gb", "nvme-gen3", "nvme-gen4"];
        let mut scenario = raid10(&legs, CopyOrder::Offset, vec![deep, random]);
        scenario.warmup_seconds = Duration::from_ms(600);
        scenario.seconds = Duration::from_ms(600);
        let hst = read_bytes_per_s(&scenario, "hst");
        let adaptive = read_bytes_per_s(&scenario, "adaptive");
        assert!(adaptive > 1.05 * hst, "{adaptive} {hst}");
    }

    /// Four files on two disks whose copies are a chunk apart: each disk reads those of two.
    #[test]
    fn files_on_disks_with_copies_near_each_other_have_a_disk_each() {
        let legs = ["hdd-7200-2tb"; 2];
        let mut scenario = raid10(&legs, CopyOrder::Offset, vec![files(4)]);
        scenario.warmup_seconds = Duration::from_secs(5);
        scenario.seconds = Duration::from_secs(10);
        let pid = read_bytes_per_s(&scenario, "pid");
        let adaptive = read_bytes_per_s(&scenario, "adaptive");
        assert!(adaptive > 0.9 * pid, "{adaptive} {pid}");
    }

    /// Streams whose reads come when they like, on a disk and an SSD that has time for all of them,
    /// and some writes, each of which moves the arm away.
    #[test]
    fn reads_of_streams_that_flash_has_time_for_wait_for_no_disk() {
        let slow = Job {
            bs_bytes: 64 << 10,
            direct: true,
            arrival: Arrival::Poisson { per_s: 400.0 },
            ..files(3)
        };
        let writes = Job {
            rw: Rw::RandWrite,
            arrival: Arrival::Poisson { per_s: 50.0 },
            ..Job::default()
        };
        let mut scenario = scenario(&["hdd-7200-1tb", "ssd-sata-1tb"], vec![slow, writes]);
        scenario.warmup_seconds = Duration::from_secs(2);
        scenario.seconds = Duration::from_secs(10);
        let [zfs, adaptive] = ["zfs", "adaptive"].map(|policy| {
            let read = result(&scenario, policy).read;
            let times = read.response_time_ns();
            (times.mean(), times.quantile(9_990))
        });
        assert!(adaptive.0 < 1.05 * zfs.0, "{adaptive:?} {zfs:?}");
        assert!(adaptive.1 <= zfs.1, "{adaptive:?} {zfs:?}");
    }

    /// Two slow readers beside more writes than an old disk does: one of them is not to wait for
    /// those, though both disks have a stream each otherwise.
    #[test]
    fn reads_of_streams_do_not_wait_behind_writes_that_pile_up() {
        let slow = Job {
            bs_bytes: 64 << 10,
            direct: true,
            arrival: Arrival::Poisson { per_s: 50.0 },
            ..files(2)
        };
        let writes = Job {
            rw: Rw::RandWrite,
            arrival: Arrival::Poisson { per_s: 140.0 },
            ..Job::default()
        };
        let mut scenario = scenario(&["hdd-7200-2tb", "hdd-5400-old"], vec![slow, writes]);
        scenario.warmup_seconds = Duration::from_secs(5);
        scenario.seconds = Duration::from_secs(30);
        let [queue, adaptive] = ["queue", "adaptive"].map(|policy| {
            let read = result(&scenario, policy).read;
            read.response_time_ns().mean()
        });
        assert!(adaptive < 1.5 * queue, "{adaptive:?} {queue:?}");
    }

    /// Slow readers beside writes that an old disk is nearly busy with: it does all of them in a
    /// sweep where it has to read nothing, and the others have time to read.
    #[test]
    fn reads_of_streams_that_other_disks_have_time_for_do_not_wait_for_one_that_lags() {
        let [new, old] = ["hdd-7200-2tb", "hdd-5400-old"];
        for (legs, streams) in [(vec![new, old], 2), (vec![new, old, old], 4)] {
            let slow = Job {
                bs_bytes: 64 << 10,
                direct: true,
                arrival: Arrival::Poisson { per_s: 50.0 },
                ..files(streams)
            };
            let writes = Job {
                rw: Rw::RandWrite,
                arrival: Arrival::Poisson { per_s: 110.0 },
                ..Job::default()
            };
            let mut scenario = scenario(&legs, vec![slow, writes]);
            scenario.warmup_seconds = Duration::from_secs(5);
            scenario.seconds = Duration::from_secs(30);
            let [queue, adaptive] = ["queue", "adaptive"].map(|policy| {
                let result = result(&scenario, policy);
                let [read, write] = [result.read, result.write];
                [read, write].map(|one| one.response_time_ns().mean())
            });
            assert!(adaptive[0] < 0.7 * queue[0], "{adaptive:?} {queue:?}");
            assert!(adaptive[1] < 1.1 * queue[1], "{adaptive:?} {queue:?}");
        }
    }

    /// Two readers with one read at a time, and a disk and an SSD: who has the SSD is read ahead.
    #[test]
    fn who_has_an_ssd_beside_a_disk_is_read_ahead() {
        let direct = Job {
            direct: true,
            ..files(2)
        };
        let mut scenario = scenario(&["hdd-7200-1tb", "ssd-sata-256gb"], vec![direct]);
        scenario.warmup_seconds = Duration::from_secs(2);
        scenario.seconds = Duration::from_secs(4);
        let zfs = read_bytes_per_s(&scenario, "zfs");
        let adaptive = read_bytes_per_s(&scenario, "adaptive");
        assert!(adaptive > 1.2 * zfs, "{adaptive} {zfs}");
    }

    /// Three programs that each read a file of three NVMe drives, and one that writes a log. Which
    /// drive is predicted to end a read first is luck then, and of two reads of a file on two
    /// drives the later one is waited for. Without locality no drive is a file's own.
    #[test]
    fn files_on_flash_that_is_written_have_a_drive_each() {
        let log = Job {
            rw: Rw::Write,
            bs_bytes: 64 << 10,
            offset_bytes: 180 << 30,
            ..Job::default()
        };
        let mut scenario = scenario(&["nvme-gen3"; 3], vec![files(3), log]);
        scenario.warmup_seconds = Duration::from_secs(1);
        scenario.seconds = Duration::from_ms(500);
        let [pid, adaptive, without] = ["pid", "adaptive", "adaptive:locality=0"]
            .map(|policy| read_bytes_per_s(&scenario, policy));
        assert!(adaptive > 0.9 * pid, "{adaptive} {pid}");
        assert!(adaptive > 1.2 * without, "{adaptive} {without}");
    }

    /// Two disks read beside an SSD that has too much to do, though they have had writes, and then
    /// nothing but a block now and then.
    #[test]
    fn disks_that_had_writes_once_are_read_again() {
        let often = Job {
            rw: Rw::RandRw,
            rwmixread: 70,
            iodepth: 16,
            stop: Some(FromMeasuring(10_000_000_000)),
            ..Job::default()
        };
        let later = Job {
            rw: Rw::RandRead,
            bs_bytes: 64 << 10,
            iodepth: 16,
            start: Some(FromMeasuring(600_000_000_000)),
            ..Job::default()
        };
        let legs = ["hdd-7200-2tb", "hdd-7200-2tb", "ssd-sata-256gb"];
        let mut scenario = scenario(&legs, vec![often, now_and_then(Rw::RandWrite), later]);
        scenario.warmup_seconds = Duration::ZERO;
        scenario.seconds = Duration::from_secs(603);
        let by_disks = [1, 2, 3, 4].map(|seed| {
            scenario.seed = seed;
            let legs = result(&scenario, "adaptive").legs;
            legs[0].reads + legs[1].reads
        });
        println!("{by_disks:?}");
        assert!(by_disks.iter().all(|reads| *reads > 300), "{by_disks:?}");
    }

    /// A disk that took 30 times as long for longer than a neighbour would is known to be slow, and
    /// works again within half a minute once it is well.
    #[test]
    fn a_disk_that_was_slow_for_minutes_is_back_before_long() {
        let job = |start_s: i64, stop_s: i64, name: &str| Job {
            name: name.to_owned(),
            rw: Rw::RandRead,
            iodepth: 16,
            start: Some(FromMeasuring(start_s * 1_000_000_000)),
            stop: Some(FromMeasuring(stop_s * 1_000_000_000)),
            ..Job::default()
        };
        let jobs = vec![
            now_and_then(Rw::RandRead),
            job(1_210, 1_246, "before"),
            job(1_246, 1_330, "after"),
        ];
        let mut scenario = scenario(&["hdd-7200-2tb"; 3], jobs);
        scenario.warmup_seconds = Duration::ZERO;
        scenario.seconds = Duration::from_secs(1_330);
        let well = result(&scenario, "adaptive").jobs[2].read.ios;
        scenario.faults = vec![Fault {
            leg: Some(0),
            at_ns: 10_000_000_000,
            until_ns: 1_246_000_000_000,
            effect: Some(Effect::Slow(30_000)),
            ..Fault::default()
        }];
        let after = [1, 2, 3, 4].map(|seed| {
            scenario.seed = seed;
            result(&scenario, "adaptive").jobs[2].read.ios
        });
        println!("{after:?} of {well}");
        assert!(
            after.iter().all(|ios| ios * 100 > well * 90),
            "{after:?} of {well}"
        );
    }

    /// No thousandth of the reads shows the tries of it, and one answer that came soon, by luck, is
    /// not taken for all.
    #[test]
    fn a_disk_that_stays_slow_is_tried_so_rarely_that_no_thousandth_shows_it() {
        for (slow, iodepth, seconds) in [(8, 8, 300), (30, 8, 300), (100, 32, 200)] {
            let job = Job {
                rw: Rw::RandRead,
                iodepth,
                ..Job::default()
            };
            let mut scenario = scenario(&["hdd-7200-2tb"; 2], vec![job]);
            scenario.warmup_seconds = Duration::ZERO;
            scenario.seconds = Duration::from_secs(seconds);
            scenario.faults = vec![Fault {
                leg: Some(0),
                until_ns: i64::MAX,
                effect: Some(Effect::Slow(slow * 1_000)),
                ..Fault::default()
            }];
            for seed in 1..=4 {
                scenario.seed = seed;
                let result = result(&scenario, "adaptive");
                let reads = result.legs[0].reads;
                println!("{slow} times, seed {seed}: {reads} of {}", result.read.ios);
                assert!(reads * 1_500 < result.read.ios, "{slow} {seed}: {reads}");
            }
        }
    }

    /// Long reads of a stream do not tell what a way of the arm takes.
    #[test]
    fn random_reads_after_a_file_go_where_the_arm_is_near() {
        let file = Job {
            stop: Some(FromMeasuring(10_000_000_000)),
            ..files(1)
        };
        let random = Job {
            name: "random".to_owned(),
            rw: Rw::RandRead,
            start: Some(FromMeasuring(13_000_000_000)),
            ..Job::default()
        };
        let legs = ["hdd-7200-1tb", "hdd-7200-1tb", "hdd-5400-old"];
        for seed in 1..=3 {
            let ios = |jobs: Vec<Job>| {
                let mut scenario = scenario(&legs, jobs);
                scenario.warmup_seconds = Duration::ZERO;
                scenario.seconds = Duration::from_secs(43);
                scenario.seed = seed;
                let result = result(&scenario, "adaptive");
                result.jobs.last().expect("a job").read.ios
            };
            let (alone, after) = (
                ios(vec![random.clone()]),
                ios(vec![file.clone(), random.clone()]),
            );
            println!("{after} of {alone}");
            assert!(after * 100 > alone * 95, "{seed}: {after} of {alone}");
        }
    }

    /// What a drive takes by itself was a guess, and too little, so that each answer was late.
    #[test]
    fn no_drive_is_slow_for_taking_longer_than_a_guess() {
        let later = Job {
            name: "later".to_owned(),
            rw: Rw::RandRead,
            bs_bytes: 64 << 10,
            iodepth: 16,
            start: Some(FromMeasuring(1_240_000_000_000)),
            ..Job::default()
        };
        let legs = ["ssd-sata-1tb", "nvme-gen3"];
        let mut scenario = scenario(&legs, vec![now_and_then(Rw::RandRead), later]);
        scenario.warmup_seconds = Duration::ZERO;
        scenario.seconds = Duration::from_secs(1_242);
        let [queue, adaptive] =
            ["queue", "adaptive"].map(|policy| result(&scenario, policy).jobs[1].read.ios);
        println!("{adaptive} {queue}");
        assert!(adaptive * 100 > queue * 99, "{adaptive} {queue}");
    }

    /// Of two that read beside each other, each where a third read would end sooner on a disk, none
    /// has the disks alone.
    #[test]
    fn long_reads_of_two_share_the_drive_that_is_faster() {
        let job = |name: &str, kib: u64| Job {
            name: name.to_owned(),
            rw: Rw::RandRead,
            bs_bytes: kib << 10,
            iodepth: 2,
            ..Job::default()
        };
        for (legs, lengths) in [
            (
                &["hdd-7200-2tb", "hdd-7200-2tb", "nvme-gen3"][..],
                [512, 256],
            ),
            (&["nvme-gen3", "ssd-sata-1tb", "net-ssd"], [512, 256]),
            (
                &["hdd-7200-2tb", "hdd-7200-2tb", "ssd-sata-1tb"],
                [1_024, 256],
            ),
        ] {
            let jobs = vec![job("one", lengths[0]), job("other", lengths[1])];
            let mut scenario = scenario(legs, jobs);
            scenario.seconds = Duration::from_secs(4);
            let result = result(&scenario, "adaptive");
            let [one, other] = [0, 1].map(|job: usize| result.jobs[job].read.ios);
            println!("{legs:?}: {one} {other}");
            assert!(
                one * 2 > other && other * 2 > one,
                "{legs:?}: {one} {other}"
            );
        }
    }

    /// Two drives, one of which pauses for 5 ms of each 60, and a job with four operations of so
    /// many bytes in flight.
    fn beside_pauses(rw: Rw, bs_bytes: u64) -> Scenario {
        let job = Job {
            rw,
            bs_bytes,
            iodepth: 4,
            ..Job::default()
        };
        let mut scenario = scenario(&["nvme-gen3"; 2], vec![job]);
        scenario.warmup_seconds = Duration::from_secs(1);
        scenario.faults = vec![Fault {
            leg: Some(0),
            effect: Some(Effect::Pause(Duration::from_ms(5))),
            every: Some(Duration::from_ms(60)),
            jitter: Some(Duration::from_ms(20)),
            ..Fault::default()
        }];
        scenario
    }

    #[test]
    fn no_read_is_cut_that_would_wait_for_a_drive_that_pauses() {
        let scenario = beside_pauses(Rw::RandRead, 64 << 10);
        let [queue, adaptive] = ["queue", "adaptive"].map(|policy| result(&scenario, policy));
        let parts: u64 = adaptive.legs.iter().map(|leg| leg.reads).sum();
        assert!(parts < adaptive.read.ios * 11 / 10, "{parts}");
        assert!(adaptive.read.bytes > queue.read.bytes);
        let p99_9 = adaptive.read.response_time_ns().quantile(9_990);
        assert!(p99_9 < 1_000_000, "{p99_9}");
    }

    #[test]
    fn who_reads_and_writes_reads_what_does_not_pause() {
        let scenario = beside_pauses(Rw::Rw, 1 << 20);
        let [without, with] = ["adaptive:health=0", "adaptive"].map(|policy| {
            let result = result(&scenario, policy);
            let [pauses, calm] = [0, 1].map(|leg: usize| result.legs[leg].reads as f64);
            (pauses / calm, result.read.bytes)
        });
        assert!(with.0 < 0.95 * without.0, "{with:?} {without:?}");
        assert!(with.1 > without.1, "{with:?} {without:?}");
    }
}
