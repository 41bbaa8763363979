//! `heliostat`, the program: arguments in, words and exit codes out.

mod cli;
mod create;
mod demo;
mod examine;
mod model;
mod policy;
mod rate;
mod serve;
mod sim;
mod stats;
mod status;
mod tune;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
