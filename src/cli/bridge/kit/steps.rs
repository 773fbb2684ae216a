//! Steps that cases share.

use std::time::Duration;

use hearth_bridge::{Cursors, Deliver, FromBridge, GivenFile, Sender, Sent, ToBridge};
use serde_json::Value;

use super::peer::Peer;
use super::{Kit, Stop, Tried};

/// How long a second copy of a message is looked for.
const MOMENT: Duration = Duration::from_millis(1_500);

/// A message that arrived.
#[derive(Clone)]
pub(super) struct Arrived {
    pub(super) seq: u64,
    cursors: Cursors,
    pub(super) id: String,
    pub(super) chat: String,
    pub(super) thread: Option<String>,
    pub(super) text: String,
    pub(super) sender: Option<Sender>,
    pub(super) mention: bool,
    pub(super) group: bool,
    pub(super) files: Vec<GivenFile>,
}

/// The message in a frame.
pub(super) fn arrived(frame: &FromBridge) -> Option<Arrived> {
    let FromBridge::Event { event, seq, cursors } = frame else { return None };
    let message = event.rest.get("message")?;
    let word = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let is = |name: &str| message.get(name).and_then(Value::as_bool).unwrap_or_default();
    let content = message.get("content");
    let text = content.and_then(|content| content.get("text")).or(content);
    Some(Arrived {
        seq: *seq,
        cursors: cursors.clone(),
        id: word(message.get("id")),
        chat: word(event.rest.get("platformId")),
        thread: event.rest.get("threadId").and_then(Value::as_str).map(str::to_owned),
        text: word(text),
        sender: event.sender.clone(),
        mention: is("isMention"),
        group: is("isGroup"),
        files: event.files.clone(),
    })
}

impl Peer<'_> {
    /// Waits for the message with a text, which is not answered.
    pub(super) fn wait(&mut self, text: &str) -> Result<Arrived, String> {
        let patience = self.kit.patience;
        let found = self.until(patience, |frame| arrived(frame).filter(|message| message.text.contains(text)))?;
        found.ok_or_else(|| format!("the message `{text}` did not arrive within {patience:?}"))
    }

    /// The message with a text, accepted.
    pub(super) fn taken(&mut self, text: &str) -> Result<Arrived, String> {
        let message = self.wait(text)?;
        self.accept(&message)?;
        Ok(message)
    }

    /// Accepts a message.
    pub(super) fn accept(&mut self, message: &Arrived) -> Result<(), String> {
        self.kit.store(&message.cursors);
        self.send(&ToBridge::Taken { taken: message.seq, report: None })
    }

    /// The message with this text, if it comes within a moment; others are taken.
    pub(super) fn comes(&mut self, text: &str) -> Result<Option<Arrived>, String> {
        self.until(MOMENT, |frame| arrived(frame).filter(|message| message.text.contains(text)))
    }

    /// Takes what still comes of earlier cases, until nothing does for a moment.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        while let Some(message) = self.comes("")? {
            self.accept(&message)?;
        }
        Ok(())
    }

    /// Fails if a message with this text comes.
    pub(super) fn nothing(&mut self, text: &str, what: &str) -> Tried {
        match self.comes(text)? {
            Some(_) => Err(Stop::Failed(what.to_owned())),
            None => Ok(()),
        }
    }

    /// Delivers, and returns the network's id.
    pub(super) fn delivered(&mut self, deliver: &Deliver) -> Result<Option<String>, String> {
        let outcome = self.deliver(deliver)?;
        if outcome.result == Sent::Delivered {
            return Ok(outcome.message_id);
        }
        Err(format!("the outcome is {:?}: {}", outcome.result, outcome.why.unwrap_or_default()))
    }

    /// Delivers a text to the chat of the kit.
    pub(super) fn says(&mut self, text: &str) -> Result<Option<String>, Stop> {
        let deliver = self.delivery(text)?;
        Ok(self.delivered(&deliver)?)
    }
}

/// Checks that the network has a text once.
pub(super) fn once(kit: &Kit<'_>, text: &str) -> Tried {
    let Ok(network) = kit.network() else { return Ok(()) };
    match network.count(text)? {
        1 => Ok(()),
        0 => Err(Stop::Failed(format!("the network does not have `{text}`"))),
        count => Err(Stop::Failed(format!("the network has `{text}` {count} times"))),
    }
}
