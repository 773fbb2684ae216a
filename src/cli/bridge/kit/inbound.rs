//! Cases about messages of people.

use std::time::Duration;

use hearth_bridge::{Event, FromBridge, ToBridge};

use super::network::Network;
use super::peer::Peer;
use super::{Case, Kit, Verdict};

/// Messages in a burst.
const BURST: usize = 20;
/// How long a second copy of a message is looked for.
const MOMENT: Duration = Duration::from_millis(2_500);

const NEEDS_NETWORK: Verdict = Verdict::NotTried("it needs --network");

pub(super) const CASES: &[Case] = &[
    Case {
        name: "message",
        checks: "a message arrives once, with id, chat, text, and a sender beside it",
        run: message,
    },
    Case { name: "order", checks: "messages of a chat arrive in order, 20 in a burst", run: order },
    Case { name: "later", checks: "a message that was put off comes again, and none is missing", run: later },
    Case {
        name: "refused",
        checks: "a refused message does not come again, and does not hold up others",
        run: refused,
    },
    Case {
        name: "killed-before",
        checks: "killed before its message was taken, it brings it again",
        run: killed_before,
    },
    Case { name: "killed-after", checks: "killed after, it brings the same id or nothing", run: killed_after },
    Case { name: "away", checks: "what was written while it was away arrives", run: away },
];

/// A message that arrived.
#[derive(Clone)]
struct Arrived {
    seq: u64,
    id: String,
    chat: String,
    text: String,
    sender: bool,
}

fn arrived(frame: &FromBridge) -> Option<Arrived> {
    let FromBridge::Event { event, seq, .. } = frame else { return None };
    let Event { sender, rest, .. } = event;
    let message = rest.get("message")?;
    let word =
        |value: Option<&serde_json::Value>| value.and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    let content = message.get("content");
    let text = content.and_then(|content| content.get("text")).or(content);
    Some(Arrived {
        seq: *seq,
        id: word(message.get("id")),
        chat: word(rest.get("platformId")),
        text: word(text),
        sender: sender.as_ref().is_some_and(|sender| !sender.id.is_empty()),
    })
}

/// Waits for the message with a text, which is not answered.
fn wait(peer: &mut Peer<'_>, text: &str) -> Result<Arrived, String> {
    let patience = peer.kit.patience * 2;
    let found = peer.until(patience, |frame| arrived(frame).filter(|message| message.text.contains(text)))?;
    found.ok_or_else(|| format!("the message did not arrive within {patience:?}"))
}

/// The frame of the message with a text, accepted.
fn taken(peer: &mut Peer<'_>, text: &str) -> Result<Arrived, String> {
    let message = wait(peer, text)?;
    peer.send(&ToBridge::Taken { taken: message.seq, report: None })?;
    Ok(message)
}

/// Whether a message with this text comes within a moment; others are taken.
fn comes(peer: &mut Peer<'_>, text: &str) -> Result<Option<Arrived>, String> {
    peer.until(MOMENT, |frame| arrived(frame).filter(|message| message.text.contains(text)))
}

fn say<'k>(kit: &'k Kit<'_>, text: &str) -> Result<Option<&'k Network>, String> {
    let Some(network) = &kit.network else { return Ok(None) };
    network.say(text).map(|()| Some(network))
}

fn message(kit: &Kit<'_>) -> Result<Verdict, String> {
    let mut peer = Peer::start(kit)?;
    let text = kit.text("hello");
    if say(kit, &text)?.is_none() {
        return Ok(NEEDS_NETWORK);
    }
    let message = taken(&mut peer, &text)?;
    kit.met(&message.chat);
    if message.id.is_empty() || message.chat.is_empty() {
        return Err("`message.id` or `platformId` is missing".to_owned());
    }
    if !message.sender {
        return Err("it has no `sender` beside the message".to_owned());
    }
    if comes(&mut peer, &text)?.is_some() {
        return Err("it came twice".to_owned());
    }
    Ok(Verdict::Passed)
}

