//! A hard disk: one arm, platters that turn, tracks that hold more bytes the further out they lie,
//! a cache that reads ahead, and a queue that the drive serves in the order that suits its arm.
//!
//! Where the platter stands is a function of time alone, so a read waits for its sector exactly as
//! long as it takes to come round; nothing is drawn at random but where the platter stood at the
//! origin of time. See docs/models/hdd.md for the formulas.
//!
//! Writes are answered from a volatile cache and reach the platter in the background, between
//! reads; a shingled disk has a media cache besides, a log for writes that come in no order.
//!
//! Not modelled: head and track skew apart from the sustained rate, reallocated sectors,
//! recalibration, and that data in the media cache is read from there.

mod geometry;
mod media_cache;
mod params;
mod reading;
mod seek;
mod segments;
mod write_cache;
mod writing;

use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, Prng};

use crate::api::{DeviceModel, DeviceSpec, assert_size};
use crate::timing::{Gate, TimeQueue, earlier};
use geometry::Geometry;
use media_cache::{MediaCache, log_bytes};
pub use params::HddParams;
use seek::SeekCurve;
use segments::Segments;
use write_cache::WriteCache;

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
    /// When the arm was last set free.
    free_since: Instant,
    /// Where the arm stands, in spiral time, while it does not read ahead.
    head_ns: u64,
    /// Closed runs; the one being read is in `activity` or `read_ahead`.
    segments: Segments,
    read_ahead: Option<ReadAhead>,
    write_cache: WriteCache<Target>,
    media_cache: MediaCache,
    /// Operations served since the last band was cleaned while writes waited for that.
    served_since_cleaning: u32,
    /// The way of written bytes into the cache.
    link_gate: Gate,
    /// The cap on writes.
    write_gate: Gate,
    completions: TimeQueue<LegOpId>,
}

/// What the arm may turn to.
#[derive(Clone, Copy, Debug)]
struct Target {
    kind: OpKind,
    extent: Extent,
    /// Spiral time of the extent's start, and its track.
    place_ns: u64,
    track: u64,
    arrived_at: Instant,
    /// Not before this does the arm turn to it.
    ready_at: Instant,
    /// Whether it is a write that goes to the media cache.
    in_log: bool,
    /// For a read: the end of the cached run that holds its start, or its start.
    cached_until: u64,
}

/// An operation of the host that waits for the arm.
#[derive(Clone, Copy, Debug)]
struct Queued {
    op: LegOpId,
    target: Target,
    /// When the cap on its direction has let it through; it does not end before.
    let_through_at: Instant,
}

/// The arm at a moment at which it may turn to something.
#[derive(Clone, Copy, Debug)]
struct Arm {
    at: Instant,
    /// Where it is.
    head_ns: u64,
    /// What reading ahead has filled.
    run: Option<Extent>,
}

/// How a target would be served if the arm turned to it.
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
    /// Whether it is a write that goes to the media cache.
    in_log: bool,
}

/// What is chosen: by its index, in the queue or among the runs of the write cache.
#[derive(Clone, Copy, Debug)]
enum Pick {
    Queued(usize),
    Dirty(usize),
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
        in_log: bool,
    },
    /// Writing a run of the write cache.
    Draining {
        extent: Extent,
        ends_at: Instant,
        in_log: bool,
    },
    /// Reading ahead although others wait.
    FinishingReadAhead { until: Instant },
    /// Reading a band and writing it anew, with what the media cache has for it.
    Cleaning { until: Instant },
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
    /// Where it stops, and the spiral time of that.
    limit_byte: u64,
    limit_ns: u64,
}

/// How long a shingled disk is idle before it cleans its media cache. An assumption: long enough
/// that it does not happen between the requests of one burst.
const CLEANING_DELAY: Duration = Duration::from_secs(1);

