//! What is known of one leg, and what it is predicted to take for a read.

mod at_work;
mod beliefs;
mod class;
mod followed;
mod forecast;
mod judged;
mod learned;
mod pauses;
mod size;
mod tried;
mod writes;

use heliostat_types::{Duration, Extent, Instant};

use super::Way;
use super::arm::{self, Arm, root_of};
use super::curve::{Curve, Point};
use super::health::Health;
use super::jumps::Jumps;
use super::late::Late;
use super::streams::is_past_seek;
use super::tries::Tries;
use crate::api::LegView;
use crate::constants::{Constant, constants};
use crate::stream_index::place_of;

use at_work::AtWork;
use followed::Followed;
pub(super) use forecast::Forecast;
pub(super) use learned::Numbers;
use pauses::Pauses;
pub(super) use size::Size;
use writes::Writes;

/// Reads in flight that are followed, by a hash of their address.
const FOLLOWED: usize = 256;
/// Addresses that an arm is known to go to: what a drive sorts at once.
const QUEUED: usize = 32;

const SIZES_BELOW: [Constant<u64>; 3] = [SMALL_BYTES, MIDDLE_BYTES, LARGE_BYTES];
const SIZES: usize = SIZES_BELOW.len() + 1;
/// Where those of parts begin.
const PARTS: usize = 2 * SIZES;
const CURVES: usize = 3 * SIZES;
constants! { "leg":
    /// Sizes of reads that have curves of their own, in bytes up to which; one more for all above.
    /// Factors of four to eight, so that one curve's reads differ by no more than what chance does.
    SMALL_BYTES: u64 = bytes(16 << 10);
    MIDDLE_BYTES: u64 = bytes(96 << 10);
    LARGE_BYTES: u64 = bytes(512 << 10);
    /// A read that begins so near behind the last one goes on with it: a drive reads ahead, and has
    /// no other way than to wait until the bytes in between have passed.
    NEAR_BYTES: u64 = bytes(1 << 20);
    /// An arm that sorts what it has does no more than four times as many reads by that.
    SORTED_TIMES: f32 = times(4.0);
    /// Of fewer reads the mean is chance.
    SLOWNESS_READS: f32 = number(32.0);
    /// Bytes in flight that count as one more read: flash moves 4 to 8 KiB in the time that a
    /// command takes it, and a hard disk 1 MiB in the time of half a seek.
    LOAD_PER_BYTE_FLASH: f32 = number(1.0 / 8192.0);
    LOAD_PER_BYTE_TURNING: f32 = number(1.0 / 1_048_576.0);

    /// What a leg is taken for that was never read: an ordinary disk, an ordinary SATA drive.
    UNKNOWN_NS_TURNING: f32 = ns(12e6);
    UNKNOWN_NS_FLASH: f32 = ns(1e5);
    /// A disk's streams are taken for so many times as fast as its random reads before it had one.
    UNKNOWN_STREAM: f32 = times(16.0);
    /// From one write to eight reads on, of some dozens.
    WRITTEN_SHARE: f32 = number(0.125);
    WRITTEN_OPS: f32 = number(64.0);
    /// What is left of that share with each second in which the leg has nothing to do: nobody would
    /// read a disk beside flash any more that had to write once. What is written back now and then
    /// is so much that it stays.
    WRITTEN_LEFT: f32 = number(0.9);
    /// For how long an arm was at a read when others were sent behind that: of so many of them.
    MET_READS: f32 = number(64.0);
    /// A leg that answers faster on average does not turn, whatever it says.
    TURNING_NS_MIN: f32 = ns(1e6);

    /// From so many times its prediction on an answer is slow. On a hard disk it is the time since
    /// the answer before that counts, of a read or of what took the arm, by the mean of that: a
    /// read may wait for others there, the arm not.
    SLOW_FLASH: f32 = times(2.0);
    SLOW_TURNING: f32 = times(3.0);
    /// Something else than a read that is answered sooner was by a cache, and did not take the arm.
    CACHED_NS: f32 = ns(1e6);
    /// An arm that is sorting what it has takes half of the time of a read by itself at least: the
    /// read of a stream may have waited for the seek of another.
    USUAL_SHARE: f32 = number(0.5);
    /// A slow leg is well again with an answer below that: between the two it may be either, and a
    /// disk that is eight times slower has a short way now and then.
    WELL: f32 = times(1.5);
    /// From so many times its prediction on a read is late, and from so long on: two is where flash
    /// has answered nearly all, and a drive that sorts its queue takes its time for single ones.
    LATE_FLASH: f32 = times(2.0);
    LATE_FLASH_NS: f32 = ns(3e4);
    LATE_TURNING: f32 = times(4.0);
    LATE_TURNING_NS: f32 = ns(5e7);
    /// Of a hard disk nothing may have been answered for so long, either.
    LATE_SILENCE_NS: f32 = ns(5e7);
    /// What a failed read counts as: slow, so that a leg that fails at once does not look fast.
    FAILED_RATIO: f32 = times(8.0);
    /// One answer teaches a curve no more than this, so that a stall does not look like a slow leg;
    /// of flash as much as it may take at most where nothing was seen.
    LEARNED_RATIO_MAX: f32 = times(4.0);
    /// Nothing was answered for twice as long as a read takes: the next one takes that long, too.
    SILENT: f32 = times(2.0);

    /// Stalls are remembered by what they add to a read on average, over some hundred reads, up to
    /// a tenth of its time, for 20 s: enough to prefer the calm one of two equal legs.
    STALL_READS: f32 = number(512.0);
    STALL_SHARE_MAX: f32 = number(0.1);
    /// More than a hundredth is no chance: no read waits for several such legs.
    STALL_SHARE_SEEN: f32 = number(0.01);
    STALL_NS: f32 = ns(2e10);
    /// What takes so many times as long as it may is a stall, and tells nothing of other reads,
    STALL_RATIO_MIN: f32 = times(12.0);
    /// unless one of 32 of late meets one, of some dozens: then that is what the leg does.
    STALLED_SHARE: f32 = number(1.0 / 32.0);
    STALLED_READS: f32 = number(64.0);

    /// Flash pauses that has something to do and answers nothing for 1 ms, for eight times as long
    /// as usual, which 64 answers tell, and for three times as long as it takes to read all that it
    /// has. What that is of the time fades within two seconds.
    PAUSE_NS: f32 = ns(1e6);
    PAUSE_TIMES: f32 = times(8.0);
    PAUSE_READS: f32 = times(3.0);
    PAUSE_ANSWERS: f32 = number(64.0);
    PAUSES_OVER_NS: f32 = ns(2e9);
    /// It is a fourth at most: one pause that took long is over.
    PAUSES_SHARE_MAX: f32 = number(0.25);

    /// Over so many reads of blocks that were read just before it is learned what these take.
    REPEAT_READS: f32 = number(64.0);

    /// For so long a leg has no part of a read whose parts took longer: it may do better by then.
    PARTS_FOR: Duration = time(Duration::from_ms(2_000));

    /// Between two tries of a slow leg lie so many reads of others: one in 64 at most is a try.
    FORGIVEN_READS: u32 = count(64);
    /// What was learned of a leg that so many reads have passed over is old.
    STALE_READS: u32 = count(64);
    /// Where flash has more in flight than are followed, those that were sent first keep their
    /// places, or none would be followed to its end; for so long, since it may never be answered.
    FOLLOWED_FOR: Duration = time(Duration::from_secs(10));

    /// Who was idle for no longer than that has been busy all the time: answers are taken over
    /// several at a time, and the next operations are sent then.
    IDLE: Duration = time(Duration::from_us(50));
    /// A leg is saturated where 65 % of a further read would only wait, or where reads take three
    /// times as long as on the idle leg; with four in flight at least. It has room where reads
    /// take less than twice as long, and a fourth of a further read is gained: curves are lines
    /// between powers of two, and what is gained seems less before the last read that gains.
    SATURATED_GAIN: f32 = number(0.35);
    SATURATED_TIMES: f32 = times(3.0);
    SATURATED_READS: u32 = count(4);
    ROOM_GAIN: f32 = number(0.25);
    ROOM_TIMES: f32 = times(2.0);
}
/// In place of an index of a curve, where none is known.
const NONE: u8 = u8::MAX;
/// What has become less than that is nothing: numbers that are too small to be normal take a
/// processor a hundred times as long.
const TINY: f32 = 1e-3;

