//! Arrays that heliostat makes and serves, in turn with the kernel.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::agreement::{agree_throughout, expect, keep};
use super::case::{Case, Place};
use crate::e2e::room::Room;
use crate::e2e::server::{NAME, Server};
use crate::process;

/// The size of the legs, of which the array leaves 1 MiB to the metadata.
pub(super) const LEG_BYTES: u64 = 16 << 20;

/// How long bits may take to be cleared: ten to fifteen seconds, and more on a busy machine.
const CLEAR_TIME_MAX: Duration = Duration::from_secs(60);

/// An array that heliostat makes, fills and stops, the kernel goes on with, and heliostat reads.
struct Served {
    name: &'static str,
    legs: &'static str,
    create: &'static str,
    /// How large it is, in KiB.
    size_kib: u64,
    /// How many copies there are.
    copies: usize,
}

const SERVED: &[Served] = &[
    Served {
        name: "mirror-of-2",
        legs: "a b",
        create: "--level raid1",
        size_kib: 15 << 10,
        copies: 2,
    },
    Served {
        name: "mirror-of-3",
        legs: "a b c",
        create: "--level raid1 --bitmap none",
        size_kib: 15 << 10,
        copies: 3,
    },
    Served {
        name: "mirror-of-4",
        legs: "a b c d",
        create: "--level raid1 --bitmap-chunk 64K --write-mostly ./d",
        size_kib: 15 << 10,
        copies: 4,
    },
    Served {
        name: "mirror-of-16",
        legs: "a b c d e f g h i j k l m n o p",
        create: "--level raid1",
        size_kib: 15 << 10,
        copies: 16,
    },
    Served {
        name: "near-2-of-3",
        legs: "a b c",
        create: "--level raid10 --layout near=2 --chunk 64K",
        size_kib: 240 * 64 * 3 / 2,
        copies: 2,
    },
    Served {
        name: "near-3-of-4",
        legs: "a b c d",
        create: "--level raid10 --layout near=3 --chunk 64K",
        size_kib: 240 * 64 * 4 / 3,
        copies: 3,
    },
    Served {
        name: "far-2-of-4",
        legs: "a b c d",
        create: "--level raid10 --layout far=2 --chunk 64K",
        size_kib: 240 * 64 * 2,
        copies: 2,
    },
    Served {
        name: "fine-bitmap",
        legs: "a b",
        create: "--level raid1 --bitmap-chunk 4K",
        size_kib: 15 << 10,
        copies: 2,
    },
    Served {
        name: "near-3-of-5",
        legs: "a b c d e",
        create: "--level raid10 --layout near=3 --chunk 64K --bitmap-chunk 128M",
        size_kib: 240 * 64 * 5 / 3,
        copies: 3,
    },
    Served {
        name: "far-3-of-5",
        legs: "a b c d e",
        create: "--level raid10 --layout far=3 --chunk 64K --bitmap none",
        size_kib: 240 * 64 * 5 / 3,
        copies: 3,
    },
    Served {
        name: "offset-3-of-5",
        legs: "a b c d e",
        create: "--level raid10 --layout offset=3 --chunk 4K",
        size_kib: 3840 * 4 * 5 / 3,
        copies: 3,
    },
    Served {
        name: "offset-2-of-4",
        legs: "a b c d",
        create: "--level raid10 --layout offset=2 --chunk 64K",
        size_kib: 240 * 64 * 2,
        copies: 2,
    },
];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let served = SERVED.iter().map(served);
    served
        .chain([killed(), failed(), taken_over()])
        .map(Case::with_program)
        .collect()
}

