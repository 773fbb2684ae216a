//! Files that agents, programs beside them and operators write.

use agent_runner::rewritten;
use hearth::config::file::{parse, write::write};
use hearth::contracts::nanoclaw::settings_of;
use hearth::contracts::{allowlist, claw, skips as skip_files, state_file};
use hearth::mailbox::{Judged, judge};
use hearth::model::Timestamp;
use hearth::model::configure::Change;
use hearth::model::content::BlobId;
use hearth::model::entity::{EnvValue, Folder};
use hearth::model::skip::{SkipStep, SkipTrouble};
use hearth_wire::{
    Ack, AckName, Context, Heartbeat, InMessage, InName, OutId, OutMessage, Reply, SessionFile, State,
    is_safe_file_name, limits,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{headed, is_json};

/// A file's name in a line, then its bytes. A file that is read and written again keeps its meaning, names have one
/// spelling, and accepted input is bounded.
pub fn wire(bytes: &[u8]) {
    let Some((name, body)) = headed(bytes) else { return };
    let file = name.rsplit('/').next().unwrap_or_default();
    if let Some(ack) = AckName::parse(file) {
        assert_eq!(ack.to_string(), file);
    }
    if let Some(message) = InName::parse(file) {
        assert_eq!(message.to_string(), file);
    }
    if let Some(id) = OutId::from_file_name(file) {
        assert_eq!(id.file_name(), file);
    }
    assert!(!is_safe_file_name(name) || (!name.contains('/') && name.len() <= limits::NAME_BYTES));
    match judge(name, body) {
        Ok(Judged::Said(said, _)) => {
            is_json(said.content.as_str());
            assert!(said.number % 2 == 1 && said.content.as_str().len() as u64 <= limits::JSON_BYTES);
        }
        Ok(Judged::Ack(failure, _)) => assert!(!failure.error.is_empty()),
        Ok(Judged::Own) => {}
        Err(why) => assert!(!why.is_empty() && !why.contains('\0'), "{why}"),
    }
    same::<Ack>(body);
    same::<Context>(body);
    same::<Heartbeat>(body);
    same::<SessionFile>(body);
    same::<State>(body);
    // Numbers of payloads may be rounded once, when they are first read.
    settles::<InMessage>(body);
    settles::<OutMessage>(body);
    settles::<Reply>(body);
}

fn same<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else { return };
    let written = serde_json::to_vec(&read).expect("what was read can be written");
    assert_eq!(serde_json::from_slice::<T>(&written).expect("what was written can be read"), read);
}

fn settles<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else { return };
    let written = serde_json::to_vec(&read).expect("what was read can be written");
    serde_json::from_slice::<T>(&written).expect("what was written can be read");
}

/// In an accepted state file, every value is JSON, field names are JSON strings without their quotes, and all ids
/// differ.
pub fn session_state(bytes: &[u8]) {
    let parsed = state_file::parse(bytes);
    assert_eq!(parsed, state_file::parse(bytes));
    let state_file::Parsed::Fields(document, ids) = parsed else { return };
    for field in &document.fields {
        reads(field.value.as_str());
        reads(&format!("\"{}\"", field.name.as_str()));
    }
    if let Some(pending) = &document.pending {
        reads(pending.value.as_str());
    }
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), ids.len());
    ids.iter().for_each(|id| reads(id));
    assert!(document.ids >= ids.len() as u64);
}

/// Reads the file as other programs would. The file's own reader handles unpaired surrogates and depth.
fn reads(json: &str) {
    let whole = format!("{{\"schema_version\": 1, \"x\": {json}}}");
    let parsed = state_file::parse(whole.as_bytes());
    assert!(!matches!(parsed, state_file::Parsed::Unreadable(_)), "{parsed:?}: {json}");
}

