//! fio's job files, as far as they say what a block device is asked.
//!
//! Options that change nothing in virtual time are accepted and told; an option that is not known,
//! or that asks for something that is not simulated, is an error with its line and section.

use std::collections::BTreeMap;
use std::fmt;

use heliostat_types::Duration;
use stdx::settings::{SettingError, parse_bool};
use stdx::suggest::closest;

use crate::job::{FromMeasuring, Job, KEYS, Rw};

/// What a job file says.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// Its jobs, in their order.
    pub jobs: Vec<Job>,
    /// How long all of it runs; `None`: until every job has moved its size.
    pub runtime: Option<Duration>,
    /// How long it runs before that and is not counted.
    pub ramp_time: Option<Duration>,
    /// What a reader should know, once for each: options without effect, and what was taken for
    /// what.
    pub notes: Vec<String>,
}

/// What is wrong with a job file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFileError {
    /// The line, from 1.
    pub line: usize,
    /// The section; empty before the first.
    pub section: String,
    /// What.
    pub text: String,
}

impl fmt::Display for JobFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if !self.section.is_empty() {
            write!(f, ", [{}]", self.section)?;
        }
        write!(f, ": {}", self.text)
    }
}

impl std::error::Error for JobFileError {}

/// Options that change nothing that a block device in virtual time would notice.
const WITHOUT_EFFECT: &[&str] = &[
    "allow_file_create",
    "buffer_compress_percentage",
    "clat_percentiles",
    "clocksource",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_on_open",
    "create_serialize",
    "description",
    "directory",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "eta",
    "exitall",
    "fallocate",
    "fixedbufs",
    "gid",
    "group_reporting",
    "gtod_reduce",
    "hipri",
    "invalidate",
    "iodepth_batch",
    "iodepth_batch_complete",
    "iodepth_batch_complete_max",
    "iodepth_batch_submit",
    "iodepth_low",
    "ioscheduler",
    "kb_base",
    "log_avg_msec",
    "log_max_value",
    "lat_percentiles",
    "mem",
    "new_group",
    "nice",
    "norandommap",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "overwrite",
    "percentile_list",
    "per_job_logs",
    "pre_read",
    "prio",
    "prioclass",
    "random_generator",
    "randrepeat",
    "randseed",
    "refill_buffers",
    "registerfiles",
    "scramble_buffers",
    "softrandommap",
    "sqthread_poll",
    "thread",
    "uid",
    "unified_rw_reporting",
    "unit_base",
    "unlink",
    "write_bw_log",
    "write_hist_log",
    "write_iops_log",
    "write_lat_log",
    "zero_buffers",
];

/// Options that [`Job::set`] knows by another name.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("io_limit", "io_size"),
];

/// Options that are dealt with here.
const OWN: &[&str] = &[
    "filename",
    "ioengine",
    "ramp_time",
    "runtime",
    "startdelay",
    "stonewall",
    "time_based",
    "wait_for_previous",
];

/// Options of fio's that ask for what is not simulated, and what to do about it.
const REFUSED: &[(&str, &str)] = &[
    ("blocksize_range", "sizes are named one by one: bssplit"),
    ("bsrange", "sizes are named one by one: bssplit"),
    ("bs_unaligned", "requests are whole blocks"),
    ("filesize", "say size"),
    ("flow", "jobs are independent of each other"),
    ("io_size", "say size, and loops for more than once"),
    ("nrfiles", "a job has one file; give each a section"),
    ("rate_process", "say arrival = poisson:RATE in a scenario"),
    ("read_iolog", "say trace = NAME in a scenario"),
    ("rw_sequencer", "random requests are all random"),
    ("verify", "every byte is checked in every run anyway"),
    ("zonemode", "there are no zones"),
];

/// Keys of a scenario's job that are no option of fio's.
const NOT_FIOS: &[&str] = &[
    "kind",
    "background",
    "leg",
    "start",
    "stop",
    "shared_cache",
    "dirty_limit",
    "readahead",
    "arrival",
    "weight",
    "iops",
    "bandwidth",
    "trace",
    "trace_format",
    "trace_speed",
    "trace_volume",
    "trace_time",
];

/// Reads the text of a fio job file.
///
/// # Errors
/// Where it is none, or asks for what is not simulated.
pub fn parse_job_file(text: &str) -> Result<JobFile, JobFileError> {
    let mut parser = Parser::default();
    for (index, line) in text.lines().enumerate() {
        parser.line = index + 1;
        parser.take(line.trim())?;
    }
    parser.finish()
}

/// A section on its way to a job.
#[derive(Clone, Debug)]
struct Draft {
    line: usize,
    job: Job,
    filename: Option<String>,
    ioengine: String,
    runtime: Duration,
    ramp_time: Duration,
    startdelay: Duration,
    /// Jobs of one stage run together, stages one after the other.
    begins_stage: bool,
}

impl Draft {
    /// fio's defaults.
    fn new() -> Self {
        Self {
            line: 0,
            job: Job {
                rw: Rw::Read,
                direct: false,
                ..Job::default()
            },
            filename: None,
            ioengine: "psync".to_owned(),
            runtime: Duration::ZERO,
            ramp_time: Duration::ZERO,
            startdelay: Duration::ZERO,
            begins_stage: false,
        }
    }
}

