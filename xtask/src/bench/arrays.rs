//! Arrays in the format of Linux md: what their bitmap costs, and how soon they are there.
//!
//! Drives are models in real time over files, so that a hard disk is one on every machine. What is
//! compared runs at once where drives are what is waited for. Where it is the processor, that would
//! take it from each other, and it runs by turns of a few seconds, so that a machine with other
//! work to do is as slow for the one as for the other. How fast background work goes beside clients
//! is measured in virtual time instead, by the tests of the simulator.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Effort;
use super::servers::Place;
use crate::fio;
use crate::process::{self, Background};

/// One figure.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// Of what.
    case: String,
    /// What, with its unit.
    what: &'static str,
    value: f64,
}

/// A drive, how many GiB of it the mirror has and clients write to, and in how many turns.
const SPANS: [(&str, u64, u32); 3] = [
    ("hdd-7200-1tb", 60, 1),
    ("hdd-7200-1tb", 900, 1),
    ("ssd-sata-256gb", 60, 6),
];

/// After so long, bits that stay set are set. On a drive that takes thousands of writes in a second
/// they are after a fraction of it, each time that clients come back.
const RAMP: Duration = Duration::from_secs(15);

/// How many legs the array has that is started.
const LEGS: usize = 16;

const START_TIME_MAX: Duration = Duration::from_secs(20);

/// Takes all figures.
///
/// # Errors
/// Where a server or fio fails.
pub(super) fn run(program: &Path, effort: Effort) -> Result<Vec<Figure>> {
    let (seconds, repeats) = match effort {
        Effort::Quick => (18, 3),
        Effort::Full => (60, 15),
    };
    let mut figures = Vec::new();
    for span in SPANS {
        let (drive, gib, turns) = span;
        let both = if turns == 1 { 1 } else { 2 };
        println!(
            "{drive}, {gib} GiB: {} s",
            both * (RAMP.as_secs() + seconds)
        );
        figures.extend(bitmap(program, span, seconds)?);
    }
    figures.extend(starts(program, repeats)?);
    Ok(figures)
}

/// Small writes at random to a mirror with a bitmap and to one without.
fn bitmap(
    program: &Path,
    (drive, gib, turns): (&str, u64, u32),
    seconds: u64,
) -> Result<Vec<Figure>> {
    let places = [Place::new("bitmap-internal")?, Place::new("bitmap-none")?];
    let [with, without] =
        [(&places[0], "internal"), (&places[1], "none")].map(|(place, bitmap)| {
            Array::create(program, &place.0, 2, gib << 30, &["--bitmap", bitmap])
        });
    let (with, without) = (with?, without?);
    let leg = |path: &str| format!("model:{drive},size={gib}G,file={path}");
    let servers = [with.serve(leg)?, without.serve(leg)?];
    let time = Duration::from_secs(seconds) / turns;
    let write = |array| write_at_random(array, gib, RAMP / turns, time);
    let (mut with_iops, mut without_iops) = (0.0, 0.0);
    for turn in 0..turns {
        let both = if turns == 1 {
            at_once(|| write(&with), || write(&without))
        } else if turn % 2 == 0 {
            (write(&with), write(&without))
        } else {
            // Who went first goes second.
            let second = write(&without);
            (write(&with), second)
        };
        with_iops += both.0? / f64::from(turns);
        without_iops += both.1? / f64::from(turns);
    }
    let status = with.status()?;
    drop(servers);
    let count = |key: &str| {
        status["bitmap"][key]
            .as_f64()
            .context("the status of a bitmap")
    };
    let figure = |what, value| Figure {
        case: format!("{drive}, {gib} GiB"),
        what,
        value,
    };
    Ok(vec![
        figure("writes per second without a bitmap", without_iops),
        figure("with one, as a share of that", with_iops / without_iops),
        figure("chunks of it", count("chunks")?),
        figure("bits set in all", count("sets")?),
        figure(
            "bits set by each write of a page",
            count("sets")? / count("pages_written")?.max(1.0),
        ),
    ])
}

fn at_once<T: Send>(one: impl FnOnce() -> T, other: impl FnOnce() -> T + Send) -> (T, T) {
    thread::scope(|scope| {
        let other = scope.spawn(other);
        (one(), other.join().expect("it does not panic"))
    })
}

/// How many writes per second there were in this time.
fn write_at_random(array: &Array<'_>, gib: u64, ramp: Duration, time: Duration) -> Result<f64> {
    let limit = ramp + time + Duration::from_secs(60);
    let report = process::succeed(
        process::limited(limit, "fio")
            .args(["--name=bench", "--ioengine=nbd", "--rw=randwrite"])
            .args(["--bs=4k", "--iodepth=32", "--time_based", "--norandommap"])
            // Not the same places at each turn.
            .args(["--randrepeat=0", "--output-format=json"])
            .arg(format!("--ramp_time={}", ramp.as_secs()))
            .arg(format!("--runtime={}", time.as_secs()))
            .arg(format!("--size={}G", gib - 1))
            .arg(format!("--uri={}", array.uri())),
    )?;
    let iops = fio::jobs(&report)?[0]["write"]["iops"].as_f64();
    iops.context("fio's writes per second")
}

