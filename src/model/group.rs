//! What lies in an agent group's folder as files of a contract with programs inside and outside: the fields of its
//! session state. The skips that its skills report are in `skip`.

use serde::{Deserialize, Serialize};

use super::content::{BlobId, RawJson};
use super::id::SkipId;
use super::skip::SkipLook;
use super::time::Timestamp;

/// What is known of an agent group's session-state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    /// Digest of the bytes that were last read or written; another digest means that somebody else wrote.
    pub digest: Option<BlobId>,
    /// Digest of the bytes that Hearth was about to write when it last heard of the file: a file that has it was written
    /// by Hearth, which died before it could say so.
    pub writing: Option<BlobId>,
    /// When it was last read or written.
    pub looked: Timestamp,
    /// Whether it has to be written: what it says is not what the fields say.
    pub dirty: bool,
    /// Why it is left alone, if it is.
    pub trouble: Option<StateTrouble>,
    /// Copies of files that nobody could read, by name, the newest last, until somebody removes them.
    pub quarantined: Vec<String>,
    /// Last position given to a field or an id.
    pub last_position: u64,
}

/// Why a session-state file is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateTrouble {
    /// Its schema is newer than what Hearth knows.
    Newer(String),
    /// Its schema is older than what Hearth knows, or it names none: its owner, the program that registers sessions,
    /// brings it up to date when it next runs.
    Older,
    /// It is no JSON object; its bytes were kept under the last name in quarantine, and there was nothing to replace it
    /// with.
    Unreadable(String),
    /// Its lock was not to be had in time.
    Locked,
    /// It cannot be read or written: why.
    Unusable(String),
}

/// Which object of a session-state file a field belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StatePart {
    /// The file's own fields, those that nobody knows among them.
    Top,
    /// `sessions`, by name.
    Sessions,
    /// `muted_threads`, by thread.
    Muted,
}

/// Fields of a session-state file that is read, those of its objects among them: all of them may change in one transaction.
pub const STATE_FIELDS_MAX: usize = 1_000;

/// A name in a session-state file, as it stands there between the quotes: plain ASCII, everything else as `\u` and four
/// hexadecimal digits, the letters small. So a name with half of a surrogate pair, which no text has, is a name like any other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FieldName(String);

impl FieldName {
    /// The name of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(ascii(text))
    }

    /// A name that is written like this already.
    #[must_use]
    pub const fn escaped(text: String) -> Self {
        Self(text)
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text as it stands in an ASCII JSON file between the quotes.
#[must_use]
pub fn ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    text.encode_utf16().for_each(|unit| push_unit(&mut escaped, unit));
    escaped
}

/// Appends a unit of UTF-16 as an ASCII JSON file has it, halves of surrogate pairs too.
pub fn push_unit(escaped: &mut String, unit: u16) {
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
    /// Its value; none if it was removed and the file may have it still.
    pub value: Option<RawJson>,
    /// What the file has if nobody else wrote since Hearth last read or wrote it: one value, or two while it is not known
    /// whether it was written. None is a file without this field.
    pub known: Vec<Option<RawJson>>,
    /// Where it stands among the fields.
    pub position: u64,
    /// When it last changed.
    pub changed: Timestamp,
}

impl StateField {
    /// Whether it mutes, as an entry of `muted_threads`: every value does but `false` and `null`, which somebody wrote to
    /// say the opposite.
    #[must_use]
    pub fn mutes(&self) -> bool {
        self.value.as_ref().is_some_and(|value| !matches!(value.as_str().trim(), "false" | "null"))
    }
}

/// An id that a skill has seen already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenId {
    /// The id, complete, as it is in the file: mostly a text in quotes.
    pub id: String,
    /// Where it stands among the others: the order in which they came.
    pub position: u64,
    /// When it was first seen; seeing it again does not count.
    pub first: Timestamp,
}

/// A message that somebody has begun to answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingResponse {
    /// Id of the message, complete; the whole entry if it names none.
    pub message: String,
    /// The entry as it is in the file.
    pub value: RawJson,
    /// Where it stands among the others.
    pub position: u64,
    /// Since when it waits: as the entry says, but never in the future, else when Hearth first saw it.
    pub since: Timestamp,
    /// When something has to be done about it.
    pub due: Timestamp,
    /// Whether it waits still. One that is over is kept for a while: a file that has it again word for word was written
    /// by somebody who did not know.
    pub state: PendingState,
}

/// What became of a message that somebody has begun to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingState {
    /// It waits.
    Waiting,
    /// It was cleared by who began it.
    Cleared,
    /// It was answered, as Hearth knows.
    Answered,
    /// Nobody went on with it: its agent, or its chat, was told.
    Told,
    /// Nobody went on with it, and there was nobody to tell.
    GivenUp,
}

/// What happens to an agent group's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupInput {
    /// Somebody holds the lock of the session-state file and has read it.
    StateRead(StateRead),
    /// The file was written, and these are its bytes now.
    StateWritten(BlobId),
    /// The file cannot be read, written or locked now.
    StateTrouble(StateTrouble),
    /// Copies of files that nobody could read are not there any more: whoever needed them has seen them.
    CopiesGone(Vec<String>),
    /// Ids, as JSON, that are in the file and new: a part of them, if there are more than go with its fields.
    StateSeen(Vec<String>),
    /// Somebody looked for skip summaries.
    Skips(SkipLook),
    /// The file of a skip, which had to go, is gone.
    SkipGone(SkipId),
}

/// A session-state file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRead {
    /// Digest of its bytes; none if there is no file.
    pub digest: Option<BlobId>,
    /// What it says.
    pub content: StateContent,
}

/// What a session-state file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateContent {
    /// The same as when it was last read or written.
    Same,
    /// There is none.
    Absent,
    /// These fields.
    Fields(StateDocument),
    /// Nothing that can be read: why, and the name of the copy that was made of it.
    Unreadable(String, String),
    /// Something that Hearth must not touch.
    Refused(StateTrouble),
}

/// The fields of a session-state file of the version that Hearth knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateDocument {
    /// In order; the fields of `sessions` and `muted_threads` come after the field that they are in, which then is `{}`.
    pub fields: Vec<DocumentField>,
    /// What is in `seen_email_ids` that the store does not have yet, in order, a part of it if there is much.
    pub new_ids: Vec<String>,
    /// How many different ids are in `seen_email_ids`.
    pub ids: u64,
    /// The message that somebody has begun to answer.
    pub pending: Option<DocumentPending>,
}

/// One field of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentField {
    /// Which object it is in.
    pub part: StatePart,
    /// Its name.
    pub name: FieldName,
    /// Its value.
    pub value: RawJson,
}

/// `pending_response` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentPending {
    /// Id of the message; the whole entry if it names none.
    pub message: String,
    /// The entry.
    pub value: RawJson,
    /// When it was written, as it says, if it says so in UTC.
    pub reacted: Option<Timestamp>,
}

/// What is to be written into a session-state file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateExport {
    /// All of it.
    pub text: String,
    /// Its digest.
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
