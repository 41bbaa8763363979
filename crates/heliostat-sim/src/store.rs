//! The bytes of one leg: pages that were written, everything else as it was never written.
//!
//! Below the place where the array's data begins, metadata lies: there every byte is kept, and what
//! was never written is zero.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut, Range};

use heliostat_engine::Map;
use heliostat_types::{Extent, LegId, SECTOR_BYTES};

use crate::contents::{
    Fidelity, SECTOR, fill_sector, held_in_sector, sampled_sectors, version_of_sector,
};

/// Sectors of a page: the unit in which memory is taken.
const PAGE_SECTORS: usize = 8;
/// Bytes of a page on the device.
const PAGE_BYTES: u64 = PAGE_SECTORS as u64 * SECTOR_BYTES;

/// A page that was written.
#[derive(Clone, Debug)]
enum Page {
    /// All of it by one write, or as if never: what its sectors hold follows from the version.
    Whole(u64),
    /// The kept bytes of its sectors.
    Bytes(Box<[u8]>),
}

/// Sparse bytes of a leg. What is kept of each sector of data is said by the [`Fidelity`]; of
/// metadata all is.
#[derive(Debug)]
pub(crate) struct Store {
    kept_bytes: usize,
    map: Map,
    leg: LegId,
    /// The first sector of the array's data.
    data_sector: u64,
    pages: BTreeMap<u64, Page>,
    /// Pages below the data, as they are.
    raw: BTreeMap<u64, Box<[u8]>>,
}

/// The kept bytes of one sector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptSector {
    bytes: [u8; SECTOR],
    kept_bytes: usize,
}

impl Deref for KeptSector {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.kept_bytes]
    }
}

impl DerefMut for KeptSector {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.kept_bytes]
    }
}

impl PartialEq for KeptSector {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// The part of a request that lies on one page.
#[derive(Clone, Debug)]
struct Span {
    page: u64,
    /// Sectors of the device.
    sectors: Range<u64>,
    /// Where their bytes begin in the request's.
    at: usize,
}

impl Span {
    /// Whether it is all of its page.
    const fn is_whole(&self) -> bool {
        self.sectors.end - self.sectors.start == PAGE_SECTORS as u64
    }

    /// Its sectors, where each is in the page, and where in the request.
    fn places(self) -> impl Iterator<Item = (u64, usize, usize)> {
        let in_page = as_index(self.sectors.start) % PAGE_SECTORS;
        let in_request = (self.at..).step_by(SECTOR);
        self.sectors
            .zip(in_page..)
            .zip(in_request)
            .map(|((sector, in_page), in_request)| (sector, in_page, in_request))
    }
}

impl Store {
    /// A leg of an array that was never written.
    pub(crate) fn new(map: Map, leg: LegId, fidelity: Fidelity) -> Self {
        Self {
            kept_bytes: fidelity.kept_bytes(),
            map,
            leg,
            data_sector: 0,
            pages: BTreeMap::new(),
            raw: BTreeMap::new(),
        }
    }

    /// The same where the array's data begins at `data_offset_bytes` of the leg.
    pub(crate) fn with_data_at(self, data_offset_bytes: u64) -> Self {
        assert!(
            data_offset_bytes.is_multiple_of(PAGE_BYTES),
            "data begins with a page"
        );
        Self {
            data_sector: data_offset_bytes / SECTOR_BYTES,
            ..self
        }
    }

    /// Its data is that of nobody from now on, and its place in the array that of leg `leg` of the
    /// map, until it is given what belongs there. The sectors that are no more what they were.
    pub(crate) fn become_another(&mut self, leg: LegId) -> Range<u64> {
        self.leg = leg;
        let data_bytes = self.map.leg_bytes(leg);
        let sectors = self.data_sector..self.data_sector + data_bytes / SECTOR_BYTES;
        for page in sectors.start / PAGE_SECTORS as u64..sectors.end.div_ceil(PAGE_SECTORS as u64) {
            let rubbish = vec![0x5a; PAGE_SECTORS * self.kept_bytes].into_boxed_slice();
            self.pages.insert(page, Page::Bytes(rubbish));
        }
        sectors
    }

