//! The control socket: one JSON object per line in, one per line out.
//!
//! It has threads of its own and reaches the loop through a [`Handle`] like everybody else. Only
//! the user that runs the daemon, and root, may ask: the directory and the socket say so, and the
//! peer's credentials are checked besides.

mod ask;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use heliostat_format::DeviceFlags;
use rustix::fs::Mode;
use rustix::net::{AddressFamily, RecvFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use crate::RuntimeError;
use crate::commands::Handle;
use crate::explain::{Explanation, WatchedReads};
use crate::rates::{RateChange, Rates};
use crate::stats::ArrayStats;
use crate::status::{ArrayStatus, FlagChange, ScrubAction};
use crate::volumes::{VolumeChange, VolumesStatus};
use crate::work::ScrubRun;

pub use self::ask::ask;

/// The longest request. The longest that makes sense is a policy with all its tunables.
const REQUEST_BYTES_MAX: u64 = 16 << 10;

/// How many may ask at once; each has a thread while it does.
const CLIENTS_MAX: usize = 8;

/// How long somebody who is connected may be silent, or not read the answer.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Another policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyChange {
    /// `NAME`, `NAME:VALUE` or `NAME:key=value,...`.
    pub policy: String,
    /// Whether it is not kept for the next start.
    #[serde(default)]
    pub transient: bool,
}

/// Another scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerChange {
    /// `NAME` or `NAME:key=value,...`.
    pub scheduler: String,
    /// Whether it is not kept for the next start.
    #[serde(default)]
    pub transient: bool,
}

/// What may be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    /// What did the array do?
    Stats {
        /// Whether all times are told in full.
        #[serde(default)]
        fine: bool,
    },
    /// Count from now on.
    ResetStats {
        /// For this leg alone, by its role or as it was written; everything where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leg: Option<String>,
    },
    /// Which policies are there, and which one is active?
    Policy {
        /// Whether all of their values are told that are not the defaults.
        #[serde(default)]
        full: bool,
    },
    /// Use another policy from now on.
    SetPolicy(PolicyChange),
    /// Which schedulers are there, and which one is active?
    Scheduler,
    /// Use another scheduler from now on.
    SetScheduler(SchedulerChange),
    /// Change the bounds of the rate of background work, or tell them.
    Rate {
        /// The floor; the one that there is where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_bytes_per_s: Option<u64>,
        /// The ceiling.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_bytes_per_s: Option<u64>,
    },
    /// How is the array?
    Status,
    /// Take a leg out.
    Fail {
        /// Its role, or how it was written.
        leg: String,
    },
    /// Let go of a leg that is out.
    Remove {
        /// Its role, or how it was written.
        leg: String,
    },
    /// Make a leg part of the array.
    Add {
        /// What it is, as for `serve`.
        leg: String,
        /// Whether what lies on it may be destroyed.
        #[serde(default)]
        force: bool,
        /// Whether it is write-mostly from then on, whatever it says of itself.
        #[serde(default)]
        write_mostly: bool,
        /// The same, of failing fast.
        #[serde(default)]
        failfast: bool,
    },
    /// Make a leg that was away part of the array again, where the bitmap knows what it missed.
    ReAdd {
        /// What it is, as for `serve`.
        leg: String,
    },
    /// Have a leg replaced by a new one while both serve.
    Replace {
        /// Its role, or how it was written.
        leg: String,
        /// The new one, as for `serve`, or a spare; any spare where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Whether what lies on that may be destroyed.
        #[serde(default)]
        force: bool,
    },
    /// Let a mirror have more legs.
    Grow {
        /// How many.
        legs: usize,
        /// New ones, as for `serve`.
        #[serde(default)]
        new: Vec<String>,
        /// Whether what lies on those may be destroyed.
        #[serde(default)]
        force: bool,
    },
    /// Say something else of a leg.
    Set {
        /// Its role, or how it was written.
        leg: String,
        /// Whether it is read only where nothing else is left; as it is where absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        write_mostly: Option<bool>,
        /// Whether it is out at its first error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failfast: Option<bool>,
    },
    /// Begin, pause or end a scrub.
    Scrub {
        /// Which.
        action: ScrubAction,
    },
    /// What does the read policy believe of the legs?
    Explain,
    /// What does it decide from now on? Answered when so much was heard or that time is over.
    WatchReads {
        /// How many decisions are told at most.
        reads: usize,
        /// For how long it is listened at most.
        wait_ms: u64,
    },
    /// What did the last scrubs find?
    ScrubRuns,
    /// How are the volumes?
    Volumes,
    /// Change them.
    ChangeVolumes {
        /// How.
        change: VolumeChange,
    },
    /// Stop cleanly.
    Stop,
}

