//! What was measured, as a page for people and as lines for programs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::drives::{ARRAYS, Array};
use super::jobs::JOBS;
use super::{Outcome, Plan, Sample, Way};

impl Way {
    const ALL: [Self; 3] = [Self::Guest, Self::Exports, Self::Btrfs];

    const fn name(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::Exports => "nbd",
            Self::Btrfs => "btrfs",
        }
    }

    const fn about(self) -> &'static str {
        match self {
            Self::Guest => {
                "In a guest of QEMU without KVM: md on virtio drives, heliostat as one of them"
            }
            Self::Exports => "Over NBD here; streams are requests of 256 KiB, 8 at once",
            Self::Btrfs => "A file of btrfs on loop devices, in this machine's kernel",
        }
    }
}

/// A table for each array and way, with figures as ratios to the first drive alone.
pub(super) fn summary(outcome: &Outcome, plan: Plan) -> String {
    let mut text = "# heliostat beside other mirrors\n\n".to_owned();
    let _ = writeln!(
        text,
        "Modelled drives in real time (hdd: Seagate ST2000DM008; ssd: a SATA SSD of 1 TB), of\n\
         1 GiB each. Requests per second, as ratios to one hard disk on the same way: medians of\n\
         {} runs of {} s, with the smallest and the largest behind them. Below them what each\n\
         leg has of the bytes read, in the order of the array.\n\n\
         Guest: Linux {}. btrfs here has the policies `{}`.",
        plan.repeats,
        plan.time.as_secs(),
        outcome.guest_kernel,
        outcome.btrfs_policies
    );
    for array in &ARRAYS {
        for way in Way::ALL {
            let samples = outcome.samples.iter();
            let samples = samples.filter(|sample| sample.array == array.name && sample.way == way);
            let samples: Vec<&Sample> = samples.collect();
            if !samples.is_empty() {
                table(&mut text, array, way, &samples);
            }
        }
    }
    text
}

fn table(text: &mut String, array: &Array, way: Way, samples: &[&Sample]) {
    let _ = writeln!(
        text,
        "\n## {}: {}\n\n{}.\n",
        array.name,
        array.about,
        way.about()
    );
    text.push_str("| |");
    for job in &JOBS {
        let _ = write!(text, " {} |", job.name);
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(JOBS.len()));
    let reference = &samples[0].peer;
    for peer in peers(samples) {
        let _ = write!(text, "| {peer} |");
        for job in &JOBS {
            let of = |peer: &str| {
                let of_it = samples.iter();
                let of_it = of_it.filter(|one| one.peer == peer && one.job == job.name);
                of_it.copied().collect::<Vec<&Sample>>()
            };
            let _ = write!(text, " {} |", cell(&of(peer), &of(reference)));
        }
        text.push('\n');
    }
}

/// Who was measured, in that order, each once.
fn peers<'a>(samples: &[&'a Sample]) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    let names = samples.iter().map(|sample| sample.peer.as_str());
    names.filter(|name| seen.insert(*name)).collect()
}

/// One peer's figures beside those of the drive alone.
fn cell(samples: &[&Sample], reference: &[&Sample]) -> String {
    let alone = Figures::of(reference.iter().map(|sample| sample.iops)).median;
    let figures = Figures::of(samples.iter().map(|sample| sample.iops / alone));
    let mut cell = ratio(figures.median);
    if samples.len() > 1 {
        let _ = write!(cell, " ({}-{})", ratio(figures.least), ratio(figures.most));
    }
    let legs = samples.first().map_or(0, |sample| sample.shares.len());
    let shares = (0..legs).map(|leg| Figures::of(samples.iter().map(|one| one.shares[leg])).median);
    let shares = percents(&shares.collect::<Vec<f64>>());
    if !shares.is_empty() {
        let _ = write!(cell, "<br>{shares}");
    }
    cell
}

fn ratio(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.0}")
    }
}

/// Parts of a whole as people read them; nothing where there are none.
pub(super) fn percents(shares: &[f64]) -> String {
    let words: Vec<String> = shares
        .iter()
        .map(|share| format!("{:.0}", share * 100.0))
        .collect();
    if words.is_empty() {
        String::new()
    } else {
        format!("{} %", words.join(" : "))
    }
}

/// What several runs gave.
struct Figures {
    least: f64,
    median: f64,
    most: f64,
}

impl Figures {
    /// Of some; not numbers where there are none.
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().wrapping_sub(1);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        Self {
            least: at(0),
            median: at(last / 2).midpoint(at(last.div_ceil(2))),
            most: at(last),
        }
    }
}

/// Every sample, in the order in which it was taken.
pub(super) fn csv(samples: &[Sample]) -> String {
    let mut text = String::from("array;way;peer;job;iops;read_p99_ms;shares\n");
    for sample in samples {
        let shares: Vec<String> = sample
            .shares
            .iter()
            .map(|one| format!("{one:.4}"))
            .collect();
        let _ = writeln!(
            text,
            "{};{};{};{};{:.1};{};{}",
            sample.array,
            sample.way.name(),
            sample.peer,
            sample.job,
            sample.iops,
            sample
                .p99_ms
                .map_or_else(String::new, |ms| format!("{ms:.3}")),
            shares.join(" ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::drives::ARRAYS;
    use super::super::{Effort, Outcome, Plan, Sample, Way};
    use super::{Figures, csv, percents, summary};

    fn sample(peer: &str, iops: f64, shares: &[f64]) -> Sample {
        Sample {
            array: ARRAYS[0].name,
            way: Way::Guest,
            peer: peer.to_owned(),
            job: "random, depth 1",
            iops,
            p99_ms: Some(20.0),
            shares: shares.to_vec(),
        }
    }

    #[test]
    fn figures_are_ratios_to_the_median_of_the_first_drive() {
        let samples = vec![
            sample("hdd alone", 70.0, &[]),
            sample("md", 35.0, &[1.0, 0.0]),
            sample("hdd alone", 72.0, &[]),
            sample("md", 1420.0, &[0.5, 0.5]),
            sample("hdd alone", 71.0, &[]),
            sample("md", 71.0, &[0.2, 0.8]),
        ];
        let outcome = Outcome {
            samples,
            guest_kernel: "6.1".to_owned(),
            btrfs_policies: "[pid]".to_owned(),
        };
        let text = summary(&outcome, Plan::of(Effort::Quick));
        assert!(text.contains("| hdd alone | 1.00 (0.99-1.01) |"), "{text}");
        assert!(
            text.contains("| md | 1.00 (0.49-20)<br>50 : 50 % |"),
            "{text}"
        );
        let lines = csv(&outcome.samples);
        assert!(
            lines.contains("hdd+ssd;guest;md;random, depth 1;35.0;20.000;1.0000 0.0000\n"),
            "{lines}"
        );
    }

    #[test]
    fn the_middle_of_two_is_between_them() {
        let two = Figures::of([3.0, 1.0].into_iter());
        assert!((two.median - 2.0).abs() < 1e-9);
        assert!(Figures::of([].into_iter()).median.is_nan());
    }

    #[test]
    fn a_drive_alone_has_no_shares() {
        assert_eq!(percents(&[]), "");
        assert_eq!(percents(&[0.031, 0.969]), "3 : 97 %");
    }
}
