//! `heliostat serve`: a mirror for clients until a signal comes.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use heliostat_engine::SchedulerPlace;
use heliostat_export_nbd::serve::NbdExport;
use heliostat_leg::{IoChoice, LegSpec};
use heliostat_nbd::uri::ExportUri;
use heliostat_policy::PolicySpec;
use heliostat_runtime::{
    ArrayOptions, Export, MetricsListener, MetricsServer, Places, Progress, RateChange, Registered,
    RuntimeError, Server, Signals, Trust, UsageError,
};
use heliostat_scheduler::SchedulerSpec;
use heliostat_types::Duration;
use indicatif::{ProgressBar, ProgressStyle};
use stdx::units::{format_size, parse_size, parse_time_ns};

use crate::cli::ControlArgs;
use crate::control_files::{ShowFiles, WantedFiles};
use crate::rate;

/// What `heliostat serve` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// What the mirror is made of: files or disks (their paths, with a '/'), exports of NBD servers
    /// (nbd://HOST/EXPORT, nbd+unix:///EXPORT?socket=PATH), mem:SIZE, or model:NAME, perhaps with
    /// ,size=SIZE and ,file=PATH behind it; or the name of an array that was made with 'heliostat
    /// create' or served before.
    #[arg(required = true, value_name = "NAME|LEG")]
    targets: Vec<String>,
    /// Look on all disks for the legs of the array called NAME.
    #[arg(long)]
    scan: bool,
    /// What to call the array [default: NAME, or the name of the first export].
    #[arg(long, value_parser = parse_name)]
    name: Option<String>,
    /// Where clients find it: nbd+unix:///EXPORT?socket=PATH, nbd://HOST:PORT/EXPORT, fd: (sockets
    /// inherited by LISTEN_FDS) or stdio: (one client on standard input and output). Several may
    /// be given.
    #[arg(long = "export", value_name = "URI", required = true)]
    exports: Vec<ExportUri>,
    /// How legs are chosen for reads; see 'heliostat policies' [default: adaptive].
    #[arg(long, value_name = "NAME[:VALUE]", value_parser = parse_policy)]
    policy: Option<String>,
    /// In which order a leg gets what waits for it: none, deadline, fair [default: none].
    #[arg(long, value_name = "NAME[:KEY=VALUE]")]
    scheduler: Option<SchedulerSpec>,
    /// Where the scheduler stands: leg (one in front of each leg) or array (one in front of all,
    /// over what clients ask for).
    #[arg(long, value_name = "leg|array", default_value = "leg")]
    scheduler_on: SchedulerPlace,
    /// Memory for requests; when it is spent, clients wait.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_memory)]
    memory: u64,
    /// After how much silence a leg is faulted, if others are left.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    leg_timeout: Duration,
    /// How old a request is that is counted as late: what clients give up after.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    client_timeout: Duration,
    /// Keep no counters and histograms of clients and legs.
    #[arg(long)]
    no_accounting: bool,
    /// Copy this leg over the others before serving, because it is the one that is right.
    #[arg(long, value_name = "LEG")]
    copy_from: Option<String>,
    /// Serve the legs as they are, because they are known to be equal.
    #[arg(long, conflicts_with = "copy_from")]
    assume_clean: bool,
    /// Serve an array of md legs without some that it counts on. What it lacked before, its legs
    /// say, and nobody has to allow it again.
    #[arg(long)]
    degraded_ok: bool,
    /// Leave out legs that were away, although the bitmap knows what they missed.
    #[arg(long)]
    no_re_add: bool,
    /// Serve metrics for Prometheus and its like over HTTP: a port of this machine alone, or
    /// ADDRESS:PORT (docs/metrics.md) [default: nowhere].
    #[arg(long, value_name = "ADDRESS", value_parser = parse_metrics_address)]
    metrics_listen: Option<SocketAddr>,
    /// Refuse writes, and change nothing on the legs.
    #[arg(long)]
    read_only: bool,
    /// Whether the array's control files are shown in NAME/ beside its control socket; they need
    /// FUSE.
    #[arg(long, value_enum, default_value_t = ShowFiles::Auto)]
    control_files: ShowFiles,
    /// Serve the array as one, whatever volumes it has, and whether their table makes sense or not.
    #[arg(long)]
    whole: bool,
    /// What resync, rebuild and scrub do at least, whatever clients ask for [default: 1MB/s].
    #[arg(long, value_name = "RATE", value_parser = rate::parse)]
    resync_min: Option<u64>,
    /// What they do at most [default: 200MB/s]; 'heliostat rate' changes both while they run.
    #[arg(long, value_name = "RATE", value_parser = rate::parse)]
    resync_max: Option<u64>,
    /// Forget at the end what was set while it was served, and what the read policy has learned.
    #[arg(long)]
    transient: bool,
    /// Reach files and disks through threads instead of io_uring.
    #[arg(long)]
    no_io_uring: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// The legs, and which array they must be of where that was named.
