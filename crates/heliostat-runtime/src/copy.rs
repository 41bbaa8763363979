//! Makes legs equal before they are served: one leg is copied over the others.
//!
//! What is equal already is not written again, and what is a hole on both sides is not even read,
//! so that legs that differ in little are done at the speed of reading.

use std::iter::Peekable;

use heliostat_leg::{DataRuns, LegError, OpenedLeg};
use heliostat_types::Extent;

/// How much is compared at a time: large enough for disks to stream, small enough to stop soon.
const CHUNK_BYTES: u64 = 1 << 20;

/// What is written where a chunk differs, in pieces of this size: a multiple of every block size,
/// and no smaller, so that a chunk with many differences is still a few writes.
const PIECE_BYTES: usize = 64 << 10;

/// Why a copy did not come to its end.
#[derive(Debug)]
pub(crate) enum CopyError {
    /// Somebody wants the daemon to stop.
    Interrupted,
    /// A leg failed.
    Leg(LegError),
}

impl From<LegError> for CopyError {
    fn from(error: LegError) -> Self {
        Self::Leg(error)
    }
}

/// Copies the first `size_bytes` bytes of `source` over each of `targets`. Nothing is flushed.
/// `progress` is told how far it is, in bytes of the source, and says whether to go on. How many
/// bytes had to be written, over all targets.
///
/// # Errors
/// Where a leg fails, or `progress` says to stop. The targets are partly written then.
pub(crate) fn copy_over(
    source: &OpenedLeg,
    targets: &[&OpenedLeg],
    size_bytes: u64,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<u64, CopyError> {
    let mut source = Side::new(source);
    let mut targets: Vec<Side<'_>> = targets.iter().map(|target| Side::new(target)).collect();
    let mut written = 0;
    let mut at = 0;
    while at < size_bytes {
        let chunk = Extent::from_range(at, size_bytes.min(at + CHUNK_BYTES));
        let has_data = source.may_hold_data(chunk)?;
        let differs: Vec<bool> = targets
            .iter_mut()
            .map(|target| Ok(target.may_hold_data(chunk)? || has_data))
            .collect::<Result<_, LegError>>()?;
        if differs.contains(&true) {
            source.load(chunk, has_data)?;
            for (target, differs) in targets.iter_mut().zip(differs) {
                if differs {
                    written += target.overwrite(chunk, &source.bytes)?;
                }
            }
        }
        at = chunk.end();
        if !progress(at) {
            return Err(CopyError::Interrupted);
        }
    }
    Ok(written)
}

/// Where two legs first differ in their first `size_bytes` bytes.
///
/// # Errors
/// Where a leg cannot be read.
pub(crate) fn first_difference(
    one: &OpenedLeg,
    other: &OpenedLeg,
    size_bytes: u64,
) -> Result<Option<u64>, LegError> {
    let extent = Extent::new(0, size_bytes);
    let (mut one, mut other) = (Side::new(one), Side::new(other));
    one.load(extent, true)?;
    other.load(extent, true)?;
    let pairs = one.bytes.iter().zip(&other.bytes);
    let at = pairs.map(|(a, b)| a == b).position(|is_equal| !is_equal);
    Ok(at.map(|at| at as u64))
}

/// One leg, how far its runs of data were looked at, and a chunk of its bytes.
struct Side<'a> {
    leg: &'a OpenedLeg,
    runs: Peekable<DataRuns<'a>>,
    bytes: Vec<u8>,
}

impl<'a> Side<'a> {
    fn new(leg: &'a OpenedLeg) -> Self {
        Self {
            leg,
            runs: leg.data_runs(0).peekable(),
            bytes: Vec::new(),
        }
    }

    /// Whether anything but zeros may lie in `chunk`. To be asked for rising chunks.
    fn may_hold_data(&mut self, chunk: Extent) -> Result<bool, LegError> {
        let is_behind = |run: &Result<Extent, LegError>| {
            let run = run.as_ref();
            run.is_ok_and(|run| run.end() <= chunk.offset())
        };
        while self.runs.next_if(is_behind).is_some() {}
        self.runs.next_if(Result::is_err).transpose()?;
        let next = self.runs.peek().and_then(|run| run.as_ref().ok());
        Ok(next.is_some_and(|run| run.overlaps(chunk)))
    }

    /// Reads `chunk`, or takes it for zeros where there is no data.
    fn load(&mut self, chunk: Extent, has_data: bool) -> Result<(), LegError> {
        self.bytes.clear();
        self.bytes
            .resize(usize::try_from(chunk.len()).expect("a chunk fits"), 0);
        if has_data {
            self.leg.read_at(chunk.offset(), &mut self.bytes)?;
        }
        Ok(())
    }

    /// Makes `chunk` hold `wanted`. How many bytes were written for that.
    fn overwrite(&mut self, chunk: Extent, wanted: &[u8]) -> Result<u64, LegError> {
        // What cannot be read has to be written: perhaps that mends it.
        let is_known = self.load(chunk, true).is_ok();
        let mut written = 0;
        let pieces = wanted
            .chunks(PIECE_BYTES)
            .zip(self.bytes.chunks(PIECE_BYTES));
        let mut at = chunk.offset();
        for (wanted, there) in pieces {
            if !is_known || wanted != there {
                self.leg.write_at(at, wanted)?;
                written += wanted.len() as u64;
            }
            at += wanted.len() as u64;
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_leg::{LegSpec, OpenedLeg};

    use super::{CopyError, copy_over, first_difference};

    const SIZE: u64 = 3 << 20;

    fn leg(bytes: &[(u64, u8)]) -> OpenedLeg {
        let leg = LegSpec::parse("mem:3MiB").unwrap().open().unwrap();
        for &(at, byte) in bytes {
            leg.write_at(at, &[byte]).unwrap();
        }
        leg
    }

    #[test]
    fn only_what_differs_is_written() {
        let source = leg(&[(0, 1), (SIZE - 1, 2)]);
        let targets = [leg(&[(0, 1), (1 << 20, 9)]), leg(&[(0, 1), (SIZE - 1, 2)])];
        let mut told = Vec::new();
        let written = copy_over(&source, &[&targets[0], &targets[1]], SIZE, |done| {
            told.push(done);
            true
        });
        // One piece for the 9 that had to go, one for the 2 that was missing.
        assert_eq!(written.unwrap(), 2 * super::PIECE_BYTES as u64);
        assert_eq!(told, [1 << 20, 2 << 20, 3 << 20]);
        for target in &targets {
            assert_eq!(first_difference(&source, target, SIZE).unwrap(), None);
        }
    }

    #[test]
    fn a_copy_stops_when_told_to() {
        let (source, target) = (leg(&[(0, 1), (2 << 20, 1)]), leg(&[]));
        let stopped = copy_over(&source, &[&target], SIZE, |done| done < 2 << 20);
        assert!(matches!(stopped, Err(CopyError::Interrupted)));
        assert_eq!(
            first_difference(&source, &target, SIZE).unwrap(),
            Some(2 << 20)
        );
    }
}
