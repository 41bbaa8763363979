//! The line in `mdadm.conf` that keeps the host's hands off an array.
//!
//! Machines assemble legs of md as soon as they see them, unless an `ARRAY <ignore>` line says
//! otherwise. It is added at the end, once, and what stands in the file stays as it is; a file is
//! replaced as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::RuntimeError;

/// Where mdadm looks: Debian's place and that of others. It reads one of the two.
const PLACES: [&str; 2] = ["/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"];

/// What makes an initial RAM disk anew, which has a copy of the file, and how it is told to.
const INITRAMFS_TOOLS: [(&str, &str); 2] = [
    ("/usr/sbin/update-initramfs", "update-initramfs -u"),
    ("/usr/bin/dracut", "dracut --force"),
];

/// Files that tell mdadm what to assemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    files: Vec<PathBuf>,
}

/// What became of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfigChange {
    /// The file.
    pub file: PathBuf,
    /// Whether it was changed; it was as it should be otherwise.
    pub is_changed: bool,
}

impl HostConfig {
    /// This file, or those that mdadm reads on this machine.
    #[must_use]
    pub fn choose(given: Option<&Path>) -> Self {
        if let Some(file) = given {
            return Self {
                files: vec![file.to_owned()],
            };
        }
        Self::among(&PLACES.map(PathBuf::from))
    }

    /// All that are there. Where none is, the first whose directory is there.
    fn among(places: &[PathBuf]) -> Self {
        let there = places.iter().filter(|path| path.exists());
        let mut files: Vec<PathBuf> = there.cloned().collect();
        if files.is_empty() {
            let has_directory = |path: &&PathBuf| path.parent().is_some_and(Path::is_dir);
            files.extend(places.iter().find(has_directory).cloned());
        }
        Self { files }
    }

    /// Whether lines can be added, as far as that can be told before.
    ///
    /// # Errors
    /// Where a file cannot be replaced; the text says why.
    pub fn check(&self) -> Result<(), RuntimeError> {
        if self.files.is_empty() {
            return Err(RuntimeError(
                "there is no place for mdadm.conf on this machine; name one with \
                 --host-config=FILE"
                    .to_owned(),
            ));
        }
        for file in &self.files {
            let target = target_of(file);
            read(&target).map_err(|error| refused(file, &error))?;
            let directory = directory_of(&target);
            let access = rustix::fs::access(directory, rustix::fs::Access::WRITE_OK);
            access.map_err(|error| refused(file, &error.into()))?;
        }
        Ok(())
    }

    /// Adds the line for an array, where it is not there yet.
    ///
    /// # Errors
    /// Where a file cannot be read or written, or says that the array is to be assembled.
    pub fn ignore(&self, name: &str, uuid: &str) -> Result<Vec<HostConfigChange>, RuntimeError> {
        self.change(|file, text| {
            if let Some((number, line)) = assembling_line(text, uuid) {
                return Err(RuntimeError(format!(
                    "{} says in line {number} that mdadm is to assemble this array ({line}); \
                     remove that line first",
                    file.display()
                )));
            }
            Ok(with_line(text, name, uuid))
        })
    }

    /// Removes the line for an array again, where it is there.
    ///
    /// # Errors
    /// Where a file cannot be read or written.
    pub fn forget(&self, uuid: &str) -> Result<Vec<HostConfigChange>, RuntimeError> {
        self.change(|_, text| Ok(without_line(text, uuid)))
    }

    fn change(
        &self,
        new_text: impl Fn(&Path, &str) -> Result<Option<String>, RuntimeError>,
    ) -> Result<Vec<HostConfigChange>, RuntimeError> {
        self.check()?;
        let mut changes = Vec::new();
        for file in &self.files {
            let target = target_of(file);
            let text = read(&target).map_err(|error| refused(file, &error))?;
            let new = new_text(file, &text)?;
            if let Some(new) = &new {
                replace(&target, new).map_err(|error| refused(file, &error))?;
            }
            changes.push(HostConfigChange {
                file: file.clone(),
                is_changed: new.is_some(),
            });
        }
        Ok(changes)
    }

    /// The command after which the change holds early in the boot as well, where there is one.
    #[must_use]
    pub fn initramfs_command() -> Option<&'static str> {
        let tools = INITRAMFS_TOOLS.iter();
        let mut tools = tools.filter(|(tool, _)| Path::new(tool).exists());
        tools.next().map(|(_, command)| *command)
    }
}

