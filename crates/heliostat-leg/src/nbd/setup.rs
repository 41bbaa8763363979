//! Opening an export as a leg, and plain blocking access to it before the array is served.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heliostat_nbd::codec::transmission;
use heliostat_nbd::handshake::Negotiated;
use heliostat_nbd::uri::{Endpoint, ExportUri};
use heliostat_types::{ErrorKind, Extent, LegOpId, OpKind, RandomStream, StatusRun};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use stdx::units::format_size;

use super::client::{NbdClient, data_run, payload_bytes_max, trims_to_zeros};
use super::dial::Target;
use crate::api::{LegIo, LegOutcome};
use crate::arena::{Arena, ArenaRange};
use crate::error::LegError;
use crate::leg::LegInfo;
use crate::open::QUEUE_DEPTH_MAX;
use crate::spec::NbdSpec;

/// The largest block that everything above can keep to.
const BLOCK_MAX_BYTES: u32 = 4096;

/// The smallest: what is above wants whole sectors.
const BLOCK_MIN_BYTES: u32 = 512;

/// How many operations each connection is given at once: servers carry out 16 or so at a time
/// (qemu-nbd, nbdkit), and the next ones are to be there when these are done.
const QUEUE_DEPTH_PER_CONNECTION: u32 = 32;

/// How much is moved at once during setup.
const WINDOW_BYTES: u64 = 1 << 20;

/// How long a transfer of the setup may take, connecting again included.
const TRANSFER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a flush may take: the server may have gigabytes in its cache after a copy.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(600);

/// Where one export is found, to see that no two legs are the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    server: Server,
    export: String,
}

/// Where a server is found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Server {
    Socket(PathBuf),
    Addresses(Vec<SocketAddr>),
}

impl Place {
    pub(super) fn of(target: &Target, uri: &ExportUri) -> Self {
        let server = match &uri.endpoint {
            Endpoint::Unix(path) => Server::Socket(path.clone()),
            Endpoint::Tcp { .. } | Endpoint::Inherited | Endpoint::Stdio => {
                Server::Addresses(target.addresses().unwrap_or_default())
            }
        };
        Self {
            server,
            export: uri.export.clone(),
        }
    }

    /// Whether both are the same export, whatever their servers are called.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_same_server = match (&self.server, &other.server) {
            (Server::Socket(one), Server::Socket(other)) => one == other,
            (Server::Addresses(one), Server::Addresses(other)) => {
                one.iter().any(|address| other.contains(address))
            }
            (Server::Socket(_), Server::Addresses(_))
            | (Server::Addresses(_), Server::Socket(_)) => false,
        };
        is_same_server && self.export == other.export
    }
}

/// An export that is open, before the array is served.
#[derive(Debug)]
pub(crate) struct NbdStore {
    client: RefCell<NbdClient>,
    /// What is moved during setup lies here.
    arena: Arc<Arena>,
    size_bytes: u64,
    block_bytes: u64,
    pub(crate) place: Place,
}

/// Connects to an export that can be a leg, or whose bytes are only to be looked at.
pub(crate) fn open_export(
    name: &str,
    spec: &NbdSpec,
    is_to_be_written: bool,
) -> Result<(NbdStore, LegInfo), LegError> {
    let uri = canonical(&spec.uri);
    let target = Target::new(uri.clone());
    let first = target.dial().map_err(|error| LegError::Unfit {
        leg: name.to_owned(),
        problem: error.to_string(),
        way_out: error.way_out().to_owned(),
    })?;
    let terms = first.negotiated;
    let blocks = Blocks::of(&terms).map_err(|problem| LegError::Unfit {
        leg: name.to_owned(),
        problem,
        way_out: "name another export, or put a filter before it that changes that (nbdkit's \
                  blocksize)"
            .to_owned(),
    })?;
    if is_to_be_written && terms.details.flags & transmission::READ_ONLY != 0 {
        return Err(LegError::Unfit {
            leg: name.to_owned(),
            problem: "its server serves it for reading only".to_owned(),
            way_out: "let it serve for writing (nbdkit and qemu-nbd: without -r)".to_owned(),
        });
    }
    let connections = match spec.connections {
        _ if terms.details.flags & transmission::CAN_MULTI_CONN == 0 => 1,
        connections => connections,
    };
    let info = describe(&uri, &terms, &blocks, connections);
    let failed = |source| LegError::Io {
        leg: name.to_owned(),
        doing: "have descriptors for",
        source,
    };
    let place = Place::of(&target, &uri);
    let prng = RandomStream::new(u64::from(process::id()), name, 0);
    let client = NbdClient::new(target, first, blocks.logical, connections, prng);
    let store = NbdStore {
        client: RefCell::new(client.map_err(failed)?),
        arena: Arena::new(usize::try_from(WINDOW_BYTES).expect("a window is small"))?,
        size_bytes: info.size_bytes,
        block_bytes: u64::from(blocks.logical),
        place,
    };
    Ok((store, info))
}

