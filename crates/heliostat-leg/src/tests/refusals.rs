//! What cannot be a leg, or is somebody else's, is refused with a message that helps.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use super::bench::{LoopDevice, Scratch, open_path};
use crate::host::{DeviceNumber, Host};
use crate::in_use::{Identity, kernel_use};
use crate::{LegSpec, ReadLeg};

fn refusal(path: &Path) -> String {
    let spec = LegSpec::parse(path.to_str().unwrap()).unwrap();
    spec.open().map(drop).unwrap_err().to_string()
}

#[test]
fn what_is_no_leg_is_told_with_the_way_out() {
    let scratch = Scratch::new();
    let empty = scratch.file("empty", 0);
    let small = scratch.file("small", 100);
    let missing = scratch.path("missing");
    for (path, told) in [
        (
            missing.as_path(),
            "there is no such file; make one with `truncate -s 10G ",
        ),
        (
            empty.as_path(),
            "it is empty; make one with `truncate -s 10G ",
        ),
        (
            small.as_path(),
            "its 100 bytes are less than a block, which has ",
        ),
        (Path::new("/dev/null"), "it is a character device"),
        (
            Path::new("/"),
            "it is a directory; make one with `truncate -s 10G /leg.img`",
        ),
    ] {
        let refused = refusal(path);
        assert!(refused.contains(told), "{refused}");
    }
}

#[test]
fn what_is_only_read_keeps_nobody_out_and_cannot_be_written() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let spec = LegSpec::parse(path.to_str().unwrap()).unwrap();
    let ReadLeg { leg, user, .. } = spec.open_to_read().unwrap();
    assert_eq!(user, None, "nobody has it");
    // Somebody opens it for themselves alone, and we still read.
    let owner = open_path(&path);
    let mut bytes = [0; 512];
    leg.read_at(4096, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 512]);
    assert!(leg.write_at(0, &bytes).is_err());
    let user = spec.open_to_read().unwrap().user.unwrap();
    assert!(user.contains("this process itself has it open"), "{user}");
    drop(owner);
    let told = |path: &Path| {
        let spec = LegSpec::parse(path.to_str().unwrap()).unwrap();
        spec.open_to_read().map(drop).unwrap_err().to_string()
    };
    let empty = scratch.file("empty", 0);
    assert!(told(&empty).contains("it is empty; name a file"));
    assert!(told(&scratch.path("none")).contains("there is no such file; name a file"));
    assert!(told(Path::new("/")).contains("it is a directory; name a file"));
    assert!(told(Path::new("/dev/null")).contains("neither a file nor a block device"));
}

#[test]
fn a_leg_named_twice_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    let other_name = scratch.path("link");
    symlink(&path, &other_name).unwrap();
    let first = open_path(&path);
    let refused = refusal(&other_name);
    assert!(refused.contains("this process itself"), "{refused}");
    assert!(refused.ends_with("name each leg once"), "{refused}");
    drop(first);
    drop(open_path(&path));
}

#[test]
fn a_file_that_is_locked_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    let reader = File::open(&path).unwrap();
    flock(&reader, FlockOperation::LockShared).unwrap();
    let refused = refusal(&path);
    assert!(refused.contains("has it locked"), "{refused}");
}

#[test]
fn a_process_that_writes_is_named() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    let out = OpenOptions::new().append(true).open(&path).unwrap();
    // It has the file as its standard output, and waits for its input to end.
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(out)
        .spawn()
        .unwrap();
    let refused = refusal(&path);
    drop(child.stdin.take());
    child.wait().unwrap();
    let expected = format!("process {} (cat) has it open for writing", child.id());
    assert!(refused.contains(&expected), "{refused}");
    drop(open_path(&path));
}

/// As a child has its parent's files until it runs its own program, one that is being made too.
#[test]
fn a_process_that_has_it_for_a_moment_longer_is_waited_for() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    let out = OpenOptions::new().append(true).open(&path).unwrap();
    let mut child = Command::new("sleep")
        .arg("0.1")
        .stdout(out)
        .spawn()
        .unwrap();
    // Not with what is patient itself.
    let spec = LegSpec::parse(path.to_str().unwrap()).unwrap();
    drop(spec.open().unwrap());
    child.wait().unwrap();
}

#[test]
fn readers_do_not_disturb() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    let _reader = File::open(&path).unwrap();
    drop(open_path(&path));
}

#[test]
fn opening_leaves_no_trace() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    drop(open_path(&path));
    let meta = fs::metadata(&path).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!((meta.len(), meta.blocks()), (1 << 20, 0));
}

#[test]
fn loop_devices_and_what_they_stand_on_exclude_each_other() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", 1 << 20);
    let Some(device) = LoopDevice::attach(&path, 512) else {
        return;
    };
    let refused = refusal(&path);
    let expected = format!("the loop device {} stands on it", device.path.display());
    assert!(refused.contains(&expected), "{refused}");
    assert!(refused.contains("losetup -d"), "{refused}");
    let first = open_path(&device.path);
    let refused = refusal(&device.path);
    assert!(refused.contains("this process itself"), "{refused}");
    drop(first);
    drop(open_path(&device.path));
}

