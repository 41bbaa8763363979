//! Legs whose metadata lies: every field at its extremes, with a sum that is right, and places and
//! sizes that no leg has. Each is shown, served, added and written over, by a program that may not
//! take much memory.
//!
//! Whatever becomes of a leg, the program ends with an exit code of its own, says which leg it is
//! and what of it, and has written nothing where it has refused. What does become of each is in
//! `hostile.txt`, for people to agree with.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::Test;
use super::arrays::create_called;
use super::room::Room;
use super::server::{NAME, Server};
use crate::process::{self, Said};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "hostile",
        about: "superblocks and bitmaps that lie: refused in words, nothing written, no panic",
        run: hostile,
    },
    Test {
        name: "hostile_legs",
        about: "legs that are too short, twice there, or copies: the same",
        run: hostile_legs,
    },
];

/// How large the legs are: 1 MiB for metadata, the rest is data.
const LEG_BYTES: u64 = 4 << 20;

/// Where things lie on the legs of these arrays.
const SUPERBLOCK_AT: usize = 4096;
const BITMAP_AT: usize = 8192;
const LOG_AT: usize = 12288;

/// As much as the metadata takes.
const HEAD_BYTES: usize = 16384;

/// How much address space the program may have: some for its threads and its rings, and none for
/// what a leg says that it has.
const ADDRESS_SPACE_BYTES: u64 = 2 << 30;

/// How much memory is for requests: no less than is accepted, since more of it takes time.
const MEMORY: &str = "80MiB";

/// The leg that lies alone, of three.
pub(super) const LYING: usize = 1;

/// How long the program may take. It needs milliseconds; this is for machines that do much else.
const TIME_MAX: Duration = Duration::from_secs(30);

/// What becomes of each; written anew where this variable says `1`.
const UPDATE_VARIABLE: &str = "UPDATE_EXPECT";
const EXPECTED: &str = "xtask/src/e2e/hostile.txt";

