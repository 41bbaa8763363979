//! What an array did between two looks at it.

use crate::explain::LegInALine;
use heliostat_runtime::{ArrayStats, ArrayStatus, ClientFigures, LegFigures, RequestFigures};

/// What was seen at one look.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) stats: ArrayStats,
    pub(super) status: ArrayStatus,
    /// What the policy believes of each leg; there may be others by now than were counted.
    pub(super) beliefs: Vec<LegInALine>,
}

/// What something did per second, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Side {
    pub(super) per_s: f64,
    pub(super) bytes_per_s: f64,
    pub(super) in_flight: u64,
    pub(super) times: Times,
}

/// Percentiles in nanoseconds; 0 where nothing ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p99_9_ns: u64,
}

/// A leg, a client, or all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Activity {
    pub(super) name: String,
    /// Of a leg, how it is; of a client, nothing.
    pub(super) state: String,
    pub(super) read: Side,
    pub(super) write: Side,
    /// Of all reads of the legs, how many it did, from 0 to 1.
    pub(super) share: f64,
    /// For how much of the time it had something to do, from 0 to 1.
    pub(super) busy: f64,
    /// Requests that failed, since the statistics began.
    pub(super) errors: u64,
    /// Requests that were late, since the statistics began.
    pub(super) late: u64,
    /// Of a client, how many connections it has.
    pub(super) connections: usize,
    /// Of a leg, what the policy believes of it.
    pub(super) belief: String,
}

/// What an array did between two looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) total: Activity,
    pub(super) legs: Vec<Activity>,
    /// Those that do most first.
    pub(super) clients: Vec<Activity>,
    pub(super) hedges_per_s: f64,
    pub(super) hedges_won_per_s: f64,
    /// Whether the time is all since the statistics began, because nothing was seen before.
    pub(super) is_since_start: bool,
}

/// Counters that both legs and clients have.
struct Counts<'a> {
    counted_ns: u64,
    ticks_ns: u64,
    /// How many, and how many bytes: of reads and of writes.
    moved: [(u64, u64); 2],
    in_flight: [u64; 2],
    fine: [&'a [(u64, u64, u64)]; 2],
}

impl<'a> Counts<'a> {
    fn of_requests(requests: &'a RequestFigures) -> Self {
        let fine = requests.fine.as_ref();
        Self {
            counted_ns: requests.counted_ns,
            ticks_ns: requests.ticks_ns,
            moved: [
                (requests.reads, requests.read_bytes),
                (requests.writes, requests.write_bytes),
            ],
            in_flight: [requests.reads_in_flight, requests.writes_in_flight],
            fine: [
                fine.map_or(&[], |fine| &fine.read_ns),
                fine.map_or(&[], |fine| &fine.write_ns),
            ],
        }
    }

    fn of_leg(leg: &'a LegFigures) -> Self {
        let fine = leg.fine.as_ref();
        Self {
            counted_ns: leg.counted_ns,
            ticks_ns: leg.ticks_ns,
            moved: [(leg.reads, leg.read_bytes), (leg.writes, leg.write_bytes)],
            in_flight: [leg.reads_in_flight.into(), leg.writes_in_flight.into()],
            fine: [
                fine.map_or(&[], |fine| &fine.read_ns),
                fine.map_or(&[], |fine| &fine.write_ns),
            ],
        }
    }

    /// Nothing yet.
    const fn none() -> Self {
        Self {
            counted_ns: 0,
            ticks_ns: 0,
            moved: [(0, 0); 2],
            in_flight: [0; 2],
            fine: [&[], &[]],
        }
    }

    /// Whether these may be what `now` was before: nothing was counted anew in between.
    fn precede(&self, now: &Self) -> bool {
        let is_less = |index: usize| self.moved[index].0 <= now.moved[index].0;
        self.counted_ns <= now.counted_ns && is_less(0) && is_less(1)
    }

