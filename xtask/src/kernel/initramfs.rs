//! What the guest has in memory when its kernel has started: busybox, mdadm and the libraries that
//! it needs, and kernel modules in an order in which they can be loaded.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::cpio::Archive;
use super::packages::Packages;
use crate::process;
use crate::tools;

/// The modules that are needed: how the guest reaches its drives and whoever tells it what to do,
/// and what is judged.
const MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "raid1",
    "raid10",
    "nbd",
];

/// The programs of this machine that make and check file systems.
pub(super) const FILE_SYSTEM_TOOLS: &[&str] = &["mkfs.ext4", "e2fsck"];

/// What the guest's kernel starts.
const INIT: &str = include_str!("init.sh");

/// What scripts of cases have at hand.
const FUNCTIONS: &str = include_str!("functions.sh");

/// Files that may be executed.
const EXECUTABLE: u32 = 0o755;

/// The kernel of a guest, and what it has in memory.
#[derive(Debug)]
pub(super) struct Image {
    /// The compressed kernel.
    pub(super) kernel: PathBuf,
    /// The archive that it unpacks into memory.
    pub(super) initramfs: PathBuf,
    /// What it calls itself.
    pub(super) version: String,
}

impl Image {
    /// Puts the archive into `directory`, with these programs beside busybox and mdadm, by name
    /// and place.
    ///
    /// # Errors
    /// Where the packages lack something, or a file cannot be read or written.
    pub(super) fn build(
        packages: &Packages,
        directory: &Path,
        programs: &[(&str, PathBuf)],
    ) -> Result<Self> {
        let version = only_entry(&packages.kernel.join("lib/modules"))?;
        let mut archive = Archive::new();
        for name in [
            "bin", "dev", "drives", "proc", "results", "run", "sys", "tmp",
        ] {
            archive.directory(name);
        }
        // The kernel gives its first process this terminal, and has no other way to make it.
        archive.character_device("dev/console", 5, 1);
        archive.file("init", EXECUTABLE, INIT.as_bytes());
        archive.file("functions", 0o644, FUNCTIONS.as_bytes());
        archive.file(
            "bin/busybox",
            EXECUTABLE,
            &read(&packages.busybox.join("bin/busybox"))?,
        );
        let mdadm = ("mdadm", packages.mdadm.join("sbin/mdadm"));
        add_programs(&mut archive, &[&[mdadm], programs].concat(), packages)?;
        let modules = packages.kernel.join("lib/modules").join(&version);
        for (path, number) in Modules::of(&modules)?.in_order()?.iter().zip(0..) {
            let module = path.file_name().unwrap_or_default().to_string_lossy();
            // As many digits as make the order of names the order of loading.
            let name = format!("modules/{number:02}-{module}");
            archive.file(&name, 0o644, &read(path)?);
        }
        let initramfs = directory.join("initramfs");
        fs::write(&initramfs, archive.finish())
            .with_context(|| format!("writing {}", initramfs.display()))?;
        Ok(Self {
            kernel: packages.kernel.join(format!("boot/vmlinuz-{version}")),
            initramfs,
            version,
        })
    }
}

/// heliostat, and what its clients in a guest need: a block device, and a file system on it.
pub(super) fn for_clients<'a>(program: &Path, packages: &Packages) -> Vec<(&'a str, PathBuf)> {
    let mut programs = vec![
        ("heliostat", program.to_owned()),
        ("nbd-client", packages.nbd_client.join("sbin/nbd-client")),
    ];
    let tools = FILE_SYSTEM_TOOLS.iter();
    programs.extend(tools.filter_map(|&name| Some((name, tools::find(name)?))));
    programs
}

/// Adds programs, and the libraries that they need.
fn add_programs(
    archive: &mut Archive,
    programs: &[(&str, PathBuf)],
    packages: &Packages,
) -> Result<()> {
    let mut added = BTreeSet::new();
    for (name, program) in programs {
        archive.file(&format!("sbin/{name}"), EXECUTABLE, &read(program)?);
        for library in libraries(program, &packages.netlink)? {
            // What was unpacked lies among the others there.
            let is_unpacked = packages
                .netlink
                .iter()
                .any(|root| library.starts_with(root));
            let name = match library.file_name() {
                Some(name) if is_unpacked => Path::new("lib").join(name),
                _ => library.strip_prefix("/").unwrap_or(&library).to_owned(),
            };
            if added.insert(name.clone()) {
                archive.file(&name.to_string_lossy(), EXECUTABLE, &read(&library)?);
            }
        }
    }
    Ok(())
}

