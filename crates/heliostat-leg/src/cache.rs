//! The volatile write cache of a modelled drive, in the memory of this process: what was written
//! and not flushed is lost when the process ends, however it ends, as it would be lost with the
//! power of the drive.
//!
//! The file below holds what was made durable, and of the rest whatever the cache has written back
//! on its own: by chance, in any order, and in units that need not be whole writes. The page cache
//! of the kernel outlives the process, so nothing is synced here; a crash of the machine itself is
//! not what this stands for.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use heliostat_types::{ErrorKind, Extent, OpKind, Prng, RandomStream, StatusRun};

use crate::api::{LegIo, LegOutcome};
use crate::arena::{Arena, ArenaRange, LegMemory};
use crate::file::LegFile;
use crate::progress::{Progress, Step};
use crate::spec::CacheSpec;

/// The most runs of a block-status answer; what lies behind is said to be data, which is never
/// wrong.
const STATUS_RUNS_MAX: usize = 1024;

/// The most units that are written in one call: some tens of kilobytes, so that a flush that is
/// interrupted has left traces in many places.
const RUN_UNITS_MAX: u64 = 64;

/// What is larger than this part of the cache goes past it, as drives do it with streams.
const BYPASS_DIVISOR: u64 = 4;

/// How much is written back, oldest first, when the cache is full: small enough that a client does
/// not notice, large enough that it does not happen at every write.
const EVICTED_DIVISOR: usize = 16;

/// How long one mood lasts at most, in moments of [`CachedFile::write_back`].
const MOOD_MOMENTS_MAX: u64 = 40;

/// A file behind a volatile write cache.
#[derive(Debug)]
pub(crate) struct CachedFile {
    file: LegFile,
    cache: Mutex<WriteCache>,
    /// Whether the cache holds anything, for who does not want to wait for it.
    is_dirty: AtomicBool,
}

/// What the file does not hold.
#[derive(Debug)]
struct WriteCache {
    /// What is never torn.
    unit_bytes: u64,
    count_max: usize,
    /// By number of the unit on the leg.
    units: BTreeMap<u64, Unit>,
    /// Numbers of units, the one written longest ago first.
    by_age: BTreeMap<u64, u64>,
    next_age: u64,
    luck: RandomStream,
    mood: Mood,
    mood_moments_left: u64,
}

/// The newest bytes of one unit.
#[derive(Debug)]
struct Unit {
    age: u64,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Bytes(Box<[u8]>),
    Zeros {
        /// Storage is to be given up for them.
        punch: bool,
    },
}

/// How busy the cache is with writing back. Drives do it when they have nothing else to do, which
/// is much or nothing for a while.
#[derive(Clone, Copy, Debug)]
enum Mood {
    /// Not at all.
    Rest,
    /// A run of units now and then.
    Seldom,
    /// A run per moment, and one more for so many units.
    PerUnits(usize),
}

const MOODS: [Mood; 4] = [
    Mood::Rest,
    Mood::Seldom,
    Mood::PerUnits(64),
    Mood::PerUnits(8),
];

/// What is put into the cache.
#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Bytes(&'a [u8]),
    Zeros { punch: bool },
}

impl CachedFile {
    /// An empty cache over a file. `block_bytes`: what is never torn. The luck of two caches with
    /// one seed differs where their files have different names.
    pub(crate) fn new(file: LegFile, spec: CacheSpec, block_bytes: u32, path: &Path) -> Self {
        let unit_bytes = u64::from(block_bytes);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let role = format!("write cache of {name}");
        let count_max = usize::try_from(spec.size_bytes / unit_bytes);
        Self {
            file,
            cache: Mutex::new(WriteCache {
                unit_bytes,
                count_max: count_max.expect("the size of a cache is limited"),
                units: BTreeMap::new(),
                by_age: BTreeMap::new(),
                next_age: 0,
                luck: RandomStream::new(spec.seed, &role, 0),
                mood: Mood::Rest,
                mood_moments_left: 0,
            }),
            is_dirty: AtomicBool::new(false),
        }
    }

