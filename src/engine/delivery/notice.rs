//! Notices to people and agents about failures. Nothing fails silently.

use crate::Result;
use crate::delivery::queue;
use crate::model::address::{Address, ChannelName};
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::entity::Role;
use crate::model::id::{ApprovalId, MessageId, OutboundId, SessionId, TaskId};
use crate::model::mailbox::{Hidden, HiddenFile};
use crate::model::task::Task;
use crate::model::time::Millis;
use crate::rows::direct::Direct;
use crate::rows::{agents, channels, chats, direct, notes, people, sessions};
use crate::state::ForeignKey;
use crate::tx::Tx;

/// The channel on which an owner of this machine is always reachable.
const OWNER_CHANNEL: &str = "terminal";

/// Terminal chats that are examined. Chats of people sort before those of agents.
const TERMINALS_MAX: usize = 100;

/// Maximum length of an error shown in a chat.
const SHOWN_MAX: usize = 500;

/// Outgoing messages that are searched for an earlier notice to the owner.
const BACK_MAX: u64 = 200;

/// Open decisions of which the chats for notices are told.
const DECISIONS_MAX: usize = 20;

/// How long an earlier notice to the owner suppresses the next one about the same.
const TOLD_AGAIN: Millis = Millis::minutes(60);

/// Tells the owner that a task fails repeatedly. If the task has a script, its reply address is told too, because
/// single failures of a script are not reported there.
pub(crate) fn task_failing(tx: &mut Tx<'_, '_>, id: TaskId, task: &Task, error: &str) -> Result<()> {
    let whose = tx.db.agents.get(tx, &task.agent)?.map_or_else(String::new, |agent| format!(" of {}", agent.folder));
    let text = format!(
        "The scheduled task {id}{whose} failed several times in a row: {} See `hearth tasks history {id}`.",
        ended(&shortened(error))
    );
    let told = tell_owner(tx, &text)?;
    let reply = task.reply.clone().filter(|to| to.channel.as_str() != OWNER_CHANNEL);
    let (Some(to), Some(_)) = (reply, &task.script) else { return Ok(()) };
    let text = match shows_details(tx, &to)? {
        true if owners(tx)?.contains(&to) => return Ok(()),
        true => text,
        false => {
            let what = format!("failed several times in a row at the scheduled task {id}");
            for_people(&what, told, &format!("tasks history {id}"))
        }
    };
    say_to(tx, to, None, text).map(drop)
}

/// Adds a full stop, unless the text already ends with punctuation.
pub(crate) fn ended(text: &str) -> String {
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
    // Only the terminal is told: a notice that fails itself would cause the next one.
    let to_owner = outbound.to.as_ref().is_some_and(|to| to.channel.as_str() == OWNER_CHANNEL);
    match owner(tx)? {
        Some(terminal) if !to_owner => say_to(tx, terminal, None, text).map(drop),
        _ => Ok(()),
    }
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
    tell_owner(tx, &text).map(drop)
}

/// Sends a message to the owner: to the terminal, to the first owner with a direct chat on another channel, and to the
/// chats that are configured for notices. Returns whether there was an address.
pub(crate) fn tell_owner(tx: &mut Tx<'_, '_>, text: &str) -> Result<bool> {
    let all = owners(tx)?;
    for to in &all {
        say_to(tx, to.clone(), None, text.to_owned())?;
    }
    Ok(!all.is_empty())
}

/// Like [`tell_owner`], for failures that people can cause as often as they like: the same `what` is sent to the same
/// address at most once an hour. `more` says where the owner finds details.
pub(crate) fn tell_owner_of_failure(tx: &mut Tx<'_, '_>, what: &str, more: &str) -> Result<bool> {
    let all = owners(tx)?;
    for to in &all {
        if !was_told(tx, to, what)? {
            say_to(tx, to.clone(), None, format!("{what} {more}"))?;
        }
    }
    Ok(!all.is_empty())
}

