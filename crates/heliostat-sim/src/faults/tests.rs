use heliostat_model::{ErrorRule, FailedKind, FaultEffect};
use heliostat_types::{Duration, Extent, Instant};

use super::{Effect, Fault};

const LEGS: [u64; 2] = [1 << 30; 2];

/// A fault of these keys; the error of the first that is refused.
fn fault(keys: &[(&str, &str)]) -> Result<Fault, String> {
    let mut fault = Fault::default();
    for (key, value) in keys {
        fault.set(key, value).map_err(|error| error.to_string())?;
    }
    fault.check(&LEGS)?;
    Ok(fault)
}

fn refusal(keys: &[(&str, &str)]) -> String {
    fault(keys).unwrap_err()
}

#[test]
fn every_effect_has_its_key() {
    for (keys, effect) in [
        (vec![("slow", "2.5")], Effect::Slow(2_500)),
        (
            vec![("pause", "50ms"), ("every", "2s"), ("jitter", "100ms")],
            Effect::Pause(Duration::from_ms(50)),
        ),
        (vec![("stuck", "true"), ("burst", "true")], Effect::Stuck),
        (
            vec![("error", "read"), ("sticky", "true")],
            Effect::Error(FailedKind::Read),
        ),
        (
            vec![("error", "write"), ("count", "3")],
            Effect::Error(FailedKind::Write),
        ),
        (vec![("dead", "true")], Effect::Dead),
        (
            vec![("lost_write", "true"), ("rate", "0.001")],
            Effect::LostWrite,
        ),
        (vec![("torn_write", "4KiB")], Effect::TornWrite(4096)),
        (vec![("torn_write", "512")], Effect::TornWrite(512)),
        (
            vec![("misdirected_write", "true")],
            Effect::MisdirectedWrite,
        ),
        (
            vec![("bit_rot", "true"), ("offset", "1m"), ("size", "1m")],
            Effect::BitRot,
        ),
        (
            vec![("flush_lies", "true"), ("count", "1")],
            Effect::FlushLies,
        ),
    ] {
        let key = keys[0].0;
        assert_eq!(effect.key(), key);
        let keys: Vec<_> = [("leg", "1")].into_iter().chain(keys).collect();
        let fault = fault(&keys).unwrap();
        assert_eq!((fault.effect, fault.leg), (Some(effect), Some(1)));
    }
    let cut = fault(&[("power_cut", "true"), ("at", "3s")]).unwrap();
    let at = |secs| Instant::ZERO + Duration::from_secs(secs);
    assert_eq!(cut.period(at(10)), (at(13), at(18)));
}

#[test]
fn times_count_from_the_start_of_measuring() {
    let at = |secs| Instant::ZERO + Duration::from_secs(secs);
    let period = |keys: &[(&str, &str)]| {
        let keys = [&[("leg", "0"), ("dead", "true")], keys].concat();
        fault(&keys).unwrap().period(at(10))
    };
    assert_eq!(period(&[]), (at(10), Instant::MAX));
    assert_eq!(period(&[("at", "-5s"), ("until", "-1s")]), (at(5), at(9)));
    assert_eq!(period(&[("at", "-60s"), ("until", "2s")]), (at(0), at(12)));
}

#[test]
fn what_makes_no_sense_names_its_key() {
    assert_eq!(
        refusal(&[("leg", "0"), ("at", "1s")]),
        "it says not what goes wrong: slow, pause, stuck, error, dead, lost_write, torn_write, \
         misdirected_write, bit_rot, flush_lies, power_cut, failed, added, replaced, told, \
         scrub"
    );
    assert_eq!(
        refusal(&[("stuck", "true"), ("dead", "true")]),
        "dead: this fault has stuck already; a second effect is a [[fault]] of its own"
    );
    for (keys, told) in [
        (vec![("at", "2s"), ("until", "1s")], "until is before at"),
        (vec![("burst", "true")], "burst says nothing about dead"),
        (vec![("rate", "0.5")], "rate says nothing about dead"),
        (
            vec![("rate", "2")],
            "rate: '2' is not a probability above 0, at most 1",
        ),
        (
            vec![("count", "0")],
            "count: '0' is not a whole number from 1 to 18446744073709551614",
        ),
        (
            vec![("offset", "1000")],
            "offset: '1000' is no multiple of 512 bytes",
        ),
        (
            vec![("size", "0")],
            "size: no byte is left; leave it out for all",
        ),
        (
            vec![("leg", "7")],
            "leg: there is no leg 7; legs count from 0, the last one is 1",
        ),
        (
            vec![("evry", "1s")],
            "there is no key 'evry'; did you mean 'every'?",
        ),
        (
            vec![("eror", "read")],
            "there is no key 'eror'; did you mean 'error'?",
        ),
        (
            vec![("slow", "0")],
            "slow: '0' is not a factor from 0.001 to 1000000",
        ),
        (
            vec![("torn_write", "1k")],
            "torn_write: '1k' is neither 512 nor 4KiB",
        ),
        (
            vec![("at", "soon")],
            "at: 'soon' is not a length of time: a number, then ns, us, ms or s",
        ),
    ] {
        let keys: Vec<_> = [("leg", "0"), ("dead", "true")]
            .into_iter()
            .chain(keys)
            .collect();
        assert_eq!(refusal(&keys), told);
    }
}

