use heliostat_types::{Duration, OpKind};

use self::reasons::fact;
use crate::testing::{Bench, op};

mod again;
mod aside;
mod curve;
mod deep;
mod jumps;
mod late;
mod learned;
mod near;
mod reasons;
mod split;
mod tries;
mod wait;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A policy whose views follow what is sent and answered.
struct Rig {
    bench: Bench,
    /// Leg, offset and length of what is in flight.
    sent: Vec<(usize, u64, u64)>,
}

impl Rig {
    fn new(spec: &str, leg_count: usize) -> Self {
        Self {
            bench: Bench::new(spec, leg_count),
            sent: Vec::new(),
        }
    }

    /// Legs that turn, and have answered reads all over the first 100 GB in 10 ms and half a
    /// millisecond for each root of 10^9 bytes of the way.
    fn disks(leg_count: usize) -> Self {
        let mut rig = Self::new("adaptive", leg_count);
        for leg in 0..leg_count {
            rig.bench.legs[leg].rotational = true;
        }
        for number in 0..100u64 {
            for leg in 0..leg_count {
                let offset = number * 37 % 100 * 1_000_000_000;
                let before = number.saturating_sub(1) * 37 % 100 * 1_000_000_000;
                let end = before + u64::from(number > 0) * 4096;
                let root_permille = offset.abs_diff(end).isqrt() * 1_000 / 31_623;
                rig.bench.pick(offset);
                rig.serve(leg, offset, 10_000 + root_permille / 2);
            }
        }
        rig
    }

    fn send_of(&mut self, leg: usize, offset: u64, len: u64) {
        self.bench.dispatch(leg, OpKind::Read, offset, len);
        let view = &mut self.bench.legs[leg];
        view.reads_in_flight += 1;
        view.read_bytes_in_flight += len;
        view.last_sent_end = Some(offset + len);
        self.sent.push((leg, offset, len));
    }

    fn send(&mut self, leg: usize, offset: u64) {
        self.send_of(leg, offset, 4096);
    }

    /// The oldest read of `leg` ends, `us` microseconds from now.
    fn answer_as(&mut self, leg: usize, us: u64, ok: bool) {
        self.bench.now += Duration::from_us(us);
        let at = self.sent.iter().position(|sent| sent.0 == leg).unwrap();
        let (_, offset, len) = self.sent.remove(at);
        let view = &mut self.bench.legs[leg];
        view.reads_in_flight -= 1;
        view.read_bytes_in_flight -= len;
        let op = op(leg, OpKind::Read, offset, len);
        let now = self.bench.now;
        // The time in the device alone: only what a leg is read ahead by is learned from it.
        let time = Duration::from_us(us);
        self.bench.policy.on_complete(now, &op, time, ok);
    }

    fn answer(&mut self, leg: usize, us: u64) {
        self.answer_as(leg, us, true);
    }

    /// A read of `leg` by itself.
    fn serve(&mut self, leg: usize, offset: u64, us: u64) {
        self.send(leg, offset);
        self.answer(leg, us);
    }

    /// Each leg serves `count` reads in so many microseconds each.
    fn teach(&mut self, count: u64, times_us: &[u64]) {
        for number in 0..count {
            for (leg, us) in times_us.iter().enumerate() {
                self.serve(leg, number * 999 * MIB, *us);
            }
        }
    }

    /// A leg does 8 reads at a time, one after the other, in so many microseconds each.
    fn teach_deep(&mut self, leg: usize, us: u64) {
        for round in 0..20 {
            for number in 0..8 {
                self.send(leg, (round * 8 + number) * 999 * MIB);
            }
            for _ in 0..8 {
                self.answer(leg, us);
            }
        }
    }

    /// So many reads are planned, all for `leg`, and take no time.
    fn pass_over(&mut self, count: u64, leg: usize) {
        for number in 0..count {
            assert_eq!(self.bench.pick(number * 999 * MIB), leg, "read {number}");
        }
    }
}

