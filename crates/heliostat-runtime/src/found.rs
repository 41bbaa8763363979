//! What lies on a leg, for whoever is about to write over it.
//!
//! A short list of signatures that people would be sorry to lose, in the words they use for them.
//! Something that is not known by name is told of as such: only a leg whose beginning is all zeros
//! counts as empty.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use heliostat_format::Superblock;
use heliostat_leg::OpenedLeg;

use crate::RuntimeError;

/// How much of a leg is looked at: beyond the first mebibyte lies data, and not what it is.
const LOOKED_AT_BYTES: usize = 1 << 20;

/// What is told apart: name, where its mark lies, and the mark.
const SIGNATURES: [(&str, usize, &[u8]); 14] = [
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("an XFS file system", 0, b"XFSB"),
    ("a squashfs file system", 0, b"hsqs"),
    ("a qcow2 image", 0, b"QFI\xfb"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("an ext2, ext3 or ext4 file system", 0x438, b"\x53\xef"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("a bcachefs file system", 4096 + 24, b"\xc6\x85\x73\xf6"),
    ("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an f2fs file system", 1024, b"\x10\x20\xf5\xf2"),
    ("a partition table", 510, b"\x55\xaa"),
];

/// What lies on a leg; `None` where its beginning is all zeros.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn on_leg(leg: &OpenedLeg) -> Result<Option<String>, RuntimeError> {
    let size_bytes = leg.info().size_bytes;
    let read = |offset_bytes: u64, bytes: &mut [u8]| {
        let result = leg.read_at(offset_bytes, bytes);
        result.map_err(|error| RuntimeError(error.to_string()))
    };
    for place in Superblock::places(size_bytes) {
        let mut bytes = vec![0; 4096];
        read(place.offset_bytes(), &mut bytes)?;
        if let Ok(superblock) = Superblock::parse_damaged(&bytes) {
            return Ok(Some(format!(
                "a leg of the md array {} ({})",
                superblock.name(),
                superblock.set_uuid
            )));
        }
    }
    if let Some(array) = leg.holds_md_superblock() {
        return Ok(Some(format!("a leg of an md array ({array})")));
    }
    let looked_at =
        usize::try_from(size_bytes).map_or(LOOKED_AT_BYTES, |size| size.min(LOOKED_AT_BYTES));
    let mut bytes = vec![0; looked_at];
    read(0, &mut bytes)?;
    Ok(in_bytes(&bytes))
}

/// The disks that a leg lies on, by the names that the kernel has for them, or the file system
/// where that has none; empty where it lies on neither.
pub(crate) fn disks_of(leg: &str) -> Vec<String> {
    let Ok(metadata) = fs::metadata(leg) else {
        return Vec::new();
    };
    let is_device = metadata.file_type().is_block_device();
    let number = if is_device {
        metadata.rdev()
    } else {
        metadata.dev()
    };
    let (major, minor) = (libc::major(number), libc::minor(number));
    let disks = disks_below(Path::new(&format!("/sys/dev/block/{major}:{minor}")));
    if disks.is_empty() && !is_device {
        return vec![format!("file system {major}:{minor}")];
    }
    disks
}

/// The disks below a device, as sysfs shows it: its own, or those that it is made of (LVM, LUKS,
/// md).
fn disks_below(device: &Path) -> Vec<String> {
    let Ok(device) = fs::canonicalize(device) else {
        return Vec::new();
    };
    let slaves = fs::read_dir(device.join("slaves"));
    let slaves = slaves.into_iter().flatten().flatten();
    let mut disks: Vec<String> = slaves
        .flat_map(|slave| disks_below(&slave.path()))
        .collect();
    if disks.is_empty() {
        let disk = if device.join("partition").exists() {
            device.parent()
        } else {
            Some(device.as_path())
        };
        let name = disk.and_then(|disk| disk.file_name()?.to_str());
        disks.extend(name.map(str::to_owned));
    }
    disks.sort_unstable();
    disks.dedup();
    disks
}

/// The same of the beginning of a leg, or of something else.
pub(crate) fn in_bytes(bytes: &[u8]) -> Option<String> {
    let is_there = |at: usize, mark: &[u8]| bytes.get(at..at + mark.len()) == Some(mark);
    let known = SIGNATURES.iter().find(|(_, at, mark)| is_there(*at, mark));
    if let Some((name, _, _)) = known {
        return Some((*name).to_owned());
    }
    let at = bytes.iter().position(|&byte| byte != 0)?;
    Some(format!("something unknown (byte {at} is not zero)"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{disks_below, disks_of, in_bytes};
    use crate::scratch::Scratch;

    #[test]
    fn two_files_of_one_file_system_lie_on_one_disk() {
        let scratch = Scratch::new();
        let path = |name: &str| scratch.path().join(name).display().to_string();
        fs::write(path("a"), "").unwrap();
        fs::write(path("b"), "").unwrap();
        let disks = disks_of(&path("a"));
        assert!(!disks.is_empty());
        assert_eq!(disks, disks_of(&path("b")));
        assert!(disks_of(&path("absent")).is_empty());
    }

    #[test]
    fn what_a_device_is_made_of_is_found_in_sysfs() {
        let scratch = Scratch::new();
        let path = |name: &str| scratch.path().join(name);
        for device in ["sda/sda1", "sda/sda2", "sdb", "dm-0/slaves", "dm-1/slaves"] {
            fs::create_dir_all(path(device)).unwrap();
        }
        fs::write(path("sda/sda1/partition"), "1").unwrap();
        fs::write(path("sda/sda2/partition"), "2").unwrap();
        symlink(path("sda/sda2"), path("dm-0/slaves/sda2")).unwrap();
        symlink(path("dm-0"), path("dm-1/slaves/dm-0")).unwrap();
        symlink(path("sdb"), path("dm-1/slaves/sdb")).unwrap();
        let below = |name: &str| disks_below(&path(name));
        assert_eq!(below("sda/sda1"), ["sda"]);
        assert_eq!(below("sda"), ["sda"]);
        assert_eq!(below("dm-0"), ["sda"]);
        assert_eq!(below("dm-1"), ["sda", "sdb"]);
        assert!(below("absent").is_empty());
    }

    #[test]
    fn what_is_known_is_named_and_zeros_are_nothing() {
        let mut bytes = vec![0; 1 << 20];
        assert_eq!(in_bytes(&bytes), None);
        bytes[999_999] = 1;
        let told = in_bytes(&bytes).unwrap();
        assert!(told.contains("byte 999999"), "{told}");
        bytes[0x438..0x43a].copy_from_slice(b"\x53\xef");
        assert_eq!(
            in_bytes(&bytes).unwrap(),
            "an ext2, ext3 or ext4 file system"
        );
        assert_eq!(in_bytes(&[0; 512]), None);
        assert!(in_bytes(&[1]).is_some() && in_bytes(&[]).is_none());
    }
}
