//! The matrix as one page: heat maps of cells, targets, all policies beside each other, and every
//! cell with all its figures.

use std::path::{Path, PathBuf};

use super::cells::Cell;
use super::data;
use super::judge::{Judged, Row};
use super::parts::{ARRAYS, Class, LOADS, WRONGS};
use super::summary::{Standing, standings};
use super::targets::{TAIL_MAX, Target, class_mean};
use super::words::{beside_limit, figure, p999};
use crate::report::{Page, escaped, format, write_directory};

/// What this page needs besides: it is as wide as the map, and cells have colours. Blue is better
/// and orange worse, which everybody can tell apart; every cell says its number too.
pub(super) const STYLE: &str = "
body { max-width: 84rem; }
.map { overflow-x: auto; }
.map table { border-collapse: separate; border-spacing: 2px; font-size: .8rem; margin: .6rem 0; }
.map th { font-weight: 500; border: 0; padding: .1rem .4rem; white-space: nowrap; }
.map thead th { text-align: center; vertical-align: bottom; white-space: normal;
  line-height: 1.2; max-width: 5.6rem; overflow-wrap: normal; }
.map th.group { padding-top: .7rem; font-weight: 600; color: var(--ink); }
.map td { border: 0; padding: 0; min-width: 3.7rem; text-align: center; border-radius: 3px; }
.map td a { display: block; padding: .22rem .2rem; text-decoration: none; line-height: 1.25; }
.map td b { font-weight: 600; font-variant-numeric: tabular-nums; }
.map td small { display: block; opacity: .75; font-size: .68rem;
  font-variant-numeric: tabular-nums; }
p.key { max-width: none; display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; font-size: .85rem;
  color: var(--quiet); padding: 0; }
