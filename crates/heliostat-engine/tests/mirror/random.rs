//! Random runs: what happens next is drawn from a seed.
//!
//! A run that fails is told as a story. Shorter runs of the same kind are tried first, and the
//! shortest that fails is told.

mod eager;
mod families;
mod setup;
mod write_behind;

use std::panic::{AssertUnwindSafe, catch_unwind};

use heliostat_engine::{FaultReason, Input, LegFlags, Missed, RequestKind, SchedulerPlace};
use heliostat_types::{
    Duration, ErrorKind, Extent, LegId, LegSet, OpKind, Prng, RandomStream, SECTOR_BYTES,
};

use crate::fill::index;
use crate::world::{Log, Outcome, World, story};
use setup::{limits, policy, random_setup, scheduler};

/// How often legs go wrong, per 1000 chances.
#[derive(Clone, Copy, Debug, Default)]
struct Odds {
    read_error: u64,
    write_error: u64,
    /// Chances that some sectors of a leg cannot be written from now on, or can again; then legs
    /// have logs of bad blocks.
    stuck: u64,
    flush_error: u64,
    short: u64,
    by_hand: u64,
    /// How many spares there are.
    spares: u64,
    /// Chances that a leg is to be replaced, and that something else is said of one.
    replace: u64,
    flags: u64,
    /// Chances that a mirror is to have one more leg, and that this one is added.
    grow: u64,
    silence: u64,
    /// Chances that a leg cannot do a trim, write-zeroes or FUA, though it says so.
    unsupported: u64,
    /// Chances that all legs become full, or are so no more.
    full: u64,
    /// The legs have metadata.
    metadata: bool,
    /// How many times the power fails, and the array is taken up again.
    power_cuts: u64,
    /// Chances that a leg which is out comes back, and that somebody starts or stops background
    /// work.
    comes_back: u64,
    background: u64,
    /// Of 100 runs, so many begin after an unclean stop.
    unclean: u64,
    /// Write-mostly legs may be behind.
    write_behind: bool,
    /// Reads are sent to second legs.
    hedges: bool,
    /// What may be wanted soon is read before it is.
    prefetches: bool,
}

const CALM: Odds = Odds {
    read_error: 0,
    write_error: 0,
    stuck: 0,
    flush_error: 0,
    short: 0,
    by_hand: 0,
    spares: 0,
    replace: 0,
    flags: 0,
    grow: 0,
    silence: 0,
    unsupported: 0,
    full: 0,
    metadata: false,
    power_cuts: 0,
    comes_back: 0,
    background: 0,
    unclean: 0,
    write_behind: false,
    hedges: false,
    prefetches: false,
};

/// How long a run is, for shrinking.
#[derive(Clone, Copy, Debug)]
struct Size {
    steps: u64,
    in_flight: u64,
    legs: u64,
    array_bytes: u64,
    /// The most bytes of a large request, and one in how many requests is large.
    large: (u64, u64),
}

const FULL: Size = Size {
    steps: 1_200,
    in_flight: 24,
    legs: 5,
    array_bytes: 128 << 10,
    large: (64 << 10, 50),
};

/// Requests so large that memory is short.
const LARGE: Size = Size {
    steps: 80,
    in_flight: 12,
    legs: 2,
    array_bytes: 40 << 20,
    large: (32 << 20, 2),
};

/// Tried in this order when a run fails.
const SMALLER: [Size; 4] = [
    Size {
        steps: 30,
        in_flight: 3,
        legs: 2,
        array_bytes: 16 << 10,
        large: (8 << 10, 50),
    },
    Size {
        steps: 80,
        in_flight: 4,
        legs: 3,
        array_bytes: 16 << 10,
        large: (8 << 10, 50),
    },
    Size {
        steps: 200,
        in_flight: 8,
        legs: 3,
        array_bytes: 32 << 10,
        large: (16 << 10, 50),
    },
    Size {
        steps: 500,
        in_flight: 12,
        legs: 4,
        array_bytes: 64 << 10,
        large: (32 << 10, 50),
    },
];

/// How many seeds are tried of each smaller size.
const SMALLER_SEEDS: u64 = 300;

