use heliostat_types::{Duration, FlowId, Instant, LegId, LegSet, OpKind};

use super::{Accounting, Accounts, Choices, Counted, FLOWS_MAX, Ticks, Times};

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_ms(ms)
}

/// Accounts with the requests that are in flight.
struct Rig {
    accounting: Accounting,
    in_flight: Vec<Counted>,
}

impl Rig {
    fn new() -> Self {
        let accounting = Accounting {
            is_on: true,
            client_timeout: Duration::from_secs(10),
            since: Instant::ZERO,
            ticks: Ticks::default(),
            flows: Vec::new(),
            departed: super::Account::default(),
        };
        let in_flight = Vec::new();
        Self {
            accounting,
            in_flight,
        }
    }

    fn begin(&mut self, ms: u64, flow: u32, kind: OpKind) {
        let request = Counted {
            flow: FlowId(flow),
            kind,
            len_bytes: 4096,
            at: at(ms),
        };
        self.accounting.begin(at(ms), request.flow);
        self.in_flight.push(request);
    }

    /// The oldest of a client is answered.
    fn end(&mut self, ms: u64, flow: u32) {
        let mut requests = self.in_flight.iter();
        let oldest = requests.position(|request| request.flow == FlowId(flow));
        let request = self.in_flight.remove(oldest.unwrap());
        self.accounting.end(at(ms), &request, false);
    }

    fn reset(&mut self, ms: u64) {
        let in_flight = self.in_flight.iter().copied();
        self.accounting.reset(at(ms), in_flight);
    }

    fn at(&self, ms: u64) -> Accounts {
        self.accounting.at(at(ms), self.in_flight.iter().copied())
    }
}

const MS: u128 = 1_000_000;

#[test]
fn milliseconds_fall_into_doubling_buckets() {
    for (ms, bucket) in [
        (0, 0),
        (7, 0),
        (8, 1),
        (15, 1),
        (16, 2),
        (65_535, 13),
        (65_536, 14),
        (u64::MAX, 14),
    ] {
        let mut times = Times::default();
        times.record(Duration::from_ms(ms));
        assert_eq!(times.buckets_ms()[bucket], 1, "{ms} ms");
        times.merge(&times.clone());
        assert_eq!(times.buckets_ms().iter().sum::<u64>(), 2, "{ms} ms");
        assert_eq!(times.buckets_ms()[bucket], 2, "{ms} ms");
    }
    let mut times = Times::default();
    times.record(Duration::from_ns(7_999_999));
    assert_eq!(times.buckets_ms()[0], 1);
}

#[test]
fn what_was_in_flight_is_known_at_any_time() {
    let mut rig = Rig::new();
    rig.begin(10, 1, OpKind::Read);
    rig.begin(20, 1, OpKind::Read);
    rig.begin(25, 1, OpKind::Write);
    rig.end(30, 1);
    let then = rig.at(50);
    let account = &then.flows[0].account;
    let (reads, writes) = (account.of(OpKind::Read), account.of(OpKind::Write));
    assert_eq!(
        (reads.count(), reads.bytes, reads.in_flight()),
        (1, 4096, 1)
    );
    assert_eq!((writes.count(), writes.in_flight()), (0, 1));
    assert_eq!(reads.weighted_ns(), (20 + 30) * MS);
    assert_eq!(writes.weighted_ns(), 25 * MS);
    assert_eq!(account.ticks(then.now), Duration::from_ms(40));
    rig.end(60, 1);
    rig.end(70, 1);
    // Nothing happens for a while, and then one more.
    rig.begin(100, 1, OpKind::Flush);
    rig.end(105, 1);
    let then = rig.at(200);
    let account = &then.flows[0].account;
    assert_eq!(account.of(OpKind::Read).weighted_ns(), (20 + 40) * MS);
    assert_eq!(account.of(OpKind::Write).weighted_ns(), 45 * MS);
    assert_eq!(account.ticks(then.now), Duration::from_ms(65));
    assert_eq!(then.ticks, Duration::from_ms(65));
    let times = account.of(OpKind::Read).times().unwrap();
    assert_eq!(times.fine_ns().max(), 40_000_000);
    assert_eq!(&times.buckets_ms()[..4], [0, 0, 1, 1]);
    assert!(account.of(OpKind::Trim).times().is_none());
}

#[test]
fn clients_are_told_apart_and_the_array_is_their_sum() {
    let mut rig = Rig::new();
    rig.begin(0, 1, OpKind::Read);
    rig.begin(10, 2, OpKind::Read);
    rig.end(20, 1);
    rig.end(40, 2);
    let then = rig.at(40);
    let ticks: Vec<Duration> = then
        .flows
        .iter()
        .map(|flow| flow.account.ticks(then.now))
        .collect();
    assert_eq!(ticks, [Duration::from_ms(20), Duration::from_ms(30)]);
    assert_eq!(then.ticks, Duration::from_ms(40));
    assert_eq!(then.total().of(OpKind::Read).weighted_ns(), 50 * MS);

    // One goes; what it did is not forgotten, and who gets its number begins anew.
    let gone = rig.accounting.close(FlowId(1)).unwrap();
    assert_eq!(gone.of(OpKind::Read).count(), 1);
    assert_eq!(rig.at(50).flows.len(), 1);
    rig.begin(50, 1, OpKind::Read);
    rig.end(51, 1);
    let then = rig.at(51);
    assert_eq!(then.flows[0].account.of(OpKind::Read).count(), 1);
    assert_eq!(then.flows[0].account.since(), at(50));
    let total = then.total();
    assert_eq!(total.of(OpKind::Read).count(), 3);
    assert_eq!(total.of(OpKind::Read).weighted_ns(), 51 * MS);
    assert!(rig.accounting.close(FlowId(7)).is_none());
}

