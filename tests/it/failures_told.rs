//! What people are told about failures: chats get texts without paths, programs and codes, and the owner gets the
//! details.

use hearth::model::channel::ChannelKind;
use hearth::model::delivery::Outbound;
use hearth::model::id::{MessageId, SessionId};
use hearth::model::incarnation::Exit;
use hearth::model::input::Input;
use hearth::model::mailbox::{CollectedRecord, Failure, Record, RetryHint};
use hearth::model::message::{MessageState, Reason};
use hearth::model::task::{Gated, TaskHome};
use hearth::model::task_command::NewTask;
use hearth::model::{Address, ChannelName, ForeignId, Millis};

use crate::world::lifecycle::pass;
use crate::world::outside::claim;
use crate::world::{World, channel, event_in, schedules};

const S: SessionId = SessionId::new(1);
const M: MessageId = MessageId::new(1);

/// An error as programs write it: a path, a program, a code.
const DETAIL: &str = "/opt/tool-x/bin/claude-x: error_no_entry (os error 2)";

/// Anna may talk to the agent in her chat; the owner has a chat, too.
const FAMILY: &str = r#"
[[agents]]
folder = "main"
[[users]]
id = "telegram:2000"
member_of = ["main"]
[[chats]]
channel = "telegram"
platform_id = "2000"
wirings = [{ agent = "main", engage = "pattern", pattern = "." }]
[[chats]]
channel = "telegram"
platform_id = "1000"
wirings = [{ agent = "main", engage = "pattern", pattern = "." }]
[[chats]]
channel = "telegram"
platform_id = "-3000"
group = true
unknown_senders = "public"
wirings = [{ agent = "main", engage = "pattern", pattern = "." }]
"#;
const OWNER: &str = "[[users]]\nid = \"telegram:1000\"\nroles = [\"owner\"]\n";
const TERMINAL: &str = "[[chats]]\nchannel = \"terminal\"\nplatform_id = \"main\"\nunknown_senders = \"public\"\n\
                        wirings = [{ agent = \"main\", engage = \"pattern\", pattern = \".\" }]\n";

/// How a message fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    NotStarted,
    Refused,
    TriedTooOften,
    Crashed,
    Overloaded,
    OverloadedForADay,
    Task,
    Script,
}

const CASES: [Case; 8] = [
    Case::NotStarted,
    Case::Refused,
    Case::TriedTooOften,
    Case::Crashed,
    Case::Overloaded,
    Case::OverloadedForADay,
    Case::Task,
    Case::Script,
];

impl Case {
    /// A text that the details contain.
    fn detail(self) -> &'static str {
        match self {
            Self::Crashed => "signal 11",
            _ => DETAIL,
        }
    }

    /// Whether the owner is told of a failure in another chat. A provider's rate limit is no failure.
    fn is_for_owner(self) -> bool {
        self != Self::Overloaded
    }
}

fn world(more: &str) -> World {
    let mut world = World::new();
    world.configure(vec![channel("telegram", ChannelKind::Telegram)]).unwrap();
    world.apply(&format!("{FAMILY}{more}"));
    DETAIL.clone_into(&mut world.outside.start_error);
    world
}

fn at(channel: &str, chat: &str) -> Address {
    let platform_id = ForeignId::new("chat", chat).unwrap();
    Address { channel: ChannelName::new(channel).unwrap(), platform_id, thread: None }
}

/// The agent ends its turn with this message, and fails.
fn fail(world: &mut World, seq: u64, again: RetryHint) {
    let number = world.session(S).live.unwrap();
    let failure = Some(Failure { error: DETAIL.to_owned(), again });
    end(world, (seq, number), failure, None);
}

fn end(world: &mut World, (seq, incarnation): (u64, u32), failure: Option<Failure>, gated: Option<Gated>) {
    let record = Record::End { seq, also: vec![], incarnation, failure, gated, answers: vec![] };
    let over = CollectedRecord { record, files: vec![format!("ack/{seq}.{incarnation}.json")] };
    let turn = world.outside.write(S, vec![claim(seq, incarnation), over]);
    world.put(turn);
    world.settle();
}