/// How many operations are served between two bands while writes wait for room in the media cache:
/// reads stay bearable, and writes get somewhere. An assumption.
const SERVED_PER_CLEANING: u32 = 8;

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
        let seek = SeekCurve::new(
            params.seek_track_to_track,
            params.seek_mean,
            params.seek_full,
        );
        let write_cache = WriteCache::new(params.volatile_bytes());
        Self {
            params,
            spec: DeviceSpec {
                size_bytes: params.size_bytes,
                logical_block_bytes: params.logical_block_bytes,
                physical_block_bytes: params.physical_block_bytes,
                rotational: true,
                queue_depth: params.queue_depth,
                optimal_io_bytes: 0,
                volatile_cache: write_cache.is_on(),
            },
            geometry,
            seek: seek.expect("a longer seek takes no less time"),
            phase_ns: prng.below(turn_ns),
            queue: Vec::new(),
            activity: Activity::Free,
            free_since: Instant::ZERO,
            head_ns: 0,
            segments: Segments::new(params.segment_count as usize, params.read_ahead_max_bytes),
            read_ahead: None,
            write_cache,
            media_cache: MediaCache::new(params.media_cache_bytes, params.band_bytes),
            served_since_cleaning: 0,
            link_gate: Gate::new(params.link_bytes_per_s),
            write_gate: Gate::new(params.write_bytes_per_s_max),
            completions: TimeQueue::new(),
        }
    }

    /// How long the platter turns from `at` on until a place is under the head.
    fn turn_until(&self, place_ns: u64, at: Instant) -> Duration {
        let turn_ns = self.geometry.turn_ns();
        let place_angle_ns = place_ns % turn_ns;
        let angle_ns = (at.as_ns() + self.phase_ns) % turn_ns;
        Duration::from_ns(if place_angle_ns >= angle_ns {
            place_angle_ns - angle_ns
        } else {
            place_angle_ns + turn_ns - angle_ns
        })
    }

    /// How the arm gets to an extent that arrived at `now` and is to be served from `ready_at` on.
    fn target(&self, kind: OpKind, extent: Extent, now: Instant, ready_at: Instant) -> Target {
        let place_ns = self.geometry.spiral_ns(extent.offset());
        Target {
            kind,
            extent,
            place_ns,
            track: place_ns / self.geometry.turn_ns(),
            arrived_at: now,
            ready_at,
            in_log: false,
            cached_until: self.segments.cached_until(extent.offset()),
        }
    }

    /// Where the arm is and what it has read ahead at `at`.
    fn arm_at(&self, at: Instant) -> Arm {
        Arm {
            at,
            head_ns: self.head_at(at),
            run: self.read_ahead.map(|ahead| self.read_ahead_run(&ahead, at)),
        }
    }

    /// How `target` would be served if the arm turned to it; `None` where the way there alone takes
    /// `too_long`.
    fn plan(&self, target: &Target, arm: &Arm, too_long: i128) -> Option<Plan> {
        let leaves_at = arm.at.max(target.ready_at);
        let (mut from_ns, mut track) = (target.place_ns, target.track);
        if target.kind == OpKind::Read {
            let mut from = target.extent.offset();
            let fetched_from = fetch_from(target, arm.run);
            if fetched_from > from {
                from = fetched_from;
                from_ns = self.geometry.spiral_ns(from);
                track = from_ns / self.geometry.turn_ns();
            }
            if let Some(begins_at) = self.read_ahead_reaches(from, from_ns, arm) {
                return Some(Plan {
                    leaves_at: arm.at,
                    from_ns,
                    begins_at,
                    is_read_ahead: true,
                    in_log: false,
                });
            }
        }
        if target.in_log {
            from_ns = self.geometry.spiral_ns(self.log_byte());
            track = from_ns / self.geometry.turn_ns();
        }
        let head_ns = if leaves_at == arm.at {
            arm.head_ns
        } else {
            self.head_at(leaves_at)
        };
        let arrives_at = leaves_at + self.way(target.kind, head_ns, from_ns, track);
        if i128::from((arrives_at - arm.at).as_ns()) >= too_long {
            return None;
        }
        Some(Plan {
            leaves_at,
            from_ns,
            begins_at: arrives_at + self.turn_until(from_ns, arrives_at),
            is_read_ahead: false,
            in_log: target.in_log,
        })
    }

    /// How long the arm takes from one place to another, which lies on `to_track`.
    fn way(&self, kind: OpKind, from_ns: u64, to_ns: u64, to_track: u64) -> Duration {
        let turn_ns = self.geometry.turn_ns();
        let is_next = to_ns >= from_ns && to_ns - from_ns < turn_ns;
        if is_next || from_ns / turn_ns == to_track {
            // The spiral leads there within a turn, or it is the same track.
            return Duration::ZERO;
        }
        let seek = self.seek.time(self.geometry.distance(from_ns, to_ns));
        match kind {
            OpKind::Write | OpKind::WriteZeroes => seek + self.params.write_settle,
            OpKind::Read | OpKind::Flush | OpKind::Trim | OpKind::BlockStatus => seek,
        }
    }

    /// Turns the arm to what can begin soonest, age counted in.
    fn choose(&mut self, at: Instant) {
        self.answer_queued_from_cache(at);
        let arm = self.arm_at(at);
        let depth = self.params.queue_depth as usize;
        let mut best: Option<(i128, Pick, Plan)> = None;
        let mut consider = |target: &Target, handicap: Duration, pick: Pick| {
            let age = at.saturating_since(target.arrived_at);
            let forgiven = age / 1000 * u64::from(self.params.ageing_permille);
            let worth = i128::from(handicap.as_ns()) - i128::from(forgiven.as_ns());
            let least = best.map_or(i128::MAX, |(least, ..)| least);
            let Some(plan) = self.plan(target, &arm, least.saturating_sub(worth)) else {
                return;
            };
            let positioning = plan.begins_at.saturating_since(at);
            let key = i128::from(positioning.as_ns()) + worth;
            if key < least {
                best = Some((key, pick, plan));
            }
        };
        let mut blocked = false;
        for (index, request) in self.queue.iter().take(depth).enumerate() {
            if self.is_blocked(&request.target) {
                blocked = true;
            } else {
                consider(&request.target, Duration::ZERO, Pick::Queued(index));
            }
        }
        // Nobody waits for a run to be written while there is room: what is asked for goes first,
        // until a run is older by what the longest way takes.
        let handicap = if self.queue.is_empty() || self.write_cache.is_pressed() {
            Duration::ZERO
        } else {
            self.params.seek_full + Duration::from_ns(self.geometry.turn_ns())
        };
        for (index, run) in self.write_cache.dirty().iter().take(depth).enumerate() {
            if self.is_blocked(&run.target) {
                blocked = true;
            } else {
                consider(&run.target, handicap, Pick::Dirty(index));
            }
        }
        let best = best.map(|(_, pick, plan)| (pick, plan));
        self.turn_to(best, blocked, at);
    }

    /// Does what was chosen, or cleans a band where writes are blocked.
    fn turn_to(&mut self, best: Option<(Pick, Plan)>, blocked: bool, at: Instant) {
        match best {
            Some(_) if blocked && self.served_since_cleaning >= SERVED_PER_CLEANING => {
                self.clean(at);
            }
            Some((Pick::Queued(index), plan)) => self.serve(index, plan, at),
            Some((Pick::Dirty(index), plan)) => self.drain(index, plan, at),
            None if blocked => self.clean(at),
            None => {
                self.activity = Activity::Free;
                self.free_since = at;
            }
        }
    }

    /// Begins the queued operation at `index`.
    fn serve(&mut self, index: usize, plan: Plan, at: Instant) {
        self.served_since_cleaning = self.served_since_cleaning.saturating_add(1);
        let request = self.queue.remove(index);
        let extent = request.target.extent;
        let run_start = if plan.is_read_ahead {
            self.read_ahead.take().map(|ahead| ahead.run_start)
        } else {
            self.stop_read_ahead(plan.leaves_at);
            let extended = if request.target.kind == OpKind::Read {
                self.take_extendable(extent.offset())
            } else {
                None
            };
            extended.map(Extent::offset)
        };
        let transferred_at = plan.begins_at + self.transfer(extent, &plan);
        self.activity = Activity::Serving {
            request,
            run: Extent::from_range(run_start.unwrap_or_else(|| extent.offset()), extent.end()),
            continues: run_start.is_some(),
            transferred_at,
            ends_at: transferred_at.max(request.target.ready_at).max(at),
            in_log: plan.in_log,
        };
    }

    /// Begins to write a run of the write cache.
    fn drain(&mut self, index: usize, plan: Plan, at: Instant) {
        self.served_since_cleaning = self.served_since_cleaning.saturating_add(1);
        self.stop_read_ahead(plan.leaves_at);
        let run = self.write_cache.start_draining(index);
        let transferred_at = plan.begins_at + self.transfer(run.extent, &plan);
        self.activity = Activity::Draining {
            extent: run.extent,
            ends_at: transferred_at.max(at),
            in_log: plan.in_log,
        };
    }

    /// How long the bytes of an extent pass under the head, from where the plan begins.
    fn transfer(&self, extent: Extent, plan: &Plan) -> Duration {
        let end_ns = if plan.in_log {
            let end = (self.log_byte() + log_bytes(extent)).min(self.params.size_bytes);
            self.geometry.spiral_ns(end)
        } else {
            self.geometry.spiral_ns(extent.end())
        };
        Duration::from_ns(end_ns.saturating_sub(plan.from_ns))
    }

    /// A read is done at `at`: the head streams on.
    fn finish_read(&mut self, run: Extent, continues: bool, transferred_at: Instant, at: Instant) {
        let end = run.end();
        let end_ns = self.geometry.spiral_ns(end);
        let size_bytes = self.params.size_bytes;
        let limit_byte = (end + self.params.read_ahead_max_bytes).min(size_bytes);
        self.read_ahead = Some(ReadAhead {
            run_start: run.offset().max(self.oldest_kept(end)),
            from: end,
            from_ns: end_ns,
            since: transferred_at,
            limit_byte,
            limit_ns: self.geometry.spiral_ns(limit_byte),
        });
        if continues && !self.queue.is_empty() && !self.is_next_queued(end) {
            let stop = (end + self.params.read_ahead_min_bytes).min(limit_byte);
            let way = Duration::from_ns(self.geometry.spiral_ns(stop) - end_ns);
            let until = (transferred_at + way).max(at);
            self.activity = Activity::FinishingReadAhead { until };
        } else {
            self.choose(at);
        }
    }

    /// A write is on the platter at `at`.
    fn finish_write(&mut self, written: Extent, in_log: bool, at: Instant) {
        let end = if in_log {
            (self.log_byte() + log_bytes(written)).min(self.params.size_bytes)
        } else {
            written.end()
        };
        self.head_ns = self.geometry.spiral_ns(end);
        if in_log {
            self.media_cache.append(written);
        }
        self.invalidate(written);
        self.choose(at);
    }

    /// A run of the write cache is on the platter: there is room for others, and flushes may be
    /// done.
    fn finish_drain(&mut self, written: Extent, in_log: bool, at: Instant) {
        self.write_cache.finish_draining();
        while let Some((op, extent)) = self.write_cache.next_with_room() {
            self.admit(op, extent, at, at);
        }
        while let Some(op) = self.write_cache.next_flushed() {
            self.completions.push(at, op);
        }
        self.finish_write(written, in_log, at);
    }

    /// Takes a write into the write cache, as soon as its bytes are over the link.
    fn admit(&mut self, op: LegOpId, extent: Extent, at: Instant, let_through_at: Instant) {
        let received_at = self.link_gate.pass(at, extent.len());
        self.completions.push(received_at.max(let_through_at), op);
        self.forget_read(extent, at);
        let in_log = self.media_cache.takes(extent);
        let Self {
            write_cache,
            geometry,
            ..
        } = self;
        write_cache.admit(extent, |run, before| {
            let place_ns = geometry.spiral_ns(run.offset());
            Target {
                kind: OpKind::Write,
                extent: run,
                place_ns,
                track: place_ns / geometry.turn_ns(),
                arrived_at: before.map_or(at, |target| target.arrived_at),
                ready_at: before.map_or(received_at, |target| target.ready_at),
                in_log: before.map_or(in_log, |target| target.in_log),
                cached_until: run.offset(),
            }
        });
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
                    in_log,
                } if ends_at <= now => {
                    self.activity = Activity::Free;
                    let ended_at = ends_at.max(request.let_through_at);
                    self.completions.push(ended_at, request.op);
                    if request.target.kind == OpKind::Read {
                        self.finish_read(run, continues, transferred_at, ends_at);
                    } else {
                        self.finish_write(request.target.extent, in_log, ends_at);
                    }
                }
                Activity::Draining {
                    extent,
                    ends_at,
                    in_log,
                } if ends_at <= now => {
                    self.activity = Activity::Free;
                    self.finish_drain(extent, in_log, ends_at);
                }
                Activity::FinishingReadAhead { until } if until <= now => self.choose(until),
                Activity::Cleaning { until } if until <= now => self.finish_cleaning(until),
                Activity::Free if self.cleans_from().is_some_and(|from| from <= now) => {
                    let from = self.cleans_from().expect("it was there a line ago");
                    self.clean(from);
                }
                Activity::Free
                | Activity::Serving { .. }
                | Activity::Draining { .. }
                | Activity::FinishingReadAhead { .. }
                | Activity::Cleaning { .. } => return,
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
        let ready_at = now + self.params.command_time;
        match kind {
            OpKind::Read | OpKind::WriteZeroes => {}
            OpKind::Write if self.write_cache.is_on() => {
                self.take_write(op, extent, now);
                return;
            }
            OpKind::Write => {}
            OpKind::Flush if self.write_cache.flush(op) => return,
            // A disk has nothing to trim.
            OpKind::Flush | OpKind::Trim | OpKind::BlockStatus => {
                self.completions.push(ready_at, op);
                return;
            }
        }
        let mut target = self.target(kind, extent, now, ready_at);
        if kind != OpKind::Read {
            target.in_log = self.media_cache.takes(extent);
        }
        let request = Queued {
            op,
            target,
            let_through_at: if kind == OpKind::Write {
                self.write_gate.pass(now, extent.len())
            } else {
                now
            },
        };
        if self.answer_from_cache(&request, now) {
            return;
        }
        self.queue.push(request);
        if matches!(self.activity, Activity::Free) {
            self.choose(now);
        }
    }

    fn next_event_at(&self) -> Option<Instant> {
        // What goes on in the background alone is caught up with when the next operation comes.
        let awaited = !self.queue.is_empty() || self.write_cache.is_awaited();
        let arm = match self.activity {
            Activity::Serving { ends_at, .. } => Some(ends_at),
            Activity::Draining { ends_at, .. } if awaited => Some(ends_at),
            Activity::FinishingReadAhead { until } | Activity::Cleaning { until } if awaited => {
                Some(until)
            }
            Activity::Free
            | Activity::Draining { .. }
            | Activity::FinishingReadAhead { .. }
            | Activity::Cleaning { .. } => None,
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

/// From where on a read must be fetched from the platter: behind what is cached, by closed runs or
/// by `run`, which is being read ahead.
fn fetch_from(target: &Target, run: Option<Extent>) -> u64 {
    let start = target.extent.offset();
    let mut from = target.cached_until;
    if let Some(run) = run
        && run.offset() <= start
        && start <= run.end()
    {
        from = from.max(run.end());
    }
    from.min(target.extent.end())
}

#[cfg(test)]
mod tests;
