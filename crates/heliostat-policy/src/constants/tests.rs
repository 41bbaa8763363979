use std::collections::BTreeSet;

use super::{Constant, ConstantInfo, ConstantUnit, all_constants};

fn constant(name: &str) -> &'static ConstantInfo {
    let mut all = all_constants();
    all.find(|one| one.name == name).expect("a constant")
}

#[test]
fn constants_are_listed_once_with_their_modules_values_and_units() {
    let names: BTreeSet<&str> = all_constants().map(|one| one.name).collect();
    assert_eq!(names.len(), all_constants().count());
    let modules: BTreeSet<&str> = names
        .iter()
        .map(|name| name.split_once('.').expect("a module").0)
        .collect();
    let all = "arm at_random choice curve firsts health hedge held homes jumps keeping lags late \
               leg read_ahead recent spare split stalls streams tries waited worth";
    assert_eq!(modules, all.split(' ').collect());
    let known = [
        ("choice.BAND", f64::from(1.05_f32), ConstantUnit::Times),
        ("streams.ACTIVE", 5e8, ConstantUnit::Time),
        ("leg.LATE_FLASH_NS", 3e4, ConstantUnit::Time),
        ("read_ahead.ASKED_BYTES", 4_194_304.0, ConstantUnit::Bytes),
        ("health.ROUNDS_MIN", 2.0, ConstantUnit::Count),
    ];
    for (name, value, unit) in known {
        assert_eq!(*constant(name), ConstantInfo { name, value, unit });
    }
}

/// `constants!` lists what it defines; what is defined without it says here that it is none.
#[test]
fn numbers_that_no_sweep_changes_are_sizes_of_tables_and_limits_of_numbers() {
    let files = [
        include_str!("../policies/adaptive.rs"),
        include_str!("../policies/adaptive/arm.rs"),
        include_str!("../policies/adaptive/choice.rs"),
        include_str!("../policies/adaptive/curve.rs"),
        include_str!("../policies/adaptive/health.rs"),
        include_str!("../policies/adaptive/hedge.rs"),
        include_str!("../policies/adaptive/jumps.rs"),
        include_str!("../policies/adaptive/late.rs"),
        include_str!("../policies/adaptive/leg.rs"),
        include_str!("../policies/adaptive/leg/learned.rs"),
        include_str!("../policies/adaptive/leg/size.rs"),
        include_str!("../policies/adaptive/leg/tried.rs"),
        include_str!("../policies/adaptive/recent.rs"),
        include_str!("../policies/adaptive/split.rs"),
        include_str!("../policies/adaptive/streams.rs"),
        include_str!("../policies/adaptive/tries.rs"),
        include_str!("../read_ahead.rs"),
        include_str!("../read_ahead/at_random.rs"),
        include_str!("../read_ahead/held.rs"),
        include_str!("../read_ahead/homes.rs"),
        include_str!("../read_ahead/pace.rs"),
        include_str!("../read_ahead/plan.rs"),
        include_str!("../read_ahead/worth.rs"),
    ];
    let lines = files.iter().flat_map(|file| file.lines());
    let numbers = lines.filter_map(|line| line.trim_start().strip_prefix("const "));
    let numbers = numbers.filter_map(|line| line.split_once(": "));
    let is_number = |name: &str, kind: &str| {
        let is_of_number = ["f32", "u8", "u32", "u64", "usize", "(", "Duration"]
            .iter()
            .any(|number| kind.starts_with(number));
        is_of_number && !name.starts_with("fn ")
    };
    let numbers: BTreeSet<&str> = numbers
        .filter(|(name, kind)| is_number(name, kind))
        .map(|(name, _)| name)
        .collect();
    let none = "BINS BLOCKS_LOG CURVES ENDS EXPECTED FOLLOWED KNOTS LAYOUT LOADS MOST NONE ONE \
                PARTS QUEUED REMEMBERED SIZES STREAMS STREAMS_MAX TINY";
    assert_eq!(numbers, none.split(' ').collect());
}

#[test]
fn what_is_more_than_once_is_scaled_and_whole_things_stay_whole() {
    let scaled = |value, unit, factor| {
        let name = "of a test";
        ConstantInfo { name, value, unit }.scaled(factor)
    };
    assert_eq!(scaled(0.35, ConstantUnit::Number, 2.0), 0.7);
    assert_eq!(scaled(1.5, ConstantUnit::Times, 0.5), 1.25);
    assert_eq!(scaled(1.5, ConstantUnit::Times, 4.0), 3.0);
    assert_eq!(scaled(0.75, ConstantUnit::Times, 2.0), 0.5);
    assert_eq!(scaled(0.75, ConstantUnit::Times, 8.0), 0.0);
    assert_eq!(scaled(2.0, ConstantUnit::Count, 0.71), 1.0);
    assert_eq!(scaled(1.0, ConstantUnit::Count, 0.25), 1.0);
    assert_eq!(scaled(65_536.0, ConstantUnit::Bytes, 0.71), 45_056.0);
    assert_eq!(scaled(4_096.0, ConstantUnit::Bytes, 0.5), 4_096.0);
    assert_eq!(scaled(5e8, ConstantUnit::Time, 0.5), 2.5e8);
}

#[test]
fn a_constant_is_its_value() {
    const HALF: Constant<f32> = Constant::<f32>::number("of a test", 0.5);
    assert_eq!(HALF.get(), 0.5);
    assert_eq!(HALF.info().value, 0.5);
}

#[cfg(feature = "sweep")]
mod with_sweep {
    use std::panic;

    use heliostat_types::Duration;

    use super::super::{Constant, constants_read, with_constant};
    use super::constant;

    const BAND: Constant<f32> = Constant::<f32>::times("choice.BAND", 1.05);
    const ACTIVE: Constant<Duration> =
        Constant::<Duration>::time("streams.ACTIVE", Duration::from_ms(500));

    #[test]
    fn another_number_holds_on_this_thread_and_while_it_is_wanted() {
        let band = constant("choice.BAND");
        let seen = with_constant(band, 2.5, || {
            let elsewhere = std::thread::scope(|scope| scope.spawn(|| BAND.get()).join());
            (BAND.get(), ACTIVE.get(), elsewhere.expect("a number"))
        });
        assert_eq!(seen, (2.5, Duration::from_ms(500), 1.05));
        assert_eq!(BAND.get(), 1.05);
        let time = with_constant(constant("streams.ACTIVE"), 7.0, || ACTIVE.get());
        assert_eq!(time, Duration::from_ns(7));
    }

    #[test]
    fn what_is_read_is_told_to_whoever_asks() {
        let (value, read) = constants_read(|| BAND.get());
        assert_eq!(
            (value, read.into_iter().collect()),
            (1.05, vec!["choice.BAND"])
        );
        let (_, read) = constants_read(|| ());
        assert!(read.is_empty());
    }

    #[test]
    fn it_is_gone_after_a_panic_as_well() {
        let band = constant("choice.BAND");
        let panicked = panic::catch_unwind(|| with_constant(band, 2.5, || panic!("of a test")));
        let message = panicked.expect_err("it panics");
        assert_eq!(message.downcast_ref::<&str>(), Some(&"of a test"));
        assert_eq!(BAND.get(), 1.05);
    }
}
