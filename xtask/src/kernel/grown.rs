//! Arrays that grow, by heliostat and by mdadm, and the line that keeps mdadm away.

use std::fs::{self, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};

use anyhow::{Context, Result, ensure};

use super::agreement::{agree, agree_on_members, agree_throughout, expect, keep};
use super::case::{Case, Place};
use super::served::{create, paths, write};
use crate::e2e::room::Room;
use crate::e2e::server::{NAME, Server};

/// The size of legs before they are larger, and afterwards.
const LEG_BYTES: u64 = 16 << 20;
const LARGER_BYTES: u64 = 24 << 20;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let ours = [
        more_legs(),
        larger(
            "mirror",
            "a b",
            "--level raid1 --bitmap-chunk 4K",
            15 << 10,
            "24117248",
        ),
        larger(
            "near-2-of-3",
            "a b c",
            "--level raid10 --layout near=2 --chunk 64K",
            23040,
            "36175872",
        ),
        as_mdadm(),
        cut_short(),
        while_served(),
    ];
    let ours = ours.map(Case::with_program);
    ours.into_iter()
        .chain([by_mdadm().with_program(), ignored()])
        .collect()
}

/// Makes an array and fills it.
fn filled(place: &Place, room: &Room, legs: &str, options: &str, size_kib: u64) -> Result<()> {
    create(place, room, legs, options)?;
    let server = Server::start(room, &paths(place, legs), &[])?;
    write(place, room, &server, "a5", 0, size_kib)?;
    server.terminate()?;
    Ok(())
}

/// Runs `heliostat grow`.
fn grow(room: &Room, words: &[&str]) -> Result<String> {
    let control = room.path_text("control");
    let program = room.program.display().to_string();
    room.run(
        &program,
        &[&["grow", NAME, "--control-dir", &control], words].concat(),
    )
}

/// The kernel takes the array over and fills its third leg; then all three hold this.
fn filled_by_kernel(case: Case, held: &'static str) -> Case {
    case.guest(
        "examine before
         assemble $legs
         settle
         mdadm --detail $md > detail
         stop",
    )
    .host(move |place| {
        let detail = place.said("detail")?;
        let is_whole = detail
            .lines()
            .any(|line| line.trim() == "Working Devices : 3");
        ensure!(is_whole && detail.contains("State : clean"), "{detail}");
        agree_throughout(place, "a b c", held)
    })
}

/// heliostat gives a mirror a third leg, and the kernel fills it.
fn more_legs() -> Case {
    let case = Case::new("grown-by-a-leg")
        .legs(3, LEG_BYTES)
        .host(|place| {
            let room = place.room()?;
            filled(place, &room, "a b", "--level raid1", 15 << 10)?;
            let new = place.drive("c").display().to_string();
            grow(&room, &["--legs", "3", &new])?;
            keep(place, "a b c", "a b c")
        });
    filled_by_kernel(case, "0..15360 a5 a5 a5")
}

/// A mirror gets a third leg while heliostat serves it, which is killed before that one is filled;
/// the kernel fills it.
fn while_served() -> Case {
    let case = Case::new("grown-while-served")
        .legs(3, LEG_BYTES)
        .host(|place| {
            let room = place.room()?;
            create(place, &room, "a b", "--level raid1")?;
            let server = Server::start(&room, &paths(place, "a b"), &[])?;
            write(place, &room, &server, "a5", 0, 15 << 10)?;
            let slow = ["rate", NAME, "--min", "1MB/s", "--max", "1MB/s"];
            server.control(&slow)?;
            let new = place.drive("c").display().to_string();
            grow(&room, &["--legs", "3", &new])?;
            write(place, &room, &server, "5a", 0, 1 << 10)?;
            server.kill()?;
            keep(place, "a b c", "a b c")
        });
    filled_by_kernel(case, "0..1024 5a 5a 5a, 1024..15360 a5 a5 a5")
}

