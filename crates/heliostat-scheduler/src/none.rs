//! `none`: strictly in order of arrival, whatever it is and whoever asks.

use std::collections::VecDeque;

use crate::job::Job;

/// The jobs that wait, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    waiting: VecDeque<Job>,
}

impl Fifo {
    pub(crate) fn insert(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    pub(crate) fn next(&self) -> Option<Job> {
        self.waiting.front().copied()
    }

    pub(crate) fn take(&mut self) -> Option<Job> {
        self.waiting.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Job) -> bool) {
        self.waiting.retain(is_kept);
    }

    pub(crate) fn take_on(&mut self, job: &Job) {
        let mut waiting = self.waiting.iter_mut();
        if let Some(before) = waiting.find(|before| before.op == job.op) {
            *before = *job;
        }
    }

    pub(crate) fn drain(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.waiting).into()
    }
}
