//! Whether a leg is slower than it is known to be, and when it is tried again.
//!
//! Answers are counted by *rounds*: a slow answer begins one, and another counts only if it was
//! asked for after that. So a pause of the device, which delays all that is in flight, is one slow
//! round however deep the queue; a leg that has turned slow has two soon. One answer in time ends
//! it.

use heliostat_types::{Duration, Instant};

use crate::constants::constants;

constants! { "health":
    /// So many slow rounds one after the other are no accident,
    ROUNDS_MIN: u32 = count(2);
    /// or so many where a leg writes: on flash a read that meets a block that is being written
    /// waits for that, which is one of twenty and takes four times as long, and an arm writes now
    /// and then what its cache has answered.
    ROUNDS_WRITTEN: u32 = count(4);
    /// Flash of which a round was slow gets so many reads before one of them says whether that was
    /// a pause, where other flash can have the rest.
    SUSPECT_READS: u32 = count(4);
    /// A slow leg is tried again after twice the time of its slow answer, then after twice as long
    /// each time: what trying costs halves with each.
    PATIENCE_TIMES: u64 = count(2);
    /// Up to a quarter of a second, so that a leg of flash is back half a second after its recovery
    /// at the latest; of a leg whose answers take long, eight times as long as they take, so that
    /// trying it costs a ninth of one reader's time, and two seconds at most.
    PATIENCE_NS: u64 = ns(250_000_000);
    PATIENCE_MAX_TIMES: u64 = count(8);
    PATIENCE_MAX_NS: u64 = ns(2_000_000_000);
    /// What a slow leg does that is read all the same counts by so much where it takes longer than
    /// it was seen to take at least, and than others would have: it is not read for what it did
    /// once.
    RISE: f32 = number(0.125);
    /// But for no more than so many times as much: it may have met a pause as well.
    RISE_TIMES: f32 = times(4.0);
    /// A leg that was slow for half a minute, by so many answers and not one in time, is as it is
    /// now: what was known of it was of another time, or wrong. Neighbours and cleaning are over by
    /// then.
    LASTS: Duration = time(Duration::from_secs(30));
    LASTS_ANSWERS: u32 = count(16);
    /// For so long after a slow phase what is known of a leg may be of that time.
    DOUBTED: Duration = time(Duration::from_secs(10));
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Health {
    /// Slow rounds one after the other.
    rounds: u32,
    /// From so many on the leg is slow.
    enough: u32,
    /// How many times as long as predicted their answers took, from the second on: the least of
    /// late.
    factor: f32,
    /// Reads from before that do not count.
    round_from: Instant,
    patience: Duration,
    forgiven_at: Instant,
    /// When the first of the rounds was, and how many answers have not been in time since.
    slow_since: Instant,
    answers: u32,
    /// Reads that the leg was handed since `round_from`.
    sent: u32,
    /// When the last slow phase has ended, or nearly, if there was one.
    slow_until: Option<Instant>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            rounds: 0,
            enough: ROUNDS_MIN.get(),
            factor: 1.0,
            round_from: Instant::ZERO,
            patience: Duration::ZERO,
            forgiven_at: Instant::ZERO,
            slow_since: Instant::ZERO,
            answers: 0,
            sent: 0,
            slow_until: None,
        }
    }
}

impl Health {
    pub(super) fn is_well(&self) -> bool {
        self.rounds < self.enough
    }

    /// Whether an answer was late, and none came in time since.
    pub(super) const fn was_late(&self) -> bool {
        self.rounds > 0
    }

    /// Whether the leg is slow, or was not long ago.
    pub(super) fn was_slow(&self, now: Instant) -> bool {
        let is_doubted = |until| now.saturating_since(until) < DOUBTED.get();
        !self.is_well() || self.slow_until.is_some_and(is_doubted)
    }

    /// Reads from before that do not count any more.
    pub(super) const fn round_from(&self) -> Instant {
        self.round_from
    }

