//! Shows that an agent works: the typing indicator, which Telegram shows for five seconds, and in direct chats what the agent
//! has written so far, which it shows for thirty seconds or until the next message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::api::{Api, Failure};
use super::plan::place;
use crate::channel::Draft;
use crate::model::address::Address;

/// Timeout of the calls; a late indicator is worthless.
const PATIENCE: Duration = Duration::from_secs(3);

/// Maximum length of a draft in UTF-16 code units, of the 4,096 that Telegram takes. Of a longer text the end is shown.
const DRAFT_MAX: usize = 4_000;

/// Shows the typing indicator once.
pub(super) fn show(api: &Arc<Api>, at: &Address, handle: &Handle) {
    let Some(sign) = parameters(at, json!({ "action": "typing" })) else { return };
    let api = Arc::clone(api);
    handle.spawn(async move {
        // A lost indicator does not matter.
        drop(api.call_within::<Value>(PATIENCE, "sendChatAction", &sign).await);
    });
}

/// Drafts of a bot.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    /// Whether the server rejected one: older servers know none, and some bots may not send them.
    rejected: Arc<AtomicBool>,
}

impl Drafts {
    /// Whether one may be shown there. Telegram shows them in direct chats only, whose ids are positive.
    pub(super) fn are_possible(&self, at: &Address) -> bool {
        !self.rejected.load(Ordering::Relaxed) && at.platform_id.as_str().parse::<i64>().is_ok_and(|chat| chat > 0)
    }

    pub(super) fn show(&self, api: &Arc<Api>, at: &Address, draft: Draft<'_>, handle: &Handle) {
        // Any number but 0.
        let id = draft.answers.number() % u64::from(u16::MAX) + 1;
        let Some(draft) = parameters(at, json!({ "draft_id": id, "text": end_of(draft.text) })) else { return };
        let (api, rejected) = (Arc::clone(api), Arc::clone(&self.rejected));
        handle.spawn(async move {
            // One that is only lost does not matter.
            let answer = api.call_within::<Value>(PATIENCE, "sendMessageDraft", &draft).await;
            if let Err(error @ (Failure::Refused { .. } | Failure::Slow(_))) = answer {
                tracing::info!(%error, "answers are not shown while they are written, until the channel connects again");
                rejected.store(true, Ordering::Relaxed);
            }
        });
    }
}

/// Parameters of a call for a place; none if it is no place of Telegram.
fn parameters(at: &Address, mut more: Value) -> Option<Value> {
    let (chat, topic) = place(at).ok()?;
    let parameters = more.as_object_mut()?;
    parameters.insert("chat_id".to_owned(), chat);
    if let Some(topic) = topic {
        parameters.insert("message_thread_id".to_owned(), json!(topic));
    }
    Some(more)
}

/// The end of a text that is too long for a draft.
fn end_of(text: &str) -> String {
    let mut length = text.encode_utf16().count();
    if length <= DRAFT_MAX {
        return text.to_owned();
    }
    let kept = text.trim_start_matches(|character: char| {
        let drops = length > DRAFT_MAX;
        length -= if drops { character.len_utf16() } else { 0 };
        drops
    });
    format!("…{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_draft_shows_its_end() {
        assert_eq!(end_of("short"), "short");
        for character in ["a", "ä", "😀"] {
            let long = format!("{}end", character.repeat(5_000));
            let shown = end_of(&long);
            assert!(shown.starts_with('…') && shown.ends_with("end"), "{shown}");
            assert!((DRAFT_MAX..=DRAFT_MAX + 1).contains(&shown.encode_utf16().count()), "{shown}");
        }
    }
}
