//! Whether a read of flash is cut among several legs that are alike.
//!
//! Each has a part of it to move then, and all have a command more. Which of both counts depends on
//! the drives, on what is between them and here, and on what else there is to do; so it is tried,
//! for each size and load by itself: some reads as they always are, some in the other way, some as
//! always again. The other way has to be quicker by more than chance.

use heliostat_types::{Extent, Instant};

use crate::choice::piece_bytes;
use crate::constants::constants;

constants! { "split":
    /// What is shorter is not cut: a drive reads 16 KiB at once, and a part of it as long.
    BYTES_MIN: u64 = bytes(16 << 10);
    /// No part is shorter.
    PART_BYTES_MIN: u64 = bytes(8 << 10);

    /// So many reads are compared in each way, and as many again as long as chance may be all that
    /// there is to see, sixteen times at most.
    READS: u32 = count(8);
    ROUNDS_MAX: u32 = count(16);
    /// One way has to be quicker by 1 %, and by two standard errors of the difference.
    GAIN: f32 = times(0.99);
    ERRORS: f32 = number(2.0);
    /// Between two tries lie 4,096 reads, then four times as many each time that nothing changed,
    /// up to 65,536: less than one read of 1,000 is tried where one round tells, and one of 100
    /// where chance hides it.
    WAIT_READS: u32 = count(1 << 12);
    WAIT_TIMES: u32 = count(4);
    WAIT_READS_MAX: u32 = count(1 << 16);
    /// Answers are waited for this many reads longer; some are to no leg that answers.
    ANSWERS: u32 = count(64);
}

/// Sizes and loads that are kept apart: each twice the one before.
const SIZES: usize = 8;
const LOADS: usize = 6;
/// Reads of tries that are followed at once.
const FOLLOWED: usize = 64;

/// Whether reads of this length are ever cut.
pub(super) fn may_be(len_bytes: u64) -> bool {
    len_bytes >= BYTES_MIN.get()
}

/// Into how many parts a read is cut at most, where there are so many legs.
pub(super) fn parts(len_bytes: u64, legs: usize) -> usize {
    let rest = |parts: usize| {
        let others = piece_bytes(len_bytes, parts).saturating_mul(parts as u64 - 1);
        len_bytes.saturating_sub(others)
    };
    let mut parts = legs;
    while parts > 1 && rest(parts) < PART_BYTES_MIN.get() {
        parts -= 1;
    }
    parts
}

/// The sum of times, and of their squares.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    count: f32,
    sum: f32,
    squares: f32,
}

impl Times {
    fn add(&mut self, time_ns: f32) {
        self.count += 1.0;
        self.sum += time_ns;
        self.squares += time_ns * time_ns;
    }

    fn mean(&self) -> f32 {
        self.sum / self.count.max(1.0)
    }

    /// The square of the mean's standard error.
    fn error_squared(&self) -> f32 {
        let mean = self.mean();
        let variance = (self.squares / self.count.max(1.0) - mean * mean).max(0.0);
        variance / (self.count - 1.0).max(1.0)
    }
}

/// What is known of reads of one size at one load.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    is_cut: bool,
    /// Reads until the next try, and how many there were until this one.
    wait: u32,
    waited: u32,
    /// Reads of this try so far, and rounds.
    reads: u32,
    rounds: u32,
    /// How long they took as always, and in the other way.
    usual: Times,
    other: Times,
}

/// A read of a try that is under way.
#[derive(Clone, Copy, Debug)]
struct Followed {
    extent: Extent,
    began: Instant,
    left_bytes: u64,
    kind: (usize, usize),
    is_try: bool,
}

/// What is to become of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) is_cut: bool,
    /// Such reads go the other way else.
    is_try: bool,
    /// How long it takes is of interest: for these reads.
    kind: Option<(usize, usize)>,
}

impl Way {
    /// Nothing that is known speaks for cutting it.
    pub(super) const WHOLE: Self = Self {
        is_cut: false,
        is_try: false,
        kind: None,
    };
}

/// What was found for each size and load.
#[derive(Clone, Debug)]
pub(super) struct Splits {
    kinds: [[Kind; LOADS]; SIZES],
    followed: Vec<Followed>,
}

impl Splits {
    pub(super) fn new() -> Self {
        Self {
            kinds: [[Kind::default(); LOADS]; SIZES],
            followed: Vec::with_capacity(FOLLOWED),
        }
    }