    /// A read is handed to the leg.
    pub(super) const fn sent(&mut self) {
        self.sent = self.sent.saturating_add(1);
    }

    /// How many times as long the leg may take from now on, where it may just have turned slow and
    /// has enough to do that will tell.
    pub(super) fn suspected_factor(&self) -> f32 {
        if self.was_late() && self.is_well() && self.sent >= SUSPECT_READS.get() {
            self.factor
        } else {
            1.0
        }
    }

    /// How many times as long as it is known for the leg takes.
    pub(super) fn factor(&self) -> f32 {
        if self.is_well() { 1.0 } else { self.factor }
    }

    /// Whether it is time to try the leg as if it were well.
    pub(super) fn is_forgiven(&self, now: Instant) -> bool {
        now >= self.forgiven_at
    }

    /// When a leg that is slow is tried again as if it were well.
    pub(super) const fn forgiven_at(&self) -> Instant {
        self.forgiven_at
    }

    /// Whether the leg has been slow for so long that it is as it is now.
    pub(super) fn has_lasted(&self, now: Instant) -> bool {
        let lasts = now.saturating_since(self.slow_since);
        !self.is_well() && self.answers >= LASTS_ANSWERS.get() && lasts >= LASTS.get()
    }

    /// An answer of a slow leg that was neither slow nor in time.
    pub(super) fn note_between(&mut self, ratio: f32, was_wrong: bool) {
        self.note_ratio(ratio, was_wrong);
        self.answers = self.answers.saturating_add(1);
    }

    /// A slow leg has taken so many times as long as it is known for, perhaps longer than others
    /// were predicted to take: then it was wrong to read it.
    fn note_ratio(&mut self, ratio: f32, was_wrong: bool) {
        let most = ratio.min(RISE_TIMES.get() * self.factor);
        let longer = if was_wrong { most - self.factor } else { 0.0 };
        self.factor = self.factor.min(ratio) + RISE.get() * longer.max(0.0);
    }

    /// An answer came in time. Says how many times as long as predicted the one took that was
    /// late just before, where it was a single one: a stall.
    pub(super) fn note_in_time(&mut self) -> Option<f32> {
        let stall = (self.rounds == 1).then_some(self.factor);
        let slow_until = (!self.is_well()).then_some(self.round_from);
        *self = Self {
            round_from: self.round_from,
            slow_until: slow_until.or(self.slow_until),
            ..Self::default()
        };
        stall
    }

    /// An answer to what began at `began` took `ratio` times as long as predicted, which some do
    /// that wait for what a leg writes, and perhaps longer than others were predicted to take.
    pub(super) fn note_slow(
        &mut self,
        now: Instant,
        began: Instant,
        ratio: f32,
        (may_be_writes, was_wrong): (bool, bool),
    ) {
        if began < self.round_from {
            return;
        }
        let time_ns = now.saturating_since(began).as_ns();
        if self.rounds == 0 {
            self.slow_since = now;
            self.enough = if may_be_writes {
                ROUNDS_WRITTEN.get()
            } else {
                ROUNDS_MIN.get()
            };
        }
        self.answers = self.answers.saturating_add(1);
        self.rounds = self.rounds.saturating_add(1);
        // The leg may have turned slow in the midst of the first round, or that was an accident.
        if self.rounds <= 2 {
            self.factor = ratio;
        } else {
            self.note_ratio(ratio, was_wrong);
        }
        self.round_from = now;
        self.sent = 0;
        let limit = PATIENCE_MAX_TIMES.get().saturating_mul(time_ns);
        let limit = limit.max(PATIENCE_NS.get()).min(PATIENCE_MAX_NS.get());
        let before = if self.rounds <= self.enough {
            time_ns
        } else {
            self.patience.as_ns()
        };
        let patience = PATIENCE_TIMES.get().saturating_mul(before);
        self.patience = Duration::from_ns(patience.min(limit));
        self.forgiven_at = now + self.patience;
    }
}