/// heliostat uses more of larger legs, and the kernel resyncs what is new: legs differed there.
fn larger(
    name: &'static str,
    legs: &'static str,
    options: &'static str,
    old_kib: u64,
    size: &'static str,
) -> Case {
    Case::new(format!("grown-larger-{name}"))
        .legs(legs.split(' ').count(), LEG_BYTES)
        .host(move |place| {
            let room = place.room()?;
            filled(place, &room, legs, options, old_kib)?;
            for path in paths(place, legs) {
                OpenOptions::new()
                    .write(true)
                    .open(path)?
                    .set_len(LARGER_BYTES)?;
            }
            let mut one = OpenOptions::new().write(true).open(place.drive("b"))?;
            one.seek(SeekFrom::Start(20 << 20))?;
            one.write_all(&[0x5a; 1 << 20])?;
            drop(one);
            grow(&room, &["--size", "max"])?;
            keep(place, legs, legs)?;
            // heliostat goes by the bits, which are set from there on.
            let ours = fs::read_to_string(place.drive("assembled"))?;
            let theirs = ours.replace("resync 0", &format!("resync {}", old_kib * 2));
            Ok(fs::write(place.drive("assembled"), theirs)?)
        })
        .guest(
            "examine before
             assemble $legs
             blockdev --getsize64 $md > size
             settle
             echo check > $sys/sync_action
             settle
             cat $sys/mismatch_cnt > mismatches
             stop",
        )
        .host(move |place| {
            agree(place, "before", legs)?;
            agree(place, "after", legs)?;
            agree_on_members(place, legs)?;
            expect("the size", &place.said("size")?, size)?;
            expect("mismatches", &place.said("mismatches")?, "0")
        })
}

/// What heliostat says of a leg, without what differs between any two of them.
fn shape(place: &Place, leg: &str) -> Result<Vec<String>> {
    let told = place.judge(&format!("bytes {leg}"))?;
    let own = [
        "Device UUID",
        "Checksum",
        "Update Time",
        "Events",
        "State",
        "Device Role",
        "Bad Block Log",
        "Bitmap",
        "Array UUID",
        "Filename",
        "UUID",
        "Creation Time",
        "Name",
        "Events Cleared",
    ];
    let is_shape = |line: &&str| {
        let name = line
            .split_once('/')
            .and_then(|(_, rest)| rest.split_once(" : "));
        name.is_some_and(|(name, _)| !own.contains(&name.trim()))
    };
    Ok(told.lines().filter(is_shape).map(str::to_owned).collect())
}

/// One array grows by mdadm, and its copy by heliostat: what they are then is the same.
fn as_mdadm() -> Case {
    Case::new("grown-as-mdadm-does")
        .legs(4, LEG_BYTES)
        .guest(
            "mdadm --create $md --run --level=1 --raid-devices=2 --bitmap=internal \\
                 --bitmap-chunk=4K --data-offset=1M --size=6M --assume-clean $a $b
             fill
             settle
             mdadm --stop $md",
        )
        .host(|place| {
            for (from, to) in [("a", "c"), ("b", "d")] {
                fs::copy(place.drive(from), place.drive(to))?;
            }
            let room = place.room()?;
            let name = ["--name", NAME];
            Server::start(&room, &paths(place, "c d"), &name)?.terminate()?;
            grow(&room, &["--size", "max"])?;
            let server = Server::start(&room, &paths(place, "c d"), &name)?;
            server.control(&["wait", NAME])?;
            server.terminate()?;
            Ok(())
        })
        .guest(
            "mdadm --assemble $md $a $b
             mdadm --grow $md --size=max
             settle
             mdadm --stop $md",
        )
        .host(|place| {
            let (theirs, ours) = (shape(place, "a")?, shape(place, "c")?);
            ensure!(
                theirs == ours,
                "by mdadm: {theirs:?}\n  by heliostat: {ours:?}"
            );
            ensure!(theirs.len() > 10, "{theirs:?}");
            expect(
                "the legs",
                &place.judge("assembly c d")?,
                "c 0 in_sync, d 1 in_sync, resync none",
            )
        })
}

