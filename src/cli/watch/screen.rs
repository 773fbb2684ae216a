//! State of the live view, and the effect of keys on it. Independent of terminal, store and clock.

use super::draw::{popup_width, wrapped};
use super::view::{Kind, SessionView, View};

/// A key with a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    BackTab,
    Enter,
    Backspace,
    Escape,
    /// Ctrl-C.
    Interrupt,
}

/// An action, which uses the same inputs as the commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WatchAction {
    /// Answers an approval or question: id, value, label.
    Decide(String, String, String),
    /// Ends all incarnations of an agent and its waits.
    RestartAgent(String),
    /// Ends the incarnation of a session, or its wait. The second field is the confirmation question.
    RestartSession(String, String),
    Pause(String),
    Resume(String),
}

impl WatchAction {
    /// The question that the user confirms.
    pub(super) fn question(&self) -> String {
        match self {
            Self::Decide(id, _, label) => format!("{id}: {label}"),
            Self::RestartAgent(agent) => {
                format!(
                    "Restart {agent}? All its runs end now, their messages are requeued, and its backoffs are cancelled."
                )
            }
            Self::RestartSession(_, what) => what.clone(),
            Self::Pause(task) => format!("Pause {task}?"),
            Self::Resume(task) => format!("Resume {task}?"),
        }
    }

    /// The lines of the confirmation popup, on a screen of this width.
    pub(super) fn asked(&self, columns: u16) -> Vec<String> {
        let (_, inner) = popup_width(columns);
        let mut lines = wrapped(&self.question(), inner);
        lines.extend(["".to_owned(), "y does it, n does not".to_owned()]);
        lines
    }

    /// Whether the whole question fits on a screen of this size.
    fn is_whole_on(&self, columns: u16, rows: u16) -> bool {
        self.asked(columns).len().saturating_add(2) <= usize::from(rows)
    }
}

/// Effect of a key outside the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Do(WatchAction),
}

/// Input mode, which determines the meaning of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Browse,
    /// The filter is being typed.
    Filter,
    Help,
    /// Shows everything about the selected line.
    Details,
    /// Waits for a confirmation.
    Confirm(WatchAction),
}

/// A selectable line, by its subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SelectableLine {
    /// Index into the view's open approvals and questions.
    Asked(usize),
    Warning(usize),
    /// Index into all sessions of the view.
    Session(usize),
    Task(usize),
}

/// Everything that is drawn, except the time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) view: View,
    /// Whether the store was read at least once.
    pub(super) looked: bool,
    /// Since when no daemon runs, if the view noticed its end.
    pub(super) absent_since: Option<String>,
    pub(super) mode: Mode,
    pub(super) filter: String,
    /// Result of the last action, or why a key did nothing.
    pub(super) note: Option<String>,
    /// Columns and rows.
    pub(super) size: (u16, u16),
    /// Whether the terminal shows colours.
    pub(super) colours: bool,
    /// Subject of the selected line. It keeps the selection stable while lines come and go.
    chosen: Option<String>,
    /// Last position of the selection.
    place: usize,
}

impl Screen {
    /// Applies new data. `now` is the time as text.
    pub(super) fn take(&mut self, view: View, now: &str) {
        match (&view.daemon, &self.view.daemon) {
            (Some(_), _) => self.absent_since = None,
            (None, Some(_)) => self.absent_since = Some(now.to_owned()),
            (None, None) => {}
        }
        self.view = view;
        self.looked = true;
        self.settle();
    }

    /// Selectable lines, in screen order.
    pub(super) fn lines(&self) -> Vec<SelectableLine> {
        let view = &self.view;
        let asked = (0..view.asked.len()).map(SelectableLine::Asked);
        let warnings = (0..view.warnings.len()).map(SelectableLine::Warning);
        let sessions = (0..view.all_sessions().count()).map(SelectableLine::Session);
        let tasks = (0..view.tasks.len()).map(SelectableLine::Task);
        asked.chain(warnings).chain(sessions).chain(tasks).filter(|line| self.matches(line)).collect()
    }

    /// The selected line.
    pub(super) fn chosen(&self) -> Option<SelectableLine> {
        let chosen = self.chosen.as_ref()?;
        self.lines().into_iter().find(|line| self.id(line).as_ref() == Some(chosen))
    }

    /// A session by its index among all.
    pub(super) fn session(&self, at: usize) -> Option<&SessionView> {
        self.view.all_sessions().nth(at)
    }