fn served(served: &'static Served) -> Case {
    let Served {
        name,
        legs,
        create: options,
        size_kib,
        copies,
    } = *served;
    Case::new(format!("served-{name}"))
        .legs(legs.split(' ').count(), LEG_BYTES)
        .host(move |place| {
            let room = place.room()?;
            create(place, &room, legs, options)?;
            let server = Server::start(&room, &paths(place, legs), &[])?;
            write(place, &room, &server, "a5", 0, size_kib)?;
            write(place, &room, &server, "b5", 1024, 256)?;
            server.terminate()?;
            keep(place, legs, legs)
        })
        .guest(
            "examine before
             assemble $legs
             settle
             rewrite 2048 256
             stop",
        )
        .host(move |place| {
            let runs = [
                (0, "a5"),
                (1024, "b5"),
                (1280, "a5"),
                (2048, "b5"),
                (2304, "a5"),
            ];
            let ends = runs.iter().skip(1).map(|run| run.0).chain([size_kib]);
            let lines = runs.iter().zip(ends);
            let lines: Vec<_> = lines
                .map(|((start, tag), end)| (format!("{start}..{end}"), *tag))
                .collect();
            let told = |copies: usize| {
                let lines = lines.iter().map(|(range, tag)| {
                    let tags = vec![*tag; copies].join(" ");
                    format!("{range} {tags}")
                });
                lines.collect::<Vec<_>>().join(", ")
            };
            agree_throughout(place, legs, &told(copies))?;
            // And what clients of heliostat see of it.
            let room = place.room()?;
            let server = Server::start(&room, &paths(place, legs), &[])?;
            let array = room.path_text("array");
            let convert = ["convert", "-f", "raw", "-O", "raw"];
            room.run(
                "qemu-img",
                &[&convert[..], &[&server.uri(), &array]].concat(),
            )?;
            server.terminate()?;
            expect(
                "the array",
                &place.judge(&format!("tags {array}"))?,
                &told(1),
            )
        })
}

/// Killed while chunks 16 to 19 were written: the kernel makes these equal, and no others.
fn killed() -> Case {
    Case::new("served-and-killed")
        .legs(2, LEG_BYTES)
        .host(|place| {
            let room = place.room()?;
            let server = filled(place, &room)?;
            write(place, &room, &server, "b5", 1024, 256)?;
            server.kill()?;
            ensure_bits(place, "bits/16 17 18 19")?;
            place.judge("differ 17,40 a b")?;
            keep(place, "a b", "a b")
        })
        .guest("take_over $a $b")
        .host(|place| agree_throughout(place, "a b", WRITTEN))
}

/// A leg failed while heliostat served the array: the kernel leaves it out, and copies what the
/// bitmap knows of when it comes back.
fn failed() -> Case {
    Case::new("served-and-a-leg-failed")
        .legs(2, LEG_BYTES)
        .host(|place| {
            let room = place.room()?;
            let server = filled(place, &room)?;
            server.control(&["fail", NAME, "1"])?;
            write(place, &room, &server, "b5", 1024, 256)?;
            server.terminate()?;
            ensure_bits(place, "bits/16 17 18 19")?;
            place.judge("differ 40 a b")?;
            keep(place, "a b", "a b")
        })
        .guest(
            "examine before
             assemble $a $b
             mdadm $md --remove faulty
             mdadm $md --re-add $b
             settle
             stop",
        )
        .host(|place| agree_throughout(place, "a b", WRITTEN))
}

/// The power is lost while the kernel has an array, heliostat writes to it and is killed, and the
/// kernel takes it back: the chunks with bits are equal then, whoever made them so. A look at all
/// data finds only the others that were made to differ.
fn taken_over() -> Case {
    Case::new("served-after-a-crash")
        .legs(2, LEG_BYTES)
        .guest(
            "mdadm --create $md --run --level=1 --raid-devices=2 --bitmap=internal \
                 --bitmap-chunk=64K --delay=600 --data-offset=1M --assume-clean $legs
             fill
             mdadm --stop $md
             assemble $legs
             echo 0 > $sys/safe_mode_delay
             rewrite 1024 256",
        )
        .host(|place| {
            ensure_bits(place, "bits/16 17 18 19")?;
            place.judge("differ 17,40 a b")?;
            let room = place.room()?;
            let server = Server::start(&room, &paths(place, "a b"), &["--name", NAME])?;
            write(place, &room, &server, "b5", 2048, 256)?;
            server.kill()?;
            keep(place, "a b", "a b")
        })
        .guest(
            "examine before
             assemble $legs
             settle
             echo check > $sys/sync_action
             settle
             cat $sys/mismatch_cnt > mismatches
             stop",
        )
        .host(|place| {
            let copies = "0..1024 a5 a5, 1024..1280 b5 b5, 1280..2048 a5 a5, 2048..2304 b5 b5, \
                          2304..2560 a5 a5, 2560..2624 a5 a6, 2624..15360 a5 a5";
            agree_throughout(place, "a b", copies)?;
            // In sectors, of a region of 64 KiB.
            expect("mismatches", &place.said("mismatches")?, "128")
        })
}

