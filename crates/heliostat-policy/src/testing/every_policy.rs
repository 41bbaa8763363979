//! What holds for every policy, whatever happens.

use heliostat_types::{
    ClientId, Duration, Extent, Instant, LEGS_MAX, LegId, LegSet, OpKind, RandomStream, StreamId,
};
use proptest::prelude::{
    Just, Strategy, TestCaseError, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use crate::api::{LegView, Observes, OpView, ReadPlan, ReadPolicy, ReadRequest};
use crate::beliefs::{FactValue, LegBeliefs, Weight};
use crate::registry::all_policies;
use crate::spec::{ArrayInfo, PolicySpec};
use crate::testing::{Mirror, idle_view};
use crate::tunable::{Tunable, TunableKind};

/// Something that happens to a policy.
#[derive(Clone, Debug)]
enum Event {
    Read {
        after: Duration,
        client: u64,
        extent: Extent,
        legs: Vec<LegView>,
    },
    Dispatch(OpView),
    Complete(OpView, Duration, bool),
    LegState(LegId, bool),
    Reset(Option<LegId>),
    /// It is looked at: what is asked for people only, and the tunables that it has set again.
    Look,
}

fn any_leg() -> impl Strategy<Value = LegId> {
    (0..LEGS_MAX).prop_map(LegId::new)
}

/// Small numbers mostly, so that legs tie, and the largest now and then.
fn any_count() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..4u32, 1 => 0..u32::MAX / 2]
}

fn any_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![4 => (0..64u64).prop_map(|blocks| blocks * 4096), 1 => 0..u64::MAX / 2]
}

fn any_extent() -> impl Strategy<Value = Extent> {
    (any_bytes(), any_bytes()).prop_map(|(offset, len)| Extent::new(offset, len.max(1)))
}

fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![4 => 0..20_000_000u64, 1 => 0..u64::MAX / 4096].prop_map(Duration::from_ns)
}

fn any_view(leg: LegId, address: u64) -> impl Strategy<Value = LegView> {
    let in_flight = (any_count(), any_count(), any_bytes(), any_bytes());
    let device = (any::<bool>(), any::<bool>(), any_count(), any_bytes());
    let history = (prop::option::of(any_bytes()), any_count(), any_duration());
    (in_flight, device, history).prop_map(move |(in_flight, device, history)| LegView {
        address,
        reads_in_flight: in_flight.0,
        writes_in_flight: in_flight.1,
        read_bytes_in_flight: in_flight.2,
        write_bytes_in_flight: in_flight.3,
        last_sent_end: history.0,
        rotational: device.0,
        read_preferred: device.1,
        queue_depth: device.2,
        optimal_io_bytes: device.3,
        reads_completed: history.1.into(),
        read_wait: history.2,
        own_outstanding: None,
        ..idle_view(leg.index())
    })
}

/// One to sixteen candidates.
fn any_legs(address: u64) -> impl Strategy<Value = Vec<LegView>> {
    prop::collection::btree_set(0..LEGS_MAX, 1..=LEGS_MAX).prop_flat_map(move |legs| {
        let views: Vec<_> = legs
            .into_iter()
            .map(|leg| any_view(LegId::new(leg), address))
            .collect();
        views
    })
}

