use heliostat_types::Duration;

use super::parse_job_file;
use crate::job::{FromMeasuring, Rw};

const PUBLISHED: &str = "\
# As published.
[global]
ioengine=libaio
direct=1
filename=/mnt/test/file
size=50g
runtime=120
time_based
group_reporting
ramp_time=5s

[qd1]
rw=randread
bs=4k
iodepth=1
; The second waits for the first.
[seq]
stonewall
readwrite=read
blocksize=1M
iodepth=16
";

#[test]
fn published_jobs_are_understood() {
    let file = parse_job_file(PUBLISHED).unwrap();
    let [first, second] = &file.jobs[..] else {
        panic!("{:?}", file.jobs);
    };
    assert_eq!(
        (first.rw, first.bs_bytes, first.iodepth),
        (Rw::RandRead, 4096, 1)
    );
    assert_eq!(
        (second.rw, second.bs_bytes, second.iodepth),
        (Rw::Read, 1 << 20, 16)
    );
    assert_eq!(
        (first.offset_bytes, second.offset_bytes),
        (0, 0),
        "one file"
    );
    assert_eq!(first.size_bytes, 50 << 30);
    let at = |secs: i64| Some(FromMeasuring(secs * 1_000_000_000));
    assert_eq!((first.start, first.stop), (None, at(120)));
    assert_eq!((second.start, second.stop), (at(120), at(240)));
    assert_eq!(file.runtime, Some(Duration::from_secs(240)));
    assert_eq!(file.ramp_time, Some(Duration::from_secs(5)));
    assert_eq!(
        file.notes,
        ["without effect in virtual time: group_reporting"]
    );
}

#[test]
fn clones_share_the_page_cache_of_one_file_and_have_files_of_their_own_otherwise() {
    let text = "[global]\nbs=64k\nsize=10g\nioengine=libaio\niodepth=8\nnumjobs=8\n";
    let shared = format!("{text}filename=f\n[read]\nrw=read\n");
    let file = parse_job_file(&shared).unwrap();
    assert!(file.jobs[0].shared_cache && !file.jobs[0].direct);
    assert_eq!(file.jobs[0].iodepth, 1);
    assert_eq!(
        file.notes,
        ["[read]: libaio without direct=1 has one request in flight, not iodepth=8"]
    );
    let own = parse_job_file(&format!("{text}[read]\nrw=read\n")).unwrap();
    assert!(!own.jobs[0].shared_cache);
    assert_eq!(own.jobs[0].offset_increment_bytes, 10 << 30);
    let two = parse_job_file(&format!("{text}[a]\n[b]\nnumjobs=1\n")).unwrap();
    assert_eq!(two.jobs[1].offset_bytes, 80 << 30);
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_section() {
    let told = |text: &str| parse_job_file(text).unwrap_err().to_string();
    for (text, wanted) in [
        ("", "line 1: there is no job: a section besides [global]"),
        (
            "rw=read",
            "line 1: an option before the first section; [global] or [NAME] is missing",
        ),
        (
            "[a]\nrw=raed",
            "line 2, [a]: rw: 'raed' is none of read, write, randread, randwrite, \
                          randrw, rw",
        ),
        (
            "[a]\niodeph=1",
            "line 2, [a]: there is no option 'iodeph'; did you mean 'iodepth'?",
        ),
        (
            "[a]\nleg=1",
            "line 2, [a]: 'leg' is no option of fio's: it belongs into a scenario's \
                        [[job]]",
        ),
        (
            "[a]\n\ninclude x.fio",
            "line 3, [a]: include is not followed: put the text here",
        ),
        (
            "[a]\nsize=${SIZE}",
            "line 2, [a]: there is no environment here: write out what ${...} \
                               stands for",
        ),
        (
            "[a]\nbsrange=1k-4k",
            "line 2, [a]: bsrange is not simulated: sizes are named one by \
                                one: bssplit",
        ),
        (
            "[a]\nruntime=x",
            "line 2, [a]: runtime: 'x' is no time: seconds, or with ms, us, m, h \
                            or d",
        ),
        ("[a", "line 1: a section is [NAME]"),
        (
            "[a]\nsize=1g\n[b]\nstonewall",
            "line 3, [b]: several files are laid out one behind the \
                                          other: say size of each, and offset without %",
        ),
        (
            "[a]\nfilename=x\n[b]\nfilename=x\nstonewall",
            "line 3, [b]: stonewall: when the jobs \
          before it end is not known without their runtime; say it, or put the jobs into files \
          of their own",
        ),
    ] {
        assert_eq!(told(text), wanted, "{text}");
    }
}
