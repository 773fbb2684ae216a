//! The way out. Each message has a nonce made of Hearth's id, by which Discord recognises a repeat for some minutes, and
//! each part that was sent is remembered.

use hearth_bridge::program::parts::{Measure, Unit};
use hearth_bridge::program::post::{End, Post};
use hearth_bridge::program::settings::part;
use hearth_bridge::{Deliver, DeliverAct, Sent};
use serde_json::{Map, Value, json};

use super::card;
use super::rest::{Request, Rest, Trouble};
use super::snowflake::Snowflake;
use super::upload::{self, Upload};
use crate::web::{Content, FILE, Method};

/// Messages of a text: Discord takes 2,000, and a mark may come before it.
const MEASURE: Measure = Measure { most: 1_940, unit: Unit::Utf16, parts: 25 };
/// Length limit of a nonce.
const NONCE_MAX: usize = 25;
/// No previews of links.
const NO_PREVIEWS: u64 = 4;
/// What comes before a message that may have been shown.
const AGAIN: &str = "(sent again, the first attempt may have arrived)\n";
/// There is no such message.
const NO_MESSAGE: u64 = 10_008;

pub(crate) struct Outbox {
    pub(crate) rest: Rest,
}

impl From<Trouble> for End {
    fn from(trouble: Trouble) -> Self {
        let end = Self::not(Sent::Retry, &trouble);
        match trouble {
            Trouble::Unreachable(_) | Trouble::Token => end,
            Trouble::Paused(pause) => Self { after: Some(pause.as_secs() + 1), ..end },
            Trouble::Lost(_) => Self { result: Sent::Uncertain, ..end },
            Trouble::Refused { .. } => Self { result: Sent::Rejected, ..end },
        }
    }
}

/// A message to be sent.
#[derive(Debug, Default)]
struct Message {
    text: String,
    buttons: Vec<Value>,
    files: Vec<Upload>,
}

/// Where a delivery goes.
struct To<'a> {
    channel: Snowflake,
    deliver: &'a Deliver,
    post: &'a Post,
}

fn rejected<T>(why: impl ToString) -> Result<T, End> {
    Err(End::not(Sent::Rejected, why))
}

impl Outbox {
    /// Sends until the main loop ends.
    pub(crate) fn work(self, post: &Post) {
        post.work(|deliver| self.deliver(deliver, post));
    }

    fn deliver(&self, deliver: &Deliver, post: &Post) -> Result<String, End> {
        // A thread is a channel of its own.
        let chat = deliver.thread_id.as_deref().unwrap_or(&deliver.platform_id);
        let Some(channel) = Snowflake::read(chat) else { return rejected("this chat is no channel of Discord") };
        let to = To { channel, deliver, post };
        post.begin(deliver)?;
        let targets: Vec<Snowflake> =
            deliver.message_id.as_deref().unwrap_or_default().split(' ').filter_map(Snowflake::read).collect();
        match (deliver.act, targets.first()) {
            (DeliverAct::Say | DeliverAct::Ask, _) => self.say(&to),
            (DeliverAct::Edit, Some(_)) => self.edit(&to, &targets),
            (DeliverAct::React, Some(first)) => self.react(&to, *first),
            (DeliverAct::Edit | DeliverAct::React, None) => rejected("this is no message of Discord"),
        }
    }

    fn say(&self, to: &To<'_>) -> Result<String, End> {
        let (files, missing) = upload::files(to.deliver, to.post);
        let mut messages = messages(to.deliver, &missing)?;
        let texts = messages.len();
        for group in upload::groups(files) {
            match messages.last_mut() {
                Some(last) if last.files.is_empty() => last.files = group,
                _ => messages.push(Message { files: group, ..Message::default() }),
            }
        }
        let (mut sent, mut is_marked) = (Vec::new(), !to.deliver.repeated);
        for (number, mut message) in messages.into_iter().enumerate() {
            let key = if number == 0 { to.deliver.id.clone() } else { format!("{}.{}", to.deliver.id, number + 1) };
            // The whole delivery is remembered by its id, so a part needs another name.
            let memory = format!("{}#{number}", to.deliver.id);
            if let Some(known) = to.post.known(&memory) {
                sent.push(known);
                continue;
            }
            if !is_marked {
                is_marked = true;
                message.text.insert_str(0, AGAIN);
            }
            let id = self.send(to, &key, message)?;
            let remembered = to.post.remember(&memory, &id);
            // It would be sent twice after a crash.
            remembered.map_err(|error| End::not(Sent::Uncertain, format!("it cannot be remembered: {error}")))?;
            sent.push(id);
        }
        // Only texts can be edited.
        sent.truncate(texts.max(1));
        if sent.is_empty() { rejected("there is nothing to send") } else { Ok(sent.join(" ")) }
    }