fn legs(args: &ServeArgs, places: &Places) -> anyhow::Result<(Vec<LegSpec>, Option<NamedArray>)> {
    let parse = |text: &String| {
        LegSpec::parse(text).map_err(|error| UsageError(format!("leg {text}: {error}")))
    };
    let is_leg = |text: &String| text.contains(['/', ':']);
    if let [name] = &args.targets[..]
        && !is_leg(name)
    {
        heliostat_runtime::check_name(name)?;
        let known = if args.scan {
            heliostat_runtime::scan(name)?
        } else {
            Registered::load(places, name)?
        };
        let legs = known.legs.iter().map(parse).collect::<Result<_, _>>()?;
        let name = name.clone();
        let uuid = known.uuid;
        return Ok((legs, Some(NamedArray { name, uuid })));
    }
    if args.scan {
        bail!(UsageError(
            "--scan looks for the legs of one array: name it".to_owned()
        ));
    }
    if let Some(name) = args.targets.iter().find(|text| !is_leg(text)) {
        bail!(UsageError(format!(
            "'{name}' is no leg: a path has a '/' in it, as in ./{name}; an array is named alone"
        )));
    }
    let legs = args.targets.iter().map(parse).collect::<Result<_, _>>()?;
    Ok((legs, None))
}

/// An array that is served by its name.
struct NamedArray {
    name: String,
    uuid: String,
}

pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    heliostat_runtime::check_name(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// The text itself: what is active is kept and shown as text.
fn parse_policy(text: &str) -> Result<String, String> {
    let spec = PolicySpec::parse(text).map_err(|error| error.to_string())?;
    Ok(spec.to_string())
}

pub(crate) fn parse_memory(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

/// A port is one of this machine, which others do not reach; everything else is written in full.
fn parse_metrics_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "9617"));
    let port: u16 = port.parse().unwrap_or(9617);
    Err(match host {
        "" => format!("write 127.0.0.1:{port} for this machine, or 0.0.0.0:{port} for everybody"),
        "localhost" => format!("write 127.0.0.1:{port} or [::1]:{port}"),
        _ => format!(
            "it takes a port, as in {port}, or an IP address with one, as in 127.0.0.1:{port} or \
             [::1]:{port}; names of hosts are not looked up"
        ),
    })
}

fn parse_time(text: &str) -> Result<Duration, String> {
    match parse_time_ns(text) {
        Ok(0) => Err("it has to be longer than nothing".to_owned()),
        Ok(ns) => Ok(Duration::from_ns(ns)),
        Err(error) => Err(error.to_string()),
    }
}

