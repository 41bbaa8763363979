use expect_test::expect;
use heliostat_bench::report::TableStyle;

use super::super::sample;
use super::{measured_table, order_by_share_of_best, virtual_table};

#[test]
fn a_row_per_policy_with_the_best_of_each_column_marked() {
    let report = sample::report();
    let table = virtual_table(&report.workloads, TableStyle::Plain);
    expect![[r#"
        policy          random       p99   sequential
                      4 KiB x1        ms    1 MiB x16
                          IOPS                  MiB/s
        ---------------------------------------------
        zfs             *8,900     0.130          580
        latency         *8,950     0.120          500
        round-robin        196      17.0         *600
    "#]]
    .assert_eq(&table);
}

#[test]
fn the_best_is_bold_on_a_terminal_and_nowhere_else() {
    let report = sample::report();
    let bold = "\u{1b}[1m";
    assert!(virtual_table(&report.workloads, TableStyle::Terminal).contains(bold));
    assert!(!virtual_table(&report.workloads, TableStyle::Plain).contains('\u{1b}'));
}

#[test]
fn measured_stands_beside_predicted() {
    let report = sample::report();
    let table = measured_table(&report.measured.rows, TableStyle::Plain);
    expect![[r#"
        policy          depth   measured   predicted    differ   measured   predicted
                                    IOPS        IOPS        by     p99 ms      p99 ms
        -----------------------------------------------------------------------------
        round-robin         1        190         196    -3.1 %       17.5        17.0
        zfs                 1      6,000       8,900   -32.6 %      0.190       0.130
    "#]]
    .assert_eq(&table);
}

#[test]
fn rows_are_ordered_by_their_share_of_the_best() {
    let report = sample::report();
    // zfs: 0.994 + 0.967; latency: 1 + 0.833; round-robin: 0.022 + 1.
    assert_eq!(order_by_share_of_best(&report.workloads), [1, 2, 0]);
    assert!(order_by_share_of_best(&[]).is_empty());
}
