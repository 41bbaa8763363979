//! What is done in the background of an array while it is served: how fast, how far it is, and
//! scrubs.

use heliostat_engine::{BackgroundKind, Input};
use heliostat_types::{Duration, Instant};
use stdx::units::exact_rate;

use super::{Server, failed};
use crate::RuntimeError;
use crate::options::ArrayOptions;
use crate::rates::{RateChange, Rates};
use crate::setup::Prepared;
use crate::status::{ScrubAction, WorkStatus};
use crate::work::{ScrubRun, Unfinished, WorkLog};

/// How often somebody at a terminal is shown how far background work is.
const SHOWN_EVERY: Duration = Duration::from_ms(500);

/// What is remembered of background work, and a line where that cannot be read.
pub(super) fn open_work(
    options: &ArrayOptions,
    prepared: &Prepared,
) -> Result<(WorkLog, Option<String>), RuntimeError> {
    let described = prepared.described.as_ref();
    let uuid = described.map(|described| described.uuid.to_string());
    let path = options.places.scrubs(&options.name);
    let opened = WorkLog::open(options.keeps_settings.then_some(path), uuid);
    opened.map_err(|error| failed("start a thread", &error))
}

impl Server {
    /// Between which bounds background work goes.
    pub(super) const fn rates(&self) -> Rates {
        let (min_bytes_per_s, max_bytes_per_s) = self.core.engine().background_rates();
        Rates {
            min_bytes_per_s,
            max_bytes_per_s,
        }
    }

    /// With these bounds, unless nothing is to be written.
    pub(super) fn begin_work(&mut self, rates: Rates) {
        if self.core.info.read_only {
            self.core.input(Input::PauseBackground);
        }
        self.set_rates(rates);
    }

    /// Other bounds from now on, whatever is under way.
    pub(super) fn set_rates(&mut self, rates: Rates) {
        self.core.input(Input::SetBackgroundRates {
            min_bytes_per_s: rates.min_bytes_per_s,
            max_bytes_per_s: rates.max_bytes_per_s,
        });
    }

    /// Changes the bounds, where that is asked for, and says which ones there are now.
    pub(super) fn change_rates(&mut self, change: RateChange) -> Result<Rates, String> {
        let before = self.rates();
        let rates = before.changed(change).map_err(|error| error.to_string())?;
        if rates != before {
            self.set_rates(rates);
            self.core.log.line(format!(
                "background work goes at {} to {} from now on",
                exact_rate(rates.min_bytes_per_s),
                exact_rate(rates.max_bytes_per_s)
            ));
        }
        Ok(rates)
    }

    /// Goes on with what earlier lives have left undone.
    pub(super) fn resume_work(&mut self) {
        if self.core.info.read_only {
            // Nothing of it would stay.
            return;
        }
        self.core.input(Input::StartResync { everything: false });
        if let Some(Unfinished { repair, from_bytes }) = self.core.work.unfinished() {
            self.core.input(Input::GoOnWithScrub { repair, from_bytes });
        }
    }

    /// Begins, pauses or ends a scrub.
    pub(super) fn scrub(&mut self, action: ScrubAction) -> Result<String, String> {
        let engine = self.core.engine();
        let work = engine.background();
        let is_scrub = work.is_some_and(|work| matches!(work.kind, BackgroundKind::Scrub { .. }));
        let waits = engine.waiting_scrub().is_some();
        let (name, option) = (&self.name, &self.option);
        let work = work.map(WorkStatus::from);
        if let Some(work) = work.as_ref().filter(|work| action.begins(&work.kind)) {
            return Err(format!(
                "a {} is under way already ({} %{}); 'heliostat scrub {name} cancel{option}' gives \
                 it up",
                work.kind,
                work.percent(),
                if work.paused { ", paused" } else { "" }
            ));
        }
        let shows = format!("'heliostat status {name}{option}' shows how far it is");
        let begins = match &work {
            Some(work) if is_scrub => format!("begins in the place of the {}; {shows}", work.kind),
            Some(work) => format!("waits until the {} is done", work.kind),
            None => format!("begins; {shows}"),
        };
        let (input, told) = match action {
            ScrubAction::Check | ScrubAction::Repair if engine.in_sync().count() < 2 => {
                return Err("there is nothing to compare: one leg is in sync".to_owned());
            }
            ScrubAction::Check => (
                Input::StartScrub { repair: false },
                format!("the check {begins}"),
            ),
            ScrubAction::Repair => (
                Input::StartScrub { repair: true },
                format!("the repair {begins}"),
            ),
            ScrubAction::Pause => (
                Input::PauseBackground,
                format!(
                    "no more is begun in the background; 'heliostat scrub {name} resume{option}' \
                     goes on"
                ),
            ),
            ScrubAction::Resume if work.is_none() => {
                return Err("nothing is done in the background".to_owned());
            }
            ScrubAction::Resume => (Input::ResumeBackground, "it goes on".to_owned()),
            ScrubAction::Cancel if !is_scrub && !waits => {
                return Err("no scrub is under way".to_owned());
            }
            ScrubAction::Cancel => (Input::StopBackground, "the scrub is given up".to_owned()),
        };
        let replaces = matches!(input, Input::StartScrub { .. } | Input::StopBackground);
        if replaces && !is_scrub {
            // One that had not begun in this life ends without a word.
            self.core.work.give_up_waiting();
        }
        self.core.input(input);
        Ok(told)
    }

    /// What the last scrubs found, oldest first.
    pub(super) fn scrub_runs(&self) -> Vec<ScrubRun> {
        self.core.work.runs()
    }

    /// When something is to be written down or shown next.
    pub(super) fn next_look_at_work(&self) -> Option<Instant> {
        let shown = self.shown_at.map(|at| at + SHOWN_EVERY);
        let shown = shown.filter(|_| self.core.engine().background().is_some());
        shown
            .into_iter()
            .chain(self.core.work.next_checkpoint())
            .min()
    }

    /// Writes down and shows how far background work is, where it is time.
    pub(super) fn look_at_work(&mut self) {
        let now = self.core.now();
        let status = self.core.engine().background();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.core.work.next_checkpoint()) {
            self.core.work.checkpoint(now, status);
        }
        let has_ended = status.is_none() && self.shows_work;
        if is_due(self.shown_at.map(|at| at + SHOWN_EVERY)) || has_ended {
            self.shown_at = Some(now);
            self.shows_work = status.is_some();
            self.core.log.show(status.map(WorkStatus::from));
        }
    }
}
