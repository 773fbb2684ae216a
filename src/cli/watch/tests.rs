//! Tests of the live view: keys, actions and drawing.

use ratatui::backend::{CrosstermBackend, TestBackend};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

use super::draw::rows;
use super::screen::{Command, Key, Mode, Screen, WatchAction};
use super::view::{DaemonView, Kind, Messages, PromptView, QueueView, SessionView, TaskView, View};
use crate::cli::print::Tone;
use crate::model::rate_limit::LimitCause;
use crate::model::time::Timestamp;

const NOW: &str = "2026-05-01T12:00:00.000Z";

fn session(session: &str, incarnation: Option<u32>) -> SessionView {
    SessionView {
        session: session.into(),
        agent: "main".into(),
        chat: "Family (telegram)".into(),
        active: "2026-05-01T11:56:00.000Z".into(),
        last: Some("what is for dinner?".into()),
        last_failed: false,
        incarnation,
        phase: if incarnation.is_some() { "running" } else { "waiting" }.into(),
        phase_words: if incarnation.is_some() { "running" } else { "waiting" }.into(),
        started: incarnation.map(|_| "2026-05-01T11:57:55.000Z".into()),
        tool: incarnation.map(|_| "Bash".into()),
        due: 2,
        claimed: usize::from(incarnation.is_some()),
        failed_starts: 0,
        held_off: None,
        held_off_because: None,
    }
}

fn task(task: &str, paused: bool) -> TaskView {
    TaskView {
        task: task.into(),
        agent: "family".into(),
        paused,
        running: false,
        next: Some("2026-05-02T08:00:00.000Z".into()),
        prompt: "Say good morning".into(),
    }
}

/// Something of everything.
pub(in crate::cli) fn view() -> View {
    let asked = |id: &str, kind, about: &str, options: &[&str]| PromptView {
        id: id.into(),
        kind,
        about: about.into(),
        summary: about.into(),
        options: options.iter().map(|option| ((*option).to_owned(), option.to_lowercase())).collect(),
        expires: "2026-05-01T13:30:00.000Z".into(),
    };
    View {
        daemon: Some(DaemonView {
            pid: 77,
            version: "0.1.0".into(),
            runtime: "process".into(),
            draining: false,
            queued: 3,
            terminals: 1,
        }),
        trouble: None,
        messages: Messages { due: 4, claimed: 1, backing_off: 1, scheduled: 0, undelivered: 5 },
        sessions: vec![
            session("se1", Some(4)),
            session("se2", None),
            SessionView { failed_starts: 3, ..session("se3", None) },
            SessionView {
                held_off: Some("2026-05-01T12:10:00.000Z".into()),
                held_off_because: Some(LimitCause::Unreachable),
                agent: "ops".into(),
                ..session("se4", None)
            },
        ],
        recent: vec![SessionView {
            chat: "terminal/@0".into(),
            phase: "idle".into(),
            due: 0,
            last: None,
            ..session("se9", None)
        }],
        lanes: vec![QueueView {
            channel: "telegram".into(),
            under_way: 1,
            waiting: 2,
            why: Some("429: slow down".into()),
        }],
        asked: vec![
            asked("ap3", Kind::Approval, "telegram:5 (Ann) wants to talk to main in telegram/5", &[]),
            asked("qu7", Kind::Question, "Deploy: now?", &["Yes", "No"]),
        ],
        tasks: vec![task("ta1", false), task("ta2", true)],
        warnings: vec!["channel telegram is down: no network".into()],
    }
}

fn screen() -> Screen {
    let mut screen = Screen::default();
    screen.size = (110, 30);
    screen.take(view(), NOW);
    screen
}

fn in_mode(mode: Mode) -> Screen {
    let mut screen = screen();
    screen.mode = mode;
    screen
}

