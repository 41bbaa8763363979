//! Where connections come from: listening sockets of our own, inherited ones, and standard input.

use std::env;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process;

use heliostat_runtime::{ClientKey, RuntimeError};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::connection::Wires;

/// How many clients may wait to be let in.
const BACKLOG: i32 = 128;
/// The first inherited descriptor ("sd_listen_fds").
const INHERITED_FIRST: i32 = 3;

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    fd: OwnedFd,
    /// The index of the door it belongs to.
    pub(super) door: usize,
    _file: Option<SocketFile>,
}

/// A socket's file, removed together with the socket unless another one has taken its place.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Why a listening socket lets nobody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcceptError {
    /// The system has no room for another client now.
    NoRoom,
    /// It will not let anybody in any more; somebody else may have shut it down.
    Broken(Errno),
}

impl Listener {
    /// Listens on a unix socket that only its owner can connect to. A file that a dead server left
    /// is replaced.
    pub(super) fn bind_unix(path: &Path, door: usize) -> Result<Self, RuntimeError> {
        let shown = path.display();
        let fail = |what: &str, error: io::Error| {
            RuntimeError(format!("socket '{shown}': {what}: {error}"))
        };
        remove_stale(path)?;
        let address = address_of(path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|error| fail("cannot be made", error.into()))?;
        // Before it has a name, so that there is no moment in which others can connect.
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)
            .and_then(|()| rustix::net::bind(&fd, &address))
            .and_then(|()| rustix::net::listen(&fd, BACKLOG))
            .map_err(|error| fail("cannot be listened on", error.into()))?;
        let metadata = fs::symlink_metadata(path).map_err(|error| fail("is gone", error))?;
        Ok(Self {
            fd,
            door,
            _file: Some(SocketFile {
                path: path.to_owned(),
                device: metadata.dev(),
                inode: metadata.ino(),
            }),
        })
    }

    /// Listens on the first address of a host that can be had.
    pub(super) fn bind_tcp(host: &str, port: u16, door: usize) -> Result<Self, RuntimeError> {
        let listener = TcpListener::bind((host, port))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|error| {
                RuntimeError(format!(
                    "cannot listen on {host} port {port}: {error}: choose another one, or stop \
                     whoever has it"
                ))
            })?;
        Ok(Self {
            fd: listener.into(),
            door,
            _file: None,
        })
    }

    /// The listening sockets that were passed on in `LISTEN_FDS`.
    pub(super) fn inherit(door: usize) -> Result<Vec<Self>, RuntimeError> {
        let listeners = inherited_fds()?;
        let listeners = listeners.into_iter().enumerate().map(|(index, fd)| {
            let fail =
                |what: &str| RuntimeError(format!("fd: inherited descriptor {} {what}", 3 + index));
            if !sockopt::socket_acceptconn(&fd).unwrap_or(false) {
                return Err(fail("is not a listening socket"));
            }
            set_nonblocking(fd.as_fd()).map_err(|error| fail(&error.to_string()))?;
            Ok(Self {
                fd,
                door,
                _file: None,
            })
        });
        listeners.collect()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Lets a client in: `None` where none waits.
    pub(super) fn accept(&self) -> Result<Option<(OwnedFd, ClientKey)>, AcceptError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let errno = match rustix::net::accept_with(&self.fd, flags) {
                Ok(fd) => {
                    let key = identify(fd.as_fd());
                    if matches!(key, ClientKey::Address(_)) {
                        // Replies leave in whole batches, and waiting to fill a packet only delays
                        // them; a peer that vanished is noticed. Both are wishes.
                        let _ = sockopt::set_tcp_nodelay(&fd, true);
                        let _ = sockopt::set_socket_keepalive(&fd, true);
                    }
                    return Ok(Some((fd, key)));
                }
                Err(errno) => errno,
            };
            match errno {
                Errno::AGAIN => return Ok(None),
                Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
                    return Err(AcceptError::NoRoom);
                }
                // Of this client only: it has left again, a firewall forbids it, or its network
                // broke ("Error handling" in accept(2)).
                Errno::INTR
                | Errno::CONNABORTED
                | Errno::PERM
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET
                | Errno::TIMEDOUT => {}
                errno => return Err(AcceptError::Broken(errno)),
            }
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|now| (now.dev(), now.ino()) == (self.device, self.inode));
        if is_ours {
            // Nothing depends on it: the next server replaces a stale file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The client on standard input.
pub(super) fn stdio() -> Result<(Wires, ClientKey), RuntimeError> {
    let fail = |error: io::Error| RuntimeError(format!("stdio: {error}"));
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(fail)?;
    let kind = rustix::fs::fstat(&input).map_err(|error| fail(error.into()))?;
    let key = identify(input.as_fd());
    let kind = FileType::from_raw_mode(kind.st_mode);
    let output = if kind.is_socket() {
        None
    } else if kind.is_fifo() {
        Some(io::stdout().as_fd().try_clone_to_owned().map_err(fail)?)
    } else {
        return Err(RuntimeError(
            "stdio: standard input is neither a socket nor a pipe: start it from a program that \
             speaks NBD, such as nbdsh or inetd"
                .to_owned(),
        ));
    };
    set_nonblocking(input.as_fd()).map_err(fail)?;
    if let Some(output) = &output {
        set_nonblocking(output.as_fd()).map_err(fail)?;
    }
    Ok((Wires { input, output }, key))
}

/// Whether a socket could be made at this path.
pub(super) fn check_unix(path: &Path) -> Result<(), RuntimeError> {
    address_of(path)?;
    let shown = path.display();
    let directory = match path.parent() {
        Some(directory) if directory.as_os_str().is_empty() => Path::new("."),
        Some(directory) => directory,
        None => path,
    };
    // To make files in a directory is to write to it and to pass through it.
    let rights = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(directory, rights).map_err(|errno| {
        let directory = directory.display();
        RuntimeError(format!(
            "socket '{shown}': no socket can be made in {directory}: {}: choose another path, or \
             make the directory first",
            io::Error::from(errno)
        ))
    })?;
    remove_stale(path)
}

fn address_of(path: &Path) -> Result<SocketAddrUnix, RuntimeError> {
    SocketAddrUnix::new(path).map_err(|_| {
        RuntimeError(format!(
            "socket '{}': the path is longer than the 107 bytes that the kernel takes: use a \
             shorter one",
            path.display()
        ))
    })
}

/// Removes the socket file of a server that is gone.
fn remove_stale(path: &Path) -> Result<(), RuntimeError> {
    let shown = path.display();
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(RuntimeError(format!(
            "socket '{shown}': a file that is not a socket is in the way: remove it or choose \
             another path"
        )));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|error| {
                RuntimeError(format!(
                    "socket '{shown}': its server is gone, but the file cannot be removed: {error}"
                ))
            }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => Err(RuntimeError(format!(
            "socket '{shown}': another server is listening on it: stop that one or choose another \
             path"
        ))),
    }
}

