//! What the legs of a scenario are made of: devices with their faults, bytes, luck.

use std::collections::BTreeMap;

use heliostat_engine::Map;
use heliostat_model::{CachedDevice, DeviceModel, FaultRule, FaultyDevice};
use heliostat_types::{Extent, Instant, LegId, Prng, RandomStream};

use crate::leg::SimLeg;
use crate::leg_spec::Part;
use crate::medium::Medium;
use crate::metadata::Formatted;
use crate::scenario::Scenario;
use crate::sharing::{Linked, Partition, shared_link};
use crate::store::Store;

/// The legs before the first moment.
pub(crate) fn build_legs(scenario: &Scenario, map: &Map) -> Vec<SimLeg> {
    let array = &scenario.array;
    let begins_at = Instant::ZERO + scenario.warmup_seconds;
    let mut legs = Vec::new();
    for (index, (model, luck)) in build_devices(scenario, map).into_iter().enumerate() {
        let spec = &array.legs[index];
        let data_offset_bytes = array.data_offset_bytes();
        // What is no leg yet is in nobody's place, and has no data.
        let is_leg = spec.part == Part::Leg;
        let place = LegId::new(if is_leg { index } else { 0 });
        let mut store =
            Store::new(map.clone(), place, scenario.fidelity).with_data_at(data_offset_bytes);
        if !is_leg {
            store.become_another(place);
        }
        let made = array.metadata.map(|_| {
            let formatted = Formatted::new(scenario, map, index);
            if spec.part != Part::Nothing {
                formatted.write(&mut store);
            }
            Box::new(formatted.superblock)
        });
        let used_bytes = data_offset_bytes + map.leg_bytes(place);
        let medium = Medium::new(
            scenario.faults.iter(),
            (index, used_bytes.max(4096)),
            begins_at,
            model.spec(),
            luck.clone().next_u64(),
        );
        let mut leg = SimLeg::new(model, store, luck, &spec.model);
        leg.device = index;
        let luck = RandomStream::new(scenario.seed, "trims", index as u64).below(4);
        leg.trims_to_zeros = !array.trims || luck > 0;
        leg.made = made;
        leg.medium = medium.map(Box::new);
        leg.is_shared = !spec.device.is_empty();
        legs.push(leg);
    }
    legs
}

/// The device of each leg, with its faults, and its luck.
fn build_devices(scenario: &Scenario, map: &Map) -> Vec<(Box<dyn DeviceModel>, RandomStream)> {
    let array = &scenario.array;
    let mut links = BTreeMap::new();
    for hba in &array.hbas {
        links.insert(&hba.name, shared_link(hba.bw_bytes_per_s));
    }
    let mut devices: Vec<Option<Box<dyn DeviceModel>>> = array.legs.iter().map(|_| None).collect();
    let mut lucks = Vec::new();
    for (index, spec) in array.legs.iter().enumerate() {
        let mut luck = RandomStream::new(scenario.seed, "leg", index as u64);
        if devices[index].is_none() {
            let parts = array.partitions(map, index);
            let drive = build_drive(scenario, &parts, &mut luck);
            if spec.device.is_empty() {
                devices[index] = Some(drive);
            } else {
                let extents: Vec<Extent> = parts.iter().map(|(_, part)| *part).collect();
                let cut = Partition::cut(drive, &extents);
                for ((leg, _), partition) in parts.iter().zip(cut) {
                    devices[*leg] = Some(Box::new(partition));
                }
            }
        }
        lucks.push(luck);
    }
    let made = devices.into_iter().zip(lucks).zip(&array.legs);
    made.map(|((device, luck), spec)| {
        let device = device.expect("every leg has a device");
        match links.get(&spec.hba) {
            Some(link) => {
                let linked = Linked::new(device, link.clone(), luck.clone());
                (Box::new(linked) as Box<dyn DeviceModel>, luck)
            }
            None => (device, luck),
        }
    })
    .collect()
}

/// One drive with the faults of all legs that lie on it, which are those of `parts`.
fn build_drive(
    scenario: &Scenario,
    parts: &[(usize, Extent)],
    luck: &mut RandomStream,
) -> Box<dyn DeviceModel> {
    let begins_at = Instant::ZERO + scenario.warmup_seconds;
    let spec = &scenario.array.legs[parts[0].0];
    let mut model: Box<dyn DeviceModel> = spec.params.build(luck);
    if spec.cache.hit_permille > 0 {
        model = Box::new(CachedDevice::new(model, spec.cache, luck));
    }
    let rules: Vec<FaultRule> = scenario
        .faults
        .iter()
        .filter_map(|fault| {
            let (_, part) = parts.iter().find(|(leg, _)| fault.leg == Some(*leg))?;
            fault.rule(begins_at, (!spec.device.is_empty()).then_some(*part))
        })
        .collect();
    if !rules.is_empty() {
        model = Box::new(FaultyDevice::new(model, rules, luck.clone().next_u64()));
    }
    model
}
