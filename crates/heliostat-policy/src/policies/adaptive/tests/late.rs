//! Reads that are late, and what is done about them.

use heliostat_types::{ClientId, Duration, Extent, Instant, LegId, StreamId};

use super::{MIB, Rig};
use crate::api::{Late, LateRead, LegView, ReadRequest};
use crate::policies::adaptive::late::Late as Forecast;
use crate::testing::Mirror;

impl Rig {
    /// After which time a read at `offset` that was just sent to `leg` is late, in us.
    fn late_after(&mut self, leg: usize, offset: u64) -> Option<u64> {
        let view = LegView {
            address: offset,
            ..self.bench.legs[leg]
        };
        let now = self.bench.now;
        let late = self
            .bench
            .policy
            .late_after(now, &request(offset), &view, false);
        late.map(|late| late.as_ns() / 1_000)
    }

    /// What is done about a read at `offset` that `leg` has had for so many microseconds.
    fn late(&mut self, leg: usize, offset: u64, us: u64) -> Late {
        let late = LateRead {
            leg: LegId::new(leg),
            sent: Instant::from_ns(self.bench.now.as_ns() - us * 1_000),
        };
        let others = self.bench.legs.iter().copied();
        let others: Vec<LegView> = others.filter(|view| view.leg != late.leg).collect();
        let now = self.bench.now;
        self.bench
            .policy
            .on_late(now, &request(offset), late, &others)
    }

    /// Two legs that answer in 100 us, and as many hedges as can be saved.
    fn with_hedges() -> Self {
        let mut rig = Self::new("adaptive", 2);
        rig.teach(20, &[100, 100]);
        rig.earn(8_000);
        rig
    }

    /// Reads that make hedges allowed: four of 1,000.
    fn earn(&mut self, reads: u64) {
        let (now, legs) = (self.bench.now, self.bench.legs.clone());
        let asked = request(u64::MAX - 4096);
        for _ in 0..reads {
            let policy = &mut self.bench.policy;
            policy.prefetch(now, Some(&asked), &legs, &Mirror, 0, &mut Vec::new());
        }
    }
}

fn request(offset: u64) -> ReadRequest {
    ReadRequest {
        client: ClientId(0),
        stream: StreamId(0),
        extent: Extent::new(offset, 4096),
        may_split: true,
    }
}

fn second_leg() -> Late {
    Late::Hedge(LegId::new(1))
}

fn look_again(us: u64) -> Late {
    Late::LookAgain(Duration::from_us(us))
}

#[test]
fn a_read_is_late_after_twice_its_prediction() {
    let mut rig = Rig::new("adaptive", 2);
    assert_eq!(rig.late_after(0, 0), None, "nothing is known");
    rig.teach(20, &[100, 100]);
    rig.send(0, MIB);
    assert_eq!(rig.late_after(0, MIB), Some(200));
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[5, 5]);
    rig.send(0, MIB);
    assert_eq!(rig.late_after(0, MIB), Some(30), "a clock is not finer");
}

#[test]
fn a_second_leg_is_asked_where_it_answers_much_sooner() {
    let mut rig = Rig::with_hedges();
    rig.send(0, MIB);
    rig.late_after(0, MIB);
    rig.bench.now += Duration::from_us(200);
    // What was never seen takes as long once more: 200 us, and leg 1 100 us.
    assert_eq!(rig.late(0, MIB, 200), second_leg());
    // Leg 1 has reads for 400 us, each of which it does by itself.
    for _ in 0..200 {
        for number in 0..4 {
            rig.send(1, number * MIB);
        }
        for _ in 0..4 {
            rig.answer(1, 100);
        }
    }
    for number in 0..3 {
        rig.send(1, number * MIB);
    }
    assert_eq!(rig.late(0, MIB, 200), look_again(200));
    assert_eq!(rig.late(0, MIB, 700), second_leg());
}

/// As while a drive stalls, and others are read on.
#[test]
fn a_read_that_is_late_is_remembered_while_thousands_are_sent() {
    let mut rig = Rig::with_hedges();
    rig.send(0, MIB);
    assert_eq!(rig.late_after(0, MIB), Some(200));
    for number in 0..4_000 {
        rig.send(1, (2 + number) * MIB);
        rig.late_after(1, (2 + number) * MIB);
        rig.answer(1, 100);
    }
    assert_eq!(rig.late(0, MIB, 1_000), second_leg());
}

