//! What is simulated: an array, jobs, faults. Plain data; the names are those of scenario files.

use std::fmt;

use heliostat_engine::Layout;
use heliostat_model::{FailedKind, FaultEffect, drive};
use heliostat_types::{Duration, LEGS_MAX};
use heliostat_workload::Job;
use stdx::settings::{SettingError, parse_bool, parse_count};
use stdx::units::parse_time_ns;

use crate::contents::Fidelity;
use crate::leg_spec::{HbaSpec, LegSpec};

/// One scenario. Times in it count from the start of measuring.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What people call it.
    pub name: String,
    /// Measured virtual time; zero: until every foreground job has moved its size once.
    pub seconds: Duration,
    /// Run before that and not counted.
    pub warmup_seconds: Duration,
    /// All randomness comes from it: equal seeds give equal runs.
    pub seed: u64,
    /// What serves.
    pub array: ArraySpec,
    /// Who asks.
    pub jobs: Vec<Job>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// The number of the first client; the clones of all jobs are numbered from there on. `pid`
    /// and its like choose by it.
    pub first_client: u64,
    /// How much of the bytes is kept and checked.
    pub fidelity: Fidelity,
}

/// The array of a scenario.
#[derive(Clone, Debug)]
pub struct ArraySpec {
    /// Usable size.
    pub size_bytes: u64,
    /// How copies lie on the legs.
    pub layout: Layout,
    /// With [`Layout::Mirror`]: so many copies of each chunk on the legs with most free space;
    /// 0: on all legs.
    pub copies: u32,
    /// The size of the chunks that `copies` counts.
    pub copies_chunk_bytes: u64,
    /// The legs in role order.
    pub legs: Vec<LegSpec>,
    /// Memory for requests in flight.
    pub memory_bytes: usize,
    /// How long a leg may be silent.
    pub leg_timeout: Duration,
    /// Host adapters that legs name.
    pub hbas: Vec<HbaSpec>,
}

/// A fault of one leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which leg, from 0.
    pub leg: usize,
    /// When it begins.
    pub at: Duration,
    /// When it is over; [`Duration::MAX`]: never.
    pub until: Duration,
    /// What is wrong meanwhile.
    pub effect: FaultEffect,
}

impl Default for Fault {
    /// One that changes nothing: what a `[[fault]]` without keys says.
    fn default() -> Self {
        Self {
            leg: 0,
            at: Duration::ZERO,
            until: Duration::MAX,
            effect: FaultEffect::SlowPermille(1000),
        }
    }
}

/// The keys that [`Fault::set`] knows.
const FAULT_KEYS: [&str; 7] = ["leg", "at", "until", "slow", "stuck", "error", "dead"];

impl Fault {
    /// Sets what the key `key` of a scenario's `[[fault]]` says. Numbers and truth values come as
    /// text.
    ///
    /// # Errors
    /// Where there is no such key or the value makes no sense.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let time = || {
            let ns = parse_time_ns(value).map_err(|error| SettingError::value(key, error))?;
            Ok::<_, SettingError>(Duration::from_ns(ns))
        };
        match key {
            "leg" => {
                let leg = parse_count(key, value, 0, LEGS_MAX as u64 - 1)?;
                self.leg = usize::try_from(leg).expect("a leg's number is small");
            }
            "at" => self.at = time()?,
            "until" => self.until = time()?,
            "slow" => {
                let factor: f64 = value.parse().map_err(|_| {
                    SettingError::value(key, format_args!("'{value}' is not a number"))
                })?;
                if !(0.001..=1e6).contains(&factor) {
                    let text = format_args!("{value} is not between 0.001 and 1000000");
                    return Err(SettingError::value(key, text));
                }
                // At most 10^9: exact.
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "checked just above"
                )]
                let permille = (factor * 1000.0 + 0.5) as u64;
                self.effect = FaultEffect::SlowPermille(permille);
            }
            "stuck" if parse_bool(key, value)? => self.effect = FaultEffect::Stuck,
            "dead" if parse_bool(key, value)? => self.effect = FaultEffect::Dead,
            "stuck" | "dead" => {}
            "error" => {
                self.effect = FaultEffect::Error(match value {
                    "read" => FailedKind::Read,
                    "write" => FailedKind::Write,
                    _ => {
                        let text = format_args!("'{value}' is neither read nor write");
                        return Err(SettingError::value(key, text));
                    }
                });
            }
            _ => return Err(SettingError::unknown(key, FAULT_KEYS)),
        }
        Ok(())
    }

    /// Whether operations end with an error under it.
    pub(crate) const fn fails_operations(&self) -> bool {
        match self.effect {
            FaultEffect::SlowPermille(_) | FaultEffect::Stuck => false,
            FaultEffect::Error(_) | FaultEffect::Dead => true,
        }
    }
}

