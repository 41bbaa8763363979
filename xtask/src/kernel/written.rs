//! Arrays whose metadata no kernel has written: what the kernel makes of them is what was meant.

use anyhow::ensure;

use super::agreement::{agree_throughout, expect, keep};
use super::case::Case;

/// The size of the legs: more than data and metadata need.
const LEG_BYTES: u64 = 16 << 20;

/// An array, and what should become of it.
struct Written {
    name: &'static str,
    /// What its legs are called.
    legs: &'static str,
    /// What it is described by.
    words: &'static str,
    /// The regions of 64 KiB where its copies differ, each having a tag of its own.
    differ: &'static str,
    /// The legs that mdadm is given.
    given: &'static str,
    /// What each leg is to the kernel, once the array is assembled.
    members: &'static str,
    /// From where its legs have to be made equal.
    resync: &'static str,
    /// What further commands of the guest are run when the array is at rest.
    then: &'static str,
    /// The tags of all copies at the end.
    copies: &'static str,
}

/// All legs in sync, and after 256 KiB were written from 1 MiB on, on all of them.
const MIRROR_OF_2: Written = Written {
    name: "mirror-of-2",
    legs: "a b",
    words: "mirror",
    differ: "",
    given: "$a $b",
    members: "a 0 in_sync, b 1 in_sync",
    resync: "none",
    then: "rewrite 1024 256",
    copies: "0..1024 a5 a5, 1024..1280 b5 b5, 1280..6144 a5 a5",
};

const MIRROR_OF_3: Written = Written {
    name: "mirror-of-3",
    legs: "a b c",
    given: "$a $b $c",
    members: "a 0 in_sync, b 1 in_sync, c 2 in_sync",
    copies: "0..1024 a5 a5 a5, 1024..1280 b5 b5 b5, 1280..6144 a5 a5 a5",
    ..MIRROR_OF_2
};

const NEAR_2_OF_4: Written = Written {
    name: "near-2-of-4",
    legs: "a b c d",
    words: "near=2",
    given: "$a $b $c $d",
    members: "a 0 in_sync, b 1 in_sync, c 2 in_sync, d 3 in_sync",
    copies: "0..1024 a5 a5, 1024..1280 b5 b5, 1280..12288 a5 a5",
    ..MIRROR_OF_2
};

