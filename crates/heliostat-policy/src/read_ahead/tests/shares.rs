//! Which legs have which streams, where these are fewer.

use heliostat_types::{Duration, Extent, Instant, LegSet, OpKind};

use super::{KIB, MIB, Rig, op};
use crate::api::OpView;
use crate::read_ahead::{Pace, StreamWay, Worth};

/// From one stream to the next.
const FAR: u64 = 100_000 * MIB;

/// So many streams are read at once for a while, beside random reads of which so many wait; the
/// legs of each.
fn legs_of(rig: &mut Rig, streams: u64, random: u64) -> Vec<LegSet> {
    let time = Duration::from_ms(if random > 0 { 20 } else { 0 });
    legs_beside(rig, streams, random, time)
}

/// The same where the random reads take so long, for each 2 ms of the streams.
fn legs_beside(rig: &mut Rig, streams: u64, random: u64, time: Duration) -> Vec<LegSet> {
    let mut legs = vec![LegSet::EMPTY; usize::try_from(streams).unwrap()];
    // As much as the legs read meanwhile.
    let bytes = (rig.legs.len() as u64 / streams).max(1) * MIB;
    for step in 0..400 {
        // Readers take no time here, so that nothing would be worth it.
        rig.ahead.worth = Worth::new();
        for stream in 0..streams {
            rig.read_on(stream * FAR + step * bytes, bytes);
        }
        if step == 300 {
            legs.fill(LegSet::EMPTY);
        }
        for leg in 0..rig.legs.len() {
            let Some(&(_, extent)) = rig.sent.iter().find(|sent| sent.0 == leg) else {
                continue;
            };
            let stream = usize::try_from(extent.offset() / FAR).unwrap();
            legs[stream].insert(rig.legs[leg].leg);
            rig.answer_mib(leg, Duration::from_ms(2));
        }
        rig.pass(random, time);
    }
    for (stream, legs) in (0..streams).zip(&mut legs) {
        if let StreamWay::Homes(homes) = rig.way(stream * FAR + 400 * bytes) {
            *legs = legs.union(homes);
        }
    }
    legs
}

#[test]
fn disks_are_shared_out_among_fewer_streams() {
    for (disks, streams, each, both) in [
        (3, 1, 3, 0),
        (4, 2, 2, 0),
        (8, 2, 4, 0),
        (8, 4, 2, 0),
        (8, 7, 1, 0),
        (5, 4, 1, 0),
        (5, 2, 3, 1),
    ] {
        let mut rig = Rig::new(&vec![true; disks]);
        let legs = legs_of(&mut rig, streams, 0);
        let counts: Vec<usize> = legs.iter().map(|legs| legs.iter().count()).collect();
        assert_eq!(counts, vec![each; counts.len()], "{disks} {streams}");
        let all = legs
            .iter()
            .fold(LegSet::EMPTY, |all, legs| all.union(*legs));
        let sum: usize = counts.iter().sum();
        assert_eq!(
            sum - all.iter().count(),
            both,
            "{disks}, {streams}: {legs:?}"
        );
    }
}

#[test]
fn beside_random_reads_a_stream_on_flash_leaves_legs_to_them() {
    for (turning, random, own) in [
        (vec![false, false], 8, 1),
        (vec![false, false, false], 4, 1),
        (vec![true, false], 8, 1),
        (vec![true, true, false], 8, 2),
    ] {
        let mut rig = Rig::new(&turning);
        let all = legs_of(&mut rig, 1, 0)[0];
        assert_eq!(all.iter().count(), turning.len(), "nobody else reads");
        let legs = legs_of(&mut rig, 1, random)[0];
        assert_eq!(legs.iter().count(), own, "{turning:?}");
        let left = rig.ahead.left(rig.now);
        assert!(left.intersection(legs).is_empty(), "{left:?} {legs:?}");
        let mut disks = turning.iter().zip(&rig.legs).filter(|(turns, _)| **turns);
        assert!(
            disks.all(|(_, view)| legs.contains(view.leg)),
            "{turning:?}"
        );
        rig.now += Duration::from_secs(10);
        let all = legs_of(&mut rig, 1, 0)[0];
        assert_eq!(all.iter().count(), turning.len(), "nobody else any more");
    }
}