    fn matches(&self, line: &SelectableLine) -> bool {
        let words = self.words(line).unwrap_or_default().to_lowercase();
        self.filter.to_lowercase().split_whitespace().all(|word| words.contains(word))
    }

    fn words(&self, line: &SelectableLine) -> Option<String> {
        Some(match line {
            SelectableLine::Asked(at) => {
                let one = self.view.asked.get(*at)?;
                format!("{} {}", one.id, one.about)
            }
            SelectableLine::Warning(at) => self.view.warnings.get(*at)?.clone(),
            SelectableLine::Session(at) => {
                let one = self.session(*at)?;
                let last = one.last.as_deref().unwrap_or_default();
                format!("{} {} {} {} {last}", one.session, one.agent, one.chat, one.state().word())
            }
            SelectableLine::Task(at) => {
                let one = self.view.tasks.get(*at)?;
                format!("{} {} {}", one.task, one.agent, one.prompt)
            }
        })
    }

    fn id(&self, line: &SelectableLine) -> Option<String> {
        Some(match line {
            SelectableLine::Asked(at) => self.view.asked.get(*at)?.id.clone(),
            SelectableLine::Warning(at) => self.view.warnings.get(*at)?.clone(),
            SelectableLine::Session(at) => self.session(*at)?.session.clone(),
            SelectableLine::Task(at) => self.view.tasks.get(*at)?.task.clone(),
        })
    }

    /// Keeps the selection if its line still exists. Otherwise selects the line now at its position.
    fn settle(&mut self) {
        let lines = self.lines();
        let at = lines.iter().position(|line| self.id(line) == self.chosen);
        self.choose(&lines, at.unwrap_or(self.place));
    }

    fn choose(&mut self, lines: &[SelectableLine], at: usize) {
        self.place = at.min(lines.len().saturating_sub(1));
        self.chosen = lines.get(self.place).and_then(|line| self.id(line));
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: Key) -> Option<Command> {
        if key == Key::Interrupt {
            return Some(Command::Quit);
        }
        match std::mem::take(&mut self.mode) {
            Mode::Browse => self.browse(key),
            Mode::Help => None,
            Mode::Details => match key {
                Key::Escape | Key::Enter | Key::Char('q') => None,
                _ => self.browse(key),
            },
            Mode::Filter => {
                self.type_filter(key);
                None
            }
            Mode::Confirm(act) => match key {
                Key::Char('y' | 'Y') => match self.is_whole(act) {
                    Ok(act) => Some(Command::Do(act)),
                    Err(why) => {
                        self.note = Some(why);
                        None
                    }
                },
                Key::Char('n' | 'N' | 'q') | Key::Escape => {
                    self.note = Some("cancelled".to_owned());
                    None
                }
                // Any other key may be an accident and is ignored.
                _ => {
                    self.mode = Mode::Confirm(act);
                    None
                }
            },
        }
    }

