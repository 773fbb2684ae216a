//! Searches of agents.

use hearth::model::request::{RecallRequest, Request};

use super::{reply, working};
use crate::world::requests::ask;
use crate::world::{World, event_in};

fn told(world: &mut World, query: &str) -> String {
    let name = format!("r{}", world.outside.replies.values().map(std::collections::BTreeMap::len).sum::<usize>());
    ask(world, &name, Request::Recall(RecallRequest { query: query.to_owned(), limit: None }));
    match reply(world, &name).unwrap() {
        Ok(answer) => answer["text"].as_str().unwrap().to_owned(),
        Err(why) => why,
    }
}

/// An agent gets as many texts as it asked for, ten without a number, and at most fifty; and is told that there are more.
#[test]
fn an_agent_gets_as_many_texts_as_it_asked_for() {
    let mut world = working();
    for id in 100..160 {
        world.inject(&event_in(("net", "C", Some("t")), (&id.to_string(), "the boiler", "\"senderId\":\"ann\""), ""));
    }
    for (limit, number) in [(None, 10), (Some(1), 1), (Some(30), 30), (Some(50), 50), (Some(1_000), 50), (Some(0), 1)] {
        let name = format!("r{limit:?}");
        ask(&mut world, &name, Request::Recall(RecallRequest { query: "boiler".to_owned(), limit }));
        let answer = reply(&world, &name).unwrap().unwrap();
        let text = answer["text"].as_str().unwrap();
        assert_eq!(text.matches("[ms").count(), number, "{limit:?}: {text}");
        assert!(text.contains("(more was found"), "{limit:?}: {text}");
    }
}

/// The agent of a chat finds what was said to it there, and nothing of another chat.
#[test]
fn an_agent_finds_what_was_said_in_its_chat_only() {
    let mut world = working();
    world.apply(
        r#"
[[chats]]
channel = "net"
platform_id = "D"
unknown_senders = "public"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
"#,
    );
    let said =
        |chat, id, text| event_in(("net", chat, None), (id, text, "\"senderId\":\"ann\",\"senderName\":\"Ann\""), "");
    world.inject(&said("C", "20", "the boiler is broken"));
    world.inject(&said("D", "21", "the boiler of the other chat"));
    let found = told(&mut world, "boiler");
    assert!(found.contains("Ann: the boiler is broken") && !found.contains("other chat"), "{found}");
    assert!(found.starts_with("[ms"), "the id is one that `why` takes: {found}");
    assert_eq!(told(&mut world, "unicorn"), "Nothing was found.");
    // Only the owner can let it tell here what was said elsewhere, and then it is told where.
    world.apply("[[agents]]\nfolder = \"main\"\nrecall = \"agent\"\n");
    let both = told(&mut world, "boiler");
    assert!(both.contains("Ann: the boiler is broken"), "{both}");
    assert!(both.contains("Ann in another chat (\"net/D\"): the boiler of the other chat"), "{both}");
    assert!(told(&mut world, "boiler chat:net/D").starts_with("[ms"), "filters go on working");
    world.apply("[[agents]]\nfolder = \"main\"\n");
    assert!(!told(&mut world, "boiler").contains("other chat"), "taken back, it finds no more of it");
    let why = told(&mut world, "boiler after:\"the flood\"");
    assert!(why.contains("`the flood` is not a time"), "{why}");
}
