//! `deadline`: Linux's mq-deadline. Batches of reads or writes in the order of their places; reads
//! before writes, with a bound; whoever waits for too long begins the next batch.
//!
//! As there: a batch goes on from where the last one of its direction was. When it has had
//! `fifo_batch` jobs, or there is nothing behind, the direction is chosen anew: reads, unless
//! writes wait and were passed over `writes_starved` times. The batch begins behind the place where
//! this direction left off, or with the oldest job where that has expired or nothing is behind.
//!
//! What is urgent goes first, in order of arrival, but no more than `fifo_batch` in a row while
//! others wait. What is in the background is a second set of batches, which has its turn when there
//! is nothing else, or when its oldest job has waited for `background_expire`.
//!
//! Where `nr_requests` is set, all this is about so many of those that wait; others come in when
//! there is room, in order of arrival. What is urgent comes in at once.

use std::collections::VecDeque;

use heliostat_types::{Duration, Instant, OpKind};

use crate::job::{Class, Job, Side};
use crate::line::{Key, Line};

/// What can be tuned of `deadline`; names and defaults are mq-deadline's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineSettings {
    /// Reads that have waited for longer begin a batch.
    pub read_expire: Duration,
    /// Writes likewise.
    pub write_expire: Duration,
    /// How often reads may pass writes that wait.
    pub writes_starved: u32,
    /// How many jobs a batch has at most.
    pub fifo_batch: u32,
    /// After how long jobs in the background go before those of clients.
    pub background_expire: Duration,
    /// How many jobs are looked at; 0: in front of an array as many as Linux does, in front of a
    /// leg all that wait.
    pub nr_requests: u32,
}

impl DeadlineSettings {
    /// mq-deadline's. But its lowest class may wait for ten seconds; here a window of a resync is a
    /// read and then a write, clients' writes of the same bytes wait for both, and the rate has a
    /// floor.
    pub const DEFAULT: Self = Self {
        read_expire: Duration::from_ms(500),
        write_expire: Duration::from_secs(5),
        writes_starved: 2,
        fifo_batch: 16,
        background_expire: Duration::from_ms(500),
        nr_requests: 0,
    };
}

impl Default for DeadlineSettings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Where a job lies, and so what is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Urgent,
    /// Of a lane, in a direction, this one; whether it begins a batch.
    Batch {
        lane: usize,
        direction: usize,
        key: Key,
        is_first: bool,
    },
}

const READS: usize = 0;
const WRITES: usize = 1;
const CLIENTS: usize = 0;
const BACKGROUND: usize = 1;

/// Reads and writes that are batched together.
#[derive(Debug, Default)]
struct Lane {
    lines: [Line; 2],
    /// Where the last job of each direction began.
    latest: [u64; 2],
    /// The direction of the batch.
    direction: usize,
    /// How many jobs the batch has had; 0: there was none yet.
    batched: u32,
    /// How often writes were passed over.
    starved: u32,
}

/// The jobs that wait.
#[derive(Debug)]
pub(crate) struct Deadline {
    settings: DeadlineSettings,
    urgent: VecDeque<(u64, Job)>,
    /// How many urgent ones went in a row while others waited.
    urgent_in_a_row: u32,
    lanes: [Lane; 2],
    /// What is not looked at yet.
    outside: VecDeque<(u64, Job)>,
    /// The number of the next job.
    arrivals: u64,
}

impl Deadline {
    pub(crate) fn new(settings: DeadlineSettings) -> Self {
        Self {
            settings,
            urgent: VecDeque::new(),
            urgent_in_a_row: 0,
            lanes: [Lane::default(), Lane::default()],
            outside: VecDeque::new(),
            arrivals: 0,
        }
    }

    pub(crate) const fn set(&mut self, settings: DeadlineSettings) {
        self.settings = settings;
    }

    pub(crate) fn insert(&mut self, job: Job) {
        self.arrivals += 1;
        match place_of(&job) {
            None => self.urgent.push_back((self.arrivals, job)),
            Some((lane, direction)) if self.has_room() => {
                self.lanes[lane].lines[direction].insert(self.arrivals, job);
            }
            Some(_) => self.outside.push_back((self.arrivals, job)),
        }
    }

    /// Whether one more is looked at, and none waits for that.
    fn has_room(&self) -> bool {
        let looked_at_max = self.settings.nr_requests as usize;
        looked_at_max == 0 || self.outside.is_empty() && self.looked_at() < looked_at_max
    }

    /// How many are looked at, but for what is urgent.
    fn looked_at(&self) -> usize {
        let lines = self.lanes.iter().flat_map(|lane| &lane.lines);
        lines.map(Line::len).sum()
    }

    /// As many come in as there is room for.
    fn let_in(&mut self) {
        let looked_at_max = self.settings.nr_requests as usize;
        while looked_at_max == 0 || self.looked_at() < looked_at_max {
            let Some((number, job)) = self.outside.pop_front() else {
                return;
            };
            let (lane, direction) = place_of(&job).expect("what is urgent is not outside");
            self.lanes[lane].lines[direction].insert(number, job);
        }
    }

    pub(crate) fn next(&mut self, now: Instant) -> Option<Job> {
        if !self.outside.is_empty() {
            self.let_in();
        }
        Some(match self.choose(now)? {
            Choice::Urgent => self.urgent.front().expect("one was chosen").1,
            Choice::Batch {
                lane,
                direction,
                key,
                ..
            } => self.lanes[lane].lines[direction].get(key),
        })
    }

