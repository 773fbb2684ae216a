//! Cases about messages of people.

use std::collections::BTreeMap;

use hearth_bridge::ToBridge;

use super::network::Network;
use super::peer::Peer;
use super::steps::{Arrived, arrived};
use super::{Case, Kit, Stop, Tried};
use crate::clock::Stopwatch;

/// Messages in a burst, if people write quickly.
const BURST: usize = 100;

pub(super) const CASES: &[Case] = &[
    Case::new(1, "message", "a message arrives once, with id, chat, text, and a sender beside it", message),
    Case::new(3, "killed-before", "killed before its message was taken, it brings it again", killed_before),
    Case::new(4, "killed-after", "killed after, it brings the same id or nothing", killed_after),
    Case::new(
        5,
        "later",
        "a message that was put off comes again, before later ones of its chat; other chats go on",
        later,
    ),
    Case::new(6, "refused", "a refused message does not come again, and does not hold up others", refused),
    Case::new(7, "repeated", "a message that the network repeats is the same one", repeated),
    Case::new(8, "order", "100 messages over several chats arrive in the order of each chat", order),
    Case::new(9, "away", "what was written while it was away arrives", away),
    Case::new(10, "cursor", "a cursor that is stored does not pass a message that was not taken", cursor),
    Case::new(11, "lost-cursor", "with cursors that the network does not know, messages arrive", lost_cursor),
    Case::new(12, "own", "what it says itself and what other bots say is no message", own),
    Case::new(13, "changes", "an edit, a deletion and a reaction are no messages", changes),
    Case::new(14, "meddling", "an edit by someone else is no message", meddling),
    Case::new(15, "namesake", "someone with the name of another has another id", namesake),
    Case::new(16, "forged", "an id in what a person wrote does not become the sender's", forged),
    Case::new(
        17,
        "mention",
        "in a group, a mention and a reply are for the bot; its name and `everyone` are not",
        mention,
    ),
    Case::new(18, "group", "groups and direct chats are told apart", group),
];

/// A bridge, and a message that reached it.
fn with<'a>(kit: &'a Kit<'a>, what: &str) -> Result<(&'a Network, Peer<'a>, String), Stop> {
    let network = kit.network()?;
    let mut peer = Peer::start(kit)?;
    peer.hears()?;
    let text = kit.text(what);
    network.say(&text)?;
    Ok((network, peer, text))
}

fn message(kit: &Kit<'_>) -> Tried {
    let (_, mut peer, text) = with(kit, "hello")?;
    let message = peer.taken(&text)?;
    kit.met(&message.chat);
    if message.id.is_empty() || message.chat.is_empty() {
        return Err("`message.id` or `platformId` is missing".into());
    }
    if message.sender.is_none_or(|sender| sender.id.is_empty()) {
        return Err("it has no `sender` beside the message".into());
    }
    peer.nothing(&text, "it came twice")
}

/// The same message once more, by its id.
fn same(first: &Arrived, again: &Arrived) -> Tried {
    if again.id == first.id {
        return Ok(());
    }
    Err(format!("it came again with the id {} instead of {}: that is another message", again.id, first.id).into())
}

fn killed_before(kit: &Kit<'_>) -> Tried {
    let (_, mut peer, text) = with(kit, "not taken")?;
    let first = peer.wait(&text)?;
    peer.kill();
    drop(peer);
    let again = Peer::start(kit)?.taken(&text).map_err(|why| format!("after the restart: {why}"))?;
    same(&first, &again)
}

fn killed_after(kit: &Kit<'_>) -> Tried {
    let (_, mut peer, text) = with(kit, "taken")?;
    let first = peer.taken(&text)?;
    peer.kill();
    drop(peer);
    let mut peer = Peer::start(kit)?;
    match peer.comes(&text)? {
        Some(again) => same(&first, &again).and_then(|()| Ok(peer.accept(&again)?)),
        None => Ok(()),
    }
}

/// The next message with one of these texts, which is not answered.
fn next(peer: &mut Peer<'_>, texts: &[&String]) -> Result<Arrived, Stop> {
    let patience = peer.kit.patience;
    let is_one = |message: &Arrived| texts.iter().any(|text| message.text.contains(text.as_str()));
    let found = peer.until(patience, |frame| arrived(frame).filter(is_one))?;
    found.ok_or_else(|| format!("none of {texts:?} arrived within {patience:?}").into())
}

