//! `hearth status --watch`: a live view with keys for actions. It reads the store beside the daemon and asks
//! the daemon only for what the store does not contain, so it keeps running while a daemon is being replaced.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Done, Failure, change, decide, print, tasks};
use crate::clock;
use crate::config::Paths;
use crate::model::configure::Change;
use crate::model::entity::Folder;
use crate::model::task_command::TaskCommand;

#[cfg(test)]
pub(super) mod ansi;
mod columns;
mod details;
mod draw;
pub(super) mod parts;
mod screen;
mod view;

pub(super) use columns::{columns, paragraph};
pub(super) use parts::{doing, standing};
use screen::{Command, Key, Screen, WatchAction};
pub(super) use view::{DaemonView, SessionView, TaskView, View, chat, collect, tasks};

/// Interval for reading the store.
const LOOK: Duration = Duration::from_secs(1);
/// Longest delay before new data is drawn or a signal is handled.
const DRAW: Duration = Duration::from_millis(100);

/// Shows the live view until the user quits or the reader of standard output is gone.
pub(super) fn watch(paths: &Paths, json: bool) -> Done {
    if json {
        return print_changes(paths);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::Failed(
            "--watch needs a terminal: here use `--watch --json`, which prints a line per change".to_owned(),
        ));
    }
    let asked = signals()?;
    let (again, waker) = channel();
    let (seen, views) = channel();
    let looking = paths.clone();
    std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || look_again_and_again(&looking, &seen, &waker))?;
    // This also restores the terminal if the program panics.
    let mut terminal = ratatui::try_init()?;
    let done = run(paths, &mut terminal, &views, &again, &asked);
    ratatui::try_restore()?;
    done
}

/// Installs signal handlers. The flag is set when a signal asks for the end.
fn signals() -> Result<Arc<AtomicBool>, Failure> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// Prints the view as a JSON line after each change, until the reader is gone.
fn print_changes(paths: &Paths) -> Done {
    let asked = signals()?;
    let (mut last, mut is_read): (Option<View>, bool) = (None, true);
    while is_read && !asked.load(Ordering::SeqCst) {
        let view = view::look(paths);
        if last.as_ref() != Some(&view) {
            print::json(&view)?;
            last = Some(view);
        }
        is_read = print::is_read_for(LOOK)?;
    }
    Ok(())
}

fn look_again_and_again(paths: &Paths, seen: &Sender<View>, waker: &Receiver<()>) {
    while seen.send(view::look(paths)).is_ok() {
        if waker.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

fn run(
    paths: &Paths,
    terminal: &mut DefaultTerminal,
    views: &Receiver<View>,
    again: &Sender<()>,
    asked: &AtomicBool,
) -> Done {
    let mut screen = Screen::default();
    screen.colours = print::coloured(&std::io::stdout());
    let mut drawn: Option<(Screen, i64)> = None;
    while !asked.load(Ordering::SeqCst) {
        let now = clock::wall();
        while let Ok(view) = views.try_recv() {
            screen.take(view, &now.to_string());
        }
        let size = terminal.size()?;
        screen.size = (size.width, size.height);
        // Ages change once a second.
        let second = now.millis().div_euclid(1_000);
        if drawn.as_ref().is_none_or(|(shown, at)| *shown != screen || *at != second) {
            terminal.draw(|frame| draw::draw(frame, &screen, now))?;
            drawn = Some((screen.clone(), second));
        }
        if is_hung_up_within(DRAW)? {
            return Ok(());
        }
        while event::poll(Duration::ZERO)? {
            match key(&event::read()?).and_then(|key| screen.press(key)) {
                None => {}
                Some(Command::Quit) => return Ok(()),
                Some(Command::Do(act)) => {
                    screen.note = Some(match perform(paths, act) {
                        Ok(told) => told,
                        Err(failure) => format!("not done: {}", words(&failure)),
                    });
                    // If the receiver is gone, the reading thread has ended, and there is nothing to refresh.
                    again.send(()).ok();
                }
            }
        }
    }
    Ok(())
}

/// Waits for keys for at most `time`. Returns whether the terminal is gone. Crossterm ignores the time limit and blocks
/// for ever if the terminal is gone.
fn is_hung_up_within(time: Duration) -> Result<bool, Failure> {
    let keys = std::io::stdin();
    let mut ends = [PollFd::new(&keys, PollFlags::IN)];
    let timeout = Timespec::try_from(time).ok();
    match poll(&mut ends, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(std::io::Error::from(error).into()),
    }
    let [end] = ends;
    Ok(end.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL))
}

fn key(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, .. }) = event else {
        return None;
    };
    let control = modifiers.contains(KeyModifiers::CONTROL);
    Some(match code {
        KeyCode::Char('c') if control => Key::Interrupt,
        KeyCode::Char(_) if control => return None,
        KeyCode::Char(c) => Key::Char(*c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Esc => Key::Escape,
        _ => return None,
    })
}

/// Performs an action in the same way as its command. Returns a message for the user.
fn perform(paths: &Paths, act: WatchAction) -> Result<String, Failure> {
    match act {
        WatchAction::Decide(id, value, _) => {
            let matter =
                id.parse().map_err(|_| Failure::Failed(format!("{id} is not the id of an approval or question")))?;
            let (_, text) = decide::submit(paths, matter, &value)?;
            Ok(format!("{id} {text}"))
        }
        WatchAction::RestartAgent(agent) => edit(paths, Change::RestartAgent(Folder::new(agent)?, None)),
        WatchAction::RestartSession(session, _) => edit(paths, Change::RestartSession(session.parse()?)),
        WatchAction::Pause(task) => Ok(format!("paused {}", tasks::submit(paths, TaskCommand::Pause(task.parse()?))?)),
        WatchAction::Resume(task) => {
            Ok(format!("resumed {}", tasks::submit(paths, TaskCommand::Resume(task.parse()?))?))
        }
    }
}

fn edit(paths: &Paths, edit: Change) -> Result<String, Failure> {
    let done = change::submit_edit(paths, edit)?;
    let told: Vec<String> = done.changes.iter().map(|one| format!("{} {}", one.action.as_str(), one.entity)).collect();
    Ok(if told.is_empty() {
        "nothing was running: queued messages are retried now".to_owned()
    } else {
        told.join(", ")
    })
}

fn words(failure: &Failure) -> String {
    failure.words().replace('\n', " ")
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use tests::view as sample;
