//! A leg that is open: what it is, and plain blocking access to it before the array is served.

use std::io;
use std::path::Path;
use std::sync::Arc;

use heliostat_model::{DeviceSpec, FaultRule, ModelParams};
use heliostat_types::{Extent, RandomStream};
use stdx::units::format_size;

use crate::cache::CachedFile;
use crate::error::LegError;
use crate::file::LegFile;
use crate::identity;
use crate::memory::MemoryStore;
use crate::nbd::{NbdStore, open_export};
use crate::open::{Access, QUEUE_DEPTH_MAX, open_path, open_path_to_read};
use crate::spec::{CacheSpec, LegSpec, ModelSpec, NbdSpec, SpecKind, Torn};
use crate::superblock;

/// What a leg says of itself. Never changes while it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegInfo {
    /// Its size, a multiple of the logical block; what lies behind is not used.
    pub size_bytes: u64,
    /// The smallest unit that it reads and writes: 512 to 4096.
    pub logical_block_bytes: u32,
    /// The smallest unit that it writes without reading first.
    pub physical_block_bytes: u32,
    /// Whether it turns.
    pub rotational: bool,
    /// Whether it answers writes from a cache, before they are where they stay.
    pub caches_writes: bool,
    /// The request size that suits it best; 0 where it does not say.
    pub optimal_io_bytes: u64,
    /// How many operations it should be given at once.
    pub queue_depth: u32,
    /// Whether it takes writes with FUA.
    pub fua: bool,
    /// Whether it takes trims, which leave zeros behind.
    pub trim_reads_zeros: bool,
    /// Whether it makes zeros, keeping their storage, faster than it is sent them.
    pub fast_zero: bool,
    /// What to recognise it by, the same after a restart of the machine.
    pub identity: String,
    /// Whether nothing of it survives the process.
    pub volatile: bool,
    /// For people, on one line.
    pub description: String,
}

/// A leg that is open and that nobody else uses.
#[derive(Debug)]
pub struct OpenedLeg {
    name: String,
    info: LegInfo,
    pub(crate) store: Store,
    /// The device whose time it takes, where that is not its own.
    pub(crate) timing: Option<Timing>,
}

/// A leg that is open for reading alone. Writes to it fail.
#[derive(Debug)]
pub struct ReadLeg {
    /// The leg.
    pub leg: OpenedLeg,
    /// Whether reads go through the page cache, because the file system cannot do otherwise.
    pub is_cached: bool,
    /// Who else uses it, in words, as far as that is seen.
    pub user: Option<String>,
}

/// Where the bytes of a leg lie.
#[derive(Debug)]
pub(crate) enum Store {
    /// In memory.
    Memory(MemoryStore),
    /// In a file or on a block device.
    File(Arc<LegFile>),
    /// In a file, behind a write cache that is lost with the process.
    Cached(Arc<CachedFile>),
    /// With the server of an NBD export.
    Nbd(Box<NbdStore>),
}

/// A modelled device that has not been started.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    /// What it is made of.
    pub(crate) params: ModelParams,
    /// What goes wrong with it.
    pub(crate) faults: Vec<FaultRule>,
}

impl LegSpec {
    /// Opens the leg for this process alone. Creates nothing and changes nothing.
    ///
    /// # Errors
    /// Where it cannot be a leg, or somebody else uses it; the message names them.
    pub fn open(&self) -> Result<OpenedLeg, LegError> {
        let name = self.to_string();
        match &self.kind {
            SpecKind::Path(path) => open_file(name, path),
            SpecKind::Memory { size_bytes } => open_memory(name, *size_bytes),
            SpecKind::Model(model) => open_model(name, model),
            SpecKind::Nbd(spec) => open_nbd(name, spec, true),
        }
    }

