use stdx::histogram::Histogram;

use super::super::texts::texts;
use super::{LegScale, Pair, bars, paired_bars, pairs, per_leg, percentiles, shares};

fn times(ns: u64) -> Histogram {
    let mut times = Histogram::new();
    for _ in 0..100 {
        times.record(ns);
    }
    times
}

#[test]
fn a_bar_has_its_name_and_its_number() {
    let svg = bars(&[("zfs", 8_900.0), ("md", 120.0)], "IOPS");
    let texts = texts(&svg);
    for text in ["zfs", "md", "8,900", "120", "IOPS (log scale)"] {
        assert!(texts.contains(&text), "{text} in {texts:?}");
    }
}

#[test]
fn names_are_text_whatever_they_contain() {
    let svg = bars(&[("<script>&\"", 1.0)], "<b>");
    assert!(!svg.contains("<script") && !svg.contains("<b>"));
    assert!(svg.contains("&lt;script&gt;&amp;"));
}

#[test]
fn long_names_have_room_and_very_long_ones_end_early() {
    let long = "adaptive:probe=0.01,hedge=p99,budget=0.05,w=2";
    let svg = bars(&[(long, 1.0)], "IOPS");
    assert!(texts(&svg).contains(&long));
    let svg = bars(&[(&"x".repeat(100), 1.0)], "IOPS");
    let told = texts(&svg).into_iter().find(|text| text.contains("xx"));
    assert_eq!(told, Some(format!("{}...", "x".repeat(56)).as_str()));
}

#[test]
fn a_row_without_requests_says_so() {
    let (some, none) = (times(1_000_000), Histogram::new());
    let svg = percentiles(&[("a", &some), ("b", &none)], "ms");
    assert_eq!(
        texts(&svg).iter().filter(|text| **text == "none").count(),
        1
    );
    let svg = shares(&[("a".to_owned(), vec![0, 0])], &[], "share");
    assert!(texts(&svg).contains(&"none"));
}

#[test]
fn many_legs_have_a_legend_of_several_lines() {
    let legs: Vec<String> = (0..8).map(|_| "hdd-7200-2tb".to_owned()).collect();
    let rows = [("a", vec![1.0; 8])];
    let one = per_leg(&rows, &legs[..3], LegScale::Percent, "busy, in percent");
    let many = per_leg(&rows, &legs, LegScale::Percent, "busy, in percent");
    let height = |svg: &str| {
        let (_, rest) = svg.split_once("height=\"").unwrap();
        rest.split_once('"').unwrap().0.parse::<i32>().unwrap()
    };
    assert_eq!(height(&many) - height(&one), 20, "four entries a line");
    assert!(texts(&many).contains(&"leg 7: hdd-7200-2tb"));
}

#[test]
fn what_is_not_there_has_no_mark_on_a_logarithmic_axis() {
    let svg = per_leg(&[("a", vec![0.0, 5.0])], &[], LegScale::Logarithmic, "ms");
    assert_eq!(svg.matches("<circle").count(), 0);
    assert_eq!(svg.matches("<rect").count(), 1, "the second leg's square");
}

#[test]
fn pairs_have_two_marks_and_a_note() {
    let row = Pair {
        name: "case".to_owned(),
        found: 90.0,
        expected: 100.0,
        note: "-10 %".to_owned(),
    };
    let svg = pairs(&[row], "simulated", "published", "IOPS");
    assert_eq!(
        svg.matches("<circle").count(),
        4,
        "two of them in the legend"
    );
    assert!(texts(&svg).contains(&"-10 %"));
}

#[test]
fn paired_bars_have_two_bars_and_a_note() {
    let row = |name: &str, found, expected| Pair {
        name: name.to_owned(),
        found,
        expected,
        note: "-10 %".to_owned(),
    };
    let rows = [row("a", 90.0, 100.0), row("b", 0.0, 5_000.0)];
    let svg = paired_bars(&rows, "simulated", "published", "IOPS");
    // Two in the legend; nothing of nothing.
    assert_eq!(svg.matches("<rect").count(), 2 + 3);
    assert_eq!(
        texts(&svg).iter().filter(|text| **text == "-10 %").count(),
        2
    );
}

#[test]
fn nothing_to_draw_is_no_reason_to_fail() {
    assert!(bars(&[], "IOPS").ends_with("</svg>\n"));
    assert!(percentiles(&[], "ms").ends_with("</svg>\n"));
    assert!(shares(&[], &[], "share").ends_with("</svg>\n"));
    assert!(pairs(&[], "a", "b", "IOPS").ends_with("</svg>\n"));
}
