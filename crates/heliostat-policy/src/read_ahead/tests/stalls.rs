//! Streams beside a log, which stalls at one disk now and then.

use heliostat_types::{Duration, Instant, LegSet};

use super::{KIB, MIB, Rig};
use crate::read_ahead::StreamWay;
use crate::read_ahead::stalls::Stalls;

const STEP: Duration = Duration::from_ms(10);

/// Three legs, of which each reads so much of a stream in each step.
struct Log {
    rig: Rig,
    stalls: Stalls,
    read_bytes: [u64; 3],
    turning: LegSet,
    left: LegSet,
    steps: u64,
    /// How many writes there are in each step in which they wait for none alone, while one leg is
    /// left and while none is.
    writes: [u32; 2],
}

impl Log {
    fn new(read_mib: [u64; 3]) -> Self {
        let rig = Rig::new(&[true, true, true]);
        let turning = rig.legs.iter().map(|view| view.leg).collect();
        Self {
            rig,
            stalls: Stalls::default(),
            read_bytes: read_mib.map(|mib| mib * MIB),
            turning,
            left: LegSet::EMPTY,
            steps: 0,
            writes: [8, 8],
        }
    }

    /// For so many seconds, in which writes wait for one leg only in so many of 100 steps, while it
    /// is read and while it is not, and for all or none in others. When it was left or back.
    fn pass(&mut self, seconds: u64, leg: usize, waits: [u64; 2]) -> Vec<u64> {
        let mut turns = Vec::new();
        let steps = seconds * 1_000 / STEP.as_ms();
        let others = [0, 1, 2].into_iter().filter(|other| *other != leg);
        let others: Vec<usize> = others.collect();
        for _ in 0..steps {
            self.steps += 1;
            self.rig.now += STEP;
            let is_left = !self.stalls.legs.is_empty();
            let waits = waits[usize::from(is_left)];
            let is_alone = self.steps * 37 % 100 < waits;
            let is_written = self.steps.is_multiple_of(2);
            self.rig.legs[leg].writes_in_flight = u32::from(is_alone || is_written);
            for other in &others {
                let count = u32::from(is_written && !is_alone);
                self.rig.legs[*other].writes_in_flight = count;
            }
            let writes = if is_alone {
                0
            } else {
                self.writes[usize::from(!is_left)]
            };
            for (view, bytes) in self.rig.legs.iter().zip(self.read_bytes) {
                for _ in 0..writes {
                    self.stalls.note_write(view.leg);
                }
                if !self.stalls.legs.contains(view.leg) {
                    self.stalls.note_read(view.leg, bytes);
                }
            }
            self.note();
            if is_left == self.stalls.legs.is_empty() {
                turns.push(self.steps * STEP.as_ms() / 1_000);
            }
        }
        turns
    }

    fn note(&mut self) {
        let all = self.rig.legs.iter().map(|view| view.leg).collect();
        let now = self.rig.now;
        let those = (self.turning, self.left);
        self.stalls.note((now, STEP), &self.rig.legs, &[all], those);
    }
}

#[test]
fn a_disk_is_left_that_costs_a_log_more_than_it_gives_streams() {
    let mut log = Log::new([9, 2, 9]);
    // It is back for a second, each time after four times as long.
    assert_eq!(log.pass(200, 1, [60, 10]), [8, 40, 41, 169, 170]);
    assert!(log.stalls.legs.contains(log.rig.legs[1].leg));
}

#[test]
fn a_disk_that_gives_as_much_as_it_costs_stays() {
    for (read_mib, waits) in [([9, 9, 9], 60), ([9, 6, 9], 60), ([9, 2, 9], 20)] {
        let mut log = Log::new(read_mib);
        assert!(log.pass(60, 1, [waits, 0]).is_empty(), "{read_mib:?}");
    }
}

#[test]
fn what_stalls_by_itself_is_back_soon_and_seldom_left() {
    let mut log = Log::new([9, 2, 9]);
    let turns = log.pass(600, 1, [60, 58]);
    assert_eq!(turns, [8, 12, 44, 48, 176, 180]);
}

#[test]
fn a_disk_that_streams_do_not_read_is_not_left() {
    let mut log = Log::new([9, 0, 9]);
    assert!(log.pass(60, 1, [60, 0]).is_empty());
}

#[test]
fn disks_at_which_a_log_stalls_in_turns_stay() {
    let mut log = Log::new([9, 1, 9]);
    for turn in 0..60 {
        log.pass(1, turn % 2, [60, 0]);
        assert!(log.stalls.legs.is_empty(), "{turn}");
    }
}

#[test]
fn a_stall_that_goes_to_another_disk_is_no_gain() {
    let mut log = Log::new([9, 2, 9]);
    assert_eq!(log.pass(8, 1, [60, 0]), [8]);
    log.pass(5, 0, [60, 60]);
    assert!(log.stalls.legs.is_empty());
}

#[test]
fn a_disk_that_stalls_no_more_is_not_left_again() {
    let mut log = Log::new([9, 2, 9]);
    assert_eq!(log.pass(39, 1, [60, 10]), [8]);
    assert_eq!(log.pass(100, 1, [12, 10]), [40]);
}

