//! From what the user named to legs that may be served: opened, looked at, compared with each other
//! and with what is remembered of them, and made equal where that was asked for.
//!
//! Nothing here guesses. Where the legs may differ the user is told what is known, and says which
//! one is right.

use std::path::Path;

use heliostat_engine::Layout;
use heliostat_format::DeviceFlags;
use heliostat_format::assembly::Candidate;
use heliostat_leg::{LegError, LegSpec, OpenedLeg};
use heliostat_types::{LEGS_MAX, LegId};
use stdx::units::format_size;

use crate::RuntimeError;
use crate::array_lock::ArrayLock;
use crate::copy::{self, CopyError};
use crate::core::SpareLeg;
use crate::durable;
use crate::md::{self, Described, OnLeg};
use crate::options::{ArrayOptions, Trust};
use crate::registry::Registered;
use crate::state::{self, Found, LegRecord, StateFile};
use crate::unfit::{self, Unfit};
use crate::wall_time::WallTime;

/// How much of every leg is compared at the start: enough for a partition table, a superblock or a
/// boot sector to tell two disks apart, and read in a moment.
const COMPARED_BYTES: u64 = 1 << 20;

/// Who is told what happens before the array is served.
pub trait Progress {
    /// Something to know, in a line.
    fn note(&mut self, line: &str);

    /// So many of so many bytes are copied. Whether to go on.
    fn copied(&mut self, done_bytes: u64, total_bytes: u64) -> bool;
}

/// Legs that may be served.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// In role order; one that stands for nothing where a leg is missing. Behind them one that is
    /// to replace another one, or the place of such a leg.
    pub(crate) legs: Vec<OpenedLeg>,
    /// Those that wait to be needed.
    pub(crate) spares: Vec<SpareLeg>,
    /// What the legs say of themselves; `None` where they are raw.
    pub(crate) described: Option<Described>,
    pub(crate) size_bytes: u64,
    /// The largest logical block among the legs.
    pub(crate) block_bytes: u32,
    /// The largest physical block among the legs.
    pub(crate) block_physical_bytes: u32,
    /// What is remembered of the lasting ones, and which legs those are; nothing where none lasts.
    pub(crate) record: Record,
    pub(crate) lock: ArrayLock,
}

/// What is remembered of lasting legs, and which of the legs those are.
type Record = Option<(StateFile, Vec<LegId>)>;

impl Prepared {
    /// What the array is made of, in words.
    pub(crate) fn shape(&self) -> String {
        let assembled = self
            .described
            .as_ref()
            .map(|described| &described.assembled);
        let count = assembled.map_or(self.legs.len(), |assembled| assembled.map.legs());
        let layout = assembled.map(|assembled| assembled.layout);
        match layout {
            None | Some(Layout::Mirror) => mirror_of(count),
            Some(Layout::Raid10(raid10)) => format!(
                "a RAID10 of {count} legs, {} in chunks of {}",
                Layout::Raid10(raid10),
                format_size(raid10.chunk_bytes)
            ),
        }
    }

    /// Makes room for a leg that is to replace another one, where legs have metadata and there can
    /// be one more: nothing is in that place.
    pub(crate) fn make_room(&mut self) -> Result<(), LegError> {
        let Some(described) = &mut self.described else {
            return Ok(());
        };
        if self.legs.len() > described.assembled.map.legs() || self.legs.len() == LEGS_MAX {
            return Ok(());
        }
        self.legs.push(OpenedLeg::absent()?);
        described.names.push(String::new());
        described.flags.push(DeviceFlags::default());
        described.data_offsets.push(0);
        Ok(())
    }
}

/// A mirror in words.
pub(crate) fn mirror_of(legs: usize) -> String {
    let s = if legs == 1 { "" } else { "s" };
    format!("a mirror of {legs} leg{s}")
}

/// Keeps others from serving the array.
pub(crate) fn lock(options: &ArrayOptions) -> Result<ArrayLock, RuntimeError> {
    options.places.create()?;
    let way_out = "; stop that one, or choose another name with --name NAME";
    ArrayLock::take(options.places.lock(&options.name), &options.name, way_out)
}

