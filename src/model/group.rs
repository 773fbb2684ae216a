//! State of the files in an agent group's folder that are a contract with other programs: the fields of its session
//! state. The skips that its skills report are in `skip`.

use serde::{Deserialize, Serialize};

use super::content::{BlobId, RawJson};
use super::id::SkipId;
use super::skip::SkipLook;
use super::time::Timestamp;

/// Tracking data for an agent group's session-state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    /// Digest of the bytes last read or written. A different digest means that another program wrote the file.
    pub digest: Option<BlobId>,
    /// Digest of the bytes of an unconfirmed write by Hearth. A file with this digest was written by Hearth, which died
    /// before it could record the write.
    pub writing: Option<BlobId>,
    /// When it was last read or written.
    pub looked: Timestamp,
    /// Whether it has to be written, because it differs from the stored fields.
    pub dirty: bool,
    /// Why Hearth does not touch the file, if so.
    pub trouble: Option<StateTrouble>,
    /// Names of the copies of unreadable files, the newest last. A person removes them.
    pub quarantined: Vec<String>,
    /// Last position assigned to a field or an id.
    pub last_position: u64,
}

/// Why Hearth does not touch a session-state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateTrouble {
    /// Its schema is newer than the one Hearth knows.
    Newer(String),
    /// Its schema is older than the one Hearth knows, or missing. Its owner, the program that registers sessions,
    /// upgrades it on its next run.
    Older,
    /// It is not a JSON object. Its bytes were quarantined under the last name, and there was no state to replace it
    /// with.
    Unreadable(String),
    /// Its lock could not be acquired in time.
    Locked,
    /// It cannot be read or written: why.
    Unusable(String),
}

/// Which object of a session-state file a field belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StatePart {
    /// The file's top-level fields, including unknown ones.
    Top,
    /// `sessions`, by name.
    Sessions,
    /// `muted_threads`, by thread.
    Muted,
}

/// Maximum number of fields in a session-state file, including those of its objects. All of them may change in one
/// transaction.
pub const STATE_FIELDS_MAX: usize = 1_000;

/// A name in a session-state file, exactly as it appears between the quotes: printable ASCII, everything else as `\u`
/// and four lowercase hexadecimal digits. This also represents names with an unpaired surrogate, which no Rust string
/// can hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FieldName(String);

impl FieldName {
    /// Escapes a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(ascii(text))
    }

    /// Wraps a name that is already escaped.
    #[must_use]
    pub const fn escaped(text: String) -> Self {
        Self(text)
    }

    /// The escaped name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Escapes a text for an ASCII JSON string, without the quotes.
#[must_use]
pub fn ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    text.encode_utf16().for_each(|unit| push_unit(&mut escaped, unit));
    escaped
}

/// Appends a UTF-16 code unit, escaped for an ASCII JSON string. Accepts unpaired surrogates.
fn push_unit(escaped: &mut String, unit: u16) {
    match u8::try_from(unit).map(char::from) {
        Ok('"') => escaped.push_str("\\\""),
        Ok('\\') => escaped.push_str("\\\\"),
        Ok('\n') => escaped.push_str("\\n"),
        Ok('\r') => escaped.push_str("\\r"),
        Ok('\t') => escaped.push_str("\\t"),
        Ok('\u{8}') => escaped.push_str("\\b"),
        Ok('\u{c}') => escaped.push_str("\\f"),
        Ok(plain @ ' '..='~') => escaped.push(plain),
        _ => escaped.push_str(&format!("\\u{unit:04x}")),
    }
}

/// One field of an agent group's session state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateField {
    /// Its name, complete.
    pub name: FieldName,
    /// Its value; none if it was removed and the file may still have it.
    pub value: Option<RawJson>,
    /// Expected content of the file, unless another program wrote it since Hearth last read or wrote it. Two values
    /// while a write by Hearth is unconfirmed. None means a file without this field.
    pub known: Vec<Option<RawJson>>,
    /// Its position among the fields.
    pub position: u64,
    /// When it last changed.
    pub changed: Timestamp,
}

impl StateField {
    /// Whether it mutes, as an entry of `muted_threads`: every value does, except `false` and `null`.
    #[must_use]
    pub fn mutes(&self) -> bool {
        self.value.as_ref().is_some_and(|value| !matches!(value.as_str().trim(), "false" | "null"))
    }
}

