use std::fs::File;
use std::os::unix::fs::FileExt;

use heliostat_format::Role;

use super::{Prepared, lock, prepare_locked};
use crate::rig::{self, LEG_BYTES, Notes, file, file_options, make_array, options, trusting};
use crate::scratch::Scratch;
use crate::{ArrayOptions, Progress, Registered, RuntimeError, Trust};

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

fn resize(scratch: &Scratch, leg: usize, size_bytes: u64) {
    let file = File::options()
        .write(true)
        .open(file(scratch, leg))
        .unwrap();
    file.set_len(size_bytes).unwrap();
}

#[test]
fn the_smallest_leg_rules_and_that_is_said() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 3);
    resize(&scratch, 1, LEG_BYTES - 4096);
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
    let third = file(&scratch, 2);
    let alone = options(&scratch, &[&third]);
    let error = refusal(&alone);
    assert!(error.contains("went on without it"), "{error}");
    let error = refusal(&trusting(
        &file_options(&scratch, 3),
        Trust::CopyFrom(third),
    ));
    assert!(error.contains("leg0, "), "{error}");
    prepare(&trusting(&alone, Trust::AssumeClean), &mut Notes::default()).unwrap();
    prepare(&alone, &mut Notes::default()).unwrap();
}

#[test]
fn a_leg_that_changed_its_size_is_refused() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    prepare(&options, &mut Notes::default()).unwrap();
    for size in [LEG_BYTES / 2, LEG_BYTES * 2] {
        for index in 0..2 {
            resize(&scratch, index, size);
        }
        let error = refusal(&options);
        assert!(error.contains("would have"), "{error}");
    }
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

/// Stops a copy, or does something to the legs, when two megabytes are copied.
struct Meanwhile<F>(F);

impl<F: FnMut() -> bool> Progress for Meanwhile<F> {
    fn note(&mut self, _line: &str) {}

    fn copied(&mut self, done_bytes: u64, _total_bytes: u64) -> bool {
        done_bytes != 2 << 20 || (self.0)()
    }
}

#[test]
fn a_copy_that_did_not_finish_is_remembered() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    put(&scratch, 0, 3 << 20, b"x");
    let copied = trusting(&options, Trust::CopyFrom(file(&scratch, 0)));
    let error = prepare(&copied, &mut Meanwhile(|| false))
        .unwrap_err()
        .to_string();
    assert!(error.contains("stopped"), "{error}");
    let error = refusal(&options);
    assert!(
        error.contains("did not finish") && error.contains("leg0"),
        "{error}"
    );
    assert!(!error.contains("--assume-clean"), "{error}");
    let error = refusal(&trusting(&options, Trust::AssumeClean));
    assert!(
        error.contains("did not finish") && error.contains("--copy-from"),
        "{error}"
    );
    // The other way round, what was copied over would be copied back.
    let half = Trust::CopyFrom(file(&scratch, 1));
    let error = refusal(&trusting(&options, half.clone()));
    assert!(
        error.contains("did not finish") && error.contains("leg0), or insist on"),
        "{error}"
    );
    prepare(&copied, &mut Notes::default()).unwrap();
    prepare(&options, &mut Notes::default()).unwrap();
    // Now they are equal, and either will do.
    prepare(&trusting(&options, half), &mut Notes::default()).unwrap();
}

#[test]
fn a_half_copied_leg_can_be_insisted_on_without_the_good_one() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    let copied = trusting(&options, Trust::CopyFrom(file(&scratch, 0)));
    prepare(&copied, &mut Meanwhile(|| false)).unwrap_err();
    let half = file(&scratch, 1);
    let alone = rig::options(&scratch, &[&half]);
    let alone = trusting(&alone, Trust::CopyFrom(half));
    prepare(&alone, &mut Notes::default()).unwrap();
    let there = file(&scratch, 0);
    let error = refusal(&rig::options(&scratch, &[&there]));
    assert!(error.contains("went on without it"), "{error}");
}

#[test]
fn a_leg_that_shrinks_while_it_is_copied_is_never_clean() {
    for shrinking in 0..2 {
        let scratch = Scratch::new();
        let options = file_options(&scratch, 2);
        let copied = trusting(&options, Trust::CopyFrom(file(&scratch, 0)));
        let mut shrink = Meanwhile(|| {
            resize(&scratch, shrinking, 1 << 20);
            true
        });
        let error = prepare(&copied, &mut shrink).unwrap_err().to_string();
        let name = format!("leg{shrinking}");
        assert!(
            error.contains(&name) && error.contains("smaller"),
            "{error}"
        );
        resize(&scratch, shrinking, LEG_BYTES);
        let error = refusal(&options);
        assert!(error.contains("did not finish"), "{error}");
    }
}

