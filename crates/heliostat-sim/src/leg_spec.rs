//! What the legs of a scenario are: drives of their own, partitions of one drive, behind host
//! adapters of their own or behind one.

use heliostat_model::{CacheParams, Drive, ModelParams};
use heliostat_types::Duration;
use stdx::settings::{SettingError, parse_bool};
use stdx::units::{parse_rate, parse_size, parse_time_ns};

/// A leg of the array.
#[derive(Clone, Debug)]
pub struct LegSpec {
    /// The name of its drive, for reports.
    pub model: String,
    /// What it is made of.
    pub params: ModelParams,
    /// Read only if nothing else is left.
    pub write_mostly: bool,
    /// Preferred by the `device` policy.
    pub read_preferred: bool,
    /// What it says of itself, where that is not what its model is: whether it turns.
    pub rotational: Option<bool>,
    /// Legs with the same name here are partitions of one drive, one behind the other in role
    /// order; the first of them says which drive. Empty: a drive of its own.
    pub device: String,
    /// The host adapter that it shares with the other legs that name it; empty: one of its own that
    /// limits nothing.
    pub hba: String,
    /// The read cache below it; none where nothing is ever hit.
    pub cache: CacheParams,
    /// What it is to the array at the start.
    pub part: Part,
}

/// What a leg is to its array at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// One of its legs.
    #[default]
    Leg,
    /// A spare, which takes the place of a leg that is out.
    Spare,
    /// Nothing: somebody may make it a leg.
    Nothing,
}

impl Part {
    /// The words for them in a scenario.
    const NAMES: [(&'static str, Self); 3] = [
        ("leg", Self::Leg),
        ("spare", Self::Spare),
        ("none", Self::Nothing),
    ];

    /// The word for it.
    pub(crate) fn name(self) -> &'static str {
        let mut names = Self::NAMES.iter();
        let name = names.find(|(_, part)| *part == self);
        name.expect("each has a name").0
    }
}

/// The keys that [`LegSpec::set`] knows besides those of the model.
const LEG_KEYS: [&str; 9] = [
    "write_mostly",
    "read_preferred",
    "rotational",
    "device",
    "hba",
    "cache_hits",
    "cache_time",
    "cache_bypass",
    "part",
];

impl LegSpec {
    /// A leg on a drive.
    #[must_use]
    pub fn on(drive: &Drive) -> Self {
        Self {
            model: drive.name.to_owned(),
            params: drive.params,
            write_mostly: false,
            read_preferred: false,
            rotational: None,
            device: String::new(),
            hba: String::new(),
            cache: CacheParams::default(),
            part: Part::Leg,
        }
    }

    /// Sets what the key `key` of a leg's table in a scenario says; what is no key of a leg is one
    /// of its model's. Numbers and truth values come as text.
    ///
    /// # Errors
    /// Where there is no such key or the value makes no sense.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        match key {
            "write_mostly" => self.write_mostly = parse_bool(key, value)?,
            "read_preferred" => self.read_preferred = parse_bool(key, value)?,
            "rotational" => self.rotational = Some(parse_bool(key, value)?),
            "device" => self.device = parse_name(key, value)?,
            "hba" => self.hba = parse_name(key, value)?,
            "cache_hits" => self.cache.hit_permille = parse_permille(key, value)?,
            "cache_time" => {
                let ns = parse_time_ns(value).map_err(|error| SettingError::value(key, error))?;
                self.cache.hit_time = Duration::from_ns(ns);
            }
            "cache_bypass" => {
                let size = parse_size(value).map_err(|error| SettingError::value(key, error))?;
                self.cache.bypass_bytes = size;
            }
            "part" => {
                let mut names = Part::NAMES.iter();
                let (_, part) = names.find(|(name, _)| *name == value).ok_or_else(|| {
                    let text = format_args!("'{value}' is none of leg, spare, none");
                    SettingError::value(key, text)
                })?;
                self.part = *part;
            }
            _ => {
                return match self.params.set(key, value) {
                    Err(SettingError::UnknownKey { closest: None, .. }) => {
                        Err(SettingError::unknown(key, LEG_KEYS))
                    }
                    result => result,
                };
            }
        }
        Ok(())
    }
}

