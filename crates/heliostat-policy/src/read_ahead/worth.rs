//! Whether it is worth to read ahead of streams that are as many as the flash they have, or fewer.
//!
//! What they ask for themselves may be enough for all of it. What is read ahead is only more to
//! wait behind then, and the rest of a stretch has to be there before a reader gets on. So it is
//! tried: some of each stream in the other way, and some as always again. The other way has to be
//! better than before and after.

use heliostat_types::{Duration, Instant, LegSet};

use crate::api::Layout;
use crate::constants::constants;

use super::ReadAhead;
use super::helper::{Helper, Helpers};

constants! { "worth":
    /// So much of each stream is compared in each way, and for so long,
    BYTES: u64 = bytes(16 << 20);
    TIME: Duration = time(Duration::from_ms(20));
    /// after as much that is left out, and so many reads, and all that was read ahead before:
    /// whether reads are cut is tried anew where they are not read ahead.
    SKIPPED_BYTES: u64 = bytes(32 << 20);
    SKIPPED_READS: u64 = count(128);
    /// Before the first try there was so much of each, and four times as much
    FIRST_BYTES: u64 = bytes(128 << 20);
    /// lies before the next one each time that nothing changed, from so much on,
    WAIT_BYTES: u64 = bytes(4 << 30);
    WAIT_TIMES: u64 = count(4);
    /// up to so much: in the end one byte of 1,000 is read in the other way.
    WAIT_BYTES_MAX: u64 = bytes(64 << 30);
    /// To read ahead has to be faster by a twentieth, since readers wait longer now and then.
    GAIN: f32 = times(1.05);
    /// Where what was before differs by more from what was after, it is something else, unless the
    /// other way is faster by more than that again.
    STEADY: f32 = times(1.15);
    /// What has become slower by a fifth is tried anew, after so much.
    SLOWER: f32 = times(0.8);
    SLOWER_BYTES: u64 = bytes(1 << 30);
    /// Who does not read for so long takes no part.
    PAUSE: Duration = time(Duration::from_ms(100));
}

/// So many numbers of streams, and legs of theirs, are remembered.
const REMEMBERED: usize = 4;

/// What is done at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// As always, until it is time for a try,
    Usual,
    Other,
    /// and to see whether it was that.
    After,
}

/// What is known of so many streams on these legs.
#[derive(Clone, Copy, Debug)]
struct Known {
    count: usize,
    legs: LegSet,
    is_worth: bool,
    /// How fast they were in that way, in bytes per ns; 0: not known.
    rate: f32,
    /// How much was read since the last try, and how much of each is to be before the next one.
    bytes: u64,
    wait_bytes: u64,
    /// Whether they have been slower since the last try, where that found all slower than it was.
    still_slower: Option<bool>,
}

impl Known {
    /// Whether they are slower by a fifth than they were.
    fn is_slower(&self, rate: f32) -> bool {
        rate < self.rate * SLOWER.get()
    }
}

/// What is found of the streams that there are.
#[derive(Clone, Debug)]
pub(super) struct Worth {
    /// The first one is of now.
    known: Vec<Known>,
    /// The newest of these streams.
    newest: u64,
    phase: Phase,
    /// How much of this phase is left out yet, in how many reads.
    skipped: (u64, u64),
    /// Since when it is measured how much is read, and how much that is.
    measured: Option<(Instant, u64)>,
    /// How fast it was before, in bytes per ns, and in the other way.
    rates: [f32; 2],
    read_at: Instant,
}

impl Worth {
    pub(super) fn new() -> Self {
        Self {
            known: Vec::with_capacity(REMEMBERED),
            newest: 0,
            phase: Phase::Usual,
            skipped: (0, 0),
            measured: None,
            rates: [0.0; 2],
            read_at: Instant::ZERO,
        }
    }

    /// So many streams, of which `newest` is the newest one, read so many bytes more of `legs`, and
    /// have so many read ahead; whether more is to be.
    pub(super) fn reads_ahead(
        &mut self,
        now: Instant,
        (newest, count): (u64, usize),
        legs: LegSet,
        (bytes, ahead_bytes): (u64, u64),
    ) -> bool {
        self.recall(count, legs);
        if newest > self.newest {
            self.newest = newest;
            self.give_up();
            let known = &mut self.known[0];
            if !known.is_worth {
                // Others may not ask for as much at a time.
                known.wait_bytes = FIRST_BYTES.get();
            }
        }
        if now.saturating_since(self.read_at) >= PAUSE.get() {
            self.give_up();
        }
        if bytes > 0 {
            self.read_at = now;
            self.note(now, bytes, ahead_bytes);
        }
        self.is_ahead()
    }

    /// What is known of so many on these legs becomes the first.
    fn recall(&mut self, count: usize, legs: LegSet) {
        let is_it = |known: &Known| known.count == count && known.legs == legs;
        if self.known.first().is_some_and(is_it) {
            return;
        }
        self.give_up();
        if let Some(at) = self.known.iter().position(is_it) {
            self.known[..=at].rotate_right(1);
            return;
        }
        self.known.truncate(REMEMBERED - 1);
        let new = Known {
            count,
            legs,
            // With a leg to spare it mostly is.
            is_worth: count < legs.iter().count(),
            rate: 0.0,
            bytes: 0,
            wait_bytes: FIRST_BYTES.get(),
            still_slower: None,
        };
        self.known.insert(0, new);
    }

