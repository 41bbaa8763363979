//! What is remembered of the lasting legs of an array between two lives of the daemon.
//!
//! The file is JSON and says its version. It is found by the identities of the legs that it names,
//! not by its own name, which only helps people: `NAME-HASH.state`, with a hash over the
//! identities, so that two arrays that are called the same in turn do not overwrite each other's.
//!
//! Which record allows serving is decided here, by [`verdict`]; nothing here guesses which leg is
//! right.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use heliostat_leg::OpenedLeg;
use serde::{Deserialize, Serialize};

use crate::RuntimeError;
use crate::durable;
use crate::wall_time::WallTime;

/// The version of the file that this code writes, and the only one it reads.
const VERSION: u32 = 1;

/// No array lives to see as many records: a file that counts further is damaged, and counting on
/// from there could overflow.
const GENERATION_MAX: u64 = u64::MAX / 2;

/// How the files' names end.
const EXTENSION: &str = "state";

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StateFile {
    version: u32,
    /// What the array was called when it was last served.
    pub(crate) name: String,
    /// Its usable size then.
    pub(crate) size_bytes: u64,
    /// Of the newest record of the engine.
    pub(crate) generation: u64,
    /// Since when the legs may differ; nothing where they are equal.
    pub(crate) dirty_since: Option<WallTime>,
    /// Which leg is being copied over the others, by identity; nothing where none is.
    pub(crate) copying_from: Option<String>,
    /// The lasting legs, in role order.
    pub(crate) legs: Vec<LegRecord>,
}

/// One leg in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LegRecord {
    /// What it is known by across reboots.
    pub(crate) identity: String,
    /// As the user wrote it.
    pub(crate) text: String,
    /// Why it must not be read, where it must not.
    pub(crate) fault: Option<FaultRecord>,
}

impl LegRecord {
    /// One that may be read.
    pub(crate) fn new(leg: &OpenedLeg) -> Self {
        Self {
            identity: leg.info().identity.clone(),
            text: leg.name().to_owned(),
            fault: None,
        }
    }

    /// Why it must not be read, as a sentence.
    fn told_fault(&self) -> Option<String> {
        let FaultRecord { at, reason } = self.fault.as_ref()?;
        Some(format!("leg {} was faulted at {at}: {reason}", self.text))
    }
}

/// When and why a leg was faulted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultRecord {
    /// When.
    pub(crate) at: WallTime,
    /// Why.
    pub(crate) reason: String,
}

impl StateFile {
    /// A record of these legs, equal and without fault.
    pub(crate) fn clean(name: &str, size_bytes: u64, legs: Vec<LegRecord>) -> Self {
        Self {
            version: VERSION,
            name: name.to_owned(),
            size_bytes,
            generation: 0,
            dirty_since: None,
            copying_from: None,
            legs,
        }
    }

    /// Where it belongs in `directory`.
    pub(crate) fn path_in(&self, directory: &Path) -> PathBuf {
        let hash = hash_of(self.identities());
        directory.join(format!("{}-{hash:08x}.{EXTENSION}", self.name))
    }

    /// The bytes of the file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a plain struct is JSON");
        bytes.push(b'\n');
        bytes
    }

    /// Makes it durable in `directory`.
    pub(crate) fn store(&self, directory: &Path) -> io::Result<()> {
        durable::replace(&self.path_in(directory), &self.to_bytes())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let told: Versioned = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if told.version != VERSION {
            let version = told.version;
            return Err(format!(
                "it has version {version}, and this program reads {VERSION}"
            ));
        }
        let file: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if file.generation > GENERATION_MAX {
            return Err(format!("its generation cannot be {}", file.generation));
        }
        Ok(file)
    }

    /// The identities, sorted.
    fn identities(&self) -> Vec<&str> {
        let mut identities: Vec<&str> = self.legs.iter().map(|leg| leg.identity.as_str()).collect();
        identities.sort_unstable();
        identities
    }

    /// What stays to be known when `other` takes over the legs that it names: the others must not
    /// be served as if nothing had happened. Nothing where it names all.
    pub(crate) fn left_behind_by(&self, other: &Self) -> Option<Self> {
        let taken = other.identities();
        let mut rest = self.clone();
        rest.legs
            .retain(|leg| taken.binary_search(&leg.identity.as_str()).is_err());
        for leg in &mut rest.legs {
            leg.fault.get_or_insert_with(|| FaultRecord {
                at: WallTime::now(),
                reason: "it was part of a mirror that went on without it".to_owned(),
            });
        }
        (!rest.legs.is_empty()).then_some(rest)
    }

    /// Of a copy that did not finish: which, and since when.
    pub(crate) fn unfinished_copy(&self) -> Option<String> {
        let (since, source) = (self.dirty_since?, self.copying_from.as_ref()?);
        let text = self.legs.iter().find(|leg| leg.identity == *source);
        let (text, name) = (text.map_or(source, |leg| &leg.text), &self.name);
        Some(format!(
            "copying {text} over the other legs of array '{name}' began at {since} and did not \
             finish"
        ))
    }

    /// Whether some leg is in both.
    fn overlaps(&self, other: &Self) -> bool {
        let theirs = other.identities();
        self.identities()
            .iter()
            .any(|identity| theirs.binary_search(identity).is_ok())
    }
}

