//! Chats in which the bot is addressed and no agent is wired.

use hearth::model::approval::ApprovalState;
use hearth::model::configure::{Change, RoleSpec};
use hearth::model::delivery::DeliveryAct;
use hearth::model::entity::{Engage, Folder, Ignored, SenderScope, SessionMode, Trust, Wiring};
use hearth::model::id::ApprovalId;
use hearth::model::message::Reason;
use hearth::model::policy::Policy;
use hearth::model::report::{Outcome, Reply};
use hearth::model::{ChannelName, ForeignId, Millis, UserId};

use super::ground::{BARE, Ground};
use crate::world::World;

const TWO: &str = r#"
[[agents]]
folder = "andy"
name = "Andy"
[[agents]]
folder = "bob"
name = "Bob"
[[users]]
id = "telegram:owner"
roles = ["owner"]
[[users]]
id = "telegram:andys"
roles = ["admin:andy"]
"#;

const MENTION: &str = "\"isMention\":true";
const IN_GROUP: &str = "\"isMention\":true,\"isGroup\":true";
const NEW: (&str, &str, Option<&str>) = ("telegram", "new", None);

fn wirings(ground: &Ground) -> Vec<Wiring> {
    ground.world.read(|db, txn| db.wirings.iter(txn)?.map(|row| row.map(|(_, wiring)| wiring)).collect())
}

/// The text of the card, and how the agent listens afterwards.
#[test]
fn the_wiring_follows_the_kind_of_chat() {
    for (case, place, more, engage) in [
        ("a thread of a group", ("telegram", "new", Some("thread-1")), IN_GROUP, Engage::MentionSticky),
        ("a direct message", NEW, MENTION, Engage::Pattern(".".into())),
        ("a plain group", NEW, IN_GROUP, Engage::Mention),
        ("a direct message with a thread", ("telegram", "new", Some("t")), MENTION, Engage::Pattern(".".into())),
    ] {
        let mut ground = Ground::of(BARE);
        let report = ground.says_in(place, ("caller", "help me"), more);
        assert_eq!((report.outcome, report.reason), (Outcome::Held, Some(Reason::ChannelHeld)), "{case}");
        assert_eq!(ground.card_places(), ["telegram/owner"], "{case}");
        let (_, card) = ground.last_card();
        assert_eq!(card.title, "🔌 New channel — wire it?");
        let options: Vec<_> =
            card.options.iter().map(|option| (option.label.as_str(), option.value.as_str())).collect();
        assert_eq!(options, [("Andy", "connect:ag1"), ("➕ Create new", "new_agent"), ("Ignore", "ignore")], "{case}");
        assert_eq!((ground.states(), ground.held().len()), (vec!["pending"], 1), "{case}");
        assert_eq!(ground.presses("telegram:owner", 0), (true, "✅ Connected to Andy".to_owned()), "{case}");
        let wired = wirings(&ground);
        assert_eq!(wired.len(), 1, "{case}");
        assert_eq!(wired[0].engage, engage, "{case}");
        let rest = (wired[0].senders, wired[0].ignored, wired[0].session, wired[0].priority);
        assert_eq!(rest, (SenderScope::Known, Ignored::Accumulate, SessionMode::Shared, 0), "{case}");
        assert_eq!(ground.members(), ["ag1 telegram:caller by telegram:owner"], "{case}");
        assert_eq!(ground.heard(), ["help me"], "{case}");
        assert_eq!((ground.states(), ground.held().len()), (vec!["approved"], 0), "{case}");
        let [closed] = ground.edits().try_into().unwrap();
        assert!(
            closed.starts_with("🔌 New channel — wire it?\n\n\"telegram:caller\", named “Ann”, addressed the bot in"),
            "{case}: {closed}"
        );
        assert!(closed.ends_with("\n\n✅ Connected to Andy"), "{case}: {closed}");
        assert!(!ground.world.outside.launched.is_empty(), "{case}: the agent was woken");
    }
}

