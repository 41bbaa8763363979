//! A disk behind a network, as clouds sell them: a latency with a tail, and two caps that are
//! enforced evenly.
//!
//! Operations run side by side without limit; what queues is the caps. Each operation waits for its
//! turn among `1 / iops_max` slots and for its bytes among `bytes_per_s_max`, then takes the
//! network and the media's time.

mod params;

use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, Prng};
use stdx::math::ln;

use crate::api::{DeviceModel, DeviceSpec, assert_size};
use crate::timing::{Gate, TimeQueue, transfer_time};
pub use params::NetworkDiskParams;

/// A disk behind a network.
#[derive(Clone, Debug)]
pub struct NetworkDisk {
    params: NetworkDiskParams,
    spec: DeviceSpec,
    /// When the next operation may pass the cap on operations.
    next_slot_at: Instant,
    /// When the bytes that were let through are all through.
    bytes_through_at: Instant,
    /// The caps on reads and on writes alone.
    read_gate: Gate,
    write_gate: Gate,
    completions: TimeQueue<LegOpId>,
}

/// Block sizes as virtual machines see them on such disks.
const LOGICAL_BLOCK_BYTES: u32 = 512;
const PHYSICAL_BLOCK_BYTES: u32 = 4096;

impl NetworkDisk {
    /// A disk with nothing in flight.
    ///
    /// # Panics
    /// Where the size is no whole number of blocks or a cap is zero.
    #[must_use]
    pub fn new(params: NetworkDiskParams) -> Self {
        assert_size(params.size_bytes, LOGICAL_BLOCK_BYTES);
        assert!(
            params.iops_max > 0 && params.bytes_per_s_max > 0,
            "a cap lets something through"
        );
        Self {
            params,
            spec: DeviceSpec {
                size_bytes: params.size_bytes,
                logical_block_bytes: LOGICAL_BLOCK_BYTES,
                physical_block_bytes: PHYSICAL_BLOCK_BYTES,
                rotational: false,
                queue_depth: params.queue_depth,
                optimal_io_bytes: 0,
                // What such a disk has acknowledged lies on several machines.
                volatile_cache: false,
            },
            next_slot_at: Instant::ZERO,
            bytes_through_at: Instant::ZERO,
            read_gate: Gate::new(params.read_bytes_per_s_max),
            write_gate: Gate::new(params.write_bytes_per_s_max),
            completions: TimeQueue::new(),
        }
    }
}

impl DeviceModel for NetworkDisk {
    fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    fn submit(
        &mut self,
        now: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
        prng: &mut dyn Prng,
    ) {
        let passes_at = self.next_slot_at.max(now);
        self.next_slot_at = passes_at + transfer_time(1, self.params.iops_max.into());
        let sent_bytes = match kind {
            OpKind::Read | OpKind::Write => extent.len(),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => 0,
        };
        let sent = transfer_time(sent_bytes, self.params.bytes_per_s_max);
        self.bytes_through_at = self.bytes_through_at.max(passes_at) + sent;
        let let_through_at = match kind {
            OpKind::Read => self.read_gate.pass(passes_at, sent_bytes),
            OpKind::Write => self.write_gate.pass(passes_at, sent_bytes),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => passes_at,
        };
        // 1 - u is never 0, so that the logarithm is finite.
        let tail = -ln(1.0 - prng.unit_f64()) * self.params.latency_tail_mean.as_secs_f64();
        let latency = self.params.latency_floor + Duration::from_secs_f64(tail);
        let through_at = self.bytes_through_at.max(let_through_at);
        self.completions.push(through_at + latency, op);
    }

    fn next_event_at(&self) -> Option<Instant> {
        self.completions.next_at()
    }

    fn poll_completion(&mut self, now: Instant) -> Option<(LegOpId, Result<(), ErrorKind>)> {
        let (_, op) = self.completions.pop_due(now)?;
        Some((op, Ok(())))
    }

    fn clone_box(&self) -> Box<dyn DeviceModel> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::OpKind;

    use crate::closed_loop::{Pattern, within};
    use crate::drives::drive;

    #[test]
    fn one_at_a_time_takes_the_latency() {
        let run = drive("net-ssd").unwrap().run(1, Pattern::random_reads());
        assert!(within(run.iops(), 1_667.0, 0.03), "{}", run.iops());
    }

    #[test]
    fn the_caps_hold() {
        let deep = drive("net-ssd").unwrap().run(256, Pattern::random_reads());
        assert!(within(deep.iops(), 16_000.0, 0.01), "{}", deep.iops());
        let large = Pattern::stream().of(OpKind::Write);
        let run = drive("net-ssd").unwrap().run(32, large);
        assert!(
            within(run.bytes_per_s(), 1_048_576_000.0, 0.01),
            "{}",
            run.bytes_per_s()
        );
    }
}
