use heliostat_types::{Extent, Instant};

use super::{FromMeasuring, Job, KEYS, Rw};

const GIB: u64 = 1 << 30;

fn job(settings: &[(&str, &str)]) -> Job {
    let mut job = Job::default();
    for (key, value) in settings {
        if let Err(error) = job.set(key, value) {
            panic!("{error}");
        }
    }
    job
}

#[test]
fn every_key_takes_a_value() {
    for (key, value) in [
        ("name", "a"),
        ("kind", "defrag"),
        ("rw", "randrw"),
        ("bs", "4k,64k"),
        ("bssplit", "4k/50:64k/50,8k"),
        ("iodepth", "32"),
        ("iodepth_batch_complete_min", "8"),
        ("numjobs", "4"),
        ("direct", "0"),
        ("readahead", "128k"),
        ("readahead_request", "512k"),
        ("shared_cache", "true"),
        ("dirty_limit", "1GiB"),
        ("offset", "50%"),
        ("size", "10g"),
        ("offset_increment", "1m"),
        ("loops", "2"),
        ("rwmixread", "70"),
        ("rwmixwrite", "70"),
        ("rate_iops", "100,50"),
        ("rate", "10MB/s,1m"),
        ("weight", "4"),
        ("iops", "100"),
        ("bandwidth", "10MB/s"),
        ("arrival", "poisson:2000"),
        ("thinktime", "100"),
        ("thinktime_blocks", "4"),
        ("random_distribution", "zipf:1.2"),
        ("fsync", "1"),
        ("fdatasync", "1"),
        ("background", "true"),
        ("leg", "2"),
        ("start", "-10s"),
        ("stop", "5s"),
        ("trace", "x.csv"),
        ("trace_format", "tencent"),
        ("trace_speed", "2.5"),
        ("trace_volume", "7"),
        ("trace_time", "ms"),
    ] {
        let before = format!("{:?}", Job::default());
        assert_ne!(format!("{:?}", job(&[(key, value)])), before, "{key}");
        assert!(KEYS.contains(&key));
    }
    assert_eq!(KEYS.len(), 39);
}

#[test]
fn what_is_wrong_with_a_value_is_said() {
    let told = |key, value| Job::default().set(key, value).unwrap_err().to_string();
    for (key, value, wanted) in [
        (
            "iodeph",
            "1",
            "there is no key 'iodeph'; did you mean 'iodepth'?",
        ),
        ("kind", "x", "kind: 'x' is neither fio nor defrag"),
        (
            "rw",
            "trim",
            "rw: 'trim' is not simulated; read, write, randread, randwrite, randrw, rw are",
        ),
        (
            "iodepth",
            "0",
            "iodepth: '0' is not a whole number from 1 to 65536",
        ),
        (
            "rwmixread",
            "101",
            "rwmixread: '101' is not a whole number from 0 to 100",
        ),
        (
            "offset",
            "101%",
            "offset: '101' is not a whole number from 0 to 100",
        ),
        (
            "leg",
            "x",
            "leg: 'x' is no leg: they count from 0; -1: none",
        ),
        (
            "trace_speed",
            "0",
            "trace_speed: '0' is not a factor from 0.000001 to 1000000",
        ),
        (
            "direct",
            "x",
            "direct: 'x' is not true or false (or 1 or 0)",
        ),
        (
            "bs",
            "1,2,3,4",
            "bs: '1,2,3,4' has more than three parts (reads, writes, trims)",
        ),
        (
            "bssplit",
            "",
            "bssplit: it names no size; as in 4k/60:64k/40",
        ),
    ] {
        assert_eq!(told(key, value), wanted);
    }
}

#[test]
fn regions_are_fios() {
    let region = |settings: &[(&str, &str)], clone| job(settings).region(clone, 10 * GIB);
    assert_eq!(region(&[], 0), Some(Extent::new(0, 10 * GIB)));
    let half = [("offset", "50%"), ("size", "80%")];
    assert_eq!(region(&half, 0), Some(Extent::new(5 * GIB, 5 * GIB)));
    let steps = [("offset_increment", "1g")];
    assert_eq!(region(&steps, 3), Some(Extent::new(3 * GIB, 7 * GIB)));
    assert_eq!(region(&[("size", "11g")], 0), None);
    let odd = [("bs", "4k"), ("size", "10000")];
    assert_eq!(region(&odd, 0), Some(Extent::new(0, 8192)));
}

#[test]
fn what_does_not_go_together_is_said() {
    let told = |settings: &[(&str, &str)]| job(settings).check(GIB).unwrap_err();
    for (settings, wanted) in [
        (
            &[("bs", "1000")][..],
            "bs, offset and offset_increment must be multiples of 512",
        ),
        (&[("bs", "64m")], "bs must be 512 bytes to 32 MiB"),
        (
            &[("bs", "4k"), ("size", "2k")],
            "bs and size: its region holds no block",
        ),
        (
            &[("offset", "2g")],
            "offset and size: its region ends beyond the array",
        ),
        (
            &[("arrival", "fixed:5"), ("rate_iops", "5")],
            "arrival says when requests come: leave out rate_iops, rate, thinktime",
        ),
        (
            &[("shared_cache", "1")],
            "shared_cache needs rw = read and direct = 0",
        ),
        (
            &[("start", "5s"), ("stop", "4s")],
            "it stops before it starts",
        ),
        (
            &[("trace", "x"), ("numjobs", "2")],
            "a trace is played by one client: leave out numjobs",
        ),
        (
            &[("kind", "defrag"), ("size", "1m")],
            "a defragmentation needs a region of 64 MiB",
        ),
    ] {
        assert_eq!(told(settings), wanted);
    }
    assert_eq!(Job::default().check(GIB), Ok(()));
}

#[test]
fn moments_count_from_the_start_of_measuring_and_not_before_the_run() {
    let at = |secs: u64| Instant::from_ns(secs * 1_000_000_000);
    let moment = |secs: i64| FromMeasuring(secs * 1_000_000_000).at(at(10));
    assert_eq!([moment(-3), moment(0), moment(5)], [at(7), at(10), at(15)]);
    assert_eq!(moment(-30), at(0));
    assert_eq!(job(&[("stop", "0s")]).stop, None);
    assert_eq!(job(&[("rw", "readwrite")]).rw, Rw::Rw);
}