#[test]
fn the_leg_its_pauses_and_its_range_make_sense() {
    let dead = ("dead", "true");
    assert_eq!(refusal(&[dead]), "leg is missing: which one, from 0");
    assert_eq!(
        refusal(&[("power_cut", "true"), ("leg", "0")]),
        "leg: a power cut hits the whole machine; leave leg out"
    );
    let pause =
        |keys: &[(&str, &str)]| refusal(&[&[("leg", "0"), ("pause", "50ms")], keys].concat());
    assert_eq!(pause(&[]), "every is missing: how often there is a pause");
    assert_eq!(
        pause(&[("every", "60ms"), ("jitter", "11ms")]),
        "every: the next pause begins before the last has ended"
    );
    let error =
        |keys: &[(&str, &str)]| refusal(&[&[("leg", "0"), ("error", "read")], keys].concat());
    assert_eq!(
        error(&[("offset", "1GiB")]),
        "offset: the leg ends at byte 1073741824"
    );
    assert_eq!(
        error(&[("offset", "512MiB"), ("size", "1GiB")]),
        "size: the leg ends at byte 1073741824"
    );
}

#[test]
fn a_switch_that_is_off_is_no_effect() {
    let mut fault = Fault::default();
    fault.set("dead", "false").unwrap();
    assert_eq!(fault.effect, None);
    fault.set("stuck", "true").unwrap();
    fault.set("dead", "false").unwrap();
    assert_eq!(fault.effect, Some(Effect::Stuck));
}

#[test]
fn ranges_move_with_the_partition() {
    let range = |keys: &[(&str, &str)], partition| {
        let keys = [&[("leg", "0"), ("error", "write")], keys].concat();
        let rule = fault(&keys)
            .unwrap()
            .rule(Instant::ZERO, partition)
            .unwrap();
        let FaultEffect::Error(rule) = rule.effect else {
            panic!("{rule:?}");
        };
        rule.range
    };
    let part = [("offset", "4k"), ("size", "8k")];
    assert_eq!(range(&[], None), ErrorRule::EVERYWHERE);
    assert_eq!(range(&part, None), Extent::new(4096, 8192));
    let partition = Some(Extent::new(1 << 30, 1 << 30));
    assert_eq!(range(&[], partition), Extent::new(1 << 30, 1 << 30));
    assert_eq!(range(&part, partition), Extent::new((1 << 30) + 4096, 8192));
}

#[test]
fn a_fault_is_told_in_words() {
    let told = |keys: &[(&str, &str)]| fault(keys).unwrap().to_string();
    assert_eq!(
        told(&[
            ("leg", "1"),
            ("slow", "10"),
            ("at", "20s"),
            ("until", "40s")
        ]),
        "leg 1 takes 10 times as long, from 20 s to 40 s"
    );
    assert_eq!(
        told(&[("leg", "0"), ("pause", "50ms"), ("every", "2s")]),
        "leg 0 stands still for 0.05 s every 2 s, from 0 s on"
    );
    assert_eq!(
        told(&[
            ("leg", "0"),
            ("lost_write", "true"),
            ("rate", "0.001"),
            ("count", "3")
        ]),
        "leg 0 loses writes, with probability 0.001, at most 3 times, from 0 s on"
    );
    assert_eq!(
        told(&[("power_cut", "true"), ("at", "2.5s")]),
        "the machine has no power, from 2.5 s on"
    );
}
