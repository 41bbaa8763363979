//! What other threads ask of the loop, over a bounded channel, and the handle that they ask with.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use heliostat_engine::GrowRefusal;
use heliostat_format::{DeviceFlags, Uuid};
use heliostat_policy::{PolicyControl, PolicyError};
use heliostat_scheduler::{SCHEDULERS, SchedulerError, SchedulerSpec};
use heliostat_types::LegId;

use crate::RuntimeError;
use crate::add::{Addition, NewLeg, Wanted, is_same_leg};
use crate::control::{PolicyChange, SchedulerChange};
use crate::events;
use crate::explain::{Explanation, READS_MAX, WAIT_MAX, Watch, WatchEnd, WatchedReads, Watchers};
use crate::files::FileError;
use crate::metrics::Figures;
use crate::places::Places;
use crate::rates::{RateChange, Rates};
use crate::refusals::Refusals;
use crate::registry::Registered;
use crate::settings::Settings;
use crate::stats::{ArrayStats, Snapshot};
use crate::status::{ArrayStatus, FlagChange, LegStatus, ScrubAction};
use crate::volumes::{ChangeReply, VolumeChange, VolumesStatus};
use crate::waker::Waker;
use crate::work::ScrubRun;

/// How many commands may wait. Whoever comes later is told to come back.
const COMMANDS_MAX: usize = 16;

/// How long the loop may take to answer. It answers within a turn, unless the machine stands still.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How long something is tried again that is refused for the moment: a leg that was just faulted
/// has to be on record as such, and its last operations have to end.
const REFUSED_MAX: Duration = Duration::from_secs(3);

/// How often.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// One command, with where the answer goes.
#[derive(Debug)]
pub(crate) enum Command {
    /// What did the array do?
    Stats(SyncSender<Snapshot>),
    /// What did it do, and how is it?
    Metrics(SyncSender<Box<Figures>>),
    /// Which policies are there, with which tunables, and which is active?
    Policies(SyncSender<PolicyControl>),
    /// Count from now on, for the leg of this role or text, or for everything; answered with what
    /// became of it.
    ResetStats(Option<String>, SyncSender<Result<String, String>>),
    /// Use this policy from now on; answered with its full form.
    SetPolicy(String, SyncSender<Result<String, PolicyError>>),
    /// Give this policy's tunable this value; answered with the policy's full form, and whether it
    /// is active.
    SetTunable(
        &'static str,
        &'static str,
        String,
        SyncSender<Result<(String, bool), PolicyError>>,
    ),
    /// Prefer the leg of this role for reads, or not; answered with all roles that are preferred.
    Prefer(usize, bool, SyncSender<Option<Vec<usize>>>),
    /// Have this scheduler decide from now on, or leave it; answered with the one that does.
    Scheduler(Option<SchedulerSpec>, SyncSender<SchedulerSpec>),
    /// How is the array?
    Status(SyncSender<ArrayStatus>),
    /// Fault the leg of this role or text; answered with what became of it.
    Fail(String, SyncSender<Result<String, String>>),
    /// Let go of the leg of this role or text, where it is out; answered with whether it was.
    Release(String, SyncSender<Result<String, Refused>>),
    /// What a leg that is added has to know; nothing where legs are raw.
    Wanted(SyncSender<Option<Box<Wanted>>>),
    /// Make this a leg of the array; answered with what became of it.
    Add(Box<NewLeg>, SyncSender<Result<String, NotTaken>>),
    /// Have the leg of this role or text replaced by the spare that is called so, or by any;
    /// answered with what became of it, or with nothing where it can be replaced, but not by a
    /// spare.
    ReplaceBySpare(
        String,
        Option<String>,
        SyncSender<Result<Option<String>, Refused>>,
    ),
    /// Have the leg of this role or text replaced; answered with what became of it.
    Replace(String, Box<NewLeg>, SyncSender<Result<String, NotTaken>>),
    /// Say this of the leg of this role or text; answered with what is said of it, when that is
    /// durable.
    SetFlags(String, FlagChange, SyncSender<Result<String, Refused>>),
    /// Let there be so many legs; answered with that there are, when that is durable.
    Grow(usize, SyncSender<Result<(), Refused>>),
    /// Change the bounds of the rate of background work, or none; answered with those of now.
    Rates(RateChange, SyncSender<Result<Rates, String>>),
    /// Begin, pause or end a scrub; answered with what became of it.
    Scrub(ScrubAction, SyncSender<Result<String, String>>),
    /// What does the policy believe, and of which legs? Whoever has the watch hears it decide from
    /// then on.
    Explain(Option<Weak<Watch>>, SyncSender<(Explanation, Vec<LegId>)>),
    /// What did the last scrubs find?
    ScrubRuns(SyncSender<Vec<ScrubRun>>),
    /// How are the volumes?
    Volumes(SyncSender<VolumesStatus>),
    /// Change the volumes; answered with what became of it, when that is durable.
    ChangeVolumes(VolumeChange, ChangeReply),
    /// Put this line into the log.
    Note(String),
    /// Stop cleanly.
    Stop,
}