    fn is_ahead(&self) -> bool {
        self.known[0].is_worth != (self.phase == Phase::Other)
    }

    /// A try is not ended. Another one may not be either: they become fewer.
    fn give_up(&mut self) {
        if self.phase != Phase::Usual
            && let Some(known) = self.known.first_mut()
        {
            known.bytes = 0;
            let longer = known.wait_bytes.saturating_mul(WAIT_TIMES.get());
            known.wait_bytes = longer.min(WAIT_BYTES_MAX.get());
        }
        self.begin(Phase::Usual);
    }

    fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        self.skipped = (0, 0);
        self.measured = None;
    }

    fn note(&mut self, now: Instant, bytes: u64, ahead_bytes: u64) {
        let is_ahead = self.is_ahead();
        let known = &mut self.known[0];
        let of_each = |bytes: u64| bytes / known.count.max(1) as u64;
        known.bytes = known.bytes.saturating_add(bytes);
        let Some((since, measured)) = &mut self.measured else {
            let (skipped, reads) = &mut self.skipped;
            (*skipped, *reads) = (skipped.saturating_add(bytes), *reads + 1);
            let is_enough = of_each(*skipped) >= SKIPPED_BYTES.get();
            if is_enough && *reads >= SKIPPED_READS.get() && (is_ahead || ahead_bytes == 0) {
                self.measured = Some((now, 0));
            }
            return;
        };
        *measured = measured.saturating_add(bytes);
        let time = now.saturating_since(*since);
        if of_each(*measured) < BYTES.get() || time < TIME.get() {
            return;
        }
        let rate = *measured as f32 / time.as_ns() as f32;
        self.measured = None;
        match self.phase {
            Phase::Usual => {
                let each = of_each(known.bytes);
                let is_slower = known.is_slower(rate);
                known.still_slower = known.still_slower.map(|still| still && is_slower);
                let is_due = match known.still_slower {
                    None => is_slower && each >= SLOWER_BYTES.get(),
                    Some(still) => still && each >= WAIT_BYTES.get(),
                };
                if each >= known.wait_bytes || is_due {
                    self.rates[0] = rate;
                    self.begin(Phase::Other);
                }
            }
            Phase::Other => {
                self.rates[1] = rate;
                self.begin(Phase::After);
            }
            Phase::After => self.end_try(rate),
        }
    }

    /// They are so fast as always after the try.
    fn end_try(&mut self, after: f32) {
        let [before, other] = self.rates;
        let usual = before.max(after);
        let differs = usual / before.min(after);
        let is_steady = differs <= STEADY.get();
        let known = &mut self.known[0];
        // While a leg is silent neither way is faster, which says nothing of afterwards. Where all
        // has stayed as slow until the next try it does.
        let counts = !known.is_slower(before) || known.still_slower == Some(true);
        let is_better = if !is_steady {
            other > usual * differs * GAIN.get()
        } else if known.is_worth && counts {
            other * GAIN.get() > usual
        } else {
            other > usual * GAIN.get()
        };
        known.bytes = 0;
        if is_better {
            known.is_worth = !known.is_worth;
            known.wait_bytes = WAIT_BYTES.get();
        } else {
            // What says nothing is tried again sooner.
            let least = if is_steady { WAIT_BYTES } else { FIRST_BYTES };
            let longer = known.wait_bytes.saturating_mul(WAIT_TIMES.get());
            known.wait_bytes = longer.clamp(least.get(), WAIT_BYTES_MAX.get());
        }
        if is_better || counts {
            known.rate = if is_better { other } else { after };
            known.still_slower = None;
        } else {
            known.still_slower = Some(true);
        }
        self.begin(Phase::Usual);
    }
}

impl ReadAhead {
    /// Whether something is to be read ahead of so many streams by these legs, of which so many
    /// bytes more are read; `None` where that is not for a try to find: on legs that random reads
    /// have, too, or whose writes wait for reads.
    pub(super) fn try_ahead(
        &mut self,
        now: Instant,
        helpers: &Helpers,
        layout: &dyn Layout,
        (count, bytes): (usize, u64),
    ) -> Option<bool> {
        let are_free = |helper: &Helper| !helper.turns && !helper.writes_wait;
        // In a RAID10 each chunk may be left to them by another leg.
        let are_apart = !self.left.is_empty() && layout.chunk_bytes().is_none();
        let are_theirs = !self.is_beside_random() || are_apart;
        let are_enough = (1..=helpers.count()).contains(&count);
        if !are_enough || !are_theirs || !helpers.iter().all(are_free) {
            return None;
        }
        let (newest, ahead_bytes) = self.newest_and_ahead(now);
        let (streams, read) = ((newest, count), (bytes, ahead_bytes));
        Some(self.worth.reads_ahead(now, streams, helpers.legs(), read))
    }

    /// The newest of the streams that are read, and how much is read ahead of all of them.
    pub(super) fn newest_and_ahead(&self, now: Instant) -> (u64, u64) {
        let active = self.streams.iter().filter(|one| one.is_active(now));
        active.fold((0, 0), |(newest, ahead_bytes): (u64, u64), stream| {
            let ahead_bytes = ahead_bytes.saturating_add(stream.ahead_bytes());
            (newest.max(stream.number), ahead_bytes)
        })
    }
}