#[test]
fn unknown_legs_are_tried_and_then_the_fastest_is_read() {
    let mut rig = Rig::new("adaptive", 2);
    assert_eq!(rig.bench.pick(0), 0);
    rig.serve(0, 0, 8_000);
    assert_eq!(rig.bench.pick(0), 1);
    rig.serve(1, 0, 100);
    assert_eq!(rig.bench.pick(0), 1);
    // While a leg is being tried for the first time, it is taken for 0.1 ms per read.
    let mut rig = Rig::new("adaptive", 2);
    rig.serve(0, 0, 8_000);
    rig.send(1, 0);
    assert_eq!(rig.bench.pick(0), 1, "0.2 ms are less than 8");
}

#[test]
fn a_leg_is_left_when_what_waits_there_takes_longer_than_another() {
    let mut rig = Rig::new("adaptive:spill_times=1", 2);
    rig.teach(20, &[100, 350]);
    // Leg 0 is taught that it does one read at a time: 100, 200, 300 us.
    for _ in 0..200 {
        for number in 0..4 {
            rig.send(0, number * MIB);
        }
        for _ in 0..4 {
            rig.answer(0, 100);
        }
    }
    let mut picks = Vec::new();
    for number in 0..5 {
        let leg = rig.bench.pick(number * 999 * MIB);
        picks.push(leg);
        rig.send(leg, number * 999 * MIB);
    }
    assert_eq!(picks, [0, 0, 0, 1, 1], "nobody has seen leg 1 busy");
}

#[test]
fn equal_legs_share_by_offset_and_by_what_is_in_flight() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 100]);
    assert_eq!(rig.bench.pick(4 * MIB), 0);
    assert_eq!(rig.bench.pick(5 * MIB), 0, "the same 2 MiB");
    assert_eq!(rig.bench.pick(6 * MIB), 1);
    rig.send(1, 100 * MIB);
    assert_eq!(rig.bench.pick(6 * MIB), 0, "the fewest in flight");
}

#[test]
fn beside_a_saturated_leg_an_idle_one_is_read_if_it_is_not_far_slower() {
    let picks = |spec: &str, slow_us: u64| {
        let mut rig = Rig::new(spec, 2);
        rig.teach(20, &[100, slow_us]);
        for _ in 0..200 {
            for number in 0..8 {
                rig.send(0, number * MIB);
            }
            for _ in 0..8 {
                rig.answer(0, 100);
            }
        }
        for number in 0..7 {
            rig.send(0, number * MIB);
        }
        rig.bench.pick(999 * MIB)
    };
    // The eighth read on leg 0 takes 800 us.
    assert_eq!(picks("adaptive", 2_000), 1);
    assert_eq!(picks("adaptive", 5_000), 1);
    assert_eq!(picks("adaptive", 8_000), 0, "more than eight times as long");
    assert_eq!(picks("adaptive:spill_times=1", 2_000), 0);
}

#[test]
fn two_slow_rounds_are_slow_and_one_answer_in_time_is_well() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 200]);
    assert_eq!(rig.bench.pick(0), 0);
    rig.serve(0, 0, 3_000);
    assert_eq!(rig.bench.pick(0), 0, "one round may be an accident");
    rig.serve(0, 0, 3_000);
    assert_eq!(rig.bench.pick(0), 1);
    rig.serve(0, 0, 100);
    assert_eq!(rig.bench.pick(0), 0);
}

/// A read that meets a block that is being written waits for that, which is no slow leg.
#[test]
fn flash_that_writes_is_slow_after_four_slow_rounds() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 200]);
    for number in 0..16 {
        for leg in 0..2 {
            rig.bench.dispatch(leg, OpKind::Write, number * MIB, 4096);
            let written = op(leg, OpKind::Write, number * MIB, 4096);
            let time = Duration::from_us(10);
            rig.bench
                .policy
                .on_complete(rig.bench.now, &written, time, true);
        }
    }
    for _ in 0..3 {
        rig.serve(0, 0, 3_000);
        assert_eq!(rig.bench.pick(0), 0);
    }
    rig.serve(0, 0, 3_000);
    assert_eq!(rig.bench.pick(0), 1);
    rig.serve(0, 0, 100);
    assert_eq!(rig.bench.pick(0), 0);
}

