//! Reference for questions: who may answer one, whom the answer reaches, and when it expires.

use hearth::model::approval::{Decider, Question, QuestionState};
use hearth::model::card::{Button, CardOption, PromptSubject};
use hearth::model::configure::Change;
use hearth::model::delivery::DeliveryResult;
use hearth::model::entity::Folder;
use hearth::model::id::{QuestionId, SessionId};
use hearth::model::input::Press;
use hearth::model::mailbox::{Recipient, Said};
use hearth::model::report::Reply;
use hearth::model::request::{NewQuestion, Request, RequestedAction};
use hearth::model::{Address, ChannelName, ForeignId, Input, Millis, UserId};
use proptest::prelude::*;

use crate::world::chance::cases;
use crate::world::outside::{claim, mid_turn, said};
use crate::world::{World, event_in};

/// Everyone whom the agent knows may talk to it here, and so may answer it.
const HOUSE: &str = r#"
[[agents]]
folder = "a"
[[users]]
id = "net:boss"
roles = ["owner"]
[[users]]
id = "net:ann"
member_of = ["a"]
[[chats]]
channel = "net"
platform_id = "C"
group = true
unknown_senders = "strict"
[[chats.wirings]]
agent = "a"
engage = "pattern"
pattern = "."
"#;

const PEOPLE: [&str; 3] = ["net:boss", "net:ann", "net:stranger"];
const TITLES: [&str; 2] = ["Deploy?", "Wait?"];
const OPTIONS: [&str; 2] = ["yes", "no"];

const S: SessionId = SessionId::new(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Open,
    /// The person and the option with these numbers.
    Answered(usize, usize),
    Lapsed,
}

#[derive(Debug)]
struct Asked {
    title: usize,
    /// The incarnation that waits for the answer, and the number of its request.
    by: (u32, u64),
    until: u64,
    fate: Fate,
}

/// An agent that asks, and people.
#[derive(Debug, Default)]
struct Desk {
    now: u64,
    live: u32,
    asked: Vec<Asked>,
    /// Messages: answers that no run waited for, and typed words that answered no question.
    wakes: usize,
    /// The reply to each waiting run: the number of its question, and whether it is an answer.
    told: Vec<(u64, bool)>,
}

impl Desk {
    /// A question of an earlier run that is still open is not asked twice: the new run takes it over.
    fn ask(&mut self, title: usize, number: u64, seconds: u64) {
        let (by, until) = ((self.live, number), self.now + seconds.min(24 * 3_600));
        let left = |asked: &&mut Asked| {
            asked.fate == Fate::Open && asked.title == title && asked.by.0 != by.0 && asked.until > self.now
        };
        match self.asked.iter_mut().filter(left).min_by_key(|asked| asked.until) {
            Some(asked) => (asked.by, asked.until) = (by, until),
            None => self.asked.push(Asked { title, by, until, fate: Fate::Open }),
        }
    }

    /// The first timely answer from a person who may talk to the agent counts. Returns whether it does.
    fn answer(&mut self, at: usize, who: usize, option: usize) -> bool {
        let asked = &mut self.asked[at];
        if asked.fate != Fate::Open || asked.until <= self.now || PEOPLE[who] == "net:stranger" {
            return false;
        }
        asked.fate = Fate::Answered(who, option);
        match asked.by {
            (by, number) if by == self.live => self.told.push((number, true)),
            _ => self.wakes += 1,
        }
        true
    }

    /// A typed option answers the only open question. If several are open, Hearth asks back; if none is, the text is a
    /// message for the agent. A stranger is not heard here.
    fn types(&mut self, who: usize, option: usize) {
        let open: Vec<usize> = (0..self.asked.len()).filter(|at| self.asked[*at].fate == Fate::Open).collect();
        match (PEOPLE[who], open.as_slice()) {
            ("net:stranger", _) => {}
            (_, []) => self.wakes += 1,
            (_, [only]) => assert!(self.answer(*only, who, option)),
            _ => {}
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += seconds;
        for asked in self.asked.iter_mut().filter(|asked| asked.fate == Fate::Open && asked.until <= self.now) {
            asked.fate = Fate::Lapsed;
            if asked.by.0 == self.live {
                self.told.push((asked.by.1, false));
            }
        }
    }

    fn next_incarnation(&mut self) {
        self.live += 1;
        self.told.clear();
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The question's number, and its lifetime in seconds.
    Ask(usize, u64),
    Answer(usize, usize, usize),
    /// A person types an option.
    Type(usize, usize),
    /// Seconds.
    Pass(u64),
    /// The agent is restarted, and begins its turn again.
    Restart,
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..TITLES.len(), prop_oneof![Just(60_u64), Just(600), Just(999_999)]).prop_map(|(title, s)| Step::Ask(title, s)),
        5 => (any::<usize>(), 0..PEOPLE.len(), 0..OPTIONS.len()).prop_map(|(at, who, option)| Step::Answer(at, who, option)),
        2 => (0..PEOPLE.len(), 0..OPTIONS.len()).prop_map(|(who, option)| Step::Type(who, option)),
        3 => prop_oneof![Just(7_u64), Just(41), Just(25)].prop_map(Step::Pass),
        1 => Just(Step::Pass(25 * 3_600)),
        2 => Just(Step::Restart),
    ]
}

struct Pair {
    desk: Desk,
    world: World,
    /// Number of the last event.
    event: u32,
}

