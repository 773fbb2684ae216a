//! Presses: an unauthorised or invalid press changes nothing; a valid one counts once.

use hearth::model::approval::ApprovalState;
use hearth::model::card::{Button, PromptSubject};
use hearth::model::delivery::{DeliveryAct, DeliveryResult};
use hearth::model::id::{ApprovalId, QuestionId};
use hearth::model::input::Press;
use hearth::model::report::Reply;
use hearth::model::{Input, Millis, UserId};

use super::ground::{BARE, GROUP, GROUP_CHAT, Ground, address, closed, sender_text};
use crate::world::inbound;

const PEOPLE: &str = r#"
[[users]]
id = "telegram:admin"
roles = ["admin"]
[[users]]
id = "telegram:andys"
roles = ["admin:andy"]
[[agents]]
folder = "bob"
[[users]]
id = "telegram:bobs"
roles = ["admin:bob"]
[[users]]
id = "telegram:member"
member_of = ["andy"]
"#;

/// Who may decide about an unknown sender.
#[test]
fn authority_is_asked_first_and_now() {
    for (who, may) in [
        ("telegram:owner", true),
        ("telegram:admin", true),
        ("telegram:andys", true),
        ("telegram:bobs", false),
        ("telegram:member", false),
        ("telegram:stranger", false),
        ("telegram:nobody", false),
        // Unlike in NanoClaw: an id with a colon is prefixed like any other, so it names no other person.
        ("telegram:telegram:owner", false),
        ("discord:owner", false),
    ] {
        let mut ground = Ground::of(&format!("{GROUP}{PEOPLE}"));
        ground.says("stranger", "hello");
        let before = ground.world.text();
        let shown = ground.shown().len();
        let (decided, text) = ground.presses(who, 0);
        assert_eq!(decided, may, "{who}");
        if !may {
            assert_eq!(text, "You may not decide this.", "{who}");
            assert_eq!(ground.world.text(), before, "{who} changes nothing in the store");
            assert_eq!(ground.shown().len(), shown, "{who} changes nothing on the card");
        } else {
            assert_eq!(ground.members().last(), Some(&format!("ag1 telegram:stranger by {who}")), "{who}");
        }
    }
}

/// The person who was asked has lost the role since.
#[test]
fn a_right_that_was_taken_does_not_count() {
    let mut ground = Ground::of(GROUP);
    ground.says("stranger", "hello");
    let owner = UserId::parse("telegram:owner").unwrap();
    let revoke = hearth::model::configure::Change::Revoke(owner, hearth::model::configure::RoleSpec::Owner);
    ground.world.configure(vec![revoke]).unwrap();
    ground.world.settle();
    assert_eq!(ground.presses("telegram:owner", 0), (false, "You may not decide this.".to_owned()));
    assert_eq!(ground.states(), ["unsent"], "there is nobody left to ask");
    // Another approver is asked in their place.
    let mut ground = Ground::of(&format!("{GROUP}{PEOPLE}"));
    ground.says("stranger", "hello");
    assert_eq!(ground.card_places(), ["telegram/andys"]);
    let andys = UserId::parse("telegram:andys").unwrap();
    ground.world.configure(vec![hearth::model::configure::Change::RemoveUser(andys)]).unwrap();
    ground.world.settle();
    assert_eq!(ground.card_places(), ["telegram/andys", "telegram/admin"]);
    assert_eq!((ground.states(), ground.count("asked")), (vec!["pending"], 1));
}

#[test]
fn forged_and_old_buttons_mean_nothing() {
    let mut ground = Ground::of(GROUP);
    ground.says("stranger", "hello");
    let (to, card) = ground.last_card();
    let button = |change: &dyn Fn(&mut Button)| {
        let mut button = card.button(0);
        change(&mut button);
        button
    };
    let before = ground.world.text();
    for (case, button, text) in [
        ("another number", button(&|b| b.nonce ^= 1), "This card was replaced by a newer one."),
        ("no such option", button(&|b| b.option = 7), "This card has no such option."),
        (
            "no such approval",
            button(&|b| b.matter = PromptSubject::Approval(ApprovalId::new(99))),
            "This request no longer exists.",
        ),
    ] {
        assert_eq!(ground.presses_on("telegram:owner", (&to, button)), (false, text.to_owned()), "{case}");
        assert_eq!(ground.world.text(), before, "{case}");
    }
    let question = button(&|b| b.matter = PromptSubject::Question(QuestionId::new(1)));
    let press = Press { by: UserId::parse("telegram:owner").unwrap(), at: to, button: question };
    assert!(!matches!(ground.world.put(Input::Pressed(press)), Reply::Answered { decided: true, .. }));
    assert_eq!(ground.world.text(), before);
}