/// One run under way.
struct Run {
    world: World,
    dice: RandomStream,
    /// Apart, so that runs are what they were before there were schedulers.
    scheduler_dice: RandomStream,
    /// Which writes go to several places, and where these are.
    buffers_dice: RandomStream,
    odds: Odds,
    size: Size,
    hot: Extent,
    /// Of 100 steps, so many are requests.
    eagerness: u64,
    full: bool,
    /// The most bytes of a large request, and one in how many requests is large.
    large: (u64, u64),
}

impl Run {
    fn new(seed: u64, odds: Odds, size: Size, log: Option<Log>) -> Self {
        let mut dice = RandomStream::new(seed, "dice", 0);
        let mut setup = random_setup(seed, odds, size, &mut dice);
        let is_unclean = odds.unclean > 0 && dice.below(100) < odds.unclean;
        setup.record.dirty |= is_unclean;
        let mut scheduler_dice = RandomStream::new(seed, "schedulers", 0);
        setup.scheduler = scheduler(&mut scheduler_dice);
        if scheduler_dice.below(3) == 0 {
            setup.scheduler_on = SchedulerPlace::Array;
        }
        let block = u64::from(setup.block_bytes);
        let blocks = setup.size_bytes / block;
        let hot_blocks = 1 + dice.below(blocks.min(12));
        let hot_start = dice.below(blocks - hot_blocks + 1);
        let mut world = World::new(setup, policy(&mut dice, true, odds));
        world.log = log;
        world.keeps_answers = false;
        if odds.comes_back + odds.background + odds.unclean > 0 {
            // Fast enough to come to an end, and slow enough to be in many windows.
            let min = [0, 1_000_000, 50_000_000][index(dice.below(3))];
            let max = [20_000_000, 200_000_000, u64::MAX][index(dice.below(3))];
            world.set_rates(min, max);
        }
        if is_unclean {
            world.stop_uncleanly();
        }
        Self {
            world,
            odds,
            size,
            hot: Extent::new(hot_start * block, hot_blocks * block),
            eagerness: 20 + dice.below(50),
            full: false,
            large: size.large,
            dice,
            scheduler_dice,
            buffers_dice: RandomStream::new(seed, "buffers", 0),
        }
    }

    /// Places of a write that is several ones: they meet at borders of blocks, in any order.
    fn places(&mut self) -> Vec<Extent> {
        let block = u64::from(self.world.setup.block_bytes);
        let blocks = self.world.setup.size_bytes / block;
        let count = 2 + self.buffers_dice.below(3);
        let hot = self.hot;
        let part = |dice: &mut RandomStream| {
            let (from, end) = if dice.below(3) > 0 {
                (hot.offset() / block, hot.end() / block)
            } else {
                (0, blocks)
            };
            let first = from + dice.below(end - from);
            let len = 1 + dice.below((end - first).min(3));
            Extent::new(first * block, len * block)
        };
        let mut places: Vec<Extent> = Vec::new();
        for _ in 0..count {
            let place = part(&mut self.buffers_dice);
            if !places.iter().any(|other| other.overlaps(place)) {
                places.push(place);
            }
        }
        places
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.dice.below(1_000) < per_mille
    }

    fn extent(&mut self) -> Extent {
        let (large_bytes, large_one_in) = self.large;
        let block = u64::from(self.world.setup.block_bytes);
        let all = Extent::new(0, self.world.setup.size_bytes);
        let area = if self.dice.below(5) > 0 {
            self.hot
        } else {
            all
        };
        let (area, len_max) = if self.dice.below(large_one_in) == 0 {
            (all, large_bytes)
        } else {
            (area, 5 * block)
        };
        let offset = area.offset() + self.dice.below(area.len());
        let len = 1 + self.dice.below(len_max.min(area.end() - offset));
        let unaligned = Extent::new(offset, len);
        match self.dice.below(4) {
            0 => unaligned,
            1 => Extent::new(offset, len.min(1 + self.dice.below(16))),
            _ => unaligned.aligned_out(block),
        }
    }