impl Pair {
    fn new() -> Self {
        let mut world = World::new();
        world.apply(HOUSE);
        world.outside.channel = Box::new(|delivery| {
            let id = ForeignId::new("message", format!("p{}", delivery.id)).unwrap();
            Some(DeliveryResult::Delivered { platform_message: Some(id) })
        });
        world.inject(&event_in(("net", "C", None), ("1", "hello", "\"senderId\":\"ann\""), ""));
        world.settle();
        let mut pair = Self { desk: Desk { live: 1, ..Desk::default() }, world, event: 1 };
        pair.begin();
        pair
    }

    /// The incarnation that lives takes the message again.
    fn begin(&mut self) {
        let input = self.world.outside.write(S, vec![claim(2, self.desk.live)]);
        self.world.put(input);
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Ask(title, seconds) => self.ask(title, seconds),
            Step::Answer(at, who, option) if !self.desk.asked.is_empty() => {
                self.answer(at % self.desk.asked.len(), who, option)?;
            }
            Step::Answer(..) => {}
            Step::Type(who, option) => {
                self.event += 1;
                let sender = PEOPLE[who].strip_prefix("net:").unwrap();
                let sender = format!("\"senderId\":\"{sender}\"");
                let text = format!(" {} ", OPTIONS[option].to_uppercase());
                self.world.inject(&event_in(("net", "C", None), (&self.event.to_string(), &text, &sender), ""));
                self.desk.types(who, option);
            }
            Step::Pass(seconds) => {
                // No awake time passes, so no agent is stopped for its age.
                self.world.step_clock(i64::try_from(seconds * 1_000).unwrap());
                self.world.sweep();
                self.desk.pass(seconds);
            }
            Step::Restart => {
                self.world.configure(vec![Change::RestartAgent(Folder::new("a").unwrap(), None)]).unwrap();
                self.world.settle();
                self.desk.next_incarnation();
                prop_assert_eq!(self.world.outside.running.get(&S), Some(&self.desk.live));
                self.begin();
            }
        }
        self.world.settle();
        self.compare()
    }

    fn ask(&mut self, title: usize, seconds: u64) {
        let number = self.world.session(S).next_agent_number();
        let option =
            |word: &&str| CardOption { label: (**word).into(), chosen: (**word).into(), value: (**word).into() };
        let request = Request::Question(NewQuestion {
            title: TITLES[title].into(),
            body: "Now".into(),
            options: OPTIONS.iter().map(option).collect(),
            timeout: Millis::seconds(seconds),
        });
        let words = said(number, self.desk.live, Some(2), Recipient::Reply);
        let action = RequestedAction::Request(Box::new(request));
        let words = Said { action, request: Some(number.to_string()), ..words };
        let input = self.world.outside.write(S, vec![mid_turn(words)]);
        self.world.put(input);
        self.desk.ask(title, number, seconds);
    }

    fn answer(&mut self, at: usize, who: usize, option: usize) -> Result<(), TestCaseError> {
        let (id, question) = self.questions().swap_remove(at);
        let at_chat = Address {
            channel: ChannelName::new("net").unwrap(),
            platform_id: ForeignId::new("chat", "C").unwrap(),
            thread: None,
        };
        let button = Button {
            matter: PromptSubject::Question(id),
            nonce: question.nonce,
            option: u32::try_from(option).unwrap(),
        };
        let press = Press { by: UserId::parse(PEOPLE[who]).unwrap(), at: at_chat, button };
        let Reply::Answered { decided, .. } = self.world.put(Input::Pressed(press)) else { panic!() };
        prop_assert_eq!(decided, self.desk.answer(at, who, option));
        Ok(())
    }

    fn questions(&self) -> Vec<(QuestionId, Question)> {
        self.world.read(|db, txn| db.questions.iter(txn)?.collect())
    }

    /// Every question is in the expected state, waiting runs have their replies, and other answers start the next run.
    fn compare(&self) -> Result<(), TestCaseError> {
        let rows = self.questions();
        prop_assert_eq!(rows.len(), self.desk.asked.len());
        for ((_, row), asked) in rows.iter().zip(&self.desk.asked) {
            let fate = match &row.state {
                QuestionState::Open => Fate::Open,
                QuestionState::Expired { .. } => Fate::Lapsed,
                QuestionState::Answered { by: Decider::Person(by), value, .. } => {
                    let who = PEOPLE.iter().position(|who| by.to_string() == *who);
                    Fate::Answered(who.unwrap(), OPTIONS.iter().position(|option| option == value).unwrap())
                }
                QuestionState::Answered { by: Decider::Operator, .. } => panic!("{row:?}"),
            };
            prop_assert_eq!((fate, row.incarnation, row.number), (asked.fate, asked.by.0, asked.by.1));
        }
        let triggers = self.world.all_messages().into_iter().filter(|(_, message)| message.trigger).count();
        prop_assert_eq!(triggers, 1 + self.desk.wakes);
        let replies = self.world.outside.replies.get(&S).cloned().unwrap_or_default();
        for (number, answered) in &self.desk.told {
            let reply = replies.get(&number.to_string()).map(Result::is_ok);
            prop_assert_eq!(reply, Some(*answered), "{} in {:?}", number, replies);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(48))]

    /// Any sequence of questions and answers ends as in the reference.
    #[test]
    fn questions_are_their_reference(steps in proptest::collection::vec(a_step(), 1..30)) {
        let mut pair = Pair::new();
        for step in steps {
            pair.step(step)?;
        }
    }
}
