//! Text answers: only the exact words from an approver count; everything else is an ordinary message.

use hearth::model::configure::Change;
use hearth::model::entity::Folder;
use hearth::model::message::Reason;
use hearth::model::report::Outcome;
use hearth::model::{Millis, UserId};

use super::ground::{GROUP, Ground};

const MENTION: &str = "\"isMention\":true";
const TERMINAL: &str = r#"
[[agents]]
folder = "main"
[[users]]
id = "terminal:1000"
roles = ["owner"]
[[chats]]
channel = "terminal"
platform_id = "main"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
[[chats]]
channel = "telegram"
platform_id = "chat-123"
[[chats.wirings]]
agent = "main"
engage = "pattern"
pattern = "."
"#;

#[test]
fn a_number_answers_the_newest_card() {
    for (text, state, outcome) in [
        ("1", "approved", Outcome::Consumed),
        (" 2 ", "rejected", Outcome::Consumed),
        ("ap1 1", "approved", Outcome::Consumed),
        ("ap9 1", "pending", Outcome::Routed),
        ("3", "pending", Outcome::Routed),
        ("0", "pending", Outcome::Routed),
        ("yes", "pending", Outcome::Routed),
        ("1 please", "pending", Outcome::Routed),
        (" ALLOW ", "approved", Outcome::Consumed),
        ("reject", "rejected", Outcome::Consumed),
        ("deny it", "pending", Outcome::Routed),
    ] {
        let mut ground = Ground::of(TERMINAL);
        ground.says("stranger", "hello");
        assert_eq!(ground.card_places(), ["terminal/@1000"]);
        let report = ground.says_in(("terminal", "main", None), ("1000", text), MENTION);
        assert_eq!((report.outcome, ground.states()), (outcome, vec![state]), "{text:?}");
        if outcome == Outcome::Consumed {
            assert_eq!(report.reason, Some(Reason::Answer));
            let (to, _, said) = ground.shown().pop().unwrap();
            assert_eq!(to, "terminal/@1000", "{text:?}");
            assert!(said.starts_with("👤 New sender\n\n"), "{said}");
        }
    }
}

/// The owner has not seen the card yet: a number they type goes to the agent.
#[test]
fn a_card_that_nobody_has_seen_is_answered_by_its_id_only() {
    let mut ground = Ground::of(TERMINAL);
    ground.world.outside.channel = Box::new(|_| Some(hearth::model::delivery::DeliveryResult::Absent));
    ground.says("stranger", "hello");
    assert_eq!(ground.says_in(("terminal", "main", None), ("1000", "1"), MENTION).outcome, Outcome::Routed);
    assert_eq!(ground.says_in(("terminal", "main", None), ("1000", "ap1 1"), MENTION).outcome, Outcome::Consumed);
    assert_eq!(ground.states(), ["approved"]);
}

/// Only the older of two cards was seen: a number answers the visible one.
#[test]
fn a_number_answers_the_newest_card_that_was_seen() {
    let mut ground = Ground::of(TERMINAL);
    ground.says("s1", "one");
    ground.world.outside.channel = Box::new(|_| Some(hearth::model::delivery::DeliveryResult::Absent));
    ground.says("s2", "two");
    assert_eq!(ground.says_in(("terminal", "main", None), ("1000", "1"), MENTION).outcome, Outcome::Consumed);
    assert_eq!(ground.states(), ["approved", "unsent"]);
    // No visible card is left.
    assert_eq!(ground.says_in(("terminal", "main", None), ("1000", "1"), MENTION).outcome, Outcome::Routed);
    assert_eq!(ground.states(), ["approved", "unsent"]);
}