/// A host adapter, or any other link, that several legs share: their bytes pass it one after the
/// other, those of reads after the device, those of writes before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HbaSpec {
    /// What legs call it.
    pub name: String,
    /// Bytes per second that pass it, both ways together.
    pub bw_bytes_per_s: u64,
}

impl HbaSpec {
    /// Sets what the key `key` of its table in a scenario says: `name` or `bw`.
    ///
    /// # Errors
    /// Where there is no such key or the value makes no sense.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        match key {
            "name" => self.name = parse_name(key, value)?,
            "bw" => {
                let rate = parse_rate(value).map_err(|error| SettingError::value(key, error))?;
                if rate == 0 {
                    return Err(SettingError::value(key, "nothing would ever pass it"));
                }
                self.bw_bytes_per_s = rate;
            }
            _ => return Err(SettingError::unknown(key, ["name", "bw"])),
        }
        Ok(())
    }
}

/// Thousandths of a share from 0 to 1.
fn parse_permille(key: &str, value: &str) -> Result<u32, SettingError> {
    let share = value
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    let share: f64 = share.ok_or_else(|| {
        SettingError::value(key, format_args!("'{value}' is not a share from 0 to 1"))
    })?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to 1000 after the check above"
    )]
    Ok((share * 1000.0 + 0.5) as u32)
}

fn parse_name(key: &str, value: &str) -> Result<String, SettingError> {
    if value.is_empty() {
        return Err(SettingError::value(key, "an empty name; leave the key out"));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use heliostat_model::drive;
    use heliostat_types::Duration;

    use super::{HbaSpec, LegSpec, Part};

    #[test]
    fn keys_of_a_leg_and_of_its_model_are_set() {
        let mut leg = LegSpec::on(drive("ram").unwrap());
        for (key, value) in [
            ("write_mostly", "true"),
            ("read_preferred", "1"),
            ("rotational", "true"),
            ("device", "sda"),
            ("hba", "hba0"),
            ("size", "2GiB"),
            ("cache_hits", "0.9"),
            ("cache_time", "80us"),
            ("cache_bypass", "1m"),
            ("part", "spare"),
        ] {
            leg.set(key, value).unwrap();
        }
        assert!(leg.write_mostly && leg.read_preferred);
        assert_eq!(leg.rotational, Some(true));
        assert_eq!((leg.device.as_str(), leg.hba.as_str()), ("sda", "hba0"));
        assert_eq!(leg.params.size_bytes(), 2 << 30);
        assert_eq!(leg.cache.hit_permille, 900);
        assert_eq!(leg.cache.hit_time, Duration::from_us(80));
        assert_eq!(leg.cache.bypass_bytes, 1 << 20);
        assert_eq!(leg.part, Part::Spare);
        let told = |key, value| leg.clone().set(key, value).unwrap_err().to_string();
        assert_eq!(
            told("write_mosty", "true"),
            "there is no key 'write_mosty'; did you mean 'write_mostly'?"
        );
        assert_eq!(
            told("cache_hits", "90"),
            "cache_hits: '90' is not a share from 0 to 1"
        );
        assert_eq!(
            told("device", ""),
            "device: an empty name; leave the key out"
        );
    }

    #[test]
    fn a_host_adapter_has_a_name_and_a_rate() {
        let mut hba = HbaSpec::default();
        hba.set("name", "hba0").unwrap();
        hba.set("bw", "600MB/s").unwrap();
        assert_eq!(
            (hba.name.as_str(), hba.bw_bytes_per_s),
            ("hba0", 600_000_000)
        );
        let told = |key, value| HbaSpec::default().set(key, value).unwrap_err().to_string();
        assert_eq!(told("bw", "0MB/s"), "bw: nothing would ever pass it");
        assert_eq!(told("bandwidth", "1MB/s"), "there is no key 'bandwidth'");
    }
}
