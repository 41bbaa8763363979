//! A week of an array in one run: each hour another load, with a leg that goes wrong or none, and
//! next to nothing in between.
//!
//! A cell of the matrix begins with a policy that knows nothing and ends before it forgets. In a
//! week what was learned of one load meets the next, legs have been slow while nobody looked, and
//! all that is kept grows old. Each day has the same hours in another order, and what goes wrong
//! is another leg's, so that the last day can be held against the first.

mod judged;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use heliostat_sim::{RunError, Scenario};
use heliostat_types::{Prng, RandomStream};

use super::parts::{ARRAYS, Array, Class, LOADS, Load, Pace};
use crate::contender::Contender;
use crate::runs::{Progress, Run, run_all};
use crate::scenario::ScenarioFile;

pub use judged::{JudgedWeek, week_lines};

/// Seconds of an hour.
const HOUR: f64 = 3600.0;

/// More days than a month's are no other week.
const DAYS_MAX: u32 = 31;

/// What is read in between: one block every five seconds.
const BETWEEN: &str = "[[job]]\nname = 'between'\nrw = 'randread'\narrival = 'poisson:0.2'\n\
                       background = true\n";

/// What goes wrong with a leg in an hour.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    name: &'static str,
    /// The keys of the `[[fault]]` besides `leg`, `at` and `until`; empty: nothing is wrong.
    text: &'static str,
    /// From when to when, in parts of the time that the load takes: 0 is its beginning.
    begins: f64,
    ends: f64,
}

const fn trouble(name: &'static str, text: &'static str, begins: f64, ends: f64) -> Trouble {
    Trouble {
        name,
        text,
        begins,
        ends,
    }
}

const NOTHING: Trouble = trouble("", "", 0.0, 0.0);
const SLOW: Trouble = trouble("x8", "slow = 8.0\n", 0.3, 0.6);
const VERY_SLOW: Trouble = trouble("x30", "slow = 30.0\n", 0.3, 0.6);
/// It turned slow when next to nobody read, and is well again soon after somebody does.
const SLOW_BEFORE: Trouble = trouble("x30-before", "slow = 30.0\n", -10.0, 0.3);
const AGED: Trouble = trouble("x1.5", "slow = 1.5\n", -10.0, 1.0);
const PAUSES: Trouble = trouble(
    "pauses",
    "pause = '5ms'\nevery = '60ms'\njitter = '20ms'\n",
    0.0,
    1.0,
);
const STALLS: Trouble = trouble(
    "stalls",
    "pause = '200ms'\nevery = '2s'\njitter = '1s'\n",
    0.0,
    1.0,
);
/// Few enough that the leg is not taken out, after which there would be another array.
const ERRORS: Trouble = trouble("errors", "error = 'read'\nrate = 0.00001\n", 0.0, 1.0);

/// The hours of a day: a load, and what goes wrong.
const HOURS: [(&str, Trouble); 24] = [
    ("4k-d1", NOTHING),
    ("4k-d4", NOTHING),
    ("4k-d16", NOTHING),
    ("4k-d32", NOTHING),
    ("4k-d128", NOTHING),
    ("64k-d1", NOTHING),
    ("64k-d16", NOTHING),
    ("zipf-d16", NOTHING),
    ("bursts", NOTHING),
    ("1stream", NOTHING),
    ("2streams", NOTHING),
    ("8streams", NOTHING),
    ("8streams+random", NOTHING),
    ("mix70-d1", NOTHING),
    ("mix70-d16", NOTHING),
    ("4k-d4", SLOW),
    ("4k-d1", VERY_SLOW),
    ("4k-d16", SLOW_BEFORE),
    ("1stream", SLOW),
    ("mix70-d16", SLOW),
    ("64k-d16", AGED),
    ("4k-d1", PAUSES),
    ("4k-d4", STALLS),
    ("4k-d4", ERRORS),
];

/// A week, or some days, of an array.
#[derive(Clone, Copy, Debug)]
pub struct Week {
    array: &'static Array,
    days: u32,
}

/// An hour of it.
#[derive(Clone, Copy, Debug)]
struct Hour {
    /// From 0 on.
    day: u32,
    /// Of that day, from 0 on.
    hour: u32,
    /// Its place among the hours of every day.
    kind: usize,
    load: &'static Load,
    trouble: &'static Trouble,
    /// The leg that has the trouble.
    leg: usize,
    /// How long the load takes, in seconds.
    seconds: f64,
}

impl Week {
    /// Days of the array of this name of the matrix.
    ///
    /// # Errors
    /// Where there is no such array with legs to choose from, or are no days, or too many.
    pub fn new(array: &str, days: u32) -> Result<Self, String> {
        if !(1..=DAYS_MAX).contains(&days) {
            return Err(format!("{days} days: 1 to {DAYS_MAX} can be played"));
        }
        let found = Self::known().find(|known| known.name == array);
        let array = found.ok_or_else(|| {
            let known: Vec<&str> = Self::arrays().collect();
            format!(
                "there is no array '{array}'; there are {}",
                known.join(", ")
            )
        })?;
        Ok(Self { array, days })
    }

