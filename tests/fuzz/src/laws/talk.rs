//! Messages from networks and from the socket.

use std::collections::BTreeSet;

use hearth::channel::{event, telegram as bot, webhook as hook};
use hearth::model::address::{Address, ChannelName, ForeignId};
use hearth::model::card::Button;
use hearth::model::content::RawJson;
use hearth::model::delivery::{Attempt, Delivery, DeliveryAct};
use hearth::model::id::{OutboundId, OutgoingId};
use hearth::model::input::{InboundEvent, Press};
use hearth::model::{Awake, Timestamp};
use hearth::socket::protocol::{Request, Response};
use hearth_bridge::{FromBridge, Lines};
use hearth_wire::is_safe_file_name;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{headed, is_json};

const NOW: Timestamp = Timestamp::from_millis(1_776_686_400_000);

/// An accepted event can be routed and is within its limits. A refusal states what would be valid.
pub fn events(bytes: &[u8]) {
    match event::parse(bytes) {
        Ok(event) => {
            assert_ne!(event.source.channel.as_str(), "agent");
            sound(&event);
            assert_eq!(event::parse(bytes), Ok(event));
        }
        Err(bad) => assert!(!bad.to_string().is_empty()),
    }
}

fn sound(event: &InboundEvent) {
    is_json(event.content.raw.as_str());
    assert!(event.content.raw.as_str().len() <= event::CONTENT_BYTES_MAX);
    assert!(!event.source.platform_id.as_str().is_empty());
    assert!(event.content.sender.as_ref().is_none_or(|sender| !sender.as_str().is_empty()));
    assert!(event.content.sender_name.as_ref().is_none_or(|name| !name.chars().any(char::is_control)));
    let mut names = BTreeSet::new();
    for file in &event.attachments {
        assert!(is_safe_file_name(&file.name) && names.insert(file.name.to_lowercase()), "{:?}", file.name);
    }
}

