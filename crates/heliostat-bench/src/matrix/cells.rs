//! The cells: which load is played on which array, with what going wrong.

use std::path::Path;

use heliostat_scheduler::SchedulerSpec;
use heliostat_sim::Scenario;
use heliostat_types::Duration;

use super::parts::{ARRAYS, Array, Class, LOADS, Load, Pace, Phase, WRONGS, Wrong};
use crate::scenario::{ScenarioFile, ScenarioFileError};

/// A load on an array, perhaps with a fault: what policies are compared in.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub(super) array: &'static Array,
    pub(super) load: &'static Load,
    pub(super) wrong: &'static Wrong,
    /// The leg that the fault is of.
    wrong_leg: usize,
    /// Whether it is among those that are run where time is short.
    pub(super) is_quick: bool,
    /// What stands in front of the legs.
    scheduler: SchedulerSpec,
}

/// Loads by which arrays without faults are judged; arrays that are much like another one have
/// fewer.
const ALL: &[&str] = &[
    "4k-d1",
    "4k-d4",
    "4k-d16",
    "4k-d32",
    "4k-d128",
    "4k-4x256",
    "64k-d1",
    "64k-d4",
    "64k-d16",
    "64k-d32",
    "64k-d128",
    "zipf-d16",
    "bursts",
    "1stream",
    "2streams",
    "8streams",
    "1stream-1m-d16",
    "8streams+random",
    "1stream+mix70-d8",
    "1stream+log",
    "1reader+log",
    "4streams+writes-d8",
    "mix70-d1",
    "mix70-d16",
    "mix70-64k-d1",
    "rw-1m-d4",
];

/// Which loads are played where nothing is wrong.
const HEALTHY: &[(&str, &[&str])] = &[
    // What one leg does: the measure of what several do for one stream.
    ("1hdd", &["1stream"]),
    (
        "2hdd",
        &[
            "1stream",
            "2streams",
            "8streams",
            "8streams+random",
            "1stream+log",
            "1reader+log",
        ],
    ),
    ("3hdd", ALL),
    (
        "2hdd+old",
        &[
            "4k-d1",
            "4k-d4",
            "4k-d32",
            "4k-d128",
            "64k-d16",
            "1stream",
            "8streams",
            "mix70-d16",
        ],
    ),
    (
        "3hdd+neighbour",
        &[
            "4k-d1",
            "4k-d4",
            "4k-d32",
            "1stream",
            "8streams",
            "mix70-d16",
        ],
    ),
    ("hdd+ssd", ALL),
    ("2hdd+ssd", ALL),
    ("6unequal", ALL),
    ("2ssd", ALL),
    (
        "2ssd+neighbour",
        &[
            "4k-d1",
            "4k-d4",
            "4k-d16",
            "4k-d32",
            "64k-d4",
            "64k-d16",
            "1stream",
            "2streams",
            "8streams",
            "mix70-d16",
        ],
    ),
    ("ssd+nvme", ALL),
    ("nvme+net", ALL),
    ("1nvme", &["1stream"]),
    ("2nvme", ALL),
    (
        "3nvme",
        &[
            "4k-d1",
            "4k-d32",
            "4k-4x256",
            "64k-d1",
            "64k-d4",
            "64k-d16",
            "1stream",
            "8streams",
            "mix70-d16",
        ],
    ),
];

/// What goes wrong, with which leg. On fast legs depths are low where a phase has to be long: a
/// second at depth 32 is half a million requests, and shows no more.
const FAULTY: &[(&str, &str, usize, &[&str])] = &[
    (
        "3hdd",
        "4k-d4",
        0,
        &["x8-15s", "x30-15s", "stalls", "errors"],
    ),
    ("3hdd", "4k-d32", 1, &["x8-15s", "x30-15s"]),
    ("3hdd", "1stream", 0, &["x8-15s"]),
    ("3hdd", "8streams", 1, &["x8-15s"]),
    ("3hdd", "mix70-d16", 2, &["x8-15s"]),
    ("2hdd+ssd", "4k-d4", 2, &["x8-1s", "x30-5s", "pauses-200ms"]),
    ("hdd+ssd", "4k-d1", 1, &["x30-1s", "errors"]),
    ("6unequal", "4k-d16", 3, &["x30-15s"]),
    ("2ssd", "4k-d4", 0, &["x8-1s", "x30-5s", "stalls", "errors"]),
    ("2ssd", "4k-d16", 1, &["x30-1s", "pauses-60ms"]),
    ("2ssd", "64k-d4", 1, &["x8-1s", "pauses-60ms"]),
    ("2ssd", "mix70-d16", 0, &["x8-1s", "pauses-200ms"]),
    ("ssd+nvme", "4k-d1", 1, &["x8-1s", "x30-5s", "pauses-60ms"]),
    ("ssd+nvme", "4k-d4", 1, &["x30-1s", "pauses-200ms"]),
    ("nvme+net", "4k-d4", 0, &["x30-1s", "stalls"]),
    ("nvme+net", "4k-d128", 1, &["stalls"]),
    (
        "2nvme",
        "4k-d1",
        0,
        &["x8-1s", "x30-1s", "x30-5s", "pauses-60ms", "pauses-200ms"],
    ),
    (
        "2nvme",
        "4k-d4",
        1,
        &["x30-1s", "pauses-60ms", "pauses-200ms", "errors"],
    ),
    ("2nvme", "4k-d32", 0, &["pauses-60ms", "pauses-200ms"]),
    ("2nvme", "1stream", 0, &["x30-1s", "pauses-60ms"]),
];