/// A disk was never seen with more than one read, and would be sent all of them in hope.
#[test]
fn a_disk_beside_flash_that_has_stopped_gets_what_it_reads_meanwhile() {
    let mut rig = Rig::new("adaptive", 2);
    rig.bench.legs[0].rotational = true;
    rig.teach(20, &[12_000, 100]);
    for number in 0..10 {
        rig.send(1, number * 777 * MIB);
    }
    rig.bench.now += Duration::from_ms(20);
    for number in 0..100 {
        let leg = rig.bench.pick(number * 999 * MIB);
        rig.send(leg, number * 999 * MIB);
    }
    let on_disk = rig.bench.legs[0].reads_in_flight;
    assert!((2..12).contains(&on_disk), "{on_disk}");
}

#[test]
fn a_pause_is_one_round_however_deep_the_queue() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 200]);
    for number in 0..32 {
        rig.send(0, number * MIB);
    }
    rig.answer(0, 5_000);
    for _ in 1..32 {
        rig.answer(0, 1);
    }
    assert_eq!(rig.bench.pick(0), 0);
}

/// How long a read takes behind more others than there ever were is not known; that a leg takes no
/// longer is only hoped for.
#[test]
fn a_leg_that_has_more_to_do_than_ever_before_is_not_slow() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 200]);
    let mut number = 0;
    let mut send = |rig: &mut Rig, count: u64| {
        for _ in 0..count {
            rig.send(0, number * MIB);
            number += 1;
        }
    };
    send(&mut rig, 1);
    for sent in 0..60 {
        send(&mut rig, 4);
        rig.answer(0, 100);
        let slow = fact(&rig.beliefs(0), "slow_times");
        assert_eq!(slow, None, "{} in flight", 1 + 3 * sent);
    }
    // And nor is it hidden for ever: at loads that are known, what takes longer is slow.
    while !rig.sent.is_empty() {
        rig.answer(0, 100);
    }
    rig.serve(0, 0, 3_000);
    rig.serve(0, 0, 3_000);
    assert!(fact(&rig.beliefs(0), "slow_times").is_some());
}

#[test]
fn a_leg_that_says_nothing_is_left_before_it_answers() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 200]);
    rig.send(0, 0);
    assert_eq!(rig.bench.pick(MIB), 0, "two reads at once take 100 us, too");
    rig.bench.now += Duration::from_us(199);
    assert_eq!(rig.bench.pick(MIB), 0);
    rig.bench.now += Duration::from_us(2);
    assert_eq!(
        rig.bench.pick(MIB),
        1,
        "silent for longer than two reads take"
    );
}

/// A leg that is slow after 2 x 3 ms is tried after 6 ms, then 12, 24 ...: at most 250 ms.
#[test]
fn a_slow_leg_is_tried_with_one_read_after_a_time_that_doubles() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 200]);
    rig.serve(0, 0, 3_000);
    rig.serve(0, 0, 3_000);
    for patience_us in [
        6_000, 12_000, 24_000, 48_000, 96_000, 192_000, 250_000, 250_000,
    ] {
        rig.pass_over(64, 1);
        rig.bench.now += Duration::from_us(patience_us - 1);
        assert_eq!(rig.bench.pick(0), 1, "1 us before {patience_us} us");
        rig.bench.now += Duration::from_us(1);
        assert_eq!(rig.bench.pick(0), 0, "after {patience_us} us");
        rig.send(0, 0);
        assert_eq!(rig.bench.pick(MIB), 1, "by one read alone");
        rig.answer(0, 3_000);
    }
    rig.pass_over(64, 1);
    rig.bench.now += Duration::from_ms(250);
    assert_eq!(rig.bench.pick(0), 0);
    rig.serve(0, 0, 100);
    assert_eq!(rig.bench.pick(0), 0, "well after one answer in time");
}

