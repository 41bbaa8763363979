use heliostat_format::{BitmapBits, BitmapSuper};
use heliostat_types::Extent;

use super::{IdleChunk, Intent};

const CHUNK: u64 = 4096;

/// So many chunks, the last one half as long; none has a bit.
fn intent(chunks: u64) -> Intent {
    let head = BitmapSuper {
        chunk_bytes: 4096,
        ..BitmapSuper::default()
    };
    let size_bytes = chunks * CHUNK - CHUNK / 2;
    Intent::new(size_bytes, CHUNK, Some(BitmapBits::new(head, chunks)))
}

fn chunk(number: u64) -> Extent {
    Extent::new(number * CHUNK, 512)
}

fn numbers(idle: &[IdleChunk]) -> Vec<u64> {
    idle.iter().map(|idle| idle.chunk).collect()
}

#[test]
fn a_bit_is_durable_when_its_page_was_written_after_it_was_set() {
    let mut intent = intent(100_000);
    intent.begin(chunk(3));
    assert!(!intent.is_durable(chunk(3)));
    assert!(intent.is_durable(chunk(4)), "nobody has asked for it");
    assert_eq!(intent.take_stale_pages(8), [0]);
    assert!(!intent.is_durable(chunk(3)), "it is on its way");
    // Too late for the page that is on its way.
    intent.begin(chunk(4));
    intent.begin(chunk(99_999));
    intent.committed();
    assert!(intent.is_durable(chunk(3)) && !intent.is_durable(chunk(4)));
    assert!(!intent.is_durable(Extent::new(3 * CHUNK, 2 * CHUNK)));
    assert_eq!(intent.take_stale_pages(1), [0]);
    assert!(intent.has_stale_pages());
    intent.committed();
    assert!(intent.is_durable(chunk(4)) && !intent.is_durable(chunk(99_999)));
    assert_eq!(intent.take_stale_pages(8), [3]);
    intent.commit_failed(&[3]);
    assert!(!intent.is_durable(chunk(99_999)));
    assert_eq!(intent.take_stale_pages(8), [3], "once more");
    intent.committed();
    assert!(intent.is_durable(chunk(99_999)));
    intent.begin(chunk(3));
    assert!(intent.is_durable(chunk(3)) && !intent.has_stale_pages());
}

#[test]
fn a_bit_goes_after_two_idle_sweeps() {
    let mut intent = intent(40);
    for number in [1, 2, 39] {
        intent.begin(chunk(number));
    }
    intent.take_stale_pages(8);
    intent.committed();
    intent.end(chunk(1));
    intent.end(chunk(39));
    assert!(intent.sweep().is_empty());
    let idle = intent.sweep();
    assert_eq!(numbers(&idle), [1, 39], "2 is in use");
    intent.begin(chunk(39));
    intent.end(chunk(39));
    assert!(intent.clear(&idle));
    let bits: Vec<u64> = intent.bits().unwrap().iter_set().collect();
    assert_eq!(bits, [2, 39], "39 was used since the sweep");
    assert_eq!(intent.take_stale_pages(8), [0]);
    intent.begin(chunk(1));
    assert!(!intent.is_durable(chunk(1)));
    assert!(!intent.clear(&idle));
}

#[test]
fn a_bit_stays_that_was_idle_used_and_idle_again() {
    let mut intent = intent(40);
    let change = |intent: &mut Intent| {
        intent.begin(chunk(7));
        intent.end(chunk(7));
        intent.take_stale_pages(8);
        intent.committed();
        intent.sweep();
        intent.sweep()
    };
    let flushed = change(&mut intent);
    let not_flushed = change(&mut intent);
    assert_eq!(
        (numbers(&flushed), numbers(&not_flushed)),
        (vec![7], vec![7])
    );
    assert!(!intent.clear(&flushed), "no flush covers the second change");
    assert!(intent.clear(&not_flushed));
}

#[test]
fn what_needs_a_resync_is_told_by_runs_and_goes_by_whole_chunks() {
    let mut intent = intent(70);
    for number in [2, 3, 64, 69] {
        intent.begin(chunk(number));
        intent.end(chunk(number));
    }
    intent.take_stale_pages(8);
    intent.committed();
    assert!(!intent.is_any_needed());
    intent.need_bits();
    assert!(intent.is_needed(Extent::new(CHUNK, CHUNK + 1)));
    assert!(!intent.is_needed(Extent::new(0, 2 * CHUNK)));
    let run = |from: u64, to: u64| Some(Extent::from_range(from, to));
    assert_eq!(intent.next_needed(0), run(2 * CHUNK, 4 * CHUNK));
    assert_eq!(
        intent.next_needed(3 * CHUNK + 512),
        run(3 * CHUNK + 512, 4 * CHUNK)
    );
    assert_eq!(
        intent.next_needed(65 * CHUNK),
        run(69 * CHUNK, 69 * CHUNK + CHUNK / 2)
    );
    intent.synced(Extent::new(2 * CHUNK, CHUNK + 512));
    assert_eq!(intent.next_needed(0), run(3 * CHUNK, 4 * CHUNK));
    intent.synced(Extent::new(3 * CHUNK + 512, CHUNK - 512));
    intent.synced(Extent::new(64 * CHUNK, CHUNK));
    intent.synced(Extent::new(69 * CHUNK, CHUNK / 2));
    assert!(!intent.is_any_needed());
    assert!(intent.sweep().is_empty());
    assert_eq!(numbers(&intent.sweep()), [2, 3, 64, 69]);
}

#[test]
fn after_a_crash_all_pages_are_written_before_a_bit_counts() {
    let mut intent = intent(40_000);
    intent.begin(chunk(7));
    intent.take_stale_pages(8);
    intent.committed();
    intent.end(chunk(7));
    intent.need_from(39_990 * CHUNK);
    intent.begin(chunk(7));
    assert!(!intent.is_durable(chunk(7)), "another leg may not have it");
    assert_eq!(intent.bits().unwrap().count_set(), 11);
    assert_eq!(intent.take_stale_pages(1), [0]);
    intent.committed();
    assert!(intent.is_durable(chunk(7)));
    assert!(!intent.is_durable(chunk(39_999)));
}
