//! The section `[published]`: what somebody measured where the scenario says what was simulated.

use toml::de::DeValue;

use super::source::{Entry, ScenarioFileError, Section};
use crate::published::{Published, PublishedResult, PublishedUnit, Which};

/// The keys of `[published]`.
const KEYS: [&str; 2] = ["unit", "results"];

/// Reads the section that `entry` holds.
pub(super) fn parse_published(
    top: &Section<'_>,
    entry: &Entry<'_>,
) -> Result<Published, ScenarioFileError> {
    let DeValue::Table(table) = entry.value else {
        return Err(top.error(entry, "published: write [published] above its keys"));
    };
    let section = Section::new(top.source, "published", entry.at, table);
    let mut unit = None;
    let mut results = Vec::new();
    for entry in &section.entries {
        match entry.key {
            "unit" => unit = Some(parse_unit(&section, entry)?),
            "results" => results = parse_results(&section, entry)?,
            key => return Err(section.error(entry, super::unknown_key(key, &KEYS, "[published]"))),
        }
    }
    let unit = unit.ok_or_else(|| section.error_of_all("there is no unit: IOPS or MiB/s"))?;
    if results.is_empty() {
        return Err(section.error_of_all("there are no results"));
    }
    Ok(Published { unit, results })
}

fn parse_unit(
    section: &Section<'_>,
    entry: &Entry<'_>,
) -> Result<PublishedUnit, ScenarioFileError> {
    let text = section.text(entry)?;
    let units = [PublishedUnit::Iops, PublishedUnit::MibPerSecond];
    let unit = units.into_iter().find(|unit| unit.name() == text);
    unit.ok_or_else(|| section.error(entry, format_args!("unit: '{text}' is not IOPS or MiB/s")))
}

fn parse_results(
    section: &Section<'_>,
    entry: &Entry<'_>,
) -> Result<Vec<PublishedResult>, ScenarioFileError> {
    let wrong = |at| {
        let text = r#"results: a list of { policy = "NAME", value = NUMBER }"#;
        section.error_at(at, text)
    };
    let DeValue::Array(items) = entry.value else {
        return Err(wrong(entry.at));
    };
    let mut results = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = item.span().start;
        let DeValue::Table(table) = item.get_ref() else {
            return Err(wrong(at));
        };
        let place = format!("published: result {index}");
        let section = Section::new(section.source, place, at, table);
        results.push(parse_result(&section)?);
    }
    Ok(results)
}

fn parse_result(section: &Section<'_>) -> Result<PublishedResult, ScenarioFileError> {
    let mut result = PublishedResult {
        policy: String::new(),
        value: -1.0,
        client: None,
    };
    for entry in &section.entries {
        let text = section.text(entry)?;
        match entry.key {
            "policy" => result.policy = text,
            "value" => {
                let value = text.parse().ok().filter(|value| *value >= 0.0);
                result.value = value
                    .ok_or_else(|| section.error(entry, "value: a number from 0 on is wanted"))?;
            }
            "client" => {
                result.client = Some(match text.as_str() {
                    "worst" => Which::Worst,
                    "best" => Which::Best,
                    _ => return Err(section.error(entry, "client: worst or best")),
                });
            }
            key => {
                let keys = ["policy", "value", "client"];
                return Err(section.error(entry, super::unknown_key(key, &keys, "a result")));
            }
        }
    }
    if result.policy.is_empty() || result.value < 0.0 {
        return Err(section.error_of_all("it needs a policy and a value"));
    }
    Ok(result)
}
