//! Cases about long texts, which are several messages, and about changes of messages.

use std::time::Duration;

use hearth_bridge::{Deliver, DeliverAct, Idempotency, Outcome, Sent};

use super::peer::Peer;
use super::steps::once;
use super::{Case, Kit, Stop, Tried};

pub(super) const CASES: &[Case] = &[
    Case::new(33, "long", "a text of 20,000 characters is sent whole and in order, or refused", long),
    Case::new(33, "long-part", "if the network refuses the second part of it, the first is not sent again", long_part),
    Case::new(37, "edit", "an edit is made if it can, else refused; one of nothing has an outcome", edit),
    Case::new(37, "edit-parts", "an edit of a long text changes all its parts, also after a restart", edit_parts),
];

/// A long text with words at its beginning, in its middle and at its end.
fn long_text(kit: &Kit<'_>, about: &str) -> ([String; 3], String) {
    let texts = ["first", "middle", "last"].map(|place| format!("{}.", kit.text(&format!("{about} {place}"))));
    // Each in a paragraph of its own: a network may split between words.
    let filler = "A sentence 😀 of a long text. ".repeat(340);
    let whole = texts.join(&format!("\n\n{filler}\n\n"));
    (texts, whole)
}

/// Checks that each part is there once, in its order.
fn whole(kit: &Kit<'_>, texts: &[String; 3]) -> Tried {
    texts.iter().try_for_each(|text| once(kit, text))?;
    let Ok(network) = kit.network() else { return Ok(()) };
    let heard = network.heard()?;
    if !texts.iter().map(|text| heard.find(text)).is_sorted() {
        return Err("its parts are not in order".into());
    }
    if heard.contains(char::REPLACEMENT_CHARACTER) {
        return Err("a character was split".into());
    }
    Ok(())
}

/// Fails unless the outcome is that something was sent. A bridge may refuse what is too long.
fn sent(outcome: &Outcome) -> Tried {
    match outcome.result {
        Sent::Delivered => Ok(()),
        Sent::Rejected if outcome.why.is_some() => Err(Stop::NotTried("it refuses long texts".to_owned())),
        other => Err(format!("the outcome is {other:?}: {}", outcome.why.clone().unwrap_or_default()).into()),
    }
}

fn long(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let (texts, text) = long_text(kit, "long");
    let deliver = peer.delivery(&text)?;
    match sent(&peer.deliver(&deliver)?) {
        Err(Stop::NotTried(_)) => Ok(()),
        other => other.and_then(|()| whole(kit, &texts)),
    }
}

fn long_part(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    network.can("trip")?;
    let mut peer = Peer::start(kit)?;
    let (texts, text) = long_text(kit, "tripped");
    let deliver = peer.delivery(&text)?;
    network.act(&["trip"])?;
    let mut outcome = peer.deliver(&deliver)?;
    if matches!(outcome.result, Sent::Retry | Sent::Uncertain) {
        std::thread::sleep(Duration::from_secs(outcome.after.unwrap_or(1).min(5)));
        let repeated = outcome.result == Sent::Uncertain && peer.can().idempotency == Idempotency::None;
        outcome = peer.deliver(&Deliver { attempt: 2, repeated, ..deliver })?;
    }
    sent(&outcome)?;
    whole(kit, &texts)
}

fn edit(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let before = kit.text("to be edited");
    let message_id = peer.says(&before)?;
    let can = peer.can().edits;
    let text = kit.text("edited");
    let deliver = Deliver { act: DeliverAct::Edit, message_id, ..peer.delivery(&text)? };
    let outcome = peer.deliver(&deliver)?;
    match (can, outcome.result) {
        (true, Sent::Delivered) => once(kit, &text)?,
        (false, Sent::Rejected) => return Ok(()),
        (_, other) => return Err(format!("`edits` is {can}, and the outcome is {other:?}").into()),
    }
    // To the same text, and of a message that is gone.
    peer.delivered(&Deliver { id: kit.id(), ..deliver.clone() })?;
    once(kit, &text)?;
    let gone = Deliver { id: kit.id(), message_id: Some("999999".to_owned()), ..deliver };
    peer.deliver(&gone).map(drop)?;
    Ok(())
}

fn edit_parts(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    let mut peer = Peer::start(kit)?;
    if !peer.can().edits {
        return Err(Stop::NotTried("messages cannot be changed".to_owned()));
    }
    network.objects("edit-parts")?;
    let (before, text) = long_text(kit, "old");
    let deliver = peer.delivery(&text)?;
    let outcome = peer.deliver(&deliver)?;
    sent(&outcome)?;
    before.iter().try_for_each(|text| once(kit, text))?;
    peer.kill();
    drop(peer);
    let mut peer = Peer::start(kit)?;
    let (after, text) = long_text(kit, "new");
    let edit = Deliver { act: DeliverAct::Edit, message_id: outcome.message_id, ..peer.delivery(&text)? };
    peer.delivered(&edit)?;
    whole(kit, &after)?;
    let heard = network.heard()?;
    match before.iter().find(|text| heard.contains(text.as_str())) {
        Some(text) => Err(format!("`{text}` is still there").into()),
        None => Ok(()),
    }
}
