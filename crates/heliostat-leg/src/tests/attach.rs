//! Legs that take the place of others while the rest is in use.

use heliostat_types::{Extent, LegId, OpKind};

use super::bench::{Bench, Scratch, open, open_path, range};
use crate::{IoChoice, LegOutcome};

const EXTENT: Extent = Extent::new(8192, 4096);

/// What a leg holds at [`EXTENT`], through the hub.
fn read(bench: &mut Bench, leg: usize) -> u8 {
    bench.leg = LegId::new(leg);
    assert_eq!(bench.run(OpKind::Read, EXTENT), LegOutcome::Done);
    bench.arena.slice(range(0, EXTENT))[77]
}

fn write(bench: &mut Bench, leg: usize, byte: u8) {
    bench.leg = LegId::new(leg);
    bench.arena.slice_mut(range(0, EXTENT)).fill(byte);
    assert_eq!(bench.run(OpKind::Write, EXTENT), LegOutcome::Done);
}

#[test]
fn a_leg_takes_the_place_of_another() {
    let scratch = Scratch::new();
    for choice in [IoChoice::Auto, IoChoice::ThreadPool] {
        let file = |name: &str| open_path(&scratch.file(name, 1 << 20));
        let mut bench = Bench::of(vec![file("a"), file("b"), open("mem:1m")], choice);
        for (leg, byte) in [(0, 1), (1, 2), (2, 3)] {
            write(&mut bench, leg, byte);
        }
        // A file for a file, a file for memory, memory for a file.
        bench.hub.attach(LegId::new(1), file("c")).unwrap();
        bench.hub.attach(LegId::new(2), file("d")).unwrap();
        assert_eq!([0, 1, 2].map(|leg| read(&mut bench, leg)), [1, 0, 0]);
        write(&mut bench, 1, 4);
        write(&mut bench, 2, 5);
        bench.hub.attach(LegId::new(0), open("mem:1m")).unwrap();
        assert_eq!([0, 1, 2].map(|leg| read(&mut bench, leg)), [0, 4, 5]);
        let held = |name: &str| std::fs::read(scratch.path(name)).unwrap()[8192];
        assert_eq!(["a", "b", "c", "d"].map(held), [1, 2, 4, 5]);
        drop(bench);
        for name in ["a", "b", "c", "d"] {
            std::fs::remove_file(scratch.path(name)).unwrap();
        }
    }
}

#[test]
fn a_hub_of_memory_takes_a_file() {
    let scratch = Scratch::new();
    let mut bench = Bench::of(vec![open("mem:1m"), open("mem:1m")], IoChoice::Auto);
    let leg = open_path(&scratch.file("a", 1 << 20));
    bench.hub.attach(LegId::new(1), leg).unwrap();
    write(&mut bench, 1, 9);
    assert_eq!(read(&mut bench, 1), 9);
    assert_eq!(std::fs::read(scratch.path("a")).unwrap()[8192], 9);
}
