//! What a random array is like.

use heliostat_engine::{
    ArrayRecord, Config, CopyOrder, Layout, LegConfig, LegState, Map, Place, Raid10, SchedulerPlace,
};
use heliostat_policy::ReadPolicy;
use heliostat_scheduler::{FlowLimits, SCHEDULERS, SchedulerSpec};
use heliostat_types::{Duration, FlowId, LegId, LegSet, Prng, RandomStream};

use super::{Odds, Size};
use crate::fill::{Fill, index};
use crate::meta::Meta;
use crate::policies::{Eager, First, Random, Rotate, Split};
use crate::world::Setup;

pub(super) fn policy(
    dice: &mut RandomStream,
    from_the_start: bool,
    odds: Odds,
) -> Box<dyn ReadPolicy> {
    if odds.hedges || odds.prefetches {
        return Box::new(Eager {
            hedges: odds.hedges,
            prefetches: odds.prefetches,
            drawn: dice.next_u64(),
        });
    }
    match dice.below(4) {
        0 => Box::new(First),
        1 => Box::new(Rotate::default()),
        2 => Box::new(Random::new(from_the_start)),
        _ => Box::new(Split),
    }
}

/// Any scheduler there is, as it is untuned, but that it may look at few requests.
pub(super) fn scheduler(dice: &mut RandomStream) -> SchedulerSpec {
    let (name, _) = SCHEDULERS[index(dice.below(SCHEDULERS.len() as u64))];
    let mut spec = SchedulerSpec::parse(name).expect("it is one of those that there are");
    if matches!(spec, SchedulerSpec::Deadline(_)) {
        let looked_at = dice.below(16).saturating_sub(7).to_string();
        let set = spec.set("nr_requests", &looked_at);
        set.expect("it takes 0 to 8");
    }
    spec
}

/// Any weight of a flow, and caps that are reached now and then.
pub(super) fn limits(dice: &mut RandomStream) -> (FlowId, FlowLimits) {
    let flow = FlowId(u32::try_from(dice.below(3)).expect("there are three"));
    let limits = FlowLimits {
        weight: 1 << dice.below(10),
        iops_max: [0, 20_000][index(dice.below(2))],
        bytes_per_s_max: [0, 100_000_000][index(dice.below(2))],
    };
    (flow, limits)
}

fn random_leg(dice: &mut RandomStream) -> LegConfig {
    LegConfig {
        state: LegState::InSync,
        data_offset_bytes: 0,
        rotational: dice.below(2) == 0,
        caches_writes: false,
        write_mostly: dice.below(5) == 0,
        failfast: false,
        read_preferred: dice.below(5) == 0,
        queue_depth: [1, 2, 8, 64][index(dice.below(4))],
        optimal_io_bytes: [0, 65_536][index(dice.below(2))],
        fua: dice.below(3) > 0,
        trim_reads_zeros: dice.below(4) > 0,
        fast_zero: dice.below(4) > 0,
    }
}