#[test]
fn an_answer_twice_is_one_answer() {
    let mut ground = Ground::of(TERMINAL);
    ground.says("s1", "one");
    ground.says("s2", "two");
    let answer = ground.event(("terminal", "main", None), ("1000", "ap1 1"), MENTION);
    assert_eq!(ground.world.inject(&answer).outcome, Outcome::Consumed);
    ground.world.settle();
    let again = ground.world.inject(&answer);
    assert_eq!((again.outcome, again.reason), (Outcome::Duplicate, Some(Reason::Answer)));
    assert_eq!(ground.states(), ["approved", "pending"]);
    // Only the second person's card is open.
    assert_eq!(ground.says_in(("terminal", "main", None), ("1000", "2"), MENTION).outcome, Outcome::Consumed);
    assert_eq!(ground.states(), ["approved", "rejected"]);
    // No question is open any more: a number is an ordinary message again.
    assert_eq!(ground.says_in(("terminal", "main", None), ("1000", "2"), MENTION).outcome, Outcome::Routed);
}

/// Two cards are open: a bare number could mean either, and decides nothing.
#[test]
fn a_number_with_two_open_cards_asks_which_one() {
    let mut ground = Ground::of(TERMINAL);
    ground.says("s1", "one");
    ground.says("s2", "two");
    let report = ground.says_in(("terminal", "main", None), ("1000", "1"), MENTION);
    assert_eq!((report.outcome, report.reason), (Outcome::Consumed, Some(Reason::Answer)));
    assert_eq!(ground.states(), ["pending", "pending"]);
    let (to, _, said) = ground.shown().pop().unwrap();
    assert_eq!((to.as_str(), said.as_str()), ("terminal/@1000", "2 cards are open here. Say `ap2 1` or `ap1 1`."));
    // No card has a third option.
    assert_eq!(ground.says_in(("terminal", "main", None), ("1000", "3"), MENTION).outcome, Outcome::Routed);
    assert_eq!(ground.says_in(("terminal", "main", None), ("1000", "ap1 1"), MENTION).outcome, Outcome::Consumed);
    assert_eq!(ground.says_in(("terminal", "main", None), ("1000", "2"), MENTION).outcome, Outcome::Consumed);
    assert_eq!(ground.states(), ["approved", "rejected"]);
}

#[test]
fn the_words_of_several_open_cards_ask_which_one() {
    let mut ground = Ground::of(TERMINAL);
    ground.says("s1", "one");
    ground.says("s2", "two");
    let report = ground.says_in(("terminal", "main", None), ("1000", "deny"), MENTION);
    assert_eq!((report.outcome, report.reason), (Outcome::Consumed, Some(Reason::Answer)));
    assert_eq!(ground.states(), ["pending", "pending"]);
    let (to, _, said) = ground.shown().pop().unwrap();
    assert_eq!((to.as_str(), said.as_str()), ("terminal/@1000", "2 cards are open here. Say `ap2 2` or `ap1 2`."));
    // A card that was not seen is not meant.
    let mut ground = Ground::of(TERMINAL);
    ground.world.outside.channel = Box::new(|_| Some(hearth::model::delivery::DeliveryResult::Absent));
    ground.says("s1", "one");
    assert_eq!(ground.says_in(("terminal", "main", None), ("1000", "allow"), MENTION).outcome, Outcome::Routed);
}

/// The list has the words that answer, where they answer. A group learns only that there is something.
#[test]
fn approvals_are_listed_with_the_words_that_answer_them() {
    let ask = |ground: &mut Ground, (channel, chat), who| {
        ground.says_in((channel, chat, None), (who, "/approvals"), MENTION);
        ground.shown().pop().map(|(_, _, said)| said).unwrap_or_default()
    };
    let terminal = ("terminal", "main");
    let mut ground = Ground::of(TERMINAL);
    assert_eq!(ask(&mut ground, terminal, "1000"), "You can decide: nothing at the moment.");
    ground.says("stranger", "hello");
    let told = ask(&mut ground, terminal, "1000");
    assert!(told.starts_with("You can decide:\nap1 👤 New sender: ") && told.contains("asks to talk to"), "{told}");
    assert!(told.ends_with(" (`ap1 1` Allow, `ap1 2` Deny)"), "{told}");
    assert_eq!(ground.says_in(("terminal", "main", None), ("1000", "ap1 2"), MENTION).outcome, Outcome::Consumed);
    assert_eq!(ask(&mut ground, terminal, "1000"), "You can decide: nothing at the moment.");
    // The card is in another chat.
    let group = TERMINAL.replace("platform_id = \"chat-123\"", "platform_id = \"chat-123\"\ngroup = true");
    let mut ground = Ground::of(&format!("{group}[[users]]\nid = \"telegram:boss\"\nroles = [\"owner\"]\n"));
    ground.says("stranger", "hello");
    let told = "You can decide 1 approval. Write `/approvals` in a direct chat to see it.";
    assert_eq!(ask(&mut ground, ("telegram", "chat-123"), "boss"), told);
    let told = ask(&mut ground, terminal, "1000");
    assert!(told.ends_with(" (answer where its card is)"), "{told}");
}

