//! A client that plays a block trace.

use heliostat_types::{Extent, Instant, OpKind};

use crate::client::{Ask, Next, OPEN_IN_FLIGHT_MAX};
use crate::trace::{TraceError, TraceOp, TraceReader};

/// The requests of a trace, at their times.
#[derive(Debug)]
pub(crate) struct Replay {
    trace: TraceReader,
    region: Extent,
    /// The next request, if it was read already.
    ahead: Option<TraceOp>,
    has_ended: bool,
    error: Option<TraceError>,
    /// Requests that had to wait because too many were in flight.
    pub(crate) late: u64,
}

impl Replay {
    pub(crate) const fn new(trace: TraceReader, region: Extent) -> Self {
        Self {
            trace,
            region,
            ahead: None,
            has_ended: false,
            error: None,
            late: 0,
        }
    }

    pub(crate) fn next(&mut self, now: Instant, started_at: Instant, in_flight: u32) -> Next {
        let Some(op) = self.peek() else {
            return Next::Done;
        };
        let due = started_at + op.at;
        if due > now {
            return Next::WaitUntil(due);
        }
        if in_flight >= OPEN_IN_FLIGHT_MAX {
            return Next::WaitForAnswer;
        }
        self.ahead = None;
        self.late += u64::from(due < now);
        let ask = match op.kind {
            OpKind::Read => Ask::Read(self.wrapped(op.extent)),
            OpKind::Write => Ask::Write(self.wrapped(op.extent)),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => Ask::Flush,
        };
        Next::ask(ask, 0, due)
    }

    /// The next request that is played.
    fn peek(&mut self) -> Option<TraceOp> {
        while self.ahead.is_none() && !self.has_ended {
            match self.trace.next_op() {
                // Trims are not simulated; they are few in the traces that are published.
                Ok(Some(op)) if op.kind == OpKind::Trim => {}
                Ok(Some(op)) if op.extent.len() > self.region.len() => {
                    self.fail(format!("a request larger than the region: {}", op.extent));
                }
                Ok(Some(op)) => self.ahead = Some(op),
                Ok(None) => self.has_ended = true,
                Err(error) => {
                    self.error = Some(error);
                    self.has_ended = true;
                }
            }
        }
        self.ahead
    }

    fn fail(&mut self, text: String) {
        self.error = Some(self.trace.wrong(text));
        self.has_ended = true;
    }

    /// The extent inside the region: its offset modulo the region, and where it would pass the
    /// region's end, moved down to end there.
    fn wrapped(&self, extent: Extent) -> Extent {
        let last = self.region.len() - extent.len();
        let at = (extent.offset() % self.region.len()).min(last);
        Extent::new(self.region.offset() + at, extent.len())
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.has_ended && self.ahead.is_none()
    }

    pub(crate) const fn error(&self) -> Option<&TraceError> {
        self.error.as_ref()
    }
}
