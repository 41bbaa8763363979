//! The oracle: every byte of the array is an atomic register, and this says whether the answers can
//! be explained by one order of the writes.
//!
//! Per byte, a write and the reads that returned it form a group. With `first_end` the end of the
//! group's first operation to end, and `last_start` the start of its last one to start, the history
//! is linearizable exactly if no two groups A, B have `A.first_end < B.last_start` and
//! `B.first_end < A.last_start` (Gibbons and Korach, "Testing shared memories", 1997, section 4).
//!
//! A write that failed, and a trim, may have happened or not, byte by byte, but once and for all. A
//! failed write may leave legs that differ: which of the values is read may change when the set of
//! legs does, and only then ([`Checker::reset_failed`]).
//!
//! It knows nothing of the engine: it is told what was asked, answered, and what legs hold.

use std::collections::BTreeMap;

use heliostat_types::{Extent, SECTOR_BYTES};

use crate::fill::{Fill, index};

/// Logical time: each event of a run has its own.
pub(crate) type Tick = u64;

/// What has not ended.
const NEVER: Tick = u64::MAX;

/// So many bytes are not another write's by chance.
const CERTAIN_BYTES: usize = 8;

/// What is known of a write, a write-zeroes or a trim.
#[derive(Clone, Debug)]
struct Write {
    extent: Extent,
    fill: Fill,
    start: Tick,
    answered: Tick,
    /// Answered, and well.
    ok: bool,
    /// An answer that it went well means that the bytes are there: not so for a trim.
    certain: bool,
}

impl Write {
    /// Whether its bytes were there when it was answered, whatever else happened.
    fn happened(&self) -> bool {
        self.ok && self.certain
    }
}

/// One write as one byte's register sees it, with the reads that returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    write: usize,
    /// `NEVER`: it may not have happened yet, or not at all.
    first_end: Tick,
    last_start: Tick,
    /// Its past was forgotten by [`Checker::reset_failed`].
    reset: bool,
}

/// Neighbouring bytes with the same history.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    end: u64,
    /// What a read may return, oldest first.
    versions: Vec<Version>,
    /// What a leg may hold after a power cut, by index of write.
    kept: Vec<usize>,
    /// Of an earlier life, what other legs hold than the one that is read.
    others: Vec<usize>,
    /// What was last read where legs differed after a power cut, unless legs or bytes have changed
    /// since: the next power cut must not bring another one.
    seen: Option<usize>,
    /// A write was asked for since the last power cut.
    written: bool,
    /// When the last write that failed here was answered.
    failed: Option<Tick>,
    /// A write came since all was last checked to be durable.
    unchecked: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Checker {
    writes: Vec<Write>,
    /// By the offset of the first byte.
    cells: BTreeMap<u64, Cell>,
    /// When the legs have last changed, or failed to read.
    changed: Tick,
}

impl Checker {
    /// An array of `size_bytes` that holds `fill`, durably.
    pub(crate) fn new(size_bytes: u64, fill: Fill) -> Self {
        let initial = Write {
            extent: Extent::new(0, size_bytes),
            fill,
            start: 0,
            answered: 0,
            ok: true,
            certain: true,
        };
        let cell = Cell {
            end: size_bytes,
            versions: vec![Version {
                write: 0,
                first_end: 0,
                last_start: 0,
                reset: false,
            }],
            kept: vec![0],
            others: Vec::new(),
            seen: None,
            written: false,
            failed: None,
            unchecked: false,
        };
        Self {
            writes: vec![initial],
            cells: BTreeMap::from([(0, cell)]),
            changed: 0,
        }
    }

    /// The number of the next write.
    pub(crate) fn next_write(&self) -> usize {
        self.writes.len()
    }

    /// Whether `bytes` at `offset` are those of a write.
    pub(crate) fn is_of(&self, write: usize, offset: u64, bytes: &[u8]) -> bool {
        self.writes[write].fill.matches(offset, bytes)
    }

    /// A write, write-zeroes or (not `certain`) trim was asked for. Gives its number.
    pub(crate) fn write_asked(
        &mut self,
        tick: Tick,
        extent: Extent,
        fill: Fill,
        certain: bool,
    ) -> usize {
        let write = self.writes.len();
        self.writes.push(Write {
            extent,
            fill,
            start: tick,
            answered: NEVER,
            ok: false,
            certain,
        });
        self.for_cells(extent, |cell| {
            cell.versions.push(Version {
                write,
                first_end: NEVER,
                last_start: tick,
                reset: false,
            });
            cell.kept.push(write);
            (cell.seen, cell.written) = (None, true);
            cell.unchecked = true;
        });
        write
    }

