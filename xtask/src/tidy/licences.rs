//! Licences of everything that is linked, and the reason for each thing that is asked for.
//!
//! Reads `deny.toml`, so that cargo-deny, where somebody has it, judges by the same list. The
//! reasons stand there as comments of the form `# why NAME: reason.`, which cargo-deny skips.

use anyhow::{Context, Result};

use super::Finding;
use super::tree::Tree;
use crate::metadata::{DependencyKind, Metadata};

const PATH: &str = "deny.toml";

/// Checks every package of `workspaces` against the list and the reasons of `deny.toml`.
///
/// # Errors
/// Where `deny.toml` is missing or has no list of licences.
pub(super) fn check(tree: &Tree, workspaces: &[&Metadata]) -> Result<Vec<Finding>> {
    let text = tree.text(PATH).context("deny.toml is missing")?;
    let allowed = allowed_licences(text)?;
    let reasons = reasons(text);
    let mut findings = Vec::new();
    for package in workspaces.iter().flat_map(|metadata| &metadata.packages) {
        let expression = package.license.as_deref().unwrap_or("none");
        if !is_allowed(expression, &allowed) {
            let text = format!(
                "{} {} has licence '{expression}', which the list does not allow",
                package.name, package.version
            );
            findings.push(Finding::of_file(PATH, text));
        }
    }
    let is_ours = |name: &str| workspaces.iter().any(|metadata| metadata.is_member(name));
    let mut asked_for = Vec::new();
    for metadata in workspaces {
        for dependency in metadata.members().flat_map(|package| &package.dependencies) {
            let is_test_only = dependency.kind == DependencyKind::Dev;
            if !is_test_only && !is_ours(&dependency.name) {
                asked_for.push(dependency.name.as_str());
            }
        }
    }
    asked_for.sort_unstable();
    asked_for.dedup();
    for name in &asked_for {
        if !reasons.iter().any(|(known, _)| known == name) {
            let text = format!("{name} is used without a line '# why {name}: reason.'");
            findings.push(Finding::of_file(PATH, text));
        }
    }
    for (name, line) in reasons {
        if !asked_for.contains(&name) {
            let text = format!("a reason for {name}, which no crate uses");
            findings.push(Finding::of_line(PATH, line, text));
        }
    }
    Ok(findings)
}

fn allowed_licences(text: &str) -> Result<Vec<String>> {
    let table: toml::Table = text.parse().context("deny.toml")?;
    let allowed = table
        .get("licenses")
        .and_then(|licences| licences.get("allow"))
        .and_then(toml::Value::as_array)
        .context("deny.toml has no list licenses.allow")?;
    Ok(allowed
        .iter()
        .filter_map(toml::Value::as_str)
        .map(str::to_owned)
        .collect())
}

/// The names that have a reason, each with its line.
fn reasons(text: &str) -> Vec<(&str, usize)> {
    text.lines()
        .zip(1..)
        .filter_map(|(line, number)| {
            let (name, reason) = line.strip_prefix("# why ")?.split_once(": ")?;
            (!reason.trim().is_empty()).then_some((name, number))
        })
        .collect()
}

/// Whether an SPDX expression can be satisfied with licences of `allowed` alone. `/` is how old
/// manifests write `OR`; `WITH` belongs to the licence before it.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('(', " ( ").replace(')', " ) ");
    let expression = expression.replace('/', " OR ").replace(" WITH ", "+WITH+");
    let tokens: Vec<&str> = expression.split_whitespace().collect();
    let mut parser = Expression {
        tokens: &tokens,
        allowed,
    };
    parser.any() == Some(true) && parser.tokens.is_empty()
}

/// The rest of an SPDX expression. Each method takes what it understands from the front and says
/// whether that is satisfied; `None` where it is no expression.
struct Expression<'a> {
    tokens: &'a [&'a str],
    allowed: &'a [String],
}

impl Expression<'_> {
    /// `all (OR all)*`.
    fn any(&mut self) -> Option<bool> {
        let mut is_satisfied = self.all()?;
        while self.take("OR") {
            is_satisfied |= self.all()?;
        }
        Some(is_satisfied)
    }

    /// `one (AND one)*`.
    fn all(&mut self) -> Option<bool> {
        let mut is_satisfied = self.one()?;
        while self.take("AND") {
            is_satisfied &= self.one()?;
        }
        Some(is_satisfied)
    }

    /// A licence, or an expression in parentheses.
    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let is_satisfied = self.any()?;
            return self.take(")").then_some(is_satisfied);
        }
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        let name = first.replace("+WITH+", " WITH ");
        Some(self.allowed.contains(&name))
    }

    fn take(&mut self, token: &str) -> bool {
        let is_next = self.tokens.first() == Some(&token);
        if is_next {
            self.tokens = &self.tokens[1..];
        }
        is_next
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::tree::Tree;
    use super::{check, is_allowed};
    use crate::metadata::{Dependency, DependencyKind, Metadata, Package};

    #[test]
    fn expressions() {
        let allowed = [
            "MIT",
            "Apache-2.0",
            "Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ];
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        for expression in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
            "MIT AND Apache-2.0 OR GPL-3.0",
        ] {
            assert!(is_allowed(expression, &allowed), "{expression}");
        }
        for expression in [
            "GPL-3.0",
            "none",
            "",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND GPL-2.0",
            "GPL-2.0 WITH LLVM-exception",
            "(MIT",
            "MIT Apache-2.0",
            "MIT OR",
        ] {
            assert!(!is_allowed(expression, &allowed), "{expression}");
        }
    }

    /// A workspace of one crate that uses `name` under `licence`.
    fn workspace(name: &str, licence: &str) -> Metadata {
        let package = |name: &str, licence: &str, is_member, dependencies| Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: Some(licence.to_owned()),
            is_member,
            dependencies,
        };
        let dependency = Dependency {
            name: name.to_owned(),
            kind: DependencyKind::Normal,
        };
        Metadata {
            packages: vec![
                package("ours", "MIT", true, vec![dependency]),
                package(name, licence, false, Vec::new()),
            ],
            target: PathBuf::new(),
        }
    }

    /// What is found with these reasons where `libc` has `licence`.
    fn findings(reasons: &str, licence: &str) -> Vec<String> {
        let text = format!("{reasons}\n[licenses]\nallow = [\"MIT\"]\n");
        let tree = Tree::of(&[("deny.toml", &text)]);
        let findings = check(&tree, &[&workspace("libc", licence)]).unwrap();
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_allowed_licence_with_a_reason_passes() {
        let none: [String; 0] = [];
        assert_eq!(findings("# why libc: system calls.", "MIT"), none);
    }

    #[test]
    fn refused_licences_are_found() {
        let found = findings("# why libc: system calls.", "GPL-3.0-only");
        assert!(found[0].contains("has licence 'GPL-3.0-only'"), "{found:?}");
    }

    #[test]
    fn missing_and_left_over_reasons_are_found() {
        let found = findings("", "MIT");
        assert!(
            found[0].contains("libc is used without a line"),
            "{found:?}"
        );
        let found = findings("# why libc: system calls.\n# why gone: once used.", "MIT");
        assert_eq!(
            found,
            ["deny.toml:2: a reason for gone, which no crate uses"]
        );
    }

    #[test]
    fn a_tree_without_the_list_is_an_error() {
        assert!(check(&Tree::default(), &[]).is_err());
        assert!(check(&Tree::of(&[("deny.toml", "")]), &[]).is_err());
    }
}
