//! What background work has come to: how the last jobs ended, and what each scrub found. The latter
//! is kept under the array's name, so that a mismatch is known after a restart too, and a scrub
//! that was cut short goes on.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use heliostat_engine::{BackgroundEnd, BackgroundKind, BackgroundStatus, Event, Mismatches};
use heliostat_types::{Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::events;
use crate::newest::{self, NewestWriter};
use crate::wall_time::WallTime;

const VERSION: u32 = 1;

/// So many scrubs are remembered: more than two years of monthly ones.
const RUNS_MAX: usize = 32;

/// So many ends of jobs are told to those who wait for one.
const ENDED_MAX: usize = 8;

/// How far a scrub is, is written down so often; a crash costs at most so much of it.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(30);

/// What a check or a repair did and found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubRun {
    /// `check` or `repair`.
    pub kind: String,
    /// When it began, in UTC.
    pub began: String,
    /// How long the array was served since, until it ended.
    pub took_ns: u64,
    /// How much of the array was compared, from its beginning on.
    pub compared_bytes: u64,
    /// In how many sectors of 512 bytes copies differed.
    pub mismatch_sectors: u64,
    /// In how many runs those lie.
    pub mismatch_runs: u64,
    /// Of these sectors, how many a repair has made equal without a majority that said what is
    /// right.
    pub undecided_sectors: u64,
    /// What was written to make copies equal.
    pub written_bytes: u64,
    /// How it ended: `done`, `stopped` or `incomplete`; absent while it is under way, or where it
    /// was cut short and will go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
}

/// How a job in the background ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedWork {
    /// Counted since the start of the daemon.
    pub number: u64,
    /// `resync`, `rebuild`, `check` or `repair`.
    pub kind: String,
    /// `done`, `stopped`, `incomplete`, `legs-faulted` or `not-recorded`.
    pub end: String,
    /// By a check or a repair: how many sectors of 512 bytes differed.
    pub mismatch_sectors: u64,
    /// All of it, in words.
    pub text: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScrubsFile {
    version: u32,
    /// The array's identity, where it has one: another one of the same name begins anew.
    uuid: Option<String>,
    /// Oldest first.
    runs: Vec<ScrubRun>,
}

