use heliostat_model::{ModelParams, drive};

use super::{DataSheet, Rig};

#[test]
fn a_disk_has_zones_and_a_seek_curve() {
    let rig = Rig::new(drive("hdd-7200-2tb").unwrap().params);
    let zones = rig.zones();
    let (first, last) = (zones[0].1, zones[zones.len() - 1].1);
    assert!((first / 228e6 - 1.0).abs() < 0.02, "{first}");
    assert!((last / first - 0.48).abs() < 0.03, "{last}");
    // Track to track, mean and full stroke, each with 0.1 ms of electronics.
    let (near, far) = (rig.seek_row(0), rig.seek_row(100));
    assert!((1.2..2.4).contains(&(near.min_ns as f64 / 1e6)), "{near:?}");
    assert!((18.0..18.6).contains(&(far.min_ns as f64 / 1e6)), "{far:?}");
    let half_turn_ms = (far.mean_ns - far.min_ns as f64) / 1e6;
    assert!((half_turn_ms - 4.17).abs() < 0.8, "{half_turn_ms}");
}

#[test]
fn memory_has_neither() {
    let mut told = Vec::new();
    let sheet = DataSheet::measure("ram", drive("ram").unwrap().params, |what| {
        told.push(what.to_owned());
    });
    assert!(sheet.zones.is_empty() && sheet.seeks.is_empty());
    assert_eq!((sheet.reads.len(), sheet.streams.len()), (9, 6));
    assert!(sheet.steady.len() > 10);
    assert!(!told.contains(&"zones and seeks".to_owned()));
    let json = sheet.to_json();
    assert_eq!(json["model"], "ram");
    assert_eq!(json["random_read"][8]["depth"], 256);
}

#[test]
fn claims_are_for_the_drive_as_it_is_named_alone() {
    let params = drive("net-ssd").unwrap().params;
    let own = DataSheet::measure("net-ssd", params, |_| ());
    let most = own.claims.iter().find(|(claim, _)| claim.value == 16_000.0);
    let (_, measured) = most.unwrap();
    assert!((measured / 16_000.0 - 1.0).abs() < 0.02, "{measured}");
    let mut changed = params;
    changed.set("iops_max", "100").unwrap();
    assert!(
        DataSheet::measure("net-ssd", changed, |_| ())
            .claims
            .is_empty()
    );
}

#[test]
fn small_devices_are_measured_as_far_as_it_goes() {
    let mut params = ModelParams::of_family("ram").unwrap();
    params.set("size", "1MiB").unwrap();
    let sheet = DataSheet::measure("small", params, |_| ());
    assert_eq!(sheet.streams.len(), 1, "4 KiB alone fit");
}
