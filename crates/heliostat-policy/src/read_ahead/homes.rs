//! Which legs read which stream, where several streams share the legs out, among each other or
//! with random reads.

use heliostat_types::{Instant, LEGS_MAX, LegId, LegSet};

use crate::api::{Layout, LegView};
use crate::constants::constants;

use super::beliefs::Aside;
use super::{Helper, Helpers, ReadAhead, whole};

constants! { "homes":
    /// A disk goes from streams to random reads, or back, where what either should have differs
    /// from what it has by more than this: it costs all streams a seek.
    DISKS_MORE: f32 = number(0.75);
    /// Flash that reads less than a fourth as fast as the fastest is none that random reads need
    /// before that is saturated.
    FAST_SHARE: f32 = number(0.25);
    /// Disks of a RAID10 are left out of reading ahead where that is faster by more than a tenth.
    WITHOUT_GAIN: f32 = times(1.1);
    /// From so many streams of a disk of a RAID10 on, a reader is at his next chunk there before
    /// his turn has come, and the disk reads on from there instead of coming back;
    CROWDED_STREAMS: u32 = count(2);
    /// from so many on where other chunks are on disks as well, which he waits for.
    CROWDED_STREAMS_DISKS: u32 = count(4);
}

/// The legs of a RAID10 that hold a chunk.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// Where one begins, or goes on.
    pub(super) offset: u64,
    pub(super) legs: LegSet,
    /// None of them is in another group as well.
    pub(super) is_apart: bool,
}

impl Group {
    /// All of them, or that at `offset` where legs are in several ones: what is right for one is
    /// wrong for the next. After as many chunks as there are legs it is the same ones' turn again.
    pub(super) fn all(legs: &[LegView], layout: &dyn Layout, offset: u64) -> Vec<Self> {
        let chunk_bytes = layout.chunk_bytes().unwrap_or(0);
        let mut groups: Vec<Self> = Vec::with_capacity(legs.len());
        for chunk in 0..legs.len() as u64 {
            let offset = offset.saturating_add(chunk.saturating_mul(chunk_bytes));
            let holds = |view: &&LegView| layout.address_on(view.leg, offset).is_some();
            let legs: LegSet = legs.iter().filter(holds).map(|view| view.leg).collect();
            if groups.iter().any(|group| group.legs == legs) {
                continue;
            }
            let is_apart = |group: &Self| group.legs.intersection(legs).is_empty();
            if !groups.iter().all(is_apart) {
                let first = groups[0];
                return vec![Self {
                    is_apart: false,
                    ..first
                }];
            }
            groups.push(Self {
                offset,
                legs,
                is_apart: true,
            });
        }
        groups
    }
}

/// Those that do not turn.
fn flash_of(helpers: &Helpers) -> LegSet {
    let flash = helpers.iter().filter(|helper| !helper.turns);
    flash.map(|helper| helper.leg).collect()
}

/// Those that do.
pub(super) fn disks_of(helpers: &Helpers) -> LegSet {
    let disks = helpers.iter().filter(|helper| helper.turns);
    disks.map(|helper| helper.leg).collect()
}

/// How fast these legs of a RAID10 read a stream from `offset` on, in bytes per ns, if each chunk
/// is read where its first copy is, by all that have it there, or by all that hold it where these
/// are flash; `None` where they do not hold all. Legs may be missing, so nobody can tell here after
/// how many chunks it is the same ones' turn.
fn rate_of(helpers: &Helpers, layout: &dyn Layout, offset: u64) -> Option<f32> {
    let chunks = LEGS_MAX as u64;
    let chunk_bytes = layout.chunk_bytes().unwrap_or(0);
    let mut loads = [0.0; LEGS_MAX];
    for chunk in 0..chunks {
        let offset = offset.saturating_add(chunk.saturating_mul(chunk_bytes));
        let address = |helper: &Helper| layout.address_on(helper.leg, offset);
        let holders = helpers
            .iter()
            .filter_map(|helper| Some((helper, address(helper)?)));
        let first = holders.clone().map(|holder| holder.1).min()?;
        let are_flash = holders.clone().all(|(helper, _)| !helper.turns);
        let readers = || {
            let readers = holders
                .clone()
                .filter(|holder| are_flash || holder.1 == first);
            readers.map(|holder| holder.0)
        };
        let rate: f32 = readers().map(|helper| helper.rate).sum();
        for helper in readers() {
            loads[helper.leg.index()] += helper.rate / rate;
        }
    }
    let rates = helpers.iter().map(|helper| {
        let load = loads[helper.leg.index()];
        (load > 0.0).then(|| helper.rate * chunks as f32 / load)
    });
    rates.flatten().reduce(f32::min)
}