/// The URI with the path of the socket made absolute and free of links.
fn canonical(uri: &ExportUri) -> ExportUri {
    let mut uri = uri.clone();
    if let Endpoint::Unix(path) = &mut uri.endpoint
        && let Ok(found) = fs::canonicalize(&*path)
    {
        *path = found;
    }
    uri
}

/// The blocks of an export, as a leg has them.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    logical: u32,
    physical: u32,
    preferred: u32,
}

impl Blocks {
    /// What is wrong with them where they do not fit a leg.
    fn of(terms: &Negotiated) -> Result<Self, String> {
        // What the protocol says of servers that say nothing.
        let [smallest, preferred, _] = terms.details.block_sizes.unwrap_or([1, 4096, u32::MAX]);
        if smallest > BLOCK_MAX_BYTES {
            return Err(format!(
                "its server wants blocks of {smallest} bytes at least, and legs have \
                 {BLOCK_MAX_BYTES} at most"
            ));
        }
        let logical = smallest.max(BLOCK_MIN_BYTES);
        if payload_bytes_max(terms, u64::from(logical)) == 0 {
            return Err(format!(
                "its server takes less than a block of {logical} bytes at a time"
            ));
        }
        if terms.details.size_bytes < u64::from(logical) {
            return Err(format!("it has no block of {logical} bytes"));
        }
        Ok(Self {
            logical,
            physical: preferred.clamp(logical, logical.max(64 << 10)),
            preferred,
        })
    }
}

fn describe(uri: &ExportUri, terms: &Negotiated, blocks: &Blocks, connections: usize) -> LegInfo {
    let can = |flag| terms.details.flags & flag != 0;
    let size_bytes = terms.details.size_bytes;
    let size_bytes = size_bytes - size_bytes % u64::from(blocks.logical);
    let size = format_size(size_bytes);
    let ways = match connections {
        1 => "one connection".to_owned(),
        _ => format!("up to {connections} connections"),
    };
    let flush = if can(transmission::SEND_FLUSH) {
        ""
    } else {
        "; it cannot flush, so that losing its connection after any write loses the leg"
    };
    let depth = QUEUE_DEPTH_PER_CONNECTION * u32::try_from(connections).expect("few");
    let logical = blocks.logical;
    LegInfo {
        size_bytes,
        logical_block_bytes: logical,
        physical_block_bytes: blocks.physical,
        rotational: can(transmission::ROTATIONAL),
        caches_writes: can(transmission::SEND_FLUSH),
        optimal_io_bytes: match blocks.preferred {
            ..=4096 => 0,
            preferred => u64::from(preferred),
        },
        queue_depth: depth.min(QUEUE_DEPTH_MAX),
        fua: can(transmission::SEND_FUA),
        trim_reads_zeros: trims_to_zeros(terms),
        fast_zero: trims_to_zeros(terms),
        identity: format!("nbd:{}:{uri}", terms.details.size_bytes),
        volatile: false,
        description: format!(
            "NBD export {uri}, {size}, blocks of {logical} bytes, over {ways}{flush}"
        ),
    }
}

impl NbdStore {
    /// The export, to be driven by a hub from now on.
    pub(crate) fn into_client(self) -> NbdClient {
        self.client.into_inner()
    }

    /// Fills `bytes` from `offset_bytes` on, at any alignment.
    pub(crate) fn read_at(&self, offset_bytes: u64, bytes: &mut [u8]) -> io::Result<()> {
        let wanted = self.wanted(offset_bytes, bytes.len())?;
        for window in self.windows(wanted) {
            self.transfer(OpKind::Read, window)?;
            let part = window
                .intersection(wanted)
                .expect("windows hold what is wanted");
            let memory = self.arena.slice(place(part, window));
            let at = place(part, wanted);
            bytes[at.offset_bytes..][..at.len_bytes].copy_from_slice(memory);
        }
        Ok(())
    }

    /// Stores `bytes` from `offset_bytes` on, at any alignment; blocks that are changed in part are
    /// read first.
    pub(crate) fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> io::Result<()> {
        let wanted = self.wanted(offset_bytes, bytes.len())?;
        for window in self.windows(wanted) {
            let part = window
                .intersection(wanted)
                .expect("windows hold what is wanted");
            if part != window {
                self.transfer(OpKind::Read, window)?;
            }
            let at = place(part, wanted);
            self.arena
                .slice_mut(place(part, window))
                .copy_from_slice(&bytes[at.offset_bytes..][..at.len_bytes]);
            self.transfer(OpKind::Write, window)?;
        }
        Ok(())
    }