/// Opens, checks, and where asked for copies. The options make sense: [`ArrayOptions::check`].
pub(crate) fn prepare_locked(
    options: &ArrayOptions,
    lock: ArrayLock,
    progress: &mut dyn Progress,
) -> Result<Prepared, RuntimeError> {
    let (legs, absent) = open_legs(options)?;
    if options.trust == Trust::Drive {
        return prepare_raw(legs, lock, progress, |legs, _, _| {
            refuse_known(options, &legs[0])?;
            Ok(None)
        });
    }
    let sorted = Sorted::of(legs, options.uuid.is_some())?;
    leave_out_absent(options, &absent, &sorted.candidates, progress)?;
    if !sorted.candidates.is_empty() || options.uuid.is_some() {
        return prepare_described(options, sorted, lock, progress);
    }
    prepare_raw(sorted.legs, lock, progress, |legs, size_bytes, progress| {
        let reconciliation = Reconciliation {
            options,
            legs,
            size_bytes,
        };
        reconciliation.run(progress)
    })
}

/// Prepares legs that hold data and nothing else. What is remembered of them is what `reconcile`
/// says.
fn prepare_raw(
    legs: Vec<OpenedLeg>,
    lock: ArrayLock,
    progress: &mut dyn Progress,
    reconcile: impl FnOnce(&[OpenedLeg], u64, &mut dyn Progress) -> Result<Record, RuntimeError>,
) -> Result<Prepared, RuntimeError> {
    for (index, leg) in legs.iter().enumerate() {
        progress.note(&format!("leg {index}: {}", leg.info().description));
    }
    let (size_bytes, block_bytes) = common_size(&legs, progress)?;
    let physical = legs.iter().map(|leg| leg.info().physical_block_bytes).max();
    let record = reconcile(&legs, size_bytes, progress)?;
    Ok(Prepared {
        size_bytes,
        block_bytes,
        block_physical_bytes: physical.expect("there is a leg"),
        record,
        lock,
        spares: Vec::new(),
        legs,
        described: None,
    })
}

/// Legs by what lies on them.
struct Sorted {
    /// Those with a superblock that can be used, and of raw legs all.
    legs: Vec<OpenedLeg>,
    /// What they say of their array; nothing of raw legs.
    candidates: Vec<Candidate>,
    /// Those beside them that cannot be used.
    unfit: Vec<Unfit>,
}

impl Sorted {
    /// Looks at what lies on the legs. `is_array`: whether they are legs of an array in any case.
    fn of(legs: Vec<OpenedLeg>, is_array: bool) -> Result<Self, RuntimeError> {
        let mut sorted = Self {
            legs: Vec::new(),
            candidates: Vec::new(),
            unfit: Vec::new(),
        };
        let mut raw = Vec::new();
        for leg in legs {
            match md::look_at(&leg) {
                OnLeg::Candidate(candidate) => {
                    sorted.candidates.push(*candidate);
                    sorted.legs.push(leg);
                }
                OnLeg::Unfit(unfit) => sorted.unfit.push(unfit),
                OnLeg::Nothing => raw.push(leg),
            }
        }
        if sorted.candidates.is_empty()
            && let Some(unfit) = sorted.unfit.first()
        {
            return Err(unfit.error());
        }
        if sorted.candidates.is_empty() && !is_array {
            refuse_old_superblocks(&raw)?;
            sorted.legs = raw;
            return Ok(sorted);
        }
        let why = "it has no md superblock, and cannot be a leg of an md array";
        let without = raw.iter().map(|leg| Unfit::new(leg, &why, None));
        sorted.unfit.extend(without);
        Ok(sorted)
    }
}

