//! Legs of 101 GiB, of which nothing but the metadata and a few pieces of data exists: what mdadm
//! and heliostat choose by themselves is the same, and each writes where the other reads.

use anyhow::{Context, Result, ensure};

use super::agreement::{agree_with_examine, expect, shown_fields};
use super::case::{Case, Place};
use super::served::{create, paths};
use crate::e2e::room::Room;
use crate::e2e::server::Server;

/// An array of more than 100 GiB is given a bitmap by mdadm without being asked.
const LEG_BYTES: u64 = 101 << 30;

/// What both choose.
const CHOSEN: &[&str] = &[
    "Feature Map",
    "Raid Level",
    "Avail Dev Size",
    "Array Size",
    "Used Dev Size",
    "Data Offset",
    "Super Offset",
    "Unused Space",
    "Internal Bitmap",
    "Bad Block Log",
    "Chunksize",
    "Daemon",
    "Bitmap",
    "Sync Size",
];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![defaults()]
}

fn defaults() -> Case {
    Case::new("large-defaults")
        .legs(4, LEG_BYTES)
        .with_program()
        .guest(
            "mdadm --create $md --run --level=1 --raid-devices=2 --assume-clean $a $b
             rewrite 1024 256
             dd if=$pattern of=$md bs=1M seek=101000 count=1 conv=notrunc,fsync 2> dd.log
             stop",
        )
        .host(|place| {
            agree_with_examine(place, "after", "a b")?;
            let room = place.room()?;
            create(place, &room, "c d", "--level raid1")?;
            let (mdadm, ours) = (
                shown_fields(place, &room, "a")?,
                shown_fields(place, &room, "c")?,
            );
            for name in CHOSEN {
                let value = |fields: &[(String, String)]| {
                    let field = fields.iter().find(|(other, _)| other == name);
                    field.map(|(_, value)| value.clone())
                };
                // Bits that are set are no choice.
                let cut = |value: Option<String>| {
                    value.map(|value| value.split(',').next().unwrap_or_default().to_owned())
                };
                let (mdadm, ours) = (cut(value(&mdadm)), cut(value(&ours)));
                // It is shown where it is not all there is.
                let may_lack = *name == "Used Dev Size";
                ensure!(mdadm.is_some() || may_lack, "nobody shows {name}");
                ensure!(mdadm == ours, "{name}: {ours:?}, and mdadm chose {mdadm:?}");
            }
            for legs in ["a b", "c d"] {
                write_far_out(place, &room, legs)?;
            }
            Ok(())
        })
        .guest(
            "for pair in \"$a $b\" \"$c $d\"; do
                 mdadm --assemble --run $md $pair
                 settle
                 dd if=$md bs=1M skip=98304 count=1 2> dd.log | md5sum
                 mdadm --stop $md
             done > sums
             head -c 1048576 /dev/zero | tr '\\000' Z | md5sum > expected",
        )
        .host(|place| {
            let expected = place.said("expected")?;
            expect(
                "the sums",
                &place.said("sums")?,
                &[expected.trim(); 2].join(", "),
            )
        })
}

/// Has heliostat write a MiB of `Z` 96 GiB into the array.
fn write_far_out(place: &Place, room: &Room, legs: &str) -> Result<()> {
    let server = Server::start(room, &paths(place, legs), &["--name", "large"])?;
    let words = ["-f", "raw", "-c", "write -P 0x5a 96G 1M", "-c", "flush"];
    let said = room.run("qemu-io", &[&words[..], &[&server.uri()]].concat());
    let said = said.with_context(|| format!("writing to {legs}"))?;
    ensure!(said.contains("wrote"), "qemu-io: {said}");
    server.terminate()?;
    Ok(())
}
