//! A stage of heliostat: a server, its clients, and commands to it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::life::Content;
use super::shape::Shape;
use super::stages::{Deed, End, Stage, TAGS, Write};
use crate::e2e::room::Room;
use crate::e2e::server::{NAME, Server};
use crate::kernel::case::Place;
use crate::kernel::served::{make, paths, write};
use crate::process::{self, Background};

/// How long anything in the background may take for these small arrays.
const WORK_TIME_MAX: Duration = Duration::from_secs(60);

/// What heliostat does in a stage, the first one of a life where it is told what to make.
pub(super) fn live(
    place: &Place,
    stage: &Stage,
    made: Option<&Shape>,
    content: &Content,
) -> Result<()> {
    let room = place.room()?;
    if let Some(shape) = made {
        let legs: Vec<String> = shape.leg_names().map(String::from).collect();
        make(place, &room, &legs.join(" "), &shape.create())?;
    }
    let given: Vec<String> = stage.given.iter().map(|leg| String::from(*leg)).collect();
    let given = paths(place, &given.join(" "));
    let options = ["--name", NAME, "--degraded-ok", "--resync-min", "100MB/s"];
    let server = Server::start(&room, &given, &options)?;
    let stage_of_life = Living {
        place,
        room: &room,
        server,
    };
    if made.is_none() {
        stage_of_life.read_twice(content)?;
    }
    for deed in &stage.deeds {
        stage_of_life
            .act(deed)
            .with_context(|| format!("{deed:?}"))?;
    }
    match stage.end {
        End::Stop => stage_of_life.server.terminate().map(|_| ()),
        End::Crash => stage_of_life.server.kill(),
        End::CrashIn(write) => stage_of_life.crash_in(write),
    }
}

/// A server that runs.
struct Living<'a> {
    place: &'a Place,
    room: &'a Room,
    server: Server<'a>,
}

impl Living<'_> {
    /// What was read once is read again, when the legs are equal.
    fn read_twice(&self, content: &Content) -> Result<()> {
        let read = |name: &str| {
            let file = self.room.path_text(name);
            let words = [
                "convert",
                "-f",
                "raw",
                "-O",
                "raw",
                &self.server.uri(),
                &file,
            ];
            self.room.run("qemu-img", &words)?;
            anyhow::Ok(file)
        };
        let first = read("first")?;
        content.store(self.place)?;
        self.place.judge(&format!("hold-array allowed {first}"))?;
        self.settle()?;
        let second = read("second")?;
        let is_same = std::fs::read(first)? == std::fs::read(second)?;
        ensure!(is_same, "after the resync other bytes are read");
        Ok(())
    }

    fn act(&self, deed: &Deed) -> Result<()> {
        let server = &self.server;
        match deed {
            Deed::Fill => {
                let status = self.status()?;
                let size = status["size_bytes"].as_u64().context("a size")? >> 10;
                write(self.place, self.room, server, TAGS[0], 0, size)
            }
            Deed::Write(Write { from, count, tag }) => {
                let (from, count) = (*from as u64, *count as u64);
                write(self.place, self.room, server, TAGS[*tag], from, count)
            }
            Deed::Fail(leg) => {
                self.settle()?;
                let leg = self.path(*leg);
                server.control(&["fail", NAME, &leg]).map(|_| ())
            }
            Deed::Restore(legs) => legs.iter().try_for_each(|leg| self.restore(*leg)),
            Deed::Settle => self.settle(),
            Deed::Check => self.scrub("check"),
            Deed::Repair => self.scrub("repair"),
            Deed::State(_) => Ok(()),
            Deed::Rest => {
                std::thread::sleep(Duration::from_secs(1));
                Ok(())
            }
        }
    }

    fn path(&self, leg: char) -> String {
        self.place.drive(&String::from(leg)).display().to_string()
    }

    fn status(&self) -> Result<serde_json::Value> {
        let said = self.server.control(&["status", NAME, "--json"])?;
        serde_json::from_str(&said).context("the status is no JSON")
    }

    /// Until nothing is done in the background.
    fn settle(&self) -> Result<()> {
        process::wait_until("the background to be done", WORK_TIME_MAX, || {
            let status = self.status()?;
            Ok(status["background"].is_null())
        })
    }

    /// A leg comes back.
    fn restore(&self, leg: char) -> Result<()> {
        self.settle()?;
        let path = self.path(leg);
        let status = self.status()?;
        let legs = status["legs"].as_array().context("legs")?;
        // It may have been taken back when the array was started.
        if legs
            .iter()
            .any(|one| one["leg"] == path && one["state"] == "in-sync")
        {
            return Ok(());
        }
        let in_sync = status["legs_in_sync"].as_u64();
        let said = self.server.listen(&["add", NAME, &path])?;
        if !said.status.success() {
            self.server.control(&["add", NAME, &path, "--force"])?;
        }
        process::wait_until("the leg to be in sync", WORK_TIME_MAX, || {
            Ok(self.status()?["legs_in_sync"].as_u64() > in_sync)
        })
    }

    /// Reads everything, and finds no difference.
    fn scrub(&self, action: &str) -> Result<()> {
        self.settle()?;
        let done = format!("{action}: done");
        let before = self.server.said()?.matches(&done).count();
        let said = self.server.listen(&["scrub", NAME, action])?;
        if said.stderr.contains("nothing to compare") {
            return Ok(());
        }
        ensure!(said.status.success(), "scrub: {}", said.stderr);
        process::wait_until("the scrub", WORK_TIME_MAX, || {
            Ok(self.server.said()?.matches(&done).count() > before)
        })?;
        let said = self.server.said()?;
        let last = said.lines().rfind(|line| line.contains(&done));
        let last = last.context("it was just there")?;
        ensure!(last.contains("no sector differs"), "{last}");
        Ok(())
    }

    /// Killed while this is written, in pieces of a block.
    fn crash_in(self, write: Write) -> Result<()> {
        let Write { from, count, tag } = write;
        let piece = self.place.drive("piece");
        let tag = TAGS[tag];
        self.place
            .judge(&format!("piece piece {tag} {from} {count}"))?;
        let bytes = piece.display().to_string();
        let mut words = vec!["-f".to_owned(), "raw".to_owned()];
        // Each piece is a write of its own.
        for at in (0..count).step_by(4) {
            let part = format!("{bytes}.{at}");
            std::fs::write(&part, &std::fs::read(&piece)?[at << 10..(at + 4) << 10])?;
            words.push("-c".to_owned());
            words.push(format!("aio_write -s {part} {}k 4k", from + at));
        }
        words.push(self.server.uri());
        let log = self.room.path("crash.log");
        let mut command = std::process::Command::new("qemu-io");
        let mut writer = Background::start(command.args(&words), &log)?;
        let so_far = std::time::Instant::now();
        // However far it came.
        let wanted = Duration::from_millis(20 + (from as u64 * 7) % 80);
        while so_far.elapsed() < wanted && writer.is_running()? {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.server.kill()?;
        writer.wait(WORK_TIME_MAX)?;
        for at in (0..count).step_by(4) {
            std::fs::remove_file(format!("{bytes}.{at}"))?;
        }
        Ok(())
    }
}
