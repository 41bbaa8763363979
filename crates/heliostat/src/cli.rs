//! The command line: which commands there are, and what their ends mean.
//!
//! Errors go to standard error and say what, where and what to do. The exit code is 2 where the
//! command line made no sense, and 1 where the command failed. Somebody who closes standard output
//! early (`| head`) has seen enough, and that is no failure.

use std::io::{self, Write as _, stderr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};
use heliostat_runtime::{
    ControlRequest, ControlResponse, Places, RuntimeError, UsageError, shell_word,
};

use crate::{
    advise, bench, control_files, create, demo, emulate, examine, explain, grow, host_config,
    model, policy, rate, scheduler, scrub, serve, sim, stats, status, top, tune, volume, wait,
};

/// The exit code where the command line makes no sense, the same as clap's.
const USAGE: u8 = 2;

/// A mirrored block device that sends every read to the leg that will answer it soonest.
#[derive(Debug, Parser)]
#[command(name = "heliostat", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read a mixed mirror by every known policy, first in virtual time and then for real.
    ///
    /// Needs no arguments, no root and no disks.
    Demo(demo::DemoArgs),
    /// Run scenarios in virtual time under one or many read policies.
    ///
    /// The engine that serves disks, on device models: hours in seconds, and the same figures on
    /// every machine. docs/sim.md says how to write a scenario.
    Sim(sim::SimArgs),
    /// List device models, show what they are made of, or measure what they do.
    Model(model::ModelArgs),
    /// Find the best values of a read policy's tunables for some scenarios, and by what margin.
    ///
    /// docs/tune.md says what is tried and what the figures mean.
    Tune(tune::TuneArgs),
    /// Make an array on files or disks, in the format of Linux md.
    ///
    /// heliostat serves it by name, and 'mdadm --assemble' takes it over at any time.
    /// docs/arrays.md says what is written where.
    Create(create::CreateArgs),
    /// Make an array that is not served have more or fewer legs, or use more of its legs.
    ///
    /// A crash at any moment leaves an array that can be served. docs/arrays.md says why.
    Grow(grow::GrowArgs),
    /// Keep this machine from assembling an array by itself when it sees its legs.
    ///
    /// Adds a line to mdadm.conf, or removes it again. 'create --host-config' does it at once.
    HostConfig(host_config::HostConfigArgs),
    /// Serve a mirror of files, disks, memory or device models to clients.
    Serve(Box<serve::ServeArgs>),
    /// Serve one modelled drive to clients, to measure what stands on drives.
    ///
    /// It answers when a drive of that make would have answered. docs/emulate.md says what it is
    /// good for.
    Emulate(Box<emulate::EmulateArgs>),
    /// Measure files, block devices and NBD exports with fio, beside each other.
    ///
    /// docs/bench.md says what is run and what the figures mean.
    Bench(bench::BenchArgs),
    /// Measure devices, and say what to expect from each read policy on them, here and in the
    /// kernel.
    ///
    /// Only reads, also devices that are in use, and changes nothing. Says how to set what is best.
    /// docs/advise.md says what is measured and what cannot be known.
    Advise(advise::AdviseArgs),
    /// What a daemon starts beside itself, to take its control files away when it is killed.
    #[command(hide = true)]
    TakeAway(control_files::TakeAwayArgs),
    /// Show the md superblock, bitmap and bad blocks of legs, and whether they could be served.
    ///
    /// Reads files and block devices, also while they are in use, and changes nothing.
    /// docs/examine.md says what the fields mean.
    Examine(examine::ExamineArgs),
    /// Show what each leg of an array that is being served was asked, and how it answered.
    Stats(stats::StatsArgs),
    /// Watch an array that is being served: its legs and clients, second by second.
    ///
    /// Keys switch the read policy and the scheduler. docs/top.md says what the columns mean.
    Top(top::TopArgs),
    /// Show why reads of an array that is being served go where they go.
    ///
    /// What its policy believes of each leg, and, watched while they happen, the next reads with
    /// what decided and what the other legs were predicted to take. docs/explain.md says how to
    /// read it.
    Explain(explain::ExplainArgs),
    /// Show how an array is that is being served: its legs and its bitmap.
    Status(status::StatusArgs),
    /// Take a leg of an array out by hand.
    Fail(status::FailArgs),
    /// Let go of a leg that is out, so that it can be taken away.
    Remove(status::FailArgs),
    /// Make a leg part of an array that lacks one: one that was away, or a new one.
    ///
    /// One that was away gets what it missed, as the bitmap knows it, and a new one everything.
    Add(status::AddArgs),
    /// Make a leg that was away part of its array again, if the bitmap knows what it missed.
    ///
    /// Refuses it where all of the array would have to be copied: 'add' does that.
    ReAdd(status::ReAddArgs),
    /// Have a leg replaced by a new one or a spare, which is filled while the old one still serves.
    ///
    /// The old leg is out when the new one has everything, and not before: no copy is missing
    /// meanwhile. 'fail' with the new leg gives it up.
    Replace(status::ReplaceArgs),
    /// Say of a leg that it is write-mostly or failfast, or that it is not, while it serves.
    ///
    /// That is kept on the leg, as 'mdadm --examine' shows it, and answered when it is durable.
    Set(status::SetArgs),
    /// Compare the legs of an array, and make them equal where they differ.
    Scrub(scrub::ScrubArgs),
    /// Wait until resync, rebuild and scrub of an array have ended.
    ///
    /// Shows how far they are. The exit code is 1 where something could not be done or legs differ.
    Wait(wait::WaitArgs),
    /// Show how fast resync, rebuild and scrub of an array may go, or change it while they run.
    Rate(rate::RateArgs),
    /// Cut an array into volumes, each of which clients use by its name.
    ///
    /// docs/volumes.md says where they lie, and what holds after a crash.
    Volume(volume::VolumeArgs),
    /// Stop serving an array: what was accepted is answered and flushed.
    Stop(status::StopArgs),
    /// Show the read policy of an array that is being served, or switch it.
    Policy(policy::PolicyArgs),
    /// Show the scheduler in front of the legs of an array that is being served, or switch it.
    Scheduler(scheduler::SchedulerArgs),
    /// List all read policies with their tunables.
    Policies,
}