    /// The leg of the map in whose place its data lies.
    pub(crate) const fn leg(&self) -> LegId {
        self.leg
    }

    /// The first sector of the array's data.
    pub(crate) const fn data_sector(&self) -> u64 {
        self.data_sector
    }

    /// Whether a page lies below the data.
    const fn is_raw(&self, page: u64) -> bool {
        page * (PAGE_SECTORS as u64) < self.data_sector
    }

    /// Where in the array a sector of the leg is, by the name that its bytes call it.
    fn name(&self, sector: u64) -> u64 {
        name(&self.map, self.leg, sector - self.data_sector)
    }

    /// Puts bytes there, below the data: whole sectors.
    pub(crate) fn put_raw(&mut self, offset_bytes: u64, bytes: &[u8]) {
        let extent = Extent::new(offset_bytes, bytes.len() as u64);
        assert!(extent.end() <= self.data_sector * SECTOR_BYTES, "metadata");
        self.write(extent, bytes, |_| true);
    }

    /// The bytes from `offset_bytes` on, below the data.
    pub(crate) fn raw_bytes(&self, offset_bytes: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let extent = Extent::new(offset_bytes, len as u64);
        assert!(extent.end() <= self.data_sector * SECTOR_BYTES, "metadata");
        self.read(extent, &mut bytes, |_| true);
        bytes
    }

    /// Puts the stamps of what was never written into `bytes`, into the sampled sectors alone.
    ///
    /// # Panics
    /// Where something was written: samples of that would say nothing of the rest.
    pub(crate) fn read_samples(&self, extent: Extent, bytes: &mut [u8]) {
        assert!(
            self.pages.is_empty(),
            "samples are of what was never written"
        );
        let first = extent.offset() / SECTOR_BYTES;
        for sector in sampled_sectors(extent) {
            let at = as_index(sector - first) * SECTOR;
            fill_sector(&mut bytes[at..at + self.kept_bytes], self.name(sector), 0);
        }
    }

    /// Copies the leg's bytes of `extent`, whole sectors, into `bytes`, of which only the sectors
    /// that `moves` says.
    pub(crate) fn read(&self, extent: Extent, bytes: &mut [u8], moves: impl Fn(u64) -> bool) {
        let kept_bytes = self.kept_bytes;
        for span in spans(extent) {
            if self.is_raw(span.page) {
                let page = self.raw.get(&span.page);
                for (_, in_page, at) in span.places().filter(|(sector, ..)| moves(*sector)) {
                    let to = &mut bytes[at..at + SECTOR];
                    match page {
                        Some(page) => to.copy_from_slice(&page[in_page * SECTOR..][..SECTOR]),
                        None => to.fill(0),
                    }
                }
                continue;
            }
            let page = self.pages.get(&span.page);
            for (sector, in_page, at) in span.places().filter(|(sector, ..)| moves(*sector)) {
                let kept = &mut bytes[at..at + kept_bytes];
                let version = match page {
                    Some(Page::Bytes(page)) => {
                        kept.copy_from_slice(&page[in_page * kept_bytes..][..kept_bytes]);
                        continue;
                    }
                    Some(Page::Whole(version)) => *version,
                    None => 0,
                };
                fill_sector(kept, self.name(sector), version);
            }
        }
    }

