//! Imports session files one by one, in pieces that fit into one transaction each.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::find::with_fields;
use super::place::CommandDir;
use crate::cli::offline::{Host, host, mismatch};
use crate::cli::workspace::error::WorkspaceError;
use crate::contracts::claw::{self, Damage, Home, Part, SessionFile, Unfit};
use crate::engine::workspaces::Located;
use crate::model::id::SessionId;
use crate::model::record::{RecordBody, SessionRecord};
use crate::model::session::SessionLabel;
use crate::model::take_in::{FileRefused, FileSession, FileState, TakeIn, TookIn};
use crate::model::workspace_command::{WorkspaceInput, WorkspaceReply};
use crate::socket::command::{Answer, ClientCommand};
use crate::state::{Digest, ImportKey, SessionKey};

/// Maximum number of records in a piece.
const PIECE_RECORDS: usize = 500;
/// Maximum bytes of a piece with more than one record.
const PIECE_BYTES: usize = 4 << 20;
/// Maximum number of answers for one file. More indicate a bug.
const ROUNDS_MAX: usize = 10_000_000;

/// Result of importing one file.
pub(super) struct Report {
    file: PathBuf,
    /// Content summary, if the file may be imported.
    about: Option<FileSummary>,
    fate: FileOutcome,
}

/// Content summary of a file.
struct FileSummary {
    label: String,
    records: usize,
    messages: usize,
    /// Whether the file ends with bytes that are not a record.
    torn: bool,
    from_name: bool,
}

enum FileOutcome {
    /// It was imported, or would be.
    Taken { session: Option<String>, label: String, revision: u32 },
    /// Nothing had to be done, with a word for the reason.
    Kept { word: &'static str, session: String, label: String, why: Option<String> },
    /// It was not imported.
    Refused { kind: String, why: String, damaged: bool, fields: Map<String, Value> },
}

impl Report {
    /// The result as a word for programs.
    pub(super) fn word(&self) -> &'static str {
        match &self.fate {
            FileOutcome::Taken { revision: 0, .. } => "taken",
            FileOutcome::Taken { .. } => "revised",
            FileOutcome::Kept { word, .. } => word,
            FileOutcome::Refused { .. } => "refused",
        }
    }

    /// Whether the result needs the user's attention.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.word(), "refused" | "conflict")
    }

    /// Whether the file is damaged or conflicts with the store, rather than belonging elsewhere.
    pub(super) fn is_damaged(&self) -> bool {
        matches!(&self.fate, FileOutcome::Refused { damaged: true, .. }) || self.word() == "conflict"
    }

    /// The id of the imported session, or why there is none.
    pub(super) fn session(self) -> Result<String, WorkspaceError> {
        match self.fate {
            FileOutcome::Taken { label, .. } | FileOutcome::Kept { label, why: None, .. } => Ok(label),
            FileOutcome::Kept { word, why: Some(why), .. } => Err(WorkspaceError::of_kind(word, why)),
            FileOutcome::Refused { kind, why, fields, .. } => {
                Err(WorkspaceError { fields, ..WorkspaceError::of_kind(&kind, why) })
            }
        }
    }

    /// One line for people.
    pub(super) fn line(&self) -> String {
        let file = self.file.display();
        let held = self.about.as_ref().map_or_else(String::new, |about| {
            let torn = if about.torn { "; its last line was torn off" } else { "" };
            let named = if about.from_name { "; named after its file" } else { "" };
            format!(" ({} records, {} messages{torn}{named})", about.records, about.messages)
        });
        match &self.fate {
            FileOutcome::Taken { label, revision: 0, .. } => format!("taken    {label}  {file}{held}"),
            FileOutcome::Taken { label, revision, .. } => {
                format!("revised  {label}  {file}{held}, now revision {revision}")
            }
            FileOutcome::Kept { word, label, why, .. } => {
                let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                format!("{word:<8} {label}  {file}{why}")
            }
            FileOutcome::Refused { why, .. } if why.contains(&file.to_string()) => format!("refused  {why}"),
            FileOutcome::Refused { why, .. } => format!("refused  {file}: {why}"),
        }
    }

    /// The result as JSON.
    pub(super) fn json(&self) -> Value {
        let mut shape = Map::from_iter([
            ("file".to_owned(), json!(self.file.to_string_lossy())),
            ("result".to_owned(), json!(self.word())),
        ]);
        let mut put = |name: &str, value: Value| drop(shape.insert(name.to_owned(), value));
        if let Some(about) = &self.about {
            put("session_id", json!(about.label));
            put("records", json!(about.records));
            put("message_count", json!(about.messages));
            put("truncated_tail", json!(about.torn));
            put("identity_source", json!(if about.from_name { "filename" } else { "file" }));
        }
        match &self.fate {
            FileOutcome::Taken { session, label, revision } => {
                put("session_id", json!(label));
                put("key", json!(session));
                put("revision", json!(revision));
            }
            FileOutcome::Kept { session, label, why, .. } => {
                put("session_id", json!(label));
                put("key", json!(session));
                if let Some(why) = why {
                    put("error", json!(why));
                }
            }
            FileOutcome::Refused { kind, why, fields, .. } => {
                put("kind", json!(kind));
                put("error", json!(why));
                shape.extend(fields.clone());
            }
        }
        Value::Object(shape)
    }
}

