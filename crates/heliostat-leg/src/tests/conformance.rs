//! What every leg does alike: bytes come back as they were written.

use std::collections::BTreeMap;
use std::path::Path;

use heliostat_nbd::codec::transmission;
use heliostat_types::{ErrorKind, Extent, LegOpId, OpKind, Prng, RandomStream};

use super::bench::{Bench, LoopDevice, Scratch, open, open_path, range};
use crate::nbd::tests::server::{ABLE, Nature, Server};
use crate::{IoChoice, LegInfo, LegIo, LegOutcome, OpenedLeg};

const SIZE: u64 = 8 << 20;

/// Slots that operations in flight together lie in, one each, so that they never overlap.
const SLOTS: u64 = 16;

#[test]
fn memory() {
    conforms(open("mem:8m"), IoChoice::Auto, "memory");
}

#[test]
fn models() {
    for drive in ["ram", "nvme-gen4", "hdd-7200-2tb", "net-ssd"] {
        let leg = open(&format!("model:{drive},size=8m"));
        conforms(leg, IoChoice::Auto, "memory");
    }
}

#[test]
fn a_model_on_a_file() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", SIZE);
    for choice in [IoChoice::Auto, IoChoice::ThreadPool] {
        let leg = open(&format!("model:ssd-sata-256gb,file={}", path.display()));
        assert_eq!(leg.info().size_bytes, SIZE);
        conforms(leg, choice, backend(choice));
    }
}

#[test]
fn a_model_behind_a_volatile_cache() {
    let scratch = Scratch::new();
    let path = scratch.file("leg", SIZE);
    for drive in ["ram", "hdd-7200-2tb", "ssd-sata-256gb"] {
        for options in ["", ",cache-size=256k", ",torn=physical,seed=1"] {
            let path = path.display();
            let text = format!("model:{drive},file={path},cache=volatile{options}");
            conforms(open(&text), IoChoice::Auto, "threads: one for each");
        }
    }
}

#[test]
fn a_file_through_io_uring() {
    let scratch = Scratch::new();
    let leg = open_path(&scratch.file("leg", SIZE + 100));
    assert_eq!(leg.info().size_bytes, SIZE, "rounded to blocks");
    conforms(leg, IoChoice::Auto, backend(IoChoice::Auto));
}

#[test]
fn a_file_through_threads() {
    let scratch = Scratch::new();
    let leg = open_path(&scratch.file("leg", SIZE));
    conforms(leg, IoChoice::ThreadPool, "threads: as asked for");
}

#[test]
fn a_file_in_memory() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("skipped: there is no /dev/shm");
        return;
    }
    let scratch = Scratch::below(shm);
    for choice in [IoChoice::Auto, IoChoice::ThreadPool] {
        let leg = open_path(&scratch.file("leg", SIZE));
        conforms(leg, choice, backend(choice));
    }
}

#[test]
fn a_block_device() {
    let scratch = Scratch::new();
    for (name, block_bytes) in [("512", 512), ("4k", 4096)] {
        let backing = scratch.file(name, SIZE);
        let Some(device) = LoopDevice::attach(&backing, block_bytes) else {
            return;
        };
        for choice in [IoChoice::Auto, IoChoice::ThreadPool] {
            let leg = open_path(&device.path);
            assert_eq!(leg.info().logical_block_bytes, block_bytes);
            conforms(leg, choice, backend(choice));
        }
    }
}

#[test]
fn exports() {
    for (structured, disorderly) in [(true, false), (true, true), (false, false)] {
        for flags in [ABLE, ABLE & !transmission::CAN_MULTI_CONN] {
            let server = Server::start(Nature {
                size_bytes: SIZE,
                flags,
                structured,
                disorderly,
                ..Nature::default()
            });
            conforms(open(&server.uri()), IoChoice::Auto, "sockets");
        }
    }
}

#[test]
fn an_export_of_large_blocks() {
    let server = Server::start(Nature {
        size_bytes: SIZE,
        block_sizes: Some([4096, 4096, 4096 * 3]),
        ..Nature::default()
    });
    let leg = open(&server.uri());
    assert_eq!(leg.info().logical_block_bytes, 4096);
    conforms(leg, IoChoice::Auto, "sockets");
}

/// What the hub is to say of a file. Where this kernel has no io_uring, threads are right.
fn backend(choice: IoChoice) -> &'static str {
    match choice {
        IoChoice::ThreadPool => "threads: as asked for",
        IoChoice::Auto if io_uring::IoUring::new(1).is_ok() => "io_uring",
        IoChoice::Auto => "threads: ",
    }
}

