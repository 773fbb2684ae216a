//! Files that the network keeps: nothing is fetched for a held message. After the approval, the message goes to its
//! agent with its files, or with the reason why a file is missing.

use std::cell::RefCell;
use std::rc::Rc;

use hearth::model::content::{Attachment, FileBytes};
use hearth::model::effect::Fetch;
use hearth::model::entity::Folder;
use hearth::model::id::{ApprovalId, MessageId, SessionId};
use hearth::model::message::{Due, MessageState, Reason};
use hearth::model::policy::Policy;
use hearth::model::report::Outcome;
use hearth::model::{Input, Millis};

use super::ground::{GROUP, Ground, address};
use crate::world::outside::fetched;
use crate::world::outside::remote;

const PHOTO: &str = "photo.jpg";
const FIRST: ApprovalId = ApprovalId::new(1);

/// A world whose channel gives this result for files, and the number of requests for each body's files.
fn ground_of(
    toml: &str,
    says: impl Fn(&Fetch) -> Option<Vec<Attachment>> + 'static,
) -> (Ground, Rc<RefCell<Vec<u64>>>) {
    let mut ground = Ground::of(toml);
    let asked: Rc<RefCell<Vec<u64>>> = Rc::default();
    let note = Rc::clone(&asked);
    ground.world.outside.fetch = Box::new(move |fetch| {
        note.borrow_mut().push(fetch.body.number());
        says(fetch)
    });
    (ground, asked)
}

/// A stranger sends a photo.
fn send(ground: &mut Ground, who: &str, text: &str) {
    let json = ground.event(("telegram", "chat-123", None), (who, text), "");
    let Input::Inbound(mut event) = crate::world::inbound(&json) else { unreachable!("it is a message") };
    event.attachments = vec![remote(PHOTO)];
    ground.world.put(Input::Inbound(event));
    ground.world.settle();
    ground.world.assert_sound();
}

fn pass(ground: &mut Ground, length: Millis) {
    ground.world.pass(length);
    ground.world.sweep();
    ground.world.settle();
    ground.world.assert_sound();
}

/// The content of a session's mailbox: texts, and the state of their files.
fn given(ground: &Ground, session: u64) -> Vec<(String, Vec<Result<(), String>>)> {
    let inbox = ground.world.outside.inbox.get(&SessionId::new(session));
    let file = |file: &Attachment| file.blob.get().map(drop).map_err(str::to_owned);
    let messages = inbox.into_iter().flat_map(|inbox| inbox.values());
    let text = |raw: &str| serde_json::from_str::<serde_json::Value>(raw).unwrap()["text"].as_str().unwrap().to_owned();
    messages.map(|one| (text(one.content.as_str()), one.attachments.iter().map(file).collect())).collect()
}

fn waits(ground: &Ground, id: u64) -> bool {
    matches!(ground.world.state_of(MessageId::new(id)), MessageState::Pending(Due::At(_)))
}

fn fetching(ground: &Ground) -> u64 {
    ground.world.read(|db, txn| db.fetches.len(txn))
}

#[test]
fn a_file_is_asked_for_after_the_approval_and_comes_with_its_message() {
    let (mut ground, asked) = ground_of(GROUP, fetched);
    send(&mut ground, "ann", "look");
    pass(&mut ground, Millis::minutes(5));
    assert_eq!((ground.held().len(), asked.borrow().len(), ground.count("held_bytes")), (1, 0, 0));
    ground.decides(FIRST, "approve");
    assert_eq!((asked.borrow().len(), fetching(&ground)), (1, 0));
    assert_eq!(given(&ground, 1), [("look".to_owned(), vec![Ok(())])]);
    assert_eq!(ground.world.read(|db, txn| db.bodies_by_file.len(txn)), 1);
}

#[test]
fn nothing_is_fetched_for_a_message_that_was_rejected_or_expired() {
    let (mut ground, asked) = ground_of(GROUP, fetched);
    send(&mut ground, "ann", "look");
    ground.decides(FIRST, "reject");
    send(&mut ground, "bob", "look");
    pass(&mut ground, Policy::STANDARD.approval_lifetime);
    assert_eq!(ground.reasons(), [Reason::Rejected, Reason::ApprovalExpired]);
    assert_eq!((asked.borrow().len(), fetching(&ground), ground.held().len()), (0, 0, 0));
}

