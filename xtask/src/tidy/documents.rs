//! Documents: design notes are numbered once, the README shows what is tested, and links lead
//! somewhere.

use super::Finding;
use super::tree::Tree;

const NOTES: &str = "docs/design";
const README: &str = "README.md";
const DEMO: &str = "examples/demo.sh";

/// Checks every document.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_notes(tree);
    findings.extend(check_demo(tree));
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        check_links(tree, path, text, &mut findings);
    }
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

/// Links to other files of the tree name files or directories that are there.
fn check_links(tree: &Tree, path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (line, number) in text.lines().zip(1..) {
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let meant = resolve(path, target);
            let inside = format!("{meant}/");
            let mut files = tree.files().map(|file| file.path.as_str());
            if !files.any(|file| file == meant || file.starts_with(&inside)) {
                let text = format!("links to {meant}, which is not there");
                findings.push(Finding::of_line(path, number, text));
            }
        }
    }
}

/// What a link in the file `from` means, from the root: in `docs/a.md`, `../b/./c.md` is `b/c.md`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
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
    fn links_lead_somewhere() {
        let there = ("docs/policies/md.md", "");
        for link in [
            "policies/md.md",
            "policies",
            "./policies/md.md#why",
            "../docs/policies/",
        ] {
            let text = format!("See [it]({link}).");
            assert_eq!(findings(&[there, ("docs/a.md", &text)]), NOTHING, "{link}");
        }
        for link in ["https://example.org/a.md", "#below"] {
            let text = format!("See [it]({link}).");
            assert_eq!(findings(&[("docs/a.md", &text)]), NOTHING, "{link}");
        }
        let text = "See [one](policies/md.md) and\n[another](policies/zfs.md).";
        let found = "docs/a.md:2: links to docs/policies/zfs.md, which is not there";
        assert_eq!(findings(&[there, ("docs/a.md", text)]), [found]);
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
