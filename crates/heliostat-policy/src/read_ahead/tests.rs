mod beliefs;
mod chunks;
mod keeping;
mod lags;
mod shares;
mod stalls;
mod waited;
mod worth;

use heliostat_types::{ClientId, Duration, Extent, Instant, LegId, OpKind, StreamId};

use super::at_random::AtRandom;
use super::{ASKED_BYTES_FLASH, RUN_BYTES_FLASH, ReadAhead, StreamWay};
use crate::api::{Layout, LegView, OpView, Prefetch, ReadRequest};
use crate::testing::{Mirror, idle_view};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const ROOM: u64 = 64 * MIB;

/// Streams on legs whose reads end when a test says so.
struct Rig {
    ahead: ReadAhead,
    legs: Vec<LegView>,
    layout: Box<dyn Layout>,
    room_bytes: u64,
    now: Instant,
    /// Leg and extent of what was prefetched and is in flight, in order.
    sent: Vec<(usize, Extent)>,
    /// All that was prefetched.
    asked: Vec<Extent>,
}

impl Rig {
    fn new(turning: &[bool]) -> Self {
        let mut legs: Vec<LegView> = (0..turning.len()).map(idle_view).collect();
        for (view, turns) in legs.iter_mut().zip(turning) {
            view.rotational = *turns;
        }
        let now = Instant::from_ns(1_000_000_000);
        let mut ahead = ReadAhead::new();
        let turn = legs.iter().filter(|view| view.rotational);
        ahead.set_turning(turn.map(|view| view.leg).collect());
        for view in legs.iter_mut().filter(|view| !view.rotational) {
            // Somebody waits for flash all the time.
            let read = op(view.leg.index(), Extent::new(u64::MAX >> 1, 4 * KIB));
            ahead.on_dispatch(now, &read, None);
            view.reads_in_flight = 1;
        }
        Self {
            ahead,
            legs,
            layout: Box::new(Mirror),
            room_bytes: ROOM,
            now,
            sent: Vec::new(),
            asked: Vec::new(),
        }
    }

    fn plan(&mut self, asked: Option<Extent>) {
        let request = asked.map(|extent| ReadRequest {
            client: ClientId(0),
            stream: StreamId(0),
            extent,
            may_split: true,
        });
        let mut planned: Vec<Prefetch> = Vec::new();
        let (request, legs) = (request.as_ref(), &self.legs);
        let turn = legs.iter().filter(|view| view.rotational);
        self.ahead.set_turning(turn.map(|view| view.leg).collect());
        let (layout, room_bytes) = (&*self.layout, self.room_bytes);
        self.ahead
            .plan(self.now, request, legs, layout, room_bytes, &mut planned);
        for plan in planned {
            let leg = plan.leg.index();
            self.legs[leg].reads_in_flight += 1;
            self.legs[leg].read_bytes_in_flight += plan.extent.len();
            let op = self.on_leg(leg, plan.extent);
            self.ahead.on_dispatch(self.now, &op, None);
            self.sent.push((leg, plan.extent));
            self.asked.push(plan.extent);
        }
    }

    /// A read of the array as its leg has it.
    fn on_leg(&self, leg: usize, extent: Extent) -> OpView {
        let address = self.layout.address_on(LegId::new(leg), extent.offset());
        let address = address.expect("who holds it is asked");
        OpView {
            extent: Extent::new(address, extent.len()),
            ..op(leg, extent)
        }
    }

    fn read(&mut self, offset: u64, len: u64) {
        self.plan(Some(Extent::new(offset, len)));
    }

    /// Reads so much from `from` on, 128 KiB at a time.
    fn read_on(&mut self, from: u64, bytes: u64) {
        for offset in (from..from + bytes).step_by(128 << 10) {
            self.read(offset, 128 * KIB);
        }
    }

    /// The oldest read of a leg ends after so long.
    fn answer(&mut self, leg: usize, after: Duration) {
        self.now += after;
        let at = self.sent.iter().position(|sent| sent.0 == leg).unwrap();
        let (_, extent) = self.sent.remove(at);
        self.legs[leg].reads_in_flight -= 1;
        self.legs[leg].read_bytes_in_flight -= extent.len();
        let op = self.on_leg(leg, extent);
        self.ahead.on_complete(self.now, &op, after);
        self.plan(None);
    }

