//! Flash: the link from streams, the controller from the most reads per second, dies and their
//! time from what lies between.

use heliostat_types::Duration;

use super::{Measured, ProbeKind, from_ns, run_like, whole};
use crate::api::ModelParams;
use crate::drives::drive;
use crate::flash::FlashParams;

/// Links faster than this are no SATA.
const SATA_BYTES_PER_S: f64 = 650e6;

/// Dies, or whatever works side by side.
const DIE_COUNTS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Shares of a read's time that its die has it, in percent.
const DIE_PERCENTS: [u32; 3] = [95, 75, 40];

/// What writes reach of the link's rate while flash is erased, in percent, as named drives do.
const WRITE_PERCENT: f64 = 80.0;

/// Rounds of moving the times until the model meets single reads and the most reads.
const ROUNDS: usize = 3;

/// The flash drive that does what was measured.
pub(super) fn fit(measured: &Measured<'_>) -> ModelParams {
    let link = measured.stream_bytes_per_s();
    let usual = if link > SATA_BYTES_PER_S {
        usual("nvme-gen3")
    } else {
        usual("ssd-sata-1tb")
    };
    let (most, _) = measured.most();
    let command_time = from_ns(1e9 / most, Duration::ZERO);
    let base = FlashParams {
        size_bytes: measured.size_bytes,
        link_bytes_per_s: whole(link, 200_000, 900_000_000_000),
        read_command_time: command_time,
        write_command_time: command_time,
        ..usual
    };
    let candidates = DIE_COUNTS.into_iter().flat_map(|die_count| {
        DIE_PERCENTS
            .into_iter()
            .map(move |percent| (die_count, percent))
    });
    let judged = candidates.map(|(die_count, percent)| {
        let params = met(measured, with_dies(base, die_count), percent);
        let is_wanted = |kind| kind != ProbeKind::Near;
        let miss = measured.miss_of(&ModelParams::Flash(params), is_wanted);
        (miss, params)
    });
    let best = judged.min_by(|a, b| a.0.total_cmp(&b.0));
    let (_, params) = best.expect("there are candidates");
    ModelParams::Flash(params)
}

/// What a drive is like of which nothing is known.
fn usual(name: &str) -> FlashParams {
    match drive(name).map(|drive| drive.params) {
        Some(ModelParams::Flash(params)) => params,
        _ => FlashParams::NEUTRAL,
    }
}

/// The same drive with so many dies, which together write as fast as is usual.
fn with_dies(base: FlashParams, die_count: u32) -> FlashParams {
    let unit_bytes = f64::from(base.unit_bytes) * f64::from(die_count);
    let write_bytes_per_s = base.link_bytes_per_s as f64 * WRITE_PERCENT / 100.0;
    let program_time = from_ns(unit_bytes / write_bytes_per_s * 1e9, Duration::from_us(1));
    FlashParams {
        die_count,
        program_time,
        slc_program_time: program_time,
        slc_cache_bytes: 0,
        ..base
    }
}

/// The same drive with times with which it does single reads as measured, and no more reads than
/// that at once, if it can.
fn met(measured: &Measured<'_>, base: FlashParams, die_percent: u32) -> FlashParams {
    let single = measured.single();
    let single_ns = single.service_ns.mean();
    let (most, depth) = measured.most();
    let deepest = measured.of(ProbeKind::Random(depth)).unwrap_or(single);
    let sent_ns = 4096.0 / base.link_bytes_per_s as f64 * 1e9;
    let mut command_ns = base.read_command_time.as_ns() as f64;
    let mut params = base;
    for _ in 0..ROUNDS {
        let rest_ns = (single_ns - sent_ns - command_ns).max(1.0);
        let die_ns = rest_ns * f64::from(die_percent) / 100.0;
        params = FlashParams {
            read_command_time: from_ns(command_ns, Duration::ZERO),
            read_time: from_ns(die_ns, Duration::ZERO),
            fixed_time: from_ns(rest_ns - die_ns, Duration::from_ns(1)),
            ..base
        };
        let rate = run_like(&ModelParams::Flash(params), deepest).rate();
        // What is too slow for other reasons does not get faster by this.
        command_ns = (command_ns + 1e9 / most - 1e9 / rate).clamp(0.0, 1e9 / most);
    }
    params
}
