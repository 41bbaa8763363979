//! What is measured: where fio finds it, whose legs they are, and what must not be overwritten.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _, stderr};
use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use heliostat_bench::live::{TargetNote, Under};
use heliostat_leg::{LegSpec, OpenedLeg};
use heliostat_nbd::uri::{Endpoint, ExportUri};
use heliostat_runtime::{ControlRequest, ControlResponse, UsageError};
use stdx::units::format_size;

use super::btrfs;
use super::legs::{self, Legs};
use super::switch::Switch;
use super::wanted::Wanted;
use crate::cli::ControlArgs;
use crate::sparse::percent_on_disk;
use crate::status;
use crate::top::served;

/// How long an array may take to notice that a client has gone.
const LEFT_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Of a file system's free space, so much stays free when a file is made: a part of this.
const FREE_PARTS: u64 = 20;

/// Where fio finds what it reads.
pub(crate) enum At {
    Nbd(String),
    File {
        /// What this process has open: nothing else can take its place.
        path: PathBuf,
        /// What it is called for people.
        shown: PathBuf,
    },
}

impl At {
    fn open_file(file: &File, shown: PathBuf) -> Self {
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Self::File {
            path: path.into(),
            shown,
        }
    }
}

/// Something that is measured.
pub(crate) struct Target {
    /// As the user wrote it.
    pub(super) text: String,
    what: String,
    pub(crate) at: At,
    pub(super) legs: Legs,
    pub(super) switch: Option<Switch>,
    /// Of an array of ours.
    pub(super) schedulers: Option<Switch>,
    /// A file of ours, which nobody else can see and which is gone when this process is: how large
    /// it is to be.
    pub(super) scratch: Option<(File, u64)>,
    /// What is open, for nobody else where it is written, as long as it is measured.
    _held: Option<(File, Option<OpenedLeg>)>,
}

/// What targets are opened with.
pub(crate) struct Opening<'a> {
    /// Whether some job overwrites data.
    pub(crate) writes: bool,
    /// How large the files are that are made on file systems.
    pub(crate) file_bytes: u64,
    pub(crate) control: &'a ControlArgs,
    /// What is open already.
    pub(crate) others: &'a [Target],
}

