//! Commands as lines of the socket.

use super::*;
use crate::model::address::{Address, ChannelName, ForeignId, UserId};
use crate::model::configure::Change;
use crate::model::content::RawJson;
use crate::model::entity::Folder;
use crate::model::id::{AgentId, SessionId};
use crate::model::record::{RecordBody, SessionRecord, SpeakerRole};
use crate::model::session::{Compaction, SessionLabel, SessionSource};
use crate::model::session_command::{CompactSession, ForkSession, Guard, Home, NewSession, SessionCommand};
use crate::model::take_in::{FileRefused, FileState, SessionHead, TakeIn};
use crate::model::task::{Missed, Overlap, TaskHome, TaskOrigin};
use crate::model::task_command::{NewTask, Patch, TaskChange};
use crate::model::time::Timestamp;
use crate::model::workspace::{Witness, parse_key};
use crate::model::workspace_command::AdoptFrom;
use crate::model::workspace_sight::WorkspaceSight;

fn raw(text: &str) -> RawJson {
    RawJson::trusted(text.to_owned())
}

fn sight() -> WorkspaceSight {
    WorkspaceSight {
        path: b"/tmp/\xff\n".to_vec(),
        witness: Some(Witness { place: "m/host".to_owned(), device: 1, inode: 2, born: Some(-3) }),
        project: Some(b"/tmp".to_vec()),
        also_at: vec![b"/mnt".to_vec()],
    }
}

fn records() -> Vec<SessionRecord> {
    let message =
        RecordBody::Message { role: SpeakerRole::User, blocks: raw("[]"), usage: Some(raw("{}")), ends_turn: None };
    let bodies = [message, RecordBody::Prompt("p".to_owned()), RecordBody::Foreign(raw("{\"n\":1e999}"))];
    let record = |body| SessionRecord { at: Timestamp::from_millis(3), body, extra: Some(raw("{\"x\":1}")) };
    bodies.into_iter().map(record).collect()
}

fn piece() -> TakeIn {
    let head = SessionHead {
        label: SessionLabel::new("a").unwrap(),
        model: Some("m".to_owned()),
        created: Timestamp::from_millis(1),
        updated: Timestamp::from_millis(2),
        parent: Some(("p".to_owned(), None)),
        compaction: Some(Compaction { count: 1, removed: 2, summary: "s".to_owned() }),
        source: SessionSource {
            path: b"/w/\xff".to_vec(),
            id: Some("\u{fc}".to_owned()),
            from_name: true,
            root: Some(b"/w".to_vec()),
            torn_tail: Some(Vec::new()),
            extra: Some(raw("{\"session_meta\":{\"n\":1e999}}")),
        },
    };
    let file = FileState { path: b"/w/f".to_vec(), digest: [3; 32], older: Some(4) };
    TakeIn { sight: sight(), file, head, after: 5, records: records(), last: true }
}

fn task() -> NewTask {
    NewTask {
        agent: AgentId::new(1),
        home: TaskHome::Session(SessionId::new(2)),
        prompt: "p".to_owned(),
        script: None,
        reply: Some(Address {
            channel: ChannelName::new("net").unwrap(),
            platform_id: ForeignId::new("id", "C").unwrap(),
            thread: None,
        }),
        first: None,
        recurrence: Some("1h".to_owned()),
        missed: Missed::RunAll(3),
        overlap: Overlap::Queue,
        origin: TaskOrigin::imported("old"),
        allow: vec!["Bash(git push:*)".to_owned()],
    }
}

fn session(command: SessionCommand) -> ClientCommand {
    ClientCommand::Workspace(Box::new(WorkspaceInput::Session(command)))
}

