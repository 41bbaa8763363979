//! When a leg that is well and not chosen is read again, to see what it does by now.
//!
//! How long its reads took is all that is known of it, and the first of them may have met a drive
//! that was waking up, or a machine that had no time. Then nobody would read it again for minutes.
//! So a leg that takes longer than such legs do is tried again soon, and less often each time that
//! it was no better; and an answer that came in a fraction of the time is believed.

use crate::constants::constants;

constants! { "tries":
    /// A leg that is not chosen is read now and then: it may have become better. That costs what
    /// it takes longer, a thousandth of the time, and is one of 4,000 reads for each time that it
    /// takes as long again, so that no thousandth that takes longest shows it.
    TIMES: f32 = number(1e3);
    pub(super) NS_MIN: f32 = ns(1e7);
    READS: f32 = number(4e3);
    /// A disk beside flash is one of so many reads at most, however long they take to come.
    DISK_READS: f32 = number(4e3);
    /// The same where what is chosen takes 1.25 times as long as by itself, or as other flash does:
    /// if the other one is what it was, all gain by that. Then it is a hundredth of the time, and
    /// one of 1,000 reads of all others together for each time that it takes as long again. Among
    /// disks it is one of 4,000 in any case, and a hundredth of the time of all whom the chosen one
    /// keeps waiting: meanwhile the other one does something, too.
    BUSY: f32 = times(1.25);
    BUSY_TIMES: f32 = number(1e2);
    BUSY_READS: f32 = number(1e3);
    BUSY_DISK_READS: f32 = number(4e3);

    /// Flash that is read is tried with one read more than of late where another drive is busy and
    /// would take no less than half of the time: what it takes then may have been learned while a
    /// neighbour had it. Not where it does nearly as much as the other: more would only wait there.
    DEEPER_TIMES: f32 = times(2.0);
    pub(super) DEEPER_SHARE: f32 = number(0.75);
    /// So many reads lie between two tries, twice as many each time that it was no better, up to so
    /// many.
    DEEPER_READS: u32 = count(128);
    DEEPER_READS_MAX: u32 = count(4096);

    /// No leg takes four times as long as one of its kind is taken for that was never read, as long
    /// as it does not do so again and again: it is tried after twice what it takes longer, then
    /// after twice as long each time.
    ODD: f32 = times(4.0);
    PATIENCE: f32 = times(2.0);
    /// An answer in less than a fourth of the time says that what is known is wrong, and what is
    /// true about. Where it was luck the next reads say so; but where so many tries have confirmed
    /// it two have to, one soon after the other: an arm that is near by luck takes as little.
    WRONG: f32 = times(4.0);
    SURE: u32 = count(2);
}

/// What is chosen takes longer for all that it has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busy {
    /// How many legs there are beside it.
    pub(super) others: u32,
    pub(super) in_flight: u32,
}

/// What may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    /// A disk where a disk is chosen.
    Disk,
    DiskBesideFlash,
    Flash,
}

/// How often a leg was tried.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    /// Tries one after the other that have shown nothing new.
    confirmed: u32,
    /// But for the last one, which may have been luck.
    is_doubted: bool,
    /// For how many reads it was not tried with more than it had of late, and for how many it is
    /// not to be.
    deeper: (u32, u32),
}

impl Tries {
    /// A read is planned that may be a try.
    pub(super) const fn pass_over(&mut self) {
        self.deeper.0 = self.deeper.0.saturating_add(1);
    }

    /// Whether a leg is to have more than of late, which takes `cost_ns` then, where another one
    /// takes `least_ns`.
    pub(super) fn is_due_deeper(self, (cost_ns, least_ns): (f32, f32)) -> bool {
        let reads = self.deeper.1.max(DEEPER_READS.get());
        self.deeper.0 > reads && cost_ns < DEEPER_TIMES.get() * least_ns
    }

