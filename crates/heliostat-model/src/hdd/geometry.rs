//! Where bytes lie on a hard disk: zones of tracks, laid out as one spiral from the outer edge to
//! the inner one.
//!
//! A place is measured in *spiral time*: how long the platter turns from the first byte of the disk
//! to there. Whole turns are tracks, the rest of it is the angle, and the difference of two places
//! is the time it takes to read what lies between them. All of it is whole nanoseconds, so that
//! what is read in one go never misses its sector by rounding.

/// One zone: tracks that hold equally many bytes.
#[derive(Clone, Copy, Debug)]
struct Zone {
    first_byte: u64,
    /// Spiral time of `first_byte`.
    first_ns: u64,
    track_bytes: u64,
}

/// The layout of one disk.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    /// Outermost first.
    zones: Vec<Zone>,
    turn_ns: u64,
    /// Spiral time of the end of the disk.
    total_ns: u64,
}

/// Drives have 16 to 30 zones; with 16 a step between two of them is 3 % of the outer rate.
const ZONE_COUNT: u64 = 16;

impl Geometry {
    /// Lays `size_bytes` out in zones of equally many tracks, with rates that fall evenly from
    /// `outer_bytes_per_s` to `inner_bytes_per_s`.
    pub(super) fn new(
        size_bytes: u64,
        turn_ns: u64,
        outer_bytes_per_s: u64,
        inner_bytes_per_s: u64,
    ) -> Self {
        assert!(
            outer_bytes_per_s >= inner_bytes_per_s && inner_bytes_per_s > 0,
            "outer tracks are the longer ones"
        );
        let step = (outer_bytes_per_s - inner_bytes_per_s) / (ZONE_COUNT - 1);
        let track_bytes = |zone| {
            let rate = outer_bytes_per_s - step * zone;
            scale(rate, turn_ns, 1_000_000_000).max(1)
        };
        let turn_of_each: u64 = (0..ZONE_COUNT).map(track_bytes).sum();
        let tracks_per_zone = size_bytes.div_ceil(turn_of_each);
        let mut zones = Vec::new();
        let mut first_byte = 0;
        for zone in 0..ZONE_COUNT {
            zones.push(Zone {
                first_byte,
                first_ns: zone * tracks_per_zone * turn_ns,
                track_bytes: track_bytes(zone),
            });
            first_byte += tracks_per_zone * track_bytes(zone);
        }
        let mut geometry = Self {
            zones,
            turn_ns,
            total_ns: 0,
        };
        geometry.total_ns = geometry.spiral_ns(size_bytes);
        geometry
    }

    /// Spiral time of a byte.
    pub(super) fn spiral_ns(&self, byte: u64) -> u64 {
        let after = self.zones.partition_point(|zone| zone.first_byte <= byte);
        let zone = &self.zones[after - 1];
        zone.first_ns + scale(byte - zone.first_byte, self.turn_ns, zone.track_bytes)
    }

    /// The first byte that is not wholly behind a place: what was read when the head is there.
    pub(super) fn byte_at(&self, spiral_ns: u64) -> u64 {
        let after = self
            .zones
            .partition_point(|zone| zone.first_ns <= spiral_ns);
        let zone = &self.zones[after - 1];
        zone.first_byte + scale(spiral_ns - zone.first_ns, zone.track_bytes, self.turn_ns)
    }

    /// One turn of the platter.
    pub(super) const fn turn_ns(&self) -> u64 {
        self.turn_ns
    }

    /// How far apart two places are, as a share of the way from edge to edge.
    pub(super) fn distance(&self, from_ns: u64, to_ns: u64) -> f64 {
        from_ns.abs_diff(to_ns) as f64 / self.total_ns as f64
    }
}

/// `value * numerator / denominator`, rounded down.
fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    if let Some(product) = value.checked_mul(numerator) {
        return product / denominator;
    }
    let wide = u128::from(value) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(wide).expect("places on a disk are below 584 years of turning")
}

#[cfg(test)]
mod tests {
    use super::Geometry;

    const TURN_NS: u64 = 8_333_333;

    fn disk() -> Geometry {
        Geometry::new(1_000_000_000_000, TURN_NS, 200_000_000, 100_000_000)
    }

    #[test]
    fn rates_fall_from_the_outer_to_the_inner_edge() {
        let disk = disk();
        let rate = |byte: u64| {
            let ns = disk.spiral_ns(byte + 10_000_000) - disk.spiral_ns(byte);
            10_000_000.0 / ns as f64 * 1e9
        };
        assert!((rate(0) / 200e6 - 1.0).abs() < 1e-3, "{}", rate(0));
        let inner = rate(999_980_000_000);
        assert!((inner / 100e6 - 1.0).abs() < 0.01, "{inner}");
        // Two thirds of the bytes lie before the middle of the way at these rates: 0.58 do.
        let half = disk.distance(0, disk.spiral_ns(583_000_000_000));
        assert!((0.48..0.52).contains(&half), "{half}");
    }

    #[test]
    fn places_and_bytes_agree() {
        let disk = disk();
        for byte in [0, 4096, 123_456_789_504, 999_999_995_904] {
            let place = disk.spiral_ns(byte);
            let back = disk.byte_at(place);
            assert!(back <= byte && byte - back <= 1, "{byte}: {back}");
        }
        assert_eq!(disk.byte_at(TURN_NS), 1_666_666);
    }
}
