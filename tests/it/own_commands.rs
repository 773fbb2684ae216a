//! Commands that Hearth carries out itself: who may use them, what they answer, and what they change.

use hearth::model::configure::Change;
use hearth::model::delivery::{Author, Outbound};
use hearth::model::entity::{AgentSettings, Folder, Verbosity};
use hearth::model::id::{MessageId, SessionId};
use hearth::model::incarnation::StopReason;
use hearth::model::mailbox::RetryHint;
use hearth::model::message::{Completion, MessageState, Reason};
use hearth::model::report::{Action, Decision, Outcome};
use hearth::model::session::{SessionChoice, SessionSettings};
use hearth::model::task_command::NewTask;
use hearth::model::{Address, ChannelName, Effect, ForeignId, Millis};

use crate::world::lifecycle::answer;
use crate::world::outside::{claim, try_again};
use crate::world::routing::{ALWAYS, KEEP, MENTIONED, chat, decisions};
use crate::world::{World, event_in, schedules};

const S: SessionId = SessionId::new(1);

/// Ann is a member of `main`, Olga its owner. `C` is a group, `D` a private chat, `E` one whose session is shared.
const HOUSE: &str = r#"
[[agents]]
folder = "main"
name = "Andy"
model = "sonnet"
[[users]]
id = "net:ann"
name = "Ann"
member_of = ["main"]
[[users]]
id = "net:olga"
name = "Olga"
roles = ["owner"]
[[chats]]
channel = "net"
platform_id = "C"
group = true
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
[[chats]]
channel = "net"
platform_id = "D"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
[[chats]]
channel = "net"
platform_id = "E"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
session = "agent-shared"
"#;

struct SharedAgent {
    world: World,
    event: u32,
}

impl SharedAgent {
    fn new() -> Self {
        Self { world: World::of(HOUSE), event: 0 }
    }

    /// Says something, and returns what Hearth answers.
    fn says(&mut self, who: &str, chat: &str, text: &str) -> Vec<String> {
        self.event += 1;
        let before = self.notices().len();
        let sender = format!("\"senderId\":\"{who}\"");
        self.world.inject(&event_in(("net", chat, None), (&self.event.to_string(), text, &sender), ""));
        self.world.settle();
        self.world.assert_sound();
        self.notices().split_off(before)
    }

    /// Says something that has one answer.
    fn asks(&mut self, who: &str, chat: &str, text: &str) -> String {
        let mut answers = self.says(who, chat, text);
        assert_eq!(answers.len(), 1, "{text}: {answers:?}");
        answers.pop().unwrap()
    }

    fn notices(&self) -> Vec<String> {
        let is_hearths = |outbound: &Outbound| outbound.author == Author::Hearth;
        self.world.all_outbound().into_iter().map(|(_, one)| one).filter(is_hearths).map(|one| one.text).collect()
    }

    fn chosen(&self, session: SessionId) -> Option<SessionSettings> {
        self.world.read(|db, txn| db.session_settings.get(txn, &session))
    }

    /// The settings of the last start.
    fn launched(&self) -> AgentSettings {
        let launched = |effect: &Effect| match effect {
            Effect::Launch(launch) => Some(launch.settings.clone()),
            _ => None,
        };
        self.world.effects.iter().filter_map(launched).next_back().unwrap()
    }
}

#[test]
fn who_may_use_a_command_depends_on_the_person_and_the_chat() {
    let denied = |command: &str| format!("Permission denied: {command} requires admin access.");
    for (text, word, in_group, alone, shared) in [
        ("/help", "", true, true, true),
        ("/status", "", true, true, true),
        ("/usage", "", true, true, true),
        ("/tasks", "", true, true, true),
        ("/new", "/new", false, true, false),
        ("/model", "/model", false, false, false),
        ("/model opus", "/model", false, false, false),
        ("/think high", "/think", false, false, false),
        ("/approvals", "/approvals", false, false, false),
    ] {
        for (chat, may) in [("C", in_group), ("D", alone), ("E", shared)] {
            let mut setup = SharedAgent::new();
            assert_eq!(setup.asks("ann", chat, text) != denied(word), may, "{text} in {chat}");
            assert_ne!(setup.asks("olga", chat, text), denied(word), "{text} of the owner in {chat}");
            assert_eq!(setup.world.all_messages(), [], "no message for the agent");
            assert_eq!(setup.world.read(|db, txn| db.incarnations.len(txn)), 0, "nothing was started");
            // Strangers are not heard at all.
            assert_eq!(setup.says("eve", chat, text), [""; 0]);
        }
    }
}

