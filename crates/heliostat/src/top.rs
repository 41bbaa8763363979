//! `heliostat top`: what an array does, second by second.

mod draw;
mod keys;
mod sample;
mod screen;
#[cfg(test)]
pub(crate) mod testing;
mod text;
mod worker;

use std::fs;
use std::io::{IsTerminal as _, Write as _, stdin, stdout};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use heliostat_runtime::{Places, Signals, UsageError};
use ratatui::backend::TestBackend;
use ratatui::crossterm::terminal;
use ratatui::{DefaultTerminal, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use stdx::units::parse_time_ns;

use self::keys::Keys;
use self::screen::{Asked, Screen};
use self::worker::{Told, Wish};
use crate::cli::ControlArgs;

/// How long keys and signals may wait.
const LOOK_AROUND_EVERY: Duration = Duration::from_millis(100);

/// After this the screen says that a daemon does not answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What plain text is made for where there is no terminal.
const PLAIN_COLUMNS: u16 = 132;

/// Lines of plain text besides those of legs and clients.
const PLAIN_ROWS: usize = 12;

/// More is no array: 17 legs and 272 clients there may be.
const PLAIN_ROWS_MAX: u16 = 400;

/// What `heliostat top` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// The array; all that are served, one at a time, where none is named.
    name: Option<String>,
    /// How often it is looked at.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    /// Print one screen as plain text, of what happens in one interval.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    control: ControlArgs,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_time_ns(text).map_err(|error| error.to_string())?;
    let interval = Duration::from_nanos(interval);
    let limits = Duration::from_millis(100)..=Duration::from_secs(3600);
    match limits.contains(&interval) {
        true => Ok(interval),
        false => Err("it has to be between 100ms and 3600s".to_owned()),
    }
}

/// Shows it until somebody has seen enough.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    // First of all: threads started later must not be ended by a signal.
    let signals = Signals::take().context("cannot take signals")?;
    let names = names(args)?;
    let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut screen = Screen::new(names, args.interval, has_colours);
    if args.once {
        return once(args, screen, &signals);
    }
    if !stdout().is_terminal() || !stdin().is_terminal() {
        return Err(UsageError(
            "standard input and output are no terminal: --once prints one screen as plain text, \
             and 'heliostat stats NAME --json' everything"
                .to_owned(),
        )
        .into());
    }
    let (wishes, told) = worker::start(args.control.clone()).context("cannot start a thread")?;
    // It is given back also where something fails.
    let shown = show(take_terminal()?, &mut screen, &signals, &wishes, &told);
    ratatui::restore();
    shown.map(|()| ExitCode::SUCCESS)
}

/// Takes the terminal over. Where it panics, ratatui's hook gives it back before anything is said.
fn take_terminal() -> anyhow::Result<DefaultTerminal> {
    // Where that fails it may have come half way.
    ratatui::try_init()
        .inspect_err(|_| ratatui::restore())
        .context("cannot take the terminal over")
}

/// The arrays to be shown.
fn names(args: &TopArgs) -> anyhow::Result<Vec<String>> {
    if let Some(name) = &args.name {
        heliostat_runtime::check_name(name)?;
        return Ok(vec![name.clone()]);
    }
    let places = args.control.places()?;
    let names = served(&places);
    if names.is_empty() {
        bail!(
            "no array is served here: there is no socket in {}; name another place with \
             --control-dir DIR",
            places.control.display()
        );
    }
    Ok(names)
}

/// Those that have a control socket.
pub(crate) fn served(places: &Places) -> Vec<String> {
    let entries = fs::read_dir(&places.control)
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_suffix(".sock")?.to_owned())
    });
    let mut names: Vec<String> = names
        .filter(|name| places.socket(name).exists() && heliostat_runtime::check_name(name).is_ok())
        .collect();
    names.sort();
    names
}