/// Makes a message in a chat fail in this way.
fn provoke(world: &mut World, case: Case, place: &Address) {
    world.outside.startable = case != Case::NotStarted;
    let (channel, chat) = (place.channel.as_str(), place.platform_id.as_str());
    let sender = if chat.starts_with('-') { "2000" } else { chat };
    world.inject(&event_in((channel, chat, None), ("m1", "hello", &format!("\"senderId\":{sender:?}")), ""));
    world.settle();
    match case {
        Case::NotStarted => pass(world, 100),
        Case::Refused => fail(world, 2, RetryHint::Never),
        Case::TriedTooOften | Case::Crashed => {
            for _ in 0..6 {
                let number = world.session(S).live.unwrap();
                if case == Case::TriedTooOften {
                    fail(world, 2, RetryHint::Later);
                } else {
                    let claims = world.outside.write(S, vec![claim(2, number)]);
                    world.put(claims);
                    let gone = world.outside.end(S, number, Exit::Signal(11));
                    world.put(gone);
                    world.settle();
                }
                pass(world, 100);
            }
            assert!(matches!(world.state_of(M), MessageState::Failed { .. }));
        }
        Case::Overloaded => fail(world, 2, RetryHint::Wait(Some(Millis::minutes(5)))),
        Case::OverloadedForADay => {
            fail(world, 2, RetryHint::Wait(Some(Millis::days(1))));
            world.pass(Millis::days(1));
            world.sweep();
            world.settle();
            fail(world, 2, RetryHint::Wait(None));
            assert!(matches!(world.state_of(M), MessageState::Failed { .. }));
        }
        Case::Task | Case::Script => {
            let number = world.session(S).live.unwrap();
            end(world, (2, number), None, None);
            let script = (case == Case::Script).then(|| "exit 1".to_owned());
            let (home, reply) = (TaskHome::Session(S), Some(place.clone()));
            world.put(schedules::add(NewTask { home, script, reply, ..schedules::new(world, 60, Some("10m")) }));
            for _ in 0..3 {
                world.pass(Millis::minutes(10));
                world.sweep();
                world.settle();
                let seq = world.all_messages().pop().unwrap().1.seq;
                let number = world.session(S).live.unwrap();
                let failure =
                    (case == Case::Task).then(|| Failure { error: DETAIL.to_owned(), again: RetryHint::Never });
                let gated = (case == Case::Script).then(|| Gated { why: DETAIL.to_owned(), failed: true });
                end(world, (seq, number), failure, gated);
            }
        }
    }
}

fn texts(world: &World, place: &Address) -> Vec<String> {
    let told = |outbound: Outbound| (outbound.to.as_ref() == Some(place)).then_some(outbound.text);
    world.all_outbound().into_iter().filter_map(|(_, outbound)| told(outbound)).collect()
}

/// Asserts that a text reveals nothing about the machine.
fn assert_plain(text: &str, context: &str) {
    let has_code = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word.contains('_'));
    assert!(!text.contains('/') && !has_code, "{context}: {text}");
    for detail in ["claude-x", "tool-x", "os error", "signal", "SIGSEGV", "529", "429"] {
        assert!(!text.contains(detail), "{context}: {text}");
    }
}

/// The rule, for a direct chat of a member and for a group, with an owner who has a chat, one at the terminal, both,
/// and none.
#[test]
fn a_chat_gets_words_and_the_owner_gets_the_details() {
    let (direct, terminal) = (at("telegram", "1000"), at("terminal", "main"));
    for place in [at("telegram", "2000"), at("telegram", "-3000")] {
        for (more, owners) in [
            (OWNER.to_owned(), vec![&direct]),
            (TERMINAL.to_owned(), vec![&terminal]),
            (format!("{OWNER}{TERMINAL}"), vec![&direct, &terminal]),
            (String::new(), vec![]),
        ] {
            for case in CASES {
                let context = format!("{case:?} in {}, {} owners", place.platform_id, owners.len());
                let mut world = world(&more);
                provoke(&mut world, case, &place);
                let told = texts(&world, &place);
                assert!(!told.is_empty(), "{context}");
                for text in &told {
                    assert_plain(text, &context);
                    let names_command = text.contains("`hearth ");
                    assert_eq!(names_command, owners.is_empty() && !text.contains("waits:"), "{context}: {text}");
                    let owner_told = text.contains("its owner has been told");
                    assert_eq!(owner_told, !owners.is_empty() && !text.contains("waits:"), "{context}: {text}");
                }
                for owner in [&direct, &terminal] {
                    let found = texts(&world, owner).iter().any(|text| text.contains(case.detail()));
                    assert_eq!(found, owners.contains(&owner) && case.is_for_owner(), "{context}: {owner:?}");
                }
            }
        }
    }
}

/// The owner's chat shows the failure itself.
#[test]
fn an_owner_sees_the_details_in_their_own_chat() {
    for place in [at("telegram", "1000"), at("terminal", "main")] {
        for case in CASES {
            let mut world = world(&format!("{OWNER}{TERMINAL}"));
            provoke(&mut world, case, &place);
            let told = texts(&world, &place);
            assert!(told.iter().any(|text| text.contains(case.detail())), "{case:?}: {told:?}");
        }
    }
}

