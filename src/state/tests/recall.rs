//! The index of what was said finds what was added and not removed, in segments of all sizes.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::check;
use crate::model::Timestamp;
use crate::model::id::{AgentId, ApprovalId, BodyId, ChatId, MessageId, OutboundId};
use crate::model::recall::{RecallScope, SaidId};
use crate::recall::find::{Search, find};
use crate::recall::merge::Step;
use crate::recall::segments::{Pace, Prepared};
use crate::recall::{NewText, add, all_scopes, build, rebuild, remove, scopes_of, segments, source, version};
use crate::search::segment::Entries;
use crate::search::{Query, Words};
use crate::tests::{samples, store};
use crate::{Result, Store, Tables, Write};

const HOME: RecallScope = RecallScope::Chat(AgentId::new(1), Some(ChatId::new(1)));
const WORK: RecallScope = RecallScope::Chat(AgentId::new(1), Some(ChatId::new(2)));
const OTHER: RecallScope = RecallScope::Chat(AgentId::new(2), Some(ChatId::new(1)));
const HELD: RecallScope = RecallScope::Held(ApprovalId::new(3));

/// All that there is to do.
const fn at_once(new: usize) -> Pace {
    Pace { new, every: 1, step: Step { postings: usize::MAX, rows: usize::MAX } }
}

/// The counters of the samples, and the index of what they say.
pub(super) fn fill(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    samples::counters(db, txn)?;
    build::begin(db, txn)?;
    while build::step(db, txn, 3)? {}
    segments::gather_at(db, txn, HOME, at_once(4))
}

/// Indexes everything from the beginning.
pub(super) fn index_again(db: &Tables, txn: &mut Write<'_>) -> Result<()> {
    while let Some((key, _)) = db.recall_new.first(txn, ..)? {
        db.recall_new.delete(txn, &key)?;
    }
    while let Some((key, _)) = db.recall_segments.first(txn, ..)? {
        db.recall_segments.delete(txn, &key)?;
    }
    while let Some((key, _)) = db.recall_texts.first(txn, ..)? {
        db.recall_texts.delete(txn, &key)?;
    }
    while let Some((key, _)) = db.recall_terms.first(txn, ..)? {
        db.recall_terms.delete(txn, &key)?;
    }
    build::begin(db, txn)?;
    while build::step(db, txn, 3)? {}
    Ok(())
}

fn checked(change: impl FnOnce(&Tables, &mut Write<'_>) -> Result<()>) -> Vec<String> {
    let (_dir, store) = store();
    let found = store.write(|db, txn| {
        samples::fill(db, txn)?;
        change(db, txn)?;
        check(db, txn)
    });
    found.unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn a_check_compares_the_index_with_what_was_said() {
    let id = SaidId::Message(MessageId::new(1));
    assert_eq!(checked(|_, _| Ok(())), [""; 0]);
    let gone = checked(|db, txn| {
        let body = db.bodies.require(txn, &BodyId::new(1))?;
        let words = source::of_stored(db, txn, BodyId::new(1), &body).unwrap().unwrap().words();
        assert!(remove(db, txn, HOME, id, &words)?);
        Ok(())
    });
    assert_eq!(gone, ["recall_new ag1/mg1/ms1: cannot be found by a search"]);
    let more = checked(|db, txn| add(db, txn, OTHER, id, at(1), &Words::of("more", &[])));
    assert_eq!(more, ["recall_new ag2/mg1/ms1: is found by another agent than its own"]);
    let changed = checked(|db, txn| {
        let mut body = db.bodies.require(txn, &BodyId::new(1))?;
        body.content.text.push_str(" changed");
        db.bodies.put(txn, &BodyId::new(1), &body)
    });
    assert!(changed.contains(&"recall_new ag1/mg1/ms1: has other words than its text".to_owned()), "{changed:?}");
    let segment = checked(|db, txn| {
        let (key, _) = db.recall_terms.last(txn, ..)?.unwrap();
        db.recall_terms.delete(txn, &key).map(drop)
    });
    assert!(!segment.is_empty());
}

/// Small steps, with messages that come and go between them.
#[test]
fn an_index_of_another_version_is_made_again_beside_normal_work() {
    let (_dir, store) = store();
    store.write(samples::fill).unwrap();
    let old = |db: &Tables, txn: &mut Write<'_>| {
        // What another version would have made of the texts: terms that no row says, under numbers that are in use.
        for number in 1..200 {
            add(db, txn, HOME, SaidId::Message(MessageId::new(number)), at(number), &Words::of("older words", &[]))?;
        }
        segments::gather_at(db, txn, HOME, at_once(1))?;
        db.retention_cursors.put(txn, &crate::Text::new("recall_version")?, &crate::Number(77))
    };
    store.write(old).unwrap();
    assert!(!search(&store, &[HOME], "older").is_empty());
    assert_eq!(store.read(check).unwrap(), [], "it is not compared with texts that it does not index");
    let (mut steps, mut rows_left) = (0_u64, u64::MAX);
    loop {
        let (more, clearing, rows) = store
            .write(|db, txn| {
                let due = version::is_old(db, txn)?;
                let more = rebuild::step(db, txn, 3)?;
                add(
                    db,
                    txn,
                    WORK,
                    SaidId::Answer(OutboundId::new(900 + steps)),
                    at(steps),
                    &Words::of("meanwhile", &[]),
                )?;
                remove(db, txn, WORK, SaidId::Answer(OutboundId::new(900 + steps)), &Words::of("meanwhile", &[]))?;
                let rows = db.recall_texts.len(txn)? + db.recall_terms.len(txn)? + db.recall_segments.len(txn)?;
                Ok::<_, crate::Error>((more, due, rows))
            })
            .unwrap();
        if !more {
            break;
        }
        assert!(
            !clearing || rows_left == u64::MAX || rows_left.saturating_sub(rows) <= 3,
            "{rows_left} became {rows} in one step"
        );
        rows_left = rows;
        steps += 1;
        assert!(steps < 1_000);
    }
    assert!(steps > 5, "{steps}");
    assert_eq!(search(&store, &[HOME], "older"), []);
    assert_eq!(store.read(check).unwrap(), []);
    assert!(!store.read(version::is_old).unwrap());
}

/// A plain generator of numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn at(number: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(number).unwrap() * 1_000)
}

