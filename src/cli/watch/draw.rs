//! Drawing of the live view: a pure function of its state and the time.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line as Text;
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::screen::{Mode, Screen, SelectableLine};
use super::view::{Kind, QueueView, SessionView, TaskView};
use crate::cli::human_time;
use crate::model::time::{Millis, Timestamp};

const KEYS: &str = "\u{2191}\u{2193} Tab choose  a/r approve, reject  1-9 answer  R restart agent  k end  w cancel \
 backoff  p pause, resume  / filter  ? help  q quit";

const HELP: &[&str] = &[
    "↑ ↓ PgUp PgDn Home End   choose a line",
    "Tab, Shift-Tab           the next, the previous panel",
    "a, r                     approve or reject what is asked for",
    "1 to 9                   answer a question by the number of an option",
    "R                        restart the agent of the line: all its runs end, its backoffs are cancelled",
    "k                        end the run of a session now; its messages are requeued",
    "w                        cancel the backoff of a session whose starts fail or whose provider limits it",
    "p                        pause or resume a task",
    "/                        show only lines with these words; Esc shows all",
    "q, Ctrl-C                leave; agents keep running",
    "",
    "Every action asks first: y confirms, n or Esc cancels.",
];

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen, now: Timestamp) {
    let view = &screen.view;
    let warnings = u16::try_from(view.warnings.len().min(4)).unwrap_or(4);
    let lanes = u16::try_from(view.lanes.len().min(4)).unwrap_or(4);
    let [head, sessions, asked, tasks, lane_area, warning_area, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Fill(2),
        Constraint::Length(if lanes == 0 { 0 } else { lanes + 1 }),
        Constraint::Length(if warnings == 0 { 0 } else { warnings + 1 }),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(headline(screen, now)), head);
    session_panel(frame, screen, sessions, now);
    asked_panel(frame, screen, asked, now);
    task_panel(frame, screen, tasks, now);
    if lanes > 0 {
        frame.render_widget(
            Paragraph::new(view.lanes.iter().map(lane).collect::<Vec<_>>()).block(title("Outgoing queues")),
            lane_area,
        );
    }
    if warnings > 0 {
        let lines: Vec<Text<'_>> = view.warnings.iter().map(|warning| Text::from(warning.as_str())).collect();
        let style = Style::new().fg(ratatui::style::Color::Yellow);
        frame.render_widget(Paragraph::new(lines).style(style).block(title("Warnings")), warning_area);
    }
    frame.render_widget(Paragraph::new(footline(screen)), foot);
    match &screen.mode {
        Mode::Help => popup(frame, "Keys", HELP),
        Mode::Confirm(act) => {
            let area = frame.area();
            let lines = act.asked(area.width);
            popup(frame, "Sure?", &lines.iter().map(String::as_str).collect::<Vec<_>>());
        }
        Mode::Browse | Mode::Filter => {}
    }
}

fn title(text: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).title(format!(" {text} "))
}

fn headline(screen: &Screen, now: Timestamp) -> Vec<Text<'static>> {
    let view = &screen.view;
    let daemon = match (&view.daemon, &view.trouble) {
        (Some(daemon), _) => format!(
            "hearth {} is running (process {}, {}), {} inputs queued, {} terminals{}",
            daemon.version,
            daemon.pid,
            daemon.runtime,
            daemon.queued,
            daemon.terminals,
            if daemon.draining { ", STOPPING" } else { "" }
        ),
        (None, _) if !screen.looked => "looking…".to_owned(),
        (None, Some(trouble)) => trouble.clone(),
        (None, None) => match &screen.absent_since {
            Some(since) => format!("not running since {}", ago(since, now)),
            None => "no daemon is running: start one with `hearth run` or `hearth up`".to_owned(),
        },
    };
    let bad = screen.looked && view.daemon.is_none();
    let style =
        if bad { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new().add_modifier(Modifier::BOLD) };
    let messages = &view.messages;
    vec![
        Text::styled(daemon, style),
        Text::from(format!(
            "messages: {} queued, {} in progress, {} retrying, {} scheduled; {} unsent",
            messages.due, messages.claimed, messages.backing_off, messages.scheduled, messages.undelivered
        )),
    ]
}

fn footline(screen: &Screen) -> Text<'_> {
    if screen.mode == Mode::Filter {
        return Text::from(format!("/{}_", screen.filter));
    }
    match (&screen.note, screen.filter.as_str()) {
        (Some(note), _) => Text::styled(note.as_str(), Style::new().add_modifier(Modifier::BOLD)),
        (None, "") => Text::styled(KEYS, Style::new().add_modifier(Modifier::DIM)),
        (None, filter) => Text::from(format!("only lines with `{filter}`; Esc shows all")),
    }
}

/// A panel of selectable lines. `pick` chooses its lines.
fn panel<'a>(
    frame: &mut Frame<'_>,
    screen: &Screen,
    area: Rect,
    name: &str,
    columns: &[Constraint],
    row: impl Fn(&SelectableLine) -> Option<Row<'a>>,
) {
    let (mut rows, mut chosen) = (Vec::new(), None);
    let choice = screen.chosen();
    for line in screen.lines() {
        let Some(shown) = row(&line) else { continue };
        if choice.as_ref() == Some(&line) {
            chosen = Some(rows.len());
        }
        rows.push(shown);
    }
    let heading = format!("{name} ({})", rows.len());
    let table = Table::new(rows, columns.iter().copied())
        .block(title(&heading))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(chosen));
}

