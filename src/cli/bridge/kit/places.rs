//! Cases about threads, about groups that change or end, and about codes.

use std::sync::PoisonError;

use hearth_bridge::{Deliver, Sent};

use super::network::Network;
use super::peer::Peer;
use super::steps::once;
use super::{Case, Kit, Stop, Tried};

pub(super) const CASES: &[Case] = &[
    Case::new(19, "thread", "what is written in a thread is answered there; without threads, in the chat", thread),
    Case::new(20, "room", "a group with another name is the same chat; one that is gone holds nothing up", room),
    Case::new(
        21,
        "thrown-out",
        "a group that throws it out holds nothing up; where strangers invite it is another chat",
        thrown_out,
    ),
    Case::new(49, "code", "a code arrives letter by letter, with who sent it, and is in no line of output", code),
];

fn thread(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let text = kit.text("answered in its thread");
    if !peer.can().threads {
        let deliver = Deliver { thread_id: Some("7".to_owned()), ..peer.delivery(&text)? };
        peer.delivered(&deliver)?;
        return once(kit, &text);
    }
    let network = kit.network()?;
    let said = kit.text("in a thread");
    network.act(&["thread", &said])?;
    let message = peer.taken(&said)?;
    if message.thread.is_none() {
        return Err("a message of a thread has no `threadId`".into());
    }
    let beside = kit.text("beside the thread");
    let deliver = Deliver { platform_id: message.chat, ..peer.delivery(&beside)? };
    peer.delivered(&deliver)?;
    let deliver = Deliver { id: kit.id(), thread_id: message.thread, text: text.clone(), ..deliver };
    peer.delivered(&deliver)?;
    match network.shows("threaded", &text)? {
        Some(there) if there.contains(&beside) => Err("what was not for the thread is in it".into()),
        Some(_) => Ok(()),
        None => Err(format!("`{text}` is not in the thread").into()),
    }
}

fn room(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    if network.can("gone").is_err() {
        network.can("rename")?;
    }
    let mut peer = Peer::start(kit)?;
    if network.can("rename").is_ok() {
        let before = named(kit, network, &mut peer)?;
        network.act(&["rename"])?;
        if named(kit, network, &mut peer)? != before {
            return Err("with another name, a group is another chat".into());
        }
    }
    if network.can("gone").is_ok() { cannot_reach(kit, network, &mut peer, "gone") } else { Ok(()) }
}

/// The chat of a group, by a message.
fn named(kit: &Kit<'_>, network: &Network, peer: &mut Peer<'_>) -> Result<String, Stop> {
    let text = kit.text("in a group");
    network.act(&["mention", &text])?;
    Ok(peer.taken(&text)?.chat)
}

/// Sends to a group where nothing can be said any more, and to the chat of the kit.
fn cannot_reach(kit: &Kit<'_>, network: &Network, peer: &mut Peer<'_>, verb: &str) -> Tried {
    let chat = network.act(&[verb])?;
    let deliver = Deliver { platform_id: chat, ..peer.delivery(&kit.text(verb))? };
    let outcome = peer.deliver(&deliver)?;
    match outcome.result {
        Sent::Delivered | Sent::Uncertain => {
            return Err(format!("after `{verb}`, the outcome of a message there is {:?}", outcome.result).into());
        }
        Sent::Rejected if outcome.why.is_none_or(|why| why.trim().is_empty()) => {
            return Err(format!("after `{verb}`, it does not say why a message there is refused").into());
        }
        Sent::Rejected | Sent::Retry | Sent::Absent => {}
    }
    let text = kit.text("to others");
    peer.says(&text)?;
    once(kit, &text)
}

fn thrown_out(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    if network.can("thrown").is_err() {
        network.can("invite")?;
    }
    let mut peer = Peer::start(kit)?;
    if network.can("thrown").is_ok() {
        cannot_reach(kit, network, &mut peer, "thrown")?;
    }
    if network.can("invite").is_err() {
        return Ok(());
    }
    let text = kit.text("who invites");
    network.say(&text)?;
    let ann = peer.taken(&text)?;
    let group = named(kit, network, &mut peer)?;
    let text = kit.text("invited");
    network.act(&["invite", &text])?;
    let Some(message) = peer.comes(&text)? else { return Ok(()) };
    peer.accept(&message)?;
    let is_ann = message.sender.map(|sender| sender.id) == ann.sender.map(|sender| sender.id);
    if is_ann || message.chat == group || message.chat == ann.chat {
        return Err("what a stranger writes where they invited it came as if from elsewhere".into());
    }
    Ok(())
}

fn code(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    let mut peer = Peer::start(kit)?;
    let code = || format!("{:04X}-{:04X}", kit.run & 0xffff, kit.number());
    let sent = code();
    network.say(&sent)?;
    let message = peer.taken(&sent)?;
    if message.text.trim() != sent || message.group || message.sender.is_none() {
        return Err(format!("a code arrived as `{}`, in a group: {}", message.text, message.group).into());
    }
    if network.can("mention").is_ok() {
        let sent = code();
        network.act(&["mention", &sent])?;
        if !peer.taken(&sent)?.group {
            return Err("a code that others in its group can read arrived as if it were sent directly".into());
        }
    }
    let output = kit.output.lock().unwrap_or_else(PoisonError::into_inner);
    if output.iter().any(|line| line.contains(&sent)) { Err("its output contains a code".into()) } else { Ok(()) }
}