/// The line that keeps mdadm from assembling the array of this identity.
#[must_use]
pub fn ignore_line(uuid: &str) -> String {
    format!("ARRAY <ignore> UUID={uuid}")
}

/// The file that a link stands for: the link stays.
fn target_of(file: &Path) -> PathBuf {
    fs::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}

fn directory_of(file: &Path) -> &Path {
    let parent = file.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or_else(|| Path::new("."))
}

/// All of a file; nothing where there is none.
fn read(file: &Path) -> io::Result<String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}

/// Writes a new file beside the old one, with its owner and rights, and gives it its name.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(".heliostat-new");
    let new = PathBuf::from(new);
    let old = fs::metadata(file).ok();
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644);
        options.custom_flags(libc::O_NOFOLLOW);
        let mut opened = options.open(&new)?;
        if let Some(old) = &old {
            opened.set_permissions(old.permissions())?;
            std::os::unix::fs::fchown(&opened, Some(old.uid()), Some(old.gid()))?;
        }
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(&new, file)?;
        File::open(directory_of(file))?.sync_all()
    };
    let written = write();
    if written.is_err() {
        // The error before is the one to tell.
        let _ = fs::remove_file(&new);
    }
    written
}

fn refused(file: &Path, error: &io::Error) -> RuntimeError {
    let way_out = if error.kind() == ErrorKind::PermissionDenied {
        "; that needs root"
    } else {
        ""
    };
    RuntimeError(format!(
        "cannot change {}: {error}{way_out}",
        file.display()
    ))
}

/// Lines that count, with their numbers: a line that begins with a blank goes on with the one
/// before it, and what follows a `#` says nothing.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let is_more = line.starts_with([' ', '\t']);
        let said = line.split('#').next().unwrap_or_default();
        match lines.last_mut() {
            Some((_, last)) if is_more => {
                last.push(' ');
                last.push_str(said.trim());
            }
            _ => lines.push((number, said.trim().to_owned())),
        }
    }
    lines
}

/// Whether a line is one of an array of this identity, and whether it says that it is ignored.
fn array_line(line: &str, uuid: &str) -> Option<bool> {
    let mut words = line.split_whitespace();
    // mdadm takes three letters for a keyword.
    let keyword = words.next()?.to_ascii_lowercase();
    if keyword.len() < 3 || !"array".starts_with(&keyword) {
        return None;
    }
    let digits = |text: &str| -> String {
        let digits = text.chars().filter(char::is_ascii_hexdigit);
        digits.collect::<String>().to_ascii_lowercase()
    };
    let is_of = |word: &str| {
        let (key, value) = word.split_once('=')?;
        (key.eq_ignore_ascii_case("uuid") && digits(value) == digits(uuid)).then_some(())
    };
    let words: Vec<&str> = words.collect();
    words.iter().find_map(|word| is_of(word))?;
    Some(
        words
            .iter()
            .any(|word| word.eq_ignore_ascii_case("<ignore>")),
    )
}

/// The line that says that the array is to be assembled.
fn assembling_line(text: &str, uuid: &str) -> Option<(usize, String)> {
    let mut lines = lines(text).into_iter();
    lines.find(|(_, line)| array_line(line, uuid) == Some(false))
}

/// What stands above a line of ours.
fn comment(name: &str) -> String {
    format!(
        "# The array {name} is served by heliostat: 'heliostat host-config {name} --remove' undoes \
         this."
    )
}

/// The text with the line; `None` where it has it.
fn with_line(text: &str, name: &str, uuid: &str) -> Option<String> {
    let is_there = lines(text)
        .iter()
        .any(|(_, line)| array_line(line, uuid) == Some(true));
    if is_there {
        return None;
    }
    let end = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let (comment, line) = (comment(name), ignore_line(uuid));
    Some(format!("{text}{end}{comment}\n{line}\n"))
}

