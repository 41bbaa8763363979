//! Runs the loops that a fit wants on a leg, in real time. Reads only.
//!
//! All of it happens on a thread of its own, which is left behind where the device does not answer:
//! whoever waits here waits no longer than the leg may take.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use heliostat_leg::{
    Arena, ArenaRange, IoChoice, LegHub, LegInfo, LegIo, LegMemory, LegOutcome, LegSpec,
};
use heliostat_model::fit::{Probe, SIZE_MIN_BYTES, Sample, probes};
use heliostat_types::{self as types, Extent, LegId, LegOpId, OpKind, Prng as _, RandomStream};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, clock_gettime};
use stdx::histogram::Histogram;
use stdx::units::format_size;

/// What was found out of a leg.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) info: LegInfo,
    pub(super) is_cached: bool,
    pub(super) user: Option<String>,
    pub(super) samples: Vec<Sample>,
    /// Whether everything was measured in time.
    pub(super) is_whole: bool,
    /// How many reads there were.
    pub(super) reads: u64,
    /// What could not be read.
    pub(super) bad: BadReads,
}

/// Reads that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BadReads {
    /// How many.
    pub(super) count: u64,
    /// Where the first one began, in bytes, and how it failed.
    pub(super) first: Option<(u64, types::ErrorKind)>,
}

/// What the thread tells.
enum Told {
    Opened(Box<LegInfo>, bool, Option<String>),
    /// What came of a loop, and what could not be read by now.
    Sample(Box<Sample>, BadReads),
    Failed(anyhow::Error),
    Ended,
}

/// Reads that were sent when the time was up are waited for that long besides.
const GRACE: Duration = Duration::from_secs(1);

/// So many reads may fail, each for up to half a minute: a spot of bad sectors that all loops meet.
/// What fails more often is broken, and its figures tell nothing.
const BAD_READS_MAX: u64 = 16;

/// Measures a leg for `time` at most, give or take [`GRACE`]. `say` hears what is measured.
///
/// # Errors
/// Where it cannot be opened or read, is too small, or does not answer in time.
pub(super) fn measure(
    spec: &LegSpec,
    time: Duration,
    mut say: impl FnMut(&str),
) -> anyhow::Result<Measured> {
    let until = Instant::now() + time + GRACE;
    let (sender, receiver) = mpsc::channel();
    let thread_spec = spec.clone();
    thread::Builder::new()
        .name("measure".to_owned())
        .spawn(move || {
            let ended = match work(&thread_spec, time, &sender) {
                Ok(()) => Told::Ended,
                Err(error) => Told::Failed(error),
            };
            // Who has waited long enough is gone.
            let _ = sender.send(ended);
        })
        .context("cannot start a thread")?;
    say("opening it");
    let mut opened = None;
    let mut samples: Vec<Sample> = Vec::new();
    let mut bad = BadReads::default();
    let is_whole = loop {
        let left = until.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left) {
            Ok(Told::Opened(info, is_cached, user)) => opened = Some((*info, is_cached, user)),
            Ok(Told::Sample(sample, failed)) => {
                say(&sample.probe.kind.to_string());
                bad = failed;
                samples.push(*sample);
            }
            Ok(Told::Failed(error)) => return Err(error.context(format!("measuring {spec}"))),
            Ok(Told::Ended) => break true,
            // What was measured before it fell silent may be enough.
            Err(RecvTimeoutError::Timeout) if samples.len() > 2 => break false,
            Err(_) => bail!(
                "{spec} did not answer within {:.0} s: it hangs, or is too slow to be measured; \
                 --time gives it longer",
                (time + GRACE).as_secs_f64()
            ),
        }
    };
    let Some((info, is_cached, user)) = opened else {
        bail!("{spec} was not opened");
    };
    Ok(Measured {
        info,
        is_cached,
        user,
        is_whole,
        bad,
        reads: samples.iter().map(|it| it.service_ns.count()).sum(),
        samples,
    })
}

/// Opens the leg and runs all loops.
fn work(spec: &LegSpec, time: Duration, sender: &Sender<Told>) -> anyhow::Result<()> {
    let begun = Instant::now();
    let opened = spec.open_to_read()?;
    let info = opened.leg.info().clone();
    if info.size_bytes < SIZE_MIN_BYTES {
        bail!(
            "it has {}, and less than {} tells nothing of a device",
            format_size(info.size_bytes),
            format_size(SIZE_MIN_BYTES)
        );
    }
    let said = Told::Opened(Box::new(info.clone()), opened.is_cached, opened.user);
    if sender.send(said).is_err() {
        return Ok(());
    }
    let all = probes(info.size_bytes);
    let slots = all.iter().map(|probe| probe.depth);
    let bytes = all
        .iter()
        .map(|probe| probe.depth as u64 * probe.pattern.len_bytes);
    let arena = Arena::new(usize::try_from(bytes.max().unwrap_or(0))?)?;
    let hub = LegHub::new(vec![opened.leg], Arc::clone(&arena), IoChoice::Auto)?;
    let mut device = Device {
        hub,
        size_bytes: info.size_bytes,
        block_bytes: u64::from(info.logical_block_bytes),
        sent: vec![(types::Instant::ZERO, Extent::new(0, 0)); slots.max().unwrap_or(0)],
        bad: BadReads::default(),
    };
    for probe in all {
        let share = time / 100 * u32::try_from(probe.time_percent)?;
        // Waiting for the last reads takes time as well.
        let left = time.saturating_sub(begun.elapsed());
        let sample = device.run(probe, share.min(left))?;
        if sender
            .send(Told::Sample(Box::new(sample), device.bad))
            .is_err()
        {
            return Ok(());
        }
    }
    Ok(())
}

