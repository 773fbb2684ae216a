//! `hearth agents state`: the session state of an agent group, which it shares with its programs in
//! `session-state.json`.

use serde::Serialize;
use serde_json::Value as Json;

use super::{Done, Failure, human_time, print, problems};
use crate::clock;
use crate::config::Paths;
use crate::contracts::state_file;
use crate::model::content::RawJson;
use crate::model::group::{PendingState, StateField, StatePart};
use crate::model::id::AgentId;
use crate::state::{self, Read, Reader, SeenIdKey, Tables};

/// Maximum characters of a value in a table.
const SHOWN: usize = 60;

#[derive(Debug, Serialize)]
struct StateView {
    agent: String,
    file: String,
    /// When it was last read or written; null if that never happened.
    looked: Option<String>,
    /// Whether changes still have to be written to the file.
    to_write: bool,
    /// `newer`, `older`, `unreadable`, `locked`, `unusable`, with what it says in words.
    trouble: Option<&'static str>,
    trouble_words: Option<String>,
    /// Copies of unreadable files, in the agent's folder.
    quarantined: Vec<String>,
    fields: Vec<FieldJson>,
    pending_responses: Vec<PendingJson>,
    seen_ids: IdsJson,
}

#[derive(Debug, Serialize)]
struct FieldJson {
    /// Null, `sessions` or `muted_threads`.
    of: Option<&'static str>,
    /// The raw JSON string, without its quotes.
    name: String,
    /// Null, too, if it was removed and the file does not know yet.
    value: Json,
    changed: String,
    age_s: u64,
}

#[derive(Debug, Serialize)]
struct PendingJson {
    message: String,
    /// `waiting`, `cleared`, `answered`, `told` or `given_up`.
    state: &'static str,
    since: String,
    age_s: u64,
    /// When a pending entry counts as forgotten; for an ended one, when it ended.
    due: String,
    value: Json,
}

#[derive(Debug, Default, Serialize)]
struct IdsJson {
    count: usize,
    oldest: Option<String>,
    newest: Option<String>,
}

/// Shows the session state of an agent.
pub(super) fn state(paths: &Paths, agent: AgentId, folder: &str, json: bool) -> Done {
    let reader = Reader::open(paths.data())?;
    let file = paths.groups().join(folder).join(state_file::NAME).display().to_string();
    let mut shown = reader.read(|db, txn| collect(db, txn, agent))?;
    (shown.agent, shown.file) = (folder.to_owned(), file);
    if json { print::json(&shown) } else { print(&shown) }
}

fn collect(db: &Tables, txn: &Read<'_>, agent: AgentId) -> Result<StateView, state::Error> {
    let now = clock::wall();
    let file = db.state_files.get(txn, &agent)?;
    let mut fields = Vec::new();
    for row in db.state_fields.prefix(txn, &agent)? {
        let (key, field) = row?;
        fields.push((key.part, field));
    }
    fields.sort_by_key(|(part, field)| (*part, field.position));
    let field = |(part, field): (StatePart, StateField)| FieldJson {
        of: match part {
            StatePart::Top => None,
            StatePart::Sessions => Some("sessions"),
            StatePart::Muted => Some("muted_threads"),
        },
        name: field.name.as_str().to_owned(),
        value: field.value.as_ref().map_or(Json::Null, value),
        changed: field.changed.to_string(),
        age_s: now.since(field.changed).get() / 1_000,
    };
    let mut pending = Vec::new();
    for row in db.pending_responses.prefix(txn, &agent)? {
        pending.push(row?.1);
    }
    pending.sort_by_key(|row| row.position);
    let pending = pending.into_iter().map(|row| PendingJson {
        message: row.message,
        state: words(row.state),
        since: row.since.to_string(),
        age_s: now.since(row.since).get() / 1_000,
        due: row.due.to_string(),
        value: value(&row.value),
    });
    let mut ids = IdsJson::default();
    for row in db.seen_ids_by_position.prefix(txn, &agent)? {
        let first = db.seen_ids.require(txn, &SeenIdKey { agent, id: row?.1 })?.first.to_string();
        ids.count += 1;
        ids.oldest.get_or_insert_with(|| first.clone());
        ids.newest = Some(first);
    }
    let named = file.as_ref().and_then(|file| file.trouble.as_ref()).map(problems::of_state_file);
    Ok(StateView {
        agent: String::new(),
        file: String::new(),
        looked: file.as_ref().map(|file| file.looked.to_string()),
        to_write: file.as_ref().is_some_and(|file| file.dirty),
        trouble: named.as_ref().map(|(word, _)| *word),
        trouble_words: named.map(|(_, words)| words),
        quarantined: file.map(|file| file.quarantined).unwrap_or_default(),
        fields: fields.into_iter().map(field).collect(),
        pending_responses: pending.collect(),
        seen_ids: ids,
    })
}

/// A value for JSON output. Values that only Python can parse become strings.
fn value(raw: &RawJson) -> Json {
    serde_json::from_str(raw.as_str()).unwrap_or_else(|_| Json::String(raw.as_str().to_owned()))
}

const fn words(state: PendingState) -> &'static str {
    match state {
        PendingState::Waiting => "waiting",
        PendingState::Cleared => "cleared",
        PendingState::Answered => "answered",
        PendingState::Told => "told",
        PendingState::GivenUp => "given_up",
    }
}

fn print(shown: &StateView) -> Result<(), Failure> {
    print::line(&format!("file        {}", shown.file))?;
    let Some(looked) = &shown.looked else {
        return print::line("            never read: it did not exist yet, or no daemon has run");
    };
    let waits = if shown.to_write { ", not written yet" } else { "" };
    print::line(&format!("read        {}{waits}", human_time::local_with_age(looked)))?;
    if let Some(words) = &shown.trouble_words {
        print::line(&format!("trouble     {words}"))?;
    }
    for copy in &shown.quarantined {
        print::line(&format!("quarantine  {copy}"))?;
    }
    if let (Some(oldest), Some(newest)) = (&shown.seen_ids.oldest, &shown.seen_ids.newest) {
        print::line(&format!(
            "seen ids    {}, first seen from {} to {}",
            shown.seen_ids.count,
            human_time::local(oldest),
            human_time::local(newest)
        ))?;
    }
    if !shown.fields.is_empty() {
        print::line("")?;
        let row = |field: &FieldJson| {
            let name = field.of.map_or_else(|| field.name.clone(), |of| format!("{of}.{}", field.name));
            vec![name, cut(&field.value), human_time::age(&field.changed)]
        };
        print::table(&["FIELD", "VALUE", "CHANGED"], shown.fields.iter().map(row).collect())?;
    }
    if !shown.pending_responses.is_empty() {
        print::line("")?;
        let row = |one: &PendingJson| {
            vec![
                one.message.clone(),
                one.state.to_owned(),
                human_time::age(&one.since),
                human_time::age(&one.due),
                cut(&one.value),
            ]
        };
        let rows = shown.pending_responses.iter().map(row).collect();
        print::table(&["RESPONSE TO", "STATE", "SINCE", "DUE", "NOTE"], rows)?;
    }
    Ok(())
}

fn cut(value: &Json) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
