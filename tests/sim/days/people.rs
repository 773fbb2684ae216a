//! Simulated people: messages, presses and decisions of known people and unknown senders; and the operator.

use hearth::model::card::PromptSubject;
use hearth::model::configure::{Change, Configure, DestinationSpec};
use hearth::model::content::BlobId;
use hearth::model::entity::{Folder, Origin};
use hearth::model::group::GroupInput;
use hearth::model::id::AgentId;
use hearth::model::input::Press;
use hearth::model::mailbox::Collection;
use hearth::model::report::{Outcome, Reply};
use hearth::model::skip::{FoundSkip, SkipKind, SkipLook, SkipReport, SkipStep};
use hearth::model::{Address, ChannelName, ForeignId, Input, Timestamp, UserId};
use hearth::state::Timed;

use super::Sim;
use super::plan::{Kind, Setting};
use super::room::is_full;
use super::setting::{DOOMED, TOML};
use crate::slots::DAY;
use crate::world::outside::remote;
use crate::world::routing::with_threads;
use crate::world::{configuration, event_in, inbound};

/// Everyone with a role, by channel and their id there: only they may decide anything.
pub(super) const WITH_ROLES: [(&str, &str); 3] = [("net", "boss"), ("web", "chief"), ("net", "others")];

/// Ids that look like another person's id with a channel prefix: their owners are unknown senders like others.
const BORROWED: [&str; 4] = ["net:boss", "web:chief", "net:others", "terminal:0"];

/// People who press buttons: some may decide something, some may not.
const PRESSERS: [(&str, &str); 9] = [
    ("net", "boss"),
    ("web", "chief"),
    ("net", "others"),
    ("net", "s1"),
    ("net", "ann"),
    ("net", "nobody"),
    ("web", "boss"),
    ("web", "net:boss"),
    ("net", "terminal:0"),
];

fn person((channel, handle): (&str, &str)) -> UserId {
    UserId::new(ChannelName::new(channel).unwrap(), ForeignId::new("id", handle).unwrap())
}

/// An event on a platform.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) json: String,
    pub(super) at: i64,
    /// Hearth acknowledged it: the platform will not send it again, except by mistake.
    pub(super) taken: bool,
    /// It was not refused: it was routed to an agent, is held for a decision, or was an answer.
    pub(super) kept: bool,
    pub(super) chat: (&'static str, &'static str),
    /// It has a file, which its network keeps.
    pub(super) has_file: bool,
}

impl Event {
    pub(super) fn input(&self) -> Input {
        let mut input = inbound(&self.json);
        if let (Input::Inbound(event), true) = (&mut input, self.has_file) {
            event.attachments = vec![remote("photo.jpg")];
        }
        input
    }
}

pub(super) fn folder(name: &str) -> Folder {
    Folder::new(name).unwrap()
}

pub(super) fn address((channel, chat): (&str, &str), thread: Option<&str>) -> Address {
    Address {
        channel: ChannelName::new(channel).unwrap(),
        platform_id: ForeignId::new("chat", chat).unwrap(),
        thread: thread.map(|thread| ForeignId::new("thread", thread).unwrap()),
    }
}

impl Sim {
    pub(super) fn say(&mut self) {
        let event = self.new_event();
        self.events.push(event);
        self.bring(self.events.len() - 1);
    }

    fn new_event(&mut self) -> Event {
        let id = (self.events.len() + 1).to_string();
        let places = [("web", "C"), ("web", "C"), ("net", "D"), ("net", "D"), ("net", "M"), ("web", "K"), ("net", "U")];
        let mut chat = if self.chance.one_in(30) { ("net", "V") } else { *self.chance.pick(&places) };
        let thread = *self.chance.pick(&[None, Some("t1"), Some("t2"), Some("t3")]);
        let mut who = *self.chance.pick(&["ann", "ann", "ann", "boss", "s1", "s2", "s3", ""]);
        if self.chance.one_in(12) {
            who = *self.chance.pick(&BORROWED);
        }
        if self.plan.setting == Setting::Strangers {
            chat = *self.chance.pick(&[("net", "M"), ("net", "M"), ("net", "U"), ("net", "V")]);
            who = *self.chance.pick(&["s1", "s2", "s3", "s4", "s5"]);
        }
        let text = *self.chance.pick(&[
            "words",
            "words",
            "words",
            "More Words",
            "1",
            "/help",
            "/clear now",
            "/review",
            "/new",
            "/model opus",
            "/status",
        ]);
        let sender = if who.is_empty() { String::new() } else { format!("\"senderId\":\"{who}\"") };
        let mut more = Vec::new();
        if self.chance.one_in(2) {
            more.push("\"isMention\":true");
        }
        if chat.1 != "C" {
            more.push("\"isGroup\":true");
        }
        let json = event_in((chat.0, chat.1, thread), (&id, text, &sender), &more.join(","));
        // The adapter may say whether its chats have threads.
        let json = with_threads(*self.chance.pick(&[None, Some(true), Some(true), Some(false)]), &json);
        let has_file = self.chance.one_in(8);
        Event { id, json, at: self.world.now().wall.millis(), taken: false, kept: false, chat, has_file }
    }

