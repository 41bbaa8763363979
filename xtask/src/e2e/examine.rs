//! What `heliostat examine` shows of legs, beside what mdadm shows of the same bytes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Test;
use super::legs::{self, LoopDevice};
use super::room::Room;
use crate::process::Background;

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "examine",
        about: "heliostat examine and mdadm --examine: the same of legs of new arrays",
        run: examine_new,
    },
    Test {
        name: "examine_exports",
        about: "legs that NBD servers export, for reading only as well: the same as of their files",
        run: examine_exports,
    },
    Test {
        name: "examine_changed",
        about: "the same of superblocks that say something else, with the right sum and without",
        run: examine_changed,
    },
    Test {
        name: "examine_bitmap",
        about: "heliostat examine and mdadm --examine-bitmap, which wants loop devices",
        run: examine_bitmap,
    },
];

/// Arrays that are made: words for `create`, and how many legs they have.
const ARRAYS: &[(&str, usize)] = &[
    ("--level raid1", 2),
    ("--level raid1 --assume-clean --bitmap none", 3),
    ("--level raid1 --bitmap-chunk 64K missing", 2),
    ("--level raid10 --assume-clean", 4),
    ("--level raid10 --layout far=2 --chunk 64K", 4),
    ("--level raid10 --layout offset=3 --bitmap-chunk 4K", 5),
];

/// How long another server may take until it listens.
const SERVER_TIME_MAX: Duration = Duration::from_secs(20);

/// Where the superblock lies on a leg of version 1.2.
const SUPERBLOCK_AT: u64 = 4096;

/// How long it is with 128 roles, which is what new arrays have room for.
const SUPERBLOCK_BYTES: usize = 512;

/// What is put somewhere into a superblock: a name, where, and the bytes.
type Change = (&'static str, usize, &'static [u8]);

/// Changes that make an array nobody would serve, but everybody can show.
const CHANGES: &[Change] = &[
    (
        "other events",
        200,
        &[0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x19, 0x08],
    ),
    ("clean", 208, &[0xff; 8]),
    ("in the middle of a resync", 208, &[0, 1, 0, 0, 0, 0, 0, 0]),
    ("being rebuilt", 8, &[3]),
    ("a replacement", 8, &[0x13]),
    ("bad blocks", 8, &[9]),
    ("another level", 72, &[0, 0, 0, 0]),
    ("flags", 184, &[3]),
    ("another name", 32, b"elsewhere:0123456789\0"),
    ("another size", 80, &[0x80, 1, 0, 0]),
    ("faulty", 258, &[0xfe, 0xff]),
    ("a spare", 256, &[0xff, 0xff]),
    ("another leg's role", 256, &[1, 0]),
    ("written long ago", 192, &[0x15, 0xcd, 0x5b, 0x07]),
];

fn examine_new(room: &Room) -> Result<()> {
    room.require_tools(&["mdadm"])?;
    for (index, (words, legs)) in ARRAYS.iter().enumerate() {
        for leg in create(room, index, words, *legs)? {
            compare(room, &leg).with_context(|| format!("of create {words}"))?;
        }
    }
    Ok(())
}

fn examine_exports(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-nbd"])?;
    let leg = create(room, 0, "--level raid1", 2)?.remove(0);
    let (of_file, code) = shown(room, &leg)?;
    ensure!(code == 0, "{of_file}");
    for options in [&["-t"][..], &["-t", "-r"][..]] {
        let socket = room.path("leg.sock");
        let path = socket.display().to_string();
        let mut command = room.command("qemu-nbd", options);
        command.args(["-f", "raw", "-x", "leg", "-k", &path, &leg]);
        let mut server = Background::start(&mut command, &room.path("qemu-nbd.log"))?;
        server.wait_for_socket(&socket, SERVER_TIME_MAX)?;
        let uri = format!("nbd+unix:///leg?socket={path}");
        let (of_export, code) = shown(room, &uri)?;
        ensure!(code == 0, "{of_export}");
        let expected = of_file.replace(&leg, &uri);
        ensure!(of_export == expected, "{of_export}\n\nis not\n\n{expected}");
        drop(server);
        fs::remove_file(&socket).ok();
    }
    let nobody = format!("nbd+unix:///leg?socket={}", room.path_text("nobody.sock"));
    let program = room.program.display().to_string();
    let said = room.listen(&program, &["examine", &nobody])?;
    let is_named = said.stderr.contains("nobody.sock");
    ensure!(said.status.code() == Some(1) && is_named, "{}", said.stderr);
    Ok(())
}