.key span { display: inline-flex; align-items: center; gap: .4rem; }
.key i { width: 1.7rem; height: 1rem; border-radius: 3px; }
.much-better { background: #0072b2; color: #fff; }
.better { background: rgba(0, 114, 178, .45); }
.bit-better { background: rgba(86, 180, 233, .28); }
.same { background: rgba(128, 128, 128, .13); }
.bit-worse { background: rgba(230, 159, 0, .3); }
.worse { background: rgba(230, 130, 0, .68); }
.much-worse { background: #c64600; color: #fff; }
.tail::after { content: '*'; }
.met { color: #0072b2; font-weight: 600; }
.missed { color: #d55e00; font-weight: 600; }
tr.judged td { font-weight: 600; }
details { margin: .2rem 0; }
details table { font-size: .8rem; margin: .3rem 0 1rem; }
details td, details th { padding: .1rem .7rem .1rem 0; }
summary b { color: var(--ink); font-weight: 500; }
:target { font-weight: 600; }
";

/// Writes the page and `report.json` into `directory`. Answers the path of the page.
///
/// # Errors
/// Where the directory cannot be made or written, or holds a page that is no report.
pub fn write_matrix_report(
    directory: &Path,
    judged: &[Judged],
    targets: &[Target],
    command: &str,
) -> anyhow::Result<PathBuf> {
    let data = data::json(judged, targets, command);
    write_directory(directory, &page(judged, targets, command), &data)?;
    Ok(directory.join("index.html"))
}

/// The page.
pub(super) fn page(judged: &[Judged], targets: &[Target], command: &str) -> String {
    let of = judged.first().map_or("", |cell| &cell.mine().policy);
    let mut page = Page::with_style(&format!("heliostat: {of} beside all others"), STYLE);
    page.html(&format!("<h1>{}, beside all others</h1>\n", escaped(of)));
    page.sentences(&sentences(judged, of));
    page.html("<h2>What it is held to</h2>\n");
    page.html(&target_table(targets));
    page.html(&missed_lists(targets));
    page.html("<h2>Where nothing is wrong</h2>\n");
    page.html(&key(of));
    page.html(&healthy_map(judged));
    let has_faults = judged.iter().any(|cell| !cell.cell.is_healthy());
    if has_faults {
        page.html("<h2>With a fault of one leg</h2>\n");
        page.html(&fault_map(judged));
    }
    page.html("<h2>All policies</h2>\n");
    page.html(&policy_table(judged, of));
    page.html("<h2>All cells</h2>\n");
    page.html(&all_cells(judged));
    page.html("<h2>Where this comes from</h2>\n");
    page.definitions(&[
        ("command", command.to_owned()),
        ("heliostat", env!("CARGO_PKG_VERSION").to_owned()),
        ("cells", judged.len().to_string()),
    ]);
    page.html("<p>The figures are in <a href=\"report.json\">report.json</a> too.</p>\n");
    page.finish()
}

fn sentences(judged: &[Judged], of: &str) -> Vec<String> {
    let compared: Vec<(&Judged, f64)> = judged
        .iter()
        .filter_map(|cell| Some((cell, cell.to_best?)))
        .collect();
    let mut said = Vec::new();
    if let Some((worst, ratio)) = compared
        .iter()
        .copied()
        .reduce(|worst, other| if other.1 < worst.1 { other } else { worst })
    {
        let near = compared.iter().filter(|(_, ratio)| *ratio >= 0.99).count();
        let best = worst.best.map_or("", |best| &worst.rows[best].policy);
        said.push(format!(
            "In {near} of {} cells '{of}' does at least 0.99 of the best other policy; least in \
             {}: {ratio:.3} of '{best}'.",
            compared.len(),
            worst.cell.name(),
        ));
    }
    // With a fault that comes and goes the rate moves because it has to.
    let steady = judged.iter().filter(|cell| cell.cell.phase().is_none());
    let known = steady.map(|cell| (cell, cell.mine().precision));
    if let Some((worst, precision)) = known.reduce(|a, b| if b.1 > a.1 { b } else { a }) {
        said.push(format!(
            "Its rates are known to {:.1} % and better, least in {}.",
            precision * 100.0,
            worst.cell.name()
        ));
    }
    let means = [Class::Random, Class::Stream, Class::Mixed]
        .map(|class| class_mean(judged, class).map(|mean| format!("{mean:.3} ({})", class.name())));
    let means: Vec<String> = means.into_iter().flatten().collect();
    if !means.is_empty() {
        let means = means.join(", ");
        said.push(format!("Of the oracle, on geometric average: {means}."));
    }
    said
}

fn target_table(targets: &[Target]) -> String {
    let mut html = String::from(
        "<table>\n<tr><th></th><th>target</th><th class=\"number\">met in</th>\
         <th>farthest from it</th></tr>\n",
    );
    for target in targets {
        let missed = target.missed();
        let (class, word) = if target.is_met() {
            ("met", "met")
        } else {
            ("missed", "missed")
        };
        let worst = missed.first().map_or_else(String::new, |looked| {
            escaped(&format!("{}: {}", looked.place, beside_limit(looked)))
        });
        html += &format!(
            "<tr><td class=\"{class}\">{word}</td><td>{}</td>\
             <td class=\"number\">{} of {}</td><td>{worst}</td></tr>\n",
            escaped(&target.title),
            target.count() - missed.len(),
            target.count(),
        );
    }
    html + "</table>\n"
}

/// Everything that misses a target which several may miss, or have missed.
fn missed_lists(targets: &[Target]) -> String {
    let mut html = String::new();
    for target in targets {
        let missed = target.missed();
        if missed.len() < 2 {
            continue;
        }
        html += &format!(
            "<details><summary>{} that miss: {}</summary>\n<table>\n",
            missed.len(),
            escaped(&target.title)
        );
        for looked in missed {
            html += &format!(
                "<tr><td>{}</td><td>{}</td></tr>\n",
                escaped(&looked.place),
                escaped(&beside_limit(looked))
            );
        }
        html += "</table></details>\n";
    }
    html
}

/// The colours by the least ratio that each stands for.
const LEVELS: [(f64, &str, &str); 7] = [
    (1.25, "much-better", "125 and more"),
    (1.05, "better", "105 to 125"),
    (1.01, "bit-better", "101 to 105"),
    (0.99, "same", "99 to 101"),
    (0.95, "bit-worse", "95 to 99"),
    (0.8, "worse", "80 to 95"),
    (0.0, "much-worse", "below 80"),
];

pub(super) fn level(ratio: f64) -> &'static str {
    let found = LEVELS.iter().find(|(least, _, _)| ratio >= *least);
    found.map_or("much-worse", |(_, class, _)| class)
}

fn key(of: &str) -> String {
    let mut html = format!(
        "<p>Each cell says what '{}' does, in percent of the best other policy; below it, small, \
         in percent of the oracle. A star: its slowest reads are slower by more than 5&nbsp;% than \
         those of somebody who does as much. Behind each cell are all its figures.</p>\n\
         <p class=\"key\">",
        escaped(of)
    );
    for (_, class, range) in LEVELS {
        html += &format!("<span><i class=\"{class}\"></i>{range}</span>");
    }
    html + "</p>\n"
}

/// Percent with a digit where it matters.
fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent >= 999.5 {
        format!("{} x", format::rate(ratio))
    } else if percent >= 199.5 {
        format!("{percent:.0}")
    } else {
        format!("{percent:.1}")
    }
}

/// A cell of a map; empty where nothing was run.
fn map_cell(found: Option<(usize, &Judged)>) -> String {
    let Some((index, cell)) = found else {
        return "<td></td>".to_owned();
    };
    let mine = cell.mine();
    let Some(ratio) = cell.to_best else {
        return format!(
            "<td><a href=\"#cell{index}\"><small>{}</small></a></td>",
            figure(mine)
        );
    };
    let tail = cell.tail.as_ref().filter(|tail| tail.ratio > TAIL_MAX);
    let star = if tail.is_some() { " tail" } else { "" };
    let best = cell.best.map(|best| &cell.rows[best]);
    let best = best.map_or_else(String::new, |best| {
        format!("{} {}", best.policy, figure(best))
    });
    let tail = tail.map_or_else(String::new, |tail| {
        format!("; p99.9 {:.2} times that of {}", tail.ratio, tail.policy)
    });
    let title = format!(
        "{}: {} {}; best other: {best}{tail}",
        cell.cell.name(),
        mine.policy,
        figure(mine)
    );
    let oracle = cell.to_oracle.map_or_else(String::new, |ratio| {
        format!("<small>{:.0}</small>", ratio * 100.0)
    });
    let back = mine.rehabilitation.map_or_else(String::new, |share| {
        format!("<small>back {:.0}</small>", share * 100.0)
    });
    format!(
        "<td class=\"{}\" title=\"{}\"><a href=\"#cell{index}\"><b class=\"{}\">{}</b>{oracle}\
         {back}</a></td>",
        level(ratio),
        escaped(&title),
        star.trim(),
        percent(ratio),
    )
}

/// The first cell for which `is_it` holds, with its place.
fn find(judged: &[Judged], is_it: impl Fn(&Cell) -> bool) -> Option<(usize, &Judged)> {
    let mut cells = judged.iter().enumerate();
    cells.find(|(_, cell)| is_it(&cell.cell))
}

/// Loads by arrays.
fn healthy_map(judged: &[Judged]) -> String {
    let healthy = |cell: &Cell, array: &str, load: &str| {
        cell.is_healthy() && cell.array.name == array && cell.load.name == load
    };
    let arrays = ARRAYS.iter().filter(|array| {
        find(judged, |cell| {
            cell.is_healthy() && cell.array.name == array.name
        })
        .is_some()
    });
    let arrays: Vec<_> = arrays.collect();
    let mut html = String::from("<div class=\"map\"><table>\n<thead><tr><th></th>");
    for array in &arrays {
        html += &format!("<th>{}</th>", escaped(array.title));
    }
    html += "</tr></thead>\n";
    for class in [Class::Random, Class::Stream, Class::Mixed] {
        let of_class = LOADS.iter().filter(|load| load.class == class);
        let rows = of_class.filter(|load| {
            find(judged, |cell| {
                cell.is_healthy() && cell.load.name == load.name
            })
            .is_some()
        });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            continue;
        }
        html += &format!("<tr><th class=\"group\">{}</th></tr>\n", class.name());
        for load in rows {
            html += &format!("<tr><th>{}</th>", escaped(load.title));
            for array in &arrays {
                let found = find(judged, |cell| healthy(cell, array.name, load.name));
                html += &map_cell(found);
            }
            html += "</tr>\n";
        }
    }
    html + "</table></div>\n"
}

/// Arrays with their loads by faults.
fn fault_map(judged: &[Judged]) -> String {
    let wrongs = WRONGS.iter().filter(|wrong| !wrong.text.is_empty());
    let wrongs =
        wrongs.filter(|wrong| find(judged, |cell| cell.wrong.name == wrong.name).is_some());
    let wrongs: Vec<_> = wrongs.collect();
    let mut html = String::from(
        "<p>Below the percent of the oracle, 'back': what was done in the five seconds after the \
         fault, in percent of full speed after a grace.</p>\n\
         <div class=\"map\"><table>\n<thead><tr><th></th>",
    );
    for wrong in &wrongs {
        html += &format!("<th>{}</th>", with_units(wrong.title));
    }
    html += "</tr></thead>\n";
    for array in ARRAYS {
        for load in LOADS {
            let here = |cell: &Cell| {
                !cell.is_healthy() && cell.array.name == array.name && cell.load.name == load.name
            };
            if find(judged, here).is_none() {
                continue;
            }
            let name = format!("{}: {}", array.title, load.title);
            html += &format!("<tr><th>{}</th>", escaped(&name));
            for wrong in &wrongs {
                let found = find(judged, |cell| here(cell) && cell.wrong.name == wrong.name);
                html += &map_cell(found);
            }
            html += "</tr>\n";
        }
    }
    html + "</table></div>\n"
}

/// A text whose numbers are not parted from their units.
fn with_units(text: &str) -> String {
    let mut html = String::new();
    for word in text.split(' ') {
        let gap = match word {
            _ if html.is_empty() => "",
            "s" | "ms" => "&nbsp;",
            _ => " ",
        };
        html += gap;
        html += &escaped(word);
    }
    html
}

/// How each policy does over all cells.
fn policy_table(judged: &[Judged], of: &str) -> String {
    let mut html = String::from(
        "<p>In how many cells each policy does at least 0.99 of the best of all, its geometric \
         mean beside that best, and where it is farthest from it; beside the oracle by class, \
         where more counts as 1.</p>\n<table>\n<tr><th>policy</th>\
         <th class=\"number\">as good as the best</th><th class=\"number\">mean</th>\
         <th class=\"number\">worst</th><th>there</th><th class=\"number\">random</th>\
         <th class=\"number\">streams</th><th class=\"number\">mixed</th></tr>\n",
    );
    for standing in standings(judged) {
        html += &standing_row(&standing, of);
    }
    html + "</table>\n"
}

fn standing_row(standing: &Standing, of: &str) -> String {
    let class = if standing.policy == of {
        " class=\"judged\""
    } else {
        ""
    };
    let numbers = standing.to_oracle.map(|mean| {
        let mean = mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.3}"));
        format!("<td class=\"number\">{mean}</td>")
    });
    format!(
        "<tr{class}><td>{}</td><td class=\"number\">{} of {}</td><td class=\"number\">{:.3}</td>\
         <td class=\"number\">{:.3}</td><td>{}</td>{}</tr>\n",
        escaped(&standing.policy),
        standing.near,
        standing.cells,
        standing.mean,
        standing.worst,
        escaped(&standing.worst_cell),
        numbers.concat(),
    )
}

