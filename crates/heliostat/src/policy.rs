//! `heliostat policy` and `heliostat policies`.

use std::io::{Write as _, stdout};

use anyhow::bail;
use heliostat_policy::{PolicyInfo, all_policies};
use heliostat_runtime::{ControlRequest, ControlResponse, PolicyChange};

use crate::cli::ControlArgs;

/// What `heliostat policy` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    /// The array.
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// The policy to switch to: NAME, NAME:VALUE or NAME:key=value,key=value. Without it, all are
    /// shown with the active one in brackets, as btrfs does.
    policy: Option<String>,
    /// Do not keep it for the next start.
    #[arg(long, requires = "policy")]
    transient: bool,
    /// Show each with all of its values that are not the defaults.
    #[arg(long, conflicts_with_all = ["policy", "list"])]
    full: bool,
    /// List all policies with their tunables instead.
    #[arg(long, conflicts_with = "name")]
    list: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// Shows or switches.
pub(crate) fn run(args: &PolicyArgs) -> anyhow::Result<()> {
    let Some(name) = &args.name else {
        return list();
    };
    let request = match &args.policy {
        None => ControlRequest::Policy { full: args.full },
        Some(policy) => ControlRequest::SetPolicy(PolicyChange {
            policy: policy.clone(),
            transient: args.transient,
        }),
    };
    let ControlResponse::Policy(text) = args.control.ask(name, &request)? else {
        bail!("asked for the policy, the daemon answered something else");
    };
    writeln!(stdout(), "{text}")?;
    Ok(())
}

/// Lists all policies.
pub(crate) fn list() -> anyhow::Result<()> {
    let mut out = stdout().lock();
    for policy in all_policies() {
        write!(out, "{}", entry(policy))?;
    }
    out.flush()?;
    Ok(())
}

/// One policy as the list shows it.
fn entry(policy: &PolicyInfo) -> String {
    let default = if policy.name == heliostat_policy::DEFAULT_POLICY {
        " (the default)"
    } else {
        ""
    };
    let mut text = format!("{}{default}\n    {}\n", policy.name, policy.summary);
    for tunable in policy.tunables {
        text += &format!(
            "    {}={}: {}\n",
            tunable.name,
            tunable.format(tunable.default),
            tunable.description
        );
    }
    text
}
