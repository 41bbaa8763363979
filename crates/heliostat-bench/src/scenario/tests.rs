//! What scenario files mean, and what is said of those that mean nothing.

use std::fmt::Write as _;
use std::path::Path;

use expect_test::{Expect, expect};
use heliostat_engine::Layout;
use heliostat_sim::{RunError, Trial, run};
use heliostat_types::Duration;
use proptest::prelude::{ProptestConfig, Strategy, any, prop, prop_oneof, proptest};

use super::ScenarioFile;
use crate::report::format::wrapped;

/// A scenario of which tests change one thing.
const GOOD: &str = r#"
name = "good"
seconds = 1

[array]
legs = ["ram", "ram"]

[[job]]
name = "reader"
rw = "randread"
"#;

fn parse(text: &str) -> Result<ScenarioFile, String> {
    ScenarioFile::parse(Path::new("dir/mixed.toml"), text).map_err(|error| error.to_string())
}

/// What is said of each of `texts`.
fn check_errors(texts: &[&str], expect: &Expect) {
    let mut told = String::new();
    for text in texts {
        let error = parse(text).expect_err(text);
        writeln!(told, "{}", wrapped(&error, 84)).unwrap();
    }
    expect.assert_eq(&told);
}

/// What is said where `from` is replaced with `to` in a good scenario.
fn check_changes(changes: &[(&str, &str)], expect: &Expect) {
    let changed = |(from, to): &(&str, &str)| {
        assert!(GOOD.contains(from), "{from}");
        GOOD.replacen(from, to, 1)
    };
    let texts: Vec<String> = changes.iter().map(changed).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    check_errors(&texts, expect);
}

#[test]
fn little_has_to_be_said() {
    let text =
        "# Two drives.\n[array]\nlegs = ['ssd-sata-1tb', 'ssd-sata-1tb']\n[[job]]\nrw='read'";
    let file = parse(text).unwrap();
    assert_eq!(file.description, "Two drives.");
    let scenario = &file.scenario;
    assert_eq!(scenario.name, "mixed");
    assert_eq!(scenario.seed, 1);
    assert_eq!(scenario.seconds, Duration::from_secs(60));
    assert_eq!(scenario.warmup_seconds, Duration::ZERO);
    assert_eq!(scenario.array.size_bytes, 1_000_204_886_016 >> 20 << 20);
    assert_eq!(scenario.jobs[0].name, "job0");
    assert_eq!(file.policies.len(), 1);
    assert_eq!(
        file.policies[0].to_string(),
        heliostat_policy::DEFAULT_POLICY
    );
}

#[test]
fn what_is_said_is_meant() {
    let text = r#"
        seconds = 1.5
        warmup_seconds = "250ms"
        seed = 18446744073709551615
        [array]
        level = "raid1"
        layout = "near=2"
        chunk = "512KiB"
        size = 1073741824
        legs = ["hdd-5400-old", { model = "mine", write_mostly = true }, { model = "ram" }]
        policies = ["pid", "queue:tie=rotate", "oracle"]
        scheduler = "none"
        [[model]]
        name = "mine"
        like = "ssd-sata-256gb"
        size = "2GiB"
        [[job]]
        name = "writer"
        rw = "randwrite"
        direct = 1
        bs = 8192
        background = false
        [[fault]]
        leg = 1
        at = "0.5s"
        slow = 10.0
    "#;
    let file = parse(text).unwrap();
    let scenario = &file.scenario;
    assert_eq!(scenario.seconds, Duration::from_ms(1500));
    assert_eq!(scenario.warmup_seconds, Duration::from_ms(250));
    assert_eq!(scenario.seed, u64::MAX);
    assert_eq!(scenario.array.size_bytes, 1 << 30);
    assert_eq!(scenario.array.layout, Layout::Mirror);
    let legs = &scenario.array.legs;
    assert_eq!(
        (legs[1].model.as_str(), legs[1].write_mostly),
        ("mine", true)
    );
    assert_eq!(legs[1].params.size_bytes(), 2 << 30);
    assert_eq!(scenario.jobs[0].bs_bytes, 8192);
    assert_eq!(scenario.faults[0].at_ns, 500_000_000);
    let policies: Vec<String> = file.policies.iter().map(ToString::to_string).collect();
    assert_eq!(policies, ["pid", "queue:tie=rotate", "oracle"]);
}

