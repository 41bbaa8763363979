//! Arrays cut into volumes: many of them, resized and deleted while others are written, killed in
//! the middle of changes, with copies of the table that are gone.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Test;
use super::arrays::{create_well, wait_until_clean};
use super::fio;
use super::legs;
use super::power::{first_seed, rounds, volatile_legs};
use super::room::Room;
use super::server::{NAME, Server, control_directory};
use crate::process::{self, Background};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "volumes_twenty",
        about: "twenty volumes on a RAID10: written at once, resized, deleted, there after kill -9",
        run: twenty,
    },
    Test {
        name: "volumes_capped",
        about: "caps on requests and bytes of a volume hold, at once, and keep nobody at a stop",
        run: capped,
    },
    Test {
        name: "volumes_first",
        about: "an array with data is not cut unasked, and one in use not at all; and back again",
        run: first_and_last,
    },
    Test {
        name: "volumes_file",
        about: "the array's own file is nobody's while there are volumes, and again when not",
        run: own_file,
    },
    Test {
        name: "volumes_cut",
        about: "kill -9 while volumes change, on legs that lose caches: old or new, never none",
        run: cut_in_changes,
    },
    Test {
        name: "volumes_damaged",
        about: "one copy of the table damaged, gone or overwritten; both; and served as a whole",
        run: damaged,
    },
    Test {
        name: "volumes_grown",
        about: "the array grows: the second copy is found, and moves to the new end",
        run: grown,
    },
];

const MIB: u64 = 1 << 20;

/// What a round of kills costs is a second or two.
const ROUNDS: u32 = 8;

fn serve(room: &Room) -> Result<Server<'_>> {
    Server::start(room, &[NAME.to_owned()], &[])
}

/// Where clients find a volume.
pub(super) fn uri_of(server: &Server<'_>, volume: &str) -> String {
    let whole = format!("///{NAME}?");
    server.uri().replace(&whole, &format!("///{volume}?"))
}

fn volume(server: &Server<'_>, words: &[&str]) -> Result<String> {
    server.control(&[&["volume"], words].concat())
}

/// The same where it has to fail, with these words.
fn refused(server: &Server<'_>, words: &[&str], expected: &str) -> Result<()> {
    let said = server.listen(&[&["volume"], words].concat())?;
    ensure!(
        said.status.code() == Some(1) && said.stderr.contains(expected),
        "{words:?} should have been refused with '{expected}': {}{}",
        said.stdout,
        said.stderr
    );
    Ok(())
}

/// What `volume list` says as JSON.
fn listed(server: &Server<'_>) -> Result<serde_json::Value> {
    let text = volume(server, &["list", NAME, "--json"])?;
    serde_json::from_str(&text).with_context(|| format!("not JSON: {text}"))
}

/// Names with sizes in MiB, of those that can be used.
fn sizes(server: &Server<'_>) -> Result<Vec<(String, u64)>> {
    let listed = listed(server)?;
    let volumes = listed["volumes"].as_array().context("a list of volumes")?;
    let size = |volume: &serde_json::Value| {
        let name = volume["name"].as_str().unwrap_or_default().to_owned();
        (name, volume["size_bytes"].as_u64().unwrap_or(0) / MIB)
    };
    Ok(volumes.iter().map(size).collect())
}

/// How large a client sees something.
fn client_size(room: &Room, uri: &str) -> Result<u64> {
    let text = room.run("nbdinfo", &["--size", uri])?;
    text.trim()
        .parse()
        .with_context(|| format!("no size: {text}"))
}

/// Fills a volume with random bytes, which lie in the file that is given back.
fn fill(room: &Room, server: &Server<'_>, name: &str) -> Result<String> {
    let uri = uri_of(server, name);
    let size = client_size(room, &uri)?;
    let path = legs::random_file(room, &format!("{name}.random"), size)?;
    let path = path.display().to_string();
    room.run("nbdcopy", &["--flush", &path, &uri])?;
    Ok(path)
}

