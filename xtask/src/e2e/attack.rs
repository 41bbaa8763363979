//! fio writes blocks that say what they are, until the server is killed, and keeps journals from
//! which it follows what each sector of the array may hold then.
//!
//! Each sector that fio writes has a header: where it belongs, which write of which job it is from,
//! and a sum of the rest. One journal of a job has what was asked for, in order, flushes as well;
//! the other one what was answered. Where the legs are files all that was answered has to be there.
//! Where they have volatile caches it is what was flushed: a job at depth 1 asks for nothing before
//! its flush is through, and that it was no failure is known when a write behind it was answered.
//! That is all that can be proven, and all that is demanded.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::power::chance;
use super::room::Room;
use super::server::Server;
use crate::process::{self, Background};

/// How finely it is known what there is.
const SECTOR_BYTES: usize = 512;

/// What fio writes in peace, at the end of the array, before each attack, and verifies by itself.
const SETTLED_BYTES: usize = 2 << 20;

/// The longest times until the server is killed: while most bits of the bitmap are set, or after
/// many flushes.
const WRITING_TIMES_MAX_MS: [u64; 2] = [60, 600];

/// How long fio may take to begin, and to notice that nobody answers.
const FIO_TIME_MAX: Duration = Duration::from_secs(60);

/// What a kill leaves of what was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// All of it.
    Answered,
    /// What was flushed.
    Flushed,
}

/// One write of fio's.
#[derive(Clone, Copy, Debug)]
struct Write {
    at: usize,
    len: usize,
    /// It has to be there.
    is_durable: bool,
}

/// What fio did in an attack: the writes of each job, in order. Jobs have parts of their own.
#[derive(Debug)]
pub(crate) struct Journal {
    jobs: Vec<Vec<Write>>,
}

/// What an array held after an attack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// How many sectors there were that had to be there.
    pub(crate) durable: usize,
    /// How many that need not be there were not, though another request of their job came later.
    pub(crate) lost: usize,
}

/// Lets fio write to an array of this size, and kills its server in the middle.
pub(crate) fn run(
    room: &Room,
    server: Server<'_>,
    size_bytes: usize,
    kept: Kept,
    seed: u64,
) -> Result<Journal> {
    room.require_tools(&["fio"])?;
    settle(room, &server.uri(), size_bytes, seed, &["--end_fsync=1"])?;
    let jobs = 1 + chance(seed, 4);
    let part = (size_bytes - SETTLED_BYTES) / 4;
    // Not through `timeout`: the journals are written when fio ends by itself.
    let mut command = Command::new("fio");
    command.args(common(&server.uri(), seed));
    let logs = room.path("attack");
    fs::create_dir_all(&logs)?;
    for entry in fs::read_dir(&logs)? {
        fs::remove_file(entry?.path())?;
    }
    let log = |job: u64, end: &str| logs.join(format!("{job}{end}")).display().to_string();
    for job in 0..jobs {
        command.args(job_words(job, part, kept, seed + job));
        command.arg(format!("--write_iolog={}", log(job, ".io")));
        command.arg(format!("--write_lat_log={}", log(job, "")));
    }
    let mut fio = Background::start(&mut command, &room.path("attack.json"))?;
    let last = log(jobs - 1, ".io");
    process::wait_until("fio to begin", FIO_TIME_MAX, || {
        ensure!(fio.is_running()?, "fio ended: {}", fio.said()?);
        Ok(Path::new(&last).exists())
    })?;
    let most_ms = WRITING_TIMES_MAX_MS[usize::from(chance(seed + 1, 3) > 0)];
    thread::sleep(Duration::from_millis(chance(seed + 2, most_ms)));
    server.kill()?;
    fio.wait(FIO_TIME_MAX)?;
    let journals = (0..jobs).map(|job| {
        let asked = fs::read_to_string(log(job, ".io"))?;
        let answered = format!("_lat.{}.log", job + 1);
        // There is none where nothing was answered.
        let answered = fs::read_to_string(log(job, &answered)).unwrap_or_default();
        read_journal(&asked, &answered, kept)
    });
    let jobs = journals.collect::<Result<_>>()?;
    Ok(Journal { jobs })
}

