//! A house in its simplest form: who hears what, who works on what, who waits for whose decision. Written from what is
//! promised, with lists that are gone through, and without a line of the engine.

use std::collections::{BTreeMap, BTreeSet};

/// Who listens in the chats, and to what.
pub(super) const CHATS: [Chat; 3] = [
    Chat { name: "P", lets_in: LetsIn::Everybody, wirings: [ALWAYS, Wiring { known_only: true, ..MENTIONED }] },
    Chat { name: "R", lets_in: LetsIn::Asked, wirings: [ALWAYS, Wiring { keeps_rest: false, ..MENTIONED }] },
    Chat { name: "S", lets_in: LetsIn::Known, wirings: [DEPLOY, MENTIONED] },
];

const ALWAYS: Wiring = Wiring { agent: "a", engages: Engages::Containing(""), keeps_rest: false, known_only: false };
const DEPLOY: Wiring =
    Wiring { agent: "a", engages: Engages::Containing("deploy"), keeps_rest: true, known_only: false };
const MENTIONED: Wiring = Wiring { agent: "b", engages: Engages::Mentioned, keeps_rest: true, known_only: false };

pub(super) struct Chat {
    pub(super) name: &'static str,
    pub(super) lets_in: LetsIn,
    pub(super) wirings: [Wiring; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LetsIn {
    Everybody,
    /// Those whom the agent knows; about others somebody is asked.
    Asked,
    /// Those whom the agent knows.
    Known,
}

#[derive(Clone, Copy)]
pub(super) struct Wiring {
    pub(super) agent: &'static str,
    pub(super) engages: Engages,
    /// What does not engage is kept as context.
    pub(super) keeps_rest: bool,
    /// Only those whom the agent knows engage it.
    pub(super) known_only: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Engages {
    Containing(&'static str),
    Mentioned,
}

/// People: an owner, one whom each agent may know, a stranger, and one without a name.
pub(super) const PEOPLE: [&str; 5] = ["boss", "ann", "bob", "stranger", ""];

pub(super) const TEXTS: [&str; 5] = ["words", "deploy now", "/help", " /CLEAR it", "/review deploy"];

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) chat: usize,
    pub(super) who: usize,
    pub(super) text: usize,
    pub(super) mention: bool,
}

/// What became of an event for an agent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Engaged,
    Kept,
    Ignored,
    Refused,
    Held,
    Filtered,
    Denied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It waits, not before this time.
    Waits(u64),
    Claimed(u64),
    Done,
    Failed,
    /// It only goes along.
    Context,
}

/// A conversation: an agent in a chat.
pub(super) type Talk = (&'static str, usize);

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) event: usize,
    pub(super) talk: Talk,
    pub(super) state: State,
    pub(super) tries: u32,
}

/// Messages of somebody that wait for a decision about them, with the agents that would have heard them.
#[derive(Debug, Clone, Default)]
struct Asked {
    agents: BTreeSet<&'static str>,
    held: Vec<(usize, BTreeSet<&'static str>)>,
    until: u64,
}

const SECOND: u64 = 1_000;
const STUCK: u64 = 60 * SECOND;
const WEEK: u64 = 7 * 24 * 3_600 * SECOND;

#[derive(Default)]
pub(super) struct House {
    pub(super) now: u64,
    pub(super) events: Vec<Said>,
    pub(super) messages: Vec<Message>,
    known: BTreeSet<(&'static str, usize)>,
    asked: BTreeMap<(usize, usize), Asked>,
}

impl House {
    pub(super) fn new() -> Self {
        Self { known: BTreeSet::from([("a", 1), ("b", 2)]), ..Self::default() }
    }

    fn knows(&self, agent: &'static str, who: usize) -> bool {
        who == 0 || self.known.contains(&(agent, who))
    }

    /// Somebody says something new.
    pub(super) fn say(&mut self, said: Said) -> Vec<(&'static str, Word)> {
        self.events.push(said);
        let event = self.events.len() - 1;
        let words: Vec<_> =
            CHATS[said.chat].wirings.iter().map(|wiring| (wiring.agent, self.hear(event, wiring))).collect();
        let held: BTreeSet<_> = words.iter().filter(|(_, word)| *word == Word::Held).map(|(agent, _)| *agent).collect();
        if !held.is_empty() {
            let until = self.now + WEEK;
            let asked = self.asked.entry((said.chat, said.who)).or_insert(Asked { until, ..Asked::default() });
            asked.agents.extend(&held);
            asked.held.push((event, held));
        }
        words
    }

