//! Who asks the daemons, so that the screen answers to keys while one of them does not.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::bail;
use heliostat_runtime::{
    ControlRequest, ControlResponse, PolicyChange, RuntimeError, SchedulerChange,
};

use super::sample::Sample;
use crate::cli::ControlArgs;
use crate::{explain, status};

/// What can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Policy,
    Scheduler,
}

impl What {
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Policy => "read policy",
            Self::Scheduler => "scheduler",
        }
    }
}

/// What is wanted of the array of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Look(String),
    List(String, What),
    Set(String, What, String),
}

/// What came of it, or what is wrong.
#[derive(Debug)]
pub(super) enum Told {
    Looked(String, Result<Box<Sample>, String>),
    Listed(String, What, Result<String, String>),
    Set(Result<(), String>),
}

/// Starts it. It ends when nobody has the sender any more.
pub(super) fn start(control: ControlArgs) -> std::io::Result<(Sender<Wish>, Receiver<Told>)> {
    let (wishes, incoming) = channel();
    let (outgoing, told) = channel();
    thread::Builder::new()
        .name("asking".to_owned())
        .spawn(move || {
            for wish in incoming {
                if outgoing.send(fulfil(&control, wish)).is_err() {
                    return;
                }
            }
        })?;
    Ok((wishes, told))
}

fn fulfil(control: &ControlArgs, wish: Wish) -> Told {
    match wish {
        Wish::Look(name) => {
            let sample = look(control, &name).map(Box::new);
            Told::Looked(name, sample.map_err(|error| format!("{error:#}")))
        }
        Wish::List(name, what) => {
            let request = match what {
                What::Policy => ControlRequest::Policy { full: false },
                What::Scheduler => ControlRequest::Scheduler,
            };
            let told = control.ask(&name, &request);
            let told = told.map_err(|error| error.to_string()).map(text_of);
            Told::Listed(name, what, told)
        }
        Wish::Set(name, what, choice) => {
            let request = match what {
                What::Policy => ControlRequest::SetPolicy(PolicyChange {
                    policy: choice,
                    transient: false,
                }),
                What::Scheduler => ControlRequest::SetScheduler(SchedulerChange {
                    scheduler: choice,
                    transient: false,
                }),
            };
            let told: Result<_, RuntimeError> = control.ask(&name, &request);
            Told::Set(told.map(drop).map_err(|error| error.to_string()))
        }
    }
}

/// The list that was asked for.
fn text_of(response: ControlResponse) -> String {
    if let ControlResponse::Policy(text) | ControlResponse::Scheduler(text) = response {
        return text;
    }
    String::new()
}

/// How an array is, and what it has counted.
pub(super) fn look(control: &ControlArgs, name: &str) -> anyhow::Result<Sample> {
    let request = ControlRequest::Stats { fine: true };
    let ControlResponse::Stats(stats) = control.ask(name, &request)? else {
        bail!("asked for statistics, the daemon answered something else");
    };
    let ControlResponse::Explanation(explanation) = control.ask(name, &ControlRequest::Explain)?
    else {
        bail!("asked for an explanation, the daemon answered something else");
    };
    Ok(Sample {
        stats: *stats,
        status: *status::ask(control, name)?,
        beliefs: explain::in_a_line(&explanation),
    })
}
