//! Reference for routing, work and approvals. Written from the documented promises, with linear searches over lists,
//! and without code of the engine.

use std::collections::{BTreeMap, BTreeSet};

use super::ground::{CHATS, Engages, LetsIn, PEOPLE, Place, Said, TEXTS, Talk, Wiring, administers, talk, talks};

/// The immediate outcome of an event for an agent, with the reason.
pub(super) type Word = (Fate, &'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Engaged,
    Kept,
    Ignored,
    Refused,
    Filtered,
    Denied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It waits, at least until this time.
    Waits(u64),
    Claimed {
        since: u64,
        /// The agent has made progress on it since.
        moved: bool,
    },
    Done,
    Failed,
    Context,
    /// Context that was displaced by newer context: it is never exported.
    Capped,
}

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) event: usize,
    pub(super) talk: Talk,
    pub(super) state: State,
    pub(super) tries: u32,
}

/// Held messages of a person, with the agents that would have received them.
#[derive(Debug, Clone, Default)]
struct Asked {
    agents: BTreeSet<&'static str>,
    held: Vec<Held>,
    until: u64,
}

#[derive(Debug, Clone)]
struct Held {
    event: usize,
    agents: BTreeSet<&'static str>,
}

/// A refusal that is recorded: for one agent, or for all.
pub(super) type Refusal = (Option<&'static str>, &'static str);

const SECOND: u64 = 1_000;
const STUCK: u64 = 60 * SECOND;
const DAY: u64 = 24 * 3_600 * SECOND;
const WEEK: u64 = 7 * DAY;

/// Limits per chat: held messages of one person, and people with an open approval.
pub(super) const HELD_MAX: usize = 2;
pub(super) const ASKED_MAX: usize = 2;

/// Why an approver is asked.
const HELD: &str = "unknown_sender_request_approval";

