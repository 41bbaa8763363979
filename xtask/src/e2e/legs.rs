//! Legs for tests: made, filled, and compared byte by byte.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::room::Room;
use crate::process;

/// How large a leg is where a test does not care: a few seconds of anything.
pub(super) const LEG_BYTES: u64 = 64 << 20;

/// How long others may have a loop device open that is to be detached.
const DETACH_TIME_MAX: Duration = Duration::from_secs(20);

/// How much is compared or made at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Three sparse files, the legs of most tests.
pub(super) fn sparse(room: &Room) -> Result<Vec<String>> {
    (0..3).map(|index| sparse_file(room, index)).collect()
}

/// One sparse file.
pub(super) fn sparse_file(room: &Room, index: usize) -> Result<String> {
    let path = room.path(&format!("leg{index}.img"));
    File::create(&path)
        .and_then(|file| file.set_len(LEG_BYTES))
        .with_context(|| format!("creating {}", path.display()))?;
    Ok(path.display().to_string())
}

/// Makes a file longer or shorter.
pub(super) fn resize(path: &Path, size_bytes: u64) -> Result<()> {
    let file = File::options().write(true).open(path);
    file.and_then(|file| file.set_len(size_bytes))
        .with_context(|| format!("resizing {}", path.display()))
}

/// Three legs in memory.
pub(super) fn memory() -> Vec<String> {
    vec![format!("mem:{}MiB", LEG_BYTES >> 20); 3]
}

/// A file of random bytes with holes, for copying: every third chunk is a hole.
pub(super) fn random_file(room: &Room, name: &str, size_bytes: u64) -> Result<PathBuf> {
    let path = room.path(name);
    let file = File::create(&path)?;
    file.set_len(size_bytes)?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut chunk = vec![0; CHUNK_BYTES];
    for index in (0..size_bytes / CHUNK_BYTES as u64).filter(|index| index % 3 != 2) {
        for bytes in chunk.chunks_exact_mut(8) {
            // Xorshift: cheap, and nothing that compresses or repeats.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all_at(&chunk, index * CHUNK_BYTES as u64)?;
    }
    Ok(path)
}

/// Where two files or devices first differ, as far as the shorter one goes.
pub(super) fn first_difference(one: &Path, other: &Path) -> Result<Option<u64>> {
    let open = |path: &Path| {
        let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        anyhow::Ok(BufReader::with_capacity(CHUNK_BYTES, file))
    };
    let (mut one, mut other) = (open(one)?, open(other)?);
    let (mut a, mut b) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let mut offset = 0;
    loop {
        let (count_a, count_b) = (fill(&mut one, &mut a)?, fill(&mut other, &mut b)?);
        let count = count_a.min(count_b);
        if let Some(at) = (0..count).find(|&at| a[at] != b[at]) {
            return Ok(Some(offset + at as u64));
        }
        if count < CHUNK_BYTES {
            return Ok(None);
        }
        offset += count as u64;
    }
}

/// Reads until `chunk` is full or the file ends.
fn fill(reader: &mut impl Read, chunk: &mut [u8]) -> Result<usize> {
    let mut count = 0;
    while count < chunk.len() {
        match reader.read(&mut chunk[count..])? {
            0 => break,
            more => count += more,
        }
    }
    Ok(count)
}

/// Checks that two files or devices are the same.
///
/// # Errors
/// Where they differ; the error says where.
pub(super) fn ensure_same(one: &Path, other: &Path) -> Result<()> {
    let difference = first_difference(one, other)?;
    ensure!(
        difference.is_none(),
        "{} and {} differ at byte {}",
        one.display(),
        other.display(),
        difference.unwrap_or_default()
    );
    Ok(())
}

/// Checks that all legs are the same.
///
/// # Errors
/// Where two differ.
pub(super) fn ensure_equal(legs: &[String]) -> Result<()> {
    for leg in &legs[1..] {
        ensure_same(Path::new(&legs[0]), Path::new(leg))?;
    }
    Ok(())
}

/// A loop device over a file; detached when dropped.
#[derive(Debug)]
pub(super) struct LoopDevice<'a> {
    room: &'a Room,
    path: String,
    /// What it is over.
    file: String,
}

impl<'a> LoopDevice<'a> {
    pub(super) fn attach(room: &'a Room, file: &Path, sector_bytes: u32) -> Result<Self> {
        let file = file.display().to_string();
        let sector = format!("--sector-size={sector_bytes}");
        let path = room.run("losetup", &["--find", "--show", &sector, &file])?;
        Ok(Self {
            room,
            path: path.trim().to_owned(),
            file,
        })
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

impl Drop for LoopDevice<'_> {
    fn drop(&mut self) {
        // While somebody has it open, such as another test that scans, the kernel only promises
        // to detach it, and it still shows what it has of its file in memory.
        let name = self.path.trim_start_matches("/dev/");
        let backing = format!("/sys/block/{name}/loop/backing_file");
        let detached = self
            .room
            .run("losetup", &["--detach", &self.path])
            .and_then(|_| {
                process::wait_until("a loop device to be free", DETACH_TIME_MAX, || {
                    let file = fs::read_to_string(&backing);
                    Ok(file.map_or(true, |file| file.trim_end() != self.file))
                })
            });
        if let Err(error) = detached {
            eprintln!("{error:#}");
        }
    }
}

/// Something mounted; unmounted when dropped.
#[derive(Debug)]
pub(super) struct Mount<'a> {
    room: &'a Room,
    path: PathBuf,
}

impl<'a> Mount<'a> {
    /// Takes charge of what is mounted on `path`.
    pub(super) fn adopt(room: &'a Room, path: &Path) -> Self {
        Self {
            room,
            path: path.to_owned(),
        }
    }

    pub(super) fn device(room: &'a Room, device: &str, path: &Path) -> Result<Self> {
        room.run("mount", &[device, &path.display().to_string()])?;
        Ok(Self::adopt(room, path))
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let path = self.path.display().to_string();
        if let Err(error) = self.room.run("umount", &[&path]) {
            eprintln!("{error:#}");
        }
    }
}

/// How many bytes of the disk a file takes.
pub(super) fn allocated_bytes(path: &Path) -> Result<u64> {
    // The unit of st_blocks is 512 bytes, whatever the file system's blocks are.
    Ok(fs::metadata(path)?.blocks() * 512)
}
