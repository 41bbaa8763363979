//! How the volumes of an array are. The structs are wire formats: their fields are what `heliostat
//! volume list --json` prints.

use heliostat_volume::{Limits, Volume};
use serde::{Deserialize, Serialize};
use stdx::units::exact_rate;

use super::Volumes;

/// How the volumes of an array are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumesStatus {
    /// The array's name.
    pub array: String,
    /// Its identity, as mdadm prints it; absent where its legs are raw.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uuid: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// What no volume has; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub free_bytes: Option<u64>,
    /// Which version of the table this is; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generation: Option<u64>,
    /// The volumes, in the order in which they were made.
    pub volumes: Vec<VolumeStatus>,
    /// What somebody should look after; absent where all is well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
}

/// How a volume is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// What clients see of it; 0 while it is new and prepared.
    pub size_bytes: u64,
    /// What it has, or will have when it is prepared.
    pub allocated_bytes: u64,
    /// How much of that from its start holds nothing of former volumes.
    pub prepared_bytes: u64,
    /// `ready`, or `preparing` while what is new is zeroed.
    pub state: String,
    /// How many connections use it.
    pub connections: usize,
    /// Its share beside others.
    pub weight: u32,
    /// Requests per second; 0: no limit.
    pub iops_max: u32,
    /// Bytes per second; 0: no limit.
    pub bytes_per_s_max: u64,
    /// Where in the array it lies, in its order.
    pub extents: Vec<VolumeExtent>,
}

impl VolumeStatus {
    /// Its limits for people: `weight 2, 500 IOPS, 10MB/s`.
    #[must_use]
    pub fn limits(&self) -> String {
        limits_text(Limits {
            weight: self.weight,
            iops_max: self.iops_max,
            bytes_per_s_max: self.bytes_per_s_max,
        })
    }
}

/// Limits for people. A cap that there is none of is not named.
pub(super) fn limits_text(limits: Limits) -> String {
    let mut text = format!("weight {}", limits.weight);
    if limits.iops_max > 0 {
        text += &format!(", {} IOPS", limits.iops_max);
    }
    if limits.bytes_per_s_max > 0 {
        text += &format!(", {}", exact_rate(limits.bytes_per_s_max));
    }
    text
}

/// A run of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeExtent {
    /// Where it begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub len_bytes: u64,
}

impl Volumes {
    /// How they are, of an array of this name, identity and size.
    pub(crate) fn status(
        &self,
        array: String,
        uuid: Option<String>,
        size_bytes: u64,
    ) -> VolumesStatus {
        let table = self.table.as_ref();
        let volumes = table.into_iter().flat_map(|table| &table.volumes);
        VolumesStatus {
            uuid,
            size_bytes,
            free_bytes: table.map(heliostat_volume::Table::free_bytes),
            generation: table.map(|table| table.generation),
            volumes: volumes.map(|volume| self.status_of(volume)).collect(),
            problem: self.problem(),
            array,
        }
    }

    fn status_of(&self, volume: &Volume) -> VolumeStatus {
        let extents = volume.extents.iter().map(|extent| VolumeExtent {
            offset_bytes: extent.offset(),
            len_bytes: extent.len(),
        });
        let state = if volume.is_preparing() {
            "preparing"
        } else {
            "ready"
        };
        VolumeStatus {
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            allocated_bytes: volume.allocated_bytes(),
            prepared_bytes: volume.prepared_bytes,
            state: state.to_owned(),
            connections: self.live.connections(&volume.name),
            weight: volume.limits.weight,
            iops_max: volume.limits.iops_max,
            bytes_per_s_max: volume.limits.bytes_per_s_max,
            extents: extents.collect(),
        }
    }
}