#[test]
fn of_a_leg_that_is_often_a_little_late_nobody_is_asked_at_once() {
    let mut rig = Rig::new("adaptive", 2);
    for number in 0..600 {
        rig.serve(1, number * 999 * MIB, 100);
        // Each 20th takes 2.4 times as long.
        let us = if number % 20 == 0 { 240 } else { 100 };
        rig.serve(0, number * 999 * MIB, us);
    }
    rig.earn(8_000);
    rig.send(0, MIB);
    rig.late_after(0, MIB);
    rig.bench.now += Duration::from_us(200);
    assert_eq!(rig.late(0, MIB, 200), look_again(200));
    // Nobody took that long.
    rig.bench.now += Duration::from_us(200);
    assert_eq!(rig.late(0, MIB, 400), second_leg());
}

#[test]
fn four_reads_of_a_thousand_are_hedged_and_the_last_ones_gain_most() {
    let mut rig = Rig::new("adaptive", 2);
    rig.teach(20, &[100, 100]);
    rig.send(0, MIB);
    rig.late_after(0, MIB);
    rig.bench.now += Duration::from_us(900);
    assert_eq!(rig.late(0, MIB, 900), look_again(900), "nothing is saved");
    rig.earn(250);
    assert_eq!(
        rig.late(0, MIB, 600),
        look_again(600),
        "600 us are not enough"
    );
    assert_eq!(rig.late(0, MIB, 900), second_leg());
    assert_eq!(rig.late(0, MIB, 900), look_again(900));
}

/// The leg that would be asked may be in the same pause, or slow from now on.
#[test]
fn no_leg_is_asked_that_may_just_have_turned_slow() {
    let mut rig = Rig::new("adaptive", 3);
    rig.teach(200, &[100, 100, 150]);
    rig.earn(8_000);
    rig.send(0, 700 * MIB);
    rig.late_after(0, 700 * MIB);
    rig.bench.now += Duration::from_us(400);
    assert_eq!(rig.late(0, 700 * MIB, 400), second_leg());
    rig.serve(1, 0, 3_000);
    for number in 0..4 {
        rig.send(1, number * MIB);
    }
    assert_eq!(
        rig.late(0, 700 * MIB, 3_400),
        Late::Hedge(LegId::new(2)),
        "four reads on leg 1 will tell"
    );
    for _ in 0..4 {
        rig.answer(1, 25);
    }
    assert_eq!(rig.late(0, 700 * MIB, 3_500), second_leg());
}

#[test]
fn a_disk_that_answers_others_is_waited_for() {
    let mut rig = Rig::disks(2);
    rig.earn(8_000);
    rig.send(0, 50_000_000_000);
    assert_eq!(rig.late_after(0, 50_000_000_000), Some(53_275));
    rig.send(0, 60_000_000_000);
    for number in 0..20 {
        rig.send(0, number * 999 * MIB);
        rig.bench.now += Duration::from_ms(20);
        let view = rig.sent.pop();
        rig.sent.insert(0, view.expect("it was sent"));
        rig.answer(0, 0);
    }
    let place = 50_000_000_000;
    assert_eq!(rig.late(0, place, 400_000), look_again(400_000));
    rig.bench.now += Duration::from_ms(60);
    assert_eq!(rig.late(0, place, 460_000), second_leg());
}

#[test]
fn without_hedges_nobody_is_asked_when_reads_are_late() {
    let mut rig = Rig::new("adaptive:hedge=0", 2);
    assert!(!rig.bench.policy.observes().late);
    rig.bench.set("adaptive");
    assert!(rig.bench.policy.observes().late);
}

#[test]
fn what_remains_is_the_mean_of_what_took_longer() {
    let mut late = Forecast::default();
    assert_eq!(late.remaining(3.0), 3.0, "as long once more");
    for _ in 0..1_000 {
        late.learn(1.0);
    }
    assert_eq!(late.remaining(3.0), 3.0, "these took less");
    // Fifty took 64 to 96 times as long: 80 on average.
    for _ in 0..49 {
        late.learn(70.0);
    }
    assert_eq!(late.remaining(2.0), (49.0 * 78.0 + 2.0) / 50.0);
    // Of those that took 64 to 96 half took more than 80, on average 88.
    assert_eq!(late.remaining(80.0), (24.5 * 8.0 + 80.0) / 25.5);
    assert_eq!(late.remaining(1e9), 1e9);
}

#[test]
fn what_took_longer_is_forgotten_by_and_by() {
    let mut late = Forecast::default();
    for _ in 0..4 {
        late.learn(70.0);
    }
    assert_eq!(late.remaining(64.0), (4.0 * 16.0 + 64.0) / 5.0);
    for _ in 4..1 << 15 {
        late.learn(1.0);
    }
    assert_eq!(late.remaining(64.0), (2.0 * 16.0 + 64.0) / 3.0);
}
