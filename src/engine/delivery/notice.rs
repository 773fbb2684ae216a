//! Notices to people and agents about failures. Nothing fails silently.

use crate::Result;
use crate::delivery::queue;
use crate::model::address::{Address, ChannelName};
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::id::{MessageId, OutboundId, SessionId, TaskId};
use crate::model::mailbox::{Hidden, HiddenFile};
use crate::model::task::Task;
use crate::rows::{agents, notes, sessions};
use crate::state::ForeignKey;
use crate::tx::Tx;

/// The channel on which an owner of this machine is always reachable.
const OWNER_CHANNEL: &str = "terminal";

/// Terminal chats that are examined. Chats of people sort before those of agents.
const TERMINALS_MAX: usize = 100;

/// Maximum length of an error shown in a chat.
const SHOWN_MAX: usize = 500;

/// Tells the owner that a task fails repeatedly. If the task has a script, its reply address is told too, because
/// single failures of a script are not reported there.
pub(crate) fn task_failing(tx: &mut Tx<'_, '_>, id: TaskId, task: &Task, error: &str) -> Result<()> {
    let whose = tx.db.agents.get(tx, &task.agent)?.map_or_else(String::new, |agent| format!(" of {}", agent.folder));
    let text = format!(
        "The scheduled task {id}{whose} failed several times in a row: {} See `hearth tasks history {id}`.",
        ended(&shortened(error))
    );
    if let (Some(to), Some(_)) = (task.reply.clone().filter(|to| to.channel.as_str() != OWNER_CHANNEL), &task.script) {
        say_to(tx, to, None, text.clone())?;
    }
    tell_owner(tx, &text)
}

/// Adds a full stop, unless the text already ends with punctuation.
fn ended(text: &str) -> String {
    if text.ends_with(['.', '!', '?', '…']) { text.to_owned() } else { format!("{text}.") }
}

/// Sends a message from Hearth.
pub(crate) fn say_to(
    tx: &mut Tx<'_, '_>,
    to: Address,
    in_reply_to: Option<MessageId>,
    text: String,
) -> Result<OutboundId> {
    let notice = notice(tx, to, in_reply_to, text);
    queue::say(tx, notice)
}

/// Tells the agent and the owner that one of the agent's messages was not delivered.
pub(crate) fn delivery_failed(tx: &mut Tx<'_, '_>, id: OutboundId, outbound: &Outbound, error: &str) -> Result<()> {
    let place = outbound.to.as_ref().map_or_else(String::new, |to| format!(" to {}/{}", to.channel, to.platform_id));
    let text = format!("Message {id}{place} could not be delivered: {}", shortened(error));
    if let Author::Agent { session, .. } = &outbound.author
        && let Some(row) = sessions::load(tx, *session)?
        && !agents::is_removed(tx, row.agent)?
    {
        notes::tell_agent(tx, *session, &text)?;
    }
    let to_owner = outbound.to.as_ref().is_some_and(|to| to.channel.as_str() == OWNER_CHANNEL);
    if to_owner { Ok(()) } else { tell_owner(tx, &text) }
}

/// Tells the agent and the owner that values of secrets were removed from the agent's message. Tells the agent which
/// files were not sent.
pub(crate) fn secrets_hidden(tx: &mut Tx<'_, '_>, session: SessionId, hidden: &Hidden) -> Result<()> {
    let Some(row) = sessions::load(tx, session)? else { return Ok(()) };
    if agents::is_removed(tx, row.agent)? {
        return Ok(());
    }
    for HiddenFile { file, name } in &hidden.files {
        let text =
            format!("The file {file} was not sent: it contains the value of the secret {name}. Send it without.");
        notes::tell_agent(tx, session, &text)?;
    }
    if hidden.names.is_empty() {
        return Ok(());
    }
    let names = hidden.names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let text = format!(
        "You wrote the value of a secret ({names}). It was replaced by `[secret NAME]` before anything was stored or sent. \
         Do not write such values; this is said once."
    );
    notes::tell_agent(tx, session, &text)?;
    let folder = tx.db.agents.get(tx, &row.agent)?.map_or_else(String::new, |agent| format!(" {}", agent.folder));
    let text = format!(
        "The agent{folder} wrote the value of its secret ({names}) in session {session}. It was replaced by `[secret NAME]` \
         before anything was stored or sent. Find out why it did; if a person's text led it to do so, change the secret."
    );
    tell_owner(tx, &text)
}

/// Sends a message to the owner's terminal, if one was ever used.
pub(crate) fn tell_owner(tx: &mut Tx<'_, '_>, text: &str) -> Result<()> {
    match owner(tx)? {
        Some(to) => say_to(tx, to, None, text.to_owned()).map(drop),
        None => Ok(()),
    }
}

/// The owner's terminal, if one was ever used.
pub(crate) fn owner(tx: &Tx<'_, '_>) -> Result<Option<Address>> {
    let Ok(terminal) = ChannelName::new(OWNER_CHANNEL) else { return Ok(None) };
    let terminal = ForeignKey::of(&terminal);
    for (_, chat) in tx.db.chats_by_address.collect_prefix(tx, &terminal, TERMINALS_MAX)? {
        let chat = tx.db.chats.require(tx, &chat)?;
        // Chats that begin with `@` are direct messages to one person, so they are skipped.
        if !chat.platform_id.as_str().starts_with('@') {
            return Ok(Some(Address { channel: chat.channel, platform_id: chat.platform_id, thread: None }));
        }
    }
    Ok(None)
}

/// A message from Hearth that is not stored yet.
pub(crate) fn notice(tx: &Tx<'_, '_>, to: Address, in_reply_to: Option<MessageId>, text: String) -> Outbound {
    Outbound {
        author: Author::Hearth,
        to: Some(to),
        act: Act::Say,
        in_reply_to,
        content: notes::payload(&text),
        text,
        files: Vec::new(),
        state: OutState::Waiting { until: None, after: None },
        attempts: 0,
        first_attempt: None,
        uncertain: 0,
        stored: tx.now.wall,
    }
}

/// The beginning of an error, cut for display in a chat.
pub(crate) fn shortened(error: &str) -> String {
    match error.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", error.get(..end).unwrap_or_default()),
        None => error.to_owned(),
    }
}