/// The disks of a RAID10 without which a stream is read faster from `offset` on: where flash holds
/// each of its chunks as well, and is far faster, all wait for the disks' part.
pub(super) fn hindering(helpers: &Helpers, layout: &dyn Layout, offset: u64) -> LegSet {
    let disks = disks_of(helpers);
    let mut flash = *helpers;
    flash.leave(disks);
    if disks.is_empty() || flash.count() == 0 {
        return LegSet::EMPTY;
    }
    let Some(without) = rate_of(&flash, layout, offset) else {
        return LegSet::EMPTY;
    };
    let with = rate_of(helpers, layout, offset).unwrap_or(0.0);
    if without > with * WITHOUT_GAIN.get() {
        disks
    } else {
        LegSet::EMPTY
    }
}

impl ReadAhead {
    /// Beside random reads, disks are shared out: an arm that reads both goes to and fro, and does
    /// a fraction of either. Random reads have as many as they are of all who wait, one at least
    /// and not all, and those do not help streams; first those that have read little.
    /// Where there is flash, random reads go there.
    pub(super) fn share_out(&mut self, helpers: &mut Helpers, streams: usize) {
        let all = || helpers.iter();
        if all().any(|helper| !helper.turns) {
            return self.share_out_flash(helpers, streams);
        }
        let count = all().count();
        let is_known = |helper: &Helper| helper.best_rate > 0.0;
        // One reader of files reads at random now and then, but somebody else does not.
        let are_others = self.at_random.waiting() > 1.0 || !self.left.is_empty();
        let are_known = all().all(is_known) || are_others && all().any(is_known);
        let is_shared = self.is_beside_random() && count > 1 && are_known;
        let by_rate = |a: &&Helper, b: &&Helper| a.best_rate.total_cmp(&b.best_rate);
        let mut left = self.left;
        let have = all().filter(|helper| left.contains(helper.leg)).count();
        let enough = if is_shared {
            self.legs_for_random(count, have, streams as f32)
        } else {
            0
        };
        for _ in have..enough {
            let others = all().filter(|helper| !left.contains(helper.leg));
            if let Some(slowest) = others.min_by(by_rate) {
                left.insert(slowest.leg);
            }
        }
        for _ in enough..have {
            let those = all().filter(|helper| left.contains(helper.leg));
            if let Some(fastest) = those.max_by(by_rate) {
                left.remove(fastest.leg);
            }
        }
        self.left = left;
        helpers.leave_for(left, Aside::Random);
    }

    /// How many of so many legs are left to random reads, where `have` were: as many as they are of
    /// all who wait, one at least and not all.
    fn legs_for_random(&self, count: usize, have: usize, streams: f32) -> usize {
        let waiting = self.at_random.waiting();
        let wanted = count as f32 * waiting / (waiting + streams);
        let is_near = (wanted - have as f32).abs() <= DISKS_MORE.get();
        if is_near && (1..count).contains(&have) {
            have
        } else {
            let legs = usize::try_from(whole(wanted.round())).unwrap_or(count);
            legs.clamp(1, count - 1)
        }
    }

    /// The same in a RAID10, for each of these groups. Streams have no flash that is in several
    /// ones, and none where they are as many as copies. Where a group has no flash random reads
    /// wait for that one, and need none of what others have.
    pub(super) fn share_out_groups(
        &mut self,
        groups: &[Group],
        helpers: &Helpers,
        layout: &dyn Layout,
        streams: usize,
    ) {
        let was = self.left;
        let mut left = LegSet::EMPTY;
        let holders_of = |group: &Group| helpers.holding(layout, group.offset);
        let turn = |group: &Group| holders_of(group).iter().all(|helper| helper.turns);
        let is_beside_random = self.is_beside_random();
        let is_one_of_disks = is_beside_random && groups.iter().any(turn);
        for group in groups {
            self.left = self.left.difference(group.legs);
            if self.is_beside_writes() {
                left = left.union(group.legs);
            }
            if is_beside_random && (!is_one_of_disks || turn(group)) {
                let holders = holders_of(group);
                left = left.union(self.left_of_group(group, &holders, streams, was));
                if !flash_of(&holders).is_empty() {
                    // On disks that are too slow to help it streams lose more than beside others.
                    let slow = disks_of(helpers);
                    left = left.union(slow.intersection(group.legs.difference(holders.legs())));
                }
            }
        }
        self.left = self.left.union(left);
    }

    /// Without what streams of a RAID10 do not have.
    pub(super) fn leave_in_groups(&self, helpers: &mut Helpers) {
        let why = if self.is_beside_writes() {
            Aside::Writes
        } else {
            Aside::Random
        };
        helpers.leave_for(self.left, why);
        self.leave_waited_for(helpers);
        helpers.leave_for(self.hindering, Aside::Slow);
    }

