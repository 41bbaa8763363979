//! `heliostat emulate`: one modelled drive for clients, to measure what stands on drives.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use heliostat_leg::LegSpec;
use heliostat_nbd::uri::ExportUri;
use heliostat_runtime::{ArrayOptions, Progress as _, Server, Signals, Trust, UsageError};
use stdx::units::format_size;

use crate::cli::ControlArgs;
use crate::control_files::ShowFiles;
use crate::model::params_in;
use crate::serve::{self, Beside, Console, parse_memory, parse_name};

/// What reads go by: there is one leg, and what is ahead of what was asked for is not read.
const POLICY: &str = "pid";

/// What `heliostat emulate` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EmulateArgs {
    /// The drive, as 'heliostat model list' names it, perhaps with what goes wrong behind it:
    /// hdd-7200-2tb,slow=10,at=20s.
    model: String,
    /// The scenario whose legs have the model, as 'heliostat advise --save' writes it.
    #[arg(long, value_name = "SCENARIO.toml")]
    models: Option<PathBuf>,
    /// How large it is [default: as its file, or else as such a drive is].
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// The file in which its bytes lie; it has to be there [default: in memory, all zeros].
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Where clients find it: nbd+unix:///EXPORT?socket=PATH, nbd://HOST:PORT/EXPORT, fd: (sockets
    /// inherited by LISTEN_FDS) or stdio: (one client on standard input and output). Several may
    /// be given.
    #[arg(long = "export", value_name = "URI", required = true)]
    exports: Vec<ExportUri>,
    /// What to call it for 'heliostat stats' and 'heliostat stop' [default: the name of the first
    /// export].
    #[arg(long, value_parser = parse_name)]
    name: Option<String>,
    /// Refuse writes.
    #[arg(long)]
    read_only: bool,
    /// Memory for requests; when it is spent, clients wait.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_memory)]
    memory: u64,
    /// Whether it is shown as the file NAME/volume beside its control socket, for a loop device;
    /// that needs FUSE.
    #[arg(long, value_enum, default_value_t = ShowFiles::Off)]
    control_files: ShowFiles,
    #[command(flatten)]
    control: ControlArgs,
}

impl EmulateArgs {
    fn leg(&self) -> anyhow::Result<LegSpec> {
        let (name, _) = self.model.split_once(',').unwrap_or((&self.model, ""));
        let mut keys = self.model[name.len()..].to_owned();
        if let Some(size) = &self.size {
            keys += &format!(",size={size}");
        }
        if let Some(file) = &self.file {
            keys += &format!(",file={}", file.display());
        }
        let leg = match &self.models {
            None => LegSpec::parse(&format!("model:{name}{keys}")),
            Some(file) => LegSpec::model(name, params_in(file, name)?, &keys),
        };
        leg.map_err(|error| UsageError(error.to_string()).into())
    }
}

/// Serves until the end. The exit code says whether everything was flushed.
pub(crate) fn run(args: EmulateArgs) -> anyhow::Result<ExitCode> {
    // First of all: threads started later must not be ended by a signal.
    let signals = Signals::take().context("cannot take signals")?;
    let places = args.control.places()?;
    let leg = args.leg()?;
    let (name, _) = serve::name_of(args.name.as_ref(), &args.exports)?;
    let options = ArrayOptions {
        trust: Trust::Drive,
        policy: Some(POLICY.to_owned()),
        keeps_settings: false,
        memory_bytes: args.memory,
        read_only: args.read_only,
        whole: true,
        ..ArrayOptions::new(name, vec![leg], places)
    };
    let description = format!("heliostat emulates {}", args.model);
    let exports = (args.exports, description);
    let beside = Beside {
        control_files: args.control_files,
        metrics: None,
    };
    serve::until_stopped(&options, exports, beside, signals, introduce)
}

fn introduce(console: &mut Console, options: &ArrayOptions, server: &Server) {
    let (info, name) = (server.info(), &options.name);
    let read_only = if info.read_only { ", read-only" } else { "" };
    console.note(&format!(
        "drive {name}: {} ({} bytes){read_only}",
        format_size(info.size_bytes),
        info.size_bytes,
    ));
    console.note(&format!(
        "serving {name} at {}",
        server.addresses().join(" and ")
    ));
}
