//! `session-state.json`: read and changed under its lock.
//!
//! The file is shared with programs that use the lock and with agents that do not. Unknown content is preserved:
//! members of other writers stay unchanged, invalid JSON is copied before it is replaced, and a file of a later version
//! is not touched.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::files::{self, Lock, LockError, system};
use super::json::{self, BadJson, Json, Object, Text};
use crate::clock;

/// The version of written files.
pub(crate) const SCHEMA_VERSION: i64 = 1;

/// Path of the file and of its lock.
#[derive(Debug, Clone)]
pub(crate) struct StateFile {
    pub(crate) path: PathBuf,
    /// Its lock, which every writer takes.
    pub(crate) lock: PathBuf,
    /// Timeout of the lock.
    pub(crate) wait: Duration,
}

/// Why the file was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    /// The lock cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// It cannot be read.
    #[error("state file read failed at {}: {}", path.display(), system(source, path))]
    Read { path: PathBuf, source: io::Error },
    /// Nested too deeply to check.
    #[error("state file at {} has more than {} levels of nesting; left as it is", path.display(), json::DEPTH_MAX)]
    TooDeep { path: PathBuf },
    /// Written by a later version.
    #[error(
        "state file at {} has schema_version {found}, above this program's {SCHEMA_VERSION}; left as it is, use a newer program",
        path.display()
    )]
    Future { path: PathBuf, found: String },
    /// Invalid content, which only registration repairs.
    #[error("state file at {} {why}; left as it is, `hearth-runner register-session` keeps a copy and begins anew", path.display())]
    Broken {
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The content to be replaced cannot be copied.
    #[error("cannot keep a copy of {}, which would be replaced: {}", path.display(), system(source, copy))]
    Keep {
        path: PathBuf,
        /// Where the copy would be.
        copy: PathBuf,
        source: io::Error,
    },
    /// It cannot be written.
    #[error("failed to write {}: {}", path.display(), system(source, path))]
    Write { path: PathBuf, source: io::Error },
    /// The change does not fit the current content.
    #[error("{0}")]
    Refused(String),
}

/// A repair made during registration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Mended {
    /// The file was not JSON.
    #[error("state file malformed at {}: {detail}; starting fresh", path.display())]
    Malformed {
        path: PathBuf,
        /// The parser's error.
        detail: String,
    },
    /// The file was JSON, but not an object.
    #[error("state file at {} contained non-object JSON (type {kind}); starting fresh", path.display())]
    NotObject {
        path: PathBuf,
        /// The type of the value.
        kind: &'static str,
    },
    /// The member `sessions` was not an object.
    #[error("state.sessions was not an object (type {kind}); resetting")]
    Sessions {
        /// The type of the value.
        kind: &'static str,
    },
    /// The former content was copied.
    #[error("kept what was there as {}", copy.display())]
    Kept { copy: PathBuf },
}

/// Whether a changed state is written.
#[derive(Debug)]
pub(crate) enum Edit<T> {
    /// It is written.
    Write(T),
    /// Nothing changed, so it is not touched.
    Keep(T),
}

/// What exists at the path.
enum FileState {
    Absent,
    Object(Object),
    Malformed(String),
    NotObject(Json),
}

impl StateFile {
    /// The file at this path, with its lock beside it.
    pub(crate) fn at(path: PathBuf, wait: Duration) -> Self {
        let lock = files::lock_beside(&path);
        Self { path, lock, wait }
    }

    /// Changes the state with `edit` under the lock, and writes it. A missing file counts as empty. A state without a
    /// version gets the current one, as in registration.
    ///
    /// # Errors
    /// If nothing was changed: the file is invalid or of a later version, or `edit` failed. In each case the file is
    /// left as it is.
    pub(crate) fn change<T>(&self, edit: impl FnOnce(&mut Object) -> Result<Edit<T>, String>) -> Result<T, StateError> {
        let _lock = Lock::take(&self.lock, self.wait)?;
        let mut state = self.known()?.unwrap_or_default();
        match edit(&mut state).map_err(StateError::Refused)? {
            Edit::Keep(result) => Ok(result),
            Edit::Write(result) => {
                state.set("schema_version", Json::integer(SCHEMA_VERSION));
                self.write(state)?;
                Ok(result)
            }
        }
    }

    /// The current state, read without the lock: the file is only replaced as a whole.
    ///
    /// # Errors
    /// If the file is invalid.
    pub(crate) fn known(&self) -> Result<Option<Object>, StateError> {
        let broken = |why: String| StateError::Broken { path: self.path.clone(), why };
        match self.find()?.0 {
            FileState::Absent => Ok(None),
            FileState::Object(state) => {
                self.refuse_future(&state)?;
                Ok(Some(state))
            }
            FileState::Malformed(detail) => Err(broken(format!("is malformed: {detail}"))),
            FileState::NotObject(value) => Err(broken(format!("is not an object (type {})", json::kind(&value)))),
        }
    }