#[test]
fn the_card_says_who_is_trying_where() {
    for (more, sender, who, place) in [
        (IN_GROUP, "caller", "\"telegram:caller\", named “Ann”,", "the group"),
        (MENTION, "caller", "\"telegram:caller\", named “Ann”,", "the direct message"),
        (MENTION, "", "A person without an id", "the direct message"),
    ] {
        let mut ground = Ground::of(BARE);
        ground.says_in(NEW, (sender, "x"), more);
        let body = ground.last_card().1.body;
        let first = format!("{who} addressed the bot in {place} \"telegram/new\", where no agent listens.");
        assert_eq!(body.lines().next(), Some(first.as_str()));
        for effect in ["to everything in a direct message", "becomes a member", "The newest message"] {
            assert!(body.contains(effect), "{body}");
        }
    }
}

/// Unlike in NanoClaw: one card, and the newest message replaces the previous one, which is recorded.
#[test]
fn the_newest_message_waits() {
    let mut ground = Ground::of(BARE);
    for (who, text) in [("caller", "one"), ("caller", "two"), ("other", "three")] {
        ground.says_in(NEW, (who, text), IN_GROUP);
    }
    assert_eq!((ground.cards().len(), ground.open(), ground.held().len(), ground.count("bodies")), (1, 1, 1, 1));
    assert_eq!(ground.reasons(), [Reason::Superseded, Reason::Superseded]);
    ground.presses("telegram:owner", 0);
    // The card named the caller: approving it admits only them. The other person needs an approval of their own.
    assert_eq!(ground.members(), ["ag1 telegram:caller by telegram:owner"]);
    assert_eq!((ground.states(), ground.heard().len()), (vec!["approved", "pending"], 0));
    ground.presses("telegram:owner", 0);
    assert_eq!(ground.heard(), ["three"]);
}

/// Unlike in NanoClaw: "ignore" is not permanent, but a card is shown at most once an hour. Only `hearth chats deny` is
/// permanent.
#[test]
fn ignoring_is_no_denial() {
    let mut ground = Ground::of(BARE);
    ground.says_in(NEW, ("caller", "one"), IN_GROUP);
    assert_eq!(ground.presses("telegram:owner", 2), (true, "🙅 Ignored".to_owned()));
    assert_eq!((ground.states(), ground.reasons()), (vec!["rejected"], vec![Reason::Rejected]));
    let soon = ground.says_in(NEW, ("caller", "two"), IN_GROUP);
    assert_eq!((soon.outcome, soon.reason, ground.cards().len()), (Outcome::Dropped, Some(Reason::Rejected), 1));
    ground.world.pass(Millis::minutes(60));
    assert_eq!(ground.says_in(NEW, ("caller", "three"), IN_GROUP).outcome, Outcome::Held);
    assert_eq!(ground.cards().len(), 2);
    let place = || (ChannelName::new("telegram").unwrap(), ForeignId::new("chat", "new").unwrap());
    ground.world.configure(vec![Change::DenyChat(place().0, place().1)]).unwrap();
    ground.world.settle();
    assert_eq!((ground.states(), ground.held().len()), (vec!["rejected", "superseded"], 0));
    ground.world.pass(Millis::minutes(61));
    let denied = ground.says_in(NEW, ("caller", "four"), IN_GROUP);
    assert_eq!((denied.reason, ground.cards().len()), (Some(Reason::ChatDenied), 2));
    ground.world.configure(vec![Change::AllowChat(place().0, place().1)]).unwrap();
    assert_eq!(ground.says_in(NEW, ("caller", "five"), IN_GROUP).outcome, Outcome::Held);
}

