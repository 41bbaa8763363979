//! Reads: a client's, cut into pieces at the borders of chunks and where the policy says so, and
//! the engine's own of the edges of unaligned writes and of what a repair copies.
//!
//! A piece lies in one chunk, and is read from one leg at a time of those that hold it. Where a leg
//! fails it, the policy chooses among the rest; the pins (see [`crate::locks`]) are heeded at every
//! choice. After an error the next leg reads into the same bytes: the failed operation has ended.
//! After silence it does not: the operation may still write into them, so a client's read begins
//! anew in another buffer, an edge in other scratch, and a repair is given up.

use heliostat_policy::{Piece as PlanPiece, ReadPlan, ReadRequest};
use heliostat_types::{ClientId, ErrorKind, Extent, FlowId, LegId, LegSet, OpKind, StreamId};

use crate::api::{Answer, Event, Output};
use crate::asked::{Admitted, AskedId};
use crate::buffer::BufferSlice;
use crate::divergence::DivergencePin;
use crate::engine::{Engine, Turn, Waiting};
use crate::hedge::{Served, Watch, request_of};
use crate::legs::{NewOp, OpOwner};
use crate::locks::Pin;

/// A client's read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) id: AskedId,
    pub(crate) flow: FlowId,
    client: ClientId,
    stream: StreamId,
    /// As the client asked.
    extent: Extent,
    /// In whole blocks; what is read.
    pub(crate) aligned: Extent,
    /// Holds `aligned`.
    pub(crate) memory: BufferSlice,
    /// What second legs were faster with.
    pub(crate) served: Vec<Served>,
    /// Pieces not answered yet.
    pub(crate) outstanding: u32,
    error: Option<ErrorKind>,
}

/// Whose a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceOwner {
    /// A client's read.
    Read(u32),
    /// The edge of a write that is not aligned.
    Edge(u32),
    /// The good bytes for a repair.
    Repair(u32),
}

/// A run of bytes that one leg is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) owner: PieceOwner,
    /// On whose account.
    pub(crate) flow: FlowId,
    pub(crate) client: ClientId,
    pub(crate) stream: StreamId,
    /// Of the array; in one chunk.
    pub(crate) extent: Extent,
    /// The legs that hold it.
    pub(crate) holders: LegSet,
    pub(crate) memory: BufferSlice,
    /// Legs that have failed it, or must not be asked.
    pub(crate) tried: LegSet,
    /// The lock it runs under.
    pub(crate) own_lock: Option<u32>,
    /// What the last leg that failed it said.
    pub(crate) error: ErrorKind,
    /// Tells it from others that had or will have its index.
    pub(crate) serial: u64,
    /// When to look whether it is late.
    pub(crate) watch: Option<Watch>,
    /// What a second leg was asked.
    pub(crate) hedge: Option<u32>,
}

impl Piece {
    /// One of the engine's own, that no leg has been asked for.
    pub(crate) fn new(
        owner: PieceOwner,
        extent: Extent,
        holders: LegSet,
        memory: BufferSlice,
    ) -> Self {
        Self {
            owner,
            flow: FlowId::ARRAY,
            client: ClientId::default(),
            stream: StreamId::default(),
            extent,
            holders,
            memory,
            tried: LegSet::EMPTY,
            own_lock: None,
            error: ErrorKind::Io,
            serial: 0,
            watch: None,
            hedge: None,
        }
    }
}

impl Read {
    /// Who asked, and on which connection.
    pub(crate) const fn asked_by(&self) -> (ClientId, StreamId) {
        (self.client, self.stream)
    }
}

/// A piece that a leg which is out was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostPiece {
    pub(crate) index: u32,
    pub(crate) serial: u64,
    /// Whether the device has it, and may write into its memory whenever it likes.
    pub(crate) in_device: bool,
}