    /// Copies `bytes` onto the leg at `extent`, of which only the sectors that `moves` says.
    pub(crate) fn write(&mut self, extent: Extent, bytes: &[u8], moves: impl Fn(u64) -> bool) {
        let kept_bytes = self.kept_bytes;
        for span in spans(extent) {
            let page = span.page;
            if self.is_raw(page) {
                let page = self.raw_page(page);
                for (_, in_page, at) in span.places().filter(|(sector, ..)| moves(*sector)) {
                    page[in_page * SECTOR..][..SECTOR].copy_from_slice(&bytes[at..at + SECTOR]);
                }
                continue;
            }
            if span.is_whole() && span.sectors.clone().all(&moves) {
                let kept = |sector: usize| &bytes[span.at + sector * SECTOR..][..kept_bytes];
                if let Some(version) = self.version_of_page(page, kept) {
                    self.pages.insert(page, Page::Whole(version));
                    continue;
                }
            }
            self.change(page, |page| {
                for (_, in_page, at) in span.places().filter(|(sector, ..)| moves(*sector)) {
                    let kept = &bytes[at..at + kept_bytes];
                    page[in_page * kept_bytes..][..kept_bytes].copy_from_slice(kept);
                }
            });
        }
    }

    /// Makes `extent`, whole sectors, zero, of which only the sectors that `moves` says.
    pub(crate) fn zero(&mut self, extent: Extent, moves: impl Fn(u64) -> bool) {
        let kept_bytes = self.kept_bytes;
        for span in spans(extent) {
            if self.is_raw(span.page) {
                let page = self.raw_page(span.page);
                for (_, in_page, _) in span.places().filter(|(sector, ..)| moves(*sector)) {
                    page[in_page * SECTOR..][..SECTOR].fill(0);
                }
                continue;
            }
            self.change(span.page, |page| {
                for (_, in_page, _) in span.places().filter(|(sector, ..)| moves(*sector)) {
                    page[in_page * kept_bytes..][..kept_bytes].fill(0);
                }
            });
        }
    }

    /// A page below the data.
    fn raw_page(&mut self, page: u64) -> &mut [u8] {
        let new = || vec![0; as_index(PAGE_BYTES)].into_boxed_slice();
        self.raw.entry(page).or_insert_with(new)
    }

    /// How many bytes of a sector are kept.
    pub(crate) const fn kept_bytes(&self, sector: u64) -> usize {
        if sector < self.data_sector {
            SECTOR
        } else {
            self.kept_bytes
        }
    }

    /// The kept bytes of a sector of the leg.
    pub(crate) fn sector(&self, sector: u64) -> KeptSector {
        let extent = Extent::new(sector * SECTOR_BYTES, SECTOR_BYTES);
        let mut kept = KeptSector {
            bytes: [0; SECTOR],
            kept_bytes: self.kept_bytes(sector),
        };
        self.read(extent, &mut kept.bytes, |_| true);
        kept
    }

    /// Makes the kept bytes of a sector of the leg these.
    pub(crate) fn set_sector(&mut self, sector: u64, bytes: &[u8]) {
        let kept_bytes = self.kept_bytes(sector);
        let in_page = as_index(sector) % PAGE_SECTORS;
        if self.is_raw(sector / PAGE_SECTORS as u64) {
            let page = self.raw_page(sector / PAGE_SECTORS as u64);
            page[in_page * SECTOR..][..kept_bytes].copy_from_slice(bytes);
            return;
        }
        self.change(sector / PAGE_SECTORS as u64, |page| {
            page[in_page * kept_bytes..][..kept_bytes].copy_from_slice(bytes);
        });
    }

    /// The version of a sector of the array, which this leg holds, or that it is zeros; `None`
    /// where its bytes are no write's.
    pub(crate) fn version(&self, sector: u64) -> Option<u64> {
        let place = self.place_of(sector);
        let whole = self.version_of_whole(place);
        whole.or_else(|| held_in_sector(&self.sector(place), sector))
    }

    /// Whether a sector of this leg and one of another, which hold the same one of the array, hold
    /// the same bytes.
    pub(crate) fn is_equal(&self, here: u64, other: &Self, there: u64) -> bool {
        match (self.version_of_whole(here), other.version_of_whole(there)) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => self.sector(here) == other.sector(there),
        }
    }

    /// The version of a sector of the leg where its page is of one write.
    fn version_of_whole(&self, sector: u64) -> Option<u64> {
        match self.pages.get(&(sector / PAGE_SECTORS as u64)) {
            None => Some(0),
            Some(Page::Whole(version)) => Some(*version),
            Some(Page::Bytes(_)) => None,
        }
    }

