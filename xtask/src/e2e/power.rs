//! Power cuts: legs whose write caches are lost with the process, which is killed while somebody
//! writes who knows what may be lost.

use std::env;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Test;
use super::arrays::{create_well, ensure_clean, ensure_same_data, examined, wait_until_clean};
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};
use crate::process::{self, Background};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "power_raw",
        about: "power cuts under raw legs: what was flushed is on both, some of the rest is not",
        run: raw,
    },
    Test {
        name: "power_raid1",
        about: "power cuts under RAID1: what was flushed is read; resynced, legs equal",
        run: |room| array(room, 2, &["--level", "raid1"], rounds(ROUNDS)?),
    },
    Test {
        name: "power_raid10",
        about: "the same as RAID10 on four legs",
        run: |room| {
            let options = ["--level", "raid10", "--layout", "near=2", "--chunk", "64K"];
            array(room, 4, &options, rounds(ROUNDS / 3)?)
        },
    },
];

/// How often the power of an array is cut, where nothing else is asked for: a second or two each.
const ROUNDS: u32 = 30;

/// How often the power of raw legs is cut.
const RAW_ROUNDS: u32 = 4;

/// After how many rounds an array is looked at in peace, and the next one made.
const ARRAY_ROUNDS: u32 = 6;

/// How many rounds there are instead.
const ROUNDS_VARIABLE: &str = "HELIOSTAT_POWER_ROUNDS";

/// What all chances follow from, but for time; another number makes another test.
pub(super) const SEED_VARIABLE: &str = "HELIOSTAT_POWER_SEED";

/// The longest times from the first write until the power is cut: while most bits of the bitmap are
/// set, or after many flushes and some rests.
const WRITING_TIMES_MAX_MS: [u64; 2] = [60, 900];

/// How long the client may take to have read everything, and to end.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(60);

pub(super) fn rounds(otherwise: u32) -> Result<u32> {
    match env::var(ROUNDS_VARIABLE) {
        Err(_) => Ok(otherwise),
        Ok(text) => text
            .parse()
            .with_context(|| format!("{ROUNDS_VARIABLE} is a number, not '{text}'")),
    }
}

pub(super) fn first_seed() -> Result<u64> {
    let text = env::var(SEED_VARIABLE).unwrap_or_else(|_| "1".to_owned());
    text.parse()
        .with_context(|| format!("{SEED_VARIABLE} is a number, not '{text}'"))
}

