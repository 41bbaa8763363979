//! A read cache below a device, as bcache, a hybrid drive or the cache of a RAID controller: part
//! of the device's blocks is answered from faster memory.
//!
//! Which blocks are cached is decided once, by their number and the device's luck, and does not
//! change: a cache that is warm, as it is in a run that is short beside its history. Large requests
//! and all writes go past it, as sequential ones do in bcache.

use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, Prng};

use crate::api::{DeviceModel, DeviceSpec};
use crate::timing::{TimeQueue, earlier};

/// What a read cache is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheParams {
    /// How many of 1000 blocks are cached.
    pub hit_permille: u32,
    /// What a read from the cache takes; they run side by side.
    pub hit_time: Duration,
    /// Reads of at least this many bytes go past the cache.
    pub bypass_bytes: u64,
}

impl Default for CacheParams {
    fn default() -> Self {
        Self {
            hit_permille: 0,
            hit_time: Duration::from_us(120),
            bypass_bytes: 256 << 10,
        }
    }
}

/// The unit that is cached or not: what a bucket-based cache keeps of a random read and what it
/// finds around it.
const BLOCK_BYTES: u64 = 64 << 10;

/// A device with a read cache below it.
#[derive(Clone, Debug)]
pub struct CachedDevice {
    inner: Box<dyn DeviceModel>,
    params: CacheParams,
    salt: u64,
    hits: TimeQueue<LegOpId>,
}

impl CachedDevice {
    /// `inner` with a cache; `prng` decides which blocks are in it.
    #[must_use]
    pub fn new(inner: Box<dyn DeviceModel>, params: CacheParams, prng: &mut dyn Prng) -> Self {
        Self {
            inner,
            params,
            salt: prng.next_u64(),
            hits: TimeQueue::new(),
        }
    }

    fn is_hit(&self, kind: OpKind, extent: Extent) -> bool {
        let first = extent.offset() / BLOCK_BYTES;
        let last = extent.end().div_ceil(BLOCK_BYTES);
        kind == OpKind::Read
            && extent.len() < self.params.bypass_bytes
            && (first..last).all(|block| self.is_cached(block))
    }

    fn is_cached(&self, block: u64) -> bool {
        let mixed = (block ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 32)) % 1000 < u64::from(self.params.hit_permille)
    }
}

impl DeviceModel for CachedDevice {
    fn spec(&self) -> &DeviceSpec {
        self.inner.spec()
    }

    fn submit(
        &mut self,
        now: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
        prng: &mut dyn Prng,
    ) {
        if self.is_hit(kind, extent) {
            self.hits.push(now + self.params.hit_time, op);
        } else {
            self.inner.submit(now, op, kind, extent, prng);
        }
    }

    fn next_event_at(&self) -> Option<Instant> {
        earlier(self.inner.next_event_at(), self.hits.next_at())
    }

    fn poll_completion(&mut self, now: Instant) -> Option<(LegOpId, Result<(), ErrorKind>)> {
        let inner = self.inner.next_event_at();
        if self
            .hits
            .next_at()
            .is_some_and(|hit| inner.is_none_or(|at| hit <= at))
            && let Some((_, op)) = self.hits.pop_due(now)
        {
            return Some((op, Ok(())));
        }
        let ended = self.inner.poll_completion(now);
        ended.or_else(|| self.hits.pop_due(now).map(|(_, op)| (op, Ok(()))))
    }

    fn clone_box(&self) -> Box<dyn DeviceModel> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, RandomStream};

    use super::{CacheParams, CachedDevice};
    use crate::api::DeviceModel;
    use crate::drives::drive;

    fn cached(hit_permille: u32) -> (CachedDevice, RandomStream) {
        let mut prng = RandomStream::new(1, "leg", 0);
        let inner = drive("hdd-7200-2tb").unwrap().params.build(&mut prng);
        let params = CacheParams {
            hit_permille,
            ..CacheParams::default()
        };
        (CachedDevice::new(inner, params, &mut prng), prng)
    }

    /// How long one operation takes on an idle device.
    fn time_of(
        device: &mut CachedDevice,
        prng: &mut RandomStream,
        at: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
    ) -> Duration {
        device.submit(at, op, kind, extent, prng);
        loop {
            let next = device.next_event_at().unwrap();
            if let Some((ended, result)) = device.poll_completion(next) {
                assert_eq!((ended, result), (op, Ok(())));
                return next - at;
            }
        }
    }

    #[test]
    fn the_share_that_is_cached_is_fast_and_stays_so() {
        let (mut device, mut prng) = cached(900);
        let mut fast = 0;
        for number in 0..2000u64 {
            let extent = Extent::new(number * 7_919 * 65_536, 4096);
            let at = Instant::ZERO + Duration::from_secs(2 * number);
            let first = time_of(
                &mut device,
                &mut prng,
                at,
                LegOpId(2 * number),
                OpKind::Read,
                extent,
            );
            fast += u32::from(first == Duration::from_us(120));
        }
        assert!((1760..1840).contains(&fast), "{fast}");
    }

    #[test]
    fn large_reads_and_writes_go_past_it() {
        let (mut device, mut prng) = cached(1000);
        let hit = Duration::from_us(120);
        let small = Extent::new(1 << 30, 4096);
        let large = Extent::new(1 << 30, 1 << 20);
        for (number, kind, extent, is_hit) in [
            (0, OpKind::Read, small, true),
            (1, OpKind::Write, small, false),
            (2, OpKind::Read, large, false),
            (3, OpKind::Read, small, true),
        ] {
            let at = Instant::ZERO + Duration::from_secs(number);
            let time = time_of(&mut device, &mut prng, at, LegOpId(number), kind, extent);
            assert_eq!(time == hit, is_hit, "{number}: {time:?}");
        }
    }
}