#[derive(Clone, Debug)]
pub(super) struct Leg {
    /// By size, first of reads that continue nothing, then of those that do, then of parts of reads
    /// that were cut.
    curves: [Curve; CURVES],
    /// For each the index of the curve to go by: itself once it is known.
    like: [u8; CURVES],
    /// When it was handed the last part of a read.
    part_at: Instant,
    health: Health,
    late: Late,
    arm: Arm,
    at_work: AtWork,
    jumps: Jumps,
    /// How many times as long as predicted reads take of blocks that were read just before.
    repeat_times: f32,
    says_turning: bool,
    /// What answers told before a restart.
    told_turning: Option<bool>,
    pub(super) turns: bool,
    in_flight: u32,
    bytes_in_flight: u64,
    writes: Writes,
    last_end: u64,
    /// Bytes of reads, each of which went on where what was sent before it ended.
    run_bytes: u64,
    /// When it last answered, or got something while idle.
    progress_at: Instant,
    /// Since when it has had something to do.
    busy_since: Instant,
    last_read_at: Instant,
    last_answer_at: Instant,
    /// Reads that were planned since one came here.
    passed_over: u32,
    tries: Tries,
    stall_ns: f32,
    stalled_at: Instant,
    /// How many of the answers of late were stalls, those of one pause counted once.
    stalled: f32,
    pauses: Pauses,
    followed: Vec<Followed>,
    queued: Vec<u64>,
}

