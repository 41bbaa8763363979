//! What is simulated: an array, jobs, faults. Plain data; the names are those of scenario files.

use std::fmt;
use std::io::{self, BufRead};
use std::sync::Arc;

use heliostat_engine::{Layout, Map, SchedulerPlace};
use heliostat_model::drive;
use heliostat_scheduler::{SchedulerError, SchedulerSpec};
use heliostat_types::{Duration, Extent, Instant, LEGS_MAX, LegId};
use heliostat_workload::{Job, OpenTrace};
use stdx::units::exact_size;

use crate::background::BackgroundSpec;
use crate::contents::Fidelity;
use crate::faults::{Effect, Fault};
use crate::leg_spec::{HbaSpec, LegSpec, Part};
use crate::metadata::MetadataSpec;
use crate::placement::place;

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
    /// What opens the block traces that jobs name; the simulator opens no files.
    pub traces: Option<TraceOpener>,
}

/// Opens block traces by the names that jobs know them by.
#[derive(Clone)]
pub struct TraceOpener(Arc<OpenTrace>);

impl TraceOpener {
    /// `open` is called once for each clone that plays a trace, in every run.
    pub fn new(
        open: impl Fn(&str) -> io::Result<Box<dyn BufRead + Send>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(open))
    }

    pub(crate) fn as_fn(&self) -> &OpenTrace {
        &*self.0
    }
}

impl fmt::Debug for TraceOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceOpener")
    }
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
    /// The legs in role order; behind them the devices that are to be legs later.
    pub legs: Vec<LegSpec>,
    /// Memory for requests in flight.
    pub memory_bytes: usize,
    /// How long a leg may be silent.
    pub leg_timeout: Duration,
    /// Of a mirror of all legs, how many writes write-mostly legs may be behind; 0: none.
    pub write_behind: u32,
    /// In which order things go that wait,
    pub scheduler: SchedulerSpec,
    /// and where they wait.
    pub scheduler_on: SchedulerPlace,
    /// Instead of a scheduler: requests get in as they did in Linux in 2014, `none-2014`.
    pub tags_2014: bool,
    /// Host adapters that legs name.
    pub hbas: Vec<HbaSpec>,
    /// The metadata that its legs carry; `None`: they hold data and nothing else.
    pub metadata: Option<MetadataSpec>,
    /// Whether clients also trim, and write zeroes: what of their writes is which, is chance. Of
    /// arrays with metadata.
    pub trims: bool,
    /// What it does beside serving clients; of raw legs only.
    pub background: Option<BackgroundSpec>,
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
            array: ArraySpec::new(size_bytes, specs),
            jobs: Vec::new(),
            faults: Vec::new(),
            first_client: 0,
            fidelity: Fidelity::default(),
            traces: None,
        })
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// Says the first thing that is wrong.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.array.check()?;
        if !self.jobs.iter().any(Job::counts) {
            return Err(error("scenario", "no foreground job"));
        }
        for job in &self.jobs {
            self.check_job(job)
                .map_err(|text| error(&format!("job '{}'", job.name), &text))?;
        }
        let map = self.array.map()?;
        let legs = (0..self.array.legs.len()).map(LegId::new);
        // A device that holds nothing of the array may fail as well.
        let used_bytes = |leg| self.array.data_offset_bytes() + map.leg_bytes(leg);
        let leg_bytes: Vec<u64> = legs.map(|leg| used_bytes(leg).max(4096)).collect();
        for (index, fault) in self.faults.iter().enumerate() {
            fault
                .check(&leg_bytes)
                .map_err(|text| error(&format!("fault {index}"), &text))?;
            if let Some(effect) = fault.effect
                && effect.needs_metadata()
                && self.array.metadata.is_none()
            {
                let text = format!("{}: of arrays with metadata alone", effect.key());
                return Err(error(&format!("fault {index}"), &text));
            }
        }
        self.check_power_cuts()
    }

    /// Whether the power ever fails.
    pub(crate) fn has_power_cuts(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| fault.effect == Some(Effect::PowerCut))
    }

    /// Whether a job can be run on the array, or on the leg that it loads.
    ///
    /// # Errors
    /// Says the first thing that is wrong.
    pub fn check_job(&self, job: &Job) -> Result<(), String> {
        let device_bytes = match job.leg {
            None => self.array.size_bytes,
            Some(leg) => match self.array.legs.get(leg) {
                Some(leg) => leg.params.size_bytes(),
                None => return Err(format!("there is no leg {leg}; they count from 0")),
            },
        };
        job.check(device_bytes)
    }

    /// The power can only fail while it is there.
    fn check_power_cuts(&self) -> Result<(), ScenarioError> {
        let faults = self.faults.iter().enumerate();
        let cuts = faults.filter(|(_, fault)| fault.effect == Some(Effect::PowerCut));
        let mut cuts: Vec<_> = cuts
            .map(|(index, fault)| {
                (
                    fault.period(Instant::ZERO + Duration::from_ns(1 << 62)),
                    index,
                )
            })
            .collect();
        cuts.sort_unstable();
        match cuts.windows(2).find(|pair| pair[1].0.0 < pair[0].0.1) {
            Some(pair) => Err(error(
                &format!("fault {}", pair[1].1),
                &format!("at: the power is off then, by fault {}", pair[0].1),
            )),
            None => Ok(()),
        }
    }
}