    /// What came since `before`: reads, writes, and how busy it was.
    fn since(&self, before: Option<&Self>) -> (Side, Side, f64) {
        let none = Self::none();
        let before = before
            .filter(|before| before.precede(self))
            .unwrap_or(&none);
        let span_ns = (self.counted_ns - before.counted_ns).max(1);
        let per_s = |now: u64, then: u64| per_second(now.saturating_sub(then), span_ns);
        let side = |index: usize| {
            let ((count, bytes), (counted, moved)) = (self.moved[index], before.moved[index]);
            Side {
                per_s: per_s(count, counted),
                bytes_per_s: per_s(bytes, moved),
                in_flight: self.in_flight[index],
                times: Times::of(&difference(self.fine[index], before.fine[index])),
            }
        };
        let busy = per_s(self.ticks_ns, before.ticks_ns) / 1e9;
        (side(0), side(1), busy.min(1.0))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn per_second(count: u64, span_ns: u64) -> f64 {
    count as f64 * 1e9 / span_ns as f64
}

/// What is in the buckets of `now` and was not in those of `before`.
fn difference(now: &[(u64, u64, u64)], before: &[(u64, u64, u64)]) -> Vec<(u64, u64, u64)> {
    let mut before = before.iter().peekable();
    let mut left = Vec::new();
    for &(low, width, count) in now {
        while before.next_if(|(other, ..)| *other < low).is_some() {}
        let was = before
            .next_if(|(other, ..)| *other == low)
            .map_or(0, |(_, _, count)| *count);
        if count > was {
            left.push((low, width, count - was));
        }
    }
    left
}

impl Times {
    /// The percentiles of buckets in rising order: each is the middle of its bucket.
    fn of(buckets: &[(u64, u64, u64)]) -> Self {
        let counts = buckets.iter().map(|(_, _, count)| u128::from(*count));
        let total: u128 = counts.sum();
        let at = |permille: u128| {
            let wanted = (total * permille).div_ceil(1000);
            let mut seen = 0;
            let bucket = buckets.iter().find(|(_, _, count)| {
                seen += u128::from(*count);
                seen >= wanted
            });
            bucket.map_or(0, |(low, width, _)| low.saturating_add(width / 2))
        };
        Self {
            p50_ns: at(500),
            p99_ns: at(990),
            p99_9_ns: at(999),
        }
    }
}

impl Seen {
    /// What happened between `before` and `now`; since the statistics began, where there is no
    /// `before` of the same array.
    pub(super) fn between(before: Option<&Sample>, now: &Sample) -> Self {
        let before = before.filter(|before| before.stats.uptime_ns <= now.stats.uptime_ns);
        let stats = &now.stats;
        let old = before.map(|before| &before.stats);
        let mut legs: Vec<Activity> = stats
            .legs
            .iter()
            .map(|leg| {
                let was = old.and_then(|old| old.legs.iter().find(|was| was.leg == leg.leg));
                let belief = now.beliefs.iter().find(|belief| belief.leg == leg.leg);
                of_leg(leg, was, belief)
            })
            .collect();
        let all: f64 = legs.iter().map(|leg| leg.read.per_s).sum();
        for leg in &mut legs {
            leg.share = if all > 0.0 { leg.read.per_s / all } else { 0.0 };
        }
        let clients = stats.clients.iter();
        let mut clients: Vec<Activity> = clients
            .map(|client| {
                let mut others = old.iter().flat_map(|old| &old.clients);
                of_client(client, others.find(|other| other.client == client.client))
            })
            .filter(|client| client.connections > 0 || client.weight() > 0.0)
            .collect();
        clients.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
        let total = Counts::of_requests(&stats.requests);
        let was = old.map(|old| Counts::of_requests(&old.requests));
        let (read, write, busy) = total.since(was.as_ref());
        let began_anew = was.as_ref().is_none_or(|was| !was.precede(&total));
        let span_ns = match &was {
            Some(was) if !began_anew => total.counted_ns - was.counted_ns,
            _ => total.counted_ns,
        };
        let hedges = old.filter(|_| !began_anew).map(|old| old.hedges);
        let hedges = hedges.unwrap_or_default();
        let rate = |now: u64, then: u64| per_second(now.saturating_sub(then), span_ns.max(1));
        Self {
            total: Activity {
                read,
                write,
                busy,
                errors: errors_of(&stats.requests),
                late: late_of(&stats.requests),
                ..Activity::default()
            },
            legs,
            clients,
            hedges_per_s: rate(stats.hedges.issued, hedges.issued),
            hedges_won_per_s: rate(stats.hedges.won, hedges.won),
            is_since_start: began_anew,
        }
    }
}

impl Activity {
    /// How much it does, to put the busiest first: requests, and what they move beside.
    fn weight(&self) -> f64 {
        let moved = self.read.bytes_per_s + self.write.bytes_per_s;
        self.read.per_s + self.write.per_s + moved / 65_536.0
    }
}

/// Requests that failed. Who answers may say anything.
pub(super) const fn errors_of(requests: &RequestFigures) -> u64 {
    requests.read_errors.saturating_add(requests.write_errors)
}

/// Requests that were late, or are.
pub(super) const fn late_of(requests: &RequestFigures) -> u64 {
    requests.late.saturating_add(requests.late_in_flight)
}

fn of_leg(leg: &LegFigures, was: Option<&LegFigures>, belief: Option<&LegInALine>) -> Activity {
    let was = was.map(Counts::of_leg);
    let (read, write, busy) = Counts::of_leg(leg).since(was.as_ref());
    let name = belief.map_or(&leg.leg, |belief| &belief.short);
    Activity {
        name: name.clone(),
        state: leg.state.clone(),
        read,
        write,
        busy,
        errors: leg.read_errors.saturating_add(leg.write_errors),
        belief: belief.map_or_else(String::new, |belief| belief.facts.clone()),
        ..Activity::default()
    }
}

fn of_client(client: &ClientFigures, was: Option<&ClientFigures>) -> Activity {
    let requests = &client.requests;
    let was = was.map(|was| Counts::of_requests(&was.requests));
    let (read, write, busy) = Counts::of_requests(requests).since(was.as_ref());
    Activity {
        name: client.client.clone(),
        read,
        write,
        busy,
        errors: errors_of(requests),
        late: late_of(requests),
        connections: client.connections,
        ..Activity::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{LegInALine, Seen, Times, difference};
    use crate::top::testing::sample;

    const LEGS: [(&str, &str); 2] = [("a", "in-sync"), ("b", "in-sync")];

    #[test]
    fn rates_are_of_what_came_since_the_last_look() {
        let before = sample(10, 1_000, &LEGS, &["one"]);
        let now = sample(12, 1_400, &LEGS, &["one", "two"]);
        let seen = Seen::between(Some(&before), &now);
        assert_eq!(
            (seen.legs[0].read.per_s, seen.legs[0].write.per_s),
            (200.0, 100.0)
        );
        assert_eq!((seen.total.read.per_s, seen.hedges_per_s), (400.0, 1.0));
        assert_eq!((seen.legs[1].share, seen.legs[1].busy), (0.5, 0.5));
        assert_eq!(seen.total.read.times.p99_ns, 1_001_000);
        assert!(!seen.is_since_start);
        // Who is new has done everything since it came.
        assert_eq!(seen.clients[0].name, "one");
        assert!((seen.clients[1].read.per_s - 1_400.0 / 12.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_believed_of_a_leg_goes_by_its_name() {
        let mut now = sample(10, 1_000, &LEGS, &[]);
        let belief = |leg: &str| LegInALine {
            leg: leg.to_owned(),
            short: leg.to_uppercase(),
            facts: format!("of {leg}"),
        };
        // One more has come between the counting and the explanation.
        now.beliefs = ["c", "b"].map(belief).to_vec();
        let seen = Seen::between(None, &now);
        let told = seen.legs.iter();
        let told: Vec<_> = told
            .map(|leg| (leg.name.as_str(), leg.belief.as_str()))
            .collect();
        assert_eq!(told, [("a", ""), ("B", "of b")]);
    }

    #[test]
    fn what_was_counted_anew_is_since_then() {
        let before = sample(10, 1_000, &LEGS, &[]);
        let after = sample(4, 100, &LEGS, &[]);
        for before in [Some(&before), None] {
            let seen = Seen::between(before, &after);
            assert_eq!((seen.legs[0].read.per_s, seen.is_since_start), (25.0, true));
            assert_eq!(seen.hedges_per_s, 1.0);
        }
        let same = Seen::between(Some(&after), &after);
        assert_eq!((same.legs[0].read.per_s, same.legs[0].share), (0.0, 0.0));
    }

    #[test]
    fn whatever_is_said_is_taken() {
        let before = sample(10, 1_000, &LEGS, &["one"]);
        let mut now = sample(12, 1_400, &LEGS, &["one"]);
        let most = u64::MAX;
        let requests = &mut now.stats.requests;
        (requests.read_errors, requests.write_errors) = (most, most);
        (requests.late, requests.late_in_flight) = (most, most);
        (requests.reads, requests.read_bytes, requests.counted_ns) = (most, most, 0);
        requests.fine.as_mut().unwrap().read_ns = vec![(most, most, most); 3];
        now.stats.clients[0].requests = requests.clone();
        now.stats.legs[0].read_errors = most;
        now.stats.legs[0].write_errors = most;
        now.stats.legs[0].ticks_ns = most;
        let seen = Seen::between(Some(&before), &now);
        assert_eq!((seen.total.errors, seen.total.late), (most, most));
        assert_eq!((seen.clients[0].errors, seen.legs[0].errors), (most, most));
        assert_eq!(seen.total.read.times.p99_ns, most);
    }

    #[test]
    fn what_is_new_in_buckets() {
        let before = [(10, 1, 5), (20, 2, 1), (40, 2, 2)];
        let now = [(5, 1, 1), (10, 1, 5), (20, 2, 4), (30, 2, 1), (40, 2, 2)];
        assert_eq!(
            difference(&now, &before),
            [(5, 1, 1), (20, 2, 3), (30, 2, 1)]
        );
        assert_eq!(difference(&now, &[]), now);
        assert_eq!(difference(&[], &before), []);
    }

    #[test]
    fn percentiles_are_the_middles_of_their_buckets() {
        let times = Times::of(&[(100, 10, 500), (200, 10, 489), (300, 10, 10), (900, 100, 1)]);
        assert_eq!(
            (times.p50_ns, times.p99_ns, times.p99_9_ns),
            (105, 305, 305)
        );
        assert_eq!(Times::of(&[]), Times::default());
    }
}
