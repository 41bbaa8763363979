//! Network disks: latency and its tail from single reads, caps from many reads and from streams.

use heliostat_types::Duration;

use super::{Measured, from_ns, run_like, whole};
use crate::api::ModelParams;
use crate::network::NetworkDiskParams;

/// A cap that was not met lies higher by this factor, or more: nobody knows.
const UNMET_FACTOR: f64 = 2.0;

/// A cap was met where reads at that depth are this much fewer than their latency would allow.
const MET_SHARE: f64 = 0.8;

/// Rounds of moving the tail until the mean is the one that was measured.
const ROUNDS: usize = 3;

/// The network disk that does what was measured.
pub(super) fn fit(measured: &Measured<'_>) -> ModelParams {
    let single = measured.single();
    let mean_ns = single.service_ns.mean();
    let (most, depth) = measured.most();
    let allowed = single.rate() * depth as f64;
    let cap = if most < allowed * MET_SHARE {
        most
    } else {
        most * UNMET_FACTOR
    };
    let bytes_per_s = measured.stream_bytes_per_s().max(cap.min(most) * 4096.0);
    let floor_ns = single.service_ns.quantile(500) as f64;
    let sent_ns = 4096.0 / bytes_per_s * 1e9;
    let base = NetworkDiskParams {
        size_bytes: measured.size_bytes,
        latency_floor: from_ns((floor_ns - sent_ns).min(mean_ns), Duration::from_ns(1)),
        iops_max: u32::try_from(whole(cap, 1, 1_000_000_000)).expect("a cap that fits"),
        bytes_per_s_max: whole(bytes_per_s, 100_000, 1_000_000_000_000),
        ..NetworkDiskParams::NEUTRAL
    };
    let mut tail_ns = (mean_ns - floor_ns).max(0.0);
    let mut params = base;
    for _ in 0..ROUNDS {
        params = NetworkDiskParams {
            latency_tail_mean: from_ns(tail_ns, Duration::ZERO),
            ..base
        };
        let ours = run_like(&ModelParams::Network(params), single);
        tail_ns = (tail_ns + mean_ns - ours.service_ns.mean()).max(0.0);
    }
    ModelParams::Network(params)
}
