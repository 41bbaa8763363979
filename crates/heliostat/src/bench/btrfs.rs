//! Which btrfs of the kernel lies at a path, and where it is found in sysfs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use heliostat_runtime::UsageError;

/// The directory in sysfs of the btrfs that `path` lies on.
pub(crate) fn sysfs_of(path: &Path) -> anyhow::Result<PathBuf> {
    let shown = path.display();
    let real = fs::canonicalize(path).with_context(|| format!("cannot look at {shown}"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("cannot list mounts")?;
    let mount = mount_of(&mounts, &real)
        .with_context(|| format!("no mount that {shown} lies on is listed"))?;
    if mount.kind != "btrfs" {
        let kind = &mount.kind;
        return Err(UsageError(format!("{shown} is on {kind}, not on btrfs")).into());
    }
    // Device mapper's names are links.
    let device = fs::canonicalize(&mount.device).unwrap_or_else(|_| mount.device.clone());
    let name = device.file_name().unwrap_or(device.as_os_str());
    let all = fs::read_dir("/sys/fs/btrfs").context("cannot list the btrfs of the kernel")?;
    let mut all = all.flatten().map(|entry| entry.path());
    all.find(|sysfs| sysfs.join("devices").join(name).exists())
        .with_context(|| format!("no btrfs in /sys/fs/btrfs has {}", device.display()))
}

/// What is mounted somewhere.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    kind: String,
    device: PathBuf,
}

/// What `path` lies on, of a list as `/proc/self/mountinfo` has it: of several in one place, the
/// last one hides the others.
fn mount_of(list: &str, path: &Path) -> Option<Mount> {
    let mut found: Option<(PathBuf, Mount)> = None;
    for line in list.lines() {
        let (place, source) = line.split_once(" - ")?;
        let place = PathBuf::from(unescaped(place.split(' ').nth(4)?));
        let mut source = source.split(' ');
        let mount = Mount {
            kind: source.next()?.to_owned(),
            device: PathBuf::from(unescaped(source.next()?)),
        };
        let is_nearer = found
            .as_ref()
            .is_none_or(|(before, _)| place.starts_with(before));
        if path.starts_with(&place) && is_nearer {
            found = Some((place, mount));
        }
    }
    found.map(|(_, mount)| mount)
}

/// Blanks and the like are written as `\040`.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part
            .get(..3)
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => {
                all.push(char::from(code));
                all.push_str(&part[3..]);
            }
            None => all.push_str(part),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::mount_of;

    #[test]
    fn the_nearest_mount_counts_and_the_last_of_one_place() {
        let list = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                    30 22 0:40 / /mnt/a\\040b rw shared:1 - btrfs /dev/loop0 rw,space_cache\n\
                    31 22 0:41 / /mnt/a\\040b rw - btrfs /dev/loop1 rw\n\
                    32 22 0:42 / /mnt rw - tmpfs none rw\n";
        let at = |path: &str| {
            let mount = mount_of(list, Path::new(path)).unwrap();
            (mount.kind, mount.device.display().to_string())
        };
        let told = |kind: &str, device: &str| (kind.to_owned(), device.to_owned());
        assert_eq!(at("/mnt/a b/c"), told("btrfs", "/dev/loop1"));
        assert_eq!(at("/mnt/a"), told("tmpfs", "none"));
        assert_eq!(at("/home"), told("ext4", "/dev/sda1"));
    }
}