/// The workspace of a place, as session files name it.
pub(super) fn home(place: &CommandDir) -> Result<Home, WorkspaceError> {
    let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
    let known = match place.reader()? {
        None => None,
        Some(reader) => reader.read(|db, txn| match place.locate(db, txn)? {
            Located::Known(key) => db.workspaces.get(txn, &key),
            _ => Ok(None),
        })?,
    };
    let own = path(place.sight.path.clone());
    let also = known.map(|row| [vec![row.path], row.former_paths, row.aliases].concat()).unwrap_or_default();
    let also = also.into_iter().map(path).filter(|other| other.is_absolute() && *other != own).collect();
    Ok(Home { path: own, also })
}

/// Imports files of one workspace.
pub(super) struct Importer<'a> {
    place: &'a CommandDir,
    home: Home,
    dry_run: bool,
    /// Opened on demand, so that a rejected file creates no store.
    host: Option<Host>,
}

impl<'a> Importer<'a> {
    pub(super) fn new(place: &'a CommandDir, dry_run: bool) -> Result<Self, WorkspaceError> {
        Ok(Self { place, home: home(place)?, dry_run, host: None })
    }

    /// The workspace as files name it.
    pub(super) const fn home(&self) -> &Home {
        &self.home
    }

    /// Imports one file. Errors of the file are part of the report.
    pub(super) fn take(&mut self, path: &Path) -> Result<Report, WorkspaceError> {
        let read = match claw::read(path, &self.home) {
            Ok(read) => read,
            Err(trouble) => return Ok(Report { file: path.to_owned(), about: None, fate: refused(&trouble) }),
        };
        let state = FileState {
            path: read.path.as_os_str().as_bytes().to_vec(),
            digest: Digest::of(&read.bytes).bytes(),
            older: if let Part::Older(ms) = read.part { Some(ms) } else { None },
        };
        let SessionFile { path: file, owner, session, .. } = read;
        let session = match session {
            Ok(session) => session,
            Err(trouble) => {
                self.note(&state, &owner, &trouble)?;
                return Ok(Report { file, about: None, fate: refused(&trouble) });
            }
        };
        let about = FileSummary::of(&session);
        let fate = if self.dry_run { self.look(&state, &session)? } else { self.submit(state, session)? };
        Ok(Report { file, about: Some(about), fate })
    }

    /// Simulates the import of a file, as far as the store allows.
    fn look(&self, file: &FileState, session: &FileSession) -> Result<FileOutcome, WorkspaceError> {
        let new = FileOutcome::Taken { session: None, label: session.head.label.to_string(), revision: 0 };
        let Some(reader) = self.place.reader()? else { return Ok(new) };
        reader.read(|db, txn| {
            let owner = Digest::of(&session.head.source.path);
            let mut fate = new;
            for (ImportKey { content: digest, .. }, state) in
                db.imported_files.collect_prefix(txn, &owner, usize::MAX)?
            {
                let Ok(id) = state.outcome else { continue };
                let Some(workspace) = db.sessions_by_id.get(txn, &id)? else { continue };
                let row = db.sessions.get(txn, &SessionKey { workspace, session: id })?.and_then(|row| row.workspace());
                let Some(row) = row else { continue };
                let (session, label) = (id.to_string(), row.label.to_string());
                if digest == Digest::known(file.digest) {
                    return Ok(FileOutcome::Kept { word: "already", session, label, why: None });
                }
                fate = FileOutcome::Taken { session: Some(session), label, revision: row.revision.saturating_add(1) };
            }
            Ok(fate)
        })
    }

    /// Submits the session piece by piece.
    fn submit(&mut self, file: FileState, session: FileSession) -> Result<FileOutcome, WorkspaceError> {
        let FileSession { head, records, .. } = session;
        let mut after = 0;
        for _ in 0..ROUNDS_MAX {
            let rest = records.get(after..).unwrap_or_default();
            let many = piece(rest);
            let piece = TakeIn {
                sight: self.place.sight.clone(),
                file: file.clone(),
                head: head.clone(),
                after: u64::try_from(after).unwrap_or(u64::MAX),
                records: rest.get(..many).unwrap_or_default().to_vec(),
                last: many == rest.len(),
            };
            let done = match self.send(piece) {
                Ok(done) => done,
                Err(trouble) if is_about_file(&trouble.kind) => return Ok(FileOutcome::of(trouble)),
                Err(trouble) => return Err(trouble),
            };
            let upto = match FileOutcome::read(done) {
                Ok(fate) => return Ok(fate),
                Err(upto) => usize::try_from(upto).unwrap_or(usize::MAX),
            };
            after = upto.min(records.len());
        }
        Err(WorkspaceError::new(
            "import_failed",
            "the store requests more records than the file has",
            "run `hearth check`",
        ))
    }

