//! Arrays that heliostat left by `kill -9` under fio, on legs that lost their write caches: the
//! kernel assembles them, resyncs them, and reads what was flushed.

use std::fs;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};

use super::agreement::{agree, agree_on_members, keep};
use super::case::{Case, Place, UNSHARED};
use super::served::{LEG_BYTES, make, paths};
use crate::e2e::attack::{self, Journal, Kept};
use crate::e2e::server::{NAME, Server};

/// An array that is killed: its name, its legs, how it is made, and the seed of its end.
type Killed = (&'static str, &'static str, &'static str, u64);

const KILLED: &[Killed] = &[
    ("mirror", "a b", "--level raid1 --bitmap-chunk 64K", 1),
    (
        "mirror-without-bitmap",
        "a b c",
        "--level raid1 --bitmap none",
        2,
    ),
    (
        "write-behind",
        "a b",
        "--level raid1 --bitmap-chunk 64K --write-behind 64 --write-mostly ./b",
        3,
    ),
    (
        "near-2-of-3",
        "a b c",
        "--level raid10 --layout near=2 --chunk 64K --bitmap-chunk 64K",
        4,
    ),
    (
        "far-2-of-3",
        "a b c",
        "--level raid10 --layout far=2 --chunk 16K --bitmap-chunk 64K",
        5,
    ),
];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    KILLED.iter().map(killed).map(Case::with_program).collect()
}

fn killed(killed: &'static Killed) -> Case {
    let (name, legs, options, seed) = *killed;
    let journal = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&journal);
    Case::new(format!("killed-{name}"))
        .legs(legs.split(' ').count(), LEG_BYTES)
        .host(move |place| {
            let journal = attacked(place, legs, options, seed)?;
            *kept.lock().expect(UNSHARED) = Some(journal);
            keep(place, legs, legs)
        })
        .guest(
            "examine before
             assemble $legs
             save array
             settle
             [ \"$(digest)\" = \"$(md5sum < array)\" ]
             echo check > $sys/sync_action
             settle
             [ \"$(cat $sys/mismatch_cnt)\" = 0 ]
             stop",
        )
        .host(move |place| {
            agree(place, "before", legs)?;
            agree(place, "after", legs)?;
            agree_on_members(place, legs)?;
            let found = fs::read(place.drive("results/array"))?;
            let journal = journal.lock().expect(UNSHARED);
            let journal: &Journal = journal.as_ref().context("the kill comes first")?;
            journal.check(&vec![0; found.len()], &found)?;
            // And heliostat reads what the kernel left, and the part that fio verifies by itself.
            let room = place.room()?;
            let server = Server::start(&room, &paths(place, legs), &["--name", NAME])?;
            attack::verify_settled(&room, &server.uri(), found.len(), seed)?;
            server.terminate()?;
            Ok(())
        })
}

/// Makes an array of zeros, and kills it under fio.
fn attacked(place: &Place, legs: &str, options: &str, seed: u64) -> Result<Journal> {
    let room = place.room()?;
    make(place, &room, legs, &format!("--assume-clean {options}"))?;
    let cached = paths(place, legs).into_iter().map(|path| {
        format!("model:nvme-gen3,file={path},cache=volatile,cache-size=4m,seed={seed}")
    });
    let cached: Vec<String> = cached.collect();
    let server = Server::start(&room, &cached, &["--name", NAME])?;
    let status: serde_json::Value =
        serde_json::from_str(&server.control(&["status", NAME, "--json"])?)?;
    let size = status["size_bytes"].as_u64().context("a size")?;
    attack::run(&room, server, usize::try_from(size)?, Kept::Flushed, seed)
}
