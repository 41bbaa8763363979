//! The published cases that come with heliostat, and the runs that each of them needs.

use std::path::Path;
use std::sync::Arc;

use heliostat_sim::{RunResult, Scenario};

use super::compare::{Case, Simulated, compare};
use super::{Published, PublishedUnit};
use crate::contender::Contender;
use crate::runs::Run;
use crate::scenario::ScenarioFile;

/// Names and texts of files in scenarios/published.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$((
            concat!("scenarios/published/", $name, ".toml"),
            include_str!(concat!("../../../../scenarios/published/", $name, ".toml")),
        )),*]
    };
}

/// All of them, source by source.
const FILES: [(&str, &str); 21] = files![
    "lat2021-raid1-random-mixed",
    "lat2021-raid1-seq-mixed",
    "lat2021-raid1-random-nvme",
    "lat2021-raid1-seq-nvme",
    "rr2021-3hdd-1job",
    "rr2021-2hdd-1ssd-1job",
    "rr2021-3hdd-8jobs",
    "rr2021-2hdd-1ssd-8jobs",
    "queue2025-a-randread-qd1",
    "queue2025-a-randread-qd32",
    "queue2025-a-seqread-qd16",
    "queue2025-a-randread-qd1-background",
    "queue2025-a1-randread-qd1",
    "queue2025-a1-randread-qd32",
    "queue2025-a1-seqread-qd16",
    "queue2025-a1-randread-qd1-background",
    "queue2025-b-randread-qd1",
    "queue2025-b-seqread-qd16",
    "zfs2013-2hdd-1ssd-noprefetch",
    "zfs2013-2hdd-1ssd-noprefetch-6",
    "zfs2013-2hdd-1ssd-noprefetch-9",
];

/// The published cases with what was published, in the order of their sources.
///
/// # Panics
/// Never: a test reads them all.
#[must_use]
pub fn published_cases() -> Vec<ScenarioFile> {
    let read = |(file, text)| match ScenarioFile::parse(Path::new(file), text) {
        Ok(file) => file,
        Err(error) => panic!("a published case that comes with heliostat: {error}"),
    };
    FILES.into_iter().map(read).collect()
}

/// The runs that a case needs, policy by policy, `pid` once for every client number that makes a
/// difference.
#[must_use]
pub fn runs_of(file: &ScenarioFile) -> Vec<Run> {
    let mut runs = Vec::new();
    for contender in &file.policies {
        for first_client in 0..client_numbers(&file.scenario, contender) {
            let scenario = Scenario {
                first_client,
                ..file.scenario.clone()
            };
            runs.push(Run {
                scenario: Arc::new(scenario),
                contender: contender.clone(),
            });
        }
    }
    runs
}

/// How many numbers of a client make a difference: `pid` takes them modulo the copies, and no other
/// policy looks at them.
fn client_numbers(scenario: &Scenario, contender: &Contender) -> u64 {
    let array = &scenario.array;
    let copies = match array.copies {
        0 => u32::try_from(array.legs.len()).expect("an array has few legs"),
        copies => copies,
    };
    if name_of(contender) == "pid" {
        copies.into()
    } else {
        1
    }
}

/// A policy's name without tunables.
fn name_of(contender: &Contender) -> String {
    let text = contender.to_string();
    let name = text.split(':').next().unwrap_or_default();
    name.to_owned()
}

/// A case beside the results of its runs, in the order of [`runs_of`].
///
/// # Panics
/// Where there are not as many results as runs.
#[must_use]
pub fn compare_runs(file: &ScenarioFile, published: &Published, results: &[RunResult]) -> Case {
    let mut results = results.iter();
    let mut simulated = Vec::new();
    for contender in &file.policies {
        let numbers = 0..client_numbers(&file.scenario, contender);
        let rates = numbers.map(|_| {
            let result = results.next().expect("a result for each run");
            rate(published.unit, result)
        });
        simulated.push(Simulated {
            policy: name_of(contender),
            rates: rates.collect(),
        });
    }
    compare(&file.scenario.name, published, &simulated)
}

fn rate(unit: PublishedUnit, result: &RunResult) -> f64 {
    let seconds = result.seconds;
    match unit {
        PublishedUnit::Iops => result.read.iops(seconds) + result.write.iops(seconds),
        PublishedUnit::MibPerSecond => {
            (result.read.bw_bytes(seconds) + result.write.bw_bytes(seconds)) / f64::from(1 << 20)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::{FILES, name_of, published_cases};
    use crate::scenario::ScenarioFile;

    #[test]
    fn every_case_is_known_and_simulates_what_was_published() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/published");
        let mut without_figures = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let file = ScenarioFile::load(&path).unwrap();
            let is_compared = FILES.iter().any(|(known, _)| path.ends_with(known));
            assert_eq!(file.published.is_some(), is_compared, "{}", file.file);
            without_figures += usize::from(!is_compared);
        }
        // Those on schedulers, whose figures are not of policies.
        assert_eq!(without_figures, 5);
        for file in published_cases() {
            let published = file.published.as_ref().expect("it was published");
            for result in &published.results {
                assert!(
                    file.policies
                        .iter()
                        .any(|policy| name_of(policy) == result.policy),
                    "{}: {}",
                    file.file,
                    result.policy
                );
            }
            assert!(!file.description.is_empty(), "{}", file.file);
        }
    }
}
