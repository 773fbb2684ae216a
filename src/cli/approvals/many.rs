//! Operations on many approvals: paged lists, and rejecting several with one command.

use clap::Args;
use serde::Serialize;

use super::super::decide::{self, BatchDecision};
use super::super::lookup::{self, ChatRef};
use super::super::{Done, Failure, entity, labels, listed, print};
use crate::config::Paths;
use crate::model::approval::{Approval, ApprovalSubject};
use crate::model::card::PromptSubject;
use crate::model::id::{ApprovalId, ChatId};
use crate::model::{ChannelName, UserId};
use crate::state::{self, Read, Reader, Tables};

/// Which part of a list is shown.
#[derive(Debug, Clone, Copy, Args)]
pub(in crate::cli) struct Page {
    /// Show at most this many
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = listed::limit)]
    pub(in crate::cli) limit: usize,
    /// Skip the pages before this one
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) page: u32,
}

impl Page {
    /// The ids of this page, newest first, and the total number of ids.
    pub(super) fn of(self, mut ids: Vec<ApprovalId>) -> (Vec<ApprovalId>, usize) {
        ids.sort_unstable_by_key(|id| std::cmp::Reverse(*id));
        let before = usize::try_from(self.page.saturating_sub(1)).unwrap_or(usize::MAX).saturating_mul(self.limit);
        let all = ids.len();
        (ids.into_iter().skip(before).take(self.limit).collect(), all)
    }

    /// A note about pages that are not shown.
    pub(super) fn rest(self, all: usize) -> Option<String> {
        let page = usize::try_from(self.page).unwrap_or(usize::MAX);
        let pages = all.div_ceil(self.limit.max(1));
        let older = match page.checked_add(1).filter(|next| *next <= pages) {
            Some(next) => format!("; older ones: --page {next}"),
            None => String::new(),
        };
        (pages > 1).then(|| format!("page {page} of {pages}, {all} in all{older}"))
    }
}

/// Which approvals are rejected: one by its id, or all that match.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct Which {
    /// Its id, like ap3
    approval: Option<ApprovalId>,
    /// All that are open
    #[arg(long)]
    all: bool,
    /// All about chats and people of this channel
    #[arg(long, value_name = "NAME", value_parser = channel)]
    channel: Option<ChannelName>,
    /// All about this chat and people in it: mg7, or channel/platform-id
    #[arg(long, value_name = "CHAT")]
    chat: Option<ChatRef>,
    /// All about this person, like telegram:123
    #[arg(long, value_name = "USER", value_parser = user)]
    sender: Option<UserId>,
}

fn channel(text: &str) -> Result<ChannelName, String> {
    ChannelName::new(text).map_err(|error| error.to_string())
}

fn user(text: &str) -> Result<UserId, String> {
    UserId::parse(text).map_err(|error| error.to_string())
}

/// The answer of `hearth approvals reject --all --json` and its like.
#[derive(Debug, Serialize)]
struct RejectedJson {
    /// Ids of those that were rejected.
    rejected: Vec<String>,
    /// Ids of those that were decided meanwhile.
    skipped: Vec<String>,
}

/// Rejects one approval, or all that match.
pub(super) fn reject(paths: &Paths, which: &Which, reason: Option<&str>, json: bool) -> Done {
    if let Some(approval) = which.approval {
        let value = reason.map_or_else(|| "reject".to_owned(), |reason| format!("reject_why:{reason}"));
        return decide::decide(paths, PromptSubject::Approval(approval), &value, json);
    }
    if reason.is_some() {
        return Err(Failure::Failed("--reason is for one approval: name it, like ap3".to_owned()));
    }
    let ids = Reader::open(paths.data())?.read(|db, txn| matching(db, txn, which))??;
    let decided = decide::submit_each(paths, ids.into_iter().map(PromptSubject::Approval), "reject")?;
    let ids = |which: BatchDecision| {
        let found = decided.iter().filter(|(_, decided)| *decided == which);
        found.map(|(matter, _)| matter.to_string()).collect::<Vec<_>>()
    };
    let (rejected, skipped) = (ids(BatchDecision::Now), ids(BatchDecision::Before));
    if json {
        return print::json(&RejectedJson { rejected, skipped });
    }
    let meanwhile = match skipped.len() {
        0 => String::new(),
        n => format!(", {n} were decided in the meantime"),
    };
    print::line(&format!("rejected {}{meanwhile}", labels::count(rejected.len(), "approval", "approvals")))
}

/// Matching open approvals, newest first. Queued ones come before those already shown, so that rejecting them sends no
/// further card.
fn matching(db: &Tables, txn: &Read<'_>, which: &Which) -> Result<Result<Vec<ApprovalId>, Failure>, state::Error> {
    let chat = match &which.chat {
        None => None,
        Some(wanted) => match lookup::chat(db, txn, wanted)? {
            Some((id, _)) => Some(id),
            None => return Ok(Err(entity::missing("chat", &wanted.to_string()))),
        },
    };
    let mut found = Vec::new();
    for row in db.approvals_open.iter(txn)? {
        let (id, ()) = row?;
        let approval = db.approvals.require(txn, &id)?;
        if which.all || matches(db, txn, which, chat, &approval)? {
            found.push(id);
        }
    }
    found.reverse();
    Ok(Ok(found))
}

fn matches(
    db: &Tables,
    txn: &Read<'_>,
    which: &Which,
    chat: Option<ChatId>,
    approval: &Approval,
) -> Result<bool, state::Error> {
    let (at, sender) = match &approval.about {
        ApprovalSubject::Sender { chat, sender, .. } => (*chat, Some(sender)),
        ApprovalSubject::Channel { chat, sender, .. } => (*chat, sender.as_ref()),
        ApprovalSubject::Packages { .. }
        | ApprovalSubject::McpServer { .. }
        | ApprovalSubject::CreateAgent { .. }
        | ApprovalSubject::Budget(_)
        | ApprovalSubject::Host(_)
        | ApprovalSubject::Hosts(_)
        | ApprovalSubject::Tool(_) => {
            return Ok(false);
        }
    };
    let channel = match &which.channel {
        Some(channel) => db.chats.get(txn, &at)?.is_some_and(|chat| chat.channel == *channel),
        None => false,
    };
    Ok(channel || chat == Some(at) || (which.sender.is_some() && which.sender.as_ref() == sender))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_begin_with_the_newest() {
        let ids = |numbers: &[u64]| numbers.iter().copied().map(ApprovalId::new).collect::<Vec<_>>();
        let page = |page, limit| Page { limit, page }.of(ids(&[2, 5, 9, 10, 3])).0;
        assert_eq!(page(1, 2), ids(&[10, 9]));
        assert_eq!(page(2, 2), ids(&[5, 3]));
        assert_eq!(page(3, 2), ids(&[2]));
        assert_eq!(page(4, 2), ids(&[]));
        assert_eq!(page(1, 0), ids(&[]));
        assert_eq!(page(u32::MAX, usize::MAX), ids(&[]));
        let rest = |page, limit| Page { limit, page }.rest(5);
        assert_eq!(rest(1, 2).as_deref(), Some("page 1 of 3, 5 in all; older ones: --page 2"));
        assert_eq!(rest(3, 2).as_deref(), Some("page 3 of 3, 5 in all"));
        assert_eq!(rest(1, 5), None);
    }
}
