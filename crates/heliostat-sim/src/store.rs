//! The bytes of one leg: pages that were written, everything else as it was never written.

use std::ops::Range;

use heliostat_types::{Extent, SECTOR_BYTES};

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
    /// A leg of `size_bytes` that was never written.
    pub(crate) fn new(size_bytes: u64, fidelity: Fidelity) -> Self {
        let tables = size_bytes.div_ceil(PAGE_BYTES * TABLE_PAGES as u64);
        Self {
            kept_bytes: fidelity.kept_bytes(),
            is_written: false,
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
            fill_sector(&mut bytes[at..at + self.kept_bytes], sector, 0);
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
                    None => fill_sector(kept, sector, 0),
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

    /// The kept bytes of a sector.
    pub(crate) fn sector(&self, sector: u64) -> Vec<u8> {
        let extent = Extent::new(sector * SECTOR_BYTES, SECTOR_BYTES);
        let mut bytes = vec![0; SECTOR];
        self.read(extent, &mut bytes, |_| true);
        bytes.truncate(self.kept_bytes);
        bytes
    }

    /// Makes a sector's kept bytes these.
    pub(crate) fn set_sector(&mut self, sector: u64, bytes: &[u8]) {
        let kept_bytes = self.kept_bytes;
        let in_page = as_index(sector) % PAGE_SECTORS;
        let page = self.page_mut(sector / PAGE_SECTORS as u64);
        page[in_page * kept_bytes..][..kept_bytes].copy_from_slice(bytes);
    }

    /// The version of a sector; `None` where its bytes are no write's.
    pub(crate) fn version(&self, sector: u64) -> Option<u64> {
        let extent = Extent::new(sector * SECTOR_BYTES, SECTOR_BYTES);
        let mut bytes = [0; SECTOR];
        self.read(extent, &mut bytes, |_| true);
        version_of_sector(&bytes[..self.kept_bytes], sector)
    }

    /// The first sector, of those that `counts` says, that `self` and `other` hold different bytes
    /// of.
    pub(crate) fn first_difference(
        &self,
        other: &Self,
        counts: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        self.written_with(other)
            .find(|&sector| counts(sector) && self.sector(sector) != other.sector(sector))
    }

    /// The sectors that lie on pages of which `self` or `other` has bytes.
    pub(crate) fn written_with<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = u64> {
        let tables = self.tables.len().max(other.tables.len());
        let pages = (0..tables).flat_map(|table| {
            let is_written = |store: &Self| store.tables.get(table).is_some_and(Option::is_some);
            let count = if is_written(self) || is_written(other) {
                TABLE_PAGES as u64
            } else {
                0
            };
            let first = table as u64 * TABLE_PAGES as u64;
            first..first + count
        });
        pages
            .filter(|page| self.page(*page).is_some() || other.page(*page).is_some())
            .flat_map(|page| page * PAGE_SECTORS as u64..(page + 1) * PAGE_SECTORS as u64)
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
                fill_sector(kept, sector, 0);
            }
            bytes
        })
    }
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
    use heliostat_types::Extent;

    use super::{Store, as_index};
    use crate::contents::{Fidelity, SECTOR, fill_sector, sampled_sectors, version_of_sector};

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
            let mut store = Store::new(1 << 40, fidelity);
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
        let store = Store::new(1 << 30, Fidelity::Stamps);
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
        let mut store = Store::new(1 << 20, Fidelity::Bytes);
        let (extent, bytes) = written(0..8, 1);
        store.write(extent, &bytes, |sector| sector % 2 == 0);
        let versions: Vec<_> = (0..4).map(|sector| store.version(sector)).collect();
        assert_eq!(versions, [Some(1), Some(0), Some(1), Some(0)]);
    }

    #[test]
    fn differences_are_found() {
        let mut one = Store::new(1 << 30, Fidelity::Stamps);
        let mut other = Store::new(1 << 30, Fidelity::Stamps);
        let (extent, bytes) = written(1_000_000..1_000_008, 0);
        one.write(extent, &bytes, |_| true);
        assert_eq!(
            one.first_difference(&other, |_| true),
            None,
            "as never written"
        );
        let (extent, bytes) = written(1_000_003..1_000_004, 9);
        other.write(extent, &bytes, |_| true);
        assert_eq!(one.first_difference(&other, |_| true), Some(1_000_003));
    }
}
