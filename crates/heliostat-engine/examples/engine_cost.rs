//! What the engine costs per request: reads and three-way writes at depth 32 on legs that answer at
//! once, without any byte moved, on raw legs and with metadata and a bitmap whose bits are set.
//! `engine_cost [COUNT [KIND [off]]]`, where `off` switches accounting off; for instruction counts
//! run it under `valgrind --tool=callgrind` with a COUNT of 100000 and a KIND such as `write`.

#![expect(clippy::print_stdout, reason = "figures for people")]
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this measures time, which the engine never does"
)]

use std::time::Instant as Clock;

use heliostat_engine::{
    Answer, ArrayRecord, Config, Engine, Input, LegConfig, LegState, Map, Metadata, Output,
    Request, RequestKind, Unequal,
};
use heliostat_format::{
    BadBlocks, BitmapBits, BitmapSuper, Features, RESYNC_DONE, Role, Superblock,
};
use heliostat_policy::{LegView, ReadPlan, ReadPolicy, ReadRequest};
use heliostat_types::{
    ClientId, Duration, Extent, FlowId, Instant, LegSet, Prng, RandomStream, RequestId, StreamId,
};

#[derive(Debug)]
struct First;

impl ReadPolicy for First {
    fn name(&self) -> &'static str {
        "first"
    }

    fn plan_read(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        legs: &[LegView],
        _prng: &mut dyn Prng,
    ) -> ReadPlan {
        ReadPlan::Leg(legs[0].leg)
    }
}

fn main() {
    let count = std::env::args().nth(1);
    let count = count.map_or(1_000_000, |count| {
        count.parse().expect("a number of requests")
    });
    let kinds = [
        ("read", false, false),
        ("write", true, false),
        ("read with metadata", false, true),
        ("write with metadata", true, true),
    ];
    let wanted = std::env::args().nth(2);
    for (name, is_write, has_metadata) in kinds {
        if wanted.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let accounting = std::env::args().nth(3).is_none();
        let mut run = Run::new(has_metadata, accounting);
        // As many as are in flight, and with metadata all bits.
        run.requests(if has_metadata { 10_000 } else { 64 }, is_write);
        let begun = Clock::now();
        run.requests(count, is_write);
        let spent = begun.elapsed().as_secs_f64() * 1e9;
        let each = spent / f64::from(count);
        println!("{name}: {each:.0} ns per request");
    }
}

/// A bitmap with a bit for each MiB, on three legs.
fn metadata() -> Metadata {
    let head = BitmapSuper {
        events: 1,
        chunk_bytes: 1 << 20,
        ..BitmapSuper::default()
    };
    let mut superblock = Superblock {
        features: Features::BITMAP,
        bitmap_offset_sectors: 8,
        raid_disks: 3,
        events: 1,
        resync_offset_sectors: RESYNC_DONE,
        ..Superblock::default()
    };
    for (number, role) in (0..3).zip(&mut superblock.roles) {
        *role = Role::Active(number);
    }
    Metadata {
        rebuilding: Vec::new(),
        superblocks: vec![Some(superblock.clone()); 3],
        replaced: None,
        roles: superblock.roles,
        bitmap: Some(BitmapBits::new(head, 1 << 10)),
        bad_blocks: vec![BadBlocks::new(0); 3],
        unequal: Unequal::Nowhere,
        is_uneven: false,
        unix_time: Duration::ZERO,
    }
}

struct Run {
    engine: Engine,
    prng: RandomStream,
    now: u64,
    pending: Vec<heliostat_types::LegOpId>,
}

impl Run {
    fn new(has_metadata: bool, accounting: bool) -> Self {
        let leg = LegConfig {
            state: LegState::InSync,
            data_offset_bytes: if has_metadata { 1 << 20 } else { 0 },
            caches_writes: false,
            rotational: false,
            write_mostly: false,
            failfast: false,
            read_preferred: false,
            queue_depth: 64,
            optimal_io_bytes: 0,
            fua: true,
            trim_reads_zeros: false,
            fast_zero: false,
        };
        let config = Config {
            size_bytes: 1 << 30,
            map: Map::mirror(3, 1 << 30),
            block_bytes: 512,
            memory_bytes: Config::MEMORY_DEFAULT_BYTES,
            leg_timeout: Config::LEG_TIMEOUT_DEFAULT,
            write_behind: 0,
            clean_delay: Config::CLEAN_DELAY_DEFAULT,
            repairs: true,
            hedges_permille: Config::HEDGES_PERMILLE_DEFAULT,
            scheduler_on: heliostat_engine::SchedulerPlace::Legs,
            scheduler: heliostat_scheduler::SchedulerSpec::None,
            accounting,
            client_timeout: Config::CLIENT_TIMEOUT_DEFAULT,
            legs: vec![leg; 3],
            metadata: has_metadata.then(metadata),
        };
        let record = ArrayRecord {
            generation: 0,
            dirty: false,
            faulted: LegSet::EMPTY,
        };
        Self {
            engine: Engine::new(config, Box::new(First), record),
            prng: RandomStream::new(1, "requests", 0),
            now: 0,
            pending: Vec::new(),
        }
    }

    fn requests(&mut self, count: u32, is_write: bool) {
        for n in 0..count {
            let extent = Extent::new(self.prng.below(1 << 18) * 4096, 4096);
            let kind = if is_write {
                let buffer = self
                    .engine
                    .alloc_write(FlowId::default(), extent)
                    .expect("memory")
                    .buffer;
                let fua = false;
                RequestKind::Write {
                    extent,
                    buffer,
                    fua,
                }
            } else {
                RequestKind::Read { extent }
            };
            let request = Request {
                id: RequestId(u64::from(n)),
                client: ClientId(0),
                flow: FlowId(0),
                stream: StreamId(0),
                kind,
            };
            self.input(Input::Request(request));
            // As many operations wait as 32 requests have.
            while self.pending.len() >= if is_write { 96 } else { 32 } {
                let op = self.pending.swap_remove(0);
                self.input(Input::LegCompletion { op, result: Ok(()) });
            }
        }
        while let Some(op) = self.pending.pop() {
            self.input(Input::LegCompletion { op, result: Ok(()) });
        }
    }

    fn input(&mut self, input: Input) {
        self.now += 100;
        let now = Instant::from_ns(self.now);
        self.engine.handle_input(now, input, &mut self.prng);
        while let Some(output) = self.engine.poll_output() {
            let answer = match output {
                Output::Dispatch(op) => {
                    self.pending.push(op.id);
                    continue;
                }
                Output::Persist(record) => Input::Persisted {
                    generation: record.generation,
                },
                Output::Complete {
                    result: Ok(Answer::Data(data)),
                    ..
                } => Input::Release {
                    buffer: data.buffer,
                },
                Output::Complete { .. }
                | Output::Buffer(_)
                | Output::Compare(_)
                | Output::Event(_)
                | Output::UseSpare { .. }
                | Output::MemoryFreed => continue,
            };
            self.engine.handle_input(now, answer, &mut self.prng);
        }
    }
}
