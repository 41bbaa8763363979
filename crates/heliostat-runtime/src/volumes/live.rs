//! The volumes that clients can use now.

use std::collections::BTreeSet;

use heliostat_types::{FlowId, RequestId};
use heliostat_volume::{Limits, Volume, VolumeMap};

use crate::flows::Flows;

/// A volume, as long as the array is served and the volume is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeId(u32);

/// What a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It has not said yet.
    Nowhere,
    /// The array as a whole.
    Whole,
    /// A volume.
    Volume(VolumeId),
}

/// A volume as exports show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeInfo {
    /// To say that a client uses it.
    pub place: Place,
    /// What clients ask for it by.
    pub name: String,
    /// How large it is now.
    pub size_bytes: u64,
}

/// One that is there.
#[derive(Debug)]
struct Live {
    name: String,
    map: VolumeMap,
    flow: FlowId,
    limits: Limits,
    connections: usize,
    /// It is about to go, or to become smaller.
    is_closed: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LiveVolumes {
    /// By number. One that has gone leaves its place to the next: nobody used it then.
    volumes: Vec<Option<Live>>,
    /// How many connections use the array as a whole.
    whole_connections: usize,
    /// What is under way in the array as a whole for clients that have not said what they use.
    whole_requests: BTreeSet<RequestId>,
    /// The array is about to be cut into volumes.
    is_whole_closed: bool,
    /// Accounts whose limits are other than they were.
    limited: Vec<(FlowId, Limits)>,
}

impl LiveVolumes {
    pub(super) fn infos(&self) -> Vec<VolumeInfo> {
        let all = self.volumes.iter().enumerate();
        let open = all.filter_map(|(index, live)| {
            let live = live.as_ref().filter(|live| !live.is_closed)?;
            Some(VolumeInfo {
                place: Place::Volume(id(index)),
                name: live.name.clone(),
                size_bytes: live.map.size_bytes(),
            })
        });
        open.collect()
    }

    /// Where the bytes of a volume are.
    pub(crate) fn map(&self, id: VolumeId) -> &VolumeMap {
        &self.live(id).map
    }

    fn live(&self, id: VolumeId) -> &Live {
        let live = self.volumes[index(id)].as_ref();
        live.expect("a volume stays as long as somebody uses it")
    }

    pub(super) fn enter(&mut self, place: Place, is_whole_open: bool) -> Option<Option<FlowId>> {
        match place {
            Place::Nowhere => None,
            Place::Whole if !is_whole_open => None,
            Place::Whole => {
                self.whole_connections += 1;
                Some(None)
            }
            Place::Volume(id) => {
                let live = self.volumes.get_mut(index(id))?.as_mut();
                let live = live.filter(|live| !live.is_closed)?;
                live.connections += 1;
                Some(Some(live.flow))
            }
        }
    }

    pub(super) fn leave(&mut self, place: Place) {
        match place {
            Place::Nowhere => {}
            Place::Whole => self.whole_connections -= 1,
            Place::Volume(id) => {
                let live = self.volumes[index(id)].as_mut();
                let live = live.expect("a volume stays as long as somebody uses it");
                live.connections -= 1;
            }
        }
    }

    pub(super) const fn whole_connections(&self) -> usize {
        self.whole_connections
    }

    /// A client that has not said what it uses asks for something of the array as a whole.
    pub(super) fn ask_whole(&mut self, id: RequestId) {
        self.whole_requests.insert(id);
    }

    /// A request was answered.
    pub(super) fn answered(&mut self, id: RequestId) {
        if !self.whole_requests.is_empty() {
            self.whole_requests.remove(&id);
        }
    }

    /// How many of those requests are not answered.
    pub(super) fn whole_requests(&self) -> usize {
        self.whole_requests.len()
    }

    /// How many connections use this volume.
    pub(super) fn connections(&self, name: &str) -> usize {
        self.called(name).map_or(0, |live| live.connections)
    }

    /// Lets nobody in any more, until the table is followed again.
    pub(super) fn close(&mut self, name: &str) {
        let all = self.volumes.iter_mut().flatten();
        for live in all.filter(|live| live.name == name) {
            live.is_closed = true;
        }
    }

    /// Lets nobody use the array as a whole any more, until it is opened again or is cut.
    pub(super) const fn close_whole(&mut self) {
        self.is_whole_closed = true;
    }

    pub(super) const fn is_whole_closed(&self) -> bool {
        self.is_whole_closed
    }

    /// It was not cut after all.
    pub(super) const fn open(&mut self) {
        self.is_whole_closed = false;
    }

    fn called(&self, name: &str) -> Option<&Live> {
        let mut all = self.volumes.iter().flatten();
        all.find(|live| live.name == name)
    }

    /// Accounts with their limits, where the engine was told other ones.
    pub(crate) fn take_limited(&mut self) -> Vec<(FlowId, Limits)> {
        std::mem::take(&mut self.limited)
    }

    /// Makes this what there is. A volume that nobody can see yet is not there.
    ///
    /// # Panics
    /// Where one goes that somebody uses.
    pub(super) fn follow(&mut self, volumes: &[Volume], flows: &mut Flows) {
        self.is_whole_closed = false;
        let is_seen = |volume: &&Volume| volume.size_bytes > 0;
        for live in &mut self.volumes {
            let gone = live.take_if(|live| {
                let mut seen = volumes.iter().filter(is_seen);
                !seen.any(|volume| volume.name == live.name)
            });
            if let Some(gone) = gone {
                assert!(gone.connections == 0, "a volume that is used stays");
                flows.leave(gone.flow);
                self.limited.push((gone.flow, Limits::default()));
            }
        }
        for volume in volumes.iter().filter(is_seen) {
            let map = VolumeMap::new(&volume.extents, volume.size_bytes);
            let mut known = self.volumes.iter_mut().flatten();
            if let Some(live) = known.find(|live| live.name == volume.name) {
                live.map = map;
                live.is_closed = false;
                if live.limits != volume.limits {
                    live.limits = volume.limits;
                    self.limited.push((live.flow, live.limits));
                }
                continue;
            }
            let flow = flows.join_volume(&volume.name);
            self.limited.push((flow, volume.limits));
            let live = Live {
                name: volume.name.clone(),
                map,
                flow,
                limits: volume.limits,
                connections: 0,
                is_closed: false,
            };
            match self.volumes.iter_mut().find(|place| place.is_none()) {
                Some(place) => *place = Some(live),
                None => self.volumes.push(Some(live)),
            }
        }
    }
}

fn id(index: usize) -> VolumeId {
    VolumeId(u32::try_from(index).expect("there are few volumes"))
}

fn index(id: VolumeId) -> usize {
    usize::try_from(id.0).expect("a usize holds 32 bits")
}