    /// The sector of the leg in which one of the array lies, which the leg holds.
    pub(crate) fn place_of(&self, sector: u64) -> u64 {
        let extent = Extent::new(sector * SECTOR_BYTES, SECTOR_BYTES);
        self.data_sector + self.map.on_leg(self.leg, extent).offset() / SECTOR_BYTES
    }

    /// Whether the page that begins with a sector of the array, which both legs hold, is of the
    /// same write on both.
    pub(crate) fn is_page_equal(&self, other: &Self, sector: u64) -> bool {
        let mine = self.version_of_whole(self.place_of(sector));
        mine.is_some() && mine == other.version_of_whole(other.place_of(sector))
    }

    /// The pages of this leg that were written, each as sectors of the array: chunks are of whole
    /// pages, so that what is a page here is one on every leg.
    pub(crate) fn written_pages(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let address = |sector: u64| {
            let in_data = sector - self.data_sector;
            let address = self.map.array_address(self.leg, in_data * SECTOR_BYTES);
            address.map(|address| address / SECTOR_BYTES)
        };
        self.pages.keys().filter_map(move |page| {
            let first = page * PAGE_SECTORS as u64;
            let start = address(first)?;
            let last = (first..first + PAGE_SECTORS as u64)
                .rev()
                .find_map(address)?;
            Some(start..last + 1)
        })
    }

    /// The sectors of the array on pages of this leg that were written.
    pub(crate) fn written(&self) -> impl Iterator<Item = u64> + '_ {
        self.written_pages().flatten()
    }

    /// Changes the kept bytes of a page, and keeps it as small as it can be.
    fn change(&mut self, page: u64, change: impl FnOnce(&mut [u8])) {
        let mut bytes = match self.pages.remove(&page) {
            Some(Page::Bytes(bytes)) => bytes,
            Some(Page::Whole(version)) => self.bytes_of_page(page, version),
            None => self.bytes_of_page(page, 0),
        };
        change(&mut bytes);
        let kept = |sector: usize| &bytes[sector * self.kept_bytes..][..self.kept_bytes];
        let changed = match self.version_of_page(page, kept) {
            Some(version) => Page::Whole(version),
            None => Page::Bytes(bytes),
        };
        self.pages.insert(page, changed);
    }

    /// The kept bytes of a page that one write wrote.
    fn bytes_of_page(&self, page: u64, version: u64) -> Box<[u8]> {
        let mut bytes = vec![0; PAGE_SECTORS * self.kept_bytes].into_boxed_slice();
        let first = page * PAGE_SECTORS as u64;
        for (sector, kept) in (first..).zip(bytes.chunks_exact_mut(self.kept_bytes)) {
            fill_sector(kept, self.name(sector), version);
        }
        bytes
    }

    /// The version of all sectors of a page, whose kept bytes `kept` has by their index in it;
    /// `None` where there is not one for all.
    fn version_of_page<'a>(&self, page: u64, kept: impl Fn(usize) -> &'a [u8]) -> Option<u64> {
        let first = page * PAGE_SECTORS as u64;
        let mut versions = (first..)
            .zip(0..PAGE_SECTORS)
            .map(|(sector, in_page)| version_of_sector(kept(in_page), self.name(sector)));
        let version = versions.next()??;
        versions
            .all(|other| other == Some(version))
            .then_some(version)
    }
}

/// The sector of the array that lies in a sector of a leg's data: by this name its bytes call it.
/// In what belongs to no byte of the array, a name that no client asks for.
fn name(map: &Map, leg: LegId, sector: u64) -> u64 {
    if map.is_mirror() {
        return sector;
    }
    let address = map.array_address(leg, sector * SECTOR_BYTES);
    address.map_or(sector | 1 << 63, |address| address / SECTOR_BYTES)
}

fn as_index(number: u64) -> usize {
    usize::try_from(number).expect("what one request or page has fits into memory")
}

