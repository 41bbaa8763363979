//! Which versions a read may return: a register per granule of the array, checked against what
//! clients were told.
//!
//! Each write is a version. A granule may hold any version that some order of the concurrent
//! writes allows; the set of these shrinks when a write is answered (what had ended before it
//! began is overwritten) and when a read is answered (what it did not return, and had ended before
//! the read began, is overwritten too). A read may return what was possible when it began, or was
//! begun since. So no acknowledged write is lost, and no read goes back in time.
//!
//! A write that was answered with an error may have happened or not; once a read has shown that it
//! did not, it must not appear later.
//!
//! Where the power may fail, a version also has the moment from which on another one, answered, is
//! known to lie over it. A flush that began after that makes it impossible for good; every other
//! version may be there after a cut, and one that was then read is the only one left.
//!
//! Bytes that an injected fault has damaged prove nothing, and are wrong for a known reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use heliostat_types::{Extent, SECTOR_BYTES};

use crate::contents::ZEROS;

/// A moment in the order of events: what begins or ends gets the next number. Also the version of
/// the write that begins then.
pub(crate) type Moment = u64;

/// What no write wrote.
const NEVER: Moment = 0;
/// Has not happened yet.
const NOT_YET: Moment = Moment::MAX;

/// The versions that each granule may hold.
#[derive(Debug)]
pub(crate) struct Shadow {
    granule_bytes: u64,
    clock: Moment,
    /// Granules that were written or are being written.
    granules: BTreeMap<u64, Vec<Version>>,
    /// When the reads in flight began.
    reads: BTreeSet<Moment>,
    /// Whether the power may fail.
    keeps_unflushed: bool,
    /// When the newest flush began that was answered; what was answered before is durable.
    flushed: Moment,
}

/// More overwritten versions of a sector than any device can bring back, of those that came to it.
const DEAD_VERSIONS_MAX: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Version {
    /// Which: the moment at which its write began.
    version: Moment,
    ended: Moment,
    overwritten: Moment,
    /// When a write ended that lies over it.
    superseded: Moment,
    /// The write, not ended, that a read has shown in its place, where it is overwritten for that
    /// alone; otherwise [`NEVER`].
    seen_instead: Moment,
    /// Its bytes are zeros, which do not say which write put them there.
    is_zeros: bool,
}

impl Version {
    /// Whether bytes that tell of `version` may be those of this one.
    const fn is_told_by(&self, version: Moment) -> bool {
        if self.is_zeros {
            version == ZEROS
        } else {
            version == self.version
        }
    }
}

/// What is wrong with the bytes of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// They are no write's bytes of this sector.
    Damaged,
    /// No client ever wrote this version there.
    NeverWritten,
    /// The version was overwritten before the read began.
    Overwritten,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Damaged => "bytes of no write",
            Self::NeverWritten => "a version that was never written there",
            Self::Overwritten => "a version that was overwritten before",
        })
    }
}

/// Forgets the oldest version that `is_dead`, where there are too many of them. Of several zeros
/// those go first: nobody can tell them apart, and trims that came to no device are among them, so
/// that they do not say how old the other versions are.
fn forget_oldest(versions: &mut Vec<Version>, is_dead: impl Fn(&Version) -> bool) {
    let dead = versions.iter().filter(|version| is_dead(version));
    if dead.clone().count() <= DEAD_VERSIONS_MAX {
        return;
    }
    let has_several_zeros = dead.clone().filter(|version| version.is_zeros).count() > 1;
    let oldest = dead
        .filter(|version| version.is_zeros || !has_several_zeros)
        .map(|version| (version.overwritten, version.version))
        .min();
    versions.retain(|version| Some((version.overwritten, version.version)) != oldest);
}

impl Shadow {
    /// Nothing written; all extents will be multiples of `granule_bytes`. `keeps_unflushed`: the
    /// power may fail.
    pub(crate) fn new(granule_bytes: u64, keeps_unflushed: bool) -> Self {
        Self {
            granule_bytes,
            clock: NEVER,
            granules: BTreeMap::new(),
            reads: BTreeSet::new(),
            keeps_unflushed,
            flushed: NEVER,
        }
    }