#[test]
fn a_slow_leg_is_not_tried_by_more_than_one_of_64_reads() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 200]);
    rig.serve(0, 0, 3_000);
    rig.serve(0, 0, 3_000);
    rig.bench.now += Duration::from_secs(10);
    rig.pass_over(64, 1);
    assert_eq!(rig.bench.pick(0), 0);
}

#[test]
fn where_all_legs_are_slow_none_is_punished() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 200]);
    for _ in 0..5 {
        rig.serve(0, 0, 3_000);
        rig.serve(1, 0, 6_000);
    }
    assert_eq!(rig.bench.pick(0), 0, "30 times as slow, both");
}

#[test]
fn health_can_be_switched_off() {
    let mut rig = Rig::new("adaptive:health=0", 2);
    rig.teach(20, &[100, 200]);
    rig.serve(0, 0, 3_000);
    rig.serve(0, 0, 3_000);
    assert_eq!(rig.bench.pick(0), 0);
}

#[test]
fn a_leg_that_fails_at_once_is_slow() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 200]);
    for _ in 0..2 {
        rig.send(0, 0);
        rig.answer_as(0, 1, false);
    }
    assert_eq!(rig.bench.pick(0), 1);
}

#[test]
fn a_leg_that_nobody_needs_is_read_now_and_then() {
    // It takes half as long again: 2,000 reads, and 1,000 times the 50 us that it takes more.
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 150]);
    rig.pass_over(2_000, 0);
    rig.bench.now += Duration::from_ms(49);
    assert_eq!(rig.bench.pick(0), 0);
    rig.bench.now += Duration::from_ms(2);
    assert_eq!(rig.bench.pick(0), 1);
    rig.send(1, 0);
    assert_eq!(rig.bench.pick(0), 0, "by one read");

    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 150]);
    rig.bench.now += Duration::from_secs(10);
    rig.pass_over(2_000, 0);
    assert_eq!(rig.bench.pick(0), 1);
}

#[test]
fn what_is_old_is_corrected_by_a_few_reads() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(200, &[100, 150]);
    let mut tries = 0;
    // Leg 1 has become as fast as the other one: reads go by offset when that is believed.
    while [0, 2 * MIB].map(|at| rig.bench.pick(at)) != [0, 1] {
        rig.bench.now += Duration::from_secs(1);
        let is_tried = (0..3_000).any(|number| rig.bench.pick(number * 4 * MIB) == 1);
        assert!(is_tried, "after {tries}");
        rig.serve(1, 0, 100);
        tries += 1;
    }
    assert_eq!(tries, 17);
}

#[test]
fn of_two_equal_legs_the_one_without_stalls_is_read() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 100]);
    assert_eq!(rig.bench.pick(0), 0);
    rig.serve(0, 0, 10_000);
    for _ in 0..300 {
        rig.serve(0, 0, 100);
    }
    assert_eq!(rig.bench.pick(0), 1);
    rig.bench.now += Duration::from_secs(20);
    assert_eq!(rig.bench.pick(4 * MIB), 0, "forgotten");
}

#[test]
fn among_idle_disks_the_nearest_arm_is_sent() {
    let mut rig = Rig::disks(3);
    for (leg, place) in [(0, 10), (1, 50), (2, 90)] {
        rig.serve(leg, place * 1_000_000_000, 11_000);
    }
    assert_eq!(rig.bench.pick(20_000_000_000), 0);
    assert_eq!(rig.bench.pick(40_000_000_000), 1);
    assert_eq!(rig.bench.pick(99_000_000_000), 2);
    rig.send(2, 90_000_000_000);
    assert_eq!(rig.bench.pick(99_000_000_000), 1, "leg 2 is busy");
}

