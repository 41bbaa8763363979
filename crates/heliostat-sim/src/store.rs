//! The bytes of one leg: pages that were written, everything else as it was never written.

use std::ops::Range;

use heliostat_engine::Map;
use heliostat_types::{Extent, LegId, SECTOR_BYTES};

use crate::contents::{Fidelity, SECTOR, fill_sector, sampled_sectors, version_of_sector};

/// Sectors of a page: the unit in which memory is taken.
const PAGE_SECTORS: usize = 8;
/// Bytes of a page on the device.
const PAGE_BYTES: u64 = PAGE_SECTORS as u64 * SECTOR_BYTES;
/// Pages of a table of the second level: 2 MiB of the device.
const TABLE_PAGES: usize = 512;

type Page = Option<Box<[u8]>>;

/// Sparse bytes of a leg. What is kept of each sector is said by the [`Fidelity`].
#[derive(Debug)]
pub(crate) struct Store {
    kept_bytes: usize,
    is_written: bool,
    map: Map,
    leg: LegId,
    tables: Vec<Option<Box<[Page]>>>,
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
        // A leg without any byte of the array has bytes that rot as well.
        let size_bytes = map.leg_bytes(leg).max(PAGE_BYTES);
        let tables = size_bytes.div_ceil(PAGE_BYTES * TABLE_PAGES as u64);
        Self {
            kept_bytes: fidelity.kept_bytes(),
            is_written: false,
            map,
            leg,
            tables: vec![None; as_index(tables)],
        }
    }

    /// Puts the stamps of what was never written into `bytes`, into the sampled sectors alone.
    ///
    /// # Panics
    /// Where something was written: samples of that would say nothing of the rest.
    pub(crate) fn read_samples(&self, extent: Extent, bytes: &mut [u8]) {
        assert!(!self.is_written, "samples are of what was never written");
        let first = extent.offset() / SECTOR_BYTES;
        for sector in sampled_sectors(extent) {
            let at = as_index(sector - first) * SECTOR;
            fill_sector(
                &mut bytes[at..at + self.kept_bytes],
                name(&self.map, self.leg, sector),
                0,
            );
        }
    }

    /// Copies the leg's bytes of `extent`, whole sectors, into `bytes`, of which only the sectors
    /// that `moves` says.
    pub(crate) fn read(&self, extent: Extent, bytes: &mut [u8], moves: impl Fn(u64) -> bool) {
        let kept_bytes = self.kept_bytes;
        for span in spans(extent) {
            let page = self.page(span.page);
            for (sector, in_page, at) in span.places().filter(|(sector, ..)| moves(*sector)) {
                let kept = &mut bytes[at..at + kept_bytes];
                match page {
                    Some(page) => kept.copy_from_slice(&page[in_page * kept_bytes..][..kept_bytes]),
                    None => fill_sector(kept, name(&self.map, self.leg, sector), 0),
                }
            }
        }
    }

    /// Copies `bytes` onto the leg at `extent`, of which only the sectors that `moves` says.
    pub(crate) fn write(&mut self, extent: Extent, bytes: &[u8], moves: impl Fn(u64) -> bool) {
        let kept_bytes = self.kept_bytes;
        for span in spans(extent) {
            let page = self.page_mut(span.page);
            for (_, in_page, at) in span.places().filter(|(sector, ..)| moves(*sector)) {
                let kept = &bytes[at..at + kept_bytes];
                page[in_page * kept_bytes..][..kept_bytes].copy_from_slice(kept);
            }
        }
    }

    /// Makes `extent`, whole sectors, zero, of which only the sectors that `moves` says.
    pub(crate) fn zero(&mut self, extent: Extent, moves: impl Fn(u64) -> bool) {
        let kept_bytes = self.kept_bytes;
        for span in spans(extent) {
            let page = self.page_mut(span.page);
            for (_, in_page, _) in span.places().filter(|(sector, ..)| moves(*sector)) {
                page[in_page * kept_bytes..][..kept_bytes].fill(0);
            }
        }
    }

    /// How many bytes of each sector are kept.
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// The kept bytes of a sector of the leg.
    pub(crate) fn sector(&self, sector: u64) -> Vec<u8> {
        let extent = Extent::new(sector * SECTOR_BYTES, SECTOR_BYTES);
        let mut bytes = vec![0; SECTOR];
        self.read(extent, &mut bytes, |_| true);
        bytes.truncate(self.kept_bytes);
        bytes
    }

    /// Makes the kept bytes of a sector of the leg these.
    pub(crate) fn set_sector(&mut self, sector: u64, bytes: &[u8]) {
        let kept_bytes = self.kept_bytes;
        let in_page = as_index(sector) % PAGE_SECTORS;
        let page = self.page_mut(sector / PAGE_SECTORS as u64);
        page[in_page * kept_bytes..][..kept_bytes].copy_from_slice(bytes);
    }

    /// The version of a sector of the array, which this leg holds; `None` where its bytes are no
    /// write's.
    pub(crate) fn version(&self, sector: u64) -> Option<u64> {
        version_of_sector(&self.sector(self.place_of(sector)), sector)
    }

    /// The sector of the leg in which one of the array lies, which the leg holds.
    pub(crate) fn place_of(&self, sector: u64) -> u64 {
        let extent = Extent::new(sector * SECTOR_BYTES, SECTOR_BYTES);
        self.map.on_leg(self.leg, extent).offset() / SECTOR_BYTES
    }

    /// The sectors of the array on pages of this leg that were written.
    pub(crate) fn written(&self) -> impl Iterator<Item = u64> + '_ {
        let tables = (0..).zip(&self.tables);
        let pages = tables.flat_map(|(table, pages)| {
            let pages = (table * TABLE_PAGES as u64..).zip(pages.iter().flatten());
            pages.filter_map(|(page, bytes)| bytes.as_ref().map(|_| page))
        });
        let sectors =
            pages.flat_map(|page| page * PAGE_SECTORS as u64..(page + 1) * PAGE_SECTORS as u64);
        sectors.filter_map(|sector| {
            let address = self.map.array_address(self.leg, sector * SECTOR_BYTES);
            address.map(|address| address / SECTOR_BYTES)
        })
    }

    fn page(&self, page: u64) -> Option<&[u8]> {
        let (table, at) = split(page);
        self.tables.get(table)?.as_ref()?[at].as_deref()
    }

    /// A page to write to; where it is new, with the bytes of what was never written.
    fn page_mut(&mut self, page: u64) -> &mut [u8] {
        self.is_written = true;
        let kept_bytes = self.kept_bytes;
        let (table, at) = split(page);
        let table =
            self.tables[table].get_or_insert_with(|| vec![None; TABLE_PAGES].into_boxed_slice());
        table[at].get_or_insert_with(|| {
            let mut bytes = vec![0; PAGE_SECTORS * kept_bytes].into_boxed_slice();
            let first = page * PAGE_SECTORS as u64;
            for (sector, kept) in (first..).zip(bytes.chunks_exact_mut(kept_bytes)) {
                fill_sector(kept, name(&self.map, self.leg, sector), 0);
            }
            bytes
        })
    }
}

/// The sector of the array that lies in a sector of a leg: by this name its bytes call it. In what
/// belongs to no byte of the array, a name that no client asks for.
fn name(map: &Map, leg: LegId, sector: u64) -> u64 {
    if map.is_mirror() {
        return sector;
    }
    let address = map.array_address(leg, sector * SECTOR_BYTES);
    address.map_or(sector | 1 << 63, |address| address / SECTOR_BYTES)
}

/// Table and index in it.
fn split(page: u64) -> (usize, usize) {
    (as_index(page) / TABLE_PAGES, as_index(page) % TABLE_PAGES)
}

fn as_index(number: u64) -> usize {
    usize::try_from(number).expect("the tables of all pages fit into memory")
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
    use crate::contents::{Fidelity, SECTOR, fill_sector, sampled_sectors, version_of_sector};

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
            assert_eq!(store.version(14), None);
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
