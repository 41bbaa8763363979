//! What legs are recognised by after a restart, whatever they are called and wherever they are
//! mounted then. Changes nothing.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, fstatfs, fstatvfs, makedev, open, statx};
use rustix::io::Errno;

use crate::host::{DeviceNumber, Host, attribute};

/// The file systems whose number is made of the UUID that is written in them: ext2 to ext4, and
/// btrfs. That of XFS and f2fs is the device's, which may be another one after a restart.
const LASTING_MAGICS: [i64; 2] = [0xef53, 0x9123_683e];

/// What the identity of a disk begins with that has a name of its own.
pub(crate) const DISK: &str = "disk:";

/// What to recognise an open file by: its inode, the time when that was made, which tells it from
/// one that had its number before, and its file system. Where one of the last two is not known, by
/// inode and path.
pub(crate) fn of_file(host: &Host, fd: impl AsFd, path: &Path) -> Result<String, Errno> {
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let stat = statx(&fd, "", AtFlags::EMPTY_PATH, wanted)?;
    let inode = stat.stx_ino;
    let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let device = DeviceNumber(makedev(stat.stx_dev_major, stat.stx_dev_minor));
    let path = canonical(path);
    let file_system = file_system(host, fd, host.device_below(device, &path));
    Ok(match file_system.filter(|_| has_birth) {
        Some(file_system) => {
            let birth = stat.stx_btime;
            let (seconds, nanoseconds) = (birth.tv_sec, birth.tv_nsec);
            format!("file:{inode}:{seconds}.{nanoseconds:09}:{file_system}")
        }
        None => format!("file:{inode}:{}", path.display()),
    })
}

/// Which two of these identities name the same disk, under two names perhaps, if any do. Identities
/// of other kinds are not compared: the kernel already lets a file be opened only once.
pub(crate) fn same_disks(identities: &[&str]) -> Option<(usize, usize)> {
    (0..identities.len()).find_map(|later| {
        let is_same = |earlier: &usize| identities[*earlier] == identities[later];
        let earlier = (0..later).find(is_same)?;
        identities[later]
            .starts_with(DISK)
            .then_some((earlier, later))
    })
}

/// What a file system is recognised by: its own number, or the disk that it lies on.
fn file_system(host: &Host, fd: impl AsFd, below: DeviceNumber) -> Option<String> {
    let has_number = fstatfs(&fd).is_ok_and(|stat| LASTING_MAGICS.contains(&stat.f_type));
    fstatvfs(&fd)
        .ok()
        .filter(|stat| has_number && stat.f_fsid != 0)
        .map(|stat| format!("{:016x}", stat.f_fsid))
        .or_else(|| host.device_identity(below))
}

/// What to recognise a block device by: what its maker wrote on it; for a loop device the file
/// that it stands on and where in it; for others the path.
pub(crate) fn of_device(host: &Host, device: DeviceNumber, path: &Path) -> String {
    host.device_identity(device)
        .or_else(|| of_loop_device(host, device))
        .unwrap_or_else(|| format!("device:{}", canonical(path).display()))
}

/// `None` for what is no loop device, and where its file cannot be looked at by its name.
fn of_loop_device(host: &Host, device: DeviceNumber) -> Option<String> {
    let disk = host.disk_dir(device)?;
    let backing = PathBuf::from(attribute(&disk, "loop/backing_file")?);
    let offset_bytes = attribute(&disk, "loop/offset")?;
    // The name only: a file that is not ours is not opened for reading.
    let fd = open(&backing, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let file = of_file(host, fd, &backing).ok()?;
    let part = match attribute(&host.device_dir(device)?, "partition") {
        Some(number) => format!(":part{number}"),
        None => String::new(),
    };
    Some(format!("loop:{offset_bytes}{part}:{file}"))
}

/// The path without links and dots, where it can be followed.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
