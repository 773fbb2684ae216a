//! The order of approvers, the addresses at which they are asked, and approvers who cannot be reached.

use hearth::model::approval::ApprovalState;
use hearth::model::channel::ChannelKind;
use hearth::model::configure::Change;
use hearth::model::delivery::DeliveryResult;
use hearth::model::entity::UnknownSenders;
use hearth::model::{ForeignId, Input, Millis};

use super::ground::{Ground, channel};
use crate::world::World;

/// Two agents with a chat each, and these people.
fn people(users: &[(&str, &str)]) -> String {
    let mut toml = String::new();
    for (n, folder) in ["ag-1", "ag-2"].iter().enumerate() {
        toml += &format!("[[agents]]\nfolder = \"{folder}\"\n");
        toml += &format!("[[chats]]\nchannel = \"telegram\"\nplatform_id = \"c{}\"\n", n + 1);
        toml += &format!("[[chats.wirings]]\nagent = \"{folder}\"\nengage = \"pattern\"\npattern = \".\"\n");
    }
    for (id, roles) in users {
        toml += &format!("[[users]]\nid = \"{id}\"\n{roles}\n");
    }
    toml
}

const OWNER: &str = "roles = [\"owner\"]";
const ADMIN: &str = "roles = [\"admin\"]";
const OF_ONE: &str = "roles = [\"admin:ag-1\"]";

/// The order in which approvers are asked about an unknown sender if no card can be delivered.
fn asked_in_turn(toml: &str, chat: &str) -> Vec<String> {
    let mut ground = Ground::of(toml);
    ground.world.outside.channel = Box::new(|_| Some(DeliveryResult::Rejected("blocked by the user".into())));
    ground.says_in(("telegram", chat, None), ("stranger", "hi"), "");
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.extend(ground.approvals().first().and_then(|(_, approval)| approval.approver.clone()));
        ground.world.pass(Millis::minutes(61));
        ground.world.sweep();
        ground.world.settle();
        ground.world.assert_sound();
    }
    asked.iter().map(ToString::to_string).collect()
}

#[test]
fn approvers_are_picked_by_role_and_origin() {
    for (case, users, chat, expected) in [
        (
            "the agent's own administrator is asked before that of all agents and the owner",
            vec![("telegram:o", OWNER), ("telegram:ga", ADMIN), ("telegram:sa", OF_ONE)],
            "c1",
            vec!["telegram:sa", "telegram:ga", "telegram:o", "telegram:sa"],
        ),
        (
            "the administrator of another agent is not asked",
            vec![("telegram:o", OWNER), ("telegram:ga", ADMIN), ("telegram:sa", OF_ONE)],
            "c2",
            vec!["telegram:ga", "telegram:o", "telegram:ga", "telegram:o"],
        ),
        ("nobody has a role", vec![], "c1", vec![]),
        (
            "two owners on the channel of the question",
            vec![("telegram:111", OWNER), ("telegram:222", OWNER)],
            "c1",
            vec!["telegram:111", "telegram:222", "telegram:111", "telegram:222"],
        ),
        (
            "whoever is on the channel of the question is asked first",
            vec![("discord:222", OWNER), ("telegram:111", OWNER)],
            "c1",
            vec!["telegram:111", "discord:222", "telegram:111", "discord:222"],
        ),
        ("an owner on another channel only", vec![("discord:222", OWNER)], "c1", vec!["discord:222"; 4]),
        ("an owner on a channel that is not there", vec![("matrix:1", OWNER)], "c1", vec![]),
        (
            "whoever has two roles is asked once, at the higher place",
            vec![("telegram:o", "roles = [\"admin:ag-1\", \"owner\"]"), ("telegram:ga", ADMIN)],
            "c1",
            vec!["telegram:o", "telegram:ga", "telegram:o", "telegram:ga"],
        ),
    ] {
        assert_eq!(asked_in_turn(&people(&users), chat), expected, "{case}");
    }
}