    /// It was answered well. `oldest` is the start of the oldest read not yet answered.
    pub(crate) fn write_done(&mut self, tick: Tick, write: usize, oldest: Tick) {
        self.writes[write].answered = tick;
        self.writes[write].ok = true;
        let facts = self.writes[write].clone();
        if !facts.certain {
            return;
        }
        let writes = std::mem::take(&mut self.writes);
        let changed = self.changed;
        self.for_cells(facts.extent, |cell| {
            for version in &mut cell.versions {
                if version.write == write {
                    version.first_end = version.first_end.min(tick);
                } else if version.reset && writes[version.write].answered < facts.start {
                    // Which of several was there first is not known of what was before.
                    let since = writes[version.write].answered.max(changed);
                    version.first_end = version.first_end.min(since);
                }
            }
            if cell.failed.is_some_and(|failed| failed < facts.start) {
                cell.failed = None;
            }
            cell.others.clear();
            retire(cell, &writes, oldest);
        });
        self.writes = writes;
        self.merge(facts.extent);
    }

    /// It was answered with an error, and may have happened in part or not.
    pub(crate) fn write_failed(&mut self, tick: Tick, write: usize) {
        self.writes[write].answered = tick;
    }

    /// A write of which `extent` is a part was answered with an error, or will be, because of legs
    /// that did not do this part.
    pub(crate) fn part_doomed(&mut self, tick: Tick, extent: Extent) {
        self.for_cells(extent, |cell| cell.failed = Some(tick));
        self.reset_failed(extent);
    }

    /// It was refused, and must not have happened.
    pub(crate) fn write_refused(&mut self, tick: Tick, write: usize) {
        self.writes[write].answered = tick;
        let extent = self.writes[write].extent;
        self.for_cells(extent, |cell| {
            cell.versions.retain(|version| version.write != write);
            cell.kept.retain(|&kept| kept != write);
        });
    }

    /// The legs changed, or one failed a read: reads that begin later see what they hold now.
    pub(crate) const fn legs_changed(&mut self, tick: Tick) {
        self.changed = tick;
    }

    /// The legs changed: where a write had failed, reads may now return another of the values.
    pub(crate) fn reset_failed(&mut self, extent: Extent) {
        self.split(extent);
        for cell in self.cells_mut(extent) {
            cell.seen = None;
            let others = std::mem::take(&mut cell.others);
            for &write in &others {
                if cell.versions.iter().all(|version| version.write != write) {
                    cell.versions.push(Version {
                        write,
                        first_end: NEVER,
                        last_start: 0,
                        reset: true,
                    });
                }
            }
            let is_open = cell.failed.is_some() || !others.is_empty();
            cell.others = others;
            if is_open {
                for version in &mut cell.versions {
                    version.first_end = NEVER;
                    version.last_start = 0;
                    version.reset = true;
                }
            }
        }
    }

    /// A read from `start` to `end` returned `bytes`. `oldest` as in [`Checker::write_done`].
    pub(crate) fn read_done(
        &mut self,
        (start, end): (Tick, Tick),
        extent: Extent,
        bytes: &[u8],
        oldest: Tick,
    ) -> Result<(), String> {
        self.split(extent);
        let mut at = extent.offset();
        while at < extent.end() {
            let cell_end = self.cells[&at].end;
            let read = &bytes[index(at - extent.offset())..index(cell_end - extent.offset())];
            let found = self.matching(at, at, read);
            match found[..] {
                [] => {
                    let same = self.same_match(at, read)?;
                    if same < read.len() {
                        self.split_at(at + same as u64);
                    }
                    // A run of bytes that several versions have says nothing.
                    if let [one] = self.matching(at, at, &read[..same])[..] {
                        self.note_read(at, one, start, end)?;
                    }
                    at += same as u64;
                    continue;
                }
                [one] if self.is_no_chance(at, one, read) => self.note_read(at, one, start, end)?,
                _ => {}
            }
            at = cell_end;
        }
        let writes = std::mem::take(&mut self.writes);
        for cell in self.cells_mut(extent) {
            retire(cell, &writes, oldest);
        }
        self.writes = writes;
        self.merge(extent);
        Ok(())
    }

