//! What is done about volumes, job by job: the table is looked for at the start, changed when
//! somebody asks, and what is new in a volume is zeroed when nobody does.

use std::collections::VecDeque;

use heliostat_types::{ErrorKind, Extent};
use heliostat_volume::{
    ChangeError, Copy, Limits, Places, Plan, Table, Volume, VolumeMap, assess, former_second, look,
};

use super::own::Step;
use super::status::limits_text;
use super::{ChangeReply, VolumeChange, Volumes};
use crate::commands::Refused;
use crate::flows::Flows;
use crate::found;

/// After so much that was zeroed the table says so: what a start goes over again at most.
const SAY_EVERY_BYTES: u64 = 16 << 30;

/// What is under way.
#[derive(Debug)]
pub(crate) enum Job {
    /// Copies of the table are looked for.
    Load(Vec<Copy>),
    /// It is looked whether something lies where the first table is to be.
    Look(Look),
    /// A table is written.
    Update(Update),
    /// So much of this volume will be zeroed then.
    Zero { volume: String, until_bytes: u64 },
}

/// The first volume of an array.
#[derive(Debug)]
pub(crate) struct Look {
    next: Table,
    told: String,
    force: bool,
    reply: ChangeReply,
    /// What was found, in words.
    found: Option<String>,
}

/// A table on its way.
#[derive(Debug)]
pub(crate) struct Update {
    /// What counts when it is durable.
    next: Option<Table>,
    /// What whoever asked is told then.
    told: Option<(ChangeReply, String)>,
}

/// The job that is under way, step by step, and what keeps others from being begun.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(super) job: Option<Job>,
    steps: VecDeque<Step>,
    /// What was zeroed of a volume, and the table does not say yet.
    zeroed: Option<(String, u64)>,
    /// How much is zeroed at a time.
    piece_bytes: u64,
    array_bytes: u64,
    /// Why nothing more can be done until the array is served anew.
    pub(super) broken: Option<String>,
    /// Why the array cannot be served.
    refusal: Option<String>,
}

impl Work {
    pub(super) fn new(array_bytes: u64, piece_bytes: u64) -> Self {
        Self {
            array_bytes,
            piece_bytes,
            ..Self::default()
        }
    }

    fn begin(&mut self, job: Job, steps: impl IntoIterator<Item = Step>) {
        assert!(self.job.is_none() && self.steps.is_empty(), "one at a time");
        self.job = Some(job);
        self.steps.extend(steps);
    }

    fn write(&mut self, plan: Plan, update: Update, flushes: bool) {
        let first = flushes.then_some(Step::Flush);
        let steps = plan.steps.into_iter().map(|step| match step {
            heliostat_volume::Step::Write {
                offset_bytes,
                bytes,
            } => vec![Step::Write {
                offset_bytes,
                bytes,
            }],
            heliostat_volume::Step::Zero(extent) => vec![Step::Zero(extent), Step::Flush],
        });
        let steps: Vec<Step> = first.into_iter().chain(steps.flatten()).collect();
        self.begin(Job::Update(update), steps);
    }

    /// It was carried out, the next one can be asked for.
    pub(crate) fn step_begun(&mut self) {
        self.steps.pop_front().expect("it is the first one");
    }
}

impl Volumes {
    /// Begins to look for the table, where the array can have one.
    pub(crate) fn begin_load(&mut self) {
        if self.array.is_none() {
            return;
        }
        if let Some(places) = Places::of(self.work.array_bytes) {
            let steps = places.areas().map(Step::Read);
            self.work.begin(Job::Load(Vec::new()), steps);
        }
    }

    /// Whether the array has to wait for it before anybody is served.
    pub(crate) const fn is_loading(&self) -> bool {
        matches!(self.work.job, Some(Job::Load(_) | Job::Update(_)))
    }

    /// Why the array cannot be served with what was found.
    pub(crate) fn refusal(&self) -> Option<&str> {
        let broken = self.work.broken.as_deref();
        self.work.refusal.as_deref().or(broken)
    }

    /// What is to be done next, if anything.
    pub(crate) fn next_step(&mut self, flows: &mut Flows) -> Option<Step> {
        loop {
            if let Some(step) = self.work.steps.front() {
                return Some(step.clone());
            }
            match self.work.job.take() {
                Some(job) => self.end(job, flows),
                None if self.begin_waiting() || self.begin_zeroing() => {}
                None => return None,
            }
        }
    }