/// Why something was not done.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) why: String,
    /// Whether it may be done in a moment.
    pub(crate) passes: bool,
}

/// Why a leg is not taken, with it where that may be possible in a moment.
pub(crate) type NotTaken = (String, Option<Box<NewLeg>>);

impl From<String> for Refused {
    fn from(why: String) -> Self {
        let passes = false;
        Self { why, passes }
    }
}

/// The loop's end of the channel.
#[derive(Debug)]
pub(crate) struct Commands {
    incoming: Receiver<Command>,
    waker: Arc<Waker>,
}

/// Asks an array that is being served, from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: SyncSender<Command>,
    waker: Arc<Waker>,
    /// Locked while something is set, so that what is kept is what was set last.
    settings: Arc<Mutex<Settings>>,
    places: Arc<Places>,
    watchers: Watchers,
    refusals: Arc<Mutex<Refusals>>,
    is_read_only: bool,
}

/// Both ends of a new channel. What is set over it is kept in `settings`, and which legs there are
/// in `places`.
pub(crate) fn channel(
    settings: Settings,
    places: Places,
    is_read_only: bool,
) -> std::io::Result<(Handle, Commands)> {
    let (commands, incoming) = sync_channel(COMMANDS_MAX);
    let waker = Arc::new(Waker::new()?);
    let handle = Handle {
        commands,
        waker: Arc::clone(&waker),
        settings: Arc::new(Mutex::new(settings)),
        places: Arc::new(places),
        watchers: Watchers::default(),
        refusals: Arc::default(),
        is_read_only,
    };
    Ok((handle, Commands { incoming, waker }))
}

impl Commands {
    /// What is readable when there are commands.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The next command; to be asked until there is no more.
    pub(crate) fn next(&self) -> Option<Command> {
        self.incoming.try_recv().ok()
    }
}

impl Handle {
    /// Says why nothing may be changed on the legs, if so.
    fn expect_writable(&self) -> Result<(), RuntimeError> {
        if self.is_read_only {
            let why = "the array is served read-only, and nothing changes on its legs: serve it \
                       without --read-only first";
            return Err(RuntimeError(why.to_owned()));
        }
        Ok(())
    }

    /// What the array did.
    ///
    /// # Errors
    /// Where it is not served any more, or too busy.
    pub fn stats(&self) -> Result<ArrayStats, RuntimeError> {
        self.stats_in_full(false)
    }

    /// The same, with all times in full where they are wanted.
    pub(crate) fn stats_in_full(&self, is_fine: bool) -> Result<ArrayStats, RuntimeError> {
        let snapshot = self.ask(Command::Stats)?;
        Ok(ArrayStats::of(snapshot, is_fine))
    }

    /// Begins the statistics anew, of one leg, named by its role or as it was written, or all. What
    /// became of it, in a sentence.
    ///
    /// # Errors
    /// Where there is no such leg, or the array is not served any more, or too busy.
    pub fn reset_stats(&self, leg: Option<String>) -> Result<String, RuntimeError> {
        self.ask(|reply| Command::ResetStats(leg, reply))?
            .map_err(RuntimeError)
    }

    /// All policies with the active one in brackets, as btrfs's `read_policy` file shows them.
    ///
    /// # Errors
    /// Where the array is not served any more, or too busy.
    pub fn policy(&self) -> Result<String, RuntimeError> {
        self.shown_policy(false)
    }

