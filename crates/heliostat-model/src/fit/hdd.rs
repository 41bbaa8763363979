//! Hard disks: rates from streams, the seek curve and the turn from single reads, the queue from
//! many reads at a time.

use heliostat_types::Duration;

use super::{Measured, ProbeKind, Sample, from_ns, run_like, spread, whole};
use crate::api::ModelParams;
use crate::hdd::HddParams;

/// No arm is back this fast on average: what is faster does not turn.
const SINGLE_READ_MIN_NS: f64 = 1.5e6;

/// How fast drives turn that are sold.
const SPINDLE_RPM: [u32; 4] = [5400, 7200, 10_000, 15_000];

/// The longest seek beside the mean one, as data sheets have it.
const FULL_OF_MEAN: f64 = 2.0;

/// The longest seek to the next track beside the mean one: with [`FULL_OF_MEAN`] a curve that rises
/// everywhere has less than half of it.
const TRACK_OF_MEAN: f64 = 0.45;

/// The shortest seek to the next track.
const TRACK_MIN: Duration = Duration::from_us(100);

/// How patient a drive may be, from not at all.
const AGEING_PERMILLE: [u32; 6] = [0, 5, 20, 50, 120, 400];

/// Rounds of moving two times until the model's means are those that were measured: each halves
/// what is left, or better.
const ROUNDS: usize = 4;

/// The disk that does what was measured; `None` where nothing that turns could.
pub(super) fn fit(measured: &Measured<'_>) -> Option<ModelParams> {
    if measured.single().service_ns.mean() < SINGLE_READ_MIN_NS {
        return None;
    }
    let by_spindle = SPINDLE_RPM
        .into_iter()
        .filter_map(|rpm| turned(measured, rpm));
    let (_, params) = by_spindle.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(ModelParams::Hdd(queued(measured, params)))
}

/// What does not depend on the turn.
fn rates(measured: &Measured<'_>) -> HddParams {
    let outer = measured.stream_bytes_per_s();
    let inner = measured.inner_stream().map_or(outer, Sample::bytes_per_s);
    let outer_bytes_per_s = whole(outer, 200_000, 1_000_000_000);
    HddParams {
        size_bytes: measured.size_bytes,
        outer_bytes_per_s,
        inner_bytes_per_s: whole(inner, 100_000, outer_bytes_per_s),
        link_bytes_per_s: HddParams::NEUTRAL.link_bytes_per_s.max(outer_bytes_per_s),
        ..HddParams::NEUTRAL
    }
}

/// The disk with this spindle whose single reads take as long on average as those that were
/// measured, and by how much their spread differs.
fn turned(measured: &Measured<'_>, spindle_rpm: u32) -> Option<(f64, HddParams)> {
    let base = HddParams {
        spindle_rpm,
        ..rates(measured)
    };
    let half_turn_ns = 30e9 / f64::from(spindle_rpm);
    let single = measured.single();
    let around_ns = half_turn_ns + base.command_time.as_ns() as f64;
    let mut mean_ns = single.service_ns.mean() - around_ns;
    let near = measured.of(ProbeKind::Near);
    let mut track_ns = near.map_or(mean_ns / 8.0, |near| {
        (near.service_ns.mean() - around_ns) / 2.0
    });
    let mut params = base;
    for _ in 0..ROUNDS {
        params = with_seeks(base, mean_ns, track_ns);
        let model = ModelParams::Hdd(params);
        if model.check().is_err() {
            return None;
        }
        mean_ns += single.service_ns.mean() - run_like(&model, single).service_ns.mean();
        if let Some(near) = near {
            track_ns += near.service_ns.mean() - run_like(&model, near).service_ns.mean();
        }
    }
    let model = ModelParams::Hdd(params);
    let misses = [Some(single), near].into_iter().flatten().map(|sample| {
        let ours = run_like(&model, sample);
        let of_mean = ours.service_ns.mean() / sample.service_ns.mean() - 1.0;
        let of_spread = spread(&ours.service_ns) / spread(&sample.service_ns) - 1.0;
        // A mean that cannot be met says more than a spread.
        4.0 * of_mean.abs() + of_spread.abs()
    });
    Some((misses.sum(), params))
}

/// The same disk with other seeks, of the usual shape.
fn with_seeks(base: HddParams, mean_ns: f64, track_ns: f64) -> HddParams {
    let seek_mean = from_ns(mean_ns, TRACK_MIN + TRACK_MIN);
    let track_max = from_ns(seek_mean.as_ns() as f64 * TRACK_OF_MEAN, TRACK_MIN);
    let full_ns = seek_mean.as_ns() as f64 * FULL_OF_MEAN;
    HddParams {
        seek_track_to_track: from_ns(track_ns, TRACK_MIN).min(track_max),
        seek_mean,
        seek_full: from_ns(full_ns, seek_mean),
        ..base
    }
}

/// The same disk with the queue whose rates at depth come nearest.
fn queued(measured: &Measured<'_>, base: HddParams) -> HddParams {
    let is_deep = |kind| matches!(kind, ProbeKind::Random(depth) if depth > 1);
    let with_queue = AGEING_PERMILLE.map(|ageing_permille| HddParams {
        ageing_permille,
        ..base
    });
    // A drive without a queue of its own, or behind something that sends one at a time.
    let without = HddParams {
        queue_depth: 1,
        ..base
    };
    let all = with_queue.into_iter().chain([without]);
    let judged = all.map(|params| {
        let miss = measured.miss_of(&ModelParams::Hdd(params), is_deep);
        (miss, params)
    });
    let best = judged.min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(base, |(_, params)| params)
}
