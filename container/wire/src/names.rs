//! File names. They are identities, so both sides build and parse them only with this module.

use std::fmt;

/// The half that the host writes.
pub const HOST_DIR: &str = "host";
/// The half that the agent's runner writes.
pub const AGENT_DIR: &str = "agent";
/// In `host/`: the data an incarnation needs, rewritten when it changes.
pub const CONTEXT_FILE: &str = "context.json";
/// In `host/`: one file per message.
pub const IN_DIR: &str = "in";
/// In `host/`: replies to requests of the agent.
pub const REPLY_DIR: &str = "reply";
/// In `agent/`: claims and their ends.
pub const ACK_DIR: &str = "ack";
/// In `agent/`: outgoing messages.
pub const OUT_DIR: &str = "out";
/// In `host/in/` and `agent/out/`: files that belong to a message, in a directory named like it.
pub const FILES_DIR: &str = "files";
/// In `agent/`: the agent's current state.
pub const STATE_FILE: &str = "state.json";
/// In `agent/`: provider continuations.
pub const SESSION_FILE: &str = "session.json";
/// In `agent/`: rewritten by the runner's loop every 5 s.
pub const HEARTBEAT_FILE: &str = "heartbeat";

/// Name of a message file in `host/in/`: the sequence number in 16 digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InName {
    /// Sequence number of the message within its session; even.
    pub seq: u64,
}

impl InName {
    /// `0000000000000004.json` -> 4; anything else is not a message file.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(".json")?;
        (digits.len() == 16).then(|| decimal(digits)).flatten().map(|seq| Self { seq })
    }

    /// Name of the directory under `host/in/files/` that holds the message's attachments.
    #[must_use]
    pub fn files_dir(&self) -> String {
        format!("{:016}", self.seq)
    }
}

impl fmt::Display for InName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016}.json", self.seq)
    }
}

/// Name of a file in `agent/ack/`: `<seq>.<incarnation>.<status>.json`, numbers without leading zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AckName {
    /// Message that is acknowledged.
    pub seq: u64,
    /// Incarnation that speaks.
    pub incarnation: u32,
    /// What happened to the message.
    pub status: crate::AckStatus,
}

impl AckName {
    /// Parses a file name; `None` for every name this type would not print.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(".json")?.split('.');
        let seq = canonical(parts.next()?)?;
        let incarnation = u32::try_from(canonical(parts.next()?)?).ok()?;
        let status = crate::AckStatus::parse(parts.next()?)?;
        parts.next().is_none().then_some(Self { seq, incarnation, status })
    }
}

impl fmt::Display for AckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}.json", self.seq, self.incarnation, self.status.as_str())
    }
}

/// Identity of one outgoing message within its session: 1 to 64 characters of `A-Z a-z 0-9 _ -`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OutId(String);

impl OutId {
    /// Checks the form of an id.
    ///
    /// # Errors
    /// The reason, if the text cannot be an id.
    pub fn new(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if text.is_empty() || text.len() > 64 {
            return Err(format!("an id has 1 to 64 characters, this one has {}", text.len()));
        }
        if !text.bytes().all(plain) {
            return Err("an id has only letters, digits, `_` and `-`".to_owned());
        }
        Ok(Self(text))
    }

    /// Id of a file in `agent/out/`.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        Self::new(name.strip_suffix(".json")?).ok()
    }

    /// File name in `agent/out/`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.json", self.0)
    }

    /// The text of the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for OutId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::new(text)
    }
}

impl From<OutId> for String {
    fn from(id: OutId) -> Self {
        id.0
    }
}

impl fmt::Display for OutId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a name chosen by a platform or an agent can be a file's name inside one directory.
///
/// NanoClaw's rule for safe names (non-empty, not `.` or `..`, no `/`, `\` or NUL); other control characters, names
/// over [`crate::limits::NAME_BYTES`] and our own temporary names are refused besides.
#[must_use]
pub fn is_safe_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= crate::limits::NAME_BYTES
        && name != "."
        && name != ".."
        && !is_temporary(name)
        && !name.chars().any(|c| c == '/' || c == '\\' || c.is_control())
}

/// Name under which a file is written before its rename. Readers skip such names.
#[must_use]
pub fn temporary_name(name: &str, unique: u64) -> String {
    format!(".tmp-{unique:x}-{name}")
}

/// The name that a file gets when its writer has finished it: `answer.json` of `.tmp-7f-answer.json`. Every other name is its
/// own.
#[must_use]
pub fn finished_name(name: &str) -> &str {
    let behind = name.strip_prefix(".tmp-").and_then(|rest| rest.split_once('-'));
    match behind {
        Some((unique, finished)) if !finished.is_empty() && unique.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            finished
        }
        _ => name,
    }
}

/// Whether a file is one that its writer has not finished.
#[must_use]
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(".tmp-")
}

fn canonical(digits: &str) -> Option<u64> {
    let leading_zero = digits.len() > 1 && digits.starts_with('0');
    if leading_zero { None } else { decimal(digits) }
}

fn decimal(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AckStatus;

    #[test]
    fn message_names_round_trip_and_refuse_others() {
        assert_eq!(InName { seq: 4 }.to_string(), "0000000000000004.json");
        assert_eq!(InName::parse("0000000000000004.json"), Some(InName { seq: 4 }));
        for name in ["4.json", "000000000000000x.json", "0000000000000004", "+000000000000004.json", "files", ""] {
            assert_eq!(InName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn ack_names_have_one_spelling() {
        let ack = AckName { seq: 12, incarnation: 3, status: AckStatus::Processing };
        assert_eq!(ack.to_string(), "12.3.processing.json");
        assert_eq!(AckName::parse("12.3.processing.json"), Some(ack));
        for name in ["012.3.processing.json", "12.3.done.json", "12.3.4.processing.json", "12.processing.json", ".json"]
        {
            assert_eq!(AckName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn safe_names_follow_the_table() {
        for name in ["baby-duck.png", "file with spaces.pdf", "report.v2.docx", ".hidden", "ö.txt"] {
            assert!(is_safe_file_name(name), "{name}");
        }
        let long = "x".repeat(201);
        for name in [
            "",
            ".",
            "..",
            "../evil.png",
            "/etc/passwd",
            "nested/file.txt",
            "windows\\path.exe",
            "clean\0.png",
            "a/b",
            "./thing",
            "a\nb",
            ".tmp-1-x",
            &long,
        ] {
            assert!(!is_safe_file_name(name), "{name:?}");
        }
    }

    #[test]
    fn out_ids_cannot_leave_their_directory() {
        assert!(OutId::new("a1B_-").is_ok());
        for id in ["", "a/b", "..", "a.b", "é", &"x".repeat(65)] {
            assert!(OutId::new(id).is_err(), "{id}");
        }
    }
}
