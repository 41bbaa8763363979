//! What an array did and how it is, for Prometheus and its like: pages in OpenMetrics or in the
//! format before it, over HTTP.
//!
//! The figures are those of `heliostat stats` and `heliostat status`, copied by the loop at one
//! moment ([`Figures`]); here they get names. [`serve`] has a thread of its own, and the loop
//! notices nothing of it but a command now and then.

mod families;
mod http;
mod serve;
mod text;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Display;

use heliostat_engine::{Account, LegState, LegStats, Times, Traffic};
use heliostat_policy::{FactValue, LegBeliefs};
use heliostat_types::{LEGS_MAX, OpKind};
use stdx::histogram::Histogram;

use crate::RuntimeError;
use crate::commands::{Command, Handle};
use crate::explain::Seen;
use crate::flows;
use crate::stats::{ClientSnapshot, LegSnapshot, Snapshot};
use crate::status::{ArrayStatus, LegStatus, WorkStatus, word_of};
use crate::volumes::{VolumeStatus, VolumesStatus};
use families as of;
pub use serve::{MetricsListener, MetricsServer};
use text::{Bounds, Family, Format, Page, Samples, Seconds};

/// How many clients have series of their own: all volumes that there may be, and some. A series
/// stays in a database for months, and processes come and go.
const CLIENTS_MAX: usize = 128;

/// The values of the label `leg`.
const NUMBERS: [&str; LEGS_MAX] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
];

/// What sectors are counted in.
const SECTOR_BYTES: u64 = 512;

/// What the loop copies for a page, all at one moment.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) stats: Snapshot,
    pub(crate) status: ArrayStatus,
    pub(crate) volumes: VolumesStatus,
    /// What the policy believes, of the legs of `stats` in their order.
    pub(crate) seen: Seen,
}

impl Handle {
    /// A page of metrics.
    fn metrics(&self, format: Format) -> Result<String, RuntimeError> {
        let figures: Box<Figures> = self.ask(Command::Metrics)?;
        Ok(Writer::new(format, &figures).write())
    }
}

/// Puts figures on a page.
struct Writer<'a> {
    page: Page,
    figures: &'a Figures,
}

impl<'a> Writer<'a> {
    const fn new(format: Format, figures: &'a Figures) -> Self {
        let page = Page::new(format);
        Self { page, figures }
    }

    fn family<'b>(&'b mut self, family: &'b Family) -> Samples<'b> {
        self.page.family(family, Some(&self.figures.stats.name))
    }