    /// What random reads have of these legs, where they have what is in `was` of all: a disk of
    /// several, and flash, but none beside disks that are all written, which streams need it for.
    fn left_of_group(
        &self,
        group: &Group,
        holders: &Helpers,
        streams: usize,
        was: LegSet,
    ) -> LegSet {
        let disks = || holders.iter().filter(|helper| helper.turns);
        let flash = flash_of(holders);
        if flash.is_empty() {
            if holders.count() < 2 {
                return LegSet::EMPTY;
            }
            let rate = |helper: &Helper| {
                let is_own = was.contains(helper.leg);
                helper.rate * if is_own { DISKS_MORE.get() } else { 1.0 }
            };
            let slowest = disks().min_by(|one, other| rate(one).total_cmp(&rate(other)));
            return slowest.map(|helper| helper.leg).into_iter().collect();
        }
        if disks().count() > 0 {
            let all_are_written = disks().all(|helper| helper.is_written);
            return if all_are_written {
                LegSet::EMPTY
            } else {
                flash
            };
        }
        let may_share = streams < holders.count() && group.is_apart;
        let fast = may_share.then(|| self.flash_for_random(holders, streams, was));
        fast.filter(|fast| !fast.is_empty()).unwrap_or(flash)
    }

    /// Beside random reads, streams that are fewer than legs have legs of their own where there is
    /// flash: the slower ones, and the others are left to random reads. But not where writes wait
    /// for reads on any of them: who reads at random would wait for those. Nor is anything read
    /// ahead where others only write, and wait for what is read.
    fn share_out_flash(&mut self, helpers: &mut Helpers, streams: usize) {
        let count = helpers.count();
        let flash = flash_of(helpers);
        let was = self.left;
        self.left = LegSet::EMPTY;
        if self.is_beside_writes() {
            helpers.leave_for(flash, Aside::Writes);
            return;
        }
        if !self.is_beside_random() || streams >= count || count < 2 {
            return;
        }
        if flash.iter().count() < count {
            self.share_out_disks_and_flash(helpers, streams, was);
            return;
        }
        self.left = self.flash_for_random(helpers, streams, was);
        // Where nothing is theirs, nothing is read ahead for them either.
        let others = if self.left.is_empty() {
            flash
        } else {
            self.left
        };
        helpers.leave_for(others, Aside::Random);
    }

    /// The flash that is left to random reads, of several that all hold the same; none if streams
    /// are not to have the others for themselves.
    fn flash_for_random(&self, helpers: &Helpers, streams: usize, was: LegSet) -> LegSet {
        let mut all: Vec<&Helper> = helpers.iter().collect();
        all.sort_by(|one, other| {
            let order = was.contains(other.leg).cmp(&was.contains(one.leg));
            order.then(other.rate.total_cmp(&one.rate))
        });
        let have = all.iter().filter(|helper| was.contains(helper.leg)).count();
        let reads = f32::max(streams as f32, self.long_reads);
        let enough = self.legs_for_random(all.len(), have, reads);
        // Where one has less to do just now, writes wait on the other.
        if all.iter().any(|helper| helper.writes_wait) {
            LegSet::EMPTY
        } else {
            all[..enough].iter().map(|helper| helper.leg).collect()
        }
    }

    /// Streams have the disks, and the flash that random reads do not need: they have the fastest,
    /// and of what is not much slower as many as they are of all who wait.
    fn share_out_disks_and_flash(&mut self, helpers: &mut Helpers, streams: usize, was: LegSet) {
        if helpers
            .iter()
            .all(|helper| !helper.turns || helper.is_written)
        {
            return;
        }
        if self.has_spare {
            helpers.leave_for(disks_of(helpers), Aside::Unneeded);
            return;
        }
        let flash = || helpers.iter().filter(|helper| !helper.turns);
        let rates = flash().map(|helper| helper.best_rate);
        let fast_rate = rates.fold(0.0, f32::max) * FAST_SHARE.get();
        // Of which nothing is known that has no random reads.
        let is_fast = |helper: &&Helper| helper.best_rate >= fast_rate;
        let mut fast: Vec<&Helper> = flash().filter(is_fast).collect();
        fast.sort_by(|one, other| {
            let order = was.contains(other.leg).cmp(&was.contains(one.leg));
            order.then(other.best_rate.total_cmp(&one.best_rate))
        });
        if fast.len() > 1 {
            let is_left = |helper: &&&Helper| was.contains(helper.leg);
            let have = fast.iter().filter(is_left).count();
            fast.truncate(self.legs_for_random(fast.len(), have, streams as f32));
        }
        // On flash that is written each read of a stream waits for several writes.
        let written = flash().filter(|helper| helper.is_written);
        let left = fast.into_iter().chain(written);
        let left = left.map(|helper| helper.leg).collect();
        self.left = left;
        helpers.leave_for(left, Aside::Random);
    }