    /// The same, where `is_full` with all values of each that are not its defaults.
    pub(crate) fn shown_policy(&self, is_full: bool) -> Result<String, RuntimeError> {
        let policies = self.policies()?;
        Ok(match is_full {
            true => policies.show_full(),
            false => policies.show(),
        })
    }

    /// All policies with their tunables, and which is active.
    pub(crate) fn policies(&self) -> Result<PolicyControl, RuntimeError> {
        self.ask(Command::Policies)
    }

    /// Switches the policy, and keeps it for the next start. The full form of what is active now.
    ///
    /// # Errors
    /// Where there is no such policy, or it cannot be kept, or the array is not served any more.
    pub fn set_policy(&self, text: &str) -> Result<String, RuntimeError> {
        self.change_policy(&PolicyChange {
            policy: text.to_owned(),
            transient: false,
        })
    }

    /// The same, where it may be that it is not kept.
    pub(crate) fn change_policy(&self, to: &PolicyChange) -> Result<String, RuntimeError> {
        let told = self.try_policy(&to.policy, to.transient)?;
        told.map_err(|error| RuntimeError(format!("invalid argument: {error}")))
    }

    /// The same, with what is wrong with the text apart from what is wrong with the array.
    pub(crate) fn try_policy(
        &self,
        text: &str,
        is_transient: bool,
    ) -> Result<Result<String, PolicyError>, RuntimeError> {
        let settings = self.alone();
        let told = self.ask(|reply| Command::SetPolicy(text.to_owned(), reply))?;
        if let Ok(spec) = &told
            && !is_transient
        {
            settings.keep_policy(spec)?;
        }
        Ok(told)
    }

    /// Gives a tunable of any policy a value, and keeps it for the next start.
    pub(crate) fn try_tunable(
        &self,
        policy: &'static str,
        tunable: &'static str,
        text: &str,
    ) -> Result<Result<(), PolicyError>, RuntimeError> {
        let settings = self.alone();
        let told =
            self.ask(|reply| Command::SetTunable(policy, tunable, text.to_owned(), reply))?;
        match &told {
            Ok((spec, true)) => settings.keep_policy(spec)?,
            Ok((spec, false)) => settings.keep_tunables(spec)?,
            Err(_) => {}
        }
        Ok(told.map(drop))
    }

    /// Prefers the leg of a role for reads, or not, and keeps that for the next start.
    pub(crate) fn prefer(&self, role: usize, is_preferred: bool) -> Result<(), FileError> {
        let settings = self.alone();
        let told = self.ask(|reply| Command::Prefer(role, is_preferred, reply))?;
        let preferred = told.ok_or(FileError::Gone)?;
        Ok(settings.keep_preferred(preferred)?)
    }

    /// All schedulers, with the active one in brackets and what of its tunables differs from the
    /// defaults.
    ///
    /// # Errors
    /// Where the array is not served any more, or too busy.
    pub fn scheduler(&self) -> Result<String, RuntimeError> {
        let active = self.ask(|reply| Command::Scheduler(None, reply))?;
        let shown = SCHEDULERS.map(|(name, _)| match active.name() == name {
            true => format!("[{active}]"),
            false => name.to_owned(),
        });
        Ok(shown.join(" "))
    }

    /// Switches the scheduler, and keeps it for the next start unless it is transient. What is
    /// active now.
    ///
    /// # Errors
    /// Where there is no such scheduler, or it cannot be kept, or the array is not served any more.
    pub fn set_scheduler(&self, to: &SchedulerChange) -> Result<String, RuntimeError> {
        let told = self.try_scheduler(&to.scheduler, to.transient)?;
        told.map(|spec| spec.to_string())
            .map_err(|error| RuntimeError(format!("invalid argument: {error}")))
    }

    /// The same, with what is wrong with the text apart from what is wrong with the array.
    pub(crate) fn try_scheduler(
        &self,
        text: &str,
        is_transient: bool,
    ) -> Result<Result<SchedulerSpec, SchedulerError>, RuntimeError> {
        let spec = match SchedulerSpec::parse(text) {
            Ok(spec) => spec,
            Err(error) => return Ok(Err(error)),
        };
        let settings = self.alone();
        self.ask(|reply| Command::Scheduler(Some(spec), reply))?;
        if !is_transient {
            settings.keep_scheduler(&spec)?;
        }
        Ok(Ok(spec))
    }

