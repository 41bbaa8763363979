//! A hard disk: one arm, platters that turn, tracks that hold more bytes the further out they lie,
//! a cache that reads ahead, and a queue that the drive serves in the order that suits its arm.
//!
//! Where the platter stands is a function of time alone, so a read waits for its sector exactly as
//! long as it takes to come round; nothing is drawn at random but where the platter stood at the
//! origin of time. See docs/models/hdd.md for the formulas.
//!
//! Not modelled: a write cache (writes are answered from the platter), shingled tracks, head and
//! track skew apart from the sustained rate, reallocated sectors, recalibration.

mod geometry;
mod params;
mod seek;
mod segments;

use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, Prng};

use crate::api::{DeviceModel, DeviceSpec, assert_size};
use crate::timing::{Gate, TimeQueue, earlier, transfer_time};
use geometry::Geometry;
pub use params::HddParams;
use seek::SeekCurve;
use segments::Segments;

/// A hard disk.
#[derive(Clone, Debug)]
pub struct Hdd {
    params: HddParams,
    spec: DeviceSpec,
    geometry: Geometry,
    seek: SeekCurve,
    /// Spiral time under the head at the origin of time, had the head stood on the first track.
    phase_ns: u64,
    /// Waiting for the arm, oldest first.
    queue: Vec<Queued>,
    activity: Activity,
    /// Where the arm stands, in spiral time, while it does not read ahead.
    head_ns: u64,
    /// Closed runs; the one being read is in `activity` or `read_ahead`.
    segments: Segments,
    read_ahead: Option<ReadAhead>,
    write_gate: Gate,
    completions: TimeQueue<LegOpId>,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    op: LegOpId,
    kind: OpKind,
    extent: Extent,
    /// Spiral time of the extent's start.
    place_ns: u64,
    arrived_at: Instant,
    /// When the cap on its direction has let it through; it does not end before.
    let_through_at: Instant,
}

/// How a request would be served if the arm turned to it.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Until when the arm does what it did before.
    leaves_at: Instant,
    /// Spiral time of the first byte to transfer: behind what is cached.
    from_ns: u64,
    /// When that byte is under the head. It may be over already: read ahead, but for rounding.
    begins_at: Instant,
    /// Whether the head gets there by reading ahead.
    is_read_ahead: bool,
}

/// What the arm is held for.
#[derive(Clone, Copy, Debug)]
enum Activity {
    /// Nothing: it may be reading ahead, and turns to the next operation at once.
    Free,
    /// Positioning and transfer of an operation.
    Serving {
        request: Queued,
        /// The cached run that a read extends, itself included.
        run: Extent,
        /// Whether there was something to extend.
        continues: bool,
        /// When the head is behind the last byte.
        transferred_at: Instant,
        /// When the operation ends: the electronics may be slower.
        ends_at: Instant,
    },
    /// Reading ahead although others wait.
    FinishingReadAhead { until: Instant },
}

/// The head streams on behind a read, into the run that ends where it reads.
#[derive(Clone, Copy, Debug)]
struct ReadAhead {
    /// Where the run begins.
    run_start: u64,
    /// From where on it streams: byte, its spiral time, and the moment. The moment may lie ahead,
    /// while the platter turns to where it stopped before.
    from: u64,
    from_ns: u64,
    since: Instant,
    /// Where it stops.
    limit_byte: u64,
}

impl Hdd {
    /// A drive that turns, with nothing in flight and nothing cached.
    ///
    /// # Panics
    /// Where the size is no whole number of blocks, the inner rate is zero or above the outer one,
    /// or a mean seek is not between the shortest and the longest.
    #[must_use]
    pub fn new(params: HddParams, prng: &mut dyn Prng) -> Self {
        assert_size(params.size_bytes, params.logical_block_bytes);
        let turn_ns = 60_000_000_000 / u64::from(params.spindle_rpm);
        let geometry = Geometry::new(
            params.size_bytes,
            turn_ns,
            params.outer_bytes_per_s,
            params.inner_bytes_per_s,
        );
        Self {
            params,
            spec: DeviceSpec {
                size_bytes: params.size_bytes,
                logical_block_bytes: params.logical_block_bytes,
                physical_block_bytes: params.physical_block_bytes,
                rotational: true,
                queue_depth: params.queue_depth,
                optimal_io_bytes: 0,
                volatile_cache: false,
            },
            geometry,
            seek: SeekCurve::new(
                params.seek_track_to_track,
                params.seek_mean,
                params.seek_full,
            )
            .expect("a longer seek takes no less time"),
            phase_ns: prng.below(turn_ns),
            queue: Vec::new(),
            activity: Activity::Free,
            head_ns: 0,
            segments: Segments::new(params.segment_count as usize, params.read_ahead_max_bytes),
            read_ahead: None,
            write_gate: Gate::new(params.write_bytes_per_s_max),
            completions: TimeQueue::new(),
        }
    }

