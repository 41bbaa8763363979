//! fio's figures of anything that can be read: what is run on what, under which policies, what is
//! kept of it, what is not overwritten, and what is left behind.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::Test;
use super::legs::{self, LoopDevice, Mount};
use super::room::Room;
use super::server::{Server, control_directory};
use crate::process::{self, Background, Said};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "bench_targets",
        about: "a served drive, a file and a directory are measured by the same jobs",
        run: targets,
    },
    Test {
        name: "bench_policies",
        about: "an array is measured under several policies, and reports are compared",
        run: policies,
    },
    Test {
        name: "bench_schedulers",
        about: "an array is measured under several schedulers, and has its own in the end",
        run: schedulers,
    },
    Test {
        name: "bench_job_file",
        about: "somebody's job file runs on a target of ours, wherever it says its data lie",
        run: job_file,
    },
    Test {
        name: "bench_btrfs",
        about: "btrfs in the kernel is measured under its policies, leg by leg",
        run: btrfs,
    },
    Test {
        name: "bench_ended",
        about: "interrupted or killed, it leaves neither policies nor files behind",
        run: ended,
    },
    Test {
        name: "tune_array",
        about: "an array that is served is tuned, and is as it was in the end",
        run: tuned,
    },
    Test {
        name: "bench_clients",
        about: "an export of ours is not written while somebody uses it, however it is named",
        run: clients,
    },
    Test {
        name: "bench_refused",
        about: "data is not overwritten unasked, and what makes no sense is said",
        run: refused,
    },
];

/// As little as makes a figure.
const SHORT: [&str; 6] = ["--runtime", "1", "--warmup", "0", "--repeats", "1"];

/// How long it may take to end when it is told to.
const END_TIME_MAX: Duration = Duration::from_secs(20);

/// Measures, whatever comes of it.
fn bench(room: &Room, words: &[&str]) -> Result<Said> {
    listen(room, &[&["bench"], words].concat())
}

/// Runs a command that takes its time.
fn listen(room: &Room, words: &[&str]) -> Result<Said> {
    let control = control_directory(room);
    let control = ["--control-dir", &control];
    let program = room.program.display().to_string();
    room.listen(&program, &[words, &control].concat())
}

/// Runs what asks no daemon.
fn listen_plainly(room: &Room, words: &[&str]) -> Result<Said> {
    room.listen(&room.program.display().to_string(), words)
}

/// Measures, which has to succeed. What it printed.
fn measured(room: &Room, words: &[&str]) -> Result<String> {
    let said = bench(room, words)?;
    ensure!(said.status.success(), "{words:?}: {}", said.stderr);
    Ok(said.stdout)
}

fn targets(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    let legs = legs::sparse(room)?;
    let directory = room.new_directory("data")?.display().to_string();
    let server = Server::emulate(room, "ram", &["--size", "64m"])?;
    let uri = server.uri();
    let places = [uri.as_str(), &legs[0], &directory];
    let report = room.path_text("report");
    let fixed = [
        "--overwrite",
        "--json",
        "--size",
        "16m",
        "--report",
        &report,
    ];
    let lines = measured(room, &[&places[..], &fixed, &SHORT].concat())?;
    server.terminate()?;
    let told: serde_json::Value =
        serde_json::from_slice(&fs::read(Path::new(&report).join("report.json"))?)?;
    let what = told["targets"][1]["what"].as_str().unwrap_or_default();
    ensure!(what.contains("a sparse file"), "{} is {what}", legs[0]);
    for target in places {
        let ended = lines
            .lines()
            .filter(|line| line.contains(target) && line.contains("\"is_partial\":false"));
        ensure!(ended.count() == 12, "not 12 jobs on {target}: {lines}");
    }
    let left = fs::read_dir(&directory)?.count();
    ensure!(left == 0, "{left} files were left in {directory}");
    for suite in ["mirror-2021", "readers"] {
        let fixed = ["--json", "--size", "16m", "--suite", suite];
        let lines = measured(room, &[&[directory.as_str()][..], &fixed, &SHORT].concat())?;
        ensure!(lines.lines().count() == 4, "{suite}: {lines}");
    }
    Ok(())
}

