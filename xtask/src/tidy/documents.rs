//! Documents: design notes are numbered once, and the README shows what is tested.

use super::Finding;
use super::tree::Tree;

const NOTES: &str = "docs/design";
const README: &str = "README.md";
const DEMO: &str = "examples/demo.sh";

/// Checks the design notes and the README.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_notes(tree);
    findings.extend(check_demo(tree));
    findings
}

/// Notes are `NNNN-title.md`, and no two have the same number.
fn check_notes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut numbers: Vec<&str> = Vec::new();
    for stem in tree.stems(NOTES, "md") {
        let path = format!("{NOTES}/{stem}.md");
        let number = stem.split('-').next().unwrap_or_default();
        let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || stem.len() <= 5 {
            findings.push(Finding::of_file(
                &path,
                "a design note is named NNNN-title.md",
            ));
        } else if numbers.contains(&number) {
            findings.push(Finding::of_file(&path, format!("{number} is taken")));
        } else {
            numbers.push(number);
        }
    }
    findings
}

/// The commands of the script that the end-to-end tests run stand in the README, as they are.
fn check_demo(tree: &Tree) -> Option<Finding> {
    let readme = tree.text(README)?;
    let Some(script) = tree.text(DEMO) else {
        return Some(Finding::of_file(
            DEMO,
            "the README's demo has no tested script",
        ));
    };
    let commands = script_commands(script);
    if fenced_blocks(readme).contains(&commands) {
        return None;
    }
    let text = format!("no block of commands equals those of {DEMO}");
    Some(Finding::of_file(README, text))
}

/// The lines of a script from the first one that is neither a comment, an option nor empty.
fn script_commands(script: &str) -> Vec<&str> {
    script
        .lines()
        .skip_while(|line| line.is_empty() || line.starts_with('#') || line.starts_with("set "))
        .collect()
}

/// The lines of each block that stands between two lines of three backquotes.
fn fenced_blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks = Vec::new();
    let mut block: Option<Vec<&str>> = None;
    for line in text.lines() {
        if !line.starts_with("```") {
            if let Some(block) = &mut block {
                block.push(line);
            }
        } else if let Some(finished) = block.take() {
            blocks.push(finished);
        } else {
            block = Some(Vec::new());
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::check;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let findings = check(&Tree::of(files));
        findings.iter().map(ToString::to_string).collect()
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn notes_are_numbered_once() {
        let first = ("docs/design/0001-pins.md", "");
        assert_eq!(
            findings(&[first, ("docs/design/0002-queue.md", "")]),
            NOTHING
        );
        assert_eq!(
            findings(&[first, ("docs/design/0001-queue.md", "")]),
            ["docs/design/0001-queue.md: 0001 is taken"]
        );
        for path in [
            "docs/design/pins.md",
            "docs/design/0003.md",
            "docs/design/00a3-pins.md",
        ] {
            assert!(findings(&[(path, "")])[0].contains("is named"), "{path}");
        }
    }

    #[test]
    fn the_readme_shows_the_tested_commands() {
        let script = (
            "examples/demo.sh",
            "#!/bin/sh\n# Words.\nset -eu\n\nrun a\nrun b\n",
        );
        let readme = "# Title\n\n```sh\nother\n```\n\n```sh\nrun a\nrun b\n```\n";
        assert_eq!(findings(&[script, ("README.md", readme)]), NOTHING);
        let readme = readme.replace("run b", "run c");
        assert!(findings(&[script, ("README.md", &readme)])[0].contains("no block"));
        assert!(findings(&[("README.md", &readme)])[0].contains("no tested script"));
    }
}
