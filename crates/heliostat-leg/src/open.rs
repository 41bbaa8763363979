//! Opens files and block devices for this process alone, and finds out what they can do. Creates
//! nothing and changes nothing.

mod to_read;

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags, fallocate, fcntl_getfl,
    fcntl_setfl, flock, fstat, fstatfs, ioctl_blkpbszget, ioctl_blksszget, open, seek, statx,
};
use rustix::io::{Errno, pread};
use rustix::process::getpid;
use stdx::units::format_size;

use crate::error::LegError;
use crate::file::{Backing, LegFile, Medium, zero_flags};
use crate::host::{DeviceNumber, Host, QueueFacts};
use crate::identity;
use crate::in_use::{Identity, Use, kernel_use, lock_use, writer, writer_use};
use crate::leg::LegInfo;
use crate::mapping::{Mapping, Pages};
use crate::progress::Abilities;

pub(crate) use to_read::open_path_to_read;

/// The largest logical block: what the largest common sector is, and the alignment that everything
/// above can keep.
const BLOCK_MAX_BYTES: u32 = 4096;

/// The alignment in memory that buffers have.
const MEMORY_ALIGN_BYTES: u32 = 512;

/// The most operations at once that a leg is said to take: what waits beyond that waits better in
/// front of the leg, where a policy still has a choice.
pub(crate) const QUEUE_DEPTH_MAX: u32 = 128;

/// How often, and after which pause, is tried again what somebody else is in the way of: five
/// seconds in all, which is far longer than the kernel takes to close the files of a process that
/// was killed, but for a machine that has much else to do.
const CLOSING_TRIES: u32 = 200;
const CLOSING_PAUSE: Duration = Duration::from_millis(25);

/// How often, with the same pause, a process that has a leg open for writing is looked for again
/// before it is in the way: a second in all. A child that does not run its own program yet has all
/// that its parent had when it was forked, a file that was being made too, and for no longer than
/// that.
const FORK_TRIES: u32 = 40;

/// How transfers go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Past the page cache, where the file system can.
    Direct,
    /// Through the page cache: for the bytes of a modelled device, whose time is the model's.
    Cached,
}

/// Opens what lies at `path`. `leg` is what it is called in messages.
pub(crate) fn open_path(
    leg: &str,
    path: &Path,
    access: Access,
) -> Result<(LegFile, LegInfo), LegError> {
    let subject = Subject {
        leg: leg.to_owned(),
        path: path.to_owned(),
        host: Host::this(),
    };
    let meta = fs::metadata(path).map_err(|error| subject.unreachable(&error))?;
    let kind = meta.file_type();
    if kind.is_block_device() {
        subject.open_device(DeviceNumber(meta.rdev()), access)
    } else if kind.is_file() {
        subject.open_file(access)
    } else if kind.is_dir() {
        let inside = path.join("leg.img");
        Err(subject.unfit("it is a directory", make_file(&inside)))
    } else if kind.is_char_device() {
        Err(subject.unfit(
            "it is a character device",
            "name a block device or a file".to_owned(),
        ))
    } else {
        Err(subject.unfit(
            "it is neither a file nor a block device",
            "name one of these".to_owned(),
        ))
    }
}

/// What is being opened.
struct Subject {
    leg: String,
    path: PathBuf,
    host: Host,
}

/// How transfers must be aligned, and whether they go past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alignment {
    block_bytes: u32,
    direct: bool,
}

impl Alignment {
    /// Through the page cache anything goes; what is above wants whole sectors.
    const CACHED: Self = Self {
        block_bytes: 512,
        direct: false,
    };
}

/// What was found out of what was opened.
struct Found {
    fd: OwnedFd,
    medium: Medium,
    end_bytes: u64,
    alignment: Alignment,
    physical_block_bytes: u32,
    abilities: Abilities,
    fast_zero: bool,
    queue: Option<QueueFacts>,
    identity: String,
    backing: Option<Backing>,
    takes_at_once: bool,
}

