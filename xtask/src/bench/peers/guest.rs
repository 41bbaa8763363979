//! Linux md and heliostat as one guest sees them: md on virtio drives, heliostat's array as one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::drives::{Drives, Kind, Level, OURS, SIZE_BYTES};
use super::jobs::{Counted, Reached};
use super::{Machine, Outcome, Plan, Target, Way, measure as measure_target};
use crate::kernel::{Drive, Guest};

/// How long a command of a few steps may take in the guest.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(120);

/// What is made before a target is measured and taken apart after it.
struct Peer {
    target: Target,
    before: Before,
}

enum Before {
    /// It is there.
    Nothing,
    /// mdadm makes an array with these options.
    Mdadm(String),
    /// heliostat's array is read by this policy.
    Policy(&'static str),
}

/// Measures all that stands on these drives in a guest.
pub(super) fn measure(
    root: &Path,
    place: &Path,
    drives: &Drives<'_>,
    plan: Plan,
    outcome: &mut Outcome,
) -> Result<()> {
    let directory = place.join("guest");
    fs::create_dir(&directory)?;
    let all = drives.alone.iter().chain(&drives.theirs);
    let mut attached: Vec<Drive> = all
        .map(|drive| Drive::export(&drive.name, &drive.socket))
        .collect();
    attached.push(Drive::export(OURS, &drives.ours_socket));
    let mut guest = Guest::boot(root, &directory, &attached, &["fio"])?;
    outcome.guest_kernel.clone_from(&guest.version);
    tell_kinds(&mut guest, drives)?;
    let names = device_names(&mut guest, drives)?;
    println!("in a guest with Linux {}", guest.version);
    let peers = peers(drives, &names);
    for _ in 0..plan.repeats {
        for peer in &peers {
            match &peer.before {
                Before::Nothing => {}
                Before::Mdadm(options) => {
                    guest.run(&make(options), COMMAND_TIME_MAX)?;
                }
                Before::Policy(policy) => drives.switch(policy)?,
            }
            let target = (Way::Guest, &peer.target);
            outcome
                .samples
                .extend(measure_target(&mut guest, drives, target, plan)?);
            if matches!(peer.before, Before::Mdadm(_)) {
                guest.run(UNMAKE, COMMAND_TIME_MAX)?;
            }
        }
    }
    Ok(())
}

/// Where the array of md is found.
const MD: &str = "/dev/md0";

/// Has mdadm make it with these options, and waits until it is there.
fn make(options: &str) -> String {
    format!(
        "mdadm --create {MD} --run --assume-clean {options}
         while [ ! -b {MD} ]; do sleep 0.1; done"
    )
}

/// Takes it apart, and waits until its device has gone: the kernel takes it away some time later,
/// and with it the name of the one that is made next.
const UNMAKE: &str = "mdadm --stop /dev/md0; while [ -e /dev/md0 ]; do sleep 0.1; done";

/// Tells the guest's kernel what each drive is, as a controller would: virtio calls all of them
/// disks that turn, and md goes by that.
fn tell_kinds(guest: &mut Guest, drives: &Drives<'_>) -> Result<()> {
    for drive in drives.alone.iter().chain(&drives.theirs) {
        let rotational = u8::from(drive.kind == Kind::Hdd);
        let script = format!(
            "d=$(readlink /drives/{}); echo {rotational} > /sys/block/${{d##*/}}/queue/rotational",
            drive.name
        );
        guest.run(&script, COMMAND_TIME_MAX)?;
    }
    Ok(())
}

/// What the guest calls the legs of md.
fn device_names(guest: &mut Guest, drives: &Drives<'_>) -> Result<Vec<String>> {
    let name = |drive: &super::drives::Drive| {
        let said = guest.run(
            &format!("readlink /drives/{}", drive.name),
            COMMAND_TIME_MAX,
        )?;
        let name = said.trim().strip_prefix("/dev/").map(str::to_owned);
        name.with_context(|| format!("the guest has no drive {}: {said}", drive.name))
    };
    drives.theirs.iter().map(name).collect()
}

fn peers(drives: &Drives<'_>, names: &[String]) -> Vec<Peer> {
    let path = |path: String| Reached::Path {
        path,
        bytes: SIZE_BYTES - HEAD_BYTES,
    };
    let mut peers = Vec::new();
    for drive in &drives.alone {
        peers.push(Peer {
            target: Target {
                peer: format!("{} alone", drive.kind.name()),
                reached: path(format!("/drives/{}", drive.name)),
                counted: Counted::Nowhere,
            },
            before: Before::Nothing,
        });
    }
    let bytes = match drives.array.level {
        Level::Raid1 => SIZE_BYTES - HEAD_BYTES,
        Level::Raid10 => 2 * (SIZE_BYTES - HEAD_BYTES),
    };
    let array = |path: &str| Reached::Path {
        path: path.to_owned(),
        bytes,
    };
    for (peer, options) in md_arrays(drives) {
        peers.push(Peer {
            target: Target {
                peer,
                reached: array(MD),
                counted: Counted::Devices(names.to_vec()),
            },
            before: Before::Mdadm(options),
        });
    }
    for policy in ["md", "adaptive"] {
        peers.push(Peer {
            target: Target {
                peer: format!("heliostat, {policy}"),
                reached: array(&format!("/drives/{OURS}")),
                counted: Counted::Drives(drives.leg_names()),
            },
            before: Before::Policy(policy),
        });
    }
    peers
}

/// What md and heliostat keep at the head of each leg of this size, and some more.
const HEAD_BYTES: u64 = 16 << 20;

/// The arrays that md makes of these drives: what each is called, and mdadm's options.
fn md_arrays(drives: &Drives<'_>) -> Vec<(String, String)> {
    let legs: Vec<String> = drives
        .theirs
        .iter()
        .map(|drive| format!("/drives/{}", drive.name))
        .collect();
    let with = |options: &str, legs: &[&str]| {
        format!(
            "{options} --raid-devices={} {}",
            drives.theirs.len(),
            legs.join(" ")
        )
    };
    if drives.array.level == Level::Raid10 {
        let legs: Vec<&str> = legs.iter().map(String::as_str).collect();
        let options = with("--level=10 --layout=n2 --chunk=512", &legs);
        return vec![("md RAID10".to_owned(), options)];
    }
    let (one, other) = (legs[0].as_str(), legs[1].as_str());
    let raid1 = "--level=1 --bitmap=none";
    let raid10 = with(
        "--level=10 --layout=n2 --chunk=512 --bitmap=none",
        &[one, other],
    );
    if drives.array.legs[0] == drives.array.legs[1] {
        return vec![
            ("md RAID1".to_owned(), with(raid1, &[one, other])),
            ("md RAID10".to_owned(), raid10),
        ];
    }
    vec![
        ("md RAID1, hdd first".to_owned(), with(raid1, &[one, other])),
        ("md RAID1, ssd first".to_owned(), with(raid1, &[other, one])),
        (
            "md RAID1, write-mostly".to_owned(),
            with(raid1, &[other, "--write-mostly", one]),
        ),
        ("md RAID10, hdd first".to_owned(), raid10),
    ]
}

impl Machine for Guest {
    fn fio(&mut self, arguments: &[String], limit: Duration) -> Result<String> {
        // Its file of results would have to be somewhere; what it prints is what is wanted.
        self.run(&format!("fio {}", arguments.join(" ")), limit)
    }

    fn drop_caches(&mut self) -> Result<()> {
        self.run("sync; echo 3 > /proc/sys/vm/drop_caches", COMMAND_TIME_MAX)?;
        Ok(())
    }

    fn diskstats(&mut self) -> Result<String> {
        self.run("cat /proc/diskstats", COMMAND_TIME_MAX)
    }
}
