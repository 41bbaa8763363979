//! What is to be served, and how, as the user said it; and whether that makes sense by itself.
//!
//! Nothing here opens a leg.

use std::path::{Path, PathBuf};

use heliostat_engine::{Config, SchedulerPlace};
use heliostat_leg::{IoChoice, LegSpec};
use heliostat_policy::{ArrayInfo, DEFAULT_POLICY, PolicySpec};
use heliostat_scheduler::SchedulerSpec;
use heliostat_types::{Duration, LEGS_MAX};
use stdx::units::format_size;

use crate::UsageError;
use crate::places::{self, Places};
use crate::rates::{RateChange, Rates};

/// A leg that completes nothing for less is busy, and not dead.
const LEG_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// What is to be served, and how.
#[derive(Clone, Debug)]
pub struct ArrayOptions {
    /// What it is called.
    pub name: String,
    /// Its legs, in role order.
    pub legs: Vec<LegSpec>,
    /// Which legs to believe.
    pub trust: Trust,
    /// Whether an array with metadata is served although it lacks legs.
    pub degraded_ok: bool,
    /// Whether legs that were away, and of which the bitmap knows what they missed, are given that
    /// and come back.
    pub takes_back: bool,
    /// The identity of the array that the legs must be of, where it was named.
    pub uuid: Option<String>,
    /// The read policy, as the user wrote it; the default where nothing was written.
    pub policy: Option<String>,
    /// In which order a leg gets what waits for it; in order of arrival where nothing was said.
    pub scheduler: Option<SchedulerSpec>,
    /// Where that is decided.
    pub scheduler_on: SchedulerPlace,
    /// Between which bounds background work goes, where not between the default ones.
    pub rates: RateChange,
    /// Whether what is set live is kept for the next start.
    pub keeps_settings: bool,
    /// Memory for requests.
    pub memory_bytes: u64,
    /// After how much silence a leg is faulted.
    pub leg_timeout: Duration,
    /// Whether counters and histograms of clients and legs are kept.
    pub accounting: bool,
    /// How old a request is that is counted as late.
    pub client_timeout: Duration,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether the array is served as one, whatever volumes it has.
    pub whole: bool,
    /// How files and block devices are reached.
    pub io: IoChoice,
    /// Whether to lock the process's memory, as far as the kernel permits.
    pub lock_memory: bool,
    /// Where things lie.
    pub places: Places,
}

impl ArrayOptions {
    /// These legs under this name, everything else as it is unless told otherwise.
    #[must_use]
    pub fn new(name: String, legs: Vec<LegSpec>, places: Places) -> Self {
        Self {
            name,
            legs,
            trust: Trust::Record,
            degraded_ok: false,
            takes_back: true,
            uuid: None,
            policy: None,
            scheduler: None,
            scheduler_on: SchedulerPlace::Legs,
            rates: RateChange::default(),
            keeps_settings: true,
            memory_bytes: Config::MEMORY_DEFAULT_BYTES as u64,
            leg_timeout: Config::LEG_TIMEOUT_DEFAULT,
            accounting: true,
            client_timeout: Config::CLIENT_TIMEOUT_DEFAULT,
            read_only: false,
            whole: false,
            io: IoChoice::Auto,
            lock_memory: true,
            places,
        }
    }
    /// Whether the options make sense by themselves, before anything is done about them.
    ///
    /// # Errors
    /// Where they do not; the text says why, and what would.
    pub fn check(&self) -> Result<(), UsageError> {
        places::check_name(&self.name)?;
        let count = self.legs.len();
        if !(1..=LEGS_MAX).contains(&count) {
            return Err(UsageError(format!(
                "an array has 1 to {LEGS_MAX} legs, and {count} were named"
            )));
        }
        if self.trust == Trust::Drive && count != 1 {
            return Err(UsageError(format!(
                "a drive is one leg, and {count} were named"
            )));
        }
        self.refuse_twins()?;
        self.source()?;
        self.memory()?;
        if self.leg_timeout < LEG_TIMEOUT_MIN {
            return Err(UsageError(format!(
                "--leg-timeout {} is too short: a leg that only takes its time would be faulted; \
                 give it {LEG_TIMEOUT_MIN} at least",
                self.leg_timeout
            )));
        }
        Rates::default().changed(self.rates)?;
        parse_policy(self.policy.as_deref(), count)?;
        Ok(())
    }

    /// Refuses a file that is named twice, be it in two ways: opening it twice would only say that
    /// we use it ourselves.
    fn refuse_twins(&self) -> Result<(), UsageError> {
        let mut seen: Vec<PathBuf> = Vec::new();
        for spec in &self.legs {
            let Ok(path) = Path::new(&spec.to_string()).canonicalize() else {
                continue;
            };
            if seen.contains(&path) {
                return Err(UsageError(format!(
                    "{spec} is named twice; a mirror needs different legs"
                )));
            }
            seen.push(path);
        }
        Ok(())
    }