/// A person who decides for one agent is not told what waits for those who decide for another.
#[test]
fn approvals_that_others_decide_are_not_listed() {
    let second = TERMINAL.replace("folder = \"main\"", "folder = \"main\"\n[[agents]]\nfolder = \"second\"")
        + "[[users]]\nid = \"telegram:adam\"\nroles = [\"admin:second\"]\n\
           [[chats]]\nchannel = \"telegram\"\nplatform_id = \"chat-2\"\n\
           [[chats.wirings]]\nagent = \"second\"\nengage = \"pattern\"\npattern = \".\"\n";
    let mut ground = Ground::of(&second);
    ground.says("stranger", "hello");
    let mut ask = |(channel, chat), who| {
        ground.says_in((channel, chat, None), (who, "/approvals"), MENTION);
        ground.shown().pop().map(|(_, _, said)| said).unwrap_or_default()
    };
    assert_eq!(ask(("telegram", "chat-2"), "adam"), "You can decide: nothing at the moment.");
    assert!(ask(("terminal", "main"), "1000").contains("ap1 👤 New sender: "));
}

/// An answer to a decided card does not go to the agent.
#[test]
fn an_answer_to_a_decided_card_says_that_it_was_decided() {
    let mut ground = Ground::of(TERMINAL);
    ground.says("s1", "one");
    ground.says_in(("terminal", "main", None), ("1000", "ap1 1"), MENTION);
    let report = ground.says_in(("terminal", "main", None), ("1000", "ap1 2"), MENTION);
    assert_eq!((report.outcome, report.reason), (Outcome::Consumed, Some(Reason::Answer)));
    assert_eq!(ground.states(), ["approved"]);
    let (to, _, said) = ground.shown().pop().unwrap();
    assert_eq!((to.as_str(), said.as_str()), ("terminal/@1000", "ap1 was already approved."));
    // A person who may not decide learns nothing: their text is an ordinary message.
    assert_eq!(ground.says_in(("telegram", "chat-123", None), ("s1", "ap1 1"), MENTION).outcome, Outcome::Routed);
}

/// In whatever way a card was closed, an answer to it is no message for the agent. One that is overdue counts as closed,
/// also before the sweep that closes it.
#[test]
fn an_answer_to_a_card_that_is_closed_in_any_way_says_how() {
    let week = Millis::days(7);
    let close = |ground: &mut Ground, how: &str| match how {
        "rejected" => drop(ground.says_in(("terminal", "main", None), ("1000", "ap1 2"), MENTION)),
        "overdue" => ground.world.pass(week),
        "expired" => {
            ground.world.pass(week);
            ground.world.sweep();
            ground.world.settle();
        }
        _ => {
            let member = Change::AddMember(Folder::new("main").unwrap(), UserId::parse("telegram:s1").unwrap());
            ground.world.configure(vec![member]).unwrap();
            ground.world.settle();
        }
    };
    for (how, state, words) in [
        ("rejected", "rejected", "ap1 was already rejected."),
        ("overdue", "pending", "ap1 has expired."),
        ("expired", "expired", "ap1 has expired."),
        ("withdrawn", "superseded", "ap1 is no longer needed."),
    ] {
        let mut ground = Ground::of(TERMINAL);
        ground.says("s1", "one");
        close(&mut ground, how);
        for text in ["ap1 1", "ap1 2"] {
            let report = ground.says_in(("terminal", "main", None), ("1000", text), MENTION);
            assert_eq!((report.outcome, report.reason), (Outcome::Consumed, Some(Reason::Answer)), "{how} {text}");
            let (to, _, said) = ground.shown().pop().unwrap();
            assert_eq!((to.as_str(), said.as_str()), ("terminal/@1000", words), "{how} {text}");
            assert_eq!(ground.states(), [state], "{how} {text}");
        }
        let other = ground.says_in(("telegram", "chat-123", None), ("s2", "ap1 1"), MENTION);
        assert_ne!(other.reason, Some(Reason::Answer), "{how}: a person who may not decide learns nothing");
    }
}

