//! `register-session`: records the start of a session in the state file, and the completed bootstrap in the sentinel.
//! Results and messages are those of the program it replaces; `docs/trusted.md` lists the improvements.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

use super::database::{self, DatabaseError};
use super::json::{Json, Text};
use super::places::Places;
use super::state_file::SCHEMA_VERSION;
use super::{answer, continuation, files, say, time};
use crate::{clock, env};

const TOOL: &str = "register-session";
/// Name of the session.
const NAME: &str = "NANOCLAW_SESSION_NAME";
/// The agent CLI's session id, which is written to the sentinel.
pub(crate) const ID: &str = "CLAUDE_SESSION_ID";

/// Registers the session. Exit codes: 0 success, 1 if nothing was registered or the sentinel cannot be written.
pub(crate) fn main() -> ExitCode {
    match run() {
        Ok(done) => {
            answer(&done);
            ExitCode::SUCCESS
        }
        Err(why) => {
            say(TOOL, why);
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Json, String> {
    let places = Places::of_process(TOOL);
    let session_id = session_id(&places)?;
    let name = env::raw(NAME).unwrap_or_else(|| OsString::from("default"));
    if name.is_empty() {
        say(TOOL, format_args!("${NAME} is set and empty; registering under the empty name"));
    }
    let name = Text::of_system(&name);
    let now = clock::now_ms() / 1000;
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let time = Json::text(&time::utc(now));
    let session = Json::object([
        ("started", time.clone()),
        ("epoch", Json::integer(now)),
        ("session_id", session_id.clone()),
        ("last_seen", time),
    ]);
    let mended = places.state().register(name.clone(), session, session_id.clone()).map_err(|why| why.to_string())?;
    mended.iter().for_each(|what| say(TOOL, what));
    let wrote_sentinel = sentinel(&places.sentinel())?;
    Ok(Json::object([
        ("session_id", session_id),
        ("session_name", Json::Text(name)),
        ("schema_version", Json::integer(SCHEMA_VERSION)),
        ("wrote_state", Json::Bool(true)),
        ("wrote_sentinel", Json::Bool(wrote_sentinel)),
    ]))
}

/// The session id from the database, else the provider's continuation, else null.
fn session_id(places: &Places) -> Result<Json, String> {
    let path = places.messages_db();
    let unread = |why: &DatabaseError| format!("cannot read session_id from {}: {why}", path.display());
    match database::session_id(&path) {
        Ok(id) => Ok(id),
        Err(why @ DatabaseError::Blob(_)) => Err(unread(&why)),
        Err(why) => {
            let known = continuation::of_session(places.roots());
            // A missing database is fine if there is another source.
            if known.is_none() || path.exists() {
                say(TOOL, unread(&why));
            }
            Ok(known.map_or(Json::Null, |id| Json::text(&id)))
        }
    }
}

/// Writes the sentinel. Returns false, without writing, for an id that the sentinel's reader would consider missing.
fn sentinel(path: &Path) -> Result<bool, String> {
    let id = env::raw(ID).unwrap_or_default();
    if id.is_empty() {
        say(TOOL, format_args!("${ID} missing/empty; skipping sentinel write so next run re-bootstraps"));
        return Ok(false);
    }
    let Some(text) = id.to_str() else {
        say(TOOL, format_args!("${ID} is not UTF-8; skipping sentinel write so next run re-bootstraps"));
        return Ok(false);
    };
    if super::stripped(text) != text {
        say(
            TOOL,
            format_args!("${ID} has white space around it, so that no sentinel matches it; next run re-bootstraps"),
        );
    }
    match files::write(path, id.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) => Err(format!("failed to write sentinel {}: {}", path.display(), files::system(&error, path))),
    }
}