/// A number below `bound` that follows from `seed`.
pub(super) fn chance(seed: u64, bound: u64) -> u64 {
    // One step of Knuth's MMIX generator from a spread seed: nothing more is at stake.
    let mixed = (seed ^ (seed >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mixed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (mixed >> 33) % bound
}

/// The legs of one round, on these files.
pub(super) fn volatile_legs(files: &[String], seed: u64) -> Vec<String> {
    let leg = |(index, file)| {
        let drive = ["ssd-sata-256gb", "nvme-gen3"][index % 2];
        let seed = seed * 16 + index as u64;
        let torn = ["logical", "physical"][usize::from(seed.is_multiple_of(3))];
        format!("model:{drive},file={file},cache=volatile,cache-size=4m,torn={torn},seed={seed}")
    };
    files.iter().enumerate().map(leg).collect()
}

/// The script with the client that knows what may be lost.
fn script(room: &Room, mode: &str, seed: u64) -> Result<Command> {
    let script = room.path("power_cuts.py");
    fs::write(&script, include_str!("power_cuts.py"))?;
    let mut command = room.command("nbdsh", &["-n", "-c", "exec(open('power_cuts.py').read())"]);
    command
        // nbdsh takes the first python3 of the path, which need not be the one with libnbd.
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("MODE", mode)
        .env("STATE", room.path("power.state"))
        .env("SEED", seed.to_string());
    Ok(command)
}

/// Serves `legs`, lets the client check and write, and cuts the power; gives what the client found.
fn round(room: &Room, legs: &[String], options: &[&str], seed: u64) -> Result<u64> {
    let server = Server::start(room, legs, options)?;
    let log = room.path("client.log");
    let mut command = script(room, "use", seed)?;
    let mut client = Background::start(command.env("URI", server.uri()), &log)?;
    // Sometimes while it still reads, and a resync is on its way.
    let waits_for = if chance(seed, 4) == 0 {
        "connected"
    } else {
        "checked"
    };
    process::wait_until("the client", CLIENT_TIME_MAX, || {
        let said = client.said()?;
        ensure!(client.is_running()?, "the client ended: {said}");
        Ok(said.contains(waits_for))
    })?;
    let most_ms = WRITING_TIMES_MAX_MS[usize::from(chance(seed + 1, 2) == 0)];
    let writing_ms = chance(seed + 2, most_ms);
    thread::sleep(Duration::from_millis(writing_ms));
    server.kill()?;
    let status = client.wait(CLIENT_TIME_MAX)?;
    let said = client.said()?;
    ensure!(status.success(), "the client ended with {status}: {said}");
    lost(&said)
}

/// How many sectors lack what was answered and not flushed, by what the client said.
fn lost(said: &str) -> Result<u64> {
    let Some(line) = said.lines().find(|line| line.starts_with('{')) else {
        return Ok(0);
    };
    let counts: serde_json::Value = serde_json::from_str(line)?;
    counts["lost"].as_u64().context("a count of lost sectors")
}

fn raw(room: &Room) -> Result<()> {
    room.require_tools(&["nbdsh"])?;
    let mut lost_count = 0;
    let first = first_seed()?;
    for seed in first..first + u64::from(rounds(RAW_ROUNDS)?) {
        let files = [0, 1].map(|index| legs::sparse_file(room, index));
        let files = files.into_iter().collect::<Result<Vec<_>>>()?;
        forget(room)?;
        let legs = volatile_legs(&files, seed);
        // What another round left behind is not believed.
        let told = || format!("power cut with {SEED_VARIABLE}={seed}");
        round(room, &legs, &["--assume-clean"], seed).with_context(told)?;
        let mut command = script(room, "legs", seed)?;
        command.env("LEGS", files.join(":")).env("OFFSET", "0");
        lost_count += lost(&process::succeed(&mut command).with_context(told)?)?;
        let server = Server::start(room, &legs, &["--copy-from", &legs[1]])?;
        let mut command = script(room, "read", seed)?;
        process::succeed(command.env("URI", server.uri())).with_context(told)?;
        server.terminate()?;
        legs::ensure_equal(&files).with_context(told)?;
    }
    ensure!(lost_count > 0, "nothing was lost: the power was never cut");
    Ok(())
}

/// Cuts the power of arrays again and again.
fn array(room: &Room, leg_count: usize, options: &[&str], rounds: u32) -> Result<()> {
    room.require_tools(&["nbdsh", "mdadm"])?;
    let first = first_seed()?;
    let mut files = Vec::new();
    let mut lost_count = 0;
    for number in 0..rounds {
        let seed = first + u64::from(number);
        let told = || format!("power cut {number} with {SEED_VARIABLE}={first}");
        if number % ARRAY_ROUNDS == 0 {
            files = new_array(room, leg_count, options, seed).with_context(told)?;
        }
        let legs = if number % 3 == 0 {
            vec![NAME.to_owned()]
        } else {
            volatile_legs(&files, seed)
        };
        lost_count += round(room, &legs, &[], seed).with_context(told)?;
        ensure_sane(room, &files).with_context(told)?;
        if (number + 1) % ARRAY_ROUNDS == 0 || number + 1 == rounds {
            peace(room, &files, seed).with_context(|| format!("after {}", told()))?;
        }
    }
    ensure!(lost_count > 0, "nothing was lost: the power was never cut");
    Ok(())
}

/// Makes an array of zeros whose legs are equal, and gives their files.
fn new_array(room: &Room, leg_count: usize, options: &[&str], seed: u64) -> Result<Vec<String>> {
    forget(room)?;
    let files = (0..leg_count).map(|index| legs::sparse_file(room, index));
    let files = files.collect::<Result<Vec<_>>>()?;
    // In most rounds chunks are written to whose bits are not set.
    let more = ["--assume-clean", "--bitmap-chunk", "64K"];
    create_well(
        room,
        &volatile_legs(&files, seed),
        &[options, &more].concat(),
    )?;
    Ok(files)
}

/// Lets the client begin with zeros everywhere.
pub(super) fn forget(room: &Room) -> Result<()> {
    let state = room.path("power.state");
    if state.exists() {
        fs::remove_file(state)?;
    }
    Ok(())
}

/// What mdadm says of legs whose power was cut: it could assemble them.
fn ensure_sane(room: &Room, files: &[String]) -> Result<()> {
    let mut all_events = Vec::new();
    for file in files {
        let state = examined(room, file, "State")?;
        ensure!(["active", "clean"].contains(&&*state), "{file} is {state}");
        let checksum = examined(room, file, "Checksum")?;
        ensure!(checksum.ends_with("correct"), "{file}: {checksum}");
        let of_all = examined(room, file, "Array State")?;
        let of_all = of_all.split(' ').next().unwrap_or_default();
        ensure!(of_all.chars().all(|one| one == 'A'), "{file}: {of_all}");
        all_events.push(examined(room, file, "Events")?.parse::<u64>()?);
    }
    let (least, most) = (all_events.iter().min(), all_events.iter().max());
    let is_together = least
        .zip(most)
        .is_some_and(|(least, most)| most - least <= 1);
    ensure!(is_together, "the legs are at events {all_events:?}");
    Ok(())
}

/// Serves the array until it is clean, reads it before and after, and compares the legs.
fn peace(room: &Room, files: &[String], seed: u64) -> Result<()> {
    let server = Server::start(room, &[NAME.to_owned()], &[])?;
    let read = || -> Result<()> {
        let mut command = script(room, "read", seed)?;
        process::succeed(command.env("URI", server.uri()))?;
        Ok(())
    };
    read()?;
    wait_until_clean(room, files)?;
    // What was read once is read again, whichever leg it comes from now.
    read()?;
    server.terminate()?;
    ensure_clean(room, files)?;
    // A mirror of two, or the pairs of a RAID10 with near copies.
    for pair in files.chunks(2) {
        ensure_same_data(room, pair)?;
    }
    Ok(())
}
