//! Requests that are several ones to the engine, because they go over borders of extents.

use heliostat_engine::{Answer as EngineAnswer, BufferSlice};
use heliostat_types::ErrorKind;

use crate::export::{Answer, ReadData};

/// How many bits of a number say which part of a request it is: a volume has fewer extents.
const PART_BITS: u32 = 16;

/// Which part of which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    split: usize,
    part: usize,
}

impl Part {
    /// As a number of 56 bits.
    pub(crate) fn to_tag(self) -> u64 {
        (self.split as u64) << PART_BITS | self.part as u64
    }

    /// Back from a number.
    pub(crate) fn from_tag(tag: u64) -> Self {
        let index = |bits: u64| usize::try_from(bits).expect("56 bits");
        Self {
            split: index(tag >> PART_BITS),
            part: index(tag & ((1 << PART_BITS) - 1)),
        }
    }
}

/// What became of a whole request: whose it is, how it went, and buffers that nobody gets.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) export: usize,
    pub(crate) tag: u64,
    pub(crate) result: Result<Answer, ErrorKind>,
    pub(crate) unused: Vec<BufferSlice>,
}

#[derive(Debug)]
struct Split {
    export: usize,
    tag: u64,
    outstanding: usize,
    result: Result<(), ErrorKind>,
    /// Of a read, what its parts have brought so far.
    data: Vec<Option<BufferSlice>>,
}

/// Those whose parts are not all answered.
#[derive(Debug, Default)]
pub(crate) struct Splits {
    splits: Vec<Option<Split>>,
}

impl Splits {
    /// A request of so many parts; the first of them.
    pub(crate) fn begin(
        &mut self,
        export: usize,
        tag: u64,
        parts: usize,
    ) -> impl Iterator<Item = Part> + use<> {
        assert!(parts >> PART_BITS == 0, "a volume has few extents");
        let split = Split {
            export,
            tag,
            outstanding: parts,
            result: Ok(()),
            data: vec![None; parts],
        };
        let free = self.splits.iter().position(Option::is_none);
        let index = free.unwrap_or(self.splits.len());
        if index == self.splits.len() {
            self.splits.push(None);
        }
        self.splits[index] = Some(split);
        (0..parts).map(move |part| Part { split: index, part })
    }

    /// A part was answered; the whole request, where it was the last one.
    pub(crate) fn on_answer(
        &mut self,
        part: Part,
        result: Result<EngineAnswer, ErrorKind>,
    ) -> Option<Joined> {
        let place = &mut self.splits[part.split];
        let split = place.as_mut().expect("it has parts that are not answered");
        match result {
            Ok(EngineAnswer::Data(slice)) => split.data[part.part] = Some(slice),
            Ok(_) => {}
            // The first one that went wrong is told.
            Err(kind) => split.result = split.result.and(Err(kind)),
        }
        split.outstanding -= 1;
        if split.outstanding > 0 {
            return None;
        }
        let split = place.take().expect("it was there");
        let data: Vec<BufferSlice> = split.data.into_iter().flatten().collect();
        let (result, unused) = match split.result {
            Ok(()) if data.is_empty() => (Ok(Answer::Done), data),
            Ok(()) => (Ok(Answer::Data(ReadData::of(data))), Vec::new()),
            Err(kind) => (Err(kind), data),
        };
        Some(Joined {
            export: split.export,
            tag: split.tag,
            result,
            unused,
        })
    }
}