impl Default for Leg {
    fn default() -> Self {
        Self {
            curves: [Curve::default(); CURVES],
            like: [NONE; CURVES],
            part_at: Instant::ZERO,
            health: Health::default(),
            late: Late::default(),
            arm: Arm::default(),
            at_work: AtWork::default(),
            jumps: Jumps::default(),
            repeat_times: 1.0,
            says_turning: false,
            told_turning: None,
            turns: false,
            in_flight: 0,
            bytes_in_flight: 0,
            writes: Writes::default(),
            last_end: 0,
            run_bytes: 0,
            progress_at: Instant::ZERO,
            busy_since: Instant::ZERO,
            last_read_at: Instant::ZERO,
            last_answer_at: Instant::ZERO,
            passed_over: 0,
            tries: Tries::default(),
            stall_ns: 0.0,
            stalled_at: Instant::ZERO,
            stalled: 0.0,
            pauses: Pauses::default(),
            followed: vec![Followed::default(); FOLLOWED],
            queued: Vec::with_capacity(QUEUED),
        }
    }
}

fn curve_index(bytes: u64, continues: bool) -> usize {
    Size::of(bytes).curve(continues)
}

fn ns(length: Duration) -> f32 {
    length.as_ns() as f32
}

impl Leg {
    /// This is how the leg looks from outside.
    #[inline]
    pub(super) fn see(&mut self, now: Instant, view: &LegView) {
        self.in_flight = view.in_flight();
        self.at_work.see(view.reads_in_flight);
        self.bytes_in_flight = view
            .read_bytes_in_flight
            .saturating_add(view.write_bytes_in_flight);
        if self.in_flight == 0 {
            // What was taken back before the leg had it does not come to an end.
            self.queued.clear();
            self.writes.fade(now, self.progress_at);
        }
        self.turns(view);
    }

    /// A read is planned that may come here.
    pub(super) fn pass_over(&mut self) {
        self.passed_over = self.passed_over.saturating_add(1);
        self.tries.pass_over();
    }

    /// How many times as long a read takes here of a block that was read here just before.
    pub(super) fn repeat_times(&self) -> f32 {
        self.repeat_times.min(1.0)
    }

    pub(super) const fn arm(&self) -> &Arm {
        &self.arm
    }

    /// What a read by itself takes, as far as is known.
    pub(super) fn seek_ns(&self) -> f32 {
        self.arm.mean().unwrap_or_else(|| UNKNOWN_NS_TURNING.get())
    }

    /// Whether the way says anything of the time, as far as is known.
    pub(super) fn distance_tells(&self) -> bool {
        self.arm.tells().unwrap_or(true)
    }

    /// Whether it has to write as well, which moves an arm when the drive has time.
    pub(super) fn is_written(&self) -> bool {
        self.writes.are_many()
    }

    pub(super) const fn progress_at(&self) -> Instant {
        self.progress_at
    }

    /// For how long it has had something to do all the time.
    pub(super) fn busy_ns(&self, now: Instant) -> f32 {
        ns(now.saturating_since(self.busy_since))
    }

