//! Model legs in the time that the test says it is.

use std::sync::Arc;

use heliostat_types::{Duration, ErrorKind, Extent, LegId, OpKind};

use super::bench::{Bench, Scratch, open, open_path, range};
use crate::{IoChoice, LegOutcome, LegSpec};

const BLOCK: Extent = Extent::new(4096, 4096);

#[test]
fn a_model_takes_its_time() {
    let mut bench = Bench::new(open("model:hdd-7200-2tb,size=1g"), IoChoice::Auto);
    let begun = bench.now;
    bench.submit(OpKind::Read, BLOCK, 0);
    bench.hub.kick();
    let mut done = Vec::new();
    bench.hub.reap(bench.now, &mut done);
    assert!(done.is_empty() && !bench.hub.has_ready());
    assert_eq!(bench.hub.outstanding(), 1);
    assert!(bench.hub.next_deadline().unwrap() > begun);
    bench.finish();
    let taken = bench.now - begun;
    assert!(
        (Duration::from_us(50)..Duration::from_ms(60)).contains(&taken),
        "{taken}"
    );
}

#[test]
fn bytes_move_when_the_device_has_ended() {
    let mut bench = Bench::new(open("model:net-ssd,size=1g"), IoChoice::Auto);
    bench.arena.slice_mut(range(0, BLOCK)).fill(7);
    bench.submit(OpKind::Write, BLOCK, 0);
    bench.finish();
    bench.submit(OpKind::Read, BLOCK, 8192);
    bench.finish();
    let read = bench.arena.slice(range(8192, BLOCK));
    assert!(read.iter().all(|&byte| byte == 7));
}

#[test]
fn faults_come_and_go_by_the_clock() {
    // The clock begins with the first call, not at the origin.
    let text =
        "model:ram,size=1m,error=read,at=1s,until=2s,error=write,at=2s,until=3s,dead=true,at=4s";
    let mut bench = Bench::new(open(text), IoChoice::Auto);
    let begun = bench.now;
    let failed = LegOutcome::Failed(ErrorKind::Io);
    let mut at = |seconds, kind| {
        bench.now = begun + Duration::from_secs(seconds);
        bench.run(kind, BLOCK)
    };
    assert_eq!(at(0, OpKind::Read), LegOutcome::Done);
    assert_eq!(at(1, OpKind::Read), failed);
    assert_eq!(at(1, OpKind::Write), LegOutcome::Done);
    assert_eq!(at(2, OpKind::Read), LegOutcome::Done);
    assert_eq!(at(2, OpKind::Write), failed);
    assert_eq!(at(3, OpKind::Write), LegOutcome::Done);
    assert_eq!(at(4, OpKind::Read), failed);
}

#[test]
fn a_stuck_model_keeps_its_operations_and_lets_go_of_the_rest() {
    let leg = open("model:ram,size=1m,stuck=true");
    let mut bench = Bench::new(leg, IoChoice::Auto);
    bench.submit(OpKind::Read, BLOCK, 0);
    bench.hub.kick();
    let mut done = Vec::new();
    bench.now += Duration::from_secs(3600);
    bench.hub.reap(bench.now, &mut done);
    assert!(done.is_empty());
    assert_eq!(bench.hub.outstanding(), 1);
    assert_eq!(bench.hub.next_deadline(), None);
}

#[test]
fn a_hub_dropped_in_flight_leaves_the_arena_to_the_kernel() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    for choice in [IoChoice::Auto, IoChoice::ThreadPool] {
        let mut bench = Bench::new(open_path(&path), choice);
        for _ in 0..8 {
            bench.submit(OpKind::Read, BLOCK, 0);
        }
        bench.hub.kick();
        let Bench { hub, arena, .. } = bench;
        let on_ring = hub.backend() == "io_uring";
        drop(hub);
        assert!(!on_ring || Arc::strong_count(&arena) > 1);
    }
}

#[test]
fn setup_reads_and_writes_at_any_alignment() {
    let scratch = Scratch::new();
    let file = scratch.file("leg", 4 << 20);
    for text in [file.to_str().unwrap(), "mem:4m"] {
        let leg = LegSpec::parse(text).unwrap().open().unwrap();
        let data: Vec<u8> = (0..3_000_000u32)
            .map(|at| at.to_le_bytes()[0] ^ 0x5a)
            .collect();
        leg.write_at(12_345, &data).unwrap();
        leg.sync().unwrap();
        let mut read = vec![1; data.len() + 2];
        leg.read_at(12_344, &mut read).unwrap();
        assert_eq!(read[0], 0);
        assert!(read[1..=data.len()] == data);
        assert_eq!(read[data.len() + 1], 0);
        assert!(leg.read_at(4 << 20, &mut [0]).is_err());
        assert!(leg.write_at((4 << 20) - 1, &[0; 2]).is_err());
        let runs: Vec<Extent> = leg.data_runs(0).collect::<Result<_, _>>().unwrap();
        assert!(
            runs.iter()
                .any(|run| run.contains(Extent::new(12_345, 3_000_000)))
        );
    }
}

#[test]
fn superblocks_of_arrays_are_seen() {
    let leg = open("mem:1m");
    assert_eq!(leg.holds_md_superblock(), None);
    leg.write_at(4096, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0])
        .unwrap();
    leg.write_at(4096 + 32, b"nas:data\0").unwrap();
    let told = leg.holds_md_superblock().unwrap();
    assert!(
        told.contains("version 1.2, of the array 'nas:data'"),
        "{told}"
    );
}

#[test]
fn several_legs_answer_each_by_its_number() {
    let scratch = Scratch::new();
    let file = scratch.file("leg", 1 << 20);
    let legs = vec![open("mem:1m"), open_path(&file), open("model:ram,size=1m")];
    let mut bench = Bench::of(legs, IoChoice::Auto);
    for index in 0..3 {
        bench.leg = LegId::new(index);
        bench.submit(OpKind::Flush, Extent::default(), 0);
    }
    let mut done = bench.finish();
    done.sort_by_key(|done| done.op);
    let legs: Vec<usize> = done.iter().map(|done| done.leg.index()).collect();
    assert_eq!(legs, [0, 1, 2]);
}
