//! `heliostat status` from outside, where no name is given.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

/// A directory of one test, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let unique = format!("heliostat-status-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn status(control_dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heliostat"))
        .arg("status")
        .args(words)
        .arg("--control-dir")
        .arg(control_dir)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn arrays_that_only_have_a_socket_are_known_too() {
    let scratch = Scratch::new("socket");
    // What a daemon leaves behind that is killed: an array of legs without metadata has no more.
    drop(UnixListener::bind(scratch.0.join("raw.sock")).unwrap());
    fs::write(scratch.0.join("kept.array"), "").unwrap();
    let output = status(&scratch.0, &[]);
    assert_eq!(text(&output.stdout), "kept: not served\nraw: not served\n");
    assert!(output.status.success());
    let output = status(&scratch.0, &["--json"]);
    assert_eq!(text(&output.stdout), "");
    assert!(output.status.success());
}

#[test]
fn a_daemon_that_does_not_answer_is_not_called_stopped() {
    let scratch = Scratch::new("silent");
    let listener = UnixListener::bind(scratch.0.join("mute.sock")).unwrap();
    // Whoever asks is let in, and left without a word: twice each time, once to ask and once to
    // see whether somebody is there.
    let mute = thread::spawn(move || (0..4).for_each(|_| drop(listener.accept().unwrap())));
    for words in [&[][..], &["--json"]] {
        let output = status(&scratch.0, words);
        let error = text(&output.stderr);
        assert!(error.starts_with("error: "), "{error}");
        assert!(error.contains("mute.sock"), "{error}");
        assert_eq!(text(&output.stdout), "");
        assert_eq!(output.status.code(), Some(1));
    }
    mute.join().unwrap();
}

#[test]
fn where_nothing_is_known_the_place_is_named() {
    let scratch = Scratch::new("nothing");
    for place in [scratch.0.clone(), scratch.0.join("mistyped")] {
        let output = status(&place, &[]);
        let told = format!("no array is known in {};", place.display());
        let error = text(&output.stderr);
        assert!(error.starts_with(&told), "{error}");
        assert!(output.status.success());
    }
    let file = scratch.0.join("file");
    fs::write(&file, "").unwrap();
    let output = status(&file, &[]);
    let error = text(&output.stderr);
    let told = format!("error: cannot look for arrays in {}", file.display());
    assert!(error.starts_with(&told), "{error}");
    assert_eq!(output.status.code(), Some(1));
}
