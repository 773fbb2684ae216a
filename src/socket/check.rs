//! Checks of commands that the types do not express: JSON texts of session records, and paths of imported files.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::content::RawJson;
use crate::model::record::{RecordBody, SessionRecord};
use crate::model::session::SessionSource;
use crate::model::session_command::SessionCommand;
use crate::model::take_in::TakeIn;
use crate::model::workspace_command::WorkspaceInput;
use crate::model::workspace_sight::is_path;

/// Checks a change to a workspace. The error names the field.
pub(super) fn workspace(input: &WorkspaceInput) -> Result<(), String> {
    match input {
        WorkspaceInput::Session(SessionCommand::Create(new)) => records(&new.records),
        WorkspaceInput::Session(SessionCommand::Append(_, appended, _)) => records(appended),
        WorkspaceInput::TakeIn(piece) => import(piece),
        WorkspaceInput::Session(_)
        | WorkspaceInput::Adopt(..)
        | WorkspaceInput::Folders(_)
        | WorkspaceInput::Refuse(_) => Ok(()),
    }
}

fn import(piece: &TakeIn) -> Result<(), String> {
    let SessionSource { path, root, extra, .. } = &piece.head.source;
    if !is_path(path) || root.as_ref().is_some_and(|root| !is_path(root)) {
        return Err("head.source: invalid path".to_owned());
    }
    object("head.source.extra", extra.as_ref())?;
    records(&piece.records)
}

fn records(records: &[SessionRecord]) -> Result<(), String> {
    let checked = |(number, one): (u64, &SessionRecord)| record(one).map_err(|why| format!("record {number}: {why}"));
    (1..).zip(records).try_for_each(checked)
}

fn record(record: &SessionRecord) -> Result<(), String> {
    match &record.body {
        RecordBody::Message { blocks, usage, .. } => {
            parse::<Vec<&RawValue>>("blocks", blocks)?;
            object("usage", usage.as_ref())?;
        }
        RecordBody::Prompt(text) if text.is_empty() => return Err("prompt: the text is empty".to_owned()),
        RecordBody::Prompt(_) => {}
        RecordBody::Foreign(json) => object("foreign", Some(json))?,
    }
    object("extra", record.extra.as_ref())
}

fn object(field: &str, json: Option<&RawJson>) -> Result<(), String> {
    json.map_or(Ok(()), |json| parse::<BTreeMap<String, &RawValue>>(field, json))
}

fn parse<'j, T: Deserialize<'j>>(field: &str, json: &'j RawJson) -> Result<(), String> {
    serde_json::from_str::<T>(json.as_str()).map(drop).map_err(|error| format!("{field}: {error}"))
}
