//! What `cargo metadata` says of the workspace, as far as the checks need it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use xshell::{Shell, cmd};

/// Where a dependency is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependencyKind {
    /// In the crate itself.
    Normal,
    /// In its tests.
    Dev,
    /// In its build script.
    Build,
}

/// One line of a manifest's dependency tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// Its package name.
    pub(crate) name: String,
    /// Where it is needed.
    pub(crate) kind: DependencyKind,
}

/// One package: ours, or one that ours need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// The licence expression of its manifest.
    pub(crate) license: Option<String>,
    /// Whether it is a member of the workspace.
    pub(crate) is_member: bool,
    /// What its manifest asks for.
    pub(crate) dependencies: Vec<Dependency>,
}

/// The workspace and all that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// Every package.
    pub(crate) packages: Vec<Package>,
    /// Where build results go.
    pub(crate) target: PathBuf,
}

impl Metadata {
    /// Asks cargo about the workspace whose manifest is `manifest`.
    ///
    /// # Errors
    /// Where cargo fails, its lock file is not up to date, or it answers something else than
    /// metadata.
    pub(crate) fn read(manifest: &Path) -> Result<Self> {
        let shell = Shell::new()?;
        let text = cmd!(
            shell,
            "cargo metadata --locked --format-version 1 --manifest-path {manifest}"
        )
        .quiet()
        .read()
        .with_context(|| format!("asking cargo about {}", manifest.display()))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).context("cargo metadata is no JSON")?;
        let members: Vec<&str> = array(&value, "workspace_members")?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let packages = array(&value, "packages")?
            .iter()
            .map(|package| parse_package(package, &members))
            .collect::<Result<_>>()?;
        Ok(Self {
            packages,
            target: PathBuf::from(string(&value, "target_directory")?),
        })
    }

    /// The packages of the workspace itself.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_member)
    }

    /// Whether `name` is a package of the workspace.
    pub(crate) fn is_member(&self, name: &str) -> bool {
        self.members().any(|package| package.name == name)
    }
}

fn parse_package(value: &Value, members: &[&str]) -> Result<Package> {
    let dependencies = array(value, "dependencies")?
        .iter()
        .map(|dependency| {
            let kind = match dependency["kind"].as_str() {
                None => DependencyKind::Normal,
                Some("dev") => DependencyKind::Dev,
                Some("build") => DependencyKind::Build,
                Some(other) => anyhow::bail!("an unknown kind of dependency: {other}"),
            };
            Ok(Dependency {
                name: string(dependency, "name")?.to_owned(),
                kind,
            })
        })
        .collect::<Result<_>>()?;
    Ok(Package {
        name: string(value, "name")?.to_owned(),
        version: string(value, "version")?.to_owned(),
        license: value["license"].as_str().map(str::to_owned),
        is_member: members.contains(&string(value, "id")?),
        dependencies,
    })
}

fn array<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key]
        .as_array()
        .with_context(|| format!("cargo metadata has no list '{key}'"))
}

fn string<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key]
        .as_str()
        .with_context(|| format!("cargo metadata has no text '{key}'"))
}

#[cfg(test)]
mod tests {
    use super::{DependencyKind, Metadata};

    #[test]
    fn members_and_kinds_are_told_apart() {
        let metadata = Metadata::parse(
            r#"{
                "packages": [
                    {"name": "ours", "version": "0.0.0", "id": "path+ours", "license": null,
                     "dependencies": [{"name": "libc", "kind": null},
                                      {"name": "proptest", "kind": "dev"}]},
                    {"name": "libc", "version": "0.2.1", "id": "registry+libc",
                     "license": "MIT", "dependencies": []}
                ],
                "workspace_members": ["path+ours"],
                "target_directory": "target"
            }"#,
        )
        .unwrap();
        assert!(metadata.is_member("ours"));
        assert!(!metadata.is_member("libc"));
        let kinds: Vec<_> = metadata.packages[0]
            .dependencies
            .iter()
            .map(|dependency| dependency.kind)
            .collect();
        assert_eq!(kinds, [DependencyKind::Normal, DependencyKind::Dev]);
        assert_eq!(metadata.packages[1].license.as_deref(), Some("MIT"));
    }

    #[test]
    fn what_is_no_metadata_is_an_error() {
        assert!(Metadata::parse("{}").is_err());
        assert!(Metadata::parse("no JSON").is_err());
    }
}
