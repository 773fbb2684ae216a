//! `hearth dropped`: dropped messages, newest first. Reads the store beside the daemon.

use clap::Args;
use serde::Serialize;

use super::listed::{self, Column, Listed};
use super::lookup::{self, ChatRef};
use super::{Done, chats, configuration, human_time, print, time_args};
use crate::config::Paths;
use crate::model::Timestamp;
use crate::model::id::DropId;
use crate::model::message::Drop;
use crate::state::{self, Read, Reader, Tables};

/// Maximum number of dropped messages that are searched.
const LOOKED_AT_MAX: u64 = 20_000;

#[derive(Debug, Args)]
pub(super) struct DroppedArgs {
    /// Show at most this many
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = listed::limit)]
    limit: usize,
    /// Only from this chat: mg7, or channel/platform-id
    #[arg(long, value_name = "CHAT")]
    chat: Option<ChatRef>,
    /// Only since then: a time like 2026-04-20T12:00, a day, or an age like 30m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = time_args::parse)]
    since: Option<time_args::Since>,
}

/// The answer of `hearth dropped --json`.
#[derive(Debug, Serialize)]
struct DroppedJson {
    /// Newest first.
    dropped: Vec<DropJson>,
    /// Whether older ones exist that were not searched or not shown.
    cut: bool,
}

#[derive(Debug, Serialize)]
struct DropJson {
    id: String,
    at: String,
    chat: String,
    thread: Option<String>,
    sender: Option<String>,
    sender_name: Option<String>,
    platform_message: Option<String>,
    /// Null if no agent was involved.
    agent: Option<String>,
    reason: String,
    words: &'static str,
}

impl Listed for DropJson {
    const PLURAL: &'static str = "dropped";
    const COLUMNS: &'static [Column<Self>] = &[
        ("TIME", |drop| human_time::local(&drop.at)),
        ("CHAT", |drop| drop.chat.clone()),
        ("SENDER", |drop| drop.sender.clone().or_else(|| drop.sender_name.clone()).unwrap_or_default()),
        ("AGENT", |drop| drop.agent.clone().unwrap_or_else(|| "-".to_owned())),
        ("REASON", |drop| drop.words.to_owned()),
    ];
}

/// Lists dropped messages.
pub(super) fn dropped(paths: &Paths, args: &DroppedArgs, json: bool) -> Done {
    let from = args.since.map(time_args::Since::start);
    let answer = Reader::open(paths.data())?.read(|db, txn| collect(db, txn, args, from))?;
    if let (Some(chat), true) = (&args.chat, answer.dropped.is_empty()) {
        // An unknown chat may still have dropped messages. If it has none, its name was probably mistyped.
        chats::find(&configuration::read(paths)?, chat)?;
    }
    if json {
        return print::json(&answer);
    }
    if answer.dropped.is_empty() {
        return print::line("no dropped messages");
    }
    listed::table(&answer.dropped)?;
    if answer.cut {
        print::note("more messages were dropped: see --limit and --since");
    }
    Ok(())
}

fn collect(
    db: &Tables,
    txn: &Read<'_>,
    args: &DroppedArgs,
    from: Option<Timestamp>,
) -> Result<DroppedJson, state::Error> {
    let id = match &args.chat {
        Some(ChatRef::Id(id)) => Some(*id),
        _ => None,
    };
    let in_chat = |drop: &Drop| match &args.chat {
        Some(ChatRef::Place(channel, platform)) => drop.channel == *channel && drop.platform_id == *platform,
        Some(ChatRef::Id(_)) => drop.chat == id,
        None => true,
    };
    let recent = |drop: &Drop| from.is_none_or(|from| drop.at >= from);
    let (rows, mut cut) = newest(db, txn, |drop| in_chat(drop) && recent(drop))?;
    cut |= rows.len() > args.limit;
    let dropped = rows
        .into_iter()
        .take(args.limit)
        .map(|(id, drop)| {
            Ok(DropJson {
                id: id.to_string(),
                at: drop.at.to_string(),
                chat: format!("{}/{}", drop.channel, drop.platform_id),
                thread: drop.thread.map(|thread| thread.to_string()),
                sender: drop.sender.map(|sender| sender.to_string()),
                sender_name: drop.sender_name,
                platform_message: drop.platform_message.map(|id| id.to_string()),
                agent: drop.agent.map(|agent| lookup::folder(db, txn, agent)).transpose()?,
                reason: drop.reason.to_string(),
                words: drop.reason.explanation(),
            })
        })
        .collect::<Result<_, state::Error>>()?;
    Ok(DroppedJson { dropped, cut })
}

/// The newest matching drops, newest first, and whether older ones were not searched.
fn newest(
    db: &Tables,
    txn: &Read<'_>,
    mut wanted: impl FnMut(&Drop) -> bool,
) -> Result<(Vec<(DropId, Drop)>, bool), state::Error> {
    let newest = db.dropped_events.last(txn, ..)?.map_or(0, |(id, _)| id.number());
    let oldest = newest.saturating_sub(LOOKED_AT_MAX);
    let mut found = Vec::new();
    for number in (oldest.saturating_add(1)..=newest).rev() {
        let id = DropId::new(number);
        if let Some(drop) = db.dropped_events.get(txn, &id)?
            && wanted(&drop)
        {
            found.push((id, drop));
        }
    }
    Ok((found, oldest > 0))
}