#[test]
fn the_words_of_each_failure() {
    for (case, owned, alone) in [
        (
            Case::NotStarted,
            "The agent is not available; its owner has been told. Your message waits until the agent works again.",
            "The agent is not available. Its owner can find out why with `hearth why ms1`. Your message waits until the \
             agent works again.",
        ),
        (
            Case::Refused,
            "The agent could not process your message; its owner has been told.",
            "The agent could not process your message. Its owner can find out why with `hearth why ms1`.",
        ),
        (
            Case::Overloaded,
            "Your message waits: the agent's provider is overloaded or limits its use. The answer comes later, at about \
             12:05 at the earliest.",
            "",
        ),
        (
            Case::Task,
            "The agent could not do the scheduled task ta1; its owner has been told.",
            "The agent could not do the scheduled task ta1. Its owner can find out why with `hearth why ms2`.",
        ),
        (
            Case::Script,
            "The agent failed several times in a row at the scheduled task ta1; its owner has been told.",
            "The agent failed several times in a row at the scheduled task ta1. Its owner can find out why with `hearth \
             tasks history ta1`.",
        ),
    ] {
        let anna = at("telegram", "2000");
        for (more, text) in [(OWNER, owned), ("", if alone.is_empty() { owned } else { alone })] {
            let mut world = world(more);
            provoke(&mut world, case, &anna);
            assert_eq!(texts(&world, &anna).first().map(String::as_str), Some(text));
        }
    }
}

/// Repeated failures of an agent in a chat do not flood the owner; a different failure is reported.
#[test]
fn the_owner_is_told_the_same_once_an_hour() {
    let (anna, owner) = (at("telegram", "2000"), at("telegram", "1000"));
    let mut world = world(OWNER);
    provoke(&mut world, Case::Refused, &anna);
    let words = "Agent main could not process a message from telegram/2000: ";
    let first = format!("{words}{DETAIL}. See `hearth why ms1`.");
    assert_eq!(texts(&world, &owner), [first.as_str()]);
    let again = |world: &mut World, id: u64, error: &str| {
        let sender = "\"senderId\":\"2000\"";
        world.inject(&event_in(("telegram", "2000", None), (&format!("m{id}"), "hello", sender), ""));
        world.settle();
        let number = world.session(S).live.unwrap();
        let failure = Some(Failure { error: error.to_owned(), again: RetryHint::Never });
        end(world, (id * 2, number), failure, None);
    };
    again(&mut world, 2, DETAIL);
    assert_eq!((texts(&world, &anna).len(), texts(&world, &owner).len()), (2, 1));
    again(&mut world, 3, "another error");
    assert_eq!(texts(&world, &owner)[1], format!("{words}another error. See `hearth why ms3`."));
    world.pass(Millis::minutes(61));
    again(&mut world, 4, DETAIL);
    assert_eq!(texts(&world, &owner)[2], format!("{words}{DETAIL}. See `hearth why ms4`."));
}

/// A group is no direct chat, even if its id were that of an owner.
#[test]
fn a_group_with_the_id_of_an_owner_shows_no_details() {
    let mut world = world("");
    world.apply(
        &format!("{}{OWNER}", FAMILY.replace("-3000", "1001").replace("\"1000\"", "\"999\""))
            .replace("telegram:1000", "telegram:1001"),
    );
    let group = at("telegram", "1001");
    provoke(&mut world, Case::Refused, &group);
    assert_plain(&texts(&world, &group)[0], "a group");
}

/// An agent whose chat is not the owner's learns that packages were not installed, but not the output of the build.
#[test]
fn an_agent_passes_no_output_of_a_build_on() {
    use crate::world::requests::{S, ask, decide, main_agent, newest, packages, working_in};
    let mut world = working_in(World::building());
    ask(&mut world, "p", packages());
    decide(&mut world, "approve");
    let (agent, installs) = (world.session(S).agent, main_agent(&world).settings.packages);
    world.put(Input::Built(agent, installs, Err(DETAIL.to_owned())));
    world.settle();
    let text = newest(&world).1.content.text;
    assert!(!text.contains("tool-x") && text.contains("the owner sees why with `hearth image build main`"), "{text}");
}

/// Messages that are refused in every way that has an answer or tells the owner.
const REFUSED: [(&str, &str, &str); 8] = [
    ("2000", "2000", "/config"),
    ("2000", "2000", "/clear"),
    ("2000", "2000", "/stop all"),
    ("2000", "2000", "/model nonsense"),
    ("-3000", "4000", "/clear"),
    ("4000", "4000", "hello"),
    ("-4000", "4000", "hello"),
    ("1000", "1000", "/nonsense"),
];

/// What people read in chats has no code of a reason.
#[test]
fn refusals_are_told_in_words() {
    for owner in ["", OWNER] {
        let mut world = world(owner);
        for (number, (chat, sender, text)) in REFUSED.into_iter().enumerate() {
            let id = format!("m{number}");
            let said = (id.as_str(), text, &*format!("\"senderId\":{sender:?}"));
            world.inject(&event_in(("telegram", chat, None), said, "\"isMention\":true"));
            world.settle();
        }
        let all = world.all_outbound();
        assert!(all.len() > 2, "{all:#?}");
        for (_, one) in &all {
            let shown = format!("{} {}", one.text, one.content.as_str());
            let words: Vec<&str> = shown.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
            let codes = Reason::ALL.map(Reason::as_str);
            let leaked: Vec<_> = codes.iter().filter(|code| code.contains('_') && words.contains(code)).collect();
            assert!(leaked.is_empty(), "{leaked:?}: {shown}");
        }
    }
}