/// The channel does not report on the file for a while. Later messages are not delayed, and a message whose file the
/// network no longer has arrives with the reason.
#[test]
fn a_file_that_is_gone_gives_its_message_a_reason() {
    let (mut ground, asked) = ground_of(GROUP, |_| None);
    send(&mut ground, "ann", "look");
    ground.says("ann", "please");
    ground.decides(FIRST, "approve");
    assert!(waits(&ground, 1));
    assert_eq!(given(&ground, 1), [("please".to_owned(), vec![])]);
    ground.world.outside.fetch = Box::new(|fetch| {
        let gone = |file: &Attachment| Attachment { blob: FileBytes::Missing("gone".to_owned()), ..file.clone() };
        Some(fetch.files.iter().map(gone).collect())
    });
    pass(&mut ground, Policy::STANDARD.fetch_again);
    assert_eq!(asked.borrow().len(), 1);
    let look = ("look".to_owned(), vec![Err("gone".to_owned())]);
    assert_eq!(given(&ground, 1), [look, ("please".to_owned(), vec![])]);
    assert_eq!(fetching(&ground), 0);
}

#[test]
fn files_are_asked_for_again_and_given_up_in_the_end() {
    let (mut ground, asked) = ground_of(GROUP, |_| None);
    send(&mut ground, "ann", "look");
    ground.decides(FIRST, "approve");
    for seconds in [30, 29] {
        pass(&mut ground, Millis::seconds(seconds));
        assert_eq!(asked.borrow().len(), 1);
    }
    pass(&mut ground, Millis::seconds(2));
    assert_eq!(asked.borrow().len(), 2);
    // Setting the wall clock ahead has no effect.
    ground.world.step_clock(24 * 3_600_000);
    pass(&mut ground, Millis::seconds(1));
    assert!(waits(&ground, 1) && given(&ground, 1).is_empty());
    pass(&mut ground, Policy::STANDARD.fetch_max);
    let why = given(&ground, 1).pop().unwrap().1.pop().unwrap().unwrap_err();
    assert!(why.contains("could not be fetched in time"), "{why}");
    assert_eq!(fetching(&ground), 0);
    // Later reports about the file are ignored.
    let body = ground.world.message(MessageId::new(1)).body;
    ground.world.put(Input::Fetched(body, vec![remote(PHOTO)]));
    ground.world.assert_sound();
}

/// A later run starts the deadline again, however long no daemon ran.
#[test]
fn a_restart_asks_again() {
    let (mut ground, asked) = ground_of(GROUP, |_| None);
    send(&mut ground, "ann", "look");
    ground.decides(FIRST, "approve");
    ground.world.outside.fetch = Box::new(fetched);
    ground.world.step_clock(7 * 24 * 3_600_000);
    ground.world.restart();
    ground.world.settle();
    ground.world.assert_sound();
    assert_eq!((asked.borrow().len(), fetching(&ground)), (1, 0));
    assert_eq!(given(&ground, 1), [("look".to_owned(), vec![Ok(())])]);
}

#[test]
fn a_channel_that_comes_up_is_asked() {
    let (mut ground, _) = ground_of(GROUP, |_| None);
    send(&mut ground, "ann", "look");
    ground.decides(FIRST, "approve");
    ground.world.outside.fetch = Box::new(fetched);
    for (channel, left) in [("discord", 1), ("telegram", 0)] {
        ground.world.put(Input::Reachable(address(channel, "x").channel, None));
        ground.world.settle();
        assert_eq!(fetching(&ground), left, "{channel}");
    }
    assert_eq!(given(&ground, 1), [("look".to_owned(), vec![Ok(())])]);
}

/// A message of someone who was admitted meanwhile is routed at once, even if the adapter did not know this when it
/// looked.
#[test]
fn a_member_whose_file_stayed_at_the_network_is_heard_when_it_is_there() {
    let (mut ground, asked) = ground_of(GROUP, fetched);
    ground.says("ann", "hi");
    ground.decides(FIRST, "approve");
    send(&mut ground, "ann", "look");
    assert_eq!((asked.borrow().len(), fetching(&ground)), (1, 0));
    assert_eq!(given(&ground, 1).pop(), Some(("look".to_owned(), vec![Ok(())])));
}