#[derive(Debug)]
struct Parser {
    line: usize,
    section: String,
    global: Draft,
    drafts: Vec<Draft>,
    without_effect: Vec<String>,
    notes: Vec<String>,
}

impl Default for Parser {
    fn default() -> Self {
        Self {
            line: 0,
            section: String::new(),
            global: Draft::new(),
            drafts: Vec::new(),
            without_effect: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl Parser {
    fn take(&mut self, line: &str) -> Result<(), JobFileError> {
        if line.is_empty() || line.starts_with(['#', ';']) {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.strip_suffix(']').filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| self.wrong("a section is [NAME]"))?;
            name.clone_into(&mut self.section);
            if name != "global" {
                let mut draft = self.global.clone();
                draft.line = self.line;
                name.clone_into(&mut draft.job.name);
                self.drafts.push(draft);
            }
            return Ok(());
        }
        if line.starts_with("include ") {
            return Err(self.wrong("include is not followed: put the text here"));
        }
        if line.contains("${") {
            return Err(
                self.wrong("there is no environment here: write out what ${...} stands for")
            );
        }
        if self.section.is_empty() {
            return Err(
                self.wrong("an option before the first section; [global] or [NAME] is missing")
            );
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), value.trim()),
            None => (line, "1"),
        };
        let names = OTHER_NAMES.iter().find(|(other, _)| *other == key);
        let key = names.map_or(key, |(_, name)| name);
        self.set(key, value).map_err(|text| self.wrong(text))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        if WITHOUT_EFFECT.contains(&key) {
            if !self.without_effect.iter().any(|known| known == key) {
                self.without_effect.push(key.to_owned());
            }
            return Ok(());
        }
        if let Some((_, text)) = REFUSED.iter().find(|(refused, _)| *refused == key) {
            return Err(format!("{key} is not simulated: {text}"));
        }
        let draft = match self.section.as_str() {
            "global" => &mut self.global,
            _ => self.drafts.last_mut().expect("a section has begun"),
        };
        let told = |error: SettingError| error.to_string();
        match key {
            "filename" => draft.filename = Some(value.to_owned()),
            "ioengine" => value.clone_into(&mut draft.ioengine),
            "runtime" => draft.runtime = parse_time(key, value)?,
            "ramp_time" => draft.ramp_time = parse_time(key, value)?,
            "startdelay" => draft.startdelay = parse_time(key, value)?,
            "stonewall" | "wait_for_previous" => {
                draft.begins_stage = parse_bool(key, value).map_err(told)?;
            }
            // Every run that has a length is: regions are wrapped.
            "time_based" => drop(parse_bool(key, value).map_err(told)?),
            _ if KEYS.contains(&key) && !NOT_FIOS.contains(&key) => {
                draft.job.set(key, value).map_err(told)?;
            }
            _ => return Err(unknown(key)),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<JobFile, JobFileError> {
        if self.drafts.is_empty() {
            self.line = self.line.max(1);
            return Err(self.wrong("there is no job: a section besides [global]"));
        }
        let mut drafts = std::mem::take(&mut self.drafts);
        for draft in &mut drafts {
            self.settle_engine(draft);
        }
        self.place(&mut drafts)?;
        let runtime = self.schedule(&mut drafts)?;
        let ramp_time = drafts.iter().map(|draft| draft.ramp_time).max();
        if !self.without_effect.is_empty() {
            let names = self.without_effect.join(", ");
            self.notes
                .push(format!("without effect in virtual time: {names}"));
        }
        Ok(JobFile {
            jobs: drafts.into_iter().map(|draft| draft.job).collect(),
            runtime,
            ramp_time: ramp_time.filter(|time| *time > Duration::ZERO),
            notes: self.notes,
        })
    }

    /// An engine that waits for every call has one request in flight; so has libaio without
    /// direct I/O.
    fn settle_engine(&mut self, draft: &mut Draft) {
        let engine = draft.ioengine.as_str();
        let is_async = match engine {
            "libaio" | "posixaio" => draft.job.direct,
            "io_uring" | "io_uring_cmd" | "windowsaio" | "solarisaio" => true,
            _ => false,
        };
        if !is_async && draft.job.iodepth > 1 {
            let how = if draft.job.direct {
                ""
            } else {
                " without direct=1"
            };
            self.notes.push(format!(
                "[{}]: {engine}{how} has one request in flight, not iodepth={}",
                draft.job.name, draft.job.iodepth
            ));
            draft.job.iodepth = 1;
        }
    }

    /// Lays the files of all jobs out, one behind the other in the order in which they are named.
    fn place(&mut self, drafts: &mut [Draft]) -> Result<(), JobFileError> {
        let mut files: BTreeMap<String, u64> = BTreeMap::new();
        let mut order = Vec::new();
        for (index, draft) in drafts.iter_mut().enumerate() {
            let name = draft
                .filename
                .clone()
                .unwrap_or_else(|| format!("{index}\0"));
            let job = &mut draft.job;
            if draft.filename.is_none() && job.numjobs > 1 && job.offset_increment_bytes == 0 {
                if job.size_bytes == 0 {
                    let text = "each clone has a file of its own: say size, or filename for one \
                                that all share";
                    return Err(error_at(draft, text));
                }
                // fio gives each clone a file.
                job.offset_increment_bytes = job.size_bytes;
            }
            let is_reader = job.rw == Rw::Read && !job.direct && job.offset_increment_bytes == 0;
            job.shared_cache = is_reader && job.numjobs > 1;
            let behind = u64::from(job.numjobs - 1).saturating_mul(job.offset_increment_bytes);
            let end = [job.offset_bytes, job.size_bytes, behind];
            let end = end.into_iter().fold(0, u64::saturating_add);
            let entry = files.entry(name.clone()).or_insert_with(|| {
                order.push(name);
                0
            });
            *entry = end.max(*entry);
        }
        if order.len() < 2 {
            return Ok(());
        }
        let mut bases = BTreeMap::new();
        let mut base = 0u64;
        for name in order {
            let size = files[&name];
            bases.insert(name, base);
            base = base.saturating_add(size.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX));
        }
        for (index, draft) in drafts.iter_mut().enumerate() {
            let name = draft
                .filename
                .clone()
                .unwrap_or_else(|| format!("{index}\0"));
            if draft.job.size_bytes == 0 || draft.job.offset_percent > 0 {
                let text = "several files are laid out one behind the other: say size of each, \
                            and offset without %";
                return Err(error_at(draft, text));
            }
            draft.job.offset_bytes = draft.job.offset_bytes.saturating_add(bases[&name]);
        }
        self.notes
            .push("files lie one behind the other in the array".to_owned());
        Ok(())
    }

    /// Says when jobs begin and end; how long all of it takes.
    fn schedule(&self, drafts: &mut [Draft]) -> Result<Option<Duration>, JobFileError> {
        let mut begins_at = Duration::ZERO;
        let mut longest = Duration::ZERO;
        let is_staged = drafts.iter().skip(1).any(|draft| draft.begins_stage);
        let total = drafts.iter().map(|draft| draft.runtime).max();
        for index in 0..drafts.len() {
            if index > 0 && drafts[index].begins_stage {
                let before = &drafts[..index];
                if before.iter().any(|draft| draft.runtime == Duration::ZERO) {
                    let text = "stonewall: when the jobs before it end is not known without their \
                                runtime; say it, or put the jobs into files of their own";
                    return Err(error_at(&drafts[index], text));
                }
                begins_at += longest;
                longest = Duration::ZERO;
            }
            let draft = &mut drafts[index];
            longest = longest.max(draft.runtime);
            let start = begins_at + draft.startdelay;
            if start > Duration::ZERO {
                draft.job.start = Some(moment(start));
            }
            if is_staged || Some(draft.runtime) != total {
                let ends = Some(moment(start + draft.runtime));
                draft.job.stop = ends.filter(|_| draft.runtime > Duration::ZERO);
            }
        }
        let all = begins_at + longest;
        Ok(Some(all).filter(|all| *all > Duration::ZERO))
    }

    fn wrong(&self, text: impl Into<String>) -> JobFileError {
        JobFileError {
            line: self.line,
            section: self.section.clone(),
            text: text.into(),
        }
    }
}

fn moment(time: Duration) -> FromMeasuring {
    FromMeasuring(i64::try_from(time.as_ns()).unwrap_or(i64::MAX))
}

fn error_at(draft: &Draft, text: &str) -> JobFileError {
    JobFileError {
        line: draft.line,
        section: draft.job.name.clone(),
        text: text.to_owned(),
    }
}

fn unknown(key: &str) -> String {
    let fios = KEYS.iter().filter(|key| !NOT_FIOS.contains(key));
    let known = fios.chain(OWN).chain(WITHOUT_EFFECT).copied();
    match closest(key, known) {
        Some(closest) => format!("there is no option '{key}'; did you mean '{closest}'?"),
        None if NOT_FIOS.contains(&key) => {
            format!("'{key}' is no option of fio's: it belongs into a scenario's [[job]]")
        }
        None => format!("there is no option '{key}' that is simulated"),
    }
}

/// A length of time as fio writes it: seconds, or with d, h, m, s, ms or us.
fn parse_time(key: &str, value: &str) -> Result<Duration, String> {
    let at = value.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = value.split_at(at.unwrap_or(value.len()));
    let us: u64 = match unit.trim() {
        "" | "s" => 1_000_000,
        "ms" => 1_000,
        "us" => 1,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => 0,
    };
    let time = number.parse::<u64>().ok().filter(|_| us > 0);
    let time = time.and_then(|number| number.checked_mul(us));
    // A hundred years: sums of such do not overflow.
    let time = time.filter(|us| *us <= 36_500 * 86_400_000_000);
    time.map(Duration::from_us)
        .ok_or_else(|| format!("{key}: '{value}' is no time: seconds, or with ms, us, m, h or d"))
}

#[cfg(test)]
mod tests;