/// fio itself verifies what was written in peace before the attack of this seed.
pub(crate) fn verify_settled(room: &Room, uri: &str, size_bytes: usize, seed: u64) -> Result<()> {
    settle(
        room,
        uri,
        size_bytes,
        seed,
        &["--verify_only=1", "--verify_fatal=1"],
    )
}

fn settle(room: &Room, uri: &str, size_bytes: usize, seed: u64, more: &[&str]) -> Result<()> {
    let mut command = room.command("fio", &[]);
    command.args(common(uri, seed)).args([
        "--name=settled",
        "--rw=write",
        "--bs=64k",
        "--iodepth=4",
        &format!("--offset={}", size_bytes - SETTLED_BYTES),
        &format!("--size={SETTLED_BYTES}"),
    ]);
    process::succeed(command.args(more))?;
    Ok(())
}

/// What all runs of fio are told here.
fn common(uri: &str, seed: u64) -> Vec<String> {
    let words = [
        "--ioengine=nbd",
        &format!("--uri={uri}"),
        "--thread",
        "--verify=crc32c",
        &format!("--verify_interval={SECTOR_BYTES}"),
        "--do_verify=0",
        // It would be written to the current directory.
        "--verify_state_save=0",
        &format!("--randseed={seed}"),
    ];
    words.map(str::to_owned).into()
}

/// A job of an attack. At depth 1 it writes to the same places again and again; deeper ones write
/// to each place once, so that the order in which they were served does not matter.
fn job_words(job: u64, part: usize, kept: Kept, seed: u64) -> Vec<String> {
    let depth = match kept {
        Kept::Answered => [1, 1, 2, 8, 32][usize::try_from(chance(seed + 3, 5)).unwrap_or(0)],
        Kept::Flushed => 1,
    };
    let flushes = [1, 2, 4, 16, 64][usize::try_from(chance(seed + 4, 5)).unwrap_or(0)];
    let sizes = ["512-4k", "4k-4k", "512-64k", "4k-128k"];
    let sizes = sizes[usize::try_from(chance(seed + 5, 4)).unwrap_or(0)];
    let offset = part * usize::try_from(job).unwrap_or(0);
    let mut words = vec![
        format!("--name=job{job}"),
        "--rw=randwrite".to_owned(),
        format!("--bsrange={sizes}"),
        format!("--iodepth={depth}"),
        format!("--fsync={flushes}"),
        format!("--offset={}", offset / SECTOR_BYTES * SECTOR_BYTES),
        format!("--size={}", part / SECTOR_BYTES * SECTOR_BYTES),
        "--log_offset=1".to_owned(),
    ];
    if depth == 1 {
        let again = ["--norandommap=1", "--time_based=1", "--runtime=60"];
        words.extend(again.map(str::to_owned));
    }
    words
}

/// What a job did, of what it asked for and of what was answered.
fn read_journal(asked: &str, answered: &str, kept: Kept) -> Result<Vec<Write>> {
    let mut writes: Vec<Write> = Vec::new();
    // How many writes stand before each flush.
    let mut flushes = Vec::new();
    for line in asked.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [_, _, "write", at, len] => writes.push(Write {
                at: at.parse()?,
                len: len.parse()?,
                is_durable: false,
            }),
            [_, _, "sync", ..] => flushes.push(writes.len()),
            _ => {}
        }
    }
    // Headers have the number of their write in 16 bits.
    ensure!(writes.len() <= 1 << 16, "{} writes in a job", writes.len());
    for line in answered.lines() {
        // Time, duration, direction, length, offset.
        let words: Vec<&str> = line.split(", ").collect();
        let [_, _, _, len, at, ..] = words[..] else {
            bail!("a line of fio's journal: {line}");
        };
        let (at, len): (usize, usize) = (at.parse()?, len.parse()?);
        let mut open = writes.iter_mut().filter(|write| !write.is_durable);
        let write = open.find(|write| (write.at, write.len) == (at, len));
        let told = || format!("answered, and not asked for: {line}");
        write.with_context(told)?.is_durable = true;
    }
    if kept == Kept::Flushed {
        // fio goes on after a flush that has failed: only the answer to a later write tells.
        let is_answered = |count: &&usize| writes[**count..].iter().any(|write| write.is_durable);
        let flushed = flushes.iter().rfind(is_answered).copied().unwrap_or(0);
        for write in &mut writes[flushed..] {
            write.is_durable = false;
        }
    }
    Ok(writes)
}