    /// How long the platter turns from `at` on until a place is under the head.
    fn turn_until(&self, place_ns: u64, at: Instant) -> Duration {
        let turn_ns = self.geometry.turn_ns();
        let angle_ns = (at.as_ns() + self.phase_ns) % turn_ns;
        Duration::from_ns((place_ns % turn_ns + turn_ns - angle_ns) % turn_ns)
    }

    /// Where the arm is at `at`, in spiral time.
    fn head_at(&self, at: Instant) -> u64 {
        match &self.read_ahead {
            Some(ahead) => self.read_ahead_at(ahead, at),
            None => self.head_ns,
        }
    }

    /// How far reading ahead has come by `at`, in spiral time.
    fn read_ahead_at(&self, ahead: &ReadAhead, at: Instant) -> u64 {
        let streamed = at.saturating_since(ahead.since).as_ns();
        let limit_ns = self.geometry.spiral_ns(ahead.limit_byte);
        (ahead.from_ns + streamed).min(limit_ns)
    }

    /// The run that reading ahead has filled by `at`.
    fn read_ahead_run(&self, ahead: &ReadAhead, at: Instant) -> Extent {
        let place_ns = self.read_ahead_at(ahead, at);
        // Bytes are shorter than nanoseconds: without the bounds, rounding could lose the last one.
        let end = self.geometry.byte_at(place_ns);
        Extent::from_range(ahead.run_start, end.clamp(ahead.from, ahead.limit_byte))
    }

    /// When the head, reading ahead, comes to `byte`, where it does so within a turn after `at`. A
    /// read that skips a little is passed over like this, whatever the electronics do meanwhile.
    fn read_ahead_reaches(&self, byte: u64, place_ns: u64, at: Instant) -> Option<Instant> {
        let ahead = self.read_ahead.as_ref()?;
        let is_ahead = self.read_ahead_run(ahead, at).end() <= byte && byte < ahead.limit_byte;
        let reached_at = ahead.since + Duration::from_ns(place_ns.checked_sub(ahead.from_ns)?);
        let turn = Duration::from_ns(self.geometry.turn_ns());
        (is_ahead && reached_at.saturating_since(at) < turn).then_some(reached_at)
    }