/// mdadm makes an array grow in both ways, and heliostat serves it.
fn by_mdadm() -> Case {
    Case::new("grown-by-mdadm")
        .legs(3, LEG_BYTES)
        .guest(
            "mdadm --create $md --run --level=1 --raid-devices=2 --bitmap=internal \\
                 --data-offset=1M --size=6M --assume-clean $a $b
             mdadm --grow $md --size=max
             settle
             mdadm $md --add $c
             mdadm --grow $md --raid-devices=3
             settle
             fill
             stop",
        )
        .host(|place| {
            agree(place, "after", "a b c")?;
            agree_on_members(place, "a b c")?;
            let room = place.room()?;
            let server = Server::start(&room, &paths(place, "a b c"), &["--name", NAME])?;
            let status = server.control(&["status", NAME])?;
            ensure!(
                status.contains("15 MiB") && status.contains("3 of 3"),
                "{status}"
            );
            write(place, &room, &server, "b5", 12 << 10, 256)?;
            server.terminate()?;
            let copies = "0..12288 a5 a5 a5, 12288..12544 b5 b5 b5, 12544..15360 a5 a5 a5";
            expect("the copies", &place.judge("copies a b c")?, copies)
        })
}

/// A growth that was cut between two superblocks: mdadm wants the legs one by one, and heliostat
/// takes both, after which mdadm does as well.
fn cut_short() -> Case {
    Case::new("grown-and-cut-short")
        .legs(2, LEG_BYTES)
        .host(|place| {
            let room = place.room()?;
            filled(place, &room, "a b", "--level raid1", 15 << 10)?;
            let old = place.drive("old");
            fs::copy(place.drive("b"), &old)?;
            grow(&room, &["--legs", "3"])?;
            fs::copy(&old, place.drive("b"))?;
            fs::remove_file(old).context("removing the copy")
        })
        .guest(
            "! mdadm --assemble --run $md $a $b
             mdadm --stop $md || true",
        )
        .host(|place| {
            let room = place.room()?;
            let options = ["--name", NAME, "--degraded-ok"];
            let server = Server::start(&room, &paths(place, "a b"), &options)?;
            let status = server.control(&["status", NAME])?;
            ensure!(status.contains("2 of 3 legs in sync"), "{status}");
            write(place, &room, &server, "b5", 1024, 256)?;
            server.terminate()?;
            keep(place, "a b", "a b")
        })
        .guest("take_over $a $b")
        .host(|place| {
            let copies = "0..1024 a5 a5 --, 1024..1280 b5 b5 --, 1280..15360 a5 a5 --";
            agree_throughout(place, "a b", copies)
        })
}

/// The line that `heliostat host-config` writes: mdadm leaves the array alone when it sees its
/// legs, and takes it when they are named.
fn ignored() -> Case {
    Case::new("host-config-ignored")
        .legs(2, LEG_BYTES)
        .guest(
            "mdadm --create $md --run --level=1 --raid-devices=2 --assume-clean $legs
             mdadm --stop $md
             uuid=\"$(mdadm --examine $a | sed -n 's/.*Array UUID : //p')\"
             echo DEVICE $legs > seen
             { echo DEVICE $legs; echo \"ARRAY <ignore> UUID=$uuid\"; } > conf
             mdadm --assemble --scan --config=conf > scan 2>&1 || true
             mdadm --incremental --config=conf $a > incremental 2>&1 || true
             mdadm --incremental --config=conf $b >> incremental 2>&1 || true
             holders=\"/sys/class/block/${a##*/}/holders\"
             ls $holders > seen-by-mdadm
             mdadm --assemble --config=conf $md $legs
             ls $holders > named
             mdadm --stop $md
             mdadm --assemble --scan --config=seen
             ls $holders > without
             mdadm --stop /dev/$(ls $holders)",
        )
        .host(|place| {
            expect("who holds the legs", &place.said("seen-by-mdadm")?, "")?;
            for file in ["named", "without"] {
                let holders = place.said(file)?;
                ensure!(holders.starts_with("md"), "{file}: {holders}");
            }
            Ok(())
        })
}
