//! What one device can do at best, measured on its model.

use heliostat_model::ModelParams;
use heliostat_types::{Duration, Extent, Instant, LegOpId, OpKind, Prng, RandomStream};

/// Draws for one distribution. The tail that is used is rarely below a thousandth.
const SAMPLES: usize = 20_000;

/// Places of the arm from which draws begin: sixteenths of the region. The best of them counts,
/// because a policy may have put the arm there.
const ANCHORS: [u64; 3] = [4, 7, 10];

/// More operations at once than any flash drive has dies for, and than any hard disk looks at;
/// and how many are timed, beginning with an empty drive.
const FLASH_DEPTH: usize = 2048;
const FLASH_TIMED: usize = 40_000;
/// Of large operations fewer occupy every die: no more at once than have these bytes, and
/// proportionally fewer timed, but always some that wait. Pages are what takes our time.
const FLASH_AHEAD_BYTES: u64 = 256 << 20;
const FLASH_DEPTH_MIN: usize = 16;
const HDD_DEPTH: usize = 64;
const HDD_TIMED: usize = 4_000;

/// What is asked of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) region: Extent,
    pub(super) len_bytes: u64,
    pub(super) is_random: bool,
}

/// How long one operation takes that has the device to itself.
#[derive(Clone, Debug)]
pub(super) struct ServiceTimes {
    /// From each anchor, by length.
    anchors: Vec<Vec<u64>>,
}

impl ServiceTimes {
    /// The least mean, in seconds, that somebody can get who takes the shortest of `choices`
    /// independent draws, or less: the mean of the shortest `1 / choices` of all draws. No
    /// dependence between the draws can make it less (union bound).
    pub(super) fn best_of(&self, choices: f64) -> f64 {
        let means = self.anchors.iter().map(|draws| {
            let share = draws.len() as f64 / choices.max(1.0);
            let mut left = share;
            let mut sum = 0.0;
            for &ns in draws {
                let part = left.min(1.0);
                sum += part * ns as f64;
                left -= part;
                if left <= 0.0 {
                    break;
                }
            }
            sum / share / 1e9
        });
        means.fold(f64::INFINITY, f64::min)
    }
}

/// Draws service times of single operations on an idle device: of random ones with the arm at one
/// place and the platter anywhere, of a stream's one after the other.
pub(super) fn service_times(params: &ModelParams, kind: OpKind, asked: Asked) -> ServiceTimes {
    let mut luck = RandomStream::new(1, "leg", 0);
    let mut places = RandomStream::new(1, "bound", 0);
    let mut model = params.build(&mut luck);
    let rotational = model.spec().rotational;
    let anchors = if rotational && asked.is_random {
        &ANCHORS[..]
    } else {
        &ANCHORS[..1]
    };
    let blocks = asked.region.len() / asked.len_bytes;
    let mut now = Instant::ZERO;
    let mut alone = |now: &mut Instant, kind, block: u64| {
        let extent = Extent::new(
            asked.region.offset() + block * asked.len_bytes,
            asked.len_bytes,
        );
        let began = *now;
        model.submit(*now, LegOpId(0), kind, extent, &mut luck);
        while model.poll_completion(*now).is_none() {
            *now = model.next_event_at().expect("it is in flight").max(*now);
        }
        (*now - began).as_ns()
    };
    let mut result = ServiceTimes {
        anchors: Vec::new(),
    };
    for anchor in anchors {
        let mut draws = Vec::with_capacity(SAMPLES);
        for index in 0..SAMPLES as u64 {
            let block = if asked.is_random {
                if rotational {
                    alone(&mut now, OpKind::Read, blocks * anchor / 16);
                }
                // Writes must have left the drive, and the platter must stand anywhere.
                now += Duration::from_ms(20) + Duration::from_ns(places.below(20_000_000));
                places.below(blocks)
            } else {
                index % blocks
            };
            draws.push(alone(&mut now, kind, block));
        }
        draws.sort_unstable();
        result.anchors.push(draws);
    }
    result
}

/// The most operations per second, of which `read_percent` are reads, at any depth.
pub(super) fn saturated(params: &ModelParams, read_percent: u64, asked: Asked) -> f64 {
    let mut luck = RandomStream::new(1, "leg", 0);
    let mut places = RandomStream::new(1, "bound", 1);
    let mut model = params.build(&mut luck);
    let blocks = asked.region.len() / asked.len_bytes;
    let mut now = Instant::ZERO;
    let (depth, timed) = if model.spec().rotational {
        (HDD_DEPTH, HDD_TIMED)
    } else {
        let ahead = usize::try_from(FLASH_AHEAD_BYTES / asked.len_bytes).unwrap_or(FLASH_DEPTH);
        let depth = ahead.clamp(FLASH_DEPTH_MIN, FLASH_DEPTH);
        (depth, FLASH_TIMED * depth / FLASH_DEPTH)
    };
    let (mut sent, mut ended) = (0, 0);
    // It is counted from the first ones that came through the empty drive on, which may have room
    // for a burst, and from when as many have ended as wait, so that every queue within has filled.
    let mut marks: Vec<(Instant, usize)> = Vec::new();
    while ended < timed {
        while sent < ended + depth {
            let block = if asked.is_random {
                places.below(blocks)
            } else {
                sent as u64 % blocks
            };
            let extent = Extent::new(
                asked.region.offset() + block * asked.len_bytes,
                asked.len_bytes,
            );
            let kind = if places.below(100) < read_percent {
                OpKind::Read
            } else {
                OpKind::Write
            };
            model.submit(now, LegOpId(sent as u64), kind, extent, &mut luck);
            sent += 1;
        }
        now = model.next_event_at().expect("it is saturated").max(now);
        while model.poll_completion(now).is_some() {
            ended += 1;
        }
        if ended >= [1, depth].get(marks.len()).copied().unwrap_or(usize::MAX) {
            marks.push((now, ended));
        }
    }
    let rates = marks
        .into_iter()
        .map(|(since, before)| (ended - before) as f64 / (now - since).as_secs_f64());
    rates.fold(0.0, f64::max)
}
