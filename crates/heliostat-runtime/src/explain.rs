//! What the policy of an array believes, and why it decides as it does, while it serves.
//!
//! The engine has the policy, so that whoever wants to look at it goes where the engine calls it:
//! each policy is wrapped in a [`Listener`], whose [`Hearing`] look at it when it is given its
//! tunables, and hear its decisions as long as somebody holds a [`Watch`]. Nobody has to switch
//! that off: whoever watches is gone when the watch is. Where nobody watches, a decision costs a
//! call and a branch more.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use heliostat_policy::{
    Decision, Fact, FactValue, LateRead, LegBeliefs, Listen, Listener, Prefetch, ReadPolicy,
    ReadRequest, StreamBelief,
};
use heliostat_types::{Duration, Instant, LegId, OpKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RuntimeError;
use crate::decisions::DecisionFigures;
use crate::stats::{Distribution, LegSnapshot};
use crate::status::word_of;

/// The most reads that one request watches: of a mirror some hundred bytes each.
pub(crate) const READS_MAX: usize = 4_000;

/// The longest that one request watches: a thread of the daemon waits meanwhile.
pub(crate) const WAIT_MAX: StdDuration = StdDuration::from_secs(600);

/// How many may watch at once, so that others still can ask something.
const WATCHERS_MAX: usize = 4;

/// How often it is looked whether whoever watches is still there.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(200);

/// What an array's policy believes of its legs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The array.
    pub name: String,
    /// The active policy, as `NAME:VALUE`.
    pub policy: String,
    /// Its rule, in a line.
    pub rule: String,
    /// Whether it learns anything of legs, and predicts by that.
    pub predicts: bool,
    /// The legs, in role order; behind them one that is to replace another one.
    pub legs: Vec<LegExplained>,
    /// Streams that are read now, by where they go on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamExplained>,
}

/// What a policy believes of a stream, and does about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamExplained {
    /// Where it goes on, in bytes.
    pub offset: u64,
    /// How far it has been read, since its reader began or paused last.
    pub read_bytes: u64,
    /// How much of it is read ahead just now, or is to be.
    pub ahead_bytes: u64,
    /// The legs that it is kept to, if it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legs: Vec<usize>,
    /// How it is read ahead, or why it is not.
    pub read_ahead: String,
}

/// What a policy believes of one leg.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LegExplained {
    /// Counted from 0.
    pub index: usize,
    /// As the user wrote it.
    pub leg: String,
    /// `in-sync`, `rebuilding`, `faulted` or `missing`: only the first is read.
    pub state: String,
    /// Reads at the leg now.
    pub reads_in_flight: u32,
    /// Writes, trims, write-zeroes and flushes at the leg now.
    pub writes_in_flight: u32,
    /// Reads completed since the array was started.
    pub reads: u64,
    /// How long they took on average, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_read_ns: Option<u64>,
    /// What the policy goes by, with the units behind the names.
    pub facts: BTreeMap<String, Value>,
    /// How long reads are believed to take.
    pub curves: Vec<CurveFigures>,
}

/// How long reads of one kind are believed to take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurveFigures {
    /// Reads of up to so many bytes; all that are longer where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u64>,
    /// Reads that go on with a stream, rather than any others.
    pub streams: bool,
    /// Parts of reads that were cut.
    pub parts: bool,
    /// How many reads what is believed is worth, about.
    pub weight_reads: u64,
    /// By rising load.
    pub points: Vec<CurvePointFigures>,
}

/// How long reads are believed to take at one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurvePointFigures {
    /// What is in flight at the leg, the read itself included.
    pub load: u32,
    /// From dispatch to answer.
    pub ns: u64,
    /// Whether reads were seen at about this load.
    pub seen: bool,
}

/// What was heard of a policy while it was watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedReads {
    /// For how long it was watched.
    pub watched_ns: u64,
    /// Why no longer.
    pub end: WatchEnd,
    /// What it decided, the oldest first.
    pub decisions: Vec<DecisionFigures>,
    /// What it had read ahead, by leg.
    pub read_ahead: Vec<ReadAheadFigures>,
    /// Which legs it had asked as well for reads that were late.
    pub hedges: Vec<HedgeFigures>,
}

