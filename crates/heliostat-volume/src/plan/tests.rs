//! Power cuts at each step of each plan, with any of its sectors written.

use std::collections::BTreeMap;

use heliostat_types::{Extent, Prng, RandomStream};

use super::{Plan, Step};
use crate::bytes::COPY_BYTES_MAX;
use crate::copies::{Assessed, Copy, Places, Refusal, assess, former_second, look};
use crate::table::{Limits, Table};
use crate::{GRAIN_BYTES, TableError};

const ARRAY: [u8; 16] = [3; 16];
const SECTOR_BYTES: usize = 512;
const MIB: u64 = GRAIN_BYTES;

/// An array, sector by sector; what volumes hold is nobody's business here.
#[derive(Clone)]
struct Disk {
    len_bytes: u64,
    /// Those that hold something else than `rest`.
    sectors: BTreeMap<u64, Vec<u8>>,
    /// The byte that all others are full of, in turn from which address on.
    rest: Vec<(u64, u8)>,
}

impl Disk {
    fn new(grains: u64) -> Self {
        Self {
            len_bytes: grains * MIB,
            sectors: BTreeMap::new(),
            rest: vec![(0, 0)],
        }
    }

    fn len(&self) -> u64 {
        self.len_bytes
    }

    fn grow(&mut self, len_bytes: u64, byte: u8) {
        self.rest.push((self.len_bytes, byte));
        self.len_bytes = len_bytes;
    }

    fn sector(&self, at: u64) -> Vec<u8> {
        let rest = self.rest.iter().rev().find(|(from, _)| *from <= at);
        let (_, byte) = *rest.unwrap();
        let stored = self.sectors.get(&at).cloned();
        stored.unwrap_or_else(|| vec![byte; SECTOR_BYTES])
    }

    /// As much of an area as a copy can take.
    fn area(&self, area: Extent) -> Vec<u8> {
        let sectors = (0..COPY_BYTES_MAX).step_by(SECTOR_BYTES);
        let sectors = sectors.map(|at| self.sector(area.offset() + at as u64));
        sectors.collect::<Vec<_>>().concat()
    }

    /// Both areas as they are now.
    fn areas(&self) -> [Vec<u8>; 2] {
        let areas = Places::of(self.len()).unwrap().areas();
        areas.map(|area| self.area(area))
    }

    fn fill(&mut self, at: u64, len: usize, byte: u8) {
        for at in (at..at + len as u64).step_by(SECTOR_BYTES) {
            self.sectors.insert(at, vec![byte; SECTOR_BYTES]);
        }
    }

    /// Damages a byte.
    fn flip(&mut self, at: u64) {
        let start = at - at % SECTOR_BYTES as u64;
        let mut sector = self.sector(start);
        sector[usize::try_from(at - start).unwrap()] ^= 1;
        self.sectors.insert(start, sector);
    }

    /// Does a step, or those of its sectors that `is_done` says.
    fn step(&mut self, step: &Step, mut is_done: impl FnMut() -> bool) {
        let (offset, bytes) = match step {
            Step::Write {
                offset_bytes,
                bytes,
            } => (*offset_bytes, bytes.clone()),
            Step::Zero(extent) => {
                let len = usize::try_from(extent.len()).unwrap();
                (extent.offset(), vec![0; len])
            }
        };
        for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
            if is_done() {
                let at = offset + (index * SECTOR_BYTES) as u64;
                self.sectors.insert(at, sector.to_vec());
            }
        }
    }

    fn run(&mut self, plan: &Plan) {
        plan.steps.iter().for_each(|step| self.step(step, || true));
    }

    fn copies(&self) -> (Copy, Copy, Option<Copy>) {
        let [first, second] = Places::of(self.len()).unwrap().areas();
        let first = look(&self.area(first), &ARRAY);
        let second = look(&self.area(second), &ARRAY);
        let former = former_second(&first, self.len());
        let former = former.map(|area| look(&self.area(area), &ARRAY));
        (first, second, former)
    }

    fn assess(&self) -> Result<Option<Assessed>, Refusal> {
        let (first, second, former) = self.copies();
        assess(self.len(), &first, &second, former.as_ref())
    }

    /// The plan that begins each start, and what is found then.
    fn settle(&self) -> (Plan, Option<Table>) {
        let (first, second, _) = self.copies();
        match self.assess().unwrap() {
            Some(found) => Plan::settle(&found, &first, &second, self.len()),
            None => (Plan::default(), None),
        }
    }

    /// The names of the volumes that a start finds.
    fn names(&self) -> Vec<String> {
        let table = self.settle().1;
        let volumes = table.into_iter().flat_map(|table| table.volumes);
        volumes.map(|volume| volume.name).collect()
    }
}

