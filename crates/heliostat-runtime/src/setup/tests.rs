use std::fs::File;
use std::os::unix::fs::FileExt;

use super::prepare;
use crate::rig::{LEG_BYTES, Notes, file, file_options, options, trusting};
use crate::scratch::Scratch;
use crate::{ArrayOptions, Trust};

fn refusal(options: &ArrayOptions) -> String {
    prepare(options, &mut Notes::default())
        .unwrap_err()
        .to_string()
}

fn put(scratch: &Scratch, leg: usize, offset: u64, bytes: &[u8]) {
    let file = File::options()
        .write(true)
        .open(file(scratch, leg))
        .unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

#[test]
fn the_smallest_leg_rules_and_that_is_said() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 3);
    let shorter = File::options().write(true).open(file(&scratch, 1)).unwrap();
    shorter.set_len(LEG_BYTES - 4096).unwrap();
    drop(shorter);
    let mut notes = Notes::default();
    let prepared = prepare(&options, &mut notes).unwrap();
    assert_eq!(prepared.size_bytes, LEG_BYTES - 4096);
    let said: Vec<&String> = notes
        .0
        .iter()
        .filter(|note| note.contains("not used"))
        .collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains("leg0") && said[0].contains("4096 bytes"),
        "{said:?}"
    );
}

#[test]
fn what_cannot_be_legs_is_refused() {
    let scratch = Scratch::new();
    let there = file(&scratch, 0);
    let twice = refusal(&options(&scratch, &[&there, &there]));
    assert!(twice.contains("named twice"), "{twice}");
    let absent = scratch.path().join("absent");
    let error = refusal(&options(&scratch, &[&there, absent.to_str().unwrap()]));
    assert!(error.contains("absent"), "{error}");
    assert!(!absent.exists());
}

#[test]
fn a_part_of_an_md_array_is_refused_whatever_is_said() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    // Magic number and major version.
    put(&scratch, 1, 4096, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
    for trust in [
        Trust::Record,
        Trust::AssumeClean,
        Trust::CopyFrom(file(&scratch, 0)),
    ] {
        let error = refusal(&trusting(&options, trust));
        assert!(error.contains("leg1") && error.contains("md"), "{error}");
    }
}

#[test]
fn legs_that_begin_differently_are_refused() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 3);
    put(&scratch, 2, 1_000_000, b"x");
    let error = refusal(&options);
    assert!(
        error.contains("leg2") && error.contains("byte 1000000"),
        "{error}"
    );
    assert!(!error.contains("leg1"), "{error}");
    prepare(
        &trusting(&options, Trust::AssumeClean),
        &mut Notes::default(),
    )
    .unwrap();
    let copied = trusting(&options, Trust::CopyFrom(file(&scratch, 2)));
    prepare(&copied, &mut Notes::default()).unwrap();
    prepare(&options, &mut Notes::default()).unwrap();
}

#[test]
fn legs_of_another_set_are_refused() {
    let scratch = Scratch::new();
    prepare(&file_options(&scratch, 3), &mut Notes::default()).unwrap();
    let error = refusal(&file_options(&scratch, 2));
    assert!(
        error.contains("in another set") && error.contains("leg2"),
        "{error}"
    );
    let two = trusting(&file_options(&scratch, 2), Trust::AssumeClean);
    prepare(&two, &mut Notes::default()).unwrap();
    prepare(&file_options(&scratch, 2), &mut Notes::default()).unwrap();
    // The third one is stale from now on.
    let error = refusal(&file_options(&scratch, 3));
    assert!(error.contains("in another set"), "{error}");
}

#[test]
fn a_leg_that_changed_its_size_is_refused() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    prepare(&options, &mut Notes::default()).unwrap();
    for size in [LEG_BYTES / 2, LEG_BYTES * 2] {
        for index in 0..2 {
            let leg = File::options()
                .write(true)
                .open(file(&scratch, index))
                .unwrap();
            leg.set_len(size).unwrap();
        }
        let error = refusal(&options);
        assert!(error.contains("would have"), "{error}");
    }
}

#[test]
fn a_source_is_one_of_the_legs() {
    let scratch = Scratch::new();
    let files = file_options(&scratch, 2);
    let error = refusal(&trusting(&files, Trust::CopyFrom("/other".to_owned())));
    assert!(
        error.contains("names none") && error.contains("leg0"),
        "{error}"
    );
    let memory = options(&scratch, &["mem:4MiB", "mem:4MiB"]);
    let error = refusal(&trusting(&memory, Trust::CopyFrom("mem:4MiB".to_owned())));
    assert!(error.contains("names several"), "{error}");
}

#[test]
fn legs_that_begin_empty_are_never_believed() {
    let scratch = Scratch::new();
    let there = file(&scratch, 0);
    let mixed = options(&scratch, &[&there, "mem:4MiB"]);
    let error = refusal(&mixed);
    assert!(error.contains("mem:4MiB begins empty"), "{error}");
    let error = refusal(&trusting(&mixed, Trust::CopyFrom("mem:4MiB".to_owned())));
    assert!(error.contains("would wipe"), "{error}");
    put(&scratch, 0, 100, b"x");
    let copied = trusting(&mixed, Trust::CopyFrom(there));
    let prepared = prepare(&copied, &mut Notes::default()).unwrap();
    let mut byte = [0; 512];
    prepared.legs[1].read_at(0, &mut byte).unwrap();
    assert_eq!(byte[100], b'x');
}

#[test]
fn a_copy_that_did_not_finish_is_remembered() {
    struct Impatient;
    impl crate::Progress for Impatient {
        fn note(&mut self, _line: &str) {}
        fn copied(&mut self, done_bytes: u64, _total_bytes: u64) -> bool {
            done_bytes < 2 << 20
        }
    }
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    put(&scratch, 0, 3 << 20, b"x");
    let copied = trusting(&options, Trust::CopyFrom(file(&scratch, 0)));
    let error = prepare(&copied, &mut Impatient).unwrap_err().to_string();
    assert!(error.contains("stopped"), "{error}");
    let error = refusal(&options);
    assert!(
        error.contains("did not finish") && error.contains("leg0"),
        "{error}"
    );
    prepare(&copied, &mut Notes::default()).unwrap();
    prepare(&options, &mut Notes::default()).unwrap();
}
