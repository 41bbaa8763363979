//! Memory as a device: a fixed time per operation, a rate for its bytes, no queue at all.

mod params;

use heliostat_types::{ErrorKind, Extent, Instant, LegOpId, OpKind, Prng};

use crate::api::{DeviceModel, DeviceSpec, assert_size};
use crate::timing::{Gate, TimeQueue, transfer_time};
pub use params::RamParams;

/// Memory as a device.
#[derive(Clone, Debug)]
pub struct Ram {
    params: RamParams,
    spec: DeviceSpec,
    /// The caps on reads and on writes.
    read_gate: Gate,
    write_gate: Gate,
    completions: TimeQueue<LegOpId>,
}

impl Ram {
    /// Memory with nothing in flight.
    ///
    /// # Panics
    /// Where the size is no whole number of blocks or the rate is zero.
    #[must_use]
    pub fn new(params: RamParams) -> Self {
        assert_size(params.size_bytes, params.logical_block_bytes);
        assert!(params.copy_bytes_per_s > 0, "memory moves bytes");
        Self {
            params,
            spec: DeviceSpec {
                size_bytes: params.size_bytes,
                logical_block_bytes: params.logical_block_bytes,
                physical_block_bytes: params.logical_block_bytes,
                rotational: false,
                queue_depth: params.queue_depth,
                optimal_io_bytes: 0,
                // It stands for a device that keeps its bytes.
                volatile_cache: false,
            },
            read_gate: Gate::new(params.read_bytes_per_s_max),
            write_gate: Gate::new(params.write_bytes_per_s_max),
            completions: TimeQueue::new(),
        }
    }
}

impl DeviceModel for Ram {
    fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    fn submit(
        &mut self,
        now: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
        _prng: &mut dyn Prng,
    ) {
        let copied_bytes = match kind {
            OpKind::Read | OpKind::Write | OpKind::WriteZeroes => extent.len(),
            OpKind::Flush | OpKind::Trim | OpKind::BlockStatus => 0,
        };
        let copy_time = transfer_time(copied_bytes, self.params.copy_bytes_per_s);
        let let_through_at = match kind {
            OpKind::Read => self.read_gate.pass(now, copied_bytes),
            OpKind::Write => self.write_gate.pass(now, copied_bytes),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => now,
        };
        let copied_at = let_through_at.max(now + copy_time);
        self.completions
            .push(copied_at + self.params.operation_time, op);
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
    use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, RandomStream};

    use super::{Ram, RamParams};
    use crate::api::DeviceModel;

    #[test]
    fn small_operations_overtake_large_ones() {
        let mut prng = RandomStream::new(1, "test", 0);
        let mut ram = Ram::new(RamParams {
            size_bytes: 1 << 20,
            logical_block_bytes: 512,
            operation_time: Duration::from_us(1),
            copy_bytes_per_s: 1_000_000_000,
            queue_depth: 4,
            ..RamParams::NEUTRAL
        });
        let large = Extent::new(0, 4096);
        ram.submit(Instant::ZERO, LegOpId(1), OpKind::Read, large, &mut prng);
        let empty = Extent::default();
        ram.submit(Instant::ZERO, LegOpId(2), OpKind::Flush, empty, &mut prng);
        assert_eq!(ram.next_event_at(), Some(Instant::from_ns(1_000)));
        assert_eq!(ram.poll_completion(Instant::from_ns(999)), None);
        let late = Instant::from_ns(5_096);
        assert_eq!(ram.poll_completion(late), Some((LegOpId(2), Ok(()))));
        assert_eq!(ram.poll_completion(late), Some((LegOpId(1), Ok(()))));
        assert_eq!(ram.next_event_at(), None);
    }
}
