//! The seam between the engine and the policies.

use std::fmt::Debug;

use heliostat_types::{
    ClientId, Duration, Extent, Instant, LEGS_MAX, LegId, OpKind, Prng, StreamId,
};

use crate::beliefs::{LegBeliefs, StreamBelief, Weight};
use crate::spec::PolicySpec;

/// A read that wants a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// Who asks: every connection of one process or host is the same client.
    pub client: ClientId,
    /// On which connection, or from which job, it came.
    pub stream: StreamId,
    /// Which bytes of the array.
    pub extent: Extent,
    /// Whether several legs may serve it. Otherwise one does, whatever the plan: of pieces that of
    /// the first one.
    pub may_split: bool,
}

/// What a policy sees of one leg that could serve the read.
///
/// An operation is *in flight* from the moment it is handed to the leg (it may still wait in the
/// queue in front of it) until its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegView {
    /// Which leg.
    pub leg: LegId,
    /// Where on this leg the read would begin, in bytes from the start of the leg's data. The same
    /// on every leg of a RAID1.
    pub address: u64,
    /// Reads in flight.
    pub reads_in_flight: u32,
    /// Writes, trims, write-zeroes and flushes in flight.
    pub writes_in_flight: u32,
    /// Bytes of the reads in flight.
    pub read_bytes_in_flight: u64,
    /// Bytes of the writes in flight.
    pub write_bytes_in_flight: u64,
    /// Where the last read or write handed to the leg ends; `None` before the first one.
    pub last_sent_end: Option<u64>,
    /// Whether the leg turns: a hard disk.
    pub rotational: bool,
    /// The leg is preferred by configuration.
    pub read_preferred: bool,
    /// How many operations the leg takes at once before they queue in front of it.
    pub queue_depth: u32,
    /// The size of request that suits the device best, in bytes; 0 where it does not say.
    pub optimal_io_bytes: u64,
    /// Reads completed since the statistics began; 0 while accounting is off.
    pub reads_completed: u64,
    /// Sum of the service times of those reads; zero while accounting is off.
    pub read_wait: Duration,
    /// What the client who asks has outstanding at this leg, as time that it is expected to take;
    /// `None` where clients have no shares of the legs that somebody has set. To have its share of
    /// each it must ask each for some.
    pub own_outstanding: Option<Duration>,
}

impl LegView {
    /// Operations of any kind in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.reads_in_flight + self.writes_in_flight
    }
}

/// One operation on one leg, as a policy is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpView {
    /// Which leg.
    pub leg: LegId,
    /// What is done. Flushes have an empty extent.
    pub kind: OpKind,
    /// To which bytes of the leg.
    pub extent: Extent,
    /// Where these begin in the array; 0 where nobody knows.
    pub array_offset: u64,
}

/// Which operations a policy wants to be told of. What it does not ask for costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observes {
    /// Call [`ReadPolicy::on_dispatch`].
    pub dispatch: bool,
    /// Call [`ReadPolicy::on_complete`].
    pub complete: bool,
    /// Call [`ReadPolicy::late_after`] and [`ReadPolicy::on_late`].
    pub late: bool,
    /// Call [`ReadPolicy::prefetch`].
    pub requests: bool,
}

impl Observes {
    /// None.
    pub const NOTHING: Self = Self {
        dispatch: false,
        complete: false,
        late: false,
        requests: false,
    };
    /// Every operation from its beginning to its end.
    pub const ALL: Self = Self {
        dispatch: true,
        complete: true,
        late: false,
        requests: false,
    };
}

/// The most pieces that a plan may cut a read into.
pub const PIECES_MAX: usize = LEGS_MAX;

/// One piece of a read and the leg that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which leg.
    pub leg: LegId,
    /// How many bytes, from where the piece before it ended.
    pub len_bytes: u64,
}

/// The pieces of a split read, in order; they cover it exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    pieces: [Piece; PIECES_MAX],
    count: usize,
}

impl Pieces {
    /// No piece yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            pieces: [Piece {
                leg: LegId::new(0),
                len_bytes: 0,
            }; PIECES_MAX],
            count: 0,
        }
    }

    /// Adds the next piece.
    ///
    /// # Panics
    /// Where there are [`PIECES_MAX`] already, or the piece is empty.
    pub fn push(&mut self, piece: Piece) {
        assert!(piece.len_bytes > 0, "a piece has bytes");
        self.pieces[self.count] = piece;
        self.count += 1;
    }

    /// All of them, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Piece] {
        &self.pieces[..self.count]
    }
}

