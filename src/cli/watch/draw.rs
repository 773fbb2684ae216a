//! Drawing of the live view: a pure function of its state and the time.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Block, Borders, Cell, Clear, HighlightSpacing, Paragraph, Row, Table, TableState, Wrap};

use super::columns;
use super::details;
use super::parts::{self, age};
use super::screen::{Mode, Screen, SelectableLine};
use super::view::View;
use crate::cli::human_time;
use crate::cli::print::{self, Piece, Tone};
use crate::model::time::Timestamp;

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

fn style(tone: Tone, screen: &Screen) -> Style {
    let style = Style::new();
    match tone {
        Tone::Plain => style,
        Tone::Quiet => style.add_modifier(Modifier::DIM),
        _ if !screen.colours => style,
        Tone::Good => style.fg(Color::Green),
        Tone::Warning => style.fg(Color::Yellow),
        Tone::Bad => style.fg(Color::Red),
    }
}

fn span(piece: Piece, screen: &Screen) -> Span<'static> {
    let style = style(piece.tone, screen);
    Span::styled(
        print::plain(&piece.text).into_owned(),
        if piece.bold { style.add_modifier(Modifier::BOLD) } else { style },
    )
}

/// A row of texts that are cut to the columns of a table.
fn row<'a>(pieces: Vec<Piece>, columns: &[usize], screen: &Screen) -> Row<'a> {
    let cut = |(piece, column): (Piece, &usize)| {
        let text = columns::cut(&print::plain(&piece.text), *column);
        Cell::from(span(Piece { text, ..piece }, screen))
    };
    Row::new(pieces.into_iter().zip(columns).map(cut))
}

/// The mark of the chosen line in a table.
const MARK: &str = "> ";