#[test]
fn a_faulted_leg_is_not_copied_over_a_good_one() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 2);
    let (mut known, _) = prepare(&options, &mut Notes::default())
        .unwrap()
        .record
        .unwrap();
    known.legs[1].fault = Some(crate::state::FaultRecord {
        at: crate::wall_time::WallTime(60),
        reason: "a write failed".to_owned(),
    });
    known.store(&options.places.state).unwrap();
    let faulted = Trust::CopyFrom(file(&scratch, 1));
    let error = refusal(&trusting(&options, faulted));
    assert!(
        error.contains("a write failed") && error.contains("leg0), or insist on"),
        "{error}"
    );
    let good = Trust::CopyFrom(file(&scratch, 0));
    prepare(&trusting(&options, good), &mut Notes::default()).unwrap();
}

/// Prepares the legs as a server does.
fn prepare(options: &ArrayOptions, progress: &mut dyn Progress) -> Result<Prepared, RuntimeError> {
    prepare_locked(options, lock(options)?, progress)
}

/// Changes a superblock of version 1.2 and makes its sum right.
fn change_superblock(
    scratch: &Scratch,
    leg: usize,
    change: impl FnOnce(&mut heliostat_format::Superblock),
) {
    let bytes = std::fs::read(file(scratch, leg)).unwrap();
    let mut superblock = heliostat_format::Superblock::parse(&bytes[4096..8192]).unwrap();
    change(&mut superblock);
    put(scratch, leg, 4096, &superblock.to_bytes());
}

#[test]
fn a_leg_with_a_damaged_superblock_is_done_without_where_that_is_allowed() {
    let scratch = Scratch::new();
    let mut options = file_options(&scratch, 3);
    make_array(&options);
    put(&scratch, 1, 4096 + 100, b"damage");
    let error = refusal(&options);
    assert!(
        error.contains("leg1: sb_csum is") && error.contains("--degraded-ok"),
        "{error}"
    );
    // One that lost it altogether is no better.
    put(&scratch, 2, 4096, &[0; 256]);
    let error = refusal(&options);
    assert!(
        error.contains("leg1: sb_csum is") && error.contains("leg2: it has no md superblock"),
        "{error}"
    );
    options.degraded_ok = true;
    let mut notes = Notes::default();
    let prepared = prepare(&options, &mut notes).unwrap();
    let described = prepared.described.as_ref().unwrap();
    assert_eq!(described.assembled.candidates, [Some(0), None, None]);
    drop(prepared);
    let said = notes.0.join("\n");
    assert!(
        said.contains("leg1 is left out: sb_csum") && said.contains("leg2 is left out"),
        "{said}"
    );
    // Nobody is left to go on with.
    put(&scratch, 0, 4096 + 100, b"damage");
    let error = refusal(&options);
    assert!(error.contains("leg0: sb_csum is"), "{error}");
}

#[test]
fn a_leg_that_is_newer_than_the_others_is_not_done_without() {
    let scratch = Scratch::new();
    let mut options = file_options(&scratch, 2);
    make_array(&options);
    options.degraded_ok = true;
    let reshape = heliostat_format::Features::RESHAPE;
    change_superblock(&scratch, 1, |superblock| {
        superblock.features = superblock.features.with(reshape);
    });
    // It knows nothing that the other one does not.
    prepare(&options, &mut Notes::default()).unwrap();
    change_superblock(&scratch, 1, |superblock| superblock.events += 1);
    let error = refusal(&options);
    assert!(
        error.contains("leg1: feature_map") && error.contains("name the other legs alone"),
        "{error}"
    );
    options.legs.pop();
    prepare(&options, &mut Notes::default()).unwrap();
}

#[test]
fn a_leg_is_remembered_by_one_name_unless_another_is_missing() {
    let scratch = Scratch::new();
    let by_path = file_options(&scratch, 2);
    make_array(&by_path);
    let known = || {
        Registered::load(&by_path.places, &by_path.name)
            .unwrap()
            .legs
    };
    let legs = [0, 1].map(|leg| file(&scratch, leg));
    assert_eq!(known(), legs);
    let models = legs.each_ref().map(|leg| format!("model:ram,file={leg}"));
    let by_model = options(&scratch, &models.each_ref().map(String::as_str));
    prepare(&by_model, &mut Notes::default()).unwrap();
    assert_eq!(known(), models);
    let mut degraded = options(&scratch, &[&models[0]]);
    degraded.degraded_ok = true;
    prepare(&degraded, &mut Notes::default()).unwrap();
    assert_eq!(known(), models);
}

#[test]
fn a_name_that_another_array_had_is_told_of_and_one_that_is_served_is_refused() {
    let scratch = Scratch::new();
    let other = Scratch::new();
    let options = file_options(&scratch, 2);
    make_array(&options);
    let mut new = rig::new_array(&file_options(&other, 2));
    new.places = options.places.clone();
    let served = prepare(&options, &mut Notes::default()).unwrap();
    let error = crate::create(&new, &mut Notes::default()).unwrap_err();
    let error = error.to_string();
    assert!(error.ends_with("already; choose another name"), "{error}");
    drop(served);
    let mut notes = Notes::default();
    crate::create(&new, &mut notes).unwrap();
    let said = notes.0.join("\n");
    let old = file(&scratch, 1);
    assert!(said.contains("another array was called disk"), "{said}");
    assert!(said.contains(&old), "{said}");
}