impl Subject {
    fn open_file(&self, access: Access) -> Result<(LegFile, LegInfo), LegError> {
        let what = Identity::of(&self.path);
        self.refuse(what.and_then(|what| kernel_use(&self.host, what)))?;
        self.refuse_writer(what)?;
        let fd = self.open_fd(OFlags::empty())?;
        match patiently(|| flock(&fd, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                self.refuse(what.and_then(|what| lock_use(&self.host, what)))?;
                return Err(self.in_use_unseen("somebody has it locked"));
            }
            Err(errno) => return Err(self.io("lock", errno)),
        }
        let alignment = match access {
            Access::Direct => file_alignment(&fd).map_err(|errno| self.io("probe", errno))?,
            Access::Cached => Alignment::CACHED,
        };
        // Of what is open and locked now, whatever lay at the path before.
        let stat = fstat(&fd).map_err(|errno| self.io("look at", errno))?;
        let end_bytes = stat.st_size.cast_unsigned();
        let abilities = Abilities {
            punches_holes: punches_holes(&fd, end_bytes),
            zeroes_ranges: zeroes_ranges(&fd),
        };
        let identity = identity::of_file(&self.host, &fd, &self.path)
            .map_err(|errno| self.io("look at", errno))?;
        let takes_at_once = takes_at_once(&fd);
        let path = identity::canonical(&self.path);
        let below = self.host.device_below(DeviceNumber(stat.st_dev), &path);
        self.finish(Found {
            fd,
            medium: Medium::File,
            end_bytes,
            alignment,
            // What file systems allocate in.
            physical_block_bytes: 4096,
            abilities,
            fast_zero: abilities.zeroes_ranges,
            queue: self.host.queue_facts(below),
            identity,
            backing: None,
            takes_at_once,
        })
    }

    fn open_device(
        &self,
        device: DeviceNumber,
        access: Access,
    ) -> Result<(LegFile, LegInfo), LegError> {
        let what = Identity::Device(device);
        self.refuse(kernel_use(&self.host, what))?;
        self.refuse_process(what)?;
        let direct = match access {
            Access::Direct => OFlags::DIRECT,
            Access::Cached => OFlags::empty(),
        };
        let fd = self.open_fd(OFlags::EXCL | direct)?;
        let block_bytes =
            ioctl_blksszget(&fd).map_err(|errno| self.io("ask the block size of", errno))?;
        if block_bytes > BLOCK_MAX_BYTES {
            return Err(self.unfit(
                &format!("its blocks of {block_bytes} bytes are larger than 4096"),
                "put a file system on it and name a file there".to_owned(),
            ));
        }
        let queue = self.host.queue_facts(device);
        let fast_zero = queue.is_some_and(|queue| queue.fast_zero);
        let physical_block_bytes = ioctl_blkpbszget(&fd).unwrap_or(block_bytes);
        self.finish(Found {
            medium: Medium::BlockDevice,
            end_bytes: seek(&fd, SeekFrom::End(0))
                .map_err(|errno| self.io("ask the size of", errno))?,
            fd,
            alignment: Alignment {
                block_bytes,
                direct: access == Access::Direct,
            },
            physical_block_bytes,
            abilities: Abilities {
                punches_holes: fast_zero,
                // A device that makes no zeros by itself is sent them by the kernel.
                zeroes_ranges: true,
            },
            fast_zero,
            queue,
            identity: identity::of_device(&self.host, device, &self.path),
            backing: self
                .host
                .loop_backing(device)
                .and_then(|path| Backing::find(&path)),
            takes_at_once: true,
        })
    }

