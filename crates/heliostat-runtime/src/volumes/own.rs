//! Our own requests to the engine: one at a time, for the table and for what is zeroed.

use heliostat_engine::Answer;
use heliostat_types::{ErrorKind, Extent};

/// What is to be done next for a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// These bytes are looked at.
    Read(Extent),
    /// These are stored durably.
    Write { offset_bytes: u64, bytes: Vec<u8> },
    /// Zeros, durable with the next flush.
    Zero(Extent),
    /// All that was done before becomes durable.
    Flush,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct OwnRequests {
    is_under_way: bool,
    answer: Option<Result<Answer, ErrorKind>>,
}

impl OwnRequests {
    /// A request was handed in.
    pub(crate) fn begin(&mut self) {
        assert!(!self.is_under_way, "one at a time");
        self.is_under_way = true;
    }

    /// It was answered.
    pub(crate) fn on_answer(&mut self, result: Result<Answer, ErrorKind>) {
        assert!(self.is_under_way, "what is answered was asked");
        self.answer = Some(result);
    }

    /// Whether a request is not answered yet, or its answer was not looked at.
    pub(crate) const fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// The answer, once.
    pub(crate) fn take_answer(&mut self) -> Option<Result<Answer, ErrorKind>> {
        let answer = self.answer.take()?;
        self.is_under_way = false;
        Some(answer)
    }
}
