use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::Duration;

use heliostat_engine::Layout;
use heliostat_format::assembly::{Assembly, Resync};
use heliostat_format::{Growth, GrowthPlan, GrowthWrite, NewBitmap};
use heliostat_leg::{LegSpec, OpenedLeg};
use heliostat_types::Extent;

use super::{GrowOptions, GrowWhat, Legs, grow, growth_of, now, open, write};
use crate::create::{CreateLeg, CreateOptions, create};
use crate::registry::Registered;
use crate::rig::{Job, LEG_BYTES, Notes, Rig, file, options};
use crate::scratch::Scratch;

const BLOCK: Extent = Extent::new(4096, 4096);

/// An array of two legs, equal, in this directory.
fn array(scratch: &Scratch) -> Registered {
    let legs = [file(scratch, 0), file(scratch, 1)];
    let places = options(scratch, &[&legs[0], &legs[1]]).places;
    let created = create(
        &CreateOptions {
            name: "disk".to_owned(),
            host: None,
            layout: Layout::Mirror,
            legs: legs
                .iter()
                .map(|leg| CreateLeg {
                    spec: Some(LegSpec::parse(leg).unwrap()),
                    write_mostly: false,
                    failfast: false,
                })
                .collect(),
            spares: Vec::new(),
            bitmap: Some(NewBitmap {
                chunk_bytes: Some(4096),
                ..NewBitmap::default()
            }),
            assume_clean: true,
            force: false,
            places: places.clone(),
        },
        &mut Notes::default(),
    );
    created.unwrap();
    let rig = Rig::start(&options(scratch, &[&legs[0], &legs[1]])).unwrap();
    rig.request(Job::Write(BLOCK, 7)).unwrap();
    rig.stop();
    Registered::load(&places, "disk").unwrap()
}

fn enlarge(registered: &Registered) {
    for leg in &registered.legs {
        let file = OpenOptions::new().write(true).open(leg).unwrap();
        file.set_len(2 * LEG_BYTES).unwrap();
    }
}

fn plan(legs: &Legs, growth: Growth) -> GrowthPlan {
    let sizes: Vec<u64> = legs
        .opened
        .iter()
        .map(|leg| leg.info().size_bytes)
        .collect();
    GrowthPlan::new(&legs.candidates, &sizes, growth, now()).unwrap()
}

