//! Volumes of an array that is served, and what is left of them when it ends in any way.

use heliostat_types::{ErrorKind, Extent};

use crate::rig::{Job, Rig, file, make_array, options};
use crate::scratch::Scratch;
use crate::{ArrayOptions, LimitsChange, VolumeChange};

const MIB: u64 = 1 << 20;

/// A mirror of two legs with room for 12 volumes of a MiB.
fn array(scratch: &Scratch) -> ArrayOptions {
    let legs = [0, 1].map(|index| file(scratch, index));
    for leg in &legs {
        let leg = std::fs::File::options().write(true).open(leg).unwrap();
        leg.set_len(16 * MIB).unwrap();
    }
    let options = options(scratch, &[&legs[0], &legs[1]]);
    make_array(&options);
    options
}

fn create(name: &str, mib: u64) -> VolumeChange {
    VolumeChange::Create {
        volume: name.to_owned(),
        size_bytes: mib * MIB,
        limits: LimitsChange::default(),
        force: false,
    }
}

fn resize(name: &str, mib: u64, shrink: bool) -> VolumeChange {
    VolumeChange::Resize {
        volume: name.to_owned(),
        size_bytes: mib * MIB,
        shrink,
    }
}

fn delete(name: &str) -> VolumeChange {
    let volume = name.to_owned();
    VolumeChange::Delete { volume }
}

fn change(rig: &Rig, change: VolumeChange) {
    rig.handle.change_volumes(change).unwrap();
}

fn refusal(rig: &Rig, change: VolumeChange) -> String {
    rig.handle.change_volumes(change).unwrap_err().to_string()
}

/// Names and sizes in MiB when all is zeroed.
fn volumes(rig: &Rig) -> Vec<(String, u64)> {
    loop {
        let status = rig.handle.volumes().unwrap();
        assert_eq!(status.problem, None);
        if status.volumes.iter().all(|volume| volume.state == "ready") {
            let sizes = status.volumes.into_iter();
            return sizes
                .map(|volume| (volume.name, volume.size_bytes / MIB))
                .collect();
        }
    }
}

fn named(volumes: &[(&str, u64)]) -> Vec<(String, u64)> {
    let volumes = volumes.iter();
    volumes
        .map(|(name, mib)| ((*name).to_owned(), *mib))
        .collect()
}

#[test]
fn requests_in_a_volume_stay_in_it_and_go_over_its_borders() {
    let scratch = Scratch::new();
    let options = array(&scratch);
    let rig = Rig::start(&options).unwrap();
    change(&rig, create("a", 2));
    change(&rig, create("b", 1));
    change(&rig, resize("a", 4, false));
    assert_eq!(volumes(&rig), named(&[("a", 4), ("b", 1)]));
    // Nobody reaches the array, or a volume by accident.
    let all = Extent::new(0, 4096);
    assert_eq!(rig.request(Job::Read(all)), Err(ErrorKind::InvalidInput));
    assert_eq!(
        rig.request(Job::Write(all, 1)),
        Err(ErrorKind::InvalidInput)
    );
    rig.ask(Job::Enter("a".to_owned()));
    // The border of its two extents lies at 2 MiB.
    let border = Extent::new(2 * MIB - 700, 1500);
    assert_eq!(rig.request(Job::Write(border, 7)), Ok(vec![]));
    assert_eq!(rig.request(Job::Read(border)), Ok(vec![7; 1500]));
    let around = rig.request(Job::Read(Extent::new(2 * MIB - 701, 1502)));
    let around = around.unwrap();
    assert!(around[0] == 0 && around[1501] == 0);
    let behind = Extent::new(4 * MIB - 5, 6);
    assert_eq!(rig.request(Job::Read(behind)), Err(ErrorKind::InvalidInput));
    assert!(refusal(&rig, delete("a")).contains("is in use"));
    assert!(refusal(&rig, resize("a", 1, true)).contains("is in use"));
    assert!(refusal(&rig, resize("a", 1, false)).contains("--shrink"));
    rig.ask(Job::Leave);
    rig.ask(Job::Enter("b".to_owned()));
    assert_eq!(
        rig.request(Job::Read(Extent::new(0, 4096))),
        Ok(vec![0; 4096])
    );
    assert!(rig.stop().is_clean);
    let rig = Rig::start(&options).unwrap();
    rig.ask(Job::Enter("a".to_owned()));
    assert_eq!(rig.request(Job::Read(border)), Ok(vec![7; 1500]));
    assert!(rig.stop().is_clean);
}

#[test]
fn what_another_volume_held_is_not_shown() {
    let scratch = Scratch::new();
    let rig = Rig::start(&array(&scratch)).unwrap();
    change(&rig, create("old", 3));
    assert_eq!(volumes(&rig), named(&[("old", 3)]));
    change(&rig, create("other", 1));
    rig.ask(Job::Enter("old".to_owned()));
    let all = Extent::new(0, 3 * MIB);
    assert_eq!(rig.request(Job::Write(all, 9)), Ok(vec![]));
    rig.ask(Job::Leave);
    // The job before has been done when the next one is answered.
    assert_eq!(rig.request(Job::Read(all)), Err(ErrorKind::InvalidInput));
    change(&rig, delete("old"));
    change(&rig, create("new", 3));
    assert_eq!(volumes(&rig), named(&[("other", 1), ("new", 3)]));
    rig.ask(Job::Enter("new".to_owned()));
    let bytes = rig.request(Job::Read(all)).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0));
    rig.stop();
}

