//! Executes one step of a delivery.

use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, open};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::api::{Api, Failure, Upload};
use super::markup;
use super::plan::{SendPlan, Step};
use super::wire::Sent;
use crate::channel;

/// Size limit in bytes of a file that bots may send.
const FILE_BYTES_MAX: u64 = 50 << 20;
/// Size limit in bytes of a picture that is shown as one.
const PHOTO_BYTES_MAX: u64 = 10 << 20;
/// File extensions of pictures that Telegram shows.
const PHOTOS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];
/// Endings of names of audio that Telegram shows as voice messages.
const VOICES: [&str; 3] = ["ogg", "mp3", "m4a"];
/// Maximum length of a caption in UTF-16 code units.
const CAPTION_MAX: usize = 1_024;

/// Methods with link previews: Telegram fetches the first link of the text. Files have no preview.
const PREVIEWED: [&str; 2] = ["sendMessage", "editMessageText"];

/// The context of a step.
pub(super) struct Sending<'a> {
    pub(super) api: &'a Api,
    /// Directory of the files.
    pub(super) sessions: &'a Path,
    /// Slots for files in memory.
    pub(super) uploads: &'a Semaphore,
    /// Whether link previews are shown.
    pub(super) link_previews: bool,
    /// The delivery's plan.
    pub(super) plan: &'a SendPlan,
}

/// Executes a step and returns the id of the message that it sent or edited.
pub(super) async fn step(sending: &Sending<'_>, step: &Step) -> Result<Option<i64>, Failure> {
    match step {
        Step::Text { text, buttons } => text_message(sending, text, buttons).await.map(Some),
        Step::File { name, caption } => file(sending, name, caption).await.map(Some),
        Step::Edit { message, text } => edit(sending, *message, text).await.map(|()| Some(*message)),
        Step::Remove { message } => {
            let gone = sending.call::<Value>("deleteMessage", json!({ "message_id": message })).await;
            match gone {
                // A message that can no longer be deleted should at least not keep its old text.
                Err(Failure::Refused { moved: None, .. }) => match edit(sending, *message, "…").await {
                    Ok(()) | Err(Failure::Refused { .. }) => Ok(None),
                    Err(failure) => Err(failure),
                },
                Ok(_) => Ok(None),
                Err(failure) => Err(failure),
            }
        }
        Step::React { message, emoji } => {
            let reaction: Vec<Value> = emoji.iter().map(|emoji| json!({ "type": "emoji", "emoji": emoji })).collect();
            let parameters = json!({ "message_id": message, "reaction": reaction });
            sending.call::<Value>("setMessageReaction", parameters).await.map(|_| None)
        }
    }
}

impl Sending<'_> {
    /// Calls a method in the plan's chat.
    async fn call<T: serde::de::DeserializeOwned>(&self, method: &str, parameters: Value) -> Result<T, Failure> {
        let mut parameters = self.in_chat(parameters);
        if let (false, true, Some(fields)) =
            (self.link_previews, PREVIEWED.contains(&method), parameters.as_object_mut())
        {
            fields.insert("link_preview_options".to_owned(), json!({ "is_disabled": true }));
        }
        self.api.call(method, &parameters).await
    }

    fn in_chat(&self, parameters: Value) -> Value {
        let mut all = Map::from_iter([("chat_id".to_owned(), self.plan.chat.clone())]);
        if let Value::Object(parameters) = parameters {
            all.extend(parameters);
        }
        Value::Object(all)
    }

    fn in_topic(&self, mut parameters: Value) -> Value {
        if let (Some(topic), Some(fields)) = (self.plan.topic, parameters.as_object_mut()) {
            fields.insert("message_thread_id".to_owned(), json!(topic));
        }
        parameters
    }
}

async fn text_message(sending: &Sending<'_>, text: &str, buttons: &[Vec<Value>]) -> Result<i64, Failure> {
    let mut parameters = json!({});
    if let (false, Some(fields)) = (buttons.is_empty(), parameters.as_object_mut()) {
        fields.insert("reply_markup".to_owned(), json!({ "inline_keyboard": buttons }));
    }
    let parameters = sending.in_topic(parameters);
    let sent: Sent = worded(sending, "sendMessage", parameters, ["text", "entities"], text).await?;
    Ok(sent.message_id)
}

/// Edits a message. Without a keyboard parameter the message loses its keyboard.
async fn edit(sending: &Sending<'_>, message: i64, text: &str) -> Result<(), Failure> {
    let parameters = json!({ "message_id": message });
    match done(worded(sending, "editMessageText", parameters.clone(), ["text", "entities"], text).await) {
        Err(Failure::Refused { description, .. }) if description.contains("no text in the message") => {
            let mut units = 0;
            let fits = |c: &char| {
                units += c.len_utf16();
                units <= CAPTION_MAX
            };
            let caption: String = text.chars().take_while(fits).collect();
            let keys = ["caption", "caption_entities"];
            done(worded(sending, "editMessageCaption", parameters, keys, &caption).await)
        }
        edited => edited,
    }
}