/// The leg while it is measured.
struct Device {
    hub: LegHub,
    size_bytes: u64,
    block_bytes: u64,
    /// When the read in each slot was sent, and which bytes are read.
    sent: Vec<(types::Instant, Extent)>,
    bad: BadReads,
}

impl Device {
    /// Runs one loop: as many reads in flight as it wants, until its time is over.
    fn run(&mut self, probe: Probe, time: Duration) -> anyhow::Result<Sample> {
        let mut places = Places::new(&probe, self.size_bytes, self.block_bytes);
        let begun_at = now();
        let until = begun_at + time.into();
        let mut ended_at = begun_at;
        let mut lost = types::Duration::ZERO;
        let mut service_ns = Histogram::new();
        let mut done = Vec::new();
        for slot in 0..probe.depth {
            self.send(slot, places.next());
        }
        while self.hub.outstanding() > 0 {
            self.hub.kick();
            if !self.hub.has_ready() {
                wait(&self.hub);
            }
            self.hub.reap(now(), &mut done);
            for done in done.drain(..) {
                let slot = usize::try_from(done.op.0)?;
                let (at, (sent_at, _)) = (now(), self.sent[slot]);
                let is_read = self.heed(slot, done.outcome)?;
                // What ends later is only waited for.
                if at > until || service_ns.count() >= probe.reads_max {
                    continue;
                }
                match is_read {
                    true => service_ns.record((at - sent_at).as_ns()),
                    false => lost += at - sent_at,
                }
                ended_at = at;
                self.send(slot, places.next());
            }
        }
        // Reads that were still on their way are not counted: then neither is the time since.
        let elapsed = match probe.depth {
            // Nor is what a bad sector took, which nothing else went on beside.
            1 => (ended_at - begun_at).saturating_sub(lost),
            _ if service_ns.count() >= probe.reads_max => ended_at - begun_at,
            _ => types::Duration::from(time),
        };
        Ok(Sample {
            probe,
            service_ns,
            elapsed,
        })
    }

    /// Whether a read went well. One that failed is noted; so many are an error.
    fn heed(&mut self, slot: usize, outcome: LegOutcome) -> anyhow::Result<bool> {
        match outcome {
            LegOutcome::Done => Ok(true),
            LegOutcome::Short => bail!("it became smaller while it was read"),
            LegOutcome::Failed(kind) => {
                let at = self.sent[slot].1.offset();
                self.bad.count += 1;
                let (first, _) = *self.bad.first.get_or_insert((at, kind));
                if self.bad.count > BAD_READS_MAX {
                    let count = self.bad.count;
                    bail!(
                        "{count} reads failed, the first one near byte {first}, the last one near \
                         byte {at}: {kind}; is it broken?"
                    )
                }
                Ok(false)
            }
            LegOutcome::Lost | LegOutcome::Status(_) => bail!("it was lost"),
        }
    }

    fn send(&mut self, slot: usize, extent: Extent) {
        let len_bytes = usize::try_from(extent.len()).expect("a read fits memory");
        let io = LegIo {
            op: LegOpId(slot as u64),
            kind: OpKind::Read,
            extent,
            memory: Some(LegMemory::One(ArenaRange {
                offset_bytes: slot * len_bytes,
                len_bytes,
            })),
            fua: false,
            may_trim: false,
            failfast: false,
        };
        self.sent[slot] = (now(), extent);
        self.hub.submit(self.sent[slot].0, LegId::new(0), io);
    }
}

/// Where the reads of a loop lie.
struct Places {
    len_bytes: u64,
    from_block: u64,
    blocks: u64,
    is_sequential: bool,
    next: u64,
    prng: RandomStream,
}

impl Places {
    fn new(probe: &Probe, size_bytes: u64, block_bytes: u64) -> Self {
        let pattern = probe.pattern;
        let len_bytes = pattern.len_bytes.max(block_bytes);
        let hundredth = size_bytes / 100;
        Self {
            len_bytes,
            from_block: hundredth * pattern.from_percent / len_bytes,
            blocks: (hundredth * pattern.span_percent / len_bytes).max(1),
            is_sequential: pattern.sequential,
            next: 0,
            // Other places every time: what a cache still has of the last time is not asked for.
            prng: RandomStream::new(now().as_ns(), "advise", probe.time_percent),
        }
    }

    fn next(&mut self) -> Extent {
        let block = if self.is_sequential {
            self.next % self.blocks
        } else {
            self.prng.below(self.blocks)
        };
        self.next += 1;
        let offset = (self.from_block + block) * self.len_bytes;
        Extent::new(offset, self.len_bytes)
    }
}

/// Waits for a descriptor, or for the time that a model asks for.
fn wait(hub: &LegHub) {
    let descriptors = hub.fds();
    let mut watched: Vec<_> = descriptors
        .iter()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .collect();
    let until = hub
        .next_deadline()
        .map(|at| Duration::from(at.saturating_since(now())));
    let timeout = until.and_then(|until| until.try_into().ok());
    // Interrupted or not, what is ready is looked for.
    let _ = poll(&mut watched, timeout.as_ref());
}

fn now() -> types::Instant {
    let time: Duration = clock_gettime(ClockId::Monotonic)
        .try_into()
        .expect("the clock runs from zero");
    types::Instant::ZERO + time.into()
}
