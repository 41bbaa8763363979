//! `round-robin[:SIZE]`: the legs take turns, SIZE bytes of reads each (btrfs 6.14).

use heliostat_types::{Instant, OpKind, Prng};

use crate::api::{LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::choice::at_modulo;
use crate::registry::{BareValue, PolicyInfo};
use crate::spec::PolicySpec;
use crate::tunable::{Tunable, TunableKind};

/// btrfs's usual block; turns are whole blocks.
const BLOCK_BYTES: u64 = 4096;

/// How much is read before it is the next leg's turn. btrfs's default of 256 KiB was chosen so
/// that reads still merge; it counts in its blocks of 4 KiB and rounds up to them.
pub(crate) const MIN_CONTIG_READ: Tunable = Tunable {
    name: "min_contig_read",
    kind: TunableKind::Number {
        min: 1,
        max: i64::MAX.unsigned_abs() / BLOCK_BYTES * BLOCK_BYTES,
        multiple_of: BLOCK_BYTES,
    },
    default: 256 << 10,
    unit: "bytes",
    description: "how much is read before it is the next leg's turn",
};

pub(crate) static INFO: PolicyInfo = PolicyInfo {
    name: "round-robin",
    summary: "the legs take turns, 256 KiB of all the array's reads each (btrfs 6.14)",
    bare_value: BareValue::FirstTunable,
    tunables: &[MIN_CONTIG_READ],
    build: |spec| {
        Box::new(RoundRobin {
            turns: Turns::new(spec),
        })
    },
};

/// Whose turn it is, by the bytes that the array has read from any leg.
#[derive(Debug)]
pub(crate) struct Turns {
    min_contig_read_bytes: u64,
    read_bytes: u64,
}

impl Turns {
    pub(crate) fn new(spec: &PolicySpec) -> Self {
        Self {
            min_contig_read_bytes: spec.value(&MIN_CONTIG_READ),
            read_bytes: 0,
        }
    }

    pub(crate) fn configure(&mut self, spec: &PolicySpec) {
        self.min_contig_read_bytes = spec.value(&MIN_CONTIG_READ);
    }

    /// The number of the turn, to be taken modulo the legs.
    pub(crate) const fn current(&self) -> u64 {
        self.read_bytes / self.min_contig_read_bytes
    }

    /// An operation was handed to a leg; only reads count.
    pub(crate) fn note_dispatch(&mut self, op: &OpView) {
        if op.kind == OpKind::Read {
            self.read_bytes = self.read_bytes.wrapping_add(op.extent.len());
        }
    }
}

#[derive(Debug)]
struct RoundRobin {
    turns: Turns,
}

impl ReadPolicy for RoundRobin {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn observes(&self) -> Observes {
        Observes {
            dispatch: true,
            ..Observes::NOTHING
        }
    }

    fn configure(&mut self, spec: &PolicySpec) {
        self.turns.configure(spec);
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        ReadPlan::Leg(at_modulo(legs, self.turns.current()).leg)
    }

    fn on_dispatch(&mut self, _now: Instant, op: &OpView) {
        self.turns.note_dispatch(op);
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::OpKind;

    use crate::testing::Bench;

    #[test]
    fn a_turn_lasts_256_kib_of_reads() {
        let mut bench = Bench::new("round-robin", 3);
        let mut picks = Vec::new();
        for _ in 0..8 {
            let leg = bench.pick(0);
            picks.push(leg);
            bench.dispatch(leg, OpKind::Read, 0, 128 << 10);
        }
        assert_eq!(picks, [0, 0, 1, 1, 2, 2, 0, 0]);
    }

    #[test]
    fn reads_of_any_leg_count_and_writes_do_not() {
        let mut bench = Bench::new("round-robin:8192", 2);
        bench.dispatch(1, OpKind::Write, 0, 8192);
        assert_eq!(bench.pick(0), 0);
        bench.dispatch(1, OpKind::Read, 0, 4096);
        assert_eq!(bench.pick(0), 0);
        bench.dispatch(0, OpKind::Read, 0, 4096);
        assert_eq!(bench.pick(0), 1);
    }

    /// btrfs counts whole blocks, so that reads below 4 KiB would never end a turn.
    #[test]
    fn small_reads_add_up() {
        let mut bench = Bench::new("round-robin:4096", 2);
        for _ in 0..8 {
            assert_eq!(bench.pick(0), 0);
            bench.dispatch(0, OpKind::Read, 0, 512);
        }
        assert_eq!(bench.pick(0), 1);
    }

    /// btrfs's counter of blocks has 32 bits, and 2^32 is no multiple of three turns.
    #[test]
    fn turns_go_on_in_phase_beyond_32_bits_of_blocks() {
        let mut bench = Bench::new("round-robin:4096", 3);
        bench.dispatch(0, OpKind::Read, 0, ((1 << 32) - 1) * 4096);
        // 2^32 - 1 is a multiple of 3.
        assert_eq!(bench.pick(0), 0);
        bench.dispatch(0, OpKind::Read, 0, 4096);
        assert_eq!(bench.pick(0), 1);
        bench.dispatch(0, OpKind::Read, 0, 4096);
        assert_eq!(bench.pick(0), 2);
    }
}
