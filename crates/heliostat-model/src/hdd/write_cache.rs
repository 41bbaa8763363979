//! The volatile write cache of a hard disk: writes that were answered and are not on the platter.
//!
//! Neighbours become one run, what is written again replaces what was, and a flush waits for all
//! that was answered before it.

use std::collections::VecDeque;

use heliostat_types::{Extent, LegOpId};

/// One run that waits to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dirty<T> {
    pub(super) extent: Extent,
    /// How the arm would get there; belongs to the start of `extent`.
    pub(super) target: T,
    /// When its oldest part came, as a count of writes.
    pub(super) sequence: u64,
}

/// Writes between the link and the platter.
#[derive(Clone, Debug)]
pub(super) struct WriteCache<T> {
    capacity_bytes: u64,
    used_bytes: u64,
    /// By sequence, so oldest first. No two overlap.
    dirty: VecDeque<Dirty<T>>,
    /// Where each begins, and its sequence, by place: there may be thousands.
    places: Vec<(u64, u64)>,
    /// What the arm is writing.
    draining: Option<(Extent, u64)>,
    /// Writes that found no room, oldest first.
    stalled: VecDeque<(LegOpId, Extent)>,
    /// Flushes, each with the first sequence that it does not wait for.
    flushes: VecDeque<(LegOpId, u64)>,
    admitted_count: u64,
}

/// Neighbours are joined up to this: 5 ms of transfer, so that a read does not wait for seconds.
const RUN_BYTES_MAX: u64 = 1 << 20;

/// Room that the smallest write takes: caches are cut into segments. An assumption.
pub(super) const SLOT_BYTES: u64 = 64 << 10;

/// The room that a run takes.
fn charge(extent: Extent) -> u64 {
    extent.len().max(SLOT_BYTES)
}

