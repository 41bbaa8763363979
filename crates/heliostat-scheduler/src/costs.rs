//! What operations take of a device's time, learned from all legs of an array together, so that two
//! legs which hold the same data expect the same of the same operations, and order them alike.
//!
//! What is learned is learned of sorts of work: reads, writes or the background's, of about one
//! size, where the last one of the same flow ended, or beside one that is to go before it, or
//! elsewhere. Flows that ask for the same are charged the same, wherever the arm happens to be, and
//! nobody is new.
//!
//! A disk that answers writes from its cache says of none of them what it took, nor of what it does
//! meanwhile: see [`window`].

mod window;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use heliostat_types::{FlowId, LEGS_MAX, LegId};

use crate::job::{Class, Device, Job};
use window::Window;

/// Taken for the cost of an operation where none is known, in ns: of a disk that turns, and of
/// others.
const USUAL_NS: [f64; 2] = [8e6, 1e5];
/// What it takes a disk to get somewhere, as long as nothing is known.
const DISK_WAY_NS: f64 = 3.5e6;
/// The same for reads where writes are cached: those go in the order that suits the arm, and reads
/// as they come.
const CACHED_READ_WAY_NS: f64 = 7e6;
/// How much the last operation weighs.
const LEARNED_PART: f64 = 1.0 / 256.0;
/// Sizes from 2^12 to 2^25 bytes, and what is smaller and larger.
const SIZES: usize = 14;
/// Something for each sort of work: by use, by whether it goes on, and by size.
type Sorts<T> = [[[T; SIZES]; 2]; 3];

/// What goes with another one is not taken to take less than one part in so many of what it would
/// take alone, as long as that is not known.
const BESIDE_PART: u64 = 16;
/// What so many operations have taken is known.
const KNOWN_OPS: u64 = 32;

/// A read beside a log has waited for writes where it took so many times what it usually takes.
const LATE_TIMES: f64 = 4.0;
/// No more than so much of that is for the writes that come next.
const LOG_NS_MAX: f64 = 1e9;

/// No operation is expected to take less, or more.
const COST_NS: [f64; 2] = [1e3, 1e10];

/// What an operation does, and for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    #[default]
    Write,
    Read,
    Background,
}

/// A sort of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Work {
    use_: Use,
    /// Whether it goes on where the last one of its flow ended, or goes with one that is beside it.
    goes_on: bool,
    size: usize,
}

impl Work {
    pub(crate) fn of(job: &Job, goes_on: bool) -> Self {
        let pages = job.extent.len().max(1).div_ceil(4096).next_power_of_two();
        let size = usize::try_from(pages.trailing_zeros()).expect("it is small");
        Self {
            use_: match job.class {
                Class::Urgent | Class::Write => Use::Write,
                Class::Read => Use::Read,
                Class::Background => Use::Background,
            },
            goes_on,
            size: size.min(SIZES - 1),
        }
    }

    /// Whether it goes on where the last one of its flow ended, or goes with one that is beside it.
    pub(crate) const fn goes_on(self) -> bool {
        self.goes_on
    }

    /// The same, where it is to be done beside another one it goes with, or not.
    pub(crate) const fn placed(self, is_beside: bool) -> Self {
        Self {
            goes_on: self.goes_on || is_beside,
            ..self
        }
    }
}

/// What a flow has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asked {
    pub(crate) flow: FlowId,
    pub(crate) work: Work,
    /// What it was expected to take when it came, in ns; 0: it is on nobody's account.
    pub(crate) ns: u64,
    /// What it was charged for when it got its place.
    pub(crate) charged_ns: u64,
    /// The round in which it came, then the one in which it went to the device, or before which.
    pub(crate) round: u64,
}

impl Asked {
    /// It has its place, beside one that it goes with or not, and is charged for that.
    pub(crate) const fn charge(&mut self, is_beside: bool, ns: u64) {
        self.work = self.work.placed(is_beside);
        self.charged_ns = ns;
    }
}