    /// Of all legs that could read the stream at `at`, these are to, or any.
    pub(super) fn give_homes(&mut self, at: usize, legs: LegSet, homes: LegSet) {
        let others = self.streams[at].homes.difference(legs);
        self.streams[at].homes = others.union(homes);
    }

    /// The legs that are to read the stream at `at`, of the helpers, which all hold it; none where
    /// any is to. There are so many streams.
    pub(super) fn homes_of(
        &self,
        now: Instant,
        at: usize,
        helpers: &Helpers,
        is_chunked: bool,
        count: usize,
    ) -> LegSet {
        let turning = helpers.iter().filter(|helper| helper.turns).count();
        let all = helpers.count();
        let has_one = if is_chunked {
            turning == all
        } else {
            turning > 0 || !self.left.is_empty()
        };
        if has_one && count >= all {
            let mut those = *helpers;
            if self.has_spare && turning < all {
                those.leave(disks_of(helpers));
            }
            return self.home_of(now, at, &those).into_iter().collect();
        }
        let is_own_flash = turning == 0 && count <= all;
        if !self.left.is_empty() && (!is_chunked || is_own_flash) {
            return helpers.legs();
        }
        if is_chunked || turning < all {
            return LegSet::EMPTY;
        }
        let size = disks_each(all, count);
        if size == all {
            let are_all = self.left_to_writes().is_empty();
            return if are_all {
                LegSet::EMPTY
            } else {
                helpers.legs()
            };
        }
        let mut homes = LegSet::EMPTY;
        let mut others = *helpers;
        while homes.iter().count() < size
            && let Some(home) = self.home_of(now, at, &others)
        {
            homes.insert(home);
            others.leave(homes);
        }
        homes
    }

    /// How many streams are read by a leg, but for the one at `at`.
    fn company(&self, now: Instant, at: Option<usize>, leg: LegId) -> usize {
        let streams = self.streams.iter().enumerate();
        let others =
            streams.filter(|(other, stream)| Some(*other) != at && stream.is_confirmed(now));
        others
            .filter(|(_, stream)| stream.homes.contains(leg))
            .count()
    }

    /// The disks of a RAID10 that so many streams share that these do not wait for their turns.
    pub(super) fn crowded(&self, now: Instant, helpers: &Helpers, layout: &dyn Layout) -> LegSet {
        if layout.chunk_bytes().is_none() {
            return LegSet::EMPTY;
        }
        let many = if flash_of(helpers).is_empty() {
            CROWDED_STREAMS_DISKS.get()
        } else {
            CROWDED_STREAMS.get()
        };
        let disks = helpers.iter().filter(|helper| helper.turns);
        let legs = disks.map(|helper| helper.leg);
        legs.filter(|leg| self.company(now, None, *leg) >= many as usize)
            .collect()
    }

    /// Whether the stream at `at` alone has flash beside disks as its home, which is neither
    /// written nor read at random.
    pub(super) fn is_alone(
        &self,
        now: Instant,
        at: usize,
        helpers: &Helpers,
        layout: &dyn Layout,
    ) -> bool {
        if self.turning.is_empty() || self.is_beside_random() {
            return false;
        }
        let home = self.streams[at].only_home(helpers, layout);
        let flash = home.filter(|home| !home.turns && !home.was_written);
        flash.is_some_and(|home| self.company(now, Some(at), home.leg) == 0)
    }

    /// The leg among the helpers that is to read the stream at `at`.
    fn home_of(&self, now: Instant, at: usize, helpers: &Helpers) -> Option<LegId> {
        let company = |helper: &Helper| self.company(now, Some(at), helper.leg);
        let helpers = || helpers.iter();
        // Flash that random reads need as well, since they have none for themselves.
        let is_shared = self.is_beside_random() && self.left.is_empty();
        let is_left = |helper: &Helper| !helper.turns && company(helper) > 0 && is_shared;
        let is_better = |one: &&Helper, other: &&Helper| {
            let by_rate = other.rate.total_cmp(&one.rate);
            company(one).cmp(&company(other)).then(by_rate)
        };
        let best = helpers().filter(|helper| !is_left(helper));
        let best = best.min_by(is_better)?;
        let homes = self.streams[at].homes;
        let own = helpers().filter(|helper| homes.contains(helper.leg));
        let own = own.min_by_key(|helper| company(helper));
        match own {
            // Three streams beside two are no reason to move, four are one.
            Some(own) if !is_left(own) && company(best) >= company(own) => Some(own.leg),
            _ => Some(best.leg),
        }
    }
}

/// How many disks read a stream, where there are more disks than streams: all of them together, or
/// more than that by no more than half. A disk that is shared by two goes to and fro.
const fn disks_each(disks: usize, streams: usize) -> usize {
    let shared = disks.div_ceil(streams);
    if 2 * streams * shared <= 3 * disks {
        shared
    } else {
        disks / streams
    }
}
