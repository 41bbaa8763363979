//! Against a naive oracle: what a unit may hold after the power was cut.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use heliostat_types::{Extent, LegOpId, OpKind, Prng, RandomStream};

use super::CachedFile;
use crate::api::{LegIo, LegOutcome};
use crate::arena::Arena;
use crate::open::{Access, open_path};
use crate::spec::{CacheSpec, Torn};
use crate::tests::bench::{Bench, Scratch, open, range};
use crate::{IoChoice, LegSpec};

const SECTOR: u64 = 512;

/// Four times the cache, and no whole number of physical blocks.
const SIZE: u64 = (256 << 10) - SECTOR;

const CACHE: CacheSpec = CacheSpec {
    size_bytes: 64 << 10,
    torn: Torn::Logical,
    seed: 0,
};

fn cached(path: &Path, seed: u64, unit_bytes: u32) -> CachedFile {
    let (file, _) = open_path("leg", path, Access::Cached).unwrap();
    CachedFile::new(file, CacheSpec { seed, ..CACHE }, unit_bytes, path)
}

fn io(kind: OpKind, extent: Extent) -> LegIo {
    LegIo {
        op: LegOpId(0),
        kind,
        extent,
        memory: matches!(kind, OpKind::Read | OpKind::Write).then(|| range(0, extent).into()),
        fua: false,
        may_trim: true,
        failfast: false,
    }
}

/// What versions of a sector are: the number of the write that made it, and 0 for zeros.
type Version = u32;

fn sector_of(version: Version, sector: usize) -> [u8; 512] {
    let mut bytes = [0; 512];
    if version != 0 {
        let sector = u32::try_from(sector).unwrap();
        for part in bytes.chunks_exact_mut(8) {
            part[..4].copy_from_slice(&version.to_le_bytes());
            part[4..].copy_from_slice(&sector.to_le_bytes());
        }
    }
    bytes
}

fn version_of(bytes: &[u8], sector: usize) -> Version {
    let version = Version::from_le_bytes(bytes[..4].try_into().unwrap());
    assert!(
        bytes == sector_of(version, sector),
        "sector {sector} is a mixture"
    );
    version
}

/// What has become of units that were not durable when the power was cut.
#[derive(Debug, Default)]
struct Fates {
    durable: u32,
    between: u32,
    newest: u32,
    torn_writes: u32,
}

/// A file behind a cache, and all that each of its units may hold.
struct Subject {
    path: PathBuf,
    unit_bytes: u32,
    cached: CachedFile,
    arena: Arc<Arena>,
    luck: RandomStream,
    newest: Vec<Version>,
    /// By unit: its sectors when they last became durable, and after each write since.
    states: Vec<Vec<Vec<Version>>>,
    last_version: Version,
    writes: Vec<Extent>,
    fates: Fates,
}

impl Subject {
    fn new(scratch: &Scratch, seed: u64, unit_bytes: u32) -> Self {
        let path = scratch.file(&format!("leg-{seed}-{unit_bytes}"), SIZE);
        let mut subject = Self {
            cached: cached(&path, seed, unit_bytes),
            path,
            unit_bytes,
            arena: Arena::new(1 << 20).unwrap(),
            luck: RandomStream::new(seed, "cache test", 0),
            newest: vec![0; usize::try_from(SIZE / SECTOR).unwrap()],
            states: Vec::new(),
            last_version: 0,
            writes: Vec::new(),
            fates: Fates::default(),
        };
        subject.all_is_durable();
        subject
    }

    fn unit_sectors(&self) -> usize {
        usize::try_from(self.unit_bytes).unwrap() / 512
    }

    fn all_is_durable(&mut self) {
        let units = self.newest.chunks(self.unit_sectors());
        self.states = units.map(|unit| vec![unit.to_vec()]).collect();
        self.writes.clear();
    }

    fn perform(&self, io: LegIo) {
        let outcome = self.cached.perform(&self.arena, &io);
        assert_eq!(outcome, LegOutcome::Done, "{io:?}");
    }

    fn some_extent(&mut self) -> Extent {
        let sectors = match self.luck.below(20) {
            0 => 1 + self.luck.below(64),
            1..6 => 8,
            _ => 1 + self.luck.below(16),
        };
        let first = self.luck.below(SIZE / SECTOR - sectors + 1);
        Extent::new(first * SECTOR, sectors * SECTOR)
    }