const WRITTEN: &[Written] = &[
    MIRROR_OF_2,
    MIRROR_OF_3,
    Written {
        name: "mirror-of-4",
        legs: "a b c d",
        given: "$a $b $c $d",
        members: "a 0 in_sync, b 1 in_sync, c 2 in_sync, d 3 in_sync",
        copies: "0..1024 a5 a5 a5 a5, 1024..1280 b5 b5 b5 b5, 1280..6144 a5 a5 a5 a5",
        ..MIRROR_OF_2
    },
    Written {
        name: "mirror-without-bitmap",
        words: "mirror bitmap=none",
        ..MIRROR_OF_2
    },
    Written {
        name: "mirror-with-write-mostly",
        words: "mirror write-mostly=b",
        members: "a 0 in_sync, b 1 in_sync,write_mostly",
        ..MIRROR_OF_2
    },
    NEAR_2_OF_4,
    Written {
        name: "near-2-of-3",
        legs: "a b c",
        words: "near=2",
        copies: "0..1024 a5 a5, 1024..1280 b5 b5, 1280..9216 a5 a5",
        ..MIRROR_OF_3
    },
    Written {
        name: "near-3-of-4",
        words: "near=3",
        copies: "0..1024 a5 a5 a5, 1024..1280 b5 b5 b5, 1280..8192 a5 a5 a5",
        ..NEAR_2_OF_4
    },
    Written {
        name: "far-2-of-4",
        words: "far=2 chunk=128K",
        ..NEAR_2_OF_4
    },
    Written {
        name: "offset-2-of-4",
        words: "offset=2 bitmap=none",
        ..NEAR_2_OF_4
    },
    // One leg is not there.
    Written {
        name: "mirror-degraded",
        words: "mirror missing=c",
        given: "$a $b",
        members: "a 0 in_sync, b 1 in_sync, c out",
        copies: "0..1024 a5 a5 --, 1024..1280 b5 b5 --, 1280..6144 a5 a5 --",
        ..MIRROR_OF_3
    },
    Written {
        name: "mirror-degraded-filled",
        words: "mirror missing=c",
        given: "$a $b",
        members: "a 0 in_sync, b 1 in_sync, c out",
        then: "rewrite 1024 256
               mdadm $md --add $c
               settle",
        ..MIRROR_OF_3
    },
    Written {
        name: "near-degraded",
        words: "near=2 missing=d",
        given: "$a $b $c",
        members: "a 0 in_sync, b 1 in_sync, c 2 in_sync, d out",
        then: "rewrite 1024 256
               mdadm $md --add $d
               settle",
        ..NEAR_2_OF_4
    },
    Written {
        name: "far-degraded",
        words: "far=2 missing=b",
        given: "$a $c $d",
        members: "a 0 in_sync, b out, c 2 in_sync, d 3 in_sync",
        then: "rewrite 1024 256
               mdadm $md --add $b
               settle",
        ..NEAR_2_OF_4
    },
    Written {
        name: "mirror-with-spare",
        words: "mirror spare=c",
        members: "a 0 in_sync, b 1 in_sync, c none spare",
        then: "mdadm $md --fail $a
               settle
               rewrite 1024 256",
        copies: MIRROR_OF_2.copies,
        ..MIRROR_OF_3
    },
    // The array was not stopped.
    Written {
        name: "dirty-mirror",
        words: "mirror dirty set=0,2",
        differ: "0,1,2",
        resync: "0",
        copies: "0..64 a5 a5, 64..128 a5 a6, 128..1024 a5 a5, 1024..1280 b5 b5, 1280..6144 a5 a5",
        ..MIRROR_OF_2
    },
    Written {
        name: "dirty-near",
        words: "near=2 dirty set=0,2",
        differ: "0,1,2",
        resync: "0",
        copies: "0..64 a5 a5, 64..128 a5 a6, 128..1024 a5 a5, 1024..1280 b5 b5, 1280..12288 a5 a5",
        ..NEAR_2_OF_4
    },
    Written {
        name: "dirty-far",
        words: "far=2 dirty set=0,2",
        differ: "0,1,2",
        resync: "0",
        copies: "0..64 a5 a5, 64..128 a5 a6, 128..1024 a5 a5, 1024..1280 b5 b5, 1280..12288 a5 a5",
        ..NEAR_2_OF_4
    },
    Written {
        name: "dirty-offset",
        words: "offset=2 dirty set=0,2",
        differ: "0,1,2",
        resync: "0",
        copies: "0..64 a5 a5, 64..128 a5 a6, 128..1024 a5 a5, 1024..1280 b5 b5, 1280..12288 a5 a5",
        ..NEAR_2_OF_4
    },
    Written {
        name: "dirty-without-bitmap",
        words: "mirror dirty bitmap=none",
        differ: "0,1,2",
        resync: "0",
        ..MIRROR_OF_2
    },
    Written {
        name: "dirty-with-old-bitmap",
        words: "mirror dirty bitmap-events=18 set=0",
        differ: "0,1,2",
        resync: "0",
        ..MIRROR_OF_2
    },
    Written {
        name: "clean-with-bits",
        words: "mirror set=0,2",
        differ: "0,1,2",
        copies: "0..192 a5 a6, 192..1024 a5 a5, 1024..1280 b5 b5, 1280..6144 a5 a5",
        ..MIRROR_OF_2
    },
    // A leg that knows less than the other.
    Written {
        name: "behind-by-one",
        words: "mirror behind=b:1 dirty set=0,2",
        differ: "0,1,2",
        resync: "0",
        copies: "0..64 a5 a5, 64..128 a5 a6, 128..1024 a5 a5, 1024..1280 b5 b5, 1280..6144 a5 a5",
        ..MIRROR_OF_2
    },
    Written {
        name: "first-behind-by-one",
        words: "mirror behind=a:1 dirty set=0,2",
        differ: "0,1,2",
        resync: "0",
        copies: "0..64 a5 a5, 64..128 a5 a6, 128..1024 a5 a5, 1024..1280 b5 b5, 1280..6144 a5 a5",
        ..MIRROR_OF_2
    },
    Written {
        name: "behind-by-one-and-clean",
        words: "mirror behind=b:1",
        differ: "0",
        copies: "0..64 a5 a6, 64..1024 a5 a5, 1024..1280 b5 b5, 1280..6144 a5 a5",
        ..MIRROR_OF_2
    },
    Written {
        name: "behind-by-two",
        words: "mirror behind=b:2 cleared=15",
        members: "a 0 in_sync, b out",
        copies: "0..1024 a5 a5, 1024..1280 b5 a5, 1280..6144 a5 a5",
        ..MIRROR_OF_2
    },
    Written {
        name: "failed-one-event-ago",
        words: "mirror failed=b:1 cleared=15",
        members: "a 0 in_sync, b none faulty",
        copies: "0..1024 a5 a5, 1024..1280 b5 a5, 1280..6144 a5 a5",
        ..MIRROR_OF_2
    },
    Written {
        name: "failed-and-added-again",
        words: "mirror failed=b:3 cleared=15 set=0,2",
        differ: "0,1,2",
        given: "$a",
        members: "a 0 in_sync, b out",
        then: "rewrite 1024 256
               mdadm $md --re-add $b
               settle",
        copies: "0..64 a5 a5, 64..128 a5 a6, 128..1024 a5 a5, 1024..1280 b5 b5, 1280..6144 a5 a5",
        ..MIRROR_OF_2
    },
    Written {
        name: "failed-before-bits-were-cleared",
        words: "mirror failed=b:3 cleared=18 set=0,2",
        differ: "0,1,2",
        given: "$a",
        members: "a 0 in_sync, b out",
        then: "rewrite 1024 256
               ! mdadm $md --re-add $b
               mdadm $md --add $b
               settle",
        ..MIRROR_OF_2
    },
    Written {
        name: "being-rebuilt",
        words: "mirror recovered=b:6144",
        members: "a 0 in_sync, b 1 spare",
        differ: "10,60",
        copies: "0..640 a5 a5, 640..704 a5 a6, 704..1024 a5 a5, 1024..1280 b5 b5, 1280..6144 a5 a5",
        ..MIRROR_OF_2
    },
    Written {
        name: "bad-blocks",
        words: "mirror bad=b:512+8 bad=b:8000+1000",
        then: "cat $sys/dev-${b##*/}/bad_blocks > bad_blocks
               [ \"$(tr '\\n' , < bad_blocks)\" = '512 8,8000 512,8512 488,' ]
               rewrite 1024 256",
        ..MIRROR_OF_2
    },
];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let written = WRITTEN.iter().map(case);
    written.chain([large_bitmap()]).collect()
}

