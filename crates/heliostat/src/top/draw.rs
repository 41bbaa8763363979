//! The screen of `heliostat top`, drawn from what was seen.

use heliostat_bench::report::format::milliseconds;
use heliostat_runtime::clock_time;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use stdx::units::format_size;

use super::sample::{Activity, Sample, Seen, Side, errors_of, late_of};
use super::screen::{Picker, Screen};
use super::text::{columns, padded, plain, shortened};
use crate::status;

/// Less than this shows nothing that is of use.
pub(super) const COLUMNS_MIN: u16 = 40;
const ROWS_MIN: u16 = 8;

/// Lines that clients get at least, their head among them, where there are many legs.
const CLIENT_ROWS_MIN: u16 = 3;

/// A column of a table: what stands above it, how wide it is, and how much it is wanted; those
/// with small numbers go last.
struct Column {
    head: &'static str,
    width: u16,
    rank: u8,
    cell: fn(&Activity) -> String,
}

const fn column(head: &'static str, width: u16, rank: u8, cell: fn(&Activity) -> String) -> Column {
    Column {
        head,
        width,
        rank,
        cell,
    }
}

/// A column of this width has text in it, and stands at the left.
const TEXT_WIDTH: u16 = 56;

impl Column {
    /// A text behind what stands at its left.
    fn aligned(&self, text: &str) -> String {
        let width = usize::from(self.width);
        match self.width == TEXT_WIDTH {
            true => format!(" {}", padded(text, width)),
            false => format!(" {:>width$}", plain(text)),
        }
    }
}

/// What is shown of legs, behind their names.
const LEG_COLUMNS: [Column; 14] = [
    column("state", 7, 0, |leg| state_word(&leg.state).to_owned()),
    column("share", 5, 1, |leg| percent(leg.share)),
    column("reads/s", 7, 0, |leg| short(leg.read.per_s)),
    column("MB/s", 5, 0, |leg| short(leg.read.bytes_per_s / 1e6)),
    column("writes/s", 8, 2, |leg| short(leg.write.per_s)),
    column("MB/s", 5, 2, |leg| short(leg.write.bytes_per_s / 1e6)),
    column("busy", 4, 3, |leg| percent(leg.busy)),
    column("flight", 7, 3, in_flight),
    column("r p50", 6, 5, |leg| ms(leg.read.times.p50_ns)),
    column("r p99", 6, 1, |leg| ms(leg.read.times.p99_ns)),
    column("r p99.9", 7, 5, |leg| ms(leg.read.times.p99_9_ns)),
    column("w p99", 6, 6, |leg| ms(leg.write.times.p99_ns)),
    column("errors", 6, 7, |leg| leg.errors.to_string()),
    column("the policy knows", TEXT_WIDTH, 8, |leg| leg.belief.clone()),
];

/// What is shown of clients, behind their names.
const CLIENT_COLUMNS: [Column; 12] = [
    column("reads/s", 7, 0, |client| short(client.read.per_s)),
    column("MB/s", 5, 0, |client| short(client.read.bytes_per_s / 1e6)),
    column("writes/s", 8, 1, |client| short(client.write.per_s)),
    column("MB/s", 5, 1, |client| short(client.write.bytes_per_s / 1e6)),
    column("flight", 7, 2, in_flight),
    column("r p50", 6, 5, |client| ms(client.read.times.p50_ns)),
    column("r p99", 6, 1, |client| ms(client.read.times.p99_ns)),
    column("r p99.9", 7, 5, |client| ms(client.read.times.p99_9_ns)),
    column("w p99", 6, 2, |client| ms(client.write.times.p99_ns)),
    column("late", 4, 4, |client| client.late.to_string()),
    column("conn", 4, 6, |client| client.connections.to_string()),
    column("errors", 6, 7, |client| client.errors.to_string()),
];

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let area = frame.area();
    if area.width < COLUMNS_MIN || area.height < ROWS_MIN {
        let text = format!("too small: {COLUMNS_MIN} x {ROWS_MIN} is the least; q quits");
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let head = head(screen, area.width);
    let height = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let [top, body, foot] = Layout::vertical([
        Constraint::Length(height),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(head), top);
    if let Some(seen) = screen.seen() {
        tables(frame, body, seen, screen.has_colours);
    }
    frame.render_widget(keys(area.width), foot);
    if screen.shows_help {
        help(frame, area);
    } else if let Some(picker) = &screen.picker {
        pick(frame, area, picker);
    }
}

/// What is said of the array as a whole.
fn head(screen: &Screen, width: u16) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = Vec::new();
    if let Some(sample) = screen.sample() {
        lines.extend(of_array(screen, sample, width));
    } else {
        let name = plain(screen.name());
        lines.push(Line::styled(format!("{name}: not seen yet"), bold));
    }
    for trouble in screen.refusal.iter().chain(&screen.trouble) {
        let style = warning(screen.has_colours);
        lines.push(Line::styled(plain(trouble), style));
    }
    lines.push(Line::default());
    lines
}