/// The pages of an extent of whole sectors.
fn spans(extent: Extent) -> impl Iterator<Item = Span> {
    assert!(
        extent.is_aligned(SECTOR_BYTES),
        "legs are read and written in whole sectors"
    );
    let pages = extent.offset() / PAGE_BYTES..extent.end().div_ceil(PAGE_BYTES);
    pages.map(move |page| {
        let start = extent.offset().max(page * PAGE_BYTES);
        let end = extent.end().min((page + 1) * PAGE_BYTES);
        Span {
            page,
            sectors: start / SECTOR_BYTES..end / SECTOR_BYTES,
            at: as_index(start - extent.offset()),
        }
    })
}

#[cfg(test)]
mod tests {
    use heliostat_engine::{Layout, Map};
    use heliostat_types::{Extent, LegId};

    use super::{Store, as_index};
    use crate::contents::{
        Fidelity, SECTOR, ZEROS, fill_sector, sampled_sectors, version_of_sector,
    };

    fn mirrored(size_bytes: u64, fidelity: Fidelity) -> Store {
        Store::new(Map::mirror(1, size_bytes), LegId::new(0), fidelity)
    }

    fn written(sectors: std::ops::Range<u64>, version: u64) -> (Extent, Vec<u8>) {
        let extent = Extent::from_range(sectors.start * 512, sectors.end * 512);
        let mut bytes = vec![0; usize::try_from(extent.len()).unwrap()];
        for (sector, bytes) in sectors.zip(bytes.chunks_exact_mut(SECTOR)) {
            fill_sector(bytes, sector, version);
        }
        (extent, bytes)
    }

    #[test]
    fn what_was_written_is_read_and_the_rest_as_never_written() {
        for fidelity in [Fidelity::Bytes, Fidelity::Stamps] {
            let mut store = mirrored(1 << 40, fidelity);
            let (extent, bytes) = written(13..31, 5);
            store.write(extent, &bytes, |_| true);
            assert_eq!(store.version(12), Some(0));
            assert_eq!(store.version(13), Some(5));
            assert_eq!(store.version(30), Some(5));
            assert_eq!(store.version(31), Some(0));
            assert_eq!(store.version((1 << 31) - 1), Some(0));
            store.zero(Extent::new(14 * 512, 512), |_| true);
            assert_eq!(store.version(14), Some(ZEROS));
        }
    }

    #[test]
    fn samples_show_what_is_misplaced_or_missing() {
        let store = mirrored(1 << 30, Fidelity::Stamps);
        let extent = Extent::new(1 << 20, 256 << 10);
        let mut bytes = vec![0xdb; 256 << 10];
        // What a check of the whole read says of each sample.
        let told = |bytes: &[u8]| -> Vec<Option<u64>> {
            let samples = sampled_sectors(extent).map(|sector| {
                let at = as_index(sector - extent.offset() / 512) * SECTOR;
                version_of_sector(&bytes[at..at + 16], sector)
            });
            samples.collect()
        };
        store.read_samples(extent, &mut bytes);
        assert_eq!(told(&bytes), [Some(0); 9]);
        // A quarter of the read comes from the sector behind its place, then not at all.
        let quarter = Extent::new((1 << 20) + (64 << 10), 64 << 10);
        let moved = Extent::new(quarter.offset() + 512, quarter.len());
        store.read_samples(moved, &mut bytes[64 << 10..128 << 10]);
        assert!(told(&bytes).contains(&None));
        store.read_samples(extent, &mut bytes);
        bytes[64 << 10..128 << 10].fill(0xdb);
        assert!(told(&bytes).contains(&None));
    }