/// A Telegram update, or a text that an agent sends there. The sender is the one that the platform names. Sent text
/// fits, and is formatted only where it has content.
pub fn telegram(bytes: &[u8]) {
    let name = ChannelName::new("telegram").expect("a name");
    let heard = bot::BotIdentity { channel: name.clone(), bot: 4_242, name: "hearth_bot".to_owned() };
    match bot::read(&heard, bytes) {
        Ok(bot::Handed::Event(event)) => {
            assert_eq!(event.source.channel, name);
            sound(&event);
            // Unpaired surrogates in unused fields do no harm to a message, but this check reads all of it.
            let Ok(update) = serde_json::from_slice::<Value>(bytes) else { return };
            let message = update.get("message").filter(|message| !message.is_null());
            let from = &message.unwrap_or(&update["channel_post"])["from"]["id"];
            if let Some(sender) = event.content.sender.as_ref().filter(|sender| !sender.as_str().starts_with("chat:")) {
                assert_eq!(sender.as_str(), from.to_string());
            }
        }
        Ok(bot::Handed::Press(Press { at, .. })) => assert_eq!(at.channel, name),
        Ok(bot::Handed::Nothing) | Err(_) => {}
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for (act, speaker) in [(DeliveryAct::Say, true), (DeliveryAct::Say, false), (DeliveryAct::Edit(id("5")), true)] {
        sent(&delivery(&name, act, speaker.then(|| "Andy".to_owned()), text));
    }
}

fn id(text: &str) -> ForeignId {
    ForeignId::new("id", text).expect("an id")
}

fn delivery(channel: &ChannelName, act: DeliveryAct, speaker: Option<String>, text: &str) -> Delivery {
    Delivery {
        id: OutboundId::new(1),
        key: OutgoingId { id: OutboundId::new(1), epoch: None },
        attempt: Attempt { number: 1, since: Awake::new(1, 0) },
        to: Address { channel: channel.clone(), platform_id: id("-100"), thread: None },
        act,
        repeated: false,
        speaker,
        in_reply_to: None,
        text: text.to_owned(),
        content: RawJson::trusted(if serde_json::from_str::<Value>(text).is_ok() { text } else { "{}" }.to_owned()),
        files: Vec::new(),
    }
}

fn sent(delivery: &Delivery) {
    let Ok(texts) = bot::texts(delivery) else { return };
    for (text, stretches) in texts {
        let units = text.encode_utf16().count() as u64;
        assert!(units <= 4_096 && !text.trim().is_empty(), "{units}: {text:?}");
        for (begin, length) in stretches {
            assert!(length > 0 && begin + length <= units, "{begin}+{length} of {units}: {text:?}");
        }
    }
}

/// A timestamp in a line, a signature in a line, then a body. Only a body that the secret signed is accepted, and an
/// accepted body is an event, an action, or refused with a reason.
pub fn webhook(bytes: &[u8]) {
    const SECRET: &str = "a shared secret";
    let Some((timestamp, rest)) = headed(bytes) else { return };
    let Some((signature, body)) = headed(rest) else { return };
    if hook::check(SECRET, timestamp, signature, body, NOW).is_ok() {
        let seconds = timestamp.parse::<i64>().expect("a time was let in");
        let signed = hook::sign(SECRET, body, Timestamp::from_millis(seconds * 1_000));
        let (_, right) = signed.expect("there is a secret");
        assert_eq!(signature.to_ascii_lowercase(), right);
    }
    let (stamp, right) = hook::sign(SECRET, body, NOW).expect("there is a secret");
    assert_eq!(hook::check(SECRET, &stamp, &right, body, NOW), Ok(()));
    let channel = ChannelName::new("bridge").expect("a name");
    match hook::press(&channel, body) {
        Ok(press) => {
            assert!(press.at.channel == channel && *press.by.channel() == channel);
            assert_eq!(Button::parse(&press.button.to_string()), Some(press.button));
        }
        Err(why) => assert!(!why.is_empty()),
    }
    events(body);
}

/// What a bridge writes: frames, however they are cut, that mean the same when they are written again, or a reason.
pub fn bridge(bytes: &[u8]) {
    let frames = |size: usize| {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for piece in bytes.chunks(size.max(1)) {
            lines.push(piece);
            loop {
                match lines.next_frame() {
                    Ok(Some(line)) => found.push(line),
                    Ok(None) => break,
                    Err(long) => return Err((found, long)),
                }
            }
        }
        Ok(found)
    };
    assert_eq!(frames(bytes.len()), frames(7));
    for line in frames(7).unwrap_or_else(|(found, _)| found) {
        match FromBridge::read(&line) {
            Ok(Some(frame)) => {
                let again = FromBridge::read(&frame.line()).expect("it was a frame").expect("it is a known one");
                assert_eq!(format!("{again:?}"), format!("{frame:?}"));
            }
            Ok(None) => {}
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
}

/// A line of the socket, from either side. A line that is read is written again with the same meaning, and its request
/// is understood, or refused with a reason.
pub fn socket(bytes: &[u8]) {
    read_again::<Response>(bytes);
    let Some(request) = read_again::<Request>(bytes) else { return };
    let why = match request {
        Request::Inject { event, .. } => return events(event.as_bytes()),
        Request::Submit { command } => command.input().map(drop),
        _ => Ok(()),
    };
    assert!(why.is_ok() || why.is_err_and(|why| !why.is_empty()));
}

fn read_again<T: Serialize + DeserializeOwned>(line: &[u8]) -> Option<T> {
    let read = serde_json::from_slice::<T>(line).ok()?;
    let written = serde_json::to_vec(&read).expect("what was read can be written");
    let again = serde_json::from_slice::<T>(&written).expect("what was written can be read");
    assert_eq!(serde_json::to_vec(&again).ok(), Some(written));
    Some(again)
}