/// Where the control socket of a running array is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// Where control sockets lie [default: /run/heliostat, or $XDG_RUNTIME_DIR/heliostat].
    #[arg(long, value_name = "DIR")]
    control_dir: Option<PathBuf>,
}

impl ControlArgs {
    /// Where things lie.
    pub(crate) fn places(&self) -> Result<Places, RuntimeError> {
        Places::choose(self.control_dir.as_deref())
    }

    /// What another command has to be told besides to find the same array: nothing, or
    /// ` --control-dir DIR`.
    pub(crate) fn repeated(&self) -> String {
        self.control_dir.as_ref().map_or_else(String::new, |dir| {
            format!(" --control-dir {}", shell_word(&dir.display().to_string()))
        })
    }

    /// Asks the daemon that serves the array called `name`.
    pub(crate) fn ask(
        &self,
        name: &str,
        request: &ControlRequest,
    ) -> Result<ControlResponse, RuntimeError> {
        heliostat_runtime::check_name(name)?;
        let places = self.places()?;
        let socket = places.socket(name);
        heliostat_runtime::ask(&socket, request).map_err(
            |error| match heliostat_runtime::server_of(&places, name).filter(|_| !socket.exists()) {
                Some(process) => RuntimeError(format!(
                    "process {process} has {name}, but {} is not there: it is just beginning or \
                     ending, or somebody removed that; 'kill {process}' stops it in order",
                    socket.display()
                )),
                None => error,
            },
        )
    }
}

/// Reads the arguments and does what they say.
pub(crate) fn run() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| advised(error).exit());
    let done = match cli.command {
        Command::Create(args) => create::run(&args),
        Command::Grow(args) => return end(grow::run(&args)),
        Command::HostConfig(args) => host_config::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Examine(args) => return end(examine::run(&args)),
        Command::Model(args) => model::run(&args),
        Command::Serve(args) => return end(serve::run(*args)),
        Command::Emulate(args) => return end(emulate::run(*args)),
        Command::Advise(args) => return end(advise::run(&args)),
        Command::Bench(args) => return end(bench::run(&args)),
        Command::TakeAway(args) => return control_files::take_away(&args),
        Command::Sim(args) => return end(sim::run(&args)),
        Command::Tune(args) => return end(tune::run(&args)),
        Command::Top(args) => return end(top::run(&args)),
        Command::Stats(args) => stats::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Fail(args) => status::fail(&args),
        Command::Scrub(args) => return end(scrub::run(&args)),
        Command::Remove(args) => status::remove(&args),
        Command::Add(args) => return end(status::add(&args)),
        Command::Wait(args) => return end(wait::run(&args)),
        Command::Rate(args) => rate::run(&args),
        Command::ReAdd(args) => return end(status::re_add(&args)),
        Command::Replace(args) => return end(status::replace(&args)),
        Command::Set(args) => status::set(&args),
        Command::Volume(args) => volume::run(&args),
        Command::Stop(args) => status::stop(&args),
        Command::Policy(args) => policy::run(&args),
        Command::Scheduler(args) => scheduler::run(&args),
        Command::Policies => policy::list(),
    };
    end(done.map(|()| ExitCode::SUCCESS))
}

/// The same error with advice that leads somewhere: clap takes a negative number for an option, and
/// says how to give it as a value, which nothing here takes.
fn advised(mut error: clap::Error) -> clap::Error {
    let is_number = |text: &str| {
        let digits = text.strip_prefix('-');
        digits.is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()))
    };
    let argument = error.get(ContextKind::InvalidArg);
    if matches!(argument, Some(ContextValue::String(text)) if is_number(text)) {
        let advice = "no number is negative here, and a size is what there is to be, not a change";
        let advice = ContextValue::StyledStrs(vec![advice.into()]);
        error.insert(ContextKind::Suggested, advice);
    }
    error
}

/// The exit code, after saying what went wrong.
fn end(done: anyhow::Result<ExitCode>) -> ExitCode {
    let error = match done {
        Ok(code) => return code,
        Err(error) => error,
    };
    let is_broken_pipe = error.chain().any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
    });
    if is_broken_pipe {
        return ExitCode::SUCCESS;
    }
    // Where standard error is gone too, the exit code is all there is.
    let _ = writeln!(stderr(), "error: {error:#}");
    if error.is::<UsageError>() {
        ExitCode::from(USAGE)
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Cli, advised};

    #[test]
    fn whoever_gives_a_negative_number_is_not_told_to_give_it_otherwise() {
        let told = |words: &[&str]| {
            let error = Cli::try_parse_from(words).unwrap_err();
            advised(error).to_string()
        };
        let resize = ["heliostat", "volume", "resize", "disk", "a"];
        let negative = told(&[&resize[..], &["-5MiB"]].concat());
        assert!(
            negative.contains("tip: no number is negative"),
            "{negative}"
        );
        assert!(!negative.contains("use '--"), "{negative}");
        let misspelt = told(&[&resize[..], &["--shrik", "5MiB"]].concat());
        assert!(misspelt.contains("'--shrink'"), "{misspelt}");
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
