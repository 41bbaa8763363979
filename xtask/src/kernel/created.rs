//! Arrays that mdadm creates and the kernel fills.

use anyhow::{Context, Result};

use super::case::{Case, Place};

const MIB: u64 = 1 << 20;

/// Where mdadm is told to put the data, and how much of each leg to use.
const DATA_OFFSET: &str = "1M";
const LEG_SIZE: &str = "6M";

/// The size of the legs: more than data and metadata need.
const LEG_BYTES: u64 = 16 * MIB;

/// The size of RAID10's chunks. Some tens of them on each leg make several rows of each layout.
const CHUNK: &str = "64K";

/// A layout, as mdadm and as heliostat call it, and on how many legs.
struct Layout {
    name: &'static str,
    legs: usize,
    mdadm: &'static str,
    heliostat: &'static str,
}

const fn layout(
    name: &'static str,
    legs: usize,
    mdadm: &'static str,
    heliostat: &'static str,
) -> Layout {
    Layout {
        name,
        legs,
        mdadm,
        heliostat,
    }
}

const LAYOUTS: &[Layout] = &[
    layout("mirror-of-2", 2, "--level=1", "mirror"),
    layout("mirror-of-3", 3, "--level=1", "mirror"),
    layout("mirror-of-4", 4, "--level=1", "mirror"),
    layout("near-2-of-2", 2, "--level=10 --layout=n2", "near=2"),
    layout("near-2-of-3", 3, "--level=10 --layout=n2", "near=2"),
    layout("near-2-of-4", 4, "--level=10 --layout=n2", "near=2"),
    layout("near-3-of-4", 4, "--level=10 --layout=n3", "near=3"),
    layout("far-2-of-3", 3, "--level=10 --layout=f2", "far=2"),
    layout("far-2-of-4", 4, "--level=10 --layout=f2", "far=2"),
    layout("far-3-of-4", 4, "--level=10 --layout=f3", "far=3"),
    layout("offset-2-of-3", 3, "--level=10 --layout=o2", "offset=2"),
    layout("offset-2-of-4", 4, "--level=10 --layout=o2", "offset=2"),
    layout("offset-3-of-4", 4, "--level=10 --layout=o3", "offset=3"),
];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    LAYOUTS.iter().map(map).collect()
}

/// The address map says where each copy of each byte lies.
fn map(layout: &'static Layout) -> Case {
    let Layout {
        name,
        legs,
        mdadm,
        heliostat,
    } = layout;
    let chunk = if *heliostat == "mirror" {
        String::new()
    } else {
        format!("--chunk={CHUNK}")
    };
    Case::new(format!("map-{name}"))
        .legs(*legs, LEG_BYTES)
        .guest(format!(
            "mdadm --create $md --run --metadata=1.2 {mdadm} {chunk} --raid-devices={legs} \\
                 --data-offset={DATA_OFFSET} --size={LEG_SIZE} --assume-clean $legs
             fill
             save array
             mdadm --stop $md"
        ))
        .host(|place| check_map(place, heliostat))
}

fn check_map(place: &Place, layout: &str) -> Result<()> {
    let array = place.left("array");
    let array = array.to_str().context("a path that is no text")?;
    let legs = place.legs();
    let legs = legs.iter().filter_map(|leg| leg.to_str());
    let arguments = ["map", array, LEG_SIZE, DATA_OFFSET, layout, CHUNK];
    let arguments: Vec<&str> = arguments.into_iter().chain(legs).collect();
    place.judge(&arguments)?;
    Ok(())
}