/// Leaves a recorded drop and no row.
#[test]
fn where_nobody_can_be_asked() {
    let unreachable = BARE.replace("telegram:owner", "matrix:owner");
    let only_admin_of_one = BARE.replace("roles = [\"owner\"]", "roles = [\"admin:andy\"]");
    for (case, toml, reason) in [
        ("no roles", BARE.replace("roles = [\"owner\"]", ""), Reason::NobodyToAsk),
        ("no agents", "[[users]]\nid = \"telegram:owner\"\nroles = [\"owner\"]".to_owned(), Reason::NoAgentWired),
        ("no adapter", unreachable, Reason::NobodyToAsk),
        ("which agents hear a chat is not for the administrator of one", only_admin_of_one, Reason::NobodyToAsk),
    ] {
        let mut ground = Ground::of(&toml);
        let report = ground.says_in(NEW, ("caller", "hello"), MENTION);
        assert_eq!((report.outcome, report.reason), (Outcome::Dropped, Some(reason)), "{case}");
        assert_eq!((ground.cards().len(), ground.approvals().len()), (0, 0), "{case}");
        assert_eq!(ground.reasons(), [reason], "{case}");
        assert_eq!((ground.count("held"), ground.count("bodies")), (0, 0), "{case}");
    }
    let mut ground = Ground::of(BARE);
    let unmentioned = ground.says_in(NEW, ("caller", "hello"), "\"isGroup\":true");
    assert_eq!((unmentioned.reason, ground.count("chats"), ground.cards().len()), (Some(Reason::UnknownChat), 0, 0));
}

/// The owner writes where there is only one agent: it is wired and receives the message without a question.
#[test]
fn an_owners_word_wires_silently_where_there_is_one_agent() {
    let admin = BARE.replace("roles = [\"owner\"]", "roles = [\"admin\"]");
    let scoped = format!("{BARE}[[users]]\nid = \"telegram:x\"\nroles = [\"admin:andy\"]\n");
    for (case, toml, who, silent) in [
        ("an owner", BARE, "owner", true),
        ("a global admin", &admin, "owner", true),
        ("somebody else", BARE, "caller", false),
        ("an admin of the agent: other chats are not theirs", &scoped, "x", false),
        ("an owner with two agents", TWO, "owner", false),
    ] {
        let mut ground = Ground::of(toml);
        let report = ground.says_in(NEW, (who, "hello"), MENTION);
        let expected = if silent { (Outcome::Routed, 0, 1) } else { (Outcome::Held, 1, 0) };
        assert_eq!((report.outcome, ground.cards().len(), wirings(&ground).len()), expected, "{case}");
        if silent {
            assert_eq!(ground.heard(), ["hello"], "{case}");
            assert_eq!(ground.members().len(), 0, "{case}: an owner needs no membership");
        }
    }
    // Another person's message was already waiting: it is routed first.
    let mut ground = Ground::of(BARE);
    ground.says_in(NEW, ("caller", "one"), IN_GROUP);
    ground.says_in(NEW, ("owner", "two"), IN_GROUP);
    assert_eq!(ground.states()[0], "superseded");
    assert_eq!(ground.heard(), ["two"], "the caller is a stranger to the agent");
    assert_eq!((ground.states(), ground.cards().len()), (vec!["superseded", "pending"], 2));
}

/// Unlike in NanoClaw: one card with one button per agent. The card says how many agents have no button.
#[test]
fn every_agent_has_a_button() {
    let mut ground = Ground::of(TWO);
    ground.says_in(NEW, ("caller", "hi"), MENTION);
    assert_eq!(ground.card_places(), ["telegram/owner"]);
    ground.presses("telegram:owner", 1);
    assert_eq!(ground.members(), ["ag2 telegram:caller by telegram:owner"]);
    let mut toml = "[[users]]\nid = \"telegram:owner\"\nroles = [\"owner\"]\n".to_owned();
    for n in 0..13 {
        toml += &format!("[[agents]]\nfolder = \"a{n:02}\"\n");
    }
    let mut ground = Ground::of(&toml);
    ground.says_in(NEW, ("caller", "hi"), MENTION);
    let (_, card) = ground.last_card();
    assert_eq!(card.options.len(), 12);
    assert!(card.body.contains("(3 more agents have no button"), "{}", card.body);
    // The operator names one of the agents without a button. An unknown agent is not a valid choice.
    let id = ground.approvals()[0].0;
    for unknown in ["connect:ag14", "connect:", "connect:a12"] {
        assert!(matches!(ground.decides(id, unknown).reply, Reply::Refused(_)), "{unknown}");
    }
    let told = Reply::Answered { decided: true, text: "✅ Connected to a12".to_owned() };
    assert_eq!(ground.decides(id, "connect:ag13").reply, told);
    assert_eq!(
        (ground.members(), ground.heard()),
        (vec!["ag13 telegram:caller by nobody".to_owned()], vec!["hi".to_owned()])
    );
}

