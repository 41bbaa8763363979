//! The simulator's own speed: its example `sim_speed`, built for release and run several times.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// One run of one case.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Legs, job, and how much is checked.
    pub(super) case: String,
    pub(super) virtual_s: f64,
    pub(super) real_s: f64,
    pub(super) requests: f64,
}

/// Runs all cases once, then all again.
///
/// # Errors
/// Where it does not build or fails.
pub(super) fn run(root: &Path, repeats: usize) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for repeat in 0..repeats {
        println!("run {} of {repeats}", repeat + 1);
        let mut command = Command::new("cargo");
        command.current_dir(root);
        command.args(["run", "--release", "--quiet", "-p", "heliostat-sim"]);
        command.args(["--example", "sim_speed", "--", "--csv"]);
        let said = process::succeed(&mut command)?;
        for line in said.lines() {
            samples.push(parse(line).with_context(|| format!("sim_speed said '{line}'"))?);
        }
    }
    Ok(samples)
}

/// Reads `case;virtual seconds;real seconds;requests`.
fn parse(line: &str) -> Result<Sample> {
    let mut fields = line.split(';');
    let case = fields.next().context("no case")?.to_owned();
    let mut number = || -> Result<f64> { Ok(fields.next().context("too few fields")?.parse()?) };
    Ok(Sample {
        case,
        virtual_s: number()?,
        real_s: number()?,
        requests: number()?,
    })
}

/// The medians of each case, as a table.
pub(super) fn summary(samples: &[Sample], repeats: usize) -> String {
    let mut text = format!(
        "# The simulator's speed\n\nOne core, policy `queue`, medians of {repeats}.\n\n\
         | mirror, job, checked | requests per second | virtual over real time |\n|---|---|---|\n"
    );
    let mut cases: Vec<&str> = Vec::new();
    for sample in samples {
        if !cases.contains(&sample.case.as_str()) {
            cases.push(&sample.case);
        }
    }
    for case in cases {
        let of_case = samples.iter().filter(|sample| sample.case == case);
        let median = |figure: fn(&Sample) -> f64| {
            let mut figures: Vec<f64> = of_case.clone().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        let per_second = median(|sample| sample.requests / sample.real_s);
        let faster = median(|sample| sample.virtual_s / sample.real_s);
        text += &format!("| {case} | {per_second:.0} | {faster:.2} |\n");
    }
    text
}

/// All runs.
pub(super) fn csv(samples: &[Sample]) -> String {
    let mut text = "case,virtual_s,real_s,requests\n".to_owned();
    for sample in samples {
        let Sample {
            case,
            virtual_s,
            real_s,
            requests,
        } = sample;
        text += &format!("\"{case}\",{virtual_s},{real_s},{requests}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{parse, summary};

    #[test]
    fn medians_of_what_the_example_says() {
        let lines = ["a;10;1;100", "b;10;5;100", "a;10;2;100", "a;10;4;100"];
        let samples: Vec<_> = lines.iter().map(|line| parse(line).unwrap()).collect();
        let told = summary(&samples, 3);
        assert!(
            told.contains("| a | 50 | 5.00 |\n| b | 20 | 2.00 |\n"),
            "{told}"
        );
        assert!(parse("a;10;x;100").is_err() && parse("a;10").is_err());
    }
}
