//! What was set while the array was served before, or on the command line.

use heliostat_policy::{PolicyControl, PolicySpec};
use heliostat_scheduler::SchedulerSpec;

use crate::RuntimeError;
use crate::options::parse_policy;
use crate::rates::Rates;
use crate::settings::Settings;
use crate::setup::Progress;

/// The policies to begin with: active is one that was set live, or the command line's, or the
/// default; all have the tunables that were set live.
pub(super) fn first_policies(
    settings: &Settings,
    leg_count: usize,
    progress: &mut dyn Progress,
) -> Result<PolicyControl, RuntimeError> {
    let active = first_policy(settings, leg_count, progress)?;
    let mut policies = PolicyControl::new(active);
    for text in settings.kept_tunables()? {
        match parse_policy(Some(&text), leg_count) {
            Ok(spec) => policies.keep(spec),
            Err(error) => progress.note(&format!(
                "the values in '{text}', which were set live before, are not used: {error}"
            )),
        }
    }
    Ok(policies)
}

/// The policy to begin with.
fn first_policy(
    settings: &Settings,
    leg_count: usize,
    progress: &mut dyn Progress,
) -> Result<PolicySpec, RuntimeError> {
    if let Some(kept) = settings.kept_policy()? {
        match parse_policy(Some(&kept), leg_count) {
            Ok(spec) => return Ok(spec),
            // It may be of a time with more legs, or of another version of this program.
            Err(error) => progress.note(&format!(
                "read policy '{kept}', which was set live before, is not used: {error}"
            )),
        }
    }
    Ok(parse_policy(settings.given_policy(), leg_count)?)
}

/// The scheduler to begin with: one that was set live, or the command line's, or the default.
pub(super) fn first_scheduler(
    settings: &Settings,
    progress: &mut dyn Progress,
) -> Result<SchedulerSpec, RuntimeError> {
    if let Some(kept) = settings.kept_scheduler()? {
        match SchedulerSpec::parse(&kept) {
            Ok(spec) => return Ok(spec),
            // It may be of another version of this program.
            Err(error) => progress.note(&format!(
                "scheduler '{kept}', which was set live before, is not used: {error}"
            )),
        }
    }
    Ok(settings.given_scheduler())
}

/// The rates to begin with: those that were set live, or the command line's, or the default ones.
pub(super) fn first_rates(settings: &Settings) -> Result<Rates, RuntimeError> {
    let rates = Rates::default().changed(settings.rates()?);
    rates.map_err(|error| {
        RuntimeError(format!(
            "{error}; one of them was set with 'heliostat rate' before: give both, with \
             --resync-min and --resync-max"
        ))
    })
}