    fn ask(&mut self) {
        let extent = self.extent();
        let fua = self.dice.below(6) == 0;
        let drawn = self.dice.below(100);
        let world = &mut self.world;
        match drawn {
            0..40 => {
                world.read(extent);
            }
            40..75 if self.buffers_dice.below(8) == 0 => {
                let places = self.places();
                self.world.try_writes(&places, fua);
            }
            40..75 => {
                let Some(allocated) = world.alloc(extent) else {
                    return;
                };
                if self.dice.below(8) == 0 {
                    world.allocated.push(allocated);
                } else {
                    world.send(allocated, fua);
                }
            }
            75..80 => {
                world.flush();
            }
            80..86 => {
                world.trim(extent, fua);
            }
            86..93 => {
                let (may_trim, fast_only) = (self.dice.below(2) == 0, self.dice.below(4) == 0);
                world.zeroes(extent, fua, may_trim, fast_only);
            }
            93..99 => {
                world.status(extent);
            }
            _ => {
                let extent = Extent::new(extent.offset(), 0);
                world.nonsense(RequestKind::Read { extent });
            }
        }
    }

    /// How the operation at `at` ends.
    fn outcome(&mut self, at: usize) -> Outcome {
        let pending = &self.world.pending[at];
        let op = pending.op;
        let bad = self.world.meets_bad(at);
        let full = self.full && op.extent.end() > self.hot.offset();
        let odds = self.odds;
        if pending.ghost && self.dice.below(2) == 0 {
            return Outcome::Bad(ErrorKind::Io);
        }
        // What it would lose, nobody has, and was answered: that is told in a case of its own.
        if self.world.is_needed_behind(op.leg) && op.kind != OpKind::Read {
            return Outcome::Good;
        }
        let leg = &mut self.world.legs[op.leg.index()];
        let again = leg
            .unflushable
            .iter()
            .position(|extent| *extent == op.extent);
        if let Some(again) = again.filter(|_| op.kind == OpKind::Write && !op.fua) {
            leg.unflushable.swap_remove(again);
            return Outcome::Good;
        }
        if op.kind != OpKind::BlockStatus && self.chance(odds.short) {
            return Outcome::Short;
        }
        let error = match op.kind {
            OpKind::Read if bad => Some(ErrorKind::Io),
            OpKind::Read if self.chance(odds.read_error) => {
                if self.dice.below(2) == 0 {
                    let sector = op.extent.offset() / SECTOR_BYTES
                        + self.dice.below(op.extent.len() / SECTOR_BYTES);
                    self.world.legs[op.leg.index()].bad.insert(index(sector));
                }
                Some(ErrorKind::Io)
            }
            OpKind::Write if bad => Some(ErrorKind::Io),
            OpKind::Write | OpKind::WriteZeroes if full => Some(ErrorKind::NoSpace),
            OpKind::Trim | OpKind::WriteZeroes if self.chance(odds.unsupported) => {
                Some(ErrorKind::NotSupported)
            }
            OpKind::Write if op.fua && self.chance(odds.unsupported) => {
                Some(ErrorKind::NotSupported)
            }
            OpKind::Write | OpKind::WriteZeroes | OpKind::Trim if self.chance(odds.write_error) => {
                Some([ErrorKind::Io, ErrorKind::NoSpace][index(self.dice.below(2))])
            }
            OpKind::Flush if self.chance(odds.flush_error) => Some(ErrorKind::Io),
            OpKind::BlockStatus if self.chance(100) => Some(ErrorKind::NotSupported),
            OpKind::Read
            | OpKind::Write
            | OpKind::Flush
            | OpKind::Trim
            | OpKind::WriteZeroes
            | OpKind::BlockStatus => None,
        };
        error.map_or(Outcome::Good, Outcome::Bad)
    }

    fn end_one(&mut self) {
        let legs = &self.world.legs;
        let ready = self.world.find(|pending| {
            let leg = &legs[pending.op.leg.index()];
            !leg.silent
        });
        if ready.is_empty() {
            return;
        }
        let at = ready[index(self.dice.below(ready.len() as u64))];
        let outcome = self.outcome(at);
        self.world.complete(at, outcome);
    }

    fn stir(&mut self) {
        if self.world.pending.is_empty() {
            return;
        }
        let at = index(self.dice.below(self.world.pending.len() as u64));
        self.world.stir(at);
    }

