//! Requests in volumes, as the engine gets them, and our own for the table.

use heliostat_engine::{Answer as EngineAnswer, Input, Request, RequestKind, WriteBuffer};
use heliostat_scheduler::FlowLimits;
use heliostat_types::{ClientId, ErrorKind, Extent, FlowId, RequestId, StreamId};
use heliostat_volume::Limits;

use super::{Completion, Core, TAG_BITS, is_mutating};
use crate::export::{Answer, Peer};
use crate::flows;
use crate::volumes::{Joined, OwnStep, Part, Place};

/// What stands for an export in the numbers of requests that are parts of one: no export has an
/// index this high.
const PARTS: u64 = 254;

/// The same for our own requests.
const OWN: u64 = 253;

/// Who asks for our own.
const OURSELVES: ClientId = ClientId(u64::MAX);

impl Core {
    /// A client says what it uses. Whether that is there.
    pub(crate) fn enter(&mut self, peer: &mut Peer, place: Place) -> bool {
        assert_eq!(peer.place, Place::Nowhere, "a client says it once");
        let Some(flow) = self.volumes.enter(place) else {
            return false;
        };
        peer.place = place;
        if let Some(flow) = flow {
            self.flows.leave(peer.flow);
            self.close_accounts();
            peer.flow = flow;
        }
        true
    }

    /// A connection has ended.
    pub(crate) fn leave(&mut self, peer: Peer) {
        self.volumes.leave(peer.place);
        // The account of a volume stays.
        if !matches!(peer.place, Place::Volume(_)) {
            self.flows.leave(peer.flow);
            self.close_accounts();
        }
    }

    /// A buffer for a write.
    pub(crate) fn alloc_write(&mut self, peer: Peer, extent: Extent) -> Option<WriteBuffer> {
        let Place::Volume(id) = peer.place else {
            return self.engine.alloc_write(peer.flow, extent);
        };
        let map = self.volumes.live().map(id);
        let first = map.first(extent);
        if first.len() == extent.len() {
            return self.engine.alloc_write(peer.flow, first);
        }
        let extents: Vec<Extent> = map.all(extent).collect();
        self.engine.alloc_writes(peer.flow, &extents)
    }

    /// Hands a request of an export in, where the engine has it.
    pub(super) fn place(&mut self, export: usize, tag: u64, asked: Asked) {
        let Asked { peer, kind, .. } = &asked;
        let id = RequestId((export as u64) << TAG_BITS | tag);
        let Place::Volume(volume) = peer.place else {
            if !self.volumes.is_whole_open() {
                return self.refuse(id, asked.kind, ErrorKind::InvalidInput);
            }
            if peer.place == Place::Nowhere {
                self.volumes.ask_whole(id);
            }
            return self.hand_in(id, asked);
        };
        let Some(extent) = extent_of(kind).filter(|extent| !extent.is_empty()) else {
            return self.hand_in(id, asked);
        };
        let map = self.volumes.live().map(volume);
        if !map.contains(extent) {
            let error = if is_mutating(kind) {
                ErrorKind::NoSpace
            } else {
                ErrorKind::InvalidInput
            };
            return self.refuse(id, asked.kind, error);
        }
        let first = map.first(extent);
        // The status of what lies in the first extent is an answer.
        if first.len() == extent.len() || matches!(kind, RequestKind::BlockStatus { .. }) {
            let kind = moved(&asked.kind, first);
            return self.hand_in(id, Asked { kind, ..asked });
        }
        let extents: Vec<Extent> = map.all(extent).collect();
        let parts = self.volumes.splits.begin(export, tag, extents.len());
        for (part, extent) in parts.zip(extents) {
            let kind = moved(&asked.kind, extent);
            let id = RequestId(PARTS << TAG_BITS | part.to_tag());
            self.hand_in(id, Asked { kind, ..asked });
        }
    }

    fn hand_in(&mut self, id: RequestId, asked: Asked) {
        self.input(Input::Request(Request {
            id,
            client: asked.peer.client,
            flow: asked.peer.flow,
            stream: asked.stream,
            kind: asked.kind,
        }));
    }

    /// Answers a request that does not come to the engine.
    pub(super) fn refuse(&mut self, id: RequestId, kind: RequestKind, error: ErrorKind) {
        if let RequestKind::Write { buffer, .. } = kind {
            self.release(buffer);
        }
        self.complete(id, Err(error));
    }

    /// The next answer to deliver.
    pub(crate) fn next_completion(&mut self) -> Option<Completion> {
        loop {
            let (id, result) = self.completions.pop_front()?;
            let tag = id.0 & ((1 << TAG_BITS) - 1);
            match id.0 >> TAG_BITS {
                PARTS => {
                    let part = Part::from_tag(tag);
                    let Some(joined) = self.volumes.splits.on_answer(part, result) else {
                        continue;
                    };
                    let Joined {
                        export,
                        tag,
                        result,
                        unused,
                    } = joined;
                    unused.iter().for_each(|slice| self.release(slice.buffer));
                    return Some(Completion {
                        export,
                        tag,
                        result,
                    });
                }
                OWN => self.volumes.own.on_answer(result),
                export => {
                    self.volumes.answered(id);
                    return Some(Completion {
                        export: usize::try_from(export).expect("8 bits"),
                        tag,
                        result: result.map(Answer::from),
                    });
                }
            }
        }
    }

