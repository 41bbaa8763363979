//! What is known of streams, for people.

use heliostat_types::{Instant, LegId};

use crate::beliefs::{Fact, FactValue, StreamBelief};

use super::{ReadAhead, Stream, whole};

/// How a stream is read ahead, or why it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// Each of its legs reads a stretch.
    Striped,
    /// Disks read stretches of several streams in turns.
    InTurns,
    /// Its home reads a little, so that it has always something to do.
    Kept,
    /// What its reader asks for himself is as fast, for all that is known.
    AsFast,
    /// There are enough reads for all legs.
    Crowded,
    /// A leg is busy with what is written.
    Writes,
    /// No leg is to read ahead.
    NoLeg,
    /// There is no memory for it.
    NoMemory,
}

/// Why a leg reads nothing ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// It is left to those who read at random.
    Random,
    /// Those who write wait for it.
    Writes,
    /// Others are so much faster that all would wait for it.
    Slow,
    /// Flash is idle for so much of the time that it reads what this one would.
    Unneeded,
    /// Its reads take far longer than those of others, which are idle for most of the time.
    Lags,
}

impl Ahead {
    /// Whether legs read it, a stretch each.
    pub(super) const fn is_striped(self) -> bool {
        matches!(self, Self::Striped)
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Striped => "each leg reads a stretch",
            Self::InTurns => "disks read stretches in turns",
            Self::Kept => "its home reads a little ahead",
            Self::AsFast => "nothing: what it asks for itself is as fast",
            Self::Crowded => "nothing: there is a leg for each stream, or less",
            Self::Writes => "nothing: a disk is busy with writes",
            Self::NoLeg => "nothing: no leg is left for that",
            Self::NoMemory => "nothing: there is no memory left",
        }
    }
}

impl Aside {
    const fn words(self) -> &'static str {
        match self {
            Self::Random => "for random reads",
            Self::Writes => "writes wait for it",
            Self::Slow => "too slow",
            Self::Unneeded => "flash has time for it",
            Self::Lags => "others have time for it",
        }
    }
}

impl Stream {
    fn how(&self, now: Instant) -> &'static str {
        if !self.is_confirmed(now) {
            "nothing: somebody writes where it goes on"
        } else if !self.is_active(now) {
            "nothing: its reader pauses"
        } else {
            self.how.words()
        }
    }
}

impl ReadAhead {
    /// The streams that are read, in the order of their places.
    pub(crate) fn beliefs(&self, now: Instant) -> Vec<StreamBelief> {
        let read = self.streams.iter().filter(|stream| stream.is_read(now));
        let mut beliefs: Vec<StreamBelief> = read
            .map(|stream| StreamBelief {
                offset: stream.next,
                read_bytes: stream.run_bytes,
                ahead_bytes: stream.ahead_bytes(),
                legs: stream.homes,
                how: stream.how(now),
            })
            .collect();
        beliefs.sort_by_key(|stream| stream.offset);
        beliefs
    }

    /// How fast a leg reads in sequence, as far as that was seen, and why it reads no stream ahead
    /// while there are some.
    pub(crate) fn facts(&self, now: Instant, leg: LegId) -> impl Iterator<Item = Fact> + use<> {
        let rate = self.paces[leg.index()].seen_rate(now);
        let rate = (rate > 0.0).then(|| FactValue::Rate(whole(rate * 1e9)));
        let is_read = self.streams.iter().any(|stream| stream.is_active(now));
        let aside = self.asides[leg.index()].filter(|_| is_read);
        let aside = aside.map(|aside| FactValue::Word(aside.words()));
        let facts = [
            Fact::new("in_sequence_bytes_per_s", rate),
            Fact::new("not_read_ahead", aside),
        ];
        facts.into_iter().flatten()
    }
}