/// A file that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Where.
    pub(crate) path: PathBuf,
    /// What it says.
    pub(crate) file: StateFile,
}

/// The files in `directory` that know any leg of `wanted`, by path.
///
/// # Errors
/// Where the directory or a file in it cannot be read. A file that makes no sense is an error too:
/// it may be about these legs.
pub(crate) fn find(directory: &Path, wanted: &StateFile) -> Result<Vec<Found>, RuntimeError> {
    let failed = |path: &Path, problem: &dyn std::fmt::Display| {
        RuntimeError(format!(
            "cannot read the state file {}: {problem}; it may say something of these legs, so mend \
             it or move it away",
            path.display()
        ))
    };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| failed(directory, &error))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(directory, &error))?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != EXTENSION)
        {
            continue;
        }
        let bytes = match fs::read(&path) {
            // Another daemon has just replaced or renamed its own.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.map_err(|error| failed(&path, &error))?,
        };
        let file = StateFile::from_bytes(&bytes).map_err(|error| failed(&path, &error))?;
        if file.overlaps(wanted) {
            found.push(Found { path, file });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Why the legs of `wanted` must not be served as they are: a sentence for each reason, none where
/// they may be.
pub(crate) fn verdict(found: &[Found], wanted: &StateFile) -> Vec<String> {
    let mut reasons = Vec::new();
    for Found { path, file } in found {
        let name = &file.name;
        let count_before = reasons.len();
        if file.identities() != wanted.identities() {
            let legs: Vec<&str> = file.legs.iter().map(|leg| leg.text.as_str()).collect();
            let legs = legs.join(", ");
            reasons.push(format!(
                "they were last served in another set, as array '{name}' of the legs {legs}"
            ));
        }
        let (before, now) = (file.size_bytes, wanted.size_bytes);
        if before != now {
            // Smaller: a leg lost its end. Larger: nobody made the new ends equal.
            reasons.push(format!(
                "array '{name}' had {before} bytes, and would have {now} now"
            ));
        }
        // One leg cannot disagree with itself.
        let is_alone = wanted.legs.len() == 1 && file.legs.len() == 1;
        if let Some(copy) = file.unfinished_copy() {
            reasons.push(copy);
        } else if let Some(since) = file.dirty_since.filter(|_| !is_alone) {
            reasons.push(format!(
                "array '{name}' was not stopped cleanly: its legs may differ since {since}"
            ));
        }
        reasons.extend(file.legs.iter().filter_map(LegRecord::told_fault));
        if reasons.len() > count_before {
            let last = reasons.last_mut().expect("one was just pushed");
            write!(last, " (said by {})", path.display()).expect("a String takes all text");
        }
    }
    reasons
}

/// Why the leg known as `identity` is not the one that is right: a sentence for each reason.
/// `None` where nothing is known of it.
pub(crate) fn doubts(found: &[Found], identity: &str) -> Option<Vec<String>> {
    let mut doubts = None;
    for Found { file, .. } in found {
        let Some(leg) = file.legs.iter().find(|leg| leg.identity == identity) else {
            continue;
        };
        let copy = file.unfinished_copy();
        let copy = copy.filter(|_| file.copying_from.as_deref() != Some(identity));
        let doubts: &mut Vec<String> = doubts.get_or_insert_default();
        doubts.extend(leg.told_fault().into_iter().chain(copy));
    }
    doubts
}

/// FNV-1a over the identities, each with its end, folded to 32 bits. It only tells names of files
/// apart: what a file is about is said in it.
fn hash_of(identities: Vec<&str>) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in identities
        .into_iter()
        .flat_map(|text| text.bytes().chain([0]))
    {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    u32::try_from((hash >> 32) ^ (hash & u64::from(u32::MAX))).expect("folded to 32 bits")
}

#[cfg(test)]
mod tests;
