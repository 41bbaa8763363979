//! Slow readers on disks, one of which takes far longer than the others.

use heliostat_types::{Duration, Extent, LegId, LegSet};

use super::{KIB, MIB, Rig, op};

/// Streams of some bytes each 20 ms, or as soon as they are answered, on disks that take so many us
/// for a read.
struct Readers {
    rig: Rig,
    us: Vec<u64>,
    next: Vec<u64>,
    bytes: u64,
    wait: bool,
}

impl Readers {
    fn new(streams: u64, us: &[u64]) -> Self {
        let mut rig = Rig::new(&vec![true; us.len()]);
        rig.room_bytes = 0;
        Self {
            rig,
            us: us.to_vec(),
            next: (0..streams).map(|stream| stream * 400_000 * MIB).collect(),
            bytes: 64 * KIB,
            wait: true,
        }
    }

    /// The leg that has the stream, which reads 64 KiB of it.
    fn read(&mut self, stream: usize) {
        let extent = Extent::new(self.next[stream], self.bytes);
        self.next[stream] = extent.end();
        self.rig.plan(Some(extent));
        let leg = self.legs(stream).iter().next().map_or(0, LegId::index);
        let sent = op(leg, extent);
        self.rig.ahead.on_dispatch(self.rig.now, &sent, None);
        self.rig.legs[leg].reads_in_flight = 1;
        let took = Duration::from_us(self.us[leg]);
        self.rig.now += took;
        self.rig.legs[leg].reads_in_flight = 0;
        self.rig.ahead.on_complete(self.rig.now, &sent, took);
        if self.wait {
            self.rig.now += Duration::from_ms(20);
        }
    }

    fn legs(&self, stream: usize) -> LegSet {
        let known = self.rig.ahead.streams.iter();
        let mut known = known.filter(|known| known.next == self.next[stream]);
        known.next().map_or(LegSet::EMPTY, |known| known.homes)
    }

    /// All read in turns for so long. In how much of that any of them had this leg.
    fn share_of(&mut self, leg: usize, time: Duration) -> f64 {
        let (end, mut reads, mut there) = (self.rig.now + time, 0, 0);
        while self.rig.now < end {
            for stream in 0..self.next.len() {
                self.read(stream);
            }
            let any = |stream| self.legs(stream).contains(LegId::new(leg));
            there += u32::from((0..self.next.len()).any(any));
            reads += 1;
        }
        f64::from(there) / f64::from(reads)
    }
}

#[test]
fn a_disk_that_takes_far_longer_has_no_stream_where_others_have_time() {
    for streams in [3, 5] {
        let mut readers = Readers::new(streams, &[300, 300, 30_000]);
        readers.share_of(2, Duration::from_secs(3));
        assert!(readers.share_of(2, Duration::from_secs(4)) < 0.01);
        assert!(readers.share_of(0, Duration::from_ms(100)) > 0.99);
        assert!(readers.share_of(1, Duration::from_ms(100)) > 0.99);
        // It is asked again now and then.
        let share = readers.share_of(2, Duration::from_secs(60));
        assert!(share > 0.01 && share < 0.15, "{share}");
        readers.us[2] = 300;
        readers.share_of(2, Duration::from_secs(64));
        assert!(readers.share_of(2, Duration::from_secs(10)) > 0.99);
    }
}

#[test]
fn a_disk_that_takes_a_little_longer_has_its_streams() {
    let mut readers = Readers::new(2, &[1_000, 3_500]);
    readers.share_of(1, Duration::from_secs(1));
    assert!(readers.share_of(1, Duration::from_secs(20)) > 0.99);
}

#[test]
fn no_disk_is_left_to_others_that_have_no_time_for_what_it_reads() {
    for (bytes, is_left) in [(64 * KIB, true), (8 * MIB, false)] {
        let mut readers = Readers::new(2, &[1_000, 60_000]);
        if !is_left {
            readers.us = vec![60_000, 120_000];
        }
        readers.bytes = bytes;
        readers.share_of(1, Duration::from_secs(5));
        let share = readers.share_of(1, Duration::from_secs(2));
        assert!(if is_left { share < 0.01 } else { share > 0.99 }, "{share}");
    }
}

#[test]
fn another_disk_in_the_place_of_one_that_lags_has_streams_at_once() {
    let mut readers = Readers::new(2, &[300, 30_000]);
    readers.share_of(1, Duration::from_secs(3));
    assert!(readers.share_of(1, Duration::from_secs(1)) < 0.01);
    readers.rig.ahead.forget(LegId::new(1));
    readers.us[1] = 300;
    readers.share_of(1, Duration::from_ms(100));
    assert!(readers.share_of(1, Duration::from_secs(5)) > 0.99);
}

#[test]
fn a_disk_has_streams_again_as_soon_as_others_have_no_time() {
    let mut readers = Readers::new(2, &[300, 30_000]);
    readers.share_of(1, Duration::from_secs(3));
    assert!(readers.share_of(1, Duration::from_secs(1)) < 0.01);
    readers.wait = false;
    readers.share_of(1, Duration::from_secs(1));
    assert!(readers.share_of(1, Duration::from_secs(2)) > 0.99);
}
