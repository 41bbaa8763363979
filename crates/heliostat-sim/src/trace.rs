//! What happened, as a hash of all of it and the last few events in words.

use std::collections::VecDeque;
use std::fmt;

use heliostat_types::{ErrorKind, Extent, Instant, OpKind};

/// How many events a failing run shows: some milliseconds of a busy array.
const SHOWN: usize = 200;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceEvent {
    pub(crate) at: Instant,
    pub(crate) what: What,
    pub(crate) kind: OpKind,
    pub(crate) extent: Extent,
    /// Number of the request or of the leg operation.
    pub(crate) id: u64,
}

/// What kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A client asked.
    Asked { client: u64 },
    /// A client was answered.
    Answered {
        client: u64,
        error: Option<ErrorKind>,
    },
    /// A leg was given an operation.
    Dispatched { leg: u64 },
    /// A leg has ended an operation.
    Completed { leg: u64, error: Option<ErrorKind> },
    /// A leg was faulted.
    Faulted { leg: u64 },
    /// The power failed.
    PowerCut,
    /// The machine serves again.
    PowerBack,
}

/// Events, hashed.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    count: u64,
    last: VecDeque<TraceEvent>,
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            count: 0,
            last: VecDeque::with_capacity(SHOWN),
        }
    }

    /// Takes an event in.
    pub(crate) fn record(&mut self, event: TraceEvent) {
        let (code, who, error) = match event.what {
            What::Asked { client } => (1, client, None),
            What::Answered { client, error } => (2, client, error),
            What::Dispatched { leg } => (3, leg, None),
            What::Completed { leg, error } => (4, leg, error),
            What::Faulted { leg } => (5, leg, None),
            What::PowerCut => (6, 0, None),
            What::PowerBack => (7, 0, None),
        };
        let errno = error.map_or(0, |error| error.errno().unsigned_abs());
        // Kinds and errors are below 2^8 and 2^16.
        let head = code | (event.kind as u64) << 8 | u64::from(errno) << 16 | who << 32;
        // Each word by its own odd factor, so that they do not wait for each other, then one step
        // of FNV-1a with a rotation, so that high bits count.
        let words = event.at.as_ns().wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ head.wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(13)
            ^ event.id.wrapping_mul(0x94d0_49bb_1331_11eb).rotate_left(26)
            ^ event
                .extent
                .offset()
                .wrapping_mul(0xd6e8_feb8_6659_fd93)
                .rotate_left(39)
            ^ event
                .extent
                .len()
                .wrapping_mul(0xff51_afd7_ed55_8ccd)
                .rotate_left(52);
        self.hash = (self.hash ^ words)
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(29);
        self.count += 1;
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back(event);
    }

    /// The hash of all events.
    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// How many there were.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// How many are remembered.
    #[cfg(test)]
    pub(crate) fn shown_count(&self) -> usize {
        self.last.len()
    }

    /// The last events, one per line.
    pub(crate) fn last_events(&self) -> String {
        let mut text = String::new();
        for event in &self.last {
            text += &format!("{event}\n");
        }
        text
    }
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.at.as_ns();
        write!(f, "{:>6}.{:09} ", ns / 1_000_000_000, ns % 1_000_000_000)?;
        let error = match self.what {
            What::Asked { client } => {
                write!(f, "client {client} asks      r{}", self.id)?;
                None
            }
            What::Answered { client, error } => {
                write!(f, "client {client} answered  r{}", self.id)?;
                error
            }
            What::Dispatched { leg } => {
                write!(f, "leg {leg} dispatched o{}", self.id)?;
                None
            }
            What::Completed { leg, error } => {
                write!(f, "leg {leg} completed  o{}", self.id)?;
                error
            }
            What::Faulted { leg } => return write!(f, "leg {leg} faulted"),
            What::PowerCut => return f.write_str("the power fails"),
            What::PowerBack => return f.write_str("the power is back"),
        };
        write!(f, " {} {:?}", self.kind.name(), self.extent)?;
        match error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, Instant, OpKind};

    use super::{SHOWN, Trace, TraceEvent, What};

    fn event(id: u64) -> TraceEvent {
        TraceEvent {
            at: Instant::from_ns(1_500_000_000),
            what: What::Dispatched { leg: 2 },
            kind: OpKind::Read,
            extent: Extent::new(4096, 512),
            id,
        }
    }

    #[test]
    fn every_event_changes_the_hash_and_the_last_are_shown() {
        let mut trace = Trace::new();
        let mut hashes = vec![trace.hash()];
        for id in 0..SHOWN as u64 + 5 {
            trace.record(event(id));
            hashes.push(trace.hash());
        }
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), SHOWN + 6);
        let text = trace.last_events();
        assert_eq!(text.lines().count(), SHOWN);
        let first = "     1.500000000 leg 2 dispatched o5 read 4096+512";
        assert_eq!(text.lines().next(), Some(first));
    }
}
