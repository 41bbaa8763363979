use proptest::prelude::{Strategy, any, prop, prop_assert_eq, proptest};

use super::{ArrayInfo, PolicySpec};
use crate::registry::{BareValue, all_policies};
use crate::tunable::TunableKind;

fn shown(text: &str) -> String {
    PolicySpec::parse(text).unwrap().to_string()
}

fn error(text: &str) -> String {
    PolicySpec::parse(text).unwrap_err().to_string()
}

#[test]
fn a_spec_is_shown_by_what_differs_from_the_defaults() {
    for (text, canonical) in [
        ("pid", "pid"),
        ("", "pid"),
        ("\n", "pid"),
        ("pid\n", "pid"),
        ("pid:7", "pid"),
        ("round-robin", "round-robin:262144"),
        ("round-robin:1", "round-robin:4096"),
        ("round-robin:192K", "round-robin:196608"),
        ("round-robin:0x1001", "round-robin:8192"),
        ("round-robin:4096  \n", "round-robin:4096"),
        ("round-robin:4096\n\n", "round-robin:4096"),
        ("round-robin:min_contig_read=1m", "round-robin:1048576"),
        ("devid", "devid:1"),
        ("devid:3", "devid:3"),
        ("queue:tie=first", "queue"),
        ("queue:tie=rotate", "queue:tie=rotate"),
        (
            "queue:probe_events=5,tie=latency",
            "queue:tie=latency,probe_events=5",
        ),
        ("zfs-bonus:mirror_by_load=off", "zfs-bonus:mirror_by_load=0"),
    ] {
        assert_eq!(shown(text), canonical, "{text:?}");
    }
}