#[test]
fn among_busy_disks_the_one_that_goes_there_anyway_is_sent() {
    let mut rig = Rig::disks(2);
    rig.send(0, 10_000_000_000);
    rig.send(1, 90_000_000_000);
    assert_eq!(rig.bench.pick(80_000_000_000), 1);
    rig.send(1, 80_000_000_000);
    assert_eq!(
        rig.bench.pick(85_000_000_000),
        1,
        "2 beside 1 is near enough"
    );
    rig.send(1, 85_000_000_000);
    assert_eq!(rig.bench.pick(85_000_000_000), 0, "3 beside 1 is not");
}

#[test]
fn what_a_leg_says_of_itself_counts_less_than_its_answers() {
    let mut rig = Rig::disks(2);
    // Both say that they are flash now, and are treated as what they are.
    for view in &mut rig.bench.legs {
        view.rotational = false;
    }
    rig.serve(0, 10_000_000_000, 11_000);
    rig.serve(1, 90_000_000_000, 11_000);
    assert_eq!(rig.bench.pick(2_000_000_000), 0);
    assert_eq!(rig.bench.pick(98_000_000_000), 1);

    let mut rig = Rig::new("adaptive", 2);
    for view in &mut rig.bench.legs {
        view.rotational = true;
    }
    rig.teach(40, &[100, 100]);
    rig.serve(0, 10 * MIB, 100);
    rig.serve(1, 900 * MIB, 100);
    assert_eq!(rig.bench.pick(14 * MIB), 1, "no arms: by offset");
}

/// A stream that has been read from leg 0 so far, beside another on leg 1.
fn two_streams(read: u64) -> Rig {
    let mut rig = Rig::disks(2);
    for number in 0..read / (128 * KIB) {
        for (leg, from) in [(0, 1 << 34), (1, 1 << 35)] {
            let offset = from + number * 128 * KIB;
            rig.bench.pick_of(offset, 128 * KIB);
            rig.send_of(leg, offset, 128 * KIB);
            rig.answer(leg, 600);
        }
    }
    rig
}

#[test]
fn streams_stay_where_they_are() {
    let mut rig = two_streams(4 * MIB);
    // The other leg is idle and has its arm right here, but there is a stream for each leg.
    let next = (1 << 34) + 4 * MIB;
    rig.send(1, next - 4096);
    rig.answer(1, 100);
    for number in 0..4 {
        rig.send(0, number << 30);
    }
    assert_eq!(rig.bench.pick_of(next, 128 * KIB), 0);
    rig.bench.set("adaptive:locality=0");
    assert_eq!(rig.bench.pick_of(next, 128 * KIB), 1);
}

/// Where `count` streams go after 64 MiB each on leg 0, while leg 1 was away: all their next reads.
fn streams_after_64_mib(count: u64) -> Vec<usize> {
    let mut rig = Rig::disks(2);
    let back = rig.bench.legs[1];
    rig.bench.remove(1);
    let at = |stream: u64, number: u64| (stream << 33) + number * 128 * KIB;
    // The first read begins no stream yet.
    for number in 0..=512 {
        for stream in 0..count {
            rig.bench.pick_of(at(stream, number), 128 * KIB);
            rig.send_of(0, at(stream, number), 128 * KIB);
            rig.answer(0, if number == 0 { 13_000 } else { 600 });
        }
    }
    rig.bench.legs.push(back);
    (0..count)
        .map(|stream| rig.bench.pick_of(at(stream, 513), 128 * KIB))
        .collect()
}

#[test]
fn streams_spread_over_disks_until_no_move_is_worth_it() {
    assert_eq!(streams_after_64_mib(2), [1, 0]);
    assert_eq!(streams_after_64_mib(4), [1, 1, 0, 0]);
    assert_eq!(streams_after_64_mib(5), [1, 1, 0, 0, 0], "3 and 2 stay");
}

