//! Migrates older stores to the current format, in steps that never change after their release.

use super::Write;
use super::derived;
use super::envelope::Record;
use super::error::{Result, readable};
use super::indexed;
use super::key::KeyPart;
use super::list_keys::Timed;
use super::meta::Meta;
use super::recall;
use super::schema::Tables;
use super::table::Table;
use crate::model::id::OutboundId;
use crate::model::session_providers::SessionProviders;

mod format_2;

/// Format of the stores that this program writes: the set of tables, the layout of keys, and relations between tables.
/// The layout of a record is covered by the record's own version.
///
/// * 1: the first one. It is frozen: a store of it lies among the fixtures, and opens for ever.
/// * 2: epochs of outgoing ids; new keys of agents, channels and wirings; indexes of approvals, questions, held messages
///   and refusals, and another order in `lanes`; files that their network keeps.
/// * 3: newer versions of the records of agents, dropped events, rate limits and settings, which a program of format 2 cannot
///   read; frozen agents and stopped turns, and more ends of messages.
/// * 4: newer versions of the records of agents and settings; files of ended messages that agents may still read; choices
///   for sessions, and an index of messages in a backoff; the ledger of costs.
/// * 5: newer versions of the records of agents and settings; budgets; which provider drives a session.
/// * 6: newer versions of the records of agents and settings; decisions about hosts, and connections.
/// * 7: a newer version of the records of agents; tool calls that people allowed in advance, and questions about tool calls; the
///   console and its sessions.
/// * 8: newer versions of the records of agents and channels; questions about many hosts; what bridges can do and how far they
///   have read.
/// * 9: newer versions of the records of the console and its sessions; an index of its outgoing messages.
/// * 10: a newer version of the record of settings; transcripts of voice messages.
/// * 11: newer versions of the records of settings and of what bridges can do; spoken forms of answers.
pub const FORMAT: u32 = 11;

/// One step: migrates a store from format `to - 1` to `to`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// The format afterwards.
    pub(super) to: u32,
    /// The work; it runs in the transaction that also writes the new format.
    pub(super) run: fn(&Tables, &mut Write<'_>) -> Result<()>,
}

/// All steps in order.
pub(super) const STEPS: &[Step] = &[
    Step { to: 2, run: to_2 },
    Step { to: 3, run: to_3 },
    Step { to: 4, run: to_4 },
    Step { to: 5, run: to_5 },
    Step { to: 6, run: to_6 },
    Step { to: 7, run: to_7 },
    Step { to: 8, run: to_8 },
    Step { to: 9, run: to_9 },
    Step { to: 10, run: to_10 },
    Step { to: 11, run: to_11 },
];

/// Tables that are new in format 2 already exist and are empty. Those derived from older rows are filled here.
fn to_2(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    rewrite(&db.agents, txn)?;
    rewrite(&db.channels, txn)?;
    rewrite(&db.wirings, txn)?;
    format_2::fill(db, txn)
}

fn to_3(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    rewrite(&db.settings, txn)?;
    rewrite(&db.agents, txn)?;
    rewrite(&db.rate_limits, txn)?;
    rewrite(&db.dropped_events, txn)
}

fn to_4(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    rewrite(&db.settings, txn)?;
    rewrite(&db.agents, txn)?;
    let waiting = readable_rows(db.messages_in_backoff.iter(txn)?)?;
    waiting.iter().try_for_each(|(Timed { id, .. }, ())| indexed::complete(&db.messages, txn, id))
}

fn to_5(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    rewrite(&db.settings, txn)?;
    rewrite(&db.session_settings, txn)?;
    rewrite(&db.agents, txn)?;
    // No provider is told what was said before a reset.
    let sessions = readable_rows(db.sessions.iter(txn)?)?;
    let reset = sessions
        .iter()
        .filter_map(|(key, session)| Some((key.session, session.as_chat().filter(|chat| chat.epoch > 0)?)));
    for (session, chat) in reset {
        let providers = SessionProviders { reset: chat.last_number, ..SessionProviders::default() };
        db.session_providers.put(txn, &session, &providers)?;
    }
    Ok(())
}

fn to_6(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    rewrite(&db.settings, txn)?;
    rewrite(&db.agents, txn)
}

/// Tables that are new in format 7 already exist and are empty. Sweeps index what was said before.
fn to_7(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    rewrite(&db.agents, txn)?;
    recall::build::begin(db, txn)
}

fn to_8(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    rewrite(&db.channels, txn)?;
    rewrite(&db.agents, txn)
}