    /// Changes the bounds of the rate of background work, and keeps them for the next start. Those
    /// that there are now; a change of nothing only tells them.
    ///
    /// # Errors
    /// Where nothing lies between them, or they cannot be kept, or the array is not served any
    /// more.
    pub fn change_rates(&self, change: RateChange) -> Result<Rates, RuntimeError> {
        let settings = self.alone();
        let told = self.ask(|reply| Command::Rates(change, reply))?;
        let rates = told.map_err(RuntimeError)?;
        if change != RateChange::default() {
            settings.keep_rates(change)?;
        }
        Ok(rates)
    }

    /// How the array is.
    ///
    /// # Errors
    /// Where it is not served any more, or too busy.
    pub fn status(&self) -> Result<ArrayStatus, RuntimeError> {
        self.ask(Command::Status)
    }

    /// Takes a leg out, named by its role or as it was written. What became of it, in a sentence.
    ///
    /// # Errors
    /// Where there is no such leg, it is out already, or some data is on it alone.
    pub fn fail(&self, leg: &str) -> Result<String, RuntimeError> {
        self.ask(|reply| Command::Fail(leg.to_owned(), reply))?
            .map_err(RuntimeError)
    }

    /// Makes a leg part of the array, which these flags are set of: one that was away, or a new
    /// one. What became of it, in a sentence.
    ///
    /// # Errors
    /// Where it cannot be a leg of this array, or holds something that is not to be lost, or no leg
    /// is missing.
    pub fn add(&self, leg: &str, force: bool, flags: DeviceFlags) -> Result<String, RuntimeError> {
        self.add_if(leg, force, flags, |_, _| Ok(()))
    }

    /// Makes a leg that was away part of the array again, where the bitmap knows what it missed.
    /// What became of it, in a sentence.
    ///
    /// # Errors
    /// As [`Self::add`], or where all of the array would have to be copied.
    pub fn re_add(&self, leg: &str) -> Result<String, RuntimeError> {
        self.add_if(leg, false, DeviceFlags::default(), Addition::expect_known)
    }

    fn add_if(
        &self,
        leg: &str,
        force: bool,
        flags: DeviceFlags,
        expect: impl FnOnce(&Addition, &Wanted) -> Result<(), String>,
    ) -> Result<String, RuntimeError> {
        self.expect_writable()?;
        let wanted = self.ask(Command::Wanted)?.ok_or_else(|| {
            RuntimeError(
                "the legs of this array are raw: one that was out comes back with 'heliostat serve \
                 ... --copy-from LEG'"
                    .to_owned(),
            )
        })?;
        wanted.expect_absent(leg).map_err(RuntimeError)?;
        // It may be one of ours that was faulted and is still open.
        let _ = self.release(leg);
        let addition = Addition::open(leg, force)?.with_flags(flags);
        let expected = expect(&addition, &wanted);
        let ready = expected.and_then(|()| addition.prepare(&wanted));
        let ready = ready.map_err(RuntimeError)?;
        self.have_taken(ready, Command::Add)
    }

    /// Hands a leg in, again where it is refused for the moment. What became of it.
    fn have_taken(
        &self,
        new: NewLeg,
        command: impl Fn(Box<NewLeg>, SyncSender<Result<String, NotTaken>>) -> Command,
    ) -> Result<String, RuntimeError> {
        let uuid = new.superblock.set_uuid;
        let mut new = Box::new(new);
        let patient_until = Instant::now() + REFUSED_MAX;
        let told = loop {
            match self.ask(|reply| command(new, reply))? {
                Ok(told) => break told,
                Err((_, Some(back))) if Instant::now() < patient_until => {
                    std::thread::sleep(TRY_EVERY);
                    new = back;
                }
                Err((why, _)) => return Err(RuntimeError(why)),
            }
        };
        self.remember(uuid)?;
        Ok(told)
    }

    /// Says something else of a leg, named by its role or as it was written, and keeps it on the
    /// leg. What is said of it then, in a sentence.
    ///
    /// # Errors
    /// Where there is no such leg, or it cannot be told now.
    pub fn set_flags(&self, leg: &str, change: FlagChange) -> Result<String, RuntimeError> {
        self.expect_writable()?;
        self.ask_patiently(|reply| Command::SetFlags(leg.to_owned(), change, reply))
    }