    /// The versions of the cell at `cell` that have these bytes at `at`.
    fn matching(&self, cell: u64, at: u64, bytes: &[u8]) -> Vec<usize> {
        let versions = self.cells[&cell].versions.iter().enumerate();
        versions
            .filter(|(_, version)| self.writes[version.write].fill.matches(at, bytes))
            .map(|(index, _)| index)
            .collect()
    }

    /// Whether bytes that are those of `version` are not made of others that were being written:
    /// two bytes of two writes may together be two of a third one.
    fn is_no_chance(&self, at: u64, version: usize, bytes: &[u8]) -> bool {
        let is_own = |place: usize| {
            let byte = &bytes[place..=place];
            self.matching(at, at + place as u64, byte) == [version]
        };
        bytes.len() >= CERTAIN_BYTES || (0..bytes.len()).any(is_own)
    }

    /// How many bytes from the start of the cell at `at` on match the same versions, each by
    /// itself.
    fn same_match(&self, at: u64, bytes: &[u8]) -> Result<usize, String> {
        let of = |place: usize| self.matching(at, at + place as u64, &bytes[place..=place]);
        let first = of(0);
        if first.is_empty() {
            return Err(self.describe(at, bytes));
        }
        Ok((1..bytes.len())
            .find(|&place| of(place) != first)
            .unwrap_or(bytes.len()))
    }

    fn note_read(&mut self, at: u64, version: usize, start: Tick, end: Tick) -> Result<(), String> {
        let cell = self.cells.get_mut(&at).expect("a cell was split here");
        let noted = &mut cell.versions[version];
        let answered = self.writes[noted.write].answered;
        if noted.first_end == NEVER && !noted.reset {
            noted.first_end = answered;
        }
        noted.first_end = noted.first_end.min(end);
        noted.last_start = noted.last_start.max(start);
        let noted = noted.clone();
        if !cell.others.is_empty() && !cell.written && start > self.changed {
            cell.seen = Some(noted.write);
        }
        let cell = &self.cells[&at];
        for other in &cell.versions {
            if other.write != noted.write
                && noted.first_end < other.last_start
                && other.first_end < noted.last_start
            {
                return Err(format!(
                    "byte {at}: a read from {start} to {end} returned {}, which contradicts {}",
                    self.show(&noted),
                    self.show(other)
                ));
            }
        }
        Ok(())
    }

    fn show(&self, version: &Version) -> String {
        let write = &self.writes[version.write];
        let tick = |tick| match tick {
            NEVER => "-".to_owned(),
            tick => tick.to_string(),
        };
        format!(
            "write {} ({:?} {:?} asked {} answered {} ok {}, seen from {} to {})",
            version.write,
            write.fill,
            write.extent,
            write.start,
            tick(write.answered),
            write.ok,
            tick(version.first_end),
            version.last_start
        )
    }

    /// What the wrong `bytes` at `at` may be.
    fn describe(&self, at: u64, bytes: &[u8]) -> String {
        let expected: Vec<String> = (self.cell(at).versions.iter())
            .map(|version| self.show(version))
            .collect();
        let guess = self.guess(at, bytes);
        format!("{guess}; possible: {}", expected.join(", "))
    }

    /// Whose the `bytes` at `at` may be.
    fn guess(&self, at: u64, bytes: &[u8]) -> String {
        let some = &bytes[..bytes.len().min(16)];
        let is = |write: &&Write| write.fill.matches(at, some);
        let guess = match self.writes.iter().rposition(|write| is(&write)) {
            Some(write) => {
                let facts = &self.writes[write];
                format!(
                    "those of write {write} ({:?} asked {} answered {} ok {})",
                    facts.extent, facts.start, facts.answered, facts.ok
                )
            }
            None => "of no write".to_owned(),
        };
        format!("byte {at}: {some:02x?} are {guess}")
    }

    /// Whether a leg that holds `bytes` at `extent` holds write `write` or what came beside or
    /// after it.
    pub(crate) fn check_holds(
        &self,
        write: usize,
        extent: Extent,
        bytes: &[u8],
    ) -> Result<(), String> {
        let start = self.writes[write].start;
        self.check_any(extent, bytes, |cell| {
            let versions = cell.versions.iter().filter(|version| {
                let answered = self.writes[version.write].answered;
                version.write == write || (answered >= start && version.first_end >= start)
            });
            versions.map(|version| version.write).collect()
        })
    }