/// The modules of a kernel.
struct Modules {
    /// All of them.
    files: Vec<PathBuf>,
}

impl Modules {
    fn of(directory: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let mut directories = vec![directory.to_owned()];
        while let Some(directory) = directories.pop() {
            let entries = fs::read_dir(&directory)
                .with_context(|| format!("listing {}", directory.display()))?;
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    directories.push(entry.path());
                } else {
                    files.push(entry.path());
                }
            }
        }
        Ok(Self { files })
    }

    /// Those that are needed, each after those that it needs.
    fn in_order(&self) -> Result<Vec<PathBuf>> {
        let mut order = Vec::new();
        for name in MODULES {
            self.add(name, &mut order)?;
        }
        Ok(order)
    }

    fn add(&self, name: &str, order: &mut Vec<PathBuf>) -> Result<()> {
        let file = self.find(name)?;
        if order.contains(&file) {
            return Ok(());
        }
        for needed in dependencies(&read(&file)?) {
            self.add(&needed, order)?;
        }
        order.push(file);
        Ok(())
    }

    fn find(&self, name: &str) -> Result<PathBuf> {
        // Names of files have hyphens where names of modules have underscores, or not.
        let plain = |name: &str| name.replace('-', "_");
        let is_it = |path: &&PathBuf| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file.strip_suffix(".ko")
                .is_some_and(|stem| plain(stem) == plain(name))
        };
        let file = self.files.iter().find(is_it).cloned();
        file.with_context(|| format!("the kernel has no module {name} that is not compressed"))
    }
}

/// The modules that a module says it needs.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = module.windows(KEY.len()).position(|bytes| bytes == KEY) else {
        return Vec::new();
    };
    let value = &module[start + KEY.len()..];
    let value = value.split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value);
    let names = names.split(',').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// The libraries that a program of this machine's distribution loads, some of which are unpacked
/// below these directories.
fn libraries(program: &Path, unpacked: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut places = Vec::new();
    for root in unpacked {
        for place in ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"] {
            places.push(root.join(place).display().to_string());
        }
    }
    let mut command = Command::new("ldd");
    command.arg(program);
    let said = process::succeed(command.env("LD_LIBRARY_PATH", places.join(":")))?;
    let libraries = libraries_of(&said);
    ensure!(
        !libraries.is_empty() && !said.contains("not found"),
        "ldd says of {}: {said}",
        program.display()
    );
    Ok(libraries)
}

/// The paths that ldd prints.
fn libraries_of(said: &str) -> Vec<PathBuf> {
    let words = said.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.find(|word| word.starts_with('/'))
    });
    words.map(PathBuf::from).collect()
}

/// The name of the only entry of a directory.
fn only_entry(directory: &Path) -> Result<String> {
    let entries = fs::read_dir(directory);
    let entries = entries.with_context(|| format!("listing {}", directory.display()))?;
    let names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    ensure!(
        names.len() == 1,
        "{} has {} entries where one is expected",
        directory.display(),
        names.len()
    );
    Ok(names[0].clone())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{dependencies, libraries_of};

    #[test]
    fn modules_say_what_they_need() {
        let module = b"ELF\0license=GPL\0depends=virtio_ring,virtio\0retpoline=Y\0";
        assert_eq!(dependencies(module), ["virtio_ring", "virtio"]);
        assert!(dependencies(b"ELF\0depends=\0name=x\0").is_empty());
        assert!(dependencies(b"ELF").is_empty());
    }

    #[test]
    fn ldd_names_paths_behind_arrows_and_alone() {
        let said = "\tlinux-vdso.so.1 (0x7ff)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f1)\n\
                    \t/lib64/ld-linux.so.2 (0x7f2)\n";
        let expected = ["/lib/libc.so.6", "/lib64/ld-linux.so.2"].map(PathBuf::from);
        assert_eq!(libraries_of(said), expected);
        assert!(libraries_of("\tnot a dynamic executable\n").is_empty());
    }
}
