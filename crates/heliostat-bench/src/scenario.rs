//! Scenario files: what is simulated, as people write it down. `docs/sim.md` names all keys.
//!
//! A file says what it means or is refused: an unknown key, a value that makes no sense or a
//! section that is missing is an error that names the file, the line and the key. What jobs, legs
//! and faults may say is theirs to know ([`Job::set`], [`Fault::set`]); here is only where it
//! stands.

mod array;
mod legs;
mod published;
mod source;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use heliostat_sim::{Fault, Fidelity, Scenario, ScenarioError, TraceOpener};
use heliostat_types::Duration;
use heliostat_workload::{Job, Kind, parse_job_file};
use stdx::settings::{SettingError, parse_count};
use stdx::units::parse_time_ns;
use toml::de::DeTable;

use self::array::Array;
use self::published::parse_published;
use self::source::{Entry, Section, Source};
use crate::contender::Contender;
use crate::published::Published;

pub use self::source::ScenarioFileError;

/// A scenario with what its file says besides.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// The file as it was named.
    pub file: String,
    /// What it shows: the comment that the file begins with, in one line; empty where there is
    /// none.
    pub description: String,
    /// What is simulated.
    pub scenario: Scenario,
    /// The policies that it is run under unless somebody names others; never empty.
    pub policies: Vec<Contender>,
    /// What its reader should know: options that have no effect.
    pub notes: Vec<String>,
    /// What somebody measured who had the real thing. Has no effect on a run.
    pub published: Option<Published>,
}

/// More than any scenario: something else was named.
const FILE_MAX_BYTES: u64 = 16 << 20;

/// Longer than any run, and short enough that sums of a few do not overflow.
const TIME_MAX: Duration = Duration::from_secs(1_000_000_000);

/// More requests at once than any array sees, and few enough for the memory of any machine.
const IN_FLIGHT_MAX: u64 = 1 << 20;

/// Where nothing is said, the time that is measured; the warm-up before it is none.
const SECONDS_DEFAULT: Duration = Duration::from_secs(60);

/// The keys at the top of a file.
const TOP_KEYS: [&str; 12] = [
    "name",
    "seconds",
    "warmup_seconds",
    "seed",
    "first_client",
    "array",
    "job",
    "fault",
    "model",
    "hba",
    "fio",
    "published",
];

impl ScenarioFile {
    /// Reads the scenario file at `path`.
    ///
    /// # Errors
    /// Where there is none, or it makes no sense.
    pub fn load(path: &Path) -> Result<Self, ScenarioFileError> {
        let file = path.display().to_string();
        let wrong_at = |line, text| ScenarioFileError {
            file: file.clone(),
            line,
            text,
        };
        let wrong = |text| wrong_at(None, text);
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|opened| opened.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| wrong(format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > FILE_MAX_BYTES {
            return Err(wrong("is too large for a scenario".to_owned()));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let line = 1 + error.as_bytes()[..at]
                .iter()
                .filter(|b| **b == b'\n')
                .count();
            wrong_at(Some(line), format!("is no text: byte {at} is not UTF-8"))
        })?;
        Self::parse(path, &text)
    }

    /// Reads `text`, the content of the file at `path`.
    ///
    /// # Errors
    /// Where it makes no sense.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScenarioFileError> {
        let file = path.display().to_string();
        let source = Source { file: &file, text };
        let document = source.parse()?;
        let top = Section::new(source, "", 0, document.get_ref());
        if top.entries.is_empty() {
            return Err(source.error_of_all("is empty: a scenario has an [array] and a [[job]]"));
        }
        let array = Array::parse(&top)?;
        let checked = array.spec.check();
        checked.map_err(|error| source.error(array.at, error))?;
        let stem = path.file_stem().unwrap_or_default();
        let mut scenario = Scenario {
            name: stem.to_string_lossy().into_owned(),
            seconds: SECONDS_DEFAULT,
            warmup_seconds: Duration::ZERO,
            seed: 1,
            array: array.spec.clone(),
            jobs: Vec::new(),
            faults: Vec::new(),
            first_client: 0,
            fidelity: Fidelity::Stamps,
            traces: Some(trace_opener(path)),
        };
        for entry in &top.entries {
            set_top(&mut scenario, &top, entry)?;
        }
        scenario.jobs = parse_jobs(&top, &scenario, array.said_bytes)?;
        let notes = add_fio_jobs(&mut scenario, &top, path)?;
        scenario.faults = parse_faults(&top)?;
        let whole = scenario.check();
        whole.map_err(|error| place_error(&top, &scenario, &error))?;
        let published = top.entry("published");
        let published = published
            .map(|entry| parse_published(&top, entry))
            .transpose()?;
        Ok(Self {
            description: source.description(),
            scenario,
            policies: array.policies,
            notes,
            published,
            file,
        })
    }
}