    /// Ends reading ahead at `at`: what it filled is an ordinary cached run from now on.
    fn stop_read_ahead(&mut self, at: Instant) {
        if let Some(ahead) = self.read_ahead {
            self.head_ns = self.read_ahead_at(&ahead, at);
            self.segments.put(self.read_ahead_run(&ahead, at));
            self.read_ahead = None;
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
        let stopped_ns = self.geometry.spiral_ns(ahead.limit_byte);
        if self.read_ahead_at(&ahead, at) == stopped_ns {
            ahead.from = ahead.limit_byte;
            ahead.from_ns = stopped_ns;
            ahead.since = at + self.turn_until(stopped_ns, at);
        }
        ahead.limit_byte = limit_byte;
        ahead.run_start = ahead.run_start.max(self.oldest_kept(end));
        self.read_ahead = Some(ahead);
    }

    /// The first byte that is kept of a run when `end` was last asked for.
    fn oldest_kept(&self, end: u64) -> u64 {
        end.saturating_sub(self.params.read_ahead_max_bytes)
    }

    /// From where on a read must be fetched from the platter: behind what is cached.
    fn fetch_from(&self, extent: Extent, at: Instant) -> u64 {
        let mut from = self.segments.cached_until(extent.offset());
        if let Some(ahead) = &self.read_ahead {
            let run = self.read_ahead_run(ahead, at);
            if run.offset() <= extent.offset() && extent.offset() <= run.end() {
                from = from.max(run.end());
            }
        }
        from.min(extent.end())
    }

    /// Answers a read from the cache, where all of it is there.
    fn answer_from_cache(&mut self, request: &Queued, at: Instant) -> bool {
        if request.kind != OpKind::Read
            || self.fetch_from(request.extent, at) < request.extent.end()
        {
            return false;
        }
        let ready_at = at.max(request.arrived_at + self.params.command_time);
        let sent = transfer_time(request.extent.len(), self.params.link_bytes_per_s);
        self.completions.push(ready_at + sent, request.op);
        let continues = self.read_ahead.as_ref().is_some_and(|ahead| {
            let run = self.read_ahead_run(ahead, at);
            run.contains(request.extent)
        });
        if continues {
            self.extend_read_ahead(request.extent.end(), at);
        }
        true
    }

    /// How `request` would be served if the arm turned to it at `at`.
    fn plan(&self, request: &Queued, at: Instant) -> Plan {
        let ready_at = at.max(request.arrived_at + self.params.command_time);
        let (mut from, mut from_ns) = (request.extent.offset(), request.place_ns);
        if request.kind == OpKind::Read {
            let fetched_from = self.fetch_from(request.extent, at);
            if fetched_from > from {
                from = fetched_from;
                from_ns = self.geometry.spiral_ns(from);
            }
            if let Some(begins_at) = self.read_ahead_reaches(from, from_ns, at) {
                return Plan {
                    leaves_at: at,
                    from_ns,
                    begins_at,
                    is_read_ahead: true,
                };
            }
        }
        let arrives_at = ready_at + self.way(request.kind, self.head_at(ready_at), from_ns);
        Plan {
            leaves_at: ready_at,
            from_ns,
            begins_at: arrives_at + self.turn_until(from_ns, arrives_at),
            is_read_ahead: false,
        }
    }

    /// How long the arm takes from one place to the track of another.
    fn way(&self, kind: OpKind, from_ns: u64, to_ns: u64) -> Duration {
        let turn_ns = self.geometry.turn_ns();
        let is_next = to_ns >= from_ns && to_ns - from_ns < turn_ns;
        if is_next || from_ns / turn_ns == to_ns / turn_ns {
            // The spiral leads there within a turn, or it is the same track.
            return Duration::ZERO;
        }
        let seek = self.seek.time(self.geometry.distance(from_ns, to_ns));
        match kind {
            OpKind::Write | OpKind::WriteZeroes => seek + self.params.write_settle,
            OpKind::Read | OpKind::Flush | OpKind::Trim | OpKind::BlockStatus => seek,
        }
    }

    /// Turns the arm to the queued operation that can begin soonest, age counted in.
    fn choose(&mut self, at: Instant) {
        self.answer_queued_from_cache(at);
        let looked_at = self.queue.len().min(self.params.queue_depth as usize);
        let best = (0..looked_at).min_by_key(|&index| {
            let request = &self.queue[index];
            let positioning = self.plan(request, at).begins_at.saturating_since(at);
            let age = at.saturating_since(request.arrived_at);
            let forgiven = age / 1000 * u64::from(self.params.ageing_permille);
            i128::from(positioning.as_ns()) - i128::from(forgiven.as_ns())
        });
        match best {
            Some(index) => self.serve(index, at),
            None => self.activity = Activity::Free,
        }
    }

    fn answer_queued_from_cache(&mut self, at: Instant) {
        let mut index = 0;
        while index < self.queue.len() {
            let request = self.queue[index];
            if self.answer_from_cache(&request, at) {
                self.queue.remove(index);
            } else {
                index += 1;
            }
        }
    }

    /// Begins the queued operation at `index`.
    fn serve(&mut self, index: usize, at: Instant) {
        let request = self.queue[index];
        let plan = self.plan(&request, at);
        self.queue.remove(index);
        let extent = request.extent;
        let run_start = if plan.is_read_ahead {
            self.read_ahead.take().map(|ahead| ahead.run_start)
        } else {
            self.stop_read_ahead(plan.leaves_at);
            let extended = if request.kind == OpKind::Read {
                self.segments.take_extendable(extent.offset())
            } else {
                None
            };
            extended.map(Extent::offset)
        };
        let transfer_ns = self.geometry.spiral_ns(extent.end()) - plan.from_ns;
        let transferred_at = plan.begins_at + Duration::from_ns(transfer_ns);
        let ready_at = request.arrived_at + self.params.command_time;
        self.activity = Activity::Serving {
            request,
            run: Extent::from_range(run_start.unwrap_or_else(|| extent.offset()), extent.end()),
            continues: run_start.is_some(),
            transferred_at,
            ends_at: transferred_at.max(ready_at).max(at),
        };
    }

    /// A read is done at `at`: the head streams on.
    fn finish_read(&mut self, run: Extent, continues: bool, transferred_at: Instant, at: Instant) {
        let end = run.end();
        let end_ns = self.geometry.spiral_ns(end);
        let size_bytes = self.params.size_bytes;
        self.read_ahead = Some(ReadAhead {
            run_start: run.offset().max(self.oldest_kept(end)),
            from: end,
            from_ns: end_ns,
            since: transferred_at,
            limit_byte: (end + self.params.read_ahead_max_bytes).min(size_bytes),
        });
        if continues && !self.queue.is_empty() && !self.is_next_queued(end) {
            let stop = (end + self.params.read_ahead_min_bytes).min(size_bytes);
            let way = Duration::from_ns(self.geometry.spiral_ns(stop) - end_ns);
            let until = (transferred_at + way).max(at);
            self.activity = Activity::FinishingReadAhead { until };
        } else {
            self.choose(at);
        }
    }

    /// A write is done at `at`.
    fn finish_write(&mut self, written: Extent, at: Instant) {
        self.head_ns = self.geometry.spiral_ns(written.end());
        self.segments.invalidate(written);
        self.choose(at);
    }

    /// Whether a queued read begins at `byte`.
    fn is_next_queued(&self, byte: u64) -> bool {
        let mut queued = self.queue.iter();
        queued.any(|request| request.kind == OpKind::Read && request.extent.offset() == byte)
    }

    /// Does all that happens up to `now`.
    fn advance(&mut self, now: Instant) {
        loop {
            match self.activity {
                Activity::Serving {
                    request,
                    run,
                    continues,
                    transferred_at,
                    ends_at,
                } if ends_at <= now => {
                    self.activity = Activity::Free;
                    let ended_at = ends_at.max(request.let_through_at);
                    self.completions.push(ended_at, request.op);
                    if request.kind == OpKind::Read {
                        self.finish_read(run, continues, transferred_at, ends_at);
                    } else {
                        self.finish_write(request.extent, ends_at);
                    }
                }
                Activity::FinishingReadAhead { until } if until <= now => self.choose(until),
                Activity::Free | Activity::Serving { .. } | Activity::FinishingReadAhead { .. } => {
                    return;
                }
            }
        }
    }
}

impl DeviceModel for Hdd {
    fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    fn submit(
        &mut self,
        now: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
        _prng: &mut dyn Prng,
    ) {
        self.advance(now);
        let request = Queued {
            op,
            kind,
            extent,
            place_ns: self.geometry.spiral_ns(extent.offset()),
            arrived_at: now,
            let_through_at: if kind == OpKind::Write {
                self.write_gate.pass(now, extent.len())
            } else {
                now
            },
        };
        match kind {
            OpKind::Read | OpKind::Write | OpKind::WriteZeroes => {}
            // Without a write cache a flush has nothing to do, and a disk has nothing to trim.
            OpKind::Flush | OpKind::Trim | OpKind::BlockStatus => {
                self.completions.push(now + self.params.command_time, op);
                return;
            }
        }
        if self.answer_from_cache(&request, now) {
            return;
        }
        self.queue.push(request);
        if matches!(self.activity, Activity::Free) {
            self.choose(now);
        }
    }

    fn next_event_at(&self) -> Option<Instant> {
        let arm = match self.activity {
            Activity::Serving { ends_at, .. } => Some(ends_at),
            Activity::FinishingReadAhead { until } => Some(until),
            Activity::Free => None,
        };
        earlier(arm, self.completions.next_at())
    }

    fn poll_completion(&mut self, now: Instant) -> Option<(LegOpId, Result<(), ErrorKind>)> {
        self.advance(now);
        let (_, op) = self.completions.pop_due(now)?;
        Some((op, Ok(())))
    }

    fn clone_box(&self) -> Box<dyn DeviceModel> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