/// Serves until the end. The exit code says whether everything is on record.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    // First of all: threads started later must not be ended by a signal.
    let signals = Signals::take().context("cannot take signals")?;
    let places = args.control.places()?;
    let (legs, array) = legs(&args, &places)?;
    let known = array.as_ref().map(|array| &array.name);
    let (name, is_named) = name_of(args.name.as_ref().or(known), &args.exports)?;
    let options = ArrayOptions {
        trust: match &args.copy_from {
            Some(leg) => Trust::CopyFrom(leg.clone()),
            None if args.assume_clean => Trust::AssumeClean,
            None => Trust::Record,
        },
        degraded_ok: args.degraded_ok,
        takes_back: !args.no_re_add,
        uuid: array.map(|array| array.uuid),
        policy: args.policy,
        scheduler: args.scheduler,
        scheduler_on: args.scheduler_on,
        rates: RateChange {
            min_bytes_per_s: args.resync_min,
            max_bytes_per_s: args.resync_max,
        },
        keeps_settings: is_named && !args.transient,
        memory_bytes: args.memory,
        leg_timeout: args.leg_timeout,
        accounting: !args.no_accounting,
        client_timeout: args.client_timeout,
        read_only: args.read_only,
        whole: args.whole,
        io: if args.no_io_uring {
            IoChoice::ThreadPool
        } else {
            IoChoice::Auto
        },
        ..ArrayOptions::new(name, legs, places)
    };
    let description = format!("heliostat array {}", options.name);
    until_stopped(
        &options,
        (args.exports, description),
        Beside {
            control_files: args.control_files,
            metrics: args.metrics_listen,
        },
        signals,
        introduce,
    )
}

/// What is shown of an array beside its exports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    /// Whether there are control files.
    pub(crate) control_files: ShowFiles,
    /// Where metrics are served, if anywhere.
    pub(crate) metrics: Option<SocketAddr>,
}