/// Who is at the other end: a process of this machine, or an address.
fn identify(fd: BorrowedFd<'_>) -> ClientKey {
    let peer = rustix::net::getpeername(fd).ok().flatten();
    match peer.map(SocketAddr::try_from) {
        Some(Ok(address)) => ClientKey::Address(address.ip().to_canonical()),
        // A unix socket, or a pipe, which is our parent's.
        _ => ClientKey::Process(peer_process(fd).unwrap_or_else(|| {
            let parent = rustix::process::getppid();
            parent.map_or(0, |pid| pid.as_raw_pid().unsigned_abs())
        })),
    }
}

/// The process at the other end of a unix socket; 0 where it is not visible from here.
#[expect(
    unsafe_code,
    reason = "rustix cannot say that the process is not visible"
)]
fn peer_process(fd: BorrowedFd<'_>) -> Option<u32> {
    let mut credentials = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = libc::socklen_t::try_from(size_of_val(&credentials)).ok()?;
    // SAFETY: both pointers are to live variables, and `len` is the size of the first.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut len,
        )
    };
    (result == 0).then(|| credentials.pid.unsigned_abs())
}

/// The descriptors that whoever started us meant for us.
#[expect(
    unsafe_code,
    reason = "descriptors that came by number become owned here"
)]
fn inherited_fds() -> Result<Vec<OwnedFd>, RuntimeError> {
    let variable = |name: &str| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<u32>().ok())
    };
    let is_ours = variable("LISTEN_PID") == Some(process::id());
    let count = variable("LISTEN_FDS").filter(|count| is_ours && (1..1024).contains(count));
    let count = count
        .and_then(|count| i32::try_from(count).ok())
        .ok_or_else(|| {
            RuntimeError(
                "fd: no socket was passed on (LISTEN_PID is not this process or LISTEN_FDS is not \
             set): start it by socket activation"
                    .to_owned(),
            )
        })?;
    let fds = (INHERITED_FIRST..INHERITED_FIRST + count).map(|number| {
        // SAFETY: the number is only looked at, and a descriptor that is not open is refused.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        // A copy of our own, closed in programs that we start; the original stays open and unused.
        borrowed
            .try_clone_to_owned()
            .map_err(|error| RuntimeError(format!("fd: inherited descriptor {number}: {error}")))
    });
    fds.collect()
}

fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, true)?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::io::Errno;
    use rustix::net::Shutdown;

    use super::{AcceptError, Listener, check_unix};

    #[test]
    fn where_no_socket_can_be_is_told_before_one_is_made() {
        let here = std::env::temp_dir();
        check_unix(&here.join("heliostat-none.sock")).unwrap();
        let told = |path: &Path| check_unix(path).unwrap_err().to_string();
        let nowhere = told(&here.join("heliostat-none/a.sock"));
        assert!(
            nowhere.contains("heliostat-none: No such file"),
            "{nowhere}"
        );
        let long = told(&here.join("x".repeat(108)));
        assert!(long.contains("107 bytes"), "{long}");
        let taken = told(&here);
        assert!(taken.contains("not a socket is in the way"), "{taken}");
    }

    #[test]
    fn a_socket_that_was_shut_down_is_broken() {
        let listener = Listener::bind_tcp("127.0.0.1", 0, 0).unwrap();
        assert!(matches!(listener.accept(), Ok(None)));
        // As another process can that has inherited it too.
        rustix::net::shutdown(listener.fd(), Shutdown::Both).unwrap();
        let told = listener.accept().map(drop);
        assert_eq!(told, Err(AcceptError::Broken(Errno::INVAL)));
    }
}
