//! A read that is in flight, and what was expected of it.

use heliostat_types::Instant;

/// A read that the leg has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Followed {
    pub(super) address: u64,
    pub(super) began: Instant,
    pub(super) predicted_ns: f32,
    /// What it may take at this load and of this length, which may never have been seen.
    pub(super) longest_ns: f32,
    pub(super) load: f32,
    /// The root of the way to it, where it met an idle leg and continued nothing.
    pub(super) root: Option<f32>,
    pub(super) curve: u8,
    /// What is known of the leg is old.
    pub(super) is_stale: bool,
    /// The leg had something to do, and not as much of late.
    pub(super) is_deeper: bool,
    /// What another leg was predicted to take, where this one was tried.
    pub(super) rival_ns: f32,
    /// And where this one is slow; infinitely long where it is not.
    pub(super) others_ns: f32,
    /// It may be answered from a cache, and tells nothing of others.
    pub(super) is_repeat: bool,
    /// Another one of the same address is in flight: whose answer it is nobody knows.
    pub(super) is_twice: bool,
    pub(super) is_used: bool,
}
