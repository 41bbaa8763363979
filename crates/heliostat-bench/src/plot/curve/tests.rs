use super::super::texts::texts;
use super::curve;

fn values(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn lines_are_named_and_have_a_mark_at_each_value() {
    let lines = [
        ("mixed", vec![Some(1.0), Some(2.0), Some(1.5)]),
        ("equal", vec![Some(2.0), None, Some(1.0)]),
    ];
    let svg = curve("penalty", &values(&["0", "1", "10"]), &lines, "MiB/s");
    let texts = texts(&svg);
    for text in ["mixed", "equal", "penalty", "MiB/s", "10"] {
        assert!(texts.contains(&text), "{text} in {texts:?}");
    }
    assert_eq!(svg.matches("<circle").count(), 1 + 3);
    assert_eq!(svg.matches("<rect").count(), 1 + 2);
    assert_eq!(svg.matches("<polyline").count(), 1);
}

#[test]
fn nothing_and_one_value_are_drawn_too() {
    assert!(curve("x", &[], &[], "y").ends_with("</svg>\n"));
    let svg = curve("x", &values(&["1"]), &[("a", vec![Some(5.0)])], "y");
    assert!(svg.ends_with("</svg>\n"));
}