#[test]
fn other_commands_go_to_the_agent_and_what_does_not_address_it_is_not_answered() {
    let mut setup = SharedAgent::new();
    for text in ["/review", "/models", "/newer", "say /status"] {
        let before = setup.world.all_messages().len();
        assert_eq!(setup.says("ann", "D", text), [""; 0]);
        assert_eq!(setup.world.all_messages().len(), before + 1, "{text}");
    }
    let mut world = World::of(&chat("public", &[("main", KEEP)]));
    for (id, more, decision, reason) in
        [("1", "", Decision::Filtered, Reason::CommandFiltered), ("2", MENTIONED, Decision::Done, Reason::OwnCommand)]
    {
        let report = world.inject(&event_in(("net", "C", None), (id, "@main /help", "\"senderId\":\"eve\""), more));
        assert_eq!(decisions(&report), [("main".to_owned(), decision, reason)]);
    }
    assert_eq!(world.all_outbound().len(), 1);
    // Two agents that say the same say it once.
    let mut world = World::of(&chat("public", &[("main", ALWAYS), ("other", ALWAYS)]));
    let report = world.inject(&event_in(("net", "C", None), ("1", "/help", ""), ""));
    assert_eq!((report.outcome, world.all_outbound().len()), (Outcome::Consumed, 1));
}

#[test]
fn a_model_is_chosen_for_one_conversation_and_given_back() {
    let mut setup = SharedAgent::new();
    assert_eq!(setup.asks("olga", "D", "/model"), "Model of Andy: sonnet. `/model NAME` chooses another one.");
    assert_eq!(
        setup.asks("olga", "D", "/think"),
        "Effort of Andy: the provider's default. `/think LEVEL` chooses another one."
    );
    setup.says("olga", "D", "hello");
    assert_eq!(setup.world.session(S).live, Some(1));
    answer(&mut setup.world, 1, 2);
    let told = setup.asks("olga", "D", "/model Opus[1m]");
    assert_eq!(told, "Model of Andy from its next turn on: Opus[1m], chosen for this conversation.");
    assert_eq!(setup.world.incarnation(S, 1).stopped_for, Some(StopReason::Renewed), "an idle run is replaced");
    assert_eq!(
        setup.asks("olga", "D", "/think high"),
        "Effort of Andy from its next turn on: high, chosen for this conversation."
    );
    setup.world.settle();
    let report = event_in(("net", "D", None), ("next", "hello", "\"senderId\":\"olga\""), "");
    setup.world.inject(&report);
    let settings = setup.launched();
    assert_eq!((settings.model.as_deref(), settings.effort.as_deref()), (Some("Opus[1m]"), Some("high")));
    setup.world.settle();
    let seq = setup.world.all_messages().last().unwrap().1.seq;
    answer(&mut setup.world, 1, seq);
    // Other conversations keep the agent's own.
    setup.world.inject(&event_in(("net", "C", None), ("other", "hello", "\"senderId\":\"olga\""), ""));
    assert_eq!(setup.launched().model.as_deref(), Some("sonnet"));
    setup.world.settle();
    let both = SessionSettings {
        model: Some("Opus[1m]".to_owned()),
        effort: Some("high".to_owned()),
        ..SessionSettings::default()
    };
    assert_eq!(setup.chosen(S), Some(both));
    assert_eq!(setup.asks("olga", "D", "/model DEFAULT"), "Model of Andy from its next turn on: sonnet.");
    setup.asks("olga", "D", "/think default");
    assert_eq!(setup.chosen(S), None, "nothing is left of it");
    let journal = setup.world.journal().concat();
    assert!(
        journal.contains("Chosen(Model(Some(\"Opus[1m]\")))") && journal.contains("Chosen(Effort(None))"),
        "{journal}"
    );
}