    /// The oldest reads of a leg end, 1 MiB of them, after so long.
    fn answer_mib(&mut self, leg: usize, after: Duration) {
        let mut answered = 0;
        while answered < MIB
            && let Some((_, extent)) = self.sent.iter().find(|sent| sent.0 == leg)
        {
            let bytes = extent.len();
            answered += bytes;
            self.answer(leg, Duration::from_ns(after.as_ns() * bytes / MIB));
        }
    }

    /// Nobody hears of what was sent.
    fn all_ends_at_once(&mut self) {
        self.sent.clear();
        for view in &mut self.legs {
            view.read_bytes_in_flight = 0;
        }
    }

    /// So much time passes, with so many random reads in flight.
    fn pass(&mut self, random: u64, time: Duration) {
        let extent = |number| Extent::new((7000 + number * 7919 % 4001) * MIB, 4 * KIB);
        let ops = (0..random).map(|number| op(0, extent(number)));
        for op in ops.clone() {
            let way = Some(StreamWay::None);
            self.ahead.on_dispatch(self.now, &op, way);
        }
        self.now += time;
        for op in ops {
            self.ahead.on_complete(self.now, &op, time);
        }
    }

    /// Where a read there is to go, among the legs that hold it.
    fn way(&self, offset: u64) -> StreamWay {
        let holds = |view: &&LegView| self.layout.address_on(view.leg, offset).is_some();
        let holders: Vec<LegView> = self.legs.iter().filter(holds).copied().collect();
        self.ahead.way(self.now, offset, &holders)
    }

    fn sent_to(&self, leg: usize) -> Vec<u64> {
        let sent = self.sent.iter().filter(|sent| sent.0 == leg);
        sent.map(|sent| sent.1.offset() / MIB).collect()
    }

    fn bytes(&self) -> u64 {
        self.sent.iter().map(|sent| sent.1.len()).sum()
    }
}

fn op(leg: usize, extent: Extent) -> OpView {
    OpView {
        leg: LegId::new(leg),
        kind: OpKind::Read,
        extent,
        array_offset: extent.offset(),
    }
}

#[test]
fn what_is_short_has_nothing_read_ahead() {
    let mut rig = Rig::new(&[false, false]);
    rig.read_on(0, MIB - 128 * KIB);
    assert_eq!(rig.bytes(), 0);
    rig.read(MIB - 128 * KIB, 128 * KIB);
    assert_eq!(rig.bytes(), MIB, "half of it, in whole operations");
    rig.read_on(MIB, 5 * MIB);
    assert_eq!(
        rig.bytes(),
        2 * ASKED_BYTES_FLASH.get(),
        "and no more at a time"
    );
}

#[test]
fn what_is_no_stream_has_nothing_read_ahead() {
    let mut rig = Rig::new(&[false, true]);
    for number in 0..1000 {
        rig.read(number * 7919 % 1000 * MIB, 64 * KIB);
        rig.read((40_000 - number * 4) * MIB, 4 * MIB);
        rig.read(50_000 * MIB + number * 256 * KIB, 128 * KIB);
    }
    assert_eq!(rig.bytes(), 0);
}

/// Of so many places one has ended somewhere now and then.
#[test]
fn long_random_reads_that_go_on_with_others_by_chance_are_no_stream() {
    let mut rig = Rig::new(&[false, true]);
    let mut number: u64 = 1;
    for _ in 0..20_000 {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let block = (number >> 33) % 10_000;
        assert_eq!(rig.bytes(), 0, "ahead of {block} MiB");
        rig.read(block * MIB, MIB);
        rig.now += Duration::from_us(100);
    }
    assert!(rig.ahead.streams_seen > 200, "{}", rig.ahead.streams_seen);
    let begins = 20_000 * MIB;
    for step in 0..4 {
        assert_eq!(rig.way(begins + step * MIB) == StreamWay::None, step == 0);
        assert_eq!(rig.bytes(), 0, "after {step} reads");
        rig.read(begins + step * MIB, MIB);
    }
    assert!(rig.bytes() > 0, "that is one");
}