    /// Opens the leg to read it and no more, whoever else uses it: files and block devices are
    /// opened for reading alone and are not locked, and exports may be read-only ones. Memory and
    /// models are nobody else's.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn open_to_read(&self) -> Result<ReadLeg, LegError> {
        let name = self.to_string();
        let SpecKind::Path(path) = &self.kind else {
            let leg = match self.open_export_to_read() {
                Some(export) => export?,
                None => self.open()?,
            };
            return Ok(ReadLeg {
                leg,
                is_cached: false,
                user: None,
            });
        };
        let (file, info, user) = open_path_to_read(&name, path)?;
        Ok(ReadLeg {
            is_cached: !file.direct,
            user,
            leg: OpenedLeg {
                name,
                info,
                store: Store::File(Arc::new(file)),
                timing: None,
            },
        })
    }

    /// Opens the export of an NBD server whose bytes are only to be looked at: it may be one that
    /// is served for reading alone. `None` where the leg is something else.
    ///
    /// # Errors
    /// Where nobody serves it, or in a way that cannot be used here.
    #[must_use]
    pub fn open_export_to_read(&self) -> Option<Result<OpenedLeg, LegError>> {
        match &self.kind {
            SpecKind::Nbd(spec) => Some(open_nbd(self.to_string(), spec, false)),
            SpecKind::Path(_) | SpecKind::Memory { .. } | SpecKind::Model(_) => None,
        }
    }
}

fn open_nbd(name: String, spec: &NbdSpec, is_to_be_written: bool) -> Result<OpenedLeg, LegError> {
    let (store, info) = open_export(&name, spec, is_to_be_written)?;
    Ok(OpenedLeg {
        name,
        info,
        store: Store::Nbd(Box::new(store)),
        timing: None,
    })
}

fn open_file(name: String, path: &Path) -> Result<OpenedLeg, LegError> {
    let (file, info) = open_path(&name, path, Access::Direct)?;
    Ok(OpenedLeg {
        name,
        info,
        store: Store::File(Arc::new(file)),
        timing: None,
    })
}

fn open_memory(name: String, size_bytes: u64) -> Result<OpenedLeg, LegError> {
    let store = MemoryStore::new(size_bytes).map_err(|source| LegError::Io {
        leg: name.clone(),
        doing: "have memory for",
        source,
    })?;
    let info = LegInfo {
        size_bytes,
        logical_block_bytes: 512,
        // Pages.
        physical_block_bytes: 4096,
        rotational: false,
        caches_writes: false,
        optimal_io_bytes: 0,
        queue_depth: QUEUE_DEPTH_MAX,
        fua: true,
        trim_reads_zeros: true,
        fast_zero: true,
        identity: name.clone(),
        volatile: true,
        description: format!("{} of memory", format_size(size_bytes)),
    };
    Ok(OpenedLeg {
        name,
        info,
        store: Store::Memory(store),
        timing: None,
    })
}

fn open_model(name: String, model: &ModelSpec) -> Result<OpenedLeg, LegError> {
    let (store, under) = open_under(&name, model)?;
    let params = model.params;
    let block_bytes = u64::from(spec_of(&params).logical_block_bytes);
    let size_bytes = match model.size_bytes {
        Some(size_bytes) => size_bytes,
        None => store.info.size_bytes - store.info.size_bytes % block_bytes,
    };
    let unfit = |problem, way_out| LegError::Unfit {
        leg: name.clone(),
        problem,
        way_out,
    };
    if size_bytes > store.info.size_bytes {
        let has = format_size(store.info.size_bytes);
        return Err(unfit(
            format!("{under} is smaller than size=, {has}"),
            format!("enlarge it with `truncate -s {size_bytes} {under}`"),
        ));
    }
    if size_bytes == 0 || !size_bytes.is_multiple_of(block_bytes) {
        return Err(unfit(
            format!("{size_bytes} bytes are no whole number of blocks of {block_bytes}"),
            "give it another size".to_owned(),
        ));
    }
    let timing = Timing {
        params: params.with_size(size_bytes),
        faults: model.faults.clone(),
    };
    let spec = spec_of(&timing.params);
    let behind = model.cache.map_or_else(String::new, |cache| {
        let size = format_size(cache.size_bytes);
        format!(", behind {size} of volatile write cache")
    });
    let info = LegInfo {
        size_bytes,
        logical_block_bytes: spec.logical_block_bytes,
        physical_block_bytes: spec.physical_block_bytes,
        rotational: spec.rotational,
        caches_writes: spec.volatile_cache,
        optimal_io_bytes: spec.optimal_io_bytes,
        queue_depth: spec.queue_depth,
        description: format!(
            "model of {}, {}, in {under}{behind}",
            model.summary,
            format_size(size_bytes)
        ),
        ..store.info
    };
    Ok(OpenedLeg {
        name,
        info,
        store: store.store,
        timing: Some(timing),
    })
}

