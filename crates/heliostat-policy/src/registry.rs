//! All policies there are, in the order in which they are shown.

use crate::api::ReadPolicy;
use crate::policies;
use crate::spec::PolicySpec;
use crate::tunable::Tunable;

/// The policy of an array whose owner named none: `zfs`. It weighs what is in flight against the
/// cost of a seek, so it is never far off on unequal legs, neither at depth 1, where counting
/// alone cannot tell legs apart, nor at depth 32, where a fixed choice leaves legs idle.
pub const DEFAULT_POLICY: &str = "adaptive";

/// The most tunables a policy has.
pub(crate) const TUNABLES_MAX: usize = 8;

/// A policy as the registry knows it.
#[derive(Debug)]
pub struct PolicyInfo {
    /// What people call it.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What a value right behind the colon means.
    pub bare_value: BareValue,
    /// What can be tuned, in the order in which it is shown.
    pub tunables: &'static [Tunable],
    /// Makes one.
    pub(crate) build: fn(&PolicySpec) -> Box<dyn ReadPolicy>,
}

/// What `VALUE` in `NAME:VALUE` means, where it is not `key=value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareValue {
    /// Nothing: it is an error.
    Refused,
    /// Nothing: it has to be a number above zero and is forgotten, as btrfs does for `pid`.
    Ignored,
    /// The first tunable. It is always shown, and has its default where the value is left out.
    FirstTunable,
}

/// btrfs's own come in btrfs's order, with what others add between its second and its last.
static POLICIES: [&PolicyInfo; 26] = [
    &policies::pid::INFO,
    &policies::round_robin::INFO,
    &policies::latency::INFO,
    &policies::latency_rr::INFO,
    &policies::queue::INFO,
    &policies::queue_adaptive::INFO,
    &policies::device::INFO,
    &policies::roundrobin::INFO,
    &policies::roundrobin_jain::INFO,
    &policies::latency_lifetime::INFO,
    &policies::stripe::INFO,
    &policies::zol_load::INFO,
    &policies::zfs_bonus::INFO,
    &policies::zfs::INFO,
    &policies::md::INFO,
    &policies::gmirror_load::INFO,
    &policies::gmirror_split::INFO,
    &policies::spdk::INFO,
    &policies::drbd_least_pending::INFO,
    &policies::hst::INFO,
    &policies::service_time::INFO,
    &policies::bcachefs::INFO,
    &policies::p2c::INFO,
    &policies::prequal::INFO,
    &policies::adaptive::INFO,
    &policies::devid::INFO,
];

/// All policies, in the order in which they are shown.
pub fn all_policies() -> impl ExactSizeIterator<Item = &'static PolicyInfo> {
    POLICIES.iter().copied()
}

/// The policy of this name.
#[must_use]
pub fn find_policy(name: &str) -> Option<&'static PolicyInfo> {
    all_policies().find(|policy| policy.name == name)
}

#[cfg(test)]
mod tests {
    use super::{BareValue, DEFAULT_POLICY, TUNABLES_MAX, all_policies, find_policy};

    #[test]
    fn names_and_tunables_are_well_formed() {
        let is_word = |text: &str, extra| {
            !text.is_empty()
                && text
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == extra)
        };
        let mut names: Vec<&str> = all_policies().map(|policy| policy.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all_policies().len(), "names are unique");
        assert!(find_policy(DEFAULT_POLICY).is_some());
        for policy in all_policies() {
            assert!(is_word(policy.name, '-'), "{}", policy.name);
            assert!(policy.tunables.len() <= TUNABLES_MAX, "{}", policy.name);
            if policy.bare_value == BareValue::FirstTunable {
                assert!(!policy.tunables.is_empty(), "{}", policy.name);
            }
            for tunable in policy.tunables {
                assert!(is_word(tunable.name, '_'), "{}", tunable.name);
                let text = tunable.format(tunable.default);
                assert_eq!(
                    tunable.parse(&text),
                    Some(tunable.default),
                    "{}",
                    tunable.name
                );
            }
        }
    }
}