/// What a volume holds, as a file.
fn copy_out(room: &Room, server: &Server<'_>, name: &str) -> Result<String> {
    let copy = room.path_text("copied-out");
    if Path::new(&copy).exists() {
        fs::remove_file(&copy)?;
    }
    room.run("nbdcopy", &[&uri_of(server, name), &copy])?;
    Ok(copy)
}

fn ensure_holds(room: &Room, server: &Server<'_>, name: &str, expected: &str) -> Result<()> {
    let copy = copy_out(room, server, name)?;
    let (copy, expected) = (fs::read(copy)?, fs::read(expected)?);
    ensure!(
        copy.get(..expected.len()) == Some(&expected[..]),
        "{name} does not hold what was written"
    );
    Ok(())
}

fn ensure_zeros(room: &Room, server: &Server<'_>, name: &str, from: u64) -> Result<()> {
    let bytes = fs::read(copy_out(room, server, name)?)?;
    let rest = &bytes[usize::try_from(from)?..];
    ensure!(!rest.is_empty(), "{name} has no more than {from} bytes");
    let at = rest.iter().position(|&byte| byte != 0);
    ensure!(at.is_none(), "{name} shows what was there before: {at:?}");
    Ok(())
}

fn fio_on(room: &Room, uri: &str, number: usize) -> Result<Background> {
    room.require_tools(&["fio"])?;
    let uri = format!("--uri={uri}");
    let arguments = [
        "--name=volume",
        "--ioengine=nbd",
        &uri,
        "--rw=randwrite",
        "--bsrange=512-256k",
        "--bs_unaligned=1",
        "--iodepth=8",
        "--size=5m",
        "--loops=2",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--output-format=json",
    ];
    let report = room.path(&format!("fio-{number}.json"));
    Background::start(&mut room.command("fio", &arguments), &report)
}

/// How many requests of 4 KiB a volume serves in a second, at depth 32.
fn iops(room: &Room, server: &Server<'_>, volume: &str, rw: &str) -> Result<f64> {
    let arguments = [
        "--name=capped",
        "--ioengine=nbd",
        "--thread",
        &format!("--uri={}", uri_of(server, volume)),
        &format!("--rw={rw}"),
        "--bs=4k",
        "--iodepth=32",
        "--size=5m",
        "--time_based",
        "--runtime=3",
        "--output-format=json",
    ];
    let jobs = crate::fio::jobs(&room.run("fio", &arguments)?)?;
    let job = jobs.first().context("fio tells of no job")?;
    let direction = if rw == "randread" { "read" } else { "write" };
    job[direction]["iops"].as_f64().context("fio tells no IOPS")
}

fn capped(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    let files = (0..2).map(|index| legs::sparse_file(room, index));
    let files: Vec<String> = files.collect::<Result<_>>()?;
    create_well(room, &files, &["--level", "raid1", "--assume-clean"])?;
    let server = serve(room)?;
    volume(&server, &["create", NAME, "capped", "5M", "--iops", "100"])?;
    volume(&server, &["create", NAME, "free", "5M"])?;
    for rw in ["randread", "randwrite"] {
        let found = iops(room, &server, "capped", rw)?;
        // The queue that fio waits for in the end adds a little.
        ensure!((70.0..=104.0).contains(&found), "{rw}: {found} of 100");
    }
    let free = iops(room, &server, "free", "randread")?;
    ensure!(free > 300.0, "who has no cap is held to {free}");
    volume(
        &server,
        &[
            "set",
            NAME,
            "capped",
            "--iops",
            "0",
            "--bandwidth",
            "400kB/s",
        ],
    )?;
    let found = iops(room, &server, "capped", "randwrite")?;
    ensure!((70.0..=104.0).contains(&found), "{found} of 98 pages");
    volume(&server, &["set", NAME, "capped", "--bandwidth", "0MB/s"])?;
    let found = iops(room, &server, "capped", "randread")?;
    ensure!(found > 300.0, "a cap that is gone holds to {found}");
    // What waits for a cap is done at a stop, and everybody is answered.
    volume(&server, &["set", NAME, "capped", "--iops", "1"])?;
    let mut waiting = fio_on(room, &uri_of(&server, "capped"), 0)?;
    process::wait_until("requests that wait", Duration::from_secs(10), || {
        let told = server.control(&["stats", NAME, "--json"])?;
        let told: serde_json::Value = serde_json::from_str(&told)?;
        Ok(told["requests"]["writes_in_flight"].as_u64() > Some(4))
    })?;
    server.terminate()?;
    // Without a server it has nothing more to do, and fails.
    waiting.wait(Duration::from_secs(30))?;
    Ok(())
}

