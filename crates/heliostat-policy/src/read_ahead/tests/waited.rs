//! Streams beside writes, all of which wait for one disk.

use heliostat_types::Duration;

use super::chunks::near;
use super::{KIB, MIB, Rig};
use crate::read_ahead::StreamWay;

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
        for (leg, view) in self.rig.legs.iter_mut().enumerate() {
            let is_it = waited_for.contains(&leg);
            view.writes_in_flight = if is_it { 8 } else { 0 };
        }
        for _ in 0..seconds * 20 {
            for stream in 0..self.streams {
                self.rig.read(stream * APART + self.read_bytes, 128 * KIB);
            }
            self.rig.all_ends_at_once();
            self.rig.now += Duration::from_ms(50);
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
fn in_a_raid10_a_disk_is_left_that_its_own_writes_wait_for() {
    let mut beside = Beside::new(near(&[true, true, true, true]), 2);
    beside.pass(9, &[1, 2]);
    // What one pair has to write says nothing of the other.
    let ways = [0, 1].map(|chunk| beside.rig.way(beside.read_bytes + chunk * 512 * KIB));
    for leg in [0, 3] {
        let home = beside.rig.legs[leg].leg;
        let is_home = StreamWay::Homes([home].into_iter().collect());
        assert!(ways.contains(&is_home), "{leg} {ways:?}");
    }
}