fn conforms(leg: OpenedLeg, choice: IoChoice, backend: &str) {
    let mut subject = Subject {
        info: leg.info().clone(),
        bench: Bench::new(leg, choice),
        bytes: vec![0; usize::try_from(SIZE).unwrap()],
        prng: RandomStream::new(1, "conformance", 0),
    };
    assert!(
        subject.bench.hub.backend().starts_with(backend),
        "{}",
        subject.bench.hub.backend()
    );
    assert_eq!(subject.info.size_bytes, SIZE);
    subject.info_makes_sense();
    subject.clear();
    subject.batches(60);
    subject.large();
    subject.many();
    subject.durable();
    subject.status();
    subject.refuses();
    assert_eq!(subject.bench.hub.outstanding(), 0);
}

/// Operations that were begun: one, or several that are done as one.
struct Begun {
    kind: OpKind,
    /// Of the leg, and where their memory begins.
    parts: Vec<(LegOpId, Extent, usize)>,
}

/// A leg, and what it should hold.
struct Subject {
    info: LegInfo,
    bench: Bench,
    bytes: Vec<u8>,
    prng: RandomStream,
}

impl Subject {
    fn info_makes_sense(&self) {
        let info = &self.info;
        assert!([512, 4096].contains(&info.logical_block_bytes));
        assert!(info.physical_block_bytes >= info.logical_block_bytes);
        assert!(info.queue_depth >= 1);
        assert!(!info.identity.is_empty() && !info.description.is_empty());
        assert!(info.fua);
    }

    /// Zeros everywhere, written: what was there before does not matter.
    fn clear(&mut self) {
        let whole = Extent::new(0, SIZE);
        self.bench.arena.zero(0, place(whole).len());
        assert_eq!(self.bench.run(OpKind::Write, whole), LegOutcome::Done);
    }

    /// Random operations, sixteen at a time.
    fn batches(&mut self, count: u32) {
        for _ in 0..count {
            let batch: Vec<_> = (0..SLOTS).map(|slot| self.begin(slot)).collect();
            let done = self.bench.finish();
            let count: usize = batch.iter().map(|begun| begun.parts.len()).sum();
            assert_eq!(done.len(), count);
            let mut outcomes: BTreeMap<LegOpId, LegOutcome> = done
                .into_iter()
                .map(|done| (done.op, done.outcome))
                .collect();
            for Begun { kind, parts } in batch {
                for (op, extent, at) in parts {
                    let outcome = outcomes.remove(&op).expect("each is reported");
                    self.end(kind, extent, at, outcome);
                }
            }
        }
    }

    fn begin(&mut self, slot: u64) -> Begun {
        let block = u64::from(self.info.logical_block_bytes);
        let slot_bytes = SIZE / SLOTS;
        let blocks = 1 + self.prng.below(32);
        let first = self.prng.below(slot_bytes / block - blocks);
        let extent = Extent::new(slot * slot_bytes + first * block, blocks * block);
        let at = place(Extent::new(slot * slot_bytes, 0)).start;
        let kind = match self.prng.below(10) {
            0 => OpKind::Trim,
            1 | 2 => OpKind::WriteZeroes,
            3..6 => OpKind::Write,
            _ => OpKind::Read,
        };
        let (fua, may_trim) = (self.prng.below(4) == 0, self.prng.below(2) == 0);
        // With room for parts that lie scattered.
        let scattered = Extent::new(0, 2 * extent.len() + block);
        let memory = self.bench.arena.slice_mut(range(at, scattered));
        for byte in memory.iter_mut() {
            *byte = self.prng.next_u64().to_le_bytes()[0];
        }
        let change = |io: &mut LegIo| {
            io.fua = fua && kind.is_mutating();
            io.may_trim = may_trim;
        };
        if matches!(kind, OpKind::Read | OpKind::Write) && self.prng.below(2) == 0 {
            let parts = self.cut(extent, at);
            return Begun {
                kind,
                parts: self.bench.submit_joined(kind, &parts, change),
            };
        }
        let op = self.bench.submit_with(kind, extent, at, change);
        Begun {
            kind,
            parts: vec![(op, extent, at)],
        }
    }

    /// Cuts an extent into parts that lie in memory in the reverse order, with gaps.
    fn cut(&mut self, extent: Extent, at: usize) -> Vec<(Extent, usize)> {
        let block = u64::from(self.info.logical_block_bytes);
        let mut parts = Vec::new();
        let mut rest = extent;
        while !rest.is_empty() {
            let blocks = 1 + self.prng.below(rest.len() / block);
            let (part, after) = rest.split_at(blocks * block);
            let gap = place(Extent::new(0, block)).len();
            let behind = place(Extent::new(0, after.len())).len();
            parts.push((part, at + gap + 2 * behind));
            rest = after;
        }
        parts
    }

