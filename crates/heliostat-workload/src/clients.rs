//! All clients of a run: who is ready, who waits for what.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, BufRead};

use heliostat_types::{ClientId, Duration, Instant, OpKind, Prng, RandomStream};

use crate::arrival::Arrivals;
use crate::buffered::Buffered;
use crate::cache::PageCache;
use crate::client::{Ask, Body, Client, Direct, Next, Pace};
use crate::defrag::Defrag;
use crate::job::{Job, Kind};
use crate::ops::Ops;
use crate::replay::Replay;
use crate::trace::{TraceError, TraceOptions, TraceReader};

/// What opens traces by their names.
pub type OpenTrace = dyn Fn(&str) -> io::Result<Box<dyn BufRead + Send>> + Send + Sync;

/// What clients have to know of the run that they are in.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// All randomness comes from it.
    pub seed: u64,
    /// The number of the first client.
    pub first_client: u64,
    /// Size of the array.
    pub array_bytes: u64,
    /// Sizes of its legs.
    pub leg_bytes: &'a [u64],
    /// When measuring begins.
    pub begins_at: Instant,
    /// Whether jobs end when they have moved their size.
    pub until_done: bool,
}

/// What happens next among the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client asks.
    Ask {
        /// Which, by index.
        client: usize,
        /// For what.
        ask: Ask,
        /// To be given back with the answer.
        tag: u64,
        /// From when on it has waited for it.
        since: Instant,
    },
    /// A program behind a page cache was served.
    Served {
        /// Which client, by index.
        client: usize,
        /// Read or write.
        kind: OpKind,
        /// How much.
        len_bytes: u64,
        /// How long it has waited.
        response_time: Duration,
    },
}

/// All clients of a run.
#[derive(Debug)]
pub struct Clients {
    clients: Vec<Client>,
    caches: Vec<PageCache>,
    /// Clients that may have something to do, each once.
    ready: VecDeque<usize>,
    is_ready: Vec<bool>,
    /// When clients want to be woken.
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    /// The earliest timer of each client.
    wakes_at: Vec<Instant>,
    /// The first client whose trace is wrong.
    failed: Option<usize>,
}

impl Clients {
    /// The clients of `jobs`, which were checked; `open` opens their traces.
    ///
    /// # Errors
    /// Where a trace cannot be opened.
    ///
    /// # Panics
    /// Where a job does not pass [`Job::check`].
    pub fn new(
        jobs: &[Job],
        around: &Surroundings<'_>,
        open: Option<&OpenTrace>,
    ) -> Result<Self, TraceError> {
        let mut clients = Vec::new();
        let mut caches = Vec::new();
        for (index, job) in jobs.iter().enumerate() {
            for clone in 0..job.numjobs {
                let number = clients.len() as u64;
                let mut builder = Builder {
                    job,
                    index,
                    clone,
                    number,
                    around,
                    caches: &mut caches,
                };
                clients.push(builder.build(open)?);
            }
        }
        let count = clients.len();
        Ok(Self {
            clients,
            caches,
            ready: (0..count).collect(),
            is_ready: vec![true; count],
            timers: BinaryHeap::new(),
            wakes_at: vec![Instant::MAX; count],
            failed: None,
        })
    }

    /// What happens next at `now`; `None` where nothing does before a moment or an answer.
    pub fn poll(&mut self, now: Instant) -> Option<Step> {
        while let Some(&index) = self.ready.front() {
            let client = &mut self.clients[index];
            let cache = client.cache.map(|cache| &mut self.caches[cache]);
            match client.next(now, index, cache) {
                Next::Ask { ask, tag, since } => {
                    return Some(Step::Ask {
                        client: index,
                        ask,
                        tag,
                        since,
                    });
                }
                Next::Served {
                    kind,
                    len_bytes,
                    response_time,
                } => {
                    return Some(Step::Served {
                        client: index,
                        kind,
                        len_bytes,
                        response_time,
                    });
                }
                Next::WaitUntil(at) if at < self.wakes_at[index] => {
                    self.wakes_at[index] = at;
                    self.timers.push(Reverse((at, index)));
                }
                Next::Done if client.error().is_some() => {
                    self.failed.get_or_insert(index);
                }
                Next::WaitUntil(_) | Next::WaitForAnswer | Next::Done => {}
            }
            self.ready.pop_front();
            self.is_ready[index] = false;
        }
        None
    }