    fn type_filter(&mut self, key: Key) {
        self.mode = Mode::Filter;
        match key {
            Key::Enter => self.mode = Mode::Browse,
            Key::Escape => {
                self.filter.clear();
                self.mode = Mode::Browse;
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(c) => self.filter.push(c),
            _ => {}
        }
        self.settle();
    }

    fn browse(&mut self, key: Key) -> Option<Command> {
        self.note = None;
        let lines = self.lines();
        match key {
            Key::Char('q') => return Some(Command::Quit),
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Escape => {
                self.filter.clear();
                self.settle();
            }
            Key::Up => self.choose(&lines, self.place.saturating_sub(1)),
            Key::Down => self.choose(&lines, self.place.saturating_add(1)),
            Key::PageUp => self.choose(&lines, self.place.saturating_sub(10)),
            Key::PageDown => self.choose(&lines, self.place.saturating_add(10)),
            Key::Home => self.choose(&lines, 0),
            Key::End => self.choose(&lines, usize::MAX),
            Key::Tab => self.jump(&lines, true),
            Key::BackTab => self.jump(&lines, false),
            Key::Char(c) => self.ask_for(c),
            Key::Enter if self.chosen().is_some() => self.mode = Mode::Details,
            Key::Enter | Key::Backspace | Key::Interrupt => {}
        }
        None
    }

    /// Moves the selection to the first line of the next or previous panel.
    fn jump(&mut self, lines: &[SelectableLine], ahead: bool) {
        let mut starts: Vec<usize> = Vec::new();
        let mut last = None;
        for (at, line) in lines.iter().enumerate() {
            let panel = std::mem::discriminant(line);
            if last.replace(panel) != Some(panel) {
                starts.push(at);
            }
        }
        let now = starts.iter().rposition(|start| *start <= self.place).unwrap_or(0);
        let count = starts.len().max(1);
        let next = if ahead { now.saturating_add(1) } else { now.saturating_add(count.saturating_sub(1)) } % count;
        self.choose(lines, starts.get(next).copied().unwrap_or(0));
    }

    /// Handles an action key for the selected line: asks for a confirmation, or explains why it is not possible.
    fn ask_for(&mut self, key: char) {
        if !"arRkwp123456789".contains(key) {
            self.note = Some(format!("`{key}` does nothing: ? shows the keys"));
            return;
        }
        let act = match self.chosen() {
            None => Err("choose a line first".to_owned()),
            Some(line) => self.act(key, &line),
        };
        match act {
            Ok(act) => self.mode = Mode::Confirm(act),
            Err(why) => self.note = Some(why),
        }
    }

    /// Rejects an approval of which a part would be hidden.
    fn is_whole(&self, act: WatchAction) -> Result<WatchAction, String> {
        match &act {
            WatchAction::Decide(id, ..) if !act.is_whole_on(self.size.0, self.size.1) => {
                Err(format!("{id} is too long for this screen: `hearth approvals show {id}` shows all of it"))
            }
            _ => Ok(act),
        }
    }

    fn act(&self, key: char, line: &SelectableLine) -> Result<WatchAction, String> {
        let not_here = |what: &str| Err(format!("`{key}` is for {what}"));
        match (key, line) {
            ('a' | 'r' | '1'..='9', SelectableLine::Asked(at)) => self.decide(key, *at),
            ('a' | 'r', _) => not_here("approvals"),
            ('1'..='9', _) => not_here("questions"),
            ('R' | 'k' | 'w', SelectableLine::Session(at)) => self.restart(key, *at),
            ('R', SelectableLine::Task(at)) => {
                let task = self.view.tasks.get(*at).ok_or("it no longer exists")?;
                Ok(WatchAction::RestartAgent(task.agent.clone()))
            }
            ('R' | 'k' | 'w', _) => not_here("sessions"),
            ('p', SelectableLine::Task(at)) => {
                let task = self.view.tasks.get(*at).ok_or("it no longer exists")?;
                let id = task.task.clone();
                Ok(if task.paused { WatchAction::Resume(id) } else { WatchAction::Pause(id) })
            }
            _ => not_here("tasks"),
        }
    }

    fn decide(&self, key: char, at: usize) -> Result<WatchAction, String> {
        let asked = self.view.asked.get(at).ok_or("it no longer exists")?;
        let id = asked.id.clone();
        match (asked.kind, key) {
            (Kind::Approval, 'a') => {
                self.is_whole(WatchAction::Decide(id, "approve".to_owned(), format!("approve?\n{}", asked.about)))
            }
            (Kind::Approval, 'r') => {
                Ok(WatchAction::Decide(id, "reject".to_owned(), format!("reject?\n{}", asked.summary)))
            }
            (Kind::Approval, _) => Err(format!("{id} is an approval: `a` or `r`")),
            (Kind::Question, number) => {
                let nth = number.to_digit(10).and_then(|nth| usize::try_from(nth).ok()?.checked_sub(1));
                let chosen = nth.and_then(|nth| asked.options.get(nth));
                let (label, value) = chosen
                    .ok_or_else(|| format!("{id} is a question: choose by number, 1 to {}", asked.options.len()))?;
                Ok(WatchAction::Decide(id, value.clone(), format!("answer “{label}”?")))
            }
        }
    }

    fn restart(&self, key: char, at: usize) -> Result<WatchAction, String> {
        let one = self.session(at).ok_or("it no longer exists")?;
        let (session, agent) = (one.session.clone(), &one.agent);
        match (key, one.incarnation) {
            ('R', _) => Ok(WatchAction::RestartAgent(agent.clone())),
            ('k', Some(number)) => {
                let what = format!("End {session}.{number} of {agent} now? Its messages are requeued.");
                Ok(WatchAction::RestartSession(session, what))
            }
            ('k', None) => Err(format!("nothing runs in {session}")),
            (_, _) if one.held_off.is_some() => Ok(WatchAction::RestartAgent(agent.clone())),
            (_, _) if one.failed_starts > 0 => {
                let what = format!("Cancel the backoff of {session} of {agent}, and start it now?");
                Ok(WatchAction::RestartSession(session, what))
            }
            (_, _) => Err(format!("{session} has no backoff to cancel")),
        }
    }
}
