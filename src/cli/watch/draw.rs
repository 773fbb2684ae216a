//! Drawing of the live view: a pure function of its state and the time.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, HighlightSpacing, Paragraph, Row, Table, TableState, Wrap};

use super::details;
use super::screen::{Mode, Screen, SelectableLine};
use super::view::{DaemonView, Kind, Messages, PromptView, QueueView, SessionState, SessionView, TaskView, View};
use crate::cli::{human_time, labels};
use crate::model::configure::RuntimeKind;
use crate::model::time::{Millis, Timestamp};

const KEYS: &str = "↑↓ choose   Enter details   a approve   r reject   / filter   ? all keys   q quit";

const HELP: &[&str] = &[
    "↑ ↓ PgUp PgDn Home End   choose a line",
    "Tab, Shift-Tab           the next, the previous panel",
    "Enter                    show everything about the line; Esc closes it",
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

/// Most lines of a panel other than the sessions, which get the rest of the screen.
const LINES_MAX: usize = 6;

/// The meaning of a colour. The text beside it says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Plain,
    Quiet,
    Good,
    Attention,
    Bad,
}

impl Tone {
    fn style(self, screen: &Screen) -> Style {
        let style = Style::new();
        match self {
            Self::Plain => style,
            Self::Quiet => style.add_modifier(Modifier::DIM),
            _ if !screen.colours => style,
            Self::Good => style.fg(Color::Green),
            Self::Attention => style.fg(Color::Yellow),
            Self::Bad => style.fg(Color::Red),
        }
    }
}

/// Draws everything: decisions first, then problems, then what runs.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen, now: Timestamp) {
    let view = &screen.view;
    let [head, asked, warnings, sessions, tasks, queues, foot] =
        Layout::vertical(rows(view, frame.area().height).map(Constraint::Length)).areas(frame.area());
    headline(frame, screen, head, now);
    asked_panel(frame, screen, asked, now);
    warning_panel(frame, screen, warnings);
    session_panel(frame, screen, sessions, now);
    task_panel(frame, screen, tasks, now);
    if !view.lanes.is_empty() {
        let lines = view.lanes.iter().map(lane).collect::<Vec<_>>();
        let heading = format!("UNSENT ({})", view.messages.undelivered);
        frame.render_widget(Paragraph::new(lines).block(title(screen, &heading, Tone::Plain)), queues);
    }
    frame.render_widget(Paragraph::new(footline(screen)), foot);
    match &screen.mode {
        Mode::Help => popup(frame, "Keys", HELP),
        Mode::Confirm(act) => {
            let area = frame.area();
            let lines = act.asked(area.width);
            popup(frame, "Sure?", &lines.iter().map(String::as_str).collect::<Vec<_>>());
        }
        Mode::Details => {
            if let Some(details) = details::of(screen, now) {
                let lines: Vec<&str> = details.lines.iter().map(String::as_str).collect();
                popup(frame, &details.title, &lines);
            }
        }
        Mode::Browse | Mode::Filter => {}
    }
}

/// Rows of the headline, the panels and the foot line on a screen of this height.
///
/// Where they do not fit, tasks shrink first, then unsent messages, problems and decisions. The sum never exceeds `height`: Ratatui's solver would
/// choose what to shrink at random, in every process differently.
pub(super) fn rows(view: &View, height: u16) -> [u16; 7] {
    let mut left = height;
    let mut take = |wanted: u16| {
        let taken = wanted.min(left);
        left = left.saturating_sub(taken);
        taken
    };
    let (head, foot, sessions) = (take(2), take(1), take(4));
    let asked = take(panel_rows(view.asked.len().max(1), 1));
    let warnings = take(panel_rows(view.warnings.len(), 1));
    let queues = take(panel_rows(view.lanes.len(), 1));
    let tasks = take(panel_rows(view.tasks.len(), 2));
    [head, asked, warnings, sessions.saturating_add(left), tasks, queues, foot]
}

/// Rows of a panel with this many lines, and headings if it has lines.
fn panel_rows(lines: usize, headings: usize) -> u16 {
    let shown = lines.min(LINES_MAX);
    u16::try_from(if lines == 0 { 0 } else { shown.saturating_add(headings) }).unwrap_or(u16::MAX)
}

fn title<'a>(screen: &Screen, text: &str, tone: Tone) -> Block<'a> {
    let style = tone.style(screen).add_modifier(Modifier::BOLD);
    Block::new().borders(Borders::TOP).border_style(Style::new().add_modifier(Modifier::DIM)).title(Text::styled(
        format!(" {text} "),
        // The border's style would dim the title as well.
        style.remove_modifier(Modifier::DIM),
    ))
}

