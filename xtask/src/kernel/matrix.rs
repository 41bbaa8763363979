//! Arrays as mdadm makes and changes them, of every kind that heliostat serves: it takes them over,
//! writes to them, and gives them back.

use anyhow::{Context, Result, ensure};

use super::agreement::{agree, agree_on_members, agree_on_stopped, agree_with_examine, keep};
use super::case::{Case, Place};
use super::served::{paths, write};
use crate::e2e::server::{NAME, Server};

const MIB: u64 = 1 << 20;

/// An array: its name, the sizes of its legs, and how it comes to be.
type Made = (&'static str, &'static [u64], &'static str);

/// The size of legs that are all alike.
const LEG: u64 = 12 * MIB;

const MADE: &[Made] = &[
    (
        "uneven-legs",
        &[LEG + 4096, LEG + 3 * MIB, LEG + 512 * 7],
        "make --level=1 --raid-devices=3 --bitmap=internal $legs",
    ),
    (
        "uneven-offset-2-of-3",
        &[LEG + MIB, LEG, LEG + 4096],
        "make --level=10 --layout=o2 --chunk=4 --raid-devices=3 --bitmap=internal $legs",
    ),
    (
        "metadata-1.0",
        &[LEG; 3],
        "make --metadata=1.0 --level=10 --chunk=64 --raid-devices=3 --bitmap=internal \
             $legs",
    ),
    (
        "metadata-1.1",
        &[LEG; 2],
        "make --metadata=1.1 --level=1 --raid-devices=2 --bitmap=internal $legs",
    ),
    (
        "bitmap-chunk-4K",
        &[LEG; 2],
        "make --level=1 --raid-devices=2 --bitmap=internal --bitmap-chunk=4K $legs",
    ),
    (
        "bitmap-chunk-1G",
        &[LEG; 2],
        "make --level=1 --raid-devices=2 --bitmap=internal --bitmap-chunk=1G $legs",
    ),
    (
        "16-legs",
        &[3 * MIB; 16],
        "make --level=10 --layout=n3 --chunk=4 --raid-devices=16 --bitmap=internal $legs",
    ),
    (
        "near-3-of-5",
        &[LEG; 5],
        "make --level=10 --layout=n3 --chunk=64 --raid-devices=5 --bitmap=internal $legs",
    ),
    (
        "far-3-of-5",
        &[LEG; 5],
        "make --level=10 --layout=f3 --chunk=64 --raid-devices=5 --bitmap=internal $legs",
    ),
    (
        "offset-3-of-5",
        &[LEG; 5],
        "make --level=10 --layout=o3 --chunk=64 --raid-devices=5 --bitmap=internal $legs",
    ),
    (
        "chunk-64M",
        &[140 * MIB; 2],
        "make --level=10 --chunk=65536 --data-offset=1M --raid-devices=2 --bitmap=internal \
             $legs",
    ),
    (
        "odd-name",
        &[LEG; 2],
        "make --level=1 --raid-devices=2 --homehost=a.host-of_ours \
             --name=\"it's/an: odd#name\" $legs",
    ),
    (
        "data-offset",
        &[LEG; 2],
        "make --level=1 --raid-devices=2 --bitmap=internal --data-offset=1028K $legs",
    ),
    (
        "bitmap-removed",
        &[LEG; 2],
        "make --level=1 --raid-devices=2 --bitmap=internal $legs
         mdadm --grow $md --bitmap=none",
    ),
    (
        "bitmap-given",
        &[LEG; 2],
        "make --level=1 --raid-devices=2 $legs
         mdadm --grow $md --bitmap=internal --bitmap-chunk=64K",
    ),
    (
        "policy-resync",
        &[LEG; 2],
        "make --level=1 --raid-devices=2 --consistency-policy=resync $legs",
    ),
    (
        "flags",
        &[LEG; 3],
        "make --level=1 --raid-devices=3 --bitmap=internal --failfast $a \
             --write-mostly $b $c
         mdadm --detail $md | grep -q writemostly",
    ),
    (
        "without-bad-block-log",
        &[LEG; 2],
        "make --level=1 --raid-devices=2 --bitmap=internal $legs
         mdadm --stop $md
         mdadm --assemble $md --update=no-bbl $legs",
    ),
    (
        "a-leg-missing",
        &[LEG; 2],
        "make --level=1 --raid-devices=3 --bitmap=internal $a missing $b",
    ),
    (
        "a-leg-fewer",
        &[LEG; 2],
        "make --level=1 --raid-devices=3 --bitmap=internal $legs missing
         mdadm --grow $md --raid-devices=2",
    ),
    (
        "reshaped",
        &[LEG; 4],
        "make --level=10 --chunk=64 --raid-devices=3 --data-offset=2M --size=8M $a $b $c
         mdadm $md --add $d
         mdadm --grow $md --raid-devices=4
         settle
         fill",
    ),
    (
        "spare",
        &[LEG; 3],
        "make --level=1 --raid-devices=2 --spare-devices=1 --bitmap=internal $legs",
    ),
    (
        "update-uuid-and-name",
        &[LEG; 2],
        "make --level=1 --raid-devices=2 --bitmap=internal $legs
         mdadm --stop $md
         mdadm --assemble $md --update=uuid --uuid=01234567:89abcdef:00000000:ffffffff $legs
         mdadm --stop $md
         mdadm --assemble $md --update=name --name=another $legs",
    ),
    (
        "update-resync",
        &[LEG; 2],
        "make --level=1 --raid-devices=2 --bitmap=internal --bitmap-chunk=64K $legs
         mdadm --stop $md
         echo 1 > /sys/module/md_mod/parameters/start_ro
         mdadm --assemble $md --update=resync $legs
         echo 0 > /sys/module/md_mod/parameters/start_ro
         # A resync does not begin while the array may only be read.
         settle() { true; }",
    ),
];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    MADE.iter().map(case).map(Case::with_program).collect()
}

