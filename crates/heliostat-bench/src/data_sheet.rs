//! A data sheet of a device model, measured on the model itself: what it does under the loads that
//! data sheets and reviews tell of, in virtual time.

use heliostat_model::ModelParams;
use heliostat_model::claims::{Claim, Figure, sheet};
use heliostat_model::closed_loop::{ClosedLoop, Pattern, Run, run};
use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, Prng as _, RandomStream};
use serde_json::{Value, json};
use stdx::histogram::Histogram;

/// Depths that random requests are measured at.
const DEPTHS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Those of mixed loads.
const MIXED_DEPTHS: [usize; 4] = [1, 8, 32, 128];
/// Request sizes of streams.
const STREAM_BYTES: [u64; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Requests that a deep stream keeps in flight.
const STREAM_DEPTH: usize = 8;
/// Distances of seeks and places of zones are this many hundredths apart.
const STEP_PERCENT: u64 = 5;

/// All that was measured.
#[derive(Clone, Debug)]
pub struct DataSheet {
    /// What the drive is called.
    pub name: String,
    /// What it is made of.
    pub params: ModelParams,
    /// Whether it turns: then zones and seeks were measured.
    pub rotational: bool,
    /// Random 4 KiB reads, by depth.
    pub reads: Vec<DepthRow>,
    /// Random 4 KiB writes, by depth: the first seconds of an empty drive.
    pub writes: Vec<DepthRow>,
    /// Random 4 KiB requests, 70 % of them reads, by depth.
    pub mixed: Vec<MixedRow>,
    /// One stream from the start of the device, by the size of its requests.
    pub streams: Vec<StreamRow>,
    /// Bytes per second of one stream of 1 MiB reads, by hundredths of the device before it.
    pub zones: Vec<(u64, f64)>,
    /// How long an idle drive takes for a read so many hundredths of the device away.
    pub seeks: Vec<SeekRow>,
    /// Random 4 KiB writes at depth 32 on and on: seconds since the first one, and writes per
    /// second.
    pub steady: Vec<(f64, f64)>,
    /// The size of the device that these were written to: a smaller one of the same make shows
    /// sooner what happens when it is full.
    pub steady_size_bytes: u64,
    /// What others say of the drive, and what was measured of that.
    pub claims: Vec<(Claim, f64)>,
}

/// Random requests at one depth.
#[derive(Clone, Debug)]
pub struct DepthRow {
    /// Requests in flight.
    pub depth: usize,
    /// Requests per second.
    pub iops: f64,
    /// Service times in ns.
    pub service_ns: Histogram,
}

/// Random reads and writes at one depth.
#[derive(Clone, Debug)]
pub struct MixedRow {
    /// Requests in flight.
    pub depth: usize,
    /// Reads per second.
    pub read_iops: f64,
    /// Writes per second.
    pub write_iops: f64,
    /// Service times of reads in ns.
    pub read_ns: Histogram,
    /// Service times of writes in ns.
    pub write_ns: Histogram,
}

/// Streams of one request size, in bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct StreamRow {
    /// Bytes of a request.
    pub len_bytes: u64,
    /// Reads, one at a time.
    pub read_alone: f64,
    /// Reads, eight at a time.
    pub read_deep: f64,
    /// Writes, eight at a time.
    pub write_deep: f64,
}

/// Reads of an idle drive, one distance away from the one before.
#[derive(Clone, Copy, Debug)]
pub struct SeekRow {
    /// How far, in hundredths of the device; 0: a track or so.
    pub distance_percent: u64,
    /// The shortest time in ns: the sector came just when the arm was there.
    pub min_ns: u64,
    /// The mean time in ns: the same and half a turn.
    pub mean_ns: f64,
}

