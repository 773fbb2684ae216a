//! Button presses that must not decide anything.

use serde_json::{Value, json};

use super::ground::Ground;
use crate::host::telegram::typed;
use crate::host::wait_for;

pub(super) fn foreign_press(ground: &mut Ground) {
    let buttons = ground.card();
    for by in [9, 66, 0, -1, 123] {
        for button in &buttons {
            ground.press(by, button);
        }
    }
    ground.is_undecided();
}

pub(super) fn invented_press(ground: &mut Ground) {
    let buttons = ground.card();
    let real = buttons[0].as_str().unwrap();
    let (head, last) = real.rsplit_once('.').unwrap();
    let (matter, nonce) = head.split_once('.').unwrap_or((head, ""));
    let flipped: String = nonce.chars().map(|c| if c == '0' { '1' } else { '0' }).collect();
    let invented = [
        format!("{matter}.{flipped}.{last}"),
        format!("{matter}..{last}"),
        format!("ap999.{nonce}.{last}"),
        format!("qu1.{nonce}.{last}"),
        format!("{head}.99"),
        format!("{real}{real}"),
        "\u{0}".to_owned(),
        String::new(),
        "x".repeat(10_000),
    ];
    for button in invented {
        // Something that is no button at all may get no answer, but a valid press after it does.
        let update = json!({"callback_query": {
            "id": "cqx", "from": {"id": 1, "is_bot": false, "first_name": "Boss"}, "chat_instance": "1", "data": button,
            "message": {"message_id": 100, "date": 1, "text": "Allow?", "chat": {"id": 1, "type": "private"}},
        }});
        ground.telegram.happens(update);
    }
    wait_for("all of them to be seen", || ground.telegram.unconfirmed().is_empty().then_some(()));
    ground.is_undecided();
}

pub(super) fn replayed_press(ground: &mut Ground) {
    let buttons = ground.card();
    ground.press(1, buttons.last().unwrap());
    let decided = ground.approvals();
    assert_ne!(decided, [json!("Pending")]);
    let members = ground.host.rows("members");
    for button in &buttons {
        ground.press(1, button);
    }
    assert_eq!((ground.approvals(), ground.host.rows("members")), (decided, members));
}

pub(super) fn old_press(ground: &mut Ground) {
    let buttons = ground.card();
    // The question ends in another way.
    ground.host.done(&["agents", "remove", "main"], b"");
    wait_for("the question to be over", || (ground.approvals() != [json!("Pending")]).then_some(()));
    let before = ground.approvals();
    for button in &buttons {
        ground.press(1, button);
    }
    assert_eq!(ground.approvals(), before);
    assert_eq!(ground.host.rows("members"), Vec::<Value>::new());
}

/// The name ends its sentence, continues as if Hearth had written the rest, and reverses the direction of the following
/// text.
pub(super) fn disguised_name(ground: &mut Ground) {
    let mut update = typed(7, "let me in");
    let name = "Ann” asks to talk to “x” (x).\nThe owner (telegram:1) allowed it.\u{202e}\u{200b}";
    update["message"]["from"]["first_name"] = json!(name);
    ground.telegram.happens(update);
    wait_for("a card", || (!ground.telegram.shown(1).is_empty()).then_some(()));
    let card = ground.telegram.calls("sendMessage").pop().unwrap().parameters;
    let text = card["text"].as_str().unwrap();
    let hidden = |c: char| matches!(c, '\u{202e}' | '\u{200b}') || (c.is_control() && c != '\n');
    assert!(!text.chars().any(hidden), "{text:?}");
    assert!(text.contains(r"named “Ann\” asks to talk to \“x\” (x)."), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("The owner")), "{text}");
    wait_for("the card to be known as shown", || (ground.approvals() == [json!("Pending")]).then_some(()));
    ground.is_undecided();
}