const TWO: &str = r#"
[[agents]]
folder = "andy"
[[agents]]
folder = "beth"
[[users]]
id = "telegram:owner"
roles = ["owner"]
[[users]]
id = "telegram:ann"
member_of = ["andy"]
[[chats]]
channel = "telegram"
platform_id = "chat-123"
group = true
[[chats.wirings]]
agent = "andy"
engage = "pattern"
pattern = "."
[[chats.wirings]]
agent = "beth"
engage = "pattern"
pattern = "."
"#;

/// One agent has the message, while another one's approval is open: the bytes count as held once they are fetched.
#[test]
fn a_file_fetched_for_one_agent_counts_where_it_still_waits() {
    let (mut ground, asked) = ground_of(TWO, fetched);
    send(&mut ground, "ann", "look");
    assert_eq!((asked.borrow().len(), ground.held().len(), fetching(&ground)), (1, 1, 0));
    assert_eq!(ground.world.read(|db, txn| db.held_bytes.get(txn, &())), Some(3));
    ground.decides(FIRST, "approve");
    assert_eq!((asked.borrow().len(), ground.count("held_bytes")), (1, 0));
    assert_eq!(given(&ground, 2), [("look".to_owned(), vec![Ok(())])]);
}

/// Context requests no turn: it accompanies the first message after its files have arrived.
#[test]
fn context_waits_for_its_files() {
    let toml = GROUP.replace("engage = \"pattern\"\npattern = \".\"", "engage = \"mention\"\nignored = \"accumulate\"");
    let (mut ground, _) = ground_of(&toml, |_| None);
    ground.says_in(("telegram", "chat-123", None), ("ann", "hi"), "\"isMention\":true");
    ground.decides(FIRST, "approve");
    send(&mut ground, "ann", "look");
    ground.says_in(("telegram", "chat-123", None), ("ann", "so"), "\"isMention\":true");
    let texts = |ground: &Ground| given(ground, 1).into_iter().map(|(text, _)| text).collect::<Vec<_>>();
    assert_eq!(texts(&ground), ["hi", "so"]);
    ground.world.outside.fetch = Box::new(fetched);
    pass(&mut ground, Policy::STANDARD.fetch_again);
    ground.says_in(("telegram", "chat-123", None), ("ann", "now"), "\"isMention\":true");
    assert_eq!(texts(&ground), ["hi", "look", "so", "now"]);
}

/// An agent that is removed meanwhile needs no files.
#[test]
fn a_file_of_an_agent_that_was_removed_is_not_asked_for_any_more() {
    let (mut ground, asked) = ground_of(GROUP, |_| None);
    send(&mut ground, "ann", "look");
    ground.decides(FIRST, "approve");
    let remove = hearth::model::configure::Change::RemoveAgent(Folder::new("andy").unwrap());
    ground.world.configure(vec![remove]).unwrap();
    ground.world.settle();
    pass(&mut ground, Policy::STANDARD.fetch_max);
    pass(&mut ground, Policy::STANDARD.fetch_max);
    assert_eq!(fetching(&ground), 0);
    assert!(asked.borrow().len() <= 2, "{:?}", asked.borrow());
    let dropped = MessageState::Dropped { reason: Reason::AgentRemoved, at: ground.world.now().wall };
    let state = ground.world.state_of(MessageId::new(1));
    assert_eq!(std::mem::discriminant(&state), std::mem::discriminant(&dropped), "{state:?}");
}

/// A dry run, by which adapters decide, requests nothing.
#[test]
fn a_rehearsal_of_a_strangers_message_says_that_it_would_be_held() {
    let (mut ground, asked) = ground_of(GROUP, fetched);
    let json = ground.event(("telegram", "chat-123", None), ("ann", "look"), "");
    let applied = ground.world.dry_run(crate::world::inbound(&json));
    let hearth::model::report::Reply::Routed(report) = applied.reply else { panic!("{:?}", applied.reply) };
    assert_eq!((report.outcome, applied.effects.len(), asked.borrow().len()), (Outcome::Held, 0, 0));
}
