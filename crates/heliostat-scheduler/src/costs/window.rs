//! What is learned of disks that answer writes from a cache.
//!
//! Such a disk takes what it is given at once while there is room, and then the next one when
//! something has gone to the platter, whatever that was: its answers say nothing of what one job
//! takes, and a small write somewhere looks as cheap as its bytes. What they say is how long all of
//! it took together. So what is expected of each sort of work stays in the proportion that disks
//! have, of the way there and the bytes, and gets longer or shorter as all of it does: each sort by
//! the part it has had in the long run, as the time that a window measures is for the work of
//! another one.

use super::{Cost, SIZES, Sorts, Work};

/// What a window takes, of all disks together.
const WINDOW_NS: f64 = 4e9;
/// How much of what a window was off is corrected.
const CORRECTED_PART: f64 = 1.0 / 4.0;
/// A window counts for no more than so many times too much, and no sort takes so many times what
/// it usually takes a disk, or less than one part in so many. What takes less on the whole is no
/// disk, or writes to a log: what it answers is what it does.
const TIMES_MAX: f64 = 4.0;
/// How much the last window weighs in the parts.
const LEARNED_PART: f64 = 1.0 / 16.0;

/// What disks did of late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    took_ns: f64,
    /// What it usually takes, and what was expected of it.
    usual_ns: f64,
    expected_ns: Sorts<f64>,
    /// The part that each sort has had of what was expected.
    parts: Sorts<f64>,
    /// How many there have been.
    count: u32,
    /// Whether the last one was about what disks can do.
    is_of_disks: bool,
}

impl Window {
    pub(super) const NEW: Self = Self {
        took_ns: 0.0,
        usual_ns: 0.0,
        expected_ns: [[[0.0; SIZES]; 2]; 3],
        parts: [[[0.0; SIZES]; 2]; 3],
        count: 0,
        is_of_disks: true,
    };

    /// The disk has worked for so long, and ended something of that sort, which usually takes so
    /// much.
    pub(super) fn add(&mut self, ended: Option<(Work, f64)>, ns: f64, costs: &mut Sorts<Cost>) {
        if let Some((work, usual_ns)) = ended {
            let (use_, goes_on) = (work.use_ as usize, usize::from(work.goes_on));
            let cost = &mut costs[use_][goes_on][work.size];
            if self.is_of_disks {
                cost.ns = cost.ns.clamp(usual_ns / TIMES_MAX, usual_ns * TIMES_MAX);
            }
            self.usual_ns += usual_ns;
            self.expected_ns[use_][goes_on][work.size] += cost.ns;
        }
        self.took_ns += ns;
        if self.took_ns >= WINDOW_NS {
            self.end(costs);
        }
    }

    /// Whether anything has been learned.
    pub(super) const fn has_ended(&self) -> bool {
        self.count > 0
    }

    /// Whether what was done of late is about what disks can do.
    pub(super) const fn is_of_disks(&self) -> bool {
        self.is_of_disks
    }

    fn end(&mut self, costs: &mut Sorts<Cost>) {
        let was_of_disks = self.is_of_disks;
        let expected: f64 = flat(&mut self.expected_ns).map(|ns| *ns).sum();
        if expected > 0.0 {
            self.is_of_disks = self.usual_ns < self.took_ns * TIMES_MAX;
            self.count = self.count.saturating_add(1);
        }
        if self.is_of_disks && !was_of_disks {
            // What was learned one by one is no longer so.
            flat(costs).for_each(|cost| cost.learned = 0);
        }
        let times = (expected / self.took_ns).clamp(1.0 / TIMES_MAX, TIMES_MAX);
        let corrects = expected > 0.0 && self.is_of_disks && was_of_disks;
        let correction = if corrects {
            (1.0 - times) * CORRECTED_PART
        } else {
            0.0
        };
        (self.took_ns, self.usual_ns) = (0.0, 0.0);
        let learned = (1.0 / f64::from(self.count.max(1))).max(LEARNED_PART);
        let sorts = flat(&mut self.expected_ns).zip(flat(&mut self.parts));
        for ((expected_ns, part), cost) in sorts.zip(flat(costs)) {
            if expected > 0.0 {
                *part += (*expected_ns / expected - *part) * learned;
            }
            *expected_ns = 0.0;
            cost.ns *= 1.0 + correction * *part;
        }
    }
}

