//! A fault back as the keys that make it: what scenario files are written from.

use heliostat_model::FailedKind;
use stdx::units::{exact_size, exact_time};

use super::{Effect, Fault, flags_text};

impl Fault {
    /// The keys that [`Fault::set`] makes such a fault of, and their values.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = Vec::new();
        if let Some(leg) = self.leg {
            settings.push(("leg", leg.to_string()));
        }
        settings.push(("at", moment(self.at_ns)));
        if self.until_ns != Self::NEVER_NS {
            settings.push(("until", moment(self.until_ns)));
        }
        if let Some(effect) = self.effect {
            settings.push((effect.key(), value_of(effect)));
        }
        for (key, time) in [("every", self.every), ("jitter", self.jitter)] {
            settings.extend(time.map(|time| (key, exact_time(time.as_ns()))));
        }
        for (key, is_so) in [("burst", self.burst), ("sticky", self.sticky)] {
            settings.extend(is_so.then(|| (key, "true".to_owned())));
        }
        settings.extend(self.count.map(|count| ("count", count.to_string())));
        let rate = self.rate_per_billion;
        settings.extend(rate.map(|rate| ("rate", decimal(rate, 9))));
        for (key, bytes) in [("offset", self.offset_bytes), ("size", self.size_bytes)] {
            settings.extend(bytes.map(|bytes| (key, exact_size(bytes))));
        }
        settings
    }
}

fn value_of(effect: Effect) -> String {
    match effect {
        Effect::Slow(permille) => decimal(permille, 3),
        Effect::Pause(length) => exact_time(length.as_ns()),
        Effect::Error(FailedKind::Read) => "read".to_owned(),
        Effect::Error(FailedKind::Write) => "write".to_owned(),
        Effect::TornWrite(unit_bytes) => exact_size(unit_bytes),
        Effect::Stuck
        | Effect::Dead
        | Effect::LostWrite
        | Effect::MisdirectedWrite
        | Effect::BitRot
        | Effect::FlushLies
        | Effect::PowerCut
        | Effect::Failed
        | Effect::Replaced => "true".to_owned(),
        Effect::Added { is_new: false } => "bits".to_owned(),
        Effect::Added { is_new: true } => "whole".to_owned(),
        Effect::Told(flags) => flags_text(flags).to_owned(),
        Effect::Scrub { repair: false } => "check".to_owned(),
        Effect::Scrub { repair: true } => "repair".to_owned(),
    }
}

fn moment(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", exact_time(ns.unsigned_abs()))
}

/// `number` over ten to the power of `digits`, exactly: 1500 with 3 digits is `1.500`.
fn decimal(number: u64, digits: u32) -> String {
    let unit = 10u64.pow(digits);
    let width = digits as usize;
    format!("{}.{:0width$}", number / unit, number % unit)
}

#[cfg(test)]
mod tests {
    use super::Fault;

    #[test]
    fn settings_make_the_same_fault() {
        let faults: [&[(&str, &str)]; 15] = [
            &[("leg", "1"), ("slow", "10.0")],
            &[
                ("leg", "0"),
                ("slow", "0.001"),
                ("at", "-1.5s"),
                ("until", "20ms"),
            ],
            &[
                ("leg", "2"),
                ("pause", "3ms"),
                ("every", "7ms"),
                ("jitter", "13ns"),
            ],
            &[
                ("leg", "0"),
                ("stuck", "true"),
                ("burst", "true"),
                ("until", "1s"),
            ],
            &[
                ("leg", "0"),
                ("error", "read"),
                ("sticky", "1"),
                ("rate", "0.000000001"),
            ],
            &[
                ("leg", "0"),
                ("error", "write"),
                ("rate", "0.123456789"),
                ("count", "7"),
            ],
            &[
                ("leg", "0"),
                ("torn_write", "4KiB"),
                ("offset", "512"),
                ("size", "1536"),
            ],
            &[("leg", "3"), ("bit_rot", "true"), ("rate", "1")],
            &[("power_cut", "true"), ("at", "1s")],
            &[("leg", "1"), ("failed", "true"), ("at", "1s")],
            &[("leg", "1"), ("added", "bits"), ("until", "1s")],
            &[("leg", "1"), ("added", "whole")],
            &[("leg", "1"), ("replaced", "true")],
            &[("leg", "1"), ("told", "write_mostly, failfast")],
            &[("scrub", "repair"), ("at", "2s")],
        ];
        for keys in faults {
            let (mut fault, mut again) = (Fault::default(), Fault::default());
            for (key, value) in keys {
                fault.set(key, value).unwrap();
            }
            for (key, value) in fault.settings() {
                again.set(key, &value).unwrap();
            }
            assert_eq!(again, fault);
        }
    }
}