    /// A platform sends an event, and repeats it until Hearth acknowledges it.
    pub(super) fn bring(&mut self, at: usize) -> Option<Reply> {
        let reply = self.put(self.events[at].input());
        self.answered(at, reply.as_ref());
        reply
    }

    fn answered(&mut self, at: usize, reply: Option<&Reply>) {
        match reply {
            Some(Reply::Routed(report)) => {
                let event = &mut self.events[at];
                event.taken = true;
                event.kept |= matches!(report.outcome, Outcome::Routed | Outcome::Held | Outcome::Consumed);
                assert!(report.outcome != Outcome::Dropped || report.reason.is_some(), "{event:?}: {report:?}");
            }
            Some(reply) if is_full(reply) => {}
            other => panic!("{other:?}"),
        }
    }

    /// A platform repeats an event that is at most some days old.
    pub(super) fn say_again(&mut self) {
        let now = self.world.now().wall.millis();
        let lately: Vec<usize> = (0..self.events.len()).rev().take(60).collect();
        if lately.is_empty() {
            return;
        }
        let at = *self.chance.pick(&lately);
        let (known, old) = (self.events[at].kept, (now - self.events[at].at).abs() > 8 * DAY);
        if old {
            return;
        }
        let before = self.newest_message();
        if let Some(Reply::Routed(report)) = self.bring(at)
            && known
        {
            assert_eq!(report.outcome, Outcome::Duplicate, "{:?}", self.events[at]);
            assert_eq!(
                self.newest_message(),
                before,
                "an event that was known became a message: {:?}",
                self.events[at]
            );
        }
    }

    fn newest_message(&self) -> Option<hearth::model::id::MessageId> {
        self.world.read(|db, txn| Ok(db.messages.last(txn, ..)?.map(|(id, _)| id)))
    }

    /// Many inputs arrive at once, and are committed together.
    pub(super) fn crowd(&mut self) {
        let first = self.events.len();
        for _ in 0..2 + self.chance.next(6) {
            let event = self.new_event();
            self.events.push(event);
        }
        let mut inputs: Vec<Input> = self.events[first..].iter().map(Event::input).collect();
        let said = inputs.len();
        inputs.extend(self.late.drain(..));
        for (session, _) in self.running() {
            let found = self.world.outside.files_of(session);
            inputs.push(Input::Collected(Collection { session, found, closes: None }));
        }
        if self.chance.one_in(3) {
            inputs.push(Input::Sweep(self.world.outside.observations()));
        }
        if self.chance.one_in(3) {
            inputs.push(self.thread_change());
        }
        if self.plan.is_allowed(Kind::Stray) && self.chance.one_in(2) {
            inputs.push(self.stray_report_beside_others());
        }
        for (at, reply) in self.put_group(inputs).into_iter().take(said).enumerate() {
            self.answered(first + at, reply.as_ref());
        }
    }

    /// A person presses a button of a card that was shown, perhaps twice; often it is a new card, and often the owner.
    pub(super) fn press(&mut self) {
        let cards = self.platform.borrow().cards.clone();
        if cards.is_empty() {
            return;
        }
        let newest = cards.len().saturating_sub(4);
        let some = if self.chance.one_in(2) { &cards[newest..] } else { &cards[..] };
        let (at, card) = self.chance.pick(some).clone();
        let who = if self.chance.one_in(2) { WITH_ROLES[0] } else { *self.chance.pick(&PRESSERS) };
        let option = if self.chance.one_in(2) { 0 } else { u32::try_from(self.chance.next(4)).unwrap() };
        let press = Press { by: person(who), at, button: card.button(option) };
        let may = WITH_ROLES.contains(&who) || !matches!(card.matter, PromptSubject::Approval(_));
        let compares = !may && !self.is_tight() && self.pays_for_comparison();
        for _ in 0..=self.chance.next(2) {
            let before = compares.then(|| self.world.text());
            let Some(Reply::Answered { decided, .. }) = self.put(Input::Pressed(press.clone())) else { continue };
            assert!(!decided || may, "{who:?} decided {}", card.matter);
            assert!(before.is_none_or(|before| before == self.world.text()), "{who:?} changed something");
        }
    }

