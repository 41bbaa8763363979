//! What both ends of an NBD connection share, and the client's side of it: pure values all.
//!
//! [`codec`] knows how messages lie in bytes, [`uri`] reads where an export is to be found.
//! [`handshake`] negotiates as a client, [`replies`] reads what a server answers; [`input`] holds
//! what was not read yet. Sockets are elsewhere: servers in `heliostat-export-nbd`, clients in
//! `heliostat-leg` and for load in `heliostat-export-nbd`.
#![forbid(unsafe_code)]

pub mod codec;
#[doc(hidden)]
pub mod fuzz;
pub mod handshake;
pub mod input;
pub mod replies;
pub mod uri;