impl Engine {
    /// Begins a client's read; `false` where there is no memory for it.
    pub(crate) fn begin_read(
        &mut self,
        turn: &mut Turn<'_>,
        request: &Admitted,
        extent: Extent,
    ) -> bool {
        if !self.prefetched.is_empty() && self.read_prefetched(turn, request, extent) {
            return true;
        }
        let aligned = extent.aligned_out(self.block_bytes());
        let Some(buffer) = self.buffers.alloc(aligned.len()) else {
            return false;
        };
        self.note_holder(request.flow, buffer);
        let memory = BufferSlice {
            buffer,
            offset_bytes: 0,
            len_bytes: u32::try_from(aligned.len()).expect("a read is at most 32 MiB"),
        };
        let read = self.insert_read(request, extent, memory);
        self.send_read(turn, read);
        true
    }

    /// Puts a read on the books; `memory` is for all its blocks.
    pub(crate) fn insert_read(
        &mut self,
        request: &Admitted,
        extent: Extent,
        memory: BufferSlice,
    ) -> u32 {
        self.reads.insert(Read {
            id: request.id,
            flow: request.flow,
            client: request.client,
            stream: request.stream,
            extent,
            aligned: extent.aligned_out(self.block_bytes()),
            memory,
            served: Vec::new(),
            outstanding: 0,
            error: None,
        })
    }

    /// Asks for all of a read, chunk by chunk.
    fn send_read(&mut self, turn: &mut Turn<'_>, index: u32) {
        let read = &mut self.reads[index];
        read.outstanding = 0;
        let (aligned, memory) = (read.aligned, read.memory);
        let mut from = 0;
        if !self.prefetched.is_empty() {
            return self.send_rest(turn, index);
        }
        // Nothing can answer before all are sent: completions are inputs of their own.
        while from < aligned.len() {
            let part = self.config.map.first_part(aligned.split_at(from).1);
            self.send_part(turn, index, part, memory.part(from, part.len()));
            from += part.len();
        }
    }

    /// The same, where some of it may have been prefetched.
    fn send_rest(&mut self, turn: &mut Turn<'_>, index: u32) {
        let read = &mut self.reads[index];
        // One for all that is there already.
        read.outstanding = 1;
        let (aligned, memory) = (read.aligned, read.memory);
        let mut from = 0;
        while from < aligned.len() {
            let part = self.config.map.first_part(aligned.split_at(from).1);
            let (len, run) = self.prefetched.first_part(part);
            let part = part.split_at(len).0;
            let memory = memory.part(from, len);
            match run {
                Some(run) => self.copy_prefetched(turn, run, index, part, memory),
                None => self.send_part(turn, index, part, memory),
            }
            from += len;
        }
        self.read_piece_ended(index, Ok(()));
    }

    /// Asks for a part of a read: of one leg, or of several where the policy splits it.
    fn send_part(&mut self, turn: &mut Turn<'_>, index: u32, part: Extent, memory: BufferSlice) {
        let read = &mut self.reads[index];
        read.outstanding += 1;
        let holders = self.config.map.holders(part.offset());
        let piece = Piece {
            flow: read.flow,
            client: read.client,
            stream: read.stream,
            ..Piece::new(PieceOwner::Read(index), part, holders, memory)
        };
        if self.is_free(&piece) {
            let candidates = self.legs.readable(piece.holders, LegSet::EMPTY);
            let plan = self.ask_policy(turn, &piece, candidates, true);
            if let ReadPlan::Split(pieces) = &plan {
                return self.send_split(turn, index, piece, pieces.as_slice());
            }
            let leg = first_leg(&plan);
            let piece = self.insert_piece(piece);
            return self.send_piece(turn, piece, leg);
        }
        let piece = self.insert_piece(piece);
        self.place(turn, piece);
    }

