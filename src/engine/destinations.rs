//! Where agents may write, and which chats are not to be asked about, as commands say it.

use super::configure::{Aftermath, Made, report};
use super::{Cx, Result, agents, chats};
use crate::model::address::{ChannelName, ForeignId};
use crate::model::configure::DestinationSpec;
use crate::model::entity::{Destination, Folder, normalize_name};
use crate::model::report::Action;
use crate::state::{Text, Write};

/// Lets an agent write to a chat or another agent under a name of its own.
pub(super) fn add(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (folder, name): (&Folder, &str),
    target: &DestinationSpec,
    after: &mut Aftermath,
) -> Result<Made> {
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(no_agent(folder))) };
    if let Some(problem) = decide_name(name) {
        return Ok(Err(problem));
    }
    let destination = match target {
        DestinationSpec::Chat(channel, id) => match chats::find(cx, txn, channel, id)? {
            Some((chat, _)) => Destination::Chat(chat),
            None => return Ok(Err(no_chat(channel, id))),
        },
        DestinationSpec::Agent(other) => match agents::find(cx, txn, other)? {
            Some((other, _)) => Destination::Agent(other),
            None => return Ok(Err(no_agent(other))),
        },
    };
    let key = (agent, Text::new(name)?);
    let action = match cx.db.destinations.get(txn, &key)? {
        Some(before) if before == destination => Action::Unchanged,
        Some(_) => Action::Updated,
        None => Action::Created,
    };
    if action != Action::Unchanged {
        cx.db.destinations.put(txn, &key, &destination)?;
        after.changed.insert(agent);
    }
    Ok(Ok(vec![report(entity(folder, name), action)]))
}

/// Takes a destination away.
pub(super) fn remove(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (folder, name): (&Folder, &str),
    after: &mut Aftermath,
) -> Result<Made> {
    let Some((agent, _)) = agents::find(cx, txn, folder)? else { return Ok(Err(no_agent(folder))) };
    if decide_name(name).is_some() || !cx.db.destinations.delete(txn, &(agent, Text::new(name)?))? {
        return Ok(Err(format!(
            "{folder} has no destination {name}; `hearth destinations list` shows those there are"
        )));
    }
    after.changed.insert(agent);
    Ok(Ok(vec![report(entity(folder, name), Action::Removed)]))
}

/// Decides that a chat is not to be asked about, or takes that back.
pub(super) fn deny(
    cx: &Cx<'_>,
    txn: &mut Write<'_>,
    (channel, platform_id): (&ChannelName, &ForeignId),
    denied: bool,
) -> Result<Made> {
    let Some((id, mut chat)) = chats::find(cx, txn, channel, platform_id)? else {
        return Ok(Err(no_chat(channel, platform_id)));
    };
    let action = if chat.denied.is_some() == denied { Action::Unchanged } else { Action::Updated };
    if action == Action::Updated {
        chat.denied = denied.then_some(cx.now.wall);
        cx.db.chats.put(txn, &id, &chat)?;
    }
    Ok(Ok(vec![report(format!("chat {channel}/{platform_id}"), action)]))
}

/// Agents write these names; they look like those that wirings make.
fn decide_name(name: &str) -> Option<String> {
    let plain = name == normalize_name(name) && name.len() <= Text::MAX_TEXT;
    (!plain).then(|| {
        format!("`{name}` cannot be a destination's name; use lower-case letters, digits and `-`, like `{}`", {
            let short: String = name.chars().take(40).collect();
            normalize_name(&short)
        })
    })
}

fn entity(folder: &Folder, name: &str) -> String {
    format!("destination {folder} -> {name}")
}

fn no_agent(folder: &Folder) -> String {
    format!("there is no agent {folder}; `hearth agents list` shows those there are")
}

fn no_chat(channel: &ChannelName, id: &ForeignId) -> String {
    format!("there is no chat {channel}/{id}; add it with `hearth chats add {channel}/{id}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for name in ["family", "a-b-2", "0"] {
            assert_eq!(decide_name(name), None, "{name}");
        }
        for name in ["", "Family", "a b", "-a", "a\0", "ä", &"x".repeat(401)] {
            assert!(decide_name(name).is_some(), "{name}");
        }
    }
}
