//! A scenario and its floor: raw LMDB making exactly the same writes with the same commits.
//!
//! A scenario is a list of groups; each group is one commit. The floor comes from the scenario itself: it is run once
//! while every row that a commit changed is noted, and the notes are replayed on a copy of the same store.

use std::time::Duration;

use hearth::engine::commit::Submission;

use super::{Ground, moment, now};

/// The time a copy of this store needs for all groups, one commit each.
#[inline(never)] // a profile can count what is in it
pub(crate) fn run(ground: &Ground, groups: &[Vec<Submission>]) -> Duration {
    let copy = ground.copy();
    let engine = copy.engine();
    std::thread::scope(|scope| {
        scope.spawn(|| engine.index());
        let begin = now();
        for (number, group) in groups.iter().enumerate() {
            let answers = engine.commit(group, moment(number as u64), 7).unwrap();
            assert!(answers.iter().all(Result::is_ok));
        }
        let taken = now() - begin;
        engine.stop_indexing();
        taken
    })
}

/// The writes of every commit of a scenario.
pub(crate) fn trace(ground: &Ground, groups: &[Vec<Submission>]) -> Vec<Vec<Write>> {
    let (before, after) = (ground.copy(), ground.copy());
    let mut trace = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        {
            let engine = after.engine();
            engine.commit(group, moment(number as u64), 7).unwrap();
        }
        let writes = changes(&before, &after);
        let env = raw(&before);
        replay(&env, &raw_tables(&env), &writes);
        trace.push(writes);
    }
    trace
}

/// The time raw LMDB needs for the same writes with the same commits on a copy of this store.
#[inline(never)]
pub(crate) fn floor(ground: &Ground, trace: &[Vec<Write>]) -> Duration {
    let copy = ground.copy();
    let env = raw(&copy);
    let tables = raw_tables(&env);
    let begin = now();
    for commit in trace {
        replay(&env, &tables, commit);
    }
    now() - begin
}

fn replay(env: &heed::Env, tables: &[RawTable; TABLES], writes: &[Write]) {
    let mut txn = raw_write(env);
    for write in writes {
        let table = &tables[write.table];
        match &write.value {
            Some(value) => table.put(&mut txn, &write.key, value).unwrap(),
            None => drop(table.delete(&mut txn, &write.key).unwrap()),
        }
    }
    txn.commit().unwrap();
}

/// What Hearth reaches of its floor: the middle of several pairs that were measured one right after the other, since a
/// disk that others use changes from one second to the next.
pub(crate) fn reached(ground: &Ground, groups: &[Vec<Submission>], trace: &[Vec<Write>], pairs: usize) -> f64 {
    let pair = |_| floor(ground, trace).as_secs_f64() / run(ground, groups).as_secs_f64();
    let mut ratios: Vec<f64> = (0..pairs).map(pair).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// Reads every row.
pub(crate) fn read_all(ground: &Ground) {
    let env = raw(ground);
    let tables = raw_tables(&env);
    let txn = raw_read(&env);
    let rows = |table: &RawTable| table.iter(&txn).unwrap().map(|row| row.unwrap().1.len()).sum::<usize>();
    assert!(tables.iter().map(rows).sum::<usize>() > 0);
}

/// Opens the store without Hearth; no other process has it open.
#[expect(unsafe_code, reason = "the floor is LMDB itself, opened as the store opens it")]
fn raw(ground: &Ground) -> heed::Env {
    let mut options = heed::EnvOpenOptions::new();
    options.map_size(1 << 34).max_dbs(200);
    // SAFETY: the file lies on a local disk and nothing else in this process or another has it open.
    unsafe { options.open(ground.dir.path().join("store")) }.unwrap()
}

/// One changed row; no value is a removal.
pub(crate) struct Write {
    table: usize,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

const TABLES: usize = hearth::state::Tables::ABOUT.len();

type RawTable = heed::Database<'static, heed::types::Bytes, heed::types::Bytes>;

/// What changed from one store to the other, in the order of tables and keys.
fn changes(before: &Ground, after: &Ground) -> Vec<Write> {
    let (before, after) = (raw(before), raw(after));
    // Tables are opened by a transaction, and a thread has one at a time.
    let (old_tables, new_tables) = (raw_tables(&before), raw_tables(&after));
    let (then, now) = (raw_read(&before), raw_read(&after));
    let mut writes = Vec::new();
    for (number, (old, new)) in old_tables.iter().zip(&new_tables).enumerate() {
        let mut write = |key: &[u8], value: Option<&[u8]>| {
            writes.push(Write { table: number, key: key.to_vec(), value: value.map(<[u8]>::to_vec) });
        };
        let (mut old, mut new) =
            (old.iter(&then).unwrap().map(Result::unwrap), new.iter(&now).unwrap().map(Result::unwrap));
        let (mut was, mut is) = (old.next(), new.next());
        loop {
            match (was, is) {
                (None, None) => break,
                (Some((key, _)), other) if other.is_none_or(|(next, _)| key < next) => {
                    write(key, None);
                    was = old.next();
                }
                (other, Some((key, value))) if other.is_none_or(|(next, _)| key < next) => {
                    write(key, Some(value));
                    is = new.next();
                }
                (Some((_, old_value)), Some((key, value))) => {
                    if old_value != value {
                        write(key, Some(value));
                    }
                    (was, is) = (old.next(), new.next());
                }
                (Some(_), None) | (None, Some(_)) => unreachable!("one side alone is handled above"),
            }
        }
    }
    writes
}

fn raw_write(env: &heed::Env) -> heed::RwTxn<'_> {
    env.write_txn().unwrap()
}

fn raw_read(env: &heed::Env) -> heed::RoTxn<'_, heed::WithTls> {
    env.read_txn().unwrap()
}

fn raw_tables(env: &heed::Env) -> [RawTable; TABLES] {
    let opened: heed::Result<heed::CommitOrAbort<[RawTable; TABLES], ()>> =
        env.open_databases_and_commit(raw_read(env), |opener, txn| {
            let mut tables = Vec::new();
            for about in hearth::state::Tables::ABOUT {
                tables.push(opener.open_database(txn, Some(about.name))?.unwrap());
            }
            let tables: [heed::Database<'_, heed::types::Bytes, heed::types::Bytes>; TABLES] =
                tables.try_into().ok().unwrap();
            Ok(heed::CommitOrAbort::Commit(tables))
        });
    opened.unwrap().unwrap_commit()
}

/// The time of one row put and committed by raw LMDB.
pub(crate) fn one_commit(ground: &Ground, number: usize) -> Duration {
    let env = raw(ground);
    let [table, ..] = raw_tables(&env);
    let begin = now();
    let mut txn = raw_write(&env);
    table.put(&mut txn, &number.to_be_bytes(), &[7; 200]).unwrap();
    txn.commit().unwrap();
    now() - begin
}
