//! QEMU's quorum and heliostat as exports, on this machine.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::drives::{Drive, Drives, Level};
use super::jobs::{Counted, Reached};
use super::{Host, Outcome, Plan, Target, Way, measure as measure_target};
use crate::process::Background;
use crate::tools;

/// How long the daemon may take until it listens.
const START_TIME_MAX: Duration = Duration::from_secs(20);

/// What its export is called.
const EXPORT: &str = "quorum";

/// Measures all that is an export of these drives.
pub(super) fn measure(
    place: &Path,
    drives: &Drives<'_>,
    plan: Plan,
    outcome: &mut Outcome,
) -> Result<()> {
    println!("over NBD");
    // quorum has copies of everything on all legs.
    let mut quorums = Vec::new();
    if drives.array.level == Level::Raid1 {
        let legs: Vec<&Drive> = drives.theirs.iter().collect();
        let kinds = &drives.array.legs;
        if kinds[0] == kinds[1] {
            quorums.push(("quorum".to_owned(), legs));
        } else {
            let turned: Vec<&Drive> = drives.theirs.iter().rev().collect();
            for legs in [legs, turned] {
                quorums.push((format!("quorum, {} first", legs[0].kind.name()), legs));
            }
        }
    }
    let target = |peer: String, uri: String, counted: Counted| Target {
        peer,
        reached: Reached::Uri(uri),
        counted,
    };
    for _ in 0..plan.repeats {
        let mut run = |target: &Target| -> Result<()> {
            let measured = measure_target(&mut Host, drives, (Way::Exports, target), plan)?;
            outcome.samples.extend(measured);
            Ok(())
        };
        for drive in &drives.alone {
            let peer = format!("{} alone", drive.kind.name());
            run(&target(peer, drive.uri(), Counted::Nowhere))?;
        }
        for (peer, legs) in &quorums {
            let socket = place.join("quorum.sock");
            let _server = quorum(place, &socket, legs)?;
            let names = drives.theirs.iter().map(|drive| drive.name.clone());
            run(&target(
                peer.clone(),
                format!("nbd+unix:///{EXPORT}?socket={}", socket.display()),
                Counted::Drives(names.collect()),
            ))?;
        }
        drives.switch("adaptive")?;
        run(&target(
            "heliostat, adaptive".to_owned(),
            drives.ours_uri(),
            Counted::Drives(drives.leg_names()),
        ))?;
    }
    Ok(())
}

/// A mirror that reads its first leg, and another one where that fails.
fn quorum(place: &Path, socket: &Path, legs: &[&Drive]) -> Result<Background> {
    let program = "qemu-storage-daemon";
    let mut command = Command::new(tools::find(program).context("it is missing")?);
    let mut children = String::new();
    for (index, leg) in legs.iter().enumerate() {
        command.arg("--blockdev").arg(format!(
            "driver=nbd,node-name=copy{index},server.type=unix,server.path={},export={}",
            leg.socket.display(),
            leg.name
        ));
        children.push_str(&format!(",children.{index}=copy{index}"));
    }
    command.arg("--blockdev").arg(format!(
        "driver=quorum,node-name=quorum,read-pattern=fifo,vote-threshold={}{children}",
        legs.len()
    ));
    let server = format!("addr.type=unix,addr.path={}", socket.display());
    command.args(["--nbd-server", &server, "--export"]);
    command.arg(format!(
        "type=nbd,id=export,node-name=quorum,name={EXPORT},writable=on"
    ));
    let mut process = Background::start(&mut command, &place.join("quorum.log"))?;
    process.wait_for_socket(socket, START_TIME_MAX)?;
    Ok(process)
}