impl Journal {
    /// Whether an array may hold `now` after the attack, where it held `before`. What was written
    /// in peace is for fio to judge.
    ///
    /// # Errors
    /// Where something that had to be there is not, or something is that nobody wrote.
    pub(crate) fn check(&self, before: &[u8], now: &[u8]) -> Result<Seen> {
        ensure!(before.len() == now.len(), "the array has another size");
        let judged = now.len() - SETTLED_BYTES;
        let (mut durable, mut passed) = (vec![None; judged / SECTOR_BYTES], Vec::new());
        passed.resize(durable.len(), false);
        for writes in &self.jobs {
            for (write, index) in writes.iter().zip(0..) {
                let sectors = write.at / SECTOR_BYTES..(write.at + write.len) / SECTOR_BYTES;
                if write.is_durable {
                    durable[sectors.clone()].fill(Some(index));
                }
                if index + 1 < writes.len() {
                    passed[sectors].fill(true);
                }
            }
        }
        let mut seen = Seen::default();
        let sectors = before.chunks(SECTOR_BYTES).zip(now.chunks(SECTOR_BYTES));
        for ((sector, (before, now)), least) in sectors.enumerate().zip(&durable) {
            let at = sector * SECTOR_BYTES;
            seen.durable += usize::from(least.is_some());
            if before == now {
                ensure!(least.is_none(), "byte {at}: write {least:?} is not there");
                seen.lost += usize::from(passed[sector]);
                continue;
            }
            let write = self.written(at, now)?;
            ensure!(
                least.is_none_or(|least: usize| least <= write),
                "byte {at} is of write {write}, and write {least:?} came later"
            );
        }
        Ok(seen)
    }

    /// Which write of its job a sector is from.
    fn written(&self, at: usize, sector: &[u8]) -> Result<usize> {
        let header = Header::of(sector);
        let header = header.with_context(|| format!("byte {at}: {:02x?}", &sector[..64]))?;
        ensure!(header.at == at as u64, "byte {at} belongs to {}", header.at);
        let job = header.job.checked_sub(1).and_then(|job| self.jobs.get(job));
        let write = job.and_then(|writes| writes.get(header.write));
        let is_of_it = |write: &&Write| (write.at..write.at + write.len).contains(&at);
        let told = || format!("byte {at} is of nobody: {header:?}");
        write.filter(is_of_it).with_context(told)?;
        Ok(header.write)
    }
}

/// What a sector says of itself.
#[derive(Debug)]
struct Header {
    at: u64,
    /// Which job it is of, from 1 on.
    job: usize,
    write: usize,
}

impl Header {
    /// Of a sector that is as it was written.
    fn of(sector: &[u8]) -> Result<Self> {
        // Magic, kind of sum, length, seed, offset, seconds, nanoseconds, job, write, sum of all
        // that; then the sum of what follows.
        let number = |at: usize, len: usize| {
            let bytes = sector[at..at + len].iter().rev();
            bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        ensure!(number(0, 2) == 0xacca, "fio has not written this");
        ensure!(number(4, 4) == SECTOR_BYTES as u64, "an odd length");
        ensure!(
            number(36, 4) == u64::from(crc32c(&sector[..36])),
            "a torn header"
        );
        ensure!(
            number(40, 4) == u64::from(crc32c(&sector[44..])),
            "it is torn"
        );
        Ok(Self {
            at: number(16, 8),
            job: usize::try_from(number(32, 2))?,
            write: usize::try_from(number(34, 2))?,
        })
    }
}

/// Castagnoli's sum as fio has it, which leaves out the last inversion.
fn crc32c(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |sum: u32, &byte| {
        let [low, ..] = sum.to_le_bytes();
        TABLE[usize::from(low ^ byte)] ^ (sum >> 8)
    })
}

