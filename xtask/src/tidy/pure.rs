//! Pure crates forbid unsafe code and carry the lints that keep clocks, threads and I/O out.

use super::Finding;
use super::edges::pure_crates;
use super::tree::Tree;

/// Clippy reads one file per crate and merges nothing, so each pure crate links to this one.
const LINTS: &str = "xtask/clippy-pure.toml";

/// Checks every pure crate that exists.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in pure_crates() {
        let root = format!("crates/{name}/src/lib.rs");
        let Some(text) = tree.text(&root) else {
            continue;
        };
        if !text.lines().any(|line| line == "#![forbid(unsafe_code)]") {
            findings.push(Finding::of_file(
                &root,
                "a pure crate: #![forbid(unsafe_code)]",
            ));
        }
        let lints = format!("crates/{name}/clippy.toml");
        if tree.text(&lints).is_none() || tree.text(&lints) != tree.text(LINTS) {
            let text = format!("a pure crate: ln -s ../../{LINTS} {lints}");
            findings.push(Finding::of_file(&lints, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::{LINTS, check};

    const ROOT: &str = "crates/heliostat-engine/src/lib.rs";
    const LINK: &str = "crates/heliostat-engine/clippy.toml";
    const FORBID: &str = "//! Doc.\n#![forbid(unsafe_code)]\n";

    #[test]
    fn a_pure_crate_with_both_passes() {
        let tree = Tree::of(&[(ROOT, FORBID), (LINK, "lints"), (LINTS, "lints")]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_crate_without_either_is_found() {
        let tree = Tree::of(&[(ROOT, "//! Doc.\n"), (LINK, "lints"), (LINTS, "lints")]);
        assert_eq!(check(&tree)[0].path, ROOT);
        let tree = Tree::of(&[(ROOT, FORBID), (LINK, "others"), (LINTS, "lints")]);
        assert_eq!(check(&tree)[0].path, LINK);
        let tree = Tree::of(&[(ROOT, FORBID), (LINTS, "lints")]);
        assert_eq!(check(&tree)[0].path, LINK);
    }

    #[test]
    fn shells_are_free() {
        let tree = Tree::of(&[("crates/heliostat-leg/src/lib.rs", "//! Doc.\n")]);
        assert_eq!(check(&tree), []);
    }
}
