#![no_main]
//! Any bytes where the copies of a table of volumes would be, with sums that are right or not.

use heliostat_volume::{
    COPY_BYTES_MAX, Copy, GRAIN_BYTES, HEAD_BYTES, Plan, Step, Table, assess, former_second, look,
};
use libfuzzer_sys::fuzz_target;

const ARRAY: [u8; 16] = [7; 16];
const ARRAY_BYTES: u64 = 64 * GRAIN_BYTES;

fuzz_target!(|bytes: &[u8]| {
    let (first, second) = bytes.split_at(bytes.len() / 2);
    parse(bytes);
    let (first, second) = (resummed(first), resummed(second));
    parse(&first);
    copies(&look(&first, &ARRAY), &look(&second, &ARRAY));
});

/// What is parsed makes sense and is written back the same.
fn parse(bytes: &[u8]) {
    let Ok(table) = Table::parse(bytes) else {
        return;
    };
    assert_eq!(table.check(), Ok(()));
    let written = table.to_bytes();
    assert!(written.len() <= COPY_BYTES_MAX);
    assert_eq!(Table::parse(&written).as_ref(), Ok(&table));
    let all: u64 = table
        .volumes
        .iter()
        .map(|volume| volume.allocated_bytes())
        .sum();
    assert_eq!(all + table.free_bytes(), table.places().room().len());
    let _ = table.with_volume("new", bytes.len() as u64, Default::default());
    for volume in &table.volumes {
        for size in [1, GRAIN_BYTES, 3 * GRAIN_BYTES, volume.size_bytes, u64::MAX] {
            if let Ok(next) = table.with_size(&volume.name, size, true) {
                assert_eq!(next.check(), Ok(()));
            }
        }
    }
}

/// Whatever was found is believed or refused, and what is then written lies where copies do.
fn copies(first: &Copy, second: &Copy) {
    if let Some(area) = former_second(first, ARRAY_BYTES) {
        assert!(area.end() <= ARRAY_BYTES);
    }
    let Ok(Some(found)) = assess(ARRAY_BYTES, first, second, None) else {
        return;
    };
    let (plan, _) = Plan::settle(&found, first, second, ARRAY_BYTES);
    for step in plan.steps {
        let (from, len) = match step {
            Step::Write {
                offset_bytes,
                bytes,
            } => (offset_bytes, bytes.len() as u64),
            Step::Zero(extent) => (extent.offset(), extent.len()),
        };
        assert!(from + len <= ARRAY_BYTES);
        assert!(from < COPY_BYTES_MAX as u64 || from % GRAIN_BYTES <= COPY_BYTES_MAX as u64);
    }
}

/// The same with sums that fit, so that a fuzzer gets behind them.
fn resummed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= HEAD_BYTES {
        heliostat_volume::correct_sums(&mut bytes);
    }
    bytes
}