/// A field: its name, where it lies, and how many bytes it has.
struct Field(&'static str, usize, usize);

const fn superblock(name: &'static str, at: usize, len: usize) -> Field {
    Field(name, SUPERBLOCK_AT + at, len)
}

const fn bitmap(name: &'static str, at: usize, len: usize) -> Field {
    Field(name, BITMAP_AT + at, len)
}

const FIELDS: &[Field] = &[
    superblock("magic", 0, 4),
    superblock("major_version", 4, 4),
    superblock("feature_map", 8, 4),
    superblock("pad0", 12, 4),
    superblock("set_uuid", 16, 16),
    superblock("set_name", 32, 32),
    superblock("ctime", 64, 8),
    superblock("level", 72, 4),
    superblock("layout", 76, 4),
    superblock("size", 80, 8),
    superblock("chunksize", 88, 4),
    superblock("raid_disks", 92, 4),
    superblock("bitmap_offset", 96, 4),
    superblock("new_level", 100, 4),
    superblock("reshape_position", 104, 8),
    superblock("delta_disks", 112, 4),
    superblock("new_layout", 116, 4),
    superblock("new_chunk", 120, 4),
    superblock("new_offset", 124, 4),
    superblock("data_offset", 128, 8),
    superblock("data_size", 136, 8),
    superblock("super_offset", 144, 8),
    superblock("recovery_offset", 152, 8),
    superblock("dev_number", 160, 4),
    superblock("cnt_corrected_read", 164, 4),
    superblock("device_uuid", 168, 16),
    superblock("devflags", 184, 1),
    superblock("bblog_shift", 185, 1),
    superblock("bblog_size", 186, 2),
    superblock("bblog_offset", 188, 4),
    superblock("utime", 192, 8),
    superblock("events", 200, 8),
    superblock("resync_offset", 208, 8),
    superblock("max_dev", 220, 4),
    superblock("logical_block_size", 224, 4),
    superblock("pad3", 228, 28),
    superblock("dev_roles[0]", 256, 2),
    superblock("dev_roles[1]", 258, 2),
    superblock("dev_roles[2]", 260, 2),
    superblock("dev_roles[127]", 510, 2),
    bitmap("bitmap magic", 0, 4),
    bitmap("bitmap version", 4, 4),
    bitmap("bitmap uuid", 8, 16),
    bitmap("bitmap events", 24, 8),
    bitmap("bitmap events_cleared", 32, 8),
    bitmap("bitmap sync_size", 40, 8),
    bitmap("bitmap state", 48, 4),
    bitmap("bitmap chunksize", 52, 4),
    bitmap("bitmap daemon_sleep", 56, 4),
    bitmap("bitmap write_behind", 60, 4),
    bitmap("bitmap sectors_reserved", 64, 4),
    bitmap("bitmap nodes", 68, 4),
    bitmap("bitmap cluster_name", 72, 64),
];

/// A number, where it is said, and how many bytes it has there: place, number, length.
type Number = (usize, u64, usize);

/// Something said in several places.
type Lie = (&'static str, &'static [Number]);

/// It is a RAID10 with this layout, and chunks of so many sectors.
const fn raid10(layout: u64, chunk: u64) -> [Number; 3] {
    [
        (SUPERBLOCK_AT + 72, 10, 4),
        (SUPERBLOCK_AT + 76, layout, 4),
        (SUPERBLOCK_AT + 88, chunk, 4),
    ]
}

/// The three legs are in these roles.
const fn roles(first: u64, second: u64, third: u64) -> [Number; 3] {
    [
        (SUPERBLOCK_AT + 256, first, 2),
        (SUPERBLOCK_AT + 258, second, 2),
        (SUPERBLOCK_AT + 260, third, 2),
    ]
}

const LIES: &[Lie] = &[
    ("bitmap on the superblock", &[(SUPERBLOCK_AT + 96, 0, 4)]),
    (
        "bitmap in the superblock's roles",
        &[(SUPERBLOCK_AT + 96, 0xffff_ffff, 4)],
    ),
    (
        "bitmap in the data",
        &[(SUPERBLOCK_AT + 96, 2048 - 8 - 4, 4)],
    ),
    (
        "bitmap behind the end of the leg",
        &[(SUPERBLOCK_AT + 96, 8192 - 8, 4)],
    ),
    (
        "bitmap at the end of the leg",
        &[(SUPERBLOCK_AT + 96, 8192 - 8 - 4, 4)],
    ),
    (
        "bad-block log in the bitmap",
        &[(SUPERBLOCK_AT + 188, 8, 4)],
    ),
    (
        "bad-block log in the data",
        &[(SUPERBLOCK_AT + 188, 2048, 4)],
    ),
    (
        "bad-block log behind the end of the leg",
        &[(SUPERBLOCK_AT + 188, 1 << 20, 4)],
    ),
    (
        "data on the superblock",
        &[(SUPERBLOCK_AT + 128, 8, 8), (SUPERBLOCK_AT + 136, 6144, 8)],
    ),
    (
        "data on the bitmap",
        &[(SUPERBLOCK_AT + 128, 16, 8), (SUPERBLOCK_AT + 136, 6144, 8)],
    ),
    (
        "data that goes round",
        &[
            (SUPERBLOCK_AT + 128, u64::MAX - 100, 8),
            (SUPERBLOCK_AT + 136, 6144, 8),
        ],
    ),
    (
        "more data than the leg has",
        &[(SUPERBLOCK_AT + 136, 6145, 8)],
    ),
    (
        "a larger array than the leg's data",
        &[(SUPERBLOCK_AT + 80, 6272, 8)],
    ),
    (
        "2^54 sectors",
        &[
            (SUPERBLOCK_AT + 80, 1 << 54, 8),
            (SUPERBLOCK_AT + 136, 1 << 54, 8),
        ],
    ),
    (
        "a RAID0",
        &[(SUPERBLOCK_AT + 72, 0, 4), (SUPERBLOCK_AT + 88, 128, 4)],
    ),
    (
        "a RAID6",
        &[(SUPERBLOCK_AT + 72, 6, 4), (SUPERBLOCK_AT + 88, 128, 4)],
    ),
    (
        "a RAID10 with chunks of 2^31 sectors",
        &raid10(0x102, 1 << 31),
    ),
    ("a RAID10 with chunks of 3 pages", &raid10(0x102, 24)),
    ("a RAID10 with 0 near copies", &raid10(0x100, 128)),
    ("a RAID10 with 255 by 255 copies", &raid10(0xffff, 128)),
    ("1920 legs", &[(SUPERBLOCK_AT + 92, 1920, 4)]),
    ("65535 legs", &[(SUPERBLOCK_AT + 92, 65535, 4)]),
    ("17 legs", &[(SUPERBLOCK_AT + 92, 17, 4)]),
    ("one leg", &[(SUPERBLOCK_AT + 92, 1, 4)]),
    ("0 roles", &[(SUPERBLOCK_AT + 220, 0, 4)]),
    ("1920 roles", &[(SUPERBLOCK_AT + 220, 1920, 4)]),
    ("1921 roles", &[(SUPERBLOCK_AT + 220, 1921, 4)]),
    ("65535 roles", &[(SUPERBLOCK_AT + 220, 65535, 4)]),
    ("all legs in role 0", &roles(0, 0, 0)),
    ("roles in a circle", &roles(1, 2, 0)),
    ("all legs faulty", &roles(0xfffe, 0xfffe, 0xfffe)),
    ("all legs spares", &roles(0xffff, 0xffff, 0xffff)),
    (
        "the dev_number of another leg",
        &[(SUPERBLOCK_AT + 160, 0, 4)],
    ),
    (
        "a dev_number without a role",
        &[(SUPERBLOCK_AT + 160, 128, 4)],
    ),
    (
        "a dev_number that nobody has",
        &[(SUPERBLOCK_AT + 160, 100, 4)],
    ),
    ("one event more", &[(SUPERBLOCK_AT + 200, 1, 8)]),
    ("2^62 events", &[(SUPERBLOCK_AT + 200, 1 << 62, 8)]),
    ("a reshape", &[(SUPERBLOCK_AT + 8, 5, 4)]),
    ("a cluster", &[(SUPERBLOCK_AT + 8, 0x101, 4)]),
    ("a journal", &[(SUPERBLOCK_AT + 8, 0x201, 4)]),
    ("a partial parity log", &[(SUPERBLOCK_AT + 8, 0x401, 4)]),
    ("a feature of tomorrow", &[(SUPERBLOCK_AT + 8, 0x2001, 4)]),
    (
        "a leg being rebuilt, beyond its end",
        &[
            (SUPERBLOCK_AT + 8, 3, 4),
            (SUPERBLOCK_AT + 152, u64::MAX, 8),
        ],
    ),
    (
        "a replacement",
        &[(SUPERBLOCK_AT + 8, 0x13, 4), (SUPERBLOCK_AT + 152, 0, 8)],
    ),
    (
        "bad blocks without a log",
        &[(SUPERBLOCK_AT + 8, 9, 4), (SUPERBLOCK_AT + 188, 0, 4)],
    ),
    (
        "a bad block behind the end of the data",
        &[
            (SUPERBLOCK_AT + 8, 9, 4),
            (LOG_AT, (1 << 50) | 7, 8),
            (LOG_AT + 8, u64::MAX, 8),
        ],
    ),
    (
        "a bad block at the end of all sectors",
        &[
            (SUPERBLOCK_AT + 8, 9, 4),
            (LOG_AT, u64::MAX - 1, 8),
            (LOG_AT + 8, u64::MAX, 8),
        ],
    ),
    (
        "bad blocks that overlap, out of order",
        &[
            (SUPERBLOCK_AT + 8, 9, 4),
            (LOG_AT, (64 << 10) | 100, 8),
            (LOG_AT + 8, (8 << 10) | 80, 8),
            (LOG_AT + 16, u64::MAX, 8),
        ],
    ),
    (
        "a bad-block log without an end",
        &[(SUPERBLOCK_AT + 8, 9, 4)],
    ),
    ("a lockless bitmap", &[(BITMAP_AT + 4, 6, 4)]),
    (
        "a bitmap of a cluster",
        &[(BITMAP_AT + 4, 5, 4), (BITMAP_AT + 68, 4, 4)],
    ),
    (
        "a bitmap in the host's byte order",
        &[(BITMAP_AT + 4, 3, 4)],
    ),
    ("bitmap chunks of 513 bytes", &[(BITMAP_AT + 52, 513, 4)]),
    ("bitmap chunks of 512 bytes", &[(BITMAP_AT + 52, 512, 4)]),
    ("bitmap chunks of 2 GiB", &[(BITMAP_AT + 52, 1 << 31, 4)]),
    ("a bitmap for 2^60 sectors", &[(BITMAP_AT + 40, 1 << 60, 8)]),
    ("a bitmap for 8 sectors", &[(BITMAP_AT + 40, 8, 8)]),
    (
        "a bitmap that is of use to nobody yet",
        &[(BITMAP_AT + 24, 0, 8)],
    ),
    ("a bitmap cleared tomorrow", &[(BITMAP_AT + 32, 1 << 61, 8)]),
];

/// One thing that is not as it should be.
pub(super) struct Row {
    pub(super) name: String,
    /// What is changed, on whichever legs lie.
    changes: Vec<(usize, Vec<u8>)>,
    /// Whether the sum stays wrong.
    has_wrong_sum: bool,
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![Row {
        name: "a wrong sum".to_owned(),
        changes: vec![(SUPERBLOCK_AT + 216, vec![1, 2, 3, 4])],
        has_wrong_sum: true,
    }];
    for Field(name, at, len) in FIELDS {
        let filled = |byte: u8| vec![byte; *len];
        let with_last = |mut bytes: Vec<u8>, last: u8| {
            bytes[*len - 1] = last;
            bytes
        };
        let with_first = |mut bytes: Vec<u8>, first: u8| {
            bytes[0] = first;
            bytes
        };
        let values = [
            ("0", filled(0)),
            ("1", with_first(filled(0), 1)),
            ("the sign alone", with_last(filled(0), 0x80)),
            ("all but the sign", with_last(filled(0xff), 0x7f)),
            ("the most but one", with_first(filled(0xff), 0xfe)),
            ("the most", filled(0xff)),
        ];
        rows.extend(values.map(|(what, bytes)| Row {
            name: format!("{name}: {what}"),
            changes: vec![(*at, bytes)],
            has_wrong_sum: false,
        }));
    }
    rows.extend(LIES.iter().map(|(name, changes)| {
        Row {
            name: (*name).to_owned(),
            changes: changes
                .iter()
                .map(|&(at, value, len)| (at, value.to_le_bytes()[..len].to_vec()))
                .collect(),
            has_wrong_sum: false,
        }
    }));
    rows
}

impl Row {
    /// What a leg is with these changes.
    fn apply(&self, golden: &[u8]) -> Vec<u8> {
        let mut head = golden.to_vec();
        for (at, bytes) in &self.changes {
            head[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        if !self.has_wrong_sum {
            let sum = checksum(&head[SUPERBLOCK_AT..]);
            head[SUPERBLOCK_AT + 216..SUPERBLOCK_AT + 220].copy_from_slice(&sum.to_le_bytes());
        }
        head
    }
}

/// The sum of a superblock with as many roles as it says, where it can have so many.
fn checksum(bytes: &[u8]) -> u32 {
    let number =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let roles = number(220).min(1920) as usize;
    let len = 256 + 2 * roles;
    let words = (0..len / 4)
        .filter(|index| *index != 54)
        .map(|index| u64::from(number(index * 4)));
    let mut sum: u64 = words.sum();
    if len % 4 == 2 {
        sum += u64::from(u16::from_le_bytes([bytes[len - 2], bytes[len - 1]]));
    }
    let folded = (sum & 0xffff_ffff) + (sum >> 32);
    u32::try_from(folded & 0xffff_ffff).expect("32 bits")
}

/// Three legs of an array, as they were made.
pub(super) struct Golden {
    pub(super) paths: Vec<String>,
    heads: Vec<Vec<u8>>,
}

impl Golden {
    /// Makes an array of this name on three legs whose names begin so.
    pub(super) fn make(room: &Room, prefix: &str, name: &str) -> Result<Self> {
        let paths: Vec<String> = ["a", "b", "c"]
            .iter()
            .map(|leg| room.path_text(&format!("{prefix}-{leg}.img")))
            .collect();
        for path in &paths {
            File::create(path)?.set_len(LEG_BYTES)?;
        }
        let options = [
            "--level",
            "raid1",
            "--assume-clean",
            "--bitmap-chunk",
            "64K",
        ];
        let said = create_called(room, name, &paths, &options)?;
        ensure!(said.status.success(), "create failed: {}", said.stderr);
        let heads = paths
            .iter()
            .map(|path| Ok(fs::read(path)?[..HEAD_BYTES].to_vec()));
        let heads = heads.collect::<Result<_>>()?;
        Ok(Self { paths, heads })
    }

    /// Makes the legs anew, those of `lying` with these changes; gives how they begin.
    pub(super) fn write(&self, row: Option<&Row>, lying: &[usize]) -> Result<Vec<Vec<u8>>> {
        let mut written = Vec::new();
        for (index, (path, head)) in self.paths.iter().zip(&self.heads).enumerate() {
            let row = row.filter(|_| lying.contains(&index));
            let head = row.map_or_else(|| head.clone(), |row| row.apply(head));
            let file = File::create(path).with_context(|| format!("creating {path}"))?;
            file.set_len(LEG_BYTES)?;
            file.write_all_at(&head, 0)?;
            written.push(head);
        }
        Ok(written)
    }

    /// Nothing was written to the legs since.
    pub(super) fn ensure_untouched(&self, written: &[Vec<u8>]) -> Result<()> {
        for (path, head) in self.paths.iter().zip(written) {
            let now = fs::read(path)?;
            ensure!(now.len() as u64 == LEG_BYTES, "{path} has another size");
            ensure!(now.starts_with(head), "{path}: its metadata was written to");
            let is_zero = now[HEAD_BYTES..].iter().all(|&byte| byte == 0);
            ensure!(is_zero, "{path}: its data was written to");
        }
        Ok(())
    }
}

/// Runs the program with little memory; it has to end by itself, and not by a panic.
fn run(room: &Room, arguments: &[&str]) -> Result<Said> {
    let mut command = process::limited(TIME_MAX, "prlimit");
    command
        .arg(format!("--as={ADDRESS_SPACE_BYTES}"))
        .arg(&room.program)
        .args(arguments)
        // A client that leaves at once, for who serves one.
        .stdin(Stdio::piped());
    let said = process::listen(&mut command)?;
    let (code, text) = (said.status.code(), &said.stderr);
    ensure!(
        code.is_some_and(|code| (0..=2).contains(&code)) && !text.contains("panicked"),
        "heliostat {} ended with {}: {text}",
        arguments.join(" "),
        said.status
    );
    Ok(said)
}

/// What becomes of legs that are named to `serve`, which ends when its client does.
pub(super) fn serve(room: &Room, paths: &[String], options: &[&str]) -> Result<Said> {
    let control = room.path_text("control-serve");
    let mut arguments = vec!["serve"];
    arguments.extend(paths.iter().map(String::as_str));
    arguments.extend(["--name", "lies", "--export", "stdio:"]);
    arguments.extend(["--control-dir", &control, "--memory", MEMORY]);
    arguments.extend(options);
    run(room, &arguments)
}

fn hostile(room: &Room) -> Result<()> {
    let golden = Golden::make(room, "leg", NAME)?;
    let mut lines = Vec::new();
    let mut failed = Vec::new();
    for row in rows() {
        match judge(room, &golden, &row) {
            Ok(line) => lines.push(format!("{}: {line}\n", row.name)),
            Err(error) => failed.push(format!("{}: {error:#}", row.name)),
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    let text = lines.concat();
    let expected = room.root.join(EXPECTED);
    if env::var(UPDATE_VARIABLE).is_ok_and(|value| value == "1") {
        return fs::write(&expected, text).context("writing what is expected");
    }
    let expected = fs::read_to_string(&expected).context("reading what is expected")?;
    let differences = text.lines().zip(expected.lines());
    let different = differences.clone().find(|(is, was)| is != was);
    if let Some((is, was)) = different {
        bail!("not as expected (see {EXPECTED}):\n  {is}\n  {was}");
    }
    ensure!(text == expected, "there are other rows than in {EXPECTED}");
    Ok(())
}

/// What becomes of legs that lie: shown, one of three served with the others, and all of them.
fn judge(room: &Room, golden: &Golden, row: &Row) -> Result<String> {
    let lying = &golden.paths[LYING];
    let written = golden.write(Some(row), &[LYING])?;
    let shown = run(room, &["examine", lying])?;
    let json = run(room, &["examine", "--json", lying])?;
    ensure!(
        shown.status == json.status && json.stdout.lines().count() == 1,
        "text and JSON differ: {}",
        json.stdout
    );
    let said = serve(room, &golden.paths, &["--degraded-ok"])?;
    let one = verdict(&said);
    if said.status.success() {
        ensure!(
            one == "served" || said.stderr.contains(lying),
            "{lying} should be named: {}",
            said.stderr
        );
    } else {
        golden.ensure_untouched(&written)?;
        ensure_named(&golden.paths, &said)?;
    }
    let written = golden.write(Some(row), &[0, 1, 2])?;
    let said = serve(room, &golden.paths, &["--degraded-ok"])?;
    if !said.status.success() {
        golden.ensure_untouched(&written)?;
        ensure_named(&golden.paths, &said)?;
    }
    let all = verdict(&said);
    let shown = if shown.status.success() {
        "good".to_owned()
    } else {
        let why = shown.stdout.lines().find_map(|line| {
            let (_, why) = line
                .split_once("cannot be served: ")
                .or_else(|| line.split_once("cannot be used: "))?;
            why.split_once(" is ").map(|(field, _)| field.to_owned())
        });
        why.unwrap_or_else(|| "no superblock, or bad blocks that cannot be read".to_owned())
    };
    Ok(format!("{shown} / {one} / {all}"))
}

/// What was made of legs, in a word or two.
fn verdict(said: &Said) -> &'static str {
    match (said.status.code(), said.stderr.contains("left out")) {
        (Some(0), true) => "served without",
        (Some(0), false) => "served",
        _ => "refused",
    }
}

/// Whoever is refused is named.
fn ensure_named(paths: &[String], said: &Said) -> Result<()> {
    let text = &said.stderr;
    let is_named = paths.iter().any(|path| text.contains(path.as_str()));
    ensure!(
        is_named || text.contains("the array "),
        "the leg or the array should be named: {text}"
    );
    Ok(())
}

/// Lengths to which a leg is cut.
const LENGTHS: &[u64] = &[
    0,
    1,
    511,
    512,
    4095,
    4096,
    4352,
    8192,
    12_288,
    1 << 20,
    (1 << 20) + 512,
    LEG_BYTES - 512,
    LEG_BYTES - 1,
];

/// Of how many rows one is tried where each takes a server or a new array.
pub(super) const SAMPLE: usize = 12;

fn hostile_legs(room: &Room) -> Result<()> {
    let golden = Golden::make(room, "leg", NAME)?;
    let [first, lying, third] = &golden.paths[..] else {
        bail!("there are three legs");
    };
    for length in LENGTHS {
        let written = golden.write(None, &[])?;
        File::options().write(true).open(lying)?.set_len(*length)?;
        let shown = run(room, &["examine", lying])?;
        ensure!(!shown.status.success(), "{length} bytes are no leg");
        let said = serve(room, &golden.paths, &["--degraded-ok"])?;
        let is_without = said.status.success() && said.stderr.contains("left out");
        ensure!(
            said.stderr.contains(lying) && (is_without || !said.status.success()),
            "{length} bytes: {}",
            said.stderr
        );
        if !said.status.success() {
            let now = fs::read(first)?;
            ensure!(now.starts_with(&written[0]), "{first} was written to");
        }
        ensure!(fs::metadata(lying)?.len() == *length, "its length changed");
    }
    // A copy of another leg.
    golden.write(None, &[])?;
    fs::copy(first, lying)?;
    let said = serve(room, &golden.paths, &["--degraded-ok"])?;
    let are_named = said.stderr.contains(first.as_str()) && said.stderr.contains(lying.as_str());
    ensure!(
        said.status.code() == Some(1) && are_named,
        "twins: {}",
        said.stderr
    );
    for row in rows().iter().step_by(SAMPLE) {
        let new = room.path_text("new.img");
        File::create(&new)?.set_len(LEG_BYTES)?;
        let written = golden.write(Some(row), &[LYING])?;
        let control = room.path_text("control-new");
        let words = ["create", "new", "--level", "raid1", lying, &new];
        let said = run(room, &[&words[..], &["--control-dir", &control]].concat())?;
        ensure!(
            said.status.code() == Some(1) && said.stderr.contains(lying),
            "{}: create: {}",
            row.name,
            said.stderr
        );
        golden.ensure_untouched(&written)?;
        ensure!(fs::read(&new)?.iter().all(|&byte| byte == 0), "{new}");
    }
    by_name(room, &golden)?;
    let others = [first.clone(), third.clone()];
    added(room, &golden, &others)
}

/// An array that is served by its name does without a leg that lies where it may.
fn by_name(room: &Room, golden: &Golden) -> Result<()> {
    let row = &rows()[0];
    let written = golden.write(Some(row), &[LYING])?;
    let said = Server::refused(room, &[NAME.to_owned()], &["--name", "other"])?;
    let words = [golden.paths[LYING].as_str(), "sb_csum", "--degraded-ok"];
    ensure!(words.iter().all(|word| said.contains(word)), "{said}");
    golden.ensure_untouched(&written)?;
    let server = Server::start(room, &[NAME.to_owned()], &["--degraded-ok"])?;
    let status = server.control(&["status", NAME])?;
    ensure!(status.contains("2 of 3 legs in sync"), "{status}");
    server.terminate()?;
    Ok(())
}

/// Legs that lie are added to an array that is served, or refused.
fn added(room: &Room, golden: &Golden, others: &[String]) -> Result<()> {
    let lying = &golden.paths[LYING];
    golden.write(None, &[])?;
    let server = Server::start(room, others, &["--degraded-ok"])?;
    let golden_head = fs::read(lying)?[..HEAD_BYTES].to_vec();
    for row in rows().iter().skip(1).step_by(SAMPLE) {
        let head = row.apply(&golden_head);
        let file = File::create(lying)?;
        file.set_len(LEG_BYTES)?;
        file.write_all_at(&head, 0)?;
        drop(file);
        let said = server.listen(&["add", NAME, lying])?;
        let code = said.status.code();
        if code == Some(0) {
            server.control(&["fail", NAME, &LYING.to_string()])?;
            server.control(&["remove", NAME, &LYING.to_string()])?;
            continue;
        }
        ensure!(
            code == Some(1) && said.stderr.contains(lying.as_str()),
            "{}: add: {}",
            row.name,
            said.stderr
        );
        ensure!(
            fs::read(lying)?.starts_with(&head),
            "{}: it was written to",
            row.name
        );
    }
    server.terminate()?;
    Ok(())
}
