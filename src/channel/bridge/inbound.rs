//! What people say through a bridge: messages, presses, and how far it has read.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use hearth_bridge::{Action, Cursors, Event, FILE_BYTES_MAX, GivenFile, ToBridge};
use rustix::fs::{Mode, OFlags};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::Shared;
use crate::channel::attachments::Names;
use crate::channel::event;
use crate::channel::intake::NotTaken;
use crate::channel::webhook;
use crate::model::address::ChannelName;
use crate::model::channel::Cursor;
use crate::model::content::{Attachment, FileBytes};
use crate::model::input::InboundEvent;
use crate::model::report::Outcome;
use crate::model::routed::RouteResult;

/// Seconds after which a message that was put off may come again.
const AGAIN_SECONDS: u64 = 2;
/// Files of one message.
const FILES_MAX: usize = 32;
/// Chats in which a message was put off. More means that the bridge does not send them again.
const PUT_OFF_MAX: usize = 1_024;

/// A frame that is answered once it is committed.
pub(super) enum Incoming {
    Event { event: Event, seq: u64, cursors: Cursors },
    Wanted { event: Event, seq: u64 },
    Action { action: Action, seq: u64 },
    Cursor { cursors: Cursors, seq: u64 },
}

/// Passes frames on in their order, and answers each.
pub(super) async fn take_all(
    shared: Arc<Shared>,
    mut incoming: mpsc::Receiver<Incoming>,
    out: mpsc::UnboundedSender<Vec<u8>>,
) {
    // Chats in which a message was put off: the next one there has to be the same.
    let mut put_off = BTreeMap::new();
    while let Some(frame) = incoming.recv().await {
        let answer = match frame {
            Incoming::Event { event, seq, cursors } => match take(&shared, event, cursors, &mut put_off).await {
                Ok(report) => ToBridge::Taken { taken: seq, report },
                Err(NotTaken::Later(why)) => ToBridge::Later { later: seq, after: AGAIN_SECONDS, why },
                Err(NotTaken::Refused(why)) => {
                    tracing::warn!(channel = %shared.setup.name, why, "a message of the bridge was refused");
                    ToBridge::Refused { refused: seq, why }
                }
            },
            Incoming::Wanted { event, seq } => ToBridge::Wanted { wanted: seq, yes: wanted(&shared, &event).await },
            Incoming::Action { action, seq } => press(&shared, &action, seq).await,
            Incoming::Cursor { cursors, seq } => match move_on(&shared, cursors).await {
                Ok(()) => ToBridge::Taken { taken: seq, report: None },
                Err(NotTaken::Later(why)) => ToBridge::Later { later: seq, after: AGAIN_SECONDS, why },
                Err(NotTaken::Refused(why)) => ToBridge::Refused { refused: seq, why },
            },
        };
        // The process may have ended.
        drop(out.send(answer.line()));
    }
}

/// Passes on a message. Within a chat none overtakes one that was put off.
async fn take(
    shared: &Shared,
    event: Event,
    cursors: Cursors,
    put_off: &mut BTreeMap<String, Option<String>>,
) -> Result<Option<Value>, NotTaken> {
    let refused = NotTaken::Refused;
    let parsed = read(&shared.setup.name, &event, &[]).map_err(refused)?;
    let chat = parsed.source.platform_id.as_str().to_owned();
    let id = parsed.platform_message.as_ref().map(|id| id.as_str().to_owned());
    if put_off.get(&chat).is_some_and(|first| *first != id) {
        return Err(NotTaken::Later("an earlier message of this chat has to come first".to_owned()));
    }
    let files = event.files.clone();
    let done = store(shared, &event, parsed, cursors).await;
    match &done {
        Err(NotTaken::Later(_)) => {
            if put_off.len() >= PUT_OFF_MAX {
                put_off.clear();
            }
            put_off.insert(chat, id);
        }
        Ok(_) | Err(NotTaken::Refused(_)) => {
            put_off.remove(&chat);
            remove(&shared.setup.files, files).await;
        }
    }
    done
}

