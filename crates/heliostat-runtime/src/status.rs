//! How an array is, for people and programs: what it is made of, who of its legs is there, what its
//! bitmap does. The structs are wire formats: their fields are what `heliostat status --json`
//! prints.

use heliostat_engine::{BackgroundKind, BackgroundStatus, BitmapFigures, LegState, WriteBehind};
use heliostat_types::Duration;
use serde::{Deserialize, Serialize};

use crate::events::work;
use crate::rates::Rates;
use crate::work::{EndedWork, ScrubRun};

/// How an array is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayStatus {
    /// Its name.
    pub name: String,
    /// Its identity, as mdadm prints it; absent where its legs are raw.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uuid: Option<String>,
    /// What it is made of, in words.
    pub shape: String,
    /// Its usable size.
    pub size_bytes: u64,
    /// `clean`, or `active` while the legs may differ because something was just written.
    pub state: String,
    /// Whether nothing is written to its legs, and nothing is done in the background.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub read_only: bool,
    /// How many legs are in sync, and how many there should be.
    pub legs_in_sync: usize,
    /// See above.
    pub legs_wanted: usize,
    /// In which order what waits is done, with the tunables that differ from their defaults.
    #[serde(default)]
    pub scheduler: String,
    /// Where that is decided: `leg`, in front of each leg, or `array`, in front of all.
    #[serde(default)]
    pub scheduler_on: String,
    /// What clients connect to, as URIs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub exports: Vec<String>,
    /// Its legs, in role order.
    pub legs: Vec<LegStatus>,
    /// The leg that is to replace one of them, in whose role it is; absent where none is replaced.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replacement: Option<LegStatus>,
    /// What is still held open and is no leg any more: one that another one has replaced, or a
    /// replacement that was given up. As the user wrote it; absent where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub former: Vec<String>,
    /// Its spares, as the user wrote them; absent where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub spares: Vec<String>,
    /// Its bitmap; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bitmap: Option<BitmapStatus>,
    /// How far write-mostly legs are behind; absent where they never are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub write_behind: Option<BehindStatus>,
    /// Between which bounds work goes in the background.
    pub background_rates: Rates,
    /// What is done in the background; absent where nothing is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub background: Option<WorkStatus>,
    /// `check` or `repair`, where one waits for that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scrub_waiting: Option<String>,
    /// The check or repair that ended last: its `mismatch_sectors` are what is known of the array.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_scrub: Option<ScrubRun>,
    /// How the last few jobs in the background ended since the start, oldest first.
    #[serde(default)]
    pub ended: Vec<EndedWork>,
}

/// How a leg is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegStatus {
    /// Counted from 0.
    pub role: usize,
    /// As the user wrote it; `missing:ROLE` where it is not there.
    pub leg: String,
    /// `in-sync`, `rebuilding`, `faulted` or `missing`.
    pub state: String,
    /// The leg that is to replace it; absent where none is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaced_by: Option<String>,
    /// Whether it is read only where nothing else is left.
    pub write_mostly: bool,
    /// Whether it is out at its first error.
    #[serde(default)]
    pub failfast: bool,
    /// Whether it fails reads and is to be taken out, as soon as other legs are no longer behind
    /// with what it alone has.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub leaving: bool,
    /// How many sectors of 512 bytes it is known not to hold.
    #[serde(default)]
    pub bad_sectors: u64,
    /// How many sectors that it could not read were written over and read back well.
    #[serde(default)]
    pub corrected_sectors: u32,
    /// How many reads it failed, each hour counting half of the one after it.
    #[serde(default)]
    pub recent_read_errors: u32,
}

/// What is to be said of a leg; what is absent stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlagChange {
    /// That it is read only where nothing else is left.
    pub write_mostly: Option<bool>,
    /// That it is out at its first error.
    pub failfast: Option<bool>,
}

/// How far write-mostly legs are behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BehindStatus {
    /// How many writes were answered that some leg does not have yet,
    pub writes: u64,
    /// and how many may be.
    pub writes_max: u64,
    /// With how many bytes,
    pub bytes: u64,
    /// and how many there may be.
    pub bytes_max: u64,
    /// How many were answered so since the start.
    pub total: u64,
}

