//! The stage in front of a leg: which operations wait, and which one goes next.
//!
//! Today there is one order, `none`: strict first in, first out. It decides order and nothing else;
//! how many operations and bytes a leg may have at once is the leg's business.

use std::collections::VecDeque;

/// Operations that wait for their turn at one leg, by index.
#[derive(Debug, Default)]
pub(crate) struct LegQueue {
    waiting: VecDeque<u32>,
}

impl LegQueue {
    pub(crate) fn push(&mut self, op: u32) {
        self.waiting.push_back(op);
    }

    /// The operation that goes next.
    pub(crate) fn peek(&self) -> Option<u32> {
        self.waiting.front().copied()
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.waiting.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes out operations that nobody needs any more, told by rising index.
    pub(crate) fn remove(&mut self, ops: &[u32]) {
        self.waiting.retain(|op| ops.binary_search(op).is_err());
    }
}
