//! Text of others in a terminal: what it may say, and how wide it is.

use ratatui::text::Span;

/// A text with nothing in it that a terminal would take for an order, that turns what follows round
/// or that nobody sees.
pub(super) fn plain(text: &str) -> String {
    let plain = |c: char| match c.is_control() || columns(c.encode_utf8(&mut [0; 4])) == 0 {
        true => '?',
        false => c,
    };
    text.chars().map(plain).collect()
}

/// How many columns it takes.
pub(super) fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// Its beginning, in exactly so many columns, with room behind it.
pub(super) fn padded(text: &str, width: usize) -> String {
    let mut fitting = String::new();
    for c in plain(text).chars() {
        fitting.push(c);
        if columns(&fitting) > width {
            fitting.pop();
            break;
        }
    }
    let room = width - columns(&fitting);
    fitting + &" ".repeat(room)
}

/// The end of a name says more than its beginning: where it is too long it begins with `<`.
pub(super) fn shortened(name: &str, width: usize) -> String {
    let mut name = plain(name);
    if columns(&name) <= width {
        return padded(&name, width);
    }
    while columns(&name) >= width.max(1) {
        name.remove(0);
    }
    padded(&format!("<{name}"), width)
}

#[cfg(test)]
mod tests {
    use super::{columns, padded, plain, shortened};

    #[test]
    fn nothing_is_an_order_or_unseen() {
        assert_eq!(
            plain("a\u{1b}[2J\u{202e}b\u{200b}\u{7}\u{9b}c"),
            "a?[2J?b???c"
        );
        assert_eq!(plain("\u{78c1}\u{789f} \u{e9}"), "\u{78c1}\u{789f} \u{e9}");
    }

    #[test]
    fn what_is_wide_takes_its_columns() {
        for (text, width) in [
            ("\u{78c1}\u{789f}", 6),
            ("\u{78c1}\u{789f}", 3),
            ("sda", 5),
            ("", 2),
            ("\u{78c1}", 1),
            ("ab", 0),
        ] {
            assert_eq!(columns(&padded(text, width)), width, "{text} in {width}");
            assert_eq!(columns(&shortened(text, width)), width, "{text} in {width}");
        }
        assert_eq!(shortened("/a/long/name.img", 6), "<e.img");
        assert_eq!(shortened("/srv/\u{78c1}\u{789f}", 5), "<\u{78c1}\u{789f}");
    }
}