#[test]
fn a_bad_choice_changes_nothing() {
    let mut setup = SharedAgent::new();
    let long = "x".repeat(101);
    for (text, told) in [
        (
            format!("/model {long}"),
            "This was not changed: the name of a model is one word of at most 100 ASCII characters.",
        ),
        (
            "/think höher".to_owned(),
            "This was not changed: the name of an effort is one word of at most 100 ASCII characters.",
        ),
        ("/model two words".to_owned(), "Write `/model NAME` with one word, or `/model default`."),
        ("/new idea".to_owned(), "Write `/new` alone, and then your message."),
    ] {
        assert_eq!(setup.asks("olga", "D", &text), told);
    }
    assert_eq!(setup.world.read(|db, txn| db.session_settings.len(txn)), 0);
    // By command, with the same rules.
    let choose = |model: &str| Change::ChooseForSession(S, SessionChoice::named(SessionChoice::Model, model));
    let action =
        |setup: &mut SharedAgent, model: &str| setup.world.configure(vec![choose(model)]).map(|done| done[0].action);
    assert_eq!(action(&mut setup, "opus"), Ok(Action::Updated));
    assert_eq!(action(&mut setup, "opus"), Ok(Action::Unchanged));
    assert!(action(&mut setup, "").unwrap_err().message.contains("one word"));
    assert!(action(&mut setup, "a\u{1b}[1m").unwrap_err().message.contains("one word"));
    assert_eq!(action(&mut setup, "default"), Ok(Action::Updated));
    let verbose = SessionChoice::Verbosity(Some(Verbosity::Verbose));
    let done = setup.world.configure(vec![Change::ChooseForSession(S, verbose)]);
    assert_eq!(done.map(|done| done[0].action), Ok(Action::Updated));
    setup.world.inject(&event_in(("net", "D", None), ("next", "hello", "\"senderId\":\"olga\""), ""));
    assert_eq!(setup.launched().verbosity, Verbosity::Verbose);
    let nowhere = Change::ChooseForSession(SessionId::new(9), SessionChoice::Model(None));
    assert!(setup.world.configure(vec![nowhere]).unwrap_err().message.contains("session se9 not found"));
    setup.world.assert_sound();
}

#[test]
fn a_new_conversation_does_not_wait() {
    let mut setup = SharedAgent::new();
    assert_eq!(setup.asks("ann", "D", "/new"), "Andy was not asked anything here, so the conversation is new.");
    setup.says("ann", "D", "hello");
    let claims = setup.world.outside.write(S, vec![claim(2, 1)]);
    setup.world.put(claims);
    setup.world.settle();
    let told = setup.says("ann", "D", "/new");
    assert!(told.contains(&"Andy begins a new conversation with your next message.".to_owned()), "{told:?}");
    let stopped = setup.world.state_of(MessageId::new(1));
    assert!(matches!(stopped, MessageState::Completed { how: Completion::Stopped(Some(_)), .. }), "{stopped:?}");
    assert_eq!(setup.world.session(S).epoch, 1);
    // Without a turn.
    setup.says("ann", "D", "again");
    assert_eq!(setup.asks("ann", "D", "/new"), "Andy begins a new conversation with your next message.");
    assert_eq!(setup.world.session(S).epoch, 2);
}

#[test]
fn a_frozen_agent_answers_commands_and_tells_everyone_who_waits() {
    let mut setup = SharedAgent::new();
    setup.world.configure(vec![Change::FreezeAgent(Folder::new("main").unwrap())]).unwrap();
    for _ in 0..2 {
        let told = setup.asks("ann", "D", "hello");
        assert_eq!(
            told,
            "Your message waits: Andy was frozen by the operator. The answer comes when it may work again."
        );
    }
    let status = setup.asks("ann", "D", "/status");
    assert!(status.starts_with("Andy was frozen by the operator on "), "{status}");
    assert!(
        status.ends_with("\nWaiting: 2 messages.\nProvider: echo.\nModel: sonnet. Effort: the provider's default."),
        "{status}"
    );
    setup.world.configure(vec![Change::UnfreezeAgent(Folder::new("main").unwrap())]).unwrap();
    setup.world.settle();
    assert_eq!(setup.notices().len(), 3, "no notice afterwards");
}

#[test]
fn the_status_follows_what_the_agent_does() {
    let mut setup = SharedAgent::new();
    assert!(setup.asks("ann", "C", "/status").starts_with("Andy was not asked anything here.\nProvider"));
    setup.world.outside.startable = false;
    setup.says("ann", "C", "hello");
    assert!(setup.asks("ann", "C", "/status").starts_with("Andy cannot be started."));
    setup.world.outside.startable = true;
    setup.world.pass(Millis::minutes(60));
    setup.world.sweep();
    setup.world.settle();
    let number = setup.world.session(S).live.unwrap();
    let claims = setup.world.outside.write(S, vec![claim(2, number)]);
    setup.world.put(claims);
    assert!(setup.asks("ann", "C", "/status").starts_with("Andy is working here.\nProvider"));
    answer(&mut setup.world, 1, 2);
    assert!(setup.asks("ann", "C", "/status").starts_with("Andy is idle here.\nProvider"));
}