/// A bitmap of two pages, with bits on both sides of the border: the first page has those of 30720
/// chunks, and two regions differ on both sides of it.
fn large_bitmap() -> Case {
    Case::new("written-large-bitmap")
        .legs(2, 128 << 20)
        .host(|place| {
            let words = "mirror size=125M bitmap=4K dirty set=30719,30720";
            place.judge(&format!("write {words} -- a b"))?;
            place.judge("differ 1919,1920 a b")?;
            keep(place, "a b", "a b")
        })
        .guest("take_over $a $b")
        .host(|place| {
            let copies = "0..122816 a5 a5, 122816..122876 a5 a6, 122876..122884 a5 a5, \
                            122884..122944 a5 a6, 122944..128000 a5 a5";
            agree_throughout(place, "a b", copies)
        })
}

fn case(written: &'static Written) -> Case {
    let Written {
        name,
        legs,
        words,
        differ,
        given,
        members,
        resync,
        then,
        copies,
    } = *written;
    Case::new(format!("written-{name}"))
        .legs(legs.split(' ').count(), LEG_BYTES)
        .host(move |place| {
            place.judge(&format!("write {words} -- {legs}"))?;
            if !differ.is_empty() {
                place.judge(&format!("differ {differ} {legs}"))?;
            }
            keep(place, legs, &given.replace('$', ""))
        })
        .guest(format!(
            "examine before
             assemble {given}
             settle
             save array
             {then}
             stop"
        ))
        .host(move |place| {
            let expected = format!("{members}, resync {resync}");
            expect("the legs", &place.said("assembled")?, &expected)?;
            agree_throughout(place, legs, copies)?;
            let array = place.judge("tags results/array")?;
            // Where copies differ and need not be made equal, the kernel reads either.
            let is_whole = array.lines().count() == 1 && array.trim().ends_with(" a5");
            ensure!(is_whole || !differ.is_empty(), "the array: {array}");
            Ok(())
        })
}