/// Random reads go to the fastest flash, and to what is much slower only when that is saturated.
#[test]
fn beside_random_reads_a_stream_has_the_flash_that_these_do_not_need() {
    for (fast, random, left_to_random) in [(1, 4, 1), (2, 4, 1), (2, 8, 1), (3, 8, 2)] {
        let mut rig = Rig::new(&[true, false, false, false]);
        for number in 0..600 {
            for leg in 1..=fast {
                let extent = Extent::new((9000 + number * 31 % 977) * MIB, 128 * KIB);
                let time = Duration::from_us(10);
                rig.now += time;
                rig.ahead.on_complete(rig.now, &op(leg, extent), time);
            }
        }
        legs_beside(&mut rig, 1, random, Duration::from_ms(5));
        // As if the others were not too slow to help.
        let mut helpers = rig.ahead.helpers(rig.now, &rig.legs);
        rig.ahead.left = LegSet::EMPTY;
        rig.ahead.share_out(&mut helpers, 1);
        let left = rig.ahead.left(rig.now);
        assert_eq!(left.iter().count(), left_to_random, "{fast}, {random}");
        assert!(left.iter().all(|leg| (1..=fast).contains(&leg.index())));
        let others = rig.legs.iter().map(|view| view.leg);
        let others: LegSet = others.filter(|leg| !left.contains(*leg)).collect();
        assert_eq!(helpers.legs(), others, "{fast}, {random}");
    }
}

/// A read on a leg that has writes to do as well waits for several of them: a stream that had only
/// that leg would be slower than beside the random reads.
#[test]
fn a_stream_is_not_left_to_legs_that_are_written() {
    for turns in [true, false] {
        for is_written in [false, true] {
            let mut rig = Rig::new(&[turns, false]);
            for step in 0..400 {
                rig.ahead.worth = Worth::new();
                rig.read_on(step * MIB, MIB);
                let writes = if is_written { 4 } else { 0 };
                for number in 0..2 * writes {
                    let extent = Extent::new((9000 + (step + number) * 31 % 977) * MIB, 4 * KIB);
                    let write = OpView {
                        kind: OpKind::Write,
                        ..op(usize::from(number % 2 == 1), extent)
                    };
                    rig.ahead.on_dispatch(rig.now, &write, None);
                }
                for leg in 0..2 {
                    if rig.sent.iter().any(|sent| sent.0 == leg) {
                        rig.answer(leg, Duration::from_ms(2));
                    }
                }
                rig.pass(8, Duration::from_ms(20));
            }
            let way = rig.way(400 * MIB);
            let has_home = matches!(way, StreamWay::Homes(_));
            assert_eq!(has_home, !is_written, "{way:?} where one turns: {turns}");
            assert_eq!(rig.ahead.left(rig.now).is_empty(), is_written);
            if is_written && !turns {
                assert!(rig.sent.is_empty(), "read ahead beside random reads");
            }
        }
    }
}

/// A stream that is read ahead is fewer operations on one leg, and one that is not is more: what is
/// written would be so only every other moment.
#[test]
fn a_leg_is_written_until_writes_are_few() {
    let mut pace = Pace::default();
    let now = Instant::from_ns(1);
    let is_written_after = |pace: &mut Pace, reads_to_a_write: u64| {
        for number in 0..2_000 {
            pace.note_kind(now, number % (reads_to_a_write + 1) == 0);
        }
        pace.is_written(now)
    };
    assert!(!is_written_after(&mut pace, 15));
    assert!(is_written_after(&mut pace, 5));
    assert!(is_written_after(&mut pace, 15));
    assert!(!is_written_after(&mut pace, 63));
}

