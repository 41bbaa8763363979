//! What legs share: one drive in partitions, and a link that their bytes pass one after the other.

#![expect(
    clippy::disallowed_types,
    reason = "legs look at one device and one link; one thread has them all"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use heliostat_model::{DeviceModel, DeviceSpec};
use heliostat_types::{Duration, ErrorKind, Extent, Instant, LegOpId, OpKind, Prng, RandomStream};

type Ended = (LegOpId, Result<(), ErrorKind>);

/// Partitions of one drive.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    drive: Arc<Mutex<Drive>>,
    /// The partition's part of the drive.
    part: Extent,
    number: usize,
    spec: DeviceSpec,
}

#[derive(Clone, Debug)]
struct Drive {
    model: Box<dyn DeviceModel>,
    /// By operation, whose it is.
    owners: BTreeMap<LegOpId, usize>,
    /// What has ended and not been fetched, by partition.
    ended: BTreeMap<usize, Vec<(Instant, Ended)>>,
}

impl Partition {
    /// The drive `model` cut into `parts`.
    pub(crate) fn cut(model: Box<dyn DeviceModel>, parts: &[Extent]) -> Vec<Self> {
        let spec = *model.spec();
        let drive = Arc::new(Mutex::new(Drive {
            model,
            owners: BTreeMap::new(),
            ended: BTreeMap::new(),
        }));
        let parts = parts.iter().enumerate();
        parts
            .map(|(number, part)| Self {
                drive: drive.clone(),
                part: *part,
                number,
                spec: DeviceSpec {
                    size_bytes: part.len(),
                    ..spec
                },
            })
            .collect()
    }

    fn drive(&self) -> MutexGuard<'_, Drive> {
        self.drive.lock().expect("nobody panics holding it")
    }
}

impl DeviceModel for Partition {
    fn spec(&self) -> &DeviceSpec {
        &self.spec
    }

    fn submit(
        &mut self,
        now: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
        prng: &mut dyn Prng,
    ) {
        let mut drive = self.drive();
        drive.owners.insert(op, self.number);
        let on_drive = Extent::new(self.part.offset() + extent.offset(), extent.len());
        drive.model.submit(now, op, kind, on_drive, prng);
    }

    /// The same drive with all its partitions, apart from this one from now on.
    fn clone_box(&self) -> Box<dyn DeviceModel> {
        let drive = self.drive().clone();
        Box::new(Self {
            drive: Arc::new(Mutex::new(drive)),
            ..self.clone()
        })
    }

    fn next_event_at(&self) -> Option<Instant> {
        let drive = self.drive();
        let mine = drive.ended.get(&self.number);
        let ended = mine.and_then(|mine| mine.first()).map(|(at, _)| *at);
        ended.into_iter().chain(drive.model.next_event_at()).min()
    }

    fn poll_completion(&mut self, now: Instant) -> Option<Ended> {
        let mut drive = self.drive();
        while let Some(ended) = drive.model.poll_completion(now) {
            let owner = drive.owners.remove(&ended.0);
            let owner = owner.expect("a device ends each operation once");
            drive.ended.entry(owner).or_default().push((now, ended));
        }
        let mine = drive.ended.get_mut(&self.number)?;
        (!mine.is_empty()).then(|| mine.remove(0).1)
    }
}

/// A link that several legs share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    bytes_per_s: u64,
    free_at: Instant,
}

impl Link {
    pub(crate) const fn new(bytes_per_s: u64) -> Self {
        Self {
            bytes_per_s,
            free_at: Instant::ZERO,
        }
    }

    /// When bytes that come at `at` are through.
    fn pass(&mut self, at: Instant, len_bytes: u64) -> Instant {
        let ns = u128::from(len_bytes) * 1_000_000_000;
        let ns = ns.div_ceil(u128::from(self.bytes_per_s));
        let time = Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX));
        self.free_at = self.free_at.max(at) + time;
        self.free_at
    }
}

/// A device behind a link: bytes of writes pass it before the device, those of reads after it.
#[derive(Debug)]
pub(crate) struct Linked {
    inner: Box<dyn DeviceModel>,
    link: Arc<Mutex<Link>>,
    luck: RandomStream,
    /// Writes on their way to the device, by arrival there.
    coming: BTreeMap<(Instant, LegOpId), (OpKind, Extent)>,
    /// Bytes of the reads in the device.
    reading: BTreeMap<LegOpId, u64>,
    /// What is on its way back.
    ended: BTreeMap<(Instant, LegOpId), Result<(), ErrorKind>>,
}

