//! The section `[array]`: what serves.

use heliostat_engine::{Config, Layout, Map, Raid10};
use heliostat_sim::{ArraySpec, BackgroundSpec, BackgroundWork, MetadataSpec};
use heliostat_types::Duration;
use stdx::settings::parse_count;
use stdx::units::{exact_size, parse_rate, parse_size, parse_time_ns};
use toml::de::DeValue;

use super::legs::{Leg, parse_hbas, parse_legs};
use super::source::{Entry, ScenarioFileError, Section, scalar_text};
use super::unknown_key;
use crate::contender::Contender;

/// The keys of `[array]`.
pub(super) const KEYS: [&str; 19] = [
    "level",
    "layout",
    "chunk",
    "size",
    "legs",
    "copies",
    "copies_chunk",
    "policies",
    "scheduler",
    "scheduler_on",
    "memory",
    "leg_timeout",
    "write_behind",
    "data_offset",
    "bitmap_chunk",
    "trims",
    "background",
    "resync_min",
    "resync_max",
];

/// The section `[array]`.
#[derive(Debug)]
pub(super) struct Array {
    /// Where it begins.
    pub(super) at: usize,
    pub(super) spec: ArraySpec,
    /// What `size` says, which the array has in whole blocks of 4 KiB.
    pub(super) said_bytes: u64,
    pub(super) policies: Vec<Contender>,
}

impl Array {
    pub(super) fn parse(top: &Section<'_>) -> Result<Self, ScenarioFileError> {
        let Some(entry) = top.entry("array") else {
            let text = "there is no [array]: it says which legs there are";
            return Err(top.source.error_of_all(text));
        };
        let DeValue::Table(table) = entry.value else {
            return Err(top.error(entry, "array: write [array] above its keys"));
        };
        let section = Section::new(top.source, "array", entry.at, table);
        let mut spec = ArraySpec::new(0, Vec::new());
        spec.layout = parse_layout(&section)?;
        spec.hbas = parse_hbas(top)?;
        spec.metadata = parse_metadata(&section)?;
        spec.background = parse_background(&section)?;
        let mut policies = Vec::new();
        let mut legs = Vec::new();
        for entry in &section.entries {
            match entry.key {
                "legs" => legs = parse_legs(top, &section, entry)?,
                "policies" => policies = parse_policies(&section, entry)?,
                "level" | "layout" | "chunk" | "data_offset" | "bitmap_chunk" | "background"
                | "resync_min" | "resync_max" => {}
                _ => set(&mut spec, &section, entry)?,
            }
        }
        if legs.is_empty() {
            let text = r#"there are no legs: name drives, as in legs = ["ram", "ram"]"#;
            return Err(section.error_of_all(text));
        }
        let said_bytes = spec.size_bytes;
        spec.size_bytes -= said_bytes % BLOCK_BYTES;
        size_up(&mut spec, legs, &section)?;
        for policy in &policies {
            policy.check(spec.legs.len()).map_err(|error| {
                let at = section.entry("policies").map_or(section.at, |it| it.at);
                section.error_at(at, format_args!("policies: {error}"))
            })?;
        }
        if policies.is_empty() {
            policies.push(Contender::default_policy());
        }
        Ok(Self {
            at: section.at,
            spec,
            said_bytes,
            policies,
        })
    }
}

/// What `level`, `layout` and `chunk` say together. A RAID1 has neither of the latter: they are
/// checked and of no effect, so that `level` is all that changes from one array to the other.
fn parse_layout(section: &Section<'_>) -> Result<Layout, ScenarioFileError> {
    let text = |key| match section.entry(key) {
        Some(entry) => Ok(Some((entry, section.text(entry)?))),
        None => Ok(None),
    };
    let mirror = match text("level")? {
        None => true,
        Some((_, level)) if level == "raid1" => true,
        Some((_, level)) if level == "raid10" => false,
        Some((entry, level)) => {
            let text = format_args!("level: '{level}' is neither raid1 nor raid10");
            return Err(section.error(entry, text));
        }
    };
    let layout = match text("layout")? {
        Some((entry, text)) => Layout::parse(&text).map_err(|error| section.error(entry, error))?,
        None => Layout::parse("near=2").expect("this is a layout"),
    };
    let layout = chunked(section, layout, text("chunk")?)?;
    Ok(if mirror { Layout::Mirror } else { layout })
}