    pub(super) const fn last_read_at(&self) -> Instant {
        self.last_read_at
    }

    /// The root of the way that an idle arm has to go.
    pub(super) fn way_root(&self, address: u64) -> f32 {
        root_of(self.last_end.abs_diff(address))
    }

    /// Whether a read at `address` goes on where what was sent last ends, which is where the arm
    /// will be.
    pub(super) fn ends_at(&self, address: u64) -> bool {
        // Whether a random read is behind the last one is chance: no branch depends on that.
        let (ahead, is_before) = address.overflowing_sub(self.last_end);
        self.turns && self.run_bytes > 0 && !is_before & (ahead <= NEAR_BYTES.get())
    }

    /// Whether so much was read right before `address`, and nothing else meanwhile, that the arm is
    /// there.
    pub(super) fn is_run_to(&self, address: u64) -> bool {
        self.ends_at(address) && is_past_seek(self.run_bytes)
    }

    /// What is known of the way to a read that is sent now, of which its stream says `way`.
    pub(super) fn way(&self, address: u64, way: Way) -> Way {
        if way == Way::None || !self.ends_at(address) {
            way
        } else if self.in_flight == 0 || self.is_run_to(address) {
            Way::None
        } else {
            Way::Unknown
        }
    }

    /// How far the arm has to go from where it will be anyway.
    pub(super) fn way_bytes(&self, address: u64) -> u64 {
        let last = self.last_end.abs_diff(address);
        let queued = self.queued.iter().map(|queued| queued.abs_diff(address));
        queued.min().map_or(last, |nearest| nearest.min(last))
    }

    /// How many reads of `size` right before `address` are in flight here.
    pub(super) fn run_in_flight(&self, address: u64, size: u64) -> u32 {
        let mut count = 0;
        let mut before = address;
        while count < 32 && before >= size {
            before -= size;
            let followed = &self.followed[place_of(before)];
            if !followed.is_used || followed.address != before {
                break;
            }
            count += 1;
        }
        count
    }

    /// What a read of so many bytes adds to the load.
    fn load_of(&self, bytes: u64) -> f32 {
        let per_byte = if self.turns {
            LOAD_PER_BYTE_TURNING.get()
        } else {
            LOAD_PER_BYTE_FLASH.get()
        };
        1.0 + bytes as f32 * per_byte
    }

    /// The load that a read meets, itself included.
    pub(super) fn load(&self) -> f32 {
        self.in_flight as f32 + self.load_of(self.bytes_in_flight)
    }

    /// How long a read of so many bytes keeps the leg, by what those in flight do on average.
    pub(super) fn weight(&self, bytes: u64) -> f32 {
        if self.in_flight == 0 {
            return 1.0;
        }
        let all = self.load() - 1.0;
        self.in_flight as f32 * self.load_of(bytes) / all
    }

    /// The curve at this index, or else the most alike.
    fn curve(&self, index: usize) -> Option<&Curve> {
        self.curves.get(usize::from(self.like[index]))
    }

    /// How many times as long a read is as those at most that it is predicted from, where only
    /// shorter ones are known: it may take as many times as long, and the leg is not slow by that.
    fn longer_times(&self, index: usize, bytes: u64) -> f32 {
        let known = usize::from(self.like[index]) % SIZES;
        match SIZES_BELOW.get(known) {
            Some(below) if known < index % SIZES => bytes as f32 / below.get() as f32,
            _ => 1.0,
        }
    }

    /// A curve is known from now on: finds for each the known one that is most alike, of another
    /// size before one of the other kind.
    fn find_like(&mut self) {
        for (index, like) in self.like.iter_mut().enumerate() {
            let unlike = |other: &usize| {
                let is_other_kind = other / SIZES != index / SIZES;
                let sizes = (other % SIZES).abs_diff(index % SIZES);
                (is_other_kind, sizes)
            };
            // Parts are shorter than reads are, and say nothing of these.
            let end = if index < PARTS { PARTS } else { CURVES };
            let known = (0..end).filter(|other| self.curves[*other].is_known());
            let best = known.min_by_key(unlike);
            *like = best.map_or(NONE, |best| u8::try_from(best).expect("a few curves"));
        }
    }

    fn unknown_ns(&self) -> f32 {
        if self.turns {
            UNKNOWN_NS_TURNING.get()
        } else {
            UNKNOWN_NS_FLASH.get()
        }
    }