/// What is run where time is short: one cell for each way to be wrong.
const QUICK: &[&str] = &[
    "3hdd/4k-d1",
    "3hdd/4k-d32",
    "3hdd/1stream",
    "1hdd/1stream",
    "2hdd/8streams",
    "2hdd+old/4k-d4",
    "hdd+ssd/4k-d1",
    "2hdd+ssd/4k-d32",
    "hdd+ssd/mix70-d1",
    "ssd+nvme/4k-d16",
    "2ssd/64k-d1",
    "2nvme/4k-d32",
    "nvme+net/4k-d4",
    "6unequal/4k-d4",
    "3hdd/4k-d4/x8-15s",
    "2nvme/4k-d1/x30-1s",
    "2nvme/4k-d1/pauses-60ms",
];

impl Cell {
    /// Every cell there is, in the order in which they are shown.
    pub fn all() -> impl Iterator<Item = Self> {
        let healthy = HEALTHY
            .iter()
            .flat_map(|(array, loads)| loads.iter().map(|load| Self::new(array, load, 0, "none")));
        let faulty = FAULTY.iter().flat_map(|(array, load, leg, wrongs)| {
            wrongs
                .iter()
                .map(|wrong| Self::new(array, load, *leg, wrong))
        });
        healthy.chain(faulty)
    }