fn twenty(room: &Room) -> Result<()> {
    room.require_tools(&["fio", "nbdcopy", "nbdinfo"])?;
    let files = (0..4).map(|index| legs::sparse_file(room, index));
    let files: Vec<String> = files.collect::<Result<_>>()?;
    create_well(room, &files, &["--level", "raid10", "--chunk", "64K"])?;
    let server = serve(room)?;
    for number in 0..20 {
        let name = format!("tenant-{number}");
        volume(&server, &["create", NAME, &name, "5M"])?;
    }
    let named = room.run("nbdinfo", &["--list", &server.uri()])?;
    ensure!(named.matches("export=\"tenant-").count() == 20, "{named}");
    let whole = room.listen("nbdinfo", &["--size", &server.uri()])?;
    ensure!(!whole.status.success(), "the array is there as a whole");
    // Every other one goes, so that what comes next lies in pieces.
    let first = fill(room, &server, "tenant-0")?;
    for number in (1..20).step_by(2) {
        fill(room, &server, &format!("tenant-{number}"))?;
        volume(&server, &["delete", NAME, &format!("tenant-{number}")])?;
    }
    volume(&server, &["create", NAME, "pieces", "60M", "--weight", "2"])?;
    let extents = listed(&server)?["volumes"][10]["extents"].clone();
    ensure!(
        extents.as_array().is_some_and(|all| all.len() > 3),
        "{extents}"
    );
    ensure_zeros(room, &server, "pieces", 0)?;
    written_at_once(room, &server)?;
    let pieces = fill(room, &server, "pieces")?;
    ensure_holds(room, &server, "pieces", &pieces)?;
    volume(&server, &["resize", NAME, "tenant-0", "9M"])?;
    ensure!(client_size(room, &uri_of(&server, "tenant-0"))? == 9 * MIB);
    ensure_holds(room, &server, "tenant-0", &first)?;
    ensure_zeros(room, &server, "tenant-0", 5 * MIB)?;
    let before = listed(&server)?["volumes"].clone();
    server.kill()?;
    let server = serve(room)?;
    ensure!(listed(&server)?["volumes"] == before, "others after a kill");
    ensure_holds(room, &server, "tenant-0", &first)?;
    ensure_holds(room, &server, "pieces", &pieces)?;
    server.terminate()?;
    Ok(())
}

/// Several volumes are written and verified at once, while others are made, resized and deleted.
fn written_at_once(room: &Room, server: &Server<'_>) -> Result<()> {
    let names = ["pieces", "tenant-2", "tenant-4", "tenant-6", "tenant-8"];
    let mut running = Vec::new();
    for (number, name) in names.iter().enumerate() {
        running.push(fio_on(room, &uri_of(server, name), number)?);
    }
    volume(server, &["resize", NAME, "tenant-2", "6M"])?;
    volume(server, &["delete", NAME, "tenant-10"])?;
    volume(server, &["create", NAME, "late", "3M"])?;
    for process in &mut running {
        let status = process.wait(Duration::from_secs(100))?;
        ensure!(status.success(), "fio ended with {status}");
        fio::ensure_no_error(&process.said()?)?;
    }
    let mut held = fio::run_on(room, &uri_of(server, "tenant-4"), "randwrite", 4)?;
    process::wait_until("somebody uses it", Duration::from_secs(20), || {
        let volumes = listed(server)?["volumes"].clone();
        let mut volumes = volumes.as_array().into_iter().flatten();
        Ok(volumes.any(|volume| volume["name"] == "tenant-4" && volume["connections"] != 0))
    })?;
    refused(server, &["delete", NAME, "tenant-4"], "is in use")?;
    let shrunk = ["resize", NAME, "tenant-4", "2M", "--shrink"];
    refused(server, &shrunk, "is in use")?;
    refused(server, &["resize", NAME, "tenant-6", "2M"], "--shrink")?;
    held.signal(rustix::process::Signal::KILL)?;
    held.wait(Duration::from_secs(10))?;
    Ok(())
}