    /// A step is done; of a read, with these bytes.
    pub(crate) fn on_step(&mut self, result: Result<&[u8], ErrorKind>) {
        match (result, &mut self.work.job) {
            (Ok(bytes), Some(Job::Load(copies))) => {
                let array = self.array.expect("only then it is looked for");
                copies.push(look(bytes, &array));
            }
            (Ok(bytes), Some(Job::Look(look))) => {
                let found = found::in_bytes(bytes);
                look.found = look.found.take().or(found);
            }
            (Ok(_), _) => {}
            (Err(kind), _) => self.fail(kind),
        }
    }

    fn fail(&mut self, kind: ErrorKind) {
        self.work.steps.clear();
        let what = match self.work.job.take() {
            Some(Job::Load(_)) => "the table of volumes cannot be read",
            Some(Job::Look(look)) => {
                let refused = format!("the array cannot be read: {kind}");
                drop(look.reply.try_send(Err(Refused::from(refused))));
                self.live.open();
                return;
            }
            Some(Job::Zero { .. }) => "a volume cannot be zeroed",
            Some(Job::Update(_)) | None => "the table of volumes cannot be written",
        };
        let why = format!(
            "{what}: {kind}; volumes stay as they are until the array is stopped and served again"
        );
        self.lines.push(why.clone());
        self.work.broken = Some(why);
    }

    fn end(&mut self, job: Job, flows: &mut Flows) {
        match job {
            Job::Load(copies) => self.end_load(copies, flows),
            Job::Look(look) => self.end_look(look),
            Job::Update(update) => {
                self.table = update.next;
                self.follow_table(flows);
                if let Some((reply, told)) = update.told {
                    self.lines.push(told.clone());
                    drop(reply.try_send(Ok(told)));
                }
            }
            Job::Zero {
                volume,
                until_bytes,
            } => self.work.zeroed = Some((volume, until_bytes)),
        }
    }

    fn end_load(&mut self, mut copies: Vec<Copy>, flows: &mut Flows) {
        let array_bytes = self.work.array_bytes;
        if copies.len() == 2
            && let Some(area) = former_second(&copies[0], array_bytes)
        {
            return self.work.begin(Job::Load(copies), [Step::Read(area)]);
        }
        let former = (copies.len() == 3).then(|| copies.remove(2));
        let found = match assess(array_bytes, &copies[0], &copies[1], former.as_ref()) {
            Ok(found) => found,
            Err(refusal) => {
                self.work.refusal = Some(refusal.to_string());
                return;
            }
        };
        if copies.contains(&Copy::OfAnother) {
            self.lines.push(
                "its data hold a table of volumes of another array, which is not used".to_owned(),
            );
        }
        let Some(found) = found else {
            return;
        };
        let may_write = |place: usize| !found.stale[place] || found.may_write[place];
        self.overwritten = [!may_write(0), !may_write(1)];
        self.lines.extend(self.overwriting());
        let (plan, next) = Plan::settle(&found, &copies[0], &copies[1], array_bytes);
        if self.frozen.is_none() && !plan.steps.is_empty() {
            self.lines
                .push("a copy of the table of volumes is written again".to_owned());
            return self.work.write(plan, Update { next, told: None }, false);
        }
        self.table = Some(found.table).filter(|table| !table.volumes.is_empty());
        self.follow_table(flows);
    }

    /// What is said while something else lies where a copy should be.
    fn overwriting(&self) -> Option<String> {
        let is_anywhere = self.overwritten.contains(&true);
        is_anywhere.then(|| {
            "something else lies where a copy of the table of volumes should be; volumes are \
             served by the other copy, and 'heliostat volume repair' writes over it"
                .to_owned()
        })
    }

    /// What is wrong, for whoever looks.
    pub(super) fn problem(&self) -> Option<String> {
        self.work.broken.clone().or_else(|| self.overwriting())
    }

    /// The table with what was zeroed since it was written.
    fn current(&self) -> Option<Table> {
        let table = self.table.as_ref()?;
        let zeroed = self.work.zeroed.as_ref();
        let said = zeroed.and_then(|(name, bytes)| table.with_prepared(name, *bytes).ok());
        Some(said.unwrap_or_else(|| table.clone()))
    }