/// What the bytes of a model lie in, and what that is called.
fn open_under(name: &str, model: &ModelSpec) -> Result<(OpenedLeg, String), LegError> {
    let Some(path) = &model.file else {
        let named_bytes = model.params.size_bytes();
        let size_bytes = model.size_bytes.unwrap_or(named_bytes);
        let store = open_memory(name.to_owned(), size_bytes)?;
        return Ok((store, "memory".to_owned()));
    };
    let (file, info) = open_path(name, path, Access::Cached)?;
    let store = match model.cache {
        None => Store::File(Arc::new(file)),
        Some(cache) => {
            let unit_bytes = unit_of(&model.params, cache).max(file.block_bytes);
            Store::Cached(Arc::new(CachedFile::new(file, cache, unit_bytes, path)))
        }
    };
    let leg = OpenedLeg {
        name: name.to_owned(),
        info,
        store,
        timing: None,
    };
    Ok((leg, path.display().to_string()))
}

/// What a drive with this cache never tears.
fn unit_of(params: &ModelParams, cache: CacheSpec) -> u32 {
    let spec = spec_of(params);
    match cache.torn {
        Torn::Logical => spec.logical_block_bytes,
        Torn::Physical => spec.physical_block_bytes,
    }
}

/// What a device with these parameters says of itself.
fn spec_of(params: &ModelParams) -> DeviceSpec {
    *params
        .build(&mut RandomStream::new(0, "model spec", 0))
        .spec()
}

impl OpenedLeg {
    /// Stands for a leg that is not there: nothing is ever asked of it.
    ///
    /// # Errors
    /// Where there is no memory for a page.
    pub fn absent() -> Result<Self, LegError> {
        open_memory("missing".to_owned(), 4096)
    }

    /// What it is.
    #[must_use]
    pub const fn info(&self) -> &LegInfo {
        &self.info
    }

    /// The leg as it was written.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fills `bytes` from `offset_bytes` on, at any alignment. Blocks; a model takes no time for
    /// it.
    ///
    /// # Errors
    /// Where the device fails, or has become smaller than it was when it was opened.
    pub fn read_at(&self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), LegError> {
        let result = match &self.store {
            Store::Memory(memory) => memory.read_at(offset_bytes, bytes),
            Store::File(file) => file.read_at(offset_bytes, bytes),
            Store::Cached(cached) => cached.read_at(offset_bytes, bytes),
            Store::Nbd(export) => export.read_at(offset_bytes, bytes),
        };
        self.named("read", result)
    }