/// Whether a stream has a leg for itself where writes take so long on each, and random reads 20 ms.
fn has_own_beside_writes(write_ms: [u64; 2]) -> bool {
    let mut rig = Rig::new(&[false, false]);
    for step in 0..400 {
        rig.ahead.worth = Worth::new();
        rig.read_on(step * MIB, MIB);
        for number in 0..8 {
            let extent = Extent::new((9000 + (step + number) * 31 % 977) * MIB, 4 * KIB);
            let write = OpView {
                kind: OpKind::Write,
                ..op(usize::from(number % 2 == 1), extent)
            };
            rig.ahead.on_dispatch(rig.now, &write, None);
            let time = Duration::from_ms(write_ms[write.leg.index()]);
            rig.ahead.on_complete(rig.now, &write, time);
        }
        for leg in 0..2 {
            if rig.sent.iter().any(|sent| sent.0 == leg) {
                rig.answer(leg, Duration::from_ms(2));
            }
        }
        rig.pass(8, Duration::from_ms(20));
    }
    let StreamWay::Homes(homes) = rig.way(400 * MIB) else {
        return false;
    };
    assert_eq!(homes.iter().count(), 1);
    assert!(rig.ahead.left(rig.now).intersection(homes).is_empty());
    true
}

/// Random reads that have writes among them gain nothing by a leg without streams where these
/// writes wait for the streams.
#[test]
fn a_stream_has_flash_for_itself_where_writes_do_not_wait_for_it() {
    assert!(has_own_beside_writes([1, 1]));
    for write_ms in [[10, 10], [1, 10], [10, 1]] {
        assert!(!has_own_beside_writes(write_ms), "{write_ms:?}");
    }
}

#[test]
fn two_streams_share_the_flash_that_is_theirs() {
    let mut rig = Rig::new(&[false; 3]);
    let legs = legs_of(&mut rig, 2, 40);
    assert_eq!(rig.ahead.left(rig.now).iter().count(), 2);
    assert_eq!(legs[0], legs[1]);
    assert_eq!(legs[0].iter().count(), 1);
}

#[test]
fn a_stream_that_has_more_in_flight_than_random_reads_has_more_flash() {
    let mut rig = Rig::new(&[false; 3]);
    for number in 0..24 {
        let extent = Extent::new((50_000 + number) * MIB, MIB);
        let leg = usize::try_from(number % 3).unwrap();
        rig.legs[leg].read_bytes_in_flight += MIB;
        rig.ahead.on_dispatch(rig.now, &op(leg, extent), None);
    }
    legs_of(&mut rig, 1, 4);
    assert_eq!(rig.ahead.left(rig.now).iter().count(), 1);
}

#[test]
fn a_stream_has_no_flash_that_is_written() {
    let mut rig = Rig::new(&[true, false, false]);
    for number in 0..600 {
        let extent = Extent::new((9000 + number * 31 % 977) * MIB, 128 * KIB);
        let read = op(1, extent);
        rig.ahead.on_dispatch(rig.now, &read, None);
        rig.now += Duration::from_us(200);
        rig.ahead
            .on_complete(rig.now, &read, Duration::from_us(200));
    }
    for step in 0..400 {
        rig.read_on(step * MIB, MIB);
        for number in 0..4 {
            let extent = Extent::new((9000 + (step + number) * 31 % 977) * MIB, 4 * KIB);
            let write = OpView {
                kind: OpKind::Write,
                ..op(2, extent)
            };
            rig.ahead.on_dispatch(rig.now, &write, None);
        }
        for leg in 0..3 {
            if rig.sent.iter().any(|sent| sent.0 == leg) {
                rig.answer(leg, Duration::from_ms(2));
            }
        }
        rig.pass(4, Duration::from_ms(5));
    }
    let disk: LegSet = [rig.legs[0].leg].into_iter().collect();
    assert_eq!(rig.way(400 * MIB), StreamWay::Homes(disk));
}

/// It was never seen with much to read; but it was seen to read 13 times as fast.
#[test]
fn a_stream_has_no_disk_that_is_far_slower_than_flash_ever_was() {
    for (time_us, has_disk) in [(200, true), (10, false)] {
        let mut rig = Rig::new(&[true, false]);
        for number in 0..600 {
            let extent = Extent::new((9000 + number * 31 % 977) * MIB, 128 * KIB);
            let time = Duration::from_us(time_us);
            rig.now += time;
            rig.ahead.on_complete(rig.now, &op(1, extent), time);
        }
        let all = legs_of(&mut rig, 1, 0)[0];
        assert_eq!(all.contains(rig.legs[0].leg), has_disk, "{time_us} us");
    }
}