/// What a word of the command line names.
enum Named<'a> {
    Nbd,
    Array(&'a str),
    Btrfs(&'a Path),
    Path(&'a Path),
}

impl<'a> Named<'a> {
    fn of(text: &'a str) -> Self {
        if text.starts_with("nbd://") || text.starts_with("nbd+unix://") {
            Self::Nbd
        } else if let Some(name) = text.strip_prefix("heliostat:") {
            Self::Array(name)
        } else if let Some(mount) = text
            .strip_prefix("btrfs:")
            .filter(|mount| !mount.is_empty())
        {
            Self::Btrfs(Path::new(mount))
        } else {
            Self::Path(Path::new(text))
        }
    }
}

/// Whether what lies there now is lost where a job writes: files that are made for measuring hold
/// nobody's data.
pub(super) fn holds_data(text: &str) -> bool {
    match Named::of(text) {
        Named::Nbd | Named::Array(_) => true,
        Named::Btrfs(_) => false,
        Named::Path(path) => path.exists() && !path.is_dir(),
    }
}

impl Target {
    /// Opens what `text` names.
    pub(crate) fn open(text: &str, opening: &Opening<'_>) -> anyhow::Result<Self> {
        match Named::of(text) {
            Named::Nbd => export(text, opening),
            Named::Array(name) => array(text, name, opening),
            Named::Btrfs(mount) => on_btrfs(text, mount, opening),
            Named::Path(path) => at_path(text, path, opening),
        }
    }

    fn plain(text: &str, what: &str, at: At) -> Self {
        Self {
            text: text.to_owned(),
            what: what.to_owned(),
            at,
            legs: Legs::Unseen,
            switch: None,
            schedulers: None,
            scratch: None,
            _held: None,
        }
    }

    /// Before it is written. Whoever is connected to an array may have a file system there; what
    /// measured it just now may not have left yet.
    pub(super) fn expect_unused(&self) -> anyhow::Result<()> {
        let Legs::Array { name, control } = &self.legs else {
            return Ok(());
        };
        let began = Instant::now();
        loop {
            match expect_no_clients(name, control) {
                Err(_) if began.elapsed() < LEFT_WITHIN => thread::sleep(LOOK_EVERY),
                ended => return ended,
            }
        }
    }

    /// Has it read by another policy, where it can switch.
    pub(crate) fn switch_to(&self, policy: &str) -> anyhow::Result<()> {
        self.switch
            .as_ref()
            .map_or(Ok(()), |switch| switch.set(policy))
    }

    /// Makes it work like this, where something is said.
    pub(super) fn put_under(&self, under: &Under) -> anyhow::Result<()> {
        for (switch, wanted) in [
            (&self.switch, &under.policy),
            (&self.schedulers, &under.scheduler),
        ] {
            if let (Some(switch), Some(wanted)) = (switch, wanted) {
                switch.set(wanted)?;
            }
        }
        Ok(())
    }

    /// What is kept of it.
    pub(super) fn note(&self) -> anyhow::Result<TargetNote> {
        Ok(TargetNote {
            target: self.text.clone(),
            what: self.what.clone(),
            legs: self.legs.names()?,
        })
    }

    /// What it is measured under: each of the policies that are wanted and it has, with each of the
    /// schedulers.
    pub(super) fn unders(&self, wanted: &Wanted) -> Vec<Under> {
        let chosen = |switch: &Option<Switch>, wanted: &[String]| {
            let chosen = switch.as_ref().map(|switch| switch.chosen(wanted));
            match chosen.unwrap_or_default() {
                chosen if chosen.is_empty() => vec![None],
                chosen => chosen.into_iter().map(Some).collect(),
            }
        };
        let policies = chosen(&self.switch, &wanted.policies);
        let schedulers = chosen(&self.schedulers, &wanted.schedulers);
        let under = |policy: &Option<String>| {
            let policy = policy.clone();
            schedulers.iter().cloned().map(move |scheduler| Under {
                policy: policy.clone(),
                scheduler,
            })
        };
        policies.iter().flat_map(under).collect()
    }
}

/// An export by its URI. An array of this machine that stands behind it can be asked who else uses
/// it.
fn export(text: &str, opening: &Opening<'_>) -> anyhow::Result<Target> {
    let uri: Result<ExportUri, _> = text.parse();
    let uri = uri.map_err(|error| UsageError(format!("{text}: {error}")))?;
    let plain = Target::plain(text, "an NBD export", At::Nbd(text.to_owned()));
    let control = opening.control;
    let Some(name) = served_at(&uri.endpoint, control) else {
        if opening.writes {
            writeln!(
                stderr(),
                "{text}: nobody can be asked who else uses it, so be sure that nobody does"
            )?;
        }
        return Ok(plain);
    };
    if opening.writes {
        expect_no_clients(&name, control)?;
    }
    Ok(Target {
        what: format!("an NBD export of {name}, which is served here"),
        legs: Legs::Array {
            name,
            control: control.clone(),
        },
        ..plain
    })
}

/// Which array of this machine listens there, of those with a control socket in the directory that
/// was told.
fn served_at(endpoint: &Endpoint, control: &ControlArgs) -> Option<String> {
    let places = control.places().ok()?;
    let listens_there = |name: &String| {
        // Who does not answer cannot be asked for clients either.
        let status = status::ask(control, name);
        let exports = status.map(|status| status.exports).unwrap_or_default();
        let mut uris = exports
            .iter()
            .filter_map(|uri| uri.parse::<ExportUri>().ok());
        uris.any(|uri| is_same_place(&uri.endpoint, endpoint))
    };
    served(&places).into_iter().find(listens_there)
}

fn is_same_place(a: &Endpoint, b: &Endpoint) -> bool {
    match (a, b) {
        (Endpoint::Unix(a), Endpoint::Unix(b)) => {
            let found = |path: &Path| fs::canonicalize(path).ok();
            a == b || found(a).is_some_and(|place| found(b) == Some(place))
        }
        (Endpoint::Tcp { host, port }, Endpoint::Tcp { host: h, port: p }) => {
            port == p && (host == h || is_here(host) && is_here(h))
        }
        (Endpoint::Unix(_) | Endpoint::Tcp { .. } | Endpoint::Inherited | Endpoint::Stdio, _) => {
            false
        }
    }
}

/// Whether this is surely this machine.
fn is_here(host: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    host == "localhost" || address.is_some_and(|it| it.is_loopback() || it.is_unspecified())
}

/// An array that is served on this machine, or a volume of one: `NAME` or `NAME/VOLUME`.
fn array(text: &str, name: &str, opening: &Opening<'_>) -> anyhow::Result<Target> {
    let (name, volume) = match name.split_once('/') {
        Some((name, volume)) => (name, Some(volume)),
        None => (name, None),
    };
    let control = opening.control;
    let status = status::ask(control, name)?;
    let uris = status.exports.iter();
    let mut uris = uris.filter_map(|uri| uri.parse::<ExportUri>().ok());
    let has_address =
        |uri: &ExportUri| matches!(uri.endpoint, Endpoint::Unix(_) | Endpoint::Tcp { .. });
    let Some(mut uri) = uris.find(has_address) else {
        bail!("{name} is served to nobody who could connect: give it an --export with an address");
    };
    let ControlResponse::Volumes(volumes) = control.ask(name, &ControlRequest::Volumes)? else {
        bail!("asked for its volumes, the daemon answered something else");
    };
    let names: Vec<&str> = volumes
        .volumes
        .iter()
        .map(|each| each.name.as_str())
        .collect();
    match volume {
        Some(volume) if names.contains(&volume) => volume.clone_into(&mut uri.export),
        Some(volume) => bail!(UsageError(format!(
            "{name} has no volume {volume}: it has {}",
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        ))),
        None if names.is_empty() => {}
        None => bail!(UsageError(format!(
            "{name} is cut into volumes: name one, as in heliostat:{name}/{}",
            names[0]
        ))),
    }
    if opening.writes {
        expect_no_clients(name, control)?;
    }
    let what = format!("{}, {}", status.shape, format_size(status.size_bytes));
    Ok(Target {
        legs: Legs::Array {
            name: name.to_owned(),
            control: control.clone(),
        },
        switch: Some(Switch::array(name, control)?),
        schedulers: Some(Switch::scheduler(name, control)?),
        ..Target::plain(text, &what, At::Nbd(uri.to_string()))
    })
}

/// Whoever is connected may have a file system there.
fn expect_no_clients(name: &str, control: &ControlArgs) -> anyhow::Result<()> {
    let stats = legs::stats(name, control)?;
    let mut clients = stats.clients.iter().filter(|client| client.connections > 0);
    match clients.next() {
        Some(client) => bail!(
            "{name} is in use by {}, and would be overwritten: have it disconnect first",
            client.client
        ),
        None => Ok(()),
    }
}

fn on_btrfs(text: &str, mount: &Path, opening: &Opening<'_>) -> anyhow::Result<Target> {
    expect_directory(mount)?;
    let sysfs = btrfs::sysfs_of(mount)?;
    let policy = sysfs.join("read_policy");
    let mut target = on_file_system(text, mount, "a file on btrfs", opening)?;
    target.legs = Legs::in_directory(&sysfs.join("devices"));
    if policy.exists() {
        target.switch = Some(Switch::btrfs(policy)?);
    }
    Ok(target)
}

fn expect_directory(path: &Path) -> Result<(), UsageError> {
    match path.is_dir() {
        true => Ok(()),
        false => Err(UsageError(format!("{} is no directory", path.display()))),
    }
}

/// A file of our own in `directory`. Nobody sees it: its name is gone before anything is in it.
fn on_file_system(
    text: &str,
    directory: &Path,
    what: &str,
    opening: &Opening<'_>,
) -> anyhow::Result<Target> {
    let shown = directory.display();
    let size_bytes = opening.file_bytes;
    let space = rustix::fs::statvfs(directory)
        .with_context(|| format!("cannot ask how much is free in {shown}"))?;
    let device = |file: &File| file.metadata().map(|metadata| metadata.dev());
    let here = fs::metadata(directory).with_context(|| format!("cannot look at {shown}"))?;
    let scratch = opening
        .others
        .iter()
        .filter_map(|other| other.scratch.as_ref());
    let taken_bytes: u64 = scratch
        .filter(|(file, _)| device(file).is_ok_and(|device| device == here.dev()))
        .map(|(_, size_bytes)| size_bytes)
        .sum();
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    let free_bytes = free_bytes.saturating_sub(taken_bytes);
    if size_bytes > free_bytes - free_bytes / FREE_PARTS {
        bail!(UsageError(format!(
            "{shown} has {} free, too little for a file of {}: say --size with less",
            format_size(free_bytes),
            format_size(size_bytes)
        )));
    }
    let name = directory.join(format!(".heliostat-bench-{}", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&name)
        .with_context(|| format!("cannot make a file in {shown}"))?;
    fs::remove_file(&name).with_context(|| format!("cannot remove {}", name.display()))?;
    // fio removes what is too short and makes it anew, which goes by its name.
    file.set_len(size_bytes)
        .with_context(|| format!("cannot make a file in {shown}"))?;
    let at = At::open_file(&file, directory.join("FILE"));
    Ok(Target {
        scratch: Some((file, size_bytes)),
        ..Target::plain(text, what, at)
    })
}

fn at_path(text: &str, path: &Path, opening: &Opening<'_>) -> anyhow::Result<Target> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(UsageError(format!(
            "{text} is not there: name a file, a directory, a block device, an NBD URI, \
             heliostat:NAME or btrfs:MOUNT"
        ))),
        Err(error) => return Err(error).with_context(|| format!("cannot look at {text}")),
    };
    let kind = metadata.file_type();
    if kind.is_dir() {
        let mut target = on_file_system(text, path, "a file in a directory", opening)?;
        target.legs = legs_of_device(metadata.dev());
        return Ok(target);
    }
    let (what, device) = if kind.is_file() {
        let what = match percent_on_disk(&metadata) {
            Some(percent) => {
                let what = format!(
                    "a sparse file: {percent} % of it lies on its disk, and reads of the rest \
                     reach none"
                );
                writeln!(stderr(), "{text} is {what}")?;
                what
            }
            None => "a file".to_owned(),
        };
        (what, metadata.dev())
    } else if kind.is_block_device() {
        ("a block device".to_owned(), metadata.rdev())
    } else {
        bail!(UsageError(format!(
            "{text} is neither a file, a directory nor a block device"
        )));
    };
    if metadata.is_file() && metadata.len() == 0 {
        bail!(UsageError(format!(
            "{text} is empty: there is nothing to read"
        )));
    }
    let path = std::path::absolute(path).with_context(|| format!("cannot find {text}"))?;
    let file = File::open(&path).with_context(|| format!("cannot open {text}"))?;
    let mut leg = None;
    if opening.writes {
        // As a leg is opened: by nobody else, no mount, no other array, no server.
        let spec = LegSpec::parse(&path.display().to_string());
        let opened = spec.and_then(|spec| spec.open());
        leg = Some(opened.with_context(|| format!("{text} would be overwritten"))?);
        let now = fs::metadata(&path).with_context(|| format!("cannot look at {text}"))?;
        let then = file.metadata()?;
        if (now.dev(), now.ino(), now.rdev()) != (then.dev(), then.ino(), then.rdev()) {
            bail!("{text} is being replaced by something else");
        }
    }
    let at = At::open_file(&file, path);
    Ok(Target {
        legs: legs_of_device(device),
        _held: Some((file, leg)),
        ..Target::plain(text, &what, at)
    })
}