/// What a sort of work has taken.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    ns: f64,
    /// How often it was learned of; 0: nothing is known.
    learned: u64,
}

impl Cost {
    const fn is_known(self) -> bool {
        self.learned >= KNOWN_OPS
    }
}

/// What is known of legs of one kind: of disks that turn, or of others.
#[derive(Debug)]
struct Kind {
    usual_ns: f64,
    costs: Sorts<Cost>,
    /// Whether one of them answers writes from its cache.
    caches_writes: bool,
    /// What those that do did together of late.
    window: Window,
    /// What reads have waited for writes, as far as no write was taken to take it.
    log_ns: f64,
    /// What the jobs of each flow are expected to take that wait in front of each leg or are in it,
    /// in ns.
    outstanding_ns: BTreeMap<(FlowId, LegId), u64>,
    /// The round that each leg does or is to do next, of those that have something to do.
    rounds: BTreeMap<LegId, u64>,
    /// In which round the job was that ended last, of each flow that has others.
    ended: BTreeMap<FlowId, u64>,
}

impl Kind {
    const fn new(usual_ns: f64) -> Self {
        let unknown = Cost {
            ns: 0.0,
            learned: 0,
        };
        Self {
            usual_ns,
            costs: [[[unknown; SIZES]; 2]; 3],
            caches_writes: false,
            window: Window::NEW,
            log_ns: 0.0,
            outstanding_ns: BTreeMap::new(),
            rounds: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    const fn cost(&self, work: Work) -> Cost {
        self.costs[work.use_ as usize][work.goes_on as usize][work.size]
    }

    /// Whether what that takes is known; of what is behind a cache, as soon as something is.
    const fn is_known(&self, work: Work) -> bool {
        self.hides_work() && self.window.has_ended() || self.cost(work).is_known()
    }

    /// What that usually takes a disk that turns, in ns.
    fn usual_of_disks_ns(&self, work: Work) -> f64 {
        let bytes_ns = (4096_u64 << work.size) as f64 / 0.15;
        if work.goes_on {
            bytes_ns
        } else if self.caches_writes && matches!(work.use_, Use::Read) {
            CACHED_READ_WAY_NS + bytes_ns
        } else {
            DISK_WAY_NS + bytes_ns
        }
    }

    /// Whether answers to writes say nothing of what each takes: not where all of the work takes
    /// far less than a disk could, as nothing has to be hidden then.
    const fn hides_work(&self) -> bool {
        self.caches_writes && self.window.is_of_disks()
    }

    const fn cost_mut(&mut self, work: Work) -> &mut Cost {
        &mut self.costs[work.use_ as usize][work.goes_on as usize][work.size]
    }
}

/// What is known.
#[derive(Debug)]
pub struct Costs {
    kinds: [Kind; 2],
}

impl Costs {
    /// Nothing is known.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            kinds: [Kind::new(USUAL_NS[0]), Kind::new(USUAL_NS[1])],
        }
    }

    const fn kind(&mut self, rotational: bool) -> &mut Kind {
        &mut self.kinds[if rotational { 0 } else { 1 }]
    }

