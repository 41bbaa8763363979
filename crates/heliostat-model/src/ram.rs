//! Memory as a device: a fixed time per operation, a rate for its bytes, no queue at all.

use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, Prng};

use crate::api::{DeviceModel, DeviceSpec, assert_size};
use crate::timing::{TimeQueue, transfer_time};

/// What a piece of memory is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RamParams {
    /// Capacity.
    pub size_bytes: u64,
    /// The smallest unit that is read and written; a power of two.
    pub logical_block_bytes: u32,
    /// What an operation takes whatever its size.
    pub operation_time: Duration,
    /// At what rate bytes are copied, each operation by itself.
    pub copy_bytes_per_s: u64,
    /// How many operations are taken at once.
    pub queue_depth: u32,
}

/// Memory as a device.
#[derive(Clone, Debug)]
pub struct Ram {
    params: RamParams,
    spec: DeviceSpec,
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
            },
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
        self.completions
            .push(now + self.params.operation_time + copy_time, op);
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