/// Every cell with all its figures, array by array.
fn all_cells(judged: &[Judged]) -> String {
    let mut html = String::new();
    for array in ARRAYS {
        let cells = judged.iter().enumerate();
        let cells = cells.filter(|(_, cell)| cell.cell.array.name == array.name);
        let cells: Vec<String> = cells.map(|(at, cell)| cell_details(at, cell)).collect();
        if !cells.is_empty() {
            html += &format!("<h3>{}</h3>\n{}", escaped(array.title), cells.concat());
        }
    }
    html
}

/// A cell with all policies, the best first. What links lead to is inside, so that it opens.
fn cell_details(index: usize, cell: &Judged) -> String {
    let mut rows: Vec<&Row> = cell.rows.iter().collect();
    let total = |row: &Row| row.total_beside(cell.mine());
    rows.sort_by(|a, b| total(b).total_cmp(&total(a)));
    let ratio = cell.to_best.map_or_else(String::new, |ratio| {
        format!(": {} % of the best other", percent(ratio))
    });
    let phases = match cell.mine().during {
        Some(_) => "<th class=\"number\">in the fault, %</th><th class=\"number\">back, %</th>",
        None => "",
    };
    let mut html = format!(
        "<details><summary><b>{}</b>{ratio}</summary>\n<p id=\"cell{index}\">{}: {}; {}.</p>\n\
         <table><tr><th>policy</th><th class=\"number\">does</th><th class=\"number\">+-</th>\
         <th class=\"number\">mean ms</th><th class=\"number\">p99</th>\
         <th class=\"number\">p99.9</th><th class=\"number\">max</th>\
         <th class=\"number\">reads by leg, %</th><th class=\"number\">extra, %</th>{phases}\
         </tr>\n",
        escaped(&cell.cell.name()),
        escaped(cell.cell.array.title),
        escaped(cell.cell.load.title),
        escaped(cell.cell.wrong.title),
    );
    for row in rows {
        html += &detail_row(row, row.policy == cell.mine().policy);
    }
    html + "</table></details>\n"
}

