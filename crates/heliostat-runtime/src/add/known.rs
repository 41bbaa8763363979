//! `re-add`: a leg comes back only where the bitmap knows what it missed, as `mdadm --re-add` has
//! it.

use heliostat_format::{Features, Role};

use super::{Addition, Wanted};

impl Addition {
    /// Refuses a leg of which all would have to be copied, or that is none of the array's.
    ///
    /// # Errors
    /// The reason, and the way out. Nothing was written to the leg.
    pub(crate) fn expect_known(&self, wanted: &Wanted) -> Result<(), String> {
        let name = self.leg.name();
        let array = &wanted.name;
        let add = format!(
            "'heliostat add {array} {name}' makes it a leg by copying all of the array to it"
        );
        let forced = format!(
            "'heliostat add {array} {name} --force' makes it a leg by copying all of the array \
             over it"
        );
        let own = self.candidate.as_ref();
        let Some(own) = own.map(|candidate| &candidate.superblock) else {
            let what = self.found.as_deref().map_or_else(
                || format!("is empty, and was no leg of this array; {add}"),
                |found| format!("holds {found}, and was no leg of this array; {forced}"),
            );
            return Err(format!("{name} {what}"));
        };
        if own.set_uuid != wanted.like.set_uuid {
            return Err(format!(
                "{name} is a leg of another array, {} ({}); {forced}, which destroys it",
                own.name(),
                own.set_uuid
            ));
        }
        if wanted.may_have_gone_alone(own) {
            return Err(format!(
                "{name} may have been written to without the legs that are in sync now, so that no \
                 bitmap knows what is on it; {forced}"
            ));
        }
        let is_leg = matches!(own.role(), Some(Role::Active(_)));
        if !is_leg || self.own(wanted).is_none() {
            return Err(format!(
                "{name} does not hold the array's data, as its superblock says ({}); {add}",
                own.role().map_or_else(
                    || "it has no role".to_owned(),
                    |role| format!("its role is: {role}")
                )
            ));
        }
        if !wanted.like.features.contains(Features::BITMAP) {
            return Err(format!(
                "the array has no bitmap, so that nobody knows what {name} missed; {add}"
            ));
        }
        match wanted.known_since {
            Some(since) if own.events >= since => Ok(()),
            since => Err(format!(
                "the bitmap does not know all that {name} missed: it is at event {}, and bits were \
                 cleared{}; {add}",
                own.events,
                since.map_or_else(String::new, |since| format!(" at event {since}"))
            )),
        }
    }
}