/// What a mirror of two has when chunks 16 to 19 were written, and region 40 was made to differ.
pub(super) const WRITTEN: &str = "0..1024 a5 a5, 1024..1280 b5 b5, 1280..2560 a5 a5, \
                                  2560..2624 a5 a6, 2624..15360 a5 a5";

/// Makes a mirror of two, serves it, and fills it; its bits are cleared then.
pub(super) fn filled<'a>(place: &Place, room: &'a Room) -> Result<Server<'a>> {
    create(place, room, "a b", "--level raid1 --bitmap-chunk 64K")?;
    let server = Server::start(room, &paths(place, "a b"), &[])?;
    write(place, room, &server, "a5", 0, LEG_BYTES / 1024 - 1024)?;
    process::wait_until("bits to be cleared", CLEAR_TIME_MAX, || {
        Ok(ensure_bits(place, "bits/").is_ok())
    })?;
    Ok(server)
}

/// Makes an array of the case's legs, which are taken for equal.
pub(super) fn create(place: &Place, room: &Room, legs: &str, options: &str) -> Result<()> {
    make(place, room, legs, &format!("--assume-clean {options}"))
}

/// Makes an array of the case's legs.
pub(super) fn make(place: &Place, room: &Room, legs: &str, options: &str) -> Result<()> {
    let control = room.path_text("control");
    let paths = paths(place, legs);
    let words = ["create", NAME, "--control-dir", &control];
    // Legs are named by their whole paths, in options as well.
    let options = options
        .split(' ')
        .map(|word| match word.strip_prefix("./") {
            Some(leg) => place.drive(leg).display().to_string(),
            None => word.to_owned(),
        });
    let options: Vec<String> = options.collect();
    let words = words.into_iter();
    let words = words.chain(paths.iter().chain(&options).map(String::as_str));
    let program = room.program.display().to_string();
    room.run(&program, &words.collect::<Vec<_>>())?;
    Ok(())
}

/// The files that are these legs; a leg that is missing is called so.
pub(super) fn paths(place: &Place, legs: &str) -> Vec<String> {
    let path = |leg| match leg {
        "missing" => leg.to_owned(),
        leg => place.drive(leg).display().to_string(),
    };
    legs.split(' ').map(path).collect()
}

/// Writes the pattern with a tag to so many KiB of an array.
pub(super) fn write(
    place: &Place,
    room: &Room,
    server: &Server<'_>,
    tag: &str,
    from: u64,
    count: u64,
) -> Result<()> {
    let piece = place.drive("piece");
    place.judge(&format!("piece piece {tag} {from} {count}"))?;
    let command = format!("write -s {} {from}k {count}k", piece.display());
    let words = ["-f", "raw", "-c", &command, "-c", "flush", &server.uri()];
    let said = room.run("qemu-io", &words)?;
    ensure!(said.contains("wrote"), "qemu-io: {said}");
    fs::remove_file(piece).context("removing the piece")
}

/// The first leg has these bits.
fn ensure_bits(place: &Place, expected: &str) -> Result<()> {
    let told = place.judge("bytes a")?;
    let bits: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("bits/"))
        .collect();
    expect("the bits", &bits.join("\n"), expected)
}
