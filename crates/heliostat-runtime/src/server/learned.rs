//! What the read policy learns, looked at now and then while the array is served.

use heliostat_leg::OpenedLeg;
use heliostat_types::LegId;

use super::{Server, failed};
use crate::RuntimeError;
use crate::learned::Learned;
use crate::options::ArrayOptions;

/// What was learned of these legs before, and a line where that cannot be read.
pub(super) fn open_learned(
    options: &ArrayOptions,
    legs: &[OpenedLeg],
) -> Result<(Learned, Option<String>), RuntimeError> {
    let path = options.places.learned(&options.name);
    let opened = Learned::open(options.keeps_settings.then_some(path));
    let (mut learned, note) = opened.map_err(|error| failed("start a thread", &error))?;
    for (role, leg) in legs.iter().enumerate() {
        learned.set_device(LegId::new(role), leg.info().identity.clone());
    }
    Ok((learned, note))
}

impl Server {
    /// Keeps what was learned, where it is time for that.
    pub(super) fn look_at_learned(&mut self) {
        let at = self.core.learned.next_look();
        if at.is_some_and(|at| at <= self.core.now()) {
            self.keep_learned();
        }
    }

    /// Keeps what was learned.
    pub(super) fn keep_learned(&mut self) {
        let spec = *self.core.policy.active();
        self.core.keep_learned(spec);
    }
}
