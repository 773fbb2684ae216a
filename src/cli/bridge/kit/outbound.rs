//! Cases about messages of agents.

use std::time::Duration;

use hearth_bridge::{
    Action, CardOption, Choice, Deliver, DeliverAct, FromBridge, Idempotency, Named, Outcome, Sent, ShownCard, ToBridge,
};

use super::network::Network;
use super::peer::Peer;
use super::steps::once;
use super::{Case, Kit, Stop, Tried};
use crate::clock::Stopwatch;

/// A year in seconds: a network that asks for this is wrong.
const YEAR: &str = "31536000";
/// The longest pause that a bridge may ask for: a day, and a moment.
const PAUSE_MAX: u64 = 86_460;

pub(super) const CASES: &[Case] = &[
    Case::new(22, "direct", "a direct chat with a person is opened, and one with no one is not", direct),
    Case::new(27, "say", "a text is sent once, with `begun` before its outcome", say),
    Case::new(28, "again", "the same delivery again, under way or done, is one message with one id", again),
    Case::new(28, "again-restarted", "the same after a kill is as its capability says", again_restarted),
    Case::new(29, "cut", "without an answer of the network a repeat is as its capability says", cut),
    Case::new(30, "busy", "what the network refused before it took anything is `retry`", busy),
    Case::new(31, "killed-begun", "killed after `begun`, a repeat is as its capability says", killed_begun),
    Case::new(32, "marked", "a repeat that may have been shown says so", marked),
    Case::new(34, "notifies", "what agents write notifies not everyone, and markup is text", notifies),
    Case::new(35, "previews", "no preview of a link is asked for", previews),
    Case::new(36, "card", "a card is shown with all its options, or refused", card),
    Case::new(
        36,
        "press",
        "a pressed button arrives with its option and who pressed it, also if it is pressed again",
        press,
    ),
    Case::new(
        36,
        "press-late",
        "a press that the network takes no answer to any more arrives, and the card can be changed",
        press_late,
    ),
    Case::new(38, "react", "a reaction is seen once, or refused; one to nothing has an outcome", react),
    Case::new(39, "limited", "a pause that the network asks for is kept, and no absurd one", limited),
    Case::new(40, "nonsense", "an answer that is no answer harms no later message", nonsense),
    Case::besides("nowhere", "a chat that does not exist has an outcome, and holds nothing up", nowhere),
];

fn direct(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    if !peer.can().opens_direct {
        return Err(Stop::NotTried("direct chats need not be opened".to_owned()));
    }
    let network = kit.network()?;
    let text = kit.text("who am I?");
    network.say(&text)?;
    let ann = peer.taken(&text)?.sender.ok_or("it has no `sender`")?.id;
    let chat = opened(&mut peer, 1, &ann)?.map_err(|why| format!("it cannot be opened: {why}"))?;
    let text = kit.text("directly");
    let deliver = Deliver { platform_id: chat, ..peer.delivery(&text)? };
    peer.delivered(&deliver)?;
    once(kit, &text)?;
    match opened(&mut peer, 2, "no such person/../\u{1f4a9}")? {
        Err(_) => Ok(()),
        Ok(chat) => Err(format!("the chat `{chat}` was opened with no one").into()),
    }
}

/// Opens a chat with a person: it, or why that cannot be done.
fn opened(peer: &mut Peer<'_>, seq: u64, user: &str) -> Result<Result<String, String>, Stop> {
    peer.send(&ToBridge::OpenDirect { open_direct: Named { user_id: user.to_owned() }, seq })?;
    let patience = peer.kit.patience;
    let found = peer.until(patience, |frame| match frame {
        FromBridge::Opened { opened } if opened.seq == seq => Some(opened.clone()),
        _ => None,
    })?;
    let found = found.ok_or_else(|| format!("no answer to `openDirect` within {patience:?}"))?;
    Ok(found.platform_id.ok_or(found.why.unwrap_or_default()))
}

fn say(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let text = kit.text("said <b>&amp; \"once\" 😀");
    peer.says(&text)?;
    once(kit, &text)
}

fn again(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let text = kit.text("twice");
    let deliver = peer.delivery(&text)?;
    let second = Deliver { attempt: 2, ..deliver.clone() };
    peer.send(&ToBridge::Deliver { deliver: Box::new(deliver.clone()) })?;
    let first = peer.delivered(&second)?;
    let last = peer.delivered(&Deliver { attempt: 3, ..deliver })?;
    if first != last {
        return Err(format!("it has the ids {first:?} and {last:?}").into());
    }
    once(kit, &text)
}

