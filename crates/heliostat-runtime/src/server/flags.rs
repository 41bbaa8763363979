//! What is said of a leg while it serves.

use heliostat_engine::{FlagsRefusal, Input, LegFlags};

use super::Server;
use crate::add::is_same_leg;
use crate::commands::Refused;
use crate::events;
use crate::status::FlagChange;

impl Server {
    /// Has the policy `device` read the leg of this role, or not any more. The roles that it
    /// reads; nothing where there is no such role.
    pub(super) fn prefer(&mut self, role: usize, is_preferred: bool) -> Option<Vec<usize>> {
        let leg = self.legs_by_role().nth(role)?;
        self.core.input(Input::SetReadPreferred(leg, is_preferred));
        let engine = self.core.engine();
        let roles = self.legs_by_role().enumerate();
        let preferred = roles.filter(|(_, leg)| engine.is_read_preferred(*leg));
        Some(preferred.map(|(role, _)| role).collect())
    }

    /// Prefers the legs of these roles, as far as there are such.
    pub(super) fn prefer_all(&mut self, roles: &[usize]) {
        for &role in roles {
            self.prefer(role, true);
        }
    }

    /// Says something else of a leg. It is told when that is durable; until then it is refused for
    /// the moment.
    pub(super) fn set_leg_flags(
        &mut self,
        text: &str,
        change: FlagChange,
    ) -> Result<String, Refused> {
        let mut spares = self.core.spare_names();
        if let Some(spare) = spares.find(|spare| is_same_leg(spare, text)) {
            let (name, option) = (&self.name, &self.option);
            return Err(Refused::from(format!(
                "{spare} is a spare, and is told when it is added: 'heliostat remove {name} \
                 {spare}{option}', and then 'heliostat add {name} {spare}{option}' with what is to \
                 be said of it"
            )));
        }
        drop(spares);
        let leg = self.leg_called(text)?;
        let engine = self.core.engine();
        let title = self.core.leg_title(leg);
        if engine.leg_being_told() == Some(leg) {
            let behind = engine.write_behind().writes;
            return Err(Refused {
                why: format!(
                    "{title} is told, and that is not durable yet: {behind} writes that are behind \
                     come first"
                ),
                passes: true,
            });
        }
        let before = engine.leg_flags(leg);
        let flags = LegFlags {
            write_mostly: change.write_mostly.unwrap_or(before.write_mostly),
            failfast: change.failfast.unwrap_or(before.failfast),
        };
        if flags == before {
            return Ok(format!("{title} is {}", events::words_of(flags)));
        }
        if let Some(refusal) = engine.flags_refusal(leg, flags) {
            return Err(Refused {
                why: format!("{title} cannot be told: {}", events::why_not_told(refusal)),
                passes: refusal == FlagsRefusal::Unrecorded,
            });
        }
        self.core.input(Input::SetFlags { leg, flags });
        Err(Refused {
            why: format!("{title} is told, and that is not durable yet"),
            passes: true,
        })
    }
}
