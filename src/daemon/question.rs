//! One question at a terminal. It hears what answers it; everything else that is said there waits for a conversation, and
//! stays in its order. So an answer may be behind something that waits: it is shown to whoever asked all the same, and
//! stays where it is, since it was not delivered. Nor is one delivered twice that answers several at once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender};

use super::{Daemon, desk};
use crate::channel::terminal::{Attachment, Told};
use crate::model::address::Address;
use crate::model::delivery::{Act, Author, OutState, Outbound};
use crate::model::entity::Folder;
use crate::model::id::{MessageId, OutboundId};
use crate::socket::protocol::Response;
use crate::state::{self, ForeignKey, Read, Tables, Text};

/// Time between two looks for answers that are held up.
const LOOK: Duration = Duration::from_millis(500);
/// Answers to one message that are looked at.
const ANSWERS_MAX: usize = 1_000;

/// Where somebody asks.
pub(super) struct Asking {
    pub(super) agent: Folder,
    pub(super) address: Address,
    pub(super) attachment: Attachment,
}

/// Tells whoever asked what the terminal hears and what is held up, until it is let go.
pub(super) async fn forward(daemon: Arc<Daemon>, asking: Asking, mut told: Receiver<Told>, to: Sender<Response>) {
    let sessions = daemon.paths().sessions();
    let (mut given, mut ends) = (HashSet::new(), HashMap::new());
    let mut look = tokio::time::interval(LOOK);
    loop {
        let responses: Vec<Response> = tokio::select! {
            told = told.recv() => {
                match &told {
                    None => return,
                    Some(Told::Message(delivery)) => drop(given.insert(delivery.id)),
                    Some(Told::Settled(settled)) => {
                        ends.insert(settled.message, settled.answers.clone());
                        // What was promised just now may have been said before, to nobody who hears it.
                        if daemon.terminals().asked(asking.attachment).contains(&settled.message) {
                            daemon.reachable(asking.address.clone());
                        }
                    }
                }
                told.map(|told| desk::shown(told, &sessions)).into_iter().collect()
            }
            _ = look.tick() => {
                let asked = daemon.terminals().asked(asking.attachment);
                let promised = asked.iter().filter_map(|message| ends.get(message)).flatten().copied();
                let promised: Vec<OutboundId> = promised.collect();
                let found = daemon.store().read(|db, txn| missed(db, txn, &asking, (&asked, &promised)));
                let found = found.unwrap_or_else(|error| {
                    tracing::warn!(%error, "answers that wait could not be looked for");
                    Vec::new()
                });
                let new = found.into_iter().filter(|(id, ..)| given.insert(*id));
                new.map(|(id, speaker, row)| said(id, speaker, row, &sessions)).collect()
            }
        };
        for response in responses {
            if to.send(response).await.is_err() {
                return;
            }
        }
    }
}

type Missed = (OutboundId, Option<String>, Outbound);

/// Answers that come to this terminal by no delivery: they wait in its lane while nobody is there who takes what is first
/// in it, or somebody else has shown them.
fn missed(
    db: &Tables,
    txn: &Read<'_>,
    asking: &Asking,
    (asked, promised): (&[MessageId], &[OutboundId]),
) -> state::Result<Vec<Missed>> {
    let mut answers: BTreeSet<OutboundId> = promised.iter().copied().collect();
    for message in asked {
        let said = db.outbound_by_message.collect_prefix(txn, message, ANSWERS_MAX)?;
        answers.extend(said.into_iter().map(|((_, id), ())| id));
    }
    let mut missed = Vec::new();
    for id in answers {
        let Some(row) = db.outbound.get(txn, &id)? else { continue };
        let is_missed = match row.state {
            OutState::Waiting { .. } => is_stuck(db, txn, &asking.address)?,
            OutState::Delivered { .. } => true,
            _ => false,
        };
        let is_said = matches!(row.act, Act::Say | Act::Ask(_)) && row.to.as_ref() == Some(&asking.address);
        if is_missed && is_said {
            missed.push((id, speaker(db, txn, asking, &row)?, row));
        }
    }
    Ok(missed)
}

/// Whether the first message of a lane is not under way.
fn is_stuck(db: &Tables, txn: &Read<'_>, to: &Address) -> state::Result<bool> {
    let Some(((_, _, _, first), ())) = db.lanes.first_in(txn, &ForeignKey::place(to))? else { return Ok(false) };
    Ok(matches!(db.outbound.require(txn, &first)?.state, OutState::Waiting { .. }))
}

fn speaker(db: &Tables, txn: &Read<'_>, asking: &Asking, row: &Outbound) -> state::Result<Option<String>> {
    let Author::Agent { .. } = row.author else { return Ok(None) };
    let Some(id) = db.agents_by_folder.get(txn, &Text::from(&asking.agent))? else { return Ok(None) };
    Ok(db.agents.get(txn, &id)?.map(|agent| agent.settings.name))
}

fn said(id: OutboundId, speaker: Option<String>, row: Outbound, sessions: &std::path::Path) -> Response {
    Response::Said {
        id: id.to_string(),
        speaker,
        text: row.text,
        files: row.files.iter().map(|name| sessions.join(name).display().to_string()).collect(),
        in_reply_to: row.in_reply_to.map(|message| message.to_string()),
    }
}
