//! A few blocks whose bytes are known, to tell a server that came back with all it had from one
//! that forgot: a memory disk that was started anew, a machine that was set back to a snapshot.
//!
//! The protocol has no way to ask. So the bytes of some reads and writes are remembered, and a new
//! connection is used only if the server still has them. A block is forgotten as soon as a change
//! to it begins, so that what is remembered is what the server must answer.

use heliostat_types::{Extent, OpKind};

/// How many blocks are remembered. More find a server no sooner that has lost everything.
const WITNESSES_MAX: usize = 8;

/// How many of them stay until they change. Where all that is written is written over again and
/// again, the blocks that are left alone are the ones that tell.
const KEPT: usize = 4;
const RENEWED: usize = WITNESSES_MAX - KEPT;

/// How much of an operation is remembered at most.
const WITNESS_BYTES: usize = 4096;

/// What says nothing.
const ZEROS: [u8; WITNESS_BYTES] = [0; WITNESS_BYTES];

/// How much of an operation is searched for bytes that are not zero, which a server that forgot
/// everything would answer.
const SEARCHED_BYTES: usize = 64 << 10;

/// Of how many writes and of how many reads one is looked at: that should cost little, and the
/// newest writes say most. Each of the first ones is, and more while there are not enough.
const WRITES_PER_WITNESS: u32 = 8;
const READS_PER_WITNESS: u32 = 64;
const FIRST: u32 = 8;

/// Bytes that the server is known to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Witness {
    pub(super) extent: Extent,
    pub(super) bytes: Vec<u8>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Witnesses {
    /// How much of an operation is remembered.
    part_bytes: usize,
    known: Vec<Witness>,
    /// Which of those that are renewed is replaced next.
    next: usize,
    reads: u32,
    writes: u32,
}

impl Witnesses {
    /// Nothing is known yet. The server may be asked for so many bytes at once.
    pub(super) fn new(payload_bytes_max: u64) -> Self {
        let part_bytes = usize::try_from(payload_bytes_max).unwrap_or(WITNESS_BYTES);
        Self {
            part_bytes: part_bytes.min(WITNESS_BYTES),
            known: Vec::new(),
            next: 0,
            reads: 0,
            writes: 0,
        }
    }

    /// What is known at this moment.
    pub(super) fn all(&self) -> Vec<Witness> {
        self.known.clone()
    }

    /// These bytes are going to change.
    pub(super) fn forget(&mut self, extent: Extent) {
        self.known
            .retain(|witness| !witness.extent.overlaps(extent));
    }

    /// Whether an operation that was carried out is to be remembered.
    pub(super) const fn wants(&mut self, kind: OpKind) -> bool {
        let (count, per_witness) = match kind {
            OpKind::Read => (&mut self.reads, READS_PER_WITNESS),
            OpKind::Write => (&mut self.writes, WRITES_PER_WITNESS),
            OpKind::Flush | OpKind::Trim | OpKind::WriteZeroes | OpKind::BlockStatus => {
                return false;
            }
        };
        *count = count.wrapping_add(1);
        let is_full = self.known.len() == WITNESSES_MAX;
        let per_witness = if is_full { per_witness } else { FIRST };
        *count <= FIRST || count.is_multiple_of(per_witness)
    }

    /// The server has these bytes now, and nothing that changes them is in flight.
    pub(super) fn add(&mut self, extent: Extent, bytes: &[u8]) {
        let searched = &bytes[..bytes.len().min(SEARCHED_BYTES)];
        let mut parts = searched.chunks(self.part_bytes).enumerate();
        let telling = parts.find(|(_, part)| **part != ZEROS[..part.len()]);
        let Some((index, part)) = telling else {
            return;
        };
        let as_u64 = |len: usize| u64::try_from(len).expect("it fits memory");
        let offset = extent.offset() + as_u64(index * self.part_bytes);
        let witness = Witness {
            extent: Extent::new(offset, as_u64(part.len())),
            bytes: part.to_vec(),
        };
        self.forget(witness.extent);
        if self.known.len() < WITNESSES_MAX {
            self.known.push(witness);
        } else {
            self.next = (self.next + 1) % RENEWED;
            self.known[KEPT + self.next] = witness;
        }
    }
}

#[cfg(test)]
mod tests {
    use heliostat_types::{Extent, OpKind};

    use super::{WITNESSES_MAX, Witness, Witnesses};

    #[test]
    fn what_changes_is_forgotten() {
        let mut witnesses = Witnesses::new(1 << 20);
        witnesses.add(Extent::new(0, 4096), &[1; 4096]);
        witnesses.add(Extent::new(8192, 512), &[2; 512]);
        witnesses.forget(Extent::new(4000, 512));
        let left = Witness {
            extent: Extent::new(8192, 512),
            bytes: vec![2; 512],
        };
        assert_eq!(witnesses.all(), [left]);
        witnesses.add(Extent::new(8192, 512), &[3; 512]);
        assert_eq!(witnesses.all().len(), 1);
        assert_eq!(witnesses.all()[0].bytes, [3; 512]);
    }

    #[test]
    fn zeros_tell_nothing() {
        let mut witnesses = Witnesses::new(1 << 20);
        let mut bytes = vec![0; 3 * 4096];
        witnesses.add(Extent::new(0, 3 * 4096), &bytes);
        assert_eq!(witnesses.all(), []);
        bytes[2 * 4096 + 7] = 1;
        witnesses.add(Extent::new(0, 3 * 4096), &bytes);
        assert_eq!(witnesses.all()[0].extent, Extent::new(8192, 4096));
    }

    #[test]
    fn few_are_kept_and_they_are_renewed() {
        let mut witnesses = Witnesses::new(1 << 20);
        for index in 0..40 {
            witnesses.add(Extent::new(index << 12, 4096), &[1; 4096]);
        }
        let known = witnesses.all();
        assert_eq!(known.len(), WITNESSES_MAX);
        let mut blocks: Vec<u64> = known
            .iter()
            .map(|witness| witness.extent.offset() >> 12)
            .collect();
        blocks.sort_unstable();
        assert_eq!(blocks, [0, 1, 2, 3, 36, 37, 38, 39]);
        let mut wanted = |kind| (0..64).filter(|_| witnesses.wants(kind)).count();
        assert_eq!((wanted(OpKind::Read), wanted(OpKind::Read)), (9, 1));
        assert_eq!((wanted(OpKind::Write), wanted(OpKind::Write)), (15, 8));
        assert_eq!(wanted(OpKind::Flush), 0);
        witnesses.forget(Extent::new(0, 1 << 40));
        let mut wanted = |kind| (0..64).filter(|_| witnesses.wants(kind)).count();
        assert_eq!(wanted(OpKind::Read), 8);
    }
}