/// Only owners and global administrators decide about chats.
#[test]
fn only_who_rules_everything_decides_about_chats() {
    for (who, may) in [("telegram:owner", true), ("telegram:andys", false), ("telegram:caller", false)] {
        let mut ground = Ground::of(TWO);
        ground.says_in(NEW, ("caller", "hi"), MENTION);
        assert_eq!(ground.presses(who, 0).0, may, "{who}");
        assert_eq!((wirings(&ground).len(), ground.open()), (usize::from(may), usize::from(!may)), "{who}");
    }
}

/// Things that may no longer exist when the decision is made.
#[test]
fn what_is_gone_is_not_wired() {
    let net = || ChannelName::new("telegram").unwrap();
    let chat = || ForeignId::new("chat", "new").unwrap();
    let mut ground = Ground::of(TWO);
    ground.says_in(NEW, ("caller", "hi"), MENTION);
    ground.world.configure(vec![Change::RemoveAgent(Folder::new("andy").unwrap())]).unwrap();
    let (decided, text) = ground.presses("telegram:owner", 0);
    assert_eq!((decided, text.as_str()), (false, "No longer needed: the agent was removed."));
    assert_eq!((ground.states(), wirings(&ground).len()), (vec!["superseded"], 0));
    assert_eq!((ground.reasons(), ground.members().len()), (vec![Reason::Superseded], 0));
    // The next mention asks again, without waiting for an hour.
    assert_eq!(ground.says_in(NEW, ("caller", "hi"), MENTION).outcome, Outcome::Held);
    ground.world.configure(vec![Change::RemoveChat(net(), chat())]).unwrap();
    ground.world.settle();
    assert_eq!(ground.states(), ["superseded", "superseded"]);
    ground.says_in(NEW, ("caller", "hi"), MENTION);
    let id = ground.approvals().last().unwrap().0;
    let reply = ground.decides(id, "allow").reply;
    assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
    assert_eq!(ground.open(), 1);
}

/// Wired in another way while the card is open: the held message is routed there.
#[test]
fn a_wiring_made_by_command_answers_the_question() {
    let mut ground = Ground::of(BARE);
    ground.says_in(NEW, ("caller", "hello"), MENTION);
    ground.world.apply(
        "[[chats]]\nchannel = \"telegram\"\nplatform_id = \"new\"\nunknown_senders = \"public\"\n[[chats.wirings]]\nagent = \"andy\"\nengage = \"pattern\"\npattern = \".\"\n",
    );
    ground.world.settle();
    assert_eq!((ground.states(), ground.heard()), (vec!["superseded"], vec!["hello".to_owned()]));
    assert!(ground.edits()[0].ends_with("\n\n🚫 No longer needed: an agent listens there by now"));
}

#[test]
fn a_new_agent_is_named_by_whoever_chose_it() {
    let taken = "[[agents]]\nfolder = \"research-bot\"\n";
    for (toml, folder) in [(BARE.to_owned(), "research-bot"), (format!("{BARE}{taken}"), "research-bot-2")] {
        let mut ground = Ground::of(&toml);
        ground.says_in(NEW, ("caller", "help"), MENTION);
        let create = u32::try_from(ground.last_card().1.options.len() - 2).unwrap();
        assert_eq!(ground.presses("telegram:owner", create), (true, "🆕 Connecting a new agent…".to_owned()));
        assert_eq!(ground.states(), ["naming"]);
        assert_eq!(ground.shown().last().unwrap().2, "Reply with the name for your new agent:");
        // In other chats, and from other people, it is an ordinary message.
        let elsewhere = ground.says_in(("telegram", "other", None), ("owner", "Elsewhere Bot"), IN_GROUP);
        assert_ne!(elsewhere.outcome, Outcome::Consumed);
        let other = ground.says_in(("telegram", "owner", None), ("intruder", "Evil Bot"), MENTION);
        assert_ne!(other.outcome, Outcome::Consumed);
        // Unlike in NanoClaw: after an invalid name, the person is asked again.
        for bad in ["   ", "/start", "a\nb"] {
            let report = ground.says_in(("telegram", "owner", None), ("owner", bad), MENTION);
            assert_eq!((report.outcome, report.reason), (Outcome::Consumed, Some(Reason::Answer)), "{bad:?}");
            assert!(ground.shown().last().unwrap().2.contains("reply with"), "{bad:?}");
        }
        assert!(ground.states().contains(&"naming"));
        // It survives a restart.
        ground.world.restart();
        ground.world.settle();
        let named = ground.says_in(("telegram", "owner", None), ("owner", " Research Bot "), MENTION);
        assert_eq!(named.outcome, Outcome::Consumed);
        let agent = ground.world.read(|db, txn| Ok(db.agents.last(txn, ..)?.unwrap().1));
        assert_eq!((agent.settings.name.as_str(), agent.folder.as_str()), ("Research Bot", folder));
        assert_eq!(agent.settings.trust, Trust::Untrusted);
        assert!(ground.shown().iter().any(|(to, act, text)| {
            to == "telegram/owner"
                && *act == DeliveryAct::Say
                && text == "✅ Agent \"Research Bot\" created and connected."
        }));
        assert!(ground.heard().contains(&"help".to_owned()));
    }
}

