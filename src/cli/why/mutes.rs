//! Muted threads, with the command that unmutes them.

use crate::engine::muted_places;
use crate::model::address::Address;
use crate::model::id::AgentId;
use crate::model::message::{Drop, Reason};
use crate::state::{self, Read, Tables};

/// Why an event was dropped for an agent that muted its thread or chat, and how to unmute it.
pub(super) fn words(
    db: &Tables,
    txn: &Read<'_>,
    drop: &Drop,
    agent: AgentId,
    folder: &str,
) -> Result<String, state::Error> {
    let Drop { channel, platform_id, thread, .. } = drop;
    let address = Address { channel: channel.clone(), platform_id: platform_id.clone(), thread: thread.clone() };
    let muted = muted_places(db, txn, agent, &address)?;
    let commands: Vec<String> = muted.iter().map(|place| format!("`{}`", command(folder, place))).collect();
    Ok(match (muted.as_slice(), thread) {
        // An older Hearth did not record the thread of dropped events.
        ([], None) => Reason::Muted.explanation().to_owned(),
        ([], Some(_)) => "the thread was muted for the agent; it is not muted any more".to_owned(),
        ([Address { thread: Some(_), .. }], _) => {
            format!("the thread is muted for the agent; {} unmutes it", commands.concat())
        }
        ([_], _) => format!("the chat is muted for the agent; {} unmutes it", commands.concat()),
        _ => format!("the thread and its chat are muted for the agent; {} unmute them", commands.join(" and ")),
    })
}

/// The command that unmutes a thread or a chat.
fn command(folder: &str, place: &Address) -> String {
    let chat = shell_word(&format!("{}/{}", place.channel, place.platform_id));
    let thread = place.thread.as_ref().map(|thread| format!(" --thread={}", shell_word(thread.as_str())));
    format!("hearth mutes remove {folder} {chat}{}", thread.unwrap_or_default())
}

/// A text as one word of a shell's command.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::address::{ChannelName, ForeignId};

    #[test]
    fn commands_survive_a_shell() {
        let id = |text: &str| ForeignId::new("id", text).unwrap();
        for (chat, thread, expected) in [
            ("-100:5", None, "hearth mutes remove main telegram/-100:5"),
            ("1", Some("-42"), "hearth mutes remove main telegram/1 --thread=-42"),
            ("a b", Some("it's"), r"hearth mutes remove main 'telegram/a b' --thread='it'\''s'"),
            ("$(rm)", Some(""), "hearth mutes remove main 'telegram/$(rm)' --thread=''"),
        ] {
            let channel = ChannelName::new("telegram").unwrap();
            let place = Address { channel, platform_id: id(chat), thread: thread.map(id) };
            assert_eq!(command("main", &place), expected);
        }
    }
}
