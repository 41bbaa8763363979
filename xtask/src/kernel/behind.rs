//! Arrays with write-behind and legs that fail fast, made by one side and used by the other.

use anyhow::ensure;

use super::agreement::{agree_throughout, expect, keep};
use super::case::Case;
use super::served::{LEG_BYTES, create, paths, write};
use crate::e2e::server::{NAME, Server};

/// What the kernel says of the flags of the legs and of how many writes may be behind.
const FLAGS: &str =
    "cat $sys/dev-${a##*/}/state $sys/dev-${b##*/}/state $sys/bitmap/backlog > flags";

/// And what that is here.
const LIMITS: &str = "in_sync,failfast, in_sync,write_mostly,failfast, 64";

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    [made_here(), made_by_mdadm()]
        .map(Case::with_program)
        .into()
}

/// Made and written to by heliostat: to mdadm and the kernel it is what mdadm would have made.
fn made_here() -> Case {
    Case::new("behind-made-by-heliostat")
        .legs(2, LEG_BYTES)
        .host(|place| {
            let room = place.room()?;
            let options = "--level raid1 --bitmap-chunk 64K --write-behind 64 --write-mostly ./b \
                           --failfast all";
            create(place, &room, "a b", options)?;
            let server = Server::start(&room, &paths(place, "a b"), &[])?;
            write(place, &room, &server, "a5", 0, 15 << 10)?;
            write(place, &room, &server, "b5", 1024, 256)?;
            server.terminate()?;
            keep(place, "a b", "a b")
        })
        .guest(format!(
            "examine before
             assemble $legs
             {FLAGS}
             settle
             rewrite 2048 256
             stop"
        ))
        .host(|place| {
            expect("flags and limit", &place.said("flags")?, LIMITS)?;
            let copies = "0..1024 a5 a5, 1024..1280 b5 b5, 1280..2048 a5 a5, 2048..2304 b5 b5, \
                          2304..15360 a5 a5";
            agree_throughout(place, "a b", copies)
        })
}

/// Made by mdadm, served and killed with writes behind: the kernel makes the legs equal.
fn made_by_mdadm() -> Case {
    Case::new("behind-made-by-mdadm")
        .legs(2, LEG_BYTES)
        .guest(
            "mdadm --create $md --run --level=1 --raid-devices=2 --bitmap=internal \
                 --bitmap-chunk=64K --data-offset=1M --write-behind=64 --failfast \
                 --assume-clean $a --write-mostly $b
             fill
             stop",
        )
        .host(|place| {
            let room = place.room()?;
            let server = Server::start(&room, &paths(place, "a b"), &["--name", NAME])?;
            let told = server.control(&["status", NAME])?;
            let lines = ["0 of 64 writes", "in-sync, write-mostly, failfast"];
            for line in lines {
                ensure!(told.contains(line), "no '{line}' in:\n{told}");
            }
            write(place, &room, &server, "b5", 1024, 256)?;
            server.kill()?;
            keep(place, "a b", "a b")
        })
        .guest(format!(
            "examine before
             assemble $legs
             {FLAGS}
             settle
             stop"
        ))
        .host(|place| {
            expect("flags and limit", &place.said("flags")?, LIMITS)?;
            let copies = "0..1024 a5 a5, 1024..1280 b5 b5, 1280..15360 a5 a5";
            agree_throughout(place, "a b", copies)
        })
}
