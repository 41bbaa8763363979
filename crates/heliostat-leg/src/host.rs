//! What the kernel tells about block devices and processes, under /sys and /proc.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, makedev, minor};

use crate::identity::DISK;

/// Where /sys and /proc are; tests bring their own.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) sys: PathBuf,
    pub(crate) proc: PathBuf,
}

/// A block device, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceNumber(pub(crate) u64);

/// What the kernel tells of a block device's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueFacts {
    /// Whether it turns.
    pub(crate) rotational: bool,
    pub(crate) caches_writes: bool,
    /// The request size that suits it best; 0 where it does not say.
    pub(crate) optimal_io_bytes: u64,
    /// How many operations it takes at once, where it says.
    pub(crate) queue_depth: Option<u32>,
    /// Whether it makes zeros without being sent them.
    pub(crate) fast_zero: bool,
}

impl DeviceNumber {
    /// As `8:16`.
    pub(crate) fn text(self) -> String {
        format!("{}:{}", major(self.0), minor(self.0))
    }

    /// From `8:16`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Self(makedev(major.parse().ok()?, minor.parse().ok()?)))
    }
}

impl Host {
    /// This machine.
    pub(crate) fn this() -> Self {
        Self {
            sys: PathBuf::from("/sys"),
            proc: PathBuf::from("/proc"),
        }
    }

    /// The directory of a device; a partition's lies in its disk's.
    pub(crate) fn device_dir(&self, device: DeviceNumber) -> Option<PathBuf> {
        let link = self.sys.join("dev/block").join(device.text());
        fs::canonicalize(link).ok()
    }

    /// The directory of the disk that a device is, or is a partition of.
    pub(crate) fn disk_dir(&self, device: DeviceNumber) -> Option<PathBuf> {
        let dir = self.device_dir(device)?;
        if dir.join("partition").exists() {
            Some(dir.parent()?.to_owned())
        } else {
            Some(dir)
        }
    }

    /// What is known of a device's queue; nothing for what is no device, as the numbers of some
    /// file systems are.
    pub(crate) fn queue_facts(&self, device: DeviceNumber) -> Option<QueueFacts> {
        let disk = self.disk_dir(device)?;
        let queue = disk.join("queue");
        let number = |dir: &Path, name| -> Option<u64> { attribute(dir, name)?.parse().ok() };
        let queue_depth = number(&disk, "device/queue_depth")
            .or_else(|| number(&queue, "nr_requests"))
            .and_then(|depth| u32::try_from(depth).ok());
        Some(QueueFacts {
            rotational: number(&queue, "rotational") == Some(1),
            caches_writes: attribute(&queue, "write_cache").as_deref() == Some("write back"),
            optimal_io_bytes: number(&queue, "optimal_io_size").unwrap_or(0),
            queue_depth,
            fast_zero: number(&queue, "write_zeroes_max_bytes").unwrap_or(0) > 0,
        })
    }

    /// The device that a file lies on: the one its file system names, or, where that number is
    /// none of a device (btrfs), the source of the mount.
    pub(crate) fn device_below(&self, named: DeviceNumber, path: &Path) -> DeviceNumber {
        if self.device_dir(named).is_some() {
            return named;
        }
        let mounts = self.mounts().into_iter();
        let holding = mounts.filter(|mount| path.starts_with(&mount.mount_point));
        holding
            .max_by_key(|mount| mount.mount_point.len())
            .and_then(|mount| fs::metadata(mount.source).ok())
            .map_or(named, |source| DeviceNumber(source.rdev()))
    }

    /// What to recognise a block device by whatever it is called after a restart: what its maker
    /// wrote on it, with the number of the partition. `None` where it has no such thing.
    pub(crate) fn device_identity(&self, device: DeviceNumber) -> Option<String> {
        let dir = self.device_dir(device)?;
        let disk = self.disk_dir(device)?;
        let name = [
            "dm/uuid",
            "md/uuid",
            "wwid",
            "device/wwid",
            "serial",
            "device/serial",
        ]
        .into_iter()
        .find_map(|name| attribute(&disk, name).filter(|text| !text.is_empty()))?;
        Some(match attribute(&dir, "partition") {
            Some(number) => format!("{DISK}{name}:part{number}"),
            None => format!("{DISK}{name}"),
        })
    }

    /// The mounts: which device, what was named as its source, and where.
    pub(crate) fn mounts(&self) -> Vec<Mount> {
        let text = fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        text.lines().filter_map(Mount::parse).collect()
    }

    /// The files and devices that are swapped to.
    pub(crate) fn swaps(&self) -> Vec<PathBuf> {
        let text = fs::read_to_string(self.proc.join("swaps")).unwrap_or_default();
        let names = text.lines().skip(1);
        names
            .filter_map(|line| Some(PathBuf::from(unescape(line.split_whitespace().next()?))))
            .collect()
    }

    /// The file that a loop device, or a partition of one, stands on.
    pub(crate) fn loop_backing(&self, device: DeviceNumber) -> Option<PathBuf> {
        attribute(&self.disk_dir(device)?, "loop/backing_file").map(PathBuf::from)
    }

    /// The loop devices, by name, and what each stands on.
    pub(crate) fn loop_devices(&self) -> Vec<(String, PathBuf)> {
        let entries = fs::read_dir(self.sys.join("block")).into_iter().flatten();
        let mut devices: Vec<_> = entries
            .flatten()
            .filter_map(|entry| {
                let backing = attribute(&entry.path(), "loop/backing_file")?;
                Some((entry.file_name().into_string().ok()?, backing.into()))
            })
            .collect();
        devices.sort();
        devices
    }
}

/// One line of mountinfo (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) device: DeviceNumber,
    pub(crate) source: PathBuf,
    pub(crate) mount_point: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(2);
        let device = DeviceNumber::parse(front.next()?)?;
        let mount_point = unescape(front.nth(1)?);
        let source = PathBuf::from(unescape(back.split(' ').nth(1)?));
        Some(Self {
            device,
            source,
            mount_point,
        })
    }

    /// Whether it is this device that is mounted. File systems over several devices have a number
    /// of their own, and name one of the devices.
    pub(crate) fn is_of(&self, device: DeviceNumber) -> bool {
        self.device == device
            || fs::metadata(&self.source).is_ok_and(|meta| {
                self.source.is_absolute() && DeviceNumber(meta.rdev()) == device && meta.rdev() != 0
            })
    }
}

/// An attribute of a directory in /sys, without the blanks around it.
pub(crate) fn attribute(dir: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(dir.join(name)).ok()?;
    Some(text.trim().to_owned())
}

/// Blanks and the like are written as `\040` in /proc.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{DeviceNumber, Mount, unescape};

    #[test]
    fn mounts_are_read_as_the_kernel_writes_them() {
        let line = r"36 35 98:0 /mnt1 /mnt/two\040words rw,noatime master:1 - ext3 /dev/root rw";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(Some(mount.device), DeviceNumber::parse("98:0"));
        assert_eq!(mount.mount_point, "/mnt/two words");
        assert_eq!(mount.source.to_str(), Some("/dev/root"));
        assert_eq!(Mount::parse("nonsense"), None);
    }

    #[test]
    fn octal_escapes() {
        assert_eq!(unescape(r"a\040b\134c"), r"a b\c");
        assert_eq!(unescape(r"end\04"), r"end\04");
    }
}