fn of_array(screen: &Screen, sample: &Sample, width: u16) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let (stats, status) = (&sample.stats, &sample.status);
    let degraded = status.legs_in_sync < status.legs_wanted;
    let state = format!("{} of {} in sync", status.legs_in_sync, status.legs_wanted);
    let left = format!(
        "{}: {}, {}, {}, ",
        plain(&status.name),
        plain(&status.shape),
        format_size(status.size_bytes),
        plain(&status.state)
    );
    let right = screen.corner();
    let used = columns(&left) + columns(&state) + columns(&right);
    let gap = usize::from(width).saturating_sub(used).max(1);
    let mut lines = vec![Line::from(vec![
        Span::styled(left, bold),
        match degraded {
            true => Span::styled(state.to_uppercase(), warning(screen.has_colours)),
            false => Span::styled(state, bold),
        },
        Span::raw(format!("{}{right}", " ".repeat(gap))),
    ])];
    let memory = stats.memory_used_bytes as f64 / stats.memory_bytes.max(1) as f64;
    lines.push(Line::raw(format!(
        "policy {}  scheduler {}  up {}  late {}  errors {}  memory {}",
        plain(&stats.policy),
        plain(&stats.scheduler),
        clock_time(stats.uptime_ns),
        late_of(&stats.requests),
        errors_of(&stats.requests),
        percent(memory)
    )));
    if !stats.accounting {
        let text = "nothing is counted: it is served with --no-accounting";
        lines.push(Line::styled(text, warning(screen.has_colours)));
    } else if let Some(seen) = screen.seen() {
        lines.push(Line::raw(side("reads", &seen.total.read)));
        lines.push(Line::raw(side("writes", &seen.total.write)));
        if stats.hedges.issued > 0 {
            lines.push(Line::raw(format!(
                "hedges {:>6}/s, won {}/s; {} since the start",
                short(seen.hedges_per_s),
                short(seen.hedges_won_per_s),
                stats.hedges.issued
            )));
        }
        if seen.is_since_start {
            lines.push(Line::raw("rates and times are of all the time so far"));
        }
    }
    let work = status.background.iter().map(status::work_line);
    lines.extend(work.map(|line| Line::raw(plain(line.trim_start()))));
    lines
}

/// What all clients ask for of one kind.
fn side(name: &str, side: &Side) -> String {
    format!(
        "{name:<6} {:>6}/s {:>6} MB/s  {:>3} in flight  p50 {:>5}  p99 {:>5}  p99.9 {:>5} ms",
        short(side.per_s),
        short(side.bytes_per_s / 1e6),
        side.in_flight,
        ms(side.times.p50_ns),
        ms(side.times.p99_ns),
        ms(side.times.p99_9_ns)
    )
}

