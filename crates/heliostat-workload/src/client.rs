//! One clone of a job: what it asks for next, in a closed loop.

use std::collections::BTreeSet;

use heliostat_types::{ClientId, Extent, OpKind, Prng, RandomStream};

use crate::job::{Job, Rw};

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Bytes.
    Read(Extent),
    /// Stores bytes.
    Write(Extent),
    /// Makes all that was answered durable.
    Flush,
}

impl Ask {
    /// What kind of request it is.
    #[must_use]
    pub const fn kind(self) -> OpKind {
        match self {
            Self::Read(_) => OpKind::Read,
            Self::Write(_) => OpKind::Write,
            Self::Flush => OpKind::Flush,
        }
    }

    /// Which bytes it is about; empty for a flush.
    #[must_use]
    pub fn extent(self) -> Extent {
        match self {
            Self::Read(extent) | Self::Write(extent) => extent,
            Self::Flush => Extent::default(),
        }
    }
}

/// The largest read that a file system sends for read-ahead: 256 pages, what a bio of Linux held
/// when the policies that we compare were measured.
const READ_AHEAD_REQUEST_BYTES: u64 = 1 << 20;

/// A client in a closed loop.
#[derive(Debug)]
pub struct Client {
    /// Who it is to the array.
    pub id: ClientId,
    /// Index of its job.
    pub job: usize,
    rw: Rw,
    rwmixread: u64,
    request_bytes: u64,
    region: Extent,
    arrivals: RandomStream,
    pace: Pace,
    in_flight: u32,
    /// Bytes asked for, of which a sequential client takes its place.
    asked_bytes: u64,
    /// Bytes after which it stops.
    quota_bytes: u64,
    /// Writes between two flushes; 0: no flushes.
    fsync: u32,
    writes_since_flush: u32,
    stopped: bool,
}

/// When a client may ask for more.
#[derive(Debug)]
enum Pace {
    /// While fewer requests than this are in flight.
    Depth(u32),
    /// While what is asked for lies inside a window from the first byte that has not arrived yet.
    Window {
        window_bytes: u64,
        arrived_bytes: u64,
        /// Ends of what arrived out of order.
        arrived_after: BTreeSet<(u64, u64)>,
    },
}

impl Client {
    /// Clone `clone` of `job`, which is number `job_index` of the scenario; it draws from
    /// `arrivals`. `until_done` makes it stop after its size.
    pub fn new(
        id: ClientId,
        job: &Job,
        (job_index, clone): (usize, u32),
        array_bytes: u64,
        arrivals: RandomStream,
        until_done: bool,
    ) -> Self {
        let is_buffered = !job.direct && job.rw == Rw::Read;
        let start = job.offset_bytes + u64::from(clone) * job.offset_increment_bytes;
        let region_bytes = job.region_bytes(array_bytes);
        let (request_bytes, pace) = if is_buffered {
            let window_bytes = job.readahead_bytes;
            let blocks = window_bytes.min(READ_AHEAD_REQUEST_BYTES) / job.bs_bytes;
            let window = Pace::Window {
                window_bytes,
                arrived_bytes: 0,
                arrived_after: BTreeSet::new(),
            };
            (blocks.max(1) * job.bs_bytes, window)
        } else {
            (job.bs_bytes, Pace::Depth(job.iodepth))
        };
        // Whole blocks only, as fio.
        let region = Extent::new(start, region_bytes / job.bs_bytes * job.bs_bytes);
        Self {
            id,
            job: job_index,
            rw: job.rw,
            rwmixread: u64::from(job.rwmixread),
            request_bytes,
            region,
            arrivals,
            pace,
            in_flight: 0,
            asked_bytes: 0,
            quota_bytes: if until_done { region.len() } else { u64::MAX },
            fsync: job.fsync,
            writes_since_flush: 0,
            stopped: false,
        }
    }

    /// What it asks for next, if it may ask now.
    pub fn next_ask(&mut self) -> Option<Ask> {
        if self.stopped || self.asked_bytes >= self.quota_bytes {
            return None;
        }
        let place = self.asked_bytes;
        let may_ask = match &self.pace {
            Pace::Depth(depth) => self.in_flight < *depth,
            Pace::Window {
                window_bytes,
                arrived_bytes,
                ..
            } => place + self.request_bytes <= arrived_bytes + window_bytes,
        };
        if !may_ask {
            return None;
        }
        self.in_flight += 1;
        if self.fsync > 0 && self.writes_since_flush == self.fsync {
            self.writes_since_flush = 0;
            return Some(Ask::Flush);
        }
        let extent = if self.rw.is_random() {
            let block = self.arrivals.below(self.region.len() / self.request_bytes);
            Extent::new(
                self.region.offset() + block * self.request_bytes,
                self.request_bytes,
            )
        } else {
            let at = place % self.region.len();
            let len_bytes = self.request_bytes.min(self.region.len() - at);
            Extent::new(self.region.offset() + at, len_bytes)
        };
        self.asked_bytes += extent.len();
        let is_read = match self.rw {
            Rw::Read | Rw::RandRead => true,
            Rw::Write | Rw::RandWrite => false,
            Rw::Rw | Rw::RandRw => self.arrivals.below(100) < self.rwmixread,
        };
        if is_read {
            return Some(Ask::Read(extent));
        }
        self.writes_since_flush += 1;
        Some(Ask::Write(extent))
    }