#[test]
fn twice_is_once() {
    let mut ground = Ground::of(GROUP);
    ground.says("stranger", "hello");
    assert!(ground.presses("telegram:owner", 0).0);
    let (before, shown) = (ground.world.text(), ground.shown().len());
    for option in [0, 1, 0] {
        assert_eq!(ground.presses("telegram:owner", option), (false, "This was decided already.".to_owned()));
    }
    assert_eq!((ground.world.text(), ground.shown().len()), (before, shown));
    // Two people press in one group: the first press counts.
    let mut ground = Ground::of(GROUP);
    ground.says("stranger", "hello");
    let (at, card) = ground.last_card();
    let press = |option| {
        let by = UserId::parse("telegram:owner").unwrap();
        Input::Pressed(Press { by, at: at.clone(), button: card.button(option) })
    };
    let answers = ground.world.group(vec![press(1), press(0)]);
    let decided: Vec<bool> = answers
        .into_iter()
        .map(|answer| matches!(answer.unwrap().reply, Reply::Answered { decided: true, .. }))
        .collect();
    assert_eq!((decided, ground.states()), (vec![true, false], vec!["rejected"]));
}

/// A card that failed is shown again; the buttons of the first one are invalid.
#[test]
fn a_newer_card_replaces_the_older_one() {
    let mut ground = Ground::of(BARE);
    ground.says_in(("telegram", "new", None), ("caller", "hi"), "\"isMention\":true,\"isGroup\":true");
    let (to, old) = ground.last_card();
    ground.presses("telegram:owner", 1);
    ground.world.pass(Millis::minutes(16));
    ground.world.sweep();
    ground.world.settle();
    let (_, new) = ground.last_card();
    assert_ne!(old.nonce, new.nonce);
    let (decided, text) = ground.presses_on("telegram:owner", (&to, old.button(0)));
    assert_eq!((decided, text.as_str()), (false, "This card was replaced by a newer one."));
    assert_eq!(ground.open(), 1);
}

/// Where the channel can edit, Hearth edits the card after a decision; elsewhere it states the outcome in a new
/// message. A card that was not delivered yet is not sent any more.
#[test]
fn cards_are_closed_by_what_the_channel_can() {
    let discord = GROUP.replace("telegram:owner", "terminal:1000");
    for (toml, platform_id, expected) in
        [(GROUP, true, "edit"), (GROUP, false, "message"), (discord.as_str(), true, "message")]
    {
        let mut ground = Ground::of(toml);
        if !platform_id {
            let said = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
            let ear = std::rc::Rc::clone(&said);
            ground.world.outside.channel = Box::new(move |delivery| {
                ear.borrow_mut().push(delivery.act.clone());
                Some(DeliveryResult::Delivered { platform_message: None })
            });
            ground.says("stranger", "hello");
            let id = ground.approvals()[0].0;
            ground.decides(id, "approve");
            assert_eq!(said.borrow().last(), Some(&DeliveryAct::Say));
            continue;
        }
        ground.says("stranger", "hello");
        let id = ground.approvals()[0].0;
        ground.decides(id, "approve");
        let (_, act, text) = ground.shown().pop().unwrap();
        assert_eq!(matches!(act, DeliveryAct::Edit(_)), expected == "edit");
        assert_eq!(text, closed("✅ Allowed"));
    }
    let mut ground = Ground::of(GROUP);
    ground.world.outside.channel = Box::new(|_| Some(DeliveryResult::Absent));
    ground.says("stranger", "hello");
    let id = ground.approvals()[0].0;
    ground.decides(id, "approve");
    let cards: Vec<_> = ground
        .world
        .all_outbound()
        .into_iter()
        .filter(|(_, row)| row.to == Some(address("telegram", "owner")))
        .collect();
    assert_eq!(cards.len(), 1, "nothing was sent, and nothing has to be taken back");
    assert!(format!("{:?}", cards[0].1.state).contains("Abandoned"));
}