    /// It has more. It is no better until it answers, if it ever does.
    pub(super) fn begin_deeper(&mut self) {
        let longer = self.deeper.1.max(DEEPER_READS.get()).saturating_mul(2);
        self.deeper = (0, longer.min(DEEPER_READS_MAX.get()));
    }

    /// It was better with more than was expected.
    pub(super) const fn is_better_deeper(&mut self) {
        self.deeper.1 = 0;
    }

    /// For so many times what it takes longer than another a leg is not read that takes `cost_ns`,
    /// where an ordinary one takes `ordinary_ns`.
    fn times(self, cost_ns: f32, ordinary_ns: f32) -> f32 {
        if is_odd(cost_ns, ordinary_ns) {
            let confirmed = if self.is_doubted { 0 } else { self.confirmed };
            let doubled = i32::try_from(confirmed).unwrap_or(i32::MAX);
            PATIENCE
                .get()
                .powi(doubled.saturating_add(1))
                .min(TIMES.get())
        } else {
            TIMES.get()
        }
    }

    /// Whether a leg is to be read that nobody has chosen for so long, and for so many reads. It
    /// takes `cost_ns`, the one that is chosen, and may be busy, `least_ns`, and an ordinary one
    /// `ordinary_ns`.
    pub(super) fn is_due(
        self,
        (silence_ns, passed_over): (f32, u32),
        (cost_ns, least_ns, ordinary_ns): (f32, f32, f32),
        tried: Tried,
        busy: impl FnOnce() -> Option<Busy>,
    ) -> bool {
        let more_ns = cost_ns - least_ns;
        let longer = more_ns / least_ns;
        let is_due = |times: f32, reads: f32| {
            passed_over as f32 > reads && silence_ns > NS_MIN.get().max(times * more_ns)
        };
        let times = self.times(cost_ns, ordinary_ns);
        let reads = match tried {
            _ if times < TIMES.get() => 0.0,
            Tried::Disk => 0.0,
            Tried::DiskBesideFlash => DISK_READS.get(),
            Tried::Flash => READS.get() * longer,
        };
        let is_due_beside = |busy: Busy| {
            let others = busy.others as f32;
            let reads = BUSY_READS.get() * others;
            let times = BUSY_TIMES.get();
            match tried {
                Tried::Disk => {
                    let times = times / busy.in_flight.max(1) as f32;
                    is_due(times, BUSY_DISK_READS.get() * others)
                }
                Tried::DiskBesideFlash => is_due(times, DISK_READS.get().max(reads * longer)),
                Tried::Flash => is_due(times, reads * longer),
            }
        };
        is_due(times, reads) || busy().is_some_and(is_due_beside)
    }

    /// A leg that was not read for long took `time_ns` where `predicted_ns` were expected. By how
    /// many times what is known of it is too much, if that is so.
    pub(super) fn note(
        &mut self,
        time_ns: f32,
        predicted_ns: f32,
        ordinary_ns: f32,
    ) -> Option<f32> {
        let is_wrong = time_ns * WRONG.get() < predicted_ns && is_odd(predicted_ns, ordinary_ns);
        let was_doubted = self.is_doubted;
        self.is_doubted = is_wrong && self.confirmed >= SURE.get() && !was_doubted;
        if is_wrong && !self.is_doubted {
            self.confirmed = 0;
            return Some(predicted_ns / time_ns);
        }
        self.confirmed = self.confirmed.saturating_add(1);
        None
    }

    /// It takes that long, for sure.
    pub(super) const fn believe(&mut self) {
        self.confirmed = u32::MAX;
    }
}

/// Whether a leg takes so much longer than it or another one would that it is for a reason: it is
/// busy, or has been.
pub(super) fn is_longer(cost_ns: f32, other_ns: f32) -> bool {
    cost_ns > BUSY.get() * other_ns
}

/// Whether such legs do not take as long.
pub(super) fn is_odd(cost_ns: f32, ordinary_ns: f32) -> bool {
    cost_ns > ODD.get() * ordinary_ns
}
