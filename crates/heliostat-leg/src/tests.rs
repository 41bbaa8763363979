//! Every kind of leg through every way of reaching it, driven as the runtime drives it.

mod bench;
mod conformance;
mod faults;
mod refusals;
mod shrinking;
