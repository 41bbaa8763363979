//! Who else uses a file or block device, by name, so that it can be refused with the way out.
//!
//! Looks only. What it cannot see (another user's processes, other machines) it does not claim.

use std::fs;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, major, makedev, minor, statx};
use rustix::process::getpid;

use crate::host::{DeviceNumber, Host, attribute};

/// Who uses it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// Who, in a form that can be looked for.
    pub(crate) user: String,
    /// What to do.
    pub(crate) way_out: String,
}

/// A file or a device, whatever path led there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// A regular file: device and inode.
    File {
        /// The file system's device.
        device: u64,
        /// Its number there.
        inode: u64,
    },
    /// A block device.
    Device(DeviceNumber),
}

impl Identity {
    /// What lies behind a path. Asks no server of a network file system: one that does not answer
    /// would hold us up, for a file of which we only want to know whether it is ours.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let wanted = StatxFlags::TYPE | StatxFlags::INO;
        let stat = statx(CWD, path, AtFlags::STATX_DONT_SYNC, wanted).ok()?;
        let kind = FileType::from_raw_mode(stat.stx_mode.into());
        Some(if kind == FileType::BlockDevice {
            Self::Device(DeviceNumber(makedev(
                stat.stx_rdev_major,
                stat.stx_rdev_minor,
            )))
        } else {
            Self::File {
                device: makedev(stat.stx_dev_major, stat.stx_dev_minor),
                inode: stat.stx_ino,
            }
        })
    }
}

/// What the kernel itself does with a file or device: arrays, mappings, mounts, swap, loops.
pub(crate) fn kernel_use(host: &Host, what: Identity) -> Option<Use> {
    let on_device = match what {
        Identity::Device(device) => device_use(host, device),
        Identity::File { .. } => None,
    };
    on_device
        .or_else(|| swap_use(host, what))
        .or_else(|| loop_use(host, what))
}

fn device_use(host: &Host, device: DeviceNumber) -> Option<Use> {
    let dir = host.device_dir(device)?;
    let held = sorted_names(&dir.join("holders"))
        .into_iter()
        .next()
        .map(|holder| holder_use(host, &holder));
    let mounted = || {
        let mount = host
            .mounts()
            .into_iter()
            .find(|mount| mount.is_of(device))?;
        Some(Use {
            user: format!("it is mounted at {}", mount.mount_point),
            way_out: format!("unmount it with `umount {}`", mount.mount_point),
        })
    };
    held.or_else(mounted).or_else(|| partition_use(host, &dir))
}

/// An array or mapping that a device is part of.
fn holder_use(host: &Host, holder: &str) -> Use {
    let dir = host.sys.join("block").join(holder);
    if let Some(level) = attribute(&dir, "md/level") {
        return Use {
            user: format!("it is part of the md array /dev/{holder} ({level})"),
            way_out: format!("stop that with `mdadm --stop /dev/{holder}`"),
        };
    }
    let Some(name) = attribute(&dir, "dm/name") else {
        return Use {
            user: format!("/dev/{holder} stands on it"),
            way_out: format!("stop /dev/{holder} first"),
        };
    };
    let uuid = attribute(&dir, "dm/uuid").unwrap_or_default();
    let (kind, command) = if uuid.starts_with("LVM-") {
        ("the logical volume", format!("lvchange -an {name}"))
    } else if uuid.starts_with("CRYPT-") {
        ("the encrypted device", format!("cryptsetup close {name}"))
    } else if uuid.starts_with("mpath-") {
        ("the multipath device", format!("multipath -f {name}"))
    } else {
        ("the mapping", format!("dmsetup remove {name}"))
    };
    Use {
        user: format!("{kind} {name} ({holder}) stands on it"),
        way_out: format!("take it down with `{command}`, or use /dev/mapper/{name} as the leg"),
    }
}

