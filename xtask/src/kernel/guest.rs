//! One guest: a machine emulated by QEMU, without KVM, with drives that are files here.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::initramfs::Image;
use crate::process;

/// The emulator.
pub(super) const EMULATOR: &str = "qemu-system-x86_64";

/// How long a guest may take. Booting takes ten seconds, and a minute on a busy machine, where all
/// of its cases may take a quarter of an hour.
const TIME_MAX: Duration = Duration::from_secs(900);

/// How long an interactive guest may take: nobody debugs that long in one go.
const SHELL_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// What tells the guest that somebody sits at its console.
const SHELL: &str = "heliostat.shell";

/// What the guest says last, if all went well.
const MARKER: &str = "init: the job is done";

/// The first of the machine's slots that is free, and how many functions each has.
const SLOT_FIRST: usize = 3;
const SLOT_FUNCTIONS: usize = 8;

/// How many drives a guest can have: in what slots are left of 32.
pub(super) const DRIVES_MAX: usize = (32 - SLOT_FIRST) * SLOT_FUNCTIONS;

/// Room for what the cases of a guest leave.
const RESULT_BYTES: u64 = 1 << 30;

/// A guest's memory. What its cases leave lies there until its end, and may have half of it.
const MEMORY: &str = "1536M";

/// A drive of the guest.
#[derive(Clone, Debug)]
pub(crate) struct Drive {
    /// What the guest knows it by; 20 characters at most.
    serial: String,
    bytes: Bytes,
    /// Whether the guest may not write to it.
    is_read_only: bool,
}

/// Where the bytes of a drive are.
#[derive(Clone, Debug)]
enum Bytes {
    /// In a file here, which nobody needs any more when the guest was killed.
    File(PathBuf),
    /// At an NBD server that listens on this socket, as the export of this name.
    Export { socket: PathBuf, name: String },
}

impl Drive {
    /// A file as a drive that the guest may write to.
    pub(super) const fn new(serial: String, file: PathBuf) -> Self {
        Self {
            serial,
            bytes: Bytes::File(file),
            is_read_only: false,
        }
    }

    /// An export as a drive that the guest may write to; the export is called as the drive.
    pub(crate) fn export(name: &str, socket: &Path) -> Self {
        let bytes = Bytes::Export {
            socket: socket.to_owned(),
            name: name.to_owned(),
        };
        Self {
            serial: name.to_owned(),
            bytes,
            is_read_only: false,
        }
    }

    /// The same drive, not to be written to.
    pub(super) const fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }
}

/// Runs a guest to its end. What it leaves in its directory of results is put into `results`; its
/// console and its own drives into `directory`.
///
/// # Errors
/// Where it does not come to its end in time, or panics; the error has the end of its console.
pub(super) fn run(
    image: &Image,
    directory: &Path,
    drives: &[Drive],
    job: &str,
    results: &Path,
) -> Result<()> {
    let result = directory.join("result");
    File::create(&result)?.set_len(RESULT_BYTES)?;
    let mut all = vec![job_drive(directory, job)?];
    all.push(Drive::new("result".to_owned(), result.clone()));
    all.extend_from_slice(drives);
    let console = directory.join("console.log");
    let mut command = emulator(image, &all, "", TIME_MAX)?;
    let serial = format!("file:{}", console.display());
    let said = process::listen(command.args(["-serial", &serial]))?;
    let text = fs::read(&console).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).replace('\r', "");
    if !text.contains(MARKER) {
        let end = process::end_of(until_panic(&text));
        let (status, stderr) = (said.status, said.stderr);
        let how = match status.code() {
            Some(124 | 137) => format!("was ended after {} s", TIME_MAX.as_secs()),
            _ => format!("ended too early, and its emulator with {status}"),
        };
        bail!("the guest {how}: {stderr}\nthe end of its console:\n{end}");
    }
    unpack(&result, results)
}

/// What a console said, up to the reason of a panic where there was one: registers follow.
fn until_panic(console: &str) -> &str {
    let Some(at) = console.find("Kernel panic") else {
        return console;
    };
    let rest = &console[at..];
    &console[..at + rest.find('\n').unwrap_or(rest.len())]
}

/// Gives whoever runs this a shell in a guest.
///
/// # Errors
/// Where the emulator does not start.
pub(super) fn shell(image: &Image, directory: &Path, drives: &[Drive], job: &str) -> Result<()> {
    let mut all = vec![job_drive(directory, job)?];
    all.extend_from_slice(drives);
    let mut command = emulator(image, &all, SHELL, SHELL_TIME_MAX)?;
    // A terminal stays with the group of processes in the foreground.
    command.args(["-serial", "mon:stdio"]);
    command.stdin(Stdio::inherit());
    let status = command.status().context("starting the emulator")?;
    ensure!(status.success(), "the emulator ended with {status}");
    Ok(())
}

