//! Forecasts on legs that are named drives.

use std::path::Path;

use heliostat_model::drive;
use heliostat_model::fit::{Sample, fit, probes, run_probe};
use heliostat_types::Duration;

use super::{Forecast, ForecastLeg, Knob, Load, System, forecast, knobs, ranks, scenario_text};
use crate::scenario::ScenarioFile;

/// A drive with the model that is fitted to it.
fn leg(name: &str) -> ForecastLeg {
    let params = drive(name).unwrap().params;
    let all = probes(params.size_bytes()).into_iter();
    let samples: Vec<Sample> = all
        .map(|probe| {
            let look = run_probe(&params, probe, Duration::from_ms(100), 5);
            let seconds = (1_000.0 / look.rate().max(10.0)).min(2.0);
            run_probe(&params, probe, Duration::from_secs_f64(seconds), 5)
        })
        .collect();
    ForecastLeg {
        name: name.to_owned(),
        fit: fit(params.size_bytes(), &samples).unwrap(),
    }
}

fn told(legs: &[ForecastLeg], is_over: &(dyn Fn() -> bool + Sync)) -> Forecast {
    let mut knobs = knobs(legs, &["adaptive".to_owned()]);
    // The rest takes its time and shows nothing else.
    let wanted = [System::Heliostat, System::Md];
    let is_wanted =
        |knob: &Knob| wanted.contains(&knob.system()) || matches!(knob, Knob::BtrfsPid { .. });
    knobs.retain(is_wanted);
    knobs.retain(|knob| *knob != Knob::MdRaid10 { far: true });
    forecast(legs, &knobs, 2, is_over, |_, _| ()).unwrap()
}

fn iops(forecast: &Forecast, knob: &Knob, load: Load) -> f64 {
    let mut rows = forecast.rows.iter();
    let row = rows.find(|row| row.knob == *knob).unwrap();
    let load = Load::ALL.iter().position(|one| *one == load).unwrap();
    row.cells[load].unwrap().iops
}

#[test]
fn a_mixed_mirror_is_told_what_helps_it() {
    let legs = [leg("hdd-7200-2tb"), leg("ssd-sata-256gb")];
    let forecast = told(&legs, &|| false);
    assert_eq!((forecast.fastest, forecast.slow.as_slice()), (1, &[0][..]));
    assert!(forecast.is_whole());
    let plain = Knob::Md {
        write_mostly: false,
    };
    let write_mostly = Knob::Md { write_mostly: true };
    let one = Load::Random(1);
    let (bad, good) = (
        iops(&forecast, &plain, one),
        iops(&forecast, &write_mostly, one),
    );
    assert!(good > 50.0 * bad, "md: {bad} and {good}");
    assert!((8_000.0..9_500.0).contains(&good), "as the SSD: {good}");
    // raid10 reads flash alone where there is any.
    let near = iops(&forecast, &Knob::MdRaid10 { far: false }, one);
    assert!((0.95..1.05).contains(&(near / good)), "{near} and {good}");
    let best = forecast.best(System::Md).unwrap();
    assert_eq!(best.knob, write_mostly, "and raid10 is not better by much");
    let luck = |leg| iops(&forecast, &Knob::BtrfsPid { leg }, one);
    assert!(luck(1) > 50.0 * luck(0), "{} and {}", luck(0), luck(1));
    let ours = forecast.best(System::Heliostat).unwrap().score.unwrap();
    assert!(ours > 0.8, "{ours}");
}

#[test]
fn what_there_is_no_time_for_is_left_out() {
    let forecast = told(&[leg("ssd-sata-256gb"), leg("ssd-sata-1tb")], &|| true);
    assert!(!forecast.is_whole());
    assert!(forecast.rows.iter().all(|row| row.score.is_none()));
    assert!(forecast.best(System::Md).is_none());
}

#[test]
fn raid10_of_three_legs_has_one_and_a_half() {
    let legs = [leg("ssd-sata-256gb"), leg("ssd-sata-1tb"), leg("net-ssd")];
    let of = |knob: &Knob| super::shape(&legs, knob).unwrap().1;
    let mirror = of(&Knob::Md {
        write_mostly: false,
    });
    let near = of(&Knob::MdRaid10 { far: false });
    assert!(
        (1.45..1.55).contains(&(near as f64 / mirror as f64)),
        "{near} of {mirror}"
    );
    let far = super::run_of(&legs, &Knob::MdRaid10 { far: true }, Load::Random(1)).unwrap();
    assert_eq!(far.scenario.check(), Ok(()));
}

#[test]
fn alike_legs_have_no_slow_one() {
    let legs = [
        leg("ssd-sata-256gb"),
        leg("ssd-sata-256gb"),
        leg("ssd-sata-1tb"),
    ];
    assert!(ranks(&legs).1.is_empty());
    let knobs = knobs(&legs, &[]);
    let knobs: Vec<String> = knobs.iter().map(Knob::name).collect();
    assert!(
        !knobs.iter().any(|name| name.contains("write-mostly")),
        "{knobs:?}"
    );
    assert!(
        !knobs.iter().any(|name| name.contains("seek_inc")),
        "{knobs:?}"
    );
}

#[test]
fn what_is_saved_is_a_scenario_with_the_same_models() {
    let legs = [leg("hdd-7200-2tb"), leg("ssd-sata-256gb"), leg("net-ssd")];
    let text = scenario_text(&legs);
    let file = ScenarioFile::parse(Path::new("advised.toml"), &text).unwrap();
    for (leg, spec) in legs.iter().zip(&file.scenario.array.legs) {
        assert_eq!(spec.params, leg.fit.params);
    }
    assert!(!file.description.is_empty());
    assert_eq!(file.policies.len(), 3);
}
