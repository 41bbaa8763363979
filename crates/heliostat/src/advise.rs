//! `heliostat advise`: measures legs, fits a model to each, and says what read policies would do
//! on them. Changes nothing. See docs/advise.md.

mod commands;
mod measure;
mod page;
mod same;

use std::fs;
use std::io::{IsTerminal as _, Write as _, stderr, stdout};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use heliostat_bench::Contender;
use heliostat_bench::forecast::{Forecast, ForecastLeg, forecast, knobs, scenario_text};
use heliostat_leg::LegSpec;
use heliostat_model::fit::fit;
use heliostat_runtime::UsageError;
use heliostat_sim::SimPolicy;
use stdx::units::parse_time_ns;

use self::commands::Origin;
use self::measure::Measured;
use self::page::{Leg, Page};
use crate::bench::btrfs;
use crate::sparse::percent_on_disk;

/// More legs no array has.
const LEGS_MAX: usize = heliostat_types::LEGS_MAX;

/// Of the time in all, so many hundredths are for measuring; the rest is for simulating.
const MEASURING_PERCENT: u32 = 60;

/// What `heliostat advise` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AdviseArgs {
    /// Block devices, files and NBD exports (nbd://HOST/EXPORT, nbd+unix:///EXPORT?socket=PATH)
    /// that are legs of a mirror or are to be; also while they are in use.
    #[arg(
        value_name = "DEVICE",
        required_unless_present = "btrfs",
        conflicts_with = "btrfs"
    )]
    devices: Vec<String>,
    /// Take the devices of the btrfs that is mounted there.
    #[arg(long, value_name = "MOUNT")]
    btrfs: Option<PathBuf>,
    /// How long each device is read at most.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_length)]
    time: Duration,
    /// How long all of it takes at most.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_length)]
    time_in_all: Duration,
    /// heliostat's read policies to compare, as NAME, NAME:VALUE or NAME:key=value,key=value.
    #[arg(long, value_name = "A,B", default_value = "adaptive,queue,latency")]
    policies: String,
    /// Write the fitted models as a scenario for 'heliostat sim' and 'heliostat model'; the file
    /// must not be there yet.
    #[arg(long, value_name = "FILE.toml")]
    save: Option<PathBuf>,
    /// One object on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
}

/// A length of time, from what tells something to a day.
fn parse_length(text: &str) -> Result<Duration, String> {
    let minutes = text
        .strip_suffix('m')
        .and_then(|text| text.parse::<u64>().ok());
    let time = match minutes {
        Some(minutes) => Duration::from_secs(minutes.saturating_mul(60)),
        None => Duration::from_nanos(parse_time_ns(text).map_err(|error| error.to_string())?),
    };
    let is_sensible = (Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&time);
    match is_sensible {
        true => Ok(time),
        false => Err("it has to be a length of time from 1s to 1440m, as in 10s or 2m".to_owned()),
    }
}

