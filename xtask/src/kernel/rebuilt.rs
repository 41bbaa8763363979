//! Rebuilds that one side began and the other one ends, and legs that were away.
//!
//! Whether one goes on where the other had come is seen in two regions that are made to differ in
//! between: one below that place stays as it is, and one above is copied.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::agreement::{agree, agree_throughout, expect, keep, shown_fields};
use super::case::{Case, Place};
use super::served::{WRITTEN, create, filled, paths, write};
use crate::e2e::room::Room;
use crate::e2e::server::{NAME, Server};
use crate::process;

/// The size of the legs, of which the array leaves 1 MiB to the metadata.
const LEG_BYTES: u64 = 16 << 20;

/// How long a rebuild may take, on a busy machine.
const REBUILD_TIME_MAX: Duration = Duration::from_secs(60);

/// How much of the new leg is complete when the other side takes over, in sectors of some 30720.
const DONE_SECTORS: u64 = 10_000;

/// An array with a leg that is new, the last one. Region 1 lies below the place where the rebuild
/// is cut short, and another one above; both are on the new leg.
struct Rebuilt {
    name: &'static str,
    legs: &'static str,
    /// What mdadm and heliostat are told of it.
    mdadm: &'static str,
    create: &'static str,
    size_kib: u64,
    above: u64,
}

const REBUILT: &[Rebuilt] = &[
    Rebuilt {
        name: "mirror",
        legs: "a b",
        mdadm: "--level=1 --raid-devices=2 $a",
        create: "--level raid1",
        size_kib: 15 << 10,
        above: 230,
    },
    Rebuilt {
        name: "near-2-of-4",
        legs: "a b c d",
        mdadm: "--level=10 --layout=n2 --chunk=64 --raid-devices=4 $a $b $c",
        create: "--level raid10 --layout near=2 --chunk 64K",
        size_kib: 30 << 10,
        above: 461,
    },
];

impl Rebuilt {
    fn new_leg(&self) -> &'static str {
        &self.legs[self.legs.len() - 1..]
    }

    /// The legs that are there from the beginning.
    fn old_legs(&self) -> &'static str {
        &self.legs[..self.legs.len() - 2]
    }

    /// What all legs have when the new one is in sync: of the two regions that differed one was
    /// copied, because the rebuild went on and did not begin again.
    fn copies(&self) -> String {
        let end = self.size_kib;
        format!("0..64 a5 a5, 64..128 a5 a6, 128..1024 a5 a5, 1024..1280 b5 b5, 1280..{end} a5 a5")
    }

    /// Makes both regions differ.
    fn differ(&self, place: &Place) -> Result<()> {
        place.judge(&format!("differ 1,{} {}", self.above, self.legs))?;
        Ok(())
    }
}

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let rebuilt = REBUILT
        .iter()
        .flat_map(|rebuilt| [by_heliostat(rebuilt), by_kernel(rebuilt)]);
    let cases = rebuilt.chain([returned(), replaced(), replaced_further()]);
    cases.map(Case::with_program).collect()
}

