//! A guest that is told what to do while it runs, a script at a time, over a port of virtio.
//!
//! So whoever measures in a guest can look at what happens outside of it between two scripts, and
//! can go on by what the last one said.

use std::env;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::guest::{self, Drive};
use super::initramfs::Image;
use super::packages::Packages;
use crate::metadata::Metadata;
use crate::process::{self, Background};
use crate::tools;

/// How long the guest lives at most, whatever becomes of whoever started it.
const LIFE_MAX: Duration = Duration::from_secs(2 * 3600);

/// How long booting may take: ten seconds, and a minute or two on a busy machine.
const BOOT_TIME_MAX: Duration = Duration::from_secs(300);

/// How long one look at the port lasts: the guest may have ended meanwhile.
const LOOK_TIME: Duration = Duration::from_millis(500);

/// What stands in the line behind all that a script said, before its exit code.
const MARK: &str = "end-of-script";

/// The guest's job: to read scripts from the port. A serial line loses bytes where an emulated
/// machine is slow to fetch them, and is a terminal, at which a shell would prompt. A port can be
/// opened once.
const JOB: &str = "exec 3<> /dev/vport0p1\n\
                   echo end-of-script 0 >&3\n\
                   sh <&3 >&3 2>&1\n";

/// A guest that waits for scripts; ended when dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    emulator: Background,
    port: UnixStream,
    directory: PathBuf,
    /// What its kernel calls itself.
    pub(crate) version: String,
}

impl Guest {
    /// Boots a guest that knows these drives as `/drives/NAME`, and has these programs of this
    /// machine beside busybox and mdadm. Its files go into `directory`.
    ///
    /// # Errors
    /// Where something is missing, or it does not come up; the error has what its console said.
    pub(crate) fn boot(
        root: &Path,
        directory: &Path,
        drives: &[Drive],
        programs: &[&'static str],
    ) -> Result<Self> {
        ensure!(
            env::consts::ARCH == "x86_64",
            "the guest is x86_64, and this machine is not"
        );
        tools::require(&[guest::EMULATOR, "ldd"])?;
        let target = Metadata::read(&root.join("Cargo.toml"))?.target;
        let packages = Packages::fetch(&target.join("kernel"))?;
        let found = programs.iter().map(|&name| {
            let place = tools::find(name).with_context(|| format!("{name} is missing"))?;
            Ok((name, place))
        });
        let found: Vec<_> = found.collect::<Result<_>>()?;
        let image = Image::build(&packages, directory, &found)?;
        let mut all = vec![guest::job_drive(directory, JOB)?];
        all.extend_from_slice(drives);
        let (port, console) = (directory.join("port"), directory.join("console.log"));
        let mut command = guest::emulator(&image, &all, "", LIFE_MAX)?;
        command.arg("-serial");
        command.arg(format!("file:{}", console.display()));
        command.arg("-chardev");
        command.arg(format!(
            "socket,id=port,path={},server=on,wait=off",
            port.display()
        ));
        command.args(["-device", "virtio-serial-pci,addr=0x2"]);
        command.args(["-device", "virtserialport,chardev=port,nr=1"]);
        let mut emulator = Background::start(&mut command, &directory.join("emulator.log"))?;
        emulator.wait_for_socket(&port, BOOT_TIME_MAX)?;
        let port = UnixStream::connect(&port).context("connecting to the guest's port")?;
        port.set_read_timeout(Some(LOOK_TIME))?;
        let mut guest = Self {
            emulator,
            port,
            directory: directory.to_owned(),
            version: image.version,
        };
        guest.hear(BOOT_TIME_MAX).context("booting")?;
        Ok(guest)
    }

    /// Runs a script that has to succeed, and gives what it said on standard output.
    ///
    /// # Errors
    /// Where it fails, takes longer than `limit`, or the guest ends.
    pub(crate) fn run(&mut self, script: &str, limit: Duration) -> Result<String> {
        // A shell of its own, so that nothing of one script is left to the next; what reads its
        // standard input would read the scripts that follow.
        let told = format!(
            "(set -e\n{script}\n) < /dev/null 2> /tmp/errors\ncode=$?; echo; echo {MARK} $code\n"
        );
        self.port.write_all(told.as_bytes())?;
        let (said, code) = self.hear(limit).with_context(|| script.to_owned())?;
        if code != 0 {
            self.port
                .write_all(format!("cat /tmp/errors; echo; echo {MARK} 0\n").as_bytes())?;
            let (errors, _) = self.hear(limit)?;
            bail!("in the guest: {script}\nended with {code}: {said}\n{errors}");
        }
        Ok(said)
    }

    /// What the guest says until the end of its script, and the script's exit code.
    fn hear(&mut self, limit: Duration) -> Result<(String, i32)> {
        let (start, mut bytes) = (Instant::now(), Vec::new());
        let mut chunk = [0; 4096];
        loop {
            match self.port.read(&mut chunk) {
                Ok(0) => return Err(self.gone()),
                Ok(count) => bytes.extend_from_slice(&chunk[..count]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(error.into()),
            }
            if let Some(ended) = ended(&String::from_utf8_lossy(&bytes)) {
                return Ok(ended);
            }
            if !self.emulator.is_running()? {
                return Err(self.gone());
            }
            ensure!(
                start.elapsed() < limit,
                "the guest did not come to an end within {limit:?}, and said: {}\nits console: {}",
                String::from_utf8_lossy(&bytes),
                self.console()
            );
        }
    }

    fn gone(&self) -> anyhow::Error {
        let said = self.emulator.said().unwrap_or_default();
        anyhow!("the guest has ended: {said}\n{}", self.console())
    }

    fn console(&self) -> String {
        let bytes = fs::read(self.directory.join("console.log")).unwrap_or_default();
        process::end_of(&String::from_utf8_lossy(&bytes).replace('\r', ""))
    }
}

/// What was said before the mark, and the exit code behind it, where the mark is there.
fn ended(said: &str) -> Option<(String, i32)> {
    let (before, rest) = said.rsplit_once(MARK)?;
    let (code, _) = rest.split_once('\n')?;
    let code = code.trim().parse().ok()?;
    // The line feed before the mark is not the script's.
    Some((before.strip_suffix('\n').unwrap_or(before).to_owned(), code))
}

#[cfg(test)]
mod tests {
    use super::ended;

    #[test]
    fn a_script_has_ended_when_its_mark_is_there_as_a_whole() {
        assert_eq!(ended("abc\n\nend-of-scr"), None);
        assert_eq!(ended("abc\n\nend-of-script 1"), None);
        assert_eq!(
            ended("abc\n\nend-of-script 12\n"),
            Some(("abc\n".to_owned(), 12))
        );
        assert_eq!(ended("\nend-of-script 0\n"), Some((String::new(), 0)));
    }
}