    /// Makes everything durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let outcome = self.perform(OpKind::Flush, Extent::default())?;
        // As the engine has it: who cannot flush has nothing to.
        if outcome == LegOutcome::Failed(ErrorKind::NotSupported) {
            return Ok(());
        }
        self.expect_done(&outcome)
    }

    /// The first run of data that ends after `at`, clipped to `end`; empty at `end` where there is
    /// none.
    pub(crate) fn data_run(&self, mut at: u64, end: u64) -> io::Result<(u64, u64)> {
        let mut start = None;
        while at < end {
            for run in self.status(Extent::from_range(at, end))? {
                let is_data = !run.zero;
                match start {
                    None if is_data => start = Some(at),
                    Some(start) if !is_data => return Ok((start, at)),
                    None | Some(_) => {}
                }
                at += run.len_bytes;
            }
        }
        Ok((start.unwrap_or(end), end))
    }

    /// What the server says of an extent, as far as it says something of it at once.
    fn status(&self, extent: Extent) -> io::Result<Vec<StatusRun>> {
        /// What one question is about.
        const STATUS_BYTES_MAX: u64 = 1 << 30;
        let asked = extent.split_at(extent.len().min(STATUS_BYTES_MAX)).0;
        let outcome = self.perform(OpKind::BlockStatus, asked)?;
        if let LegOutcome::Status(runs) = outcome {
            return Ok(runs);
        }
        if let LegOutcome::Failed(_) = outcome {
            // All of it may be data; where the server is gone, reading that tells.
            return Ok(vec![data_run(asked.len())]);
        }
        self.expect_done(&outcome).map(|()| Vec::new())
    }

    fn wanted(&self, offset_bytes: u64, len_bytes: usize) -> io::Result<Extent> {
        u64::try_from(len_bytes)
            .ok()
            .and_then(|len| Extent::checked_new(offset_bytes, len))
            .filter(|extent| extent.end() <= self.size_bytes)
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Whole blocks that together hold `wanted`, none larger than the window.
    fn windows(&self, wanted: Extent) -> impl Iterator<Item = Extent> + use<> {
        let mut rest = wanted.aligned_out(self.block_bytes);
        std::iter::from_fn(move || {
            let (window, after) = rest.split_at(rest.len().min(WINDOW_BYTES));
            rest = after;
            (!window.is_empty()).then_some(window)
        })
    }

    fn transfer(&self, kind: OpKind, window: Extent) -> io::Result<()> {
        let outcome = self.perform(kind, window)?;
        self.expect_done(&outcome)
    }

    /// Carries out an operation, with the beginning of the window as its memory.
    fn perform(&self, kind: OpKind, extent: Extent) -> io::Result<LegOutcome> {
        let mut client = self.client.borrow_mut();
        let moves = matches!(kind, OpKind::Read | OpKind::Write);
        client.submit(LegIo {
            op: LegOpId(0),
            kind,
            extent,
            memory: moves.then(|| place(extent, extent).into()),
            fua: false,
            may_trim: true,
            failfast: false,
        });
        client.kick(&self.arena);
        let limit = if kind == OpKind::Flush {
            FLUSH_TIME_MAX
        } else {
            TRANSFER_TIME_MAX
        };
        let end = Instant::now() + limit;
        let mut done = Vec::new();
        loop {
            client.reap(&self.arena, &mut done);
            if let Some((_, outcome)) = done.pop() {
                return Ok(outcome);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                client.retire();
                let told = client.take_notes().join("; ");
                let told = format!("no answer within {} s; {told}", limit.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, told));
            }
            let timeout = Timespec::try_from(left).expect("a few seconds");
            let fd = client.fd();
            match poll(
                &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
                Some(&timeout),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn expect_done(&self, outcome: &LegOutcome) -> io::Result<()> {
        let told = self.client.borrow_mut().take_notes().join("; ");
        match outcome {
            LegOutcome::Done => Ok(()),
            LegOutcome::Failed(kind) if told.is_empty() => Err(io::Error::other(kind.to_string())),
            LegOutcome::Failed(_)
            | LegOutcome::Status(_)
            | LegOutcome::Short
            | LegOutcome::Lost => Err(io::Error::other(told)),
        }
    }
}

/// Where `part` lies in `whole`, which begins no later.
fn place(part: Extent, whole: Extent) -> ArenaRange {
    let index = |bytes| usize::try_from(bytes).expect("it fits memory");
    ArenaRange {
        offset_bytes: index(part.offset() - whole.offset()),
        len_bytes: index(part.len()),
    }
}
