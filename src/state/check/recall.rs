//! Checks the index of what was said: it has exactly the words of the rows that say it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Check;
use crate::model::recall::{RecallScope, SaidId};
use crate::recall::build::{self, Indexed};
use crate::recall::segments::{Segment, SegmentText};
use crate::recall::{merge, segments, terms, version};
use crate::search::Words;
use crate::search::segment::Entries;
use crate::{HeldKey, RecallKey, RecallSegmentKey, Result};

/// The texts of the index that agree with their rows.
#[derive(Default)]
struct Found {
    /// By their ids, each with the agent that said or got it.
    said: HashMap<SaidId, RecallScope>,
    held: HashSet<HeldKey>,
}

impl Found {
    /// Adds a text. Returns whether it is new.
    fn insert(&mut self, key: RecallKey) -> bool {
        match held(key) {
            Some(held) => self.held.insert(held),
            None => self.said.insert(key.id, owner(key.scope)).is_none(),
        }
    }

    fn contains(&self, key: RecallKey) -> bool {
        match held(key) {
            Some(held) => self.held.contains(&held),
            None => self.said.get(&key.id) == Some(&owner(key.scope)),
        }
    }
}

const fn held(RecallKey { scope, id }: RecallKey) -> Option<HeldKey> {
    match (scope, id) {
        (RecallScope::Held(approval), SaidId::Held(body)) => Some(HeldKey { approval, body }),
        _ => None,
    }
}

/// Everything in the index is in a row with the same words, and everything that has to be in the index is in it. An index of
/// another version will be removed as a whole.
pub(super) fn index(check: &mut Check<'_, '_>) -> Result<()> {
    let db = *check.db;
    if version::is_old(&db, check.txn)? {
        return Ok(());
    }
    let (mut found, mut merged) = (Found::default(), Vec::new());
    check.each(&db.recall_new, |check, key, row| {
        let sum = sum_of(&build::new_words(&row.0));
        verify(check, key, sum, &mut found)
    })?;
    check.each(&db.recall_segments, |check, key, row| {
        let Some(segment) = Segment::of(&row) else {
            check.report(&db.recall_segments, &key, "it cannot be read");
            return Ok(());
        };
        if segment.is_growing() {
            return growing(check, key, &segment);
        }
        if segment.is_merged() {
            let left = sums(check, key, None)?;
            merged.extend(left.into_iter().filter(|(_, sum)| *sum != 0).map(|(text, _)| (key, text.id)));
            return Ok(());
        }
        let (texts, words) = of_segment(check, key, &mut found)?;
        if (segment.texts, segment.words) != (texts, words) {
            check.report(
                &db.recall_segments,
                &key,
                format!("it has {texts} texts with {words} words, not what it says"),
            );
        }
        Ok(())
    })?;
    for (key, id) in merged {
        if !found.contains(RecallKey { scope: key.scope, id }) {
            check.report(&db.recall_segments, &key, format!("has words of {id}, which is in no other segment"));
        }
    }
    complete(check, &found)
}

/// Checks a segment. Returns its texts and their words.
fn of_segment(check: &mut Check<'_, '_>, of: RecallSegmentKey, found: &mut Found) -> Result<(u64, u64)> {
    let (mut count, mut words) = (0_u64, 0_u64);
    for (text, sum) in sums(check, of, None)? {
        count = count.saturating_add(1);
        words = words.saturating_add(u64::from(text.length));
        verify(check, RecallKey { scope: of.scope, id: text.id }, sum, found)?;
    }
    Ok((count, words))
}

/// Checks a segment into which others are being merged: it has their texts, and the first of their terms.
fn growing(check: &mut Check<'_, '_>, of: RecallSegmentKey, segment: &Segment) -> Result<()> {
    let db = *check.db;
    let until = terms::last(&db, check.txn, of)?.unwrap_or_default();
    let mut expected = BTreeMap::new();
    for source in merge::sources(&db, check.txn, of, segment)? {
        expected.extend(sums(check, source, Some(&until))?.into_iter().map(|(text, sum)| (text.id, sum)));
    }
    let own: BTreeMap<SaidId, u64> = sums(check, of, None)?.into_iter().map(|(text, sum)| (text.id, sum)).collect();
    if own != expected {
        check.report(&db.recall_segments, &of, "has other words than the segments that are merged into it");
    }
    Ok(())
}

