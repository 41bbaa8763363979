//! Every policy, model and export has its page, and every policy and model is in its registry.

use super::Finding;
use super::tree::Tree;

/// A family of files that each have a page.
struct Family {
    /// Where the files are.
    sources: &'static str,
    /// Files there that are no member of the family.
    others: &'static [&'static str],
    /// The file that lists the family for the program.
    registry: &'static str,
    /// Where the pages are.
    pages: &'static str,
}

const FAMILIES: &[Family] = &[
    Family {
        sources: "crates/heliostat-policy/src/policies",
        others: &[],
        registry: "crates/heliostat-policy/src/registry.rs",
        pages: "docs/policies",
    },
    Family {
        sources: "crates/heliostat-model/src",
        others: &[
            "api",
            "cached",
            "claims",
            "closed_loop",
            "fit",
            "drives",
            "fault",
            "lib",
            "params",
            "timing",
        ],
        registry: "crates/heliostat-model/src/drives.rs",
        pages: "docs/models",
    },
];

/// How the crate of an export begins; what follows names its page.
const EXPORT_PREFIX: &str = "crates/heliostat-export-";

/// Checks every family, and the exports.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for family in FAMILIES {
        check_family(tree, family, &mut findings);
    }
    for (path, _) in tree.texts() {
        let name = path
            .strip_prefix(EXPORT_PREFIX)
            .and_then(|rest| rest.strip_suffix("/Cargo.toml"));
        if let Some(name) = name {
            require_page(
                tree,
                path,
                &format!("docs/exports/{name}.md"),
                &mut findings,
            );
        }
    }
    findings
}

fn check_family(tree: &Tree, family: &Family, findings: &mut Vec<Finding>) {
    let registry = tree.text(family.registry).unwrap_or_default();
    for stem in tree.stems(family.sources, "rs") {
        if family.others.contains(&stem) {
            continue;
        }
        let source = format!("{}/{stem}.rs", family.sources);
        let page = format!("{}/{}.md", family.pages, stem.replace('_', "-"));
        require_page(tree, &source, &page, findings);
        if !registry.contains(&format!("{stem}::")) {
            let text = format!("is not in {}", family.registry);
            findings.push(Finding::of_file(&source, text));
        }
    }
}

fn require_page(tree: &Tree, source: &str, page: &str, findings: &mut Vec<Finding>) {
    if tree.text(page).is_none() {
        findings.push(Finding::of_file(
            source,
            format!("its page {page} is missing"),
        ));
    }
}
