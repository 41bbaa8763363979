//! A leg is the same leg under another name, and another one under the same name.

use std::fs;
use std::path::Path;

use super::bench::{LoopDevice, Scratch, open_path};
use crate::identity::same_disks;

const SIZE: u64 = 1 << 20;

fn identity(path: &Path) -> String {
    open_path(path).info().identity.clone()
}

/// Whether files here can be told without their paths: said aloud where not, as on file systems
/// without times of birth or a number that lasts.
fn knows_files(identity: &str, path: &Path) -> bool {
    let knows = !identity.contains(path.to_str().unwrap());
    if !knows {
        println!("skipped: this file system tells too little of its files");
    }
    knows
}

#[test]
fn a_file_stays_the_same_when_it_is_renamed_or_linked() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", SIZE);
    let was = identity(&path);
    assert_eq!(identity(&path), was);
    if !knows_files(&was, &path) {
        return;
    }
    let link = scratch.path("link");
    fs::hard_link(&path, &link).unwrap();
    assert_eq!(identity(&link), was);
    fs::create_dir(scratch.path("below")).unwrap();
    let renamed = scratch.path("below/renamed");
    fs::rename(&path, &renamed).unwrap();
    assert_eq!(identity(&renamed), was);
}

#[test]
fn another_file_at_the_same_place_is_another_leg() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", SIZE);
    let was = identity(&path);
    fs::rename(&path, scratch.path("old")).unwrap();
    scratch.file("leg", SIZE);
    assert_ne!(identity(&path), was);
}

#[test]
fn a_loop_device_is_its_file() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", SIZE);
    let file = identity(&path);
    let Some(device) = LoopDevice::attach(&path, 512) else {
        return;
    };
    let was = identity(&device.path);
    assert_eq!(was, format!("loop:0:{file}"));
    drop(device);
    if !knows_files(&file, &path) {
        return;
    }
    let renamed = scratch.path("renamed");
    fs::rename(&path, &renamed).unwrap();
    let device = LoopDevice::attach(&renamed, 512).unwrap();
    assert_eq!(identity(&device.path), was);
}

#[test]
fn one_disk_under_two_names_is_seen() {
    let (disk, part) = (
        "disk:naa.5000c500a1b2c3d4",
        "disk:naa.5000c500a1b2c3d4:part1",
    );
    assert_eq!(same_disks(&[disk, part, "disk:eui.1"]), None);
    assert_eq!(same_disks(&["disk:eui.1", disk, part, disk]), Some((1, 3)));
    // Memory is told apart by nothing, and is never the same.
    assert_eq!(same_disks(&["mem:1g", "mem:1g"]), None);
}
