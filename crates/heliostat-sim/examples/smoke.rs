//! Plays random scenarios until one fails or all are played; prints the failing seed and the events
//! before the failure.
//!
//!     cargo run --release -p heliostat-sim --example smoke [FIRST_SEED] [COUNT]
#![expect(clippy::print_stdout, reason = "it is for people")]

use std::error::Error;

use heliostat_sim::smoke;

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Result<Vec<u64>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    let numbers = numbers?;
    let first = numbers.first().copied().unwrap_or(0);
    let count = numbers.get(1).copied().unwrap_or(1_000);
    for seed in first..first + count {
        if let Err(failure) = smoke([seed]) {
            println!("{failure}");
            return Err(format!("seed {seed}").into());
        }
    }
    println!("seeds {first} to {}: nothing wrong", first + count - 1);
    Ok(())
}