    /// A write answered well is durable from now on.
    pub(crate) fn write_durable(&mut self, write: usize) {
        let facts = self.writes[write].clone();
        if !facts.happened() {
            return;
        }
        let writes = std::mem::take(&mut self.writes);
        self.for_cells(facts.extent, |cell| supersede(cell, &writes, write));
        self.writes = writes;
    }

    /// The power failed, and the array is taken up again. Reads return `bytes`; legs hold `legs`,
    /// where `may_differ` says so. What is there now stays until it is written, or until the legs
    /// change. What was read stays already, where the legs of the last life are all there, which
    /// `is_complete` says.
    pub(crate) fn begin_again(
        &mut self,
        tick: Tick,
        bytes: &[u8],
        (legs, missing): (&[Vec<u8>], &[Vec<u8>]),
        is_complete: bool,
        may_differ: impl Fn(u64) -> bool,
    ) -> Result<(), String> {
        let mut anew = BTreeMap::new();
        let mut cells = BTreeMap::new();
        for (start, cell) in std::mem::take(&mut self.cells) {
            for part in parts_of(start, cell.end, bytes, legs.iter().chain(missing)) {
                let range = index(part.offset())..index(part.end());
                let seen = cell.seen.filter(|_| is_complete);
                self.check_seen(seen, part.offset(), &bytes[range.clone()])?;
                let mut found = |bytes: &[u8]| {
                    let bytes = &bytes[range.clone()];
                    let is =
                        |&&write: &&usize| self.writes[write].fill.matches(part.offset(), bytes);
                    let Some(&old) = cell.kept.iter().rev().find(is) else {
                        return Err(self.guess(part.offset(), bytes));
                    };
                    let write = *anew.entry(old).or_insert_with(|| {
                        self.writes.push(Write {
                            start: tick,
                            answered: tick,
                            ok: true,
                            certain: true,
                            ..self.writes[old].clone()
                        });
                        self.writes.len() - 1
                    });
                    Ok(write)
                };
                let first = found(bytes)?;
                let mut others = Vec::new();
                for leg in legs {
                    others.push(found(leg)?);
                }
                others.retain(|&other| other != first);
                let mut kept = vec![first];
                kept.extend(&others);
                for leg in missing {
                    kept.push(found(leg)?);
                }
                kept.sort_unstable();
                kept.dedup();
                if !others.is_empty() && !may_differ(part.offset()) {
                    return Err(format!(
                        "legs differ at {}, and nobody knows",
                        part.offset()
                    ));
                }
                let version = Version {
                    write: first,
                    first_end: tick,
                    last_start: tick,
                    reset: false,
                };
                let cell = Cell {
                    end: part.end(),
                    versions: vec![version],
                    kept,
                    others,
                    seen: None,
                    written: false,
                    failed: None,
                    unchecked: false,
                };
                cells.insert(part.offset(), cell);
            }
        }
        self.cells = cells;
        self.merge(Extent::new(0, bytes.len() as u64));
        Ok(())
    }

    /// Whether `bytes` at `at` are those of the write that was read there, if any was.
    fn check_seen(&self, seen: Option<usize>, at: u64, bytes: &[u8]) -> Result<(), String> {
        match seen.filter(|&seen| !self.writes[seen].fill.matches(at, bytes)) {
            Some(seen) => {
                let guess = self.guess(at, bytes);
                Err(format!("write {seen} was read there, and now {guess}"))
            }
            None => Ok(()),
        }
    }

    /// Legs that differed since a power cut are equal.
    pub(crate) fn resynced(&mut self) {
        for cell in self.cells.values_mut() {
            cell.others.clear();
        }
    }

    /// All that was answered before `tick` is durable from now on. Gives what is to be checked.
    pub(crate) fn all_durable(&mut self, tick: Tick) -> Vec<Extent> {
        let mut changed = Vec::new();
        for (&start, cell) in &mut self.cells {
            if !cell.unchecked && cell.kept.len() == 1 {
                continue;
            }
            for write in cell.kept.clone() {
                if self.writes[write].happened() && self.writes[write].answered < tick {
                    supersede(cell, &self.writes, write);
                }
            }
            cell.unchecked = false;
            changed.push(Extent::from_range(start, cell.end));
        }
        changed
    }

