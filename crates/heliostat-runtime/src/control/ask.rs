//! Who asks a daemon over its control socket. Whoever answers there may be something else, or out
//! of order: what it says is bounded in length and time, and is shown without what a terminal would
//! take for an order.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use super::{ControlRequest, ControlResponse};
use crate::RuntimeError;

/// The longest answer. All times of 272 clients and 16 legs in full are some 40 MB.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// How much is shown of what makes no sense.
const SHOWN_MAX: usize = 300;

/// How much is shown of a refusal. Of ours the longest name all policies, or the paths of 16 legs.
const REFUSAL_SHOWN_MAX: usize = 4096;

/// Asks the daemon whose control socket is at `path`.
///
/// # Errors
/// Where nobody listens there, or it answers with an error or nonsense, or not in its time.
pub fn ask(path: &Path, request: &ControlRequest) -> Result<ControlResponse, RuntimeError> {
    let place = path.display();
    let told = converse(path, request).map_err(|error| {
        let kind = error.kind();
        let is_absent = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
        let is_silent = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
        RuntimeError(if is_absent.contains(&kind) {
            format!(
                "no array is served there: nobody listens on {place} (is the name right, and the \
                 --control-dir?)"
            )
        } else if is_silent.contains(&kind) {
            let seconds = request.patience().as_secs();
            format!("cannot ask {place}: it has not answered within {seconds} s")
        } else {
            format!("cannot ask {place}: {error}")
        })
    })?;
    let Some(line) = told.strip_suffix(b"\n") else {
        return Err(RuntimeError(format!(
            "the daemon at {place} ended before it answered: it was stopped, or killed"
        )));
    };
    match serde_json::from_slice(line) {
        Ok(ControlResponse::Error(error)) => Err(RuntimeError(shown(&error, REFUSAL_SHOWN_MAX))),
        Ok(response) => Ok(response),
        Err(error) => Err(RuntimeError(format!(
            "{place} answered something else than expected: {}",
            shown(&error.to_string(), SHOWN_MAX)
        ))),
    }
}

/// One line for another one; less than that where it ended before.
fn converse(path: &Path, request: &ControlRequest) -> io::Result<Vec<u8>> {
    let until = Instant::now() + request.patience();
    let mut stream = UnixStream::connect(path)?;
    let mut line = serde_json::to_vec(request).expect("plain structs are JSON");
    line.push(b'\n');
    stream.set_write_timeout(Some(request.patience()))?;
    stream.write_all(&line)?;
    let mut reader = BufReader::new(&stream);
    let mut answer = Vec::new();
    while answer.last() != Some(&b'\n') {
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::other("its answer has no end"));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let bytes = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        if bytes.is_empty() {
            break;
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let len = end.map_or(bytes.len(), |at| at + 1);
        answer.extend_from_slice(&bytes[..len]);
        reader.consume(len);
    }
    Ok(answer)
}

/// A text of somebody else, for a terminal; no longer than that, and where it was, that is seen.
fn shown(text: &str, letters_max: usize) -> String {
    let is_order = |letter: char| letter.is_control() && letter != '\n';
    let mut letters = text.chars();
    let mut shown: String = letters
        .by_ref()
        .take(letters_max)
        .map(|letter| if is_order(letter) { '?' } else { letter })
        .collect();
    if letters.next().is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::ask;
    use crate::control::ControlRequest;
    use crate::scratch::Scratch;

    /// What is said of somebody who answers like this and closes the connection.
    fn told(answer: &[u8]) -> String {
        let scratch = Scratch::new();
        let path = scratch.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let answer = answer.to_vec();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 64];
            assert!(stream.read(&mut request).unwrap() > 0);
            // Whoever has heard enough is gone.
            let _ = stream.write_all(&answer);
        });
        let told = ask(&path, &ControlRequest::Scheduler).unwrap_err().0;
        server.join().unwrap();
        told
    }

    #[test]
    fn what_makes_no_sense_is_an_error_of_one_line() {
        for (answer, expected) in [
            (&b""[..], "ended before it answered"),
            (b"{\"scheduler\":\"[no", "ended before it answered"),
            (b"\n", "something else than expected"),
            (b"\0\xff\xfe garbage\n", "something else than expected"),
            (b"{\"\\u001b[2J\":1}\n", "unknown variant `?[2J`"),
            (b"{\"error\":\"\\u001b]0;x\\u0007 gone\"}\n", "?]0;x? gone"),
        ] {
            let told = told(answer);
            assert!(told.contains(expected), "{told}");
            assert!(!told.contains(|letter: char| letter.is_control()), "{told}");
        }
        let deep = [&b"{\"stats\":"[..], &[b'['; 1 << 20], b"\n"].concat();
        assert!(told(&deep).contains("something else than expected"));
    }

    #[test]
    fn a_refusal_is_shown_to_its_end_and_one_that_is_cut_says_so() {
        let refused = |error: &str| told(format!("{{\"error\":\"{error}\"}}\n").as_bytes());
        let long = "policy ".repeat(200) + "devid";
        assert_eq!(refused(&long), long);
        let cut = refused(&"x".repeat(100_000));
        assert_eq!(cut.len(), super::REFUSAL_SHOWN_MAX + 3);
        assert!(cut.ends_with("x..."));
    }

    #[test]
    fn an_answer_without_end_is_left() {
        let endless = vec![b'x'; super::ANSWER_BYTES_MAX + (1 << 20)];
        assert!(told(&endless).contains("has no end"));
    }
}