    /// A family with a sample for each of these values, which have labels.
    fn each<const LABELS: usize, Value: Display>(
        &mut self,
        family: &Family,
        values: impl IntoIterator<Item = ([&'a str; LABELS], Value)>,
    ) {
        let mut samples = self.family(family);
        for (labels, value) in values {
            samples.add(&labels, value);
        }
    }

    /// A family of one value.
    fn one(&mut self, family: &Family, value: impl Display) {
        self.maybe(family, Some(value));
    }

    /// A family of one value, or of none.
    fn maybe(&mut self, family: &Family, value: Option<impl Display>) {
        self.each(family, value.map(|value| ([], value)));
    }

    fn write(mut self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        self.page.family(&of::BUILD, None).add(&[version], 1);
        self.array();
        self.requests();
        self.hedges();
        self.clients();
        self.legs();
        self.leg_operations();
        self.bitmap();
        self.background();
        self.volumes();
        self.page.into_text()
    }

    fn array(&mut self) {
        let Figures { stats, status, .. } = self.figures;
        let uuid = status.uuid.as_deref().unwrap_or("");
        let array = [uuid, &status.shape, &stats.backend];
        self.each(&of::ARRAY, [(array, 1)]);
        let policy = [name_of(&stats.policy), &stats.policy];
        self.each(&of::POLICY, [(policy, 1)]);
        let (scheduler, place) = (&stats.scheduler, &status.scheduler_on);
        let scheduler = [name_of(scheduler), scheduler, place];
        self.each(&of::SCHEDULER, [(scheduler, 1)]);
        self.one(&of::UPTIME, Seconds::of(stats.uptime));
        self.one(&of::SIZE, stats.size_bytes);
        self.one(&of::ACTIVE, u8::from(status.state == "active"));
        self.one(&of::LEGS, status.legs_wanted);
        self.one(&of::LEGS_IN_SYNC, status.legs_in_sync);
        self.one(&of::SPARES, status.spares.len());
        self.one(&of::MEMORY, stats.memory_bytes);
        self.one(&of::MEMORY_USED, stats.memory_used_bytes);
        self.one(&of::ACCOUNTING, u8::from(stats.accounts.is_on));
    }

    fn requests(&mut self) {
        let accounts = &self.figures.stats.accounts;
        let total = accounts.is_on.then(|| accounts.total());
        let all = || total.iter().flat_map(by_kind);
        let each = |of: fn(&Traffic) -> u64| all().map(move |(kind, done)| ([kind], of(done)));
        self.each(&of::REQUESTS, each(Traffic::count));
        self.each(&of::REQUEST_BYTES, each(|done| done.bytes));
        self.each(&of::REQUEST_ERRORS, each(|done| done.errors));
        self.each(&of::REQUESTS_IN_FLIGHT, each(Traffic::in_flight));
        self.each(&of::LATE_REQUESTS, each(|done| done.late));
        let late = accounts.flows.iter().map(|flow| flow.late_in_flight);
        let late = accounts.is_on.then(|| late.sum::<u64>());
        self.maybe(&of::LATE_IN_FLIGHT, late);
        self.one(&of::CLIENT_TIMEOUT, Seconds::of(accounts.client_timeout));
        let mut durations = self.family(&of::REQUEST_DURATION);
        for (kind, done) in all() {
            durations.add_histogram(&[kind], Bounds::FINE, fine(done));
        }
        let busy = accounts.is_on.then(|| Seconds::of(accounts.ticks));
        self.maybe(&of::BUSY, busy);
        let weighted = all().map(|(kind, done)| ([kind], Seconds(done.weighted_ns())));
        self.each(&of::WEIGHTED, weighted);
    }

    fn hedges(&mut self) {
        let Snapshot {
            hedges, read_ahead, ..
        } = &self.figures.stats;
        self.one(&of::HEDGES, hedges.issued);
        self.one(&of::HEDGES_WON, hedges.won);
        self.one(&of::HEDGES_WASTED, hedges.wasted);
        self.one(&of::HEDGES_REFUSED, hedges.refused);
        self.one(&of::READ_AHEAD, read_ahead.read_bytes);
        self.one(&of::READ_AHEAD_SERVED, read_ahead.served_bytes);
    }

    fn clients(&mut self) {
        let clients = Client::all(&self.figures.stats.clients);
        let are_there = clients.iter().filter(|client| client.connections > 0);
        self.one(&of::CLIENTS, are_there.count());
        let shown = Client::shown(clients);
        self.one(&of::CLIENTS_SHOWN, shown.len());
        let connections = shown.iter().map(|it| ([it.name], it.connections));
        self.each(&of::CLIENT_CONNECTIONS, connections);
        let all = || {
            shown.iter().flat_map(|client| {
                let kinds = by_kind(&client.account).into_iter();
                kinds.map(|(kind, done)| ([client.name, kind], done))
            })
        };
        let each = |of: fn(&Traffic) -> u64| {
            // Most clients do not trim, or ask for holes.
            let used = all().filter(|([_, kind], done)| {
                is_read_or_write(kind) || done.count() + done.in_flight() > 0
            });
            used.map(move |(labels, done)| (labels, of(done)))
        };
        self.each(&of::CLIENT_REQUESTS, each(Traffic::count));
        self.each(&of::CLIENT_BYTES, each(|done| done.bytes));
        self.each(&of::CLIENT_ERRORS, each(|done| done.errors));
        self.each(&of::CLIENT_IN_FLIGHT, each(Traffic::in_flight));
        let late = |client: &Client<'_>| {
            let kinds = by_kind(&client.account).into_iter();
            kinds.map(|(_, done)| done.late).sum::<u64>()
        };
        let late = shown.iter().map(|client| ([client.name], late(client)));
        self.each(&of::CLIENT_LATE, late);
        let mut durations = self.family(&of::CLIENT_DURATION);
        for (labels, done) in all().filter(|([_, kind], _)| is_read_or_write(kind)) {
            durations.add_histogram(&labels, Bounds::COARSE, fine(done));
        }
    }

    fn legs(&mut self) {
        let Figures {
            stats,
            status,
            seen,
            ..
        } = self.figures;
        let each = || NUMBERS.into_iter().zip(&stats.legs);
        let names = each().map(|(index, leg)| ([index, &leg.name], 1));
        self.each(&of::LEG_INFO, names);
        let states = [
            LegState::InSync,
            LegState::Rebuilding,
            LegState::Faulted,
            LegState::Missing,
        ];
        let states = each().flat_map(|(index, leg)| {
            states.map(|state| ([index, word_of(state)], u8::from(leg.state == state)))
        });
        self.each(&of::LEG_STATE, states);
        let beliefs = NUMBERS.into_iter().zip(&seen.beliefs);
        let slow = beliefs.filter(|_| seen.predicts);
        let slow = slow.map(|(index, beliefs)| ([index], slow_ratio(beliefs)));
        self.each(&of::LEG_SLOW, slow);
        let each = |of: fn(&LegStatus) -> u64| {
            let legs = status.legs.iter().chain(&status.replacement);
            let legs = NUMBERS.into_iter().zip(legs);
            legs.map(move |(index, leg)| ([index], of(leg)))
        };
        self.each(&of::LEG_WRITE_MOSTLY, each(|leg| leg.write_mostly.into()));
        self.each(&of::LEG_FAILFAST, each(|leg| leg.failfast.into()));
        let bad = each(|leg| leg.bad_sectors * SECTOR_BYTES);
        self.each(&of::LEG_BAD, bad);
        let corrected = each(|leg| leg.corrected_sectors.into());
        self.each(&of::LEG_CORRECTED, corrected);
        let errors = each(|leg| leg.recent_read_errors.into());
        self.each(&of::LEG_READ_ERRORS, errors);
    }

    fn leg_operations(&mut self) {
        let Snapshot { legs, accounts, .. } = &self.figures.stats;
        let counted = if accounts.is_on { &legs[..] } else { &[] };
        let legs = || NUMBERS.into_iter().zip(counted);
        let all = || {
            legs().flat_map(|(index, leg)| {
                let kinds = by_kind(&leg.stats.account).into_iter();
                // Nobody asks a leg for holes.
                let kinds = kinds.filter(|(kind, _)| *kind != "block_status");
                kinds.map(move |(kind, done)| ([index, kind], done))
            })
        };
        let each = |of: fn(&Traffic) -> u64| all().map(move |(labels, done)| (labels, of(done)));
        self.each(&of::LEG_OPS, each(Traffic::count));
        self.each(&of::LEG_BYTES, each(|done| done.bytes));
        self.each(&of::LEG_ERRORS, each(|done| done.errors));
        self.each(&of::LEG_IN_FLIGHT, each(Traffic::in_flight));
        let weighted = all().map(|(labels, done)| (labels, Seconds(done.weighted_ns())));
        self.each(&of::LEG_WEIGHTED, weighted);
        let mut service = self.family(&of::LEG_SERVICE);
        for (labels, done) in all() {
            service.add_histogram(&labels, Bounds::FINE, fine(done));
        }
        let mut waits = self.family(&of::LEG_WAIT);
        for (index, LegSnapshot { stats, .. }) in legs() {
            for (kind, times) in [
                (
                    "read",
                    stats.read_waits.among(stats.account.of(OpKind::Read)),
                ),
                (
                    "write",
                    stats.write_waits.among(stats.account.of(OpKind::Write)),
                ),
            ] {
                let times = Some(times.fine_ns());
                waits.add_histogram(&[index, kind], Bounds::FINE, times);
            }
        }
        let each =
            |of: fn(&LegStats) -> u64| legs().map(move |(index, leg)| ([index], of(&leg.stats)));
        self.each(&of::LEG_MERGES, each(|stats| stats.merges));
        self.each(&of::LEG_HEDGES, each(|stats| stats.hedge_reads));
        self.each(&of::LEG_IGNORED, each(|stats| stats.ignored));
        let ticks = |leg: &LegSnapshot| Seconds::of(leg.stats.account.ticks(accounts.now));
        let busy = legs().map(|(index, leg)| ([index], ticks(leg)));
        self.each(&of::LEG_BUSY, busy);
    }

    fn bitmap(&mut self) {
        let status = &self.figures.status;
        let bitmap = status.bitmap;
        let chunk = bitmap.map(|bitmap| bitmap.chunk_bytes);
        self.maybe(&of::BITMAP_CHUNK, chunk);
        self.maybe(&of::BITMAP_CHUNKS, bitmap.map(|bitmap| bitmap.chunks));
        self.maybe(&of::BITMAP_SET, bitmap.map(|bitmap| bitmap.set));
        self.maybe(&of::BITMAP_NEEDED, bitmap.map(|bitmap| bitmap.needed));
        self.maybe(&of::BITMAP_SETS, bitmap.map(|bitmap| bitmap.sets));
        let pages = bitmap.map(|bitmap| bitmap.pages_written);
        self.maybe(&of::BITMAP_PAGES, pages);
        let behind = status.write_behind.as_ref();
        self.maybe(&of::BEHIND, behind.map(|behind| behind.writes));
        self.maybe(&of::BEHIND_BYTES, behind.map(|behind| behind.bytes));
        self.maybe(&of::BEHIND_TOTAL, behind.map(|behind| behind.total));
    }

    fn background(&mut self) {
        let status = &self.figures.status;
        let work = status.background.as_ref();
        let active = ["resync", "rebuild", "check", "repair"].map(|kind| {
            let is_active = work.is_some_and(|work| work.kind == kind);
            ([kind], u8::from(is_active))
        });
        self.each(&of::WORK_ACTIVE, active);
        let each = |of: fn(&WorkStatus) -> u64| work.map(|work| ([work.kind.as_str()], of(work)));
        self.each(&of::WORK_PAUSED, each(|work| work.paused.into()));
        self.each(&of::WORK_DONE, each(|work| work.done_bytes));
        self.each(&of::WORK_SIZE, each(|work| work.total_bytes));
        self.each(&of::WORK_RATE, each(|work| work.bytes_per_s));
        let mismatch = each(|work| work.mismatch_sectors * SECTOR_BYTES);
        self.each(&of::WORK_MISMATCH, mismatch);
        let last = status.last_scrub.as_ref();
        let last = last.map(|run| ([run.kind.as_str()], run.mismatch_sectors * SECTOR_BYTES));
        self.each(&of::SCRUB_MISMATCH, last);
    }

    fn volumes(&mut self) {
        let status = &self.figures.volumes;
        self.maybe(&of::VOLUMES_FREE, status.free_bytes);
        let each = |of: fn(&VolumeStatus) -> u64| {
            let volumes = status.volumes.iter();
            volumes.map(move |volume| ([volume.name.as_str()], of(volume)))
        };
        self.each(&of::VOLUME_SIZE, each(|volume| volume.size_bytes));
        let allocated = each(|volume| volume.allocated_bytes);
        self.each(&of::VOLUME_ALLOCATED, allocated);
        self.each(&of::VOLUME_PREPARED, each(|volume| volume.prepared_bytes));
        let connections = each(|volume| volume.connections as u64);
        self.each(&of::VOLUME_CONNECTIONS, connections);
    }
}

/// A client that has series of its own.
#[derive(Debug)]
struct Client<'a> {
    name: &'a str,
    connections: usize,
    account: Cow<'a, Account>,
}

