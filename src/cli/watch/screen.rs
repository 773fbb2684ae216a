//! What is on the screen and what keys do: no terminal, no store, no clock.

use super::view::{Kind, View};

/// A key, as far as it means something.
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

/// Something to be done by the same inputs as by command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// Chooses an option of what is asked: id, value, label.
    Decide(String, String, String),
    /// Ends all incarnations of an agent, and its waits.
    RestartAgent(String),
    /// Ends the incarnation of a session, or its wait; with the question.
    RestartSession(String, String),
    Pause(String),
    Resume(String),
}

impl Act {
    /// What somebody says yes to.
    pub(super) fn question(&self) -> String {
        match self {
            Self::Decide(id, _, label) => format!("{id}: {label}?"),
            Self::RestartAgent(agent) => {
                format!(
                    "Restart {agent}? All its incarnations end now and give back what they work on; its waits are over."
                )
            }
            Self::RestartSession(_, what) => what.clone(),
            Self::Pause(task) => format!("Pause {task}?"),
            Self::Resume(task) => format!("Resume {task}?"),
        }
    }
}

/// What a key leads to outside of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Quit,
    Do(Act),
}

/// What keys mean at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Browse,
    /// The filter is being typed.
    Filter,
    Help,
    /// Waits for a yes.
    Confirm(Act),
}

/// A line that can be chosen, by what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// Index into the sessions of the view, and so on.
    Session(usize),
    Asked(usize),
    Task(usize),
}

/// Everything that is drawn, but for the time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) view: View,
    /// Whether anything was looked at yet.
    pub(super) looked: bool,
    /// Since when no daemon runs, if that was seen.
    pub(super) absent_since: Option<String>,
    pub(super) mode: Mode,
    pub(super) filter: String,
    /// What became of the last act, or why a key did nothing.
    pub(super) note: Option<String>,
    /// What the chosen line is about: lines come and go, and the choice stays where it was.
    chosen: Option<String>,
    /// Where it was last.
    place: usize,
}

impl Screen {
    /// Takes in what was seen, at a time in words.
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

    /// Lines that can be chosen, in their order on the screen.
    pub(super) fn lines(&self) -> Vec<Line> {
        let view = &self.view;
        let sessions = (0..view.sessions.len()).map(Line::Session);
        let asked = (0..view.asked.len()).map(Line::Asked);
        let tasks = (0..view.tasks.len()).map(Line::Task);
        sessions.chain(asked).chain(tasks).filter(|line| self.matches(line)).collect()
    }

    /// The chosen line.
    pub(super) fn chosen(&self) -> Option<Line> {
        let chosen = self.chosen.as_ref()?;
        self.lines().into_iter().find(|line| self.id(line).as_ref() == Some(chosen))
    }

    fn matches(&self, line: &Line) -> bool {
        let words = self.words(line).unwrap_or_default().to_lowercase();
        self.filter.to_lowercase().split_whitespace().all(|word| words.contains(word))
    }

    fn words(&self, line: &Line) -> Option<String> {
        Some(match line {
            Line::Session(at) => {
                let one = self.view.sessions.get(*at)?;
                format!("{} {} {}", one.session, one.agent, one.phase)
            }
            Line::Asked(at) => {
                let one = self.view.asked.get(*at)?;
                format!("{} {}", one.id, one.about)
            }
            Line::Task(at) => {
                let one = self.view.tasks.get(*at)?;
                format!("{} {} {}", one.task, one.agent, one.prompt)
            }
        })
    }

    fn id(&self, line: &Line) -> Option<String> {
        Some(match line {
            Line::Session(at) => self.view.sessions.get(*at)?.session.clone(),
            Line::Asked(at) => self.view.asked.get(*at)?.id.clone(),
            Line::Task(at) => self.view.tasks.get(*at)?.task.clone(),
        })
    }

    /// Keeps the choice if its line is still there, else takes the one that is in its place now.
    fn settle(&mut self) {
        let lines = self.lines();
        let at = lines.iter().position(|line| self.id(line) == self.chosen);
        self.choose(&lines, at.unwrap_or(self.place));
    }