/// A partition of a disk that is used.
fn partition_use(host: &Host, disk: &Path) -> Option<Use> {
    sorted_names(disk).into_iter().find_map(|name| {
        let dir = disk.join(&name);
        attribute(&dir, "partition")?;
        let device = DeviceNumber::parse(&attribute(&dir, "dev")?)?;
        let inner = kernel_use(host, Identity::Device(device))?;
        Some(Use {
            user: format!("of its partition /dev/{name}: {}", inner.user),
            way_out: inner.way_out,
        })
    })
}

fn swap_use(host: &Host, what: Identity) -> Option<Use> {
    let swaps = host.swaps();
    let path = swaps
        .iter()
        .find(|path| Identity::of(path) == Some(what))?
        .display();
    Some(Use {
        user: format!("the system swaps to {path}"),
        way_out: format!("stop that with `swapoff {path}`"),
    })
}

fn loop_use(host: &Host, what: Identity) -> Option<Use> {
    let (name, _) = host
        .loop_devices()
        .into_iter()
        .find(|(_, backing)| Identity::of(backing) == Some(what))?;
    let number = attribute(&host.sys.join("block").join(&name), "dev");
    let used = number
        .and_then(|text| DeviceNumber::parse(&text))
        .and_then(|device| device_use(host, device));
    let detach = format!("detach it with `losetup -d /dev/{name}`");
    let user = format!("the loop device /dev/{name} stands on it");
    Some(match used {
        Some(above) => Use {
            user: format!("{user}, and of that: {}", above.user),
            way_out: format!("{}, then {detach}", above.way_out),
        },
        None => Use {
            user,
            way_out: format!("{detach}, or use that as the leg"),
        },
    })
}

/// A process that has it open for writing, as far as this user may see; this one counts too.
pub(crate) fn writer(host: &Host, what: Identity) -> Option<i32> {
    let mut pids: Vec<i32> = sorted_names(&host.proc)
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    pids.sort_unstable();
    pids.into_iter().find(|&pid| {
        let dir = host.proc.join(pid.to_string());
        let descriptors = fs::read_dir(dir.join("fd")).into_iter().flatten().flatten();
        descriptors
            .filter(|entry| Identity::of(&entry.path()) == Some(what))
            .any(|entry| is_writable(&dir.join("fdinfo").join(entry.file_name())))
    })
}

/// What is said of such a process.
pub(crate) fn writer_use(host: &Host, pid: i32) -> Use {
    process_use(host, pid, "has it open for writing")
}

/// The process whose lock keeps us from locking a file.
pub(crate) fn lock_use(host: &Host, what: Identity) -> Option<Use> {
    let Identity::File { device, inode } = what else {
        return None;
    };
    // "1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF", with the device in hexadecimal.
    let place = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let locks = fs::read_to_string(host.proc.join("locks")).unwrap_or_default();
    let pid = locks.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let kind = words.nth(1)?;
        let pid = words.nth(2)?;
        (kind == "FLOCK" && words.next()? == place).then(|| pid.parse().ok())?
    })?;
    Some(process_use(host, pid, "has it locked"))
}

fn process_use(host: &Host, pid: i32, does: &str) -> Use {
    if pid == getpid().as_raw_pid() {
        return Use {
            user: format!("this process itself {does}"),
            way_out: "name each leg once".to_owned(),
        };
    }
    let command = attribute(&host.proc.join(pid.to_string()), "comm");
    let command = command.unwrap_or_else(|| "name unknown".to_owned());
    Use {
        user: format!("process {pid} ({command}) {does}"),
        way_out: format!("stop it first (`kill {pid}`)"),
    }
}

/// Whether a descriptor is open for writing, by its fdinfo.
fn is_writable(fdinfo: &Path) -> bool {
    let text = fs::read_to_string(fdinfo).unwrap_or_default();
    let flags = text
        .lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & (libc::O_ACCMODE.cast_unsigned()) != 0)
}

/// The names in a directory, in order; none where it cannot be read.
fn sorted_names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}
