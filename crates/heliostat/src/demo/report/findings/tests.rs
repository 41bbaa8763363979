use expect_test::expect;

use heliostat_bench::report::format::wrapped;

use super::super::sample;
use super::{explanation, listed, measured_findings, virtual_findings};

/// A sentence per paragraph, in lines that fit here.
fn told(findings: &[String]) -> String {
    findings
        .iter()
        .map(|finding| wrapped(finding, 80) + "\n")
        .collect()
}

#[test]
fn sentences_come_from_the_rows() {
    let report = sample::report();
    expect![[r#"
        Random 4 KiB reads, depth 1: zfs and latency lead with 8,950 IOPS, 46 times the
        196 IOPS of round-robin. 2 of 3 rows reach 90 % of the lead, 1 not even 10 %.
        Sequential 1 MiB reads, depth 16: round-robin leads with 600 MiB/s, 1.2 times
        the 500 MiB/s of latency. 2 of 3 rows reach 90 % of the lead.
        No policy leads everywhere: nearest to it is zfs, with at least 97 % of the best
        in every column.
    "#]]
    .assert_eq(&told(&virtual_findings(&report.workloads)));
}

#[test]
fn what_differs_is_explained_by_its_own_figures() {
    let report = sample::report();
    expect![[r#"
        Where hard disks set the pace (1 of 2 rows), measured and predicted differ by at
        most 3.1 %.
        Where the SSD does, they differ by up to 32.6 %: what a read spends in sockets,
        wake-ups and timers is no part of a model. Other work on this machine had up to
        120 % of a processor meanwhile.
        zfs, depth 1: 97 us a read, 66 us by the models alone; processors: server 50 %,
        client 25 %, others 120 %.
    "#]]
    .assert_eq(&told(&measured_findings(&report.measured.rows)));
}

#[test]
fn a_slow_row_that_differs_is_told_with_the_part_of_chance() {
    let mut row = sample::report().measured.rows[0].clone();
    assert_eq!(explanation(&row), None);
    row.measured.iops = 150.0;
    let told = explanation(&row).unwrap();
    assert!(told.contains("chance alone moves the mean by"), "{told}");
}

#[test]
fn names_are_listed_as_people_do() {
    assert_eq!(listed(&[]), "nobody");
    assert_eq!(listed(&["a"]), "a");
    assert_eq!(listed(&["a", "b"]), "a and b");
    assert_eq!(listed(&["a", "b", "c", "d"]), "a, b, c and d");
    assert_eq!(listed(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
}