/// What `data_offset` and `bitmap_chunk` say together: without the first the legs are raw.
fn parse_metadata(section: &Section<'_>) -> Result<Option<MetadataSpec>, ScenarioFileError> {
    let size = |key| -> Result<Option<u64>, ScenarioFileError> {
        let Some(entry) = section.entry(key) else {
            return Ok(None);
        };
        let size = parse_size(&section.text(entry)?);
        let size = size.map_err(|error| section.error(entry, format_args!("{key}: {error}")));
        Ok(Some(size?))
    };
    let bitmap_chunk_bytes = size("bitmap_chunk")?;
    let Some(data_offset_bytes) = size("data_offset")? else {
        return match section.entry("bitmap_chunk") {
            Some(entry) => {
                let text = "bitmap_chunk: raw legs have no bitmap; data_offset makes room for one";
                Err(section.error(entry, text))
            }
            None => Ok(None),
        };
    };
    Ok(Some(MetadataSpec {
        data_offset_bytes,
        bitmap_chunk_bytes: bitmap_chunk_bytes.unwrap_or(MetadataSpec::BITMAP_CHUNK_DEFAULT_BYTES),
    }))
}

/// What `background`, `resync_min` and `resync_max` say together.
fn parse_background(section: &Section<'_>) -> Result<Option<BackgroundSpec>, ScenarioFileError> {
    let rate = |key| -> Result<Option<u64>, ScenarioFileError> {
        let Some(entry) = section.entry(key) else {
            return Ok(None);
        };
        let rate = parse_rate(&section.text(entry)?);
        let rate = rate.map_err(|error| section.error(entry, format_args!("{key}: {error}")));
        Ok(Some(rate?))
    };
    let (rate_min, rate_max) = (rate("resync_min")?, rate("resync_max")?);
    let Some(entry) = section.entry("background") else {
        let entries = ["resync_min", "resync_max"].map(|key| section.entry(key));
        return match entries.into_iter().flatten().next() {
            Some(entry) => {
                let text = format_args!("{}: there is no background work to be so fast", entry.key);
                Err(section.error(entry, text))
            }
            None => Ok(None),
        };
    };
    let name = section.text(entry)?;
    let work = BackgroundWork::ALL.iter().find(|work| work.name() == name);
    let Some(&work) = work else {
        let text = format_args!("background: '{name}' is neither resync nor check");
        return Err(section.error(entry, text));
    };
    if section.entry("data_offset").is_some() {
        let text = "background: of legs without data_offset only";
        return Err(section.error(entry, text));
    }
    let mut spec = BackgroundSpec::new(work);
    spec.rate_min = rate_min.unwrap_or(spec.rate_min);
    let at_least = spec.rate_max.max(spec.rate_min);
    spec.rate_max = rate_max.unwrap_or(at_least);
    if spec.rate_max < spec.rate_min {
        let text = "resync_max is less than resync_min";
        return Err(section.error(entry, text));
    }
    Ok(Some(spec))
}

