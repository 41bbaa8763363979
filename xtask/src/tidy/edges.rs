//! Which crate may use which: arrows point downwards only, and pure crates need nobody else's code.

use super::Finding;
use crate::metadata::{DependencyKind, Metadata, Package};

/// Whether a crate decides or does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It decides: no clock, no I/O, no third-party code.
    Pure,
    /// It does: it waits, opens and talks.
    Shell,
}

/// What one crate may use of the others; `stdx` is for everyone.
struct Row {
    name: &'static str,
    kind: Kind,
    may_use: &'static [&'static str],
}

const fn row(name: &'static str, kind: Kind, may_use: &'static [&'static str]) -> Row {
    Row {
        name,
        kind,
        may_use,
    }
}

const TYPES: &str = "heliostat-types";
const POLICY: &str = "heliostat-policy";
const SCHEDULER: &str = "heliostat-scheduler";
const FORMAT: &str = "heliostat-format";
const VOLUME: &str = "heliostat-volume";
const ENGINE: &str = "heliostat-engine";
const MODEL: &str = "heliostat-model";
const WORKLOAD: &str = "heliostat-workload";
const NBD: &str = "heliostat-nbd";
const SIM: &str = "heliostat-sim";
const LEG: &str = "heliostat-leg";
const RUNTIME: &str = "heliostat-runtime";
const STDX: &str = "stdx";

/// The exports, none of which knows another.
const EXPORTS: &[&str] = &[
    "heliostat-export-nbd",
    "heliostat-export-fuse",
    "heliostat-export-ublk",
    "heliostat-export-vhost",
];

/// Every crate but the exports, the harness and the program, which are handled by rule.
const TABLE: &[Row] = &[
    row(STDX, Kind::Pure, &[]),
    row(TYPES, Kind::Pure, &[]),
    row(POLICY, Kind::Pure, &[TYPES]),
    row(SCHEDULER, Kind::Pure, &[TYPES]),
    row(FORMAT, Kind::Pure, &[TYPES]),
    row(VOLUME, Kind::Pure, &[TYPES]),
    row(ENGINE, Kind::Pure, &[TYPES, POLICY, SCHEDULER, FORMAT]),
    row(MODEL, Kind::Pure, &[TYPES]),
    row(WORKLOAD, Kind::Pure, &[TYPES]),
    row(NBD, Kind::Pure, &[TYPES]),
    row(
        SIM,
        Kind::Pure,
        &[TYPES, POLICY, SCHEDULER, FORMAT, ENGINE, MODEL, WORKLOAD],
    ),
    row(LEG, Kind::Shell, &[TYPES, FORMAT, MODEL, NBD]),
    // The policy crate for its registry: policies are shown, parsed and switched live.
    row(
        RUNTIME,
        Kind::Shell,
        &[TYPES, POLICY, SCHEDULER, FORMAT, VOLUME, ENGINE, LEG],
    ),
    // Drives heliostat from outside only.
    row("xtask", Kind::Shell, &[]),
];

/// What the tests of pure crates may use of other people's code.
const TEST_CRATES: &[&str] = &["expect-test", "proptest"];

/// The pure crates, by name.
pub(super) fn pure_crates() -> impl Iterator<Item = &'static str> {
    TABLE
        .iter()
        .filter(|row| row.kind == Kind::Pure)
        .map(|row| row.name)
}

/// Whether `name` may use `other`, both being crates of the workspace; `None` where the table does
/// not know `name`.
fn may_use(name: &str, other: &str) -> Option<bool> {
    if let Some(row) = TABLE.iter().find(|row| row.name == name) {
        return Some(other == STDX || row.may_use.contains(&other));
    }
    match name {
        "heliostat" => Some(other != "xtask"),
        "heliostat-bench" => Some(other != "heliostat" && other != "xtask"),
        "heliostat-export-nbd" if other == NBD => Some(true),
        _ if EXPORTS.contains(&name) => Some([STDX, TYPES, RUNTIME].contains(&other)),
        _ => None,
    }
}

/// Checks every crate of the workspace.
pub(super) fn check(metadata: &Metadata) -> Vec<Finding> {
    metadata
        .members()
        .flat_map(|package| check_package(package, metadata))
        .collect()
}