/// Instead of a scheduler: how requests got in in 2014.
pub const NONE_2014: &str = "none-2014";

impl ArraySpec {
    /// Its scheduler as a scenario names it.
    #[must_use]
    pub fn scheduler_text(&self) -> String {
        if self.tags_2014 {
            return NONE_2014.to_owned();
        }
        self.scheduler.to_string()
    }

    /// Gives it another one.
    ///
    /// # Errors
    /// Where there is none of that name, or it has no such tunables.
    pub fn set_scheduler(&mut self, text: &str) -> Result<(), SchedulerError> {
        self.tags_2014 = text == NONE_2014;
        self.scheduler = if self.tags_2014 {
            SchedulerSpec::None
        } else {
            SchedulerSpec::parse(text).map_err(|error| error.beside(NONE_2014))?
        };
        Ok(())
    }

    /// A mirror of raw legs.
    #[must_use]
    pub const fn new(size_bytes: u64, legs: Vec<LegSpec>) -> Self {
        Self {
            size_bytes,
            layout: Layout::Mirror,
            copies: 0,
            copies_chunk_bytes: Self::COPIES_CHUNK_DEFAULT_BYTES,
            legs,
            memory_bytes: heliostat_engine::Config::MEMORY_DEFAULT_BYTES,
            leg_timeout: heliostat_engine::Config::LEG_TIMEOUT_DEFAULT,
            write_behind: 0,
            scheduler: SchedulerSpec::None,
            scheduler_on: SchedulerPlace::Legs,
            tags_2014: false,
            hbas: Vec::new(),
            metadata: None,
            trims: false,
            background: None,
        }
    }

    /// The legs that lie on the same drive as leg number `leg`, in role order, and which part of it
    /// each of them is: whole MiB, one behind the other. A leg with a drive of its own has all.
    pub(crate) fn partitions(&self, map: &Map, leg: usize) -> Vec<(usize, Extent)> {
        let device = &self.legs[leg].device;
        if device.is_empty() {
            return vec![(leg, Extent::new(0, self.legs[leg].params.size_bytes()))];
        }
        let mut end = 0;
        let legs = self.legs.iter().enumerate();
        legs.filter(|(_, spec)| spec.device == *device)
            .map(|(index, _)| {
                let used_bytes = self.data_offset_bytes() + map.leg_bytes(LegId::new(index));
                let wanted = used_bytes.max(4096);
                let part = Extent::new(end, wanted.next_multiple_of(1 << 20));
                end = part.end();
                (index, part)
            })
            .collect()
    }

