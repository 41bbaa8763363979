//! `heliostat examine` from outside, beside what mdadm says of the same legs.

#[path = "../../../heliostat-format/tests/golden/reader.rs"]
mod golden;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use golden::{CASES, GoldenLeg, legs};
use serde_json::Value;

/// A directory of one test, gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let unique = format!("heliostat-examine-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A sparse file of that size with these bytes at these sectors.
    fn leg(&self, name: &str, size: u64, parts: &[(u64, Vec<u8>)]) {
        let file = File::create(self.0.join(name)).unwrap();
        file.set_len(size).unwrap();
        for (sector, bytes) in parts {
            file.write_all_at(bytes, sector * 512).unwrap();
        }
    }

    fn golden(&self, name: &str, leg: &GoldenLeg) {
        self.leg(name, leg.device_bytes, &leg.parts);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `heliostat examine` with these words, in the directory.
fn examine(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heliostat"))
        .arg("examine")
        .args(words)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn case(name: &str) -> Vec<GoldenLeg> {
    let case = CASES.iter().find(|case| case.0 == name).unwrap();
    legs(case.1)
}

/// A line without the blanks at its start, and without sizes in other units.
fn plain(line: &str) -> String {
    let line = line.trim();
    let has_units = ["Size", "Reshape pos'n", "Name"]
        .iter()
        .any(|name| line.contains(name));
    match line.split_once(" (") {
        Some((start, _)) if has_units => start.trim().to_owned(),
        _ => line.to_owned(),
    }
}

#[test]
fn all_fields_of_mdadm_are_shown_alike() {
    let scratch = Scratch::new("fields");
    for (name, text_of_case) in CASES {
        for leg in legs(text_of_case) {
            scratch.golden("a.img", &leg);
            let output = examine(&scratch.0, &["a.img"]);
            let is_refused = *name == "raid10-reshaping";
            assert_eq!(output.status.code(), Some(i32::from(is_refused)), "{name}");
            let shown = text(&output.stdout);
            let shown: Vec<String> = shown.lines().map(plain).collect();
            for option in ["examine", "examine-bitmap"] {
                for line in leg.lines(option) {
                    let mut line = plain(line);
                    if line.contains("Time :") {
                        line += " UTC";
                    }
                    assert!(shown.contains(&line), "{name}: {line}\n{shown:#?}");
                }
            }
            let bad = leg.lines("examine-badblocks").iter();
            let bad = bad.filter(|line| line.contains(" for ")).count();
            let told = shown.iter().filter(|line| line.ends_with(" sectors"));
            let told = told.filter(|line| line.contains(" for ")).count();
            // mdadm shows entries, of which three make one range here.
            assert_eq!(told, bad.min(2), "{name}");
        }
    }
}

#[test]
fn programs_get_one_object_a_line() {
    let scratch = Scratch::new("json");
    for (index, leg) in case("raid1-rebuilding").iter().enumerate() {
        scratch.golden(&format!("{index}.img"), leg);
    }
    scratch.leg("none.img", 3 << 20, &[]);
    let output = examine(&scratch.0, &["--json", "0.img", "1.img", "none.img"]);
    assert_eq!(output.status.code(), Some(1), "one is no leg");
    assert!(output.stderr.is_empty());
    let shown = text(&output.stdout);
    let lines: Vec<Value> = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [whole, rebuilt, none] = &lines[..] else {
        panic!("three legs: {shown}");
    };
    assert_eq!(whole["good"], true);
    assert_eq!(whole["superblock"]["role"], 0);
    assert_eq!(whole["superblock"]["roles"].to_string(), r#"[0,"spare",1]"#);
    assert_eq!(whole["superblock"]["clean"], true);
    assert_eq!(whole["superblock"]["recovery_offset_sectors"], Value::Null);
    assert_eq!(whole["superblock"]["events"], 15);
    assert_eq!(whole["bitmap"]["events_cleared"], 1);
    assert_eq!(whole["bitmap"]["chunks"], 1);
    assert_eq!(whole["bad_blocks"].to_string(), "[]");
    assert_eq!(rebuilt["superblock"]["recovery_offset_sectors"], 53_376);
    assert_eq!(rebuilt["superblock"]["checksum"], "738ed325");
    assert_eq!(none["good"], false);
    let problem = "no md superblock; its first megabyte is all zeros";
    assert_eq!(none["problem"], problem);
    assert_eq!(none["superblock"], Value::Null);
}

/// The exit code of these words, and all that was said.
fn said(scratch: &Scratch, words: &[&str]) -> (i32, String) {
    let output = examine(&scratch.0, words);
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap(), said)
}

/// Whether this much is said of a leg that is none, with the exit code that says so.
fn check_said(scratch: &Scratch, words: &[&str], expected: &str) {
    let (code, told) = said(scratch, words);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains(expected), "{told}, not {expected}");
}

#[test]
fn what_lies_there_instead_is_said() {
    let scratch = Scratch::new("instead");
    scratch.leg("zeros", 3 << 20, &[]);
    let expected = "zeros: no md superblock (3 MiB); its first megabyte is all zeros\n";
    assert_eq!(said(&scratch, &["zeros"]), (1, expected.to_owned()));
    scratch.leg("small", 100, &[(0, vec![0; 9])]);
    let expected = "what there is of it (100 bytes) is all zeros";
    check_said(&scratch, &["small"], expected);
    scratch.leg("data", 3 << 20, &[(2, vec![7; 9])]);
    let expected = "its first megabyte has data, from byte 1024 on";
    check_said(&scratch, &["data"], expected);
    let old = vec![0xfc, 0x4e, 0x2b, 0xa9];
    scratch.leg("old", 1 << 20, &[((1 << 11) - 128, old)]);
    let expected = "an md superblock of version 0.90, at byte 983040";
    check_said(&scratch, &["old"], expected);
    let expected = "error: cannot open nowhere: No such file";
    check_said(&scratch, &["nowhere", "zeros"], expected);
    let expected = "zeros: no md superblock";
    check_said(&scratch, &["nowhere", "zeros"], expected);
    check_said(&scratch, &["/"], "neither a file nor a block device");
    check_said(
        &scratch,
        &["mem:1G"],
        "name a file, a block device or the export",
    );
    assert_eq!(said(&scratch, &[]).0, 2);
}

#[test]
fn what_is_damaged_is_said() {
    let scratch = Scratch::new("damaged");
    let mut leg = case("raid1-two").remove(0);
    // A bit of the update time.
    leg.parts[0].1[192] ^= 1;
    scratch.golden("damaged", &leg);
    let stored = u32::from_le_bytes(leg.parts[0].1[216..220].try_into().unwrap());
    let expected = format!("Checksum : {stored:x} - expected ");
    check_said(&scratch, &["damaged"], &expected);
    let expected = "damaged: cannot be served: sb_csum is ";
    check_said(&scratch, &["damaged"], expected);
    // A bad block beyond all sectors.
    let mut leg = case("raid1-bad-blocks").remove(0);
    leg.parts[2].1[..8].copy_from_slice(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    scratch.golden("log", &leg);
    let expected = "log: the bad-block log has an entry fffffffffffffffe that";
    check_said(&scratch, &["log"], expected);
    check_said(
        &scratch,
        &["log", "--json"],
        "\"problem\":\"the bad-block log has",
    );
    let mut broken = case("raid1-two").remove(0);
    broken.parts[0].1[222] = 1;
    scratch.golden("broken", &broken);
    let expected = "broken: what begins as an md superblock of version 1.2 at sector 8 is none: \
                    max_dev is 65664: a superblock has room for 1920 roles\n";
    check_said(&scratch, &["broken"], expected);
    check_said(
        &scratch,
        &["--json", "broken"],
        "version 1.2: max_dev is 65664",
    );
    // The bitmap of another array.
    let mut leg = case("raid1-two").remove(0);
    leg.parts[1].1[8] ^= 1;
    scratch.golden("strange", &leg);
    let expected = "strange: the bitmap cannot be used: bitmap uuid is ";
    check_said(&scratch, &["strange"], expected);
}

#[test]
fn an_older_superblock_is_mentioned() {
    let scratch = Scratch::new("older");
    let mut leg = case("raid1-1.0").remove(0);
    let older = case("raid1-two").remove(0);
    leg.parts.extend(older.parts);
    scratch.golden("both", &leg);
    let output = examine(&scratch.0, &["both"]);
    let told = text(&output.stdout);
    assert!(
        told.starts_with("both: md superblock at sector 40944\n"),
        "{told}"
    );
    let other = "both: an older superblock as well, of version 1.2 at sector 8, of the array efe5";
    assert!(told.contains(other), "{told}");
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let scratch = Scratch::new("pipe");
    let made = Command::new("mkfifo").arg(scratch.0.join("pipe")).status();
    assert!(made.unwrap().success());
    let output = examine(&scratch.0, &["pipe"]);
    let error = text(&output.stderr);
    assert!(
        error.contains("pipe is neither a file nor a block device"),
        "{error}"
    );
    assert_eq!(output.status.code(), Some(1));
}