/// The edit waits behind its card in the queue, so that the platform's id is known.
#[test]
fn a_card_whose_attempt_is_unknown_is_closed_after_it() {
    let mut ground = Ground::of(GROUP);
    ground.world.inject(&crate::world::event_in(("telegram", "chat-123", None), ("m", "hi", "\"senderId\":\"s\""), ""));
    // The card is being attempted when the operator decides.
    let id = ground.approvals()[0].0;
    ground.world.put(Input::Decide(PromptSubject::Approval(id), "reject".to_owned()));
    ground.world.assert_sound();
    ground.world.settle();
    let asked = sender_text("\"telegram:s\"", "“Andy” (andy)", GROUP_CHAT);
    assert_eq!(ground.edits(), [format!("👤 New sender\n\n{asked}\n\n❌ Denied")]);
    assert_eq!(ground.open(), 0);
}

#[test]
fn the_operator_decides_by_value_label_or_number() {
    for (value, state) in [("approve", "approved"), ("Deny", "rejected"), ("1", "approved"), ("2", "rejected")] {
        let mut ground = Ground::of(GROUP);
        ground.says("stranger", "hello");
        let reply = ground.decides(ApprovalId::new(1), value).reply;
        assert!(matches!(reply, Reply::Answered { decided: true, .. }), "{value}: {reply:?}");
        assert_eq!(ground.states(), [state], "{value}");
        let again = ground.decides(ApprovalId::new(1), value).reply;
        assert!(matches!(&again, Reply::Refused(refusal) if refusal.code == "decided"), "{value}: {again:?}");
    }
    let mut ground = Ground::of(GROUP);
    ground.says("stranger", "hello");
    for (id, value, code) in
        [(1, "perhaps", "invalid"), (1, "", "invalid"), (1, "3", "invalid"), (7, "approve", "unknown")]
    {
        let reply = ground.decides(ApprovalId::new(id), value).reply;
        assert!(matches!(&reply, Reply::Refused(refusal) if refusal.code == code), "{value}: {reply:?}");
    }
    assert_eq!(ground.open(), 1);
    let by = |ground: &Ground| match &ground.approvals()[0].1.state {
        ApprovalState::Approved { by, .. } => format!("{by:?}"),
        other => panic!("{other:?}"),
    };
    ground.decides(ApprovalId::new(1), "approve");
    assert_eq!(by(&ground), "Operator");
    assert_eq!(ground.members(), ["ag1 telegram:stranger by nobody"]);
}

/// An operator decides without a daemon: the effects are lost, and the next start makes up for them.
#[test]
fn a_decision_without_a_daemon_is_carried_out_by_the_next_start() {
    let mut ground = Ground::of(GROUP);
    ground.says("stranger", "hello");
    ground.world.put(Input::Decide(PromptSubject::Approval(ApprovalId::new(1)), "approve".to_owned()));
    ground.world.lose_effects();
    ground.world.restart();
    ground.world.settle();
    ground.world.sweep();
    ground.world.settle();
    assert_eq!(ground.world.outside.launched.len(), 1);
    assert_eq!(ground.edits(), [closed("✅ Allowed")]);
    let again = inbound(&crate::world::event_in(("telegram", "chat-123", None), ("m1", "hello", ""), ""));
    ground.world.put(again);
    assert_eq!(ground.heard(), ["hello"]);
}

/// A button's label and its value. NanoClaw accepts any position and any literal value. In Hearth a button selects one
/// option of one card or nothing, and only the operator's command accepts values.
#[test]
fn buttons_are_decoded() {
    for (text, is_button) in [
        ("ap1.00000000000000aa.0", true),
        ("qu1.00000000000000aa.1", true),
        ("ncq:q1", false),
        ("foo:q1:0", false),
        ("ncq:nsa-1:0", false),
        ("approve", false),
        ("", false),
    ] {
        assert_eq!(Button::parse(text).is_some(), is_button, "{text}");
    }
    for (option, expected) in [(0, "approved"), (1, "rejected"), (7, "pending")] {
        let mut ground = Ground::of(GROUP);
        ground.says("stranger", "hello");
        ground.presses("telegram:owner", option);
        assert_eq!(ground.states(), [expected], "{option}");
    }
}