fn policies(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &["--policy", "latency"])?;
    let (one, other) = (room.path_text("one"), room.path_text("other"));
    let fixed = ["heliostat:disk", "--read-only", "--json", "--report", &one];
    let wanted = ["--policies", "devid:1,round-robin:4096"];
    let lines = measured(room, &[&fixed[..], &wanted, &SHORT].concat())?;
    let shown = server.control(&["policy", "disk"])?;
    ensure!(shown.contains("[latency"), "not as it was: {shown}");
    for line in lines.lines() {
        let row: serde_json::Value = serde_json::from_str(line)?;
        let read = |leg: usize| row["legs"][leg]["reads"].as_u64().unwrap_or_default();
        let shares = [read(0), read(1)];
        let is_right = match row["policy"].as_str() {
            Some("devid:1") => shares[0] > 0 && shares[1] == 0,
            Some("round-robin:4096") => shares[0] > 0 && shares[1] > 0,
            _ => false,
        };
        ensure!(is_right, "the legs have read {shares:?}: {line}");
    }
    ensure!(lines.lines().count() == 6, "not 3 jobs twice: {lines}");
    let files = ["index.html", "report.json", "report.csv", "fio/0006.json"];
    for file in files {
        let length = fs::metadata(Path::new(&one).join(file)).with_context(|| file.to_owned())?;
        ensure!(length.len() > 100, "{file} is empty");
    }

    let again = ["heliostat:disk", "--read-only", "--report", &other];
    measured(room, &[&again[..], &wanted, &SHORT].concat())?;
    let program = room.program.display().to_string();
    let compared = room.run(&program, &["bench", "compare", &one, &other])?;
    let rows = compared
        .lines()
        .filter(|line| line.contains("one run: unknown"));
    ensure!(rows.count() == 6, "not 6 rows: {compared}");
    let page = room.path_text("page");
    let words = ["bench", "compare", &one, &other, "--report", &page];
    room.run(&program, &words)?;
    for file in ["index.html", "report.json"] {
        let text = fs::read_to_string(Path::new(&page).join(file))?;
        ensure!(text.contains("randread 4k depth 32"), "{file}: {text}");
    }
    // What is compared is not overwritten by it.
    let said = listen_plainly(room, &["bench", "compare", &one, &other, "--report", &one])?;
    ensure!(said.status.code() == Some(2), "{}", said.stderr);
    values(room, &server)?;
    server.terminate()?;
    // What was tried is not what is kept.
    let server = Server::start(room, &legs, &["--policy", "latency"])?;
    let shown = server.control(&["policy", "disk"])?;
    ensure!(shown.contains("[latency"), "it was kept: {shown}");
    server.terminate()?;
    Ok(())
}

/// Policies are measured with the values that are named, else with those of the start, and have
/// the latter again in the end.
fn values(room: &Room, server: &Server<'_>) -> Result<()> {
    server.control(&["policy", "disk", "queue:checkpoint_age=77"])?;
    server.control(&["policy", "disk", "latency"])?;
    let before = server.control(&["policy", "disk", "--full"])?;
    ensure!(before.contains("queue:checkpoint_age=77"), "{before}");
    let directory = room.new_directory("data")?.display().to_string();
    let fixed = ["heliostat:disk", &directory, "--size", "4m"];
    let wanted = "queue:tie=rotate,probe_events=7,queue,adaptive:hedge=off";
    let more = ["--read-only", "--json", "--policies", wanted];
    let lines = measured(room, &[&fixed[..], &more, &SHORT].concat())?;
    for policy in [
        "queue:tie=rotate,probe_events=7",
        "queue",
        "adaptive:hedge=off",
    ] {
        let is_of = |line: &&str| line.contains(&format!("\"policy\":\"{policy}\""));
        ensure!(
            lines.lines().filter(is_of).count() == 3,
            "{policy}: {lines}"
        );
    }
    let after = server.control(&["policy", "disk", "--full"])?;
    ensure!(before == after, "not as it was: {after}");
    Ok(())
}