async fn store(
    shared: &Shared,
    event: &Event,
    parsed: InboundEvent,
    cursors: Cursors,
) -> Result<Option<Value>, NotTaken> {
    let mut ready = parsed;
    if !event.files.is_empty() {
        let mut names = Names::new(ready.said);
        let mut kept = Vec::new();
        for file in event.files.iter().take(FILES_MAX) {
            let name = names.take(file.name.as_deref(), file.mime.as_deref(), None);
            kept.push(keep(shared, file, name).await?);
        }
        let described: Vec<Value> = kept.iter().map(described).collect();
        ready = read(&shared.setup.name, event, &described).map_err(NotTaken::Refused)?;
        ready.attachments = kept;
    }
    ready.cursors = stored(cursors).map_err(NotTaken::Refused)?;
    let report = shared.intake.inbound(ready).await?;
    Ok(serde_json::to_value(RouteResult::from(&report)).ok())
}

async fn move_on(shared: &Shared, cursors: Cursors) -> Result<(), NotTaken> {
    shared.intake.store_cursors(stored(cursors).map_err(NotTaken::Refused)?).await
}

/// Cursors for the store.
fn stored(cursors: Cursors) -> Result<Vec<Cursor>, String> {
    let long = |(name, value): &(&String, &String)| name.len().max(value.len()) > Cursor::BYTES_MAX;
    if cursors.len() > Cursor::COUNT_MAX || cursors.iter().any(|cursor| long(&cursor)) {
        let (count, bytes) = (Cursor::COUNT_MAX, Cursor::BYTES_MAX);
        return Err(format!("at most {count} cursors of {bytes} bytes each can be stored"));
    }
    Ok(cursors.into_iter().map(|(name, value)| Cursor { name, value }).collect())
}

/// Whether a message would reach an agent, so that its files are worth fetching.
async fn wanted(shared: &Shared, event: &Event) -> bool {
    let Ok(event) = read(&shared.setup.name, event, &[]) else { return false };
    shared.intake.rehearsed(event).await.is_ok_and(|report| report.outcome == Outcome::Routed)
}

async fn press(shared: &Shared, action: &Action, seq: u64) -> ToBridge {
    let body = serde_json::to_vec(action).unwrap_or_default();
    let pressed = match webhook::press(&shared.setup.name, &body) {
        Ok(press) => shared.intake.pressed(press).await,
        Err(why) => Err(NotTaken::Refused(why)),
    };
    match pressed {
        Ok(pressed) => ToBridge::Pressed { pressed: seq, decided: pressed.decided, text: pressed.text },
        Err(NotTaken::Later(why)) => ToBridge::Later { later: seq, after: AGAIN_SECONDS, why },
        Err(NotTaken::Refused(why)) => ToBridge::Refused { refused: seq, why },
    }
}

/// Reads a message. The channel is always the bridge's own, and the sender is the one beside the message, if the network
/// vouches for it: nothing inside the message can name another.
fn read(channel: &ChannelName, event: &Event, files: &[Value]) -> Result<InboundEvent, String> {
    let mut top: Map<String, Value> = event.rest.clone().into_iter().collect();
    top.insert("channelType".to_owned(), json!(channel.to_string()));
    if let Some(Value::Object(reply)) = top.get_mut("replyTo") {
        reply.insert("channelType".to_owned(), json!(channel.to_string()));
    }
    let message = top.get_mut("message").and_then(Value::as_object_mut).ok_or("message is missing; send an object")?;
    let content = match message.remove("content") {
        Some(Value::Object(content)) => content,
        Some(Value::String(text)) => Map::from_iter([("text".to_owned(), json!(text))]),
        _ => return Err("message.content is missing; send an object".to_owned()),
    };
    let mut content = content;
    for key in ["senderId", "senderName", "author", "sender"] {
        content.remove(key);
    }
    if let Some(sender) = &event.sender {
        content.insert("senderName".to_owned(), json!(sender.name));
        if sender.verified {
            content.insert("senderId".to_owned(), json!(sender.id));
        }
    }
    if !files.is_empty() {
        content.insert("attachments".to_owned(), json!(files));
    }
    message.insert("content".to_owned(), Value::Object(content));
    let text = Value::Object(top).to_string();
    let event = event::read(text.as_bytes()).map_err(|error| error.to_string())?.without_files();
    if event.platform_message.is_none() {
        return Err("message.id is missing; it must be a string, so that repeated events are recognized".to_owned());
    }
    Ok(event)
}

fn described(file: &Attachment) -> Value {
    json!({ "name": file.name, "mimeType": file.mime, "size": file.size })
}

