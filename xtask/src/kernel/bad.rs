//! Bad blocks, both ways: what heliostat logs, the kernel heeds, and what the kernel logs,
//! heliostat does.

use anyhow::{Result, ensure};

use super::agreement::{agree, agree_on_members, agree_throughout, expect, keep};
use super::case::{Case, Place};
use super::served::{create, paths, write};
use crate::e2e::room::Room;
use crate::e2e::server::{NAME, Server};

/// The size of the legs, of which the array leaves 1 MiB to the metadata.
const LEG_BYTES: u64 = 16 << 20;

/// All of the array, in KiB.
const SIZE_KIB: u64 = 15 << 10;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let cases = [logged_here(), logged_there()];
    cases.into_iter().map(Case::with_program).collect()
}

/// A page of the second leg cannot be written while heliostat serves the array. The kernel shows it
/// as bad, reads it from the other leg though it should read that one last, and forgets it when it
/// has written it.
fn logged_here() -> Case {
    Case::new("bad-blocks-of-heliostat")
        .legs(2, LEG_BYTES)
        .host(|place| {
            let room = place.room()?;
            create(place, &room, "a b", "--level raid1 --bitmap-chunk 64K")?;
            let mut legs = paths(place, "a b");
            // The 1040th KiB of the data, which begins at 1 MiB.
            legs[1] = format!("model:ram,file={},error=write,range=2064k+4k", legs[1]);
            let server = Server::start(&room, &legs, &[])?;
            write(place, &room, &server, "a5", 0, SIZE_KIB)?;
            let status = server.control(&["status", NAME])?;
            ensure!(status.contains(", 8 bad sectors"), "status: {status}");
            server.terminate()?;
            keep(place, "a b", "a b")
        })
        .guest(
            "examine before
             assemble $a $b
             settle
             cat $sys/dev-${b##*/}/bad_blocks > bad_blocks
             [ \"$(tr '\\n' , < bad_blocks)\" = '4128 8,' ]
             echo writemostly > $sys/dev-${a##*/}/state
             save array
             echo -writemostly > $sys/dev-${a##*/}/state
             rewrite 1024 64
             sync
             [ -z \"$(cat $sys/dev-${b##*/}/bad_blocks)\" ]
             stop",
        )
        .host(|place| {
            let told = place.judge("tags results/array")?;
            expect("what the kernel read", &told, &format!("0..{SIZE_KIB} a5"))?;
            let copies = format!("0..1024 a5 a5, 1024..1088 b5 b5, 1088..{SIZE_KIB} a5 a5");
            agree_throughout(place, "a b", &copies)
        })
}

/// The kernel is told of a bad block of the second leg. heliostat reads it from the first one
/// though all else is read from the second, and forgets it when it has written it.
fn logged_there() -> Case {
    Case::new("bad-blocks-of-the-kernel")
        .legs(2, LEG_BYTES)
        .guest(
            "mdadm --create $md --run --level=1 --raid-devices=2 --bitmap=internal \
                 --bitmap-chunk=64K --data-offset=1M --assume-clean $legs
             fill
             echo '4096 128' > $sys/dev-${b##*/}/bad_blocks
             rewrite 4096 64
             while ! mdadm --examine-badblocks $b | grep -q '4096 for 128'; do sleep 0.1; done
             stop",
        )
        .host(|place| {
            agree(place, "after", "a b")?;
            // What the second leg holds there must not be seen by anybody.
            place.judge("differ 16 a b")?;
            let room = place.room()?;
            let options = ["--name", NAME, "--policy", "devid:2"];
            let server = Server::start(&room, &paths(place, "a b"), &options)?;
            let status = server.control(&["status", NAME])?;
            ensure!(status.contains(", 128 bad sectors"), "status: {status}");
            expect("before", &read(place, &room, &server)?, &with_piece("a5"))?;
            write(place, &room, &server, "b5", 1024, 64)?;
            let status = server.control(&["status", NAME])?;
            ensure!(!status.contains("bad sectors"), "status: {status}");
            expect("after", &read(place, &room, &server)?, &with_piece("b5"))?;
            server.terminate()?;
            keep(place, "a b", "a b")
        })
        .guest(
            "examine before
             assemble $legs
             settle
             [ -z \"$(cat $sys/dev-${b##*/}/bad_blocks)\" ]
             echo check > $sys/sync_action
             settle
             [ \"$(cat $sys/mismatch_cnt)\" = 0 ]
             stop",
        )
        .host(|place| {
            agree(place, "before", "a b")?;
            agree_on_members(place, "a b")
        })
}

/// What clients of heliostat read of an array.
fn read(place: &Place, room: &Room, server: &Server<'_>) -> Result<String> {
    let array = room.path_text("array");
    let convert = ["convert", "-f", "raw", "-O", "raw"];
    room.run(
        "qemu-img",
        &[&convert[..], &[&server.uri(), &array]].concat(),
    )?;
    place.judge(&format!("tags {array}"))
}

/// All of the array when 64 KiB at 1 MiB have this tag.
fn with_piece(tag: &str) -> String {
    let behind = format!("4096..4160 b5, 4160..{SIZE_KIB} a5");
    match tag {
        "a5" => format!("0..4096 a5, {behind}"),
        tag => format!("0..1024 a5, 1024..1088 {tag}, 1088..4096 a5, {behind}"),
    }
}
