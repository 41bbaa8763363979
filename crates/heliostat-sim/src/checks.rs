//! What must hold when a run is over.

use heliostat_types::{LegId, LegSet, SECTOR_BYTES};

use crate::simulation::Simulation;

impl Simulation {
    /// Notes the first thing that does not hold.
    pub(crate) fn check_end(&mut self) {
        let checks = [
            Self::check_everything_ended,
            Self::check_memory_is_back,
            Self::check_littles_law,
            Self::check_legs_converge,
            Self::check_no_write_is_lost,
        ];
        for check in checks {
            if let Err(text) = check(self) {
                self.fail(text);
                return;
            }
        }
    }

    fn check_everything_ended(&mut self) -> Result<(), String> {
        if !self.requests.is_empty() {
            return Err("a request was never answered".to_owned());
        }
        let in_sync = self.engine.in_sync();
        let mut ops = self.leg_ops.values();
        match ops.find(|in_flight| in_sync.contains(in_flight.op.leg)) {
            Some(in_flight) => Err(format!("still in flight: {:?}", in_flight.op)),
            None if self.engine.is_idle() => Ok(()),
            None => Err("the engine waits for nothing".to_owned()),
        }
    }

    fn check_memory_is_back(&mut self) -> Result<(), String> {
        let used = self.engine.buffers().used_bytes();
        // A silent leg may still touch the memory of its operations.
        if used > 0 && self.leg_ops.is_empty() {
            return Err(format!("{used} bytes of memory were never given back"));
        }
        Ok(())
    }

    fn check_littles_law(&mut self) -> Result<(), String> {
        if self.littles.holds() {
            Ok(())
        } else {
            Err(format!(
                "requests spent other time than they were there: {:?}",
                self.littles
            ))
        }
    }

    fn check_legs_converge(&mut self) -> Result<(), String> {
        self.check_equal(self.engine.in_sync())
    }

    /// Whether `legs` hold the same, but for what an injected fault has damaged.
    pub(crate) fn check_equal(&self, legs: LegSet) -> Result<(), String> {
        let legs: Vec<LegId> = legs.iter().collect();
        for pair in legs.windows(2) {
            let [one, other] = [pair[0], pair[1]];
            let [mine, theirs] = [&self.legs[one.index()], &self.legs[other.index()]];
            let counts = |sector| !mine.is_damaged(sector) && !theirs.is_damaged(sector);
            if let Some(sector) = mine.store.first_difference(&theirs.store, counts) {
                return Err(format!("{one} and {other} differ in sector {sector}"));
            }
        }
        Ok(())
    }

    fn check_no_write_is_lost(&mut self) -> Result<(), String> {
        self.check_contents(self.engine.in_sync())
    }

    /// Reads everything that was ever written from each of `legs`.
    pub(crate) fn check_contents(&mut self, legs: LegSet) -> Result<(), String> {
        let Some(shadow) = &mut self.shadow else {
            return Ok(());
        };
        for leg in legs {
            let holds = &self.legs[leg.index()];
            for extent in shadow.written() {
                let began = shadow.begin_read();
                let checked = shadow.check_read(
                    extent,
                    began,
                    |sector| holds.store.version(sector),
                    |sector| holds.is_damaged(sector),
                );
                shadow.end_read(began);
                if let Err((sector, wrong)) = checked {
                    let at = sector * SECTOR_BYTES;
                    return Err(format!("{leg} holds {wrong} at byte {at}"));
                }
            }
        }
        Ok(())
    }
}