    /// A page of one write needs no bytes, one that was written in halves needs none in the end,
    /// and one with a sector that is no write's does.
    #[test]
    fn pages_are_as_small_as_they_can_be() {
        let mut store = mirrored(1 << 20, Fidelity::Bytes);
        let (extent, bytes) = written(8..16, 4);
        let is_small = |store: &Store| matches!(store.pages[&1], super::Page::Whole(4));
        store.write(extent, &bytes, |_| true);
        assert!(is_small(&store));
        store.set_sector(9, &[7; SECTOR]);
        assert!(!is_small(&store));
        assert_eq!((store.version(8), store.version(9)), (Some(4), None));
        store.write(extent, &bytes, |sector| sector % 2 == 0);
        assert!(!is_small(&store));
        store.write(extent, &bytes, |sector| sector % 2 == 1);
        assert!(is_small(&store));
        let other = mirrored(1 << 20, Fidelity::Bytes);
        assert!(store.is_equal(16, &other, 16) && !store.is_equal(15, &other, 15));
        assert!(store.is_page_equal(&other, 16) && !store.is_page_equal(&other, 8));
    }

    /// The last page of an array may be less than one, and a page in bytes is compared by sectors.
    #[test]
    fn pages_are_compared_where_they_are_of_one_write() {
        let store_of = |sectors: std::ops::Range<u64>| {
            let mut store = mirrored(13 * 512, Fidelity::Bytes);
            let (extent, bytes) = written(sectors, 4);
            store.write(extent, &bytes, |_| true);
            store
        };
        let (store, same) = (store_of(9..13), store_of(9..13));
        assert!(store.written_pages().eq(std::iter::once(8..13)));
        assert!(!store.is_page_equal(&same, 8) && store.is_equal(9, &same, 9));
        assert!(store_of(0..8).is_page_equal(&store_of(0..8), 0));
    }

    /// Below the data every byte is kept whatever is kept of the data, and pages of the data are
    /// called by the array's sectors.
    #[test]
    fn metadata_is_kept_as_it_is() {
        for fidelity in [Fidelity::Bytes, Fidelity::Stamps] {
            let mut store = mirrored(1 << 20, fidelity).with_data_at(1 << 20);
            let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(4096).collect();
            store.write(Extent::new(4096, 4096), &bytes, |sector| sector != 9);
            assert_eq!(store.raw_bytes(4096, 512), bytes[..512]);
            assert_eq!(store.raw_bytes(4608, 512), [0; 512]);
            assert_eq!(store.sector(15)[..], bytes[7 * 512..]);
            store.zero(Extent::new(4096, 512), |_| true);
            assert_eq!(store.raw_bytes(0, 8192)[..5120], [0; 5120]);
            store.set_sector(3, &bytes[..512]);
            assert_eq!(store.raw_bytes(1536, 512), bytes[..512]);
            assert_eq!((store.place_of(0), store.written().count()), (2048, 0));
            let (extent, bytes) = written(0..8, 6);
            store.write(Extent::new(1 << 20, extent.len()), &bytes, |_| true);
            assert_eq!((store.version(7), store.version(8)), (Some(6), Some(0)));
            assert_eq!(store.sector(2048).len(), fidelity.kept_bytes());
            assert!(store.written().eq(0..8));
        }
    }

    #[test]
    fn a_torn_write_lands_in_part() {
        let mut store = mirrored(1 << 20, Fidelity::Bytes);
        let (extent, bytes) = written(0..8, 1);
        store.write(extent, &bytes, |sector| sector % 2 == 0);
        let versions: Vec<_> = (0..4).map(|sector| store.version(sector)).collect();
        assert_eq!(versions, [Some(1), Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn bytes_are_called_by_the_sector_of_the_array() {
        let layout = Layout::parse("offset=2").unwrap();
        let map = Map::for_size(layout, 4, 16 << 20).unwrap();
        let mut store = Store::new(map, LegId::new(1), Fidelity::Bytes);
        // Its second chunk is a copy of the array's first one.
        let (extent, bytes) = written(8..16, 3);
        store.write(
            Extent::new((512 << 10) + extent.offset(), 4096),
            &bytes,
            |_| true,
        );
        assert_eq!(store.version(8), Some(3));
        assert_eq!(store.version(16), Some(0));
        assert_eq!(store.version(1024), Some(0), "in its first chunk");
        assert!(store.written().eq(8..16));
    }
}
