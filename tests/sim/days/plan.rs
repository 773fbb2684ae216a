//! What a run is made from: a seed, how long it is, and what is left out of it. Its text is a line of `seeds.txt`.

use std::collections::BTreeSet;
use std::ops::Range;

/// What can happen in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Somebody says something.
    Say,
    /// A platform sends an event again.
    Again,
    /// Several things are said at once and committed together.
    Crowd,
    /// An agent works.
    Work,
    /// Somebody looks into a mailbox, at all that is there or at a part of it.
    Look,
    /// Files of an incarnation that is gone appear.
    Ghost,
    /// An agent dies.
    Die,
    /// A sweep.
    Sweep,
    /// Hours pass.
    Quiet,
    /// The machine sleeps.
    Suspend,
    /// The clock is set back.
    Back,
    /// The clock jumps ahead and is corrected.
    Ahead,
    /// The time comes close to a change of somebody's clocks.
    Season,
    /// The daemon dies.
    Crash,
    /// The power goes during a commit.
    Cut,
    /// The map becomes as small as the store, or large again.
    Tight,
    /// Somebody presses a button.
    Press,
    /// Somebody answers a card with words.
    Word,
    /// The operator changes who may what.
    Command,
    /// Somebody mutes a thread, or ends that an agent listens there.
    Thread,
    /// Somebody wants something done with tasks.
    Task,
    /// A skill reports what it left undone.
    Skip,
    /// The same input twice in a row.
    Twice,
    /// Networks, and whatever starts agents, get better or worse.
    Channel,
    /// A backup is made or restored. It is no step of its own: it follows one.
    Restore,
}

/// Every kind, its word, and how often it comes.
pub(crate) const KINDS: [(Kind, &str, u64); 25] = [
    (Kind::Say, "say", 24),
    (Kind::Again, "again", 4),
    (Kind::Crowd, "crowd", 2),
    (Kind::Work, "work", 48),
    (Kind::Look, "look", 12),
    (Kind::Ghost, "ghost", 3),
    (Kind::Die, "die", 3),
    (Kind::Sweep, "sweep", 24),
    (Kind::Quiet, "quiet", 12),
    (Kind::Suspend, "suspend", 3),
    (Kind::Back, "back", 1),
    (Kind::Ahead, "ahead", 1),
    (Kind::Season, "season", 1),
    (Kind::Crash, "crash", 3),
    (Kind::Cut, "cut", 2),
    (Kind::Tight, "tight", 1),
    (Kind::Press, "press", 8),
    (Kind::Word, "word", 2),
    (Kind::Command, "command", 3),
    (Kind::Thread, "thread", 2),
    (Kind::Task, "task", 5),
    (Kind::Skip, "skip", 2),
    (Kind::Twice, "twice", 3),
    (Kind::Channel, "channel", 2),
    (Kind::Restore, "restore", 0),
];

/// One run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Simulated days after which everything is brought to its end.
    pub(crate) days: u64,
    /// No more steps than these, whatever time it is then.
    pub(crate) steps: Option<u64>,
    /// What does not happen.
    pub(crate) without: BTreeSet<Kind>,
    /// Steps in which nothing happens.
    pub(crate) idle: Vec<Range<u64>>,
    /// The whole store is checked after every step.
    pub(crate) check_always: bool,
}

impl Plan {
    pub(crate) fn new(seed: u64, days: u64) -> Self {
        Self { seed, days, steps: None, without: BTreeSet::new(), idle: Vec::new(), check_always: false }
    }

    pub(crate) fn is_idle(&self, step: u64) -> bool {
        self.idle.iter().any(|range| range.contains(&step))
    }

    /// Reads a line as [`std::fmt::Display`] writes it; what follows `#` is for people.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let line = line.split('#').next().unwrap_or_default();
        let mut plan = Self::new(0, 1);
        for word in line.split_whitespace() {
            let (key, value) = word.split_once('=').ok_or(format!("`{word}` is not KEY=VALUE"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("`{value}` is not a number"));
            match key {
                "seed" => plan.seed = number()?,
                "days" => plan.days = number()?,
                "steps" => plan.steps = Some(number()?),
                "without" => plan.without = value.split(',').map(kind).collect::<Result<_, _>>()?,
                "idle" => plan.idle = value.split(',').map(range).collect::<Result<_, _>>()?,
                "check" if value == "every" => plan.check_always = true,
                _ => return Err(format!("`{word}` is not known")),
            }
        }
        Ok(plan)
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed={} days={}", self.seed, self.days)?;
        if let Some(steps) = self.steps {
            write!(f, " steps={steps}")?;
        }
        if !self.without.is_empty() {
            let words = KINDS.iter().filter(|(kind, ..)| self.without.contains(kind)).map(|(_, word, _)| *word);
            write!(f, " without={}", words.collect::<Vec<_>>().join(","))?;
        }
        if !self.idle.is_empty() {
            let ranges = self.idle.iter().map(|range| format!("{}-{}", range.start, range.end));
            write!(f, " idle={}", ranges.collect::<Vec<_>>().join(","))?;
        }
        if self.check_always { f.write_str(" check=every") } else { Ok(()) }
    }
}

fn kind(word: &str) -> Result<Kind, String> {
    let known = KINDS.iter().find(|(_, known, _)| *known == word);
    known.map(|(kind, ..)| *kind).ok_or(format!("`{word}` is nothing that happens"))
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let numbers = text.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    numbers.map(|(from, to)| from..to).ok_or(format!("`{text}` is not FROM-TO"))
}
