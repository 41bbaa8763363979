//! `heliostat`, the program: arguments in, words and exit codes out.

mod advise;
mod bench;
mod cli;
mod console;
mod control_files;
mod create;
mod demo;
mod emulate;
mod examine;
mod explain;
mod grow;
mod histogram;
mod host_config;
mod model;
mod policy;
mod progress;
mod rate;
mod scheduler;
mod scrub;
mod serve;
mod sim;
mod sparse;
mod stats;
mod status;
mod top;
mod tune;
mod volume;
mod wait;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
