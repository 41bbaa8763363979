//! The control files: what scripts for btrfs do with them, what is wrong with a write, and that
//! they are gone when the daemon is.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::Test;
use super::fio;
use super::legs::{self, LoopDevice, Mount};
use super::room::Room;
use super::server::{NAME, Server, control_directory};
use crate::process;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "control_files",
        about: "what they show, what they take, what they refuse, and what is kept",
        run: control_files,
    },
    Test {
        name: "control_files_checkpoints",
        about: "read_stats tells what a policy has of a leg since its checkpoint",
        run: checkpoints,
    },
    Test {
        name: "control_files_switched",
        about: "a thousand switches by file while fio verifies",
        run: switched,
    },
    Test {
        name: "control_files_of_btrfs",
        about: "a script for btrfs's policies with its paths changed, on btrfs on the array",
        run: of_btrfs,
    },
    Test {
        name: "volume_file",
        about: "the array as a file: fio verifies through libaio, past its end, trimmed, read-only",
        run: volume_file,
    },
];

/// How long the files of a daemon that was killed may be there.
const GONE_TIME_MAX: Duration = Duration::from_secs(10);

/// How often the policy is switched.
const SWITCHES: usize = 1000;

/// A tunable that is called as in 2021.
const TUNABLE: &str = "read_policies/roundrobin_rot_nonlocal_inc";

const SCRIPT: &str = include_str!("policies_of_btrfs.sh");

fn start<'a>(room: &'a Room, legs: &[String], options: &[&str]) -> Result<Server<'a>> {
    Server::start(room, legs, &[&["--control-files", "on"], options].concat())
}

fn directory(room: &Room) -> PathBuf {
    Path::new(&control_directory(room)).join(NAME)
}

