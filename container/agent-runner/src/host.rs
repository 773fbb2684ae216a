//! The host's half of the session directory, read-only.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use hearth_wire::{
    CONTEXT_FILE, Context, HOST_DIR, IN_DIR, InMessage, InName, OutId, REPLY_DIR, RULES_VERSION, Reply, WIRE_VERSION,
    limits,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::read_error::ReadError;
use crate::stop::Error;

#[derive(Deserialize)]
struct Versioned {
    v: u64,
}

/// Reads one JSON file of the contract. Its version is checked first.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ReadError> {
    read_up_to(WIRE_VERSION, path)
}

/// Reads one JSON file of at most a version.
fn read_up_to<T: DeserializeOwned>(known: u32, path: &Path) -> Result<T, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let invalid = |error: serde_json::Error| ReadError::Invalid { path: path.to_owned(), reason: error.to_string() };
    let mut bytes = Vec::new();
    File::open(path).map_err(io)?.take(limits::JSON_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > limits::JSON_BYTES {
        return Err(ReadError::TooLarge { path: path.to_owned(), limit: limits::JSON_BYTES });
    }
    let found = serde_json::from_slice::<Versioned>(&bytes).map_err(invalid)?.v;
    if found > u64::from(known) {
        return Err(ReadError::TooNew { path: path.to_owned(), found, known });
    }
    serde_json::from_slice(&bytes).map_err(invalid)
}

/// `host/` of a session.
#[derive(Debug, Clone)]
pub(crate) struct HostHalf {
    dir: PathBuf,
}

impl HostHalf {
    pub(crate) fn new(session: &Path) -> Self {
        Self { dir: session.join(HOST_DIR) }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn in_dir(&self) -> PathBuf {
        self.dir.join(IN_DIR)
    }

    pub(crate) fn context_path(&self) -> PathBuf {
        self.dir.join(CONTEXT_FILE)
    }

    pub(crate) fn context(&self) -> Result<Context, ReadError> {
        read_up_to(RULES_VERSION, &self.context_path())
    }

    /// `reply/`, if the host has created it.
    pub(crate) fn reply_dir(&self) -> PathBuf {
        self.dir.join(REPLY_DIR)
    }

    /// The answer to a request, if there is one.
    pub(crate) fn reply(&self, request: &OutId) -> Result<Option<Reply>, ReadError> {
        let path = self.reply_dir().join(request.file_name());
        match read_json::<Reply>(&path) {
            Ok(reply) if reply.request_id == *request => Ok(Some(reply)),
            Ok(reply) => {
                let reason = format!("it answers {}, its name says {request}", reply.request_id);
                Err(ReadError::Invalid { path, reason })
            }
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sequence numbers of the existing messages, in order.
    pub(crate) fn list(&self) -> Result<Vec<u64>, Error> {
        let path = self.in_dir();
        let mut seqs: Vec<u64> = file_names(&path)
            .map_err(|source| Error::Directory { path, source })?
            .iter()
            .filter_map(|name| InName::parse(name))
            .map(|name| name.seq)
            .collect();
        seqs.sort_unstable();
        Ok(seqs)
    }

    pub(crate) fn message(&self, seq: u64) -> Result<InMessage, ReadError> {
        let path = self.in_dir().join(InName { seq }.to_string());
        let message: InMessage = read_json(&path)?;
        if message.seq != seq {
            let reason = format!("its seq is {}, its name says {seq}", message.seq);
            return Err(ReadError::Invalid { path, reason });
        }
        if !message.content.is_object() {
            return Err(ReadError::Invalid { path, reason: "its content is not an object".to_owned() });
        }
        Ok(message)
    }
}

/// The names in a directory. Names that are not Unicode cannot be part of the contract and are skipped.
pub(crate) fn file_names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        if let Ok(name) = entry?.file_name().into_string() {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Versionless, ReadError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        std::fs::write(&path, text).unwrap();
        read_json(&path)
    }

    #[derive(Debug, Deserialize)]
    struct Versionless {
        name: String,
    }

    #[test]
    fn a_newer_version_is_refused_before_its_fields_are_read() {
        assert!(matches!(read(br#"{"v":2,"what":1}"#), Err(ReadError::TooNew { found: 2, .. })));
        assert!(matches!(read(br#"{"v":1,"what":1}"#), Err(ReadError::Invalid { .. })));
        assert_eq!(read(br#"{"v":1,"name":"a"}"#).unwrap().name, "a");
    }

    #[test]
    fn size_is_bounded_and_absence_is_told_from_damage() {
        let big = vec![b' '; usize::try_from(limits::JSON_BYTES).unwrap() + 1];
        assert!(read(&big).unwrap_err().is_final());
        let gone = read_json::<Versionless>(Path::new("/nonexistent/x.json")).unwrap_err();
        assert!(gone.is_gone() && !gone.is_final());
    }
}
