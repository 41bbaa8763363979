//! Who may have how much, step by step.

use heliostat_engine::Input;
use heliostat_scheduler::FlowLimits;
use heliostat_types::{Duration, Extent, FlowId, Instant};

use super::{MIB, block, world};
use crate::policies::First;
use crate::world::{Outcome, Setup, World};

/// The three flows that the clients of these worlds have.
const FLOWS: u32 = 3;

fn limit_all(world: &mut World, limits: FlowLimits) {
    for flow in (0..FLOWS).map(FlowId) {
        world.input(Input::SetFlow { flow, limits });
    }
}

/// Ends all that the legs have, and lets time pass, until then. How many requests were answered.
fn run_until(world: &mut World, until: Instant) -> usize {
    let before = world.asked.len();
    loop {
        while !world.pending.is_empty() {
            world.complete(0, Outcome::Good);
        }
        match world.engine.next_deadline() {
            Some(at) if at <= until => {
                world.advance(at.saturating_since(world.now));
                world.tell_deadline();
            }
            Some(_) | None => return before - world.asked.len(),
        }
    }
}

#[test]
fn a_cap_holds_and_goes() {
    let mut world = world(2);
    let capped = FlowLimits {
        iops_max: 100,
        ..FlowLimits::DEFAULT
    };
    limit_all(&mut world, capped);
    for at in 0..3600 {
        world.read(block(at % 16));
    }
    // Three flows for ten seconds, within 2 %.
    let end = Instant::ZERO + Duration::from_secs(10);
    let answered = run_until(&mut world, end);
    assert!((2_940..=3_060).contains(&answered), "{answered}");
    assert!(
        !world.engine.is_idle(),
        "requests that wait are not forgotten"
    );
    limit_all(&mut world, FlowLimits::DEFAULT);
    assert_eq!(run_until(&mut world, end), 3600 - answered);
    world.settle();
}

#[test]
fn bytes_are_capped_as_well() {
    let mut world = world(1);
    let capped = FlowLimits {
        bytes_per_s_max: 409_600,
        ..FlowLimits::DEFAULT
    };
    limit_all(&mut world, capped);
    for at in 0..600 {
        world.read(Extent::new(at % 8 * 4096, 4096));
    }
    let answered = run_until(&mut world, Instant::ZERO + Duration::from_secs(1));
    assert!((294..=309).contains(&answered), "{answered}");
    limit_all(&mut world, FlowLimits::DEFAULT);
    world.settle();
}

#[test]
fn nobody_with_a_cap_has_all_of_the_memory() {
    let setup = Setup {
        size_bytes: 40 * MIB,
        ..Setup::legs(1)
    };
    let mut world = World::new(setup, Box::new(First));
    let capped = FlowLimits {
        iops_max: 100,
        ..FlowLimits::DEFAULT
    };
    limit_all(&mut world, capped);
    let taken = |world: &mut World, flow: u32| {
        let extent = Extent::new(0, MIB);
        let mut count = 0;
        while world.engine.alloc_write(FlowId(flow), extent).is_some() {
            count += 1;
        }
        count
    };
    // A third of some 75 MiB, then a third of the rest, and so on.
    let counts = [0, 1, 2].map(|flow| taken(&mut world, flow));
    assert!((23..=26).contains(&counts[0]), "{counts:?}");
    assert!((15..=18).contains(&counts[1]), "{counts:?}");
    assert!((10..=12).contains(&counts[2]), "{counts:?}");
    // Who has no cap takes what there is; who has one none before it gives some back.
    let large = Extent::new(0, 16 * MIB);
    assert!(world.engine.alloc_write(FlowId(0), block(0)).is_none());
    assert!(world.engine.alloc_write(FlowId(9), large).is_some());
}
