use heliostat_types::{Duration, Instant, OpKind};

use super::{Clients, Step, Surroundings};
use crate::client::Ask;
use crate::job::Job;

const MIB: u64 = 1 << 20;

/// What clients did: when, who, and what they asked for.
#[derive(Debug, Default)]
struct Told {
    asks: Vec<(u64, usize, Ask)>,
    served: Vec<(usize, OpKind, u64)>,
    ended_at_us: u64,
}

/// Plays a job for `run_us` against an array that answers everything after `service_us`.
fn play(settings: &[(&str, &str)], service_us: u64, run_us: u64, until_done: bool) -> Told {
    let mut job = Job::default();
    for (key, value) in settings {
        job.set(key, value).unwrap();
    }
    job.check(1024 * MIB).unwrap();
    let around = Surroundings {
        seed: 1,
        first_client: 0,
        array_bytes: 1024 * MIB,
        leg_bytes: &[],
        begins_at: Instant::ZERO,
        until_done,
    };
    let mut clients = Clients::new(&[job], &around, None).unwrap();
    let mut flying = std::collections::VecDeque::new();
    let mut told = Told::default();
    let mut now = Instant::ZERO;
    loop {
        while let Some(step) = clients.poll(now) {
            match step {
                Step::Ask {
                    client, ask, tag, ..
                } => {
                    told.asks.push((now.as_ns() / 1_000, client, ask));
                    flying.push_back((now + Duration::from_us(service_us), client, ask, tag));
                }
                Step::Served {
                    client,
                    kind,
                    len_bytes,
                    ..
                } => told.served.push((client, kind, len_bytes)),
            }
        }
        told.ended_at_us = now.as_ns() / 1_000;
        let answer = flying.front().map(|(at, ..)| *at);
        let next = answer.into_iter().chain(clients.next_wake_at()).min();
        let Some(next) = next.filter(|next| next.as_ns() < run_us * 1_000) else {
            return told;
        };
        now = next;
        while let Some(&(at, client, ask, tag)) = flying.front()
            && at <= now
        {
            flying.pop_front();
            clients.on_answer(now, client, ask, tag, true);
        }
        clients.wake(now);
    }
}

fn times(told: &Told) -> Vec<u64> {
    told.asks.iter().map(|(at, ..)| *at).collect()
}

#[test]
fn a_closed_loop_keeps_its_depth() {
    let told = play(&[("iodepth", "2")], 100, 250, false);
    assert_eq!(times(&told), [0, 0, 100, 100, 200, 200]);
}

/// An array that answers from memory takes no time, and a model that lets it would never get on.
#[test]
fn answers_that_take_no_time_are_a_million_a_second() {
    let told = play(&[("iodepth", "2")], 0, 3_000, false);
    let in_ms = |ms| times(&told).iter().filter(|at| **at / 1_000 == ms).count();
    assert_eq!([in_ms(0), in_ms(1), in_ms(2)], [1000, 1000, 1000]);
}

/// Four in flight, of which three have to be back before more are sent.
#[test]
fn batches_wait_for_their_answers() {
    let mut job = Job::default();
    for (key, value) in [("iodepth", "4"), ("iodepth_batch_complete_min", "3")] {
        job.set(key, value).unwrap();
    }
    let around = Surroundings {
        seed: 1,
        first_client: 0,
        array_bytes: 1024 * MIB,
        leg_bytes: &[],
        begins_at: Instant::ZERO,
        until_done: false,
    };
    let mut clients = Clients::new(&[job], &around, None).unwrap();
    let asked = |clients: &mut Clients, at| {
        let steps = std::iter::from_fn(|| clients.poll(at));
        let asks = steps.map(|step| match step {
            Step::Ask { ask, tag, .. } => (ask, tag),
            Step::Served { .. } => panic!("nothing is buffered"),
        });
        asks.collect::<Vec<_>>()
    };
    let first = asked(&mut clients, Instant::ZERO);
    assert_eq!(first.len(), 4);
    for (answered, more) in [(0, 0), (1, 0), (2, 3)] {
        let at = Instant::from_ns(100 * (answered as u64 + 1));
        let (ask, tag) = first[answered];
        clients.on_answer(at, 0, ask, tag, true);
        assert_eq!(asked(&mut clients, at).len(), more, "{answered}");
    }
}