fn later(kit: &Kit<'_>) -> Tried {
    let (network, mut peer, text) = with(kit, "put off")?;
    let first = peer.wait(&text)?;
    let later = |seq| ToBridge::Later { later: seq, after: 1, why: "a test".to_owned() };
    peer.send(&later(first.seq))?;
    let behind = kit.text("behind it");
    network.say(&behind)?;
    if network.can("stranger").is_ok() {
        let other = kit.text("of another chat");
        network.act(&["stranger", &other])?;
        let watch = Stopwatch::start();
        loop {
            let message = next(&mut peer, &[&text, &behind, &other])?;
            if message.text.contains(&other) {
                peer.accept(&message)?;
                break;
            }
            if !message.text.contains(&text) || watch.elapsed() > kit.patience {
                return Err(format!("`{}` came where `{other}` of another chat was next", message.text).into());
            }
            peer.send(&later(message.seq))?;
        }
    }
    let expected = [&text, &behind];
    for wanted in &expected {
        let message = next(&mut peer, &expected)?;
        if !message.text.contains(wanted.as_str()) {
            return Err(format!("`{}` came where `{wanted}` was next", message.text).into());
        }
        if *wanted == &text {
            same(&first, &message)?;
        }
        peer.accept(&message)?;
    }
    Ok(())
}

fn refused(kit: &Kit<'_>) -> Tried {
    let (network, mut peer, text) = with(kit, "unwanted")?;
    let first = peer.wait(&text)?;
    peer.send(&ToBridge::Refused { refused: first.seq, why: "a test".to_owned() })?;
    peer.nothing(&text, "it came again")?;
    let following = kit.text("the next");
    network.say(&following)?;
    Ok(peer.taken(&following).map(drop)?)
}

fn repeated(kit: &Kit<'_>) -> Tried {
    kit.network()?.can("repeat")?;
    let (network, mut peer, text) = with(kit, "repeated")?;
    let first = peer.taken(&text)?;
    network.act(&["repeat"])?;
    match peer.comes(&text)? {
        Some(again) => same(&first, &again).and_then(|()| Ok(peer.accept(&again)?)),
        None => Ok(()),
    }
}

