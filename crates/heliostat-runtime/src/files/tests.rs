use heliostat_engine::LegStats;
use heliostat_policy::Checkpoint;
use heliostat_types::Duration;

use crate::files::{ControlNode, DeviceFile, FileError, read_stats};
use crate::rig::{Rig, memory_options};
use crate::scratch::Scratch;

fn all(rig: &Rig, directory: ControlNode) -> Vec<ControlNode> {
    let inside = rig.handle.list_files(directory).unwrap();
    let deeper = inside.iter().filter(|node| node.is_directory());
    let deeper: Vec<_> = deeper.flat_map(|node| all(rig, *node)).collect();
    inside.into_iter().chain(deeper).collect()
}

#[test]
fn each_file_has_a_name_of_its_own_and_shows_a_line() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    let nodes = all(&rig, ControlNode::Root);
    for node in &nodes {
        let twins = nodes
            .iter()
            .filter(|other| other.parent() == node.parent() && other.name() == node.name());
        assert_eq!(twins.count(), 1, "{node:?}");
        let inside = rig.handle.list_files(node.parent()).unwrap();
        assert!(inside.contains(node), "{node:?}");
        if !node.is_directory() && *node != ControlNode::Volume {
            let text = rig.handle.show_file(*node).unwrap();
            assert_eq!(text.find('\n'), Some(text.len() - 1), "{node:?}");
        }
    }
    rig.stop();
}

#[test]
fn tunables_of_2021_keep_their_names_and_others_begin_with_their_policys() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    let inside = rig.handle.list_files(ControlNode::ReadPolicies).unwrap();
    let names: Vec<String> = inside.into_iter().map(ControlNode::name).collect();
    for name in [
        "policy",
        "roundrobin_nonlocal_inc_mixed_only",
        "roundrobin_nonrot_nonlocal_inc",
        "roundrobin_rot_nonlocal_inc",
        "round_robin_min_contig_read",
        "queue_tie",
    ] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    rig.stop();
}

#[test]
fn tunables_are_kept_whether_their_policy_is_active_or_not() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    let inside = rig.handle.list_files(ControlNode::ReadPolicies).unwrap();
    let file = |name: &str| {
        let mut inside = inside.iter();
        *inside.find(|node| node.name() == name).unwrap()
    };
    let (tie, margin) = (file("queue_tie"), file("latency_rr_margin_percent"));
    rig.handle
        .store_file(ControlNode::ReadPolicy, "queue\n")
        .unwrap();
    rig.handle.store_file(tie, "rotate\n").unwrap();
    rig.handle.store_file(margin, "150\n").unwrap();
    assert_eq!(rig.handle.stats().unwrap().policy, "queue:tie=rotate");
    rig.handle.store_file(ControlNode::Policy, "pid").unwrap();
    rig.crash();

    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    assert_eq!(rig.handle.stats().unwrap().policy, "pid");
    assert_eq!(rig.handle.show_file(tie).unwrap(), "rotate\n");
    assert_eq!(rig.handle.show_file(margin).unwrap(), "150\n");
    rig.stop();
}

#[test]
fn what_makes_no_sense_is_told_from_what_cannot_be_done() {
    let scratch = Scratch::new();
    let rig = Rig::start(&memory_options(&scratch)).unwrap();
    let told = |node, text| rig.handle.store_file(node, text).unwrap_err();
    let preferred = |role| ControlNode::DeviceFile(role, DeviceFile::ReadPreferred);
    for (node, text) in [
        (ControlNode::ReadPolicy, "no-such"),
        (preferred(0), "perhaps"),
        (ControlNode::DeviceFile(0, DeviceFile::State), "faulted"),
        (ControlNode::StatsJson, "{}"),
        (ControlNode::Root, ""),
    ] {
        assert!(
            matches!(told(node, text), FileError::Invalid(_)),
            "{node:?}"
        );
    }
    assert_eq!(told(preferred(9), "1"), FileError::Gone);
    assert_eq!(told(ControlNode::Tunable(9999), "1"), FileError::Gone);
    rig.handle.store_file(preferred(1), "1").unwrap();
    assert_eq!(rig.handle.show_file(preferred(1)).unwrap(), "1\n");
    assert_eq!(rig.handle.show_file(preferred(0)).unwrap(), "0\n");
    rig.stop();
}

#[test]
fn a_checkpoint_is_told_where_the_policy_goes_by_one() {
    let mut stats = LegStats {
        age: 7,
        ignored: 9,
        ..LegStats::default()
    };
    let nothing = "cumulative ios 0 wait 0 avg 0 checkpoint ios 0 wait 0 avg 0";
    assert_eq!(
        read_stats(&stats),
        format!("{nothing} age 7 count 0 ignored 9")
    );
    stats.checkpoint = Some(Checkpoint {
        reads: 3,
        wait: Duration::from_ns(1_000),
        age: -98,
        count: 2,
    });
    assert_eq!(
        read_stats(&stats),
        "cumulative ios 0 wait 0 avg 0 checkpoint ios 3 wait 1000 avg 333 age -98 count 2 ignored 9"
    );
}