/// A scrub that was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub(crate) repair: bool,
    /// What comes before was compared.
    pub(crate) from_bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct WorkLog {
    uuid: Option<String>,
    runs: VecDeque<ScrubRun>,
    /// Of the run that has not ended, what earlier lives did.
    base: Base,
    checkpoint_at: Option<Instant>,
    ended: VecDeque<EndedWork>,
    ended_count: u64,
    /// Who writes; nobody where nothing is kept.
    writer: Option<NewestWriter>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Base {
    began_at: Instant,
    took: Duration,
    mismatches: Mismatches,
    written_bytes: u64,
}

impl WorkLog {
    /// What is remembered of the array in the file at `path`, or nothing, and from now on nothing,
    /// where there is none. A line where there is one that is of no use.
    pub(crate) fn open(
        path: Option<PathBuf>,
        uuid: Option<String>,
    ) -> io::Result<(Self, Option<String>)> {
        let (runs, note) = match path.as_deref().map(|path| load(path, uuid.as_deref())) {
            Some(Ok(runs)) => (runs, None),
            Some(Err(note)) => (VecDeque::new(), Some(note)),
            None => (VecDeque::new(), None),
        };
        let log = Self {
            uuid,
            runs,
            base: Base::default(),
            checkpoint_at: None,
            ended: VecDeque::new(),
            ended_count: 0,
            writer: path
                .map(|path| NewestWriter::start(path, "what scrubs find"))
                .transpose()?,
        };
        Ok((log, note))
    }

    /// The scrub that was cut short by the end of an earlier life.
    pub(crate) fn unfinished(&self) -> Option<Unfinished> {
        let run = self.runs.back().filter(|run| run.end.is_none())?;
        Some(Unfinished {
            repair: run.kind == "repair",
            from_bytes: run.compared_bytes,
        })
    }

    /// All scrubs that are remembered, oldest first.
    pub(crate) fn runs(&self) -> Vec<ScrubRun> {
        self.runs.iter().cloned().collect()
    }

    /// The last scrub that has ended.
    pub(crate) fn last_ended_run(&self) -> Option<ScrubRun> {
        let ended = self.runs.iter().rev().find(|run| run.end.is_some());
        ended.cloned()
    }

    /// How the last jobs of this life ended, oldest first.
    pub(crate) fn ended(&self) -> Vec<EndedWork> {
        self.ended.iter().cloned().collect()
    }

    /// The scrub that waits for something else, or was cut short, will not go on.
    pub(crate) fn give_up_waiting(&mut self) {
        if let Some(run) = self.runs.back_mut().filter(|run| run.end.is_none()) {
            run.end = Some("stopped".to_owned());
            self.store();
        }
    }

    /// Notes what the engine tells.
    pub(crate) fn note_event(&mut self, now: Instant, event: &Event) {
        if let Event::BackgroundStarted {
            kind: kind @ BackgroundKind::Scrub { .. },
            ..
        } = *event
        {
            self.scrub_begins(now, events::work(kind));
        } else if let Event::BackgroundEnded {
            kind,
            end,
            copied_bytes,
            done_bytes,
            mismatches,
        } = *event
        {
            let mut mismatch_sectors = 0;
            if matches!(kind, BackgroundKind::Scrub { .. }) {
                self.note_figures(now, done_bytes, mismatches, copied_bytes);
                self.checkpoint_at = None;
                if let Some(run) = self.open_run() {
                    run.end = Some(word_of(end).to_owned());
                    mismatch_sectors = run.mismatch_sectors;
                }
                self.store();
            }
            self.ended_count += 1;
            self.ended.push_back(EndedWork {
                number: self.ended_count,
                kind: events::work(kind).to_owned(),
                end: word_of(end).to_owned(),
                mismatch_sectors,
                text: events::describe(event, &|leg| leg.to_string(), &[]),
            });
            if self.ended.len() > ENDED_MAX {
                self.ended.pop_front();
            }
        }
    }

    /// When to call [`Self::checkpoint`].
    pub(crate) const fn next_checkpoint(&self) -> Option<Instant> {
        self.checkpoint_at
    }

    /// Writes down how far a scrub is.
    pub(crate) fn checkpoint(&mut self, now: Instant, status: Option<BackgroundStatus>) {
        let Some(status) = status.filter(|_| self.checkpoint_at.is_some()) else {
            return;
        };
        self.checkpoint_at = Some(now + CHECKPOINT_EVERY);
        if matches!(status.kind, BackgroundKind::Scrub { .. }) {
            let (settled, written) = (status.settled_bytes, status.copied_bytes);
            self.note_figures(now, settled, status.mismatches, written);
            self.store();
        }
    }

    fn open_run(&mut self) -> Option<&mut ScrubRun> {
        self.runs.back_mut().filter(|run| run.end.is_none())
    }

    fn scrub_begins(&mut self, now: Instant, kind: &str) {
        self.checkpoint_at = Some(now + CHECKPOINT_EVERY);
        if let Some(run) = self.open_run().filter(|run| run.kind == kind) {
            self.base = Base {
                began_at: now,
                took: Duration::from_ns(run.took_ns),
                mismatches: Mismatches {
                    sectors: run.mismatch_sectors,
                    runs: run.mismatch_runs,
                    undecided_sectors: run.undecided_sectors,
                },
                written_bytes: run.written_bytes,
            };
            return;
        }
        self.give_up_waiting();
        self.base = Base {
            began_at: now,
            ..Base::default()
        };
        self.runs.push_back(ScrubRun {
            kind: kind.to_owned(),
            began: WallTime::now().to_string(),
            took_ns: 0,
            compared_bytes: 0,
            mismatch_sectors: 0,
            mismatch_runs: 0,
            undecided_sectors: 0,
            written_bytes: 0,
            end: None,
        });
        if self.runs.len() > RUNS_MAX {
            self.runs.pop_front();
        }
        self.store();
    }

    fn note_figures(
        &mut self,
        now: Instant,
        compared_bytes: u64,
        found: Mismatches,
        written_bytes: u64,
    ) {
        let base = self.base;
        let Some(run) = self.open_run() else {
            return;
        };
        run.took_ns = (base.took + now.saturating_since(base.began_at)).as_ns();
        run.compared_bytes = compared_bytes;
        run.mismatch_sectors = base.mismatches.sectors + found.sectors;
        run.mismatch_runs = base.mismatches.runs + found.runs;
        run.undecided_sectors = base.mismatches.undecided_sectors + found.undecided_sectors;
        run.written_bytes = base.written_bytes + written_bytes;
    }

    fn store(&self) {
        if let Some(writer) = &self.writer {
            writer.write(&ScrubsFile {
                version: VERSION,
                uuid: self.uuid.clone(),
                runs: self.runs(),
            });
        }
    }
}

/// How a job ended, in a word.
const fn word_of(end: BackgroundEnd) -> &'static str {
    match end {
        BackgroundEnd::Done => "done",
        BackgroundEnd::Stopped => "stopped",
        BackgroundEnd::Incomplete(_) => "incomplete",
        BackgroundEnd::LegsFaulted => "legs-faulted",
        BackgroundEnd::NotRecorded => "not-recorded",
    }
}

/// The runs in a file. Nothing is believed because of them, so that a file that cannot be used is
/// told of, and replaced when there is something new.
fn load(path: &Path, uuid: Option<&str>) -> Result<VecDeque<ScrubRun>, String> {
    let unknown = "what earlier scrubs found is not known";
    let loaded = newest::load(path, unknown, |file: &ScrubsFile| (file.version, VERSION))?;
    let Some(file) = loaded else {
        return Ok(VecDeque::new());
    };
    if file.uuid.as_deref() != uuid {
        return Ok(VecDeque::new());
    }
    let surplus = file.runs.len().saturating_sub(RUNS_MAX);
    Ok(file.runs.into_iter().skip(surplus).collect())
}

#[cfg(test)]
mod tests;