/// Whether one of the last messages to an address already said the same.
fn was_told(tx: &Tx<'_, '_>, to: &Address, what: &str) -> Result<bool> {
    let last = tx.db.outbound.last(tx, ..)?.map_or(0, |(last, _)| last.number());
    let from = OutboundId::new(last.saturating_sub(BACK_MAX));
    for row in tx.db.outbound.range(tx, from..)? {
        let (_, outbound) = row?;
        let same = outbound.author == Author::Hearth && outbound.to.as_ref() == Some(to);
        if same && outbound.text.starts_with(what) && outbound.stored.plus(TOLD_AGAIN) > tx.now.wall {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where the owner is told of failures: the terminal, if it was ever used, the direct chat of the first owner who has
/// one on another channel, and the chats that are configured for notices.
fn owners(tx: &Tx<'_, '_>) -> Result<Vec<Address>> {
    let mut found: Vec<Address> = owner(tx)?.into_iter().collect();
    found.extend(direct_chats(tx)?.into_iter().next());
    for chat in channels::notice_chats(tx)? {
        if !found.contains(&chat) {
            found.push(chat);
        }
    }
    Ok(found)
}

/// Tells the chats that are configured for notices that a decision waits. People who decide get a card elsewhere: these
/// chats can decide nothing. Of many open decisions, the last ones are not told.
pub(crate) fn decision_waits(tx: &mut Tx<'_, '_>, id: ApprovalId, title: &str) -> Result<()> {
    let chats = channels::notice_chats(tx)?;
    if chats.is_empty() || tx.db.approvals_due.collect_range(tx, .., DECISIONS_MAX + 1)?.len() > DECISIONS_MAX {
        return Ok(());
    }
    let title = ended(&shortened(title));
    let text = format!("A decision waits ({id}): {title} See `hearth approvals show {id}`.");
    for to in chats {
        say_to(tx, to, None, text.clone())?;
    }
    Ok(())
}

/// Tells the owner that a channel is not connected, or that it is again. Not on that channel itself, and the same at most
/// once an hour.
pub(crate) fn channel_state(tx: &mut Tx<'_, '_>, channel: &ChannelName, down: Option<&str>) -> Result<()> {
    let text = match down {
        Some(why) => {
            format!("Channel {channel} is not connected: {} See `hearth channels list`.", ended(&shortened(why)))
        }
        None => format!("Channel {channel} is connected again."),
    };
    for to in owners(tx)?.into_iter().filter(|to| to.channel != *channel) {
        if !was_told(tx, &to, &text)? {
            say_to(tx, to, None, text.clone())?;
        }
    }
    Ok(())
}

/// The direct chats of owners on networks, in the order in which they became owners.
fn direct_chats(tx: &Tx<'_, '_>) -> Result<Vec<Address>> {
    let mut found = Vec::new();
    for user in people::holders(tx, Role::Owner)? {
        if user.channel().as_str() != OWNER_CHANNEL
            && let Direct::At(at) = direct::find(tx, &user)?
            && chats::find(tx, &at.channel, &at.platform_id)?.is_some_and(|(_, chat)| !chat.group)
        {
            found.push(at);
        }
    }
    Ok(found)
}

/// Whether a chat may show details of failures, like paths, programs and codes: the terminal, and the direct chat of an
/// owner.
pub(crate) fn shows_details(tx: &Tx<'_, '_>, to: &Address) -> Result<bool> {
    let is_here = |at: &Address| at.channel == to.channel && at.platform_id == to.platform_id;
    Ok(to.channel.as_str() == OWNER_CHANNEL || direct_chats(tx)?.iter().any(is_here))
}

/// Whether the agent of a session answers in a chat that shows details, so that it may repeat them.
pub(crate) fn is_for_owner(tx: &Tx<'_, '_>, session: SessionId) -> Result<bool> {
    match sessions::load(tx, session)?.and_then(|row| row.reply) {
        Some(to) => shows_details(tx, &to),
        None => Ok(false),
    }
}

/// Describes an agent's failure for a chat that does not show details. `told` is whether an owner received the details;
/// otherwise the text names the command that prints them, for the reader to pass on.
pub(crate) fn for_people(what: &str, told: bool, command: &str) -> String {
    if told {
        format!("The agent {what}; its owner has been told.")
    } else {
        format!("The agent {what}. Its owner can find out why with `hearth {command}`.")
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
