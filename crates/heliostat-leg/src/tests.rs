//! Every kind of leg through every way of reaching it, driven as the runtime drives it.

mod attach;
pub(crate) mod bench;
mod conformance;
mod fallback;
mod faults;
mod identities;
mod refusals;
mod shadow;
mod shrinking;