    /// The granules of an extent.
    fn granules_of(&self, extent: Extent) -> std::ops::Range<u64> {
        extent.offset() / self.granule_bytes..extent.end() / self.granule_bytes
    }

    /// The granules that were ever written.
    pub(crate) fn written(&self) -> Vec<Extent> {
        let granules = self.granules.keys();
        granules
            .map(|granule| Extent::new(granule * self.granule_bytes, self.granule_bytes))
            .collect()
    }

    /// How many versions are remembered.
    #[cfg(test)]
    pub(crate) fn version_count(&self) -> usize {
        self.granules.values().map(Vec::len).sum::<usize>() + self.reads.len()
    }

    /// A write begins; its version.
    pub(crate) fn begin_write(&mut self, extent: Extent) -> Moment {
        self.begin_change(extent, false)
    }

    /// A write of zeros begins, or a trim, which leaves zeros or nothing changed; its version.
    pub(crate) fn begin_zeros(&mut self, extent: Extent) -> Moment {
        self.begin_change(extent, true)
    }

    fn begin_change(&mut self, extent: Extent, is_zeros: bool) -> Moment {
        let version = self.tick();
        let oldest_read = self.reads.first().copied().unwrap_or(NOT_YET);
        for granule in self.granules_of(extent) {
            let versions = self.granules.entry(granule).or_insert_with(|| {
                vec![Version {
                    version: NEVER,
                    ended: NEVER,
                    overwritten: NOT_YET,
                    superseded: NOT_YET,
                    seen_instead: NEVER,
                    is_zeros: false,
                }]
            });
            // What was overwritten before every read in flight began can be no one's answer, unless
            // a power cut brings it back.
            let oldest_read = oldest_read.min(NOT_YET - 1);
            let is_dead = |version: &Version| {
                version.overwritten <= oldest_read && version.seen_instead == NEVER
            };
            let (keeps, flushed) = (self.keeps_unflushed, self.flushed);
            versions.retain(|version| !is_dead(version) || keeps && version.superseded > flushed);
            forget_oldest(versions, is_dead);
            versions.push(Version {
                version,
                ended: NOT_YET,
                overwritten: NOT_YET,
                superseded: NOT_YET,
                seen_instead: NEVER,
                is_zeros,
            });
        }
        version
    }

    /// The write of `version` is answered; `ok` says whether it was done.
    ///
    /// A write that failed may have been seen on a leg that is gone by now (`lost_leg`), and did
    /// not land on the others: what it was seen instead of is there again then, and nobody can help
    /// it.
    pub(crate) fn end_write(&mut self, extent: Extent, version: Moment, ok: bool, lost_leg: bool) {
        let now = self.tick();
        self.end_write_at(now, extent, version, (ok, lost_leg, false));
    }

    /// The write of `version` is answered well, and was to be durable then: no power cut brings
    /// back what it lies over.
    pub(crate) fn end_durable_write(&mut self, extent: Extent, version: Moment) {
        let now = self.tick();
        self.end_write_at(now, extent, version, (true, false, true));
    }

    fn end_write_at(
        &mut self,
        now: Moment,
        extent: Extent,
        version: Moment,
        (ok, lost_leg, is_durable): (bool, bool, bool),
    ) {
        for granule in self.granules_of(extent) {
            let versions = self.granules.get_mut(&granule);
            for other in versions.expect("its write began here") {
                if other.version == version {
                    other.ended = now;
                } else if ok && other.ended <= version {
                    other.overwritten = other.overwritten.min(now);
                    let superseded = if is_durable { NEVER } else { now };
                    other.superseded = other.superseded.min(superseded);
                    other.seen_instead = NEVER;
                } else if other.seen_instead == version {
                    other.seen_instead = NEVER;
                    if !ok && lost_leg {
                        other.overwritten = NOT_YET;
                    }
                }
            }
        }
    }

    /// The last moment that there was.
    pub(crate) const fn now(&self) -> Moment {
        self.clock
    }

