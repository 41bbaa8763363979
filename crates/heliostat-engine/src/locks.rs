//! Range locks of what changes bytes, and the pins of the reads beside them.
//!
//! Every write, trim, write-zeroes and repair locks its block-aligned extent from its admission to
//! the last leg's answer. Locks that overlap are granted in order of arrival. A read takes no lock,
//! but while a lock is *held*, the legs may differ there, so all reads of that range go to one leg:
//! the lock's *pin*, chosen by the first such read to be sent or answered.
//!
//! Why that is enough for a read never to go back in time, byte by byte, with W a write:
//!
//! * Two reads that begin while W is held read one leg, and one leg does not go back in time.
//! * A read that was sent before W was granted, and ends while W is held, may have the new bytes of
//!   its leg or the old ones. If no leg is pinned yet, its leg is from then on; if another one is,
//!   it is read again there. So what it shows is what the pinned leg had.
//! * A read that was sent before W was granted, and ends after W, may return the old bytes after
//!   another returned the new ones, but then it was asked for before the other had answered, and
//!   either order is one that could have happened.
//! * After W, every leg in sync has the new bytes. A leg on which W failed is out before the lock
//!   is released; a read that it had in hand is asked of another leg, anew.
//! * If W failed on every leg for lack of space, the legs may differ for longer: then the range
//!   stays pinned (see [`crate::divergence`]) to the leg its reads have seen.
//!
//! The background work that only reads legs in sync (see [`crate::background`]) locks its range as
//! well, so that no write comes between its reading and what it writes to a leg that nobody reads.
//! Such a lock *changes nothing* as long as it is not told otherwise: reads heed it no more than if
//! it were not there. When it begins to change legs in sync, that is for reads as if it were
//! granted at that moment.
//!
//! A write that is *behind* (see [`crate::write_behind`]) was answered while some legs were late.
//! For reads it is over, but for these legs, which are to them as if they had failed: nobody reads
//! them before the release, and what they answered to a read that was sent earlier does not count.
//!
//! A read whose pinned leg cannot serve it, or has failed the write, or that overlaps locks with
//! different pins, waits for them; no lock ever waits for a read.

use heliostat_types::{Extent, LegId, LegSet};

use crate::slab::Slab;

/// Locks up to this long are taken for equally long: looking so far back costs little.
const LONG_BYTES: u64 = 1 << 20;

/// Who holds a lock or waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockOwner {
    /// A write, trim or write-zeroes.
    Write(u32),
    /// A read repair.
    Repair(u32),
    /// A read whose bytes are made the same on all legs.
    Moved(u32),
    /// A window of the background work.
    Background(u32),
}

/// One lock.
#[derive(Debug)]
struct Lock {
    extent: Extent,
    owner: LockOwner,
    /// Whether legs in sync may come to differ under it.
    changes: bool,
    /// Locks of earlier arrival that overlap and are not released yet.
    blockers: u32,
    /// Locks of later arrival that overlap.
    blocked: Vec<u32>,
    pin: Option<LegId>,
    /// Its write was answered: all legs have the bytes but those in `failed`.
    is_behind: bool,
    /// Legs that have failed a write under it: what they hold there is anybody's guess.
    failed: LegSet,
    /// Pieces of reads that wait for the release.
    readers: Vec<u32>,
}

impl Lock {
    /// Whether reads have to heed it.
    const fn is_heeded(&self) -> bool {
        self.blockers == 0 && self.changes
    }
}

/// What the locks say about a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// No held lock overlaps: any leg.
    None,
    /// Held locks overlap, and none is pinned yet: any one leg, which must then be told to
    /// [`Locks::pin`].
    Open,
    /// This leg; locks that are not pinned yet must be told.
    Leg(LegId),
    /// Different legs: wait.
    Conflict,
}

/// What a release sets free.
#[derive(Debug, Default)]
pub(crate) struct Released {
    /// Locks that are held from now on.
    pub(crate) granted: Vec<LockOwner>,
    /// Pieces of reads that may try again.
    pub(crate) readers: Vec<u32>,
}

/// All locks of an array.
#[derive(Debug)]
pub(crate) struct Locks {
    locks: Slab<Lock>,
    /// Start, end and index of all locks, by rising start.
    order: Vec<(u64, u64, u32)>,
    /// No lock is longer than this.
    longest_bytes: u64,
}