#[test]
fn a_command_reads_back_as_it_was_written() {
    let key = parse_key("00000000000000ff~3").unwrap();
    let change = TaskChange { script: Patch::Clear, recurrence: Patch::Set("1h".to_owned()), ..TaskChange::default() };
    let guard = Guard { epoch: Some(1), expected: None, dead: None };
    let new = NewSession {
        home: Home::Seen(Box::new(sight())),
        label: None,
        title: None,
        model: None,
        times: None,
        source: None,
        records: records(),
    };
    let fork =
        ForkSession { parent: SessionId::new(5), home: Home::Known(key), label: None, branch: None, upto: Some(4) };
    let refused = FileRefused {
        sight: sight(),
        owner: b"/w/o".to_vec(),
        file: piece().file,
        why: "w".to_owned(),
        root: Some("/v".to_owned()),
    };
    let edits = vec![
        Change::RemoveAgent(Folder::new("main").unwrap()),
        Change::RemoveUser(UserId::parse("net:1").unwrap()),
        Change::ResetSession(SessionId::new(3)),
    ];
    let commands = [
        ClientCommand::Change(ChangeRequest { edits, ..ChangeRequest::default() }),
        ClientCommand::Decide { matter: "ap3".parse().unwrap(), value: "1".to_owned() },
        ClientCommand::Task(TaskCommand::AddPaused(Box::new(task()))),
        ClientCommand::Task(TaskCommand::Set(TaskId::new(2), Box::new(change))),
        session(SessionCommand::Create(Box::new(new))),
        session(SessionCommand::Append(SessionId::new(5), records(), guard)),
        session(SessionCommand::Fork(Box::new(fork))),
        session(SessionCommand::Compact(SessionId::new(5), CompactSession { keep: 2, summary: None }, guard)),
        ClientCommand::Workspace(Box::new(WorkspaceInput::Adopt(sight(), AdoptFrom::Found))),
        ClientCommand::Workspace(Box::new(WorkspaceInput::Adopt(sight(), AdoptFrom::Key(key)))),
        ClientCommand::Workspace(Box::new(WorkspaceInput::Adopt(sight(), AdoptFrom::Path(b"/\xfe".to_vec())))),
        ClientCommand::Workspace(Box::new(WorkspaceInput::TakeIn(Box::new(piece())))),
        ClientCommand::Workspace(Box::new(WorkspaceInput::Refuse(Box::new(refused)))),
    ];
    for command in commands {
        let line = serde_json::to_string(&command).unwrap();
        assert_eq!(serde_json::from_str::<ClientCommand>(&line).unwrap(), command, "{line}");
        assert!(command.input().is_ok(), "{line}");
    }
}

#[test]
fn an_invalid_command_is_refused_with_the_reason() {
    let read = |line: &str| {
        let command = serde_json::from_str::<ClientCommand>(line).map_err(|error| error.to_string())?;
        command.input()
    };
    let sight = r#"{"path":[47],"witness":null,"project":null,"also_at":[]}"#;
    for (line, why) in [
        (r#"{"task":{"pause":"x"}}"#.to_owned(), "`x` is not an id like ta12"),
        (r#"{"task":{"set":["ta1",{}]}}"#.to_owned(), "nothing to change"),
        (r#"{"task":{"set":["ta1",{"missed":"all:0"}]}}"#.to_owned(), "write once, skip, or all:N"),
        (r#"{"task":{"set":["ta1",{"overlap":"fork"}]}}"#.to_owned(), "write refuse or queue"),
        (r#"{"task":{"add":{"agent":"x","prompt":"p"}}}"#.to_owned(), "`x` is not an id like ag12"),
        (
            r#"{"task":{"add":{"agent":"ag1","prompt":"p","reply":{"channel":"","platform_id":"1"}}}}"#.to_owned(),
            "the channel name is empty",
        ),
        (r#"{"decide":{"matter":"x","value":"1"}}"#.to_owned(), "`x` is not an id like ap12"),
        (r#"{"change":{"edits":[{"remove_agent":"a b"}]}}"#.to_owned(), "cannot be an agent's folder"),
        (r#"{"change":{"edits":[{"mute_name":["main","",null]}]}}"#.to_owned(), "the name is empty"),
        (r#"{"change":{"edits":["prune"]}}"#.to_owned(), "unknown variant `prune`"),
        (r#"{"change":{"edits":[{"put_user":{}}]}}"#.to_owned(), "unknown variant `put_user`"),
        (r#"{"workspace":{"folders":[]}}"#.to_owned(), "unknown variant `folders`"),
        (format!(r#"{{"workspace":{{"adopt":[{sight},{{"key":"ff"}}]}}}}"#), "`ff` is not the key of a workspace"),
        (format!(r#"{{"workspace":{{"adopt":[{sight},{{"path":[0]}}]}}}}"#), "invalid path"),
        (
            r#"{"workspace":{"session":{"append":["se5",[{"at":1,"body":{"Foreign":"[]"},"extra":null}],{}]}}}"#
                .to_owned(),
            "record 1: foreign: ",
        ),
    ] {
        let heard = read(&line).unwrap_err();
        assert!(heard.contains(why), "{line}: {heard}");
    }
}

#[test]
fn a_client_cannot_create_a_task_for_an_agent() {
    let task = NewTask { origin: TaskOrigin::Agent(SessionId::new(1)), ..task() };
    assert!(serde_json::to_string(&ClientCommand::Task(TaskCommand::Add(Box::new(task)))).is_err());
}