    /// Stores `bytes` from `offset_bytes` on, at any alignment. Blocks; a model takes no time for
    /// it.
    ///
    /// # Errors
    /// Where the device fails, or has become smaller than it was when it was opened.
    pub fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), LegError> {
        let result = match &self.store {
            Store::Memory(memory) => memory.write_at(offset_bytes, bytes),
            Store::File(file) => file.write_at(offset_bytes, bytes),
            Store::Cached(cached) => cached.write_at(offset_bytes, bytes),
            Store::Nbd(export) => export.write_at(offset_bytes, bytes),
        };
        self.named("write", result)
    }

    /// Makes everything written durable. Blocks.
    ///
    /// # Errors
    /// Where the device fails, or has become smaller.
    pub fn sync(&self) -> Result<(), LegError> {
        let result = match &self.store {
            Store::Memory(_) => Ok(()),
            Store::File(file) => file.sync(),
            Store::Cached(cached) => cached.sync(),
            Store::Nbd(export) => export.sync(),
        };
        self.named("flush", result)
    }

    /// Refuses legs of which two are one disk, as when a LUN is reached over two paths: the kernel
    /// takes these for two devices, and a mirror on them would be none. Or the same export of the
    /// same server.
    ///
    /// # Errors
    /// Where there are two such legs.
    pub fn expect_distinct(legs: &[Self]) -> Result<(), LegError> {
        Self::expect_distinct_exports(legs)?;
        let identities: Vec<&str> = legs.iter().map(|leg| &*leg.info.identity).collect();
        let Some((earlier, later)) = identity::same_disks(&identities) else {
            return Ok(());
        };
        let (name, other) = (&legs[later].name, &legs[earlier].name);
        Err(LegError::Unfit {
            leg: name.clone(),
            problem: format!("it is the same disk as {other}, {}", identities[later]),
            way_out: "name another disk; where two disks only claim to be one, put a device \
                      mapping or a file system on one of them"
                .to_owned(),
        })
    }

    fn expect_distinct_exports(legs: &[Self]) -> Result<(), LegError> {
        let place = |leg: &Self| match &leg.store {
            Store::Nbd(export) => Some(export.place.clone()),
            Store::Memory(_) | Store::File(_) | Store::Cached(_) => None,
        };
        let places: Vec<_> = legs.iter().map(place).collect();
        for later in 0..legs.len() {
            let is_same = |earlier: &usize| match (&places[*earlier], &places[later]) {
                (Some(earlier), Some(later)) => earlier.is_same(later),
                (None, _) | (_, None) => false,
            };
            if let Some(earlier) = (0..later).find(is_same) {
                return Err(LegError::Unfit {
                    leg: legs[later].name.clone(),
                    problem: format!(
                        "it is the same leg twice: the same export of the same server as {}",
                        legs[earlier].name
                    ),
                    way_out: "name each export once".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Whether it is still as large as it was when it was opened. Blocks, no longer than a question
    /// to a server.
    ///
    /// # Errors
    /// Where that cannot be told.
    pub fn is_whole(&self) -> Result<bool, LegError> {
        let result = match &self.store {
            // A server that comes back with another size is not talked to.
            Store::Memory(_) | Store::Nbd(_) => Ok(true),
            Store::File(file) => file.is_whole(),
            Store::Cached(cached) => cached.file().is_whole(),
        };
        self.named("ask the size of", result)
    }

    /// The runs from `offset_bytes` on that may hold something else than zeros; all of it where
    /// the leg does not know. A leg that has become smaller gives an error, and nothing after it.
    #[must_use]
    pub const fn data_runs(&self, offset_bytes: u64) -> DataRuns<'_> {
        DataRuns {
            leg: self,
            at: offset_bytes,
        }
    }

    /// Which md superblock lies on it, if there is one that can be read.
    #[must_use]
    pub fn holds_md_superblock(&self) -> Option<String> {
        superblock::places(self.info.size_bytes).find_map(|(version, at)| {
            let mut head = [0; superblock::HEAD_BYTES];
            self.read_at(at, &mut head).ok()?;
            superblock::recognise(version, &head)
        })
    }

    fn named<T>(&self, doing: &'static str, result: io::Result<T>) -> Result<T, LegError> {
        result.map_err(|source| LegError::Io {
            leg: self.name.clone(),
            doing,
            source,
        })
    }
}

/// Goes through the data of a leg: see [`OpenedLeg::data_runs`].
#[derive(Debug)]
pub struct DataRuns<'a> {
    leg: &'a OpenedLeg,
    at: u64,
}

impl Iterator for DataRuns<'_> {
    type Item = Result<Extent, LegError>;

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.leg.info.size_bytes;
        if self.at >= end {
            return None;
        }
        let result = match &self.leg.store {
            Store::Memory(_) => Ok((self.at, end)),
            Store::File(file) => file.data_run(self.at, end),
            Store::Cached(cached) => cached.data_run(self.at, end),
            Store::Nbd(export) => export.data_run(self.at, end),
        };
        match self.leg.named("look for data in", result) {
            Ok((from, to)) => {
                self.at = to;
                (from < to).then(|| Ok(Extent::from_range(from, to)))
            }
            Err(error) => {
                self.at = end;
                Some(Err(error))
            }
        }
    }
}