    /// Sends the pieces into which the policy has split a part of a read, cut at block borders.
    fn send_split(&mut self, turn: &Turn<'_>, read: u32, whole: Piece, parts: &[PlanPiece]) {
        let block = self.block_bytes();
        let mut from = 0u64;
        let mut end = 0u64;
        let mut outstanding = 0;
        for part in parts {
            end = (end + part.len_bytes).min(whole.extent.len());
            let border = if end == whole.extent.len() {
                end
            } else {
                end.next_multiple_of(block)
            };
            if border <= from {
                continue;
            }
            let piece = self.insert_piece(Piece {
                extent: Extent::new(whole.extent.offset() + from, border - from),
                memory: whole.memory.part(from, border - from),
                ..whole
            });
            outstanding += 1;
            self.send_piece(turn, piece, part.leg);
            from = border;
        }
        assert_eq!(
            from,
            whole.extent.len(),
            "the pieces of a plan cover the read"
        );
        // One was counted already.
        self.reads[read].outstanding += outstanding - 1;
    }

    /// Puts a piece on the books.
    pub(crate) fn insert_piece(&mut self, piece: Piece) -> u32 {
        self.pieces_begun += 1;
        self.pieces.insert(Piece {
            serial: self.pieces_begun,
            ..piece
        })
    }

    /// Whether it is still the same piece.
    pub(crate) fn is_live(&self, index: u32, serial: u64) -> bool {
        self.pieces
            .get(index)
            .is_some_and(|piece| piece.serial == serial)
    }

    /// Whether a piece is free to go to any leg.
    pub(crate) fn is_free(&self, piece: &Piece) -> bool {
        let is_unlocked = || self.pin_of(piece) == (Pin::None, LegSet::EMPTY);
        (self.locks.is_empty() || is_unlocked())
            && self.is_all_equal()
            && self.untold.is_empty()
            && self.bad_legs(piece.extent).is_empty()
    }

    /// The leg that must be read where legs differ. In a range of several chunks, of which there
    /// are some only where there are very many, the pin may not hold them all: then the first
    /// holder is read.
    ///
    /// Where a resync is needed, all reads go to the leg that it will copy from, but for ranges
    /// that have a pin of their own.
    pub(crate) fn divergence_of(&self, extent: Extent) -> DivergencePin {
        let pin = self.divergence.pin_of(extent);
        let is_needed = self.needed.overlaps(extent);
        if !is_needed && pin == DivergencePin::None {
            return pin;
        }
        let len = self.bad_len(extent);
        if len < extent.len() {
            return DivergencePin::Cut(len);
        }
        if is_needed {
            return self.needed_pin_of(extent, pin);
        }
        let DivergencePin::Leg(leg) = pin else {
            return pin;
        };
        let holders = self.good_holders(extent);
        if holders.contains(leg) {
            return pin;
        }
        holders.lowest().map_or(pin, DivergencePin::Leg)
    }

    /// The legs in sync that hold all of a range of one chunk; where none does, those that hold
    /// what is good of it.
    pub(crate) fn good_holders(&self, extent: Extent) -> LegSet {
        let holders = self.config.map.holders(extent.offset());
        let here = holders.intersection(self.legs.in_sync);
        let good = here.difference(self.bad_legs(extent));
        if good.is_empty() { here } else { good }
    }

    /// The leg that is believed where legs may differ after a crash: as Linux md has it, the first
    /// in sync, or of RAID10 the first copy that is. Where write-mostly legs may be behind, they
    /// may lack what others had when it was answered, and are believed last.
    pub(crate) fn resync_source(&self, extent: Extent) -> LegId {
        let places = self.config.map.places(extent.offset());
        let good = self.good_holders(extent);
        let legs = places.into_iter().map(|place| place.leg);
        let mut legs = legs.filter(|leg| good.contains(*leg));
        let first = legs.next().expect("every byte keeps a leg in sync");
        let may_be_behind = |leg| self.behind.is_allowed() && self.legs.write_mostly.contains(leg);
        if !may_be_behind(first) {
            return first;
        }
        legs.find(|leg| !may_be_behind(*leg)).unwrap_or(first)
    }