/// The drive with the job: a text that is padded to whole sectors with empty lines.
pub(super) fn job_drive(directory: &Path, job: &str) -> Result<Drive> {
    let file = directory.join("job");
    let size = job.len().next_multiple_of(512).max(512);
    fs::write(&file, format!("{job}{}", "\n".repeat(size - job.len())))
        .with_context(|| format!("writing {}", file.display()))?;
    Ok(Drive::new("job".to_owned(), file).read_only())
}

/// The command of a guest with these drives, with `words` for its kernel, that is ended after
/// `limit`.
pub(super) fn emulator(
    image: &Image,
    drives: &[Drive],
    words: &str,
    limit: Duration,
) -> Result<Command> {
    ensure!(
        drives.len() <= DRIVES_MAX,
        "{} drives, where a guest has {DRIVES_MAX} at most",
        drives.len()
    );
    let mut command = process::limited(limit, EMULATOR);
    // `timeout` would put an interactive guest into the background.
    if words == SHELL {
        command = Command::new(EMULATOR);
    }
    // One processor: two guests with one each do more than one guest with two.
    command
        .args(["-accel", "tcg,thread=multi", "-cpu", "max"])
        .args(["-m", MEMORY, "-smp", "1"])
        .args(["-no-reboot", "-nodefaults", "-display", "none"])
        .arg("-kernel")
        .arg(&image.kernel)
        .arg("-initrd")
        .arg(&image.initramfs)
        .arg("-append")
        .arg(format!(
            "console=ttyS0 panic=-1 oops=panic quiet mitigations=off tsc=reliable no_timer_check \
             {words}"
        ));
    for (drive, index) in drives.iter().zip(0..) {
        command.args(arguments_of(drive, index));
    }
    Ok(command)
}

/// A drive on the guest's bus: as many in a slot as fit there.
fn arguments_of(drive: &Drive, index: usize) -> [String; 4] {
    let (slot, function) = (index / SLOT_FUNCTIONS + SLOT_FIRST, index % SLOT_FUNCTIONS);
    let (file, cache) = match &drive.bytes {
        Bytes::File(file) => (file.display().to_string(), "unsafe"),
        Bytes::Export { socket, name } => (
            format!("nbd:unix:{}:exportname={name}", socket.display()),
            "none",
        ),
    };
    // Commas are doubled in options of the emulator.
    let file = file.replace(',', ",,");
    let read_only = if drive.is_read_only { "on" } else { "off" };
    let serial = &drive.serial;
    [
        "-drive".to_owned(),
        format!(
            "file={file},format=raw,if=none,id=d{index},cache={cache},discard=unmap,\
             readonly={read_only}"
        ),
        "-device".to_owned(),
        format!(
            "virtio-blk-pci,drive=d{index},serial={serial},num-queues=1,multifunction=on,\
             addr={slot:#x}.{function:#x}"
        ),
    ]
}

/// Unpacks the archive that the guest wrote to a drive.
fn unpack(archive: &Path, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    let mut command = Command::new("tar");
    command.arg("-xf").arg(archive).arg("-C").arg(directory);
    process::succeed(&mut command).context("unpacking what the guest left")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{DRIVES_MAX, Drive, arguments_of, until_panic};

    #[test]
    fn a_panic_is_the_end_of_a_console() {
        let console = "case x begins\n[ 4.7] Kernel panic - not syncing: why\n[ 4.8] RIP: 0\n";
        let end = "case x begins\n[ 4.7] Kernel panic - not syncing: why";
        assert_eq!(until_panic(console), end);
        assert_eq!(until_panic("case x begins\n"), "case x begins\n");
    }

    #[test]
    fn drives_share_slots() {
        let drive = Drive::new("3-a".to_owned(), PathBuf::from("x,y")).read_only();
        let [_, backend, _, device] = arguments_of(&drive, 10);
        assert!(backend.starts_with("file=x,,y,format=raw"), "{backend}");
        assert!(backend.ends_with("readonly=on"), "{backend}");
        assert!(device.contains("serial=3-a"), "{device}");
        assert!(device.ends_with("addr=0x4.0x2"), "{device}");
        let [_, _, _, last] = arguments_of(&drive, DRIVES_MAX - 1);
        assert!(last.ends_with("addr=0x1f.0x7"), "{last}");
    }

    #[test]
    fn exports_are_drives() {
        let drive = Drive::export("slow", Path::new("/x/s,1"));
        let [_, backend, _, device] = arguments_of(&drive, 0);
        let file = "file=nbd:unix:/x/s,,1:exportname=slow,format=raw";
        assert!(backend.starts_with(file), "{backend}");
        assert!(backend.contains(",cache=none,"), "{backend}");
        assert!(device.contains("serial=slow"), "{device}");
    }
}
