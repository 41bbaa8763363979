//! A table as bytes, and back. docs/volumes.md has the same as tables.
//!
//! A head of one sector, and behind it a record for each volume. The head has its own sum, and the
//! sum and the length of what follows; a table without volumes is its head alone, so that one
//! sector, which no power cut tears, begins and ends the life of a table.

use heliostat_types::Extent;

use crate::GRAIN_BYTES;
use crate::checksum::crc32c;
use crate::error::TableError;
use crate::table::{Limits, Table, VOLUME_NAME_BYTES_MAX, VOLUMES_MAX, Volume};

/// What a table begins with.
pub(crate) const MAGIC: [u8; 8] = *b"HELIOVOL";

/// The one version that there is.
const VERSION: u32 = 1;

/// The head: one sector.
pub const HEAD_BYTES: usize = 512;

/// The longest table, with its head: room for all volumes in 25 pieces each.
pub const COPY_BYTES_MAX: usize = 64 << 10;

/// What is written ends at a multiple of this, so that no leg has to be read for a write of it.
const WRITTEN_BYTES: usize = 4096;

/// A volume's record, without its extents.
const VOLUME_BYTES: usize = VOLUME_NAME_BYTES_MAX + 40;

/// An extent in a record.
const EXTENT_BYTES: usize = 16;

/// Where in the head things lie.
mod at {
    pub(super) const VERSION: usize = 8;
    pub(super) const FEATURES: usize = 12;
    pub(super) const GENERATION: usize = 16;
    pub(super) const ARRAY_BYTES: usize = 24;
    pub(super) const ARRAY: usize = 32;
    pub(super) const GRAIN: usize = 48;
    pub(super) const VOLUMES: usize = 52;
    pub(super) const RECORDS_BYTES: usize = 56;
    pub(super) const RECORDS_SUM: usize = 60;
    pub(super) const HEAD_SUM: usize = 64;
    pub(super) const RESERVED: usize = 68;
}

impl Table {
    /// Its bytes, a multiple of 4096 of them; without volumes one sector.
    ///
    /// # Panics
    /// Where it is longer than [`COPY_BYTES_MAX`], or does not make sense: see [`Table::check`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(self.fits(), "a table that does not fit is not made");
        assert_eq!(self.check(), Ok(()), "a table makes sense");
        let mut bytes = vec![0; HEAD_BYTES];
        for volume in &self.volumes {
            write_volume(volume, &mut bytes);
        }
        let records_bytes = narrow(bytes.len() - HEAD_BYTES);
        let records_sum = crc32c(&bytes[HEAD_BYTES..]);
        let head = &mut bytes[..HEAD_BYTES];
        put(head, 0, &MAGIC);
        put(head, at::VERSION, &VERSION.to_le_bytes());
        put(head, at::GENERATION, &self.generation.to_le_bytes());
        put(head, at::ARRAY_BYTES, &self.array_bytes.to_le_bytes());
        put(head, at::ARRAY, &self.array);
        let grain = u32::try_from(GRAIN_BYTES).expect("1 MiB");
        put(head, at::GRAIN, &grain.to_le_bytes());
        put(head, at::VOLUMES, &narrow(self.volumes.len()).to_le_bytes());
        put(head, at::RECORDS_BYTES, &records_bytes.to_le_bytes());
        put(head, at::RECORDS_SUM, &records_sum.to_le_bytes());
        let sum = crc32c(head);
        put(head, at::HEAD_SUM, &sum.to_le_bytes());
        if !self.volumes.is_empty() {
            bytes.resize(bytes.len().next_multiple_of(WRITTEN_BYTES), 0);
        }
        bytes
    }

    /// Whether there is room for it where its copies lie.
    pub(crate) fn fits(&self) -> bool {
        let records: usize = self.volumes.iter().map(record_bytes).sum();
        HEAD_BYTES + records <= COPY_BYTES_MAX
    }

    /// What these bytes say, of which there may be more than the table has.
    ///
    /// # Errors
    /// Where they are no table, or one that is not understood or does not make sense.
    pub fn parse(bytes: &[u8]) -> Result<Self, TableError> {
        if bytes.len() < MAGIC.len() || bytes[..MAGIC.len()] != MAGIC {
            return Err(TableError::Magic);
        }
        let head = bytes.get(..HEAD_BYTES).ok_or(TableError::Truncated)?;
        let mut unsummed = head.to_vec();
        put(&mut unsummed, at::HEAD_SUM, &[0; 4]);
        if crc32c(&unsummed) != u32_at(head, at::HEAD_SUM) {
            return Err(TableError::Checksum);
        }
        match (u32_at(head, at::VERSION), u32_at(head, at::FEATURES)) {
            (VERSION, 0) => {}
            (VERSION, features) => return Err(TableError::Features(features)),
            (version, _) => return Err(TableError::Version(version)),
        }
        if head[at::RESERVED..].iter().any(|&byte| byte != 0) {
            return Err(TableError::Reserved);
        }
        if u64_at(head, at::GENERATION) == u64::MAX {
            return Err(TableError::Generation);
        }
        let grain = u32_at(head, at::GRAIN);
        if u64::from(grain) != GRAIN_BYTES {
            return Err(TableError::Grain(grain));
        }
        let count = wide(u32_at(head, at::VOLUMES));
        if count > VOLUMES_MAX {
            return Err(TableError::TooManyVolumes { count });
        }
        let records_bytes = wide(u32_at(head, at::RECORDS_BYTES));
        let records = bytes[HEAD_BYTES..].get(..records_bytes);
        let records = records.ok_or(TableError::Truncated)?;
        if crc32c(records) != u32_at(head, at::RECORDS_SUM) {
            return Err(TableError::Checksum);
        }
        let table = Self {
            array: array_at(head, at::ARRAY),
            generation: u64_at(head, at::GENERATION),
            array_bytes: u64_at(head, at::ARRAY_BYTES),
            volumes: parse_volumes(records, count)?,
        };
        table.check()?;
        Ok(table)
    }
}