    /// What a piece must heed, and the legs that have failed a write beside it.
    fn pin_of(&self, piece: &Piece) -> (Pin, LegSet) {
        let (pin, failed) = self.locks.pin_of(piece.extent, piece.own_lock);
        let pin = match (pin, self.divergence_of(piece.extent)) {
            (pin, DivergencePin::None | DivergencePin::Cut(_)) => pin,
            (Pin::None | Pin::Open, DivergencePin::Leg(leg)) => Pin::Leg(leg),
            (Pin::Leg(pinned), DivergencePin::Leg(leg)) if pinned == leg => pin,
            (Pin::Leg(_) | Pin::Conflict, DivergencePin::Leg(_)) => Pin::Conflict,
        };
        (pin, failed)
    }

    /// Finds a leg for a piece, or makes it wait, or fails it.
    pub(crate) fn place(&mut self, turn: &mut Turn<'_>, index: u32) {
        self.drop_hedge(index);
        // Another leg may have taken the role of one that was a holder.
        let holders = self.config.map.holders(self.pieces[index].extent.offset());
        self.pieces[index].holders = holders;
        let mut piece = self.pieces[index];
        if let DivergencePin::Cut(len_bytes) = self.divergence_of(piece.extent) {
            if !matches!(piece.owner, PieceOwner::Read(_)) {
                // What a repair was to copy may differ since: that is a resync's to see to.
                return self.piece_ended(turn, index, Err(piece.error));
            }
            self.cut(turn, index, len_bytes);
            piece = self.pieces[index];
        }
        let bad = self.bad_legs(piece.extent);
        let out = piece.tried.union(bad);
        if self.can_be_cut(&piece, out) {
            // Another leg may have what the next one lacks.
            self.pieces[index].tried = LegSet::EMPTY;
            self.cut(turn, index, self.bad_len(piece.extent));
            return self.place(turn, index);
        }
        let is_anywhere = !self.legs.readable(piece.holders, out).is_empty();
        let may_differ = !self.needed.is_empty() || !self.untold.is_empty();
        if may_differ && is_anywhere && self.hold_moved(turn, index) {
            return;
        }
        let (pin, failed) = self.pin_of(&piece);
        let candidates = self.legs.readable(piece.holders, out.union(failed));
        let must_wait = match pin {
            Pin::Leg(leg) if failed.contains(leg) => true,
            Pin::Conflict => true,
            Pin::Leg(_) | Pin::None | Pin::Open => candidates.is_empty() && !failed.is_empty(),
        };
        if must_wait {
            return self.locks.wait(piece.extent, piece.own_lock, index);
        }
        if self.legs.readable(piece.holders, out).is_empty() {
            if !bad.is_empty() {
                return self.bad.lose(index, piece.serial);
            }
            return self.piece_ended(turn, index, Err(piece.error));
        }
        match pin {
            Pin::None => {
                let plan = self.ask_policy(turn, &piece, candidates, false);
                self.send_piece(turn, index, first_leg(&plan));
            }
            Pin::Open => {
                let plan = self.ask_policy(turn, &piece, candidates, false);
                self.send_pinned(turn, index, first_leg(&plan));
            }
            Pin::Leg(leg) if self.legs.in_sync.contains(leg) && !out.contains(leg) => {
                self.send_pinned(turn, index, leg);
            }
            Pin::Leg(_) if self.locks.pin_of(piece.extent, piece.own_lock).0 != Pin::None => {
                self.locks.wait(piece.extent, piece.own_lock, index);
            }
            Pin::Leg(_) => {
                // No write is under way: the range re-pins for good to a leg that can be read.
                let next = candidates.lowest().expect("a leg is left");
                self.re_pin(piece.extent, next);
                match piece.owner {
                    PieceOwner::Edge(write) if self.is_moved(piece.extent) => {
                        self.make_durable(write);
                    }
                    PieceOwner::Read(_) if self.is_moved(piece.extent) => {
                        return self.begin_moved(turn, index);
                    }
                    PieceOwner::Read(_) | PieceOwner::Edge(_) | PieceOwner::Repair(_) => {}
                }
                self.send_piece(turn, index, next);
            }
            Pin::Conflict => unreachable!("it waits"),
        }
    }