fn to_9(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    rewrite(&db.console, txn)?;
    rewrite(&db.console_sessions, txn)?;
    let mut of_console = Vec::new();
    for row in db.outbound.iter(txn)? {
        let Some((id, row)) = readable(row.map(Some))? else { continue };
        of_console.extend(derived::console_chat(&row).map(|_| id));
    }
    of_console.iter().try_for_each(|id| indexed::complete(&db.outbound, txn, id))
}

fn to_10(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    rewrite(&db.settings, txn)
}

fn to_11(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    rewrite(&db.settings, txn)?;
    rewrite(&db.bridges, txn)
}

/// Rewrites every row of a table in the current version of its record. Skips records that cannot be read; `check` reports
/// them.
fn rewrite<K: KeyPart, R: Record>(table: &Table<K, R>, txn: &mut Write<'_>) -> Result<()> {
    let rows = readable_rows(table.iter(txn)?)?;
    rows.iter().try_for_each(|(key, row)| table.put(txn, key, row))
}

/// The rows that can be read.
fn readable_rows<T>(rows: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    rows.filter_map(|row| readable(row.map(Some)).transpose()).collect()
}

/// Creates the identity of a new store, or migrates an old one to the format `to`. `install` is random and different
/// for every call. Returns the identity row.
pub(super) fn migrate(db: &Tables, txn: &mut Write<'_>, install: u64, steps: &[Step], to: u32) -> Result<Meta> {
    let mut meta = match db.meta.get(txn, &())? {
        Some(meta) if meta.format == to => return Ok(meta),
        Some(meta) => {
            for step in steps.iter().filter(|step| step.to > meta.format) {
                (step.run)(db, txn)?;
            }
            meta
        }
        None => Meta { format: to, install, runs: 0, epochs: Vec::new() },
    };
    meta.format = to;
    if meta.epochs.is_empty() {
        // Also for an upgraded store: a program of the older format that restores the backup made before the upgrade
        // gives the next numbers out once more, without an epoch.
        meta.begin_epoch(db.counter::<OutboundId>(txn)?, install);
    }
    db.meta.put(txn, &(), &meta)?;
    Ok(meta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::configure::Settings;
    use crate::tests::store;
    use crate::{Error, Number, Text};

    fn renames(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
        db.counters.put(txn, &Text::new("renamed")?, &Number(2))
    }

    fn needs_the_rename(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
        db.counters.require(txn, &Text::new("renamed")?)?;
        db.settings.put(txn, &(), &Settings { max_containers: Some(3), ..Settings::default() })
    }

    fn fails(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
        renames(db, txn)?;
        db.settings.require(txn, &()).map(|_| ())
    }

    const NEXT: Step = Step { to: FORMAT + 1, run: renames };
    const AFTER: Step = Step { to: FORMAT + 2, run: needs_the_rename };

    #[test]
    fn steps_run_once_and_in_order() {
        let (_dir, store) = store();
        store.begin_run().unwrap();
        let before = store.read(|db, txn| db.meta.require(txn, &())).unwrap();
        let meta = store.write(|db, txn| migrate(db, txn, 9, &[NEXT, AFTER], FORMAT + 2)).unwrap();
        assert_eq!(meta, Meta { format: FORMAT + 2, ..before });
        assert_eq!(store.read(|db, txn| db.meta.require(txn, &())).unwrap(), meta);
        assert_eq!(store.read(|db, txn| db.settings.require(txn, &())).unwrap().max_containers, Some(3));
        store.write(|db, txn| db.counters.delete(txn, &Text::new("renamed")?)).unwrap();
        store.write(|db, txn| migrate(db, txn, 9, &[NEXT, AFTER], FORMAT + 2)).unwrap();
        assert_eq!(store.read(|db, txn| db.counters.len(txn)).unwrap(), 0, "no step ran again");
    }

    #[test]
    fn a_step_that_fails_leaves_the_old_store() {
        let (_dir, store) = store();
        let failed = store.write(|db, txn| migrate(db, txn, 9, &[Step { to: FORMAT + 1, run: fails }], FORMAT + 1));
        assert!(matches!(failed, Err(Error::Missing { table: "settings", .. })), "{failed:?}");
        let (format, rows) =
            store.read(|db, txn| Ok::<_, Error>((db.meta.require(txn, &())?.format, db.counters.len(txn)?))).unwrap();
        assert_eq!((format, rows), (FORMAT, 0));
    }

    /// Formats without a step between them would be skipped silently.
    #[test]
    fn there_is_a_step_to_every_format_after_the_first() {
        let mut formats = STEPS.iter().map(|step| step.to);
        assert!(formats.clone().eq((2..).take(STEPS.len())));
        assert_eq!(formats.next_back().unwrap_or(1), FORMAT);
    }
}
