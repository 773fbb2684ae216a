//! Live incarnations, and their last known phase if no daemon runs.

use serde::Serialize;

use crate::cli::{labels, lookup};
use crate::model::incarnation::IncarnationId;
use crate::state::{self, Read, Tables, Writer};

/// An open incarnation.
#[derive(Debug, Serialize)]
pub(super) struct IncarnationStatus {
    session: String,
    incarnation: u32,
    agent: String,
    phase: String,
    started: String,
    tool: Option<String>,
}

/// Incarnations that were not closed, by session.
pub(super) fn look(db: &Tables, txn: &Read<'_>) -> Result<Vec<IncarnationStatus>, state::Error> {
    let mut found = Vec::new();
    for row in db.live_incarnations.iter(txn)? {
        let (session, number) = row?;
        let incarnation = db.incarnations.require(txn, &IncarnationId { session, number })?;
        let Some(agent) = lookup::session(db, txn, session)?.map(|row| row.agent) else { continue };
        found.push(IncarnationStatus {
            session: session.to_string(),
            incarnation: number,
            agent: lookup::folder(db, txn, agent)?,
            phase: labels::phase(&incarnation.phase),
            started: incarnation.started.to_string(),
            tool: incarnation.tool.map(|tool| tool.name),
        });
    }
    Ok(found)
}

/// A note about incarnations and begun messages that a daemon left to the next one. A daemon that stops in order ends
/// its agents, and leaves closing their incarnations to the next one, so that their ends do not count as failures. That
/// needs no warning, unless it interrupted work.
pub(super) fn left(writer: Writer, incarnations: usize, claimed: u64) -> Option<String> {
    let theirs = |one: &'static str, many: &'static str| if incarnations == 1 { one } else { many };
    match writer {
        Writer::Lives => None,
        Writer::Died if incarnations > 0 => Some(format!(
            "the daemon was killed or its machine crashed during {}: the next daemon adopts {} or requeues {} messages; \
             nothing is lost",
            labels::count(incarnations, "run of an agent", "runs of agents"),
            theirs("it", "them"),
            theirs("its", "their"),
        )),
        Writer::GaveUp if claimed > 0 => {
            let messages = labels::count(claimed, "message", "messages");
            let (were, them) = if claimed == 1 { ("was", "it") } else { ("were", "them") };
            Some(format!(
                "{messages} {were} in progress when the daemon stopped: the next one requeues {them}, which costs no try"
            ))
        }
        Writer::Died | Writer::GaveUp => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orderly_end_is_told_from_a_crash_and_one_from_many() {
        let left = |writer, incarnations, claimed| left(writer, incarnations, claimed).unwrap_or_default();
        for (writer, incarnations, claimed, words) in [
            (Writer::GaveUp, 3, 0, ""),
            (Writer::GaveUp, 0, 0, ""),
            (Writer::Died, 0, 0, ""),
            (Writer::Lives, 2, 2, ""),
            (Writer::GaveUp, 1, 1, "1 message was in progress when the daemon stopped: the next one requeues it"),
            (Writer::GaveUp, 1, 2, "2 messages were in progress when the daemon stopped: the next one requeues them"),
            (Writer::Died, 1, 0, "during 1 run of an agent: the next daemon adopts it or requeues its messages"),
            (Writer::Died, 2, 1, "during 2 runs of agents: the next daemon adopts them or requeues their messages"),
        ] {
            let said = left(writer, incarnations, claimed);
            assert!(said.contains(words) && said.is_empty() == words.is_empty(), "{writer:?} {incarnations}: {said}");
        }
    }
}
