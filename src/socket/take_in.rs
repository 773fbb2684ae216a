//! Sessions that are taken in from files, as lines of the socket. Paths and digests are base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::session::{RecordJson, object, read_all};
use super::workspace::{SightJson, bytes};
use crate::model::session::{Compaction, SessionLabel, SessionSource};
use crate::model::take_in::{FileRefused, FileState, SessionHead, TakeIn, TookIn};
use crate::model::time::Timestamp;

/// A piece of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceJson {
    /// The directory.
    sight: SightJson,
    /// The file.
    file: FileJson,
    /// What the file says of the session as a whole.
    head: HeadJson,
    /// Records that came before.
    after: u64,
    /// Those that follow.
    records: Vec<RecordJson>,
    /// Whether these are the last ones.
    last: bool,
}

/// A file that was not taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedJson {
    /// The directory.
    sight: SightJson,
    /// The file that its session belongs to.
    owner: String,
    /// The file.
    file: FileJson,
    /// Why not.
    why: String,
    /// The other workspace that it names.
    root: Option<String>,
}

/// A file as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileJson {
    path: String,
    digest: String,
    older: Option<u64>,
}

/// What a file says of its session as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HeadJson {
    label: String,
    model: Option<String>,
    created: i64,
    updated: i64,
    parent: Option<(String, Option<String>)>,
    compaction: Option<(u32, u64, String)>,
    owner: String,
    source_id: Option<String>,
    from_name: bool,
    root: Option<String>,
    torn_tail: Option<String>,
    extra: Option<String>,
}

/// What became of a piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "took", rename_all = "snake_case")]
pub enum TookInJson {
    /// The records after this number are wanted next.
    More {
        /// How many there are.
        upto: u64,
    },
    /// All of it is there.
    Whole {
        /// The session, like `se5`.
        session: String,
        /// Its id for people.
        label: String,
        /// Which revision the file became.
        revision: u32,
    },
    /// It was there before.
    Already {
        /// The session.
        session: String,
        /// Its id for people.
        label: String,
    },
    /// A newer state is there.
    Passed {
        /// The session.
        session: String,
        /// Its id for people.
        label: String,
    },
    /// File and session went on separately.
    Conflict {
        /// The session.
        session: String,
        /// Its id for people.
        label: String,
        /// What stands in the way.
        why: String,
    },
}

impl From<&TakeIn> for PieceJson {
    fn from(piece: &TakeIn) -> Self {
        Self {
            sight: (&piece.sight).into(),
            file: (&piece.file).into(),
            head: (&piece.head).into(),
            after: piece.after,
            records: piece.records.iter().map(RecordJson::from).collect(),
            last: piece.last,
        }
    }
}

impl PieceJson {
    /// The piece.
    ///
    /// # Errors
    /// What cannot be read, naming the field.
    pub fn read(self) -> Result<TakeIn, String> {
        Ok(TakeIn {
            sight: self.sight.read()?,
            file: self.file.read()?,
            head: self.head.read()?,
            after: self.after,
            records: read_all(self.records)?,
            last: self.last,
        })
    }
}

impl From<&FileRefused> for RefusedJson {
    fn from(refused: &FileRefused) -> Self {
        Self {
            sight: (&refused.sight).into(),
            owner: STANDARD.encode(&refused.owner),
            file: (&refused.file).into(),
            why: refused.why.clone(),
            root: refused.root.clone(),
        }
    }
}

impl RefusedJson {
    /// The file.
    ///
    /// # Errors
    /// What cannot be read, naming the field.
    pub fn read(self) -> Result<FileRefused, String> {
        Ok(FileRefused {
            sight: self.sight.read()?,
            owner: bytes("owner", &self.owner)?,
            file: self.file.read()?,
            why: self.why,
            root: self.root,
        })
    }
}

impl From<&FileState> for FileJson {
    fn from(file: &FileState) -> Self {
        Self { path: STANDARD.encode(&file.path), digest: STANDARD.encode(file.digest), older: file.older }
    }
}

impl FileJson {
    fn read(self) -> Result<FileState, String> {
        let digest = STANDARD.decode(&self.digest).ok().and_then(|digest| digest.try_into().ok());
        Ok(FileState {
            path: bytes("file.path", &self.path)?,
            digest: digest.ok_or("file.digest: no SHA-256 in base64")?,
            older: self.older,
        })
    }
}