    /// Whether a read of so many bytes is cut, where so many are in flight on the legs that would
    /// serve it. It counts as one that goes this way.
    pub(super) fn way(&mut self, len_bytes: u64, bytes_in_flight: u64) -> Way {
        let size = (len_bytes / BYTES_MIN.get().max(1)).max(1).ilog2() as usize;
        let size = size.min(SIZES - 1);
        // Of a read that was cut there may be a part of its bytes left.
        let quarters = bytes_in_flight.saturating_mul(4) / len_bytes.max(1);
        let reads = quarters.div_ceil(4);
        let load = reads.checked_ilog2().map_or(0, |load| load as usize + 1);
        if load >= LOADS {
            return Way::WHOLE;
        }
        let kind = &mut self.kinds[size][load];
        if kind.wait > 0 {
            kind.wait -= 1;
            return Way {
                is_cut: kind.is_cut,
                ..Way::WHOLE
            };
        }
        // Those that find others in flight which went the other way are not compared.
        let skipped = (1u32 << load) - 1;
        let phase = skipped + READS.get();
        let at = kind.reads;
        kind.reads += 1;
        let is_try = (phase..2 * phase).contains(&at);
        let is_compared = at < 3 * phase && at % phase >= skipped;
        if at >= 3 * phase {
            let compared = kind.usual.count + kind.other.count;
            let wanted = (3 * READS.get() * (kind.rounds + 1)) as f32;
            if compared >= wanted || at >= 3 * phase + ANSWERS.get() {
                kind.end_round();
                self.followed.retain(|one| one.kind != (size, load));
            }
        }
        Way {
            is_cut: kind.is_cut != is_try,
            is_try,
            kind: is_compared.then_some((size, load)),
        }
    }

    /// A read is sent this way.
    pub(super) fn sent(&mut self, now: Instant, extent: Extent, way: Way) {
        let Some(kind) = way.kind else {
            return;
        };
        if self.followed.len() == FOLLOWED {
            // The oldest was lost, or its leg is silent.
            self.followed.remove(0);
        }
        self.followed.push(Followed {
            extent,
            began: now,
            left_bytes: extent.len(),
            kind,
            is_try: way.is_try,
        });
    }

    /// A leg has answered a read of these bytes of the array.
    pub(super) fn answered(&mut self, now: Instant, extent: Extent) {
        if self.followed.is_empty() {
            return;
        }
        let is_of = |followed: &Followed| {
            followed.extent.offset() <= extent.offset() && extent.end() <= followed.extent.end()
        };
        let Some(at) = self.followed.iter().position(is_of) else {
            return;
        };
        let followed = &mut self.followed[at];
        followed.left_bytes = followed.left_bytes.saturating_sub(extent.len());
        if followed.left_bytes > 0 {
            return;
        }
        let followed = self.followed.remove(at);
        let time_ns = now.saturating_since(followed.began).as_ns() as f32;
        let (size, load) = followed.kind;
        let kind = &mut self.kinds[size][load];
        if kind.wait == 0 {
            let times = if followed.is_try {
                &mut kind.other
            } else {
                &mut kind.usual
            };
            times.add(time_ns);
        }
    }
}

impl Kind {
    /// All of a round was asked for, and answered as far as it will be.
    fn end_round(&mut self) {
        self.rounds += 1;
        self.reads = 0;
        let (usual, other) = (self.usual.mean(), self.other.mean());
        let error = (self.usual.error_squared() + self.other.error_squared()).sqrt();
        let chance = ERRORS.get() * error;
        let is_known = self.usual.count > 0.0 && self.other.count > 0.0;
        let is_quicker = is_known && other < usual * GAIN.get() && other + chance < usual;
        let is_slower = is_known && other - chance > usual * GAIN.get();
        if !is_quicker && !is_slower && self.rounds < ROUNDS_MAX.get() {
            return;
        }
        let waited = if is_quicker {
            WAIT_READS.get()
        } else {
            let longer = self.waited.saturating_mul(WAIT_TIMES.get());
            longer.clamp(WAIT_READS.get(), WAIT_READS_MAX.get())
        };
        *self = Self {
            is_cut: self.is_cut != is_quicker,
            wait: waited,
            waited,
            ..Self::default()
        };
    }
}