fn drawn(screen: &Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let now = Timestamp::parse(NOW).unwrap();
    terminal.draw(|frame| super::draw::draw(frame, screen, now)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn the_screen_with_something_of_everything() {
    insta::assert_snapshot!(drawn(&screen(), 110, 30));
}

#[test]
fn the_screen_uses_at_most_8_colours_each_with_a_word() {
    ratatui::crossterm::style::force_color_output(true);
    let mut view = view();
    view.tasks[0].running = true;
    let mut screen = screen();
    (screen.colours, screen.size) = (true, (200, 40));
    screen.take(view, NOW);
    let mut written = Vec::new();
    let viewport = Viewport::Fixed(Rect::new(0, 0, 200, 40));
    let mut terminal =
        Terminal::with_options(CrosstermBackend::new(&mut written), TerminalOptions { viewport }).unwrap();
    let now = Timestamp::parse(NOW).unwrap();
    terminal.draw(|frame| super::draw::draw(frame, &screen, now)).unwrap();
    drop(terminal);
    super::ansi::assert_colours_have_words(&String::from_utf8(written).unwrap());
}

#[test]
fn screens_of_any_size_are_drawn() {
    insta::assert_snapshot!(drawn(&screen(), 60, 16));
    for (width, height) in [(1, 1), (10, 3), (20, 8), (300, 100)] {
        for mode in [Mode::Browse, Mode::Filter, Mode::Help, Mode::Confirm(WatchAction::RestartAgent("main".into()))] {
            drawn(&in_mode(mode), width, height);
        }
    }
}

/// A text that is cut looks complete otherwise, and runs into the next column.
#[test]
fn texts_that_do_not_fit_end_with_an_ellipsis() {
    let long = "a text that is much longer than any column of a screen ".repeat(8);
    let mut view = view();
    view.warnings = vec![long.clone()];
    view.asked[0].summary.clone_from(&long);
    view.sessions[0].last = Some(long.clone());
    view.tasks[0].prompt = long;
    for width in [60, 80, 100, 131, 200] {
        let mut screen = Screen::default();
        screen.size = (width, 40);
        screen.take(view.clone(), NOW);
        let text = drawn(&screen, width, 40);
        assert_eq!(text.lines().filter(|line| line.contains("a text") && line.contains('…')).count(), 4, "{text}");
    }
}

#[test]
fn a_session_whose_last_message_failed_says_so_unless_something_waits() {
    let now = Timestamp::parse(NOW).unwrap();
    let failed = SessionView { last_failed: true, due: 0, ..session("se1", None) };
    let words = |one: &SessionView| {
        let state = &super::parts::session(one, true, now)[2];
        (state.text.clone(), state.tone)
    };
    assert_eq!(words(&failed), ("last message failed".to_owned(), Tone::Bad));
    assert_eq!(words(&SessionView { due: 1, ..failed.clone() }).0, "queued, 1 waiting");
    assert_eq!(words(&SessionView { last_failed: false, ..failed }).0, "idle");
}

#[test]
fn rows_are_divided_exactly_and_shrink_tasks_first() {
    // Exactly: the layout solver would otherwise violate one of its constraints at random.
    for height in 0..60 {
        assert_eq!(rows(&view(), height).iter().sum::<u16>(), height);
    }
    let [_, asked, _, sessions, tasks, _, foot] = rows(&view(), 12);
    assert!(asked > 1 && sessions == 4 && tasks < 2 && foot == 1);
}

#[test]
fn a_daemon_that_went_away_is_said_to_have_and_one_that_comes_back_is_shown() {
    let mut screen = screen();
    screen.take(View { daemon: None, ..view() }, "2026-05-01T11:59:00.000Z");
    screen.take(View { daemon: None, ..view() }, "2026-05-01T11:59:30.000Z");
    let text = drawn(&screen, 100, 20);
    let since = crate::cli::human_time::local("2026-05-01T11:59:00.000Z");
    assert!(text.contains(&format!("not running since {since} (1m00s ago)")), "{text}");
    screen.take(view(), NOW);
    assert!(drawn(&screen, 100, 20).contains("hearth 0.1.0 is running"));
    let mut never = Screen::default();
    let text = drawn(&never, 100, 20);
    assert!(text.contains("looking…") && !text.contains("no daemon is running"), "nothing is known yet: {text}");
    never.take(View::default(), NOW);
    assert!(drawn(&never, 100, 20).contains("no daemon is running"));
    never.take(View { trouble: Some("the store is newer".into()), ..View::default() }, NOW);
    assert!(drawn(&never, 100, 20).contains("the store is newer"));
}

#[test]
fn help_and_questions_lie_over_everything() {
    let mut screen = screen();
    screen.press(Key::Char('?'));
    insta::assert_snapshot!("help", drawn(&screen, 110, 24));
    screen.press(Key::Char('x'));
    for key in [Key::Tab, Key::Tab, Key::Char('k')] {
        screen.press(key);
    }
    insta::assert_snapshot!("sure", drawn(&screen, 80, 20));
}

/// Effects of keys, starting with a fresh screen.
#[test]
fn keys_lead_to_acts() {
    let down = |times: usize, keys: &str| -> Vec<Key> {
        std::iter::repeat_n(Key::Down, times).chain(keys.chars().map(Key::Char)).collect()
    };
    let decide = |id: &str, value: &str| Some((id.to_owned(), value.to_owned()));
    for (at, keys, expected) in [
        (0, "ay", decide("ap3", "approve")),
        (0, "ry", decide("ap3", "reject")),
        (0, "an", None),
        (0, "1y", None),
        (1, "2y", decide("qu7", "no")),
        (1, "3y", None),
        (1, "ay", None),
        (3, "ay", None),
        (3, "Ry", decide("agent", "main")),
        (3, "ky", decide("session", "se1")),
        (3, "kxy", decide("session", "se1")),
        (3, "wy", None),
        (4, "ky", None),
        (4, "wy", None),
        (5, "wy", decide("session", "se3")),
        (6, "wy", decide("agent", "ops")),
        (8, "py", decide("pause", "ta1")),
        (9, "py", decide("resume", "ta2")),
        (9, "Ry", decide("agent", "family")),
        (3, "py", None),
        (2, "ay", None),
        (7, "ky", None),
        (0, "z", None),
        (100, "py", decide("resume", "ta2")),
    ] {
        let mut screen = screen();
        let did = down(at, keys).into_iter().filter_map(|key| screen.press(key)).last();
        let did = did.map(|command| match command {
            Command::Do(WatchAction::Decide(id, value, _)) => (id, value),
            Command::Do(WatchAction::RestartAgent(agent)) => ("agent".to_owned(), agent),
            Command::Do(WatchAction::RestartSession(session, _)) => ("session".to_owned(), session),
            Command::Do(WatchAction::Pause(task)) => ("pause".to_owned(), task),
            Command::Do(WatchAction::Resume(task)) => ("resume".to_owned(), task),
            Command::Quit => ("quit".to_owned(), String::new()),
        });
        assert_eq!(did, expected, "{at} {keys}");
        assert!(expected.is_some() || screen.note.is_some(), "{at} {keys}: nothing was said");
    }
}

/// An approval must be fully visible, even if the screen has shrunk since.
#[test]
fn nothing_is_approved_of_which_a_part_is_hidden() {
    let long = |lines: usize| {
        let mut screen = screen();
        screen.view.asked[0].about =
            (0..lines).map(|n| format!("argument {n}: \"{}\"", "x".repeat(50))).collect::<Vec<_>>().join("\n");
        screen
    };
    let mut fits = long(24);
    fits.press(Key::Char('a'));
    let shown = drawn(&fits, 110, 30);
    for n in 0..24 {
        assert!(shown.contains(&format!("argument {n}: ")), "{n}: {shown}");
    }
    let mut shrunk = fits.clone();
    assert!(matches!(fits.press(Key::Char('y')), Some(Command::Do(WatchAction::Decide(..)))));
    shrunk.size = (40, 30);
    assert_eq!(shrunk.press(Key::Char('y')), None);
    let why = "ap3 is too long for this screen: `hearth approvals show ap3` shows all of it";
    assert_eq!(shrunk.note.as_deref(), Some(why));
    let mut too_long = long(27);
    assert_eq!((too_long.press(Key::Char('a')), too_long.note.as_deref()), (None, Some(why)));
    too_long.press(Key::Char('r'));
    assert!(
        matches!(too_long.press(Key::Char('y')), Some(Command::Do(WatchAction::Decide(_, value, _))) if value == "reject")
    );
}

/// Enter shows the whole line, and the keys for actions still work there.
#[test]
fn enter_shows_everything_about_a_line() {
    let mut screen = screen();
    for (steps, expected) in [
        (0, ["telegram:5 (Ann) wants to talk", "a approves, r rejects", "hearth approvals show ap3"]),
        (1, ["1  Yes", "2  No", "a number answers"]),
        (1, ["channel telegram is down: no network", "hearth doctor", "Problem"]),
        (1, ["chat: Family (telegram)", "last message: what is for dinner?", "run 4: running, started 2m05s ago"]),
        (5, ["next run: in 20h00m", "prompt: Say good morning", "hearth tasks history ta1"]),
    ] {
        for _ in 0..steps {
            screen.press(Key::Down);
        }
        assert_eq!(screen.press(Key::Enter), None);
        let text = drawn(&screen, 100, 30);
        for part in expected {
            assert!(text.contains(part), "{part}: {text}");
        }
        screen.press(Key::Escape);
        assert_eq!(screen.mode, Mode::Browse);
    }
    screen.press(Key::Enter);
    screen.press(Key::Char('p'));
    assert_eq!(screen.mode, Mode::Confirm(WatchAction::Pause("ta1".into())));
}

#[test]
fn quitting_works_everywhere() {
    for mode in [Mode::Browse, Mode::Filter, Mode::Help, Mode::Confirm(WatchAction::Pause("ta1".into()))] {
        assert_eq!(in_mode(mode).press(Key::Interrupt), Some(Command::Quit));
    }
    assert_eq!(screen().press(Key::Char('q')), Some(Command::Quit));
    // In the filter, the key is a letter.
    let mut filtered = screen();
    for key in [Key::Char('/'), Key::Char('q')] {
        assert_eq!(filtered.press(key), None);
    }
    assert_eq!(filtered.filter, "q");
}

#[test]
fn a_filter_leaves_lines_out_and_the_choice_is_one_of_the_rest() {
    let mut screen = screen();
    screen.press(Key::Char('/'));
    for c in "FAM ta".chars() {
        screen.press(Key::Char(c));
    }
    screen.press(Key::Enter);
    assert_eq!(screen.lines().len(), 2);
    assert_eq!(screen.press(Key::Char('p')), None);
    assert_eq!(screen.mode, Mode::Confirm(WatchAction::Pause("ta1".into())));
    screen.press(Key::Escape);
    screen.press(Key::Escape);
    assert_eq!((screen.filter.as_str(), screen.lines().len()), ("", 10));
    screen.press(Key::Char('/'));
    screen.press(Key::Char('x'));
    screen.press(Key::Backspace);
    screen.press(Key::Escape);
    assert_eq!(screen.mode, Mode::Browse);
}

/// The selection is stable while other lines come and go. If its line vanishes, the line at its position is selected.
#[test]
fn the_choice_follows_its_line() {
    let mut screen = screen();
    for key in [Key::Tab, Key::Tab, Key::Down] {
        screen.press(key);
    }
    let mut other = view();
    other.sessions.remove(0);
    screen.take(other.clone(), NOW);
    assert_eq!(screen.chosen(), Some(super::screen::SelectableLine::Session(0)));
    other.sessions.remove(0);
    screen.take(other, NOW);
    screen.press(Key::Char('w'));
    assert!(
        matches!(&screen.mode, Mode::Confirm(WatchAction::RestartSession(session, _)) if session == "se3"),
        "{screen:?}"
    );
    screen.take(View::default(), NOW);
    screen.press(Key::Char('n'));
    assert_eq!(screen.chosen(), None);
    screen.press(Key::Char('k'));
    assert_eq!(screen.note.as_deref(), Some("choose a line first"));
}

#[test]
fn tab_goes_from_panel_to_panel() {
    let mut screen = screen();
    let chosen = |screen: &Screen| screen.chosen();
    use super::screen::SelectableLine::{Asked, Session, Task, Warning};
    for (key, expected) in [
        (Key::Tab, Warning(0)),
        (Key::Tab, Session(0)),
        (Key::Tab, Task(0)),
        (Key::Tab, Asked(0)),
        (Key::BackTab, Task(0)),
        (Key::BackTab, Session(0)),
        (Key::End, Task(1)),
        (Key::Home, Asked(0)),
        (Key::PageDown, Task(1)),
        (Key::PageUp, Asked(0)),
        (Key::Up, Asked(0)),
    ] {
        screen.press(key);
        assert_eq!(chosen(&screen), Some(expected), "{key:?}");
    }
}

/// Foreign names, texts and errors appear everywhere on the screen.
#[test]
fn strangers_do_not_command_the_screen() {
    let evil = "\u{1b}]0;gone\u{7}\u{9b}2J\r\n\u{202e}Ann\u{2066}\u{8}";
    let mut view = view();
    view.asked[0].summary = evil.to_owned();
    view.asked[1].options[0].0 = evil.to_owned();
    view.lanes[0].why = Some(evil.to_owned());
    view.sessions[0].tool = Some(evil.to_owned());
    view.sessions[1].chat = evil.to_owned();
    view.sessions[1].last = Some(evil.to_owned());
    view.tasks[0].prompt = evil.to_owned();
    view.warnings.push(evil.to_owned());
    let mut screens = [Screen::default(), Screen::default(), Screen::default()];
    screens[0].take(View { daemon: None, trouble: Some(evil.to_owned()), ..view.clone() }, NOW);
    screens[1].take(view.clone(), NOW);
    screens[1].note = Some(evil.to_owned());
    screens[2].take(view, NOW);
    let mut details = screens[1].clone();
    details.mode = Mode::Details;
    screens[2].mode = Mode::Confirm(WatchAction::Decide("ap3".into(), "approve".into(), format!("approve {evil}")));
    for screen in screens.into_iter().chain([details]) {
        let drawn = drawn(&screen, 200, 40);
        assert!(drawn.contains("Ann") && drawn.chars().all(crate::cli::print::is_harmless), "{drawn:?}");
    }
}