    /// A read begins.
    pub(crate) fn begin_read(&mut self) -> Moment {
        let began = self.tick();
        self.reads.insert(began);
        began
    }

    /// A read that began at `began` is answered, well or not; call after [`Shadow::check_read`].
    pub(crate) fn end_read(&mut self, began: Moment) {
        self.reads.remove(&began);
    }

    /// A flush begins.
    pub(crate) fn begin_flush(&mut self) -> Moment {
        self.tick()
    }

    /// A flush that began at `began` is answered well.
    pub(crate) fn end_flush(&mut self, began: Moment) {
        self.flushed = self.flushed.max(began);
    }

    /// The power fails: who asked will never be answered, and of what was not flushed any version
    /// may be there from now on.
    pub(crate) fn cut_power(&mut self) {
        let now = self.tick();
        let flushed = std::mem::replace(&mut self.flushed, now);
        self.reads.clear();
        for versions in self.granules.values_mut() {
            versions.retain(|version| version.superseded > flushed);
            for version in versions {
                version.ended = version.ended.min(now);
                version.overwritten = NOT_YET;
                version.superseded = NOT_YET;
                version.seen_instead = NEVER;
            }
        }
    }

    /// Whether a read of `extent` that began at `began` may return what it did: `version_of` says
    /// it for each sector. Otherwise the first wrong sector, those aside that `is_damaged`: how
    /// many of them are wrong is the answer.
    pub(crate) fn check_read(
        &mut self,
        extent: Extent,
        began: Moment,
        version_of: impl Fn(u64) -> Option<Moment>,
        is_damaged: impl Fn(u64) -> bool,
    ) -> Result<u64, (u64, Wrong)> {
        let sectors_per_granule = self.granule_bytes / SECTOR_BYTES;
        let mut damaged_wrong = 0;
        for granule in self.granules_of(extent) {
            let mut last = None;
            let mut changes = 0;
            let first = granule * sectors_per_granule;
            for sector in first..first + sectors_per_granule {
                let version = version_of(sector);
                if last.is_some() && last == version {
                    continue;
                }
                let checked = version
                    .ok_or(Wrong::Damaged)
                    .and_then(|version| self.check_version(granule, began, version));
                if is_damaged(sector) {
                    damaged_wrong += u64::from(checked.is_err());
                    // It says nothing about the granule.
                    changes = 2;
                } else {
                    checked.map_err(|wrong| (sector, wrong))?;
                    last = version;
                    changes += 1;
                }
            }
            if let (Some(version), 1) = (last, changes) {
                self.observe(granule, began, version);
            }
        }
        Ok(damaged_wrong)
    }

    /// Whether a read that began at `began` may return `version` for a part of the granule.
    fn check_version(&self, granule: u64, began: Moment, version: Moment) -> Result<(), Wrong> {
        let Some(versions) = self.granules.get(&granule) else {
            return match version {
                NEVER => Ok(()),
                ZEROS => Err(Wrong::Damaged),
                _ => Err(Wrong::NeverWritten),
            };
        };
        let mut told = versions.iter().filter(|known| known.is_told_by(version));
        match told.clone().next() {
            Some(_) if told.all(|known| known.overwritten <= began) => Err(Wrong::Overwritten),
            Some(_) => Ok(()),
            // Forgotten, as all reads in flight began after it was overwritten, or never known.
            None if version < self.clock => Err(Wrong::Overwritten),
            None if version == ZEROS => Err(Wrong::Damaged),
            None => Err(Wrong::NeverWritten),
        }
    }

    /// Whether `version`, if it is one, may be there now.
    pub(crate) fn may_hold(&self, sector: u64, version: Option<Moment>) -> Result<(), Wrong> {
        let granule = sector * SECTOR_BYTES / self.granule_bytes;
        let version = version.ok_or(Wrong::Damaged)?;
        self.check_version(granule, self.clock, version)
    }