    fn step(&mut self) {
        match self.luck.below(200) {
            0 => self.flush(),
            1..80 => self.change(),
            80..100 => self.cached.write_back(),
            _ => self.read(),
        }
        let cache = self.cached.cache.lock().unwrap();
        assert!(cache.units.len() <= cache.count_max);
        assert_eq!(cache.units.len(), cache.by_age.len());
        assert_eq!(self.cached.is_dirty(), !cache.units.is_empty());
    }

    fn flush(&mut self) {
        self.perform(io(OpKind::Flush, Extent::default()));
        self.all_is_durable();
        assert!(!self.cached.is_dirty());
    }

    fn change(&mut self) {
        let extent = self.some_extent();
        let kind = match self.luck.below(8) {
            0 => OpKind::Trim,
            1 => OpKind::WriteZeroes,
            _ => OpKind::Write,
        };
        self.last_version += 1;
        let version = if kind == OpKind::Write {
            self.last_version
        } else {
            0
        };
        let sectors = index(extent.offset() / SECTOR)..index(extent.end() / SECTOR);
        let memory = self.arena.slice_mut(range(0, extent));
        for (sector, bytes) in sectors.clone().zip(memory.chunks_exact_mut(512)) {
            bytes.copy_from_slice(&sector_of(version, sector));
        }
        let fua = self.luck.below(12) == 0;
        self.perform(LegIo {
            fua,
            ..io(kind, extent)
        });
        self.newest[sectors.clone()].fill(version);
        let unit = self.unit_sectors();
        for number in sectors.start / unit..sectors.end.div_ceil(unit) {
            let end = ((number + 1) * unit).min(self.newest.len());
            if fua {
                self.states[number].clear();
            }
            self.states[number].push(self.newest[number * unit..end].to_vec());
        }
        if kind == OpKind::Write && !fua {
            self.writes.push(extent);
        }
    }

    fn read(&mut self) {
        let extent = self.some_extent();
        self.perform(io(OpKind::Read, extent));
        let first = index(extent.offset() / SECTOR);
        let memory = self.arena.slice(range(0, extent));
        for (at, bytes) in memory.chunks_exact(512).enumerate() {
            let sector = first + at;
            assert_eq!(version_of(bytes, sector), self.newest[sector], "{sector}");
        }
    }