fn check_package(package: &Package, metadata: &Metadata) -> Vec<Finding> {
    let manifest = match package.name.as_str() {
        "xtask" => "xtask/Cargo.toml".to_owned(),
        name => format!("crates/{name}/Cargo.toml"),
    };
    let is_pure = pure_crates().any(|name| name == package.name);
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        let (name, other) = (&package.name, &dependency.name);
        let text = if metadata.is_member(other) {
            match may_use(name, other) {
                Some(true) => continue,
                Some(false) => format!("{name} may not use {other}: the table of crate edges"),
                None => format!("{name} is not in the table of crate edges: add it with its row"),
            }
        } else if !is_pure {
            continue;
        } else if dependency.kind == DependencyKind::Dev {
            if TEST_CRATES.contains(&other.as_str()) {
                continue;
            }
            format!("tests of pure crates use {TEST_CRATES:?} at most, not {other}")
        } else {
            format!("{name} is pure and needs no third-party code, not {other} either")
        };
        findings.push(Finding::of_file(&manifest, text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::check;
    use crate::metadata::{Dependency, DependencyKind, Metadata, Package};

    /// A workspace of `members` that each use the names beside them.
    fn workspace(members: &[(&str, &[(&str, DependencyKind)])]) -> Metadata {
        let packages = members
            .iter()
            .map(|(name, dependencies)| Package {
                name: (*name).to_owned(),
                version: "0.0.0".to_owned(),
                license: None,
                is_member: true,
                dependencies: dependencies
                    .iter()
                    .map(|(name, kind)| Dependency {
                        name: (*name).to_owned(),
                        kind: *kind,
                    })
                    .collect(),
            })
            .collect();
        Metadata {
            packages,
            target: PathBuf::new(),
        }
    }

    /// What is found where `name` uses `other`.
    fn findings(name: &str, other: &str, kind: DependencyKind, other_is_member: bool) -> String {
        let mut members: Vec<(&str, &[(&str, DependencyKind)])> = Vec::new();
        let dependencies = [(other, kind)];
        members.push((name, &dependencies));
        if other_is_member {
            members.push((other, &[]));
        }
        let findings = check(&workspace(&members));
        let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        findings.join("\n")
    }

    #[test]
    fn edges_of_the_table_pass() {
        for (name, other) in [
            ("heliostat-engine", "heliostat-policy"),
            ("heliostat-engine", "stdx"),
            ("heliostat-leg", "heliostat-model"),
            ("heliostat-runtime", "heliostat-format"),
            ("heliostat-export-fuse", "heliostat-runtime"),
            ("heliostat-export-nbd", "heliostat-nbd"),
            ("heliostat-bench", "heliostat-format"),
            ("heliostat", "heliostat-sim"),
        ] {
            let found = findings(name, other, DependencyKind::Normal, true);
            assert_eq!(found, "", "{name} -> {other}");
        }
    }

    #[test]
    fn other_edges_are_found() {
        for (name, other) in [
            ("heliostat-policy", "heliostat-engine"),
            ("heliostat-types", "heliostat-policy"),
            ("heliostat-format", "heliostat-engine"),
            ("heliostat-export-nbd", "heliostat-engine"),
            ("heliostat-export-nbd", "heliostat-export-fuse"),
            ("heliostat-export-fuse", "heliostat-nbd"),
            ("heliostat-bench", "heliostat"),
            ("xtask", "heliostat-types"),
        ] {
            let found = findings(name, other, DependencyKind::Normal, true);
            assert!(found.contains("may not use"), "{name} -> {other}");
            let found = findings(name, other, DependencyKind::Dev, true);
            assert!(found.contains("may not use"), "{name} -> {other} in tests");
        }
    }

    #[test]
    fn unknown_crates_are_found() {
        let found = findings("heliostat-new", "stdx", DependencyKind::Normal, true);
        assert!(found.contains("is not in the table"), "{found}");
    }

    #[test]
    fn third_party_code_in_pure_crates_is_found() {
        let kind = DependencyKind::Normal;
        let found = findings("heliostat-engine", "libc", kind, false);
        assert!(found.contains("needs no third-party code"), "{found}");
        assert_eq!(findings("heliostat-leg", "libc", kind, false), "");
        let kind = DependencyKind::Dev;
        assert_eq!(findings("heliostat-engine", "proptest", kind, false), "");
        let found = findings("heliostat-engine", "rand", kind, false);
        assert!(found.contains("tests of pure crates"), "{found}");
    }
}