/// Does all of it.
///
/// # Errors
/// Where a device cannot be measured, or nobody takes the results.
pub(crate) fn run(args: &AdviseArgs) -> anyhow::Result<ExitCode> {
    let begun = Instant::now();
    let origin = origin(args)?;
    let policies = policies(&args.policies, origin.legs.len())?;
    let specs = specs(&origin.legs)?;
    if let Some(path) = &args.save
        && path.exists()
    {
        let path = path.display();
        bail!(UsageError(format!(
            "{path} is there already: name another file"
        )));
    }
    let legs = measure_all(args, &specs)?;
    let forecast_legs: Vec<ForecastLeg> = legs
        .iter()
        .map(|leg| ForecastLeg {
            name: leg.name.clone(),
            fit: leg.fit.clone(),
        })
        .collect();
    if let Some(path) = &args.save {
        save(path, &scenario_text(&forecast_legs))?;
    }
    let told = match legs.len() {
        1 => None,
        _ => Some(simulate(
            &forecast_legs,
            &policies,
            begun + args.time_in_all,
        )?),
    };
    let page = Page {
        origin: &origin,
        legs: &legs,
        forecast: told.as_ref(),
    };
    let text = match args.json {
        true => format!("{}\n", page.json()),
        false => page.text(),
    };
    let written = stdout().lock().write_all(text.as_bytes());
    written.context("cannot write to standard output")?;
    if let Some(path) = args.save.as_ref().filter(|_| !args.json) {
        let path = path.display();
        let saved = format!("\nModels: {path}   (heliostat sim {path})\n");
        let written = stdout().lock().write_all(saved.as_bytes());
        written.context("cannot write to standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The policies of ours, each of which can serve so many legs.
fn policies(list: &str, leg_count: usize) -> anyhow::Result<Vec<String>> {
    let wrong = |error: &dyn std::fmt::Display| UsageError(format!("--policies: {error}"));
    let contenders = Contender::parse_list(list).map_err(|error| wrong(&error))?;
    for contender in &contenders {
        contender.check(leg_count).map_err(|error| wrong(&error))?;
    }
    // Nobody can set what only the simulator has.
    let served = contenders.iter().filter(|contender| {
        let policy = contender.policy();
        matches!(policy, SimPolicy::Registered(_))
    });
    let served: Vec<String> = served.map(ToString::to_string).collect();
    match served.is_empty() {
        true => Err(wrong(&"oracle is for 'heliostat sim': no array can have it").into()),
        false => Ok(served),
    }
}

/// Which legs there are.
fn origin(args: &AdviseArgs) -> anyhow::Result<Origin> {
    let Some(mount) = &args.btrfs else {
        return Ok(Origin {
            legs: args.devices.clone(),
            btrfs: None,
        });
    };
    let sysfs = btrfs::sysfs_of(mount)?;
    let (legs, ids) = btrfs_legs(&sysfs)?;
    Ok(Origin {
        legs,
        btrfs: Some((sysfs, ids)),
    })
}

/// The devices of a btrfs, with their ids.
fn btrfs_legs(sysfs: &Path) -> anyhow::Result<(Vec<String>, Vec<Option<u64>>)> {
    let directory = sysfs.join("devices");
    let entries =
        fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut legs: Vec<String> = names
        .filter_map(|name| Some(format!("/dev/{}", name.to_str()?.replace('!', "/"))))
        .collect();
    legs.sort();
    if legs.is_empty() {
        bail!("{} names no devices", directory.display());
    }
    let ids = legs.iter().map(|leg| btrfs_id(Path::new(leg)));
    let mut both: Vec<(Option<u64>, String)> = ids.zip(legs.iter().cloned()).collect();
    both.sort();
    Ok(both.into_iter().map(|(id, leg)| (leg, id)).unzip())
}

/// The id of a device of a btrfs, as its superblock says it: 64 KiB from the start, with the magic
/// 64 bytes behind its beginning and the device's own item 201 bytes behind it, the id first.
fn btrfs_id(device: &Path) -> Option<u64> {
    let mut head = [0; 4096];
    fs::File::open(device)
        .ok()?
        .read_exact_at(&mut head, 64 << 10)
        .ok()?;
    if &head[64..72] != b"_BHRfS_M" {
        return None;
    }
    Some(u64::from_le_bytes(head[201..209].try_into().ok()?))
}

/// What the legs are, each once.
fn specs(legs: &[String]) -> anyhow::Result<Vec<LegSpec>> {
    if legs.len() > LEGS_MAX {
        bail!(UsageError(format!(
            "no array has more than {LEGS_MAX} legs"
        )));
    }
    let specs = legs
        .iter()
        .map(|leg| LegSpec::parse(leg).map_err(|error| UsageError(error.to_string())));
    let specs = specs.collect::<Result<_, _>>()?;
    same::expect_apart(legs)?;
    Ok(specs)
}

/// Measures each leg, one after the other, and fits a model to it.
fn measure_all(args: &AdviseArgs, specs: &[LegSpec]) -> anyhow::Result<Vec<Leg>> {
    let count = u32::try_from(specs.len()).context("too many legs")?;
    let time = args
        .time
        .min(args.time_in_all / 100 * MEASURING_PERCENT / count);
    let mut legs = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let say = |what: &str| {
            note(&format!("leg {} of {count}, {spec}: {what}", index + 1));
        };
        let measured = measure::measure(spec, time, say)?;
        let found = fit(measured.info.size_bytes, &measured.samples);
        let fit = found.map_err(|error| {
            anyhow::anyhow!("{spec}: {error}; --time gives it longer than {time:?}")
        })?;
        let mut caveats = caveats(spec, &measured, fit.params.family() == "hdd");
        let before: Vec<String> = specs[..index].iter().map(ToString::to_string).collect();
        caveats.extend(same::shared(&spec.to_string(), &before));
        legs.push(Leg {
            name: spec.to_string(),
            size_bytes: measured.info.size_bytes,
            reads: measured.reads,
            fit,
            caveats,
        });
    }
    note("");
    Ok(legs)
}

/// What may have blurred the figures.
fn caveats(spec: &LegSpec, measured: &Measured, turns: bool) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(user) = &measured.user {
        all.push(format!(
            "In use ({user}): other load on it blurs the figures."
        ));
    }
    if !measured.is_whole {
        all.push("It fell silent while it was measured: not all of it is known.".to_owned());
    }
    if let Some((at, kind)) = measured.bad.first {
        let count = measured.bad.count;
        all.push(format!(
            "{count} of its reads failed, the first near byte {at} ({kind}). They are in no \
             figure, but others had to wait for them: have its SMART data looked at, and a scrub \
             done."
        ));
    }
    if measured.is_cached {
        all.push(
            "Its file system cannot read past the page cache, which may be what was measured."
                .to_owned(),
        );
    }
    let text = spec.to_string();
    if let Ok(meta) = fs::metadata(&text)
        && let Some(percent) = percent_on_disk(&meta)
    {
        all.push(format!(
            "The file is sparse: {percent} % of it lies on its disk, and reads of the rest reach \
             none."
        ));
    }
    if text.contains('/') && Path::new(&text).exists() && measured.info.rotational != turns {
        all.push(format!(
            "The kernel takes it for {}, and its policies go by that.",
            match turns {
                true => "flash, which it is not",
                false => "a disk that turns, which it is not",
            }
        ));
    }
    all
}

/// Simulates, until `until` at the latest.
fn simulate(legs: &[ForecastLeg], policies: &[String], until: Instant) -> anyhow::Result<Forecast> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let is_over = || Instant::now() >= until;
    let told = forecast(
        legs,
        &knobs(legs, policies),
        threads,
        &is_over,
        |done, count| {
            note(&format!("simulating, {done} of {count}"));
        },
    );
    note("");
    told
}

/// A file that was not there, with this text.
fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    let shown = path.display();
    let mut file = fs::File::create_new(path).with_context(|| format!("cannot make {shown}"))?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("cannot write {shown}"))
}

/// Says on a terminal what goes on, in one line that is overwritten.
fn note(text: &str) {
    if stderr().is_terminal() {
        // Whoever closed standard error does not want to know.
        let _ = write!(stderr(), "\r\x1b[K{text}");
    }
}