    /// Begins the next change that somebody waits for. Whether there was any.
    fn begin_waiting(&mut self) -> bool {
        let Some((change, reply)) = self.waiting.pop_front() else {
            return false;
        };
        if let Err(refused) = self.begin_change(change, &reply) {
            drop(reply.try_send(Err(Refused::from(refused))));
        }
        true
    }

    fn begin_change(&mut self, change: VolumeChange, reply: &ChangeReply) -> Result<(), String> {
        let stopper = [&self.frozen, &self.work.broken]
            .into_iter()
            .flatten()
            .next();
        if let Some(why) = stopper {
            return Err(why.clone());
        }
        let is_repair = change == VolumeChange::Repair;
        if let Some(why) = self.overwriting().filter(|_| !is_repair) {
            return Err(why);
        }
        match change {
            VolumeChange::Create {
                volume,
                size_bytes,
                limits,
                force,
            } => {
                let limits = limits.apply(Limits::default());
                self.create(&volume, size_bytes, limits, force, reply)
            }
            VolumeChange::Resize {
                volume,
                size_bytes,
                shrink,
            } => self.resize(&volume, size_bytes, shrink, reply),
            VolumeChange::Set { volume, limits } => {
                let table = self.table_with(&volume)?;
                let before = table.volume(&volume).map(|volume| volume.limits);
                let limits = limits.apply(before.unwrap_or_default());
                let next = table.with_limits(&volume, limits).map_err(words)?;
                let told = format!("volume {volume}: {}", limits_text(limits));
                self.update(next, told, reply);
                Ok(())
            }
            VolumeChange::Delete { volume } => self.delete(&volume, reply),
            VolumeChange::Repair => {
                self.repair(reply);
                Ok(())
            }
        }
    }

    fn create(
        &mut self,
        name: &str,
        size_bytes: u64,
        limits: Limits,
        force: bool,
        reply: &ChangeReply,
    ) -> Result<(), String> {
        let told = |next: &Table| {
            let volume = next.volumes.last().expect("it was added");
            let bytes = volume.allocated_bytes();
            format!("volume {name} of {bytes} bytes is on record; what it holds is zeroed first")
        };
        if let Some(table) = self.current() {
            let next = table.with_volume(name, size_bytes, limits).map_err(words)?;
            let told = told(&next);
            self.update(next, told, reply);
            return Ok(());
        }
        let connections = self.live.whole_connections();
        if connections > 0 {
            return Err(format!(
                "the array is used as a whole, by {connections} connections; it is cut into \
                 volumes when they have left"
            ));
        }
        let requests = self.live.whole_requests();
        if requests > 0 {
            let s = if requests == 1 { "" } else { "s" };
            return Err(format!(
                "the array is used as a whole, by {requests} request{s} without an answer yet; it \
                 is cut into volumes when nothing is under way"
            ));
        }
        let array = self.array.expect("changes are frozen where there is none");
        let empty = Table::new(array, self.work.array_bytes);
        let empty = empty.map_err(|error| error.to_string())?;
        // The first generation is that of the empty table which is written before.
        let empty = Table {
            generation: 1,
            ..empty
        };
        let next = empty.with_volume(name, size_bytes, limits).map_err(words)?;
        self.live.close_whole();
        let steps = next.places().areas().map(Step::Read);
        let look = Look {
            told: told(&next),
            next,
            force,
            reply: reply.clone(),
            found: None,
        };
        self.work.begin(Job::Look(look), steps);
        Ok(())
    }

    fn end_look(&mut self, look: Look) {
        if let Some(found) = look.found.as_ref().filter(|_| !look.force) {
            let refused = format!(
                "the start or the end of the array holds {found}; '--force' cuts the array into \
                 volumes nevertheless, and then all that it holds is lost"
            );
            drop(look.reply.try_send(Err(Refused::from(refused))));
            self.live.open();
            return;
        }
        let plan = Plan::begin(&look.next, look.found.is_some());
        let update = Update {
            next: Some(look.next),
            told: Some((look.reply, look.told)),
        };
        self.work.write(plan, update, false);
    }

