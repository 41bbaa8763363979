//! heliostat in the guest, on block devices that the same kernel knows: who holds a leg is seen,
//! and what its clients are when the kernel itself is one.

use super::agreement::expect;
use super::case::Case;

/// The size of the legs.
const LEG_BYTES: u64 = 64 << 20;

/// What both need to begin with.
const CREATE: &str = "heliostat create disk --level raid1 --assume-clean --bitmap-chunk 64K \
                      --control-dir /tmp/$number $a $b > created";

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![held_by_md(), left_alone(), file_system()]
}

/// A leg that md holds is refused by every command that would write to it, with the name of the
/// array and the command that frees it; one that is mounted, as well.
fn held_by_md() -> Case {
    Case::new("inside-held-by-md")
        .legs(2, LEG_BYTES)
        .with_program_in_guest()
        .guest(
            "mdadm --create $md --run --level=1 --raid-devices=2 --bitmap=internal \
                 --assume-clean $a $b
             control=\"--control-dir /tmp/$number\"
             export=\"--export nbd+unix:///x?socket=/tmp/x-$number.sock\"
             for words in \"it is part of the md array $md (raid1)\" \"mdadm --stop $md\"; do
                 refused \"$words\" heliostat serve $a $b $export $control
                 refused \"$words\" heliostat create x --level raid1 $a $b --force $control
             done
             # Who only looks is not kept out.
             heliostat examine $a > examined
             mdadm --stop $md
             serve $a $b --name disk
             heliostat stop disk $control
             wait $server
             # A file system on a leg itself.
             mdadm --zero-superblock $a
             mke2fs -q $a
             mkdir -p /tmp/mnt
             mount $a /tmp/mnt
             refused 'it is mounted at /tmp/mnt' \
                 heliostat create x --level raid1 $a $b --force $control
             umount /tmp/mnt",
        )
}

/// While an array is served nobody else gets its legs; when it is stopped, a host whose
/// configuration has the line that `create` prints leaves them alone, where it would have taken
/// them otherwise.
fn left_alone() -> Case {
    Case::new("inside-left-alone")
        .legs(2, LEG_BYTES)
        .with_program_in_guest()
        .guest(format!(
            "{CREATE}
             grep -o 'ARRAY <ignore> UUID=.*' created > ignoring
             touch asking
             serve disk
             ! mdadm --assemble --run $md $a $b
             ! mdadm --incremental --run --config=asking $a
             heliostat stop disk --control-dir /tmp/$number
             wait $server
             # As udev does for each device that it sees.
             mdadm --incremental --config=ignoring $a || true
             mdadm --incremental --config=ignoring $b || true
             ls /sys/block/${{a##*/}}/holders > held
             mdadm --incremental --config=asking $a
             mdadm --incremental --config=asking $b
             ls /sys/block/${{a##*/}}/holders > taken
             mdadm --stop /dev/$(cat taken)"
        ))
        .host(|place| {
            expect("holders with the line", &place.said("held")?, "")?;
            let taken = place.said("taken")?;
            anyhow::ensure!(taken.starts_with("md"), "without it: {taken}");
            Ok(())
        })
}

/// A file system of the kernel's on an array that is killed under it: what was synced is there when
/// md has taken the array over, the journal makes good what was not, and the other way round.
fn file_system() -> Case {
    Case::new("inside-file-system")
        .legs(2, LEG_BYTES)
        .with_program_in_guest()
        .guest(format!(
            "{CREATE}
             serve disk
             nbd-client -unix $socket -N disk /dev/nbd0
             mkfs.ext4 -q /dev/nbd0
             mkdir -p /tmp/disk
             mount /dev/nbd0 /tmp/disk
             dd if=$pattern of=/tmp/disk/first bs=64k count=128 conv=fsync 2> dd.log
             sum=\"$(md5sum < /tmp/disk/first)\"
             dd if=$pattern of=/tmp/disk/second bs=64k count=320 2> dd.log &
             sleep 0.3
             kill -9 $server
             wait
             # What the kernel was sending then may be lost, and nobody would end it.
             nbd-client -d /dev/nbd0
             umount /tmp/disk || umount -l /tmp/disk
             examine before
             assemble $a $b
             settle
             mount $md /tmp/disk
             [ \"$(md5sum < /tmp/disk/first)\" = \"$sum\" ]
             cp /tmp/disk/first /tmp/disk/third
             umount /tmp/disk
             e2fsck -fn $md
             echo check > $sys/sync_action
             settle
             [ \"$(cat $sys/mismatch_cnt)\" = 0 ]
             mdadm --stop $md
             serve disk
             nbd-client -unix $socket -N disk /dev/nbd0
             e2fsck -fn /dev/nbd0
             mount -o ro /dev/nbd0 /tmp/disk
             [ \"$(md5sum < /tmp/disk/third)\" = \"$sum\" ]
             umount /tmp/disk
             nbd-client -d /dev/nbd0
             heliostat stop disk --control-dir /tmp/$number
             wait $server"
        ))
}
