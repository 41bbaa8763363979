//! What a pick costs.
//!
//!     cargo run --release -p heliostat-policy --example pick_cost
//!
//! prints, for every policy, among three legs and among four, the time of a pick by itself, and of
//! all that belongs to a read: the pick, and what the policy wants to be told of the read from its
//! arrival to its answer. Beside that stands all of it with three legs where somebody could listen
//! to the policy, as where it is served, and nobody does. Each is the median of many batches.
//!
//! The clock is read around each pick for the first of these, and once more before, which says what
//! reading it costs; for the others around a batch.
//!
//!     pick_cost --policy NAME --count N [--legs N] [--served]
//!
//! does N reads and prints nothing, to be run under `valgrind --tool=callgrind`: instructions per
//! read are the difference between two counts, divided by theirs. With
//! `--toggle-collect='*ReadPolicy*plan_read*'` they are those of picks alone. With `--served`
//! somebody could listen.

#![expect(clippy::print_stdout, reason = "a table for people")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this measures time, which policies never do"
)]

use std::hint::black_box;
use std::process::ExitCode;

use heliostat_policy::{
    ArrayInfo, Decision, Layout, LegView, Listen, Listener, OpView, PolicySpec, Prefetch, ReadPlan,
    ReadPolicy, ReadRequest, all_policies,
};
use heliostat_types::{
    ClientId, Duration, Extent, Instant, LEGS_MAX, LegId, OpKind, Prng, RandomStream, StreamId,
};

