//! The kernel, and the programs of its guest: unpacked from Debian's packages, never installed.
//!
//! An installed mdadm would take hold of the arrays of the machine that it runs on, and a second
//! kernel would want to be booted. A package is unpacked once for each version, below the target
//! directory; as long as the package manager's lists name that version, nothing is downloaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process;
use crate::tools;

/// The package that depends on the newest kernel for machines of clouds, the smallest with md.
const KERNEL: &str = "linux-image-cloud-amd64";

/// How long the package manager may take: one package has some 30 MB.
const TIME_MAX: Duration = Duration::from_secs(240);

/// Where the contents of the packages are.
#[derive(Debug)]
pub(super) struct Packages {
    /// The kernel and its modules.
    pub(super) kernel: PathBuf,
    /// mdadm.
    pub(super) mdadm: PathBuf,
    /// A busybox that needs no libraries.
    pub(super) busybox: PathBuf,
    /// What makes an export of an NBD server a block device of the kernel.
    pub(super) nbd_client: PathBuf,
    /// Libraries that this needs and few machines have.
    pub(super) netlink: [PathBuf; 2],
}

impl Packages {
    /// Unpacks what is not there yet below `cache`.
    ///
    /// # Errors
    /// Where the package manager does not have a package, or cannot download it.
    pub(super) fn fetch(cache: &Path) -> Result<Self> {
        tools::require(&["apt-get", "apt-cache", "dpkg-deb"])?;
        fs::create_dir_all(cache).with_context(|| format!("creating {}", cache.display()))?;
        let result = match Self::try_fetch(cache) {
            // The lists may be missing, or older than what the mirror still has.
            Err(_) if tools::is_root() => {
                let updated = apt("apt-get", &["update", "-q"]);
                updated.and_then(|_| Self::try_fetch(cache))
            }
            result => result.context("apt-get update, as root, may help"),
        };
        // Without a network nobody is to blame.
        result.map_err(tools::cannot_run)
    }

    fn try_fetch(cache: &Path) -> Result<Self> {
        let kernel = kernel_of(&field(KERNEL, "Depends")?)?;
        Ok(Self {
            kernel: unpacked(cache, &kernel)?,
            mdadm: unpacked(cache, "mdadm")?,
            busybox: unpacked(cache, "busybox-static")?,
            nbd_client: unpacked(cache, "nbd-client")?,
            netlink: [
                unpacked(cache, "libnl-3-200")?,
                unpacked(cache, "libnl-genl-3-200")?,
            ],
        })
    }
}

/// The kernel among the dependencies of the package that stands for the newest one.
fn kernel_of(dependencies: &str) -> Result<String> {
    dependencies
        .split([',', ' '])
        .find(|word| word.starts_with("linux-image-"))
        .map(str::to_owned)
        .with_context(|| format!("{KERNEL} depends on no kernel, but on: {dependencies}"))
}

/// What the package manager's lists say of a package.
fn field(package: &str, name: &str) -> Result<String> {
    let text = apt("apt-cache", &["show", "--no-all-versions", package])?;
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key == name).then(|| value.trim().to_owned())
    });
    value.with_context(|| format!("the package {package} has no field {name}"))
}

/// The directory with the contents of a package, downloaded where it is not there yet.
fn unpacked(cache: &Path, package: &str) -> Result<PathBuf> {
    let version = field(package, "Version")?;
    // A colon would end a path in lists of paths.
    let name = format!("{package}_{}", version.replace(':', "-"));
    let directory = cache.join(&name);
    if directory.is_dir() {
        return Ok(directory);
    }
    println!("downloading {package} {version}");
    // Becomes the directory at once when it is whole; another run may do the same.
    let partial = cache.join(format!("{name}.{}", std::process::id()));
    let contents = partial.join("contents");
    fs::create_dir_all(&contents).with_context(|| format!("creating {}", contents.display()))?;
    let result = download(&partial, &contents, &format!("{package}={version}"));
    let result = result.and_then(|()| match fs::rename(&contents, &directory) {
        Err(_) if directory.is_dir() => Ok(()),
        renamed => renamed.with_context(|| format!("naming {}", directory.display())),
    });
    fs::remove_dir_all(&partial).with_context(|| format!("removing {}", partial.display()))?;
    result.map(|()| directory)
}

fn download(partial: &Path, contents: &Path, package: &str) -> Result<()> {
    let mut command = process::limited(TIME_MAX, "apt-get");
    // As root it would become another user, who may not write here.
    command.args(["-q", "-o", "APT::Sandbox::User=root", "download", package]);
    process::succeed(command.current_dir(partial))?;
    let archive = fs::read_dir(partial)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get downloaded nothing for {package}"))?;
    let mut command = process::limited(TIME_MAX, "dpkg-deb");
    process::succeed(command.arg("-x").args([archive.as_path(), contents]))?;
    Ok(())
}

fn apt(program: &str, arguments: &[&str]) -> Result<String> {
    let mut command: Command = process::limited(TIME_MAX, program);
    // Answers are read here, not by people.
    process::succeed(command.args(arguments).env("LC_ALL", "C"))
}

#[cfg(test)]
mod tests {
    use super::kernel_of;

    #[test]
    fn the_newest_kernel_is_what_the_package_depends_on() {
        let kernel = kernel_of("linux-image-6.1.0-50-cloud-amd64 (= 6.1.100-1)").unwrap();
        assert_eq!(kernel, "linux-image-6.1.0-50-cloud-amd64");
        let kernel = kernel_of("base-files, linux-image-6.12-cloud-amd64 (= 6.12)").unwrap();
        assert_eq!(kernel, "linux-image-6.12-cloud-amd64");
        assert!(kernel_of("base-files").is_err());
    }
}