#[test]
fn the_first_volume_takes_nobodys_data() {
    let scratch = Scratch::new();
    let options = array(&scratch);
    let rig = Rig::start(&options).unwrap();
    let size_bytes = rig.handle.volumes().unwrap().size_bytes;
    let end = Extent::new(size_bytes / MIB * MIB - 4096, 4096);
    assert_eq!(rig.request(Job::Write(end, 1)), Ok(vec![]));
    assert!(refusal(&rig, create("a", 1)).contains("something unknown"));
    assert_eq!(rig.request(Job::Read(end)), Ok(vec![1; 4096]));
    let force = VolumeChange::Create {
        volume: "a".to_owned(),
        size_bytes: 1,
        limits: LimitsChange::default(),
        force: true,
    };
    change(&rig, force);
    assert_eq!(volumes(&rig), named(&[("a", 1)]));
    // Without volumes it is one again, and nothing is left of the table.
    change(&rig, delete("a"));
    let start = Extent::new(0, 65536);
    assert_eq!(rig.request(Job::Read(start)), Ok(vec![0; 65536]));
    change(&rig, create("b", 2));
    assert_eq!(volumes(&rig), named(&[("b", 2)]));
    rig.stop();
    let whole = ArrayOptions {
        whole: true,
        ..options.clone()
    };
    let rig = Rig::start(&whole).unwrap();
    let bytes = rig.request(Job::Read(start)).unwrap();
    assert_eq!(bytes[..8], *b"HELIOVOL");
    assert!(refusal(&rig, create("c", 1)).contains("--whole"));
    rig.stop();
    let read_only = ArrayOptions {
        read_only: true,
        ..options
    };
    let rig = Rig::start(&read_only).unwrap();
    assert_eq!(volumes(&rig), named(&[("b", 2)]));
    assert!(refusal(&rig, create("c", 1)).contains("read-only"));
    rig.stop();
}

#[test]
fn an_array_is_not_cut_while_something_is_under_way_in_it_as_a_whole() {
    let scratch = Scratch::new();
    let made = array(&scratch);
    // Slow enough for somebody to ask for a volume meanwhile.
    let slow = |index| format!("model:net-ssd,slow=50,file={}", file(&scratch, index));
    let legs = [slow(0), slow(1)];
    let slow = ArrayOptions {
        legs: options(&scratch, &[&legs[0], &legs[1]]).legs,
        ..made
    };
    let rig = Rig::start(&slow).unwrap();
    rig.ask(Job::Write(Extent::new(0, 4096), 1));
    // The write was handed in before this is answered.
    let beyond = Extent::new(1 << 40, 4096);
    assert_eq!(rig.request(Job::Read(beyond)), Err(ErrorKind::InvalidInput));
    assert!(refusal(&rig, create("a", 1)).contains("by 1 request without an answer"));
    assert_eq!(rig.outcome(), Ok(vec![]));
    // From then on it is data like any other.
    assert!(refusal(&rig, create("a", 1)).contains("something unknown"));
    rig.stop();
}

#[test]
fn no_volume_is_called_as_the_whole_but_one_that_was_is_served() {
    let scratch = Scratch::new();
    let options = array(&scratch);
    let other = ArrayOptions {
        name: "other".to_owned(),
        ..options.clone()
    };
    let rig = Rig::start(&other).unwrap();
    for name in ["other", "test"] {
        assert!(refusal(&rig, create(name, 1)).contains("the array as a whole"));
    }
    change(&rig, create(&options.name, 1));
    assert_eq!(volumes(&rig), named(&[(&options.name, 1)]));
    rig.stop();
    let rig = Rig::start(&options).unwrap();
    assert_eq!(volumes(&rig), named(&[(&options.name, 1)]));
    rig.ask(Job::Enter(options.name.clone()));
    let all = Extent::new(0, 4096);
    assert_eq!(rig.request(Job::Read(all)), Ok(vec![0; 4096]));
    rig.stop();
}

#[test]
fn whoever_sets_limits_is_told_which_there_are_then() {
    let scratch = Scratch::new();
    let rig = Rig::start(&array(&scratch)).unwrap();
    change(&rig, create("a", 1));
    let set = |limits| {
        let volume = "a".to_owned();
        let set = VolumeChange::Set { volume, limits };
        rig.handle.change_volumes(set).unwrap()
    };
    let told = set(LimitsChange {
        weight: Some(3),
        bytes_per_s_max: Some(10_000_000),
        ..LimitsChange::default()
    });
    assert_eq!(told, "volume a: weight 3, 10MB/s");
    let told = set(LimitsChange {
        iops_max: Some(500),
        bytes_per_s_max: Some(0),
        ..LimitsChange::default()
    });
    assert_eq!(told, "volume a: weight 3, 500 IOPS");
    rig.stop();
}

#[test]
fn raw_legs_have_no_volumes() {
    let scratch = Scratch::new();
    let rig = Rig::start(&crate::rig::memory_options(&scratch)).unwrap();
    assert!(refusal(&rig, create("a", 1)).contains("raw"));
    assert_eq!(rig.handle.volumes().unwrap().free_bytes, None);
    rig.stop();
}