    /// Puts there what a leg may hold of an extent.
    pub(crate) fn some_bytes(&self, extent: Extent, bytes: &mut [u8]) {
        let mut at = extent.offset();
        while at < extent.end() {
            let cell = self.cell(at);
            let end = cell.end.min(extent.end());
            let newest = *cell.kept.last().expect("a leg may hold something");
            let part = &mut bytes[index(at - extent.offset())..index(end - extent.offset())];
            self.writes[newest].fill.write(at, part);
            at = end;
        }
    }

    /// Whether all bytes of an extent have one version alone, which was answered well.
    pub(crate) fn is_certain(&self, extent: Extent) -> bool {
        let mut at = extent.offset();
        while at < extent.end() {
            let cell = self.cell(at);
            let is_one = cell.kept.len() == 1 && cell.failed.is_none();
            if !is_one || !self.writes[cell.kept[0]].happened() {
                return false;
            }
            at = cell.end;
        }
        true
    }

    /// Whether a leg may have `bytes` at `extent` after a power cut now.
    pub(crate) fn check_durable(&self, extent: Extent, bytes: &[u8]) -> Result<(), String> {
        self.check_any(extent, bytes, |cell| cell.kept.clone())
    }

    fn check_any(
        &self,
        extent: Extent,
        bytes: &[u8],
        allowed: impl Fn(&Cell) -> Vec<usize>,
    ) -> Result<(), String> {
        let first = self.cell_start(extent.offset());
        for (&start, cell) in self.cells.range(first..extent.end()) {
            let from = start.max(extent.offset());
            let to = cell.end.min(extent.end());
            let held = &bytes[index(from - extent.offset())..index(to - extent.offset())];
            let allowed = allowed(cell);
            let fits = |at: u64, bytes: &[u8]| {
                (allowed.iter()).any(|&write| self.writes[write].fill.matches(at, bytes))
            };
            if fits(from, held) {
                continue;
            }
            if let Some(place) = (0..held.len()).find(|&place| {
                let byte = place..=place;
                !fits(from + place as u64, &held[byte])
            }) {
                return Err(format!(
                    "{}; allowed here: {allowed:?}",
                    self.describe(from + place as u64, &held[place..])
                ));
            }
        }
        Ok(())
    }

    /// Where writes failed, or a power cut came, and legs may differ.
    pub(crate) fn failed_extents(&self) -> Vec<Extent> {
        let is_open = |cell: &Cell| cell.failed.is_some() || !cell.others.is_empty();
        let failed = self.cells.iter().filter(|(_, cell)| is_open(cell));
        failed
            .map(|(&start, cell)| Extent::from_range(start, cell.end))
            .collect()
    }

    fn cell_start(&self, at: u64) -> u64 {
        let (&start, _) = self.cells.range(..=at).next_back().expect("cells cover it");
        start
    }

    fn cell(&self, at: u64) -> &Cell {
        &self.cells[&self.cell_start(at)]
    }

    fn split_at(&mut self, at: u64) {
        let (_, last) = self.cells.last_key_value().expect("there are cells");
        if at >= last.end || self.cells.contains_key(&at) {
            return;
        }
        let start = self.cell_start(at);
        let cell = self.cells.get_mut(&start).expect("just found");
        let right = cell.clone();
        cell.end = at;
        self.cells.insert(at, right);
    }

    fn split(&mut self, extent: Extent) {
        self.split_at(extent.offset());
        self.split_at(extent.end());
    }

    /// The cells inside `extent`, whose ends are ends of cells.
    fn cells_mut(&mut self, extent: Extent) -> impl Iterator<Item = &mut Cell> {
        self.cells
            .range_mut(extent.offset()..extent.end())
            .map(|(_, cell)| cell)
    }

    fn for_cells(&mut self, extent: Extent, change: impl FnMut(&mut Cell)) {
        self.split(extent);
        self.cells_mut(extent).for_each(change);
    }

    /// Joins cells that have become equal again. Not inside of a sector of which legs may hold
    /// several versions: one may hold one part of it from the first and one from the second.
    fn merge(&mut self, extent: Extent) {
        let starts: Vec<u64> = (self.cells.range(extent.offset()..=extent.end()))
            .map(|(&start, _)| start)
            .collect();
        for start in starts {
            let Some((&before, left)) = self.cells.range(..start).next_back() else {
                continue;
            };
            let right = &self.cells[&start];
            if right.kept.len() > 1 && !start.is_multiple_of(SECTOR_BYTES) {
                continue;
            }
            if left.versions == right.versions
                && left.kept == right.kept
                && left.others == right.others
                && left.seen == right.seen
                && left.written == right.written
                && left.failed == right.failed
                && left.unchecked == right.unchecked
            {
                let end = right.end;
                self.cells.remove(&start);
                self.cells.get_mut(&before).expect("just found").end = end;
            }
        }
    }
}

