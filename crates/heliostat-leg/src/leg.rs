//! A leg that is open: what it is, and plain blocking access to it before the array is served.

use heliostat_types::Extent;
use stdx::units::format_size;

use crate::error::LegError;
use crate::memory::MemoryStore;
use crate::spec::{LegSpec, SpecKind};

/// What a leg says of itself. Never changes while it is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegInfo {
    /// Its size, a multiple of the logical block; what lies behind is not used.
    pub size_bytes: u64,
    /// The smallest unit that it reads and writes: 512 or 4096.
    pub logical_block_bytes: u32,
    /// The smallest unit that it writes without reading first.
    pub physical_block_bytes: u32,
    /// Whether it turns.
    pub rotational: bool,
    /// The request size that suits it best; 0 where it does not say.
    pub optimal_io_bytes: u64,
    /// How many operations it should be given at once.
    pub queue_depth: u32,
    /// Whether it takes writes with FUA.
    pub fua: bool,
    /// Whether a trim leaves zeros behind.
    pub trim_reads_zeros: bool,
    /// Whether it writes zeros faster than bytes.
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
}

/// Where the bytes of a leg lie.
#[derive(Debug)]
pub(crate) enum Store {
    /// In memory.
    Memory(MemoryStore),
}

impl LegSpec {
    /// Opens the leg for this process alone. Creates nothing and changes nothing.
    ///
    /// # Errors
    /// Where it cannot be a leg, or somebody else uses it; the message names them.
    pub fn open(&self) -> Result<OpenedLeg, LegError> {
        let name = self.to_string();
        match &self.kind {
            SpecKind::Path(_) => Err(LegError::Unfit {
                leg: name,
                problem: "files are not done yet".to_owned(),
                way_out: "wait".to_owned(),
            }),
            SpecKind::Memory { size_bytes } => open_memory(name, *size_bytes),
        }
    }
}

fn open_memory(name: String, size_bytes: u64) -> Result<OpenedLeg, LegError> {
    let len = usize::try_from(size_bytes).expect("memory is counted in 64 bits");
    let store = MemoryStore::new(len).map_err(|source| LegError::Io {
        leg: name.clone(),
        doing: "have memory for",
        source,
    })?;
    let info = LegInfo {
        size_bytes,
        logical_block_bytes: 512,
        physical_block_bytes: 4096,
        rotational: false,
        optimal_io_bytes: 0,
        queue_depth: 128,
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
    })
}

impl OpenedLeg {
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

    /// Fills `bytes` from `offset_bytes` on. Blocks.
    ///
    /// # Errors
    /// Where the device fails, or ends before that.
    pub fn read_at(&self, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), LegError> {
        match &self.store {
            Store::Memory(memory) => {
                memory.read(usize::try_from(offset_bytes).expect("64 bits"), bytes);
            }
        }
        Ok(())
    }

    /// Stores `bytes` from `offset_bytes` on. Blocks.
    ///
    /// # Errors
    /// Where the device fails, or ends before that.
    pub fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), LegError> {
        match &self.store {
            Store::Memory(memory) => {
                memory.write(usize::try_from(offset_bytes).expect("64 bits"), bytes);
            }
        }
        Ok(())
    }

    /// Makes everything written durable. Blocks.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn sync(&self) -> Result<(), LegError> {
        Ok(())
    }

    /// The runs from `offset_bytes` on that may hold something else than zeros; all of it where the
    /// leg does not know.
    #[must_use]
    pub fn data_runs(&self, offset_bytes: u64) -> DataRuns<'_> {
        DataRuns {
            leg: self,
            at: offset_bytes,
        }
    }

    /// Whose md superblock lies on it, if there is one.
    #[must_use]
    pub fn holds_md_superblock(&self) -> Option<String> {
        None
    }
}

/// Goes through the data of a leg: see [`OpenedLeg::data_runs`].
#[derive(Debug)]
pub struct DataRuns<'a> {
    leg: &'a OpenedLeg,
    at: u64,
}

impl Iterator for DataRuns<'_> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let end = self.leg.info.size_bytes;
        (self.at < end).then(|| {
            let run = Extent::from_range(self.at, end);
            self.at = end;
            run
        })
    }
}