impl<T: Clone> WriteCache<T> {
    /// A cache of this size; 0: none.
    pub(super) const fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            used_bytes: 0,
            dirty: VecDeque::new(),
            places: Vec::new(),
            draining: None,
            stalled: VecDeque::new(),
            flushes: VecDeque::new(),
            admitted_count: 0,
        }
    }

    /// Whether there is a cache at all.
    pub(super) const fn is_on(&self) -> bool {
        self.capacity_bytes > 0
    }

    /// Runs that wait to be written, oldest first.
    pub(super) const fn dirty(&self) -> &VecDeque<Dirty<T>> {
        &self.dirty
    }

    /// Whether the host waits for something to be written: a flush, or a write without room; or
    /// will soon.
    pub(super) fn is_pressed(&self) -> bool {
        self.is_awaited() || self.used_bytes > self.capacity_bytes / 4 * 3
    }

    /// Whether a flush or a write without room waits.
    pub(super) fn is_awaited(&self) -> bool {
        !self.flushes.is_empty() || !self.stalled.is_empty()
    }

    /// Whether all of `extent` is here.
    pub(super) fn holds(&self, extent: Extent) -> bool {
        let draining = self.draining.is_some_and(|(run, _)| run.contains(extent));
        let above = self.first_above(extent.offset());
        draining || (above > 0 && self.dirty[self.at(above - 1)].extent.contains(extent))
    }

    /// The first, by place, of those that begin behind `offset`.
    fn first_above(&self, offset: u64) -> usize {
        self.places.partition_point(|(start, _)| *start <= offset)
    }

    /// Where, among all, that one is which is at `place` by place.
    fn at(&self, place: usize) -> usize {
        let (_, sequence) = self.places[place];
        let found = self
            .dirty
            .binary_search_by_key(&sequence, |run| run.sequence);
        found.expect("both have all runs")
    }

    /// Puts a write at the end of those without room.
    pub(super) fn stall(&mut self, op: LegOpId, extent: Extent) {
        self.stalled.push_back((op, extent));
    }

    /// The next write that there is room for; what is larger than the cache gets an empty one.
    pub(super) fn next_with_room(&mut self) -> Option<(LegOpId, Extent)> {
        let &(_, extent) = self.stalled.front()?;
        let fits = self.used_bytes + charge(extent) <= self.capacity_bytes;
        if fits || self.used_bytes == 0 {
            self.stalled.pop_front()
        } else {
            None
        }
    }

    /// Takes a write in. `target_of` says how the arm gets to a run, which may have been an older
    /// one of another extent: its bytes come faster than the platter takes them.
    pub(super) fn admit(&mut self, written: Extent, target_of: impl Fn(Extent, Option<&T>) -> T) {
        let sequence = self.admitted_count;
        self.admitted_count += 1;
        let mut place = self.first_above(written.offset());
        if place > 0 {
            let before = self.at(place - 1);
            let old = self.dirty[before].extent;
            if old.contains(written) {
                // Overwritten where it lies.
                return;
            }
            if old.offset() == written.offset() {
                place -= 1;
            } else if old.overlaps(written) {
                let left = Extent::from_range(old.offset(), written.offset());
                self.change(before, left, &target_of);
            }
        }
        while self
            .places
            .get(place)
            .is_some_and(|(start, _)| *start < written.end())
        {
            let index = self.at(place);
            let old = self.dirty[index].extent;
            if old.end() > written.end() {
                self.places[place].0 = written.end();
                let left = Extent::from_range(written.end(), old.end());
                self.change(index, left, &target_of);
                break;
            }
            self.used_bytes -= charge(old);
            self.dirty.remove(index);
            self.places.remove(place);
        }
        if place > 0 {
            let before = self.at(place - 1);
            let run = self.dirty[before].extent;
            if run.end() == written.offset() && run.len() + written.len() <= RUN_BYTES_MAX {
                let joined = Extent::from_range(run.offset(), written.end());
                return self.change(before, joined, &target_of);
            }
        }
        self.used_bytes += charge(written);
        self.places.insert(place, (written.offset(), sequence));
        self.dirty.push_back(Dirty {
            extent: written,
            target: target_of(written, None),
            sequence,
        });
    }

    /// The run at `index` is of `extent` from now on.
    fn change(
        &mut self,
        index: usize,
        extent: Extent,
        target_of: impl Fn(Extent, Option<&T>) -> T,
    ) {
        let run = &mut self.dirty[index];
        self.used_bytes -= charge(run.extent);
        self.used_bytes += charge(extent);
        run.target = target_of(extent, Some(&run.target));
        run.extent = extent;
    }

    /// The arm turns to the run at `index`.
    pub(super) fn start_draining(&mut self, index: usize) -> Dirty<T> {
        let run = self.dirty.remove(index).expect("it waits");
        let place = self.first_above(run.extent.offset()) - 1;
        self.places.remove(place);
        self.draining = Some((run.extent, run.sequence));
        run
    }

    /// The run is on the platter.
    pub(super) fn finish_draining(&mut self) {
        let (run, _) = self.draining.take().expect("the arm wrote a run");
        self.used_bytes -= charge(run);
    }

    /// Takes a flush; `false` where nothing is there that it would have to wait for.
    pub(super) fn flush(&mut self, op: LegOpId) -> bool {
        let waits = self.oldest().is_some();
        if waits {
            self.flushes.push_back((op, self.admitted_count));
        }
        waits
    }

    /// The next flush that has nothing to wait for any more.
    pub(super) fn next_flushed(&mut self) -> Option<LegOpId> {
        let oldest = self.oldest().unwrap_or(u64::MAX);
        let &(op, until) = self.flushes.front()?;
        if until > oldest {
            return None;
        }
        self.flushes.pop_front();
        Some(op)
    }

    /// The sequence of the oldest write that is not on the platter. Runs are in order of their
    /// oldest part, but the one being written may be any.
    fn oldest(&self) -> Option<u64> {
        let waiting = self.dirty.front().map(|dirty| dirty.sequence);
        let draining = self.draining.map(|(_, sequence)| sequence);
        match (waiting, draining) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, LegOpId, Prng, RandomStream};

    use super::{RUN_BYTES_MAX, SLOT_BYTES, WriteCache, charge};

    fn runs(cache: &WriteCache<()>) -> Vec<(u64, u64)> {
        let bounds = |extent: Extent| (extent.offset(), extent.end());
        cache.dirty().iter().map(|run| bounds(run.extent)).collect()
    }

    #[test]
    fn neighbours_join_and_what_is_written_again_is_there_once() {
        let mut cache = WriteCache::new(1 << 20);
        let mut write = |start, end| cache.admit(Extent::from_range(start, end), |_, _| ());
        write(100, 200);
        write(300, 400);
        write(200, 250);
        write(120, 130);
        write(350, 500);
        write(0, 110);
        assert_eq!(runs(&cache), [(110, 250), (300, 500), (0, 110)]);
        assert!(cache.holds(Extent::from_range(120, 250)));
        assert!(!cache.holds(Extent::from_range(100, 120)), "in two runs");
        assert_eq!(cache.used_bytes, 3 * SLOT_BYTES);
        cache.admit(Extent::from_range(0, 1000), |_, _| ());
        assert_eq!(runs(&cache), [(0, 1000)]);
        assert_eq!(cache.used_bytes, SLOT_BYTES);
    }

    /// The same of a list that is looked through from one end to the other.
    fn admit_to(runs: &mut Vec<Extent>, written: Extent) {
        if runs.iter().any(|run| run.contains(written)) {
            return;
        }
        let left = |run: &Extent| match *run {
            run if !run.overlaps(written) => run,
            run if run.offset() < written.offset() => {
                Extent::from_range(run.offset(), written.offset())
            }
            run => Extent::from_range(run.end().min(written.end()), run.end()),
        };
        *runs = runs
            .iter()
            .map(left)
            .filter(|run| !run.is_empty())
            .collect();
        let joins = |run: &&mut Extent| {
            run.end() == written.offset() && run.len() + written.len() <= RUN_BYTES_MAX
        };
        match runs.iter_mut().find(joins) {
            Some(run) => *run = Extent::from_range(run.offset(), written.end()),
            None => runs.push(written),
        }
    }

    #[test]
    fn any_writes_in_any_order_leave_what_a_list_would_have() {
        let mut luck = RandomStream::new(1, "luck", 0);
        for _ in 0..50 {
            let mut cache = WriteCache::new(1 << 30);
            let mut list: Vec<Extent> = Vec::new();
            for _ in 0..200 {
                let unit = RUN_BYTES_MAX / 8;
                let written = Extent::new(luck.below(100) * unit, (1 + luck.below(12)) * unit);
                cache.admit(written, |_, _| ());
                admit_to(&mut list, written);
                if luck.below(3) == 0 {
                    let index = usize::try_from(luck.below(list.len() as u64)).unwrap();
                    assert_eq!(cache.start_draining(index).extent, list.remove(index));
                    cache.finish_draining();
                }
                assert_eq!(
                    cache
                        .dirty()
                        .iter()
                        .map(|run| run.extent)
                        .collect::<Vec<_>>(),
                    list
                );
                let read = Extent::new(luck.below(100) * unit, unit);
                let holds = list.iter().any(|run| run.contains(read));
                assert_eq!(cache.holds(read), holds, "{read:?}");
            }
            let used: u64 = list.iter().map(|run| charge(*run)).sum();
            assert_eq!(cache.used_bytes, used);
        }
    }

    #[test]
    fn a_flush_waits_for_what_came_before_it_alone() {
        let mut cache = WriteCache::new(1 << 20);
        assert!(!cache.flush(LegOpId(0)), "nothing to wait for");
        cache.admit(Extent::new(0, 10), |_, _| ());
        cache.admit(Extent::new(1 << 20, 10), |_, _| ());
        assert!(cache.flush(LegOpId(1)));
        cache.admit(Extent::new(2 << 20, 10), |_, _| ());
        cache.start_draining(1);
        assert_eq!(cache.next_flushed(), None);
        cache.finish_draining();
        cache.start_draining(0);
        assert_eq!(cache.next_flushed(), None);
        cache.finish_draining();
        assert_eq!(cache.next_flushed(), Some(LegOpId(1)));
        assert_eq!(cache.next_flushed(), None);
    }

    #[test]
    fn without_room_writes_wait_in_order() {
        let mut cache = WriteCache::new(2 * SLOT_BYTES);
        cache.admit(Extent::new(0, 10), |_, _| ());
        cache.stall(LegOpId(1), Extent::new(1 << 20, 10 * SLOT_BYTES));
        cache.stall(LegOpId(2), Extent::new(5 << 20, 10));
        assert_eq!(cache.next_with_room(), None);
        cache.start_draining(0);
        cache.finish_draining();
        let (op, extent) = cache.next_with_room().expect("an empty cache takes any");
        assert_eq!(op, LegOpId(1));
        cache.admit(extent, |_, _| ());
        assert_eq!(cache.next_with_room(), None);
    }
}
