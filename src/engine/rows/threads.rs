//! Keys of threads, and the end of following them.

use crate::Result;
use crate::model::address::{Address, ForeignId};
use crate::model::id::AgentId;
use crate::state::{AgentThreadKey, ThreadKey};
use crate::tx::Tx;

/// The names that programs within agent groups may use for a thread, or for a chat with all its threads: its id alone,
/// or prefixed with the chat, or with channel and chat. Both `:` and `/` separate the parts.
pub(crate) fn spellings(address: &Address) -> Vec<String> {
    let (channel, chat) = (address.channel.as_str(), address.platform_id.as_str());
    let Some(thread) = address.thread.as_ref().map(ForeignId::as_str) else {
        return vec![chat.to_owned(), format!("{channel}:{chat}"), format!("{channel}/{chat}")];
    };
    let mut all = vec![thread.to_owned(), format!("{chat}:{thread}"), format!("{chat}/{thread}")];
    all.extend([format!("{channel}:{chat}:{thread}"), format!("{channel}/{chat}/{thread}")]);
    all
}

/// Stops following the thread of an address, or without a thread all threads of the chat. Returns how many there were.
pub(crate) fn end_all(tx: &mut Tx<'_, '_>, agent: AgentId, address: &Address) -> Result<usize> {
    let thread = ThreadKey::of(address);
    let keys = match thread.thread {
        Some(_) => vec![AgentThreadKey { agent, thread }],
        None => {
            let rows = tx.db.thread_follows.prefix(tx, &(agent, thread.chat))?;
            rows.map(|row| row.map(|(key, _)| key)).collect::<Result<Vec<_>>>()?
        }
    };
    let mut ended = 0;
    for key in keys {
        ended += usize::from(end(tx, &key)?);
    }
    Ok(ended)
}

/// Stops following one thread. Returns whether it was followed.
pub(crate) fn end(tx: &mut Tx<'_, '_>, key: &AgentThreadKey) -> Result<bool> {
    tx.db.thread_follows.delete(tx, key)
}

pub(crate) fn key(agent: AgentId, address: &Address) -> AgentThreadKey {
    AgentThreadKey { agent, thread: ThreadKey::of(address) }
}

pub(crate) fn place(Address { channel, platform_id, thread }: &Address) -> String {
    let thread = thread.as_ref().map(|thread| format!(" (thread {thread})")).unwrap_or_default();
    format!("{channel}/{platform_id}{thread}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::address::{ChannelName, ForeignId};

    #[test]
    fn a_thread_has_several_names() {
        let address = |thread: Option<&str>| Address {
            channel: ChannelName::new("telegram").unwrap(),
            platform_id: ForeignId::new("chat", "-100:5").unwrap(),
            thread: thread.map(|thread| ForeignId::new("thread", thread).unwrap()),
        };
        assert_eq!(spellings(&address(None)), ["-100:5", "telegram:-100:5", "telegram/-100:5"]);
        let names = ["42", "-100:5:42", "-100:5/42", "telegram:-100:5:42", "telegram/-100:5/42"];
        assert_eq!(spellings(&address(Some("42"))), names);
    }
}
