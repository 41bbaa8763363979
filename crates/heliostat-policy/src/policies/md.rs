//! `md`: sequential reads stay, others go to the least busy leg or the nearest head (Linux raid1).

use heliostat_types::{Duration, Instant, LEGS_MAX, LegId, OpKind, Prng};

use crate::api::{LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::registry::{BareValue, PolicyInfo};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "md",
    summary: "sequential reads stay, others go to the least busy leg or nearest head (Linux md)",
    bare_value: BareValue::Refused,
    tunables: &[],
    build: |_| {
        Box::new(Md {
            legs: [Head::default(); LEGS_MAX],
            reason: LEAST_BUSY,
        })
    },
};

/// What decides, in the words of docs/explain.md.
const SEQUENTIAL: &str = "sequential, it stays";
const LONG_RUN: &str = "long run, none idle";
const LEAST_BUSY: &str = "fewest in flight";
const NEAREST: &str = "nearest head";

#[derive(Debug)]
struct Md {
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