#[test]
fn what_btrfs_refuses_is_refused() {
    for text in [
        "PID",
        " pid",
        "pid ",
        "pid\n\n",
        "pid:",
        "pid:0",
        "pid:x",
        ":5",
        "round",
        "round-robin:",
        "round-robin:0",
        "round-robin:-1",
        "round-robin: 4096",
        "round-robin:4096x",
        "round-robin:4096 x",
        "round-robin:4KB",
        "round-robin:8E",
        "devid:0",
        "devid:one",
        "devid:1:2",
    ] {
        assert!(PolicySpec::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn errors_say_what_is_wrong_and_what_is_right() {
    assert!(
        error("queu").starts_with(
            "there is no read policy 'queu'; did you mean 'queue'? Valid are: pid, round-robin, "
        ),
        "{}",
        error("queu")
    );
    assert!(error("elephant").starts_with("there is no read policy 'elephant'. Valid are: pid,"));
    assert_eq!(
        error("round-robin:4KB"),
        "'4KB' is no value for min_contig_read of read policy 'round-robin': expected a number \
         from 1 to 9223372036854771712, in decimal or 0x and hexadecimal, with K, M, G, T, P or \
         E behind it for powers of 1024"
    );
    assert_eq!(
        error("queue:tie=last"),
        "'last' is no value for tie of read policy 'queue': expected one of first, rotate, latency"
    );
    assert_eq!(
        error("queue:5"),
        "read policy 'queue' takes no value, but '5' was given; its tunables are set as \
         queue:NAME=VALUE, with NAME one of tie, checkpoint_age, probe_events"
    );
    assert_eq!(
        error("spdk:5"),
        "read policy 'spdk' takes no value, but '5' was given"
    );
    assert_eq!(
        error("pid:x=1"),
        "read policy 'pid' has no tunable 'x'; it has none at all"
    );
    assert_eq!(
        error("queue:ties=first"),
        "read policy 'queue' has no tunable 'ties'; did you mean 'tie'? Valid are: tie, \
         checkpoint_age, probe_events"
    );
}

#[test]
fn a_devid_has_to_be_in_the_array() {
    let spec = PolicySpec::parse("devid:4").unwrap();
    assert!(spec.build(&ArrayInfo::new(4)).is_ok());
    assert_eq!(
        spec.build(&ArrayInfo::new(3)).unwrap_err().to_string(),
        "the array has no leg number 4; counted from 1, it has 1, 2, 3"
    );
}

#[test]
fn tunables_are_set_and_shown_by_name() {
    let mut spec = PolicySpec::parse("zfs").unwrap();
    assert_eq!(spec.show("rotating_seek_offset").unwrap(), "1048576");
    spec.set("rotating_seek_offset", "2M").unwrap();
    assert_eq!(spec.to_string(), "zfs:rotating_seek_offset=2097152");
    assert!(spec.set("rotating_seek_offset", "far").is_err());
    assert_eq!(
        spec.show("rotating_seek_offset").unwrap(),
        "2097152",
        "unchanged"
    );
    assert!(spec.show("seek").is_err());
}

fn list(text: &str) -> String {
    match PolicySpec::parse_list(text) {
        Ok(specs) => {
            let specs: Vec<String> = specs.iter().map(ToString::to_string).collect();
            specs.join(" ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_item_without_a_policy_continues_the_one_before_it() {
    assert_eq!(list("pid"), "pid");
    assert_eq!(list("pid,round-robin:4K, zfs"), "pid round-robin:4096 zfs");
    assert_eq!(
        list("zfs:rotating_inc=1,non_rotating_inc=2,queue,tie=rotate,md"),
        "zfs:rotating_inc=1,non_rotating_inc=2 queue:tie=rotate md"
    );
    assert_eq!(
        list("tie=rotate,queue"),
        "'tie=rotate' sets a tunable, but there is no single read policy before it"
    );
    assert!(list("all,tie=rotate").contains("no single read policy"));
    assert!(list("pid,tie=rotate").contains("'pid' has no tunable 'tie'"));
}

#[test]
fn all_is_every_policy_with_its_defaults() {
    let specs = PolicySpec::parse_list("all").unwrap();
    assert_eq!(specs.len(), all_policies().len());
    assert!(
        specs
            .iter()
            .zip(all_policies())
            .all(|(spec, policy)| *spec == PolicySpec::new(policy))
    );
    assert!(list("all,queue:tie=rotate").ends_with(" devid:1 queue:tie=rotate"));
}

/// Any policy with any values.
fn any_spec() -> impl Strategy<Value = PolicySpec> {
    let values = prop::collection::vec(prop::option::of(any::<u64>()), 8);
    (0..all_policies().len(), values).prop_map(|(at, values)| {
        let policy = all_policies().nth(at).unwrap();
        let mut spec = PolicySpec::new(policy);
        for (tunable, value) in policy.tunables.iter().zip(values) {
            if let Some(value) = value {
                let value = match tunable.kind {
                    TunableKind::Number { min, max, .. } => value.clamp(min, max),
                    TunableKind::Devid => value.clamp(1, 16),
                    TunableKind::Flag => value % 2,
                    TunableKind::Choice(words) => value % u64::try_from(words.len()).unwrap(),
                };
                spec.set(tunable.name, &tunable.format(value)).unwrap();
            }
        }
        spec
    })
}

/// Text that is nearly a spec more often than chance would have it.
fn any_text() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "pid",
        "round-robin",
        "devid",
        "queue",
        "zfs",
        "all",
        "tie",
        "min_contig_read",
        "rotate",
        ":",
        "=",
        ",",
        "0x",
        "1",
        "9",
        "K",
        "E",
        " ",
        "\n",
        "-",
        "\u{e9}",
        "99999999999999999999",
    ]);
    let pieces = prop::collection::vec(words, 0..8).prop_map(|pieces| pieces.concat());
    proptest::prop_oneof![pieces, any::<String>()]
}

proptest! {
    #[test]
    fn what_is_shown_parses_back(spec in any_spec()) {
        prop_assert_eq!(PolicySpec::parse(&spec.to_string()), Ok(spec));
        prop_assert_eq!(PolicySpec::parse_list(&spec.to_string()), Ok(vec![spec]));
    }

    #[test]
    fn lists_parse_back(specs in prop::collection::vec(any_spec(), 1..5)) {
        let text: Vec<String> = specs.iter().map(ToString::to_string).collect();
        prop_assert_eq!(PolicySpec::parse_list(&text.join(",")), Ok(specs));
    }

    #[test]
    fn any_text_parses_or_is_refused(text in any_text()) {
        match PolicySpec::parse(&text) {
            Ok(spec) => {
                let again = PolicySpec::parse(&spec.to_string());
                prop_assert_eq!(again, Ok(spec));
                let is_shown = spec.policy().bare_value == BareValue::FirstTunable;
                prop_assert_eq!(spec.to_string().contains(':'), is_shown
                    || spec != PolicySpec::new(spec.policy()));
            }
            Err(error) => prop_assert_eq!(error.to_string().is_empty(), false),
        }
        let _ = PolicySpec::parse_list(&text);
    }
}
