//! A model fitted to what was measured of a device.
//!
//! [`probes`] says what to measure: closed loops of reads, nothing else. Whoever has the device
//! (a program in real time, a test in virtual time) runs them and brings [`Sample`]s; [`fit`] then
//! looks for the parameters with which each family of models does the same under the same loops.
//! The loops run on the model itself, so whatever bias a short loop has is on both sides. The
//! family that misses least is taken, and by how much it misses is part of the answer.
//!
//! Not fitted: writes. They come from what is usual for a drive of the family; see docs/advise.md.

mod flash;
mod hdd;
mod network;

use std::fmt;

use heliostat_types::{Duration, RandomStream};
use stdx::histogram::Histogram;
use stdx::math::ln;

use crate::api::ModelParams;
use crate::closed_loop::{ClosedLoop, Pattern};

/// What one loop of reads is there to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// Random 4 KiB reads all over the device, so many at a time.
    Random(usize),
    /// The same one at a time over a fiftieth of the device: short seeks.
    Near,
    /// Random 64 KiB reads, one at a time: what bytes cost besides.
    Large,
    /// 1 MiB reads one behind the other from the beginning, one at a time.
    StreamAlone,
    /// The same, eight at a time, from so many hundredths of the device on.
    Stream(u64),
}

impl fmt::Display for ProbeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(depth) => write!(f, "random 4 KiB, depth {depth}"),
            Self::Near => f.write_str("random 4 KiB, near each other"),
            Self::Large => f.write_str("random 64 KiB"),
            Self::StreamAlone => f.write_str("stream, depth 1"),
            Self::Stream(percent) => write!(f, "stream at {percent} %"),
        }
    }
}

/// One loop of reads.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// What it is there to tell.
    pub kind: ProbeKind,
    /// What is asked for.
    pub pattern: Pattern,
    /// How many reads are in flight.
    pub depth: usize,
    /// How many hundredths of all the time it may take.
    pub time_percent: u64,
    /// After so many reads enough is known.
    pub reads_max: u64,
}

/// What came of one loop.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Which one.
    pub probe: Probe,
    /// From submission to completion, in ns, of the reads that have ended.
    pub service_ns: Histogram,
    /// How long it ran.
    pub elapsed: Duration,
}

impl Sample {
    /// Reads per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.service_ns.count() as f64 / self.elapsed.as_secs_f64()
    }

    /// Bytes per second.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.rate() * self.probe.pattern.len_bytes as f64
    }
}

/// Devices smaller than this have no room for the loops.
pub const SIZE_MIN_BYTES: u64 = 32 << 20;

/// With fewer reads than this a loop tells nothing.
const READS_MIN: u64 = 8;

/// So many hundredths of a device a stream crosses: enough that nothing is read twice, also on
/// small devices.
fn stream_span_percent(size_bytes: u64) -> u64 {
    const BYTES: u64 = 512 << 20;
    (BYTES * 100 / size_bytes.max(1)).clamp(2, 25)
}

/// What is to be measured of a device with `size_bytes`, in this order: what matters most comes
/// first.
#[must_use]
pub fn probes(size_bytes: u64) -> Vec<Probe> {
    let span_percent = stream_span_percent(size_bytes);
    let probe = |kind, time_percent| {
        let random = Pattern::random_reads();
        let (depth, pattern, reads_max) = match kind {
            ProbeKind::Random(depth) => (depth, random, 20_000),
            ProbeKind::Near => {
                let near = Pattern {
                    from_percent: 40,
                    ..random.over(2)
                };
                (1, near, 10_000)
            }
            ProbeKind::Large => {
                let large = Pattern {
                    len_bytes: 64 << 10,
                    ..random
                };
                (1, large, 10_000)
            }
            ProbeKind::StreamAlone => (1, Pattern::stream().over(span_percent), 1_000),
            ProbeKind::Stream(from_percent) => {
                let stream = Pattern {
                    from_percent,
                    ..Pattern::stream().over(span_percent)
                };
                (8, stream, 1_000)
            }
        };
        Probe {
            kind,
            pattern,
            depth,
            time_percent,
            reads_max,
        }
    };
    vec![
        probe(ProbeKind::Random(1), 25),
        probe(ProbeKind::Stream(0), 8),
        probe(ProbeKind::Random(32), 20),
        probe(ProbeKind::Stream(100 - span_percent), 7),
        probe(ProbeKind::StreamAlone, 5),
        probe(ProbeKind::Random(4), 10),
        probe(ProbeKind::Near, 12),
        probe(ProbeKind::Random(128), 5),
        probe(ProbeKind::Large, 8),
    ]
}

/// A model, and how well it does what was measured.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The model.
    pub params: ModelParams,
    /// What it does beside what was measured, a line for each loop.
    pub misses: Vec<Miss>,
    /// By how much it misses: the root of the mean square of all misses, as a share.
    pub residual: f64,
    /// How sure it is that the device is of this family.
    pub confidence: Confidence,
    /// The family that comes next, and by how much that misses.
    pub rival: Option<(&'static str, f64)>,
}

