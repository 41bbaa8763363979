//! Random lives of a leg whose server breaks off, loses its cache, or forgets everything: what is
//! read is what was answered last, or the leg says that it is lost, and not without a reason.

use heliostat_types::{ErrorKind, Extent, LegOpId, OpKind, Prng as _, RandomStream};

use super::server::{ABLE, Nature, Server};
use crate::tests::bench::{Bench, open, range};
use crate::{IoChoice, LegOutcome};

/// Slots that operations in flight together lie in, one each, so that they never overlap.
const SLOTS: usize = 24;
const SLOT_BYTES: u64 = 64 << 10;
const BLOCK_BYTES: u64 = 4096;

/// How often something happens to the server in one life.
const BREAKS: u32 = 4;

#[test]
fn nothing_older_is_read() {
    let (mut lost, mut survived) = (0, 0);
    for seed in 0..24 {
        let mut life = Life::new(seed);
        let mut breaks = 0;
        while breaks < BREAKS {
            let is_breaking = life.prng.below(3) == 0;
            if life.batch(is_breaking) {
                lost += 1;
                break;
            }
            breaks += u32::from(is_breaking);
        }
        survived += breaks;
    }
    // Both happen often, whatever the timing.
    assert!(
        lost >= 4 && survived >= 4,
        "{lost} lost, {survived} survived"
    );
}

/// What happens to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// Its connections.
    Connections,
    /// The power of its machine.
    Power,
    /// It is started anew, and kept nothing.
    Memory,
}

struct Life {
    server: Server,
    bench: Bench,
    prng: RandomStream,
    /// The byte that each slot is filled with.
    bytes: [u8; SLOTS],
    /// Whether a change was answered that nothing made durable.
    is_unflushed: bool,
    has_forgotten: bool,
    next_byte: u8,
    seed: u64,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut prng = RandomStream::new(seed, "lives", 0);
        let mut nature = Nature::default();
        if prng.below(2) == 0 {
            nature.flags = ABLE & !heliostat_nbd::codec::transmission::CAN_MULTI_CONN;
        }
        nature.structured = prng.below(4) > 0;
        nature.disorderly = prng.below(2) == 0;
        let server = Server::start(nature);
        let mut bench = Bench::new(open(&server.uri()), IoChoice::Auto);
        // Something that is left alone: a server that forgot everything is known by that.
        let quiet = Extent::new(4 << 20, BLOCK_BYTES);
        bench.arena.slice_mut(range(0, quiet)).fill(0x77);
        bench.submit_with(OpKind::Write, quiet, 0, |io| io.fua = true);
        assert_eq!(bench.only_outcome(), LegOutcome::Done);
        Self {
            bench,
            server,
            prng,
            bytes: [0; SLOTS],
            is_unflushed: false,
            has_forgotten: false,
            next_byte: 1,
            seed,
        }
    }

    /// Operations in all slots, and perhaps a break amid them. Whether the leg was lost, for a
    /// reason.
    fn batch(&mut self, breaks: bool) -> bool {
        let mut begun = Vec::new();
        for slot in 0..SLOTS {
            begun.push(self.begin(slot));
        }
        self.bench.hub.kick();
        let happened = breaks.then(|| self.break_something());
        let was_unflushed = self.is_unflushed;
        let mut done = self.bench.finish();
        done.sort_by_key(|done| done.op);
        let is_lost = done.iter().any(|done| done.outcome == LegOutcome::Lost);
        for ((op, kind, slot, byte, fua), done) in begun.into_iter().zip(&done) {
            assert_eq!(op, done.op);
            match (&done.outcome, kind) {
                (LegOutcome::Done, OpKind::Read) => {
                    let memory = self.bench.arena.slice(memory(slot));
                    let expected = self.bytes[slot];
                    assert!(
                        memory.iter().all(|&byte| byte == expected),
                        "seed {}: {happened:?}, slot {slot}, {} for {expected}",
                        self.seed,
                        memory[0]
                    );
                }
                (LegOutcome::Done, OpKind::Flush) => {}
                (LegOutcome::Done, _) => {
                    self.bytes[slot] = byte;
                    self.is_unflushed |= !fua;
                }
                (LegOutcome::Lost | LegOutcome::Failed(ErrorKind::Io), _) if is_lost => {}
                (outcome, _) => panic!("seed {}: {happened:?} {outcome:?}", self.seed),
            }
        }
        if is_lost {
            let reason = was_unflushed || self.is_unflushed || self.has_forgotten;
            assert!(reason, "seed {}: lost by {happened:?}", self.seed);
            return true;
        }
        if self.prng.below(4) > 0 {
            let outcome = self.bench.run(OpKind::Flush, Extent::default());
            if outcome == LegOutcome::Lost {
                // The break came when the last of the batch had been answered.
                assert!(self.is_unflushed || self.has_forgotten);
                return true;
            }
            assert_eq!(outcome, LegOutcome::Done, "seed {}", self.seed);
            self.is_unflushed = false;
        }
        false
    }

    fn begin(&mut self, slot: usize) -> (LegOpId, OpKind, usize, u8, bool) {
        let offset = u64::try_from(slot).unwrap() * SLOT_BYTES;
        let extent = Extent::new(offset, BLOCK_BYTES);
        let fua = self.prng.below(10) > 0;
        let memory = self.bench.arena.slice_mut(memory(slot));
        let (kind, byte) = match self.prng.below(8) {
            0..3 => (OpKind::Read, 0xee),
            3 => (OpKind::WriteZeroes, 0),
            _ => {
                self.next_byte = self.next_byte.wrapping_add(1).max(1);
                (OpKind::Write, self.next_byte)
            }
        };
        memory.fill(byte);
        let at = usize::try_from(offset).unwrap();
        let op = self.bench.submit_with(kind, extent, at, |io| {
            io.fua = fua && kind.is_mutating();
        });
        (op, kind, slot, byte, fua)
    }

    fn break_something(&mut self) -> Break {
        let what = match self.prng.below(6) {
            0..3 => Break::Connections,
            3..5 => Break::Power,
            _ => Break::Memory,
        };
        self.server.go_down();
        match what {
            Break::Connections => {}
            Break::Power => self.server.lose_cache(),
            Break::Memory => self.server.world().bytes.fill(0),
        }
        self.has_forgotten |= what == Break::Memory;
        self.server.come_back();
        what
    }
}

/// Where the bytes of a slot are in memory.
fn memory(slot: usize) -> crate::ArenaRange {
    let bytes = Extent::new(0, BLOCK_BYTES);
    range(slot << 16, bytes)
}
