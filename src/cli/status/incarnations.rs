//! Which incarnations live, and what is said of those that no daemon looks after.

use serde::Serialize;

use crate::cli::{out, rows, words};
use crate::state::{self, Read, Tables, Writer};

/// An incarnation that was not closed.
#[derive(Debug, Serialize)]
pub(super) struct IncarnationStatus {
    session: String,
    incarnation: u32,
    agent: String,
    phase: String,
    started: String,
    tool: Option<String>,
}

/// Those that were not closed, by session.
pub(super) fn look(db: &Tables, txn: &Read<'_>) -> Result<Vec<IncarnationStatus>, state::Error> {
    let mut found = Vec::new();
    for row in db.live.iter(txn)? {
        let (session, number) = row?;
        let incarnation = db.incarnations.require(txn, &(session, number))?;
        let Some(agent) = rows::session(db, txn, session)?.map(|row| row.agent) else { continue };
        found.push(IncarnationStatus {
            session: session.to_string(),
            incarnation: number,
            agent: rows::folder(db, txn, agent)?,
            phase: words::phase(&incarnation.phase),
            started: incarnation.started.to_string(),
            tool: incarnation.tool.map(|tool| tool.name),
        });
    }
    Ok(found)
}

/// What people should know of so many incarnations, with so many messages begun, that a daemon left to the next one. One
/// that ends in order takes its agents along and leaves closing them to the next, so that their ends are not counted as
/// failures: that is nothing to warn of, unless it cut something off.
pub(super) fn left(writer: Writer, incarnations: usize, claimed: u64) -> Option<String> {
    let theirs = |one: &'static str, many: &'static str| if incarnations == 1 { one } else { many };
    match writer {
        Writer::Lives => None,
        Writer::Died if incarnations > 0 => Some(format!(
            "Hearth was killed, or its machine went down, with {} at work: the next daemon goes on with {}, or gives \
             back {} messages; nothing is lost",
            words::count(incarnations, "incarnation", "incarnations"),
            theirs("it", "them"),
            theirs("its", "their"),
        )),
        Writer::GaveUp if claimed > 0 => {
            let messages = words::count(claimed, "message", "messages");
            let (were, them) = if claimed == 1 { ("was", "it") } else { ("were", "them") };
            Some(format!(
                "{messages} {were} not done when the daemon stopped: the next one gives {them} to an agent again, which costs \
                 no try"
            ))
        }
        Writer::Died | Writer::GaveUp => None,
    }
}

/// For people. Without a daemon nobody knows what they are now.
pub(super) fn print(incarnations: &[IncarnationStatus], daemon: bool) -> Result<(), crate::cli::Failure> {
    if incarnations.is_empty() {
        return Ok(());
    }
    out::line("")?;
    let row = |one: &IncarnationStatus| {
        let name = format!("{}.{}", one.session, one.incarnation);
        let phase = if daemon { one.phase.clone() } else { format!("was {}", one.phase) };
        vec![name, one.agent.clone(), phase, one.started.clone(), one.tool.clone().unwrap_or_default()]
    };
    out::table(&["INCARNATION", "AGENT", "PHASE", "STARTED", "TOOL"], incarnations.iter().map(row).collect())
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
            (Writer::GaveUp, 1, 1, "1 message was not done when the daemon stopped: the next one gives it to an agent"),
            (
                Writer::GaveUp,
                1,
                2,
                "2 messages were not done when the daemon stopped: the next one gives them to an agent",
            ),
            (
                Writer::Died,
                1,
                0,
                "with 1 incarnation at work: the next daemon goes on with it, or gives back its messages",
            ),
            (
                Writer::Died,
                2,
                1,
                "with 2 incarnations at work: the next daemon goes on with them, or gives back their messages",
            ),
        ] {
            let said = left(writer, incarnations, claimed);
            assert!(said.contains(words) && said.is_empty() == words.is_empty(), "{writer:?} {incarnations}: {said}");
        }
    }
}