fn search(store: &Store, scopes: &[RecallScope], text: &str) -> Vec<SaidId> {
    let query = Query::parse(text);
    let hits = store
        .read(|db, txn| {
            let search = Search {
                query: &query,
                scopes,
                own: None,
                after: None,
                before: None,
                now: at(100_000),
                most: usize::MAX,
            };
            find(db, txn, &search)
        })
        .unwrap();
    assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
    hits.into_iter().map(|hit| hit.id).collect()
}

fn put(store: &Store, scope: RecallScope, id: SaidId, text: &str) {
    store.write(|db, txn| add(db, txn, scope, id, at(id.number()), &Words::of(text, &[]))).unwrap();
}

#[test]
fn a_search_reads_only_its_scopes() {
    let (_dir, store) = store();
    put(&store, HOME, SaidId::Message(MessageId::new(1)), "the boiler is broken");
    put(&store, WORK, SaidId::Message(MessageId::new(2)), "the printer is broken");
    put(&store, OTHER, SaidId::Answer(OutboundId::new(3)), "broken again");
    put(&store, HELD, SaidId::Held(BodyId::new(4)), "broken, says a stranger");
    assert_eq!(search(&store, &[HOME], "broken"), [SaidId::Message(MessageId::new(1))]);
    assert_eq!(search(&store, &[HOME, WORK], "printer").len(), 1);
    assert_eq!(search(&store, &[], "broken"), []);
    let (of_first, all) = store
        .read(|db, txn| Ok::<_, crate::Error>((scopes_of(db, txn, AgentId::new(1))?, all_scopes(db, txn)?)))
        .unwrap();
    assert_eq!(of_first, [HOME, WORK]);
    assert_eq!(all, [HOME, WORK, OTHER, HELD]);
}

#[test]
fn words_beginnings_and_parts_are_found() {
    let (_dir, store) = store();
    let id = |number| SaidId::Message(MessageId::new(number));
    put(&store, HOME, id(1), "Die Donaudampfschifffahrtsgesellschaft");
    put(&store, HOME, id(2), "ein Haus");
    put(&store, HOME, id(3), "Haustüren");
    put(&store, HOME, id(4), "東京タワーへ行く");
    for (query, found) in [
        ("dampfschiff", vec![1]),
        ("haus", vec![2, 3]),
        ("haus*", vec![2, 3]),
        ("hausturen", vec![3]),
        ("東京", vec![4]),
        ("京", vec![4]),
        ("xyz", vec![]),
        ("", vec![1, 2, 3, 4]),
    ] {
        let mut hits: Vec<u64> = search(&store, &[HOME], query).into_iter().map(SaidId::number).collect();
        assert!(query != "haus" || hits == [2, 3], "the word itself is better");
        hits.sort_unstable();
        assert_eq!(hits, found, "{query}");
    }
}

