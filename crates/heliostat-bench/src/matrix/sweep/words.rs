//! A sweep in lines of text.

use heliostat_policy::{ConstantInfo, ConstantUnit};

use super::{Point, Sweep, Swept, SweptConstant};

/// How wide the columns are.
const NAME: usize = 28;
const VALUE: usize = 9;
const RATIO: usize = 7;
const CELL: usize = 40;

/// What stands above [`constant_line`]s.
#[must_use]
pub fn sweep_head(sweep: &Sweep) -> String {
    let factors = sweep.factors.iter().map(|factor| format!("x{factor}"));
    let factors: String = factors.map(|factor| format!("{factor:>RATIO$}")).collect();
    format!(
        "{:NAME$}{:>VALUE$}{factors}  {:CELL$}{}",
        "constant", "value", "worst", "p99.9"
    )
}

/// A constant in one line: its value, the mean over the cells at each factor, the cell that comes
/// off worst and the one whose p99.9 does.
#[must_use]
pub fn constant_line(swept: &SweptConstant, sweep: &Sweep) -> String {
    let name = |cell: usize| sweep.cells[cell].name();
    let means = swept
        .points
        .iter()
        .map(|point| format!("{:>RATIO$.3}", point.mean()));
    let means: String = means.collect();
    let (worst, tail) = if swept.read_in == 0 {
        ("not read".to_owned(), String::new())
    } else {
        (
            place(swept.worst(), |point| point.worst(), name),
            place(swept.tail(), |point| point.tail(), name),
        )
    };
    let line = format!(
        "{:NAME$}{:>VALUE$}{means}  {worst:CELL$}{tail}",
        swept.constant.name,
        value_text(swept.constant, swept.constant.value),
    );
    line.trim_end().to_owned()
}

/// A ratio, at which factor, and in which cell.
pub(super) fn place(
    point: Option<&Point>,
    of: impl Fn(&Point) -> (usize, f64),
    name: impl Fn(usize) -> String,
) -> String {
    let Some(point) = point else {
        return "-".to_owned();
    };
    let (cell, ratio) = of(point);
    if ratio == 1.0 {
        return "-".to_owned();
    }
    format!("{ratio:.3} x{} {}", point.factor, name(cell))
}

/// A value of a constant with its unit.
pub(super) fn value_text(constant: &ConstantInfo, value: f64) -> String {
    const KIB: f64 = 1024.0;
    let (number, unit) = match constant.unit {
        ConstantUnit::Time if value < 1e3 => (value, " ns"),
        ConstantUnit::Time if value < 1e6 => (value / 1e3, " us"),
        ConstantUnit::Time if value < 1e9 => (value / 1e6, " ms"),
        ConstantUnit::Time => (value / 1e9, " s"),
        ConstantUnit::Bytes if value % (KIB * KIB) == 0.0 => (value / KIB / KIB, " MiB"),
        ConstantUnit::Bytes => (value / KIB, " KiB"),
        ConstantUnit::Number | ConstantUnit::Times | ConstantUnit::Count => (value, ""),
    };
    if number < 1e-3 {
        return format!("{number:.2e}{unit}");
    }
    let number = format!("{number:.4}");
    let number = number.trim_end_matches('0').trim_end_matches('.');
    format!("{number}{unit}")
}

/// What the sweep says of all constants together.
#[must_use]
pub fn sweep_summary(swept: &Swept) -> String {
    let read: Vec<&SweptConstant> = swept
        .constants
        .iter()
        .filter(|one| one.read_in > 0)
        .collect();
    let sharp: Vec<&SweptConstant> = read.iter().copied().filter(|one| !one.is_flat()).collect();
    let mut text = format!(
        "{} of {} constants can be halved and doubled: means over {} cells of {} and more, no \
         cell below {}, no p99.9 above {} times\n",
        read.len() - sharp.len(),
        read.len(),
        swept.cells.len(),
        super::MEAN_MIN,
        super::CELL_MIN,
        super::TAIL_MAX,
    );
    if read.len() < swept.constants.len() {
        let others = swept.constants.iter().filter(|one| one.read_in == 0);
        let others: Vec<&str> = others.map(|one| one.constant.name).collect();
        text += &format!("not read in any cell: {}\n", others.join(", "));
    }
    for constant in sharp {
        text += &format!("sharp: {}\n", lost(swept, constant));
    }
    for constant in read {
        for point in constant.better() {
            text += &format!(
                "better: {} = {}: {:.3}, and {:.3} in the worst cell\n",
                constant.constant.name,
                value_text(constant.constant, point.value),
                point.mean(),
                point.worst().1,
            );
        }
    }
    text
}

/// What is lost where a constant is halved or doubled.
pub(super) fn lost(swept: &Swept, constant: &SweptConstant) -> String {
    let name = |cell: usize| swept.cells[cell].clone();
    let points = constant.near().filter(|point| !point.is_flat());
    let points = points.map(|point| {
        format!(
            "at {} mean {:.3}, {:.3} in {}, p99.9 {:.2} times in {}",
            value_text(constant.constant, point.value),
            point.mean(),
            point.worst().1,
            name(point.worst().0),
            point.tail().1,
            name(point.tail().0),
        )
    });
    let points: Vec<String> = points.collect();
    let value = value_text(constant.constant, constant.constant.value);
    format!(
        "{} = {value}: {}",
        constant.constant.name,
        points.join("; ")
    )
}