/// Widths of a table's columns. A text that fits into one of these fits into the column that is drawn.
fn column_widths(area: Rect, columns: &[Constraint]) -> Vec<usize> {
    let fixed = |column: &Constraint| match column {
        Constraint::Length(width) | Constraint::Max(width) => Some(usize::from(*width)),
        _ => None,
    };
    let parts = |column: &Constraint| if let Constraint::Fill(parts) = column { usize::from(*parts) } else { 0 };
    let gaps = columns.len().saturating_sub(1);
    let taken = columns.iter().filter_map(fixed).sum::<usize>().saturating_add(gaps).saturating_add(MARK.len());
    let (rest, all) = (usize::from(area.width).saturating_sub(taken), columns.iter().map(parts).sum::<usize>().max(1));
    columns.iter().map(|column| fixed(column).unwrap_or_else(|| rest.saturating_mul(parts(column)) / all)).collect()
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
        let lines: Vec<_> = view.lanes.iter().map(|lane| Text::from(format!("  {}", parts::lane(lane)))).collect();
        let heading = parts::heading(parts::UNSENT, view.messages.undelivered, Tone::Plain);
        frame.render_widget(Paragraph::new(lines).block(title(screen, heading)), queues);
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

fn title<'a>(screen: &Screen, heading: Piece) -> Block<'a> {
    let heading = span(heading, screen);
    Block::new().borders(Borders::TOP).border_style(Style::new().add_modifier(Modifier::DIM)).title(Text::styled(
        format!(" {} ", heading.content),
        // The border's style would dim the title as well.
        heading.style.remove_modifier(Modifier::DIM),
    ))
}

fn headline(frame: &mut Frame<'_>, screen: &Screen, area: Rect, now: Timestamp) {
    let view = &screen.view;
    let told = match (&screen.absent_since, view) {
        _ if !screen.looked => Piece::plain("looking…".to_owned()).bold(),
        (Some(since), View { daemon: None, trouble: None, .. }) => {
            Piece::of(format!("not running since {}", ago(since, now)), Tone::Bad).bold()
        }
        _ => parts::headline(view),
    };
    let is_bad = told.tone == Tone::Bad;
    let told = span(told, screen);
    let style = if is_bad { told.style.add_modifier(Modifier::REVERSED) } else { told.style };
    let lines = vec![Text::styled(told.content, style), Text::from(parts::message_words(&view.messages))];
    frame.render_widget(Paragraph::new(lines), area);
    let numbers = parts::summary(view).map(|part| span(Piece { text: format!("   {}", part.text), ..part }, screen));
    let numbers = Paragraph::new(Text::from(numbers.to_vec())).alignment(Alignment::Right);
    frame.render_widget(numbers, second_row(area));
}

fn second_row(area: Rect) -> Rect {
    Rect { y: area.y.saturating_add(1), height: area.height.saturating_sub(1), ..area }
}

fn footline(screen: &Screen) -> Text<'_> {
    if screen.mode == Mode::Filter {
        return Text::from(format!("/{}_", screen.filter));
    }
    match (&screen.note, screen.filter.as_str()) {
        (Some(note), _) => Text::styled(note.as_str(), Style::new().add_modifier(Modifier::BOLD)),
        (None, "") => Text::styled(KEYS, style(Tone::Quiet, screen)),
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

fn panel<F>(frame: &mut Frame<'_>, screen: &Screen, area: Rect, panel: &Panel<'_, F>)
where
    F: Fn(&SelectableLine) -> Option<Vec<Piece>>,
{
    let (mut rows, mut chosen) = (Vec::new(), None);
    let columns = column_widths(area, panel.widths);
    let choice = screen.chosen();
    for line in screen.lines() {
        let Some(pieces) = (panel.row)(&line) else { continue };
        if choice.as_ref() == Some(&line) {
            chosen = Some(rows.len());
        }
        rows.push(row(pieces, &columns, screen));
    }
    let heading = parts::heading(panel.heading, rows.len(), panel.tone);
    let mut table = Table::new(rows, panel.widths.iter().copied())
        .block(title(screen, heading))
        .highlight_spacing(HighlightSpacing::Always)
        .highlight_symbol(MARK)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    if !panel.names.is_empty() {
        table = table.header(Row::new(panel.names.iter().copied()).style(style(Tone::Quiet, screen)));
    }
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(chosen));
}

fn asked_panel(frame: &mut Frame<'_>, screen: &Screen, area: Rect, now: Timestamp) {
    let line = |line: &SelectableLine| {
        let SelectableLine::Asked(at) = line else { return None };
        Some(parts::asked(screen.view.asked.get(*at)?, now).to_vec())
    };
    let widths = &[Constraint::Length(8), Constraint::Fill(1), Constraint::Length(17)];
    panel(frame, screen, area, &Panel { heading: parts::ASKED, tone: Tone::Warning, names: &[], widths, row: line });
    if screen.looked && screen.view.asked.is_empty() {
        let text = Text::styled("  nothing waits for a decision", style(Tone::Quiet, screen));
        frame.render_widget(Paragraph::new(text), second_row(area));
    }
}

fn warning_panel(frame: &mut Frame<'_>, screen: &Screen, area: Rect) {
    let row = |line: &SelectableLine| {
        let SelectableLine::Warning(at) = line else { return None };
        Some(vec![Piece::plain(screen.view.warnings.get(*at)?.clone())])
    };
    let widths = &[Constraint::Fill(1)];
    panel(frame, screen, area, &Panel { heading: parts::PROBLEMS, tone: Tone::Bad, names: &[], widths, row });
}

fn session_panel(frame: &mut Frame<'_>, screen: &Screen, area: Rect, now: Timestamp) {
    let line = |line: &SelectableLine| {
        let SelectableLine::Session(at) = line else { return None };
        Some(parts::session(screen.session(*at)?, screen.view.daemon.is_some(), now).to_vec())
    };
    let widths =
        &[Constraint::Max(14), Constraint::Fill(3), Constraint::Fill(5), Constraint::Fill(4), Constraint::Length(7)];
    let (heading, names) = (parts::SESSIONS, parts::SESSION_NAMES);
    panel(frame, screen, area, &Panel { heading, tone: Tone::Plain, names, widths, row: line });
}

fn task_panel(frame: &mut Frame<'_>, screen: &Screen, area: Rect, now: Timestamp) {
    let line = |line: &SelectableLine| {
        let SelectableLine::Task(at) = line else { return None };
        Some(parts::task(screen.view.tasks.get(*at)?, now).to_vec())
    };
    let widths = &[Constraint::Length(8), Constraint::Max(14), Constraint::Length(14), Constraint::Fill(1)];
    let (heading, names) = (parts::TASKS, parts::TASK_NAMES);
    panel(frame, screen, area, &Panel { heading, tone: Tone::Plain, names, widths, row: line });
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

fn ago(then: &str, now: Timestamp) -> String {
    format!("{} ({} ago)", human_time::local(then), age(then, now))
}