impl WatchedReads {
    /// Calls each leg by its place in `legs`, as people do, rather than by its number.
    pub(crate) fn renumber(&mut self, legs: &[LegId]) {
        let index = |leg: &mut usize| {
            let place = legs.iter().position(|known| known.index() == *leg);
            // One that has come meanwhile is behind all others.
            *leg = place.unwrap_or_else(|| legs.len().max(*leg));
        };
        for decision in &mut self.decisions {
            decision
                .pieces
                .iter_mut()
                .for_each(|piece| index(&mut piece.leg));
            decision
                .legs
                .iter_mut()
                .for_each(|view| index(&mut view.leg));
        }
        self.read_ahead
            .iter_mut()
            .for_each(|ahead| index(&mut ahead.leg));
        for hedge in &mut self.hedges {
            index(&mut hedge.late);
            index(&mut hedge.asked);
        }
    }
}

/// Why nobody watches any longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchEnd {
    /// The time was over.
    #[default]
    Waited,
    /// As many reads were decided on as were asked for.
    Full,
    /// Another policy decides now.
    PolicyReplaced,
}

/// What a policy had read ahead by one leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAheadFigures {
    /// Which leg.
    pub leg: usize,
    /// How many times it was asked.
    pub reads: u64,
    /// For how many bytes in all.
    pub bytes: u64,
}

/// Reads that one leg was late with and another one was asked for as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HedgeFigures {
    /// Which leg was late.
    pub late: usize,
    /// Which was asked.
    pub asked: usize,
    /// How often.
    pub reads: u64,
}

/// Somebody who watches the reads of an array. Who drops it has stopped watching.
#[derive(Debug)]
pub(crate) struct Watch {
    heard: Mutex<Heard>,
    has_ended: Condvar,
    reads_max: usize,
    began: StdInstant,
}

#[derive(Debug)]
struct Heard {
    reads: WatchedReads,
    from: Option<Instant>,
    /// It is full, or the policy is gone.
    has_ended: bool,
}

impl Watch {
    /// Room for so many reads.
    pub(crate) fn new(reads_max: usize) -> Arc<Self> {
        let heard = Heard {
            reads: WatchedReads {
                decisions: Vec::with_capacity(reads_max.min(READS_MAX)),
                ..WatchedReads::default()
            },
            from: None,
            has_ended: false,
        };
        Arc::new(Self {
            heard: Mutex::new(heard),
            has_ended: Condvar::new(),
            reads_max: reads_max.min(READS_MAX),
            began: StdInstant::now(),
        })
    }

    /// Waits until there are as many reads as there is room for, or the policy is gone, or the time
    /// since it began is over, or `is_gone` says that nobody wants to know any more. What was heard
    /// by then.
    pub(crate) fn wait(&self, time: StdDuration, is_gone: &dyn Fn() -> bool) -> WatchedReads {
        let mut heard = self.heard();
        while !heard.has_ended {
            let left = time.saturating_sub(self.began.elapsed());
            if left.is_zero() || is_gone() {
                break;
            }
            let waited = self.has_ended.wait_timeout(heard, left.min(LOOK_EVERY));
            (heard, _) = waited.expect(NOBODY_PANICS);
        }
        let mut reads = std::mem::take(&mut heard.reads);
        heard.has_ended = true;
        reads.watched_ns = Duration::from(self.began.elapsed()).as_ns();
        reads
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().expect(NOBODY_PANICS)
    }

    fn end(&self, heard: &mut Heard, end: WatchEnd) {
        heard.has_ended = true;
        heard.reads.end = end;
        self.has_ended.notify_all();
    }

    /// Takes in a decision. Whether it wants more of them.
    fn note(&self, decision: &Decision<'_>) -> bool {
        let heard = &mut *self.heard();
        if !heard.has_ended {
            let from = heard.from.unwrap_or(decision.at);
            let number = heard.reads.decisions.len() as u64;
            let figures = DecisionFigures::new(number, from, decision);
            heard.reads.decisions.push(figures);
            if heard.reads.decisions.len() >= self.reads_max {
                self.end(heard, WatchEnd::Full);
            }
        }
        !heard.has_ended
    }
}