fn show(room: &Room, file: &str) -> Result<String> {
    let path = directory(room).join(file);
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// Writes as a shell does: the file is truncated, and closed afterwards.
fn store(room: &Room, file: &str, text: &str) -> std::io::Result<()> {
    fs::write(directory(room).join(file), text)
}

/// Writes as a shell does with `>>`.
fn append(room: &Room, file: &str, text: &str) -> Result<()> {
    let path = directory(room).join(file);
    let mut opened = fs::File::options().append(true).open(path)?;
    Ok(opened.write_all(text.as_bytes())?)
}

fn control_files(room: &Room) -> Result<()> {
    room.require_fuse()?;
    // A name that is not of ASCII alone.
    let legs = ["mem:16MiB", "mem:16MiB"].map(str::to_owned);
    let file = room.path_text("l\u{e9}g.img");
    fs::File::create_new(&file)?.set_len(16 << 20)?;
    let legs = [legs[0].clone(), legs[1].clone(), file];
    let server = start(room, &legs, &["--policy", "queue", "--assume-clean"])?;

    let shown = server.control(&["policy", NAME])?;
    ensure!(show(room, "read_policy")? == shown, "one source of truth");
    ensure!(show(room, "read_policies/policy")?.contains(" [queue] "));
    store(room, "read_policy", "round-robin:64K\n")?;
    ensure!(show(room, "read_policy")?.contains(" [round-robin:65536] "));
    store(room, "read_policies/policy", "roundrobin")?;
    ensure!(
        server
            .control(&["policy", NAME])?
            .contains(" [roundrobin] ")
    );
    // As btrfs: nothing stands for its default.
    store(room, "read_policy", "\n")?;
    ensure!(show(room, "read_policy")?.starts_with("[pid] "));

    ensure!(show(room, TUNABLE)? == "1\n");
    store(room, TUNABLE, "3\n")?;
    ensure!(show(room, TUNABLE)? == "3\n");
    append(room, "read_policies/roundrobin_nonrot_nonlocal_inc", "2\n")?;
    ensure!(show(room, "read_policies/roundrobin_nonrot_nonlocal_inc")? == "2\n");
    store(room, "devinfo/2/read_preferred", "1\n")?;
    store(room, "scheduler", "deadline:fifo_batch=8\n")?;
    ensure!(show(room, "scheduler")?.contains(" [deadline:fifo_batch=8]"));
    store(room, "read_policy", "device\n")?;
    let devices: Vec<_> = fs::read_dir(directory(room).join("devinfo"))?.collect();
    ensure!(devices.len() == 3, "one for each leg");
    ensure!(show(room, "devinfo/1/state")? == "in-sync\n");
    ensure!(show(room, "devinfo/1/in_flight")? == "0 0\n");
    room.run("nbdcopy", &[&server.uri(), "null:"])?;
    for (id, reads) in [(1, false), (2, true), (3, false)] {
        let stats = show(room, &format!("devinfo/{id}/read_stats"))?;
        let words: Vec<&str> = stats.split_whitespace().collect();
        ensure!(words.len() == 20 && words[0] == "cumulative", "{stats}");
        ensure!(
            (words[2] != "0") == reads,
            "the device that is preferred is read: {stats}"
        );
    }
    let stats = server.control(&["stats", NAME, "--json"])?;
    let (own, its): (serde_json::Value, serde_json::Value) = (
        serde_json::from_str(&stats)?,
        serde_json::from_str(&show(room, "stats.json")?)?,
    );
    for key in ["reads", "read_bytes", "state"] {
        for leg in 0..3 {
            let (own, its) = (&own["legs"][leg][key], &its["legs"][leg][key]);
            ensure!(own == its && !own.is_null(), "{key}: {own} and {its}");
        }
    }
    refused(room, &server)?;
    kept(room, server, &legs)
}

/// What was set is there again after `kill -9`; files go with their daemon.
fn kept(room: &Room, server: Server<'_>, legs: &[String]) -> Result<()> {
    server.kill()?;
    let directory = directory(room);
    process::wait_until("the files to be taken away", GONE_TIME_MAX, || {
        Ok(
            fs::symlink_metadata(&directory)
                .is_err_and(|error| error.kind() == ErrorKind::NotFound),
        )
    })?;
    let server = start(room, legs, &["--assume-clean"])?;
    ensure!(show(room, "read_policy")?.contains(" [device] "), "kept");
    ensure!(
        show(room, "scheduler")?.contains(" [deadline:fifo_batch=8]"),
        "kept"
    );
    ensure!(show(room, TUNABLE)? == "3\n", "kept");
    ensure!(show(room, "devinfo/2/read_preferred")? == "1\n", "kept");
    // Somebody who stands in there does not keep the daemon from ending.
    let _held = fs::File::open(directory.join("devinfo"))?;
    server.terminate()?;
    ensure!(!directory.exists(), "the files are gone with the daemon");
    Ok(())
}

/// What is written there and makes no sense changes nothing and ends with EINVAL.
fn refused(room: &Room, server: &Server<'_>) -> Result<()> {
    let long = "q".repeat(5000);
    let wrong = [
        ("read_policy", "no-such-policy"),
        ("read_policy", "round-robin:-1"),
        ("read_policy", "devid:4"),
        ("read_policy", long.as_str()),
        ("read_policies/policy", "pid queue"),
        ("scheduler", "cfq"),
        ("scheduler", "deadline:fifo_batch=0"),
        ("scheduler", "\n"),
        ("read_policies/roundrobin_rot_nonlocal_inc", "many"),
        ("read_policies/queue_tie", "last"),
        ("devinfo/1/read_preferred", "2"),
        // Legs without metadata have nowhere to say it.
        ("devinfo/1/write_mostly", "1"),
    ];
    let before = show(room, "read_policy")?;
    for (file, text) in wrong {
        let error = store(room, file, text).err();
        let errno = error.and_then(|error| error.raw_os_error());
        ensure!(
            errno == Some(22),
            "'{text:.20}' in {file}: {errno:?} instead of EINVAL"
        );
    }
    let why = "'no-such-policy' written to read_policy was refused: ";
    process::wait_until("the log to say why", GONE_TIME_MAX, || {
        Ok(server.said()?.contains(why))
    })?;
    ensure!(fs::write(directory(room).join("read_policy"), [0xff, 0xfe]).is_err());
    ensure!(show(room, "read_policy")? == before, "nothing has changed");
    for file in [
        "devinfo/1/read_stats",
        "devinfo/1/state",
        "stats.json",
        "new",
    ] {
        // Root may open what nobody may write to.
        ensure!(store(room, file, "1").is_err(), "{file} takes nothing");
    }
    odd_ways(room)?;
    ensure!(
        show(room, "devinfo/4/state").is_err(),
        "there is no such leg"
    );
    Ok(())
}

/// The numbers of `read_stats` of a device: ios, wait and avg, the same since the checkpoint, then
/// age, count and ignored.
fn read_stats(room: &Room, id: usize) -> Result<Vec<i128>> {
    let stats = show(room, &format!("devinfo/{id}/read_stats"))?;
    let numbers = stats
        .split_whitespace()
        .filter_map(|word| word.parse().ok());
    let numbers: Vec<i128> = numbers.collect();
    ensure!(numbers.len() == 9, "not nine numbers: {stats}");
    Ok(numbers)
}

/// What stands behind `checkpoint` is what the policy goes by: all there is before the first one,
/// less after it, and everything again under a policy that has none.
fn checkpoints(room: &Room) -> Result<()> {
    room.require_fuse()?;
    room.require_tools(&["fio"])?;
    let legs = ["mem:16MiB", "model:hdd-7200-2tb,size=16MiB"].map(str::to_owned);
    let server = start(room, &legs, &["--assume-clean", "--policy", "queue"])?;
    store(
        room,
        "read_policy",
        "latency:checkpoint_age=50,probe_events=1",
    )?;
    server.control(&["stats", NAME, "--reset"])?;
    let disk = read_stats(room, 2)?;
    ensure!(
        disk[..7] == [0, 0, 0, 0, 0, 0, -1] && disk[7] == 0,
        "{disk:?}"
    );
    let uri = format!("--uri={}", server.uri());
    let fixed = ["--name=r", "--ioengine=nbd", "--rw=randread", "--bs=4k"];
    let read = |count: &str| room.run("fio", &[&fixed[..], &[&uri, count]].concat());
    read("--number_ios=20")?;
    let memory = read_stats(room, 1)?;
    ensure!(memory[..3] == memory[3..6] && memory[7] == 0, "{memory:?}");
    read("--number_ios=1000")?;
    let disk = read_stats(room, 2)?;
    ensure!(disk[0] > disk[3] && disk[1] > disk[4], "{disk:?}");
    ensure!(disk[7] >= 1 && disk[8] > 50, "no checkpoint: {disk:?}");
    let json: serde_json::Value =
        serde_json::from_str(&server.control(&["stats", NAME, "--json"])?)?;
    let known = &json["legs"][1]["checkpoint"];
    ensure!(
        known["count"].as_i64().map(i128::from) == Some(disk[7]),
        "{json}"
    );
    store(room, "read_policy", "pid")?;
    let disk = read_stats(room, 2)?;
    ensure!(disk[..3] == disk[3..6] && disk[7] == 0, "{disk:?}");
    server.terminate()?;
    Ok(())
}

/// What no shell does with a file of sysfs, and somebody does some day.
fn odd_ways(room: &Room) -> Result<()> {
    let path = directory(room).join("read_policy");
    let errno = |done: std::io::Result<()>| done.err().and_then(|error| error.raw_os_error());
    let expect = |what: &str, done: std::io::Result<()>, wanted: i32| {
        let got = errno(done);
        ensure!(got == Some(wanted), "{what}: {got:?} instead of {wanted}");
        Ok(())
    };
    let before = show(room, "read_policy")?;
    let mut file = fs::File::options().read(true).write(true).open(&path)?;
    expect("elsewhere", file.write_all_at(b"pid", 3), 22)?;
    expect("far away", file.write_all_at(b"pid", 1 << 62), 22)?;
    expect("nothing but zeros", file.write_all_at(&[0; 16], 0), 22)?;
    expect("a megabyte", file.write_all_at(&vec![b'q'; 1 << 20], 0), 22)?;
    file.set_len(5)?;
    ensure!(file.write(b"")? == 0, "nothing is nothing");
    let mut part = [0; 4];
    ensure!(file.read_at(&mut part, 2)? == 4 && part == before.as_bytes()[2..6]);
    ensure!(file.read_at(&mut part, 1 << 20)? == 0, "past the end");
    expect("removed", fs::remove_file(&path), 1)?;
    expect(
        "called otherwise",
        fs::rename(&path, path.with_extension("old")),
        1,
    )?;
    expect(
        "linked",
        fs::hard_link(&path, path.with_extension("old")),
        1,
    )?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    expect("given a mode", fs::set_permissions(&path, mode), 1)?;
    expect(
        "a directory in it",
        fs::create_dir(directory(room).join("devinfo/9")),
        1,
    )?;
    expect(
        "without one",
        fs::remove_dir(directory(room).join("devinfo")),
        1,
    )?;
    ensure!(show(room, "read_policy")? == before, "nothing has changed");
    letter_by_letter(room)
}

/// What is read in parts is whole, also where a part ends within a letter.
fn letter_by_letter(room: &Room) -> Result<()> {
    let mut file = fs::File::open(directory(room).join("stats.json"))?;
    let (mut text, mut byte) = (Vec::new(), [0]);
    while file.read(&mut byte)? == 1 {
        text.push(byte[0]);
    }
    let _: serde_json::Value = serde_json::from_slice(&text)?;
    Ok(())
}

fn switched(room: &Room) -> Result<()> {
    room.require_fuse()?;
    let server = start(room, &legs::sparse(room)?, &[])?;
    let options = ["--rw=randrw", "--bs=4k", "--iodepth=16", "--rate_iops=1500"];
    let verifying = fio::verify_meanwhile(room, &server.uri(), &options)?;
    let policies = [
        "pid",
        "adaptive",
        "queue",
        "latency-rr",
        "md",
        "zfs",
        "stripe",
    ];
    for policy in policies.iter().cycle().take(SWITCHES) {
        store(room, "read_policy", policy)?;
    }
    verifying.finish()?;
    server.terminate()?;
    Ok(())
}

fn of_btrfs(room: &Room) -> Result<()> {
    room.require_fuse()?;
    room.require_loop_devices()?;
    room.require_tools(&["mkfs.btrfs", "btrfs", "fio"])?;
    let legs = legs::sparse(room)?;
    let server = start(room, &legs, &[])?;
    let script = room.path("policies.sh");
    fs::write(&script, SCRIPT)?;
    {
        let disk = LoopDevice::attach(room, &directory(room).join("volume"), 512)?;
        room.run("mkfs.btrfs", &["-q", "-f", "--mixed", disk.path()])?;
        let place = room.new_directory("btrfs")?;
        let _mount = Mount::device(room, disk.path(), &place)?;
        let policies = [
            "pid",
            "round-robin",
            "queue",
            "latency",
            "latency-rr",
            "devid:1",
        ];
        let (script, control) = (script.display(), directory(room));
        let fixed = [
            script.to_string(),
            control.display().to_string(),
            place.display().to_string(),
        ];
        let words: Vec<&str> = fixed.iter().map(String::as_str).chain(policies).collect();
        let said = room.run("sh", &words)?;
        for policy in policies {
            ensure!(
                said.contains(&format!("== {policy}\n")),
                "{policy} was tried: {said}"
            );
        }
        room.run(
            "btrfs",
            &["scrub", "start", "-B", "-r", &place.display().to_string()],
        )?;
    }
    server.terminate()?;
    legs::ensure_equal(&legs)
}

fn volume_file(room: &Room) -> Result<()> {
    room.require_fuse()?;
    let legs = legs::sparse(room)?;
    let server = start(room, &legs, &[])?;
    let volume = directory(room).join("volume").display().to_string();
    let size = fs::metadata(&volume)?.len();
    let listed = room.run("nbdinfo", &["--size", &server.uri()])?;
    ensure!(listed.trim() == size.to_string(), "{size} and {listed}");
    let filename = format!("--filename={volume}");
    let fixed = [&filename, "--name=file", "--size=24m", "--verify=crc32c"];
    for options in [
        [
            "--ioengine=libaio",
            "--rw=randwrite",
            "--bs=4k",
            "--iodepth=32",
            "--direct=1",
        ],
        [
            "--ioengine=psync",
            "--rw=randwrite",
            "--bsrange=512-200k",
            "--fsync=8",
            "--direct=0",
        ],
    ] {
        room.run("fio", &[&fixed[..], &options[..]].concat())?;
    }
    room.run(
        "fallocate",
        &["--punch-hole", "--offset=4096", "--length=8192", &volume],
    )?;
    room.run(
        "fallocate",
        &[
            "--zero-range",
            "--keep-size",
            "--offset=100",
            "--length=70000",
            &volume,
        ],
    )?;
    edges(&volume, size)?;
    server.terminate()?;
    legs::ensure_equal(&legs)?;
    let server = start(room, &legs, &["--read-only"])?;
    let opened = fs::File::options().write(true).open(&volume);
    let wrote = opened.and_then(|file| file.write_at(b"x", 0));
    ensure!(wrote.is_err(), "what is read-only is not written");
    server.terminate()?;
    Ok(())
}

/// The zeros that were asked for, and what is so at the end.
fn edges(volume: &str, size: u64) -> Result<()> {
    let mut bytes = vec![1; 70_100];
    let file = fs::File::options().read(true).write(true).open(volume)?;
    file.read_exact_at(&mut bytes, 0)?;
    ensure!(
        bytes[100..].iter().all(|byte| *byte == 0),
        "zeros were asked for"
    );
    ensure!(
        file.read_at(&mut bytes, size)? == 0,
        "nothing is past the end"
    );
    ensure!(file.read_at(&mut bytes, size - 5)? == 5, "the end is short");
    let Err(error) = file.write_at(&bytes, size) else {
        bail!("a write past the end was taken");
    };
    ensure!(
        error.raw_os_error() == Some(28),
        "{error} instead of ENOSPC"
    );
    file.sync_all()?;
    Ok(())
}