#[test]
fn a_stream_may_be_read_slowly_beside_random_reads() {
    for (others, goes_on) in [(900, true), (1100, false)] {
        let mut rig = Rig::new(&[false, false]);
        rig.read_on(0, 2 * MIB);
        for number in 0..others {
            rig.read((number * 7919 % 4001 + 100) * MIB, 128 * KIB);
        }
        rig.all_ends_at_once();
        let known = rig.asked.len();
        rig.read_on(2 * MIB, MIB / 2);
        assert_eq!(rig.asked.len() > known, goes_on, "{others}");
    }
}

#[test]
fn a_stream_among_many_random_reads_is_one() {
    let mut rig = Rig::new(&[false, false]);
    for number in 0..100 {
        rig.read(number * 64 * KIB, 64 * KIB);
        for other in 0..20 {
            rig.read(
                (number * 20 + other) * 7919 % 4001 * MIB + 100 * MIB,
                4 * KIB,
            );
        }
    }
    assert!(rig.bytes() > 0);
}

#[test]
fn as_many_streams_as_legs_have_a_leg_each_and_nothing_read_ahead() {
    let mut rig = Rig::new(&[true, true]);
    for step in 0..16 {
        for stream in 0..2 {
            rig.read(stream * 1000 * MIB + step * 256 * KIB, 256 * KIB);
        }
    }
    let way = |offset| rig.ahead.way(rig.now, offset, &rig.legs);
    assert_ne!(way(4 * MIB), way(1004 * MIB));
    assert!(matches!(way(4 * MIB), StreamWay::Homes(_)));
    let before = rig.bytes();
    rig.read_on(4 * MIB, 4 * MIB);
    rig.read_on(1004 * MIB, 4 * MIB);
    assert_eq!(rig.bytes(), before);
}

/// Reads two streams of two disks to 8 MiB, each read answered before the next `depth` are sent.
fn read_at_depth(depth: u64, len: u64) -> Rig {
    let mut rig = Rig::new(&[true, true]);
    for batch in 0..8 * MIB / (depth * len) {
        for start in [0, 1000 * MIB] {
            let from = start + batch * depth * len;
            let ends = (1..=depth).map(|number| from + number * len);
            for end in ends.clone() {
                rig.read(end - len, len);
            }
            for end in ends {
                rig.ahead.has_read(rig.now, LegId::new(0), end);
            }
        }
    }
    rig
}

#[test]
fn who_has_one_short_read_at_a_time_has_the_next_ones_read_by_its_home() {
    for len in [16 * KIB, 256 * KIB] {
        let rig = read_at_depth(1, len);
        for leg in 0..2 {
            let StreamWay::Homes(homes) = rig.way(leg * 1000 * MIB + 8 * MIB) else {
                panic!("the legs are shared out");
            };
            let home = homes.lowest().unwrap().index();
            let next = leg * 1000 * MIB + 8 * MIB;
            let of_stream = |(_, at): &&(usize, Extent)| at.offset() / (1000 * MIB) == leg;
            let (sent_to, last) = *rig.sent.iter().rfind(of_stream).unwrap();
            assert_eq!(sent_to, home);
            let ahead = last.end() - next;
            assert!((512 * KIB..=MIB).contains(&ahead), "{len}: {ahead}");
        }
    }
    for (depth, len) in [(2, 64 * KIB), (4, 64 * KIB), (1, 512 * KIB)] {
        let rig = read_at_depth(depth, len);
        let is_ahead = |(_, at): &(usize, Extent)| at.end() % (1000 * MIB) > 8 * MIB;
        assert!(!rig.sent.iter().any(is_ahead), "{depth} {len}");
    }
}

/// Of each of two streams of two disks `depth` reads are in flight all the time.
#[test]
fn who_has_very_many_short_reads_in_flight_has_the_next_ones_read_by_his_home() {
    let is_ahead = |depth: u64, len: u64| {
        let mut rig = Rig::new(&[true, true]);
        for number in 0..8 * MIB / len {
            for start in [0, 1000 * MIB] {
                let from = start + number * len;
                rig.read(from, len);
                if number >= depth {
                    rig.ahead
                        .has_read(rig.now, LegId::new(0), from - (depth - 1) * len);
                }
            }
        }
        let is_ahead = |(_, at): &(usize, Extent)| at.end() % (1000 * MIB) > 8 * MIB;
        rig.sent.iter().any(is_ahead)
    };
    assert!(is_ahead(32, 64 * KIB));
    assert!(is_ahead(8, 256 * KIB));
    assert!(!is_ahead(4, 64 * KIB), "the arm stays for as long as that");
    assert!(!is_ahead(8, 512 * KIB), "each of them is long enough");
}