impl BehindStatus {
    /// What the engine says of it; `None` where nothing ever is behind.
    pub(crate) fn of(figures: WriteBehind) -> Option<Self> {
        (figures.writes_max > 0).then(|| Self {
            writes: figures.writes,
            writes_max: u64::from(figures.writes_max),
            bytes: figures.bytes,
            bytes_max: figures.bytes_max,
            total: figures.total,
        })
    }
}

/// How far background work is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkStatus {
    /// `resync`, `rebuild`, `check` or `repair`.
    pub kind: String,
    /// Whether it was told to pause.
    pub paused: bool,
    /// How much is done,
    pub done_bytes: u64,
    /// of how much.
    pub total_bytes: u64,
    /// What it did within the last seconds, per second.
    pub bytes_per_s: u64,
    /// By a check or a repair: how many sectors of 512 bytes differed.
    pub mismatch_sectors: u64,
    /// What was written to legs, once for all of them.
    pub written_bytes: u64,
    /// For how long it will go on at this rate; absent where that cannot be told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub time_left_ns: Option<u64>,
}

impl WorkStatus {
    /// How much of it is done, in percent; 100 only when nothing is left.
    #[must_use]
    pub fn percent(&self) -> u64 {
        let (done, total) = (u128::from(self.done_bytes), u128::from(self.total_bytes));
        let percent = (done * 100).checked_div(total).unwrap_or(100);
        u64::try_from(percent.min(100)).expect("at most 100")
    }

    /// For how long it will go on at this rate, as in `1d 04:05:06`, where that can be told.
    #[must_use]
    pub fn time_left(&self) -> Option<String> {
        self.time_left_ns.map(clock_time)
    }
}

/// `3d 04:05:06`, for lengths of time that three digits of seconds do not suit.
#[must_use]
pub fn clock_time(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}d {hours:02}:{minutes:02}:{seconds:02}"),
    }
}

impl From<BackgroundStatus> for WorkStatus {
    fn from(status: BackgroundStatus) -> Self {
        Self {
            kind: work(status.kind).to_owned(),
            paused: status.is_paused,
            done_bytes: status.done_bytes,
            total_bytes: status.total_bytes,
            bytes_per_s: status.bytes_per_s,
            mismatch_sectors: status.mismatches.sectors,
            written_bytes: status.copied_bytes,
            time_left_ns: status.time_left.map(Duration::as_ns),
        }
    }
}

/// What is done about a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubAction {
    /// Read all legs and compare.
    Check,
    /// The same, and make equal what differs.
    Repair,
    /// Begin nothing more in the background.
    Pause,
    /// Go on.
    Resume,
    /// Give the scrub up.
    Cancel,
}

impl ScrubAction {
    /// Whether this begins work of this kind.
    pub(crate) fn begins(self, kind: &str) -> bool {
        match self {
            Self::Check => kind == "check",
            Self::Repair => kind == "repair",
            Self::Pause | Self::Resume | Self::Cancel => false,
        }
    }
}

/// How a bitmap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BitmapStatus {
    /// What one bit stands for.
    pub chunk_bytes: u64,
    /// How many bits there are.
    pub chunks: u64,
    /// How many are set.
    pub set: u64,
    /// In how many chunks the legs may differ since an earlier life.
    pub needed: u64,
    /// How many bits were set since the start; a write waited for each.
    pub sets: u64,
    /// How many pages were written since the start, to each leg.
    pub pages_written: u64,
}

impl From<BitmapFigures> for BitmapStatus {
    fn from(figures: BitmapFigures) -> Self {
        Self {
            chunk_bytes: figures.chunk_bytes,
            chunks: figures.chunks,
            set: figures.set,
            needed: figures.needed,
            sets: figures.sets,
            pages_written: figures.pages_written,
        }
    }
}

/// A scrub in one word.
pub(crate) fn scrub_word(repair: bool) -> String {
    work(BackgroundKind::Scrub { repair }).to_owned()
}

/// A state in one word.
pub(crate) const fn word_of(state: LegState) -> &'static str {
    match state {
        LegState::InSync => "in-sync",
        LegState::Rebuilding => "rebuilding",
        LegState::Faulted => "faulted",
        LegState::Missing => "missing",
    }
}

#[cfg(test)]
mod tests {
    use super::clock_time;

    #[test]
    fn times() {
        assert_eq!(clock_time(3_661_999_999_999), "01:01:01");
        assert_eq!(clock_time(90_000_000_000_000), "1d 01:00:00");
    }
}