    /// Compares what a read gave, or keeps what a change did.
    fn end(&mut self, kind: OpKind, extent: Extent, at: usize, outcome: LegOutcome) {
        let expected = &mut self.bytes[place(extent)];
        let memory = self.bench.arena.slice(range(at, extent));
        match (kind, outcome) {
            (OpKind::Read, LegOutcome::Done) => {
                assert!(memory == expected, "read of {extent}");
            }
            (OpKind::Write, LegOutcome::Done) => expected.copy_from_slice(memory),
            (OpKind::Trim | OpKind::WriteZeroes, LegOutcome::Done) => expected.fill(0),
            (OpKind::Trim, LegOutcome::Failed(ErrorKind::NotSupported)) => {
                assert!(!self.info.trim_reads_zeros);
            }
            (OpKind::WriteZeroes, LegOutcome::Failed(ErrorKind::NotSupported)) => {
                assert!(!self.info.fast_zero);
            }
            (_, outcome) => panic!("{kind:?} of {extent}: {outcome:?}"),
        }
    }

    /// All of it in one operation, there and back.
    fn large(&mut self) {
        let whole = Extent::new(0, SIZE);
        assert_eq!(self.bench.run(OpKind::Read, whole), LegOutcome::Done);
        self.end(OpKind::Read, whole, 0, LegOutcome::Done);
        self.bench.arena.slice_mut(range(0, whole)).fill(0xa5);
        assert_eq!(self.bench.run(OpKind::Write, whole), LegOutcome::Done);
        self.end(OpKind::Write, whole, 0, LegOutcome::Done);
    }

    /// As many as are ever done as one: each is reported, in order.
    fn many(&mut self) {
        let parts: Vec<_> = (0..128)
            .map(|part| {
                (
                    Extent::new(part * 8192, 8192),
                    place(Extent::new(part * 12288, 0)).start,
                )
            })
            .collect();
        for kind in [OpKind::Write, OpKind::Read] {
            let begun = self.bench.submit_joined(kind, &parts, |_| {});
            assert_eq!(self.bench.hub.outstanding(), parts.len());
            let done = self.bench.finish();
            let ops: Vec<LegOpId> = done.iter().map(|done| done.op).collect();
            assert!(begun.iter().map(|(op, ..)| *op).eq(ops));
            for ((_, extent, at), done) in begun.into_iter().zip(done) {
                self.end(kind, extent, at, done.outcome);
            }
        }
    }

    fn durable(&mut self) {
        let extent = Extent::new(0, 4096);
        assert_eq!(
            self.bench.run(OpKind::Flush, Extent::default()),
            LegOutcome::Done
        );
        self.bench
            .submit_with(OpKind::Write, extent, 0, |io| io.fua = true);
        assert_eq!(self.bench.only_outcome(), LegOutcome::Done);
        self.end(OpKind::Write, extent, 0, LegOutcome::Done);
    }

    /// What is called zero reads zero; what was given up on a file is called a hole.
    fn status(&mut self) {
        let given_up = Extent::new(1 << 20, 2 << 20);
        let outcome = self.bench.run(OpKind::Trim, given_up);
        self.end(OpKind::Trim, given_up, 0, outcome);
        let asked = Extent::new(4096, SIZE - 8192);
        let LegOutcome::Status(runs) = self.bench.run(OpKind::BlockStatus, asked) else {
            panic!("a status");
        };
        let mut at = asked.offset();
        for run in runs {
            assert!(run.len_bytes > 0);
            let extent = Extent::new(at, run.len_bytes);
            if run.zero {
                assert!(self.bytes[place(extent)].iter().all(|&byte| byte == 0));
            }
            at = extent.end();
        }
        assert_eq!(at, asked.end());
    }

    fn refuses(&mut self) {
        assert_eq!(
            self.bench.run(OpKind::Read, Extent::new(100, 512)),
            LegOutcome::Failed(ErrorKind::InvalidInput)
        );
        let beyond = Extent::new(SIZE - 4096, 8192);
        for kind in [
            OpKind::Read,
            OpKind::Write,
            OpKind::Trim,
            OpKind::WriteZeroes,
            OpKind::BlockStatus,
        ] {
            assert_eq!(
                self.bench.run(kind, beyond),
                LegOutcome::Failed(ErrorKind::InvalidInput),
                "{kind:?}"
            );
        }
        self.bench
            .submit_with(OpKind::Read, Extent::new(0, 4096), 0, |io| io.memory = None);
        assert_eq!(
            self.bench.only_outcome(),
            LegOutcome::Failed(ErrorKind::InvalidInput)
        );
        // What is done as one fails as one.
        let parts = [
            (Extent::new(SIZE - 4096, 4096), 0),
            (Extent::new(SIZE, 4096), 4096),
        ];
        self.bench.submit_joined(OpKind::Read, &parts, |_| {});
        for done in self.bench.finish() {
            assert_eq!(done.outcome, LegOutcome::Failed(ErrorKind::InvalidInput));
        }
    }
}

fn place(extent: Extent) -> std::ops::Range<usize> {
    let index = |at| usize::try_from(at).unwrap();
    index(extent.offset())..index(extent.end())
}
