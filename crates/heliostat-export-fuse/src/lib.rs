//! An array's control files as a file system: what btrfs has in sysfs, where scripts look for it.
//!
//! Which files there are, what they show and what storing does is the runtime's
//! ([`ControlNode`]); here are inode numbers, and the kernel's questions. They are answered by a
//! thread of their own, which asks the array as every other command does, so that nobody who reads
//! or writes a file holds up a client.

mod inodes;
mod mount;
mod volume;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use heliostat_runtime::{ControlNode, FileError, Handle};
use heliostat_types::Extent;

use volume::{Asked, What};

pub use mount::{ControlFiles, detach_stale};
pub use volume::{Volume, VolumeExport, VolumeMaker};

/// How long the kernel may believe what it was told of names and modes. Legs come and go by hand.
const BELIEVED: Duration = Duration::from_secs(1);

/// What every file says of its size, as those of sysfs do: what it has to show is known when it is
/// shown.
const SIZE_BYTES: u64 = 4096;

/// How much may be stored at once; the longest policy with all its tunables has a tenth of that.
const STORED_BYTES_MAX: usize = 4096;

/// How much the kernel sends in one write.
const WRITE_BYTES_MAX: u32 = 1 << 20;

/// How many requests the kernel sends that nobody waits for one by one.
const BACKGROUND_MAX: u16 = 256;

/// O_DSYNC, which O_SYNC contains.
const SYNC_FLAGS: i32 = 0o10000;

/// O_APPEND.
const APPEND_FLAG: i32 = 0o2000;

// From the kernel's linux/falloc.h.
const FALLOC_FL_KEEP_SIZE: i32 = 1;
const FALLOC_FL_PUNCH_HOLE: i32 = 2;
const FALLOC_FL_ZERO_RANGE: i32 = 16;

/// How many files may be open at once.
const OPEN_MAX: usize = 256;

/// The files of one array.
#[derive(Debug)]
struct Files {
    handle: Handle,
    volume: Volume,
    owner: (u32, u32),
    since: SystemTime,
    open: Mutex<Open>,
}

/// What was shown to whoever has a file open, so that it can be read in parts.
#[derive(Debug, Default)]
struct Open {
    next: u64,
    shown: BTreeMap<u64, Option<String>>,
}

impl Files {
    fn new(handle: Handle, volume: Volume) -> Self {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        Self {
            handle,
            volume,
            owner: (user, group),
            since: SystemTime::now(),
            open: Mutex::default(),
        }
    }

    /// The node of this number, where there is one now.
    fn node(&self, ino: INodeNo) -> Result<ControlNode, Errno> {
        inodes::node(ino.0).ok_or(Errno::ENOENT)
    }

