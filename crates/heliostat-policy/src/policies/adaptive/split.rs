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
    /// there is to see, sixteen times at most; 128 times where the other way looks quicker by 3 %.
    READS: u32 = count(8);
    ROUNDS: u32 = count(16);
    ROUNDS_MAX: u32 = count(128);
    PROMISE: f32 = times(0.97);
    /// What is found of a load is waited for if an eighth of the reads have it.
    OFTEN: f32 = number(0.125);
    /// One way has to be quicker by 1 %, and by two standard errors of the difference.
    GAIN: f32 = times(0.99);
    ERRORS: f32 = number(2.0);
    /// What a load gains differs from what others do by 3 % of its time, as a standard error:
    /// what chance hides of one others tell.
    ALIKE: f32 = number(0.03);
    /// Between two tries lie 4,096 reads, then four times as many each time that nothing changed,
    /// up to 65,536, but no more than 4,096 of loads that are new: in the end less than one read of
    /// 1,000 is tried where one round tells, one of 100 where chance hides it, and some of 100
    /// where that promises something.
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
    /// A try has told which way is quicker.
    is_judged: bool,
    /// How long those of this try took as always, and in the other way.
    usual: Times,
    other: Times,
}

/// What there is to be said of the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Quicker,
    NotQuicker,
    /// Chance is all that there is to see.
    Unknown,
}

/// Reads of one size. All of them go the other way at once, whatever the load: those in flight
/// together are alike then.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    kinds: [Kind; LOADS],
    /// Reads until the next try, and how many there were until this one.
    wait: u32,
    waited: u32,
    /// How many there were since the last one of loads that no try has told of.
    unjudged: u32,
    /// Of this try: rounds so far, the phase of this one, the reads of this phase so far,
    rounds: u32,
    phase: Phase,
    reads: u32,
    /// how many of these find others in flight that went the other way,
    skipped: u64,
    /// and the answers of this round.
    answers: u32,
}

/// What reads of a try are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Before,
    Other,
    After,
    /// To wait for the answers.
    Over,
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
    /// Whether how long it takes is compared.
    #[cfg(test)]
    pub(super) const fn is_compared(&self) -> bool {
        self.kind.is_some()
    }

    /// Nothing that is known speaks for cutting it.
    pub(super) const WHOLE: Self = Self {
        is_cut: false,
        is_try: false,
        kind: None,
    };
}

/// What was found for each size and load, of random reads and of those of streams.
#[derive(Clone, Debug)]
pub(super) struct Splits {
    tried: [Tried; 2 * SIZES],
    followed: Vec<Followed>,
}

impl Splits {
    pub(super) fn new() -> Self {
        Self {
            tried: [Tried::default(); 2 * SIZES],
            followed: Vec::with_capacity(FOLLOWED),
        }
    }

    /// Whether a read of so many bytes, perhaps of a stream, is cut, where so many are in flight on
    /// the legs that would serve it. It counts as one that goes this way.
    pub(super) fn way(&mut self, len_bytes: u64, bytes_in_flight: u64, is_of_stream: bool) -> Way {
        let size = (len_bytes / BYTES_MIN.get().max(1)).max(1).ilog2() as usize;
        let size = size.min(SIZES - 1) + SIZES * usize::from(is_of_stream);
        // Of a read that was cut there may be a part of its bytes left.
        let quarters = bytes_in_flight.saturating_mul(4) / len_bytes.max(1);
        let reads = quarters.div_ceil(4);
        let load = reads.checked_ilog2().map_or(0, |load| load as usize + 1);
        if load >= LOADS {
            return Way::WHOLE;
        }
        let tried = &mut self.tried[size];
        let Kind {
            is_cut, is_judged, ..
        } = tried.kinds[load];
        if tried.wait > 0 {
            tried.wait -= 1;
            tried.unjudged += u32::from(!is_judged);
            if tried.unjudged >= WAIT_READS.get() {
                tried.wait = 0;
            }
            return Way {
                is_cut,
                ..Way::WHOLE
            };
        }
        let is_try = tried.phase == Phase::Other;
        let is_compared = tried.next_of_try(reads);
        if tried.is_round_over() {
            tried.end_round();
            self.followed.retain(|one| one.kind.0 != size);
        }
        Way {
            is_cut: is_cut != is_try,
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
        let tried = &mut self.tried[size];
        tried.answers += 1;
        let kind = &mut tried.kinds[load];
        let times = if followed.is_try {
            &mut kind.other
        } else {
            &mut kind.usual
        };
        times.add(time_ns);
    }
}

impl Tried {
    /// A read of a try, which finds so many in flight; whether it is one to compare.
    fn next_of_try(&mut self, in_flight: u64) -> bool {
        if self.reads == 0 {
            let is_change = matches!(self.phase, Phase::Other | Phase::After);
            self.skipped = if is_change { in_flight } else { 0 };
        }
        self.reads += 1;
        if self.phase == Phase::Over {
            return false;
        }
        let is_compared = u64::from(self.reads) > self.skipped;
        if u64::from(self.reads) >= self.skipped + u64::from(READS.get()) {
            self.phase = match self.phase {
                Phase::Before => Phase::Other,
                Phase::Other => Phase::After,
                Phase::After | Phase::Over => Phase::Over,
            };
            self.reads = 0;
        }
        is_compared
    }

