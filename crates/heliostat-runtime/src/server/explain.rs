//! What the read policy believes, for whoever asks.

use std::sync::Weak;

use heliostat_engine::Input;
use heliostat_types::LegId;

use super::Server;
use crate::explain::{Explanation, LegExplained, Seen, StreamExplained, Watch};
use crate::metrics::Figures;

impl Server {
    /// What the policy believes of each leg, and the numbers of these legs. Whoever has `watch`
    /// hears its decisions from then on.
    pub(super) fn explain(&mut self, watch: Option<Weak<Watch>>) -> (Explanation, Vec<LegId>) {
        let snapshot = self.snapshot();
        let spec = *self.core.policy.active();
        let (seen, legs) = self.look_at_policy(watch);
        let streams = seen.streams.iter();
        let streams = streams.map(|stream| StreamExplained::new(stream, &legs));
        let known = snapshot.legs.into_iter().zip(&seen.beliefs).enumerate();
        let explanation = Explanation {
            name: snapshot.name,
            policy: snapshot.policy,
            rule: spec.policy().summary.to_owned(),
            predicts: seen.predicts,
            legs: known
                .map(|(index, (leg, beliefs))| LegExplained::new(index, leg, beliefs))
                .collect(),
            streams: streams.collect(),
        };
        (explanation, legs)
    }

    /// What the policy believes of each leg, those of the [snapshot](Self::snapshot) in their
    /// order, and their numbers.
    fn look_at_policy(&mut self, watch: Option<Weak<Watch>>) -> (Seen, Vec<LegId>) {
        let replacement = self.core.engine().replacing().map(|(_, by)| by);
        let legs: Vec<LegId> = self.legs_by_role().chain(replacement).collect();
        let spec = *self.core.policy.active();
        let (access, now) = (self.core.access.clone(), self.core.now());
        let seen = access.look(now, legs.clone(), watch, || {
            self.core.input(Input::ConfigurePolicy(spec));
        });
        (seen, legs)
    }

    /// All that metrics are made of.
    pub(super) fn metrics(&mut self) -> Figures {
        let (seen, _) = self.look_at_policy(None);
        Figures {
            stats: self.snapshot(),
            status: self.status(),
            volumes: self.volumes_status(),
            seen,
        }
    }
}