#[test]
fn numbers_and_words_of_others_are_talk() {
    let mut ground = Ground::of(&format!(
        "{GROUP}[[chats]]\nchannel = \"telegram\"\nplatform_id = \"owner\"\nunknown_senders = \"public\"\n[[chats.wirings]]\nagent = \"andy\"\nengage = \"pattern\"\npattern = \".\"\n"
    ));
    ground.says("stranger", "hello");
    for text in ["1", "Allow", "approve"] {
        let report = ground.says_in(("telegram", "owner", None), ("somebody", text), MENTION);
        assert_eq!((report.outcome, ground.states()), (Outcome::Routed, vec!["pending"]), "{text}");
    }
    let report = ground.says_in(("telegram", "owner", None), ("owner", "1"), MENTION);
    assert_eq!((report.outcome, ground.states()), (Outcome::Consumed, vec!["approved"]), "buttons or not");
}

/// A card too long for one message of the channel is not cut: it can be rejected there, and approved only where all of
/// it is shown.
#[test]
fn what_is_too_long_for_a_card_is_not_approved_on_it() {
    let name = "é".repeat(200);
    let agents: String =
        (0..64).map(|n| format!("[[agents]]\nfolder = \"a{n:02}\"\nname = \"{}\"\n", "long ".repeat(10))).collect();
    let wired: String = (0..64)
        .map(|n| format!("[[chats.wirings]]\nagent = \"a{n:02}\"\nengage = \"pattern\"\npattern = \".\"\n"))
        .collect();
    let toml = format!(
        "{agents}[[users]]\nid = \"telegram:owner\"\nroles = [\"owner\"]\n[[chats]]\nchannel = \"telegram\"\n\
         platform_id = \"chat-123\"\nunknown_senders = \"request_approval\"\n{wired}"
    );
    let mut ground = Ground::of(&toml);
    let sender = format!(r#""senderId":"s1","senderName":"{name}""#);
    let json = crate::world::event_in(("telegram", "chat-123", None), ("m1", "hi", &sender), "");
    ground.world.inject(&json);
    ground.world.settle();
    let (to, card) = ground.last_card();
    assert!(card.body.contains("`hearth approvals show ap1` shows all of it") && !card.body.contains('é'), "{card:?}");
    let offered: Vec<_> = card.offered().map(|(at, option)| (at, option.label.as_str())).collect();
    assert_eq!(offered, [(1, "Deny")]);
    // Neither a forged press nor a typed number approves it, and the person who typed is told why.
    let (decided, why) = ground.presses_on("telegram:owner", (&to, card.button(0)));
    assert!(!decided && why.starts_with("ap1 is too long to be shown here"), "{why}");
    for (said, text) in [(2, "1"), (3, "ap1 1"), (4, "approve")] {
        let report = ground.says_in(("telegram", "owner", None), ("owner", text), "");
        assert_eq!((report.outcome, ground.states()), (Outcome::Consumed, vec!["pending"]), "{text}");
        let shown = ground.shown();
        assert_eq!((shown.len(), shown.last().unwrap().2.as_str()), (said, why.as_str()), "{text}");
    }
    let mut other = Ground::of(&toml);
    other.world.inject(&json);
    other.world.settle();
    assert_eq!(other.says_in(("telegram", "owner", None), ("owner", "2"), "").outcome, Outcome::Consumed);
    assert_eq!(other.states(), ["rejected"]);
    // The operator sees the full text by command.
    ground.decides(hearth::model::id::ApprovalId::new(1), "approve");
    assert_eq!(ground.states(), ["approved"]);
}