/// Only the newest texts with very common words count, but not if these are too new.
#[test]
fn old_texts_with_common_words_are_found_by_their_time() {
    let (_dir, store) = store();
    let words = Words::of("the boiler", &[]);
    for batch in 0..25 {
        let all = (batch * 1_000 + 1)..=(batch + 1) * 1_000;
        let put = |db: &Tables, txn: &mut Write<'_>| {
            all.clone().try_for_each(|id| add(db, txn, HOME, SaidId::Message(MessageId::new(id)), at(id), &words))
        };
        store.write(put).unwrap();
    }
    for text in ["the boiler", "\"the boiler\""] {
        let query = Query::parse(text);
        let (own, after, before, now, most) = (None, None, Some(at(100)), at(100_000), usize::MAX);
        let search = Search { query: &query, scopes: &[HOME], own, after, before, now, most };
        assert_eq!(store.read(|db, txn| find(db, txn, &search)).unwrap().len(), 100, "{text}");
    }
}

#[test]
fn segments_of_all_sizes_have_what_was_added_and_not_removed() {
    let (_dir, store) = store();
    let mut numbers = Numbers(7);
    let mut texts: BTreeMap<SaidId, BTreeSet<String>> = BTreeMap::new();
    let (count, mut made) = (5_000, Vec::new());
    for batch in 0..count / 50 {
        let added: Vec<(SaidId, String)> = (1..=50)
            .map(|n| {
                let number = batch * 50 + n;
                let id = if numbers.next(4) == 0 {
                    SaidId::Answer(OutboundId::new(number))
                } else {
                    SaidId::Message(MessageId::new(number))
                };
                // Words of very different frequencies, some of them long.
                let words: Vec<String> = (0..1 + numbers.next(12))
                    .map(|_| {
                        let of = 1_u64 << numbers.next(11);
                        let number = numbers.next(of);
                        if number % 7 == 3 { format!("extraordinarily{number}") } else { format!("w{number}") }
                    })
                    .collect();
                (id, words.join(" "))
            })
            .collect();
        let removed: Vec<SaidId> = texts.keys().copied().filter(|_| numbers.next(count) < 20).collect();
        store
            .write(|db, txn| {
                made.drain(..).try_for_each(|segment| segments::write(db, txn, segment))?;
                for (id, text) in &added {
                    add(db, txn, HOME, *id, at(id.number()), &Words::of(text, &[]))?;
                }
                for id in &removed {
                    let text = texts[id].iter().map(String::as_str).collect::<Vec<_>>().join(" ");
                    assert!(remove(db, txn, HOME, *id, &Words::of(&text, &[]))?, "{id}");
                    assert!(!remove(db, txn, HOME, *id, &Words::of(&text, &[]))?, "{id} is gone");
                }
                Ok::<_, crate::Error>(())
            })
            .unwrap();
        for scope in store.take_crowded() {
            made.extend(store.read(|db, txn| segments::prepare(db, txn, scope)).unwrap());
        }
        removed.iter().for_each(|id| drop(texts.remove(id)));
        texts.extend(added.into_iter().map(|(id, text)| (id, text.split(' ').map(str::to_owned).collect())));
    }
    let levels: BTreeSet<u8> = store
        .read(|db, txn| Ok::<_, crate::Error>(segments::all(db, txn, HOME)?.iter().map(|(_, one)| one.level).collect()))
        .unwrap();
    assert!(levels.contains(&1), "texts were gathered and merged: {levels:?}");
    for word in (0..1_024).step_by(37).flat_map(|n| [format!("w{n}"), format!("extraordinarily{n}")]) {
        let expected: BTreeSet<SaidId> =
            texts.iter().filter(|(_, words)| words.contains(&word)).map(|(id, _)| *id).collect();
        // A phrase finds the word alone; a rare word is also the beginning of others.
        let found: BTreeSet<SaidId> = search(&store, &[HOME], &word).into_iter().collect();
        assert!(found.is_superset(&expected), "{word}");
        let related = |id: &SaidId| texts[id].iter().any(|text| text.starts_with(&word) || text.contains(&word));
        assert!(found.iter().all(related), "{word}");
    }
    let everything: BTreeSet<SaidId> = search(&store, &[HOME], "").into_iter().collect();
    assert_eq!(everything, texts.keys().copied().collect());
}

/// The segments of a scope that are searched, that others are merged into, and that were merged.
fn stages(store: &Store) -> [usize; 3] {
    let all = store.read(|db, txn| segments::all(db, txn, HOME)).unwrap();
    let count = |is: fn(&segments::Segment) -> bool| all.iter().filter(|(_, segment)| is(segment)).count();
    [count(|one| one.is_whole()), count(|one| one.is_growing()), count(|one| one.is_merged())]
}

/// Whether any row has a term, also of segments that are not searched.
fn has_term(store: &Store, term: &str) -> bool {
    store
        .read(|db, txn| {
            let mut found = false;
            for row in db.recall_terms.iter(txn)? {
                let (_, row) = row?;
                let mut entries = Entries::of(&row.0);
                while entries.advance().is_some() {
                    found |= entries.term() == term;
                }
            }
            Ok::<_, crate::Error>(found)
        })
        .unwrap()
}