    /// Has a leg replaced, while both serve: by a spare, the one that is named or any, or by a new
    /// leg. What became of it, in a sentence.
    ///
    /// # Errors
    /// Where the leg is not in sync, or cannot be replaced now, or there is no spare that fits, or
    /// the new one cannot be a leg of this array, or holds something that is not to be lost.
    pub fn replace(
        &self,
        leg: &str,
        by: Option<&str>,
        force: bool,
    ) -> Result<String, RuntimeError> {
        self.expect_writable()?;
        let wanted = self.ask(Command::Wanted)?.ok_or_else(|| {
            RuntimeError(
                "the legs of this array are raw, and only those with md metadata can be replaced \
                 while they serve"
                    .to_owned(),
            )
        })?;
        let told = self.ask_patiently(|reply| {
            Command::ReplaceBySpare(leg.to_owned(), by.map(str::to_owned), reply)
        })?;
        let told = match (told, by) {
            (None, Some(by)) => return self.replace_by_new(leg, by, force, &wanted),
            (told, _) => told.expect("without a name it is a spare or an error"),
        };
        self.remember(wanted.like.set_uuid)?;
        Ok(told)
    }

    fn replace_by_new(
        &self,
        leg: &str,
        by: &str,
        force: bool,
        wanted: &Wanted,
    ) -> Result<String, RuntimeError> {
        wanted.expect_absent(by).map_err(RuntimeError)?;
        wanted.expect_whole(by).map_err(RuntimeError)?;
        // It may be one of ours that was replaced and is still open.
        let _ = self.release(by);
        let addition = Addition::open(by, force)?;
        let ready = addition.prepare_replacement(wanted);
        let ready = ready.map_err(RuntimeError)?;
        self.have_taken(ready, |new, reply| {
            Command::Replace(leg.to_owned(), new, reply)
        })
    }

    /// Makes a mirror one of so many legs. New ones become spares first, and take the new places
    /// then, as others do that are there. What became of it, in a sentence.
    ///
    /// # Errors
    /// Where it cannot grow so now, or a new leg cannot be one of this array, or holds something
    /// that is not to be lost. The text says what of it was done.
    pub fn grow(&self, legs: usize, new: &[String], force: bool) -> Result<String, RuntimeError> {
        self.expect_writable()?;
        let wanted = self.ask(Command::Wanted)?.ok_or_else(|| {
            let why = events::why_not_grown(GrowRefusal::NoSuperblock);
            RuntimeError(format!("this array does not grow: {why}"))
        })?;
        let before = wanted.expect_to_grow(legs, new).map_err(RuntimeError)?;
        let name = &wanted.name;
        if legs == before {
            return Ok(format!(
                "{name} has {legs} legs already; nothing was changed"
            ));
        }
        for (at, leg) in new.iter().enumerate() {
            if wanted.spares.iter().any(|spare| is_same_leg(spare, leg)) {
                continue;
            }
            let added = self.add(leg, force, DeviceFlags::default());
            added.map_err(|RuntimeError(why)| match &new[..at] {
                [] => RuntimeError(format!("{name} does not grow: {why}")),
                spares => RuntimeError(format!(
                    "{name} does not grow: {why}; spares by now: {}",
                    spares.join(", ")
                )),
            })?;
        }
        for legs in before + 1..=legs {
            let grown = self.ask_patiently(|reply| Command::Grow(legs, reply));
            grown.map_err(|RuntimeError(why)| {
                let now = self.status().ok();
                let now = now.map(|now| match &now.spares[..] {
                    [] => format!("; {name} has {} legs", now.legs.len()),
                    spares => format!(
                        "; {name} has {} legs, and these spares: {}",
                        now.legs.len(),
                        spares.join(", ")
                    ),
                });
                RuntimeError(format!("{why}{}", now.unwrap_or_default()))
            })?;
        }
        for spare in self.status()?.spares {
            let renewed = self.renew_spare(&spare);
            renewed.map_err(|RuntimeError(why)| {
                RuntimeError(format!(
                    "{name} has {legs} legs now, but its spare {spare} is lost to it: {why}"
                ))
            })?;
        }
        self.remember(wanted.like.set_uuid)?;
        let status = self.status()?;
        let is_missing = |leg: &&LegStatus| leg.state == "missing";
        let waits = match status.legs.iter().filter(is_missing).count() {
            0 => "those that are new are being filled".to_owned(),
            missing if missing <= status.spares.len() => {
                "spares take the new places one after the other".to_owned()
            }
            missing => format!(
                "{missing} missing: 'heliostat add {name} LEG{}' adds one",
                wanted.option
            ),
        };
        Ok(format!(
            "{name} has {legs} legs now; it had {before}; {waits}"
        ))
    }