impl Locks {
    pub(crate) const fn new() -> Self {
        Self {
            locks: Slab::new(),
            order: Vec::new(),
            longest_bytes: 0,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Asks for a lock. Its index, and whether it is held at once.
    pub(crate) fn acquire(&mut self, extent: Extent, owner: LockOwner) -> (u32, bool) {
        assert!(!extent.is_empty(), "a lock covers bytes");
        let lock = self.locks.insert(Lock {
            extent,
            owner,
            changes: !matches!(owner, LockOwner::Background(_)),
            blockers: 0,
            blocked: Vec::new(),
            pin: None,
            is_behind: false,
            failed: LegSet::EMPTY,
            readers: Vec::new(),
        });
        let mut blockers = 0;
        for at in self.overlapping(extent) {
            self.locks[self.order[at].2].blocked.push(lock);
            blockers += 1;
        }
        self.locks[lock].blockers = blockers;
        let at = self
            .order
            .partition_point(|entry| entry.0 < extent.offset());
        self.order.insert(at, (extent.offset(), extent.end(), lock));
        self.longest_bytes = self.longest_bytes.max(extent.len());
        (lock, blockers == 0)
    }

    /// Whether nothing there is locked or waits for a lock.
    pub(crate) fn is_free(&self, extent: Extent) -> bool {
        self.overlapping(extent).next().is_none()
    }

    /// Gives a held lock back.
    pub(crate) fn release(&mut self, lock: u32) -> Released {
        let ended = self.locks.remove(lock);
        assert_eq!(ended.blockers, 0, "only a held lock is released");
        let from = self
            .order
            .partition_point(|entry| entry.0 < ended.extent.offset());
        let at = (from..self.order.len())
            .find(|&at| self.order[at].2 == lock)
            .expect("every lock is in the order");
        self.order.remove(at);
        if ended.extent.len() == self.longest_bytes && self.longest_bytes > LONG_BYTES {
            let lengths = self.order.iter().map(|(start, end, _)| end - start);
            self.longest_bytes = lengths.max().unwrap_or(0);
        }
        let mut released = Released {
            granted: Vec::new(),
            readers: ended.readers,
        };
        for blocked in ended.blocked {
            let waiter = &mut self.locks[blocked];
            waiter.blockers -= 1;
            if waiter.blockers == 0 {
                released.granted.push(waiter.owner);
            }
        }
        released
    }

    /// What a read of `extent` must heed, and the legs that have failed a write there; `own` is the
    /// lock that it runs under, if any.
    pub(crate) fn pin_of(&self, extent: Extent, own: Option<u32>) -> (Pin, LegSet) {
        let mut pin = Pin::None;
        let mut failed = LegSet::EMPTY;
        for at in self.overlapping(extent) {
            let index = self.order[at].2;
            let lock = &self.locks[index];
            if Some(index) == own || !lock.is_heeded() {
                continue;
            }
            failed = failed.union(lock.failed);
            if lock.is_behind {
                continue;
            }
            pin = match (pin, lock.pin) {
                (Pin::None, None) => Pin::Open,
                (pin, None) => pin,
                (Pin::None | Pin::Open, Some(leg)) => Pin::Leg(leg),
                (Pin::Leg(pinned), Some(leg)) if pinned == leg => pin,
                (Pin::Leg(_) | Pin::Conflict, Some(_)) => Pin::Conflict,
            };
        }
        (pin, failed)
    }

    /// Under a held lock, legs in sync are changed from now on.
    pub(crate) fn begin_to_change(&mut self, lock: u32) {
        self.locks[lock].changes = true;
    }

    /// The write that holds a lock is answered, though some legs do not have it yet. Reads go to
    /// any leg but them until its release; those that waited may try again.
    pub(crate) fn go_behind(&mut self, lock: u32, late: LegSet) -> Vec<u32> {
        let lock = &mut self.locks[lock];
        lock.is_behind = true;
        lock.failed = lock.failed.union(late);
        std::mem::take(&mut lock.readers)
    }

    /// What these legs hold under the locks of some owners is not to be read before their release.
    pub(crate) fn note_late(&mut self, legs: LegSet, is_one: impl Fn(LockOwner) -> bool) {
        let held = self.locks.iter_mut().filter(|lock| lock.blockers == 0);
        for lock in held.filter(|lock| is_one(lock.owner)) {
            lock.failed = lock.failed.union(legs);
        }
    }

    /// A leg has failed a write under a lock.
    pub(crate) fn note_failed(&mut self, lock: u32, leg: LegId) {
        self.locks[lock].failed.insert(leg);
    }

    /// Pins every held lock that overlaps and has no pin yet.
    pub(crate) fn pin(&mut self, extent: Extent, own: Option<u32>, leg: LegId) {
        for at in self.overlapping(extent) {
            let index = self.order[at].2;
            let lock = &mut self.locks[index];
            if Some(index) != own && lock.is_heeded() && !lock.is_behind {
                lock.pin.get_or_insert(leg);
            }
        }
    }

    /// The leg that reads beside this lock have seen.
    pub(crate) fn pinned(&self, lock: u32) -> Option<LegId> {
        self.locks[lock].pin
    }

    /// A piece of a read waits for the first lock that it overlaps, but for its own.
    pub(crate) fn wait(&mut self, extent: Extent, own: Option<u32>, piece: u32) {
        let lock = self
            .overlapping(extent)
            .map(|at| self.order[at].2)
            .find(|&lock| Some(lock) != own && self.locks[lock].is_heeded())
            .expect("who waits for a lock overlaps a held one");
        self.locks[lock].readers.push(piece);
    }

    /// A piece that may be waiting waits no longer.
    pub(crate) fn forget_reader(&mut self, piece: u32) {
        for &(_, _, lock) in &self.order {
            self.locks[lock].readers.retain(|&reader| reader != piece);
        }
    }

    /// The held locks that overlap, with their extents.
    pub(crate) fn held(&self, extent: Extent) -> impl Iterator<Item = (u32, Extent)> + '_ {
        self.overlapping(extent)
            .map(|at| self.order[at].2)
            .filter(|&lock| self.locks[lock].blockers == 0)
            .map(|lock| (lock, self.locks[lock].extent))
    }

    /// Places in the order of all locks that overlap.
    fn overlapping(&self, extent: Extent) -> impl Iterator<Item = usize> + use<> {
        // Whatever begins further in front than the longest lock is long has ended before.
        let earliest = extent.offset().saturating_sub(self.longest_bytes);
        let from = self.order.partition_point(|entry| entry.0 < earliest);
        let until = self.order.partition_point(|entry| entry.0 < extent.end());
        let ends: Vec<usize> = (from..until)
            .filter(|&at| self.order[at].1 > extent.offset())
            .collect();
        ends.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, LegId, LegSet};

    use super::{LockOwner, Locks, Pin};

    fn write(n: u32) -> LockOwner {
        LockOwner::Write(n)
    }

    #[test]
    fn overlapping_locks_are_granted_in_order_of_arrival() {
        let mut locks = Locks::new();
        let (first, held) = locks.acquire(Extent::new(0, 8192), write(1));
        assert!(held);
        let (second, held) = locks.acquire(Extent::new(4096, 8192), write(2));
        assert!(!held);
        let (third, held) = locks.acquire(Extent::new(8192, 4096), write(3));
        assert!(!held, "it would overtake the second");
        assert!(locks.acquire(Extent::new(16384, 512), write(4)).1);
        assert_eq!(locks.release(first).granted, [write(2)]);
        assert_eq!(locks.release(second).granted, [write(3)]);
        assert!(locks.release(third).granted.is_empty());
        assert!(!locks.is_empty());
    }

    #[test]
    fn a_long_lock_far_in_front_is_found() {
        let mut locks = Locks::new();
        let (long, _) = locks.acquire(Extent::new(0, 1 << 30), write(1));
        assert!(!locks.acquire(Extent::new((1 << 30) - 512, 512), write(2)).1);
        assert!(locks.acquire(Extent::new(1 << 30, 512), write(3)).1);
        assert_eq!(locks.release(long).granted, [write(2)]);
    }

    #[test]
    fn the_first_read_beside_a_lock_pins_it() {
        let mut locks = Locks::new();
        let (a, _) = locks.acquire(Extent::new(0, 4096), write(1));
        let (_, held) = locks.acquire(Extent::new(0, 4096), write(2));
        assert!(!held);
        let read = Extent::new(2048, 4096);
        assert_eq!(locks.pin_of(Extent::new(4096, 512), None).0, Pin::None);
        assert_eq!(locks.pin_of(read, None).0, Pin::Open);
        assert_eq!(locks.pin_of(read, Some(a)).0, Pin::None, "its own lock");
        locks.pin(read, None, LegId::new(2));
        assert_eq!(locks.pin_of(read, None).0, Pin::Leg(LegId::new(2)));
        let (b, _) = locks.acquire(Extent::new(4096, 4096), write(3));
        assert_eq!(locks.pin_of(read, None).0, Pin::Leg(LegId::new(2)));
        locks.pin(Extent::new(4096, 4096), Some(a), LegId::new(0));
        assert_eq!(locks.pin_of(read, None).0, Pin::Conflict);
        locks.note_failed(b, LegId::new(1));
        assert_eq!(
            locks.pin_of(read, None).1,
            LegSet::from_iter([LegId::new(1)])
        );
        locks.wait(Extent::new(8000, 1), None, 77);
        assert_eq!(locks.release(b).readers, [77]);
    }

    #[test]
    fn reads_heed_a_lock_of_the_background_once_it_changes_legs() {
        let mut locks = Locks::new();
        let read = Extent::new(0, 4096);
        let (window, held) = locks.acquire(read, LockOwner::Background(1));
        assert!(held);
        assert!(!locks.acquire(read, write(1)).1, "writes wait for it");
        locks.pin(read, None, LegId::new(1));
        assert_eq!(locks.pin_of(read, None).0, Pin::None);
        locks.begin_to_change(window);
        assert_eq!(locks.pin_of(read, None).0, Pin::Open);
        locks.pin(read, None, LegId::new(0));
        assert_eq!(locks.pin_of(read, None).0, Pin::Leg(LegId::new(0)));
        assert_eq!(locks.release(window).granted, [write(1)]);
        assert_eq!(
            locks.pin_of(read, None).0,
            Pin::Open,
            "the write is held now"
        );
    }
}
