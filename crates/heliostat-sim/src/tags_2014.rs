//! `none-2014`: how requests got past a block device of Linux of 2014 that had no scheduler, as far
//! as it matters here: first come, first served among those that are in, and a limited number of
//! tags that let them in.
//!
//! Each request is asked for by a thread of its own, as fio's posixaio does it. Who gets no tag
//! sleeps. A tag that comes back wakes a sleeper, but is there for whoever runs first: for the one
//! that was woken, for others that were woken just before, for threads that come by. Who comes too
//! late sleeps again, behind all others. So which of them gets it has little to do with how long it
//! has slept, and here it is chance: each has the same.

use heliostat_types::{Prng as _, RandomStream};

/// `BLKDEV_MAX_RQ`, which `nr_requests` is unless somebody sets it.
const TAGS: usize = 128;

/// See the module.
#[derive(Debug)]
pub(crate) struct Tags {
    dice: RandomStream,
    in_use: usize,
    sleepers: Vec<u64>,
}

impl Tags {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: RandomStream::new(seed, "tags of 2014", 0),
            in_use: 0,
            sleepers: Vec::new(),
        }
    }

    /// There is one more request. Whether it has a tag now.
    pub(crate) fn ask(&mut self, request: u64) -> bool {
        let has_tag = self.in_use < TAGS;
        if has_tag {
            self.in_use += 1;
        } else {
            self.sleepers.push(request);
        }
        has_tag
    }

    /// A request that had a tag is done. The one that has it now.
    pub(crate) fn give_back(&mut self) -> Option<u64> {
        if self.sleepers.is_empty() {
            self.in_use -= 1;
            return None;
        }
        let chance = self.dice.below(self.sleepers.len() as u64);
        let first = usize::try_from(chance).expect("there are not as many");
        Some(self.sleepers.swap_remove(first))
    }
}

#[cfg(test)]
mod tests {
    use super::{TAGS, Tags};

    #[test]
    fn who_has_no_tag_sleeps_and_each_sleeper_has_a_tag_once() {
        let mut tags = Tags::new(1);
        let asked = |tags: &mut Tags, first: u64, count: u64| {
            let granted = (first..first + count).filter(|request| tags.ask(*request));
            granted.count()
        };
        assert_eq!(asked(&mut tags, 0, 400), TAGS);
        let mut woken: Vec<u64> = (0..272).filter_map(|_| tags.give_back()).collect();
        assert_ne!(woken, (128..400).collect::<Vec<u64>>(), "it is chance");
        woken.sort_unstable();
        assert_eq!(woken, (128..400).collect::<Vec<u64>>());
        assert!((0..TAGS).all(|_| tags.give_back().is_none()));
        assert_eq!(asked(&mut tags, 400, 130), TAGS);
    }

    #[test]
    fn some_sleep_much_longer_than_others() {
        const SLEEPERS: u64 = 100;
        let mut tags = Tags::new(2);
        (0..TAGS as u64 + SLEEPERS).for_each(|request| {
            tags.ask(request);
        });
        let mut asked_at = vec![0; 50_000];
        let mut longest = 0;
        for round in 0..40_000_u64 {
            let woken = tags.give_back().expect("somebody sleeps");
            let at = usize::try_from(woken).unwrap();
            longest = longest.max(round - asked_at[at]);
            let next = TAGS as u64 + SLEEPERS + round;
            asked_at[usize::try_from(next).unwrap()] = round;
            assert!(!tags.ask(next));
        }
        assert!(
            (8 * SLEEPERS..20 * SLEEPERS).contains(&longest),
            "{longest}"
        );
    }
}