const LEG_COUNT: usize = 3;
const USAGE: &str = "usage: pick_cost [--policy NAME --count N [--legs N] [--served]]";
/// What is read before anything is measured, from legs that are idle, so that each is tried. Who
/// follows streams knows some after a while, and all reads are compared with those. They are over
/// by then.
const STREAMS_BEFORE: u64 = 64;
const STREAM_READS: u64 = 16;
/// Long enough that reading the clock does not show, short enough that few are disturbed.
const BATCH_READS: u64 = 20_000;
/// All policies have their turn in each round, so that a busy moment of the machine meets them all.
const ROUNDS: usize = 101;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => print_table(),
        ["--policy", policy, "--count", count, options @ ..] => {
            let (legs, served) = match options {
                ["--legs", legs, served @ ..] => (legs.parse(), served),
                served => (Ok(LEG_COUNT), served),
            };
            let (Ok(spec), Ok(count), Ok(legs @ LEG_COUNT..=LEGS_MAX), [] | ["--served"]) =
                (PolicySpec::parse(policy), count.parse(), legs, served)
            else {
                println!("{USAGE}");
                return ExitCode::from(2);
            };
            let mut driver = Driver::new(&spec, legs);
            if !served.is_empty() {
                driver = driver.served();
            }
            driver.read_many(count, &mut Unwatched);
        }
        _ => {
            println!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn print_table() {
    let mut drivers: Vec<[Driver; 3]> = all_policies()
        .map(|policy| {
            let spec = PolicySpec::new(policy);
            let driver = |legs| Driver::new(&spec, legs);
            [
                driver(LEG_COUNT),
                driver(LEG_COUNT + 1),
                driver(LEG_COUNT).served(),
            ]
        })
        .collect();
    // A pick by itself and a whole read, for each driver.
    let mut times = vec![[const { [Vec::new(), Vec::new()] }; 3]; drivers.len()];
    for _ in 0..ROUNDS {
        for (drivers, times) in drivers.iter_mut().zip(&mut times) {
            for (driver, [picks, reads]) in drivers.iter_mut().zip(times) {
                picks.push(driver.time_picks());
                reads.push(driver.time_batch());
            }
        }
    }
    println!(
        "{:<20} {:>8} {:>8} {:>8} {:>8} {:>8}   watches",
        "", "3 legs:", "", "4 legs:", "", "3 legs:"
    );
    println!(
        "{:<20} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "policy", "pick ns", "read ns", "pick ns", "read ns", "served"
    );
    for ([driver, ..], times) in drivers.iter().zip(&mut times) {
        let [[pick, read], [pick_4, read_4], [_, served]] = times.each_mut().map(|times| {
            times.each_mut().map(|times| {
                times.sort_by(f64::total_cmp);
                times[ROUNDS / 2]
            })
        });
        let observes = driver.policy.observes();
        let watches = match (observes.dispatch, observes.complete) {
            (false, false) => "nothing",
            (true, false) => "dispatches",
            (false, true) => "completions",
            (true, true) => "dispatches, completions",
        };
        let name = driver.policy.name();
        print!("{name:<20}");
        for nanoseconds in [pick, read, pick_4, read_4, served] {
            print!(" {nanoseconds:>8.1}");
        }
        println!("   {watches}");
    }
}

/// What is done around each pick.
trait Watch {
    fn before(&mut self) {}
    fn after(&mut self) {}
}

/// Nothing.
struct Unwatched;

/// All bytes at the same place of every leg.
#[derive(Debug)]
struct Mirror;

impl Layout for Mirror {
    fn chunk_bytes(&self) -> Option<u64> {
        None
    }

    fn address_on(&self, _: LegId, offset: u64) -> Option<u64> {
        Some(offset)
    }
}

impl Watch for Unwatched {}

/// How long picks take, without what it takes to read the clock.
#[derive(Default)]
struct Clock {
    before: Option<(std::time::Instant, std::time::Instant)>,
    picks_ns: f64,
}

impl Watch for Clock {
    fn before(&mut self) {
        let first = std::time::Instant::now();
        self.before = Some((first, std::time::Instant::now()));
    }

    fn after(&mut self) {
        let after = std::time::Instant::now();
        if let Some((first, second)) = self.before {
            let both = (after - second).as_secs_f64() - (second - first).as_secs_f64();
            self.picks_ns += both * 1e9;
        }
    }
}

/// Who could listen: nobody, which the compiler does not know.
struct Watchers(Vec<u64>);

impl Listen for Watchers {
    fn is_on(&self) -> bool {
        !self.0.is_empty()
    }

    fn on_decision(&mut self, _decision: &Decision<'_>) {}
}

/// Two hard disks, and flash, under random reads, as far as a policy can see. What is in flight
/// moves by itself, whatever the policy picks, so that all policies are shown the same.
struct Driver {
    policy: Box<dyn ReadPolicy>,
    legs: Vec<LegView>,
    now: Instant,
    prng: RandomStream,
    prefetch: Vec<Prefetch>,
}

impl Driver {
    fn new(spec: &PolicySpec, leg_count: usize) -> Self {
        let legs = (0..leg_count).map(|leg| LegView {
            leg: LegId::new(leg),
            address: 0,
            reads_in_flight: 0,
            writes_in_flight: 0,
            read_bytes_in_flight: 0,
            write_bytes_in_flight: 0,
            last_sent_end: Some(0),
            rotational: leg < 2,
            read_preferred: leg == 2,
            queue_depth: 32,
            optimal_io_bytes: 0,
            reads_completed: 1_000,
            read_wait: Duration::from_ms(1_000),
            own_outstanding: None,
        });
        let mut driver = Self {
            policy: spec
                .build(&ArrayInfo::new(leg_count))
                .expect("no policy names a leg above the first by default"),
            legs: legs.collect(),
            now: Instant::ZERO,
            prng: RandomStream::new(1, "pick-cost", 0),
            prefetch: Vec::new(),
        };
        for number in 0..STREAM_READS * STREAMS_BEFORE {
            let (read, stream) = (number / STREAMS_BEFORE, number % STREAMS_BEFORE);
            let extent = Extent::new((stream << 33) + (read << 16), 1 << 16);
            driver.read(extent, &mut Unwatched);
        }
        for view in &mut driver.legs {
            view.reads_in_flight = 1;
            view.read_bytes_in_flight = 4096;
        }
        driver
    }

    /// The same policy, to which somebody could listen.
    fn served(mut self) -> Self {
        self.policy = Box::new(Listener::new(self.policy, Watchers(Vec::new())));
        self
    }

    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn time_batch(&mut self) -> f64 {
        let start = std::time::Instant::now();
        self.read_many(BATCH_READS, &mut Unwatched);
        start.elapsed().as_secs_f64() * 1e9 / BATCH_READS as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn time_picks(&mut self) -> f64 {
        let mut clock = Clock::default();
        self.read_many(BATCH_READS, &mut clock);
        clock.picks_ns / BATCH_READS as f64
    }

    fn read_many(&mut self, count: u64, watch: &mut impl Watch) {
        for number in 0..count {
            // An odd factor walks through the array without a pattern that a branch predictor
            // would learn.
            let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.now += Duration::from_ns(1_000 + (bits & 0xff));
            let extent = Extent::new((bits >> 24) & !4095, 4096);
            let at = usize::from((bits >> 62) != 0) + usize::from((bits >> 61) & 1 != 0);
            let changed = &mut self.legs[at];
            changed.reads_in_flight = u32::from(changed.reads_in_flight == 1) + 1;
            changed.read_bytes_in_flight = u64::from(changed.reads_in_flight) * 4096;
            changed.last_sent_end = Some(extent.end());
            self.read(extent, watch);
        }
    }

    /// A read from its arrival to its answer.
    fn read(&mut self, extent: Extent, watch: &mut impl Watch) {
        let observes = self.policy.observes();
        for view in &mut self.legs {
            view.address = extent.offset();
        }
        let request = ReadRequest {
            client: ClientId((extent.offset() >> 12) & 3),
            may_split: true,
            stream: StreamId(0),
            extent,
        };
        let legs = black_box(self.legs.as_slice());
        let prng: &mut dyn Prng = &mut self.prng;
        watch.before();
        let plan = self.policy.plan_read(self.now, &request, legs, prng);
        watch.after();
        let leg = match plan {
            ReadPlan::Leg(leg) => leg,
            ReadPlan::Split(pieces) => pieces.as_slice()[0].leg,
        };
        let op = OpView {
            leg: black_box(leg),
            kind: OpKind::Read,
            extent,
            array_offset: extent.offset(),
        };
        if observes.dispatch {
            self.policy.on_dispatch(self.now, &op);
        }
        if observes.late {
            let view = &self.legs[leg.index()];
            black_box(self.policy.late_after(self.now, &request, view, false));
        }
        if observes.requests {
            self.prefetch.clear();
            let (legs, prefetch) = (&self.legs, &mut self.prefetch);
            let room_bytes = 64 << 20;
            self.policy.prefetch(
                self.now,
                Some(&request),
                legs,
                &Mirror,
                room_bytes,
                prefetch,
            );
        }
        let service_time = Duration::from_us(if leg.index() < 2 { 4_000 } else { 100 });
        self.now += service_time;
        if observes.complete {
            self.policy.on_complete(self.now, &op, service_time, true);
        }
    }
}
