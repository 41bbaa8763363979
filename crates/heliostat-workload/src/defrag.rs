//! A recursive defragmentation, as `btrfs filesystem defragment -r` does it: file after file, the
//! pieces are read in their order and written again in one piece elsewhere.
//!
//! Files are 64 KiB to 64 MiB, pieces 4 KiB to 1 MiB, each power of two as likely as any other;
//! pieces lie anywhere in the region. Reads are ahead by a few requests; what was read is dirty,
//! and the background writes it in requests of up to 1 MiB, one behind the other from a random
//! place of the region on. A flush comes every 30 s, as btrfs commits.

use heliostat_types::{Duration, Extent, Instant, Prng, RandomStream};

use crate::client::{Ask, Next};
use crate::job::PAGE_BYTES;

/// Files: 64 KiB doubled up to ten times.
const FILE_MIN_BYTES: u64 = 64 << 10;
const FILE_DOUBLINGS: u64 = 10;
/// Pieces of a file: 4 KiB doubled up to eight times.
const PIECE_DOUBLINGS: u64 = 8;
/// Reads in flight: what read-ahead keeps up for a few pieces.
const READ_DEPTH: u32 = 4;
/// Writes in flight.
const WRITE_DEPTH: u32 = 8;
const WRITE_MAX_BYTES: u64 = 1 << 20;
/// Reading waits while so much is dirty.
const DIRTY_MAX_BYTES: u64 = 32 << 20;
/// btrfs commits so often.
const FLUSH_EVERY: Duration = Duration::from_secs(30);

/// A defragmentation on its way.
#[derive(Debug)]
pub(crate) struct Defrag {
    region: Extent,
    luck: RandomStream,
    /// Bytes after which it ends.
    quota_bytes: u64,
    read_bytes: u64,
    file_left_bytes: u64,
    reads: u32,
    reads_bytes: u64,
    dirty_bytes: u64,
    writes: u32,
    write_at: u64,
    flush_at: Instant,
}

impl Defrag {
    pub(crate) fn new(
        region: Extent,
        mut luck: RandomStream,
        begins_at: Instant,
        quota_bytes: u64,
    ) -> Self {
        let write_at = luck.below(region.len() / PAGE_BYTES) * PAGE_BYTES;
        Self {
            region,
            luck,
            quota_bytes,
            read_bytes: 0,
            file_left_bytes: 0,
            reads: 0,
            reads_bytes: 0,
            dirty_bytes: 0,
            writes: 0,
            write_at,
            flush_at: begins_at + FLUSH_EVERY,
        }
    }

    pub(crate) fn next(&mut self, now: Instant) -> Next {
        if self.is_over() {
            return Next::Done;
        }
        if now >= self.flush_at {
            self.flush_at = now + FLUSH_EVERY;
            return Next::ask(Ask::Flush, 0, now);
        }
        if let Some(extent) = self.next_write() {
            return Next::ask(Ask::Write(extent), 0, now);
        }
        match self.next_read() {
            Some(extent) => Next::ask(Ask::Read(extent), 0, now),
            None => Next::WaitUntil(self.flush_at),
        }
    }

    fn next_write(&mut self) -> Option<Extent> {
        let is_file_read = self.file_left_bytes == 0 && self.reads == 0;
        let is_enough = self.dirty_bytes >= WRITE_MAX_BYTES || is_file_read;
        if self.dirty_bytes == 0 || !is_enough || self.writes == WRITE_DEPTH {
            return None;
        }
        let room = self.region.len() - self.write_at;
        let len = self.dirty_bytes.min(WRITE_MAX_BYTES).min(room);
        let extent = Extent::new(self.region.offset() + self.write_at, len);
        self.write_at = (self.write_at + len) % self.region.len();
        self.dirty_bytes -= len;
        self.writes += 1;
        Some(extent)
    }

    fn next_read(&mut self) -> Option<Extent> {
        let is_full = self.dirty_bytes + self.reads_bytes >= DIRTY_MAX_BYTES;
        if self.reads == READ_DEPTH || is_full || self.read_bytes >= self.quota_bytes {
            return None;
        }
        if self.file_left_bytes == 0 {
            if self.reads > 0 || self.dirty_bytes > 0 {
                return None;
            }
            self.file_left_bytes = FILE_MIN_BYTES << self.luck.below(FILE_DOUBLINGS + 1);
        }
        let piece = PAGE_BYTES << self.luck.below(PIECE_DOUBLINGS + 1);
        let len = piece.min(self.file_left_bytes);
        let places = (self.region.len() - len) / PAGE_BYTES + 1;
        let at = self.luck.below(places) * PAGE_BYTES;
        self.file_left_bytes -= len;
        self.read_bytes += len;
        if self.read_bytes >= self.quota_bytes {
            self.file_left_bytes = 0;
        }
        self.reads += 1;
        self.reads_bytes += len;
        Some(Extent::new(self.region.offset() + at, len))
    }

    pub(crate) fn on_answer(&mut self, ask: Ask) {
        match ask {
            Ask::Read(extent) => {
                self.reads -= 1;
                self.reads_bytes -= extent.len();
                self.dirty_bytes += extent.len();
            }
            Ask::Write(_) => self.writes -= 1,
            Ask::Flush => {}
        }
    }

    /// Whether everything was read and is on its way back.
    pub(crate) const fn is_over(&self) -> bool {
        self.read_bytes >= self.quota_bytes && self.reads == 0 && self.dirty_bytes == 0
    }

    #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
    pub(crate) fn share_done(&self) -> Option<f64> {
        let is_limited = self.quota_bytes < u64::MAX;
        is_limited.then(|| self.read_bytes as f64 / self.quota_bytes as f64)
    }
}
