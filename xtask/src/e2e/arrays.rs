//! Arrays with md metadata: made, served by name, killed, degraded; and what mdadm says of their
//! legs.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Test;
use super::fio;
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};
use super::stop::wait_for_writes;
use crate::process::Said;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "array_served_by_name",
        about: "create, serve by name under fio verify: mdadm finds every leg clean and equal",
        run: served_by_name,
    },
    Test {
        name: "array_raid10",
        about: "the same as RAID10 near=2, far=2 and offset=2 on four legs",
        run: raid10,
    },
    Test {
        name: "array_killed",
        about: "kill -9 under fio, three times: served by name again, resynced, verified, clean",
        run: killed,
    },
    Test {
        name: "array_degraded",
        about: "a leg is lost and comes back stale: refused, served degraded, left out",
        run: degraded,
    },
    Test {
        name: "array_readd",
        about: "a leg is pulled and put back under writes: only what it missed is copied",
        run: readd,
    },
    Test {
        name: "array_split",
        about: "legs that each went on alone: one comes back by force only, and as a whole",
        run: split,
    },
    Test {
        name: "array_new_leg",
        about: "a new leg takes the place of a failed one; a scrub mends what was damaged",
        run: new_leg,
    },
    Test {
        name: "array_not_made",
        about: "what cannot be an array, or would destroy something, is refused in words",
        run: not_made,
    },
];

/// How long a resync of these small legs may take.
const RESYNC_TIME_MAX: Duration = Duration::from_secs(60);

/// Runs `heliostat create` on these legs.
fn create(room: &Room, legs: &[String], options: &[&str]) -> Result<Said> {
    create_called(room, NAME, legs, options)
}

/// The same with another name.
pub(super) fn create_called(
    room: &Room,
    name: &str,
    legs: &[String],
    options: &[&str],
) -> Result<Said> {
    let control = room.path_text("control");
    let mut arguments = vec!["create", name, "--control-dir", &control];
    arguments.extend(legs.iter().map(String::as_str));
    arguments.extend(options);
    let program = room.program.display().to_string();
    room.listen(&program, &arguments)
}

/// The same where it has to succeed.
pub(super) fn create_well(room: &Room, legs: &[String], options: &[&str]) -> Result<()> {
    let said = create(room, legs, options)?;
    ensure!(said.status.success(), "create failed: {}", said.stderr);
    Ok(())
}

/// The same where it has to fail, with these words.
fn create_refused(room: &Room, legs: &[String], options: &[&str], words: &str) -> Result<()> {
    let said = create(room, legs, options)?;
    ensure!(
        !said.status.success() && said.stderr.contains(words),
        "create should have said '{words}': {} {}",
        said.stdout,
        said.stderr
    );
    Ok(())
}

/// Serves the array by its name.
fn serve<'a>(room: &'a Room, options: &[&str]) -> Result<Server<'a>> {
    Server::start(room, &[NAME.to_owned()], options)
}

/// What mdadm says of a leg after `field :`.
pub(super) fn examined(room: &Room, leg: &str, field: &str) -> Result<String> {
    let said = room.run("mdadm", &["--examine", leg])?;
    let line = said.lines().find_map(|line| {
        let (name, value) = line.split_once(" : ")?;
        (name.trim() == field).then(|| value.trim().to_owned())
    });
    line.with_context(|| format!("mdadm says nothing of '{field}': {said}"))
}

/// All legs are clean, with good checksums and the same count of events.
pub(super) fn ensure_clean(room: &Room, legs: &[String]) -> Result<()> {
    let events = examined(room, &legs[0], "Events")?;
    for leg in legs {
        let state = examined(room, leg, "State")?;
        ensure!(state == "clean", "{leg} is {state}");
        let checksum = examined(room, leg, "Checksum")?;
        ensure!(checksum.ends_with("correct"), "{leg}: {checksum}");
        let own = examined(room, leg, "Events")?;
        ensure!(own == events, "{leg} is at event {own}, not {events}");
    }
    Ok(())
}

/// The data of all legs of a mirror is the same.
pub(super) fn ensure_same_data(room: &Room, legs: &[String]) -> Result<()> {
    let offset = examined(room, &legs[0], "Data Offset")?;
    let sectors: u64 = offset
        .split(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("a data offset of '{offset}'"))?;
    let data = |leg: &String| {
        let copy = room.path(&format!(
            "data-{}",
            legs.iter().position(|l| l == leg).unwrap_or(0)
        ));
        let mut from = File::open(leg)?;
        from.seek(SeekFrom::Start(sectors * 512))?;
        let mut to = File::create(&copy)?;
        std::io::copy(&mut from, &mut to)?;
        anyhow::Ok(copy)
    };
    let first = data(&legs[0])?;
    for leg in &legs[1..] {
        legs::ensure_same(&first, &data(leg)?).with_context(|| format!("the data of {leg}"))?;
    }
    Ok(())
}