/// A machine made of files: a disk sdb (8:16) with a partition sdb1 (8:17), and more as tests add.
struct FakeHost {
    scratch: Scratch,
    host: Host,
}

impl FakeHost {
    fn new() -> Self {
        let scratch = Scratch::new();
        let host = Host {
            sys: scratch.path("sys"),
            proc: scratch.path("proc"),
        };
        let fake = Self { scratch, host };
        fake.put("sys/block/sdb/dev", "8:16\n");
        fake.put("sys/block/sdb/sdb1/dev", "8:17\n");
        fake.put("sys/block/sdb/sdb1/partition", "1\n");
        fake.link("sys/dev/block/8:16", "sys/block/sdb");
        fake.link("sys/dev/block/8:17", "sys/block/sdb/sdb1");
        fake
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.scratch.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn link(&self, from: &str, to: &str) {
        let from = self.scratch.path(from);
        fs::create_dir_all(from.parent().unwrap()).unwrap();
        symlink(self.scratch.path(to), from).unwrap();
    }

    fn told(&self, device: &str) -> Option<String> {
        let device = DeviceNumber::parse(device).unwrap();
        let found = kernel_use(&self.host, Identity::Device(device))?;
        Some(format!("{}; {}", found.user, found.way_out))
    }
}

#[test]
fn arrays_and_mappings_are_named() {
    let fake = FakeHost::new();
    assert_eq!(fake.told("8:16"), None);
    fake.put("sys/block/sdb/sdb1/holders/md127", "");
    fake.put("sys/block/md127/md/level", "raid1\n");
    let array =
        "it is part of the md array /dev/md127 (raid1); stop that with `mdadm --stop /dev/md127`";
    assert_eq!(fake.told("8:17").as_deref(), Some(array));
    let disk = fake.told("8:16").unwrap();
    assert!(
        disk.starts_with("of its partition /dev/sdb1: it is part of the md"),
        "{disk}"
    );

    let fake = FakeHost::new();
    fake.put("sys/block/sdb/holders/dm-0", "");
    fake.put("sys/block/dm-0/dm/name", "vg-data\n");
    fake.put("sys/block/dm-0/dm/uuid", "LVM-abc\n");
    let told = fake.told("8:16").unwrap();
    assert!(
        told.starts_with("the logical volume vg-data (dm-0) stands on it"),
        "{told}"
    );
}

#[test]
fn mounts_swaps_and_loops_are_named() {
    let fake = FakeHost::new();
    let line = r"36 35 8:17 / /mnt/my\040data rw,noatime - ext4 /dev/sdb1 rw";
    fake.put("proc/self/mountinfo", line);
    let told = fake.told("8:17").unwrap();
    assert!(
        told.starts_with("it is mounted at /mnt/my data; unmount"),
        "{told}"
    );

    let fake = FakeHost::new();
    let file = fake.put("swapfile", "x");
    let swaps = format!(
        "Filename Type Size Used Priority\n{} file 1 0 -2\n",
        file.display()
    );
    fake.put("proc/swaps", &swaps);
    let identity = Identity::of(&file).unwrap();
    let told = kernel_use(&fake.host, identity).unwrap();
    assert!(
        told.user.starts_with("the system swaps to "),
        "{}",
        told.user
    );

    let fake = FakeHost::new();
    let file = fake.put("backing", "x");
    fake.put(
        "sys/block/loop3/loop/backing_file",
        &format!("{}\n", file.display()),
    );
    let told = kernel_use(&fake.host, Identity::of(&file).unwrap()).unwrap();
    assert_eq!(told.user, "the loop device /dev/loop3 stands on it");
}

#[test]
fn queues_and_identities_come_from_the_disk() {
    let fake = FakeHost::new();
    fake.put("sys/block/sdb/queue/rotational", "1\n");
    fake.put("sys/block/sdb/queue/optimal_io_size", "65536\n");
    fake.put("sys/block/sdb/queue/nr_requests", "256\n");
    fake.put("sys/block/sdb/device/queue_depth", "32\n");
    fake.put("sys/block/sdb/device/wwid", "naa.5000c500a1b2c3d4\n");
    let partition = DeviceNumber::parse("8:17").unwrap();
    let facts = fake.host.queue_facts(partition).unwrap();
    assert!(facts.rotational && !facts.fast_zero);
    assert_eq!(
        (facts.optimal_io_bytes, facts.queue_depth),
        (65_536, Some(32))
    );
    assert_eq!(
        fake.host.device_identity(partition).as_deref(),
        Some("disk:naa.5000c500a1b2c3d4:part1")
    );
}
