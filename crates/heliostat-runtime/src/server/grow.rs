//! A mirror gets more legs while it is served.

use heliostat_engine::{GrowRefusal, Input};

use super::Server;
use crate::commands::Refused;
use crate::events;

impl Server {
    /// Lets there be so many legs, one more than there are. It is told when that is durable; until
    /// then it is refused for the moment.
    pub(super) fn grow_to(&mut self, legs: usize) -> Result<(), Refused> {
        let engine = self.core.engine();
        let name = &self.name;
        if engine.map().legs() >= legs {
            return if engine.is_record_durable() {
                Ok(())
            } else {
                Err(unrecorded(name))
            };
        }
        if let Some(refusal) = engine.grow_refusal() {
            return Err(Refused {
                why: format!("{name} does not grow: {}", events::why_not_grown(refusal)),
                passes: refusal == GrowRefusal::Unrecorded,
            });
        }
        // What was replaced may still be held open in the place where the new leg will be.
        let former: Vec<String> = self.former_legs().map(str::to_owned).collect();
        for leg in former {
            self.release(&leg)?;
        }
        self.core.input(Input::Grow);
        Err(unrecorded(&self.name))
    }
}

fn unrecorded(name: &str) -> Refused {
    Refused {
        why: format!("{name} grows, and that is not durable yet"),
        passes: true,
    }
}
