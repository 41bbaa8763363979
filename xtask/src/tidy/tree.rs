//! The files of the tree, as one value.
//!
//! Reads the directory itself rather than asking git, so that a tree without its history, as in an
//! unpacked archive, is checked the same.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    /// Its path from the root, with `/` between the parts.
    pub(super) path: String,
    /// What it says; `None` where that is not UTF-8.
    pub(super) text: Option<String>,
    /// Its size.
    pub(super) size_bytes: u64,
}

/// All files that are, or would be, committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Reads everything below `root` that `.gitignore` does not name.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let ignored = fs::read_to_string(root.join(".gitignore")).context("reading .gitignore")?;
        let ignored = Ignored::parse(&ignored);
        let mut tree = Self::default();
        tree.read_directory(root, "", &ignored)?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn read_directory(&mut self, root: &Path, path: &str, ignored: &Ignored<'_>) -> Result<()> {
        let directory = root.join(path);
        let entries =
            fs::read_dir(&directory).with_context(|| format!("listing {}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = match path {
                "" => name,
                _ => format!("{path}/{name}"),
            };
            if path == ".git" || ignored.contains(&path) {
                continue;
            }
            // Links are followed: what a linked file says must hold where the link is.
            let whole = root.join(&path);
            let kind = fs::metadata(&whole).with_context(|| format!("looking at {path}"))?;
            if kind.is_dir() {
                self.read_directory(root, &path, ignored)?;
            } else {
                let bytes = fs::read(&whole).with_context(|| format!("reading {path}"))?;
                self.files.push(File {
                    path,
                    size_bytes: kind.len(),
                    text: String::from_utf8(bytes).ok(),
                });
            }
        }
        Ok(())
    }

    /// Every file, by path.
    pub(super) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Every file that is text, as path and text.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.texts()
            .find_map(|(other, text)| (other == path).then_some(text))
    }

    /// The files right in `directory` whose names end in `.EXTENSION`, as names without it.
    pub(super) fn stems<'a>(&'a self, directory: &str, extension: &str) -> Vec<&'a str> {
        self.files
            .iter()
            .filter_map(|file| {
                let name = file.path.strip_prefix(directory)?.strip_prefix('/')?;
                let stem = name.strip_suffix(extension)?.strip_suffix('.')?;
                (!stem.contains('/')).then_some(stem)
            })
            .collect()
    }
}

/// The patterns of `.gitignore`, of which only the plain ones are used here: `/path` and `/path*`.
struct Ignored<'a>(Vec<&'a str>);

impl<'a> Ignored<'a> {
    fn parse(text: &'a str) -> Self {
        let patterns = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix('/'));
        Self(patterns.collect())
    }

    fn contains(&self, path: &str) -> bool {
        self.0
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => path == *pattern,
            })
    }
}

#[cfg(test)]
impl Tree {
    /// A tree for tests, of paths and texts.
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| File {
                path: (*path).to_owned(),
                size_bytes: u64::try_from(text.len()).unwrap(),
                text: Some((*text).to_owned()),
            })
            .collect();
        Self { files }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ignored, Tree};

    #[test]
    fn ignored_paths_are_matched_from_the_root() {
        let ignored = Ignored::parse("/target\n/report*\n# a comment\n");
        assert!(ignored.contains("target"));
        assert!(ignored.contains("report-2"));
        assert!(!ignored.contains("crates/target"));
        assert!(!ignored.contains("targets"));
    }

    #[test]
    fn stems_are_those_of_one_directory() {
        let tree = Tree::of(&[
            ("a/b.rs", ""),
            ("a/b/c.rs", ""),
            ("a/d.md", ""),
            ("ab.rs", ""),
        ]);
        assert_eq!(tree.stems("a", "rs"), ["b"]);
    }
}