    /// Whether all of a round was asked for, and answered as far as it will be.
    fn is_round_over(&self) -> bool {
        let is_answered = self.answers >= 3 * READS.get() || self.reads >= ANSWERS.get();
        self.phase == Phase::Over && self.reads > 0 && is_answered
    }

    /// Ends a round, and perhaps the try.
    fn end_round(&mut self) {
        self.rounds += 1;
        (self.phase, self.reads, self.answers) = (Phase::Before, 0, 0);
        let counts = self.kinds.iter().map(Kind::count);
        let often = counts.sum::<f32>() * OFTEN.get();
        let may_go_on = |kind: &Kind| {
            let is_often = kind.count() > often;
            is_often && self.rounds < kind.rounds_max()
        };
        if self.kinds.iter().any(may_go_on) {
            return;
        }
        let mut has_changed = false;
        let known = self.kinds;
        for (at, kind) in self.kinds.iter_mut().enumerate() {
            let others = known.iter().enumerate().filter(|(other, _)| *other != at);
            let others = others.filter(|(_, other)| other.is_cut == kind.is_cut);
            let others = Compared::of_all(others.map(|(_, other)| other.compared()));
            let verdict = kind.compared().beside(others).verdict();
            let is_quicker = verdict == Verdict::Quicker;
            has_changed |= is_quicker;
            // Of a load that was seen as often as that more is not told by trying again at once.
            let is_told = verdict != Verdict::Unknown || kind.count() > often;
            *kind = Kind {
                is_cut: kind.is_cut != is_quicker,
                is_judged: kind.is_judged || is_told,
                ..Kind::default()
            };
        }
        let waited = if has_changed {
            WAIT_READS.get()
        } else {
            let longer = self.waited.saturating_mul(WAIT_TIMES.get());
            longer.clamp(WAIT_READS.get(), WAIT_READS_MAX.get())
        };
        *self = Self {
            kinds: self.kinds,
            wait: waited,
            waited,
            ..Self::default()
        };
    }
}

impl Kind {
    /// How many answers there are.
    fn count(&self) -> f32 {
        self.usual.count + self.other.count
    }

    /// How many rounds are made for it.
    fn rounds_max(&self) -> u32 {
        let compared = self.compared();
        if compared.verdict() != Verdict::Unknown {
            0
        } else if compared.gain > 1.0 - PROMISE.get() {
            ROUNDS_MAX.get()
        } else {
            ROUNDS.get()
        }
    }

    fn compared(&self) -> Compared {
        let (usual, other) = (&self.usual, &self.other);
        if usual.count.min(other.count) < READS.get() as f32 {
            return Compared::default();
        }
        let mean = usual.mean().max(f32::MIN_POSITIVE);
        let error_squared = usual.error_squared() + other.error_squared();
        Compared {
            count: self.count(),
            gain: 1.0 - other.mean() / mean,
            error_squared: error_squared / (mean * mean),
        }
    }
}

/// What the other way gains.
#[derive(Clone, Copy, Debug, Default)]
struct Compared {
    /// Answers, 0 where these are too few.
    count: f32,
    /// The share of the time that it saves,
    gain: f32,
    /// and the square of that's standard error.
    error_squared: f32,
}

impl Compared {
    /// Of several loads, as if each had as many answers in both ways.
    fn of_all(all: impl Iterator<Item = Self> + Clone) -> Self {
        let count: f32 = all.clone().map(|one| one.count).sum();
        all.fold(Self::default(), |sum, one| {
            let share = one.count / count.max(1.0);
            Self {
                count,
                gain: sum.gain + share * one.gain,
                error_squared: sum.error_squared + share * share * one.error_squared,
            }
        })
    }

    /// The same where other loads gain so much: it is about as much here. Nothing is said of a load
    /// that has no answers.
    fn beside(self, others: Self) -> Self {
        if self.count == 0.0 || others.count == 0.0 {
            return self;
        }
        let unlike = others.error_squared + ALIKE.get() * ALIKE.get();
        let share = self.error_squared / (self.error_squared + unlike);
        Self {
            gain: self.gain + share * (others.gain - self.gain),
            error_squared: share * unlike,
            ..self
        }
    }

    fn verdict(&self) -> Verdict {
        let enough = 1.0 - GAIN.get();
        let chance = ERRORS.get() * self.error_squared.sqrt();
        if self.count == 0.0 {
            Verdict::Unknown
        } else if self.gain > enough.max(chance) {
            Verdict::Quicker
        } else if self.gain + chance < enough {
            Verdict::NotQuicker
        } else {
            Verdict::Unknown
        }
    }
}