fn tables(frame: &mut Frame<'_>, area: Rect, seen: &Seen, has_colours: bool) {
    let wanted = u16::try_from(seen.legs.len() + 1).unwrap_or(u16::MAX);
    let room = area.height.saturating_sub(CLIENT_ROWS_MIN + 1);
    let height = wanted.min(room.max(area.height.div_ceil(2)));
    let [legs, _, clients] = Layout::vertical([
        Constraint::Length(height),
        Constraint::Length(1),
        Constraint::Fill(1),
    ])
    .areas(area);
    table(frame, legs, "leg", &LEG_COLUMNS, &seen.legs, has_colours);
    table(
        frame,
        clients,
        "client",
        &CLIENT_COLUMNS,
        &seen.clients,
        has_colours,
    );
}

/// A head and a line for each of `rows`, with as many columns as there is room for. Where there
/// are more rows than lines, the last line says how many.
fn table(
    frame: &mut Frame<'_>,
    area: Rect,
    name: &'static str,
    columns: &[Column],
    rows: &[Activity],
    has_colours: bool,
) {
    let (columns, name_width) = fitting(columns, area.width, longest(rows));
    let width = usize::from(name_width);
    let mut head = format!("{name:<width$}");
    for column in &columns {
        head += &column.aligned(column.head);
    }
    let head_style = Style::new().add_modifier(Modifier::REVERSED);
    let mut lines = vec![Line::styled(
        format!("{head:<0$}", usize::from(area.width)),
        head_style,
    )];
    let room = usize::from(area.height).saturating_sub(1);
    let shown = match rows.len() > room {
        true => room.saturating_sub(1),
        false => rows.len(),
    };
    for row in &rows[..shown] {
        let mut line = shortened(&row.name, width);
        for column in &columns {
            line += &column.aligned(&(column.cell)(row));
        }
        let is_well = row.state.is_empty() || row.state == "in-sync";
        lines.push(match is_well {
            true => Line::raw(line),
            false => Line::styled(line, warning(has_colours)),
        });
    }
    if shown < rows.len() {
        lines.push(Line::raw(format!("... {} more", rows.len() - shown)));
    } else if rows.is_empty() && room > 0 {
        lines.push(Line::raw("none"));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// The columns that fit beside names of which the longest has `longest` characters, and how wide
/// the names may be.
fn fitting(columns: &[Column], width: u16, longest: u16) -> (Vec<&Column>, u16) {
    const NAME_MIN: u16 = 12;
    let mut room = width.saturating_sub(longest.clamp(NAME_MIN, 20));
    let mut is_in = vec![false; columns.len()];
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|&index| columns[index].rank);
    for index in order {
        let needed = columns[index].width + 1;
        if needed > room {
            break;
        }
        room -= needed;
        is_in[index] = true;
    }
    let chosen: Vec<&Column> = columns
        .iter()
        .zip(&is_in)
        .filter_map(|(column, is_in)| is_in.then_some(column))
        .collect();
    let used: u16 = chosen.iter().map(|column| column.width + 1).sum();
    let left = width.saturating_sub(used);
    (chosen, left.min(longest.max(NAME_MIN)))
}

fn longest(rows: &[Activity]) -> u16 {
    let lengths = rows.iter().map(|row| columns(&plain(&row.name)));
    u16::try_from(lengths.max().unwrap_or(0)).unwrap_or(u16::MAX)
}

/// What is wrong stands out, without colours as well.
fn warning(has_colours: bool) -> Style {
    let style = Style::new().add_modifier(Modifier::BOLD);
    match has_colours {
        true => style.fg(Color::Red),
        false => style,
    }
}

fn state_word(state: &str) -> &str {
    match state {
        "in-sync" => "sync",
        "rebuilding" => "REBUILD",
        "faulted" => "FAULTED",
        "missing" => "MISSING",
        other => other,
    }
}

fn in_flight(of: &Activity) -> String {
    format!("{}r {}w", of.read.in_flight, of.write.in_flight)
}

fn percent(part: f64) -> String {
    format!("{:.0}%", part * 100.0)
}

/// A time for people; nothing where nothing ended.
fn ms(ns: u64) -> String {
    match ns {
        0 => "-".to_owned(),
        ns => milliseconds(ns),
    }
}

/// A number in at most five characters, six with a point in it.
fn short(value: f64) -> String {
    if value < 0.05 {
        "0".to_owned()
    } else if value < 99.95 {
        format!("{value:.1}")
    } else if value < 99_999.5 {
        format!("{value:.0}")
    } else if value < 9_999_500.0 {
        format!("{:.0}k", value / 1e3)
    } else {
        format!("{:.0}M", value / 1e6)
    }
}

fn keys(width: u16) -> Paragraph<'static> {
    let text = match width >= 70 {
        true => "q quit  p policy  s scheduler  tab next array  space pause  +- interval  ? help",
        false => "q quit  p policy  s scheduler  ? help",
    };
    Paragraph::new(text).style(Style::new().add_modifier(Modifier::DIM))
}