/// What was read ahead may end when the stream is over, and another leg has gone meanwhile.
#[test]
fn the_last_leg_is_left_to_nobody() {
    let mut rig = Rig::new(&[false, false]);
    rig.read_on(0, 16 * MIB);
    let leg = rig.sent[0].0;
    rig.legs = vec![rig.legs[leg]];
    rig.sent = vec![(0, rig.sent[0].1)];
    for _ in 0..100 {
        rig.pass(8, Duration::from_ms(20));
    }
    rig.answer(0, Duration::from_ms(2));
    assert!(rig.ahead.left(rig.now).is_empty());
}

/// What is planned and not asked for takes no memory: who counts it as if it did plans more than
/// there is room for, and what comes late in a stream takes the place of what is wanted first.
#[test]
fn no_more_is_planned_than_there_is_memory_for() {
    const MEMORY: u64 = 24 * MIB;
    let mut rig = Rig::new(&[true; 6]);
    for step in 0..2000 {
        let next = (step + 1) * 128 * KIB;
        let ahead = |rig: &Rig| -> u64 {
            let behind = rig
                .asked
                .iter()
                .map(|extent| extent.end().saturating_sub(next));
            behind.map(|bytes| bytes.min(MIB)).sum()
        };
        rig.room_bytes = MEMORY.saturating_sub(ahead(&rig));
        rig.read(step * 128 * KIB, 128 * KIB);
        let last = rig.asked.iter().map(|extent| extent.end()).max();
        // And one stretch more, which is as long as all of them are then.
        let most = next + MEMORY + 4 * MIB;
        assert!(last.unwrap_or(0) <= most, "at {step}");
        if step % 4 == 3
            && let Some(&(leg, _)) = rig.sent.first()
        {
            rig.answer(leg, Duration::from_ms(5));
        }
    }
}

/// A stream of 25 MiB beside short writes that disks answer in so long, each that many reads of
/// them: how much is read ahead by each.
fn beside_writes(every: u64, times: [Duration; 3]) -> [u64; 3] {
    let rig = rig_beside_writes(every, times);
    [0, 1, 2].map(|leg| {
        let sent = rig.sent.iter().filter(|sent| sent.0 == leg);
        sent.map(|sent| sent.1.len()).sum()
    })
}

pub(super) fn rig_beside_writes(every: u64, times: [Duration; 3]) -> Rig {
    let mut rig = Rig::new(&[true; 3]);
    for step in 0..200 {
        rig.read(step * 128 * KIB, 128 * KIB);
        for (leg, time) in times.into_iter().enumerate() {
            let is_write = step % every == 0;
            let kind = if is_write {
                OpKind::Write
            } else {
                OpKind::Read
            };
            let other = Extent::new((9000 + step) * MIB, 4 * KIB);
            let op = OpView {
                kind,
                ..op(leg, other)
            };
            rig.ahead.on_dispatch(rig.now, &op, None);
            rig.now += time;
            if is_write {
                rig.ahead.on_complete(rig.now, &op, time);
            }
        }
        if step == 100 {
            rig.all_ends_at_once();
        }
    }
    rig
}

#[test]
fn disks_that_are_busy_with_writes_read_nothing_ahead() {
    let slow = Duration::from_ms(2);
    assert_eq!(beside_writes(4, [slow; 3]), [0; 3]);
    assert!(beside_writes(40, [slow; 3]).iter().sum::<u64>() > 0);
}

#[test]
fn disks_that_take_writes_by_the_way_read_ahead() {
    let fast = Duration::from_us(200);
    let ahead = beside_writes(4, [fast; 3]);
    assert!(ahead.iter().all(|bytes| *bytes > 0), "{ahead:?}");
    // All writes wait for the second one.
    let ahead = beside_writes(4, [fast, Duration::from_ms(2), fast]);
    assert!(ahead[0] > 0 && ahead[1] == 0 && ahead[2] > 0, "{ahead:?}");
}

/// The reader would come to what that leg was to read, and ask for all of it himself.
#[test]
fn what_a_leg_was_to_read_that_leaves_others_read() {
    let mut rig = Rig::new(&[true; 3]);
    rig.read_on(0, 100 * MIB);
    assert!(!rig.sent_to(2).is_empty());
    rig.sent.retain(|sent| sent.0 != 2);
    rig.legs.truncate(2);
    let mut offset = 100 * MIB;
    while offset < 260 * MIB {
        rig.read(offset, 128 * KIB);
        offset += 128 * KIB;
        if let Some(&(leg, _)) = rig.sent.first() {
            rig.answer(leg, Duration::from_us(500));
        }
    }
    let is_read = |at: u64| {
        let block = Extent::new(at, 128 * KIB);
        rig.asked.iter().any(|extent| extent.contains(block))
    };
    let steps = (101 * MIB..250 * MIB).step_by(128 << 10);
    let holes = steps.filter(|at| !is_read(*at)).count();
    assert_eq!(holes, 0);
}