    /// Has a spare say how many legs the array has now: mdadm assembles none that disagree on that.
    fn renew_spare(&self, spare: &str) -> Result<(), RuntimeError> {
        if self.release(spare).is_err() {
            // It has taken a place by now.
            return Ok(());
        }
        let wanted = self.ask(Command::Wanted)?;
        let wanted = wanted.expect("only legs with metadata have spares");
        let addition = Addition::open(spare, false)?;
        let flags = addition.own_flags();
        let ready = addition.with_flags(flags).prepare(&wanted);
        self.have_taken(ready.map_err(RuntimeError)?, Command::Add)?;
        Ok(())
    }

    /// Remembers where the legs are now, for the next time that the array is named; where it still
    /// lacks one, also where legs were before, since that one may be there.
    fn remember(&self, uuid: Uuid) -> Result<(), RuntimeError> {
        let _alone = self.alone();
        let status = self.status()?;
        let is_used = |leg: &&LegStatus| matches!(leg.state.as_str(), "in-sync" | "rebuilding");
        let used = status.legs.iter().filter(is_used);
        let mut used: Vec<String> = used.map(|leg| leg.leg.clone()).collect();
        let lacks_leg = used.len() < status.legs.len();
        used.extend(status.replacement.map(|leg| leg.leg));
        let mut registered = Registered::new(uuid, used.into_iter().chain(status.spares));
        let known = Registered::load(&self.places, &status.name).ok();
        let known = known.filter(|known| lacks_leg && known.uuid == registered.uuid);
        for leg in known.into_iter().flat_map(|known| known.legs) {
            if !registered.legs.contains(&leg) {
                registered.legs.push(leg);
            }
        }
        registered.store(&self.places, &status.name)
    }

