//! What the read policy believes, for whoever asks.

use std::sync::Weak;

use heliostat_engine::Input;
use heliostat_types::LegId;

use super::Server;
use crate::explain::{Explanation, LegExplained, Watch};

impl Server {
    /// What the policy believes of each leg, and the numbers of these legs. Whoever has `watch`
    /// hears its decisions from then on.
    pub(super) fn explain(&mut self, watch: Option<Weak<Watch>>) -> (Explanation, Vec<LegId>) {
        let replacement = self.core.engine().replacing().map(|(_, by)| by);
        let legs: Vec<LegId> = self.legs_by_role().chain(replacement).collect();
        let snapshot = self.snapshot();
        let spec = *self.core.policy.active();
        let (access, now) = (self.core.access.clone(), self.core.now());
        let seen = access.look(now, legs.clone(), watch, || {
            self.core.input(Input::ConfigurePolicy(spec));
        });
        let known = snapshot.legs.into_iter().zip(&seen.beliefs).enumerate();
        let explanation = Explanation {
            name: snapshot.name,
            policy: snapshot.policy,
            rule: spec.policy().summary.to_owned(),
            predicts: seen.predicts,
            legs: known
                .map(|(index, (leg, beliefs))| LegExplained::new(index, leg, beliefs))
                .collect(),
        };
        (explanation, legs)
    }
}