    /// Changes all messages of a text. What is left over is removed, and what does not fit is sent besides.
    fn edit(&self, to: &To<'_>, targets: &[Snowflake]) -> Result<String, End> {
        let mut ids = Vec::new();
        for (number, message) in messages(to.deliver, &[])?.into_iter().enumerate() {
            match targets.get(number) {
                Some(target) => {
                    self.change(to, *target, &message)?;
                    ids.push(target.to_string());
                }
                None => ids.push(self.send(to, &format!("{}.{}", to.deliver.id, number + 1), message)?),
            }
        }
        for target in targets.iter().skip(ids.len()) {
            let path = format!("channels/{}/messages/{target}", to.channel);
            let request = Request::new(Method::DELETE, path, "delete message", &to.channel.to_string());
            match self.rest.ask(&request, || Ok(Content::Nothing)) {
                // It is gone.
                Ok(_) | Err(Trouble::Refused { code: NO_MESSAGE, .. }) => {}
                Err(trouble) => return Err(trouble.into()),
            }
        }
        if ids.is_empty() { rejected("there is nothing to change it to") } else { Ok(ids.join(" ")) }
    }

    fn change(&self, to: &To<'_>, target: Snowflake, message: &Message) -> Result<(), End> {
        let path = format!("channels/{}/messages/{target}", to.channel);
        let request = Request::new(Method::PATCH, path, "patch message", &to.channel.to_string());
        let body = Value::Object(body(to.deliver, message));
        match self.rest.ask(&request, || Ok(Content::Json(&body))) {
            Ok(_) => Ok(()),
            // The same again changes nothing.
            Err(Trouble::Lost(why)) => Err(End::not(Sent::Retry, why)),
            Err(trouble) => Err(trouble.into()),
        }
    }

    fn react(&self, to: &To<'_>, target: Snowflake) -> Result<String, End> {
        let emoji = to.deliver.text.trim().trim_start_matches("<:").trim_start_matches("<a:").trim_end_matches('>');
        if emoji.is_empty() || emoji.len() > 100 {
            return rejected("a reaction is one emoji");
        }
        let path = format!("channels/{}/messages/{target}/reactions/{}/@me", to.channel, part(emoji));
        let request = Request::new(Method::PUT, path, "put reaction", &to.channel.to_string());
        match self.rest.ask(&request, || Ok(Content::Nothing)) {
            Ok(_) => Ok(target.to_string()),
            // The same again changes nothing.
            Err(Trouble::Lost(why)) => Err(End::not(Sent::Retry, why)),
            Err(trouble) => Err(trouble.into()),
        }
    }

    fn send(&self, to: &To<'_>, key: &str, message: Message) -> Result<String, End> {
        let path = format!("channels/{}/messages", to.channel);
        let mut request = Request::new(Method::POST, path, "post message", &to.channel.to_string());
        let mut body = body(to.deliver, &message);
        if key.len() <= NONCE_MAX {
            body.insert("nonce".to_owned(), json!(key));
            body.insert("enforce_nonce".to_owned(), json!(true));
        }
        let body = Value::Object(body);
        let answer = if message.files.is_empty() {
            self.rest.ask(&request, || Ok(Content::Json(&body)))?
        } else {
            request.within = FILE;
            self.rest.ask(&request, || upload::content(&body, &message.files))?
        };
        let id = answer.get("id").and_then(Value::as_str).and_then(Snowflake::read);
        let id = id.ok_or_else(|| Trouble::Lost("its answer has no id of the message".to_owned()))?;
        Ok(id.to_string())
    }
}

/// The messages of a delivery without its files.
fn messages(deliver: &Deliver, missing: &[String]) -> Result<Vec<Message>, End> {
    let (mut text, buttons) = match (deliver.act, &deliver.card) {
        (DeliverAct::Ask, Some(card)) => (card::text(card), card::buttons(card)?),
        (DeliverAct::Ask, None) => return rejected("the card is missing"),
        // What Hearth says may quote strangers, and is plain.
        _ if deliver.speaker.is_none() => (card::plain(&deliver.text), Vec::new()),
        _ => (deliver.text.clone(), Vec::new()),
    };
    for line in missing {
        text.push_str(if text.is_empty() { "" } else { "\n" });
        text.push_str(line);
    }
    let most = MEASURE.parts * MEASURE.most;
    let Some(parts) = MEASURE.parts(&text) else {
        return rejected(format!("the text is longer than {most} characters"));
    };
    let mut messages: Vec<Message> = parts.into_iter().map(|text| Message { text, ..Message::default() }).collect();
    if let Some(last) = messages.last_mut() {
        last.buttons = buttons;
    }
    Ok(messages)
}

/// What all messages have. No person is notified, whatever the text says.
fn body(deliver: &Deliver, message: &Message) -> Map<String, Value> {
    let flags = if deliver.link_previews { 0 } else { NO_PREVIEWS };
    let fields = [
        ("content", json!(message.text)),
        ("flags", json!(flags)),
        ("allowed_mentions", json!({ "parse": [] })),
        ("components", json!(message.buttons)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