    /// Goes on with what is done about volumes. Whether anything came of it.
    pub(crate) fn run_volumes(&mut self) -> bool {
        let mut has_moved = false;
        loop {
            if self.volumes.own.is_under_way() {
                let Some(answer) = self.volumes.own.take_answer() else {
                    return has_moved;
                };
                has_moved = true;
                match answer {
                    Ok(EngineAnswer::Data(slice)) => {
                        let bytes = self.bytes(slice).to_vec();
                        self.release(slice.buffer);
                        self.volumes.on_step(Ok(&bytes));
                    }
                    Ok(_) => self.volumes.on_step(Ok(&[])),
                    Err(kind) => self.volumes.on_step(Err(kind)),
                }
            }
            let step = self.volumes.next_step(&mut self.flows);
            self.close_accounts();
            for line in self.volumes.take_lines() {
                self.log.line(line);
            }
            for (flow, limits) in self.volumes.take_limited() {
                // What is on nobody's account is nobody's to limit.
                if flow != flows::SHARED {
                    let limits = flow_limits(limits);
                    self.input(Input::SetFlow { flow, limits });
                }
            }
            let Some(kind) = step.and_then(|step| self.request_for(step)) else {
                return has_moved;
            };
            self.volumes.work.step_begun();
            self.volumes.own.begin();
            self.input(Input::Request(Request {
                id: RequestId(OWN << TAG_BITS),
                client: OURSELVES,
                flow: flows::SHARED,
                stream: StreamId(u64::MAX),
                kind,
            }));
        }
    }

    /// What waits because of a cap waits no longer: nobody is to wait for it at a stop.
    pub(crate) fn lift_caps(&mut self) {
        let capped: Vec<FlowId> = self.engine.capped_flows().collect();
        let limits = FlowLimits::DEFAULT;
        for flow in capped {
            self.input(Input::SetFlow { flow, limits });
        }
    }

    /// A step as a request; `None` while there is no memory for it.
    fn request_for(&mut self, step: OwnStep) -> Option<RequestKind> {
        Some(match step {
            OwnStep::Read(extent) => RequestKind::Read { extent },
            OwnStep::Flush => RequestKind::Flush,
            OwnStep::Zero(extent) => RequestKind::WriteZeroes {
                extent,
                fua: false,
                may_trim: true,
                fast_only: false,
            },
            OwnStep::Write {
                offset_bytes,
                bytes,
            } => {
                let extent = Extent::new(offset_bytes, bytes.len() as u64);
                let buffer = self.engine.alloc_write(FlowId::ARRAY, extent)?;
                self.bytes_mut(buffer.data).copy_from_slice(&bytes);
                RequestKind::Write {
                    extent,
                    buffer: buffer.buffer,
                    fua: true,
                }
            }
        })
    }
}

/// What a client asks for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) peer: Peer,
    pub(super) stream: StreamId,
    pub(super) kind: RequestKind,
}

/// What the engine is told of a volume's limits.
fn flow_limits(limits: Limits) -> FlowLimits {
    FlowLimits {
        weight: limits.weight * FlowLimits::WEIGHT_DEFAULT,
        iops_max: u64::from(limits.iops_max),
        bytes_per_s_max: limits.bytes_per_s_max,
    }
}

const fn extent_of(kind: &RequestKind) -> Option<Extent> {
    match kind {
        RequestKind::Read { extent }
        | RequestKind::Write { extent, .. }
        | RequestKind::Trim { extent, .. }
        | RequestKind::WriteZeroes { extent, .. }
        | RequestKind::BlockStatus { extent } => Some(*extent),
        RequestKind::Flush => None,
    }
}

/// The same, elsewhere.
const fn moved(kind: &RequestKind, extent: Extent) -> RequestKind {
    match *kind {
        RequestKind::Read { .. } => RequestKind::Read { extent },
        RequestKind::Write { buffer, fua, .. } => RequestKind::Write {
            extent,
            buffer,
            fua,
        },
        RequestKind::Flush => RequestKind::Flush,
        RequestKind::Trim { fua, .. } => RequestKind::Trim { extent, fua },
        RequestKind::WriteZeroes {
            fua,
            may_trim,
            fast_only,
            ..
        } => RequestKind::WriteZeroes {
            extent,
            fua,
            may_trim,
            fast_only,
        },
        RequestKind::BlockStatus { .. } => RequestKind::BlockStatus { extent },
    }
}