#[test]
fn a_slow_disk_is_well_only_by_an_answer_that_is_clearly_in_time() {
    let mut rig = Rig::disks(2);
    let place = 50_000_000_000;
    rig.serve(1, place, 11_000);
    for _ in 0..2 {
        rig.serve(0, place, 88_000);
    }
    assert_eq!(rig.bench.pick(place), 1);
    // 13 ms is what such a read takes; 25 ms is neither slow (39 ms) nor in time (19.5 ms).
    rig.serve(0, place, 25_000);
    assert_eq!(rig.bench.pick(place), 1);
    rig.serve(0, place, 15_000);
    rig.send(1, 0);
    assert_eq!(rig.bench.pick(place), 0);
}

/// Writes that come back at once were answered by the cache of the disk, and the arm was at the
/// read, or wrote some of them meanwhile: that is no accident four times.
#[test]
fn a_disk_that_answers_writes_at_once_is_slow_by_its_reads() {
    let place = 50_000_000_000;
    for (write_us, slow_from) in [(200, 4), (11_000, 100)] {
        let mut rig = Rig::disks(2);
        rig.serve(1, place, 11_000);
        for round in 1..=6 {
            rig.send(0, place);
            for _ in 0..88_000 / write_us {
                rig.bench.now += Duration::from_us(write_us);
                rig.bench.dispatch(0, OpKind::Write, 0, 4096);
                rig.bench.complete_write(0, write_us);
            }
            rig.answer(0, 0);
            rig.bench.now += Duration::from_us(1);
            rig.bench.pick(place);
            let belief = rig.bench.policy.belief(0).expect("a plan was made");
            let is_slow = round >= slow_from;
            assert_eq!(belief.is_slow, is_slow, "{write_us} us, round {round}");
        }
    }
}

#[test]
fn more_and_larger_reads_than_ever_are_no_sign_of_a_slow_leg() {
    let serve = |rig: &mut Rig, (count, len): (u64, u64), us: u64| {
        for number in 0..count {
            rig.send_of(0, (7 + number) * 999 * MIB, len);
        }
        for _ in 0..count {
            rig.answer(0, us);
        }
    };
    for (count, len) in [(64, 4 * KIB), (1, 4 * MIB), (16, MIB)] {
        let mut rig = Rig::new("adaptive", 2);
        rig.teach(100, &[100, 150]);
        // So that it is not tried.
        rig.send(1, 0);
        let us = len / (4 * KIB) * 100;
        for _ in 0..3 {
            serve(&mut rig, (count, len), us);
        }
        assert_eq!(rig.bench.pick(0), 0, "{count} reads of {len} bytes");
    }
}

#[test]
fn of_disks_that_differ_the_one_whose_throughput_grows_most_is_sent() {
    let mut rig = Rig::new("adaptive", 2);
    for leg in 0..2 {
        rig.bench.legs[leg].rotational = true;
    }
    // Leg 0 takes 10 ms, 16 where another read is there, and 28 where three are; leg 1 takes 22.
    for number in 0..100 {
        let offset = number * 999 * MIB;
        rig.serve(0, offset, 10_000);
        rig.serve(1, offset, 22_000);
        for number in 0..4 {
            rig.send(0, offset + number * MIB);
        }
        for us in [10_000, 6_000, 6_000, 6_000] {
            rig.answer(0, us);
        }
    }
    assert_eq!(rig.bench.pick(0), 0);
    rig.send(0, 0);
    // 16 ms are less than 22, but leg 0 does 39 more a second then, and leg 1 45.
    assert_eq!(rig.bench.pick(99 * MIB), 1);
    rig.bench.set("adaptive:spill_times=1");
    assert_eq!(rig.bench.pick(99 * MIB), 0);
}

#[test]
fn disks_that_are_written_take_turns() {
    let mut rig = Rig::disks(3);
    let place = 20_000_000_000;
    rig.serve(0, place, 11_000);
    rig.serve(1, 2 * place, 11_000);
    rig.serve(2, 3 * place, 11_000);
    rig.serve(0, place, 11_000);
    assert_eq!(rig.bench.pick(place), 0, "its arm is there");
    for number in 0..32 {
        for leg in 0..3 {
            rig.bench.dispatch(leg, OpKind::Write, number * MIB, 4096);
        }
    }
    assert_eq!(rig.bench.pick(place), 1, "it was read first");
}