#[test]
fn a_leg_whose_place_another_one_has_is_not_remembered() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 3);
    make_array(&options);
    // As it is when a leg was replaced: no role is left for it.
    for leg in [0, 1] {
        change_superblock(&scratch, leg, |own| {
            own.raid_disks = 2;
            own.roles[2] = Role::Faulty;
            own.events += 2;
        });
    }
    prepare(&options, &mut Notes::default()).unwrap();
    let known = Registered::load(&options.places, &options.name).unwrap();
    assert_eq!(known.legs, [0, 1].map(|leg| file(&scratch, leg)));
}

#[test]
fn a_leg_whose_place_is_taken_is_not_offered_again() {
    let scratch = Scratch::new();
    let options = file_options(&scratch, 3);
    make_array(&options);
    for other in [0, 1] {
        change_superblock(&scratch, other, |own| {
            own.roles[2] = Role::Faulty;
            own.raid_disks = 2;
            own.events += 2;
        });
    }
    let mut notes = Notes::default();
    drop(prepare(&options, &mut notes).unwrap());
    let said = notes.0.join("\n");
    assert!(
        said.contains("leg2 is left out: it failed or was replaced"),
        "{said}"
    );
    assert!(!said.contains("heliostat add"), "{said}");
}

#[test]
fn a_leg_that_the_others_do_not_count_on_may_be_anywhere() {
    let scratch = Scratch::new();
    let mut options = file_options(&scratch, 3);
    make_array(&options);
    let known = Registered::load(&options.places, &options.name).unwrap();
    options.uuid = Some(known.uuid);
    let (leg, away) = (file(&scratch, 2), scratch.path().join("away"));
    std::fs::rename(&leg, &away).unwrap();
    let error = refusal(&options);
    let words = [
        "leg2, where disk has a leg",
        "no such file. If",
        "--degraded-ok",
    ];
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
    for other in [0, 1] {
        change_superblock(&scratch, other, |own| {
            own.roles[2] = Role::Faulty;
            own.events += 2;
        });
    }
    let served = || {
        let mut notes = Notes::default();
        drop(prepare(&options, &mut notes).unwrap());
        notes.0.join("\n")
    };
    let said = served();
    assert!(
        said.contains("leg2 cannot be one: there is no such file\n"),
        "{said}"
    );
    assert!(said.contains("leg 2: missing"), "{said}");
    // Back again, whole, or with its superblock destroyed.
    std::fs::rename(&away, &leg).unwrap();
    let said = served();
    assert!(said.contains("leg2 is left out: it failed"), "{said}");
    put(&scratch, 2, 4096, &[0; 256]);
    let said = served();
    assert!(said.contains("leg2 is left out: it has no md"), "{said}");
    // Whoever holds it may write to it.
    let held = options.legs[2].open().unwrap();
    let error = refusal(&options);
    assert!(error.contains("in use"), "{error}");
    drop(held);
    // One that these count on is another matter.
    std::fs::remove_file(file(&scratch, 1)).unwrap();
    let error = refusal(&options);
    assert!(error.contains("leg1"), "{error}");
}

#[test]
fn a_drive_is_what_lies_on_it_and_no_leg_of_a_mirror() {
    let scratch = Scratch::new();
    let mirror = file_options(&scratch, 2);
    let first = file(&scratch, 0);
    let drive = trusting(&options(&scratch, &[&first]), Trust::Drive);
    let prepared = prepare(&drive, &mut Notes::default()).unwrap();
    assert!(prepared.described.is_none() && prepared.record.is_none());
    assert_eq!(prepared.size_bytes, LEG_BYTES);
    drop(prepared);
    drop(
        prepare(
            &trusting(&mirror, Trust::AssumeClean),
            &mut Notes::default(),
        )
        .unwrap(),
    );
    let error = refusal(&drive);
    assert!(error.contains("is a leg of the mirror"), "{error}");
    let error = trusting(&mirror, Trust::Drive).check().unwrap_err();
    assert!(error.to_string().contains("2 were named"), "{error}");
}

#[test]
fn a_leg_that_is_too_small_for_an_array_is_named() {
    let scratch = Scratch::new();
    let mut options = rig::new_array(&file_options(&scratch, 3));
    let small = file(&scratch, 1);
    File::create(&small).unwrap().set_len(1 << 20).unwrap();
    options.legs[0].spec = None;
    let error = crate::create(&options, &mut Notes::default()).unwrap_err();
    let told = format!("{small}: the size of a leg is 1 MiB: behind what md keeps");
    assert!(error.to_string().starts_with(&told), "{error}");
}

#[test]
fn a_mirror_of_one_leg_is_no_mirror_of_legs() {
    assert_eq!(super::mirror_of(1), "a mirror of 1 leg");
    assert_eq!(super::mirror_of(2), "a mirror of 2 legs");
}