    /// What a job is expected to take, in ns.
    pub(crate) fn expected_ns(&self, rotational: bool, work: Work) -> u64 {
        let kind = &self.kinds[usize::from(!rotational)];
        let cost = kind.cost(work);
        let ns = if cost.learned > 0 {
            cost.ns
        } else if rotational {
            kind.usual_of_disks_ns(work)
        } else {
            kind.usual_ns
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between a microsecond and ten seconds"
        )]
        let ns = ns.clamp(COST_NS[0], COST_NS[1]) as u64;
        ns
    }

    /// What a job that was asked for is taken to take, in ns: what was expected then, unless it has
    /// turned out to be less than half, or more than twice that: who has waited for many rounds
    /// does not pay for what nothing was known of when he came.
    pub(crate) fn price_ns(&self, rotational: bool, asked: &Asked) -> u64 {
        let now = self.expected_ns(rotational, asked.work);
        let is_about = (now / 2..=now.saturating_mul(2)).contains(&asked.ns);
        if is_about { asked.ns } else { now }
    }

    /// What a job is taken to take, in ns, that is to be done beside another one it goes with, or
    /// not.
    pub(crate) fn placed_ns(&self, rotational: bool, asked: &Asked, is_beside: bool) -> u64 {
        let alone = self.price_ns(rotational, asked);
        if !is_beside || asked.work.goes_on {
            return alone;
        }
        let work = asked.work.placed(true);
        let ns = self.expected_ns(rotational, work);
        if self.kinds[usize::from(!rotational)].is_known(work) {
            ns.min(alone)
        } else {
            ns.clamp(alone / BESIDE_PART, alone)
        }
    }

    /// Whether that was learned, or of what goes on what it takes elsewhere: a client who asks at
    /// random goes on by chance, now and then.
    pub(crate) fn is_known(&self, rotational: bool, work: Work) -> bool {
        let kind = &self.kinds[usize::from(!rotational)];
        let elsewhere = Work {
            goes_on: false,
            ..work
        };
        kind.is_known(work) || kind.is_known(elsewhere)
    }

    /// A job has taken so much.
    pub(crate) fn learn(&mut self, rotational: bool, work: Work, ns: f64) {
        let kind = self.kind(rotational);
        kind.usual_ns += (ns - kind.usual_ns) * LEARNED_PART;
        let cost = kind.cost_mut(work);
        cost.learned = cost.learned.saturating_add(1);
        // An average of the first ones, then one that forgets.
        let part = (1.0 / cost.learned as f64).max(LEARNED_PART);
        cost.ns += (ns - cost.ns) * part;
    }

    /// The same of a disk that does far more writes than a disk could, as it has a log for them. A
    /// read that took many times what it usually takes has waited for those, and what it took
    /// besides is for the next ones.
    pub(crate) fn learn_beside_log(&mut self, work: Work, ns: f64) {
        let kind = self.kind(true);
        let usual_ns = kind.usual_of_disks_ns(work);
        let ns = match work.use_ {
            Use::Read if ns > usual_ns * LATE_TIMES => {
                kind.log_ns = (kind.log_ns + ns - usual_ns).min(LOG_NS_MAX);
                usual_ns
            }
            Use::Write => {
                let waited_ns = kind.log_ns.min(usual_ns);
                kind.log_ns -= waited_ns;
                ns + waited_ns
            }
            Use::Read | Use::Background => ns,
        };
        self.learn(true, work, ns);
    }

    /// A disk that answers writes from its cache has ended a job after so much time, which may have
    /// gone to others that were answered before. `None`: what it was for is all those others.
    pub(crate) fn learn_together(&mut self, work: Option<Work>, ns: f64) {
        let kind = self.kind(true);
        let usual = work.map(|work| (work, kind.usual_of_disks_ns(work)));
        if let Some((work, usual_ns)) = usual
            && kind.hides_work()
        {
            // That was for a log, and this is what disks do.
            kind.log_ns = 0.0;
            let cost = kind.cost_mut(work);
            cost.learned = cost.learned.saturating_add(1);
            if cost.learned == 1 {
                cost.ns = usual_ns;
            }
        }
        kind.window.add(usual, ns, &mut kind.costs);
    }

    /// Whether nothing can be learned from the answers of disks that cache writes, one by one.
    pub(crate) const fn hides_work(&self) -> bool {
        self.kinds[0].hides_work()
    }

    /// What all takes that a flow has outstanding at the leg of its kind where that is most, in ns.
    pub(crate) fn outstanding_ns(&self, rotational: bool, flow: FlowId) -> u64 {
        let outstanding = &self.kinds[usize::from(!rotational)].outstanding_ns;
        outstanding
            .range(legs_of(flow))
            .map(|(_, ns)| *ns)
            .max()
            .unwrap_or(0)
    }

    /// What a flow has outstanding at this leg, in ns.
    pub(crate) fn outstanding_at_ns(&self, device: Device, flow: FlowId) -> u64 {
        let outstanding = &self.kinds[usize::from(!device.rotational)].outstanding_ns;
        outstanding
            .get(&(flow, device.leg))
            .copied()
            .unwrap_or_default()
    }

    /// A flow asks a leg for what is expected to take so long.
    pub(crate) fn begin(&mut self, device: Device, flow: FlowId, ns: u64) {
        let kind = self.kind(device.rotational);
        kind.caches_writes |= device.has_hidden_work();
        let outstanding = &mut kind.outstanding_ns;
        *outstanding.entry((flow, device.leg)).or_insert(0) += ns;
    }

    /// A job has ended, or is not done.
    pub(crate) fn end(&mut self, device: Device, asked: &Asked) {
        let Asked {
            flow, ns, round, ..
        } = *asked;
        let kind = self.kind(device.rotational);
        kind.ended.insert(flow, round);
        let outstanding = &mut kind.outstanding_ns;
        let own = outstanding.get_mut(&(flow, device.leg));
        let own = own.expect("what ends has begun");
        *own -= ns;
        if *own == 0 {
            outstanding.remove(&(flow, device.leg));
            if outstanding.range(legs_of(flow)).next().is_none() {
                kind.ended.remove(&flow);
            }
        }
    }

    /// The round that a leg does or is to do next; `None`: it has nothing to do.
    pub(crate) fn stands(&mut self, device: Device, round: Option<u64>) {
        let rounds = &mut self.kind(device.rotational).rounds;
        match round {
            Some(round) => rounds.insert(device.leg, round),
            None => rounds.remove(&device.leg),
        };
    }

    /// The rounds that other legs of that kind do or are to do next.
    pub(crate) fn rounds_of_others(&self, device: Device) -> impl Iterator<Item = u64> + '_ {
        let rounds = &self.kinds[usize::from(!device.rotational)].rounds;
        let others = rounds.iter().filter(move |(leg, _)| **leg != device.leg);
        others.map(|(_, round)| *round)
    }

    /// The round of that job of a flow which ended last, at any leg of that kind.
    pub(crate) fn round_ended(&self, rotational: bool, flow: FlowId) -> Option<u64> {
        let ended = &self.kinds[usize::from(!rotational)].ended;
        ended.get(&flow).copied()
    }

    /// Whether nobody has anything outstanding.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.all(|kind| kind.outstanding_ns.is_empty())
    }

    /// There is another leg in this one's place.
    pub(crate) fn forget(&mut self, leg: LegId) {
        for kind in &mut self.kinds {
            kind.rounds.remove(&leg);
            let outstanding = &mut kind.outstanding_ns;
            outstanding.retain(|(_, one), _| *one != leg);
            let has_any = |flow| outstanding.range(legs_of(flow)).next().is_some();
            kind.ended.retain(|&flow, _| has_any(flow));
        }
    }
}