    /// With one leg there is nothing to choose.
    fn known() -> impl Iterator<Item = &'static Array> {
        ARRAYS.iter().filter(|array| array.leg_count() > 1)
    }

    /// The names of the arrays that there are.
    pub fn arrays() -> impl Iterator<Item = &'static str> {
        Self::known().map(|array| array.name)
    }

    fn hours(&self) -> impl Iterator<Item = Hour> {
        let pace = self.array.pace;
        (0..self.days).flat_map(move |day| {
            let order = shuffled(day);
            (0..24).zip(order).map(move |(hour, kind)| {
                let (name, trouble) = &HOURS[kind];
                let load = LOADS.iter().find(|load| load.name == *name);
                let load = load.expect("hours are made of loads that exist");
                Hour {
                    day,
                    hour,
                    kind,
                    load,
                    trouble,
                    leg: (kind + usize::try_from(day).expect("few days")) % self.array.leg_count(),
                    seconds: seconds(pace, load.class, trouble),
                }
            })
        })
    }

    /// It as a scenario file.
    #[must_use]
    pub fn text(&self) -> String {
        let array = self.array;
        let seconds = f64::from(self.days * 24) * HOUR;
        let mut text = format!(
            "# {} for {} days: each hour another load.\nname = 'week-{}'\n\
             seconds = {seconds}\n\n[array]\n{}\n{}\n{BETWEEN}",
            array.title, self.days, array.name, array.text, array.neighbour
        );
        for hour in self.hours() {
            text += &hour.text(array);
        }
        text
    }

    /// Plays it under each of `contenders` with the seeds from 1 to `seeds` on `threads` threads,
    /// and judges `of`, which is one of them.
    ///
    /// # Errors
    /// Where a checker finds a bug.
    ///
    /// # Panics
    /// Where `of` is none of the contenders.
    pub fn run(
        &self,
        contenders: &[Contender],
        of: &Contender,
        seeds: u64,
        threads: usize,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<JudgedWeek, RunError> {
        let scenario = self.scenario();
        let plan = |contender: &Contender, seed: u64| Run {
            scenario: Arc::new(Scenario {
                seed,
                ..scenario.clone()
            }),
            contender: contender.clone(),
        };
        let runs: Vec<Run> = contenders
            .iter()
            .flat_map(|contender| (1..=seeds).map(move |seed| (contender, seed)))
            .map(|(contender, seed)| plan(contender, seed))
            .collect();
        let mut results = Vec::new();
        let mut outcome = Ok(());
        run_all(&runs, threads, progress, |_, result| match result {
            Ok(result) => {
                results.push(result);
                ControlFlow::Continue(())
            }
            Err(error) => {
                outcome = Err(error);
                ControlFlow::Break(())
            }
        });
        outcome?;
        let of = contenders.iter().position(|contender| contender == of);
        let of = of.expect("the judged policy is among those that are run");
        Ok(JudgedWeek::new(self, &scenario, &results, seeds, of))
    }

    fn scenario(&self) -> Scenario {
        let file = ScenarioFile::parse(Path::new("week.toml"), &self.text());
        file.unwrap_or_else(|error| panic!("every week is a scenario: {error}"))
            .scenario
    }
}

impl Hour {
    /// `4k-d1`, or `4k-d1/x8`.
    fn name(&self) -> String {
        match self.trouble.name {
            "" => self.load.name.to_owned(),
            trouble => format!("{}/{trouble}", self.load.name),
        }
    }

    /// What its jobs are called begins with that.
    fn prefix(&self) -> String {
        format!("day{}-{:02}-", self.day + 1, self.hour)
    }

    /// When its load begins, in seconds.
    fn begins(&self) -> f64 {
        f64::from(self.day * 24 + self.hour) * HOUR
    }

    /// Its jobs, and what goes wrong.
    fn text(&self, array: &Array) -> String {
        const JOB: &str = "[[job]]\nname = '";
        let (begins, seconds) = (self.begins(), self.seconds);
        let name = format!("{JOB}{}", self.prefix());
        let times = format!("start = '{begins}s'\nstop = '{}s'\n", begins + seconds);
        let load = self.load.text.replace("BURSTS", array.bursts);
        let jobs = load.split(JOB).filter(|job| !job.is_empty());
        let mut text = String::new();
        for job in jobs {
            text += &format!("\n{name}{job}{times}");
        }
        let trouble = self.trouble;
        if !trouble.text.is_empty() {
            let at = (begins + trouble.begins * seconds).max(0.0);
            let until = begins + trouble.ends * seconds;
            let leg = self.leg;
            let text_of = trouble.text;
            text +=
                &format!("\n[[fault]]\nleg = {leg}\nat = '{at}s'\nuntil = '{until}s'\n{text_of}");
        }
        text
    }
}

/// How long a load is played: some thousand reads of disks, some ten thousand of flash, and long
/// enough to see what becomes of a leg after it was slow.
fn seconds(pace: Pace, class: Class, trouble: &Trouble) -> f64 {
    let is_healthy = trouble.text.is_empty();
    match (pace, class) {
        (Pace::Arms, Class::Random) => 120.0,
        (Pace::Arms, Class::Mixed) => 60.0,
        (Pace::Arms, Class::Stream) => 30.0,
        (Pace::Flash, _) if is_healthy => 2.0,
        (Pace::Flash, _) => 10.0,
    }
}

/// The kinds of hours in the order of a day: a random one, the same on every machine.
fn shuffled(day: u32) -> [usize; 24] {
    let mut random = RandomStream::new(1, "week", u64::from(day));
    let mut order = std::array::from_fn(|kind| kind);
    for last in (1..order.len()).rev() {
        let other = random.below(u64::try_from(last + 1).expect("few hours"));
        order.swap(last, usize::try_from(other).expect("few hours"));
    }
    order
}