fn served_by_name(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let legs = legs::sparse(room)?;
    let options = [
        "--level",
        "raid1",
        "--assume-clean",
        "--write-mostly",
        &legs[0],
    ];
    create_well(room, &legs, &options)?;
    ensure!(examined(room, &legs[0], "Device Role")? == "Active device 2");
    ensure_clean(room, &legs)?;
    for _ in 0..2 {
        let server = serve(room, &[])?;
        let random = ["--rw=randwrite", "--bsrange=512-64k", "--bs_unaligned=1"];
        fio::verify(room, &server.uri(), &random)?;
        server.terminate()?;
        ensure_clean(room, &legs)?;
        ensure_same_data(room, &legs)?;
    }
    Ok(())
}

fn raid10(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    for (round, layout) in ["near=2", "far=2", "offset=2"].into_iter().enumerate() {
        let legs = (0..4).map(|index| legs::sparse_file(room, round * 4 + index));
        let legs = legs.collect::<Result<Vec<_>>>()?;
        let options = ["--level", "raid10", "--layout", layout, "--assume-clean"];
        create_well(room, &legs, &options)?;
        let (name, copies) = layout.split_once('=').context("a layout")?;
        let told = examined(room, &legs[0], "Layout")?;
        ensure!(told == format!("{name}={copies}"), "mdadm says {told}");
        let server = serve(room, &[])?;
        let options = ["--rw=randwrite", "--bs=16k", "--iodepth=8"];
        fio::verify(room, &server.uri(), &options)?;
        server.terminate()?;
        ensure_clean(room, &legs)?;
    }
    Ok(())
}

fn killed(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let legs = legs::sparse(room)?;
    create_well(room, &legs, &["--level", "raid1", "--bitmap-chunk", "1M"])?;
    for _ in 0..3 {
        let server = serve(room, &[])?;
        let mut writer = fio::write_on(room, &server.uri())?;
        wait_until_active(room, &legs[0])?;
        server.kill()?;
        writer.wait(Duration::from_secs(60))?;
        let server = serve(room, &[])?;
        let said = server.said()?;
        // Of the first time it says that the array was never resynced.
        ensure!(said.contains("its legs may differ"), "{said}");
        wait_until_clean(room, &legs)?;
        fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
        server.terminate()?;
        ensure_clean(room, &legs)?;
        ensure_same_data(room, &legs)?;
    }
    Ok(())
}

/// Until a leg says that the array is written to.
fn wait_until_active(room: &Room, leg: &str) -> Result<()> {
    let start = Instant::now();
    // A resync makes it active as well, and clean in the end.
    while examined(room, leg, "State")? != "active" {
        ensure!(start.elapsed() < RESYNC_TIME_MAX, "{leg} stays clean");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Until the resync is through and the array has rested.
pub(super) fn wait_until_clean(room: &Room, legs: &[String]) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < RESYNC_TIME_MAX {
        if ensure_clean(room, legs).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(200));
    }
    ensure_clean(room, legs).context("after the resync had time enough")
}

fn degraded(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let legs = legs::sparse(room)?;
    create_well(room, &legs, &["--level", "raid1", "--assume-clean"])?;
    let away = format!("{}.away", legs[1]);
    fs::rename(&legs[1], &away)?;
    let by_name = [NAME.to_owned()];
    let said = Server::refused(room, &by_name, &["--name", "other"])?;
    ensure!(said.contains(&legs[1]), "it should name the leg: {said}");
    let present = [legs[0].clone(), legs[2].clone()];
    let said = Server::refused(room, &present, &[])?;
    let words = ["lacks leg 1 of 3", "--degraded-ok"];
    ensure!(words.iter().all(|word| said.contains(word)), "{said}");
    let server = serve(room, &["--degraded-ok"])?;
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    server.terminate()?;
    ensure_clean(room, &present)?;
    ensure_same_data(room, &present)?;
    ensure!(examined(room, &legs[0], "Array State")?.starts_with("A.A"));
    // That it lacks a leg is on record now: there is nothing to ask.
    let server = serve(room, &[])?;
    let said = server.said()?;
    let words = ["going on without a leg", &legs[1], "leg 1: missing"];
    ensure!(words.iter().all(|word| said.contains(word)), "{said}");
    server.terminate()?;
    // Back again, and stale: what it says of itself is not believed.
    fs::rename(&away, &legs[1])?;
    let alone = [legs[1].clone()];
    let said = Server::refused(room, &alone, &["--name", "other"])?;
    ensure!(said.contains("lacks leg 0 and 2 of 3"), "{said}");
    let server = serve(room, &["--no-re-add"])?;
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    server.terminate()?;
    ensure_clean(room, &present)?;
    // Alone it does not know better, and says so to nobody: but not together with the others.
    ensure!(examined(room, &legs[1], "Array State")?.starts_with("AAA"));
    // It gets what it missed without anybody asking for it.
    let server = serve(room, &[])?;
    let said = server.said()?;
    ensure!(said.contains("was away and comes back"), "{said}");
    wait_for_status(&server, "3 of 3 legs in sync")?;
    server.terminate()?;
    ensure_clean(room, &legs)?;
    ensure_same_data(room, &legs)
}

