//! `hearth status --watch`: what happens, as it happens, with keys to act. It reads the store beside the daemon and asks
//! the daemon what only it knows, so it goes on while a daemon is being replaced.

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

use super::{Done, Failure, change, decide, out, tasks};
use crate::clock;
use crate::config::Paths;
use crate::socket::change::EditJson;
use crate::socket::task::TaskRequest;

mod draw;
mod screen;
mod view;

use screen::{Act, Command, Key, Screen};
use view::View;

/// Time between two looks at the store.
const LOOK: Duration = Duration::from_secs(1);
/// Longest time after which something new is drawn, and a signal is heeded.
const DRAW: Duration = Duration::from_millis(100);

/// Watches until somebody leaves, or as long as somebody reads.
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
    // It also puts the terminal back when this program panics.
    let mut terminal = ratatui::try_init()?;
    let done = run(paths, &mut terminal, (&views, &again), &asked);
    ratatui::try_restore()?;
    done
}

/// Whether the end was asked for by a signal.
fn signals() -> Result<Arc<AtomicBool>, Failure> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// A line for each thing that changed, until nobody reads any more.
fn print_changes(paths: &Paths) -> Done {
    let asked = signals()?;
    let (mut last, mut is_read): (Option<View>, bool) = (None, true);
    while is_read && !asked.load(Ordering::SeqCst) {
        let view = view::look(paths);
        if last.as_ref() != Some(&view) {
            out::json(&view)?;
            last = Some(view);
        }
        is_read = out::is_read_for(LOOK)?;
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
    (views, again): (&Receiver<View>, &Sender<()>),
    asked: &AtomicBool,
) -> Done {
    let mut screen = Screen::default();
    while !asked.load(Ordering::SeqCst) {
        let now = clock::wall();
        while let Ok(view) = views.try_recv() {
            screen.take(view, &now.to_string());
        }
        terminal.draw(|frame| draw::draw(frame, &screen, now))?;
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
                        Err(failure) => format!("not done: {}", words(failure)),
                    });
                    // What looks has ended if nobody hears this, and then nothing is new.
                    again.send(()).ok();
                }
            }
        }
    }
    Ok(())
}

/// Waits for keys, at most for `time`; whether the terminal is gone. Crossterm would read from one that is gone for ever,
/// whatever time it is given.
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

/// Does what the commands do, as they do it; what became of it.
fn perform(paths: &Paths, act: Act) -> Result<String, Failure> {
    match act {
        Act::Decide(id, value, _) => {
            let matter =
                id.parse().map_err(|_| Failure::Failed(format!("{id} is not the id of an approval or question")))?;
            let (_, text) = decide::submit(paths, matter, &value)?;
            Ok(format!("{id} {text}"))
        }
        Act::RestartAgent(agent) => edit(paths, EditJson::RestartAgent { agent, message: None }),
        Act::RestartSession(session, _) => edit(paths, EditJson::RestartSession { session }),
        Act::Pause(task) => Ok(format!("paused {}", tasks::submit(paths, TaskRequest::Pause { task })?)),
        Act::Resume(task) => Ok(format!("resumed {}", tasks::submit(paths, TaskRequest::Resume { task })?)),
    }
}

fn edit(paths: &Paths, edit: EditJson) -> Result<String, Failure> {
    let done = change::submit_edit(paths, edit)?;
    let told: Vec<String> = done.changes.iter().map(|one| format!("{} {}", one.action, one.entity)).collect();
    Ok(if told.is_empty() { "nothing of it ran: what waits is tried at once".to_owned() } else { told.join(", ") })
}

fn words(failure: Failure) -> String {
    match failure {
        Failure::Failed(what) | Failure::Changed(what) | Failure::Store(_, what) => what.replace('\n', " "),
        Failure::Told | Failure::Exit(_) => "see above".to_owned(),
    }
}

#[cfg(test)]
mod tests;
