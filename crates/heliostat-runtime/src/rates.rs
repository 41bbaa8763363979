//! How fast background work goes: a floor and a ceiling, at the start and while it runs.

use heliostat_engine::Config;
use serde::{Deserialize, Serialize};
use stdx::units::exact_rate;

use crate::UsageError;

/// Between which bounds background work goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    /// At least, whatever clients ask for, as far as legs and memory allow.
    pub min_bytes_per_s: u64,
    /// At most.
    pub max_bytes_per_s: u64,
}

/// Bounds that are to be other ones; those that are `None` stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateChange {
    /// The floor.
    pub min_bytes_per_s: Option<u64>,
    /// The ceiling.
    pub max_bytes_per_s: Option<u64>,
}

impl Default for Rates {
    /// Those of md.
    fn default() -> Self {
        Self {
            min_bytes_per_s: Config::BACKGROUND_RATES_DEFAULT.0,
            max_bytes_per_s: Config::BACKGROUND_RATES_DEFAULT.1,
        }
    }
}

impl Rates {
    /// These, changed.
    ///
    /// # Errors
    /// Where nothing lies between them.
    pub fn changed(self, change: RateChange) -> Result<Self, UsageError> {
        let new = Self {
            min_bytes_per_s: change.min_bytes_per_s.unwrap_or(self.min_bytes_per_s),
            max_bytes_per_s: change.max_bytes_per_s.unwrap_or(self.max_bytes_per_s),
        };
        let problem = if new.max_bytes_per_s == 0 {
            "a ceiling of 0 would let no background work end; 'heliostat scrub NAME pause' stops \
             it for a while"
                .to_owned()
        } else if new.min_bytes_per_s > new.max_bytes_per_s {
            let (min, max) = (new.min_bytes_per_s, new.max_bytes_per_s);
            let other = match (change.min_bytes_per_s, change.max_bytes_per_s) {
                (Some(_), None) => "; raise the ceiling as well",
                (None, Some(_)) => "; lower the floor as well",
                (Some(_), Some(_)) | (None, None) => "",
            };
            format!(
                "the floor {} is above the ceiling {}{other}",
                exact_rate(min),
                exact_rate(max)
            )
        } else {
            return Ok(new);
        };
        Err(UsageError(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::{RateChange, Rates};

    #[test]
    fn nothing_lies_between_a_floor_and_a_lower_ceiling() {
        let change = |min, max| {
            let changed = Rates::default().changed(RateChange {
                min_bytes_per_s: min,
                max_bytes_per_s: max,
            });
            changed.map_err(|error| error.to_string())
        };
        assert_eq!(change(None, None), Ok(Rates::default()));
        let slow = change(None, Some(1_000_000)).unwrap();
        assert_eq!(
            (slow.min_bytes_per_s, slow.max_bytes_per_s),
            (1_000_000, 1_000_000)
        );
        let error = change(Some(300_000_000), None).unwrap_err();
        assert!(
            error.contains("300MB/s") && error.contains("raise the ceiling"),
            "{error}"
        );
        assert!(
            change(None, Some(1))
                .unwrap_err()
                .contains("lower the floor")
        );
        assert!(change(Some(0), Some(0)).unwrap_err().contains("pause"));
        assert!(change(Some(300_000_000), Some(400_000_000)).is_ok());
    }
}
