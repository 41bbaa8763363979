//! What fio 3 prints with `--output-format=json`: one object, perhaps after lines of warnings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What runs beside the jobs that are measured.
pub(super) const BACKGROUND: &str = "background";

/// Why there are no figures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FioError {
    /// Where the object should be is nothing, or something else.
    #[error("fio printed no figures: {0}")]
    NoJson(String),
    /// Requests failed.
    #[error("fio's job {job} failed: {reason}")]
    Failed {
        /// Which of the jobs.
        job: String,
        /// What the system calls it.
        reason: String,
    },
    /// It ran and asked nothing.
    #[error("fio has measured nothing: no request ended")]
    Empty,
}

/// What one run of one job gave, reads and writes together. Times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Requests per second.
    pub iops: f64,
    /// Those of them that read.
    pub read_iops: f64,
    /// Those that write.
    pub write_iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// From submission to completion: of all requests.
    pub mean_ns: f64,
    /// The 99th percentile; of reads, where there were any, as are those that follow.
    pub p99_ns: u64,
    /// The 99.9th.
    pub p99_9_ns: u64,
    /// The 99.99th.
    pub p99_99_ns: u64,
    /// The slowest of all requests.
    pub max_ns: u64,
}

#[derive(Deserialize)]
struct Output {
    jobs: Vec<JobOutput>,
}

#[derive(Deserialize)]
struct JobOutput {
    jobname: String,
    #[serde(default)]
    error: i32,
    read: Side,
    write: Side,
}

#[derive(Deserialize)]
struct Side {
    total_ios: u64,
    iops: f64,
    bw_bytes: f64,
    clat_ns: Latency,
    lat_ns: Latency,
}

#[derive(Deserialize)]
struct Latency {
    mean: f64,
    max: u64,
    #[serde(default)]
    percentile: BTreeMap<String, u64>,
}

/// The figures of the jobs that are measured, by their names, in fio's order. What fio tells of
/// the clones of a job apart is put together: rates are added, of percentiles the worst stands for
/// all. A job of which no request ended has none.
///
/// # Errors
/// Where there is no such object, a job failed or nothing was done.
pub fn parse_output(text: &str) -> Result<Vec<(String, Option<Measured>)>, FioError> {
    let output = object_of(text)?;
    if let Some(job) = output.jobs.iter().find(|job| job.error != 0) {
        return Err(FioError::Failed {
            job: job.jobname.clone(),
            reason: std::io::Error::from_raw_os_error(job.error).to_string(),
        });
    }
    let mut all: Vec<(String, Option<Measured>)> = Vec::new();
    for job in output.jobs.iter().filter(|job| job.jobname != BACKGROUND) {
        let figures = measured(job);
        match all.iter_mut().find(|(name, _)| *name == job.jobname) {
            Some((_, before)) => {
                *before = match (*before, figures) {
                    (Some(before), Some(figures)) => Some(before.beside(&figures)),
                    (before, figures) => before.or(figures),
                }
            }
            None => all.push((job.jobname.clone(), figures)),
        }
    }
    match all.iter().any(|(_, figures)| figures.is_some()) {
        true => Ok(all),
        false => Err(FioError::Empty),
    }
}

impl Measured {
    /// Of two that ran beside each other.
    fn beside(&self, other: &Self) -> Self {
        let weighted = self.mean_ns * self.iops + other.mean_ns * other.iops;
        Self {
            iops: self.iops + other.iops,
            read_iops: self.read_iops + other.read_iops,
            write_iops: self.write_iops + other.write_iops,
            bytes_per_s: self.bytes_per_s + other.bytes_per_s,
            mean_ns: weighted / (self.iops + other.iops),
            p99_ns: self.p99_ns.max(other.p99_ns),
            p99_9_ns: self.p99_9_ns.max(other.p99_9_ns),
            p99_99_ns: self.p99_99_ns.max(other.p99_99_ns),
            max_ns: self.max_ns.max(other.max_ns),
        }
    }
}

/// The object begins at the first line that is a brace alone: warnings may have braces in them.
fn object_of(text: &str) -> Result<Output, FioError> {
    let mut offset_bytes = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "{" {
            let mut values = serde_json::Deserializer::from_str(&text[offset_bytes..]);
            return Output::deserialize(&mut values)
                .map_err(|error| FioError::NoJson(error.to_string()));
        }
        offset_bytes += line.len();
    }
    let said = text.lines().rfind(|line| !line.trim().is_empty());
    Err(FioError::NoJson(
        said.unwrap_or("nothing at all").to_owned(),
    ))
}

