use super::super::sample;
use super::{bars, percentiles, shares, versus};

#[test]
fn bars_stand_in_the_order_of_their_rates() {
    let svg = bars(&sample::report().workloads[0]);
    let at = |name: &str| svg.find(&format!("\n{name}\n")).unwrap();
    assert!(at("latency") < at("zfs") && at("zfs") < at("round-robin"));
    assert!(svg.contains("IOPS (log scale)"));
    assert!(svg.contains("currentColor"), "text takes the page's ink");
}

#[test]
fn distributions_name_their_marks_and_their_unit() {
    let svg = percentiles(&sample::report().workloads[0]);
    for text in [
        "p50",
        "p90",
        "p99",
        "p99.9",
        "response time in ms (log scale)",
    ] {
        assert!(svg.contains(&format!("\n{text}\n")), "{text}");
    }
}

#[test]
fn shares_name_the_legs_and_the_large_parts() {
    let report = sample::report();
    let svg = shares(&report.workloads[1], &report.legs);
    assert!(svg.contains("\nleg 1: ssd-sata-256gb\n"));
    // zfs: 250 and 330 of 580.
    assert!(svg.contains("\n43\n") && svg.contains("\n57\n"));
}

#[test]
fn nothing_to_draw_is_no_reason_to_fail() {
    let mut report = sample::report();
    report.workloads[0].rows.clear();
    assert!(bars(&report.workloads[0]).ends_with("</svg>\n"));
    assert!(percentiles(&report.workloads[0]).ends_with("</svg>\n"));
    assert!(shares(&report.workloads[0], &[]).ends_with("</svg>\n"));
    assert!(versus(&[]).ends_with("</svg>\n"));
}