/// Text from another approver, in the chat where a name is expected, is not taken as the name.
#[test]
fn a_name_is_taken_from_whoever_chose_only() {
    let second = "[[users]]\nid = \"telegram:second\"\nroles = [\"owner\"]\n";
    let mut ground = Ground::of(&format!("{TWO}{second}"));
    ground.says_in(NEW, ("caller", "help"), MENTION);
    ground.presses("telegram:owner", 2);
    let other = ground.says_in(("telegram", "owner", None), ("second", "Their Bot"), MENTION);
    assert_ne!(other.outcome, Outcome::Consumed);
    assert_eq!((ground.states()[0], ground.world.read(|db, txn| db.agents.len(txn))), ("naming", 2));
    let named = ground.says_in(("telegram", "owner", None), ("owner", "My Bot"), MENTION);
    assert_eq!((named.outcome, ground.states()[0]), (Outcome::Consumed, "approved"));
}

/// A configuration change re-evaluates a limited number of open approvals at once. Deciding one of the others is
/// answered with "the chat is gone", and creates no agent.
#[test]
fn a_chat_that_is_gone_gets_no_agent() {
    let ahead = "[[chats]]\nchannel = \"telegram\"\nplatform_id = \"many\"\ngroup = true\n\
                 [[chats.wirings]]\nagent = \"andy\"\nengage = \"pattern\"\npattern = \".\"\n";
    let policy = Policy { approvals_per_chat: 300, ..Policy::STANDARD };
    let mut ground = Ground::in_world(World::with(policy, |_| {}), &format!("{BARE}{ahead}"));
    for n in 0..200 {
        let stranger = ground.event(("telegram", "many", None), (&format!("s{n}"), "hi"), "");
        ground.world.inject(&stranger);
    }
    ground.world.settle();
    for (chat, value) in [("gone-1", "new_agent:Research Bot"), ("gone-2", "connect:ag1"), ("gone-3", "approve")] {
        ground.says_in(("telegram", chat, None), ("caller", "help"), IN_GROUP);
        let (id, before) = (ground.approvals().last().unwrap().0, wirings(&ground).len());
        let chat = ForeignId::new("chat", chat).unwrap();
        let remove = Change::RemoveChat(ChannelName::new("telegram").unwrap(), chat);
        ground.world.configure(vec![remove]).unwrap();
        assert_eq!(ground.states().last(), Some(&"unsent"), "{value}: it was not looked at yet");
        let told = ground.decides(id, value).reply;
        let why = "No longer needed: the chat was removed.".to_owned();
        assert_eq!(told, Reply::Answered { decided: false, text: why }, "{value}");
        assert_eq!((ground.states().last(), wirings(&ground).len()), (Some(&"superseded"), before), "{value}");
        assert_eq!(ground.world.read(|db, txn| db.agents.len(txn)), 1, "{value}");
    }
}