/// Stores a file of a message; if that fails for good, the agent sees why.
async fn keep(shared: &Shared, file: &GivenFile, name: String) -> Result<Attachment, NotTaken> {
    let mime = file.mime.as_deref().and_then(event::displayable);
    let missing =
        |why: String| Attachment { name: name.clone(), size: 0, mime: mime.clone(), blob: FileBytes::Missing(why) };
    let Some(path) = file.path.clone() else {
        let why = file.error.as_deref().and_then(event::displayable);
        return Ok(missing(why.unwrap_or_else(|| "the bridge did not fetch it".to_owned())));
    };
    let directory = shared.setup.files.clone();
    let bytes = tokio::task::spawn_blocking(move || bytes_of(&directory, &path)).await;
    match bytes.map_err(|error| NotTaken::Later(error.to_string()))? {
        Ok(bytes) => {
            let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let blob = shared.intake.keep(bytes).await?.into();
            Ok(Attachment { name: name.clone(), size, mime: mime.clone(), blob })
        }
        Err(why) => Ok(missing(why)),
    }
}

/// The path of a file that a bridge names: directly in the directory for files.
pub(super) fn inside(directory: &Path, name: &str) -> Option<PathBuf> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) => Some(directory.join(part)),
        _ => None,
    }
}

fn bytes_of(directory: &Path, name: &str) -> Result<Vec<u8>, String> {
    use std::io::Read as _;
    let path = inside(directory, name).ok_or("its name is not that of a file in the directory for files")?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&path, flags, Mode::empty());
    let file = File::from(opened.map_err(|error| format!("it cannot be read: {error}"))?);
    if !file.metadata().is_ok_and(|about| about.is_file()) {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

/// Removes files that are stored, or not wanted.
async fn remove(directory: &Path, files: Vec<GivenFile>) {
    if files.is_empty() {
        return;
    }
    let directory = directory.to_owned();
    let remove = move || {
        for path in files.iter().filter_map(|file| inside(&directory, file.path.as_deref()?)) {
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::debug!(path = %path.display(), %error, "a file of a bridge is already gone");
            }
        }
    };
    // It can only fail when the daemon stops.
    drop(tokio::task::spawn_blocking(remove).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Result<InboundEvent, String> {
        let event: Event = serde_json::from_str(text).unwrap();
        read(&ChannelName::new("net").unwrap(), &event, &[])
    }

    #[test]
    fn the_sender_is_the_one_beside_the_message_and_only_if_it_is_vouched_for() {
        let content = r#""content":{"text":"hi","senderId":"owner","senderName":"Owner","author":{"userId":"owner","fullName":"O"},"sender":"O"}"#;
        for (sender, expected) in [
            (r#""sender":{"id":"eve","name":"Eve","verified":true},"#, Some("eve")),
            (r#""sender":{"id":"owner","verified":false},"#, None),
            (r#""sender":{"id":"owner"},"#, None),
            ("", None),
        ] {
            let text =
                format!(r#"{{{sender}"channelType":"telegram","platformId":"c","message":{{"id":"1",{content}}}}}"#);
            let event = event(&text).unwrap();
            assert_eq!(event.content.sender.as_ref().map(|id| id.as_str()), expected, "{text}");
            assert_eq!(event.source.channel.as_str(), "net", "a bridge speaks for its own channel");
            assert!(!event.content.raw.as_str().contains("owner") || expected == Some("owner"), "{:?}", event.content);
            assert!(!event.content.raw.as_str().contains("author"));
        }
    }

    #[test]
    fn messages_without_an_id_or_a_place_are_refused() {
        for (text, expected) in [
            (r#"{"platformId":"c","message":{"content":"x"}}"#, "message.id"),
            (r#"{"message":{"id":"1","content":"x"}}"#, "platformId"),
            (r#"{"platformId":"c"}"#, "message"),
            (r#"{"platformId":"c","message":{"id":"1"}}"#, "message.content"),
            (r#"{"platformId":"c","message":{"id":"1","content":[]}}"#, "message.content"),
        ] {
            let error = event(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn only_regular_files_of_the_directory_are_read() {
        let root = tempfile::tempdir().unwrap();
        let files = root.path().join("files");
        std::fs::create_dir(&files).unwrap();
        std::fs::write(root.path().join("secret"), "hush").unwrap();
        std::fs::write(files.join("plain"), "bytes").unwrap();
        std::os::unix::fs::symlink("../secret", files.join("link")).unwrap();
        std::fs::create_dir(files.join("directory")).unwrap();
        assert_eq!(bytes_of(&files, "plain").unwrap(), b"bytes");
        for name in ["../secret", "/etc/passwd", "link", "directory", "none", "", ".", "..", "directory/../plain"] {
            assert!(bytes_of(&files, name).is_err(), "{name}");
        }
    }
}