    /// `version` may be there again although another one was read: the leg that was read is gone.
    pub(crate) fn allow(&mut self, sector: u64, version: Moment) {
        let granule = sector * SECTOR_BYTES / self.granule_bytes;
        let now = self.clock;
        let Some(versions) = self.granules.get_mut(&granule) else {
            return;
        };
        let again = Version {
            version,
            ended: now,
            overwritten: NOT_YET,
            superseded: NOT_YET,
            seen_instead: NEVER,
            is_zeros: version == ZEROS,
        };
        // Of zeros, the newest.
        let known = versions.iter_mut().rfind(|known| known.is_told_by(version));
        match known {
            Some(known) if known.overwritten < NOT_YET => {
                *known = Version {
                    version: known.version,
                    ..again
                };
            }
            Some(_) => {}
            None => versions.push(again),
        }
    }

    /// All of a granule was read as `version` by a read that began at `began`: what had ended by
    /// then and was not read is overwritten.
    fn observe(&mut self, granule: u64, began: Moment, version: Moment) {
        let now = self.tick();
        if let Some(versions) = self.granules.get_mut(&granule) {
            // Where several may have been, the one that says least.
            let read = versions.iter().filter(|known| known.is_told_by(version));
            let read = read.max_by_key(|known| known.ended);
            let ended = read.map_or(NOT_YET, |known| known.ended);
            let seen = read.map_or(version, |known| known.version);
            for other in versions {
                if !other.is_told_by(version) && other.ended <= began {
                    let is_known = other.overwritten < NOT_YET && other.seen_instead == NEVER;
                    if ended == NOT_YET && !is_known {
                        other.seen_instead = seen;
                    }
                    other.overwritten = other.overwritten.min(now);
                    other.superseded = other.superseded.min(ended);
                }
            }
        }
    }