#[test]
fn direct_messages_are_where_the_channel_says() {
    // A channel that opens no direct messages: the person's id is the chat. A strict direct chat is created.
    let mut ground = Ground::of(&people(&[("telegram:6037840640", OWNER)]));
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    assert_eq!(ground.card_places(), ["telegram/6037840640"]);
    let dm = ground.world.read(|db, txn| Ok(db.chats.last(txn, ..)?.unwrap().1));
    assert_eq!((dm.group, dm.unknown_senders, dm.name), (false, UnknownSenders::Strict, None));
    assert!(ground.world.outside.opened.is_empty());
    let mut ground = Ground::of(&people(&[("telegram:7", "name = \"Olga\"\nroles = [\"owner\"]")]));
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    let name = ground.world.read(|db, txn| Ok(db.chats.last(txn, ..)?.unwrap().1.name));
    assert_eq!(name.as_deref(), Some("Olga"), "a chat with somebody is called like them");

    // A channel that opens direct messages is asked once; the second card goes there at once.
    let mut ground = Ground::of(&people(&[("discord:user-1", OWNER)]));
    ground.world.outside.direct =
        Box::new(|user| Some(Ok(ForeignId::new("chat", format!("dm-channel-{}", user.handle())).unwrap())));
    ground.says_in(("telegram", "c1", None), ("s1", "hi"), "");
    ground.says_in(("telegram", "c1", None), ("s2", "hi"), "");
    assert_eq!(ground.card_places(), ["discord/dm-channel-user-1", "discord/dm-channel-user-1"]);
    assert_eq!(ground.world.outside.opened.len(), 1);
    assert_eq!(ground.count("direct_messages"), 1);

    // The chat of a known direct message is removed: it is opened again.
    let remove = Change::RemoveChat(
        hearth::model::ChannelName::new("discord").unwrap(),
        ForeignId::new("chat", "dm-channel-user-1").unwrap(),
    );
    ground.world.configure(vec![remove]).unwrap();
    ground.says_in(("telegram", "c1", None), ("s3", "hi"), "");
    assert_eq!((ground.cards().len(), ground.world.outside.opened.len()), (3, 2));

    // No such channel.
    let mut ground = Ground::of(&people(&[("matrix:1", OWNER)]));
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    assert_eq!((ground.cards().len(), ground.approvals().len()), (0, 0));

    // Unlike in NanoClaw: a colon in an id is part of the id, never another channel's name.
    let mut ground = Ground::of(&people(&[("telegram:29:abc", OWNER)]));
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    assert_eq!(ground.card_places(), ["telegram/29:abc"]);
}

#[test]
fn a_direct_message_that_cannot_be_opened_is_no_dead_end() {
    // No address is stored, and it is tried again.
    let mut ground = Ground::of(&people(&[("discord:user-1", OWNER)]));
    ground.world.outside.direct = Box::new(|_| Some(Err("503".into())));
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    assert_eq!((ground.cards().len(), ground.count("direct_messages"), ground.states()), (0, 0, vec!["unsent"]));
    let why = |ground: &Ground| match &ground.approvals()[0].1.state {
        ApprovalState::Unsent { failed, why } => (*failed, why.clone().unwrap_or_default()),
        other => panic!("{other:?}"),
    };
    assert_eq!(why(&ground), (2, "no direct message with discord:user-1: 503".to_owned()));
    // The effect is lost; the sweep repeats the request, with growing pauses.
    ground.world.outside.direct = Box::new(|user| Some(Ok(user.handle().clone())));
    ground.world.pass(Millis::minutes(2));
    ground.world.sweep();
    ground.world.lose_effects();
    ground.world.sweep();
    assert!(ground.world.effects.is_empty(), "not before its time");
    ground.world.pass(Millis::minutes(3));
    ground.world.sweep();
    ground.world.settle();
    assert_eq!((ground.card_places(), ground.states()), (vec!["discord/user-1".to_owned()], vec!["pending"]));
}

/// The stored state of the approval, and how many cards about it were created.
fn asked(ground: &Ground) -> (u32, String, usize) {
    let ApprovalState::Unsent { failed, why } = &ground.approvals()[0].1.state else { panic!("{:?}", ground.states()) };
    (*failed, why.clone().unwrap_or_default(), ground.world.all_outbound().len())
}

/// Without another approver, the one card stays open and is not sent repeatedly.
#[test]
fn a_card_that_nobody_else_can_take_waits() {
    let mut ground = Ground::of(&people(&[("telegram:111", OWNER)]));
    ground.world.outside.channel = Box::new(|_| Some(DeliveryResult::NoAdapter));
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    assert_eq!(asked(&ground), (0, String::new(), 1));
    for failed in 1..4 {
        ground.world.pass(Millis::minutes(61));
        ground.world.sweep();
        ground.world.settle();
        ground.world.assert_sound();
        assert_eq!(asked(&ground), (failed, "not delivered yet".to_owned(), 1));
    }
}

/// An approver whose card cannot be shown is tried again after pauses that double.
#[test]
fn the_pauses_between_cards_grow() {
    let mut ground = Ground::of(&people(&[("telegram:111", OWNER)]));
    ground.world.outside.channel = Box::new(|_| Some(DeliveryResult::Rejected("blocked by the user".into())));
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    let first = ground.world.now().wall;
    let mut tried = vec![];
    for _ in 0..64 {
        let before = ground.world.outside.attempts.len();
        ground.world.pass(Millis::seconds(30));
        ground.world.sweep();
        ground.world.settle();
        if ground.world.outside.attempts.len() > before {
            tried.push(ground.world.now().wall.since(first).get() / 1_000);
        }
    }
    assert_eq!(tried, [30, 90, 210, 450, 930, 1_890]);
}

