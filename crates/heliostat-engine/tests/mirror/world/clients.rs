//! What clients do.

use heliostat_engine::{Input, Request, RequestKind};
use heliostat_types::{ClientId, Extent, FlowId, Prng, RequestId, StreamId};

use super::{Allocated, Asked, Held, Wanted, World};
use crate::fill::{Fill, index};

impl World {
    fn ask(&mut self, wanted: Wanted, kind: RequestKind) -> u64 {
        let id = self.next_request;
        self.next_request += 1;
        let asked = Asked {
            wanted,
            start: self.tick,
        };
        self.say(|| format!("ask {id} {wanted:?}"));
        self.asked.insert(id, asked);
        if let Some(extent) = wanted.changes() {
            let out = self.legs.iter_mut().filter(|leg| !leg.is_present());
            let missed = out.filter_map(|leg| leg.missed.as_mut());
            missed.for_each(|missed| missed.push(extent));
        }
        let client = self.prng.below(self.clients);
        self.input(Input::Request(Request {
            id: RequestId(id),
            client: ClientId(client),
            flow: FlowId(u32::try_from(client).expect("there are few")),
            stream: StreamId(client),
            kind,
        }));
        id
    }

    pub(crate) fn read(&mut self, extent: Extent) -> u64 {
        self.tick += 1;
        self.ask(Wanted::Read(extent), RequestKind::Read { extent })
    }

    /// Memory for a write, or `None` where it was refused.
    pub(crate) fn alloc(&mut self, extent: Extent) -> Option<Allocated> {
        let Some(buffer) = self.engine.alloc_write(FlowId::default(), extent) else {
            self.say(|| format!("no memory for {extent:?}"));
            self.refused = true;
            return None;
        };
        let range = self.engine.buffers().resolve(buffer.data);
        self.judge_free_for_writing(&range, "memory for a write");
        self.check(range.len() == index(extent.len()), || {
            format!("memory of {} bytes for {extent:?}", range.len())
        });
        Some(Allocated {
            extent,
            buffer,
            range,
        })
    }

    pub(crate) fn send(&mut self, allocated: Allocated, fua: bool) -> u64 {
        self.tick += 1;
        let Allocated {
            extent,
            buffer,
            range,
        } = allocated;
        let fill = Fill::Pattern(self.checker.next_write());
        fill.write(extent.offset(), self.arena.bytes_mut(range));
        let write = self.checker.write_asked(self.tick, extent, fill, true);
        let buffer = buffer.buffer;
        let kind = RequestKind::Write {
            extent,
            buffer,
            fua,
        };
        self.ask(Wanted::Write { extent, write, fua }, kind)
    }

    /// A write that gets its memory at once.
    pub(crate) fn write(&mut self, extent: Extent) -> u64 {
        let allocated = self.alloc(extent).expect("there is memory");
        self.send(allocated, false)
    }

    /// Several writes whose bytes lie in one buffer, which get their memory at once.
    pub(crate) fn writes(&mut self, extents: &[Extent], fua: bool) -> Vec<u64> {
        self.try_writes(extents, fua).expect("there is memory")
    }

    /// The same, or `None` where memory was refused.
    pub(crate) fn try_writes(&mut self, extents: &[Extent], fua: bool) -> Option<Vec<u64>> {
        let Some(buffer) = self.engine.alloc_writes(FlowId::default(), extents) else {
            self.say(|| format!("no memory for {extents:?}"));
            self.refused = true;
            return None;
        };
        let mut range = self.engine.buffers().resolve(buffer.data);
        self.judge_free_for_writing(&range, "memory for several writes");
        let mut sent = Vec::new();
        for extent in extents {
            let end = range.start + index(extent.len());
            let allocated = Allocated {
                extent: *extent,
                buffer,
                range: range.start..end,
            };
            range.start = end;
            sent.push(self.send(allocated, fua));
        }
        assert!(range.is_empty(), "a buffer has as many bytes as its writes");
        Some(sent)
    }

    pub(crate) fn write_fua(&mut self, extent: Extent) -> u64 {
        let allocated = self.alloc(extent).expect("there is memory");
        self.send(allocated, true)
    }

    pub(crate) fn flush(&mut self) -> u64 {
        self.tick += 1;
        self.ask(Wanted::Flush, RequestKind::Flush)
    }

    pub(crate) fn trim(&mut self, extent: Extent, fua: bool) -> u64 {
        self.tick += 1;
        let write = (self.checker).write_asked(self.tick, extent, Fill::Zeros, false);
        let kind = RequestKind::Trim { extent, fua };
        self.ask(Wanted::Trim { extent, write }, kind)
    }

    pub(crate) fn zeroes(
        &mut self,
        extent: Extent,
        fua: bool,
        may_trim: bool,
        fast_only: bool,
    ) -> u64 {
        self.tick += 1;
        let write = (self.checker).write_asked(self.tick, extent, Fill::Zeros, true);
        let wanted = Wanted::Zeroes {
            extent,
            write,
            fua,
            fast_only,
        };
        let kind = RequestKind::WriteZeroes {
            extent,
            fua,
            may_trim,
            fast_only,
        };
        self.ask(wanted, kind)
    }

    pub(crate) fn status(&mut self, extent: Extent) -> u64 {
        self.tick += 1;
        self.ask(Wanted::Status(extent), RequestKind::BlockStatus { extent })
    }

    /// A request of which only the answer counts.
    pub(crate) fn nonsense(&mut self, kind: RequestKind) -> u64 {
        self.tick += 1;
        self.ask(Wanted::Nonsense, kind)
    }

    pub(crate) fn release(&mut self, held: usize) {
        let Held {
            buffer,
            range,
            copy,
        } = self.held.swap_remove(held);
        self.check(self.arena.is_unchanged(range, &copy), || {
            "the data of an answer changed while the client held it".to_owned()
        });
        self.say(|| format!("release {buffer:?}"));
        self.input(Input::Release { buffer });
    }

    /// A client went away before it sent its write.
    pub(crate) fn drop_allocated(&mut self, allocated: &Allocated) {
        let buffer = allocated.buffer.buffer;
        self.say(|| format!("release {buffer:?}, never sent"));
        self.input(Input::Release { buffer });
    }
}