const HELP: &str = "\
q, Esc, Ctrl-C  quit
p               choose another read policy
s               choose another scheduler
Tab, Shift-Tab  the next array, the one before
Space           stop and go on
+ -             look more or less often
?, h            this

Times are in ms, of what ended since the last look:
r reads, w writes. share: of all reads of the legs.
busy: how much of the time anything was in flight.
flight: reads and writes there now. late: requests
older than the client time-out, since the start.
A name that begins with < is cut.";

fn help(frame: &mut Frame<'_>, area: Rect) {
    popup(frame, area, "help", HELP.lines().map(Line::raw).collect());
}

fn pick(frame: &mut Frame<'_>, area: Rect, picker: &Picker) {
    let height = usize::from(area.height.saturating_sub(4)).max(1);
    let from = (picker.chosen + 1).saturating_sub(height);
    let choices = picker.choices.iter().enumerate().skip(from).take(height);
    let lines = choices.map(|(index, choice)| {
        let mark = if *choice == picker.active { "*" } else { " " };
        let line = format!("{mark} {} ", plain(choice));
        match index == picker.chosen {
            true => Line::styled(line, Style::new().add_modifier(Modifier::REVERSED)),
            false => Line::raw(line),
        }
    });
    popup(frame, area, picker.what.title(), lines.collect());
}