fn schedulers(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    let legs = legs::sparse(room)?;
    let own = "deadline:fifo_batch=8";
    let server = Server::start(room, &legs, &["--policy", "pid", "--scheduler", own])?;
    let shown = || server.control(&["scheduler", "disk"]);
    let before = shown()?;
    let report = room.path_text("report");
    let directory = room.new_directory("data")?.display().to_string();
    let fixed = ["heliostat:disk", &directory, "--read-only", "--json"];
    let list = "none,fair,deadline:fifo_batch=2,writes_starved=3";
    let wanted = ["--schedulers", list, "--policies", "queue,pid"];
    let more = ["--size", "4m", "--report", &report];
    let lines = measured(room, &[&fixed[..], &wanted, &more, &SHORT].concat())?;
    let mut told = Vec::new();
    for line in lines.lines() {
        let row: serde_json::Value = serde_json::from_str(line)?;
        told.push((row["policy"].clone(), row["scheduler"].clone()));
    }
    for scheduler in ["none", "fair", "deadline:fifo_batch=2,writes_starved=3"] {
        for policy in ["queue", "pid"] {
            let is_of = |(its, other): &&(_, _)| *its == policy && *other == scheduler;
            ensure!(
                told.iter().filter(is_of).count() == 3,
                "{policy} {scheduler}: {lines}"
            );
        }
    }
    ensure!(told.len() == 3 * 6 + 3, "not 3 jobs in 7 ways: {lines}");
    ensure!(shown()? == before, "not as it was: {}", shown()?);
    let csv = fs::read_to_string(Path::new(&report).join("report.csv"))?;
    ensure!(
        csv.contains(",\"deadline:fifo_batch=2,writes_starved=3\"\r\n"),
        "{csv}"
    );

    let log = room.path("bench.log");
    let words = [
        "bench",
        "heliostat:disk",
        "--read-only",
        "--schedulers",
        "fair",
    ];
    let mut running = server.begin(&[&words[..], &["--runtime", "600"]].concat(), &log)?;
    // It is tried, and back, before anything is measured.
    process::wait_until("fio to read under fair", END_TIME_MAX, || {
        Ok(running.said()?.contains("1/9 ") && shown()?.contains("[fair]"))
    })?;
    running.signal(Signal::INT)?;
    let status = running.wait(END_TIME_MAX)?;
    ensure!(status.code() == Some(1), "{status}: {}", running.said()?);
    ensure!(
        shown()? == before,
        "not as it was after SIGINT: {}",
        shown()?
    );
    server.terminate()?;
    // What was tried is not what is kept.
    let server = Server::start(room, &legs, &[])?;
    let kept = server.control(&["scheduler", "disk"])?;
    ensure!(!kept.contains("[fair]"), "it was kept: {kept}");
    server.terminate()?;
    Ok(())
}

fn job_file(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    let leg = legs::sparse_file(room, 0)?;
    let (file, precious) = (room.path_text("jobs.fio"), room.path_text("precious"));
    fs::write(&precious, "data")?;
    let text = format!(
        "[global]\nfilename={precious}\nunlink=1\nioengine=libaio\nruntime=1\ntime_based=1\n\
         [small]\nrw=randread\nbs=4k\n[large]\nstonewall\nrw=read\nbs=256k\nnumjobs=2\n"
    );
    fs::write(&file, text)?;
    let server = Server::emulate(room, "ram", &["--size", "64m"])?;
    let uri = server.uri();
    let words = [&leg, &uri, "--suite", &file, "--repeats", "1", "--json"];
    let lines = measured(room, &words)?;
    for job in ["small", "large"] {
        let is_of = |line: &&str| line.contains(&format!("\"job\":\"{job}\""));
        ensure!(lines.lines().filter(is_of).count() == 2, "{job}: {lines}");
    }
    ensure!(fs::read_to_string(&precious)? == "data", "it was touched");
    ensure!(Path::new(&leg).exists(), "it was removed");
    server.terminate()?;
    never_longer(room, &precious)
}

/// What only reads changes nothing, whatever else its file says.
fn never_longer(room: &Room, precious: &str) -> Result<()> {
    let file = room.path_text("large.fio");
    let kept = vec![b'x'; 1 << 20];
    fs::write(precious, &kept)?;
    fs::write(&file, "[a]\nrw=read\nbs=64k\nsize=4m\noverwrite=1\n")?;
    let words = [precious, "--suite", &file, "--repeats", "1"];
    let said = bench(room, &words)?;
    ensure!(!said.status.success(), "it was read: {}", said.stdout);
    ensure!(fs::read(precious)? == kept, "it was made anew");
    for (text, expected) in [
        (
            "[a]\nioengine=filedelete\n",
            "line 2: 'ioengine=filedelete'",
        ),
        ("[a]\nrw=read\nexec_prerun=true\n", "line 3: 'exec_prerun'"),
    ] {
        fs::write(&file, text)?;
        let said = bench(room, &words)?;
        ensure!(
            said.status.code() == Some(2) && said.stderr.contains(expected),
            "{text}: {}",
            said.stderr
        );
    }
    ensure!(fs::read(precious)? == kept, "it was touched");
    Ok(())
}