    fn finish(&self, found: Found) -> Result<(LegFile, LegInfo), LegError> {
        let Alignment {
            block_bytes,
            direct,
        } = found.alignment;
        let size_bytes = found.end_bytes - found.end_bytes % u64::from(block_bytes);
        if size_bytes == 0 {
            return Err(self.unfit(&no_block(&found), make_file(&self.path)));
        }
        let medium = match found.medium {
            Medium::File => "file",
            Medium::BlockDevice => "block device",
        };
        let way = if direct {
            format!("direct I/O in blocks of {block_bytes} bytes")
        } else {
            "through the page cache, without direct I/O".to_owned()
        };
        let path = self.path.display();
        let size = format_size(size_bytes);
        let depth = found.queue.and_then(|queue| queue.queue_depth);
        let info = LegInfo {
            size_bytes,
            logical_block_bytes: block_bytes,
            physical_block_bytes: found.physical_block_bytes.max(block_bytes),
            rotational: found.queue.is_some_and(|queue| queue.rotational),
            caches_writes: found.queue.is_some_and(|queue| queue.caches_writes),
            optimal_io_bytes: found.queue.map_or(0, |queue| queue.optimal_io_bytes),
            queue_depth: depth.unwrap_or(QUEUE_DEPTH_MAX).clamp(1, QUEUE_DEPTH_MAX),
            fua: true,
            trim_reads_zeros: found.abilities.punches_holes,
            fast_zero: found.fast_zero,
            identity: found.identity,
            volatile: false,
            description: format!("{medium} {path}, {size}, {way}"),
        };
        let file = LegFile {
            fd: found.fd,
            medium: found.medium,
            size_bytes,
            block_bytes,
            abilities: found.abilities,
            direct,
            backing: found.backing,
            takes_at_once: found.takes_at_once,
        };
        Ok((file, info))
    }

    fn open_fd(&self, flags: OFlags) -> Result<OwnedFd, LegError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | flags;
        patiently(|| open(&self.path, flags, Mode::empty())).map_err(|errno| match errno {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => self.unfit(
                "it may not be opened for writing",
                "run as a user who may (for disks: root, or group disk)".to_owned(),
            ),
            Errno::BUSY => self.in_use_unseen("the kernel holds it for something else"),
            errno => self.io("open", errno),
        })
    }

    /// Why there is nothing to open.
    fn unreachable(&self, error: &io::Error) -> LegError {
        match Errno::from_io_error(error) {
            Some(Errno::NOENT) => self.unfit("there is no such file", make_file(&self.path)),
            Some(errno) => self.io("look at", errno),
            None => self.unfit(
                "its path has a zero byte in it",
                "write it without".to_owned(),
            ),
        }
    }

    fn unfit(&self, problem: &str, way_out: String) -> LegError {
        LegError::Unfit {
            leg: self.leg.clone(),
            problem: problem.to_owned(),
            way_out,
        }
    }

    fn io(&self, doing: &'static str, errno: Errno) -> LegError {
        LegError::Io {
            leg: self.leg.clone(),
            doing,
            source: errno.into(),
        }
    }

    /// An error where there is a user.
    fn refuse(&self, found: Option<Use>) -> Result<(), LegError> {
        match found {
            None => Ok(()),
            Some(Use { user, way_out }) => Err(LegError::InUse {
                leg: self.leg.clone(),
                user,
                way_out,
            }),
        }
    }

    /// An error where anybody has the file open for writing. All processes are looked at only
    /// where the kernel does not say that there is nobody.
    fn refuse_writer(&self, what: Option<Identity>) -> Result<(), LegError> {
        if writers(&self.path) == Writers::None {
            return Ok(());
        }
        if let Some(what) = what {
            self.refuse_process(what)?;
        }
        patiently(|| match writers(&self.path) {
            Writers::Some => Err(Errno::AGAIN),
            Writers::None | Writers::Unknown => Ok(()),
        })
        .map_err(|_| self.in_use_unseen("somebody has it open for writing"))
    }

    /// An error where a process has it open for writing, and is not about to close it.
    fn refuse_process(&self, what: Identity) -> Result<(), LegError> {
        let this_process = getpid().as_raw_pid();
        let mut found = writer(&self.host, what);
        for _ in 0..FORK_TRIES {
            match found {
                None => return Ok(()),
                Some(pid) if pid == this_process => break,
                Some(_) => thread::sleep(CLOSING_PAUSE),
            }
            found = writer(&self.host, what);
        }
        self.refuse(found.map(|pid| writer_use(&self.host, pid)))
    }

    /// An error about a user of whom only the traces are seen.
    fn in_use_unseen(&self, trace: &str) -> LegError {
        let path = self.path.display();
        LegError::InUse {
            leg: self.leg.clone(),
            user: format!("{trace}, and cannot be seen from here"),
            way_out: format!("look for them as root with `lsblk {path}` and `fuser -v {path}`"),
        }
    }
}