impl DataSheet {
    /// Measures a drive of this name and make. `progress` is told what is measured next.
    #[must_use]
    pub fn measure(name: &str, params: ModelParams, mut progress: impl FnMut(&str)) -> Self {
        let rig = Rig::new(params);
        progress("random reads");
        let reads = DEPTHS.map(|depth| rig.depth_row(depth, OpKind::Read));
        progress("random writes");
        let writes = DEPTHS.map(|depth| rig.depth_row(depth, OpKind::Write));
        progress("reads and writes");
        let mixed = MIXED_DEPTHS.map(|depth| rig.mixed_row(depth));
        progress("streams");
        let streams = STREAM_BYTES
            .into_iter()
            .filter_map(|len| rig.stream_row(len));
        let mut sheet = Self {
            name: name.to_owned(),
            params,
            rotational: rig.rotational,
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            mixed: mixed.to_vec(),
            streams: streams.collect(),
            zones: Vec::new(),
            seeks: Vec::new(),
            steady: Vec::new(),
            steady_size_bytes: 0,
            claims: Vec::new(),
        };
        if rig.rotational {
            progress("zones and seeks");
            sheet.zones = rig.zones();
            sheet.seeks = rig.seeks();
        }
        progress("writes on and on");
        (sheet.steady_size_bytes, sheet.steady) = rig.steady();
        sheet.claims = sheet.compared(name);
        sheet
    }

    /// The claims about the drive of this name, with what was measured.
    fn compared(&self, name: &str) -> Vec<(Claim, f64)> {
        let claims = heliostat_model::drive(name)
            .filter(|drive| drive.params == self.params)
            .and_then(|_| sheet(name))
            .map_or(&[][..], |sheet| sheet.claims);
        let with_value = claims.iter().filter_map(|claim| {
            let value = self.figure(claim.figure)?;
            Some((*claim, value))
        });
        with_value.collect()
    }

    /// What was measured of a figure that claims are made of; `None` where it has none.
    fn figure(&self, figure: Figure) -> Option<f64> {
        let at = |rows: &[DepthRow], depth| {
            let row = rows.iter().find(|row| row.depth == depth);
            row.map(|row| row.iops)
        };
        let most = |values: &mut dyn Iterator<Item = f64>| values.reduce(f64::max);
        match figure {
            Figure::ReadIopsDepth1 => at(&self.reads, 1),
            Figure::ReadIopsDepth32 => at(&self.reads, 32),
            Figure::ReadIopsMax => most(&mut self.reads.iter().map(|row| row.iops)),
            Figure::WriteIopsMax => most(&mut self.writes.iter().map(|row| row.iops)),
            Figure::ReadBandwidth => most(&mut self.streams.iter().map(|row| row.read_deep)),
            Figure::WriteBandwidth => most(&mut self.streams.iter().map(|row| row.write_deep)),
            Figure::SeekMean => {
                let ModelParams::Hdd(params) = self.params else {
                    return None;
                };
                // What is left of a random read without electronics and half a turn.
                let half_turn_ns = 30e9 / f64::from(params.spindle_rpm);
                let command_ns = params.command_time.as_ns() as f64;
                let mean_ns = self.reads.first()?.service_ns.mean();
                Some(mean_ns - half_turn_ns - command_ns)
            }
        }
    }