/// The texts of a segment, each with the sum over its terms up to one of them.
fn sums(check: &mut Check<'_, '_>, of: RecallSegmentKey, until: Option<&str>) -> Result<Vec<(SegmentText, u64)>> {
    let db = *check.db;
    let texts = segments::texts(&db, check.txn, of)?;
    let mut sums = vec![0_u64; texts.len()];
    for row in db.recall_terms.prefix(check.txn, &of)? {
        let (key, row) = row?;
        let mut entries = Entries::of(&row.0);
        while let Some(list) = entries.advance() {
            if until.is_some_and(|until| entries.term() > until) {
                break;
            }
            for posting in list.postings() {
                match usize::try_from(posting.at).ok().and_then(|at| sums.get_mut(at)) {
                    Some(sum) => *sum = sum.wrapping_add(digest(entries.term(), u64::from(posting.count))),
                    None => {
                        check.report(&db.recall_terms, &key, format!("names text {}, which is not there", posting.at))
                    }
                }
            }
        }
    }
    let mut found = Vec::new();
    for (number, (text, sum)) in (0_u32..).zip(texts.into_iter().zip(sums)) {
        match text {
            Some(text) => found.push((text, sum)),
            None if sum != 0 => {
                check.report(&db.recall_segments, &of, format!("has words of text {number}, which was removed"));
            }
            None => {}
        }
    }
    Ok(found)
}

/// The sum over the terms of a text, independent of their order.
fn sum_of(words: &Words) -> u64 {
    let mut sum = 0_u64;
    words.each(&mut |term, count| sum = sum.wrapping_add(digest(term, count)));
    sum
}

fn digest(term: &str, count: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (term, count).hash(&mut hasher);
    hasher.finish()
}

/// Compares a text of the index with its row.
fn verify(check: &mut Check<'_, '_>, key: RecallKey, sum: u64, found: &mut Found) -> Result<()> {
    let db = *check.db;
    let expected = match (key.scope, key.id) {
        (_, SaidId::Message(id)) => build::message(&db, check.txn, id)?.map(agent_and_text),
        (_, SaidId::Answer(id)) => build::answer(&db, check.txn, id)?.map(agent_and_text),
        (_, SaidId::Skip(id)) => build::skip(&db, check.txn, id)?.map(agent_and_text),
        (RecallScope::Held(approval), SaidId::Held(body)) => {
            let held = HeldKey { approval, body };
            let there = db.held_messages.contains(check.txn, &held)?;
            let text = if there { build::held(&db, check.txn, held)? } else { None };
            text.map(|text| (key.scope, text.words()))
        }
        (RecallScope::Chat(..), SaidId::Held(_)) => None,
    };
    let what = match expected {
        None => Some("nothing to be found is there any more"),
        Some((scope, _)) if scope != owner(key.scope) => Some("is found by another agent than its own"),
        Some((_, words)) if sum_of(&words) != sum => Some("has other words than its text"),
        Some(_) if !found.insert(key) => Some("is there twice"),
        Some(_) => None,
    };
    if let Some(what) = what {
        check.report(&db.recall_new, &key, what);
    }
    Ok(())
}

fn agent_and_text(indexed: Indexed) -> (RecallScope, Words) {
    (RecallScope::Chat(indexed.agent, None), indexed.text.words())
}

/// The scope without its chat. The chat at an address may have been removed and created again since.
const fn owner(scope: RecallScope) -> RecallScope {
    match scope {
        RecallScope::Chat(agent, _) => RecallScope::Chat(agent, None),
        held @ RecallScope::Held(_) => held,
    }
}

/// Everything that has to be in the index is in it. What was found has agreed with its row.
fn complete(check: &mut Check<'_, '_>, found: &Found) -> Result<()> {
    let db = *check.db;
    let is_new = |id: SaidId| !found.said.contains_key(&id);
    check.each(&db.messages, |check, id, _| {
        if is_new(SaidId::Message(id)) { missing(check, build::message(&db, check.txn, id)?) } else { Ok(()) }
    })?;
    check.each(&db.outbound, |check, id, _| {
        if is_new(SaidId::Answer(id)) { missing(check, build::answer(&db, check.txn, id)?) } else { Ok(()) }
    })?;
    check.each(&db.skips, |check, id, _| {
        if is_new(SaidId::Skip(id)) { missing(check, build::skip(&db, check.txn, id)?) } else { Ok(()) }
    })?;
    check.each(&db.held_messages, |check, key, _| {
        let text = build::held(&db, check.txn, key)?;
        if text.is_some_and(|text| !text.words().is_empty()) && !found.held.contains(&key) {
            check.report(&db.held_messages, &key, "cannot be found by a search");
        }
        Ok(())
    })
}

/// Reports a text that is not in the index, unless it has no words, or is not indexed yet.
fn missing(check: &mut Check<'_, '_>, row: Option<Indexed>) -> Result<()> {
    let db = *check.db;
    let Some(Indexed { scope: Some(scope), id, text, .. }) = row else { return Ok(()) };
    let waits = build::progress(&db, check.txn, id)?.is_some_and(|progress| progress.is_missing(id.number()));
    if !waits && !text.words().is_empty() {
        check.report(&db.recall_new, &RecallKey { scope, id }, "cannot be found by a search");
    }
    Ok(())
}
