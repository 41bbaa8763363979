//! NBD: an array as a network block device.
//!
//! [`codec`] knows how messages lie in bytes, [`session`] is the server's side of one connection as
//! a pure value, [`serve`] puts sessions on sockets and the array's loop, [`client`] is a small
//! client for load generators and tests, [`uri`] reads where an export is to be found.
//! `docs/exports/nbd.md` lists what is supported and every convention.
#![deny(unsafe_code)]

pub mod client;
pub mod codec;
#[doc(hidden)]
pub mod fuzz;
pub mod serve;
pub mod session;
pub mod uri;
