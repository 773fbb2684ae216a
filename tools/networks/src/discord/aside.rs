//! What is done besides messages: typing is shown, and direct chats are opened. On a thread of its own, so that it delays no
//! message.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use hearth_bridge::program::run::Network;
use hearth_bridge::program::state::seconds;
use hearth_bridge::program::{FrameWriter, now};
use hearth_bridge::{FromBridge, Opened, Place};
use serde_json::{Value, json};

use super::inbox::Shared;
use super::rest::{Request, Rest, Trouble};
use super::snowflake::Snowflake;
use crate::web::{Content, Method};

/// What may wait; more typing is left out.
pub(crate) const WAITING: usize = 64;
/// Discord shows typing for ten seconds.
const TYPING: Duration = Duration::from_secs(8);
/// Channels whose typing is remembered.
const REMEMBERED: usize = 1_000;

/// Something to do.
#[derive(Debug)]
pub(crate) enum Task {
    Typing(Snowflake),
    Open { person: String, seq: u64 },
}

/// The way to the thread.
pub(crate) struct Aside(pub(crate) SyncSender<Task>);

impl Network for Aside {
    fn typing(&mut self, place: Place) {
        let channel = place.thread_id.as_deref().unwrap_or(&place.platform_id);
        if let Some(channel) = Snowflake::read(channel) {
            drop(self.0.try_send(Task::Typing(channel)));
        }
    }

    fn open_direct(&mut self, person: String, seq: u64) -> Option<Opened> {
        let sent = self.0.try_send(Task::Open { person, seq });
        sent.is_err().then(|| Opened {
            seq,
            platform_id: None,
            why: Some("too many chats are to be opened".to_owned()),
        })
    }
}

pub(crate) struct Worker {
    pub(crate) rest: Rest,
    pub(crate) places: Shared,
    pub(crate) writer: FrameWriter,
    pub(crate) tasks: Receiver<Task>,
}

impl Worker {
    /// Works until the main loop ends.
    pub(crate) fn work(self) {
        let mut typed: BTreeMap<Snowflake, Duration> = BTreeMap::new();
        while let Ok(task) = self.tasks.recv() {
            match task {
                Task::Typing(channel) => {
                    if typed.get(&channel).is_some_and(|last| now().saturating_sub(*last) < TYPING) {
                        continue;
                    }
                    if typed.len() >= REMEMBERED {
                        typed.clear();
                    }
                    typed.insert(channel, now());
                    let path = format!("channels/{channel}/typing");
                    // A sign that is not shown is no loss.
                    drop(self.post(path, &json!({}), ("typing", &channel.to_string())));
                }
                Task::Open { person, seq } => {
                    let opened = match self.open(&person) {
                        Ok(channel) => Opened { seq, platform_id: Some(channel.to_string()), why: None },
                        Err(trouble) => Opened { seq, platform_id: None, why: Some(trouble.to_string()) },
                    };
                    if self.writer.send(&FromBridge::Opened { opened }).is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn post(&self, path: String, body: &Value, (kind, about): (&'static str, &str)) -> Result<Value, Trouble> {
        self.rest.ask(&Request::new(Method::POST, path, kind, about), || Ok(Content::Json(body)))
    }

    fn open(&self, person: &str) -> Result<Snowflake, Trouble> {
        let refused = |why: &str| Trouble::Refused { status: 404, code: 0, why: why.to_owned() };
        let person = Snowflake::read(person).ok_or_else(|| refused("this is no person of Discord"))?;
        let body = json!({ "recipient_id": person.to_string() });
        let answer = self.post("users/@me/channels".to_owned(), &body, ("open", ""))?;
        let channel = answer.get("id").and_then(Value::as_str).and_then(Snowflake::read);
        let channel = channel.ok_or_else(|| Trouble::Lost("its answer has no id of the chat".to_owned()))?;
        // What the person answers is found from here on.
        self.places.lock().pass(channel, Snowflake::at(seconds()), true);
        Ok(channel)
    }
}