impl From<&SessionHead> for HeadJson {
    fn from(head: &SessionHead) -> Self {
        let compaction = head.compaction.as_ref();
        let source = &head.source;
        Self {
            label: head.label.to_string(),
            model: head.model.clone(),
            created: head.created.millis(),
            updated: head.updated.millis(),
            parent: head.parent.clone(),
            compaction: compaction.map(|known| (known.count, known.removed, known.summary.clone())),
            owner: STANDARD.encode(&source.path),
            source_id: source.id.clone(),
            from_name: source.from_name,
            root: source.root.as_ref().map(|root| STANDARD.encode(root)),
            torn_tail: source.torn_tail.as_ref().map(|tail| STANDARD.encode(tail)),
            extra: source.extra.as_ref().map(|json| json.as_str().to_owned()),
        }
    }
}

impl HeadJson {
    fn read(self) -> Result<SessionHead, String> {
        let tail = self.torn_tail.map(|tail| STANDARD.decode(tail).map_err(|_| "head.torn_tail: no base64"));
        Ok(SessionHead {
            label: SessionLabel::new(self.label).map_err(|bad| format!("head.label: {bad}"))?,
            model: self.model,
            created: Timestamp::from_millis(self.created),
            updated: Timestamp::from_millis(self.updated),
            parent: self.parent,
            compaction: self.compaction.map(|(count, removed, summary)| Compaction { count, removed, summary }),
            source: SessionSource {
                path: bytes("head.owner", &self.owner)?,
                id: self.source_id,
                from_name: self.from_name,
                root: self.root.map(|root| bytes("head.root", &root)).transpose()?,
                torn_tail: tail.transpose()?,
                extra: self.extra.map(object).transpose()?,
            },
        })
    }
}

impl From<TookIn> for TookInJson {
    fn from(done: TookIn) -> Self {
        match done {
            TookIn::More { upto } => Self::More { upto },
            TookIn::Whole { session, label, revision } => {
                Self::Whole { session: session.to_string(), label: label.to_string(), revision }
            }
            TookIn::Already { session, label } => {
                Self::Already { session: session.to_string(), label: label.to_string() }
            }
            TookIn::Passed { session, label } => {
                Self::Passed { session: session.to_string(), label: label.to_string() }
            }
            TookIn::Conflict { session, label, why } => {
                Self::Conflict { session: session.to_string(), label: label.to_string(), why }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::content::RawJson;
    use crate::model::record::{RecordBody, SessionRecord, SpeakerRole};
    use crate::model::workspace::WorkspaceSight;

    #[test]
    fn what_is_written_is_read_again() {
        let json = |text: &str| RawJson::trusted(text.to_owned());
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
                extra: Some(json("{\"session_meta\":{\"n\":1e999}}")),
            },
        };
        let message = RecordBody::Message {
            role: SpeakerRole::User,
            blocks: json("[]"),
            usage: Some(json("{}")),
            ends_turn: None,
        };
        let bodies = [message, RecordBody::Prompt("p".to_owned()), RecordBody::Foreign(json("{\"n\":1e999}"))];
        let record = |body| SessionRecord { at: Timestamp::from_millis(3), body, extra: Some(json("{\"x\":1}")) };
        let sight = WorkspaceSight { path: b"/w".to_vec(), witness: None, project: None, also_at: Vec::new() };
        let file = FileState { path: b"/w/f".to_vec(), digest: [3; 32], older: Some(4) };
        let piece = TakeIn {
            sight: sight.clone(),
            file: file.clone(),
            head,
            after: 5,
            records: bodies.into_iter().map(record).collect(),
            last: true,
        };
        let line = serde_json::to_string(&PieceJson::from(&piece)).unwrap();
        assert_eq!(serde_json::from_str::<PieceJson>(&line).unwrap().read(), Ok(piece));
        let refused =
            FileRefused { sight, owner: b"/w/o".to_vec(), file, why: "w".to_owned(), root: Some("/v".to_owned()) };
        let line = serde_json::to_string(&RefusedJson::from(&refused)).unwrap();
        assert_eq!(serde_json::from_str::<RefusedJson>(&line).unwrap().read(), Ok(refused));
    }
}