    /// The cell of this name, also where it is none of those of [`Cell::all`]: any load on any
    /// array with any fault. Where no cell says with which leg, it is the array's usual one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let listed = Self::all().find(|cell| cell.name() == name);
        listed.or_else(|| {
            let (array, load) = name.split_once('/')?;
            let (load, wrong) = load.split_once('/').unwrap_or((load, "none"));
            let of_array = FAULTY.iter().filter(|(of, ..)| *of == array);
            let leg = |of_load: &str| {
                let mut legs = of_array.clone();
                legs.find(|(_, load, ..)| load.contains(of_load))
            };
            let leg = leg(load).or_else(|| leg("")).map_or(0, |found| found.2);
            Self::of_parts(array, load, leg, wrong)
        })
    }

    fn new(array: &str, load: &str, wrong_leg: usize, wrong: &str) -> Self {
        let cell = Self::of_parts(array, load, wrong_leg, wrong);
        cell.expect("cells are made of parts that exist")
    }

    fn of_parts(array: &str, load: &str, wrong_leg: usize, wrong: &str) -> Option<Self> {
        let mut cell = Self {
            array: ARRAYS.iter().find(|part| part.name == array)?,
            load: LOADS.iter().find(|part| part.name == load)?,
            wrong: WRONGS.iter().find(|part| part.name == wrong)?,
            wrong_leg,
            is_quick: false,
            scheduler: SchedulerSpec::None,
        };
        cell.is_quick = QUICK.contains(&cell.name().as_str());
        Some(cell)
    }

    /// The same with a scheduler in front of the legs.
    #[must_use]
    pub const fn under(mut self, scheduler: SchedulerSpec) -> Self {
        self.scheduler = scheduler;
        self
    }

    /// `array/load`, or `array/load/fault`.
    #[must_use]
    pub fn name(&self) -> String {
        let (array, load) = (self.array.name, self.load.name);
        if self.is_healthy() {
            return format!("{array}/{load}");
        }
        format!("{array}/{load}/{}", self.wrong.name)
    }

    /// Whether it is among those that are run where time is short.
    #[must_use]
    pub const fn is_quick(&self) -> bool {
        self.is_quick
    }

    /// Whether nothing goes wrong in it.
    #[must_use]
    pub const fn is_healthy(&self) -> bool {
        self.wrong.text.is_empty()
    }

    /// What it is, as far as judging goes.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.load.class
    }

    /// Whether there is only one leg, and nothing to choose.
    pub(super) fn has_one_leg(&self) -> bool {
        self.array.name.starts_with('1')
    }

    /// The time in which a fault holds, where it does not hold all the time.
    pub(super) const fn phase(&self) -> Option<Phase> {
        self.wrong.phase
    }

    /// How long a leg may take to be used again after a slow phase, in seconds.
    pub(super) const fn grace(&self) -> f64 {
        match self.array.pace {
            Pace::Arms => 2.0,
            Pace::Flash => 0.5,
        }
    }

    /// The cell as a scenario file, as long as its first run.
    #[must_use]
    pub fn text(&self) -> String {
        let (warmup, seconds) = self.lengths();
        let fault = if self.is_healthy() {
            String::new()
        } else {
            format!("\n[[fault]]\nleg = {}\n{}", self.wrong_leg, self.wrong.text)
        };
        let scheduler = if self.scheduler == SchedulerSpec::None {
            String::new()
        } else {
            format!("scheduler = '{}'\n", self.scheduler)
        };
        let neighbour = match self.array.neighbour {
            "" => String::new(),
            job => format!("\n{job}"),
        };
        format!(
            "# {}: {}; {}.\nname = '{}'\nwarmup_seconds = {warmup}\nseconds = {seconds}\n\n\
             [array]\n{scheduler}{}\n{}{neighbour}{fault}",
            self.array.title,
            self.load.title,
            self.wrong.title,
            self.name(),
            self.array.text,
            self.load.text.replace("BURSTS", self.array.bursts),
        )
    }

    /// The scenario of [`Cell::text`].
    ///
    /// # Errors
    /// Never: a test reads all of them.
    pub fn scenario(&self) -> Result<Scenario, ScenarioFileError> {
        let file = ScenarioFile::parse(Path::new("matrix.toml"), &self.text())?;
        Ok(file.scenario)
    }

    /// Seconds of warm-up and of the first measurement: some ten thousand requests, or some
    /// hundred of a policy that has chosen the wrong leg, which are measured on.
    fn lengths(&self) -> (f64, f64) {
        let (warmup, seconds) = match (self.array.pace, self.load.class, self.load.depth) {
            (Pace::Arms, Class::Stream, _) => (3.0, 10.0),
            (Pace::Arms, Class::Mixed, _) => (10.0, 20.0),
            (Pace::Arms, Class::Random, _) => (20.0, 60.0),
            (Pace::Flash, Class::Stream, _) => (0.5, 1.0),
            (Pace::Flash, Class::Random | Class::Mixed, ..=4) => (1.0, 1.0),
            (Pace::Flash, Class::Random | Class::Mixed, _) => (0.3, 0.1),
        };
        (
            warmup,
            self.wrong.phase.map_or(seconds, |phase| phase.seconds),
        )
    }

    /// No cell is measured for longer, whatever its figures do: streams move much in a short time.
    pub(super) fn seconds_max(&self) -> Duration {
        let seconds = match (self.array.pace, self.load.class) {
            (Pace::Arms, Class::Random) => 400,
            (Pace::Arms, Class::Mixed) => 150,
            (Pace::Arms, Class::Stream) => 60,
            (Pace::Flash, Class::Random | Class::Mixed) => 30,
            (Pace::Flash, Class::Stream) => 10,
        };
        Duration::from_secs(seconds)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use heliostat_scheduler::SchedulerSpec;

    use super::{Cell, QUICK};

    #[test]
    fn every_cell_is_a_scenario_and_has_a_name_of_its_own() {
        let mut names = BTreeSet::new();
        for cell in Cell::all() {
            let scenario = cell.scenario().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(scenario.name, cell.name());
            assert!(names.insert(cell.name()), "{}", cell.name());
            assert_eq!(scenario.faults.is_empty(), cell.is_healthy());
        }
    }

    #[test]
    fn a_scheduler_is_part_of_the_scenario() {
        let fair = SchedulerSpec::parse("fair:depth=8").unwrap();
        for cell in Cell::all() {
            let plain = cell.scenario().unwrap();
            let changed = cell.under(fair).scenario().unwrap();
            assert_eq!(plain.array.scheduler, SchedulerSpec::None);
            assert_eq!(changed.array.scheduler, fair);
            assert_eq!(changed.name, plain.name);
        }
    }

    #[test]
    fn a_cell_that_is_not_listed_is_made_of_its_parts() {
        let cell = Cell::named("2hdd+ssd/64k-d16/x30-1s").expect("of parts that exist");
        assert_eq!(cell.name(), "2hdd+ssd/64k-d16/x30-1s");
        assert!(
            cell.text().contains("leg = 2\n"),
            "the flash: {}",
            cell.text()
        );
        let listed = Cell::named("3hdd/mix70-d16/x8-15s").expect("it is listed");
        assert!(listed.text().contains("leg = 2\n"), "{}", listed.text());
        for none in [
            "",
            "3hdd",
            "3hdd/",
            "/4k-d1",
            "3hdd/4k-d1/none/",
            "4hdd/4k-d1",
        ] {
            assert!(Cell::named(none).is_none(), "{none}");
        }
    }

    #[test]
    fn quick_cells_exist() {
        assert_eq!(Cell::all().filter(Cell::is_quick).count(), QUICK.len());
    }
}