#[test]
fn segments_are_merged_in_small_steps() {
    merge_in_small_steps(|db, txn, _| segments::gather_at(db, txn, HOME, SMALL));
}

#[test]
fn segments_that_were_made_before_a_change_are_left() {
    let (mut written, mut left) = (0, 0);
    merge_in_small_steps(|db, txn, made| {
        let Some(made) = made else { return Ok(()) };
        let before = db.recall_new.len(txn)?;
        segments::write(db, txn, made)?;
        if db.recall_new.len(txn)? < before {
            written += 1
        } else {
            left += 1
        }
        Ok(())
    });
    assert!(written > 20 && left > 5, "{written} segments were written, and {left} were left");
}

const SMALL: Pace = Pace { new: 1, every: 1, step: Step { postings: 40, rows: 2 } };

/// Texts that are indexed together. Some follow later than those after them, like transcripts of audio messages.
fn texts_of(batch: u64, numbers: &mut Numbers) -> BTreeMap<SaidId, String> {
    let is_late = |n: &u64| n % 36 == 8;
    (batch * 6 + 1..=batch * 6 + 6)
        .filter(|n| !is_late(n))
        .chain((batch * 6).checked_sub(4).filter(is_late))
        .map(|n| {
            let id = match n % 3 {
                0 => SaidId::Answer(OutboundId::new(n)),
                _ => SaidId::Message(MessageId::new(n)),
            };
            (id, format!("only{n}x common w{}", numbers.next(20)))
        })
        .collect()
}

/// Adds and removes texts. `write` gets a segment that was made two commits ago, every other time.
fn merge_in_small_steps(mut write: impl FnMut(&Tables, &mut Write<'_>, Option<Prepared>) -> Result<()>) {
    let (_dir, store) = store();
    let mut made = None;
    let mut numbers = Numbers(3);
    let mut texts: BTreeMap<SaidId, String> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for batch in 0..150 {
        let added = texts_of(batch, &mut numbers);
        let removed: BTreeMap<SaidId, String> =
            texts.iter().filter(|_| numbers.next(50) == 0).map(|(id, text)| (*id, text.clone())).collect();
        let last = if batch % 2 == 1 { made.take() } else { None };
        if batch % 2 == 0 {
            made = store.read(|db, txn| segments::prepare_at(db, txn, HOME, SMALL)).unwrap();
        }
        store
            .write(|db, txn| {
                for (id, text) in &added {
                    db.recall_new.put(
                        txn,
                        &crate::RecallKey { scope: HOME, id: *id },
                        &NewText::to_packed(at(id.number()), &Words::of(text, &[])),
                    )?;
                }
                let rows = db.recall_terms.len(txn)? + db.recall_texts.len(txn)?;
                write(db, txn, last)?;
                let after = db.recall_terms.len(txn)? + db.recall_texts.len(txn)?;
                assert!(rows.saturating_sub(after) <= 2, "{rows} rows became {after} in one step");
                for (id, text) in &removed {
                    assert!(remove(db, txn, HOME, *id, &Words::of(text, &[]))?, "{id}");
                    assert!(!remove(db, txn, HOME, *id, &Words::of(text, &[]))?, "{id} is gone");
                }
                Ok::<_, crate::Error>(())
            })
            .unwrap();
        texts.extend(added);
        texts.retain(|id, _| !removed.contains_key(id));
        for id in removed.keys() {
            assert!(!has_term(&store, &format!("only{}x", id.number())), "no row has words of a removed text");
        }
        assert_eq!(search(&store, &[HOME], "common").len(), texts.len(), "every text is found once");
        let wrong = |line: &String| line.contains("merged into it") || line.contains("was removed");
        let reports = || store.read(check).unwrap().iter().map(ToString::to_string).filter(wrong).count();
        if batch % 15 == 0 {
            assert_eq!(reports(), 0, "what is merged agrees with what it is merged of");
        }
        let [whole, growing, merged] = stages(&store);
        seen.insert((growing > 0, merged > 0));
        assert!(whole < 80 && growing < 2, "merging keeps up: {whole}");
    }
    assert!(seen.contains(&(true, false)) && seen.contains(&(false, true)), "{seen:?}");
    for (id, text) in &texts {
        assert_eq!(search(&store, &[HOME], text.split(' ').next().unwrap()), [*id]);
    }
    let left = store.write(|db, txn| {
        for (id, text) in &texts {
            assert!(remove(db, txn, HOME, *id, &Words::of(text, &[]))?, "{id}");
        }
        Ok::<_, crate::Error>([db.recall_segments.len(txn)?, db.recall_terms.len(txn)?, db.recall_texts.len(txn)?])
    });
    assert_eq!(left.unwrap(), [0; 3], "nothing is left of texts that were removed");
}
