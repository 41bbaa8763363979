//! `md`: sequential reads stay, others go to the least busy leg or the nearest head (Linux raid1);
//! or the rules of Linux raid10.

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, OpKind, Prng};

use crate::api::{LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::choice::lowest_by_key;
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::{Tunable, TunableKind};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "md",
    summary: "sequential reads stay, others go to the least busy leg or nearest head (Linux md)",
    bare_value: BareValue::Refused,
    tunables: &[RULE],
    build: |spec| {
        Box::new(Md {
            rule: Rule::new(spec),
            legs: [Head::default(); LEGS_MAX],
            reason: LEAST_BUSY,
        })
    },
};

/// `raid1`: what it does on a mirror; whoever serves a RAID10 asks for that rule.
const RULE: Tunable = Tunable {
    name: "rule",
    kind: TunableKind::Choice(&["raid1", "near", "far"]),
    default: 0,
    unit: "",
    description: "whose rule: that of raid1, or of raid10 with near or with far copies",
};

/// Whose rule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// That of raid1.
    Raid1,
    /// That of raid10 where copies lie beside each other.
    Near,
    /// That of raid10 where they lie far apart.
    Far,
}

impl Rule {
    fn new(spec: &PolicySpec) -> Self {
        match spec.value(&RULE) {
            0 => Self::Raid1,
            1 => Self::Near,
            _ => Self::Far,
        }
    }
}

/// What decides, in the words of docs/explain.md.
const SEQUENTIAL: &str = "sequential, it stays";
const LONG_RUN: &str = "long run, none idle";
const LEAST_BUSY: &str = "fewest in flight";
const NEAREST: &str = "nearest head";
const LOWEST: &str = "lowest address";
const FIRST_IDLE: &str = "first that is idle";

#[derive(Debug)]
struct Md {
    rule: Rule,
    legs: [Head; LEGS_MAX],
    /// What decided last.
    reason: &'static str,
}

/// Where a leg is.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    /// The end of the last read or write that completed.
    position: u64,
    /// The end of the last read that was sent here, where there was one.
    next_sequential: Option<u64>,
    /// Where the run of sequential reads began that ends there.
    run_start: u64,
}

impl Head {
    const fn is_sequential(&self, address: u64) -> bool {
        self.position == address || matches!(self.next_sequential, Some(next) if next == address)
    }

    /// Whether the run on a leg without moving parts is longer than what the leg likes at once.
    fn is_run_long(&self, view: &LegView) -> bool {
        let io_opt = view.optimal_io_bytes;
        let run = self.next_sequential.map(|next| next - self.run_start);
        !view.rotational && io_opt > 0 && run.is_some_and(|run| run >= io_opt)
    }

    fn note_read(&mut self, address: u64, len_bytes: u64) {
        if self.next_sequential != Some(address) {
            self.run_start = address;
        }
        self.next_sequential = Some(address + len_bytes);
    }
}