impl<'a> Client<'a> {
    /// Those that are there, by name. One that uses two exports is one.
    fn all(clients: &'a [ClientSnapshot]) -> Vec<Self> {
        let mut by_name: BTreeMap<&str, Self> = BTreeMap::new();
        let is_there = |client: &&ClientSnapshot| {
            client.connections > 0 || client.name == flows::NAME_OF_SHARED
        };
        for client in clients.iter().filter(is_there) {
            match by_name.entry(&client.name) {
                Entry::Vacant(place) => {
                    place.insert(Self {
                        name: &client.name,
                        connections: client.connections,
                        account: Cow::Borrowed(&client.account),
                    });
                }
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    known.connections += client.connections;
                    known.account.to_mut().merge(&client.account);
                }
            }
        }
        by_name.into_values().collect()
    }

    /// Of more than there is room for, those that have asked for the most.
    fn shown(mut clients: Vec<Self>) -> Vec<Self> {
        clients.sort_by_key(|client| Reverse(client.requests()));
        clients.truncate(CLIENTS_MAX);
        clients.sort_by_key(|client| client.name);
        clients
    }

    fn requests(&self) -> u64 {
        let kinds = by_kind(&self.account).into_iter();
        kinds.map(|(_, done)| done.count()).sum()
    }
}

/// What was done, by the value of the label `kind`.
fn by_kind(account: &Account) -> [(&'static str, &Traffic); 6] {
    OpKind::ALL.map(|kind| {
        let name = match kind {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Flush => "flush",
            OpKind::Trim => "trim",
            OpKind::WriteZeroes => "write_zeroes",
            OpKind::BlockStatus => "block_status",
        };
        (name, account.of(kind))
    })
}

fn is_read_or_write(kind: &str) -> bool {
    matches!(kind, "read" | "write")
}

fn fine(done: &Traffic) -> Option<&Histogram> {
    done.times().map(Times::fine_ns)
}

/// The name of a policy or a scheduler that is written as `NAME:VALUE`.
fn name_of(spec: &str) -> &str {
    spec.split_once(':').map_or(spec, |(name, _)| name)
}

/// How many times slower than usual a policy takes a leg for.
fn slow_ratio(beliefs: &LegBeliefs) -> f64 {
    let mut facts = beliefs.facts.iter();
    match facts
        .find(|fact| fact.key == "slow_times")
        .map(|fact| fact.value)
    {
        Some(FactValue::Times(times)) => times,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests;