/// `layout` with chunks of the size that `chunk` says.
fn chunked(
    section: &Section<'_>,
    layout: Layout,
    chunk: Option<(&Entry<'_>, String)>,
) -> Result<Layout, ScenarioFileError> {
    let (Layout::Raid10(raid10), Some((entry, text))) = (layout, chunk) else {
        return Ok(layout);
    };
    let wrong = |text: String| section.error(entry, format_args!("chunk: {text}"));
    let bytes = parse_size(&text).map_err(|error| wrong(error.to_string()))?;
    let raid10: Result<Raid10, _> = raid10.with_chunk_bytes(bytes);
    raid10
        .map(Layout::Raid10)
        .map_err(|error| wrong(error.to_string()))
}

/// Does what a key of one value says.
fn set(
    array: &mut ArraySpec,
    section: &Section<'_>,
    entry: &Entry<'_>,
) -> Result<(), ScenarioFileError> {
    let key = entry.key;
    if !KEYS.contains(&key) {
        return Err(section.error(entry, unknown_key(key, &KEYS, "[array]")));
    }
    let text = section.text(entry)?;
    let wrong = |text: String| section.error(entry, format_args!("{key}: {text}"));
    let size = || parse_size(&text).map_err(|error| wrong(error.to_string()));
    match key {
        "size" => {
            array.size_bytes = size()?;
            if array.size_bytes > SIZE_MAX_BYTES {
                return Err(wrong(format!("'{text}' is more than 4096TiB")));
            }
            if (1..BLOCK_BYTES).contains(&array.size_bytes) {
                return Err(wrong(format!("'{text}' is less than 4KiB")));
            }
        }
        "copies" => {
            let copies = parse_count(key, &text, 0, u64::from(u32::MAX));
            let copies = copies.map_err(|error| section.error(entry, error))?;
            array.copies = u32::try_from(copies).expect("within the bounds just checked");
        }
        "copies_chunk" => {
            array.copies_chunk_bytes = size()?;
            let bytes = array.copies_chunk_bytes;
            if !bytes.is_power_of_two() || !(4096..=1 << 40).contains(&bytes) {
                let text = format!("'{text}' is no power of two from 4KiB to 1TiB");
                return Err(wrong(text));
            }
        }
        "memory" => {
            let bytes = size()?;
            let in_usize = usize::try_from(bytes).ok();
            let fits =
                |bytes: &usize| (Config::MEMORY_MIN_BYTES..=MEMORY_MAX_BYTES).contains(bytes);
            let Some(bytes) = in_usize.filter(fits) else {
                let least = exact_size(Config::MEMORY_MIN_BYTES as u64);
                return Err(wrong(format!("'{text}' is not from {least} to 4GiB")));
            };
            array.memory_bytes = bytes;
        }
        "leg_timeout" => {
            let ns = parse_time_ns(&text).map_err(|error| wrong(error.to_string()))?;
            if ns == 0 {
                return Err(wrong("no leg answers in no time".to_owned()));
            }
            array.leg_timeout = Duration::from_ns(ns);
        }
        "trims" => {
            let trims = stdx::settings::parse_bool(key, &text);
            array.trims = trims.map_err(|error| section.error(entry, error))?;
        }
        "write_behind" => {
            let writes = parse_count(key, &text, 0, u64::from(ArraySpec::WRITE_BEHIND_MAX));
            let writes = writes.map_err(|error| section.error(entry, error))?;
            array.write_behind = u32::try_from(writes).expect("within the bounds just checked");
        }
        "scheduler" => array
            .set_scheduler(&text)
            .map_err(|error| wrong(error.to_string()))?,
        "scheduler_on" => array.scheduler_on = text.parse().map_err(wrong)?,
        _ => {}
    }
    Ok(())
}

/// What arrays are whole blocks of: the largest sector of a drive.
const BLOCK_BYTES: u64 = 4096;

/// What 16 of the largest drives hold.
const SIZE_MAX_BYTES: u64 = 4 << 50;

/// The most memory of an array, as each run has its own; the least is the engine's.
const MEMORY_MAX_BYTES: usize = 4 << 30;

/// Gives the array its size, and memory that has none what the array takes of it.
fn size_up(
    array: &mut ArraySpec,
    legs: Vec<Leg>,
    section: &Section<'_>,
) -> Result<(), ScenarioFileError> {
    let wrong = |error| section.error_of_all(error);
    let layout = array.layout;
    let elastic = |is_elastic: bool| {
        let sizes = legs.iter().filter(move |leg| leg.is_elastic == is_elastic);
        sizes.map(|leg| leg.spec.params.size_bytes()).min()
    };
    let data_offset_bytes = array.metadata.map_or(0, |spec| spec.data_offset_bytes);
    if array.size_bytes == 0 {
        let leg_bytes = elastic(false).or_else(|| elastic(true)).unwrap_or_default();
        let leg_bytes = leg_bytes.saturating_sub(data_offset_bytes);
        let map = Map::new(layout, legs.len(), leg_bytes).map_err(wrong)?;
        // Whole MiB, as `create` rounds.
        array.size_bytes = map.size_bytes() & !((1 << 20) - 1);
    }
    let mut map = Map::mirror(1, array.size_bytes);
    if array.copies == 0 {
        map = Map::for_size(layout, legs.len(), array.size_bytes).map_err(wrong)?;
    }
    let needed = data_offset_bytes + map.leg_bytes(heliostat_types::LegId::new(0));
    for mut leg in legs {
        if leg.is_elastic && needed > leg.spec.params.size_bytes() {
            leg.spec.params = leg.spec.params.with_size(needed);
            let checked = leg.spec.params.check();
            checked.map_err(|error| section.error_of_all(error))?;
        }
        array.legs.push(leg.spec);
    }
    Ok(())
}

/// A list of policies, or one string as the command line takes it.
fn parse_policies(
    section: &Section<'_>,
    entry: &Entry<'_>,
) -> Result<Vec<Contender>, ScenarioFileError> {
    let list = |at, text: &str| {
        let contenders = Contender::parse_list(text);
        contenders.map_err(|error| section.error_at(at, format_args!("policies: {error}")))
    };
    let mut policies = Vec::new();
    if let DeValue::String(text) = entry.value {
        return list(entry.value_at.start, text);
    }
    let DeValue::Array(items) = entry.value else {
        let text = r#"policies: a list is wanted, as in policies = ["pid", "queue"]"#;
        return Err(section.error(entry, text));
    };
    for item in items {
        let at = item.span().start;
        let text = scalar_text(item.get_ref());
        let text = text.map_err(|text| section.error_at(at, format_args!("policies: {text}")))?;
        policies.extend(list(at, &text)?);
    }
    Ok(policies)
}
