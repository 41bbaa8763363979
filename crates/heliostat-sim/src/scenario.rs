//! What is simulated: an array, jobs, faults. Plain data; the names are those of scenario files.

use std::fmt;

use heliostat_model::{Drive, FaultEffect, ModelParams, drive};
use heliostat_types::{Duration, LEGS_MAX, SECTOR_BYTES};

use crate::contents::Fidelity;

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

/// The array of a scenario: RAID1.
#[derive(Clone, Debug)]
pub struct ArraySpec {
    /// Usable size.
    pub size_bytes: u64,
    /// The legs in role order.
    pub legs: Vec<LegSpec>,
    /// Memory for requests in flight.
    pub memory_bytes: usize,
    /// How long a leg may be silent.
    pub leg_timeout: Duration,
}

/// A leg of the array.
#[derive(Clone, Debug)]
pub struct LegSpec {
    /// The name of its drive, for reports.
    pub model: String,
    /// What it is made of.
    pub params: ModelParams,
    /// Read only if nothing else is left.
    pub write_mostly: bool,
    /// Preferred by the `device` policy.
    pub read_preferred: bool,
}

impl LegSpec {
    /// A leg on a drive.
    #[must_use]
    pub fn on(drive: &Drive) -> Self {
        Self {
            model: drive.name.to_owned(),
            params: drive.params,
            write_mostly: false,
            read_preferred: false,
        }
    }
}

/// Clients that do the same, as a section of a fio job file.
#[derive(Clone, Debug)]
pub struct Job {
    /// What people call it.
    pub name: String,
    /// What it does.
    pub rw: Rw,
    /// Bytes of a request; a multiple of 512.
    pub bs_bytes: u64,
    /// Requests that each clone keeps in flight.
    pub iodepth: u32,
    /// How many clones there are; each is a client.
    pub numjobs: u32,
    /// Whether requests go to the array as they are. Otherwise reads of a sequential stream go
    /// through a read-ahead window of the client.
    pub direct: bool,
    /// The window of a stream that is not direct.
    pub readahead_bytes: u64,
    /// Where the job's region begins.
    pub offset_bytes: u64,
    /// How large it is; 0: up to the array's end.
    pub size_bytes: u64,
    /// How far the region of each clone lies behind that of the one before.
    pub offset_increment_bytes: u64,
    /// How many of 100 requests are reads, for `rw` and `randrw`.
    pub rwmixread: u32,
    /// A FLUSH after so many writes; 0: none.
    pub fsync: u32,
    /// Whether it is left out of the totals.
    pub background: bool,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: "job".to_owned(),
            rw: Rw::RandRead,
            bs_bytes: 4096,
            iodepth: 1,
            numjobs: 1,
            direct: true,
            readahead_bytes: 4 << 20,
            offset_bytes: 0,
            size_bytes: 0,
            offset_increment_bytes: 0,
            rwmixread: 50,
            fsync: 0,
            background: false,
        }
    }
}

/// What a job does, in fio's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rw {
    /// Reads one block after the other.
    Read,
    /// Writes one block after the other.
    Write,
    /// Reads blocks at random.
    RandRead,
    /// Writes blocks at random.
    RandWrite,
    /// Reads or writes blocks at random.
    RandRw,
    /// Reads or writes one block after the other.
    Rw,
}

impl Rw {
    /// Whether blocks are taken at random.
    #[must_use]
    pub const fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandRw)
    }

    /// Whether anything is written.
    #[must_use]
    pub const fn has_writes(self) -> bool {
        !matches!(self, Self::Read | Self::RandRead)
    }
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

impl Fault {
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
                legs: specs,
                memory_bytes: heliostat_engine::Config::MEMORY_DEFAULT_BYTES,
                leg_timeout: heliostat_engine::Config::LEG_TIMEOUT_DEFAULT,
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
    fn check(&self) -> Result<(), ScenarioError> {
        if self.legs.is_empty() || self.legs.len() > LEGS_MAX {
            return Err(error("array", "it needs 1 to 16 legs"));
        }
        if self.size_bytes == 0 || !self.size_bytes.is_multiple_of(4096) {
            return Err(error("array", "its size is no multiple of 4 KiB"));
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

impl Job {
    /// Bytes of each clone's region, in an array of `array_bytes`.
    pub(crate) fn region_bytes(&self, array_bytes: u64) -> u64 {
        let behind = u64::from(self.numjobs.max(1) - 1) * self.offset_increment_bytes;
        match self.size_bytes {
            0 => array_bytes.saturating_sub(self.offset_bytes + behind),
            size_bytes => size_bytes,
        }
    }

    fn check(&self, array_bytes: u64) -> Result<(), &'static str> {
        let aligned = [
            self.bs_bytes,
            self.offset_bytes,
            self.offset_increment_bytes,
        ];
        if aligned
            .iter()
            .any(|bytes| !bytes.is_multiple_of(SECTOR_BYTES))
        {
            return Err("bs, offset and offset_increment must be multiples of 512");
        }
        if self.bs_bytes == 0 || self.bs_bytes > heliostat_engine::Config::REQUEST_MAX_BYTES {
            return Err("bs must be 512 bytes to 32 MiB");
        }
        if self.iodepth == 0 || self.numjobs == 0 {
            return Err("iodepth and numjobs must be above 0");
        }
        if self.rwmixread > 100 {
            return Err("rwmixread is a percentage");
        }
        let region_bytes = self.region_bytes(array_bytes);
        if region_bytes < self.bs_bytes {
            return Err("its region holds no block");
        }
        let behind = u64::from(self.numjobs - 1).checked_mul(self.offset_increment_bytes);
        let end = behind
            .and_then(|behind| behind.checked_add(self.offset_bytes))
            .and_then(|start| start.checked_add(region_bytes));
        if end.is_none_or(|end| end > array_bytes) {
            return Err("its region ends beyond the array");
        }
        if !self.direct && self.rw == Rw::Read && self.readahead_bytes < self.bs_bytes {
            return Err("readahead must be at least bs");
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