fn headline(frame: &mut Frame<'_>, screen: &Screen, area: Rect, now: Timestamp) {
    let view = &screen.view;
    let (text, tone) = match (&view.daemon, &view.trouble) {
        (Some(daemon), _) => daemon_words(daemon),
        (None, _) if !screen.looked => ("looking…".to_owned(), Tone::Plain),
        (None, Some(trouble)) => (trouble.clone(), Tone::Bad),
        (None, None) => match &screen.absent_since {
            Some(since) => (format!("not running since {}", ago(since, now)), Tone::Bad),
            None => ("no daemon is running: start one with `hearth run` or `hearth up`".to_owned(), Tone::Bad),
        },
    };
    let mut style = tone.style(screen).add_modifier(Modifier::BOLD);
    if tone == Tone::Bad {
        style = style.add_modifier(Modifier::REVERSED);
    }
    let lines = vec![Text::styled(text, style), Text::from(message_words(&view.messages))];
    frame.render_widget(Paragraph::new(lines), area);
    frame.render_widget(Paragraph::new(summary(screen)).alignment(Alignment::Right), second_row(area));
}

fn second_row(area: Rect) -> Rect {
    Rect { y: area.y.saturating_add(1), height: area.height.saturating_sub(1), ..area }
}

fn daemon_words(daemon: &DaemonView) -> (String, Tone) {
    let agents = if daemon.runtime == RuntimeKind::Process.as_str() { "as processes" } else { "in containers" };
    let state = if daemon.draining { "is STOPPING: it waits for work in progress" } else { "is running" };
    let tone = if daemon.draining { Tone::Attention } else { Tone::Good };
    (format!("hearth {} {state} · agents run {agents}", daemon.version), tone)
}

/// Messages on their way, without zeros.
fn message_words(messages: &Messages) -> String {
    let counts = [
        (messages.due, "queued"),
        (messages.claimed, "in progress"),
        (messages.backing_off, "retrying"),
        (messages.scheduled, "scheduled"),
        (messages.undelivered, "unsent"),
    ];
    let words: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if words.is_empty() { "no message waits".to_owned() } else { format!("messages: {}", words.join(", ")) }
}

/// The three most important numbers.
fn summary(screen: &Screen) -> Text<'static> {
    let view = &screen.view;
    let working = view.all_sessions().filter(|one| one.state() == SessionState::Working).count();
    let part = |count: usize, words: &str, tone: Tone| {
        let style =
            if count == 0 { Tone::Quiet.style(screen) } else { tone.style(screen).add_modifier(Modifier::BOLD) };
        Span::styled(format!("   {count} {words}"), style)
    };
    let problems = if view.warnings.len() == 1 { "problem" } else { "problems" };
    Text::from(vec![
        part(view.asked.len(), "to decide", Tone::Attention),
        part(view.warnings.len(), problems, Tone::Bad),
        part(working, "working", Tone::Good),
    ])
}

fn footline(screen: &Screen) -> Text<'_> {
    if screen.mode == Mode::Filter {
        return Text::from(format!("/{}_", screen.filter));
    }
    match (&screen.note, screen.filter.as_str()) {
        (Some(note), _) => Text::styled(note.as_str(), Style::new().add_modifier(Modifier::BOLD)),
        (None, "") => Text::styled(KEYS, Tone::Quiet.style(screen)),
        (None, filter) => Text::from(format!("only lines with `{filter}`; Esc shows all")),
    }
}

/// The content of a panel: its heading, its columns, and a line per item.
struct Panel<'p, F> {
    heading: &'p str,
    tone: Tone,
    /// Names of the columns; empty for none.
    names: &'p [&'p str],
    widths: &'p [Constraint],
    row: F,
}

fn panel<'a, F>(frame: &mut Frame<'_>, screen: &Screen, area: Rect, panel: &Panel<'_, F>)
where
    F: Fn(&SelectableLine) -> Option<Row<'a>>,
{
    let (mut rows, mut chosen) = (Vec::new(), None);
    let choice = screen.chosen();
    for line in screen.lines() {
        let Some(shown) = (panel.row)(&line) else { continue };
        if choice.as_ref() == Some(&line) {
            chosen = Some(rows.len());
        }
        rows.push(shown);
    }
    let heading = format!("{} ({})", panel.heading, rows.len());
    let tone = if rows.is_empty() { Tone::Plain } else { panel.tone };
    let mut table = Table::new(rows, panel.widths.iter().copied())
        .block(title(screen, &heading, tone))
        .highlight_spacing(HighlightSpacing::Always)
        .highlight_symbol("> ")
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    if !panel.names.is_empty() {
        table = table.header(Row::new(panel.names.iter().copied()).style(Tone::Quiet.style(screen)));
    }
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(chosen));
}

fn asked_panel(frame: &mut Frame<'_>, screen: &Screen, area: Rect, now: Timestamp) {
    let row = |line: &SelectableLine| {
        let SelectableLine::Asked(at) = line else { return None };
        let one = screen.view.asked.get(*at)?;
        Some(Row::new([one.id.clone(), asked_words(one), format!("expires {}", ahead(&one.expires, now))]))
    };
    let widths = &[Constraint::Length(8), Constraint::Fill(1), Constraint::Length(17)];
    panel(frame, screen, area, &Panel { heading: "TO DECIDE", tone: Tone::Attention, names: &[], widths, row });
    if screen.looked && screen.view.asked.is_empty() {
        let text = Text::styled("  nothing waits for a decision", Tone::Quiet.style(screen));
        frame.render_widget(Paragraph::new(text), second_row(area));
    }
}

