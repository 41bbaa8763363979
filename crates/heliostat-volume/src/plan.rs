//! Which writes, one after the other, take an array from one table to the next.
//!
//! Each step is durable before the next one begins. A step that is cut short by a power cut leaves
//! any of its sectors old and any new; a sector itself is never torn. What is found then is the old
//! table or the new one:
//!
//! * Each update writes one whole copy, and begins with the other one when that is durable. A torn
//!   copy has a wrong sum, and the other one is whole.
//! * The first table of an array and the last one have no volumes, and are one sector each. So
//!   there is no moment at which only a torn table is there, before the first or after the last.

use heliostat_types::Extent;

use crate::bytes::{COPY_BYTES_MAX, HEAD_BYTES};
use crate::copies::{Assessed, Copy};
use crate::table::Table;

/// One thing to be made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// These bytes, there.
    Write {
        /// Where in the array.
        offset_bytes: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// Zeros.
    Zero(Extent),
}

/// What is to be written, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Puts `next` in the place of the table that both copies hold, which is of the generation
    /// before.
    #[must_use]
    pub fn update(next: &Table) -> Self {
        let mut plan = Self::default();
        plan.write(next, [true; 2]);
        plan
    }

    /// Gives an array its first table. `erases` says that what lies where the copies will be is not
    /// nothing, and may be lost.
    #[must_use]
    pub fn begin(next: &Table, erases: bool) -> Self {
        let mut plan = Self::default();
        if erases {
            plan.steps.extend(next.places().areas().map(Step::Zero));
        }
        let empty = Table {
            generation: next.generation - 1,
            ..next.emptied()
        };
        plan.write(&empty, [true; 2]);
        plan.write(next, [true; 2]);
        plan
    }

    /// Removes the table that both copies hold: the array is one again.
    #[must_use]
    pub fn end(table: &Table) -> Self {
        let mut plan = Self::update(&table.emptied());
        plan.remove(table, [true; 2]);
        plan
    }

    /// Makes all copies hold the table that was found, where the array ends now, and that table;
    /// `None` where there is nothing left to be found. Writes only where `found` says that it may.
    #[must_use]
    pub fn settle(
        found: &Assessed,
        first: &Copy,
        second: &Copy,
        array_bytes: u64,
    ) -> (Self, Option<Table>) {
        let mut plan = Self::default();
        let table = &found.table;
        if table.volumes.is_empty() && !found.has_grown {
            // Its making or its removal was cut short. Nothing is ours but what is a table.
            let is_table = |copy: &Copy| matches!(copy, Copy::Valid(_) | Copy::Damaged(_));
            let tables = [is_table(first), is_table(second)];
            let is_stale = |at: usize| tables[at] && found.stale[at];
            plan.write(table, [is_stale(0), is_stale(1)]);
            plan.remove(table, tables);
            return (plan, None);
        }
        let table = if found.has_grown {
            table.of_size(array_bytes)
        } else {
            table.clone()
        };
        let is_due = |at: usize| found.stale[at] && found.may_write[at];
        plan.write(&table, [is_due(0), is_due(1)]);
        (plan, Some(table))
    }

    /// Writes the copies that do not hold the table, where something else lies. The others hold it.
    #[must_use]
    pub fn rewrite(table: &Table, which: [bool; 2]) -> Self {
        let mut plan = Self::default();
        plan.write(table, which);
        plan
    }

    /// The second copy first: where the array has grown, the first one says where the second was.
    fn write(&mut self, table: &Table, which: [bool; 2]) {
        for (area, is_due) in table.places().areas().into_iter().zip(which).rev() {
            if is_due {
                self.steps.push(Step::Write {
                    offset_bytes: area.offset(),
                    bytes: table.to_bytes(),
                });
            }
        }
    }

    /// Removes a table without volumes: what its sum does not cover first, and then the sector that
    /// it is.
    fn remove(&mut self, table: &Table, which: [bool; 2]) {
        let areas = table.places().areas().into_iter().zip(which).rev();
        let areas: Vec<Extent> = areas
            .filter_map(|(area, is_due)| is_due.then_some(area))
            .collect();
        for area in &areas {
            let (copy, _) = area.split_at(COPY_BYTES_MAX as u64);
            self.steps
                .push(Step::Zero(copy.split_at(HEAD_BYTES as u64).1));
        }
        for area in &areas {
            self.steps.push(Step::Write {
                offset_bytes: area.offset(),
                bytes: vec![0; HEAD_BYTES],
            });
        }
    }
}

#[cfg(test)]
mod tests;