    /// How many times as long as on `other` a random read takes; 1 where too few were seen.
    pub(super) fn slowness(&self, other: &Self, size: u64) -> f32 {
        let random = |leg: &Self| {
            let curve = leg.curves[curve_index(size, false)];
            (curve.reads() >= SLOWNESS_READS.get()).then(|| curve.idle())
        };
        let times = random(self).zip(random(other));
        times.map_or(1.0, |(own, others)| own / others)
    }

    /// What a read takes as short as one was ever seen, with whatever the leg always has to do.
    pub(super) fn least_cost(&self, size: Size) -> f32 {
        let random = self.curve(size.curve(false));
        random.map_or_else(|| self.unknown_ns(), Curve::least)
    }

    /// What a read takes by itself, or at the least load that was seen; not known: infinitely long.
    pub(super) fn idle_cost(&self, size: Size) -> f32 {
        let random = self.curve(size.curve(false));
        random.map_or(f32::INFINITY, Curve::least)
    }

    /// What a read takes at a load.
    pub(super) fn cost_at(&self, size: Size, load: f32) -> f32 {
        let random = self.curve(size.curve(false));
        random.map_or_else(|| self.unknown_ns(), |curve| curve.at(load))
    }

    /// What a part of a read takes that is as long as that and sent now, as far as it was seen of
    /// late.
    pub(super) fn part_cost(&self, now: Instant, size: Size) -> Option<f32> {
        let curve = &self.curves[size.part()];
        let is_recent = now.saturating_since(self.part_at) < PARTS_FOR.get();
        (curve.is_known() && is_recent).then(|| curve.at(self.load()))
    }

    /// What becomes of a read of this size that is sent now. `continues`: the arm is there.
    #[inline]
    pub(super) fn forecast(
        &self,
        now: Instant,
        size: Size,
        continues: bool,
        heeds_health: bool,
    ) -> Forecast {
        let is_idle = self.in_flight == 0;
        let is_slow = heeds_health && self.is_slow();
        // For the time that one read takes it is tried as if it were well.
        let is_due = is_idle && self.passed_over > FORGIVEN_READS.get();
        let is_tried = is_slow && is_due && self.health.is_forgiven(now);
        let is_written = self.is_written();
        let Some(curve) = self.curve(size.curve(continues)) else {
            return self.forecast_of_unknown(is_tried);
        };
        let load = self.load();
        let mut known = curve.point_of_late(now, load, self.turns);
        if continues && self.turns && usize::from(self.like[size.curve(true)]) < SIZES {
            // Only random reads are known of it.
            known = known.shortened(UNKNOWN_STREAM.get());
        }
        let mut cost = known.time;
        if self.turns && is_written && !continues {
            cost = self.at_work.cost(now, cost, cost / load);
        }
        if !self.turns && self.stall_ns > 0.0 {
            cost += self.stalls_ns(now).min(cost * STALL_SHARE_MAX.get());
        }
        if !is_idle {
            let silence = ns(now.saturating_since(self.progress_at));
            cost = if silence > SILENT.get() * cost {
                silence
            } else {
                cost
            };
        }
        let is_well = !is_slow || is_tried;
        if !is_well {
            if curve.is_beyond(load) {
                // What it does there is not learned now, and not hoped for.
                cost = cost.max(known.time * curve.longest(load) / curve.at(load));
                known = known.full();
            }
            cost *= self.health.factor();
        }
        Forecast {
            cost,
            own_cost: cost,
            known,
            in_flight: self.in_flight,
            is_well,
            is_tried,
            is_trial: false,
            turns: self.turns,
            is_free_disk: self.turns,
            is_written,
            only_reads: is_written && self.at_work.are_all(self.in_flight),
            holds_up: false,
        }
    }

    /// The same where nothing is known of such reads, nor of others.
    fn forecast_of_unknown(&self, is_tried: bool) -> Forecast {
        let is_idle = self.in_flight == 0;
        let unknown_ns = self.unknown_ns();
        Forecast {
            cost: if is_idle {
                0.0
            } else {
                unknown_ns * self.load()
            },
            own_cost: unknown_ns,
            known: Point {
                time: unknown_ns,
                added: 0.0,
                idle: unknown_ns,
            },
            in_flight: self.in_flight,
            is_well: true,
            is_tried,
            is_trial: is_idle,
            turns: self.turns,
            is_free_disk: self.turns,
            is_written: self.is_written(),
            ..Forecast::default()
        }
    }

