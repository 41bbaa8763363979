//! What an engine is told of the array of a scenario.

use heliostat_engine::{Config, LegConfig, LegState, Map};

use crate::leg::SimLeg;
use crate::scenario::Scenario;

/// What an engine of this array is told, with these devices in the places of its legs.
pub(crate) fn engine_config(scenario: &Scenario, map: Map, legs: &[SimLeg]) -> Config {
    let array = &scenario.array;
    let specs = legs.iter().map(SimLeg::spec);
    let roles = array.roles();
    Config {
        size_bytes: match array.metadata {
            // As its legs say, which may be more than anybody uses.
            Some(_) => map.size_bytes(),
            None => array.size_bytes,
        },
        map,
        block_bytes: specs
            .clone()
            .map(|spec| spec.logical_block_bytes)
            .max()
            .expect("an array has a leg"),
        memory_bytes: array.memory_bytes,
        leg_timeout: array.leg_timeout,
        clean_delay: Config::CLEAN_DELAY_DEFAULT,
        repairs: true,
        write_behind: array.write_behind,
        hedges_permille: Config::HEDGES_PERMILLE_DEFAULT,
        accounting: true,
        scheduler: array.scheduler,
        scheduler_on: array.scheduler_on,
        client_timeout: Config::CLIENT_TIMEOUT_DEFAULT,
        // Where there are devices that are no legs, one of them can replace a leg.
        legs: specs
            .zip(legs.iter().map(|leg| &array.legs[leg.device]))
            .take(roles + 1)
            .enumerate()
            .map(|(place, (spec, leg))| LegConfig {
                state: if place < roles {
                    LegState::InSync
                } else {
                    LegState::Missing
                },
                data_offset_bytes: array.data_offset_bytes(),
                rotational: leg.rotational.unwrap_or(spec.rotational),
                caches_writes: spec.volatile_cache,
                write_mostly: leg.write_mostly,
                failfast: false,
                read_preferred: leg.read_preferred,
                queue_depth: spec.queue_depth,
                optimal_io_bytes: spec.optimal_io_bytes,
                fua: true,
                trim_reads_zeros: true,
                fast_zero: false,
            })
            .collect(),
        metadata: None,
    }
}
