//! Sequential runs of reads, and how often one changes its leg.

use heliostat_types::{Extent, LegId};

/// How many runs are told apart: more than any job list that people look at has.
const RUNS_MAX: usize = 64;

/// The newest runs.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Where each run ends. Searched at every read, so that they lie by themselves.
    ends: Vec<u64>,
    legs: Vec<LegId>,
    oldest: usize,
}

impl Streams {
    /// A read goes to `leg`; whether it continues a run that was on another one.
    pub(crate) fn on_read(&mut self, extent: Extent, leg: LegId) -> bool {
        if let Some(run) = self.ends.iter().position(|end| *end == extent.offset()) {
            self.ends[run] = extent.end();
            return std::mem::replace(&mut self.legs[run], leg) != leg;
        }
        if self.ends.len() < RUNS_MAX {
            self.ends.push(extent.end());
            self.legs.push(leg);
        } else {
            self.ends[self.oldest] = extent.end();
            self.legs[self.oldest] = leg;
            self.oldest = (self.oldest + 1) % RUNS_MAX;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, LegId};

    use super::Streams;

    #[test]
    fn a_run_that_changes_its_leg_is_seen() {
        let mut streams = Streams::default();
        let leg = LegId::new;
        assert!(!streams.on_read(Extent::new(0, 10), leg(0)));
        assert!(!streams.on_read(Extent::new(500, 10), leg(1)));
        assert!(!streams.on_read(Extent::new(10, 10), leg(0)));
        assert!(streams.on_read(Extent::new(20, 10), leg(1)));
        assert!(!streams.on_read(Extent::new(30, 10), leg(1)));
    }
}
