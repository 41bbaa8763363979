//! Where it is found whether disks that are written read a little ahead of streams.

use heliostat_types::{Duration, Instant};

use super::KIB;
use crate::read_ahead::keeping::Keeping;

/// What disks do in one way.
#[derive(Clone, Copy)]
struct Way {
    /// Reads of 128 KiB, in a second,
    reads: u64,
    /// and writes, and how many us each of these takes.
    writes: u64,
    took_us: u64,
}

const fn way(reads: u64, writes: u64, took_us: u64) -> Way {
    Way {
        reads,
        writes,
        took_us,
    }
}

/// Streams, and who writes, on disks that do what a test says.
struct Disks {
    keeping: Keeping,
    now: Instant,
    /// Writes that were not answered yet, in parts of a read.
    owed: u64,
}

impl Disks {
    fn new() -> Self {
        Self {
            keeping: Keeping::new(),
            now: Instant::from_ns(1_000),
            owed: 0,
        }
    }

    /// So many seconds, in which disks read ahead or do not; in how many ms they did.
    fn go_on(&mut self, seconds: u64, with: Way, without: Way) -> u64 {
        let end = self.now + Duration::from_secs(seconds);
        let mut is_on = false;
        let mut on_ns = 0;
        while self.now < end {
            let way = if is_on { with } else { without };
            self.owed += way.writes;
            while self.owed >= way.reads {
                self.owed -= way.reads;
                self.keeping
                    .note_write(self.now, Duration::from_us(way.took_us));
            }
            let gap = Duration::from_ns(1_000_000_000 / way.reads);
            on_ns += if is_on { gap.as_ns() } else { 0 };
            self.now += gap;
            is_on = self.keeping.keeps(self.now, (128 * KIB, 0));
        }
        on_ns / 1_000_000
    }
}

const AS_BEFORE: Way = way(300, 1_000, 100);

#[test]
fn disks_read_ahead_where_that_is_worth_much_and_nobody_waits_for_it() {
    for (with, is_worth) in [
        (way(900, 1_000, 100), true),
        (way(900, 950, 105), true),
        // Writes wait for it,
        (way(900, 600, 170), false),
        // or are fewer, whoever they wait for,
        (way(900, 800, 100), false),
        // or take longer, of somebody who pauses between them.
        (way(900, 1_000, 130), false),
        // It is worth little.
        (way(350, 1_000, 100), false),
        (way(200, 1_200, 80), false),
    ] {
        let mut disks = Disks::new();
        disks.go_on(6, with, AS_BEFORE);
        let on = disks.go_on(1, with, AS_BEFORE);
        assert_eq!(on > 0, is_worth, "{on} {}", with.reads);
        // It is looked at again, less and less.
        disks.go_on(600, with, AS_BEFORE);
        let on = disks.go_on(1_000, with, AS_BEFORE) as f64 / 1e6;
        let other = if is_worth { 1.0 - on } else { on };
        assert!((0.0..0.006).contains(&other), "{other}");
    }
}

/// Some hundred writes, which come when they like, are fewer by a sixth now and then, and by half
/// where somebody waits for them.
#[test]
fn disks_read_ahead_where_writes_are_fewer_by_chance() {
    for (writes, is_worth) in [(110, true), (60, false)] {
        let mut disks = Disks::new();
        let [with, without] = [way(900, writes, 100), way(300, 130, 100)];
        disks.go_on(8, with, without);
        assert_eq!(disks.go_on(1, with, without) > 0, is_worth, "{writes}");
    }
}

/// Writes that take far longer are not waited for: the try ends.
#[test]
fn a_try_ends_as_soon_as_writes_wait_for_it() {
    let with = way(3_000, 1_000, 500);
    let on = Disks::new().go_on(6, with, AS_BEFORE);
    assert!((1..=210).contains(&on), "{on}");
}

/// A cache takes writes for as long as it has room; then they wait.
#[test]
fn where_writes_wait_for_it_later_disks_read_nothing_ahead_any_more() {
    let mut disks = Disks::new();
    disks.go_on(6, way(900, 1_000, 100), AS_BEFORE);
    assert!(disks.go_on(1, way(900, 1_000, 100), AS_BEFORE) > 900);
    disks.go_on(5, way(900, 500, 1_000), AS_BEFORE);
    assert_eq!(disks.go_on(1, way(900, 500, 1_000), AS_BEFORE), 0);
}

/// What changes by itself while it is tried says nothing, and is tried again soon.
#[test]
fn what_streams_get_by_themselves_is_not_why() {
    let mut disks = Disks::new();
    while disks.go_on(1, way(600, 1_000, 100), AS_BEFORE) == 0 {}
    let faster = way(900, 1_000, 100);
    let on = disks.go_on(10, faster, faster);
    assert!((500..2_500).contains(&on), "{on}");
    assert_eq!(disks.go_on(1, faster, faster), 0);
}

/// What was found of one who writes now and then says nothing of another one.
#[test]
fn whoever_writes_then_does_not_wait_for_what_was_found_before() {
    let mut disks = Disks::new();
    let now_and_then = way(300, 50, 30);
    disks.go_on(8, way(900, 50, 30), now_and_then);
    assert!(disks.go_on(1, way(900, 50, 30), now_and_then) > 900);
    let [with, without] = [way(900, 2_000, 500), way(300, 3_200, 300)];
    disks.go_on(4, with, without);
    let on = disks.go_on(60, with, without);
    assert!(on < 3_000, "{on}");
}

/// It is of others.
#[test]
fn nothing_is_known_of_who_reads_after_a_while() {
    let mut disks = Disks::new();
    let with = way(900, 1_000, 100);
    disks.go_on(6, with, AS_BEFORE);
    for (seconds, is_on) in [(2, true), (9, false)] {
        disks.now += Duration::from_secs(seconds);
        disks.keeping.keeps(disks.now, (128 * KIB, 0));
        let on = disks.go_on(1, with, AS_BEFORE);
        assert_eq!(on > 0, is_on, "{seconds} s: {on}");
    }
}
