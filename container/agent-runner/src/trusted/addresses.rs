//! `migrate-addresses-block`: updates the addresses block in the owner's profile to the current version.

use std::path::PathBuf;

use super::append::class;
use super::json::{Json, Text};
use super::options::{Options, ParsedArgs};
use super::places::Places;
use super::{End, files};
use crate::env;

/// The command line of `migrate-addresses-block`.
pub(crate) const OPTIONS: Options = Options {
    tool: "migrate-addresses-block",
    usage: "usage: migrate-addresses-block [--profile PATH]",
    values: &["--profile"],
    flags: &[],
};

const HEADING: &str = "## Addresses";
/// Where the format of the block is documented, named in messages.
const SHAPE: &str = "skills/trusted-memory/state-schema.md";
const STAMP: &str = "schema_version";
const VERSION: i64 = 2;
const REQUIRED: [&str; 2] = ["current_home", "home_airport"];

/// Raises the block's version, if the block is complete and not of a later version.
pub(crate) fn main(words: &[String]) -> Result<Json, End> {
    let path = profile(&OPTIONS.read(words)?)?;
    let shown = path.display();
    let unread = |class: &str| {
        End::Failed(format!("cannot read {shown} ({class}) \u{2014} fix the file's permissions/encoding and re-run"))
    };
    let bytes = files::read(&path).map_err(|error| unread(class(&error)))?;
    let missing = || {
        End::Failed(format!(
            "owner profile not found at {shown} \u{2014} the canonical `{HEADING}` block lives in user_profile.md; create it (see {SHAPE}) and re-run"
        ))
    };
    let text = String::from_utf8(bytes.ok_or_else(missing)?).map_err(|_| unread("UnicodeDecodeError"))?;
    let plan = plan(&text).map_err(|why| {
        End::Failed(format!(
            "{why} in {shown} \u{2014} see {SHAPE} for the canonical block shape; a stamp above this writer's version means upgrading this plugin, never hand-editing the block down"
        ))
    })?;
    let from = plan.from.map_or(Json::Null, Json::integer);
    let migrated = plan.text.is_some();
    if let Some(text) = plan.text {
        files::write(&path, text.as_bytes()).map_err(|error| {
            End::Failed(format!(
                "cannot write {shown} ({}) \u{2014} the block is unchanged on disk; fix the permissions/mount and re-run",
                files::system(&error, &path)
            ))
        })?;
    }
    Ok(Json::object([
        ("migrated", Json::Bool(migrated)),
        ("from", from),
        ("to", Json::integer(VERSION)),
        ("path", Json::Text(Text::of_system(path.as_os_str()))),
    ]))
}

fn profile(given: &ParsedArgs) -> Result<PathBuf, End> {
    let told = given.value("--profile").map(PathBuf::from).or_else(|| env::raw("USER_PROFILE_PATH").map(PathBuf::from));
    let own = || Places::of_process(OPTIONS.tool).trusted("user_profile.md");
    told.or_else(own).ok_or_else(super::not_trusted)
}

#[derive(Debug, PartialEq, Eq)]
struct AddressPlan {
    from: Option<i64>,
    /// The new text, if it differs.
    text: Option<String>,
}

/// Plans the change of a profile.
fn plan(text: &str) -> Result<AddressPlan, String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let heading = lines.iter().position(|line| title(line) == Some("Addresses"));
    let begin = heading.ok_or_else(|| format!("no `{HEADING}` block"))? + 1;
    let (before, rest) = lines.split_at(begin);
    let end = rest.iter().position(|line| title(line).is_some()).unwrap_or(rest.len());
    let (block, after) = rest.split_at(end);
    let stamp = block.iter().position(|line| entry(line).is_some_and(|(key, _)| key == STAMP));
    let from = match stamp.and_then(|at| block.get(at)).and_then(|line| entry(line)) {
        None => None,
        Some((_, value)) => Some(value.parse::<i64>().map_err(|_| format!("unreadable schema_version '{value}'"))?),
    };
    match from {
        Some(version) if version > VERSION => {
            Err(format!("block is at schema_version={version}, above this writer's {VERSION}"))
        }
        Some(VERSION) => Ok(AddressPlan { from, text: None }),
        _ => {
            complete(block)?;
            let stamped = stamped(block, stamp);
            Ok(AddressPlan { from, text: Some([before.concat(), stamped, after.concat()].concat()) })
        }
    }
}

/// Checks that every required key has a value; otherwise the version would be wrong.
fn complete(block: &[&str]) -> Result<(), String> {
    let has =
        |key: &str| block.iter().filter_map(|line| entry(line)).any(|(name, value)| name == key && !value.is_empty());
    let missing: Vec<&str> = REQUIRED.into_iter().filter(|key| !has(key)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("block is missing required key(s): {}", missing.join(", ")))
}

/// The block with the new version, in place of the old one or above the first entry.
fn stamped(block: &[&str], stamp: Option<usize>) -> String {
    let first = block.iter().position(|line| line.trim_start().starts_with('-'));
    let mut out = String::new();
    for (at, line) in block.iter().enumerate() {
        let content = line.trim_end_matches(['\n', '\r']);
        let ending = line.get(content.len()..).unwrap_or_default();
        if stamp == Some(at) {
            let key = content.split_once(':').map_or(content, |(key, _)| key);
            out.push_str(&format!("{key}: {VERSION}{ending}"));
            continue;
        }
        if stamp.is_none() && first == Some(at) {
            let ending = if ending.is_empty() { "\n" } else { ending };
            out.push_str(&format!("- {STAMP}: {VERSION}{ending}"));
        }
        out.push_str(line);
    }
    remarked(&out)
}

/// The block with the new version in the first comment that contains one.
fn remarked(block: &str) -> String {
    const NAMES: &str = "schema v";
    let mut from = 0;
    while let Some(open) = block.get(from..).and_then(|rest| rest.find("<!--")).map(|at| from + at) {
        let rest = block.get(open..).unwrap_or_default();
        let comment = rest.get(..rest.find("-->").unwrap_or(rest.len())).unwrap_or_default();
        for (at, _) in comment.match_indices(NAMES) {
            let begin = open + at + NAMES.len();
            let number = block.get(begin..).unwrap_or_default();
            let digits = number.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                let (before, after) = (block.get(..begin), block.get(begin + digits..));
                return format!("{}{VERSION}{}", before.unwrap_or_default(), after.unwrap_or_default());
            }
        }
        from = open + "<!--".len();
    }
    block.to_owned()
}

/// The title of a level-two heading.
fn title(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches([' ', '\t']).strip_prefix("##")?;
    let title = rest.trim_matches([' ', '\t', '\r', '\n']);
    (rest.starts_with([' ', '\t']) && !title.is_empty()).then_some(title)
}

/// Key and value of a line `- key: value`.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.trim().strip_prefix('-')?.split_once(':')?;
    Some((key.trim(), value.trim()))
}