/// Each sort's.
fn flat<T>(sorts: &mut Sorts<T>) -> impl Iterator<Item = &mut T> {
    sorts.iter_mut().flatten().flatten()
}

#[cfg(test)]
mod tests {
    use super::super::tests::work;
    use super::super::{Costs, Work};
    use crate::job::Class;

    /// A disk that caches does `sorts` in turn, a second of each and each of them that long; what
    /// it takes shows up as long behind it as its cache holds.
    fn learned(sorts: &[(Work, f64)], hidden_s: f64, seconds: u32) -> Vec<f64> {
        let mut costs = Costs::new();
        costs.kind(true).caches_writes = true;
        let mut debt_ns = 0.0;
        for second in 0..seconds {
            let (work, true_ns) = sorts[second as usize % sorts.len()];
            let mut done_ns = 0.0;
            while done_ns < 1e9 {
                debt_ns += true_ns;
                let took_ns = (debt_ns - hidden_s * 1e9).max(0.0);
                debt_ns -= took_ns;
                done_ns += true_ns;
                costs.learn_together(Some(work), took_ns);
            }
        }
        let expected = |(work, _): &(Work, f64)| costs.expected_ns(true, *work) as f64;
        sorts.iter().map(expected).collect()
    }

    #[test]
    fn one_sort_is_learned_whatever_was_taken_for_usual() {
        for true_ns in [1e6, 3.5e6, 12e6] {
            let ns = learned(&[(work(Class::Write, false), true_ns)], 0.5, 200)[0];
            assert!((ns / true_ns - 1.0).abs() < 0.05, "{ns} of {true_ns}");
        }
    }

    #[test]
    fn sorts_stay_in_proportion_although_the_time_of_one_is_measured_with_the_other() {
        let sorts = [work(Class::Write, false), work(Class::Write, true)];
        let usual = sorts.map(|work| Costs::new().expected_ns(true, work) as f64);
        for (slower, hidden_s) in [(0.5, 0.0), (1.5, 0.5), (3.0, 0.9)] {
            let took = [(sorts[0], usual[0] * slower), (sorts[1], usual[1] * slower)];
            let ns = learned(&took, hidden_s, 400);
            let off = (ns[0] / took[0].1) / (ns[1] / took[1].1);
            assert!((0.8..1.25).contains(&off), "{ns:?} of {took:?}");
            let all = (ns[0] / took[0].1 + ns[1] / took[1].1) / 2.0;
            assert!((0.8..1.25).contains(&all), "{ns:?} of {took:?}");
        }
    }

    #[test]
    fn what_does_far_more_than_disks_do_hides_nothing() {
        let mut costs = Costs::new();
        costs.kind(true).caches_writes = true;
        let random = work(Class::Write, false);
        let mut serve = |ns: f64, times: u32| {
            for _ in 0..times {
                costs.learn_together(Some(random), ns);
                if !costs.hides_work() {
                    costs.learn(true, random, ns);
                }
            }
            (costs.hides_work(), costs.expected_ns(true, random))
        };
        let (hides, ns) = serve(50e3, 180_000);
        assert!(!hides && (49_000..51_000).contains(&ns), "{hides} {ns}");
        // Its log is full, or there is a disk in its place.
        let (hides, ns) = serve(5e6, 12_000);
        assert!(
            hides && (4_500_000..5_500_000).contains(&ns),
            "{hides} {ns}"
        );
    }
}