    fn hear(&mut self, event: usize, wiring: &Wiring) -> Word {
        let said = self.events[event];
        let (text, named) = (TEXTS[said.text], !PEOPLE[said.who].is_empty());
        let engages = match wiring.engages {
            Engages::Containing(part) => text.contains(part),
            Engages::Mentioned => said.mention,
        };
        let knows = named && self.knows(wiring.agent, said.who);
        if engages && !knows {
            match CHATS[said.chat].lets_in {
                LetsIn::Asked if named => return Word::Held,
                LetsIn::Asked | LetsIn::Known => return Word::Refused,
                LetsIn::Everybody if wiring.known_only => return Word::Refused,
                LetsIn::Everybody => {}
            }
        }
        if !engages && !wiring.keeps_rest {
            return Word::Ignored;
        }
        match text.split_whitespace().next().unwrap_or_default().to_lowercase().as_str() {
            "/help" => return Word::Filtered,
            "/clear" if said.who != 0 => return Word::Denied,
            _ => {}
        }
        let state = if engages { State::Waits(0) } else { State::Context };
        self.messages.push(Message { event, talk: (wiring.agent, said.chat), state, tries: 0 });
        if engages { Word::Engaged } else { Word::Kept }
    }

    /// The operator makes somebody known to an agent: what waited for that goes on.
    pub(super) fn introduce(&mut self, agent: &'static str, who: usize) {
        self.known.insert((agent, who));
        let keys: Vec<_> = self.asked.keys().copied().filter(|(_, asked)| *asked == who).collect();
        for key in keys {
            self.let_go(key, &BTreeSet::from([agent]));
        }
    }

    pub(super) fn forget(&mut self, agent: &'static str, who: usize) {
        self.known.remove(&(agent, who));
    }

    /// The oldest thing that somebody is asked about, as chat and person.
    pub(super) fn oldest_asked(&self) -> Option<(usize, usize)> {
        self.asked.iter().min_by_key(|(_, asked)| asked.held.first().map(|(event, _)| *event)).map(|(key, _)| *key)
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// How many events wait for a decision.
    pub(super) fn held(&self) -> usize {
        self.asked.values().map(|asked| asked.held.len()).sum()
    }

    pub(super) fn decide(&mut self, key: (usize, usize), yes: bool) {
        if !yes {
            self.asked.remove(&key);
            return;
        }
        let agents = self.asked[&key].agents.clone();
        self.known.extend(agents.iter().map(|agent| (*agent, key.1)));
        self.let_go(key, &agents);
    }

    /// What waited for these agents is heard by them, in order; what still waits for others goes on waiting.
    fn let_go(&mut self, key: (usize, usize), agents: &BTreeSet<&'static str>) {
        let Some(mut asked) = self.asked.remove(&key) else { return };
        let mut rest = Vec::new();
        for (event, mut waiting) in asked.held {
            for wiring in CHATS[key.0].wirings.iter().filter(|wiring| agents.contains(wiring.agent)) {
                if waiting.remove(wiring.agent) {
                    self.hear(event, wiring);
                }
            }
            if !waiting.is_empty() {
                rest.push((event, waiting));
            }
        }
        if !rest.is_empty() {
            asked.held = rest;
            asked.agents.retain(|agent| !agents.contains(agent));
            self.asked.insert(key, asked);
        }
    }

    /// Time passes, and somebody looks at what is due.
    pub(super) fn pass(&mut self, length: u64) {
        self.now += length;
        for at in 0..self.messages.len() {
            if matches!(self.messages[at].state, State::Claimed(since) if self.now - since > STUCK) {
                self.give_back(at);
            }
        }
        self.asked.retain(|_, asked| asked.until > self.now);
    }

    /// Messages of a conversation that its agent may begin with, oldest first.
    pub(super) fn offered(&self, talk: Talk) -> Vec<usize> {
        let is = |message: &Message| {
            message.talk == talk && matches!(message.state, State::Waits(until) if until <= self.now)
        };
        (0..self.messages.len()).filter(|at| is(&self.messages[*at])).collect()
    }

    pub(super) fn claimed(&self, talk: Talk) -> Option<usize> {
        let is = |message: &Message| message.talk == talk && matches!(message.state, State::Claimed(_));
        (0..self.messages.len()).find(|at| is(&self.messages[*at]))
    }

    pub(super) fn claim(&mut self, at: usize) {
        self.messages[at].state = State::Claimed(self.now);
    }

    pub(super) fn end(&mut self, at: usize, well: bool) {
        self.messages[at].state = if well { State::Done } else { State::Failed };
    }

    /// Nobody works on a message any more: it is tried again after 5, 10, 20, 40 and 80 seconds, and then given up.
    pub(super) fn give_back(&mut self, at: usize) {
        let message = &mut self.messages[at];
        if message.tries == 5 {
            message.state = State::Failed;
            return;
        }
        message.state = State::Waits(self.now + 5 * SECOND * (1 << message.tries));
        message.tries += 1;
    }
}