fn first_and_last(room: &Room) -> Result<()> {
    room.require_tools(&["nbdcopy", "nbdinfo", "fio"])?;
    let files = legs::sparse(room)?;
    create_well(room, &files, &["--level", "raid1"])?;
    let server = serve(room)?;
    refused(&server, &["delete", NAME, "a"], "has no volumes")?;
    refused(&server, &["create", NAME, "-x", "5M"], "cannot be the name").or_else(|_| {
        // The command line takes it for an option, and says so.
        let said = server.listen(&["volume", "create", NAME, "-x", "5M"])?;
        ensure!(said.status.code() == Some(2), "{}", said.stderr);
        Ok::<(), anyhow::Error>(())
    })?;
    let data = legs::random_file(room, "data", 2 * MIB)?
        .display()
        .to_string();
    room.run("nbdcopy", &[&data, &server.uri()])?;
    let create = ["create", NAME, "a", "5M"];
    refused(&server, &create, "something unknown")?;
    let mut user = fio::run_on(room, &server.uri(), "randread", 4)?;
    process::wait_until("fio to read", Duration::from_secs(20), || {
        let told = server.control(&["stats", NAME, "--json"])?;
        let told: serde_json::Value = serde_json::from_str(&told)?;
        let mut clients = told["clients"].as_array().into_iter().flatten();
        Ok(clients.any(|client| {
            let is_here = client["connections"].as_u64() > Some(0);
            is_here && client["requests"]["reads"].as_u64() > Some(0)
        }))
    })?;
    let forced = ["create", NAME, "a", "5M", "--force"];
    refused(&server, &forced, "used as a whole")?;
    user.signal(rustix::process::Signal::KILL)?;
    user.wait(Duration::from_secs(10))?;
    process::wait_until("it to leave", Duration::from_secs(10), || {
        Ok(server
            .listen(&[&["volume"], &forced[..]].concat())?
            .status
            .success())
    })?;
    ensure_zeros(room, &server, "a", 0)?;
    ensure!(sizes(&server)? == [("a".to_owned(), 5)]);
    volume(&server, &["delete", NAME, "a"])?;
    ensure!(
        client_size(room, &server.uri())? > 50 * MIB,
        "the whole array"
    );
    server.kill()?;
    let server = serve(room)?;
    ensure!(sizes(&server)?.is_empty());
    // Nothing of the table is left in the way.
    volume(&server, &["create", NAME, "b", "1"])?;
    ensure!(sizes(&server)? == [("b".to_owned(), 1)]);
    server.terminate()?;
    Ok(())
}