    /// Whether partitions fit onto their drives, and host adapters are there.
    fn check_sharing(&self, map: &Map) -> Result<(), ScenarioError> {
        for (index, leg) in self.legs.iter().enumerate() {
            let parts = self.partitions(map, index);
            let drive = &self.legs[parts[0].0];
            let (_, last) = parts[parts.len() - 1];
            if !leg.device.is_empty() && last.end() > drive.params.size_bytes() {
                let text = format!(
                    "device '{}' ('{}') has no room for {} legs: {} bytes are needed",
                    leg.device,
                    drive.model,
                    parts.len(),
                    last.end()
                );
                return Err(error("array", &text));
            }
            let is_known = self.hbas.iter().any(|hba| hba.name == leg.hba);
            if !leg.hba.is_empty() && !is_known {
                let text = format!("leg {index}: there is no hba '{}'", leg.hba);
                return Err(error("array", &text));
            }
        }
        match self.hbas.iter().find(|hba| hba.bw_bytes_per_s == 0) {
            Some(hba) => Err(error("array", &format!("hba '{}' has no bw", hba.name))),
            None => Ok(()),
        }
    }

    /// How many roles there are: the devices that are legs at the start.
    pub(crate) fn roles(&self) -> usize {
        let legs = self.legs.iter();
        legs.filter(|leg| leg.part == Part::Leg).count()
    }

    /// Devices that are no legs come last, and only who has metadata knows them.
    fn check_parts(&self) -> Result<(), ScenarioError> {
        let (roles, has_metadata) = (self.roles(), self.metadata.is_some());
        let behind = self.legs.iter().skip(roles);
        if behind.clone().any(|leg| leg.part == Part::Leg) {
            return Err(error("array", "legs: those that are none yet come last"));
        }
        if behind.count() > 0 && !has_metadata {
            let text = "part: only an array with metadata can be given legs";
            return Err(error("array", text));
        }
        if self.trims && !has_metadata {
            return Err(error("array", "trims: of arrays with metadata alone"));
        }
        Ok(())
    }

    /// Where the data begins on each leg.
    pub(crate) fn data_offset_bytes(&self) -> u64 {
        self.metadata
            .map_or(0, |metadata| metadata.data_offset_bytes)
    }

    /// The most writes that may be behind, as md counts them.
    pub const WRITE_BEHIND_MAX: u32 = (1 << 14) - 1;

    /// Whether the legs that may be behind are there.
    fn check_write_behind(&self, map: &Map) -> Result<(), ScenarioError> {
        let text = if self.write_behind > Self::WRITE_BEHIND_MAX {
            "write_behind: it is 16383 at most"
        } else if self.write_behind > 0 && !map.is_mirror() {
            "write_behind: only legs that hold all of the array can be behind"
        } else {
            return Ok(());
        };
        Err(error("array", text))
    }

    /// btrfs's largest chunk of data.
    pub const COPIES_CHUNK_DEFAULT_BYTES: u64 = 1 << 30;

    /// Where what lies: on as little of each leg as the size needs.
    ///
    /// # Errors
    /// Where there is no such array.
    pub fn map(&self) -> Result<Map, ScenarioError> {
        let wrong = |text: String| error("array", &text);
        if self.legs.is_empty() || self.legs.len() > LEGS_MAX {
            return Err(error("array", "it needs 1 to 16 legs"));
        }
        let count = self.roles();
        if self.copies == 0 {
            let map = Map::for_size(self.layout, count, self.size_bytes);
            let map = match (map, self.metadata) {
                // As large as md makes it of as much of each leg.
                (Ok(map), Some(_)) => Map::new(self.layout, count, map.leg_bytes(LegId::new(0))),
                (map, _) => map,
            };
            return map.map_err(|error| wrong(format!("layout: {}: {error}", self.layout)));
        }
        if self.metadata.is_some() {
            let text = "copies: an array with metadata has a layout that the metadata says";
            return Err(wrong(text.to_owned()));
        }
        if self.layout != Layout::Mirror {
            let text = "copies: they are placed in a mirror; a layout says itself where they are";
            return Err(wrong(text.to_owned()));
        }
        let leg_bytes: Vec<u64> = self
            .legs
            .iter()
            .map(|leg| leg.params.size_bytes())
            .collect();
        let (copies, chunk_bytes) = (self.copies as usize, self.copies_chunk_bytes);
        place(&leg_bytes, self.size_bytes, copies, chunk_bytes).map_err(wrong)
    }