fn order(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    let mut peer = Peer::start(kit)?;
    let texts: Vec<String> = (0..BURST).map(|_| format!("{}.", kit.text("burst"))).collect();
    let verb = if network.can("burst").is_ok() { "burst" } else { "say" };
    network.act(&[&[verb], &texts.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat())?;
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    let all: Vec<&String> = texts.iter().collect();
    for _ in &texts {
        let message = next(&mut peer, &all)?;
        peer.accept(&message)?;
        let at = texts.iter().position(|text| message.text.contains(text.as_str())).unwrap_or_default();
        if last.insert(message.chat, at).is_some_and(|before| before >= at) {
            return Err(format!("`{}` arrived out of order", message.text).into());
        }
    }
    Ok(())
}

fn away(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    drop(Peer::start(kit)?);
    let texts: Vec<String> = (0..=BURST).map(|_| format!("{}.", kit.text("meanwhile"))).collect();
    network.act(&[&["say"], &texts.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat())?;
    let mut peer = Peer::start(kit)?;
    texts.iter().try_for_each(|text| peer.taken(text).map(drop))?;
    Ok(())
}

fn cursor(kit: &Kit<'_>) -> Tried {
    kit.network()?.can("stranger")?;
    let (network, mut peer, text) = with(kit, "not taken")?;
    let first = peer.wait(&text)?;
    let other = kit.text("of another chat");
    network.act(&["stranger", &other])?;
    if let Some(message) = peer.comes(&other)? {
        peer.accept(&message)?;
    }
    peer.kill();
    drop(peer);
    let again = Peer::start(kit)?.taken(&text).map_err(|why| format!("after the restart: {why}"))?;
    same(&first, &again)
}

fn lost_cursor(kit: &Kit<'_>) -> Tried {
    let (network, mut peer, text) = with(kit, "before the loss")?;
    peer.taken(&text)?;
    drop(peer);
    let known = kit.cursors();
    if known.is_empty() {
        return Err(Stop::NotTried("it has no cursors".to_owned()));
    }
    kit.store(&known.keys().map(|name| (name.clone(), "kit-nonsense".to_owned())).collect());
    let text = kit.text("after the loss");
    let arrives = || -> Tried {
        let mut peer = Peer::start(kit)?;
        peer.hears()?;
        network.say(&text)?;
        Ok(peer.taken(&text).map(drop)?)
    };
    let tried = arrives();
    if tried.is_err() {
        kit.store(&known);
    }
    tried
}

fn own(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    let mut peer = Peer::start(kit)?;
    let texts = [kit.text("by itself"), kit.text("by a bot")];
    peer.says(&texts[0])?;
    if network.can("bot").is_ok() {
        network.act(&["bot", &texts[1]])?;
    }
    texts.iter().try_for_each(|text| peer.nothing(text, "the words of a bot came as a message"))
}

fn changes(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    let known: Vec<&str> = ["edit", "react", "delete"].into_iter().filter(|verb| network.can(verb).is_ok()).collect();
    if known.is_empty() {
        return network.can("edit");
    }
    let (_, mut peer, text) = with(kit, "to be changed")?;
    peer.taken(&text)?;
    peer.settle()?;
    let changed = kit.text("changed");
    for verb in known {
        network.act(&[verb, &changed])?;
    }
    let any = peer.comes("")?;
    any.map_or(Ok(()), |message| Err(format!("a change came as the message `{}`", message.text).into()))
}

fn meddling(kit: &Kit<'_>) -> Tried {
    kit.network()?.can("meddle")?;
    let (network, mut peer, text) = with(kit, "to be left alone")?;
    peer.taken(&text)?;
    peer.settle()?;
    let changed = kit.text("changed by someone else");
    network.act(&["meddle", &changed])?;
    peer.nothing("", "the edit of someone else came as a message")
}

/// The sender of the message that an act leads to.
fn sender(peer: &mut Peer<'_>, network: &Network, verb: &str) -> Result<hearth_bridge::Sender, Stop> {
    let text = peer.kit.text(verb);
    network.act(&[verb, &text])?;
    let message = peer.taken(&text)?;
    message.sender.ok_or_else(|| "it has no `sender`".into())
}

/// Whether two senders are the same for Hearth: those that are not verified are unknown.
fn differs(kit: &Kit<'_>, verb: &str) -> Tried {
    let network = kit.network()?;
    network.can(verb)?;
    let mut peer = Peer::start(kit)?;
    let ann = sender(&mut peer, network, "say")?;
    let other = sender(&mut peer, network, verb)?;
    if other.id == ann.id && other.verified {
        return Err(format!("another person has the id {}, too", ann.id).into());
    }
    Ok(())
}

fn namesake(kit: &Kit<'_>) -> Tried {
    differs(kit, "stranger")
}

fn forged(kit: &Kit<'_>) -> Tried {
    differs(kit, "forge")
}

fn mention(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    network.can("mention")?;
    let mut peer = Peer::start(kit)?;
    for (verb, expected) in [("mention", true), ("named", false), ("reply", true), ("everyone", false)] {
        if network.can(verb).is_err() {
            continue;
        }
        if verb == "reply" {
            let said = peer.delivery(&kit.text("to be answered"))?;
            let platform_id = network.act(&["where"])?;
            peer.delivered(&hearth_bridge::Deliver { platform_id, ..said })?;
        }
        let text = kit.text(verb);
        network.act(&[verb, &text])?;
        let message = if expected { peer.wait(&text).map(Some)? } else { peer.comes(&text)? };
        let Some(message) = message else { continue };
        peer.accept(&message)?;
        if message.mention != expected {
            return Err(format!("`isMention` of `{verb}` is {}", message.mention).into());
        }
    }
    Ok(())
}

fn group(kit: &Kit<'_>) -> Tried {
    kit.network()?.can("mention")?;
    let (network, mut peer, direct) = with(kit, "direct")?;
    let all = kit.text("to all");
    let direct = peer.taken(&direct)?;
    network.act(&["mention", &all])?;
    let all = peer.taken(&all)?;
    match (direct.group, all.group) {
        (false, true) if direct.chat != all.chat => Ok(()),
        (direct, all) => Err(format!("`isGroup` is {direct} of a direct chat and {all} of a group").into()),
    }
}