/// heliostat goes on with a rebuild of the kernel that was stopped.
fn by_heliostat(rebuilt: &'static Rebuilt) -> Case {
    let Rebuilt {
        name, legs, mdadm, ..
    } = *rebuilt;
    let new = rebuilt.new_leg();
    Case::new(format!("rebuilt-by-heliostat-{name}"))
        .legs(legs.split(' ').count(), LEG_BYTES)
        .guest(format!(
            "mdadm --create $md --run {mdadm} missing --bitmap=internal \
                 --bitmap-chunk=64K --delay=600 --data-offset=1M --assume-clean
             fill
             rewrite 1024 256
             echo 1 > $sys/sync_speed_min
             echo 2000 > $sys/sync_speed_max
             mdadm $md --add ${new}
             until grep -q 'Recovery Offset' now \
                 && [ \"$(sed -n 's/.*Recovery Offset : \\([0-9]*\\) .*/\\1/p' now)\" \
                     -ge {DONE_SECTORS} ]; do
                 sleep 0.1
                 mdadm --examine ${new} > now
             done
             mdadm --stop $md
             examine before"
        ))
        .host(move |place| {
            agree(place, "before", legs)?;
            rebuilt.differ(place)?;
            serve_until_in_sync(place, legs, &rebuilt.copies())
        })
        .guest("take_over $legs")
        .host(move |place| agree_throughout(place, legs, &rebuilt.copies()))
}

/// The kernel goes on with a rebuild of heliostat that was killed.
fn by_kernel(rebuilt: &'static Rebuilt) -> Case {
    let Rebuilt {
        name,
        legs,
        create: options,
        size_kib,
        ..
    } = *rebuilt;
    Case::new(format!("rebuilt-by-kernel-{name}"))
        .legs(legs.split(' ').count(), LEG_BYTES)
        .host(move |place| {
            let room = place.room()?;
            let (old, new) = (rebuilt.old_legs(), rebuilt.new_leg());
            let options = format!("{options} --bitmap-chunk 64K");
            create(place, &room, &format!("{old} missing"), &options)?;
            let slowly = ["--degraded-ok", "--resync-max", "2MB/s"];
            let server = Server::start(&room, &paths(place, old), &slowly)?;
            write(place, &room, &server, "a5", 0, size_kib)?;
            write(place, &room, &server, "b5", 1024, 256)?;
            server.control(&["add", NAME, &place.drive(new).display().to_string()])?;
            process::wait_until("a third of the rebuild", REBUILD_TIME_MAX, || {
                Ok(recovered_sectors(place, &room, new)? >= DONE_SECTORS)
            })?;
            server.kill()?;
            rebuilt.differ(place)?;
            keep(place, legs, legs)?;
            let ours = fs::read_to_string(place.drive("assembled"))?;
            ensure!(
                ours.contains(&format!("{new} {} spare", legs.len() / 2)),
                "{ours}"
            );
            Ok(())
        })
        .guest("take_over $legs")
        .host(move |place| agree_throughout(place, legs, &rebuilt.copies()))
}

/// How much of a leg is complete, as `heliostat examine` shows it; nothing where it says nothing.
fn recovered_sectors(place: &Place, room: &Room, leg: &str) -> Result<u64> {
    let shown = shown_fields(place, room, leg)?;
    let Some((_, text)) = shown.iter().find(|(name, _)| name == "Recovery Offset") else {
        return Ok(0);
    };
    let sectors = text.split(' ').next().unwrap_or_default();
    sectors
        .parse()
        .with_context(|| format!("an offset of '{text}'"))
}

/// What the kernel does until a leg has been replaced to a third.
fn replace_to_a_third() -> String {
    format!(
        "mdadm --create $md --run --level=1 --raid-devices=2 $a $b --bitmap=internal \
             --bitmap-chunk=64K --delay=600 --data-offset=1M --assume-clean
         fill
         rewrite 1024 256
         echo 1 > $sys/sync_speed_min
         echo 2000 > $sys/sync_speed_max
         mdadm $md --add $c
         mdadm $md --replace $b --with $c
         until grep -q 'Recovery Offset' now \
             && [ \"$(sed -n 's/.*Recovery Offset : \\([0-9]*\\) .*/\\1/p' now)\" \
                 -ge {DONE_SECTORS} ]; do
             sleep 0.1
             mdadm --examine $c > now
         done
         mdadm --stop $md
         examine before"
    )
}

/// heliostat ends what the kernel began: the new leg has the role, and the old one is out.
fn replaced() -> Case {
    let mirror = &REBUILT[0];
    Case::new("replaced-by-heliostat")
        .legs(3, LEG_BYTES)
        .guest(replace_to_a_third())
        .host(|place| {
            agree(place, "before", "a b c")?;
            place.judge(&format!("differ 1,{} a c", mirror.above))?;
            let room = place.room()?;
            let server = Server::start(&room, &paths(place, "a b c"), &["--name", NAME])?;
            process::wait_until("the replacement", REBUILD_TIME_MAX, || {
                let status = server.control(&["status", NAME])?;
                Ok(!status.contains("replacement") && status.contains("2 of 2 legs in sync"))
            })?;
            server.terminate()?;
            let assembly = place.judge("assembly a b c")?;
            for line in ["a 0 in_sync", "b out", "c 1 in_sync"] {
                ensure!(assembly.contains(line), "{assembly}");
            }
            let copies = place.judge("copies a c")?;
            expect("the copies", &copies, &mirror.copies())
        })
        .guest("take_over $a $b $c")
        .host(|place| {
            agree(place, "after", "a c")?;
            let stopped = place.said("stopped")?;
            ensure!(stopped.contains("b out"), "{stopped}");
            ensure!(stopped.contains("c 1 in_sync"), "{stopped}");
            expect("the copies", &place.judge("copies a c")?, &mirror.copies())
        })
}

/// The kernel ends what it began and heliostat went on with until it was killed.
fn replaced_further() -> Case {
    let mirror = &REBUILT[0];
    Case::new("replaced-by-kernel")
        .legs(3, LEG_BYTES)
        .guest(replace_to_a_third())
        .host(|place| {
            let room = place.room()?;
            let slowly = ["--name", NAME, "--resync-max", "2MB/s"];
            let server = Server::start(&room, &paths(place, "a b c"), &slowly)?;
            let further = DONE_SECTORS + DONE_SECTORS / 2;
            process::wait_until("half of the replacement", REBUILD_TIME_MAX, || {
                Ok(recovered_sectors(place, &room, "c")? >= further)
            })?;
            server.kill()?;
            place.judge(&format!("differ 1,{} a c", mirror.above))?;
            Ok(())
        })
        .guest("take_over $a $b $c")
        .host(|place| {
            let assembled = place.said("assembled")?;
            ensure!(assembled.contains("replacement"), "{assembled}");
            agree(place, "after", "a c")?;
            let stopped = place.said("stopped")?;
            ensure!(stopped.contains("c 1 in_sync"), "{stopped}");
            expect("the copies", &place.judge("copies a c")?, &mirror.copies())
        })
}

/// A leg that was away while the kernel had the array gets what it missed, and nothing else.
fn returned() -> Case {
    Case::new("returned-to-heliostat")
        .legs(2, LEG_BYTES)
        .host(|place| {
            let room = place.room()?;
            filled(place, &room)?.terminate()?;
            Ok(())
        })
        .guest(
            "mdadm --assemble --run $md $a
             mdadm --readwrite $md || true
             rewrite 1024 256
             mdadm --stop $md",
        )
        .host(|place| {
            place.judge("differ 17,40 a b")?;
            serve_until_in_sync(place, "a b", WRITTEN)
        })
        .guest("take_over $legs")
        .host(|place| agree_throughout(place, "a b", WRITTEN))
}

/// Serves the array until all legs are in sync, with these copies then.
fn serve_until_in_sync(place: &Place, legs: &str, copies: &str) -> Result<()> {
    let room = place.room()?;
    let options = ["--name", NAME, "--degraded-ok"];
    let server = Server::start(&room, &paths(place, legs), &options)?;
    let count = legs.split(' ').count();
    let all = format!("{count} of {count} legs in sync");
    process::wait_until("all legs in sync", REBUILD_TIME_MAX, || {
        Ok(server.control(&["status", NAME])?.contains(&all))
    })?;
    server.terminate()?;
    expect(
        "the copies",
        &place.judge(&format!("copies {legs}"))?,
        copies,
    )?;
    keep(place, legs, legs)
}
