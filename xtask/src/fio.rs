//! What fio says of a run.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The jobs of a report that fio wrote with `--output-format=json`; never none.
///
/// # Errors
/// Where it is no such report.
pub(crate) fn jobs(report: &str) -> Result<Vec<Value>> {
    // Warnings stand before the object.
    let start = report.find('{').context("fio printed no JSON")?;
    let mut value: Value = serde_json::from_str(&report[start..]).context("fio's JSON")?;
    let jobs = value["jobs"].take();
    let jobs = jobs.as_array().context("fio's JSON has no jobs")?;
    ensure!(!jobs.is_empty(), "fio had no jobs: {report}");
    Ok(jobs.clone())
}

#[cfg(test)]
mod tests {
    use super::jobs;

    #[test]
    fn jobs_stand_behind_warnings() {
        let jobs = jobs("fio: a warning\n{\"jobs\": [{\"error\": 0}]}\n").unwrap();
        assert_eq!(jobs[0]["error"], 0);
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        assert!(jobs("fio: failed").is_err());
        assert!(jobs("{}").is_err());
        assert!(jobs("{\"jobs\": []}").is_err());
    }
}