/// The outcome of a delivery, tried again while the bridge connects.
fn settled(peer: &mut Peer<'_>, deliver: &Deliver) -> Result<Outcome, Stop> {
    let watch = Stopwatch::start();
    loop {
        let outcome = peer.deliver(deliver)?;
        if outcome.result != Sent::Retry || watch.elapsed() >= peer.kit.patience {
            return Ok(outcome);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Repeats a delivery as the daemon would, and checks what people have.
fn repeats(peer: &mut Peer<'_>, deliver: &Deliver) -> Tried {
    let promises = peer.can().idempotency;
    let repeated = promises == Idempotency::None;
    let outcome = settled(peer, &Deliver { attempt: 2, repeated, ..deliver.clone() })?;
    if outcome.result != Sent::Delivered {
        let why = outcome.why.unwrap_or_default();
        return Err(format!("the outcome of the repeat is {:?}: {why}", outcome.result).into());
    }
    if !repeated {
        return once(peer.kit, &deliver.text);
    }
    is_marked(peer.kit, &deliver.text)
}

/// Checks that a text is there once, or twice with a word about its repetition.
fn is_marked(kit: &Kit<'_>, text: &str) -> Tried {
    let Ok(network) = kit.network() else { return Ok(()) };
    let count = network.count(text)?;
    match (count, says_again(&network.heard()?, text)) {
        (1, _) | (2, true) => Ok(()),
        (_, marked) => Err(format!("the network has it {count} times; one of them says so: {marked}").into()),
    }
}

/// Whether `text` was shown marked as a repeat: with "again" in its line or one of the two before.
fn says_again(heard: &str, text: &str) -> bool {
    heard.match_indices(text).any(|(at, _)| {
        let before = heard.get(..at).unwrap_or_default();
        before.rsplit('\n').take(3).any(|line| line.contains("again"))
    })
}

fn again_restarted(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let deliver = peer.delivery(&kit.text("after a kill"))?;
    peer.delivered(&deliver)?;
    peer.kill();
    drop(peer);
    repeats(&mut Peer::start(kit)?, &deliver)
}

fn cut(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    let mut peer = Peer::start(kit)?;
    network.act(&["cut"])?;
    let deliver = peer.delivery(&kit.text("cut off"))?;
    match settled(&mut peer, &deliver)?.result {
        Sent::Uncertain => repeats(&mut peer, &deliver),
        Sent::Delivered => once(kit, &deliver.text),
        other => Err(format!("the outcome is {other:?}, but the network took it").into()),
    }
}

/// The outcome of a text while the network does not answer as it should.
fn faulty(peer: &mut Peer<'_>, network: &Network, fault: &[&str]) -> Result<(Deliver, Outcome), Stop> {
    network.act(fault)?;
    let deliver = peer.delivery(&peer.kit.text(&fault.join(" ")))?;
    let outcome = peer.deliver(&deliver)?;
    Ok((deliver, outcome))
}

fn busy(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    network.can("limit")?;
    let mut peer = Peer::start(kit)?;
    let (deliver, outcome) = faulty(&mut peer, network, &["limit", "1"])?;
    match outcome.result {
        Sent::Retry => {
            std::thread::sleep(Duration::from_secs(outcome.after.unwrap_or(1).min(5)));
            peer.delivered(&Deliver { attempt: 2, ..deliver.clone() })?;
        }
        Sent::Delivered => {}
        other => return Err(format!("the outcome is {other:?}").into()),
    }
    once(kit, &deliver.text)
}

fn killed_begun(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let deliver = peer.delivery(&kit.text("killed in between"))?;
    peer.send(&ToBridge::Deliver { deliver: Box::new(deliver.clone()) })?;
    let patience = kit.patience;
    if !peer.begins(&deliver.id, patience)? {
        return Err(format!("it did not say `begun` within {patience:?}").into());
    }
    peer.kill();
    drop(peer);
    repeats(&mut Peer::start(kit)?, &deliver)
}

fn marked(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    let mut peer = Peer::start(kit)?;
    if peer.can().idempotency == Idempotency::Always {
        return Err(Stop::NotTried("the network recognises repeats for ever".to_owned()));
    }
    network.objects("marked")?;
    let text = kit.text("may have been shown");
    let deliver = Deliver { attempt: 2, repeated: true, ..peer.delivery(&text)? };
    peer.delivered(&deliver)?;
    once(kit, &text)?;
    if says_again(&network.heard()?, &text) { Ok(()) } else { Err("the repeat has no word about it".into()) }
}

fn notifies(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    let mut peer = Peer::start(kit)?;
    let text = kit.text("<b>no markup</b> &lt; 2 * 3 * 4 a_b_c @everyone @here");
    peer.says(&text)?;
    once(kit, &text)?;
    if network.can("pings").is_ok() {
        let pings = network.act(&["pings"])?;
        return if pings.is_empty() { Ok(()) } else { Err(format!("it notifies: {pings}").into()) };
    }
    Ok(())
}

fn previews(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    network.can("previews")?;
    let mut peer = Peer::start(kit)?;
    let text = kit.text("a link: https://example.org/secret?of=an-agent");
    let message_id = peer.says(&text)?;
    if peer.can().edits {
        let edit = Deliver { act: DeliverAct::Edit, message_id, ..peer.delivery(&format!("{text} changed"))? };
        peer.delivered(&edit)?;
    }
    let asked = network.act(&["previews"])?;
    if asked.is_empty() { Ok(()) } else { Err(format!("it asks for previews: {asked}").into()) }
}

/// A card with two options, and their buttons.
fn shown(kit: &Kit<'_>) -> (ShownCard, [String; 2]) {
    let number = kit.number();
    let buttons = [0, 1].map(|at| format!("ap{number}.00000000000000c7.{at}"));
    let option = |what: &str, button: &String| CardOption { label: kit.text(what), button: button.clone() };
    let options = vec![option("yes", &buttons[0]), option("no", &buttons[1])];
    (ShownCard { title: kit.text("title"), body: kit.text("body"), options }, buttons)
}

fn card(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let (shown, _) = shown(kit);
    let options: Vec<String> = shown.options.iter().map(|option| option.label.clone()).collect();
    let texts = [vec![shown.title.clone(), shown.body.clone()], options.clone()].concat();
    let deliver = Deliver { act: DeliverAct::Ask, card: Some(shown), ..peer.delivery("")? };
    let outcome = peer.deliver(&deliver)?;
    match outcome.result {
        Sent::Rejected if outcome.why.is_some() => return Ok(()),
        Sent::Delivered => {}
        other => return Err(format!("the outcome is {other:?}").into()),
    }
    let Ok(network) = kit.network() else { return Ok(()) };
    let missing = |text: &&String| network.count(text).is_ok_and(|count| count == 0);
    if let Some(text) = texts.iter().find(missing) {
        return Err(format!("`{text}` was not shown").into());
    }
    let heard = network.heard()?;
    let is_numbered = |text: &String| ["1. ", "1: "].iter().any(|number| heard.contains(&format!("{number}{text}")));
    if peer.can().choice != Choice::Buttons && !options.first().is_some_and(is_numbered) {
        return Err("its options have no numbers".into());
    }
    Ok(())
}

fn press(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    let mut peer = Peer::start(kit)?;
    if peer.can().choice != Choice::Buttons {
        return Err(Stop::NotTried("it has no buttons".to_owned()));
    }
    network.can("press")?;
    let (shown, buttons) = shown(kit);
    let labels: Vec<String> = shown.options.iter().map(|option| option.label.clone()).collect();
    let deliver = Deliver { act: DeliverAct::Ask, card: Some(shown), ..peer.delivery("")? };
    peer.delivered(&deliver)?;
    // A kill forgets nothing: the value of a button is with the network.
    peer.kill();
    drop(peer);
    let mut peer = Peer::start(kit)?;
    let mut ann = None;
    for (label, button) in labels.iter().zip(&buttons) {
        let action = pressed(&mut peer, network, &["press", label])?;
        let action = action.ok_or_else(|| format!("the press of `{button}` did not arrive"))?;
        if action.button != *button || action.user_id.is_empty() {
            return Err(format!("the press of `{button}` came as {action:?}").into());
        }
        ann = Some(action.user_id);
    }
    let [label, _] = labels.as_slice() else { return Ok(()) };
    // Once more: a bridge may know that it is over.
    if let Some(again) = pressed(&mut peer, network, &["press", label])?.filter(|again| again.button != buttons[0]) {
        return Err(format!("the second press of `{}` came as {again:?}", buttons[0]).into());
    }
    if network.can("press-other").is_ok() {
        let other = pressed(&mut peer, network, &["press-other", label])?;
        if other.is_some_and(|other| Some(other.user_id) == ann) {
            return Err("the press of someone else came as that of the first person".into());
        }
    }
    Ok(())
}

fn press_late(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    let mut peer = Peer::start(kit)?;
    if peer.can().choice != Choice::Buttons {
        return Err(Stop::NotTried("it has no buttons".to_owned()));
    }
    network.can("press-late")?;
    let (shown, [button, _]) = shown(kit);
    let label = shown.options.first().map(|option| option.label.clone()).unwrap_or_default();
    let deliver = Deliver { act: DeliverAct::Ask, card: Some(shown), ..peer.delivery("")? };
    let message_id = peer.delivered(&deliver)?;
    network.act(&["press-late", &label])?;
    // Earlier presses may come again.
    let action = peer.until(kit.patience, |frame| match frame {
        FromBridge::Action { action, seq } if action.button == button => Some((action.clone(), *seq)),
        _ => None,
    })?;
    let (action, seq) = action.ok_or_else(|| format!("the press of `{button}` did not arrive"))?;
    peer.send(&ToBridge::Pressed { pressed: seq, decided: true, text: "too late to be told".to_owned() })?;
    if action.user_id.is_empty() {
        return Err(format!("the press of `{button}` has no person").into());
    }
    let text = kit.text("decided");
    let act = if peer.can().edits { DeliverAct::Edit } else { DeliverAct::Say };
    peer.delivered(&Deliver { act, message_id, ..peer.delivery(&text)? })?;
    once(kit, &text)
}

/// A press of a person, as it arrives.
fn pressed(peer: &mut Peer<'_>, network: &Network, words: &[&str]) -> Result<Option<Action>, Stop> {
    network.act(words)?;
    let action = peer.until(peer.kit.patience, |frame| match frame {
        FromBridge::Action { action, seq } => Some((action.clone(), *seq)),
        _ => None,
    })?;
    let Some((action, seq)) = action else { return Ok(None) };
    peer.send(&ToBridge::Pressed { pressed: seq, decided: true, text: "done".to_owned() })?;
    Ok(Some(action))
}

fn react(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let message_id = peer.says(&kit.text("to be liked"))?;
    let deliver = Deliver { act: DeliverAct::React, message_id, ..peer.delivery("👍")? };
    let before = kit.network().and_then(|network| network.act(&["reactions"])).unwrap_or_default().lines().count();
    for _ in 0..2 {
        let outcome = peer.deliver(&Deliver { id: kit.id(), ..deliver.clone() })?;
        match outcome.result {
            Sent::Delivered => {}
            Sent::Rejected if outcome.why.is_some() => return Ok(()),
            other => return Err(format!("the outcome is {other:?}").into()),
        }
    }
    let gone = Deliver { id: kit.id(), message_id: Some("999999".to_owned()), ..deliver };
    peer.deliver(&gone)?;
    let after = kit.network()?.act(&["reactions"])?.lines().count();
    if after == before + 1 { Ok(()) } else { Err(format!("people see {} of it", after.saturating_sub(before)).into()) }
}

fn limited(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    network.can("limit")?;
    let mut peer = Peer::start(kit)?;
    for seconds in ["1", "", YEAR] {
        let (_, outcome) = faulty(&mut peer, network, &["limit", seconds])?;
        if !matches!(outcome.result, Sent::Retry | Sent::Delivered) {
            return Err(format!("with the time `{seconds}` the outcome is {:?}", outcome.result).into());
        }
        if outcome.after.is_some_and(|after| after > PAUSE_MAX) {
            return Err(format!("it asks for a pause of {:?} s", outcome.after).into());
        }
        drop(peer);
        peer = Peer::start(kit)?;
    }
    let text = kit.text("after the limits");
    peer.says(&text)?;
    once(kit, &text)
}

fn nonsense(kit: &Kit<'_>) -> Tried {
    let network = kit.network()?;
    network.can("html")?;
    let mut peer = Peer::start(kit)?;
    for fault in ["html", "empty", "huge", "deep"] {
        match faulty(&mut peer, network, &[fault]) {
            // It may have tried again itself.
            Ok((deliver, outcome)) if outcome.result == Sent::Delivered => once(kit, &deliver.text)?,
            Err(Stop::Failed(why)) => return Err(format!("with the answer `{fault}`: {why}").into()),
            Ok(_) | Err(Stop::NotTried(_)) => {}
        }
        drop(peer);
        peer = Peer::start(kit)?;
        let text = kit.text("after an answer");
        peer.says(&text)?;
        once(kit, &text)?;
    }
    Ok(())
}

fn nowhere(kit: &Kit<'_>) -> Tried {
    let mut peer = Peer::start(kit)?;
    let lost = Deliver { platform_id: "no such chat/../\u{1f4a9}".to_owned(), ..peer.delivery(&kit.text("lost"))? };
    peer.deliver(&lost)?;
    let text = kit.text("found");
    peer.says(&text)?;
    once(kit, &text)
}
