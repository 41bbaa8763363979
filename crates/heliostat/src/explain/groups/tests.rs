//! What is alike is counted together.

use super::{NO_OTHER, of};
use crate::explain::testing::{candidate, decision};

#[test]
fn the_same_leg_for_the_same_reason() {
    let fast = |reason| {
        decision(
            Some(reason),
            &[0],
            &[candidate(0, Some(90)), candidate(1, Some(8_000))],
        )
    };
    let alone = decision(Some("predicted least"), &[1], &[candidate(1, Some(9_000))]);
    let mut slower = fast("predicted least");
    slower.legs[0].predicted_ns = Some(100);
    slower.legs[0].reads_in_flight = 3;
    slower.legs[1].slow = Some(true);
    let decisions = [
        fast("stream stays"),
        fast("predicted least"),
        alone,
        slower,
        fast("predicted least"),
    ];
    let groups = of(&decisions);
    let told = groups
        .iter()
        .map(|group| (group.reads, group.reason.as_deref(), &*group.to));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (3, Some("predicted least"), &[0][..]),
            (1, Some("stream stays"), &[0][..]),
            (1, Some(NO_OTHER), &[1][..]),
        ]
    );
    let leg = &groups[0].legs[0];
    assert_eq!((leg.leg, leg.reads, leg.predicted_ns), (0, 3, Some(90)));
    assert_eq!((leg.in_flight_mean, groups[0].legs[1].slow_reads), (1.0, 1));
    assert_eq!(of(&[]), []);
}

#[test]
fn a_split_read_goes_to_several() {
    let split = decision(None, &[0, 1], &[candidate(0, None), candidate(1, None)]);
    let groups = of(&[split]);
    assert_eq!((&*groups[0].to, &groups[0].reason), (&[0, 1][..], &None));
    assert_eq!(groups[0].legs[1].predicted_ns, None);
}