    /// Loses what is in the cache, checks what the file has, and goes on from there.
    fn cut_power(&mut self) {
        // Another cache comes, on a file that is free first.
        let elsewhere = self.path.with_extension("between");
        fs::write(&elsewhere, vec![0; 512]).unwrap();
        self.cached = cached(&elsewhere, 0, self.unit_bytes);
        let file = fs::read(&self.path).unwrap();
        let found: Vec<Version> = file
            .chunks_exact(512)
            .enumerate()
            .map(|(sector, bytes)| version_of(bytes, sector))
            .collect();
        for (number, unit) in found.chunks(self.unit_sectors()).enumerate() {
            let states = &self.states[number];
            let Some(at) = states.iter().rposition(|state| state == unit) else {
                panic!("unit {number} holds {unit:?}, not one of {states:?}");
            };
            match at {
                _ if states.len() == 1 => {}
                _ if at + 1 == states.len() => self.fates.newest += 1,
                0 => self.fates.durable += 1,
                _ => self.fates.between += 1,
            }
        }
        for write in &self.writes {
            let sectors = index(write.offset() / SECTOR)..index(write.end() / SECTOR);
            let is_there = |sector: &usize| found[*sector] == self.newest[*sector];
            let there = sectors.clone().filter(is_there).count();
            self.fates.torn_writes += u32::from(there > 0 && there < sectors.len());
        }
        self.newest = found;
        self.all_is_durable();
        let seed = self.luck.next_u64();
        self.cached = cached(&self.path, seed, self.unit_bytes);
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

#[test]
fn a_cut_leaves_what_was_flushed_and_some_of_the_rest() {
    let scratch = Scratch::new();
    for unit_bytes in [512, 4096] {
        for seed in 0..6 {
            let mut subject = Subject::new(&scratch, seed, unit_bytes);
            for _ in 0..12 {
                for _ in 0..50 + subject.luck.below(600) {
                    subject.step();
                }
                subject.cut_power();
            }
            let fates = &subject.fates;
            let all_happened = fates.durable > 20
                && fates.between > 5
                && fates.newest > 20
                && fates.torn_writes > 5;
            assert!(all_happened, "seed {seed}: {fates:?}");
        }
    }
}

#[test]
fn nothing_is_written_back_but_by_a_flush_or_a_moment() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", SIZE);
    let cached = cached(&path, 1, 512);
    let arena = Arena::new(1 << 20).unwrap();
    let extent = Extent::new(4096, 8192);
    arena.slice_mut(range(0, extent)).fill(7);
    let count = || {
        let file = fs::read(&path).unwrap();
        file.iter().filter(|&&byte| byte == 7).count()
    };
    cached.perform(&arena, &io(OpKind::Write, extent));
    assert_eq!(count(), 0);
    let mut moments = 0;
    while count() == 0 {
        cached.write_back();
        moments += 1;
        assert!(moments < 1000);
    }
    cached.perform(&arena, &io(OpKind::Write, extent));
    cached.perform(&arena, &io(OpKind::Flush, Extent::default()));
    assert_eq!(count(), 8192);
}

#[test]
fn what_is_cached_is_no_hole() {
    let scratch = Scratch::new();
    let cached = cached(&scratch.file("leg", SIZE), 1, 4096);
    let arena = Arena::new(1 << 20).unwrap();
    for at in [8192, 12_288, 40_960] {
        cached.perform(&arena, &io(OpKind::Write, Extent::new(at, 512)));
    }
    let asked = Extent::new(0, 65_536);
    let outcome = cached.perform(&arena, &io(OpKind::BlockStatus, asked));
    let LegOutcome::Status(runs) = outcome else {
        panic!("a status, not {outcome:?}");
    };
    let runs: Vec<(u64, bool)> = runs.iter().map(|run| (run.len_bytes, run.hole)).collect();
    // File systems without holes would say so of the gaps.
    let data: u64 = runs
        .iter()
        .filter(|(_, hole)| !hole)
        .map(|(len, _)| len)
        .sum();
    let all: u64 = runs.iter().map(|(len, _)| len).sum();
    assert_eq!(all, 65_536, "{runs:?}");
    assert!(data >= 12_288, "{runs:?}");
    assert!(runs.contains(&(8192, false)) || data == all, "{runs:?}");
}

#[test]
fn a_file_that_was_cut_off_does_not_grow_again() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", SIZE);
    let cached = cached(&path, 1, 512);
    let arena = Arena::new(1 << 20).unwrap();
    let extent = Extent::new(SIZE - 4096, 4096);
    let perform = |kind| cached.perform(&arena, &io(kind, extent));
    assert_eq!(perform(OpKind::Write), LegOutcome::Done);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(SIZE / 2).unwrap();
    for _ in 0..200 {
        cached.write_back();
    }
    for kind in [OpKind::Write, OpKind::Read, OpKind::Flush, OpKind::Trim] {
        assert_eq!(perform(kind), LegOutcome::Short, "{kind:?}");
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), SIZE / 2);
}

#[test]
fn setup_goes_through_the_cache_and_sync_empties_it() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    let text = format!("model:ram,file={},cache=volatile", path.display());
    let leg = LegSpec::parse(&text).unwrap().open().unwrap();
    assert!(leg.info().description.contains("volatile write cache"));
    leg.write_at(1000, b"lost").unwrap();
    let mut read = [0; 4];
    leg.read_at(1000, &mut read).unwrap();
    assert_eq!(&read, b"lost");
    assert!(
        leg.data_runs(0)
            .any(|run| run.unwrap().contains(Extent::new(1000, 4)))
    );
    drop(leg);
    let leg = open(&text);
    leg.read_at(1000, &mut read).unwrap();
    assert_eq!(&read, &[0; 4]);
    leg.write_at(1000, b"kept").unwrap();
    leg.sync().unwrap();
    drop(leg);
    assert_eq!(&fs::read(&path).unwrap()[1000..1004], b"kept");
}

#[test]
fn a_cache_is_written_back_as_time_passes() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    let text = format!("model:ram,file={},cache=volatile,seed=3", path.display());
    let mut bench = Bench::new(open(&text), IoChoice::Auto);
    let extent = Extent::new(0, 64 << 10);
    bench.arena.slice_mut(range(0, extent)).fill(7);
    bench.run(OpKind::Write, extent);
    let mut done = Vec::new();
    // Until the cache has nothing left to do.
    loop {
        bench.hub.reap(bench.now, &mut done);
        match bench.hub.next_deadline() {
            Some(at) => bench.now = bench.now.max(at),
            None => break,
        }
    }
    assert_eq!(fs::read(&path).unwrap()[..64 << 10], [7; 64 << 10]);
}