/// Does what a key at the top of the file says; sections are left to others.
fn set_top(
    scenario: &mut Scenario,
    top: &Section<'_>,
    entry: &Entry<'_>,
) -> Result<(), ScenarioFileError> {
    match entry.key {
        "name" => {
            scenario.name = top.text(entry)?;
            if scenario.name.is_empty() || scenario.name.contains(char::is_control) {
                return Err(top.error(entry, "name: a name has letters, all on one line"));
            }
        }
        "seconds" => scenario.seconds = parse_seconds(top, entry)?,
        "warmup_seconds" => scenario.warmup_seconds = parse_seconds(top, entry)?,
        "seed" => {
            let text = top.text(entry)?;
            let seed = parse_count("seed", &text, 0, u64::MAX);
            scenario.seed = seed.map_err(|error| top.error(entry, error))?;
        }
        "first_client" => {
            let text = top.text(entry)?;
            let number = parse_count("first_client", &text, 0, u64::from(u32::MAX));
            scenario.first_client = number.map_err(|error| top.error(entry, error))?;
        }
        "array" | "job" | "fault" | "model" | "hba" | "fio" | "published" => {}
        key => return Err(top.error(entry, unknown_key(key, &TOP_KEYS, "the top of the file"))),
    }
    Ok(())
}

/// What to say of a key that does not belong where it stands, which is `here`.
fn unknown_key(key: &str, keys: &[&str], here: &str) -> String {
    /// Keys that people look for in another section.
    const HOMES: [(&str, &[&str]); 2] = [
        (
            "the top of the file",
            &["seconds", "warmup_seconds", "seed", "first_client"],
        ),
        ("[array]", &array::KEYS),
    ];
    let mut homes = HOMES.iter().filter(|(home, _)| *home != here);
    let home = homes.find(|(_, keys)| keys.contains(&key));
    match home {
        Some((home, _)) => format!("there is no key '{key}' here; it belongs to {home}"),
        None => SettingError::unknown(key, keys.iter().copied()).to_string(),
    }
}

/// Seconds as a number, or any length of time with its unit.
fn parse_seconds(section: &Section<'_>, entry: &Entry<'_>) -> Result<Duration, ScenarioFileError> {
    let text = section.text(entry)?;
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let with_unit = if is_number {
        format!("{text}s")
    } else {
        text.clone()
    };
    let time = parse_time_ns(&with_unit).ok().map(Duration::from_ns);
    time.filter(|time| *time <= TIME_MAX).ok_or_else(|| {
        let (key, most) = (entry.key, TIME_MAX.as_ms() / 1000);
        let text = format_args!(
            "{key}: '{text}' is no length of time: a number of seconds, or of ms, us or ns with \
             its unit, up to {most} s"
        );
        section.error(entry, text)
    })
}

/// Opens traces as the scenario at `path` names them: beside it, or by their whole path.
fn trace_opener(path: &Path) -> TraceOpener {
    let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
    TraceOpener::new(move |name| {
        let file = File::open(directory.join(name))?;
        Ok(Box::new(BufReader::new(file)))
    })
}

/// Ends a job at the array's last whole block that would end with the array as it is said to be.
fn clip(job: &mut Job, said_bytes: u64, size_bytes: u64) {
    let end = job.offset_bytes.saturating_add(job.size_bytes);
    if job.leg.is_none() && job.size_bytes > 0 && (size_bytes + 1..=said_bytes).contains(&end) {
        job.size_bytes = size_bytes.saturating_sub(job.offset_bytes);
    }
}

/// What is wrong with a job, at the first of its keys that `text` names.
fn job_error(section: &Section<'_>, text: &str) -> ScenarioFileError {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    match words.find_map(|word| section.entry(word)) {
        Some(entry) => section.error(entry, text),
        None => section.error_of_all(text),
    }
}