    /// Something that is seldom.
    fn surprise(&mut self) {
        let legs = self.world.legs.len() as u64;
        let leg = index(self.dice.below(legs));
        let kinds = if self.odds.comes_back + self.odds.background > 0 {
            8
        } else {
            6
        };
        match self.dice.below(kinds) {
            0 => {
                let policy = policy(&mut self.dice, false, self.odds);
                self.world.set_policy(policy);
                let scheduler = scheduler(&mut self.scheduler_dice);
                self.world.set_scheduler(scheduler);
                let (flow, limits) = limits(&mut self.scheduler_dice);
                self.world.input(Input::SetFlow { flow, limits });
            }
            1 => {
                let tick = self.world.tick;
                self.world.legs[leg].harden_some(tick, &mut self.dice);
            }
            2 if self.chance(self.odds.by_hand) => {
                self.world.fail_leg(LegId::new(leg), FaultReason::ByHand);
            }
            3 if self.chance(self.odds.silence) => self.world.legs[leg].silent = true,
            4 if self.world.legs[leg].silent && self.dice.below(8) == 0 => {
                self.world.legs[leg].silent = false;
            }
            5 if self.chance(self.odds.full) => self.full = !self.full,
            6 if self.chance(self.odds.comes_back) => self.bring_back(LegId::new(leg)),
            7 if self.chance(self.odds.background) => self.meddle(),
            _ if self.chance(self.odds.replace) => {
                self.world.replace(LegId::new(leg));
            }
            _ if self.odds.flags > 0 && self.chance(self.odds.flags) => {
                let flags = LegFlags {
                    write_mostly: self.dice.below(2) == 0,
                    failfast: self.dice.below(4) == 0,
                };
                self.world.set_flags(LegId::new(leg), flags);
            }
            _ if self.odds.stuck > 0 && self.chance(self.odds.stuck) => self.wear_out(leg),
            _ if self.odds.grow > 0 && self.chance(self.odds.grow) => self.grow(),
            _ => {}
        }
    }

    /// A mirror is to have one more leg, or the one that is missing for that is added.
    fn grow(&mut self) {
        let world = &mut self.world;
        let legs = LegSet::first(world.legs.len()).iter();
        let mut first = legs.filter(|leg| world.is_first(*leg));
        match (first.next(), world.engine.free_leg()) {
            (Some(leg), _) => {
                world.add_first(leg);
            }
            (None, Some(free)) if free.index() < world.legs.len() => world.grow(),
            (None, _) => {}
        }
    }

    /// Some sectors of a leg can be written no more, or those that could not can be again.
    fn wear_out(&mut self, leg: usize) {
        if self.dice.below(4) == 0 {
            self.world.say(|| format!("leg {leg} can write all of it"));
            return self.world.legs[leg].stuck.clear();
        }
        let extent = self.extent();
        let sectors = 1 + self.dice.below(3);
        let first = extent.offset() / SECTOR_BYTES;
        // Not of what comes behind the array's bytes.
        let end = self.world.setup.size_bytes / SECTOR_BYTES;
        let stuck = first..(first + sectors).min(end);
        self.world
            .say(|| format!("leg {leg} cannot write sectors {stuck:?}"));
        self.world.legs[leg].stuck.extend(stuck.map(index));
    }

    /// A leg that is out comes back, as another device or as it was; or one that is not, which is
    /// refused.
    fn bring_back(&mut self, leg: LegId) {
        if self.odds.metadata {
            return self.bring_back_by_bitmap(leg);
        }
        let missed = self.world.legs[leg.index()].missed.clone();
        let is_new = self.dice.below(3) == 0;
        let (rubbish, missed) = match missed {
            Some(missed) if !is_new && self.dice.below(3) > 0 => (None, Missed::Extents(missed)),
            _ if is_new => (Some(0x5a), Missed::From(0)),
            _ => (None, Missed::From(0)),
        };
        self.world.add_leg(leg, rubbish, missed);
    }

    /// The same where the legs have metadata: the bitmap says what a leg missed.
    fn bring_back_by_bitmap(&mut self, leg: LegId) {
        if self.odds.grow > 0 && self.world.is_first(leg) {
            return;
        }
        let missed = match self.world.superblock_on(leg) {
            Some(superblock) if self.dice.below(3) > 0 => self.world.engine.missed_by(&superblock),
            _ => Missed::From(0),
        };
        self.world.add_leg(leg, None, missed);
    }

    /// Somebody starts, stops or hurries background work.
    fn meddle(&mut self) {
        let input = match self.dice.below(8) {
            0 | 1 => Input::StartScrub {
                repair: self.dice.below(2) == 0,
            },
            2 => Input::StopBackground,
            3 => Input::PauseBackground,
            4 | 5 => Input::ResumeBackground,
            6 => Input::StartResync { everything: false },
            _ => Input::StartResync {
                everything: self.dice.below(4) == 0,
            },
        };
        self.world.say(|| format!("{input:?}"));
        self.world.input(input);
    }