fn names(table: Option<&Table>) -> Vec<String> {
    let volumes = table.into_iter().flat_map(|table| &table.volumes);
    volumes.map(|volume| volume.name.clone()).collect()
}

fn table_of(names: &[&str], grains: u64) -> Table {
    let mut table = Table::new(ARRAY, grains * MIB).unwrap();
    table.generation = 1;
    for name in names {
        table = table.with_volume(name, MIB, Limits::default()).unwrap();
        table = table.with_prepared(name, MIB).unwrap();
    }
    table
}

/// Names that make a table several sectors long.
const MANY: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// A disk that holds the table twice.
fn disk_with(table: &Table) -> Disk {
    let mut disk = Disk::new(table.array_bytes / MIB);
    disk.run(&Plan::begin(table, false));
    assert_eq!(disk.names(), names(Some(table)));
    disk
}

/// Cuts the power within each step of a plan, in many ways, and again while what was left is
/// settled: the old table or the new one is found each time, and once it is the new one it stays.
fn cut_everywhere(before: &Disk, plan: &Plan, old: &[String], new: &[String], what: &str) {
    let mut done = before.clone();
    for (index, step) in plan.steps.iter().enumerate() {
        for seed in 0..12 {
            let mut prng = RandomStream::new(seed, what, index as u64);
            let mut disk = done.clone();
            let dense = prng.below(4);
            disk.step(step, || prng.below(4) < dense);
            let found = disk.names();
            assert!(
                found == old || found == new,
                "{what}, step {index}: {found:?}"
            );
            let (settling, _) = disk.settle();
            for (at, step) in settling.steps.iter().enumerate() {
                let mut again = disk.clone();
                again.step(step, || prng.below(2) == 0);
                assert_eq!(
                    again.names(),
                    found,
                    "{what}, step {index}, settled to {at}"
                );
                disk.step(step, || true);
            }
            let rest = disk.settle().0;
            assert!(
                rest.steps.is_empty(),
                "{what}, step {index}: {rest:?} is left"
            );
            assert_eq!(disk.names(), found);
        }
        done.step(step, || true);
    }
    assert_eq!(done.names(), new);
    assert!(done.settle().0.steps.is_empty());
}

#[test]
fn an_update_leaves_the_old_table_or_the_new_one() {
    for (old, new) in [
        (&MANY[..1], &MANY[..2]),
        (&MANY[..1], &MANY[..]),
        (&MANY[..], &MANY[..3]),
    ] {
        let table = table_of(old, 20);
        let next = Table {
            generation: table.generation + 1,
            ..table_of(new, 20)
        };
        let (old, new) = (names(Some(&table)), names(Some(&next)));
        cut_everywhere(
            &disk_with(&table),
            &Plan::update(&next),
            &old,
            &new,
            "update",
        );
    }
}

#[test]
fn the_first_table_is_there_or_it_is_not() {
    let table = table_of(&MANY, 20);
    let new = names(Some(&table));
    cut_everywhere(
        &Disk::new(20),
        &Plan::begin(&table, false),
        &[],
        &new,
        "begin",
    );
    // Something lies there, and may go.
    let mut used = Disk::new(20);
    used.rest = vec![(0, 0xa5)];
    cut_everywhere(
        &used,
        &Plan::begin(&table, true),
        &[],
        &new,
        "begin by force",
    );
}

