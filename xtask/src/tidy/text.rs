//! Rules about the text of every file: width, characters, length, markers of unfinished work, and
//! what must never be committed.

use super::Finding;
use super::tree::Tree;

/// Columns of a line. Two files side by side fit on a screen, and rustfmt breaks here too.
const COLUMNS_MAX: usize = 100;

/// Lines of a file without its tests. What is longer holds more than one idea.
const LINES_MAX: usize = 800;

/// A repository is cloned whole, for ever: what is larger than this is better generated.
const SIZE_BYTES_MAX: u64 = 1 << 20;

/// Files that may be longer than [`LINES_MAX`], each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Words that must not stand in Rust files, and why. Cut in two, so that this file passes.
const REFUSED: &[(&str, &str)] = &[
    (
        concat!("FIX", "ME"),
        "mend it now, or write what is missing as TODO(who or #n): sentence",
    ),
    (
        concat!("/// TO", "DO"),
        "a doc comment says something, or is left out",
    ),
    (
        concat!("#[ign", "ore"),
        "a test that is not run is no test: make it fast, or make it an end-to-end test",
    ),
    (
        concat!("#[should_", "panic"),
        "it passes on any panic: test the error, or catch_unwind and look at the message",
    ),
    (
        concat!("fn get", "_"),
        "accessors are named by what they give",
    ),
];

/// Names of files that say nothing about what is in them.
const VAGUE_NAMES: &[&str] = &["utils", "util", "common", "misc", "helpers"];

/// Beginnings of paths that exist on one machine only. Cut in two, so that this file passes.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/fa", "rm/"),
];

/// Parts of host names of package registries: a registry is configured outside the tree.
const REGISTRY_HOSTS: &[&str] = &["registry", "pypi", "npmjs", "goproxy", "maven"];

/// Checks every file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| file.size_bytes > SIZE_BYTES_MAX) {
        let text = format!("{} bytes: at most {SIZE_BYTES_MAX}", file.size_bytes);
        findings.push(Finding::of_file(&file.path, text));
    }
    for (path, text) in tree.texts() {
        check_characters(path, text, &mut findings);
        check_secrets(path, text, &mut findings);
        if path.ends_with(".rs") {
            check_rust(path, text, &mut findings);
        }
    }
    findings
}

fn check_characters(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let is_rust = path.ends_with(".rs");
    let is_markdown = path.ends_with(".md");
    if !is_rust && !is_markdown && !path.ends_with(".toml") && !path.ends_with(".sh") {
        return;
    }
    for (line, number) in text.lines().zip(1..) {
        if let Some(character) = line.chars().find(|character| !character.is_ascii()) {
            let text = format!("'{character}' is not ASCII");
            findings.push(Finding::of_line(path, number, text));
        }
        let columns = line.chars().count();
        // Tables and links cannot be broken in Markdown.
        let is_breakable = is_rust
            || is_markdown
                && !line.trim_start().starts_with('|')
                && !line.contains("](")
                && !line.contains("://");
        if columns > COLUMNS_MAX && is_breakable {
            let text = format!("{columns} columns: at most {COLUMNS_MAX}");
            findings.push(Finding::of_line(path, number, text));
        }
    }
}

fn check_secrets(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (line, number) in text.lines().zip(1..) {
        for machine_path in MACHINE_PATHS {
            if starts_a_path(line, machine_path) {
                let text = format!("{machine_path} exists on one machine only");
                findings.push(Finding::of_line(path, number, text));
            }
        }
        // Lock files name the registry that everybody has.
        if !path.ends_with(".lock") && hosts(line).any(is_registry) {
            let text = "the host of a registry is configured outside the tree";
            findings.push(Finding::of_line(path, number, text));
        }
    }
}

/// Whether `prefix` stands in `line` as the beginning of a path, not in the middle of one.
fn starts_a_path(line: &str, prefix: &str) -> bool {
    line.match_indices(prefix).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before
            .is_some_and(|character| character.is_ascii_alphanumeric() || "._-".contains(character))
    })
}

/// The host names of the addresses in `line`.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.split("://").skip(1).map(|rest| {
        let end = rest.find(|character: char| {
            !character.is_ascii_alphanumeric() && character != '.' && character != '-'
        });
        &rest[..end.unwrap_or(rest.len())]
    })
}

fn is_registry(host: &str) -> bool {
    REGISTRY_HOSTS.iter().any(|part| host.contains(part))
}

