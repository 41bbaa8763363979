//! What both ends of an NBD connection share: the words of the protocol and the names of exports.
//!
//! [`codec`] knows how messages lie in bytes, [`uri`] reads where an export is to be found. What
//! the server says when is `heliostat-export-nbd`, what the other end does is `heliostat-leg`.
#![forbid(unsafe_code)]

pub mod codec;
pub mod uri;
