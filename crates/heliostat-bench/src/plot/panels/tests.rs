use super::super::texts::texts;
use super::{Panel, PanelScale, panels};

fn panel(name: &str, values: [Option<f64>; 4]) -> Panel<'_> {
    Panel {
        name,
        points: (1..=4).map(f64::from).zip(values).collect(),
    }
}

#[test]
fn every_name_has_its_panel_and_every_fault_its_shade_in_each() {
    let all = [
        panel("pid", [Some(100.0), Some(10.0), Some(0.0), Some(100.0)]),
        panel("queue", [Some(100.0); 4]),
        panel("md", [Some(90.0); 4]),
    ];
    let svg = panels(&all, &[(2.0, 3.0)], PanelScale::Rates, "IOPS");
    let texts = texts(&svg);
    for text in ["pid", "queue", "md", "IOPS", "shaded: a fault", "seconds"] {
        assert!(texts.contains(&text), "{text} in {texts:?}");
    }
    assert_eq!(svg.matches("<rect").count(), 3);
    assert_eq!(svg.matches("<polyline").count(), 3);
}

#[test]
fn a_time_without_requests_is_a_gap_in_response_times() {
    let one = [panel("pid", [Some(1.0), None, Some(3.0), Some(4.0)])];
    let svg = panels(&one, &[], PanelScale::Times, "p99 in ms");
    assert_eq!(
        svg.matches("<polyline").count(),
        1,
        "a single point is a stroke"
    );
    assert!(texts(&svg).contains(&"p99 in ms (log scale)"));
    assert!(!texts(&svg).contains(&"shaded: a fault"));
}

#[test]
fn panels_that_differ_much_share_a_logarithmic_axis() {
    let two = [
        panel("a", [Some(100.0); 4]),
        panel("b", [Some(90_000.0); 4]),
    ];
    let svg = panels(&two, &[], PanelScale::Rates, "IOPS");
    assert!(texts(&svg).contains(&"IOPS (log scale)"));
}

#[test]
fn nothing_to_draw_is_no_reason_to_fail() {
    assert!(panels(&[], &[], PanelScale::Rates, "IOPS").ends_with("</svg>\n"));
    let none = [panel("a", [None; 4])];
    assert!(panels(&none, &[(0.0, 9.0)], PanelScale::Times, "ms").ends_with("</svg>\n"));
}
