//! Points as a table, for a terminal and for a page.

use super::runner::{Tuned, Tuning};
use super::score::Scored;
use super::verdict::{DEFAULT, ranking};
use super::words::percent;
use crate::report::{TableStyle, TextCell, TextTable};

/// The points, the best first.
#[must_use]
pub fn ranked(tuned: &Tuned) -> Vec<&Scored> {
    let ranked = ranking(&tuned.points).into_iter();
    ranked.map(|place| &tuned.points[place]).collect()
}

/// A table of `points` in their order, with a star at what is as good as the best.
#[must_use]
pub fn points_table(
    tuning: &Tuning,
    tuned: &Tuned,
    points: &[&Scored],
    style: TableStyle,
) -> String {
    let has_several = tuning.on.names().len() > 1;
    let mut table = TextTable::new(style, header(tuning));
    let default = &tuned.points[DEFAULT].point;
    let is_best = |scored: &Scored| {
        let mut plateau = tuned.verdict.plateau.iter();
        plateau.any(|&place| tuned.points[place].point == scored.point)
    };
    for scored in points {
        let values = tuning.axes.iter().zip(&scored.point);
        let values = values.map(|(axis, &value)| axis.text(value));
        let mut row: Vec<TextCell> = values.map(|text| TextCell::number(&text)).collect();
        let mark = if scored.point == *default {
            "default"
        } else {
            ""
        };
        row.insert(0, TextCell::name(mark));
        row.push(TextCell::marked(&percent(scored.score), is_best(scored)));
        let spread = scored
            .spread()
            .map(|spread| format!("{:.1} %", spread * 100.0));
        row.push(TextCell::number(spread.as_deref().unwrap_or("-")));
        if has_several {
            let worst = scored.scenarios[scored.worst()].ratio;
            row.push(TextCell::number(&percent(worst)));
        }
        row.extend(scored.scenarios.iter().map(|scenario| {
            let shown = scenario.value.map(|value| tuning.objective.shown(value));
            TextCell::number(shown.as_deref().unwrap_or("-"))
        }));
        table.row(row);
    }
    table.finish()
}

fn header(tuning: &Tuning) -> Vec<String> {
    let mut header = vec![String::new()];
    let tunables = tuning.axes.iter().map(|axis| axis.tunable.name);
    header.extend(tunables.map(|name| broken(name, &['_'])));
    header.push("over the\ndefault".to_owned());
    header.push(format!("between\n{}s", tuning.on.repeated().0));
    if tuning.on.names().len() > 1 {
        header.push(format!("worst\n{}", tuning.on.word()));
    }
    let unit = tuning.objective.unit();
    let names = tuning.on.names().into_iter();
    header.extend(names.map(|name| format!("{}\n{unit}", broken(name, &['-', '_', ' ']))));
    header
}

/// A head is broken into lines of this length, where it has places to break it.
const HEAD_COLUMNS: usize = 13;

/// `name` in lines that end with one of `ends`.
fn broken(name: &str, ends: &[char]) -> String {
    let mut lines = String::new();
    let mut used = 0;
    for word in name.split_inclusive(ends) {
        let length = word.chars().count();
        if used > 0 && used + length > HEAD_COLUMNS {
            lines.push('\n');
            used = 0;
        }
        lines.push_str(word);
        used += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::broken;

    #[test]
    fn long_heads_are_broken_at_their_joints() {
        let broken = |name| broken(name, &['_']);
        assert_eq!(broken("tie"), "tie");
        assert_eq!(
            broken("roundrobin_rot_nonlocal_inc"),
            "roundrobin_\nrot_nonlocal_\ninc"
        );
        assert_eq!(broken("non_rotating_seek_inc"), "non_rotating_\nseek_inc");
        assert_eq!(broken("averyveryverylongone"), "averyveryverylongone");
    }
}