/// Those who watch an array.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchers(Arc<Mutex<usize>>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher(Watchers);

impl Watchers {
    /// One more.
    ///
    /// # Errors
    /// Where there are enough.
    pub(crate) fn enter(&self) -> Result<Watcher, RuntimeError> {
        let mut count = self.0.lock().expect(NOBODY_PANICS);
        if *count >= WATCHERS_MAX {
            return Err(RuntimeError(format!(
                "{WATCHERS_MAX} are watching the reads of this array already; try again when one \
                 of them has ended"
            )));
        }
        *count += 1;
        Ok(Watcher(self.clone()))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        *self.0.0.lock().expect(NOBODY_PANICS) -= 1;
    }
}

const NOBODY_PANICS: &str = "nobody panics while holding it";

/// A look at a policy, by somebody who perhaps watches it from then on.
#[derive(Debug)]
struct Look {
    now: Instant,
    legs: Vec<LegId>,
    watch: Option<Weak<Watch>>,
    seen: Seen,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Whether the policy predicts how long reads take.
    pub(crate) predicts: bool,
    /// What it believes of each of the legs.
    pub(crate) beliefs: Vec<LegBeliefs>,
    /// What it believes of streams.
    pub(crate) streams: Vec<StreamBelief>,
    /// What it would keep of them over a restart.
    pub(crate) learned: Vec<Vec<f32>>,
}

/// The way to the policy that the engine has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access(Arc<Mutex<Option<Look>>>);

impl Access {
    /// The same policy, which can be looked at through this access.
    pub(crate) fn listened_to(&self, policy: Box<dyn ReadPolicy>) -> Box<dyn ReadPolicy> {
        let hearing = Hearing {
            access: self.clone(),
            watches: Vec::new(),
        };
        Box::new(Listener::new(policy, hearing))
    }

    /// Looks at what the policy believes of `legs`, while `configure` has the
    /// engine give the policy the tunables that it has. Whoever has `watch` hears what it decides
    /// from then on.
    pub(crate) fn look(
        &self,
        now: Instant,
        legs: Vec<LegId>,
        watch: Option<Weak<Watch>>,
        configure: impl FnOnce(),
    ) -> Seen {
        *self.request() = Some(Look {
            now,
            legs,
            watch,
            seen: Seen::default(),
        });
        configure();
        let look = self.request().take();
        look.expect("nobody else takes it").seen
    }

    fn request(&self) -> MutexGuard<'_, Option<Look>> {
        self.0.lock().expect(NOBODY_PANICS)
    }
}

/// Who listens to a policy that is served.
#[derive(Debug)]
struct Hearing {
    access: Access,
    watches: Vec<Weak<Watch>>,
}

impl Hearing {
    /// Tells all who watch, and forgets those who are gone or want no more.
    fn tell(&mut self, mut tell: impl FnMut(&Watch) -> bool) {
        self.watches
            .retain(|watch| watch.upgrade().is_some_and(|watch| tell(&watch)));
    }
}

impl Listen for Hearing {
    fn is_on(&self) -> bool {
        !self.watches.is_empty()
    }

    fn on_decision(&mut self, decision: &Decision<'_>) {
        self.tell(|watch| watch.note(decision));
    }

    fn on_prefetch(&mut self, _now: Instant, prefetch: &[Prefetch]) {
        self.tell(|watch| {
            let mut heard = watch.heard();
            for plan in prefetch {
                let leg = plan.leg.index();
                let known = &mut heard.reads.read_ahead;
                let at = match known.iter().position(|known| known.leg == leg) {
                    Some(at) => at,
                    None => {
                        let (reads, bytes) = (0, 0);
                        known.push(ReadAheadFigures { leg, reads, bytes });
                        known.len() - 1
                    }
                };
                known[at].reads += 1;
                known[at].bytes = known[at].bytes.saturating_add(plan.extent.len());
            }
            true
        });
    }