#[test]
fn rates_are_schedules_that_catch_up() {
    let told = play(&[("rate_iops", "10000")], 10, 450, false);
    assert_eq!(times(&told), [0, 100, 200, 300, 400]);
    // The first takes three periods; those that it held up follow at once, as fio's.
    let told = play(&[("rate_iops", "10000")], 350, 750, false);
    assert_eq!(times(&told), [0, 350, 700]);
    let told = play(
        &[("rate_iops", "10000,5000"), ("rw", "randrw")],
        1,
        100_000,
        false,
    );
    let reads = told.asks.iter().filter(|one| one.2.kind() == OpKind::Read);
    let reads = reads.count();
    assert!((995..=1000).contains(&reads), "{reads}");
    assert!(
        (1_495..=1_500).contains(&told.asks.len()),
        "{}",
        told.asks.len()
    );
}

#[test]
fn thinking_begins_when_all_is_answered() {
    let told = play(&[("thinktime", "50us")], 100, 400, false);
    assert_eq!(times(&told), [0, 150, 300]);
    let blocks = [
        ("thinktime", "50us"),
        ("thinktime_blocks", "2"),
        ("iodepth", "2"),
    ];
    assert_eq!(times(&play(&blocks, 100, 200, false)), [0, 0, 150, 150]);
}

#[test]
fn open_arrivals_wait_for_nobody_and_are_the_same_whatever_is_slow() {
    let fixed = [("arrival", "fixed:10000")];
    assert_eq!(times(&play(&fixed, 10_000, 350, false)), [0, 100, 200, 300]);
    let poisson = [
        ("arrival", "poisson:10000"),
        ("numjobs", "2"),
        ("rw", "randrw"),
    ];
    let fast = play(&poisson, 1, 50_000, false).asks;
    assert_eq!(fast, play(&poisson, 7_777, 50_000, false).asks);
    assert!((800..1_200).contains(&fast.len()), "{}", fast.len());
}

#[test]
fn a_job_starts_and_stops_when_it_says() {
    let told = play(&[("start", "1ms"), ("stop", "1.25ms")], 100, 5_000, false);
    assert_eq!(times(&told), [1_000, 1_100, 1_200]);
}

#[test]
fn a_stream_is_read_ahead_and_counts_as_its_program_sees_it() {
    let buffered = [
        ("rw", "read"),
        ("bs", "64k"),
        ("direct", "0"),
        ("size", "64m"),
    ];
    let told = play(&buffered, 100, 10_000_000, true);
    let asked: u64 = told.asks.iter().map(|one| one.2.extent().len()).sum();
    assert_eq!(asked, 64 * MIB);
    assert_eq!(told.served.len(), 1024);
    assert!(told.served.iter().all(|one| one.2 == 64 << 10));
    assert!(told.asks.len() < 100, "{}", told.asks.len());
}

#[test]
fn clones_that_share_a_cache_read_once() {
    let shared = [
        ("rw", "read"),
        ("bs", "64k"),
        ("direct", "0"),
        ("size", "64m"),
        ("numjobs", "8"),
        ("shared_cache", "1"),
    ];
    let told = play(&shared, 100, 10_000_000, true);
    let asked: u64 = told.asks.iter().map(|one| one.2.extent().len()).sum();
    assert_eq!(asked, 64 * MIB);
    let served: u64 = told.served.iter().map(|one| one.2).sum();
    assert_eq!(served, 8 * 64 * MIB);
}

#[test]
fn writes_through_the_cache_are_as_fast_as_memory_until_the_limit() {
    let writes = [
        ("rw", "write"),
        ("bs", "64k"),
        ("direct", "0"),
        ("size", "64m"),
        ("dirty_limit", "8m"),
    ];
    // 32 requests of up to 1 MiB in 100 ms each.
    let told = play(&writes, 100_000, 60_000_000, true);
    assert_eq!(told.served.len(), 1024);
    let written: u64 = told.asks.iter().map(|one| one.2.extent().len()).sum();
    assert!((56 * MIB..=64 * MIB).contains(&written), "{written}");
    assert!(told.ended_at_us > 100_000);
    // An fsync waits until all is written, and flushes.
    let synced = [("rw", "randwrite"), ("direct", "0"), ("fsync", "4")];
    let told = play(&synced, 100, 2_000, false);
    let kinds: Vec<OpKind> = told.asks.iter().map(|one| one.2.kind()).collect();
    assert!(kinds[..5].contains(&OpKind::Flush), "{kinds:?}");
}

#[test]
fn a_defragmentation_writes_what_it_has_read() {
    let told = play(
        &[("kind", "defrag"), ("size", "256m")],
        500,
        60_000_000,
        true,
    );
    let sum = |kind| -> u64 {
        let asks = told.asks.iter().filter(|one| one.2.kind() == kind);
        asks.map(|one| one.2.extent().len()).sum()
    };
    let read = sum(OpKind::Read);
    assert_eq!(read, sum(OpKind::Write));
    assert!((256 * MIB..257 * MIB).contains(&read), "{read}");
}