    fn step(&mut self) {
        self.world.now += Duration::from_us(self.dice.below(200));
        if self.dice.below(10) > 0 {
            self.world.tell_deadline();
        }
        let drawn = self.dice.below(100);
        if drawn < self.eagerness {
            let has_begun = self.world.engine.is_taken_up() || self.odds.power_cuts == 0;
            if has_begun && (self.world.asked.len() as u64) < self.size.in_flight {
                self.ask();
            }
            return;
        }
        match self.dice.below(100) {
            0..60 => self.end_one(),
            60..68 => self.stir(),
            68..78 => {
                if !self.world.issued.is_empty() {
                    let at = self.dice.below(self.world.issued.len() as u64);
                    self.world.deliver(index(at));
                }
            }
            78..88 => {
                if !self.world.held.is_empty() {
                    let at = self.dice.below(self.world.held.len() as u64);
                    self.world.release(index(at));
                }
            }
            88..92 => {
                if let Some(allocated) = self.world.allocated.pop() {
                    if self.dice.below(8) == 0 {
                        self.world.drop_allocated(&allocated);
                    } else {
                        self.world.send(allocated, self.dice.below(4) == 0);
                    }
                }
            }
            // Long enough for the bitmap to be looked at.
            92 if self.odds.metadata => self.world.advance(Duration::from_ms(1_010)),
            92..95 => self.world.advance(Duration::from_us(300)),
            _ => self.surprise(),
        }
    }

    fn run(mut self) {
        for _ in 0..self.odds.spares {
            // Some are too small.
            let is_small = self.dice.below(4) == 0;
            let size = self.world.setup.size_bytes;
            let id = self.world.add_spare(if is_small { size / 2 } else { size });
            if self.dice.below(4) == 0 {
                self.world.broken_spares.push(id);
            }
        }
        for _ in 0..self.odds.power_cuts {
            let mut steps = self.size.steps / (self.odds.power_cuts + 1);
            if self.dice.below(3) == 0 {
                // Before the array is quite taken up.
                steps = self.dice.below(12);
            }
            for _ in 0..steps {
                self.step();
                if self.world.has_lost_behind() {
                    return;
                }
            }
            self.world.fail_power();
            let policy = policy(&mut self.dice, true, self.odds);
            self.full = false;
            self.world.take_up_again(policy);
        }
        for _ in 0..self.size.steps / (self.odds.power_cuts + 1) {
            self.step();
            if self.world.has_lost_behind() {
                return;
            }
        }
        if self.dice.below(3) == 0 {
            self.world.cut_power();
        } else {
            self.world.settle();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "tests may be told which seeds")]
fn told(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Makes `count` runs of a kind, and tells of the shortest that fails.
fn attack(kind: &str, count: u64, odds: Odds, size: Size) {
    let key = |seed| RandomStream::new(seed, kind, 0).next_u64();
    let fails = |seed, size, log: Option<Log>| {
        let run = || Run::new(key(seed), odds, size, log).run();
        let panic = catch_unwind(AssertUnwindSafe(run)).err()?;
        let text = panic.downcast_ref::<String>().cloned();
        Some(text.unwrap_or_else(|| "a panic without words".to_owned()))
    };
    let seeds = match told("HELIOSTAT_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = told("HELIOSTAT_FROM").unwrap_or(0);
            first..first + count * told("HELIOSTAT_RUNS").unwrap_or(1)
        }
    };
    for seed in seeds {
        if fails(seed, size, None).is_none() {
            continue;
        }
        let smaller = SMALLER
            .iter()
            .filter(|smaller| smaller.steps < size.steps)
            .flat_map(|&smaller| (0..SMALLER_SEEDS).map(move |seed| (seed, smaller)));
        let (told_seed, told_size) = smaller
            .into_iter()
            .find(|&(seed, smaller)| fails(seed, smaller, None).is_some())
            .unwrap_or((seed, size));
        let log = Log::default();
        let text = fails(told_seed, told_size, Some(log.clone())).unwrap_or_default();
        panic!(
            "{kind}: seed {seed} fails; \
             the story of seed {told_seed} with {told_size:?}:\n{}\n{text}",
            story(&log)
        );
    }
}
