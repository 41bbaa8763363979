//! `heliostat grow`: more legs of an array, served or not; and fewer legs, or more of each leg, of
//! one that is not served.

use std::io::{Write as _, stdout};
use std::process::ExitCode;

use anyhow::bail;
use heliostat_runtime::{ControlRequest, GrowOptions, GrowWhat, GrownArray, UsageError};
use stdx::units::{format_size, parse_size};

use crate::cli::ControlArgs;
use crate::console::Lines;
use crate::status::{absolute, add_by};

/// What `heliostat grow` is told.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["legs", "size"])))]
pub(crate) struct GrowArgs {
    /// The array. While it is served, it only gets more legs.
    name: String,
    /// How many legs it is to have. Fewer only where so many are there: take the others out with
    /// 'fail' and 'remove' before, and stop it.
    #[arg(long, value_name = "N")]
    legs: Option<u32>,
    /// New legs, which are filled while it is served.
    #[arg(value_name = "LEG", requires = "legs")]
    new_legs: Vec<String>,
    /// How much of each leg it is to use; 'max': as much as all of them have.
    #[arg(long, value_name = "SIZE|max", value_parser = parse_used)]
    size: Option<Used>,
    /// With --size: take the legs for equal in what is new, without a resync.
    #[arg(long, requires = "size")]
    assume_clean: bool,
    /// Destroy what lies on new legs.
    #[arg(long)]
    force: bool,
    /// With --legs, while it is served: show how far the new legs are until they are in sync.
    #[arg(long, requires = "legs")]
    wait: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// How much of each leg is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    /// As much as all of them have.
    Max,
    /// So many bytes.
    Bytes(u64),
}

fn parse_used(text: &str) -> Result<Used, String> {
    if text == "max" {
        return Ok(Used::Max);
    }
    let bytes = parse_size(text);
    bytes.map(Used::Bytes).map_err(|error| error.to_string())
}

/// Makes it grow, and says what it is now.
pub(crate) fn run(args: &GrowArgs) -> anyhow::Result<ExitCode> {
    let bare = args.new_legs.iter().find(|leg| !leg.contains(['/', ':']));
    if let Some(leg) = bare {
        bail!(UsageError(format!(
            "'{leg}' is no leg: a path has a '/' in it, as in ./{leg}"
        )));
    }
    let places = args.control.places()?;
    if let Some(legs) = args.legs
        && heliostat_runtime::server_of(&places, &args.name).is_some()
    {
        let request = ControlRequest::Grow {
            legs: legs as usize,
            new: args.new_legs.iter().map(|leg| absolute(leg)).collect(),
            force: args.force,
        };
        return add_by(&args.control, &args.name, &request, args.wait);
    }
    if args.wait {
        bail!(UsageError(format!(
            "{} is not served, and its new legs are filled only then; leave --wait out",
            args.name
        )));
    }
    let what = match (args.legs, args.size) {
        (Some(count), _) => GrowWhat::Legs {
            count,
            new: args.new_legs.clone(),
        },
        (None, size) => GrowWhat::Size {
            bytes: match size {
                Some(Used::Bytes(bytes)) => Some(bytes),
                Some(Used::Max) | None => None,
            },
            assume_clean: args.assume_clean,
        },
    };
    let options = GrowOptions {
        name: args.name.clone(),
        what,
        force: args.force,
        places,
    };
    let grown = heliostat_runtime::grow(&options, &mut Lines)?;
    writeln!(stdout(), "{}", text(&args.name, &grown, args.assume_clean))?;
    Ok(ExitCode::SUCCESS)
}

/// What became of it.
fn text(name: &str, grown: &GrownArray, assume_clean: bool) -> String {
    if !grown.is_changed {
        return format!("{name} is so already; nothing was changed");
    }
    let mut lines = Vec::new();
    if grown.legs != grown.legs_before {
        lines.push(format!(
            "{name} has {} legs now; it had {}",
            grown.legs, grown.legs_before
        ));
    }
    if grown.size_bytes != grown.size_bytes_before {
        lines.push(format!(
            "{name}: {} ({} bytes); it had {}",
            format_size(grown.size_bytes),
            grown.size_bytes,
            format_size(grown.size_bytes_before)
        ));
        if let Some(chunk) = grown.bitmap_chunk_bytes {
            lines.push(format!(
                "a bit of its bitmap stands for {}",
                format_size(chunk)
            ));
        }
        if !assume_clean {
            lines.push("what is new is resynced when it is served".to_owned());
        }
    }
    if lines.is_empty() {
        lines.push(format!("{name}: what was left undone before is done"));
    }
    if grown.legs_lacking > 0 {
        lines.push(format!(
            "{} of {} legs are in sync: new ones are filled when it is served, and 'heliostat add' \
             gives it those that it lacks",
            grown.legs as usize - grown.legs_lacking,
            grown.legs
        ));
    }
    lines.join("\n")
}
