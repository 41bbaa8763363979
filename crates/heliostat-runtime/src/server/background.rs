//! What is done in the background of an array while it is served: how fast.

use heliostat_engine::Input;
use stdx::units::exact_rate;

use super::Server;
use crate::rates::{RateChange, Rates};

impl Server {
    /// Between which bounds background work goes.
    pub(super) const fn rates(&self) -> Rates {
        let (min_bytes_per_s, max_bytes_per_s) = self.core.engine().background_rates();
        Rates {
            min_bytes_per_s,
            max_bytes_per_s,
        }
    }

    /// Other bounds from now on, whatever is under way.
    pub(super) fn set_rates(&mut self, rates: Rates) {
        self.core.input(Input::SetBackgroundRates {
            min_bytes_per_s: rates.min_bytes_per_s,
            max_bytes_per_s: rates.max_bytes_per_s,
        });
    }

    /// Changes the bounds, where that is asked for, and says which ones there are now.
    pub(super) fn change_rates(&mut self, change: RateChange) -> Result<Rates, String> {
        let before = self.rates();
        let rates = before.changed(change).map_err(|error| error.to_string())?;
        if rates != before {
            self.set_rates(rates);
            self.core.log.line(format!(
                "background work goes at {} to {} from now on",
                exact_rate(rates.min_bytes_per_s),
                exact_rate(rates.max_bytes_per_s)
            ));
        }
        Ok(rates)
    }
}
