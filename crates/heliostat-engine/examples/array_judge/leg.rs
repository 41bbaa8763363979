//! A leg, read as a whole: its metadata and its data.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use heliostat_engine::{Map, shape_of};
use heliostat_format::assembly::Candidate;
use heliostat_format::{
    BadBlocks, BitmapBits, Features, FormatError, Place, Role, Superblock, describe_bitmap,
    describe_superblock,
};
use heliostat_types::SECTOR_BYTES;

use crate::Result;

/// The most that an entry of the bad-block log says.
const ENTRY_SECTORS_MAX: u64 = 512;

/// What a file that is a leg has.
#[derive(Debug)]
pub(crate) struct Leg {
    name: String,
    bytes: Vec<u8>,
    place: Place,
    superblock: Superblock,
    bitmap: Option<BitmapBits>,
    bad_blocks: Option<BadBlocks>,
}

impl Leg {
    /// Reads a file; `None` where it has no superblock.
    pub(crate) fn read(name: &str) -> Result<Option<Self>> {
        let bytes = fs::read(name)?;
        let mut found = None;
        for place in Superblock::places(bytes.len() as u64) {
            match Superblock::parse(from_sector(&bytes, place.sector)) {
                Ok(superblock) => found = Some((place, superblock)),
                Err(FormatError::Magic { .. }) => {}
                Err(error) => return Err(format!("{name}: {error}").into()),
            }
        }
        let Some((place, superblock)) = found else {
            return Ok(None);
        };
        let bitmap = superblock.bitmap_sector();
        let bitmap = bitmap.map(|sector| BitmapBits::load(from_sector(&bytes, sector)));
        // Without the feature nobody has written the log yet, and there may be anything.
        let has_log = superblock.features.contains(Features::BAD_BLOCKS);
        let log = superblock.bad_blocks_sector().filter(|_| has_log);
        let log = log.map(|sector| {
            let log = from_sector(&bytes, sector);
            let len = usize::from(superblock.bad_blocks_size_sectors) * 512;
            BadBlocks::parse(&log[..len.min(log.len())], superblock.bad_blocks_shift)
        });
        superblock.check(bytes.len() as u64)?;
        Ok(Some(Self {
            name: name.to_owned(),
            place,
            bitmap: bitmap.transpose()?,
            bad_blocks: log.transpose()?,
            superblock,
            bytes,
        }))
    }

    /// How much it heard of the array.
    pub(crate) const fn events(&self) -> u64 {
        self.superblock.events
    }

    /// Its role by its own account, where it has data.
    pub(crate) fn role(&self) -> Option<usize> {
        match self.superblock.role()? {
            Role::Active(role) => Some(role.into()),
            Role::Spare | Role::Faulty | Role::Journal => None,
        }
    }

    /// What it has of the array's data at a leg address.
    pub(crate) fn data(&self, address: u64, len: usize) -> Option<&[u8]> {
        let start = index(self.superblock.data_offset_sectors)?;
        let start = start.checked_add(usize::try_from(address).ok()?)?;
        self.bytes.get(start..start + len)
    }

    /// Writes data to the file.
    pub(crate) fn write_data(&self, address: u64, bytes: &[u8]) -> Result<()> {
        let start = self.superblock.data_offset_sectors * SECTOR_BYTES;
        let file = OpenOptions::new().write(true).open(&self.name)?;
        file.write_all_at(bytes, start + address)?;
        Ok(())
    }

    /// The map of its array.
    pub(crate) fn map(&self) -> Result<Map> {
        let (map, _) = shape_of(&self.superblock)?;
        Ok(map)
    }

    /// What the rules of assembly see of it.
    pub(crate) fn candidate(&self) -> Candidate {
        let log_sectors = self.superblock.bad_blocks_size_sectors;
        let bad_blocks = self.bad_blocks.clone();
        Candidate {
            name: self.name.clone(),
            superblock: self.superblock.clone(),
            bitmap: self.bitmap.clone(),
            bad_blocks: bad_blocks.unwrap_or_else(|| BadBlocks::new(log_sectors)),
        }
    }

    /// What was read is the same as what would be written. Says what it is, each line after the
    /// part that says it.
    pub(crate) fn check_bytes(&self) -> Result<()> {
        let superblock = &self.superblock;
        self.check_part("superblock", self.place.sector, &superblock.to_bytes())?;
        let sums = Superblock::checksums(from_sector(&self.bytes, self.place.sector))?;
        let head = self.bitmap.as_ref().map(BitmapBits::super_block);
        for (name, value) in describe_superblock(superblock, self.place.minor, sums, head) {
            println!("superblock/{name} : {value}");
        }
        if let (Some(sector), Some(bitmap)) = (superblock.bitmap_sector(), &self.bitmap) {
            bitmap.super_block().check(superblock)?;
            self.check_part("bitmap", sector, bitmap.bytes())?;
            for (name, value) in describe_bitmap(bitmap.super_block(), Some(bitmap)) {
                println!("bitmap/{name} : {value}");
            }
            let set: Vec<String> = bitmap.iter_set().map(|chunk| chunk.to_string()).collect();
            println!("bits/{}", set.join(" "));
        }
        if let (Some(sector), Some(log)) = (superblock.bad_blocks_sector(), &self.bad_blocks) {
            self.check_part("bad-block log", sector, &log.to_bytes())?;
            for mut range in log.ranges() {
                while !range.is_empty() {
                    let len = (range.end - range.start).min(ENTRY_SECTORS_MAX);
                    println!("bad blocks/{} for {len} sectors", range.start);
                    range.start += len;
                }
            }
        }
        Ok(())
    }

    fn check_part(&self, what: &str, sector: u64, written: &[u8]) -> Result<()> {
        let found = from_sector(&self.bytes, sector);
        let end = written.len().min(found.len());
        let differs = found[..end].iter().zip(written).position(|(a, b)| a != b);
        match differs {
            _ if end < written.len() => Err(format!("{}: the {what} is cut off", self.name).into()),
            Some(at) => {
                let (found, written) = (found[at], written[at]);
                let text = format!(
                    "{}: byte {at} of the {what} is {found:#x}, and would be written as \
                     {written:#x}",
                    self.name
                );
                Err(text.into())
            }
            None => Ok(()),
        }
    }
}

/// The index of a sector's first byte.
pub(crate) fn index(sector: u64) -> Option<usize> {
    usize::try_from(sector.checked_mul(SECTOR_BYTES)?).ok()
}

/// What lies from a sector on; nothing where it lies behind the end.
fn from_sector(bytes: &[u8], sector: u64) -> &[u8] {
    let start = index(sector).filter(|&start| start < bytes.len());
    &bytes[start.unwrap_or(bytes.len())..]
}
