//! Results as CSV (RFC 4180), a line for each run.

use super::result::BenchResult;

const HEAD: &str = "job,target,policy,run,iops,read_iops,write_iops,bytes_per_s,mean_ns,p99_ns,\
                    p99_9_ns,p99_99_ns,max_ns,scheduler";

/// All runs, with a line of names before them.
#[must_use]
pub fn csv(result: &BenchResult) -> String {
    let mut text = format!("{HEAD}\r\n");
    for row in &result.rows {
        let policy = row.policy.as_deref().unwrap_or_default();
        let scheduler = row.scheduler.as_deref().unwrap_or_default();
        for (run, number) in row.runs.iter().zip(1..) {
            let got = &run.measured;
            text.push_str(&format!(
                "{},{},{},{number},{:.3},{:.3},{:.3},{:.0},{:.0},{},{},{},{},{}\r\n",
                field(&row.job),
                field(&row.target),
                field(policy),
                got.iops,
                got.read_iops,
                got.write_iops,
                got.bytes_per_s,
                got.mean_ns,
                got.p99_ns,
                got.p99_9_ns,
                got.p99_99_ns,
                got.max_ns,
                field(scheduler)
            ));
        }
    }
    text
}

/// A text that may have commas, quotes or lines in it.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn what_would_part_fields_is_quoted() {
        assert_eq!(field("randread 4k"), "randread 4k");
        assert_eq!(field("a,b \"c\""), "\"a,b \"\"c\"\"\"");
    }
}