/// What he reads is long enough, so nothing is read ahead.
#[test]
fn who_has_one_read_at_a_time_does_so_whatever_is_read_at_random_behind_him() {
    let mut rig = Rig::new(&[true, true]);
    for number in 0..64 {
        for start in [0, 1000 * MIB] {
            let end = start + 32 * MIB + number * MIB / 2;
            rig.read(end - MIB / 2, MIB / 2);
            for far in 0..20 {
                rig.ahead
                    .has_read(rig.now, LegId::new(0), end - 30 * MIB + far * MIB);
            }
            rig.ahead.has_read(rig.now, LegId::new(0), end);
        }
    }
    assert!(rig.ahead.streams.iter().all(|stream| stream.lone > 0.75));
}

/// How many of six streams the last leg has, where it is flash that has answered 64 MiB in reads of
/// 128 KiB, one each 260 us, and so many random reads are always in flight.
fn streams_on_flash(disks: usize, random: u64) -> usize {
    let mut rig = Rig::new(&[vec![true; disks], vec![false]].concat());
    for number in 0..512 {
        rig.now += Duration::from_us(260);
        let answer = op(disks, Extent::new(number * 999 * MIB, 128 * KIB));
        let time = Duration::from_us(260);
        rig.ahead.on_complete(rig.now, &answer, time);
    }
    for step in 0..64 {
        for stream in 0..6 {
            rig.read(stream * 1000 * MIB + step * 128 * KIB, 128 * KIB);
        }
        rig.pass(random, Duration::from_ms(20));
    }
    let ways = (0..6).map(|stream| rig.way(stream * 1000 * MIB + 8 * MIB));
    let flash = StreamWay::Homes([LegId::new(disks)].into_iter().collect());
    ways.filter(|way| *way == flash).count()
}

#[test]
fn beside_random_reads_flash_has_one_stream() {
    assert_eq!(streams_on_flash(1, 0), 3, "nobody reads at random");
    assert_eq!(streams_on_flash(2, 0), 2);
    assert_eq!(streams_on_flash(1, 4), 1);
    assert_eq!(streams_on_flash(2, 4), 1);
}

#[test]
fn who_reads_at_random_is_known_soon_and_forgotten_after_some_time() {
    let mut random = AtRandom::new();
    let mut now = Instant::from_ns(1_000_000_000);
    random.update(now, false, &mut []);
    for number in 0..100 {
        random.sent(now, number * MIB);
        now += Duration::from_us(150);
        random.answered(now, number * MIB);
        random.update(now, false, &mut []);
    }
    assert!((random.waiting() - 0.5).abs() < 0.01, "15 ms of flash");
    for number in 0..10 {
        random.sent(now, number * MIB);
        now += Duration::from_ms(50);
        random.answered(now, number * MIB);
    }
    random.update(now, false, &mut []);
    assert!((random.waiting() - 0.75).abs() < 0.05, "0.5 s of a disk");
    now += Duration::from_secs(2);
    random.update(now, false, &mut []);
    assert!(random.waiting() == 0.0);
}

/// Each of them waits behind what is read ahead, so that they are few.
#[test]
fn who_reads_at_random_behind_what_is_read_ahead_on_flash_is_known_soon() {
    let mut random = AtRandom::new();
    let mut now = Instant::from_ns(1_000_000_000);
    random.update(now, true, &mut []);
    for number in 0..15 {
        random.sent(now, number * MIB);
        now += Duration::from_us(7_500);
        random.answered(now, number * MIB);
        random.update(now, true, &mut []);
    }
    assert!(random.waiting() > 0.5, "0.1 s");
    // One that waits for a pause of its leg is nobody.
    let mut random = AtRandom::new();
    random.sent(now, 0);
    random.update(now, true, &mut []);
    now += Duration::from_ms(100);
    random.answered(now, 0);
    random.update(now, true, &mut []);
    assert!(random.waiting() == 0.0);
}