fn btrfs(room: &Room) -> Result<()> {
    room.require_loop_devices()?;
    room.require_tools(&["mkfs.btrfs", "fio"])?;
    let files = legs::sparse(room)?;
    for file in &files {
        legs::resize(Path::new(file), 256 << 20)?;
    }
    let disks = [&files[0], &files[1]];
    let disks = disks.map(|file| LoopDevice::attach(room, Path::new(file), 512));
    let [one, other] = disks;
    let (one, other) = (one?, other?);
    let raid1 = ["-q", "-f", "-d", "raid1", "-m", "raid1"];
    room.run(
        "mkfs.btrfs",
        &[&raid1[..], &[one.path(), other.path()]].concat(),
    )?;
    let place = room.new_directory("btrfs")?;
    let _mount = Mount::device(room, one.path(), &place)?;
    let target = format!("btrfs:{}", place.display());
    let fixed = [&target, "--size", "32m", "--json", "--policies", "all"];
    let lines = measured(room, &[&fixed[..], &SHORT].concat())?;
    for line in lines.lines() {
        let row: serde_json::Value = serde_json::from_str(line)?;
        let legs = row["legs"].as_array().map_or(0, Vec::len);
        ensure!(legs == 2, "{legs} legs: {line}");
        ensure!(row["policy"].is_string(), "under no policy: {line}");
    }
    ensure!(lines.lines().count() >= 12, "not 12 jobs: {lines}");
    ensure!(fs::read_dir(&place)?.count() == 0, "files were left");

    // What is mounted is not written over.
    let said = bench(room, &[&[one.path(), "--overwrite"][..], &SHORT].concat())?;
    ensure!(
        !said.status.success() && said.stderr.contains("it is mounted at"),
        "{}",
        said.stderr
    );
    Ok(())
}

fn ended(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    let legs = legs::sparse(room)?;
    let server = Server::start(room, &legs, &["--policy", "latency"])?;
    let directory = room.new_directory("data")?.display().to_string();
    let (report, log) = (room.path_text("report"), room.path("bench.log"));
    let words = ["bench", "heliostat:disk", &directory, "--read-only"];
    let words = [&words[..], &["--policies", "pid,queue", "--size", "16m"]].concat();
    let long = ["--runtime", "600", "--report", &report];
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut running = server.begin(&[&words[..], &long].concat(), &log)?;
        process::wait_until("fio to read", END_TIME_MAX, || {
            Ok(server.control(&["stats", "disk"])?.contains("fio"))
        })?;
        running.signal(signal)?;
        let status = running.wait(END_TIME_MAX)?;
        let left = fs::read_dir(&directory)?.count();
        ensure!(left == 0, "{left} files were left after {signal:?}");
        let shown = server.control(&["policy", "disk"])?;
        if signal == Signal::KILL {
            break;
        }
        ensure!(status.code() == Some(1), "{status}: {}", running.said()?);
        ensure!(shown.contains("[latency"), "after {signal:?}: {shown}");
        let kept = fs::read_to_string(Path::new(&report).join("report.json"))?;
        ensure!(kept.contains("\"is_complete\": false"), "{kept}");
    }
    server.kill()?;
    Ok(())
}

fn tuned(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    let legs = ["hdd-7200-2tb", "ssd-sata-1tb"].map(|model| format!("model:{model},size=64MiB"));
    let server = Server::start(room, &legs, &["--policy", "latency"])?;
    server.control(&["policy", "disk", "queue:checkpoint_age=77"])?;
    server.control(&["policy", "disk", "latency"])?;
    let before = server.control(&["policy", "disk", "--full"])?;
    let fixed = ["tune", "disk", "--policy", "devid", "--json"];
    let short = ["--runtime", "1", "--warmup", "0", "--repeats", "3"];
    let said = listen(room, &[&fixed[..], &short].concat())?;
    ensure!(said.status.success(), "{}", said.stderr);
    let told = said.stdout;
    let summary: serde_json::Value = serde_json::from_str(told.lines().last().unwrap_or(""))?;
    ensure!(
        summary["verdict"] == "gain" && summary["best"]["policy"] == "devid:2",
        "the disk is not the best: {summary}"
    );
    ensure!(told.lines().count() == 3 && summary["runs"] == 18, "{told}");
    let after = server.control(&["policy", "disk", "--full"])?;
    ensure!(before == after, "not as it was: {after}");

    let log = room.path("tune.log");
    let tried = [
        "tune",
        "disk",
        "--policy",
        "queue",
        "--set",
        "checkpoint_age=1,2",
    ];
    let mut running = server.begin(&[&tried[..], &["--runtime", "600"]].concat(), &log)?;
    process::wait_until("fio to read", END_TIME_MAX, || {
        Ok(server.control(&["stats", "disk"])?.contains("fio"))
    })?;
    running.signal(Signal::INT)?;
    let status = running.wait(END_TIME_MAX)?;
    ensure!(status.code() == Some(1), "{status}: {}", running.said()?);
    let after = server.control(&["policy", "disk", "--full"])?;
    ensure!(before == after, "not as it was after SIGINT: {after}");
    server.terminate()?;
    Ok(())
}