fn check_rust(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (line, number) in text.lines().zip(1..) {
        for (word, instead) in REFUSED {
            if line.contains(word) {
                let text = format!("'{word}': {instead}");
                findings.push(Finding::of_line(path, number, text));
            }
        }
    }
    let lines = lines_without_tests(path, text);
    if lines > LINES_MAX && !LONG_FILES.iter().any(|(long, _)| *long == path) {
        let text = format!("{lines} lines without tests: at most {LINES_MAX}");
        findings.push(Finding::of_file(path, text));
    }
    let stem = path
        .rsplit('/')
        .next()
        .and_then(|name| name.strip_suffix(".rs"));
    if stem.is_some_and(|stem| VAGUE_NAMES.contains(&stem)) {
        let text = "the name says nothing about what is inside";
        findings.push(Finding::of_file(path, text));
    }
}

/// Lines before `mod tests {`; none where the file as a whole is tests.
fn lines_without_tests(path: &str, text: &str) -> usize {
    if path.ends_with("/tests.rs") || path.contains("/tests/") {
        return 0;
    }
    text.lines()
        .take_while(|line| !line.starts_with("mod tests {"))
        .count()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::check;

    /// What is found in one file, as one text.
    fn findings(path: &str, text: &str) -> String {
        let findings = check(&Tree::of(&[(path, text)]));
        let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
        findings.join("\n")
    }

    #[test]
    fn clean_text_passes() {
        assert_eq!(findings("a/b.rs", "//! Nothing.\n\nfn main() {}\n"), "");
    }

    #[test]
    fn long_lines_are_found() {
        let line = "x".repeat(101);
        assert_eq!(findings("a.rs", &line), "a.rs:1: 101 columns: at most 100");
        assert_eq!(findings("a.md", &line), "a.md:1: 101 columns: at most 100");
        assert_eq!(findings("a.md", &format!("| {line}")), "", "a table");
        assert_eq!(findings("a.md", &format!("[{line}](b.md)")), "", "a link");
        assert_eq!(findings("a.csv", &line), "", "data");
    }

    #[test]
    fn other_characters_are_found() {
        let text = "// caf\u{e9}\n";
        assert_eq!(findings("a.rs", text), "a.rs:1: '\u{e9}' is not ASCII");
        assert_eq!(findings("a.toml", text), "a.toml:1: '\u{e9}' is not ASCII");
    }

    #[test]
    fn long_files_are_found_but_tests_do_not_count() {
        let code = "fn a() {}\n".repeat(801);
        assert!(findings("src/a.rs", &code).contains("801 lines without tests"));
        assert_eq!(findings("src/a/tests.rs", &code), "");
        assert_eq!(
            findings("tests/a.rs", &code.replace("tests/", ""))
                .lines()
                .count(),
            1
        );
        let tests = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(findings("src/a.rs", &tests), "");
    }

    #[test]
    fn refused_words_are_found() {
        for (word, line) in [
            ("FIX", concat!("// FIX", "ME: later")),
            ("TO", concat!("/// TO", "DO")),
            ("ign", concat!("#[ign", "ore]")),
            ("panic", concat!("#[should_", "panic]")),
            ("get", concat!("fn get", "_leg() {}")),
        ] {
            assert!(findings("a.rs", line).contains(word), "{line}");
        }
        assert_eq!(findings("a.rs", "// TODO(#7): a sentence.\n"), "");
    }

    #[test]
    fn vague_names_are_found() {
        assert!(findings("src/utils.rs", "").contains("says nothing"));
        assert_eq!(findings("src/units.rs", ""), "");
    }

    #[test]
    fn machine_paths_are_found() {
        for path in ["/ro#ot/a", "\"/wo#rk/a\"", "(/ho#me/a)"] {
            let line = path.replace('#', "");
            assert!(
                findings("a.txt", &line).contains("one machine only"),
                "{line}"
            );
        }
        for path in ["src/wo#rk/a", "./ro#ot/a", "/wo#rkloads/a"] {
            assert_eq!(findings("a.txt", &path.replace('#', "")), "", "{path}");
        }
    }

    #[test]
    fn registry_hosts_are_found() {
        let line = ["see https:", "//my-registry.example/crate"].concat();
        assert!(findings("a.md", &line).contains("host of a registry"));
        assert_eq!(findings("Cargo.lock", &line), "");
        assert_eq!(findings("a.md", "see https://example.org/registry"), "");
    }

    #[test]
    fn large_files_are_found() {
        let text = "x\n".repeat(1 << 19);
        assert_eq!(findings("a.csv", &text), "");
        assert!(findings("a.csv", &format!("{text}x")).contains("1048577 bytes"));
    }
}
