//! What a pick costs.
//!
//!     cargo run --release -p heliostat-policy --example pick_cost
//!
//! prints, for every policy, the time of a pick among three legs together with what the policy
//! wants to be told of the read: the median of several batches. Beside it stands the same where
//! somebody could listen to the policy, as where it is served, and nobody does; and where there are
//! four legs.
//!
//!     pick_cost --policy NAME --count N [--served]
//!
//! does N reads and prints nothing, to be run under `valgrind --tool=callgrind`: instructions per
//! read are the difference between two counts, divided by theirs. With `--served` somebody could
//! listen.

#![expect(clippy::print_stdout, reason = "a table for people")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this measures time, which policies never do"
)]

use std::hint::black_box;
use std::process::ExitCode;

use heliostat_policy::{
    ArrayInfo, Decision, LegView, Listen, Listener, OpView, PolicySpec, ReadPlan, ReadPolicy,
    ReadRequest, all_policies,
};
use heliostat_types::{
    ClientId, Duration, Extent, Instant, LegId, OpKind, Prng, RandomStream, StreamId,
};

const LEG_COUNT: usize = 3;
/// Long enough that reading the clock does not show, short enough that few are disturbed.
const BATCH_READS: u64 = 20_000;
/// All policies have their turn in each round, so that a busy moment of the machine meets them all.
const ROUNDS: usize = 101;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => print_table(),
        ["--policy", policy, "--count", count, served @ ..]
            if matches!(served, [] | ["--served"]) =>
        {
            let (Ok(spec), Ok(count)) = (PolicySpec::parse(policy), count.parse()) else {
                println!("there is no such policy or count");
                return ExitCode::from(2);
            };
            let mut driver = Driver::new(&spec, LEG_COUNT);
            if !served.is_empty() {
                driver = driver.served();
            }
            driver.read_many(count);
        }
        _ => {
            println!("usage: pick_cost [--policy NAME --count N [--served]]");
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
                driver(LEG_COUNT).served(),
                driver(LEG_COUNT + 1),
            ]
        })
        .collect();
    let mut times = vec![[const { Vec::new() }; 3]; drivers.len()];
    for _ in 0..ROUNDS {
        for (drivers, times) in drivers.iter_mut().zip(&mut times) {
            for (driver, times) in drivers.iter_mut().zip(times) {
                times.push(driver.time_batch());
            }
        }
    }
    println!(
        "{:<20} {:>8} {:>8} {:>8}   watches",
        "policy", "ns/read", "served", "4 legs"
    );
    for ([driver, ..], times) in drivers.iter().zip(&mut times) {
        let [alone, served, more] = times.each_mut().map(|times| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        });
        let observes = driver.policy.observes();
        let watches = match (observes.dispatch, observes.complete) {
            (false, false) => "nothing",
            (true, false) => "dispatches",
            (false, true) => "completions",
            (true, true) => "dispatches, completions",
        };
        let name = driver.policy.name();
        println!("{name:<20} {alone:>8.1} {served:>8.1} {more:>8.1}   {watches}");
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

/// Two hard disks, and flash, under random reads, as far as a policy can see. The legs' state moves
/// by itself, whatever the policy picks, so that all policies are shown the same.
struct Driver {
    policy: Box<dyn ReadPolicy>,
    legs: Vec<LegView>,
    now: Instant,
    prng: RandomStream,
}

impl Driver {
    fn new(spec: &PolicySpec, leg_count: usize) -> Self {
        let legs = (0..leg_count).map(|leg| LegView {
            leg: LegId::new(leg),
            address: 0,
            reads_in_flight: 1,
            writes_in_flight: 0,
            read_bytes_in_flight: 4096,
            write_bytes_in_flight: 0,
            last_sent_end: Some(0),
            rotational: leg < 2,
            read_preferred: leg == 2,
            queue_depth: 32,
            optimal_io_bytes: 0,
            reads_completed: 1_000,
            read_wait: Duration::from_ms(1_000),
        });
        Self {
            policy: spec
                .build(&ArrayInfo::new(leg_count))
                .expect("no policy names a leg above the first by default"),
            legs: legs.collect(),
            now: Instant::ZERO,
            prng: RandomStream::new(1, "pick-cost", 0),
        }
    }

    /// The same policy, to which somebody could listen.
    fn served(mut self) -> Self {
        self.policy = Box::new(Listener::new(self.policy, Watchers(Vec::new())));
        self
    }

    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn time_batch(&mut self) -> f64 {
        let start = std::time::Instant::now();
        self.read_many(BATCH_READS);
        start.elapsed().as_secs_f64() * 1e9 / BATCH_READS as f64
    }

    fn read_many(&mut self, count: u64) {
        let observes = self.policy.observes();
        for number in 0..count {
            // An odd factor walks through the array without a pattern that a branch predictor
            // would learn.
            let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let extent = Extent::new((bits >> 24) & !4095, 4096);
            let at = usize::from((bits >> 62) != 0) + usize::from((bits >> 61) & 1 != 0);
            self.now += Duration::from_ns(1_000 + (bits & 0xff));
            for view in &mut self.legs {
                view.address = extent.offset();
            }
            let changed = &mut self.legs[at];
            changed.reads_in_flight = u32::from(changed.reads_in_flight == 1) + 1;
            changed.read_bytes_in_flight = u64::from(changed.reads_in_flight) * 4096;
            changed.last_sent_end = Some(extent.end());
            let request = ReadRequest {
                client: ClientId(number & 3),
                stream: StreamId(0),
                extent,
            };
            let legs = black_box(self.legs.as_slice());
            let prng: &mut dyn Prng = &mut self.prng;
            let leg = match self.policy.plan_read(self.now, &request, legs, prng) {
                ReadPlan::Leg(leg) => leg,
                ReadPlan::Split(pieces) => pieces.as_slice()[0].leg,
            };
            let op = OpView {
                leg: black_box(leg),
                kind: OpKind::Read,
                extent,
            };
            if observes.dispatch {
                self.policy.on_dispatch(self.now, &op);
            }
            if observes.complete {
                let service_time = Duration::from_us(if leg.index() < 2 { 4_000 } else { 100 });
                self.policy.on_complete(self.now, &op, service_time, true);
            }
        }
    }
}
