//! The house rules that no compiler and no lint checks.
//!
//! Each check is a function of values (the files of the tree, what cargo says of the packages) to
//! findings, so that its tests can show it a tree that breaks the rule. Nothing is mended here.

mod documents;
mod edges;
mod licences;
mod pages;
mod pure;
mod text;
mod tree;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use crate::metadata::Metadata;
use tree::Tree;

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// The file, from the root of the tree.
    path: String,
    /// The line, from 1; 0 where the file as a whole is meant.
    line: usize,
    /// Which rule, and what to do.
    text: String,
}

impl Finding {
    fn of_file(path: &str, text: impl Into<String>) -> Self {
        Self::of_line(path, 0, text)
    }

    fn of_line(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            text: text.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

/// Checks the tree below `root` and prints what it finds.
///
/// # Errors
/// Where a rule is broken, or the tree cannot be read.
pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let metadata = Metadata::read(&root.join("Cargo.toml"))?;
    let fuzz = Metadata::read(&root.join("fuzz/Cargo.toml"))?;

    let mut findings = text::check(&tree);
    findings.extend(edges::check(&metadata));
    findings.extend(pure::check(&tree));
    findings.extend(pages::check(&tree));
    findings.extend(documents::check(&tree));
    findings.extend(licences::check(&tree, &[&metadata, &fuzz])?);
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} findings", findings.len());
    }
    Ok(())
}
