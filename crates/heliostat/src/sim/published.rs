//! `heliostat sim --published`: what others have measured, beside what is simulated.

use std::io::{Write as _, stderr, stdout};
use std::ops::ControlFlow;
use std::process::ExitCode;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use heliostat_bench::published::{
    Case, Row, Summary, Which, compare_runs, published_cases, runs_of, summary,
};
use heliostat_bench::{Run, ScenarioFile, run_all};
use heliostat_sim::{Fidelity, RunResult};
use serde_json::json;

use super::SimArgs;
use crate::progress::RunProgress;

/// Runs every published case and compares.
///
/// # Errors
/// Where a run finds a bug, or nobody takes the results.
pub(super) fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    let files: Vec<ScenarioFile> = published_cases()
        .into_iter()
        .map(|file| with_arguments(file, args))
        .collect();
    let per_file: Vec<Vec<Run>> = files.iter().map(runs_of).collect();
    let runs: Vec<Run> = per_file.iter().flatten().cloned().collect();
    let mut results: Vec<RunResult> = Vec::new();
    let mut failure = None;
    let progress = RunProgress::begin_named("sim", &runs, args.progress);
    run_all(
        &runs,
        args.threads(),
        &|what| progress.on(what),
        |_, result| match result {
            Ok(result) => {
                results.push(result);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        },
    );
    progress.finish();
    if let Some(error) = failure {
        writeln!(stderr(), "error: {error}")?;
        return Ok(ExitCode::FAILURE);
    }
    let mut rest = results.as_slice();
    let mut cases = Vec::new();
    for (file, runs) in files.iter().zip(&per_file) {
        let (mine, others) = rest.split_at(runs.len());
        rest = others;
        if let Some(published) = &file.published {
            cases.push(compare_runs(file, published, mine));
        }
    }
    if args.json {
        print_json(&cases)?;
    } else {
        print_tables(&files, &cases)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn with_arguments(mut file: ScenarioFile, args: &SimArgs) -> ScenarioFile {
    if let Some(seed) = args.seed {
        file.scenario.seed = seed;
    }
    if args.check_bytes {
        file.scenario.fidelity = Fidelity::Bytes;
    }
    file
}

fn print_json(cases: &[Case]) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    for case in cases {
        let rows: Vec<_> = case.rows.iter().map(row_json).collect();
        let line = json!({
            "case": case.name,
            "unit": case.unit.name(),
            "results": rows,
            "published_winner": case.published_winner,
            "published_lead": case.published_lead,
            "simulated_winner": case.simulated_winner,
            "winner_right": case.is_winner_right(),
        });
        writeln!(out, "{line}")?;
    }
    let all = summary(cases);
    let line = json!({
        "cases": cases.len(),
        "clear_cases": all.clear_cases,
        "right_winners": all.right_winners,
        "ratios": all.ratios,
        "median_error": all.median_error,
    });
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn row_json(row: &Row) -> serde_json::Value {
    let [worst, mean, best] = row.simulated;
    let [ratio_worst, ratio_mean, ratio_best] = row.simulated_ratio;
    json!({
        "policy": row.policy,
        "client": row.client.map(name_of),
        "published": row.published,
        "published_ratio": row.published_ratio,
        "simulated": { "worst": worst, "mean": mean, "best": best },
        "simulated_ratio": { "worst": ratio_worst, "mean": ratio_mean, "best": ratio_best },
        "error": row.error,
    })
}

const fn name_of(which: Which) -> &'static str {
    match which {
        Which::Worst => "worst",
        Which::Best => "best",
    }
}

fn print_tables(files: &[ScenarioFile], cases: &[Case]) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    for (file, case) in files
        .iter()
        .filter(|file| file.published.is_some())
        .zip(cases)
    {
        writeln!(out, "{}: {}", case.name, file.description)?;
        writeln!(out, "{}\n{}\n", table_of(case), verdict(case))?;
    }
    writeln!(out, "{}", in_words(&summary(cases)))?;
    Ok(out.flush()?)
}

fn table_of(case: &Case) -> Table {
    let unit = case.unit.name();
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header([
        "policy".to_owned(),
        format!("published {unit}"),
        "of best".to_owned(),
        format!("simulated {unit}"),
        "of best".to_owned(),
        "error".to_owned(),
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in &case.rows {
        let policy = match row.client {
            Some(which) => format!("{} ({} client)", row.policy, name_of(which)),
            None => row.policy.clone(),
        };
        table.add_row([
            policy,
            format!("{:.0}", row.published),
            format!("{:.2}", row.published_ratio),
            clients(row.simulated, |rate| format!("{rate:.0}")),
            clients(row.simulated_ratio, |ratio| format!("{ratio:.2}")),
            format!("{:+.0} %", row.error * 100.0),
        ]);
    }
    table
}

/// Worst, mean and best, or one number where all clients fare alike.
fn clients([worst, mean, best]: [f64; 3], show: impl Fn(f64) -> String) -> String {
    if show(worst) == show(best) {
        show(mean)
    } else {
        format!("{} / {} / {}", show(worst), show(mean), show(best))
    }
}

fn verdict(case: &Case) -> String {
    let Some(lead) = case.published_lead else {
        return "One policy only: nothing to compare it with.".to_owned();
    };
    let lead = lead * 100.0;
    let winner = &case.published_winner;
    if !case.counts() {
        return format!("Published winner {winner}, by {lead:.0} %: too close to be told apart.");
    }
    if case.is_winner_right() {
        format!("Published winner {winner}, by {lead:.0} %: so it is here.")
    } else {
        let simulated = &case.simulated_winner;
        format!("Published winner {winner}, by {lead:.0} %: here it is {simulated}.")
    }
}

fn in_words(all: &Summary) -> String {
    format!(
        "The right winner in {} of {} cases with a published lead above 10 %; the median error of \
         {} ratios to the best policy is {:.0} %.",
        all.right_winners,
        all.clear_cases,
        all.ratios,
        all.median_error * 100.0
    )
}
