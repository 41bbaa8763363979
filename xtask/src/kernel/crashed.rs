//! Arrays of the kernel's own that were not stopped: what heliostat makes of them is what the
//! kernel makes of them when it sees them again.

use super::agreement::{agree_throughout, expect, keep};
use super::case::Case;

/// The size of the legs: more than data and metadata need.
const LEG_BYTES: u64 = 16 << 20;

/// What is common to the arrays: bits stay set for longer than a guest lives.
const CREATE: &str = "--run --metadata=1.2 --data-offset=1M --size=6M --assume-clean --delay=600";

/// An array, and what should become of it.
struct Crashed {
    name: &'static str,
    /// What its legs are called.
    legs: &'static str,
    /// What else mdadm is told when it creates the array.
    create: &'static str,
    /// What happens before the power is lost, on a filled array.
    then: &'static str,
    /// What the first leg says of the array then, and the bits that are set.
    state: &'static str,
    /// The regions of 64 KiB in which the copies are made to differ.
    differ: &'static str,
    /// What further commands are run in the next guest, where the array is assembled of all legs.
    again: &'static str,
    /// The tags of all copies at the end.
    copies: &'static str,
}

/// Four chunks were being written. Of two regions that differ, one is among them.
const MIRROR: Crashed = Crashed {
    name: "mirror",
    legs: "a b",
    create: "--level=1 --raid-devices=2 --bitmap=internal --bitmap-chunk=64K $legs",
    then: "rewrite 1024 256",
    state: "superblock/State : active, bits/16 17 18 19",
    differ: "17,40",
    again: "settle",
    copies: "0..1024 a5 a5, 1024..1280 b5 b5, 1280..2560 a5 a5, 2560..2624 a5 a6, \
             2624..6144 a5 a5",
};

const CRASHED: &[Crashed] = &[
    MIRROR,
    Crashed {
        name: "mirror-without-bitmap",
        create: "--level=1 --raid-devices=2 $legs",
        state: "superblock/State : active",
        copies: "0..1024 a5 a5, 1024..1280 b5 b5, 1280..6144 a5 a5",
        ..MIRROR
    },
    Crashed {
        name: "mirror-with-write-behind",
        create: "--level=1 --raid-devices=2 --bitmap=internal --bitmap-chunk=64K \
                 --write-behind=100 $a --write-mostly $b",
        ..MIRROR
    },
    Crashed {
        name: "mirror-with-spare",
        legs: "a b c",
        create: "--level=1 --raid-devices=2 --spare-devices=1 --bitmap=internal \
                 --bitmap-chunk=64K $legs",
        ..MIRROR
    },
    Crashed {
        name: "near-2-of-3",
        legs: "a b c",
        create: "--level=10 --layout=n2 --chunk=64K --raid-devices=3 --bitmap=internal \
                 --bitmap-chunk=64K $legs",
        copies: "0..1024 a5 a5, 1024..1280 b5 b5, 1280..2560 a5 a5, 2560..2624 a5 a6, \
                 2624..9216 a5 a5",
        ..MIRROR
    },
    Crashed {
        name: "far-2-of-4",
        legs: "a b c d",
        create: "--level=10 --layout=f2 --chunk=64K --raid-devices=4 --bitmap=internal \
                 --bitmap-chunk=64K $legs",
        copies: "0..1024 a5 a5, 1024..1280 b5 b5, 1280..2560 a5 a5, 2560..2624 a5 a6, \
                 2624..12288 a5 a5",
        ..MIRROR
    },
    Crashed {
        name: "failed-leg",
        legs: "a b c",
        create: "--level=1 --raid-devices=3 --bitmap=internal --bitmap-chunk=64K $legs",
        then: "mdadm $md --fail $b
               rewrite 1024 256",
        again: "settle
                mdadm $md --re-add $b
                settle",
        copies: "0..1024 a5 a5 a5, 1024..1280 b5 b5 b5, 1280..2560 a5 a5 a5, \
                 2560..2624 a5 a6 a7, 2624..6144 a5 a5 a5",
        ..MIRROR
    },
    Crashed {
        name: "removed-leg",
        then: "mdadm $md --fail $b
               mdadm $md --remove $b
               rewrite 1024 256",
        again: "mdadm $md --re-add $b
                settle",
        ..MIRROR
    },
    Crashed {
        name: "legs-that-went-alone",
        then: "mdadm --stop $md
               mdadm --assemble --run $md $b
               rewrite 1024 256
               mdadm --stop $md
               for time in 1 2; do
                   mdadm --assemble --run $md $a
                   rewrite 1024 256
                   mdadm --stop $md
               done",
        state: "superblock/State : clean, bits/16 17 18 19",
        copies: "0..1024 a5 a5, 1024..1088 b5 b5, 1088..1152 b5 a6, 1152..1280 b5 b5, \
                 1280..2560 a5 a5, 2560..2624 a5 a6, 2624..6144 a5 a5",
        ..MIRROR
    },
    Crashed {
        name: "rebuild",
        then: "mdadm $md --fail $b
               mdadm $md --remove $b
               mdadm --zero-superblock $b
               echo 1 > $sys/sync_speed_min
               echo 1 > $sys/sync_speed_max
               mdadm $md --add $b
               rewrite 1024 256",
        copies: "0..1024 a5 a5, 1024..1280 b5 b5, 1280..6144 a5 a5",
        ..MIRROR
    },
    Crashed {
        name: "bad-blocks",
        then: "echo '512 8' > $sys/dev-${b##*/}/bad_blocks
               rewrite 1024 256
               while ! mdadm --examine-badblocks $b | grep -q '512 for 8'; do sleep 0.1; done",
        ..MIRROR
    },
];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    CRASHED.iter().map(case).collect()
}

fn case(crashed: &'static Crashed) -> Case {
    let Crashed {
        name,
        legs,
        create,
        then,
        state,
        differ,
        again,
        copies,
    } = *crashed;
    Case::new(format!("crashed-{name}"))
        .legs(legs.split(' ').count(), LEG_BYTES)
        // To stop the array clears the bits that filling it has set. Afterwards it must not become
        // clean while other cases run in the same guest.
        .guest(format!(
            "mdadm --create $md {CREATE} {create}
             fill
             mdadm --stop $md
             assemble $legs
             echo 0 > $sys/safe_mode_delay
             {then}"
        ))
        .host(move |place| {
            let ours = place.judge("bytes a")?;
            let told =
                |line: &&str| line.starts_with("superblock/State") || line.starts_with("bits");
            let ours: Vec<&str> = ours.lines().filter(told).collect();
            expect("state and bits", &ours.join("\n"), state)?;
            place.judge(&format!("differ {differ} {legs}"))?;
            keep(place, legs, legs)
        })
        .guest(format!(
            "examine before
             assemble $legs
             {again}
             stop"
        ))
        .host(move |place| agree_throughout(place, legs, copies))
}