/// Calls a method with a formatted text. If Telegram rejects the formatting, the text is sent plain.
async fn worded<T: serde::de::DeserializeOwned>(
    sending: &Sending<'_>,
    method: &str,
    parameters: Value,
    keys: [&str; 2],
    text: &str,
) -> Result<T, Failure> {
    let (marked, plain) = both(sending, parameters, keys, text);
    match sending.call(method, marked).await {
        Err(failure) if dislikes_marks(&failure) => sending.call(method, plain).await,
        answer => answer,
    }
}

/// Parameters with a formatted text, and with the same text as it was written.
fn both(sending: &Sending<'_>, parameters: Value, [text_key, marks_key]: [&str; 2], text: &str) -> (Value, Value) {
    let with = |text: &str, entities: Vec<Value>| {
        let mut parameters = parameters.clone();
        if let (Some(fields), false) = (parameters.as_object_mut(), text.is_empty()) {
            fields.insert(text_key.to_owned(), json!(text));
            if !entities.is_empty() {
                fields.insert(marks_key.to_owned(), json!(entities));
            }
        }
        parameters
    };
    let shown = if sending.plan.markup { markup::shown(text) } else { markup::plain(text) };
    (with(&shown.text, shown.entities), with(text, Vec::new()))
}

fn dislikes_marks(failure: &Failure) -> bool {
    let Failure::Refused { description, moved: None } = failure else { return false };
    let description = description.to_lowercase();
    description.contains("entit") || description.contains("url") || description.contains("text must be non-empty")
}

/// An edit without a change counts as done.
fn done(edited: Result<Value, Failure>) -> Result<(), Failure> {
    match edited {
        Ok(_) => Ok(()),
        Err(Failure::Refused { description, .. }) if description.contains("message is not modified") => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Sends a file. If that fails, a message says so; the text and the other files are not affected.
async fn file(sending: &Sending<'_>, name: &str, caption: &str) -> Result<i64, Failure> {
    // The semaphore is never closed.
    let _place = sending.uploads.acquire().await.map_err(|error| Failure::Trouble(error.to_string()))?;
    let shown = Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let path = sending.sessions.join(name);
    let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let read = tokio::task::spawn_blocking(
        move || if inside { read(&path) } else { Err("its name is not usable".to_owned()) },
    );
    let bytes = match read.await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(why)) => return instead(sending, caption, &shown, &why).await,
        Err(error) => return Err(Failure::Trouble(error.to_string())),
    };
    let parameters = sending.in_chat(sending.in_topic(json!({})));
    let (marked, plain) = both(sending, parameters, ["caption", "caption_entities"], caption);
    let ending = Path::new(&shown).extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let is_one_of = |known: &[&str]| ending.as_deref().is_some_and(|ending| known.contains(&ending));
    let special = match bytes.len() as u64 {
        ..=PHOTO_BYTES_MAX if is_one_of(&PHOTOS) => Some(("sendPhoto", "photo")),
        _ if sending.plan.spoken && is_one_of(&VOICES) => Some(("sendVoice", "voice")),
        _ => None,
    };
    if let Some((method, field)) = special {
        let upload = Upload { field, name: shown.clone(), bytes: bytes.clone() };
        match sending.api.upload::<Sent>(method, &marked, upload).await {
            // Not every picture can be shown, and not everyone takes voice messages, but it can still be sent as a file.
            Err(Failure::Refused { moved: None, .. }) => {}
            sent => return sent.map(|sent| sent.message_id),
        }
    }
    let document = |bytes| Upload { field: "document", name: shown.clone(), bytes };
    let spare = if marked == plain { None } else { Some(bytes.clone()) };
    let sent = match (sending.api.upload::<Sent>("sendDocument", &marked, document(bytes)).await, spare) {
        (Err(failure), Some(bytes)) if dislikes_marks(&failure) => {
            sending.api.upload("sendDocument", &plain, document(bytes)).await?
        }
        (sent, _) => sent?,
    };
    Ok(sent.message_id)
}

async fn instead(sending: &Sending<'_>, caption: &str, name: &str, why: &str) -> Result<i64, Failure> {
    let text = format!("{caption}\n\n(the file {name} could not be sent: {why})");
    text_message(sending, text.trim(), &[]).await
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read as _;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = open(path, flags, Mode::empty()).map_err(|error| channel::unreadable(path, &error.into()))?;
    let file = std::fs::File::from(opened);
    let about = file.metadata().map_err(|error| channel::unreadable(path, &error))?;
    if !about.is_file() {
        return Err("it is not a file".to_owned());
    }
    if about.len() == 0 {
        return Err("it is empty".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| channel::unreadable(path, &error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let (size, max) = (about.len() >> 20, FILE_BYTES_MAX >> 20);
        return Err(format!("it has {size} MB, and bots may send {max}"));
    }
    Ok(bytes)
}