    fn send(&mut self, piece: TakeIn) -> Result<TookIn, WorkspaceError> {
        match self.ask(WorkspaceInput::TakeIn(Box::new(piece)))? {
            Answer::Workspace(WorkspaceReply::TookIn(done)) => Ok(done),
            other => Err(mismatch(&other).into()),
        }
    }

    /// Records in the store, if there is one, that a file is not imported.
    fn note(&mut self, file: &FileState, owner: &Path, trouble: &claw::Trouble) -> Result<(), WorkspaceError> {
        if self.dry_run || (self.host.is_none() && self.place.reader()?.is_none()) {
            return Ok(());
        }
        let root = match trouble {
            claw::Trouble::Unfit(unfit) => match &**unfit {
                Unfit::Mismatch { actual, .. } => Some(actual.to_string_lossy().into_owned()),
                Unfit::Unbound { .. } | Unfit::OtherPartition { .. } => None,
            },
            _ => None,
        };
        let refused = FileRefused {
            sight: self.place.sight.clone(),
            owner: owner.as_os_str().as_bytes().to_vec(),
            file: file.clone(),
            why: trouble.code().to_owned(),
            root,
        };
        self.ask(WorkspaceInput::Refuse(Box::new(refused))).map(drop)
    }

    /// Submits an input, through the daemon if one runs.
    fn ask(&mut self, input: WorkspaceInput) -> Result<Answer, WorkspaceError> {
        let host = match self.host.take() {
            Some(host) => host,
            None => host(&self.place.paths)?,
        };
        self.host.insert(host).submit(ClientCommand::Workspace(Box::new(input))).map_err(|error| {
            self.host = None;
            with_fields(self.place, error.into())
        })
    }
}

/// Whether a refusal concerns only this file, so that other files may still be imported.
fn is_about_file(kind: &str) -> bool {
    kind == "record_too_large"
}

/// The number of records for the next piece.
fn piece(records: &[SessionRecord]) -> usize {
    let mut bytes = 0_usize;
    let fit = records.iter().take(PIECE_RECORDS).take_while(|record| {
        bytes = bytes.saturating_add(size(record));
        bytes <= PIECE_BYTES
    });
    fit.count().max(usize::from(!records.is_empty()))
}

fn size(record: &SessionRecord) -> usize {
    let body = match &record.body {
        RecordBody::Message { blocks, .. } => blocks.as_str().len(),
        RecordBody::Prompt(text) => text.len(),
        RecordBody::Foreign(json) => json.as_str().len(),
    };
    body.saturating_add(record.extra.as_ref().map_or(0, |extra| extra.as_str().len()))
}

impl FileSummary {
    fn of(session: &FileSession) -> Self {
        let is_message = |record: &&SessionRecord| matches!(record.body, RecordBody::Message { .. });
        Self {
            label: session.head.label.to_string(),
            records: session.records.len(),
            messages: session.records.iter().filter(is_message).count(),
            torn: session.head.source.torn_tail.is_some(),
            from_name: session.head.source.from_name,
        }
    }
}

impl FileOutcome {
    /// Converts the answer to a result, or returns the number of records imported so far.
    fn read(done: TookIn) -> Result<Self, u64> {
        let kept = |word, session: SessionId, label: SessionLabel, why| {
            Ok(Self::Kept { word, session: session.to_string(), label: label.to_string(), why })
        };
        match done {
            TookIn::More { upto } => Err(upto),
            TookIn::Whole { session, label, revision } => {
                Ok(Self::Taken { session: Some(session.to_string()), label: label.to_string(), revision })
            }
            TookIn::Already { session, label } => kept("already", session, label, None),
            TookIn::Passed { session, label } => kept("passed", session, label, None),
            TookIn::Conflict { session, label, why } => kept("conflict", session, label, Some(why)),
        }
    }

    fn of(trouble: WorkspaceError) -> Self {
        Self::Refused { kind: trouble.kind, why: trouble.message, damaged: true, fields: trouble.fields }
    }
}

fn refused(trouble: &claw::Trouble) -> FileOutcome {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    match trouble {
        claw::Trouble::Unfit(unfit) => match &**unfit {
            Unfit::Mismatch { expected, actual } => {
                put("expected_workspace_root", json!(expected.to_string_lossy()));
                put("actual_workspace_root", json!(actual.to_string_lossy()));
            }
            Unfit::Unbound { expected, .. } => put("expected_workspace_root", json!(expected.to_string_lossy())),
            Unfit::OtherPartition { partition, .. } => put("fingerprint", json!(partition)),
        },
        claw::Trouble::Damaged { damage: Damage::Record { line, recoverable, .. }, .. } => {
            put("line", json!(line));
            put("recoverable_records", json!(recoverable));
        }
        claw::Trouble::Damaged { damage: Damage::LineTooLong { line, .. }, .. } => put("line", json!(line)),
        claw::Trouble::Newer { version, records, .. } => {
            put("version", json!(version));
            put("records", json!(records));
        }
        _ => {}
    }
    let (kind, damaged) = (trouble.code().to_owned(), trouble.is_damage());
    FileOutcome::Refused { kind, why: trouble.to_string(), damaged, fields }
}