    fn on_hedge(&mut self, _now: Instant, _request: &ReadRequest, late: LateRead, leg: LegId) {
        let (late, asked) = (late.leg.index(), leg.index());
        self.tell(|watch| {
            let mut heard = watch.heard();
            let known = &mut heard.reads.hedges;
            let is_it = |known: &&mut HedgeFigures| known.late == late && known.asked == asked;
            match known.iter_mut().find(is_it) {
                Some(known) => known.reads += 1,
                None => known.push(HedgeFigures {
                    late,
                    asked,
                    reads: 1,
                }),
            }
            true
        });
    }

    fn on_configured(&mut self, policy: &dyn ReadPolicy) {
        let mut request = self.access.request();
        let Some(look) = request.as_mut() else {
            return;
        };
        let beliefs = look.legs.iter().map(|leg| policy.beliefs(look.now, *leg));
        look.seen = Seen {
            // Who predicts does so of the first candidate, too.
            predicts: policy.belief(0).is_some(),
            beliefs: beliefs.collect(),
            streams: policy.streams(look.now),
            learned: look.legs.iter().map(|leg| policy.learned(*leg)).collect(),
        };
        if let Some(watch) = look.watch.take() {
            if let Some(watch) = watch.upgrade() {
                watch.heard().from = Some(look.now);
            }
            // On an idle array nobody else forgets those who are gone.
            self.watches.retain(|watch| watch.strong_count() > 0);
            self.watches.push(watch);
        }
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        for watch in self.watches.iter().filter_map(Weak::upgrade) {
            let heard = &mut *watch.heard();
            if !heard.has_ended {
                watch.end(heard, WatchEnd::PolicyReplaced);
            }
        }
    }
}

impl StreamExplained {
    /// A stream, which calls legs by their places in `legs`.
    pub(crate) fn new(stream: &StreamBelief, legs: &[LegId]) -> Self {
        let kept_to = legs.iter().enumerate();
        let kept_to = kept_to.filter(|(_, leg)| stream.legs.contains(**leg));
        Self {
            offset: stream.offset,
            read_bytes: stream.read_bytes,
            ahead_bytes: stream.ahead_bytes,
            legs: kept_to.map(|(index, _)| index).collect(),
            read_ahead: stream.how.to_owned(),
        }
    }
}

impl LegExplained {
    /// A leg, and what is believed of it.
    pub(crate) fn new(index: usize, leg: LegSnapshot, beliefs: &LegBeliefs) -> Self {
        let curves = beliefs.curves.iter().map(|curve| CurveFigures {
            bytes_max: curve.bytes_max,
            streams: curve.streams,
            parts: curve.parts,
            weight_reads: whole(curve.weight),
            points: (curve.points.iter())
                .map(|point| CurvePointFigures {
                    load: point.load,
                    ns: point.time.as_ns(),
                    seen: point.seen,
                })
                .collect(),
        });
        let reads = leg.stats.account.of(OpKind::Read);
        Self {
            index,
            state: word_of(leg.state).to_owned(),
            leg: leg.name,
            reads_in_flight: leg.reads_in_flight,
            writes_in_flight: leg.writes_in_flight,
            reads: reads.count(),
            mean_read_ns: (reads.times()).map(|times| Distribution::from(times.fine_ns()).mean),
            facts: beliefs.facts.iter().map(named_value).collect(),
            curves: curves.collect(),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count, for people"
)]
fn whole(count: f32) -> u64 {
    count.round() as u64
}

fn named_value(fact: &Fact) -> (String, Value) {
    let value = match fact.value {
        FactValue::Flag(flag) => Value::from(flag),
        FactValue::Word(word) => Value::from(word),
        FactValue::Count(count) => Value::from(count),
        FactValue::Bytes(bytes) | FactValue::Rate(bytes) => Value::from(bytes),
        FactValue::Time(time) => Value::from(time.as_ns()),
        FactValue::Times(part) | FactValue::Share(part) => Value::from(part),
    };
    (fact.key.to_owned(), value)
}

#[cfg(test)]
mod tests;