fn examine_changed(room: &Room) -> Result<()> {
    room.require_tools(&["mdadm"])?;
    let leg = create(room, 0, "--level raid1", 2)?.remove(0);
    let path = PathBuf::from(&leg);
    let file = File::options().read(true).write(true).open(&path)?;
    let mut original = [0; SUPERBLOCK_BYTES];
    file.read_exact_at(&mut original, SUPERBLOCK_AT)?;
    for (what, at, bytes) in CHANGES {
        let mut changed = original;
        changed[*at..at + bytes.len()].copy_from_slice(bytes);
        file.write_all_at(&changed, SUPERBLOCK_AT)?;
        compare(room, &leg).with_context(|| format!("{what}, with a wrong sum"))?;
        let sum = checksum(&changed);
        changed[216..220].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&changed, SUPERBLOCK_AT)?;
        compare(room, &leg).with_context(|| what.to_string())?;
    }
    Ok(())
}

fn examine_bitmap(room: &Room) -> Result<()> {
    room.require_loop_devices()?;
    room.require_tools(&["mdadm"])?;
    for (index, (words, legs)) in ARRAYS.iter().enumerate() {
        if words.contains("--bitmap none") {
            continue;
        }
        for leg in create(room, index, words, *legs)? {
            let device = LoopDevice::attach(room, Path::new(&leg), 512)?;
            let (ours, _) = shown(room, device.path())?;
            let said = room.run("mdadm", &["--examine-bitmap", device.path()])?;
            // The fields of the superblock come first, some of which have the same names.
            let ours: BTreeMap<_, _> = fields(ours.split_once("bitmap at").context("a bitmap")?.1);
            let mut theirs = fields(&said);
            theirs.remove("Filename");
            ensure_same(&ours, &theirs).with_context(|| format!("of create {words}"))?;
        }
    }
    Ok(())
}

/// Makes an array, and says what its legs are called.
fn create(room: &Room, index: usize, words: &str, legs: usize) -> Result<Vec<String>> {
    let name = format!("array{index}");
    let paths: Vec<String> = (0..legs)
        .map(|leg| {
            let path = room.path(&format!("{name}-{leg}.img"));
            File::create(&path)?;
            // Legs are not all of one size.
            legs::resize(&path, (16 + leg as u64) << 20)?;
            Ok(path.display().to_string())
        })
        .collect::<Result<_>>()?;
    let control = room.path_text("control");
    let mut arguments = vec!["create", name.as_str(), "--control-dir", control.as_str()];
    arguments.extend(words.split(' '));
    arguments.extend(paths.iter().map(String::as_str));
    room.run(&room.program.display().to_string(), &arguments)?;
    Ok(paths)
}

/// Both show the same of a leg.
fn compare(room: &Room, leg: &str) -> Result<()> {
    let (text, status) = shown(room, leg)?;
    let superblock = text.split("bitmap at").next().context("a superblock")?;
    let ours = fields(superblock);
    let said = room.run("mdadm", &["--examine", leg])?;
    let theirs = fields(&said);
    ensure_same(&ours, &theirs)?;
    let is_correct = theirs["Checksum"].ends_with("correct");
    ensure!(is_correct || status == 1, "a wrong sum is no success");
    if ours["Bad Block Log"].ends_with("present.") && is_correct {
        // There are none: the log says so to both of them.
        let list = room.run("mdadm", &["--examine-badblocks", leg])?;
        ensure!(!list.contains(" for "), "{list}");
    }
    Ok(())
}

/// What we show of a leg, and the exit code.
fn shown(room: &Room, leg: &str) -> Result<(String, i32)> {
    let program = room.program.display().to_string();
    let said = room.listen(&program, &["examine", leg])?;
    ensure!(said.stderr.is_empty(), "{}", said.stderr);
    Ok((said.stdout, said.status.code().unwrap_or(-1)))
}

/// What each field says, without sizes in other units.
fn fields(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(" : "));
    lines
        .map(|(name, value)| {
            let name = name.trim().to_owned();
            let has_units = name.ends_with("Size") || name == "Name";
            let value = if has_units {
                value.split(" (").next().unwrap_or(value)
            } else {
                value
            };
            (name, value.trim().to_owned())
        })
        .collect()
}

/// Whether every field of mdadm is one of ours and says the same.
fn ensure_same(ours: &BTreeMap<String, String>, theirs: &BTreeMap<String, String>) -> Result<()> {
    ensure!(theirs.len() > 8, "mdadm shows little: {theirs:?}");
    for (name, said) in theirs {
        let mut said = said.clone();
        if name.ends_with(" Time") {
            said += " UTC";
        }
        let own = ours.get(name);
        ensure!(own == Some(&said), "{name}: {own:?} here, {said} there");
    }
    Ok(())
}

/// The sum of a superblock of 128 roles: its words added up, without the one that is the sum.
fn checksum(bytes: &[u8; SUPERBLOCK_BYTES]) -> u32 {
    let words = bytes.chunks_exact(4).enumerate();
    let words = words.filter(|(index, _)| *index != 54);
    let sum: u64 = words
        .map(|(_, word)| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]])))
        .sum();
    let folded = (sum & 0xffff_ffff) + (sum >> 32);
    // Of the second sum, again the low half.
    u32::try_from(folded & 0xffff_ffff).expect("32 bits")
}