    /// What a random read takes at least behind more others than there ever were before.
    pub(super) fn least_behind_ns(&self, size: Size) -> f32 {
        let load = self.load();
        let is_beyond = |curve: &Curve| curve.is_beyond(load);
        if self.curve(size.curve(false)).is_none_or(is_beyond) {
            self.seek_ns() * load / SORTED_TIMES.get()
        } else {
            0.0
        }
    }

    /// What a read of a stream takes if all of the stream is here, with `own` of its reads at once,
    /// and the seek of the move is spread over `run_bytes`.
    pub(super) fn stream_cost(&self, size: u64, own: u32, run_bytes: u64) -> f32 {
        let load = self.load() + own as f32 * self.load_of(size);
        let random = self.curve(curve_index(size, false));
        let random_ns = random.map_or_else(|| self.unknown_ns(), |curve| curve.idle());
        let streams = &self.curves[curve_index(size, true)];
        let (cost, idle_cost) = if streams.is_known() {
            (streams.at(load), streams.idle())
        } else if self.turns {
            let idle_cost = random_ns / UNKNOWN_STREAM.get();
            (idle_cost * load, idle_cost)
        } else {
            let cost = random.map_or(random_ns, |curve| curve.at(load));
            (cost, random_ns)
        };
        cost + (random_ns - idle_cost).max(0.0) * (size as f32 / run_bytes as f32)
    }

    /// A read is handed to the leg; [`Leg::dispatched`] follows.
    pub(super) fn read_dispatched(
        &mut self,
        now: Instant,
        extent: Extent,
        way: Way,
        is_part: bool,
        (is_repeat, [rival_ns, others_ns]): (bool, [f32; 2]),
    ) {
        let index = if is_part {
            self.part_at = now;
            Size::of(extent.len()).part()
        } else {
            curve_index(extent.len(), way == Way::None)
        };
        let load = self.load();
        let is_way = way == Way::Any && extent.len() <= arm::BYTES_MAX.get();
        let meets_idle = self.in_flight == 0 && is_way;
        let address = extent.offset();
        let curve = self.curve(index);
        let times = self.longer_times(index, extent.len());
        let predicted_ns = curve.map_or(0.0, |curve| curve.at(load));
        let longest_ns = curve.map_or(0.0, |curve| curve.longest(load).max(predicted_ns * times));
        let before = &self.followed[place_of(address)];
        let is_same = before.address == address;
        let is_recent = now.saturating_since(before.began) < FOLLOWED_FOR.get();
        let are_many = !self.turns && self.in_flight as usize > FOLLOWED;
        let is_kept = are_many && before.is_used && is_recent && !is_same;
        let followed = Followed {
            address,
            began: now,
            predicted_ns,
            longest_ns,
            load,
            root: meets_idle.then(|| self.way_root(address)),
            curve: u8::try_from(index).expect("a few curves"),
            is_stale: self.passed_over > STALE_READS.get(),
            is_deeper: self.in_flight > 0 && rival_ns > 0.0,
            rival_ns,
            others_ns,
            is_repeat: is_repeat && !self.turns,
            is_twice: !self.turns && before.is_used && is_same,
            // What a stream's first reads take on a disk is a seek, or none: it teaches nothing.
            is_used: !self.turns || way != Way::Unknown,
        };
        if !followed.is_repeat {
            self.passed_over = 0;
        }
        if followed.is_deeper {
            self.tries.begin_deeper();
        }
        if !is_kept {
            self.followed[place_of(address)] = followed;
        }
        if self.turns && self.queued.len() < QUEUED {
            self.queued.push(address);
        }
        let is_like = way != Way::None && !is_part && predicted_ns > 0.0;
        self.at_work
            .sent(now, is_like.then_some(predicted_ns / load));
        self.last_read_at = now;
        self.health.sent();
    }

    /// After which time the read that was just handed to the leg is late, and what was predicted.
    pub(super) fn late_after(&self, address: u64) -> Option<(f32, f32)> {
        let followed = &self.followed[place_of(address)];
        let is_it = followed.is_used && followed.address == address;
        let (times, least_ns) = if self.turns {
            (LATE_TURNING.get(), LATE_TURNING_NS.get())
        } else {
            (LATE_FLASH.get(), LATE_FLASH_NS.get())
        };
        let predicted_ns = followed.predicted_ns;
        (is_it && predicted_ns > 0.0).then(|| ((times * predicted_ns).max(least_ns), predicted_ns))
    }

