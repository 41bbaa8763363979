//! A matrix beside an earlier one: where the judged policy has become worse.
//!
//! Compared is what it does, and not its ratios to others: a new policy makes nobody worse.

use serde_json::Value;

use super::judge::{AS_MUCH, Judged};
use super::targets::TAIL_MAX;

/// The cells in which the judged policy does less than 0.99 of what `earlier` says, the
/// `report.json` of another run, or in which its p99.9 is above 1.05 of that: a line for each.
///
/// # Errors
/// Where `earlier` says nothing of this policy in these cells.
pub fn worse_than(judged: &[Judged], earlier: &Value) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    let mut compared = 0;
    for cell in judged {
        let (name, mine) = (cell.cell.name(), cell.mine());
        let find = |list: &Value, key: &str, value: &str| -> Option<Value> {
            let mut list = list.as_array()?.iter();
            list.find(|item| item[key] == value).cloned()
        };
        let before = find(&earlier["cells"], "name", &name)
            .and_then(|cell| find(&cell["policies"], "policy", &mine.policy));
        let Some(before) = before else { continue };
        for job in &mine.jobs {
            let Some(job_before) = find(&before["jobs"], "name", &job.name) else {
                continue;
            };
            compared += 1;
            let score = job_before["score"].as_f64().unwrap_or(0.0);
            if job.score < AS_MUCH * score {
                let share = job.score / score;
                lines.push(format!("{name}: {} does {share:.3} of before", job.name));
            }
            let tail = job_before["read_ns"]["p99.9"].as_f64().unwrap_or(f64::MAX);
            let longer = job.reads.quantile(9_990) as f64 / tail;
            if longer > TAIL_MAX {
                lines.push(format!(
                    "{name}: {}'s p99.9 is {longer:.2} of before",
                    job.name
                ));
            }
        }
    }
    if compared == 0 {
        let of = judged.first().map_or("", |cell| &cell.mine().policy);
        return Err(format!("nothing is said there of '{of}' in these cells"));
    }
    Ok(lines)
}