    /// Holds others off who write what is remembered: what is written last must be what is so by
    /// then.
    fn alone(&self) -> MutexGuard<'_, Settings> {
        let settings = self.settings.lock();
        settings.expect("nobody panics while holding it")
    }

    /// Lets go of a leg that is out, so that it can be taken away, and looks for it no more when
    /// the array is named. What became of it, in a sentence.
    ///
    /// # Errors
    /// Where there is no such leg, it is in use, or its device has operations in hand.
    pub fn remove(&self, leg: &str) -> Result<String, RuntimeError> {
        let status = self.status()?;
        let role = leg
            .parse()
            .ok()
            .and_then(|role: usize| status.legs.get(role));
        let name = role.map_or(leg, |role| &role.leg);
        let told = self.release(leg)?;
        let _alone = self.alone();
        // Of raw legs there is none.
        let known = Registered::load(&self.places, &status.name).ok();
        if let Some(known) = known.filter(|known| Some(&known.uuid) == status.uuid.as_ref()) {
            let others = known.legs.iter().filter(|other| !is_same_leg(other, name));
            let stored = known
                .with_legs(others.cloned())
                .store(&self.places, &status.name);
            stored.map_err(|error| {
                RuntimeError(format!(
                    "{told}; but it is looked for at the next start: {error}"
                ))
            })?;
        }
        Ok(told)
    }

    /// Has a leg that is out let go of.
    fn release(&self, leg: &str) -> Result<String, RuntimeError> {
        self.ask_patiently(|reply| Command::Release(leg.to_owned(), reply))
    }

    /// Asks until it is answered, or is refused for more than the moment.
    fn ask_patiently<T>(
        &self,
        command: impl Fn(SyncSender<Result<T, Refused>>) -> Command,
    ) -> Result<T, RuntimeError> {
        let patient_until = Instant::now() + REFUSED_MAX;
        loop {
            match self.ask(&command)? {
                Ok(told) => return Ok(told),
                Err(refused) if refused.passes && Instant::now() < patient_until => {
                    std::thread::sleep(TRY_EVERY);
                }
                Err(refused) => return Err(RuntimeError(refused.why)),
            }
        }
    }

    /// Begins, pauses or ends a scrub. What became of it, in a sentence.
    ///
    /// # Errors
    /// Where there is nothing to compare, to go on with or to end.
    pub fn scrub(&self, action: ScrubAction) -> Result<String, RuntimeError> {
        self.expect_writable()?;
        self.ask(|reply| Command::Scrub(action, reply))?
            .map_err(RuntimeError)
    }

    /// What the last scrubs found, oldest first.
    ///
    /// # Errors
    /// Where it is not served any more, or too busy.
    pub fn scrub_runs(&self) -> Result<Vec<ScrubRun>, RuntimeError> {
        self.ask(Command::ScrubRuns)
    }

    /// What the read policy believes of the legs.
    ///
    /// # Errors
    /// Where the array is not served any more, or too busy.
    pub fn explain(&self) -> Result<Explanation, RuntimeError> {
        let (explanation, _) = self.ask(|reply| Command::Explain(None, reply))?;
        Ok(explanation)
    }

    /// What the read policy decides from now on: up to `reads` decisions, for `time` at most, and
    /// no longer than `is_gone` says that somebody wants to know.
    ///
    /// # Errors
    /// Where that is too much, or the array is not served any more, or too busy.
    pub fn watch_reads(
        &self,
        reads: usize,
        time: Duration,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<WatchedReads, RuntimeError> {
        if !(1..=READS_MAX).contains(&reads) {
            let text = format!("{reads} reads cannot be watched: 1 to {READS_MAX} at once");
            return Err(RuntimeError(text));
        }
        if time > WAIT_MAX {
            let seconds = WAIT_MAX.as_secs();
            let text = format!("reads are watched for {seconds} s at most; ask again after that");
            return Err(RuntimeError(text));
        }
        let _watcher = self.watchers.enter()?;
        let watch = Watch::new(reads);
        let weak = Arc::downgrade(&watch);
        let (_, legs) = self.ask(|reply| Command::Explain(Some(weak), reply))?;
        let mut reads = watch.wait(time, is_gone);
        if reads.end == WatchEnd::PolicyReplaced {
            // Or the array itself is gone, which is what whoever asks is told then.
            self.policy()?;
        }
        reads.renumber(&legs);
        Ok(reads)
    }

    /// How the volumes are.
    ///
    /// # Errors
    /// Where the array is not served any more, or too busy.
    pub fn volumes(&self) -> Result<VolumesStatus, RuntimeError> {
        self.ask(Command::Volumes)
    }

    /// Changes the volumes. What became of it, in a sentence, when that is durable.
    ///
    /// # Errors
    /// Where it cannot be done, or somebody uses what is to go.
    pub fn change_volumes(&self, change: VolumeChange) -> Result<String, RuntimeError> {
        let told = self.ask(|reply| Command::ChangeVolumes(change, reply))?;
        told.map_err(|refused| RuntimeError(refused.why))
    }

    /// Begins a clean stop.
    pub fn stop(&self) {
        // Where the loop is gone, it has stopped.
        let _ = self.commands.send(Command::Stop);
        self.waker.wake();
    }

    /// Tells the log what was written to a control file and refused, and why.
    pub(crate) fn note_refusal(&self, file: &str, text: &str, why: &str) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = refusals.line(Instant::now(), file, text, why) {
            // The array may be stopping or have much to do: then there is one line less.
            let _ = self.commands.try_send(Command::Note(line));
            self.waker.wake();
        }
    }

    pub(crate) fn ask<T>(
        &self,
        command: impl FnOnce(SyncSender<T>) -> Command,
    ) -> Result<T, RuntimeError> {
        let (reply, answer) = sync_channel(1);
        let sent = self.commands.try_send(command(reply));
        self.waker.wake();
        sent.map_err(|_| RuntimeError("the array is stopping or too busy".to_owned()))?;
        answer
            .recv_timeout(ANSWER_MAX)
            .map_err(|_| RuntimeError("the array is stopping, or does not answer".to_owned()))
    }
}
