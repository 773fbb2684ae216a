//! A run: its seed, its length and its switches. Its text is a line of `seeds.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;

/// What can happen in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A person sends a message.
    Say,
    /// A platform sends an event again.
    Again,
    /// Several messages arrive at once and are committed together.
    Crowd,
    /// An agent works.
    Work,
    /// A mailbox is collected, entirely or in part.
    Look,
    /// Files of an incarnation that is gone appear.
    Ghost,
    /// An agent dies.
    Die,
    Sweep,
    Quiet,
    /// The machine sleeps.
    Suspend,
    /// The clock is set back.
    Back,
    /// The clock jumps ahead and is corrected.
    Ahead,
    /// The time comes close to a clock change of a time zone.
    Season,
    /// The daemon dies.
    Crash,
    /// The power goes during a commit.
    Cut,
    /// The map becomes as small as the store, or large again.
    Tight,
    /// A person presses a button.
    Press,
    /// A person answers a card with text.
    Word,
    /// The operator changes permissions.
    Command,
    /// A person mutes a thread, or ends an agent's following there.
    Thread,
    /// A command about tasks.
    Task,
    /// A skill reports a skip.
    Skip,
    /// The same input twice in a row.
    Twice,
    /// Networks, and the runtime, get better or worse.
    Channel,
    /// A backup is made or restored. It is no step of its own: it follows one.
    Restore,
    /// Awake time until about when a task is due. Only in a mix, like all of the following.
    Due,
    /// The clock moves by at most an hour, and the engine is not told.
    Skew,
    /// A task is added that runs once, soon, and answers in a chat.
    Errand,
    /// Reports that match nothing: about attempts that are over, or runs that are over or never began.
    Stray,
}

/// Every kind, its name, and its frequency.
pub(crate) const KINDS: [(Kind, &str, u64); 29] = [
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
    (Kind::Due, "due", 0),
    (Kind::Skew, "skew", 0),
    (Kind::Errand, "errand", 0),
    (Kind::Stray, "stray", 0),
];

/// Which effects are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effects {
    /// Some, by the seed; at the end none.
    Some,
    None,
    /// All except those of start and sweep, also at the end.
    Dropped,
}

/// Where a run takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Agents, people and chats of every kind.
    Full,
    /// The same, but mostly strangers speak, in chats that ask for approvals.
    Strangers,
    /// Ten agents with different time zones and no chats. A step may last weeks.
    Zones,
}

const EFFECTS: [(Effects, &str); 3] = [(Effects::Some, "some"), (Effects::None, "kept"), (Effects::Dropped, "dropped")];

const SETTINGS: [(Setting, &str); 3] =
    [(Setting::Full, "full"), (Setting::Strangers, "strangers"), (Setting::Zones, "zones")];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Number of simulated days, after which everything is finished.
    pub(crate) days: u64,
    /// Maximum number of steps, whatever the simulated time is then.
    pub(crate) steps: Option<u64>,
    /// Kinds that do not happen.
    pub(crate) without: BTreeSet<Kind>,
    /// Steps in which nothing happens.
    pub(crate) idle: Vec<Range<u64>>,
    /// Only these happen, with these weights; everything if empty.
    pub(crate) mix: BTreeMap<Kind, u64>,
    pub(crate) effects: Effects,
    pub(crate) setting: Setting,
    /// Networks fail to the end.
    pub(crate) flaky: bool,
    /// Every input that must be idempotent is applied twice.
    pub(crate) twice: bool,
    /// The number of steps between checks of the whole store, instead of random times.
    pub(crate) check: Option<u64>,
}

impl Plan {
    pub(crate) fn new(seed: u64, days: u64) -> Self {
        Self {
            seed,
            days,
            steps: None,
            without: BTreeSet::new(),
            idle: Vec::new(),
            mix: BTreeMap::new(),
            effects: Effects::Some,
            setting: Setting::Full,
            flaky: false,
            twice: false,
            check: None,
        }
    }

    pub(crate) fn is_allowed(&self, kind: Kind) -> bool {
        !self.without.contains(&kind) && (self.mix.is_empty() || self.mix.contains_key(&kind))
    }

    /// The possible kinds, with their frequencies.
    pub(crate) fn weights(&self) -> Vec<(Kind, &'static str, u64)> {
        let weight =
            |kind: Kind, usual: u64| if self.mix.is_empty() { Some(usual) } else { self.mix.get(&kind).copied() };
        KINDS.iter().filter_map(|(kind, word, usual)| Some((*kind, *word, weight(*kind, *usual)?))).collect()
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
                "mix" => plan.mix = value.split(',').map(weighted).collect::<Result<_, _>>()?,
                "effects" => plan.effects = named(&EFFECTS, value)?,
                "setting" => plan.setting = named(&SETTINGS, value)?,
                "network" if value == "flaky" => plan.flaky = true,
                "inputs" if value == "twice" => plan.twice = true,
                "check" if value == "every" => plan.check = Some(1),
                "check" => plan.check = Some(number()?.max(1)),
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
        if !self.mix.is_empty() {
            let words = self.weights().into_iter().map(|(_, word, weight)| format!("{word}:{weight}"));
            write!(f, " mix={}", words.collect::<Vec<_>>().join(","))?;
        }
        let mut switches = String::new();
        if self.effects != Effects::Some {
            write!(switches, " effects={}", name(&EFFECTS, self.effects))?;
        }
        if self.setting != Setting::Full {
            write!(switches, " setting={}", name(&SETTINGS, self.setting))?;
        }
        for (is_on, switch) in [(self.flaky, " network=flaky"), (self.twice, " inputs=twice")] {
            switches.push_str(if is_on { switch } else { "" });
        }
        f.write_str(&switches)?;
        match self.check {
            None => Ok(()),
            Some(1) => f.write_str(" check=every"),
            Some(steps) => write!(f, " check={steps}"),
        }
    }
}

fn named<T: Copy>(all: &[(T, &str)], word: &str) -> Result<T, String> {
    let known = all.iter().find(|(_, known)| *known == word);
    known.map(|(value, _)| *value).ok_or(format!("`{word}` is not known"))
}

fn name<T: Copy + PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter().find(|(known, _)| *known == value).map_or("", |(_, word)| word)
}

/// `KIND:WEIGHT`, or `KIND` with its usual weight.
fn weighted(text: &str) -> Result<(Kind, u64), String> {
    let (word, weight) = text.split_once(':').map_or((text, None), |(word, weight)| (word, Some(weight)));
    let kind = kind(word)?;
    let usual = KINDS.iter().find(|(known, ..)| *known == kind).map_or(0, |(.., usual)| *usual);
    let weight =
        weight.map_or(Ok(usual), |weight| weight.parse().map_err(|_| format!("`{text}` is not KIND:WEIGHT")))?;
    Ok((kind, weight))
}

fn kind(word: &str) -> Result<Kind, String> {
    let known = KINDS.iter().find(|(_, known, _)| *known == word);
    known.map(|(kind, ..)| *kind).ok_or(format!("`{word}` is nothing that happens"))
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let numbers = text.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    numbers.map(|(from, to)| from..to).ok_or(format!("`{text}` is not FROM-TO"))
}
