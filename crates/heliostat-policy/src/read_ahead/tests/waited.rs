//! Streams beside writes, all of which wait for one disk.

use heliostat_types::{Duration, LegSet};

use super::chunks::near;
use super::{KIB, MIB, Rig};
use crate::read_ahead::StreamWay;
use crate::read_ahead::waited::Waited;

const APART: u64 = 100_000 * MIB;

/// Streams beside somebody who writes.
struct Beside {
    rig: Rig,
    streams: u64,
    read_bytes: u64,
}

impl Beside {
    fn new(rig: Rig, streams: u64) -> Self {
        Self {
            rig,
            streams,
            read_bytes: 0,
        }
    }

    /// For so many seconds, with eight writes in flight to each of these legs and none to others.
    fn pass(&mut self, seconds: u64, waited_for: &[usize]) {
        let legs = self.rig.legs.len();
        let writes: Vec<u32> = (0..legs)
            .map(|leg| if waited_for.contains(&leg) { 8 } else { 0 })
            .collect();
        self.pass_with(seconds, &writes, Duration::from_ms(50));
    }

    /// For so many seconds, with so many writes in flight to each leg, and one read of each stream
    /// in so long.
    fn pass_with(&mut self, seconds: u64, writes: &[u32], each: Duration) {
        for (view, count) in self.rig.legs.iter_mut().zip(writes) {
            view.writes_in_flight = *count;
        }
        for _ in 0..seconds * 1000 / each.as_ms() {
            for stream in 0..self.streams {
                self.rig.read(stream * APART + self.read_bytes, 128 * KIB);
            }
            self.rig.all_ends_at_once();
            self.rig.now += each;
            self.read_bytes += 128 * KIB;
        }
    }

    /// How many streams each leg reads, of those that have legs of their own.
    fn homes(&self) -> Vec<usize> {
        let offsets = (0..self.streams).map(|stream| stream * APART + self.read_bytes);
        let ways: Vec<StreamWay> = offsets.map(|offset| self.rig.way(offset)).collect();
        let has =
            |way: &&StreamWay, leg| matches!(way, StreamWay::Homes(homes) if homes.contains(leg));
        let legs = self.rig.legs.iter().map(|view| view.leg);
        legs.map(|leg| ways.iter().filter(|way| has(way, leg)).count())
            .collect()
    }

    /// Legs that read what comes next of any stream, in a RAID10.
    fn homes_of_chunks(&self) -> Vec<usize> {
        let mut legs = LegSet::EMPTY;
        for stream in 0..self.streams {
            for chunk in 0..2 {
                let offset = stream * APART + self.read_bytes + chunk * 512 * KIB;
                if let StreamWay::Homes(homes) = self.rig.way(offset) {
                    legs = legs.union(homes);
                }
            }
        }
        legs.iter().map(|leg| leg.index()).collect()
    }
}

#[test]
fn streams_leave_a_disk_that_writes_wait_for_all_the_time() {
    let mut beside = Beside::new(Rig::new(&[true, true, true]), 4);
    beside.pass(7, &[1]);
    assert_eq!(beside.homes().iter().sum::<usize>(), 4);
    assert!(beside.homes()[1] > 0, "it may be another one's turn soon");
    beside.pass(2, &[1]);
    assert_eq!(beside.homes(), [2, 0, 2]);
    beside.pass(60, &[1]);
    assert_eq!(beside.homes(), [2, 0, 2]);
    beside.pass(5, &[]);
    assert!(beside.homes()[1] > 0, "nothing is written any more");
}

#[test]
fn the_only_disk_among_flash_is_left_soon() {
    for (turning, seconds) in [([true, false, false], 2), ([true, true, false], 9)] {
        let mut beside = Beside::new(Rig::new(&turning), 4);
        let is_left = |beside: &Beside| !beside.rig.ahead.waited.legs.is_empty();
        beside.pass(seconds - 2, &[0]);
        assert!(!is_left(&beside), "{turning:?}");
        beside.pass(2, &[0]);
        assert!(is_left(&beside), "{turning:?}");
    }
}

#[test]
fn they_are_back_as_soon_as_writes_wait_elsewhere() {
    let mut beside = Beside::new(Rig::new(&[true, true, true]), 4);
    beside.pass(20, &[1]);
    assert_eq!(beside.homes()[1], 0);
    beside.pass(1, &[2]);
    assert!(beside.homes()[1] > 0);
}