#[test]
fn the_last_table_is_there_or_it_is_not_and_leaves_nothing_behind() {
    let table = table_of(&MANY, 20);
    let before = disk_with(&table);
    let plan = Plan::end(&table);
    cut_everywhere(&before, &plan, &names(Some(&table)), &[], "end");
    let mut after = before;
    after.run(&plan);
    let areas = after.areas().concat();
    assert!(areas.iter().all(|&byte| byte == 0));
}

#[test]
fn after_the_array_has_grown_the_second_copy_is_found_and_moves() {
    let table = table_of(&MANY, 20);
    let mut disk = disk_with(&table);
    // What has become part of it may hold anything.
    disk.grow(31 * MIB + 512, 0x5a);
    let old = names(Some(&table));
    let found = disk.assess().unwrap().unwrap();
    assert!(found.has_grown && found.table == table);
    let (plan, moved) = disk.settle();
    assert_eq!(moved.unwrap().places().room(), Extent::new(MIB, 29 * MIB));
    cut_everywhere(&disk, &plan, &old, &old, "grown");
    // Where an update was cut short before it has grown, the newer copy is the one at the old end.
    let next = table.without("a").unwrap();
    let mut halfway = disk_with(&table);
    halfway.step(&Plan::update(&next).steps[0], || true);
    halfway.grow(31 * MIB, 0);
    assert_eq!(halfway.names(), names(Some(&next)));
}

#[test]
fn either_copy_does_alone_and_somebody_elses_bytes_stay() {
    let table = table_of(&MANY, 20);
    let old = names(Some(&table));
    let whole = disk_with(&table);
    for (place, area) in table.places().areas().into_iter().enumerate() {
        // Damaged, and gone: written again without asking.
        let mut damaged = whole.clone();
        damaged.flip(area.offset() + 700);
        let mut gone = whole.clone();
        gone.fill(area.offset(), COPY_BYTES_MAX, 0);
        for mut disk in [damaged, gone] {
            assert_eq!(disk.names(), old);
            let (plan, _) = disk.settle();
            assert_eq!(plan.steps.len(), 1);
            disk.run(&plan);
            assert!(disk.areas() == whole.areas());
        }
        // Something else lies there: only who insists writes over it.
        let mut disk = whole.clone();
        disk.fill(area.offset(), 2048, 0x11);
        assert_eq!(disk.names(), old);
        let found = disk.assess().unwrap().unwrap();
        assert!(found.stale[place] && !found.may_write[place]);
        assert_eq!(disk.settle().0, Plan::default());
        disk.run(&Plan::rewrite(&found.table, found.stale));
        assert!(disk.areas() == whole.areas());
    }
}

#[test]
fn what_cannot_be_believed_is_refused() {
    let table = table_of(&MANY, 20);
    let whole = disk_with(&table);
    let [_, second] = table.places().areas();
    let second = second.offset();
    let mut disk = whole.clone();
    disk.flip(700);
    disk.flip(second + 700);
    let error = TableError::Checksum;
    assert_eq!(
        disk.assess(),
        Err(Refusal::Unreadable {
            error: error.clone()
        })
    );
    disk.fill(second, COPY_BYTES_MAX, 0);
    assert_eq!(disk.assess(), Err(Refusal::Unreadable { error }));
    // Two tables of one generation.
    let mut disk = whole.clone();
    let mut other = table.without("a").unwrap();
    other.generation = table.generation;
    disk.step(&Plan::update(&other).steps[0], || true);
    assert_eq!(disk.assess(), Err(Refusal::Disagree));
    // An array that has lost its end.
    let mut disk = whole.clone();
    disk.len_bytes = 19 * MIB;
    let wanted_bytes = 20 * MIB;
    assert_eq!(disk.assess(), Err(Refusal::TooSmall { wanted_bytes }));
    // A table of another array is nobody's.
    let [first, last] = table.places().areas();
    assert_eq!(look(&whole.area(first), &[4; 16]), Copy::OfAnother);
    assert_eq!(
        assess(whole.len(), &Copy::OfAnother, &Copy::OfAnother, None),
        Ok(None)
    );
    assert_eq!(look(&whole.area(last), &ARRAY), Copy::Valid(table));
}