    /// Whether no leg is left for a piece of a client's read, but some may be for parts of it,
    /// because it is not bad on the same legs everywhere.
    fn can_be_cut(&self, piece: &Piece, out: LegSet) -> bool {
        matches!(piece.owner, PieceOwner::Read(_))
            && self.bad_len(piece.extent) < piece.extent.len()
            && self.legs.readable(piece.holders, out).is_empty()
    }

    /// Fails the pieces that no leg holds. Whether there were any.
    pub(crate) fn fail_lost_pieces(&mut self, turn: &mut Turn<'_>) -> bool {
        let lost = self.bad.take_lost();
        for &(index, serial) in &lost {
            if self.is_live(index, serial) {
                let error = self.pieces[index].error;
                self.piece_ended(turn, index, Err(error));
            }
        }
        !lost.is_empty()
    }

    /// Cuts a piece of a client's read in two, because no one leg may serve both parts.
    fn cut(&mut self, turn: &mut Turn<'_>, index: u32, len_bytes: u64) {
        let piece = &mut self.pieces[index];
        let PieceOwner::Read(read) = piece.owner else {
            unreachable!("edges are single blocks, and repairs are given up");
        };
        let (first, rest) = piece.extent.split_at(len_bytes);
        let whole = *piece;
        piece.extent = first;
        piece.memory = whole.memory.part(0, first.len());
        let rest = self.insert_piece(Piece {
            extent: rest,
            memory: whole.memory.part(first.len(), rest.len()),
            ..whole
        });
        self.reads[read].outstanding += 1;
        self.place(turn, rest);
    }

    /// Sends a piece to the leg that all reads beside the same locks go to.
    fn send_pinned(&mut self, turn: &Turn<'_>, index: u32, leg: LegId) {
        let piece = self.pieces[index];
        self.locks.pin(piece.extent, piece.own_lock, leg);
        self.send_piece(turn, index, leg);
    }

    fn send_piece(&mut self, turn: &Turn<'_>, index: u32, leg: LegId) {
        let piece = &self.pieces[index];
        let new = NewOp {
            owner: OpOwner::Piece(index),
            flow: piece.flow,
            kind: OpKind::Read,
            extent: self.config.map.on_leg(leg, piece.extent),
            memory: Some(piece.memory),
            fua: false,
            may_trim: false,
        };
        self.assign(turn, leg, new);
        if self.observes.late {
            self.watch(turn.now, index, leg);
        }
    }

    /// Asks the policy. A plan that names a leg which may not serve is a bug of the policy; it must
    /// not become wrong bytes, so the first candidate takes its place.
    fn ask_policy(
        &mut self,
        turn: &mut Turn<'_>,
        piece: &Piece,
        candidates: LegSet,
        may_split: bool,
    ) -> ReadPlan {
        let request = ReadRequest {
            may_split,
            ..request_of(piece)
        };
        let views = &mut self.legs.views;
        if self.config.map.is_mirror() {
            for view in views.iter_mut() {
                view.address = piece.extent.offset();
            }
        } else {
            for leg in candidates {
                let extent = self.config.map.on_leg(leg, piece.extent);
                views[leg.index()].address = extent.offset();
            }
        }
        // Once more after shares are unset, so that nothing of them stays.
        let has_shares = self.legs.legs[0].queue.has_shares();
        if has_shares || self.legs.had_shares {
            self.legs.had_shares = has_shares;
            for view in views.iter_mut() {
                let queue = &self.legs.legs[view.leg.index()].queue;
                let outstanding = || queue.outstanding(piece.flow, &self.legs.costs);
                view.own_outstanding = has_shares.then(outstanding);
            }
        }
        let views = if candidates.count() == views.len() {
            &*views
        } else {
            self.candidates.clear();
            let chosen = candidates.iter().map(|leg| views[leg.index()]);
            self.candidates.extend(chosen);
            &self.candidates
        };
        let plan = self.policy.plan_read(turn.now, &request, views, turn.prng);
        let allowed = match &plan {
            ReadPlan::Leg(leg) => candidates.contains(*leg),
            ReadPlan::Split(pieces) => {
                let pieces = pieces.as_slice();
                let lengths = pieces.iter().map(|piece| piece.len_bytes);
                let total = lengths.fold(0u64, u64::saturating_add);
                total == piece.extent.len()
                    && pieces.iter().all(|piece| candidates.contains(piece.leg))
            }
        };
        debug_assert!(
            allowed,
            "{} chose among legs it was not given: {plan:?}",
            self.policy.name()
        );
        let plan = if allowed {
            plan
        } else {
            ReadPlan::Leg(
                candidates
                    .lowest()
                    .expect("a policy is asked only where a leg is left"),
            )
        };
        self.count_choice(candidates, first_leg(&plan));
        plan
    }