#[test]
fn a_streams_beginning_is_no_read_at_random() {
    let mut rig = Rig::new(&[true, true]);
    assert_eq!(rig.way(0), StreamWay::None);
    rig.read(0, 128 * KIB);
    assert_eq!(rig.way(128 * KIB), StreamWay::Any);
    rig.read(128 * KIB, 128 * KIB);
    assert_eq!(rig.way(256 * KIB), StreamWay::Any);
    assert_eq!(rig.way(384 * KIB), StreamWay::None);
    rig.read_on(256 * KIB, MIB);
    // What is read as far ahead as a program may ask at once belongs to it as well.
    assert_ne!(rig.way(2 * MIB), StreamWay::None);
    rig.now += Duration::from_secs(1);
    assert_eq!(rig.way(MIB + 256 * KIB), StreamWay::Any, "it was over");
}

#[test]
fn two_legs_read_one_stream_in_turns() {
    let mut rig = Rig::new(&[false, false]);
    rig.read_on(0, 100 * MIB);
    for leg in [0, 1] {
        let size = RUN_BYTES_FLASH.get();
        assert!(rig.sent.iter().all(|(_, extent)| extent.len() == size));
        let asked = rig.legs[leg].read_bytes_in_flight;
        assert_eq!(asked, ASKED_BYTES_FLASH.get(), "and no more at a time");
    }
}

#[test]
fn a_disk_is_handed_one_read_of_a_stretch_until_it_has_ended_that() {
    let mut rig = Rig::new(&[true, true, true]);
    let mut most = 0;
    for step in 0..1600 {
        rig.read(step * 128 * KIB, 128 * KIB);
        if let Some(&(leg, _)) = rig.sent.first() {
            rig.answer(leg, Duration::from_ms(2));
        }
        for leg in 0..3 {
            let sent = rig.sent_to(leg);
            assert!(sent.windows(2).all(|two| two[1] == two[0] + 1), "{sent:?}");
            most = most.max(sent.len());
        }
    }
    assert_eq!(most, 4, "of one stretch it has several");
}

/// How much of a stream each of two legs is asked for while it reads so much from `from` on, where
/// they answer 1 MiB in so many milliseconds.
fn asked_for(rig: &mut Rig, from: u64, bytes: u64, times_ms: [u64; 2]) -> [u64; 2] {
    let mut asked = [0, 0];
    rig.now += Duration::from_secs(1);
    rig.all_ends_at_once();
    for offset in (from..from + bytes).step_by(1 << 20) {
        rig.read(offset, MIB);
        if let Some(&(leg, _)) = rig.sent.first() {
            asked[leg] += MIB;
            rig.answer_mib(leg, Duration::from_ms(times_ms[leg]));
        }
    }
    asked
}

#[test]
fn a_disk_that_was_too_slow_is_asked_again() {
    let mut rig = Rig::new(&[true, false]);
    let at = |number: u64| number * 1000 * MIB;
    let of_disk = |rig: &mut Rig, number, disk_ms| {
        asked_for(rig, at(number), 200 * MIB, [disk_ms, 2])[0] / MIB
    };
    assert!(of_disk(&mut rig, 0, 5) > 20);
    of_disk(&mut rig, 1, 90);
    assert_eq!(of_disk(&mut rig, 2, 5), 0);
    // It took 0.36 s to find that out.
    rig.now += Duration::from_secs(4);
    assert_eq!(of_disk(&mut rig, 3, 5), 0);
    rig.now += Duration::from_secs(4);
    assert!(of_disk(&mut rig, 4, 5) > 20);
}

#[test]
fn who_writes_where_he_reads_has_nothing_read_ahead() {
    let write = |rig: &mut Rig, offset| {
        let op = OpView {
            kind: OpKind::Write,
            ..op(0, Extent::new(offset, MIB))
        };
        rig.ahead.on_dispatch(rig.now, &op, None);
    };
    let mut rig = Rig::new(&[false, false]);
    for step in 0..100 {
        rig.read(2 * step * MIB, MIB);
        write(&mut rig, (2 * step + 1) * MIB);
    }
    assert_eq!(rig.bytes(), 0);
    // Behind it he may write what he has read.
    rig.now += Duration::from_secs(1);
    for step in 0..64 {
        rig.read((200 + step) * MIB, MIB);
        write(&mut rig, (200 + step) * MIB);
    }
    assert!(rig.bytes() > 0);
}

