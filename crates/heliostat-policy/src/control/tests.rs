use super::PolicyControl;
use crate::registry::all_policies;
use crate::spec::{ArrayInfo, PolicySpec};

fn control() -> PolicyControl {
    PolicyControl::new(PolicySpec::parse("pid").unwrap())
}

/// Stores into an array of three legs.
fn store(control: &mut PolicyControl, text: &str) {
    control.store(text, &ArrayInfo::new(3)).unwrap();
}

#[test]
fn all_policies_are_shown_with_the_active_one_in_brackets() {
    let mut control = control();
    let shown = control.show();
    assert!(
        shown.starts_with("[pid] round-robin:262144 latency latency-rr queue "),
        "{shown}"
    );
    assert!(shown.ends_with(" prequal adaptive devid:1"), "{shown}");
    assert_eq!(shown.split(' ').count(), all_policies().len());
    store(&mut control, "latency");
    let shown = control.show();
    assert!(
        shown.starts_with("pid round-robin:262144 [latency] "),
        "{shown}"
    );
}

#[test]
fn values_are_shown_inside_the_brackets_and_remembered() {
    let mut control = control();
    store(&mut control, "round-robin:5000\n");
    assert!(control.show().starts_with("pid [round-robin:8192] "));
    store(&mut control, "devid:2");
    let shown = control.show();
    assert!(shown.starts_with("pid round-robin:8192 "), "{shown}");
    assert!(shown.ends_with(" [devid:2]"), "{shown}");
    store(&mut control, "");
    assert!(control.show().starts_with("[pid] round-robin:8192 "));
}

#[test]
fn a_value_left_out_is_the_default_and_not_the_one_before() {
    let mut control = control();
    store(&mut control, "round-robin:8192");
    store(&mut control, "round-robin");
    assert_eq!(control.active().to_string(), "round-robin:262144");
    store(&mut control, "devid:3");
    store(&mut control, "devid");
    assert_eq!(control.active().to_string(), "devid:1");
}

#[test]
fn tunables_keep_their_values_across_policies() {
    let mut control = control();
    let array = ArrayInfo::new(3);
    control
        .set("roundrobin", "roundrobin_rot_nonlocal_inc", "3\n", &array)
        .unwrap();
    assert_eq!(control.active().to_string(), "pid");
    store(&mut control, "roundrobin");
    store(
        &mut control,
        "roundrobin:roundrobin_nonlocal_inc_mixed_only=N",
    );
    assert_eq!(
        control.active().to_string(),
        "roundrobin:roundrobin_nonlocal_inc_mixed_only=0,roundrobin_rot_nonlocal_inc=3"
    );
    let spec = control.spec("roundrobin").unwrap();
    assert_eq!(spec.show("roundrobin_rot_nonlocal_inc").unwrap(), "3");
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut control = control();
    let array = ArrayInfo::new(3);
    store(&mut control, "round-robin:8192");
    let before = control.clone();
    for text in [
        "devid:4",
        "devid:0",
        "round-robin:0",
        "rr",
        "round-robin:4096;",
    ] {
        assert!(control.store(text, &array).is_err(), "{text}");
        assert_eq!(control, before);
    }
    assert!(control.set("devid", "devid", "4", &array).is_err());
    assert!(control.set("zfs", "nothing", "1", &array).is_err());
    assert!(control.set("nothing", "tie", "1", &array).is_err());
    assert_eq!(control, before);
}

#[test]
fn names_alone_are_shown_as_in_2021() {
    let mut control = control();
    assert!(
        control
            .show_names()
            .starts_with("[pid] round-robin latency ")
    );
    store(&mut control, "devid:2");
    assert!(control.show_names().ends_with(" prequal adaptive [devid]"));
}

#[test]
fn what_is_shown_in_full_makes_everything_as_it_was() {
    let array = ArrayInfo::new(2);
    let mut control = PolicyControl::new(PolicySpec::parse("latency").unwrap());
    for text in ["queue:tie=rotate", "round-robin:4096", "latency"] {
        control.store(text, &array).unwrap();
    }
    let before = control.clone();
    let shown = control.show_full();
    assert!(shown.contains(" queue:tie=rotate "), "{shown}");
    assert!(shown.contains(" round-robin:4096 [latency] "), "{shown}");
    for text in [
        "queue:tie=first,checkpoint_age=7",
        "round-robin",
        "adaptive:hedge=off",
    ] {
        control.store(text, &array).unwrap();
    }
    assert_ne!(control, before);
    for word in shown.split(' ') {
        let spec = PolicySpec::parse(word.trim_matches(['[', ']'])).unwrap();
        control.store(&spec.complete(), &array).unwrap();
    }
    control.store("latency", &array).unwrap();
    assert_eq!(control, before);
}
