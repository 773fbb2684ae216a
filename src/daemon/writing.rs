//! Shows a chat what an agent is writing in answer to its messages. For display only: nothing of it is stored.
//!
//! The state file of the session is read only while such a message is in progress. The file is the agent's, so the store
//! decides who sees the text: the message that it answers must be claimed, and every message of the turn must come from
//! that chat.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::Daemon;
use crate::model::address::Address;
use crate::model::id::{MessageId, SessionId};
use crate::model::message::MessageState;
use crate::socket::protocol::Response;
use crate::state::{self, Read, Tables};

/// Interval of looks while an agent works on a message.
const LOOK: Duration = Duration::from_millis(200);
/// Interval of looks while all messages wait for their agent.
const REST: Duration = Duration::from_millis(500);
/// Maximum number of messages of a turn. Nothing is shown of a longer one.
const CLAIMS_MAX: usize = 100;

/// Follows the messages of one terminal. Ends when it is dropped.
pub(super) struct Following {
    said: UnboundedSender<MessageId>,
    task: JoinHandle<()>,
}

impl Following {
    /// Follows the messages that a terminal will send to a chat.
    pub(super) fn start(daemon: &Arc<Daemon>, chat: Address, responses: Sender<Response>) -> Self {
        let (said, messages) = unbounded_channel();
        let follower = Follower { daemon: Arc::clone(daemon), chat, responses, open: Vec::new(), shown: None };
        Self { said, task: tokio::spawn(follower.run(messages)) }
    }

    /// A message of the terminal was accepted.
    pub(super) fn accepted(&self, message: MessageId) {
        if self.said.send(message).is_err() {
            tracing::debug!(%message, "what is written in answer to a message is not shown");
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Follower {
    daemon: Arc<Daemon>,
    chat: Address,
    responses: Sender<Response>,
    /// Messages that have not ended.
    open: Vec<MessageId>,
    shown: Option<Shown>,
}

/// A text that is shown, and the message that it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) message: MessageId,
    pub(super) text: String,
}

/// What the store says of the open messages.
#[derive(Default)]
struct Progress {
    open: Vec<MessageId>,
    /// The session that works on one of them.
    at_work: Option<SessionId>,
    /// The messages of its turn that the chat may see answered, by their positions.
    visible: Vec<(u64, MessageId)>,
}

impl Follower {
    async fn run(mut self, mut messages: UnboundedReceiver<MessageId>) {
        loop {
            if self.open.is_empty() {
                let Some(message) = messages.recv().await else { return };
                self.open.push(message);
            }
            while let Ok(message) = messages.try_recv() {
                self.open.push(message);
            }
            let (daemon, chat, open) = (Arc::clone(&self.daemon), self.chat.clone(), std::mem::take(&mut self.open));
            let looked = tokio::task::spawn_blocking(move || daemon.look_at_writing(&chat, open)).await;
            let Ok((progress, writing)) = looked else { return };
            self.open = progress.open;
            self.show(writing);
            tokio::time::sleep(if progress.at_work.is_some() { LOOK } else { REST }).await;
        }
    }

    /// Shows a change. A terminal that is too slow for its messages does not need this.
    fn show(&mut self, writing: Option<Shown>) {
        let changed = match (&writing, &self.shown) {
            (Some(now), before) if before.as_ref() != Some(now) => now.clone(),
            (None, Some(before)) => Shown { text: String::new(), ..before.clone() },
            _ => return,
        };
        let response = Response::Writing { message: changed.message.to_string(), text: changed.text };
        if self.responses.try_send(response).is_ok() {
            self.shown = writing;
        }
    }
}

impl Daemon {
    /// The end of what an agent has written in answer to one of these messages of a chat, if all of its turn is for that
    /// chat. Reads files.
    pub fn writing_in(&self, chat: &Address, open: Vec<MessageId>) -> Option<String> {
        self.look_at_writing(chat, open).1.map(|shown| shown.text)
    }

    /// What the agent of a session is writing, if all of its turn is for this chat. Reads files.
    pub(super) fn writing_for(&self, session: SessionId, chat: &Address) -> Option<Shown> {
        let visible = self.store().read(|db, txn| visible(db, txn, session, chat));
        let visible = visible.inspect_err(|error| tracing::debug!(%error, "what an agent writes is not shown")).ok()?;
        self.written(session, &visible)
    }

    /// What the agent of a session is writing in answer to one of these messages.
    fn written(&self, session: SessionId, visible: &[(u64, MessageId)]) -> Option<Shown> {
        if visible.is_empty() {
            return None;
        }
        let writing = self.workers.writing(session).filter(|writing| !writing.text.is_empty())?;
        let answers = visible.iter().find(|(seq, _)| *seq == writing.in_reply_to);
        answers.map(|(_, message)| Shown { message: *message, text: writing.text })
    }

    /// Which of these messages are open, and what is being written in answer to them. Reads files.
    fn look_at_writing(&self, chat: &Address, open: Vec<MessageId>) -> (Progress, Option<Shown>) {
        let progress = match self.store().read(|db, txn| progress(db, txn, chat, open)) {
            Ok(progress) => progress,
            Err(error) => {
                tracing::debug!(%error, "what an agent writes is not shown");
                return (Progress::default(), None);
            }
        };
        let shown = progress.at_work.and_then(|session| self.written(session, &progress.visible));
        (progress, shown)
    }
}

fn progress(db: &Tables, txn: &Read<'_>, chat: &Address, messages: Vec<MessageId>) -> Result<Progress, state::Error> {
    let (mut open, mut at_work) = (Vec::new(), None);
    for id in messages {
        let Some(message) = db.messages.get(txn, &id)?.filter(|message| message.waits().is_some()) else { continue };
        open.push(id);
        if matches!(message.state, MessageState::Claimed { .. }) {
            at_work = Some(message.session);
        }
    }
    let visible = at_work.map(|session| visible(db, txn, session, chat)).transpose()?.unwrap_or_default();
    Ok(Progress { open, at_work, visible })
}

/// The messages of a session's turn, by their positions; none if one of them is not for this chat.
fn visible(
    db: &Tables,
    txn: &Read<'_>,
    session: SessionId,
    chat: &Address,
) -> Result<Vec<(u64, MessageId)>, state::Error> {
    let mut visible = Vec::new();
    for (key, id) in db.claimed_messages.collect_prefix(txn, &session, CLAIMS_MAX + 1)? {
        let Some(message) = db.messages.get(txn, &id)?.filter(|message| message.trigger) else { continue };
        visible.push((key.seq, id));
        if message.reply.as_ref() != Some(chat) || visible.len() > CLAIMS_MAX {
            return Ok(Vec::new());
        }
    }
    Ok(visible)
}