/// Refuses legs with a superblock of md that [`md::look_at`] does not know.
fn refuse_old_superblocks(legs: &[OpenedLeg]) -> Result<(), RuntimeError> {
    let Some((leg, array)) = legs
        .iter()
        .find_map(|leg| Some((leg, leg.holds_md_superblock()?)))
    else {
        return Ok(());
    };
    let name = leg.name();
    Err(RuntimeError(format!(
        "{name} is part of a Linux md array ({array}), which cannot be served here, and serving \
         the leg as it is would destroy that; if the array is not needed any more, remove its \
         superblock with 'mdadm --zero-superblock {name}'"
    )))
}

/// Remembers where the legs were found, so that the array can be named the next time. It is no loss
/// where that fails: nothing is believed because of it.
fn remember(options: &ArrayOptions, described: &Described, spares: &[String]) {
    let known = Registered::load(&options.places, &options.name).ok();
    let known = known.filter(|known| known.uuid == described.uuid.to_string());
    // A leg that is missing now may be back the next time. Where none is, other places are other
    // names of the same legs, or those of legs that another one has taken the place of.
    let lacks_leg = described.assembled.candidates.contains(&None);
    let used = described.names.iter().chain(spares).cloned();
    let mut registered = Registered::new(described.uuid, used);
    if lacks_leg {
        registered = registered.with_legs(options.legs.iter().map(LegSpec::to_string));
        let known = known.into_iter().flat_map(|known| known.legs);
        let missing: Vec<String> = known.filter(|leg| !registered.legs.contains(leg)).collect();
        registered.legs.extend(missing);
    }
    let _ = registered.store(&options.places, &options.name);
}

/// Refuses legs that are not those of the array that was named.
fn refuse_other_array(
    options: &ArrayOptions,
    candidates: &[Candidate],
) -> Result<(), RuntimeError> {
    let Some(uuid) = &options.uuid else {
        return Ok(());
    };
    let is_other = |candidate: &&Candidate| candidate.superblock.set_uuid.to_string() != *uuid;
    match candidates.iter().find(is_other) {
        None if candidates.is_empty() => Err(RuntimeError(format!(
            "none of the legs of {} can be used, or none has a superblock any more; name its legs, \
             or have them looked for with --scan",
            options.name
        ))),
        None => Ok(()),
        Some(other) => Err(RuntimeError(format!(
            "{} is a leg of another array ({}) than {} ({uuid}): it may have another name now; \
             have the legs looked for with --scan",
            other.name, other.superblock.set_uuid, options.name
        ))),
    }
}

/// Writes on legs that were away that they are incomplete, before anything is written to them.
fn mark_incomplete(
    described: &mut Described,
    candidates: &[Candidate],
    legs: &[OpenedLeg],
) -> Result<(), RuntimeError> {
    for &index in &described.returning {
        let incomplete = candidates[index].superblock.incomplete();
        md::write_superblock(&legs[index], &incomplete).map_err(|error| {
            RuntimeError(format!("{error}; --no-re-add serves the array without it"))
        })?;
        let superblocks = described.assembled.metadata.superblocks.iter_mut();
        let roles = superblocks.zip(&described.assembled.candidates);
        let mut own = roles.filter(|(_, candidate)| **candidate == Some(index));
        if let Some((superblock, _)) = own.next() {
            *superblock = Some(incomplete);
        }
    }
    Ok(())
}

/// The legs in role order, and behind them one that is to replace another one.
fn by_role(
    described: &Described,
    legs: &mut [Option<OpenedLeg>],
    progress: &mut dyn Progress,
) -> Result<Vec<OpenedLeg>, RuntimeError> {
    let assembled = &described.assembled;
    let mut by_role = Vec::new();
    for (role, candidate) in assembled.candidates.iter().enumerate() {
        let replaced = assembled.metadata.replaced;
        let replaced = replaced.filter(|_| role == assembled.map.legs());
        let place = replaced.map_or_else(
            || format!("leg {role}"),
            |leg| format!("replacement of {leg}"),
        );
        let leg = candidate.and_then(|index| legs[index].take());
        progress.note(&match &leg {
            Some(leg) => format!("{place}: {}, {}", leg.name(), leg.info().description),
            None => format!("{place}: missing"),
        });
        let leg = leg.map_or_else(OpenedLeg::absent, Ok);
        by_role.push(leg.map_err(|error| RuntimeError(error.to_string()))?);
    }
    Ok(by_role)
}