/// The `[[job]]`s, on an array that is said to have `said_bytes`.
fn parse_jobs(
    top: &Section<'_>,
    scenario: &Scenario,
    said_bytes: u64,
) -> Result<Vec<Job>, ScenarioFileError> {
    let mut in_flight = 0;
    let mut jobs = Vec::new();
    for (index, (at, table)) in top.tables("job")?.into_iter().enumerate() {
        let name = named(table).unwrap_or_else(|| format!("job{index}"));
        let section = Section::new(top.source, format!("job '{name}'"), at, table);
        let mut job = Job {
            name,
            ..Job::default()
        };
        for entry in &section.entries {
            let text = section.text(entry)?;
            job.set(entry.key, &text)
                .map_err(|error| section.error(entry, setting_text(&error, "a job")))?;
        }
        if section.entry("rw").is_none() && job.kind == Kind::Fio && job.trace.is_none() {
            let text = "there is no rw: read, write, randread, randwrite, rw or randrw";
            return Err(section.error_of_all(text));
        }
        clip(&mut job, said_bytes, scenario.array.size_bytes);
        scenario
            .check_job(&job)
            .map_err(|text| job_error(&section, &text))?;
        in_flight += u64::from(job.numjobs) * u64::from(job.iodepth);
        if in_flight > IN_FLIGHT_MAX {
            let text = format_args!(
                "numjobs and iodepth: with it there are more than {IN_FLIGHT_MAX} requests at once"
            );
            return Err(section.error_of_all(text));
        }
        jobs.push(job);
    }
    Ok(jobs)
}

/// Adds the jobs of the fio job file that `fio` names, which lies beside the scenario. What it says
/// of the length of the run holds where the scenario says nothing. Answers what its reader should
/// know.
fn add_fio_jobs(
    scenario: &mut Scenario,
    top: &Section<'_>,
    path: &Path,
) -> Result<Vec<String>, ScenarioFileError> {
    let Some(entry) = top.entry("fio") else {
        return Ok(Vec::new());
    };
    let name = top.text(entry)?;
    let wrong = |text: String| top.error(entry, format_args!("fio: {name}: {text}"));
    let beside = path.with_file_name(&name);
    let mut text = String::new();
    File::open(beside)
        .and_then(|file| file.take(FILE_MAX_BYTES).read_to_string(&mut text))
        .map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let file = parse_job_file(&text).map_err(|error| wrong(error.to_string()))?;
    for job in file.jobs {
        scenario
            .check_job(&job)
            .map_err(|text| wrong(format!("job '{}': {text}", job.name)))?;
        scenario.jobs.push(job);
    }
    if top.entry("seconds").is_none() {
        scenario.seconds = file.runtime.unwrap_or(Duration::ZERO).min(TIME_MAX);
    }
    if let Some(ramp_time) = file.ramp_time
        && top.entry("warmup_seconds").is_none()
    {
        scenario.warmup_seconds = ramp_time.min(TIME_MAX);
    }
    let notes = file.notes.iter();
    Ok(notes.map(|note| format!("{name}: {note}")).collect())
}

fn parse_faults(top: &Section<'_>) -> Result<Vec<Fault>, ScenarioFileError> {
    let mut faults = Vec::new();
    for (index, (at, table)) in top.tables("fault")?.into_iter().enumerate() {
        let section = Section::new(top.source, format!("fault {index}"), at, table);
        let mut fault = Fault::default();
        for entry in &section.entries {
            let text = section.text(entry)?;
            fault
                .set(entry.key, &text)
                .map_err(|error| section.error(entry, setting_text(&error, "a fault")))?;
        }
        faults.push(fault);
    }
    Ok(faults)
}

/// The name that a table gives itself.
fn named(table: &DeTable<'_>) -> Option<String> {
    let name = table.get("name")?;
    name.get_ref().as_str().map(str::to_owned)
}

/// An error of a setting of `what`, or where the key belongs instead.
fn setting_text(error: &SettingError, what: &str) -> String {
    match error {
        SettingError::UnknownKey { key, closest: None } => unknown_key(key, &[], what),
        SettingError::UnknownKey { .. } | SettingError::Value { .. } => error.to_string(),
    }
}

/// Finds the line of what `Scenario::check` calls by its place.
fn place_error(top: &Section<'_>, scenario: &Scenario, error: &ScenarioError) -> ScenarioFileError {
    let starts = |key| {
        let tables = top.tables(key).unwrap_or_default();
        tables.into_iter().map(|(at, _)| at)
    };
    let at = if let Some(index) = error.place.strip_prefix("fault ") {
        index
            .parse()
            .ok()
            .and_then(|index| starts("fault").nth(index))
    } else {
        let mut jobs = scenario.jobs.iter();
        let job = jobs.position(|job| error.place == format!("job '{}'", job.name));
        job.and_then(|index| starts("job").nth(index))
    };
    match at {
        Some(at) => top.source.error(at, error),
        None if scenario.jobs.is_empty() => top.source.error_of_all("there is no [[job]]"),
        None => top.source.error_of_all(&error.text),
    }
}