/// Serves an array whose growth was cut short: it is whole, and afterwards its legs agree.
fn serve_and_compare(scratch: &Scratch, registered: &Registered, count: usize) {
    let [one, other] = &registered.legs[..] else {
        panic!("two legs");
    };
    let mut options = options(scratch, &[one, other]);
    options.degraded_ok = true;
    let rig = Rig::start(&options).unwrap();
    assert_eq!(rig.request(Job::Read(BLOCK)), Ok(vec![7; 4096]));
    let status = rig.handle.status().unwrap();
    assert_eq!(status.legs_in_sync, 2, "after {count} writes");
    rig.request(Job::Write(Extent::new(status.size_bytes - 4096, 4096), 9))
        .unwrap();
    while rig.handle.status().unwrap().background.is_some() {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(rig.stop().is_clean);
    let legs = open(registered, &mut Notes::default()).unwrap();
    let said = |leg: usize| {
        let own = &legs.candidates[leg].superblock;
        (own.raid_disks, own.size_sectors, own.events)
    };
    assert_eq!(said(0), said(1), "after {count} writes");
    let assembly = Assembly::of(&legs.candidates).unwrap();
    assert_eq!(assembly.resync, Resync::Nowhere);
    let end = usize::try_from(status.size_bytes).unwrap();
    let data = |leg: &String| fs::read(leg).unwrap()[1 << 20..][..end].to_vec();
    assert!(data(one) == data(other), "after {count} writes");
}

fn copy(from: &Scratch, to: &Scratch) -> Registered {
    for index in 0..2 {
        let name = Path::new(&file(from, index)).to_owned();
        fs::copy(&name, to.path().join(name.file_name().unwrap())).unwrap();
    }
    let registered = Registered::load(&options(from, &[]).places, "disk").unwrap();
    registered.with_legs([file(to, 0), file(to, 1)])
}

#[test]
fn a_growth_that_is_cut_after_any_write_is_served() {
    for what in [
        GrowWhat::Legs {
            count: 3,
            new: Vec::new(),
        },
        GrowWhat::Size {
            bytes: None,
            assume_clean: false,
        },
    ] {
        let scratch = Scratch::new();
        let registered = array(&scratch);
        enlarge(&registered);
        // What is new differs.
        let second = OpenOptions::new().write(true).open(&registered.legs[1]);
        use std::os::unix::fs::FileExt as _;
        second
            .unwrap()
            .write_at(&[1; 4096], LEG_BYTES + 9000)
            .unwrap();
        let writes = {
            let legs = open(&registered, &mut Notes::default()).unwrap();
            plan(&legs, growth_of(&what)).writes.len()
        };
        let first = matches!(what, GrowWhat::Size { .. });
        assert!(writes >= 4 + 2 * usize::from(first), "{writes}");
        for count in 0..=writes {
            let place = Scratch::new();
            let registered = copy(&scratch, &place);
            {
                let legs = open(&registered, &mut Notes::default()).unwrap();
                let plan = plan(&legs, growth_of(&what));
                write(&plan.writes[..count], &legs.opened).unwrap();
            }
            serve_and_compare(&place, &registered, count);
        }
    }
}

#[test]
fn an_array_grows_only_while_it_is_not_served() {
    let scratch = Scratch::new();
    let registered = array(&scratch);
    let places = options(&scratch, &[]).places;
    let growth = GrowOptions {
        name: "disk".to_owned(),
        what: GrowWhat::Legs {
            count: 3,
            new: Vec::new(),
        },
        force: false,
        places: places.clone(),
    };
    let legs: Vec<&str> = registered.legs.iter().map(String::as_str).collect();
    let rig = Rig::start(&options(&scratch, &legs)).unwrap();
    let error = grow(&growth, &mut Notes::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("heliostat stop disk"), "{error}");
    rig.stop();
    // Nor while somebody has a leg.
    let held: OpenedLeg = LegSpec::parse(legs[1]).unwrap().open().unwrap();
    let error = grow(&growth, &mut Notes::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("in use") && error.contains(legs[1]),
        "{error}"
    );
    drop(held);
    let other_name = format!("{}/./leg1", scratch.path().display());
    let twice = GrowOptions {
        what: GrowWhat::Legs {
            count: 3,
            new: vec![other_name.clone()],
        },
        ..growth.clone()
    };
    let error = grow(&twice, &mut Notes::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("{other_name} is leg 1 of disk already; name new legs only")
    );
    let grown = grow(&growth, &mut Notes::default()).unwrap();
    assert!(grown.is_changed && grown.legs_lacking == 1);
    let again = grow(&growth, &mut Notes::default()).unwrap();
    assert!(!again.is_changed);
    // What is no more is forgotten, where nobody has a place for it.
    fs::remove_file(legs[1]).unwrap();
    let fewer = GrowOptions {
        what: GrowWhat::Legs {
            count: 1,
            new: Vec::new(),
        },
        ..growth
    };
    assert_eq!(grow(&fewer, &mut Notes::default()).unwrap().legs, 1);
    let registered = Registered::load(&places, "disk").unwrap();
    assert_eq!(registered.legs.len(), 1);
}

#[test]
fn writes_name_legs_that_are_there() {
    let scratch = Scratch::new();
    let registered = array(&scratch);
    enlarge(&registered);
    let legs = open(&registered, &mut Notes::default()).unwrap();
    let growth = growth_of(&GrowWhat::Size {
        bytes: None,
        assume_clean: true,
    });
    let plan = plan(&legs, growth);
    let last = plan.writes.last().unwrap();
    assert!(matches!(last, GrowthWrite::Superblock { leg: 1, .. }));
    assert_eq!(plan.after.size_sectors, (2 * LEG_BYTES - (1 << 20)) / 512);
}
