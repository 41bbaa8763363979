//! How a steered rate behaves against clients of a device that does one thing at a time, in virtual
//! time.

use std::collections::VecDeque;

use heliostat_types::{Duration, Instant, Prng, RandomStream};
use stdx::histogram::Histogram;

use super::{Felt, Go, Pace, rate_of, time_for};

const MB: u64 = 1_000_000;

/// A device: a seek wherever it goes on elsewhere, a half to three halves of this, and then so many
/// bytes per second.
#[derive(Clone, Copy)]
struct Device {
    seek: Duration,
    rate: u64,
}

const DISK: Device = Device {
    seek: Duration::from_ms(8),
    rate: 150 * MB,
};
const FLASH: Device = Device {
    seek: Duration::from_us(80),
    rate: 500 * MB,
};

#[derive(Clone, Copy)]
enum Op {
    Client { sent: Instant },
    Window { bytes: u64 },
}

/// Clients that each ask for 4 KiB anywhere, think, and ask again; and background windows in order.
struct World {
    device: Device,
    pace: Pace,
    now: Instant,
    queue: VecDeque<Op>,
    ends_at: Option<Instant>,
    was_window: bool,
    in_flight: u64,
    windows: u32,
    had_window_at: Instant,
    /// When each client asks next.
    asks: Vec<Option<Instant>>,
    think: Duration,
    prng: RandomStream,
    response: Histogram,
    moved: u64,
    has_background: bool,
}

impl World {
    fn new(device: Device, clients: usize, think: Duration) -> Self {
        Self {
            device,
            pace: Pace::new(1, device.seek > Duration::from_ms(1)),
            now: Instant::ZERO,
            queue: VecDeque::new(),
            ends_at: None,
            was_window: false,
            in_flight: 0,
            windows: 0,
            had_window_at: Instant::ZERO,
            asks: vec![Some(Instant::ZERO); clients],
            think,
            prng: RandomStream::new(1, "clients", 0),
            response: Histogram::new(),
            moved: 0,
            has_background: true,
        }
    }

    /// The device takes the next operation up.
    fn start(&mut self) {
        let Some(op) = self.queue.front().filter(|_| self.ends_at.is_none()) else {
            return;
        };
        let seek = self.device.seek;
        let seek = seek / 2 + Duration::from_ns(self.prng.below(seek.as_ns()));
        let time = match *op {
            Op::Client { .. } => seek + time_for(4096, self.device.rate),
            Op::Window { bytes } if self.was_window => time_for(bytes, self.device.rate),
            Op::Window { bytes } => seek + time_for(bytes, self.device.rate),
        };
        self.was_window = matches!(op, Op::Window { .. });
        self.ends_at = Some(self.now + time);
    }

    fn end(&mut self) {
        self.ends_at = None;
        match self.queue.pop_front().expect("it has ended") {
            Op::Client { sent } => {
                let took = self.now - sent;
                self.response.record(took.as_ns());
                let age = self.now.saturating_since(self.had_window_at);
                let is_beside = self.windows > 0 || age < took;
                self.pace.note_client(0, false, took, is_beside);
                let free = self.asks.iter_mut().find(|ask| ask.is_none());
                // Anywhere between nothing and twice as long.
                let ns = self.prng.below(2 * self.think.as_ns() + 1);
                *free.expect("a client waits") = Some(self.now + Duration::from_ns(ns));
            }
            Op::Window { bytes } => {
                self.in_flight -= bytes;
                self.windows -= 1;
                self.had_window_at = self.now;
                self.moved += bytes;
            }
        }
    }

    /// Begins windows as far as it may. When to look again.
    fn background(&mut self) -> Option<Instant> {
        let has_clients = self.queue.len() > self.windows as usize;
        self.pace.adapt(self.now, has_clients);
        while self.has_background {
            let bytes = self.pace.window_max();
            match self.pace.may_begin(self.now, bytes, self.in_flight, false) {
                Go::Now => {}
                Go::At(at) => return Some(at),
                Go::Later => return None,
            }
            self.pace.begun(self.now, bytes);
            self.in_flight += bytes;
            self.windows += 1;
            self.queue.push_back(Op::Window { bytes });
        }
        None
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            for ask in &mut self.asks {
                if ask.is_some_and(|at| at <= self.now) {
                    *ask = None;
                    self.queue.push_back(Op::Client { sent: self.now });
                }
            }
            let wake = self.background();
            self.start();
            let asks = self.asks.iter().copied().flatten();
            let next = asks.chain(self.ends_at).chain(wake).min();
            self.now = next.unwrap_or(end).min(end).max(self.now);
            if self.ends_at.is_some_and(|at| at <= self.now) {
                self.end();
            }
        }
    }

    /// From now on, what happened before does not count.
    fn measure(&mut self, time: Duration) -> (Duration, u64) {
        self.response.reset();
        self.moved = 0;
        self.run(time);
        let slow = Duration::from_ns(self.response.quantile(9900));
        (slow, rate_of(self.moved, time))
    }
}