#[test]
fn usage_counts_messages_and_turns_of_today() {
    let mut setup = SharedAgent::new();
    assert_eq!(setup.asks("ann", "C", "/usage"), "Andy was not asked anything here.");
    setup.says("ann", "C", "one");
    answer(&mut setup.world, 1, 2);
    setup.says("olga", "C", "two");
    let told = setup.asks("ann", "C", "/usage");
    assert!(told.starts_with("Andy here, today: 2 messages, 1 turn.\nSince "), "{told}");
    assert!(told.ends_with(": 2 messages.\nCosts: not known in this chat."), "{told}");
    setup.world.step_clock(2 * 3_600_000);
    let told = setup.asks("ann", "C", "/usage");
    assert!(told.starts_with("Andy here, today: 2 messages, 1 turn.\nSince "), "a day has 24 hours: {told}");
    setup.world.step_clock(48 * 3_600_000);
    let told = setup.asks("ann", "C", "/usage");
    assert!(told.starts_with("Andy here, today: 0 messages, 0 turns.\nSince "), "{told}");
}

#[test]
fn tasks_of_other_chats_are_not_listed() {
    let mut setup = SharedAgent::new();
    assert_eq!(setup.asks("ann", "D", "/tasks"), "Tasks of Andy here: none.");
    let chat = |id: &str| Address {
        channel: ChannelName::new("net").unwrap(),
        platform_id: ForeignId::new("chat", id).unwrap(),
        thread: None,
    };
    for number in 0..10 {
        let prompt = format!("Water\nplant {number} {}", "x".repeat(100));
        let new = NewTask { reply: Some(chat("D")), prompt, ..schedules::new(&setup.world, 600, Some("1h")) };
        setup.world.put(schedules::add(new));
    }
    setup.world.put(schedules::add(NewTask { reply: Some(chat("C")), ..schedules::new(&setup.world, 600, None) }));
    let told = setup.asks("ann", "D", "/tasks");
    assert!(told.starts_with("Tasks of Andy here:\nta1 at 12:10: Water plant 0 xxx"), "{told}");
    assert!(told.ends_with("…\nand 2 more") && told.lines().count() == 10 && told.chars().count() < 1_200, "{told}");
    let told = setup.asks("ann", "C", "/tasks");
    assert!(told.starts_with("Tasks of Andy here:\nta11 at ") && told.ends_with(": Water the plants"), "{told}");
}

#[test]
fn a_choice_of_one_setting_leaves_the_other_to_the_agent() {
    let house = HOUSE.replace("model = \"sonnet\"", "model = \"sonnet\"\neffort = \"low\"");
    for (chosen, expected) in [("/think high", ("sonnet", "high")), ("/model opus", ("opus", "low"))] {
        let mut setup = SharedAgent { world: World::of(&house), event: 0 };
        setup.says("olga", "D", "hello");
        answer(&mut setup.world, 1, 2);
        setup.asks("olga", "D", chosen);
        setup.world.settle();
        setup.world.inject(&event_in(("net", "D", None), ("next", "hello", "\"senderId\":\"olga\""), ""));
        let settings = setup.launched();
        assert_eq!((settings.model.as_deref(), settings.effort.as_deref()), (Some(expected.0), Some(expected.1)));
        setup.world.settle();
    }
}

/// Those that wait for a retry wait like the others.
#[test]
fn the_status_counts_what_waits_for_a_retry() {
    let mut setup = SharedAgent::new();
    setup.says("ann", "C", "one");
    let turn = setup.world.outside.write(S, vec![claim(2, 1), try_again(2, vec![], 1, RetryHint::Later)]);
    setup.world.put(turn);
    setup.world.outside.startable = false;
    setup.world.settle();
    setup.says("ann", "C", "two");
    let status = setup.asks("ann", "C", "/status");
    assert!(status.contains("\nWaiting: 2 messages.\n"), "{status}");
}
