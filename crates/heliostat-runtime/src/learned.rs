//! What the read policy has learned of the devices below the legs, kept under the array's name, so
//! that reads go where they should from the first one after a restart.
//!
//! Nothing but time depends on it. It is known by device: a leg in whose place is another one
//! begins anew. What is of another version, or makes no sense, is not believed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use heliostat_policy::ReadPolicy;
use heliostat_types::{Duration, Instant, LegId};
use serde::{Deserialize, Serialize};

use crate::newest::{self, NewestWriter};

const VERSION: u32 = 1;

/// How often it is looked what was learned; a crash costs at most so much of it.
const LOOK_EVERY: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LearnedFile {
    version: u32,
    /// The policy's name.
    policy: String,
    /// What it has learned of each device, by the device's identity.
    devices: BTreeMap<String, Vec<f32>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Learned {
    /// The identity of the device of each leg.
    devices: BTreeMap<LegId, String>,
    kept: LearnedFile,
    /// Who writes; nobody where nothing is kept.
    writer: Option<NewestWriter>,
    looked_at: Instant,
}

impl Learned {
    /// What is kept in the file at `path`; nothing, now and from now on, where there is no path. A
    /// line where there is one that is of no use.
    pub(crate) fn open(path: Option<PathBuf>) -> io::Result<(Self, Option<String>)> {
        let (kept, note) = match path.as_deref().map(load) {
            Some(Ok(kept)) => (kept, None),
            Some(Err(note)) => (None, Some(note)),
            None => (None, None),
        };
        let nothing = || LearnedFile {
            version: VERSION,
            policy: String::new(),
            devices: BTreeMap::new(),
        };
        let start = |path| NewestWriter::start(path, "what the read policy learns");
        let learned = Self {
            devices: BTreeMap::new(),
            kept: kept.unwrap_or_else(nothing),
            writer: path.map(start).transpose()?,
            looked_at: Instant::ZERO,
        };
        Ok((learned, note))
    }

    /// The device of a leg from now on.
    pub(crate) fn set_device(&mut self, leg: LegId, identity: String) {
        self.devices.insert(leg, identity);
    }

    /// The legs that have a device.
    pub(crate) fn legs(&self) -> impl Iterator<Item = LegId> {
        self.devices.keys().copied()
    }

    /// Tells a policy that begins what one of its name has learned of the devices that are there.
    pub(crate) fn recall(&self, policy: &mut dyn ReadPolicy) {
        if self.kept.policy != policy.name() {
            return;
        }
        for (leg, device) in &self.devices {
            if let Some(numbers) = self.kept.devices.get(device) {
                policy.recall(*leg, numbers);
            }
        }
    }

    /// When to look next; `None` where nothing is kept.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        let is_kept = self.writer.is_some();
        is_kept.then(|| self.looked_at + LOOK_EVERY)
    }

    /// This is what the policy of that name has learned of legs. One that learns nothing does not
    /// make it forgotten what another one has learned.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        policy: &str,
        learned: impl Iterator<Item = (LegId, Vec<f32>)>,
    ) {
        self.looked_at = now;
        let known = learned.filter(|(_, numbers)| !numbers.is_empty());
        let known = known.filter_map(|(leg, numbers)| {
            let device = self.devices.get(&leg)?;
            Some((device.clone(), numbers))
        });
        let seen = LearnedFile {
            version: VERSION,
            policy: policy.to_owned(),
            devices: known.collect(),
        };
        if seen.devices.is_empty() || seen == self.kept {
            return;
        }
        if let Some(writer) = &self.writer {
            writer.write(&seen);
        }
        self.kept = seen;
    }
}

fn load(path: &Path) -> Result<Option<LearnedFile>, String> {
    let unknown = "what the read policy had learned is not known";
    newest::load(path, unknown, |file: &LearnedFile| (file.version, VERSION))
}
