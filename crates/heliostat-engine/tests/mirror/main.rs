//! The mirror under attack, from outside: directed cases and random runs over legs that are bytes
//! in memory, judged by an oracle that knows nothing of how the engine works.
//!
//! `HELIOSTAT_RUNS=N` makes N times as many random runs, and `HELIOSTAT_FROM=S` begins with run S;
//! `HELIOSTAT_SEED=S` makes run S alone, of each kind, and tells its story.

#[cfg(test)]
mod arena;
#[cfg(test)]
mod behind;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod checker;
#[cfg(test)]
mod fill;
#[cfg(test)]
mod judge;
#[cfg(test)]
mod leg;
#[cfg(test)]
mod lives;
#[cfg(test)]
mod meta;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod random;
#[cfg(test)]
mod settle;
#[cfg(test)]
mod world;