/// The result of opening a direct message arrives twice: the card is shown once.
#[test]
fn a_direct_message_that_is_opened_twice_shows_the_card_once() {
    let mut ground = Ground::of(&people(&[("discord:user-1", OWNER)]));
    ground.world.outside.channel = Box::new(|_| Some(DeliveryResult::Absent));
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    let opened = |who: &str, chat: &str| {
        let chat = ForeignId::new("chat", chat).unwrap();
        Input::DirectOpened(hearth::model::UserId::parse(who).unwrap(), Ok(chat))
    };
    assert_eq!((ground.states(), ground.world.all_outbound().len()), (vec!["unsent"], 1));
    for (who, chat) in [("discord:user-1", "user-1"), ("discord:user-2", "user-2")] {
        ground.world.put(opened(who, chat));
        ground.world.settle();
        assert_eq!(ground.world.all_outbound().len(), 1, "{who}");
    }
}

/// While a channel is away no direct message can be opened. The card does not wait for its next try, which may be an
/// hour away.
#[test]
fn a_card_is_shown_once_the_channel_on_which_it_could_not_be_is_connected() {
    let mut ground = Ground::of(&people(&[("discord:user-1", OWNER)]));
    ground.world.outside.direct = Box::new(|_| Some(Err("the bridge does not run".to_owned())));
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    assert_eq!((ground.states(), ground.card_places().len()), (vec!["unsent"], 0));
    ground.world.outside.direct = Box::new(|user| Some(Ok(user.handle().clone())));
    for (channel, shown) in [("telegram", 0), ("discord", 1), ("discord", 1)] {
        let name = hearth::model::ChannelName::new(channel).unwrap();
        ground.world.put(Input::Reachable(name, None));
        ground.world.settle();
        ground.world.assert_sound();
        assert_eq!(ground.card_places().len(), shown, "{channel}");
    }
    assert_eq!(ground.states(), ["pending"]);
}

#[test]
fn a_card_nobody_takes_goes_to_the_next_one() {
    let mut ground = Ground::of(&people(&[("telegram:111", OWNER), ("discord:222", OWNER)]));
    ground.world.outside.channel = Box::new(|delivery| match delivery.to.channel.as_str() {
        "telegram" => Some(DeliveryResult::NoAdapter),
        _ => Some(DeliveryResult::Delivered { platform_message: None }),
    });
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    assert_eq!(ground.states(), ["unsent"]);
    ground.world.pass(Millis::seconds(31));
    ground.world.sweep();
    ground.world.settle();
    ground.world.assert_sound();
    assert_eq!(ground.states(), ["pending"]);
    assert_eq!(ground.approvals()[0].1.approver.as_ref().unwrap().to_string(), "discord:222");
    // The card for telegram was withdrawn: its queue is empty.
    let waiting =
        ground.world.all_outbound().iter().filter(|(_, row)| format!("{:?}", row.state).contains("Abandoned")).count();
    assert_eq!(waiting, 1);
}

/// A card that may have been sent is sent again. Where the channel cannot detect duplicates, people are told.
#[test]
fn repetitions_are_marked_where_the_channel_cannot_tell() {
    for (owner, marked) in [("telegram:111", true), ("discord:222", false), ("terminal:1000", false)] {
        let mut ground = Ground::of(&people(&[(owner, OWNER)]));
        let attempts = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let ear = std::rc::Rc::clone(&attempts);
        ground.world.outside.channel = Box::new(move |delivery| {
            ear.borrow_mut().push(delivery.repeated);
            Some(match ear.borrow().len() {
                1 => DeliveryResult::Uncertain("the connection broke".into()),
                _ => DeliveryResult::Delivered { platform_message: None },
            })
        });
        ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
        assert_eq!(*attempts.borrow(), [false, marked], "{owner}");
        assert_eq!(ground.states(), ["pending"], "{owner}");
    }
}

#[test]
fn a_terminal_is_reached_as_a_person() {
    let mut ground = Ground::of(&people(&[("terminal:1000", OWNER)]));
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    assert_eq!(ground.card_places(), ["terminal/@1000"]);
    let text = ground.shown()[0].2.clone();
    assert!(text.ends_with("1. Allow\n2. Deny\n\nAnswer with a number, or with \"ap1 1\"."), "{text}");
}

#[test]
fn a_channel_that_comes_later_makes_people_reachable() {
    let mut ground = Ground::in_world(World::new(), &people(&[("matrix:1", OWNER)]));
    ground.says_in(("telegram", "c1", None), ("stranger", "hi"), "");
    assert_eq!(ground.approvals().len(), 0);
    ground.world.configure(vec![channel("matrix", ChannelKind::Telegram)]).unwrap();
    ground.says_in(("telegram", "c1", None), ("stranger", "hi again"), "");
    assert_eq!(ground.card_places(), ["matrix/1"]);
    // The channel is removed while the card is open: the approval stays open, and the operator can decide.
    ground.world.configure(vec![Change::RemoveChannel(hearth::model::ChannelName::new("matrix").unwrap())]).unwrap();
    assert_eq!(ground.open(), 1);
    let id = ground.approvals()[0].0;
    ground.decides(id, "approve");
    assert_eq!(ground.heard(), ["hi again"]);
    ground.world.put(Input::Start);
}