impl Md {
    fn choose<'a>(&self, legs: &'a [LegView]) -> (&'a LegView, &'static str) {
        match self.rule {
            Rule::Raid1 => self.of_raid1(legs),
            Rule::Near | Rule::Far => self.of_raid10(legs),
        }
    }

    /// Flash alone is read where there is any; else the first idle leg with near copies, and the
    /// lowest address with far ones.
    fn of_raid10<'a>(&self, legs: &'a [LegView]) -> (&'a LegView, &'static str) {
        if legs.iter().any(|view| !view.rotational) {
            let flash = legs.iter().filter(|view| !view.rotational);
            let busy = flash.min_by_key(|view| view.in_flight());
            return (busy.expect("there is one"), LEAST_BUSY);
        }
        if self.rule == Rule::Far {
            return (lowest_by_key(legs, |view| view.address), LOWEST);
        }
        if let Some(idle) = legs.iter().find(|view| view.in_flight() == 0) {
            return (idle, FIRST_IDLE);
        }
        let distance = |view: &&LegView| {
            let head = &self.legs[view.leg.index()];
            head.position.abs_diff(view.address)
        };
        (lowest_by_key(legs, distance), NEAREST)
    }

    fn of_raid1<'a>(&self, legs: &'a [LegView]) -> (&'a LegView, &'static str) {
        let mut least_busy = (u32::MAX, &legs[0]);
        let mut nearest = (u64::MAX, &legs[0]);
        let mut long_run = None;
        for view in legs {
            let head = &self.legs[view.leg.index()];
            let mut pending = view.in_flight();
            if head.is_sequential(view.address) {
                if !head.is_run_long(view) {
                    return (view, SEQUENTIAL);
                }
                // One more than it is, so that an idle leg is preferred.
                pending = pending.saturating_add(1);
                long_run = Some(view);
            }
            if pending < least_busy.0 {
                least_busy = (pending, view);
            }
            let distance = head.position.abs_diff(view.address);
            if distance < nearest.0 {
                nearest = (distance, view);
            }
        }
        let (pending_min, least_busy) = least_busy;
        match long_run {
            Some(view) if pending_min > 0 => (view, LONG_RUN),
            _ if pending_min == 0 || legs.iter().any(|view| !view.rotational) => {
                (least_busy, LEAST_BUSY)
            }
            _ => (nearest.1, NEAREST),
        }
    }
}

impl ReadPolicy for Md {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn observes(&self) -> Observes {
        Observes {
            complete: true,
            ..Observes::NOTHING
        }
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.rule = Rule::new(spec);
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        let (chosen, reason) = self.choose(legs);
        self.reason = reason;
        self.legs[chosen.leg.index()].note_read(chosen.address, request.extent.len());
        ReadPlan::Leg(chosen.leg)
    }