fn session_panel(frame: &mut Frame<'_>, screen: &Screen, area: Rect, now: Timestamp) {
    let columns =
        [Constraint::Length(10), Constraint::Fill(1), Constraint::Fill(2), Constraint::Length(9), Constraint::Fill(3)];
    panel(frame, screen, area, "Sessions", &columns, |line| {
        let SelectableLine::Session(at) = line else { return None };
        let one = screen.view.sessions.get(*at)?;
        let name = one.incarnation.map_or_else(|| one.session.clone(), |number| format!("{}.{number}", one.session));
        let age = one.started.as_ref().map(|started| age(started, now)).unwrap_or_default();
        Some(Row::new([name, one.agent.clone(), one.phase.clone(), age, doing(one, now)].map(Cell::from)))
    });
}

fn doing(one: &SessionView, now: Timestamp) -> String {
    let mut words = Vec::new();
    words.extend((one.claimed > 0).then(|| format!("{} in progress", one.claimed)));
    words.extend((one.due > 0).then(|| format!("{} queued", one.due)));
    words.extend(one.tool.as_ref().map(|tool| format!("tool {tool}")));
    words.extend((one.failed_starts > 0).then(|| format!("{} starts failed", one.failed_starts)));
    words.extend(one.held_off.as_ref().map(|until| format!("rate-limited, next try {}", ahead(until, now))));
    words.join(", ")
}

fn asked_panel(frame: &mut Frame<'_>, screen: &Screen, area: Rect, now: Timestamp) {
    let columns = [Constraint::Length(10), Constraint::Fill(1), Constraint::Length(17)];
    panel(frame, screen, area, "To decide", &columns, |line| {
        let SelectableLine::Asked(at) = line else { return None };
        let one = screen.view.asked.get(*at)?;
        let options =
            one.options.iter().enumerate().map(|(at, (label, _))| format!("{} {label}", at.saturating_add(1)));
        let about = match one.kind {
            Kind::Approval => one.summary.clone(),
            Kind::Question => format!("{} [{}]", one.about, options.collect::<Vec<_>>().join(", ")),
        };
        Some(Row::new([one.id.clone(), about, format!("expires {}", ahead(&one.expires, now))].map(Cell::from)))
    });
}

fn task_panel(frame: &mut Frame<'_>, screen: &Screen, area: Rect, now: Timestamp) {
    let columns = [Constraint::Length(10), Constraint::Fill(1), Constraint::Length(16), Constraint::Fill(3)];
    panel(frame, screen, area, "Tasks", &columns, |line| {
        let SelectableLine::Task(at) = line else { return None };
        let one = screen.view.tasks.get(*at)?;
        Some(Row::new([one.task.clone(), one.agent.clone(), standing(one, now), one.prompt.clone()].map(Cell::from)))
    });
}

fn standing(one: &TaskView, now: Timestamp) -> String {
    match (&one.next, one.paused, one.running) {
        (_, _, true) => "running".to_owned(),
        (_, true, _) => "paused".to_owned(),
        (Some(next), ..) => ahead(next, now),
        (None, ..) => "done".to_owned(),
    }
}

fn lane(lane: &QueueView) -> Text<'_> {
    let why = lane.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    Text::from(format!("{}: {} sending, {} waiting{why}", lane.channel, lane.under_way, lane.waiting))
}

fn popup(frame: &mut Frame<'_>, name: &str, lines: &[&str]) {
    let area = frame.area();
    let (width, inner) = popup_width(area.width);
    let wrapped: usize = lines.iter().map(|line| line.chars().count().div_ceil(inner).max(1)).sum();
    let height = u16::try_from(wrapped.saturating_add(2)).unwrap_or(u16::MAX).min(area.height);
    let [_, middle, _] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    let [_, spot, _] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(width), Constraint::Fill(1)]).areas(middle);
    let text: Vec<Text<'_>> = lines.iter().map(|line| Text::from(*line)).collect();
    frame.render_widget(Clear, spot);
    frame.render_widget(
        Paragraph::new(text).wrap(Wrap { trim: false }).block(Block::bordered().title(format!(" {name} "))),
        spot,
    );
}

/// Width of a popup in columns, with and without its border.
pub(super) fn popup_width(screen: u16) -> (u16, usize) {
    let width = screen.saturating_sub(4).min(100);
    (width, usize::from(width.saturating_sub(2)).max(1))
}

/// Wraps a text at exactly `columns` columns, so that no character is lost.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for whole in text.lines() {
        let (mut line, mut width) = (String::new(), 0);
        for c in whole.chars() {
            let wide = Text::raw(c.to_string()).width();
            if width + wide > columns && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
                width = 0;
            }
            line.push(c);
            width += wide;
        }
        lines.push(line);
    }
    lines
}

fn age(then: &str, now: Timestamp) -> String {
    Timestamp::parse(then).map(|then| length(now.since(then))).unwrap_or_default()
}

fn ago(then: &str, now: Timestamp) -> String {
    format!("{} ({} ago)", human_time::local(then), age(then, now))
}

/// Time until an instant.
fn ahead(then: &str, now: Timestamp) -> String {
    match Timestamp::parse(then) {
        Some(then) if then <= now => "now".to_owned(),
        Some(then) => format!("in {}", length(then.since(now))),
        None => String::new(),
    }
}

/// A duration in its two largest units.
fn length(length: Millis) -> String {
    let seconds = length.get() / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}