    /// Records a session under its name. Invalid content is repaired after a copy of it was made, unless the file is of
    /// a later version.
    ///
    /// # Errors
    /// If nothing was changed.
    pub(crate) fn register(&self, name: Text, session: Json, session_id: Json) -> Result<Vec<Mended>, StateError> {
        let _lock = Lock::take(&self.lock, self.wait)?;
        files::sweep(&self.path);
        let mut mended = Vec::new();
        let path = self.path.clone();
        let (found, bytes) = self.find()?;
        let mut state = match found {
            FileState::Absent => Object::default(),
            FileState::Object(state) => state,
            FileState::Malformed(detail) => {
                mended.push(Mended::Malformed { path, detail });
                Object::default()
            }
            FileState::NotObject(value) => {
                mended.push(Mended::NotObject { path, kind: json::kind(&value) });
                Object::default()
            }
        };
        self.refuse_future(&state)?;
        let (sessions, was) = state.object_mut("sessions");
        mended.extend(was.map(|was| Mended::Sessions { kind: json::kind(&was) }));
        if let Some(sessions) = sessions {
            sessions.set(name, session);
        }
        state.set("session_id", session_id);
        state.set("schema_version", Json::integer(SCHEMA_VERSION));
        if !mended.is_empty() && !bytes.is_empty() {
            mended.push(Mended::Kept { copy: self.keep(&bytes)? });
        }
        self.write(state)?;
        Ok(mended)
    }

    fn find(&self) -> Result<(FileState, Vec<u8>), StateError> {
        let read = files::read(&self.path).map_err(|source| StateError::Read { path: self.path.clone(), source })?;
        let Some(bytes) = read else { return Ok((FileState::Absent, Vec::new())) };
        let found = match std::str::from_utf8(&bytes) {
            Err(error) => FileState::Malformed(format!("not UTF-8 at byte {}", error.valid_up_to())),
            Ok(text) => match json::parse(text) {
                Ok(Json::Object(state)) => FileState::Object(state),
                Ok(other) => FileState::NotObject(other),
                Err(BadJson::TooDeep) => return Err(StateError::TooDeep { path: self.path.clone() }),
                Err(malformed) => FileState::Malformed(malformed.to_string()),
            },
        };
        Ok((found, bytes))
    }

    fn refuse_future(&self, state: &Object) -> Result<(), StateError> {
        match state.get("schema_version") {
            Some(version @ Json::Number(number)) if number.exceeds(SCHEMA_VERSION) => {
                Err(StateError::Future { path: self.path.clone(), found: json::line(version) })
            }
            _ => Ok(()),
        }
    }

    fn write(&self, state: Object) -> Result<(), StateError> {
        let text = json::pretty(&Json::Object(state));
        let failed = |source| StateError::Write { path: self.path.clone(), source };
        files::write(&self.path, text.as_bytes()).map_err(failed)
    }

    /// Copies content that will be replaced to `<file>.corrupt-<time>`, with a number appended if that exists.
    fn keep(&self, bytes: &[u8]) -> Result<PathBuf, StateError> {
        let time = clock::now_iso().split('.').next().unwrap_or_default().replace([':', '-'], "");
        let mut number = 1;
        loop {
            let copy = beside(
                &self.path,
                &match number {
                    1 => format!(".corrupt-{time}Z"),
                    _ => format!(".corrupt-{time}Z-{number}"),
                },
            );
            match files::create(&copy, bytes) {
                Ok(()) => return Ok(copy),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(source) => return Err(StateError::Keep { path: self.path.clone(), copy, source }),
            }
        }
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn state(content: &str) -> (tempfile::TempDir, StateFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session-state.json");
        fs::write(&path, content).unwrap();
        (dir, StateFile::at(path, Duration::from_secs(5)))
    }

    fn set(state: &mut Object) -> Result<Edit<()>, String> {
        state.set("new", Json::Null);
        Ok(Edit::Write(()))
    }

    #[test]
    fn a_change_keeps_what_it_does_not_concern() {
        let (_dir, file) = state(r#"{"z": 1e5, "a": {"b": "\ud800", "c": NaN}, "schema_version": 1}"#);
        file.change(set).unwrap();
        let text = fs::read_to_string(&file.path).unwrap();
        let wanted = "{\n  \"z\": 1e5,\n  \"a\": {\n    \"b\": \"\\ud800\",\n    \"c\": NaN\n  },\n  \"schema_version\": 1,\n  \"new\": null\n}";
        assert_eq!(text, wanted);
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for (content, words) in [
            ("{\"schema_version\": 2}", "has schema_version 2, above"),
            ("{\"schema_version\": 99999999999999999999}", "has schema_version 99999999999999999999, above"),
            ("", "is malformed: Expecting value"),
            ("[]", "is not an object (type list)"),
            (&"[".repeat(2000), "levels of nesting"),
        ] {
            let (_dir, file) = state(content);
            let said = file.change(set).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
            assert_eq!(fs::read_to_string(&file.path).unwrap(), content);
        }
    }

    #[test]
    fn an_edit_that_changes_nothing_does_not_touch_the_file() {
        let (_dir, file) = state("{ }");
        file.change(|_| Ok(Edit::Keep(()))).unwrap();
        file.change(|state| set(state).and(Err::<Edit<()>, _>("no".to_owned()))).unwrap_err();
        assert_eq!(fs::read_to_string(&file.path).unwrap(), "{ }");
    }

    #[test]
    fn no_file_begins_with_nothing_and_an_old_one_gets_its_version() {
        for content in [None, Some("{}"), Some("{\"schema_version\": 0}"), Some("{\"schema_version\": \"1\"}")] {
            let (_dir, file) = state(content.unwrap_or_default());
            if content.is_none() {
                fs::remove_file(&file.path).unwrap();
            }
            file.change(set).unwrap();
            assert_eq!(file.known().unwrap().unwrap().get("schema_version"), Some(&Json::integer(1)));
        }
    }
}
