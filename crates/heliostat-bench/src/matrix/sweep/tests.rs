use super::report::page;
use super::words::value_text;
use super::{Beside, Cell, Point, Sweep, Swept, SweptConstant, constant_line, sweep_summary};

fn sweep(cells: &[&str], constants: &[&str], factors: &[&str]) -> Sweep {
    Sweep {
        cells: Sweep::cells(cells).unwrap(),
        constants: Sweep::constants(constants).unwrap(),
        factors: Sweep::factors(factors).unwrap(),
        seeds: 1,
    }
}

/// What comes of it on so many threads, and all that is told.
fn swept(sweep: &Sweep, threads: usize) -> (Swept, String) {
    let mut told = String::new();
    let swept = sweep
        .run(threads, |one| told += &(constant_line(one, sweep) + "\n"))
        .unwrap();
    told += &(sweep_summary(&swept) + &page(&swept, "command"));
    (swept, told)
}

#[test]
fn a_constant_that_does_nothing_changes_nothing_and_one_that_matters_does() {
    let constants = [
        "health.PATIENCE_TIMES",
        "choice.SPILL_READS",
        "late.RECALLED",
    ];
    let sweep = sweep(&["2nvme/4k-d1/x30-1s"], &constants, &["0.5", "2"]);
    let (swept, told) = swept(&sweep, 2);
    for one in &swept.constants {
        let cells: Vec<Beside> = one.points.iter().map(|point| point.cells[0]).collect();
        let is_read = one.constant.name == "health.PATIENCE_TIMES";
        assert_eq!(one.read_in, usize::from(is_read), "{}", one.constant.name);
        assert_eq!(cells != [Beside::SAME; 2], is_read, "{}", one.constant.name);
    }
    assert!(told.contains("not read"), "{told}");
}

#[test]
fn threads_change_no_byte() {
    let sweep = sweep(
        &["2nvme/1stream", "3hdd/4k-d1"],
        &["ASKED_BYTES"],
        &["0.25"],
    );
    let (_, told) = swept(&sweep, 1);
    assert_eq!(told, swept(&sweep, 2).1);
    assert!(told.contains("<svg") && !told.contains("<script"));
}

/// A constant that is read, at these factors with these scores and tails by cell.
fn judged(points: &[(f64, [(f64, f64); 2])]) -> SweptConstant {
    let constant = Sweep::constants(&["choice.BAND"]).unwrap()[0];
    let points = points.iter().map(|(factor, cells)| Point {
        factor: *factor,
        value: constant.scaled(*factor),
        cells: cells.map(|(score, tail)| Beside { score, tail }).to_vec(),
    });
    SweptConstant {
        constant,
        read_in: 2,
        points: points.collect(),
    }
}

#[test]
fn means_worst_cells_and_tails_are_those_of_the_figures() {
    let one = judged(&[
        (0.5, [(0.5, 1.0), (2.0, 3.0)]),
        (2.0, [(1.0, 1.5), (0.81, 1.0)]),
    ]);
    assert_eq!(one.points[0].mean(), 1.0);
    assert!((one.points[1].mean() - 0.9).abs() < 1e-12);
    assert_eq!(
        one.points.iter().map(Point::worst).collect::<Vec<_>>(),
        [(0, 0.5), (1, 0.81)]
    );
    assert_eq!(
        one.points.iter().map(Point::tail).collect::<Vec<_>>(),
        [(1, 3.0), (0, 1.5)]
    );
    assert_eq!(one.worst().map(|point| point.factor), Some(0.5));
    assert_eq!(one.tail().map(|point| point.factor), Some(0.5));
    let sweep = sweep(
        &["2nvme/4k-d1", "3hdd/4k-d1"],
        &["choice.BAND"],
        &["0.5", "2"],
    );
    assert_eq!(
        constant_line(&one, &sweep),
        "choice.BAND                      1.05  1.000  0.900  \
         0.500 x0.5 3hdd/4k-d1                   3.000 x0.5 2nvme/4k-d1"
    );
}

