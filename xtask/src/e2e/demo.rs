//! What a visitor tries first.

use anyhow::Result;

use super::Test;
use super::room::Room;
use crate::process;

pub(super) const TESTS: &[Test] = &[Test {
    name: "readme",
    about: "the commands that the README shows, from examples/demo.sh",
    run: readme,
}];

fn readme(room: &Room) -> Result<()> {
    let script = room.root.join("examples/demo.sh");
    room.require(script.exists(), "examples/demo.sh")?;
    let programs = room.program.parent().unwrap_or(&room.root);
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = room.command("sh", &["-eu"]);
    command
        .arg(script)
        .env("PATH", format!("{}:{path}", programs.display()));
    process::succeed(&mut command)?;
    Ok(())
}