    /// Whether there can be such an array.
    ///
    /// # Errors
    /// Says the first thing that is wrong.
    pub fn check(&self) -> Result<(), ScenarioError> {
        if self.size_bytes == 0 || !self.size_bytes.is_multiple_of(4096) {
            return Err(error("array", "its size is no multiple of 4 KiB"));
        }
        self.check_parts()?;
        let map = self.map()?;
        self.check_sharing(&map)?;
        self.check_write_behind(&map)?;
        if let Some(metadata) = self.metadata {
            metadata
                .check(map.size_bytes())
                .map_err(|text| error("array", &text))?;
        }
        for (index, leg) in self.legs.iter().enumerate() {
            let wanted = self.data_offset_bytes() + map.leg_bytes(LegId::new(index));
            if leg.params.size_bytes() < wanted {
                let part = if map.is_mirror() {
                    "the array".to_owned()
                } else {
                    format!("its part of the array, {}", exact_size(wanted))
                };
                let text = format!("leg '{}' is smaller than {part}", leg.model);
                return Err(error("array", &text));
            }
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
    use super::{Effect, Fault, Job, Layout, Scenario};
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
        let near = |scenario: &mut Scenario, copies| {
            scenario.array.layout = Layout::parse("near=3").unwrap();
            scenario.array.copies = copies;
        };
        assert_eq!(
            told(&|scenario| near(scenario, 0)),
            "array: layout: near=3: 3 copies on 2 legs; a layout takes 2 copies or more, each on a \
             leg of its own"
        );
        assert_eq!(
            told(&|scenario| near(scenario, 2)),
            "array: copies: they are placed in a mirror; a layout says itself where they are"
        );
        assert_eq!(
            told(&|scenario| {
                scenario.array.layout = Layout::parse("far=2").unwrap();
                scenario.array.size_bytes = (1 << 30) + (1 << 20);
            }),
            "array: leg 'ram' is smaller than its part of the array, 1025MiB"
        );
        assert_eq!(
            told(&|scenario| scenario.jobs[0].offset_bytes = 1 << 30),
            "job 'job': bs and size: its region holds no block"
        );
        assert_eq!(
            told(&|scenario| {
                scenario.jobs[0].size_bytes = 1 << 20;
                scenario.jobs[0].numjobs = 1025;
                scenario.jobs[0].offset_increment_bytes = 1 << 20;
            }),
            "job 'job': offset and size: its region ends beyond the array"
        );
        assert_eq!(
            told(&|scenario| scenario.jobs[0].background = true),
            "scenario: no foreground job"
        );
        assert_eq!(
            told(&|scenario| {
                scenario.faults.push(Fault::new(0, Effect::Stuck));
                scenario.faults.push(Fault::new(2, Effect::Dead));
            }),
            "fault 1: leg: there is no leg 2; legs count from 0, the last one is 1"
        );
        assert_eq!(
            told(&|scenario| {
                for (at, until) in [(7, 9), (1, 5), (4, 6)] {
                    let secs = Duration::from_secs;
                    let cut = Fault {
                        leg: None,
                        ..Fault::new(0, Effect::PowerCut).between(secs(at), secs(until))
                    };
                    scenario.faults.push(cut);
                }
            }),
            "fault 2: at: the power is off then, by fault 1"
        );
        let error = Scenario::new("test", &["floppy"], 4096).unwrap_err();
        assert_eq!(error.to_string(), "array: there is no drive 'floppy'");
    }
}
