//! Messages that fail for good: each one is ended, and the people who wait for it are told.

use crate::Result;
use crate::delivery::notice;
use crate::model::address::Address;
use crate::model::id::{MessageId, OutboundId, SessionId, TaskId};
use crate::model::journal::Event;
use crate::model::message::{Body, Message, MessageState};
use crate::rows::{journal, messages, notes};
use crate::tx::Tx;
use std::collections::BTreeSet;

/// Characters of each message shown in a notice about several of them.
const EXCERPT_CHARS: usize = 60;

/// Messages that fail in one transaction, grouped by notice.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    groups: Vec<Group>,
    known: BTreeSet<MessageId>,
}

/// The messages of one notice.
#[derive(Debug)]
struct Group {
    about: About,
    messages: Vec<(MessageId, Message)>,
}

/// What the messages of one notice have in common.
#[derive(Debug, PartialEq, Eq)]
struct About {
    /// The reply address.
    to: Option<Address>,
    /// The scheduled task that caused them. Each task has its own notice.
    task: Option<TaskId>,
    /// The session of the agent that sent them, if they have no reply address.
    from: Option<SessionId>,
    error: String,
}

impl Failures {
    /// Adds an open message. A message that was already added is ignored.
    pub(crate) fn add(&mut self, id: MessageId, message: Message, error: &str) {
        if !self.known.insert(id) {
            return;
        }
        let about = About {
            to: message.reply.clone(),
            task: message.slot.map(|slot| slot.task),
            from: message.from.filter(|_| message.reply.is_none()).map(|hop| hop.session),
            error: error.to_owned(),
        };
        match self.groups.iter_mut().find(|group| group.about == about) {
            Some(group) => group.messages.push((id, message)),
            None => self.groups.push(Group { about, messages: vec![(id, message)] }),
        }
    }

    /// Ends the messages and sends the notices. Returns the first notice sent to a chat.
    pub(crate) fn settle(&mut self, tx: &mut Tx<'_, '_>) -> Result<Option<OutboundId>> {
        let mut first = None;
        for Group { about, mut messages } in std::mem::take(&mut self.groups) {
            messages.sort_unstable_by_key(|(id, _)| *id);
            let told = tell(tx, &about, &messages)?;
            first = first.or(told);
            for (id, _) in messages {
                journal::of_message(tx, id, Event::GivenUp(about.error.clone()))?;
                let failed = MessageState::Failed { error: about.error.clone(), at: tx.now.wall };
                messages::end(tx, id, failed, told.into_iter().collect())?;
            }
        }
        Ok(first)
    }
}

/// Sends a notice to the reply address. Without one, tells the agent that sent the messages and the owner.
fn tell(tx: &mut Tx<'_, '_>, about: &About, failed: &[(MessageId, Message)]) -> Result<Option<OutboundId>> {
    let list = list(tx, about, failed)?;
    let one = failed.first().map(|(id, _)| *id).filter(|_| list.is_empty());
    match &about.to {
        Some(to) => tell_chat(tx, about, to, failed, &list).map(Some),
        None => tell_sender(tx, about, one, failed.len(), &list).map(|()| None),
    }
}

/// Tells the agent that sent the messages, and the owner.
fn tell_sender(tx: &mut Tx<'_, '_>, about: &About, one: Option<MessageId>, count: usize, list: &str) -> Result<()> {
    let error = &about.error;
    let what = match (about.task, one) {
        (Some(task), _) => format!("The scheduled task {task}"),
        (None, Some(id)) => id.to_string(),
        (None, None) => format!("{count} messages"),
    };
    notice::tell_owner(tx, &format!("{what} failed: {error}{list}"))?;
    let Some(session) = about.from else { return Ok(()) };
    let what = one.map_or(format!("{count} of your messages"), |id| format!("Your message {id}"));
    let why = if notice::is_for_owner(tx, session)? { format!(": {error}") } else { String::new() };
    notes::tell_agent(tx, session, &format!("{what} to another agent failed{why}{list}"))
}

/// Tells the chat that waits for an answer. Only an owner's chat gets the error. For other chats, the owner gets it.
fn tell_chat(
    tx: &mut Tx<'_, '_>,
    about: &About,
    to: &Address,
    failed: &[(MessageId, Message)],
    list: &str,
) -> Result<OutboundId> {
    let (error, count) = (notice::shortened(&about.error), failed.len());
    let (first, message) = failed.first().map(|(id, message)| (*id, message)).unzip();
    let text = if notice::shows_details(tx, to)? {
        let what = match (about.task, list.is_empty()) {
            (Some(task), _) => format!("Your scheduled task {task} failed"),
            (None, true) => "Your message could not be processed".to_owned(),
            (None, false) => format!("{count} messages could not be processed"),
        };
        format!("{what}: {error}{list}")
    } else {
        let folder = match message {
            Some(message) => {
                tx.db.agents.get(tx, &message.agent)?.map_or_else(String::new, |agent| agent.folder.to_string())
            }
            None => String::new(),
        };
        let (owned, plain) = match (about.task, list.is_empty()) {
            (Some(task), _) => {
                (format!("the scheduled task {task}"), format!("could not do the scheduled task {task}"))
            }
            (None, true) => ("a message".to_owned(), "could not process your message".to_owned()),
            (None, false) => (format!("{count} messages"), format!("could not process {count} messages")),
        };
        let why = first.map_or_else(String::new, |first| format!("why {first}"));
        let place = format!("{}/{}", to.channel, to.platform_id);
        let owned = format!("Agent {folder} could not process {owned} from {place}: {}", notice::ended(&error));
        let told = notice::tell_owner_of_failure(tx, &owned, &format!("See `hearth {why}`."))?;
        format!("{}{list}", notice::for_people(&plain, told, &why))
    };
    notice::say_to(tx, to.clone(), first, text)
}

/// The beginning of each message, if there are several, with names if they have several senders. Empty for tasks.
fn list(tx: &Tx<'_, '_>, about: &About, failed: &[(MessageId, Message)]) -> Result<String> {
    if failed.len() < 2 || about.task.is_some() {
        return Ok(String::new());
    }
    let bodies = failed.iter().map(|(_, message)| tx.db.bodies.require(tx, &message.body));
    Ok(lines(&bodies.collect::<Result<Vec<_>>>()?))
}

fn lines(bodies: &[Body]) -> String {
    let senders: BTreeSet<_> = bodies.iter().map(|body| &body.content.sender_name).collect();
    let line = |body: &Body| match body.content.sender_name.as_ref().filter(|_| senders.len() > 1) {
        Some(name) => format!("\n- {}: {}", excerpt(name), excerpt(&body.content.text)),
        None => format!("\n- {}", excerpt(&body.content.text)),
    };
    bodies.iter().map(line).collect()
}

/// The beginning of a text, on one line.
fn excerpt(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(EXCERPT_CHARS) {
        _ if words.is_empty() => "[no text]".to_owned(),
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default()),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use crate::lifecycle::failures::*;

    #[test]
    fn excerpts_have_sixty_characters_on_one_line() {
        let long = "é".repeat(61);
        for (text, shown) in [
            ("hello\n  there", "hello there".to_owned()),
            (&"é".repeat(60), "é".repeat(60)),
            (&long, format!("{}…", "é".repeat(60))),
            (" \n", "[no text]".to_owned()),
        ] {
            assert_eq!(excerpt(text), shown);
        }
    }
}