    /// When somebody wants to be woken.
    #[must_use]
    pub fn next_wake_at(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Makes those ready who wanted to be woken by `now`.
    pub fn wake(&mut self, now: Instant) {
        while let Some(&Reverse((at, index))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            if self.wakes_at[index] == at {
                self.wakes_at[index] = Instant::MAX;
            }
            self.make_ready(index);
        }
    }

    /// A request of client `index` was answered; `ok`: well.
    pub fn on_answer(&mut self, now: Instant, index: usize, ask: Ask, tag: u64, ok: bool) {
        let client = &mut self.clients[index];
        client.on_answer(now, ask, tag);
        if !ok {
            client.stop();
        }
        if let (Ask::Read(extent), Some(cache), true) =
            (ask, client.cache, Buffered::is_of_stream(tag))
        {
            let cache = &mut self.caches[cache];
            cache.on_answer(tag, extent.len(), ok);
            let mut waiters = std::mem::take(cache.waiters());
            for waiter in waiters.drain(..) {
                self.make_ready(waiter);
            }
        }
        self.make_ready(index);
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter()
    }

    /// One of them.
    ///
    /// # Panics
    /// Where there is none of this index.
    #[must_use]
    pub fn client(&self, index: usize) -> &Client {
        &self.clients[index]
    }

    /// One of them, to be stopped.
    ///
    /// # Panics
    /// Where there is none of this index.
    pub fn client_mut(&mut self, index: usize) -> &mut Client {
        &mut self.clients[index]
    }

    /// How many clients are ready and how many timers are set: what must not grow with time.
    #[must_use]
    pub fn remembered_count(&self) -> usize {
        self.ready.len() + self.timers.len()
    }

    /// The first thing that is wrong with a trace.
    #[must_use]
    pub fn error(&self) -> Option<&TraceError> {
        self.clients[self.failed?].error()
    }

    fn make_ready(&mut self, index: usize) {
        if !std::mem::replace(&mut self.is_ready[index], true) {
            self.ready.push_back(index);
        }
    }
}

/// Builds one client.
struct Builder<'a> {
    job: &'a Job,
    index: usize,
    clone: u32,
    /// Counts over all jobs.
    number: u64,
    around: &'a Surroundings<'a>,
    caches: &'a mut Vec<PageCache>,
}

impl Builder<'_> {
    fn build(&mut self, open: Option<&OpenTrace>) -> Result<Client, TraceError> {
        let Self { job, around, .. } = *self;
        let start = job
            .start
            .map_or(Instant::ZERO, |at| at.at(around.begins_at));
        let stop = job.stop.map_or(Instant::MAX, |at| at.at(around.begins_at));
        let body = match &job.trace {
            Some(name) => Body::Replay(Box::new(self.replay(name, open)?)),
            None => self.body(start),
        };
        Ok(Client {
            id: ClientId(around.first_client + self.number),
            job: self.index,
            leg: job.leg,
            start,
            stop,
            body,
            cache: job.is_streamed().then(|| self.cache()),
            in_flight: 0,
            stopped: false,
            answered: (Instant::ZERO, 0),
        })
    }

    fn region(&self) -> heliostat_types::Extent {
        let device_bytes = match self.job.leg {
            Some(leg) => self.around.leg_bytes[leg],
            None => self.around.array_bytes,
        };
        let region = self.job.region(self.clone, device_bytes);
        region.expect("the job was checked")
    }

    /// A random stream that is keyed by the place in the scenario, so that another first client
    /// asks for the same.
    fn luck(&self, role: &str) -> RandomStream {
        RandomStream::new(self.around.seed, role, self.number)
    }

    fn body(&self, start: Instant) -> Body {
        let job = self.job;
        let region = self.region();
        let ends = self.around.until_done && job.counts();
        let quota_bytes = if ends {
            region.len().saturating_mul(u64::from(job.loops))
        } else {
            u64::MAX
        };
        if job.kind == Kind::Defrag {
            let defrag = Defrag::new(region, self.luck("job"), start, quota_bytes);
            return Body::Defrag(Box::new(defrag));
        }
        // Clones that share a region share what is hot in it.
        let hot = RandomStream::new(self.around.seed, "hot", self.index as u64).next_u64();
        let ops = Ops::new(job, region, self.luck("job"), hot);
        let pace = Pace::new(job, &ops, start, quota_bytes, self.around.begins_at);
        let is_plain = job.direct || job.rw.is_random() && !job.rw.has_writes();
        if is_plain {
            return Body::Direct(Box::new(Direct {
                ops,
                pace,
                iodepth: job.iodepth,
                batch_min: job.iodepth_batch_complete_min,
                owed: 0,
                arrivals: Arrivals::new(job.arrival, self.luck("arrival"), start),
                late: 0,
            }));
        }
        Body::Buffered(Box::new(Buffered::new(ops, pace, job.dirty_limit_bytes)))
    }

    /// Index of the page cache of the client's stream.
    fn cache(&mut self) -> usize {
        if self.clone == 0 || !self.job.shared_cache {
            let cache = PageCache::new(
                self.region(),
                self.job.readahead_bytes,
                self.job.readahead_request_bytes,
            );
            self.caches.push(cache);
        }
        self.caches.len() - 1
    }

    fn replay(&self, name: &str, open: Option<&OpenTrace>) -> Result<Replay, TraceError> {
        let job = self.job;
        let failed = |text: String| TraceError {
            name: name.to_owned(),
            line: 0,
            text,
        };
        let open =
            open.ok_or_else(|| failed("there is nobody here who opens traces".to_owned()))?;
        let lines = open(name).map_err(|error| failed(error.to_string()))?;
        let options = TraceOptions {
            format: job.trace_format,
            speed: job.trace_speed,
            volume: job.trace_volume,
            time: job.trace_time,
        };
        let trace = TraceReader::new(name, lines, options);
        Ok(Replay::new(trace, self.region()))
    }
}

#[cfg(test)]
mod tests;