#[test]
fn numbers_beyond_the_accounts_share_the_first() {
    let mut rig = Rig::new();
    let beyond = u32::try_from(FLOWS_MAX).unwrap();
    rig.begin(0, beyond, OpKind::Read);
    rig.begin(0, u32::MAX, OpKind::Read);
    rig.end(1, u32::MAX);
    let then = rig.at(1);
    assert_eq!(then.flows.len(), 1);
    assert_eq!(then.flows[0].flow, FlowId(0));
    assert_eq!(then.flows[0].account.of(OpKind::Read).in_flight(), 1);
}

#[test]
fn a_request_is_late_while_it_waits_and_after() {
    let mut rig = Rig::new();
    rig.begin(0, 1, OpKind::Write);
    rig.begin(1_000, 1, OpKind::Write);
    let late = |rig: &Rig, ms| {
        let flow = rig.at(ms).flows.remove(0);
        let answered = flow.account.of(OpKind::Write).late;
        (flow.late_in_flight, answered)
    };
    assert_eq!(late(&rig, 9_999), (0, 0));
    assert_eq!(late(&rig, 10_000), (1, 0));
    assert_eq!(late(&rig, 11_000), (2, 0));
    rig.end(11_500, 1);
    assert_eq!(late(&rig, 11_500), (1, 1));
    rig.reset(12_000);
    assert_eq!(late(&rig, 12_000), (1, 0));
    rig.end(13_000, 1);
    assert_eq!(late(&rig, 99_000), (0, 1));
}

#[test]
fn after_a_reset_only_what_comes_then_is_counted() {
    let mut rig = Rig::new();
    rig.begin(0, 1, OpKind::Read);
    rig.begin(10, 1, OpKind::Read);
    rig.end(20, 1);
    rig.reset(30);
    let then = rig.at(40);
    let reads = then.flows[0].account.of(OpKind::Read);
    assert_eq!((reads.count(), reads.bytes, reads.in_flight()), (0, 0, 1));
    assert_eq!(reads.weighted_ns(), 10 * MS);
    assert_eq!(then.ticks, Duration::from_ms(10));
    assert_eq!(
        (then.since, then.flows[0].account.since()),
        (at(30), at(30))
    );
    rig.end(50, 1);
    let then = rig.at(90);
    let reads = then.flows[0].account.of(OpKind::Read);
    // Its time is all of its time, but what is added up begins with the reset.
    assert_eq!(reads.times().unwrap().fine_ns().max(), 40_000_000);
    assert_eq!(reads.weighted_ns(), 20 * MS);
    assert_eq!(then.flows[0].account.ticks(then.now), Duration::from_ms(20));
    assert_eq!(then.total().of(OpKind::Read).weighted_ns(), 20 * MS);
}

#[test]
fn nothing_is_counted_while_it_is_off() {
    let mut rig = Rig::new();
    rig.accounting.is_on = false;
    rig.begin(0, 1, OpKind::Read);
    rig.reset(5);
    assert!(rig.at(60_000).flows.is_empty());
    rig.end(60_000, 1);
    let then = rig.at(60_000);
    assert!(then.flows.is_empty() && then.ticks == Duration::ZERO);
}

/// What btrfs counts at each choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Naive {
    age: u64,
    ignored: u64,
}

#[test]
fn choices_are_counted_as_if_one_by_one() {
    let legs = |numbers: &[usize]| -> LegSet { numbers.iter().map(|n| LegId::new(*n)).collect() };
    let (all, two) = (legs(&[0, 1, 2]), legs(&[0, 2]));
    let picks = [
        (all, 0),
        (all, 2),
        (two, 2),
        (two, 2),
        (all, 0),
        (all, 0),
        (two, 0),
    ];
    let mut naive = [Naive::default(); 3];
    let mut kept = [Naive::default(); 3];
    let mut choices = Choices::default();
    for (candidates, chosen) in picks {
        for leg in candidates {
            let counted = &mut naive[leg.index()];
            counted.age = if leg.index() == chosen {
                0
            } else {
                counted.age + 1
            };
            counted.ignored += u64::from(leg.index() != chosen);
        }
        if !choices.count(candidates, LegId::new(chosen)) {
            for (index, counted) in kept.iter_mut().enumerate() {
                choices.add_to(LegId::new(index), &mut counted.age, &mut counted.ignored);
            }
            choices.begin(candidates);
            assert!(choices.count(candidates, LegId::new(chosen)));
        }
        let mut told = kept;
        for (index, counted) in told.iter_mut().enumerate() {
            choices.add_to(LegId::new(index), &mut counted.age, &mut counted.ignored);
        }
        assert_eq!(told, naive, "after {candidates:?} {chosen}");
    }
}
