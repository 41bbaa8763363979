use heliostat_types::Extent;
use proptest::prelude::{any, prop};
use proptest::{prop_assert_eq, proptest};

use super::{HEAD_BYTES, at, correct_sums, put};
use crate::table::{Limits, Table, Volume};
use crate::{GRAIN_BYTES, TableError};

const ARRAY: [u8; 16] = [7; 16];

fn volume(name: &str, first: u64, grains: u64) -> Volume {
    Volume {
        name: name.to_owned(),
        size_bytes: grains * GRAIN_BYTES,
        prepared_bytes: grains * GRAIN_BYTES,
        limits: Limits::default(),
        extents: vec![Extent::new(first * GRAIN_BYTES, grains * GRAIN_BYTES)],
    }
}

fn table() -> Table {
    Table {
        generation: 9,
        volumes: vec![volume("a", 1, 3), volume("b.2-x_", 6, 1)],
        ..Table::new(ARRAY, 10 * GRAIN_BYTES).unwrap()
    }
}

/// The bytes of a table with something else at `at`, and right sums.
fn forged(table: &Table, at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = table.to_bytes();
    put(&mut bytes, at, value);
    correct_sums(&mut bytes);
    bytes
}

#[test]
fn a_table_is_read_as_it_was_written() {
    let table = table();
    let bytes = table.to_bytes();
    assert_eq!(bytes.len(), 4096);
    assert_eq!(Table::parse(&bytes), Ok(table.clone()));
    // What lies behind it is not looked at.
    assert_eq!(
        Table::parse(&[&bytes[..], &[9; 100]].concat()),
        Ok(table.clone())
    );
    assert_eq!(table.emptied().to_bytes().len(), HEAD_BYTES);
}

#[test]
fn every_byte_that_changes_is_noticed() {
    let table = table();
    let bytes = table.to_bytes();
    let covered = HEAD_BYTES + 2 * (super::VOLUME_BYTES + super::EXTENT_BYTES);
    for at in 0..covered {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        let error = Table::parse(&changed).unwrap_err();
        assert_eq!(error.is_damage(), at >= 8, "byte {at}: {error}");
    }
    for len in 0..covered {
        let error = Table::parse(&bytes[..len]).unwrap_err();
        assert_eq!(error.is_damage(), len >= 8, "{len} bytes: {error}");
    }
}

#[test]
fn what_is_not_understood_is_refused() {
    let table = table();
    let forged = |at, value: &[u8]| Table::parse(&forged(&table, at, value)).unwrap_err();
    assert_eq!(forged(at::VERSION, &[2]), TableError::Version(2));
    assert_eq!(forged(at::FEATURES, &[4]), TableError::Features(4));
    assert_eq!(forged(at::RESERVED, &[1]), TableError::Reserved);
    assert_eq!(forged(511, &[1]), TableError::Reserved);
    assert_eq!(forged(at::GENERATION, &[0xff; 8]), TableError::Generation);
    assert_eq!(forged(at::GRAIN, &[0, 0, 8, 0]), TableError::Grain(1 << 19));
    assert_eq!(
        forged(at::VOLUMES, &[121]),
        TableError::TooManyVolumes { count: 121 }
    );
    // A volume's features, and one volume less than there are records.
    assert_eq!(forged(HEAD_BYTES + 64 + 32, &[1]), TableError::Features(1));
    assert_eq!(forged(at::VOLUMES, &[1]), TableError::Reserved);
    assert_eq!(forged(at::VOLUMES, &[3]), TableError::Truncated);
    assert_eq!(
        forged(at::ARRAY_BYTES, &[0; 8]),
        TableError::ArrayTooSmall { array_bytes: 0 }
    );
}

#[test]
fn tables_that_make_no_sense_are_refused() {
    let refused = |at: usize, value: &[u8]| {
        let record = HEAD_BYTES + super::VOLUME_BYTES + super::EXTENT_BYTES;
        Table::parse(&forged(&table(), record + at, value)).unwrap_err()
    };
    let (name, sense) = (
        TableError::Name { index: 1 },
        TableError::Volume { index: 1 },
    );
    // A name that is taken, empty, not filled up, or no name.
    assert_eq!(refused(0, b"a\0\0\0\0\0"), name);
    assert_eq!(refused(0, &[0; 6]), name);
    assert_eq!(refused(10, b"x"), name);
    assert_eq!(refused(0, b"-"), name);
    assert_eq!(refused(0, &[0xff]), name);
    // Sizes: in no grains, more than is prepared, more than there is; a weight of 0.
    assert_eq!(refused(64, &[1]), sense);
    assert_eq!(refused(64, &(2 * GRAIN_BYTES).to_le_bytes()), sense);
    assert_eq!(refused(72, &(2 * GRAIN_BYTES).to_le_bytes()), sense);
    assert_eq!(refused(72, &0_u64.to_le_bytes()), sense);
    assert_eq!(refused(92, &[0; 4]), sense);
    // Extents: on a copy, beyond the end, beyond all numbers, empty, in another volume.
    assert_eq!(refused(104, &0_u64.to_le_bytes()), sense);
    assert_eq!(refused(104, &(9 * GRAIN_BYTES).to_le_bytes()), sense);
    assert_eq!(refused(104, &(u64::MAX - 5).to_le_bytes()), sense);
    assert_eq!(refused(112, &0_u64.to_le_bytes()), sense);
    let at_bytes = 3 * GRAIN_BYTES;
    assert_eq!(
        refused(104, &at_bytes.to_le_bytes()),
        TableError::Overlap { at_bytes }
    );
    assert_eq!(refused(100, &[0xff; 4]), TableError::Truncated);
}

proptest! {
    /// Whatever is done to the bytes of a table, what is parsed is written back the same.
    #[test]
    fn what_parses_is_written_back(
        edits in prop::collection::vec((0_usize..900, any::<u8>()), 0..6),
        has_sums: bool,
    ) {
        let mut bytes = table().to_bytes();
        for (at, value) in edits {
            bytes[at] = value;
        }
        if has_sums {
            correct_sums(&mut bytes);
        }
        if let Ok(table) = Table::parse(&bytes) {
            prop_assert_eq!(Table::parse(&table.to_bytes()), Ok(table));
        }
    }
}