/// Serves what the options say to clients, until the end, after `introduce` has said what that is.
pub(crate) fn until_stopped(
    options: &ArrayOptions,
    (exports, description): (Vec<ExportUri>, String),
    beside: Beside,
    signals: Signals,
    introduce: impl FnOnce(&mut Console, &ArrayOptions, &Server),
) -> anyhow::Result<ExitCode> {
    refuse_twins(&exports)?;
    options.check()?;
    let export = NbdExport::new(exports, description, options.memory_bytes)?;
    let mut exports: Vec<Box<dyn Export>> = vec![Box::new(export)];
    let mut files = WantedFiles::new(beside.control_files)?;
    // Before any leg is opened: an address that is taken is no reason to touch one.
    let metrics = beside.metrics.map(MetricsListener::bind).transpose()?;
    exports.extend(files.export());
    let mut console = Console::new();
    let server = Server::open(options, exports, Some(signals), &mut console)?;
    let files = files.show(options, &server, &mut console)?;
    let metrics = metrics.map(|listener| show_metrics(listener, &server, &mut console));
    let metrics = metrics.transpose()?;
    introduce(&mut console, options, &server);
    let stopped = server.run()?;
    drop((files, metrics));
    Ok(if stopped.is_clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Serves metrics, and says where.
fn show_metrics(
    listener: MetricsListener,
    server: &Server,
    console: &mut Console,
) -> Result<MetricsServer, RuntimeError> {
    let is_local = listener.address().ip().is_loopback();
    let who = if is_local {
        ""
    } else {
        ", for everybody who reaches that"
    };
    console.note(&format!("metrics at {}{who}", listener.url()));
    listener.serve(server.handle())
}

fn refuse_twins(exports: &[ExportUri]) -> Result<(), UsageError> {
    let is_twin = |&index: &usize| exports[..index].contains(&exports[index]);
    match (0..exports.len()).find(is_twin) {
        None => Ok(()),
        Some(index) => Err(UsageError(format!(
            "--export number {} was given before; give it once, or another name or place",
            index + 1
        ))),
    }
}

/// The name that was given, or that of the first export, and whether it means anything later.
pub(crate) fn name_of(
    given: Option<&String>,
    exports: &[ExportUri],
) -> Result<(String, bool), UsageError> {
    let (name, is_named) = match given {
        Some(name) => (name.clone(), true),
        None => name_of_export(exports),
    };
    match heliostat_runtime::check_name(&name) {
        Ok(()) => Ok((name, is_named)),
        Err(error) => Err(UsageError(format!(
            "{error}; give it another name than its export with --name NAME"
        ))),
    }
}

/// The name of the first export. Where that is the default one, which has no name, the array gets
/// one that no other has, and `false` says that it means nothing after this process.
fn name_of_export(exports: &[ExportUri]) -> (String, bool) {
    let name = exports
        .iter()
        .map(|uri| uri.export.as_str())
        .next()
        .unwrap_or_default();
    if name.is_empty() {
        (format!("unnamed-{}", std::process::id()), false)
    } else {
        (name.to_owned(), true)
    }
}

fn introduce(console: &mut Console, options: &ArrayOptions, server: &Server) {
    let (info, name) = (server.info(), &options.name);
    let read_only = if info.read_only { ", read-only" } else { "" };
    console.note(&format!(
        "array {name}: {} ({} bytes), {}{read_only}",
        format_size(info.size_bytes),
        info.size_bytes,
        server.shape(),
    ));
    console.note(&format!("legs through {}", server.backend()));
    console.note(&format!("read policy {}", server.policy()));
    console.note(&format!(
        "control socket {}",
        options.places.socket(name).display()
    ));
    console.note(&format!(
        "serving {name} at {}",
        server.addresses().join(" and ")
    ));
}

/// What is said at the start: lines on standard error, with a bar on a terminal while legs are
/// copied.
#[derive(Debug)]
pub(crate) struct Console {
    bar: Option<ProgressBar>,
    /// The last tenth that was told of in plain lines.
    tenth: u64,
}

impl Console {
    const fn new() -> Self {
        Self {
            bar: None,
            tenth: 0,
        }
    }

    fn line(line: &str) {
        // Whoever closed standard error does not want to know.
        let _ = writeln!(stderr(), "{line}");
    }

    fn show(&mut self, done_bytes: u64, total_bytes: u64) {
        let bar = self.bar.get_or_insert_with(|| {
            let style =
                "copying {bar:30} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left";
            let style = ProgressStyle::with_template(style).expect("the template is a constant");
            ProgressBar::new(total_bytes).with_style(style)
        });
        bar.set_position(done_bytes);
        if done_bytes == total_bytes {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Console {
    fn note(&mut self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| Self::line(line)),
            None => Self::line(line),
        }
    }

    fn copied(&mut self, done_bytes: u64, total_bytes: u64) -> bool {
        if stderr().is_terminal() {
            self.show(done_bytes, total_bytes);
            return true;
        }
        let tenth = u128::from(done_bytes) * 10 / u128::from(total_bytes.max(1));
        let tenth = u64::try_from(tenth).expect("at most ten");
        if tenth > self.tenth {
            self.tenth = tenth;
            Self::line(&format!(
                "copied {} of {}",
                format_size(done_bytes),
                format_size(total_bytes)
            ));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::parse_metrics_address;

    #[test]
    fn metrics_are_for_this_machine_unless_it_is_said_in_full() {
        let parsed = |text| parse_metrics_address(text).map(|address| address.to_string());
        assert_eq!(parsed("9617").unwrap(), "127.0.0.1:9617");
        assert_eq!(parsed("0").unwrap(), "127.0.0.1:0");
        for address in ["127.0.0.1:9617", "0.0.0.0:80", "[::1]:9617", "[::]:1"] {
            assert_eq!(parsed(address).unwrap(), address);
        }
        for (wrong, hint) in [
            (":9617", "127.0.0.1:9617 for this machine, or 0.0.0.0:9617"),
            ("localhost:80", "127.0.0.1:80"),
            ("disks.example:80", "not looked up"),
            ("127.0.0.1", "127.0.0.1:9617"),
            ("70000", "127.0.0.1:9617"),
            ("", "127.0.0.1:9617"),
            ("::1:9617", "[::1]:9617"),
        ] {
            let error = parsed(wrong).unwrap_err();
            assert!(error.contains(hint), "{wrong}: {error}");
        }
    }
}
