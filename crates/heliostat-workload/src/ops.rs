//! What a loop asks for next: direction, place and size; and when it may, under a rate.

use heliostat_types::{Duration, Extent, Instant, Prng, RandomStream};

use crate::job::{Job, PAGE_BYTES, Rw};
use crate::sizes::Sizes;
use crate::spread::Spread;

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }
}

/// The requests of one clone, one after the other.
#[derive(Debug)]
pub(crate) struct Ops {
    rw: Rw,
    rwmixread: u64,
    region: Extent,
    luck: RandomStream,
    sizes: [Sizes; 2],
    spreads: [Spread; 2],
    /// Bytes that each direction has passed in its stream; never goes back.
    places: [u64; 2],
    /// Random requests are rounded out to this: pages, where they go through a page cache.
    unit_bytes: u64,
}

impl Ops {
    /// The requests of a clone of `job` in `region`; `hot` says which blocks are the frequent ones
    /// of an uneven distribution.
    pub(crate) fn new(job: &Job, region: Extent, luck: RandomStream, hot: u64) -> Self {
        let plain = [job.bs_bytes, job.bs_write_bytes.unwrap_or(job.bs_bytes)];
        let sizes = [0, 1].map(|at| Sizes::new(plain[at], &job.bssplit[at]));
        let spreads = [0, 1].map(|at: usize| {
            let blocks = region.len() / sizes[at].min_bytes();
            Spread::new(job.random_distribution, blocks.max(1), hot)
        });
        Self {
            rw: job.rw,
            rwmixread: u64::from(job.rwmixread),
            region,
            luck,
            sizes,
            spreads,
            places: [0; 2],
            unit_bytes: if job.direct { 1 } else { PAGE_BYTES },
        }
    }

    /// Which way the next request goes.
    pub(crate) fn direction(&mut self) -> Direction {
        match self.rw {
            Rw::Read | Rw::RandRead => Direction::Read,
            Rw::Write | Rw::RandWrite => Direction::Write,
            Rw::Rw | Rw::RandRw if self.luck.below(100) < self.rwmixread => Direction::Read,
            Rw::Rw | Rw::RandRw => Direction::Write,
        }
    }

    pub(crate) const fn is_random(&self) -> bool {
        self.rw.is_random()
    }

    const fn is_mixed(&self) -> bool {
        matches!(self.rw, Rw::Rw | Rw::RandRw)
    }

    /// The smallest request of a direction.
    pub(crate) const fn min_bytes(&self, direction: Direction) -> u64 {
        self.sizes[direction.index()].min_bytes()
    }

    /// The next request of a direction, and its place in the direction's stream.
    pub(crate) fn next(&mut self, direction: Direction) -> (Extent, u64) {
        let index = direction.index();
        let sizes = &self.sizes[index];
        if self.rw.is_random() {
            let block = self.spreads[index].draw(&mut self.luck);
            let at = block * sizes.min_bytes();
            let room = self.region.len() - at;
            let len = sizes.draw(&mut self.luck, room);
            let len = len.expect("a whole block is left behind every block");
            return (self.rounded_out(at, at + len), 0);
        }
        let mut place = self.places[index];
        let mut at = place % self.region.len();
        let len = loop {
            match sizes.draw(&mut self.luck, self.region.len() - at) {
                Some(len) => break len,
                // Nothing fits behind: from the start again.
                None => {
                    place += self.region.len() - at;
                    at = 0;
                }
            }
        };
        self.places[index] = place + len;
        (Extent::new(self.region.offset() + at, len), place)
    }

    /// A part of the region in whole units, as far as the region goes.
    fn rounded_out(&self, from: u64, to: u64) -> Extent {
        let from = from / self.unit_bytes * self.unit_bytes;
        let to = to.next_multiple_of(self.unit_bytes).min(self.region.len());
        let start = self.region.offset();
        Extent::from_range(start + from, start + to)
    }
}

/// fio's `rate` and `rate_iops`: each direction has a schedule of bytes, and catches up when it is
/// behind.
#[derive(Debug)]
pub(crate) struct Rate {
    began_at: Instant,
    bytes_per_s: [u64; 2],
    issued_bytes: [u64; 2],
    /// A direction that was drawn and has to wait.
    drawn: Option<Direction>,
}

impl Rate {
    pub(crate) fn new(job: &Job, ops: &Ops, began_at: Instant) -> Self {
        let bytes_per_s = [Direction::Read, Direction::Write].map(|direction| {
            let index = direction.index();
            let of_iops = job.rate_iops[index].saturating_mul(ops.min_bytes(direction));
            match (of_iops, job.rate_bytes[index]) {
                (0, rate) | (rate, 0) => rate,
                (one, other) => one.min(other),
            }
        });
        Self {
            began_at,
            bytes_per_s,
            issued_bytes: [0; 2],
            drawn: None,
        }
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.bytes_per_s != [0; 2]
    }

    /// The direction of the request that may be sent now, or when one may be.
    pub(crate) fn direction(&mut self, now: Instant, ops: &mut Ops) -> Result<Direction, Instant> {
        let drawn = match self.drawn {
            Some(drawn) => drawn,
            None => ops.direction(),
        };
        self.drawn = None;
        let at = self.next_at(drawn);
        if at <= now {
            return Ok(drawn);
        }
        if !ops.is_mixed() {
            self.drawn = Some(drawn);
            return Err(at);
        }
        // As fio: the other direction goes first where that one is due earlier.
        let other = self.next_at(drawn.other());
        if other <= now {
            return Ok(drawn.other());
        }
        self.drawn = Some(if at <= other { drawn } else { drawn.other() });
        Err(at.min(other))
    }

    pub(crate) const fn on_issue(&mut self, direction: Direction, len_bytes: u64) {
        self.issued_bytes[direction.index()] += len_bytes;
    }

    fn next_at(&self, direction: Direction) -> Instant {
        let index = direction.index();
        let rate = self.bytes_per_s[index];
        if rate == 0 {
            return self.began_at;
        }
        let ns = u128::from(self.issued_bytes[index]) * 1_000_000_000 / u128::from(rate);
        self.began_at + Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}