/// Whether a stream is read ahead that somebody has written so many blocks of 32 KiB in front of,
/// in each MiB, once or twice each.
fn is_read_beside_writes(blocks: u64, times: usize) -> bool {
    let mut rig = Rig::new(&[false, false]);
    for step in 0..40 {
        for block in 0..blocks {
            let extent = Extent::new((step + 1) * MIB + block * 32 * KIB, 32 * KIB);
            for leg in [0, 1].repeat(times) {
                let op = OpView {
                    kind: OpKind::Write,
                    ..op(leg, extent)
                };
                rig.ahead.on_dispatch(rig.now, &op, None);
            }
        }
        rig.read_on(step * MIB, MIB);
        rig.all_ends_at_once();
    }
    rig.ahead.streams[0].is_confirmed(rig.now)
}

/// Who writes at random comes by once in a while.
#[test]
fn a_stream_is_written_where_that_is_one_byte_of_eight() {
    assert!(is_read_beside_writes(1, 1));
    assert!(is_read_beside_writes(4, 1), "an eighth, and no more");
    assert!(!is_read_beside_writes(6, 1));
    // Each leg gets each write; but who writes a block twice writes more.
    assert!(!is_read_beside_writes(4, 2));
}

/// Where reads of a reader go who asks for 48 MiB at once, when 48 MiB of his were read.
fn ways_far_ahead(turns: bool) -> Vec<StreamWay> {
    let mut rig = Rig::new(&[turns, turns]);
    let mut ways = Vec::new();
    for step in 0..96 {
        rig.read_on(step * MIB, MIB);
        if step < 48 {
            rig.all_ends_at_once();
        } else {
            ways.push(rig.way((step + 1) * MIB));
        }
    }
    ways.dedup();
    ways
}

/// He goes on where a disk is, and where the next one has not begun, to that which reads what lies
/// before.
#[test]
fn a_reader_who_is_ahead_of_what_is_read_goes_to_the_disk_that_is_there() {
    let planned = |leg| StreamWay::Planned(LegId::new(leg));
    let homes = |leg| StreamWay::Homes([LegId::new(leg)].into_iter().collect());
    let is_asked = StreamWay::Any;
    assert_eq!(
        ways_far_ahead(true),
        [
            is_asked,
            planned(0),
            is_asked,
            planned(1),
            homes(0),
            homes(1)
        ]
    );
    assert_eq!(ways_far_ahead(false), [StreamWay::Any]);
}

/// In an hour of random reads some come near the ends of streams that are long over.
#[test]
fn a_read_beside_the_end_of_a_stream_that_is_over_is_one_at_random() {
    let mut rig = Rig::new(&[false, false]);
    rig.read_on(0, 16 * MIB);
    rig.all_ends_at_once();
    rig.now += Duration::from_secs(10);
    rig.read(16 * MIB + 64 * KIB, 4 * KIB);
    rig.plan(None);
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
    let way = rig.ahead.way(rig.now, 16 * MIB - 64 * KIB, &rig.legs);
    assert_eq!(way, StreamWay::None);
    // Who goes on exactly there is the same reader.
    rig.read_on(16 * MIB, 4 * MIB);
    assert!(!rig.sent.is_empty());
}

#[test]
fn a_stream_that_passes_where_others_ended_is_one() {
    let mut rig = Rig::new(&[true, true]);
    for end in [8, 4] {
        rig.read_on(0, end * MIB);
        rig.all_ends_at_once();
        rig.now += Duration::from_secs(1);
    }
    // With one that was over, both legs would have a stream.
    rig.read_on(0, 16 * MIB);
    let mut legs: Vec<usize> = rig.sent.iter().map(|(leg, _)| *leg).collect();
    legs.dedup();
    assert_eq!(legs, [0, 1]);
    assert_eq!(
        rig.ahead
            .streams
            .iter()
            .filter(|one| one.is_read(rig.now))
            .count(),
        1
    );
}