    pub(crate) fn take(&mut self, now: Instant) -> Option<Job> {
        let choice = self.choose(now)?;
        let Choice::Batch {
            lane,
            direction,
            key,
            is_first,
        } = choice
        else {
            self.urgent_in_a_row += 1;
            return self.urgent.pop_front().map(|(_, job)| job);
        };
        self.urgent_in_a_row = 0;
        let lane = &mut self.lanes[lane];
        if is_first {
            if direction == WRITES {
                lane.starved = 0;
            } else if !lane.lines[WRITES].is_empty() {
                lane.starved += 1;
            }
            lane.direction = direction;
            lane.batched = 0;
        }
        lane.batched += 1;
        lane.latest[direction] = key.0;
        Some(lane.lines[direction].remove(key))
    }

    fn choose(&self, now: Instant) -> Option<Choice> {
        let has_others = self.lanes.iter().any(|lane| !lane.is_empty());
        let may_be_urgent = self.urgent_in_a_row < self.settings.fifo_batch || !has_others;
        if !self.urgent.is_empty() && may_be_urgent {
            return Some(Choice::Urgent);
        }
        let background = &self.lanes[BACKGROUND];
        let has_waited = |line: &Line| {
            let oldest = line.oldest();
            oldest.is_some_and(|(_, job)| now >= job.arrived + self.settings.background_expire)
        };
        let is_aged = background.lines.iter().any(has_waited);
        let lane = if self.lanes[CLIENTS].is_empty() || is_aged {
            BACKGROUND
        } else {
            CLIENTS
        };
        let (direction, key, is_first) = self.lanes[lane].choose(now, &self.settings)?;
        Some(Choice::Batch {
            lane,
            direction,
            key,
            is_first,
        })
    }

    pub(crate) fn adjoining(&self, first: &Job, side: Side) -> Option<Job> {
        let (lane, direction) = place_of(first)?;
        let line = &self.lanes[lane].lines[direction];
        line.adjoining(first, side).map(|(_, job)| job)
    }

    /// Takes a job out that goes with another one.
    pub(crate) fn take_adjoining(&mut self, first: &Job, side: Side) -> Option<Job> {
        let (lane, direction) = place_of(first)?;
        let lane = &mut self.lanes[lane];
        let (key, _) = lane.lines[direction].adjoining(first, side)?;
        Some(lane.lines[direction].remove(key))
    }

    pub(crate) fn len(&self) -> usize {
        self.urgent.len() + self.looked_at() + self.outside.len()
    }

    pub(crate) fn retain(&mut self, is_kept: &dyn Fn(&Job) -> bool) {
        self.urgent.retain(|(_, job)| is_kept(job));
        self.outside.retain(|(_, job)| is_kept(job));
        for line in self.lanes.iter_mut().flat_map(|lane| &mut lane.lines) {
            line.retain(&mut |job| is_kept(job));
        }
    }

    /// A read in the background is a client's from now on, and as old as it was.
    pub(crate) fn take_on(&mut self, job: &Job) {
        let background = &mut self.lanes[BACKGROUND].lines[READS];
        if let Some(key) = background.key_of(job) {
            background.remove(key);
            self.lanes[CLIENTS].lines[READS].insert(key.1, *job);
            return;
        }
        let mut outside = self.outside.iter_mut();
        if let Some((_, before)) = outside.find(|(_, before)| before.op == job.op) {
            *before = *job;
        }
    }

    /// Takes all out, in order of arrival.
    pub(crate) fn drain(&mut self) -> Vec<Job> {
        let mut jobs: Vec<(u64, Job)> = std::mem::take(&mut self.urgent).into();
        jobs.extend(std::mem::take(&mut self.outside));
        for line in self.lanes.iter_mut().flat_map(|lane| &mut lane.lines) {
            jobs.extend(line.drain());
        }
        jobs.sort_unstable_by_key(|(number, _)| *number);
        jobs.into_iter().map(|(_, job)| job).collect()
    }
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.lines.iter().all(Line::is_empty)
    }

    /// The direction and the job that go next, and whether it begins a batch.
    fn choose(&self, now: Instant, settings: &DeadlineSettings) -> Option<(usize, Key, bool)> {
        if self.batched > 0 && self.batched < settings.fifo_batch {
            let behind = self.lines[self.direction].from(self.latest[self.direction]);
            if let Some((key, _)) = behind {
                return Some((self.direction, key, false));
            }
        }
        let is_starved = self.starved >= settings.writes_starved;
        let direction =
            if self.lines[READS].is_empty() || !self.lines[WRITES].is_empty() && is_starved {
                WRITES
            } else {
                READS
            };
        let expire = [settings.read_expire, settings.write_expire][direction];
        let line = &self.lines[direction];
        let (oldest, job) = line.oldest()?;
        let behind = line.from(self.latest[direction]);
        let key = match behind {
            Some((key, _)) if now < job.arrived + expire => key,
            Some(_) | None => oldest,
        };
        Some((direction, key, true))
    }
}

/// The lane and the direction of a job; `None` for what is urgent.
const fn place_of(job: &Job) -> Option<(usize, usize)> {
    let lane = match job.class {
        Class::Urgent => return None,
        Class::Read | Class::Write => CLIENTS,
        Class::Background => BACKGROUND,
    };
    let direction = match job.kind {
        OpKind::Read | OpKind::BlockStatus => READS,
        OpKind::Write | OpKind::Trim | OpKind::WriteZeroes | OpKind::Flush => WRITES,
    };
    Some((lane, direction))
}

#[cfg(test)]
mod tests;
