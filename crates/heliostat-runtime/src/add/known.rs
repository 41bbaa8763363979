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
        let add = format!("heliostat add {} {name}{}", wanted.name, wanted.option);
        let forced = format!("'{add} --force' makes it a leg by copying all of the array over it");
        let add = format!("'{add}' makes it a leg by copying all of the array to it");
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
        let role = match own.role() {
            Some(Role::Active(role)) => role,
            role => {
                let role = role.map_or_else(
                    || "it has no role".to_owned(),
                    |role| format!("its role is: {role}"),
                );
                return Err(format!(
                    "{name} does not hold the array's data, as its superblock says ({role}); {add}"
                ));
            }
        };
        if let Some(why) = self.own_data(wanted) {
            return Err(format!("{why}; {forced}"));
        }
        if !wanted.is_out(role) {
            return Err(format!(
                "{name} was leg {role}, and another leg has its place; {add}"
            ));
        }
        if !wanted.like.features.contains(Features::BITMAP) {
            return Err(format!(
                "the array has no bitmap, so that nobody knows what {name} missed; {add}"
            ));
        }
        match wanted.known_since {
            Some(since) if own.events >= since && self.own(wanted).is_some() => Ok(()),
            Some(since) if own.events >= since => Err(format!(
                "{name} does not fit in any more: the array has grown, or its number is that of \
                 another leg; {add}"
            )),
            since => Err(format!(
                "the bitmap does not know all that {name} missed: it is at event {}, and bits were \
                 cleared{}; {add}",
                own.events,
                since.map_or_else(String::new, |since| format!(" at event {since}"))
            )),
        }
    }
}
