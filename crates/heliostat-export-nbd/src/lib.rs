//! NBD: an array as a network block device.
//!
//! [`session`] is the server's side of one connection as a pure value, [`serve`] puts sessions on
//! sockets and the array's loop, [`client`] is a small client for load generators and tests. How
//! messages lie in bytes and where exports are to be found is in `heliostat-nbd`.
//! `docs/exports/nbd.md` lists what is supported and every convention.
#![deny(unsafe_code)]

pub mod client;
#[doc(hidden)]
pub mod fuzz;
pub mod serve;
pub mod session;
