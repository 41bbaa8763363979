//! What came of a benchmark, as it is kept: `docs/bench.md` says what each field means; fields are
//! only ever added.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::fio::Measured;
use super::spread::Spread;
use crate::report::Facts;

/// What the file says that it is.
const FORMAT: &str = "heliostat-bench-1";

/// Everything that was measured, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchResult {
    format: String,
    /// Where it was measured, and with what.
    pub machine: Machine,
    /// The command.
    pub command: String,
    /// The name of the suite, or the job file.
    pub suite: String,
    /// How long each run takes.
    pub runtime_s: u32,
    /// How long each goes on before it is measured.
    pub warmup_s: u32,
    /// How often each job is run.
    pub repeats: u32,
    /// Whether all runs were done.
    pub is_complete: bool,
    /// What was measured.
    pub targets: Vec<TargetNote>,
    /// What came of it: for each job, each target and each policy.
    pub rows: Vec<Row>,
}

/// Where something was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// When it began, in UTC.
    pub created_utc: String,
    /// Version of heliostat.
    pub heliostat: String,
    /// Version of fio.
    pub fio: String,
    /// The kernel.
    pub kernel: String,
    /// The distribution.
    pub system: String,
    /// The model of the processor.
    pub processor: String,
    /// How many threads it runs at once.
    pub cpu_count: usize,
    /// Main memory.
    pub memory_bytes: u64,
    /// Whether the page cache was emptied before each run.
    pub drops_caches: bool,
}

/// What a target is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetNote {
    /// As the user wrote it.
    pub target: String,
    /// In words.
    pub what: String,
    /// The legs that its load is counted on; none where they cannot be seen.
    pub legs: Vec<String>,
}

/// What a target is measured under: what it was switched to, as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Under {
    /// The read policy.
    pub policy: Option<String>,
    /// The scheduler.
    pub scheduler: Option<String>,
}

/// One job on one target under one policy and scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What the job is called.
    pub job: String,
    /// As the user wrote it.
    pub target: String,
    /// The read policy; absent where nothing was switched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy: Option<String>,
    /// The scheduler; absent where nothing was switched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scheduler: Option<String>,
    /// How fio was started.
    pub command: String,
    /// One after the other.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What fio says.
    #[serde(flatten)]
    pub measured: Measured,
    /// What each leg did meanwhile, the warm-up included; of a job file, all its jobs.
    pub legs: Vec<LegCount>,
}

/// What one leg did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegCount {
    /// How many reads,
    pub reads: u64,
    /// of how many bytes,
    pub read_bytes: u64,
    /// how many writes,
    pub writes: u64,
    /// of how many bytes.
    pub write_bytes: u64,
}

/// Why a result cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not there, or may not be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, std::io::Error),
    /// It is something else.
    #[error("{0} is no result of 'heliostat bench --report': {1}")]
    Foreign(String, String),
}

impl BenchResult {
    /// Nothing yet, of this suite by fio of this version on this machine.
    #[must_use]
    pub fn new(suite: &str, fio: &str, drops_caches: bool, facts: &Facts) -> Self {
        Self {
            format: FORMAT.to_owned(),
            machine: Machine {
                created_utc: facts.created_utc.clone(),
                heliostat: format!("{} ({})", facts.version, facts.build),
                fio: fio.to_owned(),
                kernel: facts.kernel.clone(),
                system: facts.system.clone(),
                processor: facts.processor.clone(),
                cpu_count: facts.cpu_count,
                memory_bytes: facts.memory_bytes,
                drops_caches,
            },
            command: std::env::args().collect::<Vec<String>>().join(" "),
            suite: suite.to_owned(),
            runtime_s: 0,
            warmup_s: 0,
            repeats: 0,
            is_complete: false,
            targets: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// The result at `path`: a report's directory, or the file `report.json` of one.
    ///
    /// # Errors
    /// Where there is none.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let file = match path.is_dir() {
            true => path.join("report.json"),
            false => path.to_owned(),
        };
        let name = file.display().to_string();
        let text = fs::read_to_string(&file)
            .map_err(|error| ReadError::Unreadable(name.clone(), error))?;
        let result: Self = serde_json::from_str(&text)
            .map_err(|error| ReadError::Foreign(name.clone(), error.to_string()))?;
        match result.format == FORMAT {
            true => Ok(result),
            false => Err(ReadError::Foreign(
                name,
                format!("its format is '{}', not {FORMAT}", result.format),
            )),
        }
    }