/// One figure beside the model's.
#[derive(Clone, Copy, Debug)]
pub struct Miss {
    /// Of which loop.
    pub kind: ProbeKind,
    /// Reads per second, as measured.
    pub measured: f64,
    /// Reads per second, as the model has them.
    pub modelled: f64,
}

impl Miss {
    /// How far the model is above what was measured, as a share; negative below.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.modelled / self.measured - 1.0
    }
}

/// How sure a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// It fits, and no other does.
    Sure,
    /// It fits, and another one does nearly as well; or it is the best of those that do not fit
    /// well, by far.
    Likely,
    /// None fits well.
    Unsure,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sure => "sure",
            Self::Likely => "likely",
            Self::Unsure => "unsure",
        })
    }
}

/// Why there is no fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FitError {
    /// A loop that nothing can be told without is missing, or had too few reads.
    TooLittle(ProbeKind),
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::TooLittle(kind) = self;
        write!(
            f,
            "too little was measured to tell what it is: fewer than {READS_MIN} reads of '{kind}' \
             ended in their time"
        )
    }
}

impl std::error::Error for FitError {}

/// A model that fits misses by less.
const FITS: f64 = 0.12;

/// Where another family misses by less than so many times as much, it is a rival.
const RIVAL_FACTOR: f64 = 1.5;

/// Fits a model to what was measured of a device with `size_bytes`.
///
/// # Errors
/// Where too little was measured.
///
/// # Panics
/// Where the device is smaller than [`SIZE_MIN_BYTES`].
pub fn fit(size_bytes: u64, samples: &[Sample]) -> Result<Fit, FitError> {
    assert!(size_bytes >= SIZE_MIN_BYTES, "there is room for the loops");
    let measured = Measured::new(size_bytes, samples)?;
    let mut candidates = vec![flash::fit(&measured), network::fit(&measured)];
    candidates.extend(hdd::fit(&measured));
    candidates.retain(|params| params.check().is_ok());
    let mut judged: Vec<(f64, ModelParams)> = candidates
        .into_iter()
        .map(|params| (measured.residual(&params), params))
        .collect();
    judged.sort_by(|a, b| a.0.total_cmp(&b.0));
    let &(residual, params) = judged.first().expect("flash can be as fast as anything");
    let rival = judged.get(1).map(|&(miss, ref it)| (it.family(), miss));
    let is_alone = rival.is_none_or(|(_, miss)| miss > residual * RIVAL_FACTOR);
    let confidence = match (residual < FITS, is_alone) {
        (true, true) => Confidence::Sure,
        (true, false) | (false, true) => Confidence::Likely,
        (false, false) => Confidence::Unsure,
    };
    Ok(Fit {
        params,
        misses: measured.misses(&params),
        residual,
        confidence,
        rival,
    })
}

/// What was measured, of loops with enough reads.
struct Measured<'a> {
    /// A whole number of blocks.
    size_bytes: u64,
    /// As they were measured.
    raw: Vec<&'a Sample>,
    /// Without what the machine did to them.
    samples: Vec<Sample>,
}

impl<'a> Measured<'a> {
    fn new(size_bytes: u64, samples: &'a [Sample]) -> Result<Self, FitError> {
        let enough = samples.iter().filter(|sample| {
            sample.service_ns.count() >= READS_MIN && sample.elapsed > Duration::ZERO
        });
        let raw: Vec<&Sample> = enough.collect();
        let measured = Self {
            size_bytes: size_bytes - size_bytes % 4096,
            samples: raw.iter().map(|sample| calmed(sample)).collect(),
            raw,
        };
        for kind in [ProbeKind::Random(1), ProbeKind::Stream(0)] {
            if measured.of(kind).is_none() {
                return Err(FitError::TooLittle(kind));
            }
        }
        Ok(measured)
    }

    fn of(&self, kind: ProbeKind) -> Option<&Sample> {
        let mut samples = self.samples.iter();
        samples.find(|sample| sample.probe.kind == kind)
    }

    /// Random reads one at a time, without which there is no fit.
    fn single(&self) -> &Sample {
        self.of(ProbeKind::Random(1)).expect("was looked for")
    }

    /// Bytes per second of the fastest stream.
    fn stream_bytes_per_s(&self) -> f64 {
        let streams = self.samples.iter().filter(|sample| {
            let kind = sample.probe.kind;
            matches!(kind, ProbeKind::Stream(_) | ProbeKind::StreamAlone)
        });
        streams
            .map(|sample| sample.bytes_per_s())
            .fold(1.0, f64::max)
    }

    /// The stream furthest to the end of the device.
    fn inner_stream(&self) -> Option<&Sample> {
        let streams = self.samples.iter();
        streams
            .filter(|sample| matches!(sample.probe.kind, ProbeKind::Stream(_)))
            .max_by_key(|sample| sample.probe.kind)
    }

    /// The most random reads per second, and at which depth.
    fn most(&self) -> (f64, usize) {
        let random = self.samples.iter().filter_map(|sample| {
            let ProbeKind::Random(depth) = sample.probe.kind else {
                return None;
            };
            Some((sample.rate(), depth))
        });
        random
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .expect("there is a loop of depth 1")
    }

