//! How long a hard disk's arm takes from one track to another.

use heliostat_types::Duration;

/// Seek time over distance: `a + b sqrt(x) + c x` with x the share of the way from edge to edge.
/// The square root is the accelerating arm, the linear part the coasting one.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeekCurve {
    a_s: f64,
    b_s: f64,
    c_s: f64,
}

impl SeekCurve {
    /// The curve through the three seek times that data sheets give. Over all pairs of tracks the
    /// mean of sqrt(x) is 8/15 and the mean of x is 1/3. `None` where a longer seek would take less
    /// time.
    pub(super) fn new(track_to_track: Duration, mean: Duration, full: Duration) -> Option<Self> {
        let a_s = track_to_track.as_secs_f64();
        let mean = mean.as_secs_f64() - a_s;
        let full = full.as_secs_f64() - a_s;
        let b_s = (mean - full / 3.0) / (8.0 / 15.0 - 1.0 / 3.0);
        let c_s = full - b_s;
        let rises = a_s > 0.0 && b_s >= 0.0 && b_s / 2.0 + c_s >= 0.0;
        rises.then_some(Self { a_s, b_s, c_s })
    }

    /// How long a seek over a share of the way takes.
    pub(super) fn time(&self, distance: f64) -> Duration {
        Duration::from_secs_f64(self.a_s + self.b_s * distance.sqrt() + self.c_s * distance)
    }
}