/// A stream that is read ahead for a while by three disks, each MiB in 5 ms.
fn of_three_disks() -> (Rig, u64) {
    let mut rig = Rig::new(&[true; 3]);
    let mut offset = 0;
    for _ in 0..200 {
        rig.read_on(offset, 2 * MIB);
        offset += 2 * MIB;
        for leg in 0..3 {
            if !rig.sent_to(leg).is_empty() {
                rig.answer_mib(leg, Duration::from_ms(5));
            }
        }
    }
    (rig, offset)
}

/// One late answer is a pause, and two tell: what else it was to read the others read, and it is
/// asked again before long.
#[test]
fn a_disk_that_is_far_slower_than_it_was_is_left_soon() {
    let (mut rig, mut offset) = of_three_disks();
    let is_asked = |rig: &mut Rig, offset: u64| {
        let before = rig.asked.len();
        let at = rig.sent.len();
        rig.read_on(offset, 2 * MIB);
        let new = rig.sent.split_off(at);
        let is_asked = new.iter().any(|sent| sent.0 == 2);
        rig.sent.extend(new);
        rig.asked.truncate(before);
        is_asked
    };
    rig.answer(2, Duration::from_ms(200));
    let rates = rates_of(&mut rig);
    assert!(rates[2] > rates[0] / 2.0, "a pause: {rates:?}");
    let rest = rig.sent_to(2).len();
    assert!(rest > 0);
    rig.answer(2, Duration::from_ms(200));
    assert_eq!(rig.sent_to(2).len(), rest - 1, "nothing more");
    let known = rig.now + Duration::from_ms(1_600);
    while rig.now + Duration::from_ms(50) < known {
        assert!(!is_asked(&mut rig, offset));
        offset += 2 * MIB;
        for leg in 0..2 {
            while !rig.sent_to(leg).is_empty() && rig.now < known {
                rig.answer_mib(leg, Duration::from_ms(5));
            }
        }
    }
    rig.sent.retain(|sent| sent.0 != 2);
    rig.legs[2].read_bytes_in_flight = 0;
    rig.now = known + Duration::from_ms(1);
    let mut asked = false;
    for _ in 0..60 {
        asked |= is_asked(&mut rig, offset);
        offset += 2 * MIB;
        for leg in 0..2 {
            if !rig.sent_to(leg).is_empty() {
                rig.answer_mib(leg, Duration::from_ms(5));
            }
        }
    }
    assert!(asked, "it may be well again");
}

/// Others have the arm meanwhile, twice.
#[test]
fn a_disk_that_answers_others_is_not_slow() {
    for kind in [OpKind::Read, OpKind::Write, OpKind::Flush] {
        let (mut rig, _) = of_three_disks();
        let (other, time) = (Extent::new(FAR, 128 * KIB), Duration::from_ms(4));
        for _ in 0..2 {
            for _ in 0..50 {
                let op = OpView {
                    kind,
                    ..op(2, other)
                };
                rig.ahead.on_dispatch(rig.now, &op, None);
                rig.now += time;
                rig.ahead.on_complete(rig.now, &op, time);
            }
            let extent = rig.sent.iter().find(|sent| sent.0 == 2).unwrap().1;
            let op = rig.on_leg(2, extent);
            rig.ahead.on_complete(rig.now, &op, Duration::from_ms(204));
        }
        let rates = rates_of(&mut rig);
        assert!(rates[2] > rates[0] / 2.0, "{kind:?} {rates:?}");
    }
}

/// How fast each leg is believed to read a stream.
fn rates_of(rig: &mut Rig) -> Vec<f32> {
    let helpers = rig.ahead.helpers(rig.now, &rig.legs);
    helpers.iter().map(|helper| helper.rate).collect()
}