    /// The leg to copy from, where there is one.
    pub(crate) fn source(&self) -> Result<Option<usize>, UsageError> {
        let Trust::CopyFrom(wanted) = &self.trust else {
            return Ok(None);
        };
        if self.read_only {
            return Err(UsageError(
                "--copy-from writes to legs, and with --read-only nothing does".to_owned(),
            ));
        }
        let same_path = |name: &str| {
            let (one, other) = (
                Path::new(name).canonicalize(),
                Path::new(wanted).canonicalize(),
            );
            matches!((one, other), (Ok(one), Ok(other)) if one == other)
        };
        let names: Vec<String> = self.legs.iter().map(LegSpec::to_string).collect();
        let matching: Vec<usize> = (0..names.len())
            .filter(|&index| names[index] == *wanted || same_path(&names[index]))
            .collect();
        let problem = match matching[..] {
            [source] => return Ok(Some(source)),
            [] => "names none",
            _ => "names several",
        };
        let names = names.join(", ");
        Err(UsageError(format!(
            "--copy-from {wanted} {problem} of the legs: {names}"
        )))
    }

    /// Memory for requests, in bytes.
    pub(crate) fn memory(&self) -> Result<usize, UsageError> {
        let least = Config::MEMORY_MIN_BYTES;
        match usize::try_from(self.memory_bytes) {
            Ok(bytes) if bytes >= least => Ok(bytes),
            _ => Err(UsageError(format!(
                "--memory {} is too little: the largest requests need {}",
                format_size(self.memory_bytes),
                format_size(least as u64)
            ))),
        }
    }
}

/// The policy that `text` names, or the default one, where it can serve so many legs.
pub(crate) fn parse_policy(text: Option<&str>, leg_count: usize) -> Result<PolicySpec, UsageError> {
    let told = PolicySpec::parse(text.unwrap_or(DEFAULT_POLICY)).and_then(|spec| {
        spec.check(&ArrayInfo::new(leg_count))?;
        Ok(spec)
    });
    told.map_err(|error| UsageError(error.to_string()))
}

/// Which legs to believe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// All of them, if what is remembered of them and their first megabyte allow it.
    Record,
    /// This one; it is copied over the others.
    CopyFrom(String),
    /// All of them, because the user says so.
    AssumeClean,
    /// The only one, which is served as it is: what lies on it, be it a superblock, is its data,
    /// and nothing is remembered of it.
    Drive,
}

#[cfg(test)]
mod tests {
    use heliostat_leg::LegSpec;
    use heliostat_types::Duration;

    use crate::rig::{file, file_options, memory_options, options, trusting};
    use crate::scratch::Scratch;
    use crate::{ArrayOptions, Trust};

    fn refusal(options: &ArrayOptions) -> String {
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let scratch = Scratch::new();
        let good = memory_options(&scratch);
        good.check().unwrap();
        let bad_name = ArrayOptions {
            name: "a/b".to_owned(),
            ..good.clone()
        };
        assert!(refusal(&bad_name).contains("letters"));
        let too_little = ArrayOptions {
            memory_bytes: 1 << 20,
            ..good.clone()
        };
        let error = refusal(&too_little);
        assert!(
            error.contains("1 MiB") && error.contains("80 MiB"),
            "{error}"
        );
        let too_short = ArrayOptions {
            leg_timeout: Duration::from_ms(999),
            ..good.clone()
        };
        let error = refusal(&too_short);
        assert!(error.contains("999") && error.contains("1.00 s"), "{error}");
        let too_many = ArrayOptions {
            legs: vec![LegSpec::parse("mem:4MiB").unwrap(); 17],
            ..good.clone()
        };
        assert!(refusal(&too_many).contains("1 to 16 legs"));
        let unfit = ArrayOptions {
            policy: Some("devid:4".to_owned()),
            ..good
        };
        assert!(refusal(&unfit).contains('4'), "{}", refusal(&unfit));
    }

    #[test]
    fn a_leg_is_named_once() {
        let scratch = Scratch::new();
        let there = file(&scratch, 0);
        let otherwise = there.replace("leg0", "./leg0");
        let twice = refusal(&options(&scratch, &[&there, &otherwise]));
        assert!(twice.contains("named twice"), "{twice}");
    }

    #[test]
    fn a_source_is_one_of_the_legs() {
        let scratch = Scratch::new();
        let files = file_options(&scratch, 2);
        let error = refusal(&trusting(&files, Trust::CopyFrom("/other".to_owned())));
        assert!(
            error.contains("names none") && error.contains("leg0"),
            "{error}"
        );
        let memory = options(&scratch, &["mem:4MiB", "mem:4MiB"]);
        let error = refusal(&trusting(&memory, Trust::CopyFrom("mem:4MiB".to_owned())));
        assert!(error.contains("names several"), "{error}");
    }
}