    /// All of it for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let depth = |row: &DepthRow| {
            json!({ "depth": row.depth, "iops": row.iops,
                "service_time_ns": times_json(&row.service_ns) })
        };
        let mixed = |row: &MixedRow| {
            json!({ "depth": row.depth, "read_iops": row.read_iops, "write_iops": row.write_iops,
                "read_service_time_ns": times_json(&row.read_ns),
                "write_service_time_ns": times_json(&row.write_ns) })
        };
        let stream = |row: &StreamRow| {
            json!({ "bs": row.len_bytes, "read_depth1_bw": row.read_alone,
                "read_depth8_bw": row.read_deep, "write_depth8_bw": row.write_deep })
        };
        let seek = |row: &SeekRow| {
            json!({ "distance_percent": row.distance_percent, "min_ns": row.min_ns,
                "mean_ns": row.mean_ns })
        };
        let claim = |(claim, value): &(Claim, f64)| {
            json!({ "figure": claim.figure.name(), "claimed": claim.value, "measured": value,
                "source": claim.source })
        };
        let pair = |(at, value): &(f64, f64)| json!([at, value]);
        json!({
            "model": self.name,
            "family": self.params.family(),
            "size_bytes": self.params.size_bytes(),
            "random_read": self.reads.iter().map(depth).collect::<Vec<_>>(),
            "random_write": self.writes.iter().map(depth).collect::<Vec<_>>(),
            "mixed_70_30": self.mixed.iter().map(mixed).collect::<Vec<_>>(),
            "sequential": self.streams.iter().map(stream).collect::<Vec<_>>(),
            "zone_read_bw": self.zones,
            "seek": self.seeks.iter().map(seek).collect::<Vec<_>>(),
            "steady_write_iops": self.steady.iter().map(pair).collect::<Vec<_>>(),
            "steady_size_bytes": self.steady_size_bytes,
            "claims": self.claims.iter().map(claim).collect::<Vec<_>>(),
        })
    }
}

fn times_json(times: &Histogram) -> Value {
    json!({
        "mean": times.mean(),
        "p50": times.quantile(5_000),
        "p90": times.quantile(9_000),
        "p99": times.quantile(9_900),
        "p99.9": times.quantile(9_990),
        "max": times.max(),
    })
}

/// Where drives of one make are measured, a new one for each figure.
struct Rig {
    params: ModelParams,
    rotational: bool,
    /// How long each figure is measured.
    length: Duration,
}

impl Rig {
    fn new(params: ModelParams) -> Self {
        // So many requests make a p99.9 that means something, and take milliseconds to compute.
        const REQUESTS: f64 = 60_000.0;
        let rotational = build(params).spec().rotational;
        let mut rig = Self {
            params,
            rotational,
            length: Duration::from_ms(20),
        };
        rig.length = if rotational {
            // 30 s of 75 requests each: figures within 2 %.
            Duration::from_secs(30)
        } else {
            let pilot = rig.run(32, Pattern::random_reads()).iops().max(1.0);
            Duration::from_secs_f64((REQUESTS / pilot).clamp(0.05, 10.0))
        };
        rig
    }

    fn run(&self, depth: usize, pattern: Pattern) -> Run {
        run(build(self.params).as_mut(), depth, pattern, self.length)
    }

    fn depth_row(&self, depth: usize, kind: OpKind) -> DepthRow {
        let run = self.run(depth, Pattern::random_reads().of(kind));
        DepthRow {
            depth,
            iops: run.iops(),
            service_ns: run.service_ns,
        }
    }

    fn mixed_row(&self, depth: usize) -> MixedRow {
        let pattern = Pattern {
            write_percent: 30,
            ..Pattern::random_reads()
        };
        let run = self.run(depth, pattern);
        let per_second = |times: &Histogram| times.count() as f64 / run.elapsed.as_secs_f64();
        MixedRow {
            depth,
            read_iops: per_second(&run.read_ns),
            write_iops: per_second(&run.write_ns),
            read_ns: run.read_ns,
            write_ns: run.write_ns,
        }
    }

    /// `None` where the device has no room for several requests of this size.
    fn stream_row(&self, len_bytes: u64) -> Option<StreamRow> {
        if self.params.size_bytes() / 100 < len_bytes {
            return None;
        }
        let pattern = Pattern {
            len_bytes,
            ..Pattern::stream()
        };
        let rate = |depth, kind| self.run(depth, pattern.of(kind)).bytes_per_s();
        Some(StreamRow {
            len_bytes,
            read_alone: rate(1, OpKind::Read),
            read_deep: rate(STREAM_DEPTH, OpKind::Read),
            write_deep: rate(STREAM_DEPTH, OpKind::Write),
        })
    }