#[test]
fn equal_disks_that_writes_wait_for_in_turns_keep_their_streams() {
    let mut beside = Beside::new(Rig::new(&[true, true, true]), 4);
    for turn in 0..20 {
        beside.pass(6, &[turn % 3]);
        assert!(!beside.homes().contains(&0), "{turn} {:?}", beside.homes());
    }
}

#[test]
fn writes_now_and_then_are_no_reason_to_leave() {
    let mut beside = Beside::new(Rig::new(&[true, true, true]), 4);
    for second in 0..40 {
        let is_written = second % 3 == 0;
        beside.pass(1, if is_written { &[1] } else { &[] });
        let homes = beside.homes();
        assert!(second < 2 || homes[1] > 0, "{second} {homes:?}");
    }
}

#[test]
fn streams_are_not_all_left_to_one_of_three_disks() {
    let mut beside = Beside::new(Rig::new(&[true, true, true]), 4);
    beside.pass(20, &[0, 1]);
    assert!(!beside.homes().contains(&0), "{:?}", beside.homes());
}

#[test]
fn flash_is_not_left() {
    let mut beside = Beside::new(Rig::new(&[true, false, true]), 4);
    beside.pass(20, &[1]);
    assert!(beside.homes()[1] > 0, "{:?}", beside.homes());
}

#[test]
fn a_disk_that_is_behind_by_less_is_not_waited_for() {
    let mut beside = Beside::new(Rig::new(&[true, true, true]), 4);
    beside.pass_with(20, &[0, 8, 3], Duration::from_ms(50));
    assert_eq!(beside.homes(), [2, 0, 2]);
}

#[test]
fn a_single_stream_is_read_by_the_others() {
    let mut beside = Beside::new(Rig::new(&[true, true, true]), 1);
    beside.pass(20, &[1]);
    assert_eq!(beside.homes(), [1, 0, 1]);
}

#[test]
fn streams_do_not_go_to_and_fro_where_writes_wait_for_whoever_has_them() {
    let mut beside = Beside::new(Rig::new(&[true, true]), 4);
    let mut moves = 0;
    let mut homes = vec![2, 2];
    for _ in 0..120 {
        // The older one, unless the other one has all streams.
        beside.pass(1, &[usize::from(homes[1] > 0)]);
        let new = beside.homes();
        moves += usize::from(new != homes);
        homes = new;
    }
    assert!((1..=8).contains(&moves), "{moves}");
}

#[test]
fn what_is_left_to_random_reads_is_not_all_that_streams_have() {
    let rig = Rig::new(&[true, true]);
    let mut views = rig.legs;
    views[1].writes_in_flight = 8;
    let all: LegSet = views.iter().map(|view| view.leg).collect();
    for (left, is_left) in [
        (LegSet::EMPTY, true),
        ([views[0].leg].into_iter().collect(), false),
    ] {
        let mut waited = Waited::default();
        for step in 0..1000 {
            let now = rig.now + Duration::from_ms(20 * step);
            waited.note(now, &views, &[all], (all, left));
        }
        assert_eq!(!waited.legs.is_empty(), is_left);
    }
}

#[test]
fn another_disk_in_its_place_is_not_known_to_be_waited_for() {
    let mut beside = Beside::new(Rig::new(&[true, true, true]), 4);
    beside.pass(20, &[1]);
    beside.rig.ahead.forget(beside.rig.legs[1].leg);
    beside.pass(1, &[1]);
    assert!(beside.homes()[1] > 0);
}

#[test]
fn flash_that_was_taken_for_a_disk_is_not_left_for_ever() {
    let mut beside = Beside::new(Rig::new(&[true, false]), 4);
    beside.pass(20, &[0]);
    assert!(!beside.rig.ahead.waited.legs.is_empty());
    beside.rig.legs[0].rotational = false;
    beside.pass(1, &[0]);
    assert!(beside.rig.ahead.waited.legs.is_empty());
}

#[test]
fn in_a_raid10_a_disk_is_left_that_its_own_writes_wait_for() {
    for each in [50, 400].map(Duration::from_ms) {
        for (writes, left) in [([0, 8, 8, 0], [0, 3]), ([8, 0, 0, 8], [1, 2])] {
            let mut beside = Beside::new(near(&[true, true, true, true]), 4);
            beside.pass_with(30, &writes, each);
            // What one pair has to write says nothing of the other.
            assert_eq!(beside.homes_of_chunks(), left, "{writes:?} {each:?}");
            beside.pass_with(30, &[0; 4], each);
            assert_eq!(beside.homes_of_chunks(), [0, 1, 2, 3], "{each:?}");
        }
    }
}