    /// The file below.
    pub(crate) const fn file(&self) -> &LegFile {
        &self.file
    }

    /// Whether there is anything to write back. Does not wait.
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty.load(Ordering::Acquire)
    }

    /// Carries out an operation, however long it takes.
    pub(crate) fn perform(&self, arena: &Arena, io: &LegIo) -> LegOutcome {
        self.with(|cache| {
            if io.kind == OpKind::BlockStatus {
                return Ok(cache.status(&self.file, io.extent));
            }
            if io.kind != OpKind::Read && !self.may_write() {
                return Ok(LegOutcome::Short);
            }
            let progress = match Progress::new(io, self.file.abilities) {
                Ok(progress) => progress,
                Err(kind) => return Ok(LegOutcome::Failed(kind)),
            };
            match progress.step() {
                Step::Read { memory, .. } => {
                    for (part, range) in parts_of(io.extent, memory) {
                        cache.read(&self.file, part, arena.slice_mut(range))?;
                    }
                }
                Step::Write { memory, .. } => {
                    for (part, range) in parts_of(io.extent, memory) {
                        cache.put(&self.file, part, Source::Bytes(arena.slice(range)))?;
                    }
                }
                Step::Zero { punch, .. } => {
                    cache.put(&self.file, io.extent, Source::Zeros { punch })?;
                }
                Step::Sync => cache.write_out_all(&self.file)?,
            }
            if io.kind.is_mutating() && io.fua {
                cache.write_out_extent(&self.file, io.extent)?;
            }
            Ok(LegOutcome::Done)
        })
        .unwrap_or_else(|error| self.failure(&error))
    }

    /// A moment has passed: perhaps some of what the cache holds goes to the file. What cannot be
    /// written stays, and the next flush fails.
    pub(crate) fn write_back(&self) {
        let _stays = self.with(|cache| {
            if self.may_write() {
                cache.write_some(&self.file)?;
            }
            Ok(())
        });
    }

    /// Fills `bytes` from `offset_bytes` on, at any alignment. For setup.
    pub(crate) fn read_at(&self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let extent = self.extent(offset_bytes, bytes.len())?;
        self.with(|cache| cache.read(&self.file, extent, bytes))?;
        self.file.expect_whole()
    }

    /// Stores `bytes` from `offset_bytes` on, at any alignment. For setup: into the cache, as all
    /// that is written.
    pub(crate) fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let extent = self.extent(offset_bytes, bytes.len())?;
        self.file.expect_whole()?;
        self.with(|cache| cache.put(&self.file, extent, Source::Bytes(bytes)))
    }

    /// Makes everything durable. For setup.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.expect_whole()?;
        self.with(|cache| cache.write_out_all(&self.file))
    }

    /// The first run of data that ends after `at`, as `LegFile::data_run` says. For setup.
    pub(crate) fn data_run(&self, at: u64, end: u64) -> io::Result<(u64, u64)> {
        if self.is_dirty() {
            return Ok((at, end));
        }
        self.file.data_run(at, end)
    }

    fn with<T>(&self, act: impl FnOnce(&mut WriteCache) -> io::Result<T>) -> io::Result<T> {
        let mut cache: MutexGuard<'_, WriteCache> = self
            .cache
            .lock()
            .expect("no thread panics while it holds a cache");
        let result = act(&mut cache);
        self.is_dirty
            .store(!cache.units.is_empty(), Ordering::Release);
        result
    }

    /// Whether a write would not make the file grow again after it was cut off.
    fn may_write(&self) -> bool {
        !self.file.grows_when_written() || self.file.is_whole().is_ok_and(|is_whole| is_whole)
    }

    fn failure(&self, error: &io::Error) -> LegOutcome {
        if !self.file.is_whole().is_ok_and(|is_whole| is_whole) {
            return LegOutcome::Short;
        }
        let kind = error.raw_os_error().map(ErrorKind::from_errno);
        LegOutcome::Failed(kind.unwrap_or(ErrorKind::Io))
    }

    fn extent(&self, offset_bytes: u64, len_bytes: usize) -> io::Result<Extent> {
        u64::try_from(len_bytes)
            .ok()
            .and_then(|len| Extent::checked_new(offset_bytes, len))
            .filter(|extent| extent.end() <= self.file.size_bytes)
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

/// Which bytes of an extent lie in which range.
fn parts_of(extent: Extent, memory: &LegMemory) -> impl Iterator<Item = (Extent, ArenaRange)> {
    let mut rest = extent;
    memory.ranges().iter().map(move |&range| {
        let len_bytes = u64::try_from(range.len_bytes).expect("lengths in memory fit 64 bits");
        let (part, after) = rest.split_at(len_bytes);
        rest = after;
        (part, range)
    })
}

impl WriteCache {
    /// The bytes of `extent` as a reader has to see them.
    fn read(&self, file: &LegFile, extent: Extent, bytes: &mut [u8]) -> io::Result<()> {
        file.fill(extent.offset(), bytes)?;
        for (&number, unit) in self.units.range(self.numbers(extent)) {
            let Some((from, to, count)) = self.overlap(file, number, extent) else {
                continue;
            };
            let part = &mut bytes[to..to + count];
            match &unit.content {
                Content::Bytes(source) => part.copy_from_slice(&source[from..from + count]),
                Content::Zeros { .. } => part.fill(0),
            }
        }
        Ok(())
    }

    /// Takes what is written to `extent`.
    fn put(&mut self, file: &LegFile, extent: Extent, source: Source<'_>) -> io::Result<()> {
        let most_bytes = self.unit_bytes * u64::try_from(self.count_max).expect("64 bits");
        if extent.len() > most_bytes / BYPASS_DIVISOR {
            return self.put_past(file, extent, source);
        }
        for number in self.numbers(extent) {
            let Some((from, to, count)) = self.overlap(file, number, extent) else {
                continue;
            };
            let is_whole = count == self.unit_len(file, number);
            let content = match source {
                Source::Zeros { punch } if is_whole => Content::Zeros { punch },
                Source::Bytes(bytes) if is_whole => Content::Bytes(bytes[to..to + count].into()),
                Source::Zeros { .. } | Source::Bytes(_) => {
                    // What is never torn is written as a whole, with what was there.
                    let mut whole = vec![0; self.unit_len(file, number)];
                    self.read(file, self.unit_extent(file, number), &mut whole)?;
                    let part = &mut whole[from..from + count];
                    match source {
                        Source::Bytes(bytes) => part.copy_from_slice(&bytes[to..to + count]),
                        Source::Zeros { .. } => part.fill(0),
                    }
                    Content::Bytes(whole.into())
                }
            };
            self.make_room(file)?;
            self.insert(number, content);
        }
        Ok(())
    }

    /// Takes what is too large for the cache: it goes to the file at once.
    fn put_past(&mut self, file: &LegFile, extent: Extent, source: Source<'_>) -> io::Result<()> {
        // Units that are changed in part have to be in the file before.
        for edge in [extent.offset(), extent.end() - 1] {
            self.write_out(file, &[edge / self.unit_bytes])?;
        }
        match source {
            Source::Bytes(bytes) => file.store(extent.offset(), bytes)?,
            Source::Zeros { punch } => file.make_zeros(extent, punch)?,
        }
        let covered: Vec<u64> = self
            .units
            .range(self.numbers(extent))
            .map(|(&number, _)| number)
            .collect();
        for number in covered {
            self.remove(number);
        }
        Ok(())
    }

    /// What of `extent` is a hole or zeros. Whatever is in the cache is data.
    fn status(&self, file: &LegFile, extent: Extent) -> LegOutcome {
        let mut runs: Vec<StatusRun> = Vec::new();
        let mut at = extent.offset();
        for (&number, _) in self.units.range(self.numbers(extent)) {
            let Some(unit) = self.unit_extent(file, number).intersection(extent) else {
                continue;
            };
            if !push_found(&mut runs, file, Extent::from_range(at, unit.offset())) {
                return LegOutcome::Short;
            }
            push_data(&mut runs, unit.len());
            at = unit.end();
            if runs.len() >= STATUS_RUNS_MAX {
                push_data(&mut runs, extent.end() - at);
                return LegOutcome::Status(runs);
            }
        }
        if !push_found(&mut runs, file, Extent::from_range(at, extent.end())) {
            return LegOutcome::Short;
        }
        LegOutcome::Status(runs)
    }

    /// Writes everything to the file, in an order left to chance.
    fn write_out_all(&mut self, file: &LegFile) -> io::Result<()> {
        let numbers: Vec<u64> = self.units.keys().copied().collect();
        self.write_out(file, &numbers)
    }

    /// Writes what the cache has of `extent` to the file.
    fn write_out_extent(&mut self, file: &LegFile, extent: Extent) -> io::Result<()> {
        let units = self.units.range(self.numbers(extent));
        let numbers: Vec<u64> = units.map(|(&number, _)| number).collect();
        self.write_out(file, &numbers)
    }

    /// Writes some of what the cache holds, as the mood is.
    fn write_some(&mut self, file: &LegFile) -> io::Result<()> {
        if self.mood_moments_left == 0 {
            self.mood = MOODS[self.chance(MOODS.len())];
            self.mood_moments_left = 1 + self.luck.below(MOOD_MOMENTS_MAX);
        }
        self.mood_moments_left -= 1;
        let run_count = match self.mood {
            Mood::Rest => 0,
            Mood::Seldom => usize::from(self.luck.below(16) == 0),
            Mood::PerUnits(count) => 1 + self.units.len() / count,
        };
        for _ in 0..run_count {
            let Some(first) = self.any_unit() else {
                break;
            };
            // One unit as often as all that was written with it.
            let most = 1 << self.luck.below(RUN_UNITS_MAX.ilog2().into());
            let numbers: Vec<u64> = (first..first + most)
                .take_while(|number| self.units.contains_key(number))
                .collect();
            self.write_out(file, &numbers)?;
        }
        Ok(())
    }

    /// Some unit that the cache holds, neither old nor new ones preferred by much.
    fn any_unit(&mut self) -> Option<u64> {
        let (&oldest, _) = self.by_age.first_key_value()?;
        let (&newest, _) = self.by_age.last_key_value()?;
        let age = oldest + self.luck.below(newest - oldest + 1);
        let (_, &number) = self.by_age.range(age..).next()?;
        Some(number)
    }

    /// Writes these units, in ascending order, to the file, where the cache has them, in runs whose
    /// lengths and order are left to chance.
    fn write_out(&mut self, file: &LegFile, numbers: &[u64]) -> io::Result<()> {
        let mut runs: Vec<Vec<u64>> = Vec::new();
        let mut room = 0;
        for &number in numbers {
            let Some(unit) = self.units.get(&number) else {
                continue;
            };
            let continues = runs.last().and_then(|run| run.last()).is_some_and(|&last| {
                last + 1 == number && unit.content.is_alike(&self.units[&last].content)
            });
            if continues && room > 0 {
                room -= 1;
                runs.last_mut().expect("it continues one").push(number);
            } else {
                room = self.luck.below(RUN_UNITS_MAX);
                runs.push(vec![number]);
            }
        }
        while !runs.is_empty() {
            let run = runs.swap_remove(self.chance(runs.len()));
            self.write_run(file, &run)?;
        }
        Ok(())
    }

    /// Writes adjacent units of one kind to the file.
    fn write_run(&mut self, file: &LegFile, run: &[u64]) -> io::Result<()> {
        let (first, last) = (run[0], run[run.len() - 1]);
        let end = self.unit_extent(file, last).end();
        let extent = Extent::from_range(self.unit_extent(file, first).offset(), end);
        let mut bytes = Vec::new();
        let mut zeros = None;
        for number in run {
            match &self.units[number].content {
                Content::Bytes(part) => bytes.extend_from_slice(part),
                Content::Zeros { punch } => zeros = Some(*punch),
            }
        }
        match zeros {
            None => file.store(extent.offset(), &bytes)?,
            Some(punch) => file.make_zeros(extent, punch)?,
        }
        for &number in run {
            self.remove(number);
        }
        Ok(())
    }

    /// Where there is no room for one more, writes back what was written longest ago.
    fn make_room(&mut self, file: &LegFile) -> io::Result<()> {
        if self.units.len() < self.count_max {
            return Ok(());
        }
        let count = (self.count_max / EVICTED_DIVISOR).max(1);
        let mut oldest: Vec<u64> = self.by_age.values().take(count).copied().collect();
        oldest.sort_unstable();
        self.write_out(file, &oldest)
    }

    fn insert(&mut self, number: u64, content: Content) {
        self.remove(number);
        let age = self.next_age;
        self.next_age += 1;
        self.by_age.insert(age, number);
        self.units.insert(number, Unit { age, content });
    }

    fn remove(&mut self, number: u64) {
        if let Some(unit) = self.units.remove(&number) {
            self.by_age.remove(&unit.age);
        }
    }

    /// An index below `count`.
    fn chance(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).expect("64 bits");
        usize::try_from(self.luck.below(count)).expect("below a length")
    }

    /// The numbers of the units that hold a byte of `extent`.
    fn numbers(&self, extent: Extent) -> std::ops::Range<u64> {
        extent.offset() / self.unit_bytes..extent.end().div_ceil(self.unit_bytes)
    }

    /// Where a unit lies; the last one of the leg may be shorter than the others.
    fn unit_extent(&self, file: &LegFile, number: u64) -> Extent {
        let start = number * self.unit_bytes;
        Extent::from_range(start, (start + self.unit_bytes).min(file.size_bytes))
    }

    fn unit_len(&self, file: &LegFile, number: u64) -> usize {
        length(self.unit_extent(file, number))
    }

    /// What a unit and an extent have in common: from where in the unit, from where in the extent,
    /// and how many bytes.
    fn overlap(
        &self,
        file: &LegFile,
        number: u64,
        extent: Extent,
    ) -> Option<(usize, usize, usize)> {
        let unit = self.unit_extent(file, number);
        let part = unit.intersection(extent)?;
        let from = length(Extent::from_range(unit.offset(), part.offset()));
        let to = length(Extent::from_range(extent.offset(), part.offset()));
        Some((from, to, length(part)))
    }
}

impl Content {
    /// Whether both are written in the same way.
    const fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bytes(_), Self::Bytes(_)) => true,
            (Self::Zeros { punch }, Self::Zeros { punch: other }) => *punch == *other,
            (Self::Bytes(_), Self::Zeros { .. }) | (Self::Zeros { .. }, Self::Bytes(_)) => false,
        }
    }
}

fn length(extent: Extent) -> usize {
    usize::try_from(extent.len()).expect("what is moved fits memory")
}

/// Adds what the file says of `extent`; false where the file has become smaller.
fn push_found(runs: &mut Vec<StatusRun>, file: &LegFile, extent: Extent) -> bool {
    if extent.is_empty() {
        return true;
    }
    let LegOutcome::Status(found) = file.status(extent) else {
        return false;
    };
    runs.extend(found);
    true
}

/// Adds data to the runs, where there is any.
fn push_data(runs: &mut Vec<StatusRun>, len_bytes: u64) {
    match runs.last_mut() {
        _ if len_bytes == 0 => {}
        Some(last) if !last.hole && !last.zero => last.len_bytes += len_bytes,
        Some(_) | None => runs.push(StatusRun {
            len_bytes,
            hole: false,
            zero: false,
        }),
    }
}

#[cfg(test)]
mod tests;
