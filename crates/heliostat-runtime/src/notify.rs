//! Tells a service manager how far the daemon is (sd_notify(3)), where one asked for it.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `state`, for example `READY=1`. Nobody is told where that fails: the daemon works without.
pub(crate) fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    let socket = UnixDatagram::unbound();
    if let (Ok(address), Ok(socket)) = (address, socket) {
        // A datagram to a full queue must not hold up the loop.
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}