    fn reason(&self) -> Option<&'static str> {
        Some(self.reason)
    }

    fn on_complete(&mut self, _now: Instant, op: &OpView, _service_time: Duration, _ok: bool) {
        if matches!(op.kind, OpKind::Read | OpKind::Write) {
            self.legs[op.leg.index()].position = op.extent.end();
        }
    }

    fn reset(&mut self, leg: Option<LegId>) {
        match leg {
            Some(leg) => self.legs[leg.index()] = Head::default(),
            None => self.legs = [Head::default(); LEGS_MAX],
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::OpKind;

    use crate::testing::Bench;

    const MIB: u64 = 1 << 20;

    fn bench(rotational: [bool; 3]) -> Bench {
        let mut bench = Bench::new("md", 3);
        for (view, rotational) in bench.legs.iter_mut().zip(rotational) {
            view.rotational = rotational;
            // Nobody is idle, and all heads are far out, where nothing is read below.
            view.reads_in_flight = 1;
            bench.policy.on_complete(
                bench.now,
                &crate::testing::op(view.leg.index(), OpKind::Read, 1 << 40, 0),
                heliostat_types::Duration::ZERO,
                true,
            );
        }
        bench
    }

    #[test]
    fn sequential_reads_stay_however_busy_the_leg() {
        let mut bench = bench([true; 3]);
        bench.complete_at(1, OpKind::Write, 7 * MIB);
        bench.legs[1].reads_in_flight = 99;
        assert_eq!(bench.pick_of(7 * MIB, MIB), 1, "the head is there");
        assert_eq!(bench.reason(), "sequential, it stays");
        assert_eq!(
            bench.pick_of(8 * MIB, MIB),
            1,
            "the read before was sent there"
        );
    }

    #[test]
    fn an_idle_leg_comes_before_the_nearest_head() {
        let mut bench = bench([true; 3]);
        bench.complete_at(1, OpKind::Read, 90 * MIB);
        assert_eq!(bench.pick_of(100 * MIB, 4096), 1, "nearest");
        assert_eq!(bench.reason(), "nearest head");
        bench.legs[2].reads_in_flight = 0;
        assert_eq!(bench.pick_of(101 * MIB, 4096), 2, "idle");
        assert_eq!(bench.reason(), "fewest in flight");
    }

    #[test]
    fn with_flash_in_the_array_the_least_busy_leg_wins() {
        let mut bench = bench([true, true, false]);
        bench.complete_at(1, OpKind::Read, 90 * MIB);
        bench.legs[1].reads_in_flight = 2;
        bench.legs[0].reads_in_flight = 2;
        assert_eq!(bench.pick_of(100 * MIB, 4096), 2);
        bench.legs[2].reads_in_flight = 3;
        assert_eq!(bench.pick_of(101 * MIB, 4096), 0, "the first of equals");
    }

    #[test]
    fn raid10_reads_flash_however_busy_it_is() {
        let mut bench = bench([true, false, false]);
        bench.set("md:rule=near");
        bench.legs[0].reads_in_flight = 0;
        bench.legs[1].reads_in_flight = 9;
        bench.legs[2].writes_in_flight = 8;
        assert_eq!(bench.pick(0), 1, "the first of equals, 9 and 9");
        bench.legs[1].reads_in_flight = 10;
        assert_eq!(bench.pick(4096), 2, "no run stays");
    }

    #[test]
    fn raid10_with_near_copies_on_disks_reads_the_first_idle_one_or_the_nearest() {
        let mut bench = bench([true; 3]);
        bench.set("md:rule=near");
        bench.complete_at(1, OpKind::Read, 90 * MIB);
        assert_eq!(bench.pick(100 * MIB), 1);
        assert_eq!(bench.reason(), "nearest head");
        bench.legs[2].reads_in_flight = 0;
        assert_eq!(bench.pick(100 * MIB), 2);
        bench.legs[0].reads_in_flight = 0;
        assert_eq!(bench.pick(100 * MIB), 0);
        assert_eq!(bench.reason(), "first that is idle");
    }

    #[test]
    fn raid10_with_far_copies_on_disks_reads_the_lowest_address() {
        let mut bench = bench([true; 3]);
        bench.set("md:rule=far");
        bench.legs[0].reads_in_flight = 0;
        let request = crate::api::ReadRequest {
            client: heliostat_types::ClientId(0),
            stream: heliostat_types::StreamId(0),
            extent: heliostat_types::Extent::new(0, 4096),
            may_split: true,
        };
        for (view, address) in bench.legs.iter_mut().zip([70, 10, 30]) {
            view.address = address * MIB;
        }
        let mut prng = heliostat_types::RandomStream::new(1, "policy", 0);
        let plan = bench
            .policy
            .plan_read(bench.now, &request, &bench.legs, &mut prng);
        assert_eq!(plan, crate::api::ReadPlan::Leg(bench.legs[1].leg));
    }

    #[test]
    fn a_run_beyond_the_optimal_size_moves_to_an_idle_leg() {
        let mut bench = bench([false; 3]);
        bench.legs[0].optimal_io_bytes = MIB;
        assert_eq!(bench.pick_of(0, MIB), 0);
        // The run is 1 MiB long: it may leave, but nobody is idle.
        assert_eq!(bench.pick_of(MIB, MIB), 0);
        assert_eq!(bench.reason(), "long run, none idle");
        bench.legs[2].reads_in_flight = 0;
        assert_eq!(bench.pick_of(2 * MIB, MIB), 2);
        // Leg 2 names no optimal size, so that the run stays there.
        bench.legs[2].reads_in_flight = 9;
        assert_eq!(bench.pick_of(3 * MIB, MIB), 2);
    }

    #[test]
    fn a_run_on_its_own_idle_leg_stays_unless_another_is_idle() {
        let mut bench = bench([false; 3]);
        for view in &mut bench.legs {
            view.optimal_io_bytes = MIB;
        }
        bench.legs[1].reads_in_flight = 0;
        assert_eq!(bench.pick_of(0, MIB), 1);
        // Leg 1 counts as 0 + 1, so that nobody is idle, and the run stays.
        assert_eq!(bench.pick_of(MIB, MIB), 1);
    }
}
