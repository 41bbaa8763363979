//! What a hard disk does about its read cache: reading ahead, and answering from what was read.

use heliostat_types::{Duration, Extent, Instant, OpKind};

use super::{Arm, Hdd, Queued, ReadAhead, fetch_from};
use crate::timing::transfer_time;

impl Hdd {
    /// Where the arm is at `at`, in spiral time.
    pub(super) fn head_at(&self, at: Instant) -> u64 {
        self.read_ahead
            .as_ref()
            .map_or(self.head_ns, |ahead| read_ahead_at(ahead, at))
    }

    /// The run that reading ahead has filled by `at`.
    pub(super) fn read_ahead_run(&self, ahead: &ReadAhead, at: Instant) -> Extent {
        let place_ns = read_ahead_at(ahead, at);
        // Bytes are shorter than nanoseconds: without the bounds, rounding could lose the last one.
        let end = self.geometry.byte_at(place_ns);
        Extent::from_range(ahead.run_start, end.clamp(ahead.from, ahead.limit_byte))
    }

    /// When the head, reading ahead, comes to `byte`, where it does so within a turn. A read that
    /// skips a little is passed over like this, whatever the electronics do meanwhile.
    pub(super) fn read_ahead_reaches(
        &self,
        byte: u64,
        place_ns: u64,
        arm: &Arm,
    ) -> Option<Instant> {
        let (ahead, run) = (self.read_ahead.as_ref()?, arm.run?);
        if byte < run.end() || byte >= ahead.limit_byte {
            return None;
        }
        let reached_at = ahead.since + Duration::from_ns(place_ns.checked_sub(ahead.from_ns)?);
        let turn = Duration::from_ns(self.geometry.turn_ns());
        (reached_at.saturating_since(arm.at) < turn).then_some(reached_at)
    }

    /// Ends reading ahead at `at`: what it filled is an ordinary cached run from now on.
    pub(super) fn stop_read_ahead(&mut self, at: Instant) {
        if let Some(ahead) = self.read_ahead.take() {
            self.head_ns = read_ahead_at(&ahead, at);
            let run = self.read_ahead_run(&ahead, at);
            let (kept, evicted) = self.segments.put(run);
            for request in &mut self.queue {
                let start = request.target.extent.offset();
                if kept.offset() <= start && start <= kept.end() {
                    request.target.cached_until = request.target.cached_until.max(kept.end());
                }
            }
            if evicted {
                self.look_up_cached_runs();
            }
        }
    }

    /// Takes the run that a read from `start` on extends out of the cache.
    pub(super) fn take_extendable(&mut self, start: u64) -> Option<Extent> {
        let run = self.segments.take_extendable(start);
        if run.is_some() {
            self.look_up_cached_runs();
        }
        run
    }

    /// Forgets cached runs that a write overlaps.
    pub(super) fn invalidate(&mut self, written: Extent) {
        if self.segments.invalidate(written) {
            self.look_up_cached_runs();
        }
    }

    /// Forgets what was read of bytes that are written now, also what is still being read ahead.
    pub(super) fn forget_read(&mut self, written: Extent, at: Instant) {
        let overlaps = |ahead: ReadAhead| {
            Extent::from_range(ahead.run_start, ahead.limit_byte).overlaps(written)
        };
        if self.read_ahead.is_some_and(overlaps) {
            self.stop_read_ahead(at);
        }
        self.invalidate(written);
    }

    /// After runs have left the cache: what reads in the queue still find there.
    fn look_up_cached_runs(&mut self) {
        for request in &mut self.queue {
            let start = request.target.extent.offset();
            if request.target.cached_until > start {
                request.target.cached_until = self.segments.cached_until(start);
            }
        }
    }

    /// Reads ahead of `end` as far as allowed, from `at` on; resumes where it had stopped.
    fn extend_read_ahead(&mut self, end: u64, at: Instant) {
        let Some(mut ahead) = self.read_ahead else {
            return;
        };
        let limit_byte = (end + self.params.read_ahead_max_bytes).min(self.params.size_bytes);
        if limit_byte <= ahead.limit_byte {
            return;
        }
        let stopped_ns = ahead.limit_ns;
        if read_ahead_at(&ahead, at) == stopped_ns {
            ahead.from = ahead.limit_byte;
            ahead.from_ns = stopped_ns;
            ahead.since = at + self.turn_until(stopped_ns, at);
        }
        ahead.limit_byte = limit_byte;
        ahead.limit_ns = self.geometry.spiral_ns(limit_byte);
        ahead.run_start = ahead.run_start.max(self.oldest_kept(end));
        self.read_ahead = Some(ahead);
    }

    /// The first byte that is kept of a run when `end` was last asked for.
    pub(super) fn oldest_kept(&self, end: u64) -> u64 {
        end.saturating_sub(self.params.read_ahead_max_bytes)
    }

    /// Answers a read from the cache, where all of it is there.
    pub(super) fn answer_from_cache(&mut self, request: &Queued, at: Instant) -> bool {
        let target = &request.target;
        if target.kind != OpKind::Read {
            return false;
        }
        let run = self.read_ahead.map(|ahead| self.read_ahead_run(&ahead, at));
        let is_read = fetch_from(target, run) == target.extent.end();
        if !is_read && !self.write_cache.holds(target.extent) {
            return false;
        }
        self.answer(request, run, at);
        true
    }

    /// Sends a read that is cached.
    fn answer(&mut self, request: &Queued, run: Option<Extent>, at: Instant) {
        let extent = request.target.extent;
        let ready_at = at.max(request.target.ready_at);
        let sent = transfer_time(extent.len(), self.params.link_bytes_per_s);
        self.completions.push(ready_at + sent, request.op);
        if run.is_some_and(|run| run.contains(extent)) {
            self.extend_read_ahead(extent.end(), at);
        }
    }

    /// Answers those reads in the queue that have been read meanwhile.
    pub(super) fn answer_queued_from_cache(&mut self, at: Instant) {
        let run_at = |hdd: &Self| hdd.read_ahead.map(|ahead| hdd.read_ahead_run(&ahead, at));
        let mut run = run_at(self);
        let mut index = 0;
        while index < self.queue.len() {
            let request = &self.queue[index];
            let target = &request.target;
            if target.kind == OpKind::Read && fetch_from(target, run) == target.extent.end() {
                let request = self.queue.remove(index);
                self.answer(&request, run, at);
                run = run_at(self);
            } else {
                index += 1;
            }
        }
    }

    /// Whether a queued read begins at `byte`.
    pub(super) fn is_next_queued(&self, byte: u64) -> bool {
        let mut targets = self.queue.iter().map(|request| &request.target);
        targets.any(|target| target.kind == OpKind::Read && target.extent.offset() == byte)
    }
}

/// How far reading ahead has come by `at`, in spiral time.
fn read_ahead_at(ahead: &ReadAhead, at: Instant) -> u64 {
    let streamed = at.saturating_since(ahead.since).as_ns();
    (ahead.from_ns + streamed).min(ahead.limit_ns)
}