/// Prepares an array that its legs describe.
fn prepare_described(
    options: &ArrayOptions,
    sorted: Sorted,
    lock: ArrayLock,
    progress: &mut dyn Progress,
) -> Result<Prepared, RuntimeError> {
    let Sorted {
        legs,
        candidates,
        unfit,
    } = sorted;
    if options.trust != Trust::Record {
        return Err(RuntimeError(
            "these legs are those of an md array, and say themselves which of them are right: \
             --copy-from and --assume-clean are for legs without metadata"
                .to_owned(),
        ));
    }
    refuse_other_array(options, &candidates)?;
    // Legs that were named one by one are all meant.
    let is_by_name = options.uuid.is_some();
    let may_lack = options.degraded_ok || (is_by_name && md::has_all_expected(&candidates));
    unfit::leave_out(&unfit, &candidates, may_lack, progress)?;
    let choice = md::Choice {
        name: &options.name,
        option: &options.places.option(),
        degraded_ok: options.degraded_ok,
        takes_back: options.takes_back && !options.read_only,
    };
    let mut described = md::describe(&candidates, choice, progress)?;
    mark_incomplete(&mut described, &candidates, &legs)?;
    let mut legs: Vec<Option<OpenedLeg>> = legs.into_iter().map(Some).collect();
    let by_role = by_role(&described, &mut legs, progress)?;
    let present = || by_role.iter().zip(&described.assembled.candidates);
    let present = || present().filter_map(|(leg, candidate)| candidate.map(|_| leg.info()));
    let block = present().map(|info| info.logical_block_bytes).max();
    let physical = present().map(|info| info.physical_block_bytes).max();
    let block_bytes = block.expect("an array has a leg");
    let size_bytes = described.assembled.size_bytes;
    let names = described.spares.iter();
    let names: Vec<String> = names.map(|&spare| candidates[spare].name.clone()).collect();
    remember(options, &described, &names);
    let mut spares = Vec::new();
    for &index in described.spares.iter().filter(|_| !options.read_only) {
        let leg = legs[index].take().expect("a spare has no role");
        if leg.info().logical_block_bytes > block_bytes {
            let name = leg.name();
            progress.note(&format!(
                "{name} is left out: its blocks are larger than the legs'"
            ));
            continue;
        }
        // Before it is a leg: when it becomes one, nobody waits for it.
        let superblock = candidates[index].superblock.holding_nothing();
        if let Err(error) = md::write_superblock(&leg, &superblock) {
            progress.note(&format!("{} is left out: {error}", leg.name()));
            continue;
        }
        spares.push(SpareLeg { leg, superblock });
    }
    Ok(Prepared {
        size_bytes: size_bytes - size_bytes % u64::from(block_bytes),
        block_bytes,
        block_physical_bytes: physical.expect("an array has a leg"),
        record: None,
        lock,
        spares,
        legs: by_role,
        described: Some(described),
    })
}

/// Opens the legs; of an array that was named those that can be opened, and why others cannot.
fn open_legs(options: &ArrayOptions) -> Result<(Vec<OpenedLeg>, Vec<LegError>), RuntimeError> {
    let mut legs = Vec::new();
    let mut absent = Vec::new();
    for spec in &options.legs {
        match spec.open() {
            Ok(leg) => legs.push(leg),
            Err(error) if options.uuid.is_some() => absent.push(error),
            Err(error) => return Err(RuntimeError(error.to_string())),
        }
    }
    // Before one of them is copied over itself.
    OpenedLeg::expect_distinct(&legs).map_err(|error| RuntimeError(error.to_string()))?;
    Ok((legs, absent))
}

/// Why a leg cannot be had that an array was found with before: nobody is to make an empty one.
fn expected_leg(options: &ArrayOptions, error: &LegError) -> RuntimeError {
    let LegError::Unfit { leg, problem, .. } = error else {
        return RuntimeError(error.to_string());
    };
    let (name, option) = (&options.name, options.places.option());
    RuntimeError(format!(
        "{leg}, where {name} has a leg, cannot be one: {problem}. If the leg is elsewhere now, \
         name all legs ('heliostat serve LEG... --name {name} --export URI{option}'); \
         --degraded-ok serves {name} without it: then what is written is not on it"
    ))
}

