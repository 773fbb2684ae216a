//! Searches over what was said: who finds what, and when something is not found any more.

use hearth::engine::recall::{Asked, Viewer, search};
use hearth::model::address::{ChannelName, ForeignId, UserId};
use hearth::model::card::PromptSubject;
use hearth::model::channel::ChannelKind;
use hearth::model::configure::Change;
use hearth::model::entity::Folder;
use hearth::model::id::{AgentId, ChatId, SessionId};
use hearth::model::mailbox::Recipient;
use hearth::model::task_command::NewTask;
use hearth::model::{Input, Millis};
use hearth::time::zone::Zone;

use crate::world::outside::{claim, end, mid_turn, said};
use crate::world::{ONE, World, channel, event, event_in, schedules};

/// Two agents in chat `C`, the first one also in `D`; an owner, and an administrator of the second one.
const TWO: &str = r#"
[[agents]]
folder = "main"
[[agents]]
folder = "other"
name = "Helper"
[[users]]
id = "net:boss"
roles = ["owner"]
[[users]]
id = "net:ed"
roles = ["admin:other"]
[[chats]]
channel = "net"
platform_id = "C"
unknown_senders = "public"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
[[chats.wirings]]
agent = "other"
engage = "pattern"
pattern = "^other"
[[chats]]
channel = "net"
platform_id = "D"
name = "Der Garten"
unknown_senders = "strict"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
"#;

fn found(world: &World, viewer: &Viewer, query: &str) -> Vec<String> {
    found_in(world, viewer, query, (None, None))
}

/// What is found of an agent or in a chat.
fn found_in(world: &World, viewer: &Viewer, query: &str, place: (Option<u64>, Option<u64>)) -> Vec<String> {
    let asked = Asked {
        query,
        agent: place.0.map(AgentId::new),
        chat: place.1.map(ChatId::new),
        after: None,
        before: None,
        most: 20,
        now: world.now().wall,
        zone: &Zone::utc(),
    };
    let found = world.read(|db, txn| search(db, txn, viewer, &asked)).unwrap();
    found.texts.into_iter().map(|text| format!("{} {}: {}", text.id, text.who, text.excerpt.text)).collect()
}

fn person(id: &str) -> Viewer {
    Viewer::Person(UserId::parse(id).unwrap())
}

const SESSION: Viewer = Viewer::Session(SessionId::new(1));

/// Session 1 answers its first message.
fn answer(world: &mut World) {
    world.settle();
    let session = SessionId::new(1);
    let turn = vec![claim(2, 1), mid_turn(said(3, 1, Some(2), Recipient::Reply)), end(2, 1, vec![])];
    let written = world.outside.write(session, turn);
    world.put(written);
    world.settle();
}

#[test]
fn an_agent_finds_its_own_chat_and_people_what_their_roles_show() {
    let mut world = World::of(TWO);
    world.inject(&event("1", "the boiler is broken", ""));
    world.inject(&event("2", "other: order a boiler", ""));
    world.inject(&event_in(("net", "D", None), ("3", "boiler, says the owner", "\"senderId\":\"boss\""), ""));
    let mut mine = found(&world, &SESSION, "boiler");
    mine.sort();
    assert_eq!(mine, ["ms1 Ann: the boiler is broken", "ms2 Ann: other: order a boiler"]);
    let other = world.read(|db, txn| {
        let of = db.sessions_by_agent.collect_prefix(txn, &AgentId::new(2), 9)?;
        Ok(Viewer::Session(of[0].0.id))
    });
    assert_eq!(found(&world, &other, "boiler"), ["ms3 Ann: other: order a boiler"]);
    // Wider, the second agent still finds nothing of the first one, and the first one nothing of the second.
    world.apply(&TWO.replace("folder = \"other\"", "folder = \"other\"\nrecall = \"agent\""));
    assert_eq!(found(&world, &other, "boiler"), ["ms3 Ann: other: order a boiler"]);
    world.apply(&TWO.replace("folder = \"main\"", "folder = \"main\"\nrecall = \"agent\""));
    let mut all = found(&world, &SESSION, "boiler");
    all.sort();
    assert_eq!(
        all,
        ["ms1 Ann: the boiler is broken", "ms2 Ann: other: order a boiler", "ms4 net:boss: boiler, says the owner"]
    );
    // A message to two agents is one text for people.
    assert_eq!(found(&world, &Viewer::Operator, "boiler").len(), 3);
    assert_eq!(found(&world, &person("net:boss"), "boiler").len(), 3);
    assert_eq!(found(&world, &person("net:ed"), "boiler"), ["ms3 Ann: other: order a boiler"]);
    assert_eq!(found(&world, &person("net:ann"), "boiler"), [""; 0]);
    for (query, count) in [
        ("\"boiler is\"", 1),
        ("\"is boiler\"", 0),
        ("boil*", 3),
        ("boiler who:ann", 2),
        ("who:agent", 0),
        ("boiler chat:net/D", 1),
        ("boiler chat:mg2", 1),
        ("boiler chat:garten", 1),
        ("boiler chat:net", 3),
        ("boiler chat:main", 0),
        ("boiler agent:other", 1),
        ("boiler agent:helper", 1),
        ("boiler agent:ag2", 1),
        ("boiler agent:no", 0),
        ("boiler after:1d", 3),
        ("boiler before:1d", 0),
        ("boiler has:file", 0),
        ("BÖILER", 3),
    ] {
        assert_eq!(found(&world, &Viewer::Operator, query).len(), count, "{query}");
    }
    for (place, count) in [((Some(1), None), 3), ((Some(2), None), 1), ((None, Some(2)), 1), ((Some(2), Some(2)), 0)] {
        assert_eq!(found_in(&world, &Viewer::Operator, "boiler", place).len(), count, "{place:?}");
    }
}

