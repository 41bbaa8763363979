//! The volumes of the array that is served: who uses which, where its bytes are, and how the table
//! on the legs is read and changed ([docs/volumes.md]).
//!
//! What exports ask for in a volume is translated here into what the engine is asked for. The table
//! is read and written as any client's data are, by requests of our own, one at a time: so nothing
//! waits for it but whoever asked for a change.
//!
//! A change is told to whoever asked, and is seen by clients, when both copies of the new table are
//! durable; a volume that is to go, or to become smaller, takes no client from the moment the first
//! copy is begun.
//!
//! [docs/volumes.md]: ../../../docs/volumes.md

mod live;
mod own;
mod split;
mod status;
mod work;

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;

use heliostat_format::Uuid;
use heliostat_types::{FlowId, RequestId};
use heliostat_volume::{ArrayId, Limits, Table};
use serde::{Deserialize, Serialize};

use crate::commands::Refused;
use crate::flows::Flows;

use self::live::LiveVolumes;
pub use self::live::{Place, VolumeId, VolumeInfo};
use self::own::OwnRequests;
pub(crate) use self::own::Step as OwnStep;
use self::split::Splits;
pub(crate) use self::split::{Joined, Part};
pub use self::status::{VolumeExtent, VolumeStatus, VolumesStatus};
use self::work::{Job, Work};

/// How many changes may wait for the one that is under way.
const WAITING_MAX: usize = 16;

/// What is to become of the volumes of an array. Sizes are rounded up to whole MiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum VolumeChange {
    /// One more.
    Create {
        /// Its name.
        volume: String,
        /// Its size.
        size_bytes: u64,
        /// How much of the array it may have.
        #[serde(default)]
        limits: LimitsChange,
        /// Whether what lies at the start and the end of an array without volumes may be lost.
        #[serde(default)]
        force: bool,
    },
    /// Another size.
    Resize {
        /// Of which.
        volume: String,
        /// How large it is to be.
        size_bytes: u64,
        /// Whether what lies beyond may be lost.
        #[serde(default)]
        shrink: bool,
    },
    /// Other limits.
    Set {
        /// Of which.
        volume: String,
        /// What is to be other.
        limits: LimitsChange,
    },
    /// One less. What it holds is lost.
    Delete {
        /// Which.
        volume: String,
    },
    /// Both copies of the table are to be written again, also over something that is none.
    Repair,
}

/// What is to be other about the limits of a volume; what is absent stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LimitsChange {
    /// Its share beside others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Requests per second; 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops_max: Option<u32>,
    /// Bytes per second; 0: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s_max: Option<u64>,
}

impl LimitsChange {
    fn apply(self, before: Limits) -> Limits {
        Limits {
            weight: self.weight.unwrap_or(before.weight),
            iops_max: self.iops_max.unwrap_or(before.iops_max),
            bytes_per_s_max: self.bytes_per_s_max.unwrap_or(before.bytes_per_s_max),
        }
    }
}

/// Who waits for what became of a change.
pub(crate) type ChangeReply = SyncSender<Result<String, Refused>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Volumes {
    /// The array that the table has to be of; `None` where there is none: legs are raw, or the
    /// array is served as one whatever lies on it.
    array: Option<ArrayId>,
    /// Why nothing can be changed, for people.
    frozen: Option<String>,
    /// What counts; `None` where the array has no volumes.
    table: Option<Table>,
    /// Where something else lies than the copy of the table that should be there.
    overwritten: [bool; 2],
    live: LiveVolumes,
    pub(crate) splits: Splits,
    pub(crate) own: OwnRequests,
    pub(crate) work: Work,
    waiting: VecDeque<(VolumeChange, ChangeReply)>,
    is_stopping: bool,
    /// Whether exports are to be told that there are others now.
    are_exports_due: bool,
    lines: Vec<String>,
}

impl Volumes {
    /// Of an array of this identity and size, and why nothing can be changed about them. So much is
    /// zeroed at a time.
    pub(crate) fn new(
        array: Option<Uuid>,
        frozen: Option<String>,
        array_bytes: u64,
        piece_bytes: u64,
    ) -> Self {
        Self {
            array: array.map(|uuid| uuid.0),
            frozen,
            table: None,
            overwritten: [false; 2],
            live: LiveVolumes::default(),
            splits: Splits::default(),
            own: OwnRequests::default(),
            work: Work::new(array_bytes, piece_bytes),
            waiting: VecDeque::new(),
            is_stopping: false,
            are_exports_due: false,
            lines: Vec::new(),
        }
    }

    /// Whether clients get at the array as a whole: not where it is cut into volumes, or about to
    /// be.
    pub(crate) const fn is_whole_open(&self) -> bool {
        self.table.is_none() && !self.live.is_whole_closed()
    }

    /// What clients can use: `None` where that is the array as a whole.
    pub(crate) fn infos(&self) -> Option<Vec<VolumeInfo>> {
        self.table.as_ref().map(|_| self.live.infos())
    }

    /// A client begins to use a volume, or the array as a whole; the account that its requests are
    /// done on in a volume. `None` where that is not there any more.
    pub(crate) fn enter(&mut self, place: Place) -> Option<Option<FlowId>> {
        self.live.enter(place, self.is_whole_open())
    }

    /// A client that had entered leaves.
    pub(crate) fn leave(&mut self, place: Place) {
        self.live.leave(place);
    }

    /// A client that has not said what it uses asks for something of the array as a whole: it is
    /// not cut before that is answered.
    pub(crate) fn ask_whole(&mut self, id: RequestId) {
        self.live.ask_whole(id);
    }

    /// A request of an export was answered.
    pub(crate) fn answered(&mut self, id: RequestId) {
        self.live.answered(id);
    }

    /// The volumes that are used and their maps.
    pub(crate) const fn live(&self) -> &LiveVolumes {
        &self.live
    }

    /// Accounts with their limits, where the engine was told other ones.
    pub(crate) fn take_limited(&mut self) -> Vec<(FlowId, Limits)> {
        self.live.take_limited()
    }

    /// Whether exports are to look again at what there is.
    pub(crate) fn take_exports_due(&mut self) -> bool {
        std::mem::take(&mut self.are_exports_due)
    }

    /// What people are to be told.
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// Begins nothing more: the array is stopping.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
        // Whoever waits is told that the array is stopping, by there being nobody to answer.
        self.waiting.clear();
    }

    /// Whether a table is being written, which should be seen to its end.
    pub(crate) const fn is_writing(&self) -> bool {
        matches!(self.work.job, Some(Job::Update(_)))
    }

    /// Takes a change in; it is told to `reply` what became of it.
    pub(crate) fn ask(&mut self, change: VolumeChange, reply: ChangeReply) {
        if self.waiting.len() == WAITING_MAX {
            let refused = Refused::from("too many changes of volumes wait already".to_owned());
            drop(reply.try_send(Err(refused)));
            return;
        }
        self.waiting.push_back((change, reply));
    }

    /// Makes what is seen what the table says.
    fn follow_table(&mut self, flows: &mut Flows) {
        let volumes = self.table.as_ref().map(|table| &table.volumes[..]);
        self.live.follow(volumes.unwrap_or_default(), flows);
        self.are_exports_due = true;
    }
}
