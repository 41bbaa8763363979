//! Figures as people read them, and as programs do.

use std::fmt::Write as _;

use super::nbd::{CELLS, Cell, Plan, Sample};
use super::servers::Kind;

/// A table of medians in Markdown, with the ratios that the comparison is about.
pub(super) fn summary(samples: &[Sample], plan: Plan) -> String {
    let mut text = String::from(
        "# NBD servers, random 4 KiB\n\n\
         heliostat and quorum keep three copies, nbdkit keeps one. CPU is the server's processor\n\
         time per request; a ratio is heliostat's divided by the other's.\n\n",
    );
    let _ = writeln!(
        text,
        "Medians of {} runs of {} s, interleaved.\n",
        plan.repeats,
        plan.time.as_secs()
    );
    text.push_str("| load | depth | connections |");
    for kind in Kind::ALL {
        let _ = write!(text, " {0} CPU us | {0} IOPS |", kind.name());
    }
    for kind in &Kind::ALL[1..] {
        let _ = write!(text, " CPU to {0} | IOPS to {0} |", kind.name());
    }
    text.push_str("\n|---|--:|--:|");
    text.push_str(&"--:|".repeat(2 * Kind::ALL.len() + 2 * (Kind::ALL.len() - 1)));
    text.push('\n');
    for cell in CELLS {
        write_row(&mut text, samples, cell);
    }
    text
}

fn write_row(text: &mut String, samples: &[Sample], cell: Cell) {
    let medians = Kind::ALL.map(|kind| {
        let of_cell: Vec<&Sample> = samples
            .iter()
            .filter(|sample| sample.kind == kind && sample.cell == cell)
            .collect();
        let cpu_us = median(of_cell.iter().map(|sample| sample.cpu_us));
        let iops = median(of_cell.iter().map(|sample| sample.iops));
        (cpu_us, iops)
    });
    let _ = write!(
        text,
        "| {} | {} | {} |",
        cell.pattern, cell.depth, cell.connections
    );
    for (cpu_us, iops) in medians {
        let _ = write!(text, " {cpu_us:.2} | {iops:.0} |");
    }
    let (cpu_us, iops) = medians[0];
    for (other_cpu_us, other_iops) in &medians[1..] {
        let _ = write!(
            text,
            " {:.2} | {:.2} |",
            cpu_us / other_cpu_us,
            iops / other_iops
        );
    }
    text.push('\n');
}

/// The middle one, or the mean of the two in the middle; not a number where there is none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Every sample, in the order in which it was taken.
pub(super) fn csv(samples: &[Sample]) -> String {
    let mut text = String::from("server,pattern,depth,connections,iops,cpu_us_per_request\n");
    for sample in samples {
        let _ = writeln!(
            text,
            "{},{},{},{},{:.0},{:.3}",
            sample.kind.name(),
            sample.cell.pattern,
            sample.cell.depth,
            sample.cell.connections,
            sample.iops,
            sample.cpu_us
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::nbd::{CELLS, Plan, Sample};
    use super::super::servers::Kind;
    use super::{csv, median, summary};

    #[test]
    fn medians() {
        assert!(median([].into_iter()).is_nan());
        assert!((median([3.0, 1.0, 2.0].into_iter()) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 3.0].into_iter()) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn ratios_are_ours_divided_by_theirs() {
        let sample = |kind, cpu_us, iops| Sample {
            kind,
            cell: CELLS[0],
            iops,
            cpu_us,
        };
        let samples = [
            sample(Kind::Heliostat, 2.0, 30_000.0),
            sample(Kind::Nbdkit, 4.0, 20_000.0),
            sample(Kind::Quorum, 8.0, 10_000.0),
        ];
        let plan = Plan {
            repeats: 1,
            time: Duration::from_secs(1),
        };
        let text = summary(&samples, plan);
        let row = "| randread | 1 | 1 | 2.00 | 30000 | 4.00 | 20000 | 8.00 | 10000 \
                   | 0.50 | 1.50 | 0.25 | 3.00 |";
        assert!(text.contains(row), "{text}");
        assert!(csv(&samples).contains("nbdkit,randread,1,1,20000,4.000\n"));
    }
}