/// What is wrong with a leg that has not one block.
fn no_block(found: &Found) -> String {
    match found.end_bytes {
        0 => "it is empty".to_owned(),
        bytes => format!(
            "its {bytes} bytes are less than a block, which has {}",
            found.alignment.block_bytes
        ),
    }
}

fn make_file(path: &Path) -> String {
    format!("make one with `truncate -s 10G {}`", path.display())
}

/// How a file can be read and written, and switches its descriptor to that.
fn file_alignment(fd: &OwnedFd) -> Result<Alignment, Errno> {
    let stat = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    if stat.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return try_alignment(fd);
    }
    let memory_fits = (1..=MEMORY_ALIGN_BYTES).contains(&stat.stx_dio_mem_align);
    let offset_fits = (1..=BLOCK_MAX_BYTES).contains(&stat.stx_dio_offset_align);
    if memory_fits && offset_fits && switch_direct(fd, true).is_ok() {
        return Ok(Alignment {
            block_bytes: stat.stx_dio_offset_align.max(512),
            direct: true,
        });
    }
    Ok(Alignment::CACHED)
}

/// The same, for a kernel that does not tell: whatever it takes first.
fn try_alignment(fd: &OwnedFd) -> Result<Alignment, Errno> {
    if switch_direct(fd, true).is_err() {
        return Ok(Alignment::CACHED);
    }
    let mut block = Mapping::new(4096, Pages::AtOnce)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOMEM))?;
    for block_bytes in [512, BLOCK_MAX_BYTES] {
        match pread(fd, &mut block.bytes_mut()[..block_bytes as usize], 0) {
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno),
            Ok(_) => {
                return Ok(Alignment {
                    block_bytes,
                    direct: true,
                });
            }
        }
    }
    switch_direct(fd, false)?;
    Ok(Alignment::CACHED)
}

fn switch_direct(fd: &OwnedFd, direct: bool) -> Result<(), Errno> {
    let mut flags = fcntl_getfl(fd)?;
    flags.set(OFlags::DIRECT, direct);
    fcntl_setfl(fd, flags)
}

/// Whether holes can be punched: tried behind the end of the file, where nothing is.
fn punches_holes(fd: &OwnedFd, len_bytes: u64) -> bool {
    /// Far enough from the last block, whatever the file system allocates in.
    const ROUND_BYTES: u64 = 1 << 20;
    let behind = len_bytes.next_multiple_of(ROUND_BYTES);
    fallocate(fd, zero_flags(true), behind, 4096).is_ok()
}

/// Whether ranges can be zeroed and keep their storage. Trying would allocate some, so it is
/// known by the file system: ext4, XFS, btrfs and f2fs can.
fn zeroes_ranges(fd: &OwnedFd) -> bool {
    const MAGICS: [i64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];
    fstatfs(fd).is_ok_and(|stat| MAGICS.contains(&stat.f_type))
}

/// Whether operations are taken without waiting for earlier ones. Nobody tells, so it is known by
/// the file system: ext4, XFS, btrfs, f2fs and tmpfs say "later" where others wait.
fn takes_at_once(fd: &OwnedFd) -> bool {
    const MAGICS: [i64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];
    fstatfs(fd).is_ok_and(|stat| MAGICS.contains(&stat.f_type))
}

/// Who has a file open for writing, as the kernel tells by whether it grants a read lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writers {
    /// Nobody.
    None,
    /// Somebody, perhaps this process.
    Some,
    /// It grants no leases on this file, or none to us.
    Unknown,
}

fn writers(path: &Path) -> Writers {
    let Ok(fd) = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return Writers::Unknown;
    };
    // SAFETY: a lease on a descriptor of our own touches no memory; it ends with the descriptor.
    let result = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
    match Errno::from_io_error(&io::Error::last_os_error()) {
        _ if result == 0 => Writers::None,
        Some(Errno::AGAIN) => Writers::Some,
        _ => Writers::Unknown,
    }
}

/// Tries again for a while what fails because of somebody else: the kernel closes the files of a
/// process that was killed some time after it is gone.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..CLOSING_TRIES {
        match attempt() {
            Err(Errno::AGAIN | Errno::BUSY) => thread::sleep(CLOSING_PAUSE),
            result => return result,
        }
    }
    attempt()
}
