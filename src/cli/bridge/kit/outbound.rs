//! Cases about messages of agents.

use hearth_bridge::{CardOption, Choice, Deliver, DeliverAct, Idempotency, Sent, SentFile, ShownCard, ToBridge};

use super::peer::Peer;
use super::{Case, Kit, Verdict};

const NEEDS_CHAT: Verdict = Verdict::NotTried("it needs --network or --chat");
const NEEDS_NETWORK: Verdict = Verdict::NotTried("it needs --network");

pub(super) const CASES: &[Case] = &[
    Case { name: "say", checks: "a text is sent once, with `begun` before its outcome", run: say },
    Case {
        name: "again",
        checks: "the same delivery again, under way or done, is one message with one id",
        run: again,
    },
    Case { name: "again-restarted", checks: "the same after a kill is as its capability says", run: again_restarted },
    Case { name: "long", checks: "a text of 20,000 characters is sent whole, or refused", run: long },
    Case { name: "card", checks: "a card is shown with all its options, or refused", run: card },
    Case { name: "edit", checks: "an edit is made if it can, else refused", run: edit },
    Case { name: "react", checks: "a reaction has an outcome", run: react },
    Case {
        name: "file",
        checks: "a file has an outcome and is removed; one that is gone does not lose the text",
        run: file,
    },
    Case { name: "nowhere", checks: "a chat that does not exist has an outcome, and holds nothing up", run: nowhere },
];

fn has_chat(kit: &Kit<'_>) -> bool {
    kit.chat().is_some()
}

fn delivered(peer: &mut Peer<'_>, deliver: &Deliver) -> Result<Option<String>, String> {
    let outcome = peer.deliver(deliver)?;
    if outcome.result == Sent::Delivered {
        return Ok(outcome.message_id);
    }
    Err(format!("the outcome is {:?}: {}", outcome.result, outcome.why.unwrap_or_default()))
}

/// Checks how often the network has a text.
fn once(kit: &Kit<'_>, text: &str) -> Result<Verdict, String> {
    let Some(network) = &kit.network else { return Ok(Verdict::Passed) };
    match network.count(text)? {
        1 => Ok(Verdict::Passed),
        0 => Err("the network does not have it".to_owned()),
        count => Err(format!("the network has it {count} times")),
    }
}

fn say(kit: &Kit<'_>) -> Result<Verdict, String> {
    if !has_chat(kit) {
        return Ok(NEEDS_CHAT);
    }
    let mut peer = Peer::start(kit)?;
    let text = kit.text("said <b>&amp; \"once\" 😀");
    let deliver = peer.delivery(&text)?;
    delivered(&mut peer, &deliver)?;
    once(kit, &text)
}

fn again(kit: &Kit<'_>) -> Result<Verdict, String> {
    if !has_chat(kit) {
        return Ok(NEEDS_CHAT);
    }
    let mut peer = Peer::start(kit)?;
    let text = kit.text("again");
    let deliver = peer.delivery(&text)?;
    let second = Deliver { attempt: 2, ..deliver.clone() };
    peer.send(&ToBridge::Deliver { deliver: Box::new(deliver.clone()) })?;
    let first = delivered(&mut peer, &second)?;
    let last = delivered(&mut peer, &Deliver { attempt: 3, ..deliver })?;
    if first != last {
        return Err(format!("it has the ids {first:?} and {last:?}"));
    }
    once(kit, &text)
}

fn again_restarted(kit: &Kit<'_>) -> Result<Verdict, String> {
    if !has_chat(kit) {
        return Ok(NEEDS_CHAT);
    }
    let mut peer = Peer::start(kit)?;
    let text = kit.text("after a kill");
    let deliver = peer.delivery(&text)?;
    delivered(&mut peer, &deliver)?;
    let promises = peer.ready.as_ref().map(|ready| ready.capabilities.idempotency);
    peer.kill();
    drop(peer);
    let mut peer = Peer::start(kit)?;
    delivered(&mut peer, &Deliver { attempt: 2, repeated: promises == Some(Idempotency::None), ..deliver })?;
    match promises {
        Some(Idempotency::Window { .. } | Idempotency::Always) => once(kit, &text),
        _ => Ok(Verdict::NotTried("it promises nothing: Hearth marks a repeat")),
    }
}

fn long(kit: &Kit<'_>) -> Result<Verdict, String> {
    if !has_chat(kit) {
        return Ok(NEEDS_CHAT);
    }
    let mut peer = Peer::start(kit)?;
    let (first, last) = (kit.text("first"), kit.text("last"));
    // Each in a paragraph of its own: a network may split between words.
    let text = format!("{first}.\n\n{}\n\n{last}.", "A sentence of a long text. ".repeat(740));
    let deliver = peer.delivery(&text)?;
    let outcome = peer.deliver(&deliver)?;
    match outcome.result {
        Sent::Delivered => {
            once(kit, &format!("{first}."))?;
            once(kit, &format!("{last}."))
        }
        Sent::Rejected if outcome.why.is_some() => Ok(Verdict::Passed),
        other => Err(format!("the outcome is {other:?}")),
    }
}

