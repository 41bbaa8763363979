//! Whether two legs are the same device, or parts of one: then a mirror of them survives nothing,
//! and each read of one is in the way of the other.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use heliostat_runtime::UsageError;

/// Below what a loop device may lie in the file of another one.
const LOOPS_MAX: usize = 8;

/// What a leg is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Not on this machine, or made for this one use: what it is called.
    Named(String),
    /// A file, by the device that it is on and its number there.
    File { device: u64, inode: u64 },
    /// A block device, by its number, with that of the disk that it is a part of.
    Device { number: u64, disk: u64 },
}

/// What two legs have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Common {
    Nothing,
    /// They lie on the same disk.
    Disk,
    /// One is a part of the other, or both are parts of a disk.
    Parts,
    /// They are one.
    All,
}

impl Place {
    fn of(leg: &str) -> Self {
        // Models and memory are another device each time.
        let is_new = leg.starts_with("model:") || leg.starts_with("mem:");
        let mut path = PathBuf::from(leg);
        for _ in 0..LOOPS_MAX {
            let Some(metadata) = fs::metadata(&path).ok().filter(|_| !is_new) else {
                break;
            };
            if !metadata.file_type().is_block_device() {
                return Self::File {
                    device: metadata.dev(),
                    inode: metadata.ino(),
                };
            }
            // A loop device is its file.
            match backing_file(metadata.rdev()) {
                Some(file) => path = file,
                None => {
                    let number = metadata.rdev();
                    let disk = disk_of(number);
                    return Self::Device { number, disk };
                }
            }
        }
        Self::Named(leg.to_owned())
    }

    fn common(&self, other: &Self) -> Common {
        match (self, other) {
            (Self::Named(ours), Self::Named(theirs)) => {
                let is_new = ours.starts_with("model:") || ours.starts_with("mem:");
                match ours == theirs && !is_new {
                    true => Common::All,
                    false => Common::Nothing,
                }
            }
            (Self::File { device, .. }, Self::File { device: theirs, .. }) => {
                match (self == other, device == theirs) {
                    (true, _) => Common::All,
                    (false, true) => Common::Disk,
                    (false, false) => Common::Nothing,
                }
            }
            (Self::Device { number, disk }, Self::Device { number: n, disk: d }) => {
                match (number == n, disk == d) {
                    (true, _) => Common::All,
                    (false, true) => Common::Parts,
                    (false, false) => Common::Nothing,
                }
            }
            (Self::File { device, .. }, Self::Device { disk, .. })
            | (Self::Device { disk, .. }, Self::File { device, .. }) => {
                match disk_of(*device) == *disk {
                    true => Common::Disk,
                    false => Common::Nothing,
                }
            }
            (Self::Named(_), _) | (_, Self::Named(_)) => Common::Nothing,
        }
    }
}

fn sysfs(number: u64) -> PathBuf {
    let (major, minor) = (libc::major(number), libc::minor(number));
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

/// The file that a loop device has, where it is one and the file can still be found.
fn backing_file(number: u64) -> Option<PathBuf> {
    let text = fs::read_to_string(sysfs(number).join("loop/backing_file")).ok()?;
    let path = Path::new(text.trim_end_matches('\n')).to_owned();
    path.exists().then_some(path)
}

/// The disk that a partition is on; whatever else it is, itself.
fn disk_of(number: u64) -> u64 {
    let found = || {
        let place = fs::canonicalize(sysfs(number)).ok()?;
        let text = match place.join("partition").exists() {
            true => fs::read_to_string(place.parent()?.join("dev")).ok()?,
            false => return None,
        };
        let (major, minor) = text.trim().split_once(':')?;
        Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
    };
    found().unwrap_or(number)
}

/// No two legs may be the same, or parts of the same disk.
pub(super) fn expect_apart(legs: &[String]) -> Result<(), UsageError> {
    let places: Vec<Place> = legs.iter().map(|leg| Place::of(leg)).collect();
    for (index, place) in places.iter().enumerate() {
        for (before, leg) in places[..index].iter().zip(legs) {
            let this = &legs[index];
            match place.common(before) {
                Common::All => {
                    return Err(UsageError(format!(
                        "{this} is the same device as {leg}: name each once"
                    )));
                }
                Common::Parts => {
                    return Err(UsageError(format!(
                        "{this} and {leg} are parts of one disk: a mirror of them would not \
                         survive it, and its arm would serve both; name disks of their own"
                    )));
                }
                Common::Disk | Common::Nothing => {}
            }
        }
    }
    Ok(())
}

/// What is to be said of a leg that lies on the same disk as one of those before it.
pub(super) fn shared(leg: &str, before: &[String]) -> Option<String> {
    let place = Place::of(leg);
    let mut others = before.iter().enumerate();
    let (index, _) = others.find(|(_, other)| Place::of(other).common(&place) == Common::Disk)?;
    Some(format!(
        "It lies on the same disk as leg {index}: both were measured alone, and will be slower \
         together."
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Common, Place, expect_apart, shared};

    #[test]
    fn a_file_is_the_same_by_whatever_name() {
        let directory = std::env::temp_dir().join(format!("same-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let name = |name: &str| directory.join(name).display().to_string();
        fs::write(name("a"), "1").unwrap();
        fs::write(name("b"), "2").unwrap();
        fs::hard_link(name("a"), name("hard")).unwrap();
        std::os::unix::fs::symlink(name("a"), name("soft")).unwrap();
        for other in ["a", "hard", "soft", "../a"] {
            let other = match other.strip_prefix("../") {
                Some(rest) => name(&format!("./{rest}")),
                None => name(other),
            };
            let error = expect_apart(&[name("a"), other]).unwrap_err();
            assert!(error.0.contains("the same device as"), "{}", error.0);
        }
        assert!(expect_apart(&[name("a"), name("b")]).is_ok());
        assert!(shared(&name("b"), &[name("a")]).unwrap().contains("leg 0"));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn parts_of_a_disk_are_told_and_models_are_new_each_time() {
        let device = |number, disk| Place::Device { number, disk };
        assert_eq!(device(1, 1).common(&device(1, 1)), Common::All);
        assert_eq!(device(2, 1).common(&device(1, 1)), Common::Parts);
        assert_eq!(device(2, 1).common(&device(3, 1)), Common::Parts);
        assert_eq!(device(2, 1).common(&device(5, 4)), Common::Nothing);
        let legs = ["model:ram", "model:ram", "nbd://a", "nbd://b"].map(str::to_owned);
        assert!(expect_apart(&legs).is_ok());
        let legs = ["nbd://a", "nbd://a"].map(str::to_owned);
        assert!(expect_apart(&legs).is_err());
    }
}
