//! Requests in the engine: each from its admission to its one answer.
//!
//! Inside, a request is known by its place here; what the client calls it, whose account it is on
//! and when it came are kept once, whatever becomes of it on its way.

use heliostat_types::{ClientId, ErrorKind, Extent, FlowId, Instant, OpKind, RequestId, StreamId};

use crate::accounting::{Accounting, Accounts, Counted};
use crate::api::{Answer, Config, Output, Request, RequestKind};
use crate::engine::Engine;
use crate::slab::Slab;

/// A request in the engine, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AskedId(u32);

/// What is known of a request as long as it is not answered.
#[derive(Debug)]
struct Asked {
    id: RequestId,
    counted: Counted,
}

/// All requests in the engine, and the accounts of who asked.
#[derive(Debug)]
pub(crate) struct Requests {
    asked: Slab<Asked>,
    /// When the input came that is being handled, or was last.
    pub(crate) now: Instant,
    pub(crate) accounting: Accounting,
}

/// A request that was admitted.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) id: AskedId,
    pub(crate) client: ClientId,
    pub(crate) flow: FlowId,
    pub(crate) stream: StreamId,
    pub(crate) kind: RequestKind,
}

impl Requests {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            asked: Slab::new(),
            now: Instant::ZERO,
            accounting: Accounting::new(config),
        }
    }

    /// How the accounts stand.
    pub(crate) fn accounts(&self, now: Instant) -> Accounts {
        let in_flight = self.asked.iter().map(|(_, asked)| asked.counted);
        self.accounting.at(now, in_flight)
    }

    /// Everything is counted from now on.
    pub(crate) fn reset_accounts(&mut self, now: Instant) {
        let in_flight = self.asked.iter().map(|(_, asked)| asked.counted);
        self.accounting.reset(now, in_flight);
    }
}

impl Engine {
    /// A request comes in.
    pub(crate) fn admit_request(&mut self, request: Request) -> Admitted {
        let (kind, extent) = request.kind.op_and_extent();
        let (flow, at) = (request.flow, self.requests.now);
        self.requests.accounting.begin(at, flow);
        let len_bytes = extent.len();
        let counted = Counted {
            flow,
            kind,
            len_bytes,
            at,
        };
        let id = request.id;
        let index = self.requests.asked.insert(Asked { id, counted });
        Admitted {
            id: AskedId(index),
            client: request.client,
            flow,
            stream: request.stream,
            kind: request.kind,
        }
    }

    /// Answers a request.
    pub(crate) fn complete(&mut self, index: AskedId, result: Result<Answer, ErrorKind>) {
        let Asked { id, counted } = self.requests.asked.remove(index.0);
        let accounting = &mut self.requests.accounting;
        accounting.end(self.requests.now, &counted, result.is_err());
        if let Some(stage) = &mut self.stage {
            stage.on_answer(index);
        }
        self.outputs.push_back(Output::Complete { id, result });
    }
}

impl RequestKind {
    /// What is to be done, and with which bytes.
    const fn op_and_extent(&self) -> (OpKind, Extent) {
        match self {
            Self::Read { extent } => (OpKind::Read, *extent),
            Self::Write { extent, .. } => (OpKind::Write, *extent),
            Self::Flush => (OpKind::Flush, Extent::new(0, 0)),
            Self::Trim { extent, .. } => (OpKind::Trim, *extent),
            Self::WriteZeroes { extent, .. } => (OpKind::WriteZeroes, *extent),
            Self::BlockStatus { extent } => (OpKind::BlockStatus, *extent),
        }
    }
}