/// Waits until `status` says this, and gives all of it.
pub(super) fn wait_for_status(server: &Server<'_>, words: &str) -> Result<String> {
    let start = Instant::now();
    loop {
        let said = server.control(&["status", NAME])?;
        if said.contains(words) {
            return Ok(said);
        }
        ensure!(start.elapsed() < RESYNC_TIME_MAX, "not '{words}': {said}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn readd(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let legs = legs::sparse(room)?;
    let options = ["--level", "raid1", "--assume-clean", "--bitmap-chunk", "1M"];
    create_well(room, &legs, &options)?;
    let server = serve(room, &[])?;
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    // Long enough for all bits to be cleared.
    wait_for_status(&server, ": 0 of ")?;
    server.control(&["fail", NAME, &legs[1]])?;
    server.control(&["remove", NAME, "1"])?;
    let part = [
        "--rw=write",
        "--bs=64k",
        "--size=2m",
        "--offset=16m",
        "--numjobs=1",
    ];
    fio::verify(room, &server.uri(), &part)?;
    ensure!(examined(room, &legs[0], "Array State")?.starts_with("A.A"));
    let mut writer = fio::write_on(room, &server.uri())?;
    wait_for_writes(&legs[0])?;
    let said = server.control(&["add", NAME, &legs[1]])?;
    ensure!(said.contains("that it missed"), "{said}");
    wait_for_status(&server, "3 of 3 legs in sync")?;
    writer.signal(rustix::process::Signal::TERM)?;
    writer.wait(Duration::from_secs(30))?;
    // Once more, with nobody else writing: what is copied can be counted.
    wait_for_status(&server, ": 0 of ")?;
    server.control(&["fail", NAME, "1"])?;
    fio::verify(room, &server.uri(), &part)?;
    let said = server.control(&["re-add", NAME, &legs[1], "--wait"])?;
    ensure!(said.contains("2 MiB that it missed are copied"), "{said}");
    wait_for_status(&server, "3 of 3 legs in sync")?;
    server.terminate()?;
    ensure_clean(room, &legs)?;
    ensure_same_data(room, &legs)
}

fn split(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let legs = legs::sparse(room)?[..2].to_vec();
    let options = ["--level", "raid1", "--assume-clean", "--bitmap-chunk", "1M"];
    create_well(room, &legs, &options)?;
    // The second one goes further on: its count of events is higher.
    for (leg, offset, lives) in [(1, "--offset=4m", 2), (0, "--offset=32m", 1)] {
        for _ in 0..lives {
            let server = Server::start(room, &legs[leg..=leg], &["--degraded-ok"])?;
            let part = ["--rw=write", "--bs=64k", "--size=1m", offset, "--numjobs=1"];
            fio::verify(room, &server.uri(), &part)?;
            server.terminate()?;
        }
    }
    let server = Server::start(room, &legs[..1], &["--degraded-ok"])?;
    let refused = server.listen(&["add", NAME, &legs[1]])?;
    ensure!(
        refused.stderr.contains("changes that disk lacks"),
        "{}",
        refused.stderr
    );
    let refused = server.listen(&["re-add", NAME, &legs[1]])?;
    ensure!(
        refused.stderr.contains("changes that disk lacks"),
        "{}",
        refused.stderr
    );
    let said = server.control(&["add", NAME, &legs[1], "--force"])?;
    ensure!(said.contains("all of it is copied"), "{said}");
    wait_for_status(&server, "2 of 2 legs in sync")?;
    server.terminate()?;
    ensure_clean(room, &legs)?;
    ensure_same_data(room, &legs)
}

fn new_leg(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "mdadm"])?;
    let mut legs = legs::sparse(room)?;
    let spare = legs::sparse_file(room, 3)?;
    create_well(room, &legs, &["--level", "raid1", "--assume-clean"])?;
    let server = serve(room, &[])?;
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    server.control(&["fail", NAME, "1"])?;
    let refused = server.listen(&["re-add", NAME, &spare])?;
    let words = ["was no leg of this array", "heliostat add disk "];
    ensure!(
        words.iter().all(|word| refused.stderr.contains(word)),
        "{}",
        refused.stderr
    );
    let refused = server.listen(&["add", NAME, &legs[0]])?;
    let words = "is leg 0 of disk already";
    ensure!(refused.stderr.contains(words), "{}", refused.stderr);
    let raw = room.path_text("other.img");
    fs::write(&raw, vec![7; 64 << 20])?;
    let refused = server.listen(&["add", NAME, &raw])?;
    ensure!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let said = server.control(&["add", NAME, &spare])?;
    ensure!(said.contains("all of it is copied"), "{said}");
    wait_for_status(&server, "3 of 3 legs in sync")?;
    fio::verify(room, &server.uri(), &["--rw=randwrite", "--bs=4k"])?;
    server.terminate()?;
    legs[1] = spare;
    ensure_clean(room, &legs)?;
    ensure_same_data(room, &legs)?;
    // Nobody has told the array that a sector changed.
    let mut file = File::options().write(true).open(&legs[2])?;
    file.seek(SeekFrom::Start(32 << 20))?;
    file.write_all(&[0xa5; 512])?;
    drop(file);
    let server = serve(room, &[])?;
    for (action, words) in [
        ("check", "check: done; 1 sector differs, in 1 place, 0 B"),
        ("repair", "repair: done; 1 sector differs, in 1 place"),
        ("check", "check: done; no sector differs"),
    ] {
        server.control(&["scrub", NAME, action])?;
        let start = Instant::now();
        while !server.said()?.contains(words) {
            ensure!(
                start.elapsed() < RESYNC_TIME_MAX,
                "not '{words}': {}",
                server.said()?
            );
            thread::sleep(Duration::from_millis(100));
        }
    }
    server.terminate()?;
    ensure_same_data(room, &legs)
}