#[test]
fn a_name_that_nobody_gives_opens_the_choice_again() {
    let mut ground = Ground::of(BARE);
    ground.says_in(NEW, ("caller", "help"), MENTION);
    ground.presses("telegram:owner", 1);
    ground.world.pass(Millis::minutes(15));
    ground.world.sweep();
    ground.world.settle();
    assert_eq!((ground.states(), ground.cards().len(), ground.count("asked")), (vec!["pending"], 2, 1));
    // Too late for a name: it is an ordinary message now (an owner's in an unwired chat).
    assert_ne!(ground.says_in(("telegram", "owner", None), ("owner", "Late Bot"), MENTION).outcome, Outcome::Consumed);
    ground.presses_on_newest_about(ApprovalId::new(1), 0);
    assert!(matches!(ground.approvals()[0].1.state, ApprovalState::Approved { .. }));
}

/// The choice is shown again to the person who made it, even if another approver would be next.
#[test]
fn a_name_that_nobody_gives_is_asked_of_the_same_person() {
    let second = "[[users]]\nid = \"telegram:second\"\nroles = [\"owner\"]\n";
    let mut ground = Ground::of(&format!("{BARE}{second}"));
    ground.says_in(NEW, ("caller", "help"), MENTION);
    ground.presses("telegram:owner", 1);
    ground.world.pass(Millis::minutes(15));
    ground.world.sweep();
    ground.world.settle();
    assert_eq!(ground.card_places(), ["telegram/owner", "telegram/owner"]);
    assert!(ground.presses("telegram:owner", 0).0);
}

/// NanoClaw remembers one name request per person: a second choice would take the first one's name.
#[test]
fn one_name_is_owed_at_a_time() {
    let mut ground = Ground::of(TWO);
    ground.says_in(NEW, ("caller", "one"), MENTION);
    ground.presses("telegram:owner", 2);
    ground.says_in(("telegram", "newer", None), ("caller", "two"), MENTION);
    let (decided, text) = ground.presses("telegram:owner", 2);
    assert!(!decided && text.contains("already creating an agent"), "{text}");
    ground.says_in(("telegram", "owner", None), ("owner", "First"), MENTION);
    assert_eq!((ground.states(), ground.heard()), (vec!["approved", "pending"], vec!["one".to_owned()]));
    // The person who chose has lost the role before sending the name.
    ground.presses("telegram:owner", 3);
    let owner = UserId::parse("telegram:owner").unwrap();
    ground.world.configure(vec![Change::Revoke(owner, RoleSpec::Owner)]).unwrap();
    assert_ne!(ground.says_in(("telegram", "owner", None), ("owner", "Second"), MENTION).outcome, Outcome::Consumed);
    assert_eq!(ground.world.read(|db, txn| db.agents.len(txn)), 3);
}

#[test]
fn the_operator_makes_an_agent_with_its_name_at_once() {
    let mut ground = Ground::of(BARE);
    ground.says_in(NEW, ("caller", "help"), MENTION);
    let refused = ground.decides(ApprovalId::new(1), "new_agent").reply;
    assert!(matches!(&refused, Reply::Answered { decided: false, .. }), "{refused:?}");
    let done = ground.decides(ApprovalId::new(1), "new_agent:Research Bot").reply;
    assert!(matches!(&done, Reply::Answered { decided: true, .. }), "{done:?}");
    assert_eq!((ground.heard(), ground.states()), (vec!["help".to_owned()], vec!["approved"]));
    let mut ground = Ground::of(BARE);
    ground.says_in(NEW, ("caller", "help"), MENTION);
    ground.decides(ApprovalId::new(1), "approve");
    assert_eq!(ground.heard(), ["help"]);
}

/// Many chats at once cause one card each, and many messages in one chat cause a single card.
#[test]
fn one_card_per_chat() {
    let policy = Policy { channel_card_again: Millis::minutes(60), ..Policy::STANDARD };
    let mut ground = Ground::in_world(World::with(policy, |_| {}), BARE);
    for n in 0..3 {
        for chat in ["x", "y", "z"] {
            ground.says_in(("telegram", chat, None), (&format!("u{n}"), "hi"), IN_GROUP);
        }
    }
    assert_eq!((ground.cards().len(), ground.open(), ground.held().len()), (3, 3, 3));
}