fn asked_words(one: &PromptView) -> String {
    let options = one.options.iter().enumerate().map(|(at, (label, _))| format!("{} {label}", at.saturating_add(1)));
    match one.kind {
        Kind::Approval => one.summary.clone(),
        Kind::Question => format!("{} [{}]", one.about, options.collect::<Vec<_>>().join(", ")),
    }
}

fn warning_panel(frame: &mut Frame<'_>, screen: &Screen, area: Rect) {
    let row = |line: &SelectableLine| {
        let SelectableLine::Warning(at) = line else { return None };
        Some(Row::new([screen.view.warnings.get(*at)?.clone()]))
    };
    let widths = &[Constraint::Fill(1)];
    panel(frame, screen, area, &Panel { heading: "PROBLEMS", tone: Tone::Bad, names: &[], widths, row });
}

fn session_panel(frame: &mut Frame<'_>, screen: &Screen, area: Rect, now: Timestamp) {
    let row = |line: &SelectableLine| {
        let SelectableLine::Session(at) = line else { return None };
        let one = screen.session(*at)?;
        let state = Cell::from(doing(one, now)).style(tone_of(one.state()).style(screen));
        let last = one.last.clone().unwrap_or_default();
        let ago = age(&one.active, now);
        let [agent, chat, last, ago] = [one.agent.clone(), one.chat.clone(), last, ago].map(Cell::from);
        Some(Row::new([agent, chat, state, last, ago]))
    };
    let names = &["AGENT", "CHAT", "STATE", "LAST MESSAGE", "AGE"];
    let widths =
        &[Constraint::Max(14), Constraint::Fill(3), Constraint::Fill(5), Constraint::Fill(4), Constraint::Length(7)];
    panel(
        frame,
        screen,
        area,
        &Panel { heading: "AGENTS AT WORK AND RECENT CHATS", tone: Tone::Plain, names, widths, row },
    );
}

const fn tone_of(state: SessionState) -> Tone {
    match state {
        SessionState::RateLimited | SessionState::Offline | SessionState::Queued | SessionState::Stopping => {
            Tone::Attention
        }
        SessionState::Failing => Tone::Bad,
        SessionState::Working | SessionState::Starting => Tone::Good,
        SessionState::Idle => Tone::Quiet,
    }
}

/// The state of a session, with an explanation.
pub(in crate::cli) fn doing(one: &SessionView, now: Timestamp) -> String {
    let state = one.state();
    let mut words = vec![state.word().to_owned()];
    match (state, &one.held_off) {
        (SessionState::RateLimited | SessionState::Offline, Some(until)) => {
            words.push(format!("next try {}", ahead(until, now)))
        }
        (SessionState::Failing, _) => words.push(format!("{} starts failed", one.failed_starts)),
        (SessionState::Working, _) => {
            words.extend(one.tool.as_ref().map(|tool| format!("uses {tool}")));
        }
        _ => {}
    }
    let says_more = !matches!(state, SessionState::RateLimited | SessionState::Offline);
    words.extend((one.due > 0 && says_more).then(|| format!("{} waiting", one.due)));
    words.join(", ")
}

fn task_panel(frame: &mut Frame<'_>, screen: &Screen, area: Rect, now: Timestamp) {
    let row = |line: &SelectableLine| {
        let SelectableLine::Task(at) = line else { return None };
        let one = screen.view.tasks.get(*at)?;
        let tone = match (one.running, one.paused) {
            (true, _) => Tone::Good,
            (false, true) => Tone::Attention,
            (false, false) => Tone::Plain,
        };
        let next = Cell::from(standing(one, now)).style(tone.style(screen));
        Some(Row::new([Cell::from(one.task.clone()), one.agent.clone().into(), next, one.prompt.clone().into()]))
    };
    let names = &["TASK", "AGENT", "NEXT RUN", "PROMPT"];
    let widths = &[Constraint::Length(8), Constraint::Max(14), Constraint::Length(14), Constraint::Fill(1)];
    panel(frame, screen, area, &Panel { heading: "TASKS", tone: Tone::Plain, names, widths, row });
}

/// The next run of a task, or why it does not run.
pub(in crate::cli) fn standing(one: &TaskView, now: Timestamp) -> String {
    match (&one.next, one.paused, one.running) {
        (_, _, true) => "running".to_owned(),
        (_, true, _) => "paused".to_owned(),
        (Some(next), ..) => ahead(next, now),
        (None, ..) => "done".to_owned(),
    }
}

fn lane(lane: &QueueView) -> Text<'_> {
    let why = lane.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    let chats = labels::count(lane.waiting, "chat waits", "chats wait");
    Text::from(format!("  {}: {} being sent, {chats}{why}", lane.channel, lane.under_way))
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

pub(super) fn age(then: &str, now: Timestamp) -> String {
    Timestamp::parse(then).map(|then| length(now.since(then))).unwrap_or_default()
}

fn ago(then: &str, now: Timestamp) -> String {
    format!("{} ({} ago)", human_time::local(then), age(then, now))
}

/// Time until an instant.
pub(super) fn ahead(then: &str, now: Timestamp) -> String {
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