impl ControlRequest {
    /// How long it may take until it is answered.
    fn patience(&self) -> Duration {
        let mut patience = SILENCE_MAX;
        if let Self::WatchReads { wait_ms, .. } = self {
            patience = patience.saturating_add(Duration::from_millis(*wait_ms));
        }
        patience
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlResponse {
    /// To [`ControlRequest::Stats`].
    Stats(Box<ArrayStats>),
    /// To [`ControlRequest::Policy`]: all of them, the active one in brackets. To
    /// [`ControlRequest::SetPolicy`]: the full form of the one that is active now.
    Policy(String),
    /// To [`ControlRequest::Scheduler`]: all of them, the active one in brackets. To
    /// [`ControlRequest::SetScheduler`]: the one that is active now.
    Scheduler(String),
    /// To [`ControlRequest::Rate`]: those that there are now.
    Rates(Rates),
    /// To [`ControlRequest::Status`].
    Status(Box<ArrayStatus>),
    /// To [`ControlRequest::Explain`].
    Explanation(Box<Explanation>),
    /// To [`ControlRequest::WatchReads`].
    WatchedReads(Box<WatchedReads>),
    /// To [`ControlRequest::ScrubRuns`]: oldest first.
    ScrubRuns(Vec<ScrubRun>),
    /// To [`ControlRequest::Volumes`].
    Volumes(Box<VolumesStatus>),
    /// To all others: what became of it.
    Done(String),
    /// It cannot be done, for this reason.
    Error(String),
}

/// The socket as long as the array is served; removed when dropped.
#[derive(Debug)]
pub(crate) struct ControlServer {
    path: PathBuf,
    listener: UnixListener,
}

impl ControlServer {
    /// Listens at `path`. A socket that is there already is replaced: whoever calls this holds the
    /// lock of the name, so that nobody can be listening on it.
    pub(crate) fn start(path: PathBuf, handle: Handle) -> Result<Self, RuntimeError> {
        let failed = |error: io::Error| {
            RuntimeError(format!(
                "cannot listen on the control socket {}: {error}; name another directory with \
                 --control-dir DIR (the socket's path has 107 bytes at most)",
                path.display()
            ))
        };
        let listener = listen(&path).map_err(failed)?;
        let incoming = listener.try_clone().map_err(failed)?;
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || accept_all(&incoming, &handle))
            .map_err(failed)?;
        Ok(Self { path, listener })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // Wakes the thread out of its accept; those that serve somebody end by themselves.
        let _ = rustix::net::shutdown(self.listener.as_fd(), Shutdown::Both);
        let _ = fs::remove_file(&self.path);
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Ok(there) if !there.file_type().is_socket() => {
            return Err(io::Error::other("a file that is no socket is in the way"));
        }
        _ => fs::remove_file(path)?,
    }
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Linux makes the file with the mode of the socket, so that there is no moment at which others
    // could connect.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let backlog = i32::try_from(CLIENTS_MAX).expect("8 fits");
    rustix::net::listen(&socket, backlog)?;
    Ok(UnixListener::from(socket))
}

fn accept_all(listener: &UnixListener, handle: &Handle) {
    let places = Arc::new(());
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let place = Arc::clone(&places);
                let is_full = Arc::strong_count(&places) > CLIENTS_MAX + 1;
                let handle = handle.clone();
                let spawned = thread::Builder::new()
                    .name("control".to_owned())
                    .spawn(move || {
                        // Whoever asked is gone, or silent for too long: there is nobody to tell.
                        let _ = serve(&stream, &handle, is_full);
                        drop(place);
                    });
                // Without a thread the connection is closed, which says enough.
                drop(spawned);
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // Out of descriptors or memory: neither is gone at once.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn serve(stream: &UnixStream, handle: &Handle, is_full: bool) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    let us = rustix::process::geteuid();
    if peer.uid != us && !peer.uid.is_root() {
        let text = "only the user that runs the daemon, and root, may ask".to_owned();
        return respond(stream, &ControlResponse::Error(text));
    }
    if is_full {
        let text = "too many are asking at once; try again".to_owned();
        return respond(stream, &ControlResponse::Error(text));
    }
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut reader).take(REQUEST_BYTES_MAX);
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            let text = format!("a request is one line of at most {REQUEST_BYTES_MAX} bytes");
            return respond(stream, &ControlResponse::Error(text));
        }
        let response = match serde_json::from_slice(&line) {
            Ok(request) => answer(handle, request, &|| is_gone(stream)),
            Err(error) => ControlResponse::Error(format!("not a request: {error}")),
        };
        respond(stream, &response)?;
    }
}