#[test]
fn what_is_lost_between_a_half_and_twice_is_sharp_and_what_is_gained_is_told() {
    let flat = [(0.995, 1.2), (0.96, 1.0)];
    let is_flat = |points: &[(f64, [(f64, f64); 2])]| judged(points).is_flat();
    // The mean of 0.995 and 0.96 is below 0.99.
    assert!(!is_flat(&[(2.0, flat)]));
    assert!(is_flat(&[(2.0, [(1.03, 1.5), (0.96, 1.0)])]));
    assert!(!is_flat(&[(2.0, [(1.2, 1.0), (0.94, 1.0)])]));
    assert!(!is_flat(&[(0.5, [(1.0, 1.51), (1.0, 1.0)])]));
    assert!(is_flat(&[(4.0, flat), (0.25, flat)]), "farther away");
    let better = judged(&[(4.0, [(1.04, 1.0), (0.99, 1.0)])]);
    let swept = Swept {
        cells: vec!["a".to_owned(), "b".to_owned()],
        factors: vec![4.0],
        constants: vec![better, judged(&[(2.0, [(0.9, 1.0), (1.0, 1.5)])])],
    };
    assert_eq!(
        sweep_summary(&swept),
        "1 of 2 constants can be halved and doubled: means over 2 cells of 0.99 and more, no cell \
         below 0.95, no p99.9 above 1.5 times\n\
         sharp: choice.BAND = 1.05: at 1.1 mean 0.949, 0.900 in a, p99.9 1.50 times in b\n\
         better: choice.BAND = 1.2: 1.015, and 0.990 in the worst cell\n"
    );
}

#[test]
fn what_there_is_none_of_is_named() {
    let error = Sweep::constants(&["choice.BND"]).unwrap_err().to_string();
    assert!(
        error.contains("'choice.BND'") && error.contains("choice.BAND, "),
        "{error}"
    );
    let error = Sweep::cells(&["3hdd/4k-d5"]).unwrap_err().to_string();
    assert!(
        error.contains("'3hdd/4k-d5'") && error.contains("--list"),
        "{error}"
    );
    for factor in ["0", "-1", "x", "nan"] {
        let error = Sweep::factors(&["2", factor]).unwrap_err().to_string();
        assert!(error.contains(&format!("'{factor}'")), "{error}");
    }
    assert_eq!(Sweep::factors(&["2", "0.5", "2"]).unwrap(), [0.5, 2.0]);
    let modules = Sweep::constants(&["at_random", "BAND"]).unwrap();
    let names: Vec<&str> = modules.iter().map(|one| one.name).collect();
    assert_eq!(
        names,
        [
            "at_random.WINDOW",
            "at_random.WINDOW_READS",
            "at_random.WINDOW_MIN",
            "at_random.WINDOW_FLASH",
            "at_random.WINDOW_ANSWERS",
            "at_random.WAITING_MIN",
            "choice.BAND",
        ]
    );
    assert!(
        Sweep::cells(&[])
            .unwrap()
            .iter()
            .all(|cell: &Cell| !cell.has_one_leg())
    );
}

#[test]
fn values_have_their_units() {
    let text = |name: &str, factor: f64| {
        let constant = Sweep::constants(&[name]).unwrap()[0];
        value_text(constant, constant.scaled(factor))
    };
    assert_eq!(text("streams.ACTIVE", 1.0), "500 ms");
    assert_eq!(text("streams.ACTIVE", 4.0), "2 s");
    assert_eq!(text("read_ahead.ASKED_BYTES", 1.0), "4 MiB");
    assert_eq!(text("read_ahead.LONG_BYTES", 0.71), "44 KiB");
    assert_eq!(text("choice.BAND", 1.0), "1.05");
    assert_eq!(text("leg.LOAD_PER_BYTE_FLASH", 1.0), "1.22e-4");
}