    /// By how much a model misses, over all loops and the spread of single reads.
    fn residual(&self, params: &ModelParams) -> f64 {
        let mut squares = 0.0;
        let mut count = 0.0;
        for sample in &self.samples {
            let model = run_like(params, sample);
            let weight = weight(sample);
            let miss = ln(model.rate() / sample.rate());
            squares += miss * miss * weight;
            count += weight;
            if sample.probe.kind == ProbeKind::Random(1) {
                let miss = ln(spread(&model.service_ns) / spread(&sample.service_ns));
                squares += miss * miss * weight;
                count += weight;
            }
        }
        (squares / count).sqrt()
    }

    fn misses(&self, params: &ModelParams) -> Vec<Miss> {
        let samples = self.raw.iter();
        samples
            .map(|sample| Miss {
                kind: sample.probe.kind,
                measured: sample.rate(),
                modelled: run_raw(params, sample).rate(),
            })
            .collect()
    }

    /// By how much a model misses at these loops alone.
    fn miss_of(&self, params: &ModelParams, is_wanted: impl Fn(ProbeKind) -> bool) -> f64 {
        let samples = self.samples.iter();
        samples
            .filter(|sample| is_wanted(sample.probe.kind))
            .map(|sample| {
                let miss = ln(run_like(params, sample).rate() / sample.rate());
                miss * miss * weight(sample)
            })
            .sum()
    }
}

/// What a loop's miss counts for: few reads of a disk say little, as each has its own luck.
fn weight(sample: &Sample) -> f64 {
    /// With so many the mean of a disk's reads is within some percent.
    const READS_ENOUGH: f64 = 100.0;
    (sample.service_ns.count() as f64 / READS_ENOUGH).min(1.0)
}

/// How much longer long reads take than short ones, without the longest and the shortest.
fn spread(service_ns: &Histogram) -> f64 {
    let (short, long) = (service_ns.quantile(1_000), service_ns.quantile(9_000));
    long as f64 / short.max(1) as f64
}

/// Of random reads one at a time, without the longest fifth: on a machine that has other things to
/// do some answers are seen late, whatever the device is, and few of them would make flash a
/// network disk. Of models as much is left out, so that what a device does by itself cancels.
fn calmed(sample: &Sample) -> Sample {
    const KEPT_PERCENT: u64 = 80;
    let pattern = sample.probe.pattern;
    if sample.probe.depth > 1 || pattern.sequential {
        return sample.clone();
    }
    let count = sample.service_ns.count();
    let mut left = (count * KEPT_PERCENT).div_ceil(100);
    let (mut kept, mut kept_ns, mut all_ns) = (Histogram::new(), 0.0, 0.0);
    for (low, width, count) in sample.service_ns.buckets() {
        let (value, taken) = (low + width / 2, count.min(left));
        kept.record_many(value, taken);
        left -= taken;
        kept_ns += value as f64 * taken as f64;
        all_ns += value as f64 * count as f64;
    }
    let share = if all_ns > 0.0 { kept_ns / all_ns } else { 1.0 };
    Sample {
        probe: sample.probe,
        service_ns: kept,
        elapsed: from_ns(sample.elapsed.as_ns() as f64 * share, Duration::from_ns(1)),
    }
}

/// Runs the loop of `sample` on a model, and leaves out what is left out of what was measured.
fn run_like(params: &ModelParams, sample: &Sample) -> Sample {
    calmed(&run_raw(params, sample))
}

/// Runs the loop of `sample` on a model: for about as many reads as are needed for a mean.
fn run_raw(params: &ModelParams, sample: &Sample) -> Sample {
    const RANDOM_READS: f64 = 1_500.0;
    const STREAM_READS: f64 = 250.0;
    let reads = if sample.probe.pattern.sequential {
        STREAM_READS
    } else {
        RANDOM_READS
    };
    // What is in flight at the end does not count, and is not to matter.
    let reads = reads + 4.0 * sample.probe.depth as f64;
    let length = Duration::from_secs_f64((reads / sample.rate()).min(200.0));
    run_probe(params, sample.probe, length, 1)
}

/// Runs a loop on a model for a length of virtual time.
#[must_use]
pub fn run_probe(params: &ModelParams, probe: Probe, length: Duration, seed: u64) -> Sample {
    let mut model = params.build(&mut RandomStream::new(seed, "leg", 0));
    let mut around = ClosedLoop::with_seed(model.as_mut(), probe.depth, probe.pattern, seed);
    let run = around.run_for(length);
    Sample {
        probe,
        service_ns: run.service_ns,
        elapsed: run.elapsed,
    }
}

/// A length of time from a number of ns, which may be anything.
fn from_ns(ns: f64, min: Duration) -> Duration {
    Duration::from_secs_f64((ns / 1e9).clamp(0.0, 90.0)).max(min)
}

/// A number that is not negative as a whole one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what fits"
)]
fn whole(value: f64, min: u64, max: u64) -> u64 {
    value.clamp(min as f64, max as f64) as u64
}

#[cfg(test)]
mod tests;