/// The text without the line as we write it, and the comment above it; `None` where it has none.
fn without_line(text: &str, uuid: &str) -> Option<String> {
    let line = ignore_line(uuid);
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let at = all.iter().position(|found| found.trim_end() == line)?;
    let has_comment = at > 0
        && all[at - 1].starts_with("# The array ")
        && all[at - 1].contains("is served by heliostat");
    let from = at - usize::from(has_comment);
    Some([&all[..from], &all[at + 1..]].concat().concat())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::{HostConfig, array_line, with_line, without_line};
    use crate::scratch::Scratch;

    const UUID: &str = "2730395d:797627c1:6bfa87a0:1bf8b2cf";
    const LINE: &str = "ARRAY <ignore> UUID=2730395d:797627c1:6bfa87a0:1bf8b2cf\n";

    #[test]
    fn lines_of_arrays_are_understood_as_mdadm_does() {
        let of = |line: &str| array_line(line, UUID);
        assert_eq!(of(LINE), Some(true));
        assert_eq!(of(&LINE.to_lowercase()), Some(true));
        assert_eq!(
            of("ARR uuid=2730395D797627C16BFA87A01BF8B2CF <ignore>"),
            Some(true)
        );
        assert_eq!(
            of("array /dev/md0 UUID=2730395d.797627c1.6bfa87a0.1bf8b2cf name=x"),
            Some(false)
        );
        for line in [
            "",
            "AR <ignore>",
            "ARRAY <ignore> UUID=1",
            "DEVICE partitions",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn a_line_is_added_once_and_all_else_stays() {
        let before = "HOMEHOST <system>\n# the end";
        let after = with_line(before, "disk", UUID).unwrap();
        assert!(after.starts_with("HOMEHOST <system>\n# the end\n# The array disk"));
        assert!(after.ends_with(LINE));
        assert!(
            after.contains("'heliostat host-config disk --remove'"),
            "{after}"
        );
        assert_eq!(with_line(&after, "disk", UUID), None);
        assert_eq!(
            without_line(&after, UUID).as_deref(),
            Some("HOMEHOST <system>\n# the end\n")
        );
        assert_eq!(without_line(before, UUID), None);
        // One that goes over two lines, and one that is a comment.
        let long = "ARRAY <ignore>\n\tUUID=2730395d:797627c1:6bfa87a0:1bf8b2cf\n";
        assert_eq!(with_line(long, "disk", UUID), None);
        assert!(with_line(&format!("# {LINE}"), "disk", UUID).is_some());
    }

    #[test]
    fn files_are_replaced_and_keep_their_rights() {
        let scratch = Scratch::new();
        let path = scratch.path().join("mdadm.conf");
        let link = scratch.path().join("link");
        fs::write(&path, "MAILADDR root\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        let config = HostConfig::choose(Some(&link));
        assert!(config.ignore("disk", UUID).unwrap()[0].is_changed);
        assert!(!config.ignore("disk", UUID).unwrap()[0].is_changed);
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("MAILADDR root\n") && text.ends_with(LINE),
            "{text}"
        );
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert!(link.symlink_metadata().unwrap().file_type().is_symlink());
        assert!(config.forget(UUID).unwrap()[0].is_changed);
        assert_eq!(fs::read_to_string(&path).unwrap(), "MAILADDR root\n");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_somebody_wants_assembled_is_not_ignored() {
        let scratch = Scratch::new();
        let path = scratch.path().join("mdadm.conf");
        fs::write(&path, format!("\nARRAY /dev/md7 UUID={UUID}\n")).unwrap();
        let error = HostConfig::choose(Some(&path)).ignore("disk", UUID);
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("line 2") && error.contains("/dev/md7"),
            "{error}"
        );
    }

    #[test]
    fn the_files_that_are_there_are_those_that_are_read() {
        let scratch = Scratch::new();
        let places = [
            scratch.path().join("mdadm/mdadm.conf"),
            scratch.path().join("mdadm.conf"),
        ];
        assert_eq!(HostConfig::among(&places).files, [places[1].clone()]);
        fs::create_dir(scratch.path().join("mdadm")).unwrap();
        assert_eq!(HostConfig::among(&places).files, [places[0].clone()]);
        let config = HostConfig::among(&places);
        assert!(config.ignore("disk", UUID).unwrap()[0].is_changed);
        fs::write(&places[1], "").unwrap();
        assert_eq!(HostConfig::among(&places).files, places);
        let nowhere = [scratch.path().join("absent/mdadm.conf")];
        let error = HostConfig::among(&nowhere).check().unwrap_err().to_string();
        assert!(error.contains("--host-config=FILE"), "{error}");
        let error = HostConfig::choose(Some(&nowhere[0])).check().unwrap_err();
        assert!(error.to_string().contains("absent"), "{error}");
    }
}
