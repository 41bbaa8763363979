//! Where a report is kept, and its files: `report.json` for programs, `index.html` for people.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use serde_json::Value;

use super::facts;

/// The page and the data beside it.
pub(super) const PAGE: &str = "index.html";
const DATA: &str = "report.json";

/// Where a report goes if nobody says: a directory that does not exist yet, named after the moment,
/// in the current directory, or in the one for temporary files where that cannot be written.
///
/// # Panics
/// Never: there is always a number that is free.
#[must_use]
pub fn default_directory() -> PathBuf {
    let stamp = facts::utc_text(facts::seconds_since_epoch()).replace(['-', ':'], "");
    let name = format!("heliostat-report-{stamp}");
    let here = PathBuf::from(".");
    let parent = if is_writable(&here) {
        here
    } else {
        std::env::temp_dir()
    };
    let numbered = (2..).map(|number| parent.join(format!("{name}-{number}")));
    std::iter::once(parent.join(&name))
        .chain(numbered)
        .find(|path| !path.exists())
        .expect("some number is free")
}

/// Makes sure that a report can go into `directory`, which is made if it is missing. Answers
/// whether it holds a report already.
///
/// # Errors
/// Where it cannot be made or written, or holds a page that is no report.
pub fn check_directory(directory: &Path) -> anyhow::Result<bool> {
    let shown = directory.display();
    fs::create_dir_all(directory).with_context(|| format!("cannot make the directory {shown}"))?;
    if !is_writable(directory) {
        bail!("the directory {shown} cannot be written; name another one with --report");
    }
    let holds_report = directory.join(DATA).exists();
    if !holds_report && directory.join(PAGE).exists() {
        bail!(
            "{shown} holds an {PAGE} that is no report of heliostat; name another directory with \
             --report"
        );
    }
    Ok(holds_report)
}

/// Writes a page and its data into `directory`. Answers whether they replaced a report.
///
/// # Errors
/// As [`check_directory`], or where the disk says no.
pub fn write_directory(directory: &Path, page: &str, data: &Value) -> anyhow::Result<bool> {
    let replaced = check_directory(directory)?;
    let data = serde_json::to_string_pretty(data).context("cannot put the report into JSON")?;
    write(&directory.join(DATA), &(data + "\n"))?;
    write(&directory.join(PAGE), page)?;
    Ok(replaced)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn is_writable(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use serde_json::json;

    use super::{default_directory, write_directory};

    /// A directory of one test, gone afterwards.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let unique = format!("heliostat-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(unique))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_report_is_a_page_and_its_data_and_says_what_it_replaces() {
        let scratch = Scratch::new("report");
        let data = json!({ "quick": true });
        assert!(!write_directory(&scratch.0, "page", &data).unwrap());
        assert!(write_directory(&scratch.0, "page", &data).unwrap());
        let data = fs::read_to_string(scratch.0.join("report.json")).unwrap();
        let data: serde_json::Value = serde_json::from_str(&data).unwrap();
        assert_eq!(data["quick"], true);
        let page = fs::read_to_string(scratch.0.join("index.html")).unwrap();
        assert_eq!(page, "page");
    }

    #[test]
    fn a_page_of_somebody_else_is_not_overwritten() {
        let scratch = Scratch::new("foreign");
        fs::create_dir_all(&scratch.0).unwrap();
        fs::write(scratch.0.join("index.html"), "mine").unwrap();
        let error = write_directory(&scratch.0, "page", &json!({})).unwrap_err();
        assert!(error.to_string().contains("--report"), "{error}");
    }

    #[test]
    fn nobody_has_the_default_directory_yet() {
        let directory = default_directory();
        assert!(!directory.exists());
    }
}