#[test]
fn where_ways_do_not_differ_an_idle_disk_is_read_before_a_busy_one() {
    let mut rig = Rig::new("adaptive", 2);
    for view in &mut rig.bench.legs {
        view.rotational = true;
    }
    let place = |number: u64| number * 37 % 100 * 10_000_000;
    for number in 0..100 {
        for leg in 0..2 {
            rig.serve(leg, place(number), 6_000);
        }
    }
    rig.send(0, place(1));
    rig.send(1, place(2));
    rig.answer(1, 6_000);
    assert_eq!(rig.bench.pick(place(3)), 1, "leg 0 was read first");
}

#[test]
fn of_busy_disks_whose_arms_stand_together_the_one_with_less_to_do_is_sent() {
    let mut rig = Rig::disks(2);
    let place = 20_000_000_000;
    for leg in [0, 0, 1] {
        rig.send(leg, place);
    }
    assert_eq!(rig.bench.pick(place + MIB), 1);
}

#[test]
fn a_disk_that_writes_wait_for_is_not_read() {
    let mut rig = Rig::disks(2);
    let place = 20_000_000_000;
    for leg in 0..2 {
        rig.send(leg, (4 - 3 * leg as u64) * place);
        rig.bench.legs[leg].writes_in_flight = 1;
    }
    assert_eq!(rig.bench.pick(place + 2 * MIB), 1, "its arm is there");
    rig.bench.legs[1].writes_in_flight = 3;
    assert_eq!(rig.bench.pick(place + 2 * MIB), 0);
}

#[test]
fn a_written_disk_beside_flash_is_read_only_where_that_gains_much() {
    let mut rig = Rig::new("adaptive", 2);
    rig.bench.legs[0].rotational = true;
    // Blocks of 1 MiB that go on from each other.
    for number in 0..100 {
        let offset = number * MIB;
        rig.bench.pick_of(offset, MIB);
        for (leg, us) in [(0, 1_800), (1, 4_000)] {
            rig.send_of(leg, offset, MIB);
            rig.answer(leg, us);
        }
    }
    assert_eq!(rig.bench.pick_of(100 * MIB, MIB), 0);
    for number in 0..16 {
        for leg in 0..2 {
            rig.bench.dispatch(leg, OpKind::Write, number * MIB, MIB);
        }
    }
    assert_eq!(rig.bench.pick_of(100 * MIB, MIB), 1);
}

#[test]
fn two_streams_on_one_of_three_disks_part() {
    let mut rig = Rig::disks(3);
    let at = |stream: u64, number: u64| (stream << 33) + number * 128 * KIB;
    for number in 0..=512 {
        for stream in 0..2 {
            rig.bench.pick_of(at(stream, number), 128 * KIB);
            rig.send_of(0, at(stream, number), 128 * KIB);
            rig.answer(0, if number == 0 { 13_000 } else { 600 });
        }
    }
    let mut legs: Vec<usize> = (0..2)
        .map(|stream| rig.bench.pick_of(at(stream, 513), 128 * KIB))
        .collect();
    legs.sort_unstable();
    assert_eq!(legs, [0, 2]);
}

#[test]
fn equal_legs_that_are_busy_take_turns() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(100, &[100, 100]);
    assert_eq!(
        [0, 2 * MIB, 4 * MIB].map(|at| rig.bench.pick(at)),
        [0, 1, 0]
    );
    for number in 0..8 {
        rig.send(number % 2, number as u64 * 999 * MIB);
    }
    for number in 0..4 {
        rig.bench.now += Duration::from_us(1);
        let at = (64 + number as u64) * MIB;
        let leg = rig.bench.pick(at);
        assert_eq!(leg, number % 2, "read {number}");
        rig.send(leg, at);
    }
}