/// A JSON text. Whatever other parsers accept is read and written in a form that is stable when read and written again.
/// Host and runner write the same file, so neither may see a change in what the other wrote.
pub fn json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let written = match rewritten(text) {
        Ok(written) => written,
        Err(why) => {
            let others = serde_json::from_str::<serde::de::IgnoredAny>(text);
            return assert!(others.is_err() || why.contains("levels of nesting"), "{why}: {text}");
        }
    };
    assert!(written.is_ascii(), "{written}");
    assert_eq!(rewritten(&written).as_ref(), Ok(&written));
    match state_file::parse(format!("{{\"schema_version\": 1, \"x\": {text}}}").as_bytes()) {
        state_file::Parsed::Fields(document, _) => {
            for field in &document.fields {
                let name = format!("\"{}\"", field.name.as_str());
                assert_eq!(rewritten(&name), Ok(name.clone()));
                assert_eq!(rewritten(field.value.as_str()), Ok(field.value.as_str().to_owned()));
            }
        }
        // With indentation it may be too large, or it is nested deeper than the host reads.
        state_file::Parsed::Refused(_) => {}
        state_file::Parsed::Unreadable(why) => assert!(why.contains("nested too deeply"), "{why}: {text}"),
    }
}

/// An accepted summary is within its limits, and a refusal states a reason.
pub fn skips(bytes: &[u8]) {
    let digest = BlobId::of_digest(&[7; 32]);
    match skip_files::parse("check-email", bytes, digest) {
        Ok(report) => {
            assert!(!report.reason.trim().is_empty() && !report.reason.contains(['\n', '\r', '\u{2028}']));
            assert!(report.reason.chars().count() <= 4_096 && report.items.len() <= 1_000);
            assert!(report.items.iter().all(|item| !item.trim().is_empty()));
            if let SkipStep::Name(name) = &report.step {
                assert!(!name.trim().is_empty());
            }
        }
        Err(SkipTrouble::Version(version)) => assert_ne!(version, 1),
        Err(trouble) => assert!(!format!("{trouble:?}").is_empty()),
    }
}

/// A session file that is read is written as a file with the same meaning, and stays stable.
pub fn claw(bytes: &[u8]) {
    let modified = Timestamp::from_millis(1_776_686_400_000);
    let read = match claw::decode(bytes, "session-1776686400000-0", modified) {
        Ok(read) => read,
        Err(damage) => return assert!(!damage.to_string().is_empty()),
    };
    let written = claw::encode(&read.head, &read.records);
    let again = claw::decode(written.as_bytes(), "session-1776686400000-0", modified)
        .unwrap_or_else(|damage| panic!("{damage}: {written}"));
    assert_eq!(again.records.len(), read.records.len(), "{written}");
    assert_eq!(claw::encode(&again.head, &again.records), written);
}

/// An allow-list is accepted, or refused with a reason.
pub fn allowlist(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match allowlist::check(text) {
        Ok(roots) => assert!(roots <= text.matches("path").count()),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// The container configuration of a NanoClaw agent. What is imported can be written in `hearth.toml` with the same
/// meaning. A variable named like a secret gets no value, only a reference to its source.
pub fn nanoclaw(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let folder = Folder::new("main").expect("a folder");
    let (settings, notes) = settings_of(&folder, "Andy", text);
    assert_eq!((settings.clone(), notes.clone()), settings_of(&folder, "Andy", text));
    assert!(notes.iter().all(|note| !note.trim().is_empty()), "{notes:?}");
    for (name, value) in settings.mcp_servers.iter().flat_map(|server| &server.env) {
        let secret = ["TOKEN", "KEY", "SECRET", "PASS", "AUTH", "CREDENTIAL"]
            .iter()
            .any(|part| name.to_uppercase().contains(part));
        assert_eq!(secret, matches!(value, EnvValue::Reference(_)), "{name}: {value:?}");
    }
    let change = Change::PutAgent(folder, settings);
    let written = write(std::slice::from_ref(&change));
    let again = parse("written", &written).unwrap_or_else(|bad| panic!("{bad}\n{written}"));
    assert_eq!(again.changes, [change], "{written}");
}