    /// A leg has answered a piece.
    pub(crate) fn piece_answered(
        &mut self,
        turn: &mut Turn<'_>,
        index: u32,
        leg: LegId,
        result: Result<(), ErrorKind>,
    ) {
        let Err(kind) = result else {
            if self.heeds_pins(index, leg) {
                self.hedge_lost_race(index);
                return self.piece_ended(turn, index, Ok(()));
            }
            return self.place(turn, index);
        };
        let piece = &mut self.pieces[index];
        piece.tried.insert(leg);
        piece.error = kind;
        let (tried, extent) = (piece.tried, piece.extent);
        let tried = tried.union(self.bad_legs(extent));
        let piece = &self.pieces[index];
        if !self.legs.readable(piece.holders, tried).is_empty() {
            self.outputs
                .push_back(Output::Event(Event::ReadFailedOver { leg, extent, kind }));
        }
        self.note_read_error(turn, leg, kind);
        self.place(turn, index);
    }

    /// Whether what `leg` answered may be shown, now that it is known which locks were granted
    /// after the piece was sent. Where they have no pin yet, this leg is the one that reads have
    /// seen.
    pub(crate) fn heeds_pins(&mut self, index: u32, leg: LegId) -> bool {
        if self.locks.is_empty() && self.is_all_equal() && self.bad.is_empty() {
            return true;
        }
        let piece = self.pieces[index];
        if self.bad_legs(piece.extent).contains(leg) {
            return false; // It failed a write there that has ended since.
        }
        if matches!(self.divergence_of(piece.extent), DivergencePin::Cut(_)) {
            return false;
        }
        match self.pin_of(&piece) {
            (_, failed) if failed.contains(leg) => false,
            (Pin::None, _) => true,
            (Pin::Conflict, _) => false,
            (Pin::Leg(pin), _) if pin != leg => false,
            (Pin::Open | Pin::Leg(_), _) => {
                self.locks.pin(piece.extent, piece.own_lock, leg);
                true
            }
        }
    }

    /// A piece has been read, or no leg could.
    pub(crate) fn piece_ended(
        &mut self,
        turn: &mut Turn<'_>,
        index: u32,
        result: Result<(), ErrorKind>,
    ) {
        self.drop_hedge(index);
        let piece = self.pieces.remove(index);
        match piece.owner {
            PieceOwner::Read(read) => {
                if result.is_ok() && !piece.tried.is_empty() {
                    self.repair_legs(turn, piece.tried, piece.extent);
                }
                self.read_piece_ended(read, result);
            }
            PieceOwner::Edge(write) => self.edge_ended(turn, write, result),
            PieceOwner::Repair(repair) => self.repair_source_ended(turn, repair, result),
        }
    }

    fn read_piece_ended(&mut self, index: u32, result: Result<(), ErrorKind>) {
        let read = &mut self.reads[index];
        read.error = read.error.or_else(|| result.err());
        read.outstanding -= 1;
        if read.outstanding > 0 {
            return;
        }
        if read.error.is_some() {
            self.drop_served(index);
        } else if !read.served.is_empty() && !self.put_together(index) {
            // It has nothing any more that others may wait for, and waits as any other does.
            self.abandon_read(index);
            return self.wait_for_memory(Waiting::Restart(index), false);
        }
        let read = self.reads.remove(index);
        match read.error {
            None => {
                let from = read.extent.offset() - read.aligned.offset();
                let data = read.memory.part(from, read.extent.len());
                self.complete(read.id, Ok(Answer::Data(data)));
            }
            Some(kind) => {
                self.release_buffer(read.memory.buffer);
                self.complete(read.id, Err(kind));
            }
        }
    }

