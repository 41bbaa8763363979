//! Values to try, as people write them and as nobody does.

use expect_test::{Expect, expect};
use heliostat_policy::{PolicySpec, all_policies};

use super::{Axis, axes_of, parse_axes};
use crate::report::format::wrapped;

fn shown(axis: &Axis) -> String {
    let values: Vec<String> = axis.values.iter().map(|&value| axis.text(value)).collect();
    format!("{}: {}", axis.tunable.name, values.join(" "))
}

fn check(policy: &str, text: &str, expected: &Expect) {
    let policy = PolicySpec::parse(policy).unwrap();
    let told = Axis::parse(&policy, text).map_or_else(|error| error.to_string(), |a| shown(&a));
    expected.assert_eq(&wrapped(&told, 70));
}

#[test]
fn lists_are_sorted_and_have_no_value_twice() {
    check(
        "zfs",
        "rotating_inc=5,1,3,1",
        &expect!["rotating_inc: 1 3 5"],
    );
    check(
        "zfs",
        " rotating_seek_offset = 4k, 1m ",
        &expect!["rotating_seek_offset: 4096 1048576"],
    );
    check("queue", "tie=rotate,first", &expect!["tie: first rotate"]);
    check("zfs", "rotating_inc=7", &expect!["rotating_inc: 7"]);
}

#[test]
fn ranges_include_both_ends() {
    check(
        "zfs",
        "rotating_inc=0..9",
        &expect!["rotating_inc: 0 1 2 3 4 5 6 7 8 9"],
    );
    check(
        "zfs",
        "rotating_inc=0..100",
        &expect!["rotating_inc: 0 10 20 30 40 50 60 70 80 90 100"],
    );
    check(
        "zfs",
        "rotating_inc=0..10:4",
        &expect!["rotating_inc: 0 3 7 10"],
    );
    check(
        "zfs",
        "rotating_inc=1..2:100",
        &expect!["rotating_inc: 1 2"],
    );
    check(
        "device",
        "rotating_inc=1..2",
        &expect!["read policy 'device' has no tunable 'rotating_inc'; it has none at all"],
    );
    check("devid", "devid=1..3", &expect!["devid: 1 2 3"]);
}

#[test]
fn logarithmic_ranges_double_where_nobody_says_otherwise() {
    check(
        "zfs",
        "rotating_inc=1..64:log",
        &expect!["rotating_inc: 1 2 4 8 16 32 64"],
    );
    check(
        "zfs",
        "rotating_inc=0..64:5:log",
        &expect!["rotating_inc: 0 1 4 16 64"],
    );
    check(
        "zfs",
        "rotating_inc=0..100:log",
        &expect!["rotating_inc: 0 1 2 5 10 22 46 100"],
    );
    check(
        "round-robin",
        "min_contig_read=4k..1m:log:5",
        &expect!["min_contig_read: 4096 16384 65536 262144 1048576"],
    );
    check(
        "zfs",
        "rotating_seek_offset=1..4E:log:3",
        &expect!["rotating_seek_offset: 1 2147483648 4611686018427387904"],
    );
}