#[derive(Default)]
pub(super) struct ModelState {
    pub(super) now: u64,
    pub(super) events: Vec<Said>,
    pub(super) messages: Vec<Message>,
    /// How often each refusal was recorded.
    pub(super) refusals: BTreeMap<Refusal, usize>,
    known: BTreeSet<(&'static str, usize)>,
    asked: BTreeMap<(usize, usize), Asked>,
    /// Until when an agent follows the thread in which it was engaged.
    sticks: BTreeMap<(&'static str, Place), u64>,
    muted: BTreeSet<(&'static str, Place)>,
}

impl ModelState {
    pub(super) fn new() -> Self {
        Self { known: BTreeSet::from([("a", 1), ("b", 2)]), ..Self::default() }
    }

    fn knows(&self, agent: &'static str, who: usize) -> bool {
        administers(who, agent) || self.known.contains(&(agent, who))
    }

    /// A person sends a new message. Returns each agent's decision, and the drop's reason if no agent receives it.
    pub(super) fn say(&mut self, mut said: Said) -> (BTreeMap<&'static str, Word>, Option<&'static str>) {
        if !CHATS[said.at.0].threads {
            said.at.1 = 0;
        }
        self.events.push(said);
        let event = self.events.len() - 1;
        let mut words: BTreeMap<_, _> =
            CHATS[said.at.0].wirings.iter().map(|wiring| (wiring.agent, self.hear(event, wiring))).collect();
        let agents: BTreeSet<_> = words.iter().filter(|(_, (_, why))| *why == HELD).map(|(agent, _)| *agent).collect();
        if let Some(full) = self.hold(event, &agents) {
            words.values_mut().filter(|(_, why)| *why == HELD).for_each(|(_, why)| *why = full);
        }
        let words: BTreeMap<_, _> = words.into_iter().collect();
        let refused = self.conclude(&words);
        (words, refused)
    }

    /// An event waits for a decision about its sender. Returns the reason if it cannot.
    fn hold(&mut self, event: usize, agents: &BTreeSet<&'static str>) -> Option<&'static str> {
        let Said { at: (chat, _), who, .. } = self.events[event];
        if agents.is_empty() {
            return None;
        }
        let open = self.asked.keys().filter(|(asked, _)| *asked == chat).count();
        let full = match self.asked.get(&(chat, who)) {
            None => (open >= ASKED_MAX).then_some("approvals_full"),
            Some(asked) => (asked.held.len() >= HELD_MAX).then_some("held_full"),
        };
        if let Some(full) = full {
            self.refuse((only(agents), full));
            return Some(full);
        }
        let until = self.now + WEEK;
        let asked = self.asked.entry((chat, who)).or_insert(Asked { until, ..Asked::default() });
        asked.agents.extend(agents);
        asked.held.push(Held { event, agents: agents.clone() });
        None
    }

    /// Why an event is dropped, if it is: the first refusal, otherwise that no agent engaged, which is recorded.
    fn conclude(&mut self, words: &BTreeMap<&'static str, Word>) -> Option<&'static str> {
        let has = |fate| matches!(fate, Fate::Engaged | Fate::Kept);
        if words.values().any(|(fate, _)| has(*fate)) {
            return None;
        }
        if words.values().any(|(_, why)| *why == HELD) {
            return Some(HELD);
        }
        let refused = words.values().find(|(fate, why)| *fate != Fate::Ignored || *why == "thread_muted");
        if refused.is_none() {
            self.refuse((None, "no_agent_engaged"));
        }
        Some(refused.map_or("no_agent_engaged", |(_, why)| why))
    }

    fn refuse(&mut self, refusal: Refusal) {
        *self.refusals.entry(refusal).or_default() += 1;
    }

    /// An agent's decision about an event. A message of a sender who may not talk to it is refused with the reason.
    /// Keeping a message as context needs no permission, except in chats of known people only.
    fn judge(&self, said: Said, wiring: &Wiring) -> Word {
        let (text, named) = (TEXTS[said.text], !PEOPLE[said.who].is_empty());
        let engages = match wiring.engages {
            Engages::Containing(part) if text.contains(part) => Ok("pattern_match"),
            Engages::Containing(_) => Err("pattern_mismatch"),
            _ if said.mention => Ok("mentioned"),
            Engages::Sticking if self.sticks(wiring.agent, said.at) => Ok("sticky_thread"),
            _ => Err("not_mentioned"),
        };
        let engages = if self.is_muted(wiring.agent, said.at) { engages.and(Err("thread_muted")) } else { engages };
        let knows = named && self.knows(wiring.agent, said.who);
        if engages.is_ok() && !knows {
            match CHATS[said.at.0].lets_in {
                LetsIn::Asked | LetsIn::Known if !named => return (Fate::Refused, "unknown_user"),
                LetsIn::Asked => return (Fate::Refused, HELD),
                LetsIn::Known => return (Fate::Refused, "unknown_sender_strict"),
                LetsIn::Everybody if !wiring.known_only => {}
                LetsIn::Everybody if named => return (Fate::Refused, "sender_scope_not_member"),
                LetsIn::Everybody => return (Fate::Refused, "unknown_user_scope"),
            }
        }
        let why = match engages {
            Err(why) if !wiring.keeps_rest => return (Fate::Ignored, why),
            Err(_) if !knows && CHATS[said.at.0].lets_in == LetsIn::Known => {
                return (Fate::Refused, if named { "unknown_sender_strict" } else { "unknown_user" });
            }
            Ok(why) | Err(why) => why,
        };
        match text.split_whitespace().next().unwrap_or_default().to_lowercase().as_str() {
            "/help" | "/new" if engages.is_ok() => (Fate::Filtered, "own_command"),
            "/help" | "/new" => (Fate::Filtered, "command_filtered"),
            "/clear" if !administers(said.who, wiring.agent) => (Fate::Denied, "command_denied"),
            _ if engages.is_ok() => (Fate::Engaged, why),
            _ => (Fate::Kept, why),
        }
    }

    fn hear(&mut self, event: usize, wiring: &Wiring) -> Word {
        let said = self.events[event];
        let word = self.judge(said, wiring);
        let talk = talk(said.at, wiring);
        match word {
            (Fate::Engaged, _) => {
                self.interrupt(said, talk, "/clear");
                self.messages.push(Message { event, talk, state: State::Waits(0), tries: 0 });
                self.engaged(said.at, wiring);
            }
            (Fate::Kept, _) => self.messages.push(Message { event, talk, state: State::Context, tries: 0 }),
            (Fate::Refused, HELD) => {}
            (Fate::Ignored, why) if why != "thread_muted" => {}
            (_, why) => {
                let is_alone = !CHATS[said.at.0].group && !wiring.one_for_all;
                if why == "own_command" && (is_alone || administers(said.who, wiring.agent)) {
                    self.interrupt(said, talk, "/new");
                }
                self.refuse((Some(wiring.agent), why));
            }
        }
        word
    }

    /// A new conversation does not wait for the turn that is running.
    fn interrupt(&mut self, said: Said, talk: Talk, command: &str) {
        if !TEXTS[said.text].trim().to_lowercase().starts_with(command) {
            return;
        }
        let of_talk = self.messages.iter_mut().filter(|message| message.talk == talk);
        let claimed = of_talk.filter(|message| matches!(message.state, State::Claimed { .. }));
        claimed.for_each(|message| message.state = State::Done);
    }

    /// An agent has a new message. In groups, a sticky wiring then follows the thread for a day.
    fn engaged(&mut self, at: Place, wiring: &Wiring) {
        if wiring.engages == Engages::Sticking && CHATS[at.0].group {
            self.sticks.insert((wiring.agent, at), self.now + DAY);
        }
        self.wake(talk(at, wiring));
    }

    fn sticks(&self, agent: &'static str, at: Place) -> bool {
        CHATS[at.0].group && self.sticks.get(&(agent, at)).is_some_and(|until| *until > self.now)
    }

    fn is_muted(&self, agent: &'static str, (chat, thread): Place) -> bool {
        [(chat, thread), (chat, 0)].iter().any(|at| self.muted.contains(&(agent, *at)))
    }

    /// Messages there no longer wake the agent. Without a thread, this applies to the whole chat.
    pub(super) fn mute(&mut self, agent: &'static str, at: Place) {
        self.muted.insert((agent, at));
        self.end_listening(agent, at);
    }

    pub(super) fn unmute(&mut self, agent: &'static str, at: Place) {
        self.muted.remove(&(agent, at));
    }

    pub(super) fn end_listening(&mut self, agent: &'static str, (chat, thread): Place) {
        let ends = |(whose, at): &(&str, Place)| *whose == agent && at.0 == chat && (thread == 0 || at.1 == thread);
        self.sticks.retain(|key, _| !ends(key));
    }

    /// A repeated event. Nothing is new, but a context message becomes a trigger if it engages now.
    pub(super) fn again(&mut self, event: usize) {
        let said = self.events[event];
        for at in 0..self.messages.len() {
            let Message { event: of, talk, state, .. } = self.messages[at];
            let wiring = CHATS[said.at.0].wirings.iter().find(|wiring| wiring.agent == talk.0).unwrap();
            if of == event && state == State::Context && self.judge(said, wiring).0 == Fate::Engaged {
                self.messages[at].state = State::Waits(0);
                self.engaged(said.at, wiring);
            }
        }
    }

    /// The operator makes a person known to an agent: messages held for that reason are routed.
    pub(super) fn introduce(&mut self, agent: &'static str, who: usize) {
        self.known.insert((agent, who));
        let keys: Vec<_> = self.asked.keys().copied().filter(|(_, asked)| *asked == who).collect();
        for key in keys {
            self.let_go(key, &BTreeSet::from([agent]), &BTreeSet::new());
        }
    }

    pub(super) fn forget(&mut self, agent: &'static str, who: usize) {
        self.known.remove(&(agent, who));
    }

    /// The oldest open approval, as chat and person.
    pub(super) fn oldest_asked(&self) -> Option<(usize, usize)> {
        self.asked.iter().min_by_key(|(_, asked)| asked.held.first().map(|held| held.event)).map(|(key, _)| *key)
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// How many events wait for a decision.
    pub(super) fn held(&self) -> usize {
        self.asked.values().map(|asked| asked.held.len()).sum()
    }

    /// One of these people, or the operator, decides. A person without authority over any of the agents decides
    /// nothing; one with authority over some of them admits the sender to these. Returns whether anything was decided.
    pub(super) fn decide(&mut self, key: (usize, usize), by: Option<usize>, yes: bool) -> bool {
        let agents = self.asked[&key].agents.clone();
        let may = |agent: &&str| by.is_none_or(|who| administers(who, agent));
        let (go, others): (BTreeSet<_>, BTreeSet<_>) = agents.into_iter().partition(may);
        if go.is_empty() {
            return false;
        }
        if yes {
            self.known.extend(go.iter().map(|agent| (*agent, key.1)));
            self.let_go(key, &go, &others);
            // Messages of people who became known are routed in all chats.
            let elsewhere: Vec<_> = self.asked.keys().copied().filter(|(_, asked)| *asked == key.1).collect();
            for other in elsewhere {
                self.let_go(other, &go, &BTreeSet::new());
            }
        } else {
            self.drop_all(key, "rejected");
        }
        true
    }

    fn drop_all(&mut self, key: (usize, usize), why: &'static str) {
        for held in self.asked.remove(&key).into_iter().flat_map(|asked| asked.held) {
            self.refuse((only(&held.agents), why));
        }
    }

    /// Held messages go to these agents, in order, and never to the others. Messages that are held for other people
    /// stay held.
    fn let_go(&mut self, key: (usize, usize), go: &BTreeSet<&'static str>, others: &BTreeSet<&'static str>) {
        let Some(mut asked) = self.asked.remove(&key) else { return };
        let mut rest = Vec::new();
        for mut held in asked.held {
            let hear = CHATS[key.0].wirings.iter().filter(|wiring| go.contains(wiring.agent));
            let hear: Vec<_> = hear.filter(|wiring| held.agents.remove(wiring.agent)).collect();
            let words: BTreeMap<_, _> =
                hear.into_iter().map(|wiring| (wiring.agent, self.hear(held.event, wiring))).collect();
            if !words.is_empty() {
                self.conclude(&words);
            }
            for agent in others {
                if held.agents.remove(agent) {
                    self.refuse((Some(*agent), "rejected"));
                }
            }
            if !held.agents.is_empty() {
                rest.push(held);
            }
        }
        asked.agents.retain(|agent| !go.contains(agent));
        if !rest.is_empty() {
            asked.held = rest;
            self.asked.insert(key, asked);
        }
    }

    /// Time passes, and a sweep runs.
    pub(super) fn pass(&mut self, length: u64) {
        self.now += length;
        let late: Vec<_> =
            self.asked.iter().filter(|(_, asked)| asked.until <= self.now).map(|(key, _)| *key).collect();
        for key in late {
            self.drop_all(key, "approval_expired");
        }
        for at in 0..self.messages.len() {
            if matches!(self.messages[at].state, State::Claimed { since, moved: false } if self.now - since > STUCK) {
                self.give_back(&[at]);
            }
        }
        talks().into_iter().for_each(|talk| self.wake(talk));
    }

    /// The daemon restarts and agents live on: no message stays in backoff, and ages begin at zero.
    pub(super) fn restart(&mut self) {
        for message in &mut self.messages {
            match &mut message.state {
                State::Claimed { since, .. } => *since = self.now,
                State::Waits(until) => *until = self.now.min(*until),
                _ => {}
            }
        }
        talks().into_iter().for_each(|talk| self.wake(talk));
    }

    /// An agent receives its triggers and the newest context. Older context is never exported.
    fn wake(&mut self, talk: Talk) {
        if self.offered(talk).is_empty() {
            return;
        }
        let context = self.context(talk);
        for at in &context[..context.len().saturating_sub(2)] {
            self.messages[*at].state = State::Capped;
        }
    }

    fn of(&self, talk: Talk, is: impl Fn(State) -> bool) -> Vec<usize> {
        let fits = |at: &usize| self.messages[*at].talk == talk && is(self.messages[*at].state);
        (0..self.messages.len()).filter(fits).collect()
    }

    fn context(&self, talk: Talk) -> Vec<usize> {
        self.of(talk, |state| state == State::Context)
    }

    /// Messages of a conversation that its agent may begin with, oldest first.
    pub(super) fn offered(&self, talk: Talk) -> Vec<usize> {
        self.of(talk, |state| matches!(state, State::Waits(until) if until <= self.now))
    }

    pub(super) fn claimed(&self, talk: Talk) -> Option<usize> {
        self.of(talk, |state| matches!(state, State::Claimed { .. })).first().copied()
    }

    /// The messages that a turn over a message may include besides it: all others that its agent has.
    pub(super) fn beside(&self, at: usize) -> Vec<usize> {
        let talk = self.messages[at].talk;
        [self.offered(talk), self.context(talk)].concat()
    }

    pub(super) fn claim(&mut self, at: usize) {
        self.messages[at].state = State::Claimed { since: self.now, moved: false };
    }

    /// A run writes something: it does not count as stuck any more.
    pub(super) fn get_on(&mut self, at: usize) {
        let State::Claimed { moved, .. } = &mut self.messages[at].state else { panic!("{at} is worked on") };
        *moved = true;
    }

    pub(super) fn end(&mut self, those: &[usize], well: bool) {
        for at in those {
            self.messages[*at].state = if well { State::Done } else { State::Failed };
        }
    }

    /// These messages of a turn have lost their run. They are retried together after 5, 10, 20, 40 and 80 seconds, by
    /// the number of retries of any of them, and then fail. Messages that were only context go along again.
    pub(super) fn give_back(&mut self, those: &[usize]) {
        let triggers = |at: &&usize| self.messages[**at].state != State::Context;
        let turn: Vec<usize> = those.iter().filter(triggers).copied().collect();
        let tries = turn.iter().map(|at| self.messages[*at].tries).filter(|tries| *tries < 5).max().unwrap_or(0);
        for at in turn {
            let message = &mut self.messages[at];
            if message.tries == 5 {
                message.state = State::Failed;
                continue;
            }
            message.state = State::Waits(self.now + 5 * SECOND * (1 << tries));
            message.tries += 1;
        }
        if let Some(at) = those.first() {
            self.wake(self.messages[*at].talk);
        }
    }
}

/// The only element, if there is exactly one.
fn only(agents: &BTreeSet<&'static str>) -> Option<&'static str> {
    if agents.len() == 1 { agents.first().copied() } else { None }
}