/// Why a scenario makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Where: `array`, `job 'reader'`, `fault 0`.
    pub place: String,
    /// What is wrong there.
    pub text: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// A mirror over drives of these names with no jobs: 10 s measured after 1 s of warm-up.
    ///
    /// # Errors
    /// Where there is no such drive.
    pub fn new(name: &str, legs: &[&str], size_bytes: u64) -> Result<Self, ScenarioError> {
        let mut specs = Vec::new();
        for leg in legs {
            let drive = drive(leg).ok_or_else(|| ScenarioError {
                place: "array".to_owned(),
                text: format!("there is no drive '{leg}'"),
            })?;
            specs.push(LegSpec::on(drive));
        }
        Ok(Self {
            name: name.to_owned(),
            seconds: Duration::from_secs(10),
            warmup_seconds: Duration::from_secs(1),
            seed: 1,
            array: ArraySpec {
                size_bytes,
                layout: Layout::Mirror,
                copies: 0,
                copies_chunk_bytes: ArraySpec::COPIES_CHUNK_DEFAULT_BYTES,
                legs: specs,
                memory_bytes: heliostat_engine::Config::MEMORY_DEFAULT_BYTES,
                leg_timeout: heliostat_engine::Config::LEG_TIMEOUT_DEFAULT,
                hbas: Vec::new(),
            },
            jobs: Vec::new(),
            faults: Vec::new(),
            first_client: 0,
            fidelity: Fidelity::default(),
        })
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// Says the first thing that is wrong.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.array.check()?;
        if self.jobs.iter().all(|job| job.background) {
            return Err(error("scenario", "no foreground job"));
        }
        for job in &self.jobs {
            job.check(self.array.size_bytes)
                .map_err(|text| error(&format!("job '{}'", job.name), text))?;
        }
        for (index, fault) in self.faults.iter().enumerate() {
            let place = format!("fault {index}");
            if fault.leg >= self.array.legs.len() {
                return Err(error(&place, "there is no such leg"));
            }
            if fault.until < fault.at {
                return Err(error(&place, "it ends before it begins"));
            }
        }
        Ok(())
    }
}

impl ArraySpec {
    /// btrfs's largest chunk of data.
    pub const COPIES_CHUNK_DEFAULT_BYTES: u64 = 1 << 30;

    fn check(&self) -> Result<(), ScenarioError> {
        if self.legs.is_empty() || self.legs.len() > LEGS_MAX {
            return Err(error("array", "it needs 1 to 16 legs"));
        }
        if self.size_bytes == 0 || !self.size_bytes.is_multiple_of(4096) {
            return Err(error("array", "its size is no multiple of 4 KiB"));
        }
        if self.layout != Layout::Mirror || self.copies > 0 {
            return Err(error("array", "layout and copies are not simulated yet"));
        }
        let is_too_small = |leg: &&LegSpec| leg.params.size_bytes() < self.size_bytes;
        if let Some(leg) = self.legs.iter().find(is_too_small) {
            return Err(error(
                "array",
                &format!("leg '{}' is smaller than the array", leg.model),
            ));
        }
        Ok(())
    }
}

fn error(place: &str, text: &str) -> ScenarioError {
    ScenarioError {
        place: place.to_owned(),
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, Job, Scenario};
    use heliostat_model::FaultEffect;
    use heliostat_types::Duration;

    fn scenario() -> Scenario {
        let mut scenario = Scenario::new("test", &["ram", "ram"], 1 << 30).unwrap();
        scenario.jobs.push(Job::default());
        scenario
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let told = |change: &dyn Fn(&mut Scenario)| {
            let mut scenario = scenario();
            change(&mut scenario);
            scenario
                .check()
                .map_or_else(|error| error.to_string(), |()| String::new())
        };
        assert_eq!(told(&|_| ()), "");
        assert_eq!(
            told(&|scenario| scenario.array.size_bytes = 2 << 30),
            "array: leg 'ram' is smaller than the array"
        );
        assert_eq!(
            told(&|scenario| scenario.jobs[0].offset_bytes = 1 << 30),
            "job 'job': its region holds no block"
        );
        assert_eq!(
            told(&|scenario| {
                scenario.jobs[0].size_bytes = 1 << 20;
                scenario.jobs[0].numjobs = 1025;
                scenario.jobs[0].offset_increment_bytes = 1 << 20;
            }),
            "job 'job': its region ends beyond the array"
        );
        assert_eq!(
            told(&|scenario| scenario.jobs[0].background = true),
            "scenario: no foreground job"
        );
        assert_eq!(
            told(&|scenario| scenario.faults.push(Fault {
                leg: 2,
                at: Duration::ZERO,
                until: Duration::MAX,
                effect: FaultEffect::Dead,
            })),
            "fault 0: there is no such leg"
        );
        let error = Scenario::new("test", &["floppy"], 4096).unwrap_err();
        assert_eq!(error.to_string(), "array: there is no drive 'floppy'");
    }
}