/// How long it takes until a clean array of many legs greets a client, and until a leg is examined.
fn starts(program: &Path, repeats: usize) -> Result<Vec<Figure>> {
    let place = Place::new("starts")?;
    let array = Array::create(program, &place.0, LEGS, 2 << 30, &[])?;
    // Not the first one, which has to write down that there is nothing to be resynced.
    drop(array.serve(str::to_owned)?);
    let mut started = Vec::new();
    let mut examined = Vec::new();
    for _ in 0..repeats {
        let began = Instant::now();
        let server = array.serve(str::to_owned)?;
        started.push(began.elapsed().as_secs_f64() * 1e3);
        drop(server);
        let began = Instant::now();
        process::succeed(Command::new(program).arg("examine").arg(&array.legs[0]))?;
        examined.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let figure = |what, value| Figure {
        case: format!("{LEGS} legs"),
        what,
        value,
    };
    Ok(vec![
        figure(
            "start of a clean array until it greets a client, ms, median",
            median(started),
        ),
        figure("examine a leg, ms, median", median(examined)),
    ])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// An array on files.
struct Array<'a> {
    program: &'a Path,
    place: &'a Path,
    legs: Vec<PathBuf>,
}

impl<'a> Array<'a> {
    fn create(
        program: &'a Path,
        place: &'a Path,
        legs: usize,
        leg_bytes: u64,
        options: &[&str],
    ) -> Result<Self> {
        let legs: Vec<PathBuf> = (0..legs)
            .map(|leg| place.join(format!("leg{leg}")))
            .collect();
        for leg in &legs {
            std::fs::File::create(leg)?.set_len(leg_bytes)?;
        }
        let mut command = Command::new(program);
        command.args(["create", "bench", "--level", "raid1", "--assume-clean"]);
        command.args(options).args(&legs);
        command.arg("--control-dir").arg(place);
        process::succeed(&mut command)?;
        Ok(Self {
            program,
            place,
            legs,
        })
    }

    fn socket(&self) -> PathBuf {
        self.place.join("socket")
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///bench?socket={}", self.socket().display())
    }

    /// Serves it, each leg as `leg` writes it, until the result is dropped; returns when a client
    /// was greeted.
    fn serve(&self, leg: impl Fn(&str) -> String) -> Result<Background> {
        let mut command = Command::new(self.program);
        command.args(["serve", "--control-files", "off", "--name", "bench"]);
        command.args(["--export", &self.uri()]);
        command.arg("--control-dir").arg(self.place);
        command.args(
            self.legs
                .iter()
                .map(|path| leg(&path.display().to_string())),
        );
        let mut server = Background::start(&mut command, &self.place.join("log"))?;
        let began = Instant::now();
        loop {
            if greets(&self.socket()) {
                return Ok(server);
            }
            ensure!(server.is_running()?, "it ended: {}", server.said()?);
            ensure!(
                began.elapsed() < START_TIME_MAX,
                "it does not listen: {}",
                server.said()?
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn status(&self) -> Result<Value> {
        let mut command = Command::new(self.program);
        command.args(["status", "bench", "--json", "--control-dir"]);
        let said = process::succeed(command.arg(self.place))?;
        serde_json::from_str(&said).context("the status")
    }
}

/// Whether somebody listens there and says what an NBD server says first.
fn greets(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return false;
    };
    let mut greeting = [0; 8];
    stream.read_exact(&mut greeting).is_ok() && greeting == *b"NBDMAGIC"
}

/// All figures, as a table.
pub(super) fn summary(figures: &[Figure]) -> String {
    let mut text =
        "# Arrays in the format of Linux md\n\nRandom writes of 4 KiB, 32 at a time, to \
                    mirrors of two modelled drives.\n\n| | | |\n|---|---|---|\n"
            .to_owned();
    for Figure { case, what, value } in figures {
        let value = if *value < 10.0 {
            format!("{value:.3}")
        } else {
            format!("{value:.0}")
        };
        text.push_str(&format!("| {case} | {what} | {value} |\n"));
    }
    text
}

/// The same for programs.
pub(super) fn csv(figures: &[Figure]) -> String {
    let mut text = "case;what;value\n".to_owned();
    for Figure { case, what, value } in figures {
        text.push_str(&format!("{case};{what};{value}\n"));
    }
    text
}