/// A box in the middle, over what is there.
fn popup(frame: &mut Frame<'_>, area: Rect, title: &'static str, lines: Vec<Line<'static>>) {
    let width = lines.iter().map(Line::width).max().unwrap_or(0).max(24) + 4;
    let width = u16::try_from(width).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(lines.len() + 2)
        .unwrap_or(u16::MAX)
        .min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(title);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::{draw, short};
    use crate::top::screen::Screen;
    use crate::top::testing::sample;
    use crate::top::worker::{Told, What};

    const LEGS: [(&str, &str); 3] = [
        ("0 sda", "in-sync"),
        ("1 nvme0n1", "faulted"),
        ("2 a-leg-of-a-rather-long-name.img", "in-sync"),
    ];

    fn shown(screen: &Screen, columns: u16, rows: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, screen)).unwrap();
        let buffer = terminal.backend().buffer();
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        let lines = cells.chunks(usize::from(columns)).map(|line| line.concat());
        lines.map(|line| line.trim_end().to_owned()).collect()
    }

    fn screen(legs: &[(&str, &str)], clients: &[&str]) -> Screen {
        let mut screen = Screen::new(vec!["pool".to_owned()], Duration::from_secs(1), true);
        for (seconds, reads) in [(10, 1_000), (11, 3_500)] {
            let sample = Box::new(sample(seconds, reads, legs, clients));
            screen.on_told(Told::Looked("pool".to_owned(), Ok(sample)));
        }
        screen
    }

    fn line_with(lines: &[String], text: &str) -> String {
        let line = lines.iter().find(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("no {text} in {lines:#?}"))
            .clone()
    }

    #[test]
    fn eighty_columns_have_what_matters() {
        let lines = shown(&screen(&LEGS, &["fio 123", "qemu 9"]), 80, 24);
        assert!(lines[0].starts_with("pool: a mirror of 3 legs, 1 GiB, clean, 2 OF 3 IN SYNC"));
        assert!(lines[0].ends_with("every 1s"), "{}", lines[0]);
        assert!(lines[2].starts_with("reads    7500/s   30.7 MB/s    2 in flight  p50  1.00"));
        assert!(lines[2].ends_with(" ms"), "{}", lines[2]);
        let head = line_with(&lines, "share");
        assert!(head.contains("reads/s") && head.contains("r p99"), "{head}");
        let leg = line_with(&lines, "nvme0n1");
        assert!(leg.contains("FAULTED") && leg.contains("33%"), "{leg}");
        assert!(line_with(&lines, "fio 123").contains("2500"));
        assert!(lines[23].starts_with("q quit"));
    }

    #[test]
    fn more_room_shows_more_and_less_shows_less() {
        let screen = screen(&LEGS, &["fio 123"]);
        let wide = shown(&screen, 200, 50);
        let head = line_with(&wide, "share");
        assert!(head.contains("errors") && head.contains("knows"), "{head}");
        line_with(&wide, "2 a-leg-of-a-rather-long-name.img");
        let narrow = shown(&screen, 40, 10);
        let head = line_with(&narrow, "reads/s");
        assert!(!head.contains("p99.9"), "{head}");
        line_with(&narrow, "... ");
        assert!(shown(&screen, 39, 24)[0].starts_with("too small"));
        assert!(shown(&screen, 80, 7)[0].starts_with("too small"));
        shown(&screen, 1, 1);
    }

    #[test]
    fn many_legs_leave_room_for_clients() {
        let legs = vec![("leg", "in-sync"); 16];
        let clients: Vec<String> = (0..300).map(|index| format!("client {index}")).collect();
        let clients: Vec<&str> = clients.iter().map(String::as_str).collect();
        let lines = shown(&screen(&legs, &clients), 80, 24);
        line_with(&lines, "... 5 more");
        line_with(&lines, "client 0");
        line_with(&lines, "... 299 more");
    }

    #[test]
    fn what_clients_are_called_gives_no_orders_to_the_terminal() {
        let lines = shown(&screen(&LEGS, &["a\u{1b}[2Jb\u{7}\n"]), 80, 24);
        line_with(&lines, "a?[2Jb??");
    }

    #[test]
    fn lists_and_help_lie_over_the_tables() {
        let mut screen = screen(&LEGS, &[]);
        let list = "pid [queue] devid:1".to_owned();
        let listed = |list| Told::Listed("pool".to_owned(), What::Policy, Ok(list));
        screen.on_told(listed(list));
        let lines = shown(&screen, 80, 24);
        line_with(&lines, "read policy");
        line_with(&lines, "* queue");
        screen.picker = None;
        screen.on_key(KeyEvent::new(KeyCode::Char('?'), KeyModifiers::NONE));
        line_with(&shown(&screen, 80, 24), "another scheduler");
        // A long list shows what is chosen.
        let long: Vec<String> = (0..99).map(|index| format!("p{index}")).collect();
        screen.shows_help = false;
        let long = long.join(" ").replace("p98", "[p98]");
        screen.on_told(listed(long));
        line_with(&shown(&screen, 80, 24), "* p98");
    }

    #[test]
    fn what_is_wrong_is_said_above_what_was_seen_last() {
        let mut screen = screen(&LEGS, &[]);
        screen.on_told(Told::Looked(
            "pool".to_owned(),
            Err("it is gone".to_owned()),
        ));
        let lines = shown(&screen, 80, 24);
        line_with(&lines, "it is gone (trying on)");
        line_with(&lines, "nvme0n1");
        let unseen = Screen::new(vec!["pool".to_owned()], Duration::from_secs(1), true);
        line_with(&shown(&unseen, 80, 24), "pool: not seen yet");
    }

    #[test]
    fn numbers_fit_their_columns() {
        for (value, text) in [
            (0.0, "0"),
            (0.06, "0.1"),
            (99.94, "99.9"),
            (12_345.0, "12345"),
            (123_456.0, "123k"),
            (12_345_678.0, "12M"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