/// Besides what their roles show, people find what they wrote alone with Hearth, and in the console.
#[test]
fn people_find_their_own_chats() {
    let mut toml = TWO.to_owned();
    toml += "[[users]]\nid = \"net:gil\"\nroles = [\"admin\"]\n[[users]]\nid = \"net:dan\"\nmember_of = [\"main\"]\n";
    let places = [
        // A direct chat has the address of its person, or another one that the channel said.
        ("net", "ann", false),
        ("net", "opened-for-cem", false),
        // A group is not a direct chat, whatever its address is.
        ("net", "bob", true),
        ("console", "main/net:dan", false),
        ("console", "other/net:dan", false),
        // The address of a chat in the console on another channel is nothing of the kind.
        ("net", "main/net:dan", false),
    ];
    for (channel, chat, group) in places {
        toml += &format!(
            "[[chats]]\nchannel = {channel:?}\nplatform_id = {chat:?}\ngroup = {group}\nunknown_senders = \"public\"\n\
             [[chats.wirings]]\nagent = \"main\"\nengage = \"pattern\"\npattern = \".\"\n"
        );
    }
    let mut world = World::of(&toml);
    let cem = UserId::parse("net:cem").unwrap();
    world.put(Input::DirectOpened(cem, Ok(ForeignId::new("chat", "opened-for-cem").unwrap())));
    world.inject(&event("0", "other: a boiler", ""));
    for (number, (channel, chat, _)) in places.into_iter().enumerate() {
        let (id, text) = (number.to_string(), format!("boiler in {channel} {chat}"));
        world.inject(&event_in((channel, chat, None), (&id, &text, "\"senderId\":\"net:zoe\""), ""));
    }
    for (who, expected) in [
        ("ann", vec!["net ann"]),
        ("bob", vec![]),
        ("cem", vec!["net opened-for-cem"]),
        ("dan", vec!["console main/net:dan"]),
        ("eve", vec![]),
    ] {
        let found = found(&world, &person(&format!("net:{who}")), "boiler");
        let places: Vec<&str> = found.iter().map(|text| text.split_once(" in ").unwrap().1).collect();
        assert_eq!(places, expected, "{who}");
    }
    for (who, count) in [("boss", 7), ("gil", 7), ("ed", 1)] {
        assert_eq!(found(&world, &person(&format!("net:{who}")), "boiler").len(), count, "{who}");
    }
    // Who is no member any more cannot open the chat in the console either.
    world
        .configure(vec![Change::RemoveMember(Folder::new("main").unwrap(), UserId::parse("net:dan").unwrap())])
        .unwrap();
    assert_eq!(found(&world, &person("net:dan"), "boiler"), [""; 0]);
}

/// A session for all chats of an agent finds all of them. One that belongs to no chat, as that of tasks, finds only itself.
#[test]
fn a_session_without_a_chat_finds_all_chats_or_none() {
    let mut world = World::of(&TWO.replace("pattern = \".\"", "pattern = \".\"\nsession = \"agent-shared\""));
    world.inject(&event("1", "the boiler is broken", ""));
    world.inject(&event_in(("net", "D", None), ("2", "boiler, says the owner", "\"senderId\":\"boss\""), ""));
    world.put(schedules::add(NewTask { prompt: "Heat the boiler".to_owned(), ..schedules::new(&world, 60, None) }));
    world.pass(Millis::minutes(2));
    world.sweep();
    let of_task = world.all_messages().last().unwrap().1.session;
    assert_ne!(of_task, SessionId::new(1));
    assert_eq!(found(&world, &SESSION, "boiler").len(), 3);
    assert_eq!(found(&world, &Viewer::Session(of_task), "boiler"), ["ms3 task: Heat the boiler"]);
}

