//! Legs that are exports of NBD servers.
//!
//! The socket lives on the array's thread and never blocks it: requests leave gathered, bytes go
//! from the socket into the arena and back. Connecting does block, in the resolver for one, and is
//! done before the array is served, or by a thread of the leg's own ([`dialer`]).
//!
//! **Memory.** An operation owns its range of the arena until it was reaped, over as many
//! connections as that takes. Nothing but this thread touches the range, so once its connection is
//! closed an operation can be ended at any time, whatever the server still does.
//!
//! **A connection that is lost** is made again, for as long as it takes, and what was in flight is
//! sent again in order of dispatch. That changes nothing: operations in flight together do not
//! overlap where one of them writes, by the engine's locks, and writing the same bytes to the same
//! place twice is writing them once. It is not safe where
//!
//! * the server had answered writes that were never flushed: it may have lost them, with its
//!   machine's power or its own memory, and would return older bytes from now on, to reads long
//!   before any flush could tell. The leg is *lost* then ([`LegOutcome::Lost`]);
//! * what comes back is another export, or the same one in another size, with other abilities, or
//!   without bytes that it is known to have had ([`witness`]): lost as well;
//! * the server broke the protocol. It is alive, and may still carry out what it was sent: lost;
//! * a server goes on with requests of a connection that is gone, after their repetition was
//!   answered and the same bytes were written anew. That takes a network which cuts connections
//!   under a server that lives and is slow. What we have not sent is not delivered any more (the
//!   connection is reset, not closed), and the pause before the next connection gives what was
//!   delivered time to end; there is no more that a client can do (`docs/legs.md`).
//!
//! [`LegOutcome::Lost`]: crate::LegOutcome::Lost

mod backoff;
mod client;
mod connection;
mod dial;
mod dialer;
mod setup;
mod witness;

pub(crate) use client::NbdClient;
pub(crate) use setup::{NbdStore, open_export};

#[cfg(test)]
pub(crate) mod tests;