fn any_op() -> impl Strategy<Value = OpView> {
    let kind = prop_oneof![
        4 => Just(OpKind::Read),
        2 => Just(OpKind::Write),
        1 => Just(OpKind::Flush),
        1 => Just(OpKind::Trim),
    ];
    (any_leg(), kind, any_extent()).prop_map(|(leg, kind, extent)| OpView {
        leg,
        kind,
        extent,
        array_offset: extent.offset(),
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let read = (any_duration(), any::<u64>(), any_extent()).prop_flat_map(|(after, client, at)| {
        any_legs(at.offset()).prop_map(move |legs| Event::Read {
            after,
            client,
            extent: at,
            legs,
        })
    });
    prop_oneof![
        8 => read,
        4 => any_op().prop_map(Event::Dispatch),
        8 => (any_op(), any_duration(), any::<bool>())
            .prop_map(|(op, time, ok)| Event::Complete(op, time, ok)),
        1 => (any_leg(), any::<bool>()).prop_map(|(leg, present)| Event::LegState(leg, present)),
        1 => prop::option::of(any_leg()).prop_map(Event::Reset),
        1 => Just(Event::Look),
    ]
}

fn build(spec: &PolicySpec) -> Box<dyn ReadPolicy> {
    spec.build(&ArrayInfo::new(LEGS_MAX)).unwrap()
}

/// Every policy with its defaults, and with every choice and flag turned.
fn specs() -> Vec<PolicySpec> {
    let mut specs = Vec::new();
    for policy in all_policies() {
        specs.push(PolicySpec::new(policy));
        for tunable in policy.tunables {
            for value in other_values(tunable) {
                let mut spec = PolicySpec::new(policy);
                spec.set(tunable.name, &value).unwrap();
                specs.push(spec);
            }
        }
    }
    specs
}

/// Both ends of a number's range, and every choice.
fn other_values(tunable: &Tunable) -> Vec<String> {
    let values = match tunable.kind {
        TunableKind::Number { min, max, .. } => vec![min, max],
        TunableKind::Devid => vec![2, 16],
        TunableKind::Flag => vec![0, 1],
        TunableKind::Choice(words) => (0..u64::try_from(words.len()).unwrap()).collect(),
    };
    values.iter().map(|&value| tunable.format(value)).collect()
}

/// What the policy of `spec` answers to `events`, after it was checked.
fn run(spec: &PolicySpec, events: &[Event]) -> Result<Vec<ReadPlan>, TestCaseError> {
    let mut built = build(spec);
    let policy = &mut *built;
    let mut now = Instant::ZERO;
    let mut prng = RandomStream::new(1, "policy", 0);
    let mut plans = Vec::new();
    for event in events {
        match event {
            Event::Read {
                after,
                client,
                extent,
                legs,
            } => {
                now += *after;
                let request = ReadRequest {
                    client: ClientId(*client),
                    stream: StreamId(*client),
                    extent: *extent,
                    may_split: true,
                };
                let weights: Vec<Option<Weight>> =
                    legs.iter().map(|view| policy.weight(view)).collect();
                let plan = policy.plan_read(now, &request, legs, &mut prng);
                check(&plan, *extent, legs)?;
                check_weights(&plan, &weights, legs)?;
                plans.push(plan);
                check_prefetch(policy, now, &request, legs)?;
            }
            Event::Dispatch(op) => policy.on_dispatch(now, op),
            Event::Complete(op, time, ok) => policy.on_complete(now, op, *time, *ok),
            Event::LegState(leg, present) => policy.on_leg_state(*leg, *present),
            Event::Reset(leg) => policy.reset(*leg),
            Event::Look => {
                for leg in 0..LEGS_MAX {
                    check_beliefs(&policy.beliefs(now, LegId::new(leg)))?;
                }
                for stream in policy.streams(now) {
                    prop_assert!(!stream.how.is_empty(), "{:?}", stream);
                }
                policy.configure(spec);
            }
        }
    }
    Ok(plans)
}

/// Facts are called as it is promised, and no leg has one twice.
fn check_beliefs(beliefs: &LegBeliefs) -> Result<(), TestCaseError> {
    let mut keys: Vec<&str> = beliefs.facts.iter().map(|fact| fact.key).collect();
    keys.sort_unstable();
    prop_assert!(keys.is_sorted_by(|a, b| a < b), "{:?}", keys);
    for fact in &beliefs.facts {
        let unit = match fact.value {
            FactValue::Flag(_) | FactValue::Word(_) | FactValue::Count(_) => "",
            FactValue::Time(_) => "_ns",
            FactValue::Bytes(_) => "_bytes",
            FactValue::Rate(_) => "_bytes_per_s",
            FactValue::Times(_) => "_times",
            FactValue::Share(_) => "_share",
        };
        prop_assert!(fact.key.ends_with(unit), "{:?}", fact);
    }
    for curve in &beliefs.curves {
        prop_assert!(curve.points.is_sorted_by(|a, b| a.load < b.load));
    }
    Ok(())
}

/// Who weighs legs chooses the one that weighs least.
fn check_weights(
    plan: &ReadPlan,
    weights: &[Option<Weight>],
    legs: &[LegView],
) -> Result<(), TestCaseError> {
    let Some(weights) = weights.iter().copied().collect::<Option<Vec<Weight>>>() else {
        return Ok(());
    };
    if let ReadPlan::Leg(leg) = plan {
        let place = legs.iter().position(|view| view.leg == *leg);
        prop_assert_eq!(place.map(|at| weights[at]), weights.iter().copied().min());
    }
    Ok(())
}

/// Whatever is to be prefetched, it is of legs that are there, and not more than there is room for.
fn check_prefetch(
    policy: &mut dyn ReadPolicy,
    now: Instant,
    request: &ReadRequest,
    legs: &[LegView],
) -> Result<(), TestCaseError> {
    let candidates: LegSet = legs.iter().map(|view| view.leg).collect();
    for request in [Some(request), None] {
        let room_bytes = request.map_or(8 << 20, |request| request.extent.len());
        let mut prefetch = Vec::new();
        policy.prefetch(now, request, legs, &Mirror, room_bytes, &mut prefetch);
        let total: u64 = prefetch.iter().map(|plan| plan.extent.len()).sum();
        prop_assert!(total <= room_bytes);
        prop_assert!(prefetch.iter().all(|plan| candidates.contains(plan.leg)));
    }
    Ok(())
}

fn check(plan: &ReadPlan, extent: Extent, legs: &[LegView]) -> Result<(), TestCaseError> {
    let candidates: LegSet = legs.iter().map(|view| view.leg).collect();
    match plan {
        ReadPlan::Leg(leg) => prop_assert!(candidates.contains(*leg)),
        ReadPlan::Split(pieces) => {
            let pieces = pieces.as_slice();
            prop_assert!(pieces.iter().all(|piece| candidates.contains(piece.leg)));
            prop_assert!(pieces.iter().all(|piece| piece.len_bytes > 0));
            let total: u64 = pieces.iter().map(|piece| piece.len_bytes).sum();
            prop_assert_eq!(total, extent.len());
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_answer_names_candidates_and_is_the_same_again(
        events in prop::collection::vec(any_event(), 1..60),
    ) {
        for spec in specs() {
            let plans = run(&spec, &events)?;
            prop_assert_eq!(&plans, &run(&spec, &events)?, "{}", spec);
            let is_look = |event: &&Event| matches!(event, Event::Look);
            let unseen: Vec<Event> =
                events.iter().filter(|event| !is_look(event)).cloned().collect();
            prop_assert_eq!(&plans, &run(&spec, &unseen)?, "{} is changed by a look", spec);
        }
    }
}

#[test]
fn every_tunable_can_be_set_while_the_policy_works() {
    for spec in specs() {
        let mut policy = build(&PolicySpec::new(spec.policy()));
        policy.configure(&spec);
        // Limits of states that run down may be seen only by states that begin later.
        policy.reset(None);
        assert_eq!(
            format!("{policy:?}"),
            format!("{:?}", build(&spec)),
            "{spec}"
        );
    }
}

#[test]
fn policies_know_their_names_and_say_what_they_watch() {
    for policy in all_policies() {
        let built = build(&PolicySpec::new(policy));
        assert_eq!(built.name(), policy.name);
        let wanted = match policy.name {
            "round-robin" => Observes {
                dispatch: true,
                ..Observes::NOTHING
            },
            "latency-rr" => Observes::ALL,
            "adaptive" => Observes {
                late: true,
                requests: true,
                ..Observes::ALL
            },
            "latency" | "queue-adaptive" | "md" | "hst" | "bcachefs" | "prequal" => Observes {
                complete: true,
                ..Observes::NOTHING
            },
            _ => Observes::NOTHING,
        };
        assert_eq!(built.observes(), wanted, "{}", policy.name);
    }
}