/// Puts right sums into bytes that begin as a table, whatever else they are: for tests and fuzzers,
/// which would hardly ever come behind the sums otherwise.
///
/// # Panics
/// Where there are fewer than [`HEAD_BYTES`].
pub fn correct_sums(bytes: &mut [u8]) {
    let records_bytes = wide(u32_at(bytes, at::RECORDS_BYTES));
    if let Some(records) = bytes[HEAD_BYTES..].get(..records_bytes) {
        let sum = crc32c(records).to_le_bytes();
        put(bytes, at::RECORDS_SUM, &sum);
    }
    put(bytes, at::HEAD_SUM, &[0; 4]);
    let sum = crc32c(&bytes[..HEAD_BYTES]).to_le_bytes();
    put(bytes, at::HEAD_SUM, &sum);
}

fn record_bytes(volume: &Volume) -> usize {
    VOLUME_BYTES + volume.extents.len() * EXTENT_BYTES
}

fn write_volume(volume: &Volume, bytes: &mut Vec<u8>) {
    let mut name = [0; VOLUME_NAME_BYTES_MAX];
    put(&mut name, 0, volume.name.as_bytes());
    bytes.extend_from_slice(&name);
    bytes.extend_from_slice(&volume.size_bytes.to_le_bytes());
    bytes.extend_from_slice(&volume.prepared_bytes.to_le_bytes());
    bytes.extend_from_slice(&volume.limits.bytes_per_s_max.to_le_bytes());
    bytes.extend_from_slice(&volume.limits.iops_max.to_le_bytes());
    bytes.extend_from_slice(&volume.limits.weight.to_le_bytes());
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    bytes.extend_from_slice(&narrow(volume.extents.len()).to_le_bytes());
    for extent in &volume.extents {
        bytes.extend_from_slice(&extent.offset().to_le_bytes());
        bytes.extend_from_slice(&extent.len().to_le_bytes());
    }
}

fn parse_volumes(mut records: &[u8], count: usize) -> Result<Vec<Volume>, TableError> {
    let mut volumes = Vec::with_capacity(count);
    for index in 0..count {
        let (record, rest) = records
            .split_at_checked(VOLUME_BYTES)
            .ok_or(TableError::Truncated)?;
        let name =
            parse_name(&record[..VOLUME_NAME_BYTES_MAX]).ok_or(TableError::Name { index })?;
        let fields = &record[VOLUME_NAME_BYTES_MAX..];
        let features = u32_at(fields, 32);
        if features != 0 {
            return Err(TableError::Features(features));
        }
        let extents_bytes = wide(u32_at(fields, 36)).saturating_mul(EXTENT_BYTES);
        let (extents, rest) = rest
            .split_at_checked(extents_bytes)
            .ok_or(TableError::Truncated)?;
        let extents = extents.chunks_exact(EXTENT_BYTES).map(|extent| {
            Extent::checked_new(u64_at(extent, 0), u64_at(extent, 8))
                .ok_or(TableError::Volume { index })
        });
        volumes.push(Volume {
            name,
            size_bytes: u64_at(fields, 0),
            prepared_bytes: u64_at(fields, 8),
            limits: Limits {
                bytes_per_s_max: u64_at(fields, 16),
                iops_max: u32_at(fields, 24),
                weight: u32_at(fields, 28),
            },
            extents: extents.collect::<Result<_, _>>()?,
        });
        records = rest;
    }
    if records.is_empty() {
        Ok(volumes)
    } else {
        Err(TableError::Reserved)
    }
}

/// A name that is filled up with zeros.
fn parse_name(field: &[u8]) -> Option<String> {
    let len = field.iter().position(|&byte| byte == 0);
    let (name, rest) = field.split_at(len.unwrap_or(field.len()));
    let is_filled_up = rest.iter().all(|&byte| byte == 0);
    let name = str::from_utf8(name).ok().filter(|_| is_filled_up);
    name.map(str::to_owned)
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).expect("a table is short")
}

fn wide(count: u32) -> usize {
    usize::try_from(count).expect("a usize holds 32 bits")
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let range = bytes[at..at + N].try_into();
    range.expect("a range of N has N bytes")
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

#[cfg(test)]
mod tests;