fn own_file(room: &Room) -> Result<()> {
    room.require_fuse()?;
    let files = legs::sparse(room)?;
    create_well(room, &files, &["--level", "raid1"])?;
    let server = Server::start(room, &[NAME.to_owned()], &["--control-files", "on"])?;
    let path = Path::new(&control_directory(room))
        .join(NAME)
        .join("volume");
    let open = || File::options().read(true).write(true).open(&path);
    let held = open()?;
    let bytes = vec![7; 4096];
    held.write_all_at(&bytes, 3 * MIB)?;
    volume(&server, &["create", NAME, "a", "1", "--force"])?;
    for file in [&held, &open()?] {
        let mut read = vec![0; 4096];
        for (what, done) in [
            ("read", file.read_exact_at(&mut read, 3 * MIB)),
            ("written", file.write_all_at(&bytes, 0)),
            ("flushed", file.sync_all()),
        ] {
            let errno = done.err().and_then(|error| error.raw_os_error());
            ensure!(errno == Some(22), "{what}: {errno:?} instead of EINVAL");
        }
        ensure!(read.iter().all(|byte| *byte == 0), "something was told");
    }
    ensure_zeros(room, &server, "a", 0)?;
    volume(&server, &["delete", NAME, "a"])?;
    held.write_all_at(&bytes, 3 * MIB)?;
    let mut read = vec![0; 4096];
    open()?.read_exact_at(&mut read, 3 * MIB)?;
    ensure!(read == bytes, "it is a whole again");
    drop(held);
    server.terminate()?;
    Ok(())
}

/// Kills the server while volumes are made, resized and deleted one after the other.
fn cut_in_changes(room: &Room) -> Result<()> {
    room.require_tools(&["nbdcopy", "nbdinfo"])?;
    let files = (0..3).map(|index| legs::sparse_file(room, index));
    let files: Vec<String> = files.collect::<Result<_>>()?;
    let seed = first_seed()?;
    create_well(room, &volatile_legs(&files, seed), &["--level", "raid1"])?;
    let server = Server::start(room, &volatile_legs(&files, seed), &["--name", NAME])?;
    volume(&server, &["create", NAME, "kept", "3M"])?;
    let kept = fill(room, &server, "kept")?;
    let mut server = Some(server);
    // What was answered, and what may have been done besides.
    let mut known = vec![("kept".to_owned(), 3)];
    for round in 0..rounds(ROUNDS)? {
        let running = server.take().context("it is served")?;
        let next = changed(&known, round);
        let words = change_words(&known, round);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let log = room.path(&format!("change-{round}.log"));
        let mut change = running.begin(&[&["volume"], &words[..]].concat(), &log)?;
        // From before the first write to after the last one, as the machine has it.
        std::thread::sleep(Duration::from_millis(u64::from(round * 7 % 40)));
        running.kill()?;
        change.wait(Duration::from_secs(20))?;
        let legs = volatile_legs(&files, seed + u64::from(round) + 1);
        let running = Server::start(room, &legs, &["--name", NAME])?;
        let found = settled(&running)?;
        ensure!(
            found == known || found == next,
            "round {round}: {found:?} is neither {known:?} nor {next:?}"
        );
        ensure_holds(room, &running, "kept", &kept)?;
        known = found;
        server = Some(running);
    }
    server.context("it is served")?.terminate()?;
    Ok(())
}

/// The volumes when nothing is being prepared any more.
fn settled(server: &Server<'_>) -> Result<Vec<(String, u64)>> {
    process::wait_until("volumes to be ready", Duration::from_secs(30), || {
        let text = volume(server, &["list", NAME, "--json"])?;
        Ok(!text.contains("\"preparing\""))
    })?;
    sizes(server)
}

/// What is done in a round: one more, then larger, then gone, and again.
fn change_words(known: &[(String, u64)], round: u32) -> Vec<String> {
    let last = known.last().map_or("", |(name, _)| name);
    let words: Vec<String> = match (round % 3, last) {
        (0, _) | (_, "kept") => vec![
            "create".into(),
            NAME.into(),
            format!("v{round}"),
            "4M".into(),
        ],
        (1, last) => vec!["resize".into(), NAME.into(), last.into(), "9M".into()],
        (_, last) => vec!["delete".into(), NAME.into(), last.into()],
    };
    words
}

/// What there is when that was done.
fn changed(known: &[(String, u64)], round: u32) -> Vec<(String, u64)> {
    let mut next = known.to_vec();
    let words = change_words(known, round);
    match words[0].as_str() {
        "create" => next.push((words[2].clone(), 4)),
        "resize" => next.last_mut().expect("there is one").1 = 9,
        _ => drop(next.pop()),
    }
    next
}

