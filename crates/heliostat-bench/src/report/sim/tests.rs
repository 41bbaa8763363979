use std::sync::LazyLock;

use expect_test::expect;
use heliostat_policy::PolicySpec;
use heliostat_sim::{Effect, Fault, Fidelity, Job, RunResult, Rw, Scenario, run};
use heliostat_types::Duration;

use super::{RateUnit, SimRun, groups, page, report_json, table};

/// A scenario whose names are not nice, with a fault in the middle.
fn scenario(name: &str, rw: Rw, bs_bytes: u64) -> Scenario {
    let mut scenario = Scenario::new(name, &["ram", "net-ssd", "ram"], 64 << 20).unwrap();
    scenario.seconds = Duration::from_ms(100);
    scenario.warmup_seconds = Duration::from_ms(10);
    scenario.fidelity = Fidelity::Stamps;
    scenario.array.legs[2].model = "<b>ram & more</b>".to_owned();
    scenario.jobs.push(Job {
        name: "<script>alert(1)</script>".to_owned(),
        rw,
        bs_bytes,
        iodepth: 2,
        ..Job::default()
    });
    let [at, until] = [40, 60].map(Duration::from_ms);
    let slow = Fault::new(1, Effect::Slow(10_000)).between(at, until);
    scenario.faults.push(slow);
    scenario
}

/// Two scenarios under three policies each.
static RUNS: LazyLock<Vec<(Scenario, Vec<RunResult>)>> = LazyLock::new(|| {
    let scenarios = [
        scenario("<i>mixed</i>", Rw::RandRw, 4096),
        scenario("large", Rw::Read, 1 << 20),
    ];
    let played = scenarios.into_iter().map(|scenario| {
        let play = |policy| {
            let policy = PolicySpec::parse(policy).unwrap();
            run(&scenario, &policy, &mut |_| ()).unwrap()
        };
        let results = ["pid", "queue", "round-robin"].map(play).to_vec();
        (scenario, results)
    });
    played.collect()
});

fn runs() -> Vec<SimRun<'static>> {
    let runs = RUNS.iter().flat_map(|(scenario, results)| {
        results
            .iter()
            .map(move |result| SimRun { scenario, result })
    });
    runs.collect()
}

#[test]
fn names_from_files_are_text() {
    let page = page(&runs(), "heliostat sim <img src=x>");
    for markup in ["<script", "<i>", "<b>", "<img"] {
        assert!(!page.contains(markup), "{markup}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn runs_of_one_scenario_stand_together() {
    let runs = runs();
    let sizes: Vec<usize> = groups(&runs).iter().map(|group| group.len()).collect();
    assert_eq!(sizes, [3, 3]);
    let page = page(&runs, "");
    assert!(page.contains("<h2 id=\"s0\">&lt;i&gt;mixed") && page.contains("<h2 id=\"s1\">large"));
    assert_eq!(
        page.matches("<svg ").count(),
        page.matches("</svg>").count()
    );
}

#[test]
fn large_requests_are_told_in_bytes() {
    let runs = runs();
    let groups = groups(&runs);
    assert_eq!(RateUnit::of(groups[0]), RateUnit::Iops);
    assert_eq!(RateUnit::of(groups[1]), RateUnit::MibPerSecond);
}

#[test]
fn no_runs_and_runs_without_requests_make_a_page() {
    assert!(page(&[], "").contains("Scenarios under read policies"));
    let mut scenario = Scenario::new("short", &["net-ssd"; 2], 1 << 20).unwrap();
    // Less than any request takes.
    scenario.warmup_seconds = Duration::ZERO;
    scenario.seconds = Duration::from_us(10);
    scenario.jobs.push(Job::default());
    let policy = PolicySpec::parse("pid").unwrap();
    let result = run(&scenario, &policy, &mut |_| ()).unwrap();
    let run = SimRun {
        scenario: &scenario,
        result: &result,
    };
    assert!(page(&[run], "").contains("none"));
    assert_eq!(report_json(&[run], "x")["runs"][0]["read"]["ios"], 0);
}

#[test]
fn a_scenario_is_told_in_words() {
    let words = super::words::scenario(&RUNS[0].0);
    let text: Vec<String> = words
        .into_iter()
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    expect![[r#"
        array: 64 MiB
        leg: leg 0: ram
        leg: leg 1: net-ssd
        leg: leg 2: <b>ram & more</b>
        job: <script>alert(1)</script>: random reads (50 %) and writes of 4 KiB, 2 in flight
        fault: leg 1 takes 10 times as long, from 0.04 s to 0.06 s
        measured: 0.1 s, after 0.01 s of warm-up
        seed: 1
    "#]]
    .assert_eq(&text.concat());
}

#[test]
fn the_table_has_all_figures() {
    let runs = runs();
    let groups = groups(&runs);
    let ranked: Vec<&SimRun<'_>> = groups[0].iter().collect();
    let table = table(&ranked, &super::sides(groups[0]), RateUnit::Iops);
    // Wider than a source line: without its padding.
    let words = table.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.join(" ").replace(&"-".repeat(100), "") + "\n"
    });
    expect![[r#"
        policy reads mean p50 p99 p99.9 max writes mean p50 p99 p99.9 max errors
        IOPS ms ms ms ms ms IOPS ms ms ms ms ms
        -------------------------------------------------
        pid 2,900 0.001 0.001 0.001 0.001 0.001 2,700 0.738 0.565 5.83 7.10 7.10 0
        queue 2,900 0.001 0.001 0.001 0.001 0.001 2,700 0.739 0.565 5.83 7.01 7.07 0
        round-robin:262144 2,160 0.272 0.001 4.52 4.78 4.80 2,060 0.684 0.565 5.83 7.01 7.06 0
    "#]]
    .assert_eq(&words.collect::<String>());
}