#[test]
fn an_idle_device_is_used_to_the_full() {
    for device in [DISK, FLASH] {
        let mut world = World::new(device, 0, Duration::ZERO);
        world.pace.set_rates(Instant::ZERO, MB, 10_000 * MB);
        world.run(Duration::from_ms(200));
        let (_, rate) = world.measure(Duration::from_secs(1));
        assert!(rate * 100 >= device.rate * 95, "{rate} of {}", device.rate);
    }
}

#[test]
fn clients_wait_at_most_twice_as_long_and_the_floor_is_kept() {
    let think = [Duration::ZERO, Duration::from_ms(20), Duration::from_ms(3)];
    for (device, name) in [(DISK, "disk"), (FLASH, "flash")] {
        for clients in [1, 4, 16] {
            for think in think {
                let mut world = World::new(device, clients, think);
                world.has_background = false;
                world.run(Duration::from_secs(2));
                let (alone, _) = world.measure(Duration::from_secs(20));
                world.has_background = true;
                world.run(Duration::from_secs(5));
                let (beside, rate) = world.measure(Duration::from_secs(20));
                let told = format!(
                    "{name}, {clients} clients thinking {think}: {alone} alone, {beside} beside \
                     {rate} bytes/s"
                );
                assert!(beside <= alone * 2 + Duration::from_us(100), "{told}");
                assert!(rate * 100 >= MB * 95, "{told}");
            }
        }
    }
}

#[test]
fn nobody_there_is_noticed_and_somebody_too() {
    let mut world = World::new(DISK, 1, Duration::ZERO);
    world.pace.set_rates(Instant::ZERO, MB, 200 * MB);
    world.run(Duration::from_secs(3));
    assert!(world.pace.rate < 40 * MB, "{}", world.pace.rate);
    world.think = Duration::from_secs(3600);
    world.run(Duration::from_ms(700));
    assert_eq!(world.pace.rate, 200 * MB);
    world.asks = vec![Some(world.now)];
    world.think = Duration::ZERO;
    world.run(Duration::from_ms(100));
    assert!(world.pace.rate <= 10 * MB, "{}", world.pace.rate);
}

#[test]
fn rates_change_while_it_runs() {
    let mut world = World::new(FLASH, 0, Duration::ZERO);
    world.pace.set_rates(Instant::ZERO, 0, 10 * MB);
    world.run(Duration::from_secs(1));
    let (_, rate) = world.measure(Duration::from_secs(1));
    assert!((9 * MB..=11 * MB).contains(&rate), "{rate}");
    world.pace.set_rates(world.now, 0, 50 * MB);
    world.run(Duration::from_secs(1));
    let (_, rate) = world.measure(Duration::from_secs(1));
    assert!((48 * MB..=52 * MB).contains(&rate), "{rate}");
    world.pace.set_rates(world.now, 0, 0);
    world.run(Duration::from_secs(1));
    let (_, rate) = world.measure(Duration::from_secs(10));
    assert!(rate <= MB, "{rate}");
}

#[test]
fn it_looks_before_it_begins() {
    let mut world = World::new(DISK, 4, Duration::ZERO);
    world.has_background = false;
    world.run(Duration::from_secs(1));
    world.has_background = true;
    world.pace.begin(world.now);
    let (_, rate) = world.measure(Duration::from_ms(99));
    assert_eq!(rate, 0);
    let (_, rate) = world.measure(Duration::from_secs(5));
    assert!(rate >= MB, "{rate}");
}

#[test]
fn what_is_felt_alone_rises_only_where_nothing_is_left_behind() {
    let mut felt = Felt::default();
    let mut look = |ms, is_calm| {
        (0..100).for_each(|_| felt.alone.record(Duration::from_ms(ms)));
        felt.looked(is_calm);
        felt.measure.expect("enough was seen").mean_ns / 1000
    };
    assert_eq!(look(8, false), 8_000);
    assert_eq!(look(100, false), 8_000);
    assert_eq!(look(100, true), 12_000);
    assert_eq!(look(100, true), 18_000);
    assert_eq!(look(2, false), 10_000);
}

#[test]
fn one_operation_in_200_may_be_slow() {
    let mut felt = Felt::default();
    (0..100).for_each(|_| felt.alone.record(Duration::from_ms(8)));
    felt.looked(false);
    let mut take = |fast: u32, slow: u32| {
        (0..fast).for_each(|_| felt.note(Duration::from_ms(8)));
        (0..slow).for_each(|_| felt.note(Duration::from_ms(17)));
        felt.settle().0
    };
    assert!(!take(250, 1));
    assert!(take(0, 1), "the second one is too early");
    assert!(!take(10, 0), "nothing new");
    assert!(!take(400, 1), "made up for");
}