    /// A person writes where a card was shown: a number, a name, or something else.
    pub(super) fn word(&mut self) {
        let cards = self.platform.borrow().cards.clone();
        if cards.is_empty() {
            return;
        }
        let (at, card) = self.chance.pick(&cards).clone();
        let id = (self.events.len() + 1).to_string();
        let text = match self.chance.next(4) {
            0 => "1".to_owned(),
            1 => format!("{} 2", card.matter),
            2 => format!("Agent {id}"),
            _ => "  ".to_owned(),
        };
        let sender = format!("\"senderId\":\"{}\"", *self.chance.pick(&["boss", "chief", "s1", "net:boss"]));
        let place = (at.channel.as_str(), at.platform_id.as_str(), None);
        let json = event_in(place, (&id, &text, &sender), "\"isMention\":true");
        let now = self.world.now().wall.millis();
        self.events.push(Event { id, json, at: now, taken: false, kept: false, chat: ("", ""), has_file: false });
        self.bring(self.events.len() - 1);
    }

    /// The operator runs a random command.
    pub(super) fn command(&mut self) {
        let (net, chat) = (|| ChannelName::new("net").unwrap(), |id: &str| ForeignId::new("chat", id).unwrap());
        let stranger = person(*self.chance.pick(&[("net", "s1"), ("net", "s2"), ("web", "s3"), ("web", "net:boss")]));
        let change = match self.chance.next(15) {
            0 => Change::AddMember(folder("main"), stranger),
            1 => Change::RemoveMember(folder("main"), stranger),
            2 => Change::RemoveWiring(net(), chat("M"), folder("main")),
            3 | 4 => return drop(self.put(Input::Configure(configuration(TOML)))),
            5 => Change::RemoveChat(net(), chat("U")),
            6 => Change::DenyChat(net(), chat("V")),
            7 => Change::AllowChat(net(), chat("V")),
            8 => {
                self.doomed = !self.doomed;
                if self.doomed {
                    return drop(self.put(Input::Configure(configuration(DOOMED))));
                }
                Change::RemoveAgent(folder("doomed"))
            }
            9 => {
                let note = self.chance.one_in(2).then(|| "Look again".to_owned());
                let who = *self.chance.pick(&["always", "main", "threads"]);
                Change::RestartAgent(folder(who), note)
            }
            10 => {
                let who = *self.chance.pick(&["other", "always"]);
                Change::AddDestination(folder("main"), "peer".to_owned(), DestinationSpec::Agent(folder(who)))
            }
            11 => {
                let sessions = self.running();
                let Some((session, _)) = sessions.first() else { return };
                Change::ResetSession(*session)
            }
            12 => Change::RemoveUser(person(("web", "chief"))),
            13 => Change::RemoveAgent(folder("other")),
            _ => return self.decide(),
        };
        self.put(Input::Configure(Configure::new(vec![change], Origin::Runtime)));
    }

    /// The operator decides an open approval.
    fn decide(&mut self) {
        let open = self.world.read(|db, txn| db.approvals_due.first(txn, ..));
        let asked = self.world.read(|db, txn| db.questions_due.first(txn, ..));
        let matter = match (open, asked) {
            (Some((Timed { id, .. }, ())), _) => PromptSubject::Approval(id),
            (None, Some((Timed { id, .. }, ()))) => PromptSubject::Question(id),
            (None, None) => return,
        };
        let value = (*self.chance.pick(&[
            "approve",
            "reject",
            "1",
            "yes",
            "new_agent:Made by command",
            "session",
            "reject_why:not now",
        ]))
        .to_owned();
        self.put(Input::Decide(matter, value));
    }

    /// An operator mutes a thread, unmutes it, or ends the following of a thread.
    pub(super) fn thread(&mut self) {
        let input = self.thread_change();
        self.put(input);
    }

    fn thread_change(&mut self) -> Input {
        let at = address(("net", "D"), Some(*self.chance.pick(&["t1", "t2", "t3"])));
        let change = match self.chance.next(4) {
            0 => Change::Mute(folder("fan"), at),
            1 => Change::EndSticky(folder("fan"), at),
            _ => Change::Unmute(folder("fan"), at),
        };
        Input::Configure(Configure::new(vec![change], Origin::Runtime))
    }

    /// A skill skips work and reports it in a file; such files are scanned.
    pub(super) fn skip(&mut self) {
        let agent = AgentId::new(1 + self.chance.next(5));
        let number = u8::try_from(self.chance.next(200)).unwrap();
        let report = SkipReport {
            digest: BlobId::of_digest(&[number; 32]),
            step: SkipStep::Number(i64::from(number)),
            reason: format!("reason {number}"),
            items: vec![format!("item-{}", number % 3)],
            kind: if number.is_multiple_of(2) { SkipKind::Technical } else { SkipKind::Policy },
            occurred: Timestamp::from_millis(self.world.now().wall.millis()),
        };
        let skill = format!("tessl__skill-{}", number % 4);
        let files = self.world.outside.skips.entry(agent).or_default();
        files.retain(|found| found.skill != skill);
        files.push(FoundSkip { skill, content: Ok(report) });
        let found = files.clone();
        if !self.chance.one_in(3) {
            self.put(Input::Group(agent, GroupInput::Skips(SkipLook { after: None, found, complete: true })));
        }
    }
}