#[test]
fn what_cannot_be_is_named() {
    check(
        "zfs",
        "rotating_inc",
        &expect!["'rotating_inc': expected KEY=A,B,C or KEY=LOW..HIGH[:STEPS][:log]"],
    );
    check(
        "zfs",
        "rotating_in=1,2",
        &expect![[r#"
            read policy 'zfs' has no tunable 'rotating_in'; did you mean
            'rotating_inc'? Valid are: rotating_inc, rotating_seek_inc,
            rotating_seek_offset, non_rotating_inc, non_rotating_seek_inc"#]],
    );
    check(
        "zfs",
        "rotating_inc=1,x",
        &expect![[r#"
            'x' is no value for rotating_inc of read policy 'zfs': expected a
            number from 0 to 4294967295, in decimal or 0x and hexadecimal, with K,
            M, G, T, P or E behind it for powers of 1024"#]],
    );
    check(
        "zfs",
        "rotating_inc=",
        &expect![[r#"
            '' is no value for rotating_inc of read policy 'zfs': expected a
            number from 0 to 4294967295, in decimal or 0x and hexadecimal, with K,
            M, G, T, P or E behind it for powers of 1024"#]],
    );
    check(
        "zfs",
        "rotating_inc=9..0",
        &expect!["'rotating_inc=9..0': a range goes from a smaller value to a larger one"],
    );
    check(
        "zfs",
        "rotating_inc=0..9:log:log",
        &expect![[r#"
            'rotating_inc=0..9:log:log': 'log' is neither a number of steps from 2
            to 1000 nor 'log'"#]],
    );
    check(
        "zfs",
        "rotating_inc=0..9:1",
        &expect![[r#"
            'rotating_inc=0..9:1': '1' is neither a number of steps from 2 to 1000
            nor 'log'"#]],
    );
    check(
        "zfs",
        "rotating_inc=0..9:ten",
        &expect![[r#"
            'rotating_inc=0..9:ten': 'ten' is neither a number of steps from 2 to
            1000 nor 'log'"#]],
    );
}

#[test]
fn what_cannot_be_of_a_tunable_is_named() {
    check(
        "queue",
        "tie=first..rotate",
        &expect![[r#"
            'tie=first..rotate': words have no range; name some of first, rotate,
            latency"#]],
    );
    check(
        "service-time",
        "rot_throughput=0..200",
        &expect![[r#"
            '200' is no value for rot_throughput of read policy 'service-time':
            expected a number from 0 to 100, in decimal or 0x and hexadecimal,
            with K, M, G, T, P or E behind it for powers of 1024"#]],
    );
    check(
        "pid",
        "x=1",
        &expect!["read policy 'pid' has no tunable 'x'; it has none at all"],
    );
    let zfs = PolicySpec::parse("zfs").unwrap();
    let twice = ["rotating_inc=1".to_owned(), "rotating_inc=2".to_owned()];
    expect!["'rotating_inc=2': rotating_inc is swept twice"]
        .assert_eq(&parse_axes(&zfs, &twice).unwrap_err().to_string());
}

#[test]
fn sensible_values_are_of_the_tunables_that_nobody_gave_a_value() {
    let told = |text: &str| {
        let policy = PolicySpec::parse(text).unwrap();
        match axes_of(&policy, text, 3) {
            Ok(axes) => axes.iter().map(shown).collect::<Vec<_>>().join("\n"),
            Err(error) => wrapped(&error.to_string(), 70),
        }
    };
    expect![[r#"
        rotating_inc: 0 1 2 4 8
        rotating_seek_inc: 0 1 2 5 10 20 40
        rotating_seek_offset: 16384 65536 262144 1048576 4194304 16777216 67108864
        non_rotating_inc: 0 1 2 4 8
        non_rotating_seek_inc: 0 1 2 4 8"#]]
    .assert_eq(&told("zfs"));
    expect![[r#"
        rotating_seek_offset: 16384 65536 262144 1048576 4194304 16777216 67108864
        non_rotating_inc: 0 1 2 4 8
        non_rotating_seek_inc: 0 1 2 4 8"#]]
    .assert_eq(&told("zfs:rotating_inc=1,rotating_seek_inc=7"));
    expect![[r#"
        roundrobin_nonlocal_inc_mixed_only: 0 1
        roundrobin_nonrot_nonlocal_inc: 0 1 2 4 8
        roundrobin_rot_nonlocal_inc: 0 1 2 4 8"#]]
    .assert_eq(&told("roundrobin"));
    expect!["devid: 1 2 3"].assert_eq(&told("devid"));
    expect![[r#"
        'devid:2': every tunable has a value already; leave one out, or name
        what to try with --set"#]]
    .assert_eq(&told("devid:2"));
    expect![[r#"
        tie: first rotate latency
        checkpoint_age: 1250 2500 5000 10000 20000 40000 80000
        probe_events: 12 25 50 100 200 400 800"#]]
    .assert_eq(&told("queue"));
    expect![[r#"
        base_weight: 0 171 341 512 682 853 972 1023
        threshold_multiplier: 0 1 2 4 8"#]]
    .assert_eq(&told("hst"));
    expect!["hot_percent: 0 17 33 50 67 75 83 100"].assert_eq(&told("prequal:stale_ms=5"));
    expect!["min_contig_read: 4096 16384 65536 262144 1048576 4194304 16777216"]
        .assert_eq(&told("round-robin"));
    expect![[r#"
        read policy 'pid' has no tunables, so there is nothing to tune;
        `heliostat policies` lists those of all policies"#]]
    .assert_eq(&told("pid"));
}

#[test]
fn every_policy_takes_its_sensible_values_and_its_default_is_among_them() {
    for info in all_policies().filter(|info| !info.tunables.is_empty()) {
        let default = PolicySpec::new(info);
        for axis in axes_of(&default, info.name, 3).unwrap() {
            assert!(
                axis.values.contains(&axis.tunable.default),
                "{}",
                axis.tunable.name
            );
            assert!(axis.values.len() > 1, "{}", axis.tunable.name);
            assert!(
                axis.values.is_sorted_by(|a, b| a < b),
                "{}",
                axis.tunable.name
            );
            for &value in &axis.values {
                let text = axis.text(value);
                assert_eq!(
                    axis.tunable.parse(&text),
                    Some(value),
                    "{}",
                    axis.tunable.name
                );
            }
        }
    }
}
