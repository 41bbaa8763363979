//! Keys as a terminal sends them. What reads keys for terminal programs in general neither ends
//! when its terminal does nor hears a key that comes with another size.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

const ESCAPE: u8 = 0x1b;

/// What follows an escape at most before it is none of ours.
const SEQUENCE_BYTES_MAX: usize = 16;

/// What came, and makes no key yet.
#[derive(Debug, Default)]
pub(super) struct Keys {
    rest: Vec<u8>,
}

impl Keys {
    /// The keys that these bytes are.
    pub(super) fn of(&mut self, bytes: &[u8]) -> Vec<KeyEvent> {
        self.rest.extend(bytes);
        let mut keys = Vec::new();
        let mut from = 0;
        while let Some((key, len)) = first(&self.rest[from..]) {
            keys.extend(key);
            from += len;
        }
        self.rest.drain(..from);
        keys
    }

    /// The key that was meant where nothing more has come for a while: an escape alone.
    pub(super) fn at_rest(&mut self) -> Option<KeyEvent> {
        let rest = std::mem::take(&mut self.rest);
        (rest == [ESCAPE]).then(|| plain(KeyCode::Esc))
    }
}

fn plain(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// The first key, none where it is none of ours, and how many bytes it has; nothing where it is not
/// whole.
fn first(bytes: &[u8]) -> Option<(Option<KeyEvent>, usize)> {
    let code = match *bytes.first()? {
        ESCAPE => return sequence(bytes),
        b'\r' | b'\n' => KeyCode::Enter,
        b'\t' => KeyCode::Tab,
        0x03 => {
            let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
            return Some((Some(key), 1));
        }
        byte @ b' '..=b'~' => KeyCode::Char(char::from(byte)),
        _ => return Some((None, 1)),
    };
    Some((Some(plain(code)), 1))
}

/// The same, of what begins with an escape: `ESC [ A`, `ESC O A`, `ESC [ 1 ~`.
fn sequence(bytes: &[u8]) -> Option<(Option<KeyEvent>, usize)> {
    let is_function = match *bytes.get(1)? {
        b'O' => true,
        b'[' => false,
        ESCAPE => return Some((Some(plain(KeyCode::Esc)), 1)),
        // A key with Alt, which is not the key.
        _ => return Some((None, 2)),
    };
    let is_end = |byte: &u8| (b'@'..=b'~').contains(byte);
    let Some(len) = bytes[2..].iter().position(is_end).map(|at| at + 3) else {
        return (bytes.len() > SEQUENCE_BYTES_MAX).then_some((None, bytes.len()));
    };
    let code = match (&bytes[2..len - 1], bytes[len - 1]) {
        ([], b'A') => KeyCode::Up,
        ([], b'B') => KeyCode::Down,
        ([], b'C') => KeyCode::Right,
        ([], b'D') => KeyCode::Left,
        ([], b'H') | (b"1" | b"7", b'~') => KeyCode::Home,
        ([], b'F') | (b"4" | b"8", b'~') => KeyCode::End,
        ([], b'Z') if !is_function => KeyCode::BackTab,
        _ => return Some((None, len)),
    };
    Some((Some(plain(code)), len))
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::{KeyCode, KeyModifiers};

    use super::Keys;

    fn codes(keys: &mut Keys, bytes: &[u8]) -> Vec<KeyCode> {
        let told = keys.of(bytes).into_iter();
        told.map(|key| key.code).collect()
    }

    #[test]
    fn arrows_come_as_sequences_whole_or_in_pieces() {
        use KeyCode::{BackTab, Char, Down, End, Enter, Home, Tab, Up};
        let mut keys = Keys::default();
        let all = codes(&mut keys, b"\x1b[A\x1bOBq\r\t\x1b[Z\x1b[1~\x1b[F");
        assert_eq!(all, [Up, Down, Char('q'), Enter, Tab, BackTab, Home, End]);
        for byte in b"\x1b[" {
            assert_eq!(codes(&mut keys, &[*byte]), []);
        }
        assert_eq!(codes(&mut keys, b"Bx"), [Down, Char('x')]);
        assert_eq!(keys.at_rest(), None);
    }

    #[test]
    fn an_escape_alone_is_one_when_nothing_follows() {
        let mut keys = Keys::default();
        assert_eq!(codes(&mut keys, b"\x1b"), []);
        assert_eq!(keys.at_rest().map(|key| key.code), Some(KeyCode::Esc));
        assert_eq!(keys.at_rest(), None);
        let twice = codes(&mut keys, b"\x1b\x1b[A");
        assert_eq!(twice, [KeyCode::Esc, KeyCode::Up]);
    }

    #[test]
    fn a_key_with_alt_is_not_that_key() {
        let mut keys = Keys::default();
        assert_eq!(codes(&mut keys, b"\x1bq\x1b\rx"), [KeyCode::Char('x')]);
        assert_eq!(keys.at_rest(), None);
    }

    #[test]
    fn what_means_nothing_is_passed_over() {
        let mut keys = Keys::default();
        let odd = b"\x1b[200~\x00\xff\x1b[1;5Cq\x1b[9999999999999999999999";
        assert_eq!(codes(&mut keys, odd), [KeyCode::Char('q')]);
        assert_eq!(codes(&mut keys, b"q"), [KeyCode::Char('q')]);
        let control = keys.of(b"\x03");
        assert_eq!(control[0].modifiers, KeyModifiers::CONTROL);
    }
}