/// That an array goes on without a leg.
pub(crate) fn going_on_without(error: &LegError) -> String {
    if let LegError::Unfit { leg, problem, .. } = error {
        return format!("going on without a leg: {leg} cannot be one: {problem}");
    }
    format!("going on without a leg: {error}")
}

/// Goes on without legs that cannot be opened, where that is allowed, or where the others do not
/// count on them.
fn leave_out_absent(
    options: &ArrayOptions,
    absent: &[LegError],
    candidates: &[Candidate],
    progress: &mut dyn Progress,
) -> Result<(), RuntimeError> {
    let may_lack = options.degraded_ok || md::has_all_expected(candidates);
    for error in absent {
        // One that somebody else holds is there, and may be written to.
        let is_elsewhere = matches!(error, LegError::InUse { .. });
        if !may_lack || (is_elsewhere && !options.degraded_ok) {
            return Err(expected_leg(options, error));
        }
        progress.note(&going_on_without(error));
    }
    Ok(())
}

/// The size that all legs have, and the largest logical block.
fn common_size(
    legs: &[OpenedLeg],
    progress: &mut dyn Progress,
) -> Result<(u64, u32), RuntimeError> {
    let sizes = || legs.iter().map(|leg| leg.info().size_bytes);
    let smallest = sizes().min().expect("there is a leg");
    let blocks = legs.iter().map(|leg| leg.info().logical_block_bytes);
    let block = blocks.max().expect("there is a leg");
    let size = smallest - smallest % u64::from(block);
    if size == 0 {
        let leg = legs.iter().min_by_key(|leg| leg.info().size_bytes);
        return Err(RuntimeError(format!(
            "{} holds no whole block of {block} bytes; give it a size first ('truncate -s SIZE \
             FILE')",
            leg.expect("there is a leg").name()
        )));
    }
    for leg in legs.iter().filter(|leg| leg.info().size_bytes > size) {
        let unused = leg.info().size_bytes - size;
        progress.note(&format!(
            "{} has {} ({} bytes), of which the last {} ({unused} bytes) are not used: the array \
             is as large as its smallest leg, {} ({size} bytes)",
            leg.name(),
            format_size(leg.info().size_bytes),
            leg.info().size_bytes,
            format_size(unused),
            format_size(size),
        ));
    }
    Ok((size, block))
}

/// Refuses a leg as a drive that is known as a leg of a mirror: the others would not have what is
/// written to it, and nothing would say so.
fn refuse_known(options: &ArrayOptions, leg: &OpenedLeg) -> Result<(), RuntimeError> {
    if leg.info().volatile {
        return Ok(());
    }
    let record = vec![LegRecord::new(leg)];
    let wanted = StateFile::clean(&options.name, leg.info().size_bytes, record);
    match state::find(&options.places.state, &wanted)?.first() {
        None => Ok(()),
        Some(found) => Err(RuntimeError(format!(
            "{} is a leg of the mirror '{}', whose other legs would not have what is written to \
             it; serve that, or use a copy of the file (if that mirror is not needed any more, \
             remove {})",
            leg.name(),
            found.file.name,
            found.path.display()
        ))),
    }
}

/// What is remembered of the legs is made to agree with what is done to them.
struct Reconciliation<'a> {
    options: &'a ArrayOptions,
    legs: &'a [OpenedLeg],
    size_bytes: u64,
}

