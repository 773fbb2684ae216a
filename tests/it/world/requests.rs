//! An agent that works on a message and sends requests to Hearth.

use hearth::model::address::ForeignId;
use hearth::model::card::PromptSubject;
use hearth::model::delivery::DeliveryResult;
use hearth::model::entity::{Agent, Packages};
use hearth::model::id::{ApprovalId, SessionId};
use hearth::model::input::Input;
use hearth::model::mailbox::{Recipient, Said};
use hearth::model::message::{Body, Message};
use hearth::model::report::Reply;
use hearth::model::request::{Request, RequestedAction};

use super::outside::{claim, mid_turn, said};
use super::{World, event_in};

pub(crate) const S: SessionId = SessionId::new(1);

/// An agent `main` in the chat `C` on `net`, where members may talk: `ann` is one. The owner is at the terminal.
pub(crate) const HOUSE: &str = r#"
[[agents]]
folder = "main"
env = { KEY = "env:KEY" }
request_env = ["TOKEN"]
trust = "main"
unconfined = true
[[users]]
id = "terminal:7"
roles = ["owner"]
[[users]]
id = "net:ann"
member_of = ["main"]
[[chats]]
channel = "net"
platform_id = "C"
group = true
unknown_senders = "strict"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
session = "per-thread"
"#;

/// The same in a world without a configuration.
pub(crate) fn working_in(mut world: World) -> World {
    world.apply(HOUSE);
    world.outside.channel = Box::new(|delivery| {
        let id = ForeignId::new("message", format!("p{}", delivery.id)).unwrap();
        Some(DeliveryResult::Delivered { platform_message: Some(id) })
    });
    let sender = r#""senderId":"ann","senderName":"Ann""#;
    world.inject(&event_in(("net", "C", Some("t")), ("1", "hello", sender), ""));
    world.settle();
    let input = world.outside.write(S, vec![claim(2, 1)]);
    world.put(input);
    world
}

/// Sends Hearth a request under a name.
pub(crate) fn ask(world: &mut World, name: &str, request: Request) {
    ask_in(world, S, name, request);
}

pub(crate) fn ask_in(world: &mut World, session: SessionId, name: &str, request: Request) {
    ask_about(world, session, Some(2), name, request);
}

/// The same about a message with this number, or about none.
pub(crate) fn ask_about(world: &mut World, session: SessionId, about: Option<u64>, name: &str, request: Request) {
    let number = world.session(session).next_agent_number();
    let live = world.session(session).live.unwrap();
    let action = RequestedAction::Request(Box::new(request));
    let said = Said { action, request: Some(name.into()), ..said(number, live, about, Recipient::Reply) };
    let input = world.outside.write(session, vec![mid_turn(said)]);
    world.put(input);
    world.settle();
}

pub(crate) fn main_agent(world: &World) -> Agent {
    world.read(|db, txn| Ok(db.agents.iter(txn)?.next().unwrap()?.1))
}

pub(crate) fn packages() -> Request {
    let packages = Packages { apt: vec!["jq".into()], npm: vec!["@a/b".into()] };
    Request::InstallPackages { packages, reason: Some("to read JSON".into()) }
}

/// The newest message of the session and its text.
pub(crate) fn newest(world: &World) -> (Message, Body) {
    let message = world.all_messages().into_iter().rfind(|(_, message)| message.session == S).unwrap().1;
    let body = world.read(|db, txn| db.bodies.require(txn, &message.body));
    (message, body)
}

pub(crate) fn decide(world: &mut World, value: &str) -> Reply {
    let reply = world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(1)), value.into()));
    world.settle();
    reply
}