    fn attributes(&self, node: ControlNode) -> FileAttr {
        let (kind, perm, size) = if node.is_directory() {
            (FileType::Directory, 0o555, 0)
        } else if node == ControlNode::Volume {
            let perm = if self.volume.is_read_only {
                0o400
            } else {
                0o600
            };
            (FileType::RegularFile, perm, self.volume.size_bytes)
        } else if node.is_writable() {
            (FileType::RegularFile, 0o644, SIZE_BYTES)
        } else {
            (FileType::RegularFile, 0o444, SIZE_BYTES)
        };
        FileAttr {
            ino: INodeNo(inodes::number(node)),
            size,
            blocks: if node == ControlNode::Volume {
                size / 512
            } else {
                0
            },
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
            crtime: self.since,
            kind,
            perm,
            nlink: if node.is_directory() { 2 } else { 1 },
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// What of these bytes the array has.
    fn clipped(&self, offset: u64, len: u64) -> Extent {
        let offset = offset.min(self.volume.size_bytes);
        Extent::new(offset, len.min(self.volume.size_bytes - offset))
    }

    fn ask(&self, request: &Request, file: FileHandle, what: What) {
        self.volume.ask(Asked {
            process: request.pid(),
            stream: file.0,
            what,
        });
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<ControlNode, Errno> {
        let directory = self.node(parent)?;
        let inside = self.handle.list_files(directory).map_err(errno)?;
        let mut inside = inside.into_iter();
        inside
            .find(|node| name == node.name().as_str())
            .ok_or(Errno::ENOENT)
    }

    fn open(&self, ino: INodeNo) -> Result<u64, Errno> {
        self.node(ino)?;
        let mut open = self.open.lock().expect("nobody panics while holding it");
        if open.shown.len() >= OPEN_MAX {
            return Err(Errno::ENFILE);
        }
        open.next += 1;
        let handle = open.next;
        open.shown.insert(handle, None);
        Ok(handle)
    }

    /// What a file shows from `offset` on, in bytes, which may part a letter: as it is now where
    /// that is the beginning, or the first that is read, and the rest of what was shown then
    /// elsewhere.
    fn read(&self, ino: INodeNo, handle: u64, offset: u64) -> Result<Vec<u8>, Errno> {
        let kept = {
            let open = self.open.lock().expect("nobody panics while holding it");
            open.shown.get(&handle).cloned().ok_or(Errno::EBADF)?
        };
        let shown = match kept {
            Some(kept) if offset != 0 => kept,
            _ => {
                let text = self.handle.show_file(self.node(ino)?).map_err(errno)?;
                let mut open = self.open.lock().expect("nobody panics while holding it");
                open.shown.insert(handle, Some(text.clone()));
                text
            }
        };
        let from = usize::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let rest = shown.as_bytes().get(from..);
        Ok(rest.unwrap_or_default().to_vec())
    }

    /// A value is written all at once, at the beginning or, as by a shell's `>>`, at the end.
    fn write(&self, ino: INodeNo, at: Option<u64>, data: &[u8]) -> Result<u32, Errno> {
        let node = self.node(ino)?;
        if at.is_some_and(|offset| offset != 0) || data.len() > STORED_BYTES_MAX {
            return Err(Errno::EINVAL);
        }
        let text = std::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
        self.handle.store_file(node, text).map_err(errno)?;
        Ok(u32::try_from(data.len()).expect("it is short"))
    }
}

fn is_volume(ino: INodeNo) -> bool {
    ino.0 == inodes::number(ControlNode::Volume)
}

fn errno(error: FileError) -> Errno {
    match error {
        FileError::Gone => Errno::ENODEV,
        FileError::Invalid(_) => Errno::EINVAL,
        FileError::Failed(_) => Errno::EIO,
    }
}

impl Filesystem for Files {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // What a kernel does not have it goes without: less is in flight at once then.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = config.set_max_write(WRITE_BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name) {
            Ok(node) => reply.entry(&BELIEVED, &self.attributes(node), Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(ino) {
            Ok(node) => reply.attr(&BELIEVED, &self.attributes(node)),
            Err(error) => reply.error(error),
        }
    }

    /// A shell truncates what it is about to write to; that changes nothing here.
    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if mode.is_some() || uid.is_some() || gid.is_some() {
            return reply.error(Errno::EPERM);
        }
        self.getattr(_req, ino, None, reply);
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.open(ino) {
            // Not through the page cache: each look is a new one.
            Ok(handle) => {
                let mut flags = FopenFlags::FOPEN_DIRECT_IO;
                flags |= FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
                reply.opened(FileHandle(handle), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if is_volume(ino) {
            let extent = self.clipped(offset, u64::from(size));
            if extent.is_empty() {
                return reply.data(&[]);
            }
            return self.ask(req, fh, What::Read { extent, reply });
        }
        match self.read(ino, fh.0, offset) {
            Ok(text) => {
                let size = usize::try_from(size).expect("a usize holds 32 bits");
                reply.data(&text[..text.len().min(size)]);
            }
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if is_volume(ino) {
            let extent = self.clipped(offset, data.len() as u64);
            if extent.is_empty() {
                return reply.error(Errno::ENOSPC);
            }
            let len = usize::try_from(extent.len()).expect("at most what was sent");
            let what = What::Write {
                extent,
                data: data[..len].to_vec(),
                fua: flags.0 & SYNC_FLAGS != 0,
                reply,
            };
            return self.ask(req, fh, what);
        }
        let appends = flags.0 & APPEND_FLAG != 0;
        match self.write(ino, Some(offset).filter(|_| !appends), data) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        }
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let mut open = self.open.lock().expect("nobody panics while holding it");
        open.shown.remove(&fh.0);
        reply.ok();
    }

    fn fsync(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        if is_volume(ino) {
            return self.ask(req, fh, What::Flush { reply });
        }
        reply.ok();
    }

    /// Files have the names that they have.
    fn rename(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _newparent: INodeNo,
        _newname: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }

    fn fallocate(
        &self,
        req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let may_trim = match mode & !FALLOC_FL_KEEP_SIZE {
            FALLOC_FL_PUNCH_HOLE => true,
            FALLOC_FL_ZERO_RANGE => false,
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        if !is_volume(ino) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let extent = self.clipped(offset, length);
        if extent.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        let what = What::Zero {
            extent,
            may_trim,
            reply,
        };
        self.ask(req, fh, what);
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.node(ino).and_then(|directory| {
            let inside = self.handle.list_files(directory).map_err(errno)?;
            let dots = [(directory, "."), (directory.parent(), "..")];
            let dots = dots.map(|(node, name)| (node, name.to_owned()));
            let inside = inside.into_iter().map(|node| (node, node.name()));
            Ok(dots.into_iter().chain(inside))
        });
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => return reply.error(error),
        };
        for (next, (node, name)) in (1_u64..).zip(listed) {
            let kind = if node.is_directory() {
                FileType::Directory
            } else {
                FileType::RegularFile
            };
            if next > offset && reply.add(INodeNo(inodes::number(node)), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn create(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EPERM);
    }

    fn mknod(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _req: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _req: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn access(&self, _req: &Request, _ino: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }
}