    fn tick(&mut self) -> Moment {
        self.clock += 1;
        self.clock
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::Extent;

    use super::{Moment, Shadow, Wrong, ZEROS};

    const GRANULE: Extent = Extent::new(4096, 4096);

    fn read(shadow: &mut Shadow, began: Moment, version: Moment) -> Result<(), Wrong> {
        let answer = shadow.check_read(GRANULE, began, |_| Some(version), |_| false);
        shadow.end_read(began);
        answer.map(drop).map_err(|(_, wrong)| wrong)
    }

    fn read_now(shadow: &mut Shadow, version: Moment) -> Result<(), Wrong> {
        let began = shadow.begin_read();
        read(shadow, began, version)
    }

    #[test]
    fn an_answered_write_is_read_from_then_on() {
        let mut shadow = Shadow::new(4096, false);
        assert_eq!(read_now(&mut shadow, 0), Ok(()));
        let write = shadow.begin_write(GRANULE);
        assert_eq!(read_now(&mut shadow, 0), Ok(()), "not done yet");
        let slow = shadow.begin_read();
        shadow.end_write(GRANULE, write, true, false);
        assert_eq!(read_now(&mut shadow, 0), Err(Wrong::Overwritten));
        assert_eq!(read_now(&mut shadow, write), Ok(()));
        assert_eq!(read(&mut shadow, slow, 0), Ok(()), "it began before");
        assert_eq!(read_now(&mut shadow, write + 100), Err(Wrong::NeverWritten));
    }

    #[test]
    fn a_read_that_saw_the_new_bytes_settles_it() {
        let mut shadow = Shadow::new(4096, false);
        let write = shadow.begin_write(GRANULE);
        assert_eq!(read_now(&mut shadow, write), Ok(()));
        assert_eq!(read_now(&mut shadow, 0), Err(Wrong::Overwritten));
    }

    #[test]
    fn reads_that_began_before_another_one_ended_may_see_less() {
        let mut shadow = Shadow::new(4096, false);
        let write = shadow.begin_write(GRANULE);
        let one = shadow.begin_read();
        let other = shadow.begin_read();
        assert_eq!(read(&mut shadow, one, write), Ok(()));
        assert_eq!(read(&mut shadow, other, 0), Ok(()));
        assert_eq!(read_now(&mut shadow, 0), Err(Wrong::Overwritten));
    }

    #[test]
    fn concurrent_writes_may_end_in_either_order_but_not_alternate() {
        let mut shadow = Shadow::new(4096, false);
        let one = shadow.begin_write(GRANULE);
        let other = shadow.begin_write(GRANULE);
        shadow.end_write(GRANULE, one, true, false);
        shadow.end_write(GRANULE, other, true, false);
        assert_eq!(read_now(&mut shadow, 0), Err(Wrong::Overwritten));
        assert_eq!(read_now(&mut shadow, one), Ok(()));
        assert_eq!(read_now(&mut shadow, other), Err(Wrong::Overwritten));
    }

    /// It was seen on a leg that is out before it fails on the others. Without a leg that is out it
    /// must not come to that, and a write that was answered well stays.
    #[test]
    fn a_failed_write_that_was_seen_goes_with_its_leg_alone() {
        for (ok, lost_leg, old) in [
            (false, true, Ok(())),
            (false, false, Err(Wrong::Overwritten)),
            (true, true, Err(Wrong::Overwritten)),
        ] {
            let mut shadow = Shadow::new(4096, false);
            let write = shadow.begin_write(GRANULE);
            assert_eq!(read_now(&mut shadow, write), Ok(()));
            assert_eq!(read_now(&mut shadow, 0), Err(Wrong::Overwritten));
            shadow.end_write(GRANULE, write, ok, lost_leg);
            assert_eq!(read_now(&mut shadow, 0), old, "{ok} {lost_leg}");
        }
    }

    #[test]
    fn a_failed_write_happened_or_not_for_good() {
        let mut shadow = Shadow::new(4096, false);
        let failed = shadow.begin_write(GRANULE);
        shadow.end_write(GRANULE, failed, false, false);
        assert_eq!(read_now(&mut shadow, 0), Ok(()));
        assert_eq!(read_now(&mut shadow, failed), Err(Wrong::Overwritten));
    }

    #[test]
    fn versions_are_forgotten_when_no_read_can_return_them() {
        let mut shadow = Shadow::new(4096, false);
        for _ in 0..1_000 {
            let write = shadow.begin_write(GRANULE);
            shadow.end_write(GRANULE, write, true, false);
        }
        assert!(shadow.granules[&1].len() <= 3);
        assert_eq!(read_now(&mut shadow, 5), Err(Wrong::Overwritten));
    }

    fn write(shadow: &mut Shadow) -> Moment {
        let version = shadow.begin_write(GRANULE);
        shadow.end_write(GRANULE, version, true, false);
        version
    }

    fn flush(shadow: &mut Shadow) {
        let began = shadow.begin_flush();
        shadow.end_flush(began);
    }

    #[test]
    fn what_was_flushed_survives_a_power_cut() {
        let mut shadow = Shadow::new(4096, true);
        let old = write(&mut shadow);
        let durable = write(&mut shadow);
        flush(&mut shadow);
        let unflushed = write(&mut shadow);
        let began = shadow.begin_flush();
        let in_flight = shadow.begin_write(GRANULE);
        shadow.cut_power();
        let _ = began;
        for gone in [0, old] {
            assert_eq!(
                read_now(&mut shadow, gone),
                Err(Wrong::Overwritten),
                "{gone}"
            );
        }
        // Any of the others, but only the one that was read first.
        assert_eq!(read_now(&mut shadow, unflushed), Ok(()));
        for other in [durable, in_flight] {
            assert_eq!(read_now(&mut shadow, other), Err(Wrong::Overwritten));
        }
        shadow.cut_power();
        assert_eq!(
            read_now(&mut shadow, durable),
            Err(Wrong::Overwritten),
            "settled"
        );
        assert_eq!(read_now(&mut shadow, unflushed), Ok(()));
    }

    /// Found as the random life of seed 1795405420536.
    #[test]
    fn trims_that_change_nothing_do_not_make_older_versions_impossible() {
        let mut shadow = Shadow::new(4096, true);
        let old = write(&mut shadow);
        for _ in 0..100 {
            let trim = shadow.begin_zeros(GRANULE);
            shadow.end_write(GRANULE, trim, true, false);
        }
        let newest = write(&mut shadow);
        assert!(shadow.version_count() < 40, "{}", shadow.version_count());
        shadow.cut_power();
        for possible in [old, ZEROS, newest] {
            let sector = GRANULE.offset() / 512;
            assert_eq!(shadow.may_hold(sector, Some(possible)), Ok(()));
        }
    }

    #[test]
    fn a_durable_write_needs_no_flush() {
        let mut shadow = Shadow::new(4096, true);
        let old = write(&mut shadow);
        let beside = shadow.begin_write(GRANULE);
        let durable = shadow.begin_write(GRANULE);
        shadow.end_durable_write(GRANULE, durable);
        shadow.cut_power();
        let began = shadow.begin_read();
        for (version, may) in [
            (0, Err(Wrong::Overwritten)),
            (old, Err(Wrong::Overwritten)),
            (beside, Ok(())),
            (durable, Ok(())),
        ] {
            assert_eq!(shadow.may_hold(8, Some(version)), may, "{version}");
        }
        shadow.end_read(began);
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it_began() {
        let mut shadow = Shadow::new(4096, true);
        let old = write(&mut shadow);
        let began = shadow.begin_flush();
        write(&mut shadow);
        shadow.end_flush(began);
        shadow.cut_power();
        assert_eq!(read_now(&mut shadow, old), Ok(()));
    }

    #[test]
    fn what_was_read_and_not_flushed_may_go_back_in_a_power_cut() {
        let mut shadow = Shadow::new(4096, true);
        let old = write(&mut shadow);
        let new = shadow.begin_write(GRANULE);
        assert_eq!(read_now(&mut shadow, new), Ok(()));
        flush(&mut shadow);
        shadow.cut_power();
        assert_eq!(
            read_now(&mut shadow, old),
            Ok(()),
            "the flush covers no write in flight"
        );
    }

    /// Zeros do not say whose they are, and a trim may have left what was there: whichever is read
    /// first stays.
    #[test]
    fn what_was_trimmed_reads_as_zeros_or_as_before_for_good() {
        for (first, other) in [(true, false), (false, true)] {
            let mut shadow = Shadow::new(4096, true);
            let old = write(&mut shadow);
            assert_eq!(read_now(&mut shadow, ZEROS), Err(Wrong::Damaged));
            let trim = shadow.begin_zeros(GRANULE);
            shadow.end_write(GRANULE, trim, false, false);
            let told = |is_zeros: bool| if is_zeros { ZEROS } else { old };
            assert_eq!(read_now(&mut shadow, told(first)), Ok(()));
            assert_eq!(read_now(&mut shadow, told(other)), Err(Wrong::Overwritten));
            flush(&mut shadow);
            shadow.cut_power();
            assert!(read_now(&mut shadow, told(other)).is_err());
            assert_eq!(read_now(&mut shadow, told(first)), Ok(()));
        }
        let mut shadow = Shadow::new(4096, false);
        let old = write(&mut shadow);
        let zeros = shadow.begin_zeros(GRANULE);
        shadow.end_write(GRANULE, zeros, true, false);
        assert_eq!(read_now(&mut shadow, old), Err(Wrong::Overwritten));
        assert_eq!(read_now(&mut shadow, ZEROS), Ok(()));
    }

    #[test]
    fn damaged_sectors_are_counted_and_prove_nothing() {
        let mut shadow = Shadow::new(4096, false);
        let old = write(&mut shadow);
        let new = write(&mut shadow);
        let began = shadow.begin_read();
        let mixed = |sector| Some(if sector == 9 { old } else { new });
        let checked = shadow.check_read(GRANULE, began, mixed, |sector| sector == 9);
        assert_eq!(checked, Ok(1));
        let checked = shadow.check_read(GRANULE, began, mixed, |sector| sector == 8);
        assert_eq!(checked, Err((9, Wrong::Overwritten)));
        let garbage = shadow.check_read(GRANULE, began, |_| None, |_| true);
        assert_eq!(garbage, Ok(8));
    }
}