/// All that is of one flow.
fn legs_of(flow: FlowId) -> RangeInclusive<(FlowId, LegId)> {
    (flow, LegId::new(0))..=(flow, LegId::new(LEGS_MAX - 1))
}

impl Default for Costs {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, FlowId, Instant, OpKind};

    use super::{Asked, Costs, KNOWN_OPS, Work};
    use crate::job::{Class, Job};

    pub(super) fn work(class: Class, goes_on: bool) -> Work {
        let job = Job {
            op: 0,
            flow: FlowId(0),
            kind: OpKind::Write,
            class,
            extent: Extent::new(0, 4096),
            arrived: Instant::ZERO,
        };
        Work::of(&job, goes_on)
    }

    #[test]
    fn what_goes_on_is_known_by_what_is_random_and_not_the_other_way_round() {
        let [random, stream] = [false, true].map(|goes_on| work(Class::Write, goes_on));
        for (learned, other, is_known) in [(random, stream, true), (stream, random, false)] {
            let mut costs = Costs::new();
            for _ in 0..KNOWN_OPS {
                assert!(!costs.is_known(true, learned));
                costs.learn(true, learned, 5e6);
            }
            assert!(costs.is_known(true, learned));
            assert_eq!(costs.is_known(true, other), is_known);
        }
    }

    #[test]
    fn what_goes_with_another_one_is_cheap_when_that_is_known() {
        let mut costs = Costs::new();
        let random = work(Class::Write, false);
        costs.learn(true, random, 8e6);
        let asked = Asked {
            work: random,
            ns: 8_000_000,
            ..Asked::default()
        };
        let placed = |costs: &Costs, is_beside| costs.placed_ns(true, &asked, is_beside);
        assert_eq!(placed(&costs, false), 8_000_000);
        assert_eq!(placed(&costs, true), 500_000);
        for _ in 0..KNOWN_OPS {
            costs.learn(true, random.placed(true), 1e5);
        }
        assert_eq!(placed(&costs, true), 100_000);
        // Not dearer than by itself.
        for _ in 0..10_000 {
            costs.learn(true, random.placed(true), 1e7);
        }
        assert_eq!(placed(&costs, true), 8_000_000);
    }

    #[test]
    fn what_turns_out_to_be_far_off_is_charged_as_it_is_known_now() {
        let random = work(Class::Write, false);
        let asked = Asked {
            work: random,
            ns: 4_000_000,
            ..Asked::default()
        };
        for (now, price) in [
            (2_100_000.0, 4_000_000),
            (7_900_000.0, 4_000_000),
            (1_000_000.0, 1_000_000),
            (9_000_000.0, 9_000_000),
        ] {
            let mut costs = Costs::new();
            costs.learn(true, random, now);
            assert_eq!(costs.price_ns(true, &asked), price);
        }
    }

    #[test]
    fn what_a_log_does_while_a_read_waits_is_for_writes() {
        let mut costs = Costs::new();
        let [random, stream] = [work(Class::Write, false), work(Class::Read, true)];
        let usual = costs.expected_ns(true, stream);
        for _ in 0..3000 {
            for _ in 0..100 {
                costs.learn_beside_log(random, 1e5);
            }
            costs.learn_beside_log(stream, 2e7);
        }
        let expected = |work| costs.expected_ns(true, work);
        assert_eq!(expected(stream), usual);
        // A fifth of a millisecond of each read's 20 is for each of a hundred.
        let ns = expected(random);
        assert!((250_000..330_000).contains(&ns), "{ns}");
    }

    #[test]
    fn no_write_pays_for_all_that_reads_have_waited_nor_for_what_is_no_log() {
        let [random, stream] = [work(Class::Write, false), work(Class::Read, true)];
        let usual = Costs::new().expected_ns(true, random);
        let mut costs = Costs::new();
        for _ in 0..100 {
            costs.learn_beside_log(stream, 2e7);
        }
        costs.learn_beside_log(random, 1e5);
        assert_eq!(costs.expected_ns(true, random), usual + 100_000);
        // Nor for what they have waited for before the disk did what disks do.
        costs.kind(true).caches_writes = true;
        costs.learn_together(Some(stream), 1e6);
        let before = costs.expected_ns(true, random);
        costs.learn_beside_log(random, 1e5);
        assert!(costs.expected_ns(true, random) < before);
        // Reads that take somewhat longer than of usual disks, and what is not of clients.
        let mut costs = Costs::new();
        for _ in 0..1000 {
            costs.learn_beside_log(stream, 1e5);
            costs.learn_beside_log(work(Class::Background, false), 1e8);
            costs.learn_beside_log(random, 1e5);
        }
        assert_eq!(costs.expected_ns(true, random), 100_000);
        assert_eq!(costs.expected_ns(true, stream), 100_000);
    }

    #[test]
    fn what_the_background_does_says_nothing_of_clients() {
        let mut costs = Costs::new();
        let client = work(Class::Write, false);
        let before = costs.expected_ns(true, client);
        costs.learn(true, work(Class::Background, false), 1e4);
        assert_eq!(costs.expected_ns(true, client), before);
    }
}