fn order(kit: &Kit<'_>) -> Result<Verdict, String> {
    let mut peer = Peer::start(kit)?;
    let Some(network) = &kit.network else { return Ok(NEEDS_NETWORK) };
    let texts: Vec<String> = (0..BURST).map(|_| kit.text("burst")).collect();
    texts.iter().try_for_each(|text| network.say(text))?;
    for text in &texts {
        let next =
            peer.until(kit.patience * 2, |frame| arrived(frame).filter(|message| message.text.contains("burst")))?;
        let next = next.ok_or_else(|| format!("`{text}` did not arrive"))?;
        peer.send(&ToBridge::Taken { taken: next.seq, report: None })?;
        if !next.text.contains(text.as_str()) {
            return Err(format!("`{}` arrived where `{text}` was next", next.text));
        }
    }
    Ok(Verdict::Passed)
}

fn later(kit: &Kit<'_>) -> Result<Verdict, String> {
    let mut peer = Peer::start(kit)?;
    let text = kit.text("put off");
    if say(kit, &text)?.is_none() {
        return Ok(NEEDS_NETWORK);
    }
    let first = wait(&mut peer, &text)?;
    peer.send(&ToBridge::Later { later: first.seq, after: 1, why: "a test".to_owned() })?;
    let again = taken(&mut peer, &text)?;
    if again.id != first.id {
        return Err(format!("it came again with the id {} instead of {}", again.id, first.id));
    }
    Ok(Verdict::Passed)
}

fn refused(kit: &Kit<'_>) -> Result<Verdict, String> {
    let mut peer = Peer::start(kit)?;
    let text = kit.text("unwanted");
    let Some(network) = say(kit, &text)? else { return Ok(NEEDS_NETWORK) };
    let first = wait(&mut peer, &text)?;
    peer.send(&ToBridge::Refused { refused: first.seq, why: "a test".to_owned() })?;
    if comes(&mut peer, &text)?.is_some() {
        return Err("it came again".to_owned());
    }
    let next = kit.text("the next");
    network.say(&next)?;
    taken(&mut peer, &next).map(|_| Verdict::Passed)
}

fn killed_before(kit: &Kit<'_>) -> Result<Verdict, String> {
    let mut peer = Peer::start(kit)?;
    let text = kit.text("not taken");
    if say(kit, &text)?.is_none() {
        return Ok(NEEDS_NETWORK);
    }
    let first = wait(&mut peer, &text)?;
    peer.kill();
    drop(peer);
    let mut peer = Peer::start(kit)?;
    let again = taken(&mut peer, &text).map_err(|why| format!("after the restart: {why}"))?;
    if again.id != first.id {
        return Err(format!("it came again with the id {} instead of {}", again.id, first.id));
    }
    Ok(Verdict::Passed)
}

fn killed_after(kit: &Kit<'_>) -> Result<Verdict, String> {
    let mut peer = Peer::start(kit)?;
    let text = kit.text("taken");
    if say(kit, &text)?.is_none() {
        return Ok(NEEDS_NETWORK);
    }
    let mut first = None;
    let found = peer.until(kit.patience * 2, |frame| {
        let message = arrived(frame).filter(|message| message.text.contains(&text))?;
        if let FromBridge::Event { cursors, .. } = frame {
            kit.store(cursors);
        }
        first = Some(message.id.clone());
        Some(message.seq)
    })?;
    let seq = found.ok_or_else(|| format!("the message did not arrive within {:?}", kit.patience * 2))?;
    peer.send(&ToBridge::Taken { taken: seq, report: None })?;
    peer.kill();
    drop(peer);
    let mut peer = Peer::start(kit)?;
    let again = comes(&mut peer, &text)?;
    match (again, first) {
        (Some(again), Some(first)) if again.id != first => {
            Err(format!("it came again with the id {}, so that it is another message than {first}", again.id))
        }
        (again, _) => {
            again.map_or(Ok(()), |again| peer.send(&ToBridge::Taken { taken: again.seq, report: None }))?;
            Ok(Verdict::Passed)
        }
    }
}

fn away(kit: &Kit<'_>) -> Result<Verdict, String> {
    drop(Peer::start(kit)?);
    let Some(network) = &kit.network else { return Ok(NEEDS_NETWORK) };
    let texts: Vec<String> = (0..3).map(|_| kit.text("meanwhile")).collect();
    texts.iter().try_for_each(|text| network.say(text))?;
    let mut peer = Peer::start(kit)?;
    for text in &texts {
        taken(&mut peer, text).map_err(|why| format!("`{text}`: {why}"))?;
    }
    Ok(Verdict::Passed)
}
