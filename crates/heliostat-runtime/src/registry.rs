//! Which legs the arrays are made of that are served by name: a file for each, `NAME.array`, beside
//! what else is remembered.
//!
//! It is a list of places to look at, as mdadm.conf is, and nothing that is believed: what an array
//! is and which of its legs are right is on the legs. A leg that moved is found by `--scan`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use heliostat_format::Uuid;
use serde::{Deserialize, Serialize};

use crate::RuntimeError;
use crate::durable;
use crate::places::Places;

/// The version of the file that this code writes, and the only one it reads.
const VERSION: u32 = 1;

/// How the files' names end.
const EXTENSION: &str = "array";

/// What is remembered of an array with metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    version: u32,
    /// The array's identity, as mdadm prints it.
    pub uuid: String,
    /// Its legs, as the user wrote them.
    pub legs: Vec<String>,
}

impl Registered {
    /// These legs of the array with this identity.
    #[must_use]
    pub fn new(uuid: Uuid, legs: impl IntoIterator<Item = String>) -> Self {
        Self {
            version: VERSION,
            uuid: uuid.to_string(),
            legs: legs.into_iter().map(absolute).collect(),
        }
    }

    /// The same array, with these legs.
    pub(crate) fn with_legs(&self, legs: impl IntoIterator<Item = String>) -> Self {
        Self {
            legs: legs.into_iter().map(absolute).collect(),
            ..self.clone()
        }
    }

    /// What is remembered of the array called `name`.
    ///
    /// # Errors
    /// Where there is nothing, or it cannot be read; the text says what to do.
    pub fn load(places: &Places, name: &str) -> Result<Self, RuntimeError> {
        let path = path_of(places, name);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(RuntimeError(format!(
                    "no array called {name} is known here ({} is not there){}; name its legs \
                     ('heliostat serve LEG...'), or have them looked for with --scan",
                    path.display(),
                    others(places, name)
                )));
            }
            Err(error) => {
                return Err(RuntimeError(format!(
                    "cannot read {}: {error}",
                    path.display()
                )));
            }
        };
        let parsed: Result<Self, _> = serde_json::from_slice(&bytes);
        let problem = match parsed {
            Ok(known) if known.version == VERSION => return Ok(known),
            Ok(known) => format!("it has version {}, not {VERSION}", known.version),
            Err(error) => error.to_string(),
        };
        Err(RuntimeError(format!(
            "{} is damaged: {problem}; name the legs of {name}, or have them looked for with \
             --scan, and it is written anew",
            path.display()
        )))
    }

    /// Makes it durable as what is remembered of the array called `name`.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn store(&self, places: &Places, name: &str) -> Result<(), RuntimeError> {
        let path = path_of(places, name);
        let mut bytes = serde_json::to_vec_pretty(self).expect("a plain struct is JSON");
        bytes.push(b'\n');
        let stored = durable::replace(&path, &bytes);
        stored.map_err(|error| RuntimeError(format!("cannot write {}: {error}", path.display())))
    }
}

/// The names of all arrays that something is remembered of, sorted.
#[must_use]
pub fn registered_names(places: &Places) -> Vec<String> {
    let entries = fs::read_dir(&places.state).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| name_in(&entry.path())).collect();
    names.sort_unstable();
    names
}

fn name_in(path: &Path) -> Option<String> {
    let is_one = path
        .extension()
        .is_some_and(|extension| extension == EXTENSION);
    let stem = path.file_stem().filter(|_| is_one)?;
    Some(stem.to_str()?.to_owned())
}

fn path_of(places: &Places, name: &str) -> PathBuf {
    places.state.join(format!("{name}.{EXTENSION}"))
}

/// A leg as it can be named from any directory.
fn absolute(leg: String) -> String {
    let (front, path) = match leg.split_once("file=") {
        Some((front, path)) => (format!("{front}file="), path.to_owned()),
        None => (String::new(), leg.clone()),
    };
    let (path, behind) = match path.split_once(',') {
        Some((path, behind)) => (path.to_owned(), format!(",{behind}")),
        None => (path, String::new()),
    };
    match fs::canonicalize(&path) {
        Ok(path) => format!("{front}{}{behind}", path.display()),
        Err(_) => leg,
    }
}

/// Words about the arrays that are known instead.
fn others(places: &Places, name: &str) -> String {
    let names = registered_names(places);
    let similar = stdx::suggest::closest(name, names.iter().map(String::as_str));
    match similar {
        Some(similar) => format!("; there is one called {similar}"),
        None if names.is_empty() => String::new(),
        None => format!("; known are {}", names.join(", ")),
    }
}
