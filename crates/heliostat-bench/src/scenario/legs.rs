//! The legs of `[array]`, and the sections `[[model]]` and `[[hba]]` that they name.

use std::collections::BTreeMap;

use heliostat_model::{DRIVES, FAMILIES, ModelParams, drive};
use heliostat_sim::{HbaSpec, LegSpec};
use stdx::suggest::closest;
use toml::de::DeValue;

use super::source::{Entry, ScenarioFileError, Section, scalar_text};
use super::{named, setting_text};

/// A leg, and whether it is as large as it has to be.
pub(super) struct Leg {
    pub(super) spec: LegSpec,
    /// Memory that nobody gave a size.
    pub(super) is_elastic: bool,
}

/// The models that a file adds, by name.
type Models = BTreeMap<String, ModelParams>;

fn parse_models(top: &Section<'_>) -> Result<Models, ScenarioFileError> {
    let mut models = Models::new();
    for (index, (at, table)) in top.tables("model")?.into_iter().enumerate() {
        let place = named(table).unwrap_or_else(|| index.to_string());
        let section = Section::new(top.source, format!("model '{place}'"), at, table);
        let Some(name) = named(table) else {
            return Err(section.error_of_all("there is no name to call it by"));
        };
        let mut params = origin(&section, &models)?;
        for entry in &section.entries {
            if ["name", "like", "family"].contains(&entry.key) {
                continue;
            }
            let text = section.text(entry)?;
            params
                .set(entry.key, &text)
                .map_err(|error| section.error(entry, setting_text(&error, "a model")))?;
        }
        params
            .check()
            .map_err(|error| section.error_of_all(error))?;
        if models.insert(name, params).is_some() {
            return Err(section.error_of_all("another model has this name"));
        }
    }
    Ok(models)
}

/// What a model is made from: a drive that there is, or a family.
fn origin(section: &Section<'_>, models: &Models) -> Result<ModelParams, ScenarioFileError> {
    match (section.entry("like"), section.entry("family")) {
        (Some(like), None) => {
            let params = find_params(&section.text(like)?, models);
            params.map_err(|text| section.error(like, text))
        }
        (None, Some(family)) => {
            let name = section.text(family)?;
            ModelParams::of_family(&name).ok_or_else(|| {
                let families = FAMILIES.join(", ");
                section.error(
                    family,
                    format_args!("family: '{name}' is none of {families}"),
                )
            })
        }
        _ => {
            let text = "say either which drive it is like, or of which family it is";
            Err(section.error_of_all(text))
        }
    }
}

/// The parameters of the drive or model called `name`.
fn find_params(name: &str, models: &Models) -> Result<ModelParams, String> {
    if let Some(params) = models.get(name) {
        return Ok(*params);
    }
    if let Some(drive) = drive(name) {
        return Ok(drive.params);
    }
    let drives = || DRIVES.iter().map(|drive| drive.name);
    let names = || drives().chain(models.keys().map(String::as_str));
    let all = names().collect::<Vec<_>>().join(", ");
    Err(match closest(name, names()) {
        Some(closest) => format!("there is no drive '{name}'; did you mean '{closest}'?"),
        None => format!("there is no drive '{name}': there are {all}"),
    })
}

/// The legs that the entry `legs` of `[array]` names; `top` has the models that it adds.
pub(super) fn parse_legs(
    top: &Section<'_>,
    section: &Section<'_>,
    entry: &Entry<'_>,
) -> Result<Vec<Leg>, ScenarioFileError> {
    let models = &parse_models(top)?;
    let DeValue::Array(items) = entry.value else {
        let text = r#"legs: a list is wanted, as in legs = ["ram", "ram"]"#;
        return Err(section.error(entry, text));
    };
    let mut legs = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = item.span().start;
        let leg = if let DeValue::Table(table) = item.get_ref() {
            let place = format!("array: leg {index}");
            parse_leg_table(&Section::new(section.source, place, at, table), models)?
        } else {
            let params = scalar_text(item.get_ref()).and_then(|name| {
                let params = find_params(&name, models)?;
                Ok((name, params))
            });
            let wrong = |text| section.error_at(at, format_args!("leg {index}: {text}"));
            let (name, params) = params.map_err(wrong)?;
            leg_on(name, params)
        };
        legs.push(leg);
    }
    Ok(legs)
}

fn leg_on(model: String, params: ModelParams) -> Leg {
    Leg {
        is_elastic: matches!(params, ModelParams::Ram(_)),
        spec: LegSpec {
            model,
            params,
            ..LegSpec::on(&DRIVES[0])
        },
    }
}

/// A leg as a table: a model with overrides.
fn parse_leg_table(section: &Section<'_>, models: &Models) -> Result<Leg, ScenarioFileError> {
    let Some(model) = section.entry("model") else {
        let text = r#"there is no model, as in { model = "ram", write_mostly = true }"#;
        return Err(section.error_of_all(text));
    };
    let name = section.text(model)?;
    let params = find_params(&name, models);
    let mut leg = leg_on(name, params.map_err(|text| section.error(model, text))?);
    for entry in section.entries.iter().filter(|entry| entry.key != "model") {
        let text = section.text(entry)?;
        leg.spec
            .set(entry.key, &text)
            .map_err(|error| section.error(entry, setting_text(&error, "a leg")))?;
        leg.is_elastic &= entry.key != "size";
    }
    let checked = leg.spec.params.check();
    checked.map_err(|error| section.error_of_all(error))?;
    Ok(leg)
}

/// The sections `[[hba]]`.
pub(super) fn parse_hbas(top: &Section<'_>) -> Result<Vec<HbaSpec>, ScenarioFileError> {
    let mut hbas: Vec<HbaSpec> = Vec::new();
    for (index, (at, table)) in top.tables("hba")?.into_iter().enumerate() {
        let place = named(table).unwrap_or_else(|| index.to_string());
        let section = Section::new(top.source, format!("hba '{place}'"), at, table);
        let mut hba = HbaSpec::default();
        for entry in &section.entries {
            let text = section.text(entry)?;
            hba.set(entry.key, &text)
                .map_err(|error| section.error(entry, setting_text(&error, "an hba")))?;
        }
        if hba.name.is_empty() || hba.bw_bytes_per_s == 0 {
            let text = "it has a name, which legs call it by, and bw, as in bw = \"600MB/s\"";
            return Err(section.error_of_all(text));
        }
        if hbas.iter().any(|other| other.name == hba.name) {
            return Err(section.error_of_all("another hba has this name"));
        }
        hbas.push(hba);
    }
    Ok(hbas)
}
