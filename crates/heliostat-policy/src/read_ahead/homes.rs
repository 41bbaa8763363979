//! Which legs read which stream, where there are as many streams as legs or more.

use heliostat_types::{Instant, LEGS_MAX, LegId};

use crate::api::LegView;
use crate::constants::constants;

use super::{Helper, ReadAhead, Stream, whole};

constants! { "homes":
    /// Where disks together read half as fast as flash ever did, all streams are theirs beside
    /// random reads.
    DISKS_SHARE: f32 = number(0.5);
    /// A disk goes from streams to random reads, or back, where what either should have differs
    /// from what it has by more than this: it costs all streams a seek.
    DISKS_MORE: f32 = number(0.75);
}

impl ReadAhead {
    /// Beside random reads, disks are shared out: an arm that reads both goes to and fro, and does
    /// a fraction of either. Random reads have as many as they are of all who wait, one at least
    /// and not all, and those do not help streams. Where there is flash, random reads go there.
    pub(super) fn share_out(&mut self, helpers: &mut [Option<Helper>; LEGS_MAX], streams: usize) {
        let all = || helpers.iter().flatten();
        let waiting = self.at_random.waiting();
        let count = all().count();
        let is_known = |helper: &Helper| helper.turns && helper.best_rate > 0.0;
        let is_shared = waiting > 0.0 && count > 1 && all().all(is_known);
        let wanted = count as f32 * waiting / (waiting + streams as f32);
        let by_rate = |a: &&Helper, b: &&Helper| a.best_rate.total_cmp(&b.best_rate);
        let mut left = self.left;
        let have = all().filter(|helper| left.contains(helper.leg)).count();
        let is_near = (wanted - have as f32).abs() <= DISKS_MORE.get();
        let enough = if !is_shared {
            0
        } else if is_near && (1..count).contains(&have) {
            have
        } else {
            let disks = usize::try_from(whole(wanted.round())).unwrap_or(count);
            disks.clamp(1, count - 1)
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
        for helper in helpers {
            *helper = helper.filter(|helper| !left.contains(helper.leg));
        }
    }

    /// Of all legs that could read the stream at `at`, this one is to, or any.
    pub(super) fn give_home(&mut self, at: usize, legs: &[LegView], home: Option<LegId>) {
        let homes = &mut self.streams[at].homes;
        for view in legs {
            homes.remove(view.leg);
        }
        if let Some(home) = home {
            homes.insert(home);
        }
    }

    /// The leg among the helpers that is to read the stream at `at`.
    pub(super) fn home_of(
        &self,
        now: Instant,
        at: usize,
        helpers: &[Option<Helper>; LEGS_MAX],
    ) -> Option<LegId> {
        let company = |helper: &Helper| {
            let streams = self.streams.iter().enumerate();
            let others = streams.filter(|(other, stream)| *other != at && stream.is_confirmed(now));
            let is_there = |stream: &Stream| stream.homes.contains(helper.leg);
            others.filter(|(_, stream)| is_there(stream)).count()
        };
        let helpers = || helpers.iter().flatten();
        let disks = helpers().filter(|helper| helper.turns);
        let disks_rate = disks.map(|disk| disk.rate).sum::<f32>();
        let is_left = |helper: &Helper| {
            let rate = helper.best_rate;
            let is_spared = rate > 0.0 && rate * DISKS_SHARE.get() < disks_rate;
            let is_left = !helper.turns && (company(helper) > 0 || is_spared);
            is_left && self.is_beside_random()
        };
        let is_better = |one: &&Helper, other: &&Helper| {
            let by_rate = other.rate.total_cmp(&one.rate);
            company(one).cmp(&company(other)).then(by_rate)
        };
        let best = helpers().filter(|helper| !is_left(helper));
        let best = best.min_by(is_better)?;
        let homes = self.streams[at].homes;
        let own = helpers().find(|helper| homes.contains(helper.leg));
        match own {
            // Three streams beside two are no reason to move, four are one.
            Some(own) if !is_left(own) && company(best) >= company(own) => Some(own.leg),
            _ => Some(best.leg),
        }
    }
}