#[test]
fn it_is_back_where_nobody_else_is_left_to_streams() {
    let mut log = Log::new([9, 2, 9]);
    log.pass(9, 1, [60, 10]);
    assert!(!log.stalls.legs.is_empty());
    log.left = [0, 2]
        .map(|leg: usize| log.rig.legs[leg].leg)
        .into_iter()
        .collect();
    log.note();
    assert!(log.stalls.legs.is_empty());
}

#[test]
fn who_pauses_does_not_have_to_see_all_of_it_again() {
    let mut log = Log::new([9, 2, 9]);
    let mut turns = 0;
    for _ in 0..40 {
        turns += log.pass(15, 1, [60, 58]).len();
        log.stalls.pause();
    }
    assert!((4..=8).contains(&turns), "{turns}");
}

/// Three disks beside a log: one stream, of which the second disk has little.
#[test]
fn streams_do_without_it_and_another_disk_in_its_place_has_them() {
    let mut rig = Rig::new(&[true, true, true]);
    let it = rig.legs[1].leg;
    let mut at = 0;
    let mut homes = |rig: &mut Rig, steps: u64, is_stalling: bool| {
        for step in 0..steps {
            let is_alone = is_stalling && step % 10 < 6;
            for view in &mut rig.legs {
                let is_written = view.leg == it || !is_alone;
                view.writes_in_flight = u32::from(is_written);
            }
            rig.read(at, 128 * KIB);
            rig.all_ends_at_once();
            // It has little of what the first disk has read ahead.
            rig.ahead.stalls.note_read(it, 10 * KIB);
            rig.now += STEP;
            at += 128 * KIB;
        }
        match rig.way(at) {
            StreamWay::Homes(homes) => homes,
            StreamWay::None | StreamWay::Any | StreamWay::Planned(_) | StreamWay::Aside => {
                LegSet::EMPTY
            }
        }
    };
    homes(&mut rig, 900, true);
    assert!(rig.ahead.stalls.legs.contains(it), "it gives little");
    let without = homes(&mut rig, 100, true);
    assert!(!without.is_empty() && !without.contains(it), "{without:?}");
    rig.ahead.forget(it);
    assert!(rig.ahead.stalls.legs.is_empty());
    let again = homes(&mut rig, 100, false);
    assert!(again.is_empty() || again.contains(it), "{again:?}");
}

#[test]
fn it_is_back_when_nothing_is_written_any_more() {
    let mut log = Log::new([9, 2, 9]);
    log.pass(20, 1, [60, 10]);
    assert!(!log.stalls.legs.is_empty());
    for view in &mut log.rig.legs {
        view.writes_in_flight = 0;
    }
    let since: Instant = log.rig.now;
    while !log.stalls.legs.is_empty() {
        log.rig.now += STEP;
        log.note();
    }
    let after = log.rig.now.saturating_since(since);
    assert!(after <= Duration::from_secs(1), "{after:?}");
}

#[test]
fn flash_is_not_left_and_random_reads_do_not_have_all_others() {
    for is_flash in [true, false] {
        let mut log = Log::new([9, 2, 9]);
        let [first, it, last] = [0, 1, 2].map(|leg: usize| log.rig.legs[leg].leg);
        if is_flash {
            log.turning.remove(it);
        } else {
            log.left = [first, last].into_iter().collect();
        }
        assert!(log.pass(60, 1, [60, 0]).is_empty(), "{is_flash}");
    }
    // One that was taken for a disk is back at once.
    let mut log = Log::new([9, 2, 9]);
    log.pass(20, 1, [60, 10]);
    log.turning = LegSet::EMPTY;
    log.note();
    assert!(log.stalls.legs.is_empty());
}

#[test]
fn a_disk_that_writes_wait_for_is_back_where_they_become_fewer() {
    let mut log = Log::new([9, 2, 9]);
    // They wait for none alone far more often, but each of them takes longer.
    log.writes = [6, 20];
    assert_eq!(log.pass(30, 1, [60, 10]), [8, 12]);
    log.writes = [9, 20];
    assert_eq!(log.pass(30, 1, [60, 10]), [44]);
}

#[test]
fn what_is_written_while_nobody_reads_says_nothing_of_a_disk() {
    let mut log = Log::new([9, 2, 9]);
    for view in &log.rig.legs {
        for _ in 0..1_000_000 {
            log.stalls.note_write(view.leg);
        }
    }
    log.stalls.pause();
    assert_eq!(log.pass(30, 1, [60, 10]), [8]);
}

#[test]
fn a_disk_is_back_in_the_end_though_readers_pause_all_the_time() {
    let mut log = Log::new([9, 2, 9]);
    assert_eq!(log.pass(9, 1, [60, 10]), [8]);
    let mut turns = Vec::new();
    for _ in 0..12 {
        log.stalls.pause();
        turns.append(&mut log.pass(3, 1, [60, 10]));
    }
    assert_eq!(turns, [40]);
}
