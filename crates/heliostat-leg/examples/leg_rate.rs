//! How fast legs are, and what an operation costs: random 4 KiB reads at depth 1 and 32, through
//! io_uring and through threads. Reads only.
//!
//!     cargo run --release -p heliostat-leg --example leg_rate -- ./leg.img mem:1g

use std::sync::Arc;
use std::time::Duration;

use heliostat_leg::{Arena, ArenaRange, IoChoice, LegError, LegHub, LegIo, LegMemory, LegSpec};
use heliostat_types::{Extent, Instant, LegId, LegOpId, OpKind, Prng, RandomStream};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, clock_gettime};

/// How long each figure is measured.
const MEASURED: Duration = Duration::from_secs(3);

const BLOCK_BYTES: u64 = 4096;

#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
fn main() -> Result<(), LegError> {
    println!("leg, backend, depth: reads per second, processor time per read");
    for text in std::env::args().skip(1) {
        let spec = LegSpec::parse(&text)?;
        for choice in [IoChoice::Auto, IoChoice::ThreadPool] {
            for depth in [1, 32] {
                let rate = measure(&spec, choice, depth)?;
                println!("{text}, {}, {depth}: {}", rate.backend, rate.figures());
            }
        }
    }
    Ok(())
}

/// What was measured.
struct Rate {
    backend: String,
    reads: u64,
    taken: Duration,
    processor: Duration,
}

impl Rate {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    fn figures(&self) -> String {
        let reads = self.reads as f64;
        let per_second = reads / self.taken.as_secs_f64();
        let processor_us = self.processor.as_secs_f64() * 1e6 / reads;
        format!("{per_second:.0} /s, {processor_us:.2} us")
    }
}

fn measure(spec: &LegSpec, choice: IoChoice, depth: u64) -> Result<Rate, LegError> {
    let leg = spec.open()?;
    let blocks = leg.info().size_bytes / BLOCK_BYTES;
    let arena = Arena::new(1 << 20)?;
    let mut hub = LegHub::new(vec![leg], Arc::clone(&arena), choice)?;
    let mut prng = RandomStream::new(1, "leg_rate", 0);
    let mut begin = |hub: &mut LegHub, op: LegOpId| {
        let block = usize::try_from(BLOCK_BYTES).expect("small");
        let slot = usize::try_from(op.0).expect("small");
        let io = LegIo {
            op,
            kind: OpKind::Read,
            extent: Extent::new(prng.below(blocks) * BLOCK_BYTES, BLOCK_BYTES),
            memory: Some(LegMemory::One(ArenaRange {
                offset_bytes: slot * block,
                len_bytes: block,
            })),
            fua: false,
            may_trim: false,
            failfast: false,
        };
        hub.submit(now(), LegId::new(0), io);
    };
    for op in 0..depth {
        begin(&mut hub, LegOpId(op));
    }
    let started = clock(ClockId::Monotonic);
    let processor = clock(ClockId::ProcessCPUTime);
    let mut done = Vec::new();
    let mut reads = 0;
    let mut taken = Duration::ZERO;
    while hub.outstanding() > 0 {
        hub.kick();
        if !hub.has_ready() {
            wait(&hub);
        }
        hub.reap(now(), &mut done);
        for done in done.drain(..) {
            reads += 1;
            if taken < MEASURED {
                begin(&mut hub, done.op);
            }
        }
        taken = clock(ClockId::Monotonic) - started;
    }
    Ok(Rate {
        backend: hub.backend().to_owned(),
        reads,
        taken,
        processor: clock(ClockId::ProcessCPUTime) - processor,
    })
}

/// Waits for a descriptor, or for the time that a model asks for.
fn wait(hub: &LegHub) {
    let descriptors = hub.fds();
    let mut watched: Vec<_> = descriptors
        .iter()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .collect();
    let until = hub
        .next_deadline()
        .map(|at| Duration::from(at.saturating_since(now())));
    let timeout = until.map(|until| until.try_into().expect("deadlines are near"));
    let _interrupted = poll(&mut watched, timeout.as_ref());
}

fn now() -> Instant {
    Instant::ZERO + clock(ClockId::Monotonic).into()
}

fn clock(id: ClockId) -> Duration {
    clock_gettime(id).try_into().expect("clocks run from zero")
}
