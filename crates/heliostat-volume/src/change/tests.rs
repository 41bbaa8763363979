use heliostat_types::Extent;
use proptest::prelude::{Strategy, prop};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq, prop_oneof, proptest};

use crate::table::{Limits, Table, VOLUMES_MAX};
use crate::{ChangeError, GRAIN_BYTES};

const MIB: u64 = GRAIN_BYTES;

fn empty(grains: u64) -> Table {
    Table::new([1; 16], grains * MIB).unwrap()
}

fn with(table: &Table, name: &str, mib: u64) -> Table {
    let table = table.with_volume(name, mib * MIB, Limits::default());
    table.unwrap().with_prepared(name, u64::MAX).unwrap()
}

#[test]
fn a_volume_is_seen_when_it_is_prepared() {
    let table = empty(10)
        .with_volume("a", 2 * MIB - 5, Limits::default())
        .unwrap();
    let volume = &table.volumes[0];
    assert_eq!((volume.size_bytes, volume.allocated_bytes()), (0, 2 * MIB));
    assert!(volume.is_preparing());
    let half = table.with_prepared("a", MIB + 7).unwrap();
    assert_eq!(
        (half.volumes[0].size_bytes, half.volumes[0].prepared_bytes),
        (0, MIB)
    );
    let whole = half.with_prepared("a", 2 * MIB).unwrap();
    assert_eq!(whole.volumes[0].size_bytes, 2 * MIB);
    assert!(!whole.volumes[0].is_preparing());
    assert_eq!(whole.generation, 3);
}

#[test]
fn growing_takes_what_is_free_and_moves_nobody() {
    let table = with(&with(&with(&empty(12), "a", 3), "b", 2), "c", 1);
    let table = table.without("b").unwrap();
    // Right behind it are 2 MiB, and 4 MiB lie at the end.
    let grown = table.with_size("a", 7 * MIB, false).unwrap();
    let a = &grown.volumes[0];
    let piece = |at: u64, len: u64| Extent::new(at * MIB, len * MIB);
    assert_eq!(a.extents, [piece(1, 5), piece(7, 2)]);
    assert_eq!((a.size_bytes, a.prepared_bytes), (3 * MIB, 3 * MIB));
    assert_eq!(grown.volumes[1], table.volumes[1]);
    assert_eq!(
        grown.with_size("c", 4 * MIB, false),
        Err(ChangeError::NoRoom {
            wanted_bytes: 3 * MIB,
            free_bytes: 2 * MIB
        })
    );
    // Taking the new part back loses nothing that clients have seen.
    let back = grown.with_size("a", 3 * MIB, false).unwrap();
    assert_eq!(back.volumes, table.volumes);
    // So does making it as large as was zeroed by then: it is seen at once.
    let zeroed = grown.with_prepared("a", 5 * MIB).unwrap();
    let part = zeroed.with_size("a", 4 * MIB, false).unwrap();
    assert_eq!(part.volumes[0].size_bytes, 4 * MIB);
}

#[test]
fn bytes_are_lost_only_where_somebody_says_so() {
    let table = with(&empty(12), "a", 3);
    let error = table.with_size("a", 2 * MIB, false).unwrap_err();
    assert!(matches!(error, ChangeError::WouldShrink { from_bytes, .. } if from_bytes == 3 * MIB));
    let small = table.with_size("a", 2 * MIB, true).unwrap();
    assert_eq!(small.volumes[0].extents, [Extent::new(MIB, 2 * MIB)]);
    assert_eq!(small.volumes[0].size_bytes, 2 * MIB);
}

#[test]
fn what_cannot_be_is_refused() {
    let table = with(&empty(12), "a", 3);
    let made = |name: &str, bytes| table.with_volume(name, bytes, Limits::default());
    assert_eq!(made("a", MIB), Err(ChangeError::NameTaken("a".to_owned())));
    assert_eq!(made(".a", MIB), Err(ChangeError::BadName(".a".to_owned())));
    assert_eq!(made("b", 0), Err(ChangeError::BadSize));
    assert_eq!(made("b", u64::MAX), Err(ChangeError::BadSize));
    let error = made("b", 8 * MIB - 1).unwrap_err();
    assert_eq!(error.to_string(), "8 MiB are wanted, and 7 MiB are free");
    let limits = Limits {
        weight: 0,
        ..Limits::default()
    };
    assert_eq!(
        table.with_volume("b", MIB, limits),
        Err(ChangeError::BadLimits)
    );
    assert_eq!(table.with_limits("a", limits), Err(ChangeError::BadLimits));
    assert_eq!(
        table.without("b"),
        Err(ChangeError::NoSuchVolume("b".to_owned()))
    );
    let mut many = empty(1000);
    for index in 0..VOLUMES_MAX {
        many = with(&many, &format!("v{index}"), 1);
    }
    let error = many.with_volume("more", MIB, Limits::default());
    assert_eq!(error, Err(ChangeError::TooMany));
}

#[derive(Clone, Debug)]
enum Change {
    Create(u8, u64),
    Resize(u8, u64),
    Delete(u8),
    Prepare(u8, u64),
}

fn change() -> impl Strategy<Value = Change> {
    let (name, size) = (0..5_u8, 0..40 * MIB);
    prop_oneof![
        (name.clone(), size.clone()).prop_map(|(name, size)| Change::Create(name, size)),
        (name.clone(), size.clone()).prop_map(|(name, size)| Change::Resize(name, size)),
        name.clone().prop_map(Change::Delete),
        (name, size).prop_map(|(name, size)| Change::Prepare(name, size)),
    ]
}

proptest! {
    /// Whatever is done, the table makes sense, and nobody's bytes are elsewhere afterwards.
    #[test]
    fn no_change_moves_a_volume(changes in prop::collection::vec(change(), 1..60)) {
        let mut table = empty(64);
        for change in changes {
            table = check(&table, &change)?;
        }
    }
}

fn check(table: &Table, change: &Change) -> Result<Table, TestCaseError> {
    let name = |name: &u8| format!("v{name}");
    let changed = match change {
        Change::Create(n, size) => table.with_volume(&name(n), *size, Limits::default()),
        Change::Resize(n, size) => table.with_size(&name(n), *size, true),
        Change::Delete(n) => table.without(&name(n)),
        Change::Prepare(n, size) => table.with_prepared(&name(n), *size),
    };
    let Ok(next) = changed else {
        return Ok(table.clone());
    };
    prop_assert_eq!(next.check(), Ok(()));
    let used: u64 = next
        .volumes
        .iter()
        .map(crate::Volume::allocated_bytes)
        .sum();
    prop_assert_eq!(used + next.free_bytes(), next.places().room().len());
    for volume in &next.volumes {
        let Some(before) = table.volume(&volume.name) else {
            continue;
        };
        let grains = |extents: &[Extent]| -> Vec<u64> {
            let grains = extents.iter().flat_map(|e| e.offset() / MIB..e.end() / MIB);
            grains.collect()
        };
        let (old, new) = (grains(&before.extents), grains(&volume.extents));
        let common = old.len().min(new.len());
        prop_assert_eq!(&old[..common], &new[..common]);
        // Nothing that was not zeroed is shown.
        prop_assert!(volume.size_bytes <= volume.prepared_bytes.max(before.size_bytes));
    }
    Ok(next)
}
