//! Reads the session id from the database of NanoClaw, whose file formats these commands use. Read-only.

use std::path::Path;
use std::time::Duration;

use rusqlite::ffi::ErrorCode;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::json::Json;

/// Timeout of a concurrent writer.
const BUSY: Duration = Duration::from_secs(10);

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error("{}", words(.0))]
    Sqlite(#[from] rusqlite::Error),
    /// The value is not an id.
    #[error("session_id is a BLOB of {0} bytes, which is not an id")]
    Blob(usize),
}

/// Opens a database that another program writes.
///
/// # Errors
/// SQLite's error, also if there is no database.
pub(crate) fn open(path: &Path) -> Result<Connection, rusqlite::Error> {
    let database =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    database.busy_timeout(BUSY)?;
    Ok(database)
}

/// The id of the session that was recorded first, unchanged; `null` if there is none.
///
/// # Errors
/// If the database cannot be read.
pub(crate) fn session_id(path: &Path) -> Result<Json, DatabaseError> {
    let database = open(path)?;
    let mut rows = database.prepare("SELECT session_id FROM sessions LIMIT 1")?;
    rows.query_row([], |row| Ok(value(row.get_ref(0)?))).optional()?.unwrap_or(Ok(Json::Null))
}

/// A value as JSON.
///
/// # Errors
/// If it is a BLOB, or not text.
pub(crate) fn value(value: ValueRef<'_>) -> Result<Json, DatabaseError> {
    match value {
        ValueRef::Null => Ok(Json::Null),
        ValueRef::Integer(number) => Ok(Json::integer(number)),
        ValueRef::Real(number) => Ok(Json::float(number)),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Ok(Json::text(text)),
            Err(error) => Err(rusqlite::Error::Utf8Error(0, error).into()),
        },
        ValueRef::Blob(bytes) => Err(DatabaseError::Blob(bytes.len())),
    }
}

/// SQLite's own message, without the library's additions.
pub(crate) fn words(error: &rusqlite::Error) -> String {
    match (error.sqlite_error_code(), error) {
        (Some(ErrorCode::CannotOpen), _) => "unable to open database file".to_owned(),
        (Some(ErrorCode::NotADatabase), _) => "file is not a database".to_owned(),
        (Some(ErrorCode::DatabaseBusy), _) => "database is locked".to_owned(),
        (Some(ErrorCode::ReadOnly), _) => "attempt to write a readonly database".to_owned(),
        (_, rusqlite::Error::SqliteFailure(_, Some(words))) => words.clone(),
        (_, rusqlite::Error::SqlInputError { msg, .. }) => msg.clone(),
        (_, other) => other.to_string(),
    }
}
