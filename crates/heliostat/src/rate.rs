//! `heliostat rate`: between which bounds resync, rebuild and scrub go.

use std::io::{Write as _, stdout};

use anyhow::bail;
use heliostat_runtime::{ControlRequest, ControlResponse, Rates};
use stdx::units::{exact_rate, parse_rate};

use crate::cli::ControlArgs;

/// What `heliostat rate` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RateArgs {
    /// The array.
    name: String,
    /// What background work does at least, whatever clients ask for, as in 10MB/s.
    #[arg(long, value_name = "RATE", value_parser = parse)]
    min: Option<u64>,
    /// What it does at most, as in 500MB/s.
    #[arg(long, value_name = "RATE", value_parser = parse)]
    max: Option<u64>,
    /// One object on one line, and nothing else.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// Bytes per second of a rate.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    parse_rate(text).map_err(|error| error.to_string())
}

/// Both bounds for people.
pub(crate) fn bounds(rates: Rates) -> String {
    format!(
        "at least {}, at most {}",
        exact_rate(rates.min_bytes_per_s),
        exact_rate(rates.max_bytes_per_s)
    )
}

/// Shows or changes.
pub(crate) fn run(args: &RateArgs) -> anyhow::Result<()> {
    let request = ControlRequest::Rate {
        min_bytes_per_s: args.min,
        max_bytes_per_s: args.max,
    };
    let ControlResponse::Rates(rates) = args.control.ask(&args.name, &request)? else {
        bail!("asked for the rates, the daemon answered something else");
    };
    if args.json {
        writeln!(stdout(), "{}", serde_json::to_string(&rates)?)?;
    } else {
        writeln!(stdout(), "resync, rebuild and scrub: {}", bounds(rates))?;
    }
    Ok(())
}
