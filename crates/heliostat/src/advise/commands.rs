//! What to type to set what was forecast.

use std::path::PathBuf;

use heliostat_bench::forecast::Knob;
use heliostat_runtime::shell_word;

/// Where the legs come from.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// The legs, as they were named.
    pub(super) legs: Vec<String>,
    /// The btrfs in sysfs, and the id of each leg there, where its superblock says it.
    pub(super) btrfs: Option<(PathBuf, Vec<Option<u64>>)>,
}

impl Origin {
    /// What the kernel would know a leg by: it takes block devices alone.
    fn device(&self, leg: usize) -> String {
        let name = &self.legs[leg];
        match name.starts_with("/dev/") {
            true => shell_word(name),
            false => format!("/dev/LEG{leg}"),
        }
    }
}

/// The commands for a setting, a line each; lines with `#` say what has to be known.
pub(super) fn commands(knob: &Knob, origin: &Origin, slow: &[usize]) -> Vec<String> {
    match knob {
        Knob::Policy(policy) => {
            let policy = shell_word(policy);
            let words: Vec<String> = origin.legs.iter().map(|leg| shell_word(leg)).collect();
            let legs = words.join(" ");
            vec![
                format!("heliostat create NAME --level raid1 {legs}"),
                format!("heliostat serve NAME --policy {policy} --export URI"),
                format!("heliostat policy NAME {policy}   # while it is served"),
            ]
        }
        Knob::Md { write_mostly } => md(origin, if *write_mostly { slow } else { &[] }),
        Knob::MdRaid10 { far } => vec![raid10(origin, *far)],
        Knob::BtrfsPid { .. } => vec![store(origin, "pid")],
        Knob::BtrfsRoundRobin => {
            vec![store(origin, "round-robin"), EXPERIMENTAL.to_owned()]
        }
        Knob::BtrfsDevid { leg } => {
            let ids = origin.btrfs.as_ref().map(|(_, ids)| ids);
            let known = ids.and_then(|ids| ids.get(*leg).copied().flatten());
            let id = known.unwrap_or(*leg as u64 + 1);
            let mut lines = vec![store(origin, &format!("devid:{id}"))];
            if known.is_none() {
                lines.push(format!(
                    "# {} is taken for devid {id}: see 'btrfs filesystem show'",
                    origin.device(*leg)
                ));
            }
            lines.push(EXPERIMENTAL.to_owned());
            lines
        }
        Knob::Zfs { prefers_flash } => {
            let value = u8::from(!prefers_flash);
            let parameter = "zfs_vdev_mirror_non_rotating_seek_inc";
            vec![
                format!("echo {value} > /sys/module/zfs/parameters/{parameter}"),
                format!(
                    "# for good: 'options zfs {parameter}={value}' in /etc/modprobe.d/zfs.conf"
                ),
            ]
        }
    }
}

/// Who has only `pid` has a kernel without the rest.
const EXPERIMENTAL: &str =
    "# Linux 6.14 or later with CONFIG_BTRFS_EXPERIMENTAL; else there is only pid";

/// The command that makes btrfs go by a policy.
fn store(origin: &Origin, policy: &str) -> String {
    let sysfs = origin.btrfs.as_ref().map_or_else(
        || "/sys/fs/btrfs/UUID".to_owned(),
        |(sysfs, _)| shell_word(&sysfs.display().to_string()),
    );
    format!("echo {policy} > {sysfs}/read_policy")
}

/// An array of md: the fast legs first, the others write-mostly.
fn md(origin: &Origin, slow: &[usize]) -> Vec<String> {
    let all = 0..origin.legs.len();
    let fast = all.filter(|leg| !slow.contains(leg));
    let fast: Vec<String> = fast.map(|leg| origin.device(leg)).collect();
    let mut create = format!(
        "mdadm --create /dev/md0 --level=1 --raid-devices={} {}",
        origin.legs.len(),
        fast.join(" ")
    );
    if slow.is_empty() {
        return vec![create];
    }
    let late: Vec<String> = slow.iter().map(|leg| origin.device(*leg)).collect();
    create += &format!(" --write-mostly {}", late.join(" "));
    let mut lines = vec![create];
    for leg in late {
        let name = leg.rsplit('/').next().unwrap_or(&leg);
        lines.push(format!(
            "echo writemostly > /sys/block/md0/md/dev-{name}/state   # while it runs"
        ));
    }
    lines
}

/// A RAID10 of md with two copies, of which `f2` are far apart.
fn raid10(origin: &Origin, is_far: bool) -> String {
    let count = origin.legs.len();
    let legs: Vec<String> = (0..count).map(|leg| origin.device(leg)).collect();
    let layout = if is_far { "f2" } else { "n2" };
    format!(
        "mdadm --create /dev/md0 --level=10 --layout={layout} --raid-devices={count} {}",
        legs.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use heliostat_bench::forecast::Knob;

    use super::{Origin, commands};

    fn origin() -> Origin {
        Origin {
            legs: vec!["/dev/sda".to_owned(), "/srv/a b".to_owned()],
            btrfs: None,
        }
    }

    #[test]
    fn slow_legs_of_md_come_last_and_are_write_mostly() {
        let knob = Knob::Md { write_mostly: true };
        assert_eq!(
            commands(&knob, &origin(), &[0]),
            [
                "mdadm --create /dev/md0 --level=1 --raid-devices=2 /dev/LEG1 --write-mostly \
                 /dev/sda",
                "echo writemostly > /sys/block/md0/md/dev-sda/state   # while it runs",
            ]
        );
        let knob = Knob::Md {
            write_mostly: false,
        };
        let told = commands(&knob, &origin(), &[0]);
        assert_eq!(
            told,
            ["mdadm --create /dev/md0 --level=1 --raid-devices=2 /dev/sda /dev/LEG1"]
        );
    }

    #[test]
    fn raid10_of_md_has_its_layout() {
        assert_eq!(
            commands(&Knob::MdRaid10 { far: true }, &origin(), &[]),
            ["mdadm --create /dev/md0 --level=10 --layout=f2 --raid-devices=2 /dev/sda /dev/LEG1"]
        );
    }

    #[test]
    fn btrfs_is_told_by_its_own_ids_where_they_are_known() {
        let knob = Knob::BtrfsDevid { leg: 1 };
        let told = commands(&knob, &origin(), &[]);
        assert_eq!(told[0], "echo devid:2 > /sys/fs/btrfs/UUID/read_policy");
        assert!(
            told[1].contains("/dev/LEG1 is taken for devid 2"),
            "{told:?}"
        );
        let known = Origin {
            btrfs: Some(("/sys/fs/btrfs/1234".into(), vec![Some(3), Some(7)])),
            ..origin()
        };
        let told = commands(&knob, &known, &[]);
        assert_eq!(told[0], "echo devid:7 > /sys/fs/btrfs/1234/read_policy");
        assert!(!told[1].contains("taken for"), "{told:?}");
    }

    #[test]
    fn zfs_prefers_flash_with_a_zero() {
        let knob = Knob::Zfs {
            prefers_flash: true,
        };
        assert_eq!(
            commands(&knob, &origin(), &[])[0],
            "echo 0 > /sys/module/zfs/parameters/zfs_vdev_mirror_non_rotating_seek_inc"
        );
    }
}
