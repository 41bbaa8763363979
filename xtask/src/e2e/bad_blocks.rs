//! Bad blocks: drives that cannot write some of their bytes stay legs, and nobody reads these
//! there.

use anyhow::{Context, Result, ensure};

use super::Test;
use super::arrays::create_well;
use super::legs;
use super::room::Room;
use super::server::{NAME, Server};

pub(super) const TESTS: &[Test] = &[
    Test {
        name: "bad_blocks",
        about: "a write over bytes that a leg cannot write: it stays, kill -9, reads are right",
        run: bad_blocks,
    },
    Test {
        name: "bad_reads",
        about: "a sector that cannot be read is mended, and counted on the leg for good",
        run: bad_reads,
    },
];

/// Where the data of these legs begins.
const DATA_OFFSET: u64 = 1 << 20;

/// Where in the array the bytes lie that go wrong.
const PLACE: u64 = 3 << 20;

/// Two legs on files, of which the second one is a drive with this fault.
fn legs_with(room: &Room, fault: &str) -> Result<(Vec<String>, Vec<String>)> {
    let files = [0, 1].map(|index| legs::sparse_file(room, index));
    let files = files.into_iter().collect::<Result<Vec<_>>>()?;
    create_well(room, &files, &["--level", "raid1", "--assume-clean"])?;
    let faulty = format!("model:ram,file={},{fault}", files[1]);
    Ok((vec![files[0].clone(), faulty], files))
}

/// Has qemu-io do this with an array.
fn io(room: &Room, server: &Server<'_>, command: &str) -> Result<()> {
    let words = ["-f", "raw", "-c", command, "-c", "flush", &server.uri()];
    let said = room.run("qemu-io", &words)?;
    let is_good = said.contains("wrote") || said.contains("read");
    ensure!(is_good && !said.contains("failed"), "{command}: {said}");
    Ok(())
}

fn bad_blocks(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io", "mdadm"])?;
    let at = DATA_OFFSET + PLACE + 8192;
    let (legs, files) = legs_with(room, &format!("error=write,range={at}+4k"))?;
    let options = ["--policy", "devid:2"];
    let server = Server::start(room, &legs, &options)?;
    io(room, &server, &format!("write -P 7 {PLACE} 64k"))?;
    let status = server.control(&["status", NAME])?;
    ensure!(
        status.contains("leg 1: ") && status.contains("in-sync, 8 bad sectors"),
        "status: {status}"
    );
    let json = server.control(&["status", NAME, "--json"])?;
    ensure!(json.contains("\"bad_sectors\":8"), "status: {json}");
    io(room, &server, &format!("read -P 7 {PLACE} 64k"))?;
    server.kill()?;
    // The log says so, to us as to mdadm.
    let sector = at / 512;
    let told = room.run("mdadm", &["--examine-badblocks", &files[1]])?;
    ensure!(told.contains(&format!("{sector} for 8 sectors")), "{told}");
    let program = room.program.display().to_string();
    let ours = room.run(&program, &["examine", &files[1]])?;
    ensure!(ours.contains(&format!("{sector} for 8 sectors")), "{ours}");
    // It is another drive now, which can write everything, and holds other bytes there.
    let server = Server::start(room, &files, &options)?;
    io(room, &server, &format!("read -P 7 {PLACE} 64k"))?;
    io(room, &server, &format!("write -P 8 {} 4k", PLACE + 8192))?;
    let status = server.control(&["status", NAME])?;
    ensure!(!status.contains("bad sectors"), "status: {status}");
    io(room, &server, &format!("read -P 8 {} 4k", PLACE + 8192))?;
    server.terminate()?;
    let told = room.run("mdadm", &["--examine-badblocks", &files[1]])?;
    ensure!(!told.contains(" sectors"), "{told}");
    Ok(())
}

fn bad_reads(room: &Room) -> Result<()> {
    room.require_tools(&["qemu-io", "mdadm"])?;
    let at = DATA_OFFSET + PLACE;
    let (legs, files) = legs_with(room, &format!("error=read,range={at}+512,sticky=true"))?;
    let server = Server::start(room, &legs, &["--policy", "devid:2"])?;
    io(room, &server, &format!("read -P 0 {PLACE} 4k"))?;
    let corrected = |server: &Server<'_>| -> Result<u64> {
        let json = server.control(&["status", NAME, "--json"])?;
        let status: serde_json::Value = serde_json::from_str(&json)?;
        let count = status["legs"][1]["corrected_sectors"].as_u64();
        count.context("a count of corrected sectors")
    };
    crate::process::wait_until("the repair", std::time::Duration::from_secs(20), || {
        Ok(corrected(&server)? > 0)
    })?;
    let before = corrected(&server)?;
    // With the next superblock, which this write asks for.
    io(room, &server, &format!("write -P 1 {PLACE} 4k"))?;
    server.terminate()?;
    let server = Server::start(room, &files, &[])?;
    let after = corrected(&server)?;
    ensure!(
        before == after,
        "{before} were corrected, and {after} are known"
    );
    io(room, &server, &format!("read -P 1 {PLACE} 4k"))?;
    server.terminate()?;
    Ok(())
}