    /// Whether the leg answers others meanwhile, and the read only waits for its turn.
    pub(super) fn is_busy(&self, now: Instant) -> bool {
        self.turns && ns(now.saturating_since(self.progress_at)) < LATE_SILENCE_NS.get()
    }

    /// How long a read still takes that has taken `age_ns`.
    pub(super) fn remaining_ns(&self, age_ns: f32, predicted_ns: f32) -> f32 {
        self.late.remaining(age_ns / predicted_ns) * predicted_ns
    }

    /// An operation of any kind is handed to the leg.
    pub(super) fn dispatched(&mut self, now: Instant, extent: Extent, is_read: bool) {
        if self.in_flight == 0 {
            self.writes.fade(now, self.progress_at);
        }
        self.writes.note(!is_read);
        if !is_read {
            self.jumps.written(extent.len());
        }
        if self.in_flight == 0 {
            if now.saturating_since(self.progress_at) > IDLE.get() {
                self.busy_since = now;
            }
            self.progress_at = now;
        }
        self.in_flight = self.in_flight.saturating_add(1);
        self.bytes_in_flight = self.bytes_in_flight.saturating_add(extent.len());
        let goes_on = is_read && self.ends_at(extent.offset());
        let before = if goes_on { self.run_bytes } else { 0 };
        self.run_bytes = if is_read {
            before.saturating_add(extent.len())
        } else {
            0
        };
        self.last_end = extent.end();
    }

    /// An operation of any kind has ended.
    pub(super) fn completed(&mut self, now: Instant, extent: Extent) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.bytes_in_flight = self.bytes_in_flight.saturating_sub(extent.len());
        self.progress_at = now;
    }

    /// A read has ended; [`Leg::completed`] follows. Whether it tells that the leg is well again.
    pub(super) fn read_completed(&mut self, now: Instant, extent: Extent, ok: bool) -> bool {
        let address = extent.offset();
        let arm_from = self.at_work.began();
        self.at_work.ended(now);
        if let Some(at) = self.queued.iter().position(|queued| *queued == address) {
            self.queued.swap_remove(at);
        }
        let followed = &mut self.followed[place_of(address)];
        if !followed.is_used || followed.address != address {
            return false;
        }
        followed.is_used = false;
        let followed = *followed;
        if !followed.is_repeat {
            self.last_answer_at = now;
        }
        if !ok {
            let ratio = FAILED_RATIO.get();
            self.health
                .note_slow(now, followed.began, ratio, (false, false));
            return false;
        }
        let mut time_ns = ns(now.saturating_since(followed.began));
        if followed.predicted_ns > 0.0 {
            let was_well = self.health.is_well();
            if followed.is_repeat && !was_well {
                // A cache answers whatever the leg does.
                return false;
            }
            let round_from = self.health.round_from();
            self.judge(now, &followed, arm_from, time_ns);
            let is_well_again = !was_well && self.health.is_well();
            if self.health.has_lasted(now) {
                self.believe_slow();
            }
            if was_well {
                self.late.learn(time_ns / followed.predicted_ns);
            }
            if !was_well || !self.health.is_well() {
                // What is learned from a slow leg would become what it is known for.
                return is_well_again;
            }
            if self.note_stall(&followed, time_ns, round_from) {
                // Or it may be just turning slow.
                return false;
            }
            time_ns = time_ns.min(self.learned_at_most(&followed));
            if followed.is_twice {
                // It is shorter than either of them, so that it is slow where that seems slow.
                return false;
            }
            if followed.is_repeat {
                let times = time_ns / followed.predicted_ns;
                self.repeat_times += (times - self.repeat_times) / REPEAT_READS.get();
                return false;
            }
        }
        self.try_ended(&followed, time_ns);
        let curve = &mut self.curves[usize::from(followed.curve)];
        let is_new = !curve.is_known();
        curve.answered(now, followed.load, time_ns, self.turns);
        if is_new {
            self.find_like();
        }
        if let Some(root) = followed.root.filter(|_| self.in_flight == 1)
            && self.arm.learn(root, time_ns)
        {
            self.infer_turning();
        }
        false
    }
}