fn card(kit: &Kit<'_>) -> Result<Verdict, String> {
    if !has_chat(kit) {
        return Ok(NEEDS_CHAT);
    }
    let mut peer = Peer::start(kit)?;
    let texts: Vec<String> = ["title", "body", "yes", "no"].iter().map(|what| kit.text(what)).collect();
    let [title, body, yes, no] = texts.as_slice() else { return Err("no texts".to_owned()) };
    let option =
        |label: &String, at: u32| CardOption { label: label.clone(), button: format!("ap4.00000000000000c7.{at}") };
    let shown = ShownCard { title: title.clone(), body: body.clone(), options: vec![option(yes, 0), option(no, 1)] };
    let deliver = Deliver { act: DeliverAct::Ask, card: Some(shown), ..peer.delivery("")? };
    let outcome = peer.deliver(&deliver)?;
    match outcome.result {
        Sent::Rejected if outcome.why.is_some() => Ok(Verdict::Passed),
        Sent::Delivered => {
            let Some(network) = &kit.network else { return Ok(Verdict::Passed) };
            let missing = |text: &&String| network.count(text).is_ok_and(|count| count == 0);
            if let Some(text) = texts.iter().find(missing) {
                return Err(format!("`{text}` was not shown"));
            }
            let buttons = peer.ready.as_ref().is_some_and(|ready| ready.capabilities.choice == Choice::Buttons);
            let heard = network.heard()?;
            if !buttons && ["1. ", "1: "].iter().all(|number| !heard.contains(&format!("{number}{yes}"))) {
                return Err("its options have no numbers".to_owned());
            }
            Ok(Verdict::Passed)
        }
        other => Err(format!("the outcome is {other:?}")),
    }
}

fn edit(kit: &Kit<'_>) -> Result<Verdict, String> {
    if !has_chat(kit) {
        return Ok(NEEDS_CHAT);
    }
    let mut peer = Peer::start(kit)?;
    let said = peer.delivery(&kit.text("to be changed"))?;
    let message = delivered(&mut peer, &said)?;
    let can = peer.ready.as_ref().is_some_and(|ready| ready.capabilities.edits);
    let text = kit.text("changed");
    let deliver = Deliver { act: DeliverAct::Edit, message_id: message, ..peer.delivery(&text)? };
    let outcome = peer.deliver(&deliver)?;
    match (can, outcome.result) {
        (true, Sent::Delivered) => once(kit, &text),
        (false, Sent::Rejected) => Ok(Verdict::Passed),
        (_, other) => Err(format!("`edits` is {can}, and the outcome is {other:?}")),
    }
}

fn react(kit: &Kit<'_>) -> Result<Verdict, String> {
    if !has_chat(kit) {
        return Ok(NEEDS_CHAT);
    }
    let mut peer = Peer::start(kit)?;
    let said = peer.delivery(&kit.text("to be liked"))?;
    let message = delivered(&mut peer, &said)?;
    let deliver = Deliver { act: DeliverAct::React, message_id: message, ..peer.delivery("👍")? };
    match peer.deliver(&deliver)?.result {
        Sent::Delivered | Sent::Rejected => Ok(Verdict::Passed),
        other => Err(format!("the outcome is {other:?}")),
    }
}

fn file(kit: &Kit<'_>) -> Result<Verdict, String> {
    if !has_chat(kit) {
        return Ok(NEEDS_CHAT);
    }
    let mut peer = Peer::start(kit)?;
    let path = kit.directory.join("files").join("out-kit-0");
    std::fs::write(&path, b"the content of a file").map_err(|error| error.to_string())?;
    let there = SentFile { name: "note.txt".to_owned(), size: 21, path: Some("out-kit-0".to_owned()), error: None };
    let gone = SentFile { name: "gone.txt".to_owned(), size: 0, path: None, error: Some("it is gone".to_owned()) };
    let text = kit.text("with files");
    let deliver = Deliver { files: vec![there, gone], ..peer.delivery(&text)? };
    let outcome = peer.deliver(&deliver)?;
    match outcome.result {
        Sent::Rejected if outcome.why.is_some() => return Ok(Verdict::Passed),
        Sent::Delivered => {}
        other => return Err(format!("the outcome is {other:?}")),
    }
    if path.exists() {
        return Err("the file is still in the directory".to_owned());
    }
    if kit.network.is_none() {
        return Ok(NEEDS_NETWORK);
    }
    once(kit, &text)
}

fn nowhere(kit: &Kit<'_>) -> Result<Verdict, String> {
    if !has_chat(kit) {
        return Ok(NEEDS_CHAT);
    }
    let mut peer = Peer::start(kit)?;
    let lost = Deliver { platform_id: "no such chat/../\u{1f4a9}".to_owned(), ..peer.delivery(&kit.text("lost"))? };
    drop(peer.deliver(&lost)?);
    let text = kit.text("found");
    let deliver = peer.delivery(&text)?;
    delivered(&mut peer, &deliver)?;
    once(kit, &text)
}
