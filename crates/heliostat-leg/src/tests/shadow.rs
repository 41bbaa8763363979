//! Legs that are kept from changing.

use heliostat_types::{ErrorKind, Extent, OpKind};

use super::bench::{ARENA_BYTES, Bench, Scratch, open, open_path, range};
use crate::{IoChoice, LegOutcome};

const BLOCK: u64 = 4096;

const fn block(at: u64) -> Extent {
    Extent::new(at * BLOCK, BLOCK)
}

#[test]
fn what_is_written_is_read_and_the_leg_stays_as_it_is() {
    let scratch = Scratch::new();
    for choice in [IoChoice::Auto, IoChoice::ThreadPool] {
        let path = scratch.file("leg", 64 << 10);
        std::fs::write(&path, vec![1; 64 << 10]).unwrap();
        let mut bench = Bench::new(open_path(&path), choice);
        bench.hub.keep_from_changing(2 * 4096);
        bench.arena.slice_mut(range(0, block(1))).fill(7);
        assert_eq!(bench.run(OpKind::Write, block(1)), LegOutcome::Done);
        assert_eq!(
            bench.run(OpKind::Flush, Extent::new(0, 0)),
            LegOutcome::Done
        );
        // Beside what was not written, in one and done as one, and what was written alone.
        let three = Extent::new(0, 3 * BLOCK);
        let mut expected = vec![1; 3 * 4096];
        expected[4096..8192].fill(7);
        bench.submit(OpKind::Read, three, ARENA_BYTES / 2);
        bench.finish();
        assert!(bench.arena.slice(range(ARENA_BYTES / 2, three)) == expected);
        let (first, second) = (ARENA_BYTES / 4, 0);
        let parts = [(block(0), first), (Extent::new(BLOCK, 2 * BLOCK), second)];
        bench.submit_joined(OpKind::Read, &parts, |_| {});
        bench.finish();
        assert!(*bench.arena.slice(range(first, block(0))) == expected[..4096]);
        assert!(*bench.arena.slice(range(second, parts[1].0)) == expected[4096..]);
        // There is room for one block more.
        assert_eq!(bench.run(OpKind::Write, block(3)), LegOutcome::Done);
        let full = LegOutcome::Failed(ErrorKind::NoSpace);
        assert_eq!(bench.run(OpKind::Write, block(4)), full);
        let cannot = LegOutcome::Failed(ErrorKind::NotSupported);
        for kind in [OpKind::Trim, OpKind::WriteZeroes] {
            assert_eq!(bench.run(kind, block(1)), cannot);
        }
        assert_eq!(std::fs::read(&path).unwrap(), vec![1; 64 << 10]);
    }
}

#[test]
fn what_a_leg_cannot_read_is_read_where_all_of_it_was_written() {
    let mut bench = Bench::new(open("model:ram,size=1m,error=read"), IoChoice::Auto);
    bench.hub.keep_from_changing(1 << 20);
    let failed = LegOutcome::Failed(ErrorKind::Io);
    assert_eq!(bench.run(OpKind::Read, block(1)), failed);
    bench.arena.slice_mut(range(0, block(1))).fill(7);
    assert_eq!(bench.run(OpKind::Write, block(1)), LegOutcome::Done);
    bench.submit(OpKind::Read, block(1), 8192);
    assert_eq!(bench.only_outcome(), LegOutcome::Done);
    assert!(
        bench
            .arena
            .slice(range(8192, block(1)))
            .iter()
            .all(|&byte| byte == 7)
    );
    assert_eq!(bench.run(OpKind::Read, Extent::new(0, 2 * BLOCK)), failed);
}
