//! Numbers for files, the same ones as long as the array is served.

use heliostat_runtime::{ControlNode, DeviceFile};

/// Those that are there once, from 1 on, which is the root's number for the kernel.
const SINGLE: [ControlNode; 8] = [
    ControlNode::Root,
    ControlNode::ReadPolicy,
    ControlNode::StatsJson,
    ControlNode::ReadPolicies,
    ControlNode::Policy,
    ControlNode::Devices,
    ControlNode::Volume,
    ControlNode::Scheduler,
];

/// Where the tunables begin; more than there are.
const TUNABLES: u64 = 1 << 16;

/// Where the legs begin, each with as many numbers as it has files and more.
const DEVICES: u64 = 1 << 32;
const DEVICE_NUMBERS: u64 = 1 << 8;

/// The number of a node.
pub(crate) fn number(node: ControlNode) -> u64 {
    match node {
        ControlNode::Tunable(at) => TUNABLES + at as u64,
        ControlNode::Device(role) => device(role),
        ControlNode::DeviceFile(role, file) => {
            let at = DeviceFile::ALL.iter().position(|other| *other == file);
            device(role) + 1 + at.expect("all are there") as u64
        }
        ControlNode::Root
        | ControlNode::ReadPolicy
        | ControlNode::Scheduler
        | ControlNode::StatsJson
        | ControlNode::Volume
        | ControlNode::ReadPolicies
        | ControlNode::Policy
        | ControlNode::Devices => {
            let at = SINGLE.iter().position(|other| *other == node);
            1 + at.expect("all are there") as u64
        }
    }
}

fn device(role: usize) -> u64 {
    DEVICES + role as u64 * DEVICE_NUMBERS
}

/// The node of a number.
pub(crate) fn node(number: u64) -> Option<ControlNode> {
    if number < TUNABLES {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        return SINGLE.get(at).copied();
    }
    if number < DEVICES {
        return usize::try_from(number - TUNABLES)
            .ok()
            .map(ControlNode::Tunable);
    }
    let role = usize::try_from((number - DEVICES) / DEVICE_NUMBERS).ok()?;
    let at = usize::try_from((number - DEVICES) % DEVICE_NUMBERS).ok()?;
    match at.checked_sub(1) {
        None => Some(ControlNode::Device(role)),
        Some(at) => {
            let file = *DeviceFile::ALL.get(at)?;
            Some(ControlNode::DeviceFile(role, file))
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_runtime::{ControlNode, DeviceFile};

    use super::{SINGLE, node, number};

    #[test]
    fn each_node_has_a_number_of_its_own() {
        let devices = [0, 1, 15, 16].into_iter().flat_map(|role| {
            let files = DeviceFile::ALL.map(|file| ControlNode::DeviceFile(role, file));
            [ControlNode::Device(role)].into_iter().chain(files)
        });
        let tunables = [0, 1, 60].map(ControlNode::Tunable);
        let all: Vec<ControlNode> = SINGLE.into_iter().chain(tunables).chain(devices).collect();
        for &one in &all {
            assert_eq!(node(number(one)), Some(one));
        }
        assert_eq!(number(ControlNode::Root), 1);
    }

    #[test]
    fn other_numbers_are_nobodys() {
        for wrong in [0, 9, u64::MAX - (1 << 8) + 200] {
            assert_eq!(node(wrong), None, "{wrong}");
        }
    }
}
