//! Rebuilds of the kernel that heliostat takes over in the middle, and legs that were away.
//!
//! Whether one goes on where the other had come is seen in two regions that are made to differ in
//! between: one below that place stays as it is, and one above is copied.

use std::time::Duration;

use anyhow::Result;

use super::agreement::{agree, agree_throughout, expect, keep};
use super::case::{Case, Place};
use super::served::{WRITTEN, filled, paths};
use crate::e2e::server::{NAME, Server};
use crate::process;

/// The size of the legs, of which the array leaves 1 MiB to the metadata.
const LEG_BYTES: u64 = 16 << 20;

/// How long a rebuild may take, on a busy machine.
const REBUILD_TIME_MAX: Duration = Duration::from_secs(60);

/// What both have when the leg is in sync: region 1 lies below the place where the second one went
/// on, and region 230 above.
const CONTINUED: &str = "0..64 a5 a5, 64..128 a5 a6, 128..15360 a5 a5";

/// Waits in the guest until the kernel has rebuilt a third of the leg, slowly.
const SLOWLY: &str = "echo 1 > $sys/sync_speed_min
     echo 2000 > $sys/sync_speed_max
     mdadm $md --add $b
     until grep -q \"Recovery Offset\" b.now \\
         && [ \"$(sed -n 's/.*Recovery Offset : \\([0-9]*\\) .*/\\1/p' b.now)\" -ge 10000 ]; do
         sleep 0.1
         mdadm --examine $b > b.now
     done
     mdadm --stop $md
     examine before";

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let cases = [handed_over(), returned()];
    cases.into_iter().map(Case::with_program).collect()
}

/// heliostat goes on with a rebuild of the kernel that was stopped.
fn handed_over() -> Case {
    Case::new("rebuilt-by-heliostat")
        .legs(2, LEG_BYTES)
        .guest(format!(
            "mdadm --create $md --run --level=1 --raid-devices=2 --bitmap=internal \
                 --bitmap-chunk=64K --delay=600 --data-offset=1M $a missing
             fill
             {SLOWLY}"
        ))
        .host(|place| {
            agree(place, "before", "a b")?;
            place.judge("differ 1,230 a b")?;
            serve_until_in_sync(place, CONTINUED)
        })
        .guest("take_over $legs")
        .host(|place| agree_throughout(place, "a b", CONTINUED))
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
            serve_until_in_sync(place, WRITTEN)
        })
        .guest("take_over $legs")
        .host(|place| agree_throughout(place, "a b", WRITTEN))
}

/// Serves the array until both legs are in sync, with these copies then.
fn serve_until_in_sync(place: &Place, copies: &str) -> Result<()> {
    let room = place.room()?;
    let options = ["--name", NAME, "--degraded-ok"];
    let server = Server::start(&room, &paths(place, "a b"), &options)?;
    process::wait_until("both legs in sync", REBUILD_TIME_MAX, || {
        let said = server.control(&["status", NAME])?;
        Ok(said.contains("2 of 2 legs in sync"))
    })?;
    server.terminate()?;
    expect("the copies", &place.judge("copies a b")?, copies)?;
    keep(place, "a b", "a b")
}