    /// A request was answered.
    pub fn on_answer(&mut self, ask: Ask, place_bytes: u64) {
        self.in_flight -= 1;
        let Ask::Read(extent) = ask else {
            return;
        };
        if let Pace::Window {
            arrived_bytes,
            arrived_after,
            ..
        } = &mut self.pace
        {
            arrived_after.insert((place_bytes, place_bytes + extent.len()));
            while let Some(&(start, end)) = arrived_after.first() {
                if start != *arrived_bytes {
                    break;
                }
                arrived_after.pop_first();
                *arrived_bytes = end;
            }
        }
    }

    /// How many bytes it has asked for: names the place of the next request in its stream.
    pub const fn asked_bytes(&self) -> u64 {
        self.asked_bytes
    }

    /// Which share of its size it has asked for; `None` where it never stops.
    pub fn share_asked(&self) -> Option<f64> {
        let is_limited = self.quota_bytes < u64::MAX;
        is_limited.then(|| self.asked_bytes as f64 / self.quota_bytes as f64)
    }

    /// It asks for nothing more: fio stops a job at its first error.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Whether it will never ask again and has all its answers.
    pub const fn is_done(&self) -> bool {
        self.in_flight == 0 && (self.stopped || self.asked_bytes >= self.quota_bytes)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{ClientId, Extent, RandomStream};

    use super::{Ask, Client};
    use crate::job::{Job, Rw};

    const MIB: u64 = 1 << 20;

    fn client(job: &Job, clone: u32, until_done: bool) -> Client {
        let arrivals = RandomStream::new(1, "job", 0);
        Client::new(ClientId(7), job, (0, clone), 64 * MIB, arrivals, until_done)
    }

    fn drain(client: &mut Client) -> Vec<Ask> {
        std::iter::from_fn(|| client.next_ask()).collect()
    }

    #[test]
    fn sequential_clones_wrap_at_the_end_of_their_region() {
        let job = Job {
            rw: Rw::Read,
            bs_bytes: MIB,
            iodepth: 4,
            numjobs: 2,
            offset_bytes: 8 * MIB,
            size_bytes: 3 * MIB,
            offset_increment_bytes: 16 * MIB,
            ..Job::default()
        };
        let mut client = client(&job, 1, false);
        let read = |mib| Ask::Read(Extent::new(mib * MIB, MIB));
        let asked = drain(&mut client);
        assert_eq!(asked, [read(24), read(25), read(26), read(24)]);
        client.on_answer(read(24), 0);
        assert_eq!(drain(&mut client), [read(25)]);
    }

    #[test]
    fn until_done_it_moves_its_region_once() {
        let job = Job {
            rw: Rw::RandWrite,
            iodepth: 100,
            size_bytes: 10 * 4096 + 512,
            ..Job::default()
        };
        let mut client = client(&job, 0, true);
        let asked = drain(&mut client);
        assert_eq!(asked.len(), 10, "half a block is no block");
        assert!(!client.is_done());
        for ask in asked {
            client.on_answer(ask, 0);
        }
        assert!(client.is_done());
    }

    #[test]
    fn a_buffered_reader_keeps_its_window_in_flight() {
        let job = Job {
            rw: Rw::Read,
            bs_bytes: 64 << 10,
            direct: false,
            readahead_bytes: 4 * MIB,
            ..Job::default()
        };
        let mut client = client(&job, 0, false);
        let asked = drain(&mut client);
        assert_eq!(asked.len(), 4);
        // The second arrives first: the window stays where it is.
        client.on_answer(asked[1], MIB);
        assert_eq!(drain(&mut client), []);
        client.on_answer(asked[0], 0);
        assert_eq!(drain(&mut client).len(), 2);
    }

    #[test]
    fn mixes_and_flushes() {
        let job = Job {
            rw: Rw::RandRw,
            rwmixread: 70,
            fsync: 10,
            iodepth: 10_000,
            ..Job::default()
        };
        let asked = drain(&mut client(&job, 0, false));
        let count = |wanted: fn(&Ask) -> bool| asked.iter().filter(|ask| wanted(ask)).count();
        let reads = count(|ask| matches!(ask, Ask::Read(_)));
        let writes = count(|ask| matches!(ask, Ask::Write(_)));
        let flushes = count(|ask| matches!(ask, Ask::Flush));
        assert!((6_600..7_000).contains(&reads), "{reads}");
        assert_eq!(flushes, writes / 10);
    }
}