fn not_made(room: &Room) -> Result<()> {
    let legs = legs::sparse(room)?;
    let one = &legs[..1];
    create_refused(room, one, &["--level", "raid1"], "2 to 16 legs")?;
    create_refused(
        room,
        &legs,
        &["--level", "raid10", "--layout", "near=4"],
        "legs",
    )?;
    create_refused(
        room,
        &legs,
        &["--level", "raid1", "--chunk", "64K"],
        "no chunks",
    )?;
    let memory = legs::memory();
    create_refused(room, &memory, &["--level", "raid1"], "twice")?;
    let mixed = ["mem:64MiB".to_owned(), legs[0].clone()];
    create_refused(room, &mixed, &["--level", "raid1"], "begins empty")?;
    let missing = ["missing".to_owned(), "missing".to_owned()];
    create_refused(room, &missing, &["--level", "raid1"], "missing")?;
    let small = room.path_text("small.img");
    File::create(&small)?.set_len(64 << 10)?;
    let with_small = [legs[0].clone(), small];
    create_refused(room, &with_small, &["--level", "raid1"], "small")?;
    let mut file = File::options().write(true).open(&legs[2])?;
    file.seek(SeekFrom::Start(0x438))?;
    file.write_all(b"\x53\xef")?;
    drop(file);
    create_refused(room, &legs, &["--level", "raid1"], "ext4")?;
    for leg in &legs[..2] {
        ensure!(
            legs::allocated_bytes(Path::new(leg))? == 0,
            "{leg} was written to"
        );
    }
    create_well(room, &legs, &["--level", "raid1", "--force"])?;
    create_refused(room, &legs, &["--level", "raid1"], "a leg of the md array")?;
    let raw = legs::sparse_file(room, 3)?;
    let mixed = [legs[0].clone(), raw.clone()];
    let said = Server::refused(room, &mixed, &[])?;
    ensure!(said.contains(&raw) && said.contains("md array"), "{said}");
    let said = Server::refused(room, &["nobody".to_owned()], &["--name", "other"])?;
    ensure!(said.contains("no array called nobody"), "{said}");
    let said = Server::refused(room, &["disc".to_owned()], &["--name", "other"])?;
    ensure!(said.contains("one called disk"), "{said}");
    Ok(())
}