    fn choose(&mut self, lines: &[Line], at: usize) {
        self.place = at.min(lines.len().saturating_sub(1));
        self.chosen = lines.get(self.place).and_then(|line| self.id(line));
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: Key) -> Option<Command> {
        if key == Key::Interrupt {
            return Some(Command::Quit);
        }
        match std::mem::take(&mut self.mode) {
            Mode::Browse => self.browse(key),
            Mode::Help => None,
            Mode::Filter => {
                self.type_filter(key);
                None
            }
            Mode::Confirm(act) => match key {
                Key::Char('y' | 'Y') => Some(Command::Do(act)),
                Key::Char('n' | 'N' | 'q') | Key::Escape => {
                    self.note = Some("nothing was done".to_owned());
                    None
                }
                // Whatever else is hit by accident is no answer.
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
            Key::Enter | Key::Backspace | Key::Interrupt => {}
        }
        None
    }

    /// To the first line of the next or the previous panel.
    fn jump(&mut self, lines: &[Line], ahead: bool) {
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

    /// A key that acts on the chosen line: waits for a yes, or says why not.
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

    fn act(&self, key: char, line: &Line) -> Result<Act, String> {
        let not_here = |what: &str| Err(format!("`{key}` is for {what}"));
        match (key, line) {
            ('a' | 'r' | '1'..='9', Line::Asked(at)) => self.decide(key, *at),
            ('a' | 'r', _) => not_here("approvals"),
            ('1'..='9', _) => not_here("questions"),
            ('R' | 'k' | 'w', Line::Session(at)) => self.restart(key, *at),
            ('R', Line::Task(at)) => {
                let task = self.view.tasks.get(*at).ok_or("it is gone")?;
                Ok(Act::RestartAgent(task.agent.clone()))
            }
            ('R' | 'k' | 'w', _) => not_here("sessions"),
            ('p', Line::Task(at)) => {
                let task = self.view.tasks.get(*at).ok_or("it is gone")?;
                let id = task.task.clone();
                Ok(if task.paused { Act::Resume(id) } else { Act::Pause(id) })
            }
            _ => not_here("tasks"),
        }
    }

    fn decide(&self, key: char, at: usize) -> Result<Act, String> {
        let asked = self.view.asked.get(at).ok_or("it is gone")?;
        let id = asked.id.clone();
        match (asked.kind, key) {
            (Kind::Approval, 'a') => Ok(Act::Decide(id, "approve".to_owned(), format!("approve — {}", asked.about))),
            (Kind::Approval, 'r') => Ok(Act::Decide(id, "reject".to_owned(), format!("reject — {}", asked.about))),
            (Kind::Approval, _) => Err(format!("{id} is an approval: `a` or `r`")),
            (Kind::Question, number) => {
                let nth = number.to_digit(10).and_then(|nth| usize::try_from(nth).ok()?.checked_sub(1));
                let chosen = nth.and_then(|nth| asked.options.get(nth));
                let (label, value) = chosen
                    .ok_or_else(|| format!("{id} is a question: choose by number, 1 to {}", asked.options.len()))?;
                Ok(Act::Decide(id, value.clone(), format!("answer “{label}”")))
            }
        }
    }

    fn restart(&self, key: char, at: usize) -> Result<Act, String> {
        let one = self.view.sessions.get(at).ok_or("it is gone")?;
        let (session, agent) = (one.session.clone(), &one.agent);
        match (key, one.incarnation) {
            ('R', _) => Ok(Act::RestartAgent(agent.clone())),
            ('k', Some(number)) => {
                let what = format!("End {session}.{number} of {agent} now? It gives back what it works on.");
                Ok(Act::RestartSession(session, what))
            }
            ('k', None) => Err(format!("{session} has no incarnation")),
            (_, _) if one.held_off.is_some() => Ok(Act::RestartAgent(agent.clone())),
            (_, _) if one.failed_starts > 0 => {
                let what = format!("End the wait of {session} of {agent}, and start it now?");
                Ok(Act::RestartSession(session, what))
            }
            (_, _) => Err(format!("{session} waits for nothing that could be reset")),
        }
    }
}