fn detail_row(row: &Row, is_judged: bool) -> String {
    let number = |text: String| format!("<td class=\"number\">{text}</td>");
    let times = |quantile: u64| {
        let jobs = row.jobs.iter();
        let longest = jobs.map(|job| job.reads.quantile(quantile)).max();
        number(format::milliseconds(longest.unwrap_or(0)))
    };
    let mean = row
        .jobs
        .iter()
        .map(|job| job.mean_s * 1e9)
        .fold(0.0, f64::max);
    let most = row.jobs.iter().map(|job| job.reads.max()).max();
    let shares: Vec<String> = row
        .shares
        .iter()
        .map(|s| format!("{:.0}", s * 100.0))
        .collect();
    let share = |share: Option<f64>| {
        share.map_or_else(String::new, |share| number(format!("{:.1}", share * 100.0)))
    };
    let class = if is_judged { " class=\"judged\"" } else { "" };
    [
        format!("<tr{class}><td>{}</td>", escaped(&row.policy)),
        number(figure(row)),
        number(format!("{:.2} %", row.precision * 100.0)),
        number(format!("{:.3}", mean / 1e6)),
        times(9_900),
        number(format::milliseconds(p999(row))),
        number(format::milliseconds(most.unwrap_or(0))),
        number(shares.join(" ")),
        number(format!("{:.2}", row.extra * 100.0)),
        share(row.during),
        share(row.rehabilitation),
        "</tr>\n".to_owned(),
    ]
    .concat()
}
