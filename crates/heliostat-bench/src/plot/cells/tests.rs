use super::super::texts::texts;
use super::{Surface, distribution, surface};

#[test]
fn shares_are_in_percent_of_the_row() {
    let rows: [(&str, &[u64]); 3] = [("a", &[999, 1, 0]), ("b", &[0, 1, 1]), ("c", &[0, 0, 0])];
    let svg = distribution(&rows, &["<8", "<16", ">=16"], "ms");
    let texts = texts(&svg);
    for text in ["a", "b", "c", "&lt;8", ">99", "&lt;1", "50"] {
        let text = text.replace(">99", "&gt;99");
        assert!(texts.contains(&text.as_str()), "{text} in {texts:?}");
    }
    assert_eq!(svg.matches("<rect").count(), 4);
}

#[test]
fn the_best_cell_is_framed_and_has_a_star() {
    let svg = surface(&Surface {
        columns: ("penalty", vec!["0".to_owned(), "1".to_owned()]),
        rows: ("<inc>", vec!["8".to_owned()]),
        values: vec![vec![Some(100.0), None]],
        best: Some((0, 0)),
        value_name: "IOPS",
    });
    assert!(texts(&svg).contains(&"*100"));
    assert!(texts(&svg).contains(&"IOPS; columns: penalty"));
    assert!(texts(&svg).contains(&"&lt;inc&gt;"));
    assert_eq!(svg.matches("<rect").count(), 2, "shade and frame");
}

#[test]
fn nothing_to_draw_is_no_reason_to_fail() {
    assert!(distribution(&[], &[], "ms").ends_with("</svg>\n"));
    let empty = Surface {
        columns: ("a", Vec::new()),
        rows: ("b", Vec::new()),
        values: Vec::new(),
        best: None,
        value_name: "IOPS",
    };
    assert!(surface(&empty).ends_with("</svg>\n"));
}
