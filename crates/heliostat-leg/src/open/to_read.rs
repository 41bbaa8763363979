//! Opens files and block devices that are only read, whoever else uses them: nothing is locked,
//! nobody is refused, nothing can be written.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, SeekFrom, fstat, ioctl_blkpbszget, ioctl_blksszget, open, seek};
use rustix::io::Errno;

use super::{Alignment, BLOCK_MAX_BYTES, Found, Subject, file_alignment, no_block, takes_at_once};
use crate::error::LegError;
use crate::file::{LegFile, Medium};
use crate::host::{DeviceNumber, Host};
use crate::identity;
use crate::in_use::{Identity, kernel_use, writer, writer_use};
use crate::leg::LegInfo;
use crate::progress::Abilities;

/// What cannot be done with what is only read.
const NONE: Abilities = Abilities {
    punches_holes: false,
    zeroes_ranges: false,
};

/// Opens what lies at `path`. `leg` is what it is called in messages. Says besides who uses it, in
/// words, where somebody does.
pub(crate) fn open_path_to_read(
    leg: &str,
    path: &Path,
) -> Result<(LegFile, LegInfo, Option<String>), LegError> {
    let subject = Subject {
        leg: leg.to_owned(),
        path: path.to_owned(),
        host: Host::this(),
    };
    let wanted = || "name a file or a block device with data".to_owned();
    let meta = fs::metadata(path).map_err(|error| {
        if error.kind() == ErrorKind::NotFound {
            subject.unfit("there is no such file", wanted())
        } else {
            subject.unreachable(&error)
        }
    })?;
    let kind = meta.file_type();
    let found = if kind.is_block_device() {
        subject.device_to_read(DeviceNumber(meta.rdev()))?
    } else if kind.is_file() {
        subject.file_to_read()?
    } else if kind.is_dir() {
        return Err(subject.unfit("it is a directory", wanted()));
    } else {
        return Err(subject.unfit("it is neither a file nor a block device", wanted()));
    };
    if found.end_bytes < u64::from(found.alignment.block_bytes) {
        return Err(subject.unfit(&no_block(&found), wanted()));
    }
    let user = Identity::of(path).and_then(|what| {
        kernel_use(&subject.host, what)
            .or_else(|| writer(&subject.host, what).map(|pid| writer_use(&subject.host, pid)))
    });
    let (file, info) = subject.finish(found)?;
    Ok((file, info, user.map(|user| user.user)))
}

impl Subject {
    fn file_to_read(&self) -> Result<Found, LegError> {
        let fd = self.fd_to_read(OFlags::empty())?;
        let alignment = file_alignment(&fd).map_err(|errno| self.io("probe", errno))?;
        let stat = fstat(&fd).map_err(|errno| self.io("look at", errno))?;
        let path = identity::canonical(&self.path);
        let below = self.host.device_below(DeviceNumber(stat.st_dev), &path);
        Ok(Found {
            medium: Medium::File,
            end_bytes: stat.st_size.cast_unsigned(),
            alignment,
            physical_block_bytes: 4096,
            abilities: NONE,
            fast_zero: false,
            queue: self.host.queue_facts(below),
            identity: identity::of_file(&self.host, &fd, &self.path)
                .map_err(|errno| self.io("look at", errno))?,
            backing: None,
            takes_at_once: takes_at_once(&fd),
            fd,
        })
    }

    fn device_to_read(&self, device: DeviceNumber) -> Result<Found, LegError> {
        let fd = self.fd_to_read(OFlags::DIRECT)?;
        let block_bytes =
            ioctl_blksszget(&fd).map_err(|errno| self.io("ask the block size of", errno))?;
        if block_bytes > BLOCK_MAX_BYTES {
            let problem = format!("its blocks of {block_bytes} bytes are larger than 4096");
            return Err(self.unfit(&problem, "name a partition or a file".to_owned()));
        }
        Ok(Found {
            medium: Medium::BlockDevice,
            end_bytes: seek(&fd, SeekFrom::End(0))
                .map_err(|errno| self.io("ask the size of", errno))?,
            alignment: Alignment {
                block_bytes,
                direct: true,
            },
            physical_block_bytes: ioctl_blkpbszget(&fd).unwrap_or(block_bytes),
            abilities: NONE,
            fast_zero: false,
            queue: self.host.queue_facts(device),
            identity: identity::of_device(&self.host, device, &self.path),
            backing: None,
            takes_at_once: true,
            fd,
        })
    }

    fn fd_to_read(&self, flags: OFlags) -> Result<OwnedFd, LegError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
        open(&self.path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::ACCESS | Errno::PERM => self.unfit(
                "it may not be read",
                "run as a user who may (for disks: root, or group disk)".to_owned(),
            ),
            errno => self.io("open", errno),
        })
    }
}