    fn resize(
        &mut self,
        name: &str,
        size_bytes: u64,
        may_shrink: bool,
        reply: &ChangeReply,
    ) -> Result<(), String> {
        let table = self.table_with(name)?;
        let before = table.volume(name).cloned().expect("it was looked for");
        let next = table.with_size(name, size_bytes, may_shrink);
        let next = next.map_err(|error| {
            if matches!(error, ChangeError::WouldShrink { .. }) {
                format!("{error}; '--shrink' says that they may go")
            } else {
                words(error)
            }
        })?;
        let after = next.volume(name).expect("it stays");
        let allocated = after.allocated_bytes();
        if after.size_bytes < before.size_bytes {
            self.expect_unused(name, "made smaller")?;
            self.live.close(name);
        }
        let told = if after.is_preparing() {
            format!(
                "volume {name} gets {allocated} bytes; clients that connect when what is new was \
                 zeroed see them"
            )
        } else {
            format!("volume {name} has {allocated} bytes")
        };
        self.update(next, told, reply);
        Ok(())
    }

    fn delete(&mut self, name: &str, reply: &ChangeReply) -> Result<(), String> {
        let table = self.table_with(name)?;
        let next = table.without(name).map_err(words)?;
        self.expect_unused(name, "deleted")?;
        self.live.close(name);
        if !next.volumes.is_empty() {
            self.update(next, format!("volume {name} is deleted"), reply);
            return Ok(());
        }
        let told = format!("volume {name} is deleted; the array is served as a whole again");
        let update = Update {
            next: None,
            told: Some((reply.clone(), told)),
        };
        self.work.zeroed = None;
        self.work.write(Plan::end(&table), update, false);
        Ok(())
    }

    fn repair(&mut self, reply: &ChangeReply) {
        let which = std::mem::take(&mut self.overwritten);
        match self.table.clone() {
            Some(table) if which.contains(&true) => {
                let told = "both copies of the table of volumes are whole again".to_owned();
                let plan = Plan::rewrite(&table, which);
                let update = Update {
                    next: Some(table),
                    told: Some((reply.clone(), told)),
                };
                self.work.write(plan, update, false);
            }
            _ => drop(reply.try_send(Ok("there is nothing to repair".to_owned()))),
        }
    }

    /// Puts a table in the place of the one there is. What was zeroed is durable before that.
    fn update(&mut self, next: Table, told: String, reply: &ChangeReply) {
        let told = Some((reply.clone(), told));
        self.write_next(next, told);
    }

    fn write_next(&mut self, next: Table, told: Option<(ChangeReply, String)>) {
        let was_zeroed = self.work.zeroed.take().is_some();
        let plan = Plan::update(&next);
        let next = Some(next);
        self.work.write(plan, Update { next, told }, was_zeroed);
    }

    fn table_with(&self, name: &str) -> Result<Table, String> {
        let table = self.current().ok_or("the array has no volumes")?;
        match table.volume(name) {
            Some(_) => Ok(table),
            None => Err(words(ChangeError::NoSuchVolume(name.to_owned()))),
        }
    }

    fn expect_unused(&self, name: &str, what: &str) -> Result<(), String> {
        match self.live.connections(name) {
            0 => Ok(()),
            count => {
                let s = if count == 1 { "" } else { "s" };
                Err(format!(
                    "volume {name} is in use, by {count} connection{s}; it can be {what} when \
                     nobody is connected"
                ))
            }
        }
    }

    /// Goes on with what is new in a volume and not zeroed yet. Whether there is any.
    fn begin_zeroing(&mut self) -> bool {
        let may_not = self.is_stopping
            || self.frozen.is_some()
            || self.work.broken.is_some()
            || self.overwritten.contains(&true);
        let Some(table) = self.current().filter(|_| !may_not) else {
            return false;
        };
        let said = self.table.as_ref();
        let is_said = |volume: &Volume| {
            let said = said.and_then(|table| table.volume(&volume.name));
            said.is_some_and(|said| {
                volume.prepared_bytes < said.prepared_bytes + SAY_EVERY_BYTES
                    && said.size_bytes == volume.size_bytes
            })
        };
        if !table.volumes.iter().all(is_said) {
            self.write_next(table, None);
            return true;
        }
        let Some(volume) = table.volumes.iter().find(|volume| volume.is_preparing()) else {
            return false;
        };
        let from = volume.prepared_bytes;
        let until = volume
            .allocated_bytes()
            .min(from.saturating_add(self.work.piece_bytes));
        let map = VolumeMap::new(&volume.extents, volume.allocated_bytes());
        let first = map.first(Extent::from_range(from, until));
        let job = Job::Zero {
            volume: volume.name.clone(),
            until_bytes: from + first.len(),
        };
        self.work.begin(job, [Step::Zero(first)]);
        true
    }
}

fn words(error: ChangeError) -> String {
    error.to_string()
}