/// What of a cell can be looked at as a whole: all of it where the legs agree and it is one sector
/// or one write, else sector by sector.
fn parts_of<'a>(
    start: u64,
    end: u64,
    bytes: &[u8],
    mut legs: impl Iterator<Item = &'a Vec<u8>>,
) -> Vec<Extent> {
    let mut parts: Vec<Extent> = Vec::new();
    let mut at = start;
    while at < end {
        let next = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
        parts.push(Extent::from_range(at, next));
        at = next;
    }
    let range = index(start)..index(end);
    let is_equal = legs.all(|leg| leg[range.clone()] == bytes[range.clone()]);
    if is_equal && parts.len() > 64 {
        let is_zero = |part: &Extent| bytes[index(part.offset())..index(part.end())] == [0; 512];
        if parts.iter().all(is_zero) {
            return vec![Extent::from_range(start, end)];
        }
    }
    parts
}

/// Forgets versions that no read may return any more: a later write surely happened, before any
/// read that is still unanswered began.
fn retire(cell: &mut Cell, writes: &[Write], oldest: Tick) {
    if cell.versions.len() == 1 {
        return;
    }
    let newest = (cell.versions.iter())
        .filter(|version| writes[version.write].happened() && version.first_end < oldest)
        .map(|version| writes[version.write].start)
        .max();
    if let Some(start) = newest {
        cell.versions.retain(|version| {
            let ended = version.first_end.min(writes[version.write].answered);
            writes[version.write].start == start || ended >= start || version.last_start >= start
        });
    }
}

/// Forgets what a power cut may no longer bring back once `durable` is durable.
fn supersede(cell: &mut Cell, writes: &[Write], durable: usize) {
    let start = writes[durable].start;
    cell.kept
        .retain(|&kept| kept == durable || writes[kept].answered >= start);
}

/// A read beside a write may return one byte of before and one of after it, and both together may
/// be what somebody else wrote long ago.
#[test]
fn bytes_of_two_writes_are_not_taken_for_those_of_a_third() {
    let byte = |write: usize, offset: u64| {
        let mut byte = [0];
        Fill::Pattern(write).write(offset, &mut byte);
        byte[0]
    };
    let is_mix = |at: u64, old: usize, new: usize| {
        let (first, second) = (byte(old, at), byte(new, at + 1));
        let (other, another) = (byte(new, at), byte(old, at + 1));
        (first, second) == (byte(0, at), byte(0, at + 1)) && other != first && another != second
    };
    let places = (0..1_u64 << 16).flat_map(|at| (1..20).map(move |old| (at, old)));
    let mut mixed = places.filter(|&(at, old)| is_mix(at, old, old + 1));
    let (at, old) = mixed.next().expect("one of 65,536 is");
    let extent = Extent::new(at, 2);
    let mut checker = Checker::new(at + 2, Fill::Pattern(0));
    let before = checker.write_asked(1, extent, Fill::Pattern(old), true);
    checker.write_done(2, before, 0);
    let (mut read, mut mix) = ([0; 2], [0; 2]);
    Fill::Pattern(old).write(at, &mut read);
    Fill::Pattern(0).write(at, &mut mix);
    checker.read_done((3, 4), extent, &read, 0).unwrap();
    checker.write_asked(5, extent, Fill::Pattern(old + 1), true);
    checker.read_done((6, 7), extent, &mix, 0).unwrap();
    // What nobody wrote there is still seen, and so is what is old where it cannot be chance.
    assert!(checker.read_done((6, 7), extent, &[mix[0], 0], 0).is_err());
    let mut checker = Checker::new(64, Fill::Pattern(0));
    let extent = Extent::new(0, 64);
    let write = checker.write_asked(1, extent, Fill::Pattern(1), true);
    checker.write_done(2, write, 0);
    let mut old = [0; 64];
    Fill::Pattern(0).write(0, &mut old);
    assert!(checker.read_done((3, 4), extent, &old, 0).is_err());
}
