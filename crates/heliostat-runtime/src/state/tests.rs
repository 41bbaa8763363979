use super::{FaultRecord, Found, LegRecord, StateFile, find, verdict};
use crate::scratch::Scratch;
use crate::wall_time::WallTime;

fn leg(identity: &str) -> LegRecord {
    LegRecord {
        identity: identity.to_owned(),
        text: format!("/{identity}"),
        fault: None,
    }
}

fn file(name: &str, legs: &[&str]) -> StateFile {
    let legs = legs.iter().map(|identity| leg(identity)).collect();
    StateFile::clean(name, 1 << 20, legs)
}

fn reasons(known: &StateFile, wanted: &StateFile) -> Vec<String> {
    let found = Found {
        path: "/state/x".into(),
        file: known.clone(),
    };
    verdict(&[found], wanted)
}

#[test]
fn a_file_comes_back_as_it_was() {
    let scratch = Scratch::new();
    let mut written = file("disk", &["b", "a"]);
    written.generation = 7;
    written.dirty_since = Some(WallTime(1_700_000_000));
    written.legs[1].fault = Some(FaultRecord {
        at: WallTime(1_700_000_001),
        reason: "a write failed".to_owned(),
    });
    written.store(scratch.path()).unwrap();
    written.store(scratch.path()).unwrap();
    let found = find(scratch.path(), &file("other", &["a"])).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].file, written);
    assert_eq!(found[0].path, written.path_in(scratch.path()));
}

#[test]
fn files_are_found_by_legs_and_not_by_name() {
    let scratch = Scratch::new();
    file("disk", &["a", "b"]).store(scratch.path()).unwrap();
    file("disk", &["c", "d"]).store(scratch.path()).unwrap();
    let names = |legs: &[&str]| {
        let found = find(scratch.path(), &file("disk", legs)).unwrap();
        found
            .iter()
            .map(|found| found.file.legs[0].identity.clone())
            .collect::<String>()
    };
    assert_eq!(names(&["b", "a"]), "a");
    assert_eq!(names(&["d"]), "c");
    assert_eq!(names(&["e"]), "");
    assert_eq!(
        find(&scratch.path().join("absent"), &file("x", &["a"]))
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn a_file_that_makes_no_sense_is_an_error() {
    let mut endless = file("disk", &["a"]);
    endless.generation = u64::MAX;
    let endless = String::from_utf8(endless.to_bytes()).unwrap();
    for text in [
        "",
        "{",
        "{\"version\": 2}",
        "{\"version\": 1, \"name\": \"x\"}",
        &endless,
    ] {
        let scratch = Scratch::new();
        std::fs::write(scratch.path().join("x.state"), text).unwrap();
        let error = find(scratch.path(), &file("disk", &["a"]))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("x.state") && error.contains("move it away"),
            "{error}"
        );
    }
}

#[test]
fn clean_legs_in_any_order_may_be_served() {
    assert!(reasons(&file("disk", &["a", "b"]), &file("new", &["b", "a"])).is_empty());
}

#[test]
fn every_reason_to_refuse_is_told() {
    let wanted = file("disk", &["a", "b"]);
    let mut known = wanted.clone();
    known.dirty_since = Some(WallTime(0));
    assert_eq!(
        reasons(&known, &wanted),
        [
            "array 'disk' was not stopped cleanly: its legs may differ since \
             1970-01-01 00:00:00 UTC \
          (said by /state/x)"
        ]
    );
    known.copying_from = Some("b".to_owned());
    assert!(reasons(&known, &wanted)[0].starts_with("copying /b over the other legs"));
    known = wanted.clone();
    known.legs[1].fault = Some(FaultRecord {
        at: WallTime(60),
        reason: "it was silent".to_owned(),
    });
    assert_eq!(
        reasons(&known, &wanted),
        ["leg /b was faulted at 1970-01-01 00:01:00 UTC: it was silent (said by /state/x)"]
    );
    known = wanted.clone();
    known.size_bytes *= 2;
    assert!(reasons(&known, &wanted)[0].contains("had 2097152 bytes, and would have 1048576 now"));
    let three = file("disk", &["a", "b", "c"]);
    assert!(reasons(&three, &wanted)[0].contains("another set"));
    assert!(reasons(&three, &wanted)[0].contains("/a, /b, /c"));
}

#[test]
fn one_leg_cannot_disagree_with_itself() {
    let wanted = file("disk", &["a"]);
    let mut known = wanted.clone();
    known.dirty_since = Some(WallTime(0));
    assert!(reasons(&known, &wanted).is_empty());
    // But it may be the stale one of two.
    known = file("disk", &["a", "b"]);
    known.dirty_since = Some(WallTime(0));
    assert_eq!(reasons(&known, &wanted).len(), 2);
}