fn clients(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    let legs = legs::sparse(room)?;
    let jobs = room.path_text("a.fio");
    fs::write(&jobs, "[a]\nrw=randwrite\nbs=4k\nnumber_ios=50\n")?;
    let server = Server::start(room, &legs[..2], &[])?;
    let uri = server.uri();
    let fixed = [uri.as_str(), "--suite", &jobs, "--repeats", "1", "--json"];
    let write = [&fixed[..], &["--overwrite"]].concat();
    let row = measured(room, &write)?;
    let row: serde_json::Value = serde_json::from_str(row.trim())?;
    ensure!(
        row["legs"][1]["writes"].as_u64() >= Some(50),
        "whose legs are they? {row}"
    );

    let at = format!("--uri={uri}");
    let job = ["--name=reader", "--ioengine=nbd", &at, "--rw=randread"];
    let long = ["--bs=4k", "--runtime=300", "--time_based"];
    let mut fio = Background::start(
        &mut room.command("fio", &[&job[..], &long].concat()),
        &room.path("fio.log"),
    )?;
    process::wait_until("fio to read", END_TIME_MAX, || {
        Ok(server.control(&["stats", "disk"])?.contains("fio ("))
    })?;
    process::wait_until("the writer to be refused", END_TIME_MAX, || {
        let said = bench(room, &write)?;
        Ok(said.status.code() == Some(1) && said.stderr.contains("is in use by fio"))
    })?;
    fio.signal(Signal::TERM)?;
    fio.wait(END_TIME_MAX)?;
    server.terminate()?;

    // Of whose clients nobody knows.
    let other = Server::emulate(room, "ram", &["--size", "64m"])?;
    let uri = other.uri();
    let said = bench(room, &[&[uri.as_str()], &write[1..]].concat())?;
    ensure!(said.status.success(), "{}", said.stderr);
    other.terminate()?;
    Ok(())
}

fn refused(room: &Room) -> Result<()> {
    room.require_tools(&["fio"])?;
    let legs = legs::sparse(room)?;
    let absent = room.path_text("absent.img");
    let (empty, jobs) = (room.path_text("empty.img"), room.path_text("a.fio"));
    fs::write(&empty, "")?;
    fs::write(&jobs, "[a]\nrw=randwrite\n")?;
    let leg = legs[2].as_str();
    let server = Server::start(room, &legs[..2], &[])?;
    let cases: [(i32, &[&str], &str); 13] = [
        (2, &[leg], "would overwrite data on"),
        (2, &["heliostat:disk"], "would overwrite data on"),
        (2, &[leg, "--suite", &jobs], "would overwrite data on"),
        (
            2,
            &[leg, "--suite", &jobs, "--read-only"],
            "leave out --read-only",
        ),
        (2, &[&absent], "is not there"),
        (2, &[&empty, "--read-only"], "is empty"),
        (
            2,
            &[leg, "--suite", "seed"],
            "no suite seed: there are seeds",
        ),
        (
            2,
            &[leg, "--read-only", "--policies", "pid"],
            "no target can switch",
        ),
        (
            2,
            &["heliostat:disk", "--read-only", "--policies", "pid,odd"],
            "no target has odd; there are",
        ),
        (
            1,
            &["heliostat:disk", "--read-only", "--policies", "devid:9"],
            "invalid argument",
        ),
        (1, &[&legs[0], "--overwrite"], "is in use"),
        (2, &[leg, leg, "--read-only"], "is named twice"),
        (
            2,
            &["heliostat:disk", "--read-only", "--policies", "pid,pid"],
            "--policies: pid is named twice",
        ),
    ];
    refused_words(room, &cases)?;
    let cases: [(i32, &[&str], &str); 3] = [
        (
            2,
            &[leg, "--read-only", "--schedulers", "fair"],
            "no target can switch; heliostat:NAME can",
        ),
        (
            2,
            &["heliostat:disk", "--read-only", "--schedulers", "cfq"],
            "no target has cfq; there are none deadline fair",
        ),
        (
            2,
            &["heliostat:disk", "--read-only", "--schedulers", "fair:a=1"],
            "--schedulers: scheduler 'fair'",
        ),
    ];
    refused_words(room, &cases)?;
    server.terminate()?;
    Ok(())
}

/// Each of these ends with a code, and says why.
fn refused_words(room: &Room, cases: &[(i32, &[&str], &str)]) -> Result<()> {
    for &(code, words, expected) in cases {
        let said = bench(room, words)?;
        ensure!(
            said.status.code() == Some(code) && said.stderr.contains(expected),
            "{words:?} ended with {}: {}",
            said.status,
            said.stderr
        );
    }
    Ok(())
}