/// Writes over a copy of the table on each leg. Small legs have their data from 1 MiB on.
fn overwrite(legs: &[String], at: u64, bytes: &[u8]) -> Result<()> {
    for leg in legs {
        let mut file = File::options().write(true).open(leg)?;
        file.seek(SeekFrom::Start(MIB + at))?;
        file.write_all(bytes)?;
    }
    Ok(())
}

fn damaged(room: &Room) -> Result<()> {
    room.require_tools(&["nbdcopy", "nbdinfo", "mdadm"])?;
    let files = legs::sparse(room)?;
    create_well(room, &files, &["--level", "raid1", "--assume-clean"])?;
    let server = serve(room)?;
    volume(&server, &["create", NAME, "a", "5M"])?;
    volume(&server, &["create", NAME, "b", "3M"])?;
    let data = fill(room, &server, "a")?;
    let known = sizes(&server)?;
    let array_bytes = listed(&server)?["size_bytes"].as_u64().context("a size")?;
    let second = array_bytes / MIB * MIB - MIB;
    server.terminate()?;
    for place in [0, second] {
        // A byte, all of it, and something else.
        for (at, bytes, is_mended) in [
            (700, vec![1; 1], true),
            (0, vec![0; 65536], true),
            (0, vec![0x5a; 65536], false),
        ] {
            overwrite(&files, place + at, &bytes)?;
            let server = serve(room)?;
            ensure!(sizes(&server)? == known, "{place} {at}");
            ensure_holds(room, &server, "a", &data)?;
            if !is_mended {
                let create = ["create", NAME, "c", "1M"];
                refused(&server, &create, "volume repair")?;
                volume(&server, &["repair", NAME])?;
            }
            wait_until_clean(room, &files)?;
            server.terminate()?;
        }
    }
    // Each copy was written again, so that either does alone; without both there is none.
    overwrite(&files, 600, &[0xee; 9])?;
    overwrite(&files, second + 600, &[0xee; 9])?;
    let said = Server::refused(room, &[NAME.to_owned()], &[])?;
    ensure!(said.contains("no copy of the table is whole"), "{said}");
    ensure!(said.contains("--whole"), "{said}");
    let server = Server::start(room, &[NAME.to_owned()], &["--whole"])?;
    ensure!(client_size(room, &server.uri())? == array_bytes);
    refused(&server, &["create", NAME, "c", "1M"], "--whole")?;
    server.terminate()?;
    Ok(())
}

fn grown(room: &Room) -> Result<()> {
    room.require_tools(&["nbdcopy", "nbdinfo", "mdadm"])?;
    let files = legs::sparse(room)?[..2].to_vec();
    create_well(room, &files, &["--level", "raid1", "--assume-clean"])?;
    let server = serve(room)?;
    volume(&server, &["create", NAME, "a", "5M"])?;
    let data = fill(room, &server, "a")?;
    wait_until_clean(room, &files)?;
    server.terminate()?;
    for file in &files {
        File::options().write(true).open(file)?.set_len(200 * MIB)?;
    }
    let control = room.path_text("control");
    let program = room.program.display().to_string();
    let grow = ["grow", NAME, "--size", "max", "--control-dir", &control];
    room.run(&program, &grow)?;
    let server = serve(room)?;
    volume(&server, &["resize", NAME, "a", "150M"])?;
    ensure_holds(room, &server, "a", &data)?;
    ensure_zeros(room, &server, "a", 5 * MIB)?;
    server.control(&["wait", NAME])?;
    wait_until_clean(room, &files)?;
    server.terminate()?;
    // The second copy at the new end does alone.
    overwrite(&files, 0, &[0; 65536])?;
    let server = serve(room)?;
    ensure!(sizes(&server)? == [("a".to_owned(), 150)]);
    ensure_holds(room, &server, "a", &data)?;
    server.terminate()?;
    Ok(())
}