/// Whether whoever asked has closed the connection.
fn is_gone(stream: &UnixStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let received = rustix::net::recv(stream, &mut [0_u8; 1][..], flags);
    match received {
        Ok((_, len)) => len == 0,
        Err(error) => error != rustix::io::Errno::AGAIN,
    }
}

fn answer(handle: &Handle, request: ControlRequest, is_gone: &dyn Fn() -> bool) -> ControlResponse {
    let told = match request {
        ControlRequest::Stats { fine } => handle
            .stats_in_full(fine)
            .map(|stats| ControlResponse::Stats(Box::new(stats))),
        ControlRequest::ResetStats { leg } => handle.reset_stats(leg).map(ControlResponse::Done),
        ControlRequest::Policy { full } => handle.shown_policy(full).map(ControlResponse::Policy),
        ControlRequest::SetPolicy(to) => handle.change_policy(&to).map(ControlResponse::Policy),
        ControlRequest::Scheduler => handle.scheduler().map(ControlResponse::Scheduler),
        ControlRequest::SetScheduler(to) => {
            handle.set_scheduler(&to).map(ControlResponse::Scheduler)
        }
        ControlRequest::Rate {
            min_bytes_per_s,
            max_bytes_per_s,
        } => {
            let change = RateChange {
                min_bytes_per_s,
                max_bytes_per_s,
            };
            handle.change_rates(change).map(ControlResponse::Rates)
        }
        ControlRequest::Status => handle.status().map(Box::new).map(ControlResponse::Status),
        ControlRequest::Fail { leg } => handle.fail(&leg).map(ControlResponse::Done),
        ControlRequest::Remove { leg } => handle.remove(&leg).map(ControlResponse::Done),
        ControlRequest::Add {
            leg,
            force,
            write_mostly,
            failfast,
        } => {
            let flags = flags_of(write_mostly, failfast);
            handle.add(&leg, force, flags).map(ControlResponse::Done)
        }
        ControlRequest::ReAdd { leg } => handle.re_add(&leg).map(ControlResponse::Done),
        ControlRequest::Replace { leg, by, force } => handle
            .replace(&leg, by.as_deref(), force)
            .map(ControlResponse::Done),
        ControlRequest::Grow { legs, new, force } => {
            handle.grow(legs, &new, force).map(ControlResponse::Done)
        }
        ControlRequest::Set {
            leg,
            write_mostly,
            failfast,
        } => {
            let change = FlagChange {
                write_mostly,
                failfast,
            };
            handle.set_flags(&leg, change).map(ControlResponse::Done)
        }
        ControlRequest::Scrub { action } => handle.scrub(action).map(ControlResponse::Done),
        ControlRequest::Explain => handle
            .explain()
            .map(Box::new)
            .map(ControlResponse::Explanation),
        ControlRequest::WatchReads { reads, wait_ms } => handle
            .watch_reads(reads, Duration::from_millis(wait_ms), is_gone)
            .map(|reads| ControlResponse::WatchedReads(Box::new(reads))),
        ControlRequest::ScrubRuns => handle.scrub_runs().map(ControlResponse::ScrubRuns),
        ControlRequest::Volumes => {
            let volumes = handle.volumes().map(Box::new);
            volumes.map(ControlResponse::Volumes)
        }
        ControlRequest::ChangeVolumes { change } => {
            handle.change_volumes(change).map(ControlResponse::Done)
        }
        ControlRequest::Stop => Ok(stop(handle)),
    };
    told.unwrap_or_else(|error| ControlResponse::Error(error.to_string()))
}

fn stop(handle: &Handle) -> ControlResponse {
    handle.stop();
    ControlResponse::Done("it stops".to_owned())
}

fn flags_of(write_mostly: bool, failfast: bool) -> DeviceFlags {
    let mut flags = DeviceFlags::default();
    if write_mostly {
        flags = flags.with(DeviceFlags::WRITE_MOSTLY);
    }
    if failfast {
        flags = flags.with(DeviceFlags::FAIL_FAST);
    }
    flags
}

fn respond(mut stream: &UnixStream, response: &ControlResponse) -> io::Result<()> {
    let mut line = serde_json::to_vec(response).expect("plain structs are JSON");
    line.push(b'\n');
    stream.write_all(&line)
}

#[cfg(test)]
mod tests;