/// An id that a skill has already seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenId {
    /// The complete id as it is in the file: usually a quoted string.
    pub id: String,
    /// Its position: ids are kept in order of arrival.
    pub position: u64,
    /// When it was first seen. Later sightings do not change this.
    pub first: Timestamp,
}

/// A message that an agent group has begun to answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingResponse {
    /// Complete id of the message; the whole entry if it has none.
    pub message: String,
    /// The entry as it is in the file.
    pub value: RawJson,
    /// Its position among the others.
    pub position: u64,
    /// Start of the wait: the entry's time unless it is in the future, otherwise when Hearth first saw it.
    pub since: Timestamp,
    /// When it counts as stale, or is forgotten.
    pub due: Timestamp,
    /// Whether it still waits. A finished one is kept for a while: if the same entry reappears in the file word for
    /// word, its writer did not know that it is finished.
    pub state: PendingState,
}

/// State of a message that an agent group has begun to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingState {
    /// It waits.
    Waiting,
    /// The program that began it cleared it.
    Cleared,
    /// Hearth knows that it was answered.
    Answered,
    /// It went stale, and its agent or its chat was told.
    Told,
    /// Discarded: it went stale without a session to tell, or too many others were waiting.
    GivenUp,
}

/// Changes to an agent group's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupInput {
    /// The session-state file was read under its lock, which the caller still holds.
    StateRead(StateRead),
    /// The file was written. This is the digest of its bytes.
    StateWritten(BlobId),
    /// The file cannot be read, written or locked now.
    StateTrouble(StateTrouble),
    /// These copies of unreadable files were removed, so a person has seen them.
    CopiesGone(Vec<String>),
    /// New ids in the file, as JSON: a part of them if there are more than fit with the fields.
    StateSeen(Vec<String>),
    /// A scan for skip summaries finished.
    Skips(SkipLook),
    /// The file of a skip was removed, as Hearth wanted.
    SkipGone(SkipId),
}

/// A session-state file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRead {
    /// Digest of its bytes; none if there is no file.
    pub digest: Option<BlobId>,
    /// The file as it was read.
    pub content: StateContent,
}

/// Content of a session-state file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateContent {
    /// Unchanged since it was last read or written.
    Same,
    /// There is none.
    Absent,
    /// These fields.
    Fields(StateDocument),
    /// Unreadable: why, and the name of the copy that was made of it.
    Unreadable(String, String),
    /// Something that Hearth must not touch.
    Refused(StateTrouble),
}

/// The fields of a session-state file of the version that Hearth knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateDocument {
    /// In order. Fields of `sessions` and `muted_threads` follow the field that contains them, whose value is then
    /// `{}`.
    pub fields: Vec<DocumentField>,
    /// Ids in `seen_email_ids` that the store does not have yet, in order; a part of them if there are many.
    pub new_ids: Vec<String>,
    /// Number of distinct ids in `seen_email_ids`.
    pub ids: u64,
    /// The message that the agent group has begun to answer.
    pub pending: Option<DocumentPending>,
}

/// One field of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentField {
    /// Which object it is in.
    pub part: StatePart,
    /// Name of the field in the file.
    pub name: FieldName,
    /// JSON of the field.
    pub value: RawJson,
}

/// `pending_response` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentPending {
    /// Id of the message; the whole entry if it names none.
    pub message: String,
    /// JSON of the entry.
    pub value: RawJson,
    /// The entry's own time, if it has one in UTC.
    pub reacted: Option<Timestamp>,
}

/// New content for a session-state file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateExport {
    /// All of it.
    pub text: String,
    /// Digest of the exported bytes.
    pub digest: BlobId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_in_ascii() {
        for (text, escaped) in [
            ("plain", "plain"),
            ("", ""),
            ("a\"b\\c/", "a\\\"b\\\\c/"),
            ("\n\r\t\u{8}\u{c}\u{1}\u{7f}", "\\n\\r\\t\\b\\f\\u0001\\u007f"),
            ("é🦞", "\\u00e9\\ud83e\\udd9e"),
        ] {
            assert_eq!(FieldName::of(text).as_str(), escaped);
        }
    }
}