#[test]
fn memory_is_as_large_as_it_has_to_be() {
    let sized = |text: &str| {
        let file = parse(text).unwrap();
        let legs = &file.scenario.array.legs;
        let sizes = legs
            .iter()
            .map(|leg| leg.params.size_bytes())
            .collect::<Vec<_>>();
        (file.scenario.array.size_bytes, sizes)
    };
    let array = |lines: &str| format!("[array]\n{lines}\n[[job]]\nrw = 'read'");
    assert_eq!(
        sized(&array("legs = ['ram', 'ram']")),
        (1 << 30, vec![1 << 30; 2])
    );
    assert_eq!(
        sized(&array("legs = ['ram', 'ram']\nsize = '100GiB'")),
        (100 << 30, vec![100 << 30; 2])
    );
    let (size, legs) = sized(&array(
        "legs = ['ram', { model = 'hdd-5400-old', size = '9MiB' }]",
    ));
    assert_eq!((size, legs), (9 << 20, vec![1 << 30, 9 << 20]));
    let text = array("legs = [{ model = 'ram', size = '1GiB' }]\nsize = '2GiB'");
    assert!(parse(&text).unwrap_err().contains("smaller than the array"));
}

#[test]
fn powers_of_thousand_are_sizes_of_arrays_and_of_jobs() {
    let sized = |size: &str, job: &str| {
        let text = format!(
            "[array]\nlegs = ['ssd-sata-1tb', 'ram']\nsize = {size}\n\
             [[job]]\nrw = 'randread'\n{job}"
        );
        let scenario = parse(&text).unwrap().scenario;
        let array = scenario.array.size_bytes;
        (array, scenario.jobs[0].region(0, array).unwrap())
    };
    let whole = 500_000_000 / 4096 * 4096;
    for job in ["", "size = '500MB'", "size = 500000000"] {
        let (array, region) = sized("'500MB'", job);
        assert_eq!((array, region.end()), (whole, whole), "{job}");
    }
    assert_eq!(sized("8191", "").0, 4096);
    assert_eq!(sized("1000001", "size = 4096").1.end(), 4096);
}