fn case(made: &'static Made) -> Case {
    let (name, sizes, script) = *made;
    let mut case = Case::new(format!("made-{name}"));
    for size in sizes {
        case = case.legs(1, *size);
    }
    let legs: Vec<String> = ('a'..).take(sizes.len()).map(String::from).collect();
    let legs = legs.join(" ");
    let given = legs.clone();
    // What is larger than the pattern begins as zeros.
    let rest = if name == "chunk-64M" { "00" } else { "a5" };
    case.guest(format!(
        "make() {{
             mdadm --create $md --run --assume-clean \"$@\"
             [ {rest} = 00 ] || fill
         }}
         {script}
         settle
         stop"
    ))
    .host(move |place| {
        agree(place, "after", &given)?;
        agree_with_examine(place, "after", &given)?;
        agree_on_stopped(place, &given)?;
        let room = place.room()?;
        let options = ["--name", NAME, "--degraded-ok", "--resync-min", "100MB/s"];
        let server = Server::start(&room, &paths(place, &given), &options)?;
        write(place, &room, &server, "b5", 1024, 256)?;
        server.control(&["wait", NAME])?;
        server.terminate()?;
        ensure_written(place, &given, rest, &["b5"])?;
        keep(place, &given, &given)
    })
    .guest(
        "examine before
         assemble $legs
         settle
         rewrite 1280 256 2
         settle
         { echo check > $sys/sync_action; } || true
         settle
         [ \"$(cat $sys/mismatch_cnt)\" = 0 ]
         stop",
    )
    .host(move |place| {
        agree(place, "before", &legs)?;
        agree(place, "after", &legs)?;
        agree_with_examine(place, "after", &legs)?;
        agree_on_members(place, &legs)?;
        ensure_written(place, &legs, rest, &["b5", "c5"])
    })
}

/// Everywhere all copies are the same: these tags one after the other, each in 256 KiB from 1 MiB
/// on, and the rest elsewhere.
fn ensure_written(place: &Place, legs: &str, rest: &str, tags: &[&str]) -> Result<()> {
    let told = place.judge(&format!("copies {legs}"))?;
    let mut runs = Vec::new();
    for line in told.lines() {
        let (range, copies) = line.split_once(' ').context("a range")?;
        let mut copies = copies.split(' ').filter(|tag| *tag != "--");
        let first = copies.next().context("a copy")?;
        ensure!(copies.all(|tag| tag == first), "copies differ: {line}");
        runs.push((range, first));
    }
    let size = place.judge(&format!("size {legs}"))?;
    let size: u64 = size.trim().parse()?;
    let mut from = 1024;
    let mut expected = vec![(0, from, rest)];
    for tag in tags {
        expected.push((from, from + 256, *tag));
        from += 256;
    }
    expected.push((from, size, rest));
    let expected = expected
        .iter()
        .map(|(from, to, tag)| (format!("{from}..{to}"), *tag));
    let is_so = expected.eq(runs.iter().map(|(range, tag)| ((*range).to_owned(), *tag)));
    ensure!(is_so, "the copies: {told}");
    Ok(())
}
