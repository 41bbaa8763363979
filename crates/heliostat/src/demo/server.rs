//! The real part's server: a second process of this program that serves `model:` legs.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use heliostat_export_nbd::client::Client;
use heliostat_nbd::uri::{Endpoint, ExportUri};
use heliostat_runtime::{ControlRequest, ControlResponse, LegFigures, Places, PolicyChange, ask};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use super::interrupt::remove_at_signal;
use super::scratch::ScratchDirectory;

/// The name of the array, and of its export.
const NAME: &str = "demo";
/// A server that is not there after this time never will be: it has nothing to read or to check.
const START_MAX: Duration = Duration::from_secs(10);
/// Servers stop within 10 s by their own promise.
const STOP_MAX: Duration = Duration::from_secs(12);
/// How often it is looked whether something has happened.
const POLL: Duration = Duration::from_millis(10);

/// A server and its directory; both are gone when it is dropped, or this process ends otherwise.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    scratch: ScratchDirectory,
}

impl Server {
    /// Starts to serve `legs` under `policy`, and waits until clients can connect.
    ///
    /// # Errors
    /// Where the server does not come up; the text holds what it said.
    pub(super) fn start(legs: &[String], policy: &str) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let scratch = ScratchDirectory::new()?;
        remove_at_signal(scratch.path().to_owned())?;
        let log = File::create(scratch.path().join("log")).context("cannot make a log file")?;
        let mut command = Command::new(&program);
        // SAFETY: between fork and exec only async-signal-safe functions may be called; prctl is a
        // plain system call.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        let child = command
            .arg("serve")
            .args(["--control-files", "off"])
            .args(legs)
            .args(["--name", NAME, "--policy", policy, "--control-dir"])
            .arg(scratch.path())
            .arg("--export")
            .arg(export_uri(&scratch).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {} serve", program.display()))?;
        let mut server = Self { child, scratch };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// A new connection.
    ///
    /// # Errors
    /// Where the server does not take it.
    pub(super) fn connect(&self) -> anyhow::Result<Client> {
        let uri = export_uri(&self.scratch);
        Client::connect(&uri, true).with_context(|| format!("cannot connect to {uri}"))
    }

    /// Switches the policy while clients are connected, as `heliostat policy` does.
    ///
    /// # Errors
    /// Where the server refuses.
    pub(super) fn set_policy(&self, policy: &str) -> anyhow::Result<()> {
        let request = ControlRequest::SetPolicy(PolicyChange {
            policy: policy.to_owned(),
            transient: true,
        });
        self.ask(&request)
            .with_context(|| format!("cannot switch to {policy}"))?;
        Ok(())
    }

    /// What each leg was asked since the server started.
    ///
    /// # Errors
    /// Where the server does not say.
    pub(super) fn leg_figures(&self) -> anyhow::Result<Vec<LegFigures>> {
        match self.ask(&ControlRequest::Stats { fine: false })? {
            ControlResponse::Stats(stats) => Ok(stats.legs),
            other @ (ControlResponse::Policy(_)
            | ControlResponse::Scheduler(_)
            | ControlResponse::Rates(_)
            | ControlResponse::ScrubRuns(_)
            | ControlResponse::Volumes(_)
            | ControlResponse::Status(_)
            | ControlResponse::Explanation(_)
            | ControlResponse::WatchedReads(_)
            | ControlResponse::Done(_)
            | ControlResponse::Error(_)) => {
                bail!("asked for figures, the server answered {other:?}")
            }
        }
    }

    fn ask(&self, request: &ControlRequest) -> anyhow::Result<ControlResponse> {
        let places = Places::choose(Some(self.scratch.path()))?;
        Ok(ask(&places.socket(NAME), request)?)
    }

    /// The process that serves.
    pub(super) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Asks the server to stop, and waits until it has.
    ///
    /// # Errors
    /// Where it does not stop, or says that something was wrong.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        let id = i32::try_from(self.child.id()).expect("process ids are positive i32");
        let id = Pid::from_raw(id).expect("a child is not process 0");
        kill_process(id, Signal::TERM).context("cannot stop the server")?;
        let deadline = Instant::now() + STOP_MAX;
        while Instant::now() < deadline {
            if let Some(status) = self
                .child
                .try_wait()
                .context("cannot wait for the server")?
            {
                if !status.success() {
                    bail!("the server ended with {status}: {}", self.log());
                }
                return Ok(());
            }
            thread::sleep(POLL);
        }
        bail!("the server does not stop: {}", self.log())
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_MAX;
        loop {
            if let Some(status) = self
                .child
                .try_wait()
                .context("cannot wait for the server")?
            {
                bail!("the server ended at once with {status}: {}", self.log());
            }
            match self.connect() {
                Ok(client) => return client.disconnect().context("the first connection broke"),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => thread::sleep(POLL),
            }
        }
    }

    /// What the server wrote.
    fn log(&self) -> String {
        let text = fs::read_to_string(self.scratch.path().join("log"));
        text.unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail where the server has ended already, as it should have.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn export_uri(scratch: &ScratchDirectory) -> ExportUri {
    ExportUri {
        endpoint: Endpoint::Unix(scratch.path().join("nbd.sock")),
        export: NAME.to_owned(),
    }
}