/// The same words said long ago count less, and in a session, what was said in its own chat counts more.
#[test]
fn new_texts_and_those_of_the_own_chat_come_first() {
    let mut world = World::of(&TWO.replace("folder = \"main\"", "folder = \"main\"\nrecall = \"agent\""));
    let said = |world: &mut World, chat, id, by| {
        world.inject(&event_in(
            ("net", chat, None),
            (id, "the boiler is broken", &format!("\"senderId\":\"{by}\"")),
            "",
        ));
    };
    said(&mut world, "C", "1", "boss");
    world.pass(Millis::days(300));
    said(&mut world, "D", "2", "boss");
    let first = |viewer: &Viewer| found(&world, viewer, "boiler")[0].clone();
    assert_eq!(first(&Viewer::Operator), "ms2 net:boss: the boiler is broken", "the new one");
    assert_eq!(first(&SESSION), "ms1 net:boss: the boiler is broken", "the one of its own chat, though it is old");
    assert_eq!(first(&Viewer::Session(SessionId::new(2))), "ms2 net:boss: the boiler is broken");
}

#[test]
fn answers_are_found_and_removed_chats_and_agents_are_not() {
    let (channel, chat) = (ChannelName::new("net").unwrap(), ForeignId::new("chat", "C").unwrap());
    for removed in [Change::RemoveChat(channel, chat), Change::RemoveAgent(Folder::new("main").unwrap())] {
        answers_are_found_until(removed);
    }
}

fn answers_are_found_until(removed: Change) {
    let mut world = World::of(ONE);
    world.inject(&event("1", "what about the train?", ""));
    answer(&mut world);
    let said = world.all_outbound().into_iter().next().unwrap().1.text;
    let word = said.split(' ').max_by_key(|word| word.len()).unwrap();
    assert_eq!(found(&world, &SESSION, &format!("{word} who:agent")).len(), 1, "{said}");
    assert_eq!(found(&world, &SESSION, "train"), ["ms1 Ann: what about the train?"]);
    world.configure(vec![removed]).unwrap();
    assert_eq!(found(&world, &SESSION, "train"), [""; 0]);
    assert_eq!(found(&world, &Viewer::Operator, "train"), [""; 0]);
}

#[test]
fn texts_leave_the_index_with_their_rows() {
    let mut world = World::of(ONE);
    world.inject(&event("1", "what about the train?", ""));
    answer(&mut world);
    world.inject(&event("2", "another time", ""));
    let rows = |world: &World| world.read(|db, txn| db.recall_new.len(txn));
    let before = rows(&world);
    world.pass(Millis::days(400));
    for _ in 0..4 {
        world.sweep();
        world.settle();
        world.pass(Millis::days(2));
    }
    assert_eq!(found(&world, &SESSION, "train"), [""; 0]);
    assert!(rows(&world) < before, "{before}");
}

/// Messages of strangers are found by those who decide about them, and only as long as they are held.
#[test]
fn held_messages_are_found_by_deciders_only() {
    let mut world = World::new();
    world.configure(vec![channel("telegram", ChannelKind::Telegram)]).unwrap();
    world.apply(
        r#"
[[agents]]
folder = "andy"
[[users]]
id = "telegram:owner"
roles = ["owner"]
[[users]]
id = "telegram:ed"
roles = ["admin:andy"]
[[users]]
id = "telegram:fay"
roles = ["admin:andy"]
[[chats]]
channel = "telegram"
platform_id = "chat-123"
group = true
[[chats.wirings]]
agent = "andy"
engage = "pattern"
pattern = "."
"#,
    );
    let place = ("telegram", "chat-123", None);
    world.inject(&event_in(place, ("1", "the boiler is mine", "\"senderId\":\"owner\""), ""));
    world.inject(&event_in(place, ("2", "a boiler for a stranger", "\"senderId\":\"eve\""), ""));
    let approval = world.read(|db, txn| db.approvals_open.first(txn, ..)).unwrap().0;
    assert_eq!(found(&world, &SESSION, "boiler").len(), 1);
    assert_eq!(found(&world, &Viewer::Operator, "stranger").len(), 1);
    for (who, count) in [("owner", 1), ("ed", 1), ("fay", 0), ("eve", 0)] {
        assert_eq!(found(&world, &person(&format!("telegram:{who}")), "stranger").len(), count, "{who}");
    }
    // It is in no chat yet, and no agent has it.
    for (query, place) in [
        ("stranger agent:andy", (None, None)),
        ("stranger chat:telegram", (None, None)),
        ("stranger", (Some(1), None)),
        ("stranger", (None, Some(1))),
    ] {
        assert_eq!(found_in(&world, &Viewer::Operator, query, place), [""; 0], "{query} {place:?}");
    }
    world.put(Input::Decide(PromptSubject::Approval(approval), "reject".to_owned()));
    assert_eq!(found(&world, &Viewer::Operator, "stranger").len(), 0);
}