#[test]
fn a_reader_that_comes_back_finds_nothing_planned() {
    let mut rig = Rig::new(&[false, false]);
    rig.read_on(0, 100 * MIB);
    rig.all_ends_at_once();
    rig.now += Duration::from_secs(3);
    // It may be somebody who reads at random and comes by.
    rig.read_on(100 * MIB, MIB - 128 * KIB);
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
    rig.read_on(101 * MIB - 128 * KIB, 128 * KIB);
    assert_eq!(rig.bytes(), MIB);
    assert_eq!(rig.sent[0].1.offset(), 101 * MIB);
}

/// Who reads file after file leaves one stream for another, of which legs would be too few.
#[test]
fn a_stream_that_is_quiet_takes_no_part_and_what_it_has_is_given_back() {
    let mut rig = Rig::new(&[false, false]);
    for step in 0..800 {
        rig.read(step * 128 * KIB, 128 * KIB);
        rig.now += Duration::from_us(100);
        rig.all_ends_at_once();
    }
    assert_eq!(rig.ahead.unwanted(rig.now, None), None, "it is read");
    rig.now += Duration::from_ms(20);
    assert_eq!(rig.ahead.unwanted(rig.now, None), None, "nobody else reads");
    // The next one has both legs.
    let before = rig.asked.len();
    rig.read_on(10_000 * MIB, 8 * MIB);
    let asked = &rig.asked[before..];
    assert!(!asked.is_empty() && asked.iter().all(|extent| extent.offset() > 10_000 * MIB));
    let asked = Extent::new(100 * MIB, 128 * KIB);
    let unwanted = rig.ahead.unwanted(rig.now, Some(asked));
    assert_eq!(unwanted, None, "its reader is back");
    let ahead = rig.ahead.unwanted(rig.now, None);
    let ahead = ahead.expect("something of the first");
    assert_eq!(ahead.offset(), 100 * MIB);
    assert_eq!(rig.ahead.unwanted(rig.now, None), None);
    // Who only paused goes on where he was, and has something read ahead again.
    rig.all_ends_at_once();
    rig.now += Duration::from_ms(20);
    let before = rig.asked.len();
    rig.read_on(100 * MIB, 4 * MIB);
    let asked = &rig.asked[before..];
    assert!(!asked.is_empty() && asked.iter().all(|extent| extent.offset() > 100 * MIB));
}

/// A reader that has to wait now and then is not quiet because he does.
#[test]
fn a_stream_is_quiet_after_longer_than_it_ever_was() {
    let mut rig = Rig::new(&[true, true, true]);
    let read = |rig: &mut Rig, step: u64| {
        rig.read(step * 128 * KIB, 128 * KIB);
        let pause = if step.is_multiple_of(100) { 40 } else { 1 };
        rig.now += Duration::from_ms(pause);
    };
    for step in 0..401 {
        read(&mut rig, step);
    }
    rig.now += Duration::from_ms(100);
    assert!(rig.ahead.streams[0].is_active(rig.now));
    rig.now += Duration::from_ms(250);
    assert!(
        !rig.ahead.streams[0].is_active(rig.now),
        "and that was long"
    );
    assert!(rig.ahead.streams[0].is_confirmed(rig.now), "but not over");
}

/// A leg that is given a MiB at a time is known by what a byte takes right behind another one.
#[test]
fn of_short_files_flash_is_known_by_the_time_of_a_byte() {
    let mut rig = Rig::new(&[false, false]);
    let mut bytes = [0, 0];
    for file in 0..300 {
        for step in 0..32 {
            rig.read(file * 1000 * MIB + step * 128 * KIB, 128 * KIB);
        }
        while let Some(&(leg, extent)) = rig.sent.first() {
            if file >= 100 {
                bytes[leg] += extent.len();
            }
            // The second one takes five times as long.
            let us = extent.len() / KIB / [2, 10][1 - leg];
            rig.answer(leg, Duration::from_us(us));
        }
        rig.now += Duration::from_ms(20);
    }
    assert!(bytes[0] > 2 * bytes[1], "{bytes:?}");
}
