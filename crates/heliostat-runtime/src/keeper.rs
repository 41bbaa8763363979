//! Keeps the record of the array: what the engine wants to be durable, completed by names, times
//! and reasons, on its way to the state file.
//!
//! An array whose legs are all volatile has no record: nothing of it is there to be wrong about
//! after the daemon's end.

use heliostat_engine::{ArrayRecord, Event};
use heliostat_types::{LEGS_MAX, LegId};

use crate::events;
use crate::state::{FaultRecord, StateFile};
use crate::state_writer::{StateWriter, Written};
use crate::wall_time::WallTime;

/// See the module.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// The file and who writes it; nothing where nothing lasts.
    lasting: Option<Lasting>,
    faults: [Option<FaultRecord>; LEGS_MAX],
    /// Noted, not yet handed over.
    noted: Option<ArrayRecord>,
}

#[derive(Debug)]
struct Lasting {
    file: StateFile,
    writer: StateWriter,
    /// Which leg each entry of the file is.
    legs: Vec<LegId>,
}

impl Keeper {
    /// For legs of which nothing lasts.
    pub(crate) fn forgetful() -> Self {
        Self {
            lasting: None,
            faults: Default::default(),
            noted: None,
        }
    }

    /// Keeps `file`, whose entries are the legs `legs` of the array.
    pub(crate) fn lasting(file: StateFile, legs: Vec<LegId>, writer: StateWriter) -> Self {
        assert!(file.legs.len() == legs.len(), "each entry is a leg");
        Self {
            lasting: Some(Lasting { file, writer, legs }),
            ..Self::forgetful()
        }
    }

    /// Remembers why a leg was faulted.
    pub(crate) fn note_event(&mut self, event: &Event) {
        if let Event::LegFaulted { leg, reason } = *event {
            self.faults[leg.index()] = Some(FaultRecord {
                at: WallTime::now(),
                reason: events::why(reason),
            });
        }
    }

    /// The engine wants this to be durable. It is handed over by [`Keeper::persist_noted`], when
    /// all that the engine says besides is known too.
    pub(crate) const fn note_record(&mut self, record: ArrayRecord) {
        self.noted = Some(record);
    }

    /// Hands over what was noted. The generation, where that is durable at once because nothing of
    /// the array lasts.
    pub(crate) fn persist_noted(&mut self) -> Option<u64> {
        let record = self.noted.take()?;
        let Some(Lasting { file, writer, legs }) = &mut self.lasting else {
            return Some(record.generation);
        };
        file.generation = record.generation;
        file.dirty_since = record
            .dirty
            .then(|| file.dirty_since.unwrap_or_else(WallTime::now));
        for (entry, leg) in file.legs.iter_mut().zip(legs) {
            if !record.faulted.contains(*leg) {
                // It has been rebuilt.
                entry.fault = None;
            } else if entry.fault.is_none() {
                entry.fault = self.faults[leg.index()].clone().or_else(|| {
                    Some(FaultRecord {
                        at: WallTime::now(),
                        reason: "the reason is not known".to_owned(),
                    })
                });
            }
        }
        writer.write(file.clone());
        None
    }

    /// Who writes, to be watched.
    pub(crate) fn writer(&self) -> Option<&StateWriter> {
        self.lasting.as_ref().map(|lasting| &lasting.writer)
    }

    /// What became of records; to be asked until there is no more.
    pub(crate) fn next_written(&self) -> Option<Written> {
        self.writer()?.next_written()
    }
}
