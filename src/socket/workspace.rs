//! What is wanted of workspaces and their sessions, as a line of the socket. Paths are base64: they need not be text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::take_in::{PieceJson, RefusedJson, TookInJson};
use crate::model::workspace::{
    AdoptFrom, Witness, WorkspaceInput, WorkspaceReply, WorkspaceSight, key_text, parse_key,
};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum WorkspaceRequest {
    /// Make a directory be a known workspace.
    Adopt {
        /// The directory.
        sight: SightJson,
        /// The key of the workspace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Its path, in base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// Take a piece of a session in from a file.
    TakeIn(Box<PieceJson>),
    /// Take down that a file was not taken in.
    Refuse(Box<RefusedJson>),
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub enum WorkspaceDone {
    /// The directory is that workspace.
    Adopted {
        /// Its key.
        key: String,
        /// Whether it was not before.
        changed: bool,
    },
    /// A piece was taken in, or not.
    TookIn(TookInJson),
    /// It is taken down.
    Noted,
}

/// A directory as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SightJson {
    path: String,
    witness: Option<WitnessJson>,
    project: Option<String>,
    #[serde(default)]
    also_at: Vec<String>,
}

/// What it looks like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct WitnessJson {
    place: String,
    device: u64,
    inode: u64,
    born: Option<i64>,
}

impl WorkspaceRequest {
    /// The same for the engine.
    ///
    /// # Errors
    /// What cannot be read, naming the field.
    pub fn input(self) -> Result<WorkspaceInput, String> {
        Ok(match self {
            Self::Adopt { sight, key, path } => {
                let from = match (key, path) {
                    (None, None) => AdoptFrom::Found,
                    (Some(key), None) => AdoptFrom::Key(
                        parse_key(&key).ok_or_else(|| format!("key: `{key}` is not the key of a workspace"))?,
                    ),
                    (None, Some(path)) => AdoptFrom::Path(bytes("path", &path)?),
                    (Some(_), Some(_)) => return Err("path: a key was given as well".to_owned()),
                };
                WorkspaceInput::Adopt(sight.read()?, from)
            }
            Self::TakeIn(piece) => WorkspaceInput::TakeIn(Box::new(piece.read()?)),
            Self::Refuse(refused) => WorkspaceInput::Refuse(Box::new(refused.read()?)),
        })
    }

    /// What asks for an adoption.
    #[must_use]
    pub fn adopt(sight: &WorkspaceSight, from: &AdoptFrom) -> Self {
        let (key, path) = match from {
            AdoptFrom::Found => (None, None),
            AdoptFrom::Key(key) => (Some(key_text(*key)), None),
            AdoptFrom::Path(path) => (None, Some(STANDARD.encode(path))),
        };
        Self::Adopt { sight: sight.into(), key, path }
    }
}

impl From<WorkspaceReply> for WorkspaceDone {
    fn from(reply: WorkspaceReply) -> Self {
        match reply {
            WorkspaceReply::Adopted { key, changed } => Self::Adopted { key: key_text(key), changed },
            WorkspaceReply::TookIn(done) => Self::TookIn(done.into()),
            WorkspaceReply::Noted => Self::Noted,
        }
    }
}

impl From<&WorkspaceSight> for SightJson {
    fn from(sight: &WorkspaceSight) -> Self {
        let witness = sight.witness.as_ref().map(|witness| WitnessJson {
            place: witness.place.clone(),
            device: witness.device,
            inode: witness.inode,
            born: witness.born,
        });
        Self {
            path: STANDARD.encode(&sight.path),
            witness,
            project: sight.project.as_ref().map(|path| STANDARD.encode(path)),
            also_at: sight.also_at.iter().map(|path| STANDARD.encode(path)).collect(),
        }
    }
}

impl SightJson {
    /// The directory.
    ///
    /// # Errors
    /// What cannot be read, naming the field.
    pub fn read(self) -> Result<WorkspaceSight, String> {
        let witness = |found: WitnessJson| {
            let WitnessJson { place, device, inode, born } = found;
            Witness { place, device, inode, born }
        };
        Ok(WorkspaceSight {
            path: bytes("sight.path", &self.path)?,
            witness: self.witness.map(witness),
            project: self.project.map(|path| bytes("sight.project", &path)).transpose()?,
            also_at: self.also_at.iter().map(|path| bytes("sight.also_at", path)).collect::<Result<_, _>>()?,
        })
    }
}

pub(super) fn bytes(field: &str, text: &str) -> Result<Vec<u8>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| format!("{field}: no base64: {error}"))?;
    if bytes.is_empty() || bytes.contains(&0) { Err(format!("{field}: no path")) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let sight = WorkspaceSight {
            path: b"/tmp/\xff\n".to_vec(),
            witness: Some(Witness { place: "m/host".to_owned(), device: 1, inode: 2, born: Some(-3) }),
            project: Some(b"/tmp".to_vec()),
            also_at: vec![b"/mnt".to_vec()],
        };
        let key = parse_key("00000000000000ff~3").unwrap();
        for from in [AdoptFrom::Found, AdoptFrom::Key(key), AdoptFrom::Path(b"/\xfe".to_vec())] {
            let line = serde_json::to_string(&WorkspaceRequest::adopt(&sight, &from)).unwrap();
            let read: WorkspaceRequest = serde_json::from_str(&line).unwrap();
            assert_eq!(read.input(), Ok(WorkspaceInput::Adopt(sight.clone(), from)), "{line}");
        }
    }

    #[test]
    fn nonsense_says_which_field_is_wrong() {
        let read = |text: &str| serde_json::from_str::<WorkspaceRequest>(text).unwrap().input().unwrap_err();
        let sight = r#""sight":{"path":"L2E=","witness":null,"project":null}"#;
        for (rest, field) in [
            (format!(r#"{sight},"key":"ff""#), "key: "),
            (format!(r#"{sight},"path":"!""#), "path: "),
            (format!(r#"{sight},"path":"AA==""#), "path: "),
            (format!(r#"{sight},"path":"L2E=","key":"00000000000000ff""#), "path: "),
            (r#""sight":{"path":"","witness":null,"project":null}"#.to_owned(), "sight.path: "),
            (r#""sight":{"path":"L2E=","witness":null,"project":"x"}"#.to_owned(), "sight.project: "),
        ] {
            let line = format!(r#"{{"action":"adopt",{rest}}}"#);
            assert!(read(&line).starts_with(field), "{line}: {}", read(&line));
        }
    }
}
