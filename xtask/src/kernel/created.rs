//! Arrays that mdadm creates and the kernel fills.

use super::agreement::{agree, agree_on_members, expect};
use super::case::Case;

const MIB: u64 = 1 << 20;

/// Where mdadm is told to put the data, and how much of each leg to use.
const DATA_OFFSET: &str = "1M";
const LEG_SIZE: &str = "6M";

/// The size of the legs: more than data and metadata need.
const LEG_BYTES: u64 = 16 * MIB;

/// A layout, what mdadm calls it, and on how many legs.
struct Layout {
    name: &'static str,
    legs: usize,
    mdadm: &'static str,
}

const fn layout(name: &'static str, legs: usize, mdadm: &'static str) -> Layout {
    Layout { name, legs, mdadm }
}

const LAYOUTS: &[Layout] = &[
    layout("mirror-of-2", 2, "--level=1"),
    layout("mirror-of-3", 3, "--level=1"),
    layout("mirror-of-4", 4, "--level=1"),
    layout("near-2-of-2", 2, "--level=10 --chunk=64K --layout=n2"),
    layout("near-2-of-3", 3, "--level=10 --chunk=64K --layout=n2"),
    layout("near-2-of-4", 4, "--level=10 --chunk=64K --layout=n2"),
    layout("near-3-of-4", 4, "--level=10 --chunk=64K --layout=n3"),
    layout("far-2-of-3", 3, "--level=10 --chunk=64K --layout=f2"),
    layout("far-2-of-4", 4, "--level=10 --chunk=64K --layout=f2"),
    layout("far-3-of-4", 4, "--level=10 --chunk=64K --layout=f3"),
    layout("offset-2-of-3", 3, "--level=10 --chunk=64K --layout=o2"),
    layout("offset-2-of-4", 4, "--level=10 --chunk=64K --layout=o2"),
    layout("offset-3-of-4", 4, "--level=10 --chunk=64K --layout=o3"),
];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let maps = LAYOUTS.iter().map(map);
    maps.chain([
        metadata("1.0", "--metadata=1.0"),
        metadata("1.1", "--metadata=1.1"),
        metadata("defaults", "--metadata=1.2"),
    ])
    .collect()
}

/// Metadata where mdadm puts it, and as large as it makes it.
fn metadata(name: &str, options: &str) -> Case {
    Case::new(format!("created-{name}"))
        .legs(2, 4 * LEG_BYTES)
        .guest(format!(
            "mdadm --create $md --run {options} --level=1 --raid-devices=2 --bitmap=internal \\
                 --assume-clean $legs
             rewrite 1024 256
             stop"
        ))
        .host(|place| {
            agree(place, "after", "a b")?;
            agree_on_members(place, "a b")?;
            let copies = place.judge("copies a b")?;
            let copies: Vec<&str> = copies.lines().take(2).collect();
            expect(
                "the copies",
                &copies.join("\n"),
                "0..1024 00 00, 1024..1280 b5 b5",
            )
        })
}

/// The address map says where each copy of each byte lies, and the metadata is read and written as
/// the kernel left it.
fn map(layout: &'static Layout) -> Case {
    let Layout { name, legs, mdadm } = layout;
    Case::new(format!("map-{name}"))
        .legs(*legs, LEG_BYTES)
        .guest(format!(
            "mdadm --create $md --run --metadata=1.2 {mdadm} --raid-devices={legs} \\
                 --data-offset={DATA_OFFSET} --size={LEG_SIZE} --assume-clean $legs
             fill
             save array
             mdadm --stop $md
             examine after"
        ))
        .host(move |place| {
            let legs = ["a", "b", "c", "d"][..*legs].join(" ");
            place.judge(&format!("map results/array {legs}"))?;
            agree(place, "after", &legs)
        })
}