impl Default for Pieces {
    fn default() -> Self {
        Self::new()
    }
}

/// Where a read goes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a box would allocate per pick")]
pub enum ReadPlan {
    /// All of it to one leg.
    Leg(LegId),
    /// Cut into pieces that run at once, where [`ReadRequest::may_split`] says so. The engine may
    /// still send a piece elsewhere (a pin, a leg that failed), and cuts at block borders: a piece
    /// whose end is not a multiple of the array's block size is rounded up to one.
    Split(Pieces),
}

/// A read that its leg has not answered when it was expected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateRead {
    /// Which leg was asked.
    pub leg: LegId,
    /// When.
    pub sent: Instant,
}

/// What is to be done about a read that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Nothing yet: ask again after this long.
    LookAgain(Duration),
    /// A *hedge*: the read is sent to this leg as well, and who answers first serves it.
    Hedge(LegId),
    /// Nothing: it is waited for.
    Wait,
}

/// Bytes to be read before anybody asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// From which leg. Where it does not hold them, the engine takes another one.
    pub leg: LegId,
    /// Which bytes of the array. They are read in one operation each, as far as they lie in one
    /// chunk of a RAID10, and are not being prefetched already.
    pub extent: Extent,
}

/// What a policy believed of a leg when it chose, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// How long the read was predicted to take there.
    pub cost: Duration,
    /// The leg is slower just now than it is known to be.
    pub is_slow: bool,
    /// It is taken for one with an arm, whatever it says.
    pub turns: bool,
    /// Writes wait for it more than for others, and it costs more by that.
    pub delays_writes: bool,
}

/// What a policy that goes by averages since a checkpoint has of a leg: what btrfs's `read_stats`
/// tells as such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Reads completed since the last checkpoint, or since the policy began to count.
    pub reads: u64,
    /// Sum of the service times of those reads.
    pub wait: Duration,
    /// Picks in a row that passed the leg over. Below zero it is tried whatever its average, for as
    /// many picks more at the most.
    pub age: i64,
    /// How many checkpoints there were.
    pub count: u64,
}

/// Where the bytes of an array lie on its legs.
pub trait Layout: Debug {
    /// How long chunks are, each of which lies as a whole on some legs; `None` where all bytes lie
    /// at the same place of every leg.
    fn chunk_bytes(&self) -> Option<u64>;

    /// Where the byte at `offset` of the array lies on a leg; `None` where the leg does not hold
    /// it, or the array ends before.
    fn address_on(&self, leg: LegId, offset: u64) -> Option<u64>;
}

/// A read policy.
pub trait ReadPolicy: Debug + Send {
    /// The name people call it by.
    fn name(&self) -> &'static str;

    /// Which operations it wants to be told of.
    fn observes(&self) -> Observes {
        Observes::NOTHING
    }

    /// Chooses the leg, or legs, for `request` among `legs`: never empty, by rising index, and
    /// only legs that may serve all of the range. The answer names legs of this list alone.
    ///
    /// Called once per choice; `request.extent` is never empty.
    fn plan_read(
        &mut self,
        now: Instant,
        request: &ReadRequest,
        legs: &[LegView],
        prng: &mut dyn Prng,
    ) -> ReadPlan;

    /// What was believed of the candidate at this place when [`ReadPolicy::plan_read`] was called
    /// last; `None` where the policy predicts nothing.
    fn belief(&self, _place: usize) -> Option<Belief> {
        None
    }