impl Reconciliation<'_> {
    fn run(&self, progress: &mut dyn Progress) -> Result<Record, RuntimeError> {
        let lasting: Vec<LegId> = (0..self.legs.len())
            .filter(|&index| !self.legs[index].info().volatile)
            .map(LegId::new)
            .collect();
        let source = self.source()?;
        if lasting.is_empty() {
            return Ok(None);
        }
        let mut file = self.new_file(&lasting);
        let directory = &self.options.places.state;
        let found = state::find(directory, &file)?;
        file.generation = found
            .iter()
            .map(|found| found.file.generation)
            .max()
            .unwrap_or(0);
        match source {
            Some(source) => self.refuse_worse_source(&found, &file, source)?,
            None if self.options.trust == Trust::AssumeClean => self.refuse_half_copied(&found)?,
            None => self.refuse_doubt(&found, &file)?,
        }
        if self.options.read_only {
            // What becomes of the legs now is not for the next start to know.
            return Ok(None);
        }
        // Flushed before it is called clean: what nobody flushed before us would be lost with the
        // power, on each leg at another place.
        if let Some(source) = source {
            let dirty_since = found
                .iter()
                .filter_map(|found| found.file.dirty_since)
                .min();
            file.dirty_since = Some(dirty_since.unwrap_or_else(WallTime::now));
            file.copying_from = Some(self.legs[source].info().identity.clone());
            self.replace(&found, &file)?;
            self.copy(source, progress)?;
            file.dirty_since = None;
            file.copying_from = None;
        } else {
            flush(self.legs).map_err(|error| RuntimeError(error.to_string()))?;
        }
        // Also where nothing is new: a state directory that cannot be written is told of now, and
        // not when the first client writes.
        self.replace(&found, &file)?;
        Ok(Some((file, lasting)))
    }

    fn new_file(&self, lasting: &[LegId]) -> StateFile {
        let legs = lasting.iter();
        let legs = legs.map(|leg| LegRecord::new(&self.legs[leg.index()]));
        StateFile::clean(&self.options.name, self.size_bytes, legs.collect())
    }

    /// Makes `file` durable and the only one that knows these legs. What else was known of other
    /// legs together with them stays known.
    fn replace(&self, found: &[Found], file: &StateFile) -> Result<(), RuntimeError> {
        let directory = &self.options.places.state;
        let path = file.path_in(directory);
        let failed = |path: &Path, error: &std::io::Error| {
            RuntimeError(format!(
                "cannot write the state file {}: {error}",
                path.display()
            ))
        };
        // First, so that no leg is unknown in between.
        let left_behind = found.iter().filter_map(|old| old.file.left_behind_by(file));
        for file in left_behind.chain([file.clone()]) {
            file.store(directory)
                .map_err(|error| failed(&file.path_in(directory), &error))?;
        }
        for old in found.iter().filter(|old| old.path != path) {
            durable::remove(&old.path).map_err(|error| failed(&old.path, &error))?;
        }
        Ok(())
    }

    /// The leg to copy from, where there is one.
    fn source(&self) -> Result<Option<usize>, RuntimeError> {
        let Some(source) = self.options.source()? else {
            return Ok(None);
        };
        let lasts = |leg: &OpenedLeg| !leg.info().volatile;
        if !lasts(&self.legs[source]) && self.legs.iter().any(lasts) {
            return Err(RuntimeError(format!(
                "{} begins empty at each start; copying it would wipe the other legs",
                self.legs[source].name()
            )));
        }
        Ok(Some(source))
    }

    /// What has to go before a leg can be copied.
    fn without(&self) -> &'static str {
        if self.options.read_only {
            " and without --read-only"
        } else {
            ""
        }
    }

    /// Refuses legs that may differ.
    fn refuse_doubt(&self, found: &[Found], file: &StateFile) -> Result<(), RuntimeError> {
        let mut reasons = state::verdict(found, file);
        let volatile = self.legs.iter().find(|leg| leg.info().volatile);
        if let Some(leg) = volatile {
            reasons.push(format!("{} begins empty at each start", leg.name()));
        } else {
            reasons.extend(self.first_differences()?);
        }
        if reasons.is_empty() {
            return Ok(());
        }
        let reasons = reasons.join(";\n  ");
        // Whose copying was cut short are not equal, whatever anybody says.
        let or = match unfinished_copy(found) {
            Some(_) => "",
            None => ", or with --assume-clean that all of them are equal",
        };
        let without = self.without();
        Err(RuntimeError(format!(
            "the legs cannot be served as they are:\n  {reasons}.\nSay which leg is right with \
             --copy-from LEG{without} (it is copied over the others){or}."
        )))
    }

    /// Refuses to take legs for equal that were just being made so.
    fn refuse_half_copied(&self, found: &[Found]) -> Result<(), RuntimeError> {
        let without = self.without();
        match unfinished_copy(found) {
            None => Ok(()),
            Some(copy) => Err(RuntimeError(format!(
                "the legs are not equal, whatever --assume-clean says:\n  {copy}.\nCopy again, \
                 with --copy-from LEG{without}."
            ))),
        }
    }

    /// Refuses to copy from a leg that is known not to be the right one, where a better one is
    /// there.
    fn refuse_worse_source(
        &self,
        found: &[Found],
        file: &StateFile,
        source: usize,
    ) -> Result<(), RuntimeError> {
        let (name, info) = (self.legs[source].name(), self.legs[source].info());
        let doubts = state::doubts(found, &info.identity).unwrap_or_default();
        let is_better = |leg: &&LegRecord| {
            let doubts = state::doubts(found, &leg.identity);
            doubts.is_some_and(|doubts| doubts.is_empty())
        };
        let better = file.legs.iter().filter(is_better);
        let better: Vec<&str> = better.map(|leg| leg.text.as_str()).collect();
        if doubts.is_empty() || better.is_empty() {
            return Ok(());
        }
        let (doubts, better) = (doubts.join(";\n  "), better.join(", "));
        Err(RuntimeError(format!(
            "{name} is not the leg to copy from:\n  {doubts}.\nCopy from one that is right with \
             --copy-from LEG ({better}), or insist on {name} by leaving those off the list of legs."
        )))
    }

    fn first_differences(&self) -> Result<Vec<String>, RuntimeError> {
        let compared = COMPARED_BYTES.min(self.size_bytes);
        let mut reasons = Vec::new();
        let (first, others) = self.legs.split_first().expect("there is a leg");
        for other in others {
            let difference = copy::first_difference(first, other, compared);
            if let Some(at) = difference.map_err(|error| RuntimeError(error.to_string()))? {
                reasons.push(format!(
                    "{} and {} differ at byte {at}",
                    first.name(),
                    other.name()
                ));
            }
        }
        Ok(reasons)
    }

    fn copy(&self, source: usize, progress: &mut dyn Progress) -> Result<(), RuntimeError> {
        let (size, from) = (self.size_bytes, &self.legs[source]);
        let targets: Vec<&OpenedLeg> = (0..self.legs.len())
            .filter(|&index| index != source)
            .map(|index| &self.legs[index])
            .collect();
        progress.note(&format!(
            "copying {} over {} ({})",
            from.name(),
            targets
                .iter()
                .map(|leg| leg.name())
                .collect::<Vec<_>>()
                .join(", "),
            format_size(size),
        ));
        let written = copy::copy_over(from, &targets, size, |done| progress.copied(done, size))
            .and_then(|written| Ok(flush(self.legs).map(|()| written)?));
        let unfinished = "the legs stay marked as different";
        let written = written.map_err(|error| match error {
            CopyError::Interrupted => RuntimeError(format!("copying was stopped; {unfinished}")),
            CopyError::Leg(error) => RuntimeError(format!("{error}; {unfinished}")),
        })?;
        progress.note(&format!(
            "all legs are equal; {} differed",
            format_size(written)
        ));
        Ok(())
    }
}

/// Makes all of every leg durable. Fails on a leg that became smaller since it was opened, so that
/// such a leg never gets on record as clean.
fn flush(legs: &[OpenedLeg]) -> Result<(), LegError> {
    legs.iter().try_for_each(OpenedLeg::sync)
}

/// What was being copied over these legs, and did not come to its end.
fn unfinished_copy(found: &[Found]) -> Option<String> {
    found.iter().find_map(|found| found.file.unfinished_copy())
}

#[cfg(test)]
mod tests;
