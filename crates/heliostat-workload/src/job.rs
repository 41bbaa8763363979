//! Jobs: clients that do the same, with the keys and units of fio.

use heliostat_types::SECTOR_BYTES;
use stdx::settings::{SettingError, parse_bool, parse_count};
use stdx::units::parse_size;

/// The largest request that an array takes.
const REQUEST_MAX_BYTES: u64 = 32 << 20;

/// Clients that do the same, as a section of a fio job file.
#[derive(Clone, Debug)]
pub struct Job {
    /// What people call it.
    pub name: String,
    /// What it does.
    pub rw: Rw,
    /// Bytes of a request; a multiple of 512.
    pub bs_bytes: u64,
    /// Requests that each clone keeps in flight.
    pub iodepth: u32,
    /// How many clones there are; each is a client.
    pub numjobs: u32,
    /// Whether requests go to the array as they are. Otherwise reads of a sequential stream go
    /// through a read-ahead window of the client.
    pub direct: bool,
    /// The window of a stream that is not direct.
    pub readahead_bytes: u64,
    /// Where the job's region begins.
    pub offset_bytes: u64,
    /// How large it is; 0: up to the array's end.
    pub size_bytes: u64,
    /// How far the region of each clone lies behind that of the one before.
    pub offset_increment_bytes: u64,
    /// How many of 100 requests are reads, for `rw` and `randrw`.
    pub rwmixread: u32,
    /// A FLUSH after so many writes; 0: none.
    pub fsync: u32,
    /// Whether it is left out of the totals.
    pub background: bool,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: "job".to_owned(),
            rw: Rw::RandRead,
            bs_bytes: 4096,
            iodepth: 1,
            numjobs: 1,
            direct: true,
            readahead_bytes: 4 << 20,
            offset_bytes: 0,
            size_bytes: 0,
            offset_increment_bytes: 0,
            rwmixread: 50,
            fsync: 0,
            background: false,
        }
    }
}

/// What a job does, in fio's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rw {
    /// Reads one block after the other.
    Read,
    /// Writes one block after the other.
    Write,
    /// Reads blocks at random.
    RandRead,
    /// Writes blocks at random.
    RandWrite,
    /// Reads or writes blocks at random.
    RandRw,
    /// Reads or writes one block after the other.
    Rw,
}

impl Rw {
    /// Whether blocks are taken at random.
    #[must_use]
    pub const fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandRw)
    }

    /// Whether anything is written.
    #[must_use]
    pub const fn has_writes(self) -> bool {
        !matches!(self, Self::Read | Self::RandRead)
    }
}

impl Job {
    /// Bytes of each clone's region, in an array of `array_bytes`.
    #[must_use]
    pub fn region_bytes(&self, array_bytes: u64) -> u64 {
        let behind = u64::from(self.numjobs.max(1) - 1) * self.offset_increment_bytes;
        match self.size_bytes {
            0 => array_bytes.saturating_sub(self.offset_bytes + behind),
            size_bytes => size_bytes,
        }
    }

    /// Whether it can be run on an array of `array_bytes`.
    ///
    /// # Errors
    /// Says the first thing that is wrong.
    pub fn check(&self, array_bytes: u64) -> Result<(), &'static str> {
        let aligned = [
            self.bs_bytes,
            self.offset_bytes,
            self.offset_increment_bytes,
        ];
        if aligned
            .iter()
            .any(|bytes| !bytes.is_multiple_of(SECTOR_BYTES))
        {
            return Err("bs, offset and offset_increment must be multiples of 512");
        }
        if self.bs_bytes == 0 || self.bs_bytes > REQUEST_MAX_BYTES {
            return Err("bs must be 512 bytes to 32 MiB");
        }
        if self.iodepth == 0 || self.numjobs == 0 {
            return Err("iodepth and numjobs must be above 0");
        }
        if self.rwmixread > 100 {
            return Err("rwmixread is a percentage");
        }
        let region_bytes = self.region_bytes(array_bytes);
        if region_bytes < self.bs_bytes {
            return Err("its region holds no block");
        }
        let behind = u64::from(self.numjobs - 1).checked_mul(self.offset_increment_bytes);
        let end = behind
            .and_then(|behind| behind.checked_add(self.offset_bytes))
            .and_then(|start| start.checked_add(region_bytes));
        if end.is_none_or(|end| end > array_bytes) {
            return Err("its region ends beyond the array");
        }
        if !self.direct && self.rw == Rw::Read && self.readahead_bytes < self.bs_bytes {
            return Err("readahead must be at least bs");
        }
        Ok(())
    }
}

/// The keys that [`Job::set`] knows.
const KEYS: [&str; 14] = [
    "name",
    "rw",
    "bs",
    "iodepth",
    "numjobs",
    "direct",
    "readahead",
    "offset",
    "size",
    "offset_increment",
    "rwmixread",
    "fsync",
    "background",
    "leg",
];

impl Job {
    /// Sets what the key `key` of a scenario's `[[job]]`, or of a section of a fio job file, says.
    /// Numbers and truth values come as text, as they would stand in a job file.
    ///
    /// # Errors
    /// Where there is no such key or the value makes no sense.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let size = || parse_size(value).map_err(|error| SettingError::value(key, error));
        let count = |min, max: u32| -> Result<u32, SettingError> {
            let count = parse_count(key, value, min, u64::from(max))?;
            Ok(u32::try_from(count).expect("within the bounds just checked"))
        };
        match key {
            "name" => value.clone_into(&mut self.name),
            "rw" => self.rw = Rw::parse(value).map_err(|text| SettingError::value(key, text))?,
            "bs" => self.bs_bytes = size()?,
            "iodepth" => self.iodepth = count(1, 65_536)?,
            "numjobs" => self.numjobs = count(1, 4_096)?,
            "direct" => self.direct = parse_bool(key, value)?,
            "readahead" => self.readahead_bytes = size()?,
            "offset" => self.offset_bytes = size()?,
            "size" => self.size_bytes = size()?,
            "offset_increment" => self.offset_increment_bytes = size()?,
            "rwmixread" => self.rwmixread = count(0, 100)?,
            "fsync" => self.fsync = count(0, u32::MAX)?,
            "background" => self.background = parse_bool(key, value)?,
            _ => return Err(SettingError::unknown(key, KEYS)),
        }
        Ok(())
    }
}

impl Rw {
    /// The word of fio's that names it, and back.
    const WORDS: [(&str, Self); 6] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("randread", Self::RandRead),
        ("randwrite", Self::RandWrite),
        ("randrw", Self::RandRw),
        ("rw", Self::Rw),
    ];

    fn parse(word: &str) -> Result<Self, String> {
        let mut words = Self::WORDS.iter();
        let known = words.find(|(known, _)| *known == word);
        known.map(|(_, rw)| *rw).ok_or_else(|| {
            let words = Self::WORDS.map(|(word, _)| word).join(", ");
            format!("'{word}' is none of {words}")
        })
    }
}
