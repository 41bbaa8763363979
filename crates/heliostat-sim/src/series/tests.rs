use heliostat_types::{Duration, Instant};

use super::{BINS, INTERVALS_MAX, Series, SeriesRecorder, Side, bin_of, bounds_of};

/// A request every `every` for `length`, the n-th of which takes n microseconds.
fn record(recorder: &mut SeriesRecorder, every: Duration, length: Duration) {
    let mut at = Duration::ZERO;
    let mut number = 0;
    while at < length {
        let now = Instant::ZERO + at;
        recorder.on_answer(now, Side::Read, 4096, Duration::from_us(number));
        recorder.on_leg_read(now, usize::try_from(number % 2).unwrap());
        at += every;
        number += 1;
    }
}

fn ios(series: &Series) -> u64 {
    series.points.iter().map(|point| point.read.ios).sum()
}

#[test]
fn buckets_follow_each_other_and_their_middle_is_near() {
    for bin in 0..BINS {
        let (low, width) = bounds_of(bin);
        assert_eq!(bin_of(low), bin);
        assert_eq!(bin_of(low + width - 1), bin);
        assert!(width * 4 <= low);
        if bin + 1 < BINS {
            assert_eq!(bounds_of(bin + 1).0, low + width);
        }
    }
    assert_eq!((bin_of(0), bin_of(u64::MAX)), (0, BINS - 1));
}

#[test]
fn a_run_of_known_length_has_equal_intervals_over_all_of_it() {
    let length = Duration::from_secs(60);
    let mut recorder = SeriesRecorder::new(Instant::ZERO, Some(length), 2);
    record(&mut recorder, Duration::from_us(500), length / 2);
    let series = recorder.finish(length);
    assert_eq!(series.points.len(), INTERVALS_MAX);
    assert_eq!(series.interval, Duration::from_ms(250));
    let point = &series.points[0];
    assert_eq!((point.read.ios, point.read.bytes), (500, 500 * 4096));
    assert_eq!(point.leg_reads, [250, 250]);
    assert_eq!(point.read.max_ns, 499_000);
    let p99 = point.read.p99_ns;
    assert!(p99.abs_diff(495_000) * 100 <= 495_000 * 13, "{p99}");
    assert_eq!(point.write.p99_ns, 0);
    // Nothing came in the second half, which is there all the same.
    assert_eq!(series.points[200].read.ios, 0);
    assert_eq!(ios(&series), 60_000);
}

#[test]
fn few_requests_are_seen_in_longer_intervals() {
    let length = Duration::from_secs(60);
    let mut recorder = SeriesRecorder::new(Instant::ZERO, Some(length), 2);
    record(&mut recorder, Duration::from_ms(10), length);
    let series = recorder.finish(length);
    assert_eq!(series.points.len(), 60);
    assert_eq!(series.points[7].read.ios, 100);
    let mut recorder = SeriesRecorder::new(Instant::ZERO, Some(length), 2);
    record(&mut recorder, Duration::from_secs(1), length);
    assert_eq!(recorder.finish(length).points.len(), 40);
}

#[test]
fn intervals_double_where_nobody_knows_the_end() {
    let mut recorder = SeriesRecorder::new(Instant::ZERO, None, 2);
    let length = Duration::from_us(1_234_567);
    record(&mut recorder, Duration::from_us(7), length);
    let series = recorder.finish(length);
    assert_eq!(series.interval, Duration::from_ms(8));
    assert_eq!(series.points.len(), 155);
    assert_eq!(ios(&series), 1_234_567 / 7 + 1);
    let lengths = series.points.iter().map(|point| point.length.as_ns());
    assert_eq!(lengths.sum::<u64>(), length.as_ns(), "the last one is cut");
}

#[test]
fn a_long_silence_costs_nothing() {
    let mut recorder = SeriesRecorder::new(Instant::ZERO, None, 1);
    recorder.on_leg_read(Instant::ZERO, 0);
    recorder.on_leg_read(Instant::ZERO + Duration::from_secs(1_000_000), 0);
    let series = recorder.finish(Duration::from_secs(1_000_001));
    assert!(series.points.len() <= INTERVALS_MAX);
    let reads: u64 = series.points.iter().map(|point| point.leg_reads[0]).sum();
    assert_eq!(reads, 2);
}

#[test]
fn nothing_measured_is_no_interval() {
    let recorder = SeriesRecorder::new(Instant::ZERO, None, 1);
    assert!(recorder.finish(Duration::ZERO).points.is_empty());
}
