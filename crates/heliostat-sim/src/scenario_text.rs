//! A scenario as the file that people would have written: what a failure is handed over as.
//!
//! Who reads such files is `heliostat-bench`; a test there holds both to each other.

use std::fmt::Write as _;

use heliostat_engine::{Layout, SchedulerPlace};
use heliostat_model::{CacheParams, DRIVES, ModelParams, drive};
use heliostat_scheduler::SchedulerSpec;
use stdx::units::{exact_rate, exact_size, exact_time};

use crate::leg_spec::{LegSpec, Part};
use crate::scenario::{ArraySpec, Scenario};
use crate::sim_policy::SimPolicy;

/// Keys with their values.
type Settings = Vec<(&'static str, String)>;

impl Scenario {
    /// The scenario file that says this, with `policy` as the one that it is run under. How much of
    /// the bytes is checked is no part of a scenario file, and who opens traces is not either.
    #[must_use]
    pub fn to_text(&self, policy: &SimPolicy) -> String {
        let mut text = String::new();
        let top = [
            ("name", self.name.clone()),
            ("seconds", exact_time(self.seconds.as_ns())),
            ("warmup_seconds", exact_time(self.warmup_seconds.as_ns())),
            ("seed", self.seed.to_string()),
        ];
        add_table(&mut text, "", top);
        if self.first_client > 0 {
            let first_client = ("first_client", self.first_client.to_string());
            add_table(&mut text, "", [first_client]);
        }
        self.array.add_text(&mut text, policy);
        for hba in &self.array.hbas {
            let bw = exact_rate(hba.bw_bytes_per_s);
            let keys = [("name", hba.name.clone()), ("bw", bw)];
            add_table(&mut text, "[[hba]]", keys);
        }
        for job in &self.jobs {
            add_table(&mut text, "[[job]]", job.settings());
        }
        for fault in &self.faults {
            add_table(&mut text, "[[fault]]", fault.settings());
        }
        text
    }
}

impl ArraySpec {
    fn add_text(&self, text: &mut String, policy: &SimPolicy) {
        let mut keys: Settings = Vec::new();
        if let Layout::Raid10(raid10) = self.layout {
            keys.push(("level", "raid10".to_owned()));
            keys.push(("layout", self.layout.to_string()));
            keys.push(("chunk", exact_size(raid10.chunk_bytes)));
        }
        if self.copies > 0 {
            keys.push(("copies", self.copies.to_string()));
        }
        if self.copies_chunk_bytes != Self::COPIES_CHUNK_DEFAULT_BYTES {
            keys.push(("copies_chunk", exact_size(self.copies_chunk_bytes)));
        }
        keys.push(("size", exact_size(self.size_bytes)));
        if let Some(metadata) = self.metadata {
            keys.push(("data_offset", exact_size(metadata.data_offset_bytes)));
            keys.push(("bitmap_chunk", exact_size(metadata.bitmap_chunk_bytes)));
        }
        if self.trims {
            keys.push(("trims", "true".to_owned()));
        }
        if let Some(spec) = self.background {
            keys.push(("background", spec.work.name().to_owned()));
            keys.push(("resync_min", exact_rate(spec.rate_min)));
            keys.push(("resync_max", exact_rate(spec.rate_max)));
        }
        keys.push(("memory", exact_size(self.memory_bytes as u64)));
        keys.push(("leg_timeout", exact_time(self.leg_timeout.as_ns())));
        if self.write_behind > 0 {
            keys.push(("write_behind", self.write_behind.to_string()));
        }
        if self.tags_2014 || self.scheduler != SchedulerSpec::None {
            keys.push(("scheduler", self.scheduler_text()));
        }
        if self.scheduler_on != SchedulerPlace::Legs {
            keys.push(("scheduler_on", self.scheduler_on.name().to_owned()));
        }
        add_table(text, "[array]", keys);
        let policy = format!("policies = [{}]\n", quoted(&policy.to_string()));
        text.push_str(&policy);
        text.push_str("legs = [\n");
        for leg in &self.legs {
            let settings = leg.settings();
            let keys = settings.iter().map(|(key, value)| line(key, value));
            let keys: Vec<String> = keys.collect();
            writeln!(text, "  {{ {} }},", keys.join(", ")).expect("text takes text");
        }
        text.push_str("]\n");
    }
}

impl LegSpec {
    /// The keys of a leg's table that make such a leg, and their values. A drive that has no name
    /// is said as one that has, with all that is different.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let family = self.params.family();
        let mut named = drive(&self.model).into_iter().chain(&DRIVES);
        let base = named.find(|drive| drive.params.family() == family);
        let base = base.expect("there is a drive of every family");
        let mut settings = vec![("model", base.name.to_owned())];
        for (key, is_so) in [
            ("write_mostly", self.write_mostly),
            ("read_preferred", self.read_preferred),
        ] {
            settings.extend(is_so.then(|| (key, "true".to_owned())));
        }
        let says = self.rotational.map(|says| ("rotational", says.to_string()));
        settings.extend(says);
        for (key, name) in [("device", &self.device), ("hba", &self.hba)] {
            settings.extend((!name.is_empty()).then(|| (key, name.clone())));
        }
        if self.part != Part::Leg {
            settings.push(("part", self.part.name().to_owned()));
        }
        let usual = CacheParams::default();
        if self.cache != usual {
            let permille = self.cache.hit_permille;
            let share = format!("{}.{:03}", permille / 1000, permille % 1000);
            settings.push(("cache_hits", share));
            settings.push(("cache_time", exact_time(self.cache.hit_time.as_ns())));
            settings.push(("cache_bypass", exact_size(self.cache.bypass_bytes)));
        }
        settings.extend(differences(&base.params, &self.params));
        settings
    }
}

/// The parameters that make `wanted` of `base`, which is of the same family.
fn differences(base: &ModelParams, wanted: &ModelParams) -> Settings {
    let mut made = *base;
    let mut settings = Settings::new();
    // Some parameters move others with them: these are set again behind them.
    for _ in 0..2 {
        for (field, wanted) in made.fields().into_iter().zip(wanted.fields()) {
            let is_memory = matches!(base, ModelParams::Ram(_));
            let is_elastic = is_memory && field.key == "size" && settings.is_empty();
            if field.value == wanted.value && !is_elastic {
                continue;
            }
            settings.retain(|(key, _)| *key != field.key);
            settings.push((field.key, wanted.value));
        }
        made = *base;
        for (key, value) in &settings {
            let set = made.set(key, value);
            set.expect("a model takes back the values that it shows");
        }
    }
    settings
}

/// Adds a section with an empty line before it.
fn add_table(
    text: &mut String,
    header: &str,
    keys: impl IntoIterator<Item = (&'static str, String)>,
) {
    if !header.is_empty() {
        text.push('\n');
        text.push_str(header);
        text.push('\n');
    }
    for (key, value) in keys {
        text.push_str(&line(key, &value));
        text.push('\n');
    }
}

/// `key = value`, in quotation marks where the value is no number and no truth value.
fn line(key: &str, value: &str) -> String {
    let is_integer = value.len() < 19 && value.bytes().all(|b| b.is_ascii_digit());
    let is_bare = is_integer && !value.is_empty() || value == "true";
    if is_bare && !["name", "trace", "device", "hba"].contains(&key) {
        format!("{key} = {value}")
    } else {
        format!("{key} = {}", quoted(value))
    }
}

/// As a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => {
                write!(quoted, "\\u{:04X}", u32::from(c)).expect("text takes text");
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