    /// What there is of a job on a target under this, a new row where there is none.
    pub fn row(&mut self, job: &str, target: &str, under: &Under) -> &mut Row {
        let is_it = |row: &Row| row.job == job && row.target == target && row.is_under(under);
        let index = self.rows.iter().position(is_it).unwrap_or_else(|| {
            self.rows.push(Row {
                job: job.to_owned(),
                target: target.to_owned(),
                policy: under.policy.clone(),
                scheduler: under.scheduler.clone(),
                command: String::new(),
                runs: Vec::new(),
            });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    /// What the legs of a target have done between two counts, each by its name, in the order in
    /// which the target was noted. A leg that was not there both times has done nothing that is
    /// known.
    #[must_use]
    pub fn legs_since(
        &self,
        target: &str,
        before: &[(String, LegCount)],
        after: &[(String, LegCount)],
    ) -> Vec<LegCount> {
        let count = |counts: &[(String, LegCount)], leg: &str| {
            let mut counts = counts.iter();
            counts
                .find(|(name, _)| name == leg)
                .map(|&(_, count)| count)
        };
        let noted = self.targets.iter().find(|noted| noted.target == target);
        let legs = noted.into_iter().flat_map(|noted| &noted.legs);
        legs.map(|leg| match (count(before, leg), count(after, leg)) {
            (Some(before), Some(after)) => after.since(&before),
            _ => LegCount::default(),
        })
        .collect()
    }

    /// The names of the jobs, in the order in which they were run.
    #[must_use]
    pub fn jobs(&self) -> Vec<&str> {
        let mut jobs: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !jobs.contains(&row.job.as_str()) {
                jobs.push(&row.job);
            }
        }
        jobs
    }

    /// What there is of a job: those that were run at least once.
    pub fn of_job<'a>(&'a self, job: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows
            .iter()
            .filter(move |row| row.job == job && !row.runs.is_empty())
    }
}

impl Row {
    /// A figure of all runs.
    #[must_use]
    pub fn spread(&self, figure: fn(&Measured) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| figure(&run.measured)).collect())
    }

    /// The one in the middle of it; 0 where nothing was run.
    #[must_use]
    pub fn median(&self, figure: fn(&Measured) -> f64) -> f64 {
        self.spread(figure).map_or(0.0, |spread| spread.median)
    }

    /// Whether its requests are so large that bytes say more than requests.
    #[must_use]
    pub fn is_large(&self) -> bool {
        let bytes = self.median(|run| run.bytes_per_s);
        bytes >= 65_536.0 * self.median(|run| run.iops)
    }

    /// What it is called where its target's name is known.
    #[must_use]
    pub fn label(&self) -> String {
        let under = self.policy.iter().chain(&self.scheduler);
        under.fold(self.target.clone(), |label, under| label + " " + under)
    }

    fn is_under(&self, under: &Under) -> bool {
        self.policy == under.policy && self.scheduler == under.scheduler
    }

    /// What each leg did in all runs.
    #[must_use]
    pub fn legs(&self) -> Vec<LegCount> {
        let mut sums: Vec<LegCount> = Vec::new();
        for run in &self.runs {
            sums.resize(sums.len().max(run.legs.len()), LegCount::default());
            for (sum, leg) in sums.iter_mut().zip(&run.legs) {
                sum.reads += leg.reads;
                sum.read_bytes += leg.read_bytes;
                sum.writes += leg.writes;
                sum.write_bytes += leg.write_bytes;
            }
        }
        sums
    }
}

impl LegCount {
    /// What came since `before`; nothing where it was counted anew.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            writes: self.writes.saturating_sub(before.writes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BenchResult, LegCount, TargetNote};
    use crate::report::Facts;

    #[test]
    fn legs_are_counted_by_their_names() {
        let mut result = BenchResult::new("seeds", "fio-3", false, &Facts::of_this_machine());
        result.targets = vec![TargetNote {
            target: "x".to_owned(),
            what: String::new(),
            legs: ["a", "b", "c"].map(str::to_owned).to_vec(),
        }];
        let counts = |counts: &[(&str, u64)]| {
            let count = |&(name, reads): &(&str, u64)| {
                let count = LegCount {
                    reads,
                    ..LegCount::default()
                };
                (name.to_owned(), count)
            };
            counts.iter().map(count).collect::<Vec<_>>()
        };
        // One went and one came between the two counts.
        let before = counts(&[("a", 10), ("b", 20), ("c", 30)]);
        let after = counts(&[("a", 11), ("c", 33), ("d", 40)]);
        let legs = result.legs_since("x", &before, &after);
        let reads: Vec<u64> = legs.iter().map(|leg| leg.reads).collect();
        assert_eq!(reads, [1, 0, 3]);
        assert!(result.legs_since("y", &before, &after).is_empty());
    }
}