impl Linked {
    pub(crate) fn new(
        inner: Box<dyn DeviceModel>,
        link: Arc<Mutex<Link>>,
        luck: RandomStream,
    ) -> Self {
        Self {
            inner,
            link,
            luck,
            coming: BTreeMap::new(),
            reading: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    fn pass(&self, at: Instant, len_bytes: u64) -> Instant {
        let mut link = self.link.lock().expect("nobody panics holding it");
        link.pass(at, len_bytes)
    }

    /// Hands to the device what has passed the link by `now`, before it hears of anything later.
    fn hand_on(&mut self, now: Instant) {
        while let Some(entry) = self.coming.first_entry()
            && entry.key().0 <= now
        {
            let ((at, op), (kind, extent)) = entry.remove_entry();
            self.inner.submit(at, op, kind, extent, &mut self.luck);
        }
    }
}

/// A link to be shared.
pub(crate) fn shared_link(bytes_per_s: u64) -> Arc<Mutex<Link>> {
    Arc::new(Mutex::new(Link::new(bytes_per_s)))
}

impl DeviceModel for Linked {
    fn spec(&self) -> &DeviceSpec {
        self.inner.spec()
    }

    fn submit(
        &mut self,
        now: Instant,
        op: LegOpId,
        kind: OpKind,
        extent: Extent,
        prng: &mut dyn Prng,
    ) {
        self.hand_on(now);
        if kind == OpKind::Write {
            let at = self.pass(now, extent.len());
            self.coming.insert((at, op), (kind, extent));
            return;
        }
        if kind == OpKind::Read {
            self.reading.insert(op, extent.len());
        }
        self.inner.submit(now, op, kind, extent, prng);
    }

    fn clone_box(&self) -> Box<dyn DeviceModel> {
        let link = *self.link.lock().expect("nobody panics holding it");
        Box::new(Self {
            inner: self.inner.clone(),
            link: Arc::new(Mutex::new(link)),
            luck: self.luck.clone(),
            coming: self.coming.clone(),
            reading: self.reading.clone(),
            ended: self.ended.clone(),
        })
    }

    fn next_event_at(&self) -> Option<Instant> {
        let coming = self.coming.keys().next().map(|(at, _)| *at);
        let ended = self.ended.keys().next().map(|(at, _)| *at);
        let inner = self.inner.next_event_at();
        coming.into_iter().chain(ended).chain(inner).min()
    }

    fn poll_completion(&mut self, now: Instant) -> Option<Ended> {
        self.hand_on(now);
        while let Some((op, result)) = self.inner.poll_completion(now) {
            let at = match self.reading.remove(&op) {
                Some(len_bytes) if result.is_ok() => self.pass(now, len_bytes),
                Some(_) | None => now,
            };
            self.ended.insert((at, op), result);
        }
        let entry = self.ended.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        let ((_, op), result) = entry.remove_entry();
        Some((op, result))
    }
}

#[cfg(test)]
mod tests {
    use heliostat_model::{DeviceModel, drive};
    use heliostat_types::{Extent, Instant, LegOpId, OpKind, RandomStream};

    use super::{Linked, Partition, shared_link};

    fn ram() -> Box<dyn DeviceModel> {
        let mut prng = RandomStream::new(1, "leg", 0);
        drive("ram").unwrap().params.build(&mut prng)
    }

    fn submit(device: &mut dyn DeviceModel, op: u64, kind: OpKind) {
        let mut prng = RandomStream::new(1, "luck", 0);
        let extent = Extent::new(0, 4096);
        device.submit(Instant::ZERO, LegOpId(op), kind, extent, &mut prng);
    }

    fn ends(device: &mut dyn DeviceModel) -> Vec<(u64, u64)> {
        let mut ends = Vec::new();
        while let Some(at) = device.next_event_at() {
            if let Some((op, _)) = device.poll_completion(at) {
                ends.push((op.0, at.as_ns()));
            }
        }
        ends
    }

    #[test]
    fn bytes_pass_a_shared_link_one_after_the_other() {
        // 4096 bytes take 4096 ns on the link and 1410 ns in the memory.
        let link = shared_link(1_000_000_000);
        let luck = RandomStream::new(1, "link", 0);
        let mut one = Linked::new(ram(), link.clone(), luck.clone());
        let mut other = Linked::new(ram(), link, luck);
        submit(&mut one, 1, OpKind::Write);
        submit(&mut other, 2, OpKind::Write);
        assert_eq!(ends(&mut one), [(1, 4_096 + 1_410)]);
        assert_eq!(ends(&mut other), [(2, 2 * 4_096 + 1_410)]);
        let mut reader = Linked::new(
            ram(),
            shared_link(1_000_000_000),
            RandomStream::new(1, "", 0),
        );
        submit(&mut reader, 1, OpKind::Read);
        submit(&mut reader, 2, OpKind::Read);
        let ends = ends(&mut reader);
        assert_eq!(ends, [(1, 1_410 + 4_096), (2, 1_410 + 2 * 4_096)]);
    }

    #[test]
    fn what_has_passed_the_link_comes_before_what_is_asked_later() {
        let luck = || RandomStream::new(1, "link", 0);
        let mut device = Linked::new(ram(), shared_link(1_000_000_000), luck());
        submit(&mut device, 1, OpKind::Write);
        // Nobody has looked since the write passed the link, after 4096 ns.
        let later = Instant::from_ns(1_000_000);
        let extent = Extent::new(0, 4096);
        device.submit(later, LegOpId(2), OpKind::Flush, extent, &mut luck());
        assert_eq!(
            device.inner.next_event_at(),
            Some(Instant::from_ns(4_096 + 1_410))
        );
    }

    #[test]
    fn partitions_of_one_drive_wait_for_each_other() {
        let mut prng = RandomStream::new(1, "leg", 0);
        let hdd = || drive("hdd-7200-2tb").unwrap().params;
        let alone = {
            let mut device = hdd().build(&mut prng);
            submit(device.as_mut(), 1, OpKind::Read);
            ends(device.as_mut())[0].1
        };
        let mut prng = RandomStream::new(1, "leg", 0);
        let parts = [Extent::new(0, 1 << 30), Extent::new(1 << 30, 1 << 30)];
        let mut parts = Partition::cut(hdd().build(&mut prng), &parts);
        let [one, other] = parts.as_mut_slice() else {
            panic!("two");
        };
        submit(one, 1, OpKind::Read);
        submit(other, 2, OpKind::Read);
        let first = ends(one);
        assert_eq!(first, [(1, alone)]);
        assert!(ends(other)[0].1 >= alone);
    }
}