fn show(
    mut terminal: DefaultTerminal,
    screen: &mut Screen,
    signals: &Signals,
    wishes: &Sender<Wish>,
    told: &Receiver<Told>,
) -> anyhow::Result<()> {
    let mut look_at = Instant::now();
    // Since when it has been waited for an answer.
    let mut asked: Option<Instant> = None;
    let mut is_wanted = true;
    let mut keys = Keys::default();
    let mut bytes = [0; 256];
    loop {
        loop {
            match told.try_recv() {
                Ok(told) => {
                    if matches!(told, Told::Looked(..)) {
                        asked = None;
                    }
                    screen.on_told(told);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => bail!("who asks the daemons has ended"),
            }
        }
        let now = Instant::now();
        if asked.is_some_and(|asked| now - asked > PATIENCE) {
            screen.trouble = Some("the daemon does not answer (waiting on)".to_owned());
        }
        let is_due = now >= look_at && !screen.is_paused;
        if asked.is_none() && (is_wanted || is_due) {
            wishes.send(Wish::Look(screen.name().to_owned()))?;
            asked = Some(now);
            is_wanted = false;
            look_at = now + screen.interval;
        }
        terminal
            .draw(|frame| draw::draw(frame, screen))
            .context("cannot draw")?;
        let pressed = match await_key(signals)? {
            Heard::End => return Ok(()),
            Heard::Nothing => keys.at_rest().into_iter().collect(),
            Heard::Interrupted => Vec::new(),
            Heard::Key => {
                let len = rustix::io::read(stdin(), &mut bytes).context("cannot read keys")?;
                if len == 0 {
                    return Ok(());
                }
                keys.of(&bytes[..len])
            }
        };
        for key in pressed {
            match screen.on_key(key) {
                Asked::Nothing => {}
                Asked::Quit => return Ok(()),
                Asked::Look => is_wanted = true,
                Asked::Wish(wish) => wishes.send(wish)?,
            }
        }
    }
}

/// What was heard.
enum Heard {
    Nothing,
    /// Another size, which says nothing about what is being typed.
    Interrupted,
    /// Something was typed.
    Key,
    /// A signal has come, or the terminal is gone.
    End,
}

/// Waits for keys and signals, for a while.
fn await_key(signals: &Signals) -> anyhow::Result<Heard> {
    let stdin = stdin();
    let mut fds = [
        PollFd::new(signals, PollFlags::IN),
        PollFd::new(&stdin, PollFlags::IN),
    ];
    let limit = Timespec::try_from(LOOK_AROUND_EVERY).context("a tenth of a second")?;
    match poll(&mut fds, Some(&limit)) {
        Err(Errno::INTR) => return Ok(Heard::Interrupted),
        heard => heard.context("cannot wait for keys")?,
    };
    let [signal, key] = fds.map(|fd| fd.revents());
    Ok(
        if signal.contains(PollFlags::IN) || !(key - PollFlags::IN).is_empty() {
            Heard::End
        } else if key.contains(PollFlags::IN) {
            Heard::Key
        } else {
            Heard::Nothing
        },
    )
}

/// One screen in plain text, of one interval.
fn once(args: &TopArgs, mut screen: Screen, signals: &Signals) -> anyhow::Result<ExitCode> {
    screen.has_colours = false;
    let name = screen.name().to_owned();
    let look = || worker::look(&args.control, &name).map(Box::new);
    screen.on_told(Told::Looked(name.clone(), Ok(look()?)));
    let until = Instant::now() + args.interval;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if signals.have_come()? {
            return Ok(ExitCode::FAILURE);
        }
        thread::sleep(left.min(LOOK_AROUND_EVERY));
    }
    screen.on_told(Told::Looked(name.clone(), Ok(look()?)));
    let columns = match stdout().is_terminal() {
        // Some have none.
        true => {
            terminal::size().map_or(PLAIN_COLUMNS, |(columns, _)| columns.max(draw::COLUMNS_MIN))
        }
        false => PLAIN_COLUMNS,
    };
    let rows = screen
        .seen()
        .map_or(0, |seen| seen.legs.len() + seen.clients.len());
    let rows = u16::try_from(rows + PLAIN_ROWS).unwrap_or(u16::MAX);
    let rows = rows.min(PLAIN_ROWS_MAX);
    let mut terminal = Terminal::new(TestBackend::new(columns, rows))?;
    terminal.draw(|frame| draw::draw(frame, &screen))?;
    let buffer = terminal.backend().buffer();
    let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    let lines = cells.chunks(usize::from(columns)).map(|line| line.concat());
    let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    // The last line says what keys do.
    let text = lines[..lines.len() - 1].join("\n");
    writeln!(stdout(), "{}", text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::{env, fs};

    use super::take_terminal;

    /// Says to [`it_panics_while_it_draws`] that it has a terminal to itself.
    const IN_A_TERMINAL: &str = "HELIOSTAT_TOP_TEST_HAS_A_TERMINAL";

    /// Run by [`a_panic_gives_the_terminal_back`] alone.
    #[test]
    fn it_panics_while_it_draws() {
        if env::var_os(IN_A_TERMINAL).is_none() {
            return;
        }
        let mut terminal = take_terminal().unwrap();
        terminal.draw(|_| ()).unwrap();
        let drawn = terminal.draw(|_| panic!("while it draws"));
        drop(drawn);
    }

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let directory = env::temp_dir().join(format!("heliostat-top-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let program = env::current_exe().unwrap();
        let (place, program) = (directory.display(), program.display());
        let command = format!(
            "stty -a > '{place}/before'; '{program}' --nocapture --exact \
             top::tests::it_panics_while_it_draws; stty -a > '{place}/after'"
        );
        let ran = Command::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .env(IN_A_TERMINAL, "1")
            .env("TERM", "xterm-256color")
            .output();
        // Where there is no script(1), a session at a keyboard is all there is.
        let Ok(ran) = ran else {
            return;
        };
        let drawn = String::from_utf8_lossy(&ran.stdout);
        let last = |order: &str| {
            drawn
                .rfind(order)
                .unwrap_or_else(|| panic!("{order}: {drawn}"))
        };
        assert!(last("\u{1b}[?1049h") < last("\u{1b}[?1049l"), "{drawn}");
        assert!(last("\u{1b}[?1049l") < last("while it draws"), "{drawn}");
        assert!(drawn.contains("\u{1b}[?25h"), "{drawn}");
        let modes = |name| fs::read_to_string(directory.join(name)).unwrap();
        assert_eq!(modes("before"), modes("after"));
        fs::remove_dir_all(&directory).unwrap();
    }
}
