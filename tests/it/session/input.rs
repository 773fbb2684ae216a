//! Inputs about sessions of a workspace.

use hearth::model::content::RawJson;
use hearth::model::record::{RecordBody, SessionRecord, SpeakerRole};
use hearth::model::report::Reply;
use hearth::model::session::SessionLabel;
use hearth::model::session_command::{Home, NewSession, SessionCommand, SessionDone, SessionRefusal};
use hearth::model::workspace_command::WorkspaceInput;
use hearth::model::workspace_sight::WorkspaceSight;
use hearth::model::{Input, Timestamp};

use crate::world::World;

pub(crate) fn sight(path: &str) -> WorkspaceSight {
    WorkspaceSight { path: path.as_bytes().to_vec(), witness: None, project: None, also_at: Vec::new() }
}

pub(crate) fn home() -> Home {
    Home::Seen(Box::new(sight("/p")))
}

pub(crate) fn record(text: &str, role: SpeakerRole) -> SessionRecord {
    let blocks = RawJson::trusted(format!("[{{\"text\":\"{text}\",\"type\":\"text\"}}]"));
    let body = RecordBody::Message { role, blocks, usage: None, ends_turn: None };
    SessionRecord { at: Timestamp::from_millis(5), body, extra: None }
}

pub(crate) fn new(label: &str, times: Option<(i64, i64)>, texts: &[&str]) -> SessionCommand {
    let at = Timestamp::from_millis;
    SessionCommand::Create(Box::new(NewSession {
        home: home(),
        label: Some(SessionLabel::new(label).unwrap()),
        title: None,
        model: None,
        times: times.map(|(created, updated)| (at(created), at(updated))),
        source: None,
        records: texts.iter().map(|text| record(text, SpeakerRole::User)).collect(),
    }))
}

pub(crate) fn put(world: &mut World, command: SessionCommand) -> Result<SessionDone, SessionRefusal> {
    match world.put(Input::Workspace(Box::new(WorkspaceInput::Session(command)))) {
        Reply::Session(answer) => *answer,
        other => panic!("{other:?}"),
    }
}