    /// A leg is out, and with it these pieces that it was asked for.
    pub(crate) fn reads_lost(&mut self, turn: &mut Turn<'_>, lost: &[LostPiece]) {
        let mut restarts = Vec::new();
        let mut edges = Vec::new();
        for piece in lost {
            if !self.is_live(piece.index, piece.serial) {
                continue; // Dropped with the rest of its read.
            }
            if !piece.in_device {
                self.place(turn, piece.index);
                continue;
            }
            match self.pieces[piece.index].owner {
                PieceOwner::Read(read) => {
                    self.abandon_read(read);
                    restarts.push(read);
                }
                PieceOwner::Edge(_) => edges.push(piece.index),
                PieceOwner::Repair(repair) => {
                    self.pieces.remove(piece.index);
                    self.end_repair(turn, repair);
                }
            }
        }
        for read in restarts {
            if !self.restart_read(turn, read) {
                self.wait_for_memory(Waiting::Restart(read), true);
            }
        }
        // In front of all else: they may use the reserve, and their writes hold locks and memory.
        for edge in edges {
            if !self.restart_edge(turn, edge) {
                self.wait_for_memory(Waiting::Edge(edge), true);
            }
        }
    }

    /// Drops all pieces of a read and its buffer; whoever still works on them works for nobody.
    pub(crate) fn abandon_read(&mut self, read: u32) {
        let mine = |piece: &Piece| piece.owner == PieceOwner::Read(read);
        let pieces = self.pieces.iter().filter(|(_, piece)| mine(piece));
        let pieces: Vec<u32> = pieces.map(|(index, _)| index).collect();
        // They come by rising index, and may be thousands.
        let is_one = |piece| pieces.binary_search(&piece).is_ok();
        let works_on = |owner| matches!(owner, OpOwner::Piece(piece) if is_one(piece));
        let ops = self.ops.iter().filter(|(_, op)| works_on(op.owner));
        let ops: Vec<u32> = ops.map(|(index, _)| index).collect();
        self.abandon_ops(&ops);
        for piece in pieces {
            self.drop_hedge(piece);
            self.locks.forget_reader(piece);
            self.pieces.remove(piece);
        }
        self.drop_served(read);
        self.release_buffer(self.reads[read].memory.buffer);
    }

    /// Begins an abandoned read anew in another buffer; `false` where there is no memory for it.
    pub(crate) fn restart_read(&mut self, turn: &mut Turn<'_>, index: u32) -> bool {
        let read = &mut self.reads[index];
        let Some(buffer) = self.buffers.alloc(read.aligned.len()) else {
            return false;
        };
        read.memory = BufferSlice {
            buffer,
            offset_bytes: 0,
            ..read.memory
        };
        read.error = None;
        self.send_read(turn, index);
        true
    }

    /// Reads an edge anew into other scratch; `false` where there is no memory for it.
    pub(crate) fn restart_edge(&mut self, turn: &mut Turn<'_>, index: u32) -> bool {
        let piece = self.pieces[index];
        let Some(buffer) = self.buffers.alloc_reserved(piece.extent.len()) else {
            return false;
        };
        let PieceOwner::Edge(write) = piece.owner else {
            unreachable!("only edges wait as edges");
        };
        let memory = BufferSlice {
            buffer,
            offset_bytes: 0,
            len_bytes: piece.memory.len_bytes,
        };
        self.edge_moved(write, piece.extent, memory);
        self.pieces[index].memory = memory;
        self.place(turn, index);
        true
    }
}

/// The leg of a plan, or of its first piece.
fn first_leg(plan: &ReadPlan) -> LegId {
    match plan {
        ReadPlan::Leg(leg) => *leg,
        ReadPlan::Split(pieces) => pieces.as_slice()[0].leg,
    }
}