    fn zones(&self) -> Vec<(u64, f64)> {
        let places = (0..100 / STEP_PERCENT).map(|step| step * STEP_PERCENT);
        let places = places.chain([99]);
        if self.params.size_bytes() / 100 < 1 << 20 {
            return Vec::new();
        }
        let zone = |from_percent| {
            let pattern = Pattern {
                from_percent,
                span_percent: 1,
                ..Pattern::stream()
            };
            (from_percent, self.run(STREAM_DEPTH, pattern).bytes_per_s())
        };
        places.map(zone).collect()
    }

    fn seeks(&self) -> Vec<SeekRow> {
        let distances = (0..=100 / STEP_PERCENT).map(|step| step * STEP_PERCENT);
        distances.map(|percent| self.seek_row(percent)).collect()
    }

    /// Reads two blocks so far apart, one after the other and from an idle drive, at many moments
    /// of the platter's turn.
    fn seek_row(&self, distance_percent: u64) -> SeekRow {
        const PROBES: u64 = 100;
        const BLOCK: u64 = 4096;
        let mut luck = RandomStream::new(1, "luck", 0);
        let mut places = RandomStream::new(1, "seek", distance_percent);
        let blocks = self.params.size_bytes() / BLOCK;
        // The nearest one lies just beyond what the drive reads ahead.
        let distance = match distance_percent {
            0 => (blocks / 1000).min((32 << 20) / BLOCK),
            percent => (blocks - 1) * percent / 100,
        };
        let mut times = Histogram::new();
        for probe in 0..PROBES {
            // A drive of its own for each, so that nothing is in its cache.
            let mut model = self.params.build(&mut RandomStream::new(1, "leg", probe));
            let mut now = Instant::ZERO;
            let from = places.below(blocks - distance);
            for (half, block) in [(0, from), (1, from + distance)] {
                let op = LegOpId(half);
                let since = now;
                let extent = Extent::new(block * BLOCK, BLOCK);
                model.submit(now, op, OpKind::Read, extent, &mut luck);
                while model.poll_completion(now).is_none() {
                    let next = model.next_event_at().expect("the read is in flight");
                    now = now.max(next);
                }
                if half == 1 {
                    times.record((now - since).as_ns());
                }
                // The arm rests; where the platter stands, chance says.
                now += Duration::from_us(20_000 + places.below(20_000));
            }
        }
        SeekRow {
            distance_percent,
            min_ns: times.min(),
            mean_ns: times.mean(),
        }
    }

    /// Writes on and on, in intervals that grow, until much was written or hours have passed.
    fn steady(&self) -> (u64, Vec<(f64, f64)>) {
        const WRITES_MAX: u64 = 3_000_000;
        const HOURS_MAX: Duration = Duration::from_secs(4 * 3600);
        /// What three million writes of 4 KiB fill.
        const FLASH_BYTES: u64 = 8 << 30;
        let is_flash = matches!(self.params, ModelParams::Flash(_));
        let size_bytes = match self.params.size_bytes() {
            size_bytes if is_flash => size_bytes.min(FLASH_BYTES),
            size_bytes => size_bytes,
        };
        let smaller = self.params.with_size(size_bytes);
        let params = if smaller.check().is_ok() {
            smaller
        } else {
            self.params
        };
        let mut model = build(params);
        let pattern = Pattern::random_reads().of(OpKind::Write);
        let mut writer = ClosedLoop::new(model.as_mut(), 32, pattern);
        let mut interval = self.length / 30;
        let (mut passed, mut written, mut points) = (Duration::ZERO, 0, Vec::new());
        while written < WRITES_MAX && passed < HOURS_MAX {
            let run = writer.run_for(interval);
            let middle = passed + interval / 2;
            points.push((middle.as_secs_f64(), run.iops()));
            written += run.service_ns.count();
            passed += interval;
            // A tenth longer each: some hundred points from a second to hours.
            interval = interval + interval / 10;
        }
        (params.size_bytes(), points)
    }
}

fn build(params: ModelParams) -> Box<dyn heliostat_model::DeviceModel> {
    params.build(&mut RandomStream::new(1, "leg", 0))
}

#[cfg(test)]
mod tests;