    /// Which part of its rule decided when [`ReadPolicy::plan_read`] was called last, in a few
    /// words; `None` where the rule is one.
    fn reason(&self) -> Option<&'static str> {
        None
    }

    /// What it would weigh a candidate at now; the least is chosen. `None` where it does not go by
    /// one number that follows from the candidate alone, or does not know that.
    fn weight(&self, _view: &LegView) -> Option<Weight> {
        None
    }

    /// What it has learned of a leg, for people; nothing where it learns nothing. It may allocate.
    fn beliefs(&self, _now: Instant, _leg: LegId) -> LegBeliefs {
        LegBeliefs::default()
    }

    /// The streams that are read now, for people; none where it knows of none. It may allocate.
    fn streams(&self, _now: Instant) -> Vec<StreamBelief> {
        Vec::new()
    }

    /// The sums since a checkpoint that it goes by for a leg; `None` where it goes by none.
    fn checkpoint(&self, _leg: LegId) -> Option<Checkpoint> {
        None
    }

    /// What it has learned of a leg, to be kept over a restart; empty where that is nothing. It may
    /// allocate.
    fn learned(&self, _leg: LegId) -> Vec<f32> {
        Vec::new()
    }

    /// Takes up what [`ReadPolicy::learned`] of a policy of the same name gave for the same device,
    /// before the leg is read. It goes by that until answers say otherwise, which soon weigh more.
    /// Whether it could be used: what makes no sense, or was kept by another version, is not.
    fn recall(&mut self, _leg: LegId, _learned: &[f32]) -> bool {
        false
    }

    /// How long after it was sent a read of `leg` counts as late; `None`: never. Called once for
    /// each read that one leg serves, where [`ReadPolicy::observes`] asks for it; with `is_part`
    /// once for each part that a leg serves of a read, and for each that waits for what the leg
    /// prefetches, with the extent of all of that.
    fn late_after(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        _leg: &LegView,
        _is_part: bool,
    ) -> Option<Duration> {
        None
    }

    /// A read is late. `legs` are those that could serve it as well: never empty, by rising index,
    /// and without the one that is late; `request` has the extent that `late_after` was asked with.
    /// The engine has the last word: it hedges what it has memory for, and a small share of reads.
    fn on_late(
        &mut self,
        _now: Instant,
        _request: &ReadRequest,
        _late: LateRead,
        _legs: &[LegView],
    ) -> Late {
        Late::Wait
    }

    /// A client has asked for `request`, which may span chunks, and was served or will be, by a leg
    /// or by what was prefetched; or there is none, and a leg has read what was prefetched. What is
    /// to be read before it is wanted goes into `prefetch`; it is empty, and there is memory for
    /// `room_bytes`. `legs` are all that may be read, by rising index; what they hold, and where,
    /// says `layout` and not their address. Called once for each of both, where
    /// [`ReadPolicy::observes`] asks for it.
    fn prefetch(
        &mut self,
        _now: Instant,
        _request: Option<&ReadRequest>,
        _legs: &[LegView],
        _layout: &dyn Layout,
        _room_bytes: u64,
        _prefetch: &mut Vec<Prefetch>,
    ) {
    }

    /// Much of the memory for what is prefetched is taken: bytes of that whose reader has stopped,
    /// for long or not, where others may want the memory; `None` where there are none. They are
    /// given back. Asked before [`ReadPolicy::prefetch`], with what a client has `asked` for.
    fn unwanted(&mut self, _now: Instant, _asked: Option<Extent>) -> Option<Extent> {
        None
    }

    /// An operation was handed to a leg. Told of every read and write, whoever chose its leg, where
    /// [`ReadPolicy::observes`] asks for it.
    fn on_dispatch(&mut self, _now: Instant, _op: &OpView) {}

    /// An operation ended after `service_time`; `ok` says whether the leg did it.
    fn on_complete(&mut self, _now: Instant, _op: &OpView, _service_time: Duration, _ok: bool) {}

    /// A leg was faulted or removed (`present` is false), or came back in sync. What was learned of
    /// it is void either way, so that by default its statistics are reset.
    fn on_leg_state(&mut self, leg: LegId, _present: bool) {
        self.reset(Some(leg));
    }

    /// Everything that was learned is void, of one leg or (`None`) of all.
    fn reset(&mut self, _leg: Option<LegId>) {}

    /// Statistics are reset by the user, of one leg or (`None`) of all. Plain averages since some
    /// moment are such statistics, and begin anew; what follows the device by itself stays.
    fn restart_averages(&mut self, _leg: Option<LegId>) {}

    /// Takes over new values of its tunables from `spec`, which is of this very policy, and keeps
    /// what it has learned. [`ReadPolicy::observes`] may answer otherwise afterwards.
    fn configure(&mut self, _spec: &PolicySpec) {}
}