fn measured(job: &JobOutput) -> Option<Measured> {
    let sides = [&job.read, &job.write];
    let total: u64 = sides.iter().map(|side| side.total_ios).sum();
    let shown = sides.into_iter().find(|side| side.total_ios > 0)?;
    let at = |percent: &str| shown.clat_ns.percentile.get(percent).copied();
    let weighted = |side: &Side| side.lat_ns.mean * side.total_ios as f64;
    Some(Measured {
        iops: job.read.iops + job.write.iops,
        read_iops: job.read.iops,
        write_iops: job.write.iops,
        bytes_per_s: job.read.bw_bytes + job.write.bw_bytes,
        mean_ns: (weighted(&job.read) + weighted(&job.write)) / total as f64,
        p99_ns: at("99.000000")?,
        p99_9_ns: at("99.900000")?,
        p99_99_ns: at("99.990000")?,
        max_ns: job.read.lat_ns.max.max(job.write.lat_ns.max),
    })
}

#[cfg(test)]
mod tests {
    use super::{FioError, parse_output};

    fn job(name: &str, error: i32, reads: u64, writes: u64) -> String {
        let side = |ios: u64, mean: f64| {
            format!(
                "{{\"total_ios\":{ios},\"iops\":{ios},\"bw_bytes\":{},\"lat_ns\":{{\
                 \"mean\":{mean},\
                 \"max\":{}}},\"clat_ns\":{{\"mean\":1.0,\"max\":2,\
                 \"percentile\":{{\"99.000000\":7,\"99.900000\":8,\"99.990000\":9}}}}}}",
                ios * 4096,
                ios * 10
            )
        };
        let (reads, writes) = (side(reads, 100.0), side(writes, 200.0));
        format!("{{\"jobname\":\"{name}\",\"error\":{error},\"read\":{reads},\"write\":{writes}}}")
    }

    fn output(jobs: &[String]) -> String {
        format!("{{\n\"jobs\":[{}]}}\n", jobs.join(","))
    }

    #[test]
    fn warnings_before_the_object_are_passed_over() {
        let text = output(&[job("a", 0, 3, 1), job("background", 0, 0, 7)]);
        let text = format!("fio: {{odd}} setting\nnote: both\n{text}");
        let got = parse_output(&text).unwrap();
        let [(name, got)] = &got[..] else {
            panic!("not one job: {got:?}")
        };
        assert_eq!(name, "a");
        let got = got.expect("it has figures");
        assert_eq!((got.iops, got.write_iops, got.mean_ns), (4.0, 1.0, 125.0));
        assert_eq!((got.p99_ns, got.p99_99_ns, got.max_ns), (7, 9, 30));
    }

    #[test]
    fn clones_are_one_job_and_other_jobs_are_not() {
        let jobs = [
            job("a", 0, 3, 0),
            job("b", 0, 1, 0),
            job("a", 0, 0, 1),
            job("idle", 0, 0, 0),
        ];
        let got = parse_output(&output(&jobs)).unwrap();
        let rates: Vec<_> = got
            .iter()
            .map(|(name, got)| (name.as_str(), got.map(|got| got.iops)))
            .collect();
        assert_eq!(rates, [("a", Some(4.0)), ("b", Some(1.0)), ("idle", None)]);
        let first = got[0].1.expect("it has figures");
        assert_eq!((first.mean_ns, first.max_ns), (125.0, 30));
    }

    #[test]
    fn what_failed_or_did_nothing_has_no_figures() {
        let one = |error, reads| output(&[job("a", error, reads, 0)]);
        assert_eq!(parse_output(&one(0, 0)), Err(FioError::Empty));
        let failed = parse_output(&one(5, 3)).unwrap_err().to_string();
        assert!(failed.contains("Input/output error"), "{failed}");
        let text = one(0, 3);
        let cut = parse_output(&text[..text.len() / 2]);
        assert!(matches!(cut, Err(FioError::NoJson(_))), "{cut:?}");
        let none = parse_output("fio: engine nbd not loadable\n");
        let none = none.unwrap_err().to_string();
        assert!(none.ends_with("engine nbd not loadable"), "{none}");
    }
}