/// What md or device mapper has made a device of.
fn legs_of_device(device: u64) -> Legs {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let sysfs = format!("/sys/dev/block/{major}:{minor}/slaves");
    Legs::in_directory(Path::new(&sysfs))
}

#[cfg(test)]
mod tests {
    use heliostat_nbd::uri::{Endpoint, ExportUri};

    use super::{holds_data, is_same_place};

    #[test]
    fn the_same_socket_is_found_by_other_names() {
        let at = |text: &str| -> Endpoint { text.parse::<ExportUri>().unwrap().endpoint };
        let directory = std::env::temp_dir();
        let (one, other) = (directory.join("s"), directory.join("./s"));
        let unix = |path: std::path::PathBuf| Endpoint::Unix(path);
        assert!(is_same_place(&unix(one.clone()), &unix(one.clone())));
        assert!(!is_same_place(&unix(one), &unix(directory.join("t"))));
        assert!(is_same_place(&unix(directory.join(".")), &unix(directory)));
        assert!(is_same_place(&unix(other.clone()), &unix(other)));
        for (a, b, is_same) in [
            ("nbd://localhost:1/a", "nbd://127.0.0.1:1/b", true),
            ("nbd://0.0.0.0:1/a", "nbd://localhost:1", true),
            ("nbd://localhost:1/a", "nbd://localhost:2/a", false),
            ("nbd://10.0.0.1:1/a", "nbd://localhost:1/a", false),
        ] {
            assert_eq!(is_same_place(&at(a), &at(b)), is_same, "{a} {b}");
        }
        assert!(!is_same_place(&at("nbd://localhost"), &Endpoint::Stdio));
    }

    #[test]
    fn only_what_is_made_for_measuring_holds_nothing() {
        for text in ["heliostat:pool", "nbd://localhost", "/dev/null"] {
            assert!(holds_data(text), "{text}");
        }
        for text in ["btrfs:/mnt", "/", ".", "absent"] {
            assert!(!holds_data(text), "{text}");
        }
    }
}