#[test]
fn keys_that_are_not_there_are_named_with_their_line() {
    check_changes(
        &[
            ("seconds", "second"),
            ("seconds = 1", "seconds = 1\npolicies = ['pid']"),
            ("legs =", "leggs ="),
            ("legs =", "seed = 1\nlegs ="),
            ("rw =", "iodeph = 4\nrw ="),
            ("rw =", "scheduler = 'none'\nrw ="),
            ("[[job]]", "[[jobs]]"),
            ("[[job]]", "[[fault]]\nleg = 0\nsloow = 3.0\n[[job]]"),
            ("\"ram\"]", "{ model = 'ram', write_mosty = true }]"),
            (
                "[[job]]",
                "[[model]]\nname = 'a'\nlike = 'ram'\nsise = 1\n[[job]]",
            ),
        ],
        &expect![[r#"
            dir/mixed.toml:3: there is no key 'second'; did you mean 'seconds'?
            dir/mixed.toml:4: there is no key 'policies' here; it belongs to [array]
            dir/mixed.toml:6: array: there is no key 'leggs'; did you mean 'legs'?
            dir/mixed.toml:6: array: there is no key 'seed' here; it belongs to the top of the
            file
            dir/mixed.toml:10: job 'reader': there is no key 'iodeph'; did you mean 'iodepth'?
            dir/mixed.toml:10: job 'reader': there is no key 'scheduler' here; it belongs to
            [array]
            dir/mixed.toml:8: there is no key 'jobs'; did you mean 'job'?
            dir/mixed.toml:10: fault 0: there is no key 'sloow'; did you mean 'slow'?
            dir/mixed.toml:6: array: leg 1: there is no key 'write_mosty'; did you mean
            'write_mostly'?
            dir/mixed.toml:11: model 'a': there is no key 'sise'; did you mean 'size'?
        "#]],
    );
}

#[test]
fn values_that_make_no_sense_are_named_with_their_line() {
    check_changes(
        &[
            ("seconds = 1", "seconds = 'soon'"),
            ("seconds = 1", "seconds = -1"),
            ("seconds = 1", "seconds = 1e300"),
            ("seconds = 1", "seconds = 99999999999"),
            ("seconds = 1", "seconds = 1\nseed = -1"),
            ("seconds = 1", "seconds = 1\nseed = 18446744073709551616"),
            (
                "seconds = 1",
                "seconds = 1\nseed = 99999999999999999999999999999999999999999",
            ),
            ("name = \"good\"", "name = ''"),
            ("name = \"good\"", "name = 1979-05-27"),
            ("legs =", "level = 'raid5'\nlegs ="),
            ("legs =", "size = '1 furlong'\nlegs ="),
            ("legs =", "size = 1000\nlegs ="),
            ("legs =", "scheduler = 'unfair'\nlegs ="),
            ("legs =", "policies = ['pid', 'nonsense']\nlegs ="),
            ("legs =", "policies = ['devid:3']\nlegs ="),
            ("legs =", "policies = 3\nlegs ="),
        ],
        &expect![[r#"
            dir/mixed.toml:3: seconds: 'soon' is no length of time: a number of seconds, or of
            ms, us or ns with its unit, up to 1000000000 s
            dir/mixed.toml:3: seconds: '-1' is no length of time: a number of seconds, or of ms,
            us or ns with its unit, up to 1000000000 s
            dir/mixed.toml:3: seconds: 1e300 is no number to reckon with
            dir/mixed.toml:3: seconds: '99999999999' is no length of time: a number of seconds,
            or of ms, us or ns with its unit, up to 1000000000 s
            dir/mixed.toml:4: seed: '-1' is not a whole number from 0 to 18446744073709551615
            dir/mixed.toml:4: seed: '18446744073709551616' is not a whole number from 0 to
            18446744073709551615
            dir/mixed.toml:4: seed: 99999999999999999999999999999999999999999 is too large a
            number
            dir/mixed.toml:2: name: a name has letters, all on one line
            dir/mixed.toml:2: name: this is a date; a number or a string is wanted
            dir/mixed.toml:6: array: level: 'raid5' is neither raid1 nor raid10
            dir/mixed.toml:6: array: size: '1 furlong' is not a size: a number, then nothing, k,
            m, g, t, KiB, MiB, GiB, TiB (powers of 1024) or kB, MB, GB, TB (powers of 1000)
            dir/mixed.toml:6: array: size: '1000' is less than 4KiB
            dir/mixed.toml:6: array: scheduler: there is no scheduler 'unfair'. Valid are: none,
            deadline, fair, none-2014
            dir/mixed.toml:6: array: policies: there is no read policy 'nonsense'. Valid are:
            pid, round-robin, latency, latency-rr, queue, queue-adaptive, device, roundrobin,
            roundrobin-jain, latency-lifetime, stripe, zol-load, zfs-bonus, zfs, md,
            gmirror-load, gmirror-split, spdk, drbd-least-pending, hst, service-time, bcachefs,
            p2c, prequal, adaptive, devid
            dir/mixed.toml:6: array: policies: the array has no leg number 3; counted from 1, it
            has 1, 2
            dir/mixed.toml:6: array: policies: a list is wanted, as in policies = ["pid",
            "queue"]
        "#]],
    );
}

#[test]
fn legs_and_jobs_that_make_no_sense_are_named_with_their_line() {
    check_changes(
        &[
            ("[\"ram\", \"ram\"]", "'ram'"),
            ("[\"ram\", \"ram\"]", "[]"),
            ("[\"ram\", \"ram\"]", "['ram', 3]"),
            ("[\"ram\", \"ram\"]", "['hdd-7200']"),
            ("[\"ram\", \"ram\"]", "['ram', ['ram']]"),
            ("[\"ram\", \"ram\"]", "['ram', { size = '1g' }]"),
            ("\"randread\"", "'randwalk'"),
            ("\"randread\"", "['randread']"),
            ("\"randread\"", "'read'\nbs = 1000"),
            ("\"randread\"", "'read'\niodepth = 1.5"),
            ("\"randread\"", "'read'\nsize = '2GiB'"),
            ("\"randread\"", "'read'\niodepth = 65536\nnumjobs = 17"),
            ("legs =", "size = '8388608TiB'\nlegs ="),
            ("legs =", "size = '512TiB'\nlegs ="),
            ("rw =", "bs ="),
        ],
        &expect![[r#"
            dir/mixed.toml:6: array: legs: a list is wanted, as in legs = ["ram", "ram"]
            dir/mixed.toml:5: array: there are no legs: name drives, as in legs = ["ram", "ram"]
            dir/mixed.toml:6: array: leg 1: there is no drive '3': there are hdd-7200-2tb,
            hdd-7200-1tb, hdd-5400-old, ssd-sata-256gb, ssd-sata-1tb, nvme-gen3, nvme-gen4,
            net-ssd, ram
            dir/mixed.toml:6: array: leg 0: there is no drive 'hdd-7200'; did you mean
            'hdd-7200-2tb'?
            dir/mixed.toml:6: array: leg 1: this is a list; one value is wanted
            dir/mixed.toml:6: array: leg 1: there is no model, as in { model = "ram",
            write_mostly = true }
            dir/mixed.toml:10: job 'reader': rw: 'randwalk' is none of read, write, randread,
            randwrite, randrw, rw
            dir/mixed.toml:10: job 'reader': rw: this is a list; one value is wanted
            dir/mixed.toml:11: job 'reader': bs, offset and offset_increment must be multiples
            of 512
            dir/mixed.toml:11: job 'reader': iodepth: '1.5' is not a whole number from 1 to
            65536
            dir/mixed.toml:11: job 'reader': offset and size: its region ends beyond the array
            dir/mixed.toml:8: job 'reader': numjobs and iodepth: with it there are more than
            1048576 requests at once
            dir/mixed.toml:6: array: size: '8388608TiB' is more than 4096TiB
            dir/mixed.toml:5: array: size: '512TiB' is not from 512 to 256TiB
            dir/mixed.toml:10: job 'reader': bs: 'randread' is not a size: a number, then
            nothing, k, m, g, t, KiB, MiB, GiB, TiB (powers of 1024) or kB, MB, GB, TB (powers
            of 1000)
        "#]],
    );
}

#[test]
fn faults_layouts_and_models_that_make_no_sense_are_named_with_their_line() {
    check_changes(
        &[
            ("[[job]]", "[[fault]]\nleg = 2\ndead = true\n[[job]]"),
            ("legs =", "level = 'raid10'\nlayout = 'near'\nlegs ="),
            ("legs =", "level = 'raid10'\nchunk = '5k'\nlegs ="),
            ("legs =", "level = 'raid10'\nlayout = 'far=3'\nlegs ="),
            ("legs =", "level = 'raid1'\nlayout = 'near'\nlegs ="),
            ("legs =", "memory = 83886079\nlegs ="),
            ("legs =", "copies_chunk = '3MiB'\nlegs ="),
            ("legs =", "background = 'rebuild'\nlegs ="),
            ("legs =", "resync_max = '1MB/s'\nlegs ="),
            (
                "legs =",
                "background = 'resync'\nresync_min = '2MB/s'\nresync_max = '1MB/s'\nlegs =",
            ),
            (
                "legs =",
                "background = 'check'\ndata_offset = '1MiB'\nlegs =",
            ),
            ("seconds = 1", "first_client = -1"),
            ("[[job]]", "[[hba]]\nname = 'a'\n[[job]]"),
            ("[[job]]", "[[hba]]\nname = 'a'\nbw = '0MB/s'\n[[job]]"),
            ("\"ram\"]", "{ model = 'hdd-7200-2tb', spindle_rpm = 1 }]"),
            ("[[job]]", "[[fault]]\nleg = 0\n[[job]]"),
            ("[[job]]", "[[fault]]\ndead = true\n[[job]]"),
            (
                "[[job]]",
                "[[fault]]\nleg = 0\ndead = true\nat = '2s'\nuntil = '1s'\n[[job]]",
            ),
            ("[[job]]", "[[model]]\nname = 'a'\n[[job]]"),
            ("[[job]]", "[[model]]\nlike = 'ram'\n[[job]]"),
            ("[[job]]", "[[model]]\nname = 'a'\nfamily = 'tape'\n[[job]]"),
            ("[[job]]", "[[model]]\nname = 'a'\nlike = 'tape'\n[[job]]"),
        ],
        &expect![[r#"
            dir/mixed.toml:8: fault 0: leg: there is no leg 2; legs count from 0, the last one
            is 1
            dir/mixed.toml:7: array: layout: near: '' is not a whole number from 2 to 16
            dir/mixed.toml:7: array: chunk: a chunk of 5120 bytes; it must be a power of two
            from 4096 to 1073741824
            dir/mixed.toml:5: array: 3 copies on 2 legs; a layout takes 2 copies or more, each
            on a leg of its own
            dir/mixed.toml:7: array: layout: near: '' is not a whole number from 2 to 16
            dir/mixed.toml:6: array: memory: '83886079' is not from 80MiB to 4GiB
            dir/mixed.toml:6: array: copies_chunk: '3MiB' is no power of two from 4KiB to 1TiB
            dir/mixed.toml:6: array: background: 'rebuild' is neither resync nor check
            dir/mixed.toml:6: array: resync_max: there is no background work to be so fast
            dir/mixed.toml:6: array: resync_max is less than resync_min
            dir/mixed.toml:6: array: background: of legs without data_offset only
            dir/mixed.toml:3: first_client: '-1' is not a whole number from 0 to 4294967295
            dir/mixed.toml:8: hba 'a': it has a name, which legs call it by, and bw, as in bw =
            "600MB/s"
            dir/mixed.toml:10: hba 'a': bw: nothing would ever pass it
            dir/mixed.toml:6: array: leg 1: spindle_rpm: '1' is not a whole number from 60 to
            60000
            dir/mixed.toml:8: fault 0: it says not what goes wrong: slow, pause, stuck, error,
            dead, lost_write, torn_write, misdirected_write, bit_rot, flush_lies, power_cut,
            failed, added, replaced, told, scrub
            dir/mixed.toml:8: fault 0: leg is missing: which one, from 0
            dir/mixed.toml:8: fault 0: until is before at
            dir/mixed.toml:8: model 'a': say either which drive it is like, or of which family
            it is
            dir/mixed.toml:8: model '0': there is no name to call it by
            dir/mixed.toml:10: model 'a': family: 'tape' is none of hdd, flash, network, ram
            dir/mixed.toml:10: model 'a': there is no drive 'tape': there are hdd-7200-2tb,
            hdd-7200-1tb, hdd-5400-old, ssd-sata-256gb, ssd-sata-1tb, nvme-gen3, nvme-gen4,
            net-ssd, ram
        "#]],
    );
}

#[test]
fn files_that_are_no_scenario_are_refused() {
    check_errors(
        &[
            "",
            "# nothing but words\n",
            "name = 'x'",
            "array = 3",
            "[array]\n",
            "[array]\nlegs = ['ram']\n",
            "[array]\nlegs = ['ram']\n[job]\nrw = 'read'\n",
            "[array]\nlegs = ['ram']\n[[job]]\nrw = 'read'\nbackground = true\n",
            "[array]\nlegs = ['ram']\n[[job]]\nrw = 'read'\nrw = 'write'\n",
            "seconds = 1\n\nseconds = 2\n",
            "[array\n",
            "a b c\n",
            "name = \"x\n",
            "\u{0}\u{1}\u{2}",
            "[array]\nlegs = ['ram']\n[array]\n",
        ],
        &expect![[r#"
            dir/mixed.toml: is empty: a scenario has an [array] and a [[job]]
            dir/mixed.toml: is empty: a scenario has an [array] and a [[job]]
            dir/mixed.toml: there is no [array]: it says which legs there are
            dir/mixed.toml:1: array: write [array] above its keys
            dir/mixed.toml:1: array: there are no legs: name drives, as in legs = ["ram", "ram"]
            dir/mixed.toml: there is no [[job]]
            dir/mixed.toml:3: write [[job]] above its keys
            dir/mixed.toml: no foreground job
            dir/mixed.toml:5: duplicate key: 'rw'
            dir/mixed.toml:3: duplicate key: 'seconds'
            dir/mixed.toml:1: unclosed table, expected `]`
            dir/mixed.toml:1: key with no value, expected `=`
            dir/mixed.toml:1: invalid basic string, expected `"`
            dir/mixed.toml:1: key with no value, expected `=`
            dir/mixed.toml:3: duplicate key: 'array'
        "#]],
    );
}

#[test]
fn jobs_of_fio_are_jobs() {
    let directory = std::env::temp_dir().join(format!("heliostat-fio-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let jobs = "[global]\nbs=8k\n[reader]\nrw=randread\nsize=1m\n[writer]\nrw=write\nsize=1m\n";
    std::fs::write(directory.join("jobs.fio"), jobs).unwrap();
    let text = "fio = 'jobs.fio'\n[array]\nlegs = ['ram']\n";
    let path = directory.join("scenario.toml");
    let file = ScenarioFile::parse(&path, text).unwrap();
    let told = ScenarioFile::parse(&path, &text.replace("jobs.fio", "none.fio"));
    let _ = std::fs::remove_dir_all(&directory);
    let names: Vec<&str> = file
        .scenario
        .jobs
        .iter()
        .map(|job| job.name.as_str())
        .collect();
    assert_eq!(names, ["reader", "writer"]);
    assert_eq!(file.scenario.jobs[0].bs_bytes, 8192);
    assert_eq!(file.scenario.seconds, Duration::ZERO);
    let told = told.unwrap_err().to_string();
    assert!(
        told.contains("scenario.toml:1: fio: none.fio: cannot be read"),
        "{told}"
    );
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let told = |path: &str| ScenarioFile::load(Path::new(path)).unwrap_err().to_string();
    assert!(told("/nowhere/at-all.toml").starts_with("/nowhere/at-all.toml: cannot be read: "));
    assert!(told("/").starts_with("/: cannot be read: "));
    assert_eq!(told("/dev/zero"), "/dev/zero: is too large for a scenario");
}

/// What random scenarios are written down as is read as the same scenarios.
#[test]
fn written_scenarios_are_read_as_what_they_were() {
    for seed in (0..40).chain(1_000..1_080) {
        check_written(&Trial::random(seed));
    }
}

#[test]
fn written_large_scenarios_are_read_as_what_they_were() {
    for seed in 1_000..1_010 {
        check_written(&Trial::large(seed));
    }
}

#[test]
fn written_lives_are_read_as_what_they_were() {
    for seed in 0..20 {
        check_written(&Trial::life(seed));
    }
}

fn check_written(trial: &Trial) {
    let text = trial.to_text("A random scenario.");
    let file = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(file.description.starts_with("A random scenario."));
    let mut scenario = file.scenario;
    let policy = file.policies[0].policy();
    assert_eq!(
        scenario.to_text(&policy),
        trial.scenario.to_text(&trial.policy)
    );
    scenario.fidelity = trial.scenario.fidelity;
    let again = Trial { scenario, policy };
    let hash = |trial: &Trial| {
        let played = trial.play(false);
        played.map(|result| (result.trace_hash, result.event_count))
    };
    assert_eq!(hash(&again), hash(trial), "{text}");
}

/// Keys that a scenario may have, most of them at the wrong place.
const KEYS: &str = "name seconds warmup_seconds seed array level layout chunk size legs copies \
    policies scheduler job rw bs iodepth numjobs direct offset leg at until slow dead like model \
    memory leg_timeout start stop rate_iops error bssplit family fio trace hba device bw \
    background resync_min resync_max data_offset";

/// Values that they may have, parted by bars.
const VALUES: &str = "1|-1|0|18446744073709551615|1e308|-0.0|nan|'4k'|'ram'|['ram', 'ram']|[[]]|\
    [{ model = 'ram' }]|{}|true|'1s'|'-1s'|'99999999999999999999s'|'read'|'raid10'|'near=2'|''|\
    'all'|['pid']|9223372036854775807|'8388608TiB'|'0'|0.001|1979-05-27|'flash'|'cloud\tdisk'";

/// Lines that a scenario may have, most of them wrong somewhere.
fn line() -> impl Strategy<Value = String> {
    let key = prop::sample::select(KEYS.split(' ').collect::<Vec<_>>());
    let value = prop::sample::select(VALUES.split('|').collect::<Vec<_>>());
    let headers = ["[array]", "[[job]]", "[[fault]]", "[[model]]", "[[hba]]"];
    prop_oneof![
        6 => (key, value).prop_map(|(key, value)| format!("{key} = {value}")),
        2 => prop::sample::select(headers.to_vec()).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_file_is_too_strange(
        good in any::<bool>(),
        lines in prop::collection::vec(line(), 0..12),
    ) {
        let mut text = if good { GOOD.to_owned() } else { String::new() };
        text.push_str(&lines.join("\n"));
        if let Err(told) = parse(&text) {
            assert!(told.starts_with("dir/mixed.toml:"), "{told}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// What is accepted can be run, however odd.
    #[test]
    fn what_passes_runs(lines in prop::collection::vec(line(), 0..4)) {
        let text = format!("{GOOD}{}", lines.join("\n"));
        if let Ok(file) = parse(&text) {
            let mut scenario = file.scenario;
            scenario.warmup_seconds = Duration::ZERO;
            scenario.seconds = Duration::from_us(20);
            let result = run(&scenario, &file.policies[0].policy(), &mut |_| ());
            // A trace that is named need not be there.
            let is_well = matches!(result, Ok(_) | Err(RunError::Scenario(_)));
            assert!(is_well, "{text}\n{result:?}");
        }
    }
}

/// A spare that has its copy before it was sent a first superblock as a leg: what it said as a
/// spare, that it is clean, is no word of the array's. Shrunk from seed 1795675720343.
const SPARE_AT_ONCE: &str = r#"
name = "supplied"
seconds = "1.457967936s"
warmup_seconds = "0ns"
seed = 1795675720343

[array]
size = "4KiB"
data_offset = "64KiB"
bitmap_chunk = "64KiB"
memory = "80MiB"
leg_timeout = "30s"
scheduler = "deadline"
policies = ["pid"]
legs = [
  { model = "ram", size = 2000398934016 },
  { model = "ram", size = 1000204886016 },
  { model = "ram", size = 2000398934016, operation_time = "1ms" },
  { model = "hdd-7200-2tb" },
  { model = "ram", part = "spare", size = 256060514304 },
]

[[job]]
name = "burst"
rw = "randwrite"
bs = 512
size = "4KiB"
readahead = "8KiB"

[[fault]]
leg = 0
at = "1.440327s"
error = "write"

[[fault]]
leg = 1
at = "1.451245s"
error = "write"

[[fault]]
at = "0ns"
until = "26.892ms"
power_cut = true
"#;

#[test]
fn a_spare_is_believed_by_what_it_says_as_a_leg() {
    let file = parse(SPARE_AT_ONCE).unwrap();
    let policy = file.policies[0].policy();
    if let Err(error) = run(&file.scenario, &policy, &mut |_| ()) {
        panic!("{error}");
    }
}