/// What each byte does to the sum.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let (mut index, mut byte) = (0, 0);
    while index < table.len() {
        let (mut sum, mut bit) = (byte, 0);
        while bit < 8 {
            sum = (sum >> 1) ^ (0x82f6_3b78 * (sum & 1));
            bit += 1;
        }
        table[index] = sum;
        index += 1;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::{Header, Journal, Kept, SECTOR_BYTES, SETTLED_BYTES, crc32c, read_journal};

    const ASKED: &str = "fio version 3 iolog\n0 j add\n0 j open\n1 j write 512 1024\n\
                         2 j write 4096 512\n3 j sync 4096 0\n4 j write 512 512\n\
                         5 j write 2048 512\n6 j sync 2048 0\n7 j close\n";

    fn durable(answered: &str, kept: Kept) -> Vec<bool> {
        let writes = read_journal(ASKED, answered, kept).unwrap();
        writes.iter().map(|write| write.is_durable).collect()
    }

    const ANSWERED: &str = "1, 9, 1, 1024, 512, 0\n2, 9, 1, 512, 4096, 0\n\
                            2, 9, 1, 512, 512, 0\n";

    #[test]
    fn a_flush_was_answered_when_a_write_behind_it_was() {
        assert_eq!(durable(ANSWERED, Kept::Flushed), [true, true, false, false]);
        let (too_few, _) = ANSWERED.split_at(44);
        assert_eq!(durable(too_few, Kept::Flushed), [false; 4]);
    }

    #[test]
    fn what_was_answered_is_found_by_its_place() {
        let answered = "1, 9, 1, 512, 4096, 0\n2, 9, 1, 512, 512, 0\n";
        assert_eq!(
            durable(answered, Kept::Answered),
            [false, true, true, false]
        );
        assert!(read_journal(ASKED, "1, 9, 1, 512, 8192, 0\n", Kept::Answered).is_err());
    }

    /// A sector as fio writes it.
    fn sector(at: usize, job: u8, write: u8) -> Vec<u8> {
        let mut bytes = vec![0x5a; SECTOR_BYTES];
        bytes[..8].copy_from_slice(&[0xca, 0xac, 5, 0, 0, 2, 0, 0]);
        bytes[16..24].copy_from_slice(&(at as u64).to_le_bytes());
        bytes[32..36].copy_from_slice(&[job, 0, write, 0]);
        let (header, body) = (crc32c(&bytes[..36]), crc32c(&bytes[44..]));
        bytes[36..40].copy_from_slice(&header.to_le_bytes());
        bytes[40..44].copy_from_slice(&body.to_le_bytes());
        bytes
    }

    #[test]
    fn a_sum_is_that_of_the_field() {
        assert_eq!(!crc32c(b"123456789"), 0xe306_9283);
        let header = Header::of(&sector(1024, 1, 7)).unwrap();
        assert_eq!((header.at, header.job, header.write), (1024, 1, 7));
    }

    /// What is said of an array where these sectors changed.
    fn judged(changed: &[(usize, Vec<u8>)]) -> String {
        let jobs = vec![read_journal(ASKED, ANSWERED, Kept::Flushed).unwrap()];
        let before = vec![0; 8192 + SETTLED_BYTES];
        let mut now = before.clone();
        for (at, bytes) in changed {
            now[*at..*at + SECTOR_BYTES].copy_from_slice(bytes);
        }
        match (Journal { jobs }).check(&before, &now) {
            Ok(seen) => format!("{} durable, {} lost", seen.durable, seen.lost),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn a_sector_holds_its_last_durable_write_or_a_later_one() {
        let kept = [
            (512, sector(512, 1, 2)),
            (1024, sector(1024, 1, 0)),
            (4096, sector(4096, 1, 1)),
        ];
        assert_eq!(judged(&kept), "3 durable, 0 lost");
        assert!(judged(&kept[..2]).starts_with("byte 4096: write Some(1) is not there"));
        let with = |at: usize, bytes: Vec<u8>| judged(&[&kept[..], &[(at, bytes)]].concat());
        assert!(with(4096, sector(4608, 1, 1)).contains("belongs to 4608"));
        assert!(with(6144, sector(6144, 1, 1)).contains("of nobody"));
        assert!(with(1024, sector(1024, 2, 0)).contains("of nobody"));
        let mut torn = sector(512, 1, 0);
        torn[300] = 0;
        assert!(with(512, torn).contains("it is torn"));
    }
}