pub(super) fn random_setup(seed: u64, odds: Odds, size: Size, dice: &mut RandomStream) -> Setup {
    let block_bytes = [512, 4096][index(dice.below(2))];
    let count = 1 + dice.below(size.legs);
    let mut legs: Vec<LegConfig> = (0..count).map(|_| random_leg(dice)).collect();
    let write_behind = if odds.write_behind {
        for leg in &mut legs {
            leg.write_mostly = dice.below(2) == 0;
            leg.failfast = dice.below(4) == 0;
        }
        [1, 2, 7, 256][index(dice.below(4))]
    } else {
        0
    };
    // Sometimes the last chunk is not whole.
    let size_bytes = size.array_bytes - dice.below(3) * u64::from(block_bytes);
    let map = if odds.grow > 0 || odds.write_behind && dice.below(8) > 0 {
        Map::mirror(legs.len(), size_bytes)
    } else {
        random_map(dice, legs.len(), size_bytes, odds.metadata)
    };
    let mut faulted = LegSet::EMPTY;
    if count > 1 && dice.below(8) == 0 {
        let absent = index(dice.below(count));
        let left = LegSet::first(legs.len()).difference(LegSet::from_iter([LegId::new(absent)]));
        if map.is_covered_by(left) {
            legs[absent].state = [LegState::Faulted, LegState::Missing][index(dice.below(2))];
            faulted.insert(LegId::new(absent));
        }
    }
    let leg_timeout = if odds.silence > 0 {
        Duration::from_ms(20)
    } else {
        Config::LEG_TIMEOUT_DEFAULT
    };
    let meta = odds.metadata.then(|| random_meta(dice, odds));
    if let Some(meta) = meta {
        let room_bytes = meta.room_bytes(size_bytes).next_multiple_of(4096);
        for leg in &mut legs {
            leg.data_offset_bytes = room_bytes + dice.below(4) * 4096;
        }
    }
    if odds.replace + odds.grow > 0 {
        // One more, in whose place others are put that are to replace one.
        let data_offset_bytes = legs[0].data_offset_bytes;
        legs.push(LegConfig {
            state: LegState::Missing,
            data_offset_bytes,
            ..random_leg(dice)
        });
    }
    Setup {
        repairs: true,
        seed,
        size_bytes,
        map: Some(map),
        block_bytes,
        memory_bytes: Config::MEMORY_MIN_BYTES,
        leg_timeout,
        clean_delay: Duration::from_us([100, 2_000, 200_000][index(dice.below(3))]),
        write_behind,
        scheduler: SchedulerSpec::None,
        scheduler_on: SchedulerPlace::Legs,
        hedges_permille: [30, 1000][usize::from(odds.hedges)],
        accounting: dice.below(2) == 0,
        legs,
        fill: [Fill::Zeros, Fill::Pattern(0)][index(dice.below(2))],
        record: ArrayRecord {
            generation: dice.below(100),
            dirty: dice.below(8) == 0,
            faulted,
        },
        meta,
    }
}

fn random_meta(dice: &mut RandomStream, odds: Odds) -> Meta {
    let chunks = [None, Some(512), Some(4096), Some(4096), Some(16_384)];
    Meta {
        chunk_bytes: chunks[index(dice.below(5))],
        daemon_sleep_seconds: 1 + u32::try_from(dice.below(2)).unwrap(),
        events: 10 + dice.below(100),
        has_log: odds.stuck > 0,
    }
}

/// A mirror, a layout of RAID10, or chunks all over the place.
fn random_map(dice: &mut RandomStream, legs: usize, size_bytes: u64, is_md: bool) -> Map {
    // Of an array of 128 KiB some chunks, of a large one not too many.
    let chunk_bytes = (4096 << dice.below(4))
        .max(size_bytes / 1024)
        .next_power_of_two();
    let copies = 1 + dice.below(legs as u64);
    let orders = [CopyOrder::Near, CopyOrder::Far, CopyOrder::Offset];
    match dice.below(5) {
        0 => Map::mirror(legs, size_bytes),
        // No array of md is like that.
        1 if is_md => Map::mirror(legs, size_bytes),
        1 => random_table(dice, legs, size_bytes.div_ceil(chunk_bytes), chunk_bytes),
        _ if copies < 2 => Map::mirror(legs, size_bytes),
        _ => {
            let raid10 = Raid10 {
                order: orders[index(dice.below(3))],
                copies: u32::try_from(copies).expect("no more than legs"),
                chunk_bytes,
            };
            let map = Map::for_size(Layout::Raid10(raid10), legs, size_bytes);
            map.expect("as many copies as legs or fewer")
        }
    }
}

/// Each chunk on legs drawn for it, on each of them somewhere behind the ones before.
fn random_table(dice: &mut RandomStream, legs: usize, chunks: u64, chunk_bytes: u64) -> Map {
    let copies = 1 + index(dice.below(legs as u64));
    let mut ends = vec![0; legs];
    let mut places = Vec::new();
    for _ in 0..chunks {
        let mut left: Vec<usize> = (0..legs).collect();
        for _ in 0..copies {
            let leg = left.swap_remove(index(dice.below(left.len() as u64)));
            let address = ends[leg] + dice.below(3) * 4096;
            ends[leg] = address + chunk_bytes;
            let leg = LegId::new(leg);
            places.push(Place { leg, address });
        }
    }
    Map::table(legs, chunk_bytes, copies, places).expect("each place is behind the one before")
}
