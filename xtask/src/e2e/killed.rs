//! `kill -9` under fio, again and again: what was answered or flushed is there, what is read once
//! stays, and legs become equal.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Test;
use super::arrays::{create_well, ensure_clean, ensure_same_data, wait_until_clean};
use super::attack::{self, Kept};
use super::legs;
use super::power::{SEED_VARIABLE, chance, first_seed, forget, rounds, volatile_legs};
use super::room::Room;
use super::server::{NAME, Server};
use crate::process;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "killed_files",
        about: "kill -9 under fio of any depth, legs in files: what was answered is there",
        run: |room| again(room, Kept::Answered),
    },
    Test {
        name: "killed_caches",
        about: "the same with legs that lose their caches: what was flushed is there",
        run: |room| again(room, Kept::Flushed),
    },
];

/// How often an array is killed, where nothing else is asked for: two seconds each. On a busy
/// machine it is less often, but each of three arrays once.
const ROUNDS: u32 = 15;
const TIME_MAX: Duration = Duration::from_secs(30);

/// After how many rounds another array is made.
const ARRAY_ROUNDS: u32 = 3;

/// How long a scrub of these small legs may take.
const SCRUB_TIME_MAX: Duration = Duration::from_secs(60);

/// An array: how many legs, how it is made, and whether it is a mirror.
type Shape = (usize, &'static [&'static str], bool);

const SHAPES: &[Shape] = &[
    (2, &["--level", "raid1", "--bitmap-chunk", "64K"], true),
    (
        3,
        &["--level", "raid10", "--layout", "near=2", "--chunk", "64K"],
        false,
    ),
    (3, &["--level", "raid1", "--bitmap", "none"], true),
    (
        4,
        &["--level", "raid10", "--layout", "far=2", "--chunk", "16K"],
        false,
    ),
    (
        3,
        &[
            "--level",
            "raid10",
            "--layout",
            "offset=2",
            "--bitmap-chunk",
            "4K",
        ],
        false,
    ),
    (
        2,
        &[
            "--level",
            "raid1",
            "--write-behind",
            "64",
            "--write-mostly",
            "last",
        ],
        true,
    ),
];

/// An array that is killed in each round.
struct Victim<'a> {
    room: &'a Room,
    kept: Kept,
    is_mirror: bool,
    files: Vec<String>,
    /// What it holds.
    bytes: Vec<u8>,
}

fn again(room: &Room, kept: Kept) -> Result<()> {
    room.require_tools(&["fio", "mdadm", "qemu-img"])?;
    let first = first_seed()?;
    let (mut durable, mut lost, mut done) = (0, 0, 0);
    let mut victim = None;
    // Both tests together see all of them.
    let first_shape = if kept == Kept::Flushed { 3 } else { 0 };
    let (count, start) = (rounds(ROUNDS)?, Instant::now());
    for number in 0..count {
        let has_seen_its_shapes = number > 2 * ARRAY_ROUNDS;
        if count == ROUNDS && has_seen_its_shapes && start.elapsed() > TIME_MAX {
            break;
        }
        let seed = first + u64::from(number);
        let told = || format!("kill {number} with {SEED_VARIABLE}={first}");
        if number % ARRAY_ROUNDS == 0 {
            let shape = SHAPES[(first_shape + number / ARRAY_ROUNDS) as usize % SHAPES.len()];
            victim = Some(Victim::new(room, kept, shape, seed).with_context(told)?);
        }
        let victim = victim.as_mut().context("the first round makes one")?;
        let seen = victim.round(seed).with_context(told)?;
        durable += seen.durable;
        lost += seen.lost;
        done += 1;
    }
    ensure!(durable > 0, "nothing had to be there");
    let has_caches = kept == Kept::Flushed;
    ensure!(lost > 0 || !has_caches, "no cache was ever lost");
    println!("     killed {done} times, and all of {durable} sectors were there");
    Ok(())
}

impl<'a> Victim<'a> {
    /// One of zeros, whose legs are equal.
    fn new(room: &'a Room, kept: Kept, shape: Shape, seed: u64) -> Result<Self> {
        let (count, options, is_mirror) = shape;
        forget(room)?;
        let files = (0..count).map(|index| legs::sparse_file(room, index));
        let mut victim = Self {
            room,
            kept,
            is_mirror,
            files: files.collect::<Result<_>>()?,
            bytes: Vec::new(),
        };
        let named = victim.legs(seed);
        let last = named.last().context("there are legs")?;
        let options = options.iter().map(|word| match *word {
            "last" => last.as_str(),
            word => word,
        });
        let options: Vec<&str> = ["--assume-clean"].into_iter().chain(options).collect();
        create_well(room, &named, &options)?;
        let server = victim.serve(seed)?;
        victim.bytes = victim.read(&server)?;
        server.terminate()?;
        Ok(victim)
    }

    fn legs(&self, seed: u64) -> Vec<String> {
        match self.kept {
            Kept::Answered => self.files.clone(),
            Kept::Flushed => volatile_legs(&self.files, seed),
        }
    }

    fn serve(&self, seed: u64) -> Result<Server<'a>> {
        Server::start(self.room, &self.legs(seed), &["--name", NAME])
    }

    fn read(&self, server: &Server<'_>) -> Result<Vec<u8>> {
        let image = self.room.path_text("image");
        let uri = server.uri();
        let words = ["convert", "-f", "raw", "-O", "raw", &uri, &image];
        self.room.run("qemu-img", &words)?;
        fs::read(Path::new(&image)).context("what was read")
    }

    /// Kills it while fio writes, and looks at what is left: by turns at once, with another kill
    /// behind it, or until all legs are equal.
    fn round(&mut self, seed: u64) -> Result<attack::Seen> {
        let (room, size) = (self.room, self.bytes.len());
        let server = self.serve(seed)?;
        let journal = attack::run(room, server, size, self.kept, seed)?;
        let server = self.serve(seed + 1)?;
        let found = self.read(&server)?;
        let seen = journal.check(&self.bytes, &found)?;
        self.bytes = found;
        attack::verify_settled(room, &server.uri(), size, seed)?;
        if chance(seed + 6, 3) == 0 {
            server.kill()?;
            let server = self.serve(seed + 2)?;
            self.ensure_same(&server).context("after another kill")?;
            return server.kill().map(|()| seen);
        }
        wait_until_clean(room, &self.files)?;
        self.ensure_same(&server).context("after the resync")?;
        scrub(&server)?;
        attack::verify_settled(room, &server.uri(), size, seed)?;
        server.terminate()?;
        ensure_clean(room, &self.files)?;
        if self.is_mirror {
            ensure_same_data(room, &self.files)?;
        }
        Ok(seen)
    }

    /// What was read once is read again.
    fn ensure_same(&self, server: &Server<'_>) -> Result<()> {
        let found = self.read(server)?;
        let differs = self
            .bytes
            .iter()
            .zip(&found)
            .position(|(one, other)| one != other);
        ensure!(
            differs.is_none(),
            "byte {differs:?} was something else before"
        );
        Ok(())
    }
}

/// Reads all legs, and finds no difference.
fn scrub(server: &Server<'_>) -> Result<()> {
    server.control(&["scrub", NAME, "check"])?;
    process::wait_until("the check", SCRUB_TIME_MAX, || {
        Ok(server.said()?.contains("check: done;"))
    })?;
    let said = server.said()?;
    ensure!(said.contains("check: done; no sector differs"), "{said}");
    Ok(())
}
